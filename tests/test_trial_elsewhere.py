"""Tests that ran elsewhere, with real tools' gaps: failures that a log leaves out, histograms, exports of monitors."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from neuronfit.adopt.metric_exports import read as read_totals
from neuronfit.adopt.request_logs import read, recognise
from neuronfit.adopt.trial_logs import adopt_trial
from neuronfit.errors import BadRecord
from neuronfit.trial.elsewhere import ratio_of_buckets
from scipy.stats import binom
from test_load_tools import AB, HEY, ab_g, h2load_log, hey_csv, jtl, k6_csv
from test_trial_logs import asked, latencies, table


def codes(record) -> dict[str, str]:
    return {finding.code: finding.because for finding in record.findings}


def outcome(record, criterion: str):
    return next(row for row in record.criteria if row.criterion == criterion)


# -- logs of real tools -----------------------------------------------------------------------


@pytest.mark.parametrize(
    "format, text, failed, timed", [("trial_hey", hey_csv(), 4, False), ("trial_h2load", h2load_log(), 4, True), ("trial_ab", ab_g(), 0, True)]
)
def test_a_log_that_hides_failures_cannot_pass_the_error_rate(tmp_path, format, text, failed, timed):
    """4 of 400 failed, at most 5 % is asked: the bounds would pass, were every failure in the file."""
    for side in ("baseline", "candidate"):
        (tmp_path / side).write_text(text)
    assert recognise(text.encode()) == format
    log = read(tmp_path / "candidate")
    assert len(log.rows) == 400 and sum(row.error is not None for row in log.rows) == failed and log.unsaid
    record = adopt_trial(asked(tmp_path), [("baseline", tmp_path / "baseline"), ("candidate", tmp_path / "candidate")])
    row = outcome(record, "error_rate")
    assert row.outcome == "inconclusive" and log.unsaid in row.because and f"{failed} of 400" in row.because
    assert outcome(record, "latency_p50").outcome == "passed", "latencies of the answers are there"
    assert "candidate: " in codes(record)["failures_unsaid"] or "baseline: " in codes(record)["failures_unsaid"]
    assert ("latency_rounded" in codes(record)) == (format == "trial_ab")


def test_a_hidden_failure_cannot_make_a_bad_side_good(tmp_path):
    """40 of 400 are bad already: what the file leaves out could only make it worse."""
    (tmp_path / "good").write_text(hey_csv())
    (tmp_path / "bad").write_text(hey_csv().replace(",200,", ",503,", 36))
    record = adopt_trial(asked(tmp_path), [("baseline", tmp_path / "good"), ("candidate", tmp_path / "bad")])
    assert outcome(record, "error_rate").outcome == "failed" and "40 of 400" in outcome(record, "error_rate").because


def test_the_printed_report_fills_in_what_the_log_leaves_out(tmp_path):
    """ab printed 14 bad answers and 2 without one, of 1,600; its log has none."""
    for side in ("baseline", "candidate"):
        (tmp_path / f"{side}.tsv").write_text(ab_g())
    (tmp_path / "candidate.txt").write_text(AB)
    files = [(side, tmp_path / f"{side}.tsv") for side in ("baseline", "candidate")]
    record = adopt_trial(asked(tmp_path), [*files, ("candidate", tmp_path / "candidate.txt")])
    assert outcome(record, "error_rate").outcome == "passed" and "16 of 1600" in outcome(record, "error_rate").because
    assert outcome(record, "latency_p50").outcome == "passed" and record.stages[0].failed == {"baseline": 0, "candidate": 16}


def test_the_order_within_a_second_of_ab_is_not_that_of_latency(tmp_path):
    """The file is sorted by latency; in that order neighbours would resemble each other."""
    (tmp_path / "x").write_text(ab_g())
    found = [row.latency_s for row in read(tmp_path / "x").rows]
    again = [row.latency_s for row in read(tmp_path / "x").rows]
    steps = sum(abs(after - before) for before, after in zip(found, found[1:]))
    assert found == again and steps > 50 * (max(found) - min(found))


def test_a_table_without_a_word_about_failures(tmp_path):
    lines = ["arm,request_id,latency_ms"] + [f"{arm},{n},{20 + n % 7}.5" for n in range(600) for arm in ("baseline", "candidate")]
    (tmp_path / "x.csv").write_text("\n".join(lines) + "\n")
    record = adopt_trial(asked(tmp_path), [(None, tmp_path / "x.csv")])
    assert (
        outcome(record, "error_rate").outcome == "inconclusive"
        and "no column that says which requests failed" in outcome(record, "error_rate").because
    )


def test_k6_names_the_side_by_a_tag_of_the_script(tmp_path):
    text = k6_csv() + "".join(line.replace("side=canary", "side=stable") + "\n" for line in k6_csv().splitlines()[1:])
    (tmp_path / "x.csv").write_text(text)
    assert recognise(text.encode()) == "trial_k6_csv"
    record = adopt_trial(asked(tmp_path), [(None, tmp_path / "x.csv")])
    assert record.stages[0].asked == {"baseline": 400, "candidate": 400} and record.stages[0].failed == {"baseline": 4, "candidate": 4}


@pytest.mark.parametrize("decimal", [".", ","])
def test_jmeter_counts_the_whole_answer_in_milliseconds(tmp_path, decimal):
    """``elapsed`` is the answer, ``Latency`` its first byte, 15 ms; an assertion that fails is a failure with status 200."""
    text = jtl() + "1796071999000,31,predict,200,OK,Thread 1-1,text,false,Test failed: text expected to contain /yes/,9,9,1,1,http://h/,15,0,2\n"
    text += "1796071999100,31,predict,Non HTTP response code: java.net.SocketTimeoutException,,Thread 1-1,text,false,,9,9,1,1,http://h/,0,0,2\n"
    (tmp_path / "x.jtl").write_text(text if decimal == "." else text.replace(",", ";"))
    log = read(tmp_path / "x.jtl")
    assert log.format == "trial_jmeter" and len(log.rows) == 402 and log.rows[0].side == "predict"
    assert (
        log.rows[0].latency_s == pytest.approx(0.020)
        and log.rows[0].first_s == pytest.approx(0.015)
        and log.rows[0].at_s == pytest.approx(1796071684.25)
    )
    assert [row.error[:14] for row in log.rows if row.error] == ["http 500"] * 4 + ["Test failed: t", "Non HTTP respo"]


def test_locusts_listener_names_the_side_by_the_request(tmp_path):
    """As teams write it: one user, two requests with a name each."""
    lines = ["timestamp,request_type,name,response_time,response_length,exception,status_code"]
    for n, (mine, theirs) in enumerate(zip(latencies(400, 1.0, 1), latencies(400, 1.0, 2))):
        lines += [f"{1.79e9 + n / 10},POST,baseline,{theirs * 1e3},16,,200", f"{1.79e9 + n / 10},POST,candidate,{mine * 1e3},16,,200"]
    (tmp_path / "x.csv").write_text("\n".join(lines) + "\n")
    record = adopt_trial(asked(tmp_path), [(None, tmp_path / "x.csv")])
    assert record.stages[0].asked == {"baseline": 400, "candidate": 400}
    (tmp_path / "y.csv").write_text("\n".join(lines).replace(",baseline,", ",/predict,").replace(",candidate,", ",/predict,") + "\n")
    with pytest.raises(BadRecord, match="does not say which side.*--log baseline=FILE --log candidate=FILE"):
        adopt_trial(asked(tmp_path), [(None, tmp_path / "y.csv")])
    (tmp_path / "z.csv").write_text("\n".join(lines).replace(",baseline,", ",/v1,").replace(",candidate,", ",/v2,") + "\n")
    with pytest.raises(BadRecord, match="--side candidate=/v1 or --side baseline=/v1"):
        adopt_trial(asked(tmp_path), [(None, tmp_path / "z.csv")])
    assert adopt_trial(asked(tmp_path), [(None, tmp_path / "z.csv")], {"/v1": "baseline", "/v2": "candidate"}).stages[0].asked["candidate"] == 400


def test_a_log_that_is_too_large_says_which_lines_to_keep(tmp_path, monkeypatch):
    monkeypatch.setattr("neuronfit.adopt.request_logs.MOST_BYTES", 1000)
    (tmp_path / "x.csv").write_text(k6_csv())
    with pytest.raises(BadRecord, match="too large.*grep http_req_duration"):
        read(tmp_path / "x.csv")


def test_sides_that_ran_one_after_the_other_are_said_to(tmp_path):
    for name, shift in (("baseline", 0.0), ("candidate", 3600.0)):
        text = "".join(f"{round((1.79e9 + n / 10 + shift) * 1e6)}\t200\t{20000 + n % 50}\n" for n in range(400))
        (tmp_path / name).write_text(text)
    files = [("baseline", tmp_path / "baseline"), ("candidate", tmp_path / "candidate")]
    assert "100% of the shorter run lies outside" in codes(adopt_trial(asked(tmp_path), files))["sides_apart"]
    assert "sides_apart" not in codes(adopt_trial(asked(tmp_path), [(None, table(tmp_path / "x.csv"))]))


def test_whole_milliseconds_widen_the_interval_by_half_a_step_of_either_side(tmp_path):
    """Medians of 20 ms and 21 ms: each end by 0.5/20 + 0.5/21, 4.9 %. What is sure with fractions is not sure without them."""
    ends = {}
    for name, shift in (("whole", 0.0), ("parts", 0.0004)):
        lines = ["arm,latency_s,status"]
        for n in range(2000):
            lines += [f"baseline,{0.018 + n % 5 * 1e-3 + shift:.4f},200", f"candidate,{0.019 + n % 5 * 1e-3 + shift:.4f},200"]
        (tmp_path / name).write_text("\n".join(lines) + "\n")
        this = asked(tmp_path / f"of {name}", criteria=[{"metric": "latency_p50", "margin": 0.08}])
        row = outcome(adopt_trial(this, [(None, tmp_path / name)]), "latency_p50")
        ends[name] = (row.value.low, row.value.high, row.outcome)
    off = 0.0005 / 0.020 + 0.0005 / 0.021
    assert ends["whole"][0] == pytest.approx(ends["parts"][0] * (1 - off), rel=0.01) and ends["whole"][1] == pytest.approx(
        ends["parts"][1] * (1 + off), rel=0.01
    )
    assert (ends["parts"][2], ends["whole"][2]) == ("passed", "inconclusive")


# -- histograms -------------------------------------------------------------------------------

EDGES = (0.01, 0.02, 0.025, 0.05, 0.1)


def test_a_quantile_from_buckets_is_known_to_its_bucket_only():
    """1,000 requests, 400 up to 20 ms, 300 up to 25 ms, 300 up to 50 ms. The median's rank is 464 to 537 (binomial, 1 % an end): all in (20, 25] ms."""
    mine = [(0.0, 0.01, 0), (0.01, 0.02, 400), (0.02, 0.025, 300), (0.025, 0.05, 300)]
    low, high = binom.ppf(0.01, 1000, 0.5), binom.ppf(0.99, 1000, 0.5) + 1
    assert 400 < low < high <= 700
    look = ratio_of_buckets("latency_p50", mine, mine, 0.5, 1.05, 0.02)
    assert look.outcome == "inconclusive" and (look.low, look.high) == pytest.approx((0.020 / 0.025, 0.025 / 0.020))
    assert look.value == pytest.approx(1.0) and "20 to 25 ms against 20 to 25 ms" in look.because and "known to its bucket only" in look.because
    assert ratio_of_buckets("latency_p50", mine, mine, 0.5, 1.26, 0.02).outcome == "passed"
    slow = [(0.0, 0.025, 0), (0.025, 0.05, 1000)]
    assert ratio_of_buckets("latency_p50", slow, [(0.0, 0.02, 1000)], 0.5, 1.05, 0.02).outcome == "failed"


def test_a_rank_near_an_edge_takes_the_next_bucket_too():
    """500 of 1,000 up to 20 ms: the median's rank may lie on either side."""
    mine = [(0.01, 0.02, 500), (0.02, 0.025, 500)]
    look = ratio_of_buckets("latency_p50", mine, mine, 0.5, 1.05, 0.02)
    assert (look.low, look.high) == pytest.approx((0.010 / 0.025, 0.025 / 0.010))
    tail = [(0.0, 0.02, 900), (0.02, 1e9, 100)]
    assert "no bound" in ratio_of_buckets("latency_p95", tail, mine, 0.95, 1.05, 0.02).because, "the last bucket has no upper edge"
    assert "looked at from 1000 on" in ratio_of_buckets("latency_p99", [(0, 1, 999)], [(0, 1, 999)], 0.99, 1.05, 0.02).because


def histogram(
    counts: dict[str, tuple[int, ...]], status: str = "", name: str = "http_request_duration_seconds_bucket", scale: float = 1.0
) -> list[dict]:
    """Cumulative counters at two moments, per side; the last count is of the endless bucket."""
    series = []
    for side, each in counts.items():
        for edge, count in zip((*EDGES, "+Inf"), each):
            le = edge if edge == "+Inf" else f"{edge * scale:g}"
            labels = {"__name__": name, "service": side, "le": le} | ({"status": status} if status else {})
            series.append({"metric": labels, "values": [[1796071684, "7"], [1796071700, str(7 + count // 2)], [1796075284, str(7 + count)]]})
    return series


def answer(series: list[dict], kind: str = "matrix") -> str:
    return json.dumps({"status": "success", "data": {"resultType": kind, "result": series}})


def test_buckets_of_prometheus_judge_a_quantile(tmp_path):
    """2,000 each: the baseline's p95 is in (20, 25] ms, the candidate's in (50, 100]: at least 2 x. 30 of 2,030 failed."""
    good = {"bert-gpu": (1000, 1800, 2000, 2000, 2000, 2000), "bert-inf": (0, 800, 1000, 1700, 2000, 2000)}
    series = histogram(good, "200") + histogram({"bert-inf": (30, 30, 30, 30, 30, 30)}, "503")
    (tmp_path / "x.json").write_text(answer(series))
    criteria = [{"metric": "latency_p95"}, {"metric": "latency_p99", "bound_ms": 100}, {"metric": "error_rate", "bound": 0.05}]
    this = asked(tmp_path, criteria=[*criteria, {"metric": "latency_p95", "bound_ms": 60}])
    record = adopt_trial(this, [(None, tmp_path / "x.json")], {"bert-gpu": "baseline", "bert-inf": "candidate"})
    assert record.overall["latency_p95"] == "failed" and "50 to 100 ms against 20 to 25 ms" in outcome(record, "latency_p95").because
    assert outcome(record, "latency_p95").value.low == pytest.approx(2.0) and outcome(record, "latency_p95").value.high == pytest.approx(5.0)
    assert record.overall["error_rate"] == "passed" and "30 of 2030" in outcome(record, "error_rate").because
    assert "0 to 30 of 2030" in outcome(record, "latency_p99_bound").because, "failed requests are in no bucket and count as beyond"
    assert "0 to 330 of 2030" in outcome(record, "latency_p95_bound").because and "60 ms divides" in outcome(record, "latency_p95_bound").because
    assert record.stages[0].asked == {"baseline": 2000, "candidate": 2030}


def test_buckets_in_milliseconds_and_of_the_first_token(tmp_path):
    series = histogram({"gpu": (0, 0, 10, 10, 10, 10)}, name="http_server_duration_milliseconds_bucket", scale=1e3)
    series += histogram({"gpu": (10, 10, 10, 10, 10, 10)}, name="vllm:time_to_first_token_seconds_bucket")
    [found] = read_totals(answer(series), "trial_prometheus")
    assert [(bucket.above, bucket.upto) for bucket in found.buckets["latency"] if bucket.count] == [pytest.approx((0.02, 0.025))]
    assert [(bucket.above, bucket.upto) for bucket in found.buckets["ttft"] if bucket.count] == [pytest.approx((0.0, 0.01))]
    assert found.asked == 10, "requests are counted once"


def test_locusts_json_is_a_histogram(tmp_path):
    """Two names in one file; response times rounded to 1 ms below 100 ms and to 10 ms above."""

    def entry(name: str, times: dict[str, int]) -> dict:
        count = sum(times.values())
        return {"name": name, "num_requests": count, "num_failures": 0, "total_response_time": 1.0, "response_times": times, "start_time": 0.0}

    (tmp_path / "x.json").write_text(json.dumps([entry("baseline", {"20": 900, "100": 100}), entry("candidate", {"40": 900, "110": 100})]))
    record = adopt_trial(asked(tmp_path), [(None, tmp_path / "x.json")])
    row = outcome(record, "latency_p50")
    assert row.outcome == "failed" and (row.value.low, row.value.high) == pytest.approx((39.5 / 20.5, 40.5 / 19.5))
    [theirs, mine] = read(tmp_path / "x.json").totals
    last = [bucket for one in (theirs, mine) for bucket in one.buckets["latency"]][1::2]
    assert [(bucket.above, bucket.upto) for bucket in last] == [pytest.approx((0.0995, 0.105)), pytest.approx((0.105, 0.115))]


# -- exports of monitors ----------------------------------------------------------------------


@pytest.mark.parametrize(
    "text, message",
    [
        (answer([{"metric": {"service": "bert-gpu"}, "values": [[1, "0.024"], [2, "0.031"]]}]), "no counts.*next: ask for the counters"),
        (answer([{"metric": {"__name__": "x"}, "value": [1, "5"]}], "vector"), "one value of each series.*query_range"),
        ('{"MetricDataResults": [{"Id": "m1", "Label": "candidate", "Values": [5.0]}]}', "does not say which metric.*Invocations"),
        ('{"MetricDataResults": [{"Id": "m1", "Label": "candidate Invocations", "Values": [5.5]}]}', "need the statistic Sum.*Stat=Sum"),
        ('{"MetricDataResults": [{"Id": "m1", "Label": "Invocations", "Values": [5.0]}], "NextToken": "x"}', "one page of several"),
        ('{"Label": "Invocations", "Datapoints": [{"Timestamp": "2026-11-30T10:00:00Z", "Average": 1.0, "Unit": "Count"}]}', "need the statistic Sum, this is Average"),
        ("Full label,Invocations\nLabel,candidate\nStatistic,Average\n2026/11/30 10:00:00,1\n", "need the statistic Sum, this is Average"),
    ],
)  # fmt: skip
def test_what_is_no_count_is_refused_with_what_to_export(tmp_path, text, message):
    (tmp_path / "x").write_text(text)
    with pytest.raises(BadRecord, match=message) as said:
        adopt_trial(asked(tmp_path), [("candidate", tmp_path / "x"), ("baseline", tmp_path / "x")])
    assert "\n" not in str(said.value)


def test_cloudwatch_per_variant(tmp_path):
    """Invocations of both variants; 4xx and 5xx add up, the model's own errors are among them; a p99 per minute is not taken."""

    def series(id: str, label: str, values: list[float]) -> dict:
        return {"Id": id, "Label": label, "Timestamps": ["2026-11-30T10:00:00Z"] * len(values), "Values": values, "StatusCode": "Complete"}

    results = [
        series("m1", "bert-trial candidate Invocations", [600.0, 400.0]),
        series("m2", "bert-trial candidate Invocation5XXErrors", [6.0]),
        series("m3", "bert-trial candidate Invocation4XXErrors", [3.0]),
        series("m4", "bert-trial candidate InvocationModelErrors", [6.0]),
        series("m5", "bert-trial candidate InvocationsPerInstance", [500.0]),
        series("m6", "bert-trial candidate ModelLatency", [23456.7]),
        series("m7", "bert-trial AllTraffic Invocations", [1000.0]),
    ]
    (tmp_path / "x.json").write_text(json.dumps({"MetricDataResults": results, "Messages": []}))
    record = adopt_trial(asked(tmp_path), [(None, tmp_path / "x.json")], {"AllTraffic": "baseline"})
    assert "9 of 1000" in outcome(record, "error_rate").because and record.stages[0].asked == {"baseline": 1000, "candidate": 1000}
    assert outcome(record, "latency_p50").outcome == "inconclusive"


@pytest.mark.parametrize("form", ["statistics", "console"])
def test_cloudwatch_one_file_a_side(tmp_path, form):
    def file(name: str, requests: tuple[int, ...], errors: tuple[int, ...]) -> Path:
        path = tmp_path / name
        rows = "".join(f'2026/11/30 10:{n:02d}:00,"{a:,}",{b}\n' for n, (a, b) in enumerate(zip(requests, errors)))
        head = "Full label,RequestCount,HTTPCode_Target_5XX_Count\nLabel,RequestCount,HTTPCode_Target_5XX_Count\nRegion,us-east-1,us-east-1\nPeriod,60,60\nStatistic,Sum,Sum\n"
        path.write_text(head + rows)
        return path

    if form == "console":
        files = [("baseline", file("b.csv", (1000, 1500), (0, 0))), ("candidate", file("c.csv", (1200, 1300), (5, 7)))]
        assert recognise(files[0][1].read_bytes()) == "trial_cloudwatch_csv"
    else:
        for name, label, values in (("b", "Invocations", (1000, 1500)), ("c", "Invocations", (1200, 1300)), ("e", "Invocation5XXErrors", (5, 7))):
            points = [{"Timestamp": f"2026-11-30T10:0{n}:00Z", "Sum": float(value), "Unit": "Count"} for n, value in enumerate(values)]
            (tmp_path / name).write_text(json.dumps({"Label": label, "Datapoints": points}))
        files = [("baseline", tmp_path / "b"), ("candidate", tmp_path / "c"), ("candidate", tmp_path / "e")]
        assert recognise(files[0][1].read_bytes()) == "trial_cloudwatch"
    record = adopt_trial(asked(tmp_path), files)
    assert "12 of 2500" in outcome(record, "error_rate").because and record.overall["error_rate"] == "passed"


def test_a_summary_of_each_side_suffices_for_errors_only(tmp_path):
    (tmp_path / "b.txt").write_text(HEY)
    (tmp_path / "c.txt").write_text(HEY.replace("[7]", "[97]"))
    record = adopt_trial(asked(tmp_path), [("baseline", tmp_path / "b.txt"), ("candidate", tmp_path / "c.txt")])
    assert record.overall == {"latency_p50": "inconclusive", "error_rate": "failed"} and "106 of 690" in outcome(record, "error_rate").because
    assert "baseline 24.2 ms, candidate 24.2 ms" in outcome(record, "latency_p50").because
