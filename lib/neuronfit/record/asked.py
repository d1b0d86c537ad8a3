"""Step 1: what is asked."""

from __future__ import annotations

from typing import Any, Literal, Optional

from pydantic import Field

from neuronfit.provenance import Quantity
from neuronfit.record.header import Frozen, Record
from neuronfit.traced import TraceSummary


class Situation(Frozen):
    """One of the eight situations in which a move is worth considering, or is not."""

    name: str
    applies: Optional[bool] = Field(description="null: not known from the params file")
    because: str
    advice: str


class Profile(Record):
    """Step 1: the workload, its size, its traffic and what stands around it."""

    schema_: Literal["profile/1"] = Field("profile/1", alias="schema")
    question: dict[str, Any] = Field(description="the whole params file, defaults filled in")
    bottom_line: str
    parameters: Quantity
    weights: dict[str, Quantity] = Field(description="precision -> bytes of the weights")
    memory: Optional[Quantity] = Field(None, description="weights and activations of the largest shape, bytes")
    rate_mean: Quantity
    rate_peak: Quantity
    monthly_volume: Quantity
    hourly_rate_per_s: tuple[float, ...] = Field((), description="rate by hour of day, results per second")
    model_share: Quantity
    amdahl_bound: Quantity = Field(description="largest speed-up of a request, whatever the accelerator (ratio)")
    situations: tuple[Situation, ...] = ()
    trace: Optional[TraceSummary] = Field(None, description="recorded traffic, where the params file names some")
