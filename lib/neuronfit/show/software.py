"""Step 2's commands, and the memory estimate beside whatever has measured memory. Nothing is computed here."""

from __future__ import annotations

import html as markup
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Optional, Union

from neuronfit.provenance import Grade, Quantity
from neuronfit.record import Compatibility, Compile, Measurement
from neuronfit.show.table import NO_MATH, Cell, Column, Note, Table, cell, plain, rows_of
from neuronfit.show.wording import not_run, shape, step_command

__all__ = ["Listing", "commands", "memory_table"]


@dataclass(frozen=True)
class _Entry:
    title: str
    """target, instance type and path"""
    host: str
    code: Optional[str]
    remarks: tuple[str, ...]


@dataclass(frozen=True)
class Listing:
    """Commands to copy, one block for each target: the same in a notebook, a terminal and the report."""

    caption: str
    entries: tuple[_Entry, ...]

    def __str__(self) -> str:
        lines = [self.caption]
        for entry in self.entries:
            lines += ["", entry.title, f"  where: {entry.host}", *(f"  {line}" for line in (entry.code or "no command").splitlines())]
            lines += [f"  - {remark}" for remark in entry.remarks]
        return "\n".join(lines)

    __repr__ = __str__

    def html(self) -> str:
        """Markup for a page with a style sheet of its own; it needs no class."""
        out = [f"<p><strong>{markup.escape(self.caption)}</strong></p>"]
        for entry in self.entries:
            out.append(f"<p><strong>{markup.escape(entry.title)}</strong><br>Where: {markup.escape(entry.host)}</p>")
            if entry.code:
                out.append(f"<pre>{markup.escape(entry.code)}</pre>")
            if entry.remarks:
                out.append("<ul>" + "".join(f"<li>{markup.escape(remark)}</li>" for remark in entry.remarks) + "</ul>")
        return "\n".join(out)

    def _repr_html_(self) -> str:
        """The same with a style of its own: a notebook shows ``pre`` in the font of the text."""
        style = "font-family:monospace;background:rgba(127,127,127,.08);padding:.5em .7em;white-space:pre-wrap;line-height:1.35"
        styled = self.html().replace("<pre>", f'<pre style="{style}">')
        return f'<div class="{NO_MATH}">\n{styled}\n</div>'


def commands(compatibility: Optional[Compatibility]) -> Union[Listing, Note]:
    """What compiles or serves the workload on each target, every value filled in; and what is left open."""
    if compatibility is None:
        return not_run(None, 2)
    entries = tuple(
        _Entry(
            title=f"{entry.target}: {entry.title} on {entry.instance_type}",
            host=plain(entry.command_host or entry.instance_type),
            code=plain(entry.command) if entry.command else None,
            remarks=tuple(plain(note) for note in entry.command_notes),
        )
        for entry in compatibility.targets
        if entry.command or entry.command_notes
    )
    if not entries:
        return Note("The catalogue has no commands for these software paths.")
    return Listing("What to type for this workload", entries)


def memory_table(
    compatibility: Optional[Compatibility], compiled: Optional[Compile] = None, measurements: Sequence[Measurement] = ()
) -> Union[Table, Note]:
    """The memory estimate beside what measured memory: a compiler, an artefact, a run on a CPU; or what would measure it."""
    if compatibility is None:
        return not_run(None, 2)
    rows: list[tuple[Cell, ...]] = []
    for entry in compatibility.targets:
        found = [*_of_compile(entry.target, compiled), *_of_runs(entry.target, measurements)]
        rows += [_row(entry.target, entry.memory_needed, *one) for one in found]
        if not found:
            step = step_command(compatibility.workload.name, 3)
            how = (
                step
                if entry.path.startswith(("neuron", "torch_neuron"))
                else f"neuronfit measure params/{compatibility.workload.name}.yaml --target {entry.target}"
            )
            rows.append(
                _row(
                    entry.target,
                    entry.memory_needed,
                    "nothing yet",
                    Quantity(unit="bytes", why="nothing has measured it"),
                    f"on {entry.instance_type}: {how}",
                )
            )
    here = _of_runs("cpu", measurements)
    need = compatibility.targets[0].memory_needed
    rows += [_row("cpu", need, *one) for one in here]
    if not here:
        how = f"on any host: neuronfit measure params/{compatibility.workload.name}.yaml --target cpu"
        rows.append(_row("cpu", need, "nothing yet", Quantity(unit="bytes", why="nothing has measured it"), how))
    return Table(
        caption="The memory estimate beside measurements",
        columns=(
            Column("target", "name in the params file; cpu is the host at hand", words=True),
            Column("estimate", "weights exactly, cache and activations as an upper figure, for the largest shape", "GiB"),
            Column("measured by", "what was measured, and how to have it measured", words=True, wide=True),
            Column("measured", "the most memory it held, or the size of the file", "GiB"),
        ),
        rows=rows_of(rows),
        footnote="Only a run's memory is the estimate's counterpart: the compiler's own memory sizes the host that compiles, "
        "and an artefact is what is loaded before cache and activations.",
        key="memory",
        record=compatibility.id,
    )


def _row(target: str, need: Quantity, what: str, measured: Quantity, note: str = "") -> tuple[Cell, ...]:
    return (cell(target, strong=True), cell((need, "memory_bytes")), cell(what, note=note), cell((measured, "memory_bytes")))


def _of_compile(target: str, compiled: Optional[Compile]) -> list[tuple[str, Quantity, str]]:
    """The hungriest compilation of a target, and its artefacts."""
    found: list[tuple[str, Quantity, str]] = []
    for entry in compiled.targets if compiled else ():
        if entry.target == target and entry.peak_memory and entry.peak_memory.known:
            found.append(("the compiler, on the host that compiles", entry.peak_memory, "its own memory, not the model's on the device"))
        if entry.target == target and entry.artefact_bytes:
            grade = entry.grade or Grade.MEASURED
            found.append(
                ("compiled files", Quantity(value=entry.artefact_bytes, unit="bytes", grade=grade, record=entry.record), "all shapes together")
            )
    return found


def _of_runs(target: str, measurements: Sequence[Measurement]) -> list[tuple[str, Quantity, str]]:
    """The most resident memory of the newest measurement of a target that recorded it."""
    for one in reversed(measurements):
        peak = one.settings.other.get("peak_rss_bytes") if one.target == target else None
        if peak and peak.replace(".", "", 1).isdigit():
            why = "resident memory of the whole process: interpreter and libraries are in it"
            return [(f"a run here, {shape(one)}", Quantity(value=float(peak), unit="bytes", grade=one.source.grade, record=one.id, why=why), why)]
    return []
