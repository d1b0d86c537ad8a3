"""Recorded traffic in step 1, on the command line and in what is shown."""

from __future__ import annotations

import json
from datetime import datetime, timedelta, timezone
from pathlib import Path
from xml.etree import ElementTree

import pytest
import yaml
from example_questions import mapping, question
from neuronfit import cli, params, profile, show
from neuronfit.buckets import advise
from neuronfit.errors import BadInput, BadParams
from neuronfit.provenance import Grade
from neuronfit.question import Question
from neuronfit.record import Profile, read

MONDAY = datetime(2024, 3, 4, tzinfo=timezone.utc)


@pytest.fixture
def week(tmp_path) -> Path:
    """Eight days: 36 requests in the hours 8 to 17, 9 in the others; inputs of 100 tokens, every ninth of 300."""
    rows, number = ["timestamp,input_tokens,output_tokens"], 0
    for hour in range(8 * 24):
        count = 36 if 8 <= hour % 24 < 18 else 9
        for i in range(count):
            moment = MONDAY + timedelta(hours=hour, seconds=3600 * i / count + 7 * (i % 2))
            rows.append(f"{moment.isoformat()},{300 if number % 9 == 0 else 100},5")
            number += 1
    path = tmp_path / "week.csv"
    path.write_text("\n".join([*rows, (MONDAY + timedelta(days=8)).isoformat() + ",100,5"]) + "\n")
    return path


def asking(tmp_path: Path, traffic: dict, name: str = "a", **changes) -> Question:
    return question(tmp_path / name, traffic=traffic, **changes)


MEAN = (10 * 36 + 14 * 9) / 86_400
"""Requests per second: 486 a day."""


def test_the_trace_is_the_traffic_where_nothing_is_declared(tmp_path, week):
    record = profile.describe(asking(tmp_path, {"trace": {"file": str(week)}}))
    assert record.rate_mean.value == pytest.approx(MEAN, rel=1e-3) and record.rate_mean.grade is Grade.IMPORTED
    assert record.rate_peak.value == pytest.approx(record.trace.peak_per_s) and record.rate_peak.grade is Grade.IMPORTED
    assert "week.csv" in record.rate_mean.why
    assert record.monthly_volume.value == pytest.approx(record.rate_mean.value * 2_628_000) and "the mean of the trace" in record.monthly_volume.why
    day = record.hourly_rate_per_s
    assert len(day) == 24 and sum(day) / 24 == pytest.approx(record.rate_mean.value) and day[9] / day[3] == pytest.approx(4, rel=1e-2)
    assert record.trace.hour_of_week_per_s[9] == pytest.approx(36 / 3600)
    assert read(record.to_json()) == record


def test_what_is_declared_wins_and_the_difference_is_said(tmp_path, week):
    """A declared mean keeps the trace's peak to mean; 400/s against 0.0056/s is worth a word."""
    record = profile.describe(asking(tmp_path, {"mean_per_s": 400, "trace": {"file": str(week)}}))
    assert (record.rate_mean.value, record.rate_mean.grade) == (400, Grade.ESTIMATED)
    assert record.rate_peak.value == pytest.approx(400 * record.trace.peak_to_mean) and record.rate_peak.grade is Grade.ESTIMATED
    [finding] = [finding for finding in record.findings if finding.code == "trace_differs"]
    assert "400/s" in finding.because and "what is declared is used" in finding.because
    same = profile.describe(asking(tmp_path, {"mean_per_s": MEAN, "peak_per_s": 0.1, "daily_shape": "office", "trace": {"file": str(week)}}, "b"))
    assert same.rate_peak.value == 0.1 and same.hourly_rate_per_s[3] < same.hourly_rate_per_s[9]
    assert "mean_per_s" not in " ".join(finding.because for finding in same.findings if finding.code == "trace_differs")


def test_a_request_of_generation_gives_its_output_tokens(tmp_path, week):
    record = profile.describe(question(tmp_path, "t5-3b", traffic={"trace": {"file": str(week)}}))
    assert record.rate_mean.value == pytest.approx(5 * MEAN, rel=1e-3)


def test_later_steps_take_the_record_and_do_not_read_the_file_again(tmp_path, week):
    asked_for = asking(tmp_path, {"trace": {"file": str(week)}})
    profile.describe(asked_for)
    week.unlink()
    offered = profile.offered(asked_for)
    assert offered.mean_per_s == pytest.approx(MEAN, rel=1e-3) and len(offered.week_per_s) == 168
    other = asking(tmp_path, {"trace": {"file": str(week), "timezone": "Asia/Tokyo"}})
    with pytest.raises(BadInput, match="No such file"):  # other options: the record does not answer
        profile.offered(other)


def test_the_lengths_of_the_trace_advise_the_buckets(tmp_path, week):
    """8 of 9 inputs have 100 tokens, rounded up to 100 or 102; one has 300."""
    asked_for = asking(tmp_path, {"trace": {"file": str(week)}})
    profile.describe(asked_for)
    shares = profile.length_shares(asked_for)
    assert list(shares) == [100, 300] and shares[300] == pytest.approx(1 / 9, rel=1e-2)
    assert advise(asked_for).choices[1].edges == (100, 300)
    declared = asking(tmp_path, {"trace": {"file": str(week)}, "sequence_lengths": {64: 1}})
    assert profile.length_shares(declared) == {64: 1.0}


def test_inputs_that_the_model_cannot_hold_are_said(tmp_path):
    path = tmp_path / "long.csv"
    path.write_text(
        "timestamp,input_tokens\n"
        + "".join(f"{(MONDAY + timedelta(seconds=i * 1.3)).isoformat()},{5000 if i % 4 == 0 else 100}\n" for i in range(400))
    )
    asked_for = asking(tmp_path, {"trace": {"file": str(path)}})
    record = profile.describe(asked_for)
    [finding] = [finding for finding in record.findings if finding.code == "trace_beyond_positions"]
    assert "5,000" in finding.because and "512" in finding.because and "25.0%" in finding.because
    assert max(profile.length_shares(asked_for)) == 512


def test_lengths_without_times_leave_the_rate_open(tmp_path):
    path = tmp_path / "lengths.csv"
    path.write_text("num_prefill_tokens,num_decode_tokens\n" + "".join(f"{100 + i},5\n" for i in range(50)))
    record = profile.describe(asking(tmp_path, {"trace": {"file": str(path)}}))
    codes = {finding.code for finding in record.findings}
    assert {"traffic_unknown", "trace_no_arrivals"} <= codes and not record.rate_mean.known and record.trace.input_tokens.mean == 124.5


@pytest.mark.parametrize(
    ("trace", "said"),
    [
        ({"file": "x.csv", "timezone": "Europe/Berlinn"}, "Europe/Berlin"),
        ({"file": "x.csv", "format": "acces_log"}, "access_log"),
        ({"fil": "x.csv"}, "file"),
        ({"file": "x.csv", "time_unit": "minutes"}, "ms"),
    ],
)
def test_wrong_keys_of_a_trace_are_one_line(trace, said):
    with pytest.raises(BadParams) as error:
        params.parse(mapping(traffic={"trace": trace}))
    assert said in str(error.value) and "\n" not in str(error.value)


# -- shown ----------------------------------------------------------------------------------------


def test_table_and_figures_of_a_trace(tmp_path, week):
    record = profile.describe(asking(tmp_path, {"trace": {"file": str(week)}}))
    table = show.trace_table(record)
    assert "0.005626 I" in str(table)
    assert all(column.meaning for column in table.columns) and "None" not in str(table)
    ElementTree.fromstring(f"<div>{table.html()}</div>")
    drawn = show.week_load(record)
    assert "Mon 8:00" in str(drawn) and "0.01/s" in str(drawn) and ElementTree.fromstring(drawn.svg).tag.endswith("svg")
    drawn = show.length_distribution(record)
    assert "half of the requests up to 100" in str(drawn) and "the largest 300" in str(drawn)


def test_without_a_trace_there_is_one_line(tmp_path):
    record = profile.describe(asking(tmp_path, {"mean_per_s": 1}))
    for nothing in (show.trace_table(record), show.week_load(record), show.length_distribution(None)):
        assert isinstance(nothing, show.Note) and not nothing and len(str(nothing).splitlines()) == 1
    assert isinstance(record, Profile) and record.trace is None


# -- the command ----------------------------------------------------------------------------------


def call(capsys, *argv: object) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as ended:
        cli.main([str(part) for part in argv])
    out, err = capsys.readouterr()
    return ended.value.code, out, err


def test_the_command_says_it_and_gives_what_to_paste(capsys, tmp_path, week):
    status, out, err = call(capsys, "traffic", week, "--timezone", "Europe/Berlin")
    assert status == 0 and not err and "0.005626/s on average" in out and "Europe/Berlin" in out
    block = yaml.safe_load(out.split("for the params file:")[1])
    assert block == {"traffic": {"trace": {"file": str(week), "timezone": "Europe/Berlin"}}}
    assert params.parse(mapping(**block)).traffic.trace.timezone == "Europe/Berlin"
    uncommented = yaml.safe_load("\n".join(line.replace("# ", "", 1) for line in out.split("per request:")[1].splitlines()))
    pasted = params.parse(mapping(traffic=uncommented)).traffic
    assert pasted.mean_per_s == pytest.approx(MEAN, rel=1e-3) and pasted.length_shares == {
        100: pytest.approx(8 / 9, rel=1e-2),
        300: pytest.approx(1 / 9, rel=1e-2),
    }


def test_the_command_in_json_and_its_exit_statuses(capsys, tmp_path, week):
    status, out, _ = call(capsys, "traffic", week, "--json")
    said = json.loads(out)
    assert status == 0 and said["trace"]["requests"] == 8 * 486 + 1 and {"severity", "code", "because", "next"} <= set(said["findings"][0])
    (tmp_path / "pointer.csv").write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 52283111\n")
    status, out, err = call(capsys, "traffic", tmp_path / "pointer.csv")
    assert (status, out) == (2, "") and "git lfs pull" in err and len(err.splitlines()) == 1
    (tmp_path / "lengths.csv").write_text("num_prefill_tokens,num_decode_tokens\n100,5\n200,7\n")
    assert call(capsys, "traffic", tmp_path / "lengths.csv")[0] == 3
