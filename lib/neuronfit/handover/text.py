"""Requests and objects as text."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

__all__ = ["as_json", "as_yaml", "call"]


def call(service: str, operation: str, request: dict[str, Any], when: str) -> dict[str, Any]:
    """One request to a service of AWS: when to send it, and what."""
    return {"when": when, "service": service, "operation": operation, "request": request}


def as_json(data: Any) -> str:
    return json.dumps(data, indent=2) + "\n"


def as_yaml(documents: Sequence[dict[str, Any]]) -> str:
    import yaml

    return "---\n".join(yaml.safe_dump(document, sort_keys=False, width=150) for document in documents)
