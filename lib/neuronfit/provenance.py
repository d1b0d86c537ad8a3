"""Where a number comes from, and how far it may be trusted.

Every number in this project is a :class:`Quantity`: a value, a unit, an interval where there is
one, and a *grade*. The grade says who stands behind it:

=========  ======  ==================================================================
grade      letter  means
=========  ======  ==================================================================
measured   M       raw values taken by this code on the host described in the record
imported   I       another tool's result file, adopted
published  P       a vendor's or paper's figure
estimated  E       our own formula
=========  ======  ==================================================================

The weakest-link rule: whatever is computed from several numbers carries the weakest of their
grades. A price times a published throughput is a published cost, never a measured one.
"""

from __future__ import annotations

import math
from enum import Enum
from typing import Annotated, Literal, Optional, Union

from pydantic import BaseModel, ConfigDict, Field, model_validator

__all__ = [
    "Estimated",
    "Grade",
    "Imported",
    "Measured",
    "Published",
    "Quantity",
    "Source",
    "absent",
    "weakest",
]


class Grade(str, Enum):
    """The four source grades, strongest first."""

    MEASURED = "measured"
    IMPORTED = "imported"
    PUBLISHED = "published"
    ESTIMATED = "estimated"

    @property
    def letter(self) -> str:
        """``M``, ``I``, ``P`` or ``E``, as shown beside a number."""
        return self.value[0].upper()

    @property
    def rank(self) -> int:
        """0 for the strongest grade, 3 for the weakest."""
        return list(Grade).index(self)

    def __str__(self) -> str:
        return self.value


def weakest(*parts: Union[Grade, "Quantity", "Source", None]) -> Grade:
    """The weakest grade among grades, quantities and sources; ``None`` and absent values are skipped.

    Raises ``ValueError`` when nothing is left to lean on: a conclusion from no number has no grade.
    """
    grades = [
        part if isinstance(part, Grade) else Grade(part.grade) for part in parts if part is not None and getattr(part, "grade", part) is not None
    ]
    if not grades:
        raise ValueError("no graded number given: a conclusion from nothing has no grade")
    return max(grades, key=lambda grade: grade.rank)


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Measured(_Frozen):
    """Raw values taken by this code. The record that carries it holds system, settings and runs."""

    grade: Literal["measured"] = "measured"
    host: str = Field(description="short name of the machine, as in the record's `system`")
    clock: str = Field(description="the clock durations were taken with, e.g. `time.perf_counter`")


class Imported(_Frozen):
    """Another tool's result file."""

    grade: Literal["imported"] = "imported"
    file: str
    sha256: str
    tool: Optional[str] = None
    tool_version: Optional[str] = None
    missing: tuple[str, ...] = Field((), description="what was not in the file and had to be declared or left unknown")


class Published(_Frozen):
    """A figure that a vendor or a paper printed."""

    grade: Literal["published"] = "published"
    title: str
    date: str = Field(description="date of the page or data, ISO where known")
    conditions: dict[str, str] = Field(default_factory=dict)
    price_basis: Optional[str] = None


class Estimated(_Frozen):
    """Our own formula over other numbers."""

    grade: Literal["estimated"] = "estimated"
    formula: str
    inputs: dict[str, str] = Field(default_factory=dict, description="input name -> its grade, or `assumed`")


Source = Annotated[Union[Measured, Imported, Published, Estimated], Field(discriminator="grade")]


class Quantity(_Frozen):
    """One number that can be shown: value, unit, interval, grade and the record that says so.

    ``value`` is ``None`` when the number is absent; then ``why`` says why, and there is no grade.
    ``low`` and ``high`` bound the value at ``confidence`` (0..1), or are bounds without a stated
    confidence when that is ``None``. Units are SI (see :mod:`neuronfit.units`).
    """

    value: Optional[float] = None
    unit: str
    low: Optional[float] = None
    high: Optional[float] = None
    confidence: Optional[float] = Field(None, gt=0, lt=1)
    grade: Optional[Grade] = None
    record: Optional[str] = Field(None, description="id of the record this number was read from")
    why: Optional[str] = Field(None, description="why the value is absent, or what it leans on")

    @model_validator(mode="after")
    def _value_and_grade_belong_together(self) -> "Quantity":
        if self.value is None:
            if not self.why:
                raise ValueError("an absent value needs a reason in `why`")
            if self.grade is not None or self.low is not None or self.high is not None:
                raise ValueError("an absent value has neither grade nor interval")
        else:
            if self.grade is None:
                raise ValueError(f"{self.value} {self.unit} has no grade")
            if not math.isfinite(self.value):
                raise ValueError(f"{self.value} is not a number; absent is None with a reason")
            if (self.low is None) != (self.high is None):
                raise ValueError("an interval has two ends")
            if self.low is not None and not self.low <= self.value <= self.high:
                raise ValueError(f"{self.value} lies outside its interval {self.low}..{self.high}")
        return self

    @property
    def known(self) -> bool:
        return self.value is not None


def absent(unit: str, why: str) -> Quantity:
    """A number that does not exist, with the reason."""
    return Quantity(unit=unit, why=why)
