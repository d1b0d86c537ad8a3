"""The log of a controlled test: one line per request, only ever appended to.

The first line names the plan. Every other line is an event (``{"event": ...}``) or one request:

    {"n": 17, "stage": 1, "arm": "candidate", "due": 3.2, "sent": 3.2, "first": null, "end": 3.21,
     "tokens": null, "hash": "9f86d0818", "agree": true, "error": null}

Times are seconds from the start of the stage's segment. Of an answer only the hash is written, of a request
nothing; no header, key or body ever reaches the file. A line is written by one call to the operating
system, so a process that is killed leaves whole lines and at most one torn one at the end, which
reading skips. A request that appears twice (sent again after a crash) counts once: the first line stands.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Optional

from neuronfit.errors import BadRecord, NotWritable

__all__ = ["Entry", "Log", "Logged", "answer_hash", "read"]

ARMS = ("baseline", "candidate")


@dataclass(frozen=True, slots=True)
class Entry:
    """What became of one request on one side. Times in seconds from the start of the stage's segment."""

    n: int
    stage: int
    arm: str
    due: float
    sent: Optional[float] = None
    first: Optional[float] = None
    end: Optional[float] = None
    tokens: Optional[int] = None
    hash: Optional[str] = None
    agree: Optional[bool] = None
    error: Optional[str] = None

    @property
    def latency_s(self) -> Optional[float]:
        """From the intended time of sending; ``None`` for a request that failed."""
        return None if self.error is not None or self.end is None else max(self.end - self.due, 1e-9)

    @property
    def ttft_s(self) -> Optional[float]:
        return None if self.error is not None or self.first is None else max(self.first - self.due, 1e-9)

    @property
    def tpot_s(self) -> Optional[float]:
        """(end - first) / (tokens - 1)."""
        if self.error is not None or self.first is None or self.end is None or not self.tokens or self.tokens < 2:
            return None
        return max((self.end - self.first) / (self.tokens - 1), 1e-12)


_FIELDS = tuple(entry.name for entry in fields(Entry))


@dataclass
class Logged:
    """A log as read: the plan's id, entries each counted once in the order written, events, and what was wrong with the file."""

    plan: str
    started_utc: str
    entries: list[Entry] = field(default_factory=list)
    events: list[dict[str, Any]] = field(default_factory=list)
    torn: int = 0
    """lines that are no whole entry"""
    doubled: int = 0
    """requests that were sent again; the first answer counts"""
    sha256: str = ""

    def of(self, stage: int) -> list[Entry]:
        return [entry for entry in self.entries if entry.stage == stage]

    def event(self, name: str) -> list[dict[str, Any]]:
        return [event for event in self.events if event["event"] == name]

    @property
    def ended(self) -> Optional[dict[str, Any]]:
        ends = self.event("end")
        return ends[-1] if ends else None


class Log:
    """Appends to the file of one test. Raises :class:`~neuronfit.errors.NotWritable` when it cannot be written."""

    def __init__(self, path: Path):
        self.path = path
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._torn = path.exists() and path.stat().st_size > 0 and not path.read_bytes()[-1:] == b"\n"
            self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        except OSError as error:
            raise NotWritable(
                f"cannot write the trial's log ({error.strerror})", str(path), next="free the disk or choose another --reports"
            ) from None
        if self._torn:
            self._write("\n")

    def begin(self, plan: str, utc: str) -> None:
        self._write(json.dumps({"log": "trial/1", "plan": plan, "started_utc": utc}) + "\n")

    def add(self, entry: Entry) -> None:
        """One request; absent values are left out."""
        self._write(json.dumps({name: value for name in _FIELDS if (value := getattr(entry, name)) is not None}, separators=(",", ":")) + "\n")

    def event(self, event: str, **what: Any) -> None:
        self._write(json.dumps({"event": event, **what}, ensure_ascii=False) + "\n")

    def sync(self) -> None:
        """Bring what was written to the disk, so that it outlives a power cut too."""
        try:
            os.fsync(self._file)
        except OSError as error:
            raise self._refused(error) from None

    def close(self) -> None:
        os.close(self._file)

    def _write(self, line: str) -> None:
        data = line.encode("utf-8", "surrogateescape")
        try:
            written = os.write(self._file, data)
            if written < len(data):  # a disk that fills up takes a part, and refuses the rest
                os.write(self._file, data[written:])
        except OSError as error:
            raise self._refused(error) from None

    def _refused(self, error: OSError) -> NotWritable:
        what = f"cannot append to the trial's log ({error.strerror}); what it holds stands"
        return NotWritable(what, str(self.path), next="free the disk, then the same command with --resume")


def read(path: Path) -> Logged:
    """The log of a test. Raises :class:`~neuronfit.errors.BadRecord` when the file is none."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise BadRecord(f"cannot read the trial's log ({error.strerror})", str(path)) from None
    lines = data.split(b"\n")
    head = _parsed(lines[0])
    if not isinstance(head, dict) or head.get("log") != "trial/1" or not isinstance(head.get("plan"), str):
        raise BadRecord(
            f"{path} is not the log of a trial, its first line is", lines[0][:60].decode("utf-8", "replace"), next="neuronfit trial PARAMS"
        )
    logged = Logged(plan=head["plan"], started_utc=str(head.get("started_utc")), sha256=hashlib.sha256(data).hexdigest())
    seen: set[tuple[int, int, str]] = set()
    for line in lines[1:]:
        if not line.strip():
            continue
        found = _parsed(line)
        if isinstance(found, dict) and isinstance(found.get("event"), str):
            logged.events.append(found)
            continue
        entry = _entry(found)
        if entry is None:
            logged.torn += 1
        elif (key := (entry.stage, entry.n, entry.arm)) in seen:
            logged.doubled += 1
        else:
            seen.add(key)
            logged.entries.append(entry)
    return logged


def _parsed(line: bytes) -> Any:
    try:
        return json.loads(line)
    except ValueError:
        return None


def _entry(found: Any) -> Optional[Entry]:
    if not isinstance(found, dict):
        return None
    try:
        entry = Entry(**found)
    except TypeError:
        return None
    numbers = (entry.due, entry.sent, entry.first, entry.end)
    good = isinstance(entry.n, int) and isinstance(entry.stage, int) and entry.arm in ARMS and isinstance(entry.due, (int, float))
    return entry if good and all(value is None or isinstance(value, (int, float)) for value in numbers) else None


def answer_hash(parts: Iterable[str]) -> str:
    """The first 12 hex digits of SHA-256 over the parts of an answer that are compared."""
    return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogateescape")).hexdigest()[:12]
