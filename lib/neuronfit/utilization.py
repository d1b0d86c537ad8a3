"""Step 5: how busy would the hardware be? Offered load against capacity, mean and peak.

Capacity is the throughput of the figure that stands for a target, at full load. Instances are
those that cover the peak (or the declared ``count``); everything between the mean and that is
idle money. A queueing model comes with traces; this is the bound that it refines.
"""

from __future__ import annotations

import math
from typing import Optional

from neuronfit.params import Target
from neuronfit.provenance import Estimated, Grade, Quantity, absent
from neuronfit.question import Question
from neuronfit.record import Comparison, Finding, Measurement, Severity, Utilization, UtilizationOfTarget
from neuronfit.units import metric
from neuronfit.workload import Asked, asked

__all__ = ["busy", "estimate", "headline", "instances_for"]


def estimate(question: Question) -> Utilization:
    """Work out every target's load and admit the record."""
    comparison = question.dossier.latest(Comparison)
    traffic = asked(question.params.traffic)
    rows = tuple(_of_target(question, target, headline(question, comparison, target.name), traffic) for target in question.targets)
    record = Utilization(
        workload=question.ref,
        source=Estimated(
            formula="busy = offered load / (instances x throughput)",
            inputs={row.target: str(row.capacity_per_instance.grade or "absent") for row in rows},
        ),
        findings=tuple(_findings(question, rows, traffic, comparison)),
        bottom_line=_bottom_line(question, rows, traffic),
        targets=rows,
    )
    return question.dossier.admit(record)


def headline(question: Question, comparison: Optional[Comparison], target: str) -> Optional[Measurement]:
    """The measurement that stands for a target in step 4's conclusion, if there is one."""
    if comparison is None or target not in comparison.headline:
        return None
    record = question.dossier.get(comparison.headline[target])
    return record if isinstance(record, Measurement) else None


def instances_for(peak_per_s: float, capacity_per_s: float) -> int:
    """Instances that cover the peak at full load, at least one."""
    return max(1, math.ceil(peak_per_s / capacity_per_s))


def busy(rate_per_s: float, instances: int, capacity_per_s: float) -> float:
    """Fraction of capacity in use: rate / (instances x capacity). Above 1 the load is not carried."""
    return rate_per_s / (instances * capacity_per_s)


def _of_target(question: Question, target: Target, figure: Optional[Measurement], traffic: Asked) -> UtilizationOfTarget:
    capacity = figure.quantity("throughput_per_s") if figure else absent("1/s", "no throughput is known yet (step 4)")
    mean, peak = _declared(traffic.mean_per_s), _declared(traffic.peak_per_s)
    if not capacity.known or not mean.known:
        why = capacity.why if not capacity.known else mean.why
        number, busy_mean, busy_peak = absent("instances", why), absent("fraction", why), absent("fraction", why)
        sentence = f"{target.name}: {why}."
    else:
        count = target.count or instances_for(peak.value, capacity.value)
        number = Quantity(value=count, unit="instances", grade=Grade.ESTIMATED, why="declared" if target.count else "covers the peak at full load")
        busy_mean = _busy(mean.value, count, capacity)
        busy_peak = _busy(peak.value, count, capacity)
        fleet = f"{count} {target.instance_type}" + ("" if count == 1 else " instances")
        sentence = (
            f"{target.name}: {fleet}, {metric('utilization').text(busy_mean.value)} busy on average and "
            f"{metric('utilization').text(busy_peak.value)} at the peak."
        )
    return UtilizationOfTarget(
        target=target.name,
        instance_type=target.instance_type,
        capacity_per_instance=capacity,
        instances=number,
        offered_mean=mean,
        offered_peak=peak,
        busy_mean=busy_mean,
        busy_peak=busy_peak,
        sentence=sentence,
    )


def _busy(rate: float, count: int, capacity: Quantity) -> Quantity:
    ends = {} if capacity.low is None else {"low": busy(rate, count, capacity.high), "high": busy(rate, count, capacity.low)}
    return Quantity(value=busy(rate, count, capacity.value), unit="fraction", grade=Grade.ESTIMATED, **ends)


def _declared(value: Optional[float]) -> Quantity:
    if value is None:
        return absent("1/s", "no traffic is declared in the params file")
    return Quantity(value=value, unit="1/s", grade=Grade.ESTIMATED, why="declared in the params file")


def _findings(question: Question, rows: tuple[UtilizationOfTarget, ...], traffic: Asked, comparison: Optional[Comparison]) -> list[Finding]:
    findings = []
    if comparison is None:
        findings.append(
            Finding(
                severity=Severity.WAITING,
                code="no_capacity",
                because="no throughput of any target is known yet",
                next=f"neuronfit run {question.command_name} --steps 4-5",
            )
        )
    if traffic.mean_per_s is None:
        findings.append(
            Finding(
                severity=Severity.WAITING,
                code="traffic_unknown",
                because="no traffic is declared",
                next=f"add traffic: {{mean_per_s: ..., peak_per_s: ...}} to {question.command_name}",
            )
        )
    low = question.params.policy.min_utilization
    for row in rows:
        if row.busy_peak.known and row.busy_peak.value > 1:
            because = f"the peak needs {row.busy_peak.value:.0%} of the {row.instances.value:.0f} declared instances"
            findings.append(Finding(severity=Severity.WARNING, code="peak_not_covered", because=because, next="raise count", target=row.target))
        elif row.busy_mean.known and row.busy_mean.value < low:
            because = f"{row.busy_mean.value:.0%} busy on average, below the {low:.0%} of policy.min_utilization"
            findings.append(
                Finding(
                    severity=Severity.NOTE,
                    code="low_utilization",
                    because=because,
                    next="share the instance between models, or take a smaller one",
                    target=row.target,
                )
            )
    return findings


def _bottom_line(question: Question, rows: tuple[UtilizationOfTarget, ...], traffic: Asked) -> str:
    if traffic.mean_per_s is None:
        return "No traffic is declared, so nobody can say how busy the hardware would be."
    known = [row for row in rows if row.busy_mean.known]
    if not known:
        return "No throughput is known yet, so offered load has nothing to be set against."
    base = next((row for row in known if row.target == question.params.baseline.name), None)
    first = base or known[0]
    idle = 1 - first.busy_mean.value
    others = "; ".join(row.sentence.rstrip(".") for row in known if row is not first)
    text = f"{first.sentence.rstrip('.')}; {max(idle, 0):.0%} of its hours are idle"
    return f"{text}. {others}." if others else f"{text}."
