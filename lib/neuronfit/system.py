"""Where it ran: host, processor, accelerators, drivers and package versions.

Reading is split in two: *parsers* are pure functions of text, *probes* read files and start short
commands and never raise. What could not be read is recorded as absent with the reason; nothing is
guessed. Nothing happens at import.
"""

from __future__ import annotations

import csv
import importlib
import importlib.util
import json
import os
import platform
import re
import subprocess
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any, Optional, Union

from pydantic import BaseModel, ConfigDict, Field

from neuronfit.errors import BadInput

__all__ = [
    "Accelerator",
    "AcceleratorState",
    "CpuInfo",
    "HostState",
    "System",
    "accelerator_state",
    "can_run",
    "host_state",
    "import_neuron",
    "memory_available",
    "neuron_devices",
    "neuron_route",
    "parse_cgroup_limit",
    "parse_cpu_quota",
    "parse_cpuinfo",
    "parse_meminfo",
    "parse_neuron_ls_json",
    "parse_nvidia_smi_csv",
    "parse_nvidia_smi_state",
    "parse_proc_stat",
    "peak_memory_bytes",
    "parse_torch_version",
    "physical_cores",
    "probe",
    "resident_bytes",
    "waited_for_cpu_s",
]

GIB = 2**30
XLA_TRACE = "XLA trace"
TORCHNEURON_COMPILED = "TorchNeuron compiled"
TORCHNEURON_EAGER = "TorchNeuron eager"


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Accelerator(_Frozen):
    """Accelerators of one kind in the host."""

    name: str
    count: int = Field(ge=1)
    memory_bytes_each: Optional[int] = None
    driver: Optional[str] = Field(None, description="version of the kernel driver")


class System(_Frozen):
    """One host, as far as it could be read; ``absent`` says what could not, and why."""

    host: str
    instance_type: Optional[str] = None
    region: Optional[str] = None
    os: Optional[str] = None
    python: Optional[str] = None
    cpu: Optional[str] = None
    cores_physical: Optional[int] = Field(None, description="cores this process may use")
    cores_logical: Optional[int] = Field(None, description="hardware threads this process may use")
    memory_bytes: Optional[int] = Field(None, description="of the machine, or the container's limit where that is lower")
    memory_available_bytes: Optional[int] = None
    accelerators: tuple[Accelerator, ...] = ()
    packages: dict[str, str] = Field(default_factory=dict, description="package -> version; Neuron's only if they import")
    load_1min: Optional[float] = None
    absent: dict[str, str] = Field(default_factory=dict, description="what could not be read -> why")

    @property
    def software(self) -> str:
        """Framework and compiler with versions, e.g. ``torch 2.13.0+cpu, transformers 5.24.0``."""
        order = ("torch", "transformers", "torch_neuronx", "neuronxcc")
        return ", ".join(f"{name} {self.packages[name]}" for name in order if name in self.packages)


# -- parsers: pure functions of text ----------------------------------------------------------


@dataclass(frozen=True)
class CpuInfo:
    """``/proc/cpuinfo``. ``cores`` maps a logical processor to its (package, core), where stated."""

    name: Optional[str]
    processors: tuple[int, ...]
    cores: dict[int, tuple[str, str]]


def parse_cpuinfo(text: str) -> CpuInfo:
    """Read ``/proc/cpuinfo``; Arm kernels state no model name and no core ids."""
    name, processors, cores = None, [], {}
    for block in text.split("\n\n"):
        fields = dict(_key_value(line) for line in block.splitlines() if ":" in line)
        name = name or fields.get("model name") or fields.get("Hardware")
        if not fields.get("processor", "").isdigit():
            continue
        number = int(fields["processor"])
        processors.append(number)
        if "core id" in fields:
            cores[number] = (fields.get("physical id", "0"), fields["core id"])
    return CpuInfo(name, tuple(processors), cores)


def parse_meminfo(text: str) -> dict[str, int]:
    """``/proc/meminfo`` as name -> bytes (the file's kB are KiB)."""
    sizes = {}
    for line in text.splitlines():
        found = re.match(r"(\S+):\s+(\d+)( kB)?\s*$", line)
        if found:
            sizes[found[1]] = int(found[2]) * (1024 if found[3] else 1)
    return sizes


def parse_cgroup_limit(text: str) -> Optional[int]:
    """Bytes of ``memory.max`` (v2) or ``memory.limit_in_bytes`` (v1); ``None``: no limit.

    Version 2 writes ``max`` for no limit, version 1 a number near 2^63.
    """
    text = text.strip()
    if not text.isdigit():
        return None
    limit = int(text)
    return limit if limit < 2**60 else None


def parse_cpu_quota(text: str) -> Optional[float]:
    """CPUs of ``cpu.max`` (``"150000 100000"`` is 1.5), or of v1's quota and period; ``None``: no limit."""
    parts = text.split()
    if len(parts) != 2 or not all(part.isdigit() for part in parts) or int(parts[1]) == 0:
        return None
    return int(parts[0]) / int(parts[1])


def parse_nvidia_smi_csv(text: str) -> tuple[Accelerator, ...]:
    """``nvidia-smi --query-gpu=name,memory.total,driver_version --format=csv``, equal GPUs together.

    ``[N/A]`` and ``[Not Supported]`` are absent. Units are taken from the header or the value (MiB).
    """
    rows = [[cell.strip() for cell in row] for row in csv.reader(text.splitlines()) if len(row) == 3]
    kinds: Counter[tuple[str, Optional[int], Optional[str]]] = Counter()
    for name, memory, driver in rows:
        if name == "name" or name.startswith("["):
            continue
        size = re.match(r"(\d+)\s*(MiB|GiB)?$", memory)
        scale = GIB if size and size[2] == "GiB" else 2**20
        kinds[(name, int(size[1]) * scale if size else None, None if driver.startswith("[") else driver)] += 1
    return tuple(Accelerator(name=name, count=count, memory_bytes_each=memory, driver=driver) for (name, memory, driver), count in kinds.items())


@dataclass(frozen=True)
class AcceleratorState:
    """Accelerators at one moment, all of the host together. ``None``: not stated."""

    clock_hz: Optional[float] = None
    """the lowest of them"""
    power_w: Optional[float] = None
    """summed"""
    slowed: tuple[str, ...] = ()
    """reasons for which the driver holds the clock down: heat or power"""


def parse_nvidia_smi_state(text: str) -> AcceleratorState:
    """``nvidia-smi --query-gpu=clocks.sm,power.draw,clocks_throttle_reasons.active --format=csv,noheader,nounits``.

    MHz, watts, and a bit mask. Of its bits only those that mean heat or power count (NVML
    ``nvmlClocksThrottleReasons``): 0x8 hardware slowdown, 0x20 software thermal, 0x40 hardware
    thermal, 0x80 hardware power brake; 0x4, the software power cap, is a card at its limit.
    """
    reasons = {0x4: "power cap", 0x8: "hardware slowdown", 0x20: "heat (software)", 0x40: "heat (hardware)", 0x80: "power brake"}
    clocks, powers, slowed = [], [], []
    for row in csv.reader(text.splitlines()):
        cells = [cell.strip() for cell in row]
        if len(cells) != 3:
            continue
        clocks += [float(cells[0]) * 1e6] if re.fullmatch(r"[\d.]+", cells[0]) else []
        powers += [float(cells[1])] if re.fullmatch(r"[\d.]+", cells[1]) else []
        mask = int(cells[2], 16) if re.fullmatch(r"0x[0-9a-fA-F]+", cells[2]) else 0
        slowed += [name for bit, name in reasons.items() if mask & bit]
    return AcceleratorState(min(clocks, default=None), sum(powers) if powers else None, tuple(dict.fromkeys(slowed)))


def parse_proc_stat(text: str, ticks_per_s: float) -> Optional[float]:
    """Seconds that all CPUs of the machine have been busy since it started, from ``/proc/stat``.

    The first line counts ticks: user, nice, system, idle, iowait, irq, softirq, steal, ... (proc(5)).
    Time in which a hypervisor ran somebody else (steal) is busy time for us. ``None`` for other text.
    """
    first = text.split("\n", 1)[0].split()
    if len(first) < 9 or first[0] != "cpu" or not all(part.isdigit() for part in first[1:9]):
        return None
    user, nice, system, _, _, irq, softirq, steal = map(int, first[1:9])
    return (user + nice + system + irq + softirq + steal) / ticks_per_s


def parse_neuron_ls_json(text: str) -> tuple[Accelerator, ...]:
    """``neuron-ls`` in JSON: a list of devices (``-j``) or an object that holds one (newer tools).

    Memory is per device, in bytes. Raises ``ValueError`` when the text is not JSON.
    """
    devices = _neuron_device_list(json.loads(text))
    kinds: Counter[tuple[str, Optional[int]]] = Counter()
    for device in devices:
        cores, memory = device.get("nc_count"), device.get("memory_size")
        name = f"Neuron device, {cores} cores" if isinstance(cores, int) else "Neuron device"
        kinds[(name, memory if isinstance(memory, int) and memory > 0 else None)] += 1
    return tuple(Accelerator(name=name, count=count, memory_bytes_each=memory) for (name, memory), count in kinds.items())


def parse_torch_version(text: str) -> tuple[Optional[str], Optional[str]]:
    """(version, CUDA version) from the text of torch's ``version.py``; CUDA is ``None`` for CPU builds."""
    version = re.search(r"^__version__\s*(?::\s*\w+\s*)?=\s*['\"]([^'\"]+)", text, re.MULTILINE)
    cuda = re.search(r"^cuda\s*(?::[^=]+)?=\s*['\"]([^'\"]+)", text, re.MULTILINE)
    return (version[1] if version else None, cuda[1] if cuda else None)


def _key_value(line: str) -> tuple[str, str]:
    key, _, value = line.partition(":")
    return key.strip(), value.strip()


def _neuron_device_list(data: Any) -> list[dict[str, Any]]:
    def are_devices(value: Any) -> bool:
        return isinstance(value, list) and bool(value) and all(isinstance(one, dict) and "neuron_device" in one for one in value)

    if are_devices(data):
        return data
    if isinstance(data, dict):
        if "neuron_device" in data:
            return [data]
        return next((value for value in data.values() if are_devices(value)), [])
    return []


# -- the route on Neuron ----------------------------------------------------------------------


def neuron_route(instance_type: str, torch_neuronx_version: str) -> str:
    """Which software route runs on this hardware: the only place that decides it.

    ``instance_type`` is an EC2 type (``inf2.xlarge``) or a generation (``inf2``).
    ``torch-neuronx`` up to 2.9 is the XLA library (``"XLA trace"`` on Inf2, Trn1, Trn2), from 2.13
    on it is TorchNeuron (``"TorchNeuron compiled"`` on Trn2, Trn3); one package name, two products
    (AWS Neuron SDK 2.33.0, TorchNeuron release notes, 2026-10-19). Raises
    :class:`~neuronfit.errors.BadInput` for a pair that does not exist.
    """
    generation = re.match(r"(inf1|inf2|trn1|trn2|trn3)", instance_type)
    if generation is None:
        raise BadInput("not a Neuron instance", instance_type, allowed="inf2, trn1, trn2, trn3")
    numbers = re.match(r"(\d+)\.(\d+)", torch_neuronx_version)
    version = (int(numbers[1]), int(numbers[2])) if numbers else (0, 0)
    xla, native = (1, 10) <= version <= (2, 9), version >= (2, 13)
    if xla and generation[1] in ("inf2", "trn1", "trn2"):
        return XLA_TRACE
    if native and generation[1] in ("trn2", "trn3"):
        return TORCHNEURON_COMPILED
    because = {
        "inf1": "Inf1 has only the archived torch-neuron 1.13",
        "trn3": "Trn3 needs TorchNeuron (torch-neuronx 2.13 or later)",
    }.get(generation[1], "TorchNeuron (torch-neuronx 2.13 or later) runs on Trn2 and Trn3 only; Inf2 and Trn1 need 2.9 or earlier")
    if not xla and not native:
        because = "torch-neuronx is 2.9 or earlier (XLA trace) or 2.13 or later (TorchNeuron)"
    raise BadInput(f"no route on {generation[1]} for torch-neuronx", torch_neuronx_version, allowed=because)


def import_neuron() -> tuple[dict[str, str], dict[str, str]]:
    """(package -> version, package -> why absent) of ``torch_neuronx`` and ``neuronxcc``, by importing them.

    The public package index carries placeholders under these names that are found and have metadata
    but raise ``ImportError("WRONG PACKAGE")`` when imported, so only an import tells.
    """
    present, missing = {}, {}
    for name in ("torch_neuronx", "neuronxcc"):
        if importlib.util.find_spec(name) is None:
            missing[name] = "not installed"
            continue
        try:
            module = importlib.import_module(name)
        except Exception as error:  # a broken driver or library raises anything; the reason is kept
            missing[name] = f"found, but it does not import ({type(error).__name__}: {_first_line(str(error))})"
            continue
        version = getattr(module, "__version__", None) or _installed(name) or _installed({"neuronxcc": "neuronx-cc"}.get(name, name))
        present[name] = str(version or "unknown")
    return present, missing


# -- probes: read, never raise ----------------------------------------------------------------


def probe() -> System:
    """Describe this host. Takes up to a few seconds where vendor tools are slow; never raises."""
    absent: dict[str, str] = {}
    cpu = _cpu(absent)
    memory, available = _memory(absent)
    instance_type, region = _ec2(absent)
    packages = _packages(absent)
    try:
        load = os.getloadavg()[0]
    except (OSError, AttributeError):
        load, absent["load_1min"] = None, "this system does not report it"
    return System(
        host=platform.node() or "unnamed-host",
        instance_type=instance_type,
        region=region,
        os=platform.platform(),
        python=platform.python_version(),
        cpu=cpu[0],
        cores_physical=cpu[1],
        cores_logical=cpu[2],
        memory_bytes=memory,
        memory_available_bytes=available,
        accelerators=_gpus(absent) + _neuron_accelerators(absent),
        packages=packages,
        load_1min=load,
        absent=absent,
    )


def can_run(path: str, system: Optional[System] = None) -> tuple[bool, str]:
    """Whether this host can measure a target of this software path, and the reason, in one sentence."""
    system = system or probe()
    torch = system.packages.get("torch")
    if path not in ("cpu", "cuda", "neuron_xla", "neuron_native"):
        return False, f"path {path} is measured through an endpoint, or by its own server's benchmark whose file is adopted"
    if torch is None:
        return False, "torch is not installed"
    if path == "cpu":
        return True, f"torch {torch} on {system.cores_physical or 'an unknown number of'} cores"
    if path == "cuda":
        gpus = [one for one in system.accelerators if not one.name.startswith("Neuron")]
        if not gpus:
            return False, f"no GPU ({system.absent.get('gpu', 'none listed')})"
        if _torch_file_versions()[1] is None:
            return False, f"{gpus[0].count} x {gpus[0].name}, but torch {torch} is built without CUDA"
        return True, f"{gpus[0].count} x {gpus[0].name} and torch {torch} built for CUDA"
    version = system.packages.get("torch_neuronx")
    if version is None:
        return False, f"torch_neuronx: {system.absent.get('torch_neuronx', 'not installed')}"
    if not neuron_devices():
        return False, f"torch_neuronx {version} is installed, but there is no /dev/neuron* device"
    wanted = XLA_TRACE if path == "neuron_xla" else TORCHNEURON_COMPILED
    try:
        route = neuron_route(system.instance_type or ("trn2" if path == "neuron_native" else "inf2"), version)
    except BadInput as error:
        return False, str(error)
    if route != wanted:
        return False, f"torch_neuronx {version} is the route {route}; path {path} needs {wanted}"
    return True, f"{route} with torch_neuronx {version}"


def neuron_devices() -> list[str]:
    """Device files of the Neuron driver, e.g. ``["/dev/neuron0"]``; empty without a driver."""
    return sorted(str(path) for path in Path("/dev").glob("neuron[0-9]*"))


def physical_cores() -> int:
    """Cores this process may use, container limits included; 1 when unknown."""
    _, physical, logical = _cpu({})
    return physical or logical or 1


def memory_available() -> Optional[int]:
    """Bytes that can still be allocated here, container limits included; ``None`` when unknown."""
    return _memory({})[1]


def waited_for_cpu_s() -> Optional[float]:
    """Seconds this process's threads were ready to run but had no CPU, since they started (Linux only)."""
    waits = [_text(path) for path in Path("/proc/self/task").glob("*/schedstat")]
    numbers = [text.split() for text in waits if text]
    return sum(int(parts[1]) for parts in numbers if len(parts) == 3) / 1e9 if numbers else None


@dataclass(frozen=True)
class HostState:
    """The host at one moment, read in well under a millisecond. ``None``: the system does not say."""

    load_1min: Optional[float] = None
    cpu_clock_hz: Optional[float] = None
    """mean over the CPUs"""
    busy_s: Optional[float] = None
    """all CPUs together, since the machine started"""


def host_state() -> HostState:
    """Load, clock and busy time now. Never raises."""
    try:
        load: Optional[float] = os.getloadavg()[0]
    except (OSError, AttributeError):
        load = None
    clocks = [float(one) for one in re.findall(r"^cpu MHz\s*:\s*([\d.]+)", _text("/proc/cpuinfo") or "", re.MULTILINE)]
    if not clocks:
        found = [_text(path) for path in Path("/sys/devices/system/cpu").glob("cpu[0-9]*/cpufreq/scaling_cur_freq")]
        clocks = [int(one) / 1e3 for one in found if one and one.strip().isdigit()]
    ticks = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100
    return HostState(load, sum(clocks) / len(clocks) * 1e6 if clocks else None, parse_proc_stat(_text("/proc/stat") or "", ticks))


def accelerator_state(path: str) -> AcceleratorState:
    """Clock and power of the accelerators of a software path; empty where no tool says so. Starts a command for ``cuda``."""
    if path != "cuda":
        return AcceleratorState()
    text, _ = _command("nvidia-smi", "--query-gpu=clocks.sm,power.draw,clocks_throttle_reasons.active", "--format=csv,noheader,nounits")
    return parse_nvidia_smi_state(text) if text else AcceleratorState()


def peak_memory_bytes(*, reset: bool = False) -> Optional[int]:
    """Peak resident bytes of this process, since the last ``reset`` where the system allows that (Linux). ``None``: unknown."""
    if reset:
        try:
            Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
        except OSError:
            return None
    found = re.search(r"^VmHWM:\s+(\d+) kB", _text("/proc/self/status") or "", re.MULTILINE)
    return int(found[1]) * 1024 if found else None


def resident_bytes() -> Optional[int]:
    """Resident bytes of this process now (Linux). ``None``: unknown."""
    found = re.search(r"^VmRSS:\s+(\d+) kB", _text("/proc/self/status") or "", re.MULTILINE)
    return int(found[1]) * 1024 if found else None


def _text(path: Union[str, Path]) -> Optional[str]:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None


def _cpu(absent: dict[str, str]) -> tuple[Optional[str], Optional[int], Optional[int]]:
    """Name, physical cores and logical cores that this process may use."""
    text = _text("/proc/cpuinfo")
    info = parse_cpuinfo(text) if text else CpuInfo(platform.processor() or None, (), {})
    name = info.name or platform.machine() or None
    logical = os.cpu_count()
    allowed: set[int] = set(info.processors)
    if hasattr(os, "sched_getaffinity"):
        allowed = os.sched_getaffinity(0)
        logical = len(allowed)
    quota = _cpu_quota()
    if logical and quota:
        logical = max(1, min(logical, int(quota)))
    physical = len({info.cores[number] for number in allowed if number in info.cores}) or None
    if physical is None:
        try:
            import psutil

            physical = psutil.cpu_count(logical=False)
        except ImportError:
            absent["cores_physical"] = "the system states no core ids and psutil is not installed"
    if physical and logical:
        physical = min(physical, logical)
    return name, physical, logical


def _memory(absent: dict[str, str]) -> tuple[Optional[int], Optional[int]]:
    """Total and available bytes, each no more than the tightest container limit allows."""
    text = _text("/proc/meminfo")
    if text:
        sizes = parse_meminfo(text)
        total, available = sizes.get("MemTotal"), sizes.get("MemAvailable")
    else:
        try:
            import psutil

            memory = psutil.virtual_memory()
            total, available = memory.total, memory.available
        except ImportError:
            absent["memory_bytes"] = "no /proc/meminfo and psutil is not installed"
            return None, None
    for folder in _cgroup_folders("memory"):
        limit = parse_cgroup_limit(_text(folder / "memory.max") or _text(folder / "memory.limit_in_bytes") or "")
        if limit is None:
            continue
        total = min(total, limit) if total else limit
        used = (_text(folder / "memory.current") or _text(folder / "memory.usage_in_bytes") or "").strip()
        cached = re.search(r"^(?:total_)?inactive_file (\d+)$", _text(folder / "memory.stat") or "", re.MULTILINE)
        if used.isdigit():
            left = max(0, limit - int(used) + (int(cached[1]) if cached else 0))
            available = left if available is None else min(available, left)
    return total, available


def _cpu_quota() -> Optional[float]:
    """The tightest CPU limit of the container, in CPUs."""
    quotas = []
    for folder in _cgroup_folders("cpu"):
        version_1 = f"{_text(folder / 'cpu.cfs_quota_us') or ''} {_text(folder / 'cpu.cfs_period_us') or ''}"
        quotas.append(parse_cpu_quota(_text(folder / "cpu.max") or version_1))
    return min((quota for quota in quotas if quota is not None), default=None)


def _cgroup_folders(controller: str) -> list[Path]:
    """This process's control group and its parents, version 1 or 2."""
    root = Path("/sys/fs/cgroup")
    groups = _text("/proc/self/cgroup") or ""
    own = re.search(rf"^\d+:(?:[^:]*,)?{controller}(?:,[^:]*)?:(.*)$", groups, re.MULTILINE)
    if own:
        root = root / controller
    else:
        own = re.search(r"^0::(.*)$", groups, re.MULTILINE)
    folder = root / (own[1] if own else "").lstrip("/")
    return [place for place in (folder, *folder.parents) if place == root or root in place.parents]


def _ec2(absent: dict[str, str]) -> tuple[Optional[str], Optional[str]]:
    """Instance type and region; the metadata service is asked only where the firmware says Amazon EC2."""
    dmi = Path("/sys/devices/virtual/dmi/id")
    vendors = f"{_text(dmi / 'sys_vendor') or ''} {_text(dmi / 'board_vendor') or ''}"
    if "Amazon EC2" not in vendors:
        absent["instance_type"] = absent["region"] = "not an EC2 instance, or its firmware tables cannot be read"
        return None, None
    product = (_text(dmi / "product_name") or "").strip()
    from_firmware = product if re.fullmatch(r"[a-z][a-z0-9-]*\.[a-z0-9-]+", product) else None
    if os.environ.get("AWS_EC2_METADATA_DISABLED", "").lower() == "true":
        absent["region"] = "the metadata service is disabled by AWS_EC2_METADATA_DISABLED"
        return from_firmware, None
    try:
        token = _metadata("api/token", method="PUT", headers={"X-aws-ec2-metadata-token-ttl-seconds": "60"})
        headers = {"X-aws-ec2-metadata-token": token}
        return (
            _metadata("meta-data/instance-type", headers=headers) or from_firmware,
            _metadata("meta-data/placement/region", headers=headers) or None,
        )
    except (OSError, ValueError) as error:
        absent["region"] = f"the EC2 metadata service did not answer ({_first_line(str(error))})"
        if from_firmware is None:
            absent["instance_type"] = absent["region"]
        return from_firmware, None


def _metadata(what: str, *, method: str = "GET", headers: Mapping[str, str]) -> str:
    """One value of the EC2 instance metadata service, version 2; never through a proxy."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    request = urllib.request.Request(f"http://169.254.169.254/latest/{what}", method=method, headers=dict(headers))
    with opener.open(request, timeout=0.3) as answer:
        return answer.read(4096).decode("ascii").strip()


def _gpus(absent: dict[str, str]) -> tuple[Accelerator, ...]:
    text, why = _command("nvidia-smi", "--query-gpu=name,memory.total,driver_version", "--format=csv")
    found = parse_nvidia_smi_csv(text) if text else ()
    if not found:
        absent["gpu"] = why or "nvidia-smi lists no GPU"
    return found


def _neuron_accelerators(absent: dict[str, str]) -> tuple[Accelerator, ...]:
    if not neuron_devices():
        absent["neuron"] = "no /dev/neuron* device"
        return ()
    driver = (_text("/sys/module/neuron/version") or "").strip() or None
    why = ""
    for arguments in (("--output-format", "json"), ("-j",)):
        text, why = _command("neuron-ls", *arguments)
        try:
            found = parse_neuron_ls_json(text) if text else ()
        except ValueError:
            found, why = (), "neuron-ls printed no JSON"
        if found:
            return tuple(one.model_copy(update={"driver": driver}) for one in found)
    absent["neuron_memory"] = why or "neuron-ls lists no device"
    return (Accelerator(name="Neuron device", count=len(neuron_devices()), driver=driver),)


def _command(*words: str) -> tuple[Optional[str], str]:
    """Standard output of a vendor tool, or ``None`` and why."""
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=10, check=False)
    except FileNotFoundError:
        return None, f"{words[0]} is not installed"
    except (OSError, subprocess.SubprocessError) as error:
        return None, f"{words[0]} did not answer ({type(error).__name__})"
    if done.returncode:
        return None, f"{words[0]} ended with status {done.returncode}: {_first_line(done.stderr or done.stdout)}"
    return done.stdout, ""


def _packages(absent: dict[str, str]) -> dict[str, str]:
    found = {}
    for name in ("torch", "transformers", "numpy"):
        version = (_torch_file_versions()[0] if name == "torch" else None) or _installed(name)
        if version:
            found[name] = version
        else:
            absent[name] = "not installed"
    present, missing = import_neuron()
    absent.update(missing)
    return {**found, **present}


def _torch_file_versions() -> tuple[Optional[str], Optional[str]]:
    """Version with its build tag, and CUDA version, without importing torch."""
    spec = importlib.util.find_spec("torch")
    if spec is None or not spec.origin:
        return None, None
    return parse_torch_version(_text(Path(spec.origin).parent / "version.py") or "")


def _installed(name: str) -> Optional[str]:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _first_line(text: str, limit: int = 120) -> str:
    line = next((line.strip() for line in text.splitlines() if line.strip()), "no message")
    return line if len(line) <= limit else line[: limit - 3] + "..."
