"""The CSV files beside this module, read once and on first use."""

from __future__ import annotations

import csv
from functools import lru_cache
from pathlib import Path
from typing import Optional

__all__ = ["number", "read", "text", "whole"]


@lru_cache(maxsize=None)
def read(name: str) -> tuple[dict[str, str], ...]:
    """All rows of ``<name>.csv`` as column -> text; an empty cell is ``""``.

    Rows are shared between callers: do not change them. Raises ``FileNotFoundError``.
    """
    with open(Path(__file__).parent / f"{name}.csv", encoding="utf-8", newline="") as lines:
        return tuple(csv.DictReader(lines))


def text(cell: str) -> Optional[str]:
    """A cell as text; ``None`` where it is empty."""
    return cell or None


def number(cell: str) -> Optional[float]:
    """A cell as a number; ``None`` where it is empty."""
    return float(cell) if cell else None


def whole(cell: str) -> Optional[int]:
    """A cell as a whole number; ``None`` where it is empty."""
    return int(cell) if cell else None
