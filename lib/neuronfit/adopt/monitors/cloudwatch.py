"""CloudWatch: GPU and Neuron metrics as ``get-metric-data``, ``get-metric-statistics``, embedded-metric log lines, and CSV.

A datapoint is a statistic over a period, mostly the mean. Its mean over time is right, its p95 is that
of means and understates the tail; that is said. A maximum is never taken for a mean.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, Optional

from neuronfit.adopt.monitors import json_stream
from neuronfit.adopt.monitors.table import MONITORED, Reading
from neuronfit.adopt.monitors.words import number, seconds

__all__ = ["read", "read_csv", "read_means", "recognise", "recognise_means"]

NAMED = {
    "utilization_gpu": "gpu_kernel_active", "gpu_utilization": "gpu_kernel_active", "gpuutilization": "gpu_kernel_active",
    "utilization_memory": "gpu_memory_active",
    "memory_used": "memory_used_bytes", "gpu_memory_used": "memory_used_bytes", "memory_total": "memory_total_bytes",
    "gpu_memory_total": "memory_total_bytes", "memory_free": "memory_free_bytes", "power_draw": "power_w", "gpu_power_draw": "power_w",
    "temperature_gpu": "temperature_c", "gpu_temperature": "temperature_c", "clocks_current_sm": "sm_clock_hz", "clocks_current_memory": "memory_clock_hz",
    "gpu_tensor_core_utilization": "gpu_tensor_active", "neuroncore_utilization": "neuroncore_utilization",
    "neuroncore_memory_usage_total": "memory_used_bytes", "neurondevice_runtime_memory_used_bytes": "memory_used_bytes",
}  # fmt: skip
"""Metric name without ``nvidia_smi_`` and the Container Insights level -> metric of the table."""

LEVELS = ("container_", "pod_", "node_", "cluster_")
FACTOR = {"fraction": 0.01, "Hz": 1e6}


def recognise(head: bytes) -> Optional[str]:
    """``cloudwatch`` or ``cloudwatch_csv``."""
    text = head.decode("utf-8", "replace")
    ours = re.search(r"nvidia_smi_|_gpu_|GPUUtilization|gpu_utilization|utilization_gpu|neuroncore_", text)
    if not ours:
        return None
    if text.lstrip()[:1] in "{[" and re.search(r'"(MetricDataResults|Datapoints|CloudWatchMetrics)"', text):
        return "cloudwatch"
    first = text.split("\n")[:6]
    if _long(first[0]):
        return "cloudwatch_csv"
    if (
        any(re.match(r'^"?(Label|Full label|Timestamp)"?,', line) for line in first)
        and "CloudWatch" not in first[0]
        or (first and re.match(r"^#?\s*CloudWatch", first[0]))
    ):
        return "cloudwatch_csv"
    return None


def _long(header: str) -> bool:
    """A table with one value a row: a column names the metric, another holds the statistic."""
    names = {_plain(cell) for cell in re.split("[,;]", header)}
    return "metricname" in names and bool(names & {"average", "maximum", "minimum", "sum", "value"})


def _plain(cell: str) -> str:
    return re.sub(r"[^a-z0-9]", "", cell.lower())


def _metric(name: str) -> Optional[str]:
    name = name.split("/")[-1].strip().lower()
    for level in LEVELS:
        name = name.removeprefix(level)
    return NAMED.get(name.removeprefix("nvidia_smi_"))


def _unit(metric: str, unit: str) -> float:
    written = {"percent": 0.01, "megabytes": 2.0**20, "gigabytes": 2.0**30, "bytes": 1.0, "none": 0.0}.get(unit.lower(), 0.0)
    if written:
        return written
    return FACTOR.get(MONITORED[metric].unit, 2.0**20 if metric in ("memory_used_bytes", "memory_total_bytes", "memory_free_bytes") else 1.0)


def read(reading: Reading) -> Iterator[None]:
    """All series of the answer, in the order of time."""
    points: list[tuple[float, str, str, str, float]] = []
    statistics: set[str] = set()
    for value, _, whole in json_stream.values(reading.source.lines(), json_stream.loader()):
        if not whole:
            reading.remark("record_cut_off", "the answer is cut off; what is complete is read")
        _gather(reading, value, points, statistics)
        yield
    _hand_on(reading, points, statistics)


def _gather(reading: Reading, value: Any, points: list[tuple[float, str, str, str, float]], statistics: set[str]) -> None:
    if isinstance(value, list):
        for one in value:
            _gather(reading, one, points, statistics)
    if not isinstance(value, dict):
        return
    if "Datapoints" in value:
        name = str(value.get("Label") or "")
        metric = _metric(name)
        for point in value["Datapoints"] or []:
            statistic = next((kind for kind in ("Average", "Maximum", "Minimum", "Sum") if kind in point), "")
            if metric and statistic:
                statistics.add(statistic)
                _point(points, seconds(point.get("Timestamp")), "0", "", metric, float(point[statistic]) * _unit(metric, str(point.get("Unit", ""))))
        return
    if "MetricDataResults" in value:
        for series in value["MetricDataResults"] or []:
            words = re.split(r"[\s/]+", str(series.get("Label") or ""))
            metric = next((found for word in (*words, str(series.get("Id") or "")) if (found := _metric(word))), None)
            if metric is None:
                continue
            label = str(series.get("Label") or "")
            statistics.update(kind for kind in ("Average", "Maximum", "Minimum", "Sum") if kind.lower() in label.lower())
            instance = re.search(r"\b([a-z]\w*-?\w*\.\d*x?(?:large|metal)[\w-]*)\b", label)
            reading.instance_type = reading.instance_type or (instance[1] if instance else None)
            device = next((word for word in reversed(words) if re.fullmatch(r"\d{1,3}", word)), "0")
            for stamp, amount in zip(series.get("Timestamps") or [], series.get("Values") or []):
                _point(points, seconds(stamp), device, "", metric, float(amount) * _unit(metric, ""))
        if value.get("NextToken"):
            reading.remark("record_cut_off", "the answer has further pages (NextToken) that are not in the file")
        return
    inner = value.get("message")
    if isinstance(inner, str) and inner.lstrip()[:1] == "{":
        try:
            value = json.loads(inner)
        except ValueError:
            return
    if "events" in value:
        _gather(reading, value["events"], points, statistics)
        return
    stamp = (
        seconds((value.get("_aws") or {}).get("Timestamp") if isinstance(value.get("_aws"), dict) else None)
        or seconds(value.get("Timestamp"))
        or seconds(value.get("timestamp"))
    )
    for name, amount in value.items():
        metric = _metric(name)
        if metric and isinstance(amount, (int, float)):
            device = re.search(r"\d+", str(value.get("GpuDevice") or value.get("NeuronDevice") or value.get("index") or "0"))
            core = re.search(r"\d+", str(value.get("NeuronCore") or ""))
            reading.instance_type = reading.instance_type or value.get("InstanceType") or None
            used = _unit(metric, "bytes" if "node_" in name or "pod_" in name or "container_" in name and MONITORED[metric].unit == "bytes" else "")
            used = 0.01 if MONITORED[metric].kind == "share" else used
            _point(points, stamp, device[0] if device else "0", core[0] if core else "", metric, float(amount) * used)
            statistics.add("Average")


def _point(points: list[tuple[float, str, str, str, float]], stamp: Optional[float], device: str, core: str, metric: str, value: float) -> None:
    points.append((stamp if stamp is not None else float(len(points)), device, core, metric, value))


def _hand_on(reading: Reading, points: list[tuple[float, str, str, str, float]], statistics: set[str]) -> None:
    points.sort(key=lambda point: point[0])
    most = max((value for _, _, _, metric, value in points if MONITORED[metric].kind == "share"), default=0.0)
    if most > 1.02:
        reading.remark(
            "not_a_mean",
            f"percent up to {most * 100:.0f}: SageMaker adds the GPUs of an instance, so it is a sum over them and no share of time of one",
        )
    for stamp, device, core, metric, value in points:
        reading.device(device)
        reading.put(stamp, device, core, metric, min(value, 1.0) if most > 1.02 and MONITORED[metric].kind == "share" else value)
    reading.samples = len({point[0] for point in points})
    reading.clock = "epoch" if points and points[0][0] > 6e8 else "none"
    if statistics - {"Average"} and points:
        reading.remark(
            "not_a_mean", f"statistic {', '.join(sorted(statistics - {'Average'}))} of each period, not its mean: no mean can be drawn from it"
        )
    elif points:
        reading.remark(
            "values_are_means", "each value is the mean of a period: the mean over time is right, the p95 is that of means and understates the tail"
        )


def _text(reading: Reading) -> Iterator[str]:
    return (raw.decode("utf-8", "replace").replace("\r", "").replace("\0", "") for raw in reading.source.lines())


def read_csv(reading: Reading) -> Iterator[None]:
    """The console's download: label lines first, then a time and one column a series."""
    import csv

    points: list[tuple[float, str, str, str, float]] = []
    statistics: set[str] = set()
    columns: list[Optional[str]] = []
    header: list[str] = []
    for line in csv.reader(_text(reading)):
        yield
        if not line:
            continue
        if not header and _long(",".join(line)):
            header = [_plain(cell) for cell in line]
            continue
        if header:
            _one_value(dict(zip(header, line)), points, statistics)
            continue
        if seconds(line[0]) is None:
            found = [_metric(cell) or next((one for word in re.split(r"[\s/()]+", cell) if (one := _metric(word))), None) for cell in line[1:]]
            columns = found if any(found) else columns
            statistics.update(
                kind for kind in ("Average", "Maximum", "Minimum", "Sum") if any(kind.lower() == cell.strip().lower() for cell in line[1:])
            )
            continue
        for place, (metric, cell) in enumerate(zip(columns, line[1:])):
            value = number(cell)
            if metric and value is not None:
                same = [other for other in columns[:place] if other == metric]
                _point(points, seconds(line[0]), str(len(same)), "", metric, value * _unit(metric, ""))
    _hand_on(reading, points, statistics)


def _one_value(row: dict[str, str], points: list[tuple[float, str, str, str, float]], statistics: set[str]) -> None:
    """A row of a long table. What is no metric of a device (procstat, mem, disk) is left out."""
    metric = _metric(row.get("metricname", ""))
    when = seconds(row.get("timestamp") or row.get("time") or "")
    statistic = next((kind for kind in ("Average", "Maximum", "Minimum", "Sum") if row.get(kind.lower(), "").strip()), "Average")
    value = number(row.get(statistic.lower()) or row.get("value") or "")
    if metric is None or value is None:
        return
    statistics.add(statistic)
    device = re.search(r"\d+", row.get("index") or row.get("gpudevice") or row.get("neurondevice") or "0")
    core = re.search(r"\d+", row.get("neuroncore") or "")
    _point(points, when, device[0] if device else "0", core[0] if core else "", metric, value * _unit(metric, row.get("unit", "")))


# -- running means ----------------------------------------------------------------------------


def recognise_means(head: bytes) -> Optional[str]:
    """``running_means``: the system metrics that a benchmarking tool writes beside its results."""
    first = head.decode("utf-8", "replace").split("\n", 1)[0]
    return "running_means" if "gpu_utilization_mean" in first or "neuroncore_utilization_mean" in first else None


def read_means(reading: Reading) -> Iterator[None]:
    """Columns ``*_mean`` are means since the start, not samples: the last row is the mean of all, and there is no p95 in them."""
    import csv

    from neuronfit.adopt.monitors.hardware import gpus_of_memory

    lines = csv.reader(_text(reading))
    header = [cell.strip() for cell in next(lines, [])]
    first: Optional[float] = None
    last: dict[str, float] = {}
    when: Optional[float] = None
    rows = 0
    for line in lines:
        row = dict(zip(header, line))
        if len(line) < len(header):
            reading.remark("record_cut_off", f"a row has {len(line)} of {len(header)} cells and is left out")
            continue
        stamp = seconds(row.get("timestamp"))
        first, when = (stamp if first is None else first), stamp
        last = {name: value for name, cell in row.items() if (value := number(cell)) is not None}
        rows += 1
        yield
    time = when if when is not None else 0.0
    reading.device("0")
    reading.facts["span_s"] = f"{(when or 0) - (first or 0):.0f}"
    for name, metric, factor in (
        ("gpu_utilization_mean", "gpu_kernel_active", 0.01), ("gpu_memory_used_mean", "memory_used_bytes", 2.0**20), ("gpu_memory_free_mean", "memory_free_bytes", 2.0**20),
        ("gpu_memory_total_mean", "memory_total_bytes", 2.0**20),
    ):  # fmt: skip
        reading.put(time, "0", "", metric, last[name] * factor if name in last else None)
    reading.put(time, "", "", "host_cpu_busy", last["cpu_percent_mean"] * 0.01 if "cpu_percent_mean" in last else None)
    reading.samples = 1
    reading.clock = "epoch" if when else "none"
    reading.remark(
        "running_means",
        f"the columns are means since the start, not samples: the last of {rows} rows is the mean of all, a p95 or a share of idle time cannot be drawn from them",
    )
    total = last.get("gpu_memory_total_mean")
    if total:
        could = gpus_of_memory(total * 2**20)
        reading.remark(
            "hardware_open",
            f"{total:,.0f} MiB is one number for all GPUs: it fits {' or '.join(could[:6]) or 'no GPU of the catalogue'}; the file does not say which",
        )
    yield
