"""Steps 6 and 7: what it costs, and when it pays back."""

from __future__ import annotations

from typing import Literal, Optional

from pydantic import Field

from neuronfit.provenance import Quantity
from neuronfit.record.header import Frozen, Record


class CostOfTarget(Frozen):
    """Money per million useful results, on one price basis."""

    target: str
    instance_type: str
    result_unit: str
    price: Quantity
    price_as_of: Optional[str] = Field(None, description="date on which the price was seen to hold")
    full_load: Quantity = Field(description="USD per million at utilization 1")
    expected: Quantity = Field(description="USD per million at the expected utilization")
    per_month: Quantity = Field(description="USD per month for the instances that the peak needs")
    efficiency: Quantity = Field(description="results per second per dollar-hour")
    break_even_throughput: Quantity = Field(description="above this rate the baseline is the cheaper one at full load")
    break_even_utilization: Quantity = Field(description="candidate is cheaper above this busy fraction")
    break_even_price: Quantity = Field(description="candidate is cheaper below this hourly price")
    other_bases: dict[str, Quantity] = Field(default_factory=dict, description="purchase option -> USD per million, full load")
    sentence: str


class Cost(Record):
    """Step 6."""

    schema_: Literal["cost/1"] = Field("cost/1", alias="schema")
    bottom_line: str
    region: str
    purchase_option: str
    targets: tuple[CostOfTarget, ...] = ()


# -- step 7: when it pays back ----------------------------------------------------------------


class PaybackOfTarget(Frozen):
    """Saving against spending for one candidate."""

    target: str
    saving_per_month: Quantity
    upkeep_per_month: Quantity
    effort: Quantity = Field(description="person-days")
    effort_usd: Quantity
    payback_month: Quantity = Field(description="median over draws; absent when it does not pay back within the horizon")
    probability: Quantity = Field(description="share of draws that pay back within the horizon")
    cumulative_usd: tuple[float, ...] = Field((), description="net position at the end of months 0 (nothing saved yet) to the horizon, likely case")
    volume_needed: Quantity = Field(description="times today's volume at which it would pay back within the horizon (ratio)")
    sentence: str


class Payback(Record):
    """Step 7."""

    schema_: Literal["payback/1"] = Field("payback/1", alias="schema")
    bottom_line: str
    horizon_months: int
    targets: tuple[PaybackOfTarget, ...] = ()
