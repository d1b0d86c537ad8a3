"""Step 5 by hand: sliders over the capacity model, in JupyterLab; the same picture without them elsewhere.

A move works out again only what it changes: traffic is read once, a target's service is looked up once, the curve of latency belongs
to target and batch delay, and the one policy that is chosen is simulated. Several moves in a row are answered once. Where the window
has more requests than can be simulated in that time, what is late is that of its busiest hours, and the sentence says so; instances and
money are always those of the whole window. Nothing is written to the dossier: what is tried here is not evidence. This module alone
imports ipywidgets, inside functions.
"""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, Optional

from neuronfit import capacity
from neuronfit.capacity import answer
from neuronfit.capacity.demand import demand_of
from neuronfit.capacity.fleet import Demand, Option
from neuronfit.capacity.scaling import StartUp
from neuronfit.capacity.service import GenerationService, Promise, Service
from neuronfit.errors import NeuronFitError
from neuronfit.fleets import LatencyAtLoad
from neuronfit.params import Capacity
from neuronfit.question import Question
from neuronfit.record import Measurement, Utilization, UtilizationOfTarget
from neuronfit.show.capacity import NOTHING, POLICY_NAMES, latency_under_load, week_of_demand
from neuronfit.show.table import Note
from neuronfit.units import metric

__all__ = ["Bench", "Tried", "controls", "tried"]

TOGETHER_S = 0.15
"""Moves closer together than this are answered once, seconds."""


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
    return Bench(question, record).tried(target, times=times, delay_ms=delay_ms, policy=policy)


class Bench:
    """A question to which the same things are asked again and again: what does not change is kept from one answer to the next."""

    def __init__(self, question: Question, record: Utilization):
        self.question, self.record = question, record
        self.kept: Promise = capacity.promise(question.params.objective)
        self.of_target = lru_cache(maxsize=None)(self._of_target)
        self.curve = lru_cache(maxsize=200)(self._curve)
        self.option = lru_cache(maxsize=500)(self._option)

    @cached_property
    def demand(self) -> Demand:
        """The traffic, read once. Raises :class:`~neuronfit.errors.NeuronFitError` where there is none."""
        found = demand_of(self.question)
        if found is None:
            raise NeuronFitError(NOTHING)
        return found

    def _of_target(self, target: str) -> tuple[UtilizationOfTarget, Service, StartUp, Optional[float]]:
        row = next(row for row in self.record.targets if row.target == target)
        figure = self.question.dossier.get(row.capacity_per_instance.record)
        if not isinstance(figure, Measurement):
            raise NeuronFitError(NOTHING)
        chosen = self.question.target(target)
        service = capacity.service_of(self.question, chosen, figure)
        return row, service, answer.start_up(self.question, chosen), answer.usd_per_hour(self.question, chosen.instance_type)

    def _settings(self, delay_ms: float, policy: str) -> Capacity:
        return self.question.params.policy.capacity.model_copy(update={"batch_delay_ms": delay_ms, "scaling": policy})

    def _curve(self, target: str, delay_ms: float) -> tuple[LatencyAtLoad, ...]:
        _row, service, _start, _usd = self.of_target(target)
        return answer.curve_of(capacity.latency_at_load(service, 1, self.kept, delay_ms / 1e3, self.question.params.policy.capacity.seed))

    def _option(self, target: str, times: float, delay_ms: float, policy: str) -> Option:
        _row, service, start, _usd = self.of_target(target)
        return capacity.options(self.demand.times(times), service, self.kept, self._settings(delay_ms, policy), start, quick=True)[0]

    def _delay(self, target: str, delay_ms: Optional[float]) -> float:
        """Generation forms no batches ahead of time: its delay is none, whatever the control says."""
        if isinstance(self.of_target(target)[1], GenerationService):
            return 0.0
        return self.question.params.policy.capacity.batch_delay_ms if delay_ms is None else delay_ms

    def tried(self, target: str, *, times: float = 1.0, delay_ms: Optional[float] = None, policy: Optional[str] = None) -> Tried:
        """See :func:`tried`."""
        delay_ms, policy = self._delay(target, delay_ms), policy or self.question.params.policy.capacity.scaling
        row, _service, _start, usd = self.of_target(target)
        best, demand = self.option(target, times, delay_ms, policy), self.demand.times(times)
        shown = {"options": (answer.option_of(best, usd),), "chosen": best.name, "latency_at_load": self.curve(target, delay_ms)}
        changes = {
            "targets": (row.model_copy(update=shown),),
            "hourly_demand_per_s": answer.hourly(demand.minute_rates),
            "window_h": demand.window_s / 3600,
            "demand": demand.how,
        }
        money = f", ${usd * best.instance_hours_per_month * best.idle:,.0f} a month of it idle" if usd else ""
        late = f", {_late(best.missed)} of the requests{f' of {best.part}' if best.part else ''} late" if best.missed is not None else ""
        sentence = (
            f"{target} at {metric('rate_per_s').text(demand.mean_per_s)} on average, {POLICY_NAMES[best.name]}: "
            f"{_range(int(best.paid.min()), int(best.paid.max()))} {row.instance_type}, {metric('instance_hours').number(best.instance_hours_per_day)} "
            f"instance-hours a day, {best.busy:.0%} busy{money}{late}."
        )
        return Tried(sentence, self.record.model_copy(update=changes))


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
        example = _attempt(question, record, names[0])
        return Note(
            f"Opened in JupyterLab (elsewhere with interactive=True), this cell has controls for rate, growth, target, batch delay and policy. At twice the demand: {example}"
        )
    return _Panel(question, record, names).box


def _attempt(question: Question, record: Utilization, target: str) -> str:
    try:
        return tried(question, record, target, times=2.0).sentence
    except NeuronFitError as error:
        return str(error)


class _Panel:
    """The widgets and what they show."""

    def __init__(self, question: Question, record: Utilization, names: list[str]):
        import ipywidgets as widgets

        self.bench, self.bound_ms = Bench(question, record), question.params.objective.latency_p99_ms
        self.drawn: Optional[tuple[str, float]] = None
        self.waiting: Optional[asyncio.TimerHandle] = None
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
            control.observe(self.moved, names="value")
        self.box = widgets.VBox(
            [widgets.HBox([widgets.VBox(moved[:3]), widgets.VBox(moved[3:])]), self.said, widgets.HBox([self.week, self.latency])]
        )
        self.answer()

    def moved(self, _change: Any = None) -> None:
        """Answer when no other move has come for ``TOGETHER_S``; at once where no event loop runs."""
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            self.answer()
            return
        if self.waiting is not None:
            self.waiting.cancel()
        self.waiting = loop.call_later(TOGETHER_S, self.answer)

    def answer(self) -> None:
        """Simulate and draw what has changed; an error becomes a line."""
        times, target, delay_ms = self.rate.value * (1 + self.growth.value / 100), self.target.value, self.delay.value
        try:
            now = self.bench.tried(target, times=times, delay_ms=delay_ms, policy=self.policy.value)
        except NeuronFitError as error:
            self.said.value = str(error)
            return
        self.said.value = now.sentence
        self.week.value = week_of_demand(now.record)._repr_svg_()
        if self.drawn != (target, delay_ms):
            self.latency.value = latency_under_load(now.record, self.bound_ms)._repr_svg_()
            self.drawn = (target, delay_ms)
