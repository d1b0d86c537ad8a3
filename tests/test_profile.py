"""Step 1: what is being moved."""

import pytest
from example_questions import NAMES, mapping, question
from neuronfit import params, profile
from neuronfit.catalog import models
from neuronfit.provenance import Grade
from neuronfit.workload import asked

EIGHT = (
    "large-scale inference",
    "predictable high traffic",
    "large training",
    "short experiment",
    "unsupported operation",
    "stable production",
    "low utilization",
    "frequent model changes",
)


@pytest.mark.parametrize("name", NAMES)
def test_parameters_are_those_of_the_pinned_table(tmp_path, name):
    asked_for = question(tmp_path, name)
    record = profile.describe(asked_for)
    count = models.find(asked_for.published_as).parameters
    assert record.parameters.value == count
    assert {key: part.value for key, part in record.weights.items()} == {"fp32": 4 * count, "bf16": 2 * count, "fp16": 2 * count, "int8": count}
    assert not [finding for finding in record.findings if finding.code == "parameter_count_differs"]


def test_another_count_than_the_table_has_is_a_warning(tmp_path):
    record = profile.describe(question(tmp_path, workload__published_as="bert-large-uncased"))
    [finding] = [finding for finding in record.findings if finding.code == "parameter_count_differs"]
    assert "109,482,240" in finding.because and f"{models.find('bert-large-uncased').parameters:,}" in finding.because


def test_memory_is_that_of_the_neediest_shape(tmp_path):
    """Many short sequences can need less than one long: every shape is looked at, by its bytes."""
    needs = []
    for number, shapes in enumerate(([(64, 16)], [(1, 512)], [(64, 16), (1, 512)])):
        listed = [{"batch_size": batch, "sequence_length": length} for batch, length in shapes]
        needs.append(profile.describe(question(tmp_path / str(number), workload__shapes=listed)).memory.value)
    assert needs[2] == max(needs[:2]) and needs[0] != needs[1]


# -- traffic ----------------------------------------------------------------------------------


def test_declared_and_derived_numbers_say_which_they_are(tmp_path):
    record = profile.describe(question(tmp_path, traffic={"mean_per_s": 400, "daily_shape": "office"}))
    assert record.rate_mean.why == "declared in the params file"
    assert record.monthly_volume.value == 400 * 2_628_000 and record.monthly_volume.why.startswith("not declared")
    assert record.rate_peak.value == max(record.hourly_rate_per_s) and record.rate_peak.why.startswith("not declared")
    assert {part.grade for part in (record.rate_mean, record.rate_peak, record.monthly_volume)} == {Grade.ESTIMATED}


def test_no_traffic_waits_and_says_where_to_put_it(tmp_path):
    record = profile.describe(question(tmp_path, traffic={}))
    [finding] = record.findings
    assert (str(finding.severity), finding.code) == ("waiting", "traffic_unknown")
    assert finding.next == "add a traffic section to params/bert-base-uncased.yaml"
    assert not record.rate_mean.known and "traffic.mean_per_s" in record.rate_mean.why
    assert "no traffic declared yet" in record.bottom_line


def test_a_volume_that_contradicts_the_rate_is_a_warning(tmp_path):
    """2e9 against 400 x 2,628,000 = 1.0512e9: 90 % apart. The 4.9 % of the shipped file is not worth a word."""
    record = profile.describe(question(tmp_path / "a", traffic__monthly_volume=2e9))
    assert [(finding.code, "90%" in finding.because) for finding in record.findings] == [("traffic_inconsistent", True)]
    assert not profile.describe(question(tmp_path / "b")).findings


def test_the_model_share_and_its_bound(tmp_path):
    """0.10 tokenizer + 0.15 gateway leave 0.75: at most 1 / 0.25 = 4 times as fast."""
    record = profile.describe(question(tmp_path / "a"))
    assert (record.model_share.value, record.amdahl_bound.value) == (pytest.approx(0.75), pytest.approx(4))
    alone = profile.describe(question(tmp_path / "b", workload__surroundings=[]))
    assert alone.model_share.value == 1 and not alone.amdahl_bound.known and "surroundings" in alone.amdahl_bound.why


# -- the eight situations ---------------------------------------------------------------------


def situations(**changes):
    parsed = params.parse(mapping(**changes))
    return {entry.name: entry for entry in profile.situations(parsed, asked(parsed.traffic))}


def test_all_eight_are_answered_in_order_each_with_advice():
    found = situations()
    assert tuple(found) == EIGHT
    assert all(entry.advice and entry.because for entry in found.values())


@pytest.mark.parametrize(
    "changes, name, applies",
    [
        (dict(traffic={"mean_per_s": 39}), "large-scale inference", True),  # 39 x 2,628,000 = 102.5 million
        (dict(traffic={"mean_per_s": 38}), "large-scale inference", False),  # 99.9 million
        (dict(traffic={}), "large-scale inference", None),
        (dict(traffic={"mean_per_s": 400, "peak_per_s": 1600}), "predictable high traffic", True),
        (dict(traffic={"mean_per_s": 400, "peak_per_s": 1601}), "predictable high traffic", False),
        (dict(traffic={"mean_per_s": 1, "peak_per_s": 1}), "predictable high traffic", False),
        (dict(traffic={"mean_per_s": 400}), "predictable high traffic", None),  # nobody said anything about peaks
        (dict(traffic={"mean_per_s": 400, "daily_shape": "flat"}), "predictable high traffic", True),
        (dict(workload__kind="training"), "large training", True),
        (dict(), "large training", False),
        (dict(workload__kind="training"), "large-scale inference", False),
        (dict(workload__stage="experiment"), "short experiment", True),
        (dict(), "short experiment", False),
        (dict(), "stable production", True),
        (dict(workload__stage="experiment"), "stable production", False),
        (dict(workload__model_changes_per_month=1.5), "stable production", False),
        (dict(workload__model_changes_per_month=4), "frequent model changes", True),
        (dict(workload__model_changes_per_month=3.9), "frequent model changes", False),
        (dict(), "unsupported operation", None),
        (dict(), "low utilization", None),
    ],
)
def test_a_situation_applies_does_not_or_is_open(changes, name, applies):
    assert situations(**changes)[name].applies is applies


def test_the_bottom_line_counts_what_applies(tmp_path):
    record = profile.describe(question(tmp_path))
    applying = [entry.name for entry in record.situations if entry.applies]
    assert applying == ["large-scale inference", "predictable high traffic", "stable production"]
    assert record.bottom_line == (
        "bert-base-uncased: 109.5 M parameters, 0.408 GiB as FP32; 400 inferences a second on average, 1,200 at the peak; "
        "three of the eight situations apply: large-scale inference, predictable high traffic, stable production."
    )


def test_describing_twice_leaves_one_record(tmp_path):
    asked_for = question(tmp_path)
    assert profile.describe(asked_for).id == profile.describe(asked_for).id
    assert len(asked_for.dossier.files()) == 1
