"""Running the controlled test against real HTTP services on loopback, in a compressed schedule; and its log, cut anywhere."""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any, Optional

import pytest
from aiohttp import web
from example_questions import question
from neuronfit import trial
from neuronfit.errors import BadInput, BadParams, BadRecord, WaitingForEvidence
from neuronfit.record import Trial, TrialPlan
from neuronfit.trial import log as logs
from neuronfit.trial.evaluate import breach, look_at
from neuronfit.trial.log import Entry, Log
from neuronfit.trial.run import agrees, compared, log_path


class Service:
    """An HTTP service whose time, errors and answers are set; it runs in a thread until the test process ends."""

    def __init__(
        self,
        base_s: float = 0.02,
        slower: float = 1.0,
        errors: float = 0.0,
        wrong: float = 0.0,
        crash_after: Optional[int] = None,
        hang_after: Optional[int] = None,
    ):
        self.base_s, self.slower, self.errors, self.wrong = base_s, slower, errors, wrong
        self.crash_after, self.hang_after, self.healthy_first = crash_after, hang_after, 0 if errors == 1.0 else 10
        self.generator, self.seen, self.url = random.Random(1), [], ""
        self._ready = threading.Event()
        threading.Thread(target=lambda: asyncio.run(self._serve()), daemon=True).start()
        self._ready.wait(10)

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        if request.path == "/moved":
            return web.Response(status=302, headers={"Location": "/"})
        body = await request.json()
        self.seen.append(body["inputs"])
        if self.crash_after is not None and len(self.seen) > self.crash_after:
            request.transport.abort()
            return web.Response()
        if self.hang_after is not None and len(self.seen) > self.hang_after:
            await asyncio.sleep(30)
        await asyncio.sleep(self.slower * self.base_s * (1 + (len(body["inputs"]) % 10) / 10))
        if len(self.seen) > self.healthy_first and self.generator.random() < self.errors:
            return web.json_response({"error": "out of device memory"}, status=500)
        return web.json_response({"label": "no" if self.generator.random() < self.wrong else "yes", "score": 0.9})

    async def _serve(self) -> None:
        runner = web.ServerRunner(web.Server(self._handle, access_log=None))
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        self.url = "http://{}:{}".format(*runner.addresses[0])
        self._ready.set()
        await asyncio.Event().wait()


STAGES = [{"name": "shadow", "duration_min": 0.06}, {"name": "canary", "share": 0.5, "duration_min": 0.04}]


def asked(folder: Path, baseline: str, candidate: str, **changed: Any):
    section = {
        "baseline_url": baseline,
        "candidate_url": candidate,
        "candidate": "inf2",
        "rate_per_s": 100,
        "timeout_s": 2.0,
        "evaluate_every_s": 0.4,
        "agree_on": "label",
        "max_error_rate": 0.05,
        "stages": STAGES,
        "criteria": [
            {"metric": "latency_p50", "margin": 0.3},
            {"metric": "error_rate", "bound": 0.05},
            {"metric": "agreement", "bound": 0.95},
            {"metric": "throughput", "margin": 0.1},
        ],
        "min_agreement": 0.9,
        "detect": 0.8,
    }
    return question(folder, trial={**section, **changed}, objective={})


def outcomes(record: Trial) -> dict[str, str]:
    return dict(record.overall)


# -- the verdicts -----------------------------------------------------------------------------


def test_two_equal_services_pass_and_every_request_reached_both(tmp_path):
    baseline, candidate = Service(), Service()
    this = asked(tmp_path, baseline.url, candidate.url)
    record = trial.run(this, progress=False)
    assert record.status == "passed", record.bottom_line
    assert outcomes(record) == {"latency_p50": "passed", "error_rate": "passed", "agreement": "passed", "throughput": "passed"}
    assert record.rehearsed and record.valid and record.rolled_back is None and record.findings == ()
    plan = this.dossier.get(record.plan)
    assert isinstance(plan, TrialPlan) and plan.created_utc < record.started_utc, "the plan was there before the first request"
    shadow, canary = record.stages
    assert shadow.asked == {"baseline": 360, "candidate": 360} and sum(canary.asked.values()) == 240
    assert abs(canary.asked["candidate"] - 120) < 40
    assert len(baseline.seen) == 5 + 360 + canary.asked["baseline"] and len(candidate.seen) == 5 + 360 + canary.asked["candidate"]
    assert sorted(baseline.seen[5:365]) == sorted(candidate.seen[5:365]), "the same requests to both sides"


@pytest.mark.parametrize(
    "fault, status, word",
    [
        ({"errors": 0.3}, "aborted", "error_rate"),
        ({"wrong": 0.6}, "aborted", "agreement"),
        ({"crash_after": 80}, "aborted", "connection lost"),
        ({"hang_after": 80}, "aborted", "timeout"),
        ({"slower": 2.5}, "failed", "latency_p50"),
        ({"errors": 0.12}, "failed", "error_rate"),
    ],
    ids=lambda value: str(value) if isinstance(value, dict) else "",
)
def test_each_fault_is_found_rolled_back_and_reported_by_its_criterion(tmp_path, fault, status, word):
    changed = {"timeout_s": 0.5} if "hang_after" in fault else {"max_error_rate": 0.5} if fault.get("errors") == 0.12 else {}
    baseline, candidate = Service(), Service(**fault)
    this = asked(tmp_path, baseline.url, candidate.url, **changed)
    record = trial.run(this, progress=False)
    assert record.status == status, record.bottom_line
    assert word in record.bottom_line
    assert record.rolled_back is True
    codes = {finding.code for finding in record.findings}
    assert ("guardrail_breached" if status == "aborted" else "criterion_failed") in codes
    logged = logs.read(this.dossier.folder / record.log)
    assert len(logged.event("rollback")) == 1 and logged.ended["why"] == {"aborted": "breach", "failed": "failed"}[status]
    asked_for = len(candidate.seen)
    time.sleep(0.2)
    assert len(candidate.seen) == asked_for, "no request reaches the candidate after the rollback"


def test_a_candidate_that_does_not_answer_the_rehearsal_is_not_tested(tmp_path):
    baseline, candidate = Service(), Service(errors=1.0)
    said: list[str] = []
    record = trial.run(asked(tmp_path, baseline.url, candidate.url), progress=False, tell=said.append)
    assert record.status == "inconclusive" and not record.rehearsed and len(candidate.seen) == 5
    assert "the candidate answered 0 of 5 requests, http 500" in said[0]


# -- plan and log -----------------------------------------------------------------------------


def test_without_endpoints_it_waits(tmp_path):
    with pytest.raises(WaitingForEvidence, match="trial.candidate_url not declared"):
        trial.run(asked(tmp_path, "http://127.0.0.1:9", None), progress=False)


def test_a_changed_plan_is_not_resumed_and_the_record_says_so(tmp_path):
    baseline, candidate = Service(), Service()
    first = asked(tmp_path, baseline.url, candidate.url)
    registered = trial.plan(first)
    log = Log(log_path(first, registered.id))
    log.begin(registered.id, "2026-11-30T12:00:00Z")
    log.add(Entry(n=0, stage=0, arm="candidate", due=0.0, end=0.02))
    log.close()
    moved = asked(tmp_path, baseline.url, candidate.url, min_agreement=0.5)
    with pytest.raises(BadInput, match="plan was changed after the test began") as refused:
        trial.run(moved, resume=True, progress=False)
    assert registered.id in str(refused.value) and "--fresh" in str(refused.value)
    record = moved.dossier.latest(Trial)
    assert not record.valid and record.plan == registered.id
    assert [finding.code for finding in record.findings if str(finding.severity) == "blocker"] == ["plan_changed"]
    assert baseline.seen == []


def test_a_test_that_was_begun_under_another_plan_is_not_left_behind_silently(tmp_path):
    """Criteria are loosened after answers are known: refused; with --fresh the earlier test has its verdict, and the new one names it."""
    baseline, candidate = Service(), Service()
    first = asked(tmp_path, baseline.url, candidate.url, stages=[{"name": "shadow", "requests": 60}])
    registered = trial.plan(first)
    log = Log(log_path(first, registered.id))
    log.begin(registered.id, "2026-11-30T12:00:00Z")
    log.event("stage", stage=0, name="shadow", per_side=60)
    log.add(Entry(n=0, stage=0, arm="candidate", due=0.0, end=0.02))
    log.close()
    moved = asked(tmp_path, baseline.url, candidate.url, stages=[{"name": "shadow", "requests": 60}], min_agreement=0.5)
    with pytest.raises(BadInput, match="plan was changed after the test began"):
        trial.run(moved, progress=False)
    assert baseline.seen == []
    record = trial.run(moved, fresh=True, progress=False)
    [found] = [finding for finding in record.findings if finding.code == "tested_before"]
    assert f"inconclusive, begun 2026-11-30T12:00:00Z, plan {registered.id}" in found.because
    assert log.path.exists() and len([entry for entry in moved.dossier if isinstance(entry, Trial)]) == 2


def test_a_rehearsal_that_was_not_answered_may_be_mended(tmp_path):
    baseline, candidate = Service(), Service(errors=1.0)
    stages = [{"name": "shadow", "requests": 20}]
    assert not trial.run(asked(tmp_path, baseline.url, candidate.url, stages=stages), progress=False).rehearsed
    mended = asked(tmp_path, baseline.url, Service().url, stages=stages)
    assert trial.run(mended, progress=False).rehearsed


def test_requests_go_out_at_their_own_times_whatever_their_order_in_the_file(tmp_path):
    """Three lines with times, out of order; in both stages each text goes out at its own time. A line separator in a text is part of it."""
    lines = [{"text": "third", "at_s": 7.4}, {"text": "first\u2028", "at_s": 7.0}, {"text": "second", "at_s": 7.2}]
    (tmp_path / "requests.jsonl").write_text("\n".join(json.dumps(line, ensure_ascii=False) for line in lines), encoding="utf-8")
    stages = [{"name": "replay", "mode": "replay", "duration_min": 0.01}, {"name": "again", "mode": "replay", "requests": 2}]
    baseline, candidate = Service(), Service()
    this = asked(tmp_path, baseline.url, candidate.url, stages=stages, requests=str(tmp_path / "requests.jsonl"), rate_per_s=5)
    record = trial.run(this, progress=False)
    assert candidate.seen[5:] == ["first\u2028", "second", "third", "first\u2028", "second"]
    logged = logs.read(this.dossier.folder / record.log)
    dues = {(entry.stage, entry.n): entry.due for entry in logged.entries}
    assert dues == pytest.approx({(0, 0): 0.0, (0, 1): 0.2, (0, 2): 0.4, (1, 0): 0.0, (1, 1): 0.2})
    more = asked(tmp_path / "x", baseline.url, candidate.url, stages=[{"name": "a", "requests": 4}], requests=str(tmp_path / "requests.jsonl"))
    with pytest.raises(BadInput, match="asks for 4 requests, trial.requests has times for: '3'"):
        trial.run(more, progress=False)


def test_a_finished_test_is_not_run_again_by_accident(tmp_path):
    baseline, candidate = Service(), Service()
    this = asked(tmp_path, baseline.url, candidate.url, stages=[{"name": "shadow", "duration_min": 0.01}])
    trial.run(this, progress=False)
    with pytest.raises(BadInput, match="tested already.*--fresh"):
        trial.run(this, progress=False)
    with pytest.raises(BadInput, match="tested already"):
        trial.run(this, resume=True, progress=False)
    assert trial.run(this, fresh=True, progress=False).log_sha256


def test_evidence_that_comes_in_later_does_not_move_a_plan_that_has_begun(tmp_path):
    this = asked(tmp_path, "http://127.0.0.1:9", "http://127.0.0.1:9")
    registered = trial.plan(this)
    log_path(this, registered.id).parent.mkdir(parents=True)
    log_path(this, registered.id).write_text('{"log": "trial/1"}\n')
    from neuronfit import compare

    compare.compare(this)
    assert trial.plan(this).id == registered.id


def test_the_log_holds_hashes_and_no_secret(tmp_path, monkeypatch):
    monkeypatch.setenv("SERVICE_TOKEN", "sk-very-secret-0123456789")
    baseline, candidate = Service(), Service()
    this = asked(tmp_path, baseline.url, candidate.url, api_key_env="SERVICE_TOKEN", stages=[{"name": "shadow", "duration_min": 0.01}])
    record = trial.run(this, progress=False)
    text = (this.dossier.folder / record.log).read_text()
    assert "very-secret" not in text and '"label"' not in text and baseline.seen[7] not in text
    line = next(json.loads(line) for line in text.splitlines() if '"n":' in line)
    assert len(line["hash"]) == 12
    assert oct((this.dossier.folder / record.log).stat().st_mode & 0o777) == "0o600"


@pytest.mark.parametrize(
    "secret",
    [
        {"model": "sk-abcdefghijklmnop1234"},
        {"body": {"inputs": "{prompt}", "api_key": "x"}},
        {"body": {"inputs": "{prompt}", "note": "-----BEGIN PRIVATE KEY-----"}},
        {"baseline_url": "https://user:pass@host.example/"},
        {"api_key_env": "sk-abc def"},
        {"stages": [{"name": "sk-abcdefghijklmnop1234", "duration_min": 1}]},
        {"rollback": ["curl -H 'Authorization: Bearer abcdefghijklmnop'"]},
    ],
    ids=str,
)
def test_a_credential_in_the_params_file_is_refused_and_not_repeated(tmp_path, secret):
    with pytest.raises(BadParams) as refused:
        question(tmp_path, trial=secret)
    for text in ("abcdefghijklmnop", "BEGIN", "pass@"):
        assert text not in str(refused.value)


def test_reading_a_log_cut_anywhere(tmp_path):
    """Cut after every byte of the last two lines: whole lines count, each request once, nothing is invented."""
    path = tmp_path / "x.jsonl"
    log = Log(path)
    log.begin("abc", "2026-11-30T12:00:00Z")
    for n in range(5):
        log.add(Entry(n=n, stage=0, arm="baseline", due=n / 10, end=n / 10 + 0.02))
    log.add(Entry(n=4, stage=0, arm="baseline", due=0.4, end=9.9))
    log.close()
    whole = path.read_bytes()
    ends = [place for place, byte in enumerate(whole) if byte == ord("\n")]
    for size in range(ends[3] + 1, len(whole) + 1):
        path.write_bytes(whole[:size])
        read = logs.read(path)
        complete = sum(end < size for end in ends) - 1
        torn = size - 1 not in ends
        kept = {entry.n for entry in read.entries}
        assert kept in ({*range(min(complete, 5))}, {*range(min(complete + 1, 5))}) and read.torn <= torn
        assert len(read.entries) == len(kept) and all(entry.end == pytest.approx(entry.n / 10 + 0.02) for entry in read.entries)
    assert logs.read(path).doubled == 1


def test_a_torn_line_does_not_swallow_the_next(tmp_path):
    path = tmp_path / "x.jsonl"
    path.write_bytes(b'{"log": "trial/1", "plan": "p", "started_utc": "t"}\n{"n":1,"stage":0,"arm":"baseli')
    log = Log(path)
    log.add(Entry(n=1, stage=0, arm="baseline", due=0.0, end=0.5))
    log.close()
    read = logs.read(path)
    assert (read.torn, [entry.n for entry in read.entries]) == (1, [1])


@pytest.mark.parametrize("text", ["", "not json\n", '{"log": "other"}\n', '{"log": "trial/1"}\n'])
def test_a_file_that_is_no_log_is_one_line(tmp_path, text):
    (tmp_path / "x.jsonl").write_text(text)
    with pytest.raises(BadRecord, match="is not the log of a trial"):
        logs.read(tmp_path / "x.jsonl")


KILLED = """
import sys
from pathlib import Path
sys.path.insert(0, {tests!r})
import test_trial_run as here
from neuronfit import trial
this = here.asked(Path({folder!r}), {baseline!r}, {candidate!r})
trial.run(this, resume={resume}, progress=False)
"""


def killed_and_resumed(tmp_path: Path, kills: int, seed: int = 3) -> Trial:
    """kill -9 at random moments; the resumed test has each request once and passes."""
    baseline, candidate = Service(), Service()
    generator, resume = random.Random(seed), False
    for _ in range(kills):
        program = KILLED.format(tests=str(Path(__file__).parent), folder=str(tmp_path), baseline=baseline.url, candidate=candidate.url, resume=resume)
        process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        this = asked(tmp_path, baseline.url, candidate.url)
        path = log_path(this, trial.plan(this).id)
        size = path.stat().st_size if path.exists() else 0
        deadline = time.time() + 60
        while (not path.exists() or path.stat().st_size < size + 4000) and time.time() < deadline and process.poll() is None:
            time.sleep(0.05)
        time.sleep(generator.random() * 0.4)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        assert logs.read(path).torn <= 1
        resume = True
    record = trial.run(asked(tmp_path, baseline.url, candidate.url), resume=True, progress=False)
    logged = logs.read(this.dossier.folder / record.log)
    keys = [(entry.stage, entry.n, entry.arm) for entry in logged.entries]
    assert len(keys) == len(set(keys)) == 2 * 360 + 240
    assert {entry.n for entry in logged.of(0)} == set(range(360)) and {entry.n for entry in logged.of(1)} == set(range(240))
    assert record.status == "passed", record.bottom_line
    return record


def test_killed_and_resumed_every_request_counts_once(tmp_path):
    """Three kills here, ten in benchmarks/trial_kills.py."""
    assert killed_and_resumed(tmp_path, 3).repeated_requests == 0


# -- parts ------------------------------------------------------------------------------------


def test_what_is_compared():
    answer = '{"predictions": [{"label": "b", "score": 0.91}]}'
    assert compared(answer, "predictions.0.label") == "b"
    assert compared(answer, None) == {"predictions": [{"label": "b", "score": 0.91}]}
    assert compared("plain text", None) == "plain text"
    assert compared(answer, "predictions.1.label") == {"missing": "predictions.1.label"}


@pytest.mark.parametrize(
    "mine, theirs, within, same",
    [
        (0.9100, 0.9101, 0.001, True),
        (0.90, 0.91, 0.001, False),
        (0.91, 0.91, 0.0, True),
        ([1.0, 2.0], [1.0, 2.001], 0.001, True),
        ([1.0], [1.0, 2.0], 0.5, False),
        ({"a": 1}, {"a": 1, "b": 2}, 0.5, False),
        ("yes", "no", 0.9, False),
        (True, 1, 0.9, False),
        (None, 0.0, 0.9, False),
        ("1", 1, 0.9, False),
    ],
)
def test_when_two_answers_agree(mine, theirs, within, same):
    assert agrees(mine, theirs, within) is same


def rows(arm: str, latencies, start: int = 0, **more: Any) -> list[Entry]:
    return [Entry(n=start + n, stage=0, arm=arm, due=0.0, end=value, **more) for n, value in enumerate(latencies)]


def test_latency_counts_from_the_intended_time_and_failures_have_none():
    assert Entry(n=0, stage=0, arm="baseline", due=1.0, sent=1.5, end=2.0).latency_s == 1.0
    assert Entry(n=0, stage=0, arm="baseline", due=1.0, end=2.0, error="timeout").latency_s is None
    assert Entry(n=0, stage=0, arm="baseline", due=0.0, first=0.1, end=0.5, tokens=21).tpot_s == pytest.approx(0.02)


def test_the_guardrail_counts_failures_as_slow(tmp_path):
    plan = trial.plan(question(tmp_path, trial={"max_error_rate": 0.9}))
    assert plan.limits["latency_p99_s"] == 0.02
    good = rows("candidate", [0.01] * 500)
    assert breach(plan, good) is None
    assert breach(plan, good + rows("candidate", [0.5] * 50, 500)).startswith("latency_p99: 50 of 550")
    assert breach(plan, good + rows("candidate", [None] * 50, 500, error="timeout")).startswith("latency_p99: 50 of 550")
    assert breach(plan, rows("baseline", [0.5] * 500)) is None, "the baseline's own slowness is no breach"


def test_a_margin_decides_what_is_as_good(tmp_path):
    """Paired, 20 % slower: passes within a margin of 0.3, fails one of 0.1."""
    generator = random.Random(5)
    base = [0.02 * generator.lognormvariate(0, 0.2) for _ in range(600)]
    entries = [entry for pair in zip(rows("baseline", base), rows("candidate", [1.2 * value for value in base])) for entry in pair]
    plan = trial.plan(
        question(tmp_path, trial={"criteria": [{"metric": "latency_p50", "margin": 0.3}, {"metric": "latency_p50", "margin": 0.1}], "detect": 0.5})
    )
    wide, narrow = (look_at(criterion, entries, True, [len(entries)], 600, 0.025) for criterion in plan.criteria_fixed)
    assert (wide.outcome, narrow.outcome) == ("passed", "failed")
    assert wide.value == pytest.approx(1.2, abs=0.02) and wide.low <= 1.2 <= wide.high


def test_throughput_and_money_by_hand(tmp_path):
    """900 of 1,000 answered against 1,000 of 1,000: ratio 0.9; at 0.6 of the money a result costs 0.6 / 0.9 = 0.667."""
    plan = trial.plan(question(tmp_path, trial={"criteria": [{"metric": "throughput"}, {"metric": "cost_per_result"}]}))
    entries = rows("baseline", [0.02] * 1000) + rows("candidate", [0.02] * 900) + rows("candidate", [None] * 100, 900, error="x")
    throughput, money = plan.criteria_fixed
    found = look_at(throughput, entries, True, [len(entries)], 1000, 0.025)
    assert found.value == pytest.approx(0.9) and found.low < 0.9 < found.high and found.outcome == "failed"
    priced = look_at(money.model_copy(update={"money_ratio": 0.6}), entries, True, [len(entries)], 1000, 0.025)
    assert priced.value == pytest.approx(0.6 / 0.9) and priced.outcome == "passed"
    assert look_at(money.model_copy(update={"money_ratio": None}), entries, True, [len(entries)], 1000, 0.025).outcome == "inconclusive"


# -- how busy the candidate was ---------------------------------------------------------------


def seen_busy(this, busy: float, start: str, seconds: float = 60.0, **interval: float) -> None:
    from neuronfit.provenance import Grade, Imported, Quantity
    from neuronfit.record import Monitor

    this.dossier.admit(
        Monitor(
            workload=this.ref,
            source=Imported(file="m.json", sha256="0" * 64),
            bottom_line=f"{busy:.0%} busy.",
            target="inf2",
            format="neuron_monitor",
            start_utc=start,
            span=Quantity(value=seconds, unit="s", grade=Grade.IMPORTED),
            samples=60,
            busy_metric="neuroncore_utilization",
            busy_mean=Quantity(value=busy, unit="fraction", grade=Grade.IMPORTED, **interval),
        )
    )


@pytest.mark.parametrize(
    "busy, start, interval, outcome",
    [
        (0.60, "2026-11-30T12:00:30Z", {}, "passed"),
        (0.95, "2026-11-30T12:00:30Z", {}, "failed"),
        (0.84, "2026-11-30T12:00:30Z", {"low": 0.80, "high": 0.88}, "inconclusive"),
        (0.60, "2026-11-30T12:05:00Z", {}, "inconclusive"),
        (0.60, "2026-11-30T11:58:00Z", {}, "inconclusive"),
        (0.60, "2026-11-30T11:59:30Z", {}, "passed"),
    ],
    ids=["idle enough", "too busy", "its interval holds the bound", "seen after the test", "seen before", "it overlaps the beginning"],
)
def test_utilization_is_what_a_monitor_saw_during_the_test(tmp_path, busy, start, interval, outcome):
    """The test lasts from 12:00:00 to 12:02:00, the monitor 60 s from its start; at most 85 % is asked."""
    from neuronfit.provenance import Measured
    from neuronfit.trial.evaluate import settle

    this = asked(tmp_path, "http://127.0.0.1:9", "http://127.0.0.1:8", criteria=[{"metric": "utilization"}])
    plan = trial.plan(this)
    log = Log(log_path(this, plan.id))
    log.begin(plan.id, "2026-11-30T12:00:00Z")
    for number in range(len(plan.stages)):
        log.event("stage", stage=number, name="x")
        log.event("stage_end", stage=number)
    log.event("end", why="finished", utc="2026-11-30T12:02:00Z")
    log.close()
    seen_busy(this, busy, start, **interval)
    record = settle(this, plan, logs.read(log.path), Measured(host="x", clock="time.perf_counter"), "trial/x.jsonl")
    assert record.overall == {"utilization": outcome}
    [row] = record.criteria
    if "seen" in row.because or "no monitor" in row.because:
        assert "neuronfit monitor FILE --for inf2" in row.because
    else:
        assert row.value.value == busy and "neuroncore_utilization" in row.because


def test_a_stage_may_end_early_once_everything_has_passed(tmp_path):
    """0.2 minutes are planned; a p50 that may be 90 % slower passes long before."""
    baseline, candidate = Service(), Service()
    early = {"may_pass_early": True, "stages": [{"name": "shadow", "duration_min": 0.2}], "detect": 1.8}
    criteria = [{"metric": "latency_p50", "margin": 0.9}, {"metric": "error_rate", "bound": 0.3}]
    this = asked(tmp_path, baseline.url, candidate.url, criteria=criteria, **early)
    record = trial.run(this, progress=False)
    assert record.status == "passed" and record.stages[0].duration_s < 9
    [end] = logs.read(this.dossier.folder / record.log).event("stage_end")
    assert end["early"] == "every criterion of the stage has passed"


def test_a_candidate_that_gets_worse_within_a_stage_still_fails(tmp_path):
    """Passed at an early look, twice as slow from the middle on: each end of the boundary holds by itself."""
    from neuronfit.trial.evaluate import judge

    plan = trial.plan(question(tmp_path, trial={"criteria": [{"metric": "latency_p50", "margin": 0.3}], "detect": 0.8}))
    generator = random.Random(6)
    base = [0.02 * generator.lognormvariate(0, 0.2) for _ in range(2000)]
    pairs = [(value, value * (1.0 if n < 700 else 2.0)) for n, value in enumerate(base)]
    entries = [entry for pair in zip(rows("baseline", [a for a, _ in pairs]), rows("candidate", [b for _, b in pairs])) for entry in pair]
    one = judge(plan.criteria_fixed[0], True, 2000, 0.025)
    outcomes = [one.take(entries, upto) for upto in range(200, 4001, 200)]
    assert "passed" in outcomes and outcomes[-1] == "failed"
    assert one.take(entries[:200]) == "failed", "and it stays so"
