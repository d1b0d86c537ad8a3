"""Refusals that several parts of a model share."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Iterator, Mapping

from neuronfit.errors import BadParams, nearest

__all__ = ["folders", "one_line", "one_of", "positive"]


def one_of(what: str, value: str, allowed: Mapping[str, Any]) -> None:
    if value not in allowed:
        raise BadParams(what, value, allowed=", ".join(nearest(str(value), allowed) or allowed))


def positive(name: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise BadParams(f"{name} is not a count", value, allowed="a whole number from 1")
    return value


def one_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__


def folders(parent: Path) -> Iterator[Path]:
    return (child for child in sorted(parent.iterdir()) if child.is_dir()) if parent.is_dir() else iter(())
