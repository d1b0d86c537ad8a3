"""Files as teams have them: several at once, packed, from dashboards and gateways, with times as spreadsheets write them. What is right is known from making them."""

from __future__ import annotations

import gzip
import json
from datetime import datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from neuronfit import traffic
from neuronfit.errors import BadInput
from neuronfit.traffic import reading, series, times

START = datetime(2024, 5, 13, 9, 0, 4, tzinfo=timezone.utc)
rng = np.random.default_rng(11)
SECONDS = np.unique(np.round(np.cumsum(rng.exponential(5.0, 400)), 3))
COUNT, SPAN = len(SECONDS), float(SECONDS[-1] - SECONDS[0])
TOKENS = [(int(a), int(b)) for a, b in zip(rng.integers(50, 4000, COUNT), rng.integers(1, 700, COUNT))]
MOMENTS = [START + timedelta(milliseconds=round(1000 * second)) for second in SECONDS]
STATUS = [503 if number % 50 == 0 else 200 for number in range(COUNT)]
MINUTES = [START.replace(second=0) + timedelta(minutes=number) for number in range(60)]
PER_MINUTE = [int(count) for count in rng.poisson(300, 60)]


def opened(path, **options):
    with traffic.open_trace(path, **options) as trace:
        said = traffic.summarise(trace)
        return said, {finding.code: finding for finding in traffic.findings(trace, said)}


def read(tmp_path, text, name="trace.dat", **options):
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode("utf-8"))
    return opened(path, **options)


def milli(moment):
    return moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{moment.microsecond // 1000:03d}"


def clf(moment):
    return moment.strftime("%d/%b/%Y:%H:%M:%S +0000")


def line(number):
    return f'10.0.0.7 - - [{clf(MOMENTS[number])}] "POST /v1/predict?x={number} HTTP/1.1" {STATUS[number]} 12 "-" "curl/8.5.0"'


def table(write, first=0, last=COUNT, header="timestamp,input_tokens,output_tokens"):
    return header + "\n" + "".join(f"{write(MOMENTS[n])},{TOKENS[n][0]},{TOKENS[n][1]}\n" for n in range(first, last))


def jsonl(write):
    return "".join(json.dumps(write(number)) + "\n" for number in range(COUNT))


def is_the_trace(said, whole_seconds=False, tokens=True, shift=0.0, at=None):
    moments = [moment.replace(microsecond=0) for moment in MOMENTS] if whole_seconds else MOMENTS
    stamps = [moment.timestamp() + shift for moment in moments]
    assert said.requests == COUNT and said.span_s == pytest.approx(stamps[-1] - stamps[0], abs=2e-3)
    assert datetime.fromisoformat(said.start).timestamp() == pytest.approx(stamps[0], abs=2e-3)
    assert said.peak_per_s == pytest.approx(np.bincount([int(stamp // 60 - stamps[0] // 60) for stamp in stamps]).max() / 60)
    if tokens:
        assert said.input_tokens.mean == pytest.approx(np.mean([each for each, _ in TOKENS]))
        assert said.output_tokens.mean == pytest.approx(np.mean([each for _, each in TOKENS]))


# -- several files, packed files ----------------------------------------------------------------


def test_a_folder_by_date_and_a_pattern_are_one_trace(tmp_path):
    for day, (first, last) in (("dt=2024-05-13", (0, 100)), ("dt=2024-05-14", (100, COUNT))):
        (tmp_path / "t" / day).mkdir(parents=True)
        (tmp_path / "t" / day / "part-0.csv").write_text(table(lambda m: milli(m) + "Z", first, last))
    (tmp_path / "t" / "_SUCCESS").write_text("")
    (tmp_path / "t" / "dt=2024-05-14" / ".part-0.csv.crc").write_text("x")
    is_the_trace(opened(tmp_path / "t")[0])
    is_the_trace(opened(tmp_path / "t" / "dt=2024-05-13" / "..")[0])
    for number, (first, last) in enumerate(((0, 9), (9, COUNT))):
        (tmp_path / f"r-{number}.csv").write_text(table(lambda m: milli(m) + "Z", first, last))
    said, found = opened(tmp_path / "r-*.csv")
    is_the_trace(said)
    assert "trace_unsorted" not in found


def test_rotated_logs_of_which_some_are_packed(tmp_path):
    for name, first, last in (("access.log.2.gz", 0, 50), ("access.log.1", 50, 300), ("access.log", 300, COUNT)):
        text = "".join(line(number) + "\n" for number in range(first, last)).encode()
        (tmp_path / name).write_bytes(gzip.compress(text) if name.endswith("gz") else text)
    said, _ = opened(tmp_path)
    is_the_trace(said, whole_seconds=True, tokens=False)
    assert said.error_fraction == pytest.approx(8 / COUNT)
    assert said.sha256 != opened(tmp_path / "access.log")[0].sha256


def test_files_of_different_form_are_refused_with_their_name(tmp_path):
    (tmp_path / "a.csv").write_text(table(lambda m: milli(m) + "Z"))
    (tmp_path / "b.csv").write_text(table(lambda m: milli(m) + "Z", header="timestamp,output_tokens,input_tokens"))
    with pytest.raises(BadInput, match=r"different form.*b\.csv"):
        opened(tmp_path)


def test_zstd(tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    packed = pyarrow.compress(table(lambda m: milli(m) + "Z").encode(), codec="zstd", asbytes=True)
    is_the_trace(read(tmp_path, packed)[0])


def test_parquet_with_columns_inside_a_structure(tmp_path):
    pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    usage = pyarrow.array([{"prompt_tokens": a, "completion_tokens": b} for a, b in TOKENS])
    stamps = pyarrow.array([round(moment.timestamp() * 1000) * 10**6 for moment in MOMENTS], type=pyarrow.timestamp("ns", tz="Europe/Berlin"))
    parquet.write_table(pyarrow.table({"usage": usage, "time": stamps}), tmp_path / "t.parquet")
    said, found = opened(tmp_path / "t.parquet")
    is_the_trace(said)
    assert "trace_zone_unknown" not in found


# -- exports of gateways and observability tools ------------------------------------------------


@pytest.mark.parametrize("member, names", [("usage_details", ("input", "output")), ("usage", ("prompt_tokens", "completion_tokens"))])
def test_token_columns_inside_an_object(tmp_path, member, names):
    text = jsonl(lambda n: {"start_time": milli(MOMENTS[n]).replace("T", " "), member: dict(zip(names, TOKENS[n])), "input": "a text"})
    said, found = read(tmp_path, text)
    is_the_trace(said)
    assert "input" in found["trace_private"].because


def test_token_columns_with_num_at_the_end(tmp_path):
    is_the_trace(read(tmp_path, table(lambda m: f"{m.timestamp():.3f}", header="timestamp,input_token_num,output_token_num"))[0])


def test_a_response_length_of_a_gateway_is_no_number_of_tokens(tmp_path):
    text = jsonl(
        lambda n: {"requestTimeEpoch": str(round(MOMENTS[n].timestamp() * 1000)), "httpMethod": "POST", "status": "200", "responseLength": "33"}
    )
    said, found = read(tmp_path, text)
    is_the_trace(said, tokens=False)
    assert said.output_tokens is None and "trace_no_lengths" in found


def test_an_answer_of_an_api_with_the_list_inside(tmp_path):
    rows = [{"timestamp": milli(m) + "Z", "input_tokens": a, "output_tokens": b} for m, (a, b) in zip(MOMENTS, TOKENS)]
    for text in (json.dumps({"data": rows, "total": COUNT}), json.dumps({"object": "list", "meta": {"page": 1}, "items": rows}, indent=1)):
        is_the_trace(read(tmp_path, text)[0])


def _export(*spans):
    return json.dumps({"resourceSpans": [{"resource": {}, "scopeSpans": [{"scope": {}, "spans": list(spans)}]}]})


def _span(number, kind, **attributes):
    start = round(MOMENTS[number].timestamp() * 1000) * 10**6
    told = [
        {"key": key, "value": {"intValue": str(value)} if isinstance(value, int) else {"stringValue": value}} for key, value in attributes.items()
    ]
    return {"name": "x", "kind": kind, "startTimeUnixNano": str(start), "endTimeUnixNano": str(start + 250_000_000), "attributes": told}


def test_spans_of_which_some_are_requests(tmp_path):
    served = {"http.request.method": "POST", "http.route": "/predict"}
    parts = [
        (_span(n, 2, **served, **{"http.response.status_code": STATUS[n]}), _span(n, 3, **{"db.system": "redis"}), _span(n, 1)) for n in range(COUNT)
    ]
    for text in (
        "".join(_export(*each) + "\n" for each in parts),
        json.dumps(json.loads(_export(*(span for each in parts for span in each))), indent=1),
    ):
        said, found = read(tmp_path, text)
        is_the_trace(said, tokens=False)
        assert (said.format, said.rows, said.endpoints) == ("otlp", 3 * COUNT, {"POST /predict": COUNT})
        assert said.error_fraction == pytest.approx(8 / COUNT) and said.latency_s["p50"] == 0.25
        assert f"{2 * COUNT:,} of {3 * COUNT:,} spans are not requests at a server" in found["trace_spans"].because


def test_spans_with_tokens_are_calls_of_a_model(tmp_path):
    def calls(number):
        tokens = {"gen_ai.usage.input_tokens": TOKENS[number][0], "gen_ai.usage.output_tokens": TOKENS[number][1]}
        return _export(_span(number, 2), _span(number, 3, **tokens))

    said, found = read(tmp_path, "".join(calls(number) + "\n" for number in range(COUNT)))
    is_the_trace(said)
    assert "calls of a model" in found["trace_spans"].because
    with pytest.raises(BadInput, match="neither requests at a server nor calls of a model"):
        read(tmp_path, "".join(_export(_span(number, 1)) + "\n" for number in range(COUNT)))


def test_caddy_writes_at_the_end(tmp_path):
    text = jsonl(
        lambda n: {
            "logger": "http.log.access.log0",
            "ts": round(MOMENTS[n].timestamp() + 2.5, 3),
            "request": {"method": "POST", "uri": "/predict", "headers": {"Authorization": ["Bearer sk-1"]}},
            "duration": 2.5,
            "status": 200,
        }
    )
    said, found = read(tmp_path, text)
    is_the_trace(said, tokens=False)
    assert "trace_time_is_answer" in found and said.latency_s["p50"] == 2.5


def test_captured_data_may_be_a_sample(tmp_path):
    text = jsonl(
        lambda n: {"captureData": {"endpointInput": {"data": "x"}}, "eventMetadata": {"inferenceTime": MOMENTS[n].strftime("%Y-%m-%dT%H:%M:%SZ")}}
    )
    said, found = read(tmp_path, text)
    is_the_trace(said, whole_seconds=True, tokens=False)
    assert "InitialSamplingPercentage" in found["trace_sampled"].because


# -- lines with something in front --------------------------------------------------------------

PREFIXES = {
    "kubectl logs --prefix": lambda n: f"[pod/ingress-nginx-6d/controller] {line(n)}",
    "container runtime": lambda n: f"{milli(MOMENTS[n])}123456Z stdout F {line(n)}",
    "docker": lambda n: json.dumps({"log": line(n) + "\n", "stream": "stdout", "time": milli(MOMENTS[n]) + "Z"}),
    "docker, no blanks": lambda n: json.dumps({"log": line(n) + "\n", "stream": "stdout"}, separators=(",", ":")),
}


@pytest.mark.parametrize("how", PREFIXES)
def test_access_logs_that_something_else_carries(tmp_path, how):
    said, found = read(tmp_path, "".join(PREFIXES[how](number) + "\n" for number in range(COUNT)))
    is_the_trace(said, whole_seconds=True, tokens=False)
    assert said.error_fraction == pytest.approx(8 / COUNT) and said.endpoints == {"POST /v1/predict": COUNT}
    assert said.format == "access_log" and "trace_private" in found


def test_a_log_of_an_application_with_a_date_in_front(tmp_path):
    text = "".join(
        f'{milli(m).replace("T", " ").replace(".", ",")} INFO: 10.0.0.1:5{n:03d} - "POST /v1/completions HTTP/1.1" {STATUS[n]} OK\n'
        for n, m in enumerate(MOMENTS)
    )
    said, found = read(tmp_path, text)
    is_the_trace(said, tokens=False)
    assert said.format == "app_log" and said.error_fraction == pytest.approx(8 / COUNT) and "trace_zone_unknown" in found


def test_a_level_may_stand_before_the_date(tmp_path):
    text = "".join(f'INFO:     {m:%Y-%m-%d %H:%M:%S} 127.0.0.1:{n} - "POST /generate HTTP/1.1" {STATUS[n]} OK\n' for n, m in enumerate(MOMENTS))
    said, _ = read(tmp_path, text)
    is_the_trace(said, whole_seconds=True, tokens=False)
    assert said.endpoints == {"POST /generate": COUNT}


def test_squid_writes_at_the_end(tmp_path):
    text = "".join(
        f"{m.timestamp() + 0.25:.3f}    250 10.0.0.1 TCP_MISS/{STATUS[n]} 900 POST http://x.test/p - HIER_DIRECT/1.1.1.1 -\n"
        for n, m in enumerate(MOMENTS)
    )
    said, _ = read(tmp_path, text)
    is_the_trace(said, tokens=False)
    assert said.latency_s["p50"] == 0.25 and said.error_fraction == pytest.approx(8 / COUNT)


def test_fields_that_change_inside_a_log_are_refused(tmp_path):
    head, other = "#Fields: date time cs-method cs-uri-stem sc-status time-taken\n", "#Fields: date time sc-status time-taken\n"
    rows = "2024-05-13 09:00:00 POST /p 200 15\n" * 3
    with pytest.raises(BadInput, match="Fields change"):
        read(tmp_path, head + rows + other + "2024-05-13 09:00:00 200 15\n")
    assert read(tmp_path, head + rows + head + "2024-05-13 09:00:09 POST /p 200 15\n")[0].requests == 4


ODD = [
    r'1.2.3.4 - - [13/May/2024:09:00:00 +0000] "GET /a\"b HTTP/1.1" 404 1 "-" "x"',
    '1.2.3.4 - - [13/May/2024:09:00:01 +0000] "-" 408 0 "-" "-"',
    r'1.2.3.4 - - [13/May/2024:09:00:03 +0000] "\x16\x03\x01" 400 0 "-" "-"',
    '1.2.3.4 - - [13/May/2024:11:00:04 +0200] "POST http://h.example/p?x=1 HTTP/1.1" 200 0 "-" "kube-probe/1.27"',
    '1.2.3.4 - - [13/May/2024:01:30:05 -0730] "GET /' + "a" * 300 + ' HTTP/1.1" 500 0 "-" "curl"',
    r'1.2.3.4 - - [13/May/2024:09:00:06 +0000] "GET /ok HTTP/1.1" 200 0 "-" "Mozilla \"odd\" agent"',
    '1.2.3.4 - - [13/May/2024:09:00:07] "GET /nozone HTTP/1.1" 200 0 "-" "-"',
    '1.2.3.4 - "q" [13/May/2024:09:00:08 +0000] "GET /quoted-user HTTP/1.1" 201 0 "-" "-"',
    '1.2.3.4 - - [13/May/2024:09:00:09 +0000] "GET /q="204" HTTP/1.1" 200 0 "-" "-"',
    "# a comment",
    "",
    'nonsense "with quotes"',
    '1.2.3.4 - - [31/Feb/2024:09:00:12 +0000] "GET /s HTTP/1.1" 200 0 "-" "-"',
]


def test_odd_lines_are_read_one_by_one_and_the_rest_fast(tmp_path, monkeypatch):
    usual = [line(number) for number in range(COUNT)]
    path = tmp_path / "access.log"
    path.write_text("\n".join([*usual[:250], *ODD, *usual[250:]]) + "\n")
    ways, fill = [], reading.Trace._fill
    monkeypatch.setattr(reading.Trace, "_fill", lambda self, fast: ways.append(fast) or fill(self, fast))
    with traffic.open_trace(path) as trace:
        assert ways == [True] and trace.layout.parts == 7
        assert (trace.rows, trace.unreadable, trace.health_checks) == (COUNT + 11, 2, 1)
        assert trace.offsets == {0: COUNT + 6, -450: 1, None: 1}
        rows = {
            path: (t - round(START.timestamp() - 4) * 10**6, status)
            for path, t, status in trace.sql("SELECT p, t, s FROM rows WHERE p NOT LIKE '%predict'")
        }
        asked = {"GET /a": (0, 404), "GET /ok": (6_000_000, 200), "GET /nozone": (7_000_000, 200), "GET /quoted-user": (8_000_000, 201)}
        asked["GET /q="] = (9_000_000, None)
        assert rows == {**asked, "GET /" + "a" * 195: (5_000_000, 500)}
        assert sorted(trace.sql("SELECT s FROM rows WHERE p IS NULL")) == [(400,), (408,)]


# -- numbers per period --------------------------------------------------------------------------


def counted(said, per_s=None):
    total = sum(PER_MINUTE)
    assert said.kind == "counts" and said.requests == pytest.approx(total, rel=1e-4) and said.span_s == 3600
    assert said.peak_per_s == pytest.approx(max(PER_MINUTE) / 60, rel=1e-3) and said.mean_per_s == pytest.approx(total / 3600, rel=1e-4)


def test_a_metric_stream_is_read_once_for_each_request(tmp_path):
    def point(name, dimensions, minute, number, calls):
        value = {"count": calls, "sum": number, "max": 1.0, "min": 0.0}
        return {
            "namespace": "AWS/ApplicationELB",
            "metric_name": name,
            "dimensions": dimensions,
            "timestamp": round(minute.timestamp() * 1000),
            "value": value,
        }

    alone, zones = {"LoadBalancer": "app/llm/1"}, [{"LoadBalancer": "app/llm/1", "AvailabilityZone": zone} for zone in ("a", "b")]
    points = []
    for minute, count in zip(MINUTES, PER_MINUTE):
        points += [point("TargetResponseTime", alone, minute, 9.5, float(count)), point("RequestCount", alone, minute, float(count), 3.0)]
        points += [point("RequestCount", zone, minute, count / 3, 2.0) for zone in zones]
    counted(read(tmp_path, "".join(json.dumps(each) + "\n" for each in points))[0])


DASHBOARDS = {
    "a count under a query": ("time,count(trace.http.request.hits{service:llm}.as_count())", lambda m, c: f"{m:%Y-%m-%dT%H:%M:%SZ},{c}"),
    "a rate with its unit": ('"Time","sum(rate(vllm:request_success_total[1m]))"', lambda m, c: f"{m:%Y-%m-%d %H:%M:%S},{c / 60:.5f} req/s"),
    "two codes in two columns": ('"Time","{code=""200""}","{code=""503""}"', lambda m, c: f"{round(m.timestamp() * 1000)},{c - 3},3"),
    "thousands with a K": ("Time,requests per minute as_count", lambda m, c: f"{m:%Y-%m-%d %H:%M:%S},{c / 1000:.3f} K"),
    "beginning and end": ("beginTimeSeconds,endTimeSeconds,count", lambda m, c: f"{m.timestamp():.0f},{m.timestamp() + 60:.0f},{c}"),
}


@pytest.mark.parametrize("how", DASHBOARDS)
def test_a_number_for_each_minute_is_not_one_request_each(tmp_path, how):
    header, write = DASHBOARDS[how]
    said, found = read(tmp_path, header + "\n" + "".join(write(m, c) + "\n" for m, c in zip(MINUTES, PER_MINUTE)))
    counted(said)
    assert "trace_counts_only" in found


def test_a_metric_that_counts_no_requests_is_refused(tmp_path):
    for header in ("time,p99 latency", "Time,GPU utilization", "time,my_metric"):
        with pytest.raises(BadInput, match="no name says that it counts requests"):
            read(tmp_path, header + "\n" + "".join(f"{m:%Y-%m-%d %H:%M:%S},{c / 7:.3f}\n" for m, c in zip(MINUTES, PER_MINUTE)))


def test_sums_of_tokens_in_a_usage_report_are_no_lengths(tmp_path):
    rows = [(START.replace(hour=hour % 24, day=13 + hour // 24, second=0), 100 + hour % 24) for hour in range(72)]
    text = "hour,requests,input_tokens,output_tokens\n" + "".join(f"{m:%Y-%m-%d %H:00},{c},{c * 900},{c * 80}\n" for m, c in rows)
    said, found = read(tmp_path, text)
    assert (said.kind, said.requests, said.span_s, said.input_tokens) == ("counts", sum(c for _, c in rows), 72 * 3600, None)
    assert "trace_counter" not in found


def test_even_times_alone_are_no_metric():
    even = [60.0 * number for number in range(50)]
    assert series.chosen(["model"], {"model": ["a"] * 50}, even, "f") is None
    assert series.chosen(["requests_seen"], {"requests_seen": ["5"] * 50}, list(SECONDS[:50]), "f") is None
    assert series.chosen(["hits"], {"hits": ["5"] * 50}, [60.0 * (number // 25) for number in range(50)], "f") is None
    assert series.chosen(["hits"], {"hits": ["5"] * 50}, even, "f") == ("count", ["hits"], False)


# -- times ----------------------------------------------------------------------------------------

SPREADSHEETS = {
    "two digits of a year": lambda m: m.strftime("%d.%m.%y %H:%M:%S"),
    "ctime": lambda m: m.strftime("%a %b %d %H:%M:%S %Y"),
    "compact": lambda m: m.strftime("%Y%m%d%H%M%S"),
    "RFC 2822": lambda m: m.strftime('"%a, %d %b %Y %H:%M:%S +0000"'),
    "month first": lambda m: m.strftime('"%b %d, %Y @ %H:%M:%S.000"'),
    "month in full": lambda m: m.replace(month=3).strftime('"%B %d, %Y %I:%M:%S %p"'),
}


@pytest.mark.parametrize("how", SPREADSHEETS)
def test_times_as_programs_print_them(tmp_path, how):
    said, found = read(tmp_path, table(SPREADSHEETS[how]))
    shift = (MOMENTS[0].replace(month=3) - MOMENTS[0]).total_seconds() if how == "month in full" else 0.0
    is_the_trace(said, whole_seconds=True, shift=shift)
    assert ("trace_zone_unknown" in found) == (how != "RFC 2822")


def test_days_of_a_spreadsheet(tmp_path):
    text = table(lambda m: f"{m.timestamp() / 86400 + 25569:.9f}")
    said, found = read(tmp_path, text)
    is_the_trace(said)
    assert "days since 1900" in found["trace_serial_days"].because
    assert read(tmp_path, text, time_unit="s")[0].span_s == pytest.approx(SPAN / 86400, abs=1e-6)
    assert times.forms_of(["40000.5", "41000.25", "42000.125"])[0].kind == "number"


def test_a_day_in_eight_digits_is_no_number_of_seconds(tmp_path):
    text = "date,requests\n" + "".join(f"202405{day:02d},{1000 + day % 7}\n" for day in range(1, 31))
    said, _ = read(tmp_path, text)
    assert said.kind == "counts" and said.span_s == 30 * 86_400 and said.requests == sum(1000 + day % 7 for day in range(1, 31))
    assert times.forms_of(["20240513", "7", "99"]) == (times.Form("number"),)


def test_both_hours_of_the_night_on_which_the_clock_is_set_back(tmp_path):
    moments = [datetime(2024, 10, 26, 23, tzinfo=timezone.utc) + timedelta(seconds=20 * number) for number in range(1080)]
    texts = [moment.astimezone(ZoneInfo("Europe/Berlin")).strftime("%Y-%m-%d %H:%M:%S") for moment in moments]
    text = "timestamp,input_tokens\n" + "".join(f"{each},{100 + number % 7}\n" for number, each in enumerate(texts))
    said, found = read(tmp_path, text, timezone="Europe/Berlin")
    assert said.span_s == 1079 * 20 and said.peak_per_s == 3 / 60 and "trace_gap" not in found
    assert "told apart" in found["trace_clock_change"].because and "cannot" not in found["trace_clock_change"].because
    mixed = "timestamp,input_tokens\n" + "".join(f"{each},{100 + number}\n" for number, each in enumerate(sorted(texts)))
    assert "cannot be told apart" in read(tmp_path, mixed, timezone="Europe/Berlin")[1]["trace_clock_change"].because


def test_times_in_the_future_are_said(tmp_path):
    later = table(lambda m: milli(m + timedelta(days=365 * 80)) + "Z")
    assert "2104" in read(tmp_path, later)[1]["trace_future"].because
    assert "trace_future" not in read(tmp_path, table(lambda m: milli(m) + "Z"))[1]
