"""What the messages of the Neuron compiler and runtime mean: codes, statuses and texts to look for.

================  ================================================================  =========================
kind              is                                                                ``code`` looks like
================  ================================================================  =========================
compiler          an error code of ``neuronx-cc``                                   ``NCC_EVRF001``
compiler_legacy   a code of older compilers, printed in square brackets             ``XTP003``
runtime           a status of the Neuron runtime; ``number`` is its value           ``NRT_RESOURCE``
exit              how a compiler process ended; ``number`` is its exit status       ``exit_70``
signature         a text (``find``) that stands in a log exactly like this          ``driver_missing``
================  ================================================================  =========================

``level`` says what a message is worth: a ``root`` explains a failure, a ``symptom`` follows from one,
``harmless`` looks like an error and is none, ``success`` says that something worked, a ``note`` is
context. ``category`` groups messages that have the same remedy.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Optional, Union

from neuronfit.catalog import tables
from neuronfit.errors import NotFound, nearest

__all__ = ["KINDS", "LEVELS", "CompilerCode", "every", "find", "known", "runtime_status", "signatures"]

KINDS = ("compiler", "compiler_legacy", "runtime", "exit", "signature")
LEVELS = ("root", "symptom", "harmless", "success", "note")


@dataclass(frozen=True)
class CompilerCode:
    """One message. ``title`` is what it means, ``steps`` what to try, in order, for this one in particular."""

    kind: str
    code: str
    number: Optional[int]
    find: Optional[str]
    level: str
    category: str
    phase: str
    title: str
    steps: tuple[str, ...]
    applies_to: str
    source: str
    as_of: str


@lru_cache(maxsize=None)
def every() -> tuple[CompilerCode, ...]:
    """All messages, in file order; a signature's code occurs once per spelling."""
    return tuple(
        CompilerCode(
            kind=row["kind"],
            code=row["code"],
            number=tables.whole(row["number"]),
            find=tables.text(row["find"]),
            level=row["level"],
            category=row["category"],
            phase=row["phase"],
            title=row["title"],
            steps=tuple(step for step in row["steps"].split(" | ") if step),
            applies_to=row["applies_to"],
            source=row["source"],
            as_of=row["as_of"],
        )
        for row in tables.read("compiler_codes")
    )


@lru_cache(maxsize=None)
def _by_code() -> dict[str, CompilerCode]:
    found: dict[str, CompilerCode] = {}
    for entry in every():
        found.setdefault(entry.code, entry)
    return found


@lru_cache(maxsize=None)
def _statuses() -> dict[int, CompilerCode]:
    return {entry.number: entry for entry in every() if entry.kind == "runtime" and entry.number is not None}


def known(code: str) -> Optional[CompilerCode]:
    """The message with this code (``EVRF001`` is ``NCC_EVRF001``), or ``None``."""
    table = _by_code()
    return table.get(code) or table.get(f"NCC_{code}")


def find(code: str) -> CompilerCode:
    """The message with this code. Raises :class:`~neuronfit.errors.NotFound` with the nearest codes."""
    entry = known(code.strip().strip("[]"))
    if entry is None:
        near = nearest(code, _by_code())
        raise NotFound("unknown compiler or runtime code", code, allowed=", ".join(near) or "an NCC_ code, an NRT_ status or a signature")
    return entry


def runtime_status(status: Union[int, str]) -> Optional[CompilerCode]:
    """A runtime status by value or name: ``4`` or ``"NRT_RESOURCE"``; ``None`` when there is no such status."""
    if isinstance(status, int) or re.fullmatch(r"-?\d+", status):
        return _statuses().get(int(status))
    entry = known(status)
    return entry if entry and entry.kind == "runtime" else None


def signatures() -> tuple[CompilerCode, ...]:
    """The texts to look for, in file order."""
    return tuple(entry for entry in every() if entry.kind == "signature")
