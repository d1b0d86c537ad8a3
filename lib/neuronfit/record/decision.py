"""Step 0: should it move?"""

from __future__ import annotations

from typing import Literal, Optional

from pydantic import Field

from neuronfit.provenance import Grade, Quantity
from neuronfit.record.header import Frozen, Record


class Gate(Frozen):
    """One question on the way to `migrate`, in order."""

    name: str
    status: Literal["pass", "fail", "open"]
    because: str
    grade: Optional[Grade] = None
    record: Optional[str] = None


class NextMeasurement(Frozen):
    """The cheapest measurement that could change the verdict."""

    target: str
    why: str
    command: str
    host: str
    minutes: Optional[float] = None
    usd: Optional[Quantity] = None


class Decision(Record):
    """Step 0: should it move?"""

    schema_: Literal["decision/1"] = Field("decision/1", alias="schema")
    verdict: Literal["migrate", "pilot", "right_size_first", "stay", "gather_evidence"]
    headline: str = Field(description="the verdict in a few words")
    sentence: str
    reasons: tuple[str, ...]
    candidate: Optional[str] = None
    gates: tuple[Gate, ...]
    weakest_grade: Optional[Grade]
    next_measurement: Optional[NextMeasurement] = None
