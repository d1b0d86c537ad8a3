"""The params file: one YAML file is one question.

The models below *are* the documentation of the file: each field has a unit, a default and the
values it allows, and ``params/params.schema.json`` is generated from them. Reading is strict: an
unknown key is an error that names the nearest known key, a wrong type or unit is an error that
says what is allowed. Millisecond keys exist here because people write them; everything that is
stored is SI.

Only what has no sensible default must be given: ``workload``, ``baseline`` and ``candidates``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import date
from pathlib import Path
from typing import Annotated, Any, Literal, Optional, Union

import yaml
from pydantic import BaseModel, Field, ValidationError, field_validator, model_validator

from neuronfit.errors import BadParams, nearest
from neuronfit.sections import DEFAULT_TASKS, TEMPLATES, Doubt, Effort, HostCost, Task, Training
from neuronfit.sections import Section as _Section

__all__ = [
    "Capacity",
    "Criterion",
    "DEFAULT_TASKS",
    "Doubt",
    "Effort",
    "Endpoint",
    "Evidence",
    "HostCost",
    "Inputs",
    "Model",
    "Objective",
    "Params",
    "Policy",
    "PriceOverride",
    "Pricing",
    "Quality",
    "SECTIONS",
    "Shape",
    "Stage",
    "Surrounding",
    "TEMPLATES",
    "Target",
    "Task",
    "Trace",
    "Traffic",
    "Training",
    "Trial",
    "Workload",
    "json_schema",
    "load",
    "parse",
]

HOURS_PER_MONTH = 730.0
"""8,760 hours a year over 12, the convention of price lists."""

SECONDS_PER_MONTH = HOURS_PER_MONTH * 3600.0

Path_ = Literal[
    "cuda",
    "cpu",
    "neuron_xla",
    "neuron_native",
    "vllm_neuron",
    "nxd_inference",
    "torch_neuron",
    "jax",
    "optimum_neuron",
    "endpoint",
]


# -- workload ---------------------------------------------------------------------------------


class Model(_Section):
    """Which model: an architecture, a task, and optionally its weights."""

    config: str = Field(description="path of a Hugging Face config.json, or of a folder that holds one")
    task: str = Field("feature-extraction", description="what the model is asked to do, e.g. fill-mask")
    weights: str = Field("random", description="`random` (speed does not depend on weights) or a folder with weights")


class Shape(_Section):
    """One shape of a call: what is compiled, measured and compared."""

    batch_size: int = Field(ge=1, le=65536, description="sequences per call")
    sequence_length: int = Field(ge=1, description="tokens per input sequence, padding included")
    output_length: Optional[int] = Field(None, ge=1, description="tokens generated per sequence; generation tasks only")


class Inputs(_Section):
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


class Quality(_Section):
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


class Surrounding(_Section):
    """Something in the request that is not the model."""

    name: str = Field(description="e.g. tokenizer, feature store, post-processing")
    share: float = Field(gt=0, lt=1, description="share of the request's time, fraction")


class Workload(_Section):
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


# -- traffic and promise ----------------------------------------------------------------------


class Trace(_Section):
    """A file of recorded traffic, and what the file does not say itself."""

    file: str = Field(description="path of a CSV, Parquet, JSON lines or access log file, also gzipped")
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


class Traffic(_Section):
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


class Objective(_Section):
    """The promise that must be kept."""

    latency_p50_ms: Optional[float] = Field(None, gt=0, description="bound on the median latency, milliseconds")
    latency_p99_ms: Optional[float] = Field(None, gt=0, description="bound on the 99th percentile latency, milliseconds")
    ttft_p99_ms: Optional[float] = Field(None, gt=0, description="bound on time to first token, milliseconds")
    tpot_p99_ms: Optional[float] = Field(None, gt=0, description="bound on time per output token, milliseconds")
    error_rate: float = Field(0.001, ge=0, lt=1, description="share of requests that may fail, fraction")
    deadline_h: Optional[float] = Field(None, gt=0, description="training: time by which a run must be done, hours")


# -- targets ----------------------------------------------------------------------------------


SECRET_KEYS = ("api_key", "apikey", "authorization", "password", "secret", "token")
"""A key of a body or a query that is named like these holds a credential."""


class Endpoint(_Section):
    """Where a target is served. Credentials never belong here, only the name of a variable that holds one."""

    url: str = Field(description="address of the server, such as http://10.0.0.7:8000 or its /v1/completions")
    api: Literal["completions", "chat", "json"] = Field(
        "completions", description="OpenAI-compatible completions or chat, streamed; or a POST of `body` that is answered in one piece"
    )
    model: Optional[str] = Field(None, description="name under which the server knows the model; default: not sent")
    api_key_env: Optional[str] = Field(None, description="name of the environment variable that holds the API key")
    timeout_s: float = Field(60.0, gt=0, description="a request that takes longer has failed, seconds")
    max_connections: int = Field(256, ge=1, le=20000, description="connections that may be open at a time")
    body: dict[str, Any] = Field(
        default_factory=dict,
        description="keys added to each request, e.g. {ignore_eos: true}; with api json the whole body, e.g. {inputs: '{prompt}'}",
    )

    @model_validator(mode="before")
    @classmethod
    def _no_credentials(cls, data: Any) -> Any:
        """Messages here never repeat what was written: it may be a key."""
        if not isinstance(data, Mapping):
            return data
        variable = data.get("api_key_env")
        if variable is not None and not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]{0,63}", str(variable)) or str(variable).startswith("sk_"):
            raise ValueError("api_key_env is no name of an environment variable; a key itself is never written here, e.g. api_key_env: VLLM_API_KEY")
        url = str(data.get("url", ""))
        if url and not re.match(r"https?://[^/\s]", url):
            raise ValueError("url must begin with http:// or https:// and name a host")
        if re.match(r"https?://[^/]*@", url) or re.search(rf"[?&]({'|'.join(SECRET_KEYS)}|key)=", url, flags=re.IGNORECASE):
            raise ValueError("url holds a credential; put it into an environment variable and its name into api_key_env")
        for name in _keys_in(data.get("body")):
            if name.lower().replace("-", "_") in SECRET_KEYS:
                raise ValueError(f"body.{name} looks like a credential; put it into an environment variable and its name into api_key_env")
        return data


def _keys_in(data: Any) -> Iterator[str]:
    if isinstance(data, Mapping):
        for key, value in data.items():
            yield str(key)
            yield from _keys_in(value)
    elif isinstance(data, (list, tuple)):
        for value in data:
            yield from _keys_in(value)


class Target(_Section):
    """Where it runs, or might run."""

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$", description="short name used on the command line")
    instance_type: str = Field(description="EC2 instance type, e.g. g6.xlarge")
    path: Path_ = Field(description="software path")
    count: Optional[int] = Field(None, ge=1, description="instances; default: as many as the peak needs")
    settings: dict[str, Union[bool, int, float, str]] = Field(
        default_factory=dict, description="what was tuned, e.g. {precision: fp16, batch_size: 8}"
    )
    endpoint: Optional[Endpoint] = Field(None, description="where it is served; a target with one is measured through it")


# -- evidence, money, people ------------------------------------------------------------------


class Evidence(_Section):
    """A file to adopt into the dossier."""

    file: str = Field(description="path of a record written by `neuronfit measure`, or of another tool's result file or monitor capture")
    target: str = Field(description="name of the baseline or candidate it speaks for")
    format: Optional[str] = Field(None, description="format of another tool's file; default: found by its content")
    settings: dict[str, Union[bool, int, float, str]] = Field(
        default_factory=dict,
        description="what another tool's file does not say, e.g. {batch_size: 8, precision: bf16, instance_type: inf2.xlarge, concurrency: 16, requests: 500}",
    )


class PriceOverride(_Section):
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


class Pricing(_Section):
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


# -- trial ------------------------------------------------------------------------------------


class Stage(_Section):
    """One stage of the controlled production test."""

    name: str
    mode: Optional[Literal["replay", "shadow", "split"]] = Field(
        None,
        description="replay and shadow: both sides get every request; split: the share goes to the candidate; default: shadow at share 0, else split",
    )
    share: float = Field(0.0, ge=0, le=1, description="share of production traffic answered by the candidate, fraction")
    duration_min: float = Field(gt=0, description="duration, minutes")

    @property
    def how(self) -> str:
        """The mode, its default filled in."""
        return self.mode or ("split" if self.share > 0 else "shadow")


DEFAULT_STAGES = (
    Stage(name="shadow", share=0.0, duration_min=60),
    Stage(name="canary 1 %", share=0.01, duration_min=60),
    Stage(name="canary 10 %", share=0.10, duration_min=120),
    Stage(name="canary 50 %", share=0.50, duration_min=240),
)


CriterionMetric = Literal[
    "latency_p50",
    "latency_p95",
    "latency_p99",
    "ttft_p50",
    "ttft_p95",
    "ttft_p99",
    "tpot_p50",
    "tpot_p95",
    "tpot_p99",
    "error_rate",
    "agreement",
    "throughput",
    "cost_per_result",
    "utilization",
]
"""What a criterion of the controlled test may be about."""


class Criterion(_Section):
    """One success criterion of the controlled test."""

    metric: CriterionMetric
    kind: Literal["non_inferior", "superior"] = Field(
        "non_inferior", description="not worse than the baseline by more than the margin, or better than it"
    )
    margin: Optional[float] = Field(None, ge=0, lt=1, description="how much worse is still as good, fraction; default: latency_margin")
    bound_ms: Optional[float] = Field(None, gt=0, description="a fixed bound for a quantile instead of the baseline, milliseconds")
    bound: Optional[float] = Field(
        None,
        ge=0,
        le=1,
        description="a fixed bound for error_rate, agreement or utilization, fraction; default: the objective's, min_agreement, 0.85",
    )


SECRETS = re.compile(
    r"(-----BEGIN|\bsk-[A-Za-z0-9_-]{16,}|\bhf_[A-Za-z0-9]{20,}|\bAKIA[A-Z0-9]{12,}|\bgh[pousr]_[A-Za-z0-9]{20,}|\beyJ[A-Za-z0-9_-]{10,}\.eyJ|Bearer\s+\S{12,})"
)
"""What private keys and tokens look like."""


class Trial(_Section):
    """The controlled production test, fixed before it starts. Credentials never belong here."""

    candidate: Optional[str] = Field(None, description="name of the candidate to test; default: the one decided for")
    baseline_url: Optional[str] = Field(None, description="address of the baseline; default: that of its endpoint")
    candidate_url: Optional[str] = Field(None, description="address of the candidate; default: that of its endpoint")
    api: Literal["json", "completions", "chat"] = Field("json", description="how both are asked, where the target has no endpoint")
    model: Optional[str] = Field(None, description="name under which the servers know the model, where the target has no endpoint")
    api_key_env: Optional[str] = Field(None, description="name of the environment variable that holds the API key")
    body: dict[str, Any] = Field({"inputs": "{prompt}"}, description="body of a json request, where the target has no endpoint")
    timeout_s: float = Field(30.0, gt=0, description="a request that takes longer has failed, seconds")
    requests: Optional[str] = Field(
        None, description="JSON lines of requests: text, and optionally key (who asks) and at_s (when); default: the workload's inputs"
    )
    rate_per_s: Optional[float] = Field(None, gt=0, description="requests per second; default: the mean of the traffic")
    seed: int = Field(0, ge=0, description="seed of the arrivals")
    agree_on: Optional[str] = Field(None, description="key of a JSON answer that must agree, e.g. predictions.0.label; default: the whole answer")
    agree_within: float = Field(0.0, ge=0, lt=1, description="numbers in an answer agree within this fraction of the baseline's")
    stages: tuple[Stage, ...] = Field(DEFAULT_STAGES, min_length=1)
    criteria: tuple[Criterion, ...] = Field((), description="default: latency p95 and p99, the objective's bound, error rate, agreement")
    latency_margin: float = Field(0.05, ge=0, lt=1, description="latency may be worse than the baseline's by this fraction")
    detect: Optional[float] = Field(
        None,
        gt=0,
        lt=2,
        description="regression that the planned sample must find, fraction of the baseline's latency; default: 0.1, or twice latency_margin",
    )
    power: float = Field(0.8, gt=0, lt=1, description="chance of finding it, fraction")
    evaluate_every_s: float = Field(60.0, gt=0, description="time between two looks, seconds; a guardrail acts within it")
    may_pass_early: bool = Field(False, description="a stage may end before its duration once all of its criteria have passed")
    max_error_rate: Optional[float] = Field(None, ge=0, lt=1, description="guardrail; default: twice the objective's")
    min_agreement: float = Field(0.99, ge=0, le=1, description="share of paired answers that must agree, fraction")
    rollback: tuple[str, ...] = Field(
        (
            "set the candidate's traffic weight to 0",
            "confirm by responses that the baseline answers every request",
            "keep the candidate's logs and this plan's record",
        ),
        description="steps, in order; exercised once before the first stage",
    )

    @model_validator(mode="before")
    @classmethod
    def _no_credentials(cls, data: Any) -> Any:
        """The message never repeats what was written."""
        for where, text in _texts_in(data):
            if SECRETS.search(text) or re.match(r"https?://[^/\s]*@", text):
                raise ValueError(f"{where} holds a private key or token; put it into an environment variable and its name into api_key_env")
        if isinstance(data, Mapping):
            for name in ("baseline_url", "candidate_url"):
                if data.get(name) is not None and not re.match(r"https?://[^/\s]", str(data[name])):
                    raise ValueError(f"{name} must begin with http:// or https:// and name a host")
            for name in _keys_in(data.get("body")):
                if name.lower().replace("-", "_") in SECRET_KEYS:
                    raise ValueError(f"body.{name} looks like a credential; put it into an environment variable and its name into api_key_env")
            variable = data.get("api_key_env")
            if variable is not None and not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]{0,63}", str(variable)):
                raise ValueError(
                    "api_key_env is no name of an environment variable; a key itself is never written here, e.g. api_key_env: SERVICE_TOKEN"
                )
        return data

    @model_validator(mode="after")
    def _a_regression_is_larger_than_the_margin(self) -> "Trial":
        if self.detect is not None and self.detect <= self.latency_margin:
            raise ValueError(
                f"detect: {self.detect:g} is not above latency_margin {self.latency_margin:g}; what is still as good cannot be a regression"
            )
        names = [stage.name for stage in self.stages]
        doubled = {name for name in names if names.count(name) > 1}
        if doubled:
            raise ValueError(f"two stages are named {sorted(doubled)[0]!r}; names must differ")
        return self

    @property
    def regression(self) -> float:
        """``detect``, its default filled in."""
        return self.detect if self.detect is not None else max(0.1, 2 * self.latency_margin)


def _texts_in(data: Any, where: str = "trial") -> Iterator[tuple[str, str]]:
    if isinstance(data, str):
        yield where, data
    elif isinstance(data, Mapping):
        for key, value in data.items():
            yield from _texts_in(value, f"{where}.{key}")
    elif isinstance(data, (list, tuple)):
        for number, value in enumerate(data):
            yield from _texts_in(value, f"{where}.{number}")


class Capacity(_Section):
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


class Policy(_Section):
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


# -- the file ---------------------------------------------------------------------------------


class Params(_Section):
    """A whole question."""

    workload: Workload
    traffic: Traffic = Traffic()
    objective: Objective = Objective()
    baseline: Target
    candidates: tuple[Target, ...] = Field(min_length=1)
    evidence: tuple[Evidence, ...] = ()
    pricing: Pricing = Pricing()
    effort: Effort = Effort()
    trial: Trial = Trial()
    policy: Policy = Policy()

    @field_validator("candidates")
    @classmethod
    def _names_differ(cls, candidates: tuple[Target, ...]) -> tuple[Target, ...]:
        names = [target.name for target in candidates]
        doubled = {name for name in names if names.count(name) > 1}
        if doubled:
            raise ValueError(f"two candidates are named {sorted(doubled)[0]!r}; names must differ")
        return candidates

    @model_validator(mode="after")
    def _names_are_known(self) -> "Params":
        names = [target.name for target in self.targets]
        if len(set(names)) < len(names):
            raise ValueError(f"baseline and a candidate are both named {self.baseline.name!r}; names must differ")
        for place, given, known in [
            *(("evidence", entry.target, names) for entry in self.evidence),
            *(("pricing.surroundings", entry.target, names) for entry in self.pricing.surroundings),
            ("trial.candidate", self.trial.candidate, names[1:]),
        ]:
            if given is not None and given not in known:
                what = "target" if known is names else "candidate"
                raise ValueError(f"{place}: no {what} is named {given!r}; named are {', '.join(known)}{_nearest_text(given, known)}")
        return self

    @property
    def targets(self) -> tuple[Target, ...]:
        """Baseline first, then the candidates."""
        return (self.baseline, *self.candidates)


SECTIONS = tuple(Params.model_fields)
"""Top-level keys of the file, the same names as the notebooks' parameters."""


def load(path: Union[str, Path]) -> Params:
    """Read a params file. Raises :class:`~neuronfit.errors.BadParams`, always one line."""
    path = Path(path)
    hint = f"neuronfit run {path}"
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        beside = [str(found) for folder in (path.parent / "params", path.parent) for found in sorted(folder.glob("*.y*ml"))]
        names = {Path(found).name: found for found in reversed(beside)}
        near = [names[name] for name in nearest(path.name, names)] or beside[:3]
        raise BadParams("no such params file", str(path), allowed=", ".join(near) or "a YAML file") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or ("it is not text" if isinstance(error, UnicodeDecodeError) else str(error))
        raise BadParams(f"cannot read the params file ({reason})", str(path), allowed="a YAML file in UTF-8", next="check the path") from None
    try:
        data = yaml.load(text, Loader=_StrictLoader)
    except (ValueError, LookupError, AttributeError, RecursionError) as error:  # a tag or date that PyYAML itself trips over
        reason = "nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise BadParams(f"not valid YAML ({reason})", str(path), next=f"write plain words and numbers, then {hint}") from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"{path}, line {mark.line + 1}, column {mark.column + 1}" if mark else str(path)
        problem = getattr(error, "problem", None) or str(error)
        raise BadParams(f"not valid YAML ({problem})", where, next=f"fix the line, then {hint}") from None
    return parse(data, where=str(path))


def parse(data: Any, where: str = "parameters") -> Params:
    """Turn a mapping of sections into :class:`Params`; ``where`` names its origin in messages."""
    if not isinstance(data, Mapping):
        kind = {list: "a list", str: "a string", type(None): "empty"}.get(type(data), type(data).__name__)
        raise BadParams(
            f"{where} is {kind}, not a mapping of sections",
            allowed=", ".join(SECTIONS),
            next="start from params/bert-base-uncased.yaml",
        )
    try:
        return Params.model_validate(dict(data))
    except ValidationError as error:
        raise _one_line(error, where) from None


def json_schema() -> dict[str, Any]:
    """The JSON schema of a params file, for editors (``params/params.schema.json``)."""
    schema = Params.model_json_schema()
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    schema["title"] = "neuronfit params file"
    return schema


# -- reading strictly -------------------------------------------------------------------------


class _StrictLoader(yaml.SafeLoader):
    """YAML that refuses a key written twice and reads ``1e9`` as the number it looks like."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[Any] = set()
        for key_node, _ in node.value:
            if key_node.tag == "tag:yaml.org,2002:merge":
                continue
            key = self.construct_object(key_node, deep=True)
            if not isinstance(key, (str, int, float, bool, type(None))):
                raise yaml.constructor.ConstructorError(None, None, "a key must be a plain word", key_node.start_mark)
            if key in seen:
                raise yaml.constructor.ConstructorError(None, None, f"the key {key!r} is written twice", key_node.start_mark)
            seen.add(key)
        return super().construct_mapping(node, deep)


_StrictLoader.add_implicit_resolver("tag:yaml.org,2002:float", re.compile(r"^[-+]?[0-9]+(\.[0-9]*)?[eE][-+]?[0-9]+$"), list("-+0123456789"))


def _one_line(error: ValidationError, where: str) -> BadParams:
    """The first problem of a validation, as what / value / allowed / next."""
    problems = [
        entry
        for entry in error.errors()
        if not any(len(other["loc"]) > len(entry["loc"]) and other["loc"][: len(entry["loc"])] == entry["loc"] for other in error.errors())
    ]  # a list that is too short because its entry was refused is one problem
    problem = next((entry for entry in problems if entry["type"] == "extra_forbidden"), problems[0])
    keys = [str(part) for part in problem["loc"]]
    if "settings" in keys:  # what follows the setting's name is pydantic's name for a type
        keys = keys[: keys.index("settings") + 2]
        problems = [entry for entry in problems if entry is problem or "settings" not in entry["loc"]]
    place = f"{where}: {'.'.join(keys)}" if keys else where
    more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
    kind, context, value = problem["type"], problem.get("ctx", {}), problem.get("input")
    if kind == "extra_forbidden":
        known = _fields_at(problem["loc"][:-1])
        near = nearest(keys[-1], known)
        allowed = f"{near[0]} (did you mean that?); all: {', '.join(known)}" if near else ", ".join(known)
        return BadParams(f"{where}: unknown key{more}", ".".join(keys), allowed=allowed)
    if kind == "missing":
        return BadParams(f"{place} is missing{more}", allowed="a value; it has no default", next="add the key")
    if kind == "literal_error":
        options = [option.strip(" '") for option in context["expected"].replace(" or ", ", ").split(",")]
        near = _nearest_text(value, options) if isinstance(value, str) else ""
        return BadParams(f"{place}{more}", value, allowed=f"{', '.join(options)}{near}")
    description = _description_at(problem["loc"])
    message = problem["msg"].removeprefix("Value error, ")
    for python, plain in _PLAIN_WORDS:
        message = message.replace(python, plain)
    message = message[:1].lower() + message[1:]
    if "settings" in problem["loc"]:
        message = "true, false, a number or a word"
    allowed = "; ".join(part for part in (message, description) if part)
    if kind == "value_error" and isinstance(value, (Mapping, BaseModel, list, tuple)):
        return BadParams(f"{place}{more}: {message}")
    return BadParams(f"{place}{more}", value, allowed=allowed)


_PLAIN_WORDS = (
    ("Tuple should have at least 1 item after validation, not 0", "at least one entry"),
    ("Input should be a valid tuple", "a list of entries"),
    ("Input should be a valid dictionary", "a mapping of keys"),
    (" or instance of ", " for "),
)
"""Pydantic speaks Python; a params file is YAML."""


def _nearest_text(name: str, known: Any) -> str:
    near = nearest(name, known)
    return f" (nearest: {near[0]})" if near else ""


def _model_at(loc: tuple[Any, ...]) -> Optional[type[BaseModel]]:
    """The section class that the path of an error leads to."""
    model: Optional[type[BaseModel]] = Params
    for part in loc:
        if isinstance(part, int):
            continue
        field = model.model_fields.get(part) if model else None
        model = _section_in(field.annotation) if field else None
    return model


def _section_in(annotation: Any) -> Optional[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    for inner in getattr(annotation, "__args__", ()):
        found = _section_in(inner)
        if found:
            return found
    return None


def _fields_at(loc: tuple[Any, ...]) -> list[str]:
    model = _model_at(loc)
    return list(model.model_fields) if model else []


def _description_at(loc: tuple[Any, ...]) -> str:
    model = _model_at(loc[:-1])
    field = model.model_fields.get(loc[-1]) if model and loc else None
    return (field.description or "") if field else ""
