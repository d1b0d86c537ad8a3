"""Access logs read fast: a usual line is parted at its quotes by DuckDB's CSV reader, and only what is odd in it goes through the expression.

``10.0.0.1 - - [10/May/2024:00:00:00 +0000] "POST /predict HTTP/1.1" 200 34 "-" "curl"`` has the time at the end of the first part, method and
path in the second, the status at the start of the third. That takes half of the time of one expression over the line. A part
that is not so (an escaped quote in the request, no request, no zone) is null, and its row alone is put together again and read as before.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from neuronfit.traffic import times

__all__ = ["agents", "endpoint_sql", "parts_of", "relation", "slow", "stamp_and_offset", "status_sql"]

MORE = 6
"""Columns that are read beyond those of the usual lines; a line with more quotes is rejected, and the file read again without this."""

_AGENT = re.compile(r"^(?:Mozilla/|[A-Za-z][\w.-]*/\d[\w.]*(?: |$)|Amazon-Route53-Health|Consul Health)")
_USUAL = re.compile(r'^[^"]*\[\d\d/[A-Z][a-z]{2}/\d{4}:\d\d:\d\d:\d\d [+-]\d{4}\] "[A-Z]+ [^"\\]*" \d{3}(?: |$)')


def parts_of(sample: Sequence[str]) -> int:
    """Parts of the lines of a log, the most that occur; 0 where one in ten or more is not usual."""
    usual = [line for line in sample if _USUAL.match(line)]
    most = max((line.count('"') + 1 for line in usual), default=0)
    return most if len(usual) * 10 > len(sample) * 9 else 0


def agents(sample: Sequence[str]) -> tuple[int, ...]:
    """The parts in which clients name themselves (``curl/8.5.0``); all parts after the status that have words in them, where none is clearly that."""
    lines = [line.split('"') for line in sample]
    texts = {number: [line[number] for line in lines if len(line) > number] for number in range(3, max(map(len, lines)))}
    named = [number for number, found in texts.items() if sum(bool(_AGENT.match(text)) for text in found) * 10 > len(found)]
    return tuple(named or [number for number, found in texts.items() if any(re.search("[A-Za-z]", text) for text in found)])


def relation(source: str, encoding: str, parts: int) -> str:
    """Parts ``c0`` and on, ``w`` (the text of the time), ``moment``, ``answer`` (status) and ``asked`` (method and path).

    The last three are null or empty where a line is odd.
    """
    columns = ", ".join(f"'c{number}': 'VARCHAR'" for number in range(parts + MORE))
    parted = (
        f"read_csv({source}, auto_detect = false, columns = {{{columns}}}, delim = '\"', quote = '', escape = '', header = false, "
        f"strict_mode = false, null_padding = true, nullstr = chr(2), store_rejects = true, rejects_limit = 1000, encoding = '{encoding}', compression = 'auto')"
    )
    parted = f"(SELECT *, substr(c0, -28, 26) AS w FROM {parted})"
    moment, answer = "try_strptime(w, '%d/%b/%Y:%H:%M:%S %z')", "try_cast(substr(c2, 1, 5) AS SMALLINT)"
    asked = "regexp_extract(c1, '^(\\S+ [^ ?\\\\]*)', 1)"
    return f"(SELECT *, {moment} AS moment, {answer} AS answer, {asked} AS asked FROM {parted})"


def slow(text: str, expression: str, groups: str) -> str:
    """SQL text over ``line`` and ``g`` as one over the first parts, which hold the request also where it has three quotes of its own."""
    whole = f"concat_ws('\"', {', '.join(f'c{number}' for number in range(6))})"
    found = f"regexp_extract({whole}, '{expression}', {list(groups)})"
    return re.sub(r"\bline\b", lambda _: whole, re.sub(r"\bg\.", lambda _: f"({found}).", text))


def stamp_and_offset(otherwise: str, form: times.Form) -> tuple[str, str]:
    """Microseconds and written offset of the time, ``w``; ``otherwise`` is the text of the time where it is not in its place."""
    stamp = f"CASE WHEN moment IS NULL THEN {times.stamp_sql(otherwise, (form,))} ELSE epoch_us(moment) END"
    minutes = (
        "CASE substr(w, 22, 1) WHEN '-' THEN -1 ELSE 1 END * (try_cast(substr(w, 23, 2) AS SMALLINT) * 60 + try_cast(substr(w, 25, 2) AS SMALLINT))"
    )
    known = f"WHEN ends_with(w, ' +0000') THEN 0::SMALLINT WHEN substr(w, 21, 2) IN (' +', ' -') THEN ({minutes})::SMALLINT"
    return stamp, f"CASE {known} ELSE {times.offset_sql(otherwise, (form,))} END"


def status_sql(otherwise: str) -> str:
    """CASE and not coalesce, whose parts DuckDB would work out for every row."""
    odd = "answer IS NULL OR answer NOT BETWEEN 100 AND 999 OR NOT starts_with(c2, ' ')"
    return f"CASE WHEN {odd} THEN try_cast({otherwise} AS SMALLINT) ELSE answer END"


def endpoint_sql(otherwise: str) -> str:
    """Method and path, without a query, scheme and host; null where the second part is no request."""
    bare = "regexp_replace(asked, ' https?://[^/]*', ' ')"
    cut = f"WHEN strlen(asked) > 200 THEN left({bare}, 200) WHEN contains(asked, ' http') THEN {bare} WHEN ends_with(asked, ' ') THEN NULL"
    return f"CASE WHEN moment IS NULL THEN {otherwise} {cut} ELSE nullif(asked, '') END"
