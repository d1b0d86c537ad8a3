"""Logs of proxies, durations without a unit, rarer ways of writing times and numbers, and files that are no traffic."""

from __future__ import annotations

import json
from datetime import datetime, timedelta, timezone

import pytest
from neuronfit import traffic
from neuronfit.errors import BadInput
from neuronfit.traffic import columns, server_logs

MONDAY = datetime(2026, 11, 16, 8, 0, 0, 250_000, tzinfo=timezone.utc)
EVERY_S, COUNT = 2.0, 300
TIMES = [MONDAY + timedelta(seconds=EVERY_S * number) for number in range(COUNT)]


def read(tmp_path, text, **options):
    path = tmp_path / "trace.txt"
    path.write_text(text, encoding="utf-8")
    with traffic.open_trace(path, **options) as trace:
        said = traffic.summarise(trace)
        return said, {finding.code: finding for finding in traffic.findings(trace, said)}, trace.layout.format


def lines(write):
    return "".join(write(stamp, number) + "\n" for number, stamp in enumerate(TIMES))


def jsonl(write):
    return lines(lambda stamp, number: json.dumps(write(stamp, number)))


def milli(stamp):
    return stamp.strftime("%Y-%m-%dT%H:%M:%S.") + f"{stamp.microsecond // 1000:03d}Z"


def clf(stamp):
    return stamp.strftime("%d/%b/%Y:%H:%M:%S")


LOGS = {
    "envoy": lambda t, n: f'[{milli(t)}] "POST /v1/predict?x={n} HTTP/1.1" 200 - 512 1024 250 240 "-" "curl/8" "id-{n}" "svc" "10.0.0.2:80"',
    "envoy, as Istio has it": lambda t, n: (
        f'[{milli(t)}] "POST /v1/predict HTTP/2" 200 - via_upstream - "-" 512 1024 250 240 "-" "curl/8" "id" "svc" "x"'
    ),
    "haproxy": lambda t, n: (
        f"Nov 16 09:59:59 lb haproxy[1]: 10.0.0.1:{n} [{clf(t)}.{t.microsecond // 1000:03d}] fe be/srv1 0/0/1/249/250 200 512 - - ---- 1/1/0/0/0 0/0 "
        '"POST /v1/predict HTTP/1.1"'
    ),
    "s3": lambda t, n: (
        f'{"ab" * 32} bucket [{clf(t)} +0000] 192.0.2.3 - 3E57 REST.GET.OBJECT a/key "GET /v1/predict HTTP/1.1" 200 - 113 113 250 6 "-" "curl/8" -'
    ),
}


@pytest.mark.parametrize("name", LOGS)
def test_logs_of_proxies(tmp_path, name):
    """300 requests, one every 2 s, of 250 ms each: 299 gaps are 598 s."""
    said, _, form = read(tmp_path, lines(LOGS[name]))
    assert form == name.split(",")[0] in server_logs.LINES
    assert said.requests == COUNT and said.span_s == pytest.approx(EVERY_S * (COUNT - 1))
    assert said.latency_s["p50"] == pytest.approx(0.25) and said.error_fraction == 0
    assert list(said.endpoints) == [("GET" if form == "s3" else "POST") + " /v1/predict"]
    assert said.start.startswith("2026-11-16T08:00:00." + ("000" if form == "s3" else "250"))


def test_a_log_of_a_proxy_keeps_only_what_is_asked_for(tmp_path):
    said, _, _ = read(
        tmp_path, lines(lambda t, n: LOGS["envoy"](t, n).replace("/v1/predict", "/health" if n % 3 else "/v1/predict")), only="POST /v1/predict"
    )
    assert said.requests == COUNT // 3


def test_traefik_counts_nanoseconds_from_the_start_of_the_request(tmp_path):
    said, found, _ = read(
        tmp_path,
        jsonl(lambda t, n: {"Duration": 250_000_000, "OriginDuration": 240_000_000, "StartUTC": milli(t), "time": milli(t + timedelta(seconds=5))}),
    )
    assert said.start.startswith("2026-11-16T08:00:00.250") and said.latency_s["p50"] == pytest.approx(0.25) and "trace_duration_unit" not in found


def test_a_duration_without_a_unit_is_read_by_its_size_and_said(tmp_path):
    said, found, _ = read(tmp_path, jsonl(lambda t, n: {"start_time": milli(t), "method": "POST", "path": "/p", "duration": 240 + n % 20}))
    assert said.latency_s["p50"] == pytest.approx(0.25, abs=0.01) and "read as ms" in found["trace_duration_unit"].because


@pytest.mark.parametrize(
    ("name", "values", "beside", "expected"),
    [
        ("duration", ("250", "260", "19"), (), (1e-3, "ms")),
        ("duration", ("0.25", "1.5"), (), (1.0, None)),
        ("duration", ("2", "3", "4"), (), (1.0, None)),
        ("duration", ("900000", "800000"), (), (1e-6, "us")),
        ("duration", ("250000000",), (), (1e-9, "ns")),
        ("Duration", ("250",), ("OriginDuration",), (1e-9, None)),
        ("duration_ms", ("250",), (), (1e-3, None)),
        ("duration_s", ("250",), (), (1.0, None)),
    ],
)
def test_units_of_durations(name, values, beside, expected):
    assert columns.latency_unit(name, values, beside) == expected


@pytest.mark.parametrize(
    "write",
    [
        lambda t: t.strftime("%G-W%V-%u") + t.strftime("T%H:%M:%SZ"),
        lambda t: t.strftime("%d.%m.%Y %H:%M:%S") + f",{t.microsecond // 1000:03d}",
        lambda t: f"{t.timestamp():.3f}".replace(".", ","),
    ],
    ids=("ISO week", "German", "epoch with a comma"),
)
def test_times_with_commas_and_weeks(tmp_path, write):
    text = "timestamp;prompt_tokens\n" + "".join(f"{write(t)};{n + 1}\n" for n, t in enumerate(TIMES))
    said, _, _ = read(tmp_path, text)
    assert said.requests == COUNT and said.span_s == pytest.approx(598, abs=0.01) and said.start.startswith("2026-11-16T08:00:00")


def test_a_table_with_german_names_and_numbers(tmp_path):
    text = "Zeitstempel;Eingabe-Tokens;Ausgabe-Tokens;Dauer (s)\n" + "".join(
        f"{t:%d.%m.%Y %H:%M:%S};1.5{n % 10}0;12,0;0,25\n" for n, t in enumerate(TIMES)
    )
    said, _, _ = read(tmp_path, text)
    assert said.input_tokens.mean == pytest.approx(1545) and said.output_tokens.mean == 12


def test_a_name_that_holds_dots_is_found_inside_an_object(tmp_path):
    said, _, _ = read(
        tmp_path, jsonl(lambda t, n: {"start_time": milli(t), "attributes": {"gen_ai.usage.input_tokens": 100, "gen_ai.usage.output_tokens": 7}})
    )
    assert said.input_tokens.mean == 100 and said.output_tokens.mean == 7


def test_an_hour_that_was_hardly_recorded_has_no_rate(tmp_path):
    """Two requests in the last half second before nine are no 4 requests a second of that hour."""
    nine = MONDAY.replace(hour=9, microsecond=0)
    stamps = [nine - timedelta(seconds=0.5), nine - timedelta(seconds=0.25), *(nine + timedelta(seconds=10 * number) for number in range(200))]
    said, _, _ = read(tmp_path, "timestamp\n" + "".join(f"{milli(t)}\n" for t in stamps))
    assert said.hour_of_day_per_s[8] is None and said.hour_of_day_per_s[9] == pytest.approx(0.1, rel=0.02)


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("timestamp, index, utilization.gpu [%], memory.used [MiB]\n2026/11/16 08:00:00.000, 0, 5 %, 10 MiB\n", "nvidia-smi"),
        (json.dumps({"neuron_runtime_data": [], "system_data": {}}) + "\n", "neuron-monitor"),
        ('DCGM_FI_DEV_GPU_UTIL{gpu="0"} 12\n', "GPU exporter"),
        ("# HELP requests_total all\n# TYPE requests_total counter\nrequests_total 5\n", "scrape"),
        (json.dumps({"resourceSpans": [{"scopeSpans": []}]}) + "\n", "OpenTelemetry"),
        (json.dumps({"date": "20261116-080000", "request_throughput": 5.0, "input_lens": [1]}), "benchmark"),
        ('INFO:     10.0.0.1:5 - "POST /p HTTP/1.1" 200 OK\n', "uvicorn"),
        ("".join(f"2026-11-16 08:00:0{n} INFO compiling part {n}\n" for n in range(9)), "log of a program"),
        ("2026-Nov-16 08:00:00.1 5:5 ERROR  NRT:nrt_load  failed\n", "runtime"),
        (json.dumps({"architectures": ["A"], "hidden_size": 5}), "configuration"),
        ("time,BilledCost\n2026-11-16T08:00:00Z,5\n", "costs"),
        ("Model,Sequence Length,Throughput (inference/second)\nbert,128,5\n", "results"),
        (json.dumps({"start": "2026-11-16T08:00:00Z", "tokens": 5}, indent=1), "one JSON object"),
        ("$ neuron-ls\ninstance-type: trn2.48xlarge\n| NEURON |\n", "neuron-ls"),
        (json.dumps([{"neuron_device": 0, "bdf": "00:1e.0", "nc_count": 2}]), "neuron-ls"),
        ('neuroncore_utilization_ratio{neuroncore="15"} 0.0\n' * 3, "neuron-monitor"),
        ("# gpu    pwr  gtemp     sm    mem\n# Idx      W      C      %      %\n    0    631     63    100     10\n", "nvidia-smi"),
        ("NVIDIA-SMI version  : 610.62\nNVML version        : 610.62\n", "nvidia-smi"),
        ("nrt_tensor_allocate status=2\n", "runtime"),
        (json.dumps({"instance": "p5", "predicted": 2.0, "measured": 1.9, "date": "2026-06-14"}) + "\n", "results"),
        ("date,model,tokens\n" + "2026-06-14,a,5\n" * 3, "days without a time of day"),
        ("lineItem/UsageStartDate,lineItem/UnblendedCost\n2026-11-16T08:00:00Z,0.5\n", "costs"),
        ("2026/11/16 08:00:00.000, 0, 5 %, 10 MiB\n" * 3, "nvidia-smi"),
        ('TDRV: no device\n$ neuron-monitor\n{"neuron_runtime_data":[]', "runtime"),
    ],
)
def test_what_is_no_traffic_is_named(tmp_path, text, what):
    with pytest.raises(BadInput) as refused:
        read(tmp_path, text)
    assert what in refused.value.what and refused.value.next and "\n" not in str(refused.value)


def test_a_count_for_each_day_is_traffic(tmp_path):
    """86,400 a day are one a second."""
    said, _, _ = read(tmp_path, "date,requests\n" + "".join(f"2026-11-{day:02d},86400\n" for day in range(2, 16)))
    assert said.mean_per_s == pytest.approx(1.0)


def test_a_log_with_levels_and_requests_is_traffic_and_a_format_that_is_given_is_believed(tmp_path):
    said, _, _ = read(tmp_path, lines(lambda t, n: f'{milli(t)} INFO "POST /v1/predict HTTP/1.1" 200'))
    assert said.requests == COUNT
    said, _, _ = read(tmp_path, jsonl(lambda t, n: {"time": milli(t), "hidden_size": n}), format="jsonl")
    assert said.requests == COUNT


@pytest.mark.parametrize("text", ["[" * 100_000, '{"a":' * 100_000])
def test_json_that_is_nested_without_end_is_refused_in_one_line(tmp_path, text):
    assert traffic.recognise(text.encode()) is None
    with pytest.raises(BadInput, match="neither one object per line"):
        read(tmp_path, text)
