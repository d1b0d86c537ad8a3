"""Opening a question: where names, files and commands lead."""

import json

import pytest
import yaml
from example_questions import NAMES, ROOT, mapping, question
from neuronfit import params
from neuronfit.errors import BadParams, NotFound
from neuronfit.question import Question, project_root


def test_a_name_a_file_and_a_mapping_are_one_question():
    by_name = Question.open("bert-base-uncased")
    by_file = Question.from_file(ROOT / "params" / "bert-base-uncased.yaml")
    by_mapping = Question.open(**mapping())
    assert by_name.params == by_file.params == by_mapping.params
    assert by_name.ref == by_file.ref == by_mapping.ref
    assert {one.command_name for one in (by_name, by_file, by_mapping)} == {"params/bert-base-uncased.yaml"}


def test_a_hub_name_finds_the_file_of_its_last_part():
    assert Question.open("google/electra-base-discriminator").name == "electra-base-discriminator"


def test_sections_given_by_a_notebook_replace_those_of_the_file_and_nothing_else():
    asked = Question.open("bert-base-uncased", traffic={"mean_per_s": "7"}, pricing={"region": "eu-west-1"})
    assert asked.params.traffic.mean_per_s == 7 and asked.params.traffic.peak_per_s is None
    assert asked.params.pricing.region == "eu-west-1"
    assert asked.params.objective.latency_p99_ms == 20 and asked.params.workload == Question.open("bert-base-uncased").params.workload


@pytest.mark.parametrize("name, near", [("bert-base-uncase", "bert-base-uncased"), ("roberta-lage", "roberta-large")])
def test_an_unknown_workload_names_the_nearest_file(name, near):
    with pytest.raises(BadParams) as raised:
        Question.open(name)
    assert f"(nearest: {near})" in str(raised.value) and len(str(raised.value).splitlines()) == 1


def test_notebook_parameters_are_checked_like_a_file():
    with pytest.raises(BadParams, match=r"bert-base-uncased.yaml with notebook parameters: traffic.mean_per_s: -1"):
        Question.open("bert-base-uncased", traffic={"mean_per_s": -1})


def test_opening_writes_nothing(tmp_path):
    asked = question(tmp_path / "reports")
    assert asked.ref and asked.config and asked.dossier.folder
    assert not (tmp_path / "reports").exists()


# -- targets ----------------------------------------------------------------------------------


def test_targets_by_name(tmp_path):
    asked = question(tmp_path)
    assert [target.name for target in asked.targets] == ["l4", "inf2", "trn1"]
    assert asked.target("baseline") is asked.target("l4")
    assert asked.target("cpu").path == "cpu"
    with pytest.raises(NotFound) as raised:
        asked.target("inf3")
    assert "l4, inf2, trn1, baseline, cpu (nearest: inf2)" in str(raised.value)


# -- lengths ----------------------------------------------------------------------------------


def test_a_shape_longer_than_the_model_has_positions_for_is_refused_at_once(tmp_path):
    """BERT has 512 positions; nothing is written, and step 1 is not reached."""
    assert question(tmp_path, workload__shapes=[{"batch_size": 1, "sequence_length": 512}])
    with pytest.raises(BadParams, match=r"workload.shapes: sequence_length is more than bert has positions for: 513 \| allowed: 1 to 512 tokens"):
        question(tmp_path, workload__shapes=[{"batch_size": 1, "sequence_length": 128}, {"batch_size": 1, "sequence_length": 513}])
    assert not list(tmp_path.rglob("*.json"))


# -- what to type -----------------------------------------------------------------------------


def test_the_command_names_a_file_that_is_there(tmp_path, monkeypatch):
    """Printed commands are meant to be typed: in the project folder, or in the one worked in."""
    elsewhere = tmp_path / "my questions"
    elsewhere.mkdir()
    file = elsewhere / "one.yaml"
    file.write_text(yaml.safe_dump(mapping()))
    assert Question.from_file(file).command_name == f"'{file}'"
    monkeypatch.chdir(elsewhere)
    assert Question.from_file("one.yaml").command_name == "one.yaml"
    monkeypatch.chdir(ROOT)
    assert Question.from_file("params/t5-3b.yaml").command_name == "params/t5-3b.yaml"
    assert Question.from_file(ROOT / "params" / "t5-3b.yaml").command_name == "params/t5-3b.yaml"


def test_the_project_is_found_from_inside_it(tmp_path, monkeypatch):
    for folder in ("params", "notebooks", "notebooks/deep"):
        (tmp_path / folder).mkdir()
    monkeypatch.chdir(tmp_path / "notebooks" / "deep")
    assert project_root() == tmp_path
    monkeypatch.chdir("/")
    assert project_root() == ROOT


def test_reports_go_where_they_are_told(tmp_path, monkeypatch):
    monkeypatch.setenv("NEURONFIT_REPORTS", str(tmp_path / "a"))
    assert Question.open("bert-base-uncased").dossier.folder == tmp_path / "a" / "bert-base-uncased"
    assert question(tmp_path / "b").dossier.folder == tmp_path / "b" / "bert-base-uncased"


# -- which question a record belongs to -------------------------------------------------------


def other_fingerprint(tmp_path, **changes):
    return question(tmp_path, **changes).ref.fingerprint != question(tmp_path).ref.fingerprint


@pytest.mark.parametrize(
    "changes",
    [
        dict(workload__shapes=[{"batch_size": 64, "sequence_length": 128}]),
        dict(workload__precision="bf16"),
        dict(pricing={"region": "eu-west-1", "purchase_option": "reserved_3yr_no_upfront"}),
        dict(traffic={"mean_per_s": 1}),
        dict(objective={"latency_p99_ms": 1}),
        dict(baseline__instance_type="g5.xlarge"),
        dict(workload__surroundings=[]),
        dict(policy={"margin": 0.2}),
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_tuning_money_and_traffic_do_not_make_another_question(tmp_path, changes):
    assert not other_fingerprint(tmp_path, **changes)


@pytest.mark.parametrize(
    "changes",
    [
        dict(workload__model__task="fill-mask"),
        dict(workload__model__weights="/data/weights"),
        dict(workload__model__config="params/models/bert-large-uncased/config.json"),
        dict(workload__shapes=[{"batch_size": 1, "sequence_length": 256}]),
        dict(workload__shapes=[{"batch_size": 1, "sequence_length": 128}, {"batch_size": 1, "sequence_length": 64}]),
        dict(workload__shapes=[{"batch_size": 1, "sequence_length": 128, "output_length": 8}]),
        dict(workload__kind="training"),
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_model_task_weights_and_lengths_do(tmp_path, changes):
    assert other_fingerprint(tmp_path, **changes)


def test_one_layer_less_is_another_architecture_and_a_comment_is_not(tmp_path):
    config = json.loads((ROOT / "params/models/bert-base-uncased/config.json").read_text())
    prints = []
    for change in ({}, {"transformers_version": "4.0"}, {"num_hidden_layers": 11}):
        path = tmp_path / f"{len(prints)}.json"
        path.write_text(json.dumps({**config, **change}))
        prints.append(question(tmp_path, workload__model__config=str(path)).ref.fingerprint)
    assert prints[0] == prints[1] != prints[2]


def test_no_two_of_the_ten_share_a_fingerprint(tmp_path):
    """electra-base and bert-base have one shape but differ in model_type; flan-t5-xl and t5-3b in their MLP."""
    assert len({question(tmp_path, name).ref.fingerprint for name in NAMES}) == len(NAMES)


def test_an_override_for_another_instance_than_the_targets_is_allowed_but_must_exist(tmp_path):
    rate = {"instance_type": "p5.48xlarge", "usd_per_hour": 10, "as_of": "2026-01-01"}
    assert question(tmp_path, pricing__overrides=[rate]).params.pricing.overrides[0].usd_per_hour == 10
    with pytest.raises(NotFound, match="pricing.overrides: unknown instance type: 'p5.49xlarge'"):
        question(tmp_path, pricing__overrides=[{**rate, "instance_type": "p5.49xlarge"}])


def test_a_generating_task_needs_to_know_how_much(tmp_path):
    data = mapping("t5-3b", workload__shapes=[{"batch_size": 1, "sequence_length": 128}])
    with pytest.raises(BadParams, match="output_length is missing"):
        Question(params.parse(data), reports=tmp_path)
