"""Run the notebooks by number, in the order of the data (the only importer of papermill).

Each notebook gets the path of the params file as its ``workload`` parameter, a fresh kernel, and
leaves an executed copy in the dossier. Evidence is in ``records/`` as soon as a step has admitted
it, so an interrupted series loses nothing.
"""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Optional

from neuronfit import report
from neuronfit.errors import BadInput
from neuronfit.files import check_writable
from neuronfit.question import Question, project_root
from neuronfit.record import KINDS, STEPS, Decision, Profile

__all__ = ["ORDER", "Outcome", "StepFailed", "parse_steps", "run"]

ORDER = tuple(STEPS)
"""Step numbers in order of execution: 1 to 8, then the summary."""

ENVIRONMENT = {"OMP_WAIT_POLICY": "PASSIVE"}
"""For kernels: threads that wait must not spin, or two processes on one machine slow each other down
several times over."""

_KERNEL_ERRORS = ("BadInput", "BadParams", "BadRecord", "NotFound", "NotComparable", "NotWritable")


class StepFailed(Exception):
    """A notebook ended in an error. ``bad_input`` tells ours from a defect."""

    def __init__(self, step: int, name: str, message: str):
        super().__init__(message)
        self.step, self.name = step, name
        self.bad_input = name in _KERNEL_ERRORS


@dataclass
class Outcome:
    """What became of one question."""

    question: Question
    done: list[int] = field(default_factory=list)
    skipped: list[int] = field(default_factory=list)
    failed: Optional[StepFailed] = None
    html: Optional[Path] = None

    @property
    def decision(self) -> Optional[Decision]:
        return self.question.dossier.latest(Decision)


def parse_steps(text: Optional[str]) -> tuple[int, ...]:
    """``"1-3,6"`` -> (1, 2, 3, 6, 0), in order of execution; the summary always runs last.

    Raises :class:`~neuronfit.errors.BadInput`.
    """
    if text is None:
        return ORDER
    wanted: set[int] = set()
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        if not first.isdigit() or (dash and not last.isdigit()):
            raise BadInput("--steps", text, allowed="numbers and ranges of 0 to 8, such as 4 or 1-3,6", next="--steps 1-8")
        wanted.update(range(int(first), int(last if dash else first) + 1))
    unknown = sorted(wanted - set(ORDER))
    if unknown or not wanted:
        raise BadInput("--steps", text, allowed="numbers and ranges of 0 to 8, such as 4 or 1-3,6", next="--steps 1-8")
    return tuple(step for step in ORDER if step in wanted | {0})


def notebook(step: int) -> Path:
    """The notebook of a step."""
    return project_root() / "notebooks" / f"{step:02d}_{STEPS[step][0]}.ipynb"


def run(
    question: Question,
    steps: Sequence[int] = ORDER,
    *,
    resume: bool = False,
    tell: Callable[[int, str], None] = lambda step, state: None,
) -> Outcome:
    """Execute notebooks for one question and render its report.

    ``tell(step, state)`` is called with ``running``, ``done``, ``skipped`` or ``failed``. The report is
    rendered from whatever the dossier holds, also when a step failed. ``KeyboardInterrupt`` passes
    through: records admitted before stay.
    """
    outcome = Outcome(question)
    check_writable(question.dossier.folder)
    for step in steps:
        if resume and step != 0 and _is_done(question, step):
            outcome.skipped.append(step)
            tell(step, "skipped")
            continue
        tell(step, "running")
        try:
            _execute(question, step)
        except StepFailed as failure:
            outcome.failed = failure
            tell(step, "failed")
            break
        outcome.done.append(step)
        tell(step, "done")
    if question.dossier.latest(Profile):
        outcome.html, _ = report.write(question.dossier)
    return outcome


def _is_done(question: Question, step: int) -> bool:
    """The step's conclusion is there and answers the present params file."""
    profile = question.dossier.latest(Profile)
    if profile is None or profile.question != question.params.model_dump(mode="json"):
        return False
    return question.dossier.latest(KINDS[STEPS[step][1]]) is not None


def _execute(question: Question, step: int) -> None:
    os.environ.setdefault("PYDEVD_DISABLE_FILE_VALIDATION", "1")
    import papermill
    from nbclient.exceptions import CellTimeoutError, DeadKernelError
    from papermill.exceptions import PapermillExecutionError

    logging.getLogger("papermill").setLevel(logging.CRITICAL)  # a kernel that died is told by the exception
    source = notebook(step)
    if not source.exists():
        raise BadInput("the notebook is missing", str(source), next="run from a checkout of the project")
    executed = question.dossier.executed_folder / source.name
    executed.parent.mkdir(parents=True, exist_ok=True)
    saved = {name: os.environ.get(name) for name in (*ENVIRONMENT, "NEURONFIT_REPORTS")}
    os.environ.update(ENVIRONMENT, NEURONFIT_REPORTS=str(question.reports.resolve()))
    try:
        papermill.execute_notebook(
            str(source),
            str(executed),
            parameters={"workload": str(question.origin) if question.origin else question.params.workload.model_dump(mode="json")},
            cwd=str(Path.cwd()),
            progress_bar=False,
            log_output=False,
            extra_arguments=["--log-level=CRITICAL"],
        )
    except PapermillExecutionError as error:
        raise StepFailed(step, error.ename, _first_line(error.evalue)) from None
    except (DeadKernelError, CellTimeoutError) as error:
        raise StepFailed(step, type(error).__name__, _first_line(str(error))) from None
    finally:
        _restore(saved)
    _trust(executed)


def _trust(executed: Path) -> None:
    """Sign a copy that was run here, as Jupyter does with a notebook that one has run: unsigned, JupyterLab shows its drawings as text."""
    import nbformat.sign

    with contextlib.suppress(OSError, ValueError):  # then it is to be trusted by hand
        nbformat.sign.NotebookNotary().sign(nbformat.read(executed, as_version=4))


def _restore(saved: dict[str, Optional[str]]) -> None:
    for name, value in saved.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


def _first_line(text: str) -> str:
    return next((line.strip() for line in text.splitlines() if line.strip()), "no message")
