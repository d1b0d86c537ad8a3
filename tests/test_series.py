"""Running notebooks by number: which, in what order, and what becomes of a failure."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import nbformat.sign
import pytest
from neuronfit import series
from neuronfit.errors import BadInput
from neuronfit.question import Question
from neuronfit.record import Cost, Profile
from tiny import params_file

ROOT = Path(__file__).parents[1]


@pytest.fixture(autouse=True)
def in_the_project(monkeypatch):
    monkeypatch.chdir(ROOT)


def test_steps_run_in_the_order_of_the_data_and_the_summary_last():
    assert series.ORDER == (1, 2, 3, 4, 5, 6, 7, 8, 0)
    assert series.parse_steps(None) == series.ORDER
    assert series.parse_steps("1-8") == series.ORDER
    assert series.parse_steps("6,1-3") == (1, 2, 3, 6, 0)
    assert series.parse_steps("0") == (0,)


@pytest.mark.parametrize("text", ["", "9", "1-9", "3-1", "a", "1;2", "-1", "1-", "1.5"])
def test_steps_that_do_not_exist_are_refused(text):
    with pytest.raises(BadInput, match="--steps") as error:
        series.parse_steps(text)
    assert "1-3,6" in str(error.value)


def test_every_step_has_its_notebook():
    assert all(series.notebook(step).exists() for step in series.ORDER)


def execute_stub(monkeypatch, fail_at=None):
    """Replace the execution of notebooks by a log, optionally with a failure."""
    log = []

    def execute(question, step):
        log.append(step)
        if step == fail_at:
            raise series.StepFailed(step, "BadRecord", "evidence.json is not complete JSON")
        if step == 1:
            from neuronfit.profile import describe

            describe(question)

    monkeypatch.setattr(series, "_execute", execute)
    return log


def test_a_failing_step_ends_the_series_and_the_report_is_rendered_from_what_is_there(monkeypatch, tmp_path):
    log = execute_stub(monkeypatch, fail_at=4)
    question = Question.from_file(params_file(tmp_path), reports=tmp_path)
    told = []
    outcome = series.run(question, tell=lambda step, state: told.append((step, state)))
    assert log == [1, 2, 3, 4]
    assert outcome.failed.step == 4 and outcome.failed.bad_input
    assert told[-1] == (4, "failed")
    assert outcome.html.exists()
    assert question.dossier.latest(Profile) is not None


def test_resume_skips_what_is_concluded_for_the_same_params_and_nothing_else(monkeypatch, tmp_path):
    log = execute_stub(monkeypatch)
    question = Question.from_file(params_file(tmp_path), reports=tmp_path)
    series.run(question, (1, 0))
    assert series.run(question, (1, 0), resume=True).skipped == [1]
    changed = Question.from_file(params_file(tmp_path, objective={"latency_p99_ms": 5}), reports=tmp_path)
    assert series.run(changed, (1, 0), resume=True).skipped == []
    assert log == [1, 0, 0, 1, 0]


def test_a_copy_that_was_run_here_is_trusted(monkeypatch, tmp_path):
    """JupyterLab shows the drawings of a notebook without a signature as text."""
    monkeypatch.setenv("JUPYTER_DATA_DIR", str(tmp_path / "jupyter"))
    question = Question.from_file(params_file(tmp_path), reports=tmp_path)
    series._execute(question, 1)
    notary, copy = nbformat.sign.NotebookNotary(), question.dossier.executed_folder / series.notebook(1).name
    assert notary.check_signature(nbformat.read(copy, as_version=4))
    assert not notary.check_signature(nbformat.read(series.notebook(1), as_version=4))


def test_papermill_passes_a_whole_params_file(tmp_path):
    """`papermill NOTEBOOK OUT -f FILE`, as in the README; without earlier steps the cost waits and says for what."""
    params = params_file(tmp_path)
    out = tmp_path / "out.ipynb"
    command = [sys.executable, "-m", "papermill", "notebooks/06_cost.ipynb", str(out), "-f", str(params), "--no-progress-bar"]

    done = subprocess.run(command, env={**os.environ, "NEURONFIT_REPORTS": str(tmp_path)}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    cells = json.loads(out.read_text())["cells"]
    text = json.dumps([cell.get("outputs") for cell in cells])
    assert "No cost to compare yet" in text
    found = Question.from_file(params, reports=tmp_path).dossier.latest(Cost)
    assert {row.target for row in found.targets} == {"l4", "inf2"}
    assert {finding.code for finding in found.findings} == {"no_cost"}
    assert all("neuronfit measure" in finding.next for finding in found.findings)
