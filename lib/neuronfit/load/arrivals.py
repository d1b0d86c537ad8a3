"""When requests are due: pure functions that give offsets in seconds from the start of a run, and their check.

One generator draws every gap of a run. Drawing in several processes from the same seed, or one draw for
several requests, makes traffic that looks random and is not; :func:`check` finds both.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Optional

import numpy as np

from neuronfit.errors import BadInput

__all__ = ["GapCheck", "check", "constant", "poisson", "replay"]

SAME_GAP_S = 1e-6
"""Two gaps closer than this are the same: of continuous random gaps about none are."""


def poisson(rate_per_s: float, duration_s: float, generator: np.random.Generator) -> np.ndarray:
    """Arrivals of a Poisson process with ``round(rate x duration)`` arrivals in ``duration_s``, seconds, ascending.

    Exponential gaps, scaled so that count + 1 of them fill the duration. Given its number of arrivals a Poisson
    process is exactly this (Ross, *Stochastic Processes*, 2.3), so the rate is met in every run while gaps and
    bursts stay random; unscaled, the rate of 300 arrivals would miss by 6 % from run to run.
    """
    count = _count(rate_per_s, duration_s)
    gaps = generator.exponential(1.0, size=count + 1)
    return np.cumsum(gaps)[:-1] * (duration_s / gaps.sum())


def constant(rate_per_s: float, duration_s: float) -> np.ndarray:
    """Equal gaps, the first arrival at 0."""
    return np.arange(_count(rate_per_s, duration_s)) / rate_per_s


def replay(timestamps_s: Sequence[float], duration_s: Optional[float] = None) -> np.ndarray:
    """A recorded trace at its own timestamps, from its first; cut off after ``duration_s``.

    Raises :class:`~neuronfit.errors.BadInput` when it is empty, not ascending, or not made of numbers.
    """
    times = np.asarray(timestamps_s, dtype=float)
    if times.size == 0 or not np.isfinite(times).all():
        raise BadInput("a trace to replay needs timestamps in seconds", allowed="at least one finite number", next="check the trace file")
    if (np.diff(times) < 0).any():
        place = int(np.argmax(np.diff(times) < 0)) + 1
        raise BadInput("the timestamps of the trace go back at entry", place + 1, allowed="ascending", next="sort the trace by time")
    offsets = times - times[0]
    return offsets if duration_s is None else offsets[offsets < duration_s]


@dataclass(frozen=True)
class GapCheck:
    """What the sends of a run look like. ``None`` where it cannot be told."""

    achieved_rate_per_s: Optional[float]
    ks_p: Optional[float]
    repeated: Optional[float]


def check(
    due_s: Sequence[Sequence[float]], sent_s: Sequence[Sequence[float]], rate_per_s: Optional[float], window_s: float, *, exponential: bool
) -> GapCheck:
    """Compare what was sent with what was asked, over runs of ``window_s`` each.

    Times count from the start of each run. The achieved rate is sends over the time in which they should have been
    sent, or over the time until the last one where that was later. ``ks_p`` is the p of the Kolmogorov-Smirnov test of the gaps between actual sends against the exponential
    distribution of the asked rate, which is lenient because the rate is met by construction; ``repeated`` the share of gaps in the *schedule* that equal the gap before.
    """
    pairs = [(np.asarray(due, dtype=float), np.sort(np.asarray(sent, dtype=float))) for due, sent in zip(due_s, sent_s) if len(sent) > 1]
    if not pairs:
        return GapCheck(None, None, None)
    spent = sum(max(window_s, float(sent[-1])) for _, sent in pairs)
    again = np.concatenate([np.abs(np.diff(np.diff(due))) < SAME_GAP_S for due, _ in pairs])
    gaps = np.concatenate([np.diff(sent) for _, sent in pairs])
    ks_p = None
    if exponential and rate_per_s and gaps.size > 8:
        from scipy.stats import kstest

        ks_p = float(kstest(gaps * rate_per_s, "expon").pvalue)
    return GapCheck(sum(sent.size for _, sent in pairs) / spent, ks_p, float(again.mean()) if again.size else None)


def _count(rate_per_s: float, duration_s: float) -> int:
    if not (rate_per_s > 0 and duration_s > 0):
        raise BadInput("rate and duration of a load", f"{rate_per_s:g}/s for {duration_s:g} s", allowed="both above 0")
    return max(1, round(rate_per_s * duration_s))
