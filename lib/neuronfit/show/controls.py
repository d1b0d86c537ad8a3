"""Step 5 by hand: sliders over the capacity model, in JupyterLab; a sentence elsewhere.

A move works out again only what it changes: traffic is read once, a target's service is looked up once, the curve of latency belongs
to target and batch delay, and the one policy that is chosen is simulated. Several moves in a row are answered once. Where the window
has more requests than can be simulated in that time, what is late is that of its busiest hours, and the sentence says so; instances and
money are always those of the whole window. Nothing is written to the dossier: what is tried here is not evidence. A notebook that was saved
with the controls and is opened without its kernel shows the picture as it began. This module alone imports ipywidgets, inside functions.
"""

from __future__ import annotations

import asyncio
import html as markup
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
from neuronfit.show.capacity import NOTHING, POLICY_NAMES, late, latency_under_load, week_of_demand
from neuronfit.show.figures import STANDALONE_INK, AnyFigure, Figure, picture_link
from neuronfit.show.table import NO_MATH, Note
from neuronfit.units import metric

__all__ = ["Bench", "Tried", "controls", "tried"]

TOGETHER_S = 0.15
"""Moves closer together than this are answered once, seconds."""


@dataclass(frozen=True)
class Tried:
    """One setting of the controls: a sentence and a record that was not admitted, for the figures."""

    sentence: str
    record: Utilization


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
        self.options = lru_cache(maxsize=500)(self._options)

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
        service = capacity.service_of(self.question, chosen, figure, self.demand.lengths)
        return row, service, answer.start_up(self.question, chosen), answer.usd_per_hour(self.question, chosen.instance_type)

    def _settings(self, delay_ms: float, policy: str) -> Capacity:
        return self.question.params.policy.capacity.model_copy(update={"batch_delay_ms": delay_ms, "scaling": policy})

    def _curve(self, target: str, delay_ms: float) -> tuple[LatencyAtLoad, ...]:
        _row, service, _start, _usd = self.of_target(target)
        return answer.curve_of(capacity.latency_at_load(service, 1, self.kept, delay_ms / 1e3, self.question.params.policy.capacity.seed))

    def _options(self, target: str, times: float, delay_ms: float, policy: str) -> tuple[Option, ...]:
        """The policy, after it the declared fleet where there is one."""
        _row, service, start, _usd = self.of_target(target)
        declared = self.question.target(target).count
        found = capacity.options(self.demand.times(times), service, self.kept, self._settings(delay_ms, policy), start, declared=declared, quick=True)
        return found[::-1]

    def _delay(self, target: str, delay_ms: Optional[float]) -> float:
        """Generation forms no batches ahead of time: its delay is none, whatever the control says."""
        if isinstance(self.of_target(target)[1], GenerationService):
            return 0.0
        return self.question.params.policy.capacity.batch_delay_ms if delay_ms is None else delay_ms

    @staticmethod
    def _said_late(option: Option) -> str:
        return "" if option.missed is None else f", {late(option.missed)} of the requests{f' of {option.part}' if option.part else ''} late"

    def tried(self, target: str, *, times: float = 1.0, delay_ms: Optional[float] = None, policy: Optional[str] = None) -> Tried:
        """See :func:`tried`."""
        delay_ms, policy = self._delay(target, delay_ms), policy or self.question.params.policy.capacity.scaling
        row, _service, _start, usd = self.of_target(target)
        (best, *declared), demand = self.options(target, times, delay_ms, policy), self.demand.times(times)
        shown = {
            "options": tuple(answer.option_of(option, usd) for option in (*declared, best)),
            "chosen": best.name,
            "latency_at_load": self.curve(target, delay_ms),
        }
        changes = {
            "targets": (row.model_copy(update=shown),),
            "hourly_demand_per_s": answer.hourly(demand.minute_rates),
            "window_h": demand.window_s / 3600,
            "demand": demand.how,
        }
        hours = metric("instance_hours").number
        money = f", ${usd * best.instance_hours_per_month * best.idle:,.0f} a month of it idle" if usd else ""
        beside = "".join(
            f" As declared: {int(option.paid[0])}, {hours(option.instance_hours_per_day)} instance-hours a day, {option.busy:.0%} busy{self._said_late(option)}."
            for option in declared
        )
        sentence = (
            f"{target} at {metric('rate_per_s').text(demand.mean_per_s)} on average, {POLICY_NAMES[best.name]}: "
            f"{_range(int(best.paid.min()), int(best.paid.max()))} {row.instance_type}, {hours(best.instance_hours_per_day)} "
            f"instance-hours a day, {best.busy:.0%} busy{money}{self._said_late(best)}.{beside}"
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
            f"Run in JupyterLab (elsewhere with interactive=True), this cell has controls for rate, growth, target, batch delay and policy. At twice the demand: {example}"
        )
    return _Panel(question, record, names)


def _attempt(question: Question, record: Utilization, target: str) -> str:
    try:
        return tried(question, record, target, times=2.0).sentence
    except NeuronFitError as error:
        return str(error)


LIVE, STILL = "neuronfit-controls", "neuronfit-still"
"""Names of the controls and of the picture that stands in for them, for the style below."""

ONE_OF_BOTH = (
    f"<style>.jp-OutputArea:has(.{LIVE}) .jp-OutputArea-child:has(.{STILL}), "
    f".jp-OutputArea:has(.{STILL}):not(:has(.{LIVE})) .jp-OutputArea-child:has(.jupyter-widgets):not(:has(.{STILL})) {{display: none}}</style>"
)
"""Where the controls are alive the still picture is hidden; where their kernel is gone, JupyterLab's line about a missing model is."""


class _Panel:
    """The widgets and what they show."""

    def __init__(self, question: Question, record: Utilization, names: list[str]):
        import ipywidgets as widgets

        self.bench, self.bound_ms = Bench(question, record), question.params.objective.latency_p99_ms
        self.drawn: Optional[tuple[str, float]] = None
        self.waiting: Optional[asyncio.TimerHandle] = None
        settings: Capacity = question.params.policy.capacity
        wide, word = {"layout": widgets.Layout(width="27em")}, {"description_width": "9em"}
        ready = {"continuous_update": False, "style": word, **wide}
        self.rate = widgets.FloatLogSlider(value=1.0, base=10, min=-1, max=2, step=0.05, readout_format=".2f", description="rate, times", **ready)
        self.growth = widgets.IntSlider(value=0, min=-50, max=300, step=10, description="growth, %", **ready)
        self.delay = widgets.FloatSlider(value=settings.batch_delay_ms, min=0, max=20, step=0.5, description="batch delay, ms", **ready)
        self.target = widgets.Dropdown(options=names, description="target", style=word, **wide)
        self.policy = widgets.Dropdown(
            options=[(text, name) for name, text in POLICY_NAMES.items() if name != "declared"],
            value=settings.scaling,
            description="policy",
            style=word,
            **wide,
        )
        half = widgets.Layout(flex="1 1 22em", min_width="0", max_width="36em")  # beside each other in 1,280 pixels, else below
        self.said, self.week, self.latency = widgets.HTML(), widgets.HTML(layout=half), widgets.HTML(layout=half)
        moved = (self.rate, self.growth, self.delay, self.target, self.policy)
        for control in moved:
            control.observe(self.moved, names="value")
        wrap = widgets.Layout(flex_flow="row wrap")
        sliders = widgets.HBox([widgets.VBox(moved[:3]), widgets.VBox(moved[3:])], layout=wrap)
        self.box = widgets.VBox([sliders, self.said, widgets.HBox([self.week, self.latency], layout=wrap)])
        self.box.add_class(LIVE)
        self.still: tuple[str, tuple[AnyFigure, ...]] = ("", ())
        self.answer()

    def _ipython_display_(self) -> None:
        """The controls, and after them what they began with, as a drawing of which one sees nothing while they live."""
        from IPython.display import display

        sentence, figures = self.still
        drawings = "".join(f'<img src="{picture_link(figure)}" alt="{markup.escape(str(figure))}" style="max-width:100%">' for figure in figures)
        hint = "Run this cell to have the controls: they need a running kernel. This is what they began with."
        words = "".join(f'<p class="{NO_MATH}" style="margin:.4em 0">{markup.escape(text)}</p>' for text in (hint, sentence))
        display({**self.box._repr_mimebundle_(), "text/plain": "Controls, which need a running kernel."}, raw=True)
        display({"text/html": f'{ONE_OF_BOTH}<div class="{STILL}">{words}{drawings}</div>', "text/plain": sentence}, raw=True)

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
            self.said.value, self.week.value, self.latency.value, self.drawn = _words(str(error)), "", "", None
            return
        self.said.value = _words(now.sentence)
        week = week_of_demand(now.record)
        self.week.value = _drawing(week)
        if self.drawn != (target, delay_ms):
            latency = latency_under_load(now.record, self.bound_ms)
            self.latency.value = _drawing(latency)
            self.drawn = (target, delay_ms)
            if not self.still[0]:
                self.still = now.sentence, tuple(figure for figure in (week, latency) if isinstance(figure, Figure))


def _words(text: str) -> str:
    return f'<div style="line-height:1.4">{markup.escape(text)}</div>'


def _drawing(figure: AnyFigure) -> str:
    """A figure as wide as there is room, in the ink of the page's theme."""
    if not isinstance(figure, Figure):
        return _words(str(figure))
    return figure.svg.replace("<svg ", f'<svg style="display:block;width:100%;height:auto;color:var(--jp-ui-font-color1, {STANDALONE_INK})" ', 1)
