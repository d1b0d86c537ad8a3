"""How measurements were taken: why they ended, what proves their clock, what the host did meanwhile."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Optional, Union

from neuronfit.provenance import Grade, Quantity, absent
from neuronfit.record import Measurement
from neuronfit.show.table import Cell, Column, Note, Table, cell, rows_of
from neuronfit.show.wording import shape

__all__ = ["protocol_table"]

ENDED = {
    "narrow": "interval narrow enough",
    "budget": "budget spent",
    "failed": "calls failed",
    "interrupted": "stopped by hand",
    "one_call": "one call",
}


def protocol_table(measurements: Sequence[Measurement]) -> Union[Table, Note]:
    """One row for each measurement that this code took: the protocol's side of it."""
    taken = [entry for entry in measurements if entry.taken is not None and entry.runs]
    if not taken:
        return Note("No measurement was taken by this code yet.")
    return Table(
        caption="How it was measured",
        columns=(
            Column("target", "name in the params file; sequences per call and tokens per sequence", words=True),
            Column("runs × calls", "independent runs and timed calls together"),
            Column("in turns with", "settings measured in the same session, run by run, so that what drifts on the host touches all", words=True),
            Column("ended because", "the interval was narrow enough, or the time budget was spent", words=True),
            Column("width", "half width of the deciding interval, share of the value", "%"),
            Column("two calls", "time of two calls over that of one; about 2 proves that the clock sees the work", "ratio"),
            Column("read back", "time of a call with its answer read over one without; 1 proves that the call waits", "ratio"),
            Column("overhead", "what the harness adds to a call, measured with an empty one; below it its share of the median call", "µs"),
            Column("others", "CPUs that everything else on the host kept busy meanwhile, on average", "CPUs"),
            Column("device", "time on the accelerator by its own events, share of the median call", "%"),
        ),
        rows=rows_of(
            (
                cell(entry.target, note=shape(entry), strong=True),
                cell(f"{len(entry.runs)} × {len(entry.latencies_s):,}"),
                cell(
                    f"{len(entry.taken.together_with)} other{'' if len(entry.taken.together_with) == 1 else 's'}"
                    if entry.taken.together_with
                    else "alone"
                ),
                cell(ENDED[entry.taken.ended], note=f"start-up {entry.taken.warm_up.replace('_', ' ')}"),
                _share(entry.taken.width, "no interval yet"),
                *_proof(entry),
                _overhead(entry),
                _others(entry),
                _share(_of_a_call(entry, _device_s(entry)), "no events on this path"),
            )
            for entry in taken
        ),
        key="protocol",
    )


def _quantity(value: float, unit: str) -> Quantity:
    return Quantity(value=value, unit=unit, grade=Grade.MEASURED)


def _share(value: Optional[float], why: str) -> Cell:
    return cell((_quantity(value, "fraction") if value is not None else absent("fraction", why), "fraction"))


def _proof(entry: Measurement) -> tuple[Cell, Cell]:
    clock = entry.taken.clock if entry.taken else None
    if clock is None or clock.single_s <= 0:
        nothing = cell((absent("ratio", "not checked"), "ratio"))
        return nothing, nothing
    tone = "" if clock.verdict == "proven" else "bad"
    double = cell((_quantity(clock.double_s / clock.single_s, "ratio"), "ratio"), tone=tone)
    if clock.read_back_s is None:
        return double, cell((absent("ratio", "this target offers no answer to read"), "ratio"))
    return double, cell((_quantity(clock.read_back_s / clock.single_s, "ratio"), "ratio"), tone=tone)


def _overhead(entry: Measurement) -> Cell:
    seconds = entry.taken.overhead_s if entry.taken else None
    if seconds is None:
        return cell((absent("s", "not measured"), "latency_p50_s"))
    share = _of_a_call(entry, seconds)
    return cell(f"{seconds * 1e6:.2g}", note="" if share is None else "under 0.1 %" if share < 0.001 else f"{share:.1%}")


def _of_a_call(entry: Measurement, seconds: Optional[float]) -> Optional[float]:
    median = entry.quantity("latency_p50_s")
    values = entry.latencies_s
    call = median.value if median.known else sum(values) / len(values) if values else None
    return seconds / call if seconds is not None and call else None


def _device_s(entry: Measurement) -> Optional[float]:
    stated = entry.settings.other.get("device_s_median")
    return float(stated) if stated else None


def _others(entry: Measurement) -> Cell:
    known = [run for run in entry.runs if run.others_cpu_s is not None]
    if not known:
        return cell((absent("count", "the system does not say"), "count"))
    busy = sum(run.others_cpu_s or 0.0 for run in known) / sum(run.duration_s for run in known)
    loads = [run.load_1min for run in known if run.load_1min is not None]
    return cell((_quantity(round(busy, 2), "count"), "count"), note=f"load average up to {max(loads):.3g}" if loads else "")
