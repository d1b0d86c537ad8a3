"""The scenarios of an endpoint: which loads are run, and in what order.

========================  ==========================================================================================
``single_stream``         one request in flight; the next is sent when the last is answered
``offline``               as many in flight as help: concurrency doubles until throughput stops growing
``server``                requests arrive by themselves, at a rate or, without one, at the highest that keeps the objective
``generate``              tokens timed apart, with ``concurrency`` in flight or at a rate
========================  ==========================================================================================

Each function sends and returns :class:`Taken`; nothing is judged or stored here.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Optional

import numpy as np

from neuronfit import stats
from neuronfit.load import arrivals, audit
from neuronfit.load.generator import Control, Request, Response, Sent, closed_loop, open_loop, run
from neuronfit.load.prompts import Prompts
from neuronfit.served import Probe
from neuronfit.targets.endpoint import EndpointClient

if TYPE_CHECKING:
    from neuronfit.params import Endpoint, Objective, Shape

__all__ = ["Plan", "Taken", "at_concurrency", "at_rate", "best_concurrency", "highest_rate"]

GROWTH = 1.05
"""Offline: more requests in flight must bring this much more throughput, or the search ends."""

WARM_UP_SHARE = 0.1
"""Share of the duration spent on warm-up requests before the first run; at least one request."""

MOST_DOUBLINGS, MOST_HALVINGS = 14, 3
"""Search: at an eighth of the rate of one request in flight a server is idle most of the time; less load does not help."""

SCREENING = 60
"""Search: requests of a probe while the rate still doubles; their p99 is judged although it has no interval yet."""

CLIENT_LIMIT = "the load generator was the limit"
"""Beginning of the reason of a probe that says nothing about the server."""

SCREENED = 0.9
"""Share of a short probe's requests that must have the figure that is judged."""

CONFIRMATIONS = 5
"""Search: how often the rate found is measured; each time it fails it is lowered, by the margin and then by twice as much."""

RECOVERY_REQUESTS, RECOVERED = 20, 3.0
"""Search: after a broken probe at most so many single requests are sent, until one takes less than this many times the usual."""


@dataclass(frozen=True)
class Plan:
    """How to load an endpoint. ``duration_s`` is for all runs of one load together."""

    scenario: str
    duration_s: float = 20.0
    runs: int = 3
    arrivals: str = "poisson"
    rate_per_s: Optional[float] = None
    concurrency: Optional[int] = None
    trace_s: tuple[float, ...] = ()
    trace_lengths: tuple[tuple[Optional[int], Optional[int]], ...] = ()
    """input and output tokens of each request of the trace, where it has them"""
    seed: int = 0
    margin: float = 0.05
    """the search ends when highest kept and lowest broken rate are this close, fraction"""
    confidence: float = 0.95


@dataclass(frozen=True)
class Taken:
    """One load: its runs, the warm-up before them, and how the requests were sent."""

    runs: tuple[Sent, ...]
    arrivals: str
    warmup: tuple[Response, ...] = ()
    rate_per_s: Optional[float] = None
    concurrency: Optional[int] = None
    searched: bool = False
    probes: tuple[Probe, ...] = ()
    server: Optional[str] = None

    @property
    def interrupted(self) -> bool:
        return any(one.interrupted for one in self.runs)

    @property
    def answered(self) -> list[Response]:
        return [response for one in self.runs for response in one.responses if response.answered]


@dataclass
class Line:
    """What a load is sent through: the endpoint, the prompts, the number of the next one, who watches."""

    endpoint: Endpoint
    prompts: Prompts
    shape: Shape
    progress: Optional[Callable[[float], None]] = None
    number: int = 0
    usage: bool = True
    server: Optional[str] = None
    spent_s: float = field(default=0.0)

    def next(self, count: int) -> list[Request]:
        first, self.number = self.number, self.number + count
        return [self.prompts.request(number, self.shape) for number in range(first, first + count)]

    def stream(self) -> Iterator[Request]:
        while True:
            yield from self.next(1)

    def send(self, load: Callable[[EndpointClient, Control], Any], window_s: float) -> Sent:
        """Run one load with a session of its own."""
        client = EndpointClient(self.endpoint)
        client.usage = self.usage

        async def inside(control: Control) -> Any:
            async with client:
                return await load(client, control)

        ticks = itertools.count()
        heard = (lambda control: self.progress(self.spent_s + min(window_s, 0.1 * next(ticks)))) if self.progress else None  # type: ignore[misc]
        sent = run(inside, window_s=window_s, progress=heard)
        self.spent_s += window_s
        self.server = client.server or self.server
        return sent


def warm_up(line: Line, plan: Plan, concurrency: int = 1) -> Sent:
    """Requests whose times are kept but not counted; the first also finds out whether the server counts tokens."""
    first = _closed(line, 1, 0.0, count=1)
    said = first.responses[0].error or ""
    if said.startswith(("http 400", "http 422")) and "stream_options" in said:
        line.usage = False
    elif said and not _answers(again := _closed(line, 1, 0.0, count=3)):
        return replace(again, responses=(*first.responses, *again.responses))
    return _closed(line, concurrency, plan.duration_s * WARM_UP_SHARE)


def at_concurrency(line: Line, plan: Plan, concurrency: int) -> Taken:
    """``plan.runs`` closed-loop runs with so many requests in flight."""
    warm, runs = warm_up(line, plan, concurrency), []
    if _answers(warm):
        for _ in range(plan.runs):
            runs.append(_closed(line, concurrency, plan.duration_s / plan.runs))
            if runs[-1].interrupted or not _answers(runs[-1]):
                break
    else:
        runs.append(warm)
        warm = replace(warm, responses=())
    return Taken(tuple(runs), "closed", warm.responses, concurrency=concurrency, server=line.server)


def best_concurrency(line: Line, plan: Plan, most: int) -> Iterator[Taken]:
    """Loads at 1, 2, 4, ... requests in flight, until throughput no longer grows or ``most`` is reached."""
    best = 0.0
    concurrency = plan.concurrency or 1
    while True:
        taken = at_concurrency(line, plan, concurrency)
        yield taken
        speed = stats.median([_speed(one) for one in taken.runs])
        if taken.interrupted or speed < best * GROWTH or 2 * concurrency > most or plan.concurrency:
            return
        best, concurrency = speed, 2 * concurrency


def at_rate(line: Line, plan: Plan, rate_per_s: Optional[float], *, warm: bool = True) -> Taken:
    """``plan.runs`` open-loop runs that share the duration; a trace is replayed once, at its own timestamps."""
    before = warm_up(line, plan) if warm else None
    runs: list[Sent] = []
    if before is not None and not _answers(before):
        return Taken((before,), "closed", concurrency=1, server=line.server)
    for number in range(1 if plan.arrivals == "trace" else plan.runs):
        offsets, window_s = _schedule(plan, rate_per_s, number)
        runs.append(_open(line, offsets, window_s, lengths=plan.trace_lengths if plan.arrivals == "trace" else ()))
        if runs[-1].interrupted:
            break
    rate = rate_per_s if plan.arrivals != "trace" else sum(len(one.responses) for one in runs) / max(sum(one.window_s for one in runs), 1e-9)
    return Taken(tuple(runs), plan.arrivals, before.responses if before else (), rate_per_s=rate, server=line.server)


def _schedule(plan: Plan, rate_per_s: Optional[float], number: int) -> tuple[np.ndarray, float]:
    each = plan.duration_s / plan.runs
    if plan.arrivals == "trace":
        offsets = arrivals.replay(plan.trace_s, plan.duration_s)
        return offsets, max(float(offsets[-1]), 1e-3) if len(offsets) > 1 else plan.duration_s
    if plan.arrivals == "constant":
        return arrivals.constant(rate_per_s, each), each  # type: ignore[arg-type]
    return arrivals.poisson(rate_per_s, each, np.random.default_rng((plan.seed, number))), each  # type: ignore[arg-type]


# -- the highest rate that keeps the objective ------------------------------------------------


def highest_rate(line: Line, plan: Plan, objective: Objective) -> Taken:
    """Search the highest rate at which the objective is kept, then measure there with all runs.

    The rate doubles from that of one request in flight, with short probes, until one breaks the objective, and is then bisected
    until kept and broken are within ``plan.margin``, with probes as long as the percentile needs. The measurement at the rate
    found is independent of the probes; where it breaks the objective the rate is lowered and measured again.
    With no rate that keeps it the load at the lowest one tried is returned, not marked as searched.
    """
    warm = warm_up(line, plan)
    if not _answers(warm):
        return Taken((warm,), "closed", concurrency=1, server=line.server)
    typical = stats.median([response.end - response.intended for response in warm.responses if response.answered])  # type: ignore[operator]
    probes: list[Probe] = []

    def probe(rate: float, least: Optional[int] = None) -> bool:
        lasts = max(audit.SHORTEST * typical, least / rate if least else _long_enough(plan, rate, objective) / plan.runs)
        offsets, window_s = _schedule(replace(plan, runs=1, duration_s=lasts), rate, 100 + len(probes))
        sent = _open(line, offsets, window_s, most_in_flight=_hopeless(rate, objective, typical))
        kept, because = keeps(Taken((sent,), plan.arrivals, rate_per_s=rate), objective, plan.confidence, least)
        if limit := _client_limit(sent, plan, rate, line):
            kept, because = False, f"{CLIENT_LIMIT}: {limit}"
        probes.append(Probe(rate_per_s=rate, kept=kept, answered=sum(one.answered for one in sent.responses), because=because))
        if sent.interrupted:
            raise _Stopped(sent)
        if not kept:
            _let_it_recover(line, typical)
        return kept

    try:
        low, high = _bracket(lambda rate: probe(rate, SCREENING), 1.0 / typical)
        while low and high and high / low > 1 + plan.margin:
            middle = (low * high) ** 0.5
            low, high = (middle, high) if probe(middle) else (low, middle)
    except _Stopped as stopped:
        return Taken((stopped.sent,), plan.arrivals, warm.responses, rate_per_s=probes[-1].rate_per_s, probes=tuple(probes), server=line.server)
    rate = low or min(one.rate_per_s for one in probes)
    for attempt in range(CONFIRMATIONS):
        taken = at_rate(line, replace(plan, duration_s=_long_enough(plan, rate, objective)), rate, warm=False)
        kept, _ = keeps(taken, objective, plan.confidence)
        if kept or taken.interrupted or not low:
            break
        rate /= 1 + plan.margin * 2**attempt
    return replace(taken, warmup=warm.responses, searched=bool(low) and kept, probes=tuple(probes))


def _let_it_recover(line: Line, typical_s: float) -> None:
    """After a probe that was too much, wait until one request alone takes about as long as before."""
    for _ in range(RECOVERY_REQUESTS):
        sent = _closed(line, 1, 0.0, count=1)
        if sent.interrupted or (_answers(sent) and sent.end - sent.begin < RECOVERED * typical_s):
            return


def _client_limit(sent: Sent, plan: Plan, rate_per_s: float, line: Line) -> str:
    """What of the load generator itself made a probe worthless, if anything: it must not pass for the server's capacity."""
    expected = audit.Expected(plan.arrivals, rate_per_s=rate_per_s, max_connections=line.endpoint.max_connections)
    objections = [finding.because for finding in audit.client_objections([sent], expected)]
    return objections[0] if objections else ""


class _Stopped(Exception):
    """Ctrl-C inside a search."""

    def __init__(self, sent: Sent):
        self.sent = sent


def _bracket(probe: Callable[[float], bool], start: float) -> tuple[Optional[float], Optional[float]]:
    """(highest rate seen to be kept, lowest seen to be broken), either ``None``."""
    low = high = None
    rate = start
    if probe(rate):
        for _ in range(MOST_DOUBLINGS):
            low, rate = rate, 2 * rate
            if not probe(rate):
                high = rate
                break
    else:
        for _ in range(MOST_HALVINGS):
            high, rate = rate, rate / 2
            if probe(rate):
                low = rate
                break
    return low, high


def keeps(taken: Taken, objective: Objective, confidence: float = 0.95, least: Optional[int] = None) -> tuple[bool, str]:
    """Whether a load kept every bound of the objective and its queue did not grow; and why, in a few words.

    A percentile is judged by its value, and only from the number of samples at which it has an interval, or from
    ``least`` of them where that is given.
    """
    total = sum(len(one.responses) for one in taken.runs)
    answered = taken.answered
    if any(one.overloaded or audit.overloaded(one) for one in taken.runs):
        return False, "the queue grew"
    if not answered:
        return False, "nothing was answered"
    if 1 - len(answered) / total > objective.error_rate:
        return False, f"{1 - len(answered) / total:.2%} failed"
    checks = [
        ("latency p50", objective.latency_p50_ms, 0.5, [one.end - one.intended for one in answered]),  # type: ignore[operator]
        ("latency p99", objective.latency_p99_ms, 0.99, [one.end - one.intended for one in answered]),  # type: ignore[operator]
        ("TTFT p99", objective.ttft_p99_ms, 0.99, [one.first - one.intended for one in answered if one.first is not None]),
        ("TPOT p99", objective.tpot_p99_ms, 0.99, [(one.end - one.first) / (one.output_tokens - 1) for one in answered if _has_tpot(one)]),  # type: ignore
    ]
    said = []
    for name, bound, quantile, values in checks:
        if bound is None:
            continue
        if len(values) < (least * SCREENED if least else stats.samples_needed(quantile, confidence)):
            return False, f"{len(values)} samples are too few for {name}"
        value = stats.percentile(values, quantile) * 1e3
        said.append(f"{name} {value:.4g} ms of {bound:g} ms")
        if value > bound:
            return False, said[-1]
    return True, ", ".join(said) or "no bound declared; the queue did not grow"


def _has_tpot(response: Response) -> bool:
    return response.first is not None and (response.output_tokens or 0) > 1


def _long_enough(plan: Plan, rate_per_s: float, objective: Objective) -> float:
    """The duration, or longer where the percentile of the objective needs more requests."""
    tail = any(bound is not None for bound in (objective.latency_p99_ms, objective.ttft_p99_ms, objective.tpot_p99_ms))
    needed = stats.samples_needed(0.99 if tail else 0.5, plan.confidence)
    return max(plan.duration_s, plan.runs * 1.1 * needed / rate_per_s)


def _hopeless(rate_per_s: float, objective: Objective, typical_s: float) -> int:
    """Requests in flight (Little's law) at which the latency is far past any bound."""
    bounds = [bound / 1e3 for bound in (objective.latency_p99_ms, objective.latency_p50_ms, objective.ttft_p99_ms) if bound]
    return int(20 + 3 * rate_per_s * max([*bounds, 10 * typical_s]))


# -- sending ----------------------------------------------------------------------------------


def _closed(line: Line, concurrency: int, duration_s: float, count: Optional[int] = None) -> Sent:
    return line.send(
        lambda client, control: closed_loop(client.send, line.stream(), control, concurrency=concurrency, duration_s=duration_s, count=count),
        duration_s,
    )


def _open(
    line: Line,
    offsets: Sequence[float],
    window_s: float,
    most_in_flight: Optional[int] = None,
    lengths: Sequence[tuple[Optional[int], Optional[int]]] = (),
) -> Sent:
    first, requests = line.number, line.next(len(offsets))
    if lengths:
        requests = [line.prompts.recorded(first + number, *pair, line.shape) for number, pair in enumerate(lengths[: len(offsets)])]
    return line.send(
        lambda client, control: open_loop(
            client.send,
            requests,
            offsets,
            control,
            window_s=window_s,
            drain_s=line.endpoint.timeout_s + 1.0,
            most_in_flight=most_in_flight,
        ),
        window_s,
    )


def _answers(sent: Sent) -> bool:
    return not sent.interrupted and any(response.answered for response in sent.responses)


def _speed(sent: Sent) -> float:
    """Requests answered per second, first send to last answer."""
    return sum(response.answered for response in sent.responses) / max(sent.end - sent.begin, 1e-9)
