"""`neuronfit adopt`: evidence from elsewhere."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Optional

import click

from neuronfit.cli.common import as_json_option, group, params_path, print_json, reports_option, shown

if TYPE_CHECKING:
    from neuronfit.adopt import Declared, FileRead, Reading
    from neuronfit.question import Question
    from neuronfit.record import Record

MOST_ROWS = 12
"""Rows of one file that are printed; --json prints all."""

SHOWN_FIRST = ("throughput_per_s", "requests_per_s", "output_tokens_per_s", "input_tokens_per_s")


@group.command(
    epilog="\b\nExamples:\n  neuronfit adopt l4.json --for l4\n  neuronfit adopt results/ --for inf2 --params params/x.yaml --precision bf16\n"
    "  neuronfit adopt vllm.json --dry-run"
)
@click.argument("file", type=params_path)
@click.option("--for", "target", help="The target that the file speaks for; records of neuronfit measure name their own.")
@click.option("--params", type=params_path, help="The question it is evidence for; default: the file in params/ that a record's workload names.")
@click.option("--format", "format", help="Format of another tool's file; default: found by its content.")
@click.option("--dry-run", is_flag=True, help="Show what the file says, and adopt nothing.")
@click.option("--batch-size", type=int, help="Batch size, where the file does not say.")
@click.option("--sequence-length", type=int, help="Tokens per input, where the file does not say.")
@click.option("--output-length", type=int, help="Output tokens that were asked for.")
@click.option("--precision", help="What the products ran in, e.g. bf16.")
@click.option("--instance-type", help="EC2 instance type on which it was taken.")
@click.option("--software", help="Framework or server, with its version.")
@click.option("--sdk", help="Neuron SDK version.")
@click.option("--tp-degree", type=int, help="Tensor-parallel degree.")
@click.option("--workers", type=int, help="Workers, or copies of the model.")
@click.option("--concurrency", type=float, help="Requests that were kept in flight.")
@click.option("--requests", type=int, help="Requests that were asked for.")
@click.option("--timed-region", help="What lies between start and stop of the clock.")
@click.option("--model", help="Which model's rows to take, as the file names it.")
@reports_option
@as_json_option
def adopt(
    file: Path,
    target: Optional[str],
    params: Optional[Path],
    format: Optional[str],
    dry_run: bool,
    reports: Optional[Path],
    as_json: bool,
    **declared: Any,
) -> int:
    """Bring evidence from elsewhere into the dossier: a record of another host, another tool's result file, a monitor's
    capture, or a folder of them. What the file does not say is declared by option, and unknown otherwise."""
    from neuronfit.adopt import Declared

    settings = Declared.of(declared)
    if dry_run:
        return _look(file, format, settings, as_json)
    return _admit(file, _question(file, params, reports), target, format, settings, as_json)


def _question(file: Path, params: Optional[Path], reports: Optional[Path]) -> "Question":
    from neuronfit.adopt import files_in, head_of
    from neuronfit.adopt.record_file import read_record
    from neuronfit.errors import BadInput
    from neuronfit.question import Question, params_file

    if params is None:
        for one in files_in(file):
            if not one.is_file() or _is_ours(head_of(one)):
                return Question.from_file(params_file(read_record(one).workload.name), reports=reports)
        raise BadInput(
            "the file does not say which question it is evidence for",
            str(file),
            next="name the params file with --params, or look first with --dry-run",
        )
    return Question.from_file(params, reports=reports)


def _is_ours(head: bytes) -> bool:
    """A record of this project, also a damaged one: it begins like JSON and names a schema and a workload."""
    return head.lstrip()[:1] == b"{" and b'"schema"' in head and b'"workload"' in head


# -- a look without adopting ------------------------------------------------------------------


def _look(file: Path, format: Optional[str], declared: "Declared", as_json: bool) -> int:
    from neuronfit.adopt import head_of, is_monitor, monitors, read_all
    from neuronfit.errors import BadInput

    if file.is_file() and format is None and is_monitor(head_of(file), file.name):
        summary = monitors.summarise(file)
        click.echo(f"{shown(file)}: {monitors.FORMATS[summary.reading.format][0]}, {monitors.FORMATS[summary.reading.format][1]}")
        click.echo(f"  next: neuronfit monitor {shown(file)}, or neuronfit adopt {shown(file)} --for TARGET --params PARAMS")
        return 0
    found = read_all(file, format=format, declared=declared)
    if len(found) == 1 and found[0].problem:
        raise found[0].problem
    if as_json:
        print_json([_as_json(entry) for entry in found])
    else:
        for entry in found:
            _print_file(entry)
    usable = [reading for entry in found for reading in entry.readings if reading.refused is None and reading.has_figures]
    if not as_json and usable:
        click.echo(f"next: neuronfit adopt {shown(file)} --for TARGET --params PARAMS")
    if all(isinstance(entry.problem, BadInput) for entry in found):
        return 2
    return 0 if usable and not all(_blocked(reading) for reading in usable) else 1


def _blocked(reading: "Reading") -> bool:
    return any(fault.severity == "blocker" for fault in reading.faults)


def _as_json(entry: "FileRead") -> dict[str, Any]:
    if entry.problem:
        return {"file": entry.path.name, "problem": str(entry.problem)}
    readings = []
    for reading in entry.readings:
        fields = {field.name: getattr(reading, field.name) for field in dataclasses.fields(reading) if field.name not in ("samples", "faults")}
        fields["raw_requests"] = len(reading.samples)
        fields["findings"] = [dataclasses.asdict(fault) for fault in reading.faults]
        readings.append(fields)
    sha = entry.document.sha256 if entry.document else None
    return {"file": entry.path.name, "sha256": sha, "format": entry.format, "readings": readings}


def _print_file(entry: "FileRead") -> None:
    from neuronfit.adopt import FORMATS

    if entry.problem:
        click.echo(f"{entry.path.name}: left out | {entry.problem}")
        return
    first = entry.readings[0]
    tool = " ".join(str(part) for part in (first.tool, first.tool_version) if part) or "no tool named"
    click.echo(
        f"{entry.path.name}: {FORMATS[entry.format or first.format]} | {tool} | {len(entry.readings)} row{'s' if len(entry.readings) != 1 else ''}"
    )
    for reading in entry.readings[:MOST_ROWS]:
        _print_reading(reading)
    if len(entry.readings) > MOST_ROWS:
        click.echo(f"  ... {len(entry.readings) - MOST_ROWS} more rows; --json prints all")
    _print_findings(entry.readings)


def _print_reading(reading: "Reading") -> None:
    from neuronfit.adopt.evidence import missing_settings

    about = [reading.model, reading.instance_type, reading.label if len(reading.label) > 1 else None]
    about += [f"{reading.completed:,} requests" if reading.completed is not None else None]
    name = " | ".join(dict.fromkeys(str(part) for part in about if part)) or "row"
    click.echo(f"  {name}")
    figures = sorted(
        reading.values, key=lambda metric_name: (metric_name not in SHOWN_FIRST, SHOWN_FIRST.index(metric_name) if metric_name in SHOWN_FIRST else 0)
    )
    if figures:
        click.echo(f"    {', '.join(_said(metric_name, reading.values[metric_name]) for metric_name in figures)}")
    if reading.printed:
        click.echo(f"    in the file, not used: {', '.join(f'{_name(key)} {value}' for key, value in reading.printed.items())}")
    settings = {
        **reading.settings,
        **{key: value for key, value in reading.facts.items() if not key.startswith("declared ") and key not in ("row", "table")},
    }
    if settings:
        click.echo(f"    {', '.join(f'{key.replace(chr(95), chr(32))} {value}' for key, value in settings.items())}"[:400])
    if reading.refused:
        click.echo(f"    not adopted: {reading.refused}" + (f" | next: {reading.instead}" if reading.instead else ""))
    else:
        missing = missing_settings(reading)
        if missing:
            click.echo(f"    not in the file: {', '.join(missing)}")


def _said(name: str, value: float) -> str:
    """A duration above a second is printed in seconds: 15,559 ms is too easily read as 15.6 ms."""
    from neuronfit.units import metric

    known = metric(name)
    text = f"{value:.4g} s" if known.unit == "s" and value >= 1 else known.text(value)
    return f"{known.label} {text}"


def _name(key: str) -> str:
    from neuronfit.units import METRICS

    return METRICS[key].label if key in METRICS else key


MOST_OF_A_KIND = 2
"""Findings of one code that are printed; --json prints all."""


def _print_findings(readings: Sequence["Reading"]) -> None:
    """Each finding once, with the number of rows that have it, the worst first; of a code that many rows have, the first ones."""
    counts: dict[tuple[str, str, str, Optional[str]], int] = {}
    for reading in readings:
        for fault in reading.faults:
            key = (fault.severity, fault.code, fault.because, fault.next)
            counts[key] = counts.get(key, 0) + 1
    kinds: dict[tuple[str, str], list[tuple[str, Optional[str], int]]] = {}
    for (severity, code, because, advice), count in counts.items():
        kinds.setdefault((severity, code), []).append((because, advice, count))
    order = ["blocker", "warning", "waiting", "note"]
    for (severity, code), found in sorted(kinds.items(), key=lambda entry: order.index(entry[0][0])):
        most = len(found) if severity == "blocker" or len(found) <= MOST_OF_A_KIND + 1 else MOST_OF_A_KIND
        for because, advice, count in found[:most]:
            rows = f" (in {count} of {len(readings)} rows)" if count > 1 else ""
            click.echo(f"  {severity} {code}: {because}{rows}" + (f" | next: {advice}" if advice else ""))
        if len(found) > most:
            click.echo(f"  {severity} {code}: ... and {len(found) - most} more of this kind; --json prints all")


# -- into the dossier -------------------------------------------------------------------------


def _admit(file: Path, question: "Question", target: Optional[str], format: Optional[str], declared: "Declared", as_json: bool) -> int:
    from neuronfit.adopt import adopt as admit
    from neuronfit.errors import BadInput

    admitted: list[Record] = []
    problems: list[BadInput] = []
    for path, outcome in admit(question, file, target, format=format, declared=declared):
        if isinstance(outcome, BadInput):
            problems.append(outcome)
            if file.is_dir():
                click.echo(f"left out: {outcome}", err=True)
            continue
        admitted += outcome
        if not as_json:
            for record in outcome:
                _print_record(path, record)
    if not admitted:
        raise problems[0]
    if as_json:
        printed = [json.loads(record.to_json()) for record in admitted]
        print_json(printed[0] if len(printed) == 1 and not file.is_dir() else printed)
    else:
        click.echo(f"next: neuronfit run {question.command_name} --steps 4-8")
    return 1 if all(any(str(finding.severity) == "blocker" for finding in record.findings) for record in admitted) else 0


def _print_record(path: Path, record: "Record") -> None:
    about = getattr(record, "target", None) or "the comparison of outputs"
    click.echo(f"adopted {record.id} for {about} from {path.name}")
    source = record.source
    if source.grade == "imported":
        tool = " ".join(part for part in (getattr(source, "tool", None), getattr(source, "tool_version", None)) if part)
        click.echo(f"  {tool or 'no tool named'}")
        values = {**getattr(record, "values", {})}
        for name in ("latency_p50_s", "latency_p99_s", "throughput_per_s"):
            if name not in values and hasattr(record, "quantity") and (quantity := record.quantity(name)).known:
                values[name] = quantity.value
        if values:
            click.echo(f"  {', '.join(_said(name, value) for name, value in values.items())}")
        if getattr(source, "missing", ()):
            click.echo(f"  not in the file: {', '.join(source.missing)}")
    for finding in record.findings:
        click.echo(f"  {finding.severity} {finding.code}: {finding.because}" + (f" | next: {finding.next}" if finding.next else ""))
