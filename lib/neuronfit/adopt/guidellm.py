"""GuideLLM: its JSON report (versions 1 and 2) and the CSV of means that serving scripts make of it.

Seconds and milliseconds by suffix. ``time_per_output_token_ms`` is the whole latency over the tokens,
first one included; ``inter_token_latency_ms`` leaves it out and is what others call TPOT. Figures of
answered requests are under ``successful``. A configured rate is not the achieved one. Its "Poisson"
repeats each gap once per worker process (seen with 0.8.1), so arrivals come in bursts.
"""

from __future__ import annotations

import re
from typing import Any, Optional

from neuronfit.adopt.document import Document, number, whole
from neuronfit.adopt.reading import Reading, Sample
from neuronfit.adopt.rules import examine
from neuronfit.adopt.tables import Table, csv_tables
from neuronfit.errors import BadRecord

__all__ = ["FORMATS", "read", "recognise"]

FORMATS = {
    "guidellm_json": "GuideLLM report, JSON version 1 or 2",
    "guidellm_csv": "GuideLLM means per model and load, CSV",
}

_METRICS = {"request_latency": ("latency", 1.0), "time_to_first_token_ms": ("ttft", 1e-3), "inter_token_latency_ms": ("tpot", 1e-3)}


def recognise(head: bytes, name: str) -> Optional[str]:
    text = head.decode("utf-8", "replace")
    bare = text.lstrip()
    if bare.startswith("{") and (
        '"guidellm_version"' in text
        or '"benchmarks"' in text
        and re.search(r'"(generative_benchmark|request_totals|time_per_output_token_ms)"', text)
    ):
        return "guidellm_json"
    if bare.startswith("{") and '"benchmarks"' in text and '"guidellm' in text:
        return "guidellm_json"
    line = bare.split("\n", 1)[0]
    if "Requests per Second" in line and "Request Latency (s)" in line and "Time-to-first-token (ms)" in line:
        return "guidellm_csv"
    return None


def read(document: Document, format: str) -> list[Reading]:
    return _csv(document) if format == "guidellm_csv" else _report(document)


def _report(document: Document) -> list[Reading]:
    data = document.json
    benchmarks = data.get("benchmarks") if isinstance(data, dict) else None
    if not isinstance(benchmarks, list) or not benchmarks:
        raise BadRecord("no benchmark in the GuideLLM report", document.name, allowed="a list under benchmarks")
    metadata = data.get("metadata") if isinstance(data.get("metadata"), dict) else {}
    version = metadata.get("guidellm_version")
    spec = _inner(data, "config", "spec")
    readings = [_benchmark(entry, version, spec) for entry in benchmarks if isinstance(entry, dict) and isinstance(entry.get("metrics"), dict)]
    if not readings:
        raise BadRecord("no benchmark of the GuideLLM report has metrics", document.name)
    return readings


def _inner(data: Any, *path: str) -> dict[str, Any]:
    for key in path:
        data = data.get(key) if isinstance(data, dict) else None
    return data if isinstance(data, dict) else {}


def _benchmark(entry: dict[str, Any], version: Any, spec: dict[str, Any]) -> Reading:
    config = _inner(entry, "config")
    strategy = (
        _inner(config, "strategy") or _inner(entry, "scheduler", "strategy") or _inner(entry, "args", "strategy") or _inner(entry, "args", "profile")
    )
    kind = str(strategy.get("type_") or strategy.get("kind") or "")
    rate = number(strategy.get("rate"))
    backend = _inner(config, "backend") or _inner(spec, "backend") or _inner(entry, "benchmarker", "backend") or _worker(entry)
    reading = Reading("guidellm_json", tool="GuideLLM", tool_version=str(version) if version else None, model=_text(backend.get("model")))
    reading.label = f"{kind} {rate:g}/s" if rate and kind in ("constant", "poisson", "async") else kind
    if kind in ("constant", "poisson", "async"):
        reading.request_rate = rate
    elif kind == "concurrent":
        reading.concurrency = number(strategy.get("streams") or strategy.get("max_concurrency"))
    elif kind == "synchronous":
        reading.concurrency, reading.scenario = 1.0, "single_stream"
    metrics = entry["metrics"]
    for name, (target, factor) in _METRICS.items():
        _distribution(reading, _branch(metrics.get(name)), target, factor)
    rates = _branch(metrics.get("requests_per_second"))
    reading.give("requests_per_s", number(rates.get("mean")))
    reading.give("output_tokens_per_s", number(_branch(metrics.get("output_tokens_per_second")).get("mean")))
    output, prompt = _branch(metrics.get("output_token_count")), _branch(metrics.get("prompt_token_count"))
    reading.output_tokens, reading.input_tokens = number(output.get("mean")), number(prompt.get("mean"))
    for side, part in (("output", output), ("input", prompt)):
        for end in ("min", "max"):
            if (value := number(part.get(end))) is not None:
                reading.extremes[f"{side}_tokens_{end}"] = value
    included = number(_branch(metrics.get("time_per_output_token_ms")).get("mean"))
    if included is not None:
        excluded = reading.values.get("tpot_mean_s")
        beside = f", {1e3 * excluded:.4g} ms without it" if excluded else ""
        reading.printed["time per output token, first one included"] = f"{included:g} ms"
        reading.fault(
            "tpot_redefined",
            f"the tool's time per output token, {included:.4g} ms, contains the first token{beside}; the latter is used (inter_token_latency_ms)",
        )
    totals = _branch_counts(metrics.get("request_totals"), entry)
    reading.completed, errored, incomplete = totals
    reading.failed = errored
    if incomplete:
        reading.facts["requests cut off by the end of the run"] = str(incomplete)
    scheduler = _inner(entry, "scheduler_metrics") or _inner(entry, "run_stats")
    begin, end = number(scheduler.get("measure_start_time")), number(scheduler.get("measure_end_time"))
    if begin is None or end is None:
        begin, end = number(entry.get("start_time")), number(entry.get("end_time"))
    reading.duration_s = end - begin if begin is not None and end is not None and end > begin else number(entry.get("duration"))
    if reading.request_rate and reading.completed and reading.duration_s:
        achieved = reading.completed / reading.duration_s
        reading.facts["achieved"] = f"{achieved:.3g} requests/s over {reading.duration_s:.3g} s, {reading.request_rate:g} configured"
    queued, busy = number(scheduler.get("queued_time_avg")), number(scheduler.get("request_time_avg"))
    if queued and busy and queued > busy:
        reading.facts["waiting in the tool"] = f"{queued:.3g} s on average before sending, {busy:.3g} s for the request"
    scheduled = number(_branch(metrics.get("request_scheduled_latency")).get("mean"))
    if scheduled is not None:
        reading.printed["latency from schedule, mean"] = f"{scheduled:g} s"
    reading.expected_output_tokens = _asked_tokens(entry, spec)
    _mock(reading, backend)
    _requests(reading, entry)
    if kind == "poisson":
        because = "this tool's Poisson arrivals repeat each gap in every worker process (version 0.8.1): the load comes in bursts and its rate is off"
        reading.fault("not_poisson", because, "use a constant rate, or another generator for Poisson load")
    if kind == "throughput":
        reading.fault("latency_bound", "all requests were sent at once: take the throughput from this row, and no latency")
    reading.definitions.update(latency_from="send", tpot="the tool's inter token latency, first token left out")
    return examine(reading)


def _worker(entry: dict[str, Any]) -> dict[str, Any]:
    """Version 0.2 keeps the server in ``worker`` as ``backend_target`` and ``backend_model``."""
    worker = _inner(entry, "worker")
    return {name: worker[f"backend_{name}"] for name in ("model", "target") if worker.get(f"backend_{name}")}


def _asked_tokens(entry: dict[str, Any], spec: dict[str, Any]) -> Optional[float]:
    """Output tokens that the synthetic data asked for: a dict under ``data``, or text such as ``prompt_tokens=512,output_tokens=128``."""
    expected = next((part for part in spec.get("data") or [] if isinstance(part, dict) and part.get("output_tokens")), {})
    if expected:
        return number(expected.get("output_tokens"))
    said = _inner(entry, "request_loader").get("data") or _inner(entry, "benchmarker", "requests").get("data")
    match = re.search(r"[\"']?output_tokens[\"']?\s*[=:]\s*(\d+)", str(said or ""))
    return float(match.group(1)) if match else None


def _branch(metric: Any) -> dict[str, Any]:
    """The figures of answered requests; some versions have no branches."""
    if not isinstance(metric, dict):
        return {}
    branch = metric.get("successful", metric)
    return branch if isinstance(branch, dict) else {}


def _distribution(reading: Reading, part: dict[str, Any], kind: str, factor: float) -> None:
    if not part or number(part.get("count")) == 0:
        return
    for name, key in (("mean", "mean"), ("median", "p50")):
        if (value := number(part.get(name))) is not None:
            reading.values[f"{kind}_{key}_s"] = value * factor
    percentiles = part.get("percentiles") if isinstance(part.get("percentiles"), dict) else {}
    for name in ("p50", "p90", "p95", "p99"):
        if (value := number(percentiles.get(name))) is not None:
            reading.values[f"{kind}_{name}_s"] = value * factor
    for name in ("min", "max"):
        if (value := number(part.get(name))) is not None:
            reading.extremes[f"{kind}_{name}_s"] = value * factor


def _branch_counts(totals: Any, entry: dict[str, Any]) -> tuple[Optional[int], Optional[int], int]:
    """Answered, failed, and cut off by the end."""
    if not isinstance(totals, dict):
        totals = _inner(entry, "request_totals") or _inner(entry, "scheduler_metrics", "requests_made") or _inner(entry, "run_stats", "requests_made")
    done, errored, open_ones = (whole(totals.get(name)) for name in ("successful", "errored", "incomplete"))
    return done, errored, open_ones or 0


def _mock(reading: Reading, backend: dict[str, Any]) -> None:
    words = f"{backend.get('model') or ''} {backend.get('target') or ''}".lower()
    if re.search(r"mock|\b(fake|dummy|stub)\b", words):
        reading.fault(
            "mock_server",
            f"the server is a stand-in ({backend.get('model')}): these are figures of a test, not of hardware",
            "measure the real endpoint",
        )


def _requests(reading: Reading, entry: dict[str, Any]) -> None:
    """Per-request rows, where the report keeps them."""
    rows = _inner(entry, "requests").get("successful")
    if not isinstance(rows, list) or not rows:
        return
    samples = []
    for row in rows:
        if not isinstance(row, dict):
            return
        latency, first = number(row.get("request_latency")), number(row.get("time_to_first_token_ms"))
        tokens = whole(row.get("output_tokens") if row.get("output_tokens") is not None else _inner(row, "output_metrics").get("total_tokens"))
        if latency is None:
            return
        prompt = whole(row.get("prompt_tokens"))
        samples.append(Sample(latency, first * 1e-3 if first is not None else None, tokens, prompt, number(row.get("request_start_time"))))
    if reading.completed in (None, len(samples)):
        keep = {name: value for name, value in reading.values.items() if name.startswith("tpot_")}
        reading.samples = tuple(samples)
        reading.values.update(keep)


def _text(value: Any) -> Optional[str]:
    return str(value) if value not in (None, "") else None


# -- CSV of means -------------------------------------------------------------------------------


def _csv(document: Document) -> list[Reading]:
    [table] = csv_tables(document.text)[:1]
    readings = [_csv_row(table, row) for row in table.rows]
    if table.cut:
        readings[-1].fault("cut_off", "the last row of the file is cut off", "copy the whole file again")
    _not_queueing(readings)
    _repetitions(readings)
    return readings


def _not_queueing(readings: list[Reading]) -> None:
    """A first token that takes as long with one request at a time waits for no queue."""
    alone: dict[Optional[str], float] = {}
    for reading in readings:
        if reading.label.startswith("synchronous") and (first := reading.values.get("ttft_mean_s")):
            alone[reading.model] = max(alone.get(reading.model, 0.0), first)
    for reading in readings:
        if reading.values.get("ttft_mean_s", 0.0) <= 1.25 * alone.get(reading.model, 0.0):
            reading.faults[:] = [fault for fault in reading.faults if fault.code != "queueing"]


def _csv_row(table: Table, row: dict[str, str]) -> Reading:
    kind = row.get("Input type", "")
    model = row.get("model_id")
    reading = Reading("guidellm_csv", tool="GuideLLM", model=model, label=f"{kind.split('@')[0]} {row.get('Date', '')}".strip())
    reading.give("requests_per_s", table.number(row, "Requests per Second"))
    reading.give("latency_mean_s", table.number(row, "Request Latency (s)"))
    reading.give("ttft_mean_s", table.number(row, "Time-to-first-token (ms)"), 1e-3)
    reading.give("tpot_mean_s", table.number(row, "Inter Token Latency (ms)"), 1e-3)
    reading.give("output_tokens_per_s", table.number(row, "Output Token Throughput (t/s)"))
    rate, out = reading.values.get("requests_per_s"), reading.values.get("output_tokens_per_s")
    if rate and out:
        reading.output_tokens = out / rate
    if kind == "synchronous":
        reading.concurrency, reading.scenario = 1.0, "single_stream"
    elif match := re.match(r"asynchronous@([\d.]+) req/sec", kind):
        reading.request_rate = float(match.group(1))
    reading.facts["load"] = kind
    if batch := re.search(r"-bs(\d+)\b", model or ""):
        reading.set("batch_size", int(batch.group(1)))
    reading.definitions.update(latency_from="send", tpot="the tool's inter token latency, first token left out")
    return examine(reading)


def _repetitions(readings: list[Reading]) -> None:
    """Runs of the same model at the same kind of load: how far they lie apart, and whether the first was cold."""
    groups: dict[tuple[Optional[str], str], list[Reading]] = {}
    for reading in readings:
        groups.setdefault((reading.model, reading.label.split(" ")[0]), []).append(reading)
    for (model, kind), runs in groups.items():
        rates = [run.values["requests_per_s"] for run in runs if "requests_per_s" in run.values]
        if len(rates) < 2:
            continue
        spread = (max(rates) - min(rates)) / (sum(rates) / len(rates))
        said = " / ".join(f"{rate:.4g}" for rate in rates)
        for run in runs:
            run.fault("repeated_runs", f"{len(rates)} runs of {model}, {kind}: {said} requests/s, {100 * spread:.1f} % apart")
        firsts = [run.values.get("ttft_mean_s") for run in runs]
        rest = [value for value in firsts[1:] if value]
        if firsts[0] and rest and firsts[0] > 1.5 * max(rest):
            because = f"time to first token {1e3 * firsts[0]:.0f} ms in the first run, {' / '.join(f'{1e3 * value:.0f}' for value in rest)} ms in the others: warm-up is inside"
            runs[0].fault("cold_start", because, "use the later runs")
    models = list(dict.fromkeys(reading.model for reading in readings if reading.model))
    top: dict[Optional[str], float] = {}
    for reading in readings:
        if reading.label.startswith("throughput"):
            top[reading.model] = max(top.get(reading.model, 0.0), reading.values.get("requests_per_s", 0.0))
    for reading in readings:
        if reading.label.startswith("throughput") and reading.model in top:
            reading.fault("operating_point", f"{reading.model} saturates at about {top[reading.model]:.3g} requests/s")
        if len(models) > 1:
            reading.fault(
                "several_models",
                f"the file holds {len(models)} models ({', '.join(models)}); rows are kept apart by model, whatever the file is called",
            )
