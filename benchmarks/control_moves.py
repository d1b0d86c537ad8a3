"""How much computing does one move of notebook 05's controls take? Beside a whole answer of the same setting, in one run.

    python benchmarks/control_moves.py [--requests 387320] [--moves 12]

A trace of an hour and its repetitions is made in a temporary folder (twenty times the hour of Azure's conversation trace has 387,320 rows). *whole* is what the
record of step 5 does for a target: the traffic read, three policies simulated, the curve of latency. *move* is what a control does, figures drawn. CPU seconds of
all threads, not wall time: other programs may be running. Ends with status 1 where a move takes a second or more, or a whole answer's time.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from neuronfit import capacity, compare, params, utilization
from neuronfit.capacity import answer
from neuronfit.capacity.demand import demand_of
from neuronfit.question import Question, project_root
from neuronfit.show.capacity import latency_under_load, week_of_demand
from neuronfit.show.controls import Bench

MOST_S = 1.0


def trace(path: Path, requests: int) -> None:
    """Gamma gaps (a coefficient of variation of 1.5), 1,000 words in and 200 out on average."""
    rng = np.random.default_rng(5)
    seconds = np.cumsum(rng.gamma(1 / 1.5**2, 1.5**2 * 70_000 / requests, requests))
    moments = np.datetime64("2026-03-02T00:00:00") + (seconds * 1e6).astype("timedelta64[us]")
    rows = zip(moments, rng.integers(1, 2000, requests), rng.integers(1, 400, requests))
    path.write_text(
        "\n".join(["TIMESTAMP,ContextTokens,GeneratedTokens", *(f"{str(at).replace('T', ' ')},{given},{made}" for at, given, made in rows)]) + "\n"
    )


def cpu(work: Callable[..., Any], *args: Any) -> float:
    started = time.process_time()
    work(*args)
    return time.process_time() - started


def whole(question: Question, bench: Bench, target: str, times: float) -> None:
    _row, service, start, _usd = bench.of_target(target)
    settings = question.params.policy.capacity
    capacity.options(demand_of(question).times(times), service, bench.kept, settings, start)
    answer.curve_of(capacity.latency_at_load(service, 1, bench.kept, settings.batch_delay_ms / 1e3, settings.seed))


def move(bench: Bench, target: str, times: float, policy: str) -> None:
    now = bench.tried(target, times=times, policy=policy)
    week_of_demand(now.record)._repr_svg_()
    latency_under_load(now.record)._repr_svg_()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--requests", type=int, default=387_320)
    parser.add_argument("--moves", type=int, default=12)
    given, slow = parser.parse_args(), False
    for name in ("bert-base-uncased", "flan-t5-xl"):
        with tempfile.TemporaryDirectory(prefix="neuronfit-bench-") as folder:
            trace(Path(folder) / "trace.csv", given.requests)
            asked = yaml.safe_load((project_root() / "params" / f"{name}.yaml").read_text(encoding="utf-8"))
            question = Question(params.parse({**asked, "traffic": {"trace": {"file": str(Path(folder) / "trace.csv")}}}), reports=Path(folder))
            compare.compare(question)
            record = utilization.estimate(question)
            bench = Bench(question, record)
            targets = [row.target for row in record.targets if row.options]
            move(bench, targets[0], 1.0, "fixed")  # what the cell does when it is run
            moves, answers = [], []
            for turn in range(given.moves):
                target, times = targets[turn % len(targets)], 1.5 ** (1 + turn // 2)
                policy = ("fixed", "scheduled", "target_tracking")[turn % 3]
                moves.append(cpu(move, bench, target, times, policy))
                capacity.fleet.stretch.cache_clear()
                capacity.fleet.needed.cache_clear()
                answers.append(cpu(whole, question, bench, target, times))
                capacity.fleet.stretch.cache_clear()
                capacity.fleet.needed.cache_clear()
            ratios = [large / small for large, small in zip(answers, moves)]
            print(
                f"{name}, {given.requests:,} requests, {given.moves} moves, 1.5 to {times:.0f} times the rate: move {statistics.median(moves):.2f} s of CPU time "
                f"(at most {max(moves):.2f}), whole answer {statistics.median(answers):.2f} s (at most {max(answers):.2f}), "
                f"{statistics.median(ratios):.1f} times ({min(ratios):.1f} to {max(ratios):.1f})"
            )
            slow |= max(moves) >= MOST_S or statistics.median(ratios) < 1
    return int(slow)


if __name__ == "__main__":
    sys.exit(main())
