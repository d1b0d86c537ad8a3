"""What the Neuron documentation says about ATen operators.

The published list of supported operators has 41 names, has not changed since 2022 and leaves out
operators that every published model needs (``linear``, ``convolution``, ``layer_norm``). So being on
the list is worth something and being absent is worth nothing: an operator without a statement is
reported as ``no_statement``, "no documented blocker found". Only the compiler can prove support.

================  ==================================================================================
status            means
================  ==================================================================================
listed            on the list; ``when`` may name inputs for which a restriction is documented
restricted        documented not to work, or to be lossy, under the condition ``when``
unsupported       documented not to work, or to break the graph
no_statement      nothing documented against it
================  ==================================================================================
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Optional

from neuronfit.catalog import tables
from neuronfit.errors import NotFound

__all__ = ["GENERATIONS", "WHEN", "OperatorStatus", "every", "normalise", "status"]

GENERATIONS = ("inf1", "inf2", "trn1", "trn2", "trn3")

WHEN = (
    "always",
    "integer input",
    "integer or boolean input",
    "complex input",
    "dilation > 1",
    "input dilation with kernel dilation or stride",
    "not a 32-bit shift",
    "data-dependent bound",
)
"""Conditions under which a restriction applies, for a checker that can see the arguments."""

_NO_STATEMENT = "no documented blocker found"
_SEVERITY = {"unsupported": 0, "restricted": 1, "listed": 2, "no_statement": 3}


@dataclass(frozen=True)
class OperatorStatus:
    """The documented status of one operator. ``rewrite`` is what to do instead, where documented."""

    name: str
    """normalised, without namespace and overload: ``"add"``"""
    status: str
    because: str
    rewrite: Optional[str]
    when: Optional[str]
    """one of :data:`WHEN`, or ``None`` where no condition is documented"""
    source: Optional[str]
    as_of: Optional[str]


def normalise(aten_name: str) -> str:
    """The bare name: ``"aten.add.Tensor"`` and ``"aten::add"`` -> ``"add"``, ``"aten::add_"`` -> ``"add_"``."""
    name = re.sub(r"^(torch\.ops\.)?(aten)(::|\.)", "", aten_name.strip())
    return name.split(".", 1)[0]


@lru_cache(maxsize=None)
def _by_name() -> dict[str, tuple[dict[str, str], ...]]:
    rows: dict[str, list[dict[str, str]]] = {}
    for row in tables.read("operators"):
        rows.setdefault(row["name"], []).append(row)
    return {name: tuple(found) for name, found in rows.items()}


def status(aten_name: str, generation: Optional[str] = None) -> OperatorStatus:
    """The documented status of an operator, with or without overload, in place or not.

    With a ``generation`` only statements about that generation count; without one the most severe
    statement about any. An unknown generation raises :class:`~neuronfit.errors.NotFound`; an unknown
    operator does not: it has the status ``no_statement``.
    """
    if generation is not None and generation not in GENERATIONS:
        raise NotFound("unknown accelerator generation", generation, allowed=", ".join(GENERATIONS))
    name = normalise(aten_name)
    for known in dict.fromkeys((name, _out_of_place(name), f"{name}_")):
        rows = [row for row in _by_name().get(known, ()) if generation is None or generation in row["generations"].split()]
        if rows:
            return _status(name, min(rows, key=lambda row: _SEVERITY[row["status"]]))
    return OperatorStatus(name, "no_statement", _NO_STATEMENT, None, None, None, None)


def every() -> tuple[OperatorStatus, ...]:
    """All documented statements, in file order; a name may occur once per group of generations."""
    return tuple(_status(row["name"], row) for row in tables.read("operators"))


def _out_of_place(name: str) -> str:
    return name[:-1] if name.endswith("_") and not name.endswith("__") else name


def _status(name: str, row: dict[str, str]) -> OperatorStatus:
    return OperatorStatus(
        name=name,
        status=row["status"],
        because=row["because"],
        rewrite=tables.text(row["rewrite"]),
        when=tables.text(row["when"]),
        source=row["source"],
        as_of=row["as_of"],
    )
