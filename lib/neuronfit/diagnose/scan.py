"""A log of any length, read once in blocks: the lines that hold one of many texts, and where they are.

Python's alternation of two hundred texts reads about 20 MB a second, and one search per text is not
faster. So each text is represented by four of its bytes, chosen to be rare in logs; every window of
four bytes of a block is looked up in one table (numpy, four passes), and only the places that the
table knows are compared in full. The cost hardly depends on how many texts there are.

Memory is bounded: one block, the first and last lines, and a few lines per text. A text that floods
the log is counted, and its first and newest lines are kept.
"""

from __future__ import annotations

import codecs
import gzip
import re
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import BinaryIO, Optional

import numpy as np

__all__ = ["Line", "Scan", "Searcher", "clean", "scan"]

BLOCK = 1 << 19
HEAD = 1 << 18
TAIL = 1 << 16
WHOLE = 1 << 20
WHOLE_JSON = 1 << 26
REACH_BEFORE, REACH_AFTER = 2048, 3072
"""How much of a very long line is kept before and after what was found in it, bytes."""

_ANSI = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[@-Z\\-_]")
_COMMON = {**dict.fromkeys(b" etaoinsr0123456789:.-_", 9), **dict.fromkeys(b"hldcumpfg/|[]()=,'\"", 5), **dict.fromkeys(b"INFOERWA", 4)}
_DULL = frozenset(
    (b"Driv", b"comp", b"Comp", b"Back", b"back", b"oriz", b"modu", b"cach", b"Kelp", b" HLO", b"HLO ", b"buil", b"debu", b"euro", b"WARN", b"INFO")
)
"""Windows that occur on the dull lines of a compiler's log."""
_FACTOR = np.uint32(2654435761)


@dataclass(frozen=True)
class Line:
    """One line that holds at least one of the texts. ``number`` counts from 1."""

    number: int
    text: str
    found: tuple[bytes, ...]


@dataclass
class Scan:
    """What one pass over a log left: lines in order, how often each text occurred, both ends."""

    lines: list[Line] = field(default_factory=list)
    counts: dict[bytes, int] = field(default_factory=dict)
    size: int = 0
    line_count: int = 0
    head: str = ""
    tail: str = ""
    whole: Optional[bytes] = None
    """the whole log where it is short"""
    binary: bool = False


def clean(raw: bytes) -> str:
    """Bytes of a log as text: invalid UTF-8 replaced, colour codes, carriage returns and NULs removed."""
    text = raw.decode("utf-8", "replace")
    if "\x1b" in text:
        text = _ANSI.sub("", text)
    return text.replace("\x00", "").strip("\r\n")


class Searcher:
    """Finds many texts in blocks of bytes. ``keep`` is how many lines of a text are kept from the start."""

    def __init__(self, keep: dict[bytes, int]):
        self.keep = keep
        self.texts = tuple(keep)
        self._table = np.zeros(1 << 16, np.int16)
        self._slots: list[list[tuple[bytes, int]]] = [[]]
        slot_of: dict[int, int] = {}
        for text in self.texts:
            offset = _rarest(text)
            value = int.from_bytes(text[offset : offset + 4], "little")
            place = ((value * int(_FACTOR)) & 0xFFFFFFFF) >> 16
            if place not in slot_of:
                slot_of[place] = len(self._slots)
                self._table[place] = len(self._slots)
                self._slots.append([])
            self._slots[slot_of[place]].append((text, offset))
        self._hash = np.empty(BLOCK, np.uint32)
        self._slot = np.empty(BLOCK, np.int16)

    def places(self, block: bytes) -> Iterator[tuple[bytes, np.ndarray]]:
        """Each text that occurs in a block, with the sorted places where it starts."""
        raw = np.frombuffer(block, np.uint8)
        found: dict[int, list[np.ndarray]] = {}
        for shift in range(4):
            count = (len(block) - shift) // 4
            if count <= 0:
                continue
            if count > len(self._hash):
                self._hash, self._slot = np.empty(count, np.uint32), np.empty(count, np.int16)
            words = np.frombuffer(block, "<u4", count=count, offset=shift)
            hashed, slots = self._hash[:count], self._slot[:count]
            np.multiply(words, _FACTOR, out=hashed)
            np.right_shift(hashed, 16, out=hashed)
            np.take(self._table, hashed, out=slots, mode="clip")
            hits = np.flatnonzero(slots)
            if not len(hits):
                continue
            slot_of_hit = slots[hits]
            for slot in np.flatnonzero(np.bincount(slot_of_hit)):
                found.setdefault(int(slot), []).append(hits[slot_of_hit == slot] * 4 + shift)
        for slot, parts in found.items():
            candidates = np.concatenate(parts)
            for text, offset in self._slots[slot]:
                starts = candidates - offset
                starts = starts[(starts >= 0) & (starts + len(text) <= len(block))]
                for index, byte in enumerate(text):
                    if not len(starts):
                        break
                    starts = starts[raw[starts + index] == byte]
                if len(starts):
                    yield text, np.sort(starts)


def _rarest(text: bytes) -> int:
    """Where the four bytes of a text start that are least common in logs."""
    if len(text) < 4:
        raise ValueError(f"a text to look for has at least 4 bytes: {text!r}")

    def commonness(start: int) -> int:
        window = text[start : start + 4]
        return 30 * (window in _DULL) + sum(_COMMON.get(byte, 1) for byte in window)

    return min(range(len(text) - 3), key=commonness)


def scan(stream: BinaryIO, keep: dict[bytes, int], recent: int = 4) -> Scan:
    """Read a binary stream to its end and find the texts in it.

    ``keep`` maps each text to the number of first lines to keep; ``recent`` more are kept from the
    end. UTF-16 and gzip are recognised by their first bytes.
    """
    searcher = Searcher(keep)
    result = Scan()
    first: dict[bytes, int] = {}
    latest: dict[bytes, deque] = {text: deque(maxlen=recent) for text in keep}
    kept: dict[tuple[int, int], tuple[str, set[bytes]]] = {}
    whole: Optional[bytearray] = bytearray()
    head = bytearray()
    tail = b""
    lines_before = 0
    for block, repeated, low, high in _blocks(stream):
        if not result.size:
            result.binary = _is_binary(block[:4096])
        before = result.size - repeated
        result.size += len(block) - repeated
        if len(head) < HEAD:
            head += block[repeated : repeated + HEAD - len(head)]
        if whole is not None:
            whole += block[repeated:]
            limit = WHOLE_JSON if head[:64].lstrip()[:1] in (b"{", b"[") else WHOLE
            whole = whole if len(whole) <= limit else None
        tail = (tail + block[repeated:])[-TAIL:] if len(block) - repeated < TAIL else block[-TAIL:]
        ends = np.flatnonzero(np.frombuffer(block, np.uint8) == 10)
        for text, starts in searcher.places(block):
            starts = starts[(starts >= low) & (starts < high)]
            if not len(starts):
                continue
            result.counts[text] = result.counts.get(text, 0) + len(starts)
            room = max(0, keep[text] - first.get(text, 0))
            for start in starts[:room]:
                place, line = _line(block, int(start), ends, lines_before, before)
                kept.setdefault(place, (line, set()))[1].add(text)
                first[text] = first.get(text, 0) + 1
            for start in starts[room:][-recent:]:
                latest[text].append(_line(block, int(start), ends, lines_before, before))
        lines_before += len(ends)
    for text, entries in latest.items():
        for place, line in entries:
            kept.setdefault(place, (line, set()))[1].add(text)
    result.lines = [Line(place[0], line, tuple(sorted(found))) for place, (line, found) in sorted(kept.items())]
    result.line_count = lines_before + (1 if tail and not tail.endswith(b"\n") else 0)
    result.head, result.tail = clean(bytes(head)), clean(tail)
    result.whole = bytes(whole) if whole is not None else None
    return result


def _is_binary(first: bytes) -> bool:
    """A tenth of the bytes are NUL, or three tenths are no UTF-8 and many are control characters."""
    unreadable = first.decode("utf-8", "replace").count("\ufffd")
    control = sum(first.count(byte) for byte in (*range(1, 8), *range(14, 27), *range(28, 32), 127))
    return first.count(0) > len(first) // 10 or (unreadable > 0.3 * len(first) and control > len(first) // 50)


def _line(block: bytes, start: int, ends: np.ndarray, lines_before: int, before: int) -> tuple[tuple[int, int], str]:
    """The line around a place: its number with the offset at which the text starts, and the text.

    Of a very long line only the part nearby; places that are close to each other share it.
    """
    low = max(0, (before + start - REACH_BEFORE) // 1024 * 1024 - before)
    high = min(len(block), low + REACH_BEFORE + REACH_AFTER)
    begin = max(block.rfind(b"\n", low, start) + 1, block.rfind(b"\r", low, start) + 1, low)
    stops = [stop for stop in (block.find(b"\n", start, high), block.find(b"\r", start, high)) if stop >= 0]
    number = lines_before + int(np.searchsorted(ends, start)) + 1
    return (number, before + begin), clean(block[begin : min(stops, default=high)])


def _blocks(stream: BinaryIO) -> Iterator[tuple[bytes, int, int, int]]:
    """Blocks that end at a line's end: the bytes, how many of them repeat the block before, and from
    where to where places are to be reported.

    Only a line longer than a block is cut. Then the next block repeats its last bytes, and what starts
    near the cut is left to it, so that no text is missed or torn at the seam.
    """
    carry, repeated, low = b"", 0, 0
    for piece in _pieces(stream):
        data = carry + piece
        end = data.rfind(b"\n") + 1
        if end:
            yield data[:end], repeated, low, end
            carry, repeated, low = data[end:], 0, 0
        elif len(data) >= BLOCK:
            yield data, repeated, low, len(data) - REACH_AFTER
            carry, repeated, low = data[-REACH_BEFORE - REACH_AFTER :], REACH_BEFORE + REACH_AFTER, REACH_BEFORE
        else:
            carry = data
    if carry:
        yield carry, repeated, low, len(carry)


def _pieces(stream: BinaryIO) -> Iterable[bytes]:
    """The stream's bytes in pieces, as UTF-8 whatever it was."""
    first = _filled(stream)
    if first[:2] == b"\x1f\x8b":
        yield from _inflated(first, stream)
        return
    if first[:2] in (b"\xff\xfe", b"\xfe\xff"):
        decoder = codecs.getincrementaldecoder("utf-16")("replace")
        while first:
            yield decoder.decode(first).encode("utf-8", "replace")
            first = _filled(stream)
        return
    while first:
        yield first
        first = _filled(stream)


def _filled(stream: BinaryIO) -> bytes:
    """The next block, gathered from a pipe that delivers in pieces."""
    block = stream.read(BLOCK)
    while block and len(block) < BLOCK and (more := stream.read(BLOCK - len(block))):
        block += more
    return block


class _Rejoined:
    """A stream whose first bytes were read already."""

    def __init__(self, first: bytes, stream: BinaryIO):
        self.first, self.stream = first, stream

    def read(self, size: int = -1) -> bytes:
        if self.first:
            part, self.first = (self.first, b"") if size < 0 else (self.first[:size], self.first[size:])
            return part
        return self.stream.read(size)


def _inflated(first: bytes, stream: BinaryIO) -> Iterator[bytes]:
    with gzip.GzipFile(fileobj=_Rejoined(first, stream)) as unpacked:  # type: ignore[arg-type]
        while piece := unpacked.read(BLOCK):
            yield piece
