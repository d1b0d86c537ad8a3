"""Step 6: what is paid for in a month, and what of it is useful.

    useful results = results asked for x share carried x share without error x share within the objective
    USD per month  = hourly price x instance-hours + what stands beside the instances
    USD per million useful results = 1e6 x USD per month / useful results per month

A result is useful when it was answered, within the objective. A retry answers nothing new, padding is no result.
Whether it is right is parity's matter (step 4): a candidate that fails there has no useful results, and a finding says so.
Instance-hours are those of step 5's simulated fleet, spare instances and all, else the fleet that covers the peak at full load.

:class:`Fleet` answers for floats and for arrays of draws alike: the closed form, the interval and the tornado are one formula.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Optional

from neuronfit.model import TASKS
from neuronfit.params import HOURS_PER_MONTH, SECONDS_PER_MONTH, HostCost, Target
from neuronfit.profile import length_shares, trace_of
from neuronfit.provenance import Grade, Quantity
from neuronfit.question import Question
from neuronfit.record import Measurement, UtilizationOfTarget

__all__ = ["Fleet", "beside", "fleet_of", "monthly_usd", "per_unit", "useful_share"]


def monthly_usd(usd_per_hour: float, instance_hours: float, parts: dict[str, Decimal]) -> Decimal:
    """USD per month: instances and everything beside them, summed in decimals (0.1 + 0.2 is 0.3)."""
    return sum(parts.values(), start=Decimal(str(usd_per_hour)) * Decimal(str(instance_hours)))


def beside(costs: tuple[HostCost, ...], target: str, results_per_month: float) -> dict[str, Decimal]:
    """Name -> USD per month of what is declared beside the instances of a target."""
    volume = Decimal(str(results_per_month)) / Decimal(10**6)
    mine = [entry for entry in costs if entry.target in (None, target)]
    parts: dict[str, Decimal] = {}
    for entry in mine:
        amount = Decimal(str(entry.usd_per_month)) + Decimal(str(entry.usd_per_million)) * volume
        parts[entry.name] = parts.get(entry.name, Decimal(0)) + amount
    return parts


@dataclass(frozen=True)
class Fleet:
    """What one target's fleet does in a month, at other values of its inputs too.

    ``instances`` is the mean number that is paid for, ``load`` the peak over the capacity of one instance: a fixed fleet has
    ``instances - ceil(load)`` spare ones at every load. Rates are results per second.
    """

    hours: float
    because: str
    instances: float
    load: float
    capacity_per_s: float
    asked_per_s: float
    grows: str
    """``declared`` (never), ``fixed`` (by whole instances with the peak) or ``elastic`` (in proportion, down to ``fewest``)"""
    fewest: float = 1.0
    usd_per_month: float = 0.0
    """beside the instances, whatever the volume"""
    usd_per_million: float = 0.0
    """beside the instances, per million results asked for"""

    def hours_at(self, capacity_per_s: Any, asked_per_s: Any) -> Any:
        """Instance-hours a month for another capacity of one instance and another mean rate, the shape of the traffic as it is."""
        import numpy as np

        if self.grows == "declared":
            return self.hours
        ratio = (asked_per_s / self.asked_per_s) / (capacity_per_s / self.capacity_per_s)
        if self.grows == "fixed":
            spare = self.instances - _whole(self.load)
            count = np.maximum(_whole(self.load * ratio) + spare, self.fewest)
            return self.hours * (count / self.instances)
        return np.maximum(self.hours * ratio, min(self.fewest * HOURS_PER_MONTH, self.hours))

    def carried_at(self, capacity_per_s: Any, asked_per_s: Any) -> Any:
        """Share of what is asked for that the fleet can answer at all, fraction."""
        import numpy as np

        instances = self.hours_at(capacity_per_s, asked_per_s) / HOURS_PER_MONTH
        return np.minimum(1.0, instances * capacity_per_s / asked_per_s)

    def usd_at(self, usd_per_hour: Any, capacity_per_s: Any, asked_per_s: Any) -> Any:
        """USD per month."""
        asked_millions = asked_per_s * SECONDS_PER_MONTH / 1e6
        return usd_per_hour * self.hours_at(capacity_per_s, asked_per_s) + self.usd_per_month + self.usd_per_million * asked_millions

    def usd_per_million_at(self, usd_per_hour: Any, capacity_per_s: Any, asked_per_s: Any, useful: Any) -> Any:
        """USD per million useful results."""
        results = asked_per_s * SECONDS_PER_MONTH * self.carried_at(capacity_per_s, asked_per_s) * useful
        return 1e6 * self.usd_at(usd_per_hour, capacity_per_s, asked_per_s) / results


def _whole(load: Any) -> Any:
    """Instances that cover a peak at full load, at least one. The last digit of a float must not cost an instance."""
    import numpy as np

    return np.maximum(np.ceil(load - 1e-9), 1.0)


def fleet_of(question: Question, target: Target, load: UtilizationOfTarget) -> Optional[Fleet]:
    """The fleet that step 5 found for a target; ``None`` where it knows no number of instances."""
    if not load.instances.known or not load.capacity_per_instance.known or not load.offered_mean.known:
        return None
    simulated = load.instance_hours_per_month
    if simulated is not None and simulated.known:
        hours, because = simulated.value, f"step 5, simulated with the {(load.chosen or 'fixed').replace('_', ' ')} fleet"
    else:
        hours, because = load.instances.value * HOURS_PER_MONTH, f"step 5, {load.instances.value:.0f} running all {HOURS_PER_MONTH:.0f} h"
    elastic = simulated is not None and simulated.known and load.chosen not in (None, "fixed", "declared")
    costs = [entry for entry in question.params.pricing.surroundings if entry.target in (None, target.name)]
    return Fleet(
        hours=hours,
        because=because,
        instances=hours / HOURS_PER_MONTH,
        load=load.offered_peak.value / load.capacity_per_instance.value,
        capacity_per_s=load.capacity_per_instance.value,
        asked_per_s=load.offered_mean.value,
        grows="elastic" if elastic else "declared" if target.count else "fixed",
        fewest=float(question.params.policy.capacity.min_count),
        usd_per_month=float(sum(Decimal(str(entry.usd_per_month)) for entry in costs)),
        usd_per_million=float(sum(Decimal(str(entry.usd_per_million)) for entry in costs)),
    )


def useful_share(figure: Optional[Measurement], load: Optional[UtilizationOfTarget]) -> tuple[Quantity, str]:
    """Share of what the fleet carries that is answered without error and within the objective, and what it is made of.

    Errors as the figure counted them; lateness as step 5 simulated it, else as the figure's goodput has both. What nobody
    counted is taken as none, and said.
    """
    errors = figure.quantity("error_fraction") if figure else None
    goodput = figure.quantity("goodput_fraction") if figure else None
    late = load.missed if load is not None and load.missed is not None and load.missed.known else None
    if late is None and goodput is not None and goodput.known:
        return goodput.model_copy(update={"why": None, "record": figure.id}), "answered within the objective, as the load on the endpoint counted"
    known_errors = errors is not None and errors.known
    kept = 1 - errors.value if known_errors else 1.0
    said = [f"{errors.value:.2%} failed" if known_errors else "failures were not counted and are taken as none"]
    said.append(f"{late.value:.2%} late (simulated)" if late is not None else "lateness is not known and is taken as none")
    on_time = 1 - late.value if late is not None else 1.0
    value = kept * on_time
    edges = {}
    if known_errors and errors.low is not None:
        edges = {"low": (1 - errors.high) * on_time, "high": (1 - errors.low) * on_time, "confidence": errors.confidence}
    grade = Grade.ESTIMATED if late is not None or not known_errors else errors.grade
    return Quantity(value=value, unit="fraction", grade=grade, **edges), "; ".join(said)


def per_unit(question: Question, figure: Measurement, usd_per_million: Quantity) -> dict[str, Quantity]:
    """The cost at your traffic per million of what can be counted: inferences or requests, input and output tokens, images.

    Input tokens are those that came, not those that were computed: padding to a compiled length is no result. Their mean is that of
    ``traffic.sequence_lengths`` or of the trace, else the length of the figure, at which nothing is padding.
    """
    generates = TASKS[question.params.workload.model.task].generates
    if figure.result_unit == "image" or question.params.workload.model.task.startswith("image"):
        return {"image": usd_per_million}
    shares, shape = length_shares(question), question.params.workload.shapes[0]
    mean = sum(length * share for length, share in shares.items()) if shares else float(figure.settings.sequence_length or shape.sequence_length)
    from_where = "by the mean length that comes, padding not counted" if shares else "every input as long as the shape"
    if figure.result_unit == "token":
        trace = trace_of(question)
        recorded = trace.output_tokens.mean if trace is not None and trace.output_tokens is not None else None
        written = recorded or figure.settings.output_length or shape.output_length
        found = {"output token": usd_per_million}
        if written:
            found["request"] = _times(usd_per_million, written, f"{written:,.4g} output tokens a request")
            found["input token"] = _times(usd_per_million, written / mean, from_where)
        return found
    found = {"request" if generates else figure.result_unit: usd_per_million}
    if mean > 0 and figure.result_unit in ("inference", "sequence"):
        found["input token"] = _times(usd_per_million, 1 / mean, from_where)
    return found


def _times(amount: Quantity, factor: float, why: str) -> Quantity:
    if not amount.known:
        return amount
    edges = {} if amount.low is None else {"low": amount.low * factor, "high": amount.high * factor}
    return amount.model_copy(update={"value": amount.value * factor, "why": why, **edges})
