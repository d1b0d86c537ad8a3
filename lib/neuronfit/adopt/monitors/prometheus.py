"""Prometheus text and query answers: neuron-monitor's exporter, DCGM's, nvidia_gpu_exporter's, telegraf's.

Each exporter has its own units (DCGM: percent, MiB, MHz, mJ; nvidia_gpu_exporter: ratios, bytes, Hz;
neuron-monitor: ratios), which the name of a metric tells; all end up in SI and fractions here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Optional

from neuronfit.adopt.monitors import json_stream
from neuronfit.adopt.monitors.table import Reading
from neuronfit.adopt.monitors.words import number, seconds, sentinel

__all__ = ["read", "read_answer", "read_grafana", "recognise"]

_LINE = re.compile(r"^([a-zA-Z_:][\w:]*)\s*(?:\{(.*)\})?\s+(\S+)(?:\s+(-?\d+(?:\.\d+)?))?\s*(?:#.*)?$")
_LABEL = re.compile(r'([a-zA-Z_]\w*)\s*=\s*"((?:[^"\\]|\\.)*)"')
_OURS = re.compile(
    r"^(neuroncore_|neuron_runtime_|neurondevice_|execution_(errors|status|latency)|hardware_ecc|dcgm_|nvidia_smi_|nvidia_gpu_)", re.IGNORECASE
)

DCGM = {
    "GPU_UTIL": ("gpu_kernel_active", 0.01), "MEM_COPY_UTIL": ("gpu_memory_active", 0.01),
    "ENC_UTIL": ("gpu_encoder_active", 0.01), "DEC_UTIL": ("gpu_decoder_active", 0.01),
    "GR_ENGINE_ACTIVE": ("gpu_engine_active", 1), "SM_ACTIVE": ("gpu_sm_active", 1), "SM_OCCUPANCY": ("gpu_sm_occupancy", 1),
    "PIPE_TENSOR_ACTIVE": ("gpu_tensor_active", 1), "DRAM_ACTIVE": ("gpu_dram_active", 1),
    "PIPE_FP64_ACTIVE": ("gpu_fp64_active", 1), "PIPE_FP32_ACTIVE": ("gpu_fp32_active", 1), "PIPE_FP16_ACTIVE": ("gpu_fp16_active", 1),
    "FB_USED": ("memory_used_bytes", 2**20), "FB_FREE": ("memory_free_bytes", 2**20), "FB_TOTAL": ("memory_total_bytes", 2**20),
    "FB_RESERVED": ("memory_reserved_bytes", 2**20), "POWER_USAGE": ("power_w", 1), "POWER_MGMT_LIMIT": ("power_limit_w", 1),
    "ENFORCED_POWER_LIMIT": ("power_limit_w", 1), "TOTAL_ENERGY_CONSUMPTION": ("energy_j", 1e-3), "GPU_TEMP": ("temperature_c", 1),
    "MEMORY_TEMP": ("memory_temperature_c", 1), "SM_CLOCK": ("sm_clock_hz", 1e6), "MEM_CLOCK": ("memory_clock_hz", 1e6),
    "MAX_SM_CLOCK": ("sm_clock_max_hz", 1e6), "XID_ERRORS": ("xid_error", 1), "POWER_VIOLATION": ("throttled_power_s", 1e-6),
    "THERMAL_VIOLATION": ("throttled_thermal_s", 1e-6), "ECC_SBE_VOL_TOTAL": ("ecc_corrected", 1), "ECC_DBE_VOL_TOTAL": ("ecc_uncorrected", 1),
    "RETIRED_DBE": ("retired_pages", 1),
    # names of dcgm-exporter before 2.0, without the prefix
    "GPU_UTILIZATION": ("gpu_kernel_active", 0.01), "MEM_COPY_UTILIZATION": ("gpu_memory_active", 0.01),
    "ECC_SBE_VOLATILE_TOTAL": ("ecc_corrected", 1), "ECC_DBE_VOLATILE_TOTAL": ("ecc_uncorrected", 1),
}  # fmt: skip
"""Field name after ``DCGM_FI_DEV_`` or ``DCGM_FI_PROF_`` -> metric and factor."""

SMI = {
    "utilization_gpu": "gpu_kernel_active", "utilization_memory": "gpu_memory_active", "utilization_encoder": "gpu_encoder_active",
    "utilization_decoder": "gpu_decoder_active", "utilization_gpu_util": "gpu_kernel_active", "utilization_memory_util": "gpu_memory_active",
    "memory_used": "memory_used_bytes", "memory_free": "memory_free_bytes", "memory_total": "memory_total_bytes",
    "fb_memory_usage_used": "memory_used_bytes", "fb_memory_usage_total": "memory_total_bytes",
    "memory_reserved": "memory_reserved_bytes", "power_draw": "power_w", "power_limit": "power_limit_w", "enforced_power_limit": "power_limit_w",
    "temperature_gpu": "temperature_c", "temperature_memory": "memory_temperature_c", "clocks_current_sm": "sm_clock_hz",
    "clocks_current_sm_clock": "sm_clock_hz", "clocks_max_sm_clock": "sm_clock_max_hz", "clocks_max_sm": "sm_clock_max_hz",
    "clocks_current_memory_clock": "memory_clock_hz", "clocks_current_memory": "memory_clock_hz",
    "ecc_errors_corrected_volatile_total": "ecc_corrected", "ecc_errors_uncorrected_volatile_total": "ecc_uncorrected",
}  # fmt: skip
"""nvidia-smi's query field with dots as underscores, unit suffix taken off -> metric."""

SUFFIX = {"_ratio": 1.0, "_bytes": 1.0, "_watts": 1.0, "_hz": 1.0, "_seconds": 1.0, "_celsius": 1.0}
PLAIN = {"fraction": 0.01, "bytes": 2.0**20, "Hz": 1e6}
"""Factors where the name has no unit: percent, MiB, MHz."""

THROTTLE = {
    "sw_power_cap": "throttled_power", "hw_power_brake_slowdown": "throttled_power", "hw_thermal_slowdown": "throttled_thermal",
    "sw_thermal_slowdown": "throttled_thermal", "hw_slowdown": "throttled_hardware",
}  # fmt: skip


def recognise(head: bytes) -> Optional[str]:
    """``neuron_prometheus``, ``dcgm_prometheus``, ``gpu_exporter_prometheus``, ``prometheus_answer`` or ``grafana_csv``."""
    text = head.decode("utf-8", "replace")
    if _grafana_header(text.split("\n")[:3]):
        return "grafana_csv"
    if (
        text.lstrip()[:1] == "{"
        and ('"resultType"' in text or '"timestamps"' in text)
        and re.search(r'"__name__"\s*:\s*"(DCGM_|neuroncore_|nvidia_)', text)
    ):
        return "prometheus_answer"
    for line in text.split("\n"):
        line = _name_first(line.strip())
        found = _OURS.match(line)
        if found and _LINE.match(line):
            name = found[1].lower()
            return "dcgm_prometheus" if name == "dcgm_" else "gpu_exporter_prometheus" if name.startswith("nvidia") else "neuron_prometheus"
    return None


def _name_first(line: str) -> str:
    """`promtool tsdb dump` puts a series' name among its labels."""
    found = re.match(r'\{(.*?)__name__="([^"]*)",?\s*(.*)$', line)
    return f"{found[2]}{{{found[1]}{found[3]}" if found else line


def read(reading: Reading) -> Iterator[None]:
    """Rows of every sample of every scrape; a series that comes a second time begins a new scrape."""
    scrape = _Scrapes(reading)
    line = ""
    for raw in reading.source.lines():
        line = _name_first(raw.decode("utf-8", "replace").strip())
        if not line or line[0] == "#":
            continue
        found = _LINE.match(line)
        if found is None:
            if _OURS.match(line) or re.match(r"^[A-Za-z_:]\w*\{", line):
                reading.remark("record_cut_off", f"a sample is cut off: {line[:60]}")
            continue
        name, labels, text, stamp = found.groups()
        try:
            value = float(text)
        except ValueError:
            reading.remark("record_cut_off", f"a sample has no number: {line[:60]}")
            continue
        scrape.sample(name, labels or "", value, float(stamp) if stamp else None)
        yield
    scrape.finish()


def read_answer(reading: Reading) -> Iterator[None]:
    """The answer of Prometheus's query API: a vector (one value a series) or a matrix (many); or VictoriaMetrics' export, one series a line."""
    scrape = _Scrapes(reading)
    points: list[tuple[float, str, dict[str, str], str]] = []
    for series in _series(reading):
        labels = {name: str(value) for name, value in (series.get("metric") or {}).items()}
        name = labels.pop("__name__", "")
        if isinstance(series.get("timestamps"), list):
            pairs = list(zip(series["timestamps"], series.get("values") or []))
        else:
            pairs = series.get("values") or ([series["value"]] if series.get("value") else [])
        for pair in pairs:
            try:
                points.append((seconds(pair[0]) or float(pair[0]), name, labels, str(pair[1])))
            except (TypeError, ValueError, LookupError):
                reading.remark("record_cut_off", f"a point of {name or 'a series'} is no pair of a time and a value, and is left out")
    for stamp, name, labels, text in sorted(points, key=lambda point: point[0]):
        try:
            scrape.named(name, labels, float(text), stamp)
        except ValueError:
            continue
        yield
    scrape.finish()


def _grafana_header(lines: list[str]) -> list[str]:
    """The cells of a header that Grafana wrote, where its columns name series of ours; else none."""
    import csv

    for line in lines:
        if re.match(r'^"?Time"?[,;\t]', line):
            cells = next(csv.reader([line.strip()], delimiter=max(";\t,", key=re.sub(r"\{.*?\}", "", line).count)), [])
            return cells if any(_OURS.match(cell.strip()) for cell in cells[1:]) else []
    return []


def read_grafana(reading: Reading) -> Iterator[None]:
    """A panel's data as CSV: a time, and a column for each series under the name that Prometheus gives it. What has no number is absent."""
    import csv

    scrape = _Scrapes(reading)
    series: list[tuple[str, dict[str, str]]] = []
    delimiter = ","
    for raw in reading.source.lines():
        line = raw.decode("utf-8", "replace").strip()
        if not line or line.startswith("sep="):
            continue
        if not series:
            header = _grafana_header([line])
            if header:
                delimiter = max(";\t,", key=re.sub(r"\{.*?\}", "", line).count)
                series = [(cell.strip().split("{")[0], dict(_LABEL.findall(cell.partition("{")[2]))) for cell in header[1:]]
            continue
        cells = next(csv.reader([line], delimiter=delimiter), [])
        when = seconds(cells[0]) if cells else None
        if when is None or len(cells) <= len(series):
            reading.remark("record_cut_off", f"a row has no time or too few cells and is left out: {line[:60]}")
            continue
        for (name, labels), cell in zip(series, cells[1:]):
            value = number(cell)
            if value is not None and name:
                percent = name.lower().startswith("neuroncore_utilization_ratio") and cell.strip().endswith("%")
                scrape.named(name, labels, value * 0.01 if percent else value, when)
        yield
    scrape.finish()


def _series(reading: Reading) -> list[dict[str, Any]]:
    import json

    text = reading.source.text()
    try:
        answers = [json.loads(text)]
    except ValueError:
        answers = []
        for value, _, whole in json_stream.values((line.encode("utf-8") for line in text.split("\n")), json_stream.loader()):
            if not whole:
                reading.remark("record_cut_off", "the answer is cut off")
            answers.append(value)
    found: list[dict[str, Any]] = []
    for answer in answers:
        if isinstance(answer, dict):
            data = answer.get("data")
            found += (data.get("result") or []) if isinstance(data, dict) else [answer] if "metric" in answer else []
    return [series for series in found if isinstance(series, dict)]


class _Scrapes:
    def __init__(self, reading: Reading):
        self.reading = reading
        self.seen: set[tuple[str, str]] = set()
        self.taken: set[tuple[str, str]] = set()
        self.number = 0
        self.time = 0.0
        self.stamped = False
        self.gpus: dict[str, str] = {}
        self.host = ""
        self.sums: dict[tuple[str, str], float] = {}
        self.profiled: dict[str, float] = {}
        self.held: list[tuple[str, str, float]] = []
        self.masks: dict[str, float] = {}

    def sample(self, name: str, labels: str, value: float, stamp: Optional[float]) -> None:
        series = (name, labels)
        if series in self.seen:
            self._end_of_scrape()
        self.seen.add(series)
        if stamp is not None and (when := seconds(stamp)) is not None:
            self.time, self.stamped = when, True
        self.named(name, dict(_LABEL.findall(labels)), value, None)

    def named(self, name: str, labels: dict[str, str], value: float, stamp: Optional[float]) -> None:
        if stamp is not None:
            if stamp != self.time and self.number:
                self._end_of_scrape()
            self.time, self.stamped, self.number = stamp, True, max(self.number, 1)
        self.number = max(self.number, 1)
        lower = name.lower()
        if lower.startswith("dcgm_"):
            self._dcgm(name, labels, value)
        elif lower.startswith(("nvidia_smi_", "nvidia_gpu_")):
            self._smi(lower.removeprefix("nvidia_smi_").removeprefix("nvidia_gpu_"), labels, value)
        elif not lower.endswith("_created"):
            self._neuron(lower, labels, value)
        if "instance_type" in labels and labels["instance_type"] and not self.reading.instance_type:
            self.reading.instance_type = labels["instance_type"]

    # -- NVIDIA --

    def _gpu(self, labels: dict[str, str]) -> str:
        host = labels.get("Hostname") or labels.get("hostname") or labels.get("node") or ""
        self.host = self.host or host
        number = labels.get("gpu") or labels.get("index") or labels.get("minor_number")
        if not number or not number.isdigit():
            uuid = labels.get("UUID") or labels.get("uuid") or number or "0"
            number = self.gpus.setdefault(uuid, str(len(self.gpus)))
        name = f"{host}/{number}" if host and host != self.host else number
        model = labels.get("modelName") or labels.get("name")
        if model:
            self.reading.device(name).name = model
        slice_id = labels.get("GPU_I_ID")
        if slice_id:
            whole = self.reading.device(name)
            whole.mig = True
            part = self.reading.device(f"{name}/mig{slice_id}")
            part.part_of, part.name = name, labels.get("GPU_I_PROFILE") or part.name
            return f"{name}/mig{slice_id}"
        self.reading.device(name)
        return name

    def _once(self, device: str, metric: str) -> bool:
        """One GPU is listed once for each pod that shares it: the same reading, not another sample."""
        if (device, metric) in self.taken:
            return False
        self.taken.add((device, metric))
        return True

    def _dcgm(self, name: str, labels: dict[str, str], value: float) -> None:
        version = labels.get("DCGM_FI_DRIVER_VERSION")
        if version:
            self.reading.facts["driver"] = version
        field = re.sub(r"^DCGM_(?:FI_)?(?:DEV_|PROF_)?", "", name.upper())
        if not labels and self.reading.devices:
            if field in DCGM:
                self.reading.remark("record_cut_off", f"{name} has no labels: of which GPU it is cannot be told, and it is left out")
            return
        device = self._gpu(labels)
        if field in ("CLOCK_THROTTLE_REASONS", "CLOCKS_EVENT_REASONS"):
            self.masks[device] = value
            return
        if field == "EXP_XID_ERRORS_COUNT" and value > 0:
            self.held.append((device, "xid_error", number(labels.get("xid", "")) or value))
            return
        if field not in DCGM or not self._once(device, DCGM[field][0]):
            return
        metric, factor = DCGM[field]
        if sentinel(value):
            self.reading.remark("not_supported", f"{name} of GPU {device} holds DCGM's mark for a value that is not there")
            return
        profiling = "_PROF_" in name.upper()
        if profiling and value > 1.02:
            self.reading.remark("ratio_as_percent", f"{name} is {value:g}; DCGM's own are ratios up to 1, so it is read as percent")
            value *= 0.01
        if profiling and metric.startswith("gpu_"):
            self.profiled[device] = max(self.profiled.get(device, 0.0), value)
        self.held.append((device, metric, value * factor))

    def _smi(self, name: str, labels: dict[str, str], value: float) -> None:
        if not any(label in labels for label in ("uuid", "UUID", "gpu", "index", "minor_number")):
            return  # about the exporter, not a GPU
        device = self._gpu(labels)
        suffix = next((end for end in SUFFIX if name.endswith(end)), "")
        field = name.removesuffix(suffix)
        if name == "gpu_info":
            return
        reason = re.match(r"clocks_(?:event|throttle)_reasons_(counters_)?(\w+)$", field)
        if reason and reason[2] in THROTTLE:
            metric = THROTTLE[reason[2]]
            if reason[1]:
                if metric != "throttled_hardware":
                    self._add(device, f"{metric}_s", value * (1.0 if suffix else 1e-6))
            else:
                self._most(device, metric, value)
            return
        if field == "clocks_event_reasons_active" or field == "clocks_throttle_reasons_active":
            self.masks[device] = value
            return
        if field == "mig_mode_current":
            self.reading.device(device).mig = self.reading.device(device).mig or value == 1
            return
        metric = SMI.get(field)
        if metric is None or not self._once(device, metric):
            return
        from neuronfit.adopt.monitors.table import MONITORED

        factor = 1.0 if suffix else PLAIN.get(MONITORED[metric].unit, 1.0)
        self.held.append((device, metric, value * factor))

    # -- Neuron --

    def _neuron(self, name: str, labels: dict[str, str], value: float) -> None:
        core = labels.get("neuroncore") or labels.get("neuron_core") or labels.get("NeuronCore")
        if name == "neuron_hardware_info":
            self._hardware(labels)
        elif name == "neuroncore_utilization_ratio" and core is not None:
            self._add(core, "neuroncore_utilization", value)
        elif name in ("neuroncore_flops", "neuroncore_effective_flops") and core is not None:
            self._add(core, "achieved_flop_per_s", value)
        elif name.startswith("neuroncore_memory_usage_") and core is not None and not name.endswith("total"):
            self._add(core, "memory_used_bytes", value)
        elif name == "execution_errors_total":
            self._add("", "errors", value)
        elif name == "execution_status_total":
            self._add("", "completed" if labels.get("status_type") == "completed" else "not_well", value)
        elif name == "execution_latency_seconds" and labels.get("percentile") in ("p50", "p99"):
            process = labels.get("runtime_tag", "")
            self.reading.put(self.time, "", "", f"execution_latency_{labels['percentile']}_s", value or None, process)
        elif name == "neuron_runtime_memory_used_bytes" and labels.get("memory_location") == "neuron_device":
            self._add("", "memory_used_bytes", value)
        elif name == "system_memory_total_bytes":
            self.reading.put(self.time, "", "", "host_memory_total_bytes", value)
        elif name == "system_memory_used_bytes":
            self.reading.put(self.time, "", "", "host_memory_used_bytes", value)
        elif name.startswith(("hardware_ecc_events_total", "neurondevice_hw_ecc_events_total")):
            kind = labels.get("event_type") or name
            self._add(f"d{labels.get('neuron_device_index', '?')}", "ecc_uncorrected" if "uncorrected" in kind else "ecc_corrected", value)

    def _hardware(self, labels: dict[str, str]) -> None:
        """Devices, their cores and memory, which stand in the labels of a series whose value is 1."""
        reading = self.reading
        count, each = number(labels.get("neuron_device_count", "")), number(labels.get("neuroncore_per_device_count", ""))
        reading.device_count = int(count) if count else reading.device_count
        reading.cores_per_device = int(each) if each else reading.cores_per_device
        for index in range(reading.device_count or 0):
            device = reading.device(str(index))
            device.name = labels.get("neuron_device_type") or device.name
            device.cores, device.memory_bytes = reading.cores_per_device, number(labels.get("neuron_device_memory_size", "")) or device.memory_bytes

    def _add(self, place: str, metric: str, value: float) -> None:
        self.sums[place, metric] = self.sums.get((place, metric), 0.0) + value

    def _most(self, place: str, metric: str, value: float) -> None:
        self.sums[place, metric] = max(self.sums.get((place, metric), 0.0), value)

    # -- the end of a scrape --

    def _end_of_scrape(self) -> None:
        reading = self.reading
        self._profiling_stopped()
        now = {(device, metric): value for device, metric, value in self.held}
        artefacts = {
            device
            for device in {row[0] for row in self.held}
            if reading.is_artefact(device, now.get((device, "gpu_kernel_active")), now.get((device, "memory_used_bytes")))
        }
        self.held = [row for row in self.held if row[0] not in artefacts or row[1] not in ("gpu_kernel_active", "gpu_memory_active")]
        for device, mask in self.masks.items():
            if not any(place == device and metric in THROTTLE.values() for place, metric in self.sums):  # the same in single series
                _reasons(reading, self.time, device, mask)
        for device, metric, value in self.held:
            reading.put(self.time, device, "", metric, value)
        for (place, metric), value in list(self.sums.items()):
            if metric == "neuroncore_utilization" and value > 2:
                reading.remark(
                    "ratio_as_percent", f"neuroncore_utilization_ratio of core {place} is {value:g}; a ratio is at most 1, so it is read as percent"
                )
                self.sums[place, metric] = value * 0.01
        neuron = reading.format == "neuron_prometheus" or any(metric == "neuroncore_utilization" for _, metric in self.sums)
        for (place, metric), value in self.sums.items():
            if metric in ("errors", "completed", "not_well"):
                continue
            if place.startswith("d"):
                reading.put(self.time, place[1:], "", metric, value)
            elif neuron and place:
                reading.put(
                    self.time, self._device_of(place), place, metric, min(value, 1.0) if metric == "neuroncore_utilization" and value < 2 else value
                )
            else:
                reading.put(self.time, place, "", metric, value)
        totals = {name: self.sums[("", name)] for name in ("errors", "completed", "not_well") if ("", name) in self.sums}
        if "completed" in totals:
            reading.put(self.time, "", "", "executions_completed_total", totals["completed"])
        if "errors" in totals or "not_well" in totals:
            reading.put(self.time, "", "", "executions_failed_total", max(totals.get("errors", 0.0), totals.get("not_well", 0.0)))
        reading.samples += 1
        self.number += 1
        if not self.stamped:
            self.time = float(self.number - 1)
        self.seen.clear(), self.taken.clear(), self.sums.clear(), self.held.clear(), self.profiled.clear(), self.masks.clear()

    def _device_of(self, core: str) -> str:
        reading = self.reading
        if reading.cores_per_device is None and reading.instance_type:
            from neuronfit.adopt.monitors.hardware import about

            known = about(reading.instance_type)
            if known is not None:
                reading.cores_per_device, reading.device_count = known.cores_per_device, known.devices
        each = reading.cores_per_device
        return str(int(core) // each) if each and core.isdigit() else "?"

    def _profiling_stopped(self) -> None:
        """All profiling shares exactly 0 while power says that the card works: the counters stopped, which is no idleness."""
        if not self.profiled or any(self.profiled.values()):
            return
        power = [(value, device) for device, metric, value in self.held if metric == "power_w"]
        busy = [value for _, metric, value in self.held if metric == "gpu_kernel_active" and value > 0.05]
        if power and max(power)[0] > 100 or busy:
            watts = f"GPU {max(power)[1]} draws {max(power)[0]:.0f} W" if power else f"the GPU is {max(busy):.0%} busy"
            self.reading.remark("profiling_counters_stopped", f"every profiling share is exactly 0 while {watts}; they are not used")
            self.held = [row for row in self.held if row[1] not in _PROFILED]

    def finish(self) -> None:
        if self.held or self.sums or self.seen:
            self._end_of_scrape()
        self.reading.clock = "epoch" if self.stamped else "none"
        if self.reading.samples == 1:
            self.reading.remark("single_sample", "one scrape; a rate of executions or errors needs two, some time apart")


_PROFILED = {metric for field, (metric, _) in DCGM.items() if field.endswith("_ACTIVE") or field == "SM_OCCUPANCY"}


def _reasons(reading: Reading, time: float, device: str, value: float) -> None:
    """NVML's bit mask of clock event reasons."""
    mask = int(value) if value >= 0 and not sentinel(value) else 0
    reading.put(time, device, "", "throttled_power", float(bool(mask & 0x84)))
    reading.put(time, device, "", "throttled_thermal", float(bool(mask & 0x60)))
    reading.put(time, device, "", "throttled_hardware", float(bool(mask & 0x08)))


def reasons(reading: Reading, time: float, device: str, value: Any) -> None:
    """The same for other readers."""
    if value is not None:
        _reasons(reading, time, device, float(value))
