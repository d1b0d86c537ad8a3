"""What does the harness add, and does it tell the same time as a bare loop? Both in one run, taking turns.

    python benchmarks/harness_overhead.py [--seconds 12] [--optimum PYTHON] [--strict]

1. A workload of 1 ms: time per call inside the protocol (values, and wall time per call) against a bare loop of the same calls.
   Overhead is wall time per call of the protocol over that of the bare loop; 2 % is the limit. The median of the values over
   the median of a bare synchronised loop is to agree within 1 %.
2. The same with a model: BERT of two layers on this CPU, one thread.
3. ``--optimum``: an interpreter of its own environment in which optimum-benchmark is installed, as a third column on the same model.

Rounds alternate and the ratio is taken round by round, so that what drifts on the host touches all. Prints a table. A busy host exceeds
a limit without a fault of ours, so that is printed; with ``--strict`` it is exit status 1.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any, Optional

from neuronfit.measure import Plan, Session, Setting
from neuronfit.params import Shape
from neuronfit.targets import Subject
from neuronfit.targets.cpu import CpuTarget

OVERHEAD, AGREE = 0.02, 0.01
MODEL = {
    "model_type": "bert",
    "hidden_size": 256,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 1024,
    "vocab_size": 1000,
    "max_position_embeddings": 128,
}
SHAPE = Shape(batch_size=1, sequence_length=64)


class Spin:
    """Exactly one millisecond of work, by looking at the clock."""

    def issue(self) -> None:
        end = time.perf_counter() + 0.001
        while time.perf_counter() < end:
            pass

    def drain(self) -> None: ...


def bare(target: Any, seconds: float) -> tuple[float, float]:
    """(median seconds of a call, wall seconds per call) of a loop that does nothing else, warmed up as the protocol does it."""
    Session([Setting(target)], Plan(runs=1, budget_s=4 * seconds, width=0, prove=False))._warm_up(Setting(target))
    values, begin = [], time.perf_counter()
    while time.perf_counter() - begin < seconds:
        start = time.perf_counter()
        target.issue()
        target.drain()
        values.append(time.perf_counter() - start)
    return median(values), (time.perf_counter() - begin) / len(values)


def ours(target: Any, seconds: float) -> tuple[float, float]:
    """The same of one run of the protocol, as ``neuronfit measure`` takes it."""
    session = Session([Setting(target)], Plan(runs=1, budget_s=4 * seconds, width=0, prove=False))
    setting = session.settings[0]
    session._warm_up(setting)
    session._one_run(setting)
    run = setting.runs[0]
    return median(run.values_s), run.duration_s / len(run.values_s)


def side_by_side(name: str, target: Any, seconds: float, rounds: int) -> bool:
    """Print one row; whether both limits are kept."""
    ways: tuple[Callable[[Any, float], tuple[float, float]], ...] = (bare, ours)
    taken: dict[Any, list[tuple[float, float]]] = {way: [] for way in ways}
    for number in range(rounds):
        for way in ways if number % 2 == 0 else reversed(ways):
            taken[way].append(way(target, seconds / rounds / 2))
    medians = median(mine[0] / plain[0] for mine, plain in zip(taken[ours], taken[bare]))
    walls = median(mine[1] / plain[1] for mine, plain in zip(taken[ours], taken[bare]))
    plain, mine = (median(entry[0] for entry in taken[way]) for way in ways)
    kept = abs(medians - 1) <= AGREE and walls - 1 <= OVERHEAD
    print(f"{name:<28} {plain * 1e3:>10.4f} {mine * 1e3:>10.4f} {medians - 1:>+9.2%} {walls - 1:>+9.2%}   {'ok' if kept else 'EXCEEDED'}")
    return kept


def optimum(python: str, built: Any, seconds: float) -> Optional[float]:
    """Median latency, seconds, that optimum-benchmark reports for the same model; ``None`` and a line where it does not run."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        built.save_pretrained(folder)
        code = f"""
from optimum_benchmark import Benchmark, BenchmarkConfig, InferenceConfig, InlineConfig, PyTorchConfig
config = BenchmarkConfig(
    name="bert", launcher=InlineConfig(), backend=PyTorchConfig(model={str(folder)!r}, processor={str(folder)!r}, no_weights=False, device="cpu",
    task="feature-extraction", library="transformers", model_type="bert", inter_op_num_threads=1, intra_op_num_threads=1),
    scenario=InferenceConfig(latency=True, memory=False, duration={seconds}, warmup_runs=10,
    input_shapes={{"batch_size": {SHAPE.batch_size}, "sequence_length": {SHAPE.sequence_length}}}))
report = Benchmark.launch(config)
print("median", report.forward.latency.p50)
"""
        done = subprocess.run([python, "-c", code], capture_output=True, text=True, check=False, cwd=folder)
        found = [line.split()[1] for line in done.stdout.splitlines() if line.startswith("median ")]
        if not found:
            lines = [line for line in done.stderr.splitlines() if line.strip()]
            print(f"optimum-benchmark did not run: {lines[-1][:200] if lines else f'status {done.returncode}'}")
            return None
        return float(found[0])


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--seconds", type=float, default=12.0, help="per row")
    arguments.add_argument("--rounds", type=int, default=40)
    arguments.add_argument("--optimum", metavar="PYTHON", help="interpreter with optimum-benchmark")
    arguments.add_argument("--strict", action="store_true", help="exit status 1 when a limit is exceeded; for a quiet host")
    given = arguments.parse_args()
    print(f"{'median call, ms':<28} {'bare loop':>10} {'neuronfit':>10} {'values':>9} {'wall':>9}")
    kept = side_by_side("1 ms of spinning", Spin(), given.seconds, given.rounds)
    target = CpuTarget(Subject(config=MODEL, task="feature-extraction", settings={"threads": 1}))
    target.prepare(SHAPE)
    kept &= side_by_side("BERT, 2 layers, 1 thread", target, given.seconds, given.rounds)
    if given.optimum:
        theirs = optimum(given.optimum, target._model, given.seconds)
        if theirs is not None:
            middle = bare(target, given.seconds)[0]
            print(
                f"{'the same, optimum-benchmark':<28} {middle * 1e3:>10.4f} {theirs * 1e3:>10.4f} {theirs / middle - 1:>+9.2%}   (not in turns: another process)"
            )
    return 1 if given.strict and not kept else 0


if __name__ == "__main__":
    sys.exit(main())
