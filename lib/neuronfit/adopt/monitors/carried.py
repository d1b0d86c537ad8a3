"""What carries a monitor's lines: the logs of containers and services, a terminal. Taken off before the lines are read.

kubectl and docker put a pod's name and a time before each line, journald a host and a program, `ts` a time;
docker's own files and `journalctl -o json` hold each line as JSON, an export of CloudWatch Logs as a cell of CSV; a
terminal leaves its control codes. neuron-monitor's reader takes prefixes and JSON itself, and their times.
"""

from __future__ import annotations

import csv
import json
import re
from typing import Optional, Union

from neuronfit.adopt.monitors.words import seconds

__all__ = ["Carrier", "carrier"]

ENOUGH = 0.8
"""Share of the first lines that must carry the same mark."""

LOOKED_AT = 60
"""Lines looked at."""

_TIME = rb"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)"
_MARKS = tuple(
    re.compile(pattern)
    for pattern in (
        rb"\[(?:pod|container)/[^\]]+\][ \t]+(?:(?P<time>" + _TIME + rb")[ \t])?",
        rb"(?P<time>" + _TIME + rb")[ \t]+std(?:out|err)[ \t]+[FP][ \t]",  # a node's file of a container
        rb"(?:[A-Z][a-z]{2}[ \t]+\d+[ \t]\d\d:\d\d:\d\d|(?P<time>" + _TIME + rb"))[ \t]+[\w.-]+[ \t]+[\w./@-]+(?:\[\d+\])?:[ \t]",  # journald, syslog
        rb"\[?(?P<time>" + _TIME + rb")\]? ",
        rb"\[(?P<time>\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(?:\.\d+)?)\][ \t]",
        rb"[A-Z][a-z]{2}[ \t]+\d+[ \t]\d\d:\d\d:\d\d[ \t](?!\d{4}\s*$)",  # ts; not the date line of nvidia-smi's screen
        rb"[a-zA-Z][\w.-]*[ \t]+\|[ \t]",  # docker compose
        rb"> ?",  # quoted in a mail or an issue
    )
)
QUOTE = _MARKS[-1]

LINE = ("log", "MESSAGE", "message", "@message", "msg", "line", "body")
"""Keys under which JSON or CSV holds a line."""

TIME = ("time", "__REALTIME_TIMESTAMP", "@timestamp", "timestamp", "ts")

_PACKED = re.compile(rb'^\s*\{.*"(?:' + b"|".join(name.encode() for name in LINE) + rb')"\s*:\s*"')
_ESCAPE = re.compile(rb"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b[()][A-Z0-9]|\x1b[=>78]")


class Carrier:
    """One way of carrying. ``line`` gives what was carried; :meth:`seconds` the time that stood beside the line last given."""

    def __init__(self, mark: Optional["re.Pattern[bytes]"], *, packed: bool = False, cells: Optional[tuple[int, int]] = None, escapes: bool = False):
        self.mark, self.packed, self.cells, self.escapes = mark, packed, cells, escapes
        self._time: Union[bytes, str, None] = None

    def line(self, raw: bytes) -> bytes:
        """The line without what carried it; a line that lacks the mark is given as it is."""
        if self.packed:
            return self._unpacked(raw)
        if self.cells is not None:
            return self._of_cells(raw, *self.cells)
        if self.escapes and b"\x1b" in raw:
            raw = _ESCAPE.sub(b"", raw)
        if self.mark is None:
            return raw
        found = self.mark.match(raw)
        if found is None:
            return raw
        self._time = found.groupdict().get("time")
        return raw[found.end() :]

    def _unpacked(self, raw: bytes) -> bytes:
        try:
            entry = json.loads(raw)
            text = next(entry[name] for name in LINE if isinstance(entry.get(name), str))
        except (ValueError, AttributeError, StopIteration, RecursionError):
            return raw
        self._time = next((str(entry[name]) for name in TIME if entry.get(name)), None)
        return str(text).rstrip("\r\n").encode("utf-8", "replace")

    def _of_cells(self, raw: bytes, time: int, line: int) -> bytes:
        cells = next(csv.reader([raw.decode("utf-8", "replace")]), [])
        if len(cells) <= max(time, line):
            return raw
        self._time = cells[time]
        return cells[line].rstrip("\r\n").encode("utf-8", "replace")

    def head(self, plain: bytes) -> bytes:
        """The beginning of a file, uncarried, for recognising it."""
        return b"\n".join(self.line(raw) for raw in plain.split(b"\n"))

    def seconds(self) -> Optional[float]:
        """Seconds since 1970 of the mark of the last line, where it has a time with its date."""
        time = self._time
        return seconds(time.decode("ascii", "replace") if isinstance(time, bytes) else time) if time else None


def _place(header: list[str], names: tuple[str, ...]) -> int:
    return next((header.index(name) for name in names if name in header), -1)


def carrier(plain: bytes) -> Optional[Carrier]:
    """How the lines of a file that begins like this are carried, or ``None``: they stand alone."""
    lines = [line for line in plain.split(b"\n")[:LOOKED_AT] if line.strip()]
    if not lines:
        return None
    enough = ENOUGH * len(lines)
    if sum(_PACKED.match(line) is not None for line in lines) >= enough:
        return Carrier(None, packed=True)
    header = [cell.strip().strip('"') for cell in lines[0].decode("utf-8", "replace").split(",")]
    if len(header) < 8 and (time := _place(header, TIME)) >= 0 and (line := _place(header, LINE)) >= 0:
        return Carrier(None, cells=(time, line))
    escapes = any(b"\x1b" in line for line in lines)
    bare = [_ESCAPE.sub(b"", line) for line in lines] if escapes else lines
    mark = next((one for one in _MARKS if sum(one.match(line) is not None for line in bare) >= enough), None) if len(lines) > 1 else None
    if mark is not None and mark is not QUOTE and mark.match(bare[0]) is None:
        mark = None  # a header without it: what the rows begin with is a column of theirs
    return Carrier(mark, escapes=escapes) if mark is not None or escapes else None
