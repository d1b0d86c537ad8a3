"""Step 3 against the doubles: compiled, failed, waiting, not needed.

Most tests compile in this process, where the doubles can be prepared and looked at. The tests of the
process of its own start a real one.
"""

import hashlib
import io
import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import doubles
import psutil
import pytest
from neuronfit import params, system
from neuronfit.compile import compile_test, informative_lines, shapes_to_compile
from neuronfit.diagnose.evidence import adopt
from neuronfit.errors import BadInput
from neuronfit.question import Question
from neuronfit.record import read
from neuronfit.targets import Subject, compilation
from neuronfit.targets.compilation import Job, Outcome
from test_targets import TINY

LOGS = Path(__file__).parent / "data" / "logs"


@pytest.fixture(autouse=True)
def in_this_process(monkeypatch, request):
    """Compile here unless the test asks for a process of its own."""
    if "apart" not in request.fixturenames:
        monkeypatch.setattr(compilation, "apart", compilation.run)


@pytest.fixture
def apart():
    """Compile in a process of its own, as outside of tests."""


@pytest.fixture
def open_question(tmp_path):
    def opened(*candidates, **workload):
        (tmp_path / "config.json").write_text(json.dumps(TINY))
        data = {
            "workload": {
                "name": "tiny",
                "model": {"config": str(tmp_path / "config.json")},
                "shapes": [{"batch_size": 1, "sequence_length": 16}],
                **workload,
            },
            "baseline": {"name": "l4", "instance_type": "g6.xlarge", "path": "cuda"},
            "candidates": [
                {"name": name, "instance_type": kind, "path": path} for name, kind, path in candidates or [("inf2", "inf2.xlarge", "neuron_xla")]
            ],
        }
        return Question(params.parse(data), reports=tmp_path / "reports")

    return opened


def by_target(record):
    return {row.target: row for row in record.targets}


def test_without_a_compiler_the_step_waits_with_the_command(open_question):
    question = open_question(("inf2", "inf2.xlarge", "neuron_xla"), ("trn2", "trn2.3xlarge", "neuron_native"))
    record = compile_test(question)
    rows = by_target(record)
    assert rows["l4"].status == "not_needed" and rows["inf2"].status == rows["trn2"].status == "waiting"
    assert "on an inf2.xlarge, or on any x86-64 host" in rows["inf2"].next
    assert rows["trn2"].next == "on a trn2.3xlarge type: neuronfit run params/tiny.yaml --steps 3"
    assert [(one.code, str(one.severity), one.target) for one in record.findings] == [
        ("compiler_absent", "waiting", "inf2"),
        ("compiler_absent", "waiting", "trn2"),
    ]
    assert record.grade == "estimated" and record.system is None
    assert record.bottom_line == "Whether tiny compiles is not known for inf2 and trn2: this host cannot compile for them."
    assert compile_test(question).id == record.id, "the same answer is not stored twice"


def test_a_compilation_is_recorded_with_what_made_it(open_question, monkeypatch):
    double = doubles.install(monkeypatch, "xla", device=False)
    question = open_question()
    record = compile_test(question)
    row = by_target(record)["inf2"]
    assert row.status == "compiled" and row.compile_time.value > 0 and row.compile_time.grade == "measured"
    assert row.flags == ("--target", "inf2", "--auto-cast", "none", "--auto-cast-type", "bf16", "--optlevel", "2", "--model-type", "transformer")
    assert row.versions["torch_neuronx"].startswith("2.9")
    (call,) = double.calls
    assert call["cpu_backend"] is True, "no Neuron device is needed to compile"
    (bucket,) = row.buckets
    assert bucket.cached is False and "never taken" in bucket.cached_because and "trace returned" in bucket.proof
    assert bucket.artefact_size.value == row.artefact_bytes and str(bucket.artefact_size.grade) == "measured"
    assert (bucket.flags, bucket.versions, bucket.shape, bucket.artefact_sha256) == (row.flags, row.versions, row.shape, row.artefact_sha256)
    assert row.instance_type == "inf2.xlarge" and str(row.grade) == "measured" and row.record is None
    assert row.versions["neuronxcc"].startswith("2.22") and row.shape["sequence_length"] == 16
    assert row.artefact_bytes > 1000 and len(row.artefact_sha256) == 64
    assert record.grade == "measured" and record.system.host == record.source.host and record.findings == ()
    assert record.bottom_line.startswith("tiny compiles for inf2 (")
    (path,) = question.dossier.files()
    assert read(path.read_text()) == record


def test_the_artefact_is_hashed_as_it_lies_on_disk(tmp_path):
    class Thing:
        def save(self, folder):
            paths = [folder / "a", folder / "b"]
            paths[0].write_bytes(b"one")
            paths[1].write_bytes(b"two")
            return paths

    assert compilation.artefact(Thing(), tmp_path) == (6, hashlib.sha256(b"onetwo").hexdigest())


def test_a_failing_compiler_is_a_record_not_a_traceback(open_question, monkeypatch):
    double = doubles.install(monkeypatch, "xla")
    log = 'Traceback (most recent call last):\n  File "x.py", line 3\nINFO: hello\n2026 ERROR 12 [NCC_EVRF004]: operator fft is not supported\n'
    double.fail_with.append(RuntimeError(log))
    record = compile_test(open_question())
    row = by_target(record)["inf2"]
    assert row.status == "failed" and "NCC_EVRF004" in row.because and "Traceback" not in row.because and "INFO" not in row.because
    (finding,) = record.findings
    assert str(finding.severity) == "blocker" and finding.because == row.because
    assert record.bottom_line == "tiny does not compile for inf2."


def test_a_failure_carries_its_diagnosis(open_question, monkeypatch):
    """The message is read by what reads logs: its code, its meaning, what to try."""
    double = doubles.install(monkeypatch, "xla")
    double.fail_with.append(RuntimeError("ERROR 12 [NCC_EVRF004]: complex64 is not supported"))
    record = compile_test(open_question())
    row = by_target(record)["inf2"]
    (bucket,) = row.buckets
    assert (row.status, row.code, bucket.code) == ("failed", "NCC_EVRF004", "NCC_EVRF004") and "Complex numbers" in row.because
    assert row.steps == bucket.steps and row.next == row.steps[0] and "real and imaginary" in row.next
    (finding,) = record.findings
    assert (finding.code, str(finding.severity), finding.next) == ("unsupported_dtype", "blocker", row.next)


def test_an_exception_that_no_diagnosis_knows_is_quoted(open_question, monkeypatch):
    double = doubles.install(monkeypatch, "xla")
    double.fail_with.append(RuntimeError("the moon is in the wrong phase\nand /home/ada/x says error: so"))
    record = compile_test(open_question())
    row = by_target(record)["inf2"]
    assert row.status == "failed" and row.because.endswith("/home/(user)/x says error: so") and row.code == "compile_failed"
    assert row.steps and record.findings[0].code == "compile_failed"


# -- several shapes ---------------------------------------------------------------------------

SHAPES = [{"batch_size": batch, "sequence_length": length} for batch, length in ((1, 16), (8, 16), (1, 32))]


def test_every_shape_is_a_compilation_of_its_own(open_question, monkeypatch):
    double = doubles.install(monkeypatch, "xla")
    question = open_question(shapes=[*SHAPES, SHAPES[0]])
    row = by_target(compile_test(question))["inf2"]
    assert [tuple(call["inputs"][0].shape) for call in double.calls] == [(1, 16), (8, 16), (1, 32)], "a shape written twice is one graph"
    assert [bucket.status for bucket in row.buckets] == ["compiled"] * 3 and row.because.startswith("all 3 shapes compiled in")
    assert row.compile_time.value == pytest.approx(sum(bucket.compile_time.value for bucket in row.buckets))
    assert row.artefact_bytes == sum(bucket.artefact_size.value for bucket in row.buckets)
    assert row.shape is None and row.artefact_sha256 is None and len({bucket.artefact_sha256 for bucket in row.buckets}) == 3
    assert len(double.analyses) == 1, "operators are analysed once"


def test_another_batch_size_for_the_same_length_is_enough(open_question, monkeypatch):
    double = doubles.install(monkeypatch, "xla")
    double.fails_at[8, 16] = RuntimeError("[NCC_EXTP004] Instruction count 7340032 exceeds the limit 5000000")
    record = compile_test(open_question(shapes=SHAPES))
    row = by_target(record)["inf2"]
    assert row.status == "compiled" and "2 of 3 shapes" in row.because and row.code is None
    assert [(one.code, str(one.severity)) for one in record.findings] == [("shape_failed", "warning")]
    assert record.findings[0].because.startswith("batch 8, sequence 16 failed after")
    assert [bucket.status for bucket in row.buckets] == ["compiled", "failed", "compiled"] and row.buckets[1].code == "NCC_EXTP004"


def test_a_length_for_which_nothing_compiles_is_a_no(open_question, monkeypatch):
    double = doubles.install(monkeypatch, "xla")
    double.fails_at[1, 32] = RuntimeError("[NCC_EXTP004] Instruction count 7340032 exceeds the limit 5000000")
    record = compile_test(open_question(shapes=SHAPES))
    row = by_target(record)["inf2"]
    assert row.status == "failed" and "batch 1, sequence 32" in row.because and row.code == "NCC_EXTP004"
    assert [(one.code, str(one.severity)) for one in record.findings] == [("instruction_limit", "blocker")]
    assert row.compile_time.value > 0, "what the other shapes took is kept"


def test_images_of_one_size_are_one_graph_whatever_the_length(open_question):
    vit = {"model_type": "vit", "hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 64, "image_size": 32}
    question = open_question(shapes=SHAPES)
    assert len(shapes_to_compile(question)) == 3
    Path(question.params.workload.model.config).write_text(json.dumps(vit))
    asked = question.params.workload.model_dump(mode="json") | {
        "model": {"config": question.params.workload.model.config, "task": "image-classification"}
    }
    images = Question.open(asked, baseline=question.params.baseline.model_dump(), candidates=[question.params.candidates[0].model_dump()])
    assert [shape.batch_size for shape in shapes_to_compile(images)] == [1, 8]


def test_advice_on_buckets_is_part_of_the_record(open_question):
    question = open_question(shapes=[{"batch_size": 2, "sequence_length": 64}])
    asked = {**question.params.model_dump(mode="json"), "traffic": {"sequence_lengths": {"16": 9, "64": 1}}}
    record = compile_test(Question(params.parse(asked), reports=question.reports))
    # mean 16 x 0.9 + 64 x 0.1 = 20.8 of 64 tokens
    assert record.advice.present.waste.value == pytest.approx(1 - 20.8 / 64) and record.advice.recommended == 2
    assert [one.code for one in record.findings] == ["compiler_absent", "padding_avoidable"]
    assert read(record.to_json()) == record


# -- operators, one by one --------------------------------------------------------------------

FFT = {"kind": "aten::fft_fft", "failureAt": "neuronx-cc", "call": "/home/ada/model.py(6): mix\nmore", "opGraph": "graph(%x : Long(4))"}


def test_the_analysis_is_kept_with_its_share_as_a_number(open_question, monkeypatch):
    double = doubles.install(monkeypatch, "xla", device=False)
    double.unsupported += [FFT]
    record = compile_test(open_question())
    analysis = by_target(record)["inf2"].analysis
    assert analysis.support.value == 0.75 and str(analysis.support.grade) == "measured", "analyze() prints a string, 75.00%"
    assert analysis.supported == {"aten::linear": 3} and analysis.versions["neuronx-cc"].startswith("2.22")
    (objection,) = analysis.unsupported
    assert (objection.name, objection.failure_at, objection.call) == ("aten::fft_fft", "neuronx-cc", "/home/(user)/model.py(6): mix")
    (finding,) = record.findings
    assert (finding.code, str(finding.severity)) == ("analysis_objects", "note") and "75 %" in finding.because and "aten::fft_fft" in finding.because


def test_what_the_analysis_objects_to_matters_when_the_graph_fails(open_question, monkeypatch):
    double = doubles.install(monkeypatch, "xla", device=False)
    double.unsupported += [FFT]
    double.fails_at[1, 16] = RuntimeError("[NCC_EVRF004] complex")
    found = {one.code: str(one.severity) for one in compile_test(open_question()).findings}
    assert found == {"unsupported_dtype": "blocker", "analysis_objects": "warning"}


def test_an_analysis_that_fails_decides_nothing(open_question, monkeypatch):
    double = doubles.install(monkeypatch, "xla", device=False)
    monkeypatch.setattr(double, "analyze", lambda *given, **options: {"support_percentage": "none"} if options else None)
    record = compile_test(open_question())
    assert by_target(record)["inf2"].analysis.support.value is None

    def broken(*given, **options):
        raise RuntimeError("no worker is left")

    monkeypatch.setattr(double, "analyze", broken)
    record = compile_test(open_question())
    row = by_target(record)["inf2"]
    assert row.status == "compiled" and row.analysis is None
    assert [(one.code, str(one.severity)) for one in record.findings] == [("analysis_failed", "note")]
    assert "no worker is left" in record.findings[0].because


# -- earlier evidence -------------------------------------------------------------------------


def test_waiting_does_not_replace_what_was_compiled(open_question, monkeypatch):
    question = open_question()
    with monkeypatch.context() as there:
        doubles.install(there, "xla", device=False)
        first = compile_test(question)
    record = compile_test(question)
    row, before = by_target(record)["inf2"], by_target(first)["inf2"]
    assert row == before.model_copy(update={"record": first.id}) and str(row.grade) == "measured"
    assert record.bottom_line == f"tiny compiles for inf2 ({before.compile_time.value:.3g} s, record {first.id})."
    (finding,) = record.findings
    assert (finding.code, str(finding.severity)) == ("compile_evidence_kept", "note")
    assert "not installed" in finding.because and first.id in finding.because and "type: neuronfit run" in finding.next
    assert record.grade == "estimated" and record.source.inputs == {"inf2": "measured"} and record.system is None
    assert compile_test(question).id == record.id, "and it goes on saying so"
    assert by_target(compile_test(question))["inf2"].record == first.id


def test_an_adopted_failure_stays_with_its_finding(open_question):
    question = open_question()
    adopted, _ = adopt(question, LOGS / "operator_with_code.log", "inf2")
    record = compile_test(question)
    row = by_target(record)["inf2"]
    assert (row.status, row.record, str(row.grade)) == ("failed", adopted.id, "imported") and row.code and row.steps
    assert [(one.code, str(one.severity)) for one in record.findings] == [("unsupported_operator", "blocker"), ("compile_evidence_kept", "note")]
    assert record.bottom_line == f"tiny does not compile for inf2 (record {adopted.id})."


def test_a_new_result_replaces_an_earlier_one(open_question, monkeypatch):
    question = open_question()
    adopt(question, LOGS / "operator_with_code.log", "inf2")
    doubles.install(monkeypatch, "xla")
    record = compile_test(question)
    assert by_target(record)["inf2"].status == "compiled" and record.findings == ()


def test_adopting_a_log_keeps_where_the_other_rows_come_from(open_question):
    question = open_question(("inf2", "inf2.xlarge", "neuron_xla"), ("trn1", "trn1.2xlarge", "neuron_xla"))
    first, _ = adopt(question, LOGS / "compile_succeeded.log", "inf2")
    second, _ = adopt(question, LOGS / "operator_with_code.log", "trn1")
    rows = by_target(second)
    assert (rows["inf2"].record, str(rows["inf2"].grade)) == (first.id, "imported") and rows["trn1"].record is None


@pytest.mark.parametrize(("instance_type", "status"), [("inf2.48xlarge", "failed"), ("trn1.2xlarge", "waiting")])
def test_evidence_is_kept_for_the_same_generation_only(open_question, instance_type, status):
    adopt(open_question(), LOGS / "operator_with_code.log", "inf2")
    assert by_target(compile_test(open_question(("inf2", instance_type, "neuron_xla"))))["inf2"].status == status


def test_evidence_of_another_question_is_not_kept(open_question):
    adopt(open_question(), LOGS / "operator_with_code.log", "inf2")
    longer = open_question(shapes=[{"batch_size": 1, "sequence_length": 17}])
    assert by_target(compile_test(longer))["inf2"].status == "waiting"


# -- a process of its own ---------------------------------------------------------------------


def job(**changes):
    return Job(**{"subject": Subject(TINY, "feature-extraction", instance_type="inf2.xlarge"), "path": "neuron_xla", "shape": SHAPE, **changes})


SHAPE = params.Shape(batch_size=1, sequence_length=16)


def has_ended(pid):
    """Whether the process ends; a killed one takes a moment, a zombie counts as ended."""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        try:
            if psutil.Process(pid).status() == psutil.STATUS_ZOMBIE:
                return True
        except psutil.NoSuchProcess:
            return True
        time.sleep(0.02)
    return False


def test_a_job_travels_whole(tmp_path):
    asked = job(analyze=True, subject=Subject(TINY, "fill-mask", precision="bf16", settings={"optlevel": 1}, weights=str(tmp_path)))
    assert Job.from_json(asked.to_json()) == asked


@pytest.mark.usefixtures("apart")
def test_a_compilation_in_a_process_of_its_own_is_watched(open_question, monkeypatch):
    """One real process: compiled, hashed and measured as in this one."""
    doubles.install(monkeypatch, "xla", device=False)
    monkeypatch.setattr("neuronfit.compile._analysed", lambda *given: (None, []))
    row = by_target(compile_test(open_question()))["inf2"]
    (bucket,) = row.buckets
    assert row.status == "compiled" and bucket.artefact_size.value > 1000 and len(bucket.artefact_sha256) == 64
    assert bucket.cached is False and bucket.flags[:2] == ("--target", "inf2") and bucket.compile_time.value > 0
    assert bucket.peak_memory.value > 100 * 2**20 and "children" in bucket.peak_memory.why, "torch alone takes more than 100 MiB"
    assert row.peak_memory == bucket.peak_memory and bucket.log is None


@pytest.mark.usefixtures("apart")
def test_a_failure_in_a_process_of_its_own_leaves_its_log(open_question, monkeypatch):
    """What the compiler prints is diagnosed, not only the message of the exception; the log stays in the dossier."""
    doubles.install(monkeypatch, "xla", device=False)
    monkeypatch.setenv("NEURON_DOUBLE_FAILS", "1")
    monkeypatch.setattr("neuronfit.compile._analysed", lambda *given: (None, []))
    question = open_question()
    record = compile_test(question)
    row = by_target(record)["inf2"]
    assert (row.status, row.code) == ("failed", "NCC_EXTP004") and record.findings[0].code == "instruction_limit"
    log = (question.dossier.folder / row.buckets[0].log).read_text()
    assert "7340032" in log and "neuronx-cc failed with 70" in log


@pytest.mark.usefixtures("apart")
def test_a_compiler_that_is_killed_is_a_record_that_blames_the_host(open_question, monkeypatch):
    doubles.install(monkeypatch, "xla", device=False)
    monkeypatch.setenv("NEURON_DOUBLE_SIGNAL", str(int(signal.SIGKILL)))
    record = compile_test(open_question())
    row = by_target(record)["inf2"]
    assert row.status == "waiting" and row.buckets[0].status == "failed", "the host is to blame, so the question stays open"
    assert "signal 9 (SIGKILL)" in row.because and "memory" in row.because and row.code == "killed"
    assert {(one.code, str(one.severity)) for one in record.findings} == {("host_memory", "warning"), ("analysis_failed", "note")}
    assert record.grade == "measured" and record.bottom_line.startswith("Whether tiny compiles is not known for inf2: batch 1, sequence 16 failed")


@pytest.mark.usefixtures("apart")
def test_a_compiler_that_crashes_is_a_record(tmp_path, open_question, monkeypatch):
    doubles.install(monkeypatch, "xla", device=False)
    monkeypatch.setenv("NEURON_DOUBLE_SIGNAL", str(int(signal.SIGSEGV)))
    monkeypatch.setattr("neuronfit.compile._analysed", lambda *given: (None, []))
    record = compile_test(open_question())
    row = by_target(record)["inf2"]
    assert (row.status, row.code) == ("failed", "signal_11") and "SIGSEGV" in row.because
    assert [(one.code, str(one.severity)) for one in record.findings] == [("compiler_crash", "blocker")]


@pytest.mark.usefixtures("apart")
def test_a_process_that_leaves_without_an_answer_failed(tmp_path, monkeypatch):
    doubles.install(monkeypatch, "xla", device=False)
    monkeypatch.setenv("NEURON_DOUBLE_EXIT", "70")
    outcome = compilation.apart(job(), tmp_path)
    assert (outcome.status, outcome.signal, outcome.because) == ("failed", None, "the compiling process ended with status 70")
    worker = int(outcome.log.read_text().split("worker ")[1].split()[0])
    assert has_ended(worker), "what it started is ended with it"


@pytest.mark.usefixtures("apart")
def test_a_question_that_cannot_be_asked_is_an_error_here_as_there(tmp_path):
    with pytest.raises(BadInput, match="settings.optlevel"):
        compilation.apart(job(subject=Subject(TINY, "feature-extraction", instance_type="inf2.xlarge", settings={"optlevel": 0})), tmp_path)


def test_memory_counts_the_children_too():
    """A process that holds 64 MiB starts one that holds 128 MiB; both say when they do."""
    held = "import sys; held = b'x' * ({} << 20)\n"
    inner = held.format(128) + "print('ready', flush=True); sys.stdin.read()"
    outer = held.format(64) + f"import subprocess\nsubprocess.run([sys.executable, '-c', {inner!r}], stdin=sys.stdin)"
    with subprocess.Popen([sys.executable, "-c", outer], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"ready\n"
        seen = compilation.memory_of(process.pid)
        process.stdin.close()
    assert 192 * 2**20 < seen < 400 * 2**20
    assert compilation.memory_of(process.pid) == 0


def test_the_compilers_own_log_is_read_before_what_was_printed(tmp_path):
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "log-neuron-cc.txt").write_text("the root")
    (tmp_path / "output.log").write_text("what it caused")
    assert compilation._whole_log(tmp_path).read_text().split("\n")[:2] == ["the root", "what it caused"]


def test_the_most_memory_that_either_way_of_looking_saw_counts(tmp_path):
    (tmp_path / "output.log").write_text("")
    made = {"status": "done", "seconds": 1.0, "flags": ["-O1"], "peak_memory_bytes": 700}
    for watched, most in ((500, 700), (900, 900), (None, 700)):
        (tmp_path / "outcome.json").write_text(json.dumps(made))
        outcome = compilation._ended(tmp_path, 0, 9.0, watched)
        assert outcome == Outcome("done", 1.0, flags=("-O1",), peak_memory_bytes=most), "the time is that of the compiler, not of the process"


# -- native -----------------------------------------------------------------------------------


def test_native_compiles_on_a_device_and_waits_without(open_question, monkeypatch):
    doubles.install(monkeypatch, "native")
    question = open_question(("trn2", "trn2.3xlarge", "neuron_native"))
    row = by_target(compile_test(question))["trn2"]
    assert row.status == "compiled" and 'backend="neuron"' in row.flags and "TORCH_NEURONX_DISABLE_FALLBACK_EXECUTION=1" in row.flags
    (bucket,) = row.buckets
    assert bucket.proof.startswith("get_dynamo_metrics: 1 graph, 412 nodes") and bucket.cached is False and row.analysis is None
    monkeypatch.setattr(system, "neuron_devices", list)
    another = open_question(("trn2b", "trn2.3xlarge", "neuron_native"))
    row = by_target(compile_test(another))["trn2b"]
    assert row.status == "waiting" and "/dev/neuron" in row.because


def test_native_artefacts_are_hashed_where_they_are_left(open_question, monkeypatch, tmp_path):
    doubles.install(monkeypatch, "native")
    monkeypatch.setenv("TORCH_NEURONX_DEBUG_DIR", str(tmp_path / "debug"))
    row = by_target(compile_test(open_question(("trn2", "trn2.3xlarge", "neuron_native"))))["trn2"]
    assert row.artefact_bytes == 400 and row.artefact_sha256 == hashlib.sha256(b"NEFF" * 100).hexdigest()


def test_a_call_that_returns_without_metrics_proves_nothing(open_question, monkeypatch):
    double = doubles.install(monkeypatch, "native")
    monkeypatch.setattr(double, "get_dynamo_metrics", list)
    record = compile_test(open_question(("trn2", "trn2.3xlarge", "neuron_native")))
    row = by_target(record)["trn2"]
    assert row.status == "waiting" and "may have run eagerly" in row.because and row.compile_time is None
    assert [(one.code, str(one.severity)) for one in record.findings] == [("compile_unproven", "waiting")]
    assert record.grade == "estimated"


def test_torchneuron_does_not_compile_for_inferentia(open_question, monkeypatch):
    doubles.install(monkeypatch, "native")
    row = by_target(compile_test(open_question()))["inf2"]
    assert row.status == "waiting" and "Trn2 and Trn3 only" in row.because


def test_the_placeholder_is_named(open_question, monkeypatch):
    doubles.install(monkeypatch, "wrong_package")
    row = by_target(compile_test(open_question()))["inf2"]
    assert row.status == "waiting" and "WRONG PACKAGE" in row.because


def test_generation_waits_for_its_own_server(open_question, monkeypatch, tmp_path):
    doubles.install(monkeypatch, "xla")
    (tmp_path / "llama").mkdir()
    (tmp_path / "llama" / "config.json").write_text(json.dumps({**TINY, "model_type": "llama"}))
    question = open_question(
        model={"config": str(tmp_path / "llama"), "task": "text-generation"},
        shapes=[{"batch_size": 1, "sequence_length": 16, "output_length": 4}],
    )
    record = compile_test(question)
    row = by_target(record)["inf2"]
    assert row.status == "waiting" and "vLLM" in row.next
    assert [(one.code, str(one.severity)) for one in record.findings] == [("shape_waiting", "waiting")]


def test_no_neuron_target_needs_no_compiler(open_question):
    record = compile_test(open_question(("a10g", "g5.xlarge", "cuda")))
    assert {row.status for row in record.targets} == {"not_needed"}
    assert record.bottom_line == "No target of tiny needs a Neuron compiler."


def test_a_server_compiles_elsewhere_and_its_log_is_the_evidence(open_question):
    """It waits: to say that nothing needs compiling would hide a step that takes an hour and may fail."""
    question = open_question(("llm", "trn2.48xlarge", "vllm_neuron"))
    record = compile_test(question)
    row = by_target(record)["llm"]
    assert row.status == "waiting" and "vLLM Neuron" in row.because
    assert row.next.endswith("neuronfit diagnose LOG --for llm --params params/tiny.yaml")
    assert [(one.code, str(one.severity), one.target) for one in record.findings] == [("compiled_elsewhere", "waiting", "llm")]
    assert record.bottom_line.startswith("Whether tiny compiles is not known for llm: vLLM Neuron")
    log = b"INFO Automatically detected platform neuron.\nINFO:     Application startup complete.\n"
    adopt(question, io.BytesIO(log), "llm")
    assert by_target(compile_test(question))["llm"].status == "compiled", "a later run of the step keeps what the log proved"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "no message"),
        ("\n  plain words\nmore", "plain words / more"),
        ("noise\nerror: bad flag\nnoise", "error: bad flag"),
        ("noise\n[XTP001] unsupported\n[F137] neuronx-cc was killed: ERROR\n", "[XTP001] unsupported / [F137] neuronx-cc was killed: ERROR"),
    ],
)
def test_informative_lines(text, said):
    assert informative_lines(text) == said
