"""Step 8: the controlled production test, its plan and its verdict."""

from __future__ import annotations

from typing import Any, Literal, Optional

from pydantic import Field

from neuronfit.params import CriterionMetric
from neuronfit.provenance import Quantity
from neuronfit.record.header import Frozen, Record


class TrialCriterion(Frozen):
    """One criterion, fixed before the first request."""

    name: str
    metric: CriterionMetric
    compare: Literal["baseline", "bound"] = Field(description="with the baseline's value, or with a fixed bound")
    kind: Literal["non_inferior", "superior"] = "non_inferior"
    margin: float = Field(0.0, description="how much worse than the baseline is still as good, or how much better it must be, fraction")
    bound: Optional[float] = Field(None, description="fixed bound: seconds of a quantile, fraction of a share or of busyness")
    money_ratio: Optional[float] = Field(None, description="hourly money of the candidate's fleet over that of the baseline's")
    stages: tuple[Literal["replay", "shadow", "split"], ...] = Field(description="kinds of stages in which it is looked at")
    says: str = Field(description="the criterion as a sentence")

    @property
    def allowed(self) -> float:
        """The ratio candidate / baseline up to which a latency or a cost is good."""
        return 1 + self.margin if self.kind == "non_inferior" else 1 - self.margin


class TrialPlan(Record):
    """Step 8: criteria, stages, guardrails and rollback, fixed before the first request."""

    schema_: Literal["trial_plan/1"] = Field("trial_plan/1", alias="schema")
    bottom_line: str
    candidate: str
    baseline: str
    hypothesis: str
    criteria: tuple[str, ...]
    stages: tuple[dict[str, Any], ...]
    guardrails: tuple[str, ...]
    rollback: tuple[str, ...]
    endpoints: dict[str, Optional[str]]
    criteria_fixed: tuple[TrialCriterion, ...] = ()
    limits: dict[str, float] = Field(default_factory=dict, description="guardrail -> limit: error_rate, agreement (fractions), latency_p99_s")
    confidence: float = Field(0.95, gt=0.5, lt=1)
    method: str = Field("", description="the statistics, with their sources")
    traffic: dict[str, Any] = Field(default_factory=dict, description="where requests come from: origin, rate, seed")
    declared: str = Field("", description="hash of what the params file says about the test; a changed one makes another plan")


class CriterionResult(Frozen):
    """How one criterion stands in one stage."""

    criterion: str
    stage: str
    outcome: Literal["passed", "failed", "inconclusive"]
    because: str
    value: Quantity
    count: int = Field(description="requests of the smaller side")


class StageResult(Frozen):
    """What was sent in one stage, by side."""

    name: str
    mode: Literal["replay", "shadow", "split"]
    share: float
    asked: dict[str, int]
    failed: dict[str, int]
    duration_s: float = Field(ge=0)


class Trial(Record):
    """Step 8: what came of the controlled test. Everything in it follows from the plan and the log."""

    schema_: Literal["trial/1"] = Field("trial/1", alias="schema")
    bottom_line: str
    plan: str = Field(description="id of the plan under which the log was begun")
    candidate: str
    baseline: str
    status: Literal["passed", "failed", "inconclusive", "aborted"]
    valid: bool = Field(description="false: the plan was changed after the test began")
    started_utc: str
    criteria: tuple[CriterionResult, ...] = ()
    overall: dict[str, str] = Field(default_factory=dict, description="criterion -> passed, failed or inconclusive")
    stages: tuple[StageResult, ...] = ()
    breaches: tuple[str, ...] = ()
    rehearsed: bool = False
    rolled_back: Optional[bool] = Field(None, description="null: there was nothing to roll back")
    torn_lines: int = 0
    repeated_requests: int = 0
    log: str = Field(description="name of the log file, in the dossier")
    log_sha256: str
