"""Requests through a queue, batches and instances that come and go; millions a second, in pieces, reproducible.

    outcome = simulate(pieces, service_s=[0.004], instances=2)
    outcome.latency_s(0.99), outcome.missed / outcome.requests

The rules are in :mod:`neuronfit.capacity.compiled`. What the simulator does not know: networks, clients that give up
or ask again, and a load balancer that chooses badly (there is one queue for all instances).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Optional, Union

import numpy as np

from neuronfit.capacity.arrivals import pieces
from neuronfit.capacity.compiled import BUCKETS, bucket_edges, kernel
from neuronfit.errors import BadInput

__all__ = ["Change", "Generated", "Outcome", "generate", "simulate", "warm_up"]


@dataclass(frozen=True)
class Change:
    """``by`` instances become ready (above 0) or drain (below 0) at ``at_s``; ``failed``: lost at once with their work."""

    at_s: float
    by: int
    failed: bool = False


@dataclass(frozen=True)
class Outcome:
    """What came out. Times in seconds; ``bins`` is (bins, 4): requests, missed, busy worker seconds, waiting, by arrival."""

    requests: int
    missed: int
    lost: int
    waiting_mean_s: float
    latency_mean_s: float
    busy_s: float
    batches: int
    end_s: float
    histogram: np.ndarray
    bins: np.ndarray

    def quantile_s(self, q: float) -> float:
        """The ``q`` quantile of what the histogram counts (latency, or waiting if asked for), within 0.4 %."""
        counted = np.concatenate([[0], np.cumsum(self.histogram)])
        if counted[-1] == 0:
            return math.nan
        wanted = q * counted[-1]
        place = min(int(np.searchsorted(counted, wanted, side="left")), BUCKETS)
        place = max(place, 1)
        low, high = bucket_edges()[place - 1 : place + 1]
        inside = (wanted - counted[place - 1]) / max(self.histogram[place - 1], 1)
        return float(low + (high - low) * min(max(inside, 0.0), 1.0)) if place > 1 else 0.0

    @property
    def missed_share(self) -> float:
        """Share of requests later than the objective or lost with an instance, fraction."""
        return min(1.0, (self.missed + self.lost) / self.requests) if self.requests else 0.0

    @property
    def requests_per_s(self) -> float:
        return self.requests / self.end_s if self.end_s > 0 else 0.0


def simulate(
    arrivals: Union[np.ndarray, Iterable[np.ndarray]],
    service_s: Sequence[float],
    *,
    instances: int = 1,
    workers: int = 1,
    delay_s: float = 0.0,
    bound_s: float = math.inf,
    factors: Optional[Iterable[np.ndarray]] = None,
    changes: Sequence[Change] = (),
    bins: tuple[int, float] = (1, math.inf),
    skip: int = 0,
    of_wait: bool = False,
) -> Outcome:
    """Serve ``arrivals`` (s, ascending; an array or pieces of it) on ``instances`` x ``workers``, first in first out.

    ``service_s`` is the latency of a batch of 1, 2, ... requests, s; its length is the largest batch. A batch starts when a
    worker is free and it is full, or its oldest request has waited ``delay_s``. ``factors`` come in the same pieces as the arrivals
    and stretch the latency of the batch that a request heads. ``bins`` = (how many, seconds each). ``skip``: first requests not counted.
    """
    table = np.ascontiguousarray(service_s, float)
    if table.size == 0 or not np.all(np.isfinite(table)) or np.any(table <= 0):
        raise BadInput("latency by batch size, seconds", list(service_s), allowed="at least one number above 0")
    for what, value, least in (("instances", instances, 0), ("workers", workers, 1)):
        if int(value) != value or value < least:
            raise BadInput(what, value, allowed=f"a whole number from {least}")
    if not delay_s >= 0:
        raise BadInput("batch delay, seconds", delay_s, allowed="0 or more")
    serve = kernel("serve")
    ordered = sorted(changes, key=lambda change: change.at_s)
    most = (instances + sum(max(change.by, 0) for change in ordered if not change.failed)) * workers
    free, load = np.zeros(max(most, 1)), np.zeros(max(most, 1), np.int64)
    change_s = np.array([change.at_s for change in ordered], float)
    change = np.array([change.by for change in ordered], np.int64)
    failed = np.array([change.failed for change in ordered], np.bool_)
    state = np.array([instances * workers, 0, 0, 0], np.int64)
    histogram, table_of_bins, totals = np.zeros(BUCKETS, np.int64), np.zeros((bins[0], 4)), np.zeros(8)
    nothing, rest, rest_factors = np.empty(0), np.empty(0), np.empty(0)
    source = iter(pieces(arrivals) if isinstance(arrivals, np.ndarray) else arrivals)
    stretch = iter(factors) if factors is not None else None
    piece = next(source, None)
    while piece is not None:
        following = next(source, None)
        piece = np.ascontiguousarray(piece, float)
        here = np.concatenate([rest, piece]) if rest.size else piece
        by = nothing
        if stretch is not None:
            drawn = np.ascontiguousarray(next(stretch), float)
            by = np.concatenate([rest_factors, drawn]) if rest_factors.size else drawn
        used = serve(
            *(here, by, following is None, table, float(delay_s), workers, free, load, change_s, change, failed, state, skip, float(bound_s)),
            *(of_wait, histogram, float(bins[1]), table_of_bins, totals),
        )
        rest, rest_factors = here[used:], by[used:]
        piece = following
    waiting, latency, busy, batches, requests, missed, lost, end = totals
    count = int(requests)
    return Outcome(
        requests=count,
        missed=int(missed),
        lost=int(lost),
        waiting_mean_s=waiting / count if count else math.nan,
        latency_mean_s=latency / count if count else math.nan,
        busy_s=float(busy),
        batches=int(batches),
        end_s=float(end),
        histogram=histogram,
        bins=table_of_bins,
    )


@dataclass(frozen=True)
class Generated:
    """What came out of continuous batching: one entry per request, seconds; ``nan`` where it never fits."""

    ttft_s: np.ndarray
    tpot_s: np.ndarray
    latency_s: np.ndarray
    requests: int
    missed: int
    never_fits: int
    output_tokens: float
    busy_s: float
    end_s: float
    bins: np.ndarray

    @property
    def missed_share(self) -> float:
        return self.missed / self.requests if self.requests else 0.0


def generate(
    arrivals_s: np.ndarray,
    input_tokens: np.ndarray,
    output_tokens: np.ndarray,
    step_s: Sequence[float],
    *,
    prefill_s: float = 0.0,
    cache_tokens: float = math.inf,
    copies: int = 1,
    instances: Sequence[tuple[float, int]] = ((0.0, 1),),
    ttft_bound_s: float = math.inf,
    tpot_bound_s: float = math.inf,
    latency_bound_s: float = math.inf,
    bins: tuple[int, float] = (1, math.inf),
    skip: int = 0,
) -> Generated:
    """Continuous batching of text generation on ``instances`` x ``copies`` of a model.

    ``step_s`` is the time of a decode step with 1, 2, ... sequences at work; its length is the number of slots. ``prefill_s`` is per
    input token and stops the others of that copy. A request holds room for its prompt and its output in the copy's cache of
    ``cache_tokens`` from start to end. ``instances`` = (from when on in s, how many), ascending; a surplus drains.
    """
    steps = np.ascontiguousarray(step_s, float)
    arrivals = np.ascontiguousarray(arrivals_s, float)
    prompt, output = np.ascontiguousarray(input_tokens, float), np.ascontiguousarray(output_tokens, float)
    if steps.size == 0 or np.any(steps <= 0):
        raise BadInput("time per decode step, seconds", list(step_s), allowed="at least one number above 0")
    if not len(arrivals) == len(prompt) == len(output):
        raise BadInput("arrivals and tokens differ in number", (len(arrivals), len(prompt), len(output)), allowed="one count")
    count = len(arrivals)
    first, per_token, latency, totals = np.zeros(count), np.zeros(count), np.zeros(count), np.zeros(8)
    table = np.zeros((bins[0], 4))
    kernel("generate")(
        *(arrivals, prompt, np.maximum(output, 1.0), steps, float(prefill_s), float(cache_tokens), int(copies)),
        *(np.array([number for _, number in instances], np.int64), np.array([at for at, _ in instances], float)),
        *(skip, float(ttft_bound_s), float(tpot_bound_s), float(latency_bound_s), float(bins[1]), table, first, per_token, latency, totals),
    )
    return Generated(
        ttft_s=first[skip:],
        tpot_s=per_token[skip:],
        latency_s=latency[skip:],
        requests=int(totals[4]),
        missed=int(totals[5]),
        never_fits=int(totals[6]),
        output_tokens=float(totals[3]),
        busy_s=float(totals[2]),
        end_s=float(totals[7]),
        bins=table,
    )


@lru_cache(maxsize=None)
def warm_up(generation: bool = False) -> None:
    """Compile now rather than at the first question; a few seconds the first time on a host, then from the user's cache."""
    if generation:
        generate(np.array([0.0]), np.array([1.0]), np.array([2.0]), [1.0])
    else:
        simulate(np.array([0.0, 1.0]), [1.0])
