"""Percentiles, intervals and sample-size rules: pure functions on sequences of numbers.

Nothing here assumes a normal distribution of latencies, averages percentiles, or drops a value.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Optional

import numpy as np

__all__ = [
    "batches_in_flight",
    "coefficient_of_variation",
    "median",
    "percentile",
    "percentile_interval",
    "ratio_interval",
    "samples_needed",
    "settled",
]

TREND_SIGNIFICANCE = 0.01
"""Chance of calling a series without a trend unsettled, before the size of the trend is looked at."""

TREND_SIZE = 0.05
"""A shift below this fraction of the median is left to the interval, however significant it is."""

SETTLED_NEEDS = 6
"""Below this many values neither a trend nor a start-up transient can be told from chance."""


# -- one series -------------------------------------------------------------------------------


def median(values: Sequence[float]) -> float:
    """The middle value (mean of the middle two for an even count). Raises ``ValueError`` when empty."""
    return float(np.median(_given(values)))


def percentile(values: Sequence[float], q: float) -> float:
    """The ``q`` quantile (0..1), interpolated linearly between order statistics.

    Definition 7 of Hyndman and Fan (1996), numpy's default. Raises ``ValueError`` when empty or
    when ``q`` is not a fraction (99 is not 0.99).
    """
    if not 0 <= q <= 1:
        raise ValueError(f"q is a fraction between 0 and 1, not {q:g}")
    return float(np.quantile(_given(values), q))


def coefficient_of_variation(values: Sequence[float]) -> float:
    """Sample standard deviation over mean, a fraction. Raises ``ValueError`` below two values."""
    array = _given(values)
    if len(array) < 2:
        raise ValueError("spread needs at least two values")
    return float(array.std(ddof=1) / array.mean())


def samples_needed(q: float, confidence: float = 0.95) -> int:
    """The smallest sample in which the ``q`` quantile has a two-sided distribution-free interval.

    The widest such interval is minimum to maximum. It misses the quantile when all ``n`` values lie
    on one side, so n must satisfy ``1 - q^n - (1 - q)^n >= confidence`` (David and Nagaraja, *Order
    Statistics*, 7.1). 6 values for p50 and 299 for p99 at 95 %.
    """
    _check_fractions(q, confidence)
    count = max(2, math.floor(math.log(1 - confidence) / math.log(max(q, 1 - q))))
    while 1 - q**count - (1 - q) ** count < confidence:
        count += 1
    return count


def percentile_interval(values: Sequence[float], q: float, confidence: float = 0.95) -> Optional[tuple[float, float]]:
    """Two order statistics that hold the ``q`` quantile between them with at least ``confidence``.

    The number of values at or below the quantile is binomial(n, q), whatever the distribution, so
    P(x[l] <= quantile <= x[u]) = P(l <= B <= u - 1) with ranks from 1 (David and Nagaraja, 7.1).
    The shortest range of ranks that suffices is taken. ``None`` below :func:`samples_needed`.
    Values are taken as independent; latencies that wander give an interval that is too narrow,
    which is what runs and :func:`ratio_interval` are for.
    """
    ordered = np.sort(_given(values))
    count = len(ordered)
    if count < samples_needed(q, confidence):
        return None
    log_odds = math.log(q) - math.log1p(-q)

    def log_mass(successes: int) -> float:
        choose = math.lgamma(count + 1) - math.lgamma(successes + 1) - math.lgamma(count - successes + 1)
        return choose + successes * log_odds + count * math.log1p(-q)

    lowest = highest = min(max(int((count + 1) * q), 1), count - 1)
    mass = below = above = math.exp(log_mass(lowest))
    odds = math.exp(log_odds)
    below *= lowest / (count - lowest + 1) / odds
    above *= (count - highest) / (highest + 1) * odds
    while mass < confidence and (lowest > 1 or highest < count - 1):
        if lowest > 1 and (below >= above or highest == count - 1):
            lowest -= 1
            mass += below
            below *= lowest / (count - lowest + 1) / odds
        else:
            highest += 1
            mass += above
            above *= (count - highest) / (highest + 1) * odds
    return float(ordered[lowest - 1]), float(ordered[highest])


def settled(values: Sequence[float]) -> tuple[bool, str]:
    """Whether a series of latencies, in the order taken, has come to rest; and why, in one sentence.

    Two questions, each needing significance *and* size, because with thousands of values any drift
    is significant and with ten any two differ:

    * A trend: the Mann-Kendall test (Mann 1945, Kendall 1975; ties corrected) at
      ``TREND_SIGNIFICANCE``, and the medians of the first and last third more than ``TREND_SIZE``
      apart. Long series are first reduced to at most 200 medians of neighbours, which also takes
      out most of their autocorrelation.
    * A start-up transient: at least three leading values, each slower than nine in ten of the
      second half (a chance of 1 in 1,000 for exchangeable values), and their median more than
      ``TREND_SIZE`` above it.

    Below ``SETTLED_NEEDS`` values the answer is no, since it cannot be judged.
    """
    array = _given(values)
    if len(array) < SETTLED_NEEDS:
        return False, f"{len(array)} values are too few to tell whether latency has settled; {SETTLED_NEEDS} are needed"
    third = max(2, len(array) // 3)
    first, last = median(array[:third]), median(array[-third:])
    shift = last / first - 1 if first > 0 else 0.0
    chance = _trend_by_chance(_medians_of_neighbours(array, 200))
    if chance < TREND_SIGNIFICANCE and abs(shift) > TREND_SIZE:
        way = "rises" if shift > 0 else "falls"
        return False, f"latency still {way}: the last third is {shift:+.1%} from the first (Mann-Kendall p = {chance:.2g})"
    second_half = array[len(array) // 2 :]
    slow, usual = percentile(second_half, 0.9), median(second_half)
    leading = next((index for index, value in enumerate(array) if value <= slow), len(array))
    if leading >= 3 and median(array[:leading]) > (1 + TREND_SIZE) * usual:
        excess = median(array[:leading]) / usual - 1
        return False, f"the first {leading} calls are start-up: {excess:+.1%} from the median of the second half"
    return True, f"settled: the last third is {shift:+.1%} from the first over {len(array)} values (Mann-Kendall p = {chance:.2g})"


# -- two sides --------------------------------------------------------------------------------


def ratio_interval(
    candidate_runs: Sequence[Sequence[float]],
    baseline_runs: Sequence[Sequence[float]],
    statistic: Callable[[Sequence[float]], float] = median,
    confidence: float = 0.95,
    seed: int = 0,
    draws: int = 2000,
) -> tuple[float, Optional[float], Optional[float]]:
    """``statistic(candidate) / statistic(baseline)`` over the pooled requests, with an interval.

    What differs between two machines differs from run to run, so *runs* are what is drawn: each
    side's runs are resampled with replacement and the statistic is taken of the pooled requests of
    the drawn runs (cluster bootstrap; Davison and Hinkley 1997, 3.8). A side with one run has only
    its requests to draw from; these are drawn in circular blocks of ceil(n^(1/3)) neighbours
    (Politis and Romano 1992), since neighbouring requests are not independent.

    Three runs are few: percentiles of their bootstrap cover about 80 % where 95 % is asked. The
    interval is therefore log(ratio) -/+ t x standard error, where the bootstrap variance of each
    side is corrected by runs / (runs - 1) and t has the Welch-Satterthwaite degrees of freedom.

    Returns (ratio, low, high); low and high are ``None`` when a side is a single value, which says
    nothing about spread. One run per side gives an interval that cannot see run-to-run variation.
    Raises ``ValueError`` when a side is empty or its statistic is not positive.
    """
    generator = np.random.default_rng(seed)
    ratio, variances = 1.0, []
    for runs, power in ((candidate_runs, 1), (baseline_runs, -1)):
        arrays = [_given(run) for run in runs if len(run)]
        value = float(statistic(np.concatenate(arrays))) if arrays else math.nan
        if not value > 0:
            raise ValueError(f"a ratio needs a positive statistic on both sides, not {value:g}")
        ratio *= value**power
        variances.append(_variance_of_log(arrays, statistic, generator, draws))
    if any(entry is None for entry in variances):
        return ratio, None, None
    total = sum(variance for variance, _ in variances)
    if total == 0:
        return ratio, ratio, ratio
    freedom = total**2 / sum(variance**2 / degrees for variance, degrees in variances)
    reach = _student_quantile((1 + confidence) / 2, freedom) * math.sqrt(total)
    return ratio, ratio * math.exp(-reach), ratio * math.exp(reach)


def batches_in_flight(throughput_per_s: float, mean_latency_s: float, batch_size: float) -> float:
    """Little's law (1961): results/s x mean latency in s / results per batch = batches in the system.

    1 for a closed loop that waits for each call; a table whose value is far from the concurrency it
    states has an error in one of its columns.
    """
    return throughput_per_s * mean_latency_s / batch_size


# -- inside -----------------------------------------------------------------------------------


def _given(values: Sequence[float]) -> np.ndarray:
    array = np.asarray(values, dtype=float)
    if array.size == 0:
        raise ValueError("no values given")
    return array


def _check_fractions(q: float, confidence: float) -> None:
    if not (0 < q < 1 and 0 < confidence < 1):
        raise ValueError(f"q and confidence are fractions between 0 and 1, not {q:g} and {confidence:g}")


def _medians_of_neighbours(array: np.ndarray, most: int) -> np.ndarray:
    """``array`` cut into at most ``most`` equal stretches, the median of each."""
    if len(array) <= most:
        return array
    return np.array([np.median(part) for part in np.array_split(array, most)])


def _trend_by_chance(array: np.ndarray) -> float:
    """Two-sided p of the Mann-Kendall test (normal approximation, continuity and ties corrected)."""
    count = len(array)
    score = sum(int(np.sign(array[index + 1 :] - array[index]).sum()) for index in range(count - 1))
    ties = sum(size * (size - 1) * (2 * size + 5) for size in Counter(array.tolist()).values())
    variance = (count * (count - 1) * (2 * count + 5) - ties) / 18
    if variance <= 0:
        return 1.0
    return math.erfc(max(0, abs(score) - 1) / math.sqrt(2 * variance))


def _variance_of_log(
    arrays: list[np.ndarray], statistic: Callable[[Sequence[float]], float], generator: np.random.Generator, draws: int
) -> Optional[tuple[float, float]]:
    """Variance of log(statistic) of one side and its degrees of freedom, by bootstrap."""
    count = len(arrays)
    if count > 1:
        drawn = Counter(tuple(sorted(draw)) for draw in generator.integers(count, size=(draws, count)).tolist())
        logs = [math.log(statistic(np.concatenate([arrays[index] for index in draw]))) for draw in drawn]
        weights = list(drawn.values())
        mean = float(np.average(logs, weights=weights))
        variance = float(np.average((np.array(logs) - mean) ** 2, weights=weights))
        return variance * count / (count - 1), count - 1
    array = arrays[0]
    size = len(array)
    if size < 2:
        return None
    length = math.ceil(size ** (1 / 3))
    blocks = math.ceil(size / length)
    logs = []
    for _ in range(draws):
        starts = generator.integers(size, size=(blocks, 1))
        logs.append(math.log(statistic(array[(starts + np.arange(length)) % size].ravel()[:size])))
    return float(np.var(logs)), blocks - 1 or 1


def _student_quantile(q: float, freedom: float) -> float:
    from scipy.special import stdtrit

    return float(stdtrit(freedom, q))
