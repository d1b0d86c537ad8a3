"""What evaluating a running test costs the requests under way: ``python benchmarks/trial_looks.py``.

A task in the event loop asks for the time every millisecond, as a request's answer would. In turns it is left alone, disturbed by looks
that are taken in another thread (as a test does), and by looks taken in the loop itself. The figure is how much later than asked it wakes.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time

import numpy as np
from neuronfit.record import TrialCriterion
from neuronfit.trial.evaluate import Judge, judge
from neuronfit.trial.ledger import Entry, Ledger
from neuronfit.trial.run import SWITCH_S

METRICS = ("latency_p50", "latency_p95", "latency_p99")


def entries_of(count: int) -> Ledger:
    generator = np.random.default_rng(1)
    return Ledger(
        Entry(n=n // 2, stage=0, arm=("baseline", "candidate")[n % 2], due=0.0, end=float(value))
        for n, value in enumerate(generator.lognormal(-4, 0.4, count))
    )


def judges(planned: int) -> list[Judge]:
    ratios = [TrialCriterion(name=name, metric=name, compare="baseline", margin=0.05, stages=("shadow",), says=name) for name in METRICS]
    errors = TrialCriterion(name="error_rate", metric="error_rate", compare="bound", bound=0.01, stages=("shadow",), says="errors")
    return [judge(criterion, True, planned, 0.0125) for criterion in (*ratios, errors)]


def look(all_judges: list[Judge], entries: Ledger) -> None:
    for one in all_judges:
        one.take(entries)


async def lateness(seconds: float, how: str, entries: Ledger, looks: int) -> tuple[np.ndarray, float]:
    """Seconds by which each wake-up was late, and the mean time of a look."""
    late, taken, over = [], [], asyncio.Event()

    async def ticker() -> None:
        due = time.perf_counter()
        while not over.is_set():
            due = max(due + 0.001, time.perf_counter())
            await asyncio.sleep(due - time.perf_counter())
            late.append(time.perf_counter() - due)

    async def looking() -> None:
        mine = judges(len(entries))
        for number in range(1, looks + 1):
            await asyncio.sleep(seconds / looks)
            begin, part = time.perf_counter(), entries[: len(entries) * number // looks]
            if how == "thread":
                await asyncio.to_thread(look, mine, part)
            elif how == "loop":
                look(mine, part)
            taken.append(time.perf_counter() - begin)
        over.set()

    await asyncio.gather(ticker(), looking())
    return np.array(late), float(np.mean(taken))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--entries", type=int, default=10_000)
    parser.add_argument("--seconds", type=float, default=4)
    parser.add_argument("--looks", type=int, default=20)
    asked = parser.parse_args()
    sys.setswitchinterval(SWITCH_S)
    entries = entries_of(asked.entries)
    look(judges(len(entries)), entries)  # what is imported in the first look is no part of the others
    print(f"{asked.entries:,} entries, {asked.looks} looks at {len(METRICS)} quantiles and a share")
    print(f"{'looks taken':<14}{'late p50':>10}{'p99':>8}{'most':>8}{'a look takes':>15}   ms")
    for how in ("nowhere", "thread", "loop", "nowhere", "thread"):
        late, taken = asyncio.run(lateness(asked.seconds, how, entries, asked.looks))
        p50, p99 = np.quantile(late, (0.5, 0.99)) * 1e3
        print(f"{how:<14}{p50:>10.2f}{p99:>8.2f}{late.max() * 1e3:>8.2f}{taken * 1e3:>15.1f}")


if __name__ == "__main__":
    main()
