"""What monitors saw of the devices: step 5's table and figure, and the lines of `neuronfit monitor`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Optional, Union

from neuronfit.provenance import Quantity
from neuronfit.record import Monitor, MonitoredPart, Utilization, UtilizationOfTarget
from neuronfit.show.figures import INK, AnyFigure, _axes, _bar_axis, _bar_label, _bars_height, _color, _figure
from neuronfit.show.table import Cell, Column, Note, Table, cell, rows_of
from neuronfit.units import metric

if TYPE_CHECKING:
    from neuronfit.adopt.monitors.summary import Summary

__all__ = ["MEANS", "busyness_table", "monitor_bars", "monitor_lines", "monitor_parts_table", "monitor_table"]

MEANS = {
    "gpu_kernel_active": "time with a kernel",
    "gpu_engine_active": "time with the engine active",
    "gpu_sm_active": "SMs with work",
    "neuroncore_utilization": "time a NeuronCore executed",
}
"""What a busyness is, in a few words."""

APART = "A GPU's is the share of time in which some kernel ran, a NeuronCore's the share in which it executed: they are different quantities and cannot be set side by side. Work done against the peak can."

MODELLED = "Modelled busyness counts results against capacity. A counter of a device counts time: it can be high at low load, as one request at a time keeps a device busy too."

MANY = 16
"""Rows of cores that are still listed one by one."""


def monitor_table(records: Sequence[Monitor]) -> Union[Table, Note]:
    """Observed busyness, one row a target: the newest record of each. Kinds of busyness are named, never mixed."""
    newest = {record.target or record.bottom_line: record for record in records}
    if not newest:
        return Note("No device monitor's file has been adopted: neuronfit monitor FILE --for TARGET --params PARAMS.")
    rows = []
    for record in newest.values():
        whole = [part for part in record.parts if part.core is None and "/mig" not in part.device]
        only = whole[0] if len(whole) == 1 else None
        rows.append(
            (
                cell(record.target or "?", note=f"{record.instance_type or 'type not known'}, {_count(len(whole), 'device')}", strong=True),
                cell(
                    (record.busy_mean, "utilization"),
                    (only.busy_p95 if only else _why("fraction", "of several devices"), "utilization"),
                    note=MEANS.get(record.busy_metric or "", ""),
                ),
                cell((only.idle if only else _why("fraction", "of several devices"), "fraction")),
                cell((record.quantities.get("memory_used_bytes"), "memory_bytes"), (record.quantities.get("memory_total_bytes"), "memory_bytes")),
                cell((record.quantities.get("power_w"), "power_w")),
                _work(whole),
                cell(str(record.samples), note=_span(record.span)),
            )
        )
    kinds = {_kind(record.busy_metric) for record in newest.values() if record.busy_metric}
    return Table(
        caption="Seen by device monitors",
        columns=_columns("target", "name in the params file, instance type and devices"),
        rows=rows_of(rows),
        footnote=" ".join([*(record.bottom_line for record in newest.values()), *([APART] if len(kinds) > 1 else [])]),
        key="monitors",
        record=next(iter(newest.values())).id if len(newest) == 1 else "",
    )


def busyness_table(utilization: Optional[Utilization]) -> Union[Table, Note]:
    """Modelled busyness and the observed one, one row a target. Which quantity each is stands in its cell."""
    rows = utilization.targets if utilization else ()
    if not any(row.observed for row in rows):
        return Note("Nothing was observed: no device monitor's file has been adopted, and no measurement sampled its device.")
    kinds = {_kind(row.observed.metric) for row in rows if row.observed and row.observed.metric}
    return Table(
        caption="Modelled and seen",
        columns=(
            Column("target", "name in the params file and instance type", words=True),
            Column("modelled", "offered load over the capacity of all instances, mean", "%"),
            Column("simulated", "demand over what the chosen fleet is paid for", "%"),
            Column("seen", "mean of a device counter; which one, and when it was taken, stands beside it", "%"),
            Column(
                "work seen",
                "achieved FLOP/s over the dense peak, or share of cycles of the tensor pipe: what can be compared across vendors",
                "% of peak",
            ),
        ),
        rows=rows_of(
            (
                cell(row.target, note=row.instance_type, strong=True),
                cell((row.busy_mean, "utilization"), note="load over capacity"),
                cell((_simulated_busy(row), "utilization"), note=(row.chosen or "").replace("_", " ")),
                _seen(row),
                cell((row.observed.work_share if row.observed else _why("fraction", "nothing was observed"), "fraction")),
            )
            for row in rows
        ),
        footnote=MODELLED + (f" {APART}" if len(kinds) > 1 else ""),
        key="busyness",
        record=utilization.id if utilization else "",
    )


def _simulated_busy(row: UtilizationOfTarget) -> Quantity:
    chosen = next((option for option in row.options if option.name == row.chosen), None)
    return chosen.busy if chosen else _why("fraction", row.not_simulated or "no fleet was simulated")


def _seen(row: UtilizationOfTarget) -> Cell:
    seen = row.observed
    if seen is None:
        return cell((_why("fraction", "nothing was observed"), "utilization"))
    vendor = "GPU" if _kind(seen.metric) == "gpu" else "NeuronCore"
    when = "from a file" if seen.adopted else "while it was measured, at that test's load"
    what = f"{vendor}: {MEANS.get(seen.metric, seen.metric)}, " if seen.metric else ""
    return cell((seen.busy, "utilization"), note=what + when)


def monitor_parts_table(record: "Union[Monitor, Summary]") -> Union[Table, Note]:
    """One row a device, MIG slice and core. Of many cores only the devices are listed."""
    cores = [part for part in record.parts if part.core is not None]
    parts = [part for part in record.parts if part.core is None or len(cores) <= MANY]
    if not parts:
        return Note("No device in the file.")
    rows = []
    for part in parts:
        name = f"core {part.core}" if part.core is not None else "device " + part.device.replace("/mig", ", MIG slice ")
        rows.append(
            (
                cell(name, note="" if part.core is not None else part.name or "", strong=part.core is None),
                cell((part.busy_mean, "utilization"), (part.busy_p95, "utilization"), note=MEANS.get(part.busy_metric or "", "")),
                cell((part.idle, "fraction")),
                cell((part.memory_used, "memory_bytes"), (part.memory_total, "memory_bytes")),
                cell((part.power, "power_w")),
                _work([part]),
                cell(str(part.samples)),
            )
        )
    left = f"{len(cores)} cores are not listed one by one." if len(parts) < len(record.parts) else ""
    return Table(
        caption="By device",
        columns=_columns("device", "as the monitor numbers it"),
        rows=rows_of(rows),
        footnote=left,
        key="monitor-parts",
        record=getattr(record, "id", ""),
    )


def _columns(label: str, meaning: str) -> tuple[Column, ...]:
    return (
        Column(label, meaning, words=True),
        Column("busy mean / p95", "of the samples; which quantity it is stands below the number", "%"),
        Column("idle", "share of the samples at or below 0.5 % busy", "%"),
        Column("memory used / there", "the most device memory in use, and the capacity", "GiB"),
        Column("power", "mean", "W"),
        Column("work", "achieved FLOP/s over the dense peak, or the share of cycles of the tensor pipe: what can be compared", "% of peak"),
        Column("samples", "moments sampled, and the time they span"),
    )


def _why(unit: str, why: str) -> Quantity:
    return Quantity(unit=unit, why=why)


def _work(parts: Iterable[MonitoredPart]) -> Cell:
    given = [part for part in parts if part.work.known]
    if not given:
        return cell((_why("fraction", "no FLOP or tensor counter was recorded"), "fraction"))
    first = given[0]
    if not first.work_share.known or len(given) > 1 and not all(part.work_share.known for part in given):
        return cell(
            (first.work_share, "fraction"),
            note=metric("flop_per_s").text(sum(part.work.value or 0 for part in given)) if first.work_metric == "achieved_flop_per_s" else "",
        )
    share = sum(part.work_share.value or 0 for part in given) / len(given)
    note = metric("flop_per_s").text(sum(part.work.value or 0 for part in given)) if first.work_metric == "achieved_flop_per_s" else "tensor pipe"
    return cell((first.work_share.model_copy(update={"value": share}), "fraction"), note=note)


def _kind(name: Optional[str]) -> str:
    return "gpu" if (name or "").startswith("gpu_") else "neuron"


def _count(number: int, what: str) -> str:
    return f"{number} {what}" + ("" if number == 1 else "s")


def _span(span: Quantity) -> str:
    from neuronfit.adopt.monitors.summary import _duration

    return _duration(span.value) if span.known else ""


def monitor_lines(found: "Union[Monitor, Summary]") -> str:
    """What `neuronfit monitor` prints: bottom line, table, other numbers, findings, what was not recorded."""
    lines = [found.bottom_line, "", str(monitor_parts_table(found))]
    others = [
        _named(name, quantity)
        for name, quantity in found.quantities.items()
        if quantity.known and name not in ("memory_used_bytes", "memory_total_bytes")
    ]
    facts = found.facts if isinstance(found, Monitor) else found.reading.facts
    told = [f"{name}: {value}" for name, value in facts.items()] + others
    lines += ["", *told] if told else []
    kinds = {part.busy_metric for part in found.parts if part.busy_metric}
    lines += ["", *(f"busy: {MEANS.get(kind, kind)} ({kind})" for kind in sorted(kinds))] if kinds else []
    if found.findings:
        lines.append("")
        lines += [
            f"{entry.severity} {entry.code}: {entry.because}" + (f" | next: {entry.next}" if entry.next else "")
            for entry in sorted(found.findings, key=_worst_first)
        ]
    missing = getattr(found.source, "missing", ()) if isinstance(found, Monitor) else found.missing
    if missing:
        lines += ["", f"not recorded: {', '.join(missing)}"]
    return "\n".join(lines)


def _worst_first(entry: Any) -> tuple[int, str]:
    from neuronfit.record import Severity

    return list(Severity).index(entry.severity), entry.code


def _named(name: str, quantity: Quantity) -> str:
    shown = {"s": "latency_p99_s", "1/s": "requests_per_s", "fraction": "fraction", "bytes": "memory_bytes", "W": "power_w", "count": "count"}.get(
        quantity.unit
    )
    value = quantity.value or 0.0
    if quantity.unit == "J":
        text = f"{value / 3.6e6:.3g} kWh"
    elif quantity.unit == "C":
        text = f"{value:.0f} C"
    else:
        text = metric(shown).text(value) if shown else f"{value:g} {quantity.unit}"
    return f"{name}: {text}" + (f" ({quantity.why})" if quantity.why else "")


def monitor_bars(records: Sequence[Monitor]) -> AnyFigure:
    """Observed busyness by device: the mean, and the p95 in light. Devices of both vendors get figures of their own."""
    newest = {record.target or record.bottom_line: record for record in records}
    parts = [
        (record, part)
        for record in newest.values()
        for part in record.parts
        if part.core is None and part.busy_mean.known and "/mig" not in part.device
    ]
    if not parts:
        return Note("How busy devices were seen to be appears once a monitor's file with a utilization is adopted.")
    kinds = {_kind(part.busy_metric) for _, part in parts}
    if len(kinds) > 1:
        return Note(APART)
    shown = metric("utilization").text
    several = len(parts) > 1
    names = [f"{record.target} {part.device}" if several else str(record.target) for record, part in parts][:MANY]
    parts = parts[:MANY]
    said = "; ".join(
        f"{name} {shown(part.busy_mean.value or 0)} [{part.busy_mean.grade.letter}]" for name, (_, part) in zip(names, parts) if part.busy_mean.grade
    )

    def draw(figure: Any) -> None:
        axes = _axes(figure, f"% of time, {MEANS.get(parts[0][1].busy_metric or '', 'busy')}", "")
        _bar_axis(axes, names)
        axes.set_xlim(0, 102)
        for place, (record, part) in enumerate(parts):
            color = _color(list(newest), record.target or "")
            axes.barh(place, 100, height=0.5, color=INK, alpha=0.07)
            if part.busy_p95.known:
                axes.barh(place, 100 * (part.busy_p95.value or 0), height=0.5, color=color, alpha=0.3)
            axes.barh(place, 100 * (part.busy_mean.value or 0), height=0.5, color=color)
            p95 = f", {shown(part.busy_p95.value or 0)} p95" if part.busy_p95.known else ""
            _bar_label(axes, place, f"{shown(part.busy_mean.value or 0)} mean{p95}")

    return _figure(
        "observed-busy", f"Busy share that monitors saw: {said}.", draw, "Solid: mean. Light: p95 of the samples.", height=_bars_height(len(parts))
    )
