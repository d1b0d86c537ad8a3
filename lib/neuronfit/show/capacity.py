"""Step 5's figures and tables: a week of demand, what each way of running the fleet idles, latency against load."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Optional, Union

from neuronfit.fleets import ScalingOption
from neuronfit.record import Utilization, UtilizationOfTarget
from neuronfit.show.figures import INK, LIMIT, AnyFigure, _axes, _bar_axis, _color, _end_labels, _figure
from neuronfit.show.table import Column, Note, Table, cell, rows_of
from neuronfit.show.wording import not_run
from neuronfit.units import metric

__all__ = ["POLICY_NAMES", "break_even_curve", "latency_under_load", "options_bars", "scaling_table", "sizes_table", "week_of_demand"]

POLICY_NAMES = {"declared": "as declared", "fixed": "fixed at the peak", "scheduled": "by schedule", "target_tracking": "autoscaled"}
STYLES = {"declared": (0, (7, 1.5, 1.5, 1.5)), "fixed": "-", "scheduled": (0, (4, 2)), "target_tracking": (0, (1, 1.2))}
ALIKE = "whatever the policy"
NOTHING = "A simulated fleet appears once step 4 has a figure and traffic is declared."


def _simulated(utilization: Optional[Utilization]) -> list[UtilizationOfTarget]:
    return [row for row in (utilization.targets if utilization else ()) if row.options]


def _hours(values: Sequence[float], window_h: Optional[float]) -> list[float]:
    """A stored day is laid out over the week that it stands for."""
    return list(values) * 7 if len(values) == 24 and window_h == 168 else list(values)


def _different(row: UtilizationOfTarget) -> list[tuple[str, ScalingOption]]:
    """The policies of a target that differ, each with its name; what several policies come to is named after them all."""
    groups: dict[tuple[object, ...], list[ScalingOption]] = {}
    for option in row.options:
        groups.setdefault((option.fewest, option.most, option.hourly_instances, option.missed.value), []).append(option)
    if len(groups) == 1:
        return [(ALIKE, row.options[0])]
    return [(", ".join(POLICY_NAMES[option.name] for option in alike), alike[0]) for alike in groups.values()]


def week_of_demand(utilization: Optional[Utilization]) -> AnyFigure:
    """Demand hour by hour against the capacity that each policy pays for, one panel per target."""
    rows = _simulated(utilization)
    if not rows:
        return Note(NOTHING)
    window = utilization.window_h
    demand, names = _hours(utilization.hourly_demand_per_s, window), [row.target for row in utilization.targets]
    rate = metric("rate_per_s").text
    said = f"Demand between {rate(min(demand))} and {rate(max(demand))} by hour, {utilization.demand}"
    for row in rows:
        parts = [
            f"{POLICY_NAMES[option.name]} {option.fewest}" + ("" if option.name == "declared" else f" to {option.most}") for option in row.options
        ]
        said += f"; {row.target} instances: {', '.join(parts)}"

    def draw(figure: Any) -> None:
        panels = figure.subplots(len(rows), 1, sharex=True, squeeze=False)[:, 0]
        for place, (axes, row) in enumerate(zip(panels, rows)):
            _panel(axes, row, demand, _color(names, row.target), last=place == len(rows) - 1)
        shown = [name for name in POLICY_NAMES if any(option.name == name for row in rows for option in row.options)]
        handles = [_line(STYLES[name]) for name in shown]
        figure.legend(
            handles,
            [POLICY_NAMES[name] for name in shown],
            loc="outside upper center",
            ncols=len(shown) if len(shown) < 4 else 2,
            frameon=False,
            fontsize=11.5,
            handlelength=2.2,
        )

    what = "of the week" if window == 168 else "of the window"
    return _figure(
        "week",
        f"{said}.",
        draw,
        f"Grey: demand in each hour {what}, results per second. Lines: capacity paid for, so the gap is idle. Where policies come to the same, one line is drawn.",
        height=0.9 + 1.35 * len(rows) + (0.3 if any(option.name == "declared" for row in rows for option in row.options) else 0),
    )


def _panel(axes: Any, row: UtilizationOfTarget, demand: list[float], color: str, *, last: bool) -> None:
    from matplotlib.ticker import MaxNLocator

    axes.patch.set_alpha(0)
    axes.tick_params(length=0, pad=4)
    axes.grid(True, axis="y", color=INK, alpha=0.13, linewidth=0.8)
    edges = list(range(len(demand) + 1))
    axes.stairs(demand, edges, fill=True, color=INK, alpha=0.18)
    top = max(demand)
    for _named, option in _different(row):
        hourly = _hours(option.hourly_instances, len(demand))
        capacity = [count * row.capacity_per_instance.value for count in hourly]
        top = max(top, *capacity)
        axes.stairs(capacity, edges, color=color, linewidth=1.7, linestyle=STYLES[option.name], baseline=None)
    axes.set_xlim(0, len(demand))
    axes.set_ylim(0, top * 1.08)
    axes.yaxis.set_major_locator(MaxNLocator(3))
    axes.yaxis.set_major_formatter(lambda value, _position: f"{value:,.10g}")
    axes.set_title(f"{row.target}, {row.instance_type}", loc="left", fontsize=12.5, color=color)
    if len(demand) == 168:
        axes.set_xticks([12 + 24 * day for day in range(7)], ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"])
        for day in range(1, 7):
            axes.axvline(24 * day, color=INK, alpha=0.13, linewidth=0.8)
    elif last:
        axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))
        axes.set_xlabel("hour of the window", loc="right")


def _line(style: Any) -> Any:
    from matplotlib.lines import Line2D

    return Line2D([], [], color=INK, linestyle=style, linewidth=1.7)


def late(share: float) -> str:
    """A share of late requests in words; a few in millions are no number that anybody reads."""
    return "less than 0.001%" if 0 < share < 1e-5 else metric("late_fraction").text(share)


def _short(named: str) -> str:
    """Two policies in one line leave no room for their long names."""
    return named if "," not in named else named.replace("fixed at the peak", "fixed").replace("by schedule", "scheduled")


def options_bars(utilization: Optional[Utilization]) -> AnyFigure:
    """How much of the paid capacity is busy under each policy, and what the idle rest costs a month."""
    rows = _simulated(utilization)
    if not rows:
        return Note(NOTHING)
    names = [row.target for row in utilization.targets]
    share, money = (metric(name).text for name in ("utilization", "usd_per_month"))
    bars = [(row.target, named, option) for row in rows for named, option in _different(row)]

    def text(named: str, option: Any) -> str:
        idle = f", {money(option.idle_usd_per_month.value)} idle" if option.idle_usd_per_month.known else ""
        missed = f", {late(option.missed.value)} late" if option.missed.known else ""
        return f"{named}: {share(option.busy.value)} busy{idle}{missed}"

    said = "; ".join(f"{name} {text(named, option)}" for name, named, option in bars)

    def draw(figure: Any) -> None:
        axes = _axes(figure, "% of the capacity paid for", "")
        gap, at, ticks = 0.55, 0.0, []
        for row in rows:
            first = at
            for named, option in _different(row):
                color, busy = _color(names, row.target), 100 * min(1.0, option.busy.value)
                axes.barh(at, 100, height=0.36, color=INK, alpha=0.08)
                axes.barh(at, busy, height=0.36, color=color)
                words = text(_short(named), option)
                axes.text(0.6, at - 0.25, words, va="bottom", ha="left", fontsize=11.5).set_in_layout(False)  # or it narrows the bars
                at += 1
            ticks.append((first + at - 1) / 2)
            at += gap
        _bar_axis(axes, [row.target for row in rows])
        axes.set_yticks(ticks, [row.target for row in rows])
        axes.set_ylim(at - gap - 0.6, -0.85)
        axes.set_xlim(0, 100)

    return _figure(
        "options",
        f"Busy share of the paid capacity: {said}.",
        draw,
        f"Filled: busy. The rest is paid for and idle. Money a month at the question's price basis; late: beyond the objective ({utilization.demand}).",
        height=0.9 + 0.44 * len(bars) + 0.2 * len(rows),
    )


def latency_under_load(utilization: Optional[Utilization], bound_ms: Optional[float] = None) -> AnyFigure:
    """p99 latency of one instance of each target as its load grows; ``bound_ms`` is the objective."""
    rows = [row for row in _simulated(utilization) if row.latency_at_load]
    if not rows:
        return Note(NOTHING)
    names = [row.target for row in utilization.targets]
    latency, share = metric("latency_p99_s").text, metric("utilization").text
    said = []
    for row in rows:
        half, high = (min(row.latency_at_load, key=lambda point: abs(point.load - load)) for load in (0.5, 0.9))
        said.append(f"{row.target} {latency(half.p99_s)} at {share(half.load)} and {latency(high.p99_s)} at {share(high.load)} load")
    objective = f" The objective is {bound_ms:g} ms." if bound_ms else ""
    ends = [row.latency_at_load[-1].p99_s * 1e3 for row in rows]
    most = 2.6 * max([bound_ms or 0, *(min(point.p99_s for point in row.latency_at_load) * 1e3 for row in rows)]) if bound_ms else max(ends)

    def draw(figure: Any) -> None:
        axes = _axes(figure, "load, % of capacity", "p99 latency, ms")
        labels = []
        axes.set_xlim(0, 100)
        axes.set_ylim(0, most)
        for row in rows:
            x = [100 * point.load for point in row.latency_at_load]
            y = [1e3 * point.p99_s for point in row.latency_at_load]
            axes.plot(x, y, color=_color(names, row.target), linewidth=2, label=row.target, zorder=3)
            labels.append((y[0], row.target))
        if bound_ms:
            axes.axhline(bound_ms, color=LIMIT, linestyle=(0, (5, 4)), linewidth=1.4)
            axes.annotate(f"objective {bound_ms:g} ms", (1, bound_ms), xytext=(0, 3), textcoords="offset points", va="bottom", fontsize=12)
        axes.legend(loc="upper left" if not bound_ms or bound_ms < 0.75 * most else "lower right", frameon=False, fontsize=12)

    return _figure(
        "latency-load",
        f"p99 latency of one instance under load, waiting included: {'; '.join(said)}.{objective}",
        draw,
        "One instance alone, requests as a Poisson process. Where a line leaves through the top, the queue grows faster than it is served.",
    )


def break_even_curve(utilization: Optional[Utilization]) -> AnyFigure:
    """How busy each candidate must be to cost as much per result as the baseline, for every share that the baseline is busy."""
    rows = [row for row in (utilization.targets if utilization else ()) if row.break_even_ratio is not None and row.break_even_ratio.known]
    base = next((row for row in utilization.targets if row.options), None) if utilization else None
    if not rows or base is None or base.break_even_ratio is not None:
        return Note("The break-even curve appears once the baseline and a candidate have a throughput and a price.")
    names, share = [row.target for row in utilization.targets], metric("utilization").text
    option = next(option for option in base.options if option.name == base.chosen)
    today = option.busy.value
    said = "; ".join(f"{row.target} {share(row.break_even_ratio.value * today)}" for row in rows)

    def draw(figure: Any) -> None:
        axes = _axes(figure, f"{base.target} busy, %", "busy share at which a candidate costs the same, %")
        axes.set_xlim(0, 100)
        axes.set_ylim(0, 100)
        ends = []
        for row in rows:
            ratio = row.break_even_ratio.value
            axes.plot([0, 100], [0, 100 * ratio], color=_color(names, row.target), linewidth=2)
            ends.append((min(100.0, 100 * ratio), row.target))
        axes.axvline(100 * today, color=INK, alpha=0.6, linestyle=(0, (2, 3)), linewidth=1.2)
        axes.annotate(f"today {share(today)}", (100 * today, 97), xytext=(5, 0), textcoords="offset points", va="top", fontsize=12)
        _end_labels(axes, ends)

    return _figure(
        "break-even-busy",
        f"At {share(today)} busy {base.target}, a candidate costs the same per result when it is busy: {said}.",
        draw,
        "Busier than its line, a candidate is the cheaper one. Prices on the question's basis, capacities of step 4.",
        height=3.2,
    )


def _chosen_among(row: UtilizationOfTarget, shown: ScalingOption) -> bool:
    """Whether the option that stands for the target comes to the same as the one shown."""
    chosen = next((option for option in row.options if option.name == row.chosen), None)
    return chosen is not None and (chosen.fewest, chosen.most, chosen.hourly_instances) == (shown.fewest, shown.most, shown.hourly_instances)


def scaling_table(utilization: Optional[Utilization]) -> Union[Table, Note]:
    """Each way of running the fleet, target by target; ways that come to the same share a row."""
    if utilization is None:
        return not_run(None, 5)
    rows = _simulated(utilization)
    if not rows:
        return Note(NOTHING)
    return Table(
        caption="Three ways to run the fleet",
        columns=(
            Column("target", "name in the params file and instance type", words=True),
            Column("policy", "as declared, fixed at the peak, by schedule, or autoscaled on load", words=True),
            Column("instances", "fewest to most that are paid for"),
            Column("a day", "instance-hours of a mean day, launches and spare ones included", "h"),
            Column("a week", "seven such days", "h"),
            Column("busy", "demand over the capacity paid for", "%"),
            Column("late", "share of requests beyond the latency objective, waiting included", "%"),
            Column("a month", "at the price basis of the question", "$"),
            Column("idle", "the part of it that answers nothing", "$"),
        ),
        rows=rows_of(
            (
                cell(row.target, note=row.instance_type, strong=True),
                cell(name, note="stands for the target" if _chosen_among(row, option) else ""),
                cell(f"{option.fewest}" if option.fewest == option.most else f"{option.fewest} to {option.most}"),
                cell((option.instance_hours_per_day, "instance_hours")),
                cell((option.instance_hours_per_week, "instance_hours")),
                cell((option.busy, "utilization")),
                cell((option.missed, "late_fraction")),
                cell((option.usd_per_month, "usd_per_month")),
                cell((option.idle_usd_per_month, "usd_per_month")),
            )
            for row in rows
            for name, option in _different(row)
        ),
        footnote=" ".join([*utilization.assumptions, *_start_ups(rows)]),
        key="scaling",
        record=utilization.id,
    )


def _start_ups(rows: Sequence[UtilizationOfTarget]) -> list[str]:
    """Start-up times with their parts; targets that start alike share a sentence."""
    alike: dict[str, list[str]] = {}
    for row in rows:
        if row.start_up is not None and row.start_up.known:
            alike.setdefault(f"{row.start_up.value:,.4g} s: {row.start_up.why}", []).append(row.target)
    return [f"Start-up of {', '.join(names)}, {said}." for said, names in alike.items()]


def sizes_table(utilization: Optional[Utilization]) -> Union[Table, Note]:
    """The instance types of each target's family that have evidence, and whether a fleet could be shared."""
    rows = [row for row in _simulated(utilization) if row.sizes]
    if not rows:
        return Note("Sizes to choose from appear once a target has a figure.")
    return Table(
        caption="Smaller, or shared?",
        columns=(
            Column("target", "name in the params file", words=True),
            Column("type", "smallest first; of several with the same accelerators the smallest", words=True),
            Column("capacity", "useful results of one instance per second", "per second"),
            Column("needed", "fewest instances that keep the objective at the peak"),
            Column("busy", "mean demand over the capacity of these", "%"),
        ),
        rows=rows_of(
            (
                cell(row.target, strong=True),
                cell(size.instance_type, note="smallest that keeps the objective" if size.instance_type == row.smallest else ""),
                cell((size.capacity, "throughput_per_s")),
                cell((size.needed, "instances")),
                cell((size.busy, "utilization")),
            )
            for row in rows
            for size in row.sizes
        ),
        footnote=" ".join([*(row.shared.sentence for row in rows if row.shared), *(row.shared_with for row in rows if row.shared_with)]),
        key="sizes",
        record=utilization.id,
    )
