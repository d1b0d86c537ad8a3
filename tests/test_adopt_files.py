"""Other tools' result files: right numbers, right units, and the finding that each known fault deserves.

Every file is made here, of the shape that the tool writes; the answers are worked out by hand.
"""

import gzip
import json
import math
from pathlib import Path

import pytest
from neuronfit.adopt import FORMATS, MODULES, Declared, read, read_all
from neuronfit.adopt.document import Document, marked, number, seconds_per
from neuronfit.adopt.free_tables import column
from neuronfit.adopt.reading import CODES, Fault, Reading
from neuronfit.errors import BadParams, BadRecord


def look(folder, name, content, **options):
    """Write a file and read it: its readings."""
    path = folder / name
    if isinstance(content, bytes):
        path.write_bytes(content)
    else:
        path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    declared = Declared.of(options.pop("declared", {}))
    return read(path, declared=declared, **options).readings


def codes(reading):
    return {fault.code for fault in reading.faults}


def because(reading, code):
    return " ".join(fault.because for fault in reading.faults if fault.code == code)


# -- numbers as people write them --------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1,099.26", 1099.26),
        ("1.099,26", 1099.26),
        ("12,5", 12.5),
        ("1,234", 1234.0),
        ("1,234,567", 1234567.0),
        ("78.98\\*", 78.98),
        ("380x", 380.0),
        ("95 %", 95.0),
        ("1 234,5", 1234.5),
        ("-0.5", -0.5),
        ("6.8e-10", 6.8e-10),
        ("$12.98", 12.98),
        ("N/A", None),
        ("nan", None),
        ("inf", None),
        ("", None),
        ("~1200", None),
        ("2048/4096", None),
        ("xxx.xx", None),
        ("8 4", None),
        ("2023-08-31", None),
        (True, None),
        (float("nan"), None),
        (7, 7.0),
    ],
)
def test_a_number_as_it_was_written(text, value):
    assert number(text) == value


def test_a_comma_is_decimal_where_the_file_says_so():
    assert (number("1,234", decimal_comma=True), number("1.234", decimal_comma=True)) == (1.234, 1234.0)


@pytest.mark.parametrize(
    ("cell", "kind"),
    [
        ("~1200", "approximate"),
        ("xxx.xx", "placeholder"),
        ("OOM", "failed"),
        ("FAIL", "failed"),
        ("2048/4096", "two values"),
        ("78.98\\*", "starred"),
        ("12", None),
    ],
)
def test_a_cell_that_is_no_plain_number_is_told_apart(cell, kind):
    assert marked(cell) == kind


def test_units_of_time():
    assert [seconds_per(unit) for unit in ("ms", "us", "ns", "s", "(ms)", "tokens")] == [1e-3, 1e-6, 1e-9, 1.0, 1e-3, None]


@pytest.mark.parametrize(
    ("header", "what"),
    [
        ("p50(ms)", ("latency_p50_s", 1e-3)),
        ("TTFT P99 (ms)", ("ttft_p99_s", 1e-3)),
        ("ITL p50 (ms)", ("itl_p50_s", 1e-3)),
        ("Mean Latency (s)", ("latency_mean_s", 1.0)),
        ("TTST p50 (ms)", ("", 1.0)),
        ("tok/s total", ("output_tokens_per_s", 1.0)),
        ("tok/s/user p50", ("user_tokens", 1.0)),
        ("tok/s per GPU", ("device_tokens", 1.0)),
        ("Req/s", ("requests_per_s", 1.0)),
        ("W/s", ("throughput_per_s", 1.0)),
        ("avg_prefill_tok_per_s", ("input_tokens_per_s", 1.0)),
        ("BS", ("batch_size", 1.0)),
        ("notes", ("", 1.0)),
    ],
)
def test_a_column_says_what_it_holds(header, what):
    assert column(header) == what


# -- vLLM and SGLang ---------------------------------------------------------------------------

SERVE = {
    "backend": "vllm",
    "model_id": "org/model-7b",
    "num_prompts": 1000,
    "request_rate": "inf",
    "max_concurrency": 20,
    "duration": 100.0,
    "completed": 1000,
    "failed": 0,
    "total_input_tokens": 512000,
    "total_output_tokens": 128000,
    "request_throughput": 10.0,
    "output_throughput": 1280.0,
    "total_token_throughput": 6400.0,
    "mean_ttft_ms": 90.0,
    "median_ttft_ms": 80.0,
    "p99_ttft_ms": 200.0,
    "mean_tpot_ms": 15.0,
    "median_tpot_ms": 14.9,
    "p99_tpot_ms": 17.0,
    "median_e2el_ms": 1990.0,
    "mean_e2el_ms": 1995.0,
    "p99_e2el_ms": 2400.0,
}


def serve(**changes):
    return {**SERVE, **changes}


def test_vllm_serve_is_read_in_seconds(tmp_path):
    """10/s x 1.995 s = 20 requests in flight, as many were kept."""
    [reading] = look(tmp_path, "a.json", SERVE)
    assert reading.values["ttft_p50_s"] == pytest.approx(0.080) and reading.values["latency_p99_s"] == pytest.approx(2.4)
    assert reading.values["throughput_per_s"] == reading.values["output_tokens_per_s"] == 1280.0
    assert reading.values["input_tokens_per_s"] == pytest.approx(5120.0) and reading.values["error_fraction"] == 0
    assert (reading.settings["sequence_length"], reading.settings["output_length"]) == (512, 128)
    assert "= 20 requests in flight, 20 declared" in because(reading, "in_flight") and not codes(reading) & {"failed_requests", "totals_disagree"}
    assert (reading.tool, reading.model, reading.scenario, reading.result_unit) == ("vllm bench serve", "org/model-7b", "generate", "token")


def test_names_without_ms_are_seconds(tmp_path):
    bare = {key.removesuffix("_ms"): value / 1e3 if key.endswith("_ms") else value for key, value in SERVE.items()}
    [reading] = look(tmp_path, "a.json", bare)
    assert reading.values["ttft_p50_s"] == pytest.approx(0.080) and "unit_not_stated" in codes(reading)


def test_sglang_names_are_the_same_things(tmp_path):
    data = serve(backend="sglang", total_throughput=6400.0, max_output_tokens_per_s=1800.0, mean_e2e_latency_ms=1995.0)
    for key in ("mean_e2el_ms", "median_e2el_ms", "p99_e2el_ms", "total_token_throughput"):
        data.pop(key)
    [reading] = look(tmp_path, "a.json", data)
    assert reading.tool == "SGLang bench_serving" and reading.values["latency_mean_s"] == pytest.approx(1.995)
    assert reading.values["output_tokens_per_s"] == 1280.0 and "1800 tokens/s is the peak" in because(reading, "peak_not_throughput")


def test_failed_requests_make_a_figure_unusable_from_five_percent(tmp_path):
    [many] = look(tmp_path, "a.json", serve(completed=560, failed=440, request_throughput=5.6, output_throughput=1280.0))
    [fault] = [fault for fault in many.faults if fault.code == "failed_requests"]
    assert fault.severity == "blocker" and "440 of 1,000" in fault.because and many.values["error_fraction"] == pytest.approx(0.44)
    [few] = look(tmp_path, "b.json", serve(completed=990, failed=10, request_throughput=9.9, output_throughput=1280.0))
    assert [fault.severity for fault in few.faults if fault.code == "failed_requests"] == ["warning"]


def test_requests_that_vanish_without_being_called_failed_are_noticed(tmp_path):
    data = {key: value for key, value in serve(completed=500, request_throughput=5.0).items() if key not in ("failed", "num_prompts")}
    [unknown] = look(tmp_path, "a.json", data)
    assert "failures_not_stated" in codes(unknown)
    [told] = look(tmp_path, "a.json", data, declared={"requests": 1000})
    assert "500 of 1,000" in because(told, "failed_requests") and "failures_not_stated" not in codes(told)


def test_totals_that_disagree_are_computed_again(tmp_path):
    """1,000 answers in 100 s are 10/s whatever is printed; 640,000 tokens in 100 s are 6,400/s."""
    [reading] = look(tmp_path, "a.json", serve(request_throughput=13.0, total_token_throughput=4800.0))
    assert reading.values["requests_per_s"] == 10.0 and reading.printed["requests_per_s"] == "13/s"
    assert "4,800" in because(reading, "totals_disagree") and "6,400" in because(reading, "totals_disagree")


def test_a_percentile_over_too_few_requests_is_shown_and_not_used(tmp_path):
    """p99 needs 299 independent values for an interval, p50 six."""
    [reading] = look(tmp_path, "a.json", serve(completed=100, num_prompts=100, duration=10.0, total_input_tokens=51200, total_output_tokens=12800))
    assert "latency_p99_s" not in reading.values and reading.printed["latency_p99_s"] == "2,400 ms" and "latency_p50_s" in reading.values
    assert "p99 needs 299" in because(reading, "too_few_samples")
    [enough] = look(tmp_path, "b.json", serve(completed=299, num_prompts=299, duration=29.9))
    assert "latency_p99_s" in enough.values


def test_overload_drain_and_a_slow_client_are_three_things(tmp_path):
    base = dict(max_concurrency=None, request_rate=10.0, completed=300, num_prompts=300)
    tokens = dict(total_input_tokens=153600, total_output_tokens=38400)
    [drain] = look(tmp_path, "a.json", serve(**base, **tokens, duration=33.5, request_throughput=300 / 33.5, output_throughput=38400 / 33.5))
    assert "10 requests/s" in because(drain, "rate_not_reached") and "drain" in because(drain, "rate_not_reached")
    [over] = look(
        tmp_path,
        "b.json",
        serve(
            **base,
            **tokens,
            duration=100.0,
            request_throughput=3.0,
            output_throughput=384.0,
            mean_ttft_ms=30000.0,
            median_ttft_ms=29000.0,
            p99_ttft_ms=60000.0,
        )
        | {"mean_e2el_ms": 32000.0, "median_e2el_ms": 31000.0, "p99_e2el_ms": 62000.0},
    )
    assert "exceeds the capacity, about 3/s" in because(over, "overload")
    [client] = look(tmp_path, "c.json", serve(**base, **tokens, duration=60.0, request_throughput=5.0, output_throughput=640.0))
    assert "did not send as fast as asked" in because(client, "rate_not_reached") and "overload" not in codes(client)


def test_an_open_loop_below_capacity_says_nothing_about_the_capacity(tmp_path):
    """1/s asked, 1/s answered: 128 tokens/s are the load, not what the server can do. Overloaded it answers what it can."""
    light = serve(max_concurrency=None, request_rate=1.0, duration=1000.0, request_throughput=1.0, output_throughput=128.0)
    [reading] = look(tmp_path, "a.json", light)
    assert (
        "throughput_per_s" not in reading.values
        and reading.values["output_tokens_per_s"] == 128.0
        and "no capacity" in because(reading, "latency_bound")
    )
    slow = {
        "mean_ttft_ms": 30000.0,
        "median_ttft_ms": 29000.0,
        "p99_ttft_ms": 60000.0,
        "mean_e2el_ms": 32000.0,
        "median_e2el_ms": 31000.0,
        "p99_e2el_ms": 62000.0,
    }
    [over] = look(tmp_path, "b.json", light | {"request_rate": 3.0} | slow)
    assert over.values["throughput_per_s"] == 128.0 and "overload" in codes(over)


def test_what_the_user_wrote_is_declared_and_the_count_decides(tmp_path):
    """--metadata output_len=500, but 128,000 tokens of 1,000 answers are 128 each. One version writes "request_goodput:"."""
    [reading] = look(tmp_path, "a.json", serve(output_len="500", gpu="4xL40S") | {"request_goodput:": None})
    assert "128 output tokens per request were counted, 500" in because(reading, "output_tokens_differ")
    assert "gpu=4xL40S" in because(reading, "declared_by_user") and reading.instance_type is None


def test_detailed_results_keep_every_request(tmp_path):
    """Three answers and a failure: TPOT of the first is (0.1 + 0.9 - 0.1) / 9 = 0.1 s; the wall time is 3.0 s."""
    data = serve(
        completed=3,
        failed=1,
        num_prompts=4,
        duration=3.0,
        total_input_tokens=30,
        total_output_tokens=30,
        request_throughput=1.0,
        output_throughput=10.0,
    )
    data |= {
        "ttfts": [0.1, 0.2, 0.3, 0.0],
        "itls": [[0.1] * 9, [0.1] * 9, [0.1] * 9, []],
        "output_lens": [10, 10, 10, 0],
        "input_lens": [10, 10, 10, 10],
    }
    data |= {"errors": ["", "", "", "timed out"], "start_times": [0.0, 1.0, 1.8, 2.0]}
    [reading] = look(tmp_path, "a.json", data)
    assert [sample.latency_s for sample in reading.samples] == pytest.approx([1.0, 1.1, 1.2]) and reading.errors == ("timed out",)
    assert reading.samples[0].tpot_s == pytest.approx(0.1) and reading.values["latency_mean_s"] == pytest.approx(1.1)
    assert reading.duration_s == 3.0 and "1 of 4" in because(reading, "failed_requests")


TEXT = """============ Serving Benchmark Result ============
Successful requests:                     {done}
Benchmark duration (s):                  {duration}
Total input tokens:                      51200
Total generated tokens:                  {tokens}
Request throughput (req/s):              {rate}
Output token throughput (tok/s):         64.00
Peak output token throughput (tok/s):    120.00
Total Token throughput (tok/s):          576.00
---------------Time to First Token----------------
Mean TTFT (ms):                          100.00
Median TTFT (ms):                        90.00
P99 TTFT (ms):                           150.00
---------------Inter-token Latency----------------
Mean ITL (ms):                           25.00
Median ITL (ms):                         24.00
P99 ITL (ms):                            30.00
Max ITL (ms):                            867.10
==================================================
"""


def text(done=100, duration="100.00", tokens=6400, rate="1.00"):
    return TEXT.format(done=done, duration=duration, tokens=tokens, rate=rate)


def test_console_text_gives_the_same_figures(tmp_path):
    [reading] = look(tmp_path, "a.txt", text())
    assert reading.values["ttft_mean_s"] == pytest.approx(0.1) and reading.values["requests_per_s"] == 1.0
    assert reading.output_tokens == 64 and "failures_not_stated" in codes(reading)
    assert "867.1 ms is beyond p99" in because(reading, "tail_outlier") and "peak_not_throughput" in codes(reading)


def test_a_template_is_not_a_result(tmp_path):
    [reading] = look(tmp_path, "a.txt", text(duration="xxx.xx", rate="x.xx"))
    assert reading.refused and "placeholder" in codes(reading) and not reading.values


def test_few_output_tokens_and_many_input_tokens_are_prefill(tmp_path):
    [reading] = look(tmp_path, "a.txt", text(tokens=600))
    assert "512 input tokens and 6 output tokens" in because(reading, "prefill_bound")


def test_a_job_log_gives_the_json_inside_and_what_it_really_ran_with(tmp_path):
    line = json.dumps(serve(max_concurrency=None, output_len="500"))
    log = f"""  IGNORE_EOS=true
INFO 05-30 20:37:15 [__init__.py:250] No platform detected, vLLM is running on UnspecifiedPlatform
Namespace(backend='vllm', model='org/model-7b', num_prompts=1000, ignore_eos=False, random_output_len=500)
{text(done=1000)}
<<<RESULT_START>>>
{line}
<<<RESULT_END>>>
"""
    [reading] = look(tmp_path, "job.log", log)
    assert reading.values["ttft_p50_s"] == pytest.approx(0.080), "the JSON has more digits than the text"
    assert "ignore_eos=False" in because(reading, "declared_contradicts_file") and "harmless_message" in codes(reading)


def test_vllm_latency_is_a_batch_offline(tmp_path):
    data = {"avg_latency": 2.0, "latencies": [1.9, 2.0, 2.1], "percentiles": {"50": 2.0, "99": 2.1}}
    [reading] = look(tmp_path, "a.json", data)
    assert (reading.latency_of, reading.scenario) == ("batch", "offline") and reading.duration_s == pytest.approx(6.0)
    assert reading.values["latency_mean_s"] == pytest.approx(2.0) and "latency_p99_s" not in reading.values


# -- AIPerf and GenAI-Perf ---------------------------------------------------------------------


def aiperf_metric(unit, **statistics):
    return {"unit": unit, **statistics}


AIPERF = {
    "aiperf_version": "0.13.0",
    "request_latency": aiperf_metric("ms", avg=6655.5, p50=6653.9, p90=6659.8, p95=6661.0, p99=6686.5, min=6646.8, max=6766.0),
    "time_to_first_token": aiperf_metric("ms", avg=44.2, p50=44.5, p99=48.2),
    "inter_token_latency": aiperf_metric("ms", avg=25.0, p50=25.0, p99=26.0),
    "time_to_second_token": aiperf_metric("ms", avg=0.251, p50=0.0079),
    "request_throughput": aiperf_metric("requests/sec", avg=0.1497),
    "output_token_throughput": aiperf_metric("tokens/sec", avg=39.67),
    "request_count": aiperf_metric("requests", avg=80.0),
    "error_request_count": aiperf_metric("requests", avg=0),
    "output_sequence_length": aiperf_metric("tokens", avg=265.0, min=265, max=265),
}


@pytest.mark.parametrize("wrapped", [False, True])
def test_aiperf_json_flat_or_under_records(tmp_path, wrapped):
    """0.1497/s x 6.6555 s = 0.996 requests in flight; a second token after 8 microseconds came in the same chunk."""
    data = {"aiperf_version": "0.13.0", "records": AIPERF} if wrapped else AIPERF
    [reading] = look(tmp_path, "a.json", data)
    assert reading.values["latency_p50_s"] == pytest.approx(6.6539) and reading.values["tpot_mean_s"] == pytest.approx(0.025)
    assert "0.996 requests in flight" in because(reading, "in_flight") and "one chunk" in because(reading, "itl_per_chunk")
    assert reading.printed["latency_p99_s"] and "latency_p99_s" not in reading.values and reading.tool_version == "0.13.0"


def test_a_cut_export_is_shown_up_to_the_place_and_refused(tmp_path):
    """What stands before the cut is read, the member that is cut is not, and no record can be made of it."""
    whole = json.dumps(AIPERF, indent=1)
    [reading] = look(tmp_path, "a.json", whole[: whole.index('"p99"') + len('"p99": 1')])
    assert "cut off at line" in reading.refused and "copy the whole file" in reading.instead
    assert "cut off at line" in because(reading, "cut_off")
    assert not any("p99" in name for name in (*reading.values, *reading.printed)) and reading.values


def test_a_cut_that_leaves_no_figure_is_one_line(tmp_path):
    whole = json.dumps(AIPERF, indent=1)
    refused(tmp_path, "a.json", whole[: whole.index('"avg"') + 2], "cut off at line")


def test_aiperf_lines_are_requests_whatever_the_vocabulary(tmp_path):
    """(8214.2 - 3340.5) ms / 192 = 25.38 ms per token; 131 of the 193 tokens are reasoning and were generated too."""

    def row(latency, **extra):
        metrics = {"request_latency": {"value": latency, "unit": "ms"}, "output_sequence_length": {"value": 193, "unit": "tokens"}, **extra}
        return {"metadata": {"x_request_id": "r", "credit_phase": "profiling", "timestamp_ns": 1_000_000_000}, "metrics": metrics, "error": None}

    first = row(8214.2, ttft={"value": 3340.5, "unit": "ms"}, reasoning_token_count={"value": 131, "unit": "tokens"})
    new = row(1.0, time_to_first_token={"value": 0.4, "unit": "s"})
    new["metrics"]["request_latency"] = {"value": 4.24, "unit": "s"}
    warm = row(9000.0)
    warm["metadata"]["credit_phase"] = "warmup"
    failed = {
        "metadata": {"x_request_id": "r"},
        "metrics": {"error_request_count": {"value": 1, "unit": "requests"}},
        "error": {"type": "RequestCancellationError"},
    }
    lines = "\n".join(json.dumps(entry) for entry in (first, new, warm, failed))
    [reading] = look(tmp_path, "a.jsonl", lines)
    assert [sample.latency_s for sample in reading.samples] == pytest.approx([8.2142, 4.24])
    assert reading.samples[0].tpot_s == pytest.approx(0.025384, rel=1e-3) and reading.samples[1].tpot_s == pytest.approx(0.02)
    assert (
        reading.warmup_s == (9.0,)
        and reading.errors == ("RequestCancellationError",)
        and "62 are visible" in because(reading, "token_counts_disagree")
    )


def test_a_last_line_that_is_cut_is_left_out_and_said(tmp_path):
    row = json.dumps({"metadata": {"x_request_id": "r"}, "metrics": {"request_latency": {"value": 5.0, "unit": "ms"}}, "error": None})
    [reading] = look(tmp_path, "a.jsonl", f"{row}\n{row}\n{row[:40]}")
    assert len(reading.samples) == 2 and "cut_off" in codes(reading)
    with pytest.raises(BadRecord, match="line 2"):
        look(tmp_path, "b.jsonl", f"{row}\n{row[:40]}\n{row}")


CONSOLE = """                    NVIDIA AIPerf | LLM Metrics
┏━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━┳━━━━━━━━━━━┳━━━━━━━━┳━━━━━━━━━━━┳━━━━━━━━━━━┳━━━━━━━━━━━┳━━━━━━━━━━━┳━━━━━━━━┓
┃                          Metric ┃       avg ┃    min ┃       max ┃       p99 ┃       p90 ┃       p50 ┃    std ┃
┡━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━╇━━━━━━━━━━━╇━━━━━━━━╇━━━━━━━━━━━╇━━━━━━━━━━━╇━━━━━━━━━━━╇━━━━━━━━━━━╇━━━━━━━━┩
│        Time to First Token (ms) │ 15,559.05 │ 235.66 │ 53,537.74 │ 43,402.67 │ 28,505.16 │ 11,524.15 │ 147.97 │
│ Output Token Throughput Per User │    39.10 │  30.00 │     50.00 │     49.00 │     45.00 │     38.00 │   2.31 │
│                (tokens/sec/user) │          │        │           │           │           │           │        │
│     Request Throughput (req/s) │      0.27 │    N/A │       N/A │       N/A │       N/A │       N/A │    N/A │
│        Request Count (requests) │    400.00 │    N/A │       N/A │       N/A │       N/A │       N/A │    N/A │
│          Goodput (requests/sec) │      0.14 │    N/A │       N/A │       N/A │       N/A │       N/A │    N/A │
"""


def test_the_console_table_is_read_by_column_name(tmp_path):
    """15,559.05 ms are 15.6 s. A wrapped name belongs to the row above; N/A is absent, not zero."""
    [reading] = look(tmp_path, "a.txt", CONSOLE)
    assert reading.values["ttft_mean_s"] == pytest.approx(15.55905) and reading.values["ttft_p99_s"] == pytest.approx(43.40267)
    assert reading.values["goodput_fraction"] == pytest.approx(0.14 / 0.27) and "goodput" in codes(reading)
    assert "queueing" in codes(reading) and reading.printed["output tokens per user"] == "39.1 tokens/s"


def test_a_console_row_that_is_cut_keeps_what_it_has(tmp_path):
    cut = CONSOLE.split("│     Request Throughput")[0] + "│ Request Latency (ms) │ 71,956.33 │ 32,746.62 │ 112,716.11"
    [reading] = look(tmp_path, "a.txt", cut)
    assert reading.values["latency_mean_s"] == pytest.approx(71.95633) and "latency_p50_s" not in reading.values and "cut_off" in codes(reading)


def test_genai_perf_csv_has_thousands_in_quotes_and_percentiles_from_the_top(tmp_path):
    """1.50/s x 6.4062 s = 9.61 in flight; TTFT has two levels."""
    csv = """Metric,avg,min,max,p99,p95,p90,p75,p50,p25
Time To First Token (ms),"1,146.31",249.48,"3,485.23","3,457.97","3,349.56","3,215.06","1,330.93",640.07,286.52
Request Latency (ms),"6,406.20","5,371.47","9,608.72","9,436.13","9,046.58","9,028.16","6,549.60","5,690.23","5,493.63"

Metric,Value
Request Throughput (per sec),1.50
Request Count (count),40.00
"""
    [reading] = look(tmp_path, "a.csv", csv)
    assert reading.values["latency_mean_s"] == pytest.approx(6.4062) and reading.values["ttft_p50_s"] == pytest.approx(0.64007)
    assert "9.61 requests in flight" in because(reading, "in_flight") and {"bimodal", "too_few_samples"} <= codes(reading)
    assert "latency_p95_s" not in reading.values, "59 values are needed for a p95"


# -- GuideLLM ----------------------------------------------------------------------------------


def guidellm(kind="constant", rate=2.0, count=400, model="org/model", version="0.8.1"):
    def metric(mean, p99, unit_count=count):
        part = {
            "mean": mean,
            "median": mean,
            "count": unit_count,
            "min": mean / 2,
            "max": p99,
            "percentiles": {"p50": mean, "p90": mean * 1.1, "p95": mean * 1.2, "p99": p99, "p999": p99},
        }
        return {"successful": part, "errored": {"mean": 0.0, "count": 0, "percentiles": {"p50": 0.0}}}

    metrics = {
        "request_totals": {"successful": count, "errored": 0, "incomplete": 2, "total": count + 2},
        "requests_per_second": metric(1.6, 9.0),
        "request_latency": metric(0.5, 0.9),
        "time_to_first_token_ms": metric(100.0, 150.0),
        "time_per_output_token_ms": metric(25.0, 26.0, 8000),
        "inter_token_latency_ms": metric(21.05, 22.0, 7600),
        "output_token_count": metric(20.0, 20.0),
        "prompt_token_count": metric(64.0, 64.0),
        "output_tokens_per_second": metric(32.0, 900.0),
    }
    benchmark = {
        "type_": "generative_benchmark",
        "config": {"strategy": {"type_": kind, "rate": rate}, "backend": {"model": model, "target": "http://10.0.0.1:8000"}},
        "scheduler_metrics": {"measure_start_time": 1000.0, "measure_end_time": 1250.0},
        "metrics": metrics,
        "requests": {"successful": []},
    }
    return {"metadata": {"version": 2, "guidellm_version": version}, "benchmarks": [benchmark]}


def test_guidellm_time_per_token_without_the_first(tmp_path):
    """25 ms is 0.5 s / 20 tokens; (500 - 100) / 19 = 21.05 ms is what others call TPOT."""
    [reading] = look(tmp_path, "a.json", guidellm())
    assert reading.values["tpot_mean_s"] == pytest.approx(0.02105) and reading.values["latency_p99_s"] == 0.9
    assert "25 ms" in because(reading, "tpot_redefined") and reading.tool_version == "0.8.1"
    assert reading.values["requests_per_s"] == pytest.approx(1.6) and "2 requests/s were asked for, 1.6 answered" in because(
        reading, "rate_not_reached"
    )


def test_guidellm_poisson_is_not_poisson(tmp_path):
    [reading] = look(tmp_path, "a.json", guidellm(kind="poisson"))
    assert "bursts" in because(reading, "not_poisson")


def test_two_requests_give_no_percentile_and_a_mock_gives_no_evidence(tmp_path):
    [reading] = look(tmp_path, "a.json", guidellm(count=2, model="e2e-mock-model"))
    assert not any("_p" in name and name.startswith("latency") for name in reading.values) and "mock_server" in codes(reading)


def test_guidellm_csv_is_grouped_by_model_and_its_first_run_is_cold(tmp_path):
    header = "model_id,Date,Input type,Requests per Second,Request Latency (s),Time-to-first-token (ms),Inter Token Latency (ms),Output Token Throughput (t/s)"
    rows = [
        "other-model,2025-09-19,throughput,0.27,30.5,8510.5,86.4,65.9",
        "model-8b,2025-09-20,synchronous,0.150,6.6,478,26,35.5",
        "model-8b,2025-09-21,synchronous,0.155,6.4,242,26,36.2",
        "model-8b,2025-09-22,synchronous,0.156,6.4,241,26,36.1",
    ]
    readings = look(tmp_path, "dp4-model-8b.csv", "\n".join([header, *rows]))
    assert [reading.model for reading in readings] == ["other-model", "model-8b", "model-8b", "model-8b"]
    assert readings[1].values["latency_mean_s"] == 6.6 and readings[1].values["ttft_mean_s"] == pytest.approx(0.478)
    assert "478 ms in the first run" in because(readings[1], "cold_start") and "cold_start" not in codes(readings[2])
    assert all({"means_only", "several_models"} <= codes(reading) for reading in readings)


# -- LLMPerf -----------------------------------------------------------------------------------


def llmperf(**changes):
    data = {
        "version": "2023-08-31",
        "model": "model-70b",
        "mean_output_tokens": 150,
        "num_concurrent_requests": 5,
        "results_inter_token_latency_s_quantiles_p50": 0.0462,
        "results_ttft_s_quantiles_p50": 0.388,
        "results_ttft_s_mean": 0.4,
        "results_end_to_end_latency_s_quantiles_p50": 6.99,
        "results_end_to_end_latency_s_quantiles_p99": 8.09,
        "results_end_to_end_latency_s_mean": 7.06,
        "results_number_output_tokens_mean": 150.0,
        "results_number_output_tokens_min": "140",
        "results_number_output_tokens_max": "152",
        "results_num_requests_started": 150,
        "results_number_errors": 49,
        "results_error_rate": 0.3267,
        "results_error_code_frequency": "{-100.0: 49}",
        "results_num_completed_requests": 101,
        "results_num_completed_requests_per_min": 25.2,
        "results_mean_output_throughput_token_per_s": 63.0,
        "results_request_output_throughput_token_per_s_quantiles_p50": 21.4,
    }
    return {**data, **changes}


def test_llmperf_inter_token_latency_is_repaired(tmp_path):
    """(7.06 - 0.40) s / 149 = 44.70 ms; the tool says 46.2 because the first token is inside."""
    [reading] = look(tmp_path, "a.json", llmperf())
    assert reading.values["tpot_mean_s"] == pytest.approx(0.0447, rel=1e-3) and "46.2 ms" in because(reading, "itl_includes_first_token")
    assert reading.values["latency_p50_s"] == 6.99, "seconds, not milliseconds"


def test_llmperf_short_answers_are_no_failures_of_the_server(tmp_path):
    [reading] = look(tmp_path, "a.json", llmperf())
    assert "49 of 150" in because(reading, "short_answers") and reading.values["error_fraction"] == 0 and "failed_requests" not in codes(reading)
    [mixed] = look(tmp_path, "b.json", llmperf(results_error_code_frequency="{-100.0: 40, 500: 9}"))
    assert "9 of 110" in because(mixed, "failed_requests")


def test_llmperf_client_that_idles_is_named(tmp_path):
    """25.2 a minute x 7.06 s = 2.97 in flight of 5."""
    [reading] = look(tmp_path, "a.json", llmperf())
    assert "2.97 requests in flight, 5 were asked for" in because(reading, "client_idle")


def test_llmperf_responses_leave_out_sums_that_pose_as_gaps(tmp_path):
    good = {
        "error_code": None,
        "error_msg": "",
        "inter_token_latency_s": 0.05,
        "ttft_s": 0.5,
        "end_to_end_latency_s": 8.0,
        "number_output_tokens": 151,
        "number_input_tokens": 550,
    }
    short = {**good, "error_code": -100, "inter_token_latency_s": 5.04}
    broken = {**good, "error_code": 503, "error_msg": "unavailable"}
    [reading] = look(tmp_path, "a.json", [good, short, good, broken])
    assert len(reading.samples) == 2 and reading.samples[0].tpot_s == pytest.approx(0.05) and "1 of 3" in because(reading, "failed_requests")
    assert "5.04 s" in because(reading, "itl_includes_first_token") and "1 of 4" in because(reading, "short_answers")


def test_a_price_per_token_that_no_machine_costs(tmp_path):
    """1,000 tokens/s x 3600 x 7e-10 = 0.00252 an hour."""
    content = """Average Throughput by GPU and Data Type:
data_type          FP8
gpu_info
RTX A5000  1000.0

Average Price per Token by GPU and Data Type:
data_type           FP8
gpu_info
RTX A5000  7e-10

Average Token per Second by GPU and Data Type:
data_type        FP8
gpu_info
RTX A5000  40.0
"""
    [reading] = look(tmp_path, "a.txt", content)
    assert reading.values["output_tokens_per_s"] == 1000.0 and reading.printed["output tokens per user"] == "40 tokens/s"
    assert "0.0025 an hour" in because(reading, "price_implausible")


# -- inference-perf ----------------------------------------------------------------------------


def lifecycle(rate=1.0, delay=0.0004):
    spread = {"mean": 0.483, "median": 0.482, "p90": 0.49, "p99": 0.493, "min": 0.47, "max": 0.494}
    latency = {
        "request_latency": spread,
        "time_to_first_token": {"mean": 0.0333, "median": 0.0329, "p99": 0.0425},
        "time_per_output_token": {"mean": 0.003478, "median": 0.003468, "p99": 0.003546},
        "normalized_time_per_output_token": {"mean": 0.0078},
        "inter_token_latency": {"mean": 0.003478, "median": 0.0000339, "p99": 0.00736},
    }
    throughput = {"requests_per_sec": 0.997, "output_tokens_per_sec": 62.15, "input_tokens_per_sec": 200.0}
    load = {"count": 60, "schedule_delay": {"mean": delay}, "requested_rate": rate, "achieved_rate": rate}
    load = {key: value for key, value in load.items() if value is not None}
    successes = {"count": 60, "latency": latency, "throughput": throughput, "prompt_len": {"mean": 200.7}, "output_len": {"mean": 62.35}}
    return {"load_summary": load, "successes": successes, "failures": {"count": 0, "request_latency": None}}


def test_inference_perf_gaps_of_microseconds_are_chunks(tmp_path):
    [reading] = look(tmp_path, "stage_0.json", lifecycle())
    assert reading.values["tpot_mean_s"] == pytest.approx(0.003478) and "several tokens arrive in one piece" in because(reading, "itl_per_chunk")
    assert "7.8 ms contains the first token" in because(reading, "tpot_redefined") and not reading.refused


def test_inference_perf_summary_of_a_ramp_is_no_operating_point(tmp_path):
    [reading] = look(tmp_path, "summary.json", lifecycle(rate=None, delay=12.57))
    assert reading.refused and "12.6 s late" in because(reading, "stages_pooled")


def test_inference_perf_server_view_is_checked_against_its_own_rates(tmp_path):
    """38,829 tokens/s over 195.44 requests/s are 198.7 tokens each, not 20,157."""
    successes = {
        "count": 26580,
        "rate": 195.44,
        "prompt_len": {"mean": 20157, "rate": 38829.0},
        "output_len": {"mean": 63.6, "rate": 12430.0},
        "queue_len": {"mean": 2},
    }
    successes |= {"request_latency": {"mean": 3.78}, "kv_cache_usage_percentage": {"mean": 0.0}}
    [reading] = look(tmp_path, "a.json", {"load_summary": {}, "successes": successes, "failures": {}})
    assert (
        reading.refused and "198.7" in because(reading, "means_contradict_rates") and "output_len" not in because(reading, "means_contradict_rates")
    )
    assert "metric_missing" in codes(reading)


# -- optimum-benchmark, NeuronPerf, MLPerf, Locust ----------------------------------------------


def optimum(generate=False):
    decode = [6.24, 6.25, 6.23, 6.24]
    report = {
        "prefill": {
            "latency": {"unit": "s", "values": [0.1316] * 4, "count": 4, "mean": 0.1316, "p50": 0.1316},
            "throughput": {"unit": "samples/s", "value": 7.6},
        },
        "decode": {
            "latency": {"unit": "s", "values": decode, "count": 4, "mean": 6.24, "p50": 6.24},
            "throughput": {"unit": "tokens/s", "value": 10.1},
        },
        "per_token": {"latency": {"unit": "s", "values": [0.099] * 4, "count": 256, "mean": 0.0994, "p50": 0.099, "p99": 0.1317}},
    }
    if generate:
        report["generate"] = {
            "latency": {"unit": "s", "values": [0.9346] * 6, "count": 6, "mean": 0.9346},
            "throughput": {"unit": "samples/s", "value": 33.17},
        }
    return report


def test_optimum_decode_is_tokens_and_the_first_token_is_no_tail(tmp_path):
    readings = {reading.label: reading for reading in look(tmp_path, "a.json", optimum())}
    decode = readings["decode"]
    assert (
        decode.values["output_tokens_per_s"] == 10.1
        and decode.values["itl_p50_s"] == 0.099
        and decode.values["tpot_mean_s"] == pytest.approx(1 / 10.1)
    )
    assert decode.settings["output_length"] == 64, "6.24 s x 10.1/s are 63 tokens after the first"
    assert "is the prefill" in because(decode, "itl_includes_first_token") and "itl_p99_s" not in decode.values
    assert "4 of 256" in because(readings["decode"], "values_cut") and all("compile_time_absent" in codes(reading) for reading in readings.values())


def test_optimum_samples_per_second_that_are_tokens(tmp_path):
    """One sample in 0.9346 s is 1.07/s; 33.17 printed is 31 times that."""
    [reading] = [reading for reading in look(tmp_path, "a.json", optimum(generate=True)) if reading.label == "generate"]
    assert reading.values["throughput_per_s"] == pytest.approx(1.07, rel=1e-3) and "31 times less" in because(reading, "throughput_mislabelled")


def test_optimum_config_describes_and_measures_nothing(tmp_path):
    config = {
        "backend": {"name": "pytorch", "version": "2.6.0", "_target_": "optimum_benchmark.backends.pytorch", "torch_dtype": "float16"},
        "scenario": {
            "warmup_runs": 10,
            "iterations": 10,
            "input_shapes": {"batch_size": 2, "sequence_length": 64},
            "generate_kwargs": {"max_new_tokens": 32},
        },
        "launcher": {"name": "process"},
        "environment": {"cpu": " AMD EPYC", "gpu": ["NVIDIA A100", "NVIDIA A100", "NVIDIA DGX Display"], "gpu_count": 3, "gpu_vram_mb": 171798691840},
    }
    [reading] = look(tmp_path, "c.json", config)
    assert reading.refused and reading.settings["precision"] == "fp16" and reading.settings["output_length"] == 32
    assert reading.facts["gpu"] == "2 x NVIDIA A100" and reading.facts["cpu"] == "AMD EPYC" and "171.8 GB" in because(reading, "unit_not_stated")
    [joined] = [reading for reading in look(tmp_path, "b.json", {"config": config, "report": optimum()}) if reading.label == "decode"]
    assert joined.settings["batch_size"] == 2 and "harness_overhead" in codes(joined) and "10 warm-up runs" in because(joined, "compile_time_absent")


NEURONPERF = "n_models,workers_per_model,pipeline_size,batch_size,throughput_avg,throughput_peak,latency_ms_p0,latency_ms_p50,latency_ms_p90,latency_ms_p95,latency_ms_p99,latency_ms_p100,e2e_avg_ms,total_infs,total_s,status,model_filename,device_type,instance_type"


def test_neuronperf_throughput_that_forgets_empty_seconds(tmp_path):
    """12 calls of 2.5 s in 30 s are 0.40/s; one-second buckets without a completion were left out, so it says 1.0."""
    row = "1,1,1,1,1.0,1.0,2490,2500,2510,2520,2530,2540,2500,12,30,finished,m.pt,neuron,inf2.xlarge"
    [reading] = look(tmp_path, "a.csv", f"{NEURONPERF}\n{row}\n")
    assert reading.values["throughput_per_s"] == pytest.approx(0.4) and "2.5 times less" in because(reading, "throughput_forgets_empty_seconds")
    assert reading.values["latency_p50_s"] == 2.5 and reading.instance_type == "inf2.xlarge"


def test_neuronperf_sweep_names_the_operating_point(tmp_path):
    """32 workers answer no more than 16 and wait twice as long; 16 cores give 76 % of 16 times one core."""
    rows = [
        "1,1,1,1,31346.0,31408.0,0.03,0.03,0.031,0.032,0.037,0.732,0.031,154704,5.0,finished,m.pt,neuron,inf1.6xlarge",
        "16,16,1,1,380604.75,380923.0,0.03,0.032,0.054,0.054,0.057,0.938,0.043,1799549,5.0,finished,m.pt,neuron,inf1.6xlarge",
        "16,32,1,1,381098.75,383905.0,0.03,0.058,0.067,0.073,0.121,48.07,0.08,1804925,5.0,finished,m.pt,neuron,inf1.6xlarge",
    ]
    one, all_cores, doubled = look(tmp_path, "a.csv", "\n".join([NEURONPERF, *rows]))
    assert "operating point: 16 models, 16 workers" in because(all_cores, "operating_point") and "76 % scaling" in because(all_cores, "rows_differ")
    assert "more workers only wait" in because(doubled, "operating_point") and "tiny_model" in codes(one)


MLPERF = """================================================
MLPerf Results Summary
================================================
SUT name : PySUT
Scenario : Server
Mode     : PerformanceOnly
99.00 percentile latency (ns)   : 12000000
Result is : INVALID
  Min duration satisfied : Yes
  Early stopping satisfied: NO
Recommendations:
 * The test exited early, before enough queries were issued.

================================================
Additional Stats
================================================
Completed samples per second    : 98.5

Min latency (ns)                : 5000000
Max latency (ns)                : 20000000
Mean latency (ns)               : 8000000
50.00 percentile latency (ns)   : 7500000
99.00 percentile latency (ns)   : 12000000
99.90 percentile latency (ns)   : 19000000
"""


def test_mlperf_summary_is_in_nanoseconds_and_says_invalid(tmp_path):
    [reading] = look(tmp_path, "mlperf_log_summary.txt", MLPERF)
    assert reading.values["latency_p99_s"] == pytest.approx(0.012) and reading.values["throughput_per_s"] == 98.5 and reading.scenario == "server"
    assert "exited early" in because(reading, "result_invalid") and reading.definitions["latency_from"] == "schedule"


def test_mlperf_offline_latency_is_the_length_of_the_run(tmp_path):
    [reading] = look(tmp_path, "a.txt", MLPERF.replace("Server", "Offline").replace("INVALID", "VALID"))
    assert not any(name.startswith("latency") for name in reading.values) and "result_invalid" not in codes(reading)


def test_mlperf_detail_log_that_is_cut_has_no_verdict(tmp_path):
    def line(key, value):
        return ":::MLLOG " + json.dumps(
            {
                "key": key,
                "value": value,
                "time_ms": 1.0,
                "namespace": "mlperf::logging",
                "event_type": "POINT_IN_TIME",
                "metadata": {"is_error": False},
            }
        )

    lines = [
        line("loadgen_version", "6.0.17 @ abc"),
        line("effective_scenario", "SingleStream"),
        line("result_50.00_percentile_latency_ns", 4000000),
        line("result_query_count", 20),
    ]
    [whole] = look(
        tmp_path, "a.txt", "\n".join([*lines, line("result_validity", "INVALID"), line("result_invalid_reason", "need at least 64 queries")])
    )
    assert (
        whole.values["latency_p50_s"] == pytest.approx(0.004) and "64 queries" in because(whole, "result_invalid") and whole.tool_version == "6.0.17"
    )
    [cut] = look(tmp_path, "b.txt", "\n".join(lines) + '\n:::MLLOG {"key": "result_val')
    assert "no result_validity" in because(cut, "cut_off")


def history(rates, users=10):
    header = "Timestamp,User Count,Type,Name,Requests/s,Failures/s,50%,95%,99%,Total Request Count,Total Failure Count,Total Median Response Time,Total Average Response Time,Total Min Response Time,Total Max Response Time,Total Average Content Size"
    rows = [
        f"{1000 + second},{users if second else 0},,Aggregated,{rate},0.0,N/A,N/A,N/A,{5 * second},0,2000,2010.5,1900,2100,8"
        for second, rate in enumerate(rates)
    ]
    return "\n".join([header, *rows])


def test_locust_history_leaves_out_the_climb(tmp_path):
    """The sliding mean climbs for 12 s to 5.0/s; over all rows it would be 3.75. 5/s x 2.0105 s = 10.1 of 10 users."""
    [reading] = look(tmp_path, "h.csv", history([0.0] * 10 + [2.5] * 4 + [5.0] * 26))
    assert reading.values["requests_per_s"] == 5.0 and reading.values["latency_mean_s"] == pytest.approx(2.0105)
    assert "10.1 requests in flight, 10 declared" in because(reading, "in_flight") and "over all rows 3.5/s" in because(reading, "cold_start")
    assert {"cumulative_column", "values_missing"} <= codes(reading)
    with pytest.raises(BadRecord, match="rows after the first 12 s"):
        look(tmp_path, "short.csv", history([0.0, 1.0, 2.0]))


def test_locust_stats_count_failures(tmp_path):
    header = "Type,Name,Request Count,Failure Count,Median Response Time,Average Response Time,Min Response Time,Max Response Time,Average Content Size,Requests/s,Failures/s,50%,95%,99%"
    rows = ["POST,/predict,1000,20,50,55.0,40,400,8,10.0,0.2,50,90,200", ",Aggregated,1000,20,50,55.0,40,400,8,10.0,0.2,50,90,200"]
    [reading] = look(tmp_path, "s.csv", "\n".join([header, *rows]))
    assert (
        reading.completed == 980 and reading.values["requests_per_s"] == pytest.approx(9.8) and reading.values["latency_p99_s"] == pytest.approx(0.2)
    )
    assert "20 of 1,000" in because(reading, "failed_requests")


# -- FMBench -----------------------------------------------------------------------------------

SUMMARY = "experiment_name,payload_file,instance_type,concurrency,error_rate,prompt_token_count_mean,prompt_token_throughput,completion_token_count_mean,completion_token_throughput,latency_mean,transactions_per_minute"


def summary(*rows, extra="", name="s.csv"):
    return "\n".join([SUMMARY + extra, *rows])


def test_fmbench_answers_that_contain_the_prompt_are_repaired(tmp_path):
    """3,507 completion tokens for a prompt of 3,474: 33 were generated, 3,404 tokens/s are 32."""
    rows = (
        "echo,payload_en_1-500.jsonl,ml.p4d.24xlarge,2,0.0,304,958,328,1034,0.61,189",
        "echo,payload_en_3000-4000.jsonl,ml.p4d.24xlarge,2,0.0,3474,3377,3507,3404,1.89,58",
        "plain,payload_en_1-500.jsonl,ml.g5.12xlarge,2,0.0,304,243,102,81,2.49,48",
    )
    short, long, plain = look(tmp_path, "s.csv", summary(*rows))
    assert long.output_tokens == 33 and long.values["output_tokens_per_s"] == pytest.approx(3404 * 33 / 3507)
    assert (
        long.printed["completion token throughput"] == "3404 tokens/s"
        and long.instance_type == "p4d.24xlarge"
        and "ml.p4d" in long.facts["hosted on"]
    )
    assert "answer_includes_prompt" not in codes(plain) and plain.values["output_tokens_per_s"] == 81
    assert "24 tokens (echo) to 102 (plain)" in because(plain, "answer_lengths_vary")
    assert "plain has no row for payload_en_3000-4000.jsonl" in because(plain, "combination_missing") and "combination_missing" not in codes(short)


def test_fmbench_the_cheapest_request_is_not_the_cheapest_token(tmp_path):
    """0.00537 / 84 tokens = 0.0639 per thousand; 0.00448 / 29 = 0.1544."""
    rows = (
        "a,payload.jsonl,ml.g5.12xlarge,4,0.0,3468,1301,84,31,9.0,22,7.09,0.005371,93",
        "b,payload.jsonl,ml.inf2.48xlarge,2,0.0,3474,3420,29,26,1.9,58,15.58,0.004477,111",
    )
    one, other = look(tmp_path, "s.csv", summary(*rows, extra=",price_per_hour,price_per_txn,score"))
    assert one.printed["price per 1,000 generated tokens"] == "$0.06394" and other.printed["price per 1,000 generated tokens"] == "$0.1544"
    assert "inf2.48xlarge is the cheapest per request, g5.12xlarge per 1,000 generated tokens" in because(one, "ranking_reverses")
    assert "SageMaker" in because(one, "price_in_file")


def test_fmbench_failures_count_prompts_in_no_time(tmp_path):
    """3 a minute x 3,431 tokens are 172 tokens/s, not 4,305."""
    [reading] = look(tmp_path, "x_w_pricing.csv", summary("e,p.jsonl,ml.p4d.24xlarge,1,0.09,3431,4305,94,4,16.35,3"))
    assert reading.values["input_tokens_per_s"] == pytest.approx(171.55) and "throughput_artefact" in codes(reading)
    assert [fault.severity for fault in reading.faults if fault.code == "failed_requests"] == ["blocker"] and "no column has one" in because(
        reading, "price_in_file"
    )


def test_fmbench_averaged_percentiles_are_no_percentiles(tmp_path):
    """0.000876 a transaction x 409 a minute x 60 = 21.5 an hour; per generated token 0.000876 / 41 = 2.14e-5, 85 times what is printed."""
    header = "experiment_name,payload_file,instance_type,instance_count,concurrency,error_rate,prompt_token_count_mean,prompt_token_throughput,completion_token_count_mean,completion_token_throughput,latency_p50,latency_p95,latency_p99,transactions_per_minute,price_per_txn,price_per_token,score_dict"
    row = "e,p.jsonl,trn1.32xlarge,1.0,14,0.0,3433,23420,41,277,1.38,1.86,2.05,409,0.000876,0.00000025,\"{'a': ''<span style='color:green'>0.00</span>''}\""
    [reading] = look(tmp_path, "s.csv", f"{header}\n{row}")
    assert not any(name.startswith("latency") for name in reading.values) and reading.printed["latency p95, mean over chunks"] == "1.86 s"
    assert (
        "percentiles_averaged" in codes(reading)
        and "$21.5 an hour" in because(reading, "price_in_file")
        and "85 times" in because(reading, "rounded")
    )


def test_fmbench_inferences_one_by_one_keep_the_cold_first_call(tmp_path):
    header = "endpoint_name,payload_file,prompt_tokens,completion_tokens,latency,time_to_first_token,experiment_name,concurrency,instance_type"
    rows = [f"ep,p.jsonl,300,11,{latency},0.1,e,1,g5.xlarge" for latency in (9.0, 1.1, 1.1, 1.1)] + ["ep,p.jsonl,300,,,,e,1,g5.xlarge"]
    [reading] = look(tmp_path, "r.csv", "\n".join([header, *rows]))
    assert len(reading.samples) == 4 and reading.samples[1].tpot_s == pytest.approx(0.1) and "1 of 5" in because(reading, "failed_requests")
    assert "first request took 9 s" in because(reading, "cold_start") and reading.duration_s is None


def test_fmbench_prices_and_costs_are_named_for_what_they_are(tmp_path):
    [prices] = look(tmp_path, "p.csv", "instance_type,price_per_hour\nml.g5.12xlarge,7.09\n")
    assert prices.refused and "SageMaker" in because(prices, "another_sort") and "pricing.overrides" in prices.instead
    [costs] = look(tmp_path, "c.csv", "experiment_name,instance_type,duration_in_seconds,cost\ne,ml.g5.xlarge,50.14,0.01\n")
    assert costs.refused and "0.359 to 1.08 an hour" in because(costs, "rounded")


# -- the vendor's tables, NxD Inference, cold runs ----------------------------------------------

ENCODERS = "Model,Scripts,Framework,Inst. Type,Task,Throughput (inference/second),Latency P50 (ms),Latency P99 (ms),Application Type,Neuron Version,Run Mode,Batch Size,Sequence Length,Model Data Type,Compilation Autocast Data Type,OS Type"
DECODERS = "Model,Framework,Inst. Type,Task,Output Token Throughput (tokens/sec),TTFT Latency P50 (ms),TTFT Latency P99 (ms),TPOT Latency P50 (ms),TPOT Latency P99 (ms),Application Type,Neuron Version,Run Mode,TP Degree,Batch Size,Sequence Length,Input Length,Output Length,Model Data Type,Compilation Autocast Data Type,Weight Storage Data Type"


def test_a_vendor_table_is_read_with_its_conditions(tmp_path):
    """1,998.2/s x 0.99897 ms = 2.00 in flight: both NeuronCores are counted. FP32 with a BF16 cast multiplies in BF16."""
    rows = [
        "bert,:x:`B <y>`,PyTorch 2.8,Inf2.xlarge,Raw,1998.20950133,0.99897385,1.04045868,Real Time,2.26.0,Data Parallel,1,128,FP32,Matmult-BF16,U22",
        "roberta,:x:`B <y>`,PyTorch 2.8,Inf2.xlarge,Raw,1989.26,0.99945,1.0910,Real Time,2.26.0,Data Parallel,1,128,FP32,Matmult-BF16,U22",
        "xlm,:x:`B <y>`,PyTorch 2.5,Inf2.48xlarge,MaskedLM,48.80,40.666,51.0576,Real Time,2.22.0,Data Parallel,1,128,FP32,Matmult-BF16,U22",
    ]
    bert, roberta, xlm = look(tmp_path, "t.csv", "\n".join([ENCODERS, *rows]))  # no newline at the end: the last row must not be lost
    assert (
        bert.instance_type == "inf2.xlarge"
        and bert.settings["precision"] == "fp32_bf16_matmul"
        and bert.values["latency_p50_s"] == pytest.approx(0.00099897385)
    )
    assert "= 2.00 batches in flight" in because(bert, "in_flight") and "rows_differ" not in codes(bert)
    assert "inf2.48xlarge" in because(xlm, "rows_differ") and "MaskedLM" in because(xlm, "rows_differ") and "2.22.0" in because(xlm, "rows_differ")
    assert roberta.values["throughput_per_s"] == 1989.26


def test_a_vendor_throughput_that_its_own_times_forbid(tmp_path):
    """8 x 8,064 tokens over 0.06895 + 0.01522 x 8,063 s allow 525.4/s; 649.17 is 24 % more."""
    row = "llama,T,Inf2.48xlarge,Gen,649.17,68.95,99.28,15.22,15.48,Batch,2.18.1,Tensor Parallel,24,8,8192,128,8064,FP16,Matmult-BF16,int8"
    [reading] = look(tmp_path, "t.csv", f"{DECODERS}\n{row}")
    assert "allow 525.4: 24 % more" in because(reading, "throughput_contradicts_tpot") and reading.result_unit == "token"
    assert (reading.settings["sequence_length"], reading.settings["output_length"], reading.settings["tp_degree"]) == (128, 8064, 24)
    assert "batch of 8 prompts" in because(reading, "latency_of_whole_batch")


def test_training_figures_are_not_inference(tmp_path):
    header = "Model,Instance-Type,Training Data-Type,Nodes,Topology,Microbatch,Globalbatch, Optimizer, Performance [seq/sec],MFU[%],Neuron Version"
    [reading] = look(tmp_path, "t.csv", f"{header}\nBERT Ph1,trn1.32xlarge/trn1n.32xlarge,BF16,16,DP,16,16384,AdamW,24518.4,,2.14.0\n")
    assert reading.refused and reading.printed["per node"].startswith("1532.4 sequences/s") and reading.facts["Optimizer"] == "AdamW"
    assert {"training_figures", "ambiguous_cell", "not_in_file"} <= codes(reading)


def test_nxd_inference_report(tmp_path):
    part = {
        "latency_ms_p50": 5000.0,
        "latency_ms_p90": 5010.0,
        "latency_ms_p95": 5020.0,
        "latency_ms_p99": 5050.0,
        "latency_ms_p100": 5060.0,
        "latency_ms_avg": 5002.0,
        "throughput": 204.7,
    }
    token = {"latency_ms_p50": 9.5, "latency_ms_p99": 9.9, "latency_ms_avg": 9.6, "throughput": 105.0}
    [reading] = look(
        tmp_path,
        "benchmark_report.json",
        {"e2e_model": part, "context_encoding_model": {**token, "latency_ms_p50": 90.0}, "token_generation_model": token},
    )
    assert (
        reading.values["latency_p50_s"] == 5.0
        and reading.values["tpot_p50_s"] == pytest.approx(0.0095)
        and reading.values["ttft_p50_s"] == pytest.approx(0.09)
    )
    assert reading.values["throughput_per_s"] == 204.7 and "sample_count_unknown" in codes(reading)


def test_a_cold_run_is_kept_as_warm_up(tmp_path):
    """62,319 ms against 104.85 ms: 594 times. The mean of both would be 31.2 s."""
    runs = [
        {"run_idx": n, "tag": tag, "input_len": 64, "output_len": 1, "total_time_ms": ms, "tpt_ms": 0.0}
        for n, (tag, ms) in enumerate([("COLD", 62319.29), ("WARM", 104.85)])
    ]
    [reading] = look(tmp_path, "m.json", {"metrics_prefill": {"batch_size": 1, "runs": runs}})
    assert reading.warmup_s == pytest.approx((62.31929,)) and reading.values["latency_mean_s"] == pytest.approx(0.10485)
    assert "594 times" in because(reading, "cold_start") and "31.2 s" in because(reading, "cold_start") and "metric_missing" in codes(reading)


def test_llmeter_prompts_that_repeat(tmp_path):
    rows = [
        json.dumps(
            {"id": str(n), "input_prompt": f"p{n % 3}", "time_to_first_token": 0.1, "time_to_last_token": 1.1, "num_tokens_output": 11, "error": None}
        )
        for n in range(30)
    ]
    [reading] = look(tmp_path, "responses.jsonl", "\n".join(rows))
    assert reading.samples[0].tpot_s == pytest.approx(0.1) and "90 %" in because(reading, "throughput_artefact")


# -- tables without a tool ---------------------------------------------------------------------


def test_a_printed_sweep_saturates(tmp_path):
    """Batch 2 gives 94.0/s; batch 8 four times the latency for 1.4 % more."""
    content = """instance-type: inf2.xlarge
BS=2: Compiling... ..
Compiler status PASS
145s, 491 MB
  BS |  Mean(ms) |  p50(ms) |  p99(ms) |   W/s |   RTF
------------------------------------------------------
   1 |     18.44 |    17.75 |    24.11 |  54.2 |  380x
   2 |     21.27 |    21.28 |    21.50 |  94.0 |  658x
   8 |     83.93 |    83.91 |    84.19 |  95.3 |  667x
"""
    one, two, eight = look(tmp_path, "n.txt", content)
    assert two.values["latency_p50_s"] == pytest.approx(0.02128) and two.values["throughput_per_s"] == 94.0 and two.values["compile_s"] == 145
    assert (
        "saturates at batch 2" in because(two, "operating_point")
        and "1.4 % more" in because(two, "operating_point")
        and one.instance_type == "inf2.xlarge"
    )


def test_failures_in_a_table_are_results(tmp_path):
    csv = "model,config,variant,avg_prefill_tok_per_s,correctness_pct,notes\nm,c,base,OOM,N/A,HBM OOM: 28.62GB > 24GB limit per core\nm,c,fast,13394.7,100.0,\nm,d,base,~1200,estimated,\n"
    failed, fast, guessed = look(tmp_path, "s.csv", csv)
    assert failed.refused and "28.62GB" in because(failed, "run_failed") and not failed.values
    assert fast.values["input_tokens_per_s"] == 13394.7 and not fast.refused
    assert guessed.refused and "'~1200'" in because(guessed, "approximate_value")


def test_two_files_that_contradict_each_other_are_named(tmp_path):
    (tmp_path / "v1.csv").write_text("model,config,variant,avg_prefill_tok_per_s\nm,official_tp8_16k,base,433.0\n")
    (tmp_path / "v2.csv").write_text("model,config,variant,avg_prefill_tok_per_s\nm,official_16k,base,1098.8\n")
    found = read_all(tmp_path)
    assert all("433 in v1.csv and 1098.8 in v2.csv" in because(entry.readings[0], "files_contradict") for entry in found)


def test_throughput_in_proportion_to_the_users_says_nothing_about_the_system(tmp_path):
    csv = "num_users,num_workers,rps\n" + "\n".join(f"{users},{workers},{users / 2.0}" for users in (50, 100) for workers in (50, 100))
    readings = look(tmp_path, "s.csv", csv)
    assert len(readings) == 4 and all(reading.refused and "users / 2 s" in because(reading, "users_are_the_limit") for reading in readings)


def test_a_derived_column_is_replaced_by_what_was_counted(tmp_path):
    """29.69 x 32 = 950.2; 4.485 requests/s x 128 tokens are 574.1."""
    content = """| Source | ISL | OSL | Concurrency | N Req | TTFT (ms) | Tput User (TPS) | Tput Decode (TPS) | E2EL (ms) | Req Tput (RPS) |
|--------|-----|-----|-------------|-------|-----------|-----------------|-------------------|-----------|----------------|
| aiperf | 128 | 128 | 32          | 400   | 2854.5    | 29.69           | 950.2             | 7131.3    | 4.485          |
"""
    [reading] = look(tmp_path, "r.md", content)
    assert reading.values["output_tokens_per_s"] == pytest.approx(574.08) and "1.66 times" in because(reading, "derived_column")
    assert reading.values["latency_mean_s"] == pytest.approx(7.1313) and reading.facts["statistic"].endswith("taken as the mean")


def test_starred_cells_and_thousands(tmp_path):
    content = """## BF16, 16 GPUs

| c | n | TTFT p50 (ms) | tok/s total |
|---|---|---|---|
| 1 | 400 | 1,145.46 | 20.45 |
| 8 | 400 | 453.05 | 78.98\\* |
| 64 | 1280 | 887.31 | 1,099.26 |
"""
    clean, starred, most = look(tmp_path, "r.md", content)
    assert clean.values["ttft_p50_s"] == pytest.approx(1.14546) and "output_tokens_per_s" not in starred.values and "contaminated" in codes(starred)
    assert most.printed["per accelerator"] == "68.7 tokens/s"


# -- neighbours of results ---------------------------------------------------------------------


def test_graph_statistics_are_compile_times_in_microseconds(tmp_path):
    header = "graph_id,graph_name,model_name,has_collectives,graph_node_count,timestamp,torch_neuronx_fx_passes_us,torch_neuronx_lower_us,torch_neuronx_compile_us"
    rows = ["a,g0,m,False,1,2026,1,1,100135000", "b,g1,m,False,1,2026,1,1,207123000", "c,g2,m,False,1,2026,1,1,0"]
    [reading] = look(tmp_path, "g.csv", "\n".join([header, *rows]))
    assert reading.refused and reading.values["compile_s"] == pytest.approx(307.258) and "g2" in because(reading, "run_failed")


def test_a_prediction_is_not_adopted(tmp_path):
    rows = [
        {"model": "m", "instance": "p5en.48xlarge", "isl": 512, "osl": 128, "metric": "itl_ms", "predicted": 22.44, "measured": 19.9, "source": "x"}
    ]
    rows += [{**rows[0], "metric": "disagg_req_s", "predicted": None, "measured": 3.17, "source": "1P:1D, 4 GPU"}]
    gap, rate = look(tmp_path, "l.jsonl", "\n".join(json.dumps(row) for row in rows))
    assert gap.values["itl_mean_s"] == pytest.approx(0.0199) and gap.facts["prediction error"] == "+12.8 %"
    assert rate.values["requests_per_s"] == 3.17 and "only 4 accelerators of p5en.48xlarge" in because(rate, "part_of_instance")


def test_an_experiment_description_is_what_the_user_typed(tmp_path):
    data = {
        "cmd": "genai-bench --api_base http://localhost:8082",
        "auth_config": {"api_base": "http://localhost:8084"},
        "api_model_name": "org/M-3-70B",
        "model": "M-3.1-70B",
    }
    data |= {"num_concurrency": [1, 2], "traffic_scenario": ["D(100,100)"], "server_gpu_count": "4", "server_gpu_type": "H100"}
    [reading] = look(tmp_path, "e.json", data)
    assert reading.refused and reading.facts["server gpu count"] == "4" and "8082, 8084" in because(reading, "names_disagree")


# -- hostile files -----------------------------------------------------------------------------


def refused(folder, name, content, *parts, **options):
    with pytest.raises(BadRecord) as raised:
        look(folder, name, content, **options)
    line = str(raised.value)
    assert "\n" not in line and "Traceback" not in line
    for part in parts:
        assert part in line, line


def test_files_that_are_something_else_are_named_with_the_command_that_takes_them(tmp_path):
    refused(tmp_path, "a.json", "", "is empty")
    refused(tmp_path, "a.json", "   \n\n", "is empty")
    refused(tmp_path, "a.csv", b"PK\x03\x04rest", "zip archive")
    refused(tmp_path, "a.json", bytes(range(256)) * 4, "not text")
    refused(
        tmp_path,
        "config.json",
        {"architectures": ["BertModel"], "model_type": "bert", "hidden_size": 768},
        "configuration",
        "neuronfit check config.json",
    )
    refused(tmp_path, "log-neuron-cc.txt", "INFO neuronx-cc 2.21\nCompiler status PASS\n", "compiler log", "neuronfit diagnose")
    refused(tmp_path, "trace.csv", "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46,4808,10\n", "traffic", "neuronfit traffic")
    refused(tmp_path, "page.csv", "<!DOCTYPE html><html></html>", "HTML page")
    refused(tmp_path, "x.csv", "version https://git-lfs.github.com/spec/v1\noid sha256:abc\n", "Git LFS pointer")
    refused(tmp_path, "x.txt", "nothing to see here", "no known benchmark format", "vllm, aiperf")
    refused(tmp_path, "x.json", {"a": 1}, "no known benchmark format")


@pytest.mark.parametrize("cut", [0.2, 0.5, 0.9, 0.99])
def test_json_that_is_cut_anywhere_is_one_line(tmp_path, cut):
    """Too early to be recognised it is one line; later it is looked at and refused, and the member at the cut is left out."""
    whole = json.dumps(SERVE, indent=1)
    part = whole[: int(len(whole) * cut)]
    if cut < 0.6:
        refused(tmp_path, "a.json", part, "'a.json'")
        return
    [reading] = look(tmp_path, "a.json", part)
    assert "cut off" in reading.refused
    last = part.rsplit('"', 2)[-2]
    assert last not in SERVE or not any(abs(value - SERVE[last]) < 1e-12 for value in reading.values.values())


def test_bytes_around_the_data_do_not_matter(tmp_path):
    """BOM, UTF-16, CRLF, gzip, a wrong extension and a missing last newline: the same figures."""
    plain = json.dumps(SERVE, indent=1)
    for name, content in (
        ("bom.json", b"\xef\xbb\xbf" + plain.encode()),
        ("utf16.json", plain.encode("utf-16")),
        ("crlf.json", plain.replace("\n", "\r\n").encode()),
        ("packed.json.gz", gzip.compress(plain.encode())),
        ("wrong.csv", plain.encode()),
        ("spaces.json", b"\n\n  " + plain.encode() + b"\n\n"),
    ):
        [reading] = look(tmp_path, name, content)
        assert reading.values["output_tokens_per_s"] == 1280.0, name
    refused(tmp_path, "half.gz", gzip.compress(plain.encode())[:60], "cut off or damaged")


def test_nan_and_infinity_are_missing_and_counted(tmp_path):
    content = json.dumps(serve(mean_ttft_ms=float("nan"), p99_tpot_ms=float("inf")))
    assert "NaN" in content and "Infinity" in content
    [reading] = look(tmp_path, "a.json", content)
    assert "ttft_mean_s" not in reading.values and "tpot_p99_s" not in reading.values and "2 values" in because(reading, "values_missing")
    assert all(math.isfinite(value) for value in reading.values.values())


def test_semicolons_and_decimal_commas(tmp_path):
    csv = "Batch;p50 (ms);p99 (ms);Throughput (inf/s)\n1;1,5;2,25;640,5\n8;6,0;7,0;1.234,5\n"
    one, eight = look(tmp_path, "de.csv", csv)
    assert (one.values["latency_p50_s"], one.values["latency_p99_s"]) == pytest.approx((0.0015, 0.00225))
    assert (one.values["throughput_per_s"], eight.values["throughput_per_s"]) == (640.5, 1234.5)


def test_a_doubled_column_and_a_repeated_header_are_said(tmp_path):
    csv = "batch,p50 (ms),p50 (ms),Throughput (inf/s)\n1,2.0,9.0,500\nbatch,p50 (ms),p50 (ms),Throughput (inf/s)\n2,3.0,9.0,600\n"
    rows = look(tmp_path, "d.csv", csv)
    assert [row.values["latency_p50_s"] for row in rows] == pytest.approx([0.002, 0.003])
    assert "two columns are named 'p50 (ms)'" in because(rows[0], "duplicate_column") and "repeated" in because(rows[0], "duplicate_column")


def test_mixed_units_in_one_table(tmp_path):
    csv = "concurrency,requests,TTFT p50 (ms),Latency p50 (s),ITL mean (us),req/s\n4,400,80,1.5,15000,2.6\n"
    [reading] = look(tmp_path, "m.csv", csv)
    assert (reading.values["ttft_p50_s"], reading.values["latency_p50_s"], reading.values["itl_mean_s"]) == pytest.approx((0.08, 1.5, 0.015))


def test_percentiles_in_the_wrong_order_block(tmp_path):
    [reading] = look(tmp_path, "a.json", serve(p99_ttft_ms=40.0))
    assert [fault.severity for fault in reading.faults if fault.code == "unordered_statistics"] == ["blocker"]


def test_a_foreign_shape_under_a_known_name_is_one_line(tmp_path):
    refused(tmp_path, "a.json", {"guidellm_version": "1", "benchmarks": [{"metrics": 3, "type_": "generative_benchmark"}]}, "GuideLLM")
    refused(tmp_path, "b.json", {"successes": [], "load_summary": {}}, "inference-perf")
    refused(tmp_path, "c.json", [{"error_code": 1, "ttft_s": 1}, {"end_to_end_latency_s": 2}], "LLMPerf")
    refused(tmp_path, "d.json", SERVE, "unknown format", "vllm_serve", format="vllm_serv")
    refused(tmp_path, "e.json", serve(completed={"a": 1}) | {"input_lens": 3}, "NxD", format="nxdi_report")
    with pytest.raises(BadRecord):
        look(tmp_path, "deep.json", "[" * 100000)


def test_a_folder_reads_every_file_and_names_the_others(tmp_path):
    (tmp_path / "a.json").write_text(json.dumps(SERVE))
    (tmp_path / "b.txt").write_text("notes")
    (tmp_path / ".hidden").write_text("x")
    found = read_all(tmp_path)
    assert [(entry.path.name, bool(entry.problem)) for entry in found] == [("a.json", False), ("b.txt", True)]


# -- the contract ------------------------------------------------------------------------------


def test_formats_are_named_once_and_each_module_knows_its_own():
    names = [name for module in MODULES for name in module.FORMATS]
    assert len(names) == len(set(names)) == len(FORMATS) and all(FORMATS.values())


def test_a_fault_has_a_known_code_and_severity():
    assert Fault("failed_requests", "x").severity == "warning" and Fault("failed_requests", "x", severity="blocker").severity == "blocker"
    with pytest.raises(ValueError):
        Fault("means_only", "x", severity="blocker")
    with pytest.raises(KeyError):
        Fault("no_such_code", "x")
    reading = Reading("table")
    reading.fault("means_only", "x")
    reading.fault("means_only", "x")
    assert len(reading.faults) == 1 and all(severities for severities in CODES.values())


def test_recognition_looks_at_content_only():
    head = json.dumps(SERVE).encode()
    assert {module.recognise(head, name) for module in MODULES for name in ("a.csv", "report.txt", "b.json")} == {"vllm_serve", None}


def test_what_is_declared_is_checked(tmp_path):
    with pytest.raises(BadParams, match="batch_size"):
        Declared.of({"batchsize": 8})
    with pytest.raises(BadParams, match="whole number"):
        Declared.of({"batch_size": 2.5})
    with pytest.raises(BadParams, match="above 0"):
        Declared.of({"concurrency": -1})
    assert Declared.of({"batch_size": 8, "precision": None}).precision is None


def test_the_file_counts_where_it_contradicts_what_is_declared(tmp_path):
    row = "1,1,1,4,100,110,39,40,41,42,43,44,40,3000,30,finished,m.pt,neuron,inf2.xlarge"
    [reading] = look(tmp_path, "a.csv", f"{NEURONPERF}\n{row}\n", declared={"batch_size": 8, "precision": "bf16", "instance_type": "inf2.8xlarge"})
    assert reading.settings["batch_size"] == 4 and reading.settings["precision"] == "bf16" and reading.instance_type == "inf2.xlarge"
    assert "declared as 8, the file says 4" in because(reading, "declared_contradicts_file") and "inf2.8xlarge" in because(
        reading, "declared_contradicts_file"
    )


def test_documents_know_their_hash():
    import hashlib

    document = Document(b"abc", "x")
    assert document.sha256 == hashlib.sha256(b"abc").hexdigest() and Path(document.name).name == "x"


def test_genai_bench_results_keep_their_requests(tmp_path):
    """Two answers in 4 s at concurrency 2: (1.9 - 0.1) / 9 = 0.2 s per token."""
    good = {"error_code": None, "ttft": 0.1, "e2e_latency": 1.9, "num_input_tokens": 100, "num_output_tokens": 10}
    together = {
        "scenario": "D(100,10)",
        "num_concurrency": 1,
        "run_duration": 4.0,
        "num_completed_requests": 2,
        "num_error_requests": 1,
        "num_requests": 3,
    }
    data = {
        "aggregated_metrics": together | {"requests_per_second": 0.5, "stats": {}},
        "individual_request_metrics": [good, good, {"error_code": 500}],
    }
    [reading] = look(tmp_path, "g.json", data)
    assert reading.samples[0].tpot_s == pytest.approx(0.2) and reading.values["output_tokens_per_s"] == pytest.approx(5.0)
    assert "1 of 3" in because(reading, "failed_requests") and reading.label == "D(100,10)"


def test_figures_per_accelerator_are_multiplied(tmp_path):
    """100 output tokens/s on each of 8 are 800/s."""
    data = {"hw": "b200", "tp": 8, "conc": 64, "precision": "fp8", "framework": "vllm", "tput_per_gpu": 900.0, "output_tput_per_gpu": 100.0}
    [reading] = look(tmp_path, "agg.json", data | {"median_ttft": 0.4, "p99_ttft": 0.9, "median_tpot": 0.04, "mean_e2el": 6.0})
    assert reading.values["output_tokens_per_s"] == 800.0 and reading.settings["tp_degree"] == 8 and reading.concurrency == 64
    assert reading.values["ttft_p50_s"] == 0.4 and reading.settings["precision"] == "fp8"


def test_covex_metrics_are_not_the_same_work_on_both_sides(tmp_path):
    data = {
        "device": "neuron",
        "load_s": 3.0,
        "first_batch_s": 140.0,
        "warm_latency_ms_p50": 5.0,
        "warm_latency_ms_p95": 6.0,
        "throughput_items_per_s": 1600.0,
    }
    [reading] = look(tmp_path, "metrics.json", data)
    assert reading.values["latency_p50_s"] == 0.005 and reading.values["throughput_per_s"] == 1600 and "bf16" in because(reading, "rows_differ")
