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
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, BinaryIO, Optional

from neuronfit.errors import BadRecord, NotWritable
from neuronfit.trial.ledger import ARMS, Answered, Entry, Ledger

__all__ = ["ARMS", "Entry", "Log", "Logged", "answer_hash", "read"]

LONGEST_LINE = 1 << 20
"""Bytes; a longer line is none of ours."""

_FIELDS = tuple(entry.name for entry in fields(Entry))


@dataclass
class Logged:
    """A log as read: the plan's id, entries each counted once in the order written, events, and what was wrong with the file."""

    plan: str
    started_utc: str
    stages: dict[int, Ledger] = field(default_factory=dict)
    """stage -> its entries"""
    events: list[dict[str, Any]] = field(default_factory=list)
    torn: int = 0
    """lines that are no whole entry"""
    doubled: int = 0
    """requests that were sent again; the first answer counts"""
    lost: int = 0
    """failures of both sides at once, while neither could be reached; they do not count and are sent again"""
    sha256: str = ""

    @property
    def entries(self) -> list[Entry]:
        """All of them as objects, stage by stage: for logs that are short."""
        return [entry for ledger in self.stages.values() for entry in ledger]

    def of(self, stage: int) -> Ledger:
        return self.stages.get(stage) or Ledger()

    def event(self, name: str) -> list[dict[str, Any]]:
        return [event for event in self.events if event["event"] == name]

    @property
    def ended(self) -> Optional[dict[str, Any]]:
        """The last end, where nothing was sent after it."""
        ends = [event for event in self.events if event["event"] in ("end", "resume")]
        return ends[-1] if ends and ends[-1]["event"] == "end" else None


class Log:
    """Appends to the file of one test. Raises :class:`~neuronfit.errors.NotWritable` when it cannot be written."""

    def __init__(self, path: Path):
        self.path = path
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._torn = path.exists() and _ends_torn(path)
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
        self._write(json.dumps({"event": event, **what}) + "\n")

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


def _ends_torn(path: Path) -> bool:
    with path.open("rb") as file:
        if file.seek(0, os.SEEK_END) == 0:
            return False
        file.seek(-1, os.SEEK_END)
        return file.read(1) != b"\n"


def read(path: Path, *, requests: bool = True) -> Logged:
    """The log of a test, line by line; without ``requests`` only its events. Raises :class:`~neuronfit.errors.BadRecord` when the file is none."""
    digest = hashlib.sha256()
    try:
        with path.open("rb") as file:
            lines = _lines(file, digest)
            first = next(lines, b"")
            head = _parsed(first)
            if not isinstance(head, dict) or head.get("log") != "trial/1" or not isinstance(head.get("plan"), str):
                said = first[:60].decode("utf-8", "replace")
                raise BadRecord(f"{path} is not the log of a trial, its first line is", said, next="neuronfit trial PARAMS")
            logged = Logged(plan=head["plan"], started_utc=str(head.get("started_utc")))
            _take(logged, lines, requests)
    except OSError as error:
        raise BadRecord(f"cannot read the trial's log ({error.strerror})", str(path)) from None
    logged.sha256 = digest.hexdigest()
    return logged


def _lines(file: BinaryIO, digest: Any) -> Iterator[bytes]:
    """Lines; of one that is longer than ``LONGEST_LINE`` its beginning."""
    whole = True
    while line := file.readline(LONGEST_LINE):
        digest.update(line)
        if whole:
            yield line
        whole = line.endswith(b"\n")


def _take(logged: Logged, lines: Iterator[bytes], requests: bool) -> None:
    answered = Answered()
    for line in lines:
        if (not requests and line.startswith(b'{"n":')) or not line.strip():
            continue
        found = _parsed(line)
        if isinstance(found, dict) and isinstance(found.get("event"), str):
            logged.events.append(found)
            if found["event"] == "lost":
                _forget(logged, answered, found)
            continue
        entry = _entry(found)
        if entry is None:
            logged.torn += 1
        elif not answered.add(entry.stage, entry.n, entry.arm):
            logged.doubled += 1
        else:
            try:
                logged.stages.setdefault(entry.stage, Ledger()).append(entry)
            except (ValueError, OverflowError):
                answered.discard(entry.stage, entry.n, entry.arm)
                logged.torn += 1


def _forget(logged: Logged, answered: Answered, event: dict[str, Any]) -> None:
    """The last ``count`` entries of a stage, which both sides failed while neither could be reached, do not count."""
    stage, count = event.get("stage"), event.get("count")
    ledger = logged.stages.get(stage) if isinstance(stage, int) else None
    if ledger is None or not isinstance(count, int) or not 0 < count <= len(ledger):
        return
    for entry in ledger[len(ledger) - count :]:
        answered.discard(entry.stage, entry.n, entry.arm)
    ledger.drop(count)
    logged.lost += count


def _parsed(line: bytes) -> Any:
    try:
        return json.loads(line.decode())
    except (ValueError, RecursionError):
        return None


_NUMBER = (float, int)
_NUMBER_OR_NOTHING = (float, int, type(None))


def _entry(found: Any) -> Optional[Entry]:
    if not isinstance(found, dict):
        return None
    try:
        entry = Entry(**found)
    except TypeError:
        return None
    good = (
        type(entry.n) is int
        and 0 <= entry.n < 1 << 32
        and type(entry.stage) is int
        and 0 <= entry.stage < 1 << 15
        and entry.arm in ARMS
        and type(entry.due) in _NUMBER
        and type(entry.sent) in _NUMBER_OR_NOTHING
        and type(entry.first) in _NUMBER_OR_NOTHING
        and type(entry.end) in _NUMBER_OR_NOTHING
        and (entry.tokens is None or (type(entry.tokens) is int and 0 <= entry.tokens < 1 << 31))
        and (entry.agree is None or type(entry.agree) is bool)
        and (entry.hash is None or type(entry.hash) is str)
        and (entry.error is None or type(entry.error) is str)
    )
    return entry if good else None


def answer_hash(parts: Iterable[str]) -> str:
    """The first 12 hex digits of SHA-256 over the parts of an answer that are compared."""
    return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogateescape")).hexdigest()[:12]
