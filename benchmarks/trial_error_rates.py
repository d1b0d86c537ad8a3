"""How often the controlled test is wrong: ``python benchmarks/trial_error_rates.py``.

Simulated stages, each looked at 100 times by the judge that a real test uses, with latencies whose truth is known: without
a difference (how often it fails), and 10 % slower at the planned sample (how often that is found); paired and split, lognormal
and bimodal. Margin 0, confidence 0.95, so 2.5 % of the tests without a difference may fail, over all looks.
"""

from __future__ import annotations

import argparse
import math
import multiprocessing
import time

import numpy as np
from neuronfit import sequential
from neuronfit.record import TrialCriterion
from neuronfit.trial.evaluate import judge
from neuronfit.trial.log import Entry

ALPHA = 0.025
CRITERION = TrialCriterion(name="latency_p95", metric="latency_p95", compare="baseline", margin=0.0, stages=("shadow", "split"), says="p95")
SLOW_SHARE, SLOWER = 0.2, 3.0


def work(shape: str, count: int, generator: np.random.Generator) -> np.ndarray:
    """Latencies in s: lognormal with log-sd 0.4, or one in five three times as slow."""
    if shape == "lognormal":
        return generator.lognormal(-4, 0.4, count)
    return generator.lognormal(-4, 0.2, count) * np.where(generator.random(count) < SLOW_SHARE, SLOWER, 1.0)


def planned(shape: str) -> int:
    spread = sequential.spread_of_log_quantile(work(shape, 400_000, np.random.default_rng(0)), 0.95)
    return sequential.requests_needed(spread, margin=0.0, detect=0.1, alpha=ALPHA, power=0.8)


class Remembered(sequential.Boundary):
    """The same boundary, kept between tests whose looks are at the same shares."""

    known: dict[tuple[float, ...], float] = {}

    def __init__(self, alpha: float):
        super().__init__(alpha)
        self._asked: tuple[float, ...] = ()

    def at(self, fraction: float) -> float:
        self._asked = (*self._asked, fraction)
        if self._asked not in self.known:
            fresh = sequential.Boundary(self.alpha)
            for one in self._asked[:-1]:
                fresh.at(one)
            self.known[self._asked] = fresh.at(fraction)
        return self.known[self._asked]


def failed(given: tuple[str, bool, float, int, int, int]) -> bool:
    """One stage: does the test call the candidate slower?"""
    shape, paired, slower, count, looks, seed = given
    generator = np.random.default_rng((seed, paired, int(100 * slower), len(shape)))
    theirs = work(shape, count, generator)
    mine = theirs.copy() if paired else work(shape, count, generator)
    if paired:
        theirs, mine = (side * np.exp(generator.normal(0, 0.1, count)) for side in (theirs, mine))
    entries = []
    for n, values in enumerate(zip(mine * slower, theirs)):
        entries += [Entry(n=n, stage=0, arm=arm, due=0.0, end=float(value)) for arm, value in zip(("candidate", "baseline"), values)]
    one = judge(CRITERION, paired, count, ALPHA)
    one._boundary = Remembered(ALPHA)
    return any(one.take(entries, 2 * (count * look // looks)) == "failed" for look in range(1, looks + 1))


def warm(given: tuple[int, int]) -> None:
    """The boundary of a count, once a process."""
    count, looks = given
    fresh, shares = sequential.Boundary(ALPHA), ()
    for look in range(1, looks + 1):
        share = count * look // looks / count
        if share * count * 0.05 >= sequential.LEAST_TAIL:
            shares = (*shares, share)
            Remembered.known[shares] = fresh.at(share)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trials", type=int, default=1000)
    parser.add_argument("--looks", type=int, default=100)
    parser.add_argument("--processes", type=int, default=2)
    asked = parser.parse_args()
    print(f"{asked.trials} tests each, {asked.looks} looks, alpha {ALPHA:g} for each end")
    print(f"{'latencies':<12}{'traffic':<10}{'requests a side':>16}{'no difference: failed':>24}{'10 % slower: found':>21}")
    begin = time.perf_counter()
    for shape in ("lognormal", "bimodal"):
        count = planned(shape)
        warm((count, asked.looks))
        with multiprocessing.get_context("fork").Pool(asked.processes) as pool:
            for paired in (True, False):
                shares = []
                for slower in (1.0, 1.1):
                    jobs = [(shape, paired, slower, count, asked.looks, seed) for seed in range(asked.trials)]
                    shares.append(sum(pool.imap_unordered(failed, jobs, chunksize=10)) / asked.trials)
                error = math.sqrt(shares[0] * (1 - shares[0]) / asked.trials)
                traffic = "paired" if paired else "split"
                print(f"{shape:<12}{traffic:<10}{count:>16,}{f'{shares[0]:.1%} +- {error:.1%}':>24}{shares[1]:>21.1%}", flush=True)
    print(f"{time.perf_counter() - begin:.0f} s")


if __name__ == "__main__":
    main()
