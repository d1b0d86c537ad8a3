"""`neuronfit adopt`: evidence from elsewhere."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Optional

import click

from neuronfit.cli.common import as_json_option, group, params_path, print_json, reports_option


@group.command(epilog="\b\nExample:\n  neuronfit adopt l4.json --for l4")
@click.argument("file", type=params_path)
@click.option("--for", "target", required=True, help="The target that the file speaks for.")
@click.option("--params", type=params_path, help="The question it is evidence for; default: the file in params/ that its workload names.")
@reports_option
@as_json_option
def adopt(file: Path, target: str, params: Optional[Path], reports: Optional[Path], as_json: bool) -> int:
    """Bring a record that was measured on another host into the dossier."""
    from neuronfit.adopt.record_file import adopt_record, read_record
    from neuronfit.question import Question, params_file

    question = Question.from_file(params or params_file(read_record(file).workload.name), reports=reports)
    record = adopt_record(question, file, target)
    if as_json:
        print_json(json.loads(record.to_json()))
    else:
        click.echo(f"adopted {record.id} for {record.target} | next: neuronfit run {question.command_name} --steps 4-8")
    return 0
