"""Service, scaling and a window of traffic, by hand and against the closed forms."""

import math

import numpy as np
import pytest
from example_questions import measured, question, stated
from neuronfit import capacity, compare, utilization
from neuronfit.capacity import fleet, queueing
from neuronfit.capacity.arrivals import poisson, rate_by_minute
from neuronfit.capacity.demand import from_hours, from_requests
from neuronfit.capacity.scaling import Plan, StartUp, _window, fixed, scheduled, spread, target_tracking
from neuronfit.capacity.service import BatchService, GenerationService, Promise, batch_table, promise
from neuronfit.capacity.simulator import Change
from neuronfit.errors import BadInput
from neuronfit.params import Capacity, Objective
from neuronfit.provenance import Grade

ONE = BatchService((1.0,), 1, 0.0, Grade.MEASURED)
"""One request at a time, one second each."""

AT_ONCE = StartUp(0.0, 0.0, 0.0, 0.0)


def service(asked, name):
    found = compare.compare(asked)
    return capacity.service_of(asked, asked.target(name), utilization.headline(asked, found, name))


# -- service ----------------------------------------------------------------------------------


def test_published_bert_as_a_service(tmp_path):
    """inf2: 2,674.19/s at a batch of 8 and 5.97 ms are two batches in flight; 2 x 8 / 2,674.19 = 5.983 ms. Batches of 1: 1.001 ms."""
    found = service(question(tmp_path), "inf2")
    assert (found.workers, found.largest_batch, found.grade) == (2, 8, Grade.PUBLISHED)
    assert found.latency_s[7] == pytest.approx(16 / 2674.18956433) and found.latency_s[0] == pytest.approx(2 / 1998.20950133)
    assert found.latency_s[1] == found.latency_s[7]  # compiled for 1 and for 8: two requests take as long as eight
    assert found.capacity_per_s == pytest.approx(2674.18956433, rel=1e-12)
    assert found.sigma == pytest.approx(math.log(6.17100715 / 5.97381591) / 2.3263, rel=1e-4)


def test_a_gpu_takes_batches_of_any_size(tmp_path):
    """l4: 4 take 4 / 1,851.9 s and 8 take 8 / 2,168 s, so 6 take the middle."""
    found = service(question(tmp_path), "l4")
    assert found.workers == 1 and found.latency_s[5] == pytest.approx((4 / 1851.9 + 8 / 2168.0) / 2, rel=1e-4)


def test_measured_figures_make_a_measured_service(tmp_path):
    asked = question(tmp_path)
    asked.dossier.admit(measured(asked, "l4", [900, 1000, 1100]))
    found = service(asked, "l4")
    assert found.grade is Grade.MEASURED and found.capacity_per_s == pytest.approx(1000)
    assert any("no figure for batches below 8" in sentence for sentence in found.said)


def test_a_table_between_its_points():
    assert batch_table({1: 1.0, 4: 4.0}, 4) == pytest.approx((1, 2, 3, 4))
    assert batch_table({1: 1.0, 4: 4.0}, 4, fixed_shapes=True) == (1, 4, 4, 4)
    assert batch_table({2: 1.0, 4: 3.0}, 4) == pytest.approx((1, 1, 2, 3))
    assert batch_table({1: 5.0, 2: 3.0, 4: 4.0}, 4) == (4, 4, 4, 4)  # a larger batch is never quicker, and the largest is as its figure says


def test_generation_keeps_the_throughput_of_its_figure(tmp_path):
    """128 prompt and 84 output tokens, 4 at a time: 400/s is a round of 0.84 s; four prompts of 60 ms leave 0.6 s for 84 steps."""
    asked = question(tmp_path, "flan-t5-xl")
    values = {"throughput_per_s": 400.0, "ttft_p50_s": 0.06, "tpot_p50_s": 0.01}
    row = stated(asked, "inf2-24", batch=4, values=values, output_length=84, tp_degree=8).model_copy(update={"result_unit": "token"})
    found = capacity.from_rows(asked, "inf2.24xlarge", "nxd_inference", [], row)
    assert isinstance(found, GenerationService) and (found.slots, found.copies) == (4, 1)
    assert found.prefill_s == pytest.approx(0.06 / 128) and found.step_s[3] == pytest.approx(0.6 / 84)
    assert found.capacity_per_s == pytest.approx(400.0)


def test_the_cache_of_t5_holds_what_is_left_beside_the_weights(tmp_path):
    asked = question(tmp_path, "flan-t5-xl")
    found = service(asked, "trn1-32")
    assert found.cache_tokens > 10 * (128 + 84) and found.slots == 1
    small = GenerationService((0.1,) * 8, 0.0, 3.5 * 212, 1, 128, 84, Grade.ESTIMATED)
    assert small.slots == 3 and small.capacity_per_s == pytest.approx(3 / 0.1)


@pytest.mark.parametrize(
    "bounds, expected",
    [
        ({}, Promise()),
        ({"latency_p99_ms": 20}, Promise(latency_s=0.02)),
        ({"latency_p50_ms": 20}, Promise(latency_s=0.02, allowed=0.5)),
        ({"ttft_p99_ms": 500, "tpot_p99_ms": 50}, Promise(ttft_s=0.5, tpot_s=0.05)),
    ],
)
def test_the_promise_of_an_objective(bounds, expected):
    assert promise(Objective(**bounds)) == expected


# -- scaling ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "needed, settings, count",
    [
        (3, {}, 3),
        (3, {"redundancy": 1}, 4),
        (1, {"min_count": 2}, 2),
        (3, {"zones": 3}, 6),
        (1, {"zones": 2}, 2),
        (4, {"zones": 3, "redundancy": 1}, 6),
    ],
)
def test_spare_instances_and_zones(needed, settings, count):
    """3 over three zones: any two carry 3, so two in each. 4: two in each carry 4 with one zone lost."""
    assert spread(needed, Capacity(**settings)) == count


@pytest.mark.parametrize("length", [0, 1, 2, 5, 17, 60])
def test_the_window_is_that_of_a_loop(length):
    series = np.random.default_rng(0).integers(0, 100, 50)
    slow = [series[max(0, place - length) : place + 1].max() for place in range(50)]
    assert _window(series, length, np.maximum).tolist() == slow


def test_autoscaling_by_hand():
    """Capacity 1/s, target 0.5: 0.5/s needs 1, 2/s needs 4. The load rises in minute 10 and falls in minute 20.

    Noticed one minute later (11), started two minutes after that (13). In minute 21 the fall is seen, and three minutes of
    cool-down later, at 24, the four are let go.
    """
    rates = np.array([0.5] * 10 + [2.0] * 10 + [0.5] * 10)
    settings, start = Capacity(target_utilization=0.5, scale_in_cooldown_s=180), StartUp(60.0, 120.0, 0.0, 0.0)
    plan = target_tracking(rates, 1.0, settings, start, repeats=False)
    assert plan.paid.tolist() == [1] * 11 + [4] * 13 + [1] * 6
    assert plan.ready.tolist() == [1] * 13 + [4] * 11 + [1] * 6


def test_a_cold_compile_delays_the_capacity_and_not_the_bill():
    rates = np.array([0.5] * 10 + [2.0] * 50)
    warm, cold = (target_tracking(rates, 1.0, Capacity(), StartUp(60, 60, 0, compile_s), repeats=False) for compile_s in (0, 1200))
    assert np.array_equal(warm.paid, cold.paid) and warm.ready.sum() - cold.ready.sum() == 20 * (4 - 1)  # 2 / 0.6 = 3.3 -> 4; before: 1


def test_a_schedule_starts_ahead():
    rates = np.array([1.0] * 60 + [3.0] * 60)
    plan = scheduled(rates, lambda rate: int(rate), Capacity(), StartUp(0, 240, 60, 0), repeats=True)
    assert plan.ready.tolist() == [1] * 60 + [3] * 60
    assert plan.paid.tolist() == [1] * 55 + [3] * 65 and plan.instance_hours == pytest.approx((55 + 195) / 60)


# -- a week of minutes ------------------------------------------------------------------------


def test_minutes_keep_the_mean_of_their_hour_and_the_peak():
    hours = [1, 1, 1, 1, 1, 2, 5, 9, 12, 12, 11, 10, 9, 9, 9, 9, 8, 7, 5, 4, 3, 2, 1, 1]
    minutes = rate_by_minute(hours)
    assert minutes.reshape(168, 60).mean(axis=1) == pytest.approx(np.tile(hours, 7)) and minutes.max() == pytest.approx(12) and len(minutes) == 10_080
    ramp = minutes.reshape(168, 60)[6]
    assert ramp[0] < 5 < ramp[-1] and (np.diff(ramp) > 0).all()


def test_a_peak_above_the_busiest_hour_lasts_a_minute():
    minutes = rate_by_minute([10.0] * 24, 30.0).reshape(168, 60)
    assert minutes.max(axis=1) == pytest.approx(np.full(168, 30.0)) and minutes.mean(axis=1) == pytest.approx(np.full(168, 10.0))
    assert np.sort(minutes, axis=1)[:, :-1] == pytest.approx(np.full((168, 59), 570 / 59))


def test_hours_are_24_or_168():
    with pytest.raises(BadInput, match="24 or 168"):
        rate_by_minute([1.0] * 7)


# -- how many are needed ----------------------------------------------------------------------


def test_the_bound_of_m_d_1_decides_between_one_and_two():
    """At a load of 0.8 the p99 of waiting is known: an objective a tenth above it takes one instance, a tenth below two."""
    wait = queueing.md1_wait_quantile(0.8, 1.0, 0.99)
    assert capacity.needed(ONE, 0.8, Promise(latency_s=1 + 1.1 * wait)) == 1
    assert capacity.needed(ONE, 0.8, Promise(latency_s=1 + 0.9 * wait)) == 2


def test_without_an_objective_the_load_decides():
    assert [capacity.needed(ONE, rate, Promise()) for rate in (0.5, 0.98, 0.99, 4.9, 4.91)] == [1, 1, 2, 5, 6]


def test_no_fleet_makes_one_request_quicker():
    assert capacity.needed(ONE, 0.5, Promise(latency_s=0.9)) is None


def test_the_tail_of_latency_grows_with_load_and_is_that_of_theory():
    curve = dict(capacity.latency_at_load(ONE, 1, Promise(), loads=(0.5, 0.8)))
    for load in (0.5, 0.8):
        assert curve[load].p99_s == pytest.approx(1 + queueing.md1_wait_quantile(load, 1.0, 0.99), rel=0.1)  # 20,000 requests
        assert curve[load].waiting_mean_s == pytest.approx(queueing.md1_wait_mean(load, 1.0), rel=0.1)


# -- a window ---------------------------------------------------------------------------------


def test_a_fixed_fleet_by_hand():
    """2/s on average and 3/s at the peak, one a second each: 4 instances (3 would be at full load), 96 hours a day, half of it busy."""
    demand = from_hours([1.0] * 12 + [3.0] * 12)
    found = {option.name: option for option in capacity.options(demand, ONE, Promise(latency_s=60.0), Capacity(), AT_ONCE)}
    option = found["fixed"]
    assert set(option.paid) == {4} and option.instance_hours_per_day == pytest.approx(96) and option.busy == pytest.approx(0.5, rel=1e-6)
    assert option.instance_hours_per_month == pytest.approx(4 * 730) and option.idle == pytest.approx(0.5, rel=1e-6) and option.missed < 0.01
    assert found["scheduled"].instance_hours_per_day < 80 and found["target_tracking"].busy <= 0.62


def test_states_and_single_requests_agree(monkeypatch):
    """The same week both ways, at a load where some are late."""
    demand, kept = from_hours([0.4] * 12 + [0.85] * 12), Promise(latency_s=6.0)
    ways = []
    for limit in (10_000_000, 0):
        monkeypatch.setattr(fleet, "EVERY_REQUEST", limit)
        plan = fixed(len(demand.minute_rates), 1, Capacity())
        ways.append(fleet.evaluate(demand, ONE, kept, Capacity(), AT_ONCE, plan))
    assert "every one of" in ways[0].how and "states" not in ways[0].how
    assert ways[0].missed == pytest.approx(ways[1].missed, rel=0.25) and 0.02 < ways[0].missed < 0.2


def test_what_piles_up_is_late_until_it_is_worked_off():
    """2/s for ten minutes on an instance that does 1/s: 600 wait at the end, worked off at 0.5/s in twenty minutes.

    Late is who finds more than 60 in front: from the end of the first minute to the 28th (600 - 0.5 x 60 x 18 = 60).
    """
    rates = np.array([2.0] * 10 + [0.5] * 50)
    late = fleet._backlog(rates, np.ones(60), np.zeros(60), Promise(latency_s=60.0))
    assert late[0] == pytest.approx(0.0, abs=1e-9) and late[1:10] == pytest.approx(np.full(9, 120.0))
    assert late[10:28] == pytest.approx(np.full(18, 30.0)) and late[28:] == pytest.approx(np.zeros(32))


def test_overload_is_the_same_in_the_fluid_and_request_by_request(monkeypatch):
    rates = np.array([40.0] * 10 + [10.0] * 50)
    demand = fleet.Demand(rates, 3600.0, 40.0, False, "made")
    quick = BatchService((0.05,), 1, 0.0, Grade.MEASURED)  # 20/s
    plan, shares = Plan("fixed", np.ones(60, np.int64), np.ones(60, np.int64)), []
    for limit in (10_000_000, 0):
        monkeypatch.setattr(fleet, "EVERY_REQUEST", limit)
        shares.append(fleet.evaluate(demand, quick, Promise(latency_s=30.0), Capacity(), AT_ONCE, plan).missed)
    assert shares[0] == pytest.approx(shares[1], rel=0.03) and shares[0] > 0.5


def test_failures_of_the_only_instance_are_outages():
    """36.5 a month, each an hour of start-up: down for 5 % of the time, and everybody is late then."""
    settings, start = Capacity(failures_per_month=36.5), StartUp(0, 3600, 0, 0)
    demand = from_hours([50.0] * 24)
    quick = BatchService((0.001,), 1, 0.0, Grade.MEASURED)
    alone = fleet.evaluate(demand, quick, Promise(latency_s=1.0), settings, start, fixed(10_080, 1, settings))
    spare = fleet.evaluate(demand, quick, Promise(latency_s=1.0), settings, start, fixed(10_080, 2, settings))
    assert alone.missed == pytest.approx(0.05, rel=1e-6) and spare.missed == 0.0


def test_a_failed_copy_of_a_generating_fleet_is_missing_until_it_is_back():
    changes = [Change(300.0, 1), Change(30.0, 1, failed=True), Change(90.0, 1)]
    assert fleet._instances(fixed(10, 2, Capacity()), changes) == [(0.0, 2), (30.0, 1), (90.0, 2), (300.0, 3)]


def test_a_trace_of_under_an_hour_is_repeated_for_a_day():
    arrivals = np.concatenate(list(poisson([3.0], 3_500.0, 1)))
    demand = from_requests(arrivals, window_s=3_500.0)
    option = capacity.options(demand, ONE, Promise(latency_s=30.0), Capacity(), AT_ONCE)[0]
    assert option.instance_hours_per_day == 24 * option.paid[0] and f"every one of {len(arrivals):,} requests" in option.how
    again = capacity.options(from_requests(arrivals[::-1], window_s=3_500.0), ONE, Promise(latency_s=30.0), Capacity(), AT_ONCE)[0]
    assert again.missed == option.missed  # unsorted rows make no difference


def test_tokens_of_a_trace_are_its_results():
    demand = from_requests(np.array([0.0, 30.0, 90.0]), window_s=120.0, output_tokens=np.array([60.0, 120.0, 240.0]), counts_tokens=True)
    assert demand.minute_rates.tolist() == [3.0, 4.0] and demand.peak_per_s == 4.0


def test_an_empty_trace_is_refused():
    with pytest.raises(BadInput, match="arrivals in seconds"):
        from_requests(np.empty(0))


def test_the_same_seed_gives_the_same_digits_and_another_others():
    demand, kept = from_hours([0.3] * 12 + [0.9] * 12), Promise(latency_s=5.0)

    def missed(seed):
        fleet.stretch.cache_clear(), fleet.needed.cache_clear(), fleet._unit.cache_clear()
        return [option.missed for option in capacity.options(demand, ONE, kept, Capacity(seed=seed), AT_ONCE)]

    assert missed(1) == missed(1) != missed(2)


# -- sharing and break-even -------------------------------------------------------------------


def test_loads_of_models_that_share_add_up():
    assert capacity.shared_copies(ONE, 0.3, 1, Promise()) == 3  # 0.9 of one; four would be 1.2
    assert capacity.shared_copies(ONE, 0.3, 1, Promise(latency_s=3.0)) < 3 and capacity.shared_copies(ONE, 0.99, 1, Promise()) == 0


def test_break_even_by_hand():
    """Twice the price at four times the capacity: half as busy costs the same."""
    assert capacity.break_even(2.0, 4000.0, 1.0, 1000.0) == pytest.approx(0.5)


def test_waiting_makes_nobody_late_where_only_the_time_per_token_is_bounded():
    """Twice the capacity for an hour: steps of 0.1 s stay within 0.2 s per token, however long the queue. With a bound on the first token all wait."""
    service = GenerationService((0.1,) * 8, 0.0, 8 * 212, 1, 128, 84, Grade.ESTIMATED)
    rates, ready = np.full(60, 2 * service.capacity_per_s), np.ones(60, np.int64)
    settings, start = Capacity(), StartUp(60.0, 120.0, 0.0, 0.0)
    assert fleet._by_states(rates, ready, service, Promise(tpot_s=0.2), settings, start) == 0.0
    assert fleet._by_states(rates, ready, service, Promise(tpot_s=0.05), settings, start) == 1.0
    assert fleet._by_states(rates, ready, service, Promise(tpot_s=0.2, ttft_s=1.0), settings, start) == 1.0
