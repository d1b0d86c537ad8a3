"""What is asked: traffic with its gaps filled, and what stands around the model."""

import pytest
from example_questions import mapping
from neuronfit import params
from neuronfit.params import Traffic
from neuronfit.workload import DAILY_SHAPES, asked, fingerprint, hourly_rates, request_shortening, request_speedup_bound

# -- hours ------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", ["office", "evening"])
@pytest.mark.parametrize("ratio", [1, 1.001, 1.5, 3, 8, 12, 20, 23])
def test_a_day_keeps_its_mean_and_reaches_its_peak(shape, ratio):
    rates = hourly_rates(400, 400 * ratio, shape)
    assert len(rates) == 24
    assert sum(rates) / 24 == pytest.approx(400)
    assert max(rates) == pytest.approx(400 * ratio)
    assert min(rates) > 0


@pytest.mark.parametrize("shape", ["office", "evening"])
def test_a_higher_peak_leaves_the_order_of_the_hours(shape):
    rates = hourly_rates(400, 2000, shape)
    weights = DAILY_SHAPES[shape]
    assert sorted(range(24), key=lambda hour: weights[hour]) == sorted(range(24), key=lambda hour: rates[hour])


def test_without_a_peak_the_weights_are_the_day():
    """Weights 2 and 17 of a mean weight of sum / 24."""
    weights = DAILY_SHAPES["office"]
    rates = hourly_rates(100, None, "office")
    assert rates[0] / rates[10] == pytest.approx(2 / 17)
    assert rates[10] == pytest.approx(100 * 17 * 24 / sum(weights))


def test_a_flat_day_stays_flat_and_a_longer_peak_than_a_day_has_is_cut():
    assert hourly_rates(400, 1200, "flat") == (400,) * 24
    assert max(hourly_rates(400, 400 * 100, "office")) == pytest.approx(400 * 23)  # one hour of 24, less than everything


# -- gaps -------------------------------------------------------------------------------------

MONTH_S = 730 * 3600  # 2,628,000


def test_mean_and_volume_fill_each_other():
    assert asked(Traffic(mean_per_s=400)).monthly_volume == 400 * MONTH_S == 1_051_200_000
    assert asked(Traffic(monthly_volume=1e9)).mean_per_s == pytest.approx(380.5175, abs=1e-4)  # 1e9 / 2,628,000
    assert asked(Traffic()).mean_per_s is None and asked(Traffic()).hourly_per_s == ()


def test_a_contradiction_is_measured_not_hidden():
    """1.0e9 of 400/s x 2,628,000 s = 1.0512e9: 4.87 % apart."""
    known = asked(Traffic(mean_per_s=400, monthly_volume=1e9))
    assert known.mismatch == pytest.approx(0.0512 / 1.0512, rel=1e-6)
    assert known.mean_per_s == 400 and known.monthly_volume == 1e9
    assert asked(Traffic(mean_per_s=400)).mismatch is None


def test_a_peak_is_declared_or_the_busiest_hour():
    assert asked(Traffic(mean_per_s=400, peak_per_s=1200)).peak_per_s == 1200
    known = asked(Traffic(mean_per_s=400, daily_shape="office"))
    assert known.peak_per_s == max(known.hourly_per_s) > 400
    assert asked(Traffic(peak_per_s=1200)).mean_per_s is None


# -- around the model -------------------------------------------------------------------------


@pytest.mark.parametrize("share, speedup, shorter", [(0.6, 2, 0.3), (1.0, 2, 0.5), (0.6, 1, 0.0), (0.75, 4, 0.5625), (0.6, 0.5, -0.6)])
def test_amdahl(share, speedup, shorter):
    """DESIGN section 7: 60 % of a request, twice as fast, shortens it by 30 %. Slower lengthens it."""
    assert request_shortening(share, speedup) == pytest.approx(shorter)


def test_the_bound_of_amdahl():
    assert request_speedup_bound(0.75) == pytest.approx(4)
    assert request_speedup_bound(1.0) is None
    assert 1 / (1 - request_shortening(0.75, 1e12)) == pytest.approx(request_speedup_bound(0.75))


# -- the fingerprint --------------------------------------------------------------------------


def of(digest="a" * 16, **changes):
    return fingerprint(params.parse(mapping(**changes)).workload, digest)


def test_the_order_of_shapes_and_their_batches_do_not_matter():
    one, two = {"batch_size": 1, "sequence_length": 128}, {"batch_size": 4, "sequence_length": 64}
    assert of(workload__shapes=[one, two]) == of(workload__shapes=[two, one]) == of(workload__shapes=[{**two, "batch_size": 9}, one])


def test_the_architecture_is_part_of_it():
    assert of("a" * 16) != of("b" * 16)
    assert len(of()) == 16 and int(of(), 16) >= 0
