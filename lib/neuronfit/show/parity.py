"""The table of step 4's parity: how far two sides' outputs agree, metric by metric."""

from __future__ import annotations

from typing import Optional, Union

from neuronfit.record import Parity, ParityMetric, ParitySide
from neuronfit.show.table import Cell, Column, Note, Table, cell, rows_of
from neuronfit.show.wording import words
from neuronfit.units import metric

__all__ = ["parity_sides_table", "parity_table"]

VERDICTS = {"pass": "good", "fail": "bad", "not_comparable": "wait", "inconclusive": "wait"}

AT_MOST = "lower"
"""What the registry calls better where the tolerance is an upper bound."""


def parity_table(record: Optional[Parity]) -> Union[Table, Note]:
    """Every metric of one comparison of outputs, the one that decides with its bound."""
    if record is None:
        return Note("No outputs have been compared yet.")
    if not record.metrics:
        return Note(record.bottom_line)
    return Table(
        caption=f"Outputs of {record.candidate.target} against {record.baseline.target}: {words(record.verdict)}",
        columns=(
            Column("metric", "how far the outputs agree; definitions in docs/parity.md", words=True),
            Column("over the inputs", "the worst input, the mean, or a share of the inputs", words=True),
            Column("value", "with the interval of a share"),
            Column("inputs", "inputs behind the number"),
            Column("bound", "tolerance of workload.quality; one metric decides, the others are shown"),
            Column("kept", "whether the bound is kept; open where the interval holds it", words=True),
        ),
        rows=rows_of(_row(row) for row in record.metrics),
        footnote=f"{record.bottom_line} Compared: {record.compared}.",
        key="parity",
        record=record.id,
    )


def parity_sides_table(record: Optional[Parity]) -> Union[Table, Note]:
    """What each side computed its outputs with."""
    if record is None:
        return Note("No outputs have been compared yet.")
    return Table(
        caption="What the outputs were computed with",
        columns=(
            Column("target", "name in the params file, and the host", words=True),
            Column("precision", "number format of the products", words=True),
            Column("software", "framework and route", words=True),
            Column("weights", "what they are, and the beginning of their hash", words=True),
            Column("inputs", "where they come from, and the beginning of the hash of what the model was fed", words=True, wide=True),
            Column("computed", "when, and where from if not on this host", words=True),
        ),
        rows=rows_of((_side(side) for side in (record.baseline, record.candidate)), today=0),
        key="parity-sides",
        record=record.id,
    )


def _row(row: ParityMetric) -> tuple[Cell, ...]:
    shown = metric(row.metric)
    kept, tone = {True: ("yes", "good"), False: ("no", "bad"), None: ("open", "wait")}[row.kept] if row.tolerance is not None else ("not judged", "")
    bound = f"{'at most' if shown.better == AT_MOST else 'at least'} {shown.text(row.tolerance)}" if row.tolerance is not None else "shown only"
    return (
        cell(shown.label, strong=row.tolerance is not None),
        cell({"share": "share of all", "difference": "candidate minus baseline"}.get(row.statistic, row.statistic)),
        cell((row.value, row.metric), note=shown.shown_unit),
        cell(f"{row.samples:,}"),
        cell(bound),
        cell(kept, tone=tone),
    )


def _side(side: ParitySide) -> tuple[Cell, ...]:
    place = " · ".join(part for part in (side.instance_type, side.host) if part)
    return (
        cell(side.target, note=place, strong=True),
        cell(words(side.precision or "not stated")),
        cell(side.software, note=side.route or ""),
        cell(side.weights, note=f"sha256 {side.weights_sha256[:12]}"),
        cell(side.inputs, note=f"fed sha256 {side.fed_sha256[:12]}"),
        cell(side.computed_utc, note=f"file sha256 {side.file_sha256[:12]}" if side.file_sha256 else "on this host"),
    )
