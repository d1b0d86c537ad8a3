"""What a params file must never hold, and how it is found."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Optional

__all__ = ["SECRETS", "SECRET_KEYS", "keys_in", "texts_in"]

SECRET_KEYS = ("api_key", "apikey", "authorization", "password", "secret", "token")
"""A key of a body or a query that is named like these holds a credential."""

SECRETS = re.compile(
    r"(-----BEGIN|\bsk-(?=[A-Za-z_-]*[0-9])[A-Za-z0-9_-]{16,}|\bhf_[A-Za-z0-9]{20,}|\bAKIA[A-Z0-9]{12,}|\bgh[pousr]_[A-Za-z0-9]{20,}|\beyJ[A-Za-z0-9_-]{10,}\.eyJ|Bearer\s+\S{12,})"
)
"""What private keys and tokens look like."""


def keys_in(data: Any) -> Iterator[str]:
    """Every key of a nested mapping."""
    if isinstance(data, Mapping):
        for key, value in data.items():
            yield str(key)
            yield from keys_in(value)
    elif isinstance(data, (list, tuple)):
        for value in data:
            yield from keys_in(value)


def texts_in(data: Any, where: str = "trial", seen: Optional[set[int]] = None) -> Iterator[tuple[str, str]]:
    """Every text with its place; a mapping or list that holds itself (an alias in YAML) is entered once."""
    seen = set() if seen is None else seen
    if isinstance(data, str):
        yield where, data
    elif isinstance(data, (Mapping, list, tuple)) and id(data) not in seen:
        seen.add(id(data))
        for key, value in data.items() if isinstance(data, Mapping) else enumerate(data):
            yield from texts_in(value, f"{where}.{key}", seen)
