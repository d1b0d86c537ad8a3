"""inference-perf: lifecycle reports of the client per stage, and the server's view from Prometheus. Seconds.

``time_per_output_token`` leaves the first token out, ``normalized_time_per_output_token`` does not.
A report without a requested rate pools all stages of a ramp: no operating point. The Prometheus view
covers another window than the client's and is checked against its own rates.
"""

from __future__ import annotations

from typing import Any, Optional

from neuronfit.adopt.document import Document, number, whole
from neuronfit.adopt.reading import Reading
from neuronfit.adopt.rules import examine
from neuronfit.errors import BadRecord

__all__ = ["FORMATS", "read", "recognise"]

FORMATS = {
    "inference_perf": "inference-perf lifecycle report of a stage or a summary, JSON",
    "inference_perf_prometheus": "inference-perf report of the server's Prometheus metrics, JSON",
}
_KINDS = {"request_latency": "latency", "time_to_first_token": "ttft", "time_per_output_token": "tpot", "inter_token_latency": "itl"}
_STATISTICS = {"mean": "mean", "median": "p50", "p50": "p50", "p90": "p90", "p95": "p95", "p99": "p99"}


def recognise(head: bytes, name: str) -> Optional[str]:
    text = head.decode("utf-8", "replace")
    if not text.lstrip().startswith("{") or '"successes"' not in text or '"load_summary"' not in text:
        return None
    return "inference_perf_prometheus" if '"kv_cache_usage_percentage"' in text or '"queue_len"' in text else "inference_perf"


def read(document: Document, format: str) -> list[Reading]:
    data = document.json
    successes = data.get("successes") if isinstance(data, dict) else None
    if not isinstance(successes, dict):
        raise BadRecord("no successes in the report", document.name, allowed="an inference-perf lifecycle report")
    return [_server(data, successes) if format == "inference_perf_prometheus" else _client(data, successes)]


def _take(reading: Reading, part: Any) -> None:
    for name, kind in _KINDS.items():
        entry = part.get(name) if isinstance(part, dict) else None
        if not isinstance(entry, dict):
            continue
        for key, value in entry.items():
            given = number(value)
            if given is None:
                continue
            if key in _STATISTICS:
                reading.values[f"{kind}_{_STATISTICS[key]}_s"] = given
            elif key in ("min", "max", "p75", "p25"):
                reading.extremes[f"{kind}_{key}_s"] = given


def _client(data: dict[str, Any], successes: dict[str, Any]) -> Reading:
    reading = Reading("inference_perf", tool="inference-perf")
    load = data.get("load_summary") or {}
    _take(reading, successes.get("latency") or successes)
    throughput = successes.get("throughput") or {}
    reading.give("requests_per_s", number(throughput.get("requests_per_sec")))
    reading.give("output_tokens_per_s", number(throughput.get("output_tokens_per_sec")))
    reading.give("input_tokens_per_s", number(throughput.get("input_tokens_per_sec")))
    reading.completed = whole(successes.get("count"))
    reading.failed = whole((data.get("failures") or {}).get("count"))
    for side, names in (("output", ("output_len", "output_tokens")), ("input", ("prompt_len", "prompt_tokens"))):
        part = next((successes[name] for name in names if isinstance(successes.get(name), dict)), {})
        setattr(reading, f"{side}_tokens", number(part.get("mean")))
        for end in ("min", "max"):
            if (value := number(part.get(end))) is not None:
                reading.extremes[f"{side}_tokens_{end}"] = value
    reading.request_rate = number(load.get("requested_rate"))
    reading.label = f"{reading.request_rate:g} requests/s" if reading.request_rate else ""
    delay = load.get("schedule_delay") or {}
    if (mean := number(delay.get("mean"))) is not None:
        reading.printed["delay against the schedule, mean"] = f"{mean:.4g} s"
        reading.definitions["latency_from"] = "send; the delay against the schedule is apart"
    if (normalized := (successes.get("latency") or {}).get("normalized_time_per_output_token")) and (
        value := number(normalized.get("mean"))
    ) is not None:
        reading.printed["time per output token, first one included"] = f"{1e3 * value:.4g} ms"
        per = reading.values.get("tpot_mean_s")
        if per:
            because = f"normalised time per token {1e3 * value:.4g} ms contains the first token, {1e3 * per:.4g} ms does not and is used"
            reading.fault("tpot_redefined", because)
    if reading.request_rate is None and load:
        late = f", requests were {mean:.3g} s late on average" if mean and mean > 0.1 else ""
        because = f"no requested rate: the report pools every stage of the ramp{late}; its {reading.values.get('requests_per_s', 0):.3g} requests/s are an average over idle and saturated stages"
        reading.fault("stages_pooled", because, "adopt the files of the stages (stage_N_lifecycle_metrics.json)")
        reading.refused = "it pools several loads and is no operating point"
        reading.instead = "neuronfit adopt stage_N_lifecycle_metrics.json, a stage at a time"
    elif mean and mean > 0.1:
        reading.fault(
            "rate_not_reached",
            f"requests left {mean:.3g} s later than scheduled on average: the client could not keep the rate",
            "more client processes",
        )
    return examine(reading)


def _server(data: dict[str, Any], successes: dict[str, Any]) -> Reading:
    reading = Reading("inference_perf_prometheus", tool="inference-perf", label="server's view")
    _take(reading, successes)
    reading.completed = whole(successes.get("count"))
    rate = number(successes.get("rate"))
    reading.give("requests_per_s", rate)
    for side, name in (("output", "output_len"), ("input", "prompt_len")):
        part = successes.get(name) or {}
        mean, per_second = number(part.get("mean")), number(part.get("rate"))
        if mean is None or not per_second or not rate:
            continue
        real = per_second / rate
        setattr(reading, f"{side}_tokens", real)
        reading.give(f"{side}_tokens_per_s", per_second)
        if not 0.9 < mean / real < 1.1:
            because = f"{name} mean is {mean:g}, but {per_second:.6g} tokens/s over {rate:.5g} requests/s are {real:.4g}: the mean is off by a factor of {mean / real:.0f}"
            reading.fault("means_contradict_rates", because, "do not use this file; adopt the client's lifecycle report of the stage")
    zero = [name for name in ("kv_cache_usage_percentage", "prefix_cache_hit_percent") if number((successes.get(name) or {}).get("mean")) == 0.0]
    if zero:
        reading.fault("metric_missing", f"{', '.join(zero)} is 0.0 throughout under load: not scraped, not empty")
    if not data.get("failures"):
        reading.fault("failures_not_stated", "the failures are empty: not counted, not zero")
    reading.facts["window"] = "the scrape window, which spans neighbouring stages: the count is not that of the client's stage"
    if any(fault.code == "means_contradict_rates" for fault in reading.faults):
        reading.refused = "its means contradict its own rates"
        reading.instead = "the client's lifecycle report of the same stage"
    return examine(reading)
