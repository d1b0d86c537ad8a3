"""Steps 6 and 7: what it costs, and when it pays back."""

from __future__ import annotations

from typing import Literal, Optional

from pydantic import Field

from neuronfit.provenance import Quantity
from neuronfit.record.header import Frozen, Record


class Sensitivity(Frozen):
    """What one input does to a cost, all others at their own values: one bar of a tornado."""

    input: str
    low: Quantity = Field(description="the input at its lower end")
    high: Quantity = Field(description="the input at its upper end")
    usd_at_low: Quantity = Field(description="cost at the lower end, USD per million")
    usd_at_high: Quantity = Field(description="cost at the upper end, USD per million")


class TrainingRun(Frozen):
    """One training run on a target: time, hours that are paid for, and money."""

    instances: int
    throughput: Quantity = Field(description="of all instances together, samples or tokens per second")
    compute: Quantity = Field(description="time of pure computing, h")
    duration: Quantity = Field(description="expected time with checkpoints, interruptions and what is computed again, h")
    instance_hours: Quantity = Field(description="h")
    cost: Quantity = Field(description="USD per run")
    saving: Optional[Quantity] = Field(None, description="share of the baseline's cost per run that is saved, fraction; null: the baseline")
    probability_cheaper: Optional[Quantity] = Field(None, description="fraction of the draws; null: the baseline")
    best_checkpoint_every: Optional[Quantity] = Field(
        None, description="computing time between checkpoints that costs least, h; null: no interruptions"
    )
    deadline_kept: Optional[bool] = Field(None, description="null: no deadline is declared, or the time is not known")
    sentence: str


class CostOfTarget(Frozen):
    """Money per million useful results, on one price basis."""

    target: str
    instance_type: str
    result_unit: str
    price: Quantity
    price_as_of: Optional[str] = Field(None, description="date on which the price was seen to hold")
    full_load: Quantity = Field(description="USD per million at utilization 1")
    expected: Quantity = Field(description="USD per million useful results at your traffic")
    per_month: Quantity = Field(description="USD per month for the instance-hours of step 5 and what stands beside them")
    efficiency: Quantity = Field(description="results per second per dollar-hour")
    break_even_throughput: Quantity = Field(description="above this rate the baseline is the cheaper one at full load")
    break_even_utilization: Quantity = Field(description="candidate is cheaper above this busy fraction")
    break_even_price: Quantity = Field(description="candidate is cheaper below this hourly price")
    other_bases: dict[str, Quantity] = Field(default_factory=dict, description="purchase option -> USD per million, full load")
    break_even_volume: Optional[Quantity] = Field(None, description="results per month from which on the candidate's fleet is never the dearer one")
    tokens_per_usd: Optional[Quantity] = Field(None, description="results that a dollar buys at full load; for generation these are tokens")
    useful: Optional[Quantity] = Field(None, description="share of the results asked for that are useful, fraction")
    useful_because: Optional[str] = Field(None, description="what that share is made of")
    instance_hours_per_month: Optional[Quantity] = Field(None, description="what is paid for, h")
    hours_because: Optional[str] = Field(None, description="where the hours come from")
    beside_per_month: dict[str, Quantity] = Field(default_factory=dict, description="cost beside the instances -> USD per month")
    per_unit: dict[str, Quantity] = Field(default_factory=dict, description="kind of result -> USD per million at your traffic")
    probability_cheaper: Optional[Quantity] = Field(
        None, description="share of the draws in which this is cheaper at your traffic; null: the baseline"
    )
    probability_cheaper_full_load: Optional[Quantity] = Field(None, description="the same at full load")
    saving_per_month: Optional[Quantity] = Field(None, description="against the baseline, USD per month; null: the baseline")
    tornado: tuple[Sensitivity, ...] = Field((), description="inputs of the cost, the one that matters most first")
    assumed: tuple[str, ...] = Field((), description="intervals that are assumptions, in sentences")
    taken_as: Optional[str] = Field(None, description="what the probabilities take for granted: assumed doubt, figures that are not comparable")
    training: Optional[TrainingRun] = Field(None, description="of a training workload")
    sentence: str


class Cost(Record):
    """Step 6."""

    schema_: Literal["cost/1"] = Field("cost/1", alias="schema")
    bottom_line: str
    region: str
    purchase_option: str
    targets: tuple[CostOfTarget, ...] = ()


# -- step 7: when it pays back ----------------------------------------------------------------


class TaskOfMove(Frozen):
    """One piece of the work, in person-days, and why it is on the list."""

    name: str
    low: float
    likely: float
    high: float
    because: str = Field(description="the template, the params file, or the finding that asks for it")
    code: Optional[str] = Field(None, description="of the finding")


class SecondMove(Frozen):
    """The risk that the software path ends and the work has to be done again."""

    probability: Quantity = Field(description="within the horizon, fraction")
    cost: Quantity = Field(description="if it happens, USD")
    because: str


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
    tasks: tuple[TaskOfMove, ...] = ()
    upkeep_because: Optional[str] = None
    parallel: Optional[Quantity] = Field(None, description="the candidate's bill during the trial, while the baseline keeps running, USD")
    parallel_because: Optional[str] = None
    second_move: Optional[SecondMove] = None
    volume_least: Optional[Quantity] = Field(None, description="results per month below which it never pays back within the horizon")
    net_present_value: Optional[Quantity] = Field(None, description="of the whole horizon, discounted, USD")
    band_usd: dict[str, tuple[float, ...]] = Field(
        default_factory=dict, description="p5, p50, p95 -> net position at the end of months 0 to the horizon, USD"
    )
    paid_back_by: tuple[float, ...] = Field((), description="share of the draws that have been paid back by the end of months 0 to the horizon")
    probability_saving: Optional[Quantity] = Field(None, description="share of the draws in which a month's saving exceeds its upkeep, fraction")
    sentence: str


class Payback(Record):
    """Step 7."""

    schema_: Literal["payback/1"] = Field("payback/1", alias="schema")
    bottom_line: str
    horizon_months: int
    targets: tuple[PaybackOfTarget, ...] = ()
