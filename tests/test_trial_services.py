"""The controlled test against real services: DistilBERT in FP32 and BF16, and a decoder that streams, each behind HTTP in its own process.

The models are small, the faults large enough to be certain; ``benchmarks/trial_end_to_end.py`` has the full DistilBERT and faults of
15 % and 1 %.
"""

from __future__ import annotations

import json
import time
import urllib.request

import pytest
from example_questions import question
from neuronfit import params, trial
from neuronfit.question import Question
from neuronfit.trial import log as logs
from servers import serving
from tiny import question_data

STAGES = [
    {"name": "replay", "mode": "replay", "duration_min": 0.02},
    {"name": "shadow", "duration_min": 0.05},
    {"name": "canary 50 %", "share": 0.5, "duration_min": 0.05},
    {"name": "full", "share": 1.0, "duration_min": 0.02},
]


@pytest.fixture(scope="module")
def fp32():
    with serving("classifier") as server:
        yield server


@pytest.fixture(scope="module")
def bf16():
    with serving("classifier", precision="bf16") as server:
        yield server


def set_fault(server, **fault) -> None:
    asked = urllib.request.Request(f"{server.url}/set", data=json.dumps(fault).encode(), headers={"Content-Type": "application/json"})
    with urllib.request.urlopen(asked, timeout=10) as answer:
        answer.read()


def asked(folder, baseline, candidate, **changed):
    section = {
        "baseline_url": baseline.url,
        "candidate_url": candidate.url,
        "candidate": "inf2",
        "rate_per_s": 40,
        "timeout_s": 1.5,
        "evaluate_every_s": 0.5,
        "agree_on": "label",
        "max_error_rate": 0.1,
        "stages": STAGES,
        "criteria": [
            {"metric": "latency_p50", "margin": 0.9},
            {"metric": "error_rate", "bound": 0.1},
            {"metric": "agreement", "bound": 0.8},
            {"metric": "throughput", "margin": 0.2},
        ],
        "min_agreement": 0.7,
        "detect": 1.8,
    }
    return question(folder, trial={**section, **changed}, objective={})


def test_fp32_and_bf16_pass_all_stages(tmp_path, fp32, bf16):
    set_fault(bf16)
    set_fault(fp32)
    this = asked(tmp_path, fp32, bf16)
    record = trial.run(this, progress=False)
    assert record.status == "passed", record.bottom_line
    assert [stage.name for stage in record.stages] == [stage["name"] for stage in STAGES]
    assert record.stages[3].asked["baseline"] == 0, "at a share of 1 every request is the candidate's"
    sent = sum(stage.asked["candidate"] for stage in record.stages)
    assert len(bf16.log()["requests"]) == sent + 5, "five of the rehearsal; every other one is in the log"
    pairs = [entry for entry in logs.read(this.dossier.folder / record.log).of(1) if entry.agree is not None]
    assert len(pairs) == record.stages[1].asked["candidate"]


@pytest.mark.parametrize(
    "fault, criterion",
    [
        ({"errors": 0.5}, "error_rate"),
        ({"wrong": 0.9}, "agreement"),
        ({"slower": 12.0}, "latency_p50"),
        ({"hang_after": 60}, "error_rate"),
    ],
    ids=lambda value: str(value) if isinstance(value, dict) else "",
)
def test_a_fault_is_found_and_traffic_goes_back(tmp_path, fp32, bf16, fault, criterion):
    set_fault(bf16, **fault)
    this = asked(tmp_path, fp32, bf16)
    record = trial.run(this, progress=False)
    assert record.status in ("aborted", "failed") and criterion in record.bottom_line, record.bottom_line
    assert record.rolled_back is True
    seen = len(bf16.log()["requests"])
    time.sleep(0.2)
    assert len(bf16.log()["requests"]) == seen, "nothing reaches the candidate after the rollback"


def test_a_crash_in_mid_canary(tmp_path, fp32):
    """The process ends in the canary: connections are refused from then on."""
    with serving("classifier", crash_after=5 + 30) as dying:
        canary = [{"name": "canary", "share": 0.5, "duration_min": 0.2}]
        record = trial.run(asked(tmp_path, fp32, dying, stages=canary), progress=False)
    assert record.status in ("aborted", "failed") and record.rolled_back is True
    assert "error_rate" in record.bottom_line, record.bottom_line
    assert record.stages[0].duration_s < 8, "the canary was to last 12 s"


def generating(folder, section):
    """A question about a small Llama that generates 12 tokens, with this ``trial`` section."""
    data = question_data(folder)
    sizes = {"vocab_size": 256, "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2}
    config = {"model_type": "llama", "intermediate_size": 128, "max_position_embeddings": 512, **sizes}
    (folder / "llama.json").write_text(json.dumps(config), encoding="utf-8")
    data["workload"]["model"] = {"config": str(folder / "llama.json"), "task": "text-generation"}
    data["workload"]["shapes"] = [{"batch_size": 1, "sequence_length": 16, "output_length": 12}]
    section["candidate"] = data["candidates"][0]["name"]
    return Question(params.parse(data | {"objective": {}, "trial": section}), reports=folder / "generating")


def test_a_streaming_decoder_passes_on_first_token_and_gaps(tmp_path):
    """Real tokens over server-sent events; both sides are the same model, so the answers are the same."""
    with serving("tiny_llm") as baseline, serving("tiny_llm") as candidate:
        changed = {
            "api": "completions",
            "agree_on": None,
            "rate_per_s": 15,
            "stages": [{"name": "shadow", "duration_min": 0.08}],
            "criteria": [
                {"metric": "ttft_p50", "margin": 0.9},
                {"metric": "tpot_p50", "margin": 0.9},
                {"metric": "error_rate", "bound": 0.2},
                {"metric": "agreement", "bound": 0.8},
            ],
        }
        section = asked(tmp_path, baseline, candidate, **changed).params.trial.model_dump(exclude_unset=True)
        this = generating(tmp_path, section)
        record = trial.run(this, progress=False)
        spoken = candidate.log()["requests"]
    assert record.overall["agreement"] == "passed" and record.overall["error_rate"] == "passed", record.bottom_line
    assert record.status == "passed", record.bottom_line
    tokens = [entry.tokens for entry in logs.read(this.dossier.folder / record.log).of(0) if entry.arm == "candidate"]
    assert set(tokens) == {12} and len(tokens) + 5 == len(spoken)
