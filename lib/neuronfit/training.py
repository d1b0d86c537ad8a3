"""Step 6 for training: how long one run takes, and what it costs.

    computing  = samples (or tokens) / (throughput of one instance x instances x scaling efficiency)
    duration   = computing, stretched by checkpoints and by what is lost to interruptions
    USD a run  = hourly price x instances x duration

Interruptions come at random, at a constant rate for each instance; one of any instance stops the whole run, which goes back to the last
checkpoint. The expected duration is then (J. T. Daly, "A higher order estimate of the optimum checkpoint interval for restart dumps",
Future Generation Computer Systems 22 (2006) 303-312; it is exact for exponential times between interruptions)

    duration = M e^(R/M) (e^((t + d)/M) - 1) x computing / t

with M the mean time between interruptions of the run, R the time of a restart, d that of writing a checkpoint and t the computing between
two. Without interruptions it is computing x (1 + d / t). The interval that costs least is about sqrt(2 d M) (J. W. Young, Communications
of the ACM 17 (1974) 530-531).

Throughput is another's figure: this code does not measure training.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Optional

from neuronfit import draws
from neuronfit.draws import Draws
from neuronfit.errors import BadInput
from neuronfit.params import HOURS_PER_MONTH, Target, Training
from neuronfit.provenance import Grade, Quantity, absent, weakest
from neuronfit.record import TrainingRun
from neuronfit.units import metric

__all__ = ["Run", "amount_per_result", "best_interval_h", "duration_h", "run_of", "scaled", "training_run", "usd_per_run"]


def duration_h(compute_h: Any, *, every_h: float, checkpoint_h: float = 0.0, restart_h: float = 0.0, interruptions_per_h: float = 0.0) -> Any:
    """Expected hours of a run of ``compute_h`` hours of pure computing (formula above); ``interruptions_per_h`` are those of the whole run.

    A run shorter than the interval between two checkpoints is one piece. Raises :class:`~neuronfit.errors.BadInput` where so many
    interruptions come that it would never end.
    """
    import numpy as np

    piece = np.minimum(every_h, compute_h)
    if interruptions_per_h == 0:
        return compute_h * (1 + checkpoint_h / piece)
    if interruptions_per_h * (float(np.max(piece)) + checkpoint_h + restart_h) > 50:
        raise BadInput(
            "the run would never end: between two checkpoints it is interrupted on average",
            f"{interruptions_per_h * float(np.max(piece)):.3g} times",
            allowed="fewer than about 50",
            next="lower training.checkpoint_every_h, or give the interruptions of one instance in a month",
        )
    rate = interruptions_per_h
    return np.exp(rate * restart_h) * np.expm1(rate * (piece + checkpoint_h)) / rate * (compute_h / piece)


def best_interval_h(checkpoint_h: float, interruptions_per_h: float) -> Optional[float]:
    """Computing time between checkpoints that costs least, h (Young 1974); ``None`` without interruptions or without a cost of a checkpoint."""
    if interruptions_per_h <= 0 or checkpoint_h <= 0:
        return None
    return math.sqrt(2 * checkpoint_h / interruptions_per_h)


def usd_per_run(usd_per_hour: Any, instances: float, hours: Any) -> Any:
    """USD of a run: every instance is paid for from start to end."""
    return usd_per_hour * instances * hours


@dataclass(frozen=True)
class Run:
    """The inputs of one target's run."""

    target: str
    instance_type: str
    instances: int
    price: Quantity
    throughput: Quantity
    """samples or tokens per second of one instance"""
    plan: Training

    def hours(self, throughput: Any) -> tuple[Any, Any]:
        """Computing and duration, h."""
        plan = self.plan
        scaling = 1.0 if self.instances == 1 else plan.scaling_efficiency
        compute = (plan.samples or plan.tokens) / (throughput * self.instances * scaling * 3600)
        every = dict(
            every_h=plan.checkpoint_every_h,
            checkpoint_h=plan.checkpoint_s / 3600,
            restart_h=plan.restart_s / 3600,
            interruptions_per_h=self.interruptions_per_h,
        )
        return compute, duration_h(compute, **every)

    @property
    def interruptions_per_h(self) -> float:
        """Of the whole run: any instance stops all of them."""
        return self.plan.interruptions_per_month / HOURS_PER_MONTH * self.instances

    def drawn_usd(self, source: Draws) -> Any:
        _, hours = self.hours(source.of(f"throughput {self.target}", self.throughput))
        return usd_per_run(source.of(f"price {self.instance_type}", self.price), self.instances, hours)


def run_of(target: Target, price: Quantity, throughput: Quantity, plan: Training) -> Run:
    return Run(target.name, target.instance_type, target.count or 1, price, throughput, plan)


def training_run(mine: Run, base: Optional[Run], deadline_h: Optional[float], source: Draws) -> TrainingRun:
    """The run of a target beside the baseline's (``None`` for the baseline itself, or where it is not known)."""
    amount = "tokens/s" if mine.plan.tokens else "1/s"
    missing = next((part for part in (mine.throughput, mine.price) if not part.known), None)
    if not mine.throughput.known:
        why = mine.throughput.why
        gone = dict(compute=absent("h", why), duration=absent("h", why), instance_hours=absent("h", why), cost=absent("USD", why))
        return TrainingRun(
            instances=mine.instances, throughput=absent(amount, why), sentence=f"{mine.target}: no training time, because {why}.", **gone
        )
    speed = source.of(f"throughput {mine.target}", mine.throughput)
    compute, hours = mine.hours(mine.throughput.value)
    drawn_compute, drawn_hours = mine.hours(speed)
    grade = weakest(Grade.ESTIMATED, mine.throughput)
    scaling = 1.0 if mine.instances == 1 else mine.plan.scaling_efficiency
    factor = mine.instances * scaling
    together = scaled(mine.throughput, factor).model_copy(update={"unit": amount})
    duration = draws.summary(hours, drawn_hours, "h", grade)
    if missing is not None:
        cost = absent("USD", missing.why or "no price is known")
    else:
        cost = draws.summary(usd_per_run(mine.price.value, mine.instances, hours), mine.drawn_usd(source), "USD", weakest(grade, mine.price))
    best = best_interval_h(mine.plan.checkpoint_s / 3600, mine.interruptions_per_h)
    saved, chance = _against(mine, base, cost, source)
    return TrainingRun(
        instances=mine.instances,
        throughput=together,
        compute=draws.summary(compute, drawn_compute, "h", grade),
        duration=duration,
        instance_hours=scaled(duration, mine.instances),
        cost=cost,
        saving=saved,
        probability_cheaper=chance,
        best_checkpoint_every=None if best is None else Quantity(value=best, unit="h", grade=Grade.ESTIMATED, why="sqrt(2 x checkpoint x mean time)"),
        deadline_kept=None if deadline_h is None else bool(hours <= deadline_h),
        sentence=_sentence(mine, duration, cost, saved, deadline_h),
    )


def amount_per_result(plan: Training, result_unit: str, sequence_length: int) -> float:
    """Factor from results per second, as a figure counts them, to what the run is counted in (samples or tokens)."""
    counted = "token" if plan.tokens else "sample"
    own = "token" if result_unit == "token" else "sample"
    return 1.0 if counted == own else float(sequence_length) if counted == "token" else 1 / sequence_length


def scaled(quantity: Quantity, factor: float) -> Quantity:
    """A known quantity times a factor, its ends too."""
    edges = {} if quantity.low is None else {"low": quantity.low * factor, "high": quantity.high * factor}
    return quantity.model_copy(update={"value": quantity.value * factor, **edges})


def saved_per_month(mine: Run, base: Run, runs_per_month: float, source: Draws) -> Quantity:
    """USD a month that the candidate saves, with its interval; both runs have a throughput and a price."""
    value = sum(sign * usd_per_run(run.price.value, run.instances, run.hours(run.throughput.value)[1]) for sign, run in ((1, base), (-1, mine)))
    drawn = base.drawn_usd(source) - mine.drawn_usd(source)
    grade = weakest(Grade.ESTIMATED, mine.price, base.price)
    return draws.summary(value * runs_per_month, drawn * runs_per_month, "USD/month", grade)


def _against(mine: Run, base: Optional[Run], cost: Quantity, source: Draws) -> tuple[Optional[Quantity], Optional[Quantity]]:
    if base is None:
        return None, None
    missing = next((part for part in (cost, base.throughput, base.price) if not part.known), None)
    if missing is not None:
        why = missing.why or "the baseline's run is not known"
        return absent("fraction", why), absent("fraction", why)
    theirs = usd_per_run(base.price.value, base.instances, base.hours(base.throughput.value)[1])
    drawn_mine, drawn_theirs = mine.drawn_usd(source), base.drawn_usd(source)
    grade = weakest(cost, base.throughput, base.price)
    saved = draws.summary(1 - cost.value / theirs, 1 - drawn_mine / drawn_theirs, "fraction", grade)
    share = draws.chance(drawn_mine < drawn_theirs)
    return saved, Quantity(value=share, unit="fraction", grade=grade, why=f"{source.count:,} draws")


def _sentence(run: Run, duration: Quantity, cost: Quantity, saved: Optional[Quantity], deadline_h: Optional[float]) -> str:
    fleet = f"{run.instances} {run.instance_type}" + ("" if run.instances == 1 else " instances")
    text = f"{run.target}: a run takes {duration.value:.4g} h on {fleet}"
    text += f" and costs {metric('usd').text(cost.value)}" if cost.known else ""
    if saved is not None and saved.known:
        text += f", {abs(saved.value):.0%} {'less' if saved.value >= 0 else 'more'} than the baseline"
    if deadline_h is not None:
        late = duration.value > deadline_h
        text += f"; the deadline of {deadline_h:g} h is {'missed' if late else 'kept'}"
        if not late and duration.high is not None and duration.high > deadline_h:
            text += f", but {duration.high:.4g} h at the far end would miss it"
    return f"{text}."
