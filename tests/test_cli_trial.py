"""`neuronfit trial` and `neuronfit split` as they are typed: what is printed, exit statuses, and input that attacks them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any

import pytest
import yaml
from example_questions import mapping
from neuronfit.cli import main
from test_trial_run import Service

SECTION = {
    "candidate": "inf2",
    "rate_per_s": 100,
    "timeout_s": 2.0,
    "evaluate_every_s": 0.3,
    "agree_on": "label",
    "max_error_rate": 0.2,
    "stages": [{"name": "shadow", "duration_min": 0.03}],
    "criteria": [{"metric": "latency_p50", "margin": 0.9}, {"metric": "error_rate", "bound": 0.1}],
    "detect": 1.8,
}


def params_file(folder: Path, **section: Any) -> Path:
    path = folder / "x.yaml"
    path.write_text(yaml.safe_dump(mapping(trial={**SECTION, **section}, objective={})))
    return path


def typed(folder: Path, *words: Any, **section: Any) -> tuple[int, list[str]]:
    """Exit status of ``neuronfit trial`` with these words."""
    with pytest.raises(SystemExit) as ended:
        main(["trial", str(params_file(folder, **section)), "--reports", str(folder / "reports"), *map(str, words)])
    return ended.value.code


def test_the_plan_alone_sends_nothing(tmp_path, capsys):
    service = Service()
    assert typed(tmp_path, "--plan-only", baseline_url=service.url, candidate_url=service.url) == 0
    said = capsys.readouterr().out
    assert "Plan registered: inf2 against l4" in said and "latency p50 of the candidate at most 1.9 x the baseline's" in said
    assert "all traffic back to the baseline within 0.3 s" in said and service.seen == []
    assert "stage shadow: both sides get every request, 0.03 minutes, 180 requests to the candidate; how many are needed is not known" in said
    assert typed(tmp_path, "--plan-only", "--json") == 0
    assert json.loads(capsys.readouterr().out)["candidate"] == "inf2"


def test_the_plan_is_handed_over_in_files(tmp_path, capsys):
    assert typed(tmp_path, "--handover", tmp_path / "handover") == 0
    written = sorted(path.name for path in (tmp_path / "handover").rglob("*") if path.is_file())
    assert len(written) >= 4 and capsys.readouterr().err.count("written:") == len(written)


@pytest.mark.parametrize(
    "fault, status, word",
    [({}, 0, "passed        error_rate"), ({"errors": 0.9}, 1, "guardrail_breached"), ({"errors": 1.0}, 3, "trial_unfinished")],
    ids=["passed", "breached", "no rehearsal"],
)
def test_exit_statuses_of_a_test(tmp_path, capsys, fault, status, word):
    baseline, candidate = Service(), Service(**fault)
    assert typed(tmp_path, baseline_url=baseline.url, candidate_url=candidate.url) == status
    said = capsys.readouterr()
    assert word in said.out and "log:" in said.out
    assert "Traceback" not in said.err


def test_without_endpoints_it_waits_and_bad_words_are_one_line(tmp_path, capsys):
    assert typed(tmp_path) == 3
    assert "trial.baseline_url and trial.candidate_url not declared" in capsys.readouterr().err
    assert typed(tmp_path, "--resume", "--fresh") == 2
    assert len(capsys.readouterr().err.strip().splitlines()) == 1


# -- what is attacked ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "section, said",
    [
        ({"stages": "shadow"}, "stages"),
        ({"stages": []}, "stages"),
        ({"stages": [{"name": "a", "duration_min": 1}, {"name": "a", "duration_min": 1}]}, "two stages are named 'a'"),
        ({"stages": [{"name": "a", "duration_min": "long"}]}, "duration_min"),
        ({"criteria": [{"metric": "p95"}]}, "metric"),
        ({"baseline_url": "ftp://h"}, "must begin with http:// or https://"),
        ({"candidate_url": 7}, "must begin with http:// or https://"),
        ({"candidate": "l4"}, "l4"),
        ({"candidate": "nobody"}, "nobody"),
        ({"rate_per_s": 0}, "rate_per_s"),
        ({"timeout_s": -1}, "timeout_s"),
        ({"detect": 0.01}, "detect"),
        ({"body": "text"}, "body"),
    ],
    ids=str,
)
def test_a_wrong_section_is_one_line(tmp_path, capsys, section, said):
    assert typed(tmp_path, "--plan-only", **section) == 2
    error = capsys.readouterr().err.strip()
    assert said in error and len(error.splitlines()) == 1 and "Traceback" not in error


def test_a_rate_that_no_process_can_send_is_refused_with_the_one_it_can(tmp_path, capsys):
    service = Service()
    given = {"baseline_url": service.url, "candidate_url": service.url, "rate_per_s": 1e6, "stages": [{"name": "shadow", "duration_min": 1}]}
    assert typed(tmp_path, **given) == 2
    said = capsys.readouterr().err
    assert "120,000,000 requests to both sides" in said and "with these stages 1.33e+05 a second" in said and service.seen == []  # 16 / 120 of 1e6


@pytest.mark.parametrize(
    "text, said",
    [
        ("", "holds no request"),
        ("not json\n", "line 1 is no request"),
        ('{"text": 3}\n', "line 1 is no request"),
        (None, "cannot read trial.requests"),
    ],
)
def test_a_requests_file_that_is_none(tmp_path, capsys, text, said):
    if text is not None:
        (tmp_path / "requests.jsonl").write_text(text)
    service = Service()
    given = {"baseline_url": service.url, "candidate_url": service.url, "requests": str(tmp_path / "requests.jsonl")}
    assert typed(tmp_path, **given) == 2
    assert said in capsys.readouterr().err and service.seen == []


def test_own_requests_are_sent_as_they_are_also_large_ones(tmp_path, capsys):
    """Half a megabyte in one body; each line reaches both sides."""
    lines = [{"text": "x" * 500_000, "key": "a"}, {"text": "short", "key": "b"}]
    (tmp_path / "requests.jsonl").write_text("\n".join(map(json.dumps, lines)))
    baseline, candidate = Service(), Service()
    given = {"baseline_url": baseline.url, "candidate_url": candidate.url, "requests": str(tmp_path / "requests.jsonl"), "rate_per_s": 20}
    assert typed(tmp_path, **given) in (0, 3)
    assert {len(text) for text in candidate.seen} == {500_000, 5} == {len(text) for text in baseline.seen}


@pytest.mark.parametrize(
    "url, said",
    [
        ("http://127.0.0.1:9", "no connection"),
        ("http://no-such-host.invalid", "no connection"),
        ("https://{service}", "connection"),
        ("http://{service}/moved", "http 302"),
    ],
)
def test_an_endpoint_that_cannot_be_asked_is_found_in_the_rehearsal(tmp_path, capsys, url, said):
    baseline, other = Service(), Service()
    url = url.format(service=other.url.removeprefix("http://"))
    assert typed(tmp_path, baseline_url=baseline.url, candidate_url=url) == 3
    error = capsys.readouterr().err
    assert "rehearsal: the candidate answered 0 of 5 requests" in error and said in error, error
    assert "Traceback" not in error


def test_a_time_out_too_short_for_any_answer(tmp_path, capsys):
    baseline, candidate = Service(), Service()
    assert typed(tmp_path, baseline_url=baseline.url, candidate_url=candidate.url, timeout_s=0.001) == 3
    assert "timeout: no complete answer within 0.001 s" in capsys.readouterr().err


FULL_DISK = """
import resource, sys
resource.setrlimit(resource.RLIMIT_FSIZE, ({limit}, {limit}))
from neuronfit.cli import main
main({words!r})
"""


def test_a_disk_that_fills_up_ends_the_test_and_keeps_the_log(tmp_path):
    """The log may grow to 20,000 bytes: some 120 lines. One line is said, what was written stays readable."""
    from neuronfit.trial import log as logs

    baseline, candidate = Service(), Service()
    path = params_file(tmp_path, baseline_url=baseline.url, candidate_url=candidate.url)
    words = ["trial", str(path), "--reports", str(tmp_path / "reports")]
    done = subprocess.run([sys.executable, "-c", FULL_DISK.format(limit=20_000, words=words)], capture_output=True, text=True, timeout=60)
    assert done.returncode == 2, done.stderr
    last = done.stderr.strip().splitlines()[-1]
    assert "cannot append to the trial's log (File too large)" in last and "--resume" in last and "Traceback" not in done.stderr
    [log] = (tmp_path / "reports").rglob("trial/*.jsonl")
    read = logs.read(log)
    assert len(read.entries) > 50 and read.torn <= 1
    seen = len(candidate.seen)
    assert seen < 300, "no further request once an answer cannot be kept"


# -- the splitter -------------------------------------------------------------------------------


def test_split_answers_and_ends_cleanly_with_ctrl_c():
    baseline = Service()
    command = [sys.executable, "-u", "-m", "neuronfit.cli", "split", baseline.url, baseline.url, "--port", "0", "--admin-port", "0"]
    environment = {**os.environ, "NEURONFIT_SPLIT_TOKEN": "a-token-of-the-test"}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)
    try:
        line = process.stdout.readline()
        url = line.split("splitting at ")[1].split(",")[0].strip()
        assert "admin at http://127.0.0.1:" in line and "a-token-of-the-test" not in line
        asked = urllib.request.Request(url, data=b'{"inputs": "hello"}', headers={"Content-Type": "application/json"})
        with urllib.request.urlopen(asked, timeout=10) as answer:
            assert json.load(answer)["label"] == "yes" and answer.headers["X-Neuronfit-Arm"] == "baseline"
        process.send_signal(signal.SIGINT)
        _, error = process.communicate(timeout=20)
    finally:
        process.kill()
    assert process.returncode == 130 and "Traceback" not in error and len(error.strip().splitlines()) <= 1
    assert baseline.seen == ["hello"]


def test_a_split_that_cannot_start_is_one_line(capsys):
    with pytest.raises(SystemExit) as ended:
        main(["split", "ftp://x", "http://127.0.0.1:9"])
    assert ended.value.code == 2 and len(capsys.readouterr().err.strip().splitlines()) == 1
