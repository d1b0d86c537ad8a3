"""neuron-monitor's JSON: one report a period, several runtimes in it, wrapped by whatever carried it.

The parts that no number is taken from (the list of loaded models, the host CPU by CPU) are cut out of a
line before it is parsed: in a real file they are most of it. A report has no time of its own, so times
are sums of periods unless the wrapper has a time stamp.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Optional

from neuronfit.adopt.monitors import json_stream, neuron_layouts, strangers
from neuronfit.adopt.monitors.table import Key, Reading
from neuronfit.adopt.monitors.words import number, seconds

__all__ = ["read", "read_fragments", "recognise"]

SHORTEST_PERIOD_S = 0.1
"""The first report after the start covers milliseconds; its shares and counts say nothing."""

TIMES = ("timestamp", "@timestamp", "time", "ts", "Timestamp", "created_at", "__REALTIME_TIMESTAMP")


def recognise(head: bytes) -> Optional[str]:
    """``neuron_monitor`` or ``neuron_monitor_fragments``, by what is written in the file."""
    if strangers.is_runtime_log(head):
        return None
    if b'neuron_runtime_data"' in head or b'neuron_runtime_data\\"' in head or b"'neuron_runtime_data'" in head:
        return "neuron_monitor"
    if (b'"neuron_hardware_info"' in head or b'"runtime_data"' in head) and b'"system_data"' in head:
        return "neuron_monitor"
    if b'"runtime_data"' in head and b'"nc_counters"' in head:
        return "neuron_monitor"
    if b'"neuroncore_utilization"' in head and re.search(rb'"neuroncore_utilization"\s*:\s*[\d.]+', head):
        return "neuron_monitor_fragments"
    return None


def read(reading: Reading) -> Iterator[None]:
    """Rows of every report; yields after each so that batches can be handed on."""
    state = _State(reading)
    beside = reading.source.stamp if reading.source.carrier is not None else None
    for value, prefix, whole in json_stream.values(reading.source.lines(), json_stream.loader(), _shortened):
        if not whole:
            reading.remark("record_cut_off", "a report is cut off or damaged; only its complete groups are read")
        if type(value) is dict and "neuron_runtime_data" in value:
            state.report(value, _stamp_before(prefix) if prefix else beside() if beside else None)
        elif value is not None:
            for report, stamp in _reports(value, _stamp_before(prefix) or (beside() if beside else None), 0):
                state.report(report, stamp)
        yield
    if reading.source.cut_off:
        reading.remark("record_cut_off", "the compressed file ends early; what comes before is read")
    state.finish()


# -- cutting out what is not needed -----------------------------------------------------------


_IDLE = (
    (b'{"constants":0,"model_code":0,"model_shared_scratchpad":0,"runtime_memory":0,"tensors":0}', b"0"),
    (b'{"neuroncore_utilization":0,"flops":0}', b"false"),
    (b'{"neuroncore_utilization":0,"flops":0,"effective_flops":0}', b"false"),
    (b'{"neuroncore_utilization":0}', b"true"),
)
"""What a process writes for each core that it does not use, and a short sign for it: no memory; 0 % and no work; 0 % alone."""


SHORT = 6000
"""Bytes up to which cutting costs more than parsing."""

_NOTHING: dict[str, Any] = {}


def _shortened(line: bytes) -> bytes:
    """The line without loaded models and usage by CPU, and with signs for idle cores. Where the guess about its layout is wrong it no longer
    parses, and the whole line is parsed instead."""
    if len(line) < SHORT:
        return line
    if b'"loaded_models":[{' in line:
        line = _without_lists(line)
    start = line.find(b'"usage_data":{"')
    if start >= 0:
        end = line.find(b"}}", start)
        if end > 0:
            line = line[:start] + b'"usage_data":{' + line[end + 1 :]
    for idle, sign in _IDLE:
        line = line.replace(idle, sign)
    return line


def _without_lists(line: bytes) -> bytes:
    kept, place = [], 0
    while True:
        start = line.find(b'"loaded_models":[{', place)
        if start < 0:
            break
        end = line.find(b"}]", start)
        if end < 0:
            break
        kept.append(line[place : start + 17])
        place = end + 1
    kept.append(line[place:])
    return b"".join(kept)


# -- wrappers ---------------------------------------------------------------------------------


def _stamp_before(prefix: bytes) -> Optional[float]:
    """The time in front of a JSON value (``2026-01-01T00:00:00Z stdout F {...}``)."""
    words = prefix.decode("utf-8", "replace").split()
    for first in range(min(3, len(words))):  # kubectl puts a pod's name before the time
        for count in (2, 1):
            if len(words) >= first + count and (found := seconds(" ".join(words[first : first + count]).strip("[]"))) is not None:
                return found
    return None


def _reports(value: Any, stamp: Optional[float], depth: int) -> Iterator[tuple[dict[str, Any], Optional[float]]]:
    """Reports anywhere inside a wrapper, also as text in a string, with the nearest time stamp."""
    if depth > 6:
        return
    if isinstance(value, list):
        for one in value:
            yield from _reports(one, stamp, depth + 1)
    elif isinstance(value, dict):
        stamp = next((found for name in TIMES if (found := seconds(value.get(name))) is not None), stamp)
        if "neuron_runtime_data" in value or ("neuron_hardware_info" in value and "system_data" in value):
            yield value, stamp
            return
        if neuron_layouts.is_beta(value):
            yield value, stamp
            return
        for inner in value.values():
            if isinstance(inner, (dict, list)) or (isinstance(inner, str) and "runtime_data" in inner):
                yield from _reports(inner, stamp, depth + 1)
    elif isinstance(value, str):
        start = value.find("{")
        try:
            inner = json_stream.loader()(value[start:].encode("utf-8"))
        except ValueError:
            return
        yield from _reports(inner, stamp, depth + 1)


# -- one report -------------------------------------------------------------------------------


def _dict(value: Any) -> dict[str, Any]:
    return value if type(value) is dict else _NOTHING


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _num(value: Any) -> Optional[float]:
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def _numbers(value: Any) -> Any:
    """The same with text that is a number as a number."""
    if isinstance(value, dict):
        return {name: _numbers(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_numbers(inner) for inner in value]
    if isinstance(value, str):
        return number(value) if re.fullmatch(r"\s*[-+]?[\d.]+(?:[eE][-+]?\d+)?\s*%?\s*", value) else value
    return value


class _State:
    """What is carried from report to report."""

    def __init__(self, reading: Reading):
        self.reading = reading
        self.clock = 0.0
        self.stamped = 0
        self.instance_seen: object = None
        self.hardware_seen: object = None
        self.host = ""
        self.executed = False
        self.runtimes = 0
        self.short = 0
        self.hosts: dict[tuple[str, str], int] = {}
        self.pending: list[float] = []
        self.pending_keys: list[int] = []
        self.ecc_seen: object = None
        self.ecc_rows: tuple[list[int], list[float]] = ([], [])
        self.blocks: dict[tuple[str, ...], list[int]] = {}

    def report(self, report: dict[str, Any], stamp: Optional[float]) -> None:
        """Rows of one report. Numbers that were written as text are taken for numbers; a group that still cannot be read is left out."""
        if "runtime_data" in report and neuron_layouts.is_beta(report):
            report = neuron_layouts.modern(report)
            self.reading.remark("old_tools", "this layout is that of the beta of 2020 on Inferentia1; what was concluded then may not hold now")
        before = (self.reading.samples, self.clock, self.stamped, self.short)
        try:
            self._report(report, stamp)
        except (TypeError, AttributeError, ValueError):
            self.reading.samples, self.clock, self.stamped, self.short = before
            self.pending.clear(), self.pending_keys.clear()
            try:
                self._report(_numbers(report), stamp)
                self.reading.remark("unit_assumed", "numbers of a report are written as text; they are read as numbers")
            except (TypeError, AttributeError, ValueError):
                self.reading.samples, self.clock, self.stamped, self.short = before
                self.pending.clear(), self.pending_keys.clear()
                self._sound_groups(_numbers(report), stamp)

    def _sound_groups(self, report: dict[str, Any], stamp: Optional[float]) -> None:
        """The groups of a report that can be read, where one cannot."""

        def reads(alone: dict[str, Any]) -> bool:
            try:
                _State(Reading(self.reading.source, self.reading.format, ""))._report(alone, None)
            except (TypeError, AttributeError, ValueError):
                return False
            return True

        def odd(name: str) -> None:
            self.reading.remark("group_error", f"{name}: it has another shape than neuron-monitor's and is left out")

        try:
            self._report(neuron_layouts.without_odd_groups(report, reads, odd), stamp)
        except (TypeError, AttributeError, ValueError):
            self.pending.clear(), self.pending_keys.clear()
            self.reading.remark("record_cut_off", "a report has another shape than neuron-monitor's and is left out")

    def _report(self, report: dict[str, Any], stamp: Optional[float]) -> None:
        reading = self.reading
        self._about(report)
        runtimes = _list(report.get("neuron_runtime_data"))
        period = self._period(report, runtimes)
        if stamp is not None:
            self.stamped += 1
            time = stamp
        else:
            self.clock += period or 0.0
            time = self.clock
        reading.samples += 1
        short = period is not None and period < SHORTEST_PERIOD_S
        self.short += short
        if runtimes:
            self.runtimes = max(self.runtimes, len(runtimes))
            self._runtimes(runtimes, time, short)
        self._system(_dict(report.get("system_data")), time)
        self._hand_on(time)

    def _about(self, report: dict[str, Any]) -> None:
        reading = self.reading
        hardware, instance = report.get("neuron_hardware_info"), report.get("instance_info")
        if hardware != self.hardware_seen:
            self.hardware_seen = hardware
            hardware = _dict(hardware)
            count, cores = hardware.get("neuron_device_count"), hardware.get("neuroncore_per_device_count")
            reading.device_count = count if isinstance(count, int) and count > 0 else reading.device_count
            reading.cores_per_device = cores if isinstance(cores, int) and cores > 0 else reading.cores_per_device
            memory = _num(hardware.get("neuron_device_memory_size"))
            for number in range(reading.device_count or 0):
                device = reading.device(str(number))
                device.name = hardware.get("neuron_device_type") or device.name
                device.cores, device.memory_bytes = reading.cores_per_device, memory or device.memory_bytes
            if hardware.get("neuron_device_type"):
                reading.facts["device type"] = str(hardware["neuron_device_type"])
            if isinstance(hardware.get("logical_neuroncore_config"), int):
                reading.facts["logical NeuronCore config"] = str(hardware["logical_neuroncore_config"])
            if hardware.get("error"):
                reading.remark("group_error", f"neuron_hardware_info: {str(hardware['error'])[:120]}")
        if instance != self.instance_seen:
            kind = _dict(instance).get("instance_type")
            host = _dict(instance).get("instance_id")
            if host and host != self.host and self.host:
                reading.remark("several_instances", "reports of several instances in one file: their samples are mixed; split it by instance_id")
            self.host = host or self.host
            if kind and reading.instance_type and kind != reading.instance_type:
                reading.remark("several_instances", f"reports of {reading.instance_type} and of {kind} in one file")
            reading.instance_type = reading.instance_type or kind or None
            self.instance_seen = instance

    def _period(self, report: dict[str, Any], runtimes: list[Any]) -> Optional[float]:
        """Seconds that the report covers: of the counters, else of any group."""
        for runtime in runtimes:
            groups = _dict(_dict(runtime).get("report"))
            for name in ("neuroncore_counters", "execution_stats", "memory_used", "neuron_runtime_vcpu_usage"):
                found = _dict(groups.get(name)).get("period")
                if found and isinstance(found, (int, float)):
                    return float(found)
        for group in _dict(report.get("system_data")).values():
            found = _num(_dict(group).get("period"))
            if found:
                return found
        return None

    def _group(self, groups: dict[str, Any], name: str) -> dict[str, Any]:
        """A group of a report; one that carries an error counts as not there, and only that one."""
        group = groups.get(name)
        if type(group) is not dict:
            return _NOTHING
        if group.get("error"):
            self.reading.remark("group_error", f"{name}: {str(group['error'])[:120]}")
            return _NOTHING
        return group

    def _runtimes(self, runtimes: list[Any], time: float, short: bool) -> None:
        """Numbers of all runtimes together, core by core: every runtime lists every core, so sums and never means."""
        busy: dict[str, float] = {}
        flops: dict[str, float] = {}
        memory: dict[str, float] = {}
        device_memory: Optional[float] = None
        completed: Optional[float] = None
        failed = 0.0
        group = self._group
        for runtime in runtimes:
            if type(runtime) is not dict:
                continue
            if runtime.get("error"):
                self.reading.remark("group_error", f"runtime {runtime.get('pid')}: {str(runtime['error'])[:120]}")
            groups = runtime.get("report")
            if type(groups) is not dict:
                continue
            cores = group(groups, "neuroncore_counters").get("neuroncores_in_use")
            if type(cores) is dict:
                self._cores(cores, busy, flops, time, short)
            used = group(groups, "memory_used").get("neuron_runtime_used_bytes")
            if type(used) is dict:
                total = used.get("neuron_device")
                if total is not None:
                    device_memory = (device_memory or 0.0) + total
                breakdown = _dict(_dict(used.get("usage_breakdown")).get("neuroncore_memory_usage"))
                for core, parts in breakdown.items():
                    try:
                        held = sum(parts.values()) if type(parts) is dict else 0
                    except TypeError:
                        held = neuron_layouts.held(parts)
                    if held:
                        memory[core] = memory.get(core, 0.0) + held
            stats = group(groups, "execution_stats") or group(groups, "inference_stats")
            if stats:
                summary, errors = stats.get("execution_summary") or _dict(stats.get("inference_summary")), _dict(stats.get("error_summary"))
                if summary or errors:
                    done = summary.get("completed") or 0
                    completed = (completed or 0.0) + done
                    not_well = sum(filter(None, summary.values())) - done
                    failed += max(sum(filter(None, errors.values())), not_well)
                self._latency(stats, runtime)
        self._rows(time, busy, flops, memory, short)
        if device_memory is not None:
            self._one("memory_used_bytes", device_memory)
        if completed is not None and not short:
            self._one("executions_completed", completed)
            self._one("executions_failed", failed)
        elif failed:
            self._one("executions_failed", failed)
        self.executed = self.executed or bool(completed)

    def _cores(self, cores: dict[str, Any], busy: dict[str, float], flops: dict[str, float], time: float, short: bool) -> None:
        for core, counters in cores.items():
            if type(counters) is not dict:
                if counters is False:
                    flops.setdefault(core, 0.0)
                if type(counters) is bool:
                    busy.setdefault(core, 0.0)
                continue
            share = counters.get("neuroncore_utilization")
            if share is not None:
                busy[core] = busy.get(core, 0.0) + share
            else:
                self.reading.unknown_cores.add(core)
            work = counters.get("effective_flops")
            if work is None:
                work = counters.get("flops")
            if work is not None:
                flops[core] = flops.get(core, 0.0) + work
            if "v3d" in counters and not short:
                for name, part in _dict(counters["v3d"]).items():
                    share = _num(_dict(part).get("neuroncore_utilization"))
                    if share is not None:
                        self.reading.put(time, self._device(core), name, "neuroncore_physical_utilization", share * 0.01)

    def _one(self, metric: str, value: Any, process: str = "") -> None:
        """A row that is no core's; handed on with the others of the report."""
        if value is None:
            return
        index = self.hosts.get((metric, process))
        if index is None:
            index = self.hosts[metric, process] = self.reading.index(Key("", "", metric, process))
        self.pending_keys.append(index)
        self.pending.append(value)

    def _hand_on(self, time: float) -> None:
        values, keys = self.pending, self.pending_keys
        if values and not 0.0 <= min(values) <= sum(values) < 1e300:
            for index, value in zip(keys, values):
                key = self.reading.keys[index]
                self.reading.put(time, "", "", key.metric, value, key.process)
        elif values:
            batch = self.reading.batch
            batch.key.extend(keys)
            batch.value.extend(values)
            batch.time.extend([time] * len(values))
        values.clear(), keys.clear()

    def _rows(self, time: float, busy: dict[str, float], flops: dict[str, float], memory: dict[str, float], short: bool) -> None:
        """The core rows of one report, appended column by column."""
        batch = self.reading.batch
        if busy and not short:
            shares = [share * 0.01 for share in busy.values()]
            if 0.0 <= min(shares) <= max(shares) <= 1.0 and sum(shares) >= 0:  # the sum is for NaN
                self._append(batch, "neuroncore_utilization", tuple(busy), time, shares)
            else:
                for core, share in zip(busy, shares):
                    if share != share:
                        self.reading.unknown_cores.add(core)
                    self.reading.put(time, self._device(core), core, "neuroncore_utilization", min(share, 1.0) if share < 2 else share)
        if flops and not short:
            self._append(batch, "achieved_flop_per_s", tuple(flops), time, list(flops.values()))
        if memory:
            self._append(batch, "memory_used_bytes", tuple(memory), time, list(memory.values()))

    def _append(self, batch: Any, metric: str, cores: tuple[str, ...], time: float, values: list[float]) -> None:
        if not 0.0 <= min(values) <= sum(values) < 1e300:
            for core, value in zip(cores, values):
                self.reading.put(time, self._device(core), core, metric, value)
            return
        block = self.blocks.get((metric, *cores))
        if block is None:
            block = self.blocks[(metric, *cores)] = [self.reading.index(Key(self._device(core), core, metric)) for core in cores]
        batch.key.extend(block)
        batch.value.extend(values)
        batch.time.extend([time] * len(values))

    def _device(self, core: str) -> str:
        each = self.reading.cores_per_device
        return str(int(core) // each) if each and core.isdigit() else "0" if not each and self.reading.device_count == 1 else "?"

    def _latency(self, stats: dict[str, Any], runtime: dict[str, Any]) -> None:
        latency = _dict(stats.get("latency_stats")).get("total_latency")
        if type(latency) is dict:
            process = str(runtime.get("pid", runtime.get("neuron_runtime_tag", "")))
            self._one("execution_latency_p50_s", latency.get("p50"), process)
            self._one("execution_latency_p99_s", latency.get("p99"), process)

    def _system(self, groups: dict[str, Any], time: float) -> None:
        reading = self.reading
        memory = self._group(groups, "memory_info")
        if memory:
            self._one("host_memory_used_bytes", memory.get("memory_used_bytes"))
            self._one("host_memory_total_bytes", memory.get("memory_total_bytes"))
        average = self._group(groups, "vcpu_usage").get("average_usage")
        if type(average) is dict:
            reading.put(time, "", "", "host_cpu_busy", ((average.get("user") or 0) + (average.get("system") or 0)) * 0.01)
        devices = self._group(groups, "neuron_hw_counters").get("neuron_devices")
        if devices is not None and devices == self.ecc_seen:
            batch = reading.batch
            batch.key.extend(self.ecc_rows[0])
            batch.value.extend(self.ecc_rows[1])
            batch.time.extend([time] * len(self.ecc_rows[1]))
            return
        before = len(reading.batch)
        for device in _list(devices):
            counts = _dict(device)
            name = str(counts.get("neuron_device_index", "?"))
            for metric, ends in (("ecc_corrected", "_corrected"), ("ecc_uncorrected", "uncorrected")):
                found = [_num(value) for key, value in counts.items() if "ecc" in key and key.endswith(ends)]
                if found:
                    reading.put(time, name, "", metric, sum(value or 0 for value in found))
        batch = reading.batch
        self.ecc_seen, self.ecc_rows = devices, (batch.key[before:], batch.value[before:])

    def finish(self) -> None:
        reading = self.reading
        reading.clock = "epoch" if self.stamped and self.stamped == reading.samples else "periods" if reading.samples else "none"
        if self.short:
            reading.remark(
                "short_period", f"{self.short} of {reading.samples} reports cover less than {SHORTEST_PERIOD_S} s; their shares are not used"
            )
        if reading.samples and not self.runtimes:
            reading.remark("no_process_attached", f"no process held a NeuronCore in any of {reading.samples} reports")
        elif reading.samples and not self.executed:
            reading.remark("no_workload_seen", "0 executions finished while it was watched: this is not a device under load")
        if self.runtimes:
            reading.facts["runtimes"] = str(self.runtimes)


# -- pieces pasted from a report --------------------------------------------------------------

_PIECE = re.compile(
    r'(?:"(?P<core>\d+)"\s*:\s*)?\{\s*"neuroncore_utilization"\s*:\s*(?P<share>[\d.]+(?:[eE][-+]?\d+)?)(?:\s*,\s*"(?:effective_)?flops"\s*:\s*(?P<flops>[\d.]+(?:[eE][-+]?\d+)?))?'
)


def read_fragments(reading: Reading) -> Iterator[None]:
    """Pieces that no JSON parser takes: the pairs of utilization and FLOP/s in them, a repeated pair once."""
    last: Optional[tuple[str, str]] = None
    for line in reading.source.lines():
        text = line.decode("utf-8", "replace")
        for piece in _PIECE.finditer(text):
            pair = (piece["share"], piece["flops"] or "")
            if pair == last and not piece["core"] or (pair == last and pair[1]):
                continue
            last = pair
            reading.samples += 1
            core = piece["core"] or "?"
            reading.put(float(reading.samples), "?", core if core != "?" else "0", "neuroncore_utilization", float(piece["share"]) * 0.01)
            if piece["flops"]:
                reading.put(float(reading.samples), "?", core if core != "?" else "0", "achieved_flop_per_s", float(piece["flops"]))
        yield
    reading.remark("record_cut_off", f"pieces of reports, none whole; {reading.samples} pairs of numbers could be taken out")
