"""When requests arrive: a trace as it is, or a Poisson process whose rate changes from minute to minute.

Arrivals are seconds from the start of the window, ascending, and come in pieces (arrays of at most a million),
so that a week of fifty million requests never lies in memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Optional

import numpy as np

from neuronfit.errors import BadInput

__all__ = ["MINUTE_S", "WEEK_S", "per_minute", "pieces", "poisson", "rate_by_minute"]

MINUTE_S = 60.0
WEEK_S = 7 * 24 * 3600.0
PIECE = 1_000_000


def poisson(rates_per_s: Sequence[float], step_s: float, seed: int, *, most: Optional[int] = None) -> Iterator[np.ndarray]:
    """Arrivals of a non-homogeneous Poisson process with a constant rate in each step of ``step_s`` seconds.

    A Poisson process of rate 1 is stretched by the inverse of the cumulated rate (Cinlar 1975, 4.7), which is exact and
    rejects nothing. Stops at the end of the last step or after ``most`` requests. The same seed gives the same arrivals.
    """
    rates = np.asarray(rates_per_s, float)
    if rates.size == 0 or not np.all(np.isfinite(rates)) or np.any(rates < 0):
        raise BadInput("rates per second", rates_per_s, allowed="finite numbers from 0")
    edges = np.arange(rates.size + 1) * step_s
    cumulated = np.concatenate([[0.0], np.cumsum(rates * step_s)])
    generator, reached, given = np.random.default_rng(seed), 0.0, 0
    keep = np.concatenate([[True], np.diff(cumulated) > 0])  # steps without arrivals have no inverse
    edges_end, total = edges, cumulated[-1]
    while reached < total and (most is None or given < most):
        expected = total - reached
        size = int(min(PIECE, expected + 5 * expected**0.5 + 16, most - given if most is not None else PIECE))
        unit = reached + np.cumsum(generator.standard_exponential(size))
        reached = float(unit[-1])
        unit = unit[unit <= total]
        given += len(unit)
        if len(unit):
            if keep.all():
                yield np.interp(unit, cumulated, edges_end)
            else:
                step = np.searchsorted(cumulated, unit, side="left") - 1
                yield edges[step] + (unit - cumulated[step]) / rates[step]


def pieces(values: np.ndarray, size: int = PIECE) -> Iterator[np.ndarray]:
    """An array in consecutive pieces."""
    for start in range(0, len(values), size):
        yield values[start : start + size]


def per_minute(arrivals_s: np.ndarray, window_s: float, weights: Optional[np.ndarray] = None) -> np.ndarray:
    """Rate of each minute of the window, per second; ``weights`` are results per request. (ceil(window / 60),)"""
    count = max(1, int(np.ceil(window_s / MINUTE_S)))
    totals = np.bincount(np.minimum((arrivals_s / MINUTE_S).astype(np.int64), count - 1), weights=weights, minlength=count).astype(float)
    lengths = np.full(count, MINUTE_S)
    lengths[-1] = window_s - (count - 1) * MINUTE_S or MINUTE_S
    return totals / lengths


def rate_by_minute(hourly_per_s: Sequence[float], peak_per_s: Optional[float] = None) -> np.ndarray:
    """The rate of each minute of a week from its hours (168, or 24 that repeat), per second. (10080,)

    Between the middles of two hours the rate is drawn as a line, then each hour is scaled back to its own mean and flattened so far
    that no minute is above the peak (default: the busiest hour's mean). Where the peak is above the busiest hour, the busiest minute of
    each hour is above the hour's busiest by the same factor, and its other minutes below: an assumption, as a profile does not say how
    long a peak lasts.
    """
    hours = np.asarray(hourly_per_s, float)
    if hours.size not in (24, 168):
        raise BadInput("hourly rates", hours.size, allowed="24 or 168 of them")
    week = np.tile(hours, 168 // hours.size)
    middles = np.arange(-1, 169) * 60 + 30.0
    line = np.interp(np.arange(168 * 60) + 0.5, middles, np.concatenate([week[-1:], week, week[:1]]))
    minutes = line.reshape(168, 60)
    means = minutes.mean(axis=1)
    minutes = minutes * np.divide(week, means, out=np.zeros(168), where=means > 0)[:, None]
    most = max(float(week.max()), peak_per_s or 0.0)
    above = minutes.max(axis=1) - week
    flat = np.minimum(1.0, np.divide(np.maximum(most - week, 0), above, out=np.ones(168), where=above > 1e-12))
    minutes = week[:, None] + (minutes - week[:, None]) * flat[:, None]
    factor = most / minutes.max() if minutes.max() > 0 else 1.0
    if factor > 1.005:
        rows, place = np.arange(168), minutes.argmax(axis=1)
        tops = minutes[rows, place]
        raised = np.minimum(tops * factor, week * 60)
        others = np.maximum(minutes.sum(axis=1) - tops, 1e-300)
        minutes = minutes * ((week * 60 - raised) / others)[:, None]
        minutes[rows, place] = raised
    return minutes.ravel()
