"""What counts as different, how it is measured, and how a fleet is run."""

from __future__ import annotations

from typing import Annotated, Literal, Optional

from pydantic import Field

from neuronfit.sections import Doubt, Section

__all__ = ["Capacity", "Policy"]


class Capacity(Section):
    """How a fleet is run and what the simulation of step 5 assumes. Every default is an assumption of ours, not a measurement."""

    scaling: Literal["fixed", "scheduled", "target_tracking"] = Field(
        "fixed", description="policy whose instance-hours stand for a target; all three are shown"
    )
    target_utilization: float = Field(0.6, gt=0, le=1, description="autoscaling: load per instance that is aimed at, share of its capacity")
    reaction_s: float = Field(180.0, ge=0, description="autoscaling: time until a change of load is noticed, seconds (three readings a minute apart)")
    launch_s: float = Field(120.0, ge=0, description="start of an instance and pull of the image, seconds")
    load_bytes_per_s: float = Field(1e9, gt=0, description="speed at which weights are loaded at start-up, bytes per second")
    compile_cache: Literal["hit", "cold"] = Field(
        "hit", description="does a new instance find compiled artefacts; cold: it compiles for as long as step 3 says"
    )
    scale_in_cooldown_s: float = Field(900.0, ge=0, description="autoscaling: time that a lower load must last before instances go, seconds")
    min_count: int = Field(1, ge=1, description="instances that always run")
    redundancy: int = Field(0, ge=0, description="spare instances beyond what the load needs; 1 is N+1")
    zones: int = Field(1, ge=1, le=6, description="zones over which the fleet is spread; above 1, the others carry the load when one is lost")
    batch_delay_ms: float = Field(0.0, ge=0, description="time that a request may wait for its batch to fill, milliseconds")
    failures_per_month: float = Field(0.0, ge=0, description="failures of one instance per month of running; each is down for one start-up")
    seed: int = Field(0, ge=0, description="seed of the simulated arrivals; the same seed gives the same digits")
    shared_with: tuple[Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")], ...] = Field(
        (), description="names of other workloads whose dossiers lie beside this one and that could share its instances"
    )


class Policy(Section):
    """What counts as different, and what a verdict needs."""

    margin: float = Field(0.05, ge=0, lt=1, description="differences within this fraction are `the same`")
    confidence: float = Field(0.95, gt=0.5, lt=1, description="confidence of intervals, fraction")
    min_utilization: float = Field(0.30, ge=0, le=1, description="mean utilization below which right-sizing comes first")
    runs: int = Field(3, ge=1, le=100, description="independent runs per shape of a measurement")
    budget_s: float = Field(20.0, gt=0, description="time for the timed values of one shape, at most, seconds")
    interval_width: float = Field(
        0.02,
        ge=0,
        lt=1,
        description="half width of the latency's interval at which measuring stops early, fraction of the value; 0 spends the budget",
    )
    scenario: Optional[Literal["single_stream", "offline", "server", "generate"]] = Field(
        None, description="how an endpoint is loaded; default: generate where tokens are generated, else single_stream"
    )
    arrivals: Literal["poisson", "constant", "trace"] = Field("poisson", description="when the requests of an open loop are due")
    rate_per_s: Optional[float] = Field(
        None, gt=0, description="requests per second sent to an endpoint; default: server searches the highest that keeps the objective"
    )
    capacity: Capacity = Capacity()
    doubt: Doubt = Doubt()
