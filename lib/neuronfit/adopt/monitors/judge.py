"""The findings that need all the numbers: gaps, throttling, errors, memory that does not add up, cores that idle."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from neuronfit.adopt.monitors import hardware
from neuronfit.adopt.monitors.series import IDLE
from neuronfit.adopt.monitors.table import BUSY, Device, Key, Remark

if TYPE_CHECKING:
    from neuronfit.adopt.monitors.table import Reading
    from neuronfit.provenance import Quantity
    from neuronfit.record import MonitoredPart

__all__ = ["judge"]

INVENTORY = ("neuron_ls_json", "neuron_ls_table", "neuron_top", "nvidia_list", "nvidia_version")
"""Formats that are not expected to say how busy anything is."""


def judge(built: Any, parts: "list[MonitoredPart]", quantities: "dict[str, Quantity]", span: "Quantity") -> None:
    """Add remarks to the reading. ``built`` holds the series, the clock and what is known of the hardware."""
    reading: Reading = built.reading
    devices = [part for part in parts if part.core is None and not built._is_slice(part.device)]
    cores = [part for part in parts if part.core is not None]
    _time(reading, built.clock)
    _busyness(built, reading, devices, cores)
    _throttling(built, reading, devices, span)
    _errors(built, reading, quantities)
    _memory(built, reading, devices)


def _time(reading: "Reading", clock: Any) -> None:
    if clock.back and reading.clock == "epoch":
        reading.remark(
            "clock_went_back", f"the clock went back {clock.back} {'time' if clock.back == 1 else 'times'}; the span counts its steps forward only"
        )
    if len(clock.steps) >= 5 and reading.clock == "epoch":
        usual = sorted(clock.steps)[len(clock.steps) // 2]
        if usual > 0 and clock.longest > max(10 * usual, 5.0):
            reading.remark("gaps_in_time", f"samples come every {usual:.3g} s, the longest gap is {clock.longest:.3g} s: nothing is known of it")


def _busyness(built: Any, reading: "Reading", devices: "list[MonitoredPart]", cores: "list[MonitoredPart]") -> None:
    if reading.samples == 1 and devices and reading.format.startswith(("nvidia", "dcgmi")) and reading.format not in INVENTORY:
        reading.remarks.setdefault("single_sample", Remark("one sample; how busy a device is over time needs many"))
    missing = [part for part in devices if part.busy_metric is None]
    under_mig = [part for part in missing if reading.devices.get(part.device, Device()).mig]
    by_slice = {device.part_of for name, device in reading.devices.items() if device.part_of and built.find(name, "", *BUSY) is not None}
    apart = [part.device for part in under_mig if part.device in by_slice]
    under_mig = [part for part in under_mig if part.device not in by_slice]
    if apart:
        reading.remark(
            "mig_slices_apart", f"GPU {', '.join(apart)} is partitioned (MIG): the file has the shares of its slices, and none of the card"
        )
    if under_mig:
        reading.remark(
            "mig_utilization_unknown",
            f"GPU {', '.join(part.device for part in under_mig)} is partitioned (MIG) and reports no utilization: unknown, not 0",
        )
    others = [part for part in missing if part not in under_mig and part.device not in apart]
    if not reading.samples and not devices and reading.format not in INVENTORY:
        reading.remark("no_sample", "no sample could be read from the file")
    explained = {"no_process_attached", "no_workload_seen", "profiling_counters_stopped", "no_busyness", "busy_without_memory"} & set(reading.remarks)
    if others and not explained and reading.format not in INVENTORY:
        reading.remark(
            "utilization_not_recorded", f"device {', '.join(part.device for part in others)}: no utilization in the file, which is not 0 %"
        )
    if built.running:
        key = next(iter(built.running))
        reading.remark(
            "running_means",
            f"{key.metric} of device {key.device} behaves like a mean since the start, not like samples; its last value is the mean of all",
        )
    slices = [name for name, device in reading.devices.items() if device.part_of]
    if slices:
        reading.facts["MIG slices"] = f"{len(slices)}; their memory is part of the card's and is not added to it"
    total = (reading.device_count or 0) * (reading.cores_per_device or 0)
    seen = [part for part in cores if part.busy_mean.known]
    if seen and total and len(seen) < total:
        if built.in_use_only:
            reading.remark("cores_not_used", f"{len(seen)} of {total} cores were held by a process; the others count as idle")
        else:
            reading.remark("cores_missing", f"{len(seen)} of {total} cores are in the file")
    if seen:
        used = [part for part in seen if (part.busy_mean.value or 0) > 0.005]
        if used and len(used) < len(seen):
            reading.remark("cores_not_used", f"{len(used)} of {len(seen)} cores did something: {', '.join(part.core or '' for part in used[:8])}")
        if not used and "no_workload_seen" not in reading.remarks and "no_process_attached" not in reading.remarks:
            reading.remark("no_workload_seen", f"all {len(seen)} cores seen are at 0 %: a process is attached and idle")
    for part in devices if not cores else cores:
        busy, share = part.busy_mean.value, part.work_share.value
        if busy is not None and busy > 0.9 and share is not None and share < 0.6:
            place = f"core {part.core}" if part.core else f"device {part.device}"
            did = (
                f"its tensor pipe worked in {share:.0%} of the cycles" if part.work_metric == "gpu_tensor_active" else f"did {share:.0%} of its peak"
            )
            reading.remark("busy_is_not_work", f"{place} was busy {busy:.0%} of the time and {did}: busy is not compute-bound")
        elif busy is not None and busy > 0.9 and part.work.known and part.work_metric == "achieved_flop_per_s" and share is None:
            done = part.work.value or 0.0
            could = {name: done / peak for name, peak in hardware.peaks_of_core().items() if done <= peak}
            words = ", ".join(f"{fraction:.0%} on {name}" for name, fraction in could.items())
            if could and min(could.values()) < 0.6:
                reading.remark(
                    "busy_is_not_work",
                    f"busy {busy:.0%} of the time at {done / 1e12:.1f} TFLOP/s a core, of the dense BF16 peak that is {words}: busy is not compute-bound",
                )
    for part in devices:
        encoder = built.find(part.device, "", "gpu_encoder_active")
        if encoder is not None and encoder.mean >= 0.5 and (part.busy_mean.value or 0) < 0.2 and part.busy_mean.known:
            reading.remark(
                "encoder_only",
                f"GPU {part.device}: the video encoder is {encoder.mean:.0%} busy, kernels run {part.busy_mean.value:.0%} of the time: a video job",
            )
        used, room = part.memory_used.value, part.memory_total.value
        if part.samples >= 5 and part.busy_mean.known and (part.busy_mean.value or 0) < 0.1 and used is not None and room and used < 0.1 * room:
            reading.remark(
                "hardly_used",
                f"device {part.device}: busy {part.busy_mean.value:.1%} on average, at most {used / 2**20:,.0f} of {room / 2**20:,.0f} MiB in use; the smallest instance is enough",
            )


def _throttling(built: Any, reading: "Reading", devices: "list[MonitoredPart]", span: "Quantity") -> None:
    """Held back while it worked: an idle card's reasons for a low clock take nothing from anybody."""
    idle = {part.device for part in devices if part.busy_mean.value is not None and part.busy_mean.value <= IDLE}
    for name, words in (("throttled_power", "a power cap"), ("throttled_thermal", "heat"), ("throttled_hardware", "a hardware slowdown")):
        worst = max(
            (entry for key, entry in built.series.items() if key.metric == name and key.device not in idle),
            key=lambda entry: entry.mean,
            default=None,
        )
        if worst is not None and worst.mean > 0:
            reading.remark(
                "held_back",
                f"GPU {worst.key.device} was held back by {words} in {worst.mean:.0%} of {worst.count} {'sample' if worst.count == 1 else 'samples'}"
                + _others(sum(key.metric == name and key.device not in idle and entry.mean > 0 for key, entry in built.series.items()) - 1),
            )
        counter = max(
            (entry for key, entry in built.series.items() if key.metric == f"{name}_s" and key.device not in idle),
            key=lambda entry: entry.grown,
            default=None,
        )
        if counter is not None and counter.count > 1 and counter.grown > 0:
            share = f", {counter.grown / span.value:.0%} of the time" if span.value else ""
            reading.remark("held_back", f"GPU {counter.key.device} was held back by {words} for {counter.grown:.1f} s{share}")
        elif counter is not None and counter.count == 1 and counter.last >= 0.1:
            reading.facts[f"held back by {words}"] = f"{counter.last:.1f} s since the driver was loaded"
    capped = [
        key.device
        for key, entry in built.series.items()
        if key.metric == "power_w"
        and (limit := built.find(key.device, "", "power_limit_w")) is not None
        and limit.mean > 0
        and entry.mean > 0.98 * limit.mean
    ]
    if capped and "held_back" not in reading.remarks:
        reading.remark("held_back", f"GPU {', '.join(capped)} draws its power limit on average")


_NAMED = 8
"""Devices that are named one by one."""


def _and_more(count: int) -> str:
    return f" and {count - _NAMED} more" if count > _NAMED else ""


def _others(count: int) -> str:
    return f", and {count} {'other' if count == 1 else 'others'} too" if count > 0 else ""


def _errors(built: Any, reading: "Reading", quantities: "dict[str, Quantity]") -> None:
    failed, done = quantities.get("executions_failed"), quantities.get("executions_completed")
    total = built.series.get(Key("", "", "executions_failed_total"))
    count = failed.value if failed is not None and failed.known else total.last if total is not None else 0.0
    if count:
        of = f" with {done.value:.0f} completed" if done is not None and done.known else ""
        reading.remark("execution_errors", f"{count:.0f} executions failed{of}: this run is not clean")
    for name in ("ecc_uncorrected", "ecc_corrected", "xid_error"):
        hits = [entry for key, entry in built.series.items() if key.metric == name and entry.last > 0]
        hits.sort(key=lambda entry: -entry.last)
        if not hits:
            continue
        if name == "xid_error":
            reading.remark("xid_error", "; ".join(f"GPU {hit.key.device} reports XID {hit.last:.0f}" for hit in hits[:_NAMED]) + _and_more(len(hits)))
            continue
        grown = f", {sum(hit.grown for hit in hits):.0f} of them while it was watched" if any(hit.count > 1 for hit in hits) else ""
        errors = f"{'uncorrected' if name == 'ecc_uncorrected' else 'corrected'} memory errors"
        if len(hits) == 1:
            reading.remark(name, f"device {hits[0].key.device} counts {hits[0].last:.0f} {errors}{grown}")
        else:
            each = ", ".join(f"device {hit.key.device}: {hit.last:.0f}" for hit in hits[:_NAMED]) + _and_more(len(hits))
            reading.remark(name, f"{sum(hit.last for hit in hits):.0f} {errors} on {len(hits)} devices ({each}){grown}")


def _memory(built: Any, reading: "Reading", devices: "list[MonitoredPart]") -> None:
    for part in devices:
        used, free, total, kept = (built.find(part.device, "", f"memory_{name}_bytes") for name in ("used", "free", "total", "reserved"))
        if used is None or free is None or total is None or "running_means" in reading.remarks:
            continue
        held = used.mean + free.mean
        if held + (kept.mean if kept else 0) < 0.94 * total.mean or held > 1.01 * total.mean:
            reading.remark(
                "memory_does_not_add_up",
                f"device {part.device}: {used.mean / 2**20:,.0f} used and {free.mean / 2**20:,.0f} free are not {total.mean / 2**20:,.0f} MiB",
            )
        if used.most > total.most * 1.001:
            reading.remark("memory_does_not_add_up", f"device {part.device}: {used.most / 2**20:,.0f} MiB used of {total.most / 2**20:,.0f}")
    over = [
        part for part in devices if part.memory_used.value and part.memory_total.value and part.memory_used.value > 1.02 * part.memory_total.value
    ]
    if over and "memory_does_not_add_up" not in reading.remarks:
        reading.remark("memory_does_not_add_up", f"device {over[0].device}: more in use than there is")
    _declared(built, reading, devices)
    gpu = built.known if built.known is not None and built.known.vendor == "nvidia" else None
    names = [device.name for device in reading.devices.values() if device.name and not device.part_of]
    if (
        gpu is not None
        and names
        and not any(hardware.same_gpu([gpu.name.removeprefix("NVIDIA ").split()[0]], name.replace("-", " ")) for name in names)
    ):
        reading.remark("other_accelerator", f"the file is of {names[0]}, {gpu.instance_type} has {gpu.name}")


def _declared(built: Any, reading: "Reading", devices: "list[MonitoredPart]") -> None:
    """A file that names no instance type against the one that was declared for it: more devices, or others."""
    known = built.known
    if known is None or reading.instance_type is not None:
        return
    if known.devices and len(devices) > known.devices:
        reading.remark("other_accelerator", f"the file has {len(devices)} devices, {known.instance_type} has {known.devices}")
    if known.vendor != "aws_neuron":
        return
    sizes = {device.memory_bytes for device in reading.devices.values() if device.memory_bytes}
    if known.memory_bytes and any(abs(size / known.memory_bytes - 1) > 0.05 for size in sizes):
        reading.remark(
            "other_accelerator",
            f"the file's devices have {max(sizes) / 2**30:.0f} GiB, those of {known.instance_type} {known.memory_bytes / 2**30:.0f} GiB",
        )
