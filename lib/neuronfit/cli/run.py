"""`neuronfit run`: the notebooks of one or many workloads."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, Optional

import click

from neuronfit.cli.common import as_json_option, group, params_path, print_json, reports_option, shown
from neuronfit.errors import BadInput


@group.command(epilog="\b\nExample:\n  neuronfit run params/*.yaml --steps 1-8 --resume")
@click.argument("params", nargs=-1, required=True, type=params_path)
@click.option("--steps", metavar="1-8", help="Only these steps, such as 4 or 1-3,6; the summary follows.")
@click.option("--resume", is_flag=True, help="Skip steps whose conclusion for the same params file is there.")
@reports_option
@as_json_option
def run(params: tuple[Path, ...], steps: Optional[str], resume: bool, reports: Optional[Path], as_json: bool) -> int:
    """Execute the notebooks of one or many workloads and render the reports."""
    from neuronfit import series
    from neuronfit.files import check_writable
    from neuronfit.question import Question

    wanted = series.parse_steps(steps)
    questions = [Question.from_file(path, reports=reports) for path in params]
    _refuse_doubles(questions)
    for question in questions:
        check_writable(question.dossier.folder)
    outcomes = []
    for question in questions:
        with _Progress(question.name, len(wanted)) as progress:
            outcome = series.run(question, wanted, resume=resume, tell=progress.tell)
        outcomes.append(outcome)
        if not as_json:
            _say_outcome(outcome)
        elif outcome.failed:
            _say_failure(outcome)
    if as_json:
        found = [outcome.decision.content() | {"id": outcome.decision.id} for outcome in outcomes if outcome.decision]
        print_json(found[0] if len(questions) == 1 and found else found)
    failures = [outcome.failed for outcome in outcomes if outcome.failed]
    return 0 if not failures else 2 if any(failure.bad_input for failure in failures) else 1


def _refuse_doubles(questions: list[Any]) -> None:
    seen: dict[str, Any] = {}
    for question in questions:
        other = seen.setdefault(question.name, question)
        if other is not question:
            raise BadInput(f"{other.origin} and {question.origin} both ask about workload", question.name, allowed="one name per params file")


class _Progress:
    """One bar per workload on a terminal, nothing elsewhere."""

    def __init__(self, name: str, steps: int):
        self.name, self.steps, self.bar = name, steps, None

    def __enter__(self) -> "_Progress":
        if sys.stderr.isatty():
            from tqdm import tqdm

            self.bar = tqdm(total=self.steps, desc=self.name, unit="step", leave=False)
        return self

    def tell(self, step: int, state: str) -> None:
        from neuronfit.record import STEPS

        if self.bar is None:
            return
        if state == "running":
            self.bar.set_postfix_str(f"{step} {STEPS[step][0]}")
        else:
            self.bar.update()

    def __exit__(self, *_: object) -> None:
        if self.bar is not None:
            self.bar.close()


def _say_outcome(outcome: Any) -> None:
    decision = outcome.decision
    if decision:
        click.echo(f"{outcome.question.name}: {decision.headline} {decision.sentence}")
        if decision.next_measurement:
            click.echo(f"  next: {decision.next_measurement.command}   (on {decision.next_measurement.host})")
    if outcome.html:
        click.echo(f"  report: {shown(outcome.html)}")
    if outcome.failed:
        _say_failure(outcome)


def _say_failure(outcome: Any) -> None:
    failed = outcome.failed
    kept = len(outcome.question.dossier.files())
    click.echo(f"neuronfit: {outcome.question.name}: step {failed.step} failed: {failed.name}: {failed} | {kept} records are kept", err=True)
