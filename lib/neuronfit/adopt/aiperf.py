"""AIPerf and GenAI-Perf: the JSON export (flat, or under ``records``), one line per request, CSV, and the console table.

Each metric carries its own unit. ``inter_token_latency`` is (latency - TTFT) / (tokens - 1), what
others call TPOT; ``inter_chunk_latency`` is the gap. ``request_latency`` starts at sending,
``effective_latency`` at the moment the request was due. The columns of the console and the CSV are not
in rising order (avg, min, max, p99, p90, ...), so they are read by name.
"""

from __future__ import annotations

import re
from typing import Any, Optional

from neuronfit.adopt.document import Document, number, seconds_per, whole
from neuronfit.adopt.reading import Reading, Sample
from neuronfit.adopt.rules import examine
from neuronfit.adopt.tables import Table, box_tables, csv_tables
from neuronfit.errors import BadRecord

__all__ = ["FORMATS", "read", "recognise"]

FORMATS = {
    "aiperf_json": "AIPerf or GenAI-Perf export, JSON",
    "aiperf_jsonl": "AIPerf records, a JSON line per request",
    "genai_perf_csv": "AIPerf or GenAI-Perf export, CSV",
    "aiperf_console": "AIPerf or GenAI-Perf console table",
    "perf_analyzer_raw": "perf_analyzer's raw export under GenAI-Perf, JSON",
}

_TAGS = {
    "request_latency": "latency",
    "time_to_first_token": "ttft",
    "ttft": "ttft",
    "inter_token_latency": "tpot",
    "inter_chunk_latency": "itl",
}
_STATISTICS = {"avg": "mean", "mean": "mean", "p50": "p50", "median": "p50", "p90": "p90", "p95": "p95", "p99": "p99"}
_EXTREMES = ("min", "max", "p75", "p25", "std")


def recognise(head: bytes, name: str) -> Optional[str]:
    text = head.decode("utf-8", "replace")
    bare = text.lstrip()
    if re.search(r"NVIDIA (AIPerf|GenAI-Perf)\s*\|", text) and re.search("[┃│]", text):
        return "aiperf_console"
    if bare.startswith("{"):
        first = bare.split("\n", 1)[0]
        if (
            '"metadata"' in first
            and '"metrics"' in first
            and '"benchmarks"' not in first
            and re.search(r'"(request_latency|error_request_count|x_request_id)"', first)
        ):
            return "aiperf_jsonl"
        if '"experiments"' in text and '"response_timestamps"' in text:
            return "perf_analyzer_raw"
        if re.search(r'"(request_throughput|request_latency|time_to_first_token)"\s*:\s*\{', text) and '"avg"' in text and '"unit"' in text:
            return "aiperf_json"
    if re.match(r"\"?Metric\"?,\"?avg\"?,", bare) and re.search(r"(?i)request latency|time to first token|request throughput", text):
        return "genai_perf_csv"
    return None


def read(document: Document, format: str) -> list[Reading]:
    if format == "aiperf_json":
        return _export(document)
    if format == "aiperf_jsonl":
        return _records(document)
    if format == "genai_perf_csv":
        return _csv(document)
    if format == "perf_analyzer_raw":
        return _raw(document)
    tables = [table for table in box_tables(document.text) if table.header and table.header[0] in ("Metric", "Statistic")]
    if not tables:
        raise BadRecord("no metric table in the console text", document.name, allowed="the table with its header row")
    return [_console(table) for table in tables]


# -- one metric, wherever it stood --------------------------------------------------------------


def _take(reading: Reading, tag: str, unit: str, statistics: dict[str, Optional[float]]) -> None:
    """Store one metric; ``tag`` in snake case, ``statistics`` by AIPerf's names."""
    average = statistics.get("avg")
    if tag in _TAGS:
        factor = seconds_per(unit)
        if factor is None:
            reading.fault("unit_not_stated", f"{tag} has the unit {unit!r}, which is no duration; it is not used", severity="warning")
            return
        kind = _TAGS[tag]
        for name, value in statistics.items():
            if value is None:
                continue
            if name in _STATISTICS:
                reading.values[f"{kind}_{_STATISTICS[name]}_s"] = value * factor
            elif name in _EXTREMES:
                reading.extremes[f"{kind}_{name}_s"] = value * factor
        return
    if average is None:
        return
    if tag == "request_throughput":
        reading.give("requests_per_s", average)
    elif tag == "output_token_throughput":
        reading.give("output_tokens_per_s", average)
    elif tag == "output_token_throughput_per_user":
        reading.printed["output tokens per user"] = f"{average:g} tokens/s"
        if statistics.get("p99"):
            reading.facts["percentiles of throughput"] = "the upper ones are the good side"
    elif tag in ("goodput", "request_goodput"):
        reading.extremes["good_requests_per_s"] = average
    elif tag == "request_count":
        reading.completed = whole(average)
    elif tag == "error_request_count":
        reading.failed = whole(average)
    elif tag == "benchmark_duration":
        reading.duration_s = average * (seconds_per(unit) or 1.0)
    elif tag in ("output_sequence_length", "input_sequence_length"):
        side = tag.split("_", 1)[0]
        setattr(reading, f"{side}_tokens", average)
        for name in ("min", "max"):
            if statistics.get(name) is not None:
                reading.extremes[f"{side}_tokens_{name}"] = float(statistics[name] or 0.0)
    elif tag in ("effective_latency", "credit_to_start_latency"):
        reading.printed[f"{tag.replace('_', ' ')}, mean"] = f"{average:g} {unit}"
    elif tag == "time_to_second_token" or tag == "ttst":
        reading.printed["second token after the first, mean"] = f"{average:g} {unit}"
        middle, factor = statistics.get("p50"), seconds_per(unit)
        if middle is not None and factor and middle * factor < 1e-4:
            reading.fault(
                "itl_per_chunk", f"second token p50 {middle:.3g} {unit} after the first: both arrive in one chunk, so it is no gap between tokens"
            )


def _finished(reading: Reading) -> Reading:
    reading.definitions.setdefault("latency_from", "send")
    reading.definitions["tpot"] = "the tool's inter token latency: (latency - TTFT) / (tokens - 1)"
    if "ttft_mean_s" not in reading.values and "ttft_p50_s" not in reading.values and not reading.output_tokens and not reading.samples:
        reading.result_unit = "inference"
    if reading.completed is not None and reading.duration_s is None and (rate := reading.values.get("requests_per_s")):
        reading.facts["wall time, from count and rate"] = f"{reading.completed / rate:.4g} s"
    return examine(reading)


def _tag(name: str) -> tuple[str, str]:
    """``Time to First Token (ms)`` -> ``time_to_first_token``, ``ms``."""
    match = re.match(r"^(.*?)\s*\(([^()]*)\)\s*$", name.strip())
    words, unit = (match.group(1), match.group(2)) if match else (name.strip(), "")
    return re.sub(r"[^a-z0-9]+", "_", words.lower()).strip("_"), unit


# -- the four dresses ---------------------------------------------------------------------------


def _export(document: Document) -> list[Reading]:
    data = document.json
    if not isinstance(data, dict):
        raise BadRecord("not an AIPerf export", document.name, allowed="an object of metrics")
    metrics = data.get("records") if isinstance(data.get("records"), dict) else data
    version = data.get("aiperf_version") or data.get("version")
    reading = Reading(
        "aiperf_json", tool="GenAI-Perf" if "genai" in document.name.lower() else "AIPerf", tool_version=str(version) if version else None
    )
    settings = data.get("input_config") if isinstance(data.get("input_config"), dict) else {}
    _configured(reading, settings or {})
    for tag, entry in (metrics or {}).items():
        if isinstance(entry, dict) and "unit" in entry:
            _take(reading, tag, str(entry["unit"]), {name: number(value) for name, value in entry.items() if name != "unit"})
    if data.get("was_cancelled") or data.get("is_complete") is False:
        reading.fault("cut_off", f"the run was cancelled or is not complete ({data.get('incomplete_reason') or 'no reason given'})", "measure again")
    errors = data.get("error_summary")
    if isinstance(errors, list) and errors and reading.failed is None:
        reading.failed = sum(whole(entry.get("count")) or 0 for entry in errors if isinstance(entry, dict))
    if not reading.values:
        raise BadRecord("no metric with a unit in the file", document.name, allowed="request_latency, time_to_first_token, request_throughput ...")
    return [_finished(reading)]


def _configured(reading: Reading, config: dict[str, Any]) -> None:
    """``input_config``, nested differently in every version: look for what matters by name."""

    def walk(entry: Any) -> None:
        if isinstance(entry, dict):
            for key, value in entry.items():
                if isinstance(value, (dict, list)):
                    walk(value)
                elif value is None:
                    continue
                elif key in ("model", "model_name") and reading.model is None:
                    reading.model = str(value)
                elif key == "concurrency" and reading.concurrency is None:
                    reading.concurrency = number(value)
                elif key == "request_rate" and reading.request_rate is None:
                    reading.request_rate = number(value)
                elif key == "request_count" and reading.asked is None:
                    reading.asked = whole(value)
                elif key == "output_tokens_mean" and reading.expected_output_tokens is None and (number(value) or 0) > 0:
                    reading.expected_output_tokens = number(value)
        elif isinstance(entry, list):
            for part in entry:
                walk(part)
            if entry and all(isinstance(part, str) for part in entry):
                return

    names = config.get("model_names") or (config.get("endpoint") or {}).get("model_names") if isinstance(config.get("endpoint", {}), dict) else None
    if isinstance(names, list) and names:
        reading.model = str(names[0])
    walk(config)
    if reading.model is None and isinstance(config.get("model"), list) and config["model"]:
        reading.model = str(config["model"][0])


def _records(document: Document) -> list[Reading]:
    reading = Reading("aiperf_jsonl", tool="AIPerf", results_per_call=None)
    samples, errors, warm = [], [], []
    reasoning: list[tuple[int, int]] = []
    early = False
    for line, entry in document.lines:
        if not isinstance(entry, dict) or not isinstance(entry.get("metrics"), dict):
            raise BadRecord(f"line {line} is no AIPerf record", document.name, allowed="metadata, metrics, error")
        metrics, metadata = entry["metrics"], entry.get("metadata") or {}
        early = early or "ttft" in metrics or "credit_phase" in metadata
        if entry.get("error"):
            fault = entry["error"]
            errors.append(str(fault.get("type") or fault.get("message") or fault)[:120] if isinstance(fault, dict) else str(fault)[:120])
            continue
        latency = _metric_seconds(metrics, "request_latency")
        if latency is None:
            errors.append("no request latency")
            continue
        phase = str(metadata.get("benchmark_phase") or metadata.get("credit_phase") or "profiling")
        if phase not in ("profiling", "profile"):
            warm.append(latency)
            continue
        total = whole(_value(metrics, "output_sequence_length"))
        thinking = whole(_value(metrics, "reasoning_token_count"))
        if total and thinking:
            reasoning.append((total, thinking))
        begin = number(metadata.get("request_start_ns") or metadata.get("timestamp_ns") or _value(metrics, "min_request_timestamp"))
        samples.append(
            Sample(
                latency,
                _metric_seconds(metrics, "time_to_first_token", "ttft"),
                total if total is not None else whole(_value(metrics, "output_token_count")),
                whole(_value(metrics, "input_sequence_length")),
                begin * 1e-9 if begin else None,
            )
        )
    reading.samples, reading.errors, reading.warmup_s = tuple(samples), tuple(errors), tuple(warm)
    reading.failed = len(errors)
    if document.last_line_cut:
        reading.fault("cut_off", "the last line is cut off and left out; the run may have had more requests", "copy the whole file again")
    if early:
        reading.facts["schema"] = "early AIPerf names (ttft, credit_phase)"
    if reasoning:
        generated, hidden = sum(total for total, _ in reasoning), sum(part for _, part in reasoning)
        because = (
            f"{generated:,} output tokens include {hidden:,} of reasoning; all were generated and are counted, {generated - hidden:,} are visible"
        )
        reading.fault("token_counts_disagree", because)
    if not samples:
        reading.refused = "no request of the file has an answer"
    return [_finished(reading)]


def _raw(document: Document) -> list[Reading]:
    """Nanoseconds: when each request was sent and when each piece of its answer came. The tokens of a piece are not counted here."""
    data = document.json
    readings = []
    for entry in data.get("experiments") or []:
        load = entry.get("experiment") or {}
        reading = Reading("perf_analyzer_raw", tool="GenAI-Perf", tool_version=str(data.get("version") or "") or None)
        reading.label = f"{load.get('mode')} {load.get('value')}"
        if load.get("mode") == "concurrency":
            reading.concurrency = number(load.get("value"))
        elif load.get("mode") == "request_rate":
            reading.request_rate = number(load.get("value"))
        samples, lost = [], 0
        for request in entry.get("requests") or []:
            sent, pieces = number(request.get("timestamp")), [number(value) for value in request.get("response_timestamps") or []]
            times = [value for value in pieces if value is not None]
            if sent is None or not times:
                lost += 1
                continue
            outputs = request.get("response_outputs") or []
            if len(times) > 1 and outputs and "[DONE]" in str(outputs[-1]):
                times = times[:-1]
            streamed = len(times) > 1
            samples.append(Sample((times[-1] - sent) * 1e-9, (times[0] - sent) * 1e-9 if streamed else None, start_s=sent * 1e-9))
        reading.samples, reading.failed = tuple(samples), lost
        if data.get("service_kind") != "openai":
            reading.result_unit = "inference"
        reading.fault(
            "not_in_file",
            "token counts are not in the raw export: no time per token and no tokens/s",
            "adopt profile_export_genai_perf.json beside it",
        )
        if not samples:
            reading.refused = "no request of the file has an answer"
        readings.append(_finished(reading))
    return readings


def _value(metrics: dict[str, Any], *names: str) -> Any:
    for name in names:
        entry = metrics.get(name)
        if isinstance(entry, dict) and entry.get("value") is not None:
            return entry["value"]
    return None


def _metric_seconds(metrics: dict[str, Any], *names: str) -> Optional[float]:
    for name in names:
        entry = metrics.get(name)
        if isinstance(entry, dict) and (value := number(entry.get("value"))) is not None and (factor := seconds_per(entry.get("unit"))):
            return value * factor
    return None


def _csv(document: Document) -> list[Reading]:
    reading = Reading("genai_perf_csv", tool="GenAI-Perf or AIPerf")
    for table in csv_tables(document.text):
        if not table.header or table.header[0] != "Metric":
            continue
        for row in table.rows:
            tag, unit = _tag(row["Metric"])
            columns = [name for name in table.header if name != "Metric"]
            figures = {("avg" if name == "Value" else name): table.number(row, name) for name in columns}
            _take(reading, tag, unit, figures)
        if table.cut:
            reading.fault("cut_off", f"the last row is cut off: {table.cut[:60]}", "copy the whole file again")
    return [_finished(reading)]


def _console(table: Table) -> Reading:
    tool = "GenAI-Perf" if "GenAI-Perf" in table.title else "AIPerf"
    reading = Reading("aiperf_console", tool=tool, label=table.title.split("|")[-1].strip())
    first = table.header[0]
    for row in table.rows:
        tag, unit = _tag(row.get(first, ""))
        if tag == "output_token_throughput" and "user" in unit:
            tag = "output_token_throughput_per_user"
        figures = {name: table.number(row, name) for name in table.header if name != first}
        _take(reading, tag, unit, figures)
    if table.cut:
        reading.fault("cut_off", f"the table is cut in the row {table.cut.split(',')[0]!r}; later rows are not in the file", "copy the whole table")
    if "Embeddings" in table.title or "Rankings" in table.title:
        reading.result_unit = "inference"
        reading.fault("client_batch_unknown", "requests/s count calls; each may carry several texts", "say the client's batch with --batch-size")
    columns = [name for name in table.header if re.fullmatch(r"p\d+", name)]
    if columns and columns != sorted(columns, key=lambda name: int(name[1:])):
        reading.facts["columns"] = ", ".join(table.header[1:])
    slow = reading.values.get("ttft_mean_s", 0.0)
    if slow > 1:
        reading.facts["time to first token"] = f"{slow:.4g} s ({1e3 * slow:,.2f} ms as printed; the comma separates thousands)"
    return _finished(reading)
