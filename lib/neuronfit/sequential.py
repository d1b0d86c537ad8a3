"""Looking at a running test as often as one likes, without fooling oneself: pure functions.

Two methods, each for what it does best:

* **Quantiles** (latency p50, p95, p99; paired or split traffic) are compared group-sequentially. The
  test's z value, looked at over and over, behaves like Brownian motion over the square root of
  the share of the planned sample that has been seen; an alpha-spending function (Lan and DeMets
  1983, of O'Brien-Fleming type) says how far it must go at each look for the chance of a false alarm
  over *all* looks to stay at alpha. The boundary is found by integrating the density of the path
  that has not crossed yet (Armitage, McPherson and Rowe 1969).
* **Shares** (errors, answers that agree) get an anytime-valid confidence sequence: the beta-binomial
  mixture martingale and Ville's inequality (Robbins 1970; Howard, Ramdas, McAuliffe and Sekhon 2021).
  It holds at every sample size at once, for any number of looks and any stopping rule, and needs
  no planned sample, so guardrails may use it from the first request on.

Alpha is one-sided throughout: the chance of calling worse what is not, or as good what is not.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Optional

import numpy as np

__all__ = [
    "Boundary",
    "LEAST_TAIL",
    "QuantileRatio",
    "requests_needed",
    "share_bounds",
    "spent",
    "spread_of_log_quantile",
]

LEAST_TAIL = 10
"""Requests that must lie beyond a quantile, on each side, before its ratio is looked at: p99 from 1,000 requests on."""

ALLOWANCE = 1.15
"""More requests than the formula says: the spread is an estimate, and a count on a coarse scale errs to the side of no alarm."""

_GRID = 400
"""Points of the numerical integration between two boundaries; the third decimal of the boundary does not move from 200 on."""

_FARTHEST = 2.5
"""Log of the largest ratio that an interval is followed to."""

_DEEPEST = -8.0
"""Lower end of the integration in standard deviations: a path below it does not come back."""


# -- how much of alpha may be spent, and the boundary -----------------------------------------


def spent(fraction: float, alpha: float) -> float:
    """Chance of a false alarm that may have been used up when ``fraction`` (0..1) of the sample is in.

    O'Brien-Fleming type: 2 - 2 Phi(z(1 - alpha/2) / sqrt(fraction)) (Lan and DeMets 1983, equation 4).
    Next to nothing early, all of ``alpha`` at the end, so that the end costs hardly more than a
    single look.
    """
    from scipy.stats import norm

    if not (0 < alpha < 1 and fraction >= 0):
        raise ValueError(f"alpha is a chance and fraction a share, not {alpha:g} and {fraction:g}")
    if fraction == 0:
        return 0.0
    return float(2 * norm.sf(norm.ppf(1 - alpha / 2) / math.sqrt(min(fraction, 1.0))))


class Boundary:
    """The boundary for a z value, look by look; looks need not be planned or evenly spaced.

    ``at(fraction)`` returns how large z = estimate / standard error must be when ``fraction`` of the
    planned sample has been seen. It must be called once per look, with growing fractions. Past 1 the
    sample is larger than planned and nothing is left to spend: the boundary of the last look holds.
    """

    def __init__(self, alpha: float):
        self.alpha = alpha
        self.looks: list[tuple[float, float]] = []
        """(fraction, boundary) of the looks so far"""
        self._seen = 0.0
        self._points: Optional[np.ndarray] = None
        self._density: Optional[np.ndarray] = None

    def at(self, fraction: float) -> float:
        """The boundary of the next look. Raises ``ValueError`` when the fraction does not grow."""
        from scipy.optimize import brentq
        from scipy.special import ndtr, ndtri

        now = min(fraction, 1.0)
        if now <= self._seen:
            if self.looks and now == self._seen == 1.0:
                return self.looks[-1][1]
            raise ValueError(f"a look at {fraction:g} of the sample after one at {self._seen:g}; fractions must grow")
        step = math.sqrt(now - self._seen)
        due = spent(now, self.alpha) - spent(self._seen, self.alpha)

        def crossing(edge: float) -> float:
            """Chance of lying above ``edge`` (in units of sqrt(fraction) x z) now, having crossed nowhere before."""
            if self._points is None:
                return float(ndtr(-edge / step))
            return float(np.sum(self._density * ndtr((self._points - edge) / step)))

        highest = 12.0 * math.sqrt(now)
        if due <= 1e-14 or crossing(highest) >= due:
            edge = highest
        elif self._points is None:
            edge = -float(ndtri(due)) * step
        else:
            edge = float(brentq(lambda value: crossing(value) - due, -highest, highest, xtol=1e-9))
        self._advance(edge, now, step)
        bound = edge / math.sqrt(now)
        self.looks.append((now, bound))
        return bound

    def _advance(self, edge: float, now: float, step: float) -> None:
        """Density of the path below ``edge``, as weights on the midpoints of a grid."""
        lowest = _DEEPEST * math.sqrt(now)
        ends = np.linspace(lowest, edge, _GRID + 1)
        points, width = (ends[1:] + ends[:-1]) / 2, ends[1] - ends[0]
        if self._points is None:
            density = np.exp(-((points / step) ** 2) / 2) / (step * math.sqrt(2 * math.pi))
        else:
            gaps = (points[:, None] - self._points[None, :]) / step
            density = np.exp(-(gaps**2) / 2) @ self._density / (step * math.sqrt(2 * math.pi))
        self._points, self._density, self._seen = points, density * width, now


# -- quantiles --------------------------------------------------------------------------------


class QuantileRatio:
    """Candidate / baseline of one quantile, with a test that needs no density and no normal latencies.

    To ask whether the ratio lies above ``r``, the candidate's values are divided by ``r`` and both sides
    pooled; if the ratio is ``r``, values beyond the pooled ``q`` quantile fall on either side by chance.

    * Split traffic: the number on the candidate's side is hypergeometric (Mood's 1950 test at another
      quantile than the median).
    * Paired traffic (``paired``; entry i of both answers the same request): what makes a request slow on
      both sides cancels. Of the requests beyond it on one side only, half are the candidate's
      (McNemar 1947).

    The tail probability of that count, as a z value, is divided by the square root of :func:`_clumping`, since
    requests that are slow together count for fewer than they are. Values are positive numbers in
    the order taken; raises ``ValueError`` for others, and for pairs of unequal length.
    """

    def __init__(self, candidate: Sequence[float], baseline: Sequence[float], q: float, *, paired: bool = False):
        self.candidate, self.baseline = (np.asarray(side, dtype=float) for side in (candidate, baseline))
        self.q, self.paired = q, paired
        if paired and len(self.candidate) != len(self.baseline):
            raise ValueError(f"paired series have one length, not {len(self.candidate)} and {len(self.baseline)}")
        if not ((self.candidate > 0).all() and (self.baseline > 0).all()):
            raise ValueError("latencies are above 0")

    @property
    def enough(self) -> bool:
        """At least ``LEAST_TAIL`` requests on each side of the quantile, in both series."""
        return min(len(self.candidate), len(self.baseline)) * min(self.q, 1 - self.q) >= LEAST_TAIL

    @property
    def estimate(self) -> float:
        """Ratio of the two sample quantiles."""
        return float(np.quantile(self.candidate, self.q) / np.quantile(self.baseline, self.q))

    def z_above(self, ratio: float) -> float:
        """How far the true ratio seems to lie above ``ratio``, in standard errors; negative when below."""
        from scipy.stats import binom, hypergeom

        scaled = self.candidate / ratio
        limit = float(np.quantile(np.concatenate([scaled, self.baseline]), self.q))
        mine, theirs = scaled > limit, self.baseline > limit
        if self.paired:
            count, law, terms = int((mine & ~theirs).sum()), binom, (int((mine ^ theirs).sum()), 0.5)
            clumping = _clumping(mine.astype(float) - theirs)
        else:
            count, law = int(mine.sum()), hypergeom
            terms = (len(mine) + len(theirs), count + int(theirs.sum()), len(mine))
            clumping = max(_clumping(mine), _clumping(theirs))
        return _z_of(float(law.sf(count - 1, *terms)), float(law.cdf(count, *terms))) / math.sqrt(clumping)

    def interval(self, bound: float) -> tuple[float, float]:
        """The ratios that lie within ``bound`` standard errors (a repeated confidence interval; Jennison and Turnbull 1989).

        With the boundary of this look it holds over all looks, each end with chance 1 - alpha. An end that
        lies beyond a factor of ten or so is not looked for: 0 or infinite.
        """
        middle, ends = self.estimate, []
        for way in (-1, 1):
            inner, outer = 0.0, 0.02
            while way * -self.z_above(middle * math.exp(way * outer)) < bound and outer < _FARTHEST:
                inner, outer = outer, 2 * outer
            if outer >= _FARTHEST:
                ends.append(0.0 if way < 0 else math.inf)
                continue
            for _ in range(18):
                half = (inner + outer) / 2
                inner, outer = (half, outer) if way * -self.z_above(middle * math.exp(way * half)) < bound else (inner, half)
            ends.append(middle * math.exp(way * outer))
        return ends[0], ends[1]


def _z_of(at_least: float, at_most: float) -> float:
    """z value of a count with chance ``at_least`` of as many or more and ``at_most`` of as many or fewer.

    The larger of the two possible p values is taken on either side, so a count on a coarse scale
    errs to the side of no alarm.
    """
    from scipy.special import ndtri

    if at_least < 0.5:
        return -float(ndtri(max(at_least, 1e-300)))
    return float(ndtri(max(at_most, 1e-300))) if at_most < 0.5 else 0.0


def spread_of_log_quantile(values: Sequence[float], q: float, reach: float = 2.0) -> float:
    """sqrt(count) x standard error of the log of the ``q`` quantile: what a sample size is planned from.

    From the order statistics ``reach`` standard errors of the rank away (McKean and Schrader 1984).
    """
    count = len(values)
    ordered = np.log(np.sort(np.asarray(values, dtype=float)))
    away = reach * math.sqrt(count * q * (1 - q))
    low, high = max(count * q - away, 0.0), min(count * q + away, count - 1.0)
    lower, upper = np.interp([low, high], np.arange(count), ordered)
    return float(upper - lower) / (high - low) * count * math.sqrt(q * (1 - q))


def _clumping(series: np.ndarray) -> float:
    """Variance of batch means over what independent values would give, at least 1 (batch means; Law and Kelton 2000, 9.5.3).

    With 20 to 60 batches; below 400 values, and where the excess may be chance (p above 0.01), it is 1.
    """
    values = np.asarray(series, dtype=float)
    batches = min(int(math.sqrt(len(values))), 60)
    if batches < 20 or values.var() == 0:
        return 1.0
    size = len(values) // batches
    means = values[: batches * size].reshape(batches, size).mean(axis=1)
    observed = float(means.var(ddof=1) * size / values.var())
    from scipy.special import chdtri

    by_chance = float(chdtri(batches - 1, 0.01) / (batches - 1))
    return observed if observed > by_chance else 1.0


def requests_needed(
    spread: float, *, margin: float, detect: float, alpha: float = 0.05, power: float = 0.8, looks: int = 100, paired_correlation: float = 0.0
) -> int:
    """Requests *per side* at which a true ratio of ``1 + detect`` is told from ``1 + margin`` with ``power``.

    ``spread`` is that of :func:`spread_of_log_quantile` (for lognormal latencies with log-sd s it is
    s sqrt(q (1 - q)) / phi(z_q)). Fixed sample: 2 (1 - correlation) (spread (z_alpha + z_power) /
    log((1 + detect) / (1 + margin)))^2; z_alpha is the last boundary of ``looks`` looks, which is what looking
    costs, and the result is taken ``ALLOWANCE`` times.
    Raises ``ValueError`` when ``detect`` is not above ``margin``.
    """
    from scipy.stats import norm

    if not detect > margin:
        raise ValueError(f"a regression of {detect:g} cannot be told from a margin of {margin:g}; detect must be larger")
    boundary = Boundary(alpha)
    last = [boundary.at((look + 1) / looks) for look in range(looks)][-1]
    distance = math.log((1 + detect) / (1 + margin))
    sides = 2 * (1 - paired_correlation)
    return math.ceil(ALLOWANCE * sides * (spread * (last + norm.ppf(power)) / distance) ** 2)


# -- shares -----------------------------------------------------------------------------------


def share_bounds(happened: int, of: int, alpha: float, expected: float = 0.5, weight: float = 2.0) -> tuple[float, float]:
    """Bounds of a share that hold at every sample size at once, each with chance 1 - ``alpha``.

    The likelihood of the data averaged over a beta prior (mean ``expected``, ``weight`` observations'
    worth) over their likelihood under the share p is a martingale that starts at 1; by Ville's
    inequality it exceeds 1/alpha ever with chance at most alpha. The bounds are the p at which it
    does, on either side of what was seen. A prior near the expected share makes them narrow there
    and is valid whatever the truth. Raises ``ValueError`` when ``happened`` is not within 0..``of``.
    """
    from scipy.optimize import brentq
    from scipy.special import betaln, xlog1py, xlogy

    if not 0 <= happened <= of:
        raise ValueError(f"{happened} of {of} is no share")
    if of == 0:
        return 0.0, 1.0
    first, second = weight * expected, weight * (1 - expected)
    mixed = float(betaln(first + happened, second + of - happened) - betaln(first, second))

    def surplus(p: float) -> float:
        return mixed - float(xlogy(happened, p) + xlog1py(of - happened, -p)) + math.log(alpha)

    seen = happened / of
    tiny = 1e-12
    low = 0.0 if happened == 0 or surplus(tiny) < 0 else float(brentq(surplus, tiny, seen)) if surplus(seen) < 0 else seen
    high = 1.0 if happened == of or surplus(1 - tiny) < 0 else float(brentq(surplus, seen, 1 - tiny)) if surplus(seen) < 0 else seen
    return low, high
