"""Tests that ran elsewhere: logs of each tool's shape, written here, judged by the criteria of the plan."""

from __future__ import annotations

import base64
import csv
import io
import json
import random
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from example_questions import mapping, question
from neuronfit import trial
from neuronfit.adopt.trial_logs import Row, adopt_trial, read, recognise
from neuronfit.cli import group
from neuronfit.errors import BadRecord
from neuronfit.trial import log as logs

GOOD = [{"metric": "latency_p50", "margin": 0.3}, {"metric": "error_rate", "bound": 0.05}]
STAGES = [{"name": "shadow", "duration_min": 60}, {"name": "canary", "share": 0.5, "duration_min": 60}]


def asked(folder: Path, **changed: Any):
    return question(folder, trial={"criteria": GOOD, "stages": STAGES, "detect": 0.8, "candidate": "inf2", **changed}, objective={})


def latencies(count: int, slower: float = 1.0, seed: int = 1) -> list[float]:
    generator = random.Random(seed)
    return [0.02 * slower * generator.lognormvariate(0, 0.3) for _ in range(count)]


def table(path: Path, count: int = 600, slower: float = 1.0, failed: int = 0, paired: bool = True, start: float = 4.0e9) -> Path:
    """Both sides in one CSV, the n-th request of each side with one id; ``start`` is UNIX time, in the year 2096."""
    rows = io.StringIO()
    out = csv.writer(rows)
    out.writerow(["timestamp", "arm", "request_id", "latency_ms", "status", "label"])
    for n, (mine, theirs) in enumerate(zip(latencies(count, slower, 1), latencies(count, 1.0, 1 if paired else 2))):
        out.writerow([start + n / 10, "candidate", n if paired else "", f"{mine * 1e3:.4f}", 500 if n < failed else 200, "yes"])
        out.writerow([start + n / 10, "baseline", n if paired else "", f"{theirs * 1e3:.4f}", 200, "yes"])
    path.write_text(rows.getvalue())
    return path


def test_a_paired_table_passes_and_can_be_repeated_from_its_log(tmp_path):
    this = asked(tmp_path, criteria=[*GOOD, {"metric": "agreement", "bound": 0.95}])
    trial.plan(this)
    record = adopt_trial(this, [(None, table(tmp_path / "x.csv"))])
    assert record.status == "passed", record.bottom_line
    assert record.grade == "imported" and record.source.file == "x.csv"
    [stage] = record.stages
    assert (stage.name, stage.asked, stage.failed) == ("shadow", {"baseline": 600, "candidate": 600}, {"baseline": 0, "candidate": 0})
    ratio = next(row for row in record.criteria if row.criterion == "latency_p50")
    assert ratio.value.value == pytest.approx(1.0) and ratio.count == 600 and ratio.value.grade == "imported"
    assert [finding.code for finding in record.findings] == ["stages_missing"], "the canary is not in the file"
    logged = logs.read(this.dossier.folder / record.log)
    assert len(logged.entries) == 1200 and all(entry.agree is not None for entry in logged.entries[1::2])


@pytest.mark.parametrize("change, criterion", [({"slower": 1.6}, "latency_p50"), ({"failed": 90}, "error_rate")])
def test_a_worse_candidate_fails_by_the_right_criterion(tmp_path, change, criterion):
    record = adopt_trial(asked(tmp_path), [(None, table(tmp_path / "x.csv", **change))])
    assert record.status == "failed" and criterion in record.bottom_line
    assert {name for name, outcome in record.overall.items() if outcome == "failed"} == {criterion}


def test_split_traffic_goes_to_the_canary(tmp_path):
    record = adopt_trial(asked(tmp_path), [(None, table(tmp_path / "x.csv", paired=False))])
    assert record.stages[0].name == "canary" and record.status == "passed"
    with pytest.raises(BadRecord, match="the stage pairs requests, and the log does not"):
        adopt_trial(asked(tmp_path), [(None, tmp_path / "x.csv")], stage="shadow")


def test_a_plan_written_after_the_test_is_said_to_be(tmp_path):
    record = adopt_trial(asked(tmp_path), [(None, table(tmp_path / "x.csv", start=1.7e9))])
    found = {finding.code: finding.because for finding in record.findings}
    assert "2023-11-14T22:13:20" in found["plan_after_test"]  # 1.7e9 s


# -- what each tool writes ---------------------------------------------------------------------


def locust(rows):
    return "timestamp,request_type,name,response_time,response_length,exception\n" + "".join(
        f"{1.7e9 + n},POST,/predict,{1e3 * value:.3f},10,{error}\n" for n, (value, error) in enumerate(rows)
    )


def k6(rows):
    head = {"type": "Metric", "metric": "http_req_duration", "data": {"type": "trend", "contains": "time"}}
    lines = [head]
    for n, (value, error) in enumerate(rows):
        tags = {"scenario": "default", "status": "500" if error else "200", "expected_response": "false" if error else "true"}
        data = {"time": f"2026-11-01T10:00:{n % 60:02d}.123456789Z", "value": value * 1e3, "tags": tags}
        lines.append({"metric": "http_req_duration", "type": "Point", "data": data})
        lines.append({"metric": "http_req_waiting", "type": "Point", "data": {**data, "value": 999}})
    return "\n".join(map(json.dumps, lines))


def vegeta(rows):
    return "\n".join(
        json.dumps(
            {
                "attack": "",
                "seq": n,
                "code": 500 if error else 200,
                "timestamp": f"2026-11-01T10:00:00.{n:09d}Z",
                "latency": round(value * 1e9),
                "bytes_out": 0,
                "bytes_in": 9,
                "error": "500 Internal Server Error" if error else "",
                "body": base64.b64encode(b"x").decode(),
                "method": "POST",
                "url": "http://h/",
            }
        )
        for n, (value, error) in enumerate(rows)
    )


def vegeta_csv(rows):
    return "\n".join(
        f"{1_700_000_000_000_000_000 + n},{500 if error else 200},{round(value * 1e9)},0,9,{error},eA==,,{n},POST,http://h/,"
        for n, (value, error) in enumerate(rows)
    )


def alb(rows):
    """A line of the user guide, with times and status of ours: 0.001 + latency + 0.001 s."""
    return "\n".join(
        f"http 2026-11-01T10:00:{n % 60:02d}.186641Z app/my-lb/50dc6c495c0c9188 192.168.131.39:2817 10.0.0.1:80 0.001 {value - 0.002:.6f} 0.001 "
        f'{500 if error else 200} {500 if error else 200} 34 366 "GET http://www.example.com:80/ HTTP/1.1" "curl/7.46.0" - - '
        "arn:aws:elasticloadbalancing:us-east-2:123456789012:targetgroup/canary/73e2d6bc24d8a067 "
        f'"Root=1-58337262-36d228ad5d99923122bbe354" "-" "-" 0 2026-11-01T10:00:00.000000Z "forward" "-" "-" "10.0.0.1:80" "200" "-" "-"'
        for n, (value, error) in enumerate(rows)
    )


TOOLS = {"trial_table": locust, "trial_k6": k6, "trial_vegeta": vegeta, "trial_vegeta_csv": vegeta_csv, "trial_alb": alb}


@pytest.mark.parametrize("format", TOOLS)
def test_latency_and_failure_as_each_tool_writes_them(tmp_path, format):
    path = tmp_path / "x"
    path.write_text(TOOLS[format]([(0.0125, ""), (0.25, "timed out"), (0.5, "")]))
    assert recognise(path.read_bytes(), "x") == format
    found = read(path)
    assert [row.latency_s for row in found.rows] == pytest.approx([0.0125, 0.25, 0.5])
    assert [row.error is not None for row in found.rows] == [False, True, False] and found.left_out == 0
    assert all(1.69e9 < row.at_s < 1.8e9 for row in found.rows), "taken for UNIX seconds"
    if format == "trial_alb":
        assert found.rows[0].side == "canary"


@pytest.mark.parametrize("format", TOOLS)
def test_one_file_a_side(tmp_path, format):
    for name, slower in (("baseline", 1.0), ("candidate", 2.0)):
        (tmp_path / name).write_text(TOOLS[format]([(value, "") for value in latencies(400, slower)]))
    record = adopt_trial(asked(tmp_path), [("baseline", tmp_path / "baseline"), ("candidate", tmp_path / "candidate")])
    assert record.stages[0].asked == {"baseline": 400, "candidate": 400} and record.stages[0].name == "canary"
    assert record.status == "failed" and "latency_p50" in record.bottom_line
    assert record.source.file == "baseline, candidate"


def test_json_lines_with_tokens_and_words_of_their_own(tmp_path):
    path = tmp_path / "x.jsonl"
    rows = [
        {"variant": variant, "request_id": f"r{n}", "latency_s": 0.5, "ttft_ms": 100, "output_tokens": 41, "ok": True, "answer": {"label": "a"}}
        for n in range(30)
        for variant in ("prod-gpu", "prod-inf")
    ]
    path.write_text("\n".join(map(json.dumps, rows)) + "\nnot json\n")
    assert read(path).left_out == 1
    assert read(path).rows[0] == Row(side="prod-gpu", id="r0", latency_s=0.5, first_s=0.1, tokens=41, answer='{"label": "a"}')
    with pytest.raises(BadRecord, match="neither baseline nor candidate: 'prod-gpu'.*--side"):
        adopt_trial(asked(tmp_path), [(None, path)])
    this = asked(tmp_path)
    record = adopt_trial(this, [(None, path)], {"prod-gpu": "baseline", "prod-inf": "candidate"})
    entry = logs.read(this.dossier.folder / record.log).entries[-1]
    assert entry.tpot_s == pytest.approx(0.4 / 40) and entry.ttft_s == pytest.approx(0.1) and entry.agree is True
    assert record.stages[0].name == "shadow"


# -- totals ------------------------------------------------------------------------------------


def test_totals_suffice_for_a_share_and_for_nothing_else(tmp_path):
    """k6's summary: 40 of 20,000 failed, 0.2 %; the p95 of both is named and not judged."""
    for name, p95 in (("baseline", 30.0), ("candidate", 60.0)):
        metrics = {
            "http_req_duration": {"med": 20.0, "p(95)": p95, "avg": 21.0},
            "http_req_failed": {"passes": 40, "fails": 19960, "value": 0.002},
            "http_reqs": {"count": 20000},
        }
        (tmp_path / name).write_text(json.dumps({"metrics": metrics}))
    this = asked(tmp_path, criteria=[{"metric": "latency_p95"}, {"metric": "error_rate", "bound": 0.01}])
    record = adopt_trial(this, [("baseline", tmp_path / "baseline"), ("candidate", tmp_path / "candidate")])
    assert record.overall == {"latency_p95": "inconclusive", "error_rate": "passed"} and record.status == "inconclusive"
    said = {row.criterion: row.because for row in record.criteria}
    assert "40 of 20000" in said["error_rate"]
    assert "baseline 30 ms, candidate 60 ms" in said["latency_p95"] and "no line per request" in said["latency_p95"]


def prometheus():
    def series(arm, status, values):
        return {
            "metric": {"__name__": "http_requests_total", "variant": arm, "status": status},
            "values": [[n, str(v)] for n, v in enumerate(values)],
        }

    result = [series("canary", "200", [0, 900, 100]), series("canary", "500", [0, 5]), series("stable", "200", [10, 1010])]
    return json.dumps({"status": "success", "data": {"resultType": "matrix", "result": result}})


def cloudwatch():
    def series(label, values):
        return {"Id": "m1", "Label": label, "Timestamps": ["2026-11-01T10:00:00Z"] * len(values), "Values": values, "StatusCode": "Complete"}

    rows = [series("canary Invocations", [500.0, 405.0]), series("canary Invocation5XXErrors", [5.0]), series("control Invocations", [1000.0])]
    return json.dumps({"MetricDataResults": rows, "Messages": []})


def locust_stats():
    head = "Type,Name,Request Count,Failure Count,Median Response Time,Average Response Time,50%,95%,99%\n"
    return head + "POST,canary,905,5,20,21,20,30,40\nPOST,control,1000,0,20,21,20,30,40\n,Aggregated,1905,5,20,21,20,30,40\n"


@pytest.mark.parametrize(
    "format, text", [("trial_prometheus", prometheus()), ("trial_cloudwatch", cloudwatch()), ("trial_locust_stats", locust_stats())]
)
def test_counts_of_a_monitor(tmp_path, format, text):
    """905 requests of the canary with 5 failures, 1,000 of the other; after a restart a counter begins at 0, so 100 more."""
    path = tmp_path / "x"
    path.write_text(text)
    assert recognise(path.read_bytes(), "x") == format
    record = adopt_trial(asked(tmp_path), [(None, path)])
    row = next(row for row in record.criteria if row.criterion == "error_rate")
    assert row.outcome == "passed" and f"5 of {1005 if format == 'trial_prometheus' else 905}" in row.because


# -- refused -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text, message",
    [
        ("", "no log of a test that is known"),
        ("arm,latency\nbaseline,3\n", "a latency without a unit, column: 'latency'"),
        ("hello world\n", "no log of a test that is known"),
        ("arm,latency_ms,status\n", "without a single request"),
        ('{"MetricDataResults": 3}', "cannot be read as such"),
        ("arm,latency_ms,status\nbaseline,3,200\n", "no request of the candidate"),
        ("request_id,latency_ms,status\n1,3,200\n", "does not say which side"),
    ],
)
def test_what_cannot_be_used_is_one_line(tmp_path, text, message):
    (tmp_path / "x").write_text(text)
    with pytest.raises(BadRecord, match=message) as refused:
        adopt_trial(asked(tmp_path), [(None, tmp_path / "x")])
    assert "\n" not in str(refused.value)


def test_lines_without_latency_and_error_are_counted_not_invented(tmp_path):
    (tmp_path / "x.csv").write_text("arm,latency_ms,status\nbaseline,3,200\ncandidate,,200\ncandidate,-1,200\ncandidate,3,200\n")
    found = read(tmp_path / "x.csv")
    assert len(found.rows) == 2 and found.left_out == 2


def test_from_the_command_line(tmp_path):
    import yaml

    params = tmp_path / "x.yaml"
    section = {"criteria": GOOD, "stages": STAGES, "detect": 0.8, "candidate": "inf2"}
    params.write_text(yaml.safe_dump(mapping(trial=section, objective={})))
    table(tmp_path / "good.csv")
    table(tmp_path / "bad.csv", slower=1.6)

    def said(*more: str):
        return CliRunner().invoke(group, ["trial", str(params), "--reports", str(tmp_path / "reports"), *more], standalone_mode=False)

    good = said("--log", str(tmp_path / "good.csv"))
    assert good.return_value == 0 and "passed        latency_p50" in good.output
    assert said("--log", str(tmp_path / "bad.csv"), "--json").return_value == 1
    refused = said("--log", str(tmp_path / "good.csv"), "--side", "x=y")
    assert "baseline=WORD or candidate=WORD" in str(refused.exception)
