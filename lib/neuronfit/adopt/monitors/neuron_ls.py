"""neuron-ls (JSON of both kinds, and its table in every layout since 2020) and neuron-top: what devices there are, who holds them.

neuron-ls says nothing about use. The table is split on its bars, never on widths, and ends where its
rule ends; a row without a device number belongs to the device above.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Optional

from neuronfit.adopt.monitors import hardware, json_stream
from neuronfit.adopt.monitors.table import Reading
from neuronfit.adopt.monitors.words import amount

__all__ = ["read_json", "read_table", "read_top", "read_top_json", "recognise"]

_ESCAPE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b[()][A-Z0-9]")
TOOLS = ("neuron-ls", "neuron-top", "neuron-monitor")
OLD_RUNTIME = (2, 20)
"""Runtimes below this are of 2023 and earlier."""


def recognise(head: bytes) -> Optional[str]:
    """``neuron_ls_json``, ``neuron_ls_table``, ``neuron_top`` or ``neuron_top_json``."""
    text = _ESCAPE.sub("", head.decode("utf-8", "replace"))
    if re.search(r'"neuron_device"\s*:\s*\d', text) and re.search(r'"(nc_count|neuroncore_ids|memory_size|bdf)"', text):
        return "neuron_ls_json"
    if re.search(r"^\|[^\n]*NEURON[^\n]*\|", text, re.MULTILINE) and re.search(r"^\|[^\n]*(DEVICE|LOGICAL)[^\n]*\|", text, re.MULTILINE):
        return "neuron_ls_table"
    if text.lstrip()[:1] in "{[" and re.search(r'"(neuron_?cores?|NC\d+)"', text) and re.search(r'"[^"]*util[^"]*"\s*:\s*[\d.]+', text):
        return "neuron_top_json"
    if re.search(r"NeuronCores:\s*\d+\s+used", text) or re.search(r"Total NeuronDevices:", text):
        return "neuron_top"
    if re.search(r"neuron-top|NeuronCore\s+(v\d\s+)?Utilization", text) and re.search(r"\bND\s*\d+", text):
        return "neuron_top"
    return None


# -- devices, however they were written -------------------------------------------------------


def _conclude(reading: Reading, devices: list[dict[str, Any]], said: Optional[str], measured: bool = False) -> None:
    """Facts and remarks from the devices of a listing."""
    for device in devices:
        known = reading.device(device["id"])
        known.cores, known.memory_bytes = device.get("cores"), device.get("memory")
        reading.put(0.0, device["id"], "", "memory_total_bytes", device.get("memory"))
    counts = {device.get("cores") for device in devices}
    sizes = {device.get("memory") for device in devices}
    reading.device_count, reading.samples = len(devices), 1
    if not devices:
        reading.remark("record_cut_off", "no row of a device could be read")
        return
    cores = counts.pop() if len(counts) == 1 else None
    size = sizes.pop() if len(sizes) == 1 else None
    reading.cores_per_device = cores
    reading.facts["devices"] = (
        f"{len(devices)} {_plural(len(devices))}, {sum(device.get('cores') or 0 for device in devices)} cores, {sum(device.get('memory') or 0 for device in devices) / 2**30:.0f} GiB"
    )
    _degrees(reading, sum(device.get("cores") or 0 for device in devices))
    fits = hardware.candidates(len(devices), cores, size) if cores else ()
    known_type = hardware.about(said) if said else None
    if known_type is not None and cores:
        memory = known_type.memory_bytes
        alike = size is None or memory is None or abs(memory / size - 1) < 0.05
        if alike and known_type.devices == len(devices):
            reading.instance_type = said
        elif alike and known_type.devices is not None and known_type.devices > len(devices) and said not in fits:
            reading.instance_type = said
            reading.remark(
                "devices_missing",
                f"{said} has {known_type.devices} such devices, {len(devices)} {'is' if len(devices) == 1 else 'are'} listed: a container or a share of the instance sees no more, and only these are counted",
            )
        else:
            reading.remark(
                "header_contradicts_body",
                f"the header says {said} ({known_type.devices} devices of {(memory or 0) / 2**30:.0f} GiB), the rows list {len(devices)} of {(size or 0) / 2**30:.0f} GiB; nothing is sized from the header",
            )
            if fits:
                reading.facts["could be"] = ", ".join(fits)
    elif said:
        reading.instance_type = said
    if reading.instance_type is None and "could be" not in reading.facts:
        if len(fits) == 1:
            reading.instance_type = fits[0]
            reading.facts["instance type from"] = "number of devices, cores and memory"
        elif fits:
            reading.facts["could be"] = ", ".join(fits)
            reading.remark(
                "instance_type_open",
                f"{len(devices)} {_plural(len(devices))} of {cores} cores and {(size or 0) / 2**30:.0f} GiB are what {', '.join(fits)} have; the file does not say which",
            )
    if any(name.startswith("inf1") for name in (reading.instance_type, *fits) if name):
        reading.remark(
            "first_generation", "4 cores and 8 GB are Inferentia1: neuronx-cc and everything measured on Inferentia2 or Trainium do not apply to it"
        )
    linked = {number for device in devices for number in device.get("connected", ())}
    dangling = sorted(linked - {int(device["id"]) for device in devices if device["id"].isdigit()})
    if dangling:
        reading.remark(
            "dangling_connections",
            f"links to devices {', '.join(map(str, dangling))}, which are not listed; the number of devices is that of the rows, {len(devices)}",
        )
    holders = {}
    for device in devices:
        for process in device.get("processes", ()):
            if not str(process[1]).split("/")[-1].startswith(TOOLS):
                holders.setdefault(process[0], (process[1], set()))[1].add(device["id"])
            version = re.match(r"(\d+)\.(\d+)", str(process[2] or ""))
            if version and int(version[1]) == 2 and 2 <= int(version[2]) and (int(version[1]), int(version[2])) < OLD_RUNTIME:
                reading.remark(
                    "old_tools",
                    f"runtime {process[2]} is of 2023 or earlier (runtime 2.15: SDK 2.12 to 2.14); what was concluded then may not hold now",
                )
    if holders:
        reading.facts["held by"] = "; ".join(
            f"process {pid}{f' ({command[:40]})' if command.strip('? ') else ''} on {len(on)} of {len(devices)} devices"
            for pid, (command, on) in list(holders.items())[:4]
        )
    reading.remark("no_busyness", "a list of devices" + (" and processes" if holders else "") + " says nothing about how busy they are")


USUAL_HEADS = (32, 40, 64)
"""Attention heads of Llama 2 of 7, 13 and 70 billion parameters (their published configurations), and of many models after them."""


def _degrees(reading: Reading, cores: int) -> None:
    """Which tensor-parallel degrees use all cores: a degree must divide the attention heads (see :mod:`neuronfit.memory`), so powers of two are tried."""
    if cores <= 4:
        return
    whole = [degree for degree in (2, 4, 8, 16, 32, 64, 128) if degree < cores and cores % degree == 0]
    rest = [degree for degree in (2, 4, 8, 16, 32, 64, 128) if degree < cores and cores % degree]
    words = [f"degree {degree}: {cores // degree} replicas" for degree in whole[-3:]]
    text = f"on all {cores} cores, " + ", ".join(words) if words else f"no usual degree uses all {cores} cores"
    if rest:
        text += "; " + ", ".join(f"degree {degree} leaves {cores % degree} idle" for degree in rest)
    odd = [heads for heads in USUAL_HEADS if heads % cores]
    if len(odd) == len(USUAL_HEADS) and cores < max(USUAL_HEADS):
        text += f"; degree {cores} only for a model whose attention heads {cores} divides, which {', '.join(map(str, odd[:-1]))} and {odd[-1]} are not, unless the library pads them"
    reading.facts["tensor parallel"] = text


def _plural(count: int) -> str:
    return "device" if count == 1 else "devices"


def read_json(reading: Reading) -> Iterator[None]:
    """``-j`` gives a list; ``--output-format json`` an object that holds one, with the instance beside it."""
    found: list[dict[str, Any]] = []
    top: dict[str, Any] = {}

    def look(value: Any) -> None:
        if isinstance(value, list):
            for one in value:
                look(one)
        elif isinstance(value, dict):
            if "neuron_device" in value:
                found.append(value)
                top.update({name: value[name] for name in ("instance_type", "instance_id") if isinstance(value.get(name), str)})
            else:
                for name, inner in value.items():
                    if isinstance(inner, str):
                        top[name] = inner
                    look(inner)

    for value, _, whole in json_stream.values(reading.source.lines(), json_stream.loader()):
        if not whole:
            reading.remark("record_cut_off", "the listing is cut off")
        look(value)
        yield
    devices = []
    for entry in found:
        ids, linked = entry.get("neuroncore_ids"), entry.get("connected_to")
        devices.append(
            {
                "id": str(entry.get("neuron_device")),
                "cores": entry.get("nc_count") or (len(ids) if isinstance(ids, list) else None),
                "memory": float(entry["memory_size"])
                if isinstance(entry.get("memory_size"), (int, float))
                else amount(str(entry.get("memory_size") or "")),
                "connected": [int(one) for one in linked if str(one).isdigit()] if isinstance(linked, list) else [],
                "processes": [
                    (one.get("pid"), one.get("command") or "?", one.get("neuron_runtime_version"))
                    for one in entry.get("neuron_processes") or []
                    if isinstance(one, dict)
                ],
            }
        )
        lnc = entry.get("logical_neuroncore_config")
        if lnc:
            reading.facts["logical NeuronCore config"] = str(lnc)
    said = top.get("instance_type") or top.get("instance-type")
    _conclude(reading, devices, said)
    yield


def read_table(reading: Reading) -> Iterator[None]:
    """The table on the screen, with whatever stands before and after it."""
    said: Optional[str] = None
    heads: list[list[str]] = []
    names: list[str] = []
    devices: list[dict[str, Any]] = []
    rules = 0
    started = ended = False
    for raw in reading.source.lines():
        line = _ESCAPE.sub("", raw.decode("utf-8", "replace")).strip()
        if found := re.match(r"instance-type:\s*(\S+)", line):
            said = found[1]
        if found := re.match(r"logical-neuroncore-config:\s*(\d+)", line):
            reading.facts["logical NeuronCore config"] = found[1]
        if found := re.search(r"Neuron Tools have changed with Neuron (v\d+(?:\.\d+)*)", line):
            reading.remark("old_tools", f"the banner is that of the tools of Neuron {found[1][1:]} (2021); what was concluded then may not hold now")
        if started and not line.startswith(("|", "+")):
            ended = True
        if ended:
            continue
        if line.startswith("+") and set(line) <= set("+-="):
            started = True
            rules += 1
            if rules == 2 and heads:
                names = [" ".join(part for part in column if part).upper() for column in zip(*heads)]
            yield
            continue
        if not line.startswith("|"):
            continue
        started = True
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if rules < 2:
            heads.append(cells)
            continue
        if len(cells) == len(names):
            _row(reading, dict(zip(names, cells)), devices)
    if any("MEMORY CHANNEL" in name for name in names):
        reading.remark("old_tools", "this layout is that of runtime 1.x (2020); what was concluded then may not hold now")
    _conclude(reading, devices, said)
    yield


def _row(reading: Reading, row: dict[str, str], devices: list[dict[str, Any]]) -> None:
    number = next((row[name] for name in ("NEURON DEVICE", "LOGICAL ID", "DEVICE") if name in row), "")
    if not number and devices:
        device = devices[-1]  # a second process of the device above
    elif not number.isdigit():
        return
    else:
        channels = [amount(value) for name, value in row.items() if name.startswith("MEMORY CHANNEL")]
        memory = sum(value or 0 for value in channels) if channels else amount(row.get("NEURON MEMORY", row.get("MEMORY", "")))
        cores = row.get("NEURON CORES", "")
        device = {
            "id": number,
            "cores": int(cores) if cores.isdigit() else None,
            "memory": memory,
            "connected": [int(one) for one in re.findall(r"\d+", row.get("CONNECTED DEVICES", ""))],
            "processes": [],
        }
        devices.append(device)
    if row.get("PID", "").isdigit():
        device["processes"].append((row["PID"], row.get("COMMAND", ""), row.get("RUNTIME VERSION", "")))


# -- neuron-top -------------------------------------------------------------------------------


def read_top(reading: Reading) -> Iterator[None]:
    """neuron-top's screen, or the summary lines of it that people paste: cores in use, utilization by device."""
    total: Optional[int] = None
    used: list[int] = []
    core_names: list[str] = []
    first_runtime = False
    for raw in reading.source.lines():
        line = _ESCAPE.sub("", raw.decode("utf-8", "replace"))
        if found := re.search(r"Total NeuronDevices:\s*(\d+)\s+NeuronCores:\s*(\d+)", line):
            reading.device_count, total = int(found[1]), int(found[2])
            first_runtime = first_runtime or "NCGs:" in line
            reading.cores_per_device = total // reading.device_count if reading.device_count else None
        if found := re.search(r"instance[- ]type:?\s*(\S+\.\S+)", line, re.IGNORECASE):
            reading.instance_type = found[1]
        if found := re.search(r"Models:\s*(\d+)\s+loaded.*?NeuronCores:\s*(\d+)\s+used", line):
            used.append(int(found[2]))
        elif found := re.search(r"NeuronCores:\s*(\d+)\s+used", line):
            used.append(int(found[1]))
        if len(columns := re.findall(r"\bNC\s*(\d+)\b", line)) > 1 and "%" not in line:
            core_names = columns
        row = re.match(r"\W*ND\s*(\d+)\b(.*)", line)
        if row and "%" in row[2]:
            shares = re.findall(r"([\d.]+)\s*%", row[2])
            for position, share in enumerate(shares):
                core = core_names[position] if position < len(core_names) else str(position)
                core = str(int(row[1]) * len(shares) + int(core)) if len(shares) > 1 else core
                reading.put(float(reading.samples), row[1], core, "neuroncore_utilization", float(share) * 0.01)
            reading.device(row[1]).cores = len(shares)
            reading.cores_per_device = reading.cores_per_device or len(shares)
        yield
    reading.samples = max(reading.samples, 1)
    if used:
        known = hardware.about(reading.instance_type) if reading.instance_type else None
        total = total or ((known.devices or 0) * (known.cores_per_device or 0) if known else None)
        of = f" of {total} ({', '.join(f'{count / total:.0%}' for count in used)})" if total else ""
        reading.facts["cores used"] = f"{', '.join(map(str, used))}{of}"
        if total and min(used) < total:
            reading.remark(
                "cores_not_loaded",
                f"{' and '.join(map(str, used))}{of} cores were used: a throughput measured then is not that of the whole instance",
            )
        if len(set(used)) > 1:
            reading.remark(
                "occupancy_varies",
                f"the number of cores in use differs between runs ({', '.join(map(str, used))}): no cost per result may be drawn from one of them",
            )
    if total and reading.device_count and reading.instance_type is None:
        fits = hardware.candidates(reading.device_count, total // reading.device_count, None)
        fits = tuple(name for name in fits if name.startswith("inf1")) if first_runtime else fits
        if fits:
            reading.facts["could be"] = ", ".join(fits)
        if first_runtime:
            reading.remark(
                "first_generation",
                "core groups (NCGs) are of runtime 1.x on Inferentia1: what is measured there does not apply to Inferentia2 or Trainium",
            )
    if not any(key.metric == "neuroncore_utilization" for key in reading.keys):
        reading.remark("no_busyness", "models that are loaded and cores that are held say nothing about how busy they are")


def read_top_json(reading: Reading) -> Iterator[None]:
    """A top screen as JSON. No document describes one; every number named utilization below a core's or device's number is taken."""
    for value, _, whole in json_stream.values(reading.source.lines(), json_stream.loader()):
        if not whole:
            reading.remark("record_cut_off", "the report is cut off")
        _dig(reading, value, "", "")
        reading.samples += 1
        yield
    reading.remark("layout_guessed", "no document describes this JSON; numbers named utilization are read as percent of a NeuronCore")


def _dig(reading: Reading, value: Any, device: str, core: str) -> None:
    if isinstance(value, list):
        for number, inner in enumerate(value):
            _dig(reading, inner, device, core or (str(number) if device and not isinstance(inner, dict) else core))
    elif isinstance(value, dict):
        for name in ("neuron_device", "device", "device_id", "device_index", "neuron_device_index"):
            device = str(value[name]) if isinstance(value.get(name), (int, str)) and str(value[name]).isdigit() else device
        for name in ("neuroncore", "neuroncore_index", "core", "core_id", "nc", "id"):
            core = str(value[name]) if isinstance(value.get(name), (int, str)) and str(value[name]).isdigit() else core
        if isinstance(value.get("instance_type"), str):
            reading.instance_type = value["instance_type"]
        for name, inner in value.items():
            share = isinstance(inner, (int, float)) and not isinstance(inner, bool) and "util" in name.lower() and "cpu" not in name.lower()
            if share and core:
                reading.put(float(reading.samples), device or "?", core, "neuroncore_utilization", float(inner) * 0.01)
            elif isinstance(inner, (dict, list)):
                found = re.fullmatch(r"(?:(ND)|NC|nc|neuroncore_?)?\s*(\d+)", name)
                if found and found[1]:
                    _dig(reading, inner, found[2], core)
                else:
                    _dig(reading, inner, device, found[2] if found else core)
