"""Known traps: what the documents, or a public thread, say about one kind of model on one software path.

``traps.csv`` has one row per trap. A trap is no operator finding: it holds whatever the graph looks like.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Optional

from neuronfit.catalog import tables

__all__ = ["Trap", "every", "known", "newest_allowed"]


@dataclass(frozen=True)
class Trap:
    """One trap with its source and date. ``model_types`` are those it is about; with ``others`` it is about all but those."""

    path: str
    generations: tuple[str, ...]
    model_types: tuple[str, ...]
    others: bool
    kinds: tuple[str, ...]
    """kinds of model it is about (``decoder``, ``encoder``, ``vision``); empty: every kind"""
    code: str
    because: str
    next: str
    source: str
    as_of: str

    def concerns(self, path: str, generation: Optional[str], model_type: str, kind: str) -> bool:
        named = not self.model_types or (model_type in self.model_types) is not self.others
        return self.path == path and generation in self.generations and named and (not self.kinds or kind in self.kinds)


def every() -> tuple[Trap, ...]:
    """All traps, in file order."""
    return tuple(
        Trap(
            path=row["path"],
            generations=tuple(row["generations"].split()),
            model_types=tuple(name for name in row["model_types"].removeprefix("!").split() if name != "*"),
            others=row["model_types"].startswith("!"),
            kinds=tuple(row["kinds"].split()),
            code=row["code"],
            because=row["because"],
            next=row["next"],
            source=row["source"],
            as_of=row["as_of"],
        )
        for row in tables.read("traps")
    )


def known(path: str, generation: Optional[str], model_type: str, kind: str) -> tuple[Trap, ...]:
    """The traps for a model of this type and kind on this path and accelerator generation."""
    return tuple(trap for trap in every() if trap.concerns(path, generation, model_type, kind))


def newest_allowed(range_of_versions: str) -> Optional[tuple[int, ...]]:
    """The first release that a version range shuts out (``==4.57.*`` and ``~=4.57.1`` -> 4.58); ``None``: no upper end."""
    for sign, version in re.findall(r"(==|~=|<)\s*(\d+(?:\.\d+)*)", range_of_versions):
        numbers = tuple(int(part) for part in version.split("."))
        return numbers if sign == "<" else (*numbers[:1], numbers[1] + 1) if len(numbers) > 1 else (numbers[0] + 1,)
    return None
