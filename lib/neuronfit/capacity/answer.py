"""What the simulation says about one target, in the fields of the record of step 5."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Optional

import numpy as np

from neuronfit.adopt.published import as_measurement
from neuronfit.capacity import fleet
from neuronfit.capacity.fleet import Demand, Option
from neuronfit.capacity.scaling import StartUp
from neuronfit.capacity.service import GenerationService, Promise, Service, from_rows, promise, service_of
from neuronfit.catalog import instances, prices, published
from neuronfit.compare import QUANTISED, best, doubts
from neuronfit.errors import NeuronFitError, NotFound
from neuronfit.fleets import LatencyAtLoad, ScalingOption, ServiceOfTarget, SharedInstance, SizeOfInstance
from neuronfit.memory import HEADROOM
from neuronfit.params import Target
from neuronfit.provenance import Grade, Quantity, absent
from neuronfit.question import Question
from neuronfit.record import Compatibility, Compile, Measurement, Profile

__all__ = [
    "assumptions",
    "capacity_for",
    "chosen_name",
    "curve_of",
    "hourly",
    "option_of",
    "simulated",
    "start_up",
    "start_up_said",
    "usd_per_hour",
]

WEEK_DAYS = 7
ALONE = "one request alone takes longer, its spread and the batch delay included"


def simulated(question: Question, target: Target, figure: Measurement, demand: Demand, base: Optional[Measurement] = None) -> dict[str, Any]:
    """Fields of :class:`~neuronfit.record.UtilizationOfTarget`; with ``not_simulated`` alone where it cannot be done.

    ``figure`` and ``base`` are the measurements that stand for the target and for the baseline.
    """
    try:
        return _answers(question, target, figure, demand, base, service_of(question, target, figure, demand.lengths))
    except NeuronFitError as error:
        return {"not_simulated": str(error)}


def _answers(
    question: Question, target: Target, figure: Measurement, demand: Demand, base: Optional[Measurement], service: Service
) -> dict[str, Any]:
    settings, kept = question.params.policy.capacity, promise(question.params.objective)
    delay = settings.batch_delay_ms / 1e3
    start = start_up(question, target)
    found = fleet.options(demand, service, kept, settings, start, declared=target.count)
    chosen = next(option for option in found if option.name == chosen_name(target, settings.scaling))
    count = fleet.needed(service, demand.peak_per_s, kept, delay, settings.seed)
    usd = usd_per_hour(question, target.instance_type)
    sizes = _sizes(question, target, figure, demand, kept, delay)
    return {
        "service": _service(service),
        "needed": _number(count, "instances", f"no number of instances keeps the objective: {ALONE}"),
        "start_up": start_up_said(question, target, start),
        "options": tuple(option_of(option, usd) for option in found),
        "chosen": chosen.name,
        "instance_hours_per_day": _number(chosen.instance_hours_per_day, "h"),
        "instance_hours_per_month": _number(chosen.instance_hours_per_month, "h"),
        "missed": _number(chosen.missed, "fraction", chosen.how),
        "idle": _number(chosen.idle, "fraction"),
        "latency_at_load": curve_of(fleet.latency_at_load(service, 1, kept, delay, settings.seed)),
        "sizes": sizes,
        "smallest": next((size.instance_type for size in sizes if size.needed.known), None),
        "shared": _shared(question, target, service, demand, kept, delay, count and (target.count or count)),
        "break_even_ratio": _break_even(question, target, service, base, demand),
    }


def _number(value: Optional[float], unit: str, why: str = "") -> Quantity:
    return absent(unit, why or "not known") if value is None else Quantity(value=value, unit=unit, grade=Grade.ESTIMATED)


def hourly(per_minute: np.ndarray) -> tuple[float, ...]:
    """Means of whole hours (the last may be shorter), to four digits; of a week whose days are alike one day."""
    means = [float(f"{per_minute[start : start + 60].mean():.4g}") for start in range(0, len(per_minute), 60)]
    alike = len(per_minute) == 168 * 60 and all(means[hour] == means[hour % 24] for hour in range(168))
    return tuple(means[:24] if alike else means)


def option_of(option: Option, usd: Optional[float]) -> ScalingOption:
    """One policy as it is stored, with its money at ``usd`` an instance-hour."""
    month = None if usd is None else usd * option.instance_hours_per_month
    price = "no price in the snapshot; see step 6"
    return ScalingOption(
        name=option.name,
        fewest=int(option.paid.min()),
        most=int(option.paid.max()),
        instance_hours_per_day=_number(option.instance_hours_per_day, "h"),
        instance_hours_per_week=_number(option.instance_hours_per_day * WEEK_DAYS, "h"),
        busy=_number(option.busy, "fraction"),
        idle=_number(option.idle, "fraction"),
        missed=_number(option.missed, "fraction", option.how),
        usd_per_month=_number(month, "USD/month", price),
        idle_usd_per_month=_number(None if month is None else month * option.idle, "USD/month", price),
        hourly_instances=hourly(option.paid),
        how=option.how,
    )


def curve_of(points: Sequence[tuple[float, fleet.Answer]]) -> tuple[LatencyAtLoad, ...]:
    """The curve of latency against load as it is stored."""
    return tuple(LatencyAtLoad(load=load, p50_s=found.p50_s, p99_s=found.p99_s) for load, found in points if math.isfinite(found.p99_s))


def _service(service: Service) -> ServiceOfTarget:
    generates = isinstance(service, GenerationService)
    table = service.step_s if generates else service.latency_s
    sizes = sorted({1, len(table), *(2**power for power in range(13) if 2**power <= len(table))})
    sequences = service.cache_tokens / (service.input_tokens + service.output_tokens) if generates else math.inf
    return ServiceOfTarget(
        kind="generation" if generates else "batches",
        workers=service.copies if generates else service.workers,
        largest_batch=service.slots if generates else service.largest_batch,
        latency_s={size: table[size - 1] for size in sizes},
        prefill_s=service.prefill_s if generates else None,
        input_tokens=service.input_tokens if generates else None,
        output_tokens=service.output_tokens if generates else None,
        reckoned=(service.reckoned or None) if generates else None,
        cache_sequences=sequences if math.isfinite(sequences) else None,
        grade=service.grade,
        said=service.said,
    )


def start_up(question: Question, target: Target) -> StartUp:
    """Start-up of a new instance: weights from step 1's record, a cold compile from step 3's; what is not known counts as nothing."""
    settings, profile, built = question.params.policy.capacity, question.dossier.latest(Profile), question.dossier.latest(Compile)
    weights = profile.weights.get(question.params.workload.precision) if profile else None
    row = built.row(target.name) if built else None
    cold = row.compile_time.value if settings.compile_cache == "cold" and row and row.compile_time and row.compile_time.known else 0.0
    load = weights.value / settings.load_bytes_per_s if weights and weights.known else 0.0
    return StartUp(settings.reaction_s, settings.launch_s, load, cold)


def start_up_said(question: Question, target: Target, start: StartUp) -> Quantity:
    """The start-up in seconds with its parts in words; what is not known is said to count as nothing."""
    cold = question.params.policy.capacity.compile_cache == "cold"
    weights = f"weights {start.load_s:.3g} s" if start.load_s else "weights not known (step 1), counted as nothing"
    if not cold:
        compiled = "compile cache warm"
    elif start.compile_s:
        compiled = f"cold compile {start.compile_s:.4g} s (step 3)"
    else:
        built = question.dossier.latest(Compile)
        row = built.row(target.name) if built else None
        needless = row is not None and row.status == "not_needed"
        compiled = "no compilation needed" if needless else "cold compile not known (step 3), counted as nothing"
    why = f"launch and image {start.launch_s:.4g} s, {weights}, {compiled}"
    return Quantity(value=start.lag_s, unit="s", grade=Grade.ESTIMATED, why=why)


def chosen_name(target: Target, scaling: str) -> str:
    """The option that stands for a target: its declared fleet where it has one and the policy is a fixed fleet, else the policy."""
    return "declared" if target.count and scaling == "fixed" else scaling


def capacity_for(question: Question, target: Target, figure: Measurement, demand: Optional[Demand]) -> Quantity:
    """Results per second of one instance at the lengths of the traffic: as the figure has it, or reckoned from it for generation at others."""
    stated = figure.quantity("throughput_per_s")
    if demand is None or not demand.lengths or figure.result_unit != "token":
        return stated
    try:
        service = service_of(question, target, figure, demand.lengths)
    except NeuronFitError:
        return stated
    if not isinstance(service, GenerationService) or not service.reckoned or not stated.known:
        return stated
    factor = service.capacity_per_s / stated.value
    ends = {} if stated.low is None else {"low": stated.low * factor, "high": stated.high * factor}
    why = f"{stated.value:.4g}/s of the figure, reckoned to {service.input_tokens:,.0f} input and {service.output_tokens:,.0f} output tokens"
    return stated.model_copy(update={"value": service.capacity_per_s, "grade": Grade.ESTIMATED, "why": why, **ends})


def assumptions(question: Question, demand: Demand) -> tuple[str, ...]:
    """The settings of policy.capacity in sentences; they are ours until the team writes its own."""
    settings, kept = question.params.policy.capacity, promise(question.params.objective)
    said = [
        "Requests of a profile come as a Poisson process; all instances share one queue, first in first out."
        if demand.arrivals_s is None
        else "Requests come as in the trace; all instances share one queue, first in first out. A day is the window repeated.",
        f"A request waits up to {settings.batch_delay_ms:g} ms for its batch to fill.",
        f"Autoscaling aims at {settings.target_utilization:.0%} load, notices a change after {settings.reaction_s:g} s, lets instances go "
        f"after {settings.scale_in_cooldown_s:g} s; a launch takes {settings.launch_s:g} s, then the weights are loaded at "
        f"{settings.load_bytes_per_s / 1e9:g} GB/s and the compile cache is {'warm' if settings.compile_cache == 'hit' else 'cold'}.",
        f"At least {_count(settings.min_count, 'instance')}, {settings.redundancy} spare, {_count(settings.zones, 'zone')}, "
        f"{settings.failures_per_month:g} failures per instance and month, seed {settings.seed}.",
        f"Above {fleet.FULL:.0%} load a fleet counts as overloaded.",
    ]
    if kept.made and math.isinf(kept.latency_s) and math.isinf(kept.ttft_s):
        said.append("The objective bounds the time per token only: however long a request waits for its first token, it is not counted as late.")
    return tuple(said)


# -- right-sizing, sharing, break-even --------------------------------------------------------


def _sizes(question: Question, target: Target, figure: Measurement, demand: Demand, kept: Promise, delay_s: float) -> tuple[SizeOfInstance, ...]:
    """Every type of the target's family with a figure of the same precision; of several with the same accelerators the smallest."""
    length, objective = question.params.workload.shapes[0].sequence_length, question.params.objective
    family = instances.find(target.instance_type).family
    types = [entry for entry in instances.every() if entry.family == family]
    types.sort(key=lambda entry: (entry.accelerator_memory_bytes or 0, entry.memory_bytes or 0, entry.instance_type))
    seed, found = question.params.policy.capacity.seed, {}
    for entry in types:
        rows = _published(question, target, entry.instance_type, length, figure)
        own = entry.instance_type == target.instance_type
        same = (entry.accelerator_name, entry.accelerator_count)
        if same in {key[:2] for key in found} and not own:
            continue
        top = figure if own else best(rows, objective)
        if top is None:
            continue
        service = (
            service_of(question, target, figure, demand.lengths)
            if own
            else from_rows(question, entry.instance_type, target.path, rows, top, demand.lengths)
        )
        count = fleet.needed(service, demand.peak_per_s, kept, delay_s, seed)
        capacity = Quantity(value=service.capacity_per_s, unit="1/s", grade=service.grade)
        busy = None if count is None else demand.mean_per_s / (count * service.capacity_per_s)
        why = ALONE
        found[(*same, entry.instance_type)] = SizeOfInstance(
            instance_type=entry.instance_type,
            capacity=capacity,
            needed=_number(count, "instances", why),
            busy=_number(busy, "fraction", why),
        )
    return tuple(found.values())


def _published(question: Question, target: Target, instance_type: str, length: int, figure: Measurement) -> Sequence[Measurement]:
    there = target.model_copy(update={"instance_type": instance_type})
    rows = [as_measurement(row, there, question) for row in published.match(question.published_as, instance_type, length)]
    wanted = figure.settings.precision
    rows = [
        row
        for row in rows
        if (row.quantity("throughput_per_s").value or 0) > 0
        and row.result_unit == figure.result_unit
        and (row.settings.precision == wanted if wanted else row.settings.precision not in QUANTISED)
    ]
    return [row for row in rows if not doubts(row)] or rows


def _shared(
    question: Question, target: Target, service: Service, demand: Demand, kept: Promise, delay_s: float, count: Optional[int]
) -> Optional[SharedInstance]:
    if count is None:
        return None
    checked = question.dossier.latest(Compatibility)
    row = next((row for row in checked.targets if row.target == target.name), None) if checked else None
    by_memory = None
    if row is not None and row.memory_needed.known and row.memory_available.known and row.memory_needed.value > 0:
        by_memory = int(row.memory_available.value * (1 - HEADROOM) // row.memory_needed.value)
    by_load = fleet.shared_copies(service, demand.peak_per_s, count, kept, delay_s, question.params.policy.capacity.seed)
    fleet_text = f"{count} {target.instance_type}" + ("" if count == 1 else " instances")
    held = "" if by_memory is None else f" Memory holds {by_memory} such models on each."
    if by_load > 1 and by_memory != 1:
        sentence = f"{target.name}: {fleet_text} would carry {by_load} models with this traffic, if their peaks fall together.{held}"
    else:
        sentence = f"{target.name}: no room for a second model with this traffic on {fleet_text}, at the peak.{held}"
    return SharedInstance(by_memory=by_memory, by_load=by_load, sentence=sentence)


def usd_per_hour(question: Question, instance_type: str) -> Optional[float]:
    """The hourly price on the question's basis, the team's own rate first; ``None`` where there is none."""
    pricing = question.params.pricing
    own = next((entry.usd_per_hour for entry in pricing.overrides if entry.instance_type == instance_type), None)
    if own is not None:
        return own
    try:
        return prices.find(instance_type, pricing.region, pricing.purchase_option).quantity().value
    except NotFound:
        return None


def _break_even(question: Question, target: Target, service: Service, figure: Optional[Measurement], demand: Demand) -> Optional[Quantity]:
    """Candidate against the baseline's figure, both at capacity, on the question's price basis; ``None`` for the baseline itself."""
    base = question.params.baseline
    if target.name == base.name:
        return None
    theirs = capacity_for(question, base, figure, demand).value if figure else None
    mine_usd, base_usd = usd_per_hour(question, target.instance_type), usd_per_hour(question, base.instance_type)
    if not theirs or not mine_usd or not base_usd:
        return absent("ratio", "a throughput or a price of one side is not known")
    if (figure.result_unit == "token") != isinstance(service, GenerationService):
        return absent("ratio", "the two sides count different results")
    return Quantity(value=fleet.break_even(mine_usd, service.capacity_per_s, base_usd, theirs), unit="ratio", grade=Grade.ESTIMATED)


def _count(number: int, what: str) -> str:
    return f"{number} {what}" + ("" if number == 1 else "s")
