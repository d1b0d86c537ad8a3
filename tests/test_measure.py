"""The protocol on a logging fake with a fake clock, and real measurements of a tiny model."""

import json
import subprocess
import sys

import pytest
from neuronfit import measure, system
from neuronfit.errors import BadInput, WaitingForEvidence
from neuronfit.measure import already, protocol
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
        self.log, self.now, self.calls = [], 100.0, 0

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

    def drain(self):
        self.log.append("drain")
        self.now += self.seconds * (1 - self.dispatch)


def run(fake, **options):
    return protocol(fake, **{"runs": 3, "budget_s": 30.0, "clock": fake.clock, "cpu_clock": fake.clock, **options})


def codes(outcome):
    return [finding.code for finding in outcome.findings]


# -- order, and nothing lost ------------------------------------------------------------------


def test_every_call_is_issued_then_drained_and_every_value_is_kept():
    fake = Fake(1.0)
    outcome = run(fake)
    assert fake.log == ["issue", "drain"] * fake.calls
    assert fake.calls == sum(len(one.warmup_s) + len(one.values_s) for one in outcome.runs)
    assert outcome.valid, outcome.validity
    assert [len(one.values_s) for one in outcome.runs] == [10, 10, 10]


def test_the_clock_stops_after_the_drain():
    outcome = run(Fake(2.0, dispatch=0.01))
    assert all(value == pytest.approx(2.0) for one in outcome.runs for value in one.values_s)


def test_warm_ups_come_first_and_their_values_stay_out_of_the_timed_ones():
    fake = Fake(9.0, 8.0, 1.0)
    outcome = run(fake)
    first, *later = outcome.runs
    assert first.warmup_s == (9.0,), "the first call spends more than the tenth of the budget"
    assert first.values_s[0] == 8.0
    assert [one.warmup_s for one in later] == [(1.0,), (1.0,)]


def test_the_first_run_warms_up_for_a_tenth_of_the_budget():
    outcome = run(Fake(1.0), budget_s=60.0)
    assert len(outcome.runs[0].warmup_s) == 6
    assert sum(one.duration_s for one in outcome.runs) == pytest.approx(60), "warm-ups are not part of it"


def test_the_duration_is_that_of_the_timed_calls():
    for one in run(Fake(9.0, 1.0)).runs:
        assert one.duration_s == pytest.approx(sum(one.values_s))


# -- the budget -------------------------------------------------------------------------------


def test_runs_share_the_budget_and_a_call_is_never_cut_off():
    outcome = run(Fake(4.0), budget_s=30.0)
    assert [len(one.values_s) for one in outcome.runs] == [3, 2, 3]
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
    run(Fake(1.0), progress=heard.append)
    assert heard == sorted(heard) and heard[-1] == pytest.approx(30.0)


# -- failures ---------------------------------------------------------------------------------


def test_a_failing_call_is_recorded_and_loses_no_value():
    fake = Fake(1.0, fails={8: RuntimeError("NRT_EXEC_BAD_STATUS 1006\nmore")})
    outcome = run(fake)
    assert [error for one in outcome.runs for error in one.errors] == ["RuntimeError: NRT_EXEC_BAD_STATUS 1006"]
    assert sum(len(one.values_s) for one in outcome.runs) == 29
    assert not outcome.valid and codes(outcome) == ["call_failed"]


def test_after_three_failures_in_a_row_the_target_is_left_alone():
    fake = Fake(1.0, fails={number: RuntimeError("out of memory") for number in range(20, 1000)})
    outcome = run(fake)
    assert fake.calls == 22 and len(outcome.runs) == 2
    assert sum(len(one.values_s) for one in outcome.runs) == 15
    assert codes(outcome) == ["call_failed"] and "out of memory" in outcome.validity


def test_failures_that_are_not_in_a_row_do_not_stop_it():
    fake = Fake(1.0, fails={number: RuntimeError("throttled") for number in range(6, 30, 2)})
    outcome = run(fake)
    assert len(outcome.runs) == 3 and codes(outcome) == ["call_failed"]
    assert sum(one.duration_s for one in outcome.runs) == 30.0, "failed calls take time too"


def test_warm_ups_that_fail_are_recorded_and_three_end_it():
    fake = Fake(1.0, fails={number: ValueError("bad shape") for number in range(1, 100)})
    (only,) = (outcome := run(fake)).runs
    assert fake.calls == 3 and only.values_s == () and only.errors == ("warm-up: ValueError: bad shape",) * 3
    assert not outcome.valid and outcome.settled is None
    once = run(Fake(1.0, fails={1: ValueError("cold cache")}))
    assert len(once.runs) == 3 and codes(once) == ["call_failed"] and "cold cache" in once.validity


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
    outcome = run(Fake(*[1 + 0.02 * number for number in range(60)]), budget_s=40)
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
    assert 1 <= len(one.runs) <= 2 and all(run.cpu_s > 0 and run.warmup_s and run.values_s for run in one.runs)
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
    monkeypatch.setattr(measure, "protocol", lambda *given, **options: outcome)


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


def test_an_interrupt_keeps_what_was_measured(question, quick, monkeypatch):
    once = iter([measure.protocol()])

    def interrupted(*given, **options):
        try:
            return next(once)
        except StopIteration:
            raise KeyboardInterrupt from None

    monkeypatch.setattr(measure, "protocol", interrupted)
    with pytest.raises(KeyboardInterrupt):
        measure.measure(question, "cpu")
    (kept,) = question.dossier.measurements("cpu")
    assert kept.settings.batch_size == 1
    assert not list(question.dossier.records_folder.glob(".*"))


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
    here = system.probe().model_copy(update={"instance_type": None, "accelerators": (system.Accelerator(name="NVIDIA L40S", count=1),)})

    class Thing:
        settings = ("precision",)

    found = {finding.code: finding for finding in measure._notes(question, target, here, outcome, Thing())}
    assert "has L4, this host has NVIDIA L40S" in found["accelerator_differs"].because
    right = here.model_copy(update={"accelerators": (system.Accelerator(name="NVIDIA L4", count=1),)})
    assert "accelerator_differs" not in {one.code for one in measure._notes(question, target, right, outcome, Thing())}


def test_one_core_of_several_is_said(question):
    found = list(measure._parts(question.target("inf2")))
    assert found[0].code == "part_of_the_instance" and "1 of 2 NeuronCores" in found[0].because
    assert found[0].severity is Severity.WARNING and list(measure._parts(question.target("l4"))) == []


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

    for module, written in ((measure, ("warn", "code")), (compiling, ("code",))):
        found = set()
        for node in ast.walk(ast.parse(Path(module.__file__).read_text())):
            if isinstance(node, ast.Call):
                found |= {word.value.value for word in node.keywords if word.arg == "code" and isinstance(word.value, ast.Constant)}
                if getattr(node.func, "id", "") in written:
                    found.add(node.args[0].value)
        assert found == set(module.CODES)
