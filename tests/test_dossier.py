"""The one door: what gets in, what does not, and that nothing that is in is ever harmed."""

import os

import example_records
import pytest
from neuronfit.dossier import Dossier
from neuronfit.errors import BadRecord, NotWritable
from neuronfit.record import Cost, Decision, Measurement, Profile, WorkloadRef


@pytest.fixture
def dossier(tmp_path):
    return example_records.dossier(tmp_path / "bert-base-uncased")


def contents(dossier):
    return {path.name: path.read_bytes() for path in dossier.files()}


def one_line(caught):
    message = str(caught.value)
    assert "\n" not in message
    return message


def test_creating_the_object_touches_nothing(tmp_path):
    dossier = Dossier(tmp_path / "new")
    assert dossier.files() == [] and list(dossier) == [] and dossier.latest(Profile) is None
    assert not (tmp_path / "new").exists()


def test_every_kind_is_admitted_and_read_back(dossier):
    assert [record.id for record in dossier] == [record.id for record in example_records.every()]
    for record in example_records.every():
        assert dossier.get(record.id) == record


def test_file_names_sort_by_time_and_end_in_the_id(dossier):
    record = dossier.latest(Cost)
    assert [path.name for path in dossier.files() if "-cost-" in path.name] == [f"20261120T091600000000Z-cost-{record.id}.json"]


def test_admitting_again_stores_nothing(dossier):
    before = contents(dossier)
    for record in example_records.every():
        assert dossier.admit(record).id == record.id
    assert contents(dossier) == before


def test_a_conclusion_that_says_the_same_later_is_the_stored_one(dossier):
    before = contents(dossier)
    later = dossier.latest(Cost).model_copy(update={"created_utc": "2026-12-01T00:00:00.000000Z"})
    assert dossier.admit(later).created_utc == "2026-11-20T09:16:00.000000Z"
    assert contents(dossier) == before


def test_a_conclusion_that_differs_becomes_the_latest_and_the_old_one_stays(dossier):
    old = dossier.latest(Decision)
    new = dossier.admit(old.model_copy(update={"headline": "Worth a pilot.", "verdict": "pilot", "created_utc": "2026-12-01T00:00:00.000000Z"}))
    assert dossier.latest(Decision).id == new.id != old.id
    assert dossier.get(old.id) == old


def test_a_conclusion_that_returns_to_an_earlier_one_is_stored(dossier):
    first = dossier.latest(Decision)
    dossier.admit(first.model_copy(update={"headline": "Other.", "created_utc": "2026-12-01T00:00:00.000000Z"}))
    again = dossier.admit(first.model_copy(update={"created_utc": "2026-12-02T00:00:00.000000Z"}))
    assert again.id != first.id and dossier.latest(Decision).headline == first.headline


def test_a_measurement_is_a_duplicate_of_any_earlier_one_not_only_the_newest(dossier):
    before = contents(dossier)
    first = dossier.measurements()[0].model_copy(update={"created_utc": "2026-12-01T00:00:00.000000Z"})
    assert dossier.admit(first).id == dossier.measurements()[0].id
    assert contents(dossier) == before


def test_measurements_by_target(dossier):
    assert [entry.settings.batch_size for entry in dossier.measurements("inf2")] == [8, 1]
    assert len(dossier.measurements()) == 7
    assert dossier.measurements("tpu") == []


def test_plausibility_findings_are_recomputed_at_the_door(dossier):
    row = dossier.measurements("trn1")[0]
    wrong = row.model_copy(update={"findings": (), "values": {**row.values, "latency_p99_s": 1e-3}, "created_utc": "2026-12-01T00:00:00.000000Z"})
    assert "percentiles_reversed" in [finding.code for finding in dossier.admit(wrong).findings]


# -- other questions --------------------------------------------------------------------------


def test_a_record_of_another_workload_is_refused(dossier):
    foreign = dossier.latest(Cost).model_copy(update={"workload": WorkloadRef(name="resnet-50", fingerprint="0" * 16)})
    before = contents(dossier)
    with pytest.raises(BadRecord, match="resnet-50") as caught:
        dossier.admit(foreign)
    assert "admit it to its own dossier" in one_line(caught)
    assert contents(dossier) == before


def test_a_record_of_another_question_is_refused(dossier):
    other = dossier.measurements()[0].model_copy(update={"workload": WorkloadRef(name="bert-base-uncased", fingerprint="feedfacefeedface")})
    with pytest.raises(BadRecord, match="feedfacefeedface") as caught:
        dossier.admit(other)
    assert "5f0c1d2e3a4b5c6d" in one_line(caught)


def test_when_the_question_changes_old_answers_are_kept_but_not_given(dossier):
    changed = dossier.latest(Profile).model_copy(
        update={"workload": WorkloadRef(name="bert-base-uncased", fingerprint="feedfacefeedface"), "created_utc": "2026-12-01T00:00:00.000000Z"}
    )
    count = len(dossier.files())
    dossier.admit(changed)
    assert dossier.latest(Cost) is None and dossier.measurements() == []
    assert len(dossier.files()) == count + 1


# -- damage -----------------------------------------------------------------------------------


def damage(dossier, kind, change):
    path = next(path for path in dossier.files() if f"-{kind}-" in path.name)
    path.write_bytes(change(path.read_bytes()))
    return path


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda raw: raw[: len(raw) // 2], "is not complete JSON"),
        (lambda raw: b"", "is empty"),
        (lambda raw: raw.replace(b'"region": "us-east-1"', b'"region": "eu-west-1"'), "was changed after it was written"),
        (lambda raw: b'{"results": [1, 2, 3]}', "is not a neuronfit record"),
        (lambda raw: b"\xff\xfe\x00", "is not text"),
    ],
)
def test_a_damaged_file_is_named_and_the_others_are_untouched(dossier, change, says):
    path = damage(dossier, "cost", change)
    with pytest.raises(BadRecord, match=says) as caught:
        dossier.latest(Cost)
    message = one_line(caught)
    assert str(path) in message and f"the other {len(dossier.files()) - 1} records are untouched" in message
    assert dossier.latest(Decision) is not None
    path.unlink()
    assert len(list(dossier)) == len(example_records.every()) - 1


def test_an_unknown_id_says_how_many_records_there_are(dossier):
    with pytest.raises(BadRecord, match="no record has the id") as caught:
        dossier.get("0123456789abcdef")
    assert "16 records" in one_line(caught)


# -- writing ----------------------------------------------------------------------------------


def another(dossier):
    return dossier.latest(Cost).model_copy(update={"bottom_line": "something else", "created_utc": "2026-12-01T00:00:00.000000Z"})


@pytest.mark.parametrize("step", ["replace", "fsync"])
@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError])
def test_an_interruption_leaves_the_earlier_records_whole(dossier, monkeypatch, step, error):
    record, before = another(dossier), contents(dossier)

    def interrupt(*_):
        raise error("in the middle")

    monkeypatch.setattr(os, step, interrupt)
    with pytest.raises(error):
        dossier.admit(record)
    monkeypatch.undo()
    assert contents(dossier) == before
    assert sorted(os.listdir(dossier.records_folder)) == sorted(before), "no temporary file stays behind"
    assert len(list(dossier)) == len(before)


def test_a_full_disk_is_one_line(dossier, monkeypatch):
    record, before = another(dossier), contents(dossier)

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(NotWritable, match="No space left on device") as caught:
        dossier.admit(record)
    assert "--reports DIR" in one_line(caught)
    assert contents(dossier) == before


def test_a_folder_that_cannot_be_made_is_one_line(tmp_path):
    (tmp_path / "bert-base-uncased").write_text("a file where the folder should be")
    with pytest.raises(NotWritable) as caught:
        Dossier(tmp_path / "bert-base-uncased").admit(example_records.profile())
    assert "--reports DIR" in one_line(caught)


@pytest.mark.skipif(hasattr(os, "geteuid") and os.geteuid() == 0, reason="root may write everywhere")
def test_a_read_only_folder_is_one_line(tmp_path):
    tmp_path.chmod(0o500)
    try:
        with pytest.raises(NotWritable, match="Permission denied"):
            Dossier(tmp_path / "bert-base-uncased").admit(example_records.profile())
    finally:
        tmp_path.chmod(0o700)


def test_a_stray_temporary_file_is_not_a_record(dossier):
    (dossier.records_folder / ".abc.tmp").write_text("half a rec")
    assert len(list(dossier)) == len(example_records.every())


def test_a_measurement_admitted_before_the_profile_is_found_afterwards(tmp_path):
    dossier = Dossier(tmp_path)
    dossier.admit(example_records.cpu_measurement())
    dossier.admit(example_records.profile())
    assert [type(record) for record in dossier] == [Profile, Measurement]
    assert len(dossier.measurements("cpu")) == 1
