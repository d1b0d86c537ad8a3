"""Step 3 against the doubles: compiled, failed, waiting, not needed."""

import hashlib
import json

import doubles
import pytest
from neuronfit import compile as compiling
from neuronfit import params, system
from neuronfit.compile import compile_test, informative_lines
from neuronfit.question import Question
from neuronfit.record import read
from test_targets import TINY


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
    doubles.install(monkeypatch, "xla", device=False)
    question = open_question()
    record = compile_test(question)
    row = by_target(record)["inf2"]
    assert row.status == "compiled" and row.compile_time.value > 0 and row.compile_time.grade == "measured"
    assert row.flags[:2] == ("--auto-cast", "none") and row.versions["torch_neuronx"].startswith("2.9")
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

    assert compiling._artefact(Thing()) == (6, hashlib.sha256(b"onetwo").hexdigest())


def test_a_failing_compiler_is_a_record_not_a_traceback(open_question, monkeypatch):
    double = doubles.install(monkeypatch, "xla")
    log = 'Traceback (most recent call last):\n  File "x.py", line 3\nINFO: hello\n2026 ERROR 12 [NCC_EVRF004]: operator fft is not supported\n'
    double.fail_with.append(RuntimeError(log))
    record = compile_test(open_question())
    row = by_target(record)["inf2"]
    assert row.status == "failed" and "NCC_EVRF004" in row.because and "Traceback" not in row.because and "INFO" not in row.because
    (finding,) = record.findings
    assert finding.code == "compile_failed" and str(finding.severity) == "blocker"
    assert record.bottom_line == "tiny does not compile for inf2."


def test_native_compiles_on_a_device_and_waits_without(open_question, monkeypatch):
    doubles.install(monkeypatch, "native")
    question = open_question(("trn2", "trn2.3xlarge", "neuron_native"))
    row = by_target(compile_test(question))["trn2"]
    assert row.status == "compiled" and 'backend="neuron"' in row.flags
    monkeypatch.setattr(system, "neuron_devices", list)
    row = by_target(compile_test(question))["trn2"]
    assert row.status == "waiting" and "/dev/neuron" in row.because


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
    row = by_target(compile_test(question))["inf2"]
    assert row.status == "waiting" and "vLLM" in row.next


def test_no_neuron_target_needs_no_compiler(open_question):
    record = compile_test(open_question(("a10g", "g5.xlarge", "cuda"), ("llm", "trn2.48xlarge", "vllm_neuron")))
    assert {row.status for row in record.targets} == {"not_needed"}
    assert record.bottom_line == "No target of tiny needs a Neuron compiler."


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
