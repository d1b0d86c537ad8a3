"""NxD Inference and Neuron runs: `benchmark_report.json`, lists of cold and warm runs, LLMeter results.

NxD Inference writes milliseconds per part (``e2e_model``, ``context_encoding_model``,
``token_generation_model``) with percentiles up to p100 and tokens/s of the batch. A run tagged COLD has
the compilation inside. LLMeter writes seconds: ``stats.json``, ``responses.jsonl``.
"""

from __future__ import annotations

import re
from typing import Any, Optional

from neuronfit.adopt.document import Document, number, whole
from neuronfit.adopt.reading import Reading, Sample
from neuronfit.adopt.rules import examine
from neuronfit.errors import BadRecord

__all__ = ["FORMATS", "read", "recognise"]

FORMATS = {
    "nxdi_report": "NxD Inference benchmark report, JSON",
    "neuron_runs": "lists of cold and warm runs, JSON",
    "covex_metrics": "covex-neuron metrics, JSON",
    "llmeter_stats": "LLMeter statistics, JSON",
    "llmeter_responses": "LLMeter responses, JSON lines",
}


def recognise(head: bytes, name: str) -> Optional[str]:
    text = head.decode("utf-8", "replace")
    bare = text.lstrip()
    if bare[:1] not in "{[":
        return None
    if re.search(r'"(e2e_model|context_encoding_model|token_generation_model)"', text) and "latency_ms_p50" in text:
        return "nxdi_report"
    if '"runs"' in text and '"total_time_ms"' in text and '"tag"' in text:
        return "neuron_runs"
    if '"warm_latency_ms_p50"' in text and '"first_batch_s"' in text:
        return "covex_metrics"
    if re.search(r'"time_to_last_token-(p50|average)"', text):
        return "llmeter_stats"
    if '"time_to_last_token"' in text and '"input_prompt"' in text:
        return "llmeter_responses"
    return None


def read(document: Document, format: str) -> list[Reading]:
    return {
        "nxdi_report": _nxdi,
        "neuron_runs": _runs,
        "covex_metrics": _covex,
        "llmeter_stats": _llmeter_stats,
        "llmeter_responses": _llmeter_responses,
    }[format](document)


def _nxdi(document: Document) -> list[Reading]:
    data = document.json
    whole_model = data.get("e2e_model")
    if not isinstance(whole_model, dict):
        raise BadRecord("no e2e_model in the report", document.name, allowed="an NxD Inference benchmark report")
    reading = Reading("nxdi_report", tool="NxD Inference", label="e2e_model", latency_of="batch", scenario="offline")
    for quantile in ("p50", "p90", "p95", "p99"):
        reading.give(f"latency_{quantile}_s", number(whole_model.get(f"latency_ms_{quantile}")), 1e-3)
    reading.give("latency_mean_s", number(whole_model.get("latency_ms_avg")), 1e-3)
    if (top := number(whole_model.get("latency_ms_p100"))) is not None:
        reading.extremes["latency_max_s"] = top * 1e-3
    rate = number(whole_model.get("throughput"))
    if rate is not None:
        reading.values["output_tokens_per_s"] = rate
    for part, kind in (("context_encoding_model", "ttft"), ("token_generation_model", "tpot")):
        entry = data.get(part)
        if isinstance(entry, dict):
            for quantile in ("p50", "p90", "p95", "p99"):
                reading.give(f"{kind}_{quantile}_s", number(entry.get(f"latency_ms_{quantile}")), 1e-3)
            reading.give(f"{kind}_mean_s", number(entry.get("latency_ms_avg")), 1e-3)
    reading.definitions.update(latency="one batch, prefill and all tokens", tpot="one call of the token generation model")
    reading.fault("sample_count_unknown", "the report does not say how many runs it rests on (20 unless configured)", "say it with --requests")
    reading.fault(
        "latency_of_whole_batch",
        "context encoding is for the whole batch of prompts; throughput counts (input and output) sequence positions as configured",
    )
    reading.fault(
        "not_in_file",
        "batch, lengths, precision and instance are not in the report",
        "give --batch-size, --sequence-length, --output-length, --precision",
    )
    return [examine(reading, serving=False)]


def _runs(document: Document) -> list[Reading]:
    data = document.json
    blocks = data.items() if isinstance(data, dict) and "runs" not in data else [("runs", data)]
    readings = [_block(name, entry) for name, entry in blocks if isinstance(entry, dict) and isinstance(entry.get("runs"), list)]
    if not readings:
        raise BadRecord("no block with runs in the file", document.name)
    return readings


def _block(name: str, entry: dict[str, Any]) -> Reading:
    runs = [run for run in entry["runs"] if isinstance(run, dict) and number(run.get("total_time_ms")) is not None]
    cold = [run for run in runs if str(run.get("tag", "")).upper() in ("COLD", "WARMUP", "WARM-UP")]
    warm = [run for run in runs if run not in cold]
    reading = Reading("neuron_runs", tool="Neuron run log", label=name.removeprefix("metrics_"), latency_of="batch", scenario="single_stream")
    prefill = all((whole(run.get("output_len")) or 0) <= 1 for run in runs)
    reading.samples = tuple(
        Sample(
            float(number(run["total_time_ms"]) or 0) * 1e-3, None, whole(run.get("output_len")), whole(run.get("prompt_len") or run.get("input_len"))
        )
        for run in warm
    )
    reading.warmup_s = tuple(float(number(run["total_time_ms"]) or 0) * 1e-3 for run in cold)
    reading.completed, reading.failed = len(warm), 0
    reading.duration_s = sum(sample.latency_s for sample in reading.samples) or None
    reading.set("batch_size", whole(entry.get("batch_size")))
    if cold and warm:
        first, later = reading.warmup_s[0], reading.samples[0].latency_s
        mean = (sum(reading.warmup_s) + sum(sample.latency_s for sample in reading.samples)) / len(runs)
        because = f"the cold run took {1e3 * first:,.6g} ms, the warm one {1e3 * later:,.6g} ms: {first / later:,.3g} times: compile or load is inside (the mean of all would be {mean:.3g} s)"
        if first > 1.2 * later:
            reading.fault("cold_start", because, "cold runs are kept as warm-up and left out")
    elif not warm:
        reading.refused = "only cold runs"
    zero = [run for run in runs if number(run.get("tpt_ms")) == 0]
    if zero and prefill:
        reading.fault("metric_missing", "time per token is 0.0 for prefill: not measured, not zero")
    per = [number(run.get("tpt_ms")) for run in warm]
    if per and all(per):
        reading.values["tpot_mean_s"] = sum(value for value in per if value) / len(per) * 1e-3
    if prefill:
        reading.result_unit = "sequence"
    reading.facts["what"] = "prefill" if prefill else "decode"
    return examine(reading, serving=False)


def _covex(document: Document) -> list[Reading]:
    """Written by the user's script: warm latency of a batch, the first batch apart."""
    data = document.json
    reading = Reading(
        "covex_metrics", tool="covex-neuron", label=str(data.get("device") or ""), latency_of="batch", result_unit="inference", scenario="offline"
    )
    for quantile in ("p50", "p95"):
        reading.give(f"latency_{quantile}_s", number(data.get(f"warm_latency_ms_{quantile}")), 1e-3)
    reading.give("throughput_per_s", number(data.get("throughput_items_per_s")))
    first = number(data.get("first_batch_s"))
    if first is not None:
        reading.facts["first batch"] = f"{first:g} s, compile time inside"
    because = "its prepare() makes the Trainium side bf16 and pads to 128 tokens, the GPU side stays fp32 and unpadded: not the same work"
    reading.fault("rows_differ", because, "say the precision with --precision, and compare equal ones only")
    return [examine(reading, serving=False)]


# -- LLMeter ------------------------------------------------------------------------------------


def _llmeter_stats(document: Document) -> list[Reading]:
    data = document.json
    reading = Reading("llmeter_stats", tool="LLMeter", model=data.get("model_id"))
    kinds = {"time_to_last_token": "latency", "time_to_first_token": "ttft", "time_per_output_token": "tpot"}
    for name, kind in kinds.items():
        for key, statistic in (("average", "mean"), ("p50", "p50"), ("p90", "p90"), ("p95", "p95"), ("p99", "p99")):
            reading.give(f"{kind}_{statistic}_s", number(data.get(f"{name}-{key}")))
    reading.input_tokens, reading.output_tokens = number(data.get("num_tokens_input-average")), number(data.get("num_tokens_output-average"))
    reading.asked, reading.failed = whole(data.get("total_requests")), whole(data.get("failed_requests"))
    reading.completed = reading.asked - reading.failed if reading.asked is not None and reading.failed is not None else reading.asked
    reading.concurrency = number(data.get("clients"))
    minute = number(data.get("requests_per_minute"))
    reading.give("requests_per_s", minute / 60 if minute else None)
    reading.duration_s = number(data.get("total_test_time"))
    reading.definitions["latency_from"] = "send"
    _repeats(reading)
    return [examine(reading)]


def _llmeter_responses(document: Document) -> list[Reading]:
    reading = Reading("llmeter_responses", tool="LLMeter")
    samples, errors, prompts = [], [], set()
    for line, row in document.lines:
        if not isinstance(row, dict):
            raise BadRecord(f"line {line} is no LLMeter response", document.name)
        prompts.add(str(row.get("input_prompt")))
        latency = number(row.get("time_to_last_token"))
        if row.get("error") or not latency:
            errors.append(str(row.get("error") or "no time to last token")[:120])
            continue
        samples.append(
            Sample(latency, number(row.get("time_to_first_token")), whole(row.get("num_tokens_output")), whole(row.get("num_tokens_input")))
        )
    reading.samples, reading.errors, reading.failed = tuple(samples), tuple(errors), len(errors)
    if document.last_line_cut:
        reading.fault("cut_off", "the last line is cut off and left out", "copy the whole file again")
    total = len(samples) + len(errors)
    if total > 20 and len(prompts) < 0.5 * total:
        because = (
            f"{total:,} requests share {len(prompts)} prompts: up to {100 * (1 - len(prompts) / total):.0f} % may be answered from a prefix cache"
        )
        reading.fault("throughput_artefact", because, "measure with prompts that differ")
    if not samples:
        reading.refused = "no request of the file has an answer"
    reading.fault("not_in_file", "no wall time is in this file: the throughput is not", "adopt stats.json beside it as well")
    reading.definitions["latency_from"] = "send"
    return [examine(reading)]


def _repeats(reading: Reading) -> None:
    reading.fault(
        "closed_loop", "LLMeter's clients repeat their prompts: prefix caches may answer, and a cap of 1,000 connections looks like a plateau"
    )
