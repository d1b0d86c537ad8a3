"""Step 5: how busy would the hardware be? Offered load against capacity, mean and peak.

Capacity is the throughput of the figure that stands for a target, at full load. Instances are
those that cover the peak (or the declared ``count``); everything between the mean and that is
idle money. This is the bound; :mod:`neuronfit.capacity` refines it: queueing, batches, the latency
objective, and three ways of running the fleet through the window.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Optional

from neuronfit.capacity import answer, sharing
from neuronfit.capacity.arrivals import WEEK_S
from neuronfit.capacity.demand import demand_of
from neuronfit.capacity.fleet import Demand
from neuronfit.capacity.scaling import spread
from neuronfit.capacity.service import promise
from neuronfit.params import Target
from neuronfit.profile import offered
from neuronfit.provenance import Estimated, Grade, Imported, Quantity, absent
from neuronfit.question import Question
from neuronfit.record import Comparison, Finding, Measurement, Monitor, Observed, Severity, Utilization, UtilizationOfTarget
from neuronfit.units import metric
from neuronfit.workload import Asked

__all__ = ["busy", "estimate", "headline", "instances_for", "observed"]

_FAR = 2.0
"""Times that observed and modelled busyness may lie apart before it is said."""

_MOST_OF_A_WEEK = 0.95
"""A window from this share of a week on stands for a week."""


def estimate(question: Question, demand: Optional[Demand] = None) -> Utilization:
    """Work out every target's load and admit the record.

    ``demand`` is what the simulation serves (default: a week of the declared traffic); the bound stays on the declared rates.
    """
    comparison = question.dossier.latest(Comparison)
    traffic = offered(question)
    demand = demand or demand_of(question)
    base = headline(question, comparison, question.params.baseline.name)
    rows = tuple(_of_target(question, target, headline(question, comparison, target.name), traffic, demand, base) for target in question.targets)
    record = Utilization(
        workload=question.ref,
        source=Estimated(
            formula="busy = offered load / (instances x throughput); a simulated fleet where there is a demand",
            inputs={row.target: str(row.capacity_per_instance.grade or "absent") for row in rows},
        ),
        findings=(*_findings(question, rows, traffic, comparison), *_about_window(demand)),
        bottom_line=_bottom_line(question, rows, traffic),
        targets=rows,
        demand=demand.how if demand else None,
        window_h=demand.window_s / 3600 if demand else None,
        hourly_demand_per_s=answer.hourly(demand.minute_rates) if demand else (),
        assumptions=answer.assumptions(question, demand) if demand else (),
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


def _of_target(
    question: Question, target: Target, figure: Optional[Measurement], traffic: Asked, demand: Optional[Demand], base: Optional[Measurement]
) -> UtilizationOfTarget:
    capacity = answer.capacity_for(question, target, figure, demand) if figure else absent("1/s", "no throughput is known yet (step 4)")
    mean, peak = (_offered(value, name in traffic.recorded) for name, value in (("mean", traffic.mean_per_s), ("peak", traffic.peak_per_s)))
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
    found = answer.simulated(question, target, figure, demand, base) if figure and capacity.known and demand else {}
    row = UtilizationOfTarget(
        target=target.name,
        instance_type=target.instance_type,
        capacity_per_instance=capacity,
        instances=number,
        offered_mean=mean,
        offered_peak=peak,
        busy_mean=busy_mean,
        busy_peak=busy_peak,
        sentence=sentence,
        observed=observed(question.dossier.monitors(target.name)),
        **found,
    )
    return row.model_copy(update={"shared_with": sharing.together(question, row)})


def observed(seen: Sequence[Monitor]) -> Optional[Observed]:
    """What the newest of these records with a busyness says, or the newest of all; ``None`` where there is none. Oldest first."""
    if not seen:
        return None
    record = next((entry for entry in reversed(seen) if entry.busy_mean.known), seen[-1])
    whole = [part.work_share for part in record.parts if part.core is None and "/mig" not in part.device]
    work = absent("fraction", "no FLOP or tensor counter was recorded")
    if whole and all(share.known for share in whole):
        work = whole[0].model_copy(update={"value": sum(share.value or 0.0 for share in whole) / len(whole)})
    adopted = isinstance(record.source, Imported)
    return Observed(busy=record.busy_mean, metric=record.busy_metric, work_share=work, adopted=adopted, monitor=record.id)


def _busy(rate: float, count: int, capacity: Quantity) -> Quantity:
    ends = {} if capacity.low is None else {"low": busy(rate, count, capacity.high), "high": busy(rate, count, capacity.low)}
    return Quantity(value=busy(rate, count, capacity.value), unit="fraction", grade=Grade.ESTIMATED, **ends)


def _offered(value: Optional[float], recorded: bool) -> Quantity:
    if value is None:
        return absent("1/s", "no traffic is declared in the params file")
    if recorded:
        return Quantity(value=value, unit="1/s", grade=Grade.IMPORTED, why="counted in the trace")
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
    findings += [found for row in rows if (found := _against_observed(row))]
    return [*findings, *_about_fleets(question, rows)]


def _against_observed(row: UtilizationOfTarget) -> Optional[Finding]:
    """A file of a monitor that saw the hardware far busier, or idler, than the declared traffic makes it."""
    seen = row.observed
    if seen is None or not seen.adopted or not seen.busy.known or not row.busy_mean.known:
        return None
    low, high = sorted((seen.busy.value, row.busy_mean.value))
    if high < _FAR * low or high < 0.05:
        return None
    because = (
        f"{metric('utilization').text(row.busy_mean.value)} busy is modelled (load over capacity), {metric('utilization').text(seen.busy.value)} was seen "
        f"({seen.metric}); they are different quantities, but that far apart one of them is not of this traffic"
    )
    next_ = "see whether the monitor's file is of this service and of usual days, and whether traffic and count are right"
    return Finding(severity=Severity.NOTE, code="busy_differs_from_observed", because=because, next=next_, target=row.target)


def _about_fleets(question: Question, rows: tuple[UtilizationOfTarget, ...]) -> list[Finding]:
    """What the simulation says about the objective."""
    kept, findings = promise(question.params.objective), []
    for row in rows:
        if row.service is not None and row.service.reckoned:
            length = f"sequence_length: {row.service.input_tokens:.0f}, output_length: {row.service.output_tokens:.0f}"
            next_ = f"measure at these lengths: workload.shapes: [{{batch_size: {row.service.largest_batch}, {length}}}]"
            findings.append(
                Finding(severity=Severity.WARNING, code="figure_at_other_lengths", because=row.service.reckoned, next=next_, target=row.target)
            )
        if row.not_simulated:
            findings.append(Finding(severity=Severity.NOTE, code="not_simulated", because=row.not_simulated, target=row.target))
        elif row.needed is not None and not row.needed.known:
            because = f"{row.instance_type}: {row.needed.why}"
            next_ = "a smaller batch, a larger instance, or another objective"
            findings.append(Finding(severity=Severity.WARNING, code="no_fleet_keeps_objective", because=because, next=next_, target=row.target))
        elif row.missed is not None and row.missed.known and row.missed.value > kept.allowed:
            because = f"{_share(row.missed.value)} of the requests are late with the {row.chosen} fleet, {_share(kept.allowed)} may be"
            next_ = "raise policy.capacity.min_count, lower target_utilization, or raise count"
            findings.append(Finding(severity=Severity.WARNING, code="objective_missed_under_load", because=because, next=next_, target=row.target))
        if row.needed is not None and row.needed.known:
            findings += _against_needed(question, row)
    if any(row.options for row in rows) and kept.made and math.isinf(kept.latency_s) and math.isinf(kept.ttft_s):
        because = "the objective bounds the time per token only, so waiting for the first token counts as nothing"
        findings.append(Finding(severity=Severity.NOTE, code="waiting_not_bounded", because=because, next="add objective.ttft_p99_ms"))
    return findings


def _against_needed(question: Question, row: UtilizationOfTarget) -> list[Finding]:
    """The declared fleet, or the one that covers the peak at full load, against the one that keeps the objective."""
    declared, needed, have = question.target(row.target).count, int(row.needed.value), int(row.instances.value)
    wanted = spread(needed, question.params.policy.capacity)
    if declared is None:
        if needed <= have:
            return []
        because = f"{needed} instances keep the objective at the peak, the {have} that cover it at full load do not"
        next_ = "reckon with the simulated fleet"
    elif declared < wanted:
        spare = "" if wanted == needed else f", {wanted} with the spare ones and zones of policy.capacity"
        because, next_ = f"{_keep(needed)} the objective at the peak{spare}; {declared} declared", "raise count, or scale with the load"
    elif declared > wanted:
        spare = "" if wanted == needed else ", spare ones and zones of policy.capacity included"
        because = f"{declared} instances are declared, {_keep(wanted)} the objective at the peak{spare}"
        next_ = "right-size before moving: lower count, or say in policy.capacity what the others are for"
        return [Finding(severity=Severity.NOTE, code="declared_above_needed", because=because, next=next_, target=row.target)]
    else:
        return []
    return [Finding(severity=Severity.NOTE, code="objective_needs_more", because=because, next=next_, target=row.target)]


def _keep(number: int) -> str:
    return f"{number} keep" + ("s" if number == 1 else "")


def _about_window(demand: Optional[Demand]) -> list[Finding]:
    """A trace of less than a week says nothing of the rest: what is said of a day, a week or a month repeats it."""
    if demand is None or demand.repeats or demand.window_s >= _MOST_OF_A_WEEK * WEEK_S:
        return []
    hours = demand.window_s / 3600
    lacking = "nights and weekends" if hours < 24 else "the rest of the week"
    because = f"the trace covers {hours:.3g} of the 168 h of a week; hours and money of a day, a week and a month are those of its mean hour, so {lacking} count as if alike"
    next_ = "record a week, or declare traffic.mean_per_s and daily_shape beside the trace"
    return [Finding(severity=Severity.NOTE, code="window_below_a_week", because=because, next=next_)]


def _share(value: float) -> str:
    return metric("fraction").text(value)


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
    said = f"{text}. {others}." if others else f"{text}."
    fleets = [row for row in known if row.instance_hours_per_day is not None and row.instance_hours_per_day.known]
    if not fleets:
        return said
    named = [(row, " as declared" if row.chosen == "declared" else "") for row in fleets]
    each = "; ".join(
        f"{row.target}{how} {metric('instance_hours').number(row.instance_hours_per_day.value)} instance-hours a day{_late(row)}"
        for row, how in named
    )
    return f"{said} Simulated with the {question.params.policy.capacity.scaling.replace('_', ' ')} fleet: {each}."


def _late(row: UtilizationOfTarget) -> str:
    return f", {_share(row.missed.value)} late" if row.missed is not None and row.missed.known else ""
