"""The demand of a window: a week from the profile of the params file, or the requests of a trace."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Optional

import numpy as np

from neuronfit import model
from neuronfit import traffic as traffic_files
from neuronfit.capacity.arrivals import MINUTE_S, WEEK_S, per_minute, rate_by_minute
from neuronfit.capacity.fleet import EVERY_RECORDED, Demand
from neuronfit.errors import BadInput
from neuronfit.profile import offered, trace_of
from neuronfit.question import Question

__all__ = ["demand_of", "from_hours", "from_requests"]


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
    return from_hours(hours, asked_for.peak_per_s, f"profile of the params file ({day})")


def from_hours(hourly_per_s: Sequence[float], peak_per_s: Optional[float] = None, how: str = "hourly rates of a week") -> Demand:
    """A week that repeats itself from 168 hourly rates, Monday first, or from the 24 of a day; results per second."""
    peak = max(peak_per_s or 0.0, *hourly_per_s)
    return Demand(rate_by_minute(hourly_per_s, peak), WEEK_S, peak, True, how)


def _recorded(question: Question, requests: int, span_s: float) -> Demand:
    """The trace of the question: single requests up to ``EVERY_RECORDED`` of them, their number by minute above."""
    given, generates = question.params.traffic.trace, model.TASKS[question.params.workload.model.task].generates
    shape = question.params.workload.shapes[0]
    keep, seconds, prompts, outputs = requests <= EVERY_RECORDED, [], [], []
    counts = np.zeros(int(span_s / MINUTE_S) + 1)
    with traffic_files.open_trace(question.file(given.file), **given.model_dump(exclude={"file"})) as trace:
        for piece in traffic_files.arrivals(trace):
            output = _tokens(piece.output_tokens, len(piece), shape.output_length or 1)
            counts += np.bincount(
                np.minimum((piece.seconds / MINUTE_S).astype(np.int64), len(counts) - 1), weights=output if generates else None, minlength=len(counts)
            )
            if keep:
                seconds.append(piece.seconds)
                prompts.append(_tokens(piece.input_tokens, len(piece), shape.sequence_length))
                outputs.append(output)
    how = f"trace {question.file(given.file).name}"
    if keep:
        kind = dict(input_tokens=np.concatenate(prompts), output_tokens=np.concatenate(outputs)) if generates else {}
        return from_requests(np.concatenate(seconds), window_s=span_s, counts_tokens=generates, how=how, **kind)
    lengths = np.full(len(counts), MINUTE_S)
    lengths[-1] = span_s - MINUTE_S * (len(counts) - 1) or MINUTE_S
    rates = counts / lengths
    return Demand(rates, span_s, float(rates[:-1].max()), False, f"{how}: {requests:,} requests in {span_s / 3600:.3g} h, by minute")


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
    )
