"""The controlled production test: stages, criteria, guardrails."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal, Optional, Union

from pydantic import Field, model_validator

from neuronfit.params.credentials import SECRETS, refuse_in_requests, texts_in
from neuronfit.sections import Section

__all__ = ["Criterion", "CriterionMetric", "DEFAULT_STAGES", "Stage", "Trial"]


class Stage(Section):
    """One stage of the controlled production test."""

    name: str
    mode: Optional[Literal["replay", "shadow", "split"]] = Field(
        None,
        description="replay and shadow: both sides get every request; split: the share goes to the candidate; default: shadow at share 0, else split",
    )
    share: float = Field(0.0, ge=0, le=1, description="share of production traffic answered by the candidate, fraction")
    duration_min: Optional[float] = Field(None, gt=0, description="duration, minutes; this or requests")
    requests: Optional[Union[Annotated[int, Field(ge=1, strict=True)], Literal["planned"]]] = Field(
        None,
        description="how many requests reach the candidate, from which the duration follows at the rate of the traffic; "
        "planned: as many as find the regression with the wanted power",
    )

    @property
    def how(self) -> str:
        """The mode, its default filled in."""
        return self.mode or ("split" if self.share > 0 else "shadow")

    @property
    def reach(self) -> float:
        """Share of the requests that reach the candidate: all where both sides get every one."""
        return self.share if self.how == "split" else 1.0

    @model_validator(mode="after")
    def _one_length(self) -> "Stage":
        if (self.duration_min is None) == (self.requests is None):
            said = "neither duration_min nor requests" if self.requests is None else "both duration_min and requests"
            raise ValueError(f"stage {self.name!r} has {said}; write one of them, e.g. duration_min: 60, requests: 20000 or requests: planned")
        if self.requests is not None and not self.reach:
            raise ValueError(f"stage {self.name!r} sends nothing to the candidate at share 0, so requests never come; raise share, or mode: shadow")
        if self.requests == "planned" and self.how == "split" and self.share == 1:
            raise ValueError(f"stage {self.name!r} leaves the baseline nothing, so no requests compare the two; write duration_min or a number")
        return self


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


class Criterion(Section):
    """One success criterion of the controlled test."""

    metric: CriterionMetric
    kind: Literal["non_inferior", "superior"] = Field(
        "non_inferior", description="not worse than the baseline by more than the margin, or better than it by more than the margin"
    )
    margin: Optional[float] = Field(
        None, ge=0, lt=1, description="how much worse is still as good, or how much better it must be, fraction; default: latency_margin; superior: 0"
    )
    bound_ms: Optional[float] = Field(None, gt=0, description="a fixed bound for a quantile instead of the baseline, milliseconds")
    bound: Optional[float] = Field(
        None,
        ge=0,
        le=1,
        description="a fixed bound for error_rate, agreement or utilization, fraction; default: the objective's, min_agreement, 0.85",
    )

    @model_validator(mode="after")
    def _nothing_without_effect(self) -> "Criterion":
        shares = self.metric in ("error_rate", "agreement", "utilization")
        quantile = self.metric[-3:] in ("p50", "p95", "p99")
        unused = {
            "bound": self.bound is not None and not shares,
            "bound_ms": self.bound_ms is not None and not quantile,
            "margin": self.margin is not None and (shares or self.bound_ms is not None),
            "kind": self.kind == "superior" and (shares or self.bound_ms is not None),
        }
        for name, given in unused.items():
            if given:
                against = "a fixed bound" if name in ("kind", "margin") else "the baseline" if not shares else "a share"
                use = {"bound": "margin", "bound_ms": "bound" if shares else "margin"}.get(name, "bound" if shares else "bound_ms")
                raise ValueError(f"{self.metric} is judged against {against} here, so {name} has no effect; leave it out, or write {use}")
        return self


class Trial(Section):
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
        description="what a person does to take the test back, in order; the test takes its own way back once before the first stage",
    )

    @model_validator(mode="before")
    @classmethod
    def _no_credentials(cls, data: Any) -> Any:
        """The message never repeats what was written."""
        for where, text in texts_in(data):
            if SECRETS.search(text) or re.match(r"https?://[^/\s]*@", text):
                raise ValueError(f"{where} holds a private key or token; put it into an environment variable and its name into api_key_env")
        if isinstance(data, Mapping):
            refuse_in_requests(data, ["baseline_url", "candidate_url"], "SERVICE_TOKEN")
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
