"""What the instances cost: one basis for every target."""

from __future__ import annotations

from datetime import date
from typing import Any, Literal, Optional

from pydantic import Field, field_validator

from neuronfit.sections import HostCost, Section

__all__ = ["PriceOverride", "Pricing"]


class PriceOverride(Section):
    """The team's own rate for one instance type."""

    instance_type: str
    usd_per_hour: float = Field(gt=0, description="USD per instance-hour")
    as_of: str = Field(description="date of the rate, YYYY-MM-DD", pattern=r"^\d{4}-\d{2}-\d{2}$")
    purchase_option: Optional[str] = Field(
        None, description="the terms of this rate, where they are not pricing.purchase_option; a rate on other terms is kept apart, not compared"
    )
    note: str = Field("", description="where the rate comes from, e.g. enterprise agreement")
    currency: str = Field("USD", description="USD; another currency is refused, never converted")

    @field_validator("as_of", mode="before")
    @classmethod
    def _yaml_reads_a_date_as_a_date(cls, value: Any) -> Any:
        return value.isoformat() if type(value) is date else value

    @field_validator("as_of")
    @classmethod
    def _on_the_calendar(cls, value: str) -> str:
        date.fromisoformat(value)
        return value

    @field_validator("currency")
    @classmethod
    def _one_currency(cls, value: str) -> str:
        if value != "USD":
            raise ValueError(
                f"{value!r} beside USD would mix currencies; convert the rate yourself and write the exchange rate and its day into note"
            )
        return value


class Pricing(Section):
    """One price basis for every target."""

    region: str = "us-east-1"
    purchase_option: str = Field("on_demand", description="one purchase option for both sides")
    discount: float = Field(
        0.0, ge=0, lt=1, description="share taken off every list price (an enterprise discount); capacity blocks and the team's own rates keep theirs"
    )
    deployment: Literal["ec2", "eks", "ecs", "batch", "sagemaker"] = Field(
        "ec2", description="what the instances are bought through; the same for every target"
    )
    overrides: tuple[PriceOverride, ...] = ()
    surroundings: tuple[HostCost, ...] = Field((), description="costs beside the instances: storage, load balancer, data transfer")

    @field_validator("overrides")
    @classmethod
    def _one_rate_each(cls, overrides: tuple[PriceOverride, ...]) -> tuple[PriceOverride, ...]:
        types = [entry.instance_type for entry in overrides]
        doubled = {name for name in types if types.count(name) > 1}
        if doubled:
            raise ValueError(f"two rates are given for {sorted(doubled)[0]}; one each")
        return overrides
