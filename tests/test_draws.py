"""Draws of a quantity: certain stays certain, and the quantiles are those of the distributions, by their own formulas."""

import math
from statistics import NormalDist

import numpy as np
import pytest
from neuronfit import draws
from neuronfit.draws import Draws, chance, doubtful, ends, summary
from neuronfit.provenance import Grade, Quantity, absent
from scipy import stats

MANY = 400_000


def quantity(value, low=None, high=None, confidence=None, unit="1/s"):
    return Quantity(value=value, unit=unit, low=low, high=high, confidence=confidence, grade=Grade.ESTIMATED)


def test_what_is_certain_is_a_float():
    source = Draws(MANY)
    assert source.of("a", quantity(3.3)) == 3.3 and isinstance(source.of("a", quantity(3.3)), float)
    assert source.of("b", quantity(3.3, 3.3, 3.3)) == 3.3
    assert source.triangle("c", 4, 4, 4) == 4.0 and source.happens("d", 0.0) == 0.0 and source.happens("e", 1.0) == 1.0
    with pytest.raises(ValueError, match="nothing can be drawn"):
        source.of("f", absent("1/s", "no figure"))


@pytest.mark.parametrize("confidence, assumed", [(0.95, 0.95), (0.9, 0.9), (0.5, 0.5), (None, 0.95)])
def test_the_ends_of_a_lognormal_are_its_quantiles(confidence, assumed):
    """Median 100, ends 80 and 125: ln(1.25) / z is the spread on the log scale."""
    drawn = Draws(MANY).of("x", quantity(100, 80, 125, confidence))
    sigma = math.log(1.25) / NormalDist().inv_cdf(0.5 + assumed / 2)
    exact = stats.lognorm(s=sigma, scale=100)
    for share in (0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99):
        assert np.quantile(drawn, share) == pytest.approx(exact.ppf(share), rel=0.01)
    assert np.mean((drawn > 80) & (drawn < 125)) == pytest.approx(assumed, abs=0.005)


def test_an_uneven_interval_keeps_its_median_and_both_ends():
    drawn = Draws(MANY).of("x", quantity(100, 90, 180, 0.9))
    assert np.median(drawn) == pytest.approx(100, rel=0.01)
    assert np.quantile(drawn, (0.05, 0.95)) == pytest.approx([90, 180], rel=0.01)


@pytest.mark.parametrize("low, high, difference", [(-50, 90, False), (2, 78, True)])
def test_what_may_be_below_nought_is_normal(low, high, difference):
    value = (low + high) / 2
    drawn = Draws(MANY).of("x", quantity(value, low, high, 0.9, unit="USD/month"), difference=difference)
    exact = stats.norm(value, (high - low) / 2 / NormalDist().inv_cdf(0.95))
    for share in (0.01, 0.05, 0.5, 0.95, 0.99):
        assert np.quantile(drawn, share) == pytest.approx(exact.ppf(share), abs=0.01 * (high - low))
    assert (drawn < 0).any()


def test_a_fraction_stays_a_fraction():
    """A beta of mean 0.97 and of the interval's spread: a = m k, b = (1 - m) k with k = m (1 - m) / variance - 1."""
    drawn = Draws(MANY).of("x", quantity(0.97, 0.93, 0.99, 0.95, unit="fraction"))
    variance = (0.06 / (2 * 1.959964)) ** 2
    size = 0.97 * 0.03 / variance - 1
    exact = stats.beta(0.97 * size, 0.03 * size)
    assert drawn.min() > 0 and drawn.max() < 1
    for share in (0.05, 0.5, 0.95):
        assert np.quantile(drawn, share) == pytest.approx(exact.ppf(share), rel=0.01)


def test_the_ratio_of_two_lognormals_has_the_analytic_quantiles():
    """price / throughput: the logarithms' variances add."""
    source = Draws(MANY)
    price, speed = quantity(1.2, 1.2 / 1.1, 1.2 * 1.1, 0.95), quantity(2000, 2000 / 1.25, 2000 * 1.25, 0.95)
    drawn = 1e6 * source.of("price", price) / (source.of("speed", speed) * 3600)
    sigma = math.hypot(math.log(1.1), math.log(1.25)) / 1.959964
    exact = stats.lognorm(s=sigma, scale=1e6 * 1.2 / (2000 * 3600))
    for share in (0.01, 0.05, 0.5, 0.95, 0.99):
        assert np.quantile(drawn, share) == pytest.approx(exact.ppf(share), rel=0.01)
    low, high = ends(drawn)
    assert (low, high) == (pytest.approx(exact.ppf(0.05), rel=0.01), pytest.approx(exact.ppf(0.95), rel=0.01))


def test_one_name_is_one_draw_whatever_else_is_drawn():
    one, two = Draws(1000), Draws(1000)
    volume = quantity(400, 320, 500)
    first = one.of("volume", volume)
    two.of("something else", quantity(1, 0.5, 2))
    assert np.array_equal(first, two.of("volume", volume)) and one.of("volume", volume) is first
    assert np.array_equal(first, Draws(1000).of("volume", volume, keep=False))
    assert not np.array_equal(first, one.of("other", volume)) and not np.array_equal(first, Draws(1000, seed=1).of("volume", volume))
    assert abs(np.corrcoef(first, one.of("other", volume))[0, 1]) < 0.1


def test_a_share_of_the_draws():
    source = Draws(MANY)
    assert np.mean(source.happens("x", 0.3)) == pytest.approx(0.3, abs=0.005)
    assert chance(np.array([True, True, False, False])) == 0.5 and chance(3 < 4) == 1.0 and chance(4 < 3) == 0.0


def test_a_summary_keeps_the_closed_form_and_never_contradicts_it():
    flat = summary(2.5, 2.5, "USD/1e6", Grade.PUBLISHED)
    assert (flat.value, flat.low, flat.high) == (2.5, None, None)
    drawn = np.linspace(10, 20, 1001)
    assert (summary(15, drawn, "USD", Grade.ESTIMATED).low, summary(15, drawn, "USD", Grade.ESTIMATED).high) == (10.5, 19.5)
    assert summary(5, drawn, "USD", Grade.ESTIMATED).low == 5  # outside the draws: the end moves to it


def test_doubt_is_added_only_where_there_is_none():
    assert (doubtful(quantity(100), 0.25).low, doubtful(quantity(100), 0.25).high) == (80, 125)
    own = quantity(100, 99, 101)
    assert doubtful(own, 0.25) is own and doubtful(quantity(100), 0.0).low is None
    gone = absent("1/s", "x")
    assert doubtful(gone, 0.25) is gone
    assert draws.spread(None) == pytest.approx(1.959964) and draws.spread(0.9) == pytest.approx(1.644854)
