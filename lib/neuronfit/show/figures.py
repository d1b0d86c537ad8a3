"""The figures: a record in, an SVG out that reads in light and dark, on a phone and on paper.

This module is the only importer of matplotlib, and imports it inside functions. It uses the
object API (no pyplot, no window system, no global state left behind). Axes and words are drawn in
``currentColor``, so the page decides; data have hues that keep contrast on white and on black.
The same records give the same bytes: no dates, no random ids.
"""

from __future__ import annotations

import base64
import html as markup
import io
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Optional, Union

from neuronfit.compare import age
from neuronfit.dossier import Dossier
from neuronfit.provenance import Grade, Quantity
from neuronfit.record import BucketAdvice, Comparison, Cost, Measurement, Payback, Profile, Utilization
from neuronfit.show.table import Note
from neuronfit.show.wording import per_million
from neuronfit.units import metric, spoken

__all__ = [
    "Figure",
    "batch_latency_curves",
    "busy_bars",
    "cost_against_latency",
    "cost_bars",
    "hourly_load",
    "padding_curve",
    "payback_curve",
    "settling",
]

INK = "#010203"
"""Drawn with this, shown as ``currentColor``."""

STANDALONE_INK = "#757b82"
"""What ``currentColor`` is where no page says otherwise: 4.3:1 on white and on black."""

TODAY = "#7d858e"
HUES = ("#2787b0", "#a06aa5", "#2a8f5a", "#c4574f", "#8a7a2f")
LIMIT = "#b0741a"

WIDTH, HEIGHT = 5.6, 3.7
"""Inches. At 72 units an inch and 12-unit type, words stay readable at 360 pixels."""

MANY = 400
"""Points from which they are drawn as an image instead of as SVG elements."""


@dataclass(frozen=True)
class Figure:
    """A drawing and the sentence that says the same in numbers.

    ``svg`` takes its ink from the page (``currentColor``). A notebook shows :meth:`_repr_svg_`, the
    same drawing with an ink of its own, legible on light and dark; :meth:`png` is there for the rest.
    """

    name: str
    alt: str
    svg: str = field(repr=False)
    _png: Callable[[], bytes] = field(repr=False, compare=False)
    caption: str = ""

    def __str__(self) -> str:
        return self.alt

    def __repr__(self) -> str:
        return f"Figure({self.name}: {self.alt})"

    def _repr_svg_(self) -> str:
        width, height = (1.25 * float(part) for part in self.svg.split('viewBox="', 1)[1].split('"', 1)[0].split()[2:])
        spaces = 'xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink"'
        return self.svg.replace("<svg ", f'<svg {spaces} width="{width:.0f}" height="{height:.0f}" color="{STANDALONE_INK}" ', 1)

    def png(self) -> bytes:
        """The drawing as PNG on white, twice the size on screen: for mail and slides."""
        return self._png()


AnyFigure = Union[Figure, Note]


def picture_link(figure: Figure) -> str:
    """The drawing as the address of an ``<img>``: what stands on a page twice has its ids once."""
    return "data:image/svg+xml;base64," + base64.b64encode(figure._repr_svg_().encode()).decode()


# -- the figures ------------------------------------------------------------------------------


def cost_against_latency(dossier: Dossier) -> AnyFigure:
    """Cost per million at full load against p99 latency: open circles published, filled with bars measured."""
    profile, comparison, cost = dossier.latest(Profile), dossier.latest(Comparison), dossier.latest(Cost)
    if profile is None or comparison is None or cost is None:
        return Note("Cost against latency appears once steps 4 and 6 have run.")
    figures = {entry.id: entry for entry in dossier.measurements()}
    names = _names(profile)
    points, left_out = [], []
    for row in cost.targets:
        figure = figures.get(comparison.headline.get(row.target, ""))
        p99 = figure.quantity("latency_p99_s") if figure else None
        if p99 is None or not p99.known or not row.full_load.known:
            left_out.append(row.target)
            continue
        points.append((row.target, row.instance_type, p99, row.full_load, figure.grade))
    if not points:
        return Note("No target has both a cost and a p99 latency yet.")
    bound_ms = (profile.question.get("objective") or {}).get("latency_p99_ms")
    missing = f" Left out for want of a figure: {', '.join(left_out)}." if left_out else ""
    said = "; ".join(
        f"{name} ({instance}) {metric('usd_per_million').text(usd.value)} at {metric('latency_p99_s').text(p99.value)} [{grade.letter}]"
        for name, instance, p99, usd, grade in points
    )
    objective = f" The objective is {bound_ms:g} ms." if bound_ms else ""

    def draw(figure: Any) -> None:
        axes = _axes(figure, "p99 latency, ms", f"{per_million(cost)}, full load")
        spread_x = [value * 1e3 for _, _, p99, _, _ in points for value in (p99.value, p99.high or p99.value)]
        spread_y = [value for _, _, _, usd, _ in points for value in (usd.value, usd.low or usd.value, usd.high or usd.value)]
        _limits(axes, 0, max([*spread_x, (bound_ms or 0) * 1.02]) * 1.12, *_room(spread_y))
        labels = []
        for name, _, p99, usd, grade in points:
            x, y, color = p99.value * 1e3, usd.value, _color(names, name)
            if grade in (Grade.MEASURED, Grade.IMPORTED):
                errors_x = _reach(p99, 1e3)
                errors_y = _reach(usd, 1.0)
                axes.errorbar([x], [y], xerr=errors_x, yerr=errors_y, color=color, capsize=3, linewidth=1.4, zorder=2)
            filled = grade in (Grade.MEASURED, Grade.IMPORTED)
            axes.plot([x], [y], "o", markersize=10, markeredgewidth=2.4, color=color, markerfacecolor=color if filled else "none", zorder=3)
            labels.append((x, y, f"{name} {metric('usd_per_million').text(usd.value)}"))
        taken = []
        if bound_ms:
            axes.axvline(bound_ms, color=LIMIT, linestyle=(0, (5, 4)), linewidth=1.4)
            taken.append(_limit_label(axes, bound_ms, f"objective {bound_ms:g} ms"))
        _place(axes, labels, taken)

    return _figure(
        "cost-against-latency",
        f"Cost per million at full load against p99 latency: {said}.{objective}{missing}",
        draw,
        "Low and left is better. An open circle is a published or estimated figure without an interval; a filled one is measured or imported and carries its interval."
        + missing,
    )


def batch_latency_curves(measurements: Sequence[Measurement], order: Sequence[str] = ()) -> AnyFigure:
    """Throughput against latency over batch sizes, one line for each target and precision.

    The latency is p99, or the median where fewer figures have a p99. An INVALID measurement is no point of a line;
    of figures with the same settings the newest is, as in the headline.
    ``order`` are the targets as asked, the baseline first, so that each has the colour that it has in the other figures.
    """
    usable = [entry for entry in measurements if entry.valid is not False and entry.settings.batch_size and entry.quantity("throughput_per_s").known]
    tail, middle = ([entry for entry in usable if entry.quantity(name).known] for name in ("latency_p99_s", "latency_p50_s"))
    name, latency = ("latency_p99_s", "p99 latency") if len(tail) >= len(middle) else ("latency_p50_s", "median latency")
    newest: dict[tuple[str, ...], dict[int, Measurement]] = {}
    for entry in sorted(tail if name == "latency_p99_s" else middle, key=age):
        key = (entry.target, spoken(entry.settings.precision or ""), str(entry.settings.sequence_length), str(entry.grade))
        newest.setdefault(key, {})[entry.settings.batch_size or 0] = entry
    series: dict[tuple[str, ...], list[tuple[int, Quantity, Quantity, Grade]]] = {
        key: [(batch, entry.quantity("throughput_per_s"), entry.quantity(name), entry.grade) for batch, entry in rows.items()]
        for key, rows in newest.items()
    }
    if not series:
        return Note("No VALID figure has a batch size, a throughput and a latency yet.")
    names = list(dict.fromkeys([*order, *sorted((entry.target for entry in measurements), key=lambda name: name == "cpu")]))
    said = "; ".join(
        f"{key[0]} "
        + ", ".join(
            f"batch {batch}: {metric('throughput_per_s').text(rate.value)} at {metric(name).text(seen.value)}"
            for batch, rate, seen, _ in sorted(rows, key=lambda row: row[0])
        )
        + f" [{rows[0][3].letter}]"
        for key, rows in series.items()
    )

    def draw(figure: Any) -> None:
        axes = _axes(figure, f"{latency}, ms (log scale)", "useful results per second")
        axes.set_xscale("log")
        every = [row for rows in series.values() for row in rows]
        latencies = [row[2].value * 1e3 for row in every]
        axes.set_xlim(min(latencies) / 1.5, max(latencies) * 2.2)
        axes.set_ylim(0, max(row[1].value for row in every) * 1.18)
        _plain_log_ticks(axes.xaxis, axes.get_xlim())
        several = {key[0] for key in series if len({other[1] for other in series if other[0] == key[0]}) > 1}
        labels = []
        for key, rows in series.items():
            rows = sorted(rows, key=lambda row: row[0])
            color = _color(names, key[0])
            filled = rows[0][3] in (Grade.MEASURED, Grade.IMPORTED)
            xs, ys = [row[2].value * 1e3 for row in rows], [row[1].value for row in rows]
            axes.plot(xs, ys, "-o", color=color, linewidth=1.3, markersize=7, markeredgewidth=2, markerfacecolor=color if filled else "none")
            for (_, rate, seen, _), x, y in zip(rows, xs, ys):
                axes.errorbar(x, y, xerr=_reach(seen, 1e3), yerr=_reach(rate, 1), color=color, linewidth=1, capsize=2)
            top = max(range(len(rows)), key=lambda index: ys[index])
            name = f"{key[0]} {key[1]}" if key[0] in several else key[0]
            labels += [(xs[top], ys[top], f"{name} b{rows[top][0]}")]
            labels += [(xs[end], ys[end], f"b{rows[end][0]}") for end in {0, len(rows) - 1} - {top}]
        labels.sort(key=lambda label: len(label[2]), reverse=True)
        _place(axes, labels, [], points=[(row[2].value * 1e3, row[1].value) for row in every])

    return _figure(
        "batch-latency",
        f"Throughput against {latency} by batch size: {said}.",
        draw,
        "High and left is better; b8 means a batch of 8. Open circles are published figures, filled ones measured or imported, with their intervals.",
    )


def hourly_load(profile: Optional[Profile], utilization: Optional[Utilization]) -> AnyFigure:
    """Demand hour by hour against the capacity of each target's instances."""
    if profile is None or not profile.hourly_rate_per_s:
        return Note("The load of a day appears once traffic is declared.")
    demand, names = profile.hourly_rate_per_s, _names(profile)
    capacity = [
        (row.target, row.capacity_per_instance.value * row.instances.value, row.instances.value)
        for row in (utilization.targets if utilization else ())
        if row.capacity_per_instance.known and row.instances.known
    ]
    peak = profile.rate_peak.value if profile.rate_peak.known else None
    rate = metric("rate_per_s").text
    said = f"Demand runs from {rate(min(demand))} at {demand.index(min(demand))}:00 to {rate(max(demand))} at {demand.index(max(demand))}:00"
    said += f", with a peak minute of {rate(peak)}" if peak else ""
    said += "".join(f"; {name} can do {rate(total)} on {count:g} instance{'s' if count != 1 else ''}" for name, total, count in capacity)

    def draw(figure: Any) -> None:
        axes = _axes(figure, "hour of the day", "useful results per second")
        hours = list(range(len(demand) + 1))
        axes.stairs(demand, hours, fill=True, color=INK, alpha=0.15)
        axes.stairs(demand, hours, color=INK, linewidth=1.3, alpha=0.7)
        top = max([*demand, peak or 0, *(total for _, total, _ in capacity)])
        axes.set_xlim(0, len(demand))
        axes.set_ylim(0, top * 1.15)
        axes.set_xticks([hour for hour in range(0, len(demand) + 1, 6)])
        lines = [(total, f"{name}, {count:g} instance{'s' if count != 1 else ''}", _color(names, name), "-") for name, total, count in capacity]
        lines += [(peak, "peak minute", INK, (0, (2, 3)))] if peak else []
        for level, _, color, style in lines:
            axes.axhline(level, color=color, linestyle=style, linewidth=1.4)
        _level_labels(axes, [(level, f"{text} {rate(level)}") for level, text, _, _ in lines])

    return _figure("hourly-load", f"{said}.", draw, "The gap between the demand and a line is capacity that is paid for and idle.", height=3.4)


def busy_bars(utilization: Optional[Utilization]) -> AnyFigure:
    """How busy each target would be at the mean and at the peak."""
    rows = [row for row in (utilization.targets if utilization else ()) if row.busy_mean.known]
    if not rows:
        return Note("How busy the hardware is appears once step 5 has a load and a capacity.")
    shown = metric("utilization").text
    said = "; ".join(
        f"{row.target} {shown(row.busy_mean.value)} at the mean"
        + (f", {shown(row.busy_peak.value)} at the peak" if row.busy_peak.known else "")
        + f" [{row.busy_mean.grade.letter}]"
        for row in rows
    )
    names = [row.target for row in rows]

    def draw(figure: Any) -> None:
        axes = _axes(figure, "% of capacity", "")
        _bar_axis(axes, names)
        top = max([1.0, *(row.busy_peak.value for row in rows if row.busy_peak.known)])
        axes.set_xlim(0, top * 100 * 1.02)
        for place, row in enumerate(rows):
            color = _color([one.target for one in utilization.targets], row.target)
            peak = row.busy_peak.value * 100 if row.busy_peak.known else None
            mean = row.busy_mean.value * 100
            axes.barh(place, top * 100, height=0.5, color=INK, alpha=0.07)
            if peak is not None:
                axes.barh(place, peak, height=0.5, color=color, alpha=0.3)
            axes.barh(place, mean, height=0.5, color=color)
            text = f"{shown(row.busy_mean.value)} mean" + (f", {shown(row.busy_peak.value)} peak" if peak is not None else "")
            _bar_label(axes, place, text)

    return _figure(
        "busy",
        f"Busy share of the hardware: {said}.",
        draw,
        "Solid: at the mean rate. Light: at the peak. The rest idles.",
        height=_bars_height(len(rows)),
    )


def cost_bars(cost: Optional[Cost]) -> AnyFigure:
    """Cost per million at full load beside the cost at your traffic."""
    rows = [row for row in (cost.targets if cost else ()) if row.full_load.known]
    if not rows:
        return Note("Cost appears once step 6 has a price and a throughput.")
    money = metric("usd_per_million").text
    said = "; ".join(
        f"{row.target} {money(row.full_load.value)} at full load [{row.full_load.grade.letter}]"
        + (f", {money(row.expected.value)} at your traffic [{row.expected.grade.letter}]" if row.expected.known else "")
        for row in rows
    )
    names = [row.target for row in rows]

    def draw(figure: Any) -> None:
        axes = _axes(figure, per_million(cost), "")
        _bar_axis(axes, names)
        top = max(value for row in rows for one in (row.full_load, row.expected) for value in (one.value or 0, one.high or 0))
        axes.set_xlim(0, top * 1.05)
        for place, row in enumerate(rows):
            color = _color([one.target for one in cost.targets], row.target)
            if row.expected.known:
                axes.barh(place, row.expected.value, height=0.5, color=color, alpha=0.3)
            axes.barh(place, row.full_load.value, height=0.5, color=color)
            for cost_of, height in ((row.expected, 0.14), (row.full_load, -0.08)):
                if cost_of.low is not None:
                    axes.errorbar(cost_of.value, place + height, xerr=_reach(cost_of, 1), color=INK, linewidth=1.2, capsize=3)
            text = f"{money(row.full_load.value)} full load" + (f", {money(row.expected.value)} your traffic" if row.expected.known else "")
            _bar_label(axes, place, text)

    return _figure(
        "cost",
        f"Cost of a million useful results: {said}.",
        draw,
        "Solid: hardware busy all the time. Light: at your traffic, idle hours included. Whiskers: the interval where there is one.",
        height=_bars_height(len(rows)),
    )


def padding_curve(advice: Optional[BucketAdvice]) -> AnyFigure:
    """Padding waste against the number of compiled lengths, with the advised number marked."""
    if advice is None or not advice.choices or not all(choice.waste.known for choice in advice.choices):
        return Note("How much is padding is known once traffic.sequence_lengths says how long the inputs are.")
    points = [(choice.count, choice.waste.value * 100) for choice in advice.choices]
    said = "; ".join(f"{count} bucket{'s' if count > 1 else ''} {waste:.2g}%" for count, waste in points)

    def draw(figure: Any) -> None:
        axes = _axes(figure, "compiled lengths (buckets)", "padding, % of computed tokens")
        axes.plot(*zip(*points), color=_color([""], "padding"), linewidth=2, marker="o", markerfacecolor="none")
        chosen = [point for point in points if point[0] == advice.recommended]
        if chosen:
            axes.plot(*zip(*chosen), color=_color([""], "padding"), marker="o", markersize=9, linestyle="none")
        axes.set_xticks([count for count, _ in points])
        axes.set_ylim(0, max(waste for _, waste in points) * 1.15 or 1)

    return _figure("padding", f"Padding by number of compiled lengths: {said}.", draw, f"Filled: the advised number. {advice.rule}")


def payback_curve(payback: Optional[Payback]) -> AnyFigure:
    """Net position month by month for each candidate, likely case."""
    rows = [row for row in (payback.targets if payback else ()) if row.cumulative_usd]
    if not rows:
        return Note("The payback curve appears once step 7 has a saving and an effort.")
    money = metric("usd").text
    said = "; ".join(
        f"{row.target} stands at {money(float(f'{row.cumulative_usd[-1]:.3g}'))} after {len(row.cumulative_usd) - 1} months"
        + (f" and pays back in month {row.payback_month.value:g}" if row.payback_month.known else " and does not pay back")
        for row in rows
    )
    names = ["", *(row.target for row in rows)]

    def draw(figure: Any) -> None:
        axes = _axes(figure, "month", "net position, thousand $")
        months = max(len(row.cumulative_usd) for row in rows) - 1
        axes.axhline(0, color=INK, linewidth=1, alpha=0.6)
        ends = []
        for row in rows:
            values = [value / 1e3 for value in row.cumulative_usd]
            color = _color(names, row.target)
            if row.band_usd:
                low, high = ([value / 1e3 for value in row.band_usd[end]] for end in ("p5", "p95"))
                axes.fill_between(range(len(low)), low, high, color=color, alpha=0.16, linewidth=0)
            axes.plot(range(len(values)), values, color=color, linewidth=2)
            ends.append((values[-1], row.target))
        axes.set_xlim(0, months)
        bands = [value / 1e3 for row in rows for end in ("p5", "p95") for value in row.band_usd.get(end, ())]
        low, high = _room([0.0, *bands, *(value / 1e3 for row in rows for value in row.cumulative_usd)])
        axes.set_ylim(low, high)
        _end_labels(axes, ends)

    return _figure(
        "payback",
        f"Cumulative saving less spending: {said}.",
        draw,
        "Above zero the move has paid for itself. Line: likely case, without a second migration. Band: 90 % of the draws, with it.",
        height=3.2,
    )


def settling(measurement: Optional[Measurement]) -> AnyFigure:
    """Every call of a measurement in order: warm-up calls open, timed calls filled, runs separated."""
    if measurement is None or not measurement.runs:
        return Note("A figure without runs: there are no single calls to show.")
    runs = measurement.runs
    warm, timed = sum(len(run.warmup_s) for run in runs), sum(len(run.values_s) for run in runs)
    p50 = measurement.quantity("latency_p50_s")
    middle = f"; the median of the timed ones is {metric('latency_p50_s').text(p50.value)}" if p50.known else ""
    first = next((run.warmup_s[0] for run in runs if run.warmup_s), None)
    begin = f"; the first call took {metric('latency_p50_s').text(first)}" if first else ""

    def draw(figure: Any) -> None:
        axes = _axes(figure, "call, in order", "latency, ms (log scale)")
        at, heavy = 0, warm + timed > MANY
        for index, run in enumerate(runs):
            if index:
                axes.axvline(at - 0.5, color=INK, linewidth=0.8, alpha=0.25)
            for values, face in ((run.warmup_s, "none"), (run.values_s, HUES[0])):
                xs = range(at, at + len(values))
                axes.plot(
                    xs, [value * 1e3 for value in values], "o", color=HUES[0], markersize=2.5 if heavy else 4, markerfacecolor=face, rasterized=heavy
                )
                at += len(values)
        axes.set_xlim(-max(1, at / 60), at)
        axes.set_yscale("log")
        every = [value * 1e3 for run in runs for value in (*run.warmup_s, *run.values_s)]
        axes.set_ylim(min(every) / 1.4, max(every) * 1.4)
        _plain_log_ticks(axes.yaxis, axes.get_ylim())

    return _figure(
        f"settling-{measurement.target}",
        f"{measurement.target}: {warm:,} warm-up and {timed:,} timed call{'' if timed == 1 else 's'} in {len(runs)} run{'s' if len(runs) != 1 else ''}{begin}{middle}.",
        draw,
        "Open: warm-up, kept in the record but not counted. Filled: timed. A vertical line starts the next run.",
        height=3.0,
    )


# -- drawing ----------------------------------------------------------------------------------


@contextmanager
def _drawing(salt: str) -> Iterator[None]:
    """Our settings for the time of one drawing; whatever the user set is restored."""
    import matplotlib

    ours = {
        "svg.fonttype": "none",
        "svg.hashsalt": salt,
        "font.family": "sans-serif",
        "font.sans-serif": ["DejaVu Sans"],
        "font.size": 12.5,
        "axes.labelsize": 12.5,
        "text.color": INK,
        "axes.edgecolor": INK,
        "axes.labelcolor": INK,
        "xtick.color": INK,
        "ytick.color": INK,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.unicode_minus": False,
        "text.parse_math": False,
        "path.simplify": True,
    }
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(ours)
        yield


def _canvas(name: str, draw: Callable[[Any], None], height: float) -> Any:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure as Drawing

    drawing = Drawing(figsize=(WIDTH, height), dpi=72, layout="constrained")
    FigureCanvasAgg(drawing)
    drawing.patch.set_alpha(0)
    draw(drawing)
    return drawing


def _figure(name: str, alt: str, draw: Callable[[Any], None], caption: str = "", height: float = HEIGHT) -> Figure:
    with _drawing(name):
        text = io.StringIO()
        nobody = {"Date": None, "Creator": None, "Format": None, "Type": None}
        _canvas(name, draw, height).savefig(text, format="svg", transparent=True, metadata=nobody, dpi=144)

    def png() -> bytes:
        with _drawing(name):
            binary = io.BytesIO()
            _canvas(name, draw, height).savefig(binary, format="png", facecolor="white", dpi=144, metadata={"Software": None})
            return binary.getvalue()

    return Figure(name=name, alt=alt, svg=_clean(text.getvalue(), name, alt), _png=png, caption=caption)


def _clean(svg: str, name: str, alt: str) -> str:
    """Matplotlib's SVG made fit to stand inside a page: no ids but the referenced ones, no page-wide
    style, no metadata, the page's own ink and type."""
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.S)
    svg = re.sub(r"<style[^>]*>.*?</style>", "", svg, flags=re.S)
    svg = re.sub(r"<defs>\s*</defs>", "", svg)
    svg = re.sub(r"<!--.*?-->", "", svg, flags=re.S)
    referenced = set(re.findall(r"url\(#([^)]+)\)", svg)) | set(re.findall(r'href="#([^"]+)"', svg))
    svg = re.sub(r' id="([^"]+)"', lambda found: f' id="{name}-{found[1]}"' if found[1] in referenced else "", svg)
    svg = re.sub(r"url\(#([^)]+)\)", rf"url(#{name}-\1)", svg)
    svg = re.sub(r'href="#([^"]+)"', rf'href="#{name}-\1"', svg)
    svg = re.sub(r"font: ([0-9.]+)px [^;\"]*", r"font: \1px system-ui, sans-serif", svg)
    svg = re.sub(r"font-family: [^;\"]*", "font-family: system-ui, sans-serif", svg)
    svg = svg.replace(INK, "currentColor")
    svg = re.sub(r"\s*\n\s*", "\n", svg).strip()
    box = re.search(r'viewBox="([^"]+)"', svg)
    label = markup.escape(alt)
    head = f'<svg viewBox="{box[1] if box else "0 0 400 260"}" role="img" aria-label="{label}" fill="none" stroke-linejoin="round" stroke-linecap="butt">'
    # text without a fill of its own takes the page's ink
    body = svg[svg.index(">") + 1 :]
    body = re.sub(r"<text (?![^>]*fill)", '<text fill="currentColor" ', body)
    return f"{head}\n<title>{label}</title>{body}"


def _axes(figure: Any, x: str, y: str) -> Any:
    axes = figure.add_subplot()
    axes.patch.set_alpha(0)
    axes.set_xlabel(x, loc="right")
    if y:
        axes.set_title(y, loc="left", fontsize=12.5, fontweight="normal", color=INK)
    axes.grid(True, axis="y", color=INK, alpha=0.13, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.tick_params(length=0, pad=5)
    for side in ("left", "bottom"):
        axes.spines[side].set_alpha(0.45)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(_even_decimals())
    axes.locator_params(axis="both", nbins=6)
    return axes


def _even_decimals() -> Any:
    """Tick labels with thousands separated and the same number of decimals on one axis."""
    from matplotlib.ticker import Formatter

    class EvenDecimals(Formatter):
        def format_ticks(self, values: Sequence[float]) -> list[str]:
            decimals = max((len(f"{value:.6f}".rstrip("0").partition(".")[2]) for value in values), default=0)
            return [f"{value:,.{decimals}f}" if value else "0" for value in values]

        def __call__(self, value: float, pos: Any = None) -> str:
            return self.format_ticks([value])[0]

    return EvenDecimals()


def _plain_log_ticks(axis: Any, limits: tuple[float, float]) -> None:
    from matplotlib.ticker import FixedLocator, NullLocator

    low, high = limits
    steps = [base * 10.0**power for power in range(-4, 7) for base in (1, 2, 5)]
    axis.set_major_locator(FixedLocator([step for step in steps if low <= step <= high]))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(lambda value, _position: f"{value:,.10g}")


def _limits(axes: Any, left: float, right: float, bottom: float, top: float) -> None:
    axes.set_xlim(left, right)
    axes.set_ylim(bottom, top)


def _room(values: Sequence[float]) -> tuple[float, float]:
    """Limits with some air; from zero when zero is near."""
    low, high = min(values), max(values)
    if low >= 0:
        reach = (high - low) or high or 1.0
        bottom = low - 0.45 * reach
        return (0.0 if bottom < 0.25 * low else bottom), high + 0.35 * reach
    reach = (high - low) or abs(low)
    return low - 0.08 * reach, high + 0.12 * reach


def _reach(quantity: Quantity, factor: float) -> Optional[list[list[float]]]:
    if quantity.low is None or quantity.high is None:
        return None
    return [[(quantity.value - quantity.low) * factor], [(quantity.high - quantity.value) * factor]]


def _names(profile: Profile) -> list[str]:
    return [target["name"] for target in (profile.question["baseline"], *profile.question["candidates"])]


def _color(names: Sequence[str], name: str) -> str:
    """The first name (what runs today) is grey, the others get a hue each."""
    place = names.index(name) if name in names else 0
    return TODAY if place == 0 else HUES[(place - 1) % len(HUES)]


def _bar_axis(axes: Any, names: Sequence[str]) -> None:
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(len(names) - 0.45, -0.75)
    axes.grid(False)
    axes.grid(True, axis="x", color=INK, alpha=0.13, linewidth=0.8)
    axes.spines["left"].set_visible(False)


def _bar_label(axes: Any, place: int, text: str) -> None:
    axes.text(0, place - 0.3, text, va="bottom", ha="left", fontsize=12, transform=axes.get_yaxis_transform())


def _bars_height(count: int) -> float:
    return 1.0 + 0.68 * count


# -- labels that do not overlap ---------------------------------------------------------------


def _limit_label(axes: Any, x: float, text: str) -> Any:
    label = axes.annotate(text, (x, 1), xycoords=("data", "axes fraction"), xytext=(-5, -2), textcoords="offset points", ha="right", va="top")
    return label


def _end_labels(axes: Any, ends: Iterable[tuple[float, str]]) -> None:
    """Names at the right end of lines, outside the frame, pushed apart upwards."""
    axes.figure.draw_without_rendering()
    below: Optional[float] = None
    for level, text in sorted(ends):
        at = axes.transData.transform((0, level))[1]
        at = at if below is None else max(at, below)
        place = axes.transData.inverted().transform((0, at))[1]
        axes.annotate(
            text, (1, place), xycoords=("axes fraction", "data"), ha="left", va="center", xytext=(5, 0), textcoords="offset points", fontsize=12
        )
        below = at + 16


def _level_labels(axes: Any, levels: Iterable[tuple[float, str]]) -> None:
    """Labels of horizontal lines, inside at the right above the line, pushed apart upwards."""
    axes.figure.draw_without_rendering()
    below: Optional[float] = None
    for level, text in sorted(levels):
        at = axes.transData.transform((0, level))[1] + 3
        at = at if below is None else max(at, below)
        place = axes.transData.inverted().transform((0, at))[1]
        axes.annotate(
            text, (1, place), xycoords=("axes fraction", "data"), ha="right", va="bottom", xytext=(-2, 0), textcoords="offset points", fontsize=12
        )
        below = at + 16
    _, top = axes.get_ylim()
    needed = axes.transData.inverted().transform((0, (below or 0) + 2))[1]
    if needed > top:
        axes.set_ylim(top=needed)


def _place(axes: Any, labels: Sequence[tuple[float, float, str]], taken: Sequence[Any], points: Sequence[tuple[float, float]] = ()) -> list[Any]:
    """Put each label near its point where it covers no point, no other label and stays inside.

    Tries right, left, above and below, then further up and down with a thin leader line.
    """
    from matplotlib.transforms import Bbox

    figure = axes.figure
    figure.draw_without_rendering()
    renderer = figure.canvas.get_renderer()
    frame = axes.get_window_extent(renderer)
    centres = [axes.transData.transform((x, y)) for x, y, _ in labels]
    own_boxes = [Bbox.from_extents(x - 7, y - 7, x + 7, y + 7) for x, y in centres]
    others = [axes.transData.transform(point) for point in points]
    blocked = own_boxes + [Bbox.from_extents(x - 5, y - 5, x + 5, y + 5) for x, y in others if not any(box.contains(x, y) for box in own_boxes)]
    blocked += [part.get_window_extent(renderer) for part in taken]
    places = [(11, 0, "left", "center"), (-11, 0, "right", "center"), (0, 10, "center", "bottom"), (0, -10, "center", "top")]
    places += [
        (side * 16, rise * 17 * step, "left" if side > 0 else "right", "center") for step in range(1, 9) for rise in (1, -1) for side in (1, -1)
    ]
    put = []
    for (x, y, text), own in zip(labels, own_boxes):
        best = None
        for dx, dy, ha, va in places:
            label = axes.annotate(text, (x, y), xytext=(dx, dy), textcoords="offset points", ha=ha, va=va, fontsize=12)
            box = label.get_window_extent(renderer).padded(1)
            inside = frame.x0 <= box.x0 and box.x1 <= frame.x1 + 2 and frame.y0 <= box.y0 and box.y1 <= frame.y1 + 12
            free = not any(box.overlaps(other) for other in blocked if other is not own)
            if inside and free:
                best = (label, box, dx, dy)
                break
            label.remove()
        if best is None:
            continue
        label, box, dx, dy = best
        blocked.append(box)
        put.append(label)
        if abs(dx) == 16:
            axes.annotate(
                "",
                (x, y),
                xytext=(dx * 0.9, dy),
                textcoords="offset points",
                arrowprops={"arrowstyle": "-", "color": INK, "alpha": 0.5, "linewidth": 0.7},
            )
    return put
