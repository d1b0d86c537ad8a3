"""What a params file must never hold, and how it is found."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Optional

__all__ = ["SECRETS", "SECRET_KEYS", "refuse_in_requests", "texts_in"]

SECRET_KEYS = ("api_key", "apikey", "authorization", "password", "secret", "token")
"""A key of a body or a query that is named like these holds a credential."""

SECRETS = re.compile(
    r"(-----BEGIN|\bsk-(?=[A-Za-z_-]*[0-9])[A-Za-z0-9_-]{16,}|\bhf_[A-Za-z0-9]{20,}|\bAKIA[A-Z0-9]{12,}|\bgh[pousr]_[A-Za-z0-9]{20,}|\beyJ[A-Za-z0-9_-]{10,}\.eyJ|Bearer\s+\S{12,})"
)
"""What private keys and tokens look like."""


def _keys_in(data: Any, seen: Optional[set[int]] = None) -> Iterator[str]:
    """Every key of a nested mapping; one that holds itself is entered once."""
    seen = set() if seen is None else seen
    if not isinstance(data, (Mapping, list, tuple)) or id(data) in seen:
        return
    seen.add(id(data))
    for key, value in data.items() if isinstance(data, Mapping) else enumerate(data):
        if isinstance(data, Mapping):
            yield str(key)
        yield from _keys_in(value, seen)


def refuse_in_requests(section: Mapping[str, Any], addresses: Iterable[str], example: str) -> None:
    """A section that says how a server is asked: no credential in the keys ``addresses``, in ``body`` or in place of a name in ``api_key_env``.

    Raises ``ValueError``; the message never repeats what was written.
    """
    variable = section.get("api_key_env")
    if variable is not None and (not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]{0,63}", str(variable)) or str(variable).startswith("sk_")):
        raise ValueError(f"api_key_env is no name of an environment variable; a key itself is never written here, e.g. api_key_env: {example}")
    for name in addresses:
        url = str(section.get(name) or "")
        if url and not re.match(r"https?://[^/\s]", url):
            raise ValueError(f"{name} must begin with http:// or https:// and name a host")
        if re.match(r"https?://[^/]*@", url) or re.search(rf"[?&]({'|'.join(SECRET_KEYS)}|key)=", url, flags=re.IGNORECASE):
            raise ValueError(f"{name} holds a credential; put it into an environment variable and its name into api_key_env")
    for name in _keys_in(section.get("body")):
        if name.lower().replace("-", "_") in SECRET_KEYS:
            raise ValueError(f"body.{name} looks like a credential; put it into an environment variable and its name into api_key_env")


def texts_in(data: Any, where: str = "trial", seen: Optional[set[int]] = None) -> Iterator[tuple[str, str]]:
    """Every text with its place; a mapping or list that holds itself (an alias in YAML) is entered once."""
    seen = set() if seen is None else seen
    if isinstance(data, str):
        yield where, data
    elif isinstance(data, (Mapping, list, tuple)) and id(data) not in seen:
        seen.add(id(data))
        for key, value in data.items() if isinstance(data, Mapping) else enumerate(data):
            yield from texts_in(value, f"{where}.{key}", seen)
