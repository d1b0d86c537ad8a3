"""``nvidia-smi dmon`` and ``pmon``, and ``dcgmi dmon``: columns named in comment lines that come again every page."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Optional

from neuronfit.adopt.monitors.table import Reading
from neuronfit.adopt.monitors.words import amount, number, seconds, sentinel

__all__ = ["read", "read_dcgmi", "read_processes", "recognise"]

COLUMN = {
    "pwr": ("power_w", "W"), "gtemp": ("temperature_c", ""), "temp": ("temperature_c", ""), "mtemp": ("memory_temperature_c", ""),
    "sm": ("gpu_kernel_active", "%"), "mem": ("gpu_memory_active", "%"), "enc": ("gpu_encoder_active", "%"), "dec": ("gpu_decoder_active", "%"),
    "mclk": ("memory_clock_hz", "MHz"), "pclk": ("sm_clock_hz", "MHz"), "pviol": ("throttled_power", "%"), "tviol": ("throttled_thermal", ""),
    "fb": ("memory_used_bytes", "MB"), "sbecc": ("ecc_corrected", ""), "dbecc": ("ecc_uncorrected", ""),
}  # fmt: skip

DCGMI = {
    "GPUTL": ("gpu_kernel_active", "%"), "MCUTL": ("gpu_memory_active", "%"), "GRACT": ("gpu_engine_active", ""), "SMACT": ("gpu_sm_active", ""),
    "SMOCC": ("gpu_sm_occupancy", ""), "TENSO": ("gpu_tensor_active", ""), "DRAMA": ("gpu_dram_active", ""), "FP64A": ("gpu_fp64_active", ""),
    "FP32A": ("gpu_fp32_active", ""), "FP16A": ("gpu_fp16_active", ""), "POWER": ("power_w", "W"), "TMPTR": ("temperature_c", ""),
    "FBUSD": ("memory_used_bytes", "MiB"), "FBTTL": ("memory_total_bytes", "MiB"), "FBFRE": ("memory_free_bytes", "MiB"), "SMCLK": ("sm_clock_hz", "MHz"),
}  # fmt: skip


def recognise(head: bytes) -> Optional[str]:
    """``nvidia_dmon``, ``nvidia_pmon`` or ``dcgmi_dmon``."""
    for line in head.decode("utf-8", "replace").split("\n")[:60]:
        if line.lstrip().startswith("#"):
            words = _names(line)
            if "gpu" in words and "pid" in words:
                return "nvidia_pmon"
            if "gpu" in words and any(word in COLUMN for word in words):
                return "nvidia_dmon"
            if words[:1] == ["entity"] and any(word.upper() in DCGMI for word in words):
                return "dcgmi_dmon"
    return None


def _names(line: str) -> list[str]:
    return [word.strip().lower() for word in re.split(r"[,\s]+", line.strip().lstrip("#").strip()) if word.strip()]


def _split(line: str) -> list[str]:
    return [cell.strip() for cell in line.split(",")] if "," in line else line.split()


def _rows(reading: Reading) -> Iterator[tuple[list[str], list[str]]]:
    """(column names, cells) of every data row; the comment line that names columns may come again and may change."""
    names: list[str] = []
    for raw in reading.source.lines():
        line = raw.decode("utf-8", "replace").strip()
        if not line:
            continue
        if line.startswith("#"):
            words = _names(line)
            if "gpu" in words or "entity" in words:
                names = words
            continue
        cells = _split(line)
        if names and re.match(r"^[\d.:/-]+$|^GPU", cells[0]):
            yield names, cells


class _Clock:
    """Times of rows: with a date, of the day only (`-o T`), put before the line by what carried it, or none: then samples are counted."""

    def __init__(self, reading: Reading):
        self.reading = reading
        self.kind = ""
        self.first: Optional[float] = None
        self.last = 0.0

    def time(self, names: list[str], cells: list[str]) -> float:
        """Seconds since 1970, since the first row, or the number of the sample."""
        stamp = " ".join(cells[index] for index, name in enumerate(names[: len(cells)]) if name in ("date", "time", "yyyymmdd", "hh:mm:ss"))
        when = seconds(stamp) if stamp else self.reading.source.stamp()
        if when is not None:
            self.kind = "epoch"
            return when
        found = re.fullmatch(r"(\d\d?):(\d\d):(\d\d(?:\.\d+)?)", stamp)
        if found is None:
            return float(self.reading.samples)
        day = int(found[1]) * 3600 + int(found[2]) * 60 + float(found[3])
        if self.first is None:
            self.first = self.last = day
        while day < self.last - 43200:  # past midnight
            day += 86400
        self.kind, self.last = self.kind or "of_day", day
        return day - self.first

    def finish(self) -> None:
        reading = self.reading
        reading.clock = self.kind or ("assumed" if reading.samples else "none")
        if reading.clock == "assumed" and reading.samples > 1:
            reading.facts["interval"] = "1 s, the tool's default: the file has no times"
        if reading.clock == "of_day":
            reading.facts["date"] = "not in the file: it has the time of the day only"


def read(reading: Reading) -> Iterator[None]:
    """One row a device and sample. Without ``-o DT`` there is no clock: dmon's own default of one sample a second is assumed."""
    seen: set[str] = set()
    clock = _Clock(reading)
    numbers = 0
    for names, cells in _rows(reading):
        if "gpu" not in names or "pid" in names:
            continue  # another tool's page in the same file
        if len(cells) < len(names):
            reading.remark("record_cut_off", f"a row has {len(cells)} of {len(names)} cells and is left out")
            continue
        device = cells[names.index("gpu")]
        if device in seen:
            seen.clear()
            reading.samples += 1
        seen.add(device)
        time = clock.time(names, cells)
        reading.device(device)
        row = {COLUMN[name][0]: amount(cell, COLUMN[name][1]) for name, cell in zip(names, cells) if name in COLUMN}
        if reading.is_artefact(device, row.get("gpu_kernel_active"), row.get("memory_used_bytes")):
            row["gpu_kernel_active"] = row["gpu_memory_active"] = None
        for metric, value in row.items():
            reading.put(time, device, "", metric, value)
        numbers += row.get("gpu_kernel_active") is not None
        if "sm" in names and not numbers and reading.samples >= 2:
            reading.facts["sm"] = "`-` in every row: a card under MIG, or one that has no such counter"
        elif numbers:
            reading.facts.pop("sm", None)
        yield
    reading.samples += bool(seen)
    clock.finish()


def read_processes(reading: Reading) -> Iterator[None]:
    """Rows of processes: their shares are added per device and sample, since a device's own share is not in the file."""
    shares: dict[str, dict[str, float]] = {}
    seen: set[tuple[str, str]] = set()
    time, last = 0.0, ""
    clock = _Clock(reading)
    processes: set[str] = set()

    def hand_on() -> None:
        for device, metrics in shares.items():
            for metric, value in metrics.items():
                reading.put(time, device, "", metric, min(value, 1.0) if metric != "memory_used_bytes" else value)
        reading.samples += bool(shares)
        shares.clear()
        seen.clear()

    for names, cells in _rows(reading):
        if "pid" not in names or "gpu" not in names:
            continue  # another tool's page in the same file
        if len(cells) < min(len(names), names.index("pid") + 2):
            reading.remark("record_cut_off", f"a row has {len(cells)} of {len(names)} cells and is left out")
            continue
        device, process = cells[names.index("gpu")], cells[names.index("pid")]
        if (device, process) in seen or (device.isdigit() and last.isdigit() and int(device) < int(last)):
            hand_on()
            yield
        seen.add((device, process))
        last = device
        time = clock.time(names, cells)
        reading.device(device)
        own = shares.setdefault(device, {})
        if process == "-":
            reading.remark("no_process_attached", f"no process ran on device {device} in at least one sample")
            continue
        processes.add(process)
        for name, cell in zip(names, cells):
            if name in ("sm", "mem", "enc", "dec", "fb"):
                metric, unit = COLUMN[name]
                value = amount(cell, unit)
                if value is not None:
                    own[metric] = own.get(metric, 0.0) + value
    hand_on()
    clock.finish()
    reading.facts["processes"] = str(len(processes))
    if processes:
        reading.remark("added_over_processes", f"shares of {len(processes)} processes are added; the device's own share is not in the file")
    yield


def read_dcgmi(reading: Reading) -> Iterator[None]:
    """``dcgmi dmon -e ...``: entity, number, values."""
    seen: set[str] = set()
    for names, cells in _rows(reading):
        if len(cells) < len(names) + 1:
            reading.remark("record_cut_off", f"a row has {len(cells)} of {len(names) + 1} cells and is left out")
            continue
        device = cells[1]
        kind = cells[0].upper()
        if kind != "GPU":
            continue
        if device in seen:
            seen.clear()
            reading.samples += 1
        seen.add(device)
        reading.device(device)
        for name, cell in zip(names[1:], cells[2:]):
            if name.upper() in DCGMI and (value := number(cell)) is not None and not sentinel(value):
                metric, unit = DCGMI[name.upper()]
                reading.put(float(reading.samples), device, "", metric, amount(cell, unit))
        yield
    reading.samples += bool(seen)
    reading.clock = "assumed" if reading.samples else "none"
