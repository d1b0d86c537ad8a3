"""Service, scaling and a window of traffic, by hand and against the closed forms."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from example_questions import measured, question, stated
from neuronfit import capacity, compare, memory, utilization
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
    assert GenerationService((0.1,) * 8, 0.0, math.inf, 1, 128, 84, Grade.ESTIMATED).slots == 8  # nothing known bounds nothing
    small = GenerationService((0.1,) * 8, 0.0, 3.5 * 212, 1, 128, 84, Grade.ESTIMATED)
    assert small.slots == 3 and small.capacity_per_s == pytest.approx(3 / 0.1)


LLAMA_8B = {
    "model_type": "llama",
    "architectures": ["LlamaForCausalLM"],
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "vocab_size": 128256,
    "max_position_embeddings": 8192,
    "tie_word_embeddings": False,
}


def llama(tmp_path, *, batch=64, rate=1600.0, tp_degree=2, values=None, **settings):
    """A figure of an 8B Llama on inf2.xlarge (two cores of 16 GiB): 1,024 prompt and 256 output tokens."""
    (tmp_path / "llama.json").write_text(json.dumps(LLAMA_8B))
    config = {"config": str(tmp_path / "llama.json"), "task": "text-generation", "weights": "random"}
    shapes = [{"batch_size": 1, "sequence_length": 1024, "output_length": 256}]
    asked = question(tmp_path, "flan-t5-xl", workload__model=config, workload__shapes=shapes, workload__precision="bf16")
    kind = dict(batch=batch, values={"throughput_per_s": rate, **(values or {})}, sequence_length=1024, output_length=256, precision="bf16")
    row = stated(asked, "inf2-24", **{**kind, **settings}, tp_degree=tp_degree).model_copy(update={"result_unit": "token"})
    return asked, row


def test_the_cache_of_a_llama_by_hand(tmp_path):
    """2 x 32 layers x 8 heads x 128 x 2 bytes = 131,072 a token, half of it on each of two cores.

    A core: 0.9 x 16 GiB, less 96 MiB of reserve, 8,030,261,248 of weights (half of 8.03 billion parameters) and half of the activations of
    the prompt: 2 bytes x (logits 1,024 x 128,256 + one layer). The reserve and the layer are those of step 2.
    """
    asked, row = llama(tmp_path)
    found = capacity.from_rows(asked, "inf2.xlarge", "nxd_inference", [], row)
    activations = memory.needed(memory.describe(LLAMA_8B), 1, 1024, "bf16").activations_bytes
    left = 0.9 * 16 * 2**30 - 96 * 2**20 - 8_030_261_248 - activations / 2
    assert found.cache_tokens == pytest.approx(left / 65_536, rel=1e-6) and 105_000 < found.cache_tokens < 110_000
    assert found.slots == 64  # 83 of 1,280 tokens fit, its figure had 64
    longer = found.at([(4000.0, 1000.0)])
    assert longer.slots == int(left / 65_536 / 5000) == 21 and longer.grade is Grade.ESTIMATED


def test_the_cache_binds_in_the_simulation(tmp_path):
    """21 of 5,000 tokens at a time: 63 at once take three rounds of 999 steps, although there are 64 slots."""
    asked, row = llama(tmp_path)
    found = capacity.from_rows(asked, "inf2.xlarge", "nxd_inference", [], row)
    out = capacity.generate(np.zeros(63), np.full(63, 4000.0), np.full(63, 1000.0), found.step_s, cache_tokens=found.cache_tokens)
    step = 64 / 1600.0
    assert np.unique(out.latency_s.round(6)).tolist() == pytest.approx([999 * step, 2 * 999 * step, 3 * 999 * step])


def test_a_figure_held_at_least_what_it_had_at_work(tmp_path):
    """128 at a time are 163,840 tokens, more than the formula leaves: the figure is the better witness, and it is said."""
    asked, row = llama(tmp_path, batch=128)
    found = capacity.from_rows(asked, "inf2.xlarge", "nxd_inference", [], row)
    assert found.cache_tokens == 163_840 and any("163,840 are taken" in sentence for sentence in found.said)
    asked, row = llama(tmp_path, tp_degree=None)
    found = capacity.from_rows(asked, "inf2.xlarge", "nxd_inference", [], row)
    assert any("states no tensor-parallel degree: 2 is taken" in sentence for sentence in found.said)  # one core cannot hold 16 GB


def test_a_figure_at_other_lengths_by_hand(tmp_path):
    """64 x 256 / 1,600 = 10.24 s a round; 64 prompts of 32 ms are 2.048 s of it, so a step takes 8.192 / 256 = 32 ms.

    At 2,048 and 128 tokens: 64 x 64 ms + 128 x 32 ms = 8.192 s, in which 64 x 128 tokens are written: 1,000/s.
    """
    asked, row = llama(tmp_path, values={"ttft_p50_s": 0.032, "tpot_p50_s": 0.04})
    found = capacity.from_rows(asked, "inf2.xlarge", "nxd_inference", [], row, [(2048.0, 128.0)])
    assert found.prefill_s == pytest.approx(0.032 / 1024) and found.step_s[-1] == pytest.approx(0.032)
    assert found.cache_tokens > 64 * 2176 * 0.7 and found.copies == 1
    roomy = replace(found, cache_tokens=1e9)
    assert roomy.slots == 64 and roomy.capacity_per_s == pytest.approx(1000.0) and roomy.results_per_request == 128
    assert roomy.grade is Grade.ESTIMATED and "reads 1,024 and writes 256 tokens a request, the traffic 2,048 and 128" in roomy.reckoned
    alike = capacity.from_rows(asked, "inf2.xlarge", "nxd_inference", [], row, [(1000.0, 260.0)])
    assert not alike.reckoned and alike.grade is row.grade and alike.input_tokens == 1000


def test_without_a_time_to_first_token_that_of_a_token_leaves_the_prompts(tmp_path):
    """A round of 10.24 s with 256 steps of 30 ms leaves 2.56 s for 64 prompts: 40 ms each. Within 5 % it is taken for noise."""
    asked, row = llama(tmp_path, values={"tpot_p50_s": 0.03})
    found = capacity.from_rows(asked, "inf2.xlarge", "nxd_inference", [], row)
    assert found.prefill_s * 1024 == pytest.approx(0.04) and found.step_s[-1] == pytest.approx(0.03) and found.capacity_per_s == pytest.approx(1600)
    asked, row = llama(tmp_path, values={"tpot_p50_s": 0.0395})
    found = capacity.from_rows(asked, "inf2.xlarge", "nxd_inference", [], row, [(9000.0, 256.0)])
    assert found.prefill_s == 0 and "a longer prompt costs nothing more" in found.reckoned


def test_figures_of_other_output_lengths_give_the_same_step(tmp_path):
    """8 at a time: 8 x 512 tokens at 400/s are 10.24 s, 20 ms a step; without its own length it would be 40 ms."""
    asked, row = llama(tmp_path)
    _, other = llama(tmp_path, batch=8, rate=400.0, output_length=512)
    found = capacity.from_rows(asked, "inf2.xlarge", "nxd_inference", [other], row)
    assert found.step_s[7] == pytest.approx(0.02) and found.step_s[63] == pytest.approx(0.04)


def test_requests_of_a_trace_are_stood_for_by_some_of_them():
    """5,000 requests: a thousand keep both means and the tail; a tenth of them writes 2,000 tokens."""
    generator = np.random.default_rng(3)
    outputs = np.where(np.arange(5000) % 10 == 0, 2000.0, 100.0)
    prompts = generator.integers(1, 4000, 5000).astype(float)
    found = np.array(from_requests(np.arange(5000.0), input_tokens=prompts, output_tokens=outputs, counts_tokens=True).lengths)
    assert found.shape == (1000, 2) and found.mean(axis=0) == pytest.approx([prompts.mean(), 290.0]) and (found[:, 1] > 1999).sum() == 100
    assert np.corrcoef(found.T)[0, 1] == pytest.approx(np.corrcoef(prompts, outputs)[0, 1], abs=0.07)


def test_a_trace_at_another_rate_keeps_its_lengths():
    """Half as much again of 60 tokens a request: as many tokens a request, and the request is the one that is late, not its mean."""
    demand = from_requests(np.arange(600.0), input_tokens=np.full(600, 10.0), output_tokens=np.tile([20.0, 100.0], 300), counts_tokens=True)
    service = GenerationService((0.1,), 0.0, math.inf, 1, 10, 84, Grade.ESTIMATED).at(demand.lengths)
    assert (
        service.output_tokens == 60
        and demand.times(1.5).lengths == demand.lengths
        and fleet._requests(demand.times(1.5), service) == pytest.approx(900)
    )
    plan = fixed(10, 200, Capacity())
    found = fleet.evaluate(demand.times(1.5), service, Promise(latency_s=5.0), Capacity(), AT_ONCE, plan)
    assert found.missed == pytest.approx(0.5, abs=0.05)  # 99 steps of 0.1 s for every second one; 59 for the mean


def test_a_longer_request_than_the_cache_is_late_and_does_not_spoil_the_others():
    """Three in a hundred never fit: they are late and wait for ever, so the p99 is infinite and the median that of the others."""
    lengths = [(10.0, 11.0)] * 97 + [(10.0, 2000.0)] * 3
    service = GenerationService((0.1,) * 4, 0.0, 500.0, 1, 10, 11, Grade.ESTIMATED).at(lengths)
    found = capacity.stretch(service, 0.02 * service.capacity_per_s, 1, Promise(latency_s=60.0))
    assert found.missed == pytest.approx(0.03, abs=0.004) and found.p50_s == pytest.approx(1.0, abs=0.1) and found.p99_s == math.inf
    assert any("3.00% of the requests are longer" in sentence for sentence in service.said)


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


def test_what_is_left_of_a_fleet_carries_the_peak():
    """Any zone lost, or any one instance with N+1: as many as are needed are left, and one fewer a zone would not do."""
    for zones in range(2, 7):
        for needed in range(1, 60):
            count = spread(needed, Capacity(zones=zones))
            assert count % zones == 0 and count - count // zones >= needed
            assert (count - zones) - (count // zones - 1) < needed
    assert all(spread(needed, Capacity(redundancy=1)) - 1 == needed for needed in range(1, 60))


def test_a_fleet_over_three_zones_keeps_the_objective_with_one_lost():
    """M/D/c at the peak: needed 5, spread over three zones 9; 6 keep it, 4 do not."""
    kept, rate = Promise(latency_s=1.9), 4.0
    needed = capacity.needed(ONE, rate, kept)
    count = spread(needed, Capacity(zones=3))
    left = count - count // 3
    assert count > needed and capacity.stretch(ONE, rate, left, kept, requests=200_000).missed <= 0.01
    assert capacity.stretch(ONE, rate, needed - 1, kept, requests=200_000).missed > 0.01


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


def test_a_large_fleet_is_filled_before_it_is_judged():
    """2,000 instances of 16 sequences at 98 % load: a sequence takes about a full round, 50 x 0.1 s, not the 2 s of an empty copy."""
    service = GenerationService(tuple(0.04 + 0.00375 * k for k in range(1, 17)), 0.0, math.inf, 1, 1, 51, Grade.ESTIMATED)
    found = capacity.stretch(service, 0.98 * 2000 * service.capacity_per_s, 2000, Promise(latency_s=60.0))
    assert 0.9 * 50 * 0.1 < found.p50_s < 1.02 * 50 * 0.1


def test_a_batch_that_never_fills_waits_its_delay_out():
    """One request a second waits 25 ms for a batch of eight, whatever the fleet: 20 ms cannot be kept. At 2,000/s eight are there in 4 ms."""
    service = BatchService((0.001,) * 8, 4, 0.0, Grade.MEASURED)
    kept = Promise(latency_s=0.02)
    assert capacity.needed(service, 1.0, kept, 0.025) is None and capacity.needed(service, 1.0, kept, 0.015) == 1
    assert capacity.needed(service, 2000.0, kept, 0.025) == 1


def test_no_traffic_at_all_is_an_answer():
    demand = from_hours([0.0] * 24)
    for option in capacity.options(demand, ONE, Promise(latency_s=5.0), Capacity(), AT_ONCE):
        assert (option.paid.max(), option.busy, option.missed, option.idle) == (1, 0.0, 0.0, 1.0)
    assert capacity.shared_copies(ONE, 0.0, 1, Promise(latency_s=5.0)) == 16


# -- a window ---------------------------------------------------------------------------------


def test_a_fixed_fleet_by_hand():
    """2/s on average and 3/s at the peak, one a second each: 4 instances (3 would be at full load), 96 hours a day, half of it busy."""
    demand = from_hours([1.0] * 12 + [3.0] * 12)
    found = {option.name: option for option in capacity.options(demand, ONE, Promise(latency_s=60.0), Capacity(), AT_ONCE)}
    option = found["fixed"]
    assert set(option.paid) == {4} and option.instance_hours_per_day == pytest.approx(96) and option.busy == pytest.approx(0.5, rel=1e-6)
    assert option.instance_hours_per_month == pytest.approx(4 * 730) and option.idle == pytest.approx(0.5, rel=1e-6) and option.missed < 0.01
    assert found["scheduled"].instance_hours_per_day < 80 and found["target_tracking"].busy <= 0.62


def test_a_declared_fleet_stands_beside_what_is_needed():
    """3/s at the peak, 1/s each: 4 are needed, 6 are declared. 6 x 24 h, and 2/s on average are a third of them."""
    demand = from_hours([1.0] * 12 + [3.0] * 12)
    found = capacity.options(demand, ONE, Promise(latency_s=60.0), Capacity(), AT_ONCE, declared=6)
    assert [option.name for option in found] == ["declared", "fixed", "scheduled", "target_tracking"]
    assert found[0].instance_hours_per_day == 144 and found[0].busy == pytest.approx(1 / 3, rel=1e-6) and set(found[1].paid) == {4}
    quick = capacity.options(demand, ONE, Promise(latency_s=60.0), Capacity(scaling="scheduled"), AT_ONCE, declared=6, quick=True)
    assert [option.name for option in quick] == ["declared", "scheduled"] and quick[0] is not found[0] and quick[0].missed == found[0].missed


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
