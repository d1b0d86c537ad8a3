"""Step 2: what the documentation rules out, and no claim beyond that."""

import dataclasses

import pytest
from example_questions import question
from neuronfit import compatibility, cost, params
from neuronfit.catalog import instances, operators, paths
from neuronfit.check import ModuleCheck, OperatorFinding
from neuronfit.model import memory_needed
from neuronfit.provenance import Grade
from neuronfit.question import Question
from tiny import question_data

GIB = 2**30


def looked_at(*names, findings=(), how="torch.export by hand", complete=True, error=None):
    """What a look at a model might say."""
    return ModuleCheck(findings, how, complete, {name: 3 for name in names}, "0", error)


@pytest.fixture
def graph(monkeypatch):
    """Sets what the look at the operators says: ``graph("aten.relu.default", inf2=[finding])``; step 2 then needs no export."""

    def use(*names, error=None, how="torch.export by hand", **by_candidate):
        first = looked_at(*names, how=how, complete=error is None, error=error)
        checks = {name: looked_at(*names, findings=tuple(findings)) for name, findings in by_candidate.items()}
        monkeypatch.setattr(compatibility, "_looked_at", lambda question: (first, checks or {"inf2": first}))

    use("aten.linear.default")
    return use


def fft(operator="aten.fft_fft.default", severity="blocker", generations=("inf2", "trn1")):
    return OperatorFinding(
        severity, "fft", operator, "a Fourier transform", "use a DFT matrix", None, None, 3, "layer.0", "M", "m.py", 7, "x", generations, "s", "2026"
    )


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """A BERT of two layers, really exported."""
    folder = tmp_path_factory.mktemp("tiny")
    return compatibility.check(Question(params.parse(question_data(folder)), reports=folder))


def blockers(record):
    return [(finding.code, finding.target) for finding in record.findings if str(finding.severity) == "blocker"]


# -- operators --------------------------------------------------------------------------------


def test_the_operators_of_a_two_layer_bert(exported):
    """Counted by hand: 4 attention and 2 MLP products a layer, 2 layers, and the pooler: 13 linear; 3 embeddings;
    2 norms a layer and one on the embeddings: 5; one attention and one gelu a layer."""
    calls = {operators.normalise(row.name): row.calls for row in exported.operators}
    assert calls["linear"] == 13 and calls["embedding"] == 3 and calls["layer_norm"] == 5
    assert calls["scaled_dot_product_attention"] == 2 and calls["gelu"] == 2 and calls["tanh"] == 1
    assert "torch.export" in exported.graph_how


def test_the_strongest_positive_statement(exported):
    assert exported.bottom_line.startswith("No documented blocker found. ")
    assert "support" not in exported.bottom_line.split(".")[0]
    told = {operators.normalise(row.name): (row.status, row.because) for row in exported.operators}
    assert told["layer_norm"] == ("no_statement", "no documented blocker found")
    assert told["embedding"][0] == "listed"
    assert told["linear"][0] == "restricted" and told["linear"][1].startswith("this model keeps the condition: "), "its products are of floats"


def test_the_bottom_line_says_where_a_path_does_not_name_the_model(tmp_path, graph):
    """The tiny BERT is an encoder: a trace takes it, and vLLM on NxD Inference is for models that generate."""
    paths_of = {"traced": "neuron_xla", "served": "nxd_inference"}
    candidates = [{"name": name, "instance_type": "inf2.8xlarge", "path": path} for name, path in paths_of.items()]
    told = compatibility.check(question(tmp_path, candidates=candidates)).bottom_line
    assert "served: NxD Inference (with vLLM 0.16), whose pages do not name this kind of model, SDK" in told
    assert told.count("do not name") == 1


def test_a_condition_that_a_finding_asks_about_is_not_said_to_be_kept(tmp_path, graph):
    finding = dataclasses.replace(fft(), severity="conditional", code="integer_product", operator="aten.linear.default", kept=None)
    graph("aten.linear.default", inf2=[finding], trn1=[finding])
    [row] = compatibility.check(question(tmp_path)).operators
    assert row.status == "restricted" and "keeps" not in row.because and "only with integer input" in row.because


def test_an_operator_with_a_blocker_is_one_for_the_model_with_its_line(tmp_path, graph):
    graph("aten.fft_fft.default", "aten.relu.default", inf2=[fft()], trn1=[fft()])
    record = compatibility.check(question(tmp_path))
    assert blockers(record) == [("fft", None)]
    [finding] = [finding for finding in record.findings if finding.code == "fft"]
    assert finding.because == "aten.fft_fft.default, 3 calls at m.py:7, in layer.0, on Inf2, Trn1: a Fourier transform"
    assert record.bottom_line.startswith("1 documented blocker: aten.fft_fft.default, 3 calls")
    assert {operators.normalise(row.name): row.status for row in record.operators} == {"fft_fft": "unsupported", "relu": "listed"}
    assert "only with" not in "".join(row.because for row in record.operators)


def test_what_blocks_one_candidate_only_leaves_the_other_leading(tmp_path, graph):
    graph("aten.fft_fft.default", inf2=[fft()], trn2=[])
    candidates = [
        {"name": "inf2", "instance_type": "inf2.xlarge", "path": "neuron_xla"},
        {"name": "trn2", "instance_type": "trn2.3xlarge", "path": "neuron_native"},
    ]
    asked = question(tmp_path, candidates=candidates)
    assert blockers(compatibility.check(asked)) == [("fft", "inf2")]
    assert cost.speaks_against(asked, "inf2").startswith("aten.fft_fft.default") and cost.speaks_against(asked, "trn2") is None
    assert cost.leading(asked) == "trn2"


@pytest.mark.parametrize("path, instance_type", [("nxd_inference", "inf2.8xlarge"), ("vllm_neuron", "trn2.3xlarge")])
def test_a_path_with_model_code_of_its_own_is_not_blocked_by_transformers_code(tmp_path, graph, path, instance_type):
    graph("aten.sort.default", served=[fft()])
    record = compatibility.check(question(tmp_path, candidates=[{"name": "served", "instance_type": instance_type, "path": path}]))
    [finding] = [finding for finding in record.findings if finding.code == "fft"]
    assert str(finding.severity) == "warning" and "runs model code of its own, which was not looked at" in finding.because


def test_without_a_neuron_candidate_nothing_is_said_against_operators(tmp_path, graph, monkeypatch):
    monkeypatch.setattr(compatibility, "_looked_at", lambda question: (looked_at("aten.fft_fft.default"), {}))
    record = compatibility.check(question(tmp_path, candidates=[{"name": "g5", "instance_type": "g5.xlarge", "path": "cuda"}]))
    assert blockers(record) == [] and record.operators[0].status == "unsupported"


def test_what_could_not_be_looked_at_waits_and_is_said(tmp_path, graph):
    graph(error="data-dependent branch at model.py:12", how="module inspection")
    record = compatibility.check(question(tmp_path))
    [finding] = [finding for finding in record.findings if finding.code == "operators_not_seen"]
    assert str(finding.severity) == "waiting" and "model.py:12" in finding.because and record.operators == ()
    assert record.bottom_line.startswith("No documented blocker found. Not every operator could be looked at. ")


def test_a_run_to_its_end_counts_as_looked_at(tmp_path, graph):
    graph("aten.relu.default", error="no export", how="recorded run on cpu")
    assert "operators_not_seen" not in {finding.code for finding in compatibility.check(question(tmp_path)).findings}


# -- the path ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path, instance_type, supported",
    [
        ("neuron_xla", "inf2.xlarge", True),
        ("neuron_xla", "trn1.2xlarge", True),
        ("neuron_xla", "inf1.xlarge", False),
        ("neuron_native", "inf2.xlarge", False),
        ("neuron_native", "trn1.2xlarge", False),
        ("neuron_native", "trn2.3xlarge", True),
        ("vllm_neuron", "inf2.xlarge", False),
        ("torch_neuron", "inf1.xlarge", True),
        ("torch_neuron", "inf2.xlarge", False),
        ("cuda", "inf2.xlarge", False),
    ],
)
def test_a_path_that_does_not_exist_there_is_a_blocker_with_advice(tmp_path, graph, path, instance_type, supported):
    """The documented table of paths and generations (SDK 2.33: TorchNeuron and vLLM on Trn2 and Trn3 only)."""
    record = compatibility.check(question(tmp_path, candidates=[{"name": "there", "instance_type": instance_type, "path": path}]))
    row = record.targets[1]
    assert row.supported is supported and row.status == paths.find(path, instance_type).status
    assert (("path_unsupported", "there") in blockers(record)) is not supported
    if not supported:
        [finding] = [finding for finding in record.findings if finding.code == "path_unsupported"]
        assert row.title in finding.because and instance_type in finding.because and finding.next == row.advice


def test_a_frozen_path_says_for_how_long(tmp_path, graph):
    record = compatibility.check(question(tmp_path))
    notes = {finding.target: finding for finding in record.findings if finding.code == "path_horizon"}
    assert set(notes) == {"inf2", "trn1"}  # CUDA has no horizon worth a note
    assert "maintenance" in notes["inf2"].because and "an end of support is not announced" in notes["inf2"].because
    assert "SDK 2.31.1" in record.bottom_line and "maintenance" in record.bottom_line
    rows = {row.target: row for row in record.targets}
    assert (rows["inf2"].sdk, rows["inf2"].torch) == ("2.31.1", "2.9") and rows["inf2"].source


# -- memory -----------------------------------------------------------------------------------


def test_memory_needed_is_of_the_largest_shape_and_available_is_the_instances(tmp_path, graph):
    asked = question(tmp_path)
    record = compatibility.check(asked)
    needs = [memory_needed(asked.config, "feature-extraction", batch, 128, "fp32").total_bytes for batch in (1, 16)]
    for row in record.targets:
        assert row.memory_needed.value == max(needs) and row.memory_needed.grade is Grade.ESTIMATED
        assert row.memory_available.value == instances.find(row.instance_type).accelerator_memory_bytes
        assert row.memory_available.grade is Grade.PUBLISHED and row.fits is True
    assert record.targets[1].memory_available.value == 32 * GIB


def test_more_than_the_instance_has_is_a_blocker(tmp_path, graph):
    shapes = [{"batch_size": 4096, "sequence_length": 512}]
    record = compatibility.check(question(tmp_path, workload__shapes=shapes))
    row = record.targets[1]
    assert row.fits is False and row.memory_needed.value > row.memory_available.value
    assert ("does_not_fit", "inf2") in blockers(record)
    [finding] = [finding for finding in record.findings if finding.code == "does_not_fit" and finding.target == "inf2"]
    assert "inf2.xlarge has 32 GiB" in finding.because and "smaller batch" in finding.next


def test_more_than_one_accelerator_has_needs_splitting(tmp_path, graph):
    """inf2.24xlarge: 6 x 32 GiB. What needs between 32 and 192 GiB fits, on several."""
    shapes = [{"batch_size": 1024, "sequence_length": 512}]
    candidates = [{"name": "six", "instance_type": "inf2.24xlarge", "path": "neuron_xla"}]
    record = compatibility.check(question(tmp_path, workload__shapes=shapes, candidates=candidates))
    row = record.targets[1]
    assert 32 * GIB < row.memory_needed.value < 192 * GIB and row.fits is True
    codes = {(finding.code, str(finding.severity)) for finding in row.findings}
    assert ("needs_splitting", "warning") in codes and ("does_not_fit", "blocker") not in codes


def test_a_narrower_format_needs_half(tmp_path, graph):
    fp32, bf16 = (
        compatibility.check(question(tmp_path / precision, workload__precision=precision)).targets[0].memory_needed.value
        for precision in ("fp32", "bf16")
    )
    assert bf16 == pytest.approx(fp32 / 2)


def test_checking_twice_leaves_one_record(tmp_path, graph):
    asked = question(tmp_path)
    assert compatibility.check(asked).id == compatibility.check(asked).id and len(asked.dossier.files()) == 1
