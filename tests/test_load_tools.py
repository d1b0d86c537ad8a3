"""Load generators: their summaries and their requests, in the shape that each tool writes, with figures of our own."""

from __future__ import annotations

import gzip
import json
from typing import Any

import pytest
from neuronfit.adopt import read
from neuronfit.adopt.load_summaries import FORMATS, REFUSED, recognise, refused, summaries
from neuronfit.errors import BadRecord

WRK = """Running 4s test @ http://127.0.0.1:8000/predict
  1 threads and 10 connections
  Thread Stats   Avg      Stdev     Max   +/- Stdev
    Latency    24.50ms    3.50ms  36.00ms   69.66%
    Req/Sec   410.00     16.19   450.00     77.50%
  Latency Distribution
     50%   24.00ms
     75%   26.20ms
     90%   28.60ms
     99%   33.00ms
  1600 requests in 4.00s, 283.62KB read
  Socket errors: connect 1, read 2, write 0, timeout 3
  Non-2xx or 3xx responses: 10
Requests/sec:    400.00
Transfer/sec:     70.85KB
"""

HEY = """
Summary:
  Total:\t1.5000 secs
  Slowest:\t0.0368 secs
  Fastest:\t0.0158 secs
  Average:\t0.0244 secs
  Requests/sec:\t391.0998
  
  Total data:\t9588 bytes
  Size/request:\t15 bytes

Response time histogram:
  0.016 [1]\t|
  0.018 [6]\t|


Latency distribution:
  10% in 0.0201 secs
  50% in 0.0242 secs
  95% in 0.0304 secs
  99% in 0.0333 secs

Details (average, fastest, slowest):
  DNS+dialup:\t0.0000 secs, 0.0158 secs, 0.0368 secs

Status code distribution:
  [200]\t584 responses
  [500]\t6 responses

Error distribution:
  [7]\tGet "http://127.0.0.1:8000/": context deadline exceeded (Client.Timeout exceeded while awaiting headers)
  [3]\tGet "http://127.0.0.1:8000/": EOF

"""  # noqa: W293

AB = """This is ApacheBench, Version 2.3 <$Revision$>

Benchmarking 127.0.0.1 (be patient).....done


Server Software:        Python/3.11
Server Hostname:        127.0.0.1

Concurrency Level:      10
Time taken for tests:   4.000 seconds
Complete requests:      1600
Failed requests:        40
   (Connect: 0, Receive: 1, Length: 38, Exceptions: 1)
Non-2xx responses:      14
Total transferred:      262755 bytes
Requests per second:    400.00 [#/sec] (mean)
Time per request:       24.500 [ms] (mean)
Time per request:       2.450 [ms] (mean, across all concurrent requests)

Connection Times (ms)
              min  mean[+/-sd] median   max
Connect:        0    0   0.1      0       2
Total:         15   24   3.4     24      41

Percentage of the requests served within a certain time (ms)
  50%     24
  90%     29
  95%     30
  99%     34
 100%     41 (longest request)
"""

H2LOAD = """starting benchmark...
finished in 3.75s, 400.00 req/s, 70.18KB/s
requests: 1600 total, 1500 started, 1490 done, 1480 succeeded, 120 failed, 110 errored, 3 timeout
status codes: 1480 2xx, 0 3xx, 0 4xx, 10 5xx
                     min         max         mean         sd        +/- sd
time for request:    15.43ms     38.99ms     24.02ms      3.58ms    70.27%
time for connect:       49us       930us       262us       267us    90.00%
"""

VEGETA = """Requests      [total, rate, throughput]         2000, 100.05, 98.95
Duration      [total, attack, wait]             20.012s, 19.99s, 22.5ms
Latencies     [min, mean, 50, 90, 95, 99, max]  863.132µs, 24.2ms, 23.9ms, 28.1ms, 30ms, 1.033s, 1m0.5s
Bytes In      [total, mean]                     949961, 158.33
Bytes Out     [total, mean]                     0, 0.00
Success       [ratio]                           99.00%
Status Codes  [code:count]                      0:5  200:1980  500:15
Error Set:
500 Internal Server Error
"""

VEGETA_JSON = {
    "latencies": {"total": 1, "mean": 24200000, "50th": 23900000, "90th": 28100000, "95th": 30000000, "99th": 1033000000, "max": 60500000000, "min": 863132},
    "bytes_in": {"total": 1, "mean": 1.0},
    "earliest": "2026-11-01T10:00:00Z",
    "duration": 19990000000,
    "wait": 22000000,
    "requests": 2000,
    "rate": 100.05,
    "throughput": 98.95,
    "success": 0.99,
    "status_codes": {"0": 5, "200": 1980, "500": 15},
    "errors": ["500 Internal Server Error"],
}  # fmt: skip

TREND = {"avg": 24.2, "min": 15.0, "med": 23.9, "max": 60.0, "p(90)": 28.1, "p(95)": 30.0, "p(99)": 35.0}


def k6(shape: str) -> dict[str, Any]:
    """2,000 requests in 20 s of which 20 failed; the successful ones are 1 ms slower."""
    good = {name: value + 1 for name, value in TREND.items()}
    if shape == "export":
        metrics = {
            "http_req_duration": TREND,
            "http_req_duration{expected_response:true}": good,
            "http_req_failed": {"passes": 20, "fails": 1980, "thresholds": {"rate<0.05": False}, "value": 0.01},
            "http_reqs": {"count": 2000, "rate": 100.0},
        }
        return {"root_group": {"name": "", "checks": {}}, "metrics": metrics}
    if shape == "handle":
        values = k6("export")["metrics"]
        return {
            "options": {"summaryTimeUnit": ""},
            "state": {"testRunDurationMs": 20000.0},
            "metrics": {name: {"type": "trend", "contains": "time", "values": entry} for name, entry in values.items()},
        }
    plain = {name.replace("(", "").replace(")", ""): value for name, value in good.items()}
    metrics = [
        {"name": "http_reqs", "type": "counter", "contains": "default", "values": {"count": 2000, "rate": 100.0}},
        {"name": "http_req_failed", "type": "rate", "contains": "default", "values": {"matches": 20, "rate": 0.01, "total": 2000}},
        {"name": "http_req_duration", "type": "trend", "contains": "time", "values": TREND | {"p95": 30.0}},
        {"name": "http_req_duration{expected_response:true}", "type": "trend", "contains": "time", "values": plain},
    ]
    return {"config": {"duration": 20}, "results": {"checks": {}, "metrics": metrics}, "version": "1.0.0"}


AUTOCANNON = {
    "url": "http://127.0.0.1:8000/", "connections": 10, "duration": 80.02, "errors": 6, "timeouts": 4, "mismatches": 0, "non2xx": 15, "2xx": 1985,
    "latency": {"average": 24.1, "mean": 24.1, "min": 14, "max": 60, "p2_5": 18, "p50": 23, "p90": 29, "p97_5": 32, "p99": 34, "totalCount": 2000},
    "requests": {"average": 25, "total": 2000, "sent": 2010},
}  # fmt: skip

ARTILLERY = {
    "aggregate": {
        "counters": {"vusers.created": 400, "http.requests": 400, "http.codes.200": 390, "http.codes.500": 4, "http.responses": 394, "errors.ETIMEDOUT": 6},
        "rates": {"http.request_rate": 50},
        "firstMetricAt": 1796071865000, "lastMetricAt": 1796071873000,
        "summaries": {
            "http.response_time": {"min": 10, "max": 60, "count": 394, "mean": 27.0, "p50": 26.0, "p90": 33.0, "p95": 37.0, "p99": 44.0, "p999": 53},
            "http.response_time.2xx": {"min": 16, "max": 53, "count": 390, "mean": 27.7, "p50": 26.8, "p90": 34.1, "p95": 37.7, "p99": 44.3, "p999": 53},
        },
    },
    "intermediate": [],
}  # fmt: skip

LOCUST = [
    {
        "name": "/predict", "method": "POST", "last_request_timestamp": 1796071830.0, "start_time": 1796071820.0, "num_requests": 1000, "num_failures": 10,
        "total_response_time": 30000.0, "max_response_time": 320.5, "min_response_time": 15.2, "response_times": {"20": 500, "30": 450, "110": 40, "320": 10},
    }
]  # fmt: skip

SIEGE = """New configuration template added to /home/ann/.siege
{\t"transactions":\t\t\t         415,
\t"availability":\t\t\t       99.05,
\t"elapsed_time":\t\t\t        2.00,
\t"response_time":\t\t        0.02,
\t"successful_transactions":\t         415,
\t"failed_transactions":\t\t           4
}
"""

BOMBARDIER = {
    "spec": {"numberOfConnections": 10, "testType": "number-of-requests", "numberOfRequests": 2000, "method": "GET"},
    "result": {
        "timeTakenSeconds": 5.0, "req1xx": 0, "req2xx": 1980, "req3xx": 0, "req4xx": 0, "req5xx": 15, "others": 5,
        "latency": {"mean": 24200, "stddev": 1, "max": 60000, "percentiles": {"50": 23900, "75": 26000, "90": 28100, "95": 30000, "99": 35000}},
    },
}  # fmt: skip

KNOWN = [
    # format, text, (asked, failed, p50 ms, p99 ms, mean ms, duration s)
    ("wrk_text", WRK, (1606, 16, 24.0, 33.0, 24.5, 4.0)),
    ("hey_text", HEY, (600, 16, 24.2, 33.3, 24.4, 1.5)),
    ("ab_text", AB, (1600, 16, 24.0, 34.0, 24.5, 4.0)),
    ("h2load_text", H2LOAD, (1500, 20, None, None, 24.02, 3.75)),
    ("vegeta_text", VEGETA, (2000, 20, 23.9, 1033.0, 24.2, 20.012)),
    ("vegeta_report", json.dumps(VEGETA_JSON), (2000, 20, 23.9, 1033.0, 24.2, 20.012)),
    ("k6_summary", json.dumps(k6("export")), (2000, 20, 24.9, 36.0, 25.2, 20.0)),
    ("k6_summary", json.dumps(k6("handle"), indent=4), (2000, 20, 24.9, 36.0, 25.2, 20.0)),
    ("k6_summary", json.dumps(k6("machine")), (2000, 20, 24.9, 36.0, 25.2, 20.0)),
    ("autocannon_json", json.dumps(AUTOCANNON), (2006, 21, 23.0, 34.0, 24.1, 80.02)),
    ("artillery_json", json.dumps(ARTILLERY, indent=2), (400, 10, 26.8, 44.3, 27.7, 8.0)),
    ("locust_json", json.dumps(LOCUST, indent=4), (1000, 10, 20.0, 110.0, 30.0, 10.0)),
    ("siege_json", SIEGE, (419, 4, None, None, None, 2.0)),
    ("bombardier_json", json.dumps(BOMBARDIER), (2000, 20, 23.9, 35.0, 24.2, 5.0)),
]


@pytest.mark.parametrize("format, text, known", KNOWN, ids=[f"{place}-{entry[0]}" for place, entry in enumerate(KNOWN)])
def test_a_summary_says_what_the_tool_printed(tmp_path, format, text, known):
    """wrk: 1,600 answers of which 10 bad and 6 socket errors. hey: 590 answers, 6 bad, 10 without one. ab: 2 without an answer and 14 bad,
    the others of another length are answers. h2load: 1,500 of 1,600 were started. autocannon: 2,000 answers, 15 bad, 6 without one."""
    asked, failed, middle, top, mean, seconds = known
    assert recognise(text.encode()) == format
    [one] = summaries(text, format)
    assert (one.asked, one.failed) == (asked, failed)
    assert one.quantiles.get(0.5) == (None if middle is None else pytest.approx(middle * 1e-3))
    assert one.quantiles.get(0.99) == (None if top is None else pytest.approx(top * 1e-3))
    assert one.mean_s == (None if mean is None else pytest.approx(mean * 1e-3)) and one.duration_s == pytest.approx(seconds)
    (tmp_path / "x").write_text(text)
    [reading] = read(tmp_path / "x").readings
    assert reading.format == format and (reading.asked, reading.completed) == (asked, asked - failed)
    assert reading.values["error_fraction"] == pytest.approx(failed / asked)
    if middle is not None:
        assert reading.values["latency_p50_s"] == pytest.approx(middle * 1e-3)


def test_every_summary_is_tried():
    assert {format for format, *_ in KNOWN} == set(FORMATS)


def test_wrk2_counts_from_the_schedule_and_has_more_digits(tmp_path):
    text = WRK.replace("Latency Distribution", "Latency Distribution (HdrHistogram - Recorded Latency)").replace("50%   24.00ms", "50.000%   24.00ms")
    (tmp_path / "x").write_text(text)
    [reading] = read(tmp_path / "x").readings
    assert reading.tool == "wrk2" and reading.definitions["latency_from"] == "schedule" and reading.values["latency_p50_s"] == pytest.approx(0.024)


def test_a_later_h2load_prints_percentiles():
    header = "                     min         max         median      p95         p99         mean         sd        +/- sd"
    row = "request     :    15.43ms     38.99ms     24.00ms     30.00ms     35.00ms     24.02ms      3.58ms    70.27%"
    lines = H2LOAD.split("\n")
    [one] = summaries("\n".join([*lines[:4], header, row]), "h2load_text")
    assert one.quantiles == pytest.approx({0.5: 0.024, 0.95: 0.03, 0.99: 0.035}) and one.mean_s == pytest.approx(0.02402)


def test_a_short_run_of_autocannon_has_no_rate(tmp_path):
    """4 s to the end of the last second: 2,000 requests in 3.1 to 4.01 s."""
    (tmp_path / "x").write_text(json.dumps(AUTOCANNON | {"duration": 4.01}))
    [reading] = read(tmp_path / "x").readings
    assert "throughput_per_s" not in reading.values and "requests_per_s" in reading.printed
    assert any("25% too low" in fault.because for fault in reading.faults if fault.code == "rounded")
    (tmp_path / "x").write_text(json.dumps(AUTOCANNON))
    assert read(tmp_path / "x").readings[0].values["requests_per_s"] == pytest.approx(1985 / 80.02)


def test_answers_with_an_error_status_are_named_where_they_are_in_the_percentiles(tmp_path):
    (tmp_path / "x").write_text(WRK)
    [reading] = read(tmp_path / "x").readings
    assert any("error status are in wrk's percentiles" in fact for fact in reading.facts.values())
    assert reading.concurrency == 10 and any(fault.code == "closed_loop" for fault in reading.faults)


def test_an_open_loop_gives_no_capacity(tmp_path):
    (tmp_path / "x").write_text(VEGETA)
    [reading] = read(tmp_path / "x").readings
    assert reading.request_rate == pytest.approx(100.05) and "throughput_per_s" not in reading.values


# -- requests one by one ----------------------------------------------------------------------

ROWS = [(1796071684.25 + n / 10, 0.020 + n * 1e-5, 500 if n % 100 == 99 else 200) for n in range(400)]
"""(start, latency s, status): every hundredth failed, so 4; p50 of the others lies near 22 ms."""


def hey_csv() -> str:
    head = "response-time,DNS+dialup,DNS,Request-write,Response-delay,Response-read,status-code,offset\n"
    return head + "".join(f"{took:.4f},0.0001,0.0000,0.0001,0.0200,0.0001,{code},{at - ROWS[0][0]:.4f}\n" for at, took, code in ROWS)


def h2load_log() -> str:
    return "".join(f"{round(at * 1e6)}\t{code}\t{round(took * 1e6)}\n" for at, took, code in ROWS)


def ab_g() -> str:
    head = "starttime\tseconds\tctime\tdtime\tttime\twait\n"
    return head + "".join(
        f"Mon Nov 30 20:48:04 2026\t{int(at)}\t0\t{round(took * 1e3)}\t{round(took * 1e3)}\t15\n"
        for at, took, _ in sorted(ROWS, key=lambda row: row[1])
    )


def k6_csv() -> str:
    head = "metric_name,timestamp,metric_value,check,error,error_code,expected_response,group,method,name,proto,scenario,service,status,subproto,tls_version,url,extra_tags,metadata\n"
    tail = "GET,http://h/,HTTP/1.1,default,"
    rows = ""
    for at, took, code in ROWS:
        good = "true" if code == 200 else "false"
        rows += f"http_reqs,{int(at)},1.000000,,,,{good},,{tail},{code},,,http://h/,side=canary&x=1,\n"
        rows += f"http_req_duration,{int(at)},{took * 1e3:.6f},,,{'' if code == 200 else 1500},{good},,{tail},{code},,,http://h/,side=canary&x=1,\n"
    return head + rows


def jtl() -> str:
    head = "timeStamp,elapsed,label,responseCode,responseMessage,threadName,dataType,success,failureMessage,bytes,sentBytes,grpThreads,allThreads,URL,Latency,IdleTime,Connect\n"
    return head + "".join(
        f"{round(at * 1e3)},{round(took * 1e3)},predict,{code},OK,Thread 1-1,text,{str(code == 200).lower()},,1591,109,1,1,http://h/,15,0,2\n"
        for at, took, code in ROWS
    )


@pytest.mark.parametrize(
    "format, text, failed, asks_more",
    [
        ("hey_csv", hey_csv(), 4, True),
        ("h2load_log", h2load_log(), 4, True),
        ("ab_gnuplot", ab_g(), 0, True),
        ("k6_csv", k6_csv(), 4, False),
        ("jmeter_jtl", jtl(), 4, False),
    ],
)
def test_requests_become_samples(tmp_path, format, text, failed, asks_more):
    (tmp_path / "x.csv").write_bytes(gzip.compress(text.encode()))
    [reading] = read(tmp_path / "x.csv").readings
    assert (reading.format, reading.asked, reading.failed, len(reading.samples)) == (format, 400, failed, 400 - failed)
    assert reading.values["latency_p50_s"] == pytest.approx(0.022, abs=6e-4)
    assert any(fault.code == "failures_not_stated" for fault in reading.faults) == asks_more
    if format == "h2load_log":
        assert reading.duration_s == pytest.approx(39.9 + 0.02399) and reading.values["requests_per_s"] == pytest.approx(396 / 39.924, rel=1e-3)
    if format in ("k6_csv", "ab_gnuplot"):
        assert "requests_per_s" not in reading.values, "whole seconds give no rate"


# -- refused ----------------------------------------------------------------------------------

OTHER = {
    "ab's table": "Percentage served,Time in ms\n0,15.320\n1,17.287\n",
    "Locust's list of failures": "Method,Name,Error,Occurrences,First Seen,Last Seen\nPOST,/p,x,11,a,b\n",
    "Locust's list of exceptions": "Count,Message,Traceback,Nodes\n",
    "what Locust prints": "Type     Name       # reqs      # fails |    Avg\n--------|---\n",
    "what Artillery prints": "All VUs finished. Total time: 9 seconds\n\nSummary report @ 20:51:15(+0000)\n",
    "what k6 prints": "  execution: local\n     http_req_duration..............: avg=130.19ms min=130.19ms med=130.19ms\n",
    "vegeta's histogram": "Bucket           #     %       Histogram\n[0s,     10ms]   2  100.00%\n",
}


@pytest.mark.parametrize("what", OTHER)
def test_what_cannot_be_used_says_what_to_export(tmp_path, what):
    (tmp_path / "x.txt").write_text(OTHER[what])
    with pytest.raises(BadRecord, match=f"{what}.*cannot be used.*next: ") as said:
        read(tmp_path / "x.txt")
    assert "\n" not in str(said.value)
    assert len(REFUSED) >= len(OTHER)


def test_a_binary_of_vegeta_is_named():
    head = (
        b"\x5a\xff\x81\x03\x01\x01\x06Result\x01\xff\x82\x00\x01\x0b\x01\x06Attack\x01\x0c\x00\x01\x08BytesOut\x01\x06\x00\x01\x07Latency\x01\x04\x00"
    )
    assert refused(head)[1].startswith("vegeta encode")
