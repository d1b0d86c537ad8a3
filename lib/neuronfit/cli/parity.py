"""`neuronfit parity`: do two targets give the same answers?"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Optional

import click

from neuronfit.cli.common import as_json_option, group, params_path, print_json, reports_option, shown
from neuronfit.errors import BadInput

EXIT = {"pass": 0, "fail": 1, "not_comparable": 3, "inconclusive": 3}


@group.command(
    epilog="\b\nExamples:\n"
    "  neuronfit parity params/bert-base-uncased.yaml --target l4 --out l4.npz          on the GPU host\n"
    "  neuronfit parity params/bert-base-uncased.yaml --target inf2 --reference l4.npz  on the Neuron host"
)
@click.argument("params", type=params_path)
@click.option("--target", required=True, help="The target whose outputs are computed on this host; `baseline` and `cpu` work too.")
@click.option("--out", type=click.Path(path_type=Path, dir_okay=False), help="Write the outputs to this file, to be compared with on another host.")
@click.option(
    "--reference", type=click.Path(path_type=Path, dir_okay=False), help="Compare with the outputs in this file, written on the baseline's host."
)
@reports_option
@as_json_option
def parity(params: Path, target: str, out: Optional[Path], reference: Optional[Path], reports: Optional[Path], as_json: bool) -> int:
    """Do two targets give the same answers on the same inputs and weights?

    Without --out and --reference the baseline is computed on this host too, and both are compared.

    Exit status: 0 written, or the answers agree within the tolerance; 1 they do not; 3 it cannot be
    told, or the two sides were given different weights or inputs.
    """
    from neuronfit import parity as comparing
    from neuronfit.files import check_writable
    from neuronfit.question import Question

    if out is not None and reference is not None:
        raise BadInput("--out and --reference exclude each other", next="write the baseline's outputs with --out, compare with --reference")
    question = Question.from_file(params, reports=reports)
    aim, base = question.target(target), question.params.baseline.name
    check_writable(question.dossier.folder)
    if out is None and reference is None and aim.name == base:
        raise BadInput("the baseline is what others are compared with", base, next=f"--out {base}.npz, or --target with a candidate")
    if out is not None:
        written = comparing.write_reference(question, aim.name, out)
        if as_json:
            print_json({"file": str(out), "target": aim.name, "side": written.side.model_dump(mode="json")})
        else:
            click.echo(f"{aim.name}: outputs of {len(written.answers)} inputs   {written.side.weights}   {written.side.inputs}")
            click.echo(f"  written: {shown(out)} ({out.stat().st_size / 2**20:,.1f} MiB)")
            click.echo(f"  next: copy it to the other host, then neuronfit parity {question.command_name} --target CANDIDATE --reference {out.name}")
        return 0
    record = comparing.against(question, reference, aim.name) if reference else comparing.between_here(question, base, aim.name)
    if as_json:
        print_json(json.loads(record.to_json()))
    else:
        _say(question, record)
    return EXIT[record.verdict]


def _say(question: Any, record: Any) -> None:
    from neuronfit import show

    click.echo(record.bottom_line)
    if record.metrics:
        click.echo(str(show.parity_table(record)))
    for finding in record.findings:
        click.echo(f"  {finding.severity}: {finding.code}: {finding.because}")
        if finding.next:
            click.echo(f"           next: {finding.next}")
    path = next(path for path in question.dossier.files() if record.id in path.name)
    click.echo(f"  written: {shown(path)}")
    click.echo(f"  next: on the host that writes the report, neuronfit adopt FILE --for {record.candidate.target}")
