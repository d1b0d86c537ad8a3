"""A controlled test that is cut off: Ctrl-C, a network that is gone, a kill on the way back, a verdict that was never written."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from neuronfit import trial
from neuronfit.dossier import Dossier
from neuronfit.errors import BadInput
from neuronfit.record import Trial
from neuronfit.trial import log as logs
from neuronfit.trial.evaluate import Guard, Judge
from neuronfit.trial.log import Entry, Log
from neuronfit.trial.run import log_path
from test_cli import listen_to_ctrl_c
from test_cli_trial import params_file
from test_trial_run import Service, asked

# -- Ctrl-C -----------------------------------------------------------------------------------


def started(folder: Path, *words: str, **section) -> subprocess.Popen:
    """``neuronfit trial`` in a process of its own, not deaf to SIGINT."""
    command = [sys.executable, "-m", "neuronfit.cli", "trial", str(params_file(folder, **section)), "--reports", str(folder / "reports"), *words]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=listen_to_ctrl_c)


def wait_until(true, process: subprocess.Popen) -> None:
    deadline = time.monotonic() + 60
    while not true() and time.monotonic() < deadline:
        assert process.poll() is None, process.communicate()
        time.sleep(0.05)


def test_ctrl_c_ends_with_130_keeps_every_answer_and_the_test_goes_on(tmp_path):
    baseline, candidate = Service(), Service()
    section = {"baseline_url": baseline.url, "candidate_url": candidate.url, "stages": [{"name": "shadow", "requests": 400}]}
    process = started(tmp_path, **section)
    try:
        wait_until(lambda: len(candidate.seen) > 40, process)
        process.send_signal(signal.SIGINT)
        said, errors = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 130, (said, errors)
    assert "trial_stopped: the test was stopped by hand" in said and "--resume" in said and "Traceback" not in errors
    [path] = (tmp_path / "reports").rglob("trial/*.jsonl")
    logged = logs.read(path)
    assert logged.ended["why"] == "interrupted" and logged.torn == 0
    answered = len(logged.entries)
    assert 60 < answered < 800 and len(candidate.seen) - 5 - sum(entry.arm == "candidate" for entry in logged.entries) <= 20, "in flight"
    [record] = [entry for entry in Dossier(path.parents[1]) if isinstance(entry, Trial)]
    assert record.status == "inconclusive" and [finding.code for finding in record.findings] == ["trial_stopped"]
    process = started(tmp_path, "--resume", **section)
    said, errors = process.communicate(timeout=60)
    assert process.returncode == 0, (said, errors)
    logged = logs.read(path)
    assert len(logged.entries) == 800 and logged.doubled == 0 and len({(entry.n, entry.arm) for entry in logged.entries}) == 800


def test_ctrl_c_while_the_way_back_is_rehearsed(tmp_path):
    """The candidate hangs on its first request; nothing but the rehearsal was sent."""
    baseline, candidate = Service(), Service(hang_after=0)
    process = started(tmp_path, baseline_url=baseline.url, candidate_url=candidate.url, timeout_s=50)
    try:
        wait_until(lambda: len(candidate.seen) == 5, process)
        process.send_signal(signal.SIGINT)
        said, errors = process.communicate(timeout=30)
    finally:
        process.kill()
    assert process.returncode == 130 and "Traceback" not in errors, (said, errors)
    assert baseline.seen == [] and len(candidate.seen) == 5
    [path] = (tmp_path / "reports").rglob("trial/*.jsonl")
    assert logs.read(path).ended["why"] == "interrupted" and logs.read(path).entries == []


# -- the network between ----------------------------------------------------------------------


def test_a_network_that_is_gone_is_no_fault_of_the_candidate(tmp_path):
    """Both sides break off at once: inconclusive, nothing counts against the candidate, and the test goes on later to pass."""
    baseline, candidate = Service(crash_after=60), Service(crash_after=60)
    this = asked(tmp_path, baseline.url, candidate.url)
    record = trial.run(this, progress=False)
    assert record.status == "inconclusive" and record.breaches == () and record.rolled_back is None, record.bottom_line
    [finding] = [finding for finding in record.findings if finding.code == "both_sides_lost"]
    assert str(finding.severity) == "waiting" and "--resume" in finding.next and "connection lost" in finding.because
    logged = logs.read(this.dossier.folder / record.log)
    assert logged.ended["why"] == "lost" and logged.lost >= 10
    assert sum(stage.asked["candidate"] for stage in record.stages) == sum(entry.arm == "candidate" for entry in logged.entries)
    baseline.crash_after = candidate.crash_after = None
    after = trial.run(this, resume=True, progress=False)
    assert after.status == "passed", after.bottom_line
    logged = logs.read(this.dossier.folder / after.log)
    assert {(entry.stage, entry.n, entry.arm) for entry in logged.entries if entry.stage == 0} == {
        (0, n, arm) for n in range(360) for arm in ("baseline", "candidate")
    }
    assert len(logged.entries) == 2 * 360 + 240 and logged.doubled == 0
    assert ("both_sides_lost", "note") in [(finding.code, str(finding.severity)) for finding in after.findings]


# -- killed at awkward moments ----------------------------------------------------------------


def begun(this, *events, ended=None) -> Path:
    """A log of the plan with 40 answered pairs and these events."""
    plan = trial.plan(this)
    log = Log(log_path(this, plan.id))
    log.begin(plan.id, "2026-11-30T12:00:00Z")
    log.event("rehearsal", ok=True)
    log.event("stage", stage=0, name="shadow", per_side=360)
    for n in range(40):
        for arm in ("baseline", "candidate"):
            log.add(Entry(n=n, stage=0, arm=arm, due=n / 100, end=n / 100 + 0.02))
    for name, what in events:
        log.event(name, **what)
    if ended:
        log.event("end", why=ended, utc="2026-11-30T12:01:00Z")
    log.close()
    return log.path


@pytest.mark.parametrize("kind, status", [("breach", "aborted"), ("failed", "inconclusive")])
def test_killed_on_the_way_back_it_is_taken_again_and_nothing_else_is_sent(tmp_path, kind, status):
    baseline, candidate = Service(), Service()
    this = asked(tmp_path, baseline.url, candidate.url)
    path = begun(this, (kind, {"stage": 0, "because": "error_rate: 9 of 40 requests failed"}))
    record = trial.run(this, resume=True, progress=False)
    assert record.status == status and record.rolled_back is True
    assert len(baseline.seen) == 5 and candidate.seen == []
    assert logs.read(path).ended["why"] == kind


def test_a_verdict_that_was_never_written_is_written_on_resuming(tmp_path):
    """Killed between the last line of the log and the record: nothing is sent."""
    baseline, candidate = Service(), Service()
    this = asked(tmp_path, baseline.url, candidate.url)
    path = begun(this, ("breach", {"stage": 0, "because": "error_rate: 9 of 40 requests failed"}), ("rollback", {"ok": True}), ended="breach")
    before = path.read_bytes()
    record = trial.run(this, resume=True, progress=False)
    assert record.status == "aborted" and path.read_bytes() == before and baseline.seen == candidate.seen == []
    with pytest.raises(BadInput, match="tested already"):
        trial.run(this, resume=True, progress=False)


@pytest.mark.parametrize("text, words", [("", {"resume": True}), ("", {}), ("", {"fresh": True}), ("no log\n", {"fresh": True})])
def test_a_log_without_its_first_line_stops_nobody(tmp_path, text, words):
    """Killed before the first line was written, or damaged: begun again, and what was there is kept."""
    baseline, candidate = Service(), Service()
    this = asked(tmp_path, baseline.url, candidate.url, stages=[{"name": "shadow", "requests": 5}])
    path = log_path(this, trial.plan(this).id)
    path.parent.mkdir(parents=True)
    path.write_text(text)
    assert trial.run(this, progress=False, **words).rehearsed
    assert len(logs.read(path).entries) == 10 and all(old.read_text() == text for old in path.parent.glob("*.old"))


def test_beginning_again_twice_keeps_every_earlier_log(tmp_path):
    baseline, candidate = Service(), Service()
    this = asked(tmp_path, baseline.url, candidate.url, stages=[{"name": "shadow", "requests": 5}])
    kept = []
    for fresh in (False, True, True):
        kept.append(logs.read(this.dossier.folder / trial.run(this, fresh=fresh, progress=False).log).sha256)
    found = {logs.read(path).sha256 for path in (this.dossier.folder / "trial").iterdir()}
    assert found == set(kept) and len(found) == 3


# -- what is written, and when ----------------------------------------------------------------


class Chatterbox(Service):
    """Repeats the key that it was sent in its error, with half of a surrogate pair."""

    async def _handle(self, request):
        from aiohttp import web

        if request.headers.get("Authorization") and len(self.seen) >= 5:
            return web.Response(status=500, text=json.dumps({"error": f"bad key {request.headers['Authorization'].split()[1]} \ud800"}))
        return await super()._handle(request)


def test_a_key_that_a_server_repeats_is_not_written(tmp_path, monkeypatch):
    monkeypatch.setenv("SERVICE_TOKEN", "opaque-0123456789")
    baseline, candidate = Service(), Chatterbox()
    this = asked(tmp_path, baseline.url, candidate.url, api_key_env="SERVICE_TOKEN")
    said: list[str] = []
    record = trial.run(this, progress=False, tell=said.append)
    assert record.status == "aborted" and "bad key" in record.bottom_line and "***" in record.bottom_line
    everything = (this.dossier.folder / record.log).read_text() + record.to_json() + "".join(said)
    assert "opaque-0123456789" not in everything


def test_a_guardrail_does_not_wait_for_a_long_look_at_the_criteria(tmp_path, monkeypatch):
    """A look that lasts until the guardrails have been read three times more: they are."""
    guarded, waited, look, breach = threading.Semaphore(0), [], Judge.take, Guard.breach

    def slow(self, *given):
        if not waited:
            waited.append(all(guarded.acquire(timeout=20) for _ in range(3)))
        return look(self, *given)

    def seen(self, entries):
        guarded.release()
        return breach(self, entries)

    monkeypatch.setattr(Judge, "take", slow)
    monkeypatch.setattr(Guard, "breach", seen)
    baseline, candidate = Service(), Service()
    stages = [{"name": "shadow", "requests": 300}]
    record = trial.run(asked(tmp_path, baseline.url, candidate.url, stages=stages, evaluate_every_s=0.2), progress=False)
    assert waited == [True] and record.status == "passed", record.bottom_line


def test_without_a_terminal_the_state_is_told_on_lines(tmp_path, monkeypatch):
    monkeypatch.setattr(sys.modules["neuronfit.trial.run"], "TOLD", 100)
    said: list[str] = []
    baseline, candidate = Service(), Service()
    stages = [{"name": "shadow", "requests": 300}]
    trial.run(asked(tmp_path, baseline.url, candidate.url, stages=stages), progress=False, tell=said.append)
    lines = [line for line in said if line.startswith("shadow: ") and "latency_p50 x " in line]
    assert len(lines) >= 3 and "error_rate passed" in lines[-1] and "agreement passed" in lines[-1], said


@pytest.mark.skipif(os.name != "posix", reason="needs a POSIX terminal")
def test_on_a_terminal_the_bar_shows_rate_and_criteria(tmp_path):
    """Through a pseudo-terminal, as it is typed."""
    import fcntl
    import pty
    import struct
    import termios

    baseline, candidate = Service(), Service()
    path = params_file(tmp_path, baseline_url=baseline.url, candidate_url=candidate.url, stages=[{"name": "shadow", "requests": 250}])
    command = [sys.executable, "-m", "neuronfit.cli", "trial", str(path), "--reports", str(tmp_path / "reports")]
    own, its = pty.openpty()
    fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 250, 0, 0))
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=its)
    os.close(its)
    said = b""
    try:
        while piece := os.read(own, 65536):
            said += piece
    except OSError:
        pass
    os.close(own)
    assert process.wait(60) == 0
    text = said.decode("utf-8", "replace")
    assert "in flight; latency_p50 x " in text and "error_rate passed" in text and "request/s" in text, text[-2000:]
