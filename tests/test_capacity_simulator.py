"""The simulator against theory and by hand."""

import heapq
import math

import numpy as np
import pytest
from neuronfit.capacity import queueing
from neuronfit.capacity.arrivals import pieces, poisson
from neuronfit.capacity.compiled import BUCKETS, bucket_edges, serve_loop
from neuronfit.capacity.simulator import Change, generate, simulate
from neuronfit.errors import BadInput

LOADS = (0.5, 0.8, 0.95)
REQUESTS = {0.5: 6_000_000, 0.8: 8_000_000, 0.95: 30_000_000}
"""A queue remembers for about 1 / (1 - load)^2 services, so the error of a mean falls with the requests over that."""


def run(load, servers, draw=None, seed=11):
    """Waiting of a queue with mean service 1; ``draw`` gives the services, without it they are constant."""
    count, rate = REQUESTS[load], load * servers
    stream = poisson([rate], 2.0 * count / rate, seed, most=count)
    generator = np.random.default_rng(seed + 1)
    sizes, kept = [], []
    for piece in stream:
        sizes.append(len(piece))
        kept.append(piece)
    factors = (draw(generator, size) for size in sizes) if draw else None
    return simulate(kept, [1.0], workers=servers, factors=factors, of_wait=True, skip=count // 50)


def exponential(generator, size):
    return generator.standard_exponential(size)


def two_kinds(generator, size):
    """Nine in ten take 0.7, one in ten 3.7, both exponential: mean 1, second moment 2 (0.9 x 0.49 + 0.1 x 13.69) = 3.62."""
    return generator.standard_exponential(size) * np.where(generator.random(size) < 0.9, 0.7, 3.7)


def two_steps(generator, size):
    """Two exponential steps of 0.5 each (Erlang): mean 1, variance 0.5."""
    return generator.standard_gamma(2.0, size) / 2


@pytest.mark.parametrize("load", LOADS)
def test_m_m_1(load):
    out = run(load, 1, exponential)
    assert out.waiting_mean_s == pytest.approx(queueing.mmc_wait_mean(load, 1.0), rel=0.01)
    assert out.quantile_s(0.99) == pytest.approx(queueing.mmc_wait_quantile(load, 1.0, 1, 0.99), rel=0.03)


@pytest.mark.parametrize("load", LOADS)
@pytest.mark.parametrize("servers", [2, 8])
def test_m_m_c(load, servers):
    out = run(load, servers, exponential)
    mean = queueing.mmc_wait_mean(load * servers, 1.0, servers)
    assert out.waiting_mean_s == pytest.approx(mean, rel=0.01)
    assert out.quantile_s(0.99) == pytest.approx(queueing.mmc_wait_quantile(load * servers, 1.0, servers, 0.99), rel=0.03)


@pytest.mark.parametrize("load", LOADS)
def test_m_d_1(load):
    out = run(load, 1)
    assert out.waiting_mean_s == pytest.approx(queueing.md1_wait_mean(load, 1.0), rel=0.01)
    assert out.quantile_s(0.99) == pytest.approx(queueing.md1_wait_quantile(load, 1.0, 0.99), rel=0.03)


@pytest.mark.parametrize(
    "load, draw, variation, start, phases",
    [
        (0.5, two_kinds, 2.62, [0.9, 0.1], [[-1 / 0.7, 0.0], [0.0, -1 / 3.7]]),
        (0.8, two_kinds, 2.62, [0.9, 0.1], [[-1 / 0.7, 0.0], [0.0, -1 / 3.7]]),
        (0.95, two_steps, 0.5, [1.0, 0.0], [[-2.0, 2.0], [0.0, -2.0]]),
    ],
)
def test_m_g_1(load, draw, variation, start, phases):
    out = run(load, 1, draw)
    assert out.waiting_mean_s == pytest.approx(queueing.mg1_wait_mean(load, 1.0, variation), rel=0.01)
    assert out.quantile_s(0.99) == pytest.approx(queueing.mph1_wait_quantile(load, start, phases, 0.99), rel=0.03)


@pytest.mark.parametrize("load", LOADS)
@pytest.mark.parametrize("kind", ["exponential", "hyperexponential", "lognormal"])
def test_waiting_is_that_of_lindley_s_recursion(load, kind):
    """W(n+1) = max(0, W(n) + S(n) - A(n+1)), so W is the sum so far less its least value. The services vary three times their mean at most.

    The same draws, so no tolerance for chance: heavy tails take too many requests for their closed form.
    """
    generator, count = np.random.default_rng(41), 200_000
    gaps, spread = generator.standard_exponential(count) / load, math.sqrt(math.log(10))
    services = {
        "exponential": generator.standard_exponential(count),
        "hyperexponential": two_kinds(generator, count),
        "lognormal": np.exp(spread * generator.standard_normal(count) - spread**2 / 2),  # variation 3: ln(1 + 9)
    }[kind]
    out = simulate(np.cumsum(gaps), [1.0], factors=[services], of_wait=True)
    steps = np.concatenate([[0.0], np.cumsum(services[:-1] - gaps[1:])])
    waits = steps - np.minimum.accumulate(np.minimum(steps, 0.0))
    assert out.waiting_mean_s == pytest.approx(waits.mean(), rel=1e-9)
    assert out.quantile_s(0.99) == pytest.approx(np.quantile(waits, 0.99), rel=0.005)


def by_events(arrivals, table, workers, delay):
    """(waits, latencies, batches) by a list of events: arrival, delay over, worker free. Slow and plain."""
    events = [(at, 0, place) for place, at in enumerate(arrivals)] + [(at + delay, 1, place) for place, at in enumerate(arrivals)]
    heapq.heapify(events)
    queue, free, batches = [], workers, 0
    begun, done = np.zeros(len(arrivals)), np.zeros(len(arrivals))
    while events:
        now = events[0][0]
        while events and events[0][0] == now:
            _, what, place = heapq.heappop(events)
            if what == 0:
                queue.append(place)
            free += what == 2
        while free and queue and (len(queue) >= len(table) or arrivals[queue[0]] + delay <= now):
            batch, queue = queue[: len(table)], queue[len(table) :]
            begun[batch], done[batch] = now, now + table[len(batch) - 1]
            free, batches = free - 1, batches + 1
            heapq.heappush(events, (now + table[len(batch) - 1], 2, -1))
    return begun - arrivals, done - arrivals, batches


def test_batches_workers_and_delays_against_a_list_of_events():
    """Sixty queues from a tenth of their capacity to beyond it."""
    generator = np.random.default_rng(5)
    for _ in range(60):
        most, workers = (int(value) for value in generator.integers(1, [9, 6]))
        table, delay = np.sort(generator.random(most)) * 0.1 + 0.02, float(generator.choice([0, 0.005, 0.03, 0.2]))
        rate = workers * most / table[-1] * generator.choice([0.1, 0.5, 0.9, 1.3])
        arrivals = np.cumsum(generator.standard_exponential(300)) / rate
        waits, latencies, batches = by_events(arrivals, table, workers, delay)
        out = simulate(arrivals, table, workers=workers, delay_s=delay, bound_s=0.1)
        assert out.waiting_mean_s == pytest.approx(waits.mean(), abs=1e-12) and out.latency_mean_s == pytest.approx(latencies.mean(), abs=1e-12)
        assert out.batches == batches and out.missed == (latencies > 0.1).sum()


# -- by hand ----------------------------------------------------------------------------------


def test_three_requests_by_hand():
    """One worker of 2 s: arrivals 0, 1, 5 start at 0, 2, 5 and wait 0, 1, 0."""
    out = simulate(np.array([0.0, 1.0, 5.0]), [2.0])
    assert (out.requests, out.waiting_mean_s, out.latency_mean_s, out.end_s, out.busy_s) == (3, 1 / 3, 2 + 1 / 3, 7.0, 6.0)


def test_a_batch_waits_for_its_delay_or_for_being_full():
    """Batches of up to 3 taking 1 s, delay 0.5: 0.0 and 0.2 start at 0.5; 2.0, 2.1, 2.2 are full at 2.2, before 2.5."""
    out = simulate(np.array([0.0, 0.2, 2.0, 2.1, 2.2]), [1.0, 1.0, 1.0], delay_s=0.5)
    assert out.batches == 2 and out.end_s == pytest.approx(3.2)
    assert out.waiting_mean_s == pytest.approx((0.5 + 0.3 + 0.2 + 0.1 + 0.0) / 5)


def test_without_a_delay_a_free_worker_takes_what_is_there():
    """0.0 alone until 1.0; 0.1 and 0.9 then go together, in a batch of two that takes 1.5 s."""
    out = simulate(np.array([0.0, 0.1, 0.9]), [1.0, 1.5])
    assert out.batches == 2 and out.end_s == 2.5 and out.latency_mean_s == pytest.approx((1.0 + 2.4 + 1.6) / 3)


@pytest.mark.parametrize("batch, workers, instances", [(1, 1, 1), (8, 2, 1), (16, 2, 5)])
def test_batching_at_saturation_is_batch_over_service_time_exactly(batch, workers, instances):
    """Everything waits from the start, so every batch is full: requests / time = workers x batch / latency."""
    rounds, latency = 64, 0.125
    count = rounds * batch * workers * instances
    out = simulate(np.zeros(count), [latency] * batch, workers=workers, instances=instances, delay_s=1.0)
    assert out.end_s == rounds * latency
    assert out.requests_per_s == batch * workers * instances / latency
    assert out.batches == rounds * workers * instances


def test_pieces_make_no_difference():
    """The same arrivals whole and in pieces of 1,000: the same digits, batches across the seams included."""
    arrivals = np.concatenate(list(poisson([90.0], 1000.0, 3, most=50_000)))
    kind = dict(service_s=[0.01, 0.012, 0.014, 0.05], workers=1, delay_s=0.02, bound_s=0.1, bins=(10, 100.0))
    whole, parts = simulate(arrivals, **kind), simulate(pieces(arrivals, 1_000), **kind)
    assert (whole.requests, whole.missed, whole.batches) == (parts.requests, parts.missed, parts.batches) == (50_000, whole.missed, whole.batches)
    assert (
        whole.waiting_mean_s == parts.waiting_mean_s and np.array_equal(whole.histogram, parts.histogram) and np.array_equal(whole.bins, parts.bins)
    )


def test_compiled_and_plain_python_agree():
    arrivals = np.concatenate(list(poisson([3.0], 200.0, 5)))
    table, changes = [0.3, 0.4, 0.7], [Change(20.0, 2), Change(60.0, -1), Change(90.0, 1, failed=True), Change(100.0, 1)]
    out = simulate(arrivals, table, changes=changes, delay_s=0.1, bound_s=0.9)
    histogram, bins, totals = np.zeros(BUCKETS, np.int64), np.zeros((1, 4)), np.zeros(8)
    places = (np.zeros(4), np.zeros(4, np.int64))
    told = ([change.at_s for change in changes], [change.by for change in changes], [change.failed for change in changes])
    used = serve_loop(
        *(arrivals, np.empty(0), True, np.array(table), 0.1, 1, *places, *(np.array(part) for part in told), np.array([1, 0, 0, 0])),
        *(0, 0.9, False, histogram, math.inf, bins, totals),
    )
    assert (
        used == len(arrivals) and totals[5] == out.missed and totals[0] / totals[4] == out.waiting_mean_s and np.array_equal(histogram, out.histogram)
    )


def test_the_histogram_is_within_its_promise():
    values = np.random.default_rng(2).lognormal(-4, 2, 50_000)
    out = simulate(np.arange(50_000) * 1e6, [1.0], factors=[values])
    for q in (0.01, 0.5, 0.9, 0.99, 0.999):
        assert out.quantile_s(q) == pytest.approx(np.quantile(values, q), rel=0.004)
    edges = bucket_edges()
    assert len(edges) == BUCKETS + 1 and (np.diff(edges) > 0).all() and (edges[2:] / edges[1:-1] - 1).max() < 0.004


# -- instances that come and go ---------------------------------------------------------------


def test_an_instance_that_comes_late_and_one_that_drains():
    """Four requests at 0 of 10 s each: one worker, a second from 5 s on: 10, 15, 20, 25."""
    out = simulate(np.zeros(4), [10.0], changes=[Change(5.0, 1)])
    assert out.end_s == 25.0 and out.latency_mean_s == (10 + 15 + 20 + 25) / 4
    # two workers, one drains at 5 s: it finishes what it has at 10, then one worker is left
    out = simulate(np.zeros(4), [10.0], instances=2, changes=[Change(5.0, -1)])
    assert sorted([10.0, 10.0, 20.0, 30.0]) == [10, 10, 20, 30] and out.end_s == 30.0 and out.latency_mean_s == (10 + 10 + 20 + 30) / 4


def test_a_failure_loses_the_work_at_hand_and_the_queue_waits_for_the_repair():
    """The batch of two that runs from 0 to 10 is lost at 4; the third request starts when the instance is back at 30."""
    out = simulate(np.array([0.0, 0.0, 6.0]), [10.0, 10.0], changes=[Change(4.0, 1, failed=True), Change(30.0, 1)])
    assert out.lost == 2 and out.end_s == 40.0


def test_without_any_instance_everything_is_missed():
    out = simulate(np.array([0.0, 1.0]), [1.0], instances=0, bound_s=10.0)
    assert (out.requests, out.missed) == (2, 2) and out.missed_share == 1.0


def test_more_instances_never_make_it_worse():
    arrivals = np.concatenate(list(poisson([8.0], 2_000.0, 9)))
    waits = [simulate(arrivals, [0.1], instances=count).waiting_mean_s for count in (1, 2, 3)]
    assert waits[0] > waits[1] > waits[2] >= 0


# -- arrivals ---------------------------------------------------------------------------------


def test_a_changing_rate_gives_its_own_number_of_arrivals():
    """100/s, 0/s, 300/s for 1,000 s each: 100,000, none, 300,000 within four standard deviations."""
    found = np.concatenate(list(poisson([100.0, 0.0, 300.0], 1_000.0, 4)))
    counts = np.histogram(found, [0, 1_000, 2_000, 3_000])[0]
    assert abs(counts[0] - 100_000) < 4 * 316 and counts[1] == 0 and abs(counts[2] - 300_000) < 4 * 548
    assert (np.diff(found) >= 0).all() and found[-1] <= 3_000
    gaps = np.diff(found[found < 1_000])
    assert gaps.std() / gaps.mean() == pytest.approx(1.0, abs=0.02)  # exponential


def test_the_same_seed_gives_the_same_arrivals_and_another_does_not():
    one, same, other = (np.concatenate(list(poisson([5.0, 9.0], 60.0, seed))) for seed in (1, 1, 2))
    assert np.array_equal(one, same) and not np.array_equal(one[:50], other[:50])


@pytest.mark.parametrize("rates", [[], [-1.0], [math.nan]])
def test_rates_that_are_none_are_refused(rates):
    with pytest.raises(BadInput, match="rates per second"):
        list(poisson(rates, 1.0, 0))


@pytest.mark.parametrize("kind", [dict(service_s=[]), dict(service_s=[0.0]), dict(service_s=[1.0], workers=0), dict(service_s=[1.0], delay_s=-1.0)])
def test_a_service_that_is_none_is_refused(kind):
    with pytest.raises(BadInput):
        simulate(np.zeros(1), **kind)


# -- continuous batching ----------------------------------------------------------------------


def test_one_request_by_hand():
    """100 prompt tokens x 2 ms, then 9 steps of 10 ms: first token after 0.2 s, the last after 0.29 s."""
    out = generate(np.array([5.0]), np.array([100.0]), np.array([10.0]), [0.01], prefill_s=0.002)
    assert out.ttft_s[0] == pytest.approx(0.2) and out.latency_s[0] == pytest.approx(0.29) and out.tpot_s[0] == pytest.approx(0.01)


def test_a_prompt_stops_the_others_of_its_copy():
    """The second prompt of 1 s falls into the first's answer: its last token comes a second later."""
    alone = generate(np.array([0.0]), np.array([1.0]), np.array([101.0]), [0.1, 0.1], prefill_s=1.0)
    beside = generate(np.array([0.0, 5.0]), np.array([1.0, 1.0]), np.array([101.0, 2.0]), [0.1, 0.1], prefill_s=1.0)
    assert alone.latency_s[0] == pytest.approx(1 + 10.0) and beside.latency_s[0] == pytest.approx(1 + 10.0 + 1.0)
    assert beside.ttft_s[1] == pytest.approx(1.0) and beside.latency_s[1] == pytest.approx(1.1)


def test_saturated_slots_give_slots_over_step_time():
    """No prompt to read: every slot gives one token per step, the first token of each comes with the prompt."""
    slots, step, tokens, rounds = 4, 0.02, 51, 25
    out = generate(np.zeros(slots * rounds), np.zeros(slots * rounds), np.full(slots * rounds, float(tokens)), [0.01, 0.015, 0.018, step])
    assert out.end_s == pytest.approx(rounds * (tokens - 1) * step)


def test_the_cache_bounds_the_sequences_at_work():
    """Room for 250 tokens holds two requests of 100: four of them take two rounds although there are four slots."""
    out = generate(np.zeros(4), np.full(4, 50.0), np.full(4, 50.0), [0.1] * 4, cache_tokens=250.0)
    assert sorted(out.latency_s.tolist()) == pytest.approx([4.9, 4.9, 9.8, 9.8])


def test_what_never_fits_is_missed_and_holds_nobody_up():
    out = generate(np.zeros(2), np.array([500.0, 10.0]), np.array([1.0, 2.0]), [0.1], cache_tokens=100.0, latency_bound_s=5.0)
    assert out.never_fits == 1 and out.missed == 1 and np.isnan(out.latency_s[0]) and out.latency_s[1] == pytest.approx(0.1)


def test_one_slot_and_a_prompt_is_m_d_1():
    """One output token and one slot: a constant service of 0.5 s."""
    arrivals = np.concatenate(list(poisson([1.6], 1e9, 21, most=400_000)))
    out = generate(arrivals, np.ones(len(arrivals)), np.ones(len(arrivals)), [1.0], prefill_s=0.5, skip=1_000)
    assert np.mean(out.ttft_s) - 0.5 == pytest.approx(queueing.md1_wait_mean(1.6, 0.5), rel=0.03)


def test_a_second_instance_from_a_moment_on():
    """One slot each, 10 s answers: the third request starts on the second instance when it is ready at 4 s."""
    times = [(0.0, 1), (4.0, 2)]
    out = generate(np.zeros(3), np.zeros(3), np.full(3, 11.0), [1.0], instances=times)
    assert sorted(out.latency_s.tolist()) == pytest.approx([10.0, 14.0, 20.0])


def test_the_bounds_count_each_their_own():
    kind = dict(arrivals_s=np.zeros(2), input_tokens=np.zeros(2), output_tokens=np.full(2, 11.0), step_s=[1.0])
    assert generate(**kind, ttft_bound_s=5.0).missed == 1  # the second waits 10 s
    assert generate(**kind, tpot_bound_s=0.9).missed == 2 and generate(**kind, tpot_bound_s=1.1).missed == 0
    assert generate(**kind, latency_bound_s=15.0).missed == 1
