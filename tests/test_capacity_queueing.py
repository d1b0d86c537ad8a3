"""The closed forms by hand, against each other, and against printed tables."""

import math

import pytest
from neuronfit.capacity import queueing
from neuronfit.errors import BadInput


def test_one_exponential_server_waits_load_over_one_minus_load():
    """rate 0.8, service 1: 0.8 / 0.2 = 4 service times."""
    assert queueing.mmc_wait_mean(0.8, 1.0) == pytest.approx(4.0)
    assert queueing.mmc_wait_mean(80.0, 0.01) == pytest.approx(0.04)


@pytest.mark.parametrize("servers, offered, waits", [(1, 0.5, 0.5), (2, 1.0, 1 / 3), (3, 2.0, 4 / 9), (5, 4.0, 0.554113)])
def test_erlang_c_by_hand(servers, offered, waits):
    """c = 2, a = 1: (1/2 / (1 - 1/2)) / (1 + 1 + 1) = 1/3. c = 3, a = 2: (8/6 x 3) / (1 + 2 + 2 + 4) = 4/9.

    c = 5, a = 4: (1024/120 x 5) / (1 + 4 + 8 + 32/3 + 32/3 + 128/3) = 42.667 / 77 = 0.5541.
    """
    assert queueing.erlang_c(servers, offered) == pytest.approx(waits, abs=5e-7)


def test_erlang_c_does_not_overflow():
    assert 0 < queueing.erlang_c(2000, 1900.0) < 1


def test_a_constant_service_halves_the_wait():
    assert queueing.md1_wait_mean(0.8, 1.0) == pytest.approx(2.0)
    assert queueing.mg1_wait_mean(0.8, 1.0, 1.0) == pytest.approx(queueing.mmc_wait_mean(0.8, 1.0))
    assert queueing.mg1_wait_mean(0.5, 1.0, 4.0) == pytest.approx(2.5)  # 0.5 x 5 / (2 x 0.5)


def test_quantiles_of_waiting():
    """M/M/1 at 0.8: ln(0.8 / 0.01) / 0.2 = 21.91; a tenth of M/M/1 at 0.05 waits at all, so its median is 0."""
    assert queueing.mmc_wait_quantile(0.8, 1.0, 1, 0.99) == pytest.approx(math.log(80) / 0.2)
    assert queueing.mmc_wait_quantile(0.05, 1.0, 1, 0.5) == 0.0
    assert queueing.mmc_wait_quantile(3.0, 1.0, 4, 0.9) == pytest.approx(math.log(queueing.erlang_c(4, 3.0) / 0.1))


def test_the_first_step_of_m_d_1_by_hand():
    """Below one service time P(W <= x) = (1 - load) e^(load x): at load 0.5 it is 0.6 at x = ln(1.2) / 0.5 = 0.3646."""
    assert queueing.md1_wait_quantile(0.5, 1.0, 0.6) == pytest.approx(math.log(1.2) / 0.5, rel=1e-9)
    assert queueing.md1_wait_quantile(0.5, 1.0, 0.5) == 0.0


def test_m_d_1_against_its_integral():
    """The mean is the integral of P(W > x) = that of the quantile over q."""
    steps = 200
    mean = sum(queueing.md1_wait_quantile(0.8, 1.0, (place + 0.5) / steps) for place in range(steps)) / steps
    assert mean == pytest.approx(queueing.md1_wait_mean(0.8, 1.0), rel=0.02)


def test_a_phase_type_service_of_one_phase_is_m_m_1():
    for q in (0.5, 0.9, 0.99):
        assert queueing.mph1_wait_quantile(0.8, [1.0], [[-1.0]], q) == pytest.approx(queueing.mmc_wait_quantile(0.8, 1.0, 1, q), rel=1e-9)


def test_many_short_phases_come_near_a_constant_service():
    """Erlang with 40 phases has a variation squared of 1/40."""
    phases = 40
    rates = [[-phases if row == column else phases if column == row + 1 else 0.0 for column in range(phases)] for row in range(phases)]
    start = [1.0] + [0.0] * (phases - 1)
    assert queueing.mph1_wait_quantile(0.8, start, rates, 0.99) == pytest.approx(queueing.md1_wait_quantile(0.8, 1.0, 0.99), rel=0.03)


@pytest.mark.parametrize("rate", [1.0, 1.2, 0.0, -1.0])
def test_a_queue_that_never_settles_is_refused(rate):
    with pytest.raises(BadInput, match="settles only at a load"):
        queueing.mmc_wait_mean(rate, 1.0)
