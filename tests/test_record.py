"""Records: read what was written, notice what was changed, derive what can be checked by hand."""

import hashlib
import json
from pathlib import Path

import example_records
import pytest
from neuronfit import record as records
from neuronfit.errors import BadRecord
from neuronfit.provenance import Estimated, Grade, Measured, Published
from neuronfit.record import KINDS, STEPS, Measurement, Run, Settings

FOLDER = Path(__file__).parent / "data" / "records"


def golden_text(kind):
    return (FOLDER / f"{kind}.json").read_text(encoding="utf-8")


def test_there_is_one_golden_file_for_each_kind_and_no_other():
    assert {path.stem for path in FOLDER.glob("*.json")} == set(KINDS)


@pytest.mark.parametrize("kind", KINDS)
def test_golden_record_reads_and_reserialises_to_the_same_bytes(kind):
    text = golden_text(kind)
    record = records.read(text)
    assert isinstance(record, KINDS[kind])
    assert record.kind == kind
    assert record.to_json() == text


@pytest.mark.parametrize("kind", KINDS)
def test_id_is_the_hash_of_everything_else(kind):
    body = json.loads(golden_text(kind))
    claimed = body.pop("id")
    canonical = json.dumps(body, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode("utf-8")
    assert claimed == hashlib.sha256(canonical).hexdigest()[:16]


@pytest.mark.parametrize("kind", KINDS)
def test_tampering_is_noticed(kind):
    body = json.loads(golden_text(kind))
    body["created_utc"] = "2026-11-21T09:00:00.000000Z"
    with pytest.raises(BadRecord, match="was changed after it was written") as caught:
        records.read(json.dumps(body))
    assert "\n" not in str(caught.value)


def test_one_changed_raw_value_is_noticed():
    body = json.loads(golden_text("measurement"))
    body["runs"][1]["values_s"][7] += 1e-6
    with pytest.raises(BadRecord, match="was changed after it was written"):
        records.read(json.dumps(body))


def test_layout_of_the_file_does_not_matter():
    body = json.loads(golden_text("cost"))
    shuffled = json.dumps(dict(reversed(body.items())), separators=(",", ":"))
    assert records.read(shuffled).id == body["id"]


@pytest.mark.parametrize("cut", [0, 1, 100, -2])
def test_truncated_text_is_refused_in_one_line(cut):
    with pytest.raises(BadRecord, match="is empty|is not complete JSON") as caught:
        records.read(golden_text("profile")[:cut], where="copy.json")
    message = str(caught.value)
    assert message.startswith("copy.json ") and "\n" not in message and "copy the file again" in message


@pytest.mark.parametrize("text", ["[]", "3", '"profile/1"', "{}", '{"schema": null}', '{"schema": "benchmark/1"}'])
def test_foreign_json_is_refused_with_what_is_allowed(text):
    with pytest.raises(BadRecord, match="is not a neuronfit record") as caught:
        records.read(text)
    assert "measurement/1" in str(caught.value)


def test_newer_schema_asks_for_an_update():
    body = json.loads(golden_text("profile")) | {"schema": "profile/2"}
    with pytest.raises(BadRecord, match="update neuronfit"):
        records.read(json.dumps(body))


def test_unknown_field_and_wrong_type_name_the_place():
    body = json.loads(golden_text("decision"))
    with pytest.raises(BadRecord, match="colour"):
        records.read(json.dumps(body | {"colour": "red"}))
    body["gates"][2]["status"] = "perhaps"
    with pytest.raises(BadRecord, match=r"gates\.2\.status"):
        records.read(json.dumps(body))


def test_not_a_number_is_refused():
    text = golden_text("cost").replace('"value": 0.8048', '"value": NaN', 1)
    with pytest.raises(BadRecord):
        records.read(text)


def test_every_step_ends_in_a_kind_of_its_own():
    kinds = [kind for _, kind in STEPS.values()]
    assert sorted([*kinds, "measurement", "monitor", "parity", "trial"]) == sorted(KINDS)


# -- measurements -----------------------------------------------------------------------------


def measured(runs, results_per_call=8):
    return Measurement(
        workload=example_records.REF,
        source=Measured(host="here", clock="time.perf_counter"),
        target="cpu",
        system=example_records.cpu_measurement().system,
        settings=Settings(batch_size=results_per_call),
        scenario="offline",
        results_per_call=results_per_call,
        runs=runs,
    )


def run(values, duration):
    return Run(start_utc="2026-11-20T09:00:00Z", duration_s=duration, values_s=tuple(values))


def test_throughput_is_the_median_of_the_runs_and_spans_them():
    record = measured((run([0.5] * 4, 2.0), run([0.5] * 4, 4.0), run([0.5] * 4, 2.5)))
    rate = record.quantity("throughput_per_s")  # 4 calls x 8 results over 2, 4 and 2.5 seconds
    assert (rate.value, rate.low, rate.high) == (12.8, 8.0, 16.0)
    assert rate.grade is Grade.MEASURED


def test_mean_latency_is_over_all_calls_of_all_runs():
    record = measured((run([0.1, 0.3], 0.4), run([0.2, 0.2, 0.7], 1.1)))
    assert record.quantity("latency_mean_s").value == pytest.approx(1.5 / 5)


def test_a_percentile_below_its_sample_size_is_absent_with_the_reason():
    record = measured((run([0.1] * 50, 5.0),))
    p99 = record.quantity("latency_p99_s")
    assert p99.value is None and "50 samples" in p99.why
    assert record.quantity("latency_p50_s").value == pytest.approx(0.1)


def test_runs_that_are_too_unlike_give_the_extremes_and_no_confidence():
    """Two runs, one three times as slow: the median of a request in any run lies anywhere between them."""
    record = measured((run([0.1] * 50, 5.0), run([0.3] * 50, 15.0)))
    p50 = record.quantity("latency_p50_s")
    assert (p50.low, p50.high, p50.confidence) == (0.1, 0.3, None) and "100 values of 2 runs count as" in p50.why
    alike = measured(tuple(run([0.1 + index / 1000 for index in range(50)], 6.2) for _ in range(4)))
    p50 = alike.quantity("latency_p50_s")
    assert p50.confidence == 0.95 and 0.1 < p50.low < p50.value < p50.high < 0.149


def test_parts_of_a_generation_have_statistics_of_their_own():
    """Prefill 30 ms, then 10 ms a token; a record without parts has none."""
    made = Run(start_utc="2026-11-20T09:00:00Z", duration_s=1.0, values_s=(0.07,) * 8, ttft_s=(0.03,) * 8, tpot_s=(0.01,) * 8)
    record = measured((made,))
    assert (record.quantity("ttft_p50_s").value, record.quantity("tpot_mean_s").value) == (0.03, pytest.approx(0.01))
    without = measured((run([0.07] * 8, 1.0),)).quantity("ttft_p50_s")
    assert not without.known and "not derived from call latencies" in without.why


def test_the_example_has_a_p99_with_an_interval():
    p99 = example_records.cpu_measurement().quantity("latency_p99_s")
    assert p99.low <= p99.value <= p99.high and p99.confidence == 0.95


def test_published_values_are_read_and_others_are_absent():
    row = example_records.measurements()[0]
    assert row.quantity("throughput_per_s").value == 2168.0
    assert row.quantity("throughput_per_s").record == row.id
    assert row.quantity("latency_p50_s").why == "published record without latency p50"


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"runs": ()}, "needs runs"),
        ({"system": None}, "needs runs"),
        ({"source": Published(title="a page", date="2026")}, "has values and no runs"),
        ({"source": Estimated(formula="guess")}, "has values and no runs"),
        ({"values": {"latency_p77_s": 1.0}}, "unknown metric"),
    ],
)
def test_evidence_must_match_its_grade(change, says):
    body = example_records.cpu_measurement().model_dump() | change
    with pytest.raises(ValueError, match=says):
        Measurement.model_validate(body)


def test_sealing_twice_changes_nothing():
    for record in example_records.every():
        assert record.sealed().id == record.id
