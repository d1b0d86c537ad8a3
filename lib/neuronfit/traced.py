"""What a file of recorded traffic says, as a record holds it. Read by :mod:`neuronfit.traffic`, kept in step 1's profile."""

from __future__ import annotations

from typing import Literal, Optional

from pydantic import BaseModel, ConfigDict, Field

from neuronfit.provenance import Quantity

__all__ = ["TokenLengths", "TraceSummary"]


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class TokenLengths(_Frozen):
    """How many tokens the requests of a trace have. Exact, from every row."""

    mean: float = Field(description="tokens per request")
    minimum: int
    maximum: int
    quantiles: dict[str, float] = Field(description="p50, p90, p95, p99, tokens")
    zero: int = Field(0, description="requests with no token")
    histogram: dict[int, int] = Field(default_factory=dict, description="upper edge in tokens -> requests up to it and above the edge before")


class TraceSummary(_Frozen):
    """What a file of recorded traffic says. Every number is imported: counted in the file, nothing assumed."""

    file: str = Field(description="name of the file, without its folder")
    sha256: str
    format: str
    kind: Literal["arrivals", "counts", "lengths"] = Field(
        description="a row is a request, a number of requests in a period, or a length without a time"
    )
    rows: int = Field(description="rows in the file")
    requests: int = Field(description="requests counted, after what the findings say was left out")
    only: Optional[str] = Field(None, description="method and path that were asked for")
    zone: Optional[str] = Field(None, description="time zone of hours, weekdays, start and end; null: the trace has no date")
    zone_assumed: bool = Field(False, description="no zone is written in the file and none was declared")
    start: Optional[str] = Field(None, description="first request, ISO 8601")
    end: Optional[str] = Field(None, description="last request, ISO 8601")
    span_s: Optional[float] = Field(None, description="from the first request to the last, seconds")
    resolution_s: Optional[float] = Field(None, description="how finely the times are written, seconds; of counts the period")
    mean_per_s: Optional[float] = Field(None, description="requests per second over the span")
    peak_per_s: Optional[float] = Field(None, description="requests per second in the busiest minute, or in the busiest period where that is longer")
    peak_at: Optional[str] = Field(None, description="when the busiest minute begins")
    peak_window_s: Optional[float] = Field(None, description="60, or the period of the counts, or the span where that is shorter, seconds")
    peak_to_mean: Optional[float] = None
    busiest_second: Optional[int] = Field(None, description="requests in the busiest second")
    second_p99: Optional[int] = Field(None, description="requests that 99 % of the seconds do not exceed")
    empty_seconds: Optional[float] = Field(None, description="share of the seconds without a request, fraction")
    dispersion_1s: Optional[float] = Field(None, description="variance over mean of the requests per second; 1 for a Poisson process, 0 for a clock")
    dispersion_60s: Optional[float] = Field(None, description="the same of the requests per minute")
    dispersion_1s_within_hour: Optional[float] = Field(
        None, description="around the mean of each hour, so that the shape of the day is not counted as bursts"
    )
    dispersion_60s_within_hour: Optional[float] = None
    hour_of_week_per_s: tuple[Optional[float], ...] = Field((), description="168 mean rates, Monday 0 to 1 o'clock first; null: hour not recorded")
    hour_of_day_per_s: tuple[Optional[float], ...] = Field((), description="24 mean rates; null: hour not recorded")
    growth_per_month: Quantity = Field(description="relative change per 30.4 days, fraction")
    error_fraction: Optional[float] = Field(None, description="share of answers with status 500 and above")
    input_tokens: Optional[TokenLengths] = None
    output_tokens: Optional[TokenLengths] = None
    total_tokens_over: dict[int, float] = Field(
        default_factory=dict, description="limit in tokens -> share of requests whose input and output exceed it"
    )
    latency_s: dict[str, float] = Field(default_factory=dict, description="p50, p90, p95, p99 of the recorded durations, seconds")
    endpoints: dict[str, int] = Field(
        default_factory=dict, description="method and path -> requests, the commonest; parts that could be somebody are *"
    )
