"""NeuronPerf reports: CSV and JSON. Latency in milliseconds of one batch; throughput in inferences/s.

``throughput_avg`` is the mean over the one-second buckets in which something finished: seconds without
a completion are forgotten, so a slow model looks faster (2.5 times for a call of 2.5 s). It is compared
with inferences over seconds, and with workers over latency.
"""

from __future__ import annotations

import re
from typing import Any, Optional

from neuronfit.adopt.document import Document, number, whole
from neuronfit.adopt.reading import Reading
from neuronfit.adopt.rules import examine, set_aside
from neuronfit.adopt.tables import csv_tables
from neuronfit.catalog import instances
from neuronfit.errors import BadRecord, NotFound

__all__ = ["FORMATS", "read", "recognise"]

FORMATS = {"neuronperf": "NeuronPerf report, CSV or JSON"}


def recognise(head: bytes, name: str) -> Optional[str]:
    text = head.decode("utf-8", "replace")
    return "neuronperf" if re.search(r"\bn_models\b", text) and "workers_per_model" in text and "throughput_avg" in text else None


def read(document: Document, format: str) -> list[Reading]:
    if document.text.lstrip()[:1] in "[{":
        data = document.json
        rows: list[dict[str, Any]] = [
            entry for entry in (data if isinstance(data, list) else data.get("reports") or [data]) if isinstance(entry, dict)
        ]
        cut = None
    else:
        table = csv_tables(document.text)[0]
        rows, cut = list(table.rows), table.cut
    readings = [_row(row) for row in rows]
    if not readings:
        raise BadRecord("no row in the NeuronPerf report", document.name)
    if cut:
        readings[-1].fault("cut_off", "the last row of the file is cut off", "copy the whole file again")
    _scaling(readings)
    return readings


def _row(row: dict[str, Any]) -> Reading:
    models, workers, batch = (whole(row.get(name)) for name in ("n_models", "workers_per_model", "batch_size"))
    total = _workers(row, models or 1, workers or 1, batch or 1)
    reading = Reading("neuronperf", tool="NeuronPerf", tool_version=_text(row.get("NeuronPerf_version")), result_unit="inference", latency_of="batch")
    reading.label = f"{models} model{'s' if models != 1 else ''}, {total} worker{'s' if total != 1 else ''}"
    reading.model = _text(row.get("model_name")) or _text(row.get("model_filename"))
    reading.instance_type = (_text(row.get("instance_type")) or "").lower() or None
    reading.scenario = "single_stream" if total == 1 and batch == 1 else "offline"
    reading.set("batch_size", batch)
    reading.set("workers", total)
    reading.set("accelerators_used", None)
    for quantile in ("p50", "p90", "p95", "p99"):
        reading.give(f"latency_{quantile}_s", number(row.get(f"latency_ms_{quantile}")), 1e-3)
    for end, name in (("min", "p0"), ("max", "p100")):
        if (value := number(row.get(f"latency_ms_{name}"))) is not None:
            reading.extremes[f"latency_{end}_s"] = value * 1e-3
    reading.give("latency_mean_s", number(row.get("e2e_avg_ms")), 1e-3)
    rate = number(row.get("throughput_avg"))
    reading.give("throughput_per_s", rate)
    infs, seconds = number(row.get("total_infs")), number(row.get("total_s"))
    reading.completed = whole(infs / batch if infs and batch and infs % batch == 0 else infs)
    reading.failed = 0 if reading.completed is not None else None
    if (peak := number(row.get("throughput_peak"))) is not None:
        reading.printed["peak throughput"] = f"{peak:g} inferences/s"
    if (load := number(row.get("load_avg_ms"))) is not None:
        reading.facts["load"] = f"{load:g} ms"
    if (status := _text(row.get("status"))) and status != "finished":
        reading.fault("run_failed", f"status is {status!r}", "measure again")
    _forgotten(reading, rate, total, batch or 1, infs, seconds)
    if (cost := number(row.get("cost_per_1m_inf"))) is not None:
        reading.printed["cost per million inferences"] = f"${cost:g}"
        reading.fault("price_in_file", f"${cost:g} per million is computed from its throughput and an Inf1 price list; it is not used")
    reading.fault(
        "not_in_file", "no sequence length, precision or software version is in a NeuronPerf report", "give --sequence-length and --precision"
    )
    cores = _cores(reading.instance_type)
    if rate and models and cores:
        used = min(models, cores)
        reading.facts["per core"] = f"{rate / used:,.6g}/s on {used} of {cores} cores"
    middle = reading.values.get("latency_p50_s")
    if middle and middle < 2e-4:
        because = f"a call takes {1e6 * middle:.3g} µs: a toy model, whose figures say nothing about a real one"
        reading.fault("tiny_model", because)
    reading.definitions["latency"] = "one batch, end to end in the worker"
    return examine(reading, serving=False)


def _workers(row: dict[str, Any], models: int, workers: int, batch: int) -> int:
    """Workers in all. Some reports write the total under ``workers_per_model`` (16 models with 16 workers are one each), others what the name
    says; where two counts of the throughput agree, throughput x latency / batch calls are in flight, and that settles it."""
    each = models * workers
    if workers < models or models == 1:
        return each
    rate, latency, infs, seconds = (number(row.get(name)) for name in ("throughput_avg", "e2e_avg_ms", "total_infs", "total_s"))
    if rate and latency and infs and seconds and abs(infs / seconds / rate - 1) < 0.1:
        flight = rate * latency * 1e-3 / batch
        return each if abs(flight - each) < abs(flight - workers) else workers
    return workers


def _forgotten(reading: Reading, rate: Optional[float], workers: int, batch: int, infs: Optional[float], seconds: Optional[float]) -> None:
    mean = reading.values.get("latency_mean_s") or reading.values.get("latency_p50_s")
    if not rate or not mean:
        return
    ceiling = workers * batch / mean
    if rate <= 1.15 * ceiling:
        return
    counted = [infs * factor / seconds for factor in (1, batch)] if infs and seconds else []
    truth = min(counted, key=lambda value: abs(value - ceiling)) if counted else ceiling
    because = (
        f"throughput_avg is {rate:.4g}/s, but {workers} worker{'s' if workers != 1 else ''} x batch {batch} over {mean:.4g} s a call allow {ceiling:.3g}/s: "
        f"seconds in which nothing finished are not counted; {truth:.3g}/s is used, {rate / truth:.2g} times less"
    )
    set_aside(reading, "throughput_per_s")
    reading.values["throughput_per_s"] = truth
    reading.fault("throughput_forgets_empty_seconds", because)


def _scaling(readings: list[Reading]) -> None:
    """Which row is the operating point: the least latency within a few percent of the most throughput."""
    fastest = max((row.values.get("throughput_per_s", 0.0) for row in readings), default=0.0)
    near = [row for row in readings if row.values.get("throughput_per_s", 0.0) >= 0.97 * fastest and row.values.get("latency_p50_s")]
    if len(readings) < 2 or not near:
        return
    chosen = min(near, key=lambda row: row.values["latency_p50_s"])
    chosen.fault(
        "operating_point",
        f"operating point: {chosen.label}, {chosen.values['throughput_per_s']:,.6g}/s at p50 {1e3 * chosen.values['latency_p50_s']:.3g} ms",
    )
    for row in near:
        if row is not chosen:
            because = f"{row.label}: throughput of {chosen.label} at p50 {1e3 * row.values['latency_p50_s']:.3g} ms instead of {1e3 * chosen.values['latency_p50_s']:.3g} ms: more workers only wait"
            row.fault("operating_point", because)
    single = next((row for row in readings if row.label == "1 model, 1 worker"), None)
    cores = _models(chosen)
    if single and cores and cores > 1 and single.values.get("throughput_per_s"):
        share = chosen.values["throughput_per_s"] / cores / single.values["throughput_per_s"]
        because = f"per core {chosen.values['throughput_per_s'] / cores:,.6g}/s on {cores} cores against {single.values['throughput_per_s']:,.6g}/s on one: {100 * share:.0f} % scaling; rows use different numbers of cores"
        chosen.fault("rows_differ", because, "compare per core, and price the whole instance")


def _models(row: Reading) -> Optional[int]:
    match = re.match(r"(\d+) model", row.label)
    return int(match.group(1)) if match else None


def _cores(instance_type: Optional[str]) -> Optional[int]:
    try:
        return instances.find(instance_type).neuroncores if instance_type else None
    except NotFound:
        return None


def _text(value: Any) -> Optional[str]:
    return None if value in (None, "") else str(value)
