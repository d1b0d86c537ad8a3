"""Other people's numbers become records: with their conditions, and only where they belong."""

import pytest
from example_questions import NAMES, measured, question, stated
from neuronfit import profile
from neuronfit.adopt.published import adopt_published, as_measurement
from neuronfit.adopt.record_file import adopt_evidence, adopt_record
from neuronfit.catalog import published
from neuronfit.errors import BadRecord, NotFound
from neuronfit.provenance import Grade
from neuronfit.record import Measurement

# -- published rows ---------------------------------------------------------------------------


def test_bert_gets_every_row_of_its_three_instances(tmp_path):
    """20 TensorRT rows for an L4, 2 for inf2.xlarge, 2 for trn1.2xlarge on each of two pages."""
    asked = question(tmp_path)
    admitted, missing = adopt_published(asked)
    counts = {name: sum(row.target == name for row in admitted) for name in ("l4", "inf2", "trn1")}
    assert counts == {"l4": 20, "inf2": 2, "trn1": 4} and missing == []
    assert len(asked.dossier.measurements()) == 26
    assert {row.grade for row in admitted} == {Grade.PUBLISHED}


def test_a_row_keeps_its_figures_and_its_conditions(tmp_path):
    """NVIDIA's L4 row at batch 8 in FP16: 3.69 ms mean, 3.83 ms p99, and what its clock leaves out."""
    asked = question(tmp_path)
    adopt_published(asked)
    [row] = [row for row in asked.dossier.measurements("l4") if row.settings.batch_size == 8 and row.settings.precision == "fp16"]
    assert row.values["latency_mean_s"] == 0.00369 and row.values["latency_p99_s"] == 0.00383
    assert row.values["throughput_per_s"] == pytest.approx(8 / 0.00369, rel=1e-4)
    assert (row.result_unit, row.latency_of, row.settings.sequence_length) == ("inference", "batch", 128)
    assert "copies" in row.settings.timed_region and row.settings.model_variant and row.source.date == "2025-01-31"
    assert row.valid is None and "cannot be judged" in row.validity


def test_printed_money_stays_beside_its_basis(tmp_path):
    row = as_measurement(published.find("trn1-2025-09-18/02"), question(tmp_path).target("trn1"), question(tmp_path))
    assert row.printed["usd_per_million"] == "0.043" and row.printed["price_basis"].startswith("reserved_3yr_no_upfront")
    assert row.printed["throughput_per_s"] == "3329.87" and row.settings.sdk == "2.26.0"
    assert "SDK 2.26.0" in row.settings.software


@pytest.mark.parametrize("name", ["t5-3b", "flan-t5-xl"])
def test_encoder_decoders_count_tokens(tmp_path, name):
    asked = question(tmp_path, name)
    admitted, _ = adopt_published(asked)
    assert admitted and {(row.result_unit, row.latency_of) for row in admitted} == {("token", "token")}
    assert {row.settings.tp_degree for row in admitted} == {8}


def test_adopting_twice_changes_nothing(tmp_path):
    asked = question(tmp_path)
    first, _ = adopt_published(asked)
    second, _ = adopt_published(asked)
    assert [row.id for row in first] == [row.id for row in second] and len(asked.dossier.files()) == len(first)


def test_a_row_at_another_length_is_not_adopted(tmp_path):
    asked = question(tmp_path, workload__shapes=[{"batch_size": 1, "sequence_length": 100}])
    admitted, missing = adopt_published(asked)
    assert admitted == [] and [finding.target for finding in missing] == ["l4", "inf2", "trn1"]
    for finding in missing:
        assert (str(finding.severity), finding.code) == ("waiting", "nothing_published")
        assert "sequence length 100" in finding.because and "nearest is the same model" in finding.because and "128" in finding.because
        assert (
            finding.next
            == f"on {'an' if finding.target == 'inf2' else 'a'} {asked.target(finding.target).instance_type}: neuronfit measure params/bert-base-uncased.yaml --target {finding.target}"
        )


def test_another_model_with_nearly_the_same_name_is_not_the_same(tmp_path):
    """bert-base-cased has another vocabulary: its Inf1 row is not evidence for bert-base-uncased, nor the reverse."""
    changed = dict(baseline__instance_type="inf1.xlarge", workload__published_as="bert-base-cased")
    cased, _ = adopt_published(question(tmp_path / "a", **changed))
    uncased, _ = adopt_published(question(tmp_path / "b", baseline__instance_type="inf1.xlarge"))
    names = [{row.settings.model_variant for row in rows if row.target == "l4"} for rows in (cased, uncased)]
    assert names[0] and names[1] and not names[0] & names[1]


def test_a_flagged_row_carries_its_warning(tmp_path):
    admitted, _ = adopt_published(question(tmp_path, "albert-base-v2"))
    [row] = [row for row in admitted if row.target == "a10g"]
    [finding] = [finding for finding in row.findings if finding.code == "published_row_flagged"]
    assert str(finding.severity) == "warning" and "synchronisation" in finding.because


def test_every_inference_row_of_the_catalogue_can_be_a_record(tmp_path):
    """No row is so unlike the others that its question would end in a traceback."""
    asked, seen = question(tmp_path), 0
    for row in published.every():
        if row.kind == "inference" and row.sequence_length:
            record = as_measurement(row, asked.target("inf2"), asked)
            assert record.values and record.settings.batch_size == row.batch_size and record.grade is Grade.PUBLISHED
            seen += 1
    assert seen > 300


@pytest.mark.parametrize("name", NAMES)
def test_the_shipped_questions_find_published_rows_on_a_candidate(tmp_path, name):
    """The Trn1 page alone has two rows for each of the ten; the file asks about an instance that has some."""
    asked = question(tmp_path, name)
    admitted, missing = adopt_published(asked)
    targets = {row.target for row in admitted}
    assert targets & {target.name for target in asked.params.candidates}
    assert targets.isdisjoint(finding.target for finding in missing)
    assert targets | {finding.target for finding in missing} == {target.name for target in asked.targets}


# -- our own record files ---------------------------------------------------------------------


def written(record, folder, name="record.json"):
    path = folder / name
    path.write_text(record.sealed().to_json(), encoding="utf-8")
    return path


def test_a_record_from_another_host_is_admitted_unchanged(tmp_path):
    asked = question(tmp_path / "reports")
    record = measured(asked, "inf2", [1000, 1001, 1002])
    admitted = adopt_record(asked, written(record, tmp_path), "inf2")
    assert admitted.grade is Grade.MEASURED and admitted.runs == record.runs and admitted.settings == record.settings
    assert asked.dossier.get(admitted.id) == admitted
    assert adopt_record(asked, written(record, tmp_path), "inf2").id == admitted.id
    assert len(asked.dossier.files()) == 1


def test_the_evidence_section_names_files_from_the_project(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    plain = question(tmp_path / "a")
    written(measured(plain, "l4", [900, 901]), tmp_path, "gpu.json")
    asked = question(tmp_path / "b", evidence=[{"file": "gpu.json", "target": "l4"}])
    [admitted] = adopt_evidence(asked)
    assert admitted.target == "l4" and [row.id for row in asked.dossier.measurements("l4")] == [admitted.id]


def refused(asked, path, target, *parts):
    with pytest.raises(BadRecord) as raised:
        adopt_record(asked, path, target)
    line = str(raised.value)
    assert len(line.splitlines()) == 1 and not asked.dossier.measurements()
    for part in parts:
        assert part in line, line


def test_a_record_for_another_target_says_which(tmp_path):
    asked = question(tmp_path / "reports")
    path = written(measured(asked, "inf2", [1000]), tmp_path)
    refused(asked, path, "trn1", "measured as target 'inf2'", "'trn1'", "--for inf2")
    with pytest.raises(NotFound):
        adopt_record(asked, path, "inf3")


@pytest.mark.parametrize("profiled", [True, False])
def test_a_record_for_another_question_is_refused_also_before_step_1(tmp_path, profiled):
    asked = question(tmp_path / "reports")
    other = question(tmp_path / "other", workload__model__task="fill-mask")
    if profiled:
        profile.describe(asked)
    path = written(measured(other, "inf2", [1000]), tmp_path)
    refused(asked, path, "inf2", "another question", other.ref.fingerprint, asked.ref.fingerprint)


def test_a_record_from_another_instance_type_is_refused(tmp_path):
    """It would be priced as the declared one: inf2.8xlarge costs 2.6 times as much."""
    asked = question(tmp_path / "reports")
    record = measured(asked, "inf2", [1000]).model_copy(update={"instance_type": "inf2.8xlarge"})
    refused(asked, written(record, tmp_path), "inf2", "'inf2.8xlarge'", "inf2.xlarge")


def test_files_that_are_no_records_are_one_line(tmp_path):
    asked = question(tmp_path / "reports")
    whole = measured(asked, "inf2", [1000]).sealed().to_json()
    for text, part in (
        ("", "is empty"),
        (whole[: len(whole) // 2], "not complete JSON"),
        ("[1, 2]", "not a neuronfit record"),
        ('{"schema": "measurement/2"}', "measurement/1"),
        (whole.replace('"duration_s"', '"duration"'), "duration"),
        (whole.replace('"batch_size": 8', '"batch_size": 16'), "changed after it was written"),
    ):
        path = tmp_path / "record.json"
        path.write_text(text)
        refused(asked, path, "inf2", part)
    path.write_bytes(bytes(range(128, 200)))
    refused(asked, path, "inf2", "not text")
    refused(asked, tmp_path / "gone.json", "inf2", "No such file")
    refused(asked, tmp_path, "inf2", "directory")


def test_a_conclusion_is_not_evidence(tmp_path):
    asked = question(tmp_path / "reports")
    other = question(tmp_path / "other")
    path = written(profile.describe(other), tmp_path)
    refused(asked, path, "inf2", "profile record", "measurement/1")


def test_a_published_record_file_keeps_its_grade(tmp_path):
    asked = question(tmp_path / "reports")
    admitted = adopt_record(asked, written(stated(asked, "inf2", values={"throughput_per_s": 10.0}), tmp_path), "inf2")
    assert isinstance(admitted, Measurement) and admitted.grade is Grade.PUBLISHED
