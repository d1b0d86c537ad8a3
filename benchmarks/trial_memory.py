"""What a long test costs to read and to judge: ``python benchmarks/trial_memory.py --millions 13``.

Writes a log of so many requests (no server is asked): a fifth of them in a shadow stage, which pairs, the rest in a canary of 50 %, with a
hundred looks each. Then the log is read and every criterion judged, as at the end of a test. Prints time and the largest resident memory
of the process, beside what is promised in ``docs/trial.md``: 2 GiB.
"""

from __future__ import annotations

import argparse
import resource
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from example_questions import question  # noqa: E402
from neuronfit import trial  # noqa: E402
from neuronfit.trial.evaluate import evaluate  # noqa: E402
from neuronfit.trial.ledger import ROW  # noqa: E402
from neuronfit.trial.log import Log, read  # noqa: E402

LOOKS = 100
BLOCK = 100_000
CRITERIA = [{"metric": metric} for metric in ("latency_p50", "latency_p95", "latency_p99", "error_rate", "agreement", "throughput")]


def write(path: Path, plan_id: str, counts: tuple[int, int]) -> None:
    """Lines as a test writes them, made a block at a time."""
    generator = np.random.default_rng(1)
    log = Log(path)
    log.begin(plan_id, "2026-11-30T12:00:00Z")
    log.close()
    with path.open("a", encoding="utf-8") as file:
        for stage, count in enumerate(counts):
            paired, asked = stage == 0, count // 2 if stage == 0 else count
            file.write(f'{{"event": "stage", "stage": {stage}, "name": "x", "per_side": {count // 2}}}\n')
            written, looked = 0, 1
            for start in range(0, asked, BLOCK):
                size = min(BLOCK, asked - start)
                base, own = generator.lognormal(-4, 0.4, size), generator.lognormal(0, 0.1, (2, size))
                candidate, failed = generator.random(size) < 0.5, generator.random(size) < 0.0005
                for place in range(size):
                    n, due = start + place, (start + place) / 400
                    for side in (0, 1) if paired else (int(candidate[place]),):
                        end = due + base[place] * own[side, place]
                        outcome = (
                            '"error":"http 500: no"' if failed[place] and side else f'"hash":"{n % 997:012x}"' + ',"agree":true' * (paired and side)
                        )
                        arm = ("baseline", "candidate")[side]
                        file.write(f'{{"n":{n},"stage":{stage},"arm":"{arm}","due":{due:.7f},"sent":{due + 1e-4:.7f},"end":{end:.7f},{outcome}}}\n')
                        written += 1
                    if written * LOOKS >= looked * count:
                        file.write(f'{{"event": "look", "stage": {stage}, "count": {written}}}\n')
                        looked += 1
            file.write(f'{{"event": "stage_end", "stage": {stage}}}\n')
        file.write('{"event": "end", "why": "finished", "utc": "2026-11-30T20:00:00Z"}\n')


def most_gib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--millions", type=float, default=4.0)
    asked = parser.parse_args()
    total = round(asked.millions * 1e6)
    counts = (2 * (total // 10), total - 2 * (total // 10))
    with tempfile.TemporaryDirectory() as folder:
        stages = [{"name": "shadow", "duration_min": 60}, {"name": "canary", "share": 0.5, "duration_min": 240}]
        plan = trial.plan(question(Path(folder), trial={"stages": stages, "criteria": CRITERIA, "candidate": "inf2"}, objective={}))
        path = Path(folder) / "log.jsonl"
        write(path, plan.id, counts)
        before, begin = most_gib(), time.perf_counter()
        logged = read(path)
        read_s, read_gib = time.perf_counter() - begin, most_gib()
        entries = sum(map(len, logged.stages.values()))
        begin = time.perf_counter()
        results, found = evaluate(plan, logged)
        judged_s = time.perf_counter() - begin
        print(f"log of {path.stat().st_size / 2**20:,.0f} MiB, {entries:,} requests, {LOOKS} looks a stage, {len(CRITERIA)} criteria")
        print(f"{'':<10}{'s':>8}{'us a request':>14}{'most resident, GiB':>20}")
        print(f"{'before':<10}{'':>8}{'':>14}{before:>20.2f}")
        print(f"{'read':<10}{read_s:>8.1f}{read_s / entries * 1e6:>14.2f}{read_gib:>20.2f}   {ROW.itemsize} bytes a request kept")
        print(f"{'judged':<10}{judged_s:>8.1f}{judged_s / entries * 1e6:>14.2f}{most_gib():>20.2f}   2 GiB are promised up to 16 million")
        assert sum(sum(stage.asked.values()) for stage in found) == total and logged.torn == logged.doubled == 0
        print("; ".join(f"{row.criterion} in {row.stage}: {row.outcome}" for row in results))


if __name__ == "__main__":
    main()
