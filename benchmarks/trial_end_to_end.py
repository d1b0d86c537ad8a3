"""The controlled test against real services: ``python benchmarks/trial_end_to_end.py``.

The full DistilBERT (66 million parameters) behind HTTP, in processes of its own: FP32 against BF16, which must pass; then BF16 against
itself with a fault of 15 % in time, 1 % of errors, one answer in ten wrong, a crash in mid-canary and a hang, each of which
must be found by the right criterion. A few minutes.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from example_questions import question  # noqa: E402
from neuronfit import trial  # noqa: E402
from servers import serving  # noqa: E402

FULL = {"hidden": 768, "layers": 6, "heads": 12, "length": 16}
CASES = (
    ("FP32 against BF16", {"precision": "fp32"}, {}, "passed", ""),
    ("15 % slower", {}, {"slower": 1.15}, "failed", "latency_p50"),
    ("1 % errors", {}, {"errors": 0.01}, "failed", "error_rate"),
    ("one in ten wrong", {}, {"wrong": 0.1}, "failed", "agreement"),
    ("crash in mid-canary", {}, {"crash_after": 5}, "failed", "error_rate"),
    ("hang in mid-canary", {}, {"hang_after": 5}, "failed", "error_rate"),
)


def asked(folder: Path, baseline: str, candidate: str, rate: float, minutes: float, canary_only: bool, errors: float, agreement: float):
    """``agreement`` is low for two precisions: labels of random weights are near ties; ``errors`` what the stage's requests can show."""
    canary = {"name": "canary 50 %", "share": 0.5, "duration_min": minutes / 2}
    section = {
        "baseline_url": baseline,
        "candidate_url": candidate,
        "candidate": "inf2",
        "rate_per_s": rate,
        "timeout_s": 5.0,
        "evaluate_every_s": 2.0,
        "agree_on": "label",
        "latency_margin": 0.05,
        "detect": 0.15,
        "max_error_rate": 0.05,
        "min_agreement": 0.75,
        "stages": [canary] if canary_only else [{"name": "shadow", "duration_min": minutes}, canary],
        "criteria": [
            {"metric": "latency_p50"},
            {"metric": "error_rate", "bound": errors},
            {"metric": "agreement", "bound": agreement},
        ],
    }
    return question(folder, trial=section, objective={})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rate", type=float, default=8, help="requests per second; half of it where one side is FP32")
    parser.add_argument("--minutes", type=float, default=3, help="length of the shadow stage; the canary takes half of it")
    given = parser.parse_args()
    print(f"{'case':<22}{'verdict':<14}{'after':>8}{'requests':>10}  says")
    for name, baseline, fault, status, word in CASES:
        mid_canary = "mid-canary" in name
        sides = {"precision": "bf16", **FULL, **baseline}, {"precision": "bf16", **FULL, **fault}
        with tempfile.TemporaryDirectory() as folder, serving("classifier", **sides[0]) as mine, serving("classifier", **sides[1]) as theirs:
            rate = given.rate / 2 if baseline else given.rate
            this = asked(Path(folder), mine.url, theirs.url, rate, given.minutes, mid_canary, 0.02 if baseline else 0.001, 0.8 if baseline else 0.95)
            if mid_canary:  # five answers of the rehearsal, and some of the canary, before the fault
                fault = {key: 5 + round(rate * 5) for key in fault}
                set_fault(theirs.url, fault)
            begin = time.perf_counter()
            record = trial.run(this, progress=False)
            taken = time.perf_counter() - begin
        sent = sum(sum(stage.asked.values()) for stage in record.stages)
        right = record.status == status or {record.status, status} == {"failed", "aborted"}
        good = right and word in record.bottom_line and (status == "passed" or record.rolled_back is True)
        print(f"{name:<22}{record.status:<14}{taken:>6.0f} s{sent:>10,}  {'' if good else 'NOT AS EXPECTED: '}{record.bottom_line}", flush=True)


def set_fault(url: str, fault: dict) -> None:
    import json
    import urllib.request

    asked = urllib.request.Request(f"{url}/set", data=json.dumps(fault).encode(), headers={"Content-Type": "application/json"})
    urllib.request.urlopen(asked, timeout=10).read()


if __name__ == "__main__":
    main()
