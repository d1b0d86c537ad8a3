"""The demand of a window: a week from the profile of the params file, or the requests of a trace."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Optional

import numpy as np

from neuronfit import model
from neuronfit import traffic as traffic_files
from neuronfit.capacity.arrivals import MINUTE_S, WEEK_S, per_minute, rate_by_minute
from neuronfit.capacity.fleet import EVERY_RECORDED, Demand
from neuronfit.errors import BadInput
from neuronfit.profile import length_shares, offered, results_per_request, trace_of
from neuronfit.question import Question
from neuronfit.traced import TokenLengths

__all__ = ["demand_of", "from_hours", "from_requests", "lengths_of"]

LENGTHS = 1000
"""Requests whose input and output tokens stand for all those of a trace."""


def demand_of(question: Question) -> Optional[Demand]:
    """What the question's traffic asks of a fleet; ``None`` where no rate is known.

    The requests of its trace as they came, unless a mean or a volume is declared: then, and without a trace, a week of
    hourly rates (the recorded week or day where there is one, else the day of the profile).
    """
    given = question.params.traffic
    if given.trace is not None and given.mean_per_s is None and given.monthly_volume is None:
        found = trace_of(question)
        if found is not None and found.kind == "arrivals" and found.span_s:
            return _recorded(question, found.requests, found.span_s)
    asked_for = offered(question)
    hours = asked_for.week_per_s or asked_for.hourly_per_s
    if not hours:
        return None
    day = (
        "the recorded week"
        if asked_for.week_per_s
        else "the recorded day"
        if "hours" in asked_for.recorded
        else f"{given.daily_shape} day, every day alike"
    )
    return from_hours(hours, asked_for.peak_per_s, f"profile of the params file ({day})", _declared_lengths(question))


def from_hours(
    hourly_per_s: Sequence[float],
    peak_per_s: Optional[float] = None,
    how: str = "hourly rates of a week",
    lengths: tuple[tuple[float, float], ...] = (),
) -> Demand:
    """A week that repeats itself from 168 hourly rates, Monday first, or from the 24 of a day; results per second."""
    peak = max(peak_per_s or 0.0, *hourly_per_s)
    return Demand(rate_by_minute(hourly_per_s, peak), WEEK_S, peak, True, how, lengths=lengths)


def _declared_lengths(question: Question) -> tuple[tuple[float, float], ...]:
    """Input and output tokens of a profile's requests: from ``traffic.sequence_lengths`` or the trace; empty where neither says them.

    The two are drawn apart, as a profile does not say which input has which output.
    """
    workload, shares, trace = question.params.workload, length_shares(question), trace_of(question)
    written = trace.output_tokens if trace is not None else None
    if not model.TASKS[workload.model.task].generates or (not shares and written is None):
        return ()
    prompts = _spread_out(shares or {workload.shapes[0].sequence_length: 1.0})
    outputs = _spread_out(written.histogram if written is not None and written.histogram else {results_per_request(question, trace): 1.0})
    read = trace.input_tokens if trace is not None and not question.params.traffic.sequence_lengths else None
    return _to_means(prompts, np.random.default_rng(0).permutation(outputs), _mean(read), _mean(written))


def _mean(lengths: Optional[TokenLengths]) -> Optional[float]:
    return None if lengths is None else lengths.mean


def _spread_out(shares: Mapping[float, float]) -> np.ndarray:
    """``LENGTHS`` lengths in ascending order that come as often as their shares say."""
    sizes = sorted(shares)
    reached = np.cumsum([shares[size] for size in sizes], dtype=float)
    places = np.searchsorted(reached / reached[-1], (np.arange(LENGTHS) + 0.5) / LENGTHS)
    return np.asarray(sizes, float)[np.minimum(places, len(sizes) - 1)]


def lengths_of(prompts: Optional[np.ndarray], outputs: Optional[np.ndarray]) -> tuple[tuple[float, float], ...]:
    """Up to ``LENGTHS`` (input, output) tokens that stand for those of all requests, evenly spaced by output, then input; means kept."""
    if prompts is None or outputs is None or len(outputs) == 0:
        return ()
    order = np.lexsort((prompts, outputs))
    if len(order) > LENGTHS:
        order = order[((np.arange(LENGTHS) + 0.5) * len(order) / LENGTHS).astype(np.int64)]
    return _to_means(prompts[order], outputs[order], float(prompts.mean()), float(outputs.mean()))


def _to_means(prompts: np.ndarray, outputs: np.ndarray, prompt: Optional[float], output: Optional[float]) -> tuple[tuple[float, float], ...]:
    """Pairs of both, stretched to these means, so that picking some of the requests changes no load."""
    kept = []
    for values, mean in ((prompts, prompt), (outputs, output)):
        now = float(values.mean())
        kept.append(values * (mean / now) if mean and now > 0 else values)
    return tuple(zip(kept[0].tolist(), kept[1].tolist()))


def _recorded(question: Question, requests: int, span_s: float) -> Demand:
    """The trace of the question: single requests up to ``EVERY_RECORDED`` of them, their number by minute above."""
    given, generates = question.params.traffic.trace, model.TASKS[question.params.workload.model.task].generates
    shape = question.params.workload.shapes[0]
    keep, seconds, prompts, outputs = requests <= EVERY_RECORDED, [], [], []
    every, before = (1 if keep else 1 + requests // EVERY_RECORDED), 0
    counts = np.zeros(int(span_s / MINUTE_S) + 1)
    with traffic_files.open_trace(question.file(given.file), **given.model_dump(exclude={"file"})) as trace:
        for piece in traffic_files.arrivals(trace):
            output = _tokens(piece.output_tokens, len(piece), shape.output_length or 1)
            counts += np.bincount(
                np.minimum((piece.seconds / MINUTE_S).astype(np.int64), len(counts) - 1), weights=output if generates else None, minlength=len(counts)
            )
            if keep:
                seconds.append(piece.seconds)
            if generates:
                some = slice(-before % every, None, every)
                prompts.append(_tokens(piece.input_tokens, len(piece), shape.sequence_length)[some])
                outputs.append(output[some])
            before += len(piece)
    how = f"trace {question.file(given.file).name}"
    if keep:
        kind = dict(input_tokens=np.concatenate(prompts), output_tokens=np.concatenate(outputs)) if generates else {}
        return from_requests(np.concatenate(seconds), window_s=span_s, counts_tokens=generates, how=how, **kind)
    lengths = np.full(len(counts), MINUTE_S)
    lengths[-1] = span_s - MINUTE_S * (len(counts) - 1) or MINUTE_S
    rates = counts / lengths
    said = f"{how}: {requests:,} requests in {span_s / 3600:.3g} h, by minute"
    lengths = lengths_of(np.concatenate(prompts), np.concatenate(outputs)) if generates else ()
    return Demand(rates, span_s, float(rates[:-1].max()), False, said, lengths=lengths)


def _tokens(given: Optional[np.ndarray], count: int, otherwise: int) -> np.ndarray:
    """Tokens of each request; where a row has none the mean of the others, where no row has any what the first shape says."""
    if given is None:
        return np.full(count, float(otherwise))
    known = given >= 0
    return np.where(known, given, given[known].mean() if known.any() else otherwise).astype(float)


def from_requests(
    arrivals_s: np.ndarray,
    *,
    window_s: Optional[float] = None,
    input_tokens: Optional[np.ndarray] = None,
    output_tokens: Optional[np.ndarray] = None,
    counts_tokens: bool = False,
    how: str = "requests of a trace",
) -> Demand:
    """The requests of a trace as they came: seconds from the start of the window, and their tokens where it has them.

    ``counts_tokens``: a result is an output token, as with generation. The window ends with the last request unless it is given; the busiest
    minute is the peak. Raises :class:`~neuronfit.errors.BadInput` for an empty trace.
    """
    arrivals = np.asarray(arrivals_s, float)
    if len(arrivals) == 0 or not np.all(np.isfinite(arrivals)) or arrivals.min() < 0:
        raise BadInput("arrivals in seconds from the start of the window", f"{len(arrivals)} values", allowed="at least one number from 0")
    order = np.argsort(arrivals, kind="stable")
    arrivals = arrivals[order]
    prompts, outputs = (None if given is None else np.asarray(given, float)[order] for given in (input_tokens, output_tokens))
    length = max(window_s or 0.0, float(arrivals[-1]), 1.0)
    rates = per_minute(arrivals, length, outputs if counts_tokens and outputs is not None else None)
    full = rates[: int(length // 60)] if length >= 60 else rates  # a short last minute is no peak
    return Demand(
        rates,
        length,
        float(full.max()),
        False,
        f"{how}: {len(arrivals):,} requests in {length / 3600:.3g} h, simulated one by one",
        arrivals,
        prompts,
        outputs,
        lengths_of(prompts, outputs),
    )
