"""The protocol on a logging fake with a fake clock, and real measurements of a tiny model."""

import json
import subprocess
import sys
import weakref

import numpy as np
import pytest
from neuronfit import measure, stats, system
from neuronfit.errors import BadInput, BadParams, WaitingForEvidence
from neuronfit.measure import Clocks, Plan, Session, Setting, already, here, protocol
from neuronfit.params import Shape
from neuronfit.question import Question
from neuronfit.record import Measurement, Severity

TINY = {
    "model_type": "bert",
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 64,
    "vocab_size": 200,
    "max_position_embeddings": 64,
}


class Fake:
    """A target that logs what is done to it; each call takes the next of ``takes`` seconds, then the last."""

    def __init__(self, *takes, fails=(), dispatch=0.25):
        self.takes, self.fails, self.dispatch = list(takes), dict(fails), dispatch
        self.log, self.now, self.calls, self.pending = [], 100.0, 0, 0.0

    def clock(self):
        return self.now

    def issue(self):
        self.calls += 1
        self.log.append("issue")
        self.seconds = self.takes.pop(0) if len(self.takes) > 1 else self.takes[0]
        if self.calls in self.fails:
            self.now += self.seconds
            raise self.fails[self.calls]
        self.now += self.seconds * self.dispatch
        self.pending += self.seconds * (1 - self.dispatch)

    def drain(self):
        self.log.append("drain")
        self.now, self.pending = self.now + self.pending, 0.0


def quiet():
    """A host that does nothing else."""
    return system.HostState(load_1min=0.1, cpu_clock_hz=3e9, busy_s=0.0)


def run(fake, **options):
    usual = {"runs": 3, "budget_s": 30.0, "clock": fake.clock, "cpu_clock": fake.clock, "host": quiet, "prove": False}
    return protocol(fake, **{**usual, **options})


def codes(outcome):
    return [finding.code for finding in outcome.findings]


# -- order, and nothing lost ------------------------------------------------------------------


def test_every_call_is_issued_then_drained_and_every_value_is_kept():
    fake = Fake(1.0)
    outcome = run(fake)
    assert fake.log == ["issue", "drain"] * fake.calls
    assert fake.calls == sum(len(one.warmup_s) + len(one.values_s) for one in outcome.runs)
    assert outcome.valid, outcome.validity
    assert [len(one.values_s) for one in outcome.runs] == [5, 5, 5] and outcome.taken.ended == "narrow"
    spent = run(Fake(1.0), width=0)
    assert [len(one.values_s) for one in spent.runs] == [5] * 4 + [5] * 2 and spent.taken.ended == "budget"


def test_the_clock_stops_after_the_drain():
    outcome = run(Fake(2.0, dispatch=0.01))
    assert all(value == pytest.approx(2.0) for one in outcome.runs for value in one.values_s)


def test_warm_ups_come_first_and_their_values_stay_out_of_the_timed_ones():
    fake = Fake(9.0, 8.0, 1.0)
    outcome = run(fake)
    first, *later = outcome.runs
    assert first.warmup_s == (9.0,), "the first call spends more than the quarter of the budget"
    assert outcome.taken.warm_up == "cut_off"
    assert first.values_s[0] == 8.0
    assert [one.warmup_s for one in later] == [(1.0,), (1.0,)]


def test_the_warm_up_lasts_until_the_start_up_has_passed():
    """Ten calls that get 10 % quicker each, then a plateau: over when the last quarter is no quicker than the one before."""
    falling = [0.9**number for number in range(10)]
    outcome = run(Fake(*falling, 0.3), budget_s=100.0)
    warm = outcome.runs[0].warmup_s
    assert outcome.taken.warm_up == "settled" and outcome.settled and outcome.valid
    assert warm[:10] == pytest.approx(falling) and 13 <= len(warm) <= 22, "all of the start-up and a plateau of a quarter or two"
    assert outcome.runs[0].values_s == pytest.approx([0.3] * len(outcome.runs[0].values_s))


def test_a_start_up_that_does_not_pass_is_cut_off_and_seen():
    outcome = run(Fake(*[1 + 9 * 0.9**number for number in range(200)]), budget_s=40.0)
    assert outcome.taken.warm_up == "cut_off" and sum(outcome.runs[0].warmup_s) < 40 / 4 + 10
    assert not outcome.valid and "not_settled" in codes(outcome)


def test_the_duration_is_that_of_the_timed_calls():
    for one in run(Fake(9.0, 1.0)).runs:
        assert one.duration_s == pytest.approx(sum(one.values_s))


# -- the budget -------------------------------------------------------------------------------


def test_runs_share_the_budget_and_a_call_is_never_cut_off():
    outcome = run(Fake(4.0), budget_s=30.0)
    assert [len(one.values_s) for one in outcome.runs] == [3, 3, 2]
    assert sum(one.duration_s for one in outcome.runs) == 32.0


def test_a_spent_budget_leaves_fewer_runs_and_says_so():
    outcome = run(Fake(9.0), budget_s=10.0)
    assert len(outcome.runs) == 2 and not outcome.valid
    assert "fewer_runs" in codes(outcome) and "after 2 of 3 runs" in outcome.validity


def test_a_call_longer_than_the_budget_is_timed_once():
    fake = Fake(25.0)
    outcome = run(fake, budget_s=10.0)
    assert fake.calls == 2 and len(outcome.runs) == 1 and outcome.runs[0].values_s == (25.0,)
    assert not outcome.valid and codes(outcome) == ["call_exceeds_budget"]
    assert outcome.validity.startswith("one call takes 25 s, the budget is 10 s; raise policy.budget_s")


def test_a_long_start_up_alone_does_not_stop_the_measurement():
    outcome = run(Fake(40.0, 1.0))
    assert outcome.valid and len(outcome.runs) == 3


def test_progress_hears_of_the_budget_in_order():
    heard = []
    run(Fake(1.0), progress=heard.append, width=0)
    assert heard == sorted(heard) and heard[-1] == pytest.approx(30.0)


# -- failures ---------------------------------------------------------------------------------


def test_a_failing_call_is_recorded_and_loses_no_value():
    fake = Fake(1.0, fails={8: RuntimeError("NRT_EXEC_BAD_STATUS 1006\nmore")})
    outcome = run(fake)
    assert [error for one in outcome.runs for error in one.errors] == ["RuntimeError: NRT_EXEC_BAD_STATUS 1006"]
    assert sum(len(one.values_s) for one in outcome.runs) == 14
    assert not outcome.valid and codes(outcome) == ["call_failed"]


def test_after_three_failures_in_a_row_the_target_is_left_alone():
    fake = Fake(1.0, fails={number: RuntimeError("out of memory") for number in range(20, 1000)})
    outcome = run(fake)
    assert fake.calls == 22 and len(outcome.runs) == 3 and outcome.taken.ended == "failed"
    assert sum(len(one.values_s) for one in outcome.runs) == 11, "19 good calls, of which 6 + 1 + 1 warmed up"
    assert codes(outcome) == ["call_failed"] and "out of memory" in outcome.validity


def test_failures_that_are_not_in_a_row_do_not_stop_it():
    fake = Fake(1.0, fails={number: RuntimeError("throttled") for number in range(6, 30, 2)})
    outcome = run(fake)
    assert len(outcome.runs) == 3 and codes(outcome) == ["call_failed"]
    assert sum(one.duration_s for one in outcome.runs) == 15.0, "failed calls take time too"


def test_warm_ups_that_fail_are_recorded_and_three_end_it():
    fake = Fake(1.0, fails={number: ValueError("bad shape") for number in range(1, 100)})
    (only,) = (outcome := run(fake)).runs
    assert fake.calls == 3 and only.values_s == () and only.errors == ("warm-up: ValueError: bad shape",) * 3
    assert not outcome.valid and outcome.settled is None
    once = run(Fake(1.0, fails={1: ValueError("cold cache")}))
    assert len(once.runs) == 3 and codes(once) == ["call_failed"] and "cold cache" in once.validity
    assert "warm-up: ValueError: cold cache" in once.runs[0].errors


def test_a_long_call_that_fails_leaves_no_value_and_no_crash():
    outcome = run(Fake(1.0, 50.0, fails={2: TimeoutError("device hung")}), budget_s=10.0)
    assert not outcome.valid and codes(outcome)[0] == "call_failed" and "device hung" in outcome.validity


def test_an_interrupt_goes_through():
    with pytest.raises(KeyboardInterrupt):
        run(Fake(1.0, fails={5: KeyboardInterrupt()}))


# -- the judgement ----------------------------------------------------------------------------


def test_too_few_values_for_a_median_are_invalid():
    outcome = run(Fake(6.0), budget_s=18.0)
    assert [len(one.values_s) for one in outcome.runs] == [1, 1, 1]
    assert codes(outcome) == ["few_samples"] and outcome.settled is None
    assert "3 timed calls; the interval of the median needs 6" in outcome.validity


def test_a_trend_is_not_settled():
    outcome = run(Fake(*[1 + 0.02 * number for number in range(60)]), budget_s=40, width=0)
    assert outcome.settled is False and codes(outcome) == ["not_settled"] and "rises" in outcome.validity


def test_a_disturbed_host_is_told_from_a_quiet_one():
    fake = Fake(1.0)
    outcome = run(fake, threads=2, wait_clock=lambda: fake.now / 2)  # half a second in the queue per second on the CPU
    assert codes(outcome) == ["host_disturbed"] and "67%" in outcome.validity
    quiet = Fake(1.0)
    assert run(quiet, threads=2, wait_clock=lambda: quiet.now / 20).valid


def test_cpu_time_speaks_for_one_thread_where_waiting_is_not_counted():
    fake = Fake(1.0)
    slow_cpu = lambda: fake.now * 0.5  # noqa: E731
    assert codes(run(fake, threads=1, cpu_clock=slow_cpu, wait_clock=lambda: None)) == ["host_disturbed"]
    fake = Fake(1.0)
    assert run(fake, threads=2, cpu_clock=slow_cpu, wait_clock=lambda: None).valid, "several threads wait for each other"


def test_cpu_time_says_nothing_about_an_accelerator():
    fake = Fake(1.0)
    assert run(fake, cpu_clock=lambda: 0.0, wait_clock=lambda: pytest.fail("asked")).valid


# -- when to stop -----------------------------------------------------------------------------


def noisy(level, spread, count=4000, seed=1):
    return Fake(*(level * np.exp(spread * np.random.default_rng(seed).standard_normal(count))))


def test_measuring_stops_when_the_interval_is_narrow_and_says_so():
    outcome = run(noisy(0.01, 0.02), budget_s=30.0, width=0.02)
    assert outcome.taken.ended == "narrow" and outcome.taken.width <= 0.02
    assert sum(one.duration_s for one in outcome.runs) < 15, "half of the budget is left"
    low, high = stats.percentile_interval_of_runs([one.values_s for one in outcome.runs], 0.5)
    assert outcome.taken.width == pytest.approx((high - low) / 2 / stats.median([value for one in outcome.runs for value in one.values_s]))


def test_a_wide_interval_spends_the_budget_and_says_how_wide_it_stayed():
    outcome = run(noisy(1.0, 0.3), budget_s=30.0, width=0.001)
    assert outcome.taken.ended == "budget" and outcome.taken.width > 0.001
    assert sum(one.duration_s for one in outcome.runs) == pytest.approx(30, abs=4)
    assert "0% was asked for" in outcome.taken.ended_because or "0.1%" in outcome.taken.ended_because
    assert len(outcome.runs) >= 6, "five calls a run, so that runs can be told apart"


def test_the_metric_that_matters_can_be_the_tail():
    """At 100 ms a call and 5 s a run the median is known after three runs, 150 calls; p99 needs 299 at least."""
    tail, middle = (run(noisy(0.1, 0.05), budget_s=60.0, width=0.05, quantile=quantile) for quantile in (0.99, 0.5))
    assert tail.taken.metric == "latency_p99_s" and middle.taken.metric == "latency_p50_s"
    calls = [sum(len(one.values_s) for one in outcome.runs) for outcome in (tail, middle)]
    assert calls[0] > 299 and calls[1] < 200


class Turns:
    """Two targets of one host, whose speed drifts: each call is slower by 1 % than the call before, whoever makes it."""

    def __init__(self):
        self.now, self.level, self.order = 0.0, 1.0, []

    def target(self, name, seconds):
        host = self

        class One:
            def issue(self):
                host.order.append(name)
                host.now += seconds * host.level
                host.level *= 1.01

            def drain(self): ...

        return One()


def test_settings_take_turns_run_by_run_in_alternating_order():
    host = Turns()
    settings = [Setting(host.target("a", 1.0), "a"), Setting(host.target("b", 2.0), "b")]
    session = Session(settings, Plan(runs=4, budget_s=40.0, width=0, prove=False), Clocks(lambda: host.now, lambda: host.now, lambda: None, quiet))
    session.run()
    a, b = session.outcomes()
    assert a.taken.session == b.taken.session and a.taken.together_with == ("b",)
    runs = [name for name, before in zip(host.order, [None, *host.order]) if name != before]
    assert runs[:2] == ["a", "b"], "warm-ups, one after the other"
    turns = sorted([(run.start_utc, "a") for run in a.runs] + [(run.start_utc, "b") for run in b.runs])
    assert [name for _, name in turns[:8]] == ["a", "b", "b", "a", "a", "b", "b", "a"]


def test_drift_of_the_host_does_not_reach_the_ratio_of_turns():
    """The same target twice on a host that slows down by 1 % a call: rates fall by a third, their ratio by pairs stays near 1."""
    host = Turns()
    settings = [Setting(host.target("a", 1.0), "a"), Setting(host.target("b", 1.0), "b")]
    Session(settings, Plan(runs=4, budget_s=60.0, width=0, prove=False), Clocks(lambda: host.now, lambda: host.now, lambda: None, quiet)).run()
    rates = [[len(one.values_s) / one.duration_s for one in setting.runs] for setting in settings]
    count = min(map(len, rates))
    assert rates[0][0] / rates[0][count - 1] > 1.3
    ratio, low, high = stats.paired_ratio_interval(rates[1][:count], rates[0][:count])
    assert low < 1 < high and ratio == pytest.approx(1, abs=0.03)


def test_an_interrupted_session_still_has_the_runs_that_were_finished():
    fake = Fake(1.0, fails={19: KeyboardInterrupt()})
    session = Session([Setting(fake, "a")], Plan(3, 60.0, width=0, prove=False), Clocks(fake.clock, fake.clock, lambda: None, quiet))
    with pytest.raises(KeyboardInterrupt):
        session.run()
    (outcome,) = session.outcomes()
    assert not outcome.valid and codes(outcome) == ["interrupted"] and "stopped by hand" in outcome.validity
    assert fake.calls == 19 and sum(len(one.values_s) for one in outcome.runs) == 10, "18 calls, 6 + 1 + 1 of them warm-ups"


# -- the clock --------------------------------------------------------------------------------


class Device:
    """A device with a queue: ``issue`` hands over, work is done later. ``waits``: does drain wait for it?"""

    def __init__(self, seconds=1.0, dispatch=0.01, waits=True, replaces=False):
        self.seconds, self.dispatch, self.waits, self.replaces = seconds, dispatch, waits, replaces
        self.now = self.busy_until = 0.0

    def clock(self):
        return self.now

    def issue(self):
        self.now += self.dispatch
        begin = self.now if self.replaces else max(self.now, self.busy_until)
        self.busy_until = begin + self.seconds

    def drain(self):
        if self.waits:
            self.read_back()

    def read_back(self):
        self.now = max(self.now, self.busy_until)
        return ()


def test_a_device_that_is_waited_for_proves_its_clock():
    device = Device()
    proof = protocol(device, runs=3, budget_s=60, clock=device.clock, cpu_clock=device.clock, host=quiet).taken.clock
    assert proof.verdict == "proven" and proof.single_s == pytest.approx(1.01) and proof.double_s == pytest.approx(2.01)
    assert proof.read_back_s == pytest.approx(1.01) and "1.99 times" in proof.because


def test_dispatch_only_timing_is_invalid():
    """Issue returns after 10 ms, drain at once, the work takes 1 s: the latencies read 10 ms and are worth nothing."""
    device = Device(waits=False)
    outcome = protocol(device, runs=3, budget_s=1.0, clock=device.clock, cpu_clock=device.clock, host=quiet)
    assert outcome.runs[0].values_s[0] == pytest.approx(0.01)
    assert not outcome.valid and "dispatch_only" in codes(outcome)
    assert "101 times as long" in outcome.validity and "the clock stops before the work is done" in outcome.validity


def test_work_that_is_replaced_does_not_double():
    device = Device(replaces=True)
    outcome = protocol(device, runs=3, budget_s=60, clock=device.clock, cpu_clock=device.clock, host=quiet)
    assert outcome.taken.clock.verdict == "unproven" and "clock_unproven" in codes(outcome) and not outcome.valid


def test_a_target_without_an_answer_is_proven_by_twice_the_work_alone():
    fake = Fake(1.0)
    assert run(fake, prove=True).taken.clock.because == "two calls take 2.00 times as long as one; this target offers no answer to read"


def test_the_proof_stays_within_a_tenth_of_the_budget():
    fake = Fake(2.0)
    proof = run(fake, prove=True, budget_s=60).taken.clock
    assert proof.repeats == 1, "a repeat is three calls, and three calls of 2 s are a tenth of the budget"
    assert run(Fake(0.1), prove=True, budget_s=60).taken.clock.repeats == 5


def test_the_harness_is_timed_with_an_empty_target():
    """A clock that costs 10 us each time it is read: a call reads it twice, so an empty one seems to take 10 us."""
    fake = Fake(0.0001)

    def slow_clock():
        fake.now += 1e-5
        return fake.now

    outcome = run(fake, clock=slow_clock, budget_s=3.0)
    assert outcome.taken.overhead_s == pytest.approx(1e-5, rel=0.01)
    found = {one.code: one for one in outcome.findings}
    assert "harness_overhead" in found and outcome.valid, "a remark: 10 us of 110 us"


# -- the host ---------------------------------------------------------------------------------


class Host:
    """Readings of a host in order, the last one for ever."""

    def __init__(self, *readings):
        self.readings = list(readings)

    def __call__(self):
        return self.readings.pop(0) if len(self.readings) > 1 else self.readings[0]


def test_background_load_is_a_finding_and_what_was_seen_is_kept():
    fake = Fake(1.0)
    busy = lambda: system.HostState(load_1min=7.5, cpu_clock_hz=None, busy_s=3 * fake.now)  # noqa: E731
    outcome = run(fake, host=busy, threads=1, wait_clock=lambda: 0.0)
    (found,) = [one for one in outcome.findings if one.code == "background_load"]
    assert "kept 2 CPUs busy, this measurement 1, load average 7.5" in found.because and outcome.valid
    assert outcome.runs[0].others_cpu_s == pytest.approx(10.0) and outcome.runs[0].load_1min == 7.5
    assert outcome.runs[0].cpu_clock_hz is None, "absent as absent"


def test_a_clock_that_falls_is_throttling():
    fake = Fake(1.0)
    hot = lambda: system.HostState(cpu_clock_hz=3e9 if fake.now < 112 else 2e9)  # noqa: E731
    outcome = run(fake, host=hot, threads=1, wait_clock=lambda: 0.0)
    assert codes(outcome) == ["throttled"] and not outcome.valid and "from 3,000 to 2,000 MHz" in outcome.validity
    fake = Fake(1.0)
    assert run(fake, host=hot, wait_clock=lambda: 0.0).valid, "an accelerator does not run at the clock of the CPU"


def test_heat_of_the_accelerator_is_throttling_and_its_power_limit_is_not(monkeypatch):
    state = system.AcceleratorState(clock_hz=1.4e9, power_w=300.0, slowed=("heat (hardware)",))
    monkeypatch.setattr(system, "accelerator_state", lambda path: state)
    fake = Fake(1.0)
    session = Session([Setting(fake, "a", path="cuda")], Plan(3, 30.0, prove=False), Clocks(fake.clock, fake.clock, lambda: None, quiet))
    session.run()
    (hot,) = session.outcomes()
    assert codes(hot) == ["throttled"] and "heat (hardware)" in hot.validity
    assert (hot.runs[0].accelerator_clock_hz, hot.runs[0].accelerator_power_w) == (1.4e9, 300.0)
    state = system.AcceleratorState(slowed=("power cap",))
    fake = Fake(1.0)
    session = Session([Setting(fake, "a", path="cuda")], Plan(3, 30.0, prove=False), Clocks(fake.clock, fake.clock, lambda: None, quiet))
    session.run()
    (capped,) = session.outcomes()
    assert capped.valid and codes(capped) == ["power_capped"]


def test_a_compilation_among_the_timed_calls_is_invalid():
    fake = Fake(1.0)
    fake.compilations = lambda: 1 if fake.calls < 15 else 2
    outcome = run(fake)
    assert not outcome.valid and codes(outcome) == ["recompiled"] and "1 graph was compiled among the timed calls" in outcome.validity
    steady = Fake(1.0)
    steady.compilations = lambda: 1
    assert run(steady).valid


def test_a_measurement_too_short_to_mean_anything_is_invalid():
    outcome = run(Fake(0.001), budget_s=0.05)
    assert codes(outcome) == ["too_short"] and "raise policy.budget_s" in outcome.validity


# -- a target of a question -------------------------------------------------------------------


@pytest.fixture
def question(tmp_path):
    return open_question(tmp_path)


def open_question(folder, **changes):
    (folder / "config.json").write_text(json.dumps(TINY))
    data = {
        "workload": {
            "name": "tiny",
            "model": {"config": str(folder / "config.json")},
            "shapes": [{"batch_size": 1, "sequence_length": 16}, {"batch_size": 4, "sequence_length": 16}],
            **changes.pop("workload", {}),
        },
        "baseline": {"name": "l4", "instance_type": "g6.xlarge", "path": "cuda"},
        "candidates": [{"name": "inf2", "instance_type": "inf2.xlarge", "path": "neuron_xla"}],
        "policy": {"budget_s": 0.3, "runs": 2},
        **changes,
    }
    from neuronfit import params

    return Question(params.parse(data), reports=folder / "reports")


def test_the_cpu_is_measured_and_stored(question):
    taken = measure.measure(question, "cpu")
    assert [record.scenario for record in taken] == ["single_stream", "offline"]
    assert [record.id for record in question.dossier.measurements("cpu")] == [record.id for record in taken]
    one = taken[0]
    assert one.grade == "measured" and one.source.clock == "time.perf_counter" and one.system.host == one.source.host
    assert len(one.runs) >= 2 and all(run.cpu_s > 0 and run.warmup_s and run.values_s for run in one.runs)
    settings = one.settings
    assert settings.precision == "fp32" and settings.threads == system.physical_cores() and settings.route == "eager"
    assert settings.software == one.system.software and settings.weights == "random, seed 0"
    assert settings.timed_region == "host call, inputs and outputs on the host"
    assert settings.input == "synthetic token ids, seed 0"
    assert {"random_weights"} <= {finding.code for finding in one.findings}
    assert all(finding.target == "cpu" for finding in one.findings)
    assert taken[1].results_per_call == 4
    assert one.quantity("throughput_per_s").value > 0
    assert Measurement.model_validate_json(one.to_json()).id == one.id


def test_settings_of_the_target_are_applied_and_recorded(tmp_path):
    candidate = {
        "name": "c7i",
        "instance_type": "g6.xlarge",
        "path": "cpu",
        "settings": {"precision": "bf16", "threads": 1, "batch_size": 8},
    }
    question = open_question(tmp_path, candidates=[candidate])
    (one,) = measure.measure(question, "c7i", shapes=[Shape(batch_size=2, sequence_length=8)])
    assert (one.settings.precision, one.settings.threads, one.settings.batch_size) == ("bf16", 1, 2)
    found = {finding.code: finding for finding in one.findings}
    assert "settings.batch_size" in found["setting_not_applied"].because
    assert "instance_type_unconfirmed" in found or one.instance_type == one.system.instance_type


@pytest.fixture
def quick(monkeypatch):
    """A valid outcome at once, for tests of what is stored and found."""
    outcome = run(Fake(1.0), runs=2)
    assert outcome.valid

    def taken(session):
        for setting in session.settings:
            setting.runs, setting.ended, setting.warm_up = list(outcome.runs), "narrow", "settled"

    monkeypatch.setattr(Session, "run", taken)


def test_a_measurement_of_this_host_is_found_again(question, quick):
    shape = Shape(batch_size=1, sequence_length=16)
    assert already(question, "cpu", shape) is None
    (taken,) = measure.measure(question, "cpu", shapes=[shape])
    assert already(question, "cpu", shape) == taken
    assert already(question, "cpu", Shape(batch_size=2, sequence_length=16)) is None


@pytest.mark.parametrize("change", ["host", "software", "threads", "valid", "runs"])
def test_a_measurement_of_another_host_or_setting_is_not(question, quick, change):
    shape = Shape(batch_size=1, sequence_length=16)
    (taken,) = measure.measure(question, "cpu", shapes=[shape])
    altered = {
        "host": {"system": taken.system.model_copy(update={"host": "elsewhere"})},
        "software": {"settings": taken.settings.model_copy(update={"software": "torch 2.9.0"})},
        "threads": {"settings": taken.settings.model_copy(update={"threads": 64})},
        "valid": {"valid": False},
        "runs": {"runs": taken.runs[:1]},
    }
    for path in question.dossier.files():
        path.unlink()
    question.dossier.admit(taken.model_copy(update=altered[change]))
    assert already(question, "cpu", shape) is None
    question.dossier.admit(taken)
    assert already(question, "cpu", shape) == taken


def test_an_interrupt_keeps_what_was_measured(question, monkeypatch):
    outcome = run(Fake(1.0), runs=2)

    def interrupted(session):
        session.settings[0].runs = list(outcome.runs)
        raise KeyboardInterrupt

    monkeypatch.setattr(Session, "run", interrupted)
    with pytest.raises(KeyboardInterrupt):
        measure.measure(question, "cpu")
    (kept,) = question.dossier.measurements("cpu")
    assert kept.settings.batch_size == 1 and kept.valid is False and "interrupted" in {finding.code for finding in kept.findings}
    assert not list(question.dossier.records_folder.glob(".*"))


def test_shapes_take_turns_unless_memory_holds_only_one(question, quick, monkeypatch):
    together = measure.measure(question, "cpu")
    assert together[0].taken.session == together[1].taken.session
    assert together[0].taken.together_with == ("cpu batch 4 sequence 16",)
    from neuronfit.targets.cpu import CpuTarget

    ready, build = [], CpuTarget.prepare

    def prepare(self, shape):
        if any(other() is not None for other in ready):
            raise WaitingForEvidence("not enough host memory", next="elsewhere")
        build(self, shape)
        ready.append(weakref.ref(self))

    monkeypatch.setattr(CpuTarget, "prepare", prepare)
    apart = measure.measure(question, "cpu")
    assert len(apart) == 2 and apart[0].taken.session != apart[1].taken.session and apart[0].taken.together_with == ()


def test_the_cpu_may_be_declared_as_both_sides(tmp_path, quick):
    question = open_question(
        tmp_path,
        baseline={"name": "fp32", "instance_type": "this-host", "path": "cpu"},
        candidates=[{"name": "bf16", "instance_type": "this-host", "path": "cpu", "settings": {"precision": "bf16", "threads": 1}}],
    )
    assert measure.measured_here(question) == ["fp32", "bf16"], "the extra target cpu would be the baseline once more"
    taken = measure.measure_together(question, ["fp32", "bf16"], shapes=[Shape(batch_size=1, sequence_length=16)])
    assert [one.settings.precision for one in taken] == ["fp32", "bf16"] and taken[0].taken.session == taken[1].taken.session
    assert int(taken[0].settings.other["peak_rss_bytes"]) > 50e6, "an interpreter with torch, and a model"
    assert float(taken[0].settings.other["prepare_s"]) > 0 and "cold_call_s" in taken[0].settings.other


def test_this_host_is_for_paths_that_need_no_instance_type(tmp_path):
    with pytest.raises(BadParams, match="this-host with path: 'cuda' . allowed: cpu"):
        open_question(tmp_path, baseline={"name": "gpu", "instance_type": "this-host", "path": "cuda"})


def test_generation_is_timed_in_two_parts(tmp_path):
    (tmp_path / "llama.json").write_text(json.dumps({**TINY, "model_type": "llama"}))
    model = {"config": str(tmp_path / "llama.json"), "task": "text-generation"}
    question = open_question(tmp_path, workload={"model": model, "shapes": [{"batch_size": 2, "sequence_length": 8, "output_length": 5}]})
    (one,) = measure.measure(question, "cpu")
    assert one.scenario == "generate" and one.results_per_call == 10
    for run in one.runs:
        for total, first, each in zip(run.values_s, run.ttft_s, run.tpot_s, strict=True):
            assert 0 < first < total and first + 4 * each < total, "one token comes first, four follow"
            assert first + 4 * each > 0.5 * total
    assert one.quantity("ttft_p50_s").value == pytest.approx(stats.median([value for run in one.runs for value in run.ttft_s]))


@pytest.mark.skipif(bool(system.neuron_devices()), reason="this host has a Neuron device")
def test_a_host_that_cannot_says_what_is_missing_and_what_to_type(question):
    with pytest.raises(WaitingForEvidence) as caught:
        measure.measure(question, "inf2")
    assert "torch_neuronx" in str(caught.value) and caught.value.exit_status == 3
    assert "on an inf2.xlarge: neuronfit measure params/tiny.yaml --target inf2" in str(caught.value)
    assert question.dossier.files() == []


def test_another_instance_type_than_declared_is_refused(tmp_path, monkeypatch):
    question = open_question(tmp_path, candidates=[{"name": "slow", "instance_type": "g5.xlarge", "path": "cpu"}])
    here = system.probe().model_copy(update={"instance_type": "g6.xlarge"})
    monkeypatch.setattr(system, "probe", lambda: here)
    with pytest.raises(BadInput, match="declared as g5.xlarge, this host is: 'g6.xlarge'"):
        measure.measure(question, "slow")


def test_a_model_that_does_not_fit_is_refused_before_it_is_built(question, monkeypatch):
    monkeypatch.setattr(system, "memory_available", lambda: 10_000)
    with pytest.raises(WaitingForEvidence, match="GiB needed") as caught:
        measure.measure(question, "cpu")
    assert "neuronfit measure params/tiny.yaml --target cpu" in str(caught.value)


def test_paths_of_other_tools_are_not_measured_here(tmp_path):
    question = open_question(tmp_path, candidates=[{"name": "llm", "instance_type": "trn2.48xlarge", "path": "vllm_neuron"}])
    with pytest.raises(WaitingForEvidence, match="on a trn2.48xlarge: serve it by path vllm_neuron"):
        measure.measure(question, "llm")
    assert already(question, "llm", Shape(batch_size=1, sequence_length=16)) is None


def test_training_is_not_measured(tmp_path):
    question = open_question(tmp_path, workload={"kind": "training"})
    with pytest.raises(WaitingForEvidence, match="training"):
        measure.measure(question, "cpu")


def test_the_wrong_gpu_is_noticed_where_the_instance_type_is_not_known(question):
    target = question.target("l4")
    outcome = run(Fake(1.0))
    host = system.probe().model_copy(update={"instance_type": None, "accelerators": (system.Accelerator(name="NVIDIA L40S", count=1),)})

    class Thing:
        settings = ("precision",)

        def describe(self):
            return {}

    found = {finding.code: finding for finding in here._notes(question, target, host, outcome, Thing())}
    assert "has L4, this host has NVIDIA L40S" in found["accelerator_differs"].because
    right = host.model_copy(update={"accelerators": (system.Accelerator(name="NVIDIA L4", count=1),)})
    assert "accelerator_differs" not in {one.code for one in here._notes(question, target, right, outcome, Thing())}


def test_one_core_of_several_is_said(question):
    found = list(here._parts(question.target("inf2"), {"neuroncores_used": 1}))
    assert found[0].code == "part_of_the_instance" and "1 of 2 NeuronCores" in found[0].because
    assert found[0].severity is Severity.WARNING and list(here._parts(question.target("l4"), {})) == []
    assert list(here._parts(question.target("inf2"), {"neuroncores_used": 2})) == [], "all cores are used"


def test_importing_loads_neither_torch_nor_a_notebook():
    wanted = "neuronfit.measure neuronfit.compile neuronfit.targets.cpu neuronfit.targets.cuda neuronfit.targets.neuron_xla neuronfit.targets.neuron_native"
    code = f"""
import sys
import {", ".join(wanted.split())}
loaded = [name for name in ("torch", "transformers", "matplotlib", "IPython", "pandas", "scipy", "tqdm") if name in sys.modules]
sys.exit(", ".join(loaded) or 0)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_every_finding_code_is_listed():
    import ast
    from pathlib import Path

    from neuronfit import compile as compiling

    folder = Path(measure.__file__).parent
    targets_of_it = [folder.parent / "targets" / f"{name}.py" for name in ("cuda", "neuron_native")]
    for files, written, codes_known in (
        ([*folder.glob("*.py"), *targets_of_it], ("_warning", "code"), measure.CODES),
        ([Path(compiling.__file__)], ("code",), compiling.CODES),
    ):
        found = set()
        for node in (node for file in files for node in ast.walk(ast.parse(file.read_text()))):
            if isinstance(node, ast.Call):
                found |= {word.value.value for word in node.keywords if word.arg == "code" and isinstance(word.value, ast.Constant)}
                if getattr(node.func, "id", "") in written:
                    found.add(getattr(node.args[0], "value", None))
        assert found - {None} == set(codes_known)
