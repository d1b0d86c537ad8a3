"""The controlled test against real services: ``python benchmarks/trial_end_to_end.py``.

The full DistilBERT (66 million parameters) behind HTTP, in processes of its own: FP32 against BF16 through every kind of stage in a compressed
schedule, and a small decoder that streams against its like, which must pass; then BF16 against itself with a fault of 15 % in
time, 1 % of errors, one answer in ten wrong, a crash in mid-canary and a hang, each of which must be found by the right criterion.
Ten minutes on a quiet machine. Exits with 1 when a case does not end as it must.
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
from neuronfit.question import Question  # noqa: E402
from servers import serving  # noqa: E402
from test_trial_services import generating  # noqa: E402

FULL = {"hidden": 768, "layers": 6, "heads": 12, "length": 16}
CASES = (
    ("FP32 against BF16", {"precision": "fp32"}, {}, "passed", ""),
    ("15 % slower", {}, {"slower": 1.15}, "failed", "latency_p50"),
    ("1 % errors", {}, {"errors": 0.01}, "failed", "error_rate"),
    ("one in ten wrong", {}, {"wrong": 0.1}, "failed", "agreement"),
    ("crash in mid-canary", {}, {"crash_after": 5}, "failed", "error_rate"),
    ("hang in mid-canary", {}, {"hang_after": 5}, "failed", "error_rate"),
)


def every_stage(minutes: float) -> list[dict]:
    """Replay, shadow, four canaries and full, most of the time for the shadow: paired requests tell most."""
    canaries = [{"name": f"canary {share:.0%}", "share": share, "duration_min": minutes / 10} for share in (0.01, 0.05, 0.25, 0.5)]
    return [
        {"name": "replay", "mode": "replay", "duration_min": minutes / 10},
        {"name": "shadow", "duration_min": minutes},
        *canaries,
        {"name": "full", "share": 1.0, "duration_min": minutes / 10},
    ]


def asked(folder: Path, baseline: str, candidate: str, rate: float, stages: list[dict], errors: float, agreement: float):
    """``agreement`` is low for two precisions: labels of random weights are near ties; ``errors`` what the stage's requests can show."""
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
        "stages": stages,
        "criteria": [
            {"metric": "latency_p50"},
            {"metric": "error_rate", "bound": errors},
            {"metric": "agreement", "bound": agreement},
        ],
    }
    return question(folder, trial=section, objective={})


def streamed(folder: Path, baseline: str, candidate: str, minutes: float):
    """The small decoder: first token, gaps, errors, and the same text from both."""
    criteria = [
        {"metric": "ttft_p50", "margin": 0.5},
        {"metric": "tpot_p50", "margin": 0.5},
        {"metric": "error_rate", "bound": 0.05},
        {"metric": "agreement", "bound": 0.9},
    ]
    section = {
        "baseline_url": baseline,
        "candidate_url": candidate,
        "api": "completions",
        "rate_per_s": 6.0,
        "timeout_s": 5.0,
        "evaluate_every_s": 2.0,
        "max_error_rate": 0.1,
        "min_agreement": 0.8,
        "stages": every_stage(minutes),
        "criteria": criteria,
    }
    return generating(folder, section)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rate", type=float, default=8, help="requests per second; half of it where one side is FP32")
    parser.add_argument("--minutes", type=float, default=3, help="length of the shadow stage; other stages take a part of it")
    given = parser.parse_args()
    print(f"{'case':<22}{'verdict':<14}{'after':>8}{'requests':>10}  says")
    good = True
    with tempfile.TemporaryDirectory() as folder, serving("tiny_llm") as mine, serving("tiny_llm") as theirs:
        good &= reported("streaming decoder", streamed(Path(folder), mine.url, theirs.url, given.minutes / 2), "passed", "")
    for name, baseline, fault, status, word in CASES:
        mid_canary = "mid-canary" in name
        sides = {"precision": "bf16", **FULL, **baseline}, {"precision": "bf16", **FULL, **fault}
        canary = {"name": "canary 50 %", "share": 0.5, "duration_min": given.minutes / 2}
        stages = [canary] if mid_canary else every_stage(given.minutes)
        with tempfile.TemporaryDirectory() as folder, serving("classifier", **sides[0]) as mine, serving("classifier", **sides[1]) as theirs:
            rate = given.rate / 2 if baseline else given.rate
            this = asked(Path(folder), mine.url, theirs.url, rate, stages, 0.02 if baseline else 0.001, 0.8 if baseline else 0.95)
            if mid_canary:  # five answers of the rehearsal, and some of the canary, before the fault
                set_fault(theirs.url, {key: 5 + round(rate * 5) for key in fault})
            good &= reported(name, this, status, word)
    return 0 if good else 1


def reported(name: str, this: Question, status: str, word: str) -> bool:
    """Run one case, print its line, and say whether it ended as it must."""
    begin = time.perf_counter()
    record = trial.run(this, progress=False)
    taken = time.perf_counter() - begin
    sent = sum(sum(stage.asked.values()) for stage in record.stages)
    right = record.status == status or {record.status, status} == {"failed", "aborted"}
    good = right and word in record.bottom_line and (status == "passed" or record.rolled_back is True)
    print(f"{name:<22}{record.status:<14}{taken:>6.0f} s{sent:>10,}  {'' if good else 'NOT AS EXPECTED: '}{record.bottom_line}", flush=True)
    return good


def set_fault(url: str, fault: dict) -> None:
    import json
    import urllib.request

    asked = urllib.request.Request(f"{url}/set", data=json.dumps(fault).encode(), headers={"Content-Type": "application/json"})
    urllib.request.urlopen(asked, timeout=10).read()


if __name__ == "__main__":
    sys.exit(main())
