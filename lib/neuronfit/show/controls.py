"""Step 5 by hand: sliders over the capacity model, in JupyterLab; the same picture without them elsewhere.

Each move of a control simulates again (under a second once compiled) and draws again. Nothing is written to the dossier:
what is tried here is not evidence. This module alone imports ipywidgets, inside functions.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any, Optional

from neuronfit import capacity
from neuronfit.capacity import answer
from neuronfit.capacity.demand import demand_of
from neuronfit.errors import NeuronFitError
from neuronfit.params import Capacity
from neuronfit.question import Question
from neuronfit.record import Measurement, Utilization
from neuronfit.show.capacity import NOTHING, POLICY_NAMES, latency_under_load, week_of_demand
from neuronfit.show.table import Note
from neuronfit.units import metric

__all__ = ["Tried", "controls", "tried"]


@dataclass(frozen=True)
class Tried:
    """One setting of the controls: a sentence and a record that was not admitted, for the figures."""

    sentence: str
    record: Utilization


def _late(share: float) -> str:
    return "less than 0.001%" if 0 < share < 1e-5 else metric("late_fraction").text(share)


def _range(fewest: int, most: int) -> str:
    return f"{fewest}" if fewest == most else f"{fewest} to {most}"


def tried(
    question: Question, record: Utilization, target: str, *, times: float = 1.0, delay_ms: Optional[float] = None, policy: Optional[str] = None
) -> Tried:
    """What one target would need at ``times`` the demand, with another batch delay or policy. Writes nothing.

    Raises :class:`~neuronfit.errors.NeuronFitError`, one line, where there is nothing to simulate.
    """
    row = next(row for row in record.targets if row.target == target)
    figure = question.dossier.get(row.capacity_per_instance.record)
    chosen = question.target(target)
    wished = {"batch_delay_ms": delay_ms, "scaling": policy}
    settings = question.params.policy.capacity.model_copy(update={name: value for name, value in wished.items() if value is not None})
    demand = demand_of(question)
    if demand is None or not isinstance(figure, Measurement):
        raise NeuronFitError(NOTHING)
    demand = demand.times(times)
    service, kept = capacity.service_of(question, chosen, figure), capacity.promise(question.params.objective)
    start = answer.start_up(question, chosen)
    found = capacity.options(demand, service, kept, settings, start)
    best = next(option for option in found if option.name == settings.scaling)
    curve = capacity.latency_at_load(service, 1, kept, settings.batch_delay_ms / 1e3, settings.seed)
    usd = answer.usd_per_hour(question, chosen.instance_type)
    changed = row.model_copy(
        update={
            "options": tuple(answer.option_of(option, usd) for option in found),
            "chosen": best.name,
            "latency_at_load": answer.curve_of(curve),
        }
    )
    money = f", ${usd * best.instance_hours_per_month * best.idle:,.0f} a month of it idle" if usd else ""
    late = f", {_late(best.missed)} of the requests late" if best.missed is not None else ""
    sentence = (
        f"{target} at {metric('rate_per_s').text(demand.mean_per_s)} on average, {POLICY_NAMES[best.name]}: {_range(int(best.paid.min()), int(best.paid.max()))} "
        f"{chosen.instance_type}, {metric('instance_hours').number(best.instance_hours_per_day)} instance-hours a day, {best.busy:.0%} busy{money}{late}."
    )
    rates = answer.hourly(demand.minute_rates)
    return Tried(
        sentence,
        record.model_copy(update={"targets": (changed,), "hourly_demand_per_s": rates, "window_h": demand.window_s / 3600, "demand": demand.how}),
    )


def controls(question: Question, record: Utilization, *, interactive: Optional[bool] = None) -> Any:
    """Sliders for rate, growth, instance, batch delay and policy; a note and no sliders where nobody could move them.

    ``interactive``: whether there is a person at a notebook; default: the kernel was started by a Jupyter server
    (``JPY_SESSION_NAME``), which papermill and nbconvert are not.
    """
    names = [row.target for row in record.targets if row.options]
    if not names:
        return Note(NOTHING)
    if interactive is None:
        interactive = bool(os.environ.get("JPY_SESSION_NAME"))
    if not interactive:
        example = _attempt(question, record, names[0], 2.0, None, record.targets[0].chosen or "fixed")
        return Note(
            f"Opened in JupyterLab (elsewhere with interactive=True), this cell has controls for rate, growth, target, batch delay and policy. At twice the demand: {example}"
        )
    return _Panel(question, record, names).box


def _attempt(question: Question, record: Utilization, target: str, times: float, delay_ms: Optional[float], policy: str) -> str:
    try:
        return tried(question, record, target, times=times, delay_ms=delay_ms, policy=policy).sentence
    except NeuronFitError as error:
        return str(error)


class _Panel:
    """The widgets and what they show."""

    def __init__(self, question: Question, record: Utilization, names: list[str]):
        import ipywidgets as widgets

        self.question, self.record = question, record
        settings: Capacity = question.params.policy.capacity
        wide, word = {"layout": widgets.Layout(width="26em")}, {"description_width": "8em"}
        ready = {"continuous_update": False, "style": word, **wide}
        self.rate = widgets.FloatLogSlider(value=1.0, base=10, min=-1, max=2, step=0.05, readout_format=".2f", description="rate, times", **ready)
        self.growth = widgets.IntSlider(value=0, min=0, max=200, step=10, description="growth, %", **ready)
        self.delay = widgets.FloatSlider(value=settings.batch_delay_ms, min=0, max=20, step=0.5, description="batch delay, ms", **ready)
        self.target = widgets.Dropdown(options=names, description="target", style=word, **wide)
        self.policy = widgets.Dropdown(
            options=[(text, name) for name, text in POLICY_NAMES.items()], value=settings.scaling, description="policy", style=word, **wide
        )
        self.said, self.week, self.latency = widgets.HTML(), widgets.HTML(), widgets.HTML()
        moved = (self.rate, self.growth, self.delay, self.target, self.policy)
        for control in moved:
            control.observe(self.answer, names="value")
        self.box = widgets.VBox(
            [widgets.HBox([widgets.VBox(moved[:3]), widgets.VBox(moved[3:])]), self.said, widgets.HBox([self.week, self.latency])]
        )
        self.answer()

    def answer(self, _change: Any = None) -> None:
        """Simulate and draw again; an error becomes a line."""
        times = self.rate.value * (1 + self.growth.value / 100)
        try:
            now = tried(self.question, self.record, self.target.value, times=times, delay_ms=self.delay.value, policy=self.policy.value)
        except NeuronFitError as error:
            self.said.value = str(error)
            return
        self.said.value = now.sentence
        self.week.value = week_of_demand(now.record)._repr_svg_()
        self.latency.value = latency_under_load(now.record, self.question.params.objective.latency_p99_ms)._repr_svg_()
