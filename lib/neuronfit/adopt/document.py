"""A foreign file, opened once: bytes, text, JSON and numbers as people write them.

Byte-order marks, UTF-16, gzip, CRLF and a missing last newline are read through. ``NaN`` and
``Infinity`` become ``None`` and are counted. What is cut off is an error that says where.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import re
import zlib
from functools import cached_property
from pathlib import Path
from typing import Any, Optional, Union

from neuronfit.errors import BadRecord

__all__ = ["Document", "HEAD", "MOST_BYTES", "number", "marked", "seconds_per", "whole"]

HEAD = 65536
"""Bytes that a format is recognised from."""

MOST_BYTES = 512 * 2**20
"""Larger files are refused: no result file of a known tool is that large."""

ABSENT = ("", "-", "--", "—", "n/a", "na", "none", "null", "nan", "inf", "-inf", "infinity", "?", "#n/a", "unknown")
_NUMBER = re.compile(r"[-+]?(\d[\d.,' \u00a0\u202f]*\d|\d)([eE][-+]?\d+)?")
_SECONDS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "sec": 1.0, "secs": 1.0, "seconds": 1.0, "milliseconds": 1e-3, "min": 60.0}


class Document:
    """The content of one file. Raises :class:`~neuronfit.errors.BadRecord` when it cannot be read as text."""

    def __init__(self, data: bytes, name: str):
        self.name = name
        self.sha256 = hashlib.sha256(data).hexdigest()
        self.notes: list[str] = []
        self.data = self._unzipped(data)
        self.not_numbers = 0

    @classmethod
    def open(cls, path: Union[str, Path]) -> "Document":
        path = Path(path)
        try:
            if path.is_file() and path.stat().st_size > MOST_BYTES:
                raise BadRecord(
                    f"{path} is too large, bytes", path.stat().st_size, allowed=f"up to {MOST_BYTES}", next="adopt the summary file instead"
                )
            return cls(path.read_bytes(), path.name)
        except OSError as error:
            raise BadRecord(f"cannot read the file ({error.strerror})", str(path), allowed="a result file", next="check the path") from None

    def _unzipped(self, data: bytes) -> bytes:
        if data[:2] != b"\x1f\x8b":
            return data
        try:
            with gzip.GzipFile(fileobj=io.BytesIO(data)) as stream:
                plain = stream.read(MOST_BYTES + 1)
        except (OSError, EOFError, zlib.error):
            raise BadRecord("the compressed file is cut off or damaged", self.name, next="copy it again") from None
        if len(plain) > MOST_BYTES:
            raise BadRecord("the file is too large when unpacked", self.name, allowed=f"up to {MOST_BYTES} bytes")
        self.notes.append("gzip")
        return plain

    @property
    def head(self) -> bytes:
        """The first 64 KiB as UTF-8 without a byte-order mark."""
        return self.text[:HEAD].encode("utf-8", "replace")

    @cached_property
    def text(self) -> str:
        data = self.data
        if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
            text = data.decode("utf-16", "replace")
        else:
            try:
                text = data.decode("utf-8-sig")
            except UnicodeDecodeError:
                if b"\0" in data[:4096]:
                    raise BadRecord("the file is not text", self.name, allowed="JSON, JSON lines, CSV, Markdown or console text") from None
                text = data.decode("latin-1")
        if "\0" in text[:4096]:
            raise BadRecord("the file is not text", self.name, allowed="JSON, JSON lines, CSV, Markdown or console text")
        return text.replace("\r\n", "\n").replace("\r", "\n")

    @cached_property
    def json(self) -> Any:
        """The whole text as JSON; ``NaN`` and infinities are ``None`` (counted in ``not_numbers``)."""
        return self.loads(self.text)

    def loads(self, text: str, where: str = "") -> Any:
        try:
            return json.loads(text, parse_constant=self._constant, parse_float=self._float)
        except RecursionError:
            raise BadRecord("the JSON is nested too deeply", where or self.name) from None
        except json.JSONDecodeError as error:
            at_end = (
                error.pos >= len(text.rstrip()) - 1
                or "Unterminated" in error.msg
                or error.msg.startswith("Expecting")
                and not text[error.pos :].strip()
            )
            what = "the JSON is cut off" if at_end or text.rstrip()[-1:] not in "]}" else f"not valid JSON ({error.msg})"
            raise BadRecord(f"{what} at line {error.lineno}, column {error.colno}", where or self.name, next="copy the whole file again") from None

    def mended(self) -> Optional["Document"]:
        """A JSON text that is cut off, closed after its last complete value; ``None`` where it is not cut off or nothing is left.

        What it holds is for a look: a statistic may be missing that the whole file has.
        """
        text, closers, whole_until, in_string, escaped = self.text, [], None, False, False
        for place, sign in enumerate(text):
            if in_string:
                in_string, escaped = sign != '"' or escaped, sign == "\\" and not escaped
            elif sign == '"':
                in_string = True
            elif sign in "{[":
                closers.append("}" if sign == "{" else "]")
            elif sign in "}]" and closers:
                closers.pop()
                whole_until = (place + 1, "".join(reversed(closers)))
            elif sign == "," and closers:
                whole_until = (place, "".join(reversed(closers)))
        if not closers or whole_until is None:
            return None
        return Document((text[: whole_until[0]] + whole_until[1]).encode(), self.name)

    def _constant(self, name: str) -> None:
        self.not_numbers += 1

    def _float(self, text: str) -> Optional[float]:
        value = float(text)
        if value in (float("inf"), float("-inf")):
            self.not_numbers += 1
            return None
        return value

    @cached_property
    def lines(self) -> list[tuple[int, Any]]:
        """JSON lines as (line number, value). A last line that is cut off is left out; see ``last_line_cut``."""
        found = []
        self.last_line_cut = False
        rows = [(number, line) for number, line in enumerate(self.text.split("\n"), 1) if line.strip()]
        for place, (line_number, line) in enumerate(rows):
            try:
                found.append((line_number, self.loads(line, f"{self.name}, line {line_number}")))
            except BadRecord:
                if place < len(rows) - 1 or place == 0:
                    raise
                self.last_line_cut = True
        return found


def number(text: Any, *, decimal_comma: bool = False) -> Optional[float]:
    """A number as people write it: ``"1,099.26"``, ``"1.099,26"``, ``"78.98\\*"``, ``"380x"``, ``"95 %"``.

    ``None`` for what is absent (``N/A``, ``-``, NaN) and for what is no single exact number (``~1200``, ``2048/4096``, ``xxx.xx``).
    A lone comma before exactly three digits separates thousands unless ``decimal_comma`` is set.
    """
    if isinstance(text, bool) or text is None:
        return None
    if isinstance(text, (int, float)):
        value = float(text)
        return value if value == value and abs(value) != float("inf") else None
    if not isinstance(text, str):
        return None
    plain = text.strip().strip("`*").replace("\\*", "").replace("**", "").strip().lstrip("$€£").strip()
    if plain.lower() in ABSENT or plain[:1] in "~≈<>":
        return None
    match = _NUMBER.match(plain)
    if not match or not re.fullmatch(r"\s*(x|×|%|ms|s|us|[a-z/ ().%*\\-]{0,24})", plain[match.end() :], re.IGNORECASE):
        return None
    digits = match.group(1)
    if re.search(r"[' \u00a0\u202f]", digits) and not re.fullmatch(r"\d{1,3}([' \u00a0\u202f]\d{3})+([.,]\d+)?", digits):
        return None
    digits = re.sub(r"[' \u00a0\u202f]", "", digits)
    if "," in digits and "." in digits:
        digits = digits.replace(".", "").replace(",", ".") if digits.rfind(",") > digits.rfind(".") else digits.replace(",", "")
    elif "," in digits:
        thousands = re.fullmatch(r"\d{1,3}(,\d{3})+", digits) and not decimal_comma
        digits = digits.replace(",", "") if thousands or digits.count(",") > 1 else digits.replace(",", ".")
    elif decimal_comma and re.fullmatch(r"\d{1,3}(\.\d{3})+", digits):
        digits = digits.replace(".", "")
    if digits.count(".") > 1:
        return None
    value = float(("-" if plain.startswith("-") else "") + digits + (match.group(2) or ""))
    return value if abs(value) != float("inf") else None


def marked(text: Any) -> Optional[str]:
    """What is peculiar about a cell that should be a number: ``approximate``, ``placeholder``, ``failed``, ``two values``, ``starred``."""
    plain = str(text).strip()
    if re.match(r"^(~|≈|about |approx|ca\.|est)", plain, re.IGNORECASE):
        return "approximate"
    if re.fullmatch(r"(x+(\.x+)?|<[a-z _-]+>|\.\.\.|tbd|todo|\?\?+|\{\{.*\}\})", plain, re.IGNORECASE):
        return "placeholder"
    if re.match(r"^(fail|oom|error|crash|timeout|timed out|killed|did not|dnf)", plain, re.IGNORECASE):
        return "failed"
    if re.fullmatch(r"\d[\d.]*\s*/\s*\d[\d.]*", plain):
        return "two values"
    if re.search(r"\d\s*\\?\*+$", plain):
        return "starred"
    return None


def whole(value: Any) -> Optional[int]:
    """A count, also when it was written as text or as 4.0; ``None`` otherwise."""
    given = number(value)
    return None if given is None or given != int(given) else int(given)


def seconds_per(unit: Any) -> Optional[float]:
    """Seconds in one ``ms``, ``us``, ``ns``, ``s``; ``None`` for a unit that is no duration."""
    return _SECONDS.get(str(unit).strip().strip("()[]").lower())
