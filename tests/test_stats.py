"""Percentiles and intervals against scipy, hand values and simulated coverage."""

import math

import numpy as np
import pytest
from neuronfit import stats
from scipy import optimize, signal
from scipy import stats as scipy_stats


@pytest.fixture
def draw():
    return np.random.default_rng(20261130)


# -- one series -------------------------------------------------------------------------------


def test_median_and_percentile_by_hand():
    assert stats.median([3, 1, 2]) == 2
    assert stats.median([4, 1, 2, 3]) == 2.5
    assert stats.percentile([10, 20, 30, 40, 50], 0.9) == pytest.approx(46)  # position 3.6
    assert stats.percentile([1, 2], 0) == 1 and stats.percentile([1, 2], 1) == 2


@pytest.mark.parametrize("q", [99, -0.1])
def test_a_percentile_is_a_fraction(q):
    with pytest.raises(ValueError, match="fraction"):
        stats.percentile([1, 2, 3], q)


@pytest.mark.parametrize("function", [stats.median, stats.settled, lambda values: stats.percentile_interval(values, 0.5)])
def test_nothing_is_not_a_number(function):
    with pytest.raises(ValueError, match="no values"):
        function([])


def test_coefficient_of_variation_agrees_with_scipy(draw):
    values = draw.lognormal(size=50)
    assert stats.coefficient_of_variation(values) == pytest.approx(scipy_stats.variation(values, ddof=1))
    with pytest.raises(ValueError):
        stats.coefficient_of_variation([1.0])


@pytest.mark.parametrize(
    ("q", "confidence", "needed"), [(0.5, 0.95, 6), (0.9, 0.95, 29), (0.95, 0.95, 59), (0.99, 0.95, 299), (0.01, 0.95, 299), (0.5, 0.99, 8)]
)
def test_samples_needed(q, confidence, needed):
    assert stats.samples_needed(q, confidence) == needed
    assert 1 - q**needed - (1 - q) ** needed >= confidence
    assert 1 - q ** (needed - 1) - (1 - q) ** (needed - 1) < confidence


@pytest.mark.parametrize("q", [0.5, 0.9, 0.99])
def test_an_interval_exists_exactly_from_the_sample_size_that_is_stated(q):
    needed = stats.samples_needed(q)
    assert stats.percentile_interval(range(needed - 1), q) is None
    assert stats.percentile_interval(range(needed), q) is not None


@pytest.mark.parametrize(("q", "count"), [(0.5, 20), (0.5, 51), (0.9, 200), (0.99, 1000), (0.99, 5000), (0.05, 200)])
def test_the_ends_lie_at_the_real_ranks_that_scipy_computes(q, count):
    """Of 1, 2, 3, ... the ends are the ranks themselves: P(Beta(k, n + 1 - k) > q) is 2.5 % and 97.5 %."""
    low, high = stats.percentile_interval(np.arange(1, count + 1), q)
    assert scipy_stats.beta.sf(q, low, count + 1 - low) == pytest.approx(0.025, abs=1e-6)
    assert scipy_stats.beta.sf(q, high, count + 1 - high) == pytest.approx(0.975, abs=1e-6)
    whole = scipy_stats.binom(count, q)
    assert whole.cdf(np.ceil(high) - 1) - whole.cdf(np.floor(low) - 1) >= 0.95, "the whole ranks around them hold it"


@pytest.mark.parametrize(("q", "count"), [(0.99, 299), (0.99, 320), (0.01, 299)])
def test_in_the_smallest_samples_an_end_is_the_outermost_value(q, count):
    """What lies beyond the largest of n values is q^n; the other end gets what is left of the 5 %."""
    low, high = stats.percentile_interval(np.arange(1, count + 1), q)
    outer = max(q, 1 - q) ** count
    if q > 0.5:
        assert high == count and scipy_stats.beta.sf(q, low, count + 1 - low) == pytest.approx(0.05 - outer, rel=1e-3)
    else:
        assert low == 1 and scipy_stats.beta.cdf(q, high, count + 1 - high) == pytest.approx(0.05 - outer, rel=1e-3)


# -- coverage: the interval against the truth it is about -------------------------------------


SIGMA, RUN, AUTO = 0.1, 0.02, 0.3
"""Spread of log latency within a run, of the levels of runs, and correlation of neighbours."""


def lognormal(draw, runs, calls):
    return [np.exp(0.2 * draw.standard_normal(calls)) for _ in range(runs)]


def bimodal(draw, runs, calls):
    """One call in ten meets a slow path, 1.5 times as long."""
    return [np.where(draw.random(calls) < 0.1, 1.5, 1.0) * np.exp(0.05 * draw.standard_normal(calls)) for _ in range(runs)]


def drifting(draw, runs, calls):
    """Each run has a level of its own, and within a run each call remembers the one before."""
    made = []
    for _ in range(runs):
        steps = draw.standard_normal(calls) * np.sqrt(1 - AUTO**2)
        steps[0] /= np.sqrt(1 - AUTO**2)
        made.append(np.exp(RUN * draw.standard_normal() + SIGMA * signal.lfilter([1.0], [1.0, -AUTO], steps)))
    return made


def true_quantile(kind, q):
    if kind is lognormal:
        return float(np.exp(0.2 * scipy_stats.norm.ppf(q)))
    if kind is drifting:  # of the marginal distribution: a call at any time in any run
        return float(np.exp(np.hypot(SIGMA, RUN) * scipy_stats.norm.ppf(q)))
    share = lambda x: 0.9 * scipy_stats.norm.cdf(np.log(x) / 0.05) + 0.1 * scipy_stats.norm.cdf(np.log(x / 1.5) / 0.05)  # noqa: E731
    return float(optimize.brentq(lambda x: share(x) - q, 0.5, 3))


@pytest.mark.parametrize("q", [0.5, 0.99])
@pytest.mark.parametrize(
    ("kind", "runs", "calls"),
    [
        (lognormal, 1, 1000),
        (lognormal, 3, 500),
        (lognormal, 12, 100),
        (bimodal, 1, 1000),
        (bimodal, 12, 150),
        (drifting, 3, 500),
        (drifting, 12, 200),
    ],
)
def test_the_interval_covers_the_truth_in_93_to_97_of_100(draw, kind, runs, calls, q):
    truth, hits = true_quantile(kind, q), 0
    for _ in range(1000):
        low, high = stats.percentile_interval_of_runs(kind(draw, runs, calls), q) or (0.0, np.inf)
        hits += low <= truth <= high
    assert 930 <= hits <= 970


def test_taking_drifting_calls_as_independent_would_not_cover(draw):
    """What the runs are for: at 12 runs of 200 calls the interval of independent values holds the median half of the time."""
    truth, hits = true_quantile(drifting, 0.5), 0
    for _ in range(300):
        low, high = stats.percentile_interval(np.concatenate(drifting(draw, 12, 200)), 0.5)
        hits += low <= truth <= high
    assert hits < 210


def test_runs_that_are_too_few_or_too_unlike_have_no_interval():
    assert stats.percentile_interval_of_runs([[1.0, 2.0]], 0.5) is None
    apart = [[1.0 + index / 1000 for index in range(200)], [2.0 + index / 1000 for index in range(200)]]
    assert stats.percentile_interval_of_runs(apart, 0.5) is None, "two runs, one twice as slow: the median lies anywhere"
    assert stats.effective_samples(apart, 0.5) < 1
    one = [1.0 + index / 1000 for index in range(400)]
    assert stats.percentile_interval_of_runs([one], 0.5) == stats.percentile_interval(one, 0.5)


def test_effective_samples_by_hand():
    """Four runs of 10 calls; 4, 5, 5 and 6 of them are not above the median: variance of the share by the formula."""
    below = [4, 5, 5, 6]
    runs = [[1.0] * count + [3.0] * (10 - count) for count in below]
    runs[0][0] = 2.0  # so that the pooled median is between
    median = stats.percentile([value for run in runs for value in run], 0.5)
    shares = np.array([sum(value <= median for value in run) for run in runs])
    variance = ((shares / 40 - shares.sum() / 40 * 10 / 40) ** 2).sum() * 4 / 3
    few = (scipy_stats.norm.ppf(0.975) / scipy_stats.t.ppf(0.975, 3)) ** 2
    assert stats.effective_samples(runs, 0.5) == pytest.approx(min(400, 0.25 / variance * few))


def test_identical_targets_at_unequal_sizes_are_called_different_in_at_most_five_of_a_hundred(draw):
    """3 runs against 12, same distribution with drift: neither verdict `faster` nor `slower`, nor does the interval exclude 1 often."""
    called = excluded = 0
    for _ in range(1000):
        sides = [[1 / float(np.mean(run)) for run in drifting(draw, runs, calls)] for runs, calls in ((3, 40), (12, 100))]
        ratio, low, high = stats.ratio_interval([[rate] for rate in sides[0]], [[rate] for rate in sides[1]], draws=200)
        excluded += not low <= 1 <= high
        called += low > 1.05 or high < 1 / 1.05
    assert called <= 50 and excluded <= 60


@pytest.mark.parametrize("paired", [False, True])
@pytest.mark.parametrize("pilot", [3, 8])
def test_a_difference_of_ten_percent_is_found_at_the_size_that_is_recommended(draw, pilot, paired):
    """Pilot runs, the recommendation, then that many runs of a target that really is 10 % faster: found in 90 of 100."""
    found, sizes = 0, []

    def rates(middle, runs, host):
        return middle * np.exp(0.02 * draw.standard_normal(runs) + host)

    def host(runs):
        """What both sides of a turn share."""
        return 0.05 * draw.standard_normal(runs) if paired else np.zeros(runs)

    for _ in range(300):
        level = host(pilot)
        runs = stats.recommended_runs(rates(1.1, pilot, level), rates(1.0, pilot, level), paired=paired)
        sizes.append(runs)
        level = host(runs)
        ours, theirs = rates(1.1, runs, level), rates(1.0, runs, level)
        if paired:
            _, low, _ = stats.paired_ratio_interval(ours, theirs)
        else:
            _, low, _ = stats.ratio_interval([[rate] for rate in ours], [[rate] for rate in theirs], draws=200)
        found += low > 1.05
    assert found >= 270
    assert np.median(sizes) <= (60 if pilot == 3 else 20), "and not by asking for the moon"


def test_the_recommendation_by_hand():
    """Spread 1 % on both sides from very many pilot runs: sqrt(2 x 0.0001 / R) x (t + t) <= log(1.1 / 1.05) at R = 3 already not, at 4 so."""
    calm = np.exp(0.01 * scipy_stats.norm.ppf((np.arange(1000) + 0.5) / 1000))
    spread = np.log(calm).std(ddof=1)
    limit = spread * np.sqrt(999 / scipy_stats.chi2.ppf(0.1, 999))
    wanted = next(
        runs
        for runs in range(3, 99)
        if (scipy_stats.t.ppf(0.975, 2 * (runs - 1)) + scipy_stats.t.ppf(0.9, 2 * (runs - 1))) * limit * np.sqrt(2 / runs) <= np.log(1.1 / 1.05)
    )
    assert stats.recommended_runs(calm, calm) == wanted
    assert stats.recommended_runs([1.0], [1.0, 1.1]) is None and stats.recommended_runs(calm, calm, difference=0.04) is None
    assert stats.recommended_runs([1.0, 9.0, 1.0], [1.0, 1.1, 1.2]) == stats.MOST_RUNS


def test_pairs_by_hand():
    """Ratios 2, 2 and 8: geometric mean 32^(1/3); log2 of them 1, 1, 3 with spread 2 / sqrt(3)."""
    ratio, low, high = stats.paired_ratio_interval([2, 4, 8], [1, 2, 1])
    reach = scipy_stats.t.ppf(0.975, 2) * (2 / np.sqrt(3)) / np.sqrt(3) * np.log(2)
    assert ratio == pytest.approx(32 ** (1 / 3)) and high / ratio == pytest.approx(np.exp(reach)) and low * high == pytest.approx(ratio**2)
    assert stats.paired_ratio_interval([3], [2]) == (1.5, None, None)
    for wrong in (([1, 2], [1]), ([1, 0], [1, 1])):
        with pytest.raises(ValueError, match="pairs"):
            stats.paired_ratio_interval(*wrong)


def test_the_ratio_of_two_estimates_by_hand(draw):
    """Symmetric limits on the log scale: variances add, so 3 and 4 make 5 (Zou and Donner's point)."""
    ratio, low, high = stats.ratio_of_estimates((2.0, 2 * np.exp(-0.03), 2 * np.exp(0.03)), (1.0, np.exp(-0.04), np.exp(0.04)))
    assert (ratio, low, high) == pytest.approx((2.0, 2 * np.exp(-0.05), 2 * np.exp(0.05)))
    with pytest.raises(ValueError, match="above 0"):
        stats.ratio_of_estimates((1.0, 0.0, 2.0), (1.0, 0.5, 2.0))
    hits = 0
    for _ in range(500):
        sides = [drifting(draw, 12, 100) for _ in range(2)]
        estimates = [(stats.percentile(np.concatenate(side), 0.9), *stats.percentile_interval_of_runs(side, 0.9)) for side in sides]
        _, low, high = stats.ratio_of_estimates(*estimates)
        hits += low <= 1 <= high
    assert 460 <= hits <= 492, "about 95 of 100"


def test_start_up_counts_leading_calls_only():
    usual = [1.0, 1.01, 0.99, 1.02, 0.98] * 10
    assert stats.start_up([5.0, 3.0, 2.0, *usual]) == 3
    assert stats.start_up([5.0, 3.0, *usual]) == 0, "two are chance"
    assert stats.start_up([1.03, 1.04, 1.05, *usual]) == 0, "within the size that counts"
    assert stats.start_up([*usual, 5.0, 5.0, 5.0]) == 0


@pytest.mark.parametrize(("q", "count"), [(0.5, 20), (0.9, 60), (0.99, 400)])
def test_simulated_coverage_of_the_percentile_interval(draw, q, count):
    true = -math.log(1 - q)
    hits = 0
    for _ in range(1000):
        low, high = stats.percentile_interval(draw.exponential(size=count), q)
        hits += low <= true <= high
    assert hits / 1000 >= 0.935  # 0.95 less twice the error of 1,000 draws


def test_a_million_values_are_no_problem(draw):
    low, high = stats.percentile_interval(draw.exponential(size=1_000_000), 0.99)
    assert low < -math.log(0.01) < high and high / low < 1.01


# -- settled ----------------------------------------------------------------------------------


def test_steady_noise_is_settled(draw):
    assert sum(stats.settled(draw.normal(1, 0.03, size=60))[0] for _ in range(300)) >= 298
    assert sum(stats.settled(draw.lognormal(0, 0.3, size=60))[0] for _ in range(300)) >= 285


def test_a_rising_series_is_not(draw):
    answer, why = stats.settled(np.linspace(1.0, 1.2, 60) + draw.normal(0, 0.02, 60))
    assert not answer and "rises" in why and "+1" in why


def test_a_significant_but_tiny_drift_is_settled(draw):
    answer, why = stats.settled(np.linspace(1.0, 1.01, 3000) + draw.normal(0, 0.002, 3000))
    assert answer, why


def test_start_up_is_found_where_no_trend_is(draw):
    series = [2.0, 1.9, 1.8, 1.7, 0.99, *draw.normal(1, 0.02, size=100)]
    answer, why = stats.settled(series)
    assert not answer and why.startswith("the first 4 calls are start-up")
    assert stats.settled(series[5:])[0]


def test_too_few_to_tell_and_constant():
    assert stats.settled([1, 2, 3]) == (False, "3 values are too few to tell whether latency has settled; 6 are needed")
    assert stats.settled([1.0] * 20)[0]


def test_mann_kendall_agrees_with_kendalls_tau(draw):
    values = np.round(draw.normal(size=80), 1) + np.linspace(0, 0.5, 80)
    expected = scipy_stats.kendalltau(np.arange(80), values, method="asymptotic").pvalue
    assert stats._trend_by_chance(values) == pytest.approx(expected, abs=0.01)  # ours has the continuity correction


# -- two sides --------------------------------------------------------------------------------


def test_the_ratio_is_of_the_pooled_requests():
    ratio, low, high = stats.ratio_interval([[2, 2, 4], [4, 4, 4]], [[1, 1, 1], [1, 1, 1]])
    assert ratio == 4 and low < 4 < high


def test_identical_runs_have_no_width_and_a_single_value_has_no_interval():
    assert stats.ratio_interval([[3.0], [3.0]], [[2.0], [2.0]]) == (1.5, 1.5, 1.5)
    assert stats.ratio_interval([[3.0]], [[2.0], [2.1]]) == (pytest.approx(3 / 2.05), None, None)


@pytest.mark.parametrize(("candidate", "baseline"), [([], [[1.0]]), ([[]], [[1.0]]), ([[0.0]], [[1.0]])])
def test_a_ratio_needs_both_sides(candidate, baseline):
    with pytest.raises(ValueError, match="positive"):
        stats.ratio_interval(candidate, baseline)


def test_a_seed_gives_the_same_interval(draw):
    sides = [[draw.normal(1, 0.1, 30) for _ in range(3)] for _ in range(2)]
    assert stats.ratio_interval(*sides, seed=1) == stats.ratio_interval(*sides, seed=1)


@pytest.mark.parametrize("runs", [3, 5])
def test_simulated_coverage_of_the_ratio_when_runs_differ(draw, runs):
    """Run effects of 2 %: an interval that resampled requests only would cover under half of these."""

    def side(middle):
        return [middle * np.exp(draw.normal(0, 0.02) + draw.normal(0, 0.03, size=40)) for _ in range(runs)]

    hits = 0
    for _ in range(300):
        _, low, high = stats.ratio_interval(side(2.0), side(1.0), draws=300)
        hits += low <= 2.0 <= high
    assert hits / 300 >= 0.92


def test_requests_are_drawn_in_blocks_when_there_is_one_run(draw):
    noise = draw.normal(0, 0.05, 600)
    wandering = np.empty(600)
    wandering[0] = 0
    for index in range(1, 600):
        wandering[index] = 0.9 * wandering[index - 1] + noise[index]
    steady = [draw.normal(1, 0.001, 600)]
    shuffled = draw.permutation(wandering)
    _, low, high = stats.ratio_interval([np.exp(wandering)], steady)
    _, low_iid, high_iid = stats.ratio_interval([np.exp(shuffled)], steady)
    assert high - low > 1.5 * (high_iid - low_iid)


def test_littles_law():
    # bert-base on trn1.2xlarge as published: 3,329.87/s, 9.59 ms, batch 16: two batches in flight
    assert stats.batches_in_flight(3329.87, 0.00959, 16) == pytest.approx(2.0, abs=0.01)
    assert stats.batches_in_flight(1 / 0.25, 0.25, 1) == 1
