"""The answer: what a log says, why, and what to do."""

from __future__ import annotations

from typing import Literal, Optional

from pydantic import BaseModel, ConfigDict, Field

from neuronfit.record import Finding

__all__ = ["Diagnosis", "Evidence", "Mention"]


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Evidence(_Frozen):
    """A line of the log, shortened, with private data masked. Lines count from 1."""

    line: int
    text: str


class Mention(_Frozen):
    """A message beside the verdict: a further error, or one that only looks like an error."""

    code: str
    title: str
    line: int
    count: int = 1


class Diagnosis(_Frozen):
    """What a log says. Everything that is shown of the log is masked (ids, hosts, accounts, users, tokens)."""

    outcome: Literal["success", "failed", "partial", "environment", "unknown"]
    phase: str = Field(description="compile, load, execute, serve, analyze, environment, or any when it is not known")
    code: str = Field(description="the vendor's code or status where the log has one, else our own name")
    title: str = Field(description="what it means, in one sentence")
    cause: str = Field("", description="the likely cause in this log: operator, size, count, ratio")
    evidence: tuple[Evidence, ...] = ()
    steps: tuple[str, ...] = Field((), description="what to try, in order")
    finding: Finding
    confidence: Literal["sure", "likely", "guess"]
    why: str = Field(description="what the confidence leans on")
    harmless: tuple[Mention, ...] = ()
    others: tuple[Mention, ...] = Field((), description="further errors, the nearest to the root first")
    facts: dict[str, str] = Field(default_factory=dict, description="versions, flags, seconds")
    missing: tuple[str, ...] = Field((), description="what to add so that the log can be judged")
    informative: tuple[Evidence, ...] = Field((), description="the lines that say most, where the log is not recognised")
    source: Optional[str] = Field(None, description="catalogue source of the code, see sources.csv")
    lines: int = 0
    bytes: int = 0

    @property
    def exit_status(self) -> int:
        """0 the log says success, 1 a failure was found, 3 it cannot be told."""
        return {"success": 0, "unknown": 3}.get(self.outcome, 1)

    @property
    def sentence(self) -> str:
        """Outcome, meaning and cause in one paragraph."""
        word = {
            "success": "SUCCEEDED",
            "failed": "FAILED",
            "partial": "PARTLY SUPPORTED",
            "environment": "NOT RUN (environment)",
            "unknown": "CANNOT TELL",
        }[self.outcome]
        return " ".join(part for part in (f"{word}: {self.title.rstrip('.')}.", self.cause) if part)
