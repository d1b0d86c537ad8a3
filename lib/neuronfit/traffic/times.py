"""How times are written, found by looking at some, and the SQL that turns them into microseconds.

A form yields two expressions over a text: microseconds since 1970 (of the local clock where no zone is
written) and the written offset in minutes, null where none is. What has no date (seconds from the
start, a time of day) counts from zero.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Optional

__all__ = ["EPOCH_FROM", "Form", "UNITS", "forms_of", "offset_sql", "relative", "seconds", "stamp_sql"]

UNITS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}
"""Name -> seconds."""

EPOCH_FROM = 1e8
"""Numbers from here count from 1970 (this is March 1973); smaller ones from the start of the trace."""

_ISO = re.compile(r"^\d{4}[-/]\d\d?[-/]\d\d?(?:[T ]\d\d?:\d\d(?::\d\d(?:[.,]\d+)?)?)?\s*(?:Z|z|UTC|GMT|[+-]\d\d(?::?\d\d)?)?$")
_CLF = re.compile(r"^\[?\d\d?/[A-Z][a-z]{2}/\d{4}:\d\d:\d\d:\d\d(?: [+-]\d{4})?\]?$")
_CLOCK = re.compile(r"^\d\d?:\d\d:\d\d(?:[.,]\d+)?$")
_NUMBER = re.compile(r"^[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?$")
_SLASHED = re.compile(r"^(\d\d?)([/.-])(\d\d?)\2(\d{4}|(?<=[/.])\d\d)[ T,]+(\d\d?:\d\d)(:\d\d)?([.,]\d+)?( ?[AaPp][Mm])?$")
_COMMA = re.compile(r"^\d{9,10},\d+$")
_WEEK = re.compile(r"^\d{4}-W\d\d-[1-7]T\d\d:\d\d:\d\dZ?$")
_BASIC = re.compile(r"^\d{8}T\d{6}Z?$")
_WORDS = re.compile(r"^(?:[A-Z][a-z]{2}, )?\d\d? [A-Z][a-z]{2} \d{4} \d\d:\d\d:\d\d(?: GMT| UTC| \+0000)?$")
_CTIME = re.compile(r"^[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]?\d \d\d:\d\d:\d\d(?: UTC| GMT)? \d{4}$")
_NAMED = re.compile(r"^([A-Z][a-z]{2,8}) \d\d?,? \d{4},?(?: @| at)? \d\d?:\d\d(:\d\d)?(\.\d+)?( ?[AaPp][Mm])?$")
_MONTH_DAY = r"(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01])"
_COMPACT = re.compile(rf"^(?:19|20)\d\d{_MONTH_DAY}(?:[01]\d|2[0-3])[0-5]\d[0-5]\d$")
_DAY = re.compile(rf"^(?:19|20)\d\d{_MONTH_DAY}$")
_SERIAL_DAYS = (36526.0, 73051.0)
"""Days since 1899-12-30 of the years 2000 to 2099, as spreadsheets count them."""


@dataclass(frozen=True)
class Form:
    """One way of writing a time. ``kind``: iso, clf, clock, number, serial (days of a spreadsheet), or pattern (with ``pattern``, as strptime has it)."""

    kind: str
    pattern: str = ""
    ambiguous: bool = False
    """day and month could be either way round in every value looked at"""
    drop: str = ""
    """expression of what is taken out of a text before its pattern is read"""


def forms_of(values: Sequence[str]) -> tuple[Form, ...]:
    """The forms in which these values are written, the commonest first; empty when most of them are no times."""
    texts = [value.strip() for value in values if value and value.strip()]
    counted: dict[str, int] = {}
    for text in texts:
        kind = next((kind for kind, known in _KINDS if known(text)), "")
        counted[kind] = counted.get(kind, 0) + 1
    if not texts or counted.pop("", 0) * 2 > len(texts):
        return ()
    if "number" in counted:  # among other numbers, one that looks like a date is a number
        for kind in ("compact", "day"):
            counted["number"] += counted.pop(kind, 0)
    kinds = sorted(counted, key=lambda kind: -counted[kind])
    if kinds == ["number"] and _serial(texts):
        return (Form("serial"),)
    return tuple(_form(kind, texts) for kind in kinds)


def _form(kind: str, texts: Sequence[str]) -> Form:
    if kind == "slashed":
        return _pattern_of(texts)
    if kind == "named":
        return _named(texts)
    return Form("pattern", *_PATTERNS[kind]) if kind in _PATTERNS else Form(kind)


def _serial(texts: Sequence[str]) -> bool:
    """Days and their fraction, as a spreadsheet exports a time whose cell has no form: all in one range, with long fractions, close together."""
    known = [text for text in texts if _NUMBER.match(text)]
    values = [float(text) for text in known]
    low, high = _SERIAL_DAYS
    if not values or min(values) < low or max(values) >= high or max(values) - min(values) > 1000:
        return False
    return sum(len(text.partition(".")[2]) >= 5 for text in known) * 2 > len(known)


_KINDS: tuple[tuple[str, Callable[[str], object]], ...] = (
    ("compact", _COMPACT.match),
    ("day", _DAY.match),
    ("number", _NUMBER.match),
    ("iso", _ISO.match),
    ("clf", _CLF.match),
    ("clock", _CLOCK.match),
    ("slashed", _SLASHED.match),
    ("basic", _BASIC.match),
    ("week", _WEEK.match),
    ("comma", _COMMA.match),
    ("words", _WORDS.match),
    ("ctime", _CTIME.match),
    ("named", _NAMED.match),
)

_PATTERNS: dict[str, tuple[str, bool, str]] = {
    "week": ("%G-W%V-%uT%H:%M:%S", False, "Z$"),
    "basic": ("%Y%m%dT%H%M%S", False, "Z$"),
    "words": ("%d %b %Y %H:%M:%S", False, r"^[A-Za-z]+, | GMT$| UTC$| \+0000$"),
    "ctime": ("%b %d %H:%M:%S %Y", False, r"^[A-Za-z]+ +| UTC| GMT"),
    "compact": ("%Y%m%d%H%M%S", False, r"^ +"),
    "day": ("%Y%m%d", False, r"^ +"),
}


def _named(texts: Sequence[str]) -> Form:
    """The month by its name first: ``May 13, 2024 @ 09:00:00.000``, as Kibana writes it."""
    parts = [found for found in map(_NAMED.match, texts) if found]
    month = "%B" if any(len(part[1]) > 3 for part in parts) else "%b"
    clock = ("%I" if parts[0][4] else "%H") + ":%M" + (":%S" if parts[0][2] else "") + (".%f" if parts[0][3] else "") + (" %p" if parts[0][4] else "")
    return Form("pattern", f"{month} %d %Y {clock}", False, ",| @| at")


def _pattern_of(texts: Sequence[str]) -> Form:
    parts = [found for found in map(_SLASHED.match, texts) if found]
    first, second = max(int(part[1]) for part in parts), max(int(part[3]) for part in parts)
    day_first = first > 12 or (parts[0][2] == "." and second <= 12)
    mark = parts[0][2]
    year = "%Y" if len(parts[0][4]) == 4 else "%y"
    day = f"%d{mark}%m{mark}{year}" if day_first else f"%m{mark}%d{mark}{year}"
    clock = (
        ("%I" if parts[0][8] else "%H")
        + ":%M"
        + (":%S" if parts[0][6] else "")
        + (f"{parts[0][7][0]}%f" if parts[0][7] else "")
        + (" %p" if parts[0][8] else "")
    )
    return Form("pattern", f"{day} {clock}", ambiguous=first <= 12 and second <= 12 and mark != ".")


def relative(value: float) -> bool:
    """Whether a number of unknown unit counts from the start of the trace and not from 1970."""
    return abs(value) < EPOCH_FROM


def seconds(texts: Sequence[str], forms: Sequence[Form]) -> list[float]:
    """Seconds of some texts, for a look at their spacing; what cannot be read quickly is left out. Zones do not matter for that."""
    from datetime import datetime

    found = []
    for text in (text.strip() for text in texts if text.strip()):
        if _NUMBER.match(text) and forms[0].kind == "number":
            value = float(text)
            found.append(value / next((size for limit, size in ((1e17, 1e9), (1e14, 1e6), (1e11, 1e3)) if abs(value) >= limit), 1.0))
            continue
        bare = re.sub(r"\s*(?:Z|z|UTC|GMT|[+-]\d\d:?\d\d)$", "", text).replace("/", "-").replace(",", ".") if forms[0].kind == "iso" else text
        if forms[0].drop:
            bare = re.sub(forms[0].drop, "", bare)
        try:
            moment = datetime.fromisoformat(bare) if forms[0].kind == "iso" else datetime.strptime(bare, forms[0].pattern)
        except ValueError:
            continue
        found.append((moment.replace(tzinfo=None) - datetime(1970, 1, 1)).total_seconds())
    return found


def stamp_sql(text: str, forms: Sequence[Form], factor: float = 1.0, fast: bool = False) -> str:
    """Microseconds (BIGINT) of a text, null where it is no time. ``factor``: seconds per unit of a number without a date.

    ``fast``: only what most files have; a null may be a time in a rarer spelling.
    """
    if fast and len(forms) == 1 and forms[0].kind == "iso":
        return f"epoch_us(try_cast({text} AS TIMESTAMPTZ))"
    return f"coalesce({', '.join(_one(text, form, factor) for form in forms)})" if len(forms) > 1 else _one(text, forms[0], factor)


def offset_sql(text: str, forms: Sequence[Form]) -> str:
    """The written offset in minutes (SMALLINT); null where none is written."""
    return f"coalesce({', '.join(_offset(text, form) for form in forms)})" if len(forms) > 1 else _offset(text, forms[0])


def _one(text: str, form: Form, factor: float) -> str:
    if form.kind == "number":
        return number_sql(f"try_cast({text} AS DOUBLE)", factor)
    if form.kind == "comma":
        return number_sql(f"try_cast(replace({text}, ',', '.') AS DOUBLE)", factor)
    if form.kind == "serial":
        return f"CAST(round((try_cast({text} AS DOUBLE) - 25569) * 86400e6) AS BIGINT)"
    if form.kind == "clock":
        return f"epoch_us(try_cast(replace({text}, ',', '.') AS TIME))"
    if form.kind == "clf":
        bare = f"ltrim({text}, '[')"
        slow = f"epoch_us(try_strptime(substr({bare}, 1, 20), '%d/%b/%Y:%H:%M:%S')) - coalesce({_offset(text, form)}, 0)::BIGINT * 60000000"
        return f"coalesce(epoch_us(try_strptime({text}, '%d/%b/%Y:%H:%M:%S %z')), {slow})"
    if form.kind == "pattern":
        cleaned = f"regexp_replace(regexp_replace({text}, ' GMT$| UTC$|Z$', ''), '([/.-]\\d{{2,4}})[T, ]+', '\\1 ')"
        if form.drop:
            cleaned = f"regexp_replace({text}, '{form.drop}', '', 'g')"
        return f"epoch_us(try_strptime({cleaned}, '{form.pattern}'))"
    plain = f"trim({text})"
    short = f"length({plain}) > 16"
    bare = (
        f"CASE WHEN right({plain}, 1) IN ('Z', 'z') THEN left({plain}, -1) WHEN {short} AND substr({plain}, -6, 1) IN ('+', '-') THEN rtrim(left({plain}, -6)) "
        f"WHEN {short} AND substr({plain}, -5, 1) IN ('+', '-') THEN rtrim(left({plain}, -5)) "
        f"WHEN {short} AND substr({plain}, -3, 1) IN ('+', '-') THEN rtrim(left({plain}, -3)) "
        f"WHEN right({plain}, 3) IN ('UTC', 'GMT') THEN rtrim(left({plain}, -3)) ELSE {plain} END"
    )
    slow = f"epoch_us(try_cast(replace({bare}, ',', '.') AS TIMESTAMP)) - coalesce({_general_offset(text)}, 0)::BIGINT * 60000000"
    return f"coalesce(epoch_us(try_cast({text} AS TIMESTAMPTZ)), {slow})"


def number_sql(number: str, factor: float = 1.0) -> str:
    """Microseconds of a number: its size says whether it is seconds, milli-, micro- or nanoseconds since 1970."""
    return (
        f"CAST(round(CASE WHEN abs({number}) < {EPOCH_FROM} THEN {number} * {factor * 1e6!r} WHEN {number} < 1e11 THEN {number} * 1e6 "
        f"WHEN {number} < 1e14 THEN {number} * 1e3 WHEN {number} < 1e17 THEN {number} ELSE {number} / 1e3 END) AS BIGINT)"
    )


def _offset(text: str, form: Form) -> str:
    if form.kind == "number":
        return f"CASE WHEN abs(try_cast({text} AS DOUBLE)) >= {EPOCH_FROM} THEN 0::SMALLINT END"
    if form.kind == "comma":
        return f"CASE WHEN {text} IS NOT NULL THEN 0::SMALLINT END"
    if form.kind == "clf":
        bare = f"ltrim({text}, '[')"
        offset = _minutes(f"substr({bare}, 22, 1)", f"substr({bare}, 23, 2)", f"substr({bare}, 25, 2)")
        return f"CASE WHEN contains({text}, ' +0000') THEN 0::SMALLINT WHEN substr({bare}, 22, 1) IN ('+', '-') THEN {offset} END"
    if form.kind == "pattern":
        return f"CASE WHEN right({text}, 1) = 'Z' OR right({text}, 3) IN ('GMT', 'UTC') OR right({text}, 5) = '+0000' OR regexp_matches({text}, ' (?:UTC|GMT) ') THEN 0::SMALLINT END"
    if form.kind in ("clock", "serial"):
        return "NULL::SMALLINT"
    return (
        f"CASE WHEN ends_with({text}, 'Z') OR ends_with({text}, '+00:00') THEN 0::SMALLINT "
        f"WHEN NOT contains({text}, '+') AND NOT ends_with({text}, 'C') AND NOT ends_with({text}, 'T') AND NOT ends_with({text}, ' ') "
        f"AND epoch_us(try_cast({text} AS TIMESTAMP)) = epoch_us(try_cast({text} AS TIMESTAMPTZ)) THEN NULL ELSE {_general_offset(text)} END"
    )


def _minutes(sign: str, hours: str, rest: Optional[str]) -> str:
    whole = f"try_cast({hours} AS SMALLINT) * 60" + (f" + try_cast({rest} AS SMALLINT)" if rest else "")
    return f"(CASE WHEN {sign} = '-' THEN -1 ELSE 1 END * ({whole}))::SMALLINT"


def _general_offset(text: str) -> str:
    """Offset in minutes at the end of an ISO time, whatever its form."""
    text = f"trim({text})"
    long = f"length({text}) > 16"
    return (
        f"CASE WHEN right({text}, 1) IN ('Z', 'z') OR right({text}, 3) IN ('UTC', 'GMT') THEN 0::SMALLINT "
        f"WHEN {long} AND substr({text}, -6, 1) IN ('+', '-') THEN {_minutes(f'substr({text}, -6, 1)', f'substr({text}, -5, 2)', f'substr({text}, -2, 2)')} "
        f"WHEN {long} AND substr({text}, -5, 1) IN ('+', '-') THEN {_minutes(f'substr({text}, -5, 1)', f'substr({text}, -4, 2)', f'substr({text}, -2, 2)')} "
        f"WHEN {long} AND substr({text}, -3, 1) IN ('+', '-') THEN {_minutes(f'substr({text}, -3, 1)', f'substr({text}, -2, 2)', None)} END"
    )
