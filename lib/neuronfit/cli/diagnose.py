"""`neuronfit diagnose`: what a log means."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, Optional

import click

from neuronfit.cli.common import as_json_option, group, params_path, print_json, reports_option
from neuronfit.errors import BadInput


@group.command(
    epilog="\b\nExamples:\n  neuronfit diagnose log-neuron-cc.txt\n  kubectl logs pod | neuronfit diagnose -\n  neuronfit diagnose compile.log --for inf2 --params params/bert-base-uncased.yaml"
)
@click.argument("log", type=click.Path(path_type=Path, allow_dash=True))
@click.option("--for", "target", help="Make the log step 3's evidence for this target (with --params).")
@click.option("--params", type=params_path, help="The question it is evidence for.")
@reports_option
@as_json_option
def diagnose(log: Path, target: Optional[str], params: Optional[Path], reports: Optional[Path], as_json: bool) -> int:
    """What a Neuron compiler or runtime log means, and what to do. `-` reads standard input.

    Exit status: 0 the log says success, 1 a failure was found, 3 it cannot be told.
    """
    from neuronfit.diagnose import diagnose as judge

    if (target is None) != (params is None):
        raise BadInput("--for and --params go together", next="neuronfit diagnose LOG --for TARGET --params PARAMS")
    source: Any = sys.stdin.buffer if str(log) == "-" else log
    if params is not None and target is not None:
        from neuronfit.diagnose.evidence import adopt as adopt_log
        from neuronfit.question import Question

        record, found = adopt_log(Question.from_file(params, reports=reports), source, target)
    else:
        record, found = None, judge(source)
    if as_json:
        print_json({"diagnosis": found.model_dump(mode="json"), "record": record.id if record else None})
    else:
        _say_diagnosis(found)
        if record:
            click.echo(f"adopted {record.id} for {target} | next: neuronfit run {params} --steps 3-8")
    return found.exit_status


def _say_diagnosis(found: Any) -> None:
    click.echo(found.sentence)
    click.echo(f"  phase    {found.phase}    code {found.code}    finding {found.finding.severity}: {found.finding.code}")
    click.echo(f"  sure?    {found.confidence}: {found.why}")
    for entry in found.evidence or found.informative:
        click.echo(f"  line {entry.line:<6} {entry.text}")
    for number, step in enumerate(found.steps, 1):
        click.echo(f"  {number}. {step}")
    for word, mentions in (("also", found.others), ("harmless", found.harmless)):
        for mention in mentions:
            click.echo(
                f"  {word:<8} line {mention.line}{f' and {mention.count - 1} more' if mention.count > 1 else ''}: {mention.title} ({mention.code})"
            )
    for name, value in found.facts.items():
        click.echo(f"  {name:<18} {value}")
    for what in found.missing:
        click.echo(f"  missing  {what}")
