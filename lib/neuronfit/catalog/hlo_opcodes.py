"""What the Neuron documentation says about HLO opcodes.

The compiler's list of supported operators has 62 names, in the style of XLA's builder (``DotGeneral``), and
last grew in 2023: it has no convolution, although convolutional models are published. Other pages name
opcodes that are not on it. So absence is worth nothing here either; only the compiler can prove support.

================  ==================================================================================
tier              means
================  ==================================================================================
listed            on the list; a custom-call target: on the page of accepted targets
implied           not on the list, but another page names it, perhaps in a restricted form
unsupported       not on the list, and another page says that it does not work
unlisted          no page of those read names it
================  ==================================================================================
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Optional

from neuronfit.catalog import tables

__all__ = ["TIERS", "OpcodeStatus", "every", "status"]

TIERS = ("listed", "implied", "unsupported", "unlisted")


@dataclass(frozen=True)
class OpcodeStatus:
    """The documented status of one HLO opcode."""

    opcode: str
    """as HLO text writes it: ``"dot"``, ``"reduce-window"``; a custom call with its target: ``"custom-call AwsNeuronErf"``"""
    tier: str
    """one of :data:`TIERS`"""
    names: tuple[str, ...]
    """its names on the list: ``("Dot", "DotGeneral")``"""
    restriction: Optional[str]
    """what the pages say about its operands, or where else it is named"""
    source: Optional[str]
    as_of: Optional[str]


@lru_cache(maxsize=None)
def _by_opcode() -> dict[str, OpcodeStatus]:
    return {
        row["opcode"]: OpcodeStatus(
            row["opcode"], row["tier"], tuple(row["names"].split()), tables.text(row["restriction"]), row["source"], row["as_of"]
        )
        for row in tables.read("hlo_opcodes")
    }


def status(opcode: str) -> OpcodeStatus:
    """The documented status of an opcode. One that no page names is not an error: it is ``unlisted``."""
    return _by_opcode().get(opcode) or OpcodeStatus(opcode, "unlisted", (), None, None, None)


def every() -> tuple[OpcodeStatus, ...]:
    """All opcodes that a page names, in file order."""
    return tuple(_by_opcode().values())
