"""Percentiles and intervals against scipy, hand values and simulated coverage."""

import math

import numpy as np
import pytest
from neuronfit import stats
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


@pytest.mark.parametrize(("q", "count"), [(0.5, 6), (0.5, 51), (0.9, 200), (0.99, 299), (0.99, 5000), (0.05, 100)])
def test_the_ranks_hold_the_confidence_that_scipy_computes(q, count):
    ordered = np.arange(1, count + 1)
    low, high = stats.percentile_interval(ordered, q)
    binomial = scipy_stats.binom(count, q)
    covered = binomial.cdf(high - 1) - binomial.cdf(low - 1)
    assert covered >= 0.95
    if high - low > 1 and count > 299:  # and no shorter range of ranks does
        widest_of_shorter = max(binomial.cdf(start + high - low - 2) - binomial.cdf(start - 1) for start in range(1, int(count - (high - low) + 2)))
        assert widest_of_shorter < 0.95


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
