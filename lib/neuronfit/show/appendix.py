"""The tables of the appendix: every record the report leans on, and the question as it was asked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Optional, Union

from neuronfit import record as records
from neuronfit.dossier import Dossier
from neuronfit.provenance import Published
from neuronfit.record import STEPS, Measurement, Profile, Record
from neuronfit.show.table import Column, Note, Table, cell, rows_of
from neuronfit.show.wording import missing, not_run, one_line, source_note, source_text, words

__all__ = ["assumptions_table", "provenance_table", "used_records"]


def provenance_table(dossier: Dossier) -> Union[Table, Note]:
    """Every record the report leans on: id, grade, source, date, hash, file."""
    used = used_records(dossier)
    if not used:
        return Note("No records yet.")
    return Table(
        caption="Records",
        columns=(
            Column("record", "content hash: the first 16 hex digits of sha256 over the record", words=True),
            Column("kind", "what it says, and about which target", words=True),
            Column("grade", "who stands behind it", words=True),
            Column("source", "host and clock, file and hash, title and conditions, or formula", words=True, wide=True),
            Column("date of the source", "as printed by the source", words=True),
            Column("created", "when the record was written, UTC", words=True),
            Column("file", "in the dossier's records folder", words=True),
        ),
        rows=rows_of(
            (
                replace(cell(entry.id), anchor=entry.id),
                cell(words(entry.kind), note=entry.target if isinstance(entry, Measurement) else ""),
                cell(str(entry.grade)),
                cell(source_text(entry.source), note=source_note(entry.source)),
                cell(entry.source.date) if isinstance(entry.source, Published) else missing("the source is not a dated page"),
                cell(entry.created_utc[:16].replace("T", " ")),
                cell(path),
            )
            for entry, path in used
        ),
        key="provenance",
    )


def assumptions_table(profile: Optional[Profile]) -> Union[Table, Note]:
    """The whole question as asked, defaults filled in: one row per key."""
    if profile is None:
        return not_run(None, 1)
    return Table(
        caption="The question, defaults filled in",
        columns=(
            Column("key", "as written in the params file; the unit is part of the name", words=True),
            Column("value", "given in the file, or the documented default", words=True, wide=True),
        ),
        rows=rows_of((cell(key), cell(value)) for key, value in _flat(profile.question)),
        key="assumptions",
    )


def used_records(dossier: Dossier) -> list[tuple[Record, str]]:
    """The records that the report is made of with their file names: conclusions in step order, then comparisons of outputs, then figures."""
    files = {path.stem.rpartition("-")[2]: path.name for path in dossier.files()}
    newest = [dossier.latest(records.KINDS[kind]) for _, kind in STEPS.values()]
    used = [entry for entry in newest if entry is not None] + dossier.parities() + list(dossier.measurements())
    return [(entry, files[entry.id]) for entry in used]


def _flat(value: Any, prefix: str = "") -> list[tuple[str, str]]:
    """A nested mapping as dotted keys; small mappings in a list stay on one line."""
    if isinstance(value, Mapping) and value:
        return [pair for key, inner in value.items() for pair in _flat(inner, f"{prefix}.{key}" if prefix else str(key))]
    if isinstance(value, (list, tuple)) and value and all(isinstance(entry, Mapping) for entry in value):
        return [(f"{prefix}.{index}", one_line(entry)) for index, entry in enumerate(value, 1)]
    return [(prefix, one_line(value))]
