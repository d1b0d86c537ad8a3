"""Recorded traffic of step 1: what the trace is, its week, its lengths."""

from __future__ import annotations

from typing import Any, Optional, Union

from neuronfit.provenance import Grade, Quantity
from neuronfit.record import Profile
from neuronfit.show.figures import INK, AnyFigure, _axes, _color, _figure
from neuronfit.show.table import Cell, Column, Note, Table, cell, rows_of
from neuronfit.show.wording import missing
from neuronfit.traced import TraceSummary
from neuronfit.units import metric

__all__ = ["length_distribution", "trace_table", "week_load"]

DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")

NO_TRACE = "No trace is named in traffic.trace, so the traffic is what is declared."


def trace_table(profile: Optional[Profile]) -> Union[Table, Note]:
    """What the recorded traffic says, number by number."""
    trace = profile.trace if profile else None
    if trace is None:
        return Note(NO_TRACE)
    return Table(
        caption=f"Recorded traffic: {trace.file}",
        columns=(
            Column("what", "requests, not results: a request of generation gives many tokens", words=True),
            Column("value", "counted in the file; rates in requests per second, lengths in tokens"),
            Column("meaning", "how to read it", words=True, wide=True),
        ),
        rows=rows_of((cell(what), value, cell(meaning)) for what, value, meaning in _facts(trace)),
        footnote=f"{trace.requests:,} of {trace.rows:,} rows"
        + (f", from {trace.start} to {trace.end}" if trace.start else "")
        + ". All numbers are imported from the file.",
        key="trace",
        record=profile.id,
    )


def _facts(trace: TraceSummary) -> list[tuple[str, Cell, str]]:
    def number(value: Optional[float], unit: str, name: str, why: str) -> Cell:
        return missing(why) if value is None else cell((Quantity(value=value, unit=unit, grade=Grade.IMPORTED), name))

    why = {"lengths": "the file has no times", "counts": "the file has no single requests"}.get(trace.kind, "the trace is too short")
    zone = f"{trace.zone}{', assumed' if trace.zone_assumed else ''}" if trace.zone else "no date is written"
    window = f"{trace.peak_window_s:g} s" if trace.peak_window_s else "minute"
    found = [
        ("mean rate, requests/s", number(trace.mean_per_s, "1/s", "rate_per_s", why), f"over {_hours(trace.span_s)}; time zone {zone}"),
        (
            "peak rate",
            number(trace.peak_per_s, "1/s", "rate_per_s", why),
            f"in the busiest {window}" + (f", {trace.peak_at}" if trace.peak_at else ""),
        ),
        ("peak to mean", number(trace.peak_to_mean, "ratio", "ratio", why), "what the peak needs beyond the mean"),
        ("busiest second, requests", number(trace.busiest_second, "count", "count", why), "requests that arrive within one second of the clock"),
        ("seconds without a request, %", number(trace.empty_seconds, "fraction", "fraction", why), "a server waits in these"),
        (
            "dispersion per second",
            number(trace.dispersion_1s, "ratio", "ratio", why),
            "variance over mean of the counts: 1 is chance, 0 a clock, more are bursts",
        ),
        (
            "dispersion per minute",
            number(trace.dispersion_60s, "ratio", "ratio", why),
            "the same over minutes; a busy and a quiet time of day raise it too",
        ),
        ("growth a month, %", cell((trace.growth_per_month, "fraction")), "trend of the days, with its 95 % interval"),
        (
            "server errors",
            number(trace.error_fraction, "fraction", "error_fraction", "the file has no status"),
            "share of answers with status 500 and above",
        ),
    ]
    for name, lengths in (("input", trace.input_tokens), ("output", trace.output_tokens)):
        if lengths is None:
            continue
        for share in ("p50", "p99"):
            found.append(
                (
                    f"{name} {share}, tokens",
                    number(lengths.quantiles[share], "count", "count", why),
                    f"mean {lengths.mean:,.4g}, largest {lengths.maximum:,}",
                )
            )
    return found


def _hours(seconds: Optional[float]) -> str:
    if seconds is None:
        return "an unknown time"
    return (
        f"{seconds / 86_400:,.3g} days"
        if seconds >= 2 * 86_400
        else f"{seconds / 3600:,.3g} hours"
        if seconds >= 3600
        else f"{seconds / 60:,.3g} minutes"
    )


def week_load(profile: Optional[Profile]) -> AnyFigure:
    """Requests over the week, hour by hour, as they were recorded."""
    trace = profile.trace if profile else None
    if trace is None:
        return Note(NO_TRACE)
    known = {hour: rate for hour, rate in enumerate(trace.hour_of_week_per_s) if rate is not None}
    if len(known) < 2:
        return Note("The trace has no date, or one hour of the week, so a week cannot be drawn.")
    rate, best, least = metric("rate_per_s").text, max(known, key=known.__getitem__), min(known, key=known.__getitem__)
    said = (
        f"Requests by hour of the week ({trace.zone}): most on {_hour(best)} with {rate(known[best])}, least on {_hour(least)} with {rate(known[least])}; "
        f"the mean is {rate(trace.mean_per_s)}"
    )
    said += "" if len(known) == 168 else f"; {168 - len(known)} of the 168 hours were not recorded"

    def draw(figure: Any) -> None:
        axes = _axes(figure, "day of the week", "requests per second")
        for hour, value in known.items():
            axes.stairs([value], [hour, hour + 1], fill=True, color=INK, alpha=0.15)
        runs = [hour for hour in known if hour - 1 not in known]
        for start in runs:
            end = next(hour for hour in range(start, 169) if hour not in known)
            axes.stairs(
                [known[hour] for hour in range(start, end)], list(range(start, end + 1)), color=_color([""], "week"), linewidth=1.6, baseline=None
            )
        axes.axhline(trace.mean_per_s, color=INK, linestyle=(0, (2, 3)), linewidth=1.3)
        axes.set_xlim(0, 168)
        axes.set_ylim(0, max(known.values()) * 1.15)
        axes.set_xticks([24 * day + 12 for day in range(7)], DAYS)

    return _figure("week-load", f"{said}.", draw, "Dotted: the mean. Hours that were not recorded are left open.", height=3.4)


def _hour(place: int) -> str:
    return f"{DAYS[place // 24]} {place % 24}:00"


def length_distribution(profile: Optional[Profile]) -> AnyFigure:
    """How long inputs and outputs are: the share of requests up to each length."""
    trace = profile.trace if profile else None
    sides = (
        [] if trace is None else [(name, lengths) for name, lengths in (("input", trace.input_tokens), ("output", trace.output_tokens)) if lengths]
    )
    if not sides:
        return Note(NO_TRACE if trace is None else "The trace has no numbers of tokens.")
    said = "; ".join(
        f"{name} tokens: half of the requests up to {lengths.quantiles['p50']:,.0f}, 99 % up to {lengths.quantiles['p99']:,.0f}, the largest {lengths.maximum:,}"
        for name, lengths in sides
    )
    names = ["", *(name for name, _ in sides)]

    def draw(figure: Any) -> None:
        axes = _axes(figure, "tokens, logarithmic", "share of requests up to this length, %")
        for name, lengths in sides:
            total, seen, points = sum(lengths.histogram.values()), 0, [(max(1, lengths.minimum), 0.0)]
            for edge, count in lengths.histogram.items():
                seen += count
                points.append((max(1, min(edge, lengths.maximum)), 100 * seen / total))
            axes.plot(*zip(*points), color=_color(names, name), linewidth=2, drawstyle="steps-post", label=name)
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
        axes.set_ylim(0, 103)
        axes.legend(frameon=False, loc="lower right")

    return _figure(
        "lengths",
        f"{said[0].upper()}{said[1:]}.",
        draw,
        "A compiled graph has a fixed length: what lies between a request and the next bucket is padding.",
    )
