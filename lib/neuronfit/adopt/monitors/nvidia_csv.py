"""``nvidia-smi --query-gpu`` as CSV: any columns in any order, with units or without, header twice, missing or wrong.

Columns are chosen by name; names of older drivers and of scripts that write their own header are
known. A device column that is none (a value that repeats within one time) is noticed.
"""

from __future__ import annotations

import contextlib
import csv
import re
from collections.abc import Iterator, Sequence
from typing import Any, Optional

from neuronfit.adopt.monitors import json_stream
from neuronfit.adopt.monitors.prometheus import reasons
from neuronfit.adopt.monitors.table import MONITORED, Reading
from neuronfit.adopt.monitors.words import amount, number, seconds
from neuronfit.errors import BadInput

__all__ = ["read", "read_json", "recognise"]

METRIC = {
    "utilization.gpu": "gpu_kernel_active", "gpu.util": "gpu_kernel_active", "gpu.utilization": "gpu_kernel_active",
    "utilization": "gpu_kernel_active", "util": "gpu_kernel_active", "gpu.load": "gpu_kernel_active", "load": "gpu_kernel_active",
    "utilization.memory": "gpu_memory_active", "memory.util": "gpu_memory_active", "memory.utilization": "gpu_memory_active",
    "utilization.encoder": "gpu_encoder_active", "utilization.decoder": "gpu_decoder_active",
    "memory.used": "memory_used_bytes", "memory.total": "memory_total_bytes", "memory.free": "memory_free_bytes",
    "memory.reserved": "memory_reserved_bytes", "mem.used": "memory_used_bytes", "mem.total": "memory_total_bytes",
    "fb.memory.usage.used": "memory_used_bytes", "fb.memory.usage.total": "memory_total_bytes",
    "power.draw": "power_w", "power.draw.average": "power_w", "power.draw.instant": "power_w", "power": "power_w",
    "power.limit": "power_limit_w", "enforced.power.limit": "power_limit_w", "temperature.gpu": "temperature_c", "temperature": "temperature_c",
    "temp": "temperature_c", "gpu.temp": "temperature_c", "temperature.memory": "memory_temperature_c",
    "clocks.current.sm": "sm_clock_hz", "clocks.sm": "sm_clock_hz", "clocks.max.sm": "sm_clock_max_hz",
    "clocks.current.memory": "memory_clock_hz", "clocks.mem": "memory_clock_hz",
    "ecc.errors.corrected.volatile.total": "ecc_corrected", "ecc.errors.uncorrected.volatile.total": "ecc_uncorrected",
    "retired.pages.double.bit.count": "retired_pages", "used.gpu.memory": "memory_used_bytes", "used.memory": "memory_used_bytes",
}  # fmt: skip
"""Column -> metric. Of several columns with one metric the first that has a number in a row is taken."""

REASON = {
    "sw.power.cap": "throttled_power", "hw.power.brake.slowdown": "throttled_power", "hw.thermal.slowdown": "throttled_thermal",
    "sw.thermal.slowdown": "throttled_thermal", "hw.slowdown": "throttled_hardware",
}  # fmt: skip

DEVICE = ("index", "gpu.index", "gpu", "gpu.id", "device", "uuid", "gpu.uuid", "pci.bus.id", "gpu.bus.id", "pci.bus", "minor.number", "serial")
NAME = ("name", "gpu.name", "product.name")
TIME = ("timestamp", "time", "datetime", "date", "ts")
UNIT = {"fraction": "%", "bytes": "MiB", "W": "W", "Hz": "MHz", "s": "us"}
_TIME_FIRST = re.compile(r"^\d{4}[/-]\d\d[/-]\d\d[ T]\d\d:\d\d:\d\d[^,;\t]*[,;\t]")


def _name(text: str) -> tuple[str, str]:
    """A column's name in one spelling, and its unit: ``"utilization.gpu [%]"`` -> ``("utilization.gpu", "%")``."""
    found = re.match(r"^\s*\"?(.*?)\"?\s*(?:[\[(]([^\])]*)[\])])?\s*$", text.strip())
    name, unit = (found[1], found[2] or "") if found else (text, "")
    name = re.sub(r"[\s_]+", ".", name.strip().lower())
    name = name.replace("clocks.throttle.reasons", "clocks.event.reasons").replace("pci.bus.id", "pci.bus.id")
    if not unit and (tail := re.search(r"\.(mib|gib|mb|gb|percent|pct|w|watts|mhz|c)$", name)):
        base = name[: tail.start()]
        if base in METRIC:
            name, unit = base, {"percent": "%", "pct": "%", "watts": "W", "w": "W"}.get(tail[1], tail[1])
    return name, unit


def recognise(head: bytes) -> Optional[str]:
    """``nvidia_csv`` where a header or a headless row of a query stands within the first lines; ``nvidia_json`` for its fields as JSON."""
    text = head.decode("utf-8", "replace")
    if text.lstrip()[:1] in "{[" and re.search(r'"utilization\.gpu"\s*:', text):
        return "nvidia_json"
    if "<nvidia_smi_log" in text or "NVSMI LOG" in text or text.lstrip()[:1] == "{" or "max_memory_usage [" in text:
        return None
    for line in text.split("\n")[:40]:
        if line.startswith("#"):
            continue
        if _is_header(line):
            return "nvidia_csv"
        if (
            _has_units(line)
            or _TIME_FIRST.match(line)
            and re.search(r"NVIDIA|Tesla|GeForce|Quadro|RTX|GPU-[0-9a-f]{8}", line)
            and re.search(r"[,;\t]", line)
        ):
            return "nvidia_csv"
    return None


def _has_units(line: str) -> bool:
    """A row that says without any header what it is: a cell in percent and one in MiB."""
    cells = [cell.strip() for cell in _cells(line)]
    return any(re.fullmatch(r"\d{1,3} %", cell) for cell in cells) and any(re.fullmatch(r"\d+ MiB", cell) for cell in cells)


def _is_header(line: str) -> bool:
    cells = _cells(line)
    if len(cells) < 2 and not re.match(r"^\s*utilization\.gpu\b", line):
        return False
    names = [_name(cell)[0] for cell in cells]
    known = [name for name in names if name in METRIC]
    sure = [name for name in known if "." in name] + [name for name in names if name.startswith(("clocks.event.reasons", "utilization."))]
    return bool(sure) and not any(re.fullmatch(r"\s*[\d.]+\s*(MiB|%|W|MHz)?\s*", cell) for cell in cells)


def _cells(line: str) -> list[str]:
    delimiter = max(";\t,", key=line.count)
    if '"' in line:
        with contextlib.suppress(csv.Error):
            return next(csv.reader([line.strip()], delimiter=delimiter, skipinitialspace=True), [])
    cells = line.split(delimiter)
    if delimiter == ";":  # a comma is the decimal mark here, and a dot groups thousands
        cells = [
            re.sub(r"^(\s*\d{1,3})((?:\.\d{3})+)(?=\s*(?:[A-Za-z%]|$))", lambda part: part[1] + part[2].replace(".", ""), cell) for cell in cells
        ]
    return cells


class _Columns:
    """Where what stands, from a header."""

    def __init__(self, header: Sequence[str]):
        self.names = [_name(cell) for cell in header]
        self.width = len(header)
        self.time = self._first(TIME)
        self.devices = [index for wanted in DEVICE for index, (name, _) in enumerate(self.names) if name == wanted]
        self.name = self._first(NAME)
        self.values = [
            (index, METRIC[name], unit or UNIT.get(MONITORED[METRIC[name]].unit, ""))
            for index, (name, unit) in enumerate(self.names)
            if name in METRIC
        ]
        self.reasons = [
            (index, REASON[short]) for index, (name, _) in enumerate(self.names) if (short := name.removeprefix("clocks.event.reasons.")) in REASON
        ]
        self.mask = self._first(("clocks.event.reasons.active",))
        self.mig = self._first(("mig.mode.current",))
        self.driver = self._first(("driver.version", "kmd.version"))
        self.process = self._first(("pid",))

    def _first(self, wanted: Sequence[str]) -> int:
        return next((index for name in wanted for index, (own, _) in enumerate(self.names) if own == name), -1)


def read(reading: Reading) -> Iterator[None]:
    """Rows of the table, one round of all devices at a time; a last round that lacks devices is left out."""
    table: Optional[_Columns] = None
    rounds = _Rounds(reading)
    waiting: list[tuple[list[str], Optional[float]]] = []
    header: list[str] = []
    for raw in reading.source.lines():
        line = raw.decode("utf-8", "replace").strip()
        if not line or line.startswith("#"):
            continue
        if _is_header(line):
            if table is not None or waiting:
                reading.remark("header_repeated", "the header stands in the file more than once: captures were appended")
                yield from _flush(table, waiting, rounds)
            if table is None or _cells(line) != header:
                header = _cells(line)
                table, rounds.decided = _Columns(header), False
            continue
        cells = [cell.strip().strip('"') for cell in _cells(line)]
        if table is None:
            said = bool(reading.columns) and re.search(r"\d", line) is not None
            if not said and not (_TIME_FIRST.match(line) and len(cells) > 3) and not _has_units(line):
                continue
            table = _guessed(cells, reading)
        if len(cells) < table.width:
            if waiting or rounds.any:
                reading.remark("record_cut_off", f"a row has {len(cells)} of {table.width} cells and is left out")
            continue
        waiting.append((cells, reading.source.stamp() if table.time < 0 else None))
        if not rounds.decided and len(waiting) < 64:
            continue
        yield from _flush(table, waiting, rounds)
    yield from _flush(table, waiting, rounds)
    rounds.finish()
    yield


def read_json(reading: Reading) -> Iterator[None]:
    """Objects with the fields of a query, as scripts write them; and gpustat's, which holds a list of GPUs and their common time."""
    table: Optional[_Columns] = None
    header: tuple[str, ...] = ()
    rounds = _Rounds(reading)
    waiting: list[tuple[list[str], Optional[float]]] = []
    for value, _, whole in json_stream.values(reading.source.lines(), json_stream.loader()):
        if not whole:
            reading.remark("record_cut_off", "an object is cut off or damaged and is left out")
            continue
        for row in _objects(value, {}):
            if tuple(row) != header:
                yield from _flush(table, waiting, rounds)
                header, rounds.decided = tuple(row), False
                table = _Columns(header)
            waiting.append(([str(cell) for cell in row.values()], reading.source.stamp()))
            if rounds.decided or len(waiting) >= 64:
                yield from _flush(table, waiting, rounds)
    yield from _flush(table, waiting, rounds)
    rounds.finish()
    yield


def _objects(value: Any, common: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The objects that have a utilization, with what stands beside the list that they are in; what is no number or word is left out."""
    if isinstance(value, list):
        for one in value:
            yield from _objects(one, common)
    elif isinstance(value, dict):
        plain = {name: cell for name, cell in value.items() if isinstance(cell, (str, int, float)) and not isinstance(cell, bool)}
        if "utilization.gpu" in value:
            yield {**common, **plain}
            return
        if "query_time" in plain:
            plain["timestamp"] = plain.pop("query_time")
        for inner in value.values():
            if isinstance(inner, (dict, list)):
                yield from _objects(inner, {**common, **plain})


def _flush(table: Optional[_Columns], waiting: list[tuple[list[str], Optional[float]]], rounds: "_Rounds") -> Iterator[None]:
    if table is None or not waiting:
        return
    if rounds.table is not table:
        rounds.decide(table, [cells for cells, _ in waiting])
    for cells, stamp in waiting:
        rounds.row(table, cells, stamp)
        yield
    waiting.clear()


def _guessed(cells: list[str], reading: Reading) -> _Columns:
    """Columns of a file without a header: as somebody said them, or only what its own values give away."""
    if reading.columns:
        if len(reading.columns) != len(cells):
            raise BadInput("the file has another number of columns than was said", str(len(reading.columns)), allowed=str(len(cells)))
        return _Columns(reading.columns)
    header = ["?"] * len(cells)
    for index, cell in enumerate(cells):
        if index == 0 and seconds(cell) is not None:
            header[index] = "timestamp"
        elif index == 1 and re.fullmatch(r"\d{1,2}", cell):
            header[index] = "index"
        elif re.match(r"GPU-[0-9a-f-]{8,}", cell):
            header[index] = "uuid"
        elif re.search(r"NVIDIA|Tesla|GeForce|Quadro|RTX", cell):
            header[index] = "name"
        elif re.search(r"\d\s*%$", cell) and "utilization.memory" not in header:
            header[index] = "utilization.memory" if "utilization.gpu" in header else "utilization.gpu"
        elif re.search(r"\d\s*W$", cell) and "power.draw" not in header:
            header[index] = "power.draw"
    numbers = {index: value for index, cell in enumerate(cells) if header[index] == "?" and (value := amount(cell, "MiB"))}
    for index in sorted(numbers):
        pair = [index + 1, index + 2]
        if (
            all(place in numbers for place in pair)
            and abs(sum(numbers[place] for place in pair) / numbers[index] - 1) < 0.06
            and numbers[index] > 1e9
        ):
            header[index] = "memory.total"
            if "MiB" not in cells[index]:
                reading.remark("unit_assumed", "memory has no unit; nvidia-smi's MiB is assumed")
            break
    sizes = [index for index, cell in enumerate(cells) if re.fullmatch(r"\d+ MiB", cell)]
    if "memory.total" not in header and len(sizes) == 2:
        less, more = sorted(sizes, key=lambda place: numbers.get(place, 0.0))
        header[less], header[more] = "memory.used", "memory.total"
    elif "memory.total" not in header and len(sizes) == 1:
        header[sizes[0]] = "memory.used"
    blank = sum(1 for cell in cells if cell.strip("[] ").upper() in ("N/A", "NOT SUPPORTED", "UNKNOWN ERROR"))
    told = ", ".join(name for name in header if name != "?")
    reading.remark("header_missing", f"there is no header; of {len(cells)} columns only {told} can be told from their values, {blank} hold no value")
    if blank >= 0.4 * len(cells):
        reading.remark("many_values_missing", f"{blank} of {len(cells)} cells say N/A, more than a card of this kind leaves out")
    return _Columns(header)


BURST_S = 0.05
"""Rows of one call of nvidia-smi are stamped one after the other, this far apart at most."""


def _burst(times: Sequence[Optional[float]]) -> int:
    """How many rows come at once, every time, when each has its own stamp; 0 where they do not."""
    known = [time for time in times if time is not None]
    gaps = [after - before for before, after in zip(known, known[1:])]
    if len(known) != len(times) or not gaps or min(gaps) < 0:
        return 0
    close, far = [gap for gap in gaps if gap <= BURST_S], [gap for gap in gaps if gap > BURST_S]
    if not close or not far or min(far) < 4 * max(close):
        return 0
    sizes, size = [], 1
    for gap in gaps:
        if gap <= BURST_S:
            size += 1
        else:
            sizes.append(size)
            size = 1
    return sizes[0] if len(set(sizes)) == 1 and sizes[0] > 1 and size <= sizes[0] else 0


class _Rounds:
    """Rows gathered until a device comes again; a round is one moment of all devices."""

    def __init__(self, reading: Reading):
        self.reading = reading
        self.decided = False
        self.table: Optional[_Columns] = None
        self.any = False
        self.column = -1
        self.by_order = False
        self.ratio: set[int] = set()
        self.round: dict[str, list[tuple[float, str, Optional[float]]]] = {}
        self.extra: dict[str, Optional[float]] = {}
        self.round_time: Optional[float] = None
        self.devices: dict[str, str] = {}
        self.most = 0
        self.last_full: int = 0
        self.clock = 0
        self.ordinal = 0
        self.apart = 0.0
        """seconds that a row may be later than the one before and still belong to its round"""
        self.processes: set[tuple[str, str]] = set()

    def decide(self, table: _Columns, rows: list[list[str]]) -> None:
        """Which column tells devices apart: the first whose value never comes twice at one time."""
        self.decided, self.table = True, table
        self.column, self.by_order = (table.devices[0] if table.devices else -1), False
        if table.time >= 0 and len(rows) > 1:
            for column in table.devices:
                pairs = [(row[table.time], row[column]) for row in rows]
                if len(set(pairs)) == len(pairs):
                    self.column = column
                    break
            chosen = table.names[self.column][0] if self.column >= 0 else ""
            for column in table.devices:
                name = table.names[column][0]
                pairs = {(row[table.time], row[column]) for row in rows}
                if column != self.column and name in ("index", "gpu", "gpu.index") and len(pairs) < len(rows):
                    held = sorted({row[column] for row in rows})
                    self.reading.remark(
                        "column_mislabelled",
                        f"column `{name}` repeats within one time (it holds {', '.join(held[:4])}) while `{chosen}` does not: it is no device number, maybe a utilization in percent, and is not used",
                    )
            if self.column < 0 and table.process < 0 and len({row[table.time] for row in rows}) < len(rows):
                self.by_order = True
                self.reading.remark("devices_by_order", "no column tells the devices apart; rows of one time are numbered in their order")
            elif self.column < 0 and table.process < 0 and (many := _burst([seconds(row[table.time]) for row in rows])):
                self.by_order, self.apart = True, BURST_S
                self.reading.remark(
                    "devices_by_order",
                    f"no column tells the devices apart; rows come {many} at a time, within {BURST_S * 1e3:.0f} ms, and are numbered in their order",
                )
        for index, metric, _ in table.values:
            if MONITORED[metric].kind == "share" and not table.names[index][1]:
                given = [value for row in rows if (value := number(row[index])) is not None and "%" not in row[index]]
                if given and max(given) <= 1 and any(0 < value < 1 for value in given):
                    self.ratio.add(index)
                    self.reading.remark(
                        "unit_assumed", f"column `{table.names[index][0]}` has no unit and holds values up to {max(given):g}: read as a ratio"
                    )

    def row(self, table: _Columns, cells: list[str], stamp: Optional[float] = None) -> None:
        reading = self.reading
        self.any = True
        when = seconds(cells[table.time]) if table.time >= 0 else stamp
        if table.time >= 0 and when is None:
            reading.remark("time_unreadable", f"a time stamp cannot be read: {cells[table.time][:40]}")
        same = when == self.round_time or (self.apart > 0 and when is not None and 0 <= when - (self.round_time or 0.0) <= self.apart)
        if self.by_order:
            device = str(len(self.round)) if same else "0"
        else:
            device = cells[self.column] if self.column >= 0 else "0"
        if not re.fullmatch(r"\d{1,3}", device):
            device = self.devices.setdefault(device, str(len(self.devices)))
        if table.process >= 0:
            self._process(table, cells, device, when)
            return
        if device in self.round or (self.by_order and not same):
            self._end()
        self.round_time = when
        known = reading.device(device)
        if table.name >= 0:
            known.name = cells[table.name]
        if table.driver >= 0:
            reading.facts["driver"] = (
                cells[table.driver]
                if cells[table.driver] in reading.facts.get("driver", cells[table.driver])
                else f"{reading.facts['driver']}, {cells[table.driver]}"
            )
        if table.mig >= 0 and cells[table.mig].lower() == "enabled":
            known.mig = True
        found: list[tuple[float, str, Optional[float]]] = []
        taken: dict[str, Optional[float]] = {}
        for index, metric, unit in table.values:
            if taken.get(metric) is None:
                value = amount(cells[index], "" if index in self.ratio else unit)
                taken[metric] = value
        if reading.is_artefact(device, taken.get("gpu_kernel_active"), taken.get("memory_used_bytes")):
            taken["gpu_kernel_active"] = taken["gpu_memory_active"] = None
        flags: dict[str, float] = {}
        for index, metric in table.reasons:
            word = cells[index].lower()
            if word in ("active", "not active", "0", "1"):
                flags[metric] = max(flags.get(metric, 0.0), float(word in ("active", "1")))
        if not flags and table.mask >= 0:
            self.extra[device] = number(cells[table.mask])
        self.round[device] = found
        found += [(0.0, metric, value) for metric, value in (*taken.items(), *flags.items())]

    def _process(self, table: _Columns, cells: list[str], device: str, when: Optional[float]) -> None:
        """A row of one process: its memory is added to the others' of the device at that time."""
        who = (device, cells[table.process])
        if who in self.processes or (self.processes and when != self.round_time):
            self._end()
        self.processes.add(who)
        self.round_time = when
        if table.name >= 0:
            self.reading.device(device).name = cells[table.name]
        self.reading.device(device)
        used = next(
            (value for index, metric, unit in table.values if metric == "memory_used_bytes" and (value := amount(cells[index], unit)) is not None),
            None,
        )
        rows = self.round.setdefault(device, [])
        before = next((value or 0.0 for _, metric, value in rows if metric == "memory_used_bytes"), None)
        if used is not None:
            self.round[device] = [(0.0, "memory_used_bytes", (before or 0.0) + used)]
            if before is not None:
                self.reading.remark("added_over_processes", "memory of the processes of a device is added; what the driver itself holds is not in it")

    def _end(self, last: bool = False) -> None:
        if not self.round:
            return
        reading = self.reading
        if last and not self.processes and self.most > 1 and len(self.round) < self.most and reading.samples:
            reading.remark(
                "last_sample_incomplete", f"the last moment has {len(self.round)} of {self.most} devices (the log was cut) and is left out"
            )
        else:
            when = self.round_time if self.round_time is not None else float(self.ordinal)
            for device, rows in self.round.items():
                for _, metric, value in rows:
                    reading.put(when, device, "", metric, value)
                reasons(reading, when, device, self.extra.get(device))
            reading.samples += 1
            self.ordinal += 1
            self.clock += self.round_time is not None
            self.most = max(self.most, len(self.round))
        self.round.clear()
        self.extra.clear()
        self.processes.clear()

    def finish(self) -> None:
        self._end(last=True)
        self.reading.clock = "epoch" if self.clock else "none"
