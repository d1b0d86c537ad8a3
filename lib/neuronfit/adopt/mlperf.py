"""MLPerf LoadGen: the summary and the detail log. Nanoseconds; latency from the scheduled time.

A result is VALID or INVALID, with reasons. Percentiles are nearest rank over all queries. In Offline
one query holds all samples, so its latency is the length of the run.
"""

from __future__ import annotations

import json
import re
from typing import Any, Optional

from neuronfit.adopt.document import Document, number, whole
from neuronfit.adopt.reading import Reading
from neuronfit.adopt.rules import examine, set_aside
from neuronfit.errors import BadRecord

__all__ = ["FORMATS", "read", "recognise"]

FORMATS = {"mlperf_summary": "MLPerf LoadGen summary, text", "mlperf_detail": "MLPerf LoadGen detail log, :::MLLOG lines"}
_SCENARIOS = {"singlestream": "single_stream", "multistream": "offline", "offline": "offline", "server": "server", "interactive": "server"}

_KINDS = {"latency": "latency", "first token latency": "ttft", "time to output token": "tpot"}


def recognise(head: bytes, name: str) -> Optional[str]:
    text = head.decode("utf-8", "replace")
    if ":::MLLOG" in text:
        return "mlperf_detail"
    return "mlperf_summary" if "MLPerf Results Summary" in text or ("SUT name" in text and "Scenario" in text and "Result is" in text) else None


def read(document: Document, format: str) -> list[Reading]:
    return [_detail(document) if format == "mlperf_detail" else _summary(document)]


def _summary(document: Document) -> Reading:
    pairs = dict(re.findall(r"^\s*([^:\n]+?)\s*:\s*(.+?)\s*$", document.text, re.MULTILINE))
    reading = _started(pairs.get("Scenario"), pairs.get("SUT name"), "mlperf_summary")
    for key, value in pairs.items():
        if match := re.match(r"(\d+(?:\.\d+)?)(?:th)? percentile (latency|first token latency|time to output token) \(ns\)$", key, re.IGNORECASE):
            _percentile(reading, float(match.group(1)), number(value), _KINDS[match.group(2).lower()])
        elif match := re.match(r"(Min|Max|Mean) (First Token latency|Time to Output Token) \(ns\)$", key, re.IGNORECASE):
            _spread(reading, match.group(1).lower(), number(value), _KINDS[match.group(2).lower()])
    reading.give("latency_mean_s", number(pairs.get("Mean latency (ns)")), 1e-9)
    for end in ("Min", "Max"):
        if (value := number(pairs.get(f"{end} latency (ns)"))) is not None:
            reading.extremes[f"latency_{end.lower()}_s"] = value * 1e-9
    rate = next(
        (number(pairs[name]) for name in pairs if re.match(r"(Samples per second|Completed samples per second|QPS w/o loadgen overhead)", name)), None
    )
    reading.give("throughput_per_s", rate)
    _tokens(reading, rate, next((number(pairs[name]) for name in pairs if re.match(r"(Completed )?tokens per second$", name, re.IGNORECASE)), None))
    if reading.scenario == "server":
        reading.give("requests_per_s", rate)
    if processed := re.search(r"^\s*\*\s*Processed (?:at least \d+ queries \((\d+)\)|(\d+) queries)", document.text, re.MULTILINE):
        reading.completed, reading.failed = int(processed.group(1) or processed.group(2)), 0  # a run with a lost query does not end
    if (asked := number(pairs.get("target_qps"))) and reading.scenario == "server":
        reading.request_rate = asked
    if (scheduled := number(pairs.get("Scheduled samples per second"))) is not None:
        reading.facts["scheduled"] = f"{scheduled:g} samples/s"
    if (count := whole(pairs.get("samples_per_query"))) is not None:
        reading.facts["samples per query"] = str(count)
        _multistream(reading, count)
    _verdict(reading, pairs.get("Result is"), _reasons(document.text))
    for key, value in pairs.items():
        if key.startswith("TTFT") or key.startswith("TPOT"):
            reading.facts[key] = value
    return _done(reading, pairs.get("Mode"))


def _started(scenario: Optional[str], name: Optional[str], format: str) -> Reading:
    reading = Reading(format, tool="MLPerf LoadGen", label=str(scenario or ""), result_unit="inference", latency_of="request")
    reading.scenario = _SCENARIOS.get(str(scenario or "").replace(" ", "").lower(), "unknown")
    if name:
        reading.facts["system under test"] = name
    reading.definitions["latency_from"] = "schedule"
    return reading


def _percentile(reading: Reading, percent: float, nanoseconds: Optional[float], kind: str = "latency") -> None:
    if nanoseconds is None:
        return
    name = f"p{percent:g}"
    if name in ("p50", "p90", "p95", "p99"):
        reading.values[f"{kind}_{name}_s"] = nanoseconds * 1e-9
    else:
        reading.printed[f"{kind} {name}"] = f"{nanoseconds * 1e-6:.6g} ms"


def _spread(reading: Reading, statistic: str, nanoseconds: Optional[float], kind: str) -> None:
    """Mean, min and max of the times of tokens; language models have them beside the latency."""
    if nanoseconds is None:
        return
    if statistic == "mean":
        reading.values[f"{kind}_mean_s"] = nanoseconds * 1e-9
    else:
        reading.extremes[f"{kind}_{statistic}_s"] = nanoseconds * 1e-9


def _tokens(reading: Reading, samples: Optional[float], tokens: Optional[float]) -> None:
    """A language model: the result is a token, and a sample an answer of several."""
    if tokens is None:
        return
    reading.result_unit = "token"
    reading.values["output_tokens_per_s"] = reading.values["throughput_per_s"] = tokens
    if samples:
        reading.values["requests_per_s"] = samples
        reading.output_tokens = tokens / samples


def _multistream(reading: Reading, samples: int) -> None:
    """MultiStream: a query holds several samples (8), one query after the other, and no throughput is printed."""
    if reading.label.replace(" ", "").lower() != "multistream":
        return
    reading.latency_of = "batch"
    reading.set("batch_size", samples)
    mean = reading.values.get("latency_mean_s")
    if mean and "throughput_per_s" not in reading.values:
        reading.values["throughput_per_s"] = samples / mean
        reading.definitions["throughput"] = f"recomputed: {samples} samples of a query over its mean latency"
    reading.fault("latency_of_whole_batch", f"MultiStream: the latency is of a query of {samples} samples together")


def _reasons(text: str) -> list[str]:
    return [match.strip() for match in re.findall(r"^\s*\*\s*(.+)$", text, re.MULTILINE)]


def _verdict(reading: Reading, said: Optional[str], reasons: list[str]) -> None:
    if said is None:
        return
    reading.facts["result"] = said
    if "INVALID" in said.upper():
        because = "; ".join(reasons) or "no reason given"
        reading.fault("result_invalid", f"LoadGen calls the result INVALID: {because}", "measure again as it recommends")


def _done(reading: Reading, mode: Optional[str]) -> Reading:
    if mode and "accuracy" in mode.lower():
        reading.fault("result_invalid", "an accuracy run: its times are not performance", "adopt the performance run")
    if reading.label.lower() == "offline":
        for name in [name for name in reading.values if name.startswith(("latency_", "ttft_", "tpot_"))]:
            set_aside(reading, name)
        reading.fault(
            "latency_of_whole_batch", "Offline: one query holds every sample, so its latency is the length of the run; only the throughput is used"
        )
    return examine(reading, serving=reading.scenario == "server")


def _detail(document: Document) -> Reading:
    found: dict[str, Any] = {}
    errors: list[str] = []
    lines = [line for line in document.text.split("\n") if ":::MLLOG" in line]
    broken = 0
    for place, line in enumerate(lines):
        try:
            entry = json.loads(line.split(":::MLLOG", 1)[1])
        except ValueError:
            broken += 1
            if place < len(lines) - 1:
                errors.append(line[:80])
            continue
        key = entry.get("key")
        if entry.get("metadata", {}).get("is_error"):
            errors.append(f"{key}: {entry.get('value')}"[:120])
        if key:
            found[str(key)] = entry.get("value")
    if not found:
        raise BadRecord("no readable :::MLLOG line", document.name, allowed=':::MLLOG {"key": ..., "value": ...}')
    reading = _started(found.get("effective_scenario") or found.get("requested_scenario"), found.get("sut_name"), "mlperf_detail")
    reading.tool_version = str(found["loadgen_version"]).split(" ")[0] if found.get("loadgen_version") else None
    for key, value in found.items():
        if match := re.match(r"result_(\d+(?:\.\d+)?)_percentile_latency_ns$", key):
            _percentile(reading, float(match.group(1)), number(value))
    reading.give("latency_mean_s", number(found.get("result_mean_latency_ns")), 1e-9)
    for end in ("min", "max"):
        if (value := number(found.get(f"result_{end}_latency_ns"))) is not None:
            reading.extremes[f"latency_{end}_s"] = value * 1e-9
    rates = (
        "result_completed_samples_per_sec",
        "result_samples_per_second",
        "result_scheduled_samples_per_sec",
        "result_qps_without_loadgen_overhead",
    )
    reading.give("throughput_per_s", next((value for name in rates if (value := number(found.get(name))) is not None), None))
    reading.completed = whole(found.get("result_query_count")) or whole(found.get("generated_query_count"))
    duration = number(found.get("generated_query_duration")) if reading.scenario != "offline" else None
    reading.facts.update({"generated query duration": f"{duration * 1e-9:.4g} s"} if duration and duration > 1e6 else {})
    if broken:
        reading.fault("cut_off", f"{broken} line{'s' if broken != 1 else ''} cannot be read, as when the log is cut off", "copy the whole log again")
    if errors:
        reading.errors = tuple(errors[:20])
    reasons = [str(found[key]) for key in found if key.startswith("result_invalid_reason")]
    _verdict(reading, found.get("result_validity"), reasons or errors)
    if "result_validity" not in found:
        reading.fault("cut_off", "the log has no result_validity: the run did not reach its end", "measure again")
    return _done(reading, found.get("effective_test_mode") or found.get("requested_test_mode"))
