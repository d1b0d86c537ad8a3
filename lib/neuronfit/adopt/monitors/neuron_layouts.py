"""neuron-monitor's reports in other layouts than today's: of older tools, and with parts that no document describes.

The beta of 2020 (runtime 1.x, Inferentia1) called its lists `runtime_data`, `nc_counters` and `neuron_cores`; tools up
to 2.4 called the executions `inference_stats`. Source: the guides of those releases in the aws-neuron-sdk repository.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["held", "is_beta", "modern", "without_odd_groups"]

GROUPS = {"nc_counters": "neuroncore_counters", "inference_stats": "execution_stats", "runtime_cpu_usage": "neuron_runtime_vcpu_usage"}
"""Group of an older layout -> its name today."""

INSIDE = {"neuron_cores": "neuroncores_in_use", "inference_summary": "execution_summary", "cpu_usage": "vcpu_usage"}


def held(parts: dict[str, Any]) -> float:
    """Bytes of one core that are in use now: numbers by category, or by category ``present``, ``peak`` and ``total`` (since the start)."""
    found = 0.0
    for part in parts.values():
        part = part.get("present") if isinstance(part, dict) else part
        if isinstance(part, (int, float)) and not isinstance(part, bool):
            found += part
    return found


def is_beta(report: dict[str, Any]) -> bool:
    """Whether a report is of the beta's layout."""
    return isinstance(report.get("runtime_data"), list) and ("instance_data" in report or "system_data" in report)


def modern(report: dict[str, Any]) -> dict[str, Any]:
    """A report of the beta in today's layout; numbers are left as they are."""
    runtimes, devices = [], []
    for runtime in report["runtime_data"]:
        if not isinstance(runtime, dict):
            continue
        groups = renamed(runtime.get("report") or {})
        counters = groups.pop("hw_counters", None)
        if isinstance(counters, dict):
            devices += [
                {**device, "neuron_device_index": device.get("device_index")}
                for device in counters.get("neuron_devices") or []
                if isinstance(device, dict)
            ]
        memory = groups.get("memory_used")
        if isinstance(memory, dict) and isinstance(memory.get("runtime_memory"), dict):
            used = memory["runtime_memory"]
            groups["memory_used"] = {**memory, "neuron_runtime_used_bytes": {"host": used.get("host"), "neuron_device": used.get("device")}}
        runtimes.append({"pid": runtime.get("runtime_index"), "error": runtime.get("error"), "report": groups})
    system = report.get("system_data") if isinstance(report.get("system_data"), dict) else {}
    system = {("vcpu_usage" if name == "cpu_usage" else name): group for name, group in (system or {}).items()}
    if devices:
        system["neuron_hw_counters"] = {"neuron_devices": devices}
    return {"neuron_runtime_data": runtimes, "system_data": system, "instance_info": report.get("instance_data") or {}, "neuron_hardware_info": {}}


def renamed(groups: dict[str, Any]) -> dict[str, Any]:
    """A runtime's groups under today's names."""
    found = {}
    for name, group in groups.items():
        if isinstance(group, dict):
            group = {INSIDE.get(inner, inner): value for inner, value in group.items()}
        found[GROUPS.get(name, name)] = group
    return found


def without_odd_groups(report: dict[str, Any], reads: Callable[[dict[str, Any]], bool], remark: Callable[[str], None]) -> dict[str, Any]:
    """The report without the groups that alone cannot be read; ``remark`` hears their names. So an odd group blanks itself and no other."""
    alone = {**report, "neuron_runtime_data": [], "system_data": {}}
    runtimes = []
    for runtime in report.get("neuron_runtime_data") or []:
        groups = runtime.get("report") if isinstance(runtime, dict) else None
        if not isinstance(groups, dict):
            continue
        kept = {}
        for name, group in groups.items():
            if reads({**alone, "neuron_runtime_data": [{**runtime, "report": {name: group}}]}):
                kept[name] = group
            else:
                remark(name)
        runtimes.append({**runtime, "report": kept})
    system = {}
    for name, group in (report.get("system_data") or {}).items() if isinstance(report.get("system_data"), dict) else ():
        if reads({**alone, "system_data": {name: group}}):
            system[name] = group
        else:
            remark(name)
    return {**report, "neuron_runtime_data": runtimes, "system_data": system}
