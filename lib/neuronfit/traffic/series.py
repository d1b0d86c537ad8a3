"""Tables that hold one number per period under a name of no role: what Grafana, Datadog and a query in a notebook export.

Times on an even grid beside columns of nothing but numbers are samples of a metric and not requests. By their names the numbers
are requests in a period, requests per second, or something else (a latency, a utilization), which is refused and not counted.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Optional

from neuronfit.errors import BadInput

__all__ = ["chosen", "even", "number_sql"]

_LEAST = 8
"""Rows from which an even grid is no chance."""

_NUMBER = re.compile(
    r"^\s*[-+]?(?:\d[\d,]*\.?\d*|\.\d+)(?:[eE][-+]?\d+)?\s*([KkMm]?)\s*(?:req|reqs|requests|r|c|ops|q)?(?:ps|/s|/sec| per second)?\s*$"
)
_RATE = re.compile(r"\bi?rate\(|\bdelta\(|per[ _]?s(?:ec(?:ond)?)?\b|/s(?:ec)?\b|\b[rqt]ps\b|\bas_rate\b|_rate\b|\brate\b|throughput", re.IGNORECASE)
_COUNT = re.compile(r"increase\(|as_count|\bcount|count\b|hits|requests?|invocations?|calls|queries|\bsum\b|_total\b", re.IGNORECASE)
_OTHER = re.compile(
    r"laten|durat|response.?time|util|percent|%|cpu|gpu|memory|mem_|bytes|temperature|power|replica|queue|ttft|tpot|token|cost|price|ratio|quantile|\bp\d\d\b|avg|average",
    re.IGNORECASE,
)
_SERIES = re.compile(r"^\s*\{.*\}\s*$|^[a-z][\w.-]*=\S+$|^[1-5](?:xx|\d\d)$", re.IGNORECASE)


def chosen(names: Sequence[str], values: Mapping[str, Sequence[str]], stamps: Sequence[float], name: str) -> Optional[tuple[str, list[str], bool]]:
    """Kind (count or rate) of a table of one number per period, its columns, and whether the kind had to be guessed; None for a table of requests.

    ``names`` and ``values`` are those of the columns beside the times, ``stamps`` the times of the sample in seconds, in the order of
    the rows. Raises :class:`~neuronfit.errors.BadInput` where the numbers are not of requests.
    """
    filled = [key for key in names if any(text.strip() for text in values.get(key, ()))]
    if not filled or not even(stamps) or not all(_numbers(values[key]) for key in filled):
        return None
    if len(filled) == 1 and set(_known(values[filled[0]])) == {"1"}:
        return None
    usable = [key for key in filled if not _OTHER.search(key) or (_RATE.search(key) and re.search("request", key, re.IGNORECASE))]
    rates = [key for key in usable if _RATE.search(key) or any(re.search(r"/s|ps|/sec|per second", text) for text in values[key][:20])]
    counts = [key for key in usable if key not in rates and _COUNT.search(key)]
    if counts or rates:
        return ("rate", rates, False) if not counts else ("count", counts, False)
    labels = [key for key in usable if _SERIES.match(key)]
    if labels and all(re.fullmatch(r"[\d,]+", text.strip()) for key in labels for text in _known(values[key])):
        return "count", labels, True
    shown = ", ".join(key if len(key) <= 40 else "..." for key in filled[:6])
    raise BadInput(
        "a table with a number for each period, of which no name says that it counts requests",
        name,
        allowed=f"a column named requests (a number in the period) or rate (per second); there are: {shown}",
        next="rename the column",
    )


def _known(texts: Sequence[str]) -> list[str]:
    return [text.strip() for text in texts if text.strip() and text.strip().lower() not in ("null", "nan", "none", "-", "undefined")]


def _numbers(texts: Sequence[str]) -> bool:
    known = _known(texts)
    return bool(known) and all(_NUMBER.match(text) for text in known)


def even(stamps: Sequence[float]) -> bool:
    """Whether most neighbours are one step of a second and more apart, all on its grid."""
    moments = sorted(set(stamps))
    if len(moments) < _LEAST or len(moments) * 10 < len(stamps) * 9:
        return False
    gaps = [later - earlier for earlier, later in zip(moments, moments[1:])]
    step = min(gaps)
    if step < 1.0:
        return False
    return sum(abs(gap - step) < 1e-6 for gap in gaps) * 10 >= len(gaps) * 8 and all(abs(gap / step - round(gap / step)) < 1e-6 for gap in gaps)


def number_sql(columns: Sequence[str]) -> str:
    """Sum of columns whose numbers may carry a unit and a K or M, as SQL text; null where none has one."""
    parts = []
    for column in columns:
        bare = f"replace({column}, ',', '')"
        value = f"try_cast(regexp_extract({bare}, '^\\s*([-+]?[0-9.]+(?:[eE][-+]?[0-9]+)?)', 1) AS DOUBLE)"
        scale = f"CASE upper(regexp_extract({bare}, '[0-9]\\s*([KkMm])', 1)) WHEN 'K' THEN 1e3 WHEN 'M' THEN 1e6 ELSE 1 END"
        parts.append(f"{value} * {scale}")
    if len(parts) == 1:
        return f"CAST({parts[0]} AS VARCHAR)"
    summed = " + ".join(f"coalesce({part}, 0)" for part in parts)
    return f"CAST(CASE WHEN coalesce({', '.join(parts)}) IS NOT NULL THEN {summed} END AS VARCHAR)"
