"""Two targets on the machine at hand, an image model without attention, and several numbers of workers: what step 4 and the summary make of them."""

import json

import pytest
from example_questions import STEPS_WITHOUT_EXPORT, walk
from neuronfit import check, compatibility, measure, model, params, report
from neuronfit.cli.common import group
from neuronfit.compile import compile_test
from neuronfit.errors import BadInput, BadParams
from neuronfit.question import Question

BERT = {
    "model_type": "bert",
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 64,
    "vocab_size": 200,
    "max_position_embeddings": 64,
}
RESNET = {
    "model_type": "resnet",
    "num_channels": 3,
    "embedding_size": 8,
    "hidden_sizes": [8, 16],
    "depths": [1, 1],
    "layer_type": "basic",
    "image_size": 32,
}


def asked(folder, config=BERT, task="feature-extraction", **changes):
    (folder / "config.json").write_text(json.dumps(config))
    data = {
        "workload": {
            "name": "tiny",
            "model": {"config": str(folder / "config.json"), "task": task},
            "shapes": [{"batch_size": 2, "sequence_length": 16}],
        },
        "baseline": {"name": "whole", "instance_type": "this-host", "path": "cpu"},
        "candidates": [{"name": "half", "instance_type": "this-host", "path": "cpu", "settings": {"precision": "bf16"}}],
        "traffic": {"mean_per_s": 4, "peak_per_s": 8},
        "policy": {"budget_s": 0.2, "runs": 2, "interval_width": 0.9},
        **changes,
    }
    return Question(params.parse(data), reports=folder / "reports")


@pytest.fixture
def quick(monkeypatch):
    """Nothing of this host reaches the judgement of a measurement."""
    from neuronfit.measure import judgement

    monkeypatch.setattr(judgement, "SHORTEST_S", 0.0)


# -- the same machine on both sides ------------------------------------------------------------


def test_two_precisions_on_the_machine_at_hand_have_no_price_and_say_so(tmp_path, monkeypatch):
    looked = check.ModuleCheck((), "torch.export by hand", True, {"aten.linear.default": 1}, "0")
    monkeypatch.setattr(compatibility, "_looked_at", lambda question: (looked, {}))
    question = asked(tmp_path)
    records = walk(question, (STEPS_WITHOUT_EXPORT[0], compatibility.check, compile_test, *STEPS_WITHOUT_EXPORT[1:]))
    decision = records["decision"]
    gates = {gate.name: gate for gate in decision.gates}
    assert gates["compiles"].status == "pass" and "without ahead-of-time compilation" in gates["compiles"].because
    assert gates["fits"].status == "pass" and gates["fits"].because.endswith("host memory")
    assert "which has no price: only speed and answers are compared" in decision.sentence and "$" not in decision.sentence
    assert decision.next_measurement.host == "this host"
    waiting = [finding for finding in records["cost"].findings if finding.code == "price_unknown"]
    assert {finding.because for finding in waiting} == {"the machine at hand has no price in the catalogue"}
    assert all("pricing.overrides entry for this-host" in finding.next for finding in waiting)
    assert report._title(records["profile"]) == "Should tiny move from whole to half?"


def test_a_side_that_was_measured_and_is_not_valid_is_not_called_missing(tmp_path):
    question = asked(tmp_path)
    [row] = measure.measure(question, "whole", progress=False)
    question.dossier.admit(row.model_copy(update={"id": None, "valid": False, "validity": "host was disturbed", "target": "half"}))
    records = walk(question, STEPS_WITHOUT_EXPORT)
    assert "no VALID one" in records["comparison"].bottom_line
    gate = {gate.name: gate for gate in records["decision"].gates}["comparable"]
    assert gate.because == "one side was measured, and no measurement of it is VALID"


# -- a convolutional network -------------------------------------------------------------------


def test_resnet_50_has_the_published_number_of_parameters_and_a_memory_formula():
    """25,557,032 parameters (torchvision's table). The fullest layer of an image is the first normalisation: 64 x 112 x 112 in, the
    same out, and as much again for a shortcut."""
    resnet = {"model_type": "resnet", "hidden_sizes": [256, 512, 1024, 2048], "depths": [3, 4, 6, 3], "num_labels": 1000}
    need = model.memory_needed(resnet, "image-classification", 8, 1, "fp32")
    assert need.weights_bytes == 4 * 25_557_032 and need.activations_bytes == 8 * 4 * 3 * 64 * 112 * 112
    assert model.memory_needed(resnet, "image-classification", 8, 1, "bf16").activations_bytes == need.activations_bytes // 2
    with pytest.raises(BadParams, match="no memory formula for model type"):
        model.memory_needed({"model_type": "mamba"}, "text-generation", 1, 8, "fp32")


def test_a_resnet_is_measured_and_looked_at(tmp_path):
    question = asked(tmp_path, RESNET, "image-classification")
    [row] = measure.measure(question, "whole", progress=False)
    assert (row.result_unit, row.results_per_call, row.latency_of) == ("image", 2, "batch") and not any(run.errors for run in row.runs)
    assert row.settings.input == "synthetic pixels, seed 0"
    found = compatibility.check(question)
    assert found.targets[0].fits and found.targets[0].memory_needed.why == "weights exactly, activations as an upper estimate"
    assert any("conv" in use.name for use in found.operators)


# -- the best over batch sizes and workers -----------------------------------------------------


def test_offline_tries_batch_sizes_and_workers_and_shows_the_best(tmp_path, quick):
    import yaml
    from click.testing import CliRunner
    from neuronfit import compare
    from neuronfit.cli import measure as command  # registers itself with the group

    question = asked(tmp_path)
    data = json.loads(question.params.model_dump_json(exclude_none=True))
    (tmp_path / "tiny.yaml").write_text(yaml.safe_dump(data))
    assert command
    said = CliRunner().invoke(
        group,
        ["measure", str(tmp_path / "tiny.yaml"), "--target", "whole", "--workers", "2,1", "--batch-sizes", "1,2", "--reports", str(tmp_path / "r")],
    )
    assert said.exception is None, said.output
    rows = Question.from_file(tmp_path / "tiny.yaml", reports=tmp_path / "r").dossier.measurements("whole")
    assert sorted((row.settings.workers, row.settings.batch_size, row.results_per_call) for row in rows) == [
        (1, 1, 1),
        (1, 2, 2),
        (2, 1, 2),
        (2, 2, 4),
    ]
    top = compare.best([row for row in rows if row.valid], question.params.objective)
    if top is not None:  # a disturbed host has no valid row, and then nothing is called the best
        assert f"batch {top.settings.batch_size}, {top.settings.workers} worker" in said.output and "best of" in said.output
    else:
        assert "best of" not in said.output


def test_the_best_is_the_fastest_valid_setting_that_keeps_the_objective(tmp_path, quick, capsys):
    """Batch 2 on two workers has twice the results of batch 1 and takes 30 ms; 20 ms are allowed, so batch 1 is the best."""
    from neuronfit.cli.measure import _say_best

    question = asked(tmp_path, objective={"latency_p50_ms": 20})
    [one] = measure.measure(question, "whole", progress=False)

    def row(batch, workers, seconds, valid=True):
        runs = tuple(run.model_copy(update={"values_s": (seconds,) * 20, "duration_s": 20 * seconds}) for run in one.runs)
        settings = one.settings.model_copy(update={"batch_size": batch, "workers": workers})
        return one.model_copy(update={"runs": runs, "settings": settings, "results_per_call": batch * workers, "valid": valid})

    _say_best(question, [row(1, 1, 0.010), row(2, 2, 0.030), row(4, 4, 0.001, valid=False)])
    assert capsys.readouterr().out.strip() == "best of 2 valid: batch 1, 1 worker, 100/s; keeps the objective"


def test_workers_that_a_path_does_not_have_are_refused(tmp_path, monkeypatch):
    from neuronfit.measure.here import _with_workers

    target = asked(tmp_path).params.baseline
    assert [one.settings["workers"] for one in _with_workers(target, [1, 4, 2, 1])] == [2, 4, 1], (
        "this process keeps the cores it took, so it is last"
    )
    monkeypatch.setattr("neuronfit.targets.cpu.CpuTarget.settings", ("precision",))
    with pytest.raises(BadInput, match="path cpu has no workers.*allowed: cuda, neuron_xla, neuron_native"):
        _with_workers(target, [2])


def test_matched_and_best_that_are_the_same_figures_are_shown_once():
    from example_records import every
    from neuronfit import show
    from neuronfit.record import Comparison

    [comparison] = [record for record in every() if isinstance(record, Comparison)]
    pair = next(pair for pair in comparison.pairs if pair.differences)
    twice = comparison.model_copy(update={"pairs": (pair.model_copy(update={"mode": "matched"}), pair.model_copy(update={"mode": "best"}))})
    rows = show.differences_table(twice).rows
    assert len(rows) == len(pair.differences)
