"""Step 2: what the documentation rules out, and no claim beyond that."""

import pytest
from example_questions import question
from neuronfit import compatibility, cost, model, params
from neuronfit.catalog import instances, operators, paths
from neuronfit.provenance import Grade
from neuronfit.question import Question
from tiny import question_data

GIB = 2**30


@pytest.fixture
def graph(monkeypatch):
    """Sets the exported graph: ``graph("aten.relu.default")``; step 2 then needs no torch.export."""

    def use(*names, error=None):
        made = model.Graph(exported={name: 3 for name in names}, decomposed={}, how="by hand", torch_version="0", error=error)
        monkeypatch.setattr(compatibility, "_looked_at", lambda question: (made, {}))

    use("aten.linear.default")
    return use


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


def test_an_unsupported_operator_is_a_blocker_for_the_model(tmp_path, graph):
    graph("aten.fft_fft.default", "aten.relu.default")
    record = compatibility.check(question(tmp_path))
    assert blockers(record) == [("operator_unsupported", None)]
    [finding] = [finding for finding in record.findings if finding.code == "operator_unsupported"]
    assert finding.because.startswith("aten.fft_fft.default, 3 calls: FFT is the documented example") and finding.next
    assert record.bottom_line.startswith("1 documented blocker: aten.fft_fft.default, 3 calls")
    assert {operators.normalise(row.name): row.status for row in record.operators} == {"fft_fft": "unsupported", "relu": "listed"}
    assert "only with" not in "".join(row.because for row in record.operators)


def test_what_is_unsupported_on_one_generation_only_blocks_the_candidates_of_that_one(tmp_path, graph):
    """Complex numbers: documented as unsupported for Inf2 and Trn1, with a condition for Trn2."""
    graph("aten.view_as_complex.default")
    candidates = [
        {"name": "inf2", "instance_type": "inf2.xlarge", "path": "neuron_xla"},
        {"name": "trn2", "instance_type": "trn2.3xlarge", "path": "neuron_native"},
    ]
    asked = question(tmp_path, candidates=candidates)
    assert blockers(compatibility.check(asked)) == [("operator_unsupported", "inf2")]
    assert cost.speaks_against(asked, "inf2").startswith("aten.view_as_complex.default") and cost.speaks_against(asked, "trn2") is None
    assert cost.leading(asked) == "trn2"


def test_a_restriction_that_hangs_on_a_condition_is_in_the_table_only(tmp_path, graph):
    """Products of integers are inexact; whether these are integers is not looked at, so it is no finding."""
    graph("aten.addmm.default", "aten.bmm.default")
    record = compatibility.check(question(tmp_path))
    assert not [finding for finding in record.findings if finding.code.startswith("operator_")]
    assert all(row.because.endswith("(only with integer input)") for row in record.operators)


@pytest.mark.parametrize("known", [row for row in operators.every() if row.when == "always"], ids=lambda row: f"{row.name}-{row.status}")
def test_every_unconditional_statement_of_the_catalogue_becomes_a_finding(tmp_path, graph, known):
    """On some generation that it is about; a candidate of each is asked about."""
    graph(f"aten.{known.name}.default")
    types = ("inf2.xlarge", "trn1.2xlarge", "trn2.3xlarge")
    candidates = [{"name": name.split(".")[0], "instance_type": name, "path": "neuron_xla"} for name in types]
    found = [finding for finding in compatibility.check(question(tmp_path, candidates=candidates)).findings if finding.code.startswith("operator_")]
    assert {finding.code for finding in found} >= {f"operator_{known.status}"}
    assert all((str(finding.severity) == "blocker") == (finding.code == "operator_unsupported") for finding in found)


def test_a_graph_that_cannot_be_exported_is_a_warning(tmp_path, graph):
    graph(error="data-dependent branch at model.py:12")
    record = compatibility.check(question(tmp_path))
    [finding] = [finding for finding in record.findings if finding.code == "export_failed"]
    assert str(finding.severity) == "warning" and "model.py:12" in finding.because and record.operators == ()


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
    needs = [model.memory_needed(asked.config, "feature-extraction", batch, 128, "fp32").total_bytes for batch in (1, 16)]
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
