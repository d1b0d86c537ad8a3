"""LLMPerf: its summary, its list of responses, and the statistics text made of it. Seconds everywhere.

Its inter-token latency contains the first token and divides by the number of chunks, so the time per
token is recomputed as (latency - TTFT) / (tokens - 1). ``error_code`` -100 is the client's own rule
"too few tokens": a short answer, no failure of the server; in such rows the inter-token latency is a
sum. Requests go in rounds (Ray), so the client may idle and the throughput be too low.
(llmperf, token_benchmark_ray.py.)
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
    "llmperf_summary": "LLMPerf summary, JSON",
    "llmperf_responses": "LLMPerf individual responses, JSON",
    "llmperf_text": "LLMPerf statistics per GPU, text",
}
SHORT = -100
"""LLMPerf's own code for an answer with fewer tokens than asked."""


def recognise(head: bytes, name: str) -> Optional[str]:
    text = head.decode("utf-8", "replace")
    bare = text.lstrip()
    if bare.startswith("{") and re.search(r'"results[_.]?(ttft_s|inter_token_latency_s|end_to_end_latency_s|num_requests_started)', text):
        return "llmperf_summary"
    if bare[:1] in "[{" and '"end_to_end_latency_s"' in text and '"error_code"' in text and '"ttft_s"' in text:
        return "llmperf_responses"
    if "Average Throughput by GPU" in text or "Average Price per Token by GPU" in text:
        return "llmperf_text"
    return None


def read(document: Document, format: str) -> list[Reading]:
    return {"llmperf_summary": _summary, "llmperf_responses": _responses, "llmperf_text": _text}[format](document)


def _summary(document: Document) -> list[Reading]:
    data = document.json
    if not isinstance(data, dict):
        raise BadRecord("not an LLMPerf summary", document.name)
    flat = _flat(data)
    reading = Reading("llmperf_summary", tool="LLMPerf", tool_version=str(data.get("version") or "") or None, model=data.get("model"))
    for kind, name in (("latency", "end_to_end_latency_s"), ("ttft", "ttft_s")):
        for quantile in ("p50", "p90", "p95", "p99"):
            reading.give(f"{kind}_{quantile}_s", number(flat.get(f"results_{name}_quantiles_{quantile}")))
        reading.give(f"{kind}_mean_s", number(flat.get(f"results_{name}_mean")))
        for end in ("min", "max"):
            if (value := number(flat.get(f"results_{name}_{end}"))) is not None:
                reading.extremes[f"{kind}_{end}_s"] = value
    reading.output_tokens = number(flat.get("results_number_output_tokens_mean"))
    reading.input_tokens = number(flat.get("results_number_input_tokens_mean"))
    for end in ("min", "max"):
        if (value := number(flat.get(f"results_number_output_tokens_{end}"))) is not None:
            reading.extremes[f"output_tokens_{end}"] = value
    reading.concurrency = number(flat.get("num_concurrent_requests"))
    reading.expected_output_tokens = number(flat.get("mean_output_tokens"))
    reading.completed = whole(flat.get("results_num_completed_requests"))
    started = whole(flat.get("results_num_requests_started"))
    per_minute = number(flat.get("results_num_completed_requests_per_min"))
    reading.give("requests_per_s", per_minute / 60 if per_minute else None)
    reading.give("output_tokens_per_s", number(flat.get("results_mean_output_throughput_token_per_s")))
    _errors(reading, flat, started)
    _inter_token(reading, number(flat.get("results_inter_token_latency_s_quantiles_p50") or flat.get("results_inter_token_latency_s_mean")))
    own = number(flat.get("results_request_output_throughput_token_per_s_quantiles_p50"))
    if own:
        reading.printed["output tokens per user, p50"] = f"{own:.4g} tokens/s"
        together, answered = own * (reading.concurrency or 0), reading.values.get("output_tokens_per_s")
        if answered and together > 1.25 * answered:
            because = f"{own:.4g} tokens/s per user x {reading.concurrency:g} users would be {together:.4g}, {answered:.4g} tokens/s were counted over the wall time"
            reading.fault("client_idle", because, "read both; the capacity of the server lies between them")
    reading.definitions["latency_from"] = "send"
    return [examine(reading)]


def _flat(data: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested or flattened with ``_`` or ``.``: one spelling."""
    found: dict[str, Any] = {}
    for key, value in data.items():
        name = f"{prefix}{key}".replace(".", "_")
        if isinstance(value, dict):
            found.update(_flat(value, f"{name}_"))
        else:
            found[name] = value
    return found


def _errors(reading: Reading, flat: dict[str, Any], started: Optional[int]) -> None:
    """``error_code_frequency`` is a mapping, or its text."""
    count = whole(flat.get("results_number_errors")) or 0
    frequency = str(flat.get("results_error_code_frequency") or "")
    codes = {int(float(code)): int(number_) for code, number_ in re.findall(r"(-?\d+(?:\.0)?)['\"]?\s*:\s*(\d+)", frequency)}
    if not codes:
        codes = {
            int(float(key.rsplit("_", 1)[1])): whole(value) or 0 for key, value in flat.items() if re.match(r"results_error_code_frequency_-?\d", key)
        }
    short = codes.get(SHORT, 0)
    _short(reading, short, started)
    reading.failed = max(count - short, 0)
    reading.asked = (reading.completed or 0) + reading.failed


def _short(reading: Reading, short: int, started: Optional[int]) -> None:
    if not short:
        return
    of = f" of {started:,}" if started else ""
    reading.printed["answers left out as too short"] = str(short)
    because = f"{short:,}{of} answers had fewer tokens than asked (code {SHORT}, the client's own rule): the server failed none of them"
    reading.fault("short_answers", because, "percentiles are those of the long answers; ask for a fixed output length")


def _inter_token(reading: Reading, said: Optional[float]) -> None:
    """The tool's inter-token latency against the repaired time per token."""
    latency, first, tokens = (reading.values.get("latency_mean_s"), reading.values.get("ttft_mean_s"), reading.output_tokens)
    if said is not None:
        reading.printed["inter token latency, first token included"] = f"{1e3 * said:.4g} ms"
    if latency is None or first is None or not tokens or tokens <= 1:
        return
    repaired = (latency - first) / (tokens - 1)
    if not reading.samples:
        reading.values["tpot_mean_s"] = repaired
    middle, middle_first = reading.values.get("latency_p50_s"), reading.values.get("ttft_p50_s")
    median = f" ({1e3 * (middle - middle_first) / (tokens - 1):.3g} ms from the medians)" if middle and middle_first else ""
    reading.definitions["tpot"] = "recomputed: (mean latency - mean TTFT) / (mean tokens - 1)"
    if said is not None:
        because = f"the tool's inter token latency, {1e3 * said:.4g} ms, contains the first token; without it {1e3 * repaired:.4g} ms{median}, which is used"
        reading.fault("itl_includes_first_token", because)


def _responses(document: Document) -> list[Reading]:
    data = document.json
    rows = data if isinstance(data, list) else data.get("individual_responses") or [data]
    reading = Reading("llmperf_responses", tool="LLMPerf")
    samples, errors, short, sums = [], [], 0, []
    for row in rows:
        if not isinstance(row, dict) or "end_to_end_latency_s" not in row:
            raise BadRecord("an entry of the list is no LLMPerf response", document.name, allowed="ttft_s, end_to_end_latency_s, error_code ...")
        code = whole(row.get("error_code"))
        if code == SHORT:
            short += 1
            if (value := number(row.get("inter_token_latency_s"))) is not None:
                sums.append(value)
            continue
        latency = number(row.get("end_to_end_latency_s"))
        if row.get("error_code") is not None or not latency:
            errors.append(f"{row.get('error_code')}: {row.get('error_msg') or ''}"[:120])
            continue
        samples.append(Sample(latency, number(row.get("ttft_s")), whole(row.get("number_output_tokens")), whole(row.get("number_input_tokens"))))
    reading.samples, reading.errors = tuple(samples), tuple(errors)
    reading.failed, reading.completed = len(errors), len(samples)
    reading.asked = len(samples) + len(errors)
    _short(reading, short, len(rows))
    if sums:
        because = f"in the short answers inter_token_latency_s is the sum of all gaps (up to {max(sums):.3g} s), no gap; those rows are left out"
        reading.fault("itl_includes_first_token", because)
    if not samples:
        reading.refused = "no request of the file has an answer of the asked length"
    reading.definitions.update(latency_from="send", tpot="recomputed per request: (latency - TTFT) / (tokens - 1)")
    reading.fault(
        "not_in_file", "the list has no start times: neither wall time nor throughput can be had from it", "adopt the summary file beside it as well"
    )
    return [examine(reading)]


# -- statistics text ----------------------------------------------------------------------------


def _text(document: Document) -> list[Reading]:
    """Pivot tables that pandas printed, a block each: throughput, price per token, tokens per second per user."""
    blocks: dict[str, dict[str, float]] = {}
    title = ""
    for line in document.text.split("\n"):
        if line.startswith("Average ") and line.rstrip().endswith(":"):
            title = line.strip().rstrip(":")
            continue
        match = re.match(r"^(\S.*?)\s{1,}([-+0-9.eE]+)\s*$", line)
        if title and match and (value := number(match.group(2))) is not None and not line.startswith(("data_type", "gpu_info")):
            blocks.setdefault(title, {})[match.group(1).strip()] = value
    readings = []
    for device in dict.fromkeys(device for block in blocks.values() for device in block):
        figures = {title: block[device] for title, block in blocks.items() if device in block}
        readings.append(_device(device, figures))
    if not readings:
        raise BadRecord("no table of figures in the text", document.name)
    return readings


def _device(device: str, figures: dict[str, float]) -> Reading:
    reading = Reading("llmperf_text", tool="LLMPerf statistics", label=device)
    for title, value in figures.items():
        if "Throughput" in title:
            reading.give("output_tokens_per_s", value)
        elif "Token per Second" in title:
            reading.printed["output tokens per user"] = f"{value:g} tokens/s"
        elif "Price per Token" in title:
            reading.printed["price per token"] = f"{value:g} (no currency in the file)"
    together, alone = (
        reading.values.get("output_tokens_per_s"),
        next((value for title, value in figures.items() if "Token per Second" in title), None),
    )
    price = next((value for title, value in figures.items() if "Price per Token" in title), None)
    if together and alone:
        reading.facts["users that this implies"] = f"{together / alone:.3g}"
        reading.fault(
            "peak_not_throughput",
            f"two rates: {together:.4g} tokens/s of the whole server, {alone:.4g} tokens/s per user; the first is the throughput",
        )
    if together and price:
        hourly = together * 3600 * price
        because = f"{together:.4g} tokens/s x 3600 x {price:.3g} = {hourly:.2g} an hour, {1e6 * price:.3g} per million tokens"
        if hourly < 0.05:
            reading.fault(
                "price_implausible", f"{because}: no machine costs that; electricity only, or a price per second", "take the price from the catalogue"
            )
        else:
            reading.fault("price_in_file", f"{because}; the price basis is not stated", "prices come from the catalogue or pricing.overrides")
    return examine(reading)
