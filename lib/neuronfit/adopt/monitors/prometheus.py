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
from neuronfit.adopt.monitors.words import seconds, sentinel

__all__ = ["read", "read_answer", "recognise"]

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
    """``neuron_prometheus``, ``dcgm_prometheus``, ``gpu_exporter_prometheus`` or ``prometheus_answer``."""
    text = head.decode("utf-8", "replace")
    if text.lstrip()[:1] == "{" and '"resultType"' in text and re.search(r'"__name__"\s*:\s*"(DCGM_|neuroncore_|nvidia_)', text):
        return "prometheus_answer"
    for line in text.split("\n"):
        found = _OURS.match(line)
        if found and _LINE.match(line.rstrip("\r")):
            name = found[1].lower()
            return "dcgm_prometheus" if name == "dcgm_" else "gpu_exporter_prometheus" if name.startswith("nvidia") else "neuron_prometheus"
    return None


def read(reading: Reading) -> Iterator[None]:
    """Rows of every sample of every scrape; a series that comes a second time begins a new scrape."""
    scrape = _Scrapes(reading)
    line = ""
    for raw in reading.source.lines():
        line = raw.decode("utf-8", "replace").rstrip("\r")
        if not line.strip():
            continue
        if line[0] == "#":
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
    """The answer of Prometheus's query API: a vector (one value a series) or a matrix (many)."""
    import json

    try:
        answer = json.loads(reading.source.text())
    except ValueError:
        answer = json_stream.complete(reading.source.head) or {}
        reading.remark("record_cut_off", "the answer is cut off")
    scrape = _Scrapes(reading)
    points: list[tuple[float, str, dict[str, str], str]] = []
    for series in ((answer.get("data") or {}).get("result")) or []:
        labels = dict(series.get("metric") or {})
        name = labels.pop("__name__", "")
        for pair in series.get("values") or ([series["value"]] if series.get("value") else []):
            points.append((float(pair[0]), name, labels, str(pair[1])))
    for stamp, name, labels, text in sorted(points, key=lambda point: point[0]):
        try:
            scrape.named(name, labels, float(text), stamp)
        except ValueError:
            continue
        yield
    scrape.finish()


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
        device = self._gpu(labels)
        if field in ("CLOCK_THROTTLE_REASONS", "CLOCKS_EVENT_REASONS"):
            _reasons(self.reading, self.time, device, value)
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
            _reasons(self.reading, self.time, device, value)
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
        if name == "neuroncore_utilization_ratio" and core is not None:
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

    def _add(self, place: str, metric: str, value: float) -> None:
        self.sums[place, metric] = self.sums.get((place, metric), 0.0) + value

    def _most(self, place: str, metric: str, value: float) -> None:
        self.sums[place, metric] = max(self.sums.get((place, metric), 0.0), value)

    # -- the end of a scrape --

    def _end_of_scrape(self) -> None:
        reading = self.reading
        self._profiling_stopped()
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
        self.seen.clear(), self.taken.clear(), self.sums.clear(), self.held.clear(), self.profiled.clear()

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
