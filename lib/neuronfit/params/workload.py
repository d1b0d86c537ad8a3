"""What is asked for, how much of it, and what is promised."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, Optional

from pydantic import Field, field_validator, model_validator

from neuronfit.errors import nearest
from neuronfit.sections import Section, Training

__all__ = [
    "HOURS_PER_MONTH",
    "Inputs",
    "Model",
    "Objective",
    "QUALITY",
    "Quality",
    "SECONDS_PER_MONTH",
    "Shape",
    "Surrounding",
    "Trace",
    "Traffic",
    "Workload",
]

HOURS_PER_MONTH = 730.0
"""8,760 hours a year over 12, the convention of price lists."""

SECONDS_PER_MONTH = HOURS_PER_MONTH * 3600.0


class Model(Section):
    """Which model: an architecture, a task, and optionally its weights."""

    config: str = Field(description="path of a Hugging Face config.json, or of a folder that holds one")
    task: str = Field("feature-extraction", description="what the model is asked to do, e.g. fill-mask")
    weights: str = Field("random", description="`random` (speed does not depend on weights) or a folder with weights")


class Shape(Section):
    """One shape of a call: what is compiled, measured and compared."""

    batch_size: int = Field(ge=1, le=65536, description="sequences per call")
    sequence_length: int = Field(ge=1, description="tokens per input sequence, padding included")
    output_length: Optional[int] = Field(None, ge=1, description="tokens generated per sequence; generation tasks only")


class Inputs(Section):
    """What goes into the model: real inputs, or synthetic ones with the lengths of the traffic."""

    source: str = Field(
        "synthetic",
        description="`synthetic`, a file of prompts (.txt one a line, .jsonl, .csv), a folder of PNG or JPEG images, or an .npy array of images",
    )
    column: Optional[str] = Field(
        None, description="key (.jsonl) or column (.csv) with the text; default: text, prompt or messages, or the only column"
    )
    labels: Optional[str] = Field(None, description="key or column with the right answer; `folder` where images lie in one folder per class")
    tokenizer: Optional[str] = Field(None, description="folder with tokenizer files; default: that of the weights, else that of the config")
    tokenizer_time: Literal["excluded", "counted"] = Field("excluded", description="does a timed call begin with token ids, or with the text")
    count: int = Field(64, ge=1, le=100_000, description="inputs whose answers are compared for parity; a measurement uses them all")
    seed: int = Field(0, ge=0, description="seed of synthetic inputs")


QUALITY = {
    "cosine": 0.99,
    "max_abs_error": 0.1,
    "max_rel_error": 0.05,
    "kl_divergence": 0.05,
    "top1_agreement": 0.99,
    "topk_agreement": 0.95,
    "greedy_match": 0.99,
    "exact_match": 0.99,
    "accuracy": 0.99,
}
"""Metric of agreement -> tolerance where none is declared; the reasons are in docs/parity.md."""


class Quality(Section):
    """How it is decided that the candidate's answers are as good."""

    metric: Optional[
        Literal[
            "cosine",
            "max_abs_error",
            "max_rel_error",
            "kl_divergence",
            "top1_agreement",
            "topk_agreement",
            "greedy_match",
            "exact_match",
            "accuracy",
        ]
    ] = Field(None, description="what decides; default: cosine, and greedy_match where tokens are generated")
    tolerance: Optional[float] = Field(
        None, ge=0, description="the bound the metric must keep: errors and divergence at most, all others at least; default: docs/parity.md"
    )


class Surrounding(Section):
    """Something in the request that is not the model."""

    name: str = Field(description="e.g. tokenizer, feature store, post-processing")
    share: float = Field(gt=0, lt=1, description="share of the request's time, fraction")


class Workload(Section):
    """What is asked for, independent of any machine."""

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$", description="name of the question; the dossier's folder")
    kind: Literal["inference", "training"] = "inference"
    model: Model
    published_as: Optional[str] = Field(None, description="name of this model in published tables; default: `name`")
    shapes: tuple[Shape, ...] = Field((Shape(batch_size=1, sequence_length=128),), min_length=1)
    precision: Literal["fp32", "bf16", "fp16", "int8"] = Field("fp32", description="precision asked for")
    inputs: Optional[Inputs] = Field(None, description="default: token ids or pixels made up, every input as long as the shape")
    quality: Quality = Quality()
    training: Optional[Training] = Field(None, description="of a training workload: the amount of one run, checkpoints, interruptions")
    surroundings: tuple[Surrounding, ...] = ()
    stage: Literal["experiment", "production"] = "production"
    model_changes_per_month: float = Field(0.0, ge=0, description="model updates that need a new compile, per month")

    @model_validator(mode="after")
    def _shares_leave_room_for_the_model(self) -> "Workload":
        total = sum(part.share for part in self.surroundings)
        if total >= 1:
            raise ValueError(f"surroundings: shares sum to {total:g}; they must leave the model a share above 0")
        return self

    @property
    def model_share(self) -> float:
        """Share of a request's time that the model itself takes, fraction (1 when nothing is declared)."""
        return 1.0 - sum(part.share for part in self.surroundings)


class Trace(Section):
    """A file of recorded traffic, and what the file does not say itself."""

    file: str = Field(
        description="path of a CSV, Parquet, JSON lines or access log file, also packed with gzip or zstd; of a folder of such files, or a pattern"
    )
    format: Optional[
        Literal[
            "azure_llm",
            "burstgpt",
            "mooncake",
            "vidur",
            "access_log",
            "alb",
            "elb",
            "w3c",
            "envoy",
            "haproxy",
            "s3",
            "squid",
            "app_log",
            "otlp",
            "cloudwatch",
            "prometheus",
            "csv",
            "jsonl",
            "json",
            "parquet",
        ]
    ] = Field(None, description="what the file is; default: found by its content")
    timezone: Optional[str] = Field(None, description="IANA zone of times without one, and of hours and weekdays, e.g. Europe/Berlin; default: UTC")
    only: Optional[str] = Field(
        None, description='method and path of an access log, e.g. "POST /predict"; * stands for anything; default: all requests'
    )
    time_column: Optional[str] = Field(None, description="column of the arrival; default: found by its name")
    input_column: Optional[str] = Field(None, description="column of the input tokens; default: found by its name")
    output_column: Optional[str] = Field(None, description="column of the output tokens; default: found by its name")
    time_unit: Optional[Literal["s", "ms", "us", "ns"]] = Field(
        None, description="unit of numbers that count from the start of the trace; default: seconds"
    )

    @field_validator("timezone")
    @classmethod
    def _zone_is_known(cls, name: Optional[str]) -> Optional[str]:
        import zoneinfo

        if name is not None and name not in zoneinfo.available_timezones():
            near = nearest(name, zoneinfo.available_timezones())
            raise ValueError(f"{name!r} is no IANA time zone" + (f"; nearest: {near[0]}" if near else ""))
        return name


class Traffic(Section):
    """How much is asked: a profile, a trace, or both. Rates are useful results (inferences) per second."""

    trace: Optional[Trace] = Field(None, description="recorded traffic; what is declared below wins over it")

    mean_per_s: Optional[float] = Field(None, gt=0, description="mean rate over the month, results per second")
    peak_per_s: Optional[float] = Field(None, gt=0, description="rate in the busiest minute, results per second")
    daily_shape: Literal["flat", "office", "evening"] = Field("flat", description="shape of the day around the mean")
    monthly_volume: Optional[float] = Field(None, gt=0, description="useful results per month")
    concurrency: Optional[int] = Field(None, ge=1, description="requests in flight at the mean rate, if known")
    sequence_lengths: dict[int, float] = Field(
        default_factory=dict,
        description="tokens per input sequence -> share of the requests, e.g. {64: 0.7, 512: 0.3}; counts will do, they are normalised",
    )

    @field_validator("sequence_lengths", mode="before")
    @classmethod
    def _lengths_and_shares(cls, given: Any) -> Any:
        if not isinstance(given, Mapping):
            return given
        for length, share in given.items():
            whole = length if isinstance(length, int) else int(length) if isinstance(length, str) and length.isdecimal() else 0
            if isinstance(length, bool) or whole < 1:
                raise ValueError(f"{length!r} is no length; a whole number of tokens, from 1")
            if isinstance(share, bool) or not isinstance(share, (int, float)) or not 0 < share < float("inf"):
                raise ValueError(f"{share!r} is no share of length {length}; a number above 0")
        return given

    @property
    def length_shares(self) -> dict[int, float]:
        """``sequence_lengths`` in ascending order, shares summing to 1; empty where not declared."""
        total = sum(self.sequence_lengths.values())
        return {length: share / total for length, share in sorted(self.sequence_lengths.items())}

    @model_validator(mode="after")
    def _peak_is_not_below_mean(self) -> "Traffic":
        mean, name = self.mean_per_s, "mean_per_s"
        if mean is None and self.monthly_volume:
            mean, name = self.monthly_volume / SECONDS_PER_MONTH, "the mean that monthly_volume over 730 h gives,"
        if mean and self.peak_per_s and self.peak_per_s < mean:
            raise ValueError(f"peak_per_s: {self.peak_per_s:g} is below {name} {mean:.4g}")
        return self


class Objective(Section):
    """The promise that must be kept."""

    latency_p50_ms: Optional[float] = Field(None, gt=0, description="bound on the median latency, milliseconds")
    latency_p99_ms: Optional[float] = Field(None, gt=0, description="bound on the 99th percentile latency, milliseconds")
    ttft_p99_ms: Optional[float] = Field(None, gt=0, description="bound on time to first token, milliseconds")
    tpot_p99_ms: Optional[float] = Field(None, gt=0, description="bound on time per output token, milliseconds")
    error_rate: float = Field(0.001, ge=0, lt=1, description="share of requests that may fail, fraction")
    deadline_h: Optional[float] = Field(None, gt=0, description="training: time by which a run must be done, hours")
