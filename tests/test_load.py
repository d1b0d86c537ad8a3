"""Load: arrivals as pure functions, the figures derived from requests, the audit of the generator, and open against closed loop."""

import asyncio
import gc
import json
import math
import time
import weakref

import numpy as np
import pytest
from neuronfit import served, stats
from neuronfit.errors import BadInput
from neuronfit.load import arrivals, audit, generator, prompts, scenarios
from neuronfit.load.generator import Control, Request, Response, Sent, closed_loop, open_loop, run
from neuronfit.params import Endpoint, Objective, Shape
from neuronfit.provenance import Measured
from neuronfit.record import Measurement, Run, Settings, WorkloadRef
from neuronfit.served import Load, Requests
from neuronfit.system import System
from scipy.stats import kstest
from servers import serving


def drawn(*seed):
    return np.random.default_rng(seed)


# -- arrivals ---------------------------------------------------------------------------------


def test_poisson_meets_the_rate_and_its_gaps_are_exponential():
    offsets = arrivals.poisson(50, 200, drawn(7))
    assert len(offsets) == 10_000 and (np.diff(offsets) > 0).all() and 0 < offsets[0] and offsets[-1] < 200
    assert len(offsets) / 200 == pytest.approx(50, rel=0.02)
    assert kstest(np.diff(offsets) * 50, "expon").pvalue > 0.01


def test_each_gap_of_a_run_has_the_distribution_of_a_poisson_process_of_so_many_arrivals():
    """Given its number of arrivals n, a gap x of a Poisson process in T has P(gap > x) = (1 - x / T)^n: the first, any, the last."""
    runs = [np.diff([0.0, *arrivals.poisson(20, 2, drawn(number)), 2.0]) for number in range(2000)]
    for place in (0, 17, 40):
        chances = [1 - (1 - run[place] / 2) ** 40 for run in runs]
        assert kstest(chances, "uniform").pvalue > 0.001
    assert abs(np.corrcoef([run[3] for run in runs], [run[4] for run in runs])[0, 1]) < 0.08, "neighbours know nothing of each other"


def test_poisson_counts_in_a_second_scatter_like_poisson():
    """Variance of the counts over their mean: 1 for Poisson, 0 for constant gaps (standard error 0.03 here)."""
    counts = np.bincount(arrivals.poisson(30, 2000, drawn(3)).astype(int), minlength=2000)
    assert counts.var() / counts.mean() == pytest.approx(1, abs=0.1)


def test_the_same_seed_gives_the_same_arrivals_and_another_gives_others():
    assert np.array_equal(arrivals.poisson(9, 9, drawn(1, 0)), arrivals.poisson(9, 9, drawn(1, 0)))
    assert not np.allclose(arrivals.poisson(9, 9, drawn(1, 0)), arrivals.poisson(9, 9, drawn(1, 1)))


def test_constant_arrivals_and_a_replayed_trace():
    assert arrivals.constant(4, 1).tolist() == [0, 0.25, 0.5, 0.75]
    assert arrivals.replay([100.0, 100.5, 103.0]).tolist() == [0, 0.5, 3.0]
    assert arrivals.replay([100.0, 100.5, 103.0], duration_s=3).tolist() == [0, 0.5]


@pytest.mark.parametrize("times", [[], [1.0, 0.5], [1.0, math.nan]])
def test_a_trace_that_cannot_be_replayed_is_refused_in_one_line(times):
    with pytest.raises(BadInput) as error:
        arrivals.replay(times)
    assert "\n" not in str(error.value)


def test_the_check_sees_gaps_repeated_ten_times():
    """What one public tool sends as Poisson: each gap ten times."""
    gaps = np.repeat(drawn(1).exponential(1 / 20, 60), 10)
    times = np.cumsum(gaps)
    found = arrivals.check([times], [times], 20, float(times[-1]), exponential=True)
    assert found.repeated == pytest.approx(0.9, abs=0.01)
    honest = arrivals.poisson(20, 30, drawn(2))
    found = arrivals.check([honest], [honest], 20, 30, exponential=True)
    assert found.repeated == 0 and found.ks_p > 0.01 and found.achieved_rate_per_s == pytest.approx(20)


def test_the_check_sees_constant_gaps_and_a_missed_rate():
    times = arrivals.constant(20, 30)
    assert arrivals.check([times], [times], 20, 30, exponential=True).ks_p < 1e-6
    slow = times * 1.1
    assert arrivals.check([times], [slow], 20, 30, exponential=False).achieved_rate_per_s == pytest.approx(20 / 1.1, rel=0.01)


# -- figures from requests --------------------------------------------------------------------

REF = WorkloadRef(name="tiny", fingerprint="0" * 16)


def measurement(*tables, load=None, **changes):
    runs = tuple(
        Run(start_utc="2026-11-30T00:00:00Z", duration_s=10.0, values_s=tuple(table.latency_s(place) for place in table.answered()), requests=table)
        for table in tables
    )
    given = {"result_unit": "token", "results_per_call": 3, "scenario": "generate"} | changes
    return Measurement(
        workload=REF,
        source=Measured(host="h", clock="c"),
        target="t",
        system=System(host="h"),
        settings=Settings(),
        latency_of="request",
        runs=runs,
        load=load or Load(arrivals="closed", concurrency=1, tokens_from="usage", objective_s={"latency": 0.5}),
        **given,
    )


TABLE = Requests(
    intended_s=(0.0, 1.0, 2.0, 3.0),
    sent_s=(0.01, 1.2, 2.0, 3.0),
    first_s=(0.1, 1.3, None, 3.05),
    end_s=(0.3, 1.7, 2.5, 3.05),
    input_tokens=(10, 20, None, 30),
    output_tokens=(3, 5, None, 1),
    gaps_s=((0.1, 0.1), (0.1, 0.1, 0.1, 0.1), (), ()),
    prompt=(0, 1, 2, 2),
    errors={2: "http 500: no"},
)
"""Four requests: 300 ms; 700 ms of which 200 before it was sent; one that failed; one of a single token."""


def test_latency_and_ttft_count_from_the_intended_time_and_tpot_leaves_the_first_token_out():
    record = measurement(TABLE)
    assert record.quantity("latency_mean_s").value == pytest.approx((0.3 + 0.7 + 0.05) / 3)
    assert record.quantity("ttft_mean_s").value == pytest.approx((0.1 + 0.3 + 0.05) / 3)
    assert record.quantity("tpot_mean_s").value == pytest.approx((0.2 / 2 + 0.4 / 4) / 2)
    assert record.quantity("itl_mean_s").value == pytest.approx(0.1)
    assert TABLE.service_s(1) == pytest.approx(0.5)


def test_rates_count_what_was_answered_over_the_time_of_the_run():
    record = measurement(TABLE)
    assert record.quantity("requests_per_s").value == pytest.approx(0.3)
    assert record.quantity("output_tokens_per_s").value == record.quantity("throughput_per_s").value == pytest.approx(0.9)
    assert record.quantity("input_tokens_per_s").value == pytest.approx(6)
    assert measurement(TABLE, result_unit="inference").quantity("throughput_per_s").value == pytest.approx(0.9), "3 results a call"


def test_goodput_is_of_all_requests_and_failures_are_not_good():
    record = measurement(TABLE)
    good, failed = record.quantity("goodput_fraction"), record.quantity("error_fraction")
    assert good.value == 0.5 and failed.value == 0.25
    # Clopper-Pearson for 1 of 4, from a table: 0.0063 to 0.8059
    assert (failed.low, failed.high) == (pytest.approx(0.0063, abs=1e-4), pytest.approx(0.8059, abs=1e-4))
    assert not measurement(TABLE, load=Load(arrivals="closed")).quantity("goodput_fraction").known


def test_a_percentile_below_its_sample_size_is_absent_and_above_it_has_an_interval():
    assert "p99 needs 299" in measurement(TABLE).quantity("latency_p99_s").why
    many = Requests(intended_s=tuple(range(400)), sent_s=(None,) * 400, first_s=(None,) * 400, end_s=tuple(n + (n + 1) / 1000 for n in range(400)))
    found = measurement(many).quantity("latency_p99_s")
    assert found.low <= found.value <= found.high and found.value == pytest.approx(0.396, abs=0.001) and found.confidence == 0.95
    assert measurement(many).quantity("ttft_p50_s").why == "the answers were not streamed"
    assert not measurement(many).quantity("throughput_per_s").known, "tokens are not counted"


def test_an_open_loop_says_nothing_about_throughput_unless_its_rate_was_searched():
    load = Load(arrivals="poisson", rate_per_s=4.0)
    assert "open loop at 4/s" in measurement(TABLE, load=load).quantity("throughput_per_s").why
    assert measurement(TABLE, load=load).quantity("requests_per_s").value == pytest.approx(0.3)
    assert measurement(TABLE, load=load.model_copy(update={"searched": True})).quantity("throughput_per_s").value == pytest.approx(0.9)


def test_figures_that_lean_on_chunks_say_so():
    chunks = measurement(TABLE, load=Load(arrivals="closed", tokens_from="chunks"))
    for name in ("itl_mean_s", "tpot_mean_s", "output_tokens_per_s"):
        assert "each chunk is taken for one" in chunks.quantity(name).why
    merged = TABLE.model_copy(update={"gaps_s": ((0.2,), (0.1, 0.1, 0.1, 0.1), (), ())})
    assert "several tokens" in measurement(merged).quantity("itl_mean_s").why
    assert measurement(TABLE).quantity("itl_mean_s").why is None


def test_requests_survive_json_without_loss():
    record = measurement(TABLE).sealed()
    from neuronfit import record as records

    again = records.read(record.to_json())
    assert again == record and again.runs[0].requests.errors == {2: "http 500: no"}


def test_lists_of_unequal_length_are_refused():
    with pytest.raises(ValueError, match="first_s has 1 entries, intended_s has 2"):
        Requests(intended_s=(0.0, 1.0), sent_s=(0.0, 1.0), first_s=(None,), end_s=(1.0, 2.0))


# -- the generator ----------------------------------------------------------------------------


def ask(count):
    return [Request(number, f"prompt {number}") for number in range(count)]


def test_an_open_loop_does_not_wait_for_answers_and_a_closed_one_does():
    """Service 50 ms, 20 requests due every 10 ms. Open: one after the other 10 ms apart. Closed: 50 ms apart."""
    seen = []

    async def answer(request, response):
        seen.append(time.perf_counter())
        await asyncio.sleep(0.05)
        response.end = time.perf_counter()

    opened = run(lambda control: open_loop(answer, ask(20), arrivals.constant(100, 0.2), control, window_s=0.2), window_s=0.2)
    assert [response.prompt for response in opened.responses] == list(range(20)) and all(response.answered for response in opened.responses)
    assert opened.most_in_flight >= 4 and seen[-1] - seen[0] < 0.4
    seen.clear()
    closed = run(lambda control: closed_loop(answer, iter(ask(6)), control, concurrency=1, duration_s=60), window_s=60)
    assert closed.most_in_flight == 1 and all(b - a >= 0.049 for a, b in zip(seen, seen[1:])) and len(seen) == 6


def test_latency_of_an_open_loop_includes_the_wait_for_a_late_client():
    """The first request blocks the loop for 200 ms: the second, due in the middle, is charged with the rest of it."""

    async def answer(request, response):
        if request.prompt == 0:
            time.sleep(0.2)
        response.end = time.perf_counter()

    sent = run(lambda control: open_loop(answer, ask(2), [0.0, 0.1], control, window_s=0.2), window_s=0.2)
    late = sent.responses[1]
    assert late.end - late.intended > 0.08 and late.end - late.started < 0.05
    counted = audit.audit([sent], audit.Expected("constant", rate_per_s=10))
    assert counted.lag_p99_s > 0.08


def test_what_a_client_raises_is_the_outcome_of_that_request_only():
    async def answer(request, response):
        if request.prompt % 3 == 0:
            raise RuntimeError("refused\nwith details")
        response.end = time.perf_counter()

    sent = run(lambda control: open_loop(answer, ask(9), arrivals.constant(200, 9 / 200), control, window_s=0.05), window_s=0.05)
    assert [response.error for response in sent.responses[:3]] == ["RuntimeError: refused", None, None]
    assert sum(response.answered for response in sent.responses) == 6


def test_answers_that_never_come_are_lost_and_counted():
    async def answer(request, response):
        await asyncio.sleep(0 if request.prompt else 30)
        response.end = time.perf_counter()

    sent = run(lambda control: open_loop(answer, ask(5), [0.0] * 5, control, window_s=0.05, drain_s=0.1), window_s=0.05)
    counted = audit.audit([sent], audit.Expected("constant", rate_per_s=100))
    assert (counted.asked, counted.answered, counted.failed, counted.lost) == (5, 4, 0, 1)
    assert sent.responses[0].end is None and sent.responses[0].error is None
    invalid, _, _ = audit.judge([sent], counted, audit.Expected("constant", rate_per_s=100))
    assert "responses_lost" in [finding.code for finding in invalid]


def test_stopping_keeps_what_was_answered():
    async def answer(request, response):
        await asyncio.sleep(0.01 if request.prompt < 3 else 30)
        response.end = time.perf_counter()

    control = Control()
    stopped = []

    def watch(now):
        if now.finished >= 3 and now.started >= 5 and not stopped:
            stopped.append(True)
            raise KeyboardInterrupt

    sent = run(
        lambda control: open_loop(answer, ask(500), arrivals.constant(100, 5), control, window_s=5), window_s=5, control=control, progress=watch
    )
    assert sent.interrupted and sum(response.answered for response in sent.responses) == 3
    assert {response.error for response in sent.responses if not response.answered} == {generator.INTERRUPTED}
    assert len(sent.responses) < 500, "what was never due is not a response"


def test_an_open_loop_gives_up_when_the_server_is_hopelessly_behind():
    async def answer(request, response):
        await asyncio.sleep(30)

    sent = run(lambda control: open_loop(answer, ask(300), arrivals.constant(300, 1), control, window_s=1, most_in_flight=20), window_s=1)
    assert sent.overloaded and len(sent.responses) < 100 and audit.overloaded(sent)


def test_requests_are_made_when_due_and_let_go_when_answered():
    """100 requests over 0.5 s: when the tenth is answered few of the later ones exist, and none that was answered is held."""
    made, alive, seen = [], [], {}

    def requests():
        for number in range(100):
            made.append(number)
            yield Request(number)

    async def answer(request, response):
        alive.append(weakref.ref(request))
        response.end = time.perf_counter()
        if request.prompt == 10:
            seen["made"], seen["alive"] = len(made), sum(one() is not None for one in alive)

    offsets = arrivals.constant(200, 0.5)
    sent = run(lambda control: open_loop(answer, requests(), offsets, control, window_s=0.5, keep=False), window_s=0.5)
    assert sent.responses == () and len(alive) == 100 and sum(one() is not None for one in alive) == 0
    assert seen["made"] < 60 and seen["alive"] < 10
    kept = run(lambda control: open_loop(answer, requests(), offsets, control, window_s=0.5), window_s=0.5)
    assert [response.prompt for response in kept.responses] == list(range(100)) and all(response.answered for response in kept.responses)


def test_a_request_that_cannot_be_made_ends_the_load_with_its_error():
    def requests():
        yield Request(0)
        raise ValueError("line 2 of the file is none")

    async def answer(request, response):
        response.end = time.perf_counter()

    with pytest.raises(ValueError, match="line 2 of the file"):
        run(lambda control: open_loop(answer, requests(), [0.0, 0.01], control, window_s=0.02), window_s=0.02)


def test_cycles_of_a_long_load_do_not_pile_up():
    """Each of 600 requests leaves 100 objects that only the collector frees; it does not run by itself meanwhile."""

    class Knot:
        pass

    knots = weakref.WeakSet()
    most = 0

    async def answer(request, response):
        nonlocal most
        assert not gc.isenabled()
        for _ in range(100):
            knot = Knot()
            knot.own = knot
            knots.add(knot)
        most = max(most, len(knots))
        response.end = time.perf_counter()

    assert gc.isenabled()
    sent = run(lambda control: open_loop(answer, ask(600), arrivals.constant(200, 3), control, window_s=3), window_s=3)
    assert gc.isenabled() and len(sent.responses) == 600
    assert most < 30_000, "of 60,000"


def test_a_closed_loop_stops_asking_a_server_that_only_fails():
    async def answer(request, response):
        raise RuntimeError("down")

    sent = run(lambda control: closed_loop(answer, iter(ask(10_000)), control, concurrency=2, duration_s=30, give_up_after=20), window_s=30)
    assert 20 <= len(sent.responses) <= 22


# -- open against closed, on a server that stalls ---------------------------------------------


def line_to(server, **endpoint):
    given = {"url": server.url, "api": "json", "body": {"inputs": "{prompt}"}} | endpoint
    return scenarios.Line(Endpoint(**given), prompts.synthetic((4,)), Shape(batch_size=1, sequence_length=4))


def exact_latency(due, started, period=1.0, stall=0.1, service=0.001):
    """Of a request due at ``due`` on the server's clock: nothing is answered in the last tenth of each second."""
    phase = (due - started) % period
    return (period - phase if phase > period - stall else 0.0) + service


def test_the_open_loop_sees_the_stall_and_the_closed_loop_does_not():
    """The server stalls for 100 ms every second (a tenth of 1 s every 10 s). Arrivals are spread evenly, so 1 % of the
    requests wait longer than 90 ms: p99 = 100 - 10 + 1 ms. A client that waits for each answer meets one stall a second."""
    with serving("stalling", period_s=1.0, stall_s=0.1, service_s=0.001) as server:
        plan = scenarios.Plan("server", duration_s=4.0, runs=1, arrivals="constant")
        opened = scenarios.at_rate(line_to(server), plan, 149.3, warm=False)
        closed = scenarios.at_concurrency(line_to(server), scenarios.Plan("single_stream", duration_s=3.0, runs=1), 1)
        log = server.log()
    assert len(opened.answered) == 597
    found = stats.percentile([response.end - response.intended for response in opened.answered], 0.99)
    truth = stats.percentile([exact_latency(response.intended, log["started"]) for response in opened.answered], 0.99)
    assert truth == pytest.approx(0.091, rel=0.03), "the schedule is even, so the exact value is the one worked out by hand"
    # 5 % of it, and what this host adds: the server's log says when the answer left
    by_log = {entry["id"]: entry["sent"][0] for entry in log["requests"][: len(opened.answered)]}
    served_late = [
        by_log[str(response.number)] - response.intended - exact_latency(response.intended, log["started"]) for response in opened.answered
    ]
    assert found == pytest.approx(truth, rel=0.05, abs=max(0.0, stats.percentile(served_late, 0.99)) + 0.002)
    wrong = stats.percentile([response.end - response.intended for response in closed.answered], 0.99)
    assert wrong < truth / 2, "the closed loop hides the stall"


def test_realised_gaps_of_a_measured_load_are_poisson_at_the_rate():
    with serving("stalling", stall_s=0.0, period_s=1.0, service_s=0.0) as server:
        taken = scenarios.at_rate(line_to(server), scenarios.Plan("server", duration_s=6.0, runs=2), 50.0, warm=False)
        arrived = [sorted(entry["arrived"] for entry in server.log()["requests"])]
    counted = audit.audit(taken.runs, audit.Expected("poisson", rate_per_s=50.0))
    assert (counted.asked, counted.answered) == (300, 300) and len(arrived[0]) == 300
    assert counted.achieved_rate_per_s == pytest.approx(50, rel=0.02)
    assert counted.gap_ks_p > audit.BY_CHANCE and counted.repeated_gaps == 0
    gaps = np.concatenate([np.diff(arrived[0][:150]), np.diff(arrived[0][150:])])
    assert kstest(gaps * 50, "expon").pvalue > audit.BY_CHANCE, "as the server's own log has it"


# -- the audit --------------------------------------------------------------------------------


def sent_of(latencies, *, rate=10.0, window=None, lag=0.0, busy=0.1, chunk=False, **changes):
    """A finished open loop, made by hand: request i due at i / rate, answered after its latency."""
    responses = []
    for number, latency in enumerate(latencies):
        due = 100.0 + number / rate
        response = Response(number, number, due, started=due + lag, sent=due + lag)
        response.end = None if latency is None else due + latency
        responses.append(response)
    window = window or len(latencies) / rate
    values = dict(
        responses=tuple(responses), begin=100.0, end=100.0 + window, window_s=window, cpu_s=0.1, busy=busy, most_in_flight=5, interrupted=False
    )
    return Sent(**(values | changes))


def judged(sent, **expected):
    given = audit.Expected(**({"arrivals": "constant", "rate_per_s": 10.0} | expected))
    counted = audit.audit([sent], given)
    invalid, known, at_rest = audit.judge([sent], counted, given)
    return [finding.code for finding in invalid], [finding.code for finding in known], at_rest


def test_a_clean_run_is_valid():
    assert judged(sent_of([0.05] * 400)) == ([], [], True)


def test_too_few_answers_for_the_percentile_asked_for_make_it_invalid_and_otherwise_are_noted():
    assert judged(sent_of([0.05] * 200), percentile=0.99)[0] == ["few_samples"]
    assert judged(sent_of([0.05] * 200))[:2] == ([], ["few_samples_p99"])
    assert "few_samples" in judged(sent_of([0.05] * 5))[0]


def test_a_run_shorter_than_five_latencies_is_too_short():
    assert judged(sent_of([9.0] * 400), rate_per_s=10.0)[0].count("run_too_short") == 1
    assert "run_too_short" not in judged(sent_of([7.9] * 400))[0]


def test_a_busy_client_and_a_late_one_are_told_apart():
    assert judged(sent_of([0.05] * 400, busy=0.9))[0] == ["client_bound"]
    assert judged(sent_of([0.05] * 400, lag=0.004))[0] == ["schedule_late"]
    assert judged(sent_of([0.5] * 400, lag=0.004))[0] == [], "4 ms of 500 is within 5 %"


def test_a_missed_rate_is_seen():
    slow = sent_of([0.05] * 400, rate=9.0, window=40.0)
    assert "rate_missed" in judged(slow)[0]


def test_overload_is_a_queue_that_grows_and_not_a_burst():
    growing = [0.01 * number for number in range(400)]  # each waits 10 ms longer: 10 % more arrives than is served
    invalid, _, at_rest = judged(sent_of(growing))
    assert "overloaded" in invalid and at_rest is False
    burst = [0.05] * 180 + [2.0] * 20 + [0.05] * 200
    assert judged(sent_of(burst))[0] == []


def test_a_queue_at_rest_at_ninety_per_cent_load_is_not_overload():
    """M/M/1 by Lindley's recursion, 20 runs of 1,000 requests; the backlog test may err once."""
    wrong = 0
    for seed in range(20):
        random = drawn(seed)
        gaps, service = random.exponential(1.0, 1000), random.exponential(0.9, 1000)
        wait, latencies = 0.0, []
        for gap, need in zip(gaps, service):
            wait = max(0.0, wait - gap)
            latencies.append(wait + need)
            wait += need
        due = np.cumsum(gaps)
        sent = sent_of(latencies, window=float(due[-1]))
        for response, moment in zip(sent.responses, due):
            response.end += 100.0 + moment - response.intended
            response.intended = response.started = 100.0 + moment
        wrong += audit.overloaded(sent)
    assert wrong <= 1


def test_waiting_for_a_connection_and_repeated_prompts_are_counted():
    sent = sent_of([0.05] * 400)
    for response in sent.responses[:40]:
        response.waited_for_connection = True
    assert judged(sent, max_connections=4)[0] == ["connection_cap"]
    again = sent_of([0.05] * 400)
    for response in again.responses:
        response.prompt %= 100
    counted = audit.audit([again], audit.Expected("constant", rate_per_s=10.0))
    assert counted.repeated_prompts == 0.75 and judged(again)[1] == ["prompts_repeated"]


def test_failures_beyond_the_objective_make_it_invalid():
    sent = sent_of([0.05] * 400)
    sent.responses[0].error = "http 429: slow down"
    assert judged(sent, error_rate=0.01) == ([], [], True)
    assert judged(sent, error_rate=0.001)[0] == ["requests_failed"]


# -- the search -------------------------------------------------------------------------------


class Queue:
    """A simulated server of so many requests a second, put in the place of the network: an M/D/1 queue on a simulated clock."""

    def __init__(self, capacity):
        self.service, self.probed, self.now = 1 / capacity, [], 1000.0

    def send(self, line, offsets, window_s, most_in_flight=None, lengths=()):
        self.probed.append(len(offsets) / window_s)
        free, responses, begin = 0.0, [], self.now
        for number, due in enumerate(offsets):
            free = max(free, due) + self.service
            responses.append(Response(number, number, begin + due, started=begin + due, sent=begin + due, end=begin + free))
        self.now = begin + window_s + 60
        return Sent(tuple(responses), begin, begin + max(free, window_s), window_s, 0.0, 0.0, 1, False)

    def closed(self, line, concurrency, duration_s, count=None):
        response = Response(0, 0, self.now, started=self.now, sent=self.now, end=self.now + self.service)
        return Sent((response,), self.now, self.now + self.service, duration_s, 0.0, 0.0, 1, False)


def searched(monkeypatch, capacity, objective, **plan):
    queue = Queue(capacity)
    monkeypatch.setattr(scenarios, "_open", queue.send)
    monkeypatch.setattr(scenarios, "_closed", queue.closed)
    endpoint = Endpoint(url="http://nowhere", api="json", body={})
    line = scenarios.Line(endpoint, prompts.synthetic((4,)), Shape(batch_size=1, sequence_length=4))
    given = scenarios.Plan("server", **({"duration_s": 300.0, "runs": 3} | plan))
    return scenarios.highest_rate(line, given, objective), queue


def test_the_search_finds_the_highest_rate_that_keeps_the_objective(monkeypatch):
    """M/D/1 with service 10 ms and a p99 bound of 50 ms. The wait is about exponential above its mean (Kingman), so the
    exact rate is taken from a long simulation: about 74/s."""
    objective = Objective(latency_p99_ms=50)
    found, _ = searched(monkeypatch, 100.0, objective)

    def p99(rate):
        free, values = 0.0, []
        for due in arrivals.poisson(rate, 400_000 / rate, drawn(99)):
            free = max(free, due) + 0.01
            values.append(free - due)
        return stats.percentile(values, 0.99)

    low, high = 40.0, 99.0
    while high / low > 1.002:
        middle = (low + high) / 2
        low, high = (middle, high) if p99(middle) <= 0.05 else (low, middle)
    assert found.searched and found.rate_per_s == pytest.approx(low, rel=0.07)
    assert [probe.kept for probe in found.probes].count(False) >= 1
    assert all(probe.rate_per_s >= found.rate_per_s for probe in found.probes if not probe.kept)


def test_a_probe_has_the_samples_that_its_percentile_needs(monkeypatch):
    found, _ = searched(monkeypatch, 5.0, Objective(latency_p99_ms=2000), duration_s=3.0)
    counts = [probe.answered for probe in found.probes]
    screened = counts.count(scenarios.SCREENING)
    assert set(counts[:screened]) == {scenarios.SCREENING} and len({probe.kept for probe in found.probes[:screened]}) == 2
    assert counts[screened:] and all(count >= stats.samples_needed(0.99) for count in counts[screened:])
    assert all(len(one.responses) >= stats.samples_needed(0.99) / 3 for one in found.runs) and len(found.answered) >= stats.samples_needed(0.99)


def test_a_probe_that_the_client_could_not_send_is_not_held_against_or_for_the_server(monkeypatch):
    """The server answers whatever comes, the client is too busy above 400/s: the search ends there and says why."""
    queue = Queue(100.0)

    def send(line, offsets, window_s, most_in_flight=None, lengths=()):
        begin, busy = queue.now, 0.3 if len(offsets) / window_s < 400 else 0.95
        queue.now += window_s + 60
        responses = [Response(n, n, begin + due, started=begin + due, sent=begin + due, end=begin + due + 0.01) for n, due in enumerate(offsets)]
        return Sent(tuple(responses), begin, begin + window_s, window_s, 0.0, busy, 1, False)

    monkeypatch.setattr(scenarios, "_open", send)
    monkeypatch.setattr(scenarios, "_closed", queue.closed)
    line = scenarios.Line(Endpoint(url="http://nowhere", api="json", body={}), prompts.synthetic((4,)), Shape(batch_size=1, sequence_length=4))
    found = scenarios.highest_rate(line, scenarios.Plan("server", duration_s=3.0, runs=3), Objective(latency_p99_ms=50))
    assert found.searched and 300 < found.rate_per_s < 400
    assert all(probe.because.startswith(scenarios.CLIENT_LIMIT) for probe in found.probes if not probe.kept)


def test_without_a_rate_that_keeps_it_the_search_says_so(monkeypatch):
    found, _ = searched(monkeypatch, 100.0, Objective(latency_p99_ms=5))
    assert not found.searched and not any(probe.kept for probe in found.probes)
    assert "latency p99" in found.probes[-1].because


# -- prompts ----------------------------------------------------------------------------------


def test_synthetic_prompts_have_their_length_and_never_repeat():
    made = prompts.synthetic((128,))
    texts = [made.text(number)[1] for number in range(200)]
    assert len(set(texts)) == 200 and {len(text.split()) for text in texts} == {128}
    assert texts[:5] == [prompts.synthetic((128,)).text(number)[1] for number in range(5)], "both sides are asked the same"


def test_synthetic_lengths_follow_the_shares():
    made = prompts.synthetic({16: 0.75, 64: 0.25})
    lengths = [len(made.text(number)[1].split()) for number in range(2000)]
    assert lengths.count(16) / 2000 == pytest.approx(0.75, abs=0.03) and set(lengths) == {16, 64}


def test_a_file_is_read_round_and_round_and_its_prompts_keep_their_numbers():
    made = prompts.Prompts("file", texts=("a", "b", "c"))
    assert [made.text(number) for number in range(4)] == [(0, "a"), (1, "b"), (2, "c"), (0, "a")]


def test_within_objective_judges_each_bound():
    assert served.within_objective(TABLE, 0, {"latency": 0.31, "ttft": 0.11, "tpot": 0.11})
    for bound in ({"latency": 0.29}, {"ttft": 0.09}, {"tpot": 0.09}):
        assert not served.within_objective(TABLE, 0, bound)
    assert served.within_objective(TABLE, 3, {"tpot": 0.001}), "a single token has no gap to be late in"
    assert json.loads(TABLE.model_dump_json())["errors"] == {"2": "http 500: no"}
