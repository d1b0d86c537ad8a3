"""What became of every request of a test, in columns: 56 bytes an entry, so that millions of them fit.

A :class:`Ledger` is a sequence of :class:`Entry`; what judges it reads the columns of a piece at a time (:meth:`Ledger.pieces`). Rows
are written once and their memory never moves, so a slice taken while answers arrive stays as it was.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Optional, Union, overload

import numpy as np

__all__ = ["ARMS", "Answered", "Entry", "Ledger", "VALUES", "latency_s", "tpot_s", "ttft_s"]

ARMS = ("baseline", "candidate")

ROW = np.dtype(
    [
        ("n", "u4"),
        ("stage", "i2"),
        ("arm", "i1"),
        ("agree", "i1"),
        ("tokens", "i4"),
        ("error", "i4"),
        ("hash", "u8"),
        ("due", "f8"),
        ("sent", "f8"),
        ("first", "f8"),
        ("end", "f8"),
    ]
)
"""One entry: ``arm`` is its place in ``ARMS``, ``error`` that of its text, -1 and NaN stand for what is absent."""

PIECE = 1 << 16
"""Entries a piece."""

MOST_TEXTS = 100_000
"""Different texts of errors that are kept; the log has them all."""

ONE_OF_MANY = "one of very many texts, which the log has"

NO_HASH = (1 << 64) - 1
HASHED = re.compile(r"[0-9a-f]{12}")


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


# -- columns ----------------------------------------------------------------------------------


def latency_s(rows: np.ndarray) -> np.ndarray:
    """:attr:`Entry.latency_s` of each row, seconds; NaN for a request that failed."""
    return _of_the_good(rows, np.maximum(rows["end"] - rows["due"], 1e-9))


def ttft_s(rows: np.ndarray) -> np.ndarray:
    """:attr:`Entry.ttft_s` of each row, seconds; NaN where there is none."""
    return _of_the_good(rows, np.maximum(rows["first"] - rows["due"], 1e-9))


def tpot_s(rows: np.ndarray) -> np.ndarray:
    """:attr:`Entry.tpot_s` of each row, seconds a token; NaN where there is none."""
    several = rows["tokens"] >= 2
    gaps = np.where(several, rows["tokens"] - 1, 1)
    return _of_the_good(rows, np.where(several, np.maximum((rows["end"] - rows["first"]) / gaps, 1e-12), np.nan))


def _of_the_good(rows: np.ndarray, values: np.ndarray) -> np.ndarray:
    values[rows["error"] >= 0] = np.nan
    return values


VALUES = {"latency": latency_s, "ttft": ttft_s, "tpot": tpot_s}
"""Metric -> the column of its values."""


# -- the sequence -----------------------------------------------------------------------------


class _Texts:
    """Texts by number; most errors of a test have the same few."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.places: dict[str, int] = {}

    def place(self, text: str) -> int:
        found = self.places.get(text)
        if found is None:
            if len(self.texts) >= MOST_TEXTS:
                return self.place(ONE_OF_MANY) if ONE_OF_MANY in self.places else self._add(ONE_OF_MANY)
            found = self._add(text)
        return found

    def _add(self, text: str) -> int:
        self.texts.append(text)
        return self.places.setdefault(text, len(self.texts) - 1)


class Ledger(Sequence[Entry]):
    """Entries in the order in which they were appended. A slice is a view that does not grow."""

    def __init__(self, entries: Iterable[Entry] = ()):
        self._pieces: list[np.ndarray] = []
        self._texts = _Texts()
        self._start = self._stop = 0
        for entry in entries:
            self.append(entry)

    @classmethod
    def of(cls, entries: Sequence[Entry]) -> "Ledger":
        """``entries`` themselves where they are a ledger, else one made of them."""
        return entries if isinstance(entries, cls) else cls(entries)

    def append(self, entry: Entry) -> None:
        """Raises ``ValueError`` or ``OverflowError`` for a number that is none or does not fit its column."""
        piece, place = divmod(self._stop, PIECE)
        if piece == len(self._pieces):
            self._pieces.append(np.empty(PIECE, ROW))
        due, sent, first, end = entry.due, entry.sent, entry.first, entry.end
        if not math.isfinite(due + (sent or 0.0) + (first or 0.0) + (end or 0.0)):
            raise ValueError("a time is not finite")
        if entry.hash is None:
            digest = NO_HASH
        else:
            digest = int(entry.hash, 16) if HASHED.fullmatch(entry.hash) else (1 << 48) + self._texts.place(entry.hash)
        nothing = math.nan
        self._pieces[piece][place] = (
            entry.n,
            entry.stage,
            entry.arm == "candidate",
            -1 if entry.agree is None else entry.agree,
            -1 if entry.tokens is None else entry.tokens,
            -1 if entry.error is None else self._texts.place(entry.error),
            digest,
            due,
            nothing if sent is None else sent,
            nothing if first is None else first,
            nothing if end is None else end,
        )
        self._stop += 1

    def drop(self, count: int) -> None:
        """Forget the last ``count`` entries."""
        self._stop = max(self._start, self._stop - count)

    def __len__(self) -> int:
        return self._stop - self._start

    @overload
    def __getitem__(self, place: int) -> Entry: ...
    @overload
    def __getitem__(self, place: slice) -> "Ledger": ...
    def __getitem__(self, place: Union[int, slice]) -> Union[Entry, "Ledger"]:
        if isinstance(place, slice):
            start, stop, step = place.indices(len(self))
            if step != 1:
                return Ledger(self[each] for each in range(start, stop, step))
            part = Ledger()
            part._pieces, part._texts = self._pieces, self._texts
            part._start, part._stop = self._start + start, self._start + max(start, stop)
            return part
        count = len(self)
        if not -count <= place < count:
            raise IndexError(place)
        piece, row = divmod(self._start + place % count, PIECE)
        return self._entry(self._pieces[piece][row].item())

    def __iter__(self) -> Iterator[Entry]:
        for rows in self.pieces():
            for row in rows:
                yield self._entry(row.item())

    def pieces(self) -> Iterator[np.ndarray]:
        """The rows (``ROW``) in order, some ten thousand at a time, without a copy."""
        start, stop = self._start, self._stop
        while start < stop:
            piece, row = divmod(start, PIECE)
            end = min(row + stop - start, PIECE)
            yield self._pieces[piece][row:end]
            start += end - row

    def error(self, place: int) -> str:
        """The text of an error by the number in its row."""
        return self._texts.texts[place]

    def _entry(self, row: tuple) -> Entry:
        n, stage, arm, agree, tokens, error, digest, due, *times = row
        sent, first, end = (None if value != value else value for value in times)
        if digest == NO_HASH:
            hashed = None
        else:
            hashed = f"{digest:012x}" if digest < 1 << 48 else self._texts.texts[digest - (1 << 48)]
        return Entry(
            n,
            stage,
            ARMS[arm],
            due,
            sent,
            first,
            end,
            None if tokens < 0 else tokens,
            hashed,
            None if agree < 0 else bool(agree),
            None if error < 0 else self._texts.texts[error],
        )


class Answered:
    """Which requests have an outcome: a bit each, in pages, so that few large numbers cost little."""

    BITS = 1 << 13

    def __init__(self) -> None:
        self._pages: dict[tuple[int, str, int], bytearray] = {}

    def add(self, stage: int, n: int, arm: str) -> bool:
        """Whether it is new."""
        number, bit = divmod(n, self.BITS)
        page = self._pages.get((stage, arm, number))
        if page is None:
            page = self._pages[(stage, arm, number)] = bytearray(self.BITS // 8)
        byte, mask = bit >> 3, 1 << (bit & 7)
        if page[byte] & mask:
            return False
        page[byte] |= mask
        return True

    def discard(self, stage: int, n: int, arm: str) -> None:
        number, bit = divmod(n, self.BITS)
        page = self._pages.get((stage, arm, number))
        if page is not None:
            page[bit >> 3] &= ~(1 << (bit & 7))
