"""`neuronfit measure`: one target, on this host."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Optional

import click

from neuronfit.cli.common import as_json_option, group, params_path, print_json, reports_option, shown


@group.command(epilog="\b\nExample, on the GPU host:\n  neuronfit measure params/bert-base-uncased.yaml --target l4")
@click.argument("params", type=params_path)
@click.option("--target", required=True, help="A target of the params file, `baseline`, or `cpu` for this host's CPU.")
@reports_option
@as_json_option
def measure(params: Path, target: str, reports: Optional[Path], as_json: bool) -> int:
    """Measure one target on this host. No Jupyter and no plotting package is needed."""
    from neuronfit import measure as measuring
    from neuronfit.files import check_writable
    from neuronfit.question import Question
    from neuronfit.units import metric

    question = Question.from_file(params, reports=reports)
    question.target(target)
    check_writable(question.dossier.folder)
    taken = measuring.measure(question, target)
    if as_json:
        print_json([json.loads(record.to_json()) for record in taken])
        return 0
    for record in taken:
        rate = record.quantity("throughput_per_s")
        shape = f"batch {record.settings.batch_size}, sequence {record.settings.sequence_length}"
        value = metric("throughput_per_s").text(rate.value) if rate.known else f"no throughput, {rate.why}"
        state = "VALID" if record.valid else f"INVALID, {record.validity}"
        click.echo(f"{record.target}, {shape}: {value}   {state}")
        path = next(path for path in question.dossier.files() if record.id in path.name)
        click.echo(f"  written: {shown(path)}")
    click.echo(f"  next: copy it to the host that writes the report, then neuronfit adopt FILE --for {taken[-1].target}")
    return 0
