"""What monitors write, as numbers: units, words for "not there", times."""

from __future__ import annotations

import re
from datetime import datetime, timezone
from functools import lru_cache
from typing import Optional

__all__ = ["amount", "number", "sentinel", "seconds"]

FACTOR = {
    "%": 0.01,
    "b": 1.0, "bytes": 1.0, "kib": 2.0**10, "mib": 2.0**20, "gib": 2.0**30, "tib": 2.0**40,
    # NVIDIA's and Neuron's tools print MB and GB and mean MiB and GiB
    "kb": 2.0**10, "mb": 2.0**20, "gb": 2.0**30,
    "mw": 1e-3, "w": 1.0, "kw": 1e3,
    "hz": 1.0, "mhz": 1e6, "ghz": 1e9,
    "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0,
    "j": 1.0, "mj": 1e-3, "c": 1.0, "°c": 1.0,
}  # fmt: skip

_NUMBER = re.compile(r"^([-+]?(?:\d[\d.,'\u00a0\u202f ]*\d|\d)(?:[eE][-+]?\d+)?)\s*([%A-Za-zµ°/]*)$")


def amount(text: str, unit: str = "") -> Optional[float]:
    """``"12,5 %"``, ``"81559 MiB"``, ``"1.980 GHz"`` in SI and fractions; ``unit`` where the text has none. ``None``: not a number."""
    parts = _split(text.strip())
    if parts is None:
        return None
    value, own = parts
    return value * FACTOR.get((own or unit).lower(), 1.0)


def number(text: str) -> Optional[float]:
    """The bare number, its unit ignored; ``None`` for ``[N/A]``, ``-``, ``ERR!``, NaN and other words."""
    parts = _split(text.strip())
    return parts[0] if parts else None


@lru_cache(maxsize=65536)
def _split(text: str) -> Optional[tuple[float, str]]:
    try:
        return float(text), ""  # the common case; float takes nan and inf, which are refused where they are stored
    except ValueError:
        pass
    if text[:2] in ("0x", "0X"):
        try:
            return float(int(text, 16)), ""
        except ValueError:
            return None
    found = _NUMBER.match(text)
    if not found:
        return None
    digits = re.sub(r"[\s'\u00a0\u202f]", "", found[1])
    if "," in digits and "." in digits:
        digits = digits.replace("." if digits.rfind(",") > digits.rfind(".") else ",", "").replace(",", ".")
    elif "," in digits:
        grouped = re.fullmatch(r"[-+]?[1-9]\d{0,2}(,\d{3})+", digits)
        digits = digits.replace(",", "") if grouped else digits.replace(",", ".")
    try:
        return float(digits), found[2]
    except ValueError:
        return None


def sentinel(value: float) -> bool:
    """DCGM's "blank", "not found", "not supported", "not permissioned", as 64-bit, 32-bit and float numbers."""
    return 9.2e18 <= value < 1e300 or 2147483632 <= value <= 2147483635 or 140737488355328 <= value <= 140737488355331


_FORMS = (
    "%Y/%m/%d %H:%M:%S.%f", "%Y/%m/%d %H:%M:%S", "%a %b %d %H:%M:%S %Y", "%Y-%m-%d %H:%M:%S.%f", "%Y-%m-%d %H:%M:%S",
    "%d.%m.%Y %H:%M:%S", "%d.%m.%Y %H:%M:%S.%f", "%d.%m.%Y %H:%M", "%m/%d/%Y %H:%M:%S", "%m/%d/%Y %H:%M:%S.%f", "%m/%d/%Y %H:%M",
    "%Y%m%d %H:%M:%S", "%Y/%m/%d %H:%M",
)  # fmt: skip


def seconds(text: object) -> Optional[float]:
    """A time stamp in any of the usual forms as seconds since 1970; without a zone it is read as UTC."""
    if isinstance(text, (int, float)):
        return _epoch(float(text))
    if not isinstance(text, str):
        return None
    return _seconds(" ".join(text.split()))


@lru_cache(maxsize=4096)
def _seconds(text: str) -> Optional[float]:
    try:
        return _epoch(float(text))
    except ValueError:
        pass
    iso = re.sub(r"(\.\d{6})\d+", r"\1", text.replace("Z", "+00:00").replace(" UTC", "+00:00"))
    iso = re.sub(r"\.(\d{1,5})(?=$|[+-])", lambda part: "." + part[1].ljust(6, "0"), iso)
    iso = re.sub(r"([+-]\d\d)(\d\d)$", r"\1:\2", iso)
    try:
        when = datetime.fromisoformat(iso)
        return (when if when.tzinfo else when.replace(tzinfo=timezone.utc)).timestamp()
    except ValueError:
        pass
    for form in _FORMS:
        try:
            return datetime.strptime(text, form).replace(tzinfo=timezone.utc).timestamp()
        except ValueError:
            continue
    return None


def _epoch(value: float) -> Optional[float]:
    for scale in (1.0, 1e3, 1e6, 1e9):
        if 6e8 <= value / scale <= 6e9:
            return value / scale
    return None
