"""What a simulated fleet came out as, as a record holds it. Made by :mod:`neuronfit.capacity`, kept in step 5's conclusion."""

from __future__ import annotations

from typing import Literal, Optional

from pydantic import BaseModel, ConfigDict, Field

from neuronfit.provenance import Grade, Quantity

__all__ = ["LatencyAtLoad", "ScalingOption", "ServiceOfTarget", "SharedInstance", "SizeOfInstance"]


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class ServiceOfTarget(_Frozen):
    """One instance as the simulation sees it; seconds."""

    kind: Literal["batches", "generation"]
    workers: int = Field(description="batches at a time, or copies of the model that generate")
    largest_batch: int = Field(description="requests of a batch, or sequences of a copy at a time")
    latency_s: dict[int, float] = Field(description="batch size -> latency of the batch, or sequences at work -> time of a decode step")
    prefill_s: Optional[float] = Field(None, description="generation: reading one input token")
    input_tokens: Optional[float] = Field(None, description="generation: mean of the requests that are simulated, those of the traffic where known")
    output_tokens: Optional[float] = Field(None, description="generation: the same, written")
    reckoned: Optional[str] = Field(None, description="generation: how a figure at other lengths stands for the traffic; null: the lengths are alike")
    cache_sequences: Optional[float] = Field(
        None, description="generation: sequences whose keys and values fit beside the weights; null: no bound known"
    )
    grade: Grade
    said: tuple[str, ...] = Field((), description="assumptions")


class ScalingOption(_Frozen):
    """One way of running the fleet over the window."""

    name: Literal["declared", "fixed", "scheduled", "target_tracking"]
    fewest: int = Field(description="instances paid for in the quietest minute")
    most: int = Field(description="instances paid for in the busiest minute")
    instance_hours_per_day: Quantity
    instance_hours_per_week: Quantity
    busy: Quantity = Field(description="demand over the capacity that is paid for, fraction")
    idle: Quantity = Field(description="share of the paid capacity that answers nothing, fraction")
    missed: Quantity = Field(description="share of requests later than the objective, fraction")
    usd_per_month: Quantity = Field(description="at the price basis of the question")
    idle_usd_per_month: Quantity = Field(description="the idle share of it")
    hourly_instances: tuple[float, ...] = Field((), description="instances paid for, mean of each hour of the window; 24 where the days are alike")
    how: str = Field(description="how the missed share was worked out")


class LatencyAtLoad(_Frozen):
    """One point of the curve of latency against load, for one instance alone."""

    load: float = Field(description="share of the capacity")
    p50_s: float
    p99_s: float


class SizeOfInstance(_Frozen):
    """One instance type of a target's family against the same peak."""

    instance_type: str
    capacity: Quantity
    needed: Quantity = Field(description="fewest instances that keep the objective at the peak")
    busy: Quantity = Field(description="mean demand over the capacity of these")


class SharedInstance(_Frozen):
    """How many models like this one a fleet of this size holds: by memory, and by load."""

    by_memory: Optional[int] = Field(description="copies that fit on one instance; null: not known")
    by_load: int = Field(description="models with this traffic whose added peaks keep the objective")
    sentence: str
