"""A monitor's file as bytes of UTF-8, whatever it was: gzip, bzip2, xz, UTF-16; hashed as it is read, never whole in memory."""

from __future__ import annotations

import bz2
import codecs
import hashlib
import io
import lzma
import os
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, Optional, Union

from neuronfit.adopt.monitors.carried import Carrier
from neuronfit.errors import BadInput

__all__ = ["HEAD", "Source", "plain_head"]

HEAD = 1 << 16
"""Bytes looked at to recognise a file."""

BLOCK = 1 << 20
LONGEST_LINE = 64 << 20


class _Hashed(io.RawIOBase):
    """What was already read, then the rest, hashed as it goes by."""

    def __init__(self, start: bytes, stream: BinaryIO, wanted: bool):
        self.start, self.stream, self.digest = start, stream, hashlib.sha256() if wanted else None

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        if self.start:
            got = min(len(self.start), len(buffer))
            buffer[:got], self.start = self.start[:got], self.start[got:]
        else:
            got = self.stream.readinto(buffer)  # type: ignore[attr-defined]
        if self.digest is not None:
            self.digest.update(memoryview(buffer)[: got or 0])
        return got or 0


class Source:
    """One file, opened; ``-`` is standard input. Raises :class:`~neuronfit.errors.BadInput` when it cannot be read."""

    def __init__(self, path: Union[str, "os.PathLike[str]"], *, hashed: bool = True):
        self.path = Path(path)
        try:
            self._file: BinaryIO = sys.stdin.buffer if str(path) == "-" else open(path, "rb")  # closed by finish()
            start = self._file.read(HEAD)
        except OSError as error:
            raise BadInput(f"cannot read the monitor's file ({error.strerror or error})", str(path)) from None
        self.head = plain_head(start)
        self._done = False
        self.cut_off = False
        """the compressed stream ended early"""
        self.carrier: Optional[Carrier] = None
        """what is taken off each line, once somebody says so"""
        self._hashed = _Hashed(start, self._file, hashed)
        stream: BinaryIO = io.BufferedReader(self._hashed, BLOCK)
        self._stream: BinaryIO = stream
        self._packed = _unpacker(start)
        self._encoding = _encoding(start if self._packed is None else _unpacked(start))

    @property
    def name(self) -> str:
        return "standard input" if str(self.path) == "-" else self.path.name

    @property
    def sha256(self) -> str:
        """Of the file as it lies on disk; known after :meth:`finish`, and only where it was asked for."""
        return self._hashed.digest.hexdigest() if self._hashed.digest is not None else ""

    def blocks(self) -> Iterator[bytes]:
        """The content as UTF-8, a piece at a time; a damaged compressed file ends where it is damaged."""
        decode = None if self._encoding == "utf-8" else codecs.getincrementaldecoder(self._encoding)("replace")
        first = True
        while True:
            block = self._stream.read(BLOCK)
            if not block:
                self.cut_off = self.cut_off or (self._packed is not None and not self._packed.eof)
                return
            if self._packed is not None:
                block = self._unpack(block)
                if self.cut_off and not block:
                    return
            if decode is not None:
                block = decode.decode(block).encode("utf-8")
            if first:
                block, first = block.removeprefix(b"\xef\xbb\xbf"), False
            yield block

    def _unpack(self, block: bytes) -> bytes:
        """What a piece of a compressed file holds; several compressed files in a row are one."""
        out = []
        while block:
            if self._packed.eof:
                self._packed = _unpacker(block)
                if self._packed is None:  # padding after the end
                    self._packed = _Ended()
                    break
            try:
                out.append(self._packed.decompress(block))
            except (OSError, ValueError, EOFError, zlib.error, lzma.LZMAError):
                self.cut_off = True
                break
            block = self._packed.unused_data if self._packed.eof else b""
        return b"".join(out)

    def lines(self) -> Iterator[bytes]:
        """Lines without their end and without what carried them; the last one also where it has no end. A line beyond 64 MiB is cut into pieces."""
        if self.carrier is None:
            return self._lines()
        return map(self.carrier.line, self._lines())

    def stamp(self) -> Optional[float]:
        """Seconds since 1970 that stood before the last line, put there by what carried it; ``None`` where there are none."""
        return self.carrier.seconds() if self.carrier is not None else None

    def _lines(self) -> Iterator[bytes]:
        rest = b""
        for block in self.blocks():
            parts = (rest + block if rest else block).split(b"\n")
            rest = parts.pop()
            yield from parts
            if len(rest) > LONGEST_LINE:
                yield rest
                rest = b""
        if rest:
            yield rest

    def text(self, limit: int = 256 << 20) -> str:
        """All of it, for the formats that are one screen or one document."""
        parts, size = [], 0
        for block in self.blocks() if self.carrier is None else (line + b"\n" for line in self.lines()):
            parts.append(block)
            size += len(block)
            if size > limit:
                raise BadInput("the file is too large for its format", self.name, allowed=f"{limit >> 20} MiB", next="cut it into parts")
        return b"".join(parts).decode("utf-8", "replace").replace("\r\n", "\n")

    def finish(self) -> None:
        """Read what is left, so that the hash is that of the whole file, and close it."""
        if self._file.closed or self._done:
            return
        self._done = True
        buffer = bytearray(BLOCK if self._hashed.digest is not None else 0)
        while buffer and self._hashed.readinto(memoryview(buffer)):
            pass
        self.close()

    def close(self) -> None:
        """Close the file, read or not."""
        if str(self.path) != "-":
            self._file.close()


def plain_head(start: bytes) -> bytes:
    """The first bytes of a file, decompressed and as UTF-8."""
    start = _unpacked(start)
    encoding = _encoding(start)
    if encoding != "utf-8":
        start = start.decode(encoding, "ignore").encode("utf-8")
    return start.removeprefix(b"\xef\xbb\xbf")


class _Ended:
    """After the last compressed file in a row: nothing more."""

    eof = True
    unused_data = b""

    def decompress(self, block: bytes) -> bytes:
        return b""


def _unpacker(start: bytes) -> Any:
    """What decompresses a file that begins like this; ``None``: it is not compressed."""
    if start[:2] == b"\x1f\x8b":
        return zlib.decompressobj(31)
    if start[:3] == b"BZh":
        return bz2.BZ2Decompressor()
    if start[:6] == b"\xfd7zXZ\0":
        return lzma.LZMADecompressor()
    return None


def _unpacked(start: bytes) -> bytes:
    packed = _unpacker(start)
    if packed is None:
        return start
    try:
        return packed.decompress(start, HEAD)
    except (OSError, EOFError, ValueError, zlib.error, lzma.LZMAError):
        return b""


def _encoding(start: bytes) -> str:
    if start[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return "utf-16"
    if len(start) > 3 and start[1:2] == b"\0" and start[3:4] == b"\0":
        return "utf-16-le"
    return "utf-8"
