"""`neuronfit monitor`: what a device monitor's file says."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Optional

import click

from neuronfit.cli.common import as_json_option, group, params_path, print_json, reports_option

if TYPE_CHECKING:
    from neuronfit.record import Finding


@group.command(
    epilog="\b\nExamples:\n  neuronfit monitor gpu.csv\n  neuronfit monitor neuron.jsonl --for inf2 --params params/bert-base-uncased.yaml"
)
@click.argument("file", type=params_path)
@click.option("--for", "target", help="Make the file step 5's evidence for this target; with --params.")
@click.option("--params", type=params_path, help="The question it is evidence for.")
@click.option("--instance-type", help="EC2 type that the file is of, where it does not say; gives capacity and peak.")
@click.option("--table", "table", type=params_path, metavar="CSV", help="Also write every row as CSV: time, device, core, metric, value, unit.")
@click.option("--columns", help="The fields of the query that wrote a CSV without a header, as nvidia-smi names them, separated by commas.")
@reports_option
@as_json_option
def monitor(
    file: Path,
    target: Optional[str],
    params: Optional[Path],
    instance_type: Optional[str],
    table: Optional[Path],
    columns: Optional[str],
    reports: Optional[Path],
    as_json: bool,
) -> int:
    """Say how busy devices were, from a file of neuron-monitor, neuron-ls, neuron-top, nvidia-smi, DCGM or CloudWatch."""
    from neuronfit.adopt import monitors
    from neuronfit.catalog import instances
    from neuronfit.errors import BadInput
    from neuronfit.show.monitors import monitor_lines

    if (target is None) != (params is None):
        raise BadInput("--for and --params belong together", target or str(params), next="give both, or neither to only look at the file")
    if instance_type is not None:
        instances.find(instance_type)
    fields = tuple(name.strip() for name in (columns or "").split(",") if name.strip())
    if table is not None:
        _write_table(file, table, fields)
    if target is not None and params is not None:
        from neuronfit.question import Question

        question = Question.from_file(params, reports=reports)
        aim = question.target(target)
        record = question.dossier.admit(monitors.to_records(question, file, target, columns=fields)[0])
        if as_json:
            print_json(json.loads(record.to_json()))
        else:
            click.echo(monitor_lines(record))
            click.echo(f"adopted {record.id} for {aim.name} | next: neuronfit run {question.command_name} --steps 5-8")
        return _status(record.findings)
    summary = monitors.summarise(file, instance_type=instance_type, columns=fields)
    if as_json:
        print_json(summary.plain())
    else:
        click.echo(monitor_lines(summary))
    return _status(summary.findings)


def _status(findings: Sequence[Finding]) -> int:
    """0 where the file says something, 3 where it has no sample."""
    return 3 if any(finding.code == "no_sample" for finding in findings) else 0


def _write_table(file: Path, table: Path, fields: tuple[str, ...]) -> None:
    import csv

    from neuronfit.adopt import monitors
    from neuronfit.errors import NotWritable

    reading = monitors.read(file, columns=fields)
    try:
        with open(table, "w", encoding="utf-8", newline="") as out:
            writer = csv.writer(out, lineterminator="\n")
            writer.writerow(("time", "device", "core", "metric", "value", "unit"))
            for batch in reading:
                writer.writerows(zip(*batch.columns().values()))
    except OSError as error:
        raise NotWritable(f"cannot write the table ({error.strerror or error})", str(table)) from None
