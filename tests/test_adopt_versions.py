"""The same tools in other versions: what moved to another key, and what a phase, a query or a call really counts.

Every file is made here, of the shape that the version writes; the answers are worked out by hand.
"""

import json

import pytest
from neuronfit.adopt import Declared, read
from neuronfit.errors import BadRecord


def look(folder, name, content, **declared):
    path = folder / name
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return read(path, declared=Declared.of(declared)).readings


def codes(reading):
    return {fault.code for fault in reading.faults}


def because(reading, code):
    return " ".join(fault.because for fault in reading.faults if fault.code == code)


# -- GuideLLM 0.2 and 0.3 ----------------------------------------------------------------------


def spread(value):
    part = {"mean": value, "median": value, "min": value, "max": value, "count": 300, "percentiles": {"p90": value, "p95": value, "p99": value}}
    return {"successful": part, "errored": {**part, "count": 0, "mean": 0.0}, "incomplete": part, "total": part}


METRICS = {
    "requests_per_second": spread(5.0),
    "request_latency": spread(2.6),
    "time_to_first_token_ms": spread(60.0),
    "inter_token_latency_ms": spread(20.0),
    "time_per_output_token_ms": spread(20.3125),
    "output_token_count": spread(128.0),
    "prompt_token_count": spread(512.0),
    "output_tokens_per_second": spread(640.0),
}
MADE = {"successful": 300, "errored": 6, "incomplete": 4, "total": 310}


def test_guidellm_02_keeps_model_counts_and_load_elsewhere(tmp_path):
    """300 answers in 60 s are 5/s; 5/s x 2.6 s = 13 of 16 streams; 6 of 306 failed; 100 tokens were asked for, 128 came."""
    entry = {
        "type_": "generative_benchmark",
        "args": {"profile": {"type_": "sweep"}, "strategy": {"type_": "concurrent", "streams": 16}},
        "run_stats": {"requests_made": MADE},
        "worker": {"backend_type": "openai_http", "backend_target": "http://server:8000", "backend_model": "org/model-7b"},
        "request_loader": {"data": "prompt_tokens=512,output_tokens=100"},
        "metrics": METRICS,
        "start_time": 1000.0,
        "end_time": 1060.0,
    }
    [reading] = look(tmp_path, "benchmarks.json", {"benchmarks": [entry]})
    assert (reading.model, reading.concurrency, reading.completed, reading.failed) == ("org/model-7b", 16, 300, 6)
    assert reading.values["tpot_p50_s"] == pytest.approx(0.020) and reading.values["error_fraction"] == pytest.approx(6 / 306)
    assert "13 requests in flight, 16 were declared" in because(reading, "in_flight_differs")
    assert "128 output tokens per request were counted, 100" in because(reading, "output_tokens_differ")


def test_guidellm_03_keeps_the_strategy_under_scheduler(tmp_path):
    entry = {
        "type_": "generative_benchmark",
        "scheduler": {"strategy": {"type_": "poisson", "rate": 5.0}},
        "benchmarker": {"backend": {"type_": "openai_http", "model": "org/model-7b"}, "requests": {"data": "[{'output_tokens': 128}]"}},
        "run_stats": {"requests_made": MADE},
        "metrics": METRICS,
        "duration": 60.0,
    }
    [reading] = look(tmp_path, "benchmarks.json", {"benchmarks": [entry]})
    assert (reading.model, reading.request_rate, reading.expected_output_tokens) == ("org/model-7b", 5.0, 128.0)
    assert {"not_poisson", "latency_bound"} <= codes(reading) and "throughput_per_s" not in reading.values


def test_a_slow_first_token_without_load_is_no_queue(tmp_path):
    """2.4 s with one request at a time; 2.5 s under load is the prefill, 8.5 s is a queue."""
    header = "model_id,Date,Input type,Requests per Second,Request Latency (s),Time-to-first-token (ms),Inter Token Latency (ms),Output Token Throughput (t/s)"
    rows = ["m,d,synchronous,0.125,8.0,2400,24,30", "m,d,asynchronous@0.27 req/sec,0.25,18.0,2500,63,60", "m,d,throughput,0.27,30.0,8500,86,66"]
    alone, paced, full = look(tmp_path, "results.csv", "\n".join([header, *rows]))
    assert "queueing" not in codes(alone) | codes(paced)
    assert because(full, "queueing") == "time to first token is 8.5 s on average, 28 % of the latency: requests wait in a queue"


# -- optimum-benchmark 0.2 ---------------------------------------------------------------------


def optimum(batch, *, per_token=True, config=True):
    """Batch 4 x 127 tokens in 2.54 s are 200 tokens/s, 20 ms a step; prefill takes 4 x 256 tokens in 0.05 s."""
    report = {
        "prefill": {
            "memory": {},
            "latency": {"unit": "s", "values": [0.05] * 10, "mean": 0.05},
            "throughput": {"unit": "tokens/s", "value": 20480.0},
        },
        "decode": {"memory": {}, "latency": {"unit": "s", "values": [2.54] * 10, "mean": 2.54}, "throughput": {"unit": "tokens/s", "value": 200.0}},
    }
    if per_token:
        report["per_token"] = {"memory": None, "latency": {"unit": "s", "values": [0.02] * 1270, "mean": 0.02}}
    backend = {"name": "pytorch", "version": "2.2.2", "_target_": "optimum_benchmark.backends.pytorch.backend.PyTorchBackend", "model": "org/model"}
    benchmark = {"name": "inference", "input_shapes": {"batch_size": batch, "sequence_length": 256}, "generate_kwargs": {"max_new_tokens": 128}}
    return {"config": {"backend": backend, "benchmark": benchmark}, "report": report} if config else report


def test_optimum_02_has_its_batch_under_benchmark(tmp_path):
    prefill, decode = look(tmp_path, "benchmark.json", optimum(4))
    assert prefill.values["input_tokens_per_s"] == 20480.0 and "output_tokens_per_s" not in prefill.values
    assert prefill.values["throughput_per_s"] == pytest.approx(80.0) and prefill.result_unit == "inference"
    assert decode.values["throughput_per_s"] == decode.values["output_tokens_per_s"] == 200.0
    assert decode.values["tpot_mean_s"] == pytest.approx(0.020) and decode.output_tokens == 128.0
    assert "totals_disagree" not in codes(decode) | codes(prefill)


def test_optimum_report_alone_gets_its_batch_from_the_time_of_a_step(tmp_path):
    """508 tokens in 2.54 s / 20 ms = 127 steps: a batch of 4. Without steps the batch is asked for, not taken to be 1."""
    decode = look(tmp_path, "benchmark_report.json", optimum(4, config=False))[1]
    assert decode.facts["batch, from the time of a step"] == "4" and decode.values["tpot_mean_s"] == pytest.approx(0.020)
    decode = look(tmp_path, "benchmark_report.json", optimum(4, config=False, per_token=False))[1]
    assert "tpot_mean_s" not in decode.values and "508 tokens" in because(decode, "client_batch_unknown")


# -- vLLM and SGLang ---------------------------------------------------------------------------


def test_vllm_latency_without_its_batch_is_no_throughput(tmp_path):
    """Ten calls of 2 s are 0.5 calls/s; with batch 8 they are 4 results/s."""
    data = {"avg_latency": 2.0, "latencies": [2.0] * 10, "percentiles": {"50": 2.0, "99": 2.0}}
    [reading] = look(tmp_path, "latency.json", data)
    assert "throughput_per_s" not in reading.values and "0.5 calls/s" in because(reading, "client_batch_unknown")
    [reading] = look(tmp_path, "latency.json", data, batch_size=8)
    assert reading.values["throughput_per_s"] == pytest.approx(4.0) and "client_batch_unknown" not in codes(reading)


def serving(concurrency, seconds):
    return {
        "backend": "sglang",
        "request_rate": float("inf"),
        "max_concurrency": concurrency,
        "duration": seconds,
        "completed": 500,
        "total_input_tokens": 256000,
        "total_output_tokens": 64000,
        "request_throughput": 500 / seconds,
        "output_throughput": 64000 / seconds,
        "median_ttft_ms": 100.0,
        "median_tpot_ms": 20.0,
        "mean_e2e_latency_ms": 2640.0,
        "p99_e2e_latency_ms": 2900.0,
    }


def test_a_line_per_run_is_a_row_per_run(tmp_path):
    """SGLang appends a line to its output file; an unlimited rate is a setting and no missing value."""
    text = "\n".join(json.dumps(serving(*load)) for load in ((16, 84.0), (32, 44.0)))
    first, second = look(tmp_path, "out.jsonl", text + "\n")
    assert (first.concurrency, second.concurrency) == (16, 32) and second.values["output_tokens_per_s"] == pytest.approx(64000 / 44)
    assert "values_missing" not in codes(first) and first.request_rate is None
    assert "15.7 requests in flight, 16 declared" in because(first, "in_flight")


def test_a_rate_that_was_not_reached_is_not_called_answered_as_sent(tmp_path):
    data = {**serving(None, 100.0), "request_rate": 8.0}
    [reading] = look(tmp_path, "out.json", data)
    assert "rate_not_reached" in codes(reading)
    assert "as many are answered" not in because(reading, "latency_bound") and "so the rate is no capacity" in because(reading, "latency_bound")


def test_the_degree_in_a_file_name_is_asked_for(tmp_path):
    [reading] = look(tmp_path, "model_vllm_tp8_conc32.json", serving(32, 44.0))
    assert f"{64000 / 44 / 8:.4g} output tokens/s per accelerator" in because(reading, "not_in_file")
    [reading] = look(tmp_path, "model_vllm_tp8_conc32.json", {**serving(32, 44.0), "label": "x_tp8"})
    assert "not_in_file" not in codes(reading)


# -- GenAI-Perf --------------------------------------------------------------------------------


def test_raw_export_of_perf_analyzer_is_requests(tmp_path):
    """Sent at 0, pieces at 100, 120, 140 ms, then [DONE]: TTFT 100 ms, latency 140 ms; one request has no answer."""
    ms = 1_000_000
    answered = {
        "timestamp": 10**15,
        "response_timestamps": [10**15 + place * ms for place in (100, 120, 140, 141)],
        "response_outputs": [{"response": "data: {}"}] * 3 + [{"response": "data: [DONE]"}],
    }
    lost = {"timestamp": 10**15, "response_timestamps": []}
    data = {"service_kind": "openai", "experiments": [{"experiment": {"mode": "concurrency", "value": 2}, "requests": [answered] * 9 + [lost]}]}
    [reading] = look(tmp_path, "profile_export.json", data)
    assert reading.values["ttft_p50_s"] == pytest.approx(0.1) and reading.values["latency_p50_s"] == pytest.approx(0.14)
    assert reading.values["error_fraction"] == pytest.approx(0.1) and reading.concurrency == 2


def test_embeddings_are_calls_times_the_declared_batch(tmp_path):
    table = (
        "NVIDIA GenAI-Perf | Embeddings Metrics\n┃ Statistic ┃ avg ┃ min ┃ max ┃ p99 ┃ p90 ┃ p75 ┃\n"
        "│ Request latency (ms) │ 23.23 │ 21.98 │ 30.1 │ 23.74 │ 22.75 │ 22.52 │\n"
        "│ Request throughput (per sec) │ 42.95 │ N/A │ N/A │ N/A │ N/A │ N/A │\n"
    )
    [reading] = look(tmp_path, "out.txt", table)
    assert "client_batch_unknown" in codes(reading)
    [reading] = look(tmp_path, "out.txt", table, batch_size=2)
    assert reading.values["throughput_per_s"] == pytest.approx(85.9) and "client_batch_unknown" not in codes(reading)


# -- MLPerf ------------------------------------------------------------------------------------


def mlperf(scenario, head, more="", samples=1):
    return (
        f"MLPerf Results Summary\nSUT name : PySUT\nScenario : {scenario}\nMode     : PerformanceOnly\n{head}\nResult is : VALID\n"
        "Early Stopping Result:\n * Processed at least 64 queries (1000).\n\nAdditional Stats\n"
        "Min latency (ns)                : 15000000\nMax latency (ns)                : 30000000\nMean latency (ns)               : 20000000\n"
        f"50.00 percentile latency (ns)   : 19000000\n99.00 percentile latency (ns)   : 29000000\n{more}\nTest Parameters Used\nsamples_per_query : {samples}\n"
    )


def test_mlperf_language_model_counts_tokens(tmp_path):
    more = (
        "Mean First Token latency (ns)                : 100000000\n99.00 percentile first token latency (ns)   : 250000000\n"
        "Mean Time to Output Token (ns)                : 20000000\n99.00 percentile time to output token (ns)   : 24000000\n"
    )
    [reading] = look(
        tmp_path, "mlperf_log_summary.txt", mlperf("Interactive", "Completed samples per second : 9.0\nCompleted tokens per second: 1152.0", more)
    )
    assert reading.scenario == "server" and reading.result_unit == "token" and reading.output_tokens == pytest.approx(128)
    assert reading.values["throughput_per_s"] == 1152.0 and reading.values["requests_per_s"] == 9.0
    assert reading.values["ttft_p99_s"] == pytest.approx(0.25) and reading.values["tpot_p99_s"] == pytest.approx(0.024)


def test_mlperf_multistream_is_a_query_of_eight(tmp_path):
    """8 samples over 20 ms are 400/s; the latency is that of the eight together."""
    [reading] = look(tmp_path, "mlperf_log_summary.txt", mlperf("MultiStream", "99.00 percentile latency (ns) : 29000000", samples=8))
    assert reading.latency_of == "batch" and reading.settings["batch_size"] == 8 and reading.completed == 1000
    assert reading.values["throughput_per_s"] == pytest.approx(400.0) and reading.values["latency_p99_s"] == pytest.approx(0.029)


# -- Locust, NeuronPerf, FMBench ---------------------------------------------------------------


def test_locust_history_counts_answers_without_the_failures(tmp_path):
    header = "Timestamp,User Count,Type,Name,Requests/s,Failures/s,50%,Total Request Count,Total Failure Count,Total Median Response Time,Total Average Response Time"
    rows = [f"{1000 + second},10,,Aggregated,20.0,2.0,480,{20 * second},{2 * second},480,490" for second in range(40)]
    [reading] = look(tmp_path, "stats_history.csv", "\n".join([header, *rows]))
    assert reading.values["requests_per_s"] == 18.0 and "failed_requests" in codes(reading)


@pytest.mark.parametrize(("models", "column", "rate", "workers"), [(2, 2, 1592.0, 4), (2, 2, 796.0, 2), (16, 16, 6368.0, 16)])
def test_neuronperf_workers_are_settled_by_what_is_in_flight(tmp_path, models, column, rate, workers):
    """Batch 8, 20.1 ms a call: one worker gives 398/s. 1,592/s needs four workers, so 2 x 2; 796/s needs two."""
    header = "n_models,workers_per_model,batch_size,throughput_avg,latency_ms_p50,e2e_avg_ms,total_infs,total_s,status,instance_type"
    [reading] = look(tmp_path, "report.csv", f"{header}\n{models},{column},8,{rate},20.0,20.1,{60 * rate},60.0,finished,inf2.xlarge\n")
    assert reading.settings["workers"] == workers and "throughput_forgets_empty_seconds" not in codes(reading)


def test_a_cut_file_is_never_adopted(tmp_path):
    whole = json.dumps({"benchmarks": [{"scheduler": {"strategy": {"type_": "concurrent", "streams": 2}}, "metrics": METRICS, "duration": 60.0}]})
    [reading] = look(tmp_path, "benchmarks.json", whole[:-40])
    assert reading.refused and "cut off" in reading.refused
    with pytest.raises(BadRecord, match="cut off"):
        look(tmp_path, "benchmarks.json", whole[:120])
