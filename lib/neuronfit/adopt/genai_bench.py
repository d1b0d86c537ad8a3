"""genai-bench results: one JSON per load, with aggregated and individual metrics. Seconds.

``tpot`` leaves the first token out. Requests that failed keep a row with an error code and no times.
(genai_bench/metrics; the experiment's own description is a file beside it, see ``other_sort``.)
"""

from __future__ import annotations

from typing import Any, Optional

from neuronfit.adopt.document import Document, number, whole
from neuronfit.adopt.reading import Reading, Sample
from neuronfit.adopt.rules import examine
from neuronfit.errors import BadRecord

__all__ = ["FORMATS", "read", "recognise"]

FORMATS = {"genai_bench": "genai-bench result of one load, JSON"}
_KINDS = {"e2e_latency": "latency", "ttft": "ttft", "tpot": "tpot"}


def recognise(head: bytes, name: str) -> Optional[str]:
    text = head.decode("utf-8", "replace")
    return "genai_bench" if text.lstrip().startswith("{") and '"aggregated_metrics"' in text else None


def read(document: Document, format: str) -> list[Reading]:
    data = document.json
    together = data.get("aggregated_metrics")
    if not isinstance(together, dict):
        raise BadRecord("no aggregated_metrics in the file", document.name, allowed="a genai-bench result")
    reading = Reading("genai_bench", tool="genai-bench", label=str(together.get("scenario") or ""))
    reading.concurrency = number(together.get("num_concurrency"))
    reading.duration_s = number(together.get("run_duration"))
    reading.completed, reading.failed = whole(together.get("num_completed_requests")), whole(together.get("num_error_requests"))
    reading.asked = whole(together.get("num_requests"))
    reading.give("requests_per_s", number(together.get("requests_per_second")))
    reading.give("output_tokens_per_s", number(together.get("mean_output_throughput_tokens_per_s")))
    reading.give("input_tokens_per_s", number(together.get("mean_input_throughput_tokens_per_s")))
    _statistics(reading, together.get("stats") or {})
    _individual(reading, data.get("individual_request_metrics"))
    reading.definitions.update(latency_from="send", tpot="without the first token: (latency - TTFT) / (tokens - 1)")
    return [examine(reading)]


def _statistics(reading: Reading, stats: dict[str, Any]) -> None:
    for name, kind in _KINDS.items():
        part = stats.get(name) or {}
        for statistic in ("mean", "p50", "p90", "p95", "p99"):
            reading.give(f"{kind}_{statistic}_s", number(part.get(statistic)))
        for end in ("min", "max"):
            if (value := number(part.get(end))) is not None:
                reading.extremes[f"{kind}_{end}_s"] = value
    for side in ("input", "output"):
        part = stats.get(f"num_{side}_tokens") or {}
        setattr(reading, f"{side}_tokens", number(part.get("mean")))
        for end in ("min", "max"):
            if (value := number(part.get(end))) is not None:
                reading.extremes[f"{side}_tokens_{end}"] = value


def _individual(reading: Reading, rows: Any) -> None:
    if not isinstance(rows, list) or not rows:
        return
    samples, errors = [], []
    for row in rows:
        latency = number(row.get("e2e_latency")) if isinstance(row, dict) else None
        if not latency or row.get("error_code"):
            errors.append(str(row.get("error_message") or row.get("error_code") or "no latency")[:120] if isinstance(row, dict) else "no request")
            continue
        samples.append(Sample(latency, number(row.get("ttft")), whole(row.get("num_output_tokens")), whole(row.get("num_input_tokens"))))
    if samples and reading.completed in (None, len(samples)):
        reading.samples, reading.errors = tuple(samples), tuple(errors)
        reading.failed = max(reading.failed or 0, len(errors))
