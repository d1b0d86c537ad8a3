"""Steps 6 and 7 beyond the first table: how far a cost may be off and why, training runs, tasks, and payback as a distribution."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Optional, Union

from neuronfit.cost import of_draws
from neuronfit.provenance import Quantity
from neuronfit.record import Cost, Payback, Sensitivity
from neuronfit.show.figures import INK, AnyFigure, _axes, _bar_axis, _bar_label, _bars_height, _color, _end_labels, _figure
from neuronfit.show.table import Cell, Column, Note, Table, cell, rows_of
from neuronfit.show.wording import missing, not_run, per_million
from neuronfit.units import metric

__all__ = ["cheaper_bars", "cost_tornado", "doubt_table", "paid_back_by", "tasks_table", "training_table", "units_table"]

_SHOWN = {"hourly price": "usd_per_hour", "throughput": "throughput_per_s", "volume": "rate_per_s", "useful share": "fraction"}
"""Input of a tornado -> the metric that shows it."""


def doubt_table(cost: Optional[Cost]) -> Union[Table, Note]:
    """How sure the comparison is: interval, probability, saving, and what the useful results and hours are."""
    if cost is None:
        return not_run(None, 6)
    if not any(entry.instance_hours_per_month or entry.probability_cheaper_full_load for entry in cost.targets):
        return Note("How sure the comparison is appears once both sides have a price and a throughput.")
    nothing = missing("not known")
    said: dict[str, list[str]] = {}
    for entry in cost.targets:
        volume = entry.break_even_volume
        for text in (entry.useful_because, entry.taken_as, *entry.assumed, volume.why if volume and not volume.known else None):
            if text:
                said.setdefault(text, []).append(entry.target)
    return Table(
        caption="How sure is it?",
        columns=(
            Column("target", "name in the params file", words=True),
            Column("your traffic", "per million useful results, with the interval of 90 % of the draws", per_million(cost)),
            Column("useful", "share of the results asked for that is answered without error and in time", "%"),
            Column("hours", "instance-hours that are paid for", "a month"),
            Column("saving", "against the baseline, with the interval of 90 % of the draws", "$ a month"),
            Column("cheaper, traffic", "share of the draws in which it is the cheaper one at your traffic", "%"),
            Column("cheaper, full load", "the same with the hardware busy all the time", "%"),
            Column("volume", "from which on its fleet is never the dearer one", "results a month"),
        ),
        rows=rows_of(
            (
                (
                    cell(entry.target, note=entry.instance_type, strong=True),
                    cell((entry.expected, "usd_per_million")),
                    cell((entry.useful, "fraction")) if entry.useful else nothing,
                    cell((entry.instance_hours_per_month, "instance_hours")) if entry.instance_hours_per_month else nothing,
                    cell((entry.saving_per_month, "usd_per_month")) if entry.saving_per_month else nothing,
                    _chance(entry.probability_cheaper) if entry.probability_cheaper else nothing,
                    _chance(entry.probability_cheaper_full_load) if entry.probability_cheaper_full_load else nothing,
                    cell((entry.break_even_volume, "count")) if entry.break_even_volume else nothing,
                )
                for entry in cost.targets
            ),
            today=0,
        ),
        footnote=" ".join(f"{', '.join(names)}: {text}." for text, names in said.items()),
        key="doubt",
        record=cost.id,
    )


def cheaper_bars(cost: Optional[Cost]) -> AnyFigure:
    """In how many of the draws each candidate is the cheaper one, at full load and at your traffic."""
    kinds = (("at full load", "probability_cheaper_full_load"), ("at your traffic", "probability_cheaper"))
    bars = [
        (row, where, share)
        for row in (cost.targets if cost else ())
        for where, name in kinds
        if (share := getattr(row, name)) is not None and share.known
    ]
    if not bars:
        return Note("How likely a candidate is the cheaper one appears once both sides have a cost.")
    names = [row.target for row in cost.targets]
    said = "; ".join(f"{row.target} {of_draws(share.value)} {where} [{share.grade.letter}]" for row, where, share in bars)
    taken = " ".join(f"{text[0].upper()}{text[1:]}." for text in dict.fromkeys(row.taken_as for row, _, _ in bars if row.taken_as))

    def draw(figure: Any) -> None:
        axes = _axes(figure, "cheaper than the baseline, % of the draws", "")
        _bar_axis(axes, [f"{row.target}  {where}" for row, where, _ in bars])
        axes.set_xlim(0, 100)
        for place, (row, _, share) in enumerate(bars):
            axes.barh(place, 100, height=0.5, color=INK, alpha=0.07)
            axes.barh(place, share.value * 100, height=0.5, color=_color(names, row.target))
            _bar_label(axes, place, of_draws(share.value))
        axes.axvline(50, color=INK, linewidth=1, alpha=0.5)

    return _figure(
        "cheaper",
        f"Share of the draws in which a candidate is the cheaper one: {said}.",
        draw,
        f"At the line nothing is known: either side may be the cheaper one. {taken}".strip(),
        height=_bars_height(len(bars)),
    )


def units_table(cost: Optional[Cost]) -> Union[Table, Note]:
    """The cost at your traffic for each thing that can be counted, and what a dollar buys at full load."""
    if cost is None:
        return not_run(None, 6)
    kinds = list(dict.fromkeys(kind for entry in cost.targets for kind in entry.per_unit))
    if not kinds:
        return Note("Costs by kind of result appear once the cost at your traffic is known.")
    why = sorted(
        {f"{kind}: {entry.per_unit[kind].why}" for entry in cost.targets for kind in kinds if kind in entry.per_unit and entry.per_unit[kind].why}
    )
    return Table(
        caption="Cost at your traffic, by what is counted",
        columns=(
            Column("target", "name in the params file", words=True),
            *(Column(f"million {kind}s", "useful ones, at your traffic", "$") for kind in kinds),
            Column("tokens", "that a dollar buys at full load", "million per $"),
        ),
        rows=rows_of(
            (
                (
                    cell(entry.target, note=entry.instance_type, strong=True),
                    *(cell((entry.per_unit[kind], "usd_per_million")) if kind in entry.per_unit else missing("not known") for kind in kinds),
                    cell((entry.tokens_per_usd, "per_usd")) if entry.tokens_per_usd else missing("not known"),
                )
                for entry in cost.targets
            ),
            today=0,
        ),
        footnote=". ".join(why) + ("." if why else ""),
        key="units",
        record=cost.id,
    )


def _chance(share: Quantity) -> Cell:
    """A probability, no nearer to certain than draws can say."""
    shown = cell((share, "fraction"))
    if not share.known or 0.01 <= share.value <= 0.99:
        return shown
    return replace(shown, pieces=(replace(shown.pieces[0], text="> 99" if share.value > 0.5 else "< 1"),))


def _end(row: Sensitivity, which: str) -> str:
    quantity = getattr(row, which)
    return metric(_SHOWN.get(row.input, "fraction")).text(quantity.value)


def cost_tornado(cost: Optional[Cost]) -> AnyFigure:
    """What moves the cost of each target most: one input at a time at the ends of its interval."""
    rows = [row for row in (cost.targets if cost else ()) if row.tornado]
    if not rows:
        return Note("What moves a cost most appears once an input has an interval and traffic is declared.")
    names = [row.target for row in cost.targets]
    money = metric("usd_per_million").text
    said = "; ".join(
        f"{row.target}: " + ", ".join(f"{entry.input} {money(entry.usd_at_low.value)} to {money(entry.usd_at_high.value)}" for entry in row.tornado)
        for row in rows
    )

    def draw(figure: Any) -> None:
        axes = _axes(figure, f"{per_million(cost)}, at your traffic", "")
        bars = [(row, entry) for row in rows for entry in row.tornado]
        _bar_axis(axes, [f"{row.target}  {entry.input}" for row, entry in bars])
        every = [value for _, entry in bars for value in (entry.usd_at_low.value, entry.usd_at_high.value)]
        every += [row.expected.value for row in rows]
        room = (max(every) - min(every)) or max(every)
        axes.set_xlim(max(0, min(every) - 0.15 * room), max(every) + 0.15 * room)
        for place, (row, entry) in enumerate(bars):
            low, high = sorted((entry.usd_at_low.value, entry.usd_at_high.value))
            axes.barh(place, max(high - low, room * 0.002), left=low, height=0.44, color=_color(names, row.target))
            axes.plot([row.expected.value] * 2, [place - 0.22, place + 0.3], color=INK, linewidth=1.4)
            text = f"{_end(entry, 'low')} to {_end(entry, 'high')}: {money(entry.usd_at_low.value)} to {money(entry.usd_at_high.value)}"
            axes.text(0, place - 0.27, text, va="bottom", ha="left", fontsize=12, transform=axes.get_yaxis_transform())

    return _figure(
        "tornado",
        f"Cost of a million useful results at the ends of each input: {said}.",
        draw,
        "One input at a time at the ends of its interval, the others at their own values (the line). The longest bar matters most. What both "
        "sides share, such as the volume, moves both.",
        height=1.0 + 0.68 * sum(len(row.tornado) for row in rows),
    )


def training_table(cost: Optional[Cost]) -> Union[Table, Note]:
    """Time and money of one training run on each target."""
    if cost is None:
        return not_run(None, 6)
    rows = [entry for entry in cost.targets if entry.training is not None]
    if not rows:
        return Note("This is no training workload, or the amount of one run (workload.training) is not declared.")
    return Table(
        caption="One training run",
        columns=(
            Column("target", "name in the params file", words=True),
            Column("instances", "that work together", "count"),
            Column("throughput", "of all together, samples or tokens", "per second"),
            Column("computing", "without checkpoints and interruptions", "hours"),
            Column("duration", "expected, with them, and the interval of 90 % of the draws", "hours"),
            Column("cost", "of one run", "$"),
            Column("saving", "share of the baseline's cost", "%"),
            Column("cheaper", "share of the draws", "%"),
            Column("checkpoint every", "the interval that would cost least", "hours"),
        ),
        rows=rows_of(
            (
                (
                    cell(entry.target, note=entry.instance_type, strong=True),
                    cell(str(entry.training.instances)),
                    cell((entry.training.throughput, "throughput_per_s")),
                    cell((entry.training.compute, "instance_hours")),
                    cell((entry.training.duration, "instance_hours")),
                    cell((entry.training.cost, "usd")),
                    cell((entry.training.saving, "fraction")) if entry.training.saving else missing("this is the baseline"),
                    _chance(entry.training.probability_cheaper) if entry.training.probability_cheaper else missing("this is the baseline"),
                    cell((entry.training.best_checkpoint_every, "instance_hours"))
                    if entry.training.best_checkpoint_every
                    else missing("nothing to weigh"),
                )
                for entry in rows
            ),
            today=0,
        ),
        footnote=" ".join(entry.training.sentence for entry in rows),
        key="training",
        record=cost.id,
    )


# -- step 7 -----------------------------------------------------------------------------------


def tasks_table(payback: Optional[Payback], target: Optional[str] = None) -> Union[Table, Note]:
    """The work of one candidate's move, task by task (default: the first candidate), with what comes on top."""
    if payback is None:
        return not_run(None, 7)
    row = next((entry for entry in payback.targets if target in (None, entry.target)), None)
    if row is None or not row.tasks:
        return Note("No task is planned.")
    days = metric("person_days").number
    lines = [
        (cell(task.name, strong=True), cell(days(task.low)), cell(days(task.likely)), cell(days(task.high)), cell(task.because)) for task in row.tasks
    ]
    total = [sum(getattr(task, end) for task in row.tasks) for end in ("low", "likely", "high")]
    lines.append((cell("all of it", strong=True), *(cell(days(value)) for value in total), cell("if every task went one way; the draws lie inside")))
    money = metric("usd").text
    more = [f"Upkeep: {row.upkeep_because}."] if row.upkeep_because else []
    if row.parallel is not None:
        shown = money(row.parallel.value) if row.parallel.known else row.parallel.why
        more.append(f"During the trial: {shown} ({row.parallel_because}).")
    if row.second_move is not None:
        second = row.second_move
        likely = f"{second.probability.value:.0%} probable, {money(second.cost.value)} ({second.because})"
        more.append(f"A second migration: {likely if second.probability.value else f'not reckoned with ({second.because.partition(chr(59))[0]})'}.")
    return Table(
        caption=f"Work of the move to {row.target}",
        columns=(
            Column("task", "what has to be done", words=True),
            Column("low", "if all goes well", "person-days"),
            Column("likely", "most likely", "person-days"),
            Column("high", "if it goes badly", "person-days"),
            Column("because", "the template and what asks for it, your plan, or the finding", words=True, wide=True),
        ),
        rows=rows_of(lines),
        footnote=" ".join(more),
        key=f"tasks-{row.target}",
        record=payback.id,
    )


def paid_back_by(payback: Optional[Payback]) -> AnyFigure:
    """Share of the draws that have been paid back by the end of each month."""
    rows = [row for row in (payback.targets if payback else ()) if row.paid_back_by]
    if not rows:
        return Note("The payback month as a distribution appears once step 7 has a saving and an effort.")
    if not any(max(row.paid_back_by) > 0 for row in rows):
        return Note(f"In none of the draws is the move paid back within {payback.horizon_months} months.")
    said = "; ".join(f"{row.target} {row.paid_back_by[-1]:.0%} by month {len(row.paid_back_by) - 1}" for row in rows)
    names = ["", *(row.target for row in rows)]

    def draw(figure: Any) -> None:
        axes = _axes(figure, "month", "paid back, % of the draws")
        ends = []
        for row in rows:
            values = [share * 100 for share in row.paid_back_by]
            axes.step(range(len(values)), values, where="post", color=_color(names, row.target), linewidth=2)
            ends.append((values[-1], row.target))
        axes.set_xlim(0, max(len(row.paid_back_by) for row in rows) - 1)
        axes.set_ylim(0, 105)
        _end_labels(axes, ends)

    return _figure(
        "paid-back-by", f"Share of the draws that are paid back: {said}.", draw, "Where a line crosses 50 % is the median payback month.", height=2.8
    )
