"""JSON values out of a stream of bytes: one a line, pretty-printed, in one array, behind a prefix, cut off at the end."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any, Optional

__all__ = ["complete", "loader", "values"]

_TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*"|[{}\[\]]|"', re.DOTALL)

LONGEST = 256 << 20
"""Bytes of one value that are kept while its end is looked for."""


def loader() -> Callable[[bytes], Any]:
    """``orjson.loads`` where it is installed, else the standard library's; both raise ``ValueError``."""
    try:
        import orjson
    except ImportError:
        return json.loads
    return orjson.loads


def values(lines: Iterator[bytes], load: Callable[[bytes], Any], prepare: Callable[[bytes], bytes] = bytes) -> Iterator[tuple[Any, bytes, bool]]:
    """Each value of the stream as (value, its prefix on the line, complete).

    A line that is a value is the quick path. Lines that are none are gathered until the brackets close.
    Of a value that the stream ends in, the part that is there is given, open containers closed and
    those on the way to the cut taken out where they would pass for whole ones; ``complete`` is then false.
    ``prepare`` may shorten the text of a whole line before it is parsed; where that breaks it, the line is parsed as it is.
    """
    gathered = bytearray()
    depth = 0
    for line in lines:
        if not gathered:
            start = line.find(b"{")
            if start >= 0 and line.rstrip()[-1:] in (b"}", b"]", b","):
                text = line[start:] if start else line
                value = _whole(text, load, prepare)
                if value is not None:
                    yield value, line[:start], True
                    continue
            if start < 0:
                continue  # words, a bracket of an array around the values, an empty line
            gathered += line[start:] + b"\n"
            depth, end = _close(bytes(gathered), 0)
        else:
            piece = line + b"\n"
            if b'"neuron_runtime_data"' in line[:64] and line[:1] == b"{" and depth:
                yield from _part(bytes(gathered), load)  # the value before never ended: a writer was killed and started again
                gathered.clear()
                depth = 0
                value = _whole(line, load, prepare)
                if value is not None:
                    yield value, b"", True
                    continue
            offset = len(gathered)
            gathered += piece
            depth, end = _close(piece, depth)
            end = end + offset if end >= 0 else -1
        while end >= 0:
            whole, rest = bytes(gathered[:end]), bytes(gathered[end:]).lstrip(b" ,\r\n\t]")
            gathered.clear()
            value = _whole(whole, load, bytes)
            yield (value, b"", True) if value is not None else (None, b"", False)
            start = rest.find(b"{")
            depth, end = _close(rest[start:], 0) if start >= 0 else (0, -1)
            if start >= 0:
                gathered += rest[start:]
        if len(gathered) > LONGEST:
            gathered.clear()
            depth = 0
            yield None, b"", False
    if gathered:
        yield from _part(bytes(gathered), load)


def _whole(text: bytes, load: Callable[[bytes], Any], prepare: Callable[[bytes], bytes]) -> Optional[Any]:
    short = prepare(text)
    try:
        return load(short)
    except ValueError:
        pass
    text = text.strip().rstrip(b",")
    for parse, candidate in ((load, text), (load, text.rstrip(b"]").rstrip()), (json.loads, text)):  # the last one takes NaN
        try:
            return parse(candidate)
        except (ValueError, RecursionError):
            continue
    return _printed(text) if text[:2] == b"{'" else None


def _printed(text: bytes) -> Optional[Any]:
    """A value that a Python script printed instead of writing JSON."""
    import ast

    try:
        return ast.literal_eval(text.decode("utf-8", "replace"))
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return None


def _close(text: bytes, depth: int) -> tuple[int, int]:
    """Depth after the text, and where the outermost bracket closed (-1: it did not)."""
    for token in _TOKEN.finditer(text):
        mark = text[token.start()]
        if mark in b"{[":
            depth += 1
        elif mark in b"}]":
            depth -= 1
            if depth == 0:
                return 0, token.end()
    return depth, -1


def _part(text: bytes, load: Callable[[bytes], Any]) -> Iterator[tuple[Any, bytes, bool]]:
    yield complete(text, load), b"", False


def complete(text: bytes, load: Callable[[bytes], Any] = json.loads) -> Optional[Any]:
    """A value that was cut off, as far as it goes: the containers that were open at the cut and lie deeper than a
    metric group's parts (5 levels and more) are taken out, because part of a list of cores would pass for all of it."""
    stack: list[tuple[int, int]] = []
    safe: list[tuple[int, tuple[int, ...]]] = []
    for token in _TOKEN.finditer(text):
        mark = text[token.start()]
        if mark in b"{[":
            stack.append((token.start(), mark))
        elif mark in b"}]" and stack:
            stack.pop()
            safe.append((token.end(), tuple(kind for _, kind in stack)))
    opened = [start for start, _ in stack]
    limit = opened[GROUP_DEPTH] if len(opened) > GROUP_DEPTH else len(text)
    for end, kinds in reversed(safe):
        if end > limit:
            continue
        closing = b"".join(b"}" if kind == 0x7B else b"]" for kind in reversed(kinds))
        try:
            return load(text[:end] + closing)
        except ValueError:
            continue
    return None


GROUP_DEPTH = 5
"""Depth of a group's own keys: record, runtime list, runtime, report, group."""
