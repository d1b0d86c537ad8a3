"""Instances over a window of traffic: how many keep the objective, what each scaling policy costs in hours, what it misses.

Up to ``EVERY_REQUEST`` requests, ``EVERY_RECORDED`` of a trace, are simulated one by one with every coming and going of instances. Above that, each distinct state
(load, instances) of the window is simulated once as a stretch of ``STRETCH`` requests or more and weighted by the requests that meet it, and
what piles up while the load is above capacity is followed minute by minute as a fluid. Both are reproducible to the digit.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Optional

import numpy as np

from neuronfit.capacity import simulator
from neuronfit.capacity.arrivals import MINUTE_S, pieces, poisson
from neuronfit.capacity.scaling import Plan, StartUp, fixed, scheduled, target_tracking
from neuronfit.capacity.service import BatchService, GenerationService, Promise, Service
from neuronfit.capacity.simulator import Change
from neuronfit.params import HOURS_PER_MONTH, Capacity

__all__ = ["Answer", "Demand", "Option", "break_even", "latency_at_load", "needed", "options", "shared_copies", "stretch"]

EVERY_REQUEST = 400_000
EVERY_RECORDED = 4_000_000
QUICK_REQUESTS = 1_000_000
QUICK_GENERATED = 400_000
"""What a control of notebook 05 simulates one by one at most, requests in batches and of generation; the record simulates all."""

QUICK_HOURS = (24, 12, 6, 3, 1)
STRETCH = 50_000
ROUNDS = 10
LOWEST = 1e-4
"""Load that stands for the lower end of the first step, in steps."""

MOST_HELD = 4_000
"""Requests at work at a time in the largest pool that is simulated."""

LOAD_STEPS = 50
"""States are rounded up to a fiftieth of the capacity of their instances."""

FULL = 1 - 1 / LOAD_STEPS
"""Above this load a fleet counts as overloaded: its queue takes longer to settle than a rate lasts."""

MOST_INSTANCES = 10_000

_POOLS = np.unique(np.concatenate([np.arange(1, 17), np.round(16 * 1.15 ** np.arange(47))]).astype(np.int64))
"""Fleet sizes that are simulated; others count as the next smaller one at the same load, which waits longer."""


@dataclass(frozen=True)
class Demand:
    """Traffic of a window: results per second by minute, and the requests themselves where a trace has them.

    ``window_s`` may be shorter than the minutes; ``repeats``: the window follows on itself (a week of a profile). A request of a
    trace counts ``output_tokens`` results where these are given and the service generates, one otherwise. ``lengths`` are (input, output)
    tokens that requests of a process are drawn from; empty: not known.
    """

    minute_rates: np.ndarray
    window_s: float
    peak_per_s: float
    repeats: bool
    how: str
    arrivals_s: Optional[np.ndarray] = None
    input_tokens: Optional[np.ndarray] = None
    output_tokens: Optional[np.ndarray] = None
    lengths: tuple[tuple[float, float], ...] = ()

    @property
    def mean_per_s(self) -> float:
        return float(self.minute_rates.mean())

    def times(self, factor: float) -> "Demand":
        """The same shape, ``factor`` times as much; a trace becomes a process with its rates and lengths."""
        if factor == 1:
            return self
        return replace(
            self,
            minute_rates=self.minute_rates * factor,
            peak_per_s=self.peak_per_s * factor,
            arrivals_s=None,
            input_tokens=None,
            output_tokens=None,
            how=f"{self.how}, times {factor:g}",
        )


@dataclass(frozen=True)
class Answer:
    """How one stretch of steady load comes out; seconds, and the share later than the objective."""

    missed: float
    p50_s: float
    p99_s: float
    waiting_mean_s: float


@dataclass(frozen=True)
class Option:
    """One scaling policy over the window. ``paid`` and ``ready`` are instances per minute, ``missed`` is ``None`` without an objective.

    ``part`` says of which hours alone ``missed`` speaks, where it is not the whole window.
    """

    name: str
    paid: np.ndarray
    ready: np.ndarray
    instance_hours_per_day: float
    instance_hours_per_month: float
    busy: float
    missed: Optional[float]
    how: str
    part: str = ""

    @property
    def idle(self) -> float:
        """Share of the paid capacity that answers nothing, fraction."""
        return max(0.0, 1 - self.busy)


# -- one steady load --------------------------------------------------------------------------


@lru_cache(maxsize=8)
def _unit(seed: int, count: int) -> np.ndarray:
    """Arrivals at one a second: every stretch takes the same, at its own pace, so that two loads differ in nothing but the load."""
    return np.cumsum(np.random.default_rng(seed).standard_exponential(count))


def _factors(service: BatchService, seed: int, sizes: list[int]) -> Iterator[np.ndarray]:
    """Stretches of the latency of batches, mean 1."""
    generator = np.random.default_rng((seed, 1))
    for size in sizes:
        yield np.exp(service.sigma * generator.standard_normal(size) - service.sigma**2 / 2)


def _tokens(service: GenerationService, count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Input and output tokens of ``count`` requests, drawn from those of the traffic; all alike where it does not say them."""
    if not service.lengths:
        return np.full(count, float(service.input_tokens)), np.full(count, float(service.output_tokens))
    given = np.asarray(service.lengths)
    drawn = given[np.random.default_rng((seed, 2)).integers(len(given), size=count)]
    return drawn[:, 0], drawn[:, 1]


def _held(service: Service) -> int:
    """Requests that one instance works on at a time."""
    return service.copies * service.slots if isinstance(service, GenerationService) else service.workers * service.largest_batch


@lru_cache(maxsize=50_000)
def stretch(service: Service, rate_per_s: float, instances: int, kept: Promise, delay_s: float = 0.0, seed: int = 0, requests: int = 0) -> Answer:
    """Simulate a steady Poisson stream of ``rate_per_s`` results: ``requests`` of them after a fifth that is not counted.

    By default ``STRETCH``, or ``ROUNDS`` times what all instances hold at a time where that is more: before a fleet has filled once its
    queue says nothing.
    """
    requests = requests or max(STRETCH, ROUNDS * instances * _held(service))
    skip = requests // 5
    total = requests + skip
    arrivals = _unit(seed, total) / (rate_per_s / service.results_per_request)
    if isinstance(service, GenerationService):
        out = simulator.generate(
            arrivals,
            *_tokens(service, total, seed),
            service.step_s,
            prefill_s=service.prefill_s,
            cache_tokens=service.cache_tokens,
            copies=service.copies,
            instances=((0.0, instances),),
            ttft_bound_s=kept.ttft_s,
            tpot_bound_s=kept.tpot_s,
            latency_bound_s=kept.latency_s,
            skip=skip,
        )
        latency, first = (np.where(np.isnan(values), np.inf, values) for values in (out.latency_s, out.ttft_s))  # what never fits waits for ever
        p50, p99 = np.quantile(latency, [0.5, 0.99], method="higher")
        return Answer(out.missed_share, float(p50), float(p99), float(np.mean(first)))
    factors = _factors(service, seed, [total]) if service.sigma else None
    done = simulator.simulate(
        [arrivals],
        service.latency_s,
        instances=instances,
        workers=service.workers,
        delay_s=delay_s,
        bound_s=kept.latency_s,
        factors=factors,
        skip=skip,
    )
    return Answer(done.missed_share, done.quantile_s(0.5), done.quantile_s(0.99), done.waiting_mean_s)


@lru_cache(maxsize=10_000)
def needed(service: Service, rate_per_s: float, kept: Promise, delay_s: float = 0.0, seed: int = 0) -> Optional[int]:
    """Fewest instances that carry ``rate_per_s`` results with at most ``kept.allowed`` of the requests late.

    Without an objective the fewest that run below full load. ``None`` where no number of instances keeps the promise.
    """
    least = max(1, math.ceil(rate_per_s / (service.capacity_per_s * FULL) - 1e-9))
    if not kept.made or rate_per_s <= 0:
        return least

    def keeps(count: int) -> bool:
        step = math.ceil(rate_per_s / (count * service.capacity_per_s) * LOAD_STEPS - 1e-9)
        return _steady(service, count, step, kept, delay_s, seed) <= kept.allowed

    if keeps(least):
        return least
    low, high = least, least + 1
    while not keeps(high):
        low, high = high, high * 2
        if high > max(64 * least, 64) or high > MOST_INSTANCES:
            return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if keeps(middle) else (middle, high)
    return high


def latency_at_load(
    service: Service, instances: int, kept: Promise, delay_s: float = 0.0, seed: int = 0, loads: tuple[float, ...] = ()
) -> tuple[tuple[float, Answer], ...]:
    """Latency of the fleet at shares of its capacity."""
    loads = loads or (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.95, 0.98)
    return tuple((load, stretch(service, load * instances * service.capacity_per_s, instances, kept, delay_s, seed)) for load in loads)


# -- a window ---------------------------------------------------------------------------------


def options(
    demand: Demand,
    service: Service,
    kept: Promise,
    settings: Capacity,
    start: StartUp,
    *,
    declared: Optional[int] = None,
    quick: bool = False,
) -> tuple[Option, ...]:
    """The three policies over the window: fixed, scheduled, target_tracking; before them the fleet of ``declared`` instances where there is one.

    ``quick``: the declared fleet and the policy of ``settings.scaling`` alone, and what is late in the busiest hours alone where a trace has more requests than
    ``QUICK_REQUESTS``, or any window of generation more than ``QUICK_GENERATED``; instances and hours are those of the whole window.
    """
    delay = settings.batch_delay_ms / 1e3

    def enough(rate: float) -> int:
        found = needed(service, rate, kept, delay, settings.seed)
        return found if found is not None else max(1, math.ceil(rate / (service.capacity_per_s * FULL) - 1e-9))

    minutes, rates, repeats = len(demand.minute_rates), demand.minute_rates, demand.repeats

    def plan(name: str) -> Plan:
        if name == "scheduled":
            return scheduled(rates, enough, settings, start, repeats=repeats)
        if name == "target_tracking":
            return target_tracking(rates, service.capacity_per_s, settings, start, repeats=repeats)
        if name == "declared":
            return Plan("declared", np.full(minutes, declared, np.int64), np.full(minutes, declared, np.int64))
        return fixed(minutes, enough(demand.peak_per_s), settings)

    names = (*(("declared",) if declared else ()), *((settings.scaling,) if quick else ("fixed", "scheduled", "target_tracking")))
    return tuple(evaluate(demand, service, kept, settings, start, plan(name), quick=quick) for name in names)


def evaluate(demand: Demand, service: Service, kept: Promise, settings: Capacity, start: StartUp, plan: Plan, *, quick: bool = False) -> Option:
    """One plan against the demand; ``quick`` as in :func:`options`."""
    lengths = np.full(len(demand.minute_rates), MINUTE_S)
    lengths[-1] = demand.window_s - MINUTE_S * (len(lengths) - 1)
    mean_paid = float(plan.paid[0] if (plan.paid == plan.paid[0]).all() else (plan.paid * lengths).sum() / demand.window_s)
    offered = float((demand.minute_rates * lengths).sum())
    busy = offered / (mean_paid * demand.window_s * service.capacity_per_s)
    count, where, ready, generates = _requests(demand, service), "", plan, isinstance(service, GenerationService)
    if quick and kept.made and (generates or demand.arrivals_s is not None):
        most = QUICK_GENERATED if generates else QUICK_REQUESTS
        demand, ready, where = busiest(demand, plan, service, most)
        count = _requests(demand, service)
    if not kept.made:
        missed, how = None, "not simulated: no latency objective is declared"
    elif count <= EVERY_REQUEST or demand.arrivals_s is not None:
        missed = _every_request(demand, service, kept, settings, start, ready)
        how = f"every one of {count:,.0f} requests simulated"
    else:
        missed = _by_states(demand.minute_rates, ready.ready, service, kept, settings, start)
        how = f"{len(np.unique(ready.ready))} fleet sizes, each state simulated over {STRETCH:,} requests or more"
    return Option(plan.name, plan.paid, plan.ready, mean_paid * 24, mean_paid * HOURS_PER_MONTH, busy, missed, how, where)


def _requests(demand: Demand, service: Service) -> float:
    if demand.arrivals_s is not None:
        return len(demand.arrivals_s)
    last_s = demand.window_s - MINUTE_S * (len(demand.minute_rates) - 1)
    return float(demand.minute_rates[:-1].sum() * MINUTE_S + demand.minute_rates[-1] * last_s) / service.results_per_request


def busiest(demand: Demand, plan: Plan, service: Service, most: int) -> tuple[Demand, Plan, str]:
    """The busiest day of the window, or as many hours of ``QUICK_HOURS`` as have at most ``most`` requests, and the plan in it.

    The whole window, and no words, where it has no more than ``most``. Where one hour of it has more, the day is left as a process of its
    rates. Days and hours are counted from the start of the window.
    """
    if _requests(demand, service) <= most:
        return demand, plan, ""
    parts = []
    for hours in QUICK_HOURS:
        width = min(hours * 60, len(demand.minute_rates))
        sums = np.add.reduceat(demand.minute_rates, np.arange(0, len(demand.minute_rates), width))
        first = int(sums.argmax()) * width
        part = _between(demand, first, min(first + width, len(demand.minute_rates)))
        words = f"the busiest {hours} h" if width < len(demand.minute_rates) else ""
        parts.append((part, replace(plan, paid=plan.paid[first : first + width], ready=plan.ready[first : first + width]), words))
        if _requests(part, service) <= most:
            return parts[-1]
    day, of_day, words = parts[0]
    return replace(day, arrivals_s=None, input_tokens=None, output_tokens=None), of_day, words


def _between(demand: Demand, first: int, end: int) -> Demand:
    """The minutes from ``first`` to before ``end``, as a window of its own."""
    start_s, end_s = first * MINUTE_S, min(end * MINUTE_S, demand.window_s)
    rates = demand.minute_rates[first:end]
    part = replace(demand, minute_rates=rates, window_s=end_s - start_s, peak_per_s=float(rates.max()), repeats=False)
    if demand.arrivals_s is None:
        return part
    low, high = np.searchsorted(demand.arrivals_s, [start_s, end_s] if end < len(demand.minute_rates) else [start_s, math.inf])
    tokens = {name: None if (given := getattr(demand, name)) is None else given[low:high] for name in ("input_tokens", "output_tokens")}
    return replace(part, arrivals_s=demand.arrivals_s[low:high] - start_s, **tokens)


def _changes(plan: Plan, settings: Capacity, start: StartUp, window_s: float) -> list[Change]:
    """Comings and goings of the plan, and failures drawn with the seed."""
    steps = np.diff(plan.ready)
    changes = [Change(float(place + 1) * MINUTE_S, int(steps[place])) for place in np.flatnonzero(steps)]
    if settings.failures_per_month > 0:
        rate = settings.failures_per_month / (HOURS_PER_MONTH * 3600)
        for piece in poisson(plan.ready * rate, MINUTE_S, settings.seed + 7):
            for at in piece[piece < window_s].tolist():
                changes += [Change(at, 1, failed=True), Change(at + start.lag_s, 1)]
    return changes


def _instances(plan: Plan, changes: list[Change]) -> list[tuple[float, int]]:
    """How many are ready from when on; a failed copy is taken to finish what it has, so a failure costs capacity and no answers."""
    series = [(0.0, int(plan.ready[0]))]
    for change in sorted(changes, key=lambda change: change.at_s):
        series.append((change.at_s, max(0, series[-1][1] + (-change.by if change.failed else change.by))))
    return series


def _every_request(demand: Demand, service: Service, kept: Promise, settings: Capacity, start: StartUp, plan: Plan) -> float:
    arrivals = demand.arrivals_s
    if arrivals is None:
        parts = list(poisson(demand.minute_rates / service.results_per_request, MINUTE_S, settings.seed))
        arrivals = np.concatenate(parts) if parts else np.empty(0)
    if len(arrivals) == 0:
        return 0.0
    if isinstance(service, GenerationService):
        drawn = _tokens(service, len(arrivals), settings.seed)
        out = simulator.generate(
            arrivals,
            demand.input_tokens if demand.input_tokens is not None else drawn[0],
            demand.output_tokens if demand.output_tokens is not None else drawn[1],
            service.step_s,
            prefill_s=service.prefill_s,
            cache_tokens=service.cache_tokens,
            copies=service.copies,
            instances=_instances(plan, _changes(plan, settings, start, demand.window_s)),
            ttft_bound_s=kept.ttft_s,
            tpot_bound_s=kept.tpot_s,
            latency_bound_s=kept.latency_s,
        )
        return out.missed_share
    stream = list(pieces(arrivals))
    return simulator.simulate(
        stream,
        service.latency_s,
        instances=int(plan.ready[0]),
        workers=service.workers,
        delay_s=settings.batch_delay_ms / 1e3,
        bound_s=kept.latency_s,
        factors=_factors(service, settings.seed, [len(part) for part in stream]) if service.sigma else None,
        changes=_changes(plan, settings, start, demand.window_s),
    ).missed_share


def _by_states(rates: np.ndarray, ready: np.ndarray, service: Service, kept: Promise, settings: Capacity, start: StartUp) -> float:
    capacity = np.maximum(ready, 1) * service.capacity_per_s
    steps = np.ceil(rates / capacity * LOAD_STEPS - 1e-9).astype(np.int64)
    states, place = np.unique(np.stack([ready, steps]), axis=1, return_inverse=True)
    share = np.array([_state(service, int(count), int(step), kept, settings, start) for count, step in states.T.tolist()])[place.ravel()]
    late = share * rates * MINUTE_S
    if (rates >= capacity).any() and kept.waiting_s < math.inf:
        late = _backlog(rates, ready * service.capacity_per_s, late, kept)
    total = float(rates.sum() * MINUTE_S)
    return float(late.sum()) / total if total > 0 else 0.0


def _state(service: Service, count: int, step: int, kept: Promise, settings: Capacity, start: StartUp) -> float:
    """Share of late requests at a load of step / LOAD_STEPS with ``count`` instances, one of them down some of the time."""
    delay = settings.batch_delay_ms / 1e3
    up = _steady(service, count, step, kept, delay, settings.seed)
    down = min(1.0, count * settings.failures_per_month / (HOURS_PER_MONTH * 3600) * start.lag_s)
    if down == 0:
        return up
    fewer = math.ceil(step * count / max(count - 1, 1) - 1e-9)
    lost = _steady(service, count - 1, fewer, kept, delay, settings.seed)
    return (1 - down) * up + down * lost


def _steady(service: Service, count: int, step: int, kept: Promise, delay_s: float, seed: int) -> float:
    """Share of late requests at a steady load of step / LOAD_STEPS of ``count`` instances; all of them above ``FULL``.

    The step is the load rounded up. With a batch delay a lower load may be later, so the worse end of the step counts.
    Where the objective bounds the time per token only, waiting makes nobody late: above ``FULL`` the tokens come as at ``FULL``.
    """
    if step <= 0:
        return 0.0
    most = round(LOAD_STEPS * FULL)
    if count > 0 and step > most and kept.made and math.isinf(kept.waiting_s):
        step = most
    if count <= 0 or step > most:
        return 1.0
    count = min(count, max(1, MOST_HELD // _held(service)))
    pool = int(_POOLS[np.searchsorted(_POOLS, count, side="right") - 1])
    missed = stretch(service, step / LOAD_STEPS * pool * service.capacity_per_s, pool, kept, delay_s, seed).missed
    if delay_s > 0 and isinstance(service, BatchService) and service.largest_batch > 1:  # a lower load waits longer for its batch to fill
        below = (step - 1 or LOWEST) / LOAD_STEPS * pool * service.capacity_per_s
        missed = max(missed, stretch(service, below, pool, kept, delay_s, seed).missed)
    return missed


def _backlog(rates: np.ndarray, capacity: np.ndarray, late: np.ndarray, kept: Promise) -> np.ndarray:
    """Requests that wait longer than the objective behind what has piled up; the fluid of each minute, twice around."""
    slack = kept.waiting_s
    result, behind = late.copy(), 0.0
    for _ in range(2):  # the second time round the window starts with what the first left behind
        for minute in range(len(rates)):
            before = behind
            behind = max(0.0, behind + (rates[minute] - capacity[minute]) * MINUTE_S)
            if before == 0 and behind == 0:
                result[minute] = late[minute]
                continue
            allowed = slack * capacity[minute]
            if max(before, behind) <= allowed:
                share = late[minute] / max(rates[minute] * MINUTE_S, 1e-300)
            elif min(before, behind) > allowed or before == behind:
                share = 1.0
            else:
                share = (max(before, behind) - allowed) / abs(before - behind)
            result[minute] = (
                min(1.0, max(share, late[minute] / max(rates[minute] * MINUTE_S, 1e-300) if share < 1 else 1.0)) * rates[minute] * MINUTE_S
            )
    return result


# -- sharing and break-even -------------------------------------------------------------------


def shared_copies(service: Service, rate_per_s: float, instances: int, kept: Promise, delay_s: float = 0.0, seed: int = 0, most: int = 16) -> int:
    """How many models with this traffic the same fleet answers within the objective: their loads add up. At least 0."""
    if rate_per_s <= 0:
        return most
    for copies in range(1, most + 1):
        rate = rate_per_s * copies
        if rate >= instances * service.capacity_per_s * FULL:
            return copies - 1
        if kept.made and stretch(service, rate, instances, kept, delay_s, seed).missed > kept.allowed:
            return copies - 1
    return most


def break_even(candidate_usd_per_hour: float, candidate_per_s: float, baseline_usd_per_hour: float, baseline_per_s: float) -> float:
    """How busy the candidate must be for each share that the baseline is busy, ratio; above 1 it needs more than the baseline.

    The cost of a result is price / (capacity x busy); equal where busy of the candidate = this ratio x busy of the baseline.
    """
    return (candidate_usd_per_hour / candidate_per_s) / (baseline_usd_per_hour / baseline_per_s)
