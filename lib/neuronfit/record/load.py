"""Step 5: how busy?"""

from __future__ import annotations

from typing import Literal, Optional

from pydantic import Field

from neuronfit.fleets import LatencyAtLoad, ScalingOption, ServiceOfTarget, SharedInstance, SizeOfInstance
from neuronfit.provenance import Quantity
from neuronfit.record.header import Frozen, Record


class Observed(Frozen):
    """What the newest monitor's record of a target saw, beside what is modelled. Device counters, not offered load over capacity."""

    busy: Quantity = Field(description="of all devices together, fraction")
    metric: Optional[str] = Field(None, description="which quantity it is; those of a GPU and of a NeuronCore differ")
    work_share: Quantity = Field(description="mean over the devices of what they did of their dense peak, fraction")
    adopted: bool = Field(description="from a file; false: sampled while the target was measured, so at the load of that test")
    monitor: str = Field(description="id of the record")


class UtilizationOfTarget(Frozen):
    """Offered load against capacity. All rates are results per second."""

    target: str
    instance_type: str
    capacity_per_instance: Quantity
    instances: Quantity
    offered_mean: Quantity
    offered_peak: Quantity
    busy_mean: Quantity
    busy_peak: Quantity
    sentence: str
    observed: Optional[Observed] = Field(None, description="what a device monitor saw; null: none was adopted or sampled")
    service: Optional[ServiceOfTarget] = Field(None, description="what the simulation takes one instance to be; null: not simulated")
    not_simulated: Optional[str] = Field(None, description="why there is no simulation")
    needed: Optional[Quantity] = Field(None, description="fewest instances that keep the objective at the peak, spare ones not counted")
    start_up: Optional[Quantity] = Field(None, description="from the launch of an instance to its first answer, seconds, and what it is made of")
    options: tuple[ScalingOption, ...] = Field(
        (), description="fixed, scheduled and target_tracking, each over the whole window; before them the declared fleet where there is one"
    )
    chosen: Optional[str] = Field(
        None, description="the option that the next four numbers are of: policy.capacity.scaling, with fixed the declared fleet where there is one"
    )
    instance_hours_per_day: Optional[Quantity] = None
    instance_hours_per_month: Optional[Quantity] = Field(None, description="per day x 730 / 24")
    missed: Optional[Quantity] = Field(None, description="share of requests later than the objective, fraction")
    idle: Optional[Quantity] = Field(None, description="share of the paid capacity that answers nothing, fraction")
    latency_at_load: tuple[LatencyAtLoad, ...] = ()
    sizes: tuple[SizeOfInstance, ...] = Field((), description="types of the family that have evidence, smallest first")
    smallest: Optional[str] = Field(
        None, description="the smallest type of the family with evidence that keeps the objective; null: none, or not known"
    )
    shared: Optional[SharedInstance] = None
    shared_with: Optional[str] = Field(None, description="what sharing with the workloads of policy.capacity.shared_with comes to; null: none named")
    break_even_ratio: Optional[Quantity] = Field(
        None, description="how busy a candidate must be for each share that the baseline is busy, at list prices; above 1 more than the baseline"
    )


class Utilization(Record):
    """Step 5."""

    schema_: Literal["utilization/1"] = Field("utilization/1", alias="schema")
    bottom_line: str
    targets: tuple[UtilizationOfTarget, ...] = ()
    demand: Optional[str] = Field(None, description="where the demand comes from: a profile, or a trace with its window")
    window_h: Optional[float] = Field(None, description="length of the window, hours; the day repeats it where it is shorter")
    hourly_demand_per_s: tuple[float, ...] = Field(
        (), description="demand by hour of the window, results per second; 168 for a week from Monday 0:00, 24 where its days are alike"
    )
    assumptions: tuple[str, ...] = Field((), description="what the simulation assumes, in sentences")


class MonitoredPart(Frozen):
    """What a monitor saw of one device, one MIG slice of it, or one NeuronCore."""

    device: str
    core: Optional[str] = Field(None, description="null: the device as a whole")
    name: Optional[str] = None
    samples: int
    busy_metric: Optional[str] = Field(None, description="which quantity the busyness is; those of a GPU and of a NeuronCore differ")
    busy_mean: Quantity
    busy_median: Quantity
    busy_p95: Quantity
    idle: Quantity = Field(description="share of the samples at or below 0.5 %")
    memory_used: Quantity = Field(description="the most that was in use, bytes")
    memory_total: Quantity = Field(description="bytes")
    power: Quantity = Field(description="mean, W")
    work_metric: Optional[str] = Field(None, description="achieved_flop_per_s or gpu_tensor_active, which can be set beside another vendor's")
    work: Quantity = Field(description="mean of that metric")
    work_share: Quantity = Field(description="of the dense peak, fraction")


class Monitor(Record):
    """Step 5: how busy devices were seen to be, from a monitor's file or sampled while measuring."""

    schema_: Literal["monitor/1"] = Field("monitor/1", alias="schema")
    bottom_line: str
    target: Optional[str] = None
    instance_type: Optional[str] = Field(None, description="as the file says, or as declared for the target")
    format: str
    start_utc: Optional[str] = Field(None, description="null: the file has no clock")
    span: Quantity = Field(description="s")
    samples: int
    busy_metric: Optional[str] = None
    busy_mean: Quantity = Field(description="of all devices together")
    parts: tuple[MonitoredPart, ...] = ()
    quantities: dict[str, Quantity] = Field(default_factory=dict, description="executions, errors, latency, power of the host")
    recorded: tuple[str, ...] = Field((), description="metrics of which the file has at least one number")
    facts: dict[str, str] = Field(default_factory=dict)
