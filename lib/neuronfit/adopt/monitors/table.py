"""The one table of all monitors: time, device, core, metric, value, unit, in columnar batches.

Every reader turns its tool's words into the metrics listed here, in SI units and fractions. A GPU's
"utilization" is the share of time in which some kernel ran; a NeuronCore's is another quantity. They
have different names here and are never put side by side without saying so.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, Optional

if TYPE_CHECKING:
    from neuronfit.adopt.monitors.source import Source

__all__ = ["BUSY", "Batch", "Device", "Key", "MONITORED", "Monitored", "NO_CONTEXT_BYTES", "Reading", "Remark", "WORK"]


class Monitored(NamedTuple):
    """One metric of the table. ``kind``: ``share`` (0..1), ``gauge``, ``counter`` (only grows), ``delta`` (per sample)."""

    unit: str
    kind: str
    meaning: str


MONITORED: dict[str, Monitored] = {
    # GPU: shares of time
    "gpu_kernel_active": Monitored("fraction", "share", "share of time in which at least one kernel ran (nvidia-smi's utilization.gpu)"),
    "gpu_memory_active": Monitored("fraction", "share", "share of time in which device memory was read or written"),
    "gpu_encoder_active": Monitored("fraction", "share", "share of time in which the video encoder ran"),
    "gpu_decoder_active": Monitored("fraction", "share", "share of time in which the video decoder ran"),
    "gpu_engine_active": Monitored("fraction", "share", "share of time in which the graphics or compute engine was active (DCGM)"),
    "gpu_sm_active": Monitored("fraction", "share", "share of SMs with a warp resident, over time (DCGM)"),
    "gpu_sm_occupancy": Monitored("fraction", "share", "share of warp slots taken, over time (DCGM)"),
    "gpu_tensor_active": Monitored("fraction", "share", "share of cycles in which the tensor pipe worked (DCGM)"),
    "gpu_dram_active": Monitored("fraction", "share", "share of cycles in which device memory moved data (DCGM)"),
    "gpu_fp64_active": Monitored("fraction", "share", "share of cycles in which the FP64 pipe worked (DCGM)"),
    "gpu_fp32_active": Monitored("fraction", "share", "share of cycles in which the FP32 pipe worked (DCGM)"),
    "gpu_fp16_active": Monitored("fraction", "share", "share of cycles in which the FP16 pipe worked (DCGM)"),
    # Neuron
    "neuroncore_utilization": Monitored("fraction", "share", "share of the period in which the NeuronCore executed, all processes together"),
    "neuroncore_physical_utilization": Monitored("fraction", "share", "the same of one physical core below a logical one (`v3d`)"),
    "achieved_flop_per_s": Monitored("FLOP/s", "gauge", "floating point work done per second, as the monitor counts it"),
    # memory
    "memory_used_bytes": Monitored("bytes", "gauge", "device memory in use"),
    "memory_free_bytes": Monitored("bytes", "gauge", "device memory free"),
    "memory_reserved_bytes": Monitored("bytes", "gauge", "device memory kept by the driver"),
    "memory_total_bytes": Monitored("bytes", "gauge", "device memory there is"),
    "host_memory_used_bytes": Monitored("bytes", "gauge", "host memory in use"),
    "host_memory_total_bytes": Monitored("bytes", "gauge", "host memory there is"),
    "host_cpu_busy": Monitored("fraction", "share", "host CPU time in user and system mode"),
    # electricity, heat, clocks
    "power_w": Monitored("W", "gauge", "power drawn"),
    "power_limit_w": Monitored("W", "gauge", "power limit in force"),
    "energy_j": Monitored("J", "counter", "energy since the driver was loaded"),
    "temperature_c": Monitored("C", "gauge", "temperature of the chip"),
    "memory_temperature_c": Monitored("C", "gauge", "temperature of the memory"),
    "sm_clock_hz": Monitored("Hz", "gauge", "clock of the SMs"),
    "sm_clock_max_hz": Monitored("Hz", "gauge", "highest clock of the SMs"),
    "memory_clock_hz": Monitored("Hz", "gauge", "clock of the memory"),
    "throttled_power": Monitored("fraction", "share", "held back by a power cap or brake"),
    "throttled_thermal": Monitored("fraction", "share", "held back by heat"),
    "throttled_hardware": Monitored("fraction", "share", "held back by a hardware slowdown"),
    "throttled_power_s": Monitored("s", "counter", "time held back by a power cap, since the driver was loaded"),
    "throttled_thermal_s": Monitored("s", "counter", "time held back by heat, since the driver was loaded"),
    # errors
    "ecc_corrected": Monitored("count", "counter", "memory errors that were corrected"),
    "ecc_uncorrected": Monitored("count", "counter", "memory errors that were not"),
    "xid_error": Monitored("code", "gauge", "last XID error of the driver; 0 is none"),
    "retired_pages": Monitored("count", "counter", "memory pages taken out of use"),
    # work
    "executions_completed": Monitored("count", "delta", "executions finished in the period"),
    "executions_failed": Monitored("count", "delta", "errors and executions that did not finish well in the period"),
    "executions_completed_total": Monitored("count", "counter", "executions finished since the process started"),
    "executions_failed_total": Monitored("count", "counter", "errors and failed executions since the process started"),
    "execution_latency_p50_s": Monitored("s", "gauge", "median latency of one process in the period"),
    "execution_latency_p99_s": Monitored("s", "gauge", "p99 latency of one process in the period; never averaged over processes"),
    "period_s": Monitored("s", "gauge", "length of the period that a sample covers"),
}

_MOST = {name: 1.0 if entry.kind == "share" else 1.7e308 for name, entry in MONITORED.items()}

BUSY = ("neuroncore_utilization", "gpu_kernel_active", "gpu_engine_active", "gpu_sm_active")
"""What a device's busyness is read from, the first that was recorded."""

NO_CONTEXT_BYTES = 16 * 2**20
"""No process can hold a CUDA context in less; 100 % busy with less in use is a freshly loaded driver's first reading."""

WORK = ("achieved_flop_per_s", "gpu_tensor_active")
"""What can be set beside the other vendor: achieved FLOP/s, and the share of cycles of the tensor pipe."""


class Key(NamedTuple):
    """Whose number it is: device ("0", a MIG slice "0/mig1", "" for the host), core ("" for the device), metric, process."""

    device: str
    core: str
    metric: str
    process: str = ""


class Batch:
    """Some rows of the table, dictionary-encoded: ``key[i]`` points into ``keys``.

    ``time`` is in seconds since 1970 (UTC) or, where the file has no clock, since its first sample.
    """

    __slots__ = ("keys", "time", "key", "value")

    def __init__(self, keys: list[Key]):
        self.keys, self.time, self.key, self.value = keys, [], [], []  # type: ignore[var-annotated]

    def __len__(self) -> int:
        return len(self.value)

    def columns(self) -> dict[str, list[Any]]:
        """The six columns as lists: time, device, core, metric, value, unit."""
        named = [self.keys[index] for index in self.key]
        return {
            "time": list(self.time),
            "device": [key.device for key in named],
            "core": [key.core for key in named],
            "metric": [key.metric for key in named],
            "value": list(self.value),
            "unit": [MONITORED[key.metric].unit for key in named],
        }


@dataclass
class Device:
    """What is known of a device beside its numbers."""

    name: Optional[str] = None
    cores: Optional[int] = None
    memory_bytes: Optional[float] = None
    mig: bool = False
    """partitioned into MIG slices"""
    part_of: Optional[str] = None
    """the device of which this is a slice"""


@dataclass
class Remark:
    """Something a reader noticed: how often, and the first case in words."""

    because: str
    count: int = 1


ROWS = 65536


@dataclass
class Reading:
    """A file being read: iterate for its batches; what was found beside the numbers is filled in on the way."""

    source: "Source"
    format: str
    tool: str
    version: Optional[str] = None
    clock: str = "none"
    """``epoch``, ``periods`` (times are sums of the periods that samples cover), ``of_day`` (times without a date), ``assumed`` or ``none``"""
    instance_type: Optional[str] = None
    devices: dict[str, Device] = field(default_factory=dict)
    remarks: dict[str, Remark] = field(default_factory=dict)
    facts: dict[str, str] = field(default_factory=dict)
    samples: int = 0
    keys: list[Key] = field(default_factory=list)
    cores_per_device: Optional[int] = None
    device_count: Optional[int] = None
    columns: tuple[str, ...] = ()
    """the fields of the query, where a CSV has no header and somebody said them"""
    unknown_cores: set[str] = field(default_factory=set)
    """cores that a process was listed to hold, without a number of their use"""
    odd: dict[tuple[str, str], int] = field(default_factory=dict)
    """(device, metric) -> values that were left out as impossible"""
    _index: dict[Key, int] = field(default_factory=dict)
    _batch: Optional[Batch] = None
    _full: list[Batch] = field(default_factory=list)

    def remark(self, code: str, because: str) -> None:
        """Note a finding; the first case is kept in words, later ones are counted."""
        if code in self.remarks:
            self.remarks[code].count += 1
        else:
            self.remarks[code] = Remark(because)

    def device(self, name: str) -> Device:
        return self.devices.setdefault(name, Device())

    def index(self, key: Key) -> int:
        found = self._index.get(key)
        if found is None:
            found = self._index[key] = len(self.keys)
            self.keys.append(key)
        return found

    @property
    def batch(self) -> Batch:
        if self._batch is None:
            self._batch = Batch(self.keys)
        return self._batch

    def put(self, time: float, device: str, core: str, metric: str, value: Optional[float], process: str = "") -> None:
        """One row. ``None``, NaN, infinities and impossible values are absent, never 0."""
        if value is None:
            return
        if not 0.0 <= value <= _MOST[metric]:
            value = self._odd(value, device, metric)
            if value is None:
                return
        batch = self._batch if self._batch is not None else self.batch
        key = (device, core, metric, process)
        index = self._index.get(key)  # type: ignore[call-overload]
        batch.key.append(self.index(Key(*key)) if index is None else index)
        batch.time.append(time)
        batch.value.append(value)

    def is_artefact(self, device: str, share: Optional[float], used_bytes: Optional[float]) -> bool:
        """Whether a GPU says that it is busy all the time with less memory in use than a process needs: such a reading is left out."""
        if share is None or used_bytes is None or share < 0.99 or used_bytes >= NO_CONTEXT_BYTES:
            return False
        self.remark(
            "busy_without_memory",
            f"device {device} says {share:.0%} busy with {used_bytes / 2**20:.0f} MiB in use: no process fits in that, the reading is left out",
        )
        return True

    def _odd(self, value: float, device: str, metric: str) -> Optional[float]:
        """A value outside its range: absent, or a share that rounding has lifted above 1."""
        if not math.isfinite(value):
            return None
        if value < 0 and MONITORED[metric].unit == "C":
            return value
        if 1 < value <= 1.02:
            return 1.0
        self.odd[device, metric] = self.odd.get((device, metric), 0) + 1
        why = "a share is at most 1" if value > 1 else "it cannot be negative"
        self.remark("impossible_value", f"{metric} of {f'device {device}' if device else 'the host'} is {value:.3g}, {why}; it is left out")
        return None

    def full(self) -> Iterator[Batch]:
        """The batch at hand once it is large; readers yield from this between samples."""
        if self._batch is not None and len(self._batch) >= ROWS:
            done, self._batch = self._batch, None
            yield done

    def rest(self) -> Iterator[Batch]:
        """What is left at the end of the file."""
        if self._batch is not None and len(self._batch):
            done, self._batch = self._batch, None
            yield done

    def __iter__(self) -> Iterator[Batch]:
        from neuronfit.adopt.monitors import READERS

        try:
            steps = READERS[self.format](self)
            while True:
                try:
                    next(steps)
                except StopIteration:
                    break
                except (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError, csv.Error) as error:
                    self.remark("record_cut_off", f"reading stopped at an unexpected place ({type(error).__name__}); what comes before is read")
                    break
                yield from self.full()
            yield from self.rest()
            self.source.finish()
        finally:
            self.source.close()
