"""Looking often without fooling oneself: boundaries from published tables, counts from scipy, error rates by simulation."""

from __future__ import annotations

import math

import numpy as np
import pytest
from neuronfit import sequential
from neuronfit.sequential import Boundary, QuantileRatio, requests_needed, share_bounds, spent, spread_of_log_quantile
from scipy import stats as scipy_stats

# -- spending and the boundary ----------------------------------------------------------------


@pytest.mark.parametrize(
    "alpha, table",
    [
        (0.025, (4.8769, 3.3569, 2.6803, 2.2898, 2.0310)),  # Lan-DeMets, O'Brien-Fleming type, five equal looks, two-sided 0.05
    ],
)
def test_the_boundary_is_the_published_one(alpha, table):
    boundary = Boundary(alpha)
    assert [boundary.at(look / 5) for look in range(1, 6)] == pytest.approx(table, abs=2e-4)


def test_a_single_look_is_the_ordinary_test():
    assert Boundary(0.05).at(1.0) == pytest.approx(1.644854, abs=1e-6)
    assert spent(1.0, 0.05) == pytest.approx(0.05)
    assert spent(0.25, 0.05) == pytest.approx(2 * scipy_stats.norm.sf(1.959964 / 0.5), rel=1e-5)


def test_a_hundred_looks_spend_alpha_and_no_more():
    """Brownian paths that have no drift cross with chance alpha: counted on 20,000 of them."""
    looks, paths, alpha = 100, 20_000, 0.05
    boundary = Boundary(alpha)
    edges = np.array([boundary.at(look / looks) for look in range(1, looks + 1)])
    walk = np.cumsum(np.random.default_rng(3).normal(size=(paths, looks)), axis=1) / np.sqrt(np.arange(1, looks + 1))
    assert (walk > edges).any(axis=1).mean() == pytest.approx(alpha, abs=3 * math.sqrt(alpha * (1 - alpha) / paths))
    assert (walk > 1.644854).any(axis=1).mean() > 0.3, "the boundary of a single look fools whoever looks a hundred times"


def test_looks_must_move_on():
    boundary = Boundary(0.05)
    boundary.at(0.5)
    with pytest.raises(ValueError, match="must grow"):
        boundary.at(0.5)
    last = boundary.at(1.0)
    assert boundary.at(1.2) == last


# -- quantiles --------------------------------------------------------------------------------


def test_split_counts_are_hypergeometric():
    """100 values a side, the pooled q95 leaves 10 beyond; 8 of them the candidate's."""
    baseline = np.concatenate([np.linspace(1, 2, 98), [8.0, 9.0]])
    candidate = np.concatenate([np.linspace(1, 2, 92), np.linspace(5, 6, 8)])
    p = scipy_stats.hypergeom.sf(7, 200, 10, 100)
    assert QuantileRatio(candidate, baseline, 0.95).z_above(1.0) == pytest.approx(scipy_stats.norm.isf(p), rel=1e-9)


def test_paired_counts_are_those_of_mcnemar():
    baseline, candidate = np.ones(200), np.ones(200)
    baseline[:3] = 3.0
    candidate[3:10] = 3.0
    p = scipy_stats.binomtest(7, 10, 0.5, alternative="greater").pvalue
    assert QuantileRatio(candidate, baseline, 0.94, paired=True).z_above(1.0) == pytest.approx(scipy_stats.norm.isf(p), rel=1e-9)


def test_the_estimate_and_its_interval_bracket_the_truth():
    generator = np.random.default_rng(5)
    inside = 0
    for _ in range(100):
        ratio = QuantileRatio(1.1 * generator.lognormal(0, 0.4, 600), generator.lognormal(0, 0.4, 600), 0.95)
        low, high = ratio.interval(1.96)
        assert low < ratio.estimate < high
        inside += low <= 1.1 <= high
    assert 90 <= inside <= 100


def test_pairing_sees_what_splitting_cannot():
    generator = np.random.default_rng(6)
    work = generator.lognormal(0, 0.6, 1000)
    candidate, baseline = (work * factor * np.exp(generator.normal(0, 0.02, 1000)) for factor in (1.05, 1.0))
    assert QuantileRatio(candidate, baseline, 0.95, paired=True).z_above(1.0) > 2.5 > 1.0 > QuantileRatio(candidate, baseline, 0.95).z_above(1.0)


def test_bursts_of_slow_requests_count_for_less():
    """A thousand blocks of ten equal values are a thousand values: z shrinks by about sqrt(10)."""
    generator = np.random.default_rng(7)
    candidate, baseline = (np.repeat(factor * generator.lognormal(0, 0.4, 1000), 10) for factor in (1.15, 1.0))
    alone = QuantileRatio(candidate[::10], baseline[::10], 0.9).z_above(1.0)
    burst = QuantileRatio(candidate, baseline, 0.9).z_above(1.0)
    assert burst == pytest.approx(alone, rel=0.35)
    assert burst < 0.6 * alone * math.sqrt(10)


def test_too_few_in_the_tail_is_no_look():
    assert not QuantileRatio(np.ones(999), np.ones(5000), 0.99).enough
    assert QuantileRatio(np.ones(1000), np.ones(5000), 0.99).enough


@pytest.mark.parametrize("bad, message", [(([1.0, 0.0], [1.0, 1.0]), "above 0"), (([1.0], [1.0, 1.0]), "one length")])
def test_what_cannot_be_compared_is_refused(bad, message):
    with pytest.raises(ValueError, match=message):
        QuantileRatio(*bad, 0.5, paired=True)


def crossed(generator: np.random.Generator, count: int, slower: float, alpha: float, looks: int, paired: bool) -> bool:
    work = generator.lognormal(-4, 0.4, count)
    noise = [np.exp(generator.normal(0, 0.1, count)) for _ in range(2)]
    baseline = work * noise[0] if paired else generator.lognormal(-4, 0.4, count)
    candidate = work * (noise[1] if paired else 1.0) * slower
    boundary = Boundary(alpha)
    for look in range(1, looks + 1):
        seen = count * look // looks
        ratio = QuantileRatio(candidate[:seen], baseline[:seen], 0.95, paired=paired)
        if ratio.enough and ratio.z_above(1.0) > boundary.at(look / looks):
            return True
    return False


@pytest.mark.parametrize("paired", [False, True])
def test_false_alarms_over_a_hundred_looks(paired):
    """No difference, alpha 0.025: of 40 tests with 100 looks more than 5 alarms have a chance below 1 in 1,000."""
    generator = np.random.default_rng(11)
    assert sum(crossed(generator, 1000, 1.0, 0.025, 100, paired) for _ in range(40)) <= 5


def test_a_regression_is_found_at_the_planned_sample():
    """10 % slower at p95, margin 0, power 0.8: of 60 tests fewer than 39 have a chance of 1 in 1,000."""
    generator = np.random.default_rng(12)
    spread = 0.4 * math.sqrt(0.95 * 0.05) / scipy_stats.norm.pdf(scipy_stats.norm.ppf(0.95))
    count = requests_needed(spread, margin=0.0, detect=0.1, alpha=0.025)
    assert sum(crossed(generator, count, 1.1, 0.025, 50, False) for _ in range(60)) >= 39


def test_the_sample_size_by_hand():
    """Fixed sample, one look: 2 (s (1.645 + 0.842) / ln 1.1)^2 with s = 1, times the allowance."""
    by_hand = 2 * ((1.644854 + 0.841621) / math.log(1.1)) ** 2
    assert requests_needed(1.0, margin=0.0, detect=0.1, alpha=0.05, looks=1) == math.ceil(sequential.ALLOWANCE * by_hand)
    assert 1.02 < requests_needed(1.0, margin=0.0, detect=0.1, looks=100) / (sequential.ALLOWANCE * by_hand) < 1.25
    halved = requests_needed(1.0, margin=0.0, detect=0.1, alpha=0.05, looks=1, paired_correlation=0.5)
    assert halved == math.ceil(sequential.ALLOWANCE * by_hand / 2)
    with pytest.raises(ValueError, match="must be larger"):
        requests_needed(1.0, margin=0.1, detect=0.1)


def test_spread_of_a_lognormal():
    values = np.random.default_rng(8).lognormal(-4, 0.4, 200_000)
    exact = 0.4 * math.sqrt(0.95 * 0.05) / scipy_stats.norm.pdf(scipy_stats.norm.ppf(0.95))
    assert spread_of_log_quantile(values, 0.95) == pytest.approx(exact, rel=0.05)


# -- shares -----------------------------------------------------------------------------------


def test_share_bounds_by_hand():
    """Nothing happened in n: beta(1, 1) mixes (1 - p)^n to 1 / (n + 1), so (1 - p)^n = alpha / (n + 1)."""
    low, high = share_bounds(0, 100, 0.05)
    assert low == 0.0
    assert high == pytest.approx(1 - (0.05 / 101) ** (1 / 100), rel=1e-6)
    assert share_bounds(0, 0, 0.05) == (0.0, 1.0)
    assert share_bounds(100, 100, 0.05) == (pytest.approx(1 - high), 1.0)


@pytest.mark.parametrize("truth, expected", [(0.01, 0.01), (0.01, 0.3), (0.2, 0.5)])
def test_share_bounds_hold_at_every_look(truth, expected):
    """2,000 requests looked at 100 times, alpha 0.05 an end: of 200 tests more than 20 misses would be a chance of 1 in 1,000."""
    generator = np.random.default_rng(13)
    happened = np.cumsum(generator.random((200, 2000)) < truth, axis=1)[:, 19::20]
    looks = np.arange(20, 2001, 20)
    bounds = {(k, n): share_bounds(k, n, 0.05, expected) for k, n in {(int(k), int(n)) for row in happened for k, n in zip(row, looks)}}
    above = sum(any(bounds[int(k), int(n)][0] > truth for k, n in zip(row, looks)) for row in happened)
    below = sum(any(bounds[int(k), int(n)][1] < truth for k, n in zip(row, looks)) for row in happened)
    assert max(above, below) <= 20
    assert bounds[int(happened[0, -1]), 2000][1] < 3 * truth, "and they are of use"


def test_no_share_is_refused():
    with pytest.raises(ValueError, match="no share"):
        share_bounds(3, 2, 0.05)
