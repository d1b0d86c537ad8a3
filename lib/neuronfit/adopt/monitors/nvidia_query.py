"""``nvidia-smi -q`` as XML and as text, the plain table, ``-L`` and ``--version``: snapshots, one or many in a file.

XML and text hold the same tree under slightly different names that changed with the schema version
(``power_readings`` became ``gpu_power_readings``); both are read through the same list of names.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, Optional

from neuronfit.adopt.monitors.table import Reading
from neuronfit.adopt.monitors.words import amount, seconds

__all__ = ["read_list", "read_table", "read_text", "read_version", "read_xml", "recognise"]

Tree = dict[str, Any]


def recognise(head: bytes) -> Optional[str]:
    """``nvidia_xml``, ``nvidia_q``, ``nvidia_table``, ``nvidia_list`` or ``nvidia_version``."""
    text = head.decode("utf-8", "replace")
    if "<nvidia_smi_log" in text or "nvsmi_device" in text:
        return "nvidia_xml"
    if "NVSMI LOG" in text:
        return "nvidia_q"
    if re.search(r"\|\s*NVIDIA-SMI\s+[\d.]+", text):
        return "nvidia_table"
    if re.search(r"^NVIDIA-SMI version\s*:", text, re.MULTILINE):
        return "nvidia_version"
    if re.search(r"^GPU \d+: .+\(UUID: GPU-", text, re.MULTILINE):
        return "nvidia_list"
    return None


# -- XML --------------------------------------------------------------------------------------


def read_xml(reading: Reading) -> Iterator[None]:
    """Each ``<nvidia_smi_log>`` of the file is one moment; a last one that is cut off is left out."""
    from xml.etree import ElementTree

    rest: list[str] = []
    for raw in reading.source.lines():
        rest.append(raw.decode("utf-8", "replace"))
        if b"</nvidia_smi_log>" not in raw:
            continue
        *documents, last = "\n".join(rest).split("</nvidia_smi_log>")
        rest = [last]
        for document in documents:
            document = document[document.find("<nvidia_smi_log") :] + "</nvidia_smi_log>"
            try:
                root = ElementTree.fromstring(document)
            except ElementTree.ParseError as error:
                reading.remark("record_cut_off", f"a document is not well-formed ({error}) and is left out")
                continue
            _moment(reading, _tree(root), [_tree(gpu) for gpu in root.findall("gpu")])
            yield
    if any("<nvidia_smi_log" in line for line in rest):
        reading.remark("record_cut_off", "the last document is cut off and left out")


def _tree(node: Any) -> Tree:
    found: Tree = {}
    for child in node:
        value: Any = _tree(child) if len(child) else (child.text or "").strip()
        if child.tag in ("mig_device", "process_info"):
            found.setdefault(child.tag, []).append(value)
        else:
            found[child.tag] = value
    return found


# -- text -------------------------------------------------------------------------------------


def read_text(reading: Reading) -> Iterator[None]:
    """The indented text of ``-q``; each heading ``NVSMI LOG`` begins a moment."""
    moment: Optional[tuple[Tree, list[Tree]]] = None
    stack: list[tuple[int, Tree]] = []
    for raw in reading.source.lines():
        line = raw.decode("utf-8", "replace").rstrip()
        if "NVSMI LOG" in line:
            if moment is not None:
                _moment(reading, *moment)
                yield
            moment = ({}, [])
            stack = [(-1, moment[0])]
            continue
        if moment is None or not line.strip():
            continue
        indent = len(line) - len(line.lstrip())
        name, colon, value = line.strip().partition(" : ")
        if not colon and line.rstrip().endswith(":"):
            name = line.strip()[:-1]
        name = re.sub(r"[^a-z0-9]+", "_", name.strip().lower()).strip("_")
        if re.match(r"^GPU\s+[0-9A-Fa-f]{4,8}:", line.strip()):
            moment[1].append({})
            stack = [(-1, moment[0]), (indent, moment[1][-1])]
            continue
        while len(stack) > 1 and stack[-1][0] >= indent:
            stack.pop()
        if colon:
            stack[-1][1][name] = value.strip()
        else:
            inner: Tree = {}
            if re.match(r"^mig_device", name):
                stack[-1][1].setdefault("mig_device", []).append(inner)
            elif name != "none":
                stack[-1][1][name] = inner
            stack.append((indent, inner))
    if moment is not None:
        _moment(reading, *moment)
        yield


# -- what both hold ---------------------------------------------------------------------------

PLACES: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("memory_total_bytes", "MiB", ("fb_memory_usage/total", "memory_usage/total")),
    ("memory_used_bytes", "MiB", ("fb_memory_usage/used", "memory_usage/used")),
    ("memory_free_bytes", "MiB", ("fb_memory_usage/free", "memory_usage/free")),
    ("memory_reserved_bytes", "MiB", ("fb_memory_usage/reserved",)),
    ("gpu_kernel_active", "%", ("utilization/gpu_util", "utilization/gpu")),
    ("gpu_memory_active", "%", ("utilization/memory_util", "utilization/memory")),
    ("gpu_encoder_active", "%", ("utilization/encoder_util", "utilization/encoder")),
    ("gpu_decoder_active", "%", ("utilization/decoder_util", "utilization/decoder")),
    ("power_w", "W", tuple(f"{group}/{name}" for group in ("gpu_power_readings", "power_readings", "module_power_readings") for name in ("power_draw", "average_power_draw", "instant_power_draw", "instantaneous_power_draw"))),
    ("power_limit_w", "W", tuple(f"{group}/{name}" for group in ("gpu_power_readings", "power_readings") for name in ("enforced_power_limit", "current_power_limit", "power_limit"))),
    ("temperature_c", "", ("temperature/gpu_temp", "temperature/gpu_current_temp")),
    ("memory_temperature_c", "", ("temperature/memory_temp", "temperature/memory_current_temp")),
    ("sm_clock_hz", "MHz", ("clocks/sm_clock", "clocks/sm")),
    ("sm_clock_max_hz", "MHz", ("max_clocks/sm_clock", "max_clocks/sm")),
    ("memory_clock_hz", "MHz", ("clocks/mem_clock", "clocks/memory")),
)  # fmt: skip

REASONS = {"sw_power_cap": "throttled_power", "hw_power_brake_slowdown": "throttled_power", "hw_power_brake": "throttled_power", "hw_thermal_slowdown": "throttled_thermal", "sw_thermal_slowdown": "throttled_thermal", "hw_slowdown": "throttled_hardware"}  # fmt: skip


def _at(tree: Any, path: str) -> Optional[str]:
    for part in path.split("/"):
        tree = tree.get(part) if isinstance(tree, dict) else None
    return tree if isinstance(tree, str) else None


def _first(tree: Tree, paths: Sequence[str], unit: str) -> Optional[float]:
    return next((value for path in paths if (text := _at(tree, path)) is not None and (value := amount(text, unit)) is not None), None)


def _moment(reading: Reading, log: Tree, gpus: list[Tree]) -> None:
    when = seconds(log.get("timestamp"))
    time = when if when is not None else float(reading.samples)
    reading.clock = "epoch" if when is not None else "none"
    driver = next((version for name in ("kmd_version", "driver_version") if re.match(r"\d", version := str(log.get(name) or ""))), "")
    if driver:
        reading.facts["driver"] = driver.split()[0]
    attached = str(log.get("attached_gpus", ""))
    if attached.isdigit() and int(attached) > len(gpus):
        reading.remark("devices_missing", f"{attached} GPUs are attached, the file describes {len(gpus)}")
    for number, gpu in enumerate(gpus):
        _gpu(reading, time, str(number), gpu)
    reading.samples += 1
    if reading.samples == 2:
        reading.remarks.pop("single_sample", None)
    elif reading.samples == 1:
        reading.remark("single_sample", "one snapshot; how busy a device is over time needs many")


def _gpu(reading: Reading, time: float, device: str, gpu: Tree) -> None:
    known = reading.device(device)
    known.name = gpu.get("product_name") if isinstance(gpu.get("product_name"), str) else known.name
    mode = _at(gpu, "mig_mode/current_mig") or _at(gpu, "mig_mode/current")
    known.mig = known.mig or (mode or "").lower() == "enabled"
    found = {metric: _first(gpu, paths, unit) for metric, unit, paths in PLACES}
    if reading.is_artefact(device, found["gpu_kernel_active"], found["memory_used_bytes"]):
        found["gpu_kernel_active"] = found["gpu_memory_active"] = None
    for metric, value in found.items():
        reading.put(time, device, "", metric, value)
    for group in ("clocks_event_reasons", "clocks_throttle_reasons"):
        flags: dict[str, float] = {}
        for name, word in (gpu.get(group) or {}).items() if isinstance(gpu.get(group), dict) else ():
            short = re.sub(r"^clocks_(event|throttle)_reason_", "", name)
            if isinstance(word, dict):
                for inner, state in word.items():
                    if inner.startswith("hw_") and inner in REASONS and isinstance(state, str):
                        flags[REASONS[inner]] = max(flags.get(REASONS[inner], 0.0), float(state == "Active"))
            elif short in REASONS and word in ("Active", "Not Active"):
                flags[REASONS[short]] = max(flags.get(REASONS[short], 0.0), float(word == "Active"))
        for metric, value in flags.items():
            reading.put(time, device, "", metric, value)
    _ecc(reading, time, device, gpu.get("ecc_errors"))
    for slice_number, part in enumerate(_slices(gpu)):
        name = f"{device}/mig{part.get('index', slice_number)}"
        reading.device(name).part_of = device
        reading.device(name).name = "MIG slice"
        for metric in ("total", "used", "free"):
            places = (f"fb_memory_usage/{metric}", f"shared_fb_memory_usage/{metric}")  # the second where compute instances share a GPU instance
            reading.put(time, name, "", f"memory_{metric}_bytes", _first(part, places, "MiB"))


def _slices(gpu: Tree) -> list[Tree]:
    inside = gpu.get("mig_devices")
    found = inside.get("mig_device") if isinstance(inside, dict) else gpu.get("mig_device")
    return [part for part in found if isinstance(part, dict)] if isinstance(found, list) else []


def _ecc(reading: Reading, time: float, device: str, errors: Any) -> None:
    """Errors since the driver was loaded; those of the card's whole life are not of this run."""
    volatile = errors.get("volatile") if isinstance(errors, dict) else None
    if not isinstance(volatile, dict):
        return
    flat: dict[str, float] = {}

    def gather(tree: Tree, path: str) -> None:
        for name, value in tree.items():
            if isinstance(value, dict):
                gather(value, f"{path}{name}/")
            elif (count := amount(value)) is not None:
                flat[f"{path}{name}"] = count

    gather(volatile, "")
    for metric, wanted, refused in (
        ("ecc_corrected", ("correctable", "single_bit"), "uncorrectable"),
        ("ecc_uncorrected", ("uncorrectable", "double_bit"), "\0"),
    ):
        own = {name: value for name, value in flat.items() if any(word in name for word in wanted) and refused not in name}
        total = next((value for name, value in own.items() if name.endswith("total")), None)
        if own:
            reading.put(time, device, "", metric, total if total is not None else sum(own.values()))


# -- the plain table --------------------------------------------------------------------------

_FIRST = re.compile(r"^\|\s*(\d+)\s+(\S.*?)\s+(On|Off|N/A|WDDM|TCC|MCDM)\s*\|\s*([0-9A-Fa-f]{4,8}:[0-9A-Fa-f:.]+)\s+\S+\s*\|\s*(\S+)\s*\|")
_SECOND = re.compile(
    r"^\|\s*(\S+)\s+(\S+)\s+(P\d+|N/A|ERR!)\s+(\S+)\s*/\s*(\S+)\s*\|\s*(?:(\S+)\s*/\s*(\S+)|Not Supported|GPU is lost)\s*\|\s*(\S+)\s+(\S.*?)\s*\|"
)
_MIG = re.compile(r"^\|\s*(\d+)\s+(\d+)\s+(\d+)\s+(\d+)\s*\|\s*(\S+)\s*/\s*(\S+)\s*\|")


def read_table(reading: Reading) -> Iterator[None]:
    """What people paste first: the screen. Its first percentage is the fan, the one beside the memory is the utilization."""
    device, when = "", None
    seen: set[str] = set()
    for raw in reading.source.lines():
        line = raw.decode("utf-8", "replace").strip()
        version = re.search(r"NVIDIA-SMI\s+([\d.]+).*?(?:Driver|KMD) Version:\s*([\d.]+)", line)
        if version:
            reading.version, reading.facts["driver"] = version[1], version[2]
        if re.match(r"^[A-Z][a-z]{2} [A-Z][a-z]{2} +\d+ \d\d:\d\d:\d\d \d{4}", line):
            when = seconds(line)
        if first := _FIRST.match(line):
            device = first[1]
            if device in seen:
                seen.clear()
                reading.samples += 1
            seen.add(device)
            time = when if when is not None else float(reading.samples)
            reading.device(device).name = first[2].removesuffix("...").strip()
            reading.put(time, device, "", "ecc_uncorrected", amount(first[5]))
        elif device and (second := _SECOND.match(line)):
            time = when if when is not None else float(reading.samples)
            share, used = amount(second[8], "%"), amount(second[6] or "", "MiB")
            reading.put(time, device, "", "gpu_kernel_active", None if reading.is_artefact(device, share, used) else share)
            reading.put(time, device, "", "memory_used_bytes", used)
            for metric, text, unit in (("temperature_c", second[2], ""), ("power_w", second[4], "W"), ("power_limit_w", second[5], "W"), ("memory_total_bytes", second[7] or "", "MiB")):  # fmt: skip
                reading.put(time, device, "", metric, amount(text, unit))
        elif device and re.match(r"^\|\s+\|\s+\|\s+Enabled\s*\|", line):
            reading.device(device).mig = True
        elif part := _MIG.match(line):
            name = f"{part[1]}/mig{part[4]}"
            reading.device(name).part_of, reading.device(name).name = part[1], "MIG slice"
            time = when if when is not None else float(reading.samples)
            reading.put(time, name, "", "memory_used_bytes", amount(part[5], "MiB"))
            reading.put(time, name, "", "memory_total_bytes", amount(part[6], "MiB"))
        yield
    reading.samples += bool(seen)
    reading.clock = "epoch" if when is not None else "none"
    if reading.samples == 1:
        reading.remark("single_sample", "one screen; how busy a device is over time needs many")
    if not reading.samples:
        reading.remark("record_cut_off", "no row of a device could be read from the table")


def read_list(reading: Reading) -> Iterator[None]:
    """``nvidia-smi -L``: names only."""
    device = ""
    for raw in reading.source.lines():
        line = raw.decode("utf-8", "replace")
        if found := re.match(r"^GPU (\d+): (.+?) \(UUID", line):
            device = found[1]
            reading.device(device).name = found[2]
        elif device and (part := re.match(r"^\s+MIG (\S+)\s+Device\s+(\d+):", line)):
            reading.device(device).mig = True
            reading.device(f"{device}/mig{part[2]}").part_of = device
            reading.device(f"{device}/mig{part[2]}").name = part[1]
        yield
    reading.remark("no_busyness", "a list of devices says nothing about their use")


def read_version(reading: Reading) -> Iterator[None]:
    """``nvidia-smi --version``: a line that refers to another one ("Deprecated, see ...") is no version."""
    lines: dict[str, str] = {}
    for raw in reading.source.lines():
        name, colon, value = raw.decode("utf-8", "replace").partition(":")
        if colon:
            lines[" ".join(name.lower().split())] = value.strip()
        yield
    for fact, names in (("driver", ("kmd version", "driver version")), ("CUDA", ("cuda umd version", "cuda version")), ("NVML", ("nvml version",))):
        found = next((lines[name] for name in names if re.match(r"^\d", lines.get(name, ""))), None)
        if found:
            reading.facts[fact] = found
    version = lines.get("nvidia-smi version", "")
    reading.version = version if re.match(r"^\d", version) else None
    reading.remark("no_busyness", "versions only: no device and no number of it")
