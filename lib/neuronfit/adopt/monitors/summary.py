"""What a monitor's file says: by device and core, for the host, and what must be known before it is believed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Optional

from neuronfit.adopt.monitors import hardware
from neuronfit.adopt.monitors.findings import CODES, NEXT
from neuronfit.adopt.monitors.series import Clock, Series, gather
from neuronfit.adopt.monitors.table import BUSY, MONITORED, WORK, Device, Key, Reading
from neuronfit.provenance import Grade, Quantity, absent
from neuronfit.record import Finding, MonitoredPart, Severity
from neuronfit.units import metric

__all__ = ["Remarked", "Summary", "WORDS"]

WORDS = {
    "gpu_kernel_active": "a kernel ran {} of the time",
    "gpu_engine_active": "the engine was active {} of the time",
    "gpu_sm_active": "{} of the SMs were active",
    "neuroncore_utilization": "the NeuronCores executed {} of the time",
}
"""What a busyness means, in a sentence."""

EXPECTED = {
    "busyness": BUSY,
    "device memory": ("memory_used_bytes",),
    "power": ("power_w",),
    "throttling": ("throttled_power", "throttled_thermal", "throttled_hardware", "throttled_power_s"),
    "memory errors (ECC)": ("ecc_uncorrected", "ecc_corrected"),
    "work done (FLOP/s or tensor activity)": WORK,
}
"""What one would want to know -> metrics that tell."""

_ODD = 0.05
"""Share of a series' values that may be impossible before nothing is said of it: those that are left are not a fair sample. Half, of fewer than 20."""

_COMPLETE = 0.5
"""Share of the cores that must have been seen for an average over all of them."""


@dataclass(frozen=True)
class Remarked:
    """A code of :data:`~neuronfit.adopt.monitors.findings.CODES` with its words."""

    code: str
    because: str

    def finding(self, target: Optional[str] = None) -> Finding:
        """As a finding; its severity is the one listed."""
        return Finding(severity=Severity(CODES[self.code][0]), code=self.code, because=self.because, next=NEXT.get(self.code), target=target)


@dataclass(frozen=True)
class Summary:
    """A whole file, read. Quantities are graded imported, or measured where this code did the sampling."""

    reading: Reading
    grade: Grade
    instance_type: Optional[str]
    clock: Clock
    span: Quantity
    samples: int
    parts: tuple[MonitoredPart, ...]
    busy_metric: Optional[str]
    busy_mean: Quantity
    quantities: dict[str, Quantity]
    remarks: tuple[Remarked, ...]
    missing: tuple[str, ...]
    recorded: tuple[str, ...]

    @classmethod
    def of(cls, reading: Reading, instance_type: Optional[str] = None, grade: Grade = Grade.IMPORTED) -> "Summary":
        """Read to the end. ``instance_type`` stands in where the file names none."""
        series, clock = gather(reading)
        return _Builder(reading, series, clock, reading.instance_type or instance_type, grade).summary()

    @property
    def findings(self) -> tuple[Finding, ...]:
        return tuple(remark.finding() for remark in self.remarks)

    @property
    def start_utc(self) -> Optional[str]:
        if self.reading.clock != "epoch" or self.clock.first is None:
            return None
        return datetime.fromtimestamp(self.clock.first, timezone.utc).isoformat(timespec="seconds").replace("+00:00", "Z")

    def plain(self) -> dict[str, object]:
        """Everything as JSON values, for a file that is only looked at."""
        return {
            "file": self.reading.source.name,
            "sha256": self.reading.source.sha256,
            "format": self.reading.format,
            "tool": self.reading.tool,
            "tool_version": self.reading.version,
            "sentence": self.sentence,
            "instance_type": self.instance_type,
            "start_utc": self.start_utc,
            "span": self.span.model_dump(mode="json"),
            "samples": self.samples,
            "busy_metric": self.busy_metric,
            "busy_mean": self.busy_mean.model_dump(mode="json"),
            "parts": [part.model_dump(mode="json") for part in self.parts],
            "quantities": {name: quantity.model_dump(mode="json") for name, quantity in self.quantities.items()},
            "recorded": list(self.recorded),
            "missing": list(self.missing),
            "facts": dict(self.reading.facts),
            "findings": [entry.model_dump(mode="json") for entry in self.findings],
        }

    @property
    def bottom_line(self) -> str:
        return self.sentence

    @property
    def sentence(self) -> str:
        """The bottom line, from the numbers."""
        whole = [part for part in self.parts if part.core is None and "/mig" not in part.device]
        names = sorted({part.name for part in whole if part.name})
        count = self.reading.device_count or len(whole)
        if [part.device for part in whole] == ["?"]:
            cores = sum(part.core is not None for part in self.parts)
            what = f"{cores} {'core' if cores == 1 else 'cores'} of a device that is not named"
        else:
            what = f"{count} {'device' if count == 1 else 'devices'}" + (f" ({', '.join(names)})" if names else "") if count else "No device"
            what += f" of {self.instance_type}" if count and self.reading.instance_type else ""
        span = f" over {_duration(self.span.value)}" if self.span.value else ""
        parts = [f"{what}, {self.samples} {'sample' if self.samples == 1 else 'samples'}{span}"]
        if self.busy_mean.known and self.busy_metric:
            busy = WORDS.get(self.busy_metric, "busy {} of the time").format(_percent(self.busy_mean.value))
            if self.busy_mean.high is not None and self.busy_mean.high > (self.busy_mean.value or 0) + 0.0005:
                busy += f", up to {_percent(self.busy_mean.high)} if what was not recorded was busy"
            only = whole[0] if len(whole) == 1 else None
            if only is not None and only.busy_p95.known and only.idle.known:
                busy += f" (p95 {_percent(only.busy_p95.value)}, idle in {_percent(only.idle.value)} of the samples)"
            parts.append(busy)
        else:
            parts.append(f"how busy is not known: {self.busy_mean.why}")
        used, total = self.quantities.get("memory_used_bytes"), self.quantities.get("memory_total_bytes")
        if used is not None and used.known:
            of = f" of {_memory(total.value)}" if total is not None and total.known else ""
            parts.append(f"at most {_memory(used.value)}{of} of device memory in use")
        return "; ".join(parts) + "."


class _Builder:
    def __init__(self, reading: Reading, series: dict[Key, Series], clock: Clock, instance_type: Optional[str], grade: Grade):
        self.reading, self.series, self.clock, self.grade = reading, series, clock, grade
        self.instance_type = instance_type
        self.known = hardware.about(instance_type) if instance_type else None
        self.metrics = {key.metric for key in series}
        self.neuron = reading.format.startswith("neuron") or "neuroncore_utilization" in self.metrics
        self.running = {key: entry for key, entry in series.items() if key.metric in BUSY and entry.is_running_mean()}
        if self.neuron and self.known is not None and self.known.vendor == "aws_neuron":
            reading.cores_per_device = reading.cores_per_device or self.known.cores_per_device
            reading.device_count = reading.device_count or self.known.devices
        self._place_cores()
        seen = {key.core for key in series if key.metric == "neuroncore_utilization"}
        self.in_use_only = reading.format == "neuron_monitor" and "record_cut_off" not in reading.remarks and reading.unknown_cores <= seen

    def _place_cores(self) -> None:
        """Cores whose device was not known while reading, now that the instance type is."""
        each = self.reading.cores_per_device
        placed: dict[Key, Series] = {}
        for key, entry in self.series.items():
            if key.device == "?" and key.core.isdigit():
                key = key._replace(device=str(int(key.core) // each) if each else "?")
            placed[key] = entry
        self.series = placed

    def value(self, number: Optional[float], unit: str, why: str, note: Optional[str] = None, **ends: float) -> Quantity:
        return absent(unit, why) if number is None else Quantity(value=number, unit=unit, grade=self.grade, why=note, **ends)

    # -- parts --

    def devices(self) -> list[str]:
        named = [key.device for key in self.series if key.device] + list(self.reading.devices)
        return sorted(set(named), key=_natural)

    def cores(self, device: str) -> list[str]:
        return sorted({key.core for key in self.series if key.device == device and key.core.isdigit()}, key=_natural)

    def find(self, device: str, core: str, *metrics: str) -> Optional[Series]:
        return next((entry for name in metrics if (entry := self.series.get(Key(device, core, name))) is not None), None)

    def part(self, device: str, core: str) -> MonitoredPart:
        about = self.reading.devices.get(device, Device())
        busy = self.find(device, core, *BUSY)
        work = self.find(device, core, *WORK)
        seen = [entry.count for key, entry in self.series.items() if key.device == device and key.core == core]
        memory = self.find(device, core, "memory_used_bytes")
        power = self.find(device, core, "power_w")
        return MonitoredPart(
            device=device,
            core=core or None,
            name=about.name,
            samples=min(max(seen, default=0), self.reading.samples or max(seen, default=0)),
            **self._busy(device, core, busy),
            memory_used=self.value(memory.most if memory else None, "bytes", "not recorded"),
            memory_total=self._capacity(device, core),
            power=self.value(power.mean if power else None, "W", "not recorded"),
            **self._work(device, work),
        )

    def _busy(self, device: str, core: str, busy: Optional[Series]) -> dict[str, object]:
        if busy is None:
            why = self._why_not_busy(device)
            return {"busy_metric": None, **{name: absent("fraction", why) for name in ("busy_mean", "busy_median", "busy_p95", "idle")}}
        if busy.key in self.running or "running_means" in self.reading.remarks:
            why = "the column is a mean since the start, not samples"
            return {
                "busy_metric": busy.key.metric,
                "busy_mean": self.value(busy.last, "fraction", "", "the last of the running means"),
                **{name: absent("fraction", why) for name in ("busy_median", "busy_p95", "idle")},
            }
        if "not_a_mean" in self.reading.remarks:
            why = self.reading.remarks["not_a_mean"].because
            return {"busy_metric": busy.key.metric, **{name: absent("fraction", why) for name in ("busy_mean", "busy_median", "busy_p95", "idle")}}
        odd = self.reading.odd.get((device, busy.key.metric), 0)
        every = busy.count + odd
        if odd > (_ODD if every >= 20 else 0.5) * every:
            why = f"{odd} of {every} values are impossible, so the others are no fair sample"
            return {"busy_metric": busy.key.metric, **{name: absent("fraction", why) for name in ("busy_mean", "busy_median", "busy_p95", "idle")}}
        few = f"{busy.count} {'sample' if busy.count == 1 else 'samples'}"
        spread = busy.count >= 5
        return {
            "busy_metric": busy.key.metric,
            "busy_mean": self.value(busy.mean, "fraction", ""),
            "busy_median": self.value(busy.quantile(0.5) if spread else None, "fraction", few),
            "busy_p95": self.value(busy.quantile(0.95) if spread else None, "fraction", few),
            "idle": self.value(busy.idle / busy.count if spread else None, "fraction", few),
        }

    def _why_not_busy(self, device: str) -> str:
        remarks, about = self.reading.remarks, self.reading.devices.get(device, Device())
        if about.part_of:
            return "a MIG slice; nvidia-smi has no utilization of slices"
        if about.mig and any(other.part_of == device and self.find(name, "", *BUSY) for name, other in self.reading.devices.items()):
            return "recorded by MIG slice, see their rows"
        if about.mig:
            return "under MIG, nvidia-smi has no utilization"
        for code in ("no_process_attached", "short_period", "busy_without_memory", "profiling_counters_stopped", "no_busyness"):
            if code in remarks:
                return remarks[code].because
        return "not recorded"

    def _work(self, device: str, work: Optional[Series]) -> dict[str, object]:
        if work is None:
            return {"work_metric": None, "work": absent("FLOP/s", "not recorded"), "work_share": absent("fraction", "no work was recorded")}
        name = work.key.metric
        value = self.value(work.mean, MONITORED[name].unit, "")
        if name == "gpu_tensor_active":
            return {
                "work_metric": name,
                "work": value,
                "work_share": self.value(work.mean, "fraction", "", "share of cycles in which the tensor pipe worked"),
            }
        peak, dtype = (self.known.peak_of_core, self.known.peak_dtype) if self.known and self.known.vendor == "aws_neuron" else (None, "")
        if (
            peak
            and self.reading.facts.get("logical NeuronCore config") == "1"
            and self.known
            and self.known.instance_type.startswith(("trn2", "trn3"))
        ):
            peak /= 2  # one physical core is a logical one
        if not peak:
            return {"work_metric": name, "work": value, "work_share": absent("fraction", "the instance type is not known, so neither is the peak")}
        return {
            "work_metric": name,
            "work": value,
            "work_share": self.value(work.mean / peak, "fraction", "", f"of {peak / 1e12:.0f} TFLOP/s, dense {dtype}"),
        }

    def _capacity(self, device: str, core: str) -> Quantity:
        if core:
            return absent("bytes", "memory belongs to the device")
        about = self.reading.devices.get(device, Device())
        total = self.find(device, "", "memory_total_bytes")
        if total is not None:
            return self.value(total.most, "bytes", "")
        if about.memory_bytes:
            return self.value(about.memory_bytes, "bytes", "", "as the file says")
        parts = [self.find(device, "", f"memory_{name}_bytes") for name in ("used", "free", "reserved")]
        if parts[0] is not None and parts[1] is not None:
            held = sum(entry.mean for entry in parts if entry is not None)
            return self.value(held, "bytes", "", "used and free together" if parts[2] is None else "used, free and reserved together")
        if self.known is not None and self.known.memory_bytes and not about.part_of:
            return Quantity(value=self.known.memory_bytes, unit="bytes", grade=Grade.PUBLISHED, why=f"catalogue, {self.known.instance_type}")
        return absent("bytes", "not recorded")

    def whole(self, device: str, cores: list[MonitoredPart]) -> MonitoredPart:
        """A device from its cores: the mean over all it has, memory added."""
        own = self.part(device, "")
        each = self.reading.cores_per_device or (self.reading.devices.get(device, Device()).cores)
        mean, why = _over_cores([part.busy_mean for part in cores], each, self.grade, self.in_use_only)
        if not any(part.busy_mean.known for part in cores):
            mean = absent("fraction", self._why_not_busy(device))
        held = [part.memory_used.value for part in cores if part.memory_used.value is not None]
        work = [part for part in cores if part.work.known]
        shares = [part.work_share.value or 0 for part in work if part.work_share.known]
        update: dict[str, object] = {"busy_mean": mean, "busy_metric": next((part.busy_metric for part in cores if part.busy_metric), None)}
        update.update({name: absent("fraction", why) for name in ("busy_median", "busy_p95", "idle")})
        update["samples"] = max((part.samples for part in cores), default=own.samples)
        if held and not own.memory_used.known:
            update["memory_used"] = self.value(sum(held), "bytes", "", "added over cores")
        if work:
            update["work_metric"] = work[0].work_metric
            update["work"] = self.value(sum(part.work.value or 0 for part in work), "FLOP/s", "", "added over cores")
            if shares and each:
                update["work_share"] = self.value(sum(shares) / max(each, len(shares)), "fraction", "", work[0].work_share.why)
        return own.model_copy(update=update)

    # -- all of it --

    def summary(self) -> Summary:
        parts: list[MonitoredPart] = []
        for device in self.devices():
            cores = [self.part(device, core) for core in self.cores(device)]
            parts.append(self.whole(device, cores) if cores else self.part(device, ""))
            parts += cores
        busy_metric, busy_mean = self._busy_of_all(parts)
        span = self._span()
        quantities = self._quantities(parts, span)
        self._judge(parts, quantities, span)
        missing = tuple(what for what, names in EXPECTED.items() if not self.metrics & set(names))
        if self.reading.clock in ("none", "assumed"):
            missing = (*missing, "times")
        return Summary(
            reading=self.reading,
            grade=self.grade,
            instance_type=self.instance_type,
            clock=self.clock,
            span=span,
            samples=self.reading.samples,
            parts=tuple(parts),
            busy_metric=busy_metric,
            busy_mean=busy_mean,
            quantities=quantities,
            remarks=tuple(
                Remarked(code, remark.because + (f" ({remark.count} times)" if remark.count > 1 and code not in ("no_process_attached",) else ""))
                for code, remark in sorted(self.reading.remarks.items())
            ),
            missing=missing,
            recorded=tuple(name for name in MONITORED if name in self.metrics),
        )

    def _span(self) -> Quantity:
        if "span_s" in self.reading.facts:
            return self.value(float(self.reading.facts.pop("span_s")), "s", "")
        if self.reading.clock == "none" or self.clock.first is None:
            return absent("s", "the file has no times")
        if self.reading.clock == "periods":
            return self.value(self.clock.last, "s", "", "the sum of the periods of the reports")
        if self.reading.clock == "assumed":
            return Quantity(value=self.clock.forward, unit="s", grade=Grade.ESTIMATED, why="one sample a second is assumed")
        return self.value(self.clock.forward, "s", "", "the clock's steps forward" if self.clock.back else None)

    def _busy_of_all(self, parts: list[MonitoredPart]) -> tuple[Optional[str], Quantity]:
        devices = [part for part in parts if part.core is None and not self._is_slice(part.device)]
        kinds = {part.busy_metric for part in devices if part.busy_metric}
        if not devices:
            return None, absent(
                "fraction",
                next(
                    (remark.because for code, remark in self.reading.remarks.items() if code in ("no_process_attached", "no_busyness")),
                    "no device in the file",
                ),
            )
        if not kinds:
            return None, absent("fraction", next(iter({part.busy_mean.why or "not recorded" for part in devices})))
        if len(kinds) > 1:
            return None, absent("fraction", f"devices report different quantities: {', '.join(sorted(kinds))}")
        kind = kinds.pop()
        given = [part.busy_mean for part in devices if part.busy_mean.known]
        expected = max(len(devices), self.reading.device_count or 0)
        if self.neuron and self.reading.cores_per_device:
            cores = [part.busy_mean for part in parts if part.core is not None and part.busy_mean.known]
            if cores:
                return kind, _over_cores(cores, expected * self.reading.cores_per_device, self.grade, self.in_use_only)[0]
        if not given and ("not_a_mean" in self.reading.remarks or len(devices) == expected == 1):
            return kind, devices[0].busy_mean
        if not given or len(given) < expected:
            return kind, absent("fraction", f"{len(given)} of {expected} devices have a number")
        low = sum(part.low if part.low is not None else part.value or 0 for part in given) / len(given)
        high = sum(part.high if part.high is not None else part.value or 0 for part in given) / len(given)
        mean = sum(part.value or 0 for part in given) / len(given)
        return kind, self.value(mean, "fraction", "", given[0].why if len(given) == 1 else None, **({"low": low, "high": high} if high > low else {}))

    def _is_slice(self, device: str) -> bool:
        return self.reading.devices.get(device, Device()).part_of is not None

    def _quantities(self, parts: list[MonitoredPart], span: Quantity) -> dict[str, Quantity]:
        found: dict[str, Quantity] = {}
        host = {key.metric: entry for key, entry in self.series.items() if not key.device and not key.process}
        devices = [part for part in parts if part.core is None and not self._is_slice(part.device)]
        used = [part.memory_used.value for part in devices if part.memory_used.value is not None]
        total = [part.memory_total for part in devices if part.memory_total.known]
        if "memory_used_bytes" in host:
            found["memory_used_bytes"] = self.value(host["memory_used_bytes"].most, "bytes", "", "device memory of all runtimes")
        elif used:
            found["memory_used_bytes"] = self.value(sum(used), "bytes", "")
        if total and len(total) == len(devices):
            grade = max((entry.grade for entry in total if entry.grade), key=lambda one: one.rank)
            count = max(len(devices), self.reading.device_count or 0)
            found["memory_total_bytes"] = Quantity(value=sum(entry.value or 0 for entry in total) / len(total) * count, unit="bytes", grade=grade)
        power = [part.power.value for part in devices if part.power.value is not None]
        if power and len(power) == len(devices):
            found["power_w"] = self.value(sum(power), "W", "")
        energy = [entry for key, entry in self.series.items() if key.metric == "energy_j"]
        if energy:
            found["energy_since_start_j"] = self.value(sum(entry.last for entry in energy), "J", "", "since the driver was loaded")
            if all(entry.count > 1 for entry in energy):
                found["energy_j"] = self.value(sum(entry.grown for entry in energy), "J", "", "while it was watched")
        for name in ("temperature_c",):
            hottest = [entry.most for key, entry in self.series.items() if key.metric == name]
            if hottest:
                found["temperature_max_c"] = self.value(max(hottest), "C", "")
        for short in ("completed", "failed"):
            delta, counter = host.get(f"executions_{short}"), host.get(f"executions_{short}_total")
            if delta is not None:
                found[f"executions_{short}"] = self.value(delta.total, "count", "")
            elif counter is not None:
                found[f"executions_{short}"] = self.value(
                    counter.grown if counter.count > 1 else None, "count", "one scrape of a counter; a rate needs two"
                )
        done = found.get("executions_completed")
        if done is not None and done.known and span.value:
            found["executions_per_s"] = self.value((done.value or 0) / span.value, "1/s", "")
        for name in ("p50", "p99"):
            latency = [entry for key, entry in self.series.items() if key.metric == f"execution_latency_{name}_s"]
            if latency:
                found[f"latency_{name}_worst_s"] = self.value(
                    max(entry.most for entry in latency), "s", "", "the worst of all processes and periods; percentiles are not averaged"
                )
        for name in ("host_memory_used_bytes", "host_memory_total_bytes"):
            if name in host:
                found[name] = self.value(host[name].most, "bytes", "")
        if "host_cpu_busy" in host:
            found["host_cpu_busy"] = self.value(
                host["host_cpu_busy"].last if "running_means" in self.reading.remarks else host["host_cpu_busy"].mean, "fraction", ""
            )
        return found

    # -- findings --

    def _judge(self, parts: list[MonitoredPart], quantities: dict[str, Quantity], span: Quantity) -> None:
        from neuronfit.adopt.monitors import judge

        judge.judge(self, parts, quantities, span)


def _over_cores(given: Iterable[Quantity], total: Optional[int], grade: Grade, in_use_only: bool = False) -> tuple[Quantity, str]:
    """Mean over all cores there are. Cores that were not seen are between idle and busy, which is the interval; fewer than half seen: no mean.
    ``in_use_only``: the file lists the cores that a process holds, so the others are idle."""
    values = [entry.value for entry in given if entry.value is not None]
    why = "of cores, see their rows"
    if not values:
        return absent("fraction", "not recorded"), why
    total = max(total or len(values), len(values))
    unseen = total - len(values)
    if in_use_only and unseen:
        note = f"mean of {total} cores; {unseen} were held by no process and count as idle"
        return Quantity(value=sum(values) / total, unit="fraction", grade=grade, why=note), why
    if len(values) < _COMPLETE * total:
        return absent("fraction", f"{len(values)} of {total} cores are in the file, too few for a mean"), why
    mean = sum(values) / total
    if not unseen:
        return Quantity(value=mean, unit="fraction", grade=grade, why=f"mean of {total} cores" if total > 1 else None), why
    note = f"{len(values)} of {total} cores seen; the value counts the others as idle"
    return Quantity(value=mean, unit="fraction", grade=grade, low=mean, high=(sum(values) + unseen) / total, why=note), why


def _natural(text: str) -> tuple[object, ...]:
    import re

    return tuple((0, int(part), "") if part.isdigit() else (1, 0, part) for part in re.split(r"(\d+)", text) if part)


def _percent(share: Optional[float]) -> str:
    return f"{share or 0:.1%}".replace(".0%", "%")


def _memory(size: Optional[float]) -> str:
    return metric("memory_bytes").text(size) if (size or 0) >= 2**30 else f"{(size or 0) / 2**20:.0f} MiB"


def _duration(seconds: Optional[float]) -> str:
    size = seconds or 0.0
    return f"{size:.0f} s" if size < 600 else f"{size / 60:.0f} min" if size < 7200 else f"{size / 3600:.1f} h"
