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
    "effective_samples",
    "median",
    "paired_ratio_interval",
    "percentile",
    "percentile_interval",
    "percentile_interval_of_runs",
    "ratio_interval",
    "ratio_of_estimates",
    "recommended_runs",
    "samples_needed",
    "settled",
    "start_up",
]

TREND_SIGNIFICANCE = 0.01
"""Chance of calling a series without a trend unsettled, before the size of the trend is looked at."""

TREND_SIZE = 0.05
"""A shift below this fraction of the median is left to the interval, however significant it is."""

MOST_RUNS = 1000
"""No more runs than this are recommended: a host that needs them is the wrong host."""

FEW_IN_THE_TAIL = 10
"""Below so many values beyond a percentile, runs that look more alike than chance allows are not believed."""

LEAST_IN_THE_TAIL = 0.5
"""Independent values beyond a percentile, fewer than which say nothing about where it lies."""

MOST_EFFECTIVE = 10.0
"""Independent values that one value may count for at most, when runs resemble each other by chance."""

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
    """The distribution-free interval of the ``q`` quantile of independent values, between order statistics.

    The number of values at or below the quantile is binomial(n, q), whatever the distribution (David
    and Nagaraja, *Order Statistics*, 7.1). Whole ranks cover more than was asked for, so ranks are
    interpolated: the ends are at the real ranks k where P(Beta(k, n + 1 - k) > q) is (1 -+ confidence) / 2
    (Hutson 1999, *Calculating nonparametric confidence intervals for quantiles using fractional order
    statistics*). ``None`` below :func:`samples_needed`. Latencies that wander are not independent:
    :func:`percentile_interval_of_runs` is for them.
    """
    ordered = np.sort(_given(values))
    if len(ordered) < samples_needed(q, confidence):
        return None
    return _between_ranks(ordered, q, len(ordered), confidence, clip=True)


def percentile_interval_of_runs(runs: Sequence[Sequence[float]], q: float, confidence: float = 0.95) -> Optional[tuple[float, float]]:
    """The interval of the ``q`` quantile of the latencies of all runs together, with *runs* as the unit.

    What is estimated is the quantile of the marginal distribution: a request at any time, in any run.
    Runs have levels of their own and neighbours in a run resemble each other, so n values say less
    than n independent ones. The share of values at or below the pooled quantile is taken per run; its
    variance between runs gives the number of independent values that would say as much (Woodruff
    1952), corrected for the few degrees of freedom of that variance by (z / t)^2 (Korn and Graubard
    1998). The interval is that of :func:`percentile_interval` at this number.

    One run: its values are taken as independent. ``None`` below :func:`samples_needed`, and where the
    runs differ so much that an end would lie outside the values seen.
    """
    arrays = [_given(run) for run in runs if len(run)]
    ordered = np.sort(np.concatenate(arrays)) if arrays else _given(())
    if len(ordered) < samples_needed(q, confidence):
        return None
    if len(arrays) == 1:
        return _between_ranks(ordered, q, len(ordered), confidence, clip=True)
    effective = effective_samples(arrays, q, confidence)
    if effective * min(q, 1 - q) < LEAST_IN_THE_TAIL:
        return None
    return _between_ranks(ordered, q, effective, confidence, clip=False)


def effective_samples(runs: Sequence[Sequence[float]], q: float, confidence: float = 0.95) -> float:
    """How many independent values would fix the ``q`` quantile as well as these runs do, few degrees of freedom included.

    Can exceed the number of values where runs resemble each other by chance: an estimate held down to
    their number would make intervals of independent values cover 97 to 99 % instead of 95 %.
    """
    arrays = [_given(run) for run in runs if len(run)]
    pooled = np.concatenate(arrays)
    if len(arrays) < 2:
        return float(len(pooled))
    level, sizes = np.quantile(pooled, q), np.array([len(array) for array in arrays])
    below = np.array([np.count_nonzero(array <= level) for array in arrays])
    residual = (below - below.sum() / sizes.sum() * sizes) / sizes.sum()  # of a ratio of sums, linearised
    variance = float((residual**2).sum()) * len(arrays) / (len(arrays) - 1)
    alike = variance * len(pooled) <= q * (1 - q)  # at least as alike as independent values would make them
    if alike and len(pooled) * min(q, 1 - q) < FEW_IN_THE_TAIL:
        return float(len(pooled))
    if variance == 0:
        return MOST_EFFECTIVE * len(pooled)
    correction = (_normal_quantile((1 + confidence) / 2) / _student_quantile((1 + confidence) / 2, len(arrays) - 1)) ** 2
    return min(MOST_EFFECTIVE * len(pooled), q * (1 - q) / variance * correction)


def start_up(values: Sequence[float]) -> int:
    """How many leading values are start-up: each slower than nine in ten of the second half.

    Fewer than three are chance (1 in 1,000 for exchangeable values), as is a median of theirs within
    ``TREND_SIZE`` of the usual one: then 0.
    """
    array = _given(values)
    second_half = array[len(array) // 2 :]
    slow, usual = percentile(second_half, 0.9), median(second_half)
    leading = next((index for index, value in enumerate(array) if value <= slow), len(array))
    return leading if leading >= 3 and median(array[:leading]) > (1 + TREND_SIZE) * usual else 0


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
    leading = start_up(array)
    if leading:
        excess = median(array[:leading]) / median(array[len(array) // 2 :]) - 1
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


def paired_ratio_interval(
    candidate: Sequence[float], baseline: Sequence[float], confidence: float = 0.95
) -> tuple[float, Optional[float], Optional[float]]:
    """candidate / baseline of values taken in pairs (round by round on one host), with an interval.

    What drifts on the host moves both values of a pair and leaves their ratio. The ratio is the
    geometric mean of the pairs' ratios and the interval log(ratio) -/+ t x standard error with pairs - 1
    degrees of freedom. Low and high are ``None`` for one pair. Raises ``ValueError`` for values that
    are not positive or not as many on both sides.
    """
    ours, theirs = _given(candidate), _given(baseline)
    if len(ours) != len(theirs) or not (ours > 0).all() or not (theirs > 0).all():
        raise ValueError("pairs need as many values on both sides, all above 0")
    logs = np.log(ours / theirs)
    ratio = float(np.exp(logs.mean()))
    if len(logs) < 2:
        return ratio, None, None
    reach = _student_quantile((1 + confidence) / 2, len(logs) - 1) * float(logs.std(ddof=1)) / math.sqrt(len(logs))
    return ratio, ratio * math.exp(-reach), ratio * math.exp(reach)


def ratio_of_estimates(candidate: tuple[float, float, float], baseline: tuple[float, float, float]) -> tuple[float, float, float]:
    """candidate / baseline of two independent estimates, each (value, low, high), with an interval.

    The recovery of variances from the limits (Zou and Donner 2008) on the log scale, which keeps the
    lopsidedness of a percentile's interval. All six must be positive; raises ``ValueError`` otherwise.
    """
    if min(*candidate, *baseline) <= 0:
        raise ValueError("estimates and their limits must be above 0")
    (ours, our_low, our_high), (theirs, their_low, their_high) = (tuple(map(math.log, estimate)) for estimate in (candidate, baseline))
    difference = ours - theirs
    low = difference - math.hypot(ours - our_low, their_high - theirs)
    high = difference + math.hypot(our_high - ours, theirs - their_low)
    return math.exp(difference), math.exp(low), math.exp(high)


def recommended_runs(
    candidate: Sequence[float],
    baseline: Sequence[float],
    *,
    difference: float = 0.10,
    margin: float = 0.05,
    confidence: float = 0.95,
    power: float = 0.9,
    paired: bool = False,
) -> Optional[int]:
    """Runs per side that find a true ``difference`` (0.10: one side 10 % faster), from the rates of pilot runs.

    Found means that the interval of the ratio lies beyond ``margin`` altogether. With s the spread of
    log rates on each side, R runs leave a standard error sqrt((s1^2 + s2^2) / R) (``paired``: the spread
    of the differences), and (t(confidence) + t(power)) of these must fit between margin and difference.
    Three pilot runs often look calmer than the host is, so s is the upper 90 % limit of what they
    allow (after Browne 1995, who takes a limit for this reason). At least 3; ``None`` where the pilot has
    less than two runs on a side, or the difference is within the margin.
    """
    room = math.log1p(difference) - math.log1p(margin)
    ours, theirs = np.log(_given(candidate)), np.log(_given(baseline))
    if min(len(ours), len(theirs)) < 2 or room <= 0:
        return None
    sides = [ours - theirs] if paired else [ours, theirs]
    variances = [float(side.var(ddof=1)) * (len(side) - 1) / _chi_square_quantile(0.1, len(side) - 1) for side in sides]
    for runs in range(3, MOST_RUNS):
        freedom = (runs - 1) * (sum(variances) ** 2 / sum(entry**2 for entry in variances) if sum(variances) else 1)
        reach = _student_quantile((1 + confidence) / 2, freedom) + _student_quantile(power, freedom)
        if reach * math.sqrt(sum(variances) / runs) <= room:
            return runs
    return MOST_RUNS


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


def _between_ranks(ordered: np.ndarray, q: float, effective: float, confidence: float, *, clip: bool) -> Optional[tuple[float, float]]:
    """Ends at the real ranks that ``effective`` independent values would give, as places in ``ordered``.

    An end beyond the outermost value is that value, and what it misses is taken off the other side's
    share (``clip``); or there is no interval.
    """
    count, miss = len(ordered), 1 - confidence
    below, above = miss / 2, miss / 2
    if clip:  # all values on one side of the quantile: q^n or (1 - q)^n, which exceeds a half share in small samples
        above, below = (max(miss / 2, q**count), max(miss / 2, (1 - q) ** count))
        below, above = min(below, miss - above), min(above, miss - below)
    places = [_rank(q, effective, chance) / (effective + 1) * (count + 1) for chance in (below, 1 - above)]
    if not clip and (places[0] < 1 or places[1] > count):
        return None
    low, high = np.interp(places, np.arange(1, count + 1), ordered)
    return float(low), float(high)


def _rank(q: float, count: float, chance: float) -> float:
    """The real rank k at which P(Beta(k, count + 1 - k) > q) is ``chance``, by bisection."""
    from scipy.special import betainc

    low, high = 0.0, count + 1.0
    for _ in range(60):
        middle = (low + high) / 2
        if 1 - betainc(middle, count + 1 - middle, q) < chance:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def _normal_quantile(q: float) -> float:
    from scipy.special import ndtri

    return float(ndtri(q))


def _chi_square_quantile(q: float, freedom: float) -> float:
    from scipy.special import chdtri

    return float(chdtri(freedom, 1 - q))


def _student_quantile(q: float, freedom: float) -> float:
    from scipy.special import stdtrit

    return float(stdtrit(freedom, q))
