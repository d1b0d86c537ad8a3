"""What every place needs to know of the plan, and the names that places take."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, field
from typing import Optional

__all__ = ["PLACES", "Handover", "Side", "Stage", "label", "placeholders"]

PLACES = ("sagemaker", "alb", "gateway", "argo", "batch")

LONGEST = 40
"""Characters of a name, so that a suffix fits into the 63 of SageMaker and Kubernetes."""


@dataclass(frozen=True)
class Stage:
    """One stage: ``mode`` is ``replay``, ``shadow`` or ``split``; ``share`` is the candidate's fraction of the traffic.

    A replay is sent by ``neuronfit trial`` to both sides and needs nothing of the place where production runs.
    """

    name: str
    mode: str
    share: float
    minutes: float

    @property
    def lasts(self) -> str:
        """``canary 1 %: at least 60 minutes``, on one line whatever the name holds."""
        return f"{' '.join(self.name.split())}: at least {self.minutes:g} minutes"


@dataclass(frozen=True)
class Side:
    """The fleet of one side. ``instances``: how many; ``devices``: GPUs or Neuron chips of one."""

    instance_type: str
    instances: int = 1
    devices: int = 1

    @property
    def neuron(self) -> bool:
        return self.instance_type.startswith(("inf", "trn"))


@dataclass(frozen=True)
class Handover:
    name: str
    """of the workload; letters, digits, dots, dashes and underscores"""
    baseline: Side
    candidate: Side
    stages: tuple[Stage, ...]
    max_error_fraction: float
    max_latency_p99_s: Optional[float] = None
    plan_id: str = ""
    """id of the plan record, written into every object as a tag or label"""
    counted: bool = field(default=False)
    """were the instances declared or computed? Otherwise they are one a side"""

    @property
    def slug(self) -> str:
        """The name as services take it: a letter, then lower case, digits and dashes, at most 40; a name that had to be cut ends in its hash."""
        plain = re.sub(r"[^a-z0-9]+", "-", self.name.lower()).strip("-")
        if not plain[:1].isalpha():  # a Service of Kubernetes begins with a letter
            plain = f"m-{plain}".rstrip("-")
        if len(plain) <= LONGEST:
            return plain
        return f"{plain[: LONGEST - 7].rstrip('-')}-{hashlib.sha256(self.name.encode()).hexdigest()[:6]}"

    @property
    def in_production(self) -> tuple[Stage, ...]:
        """Stages that need production's traffic, in order."""
        return tuple(stage for stage in self.stages if stage.mode != "replay")

    @property
    def shadowed(self) -> bool:
        return any(stage.mode == "shadow" for stage in self.stages)

    @property
    def splits(self) -> tuple[Stage, ...]:
        return tuple(stage for stage in self.stages if stage.mode == "split")

    def side(self, name: str) -> Side:
        return self.baseline if name == "baseline" else self.candidate


def label(text: str) -> str:
    """Any text as the value of a Kubernetes label: at most 63 of a-z, 0-9 and dashes, ends with neither."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:63].rstrip("-")


def placeholders(text: str) -> list[str]:
    """What the team fills in: words of at least three capitals with an underscore, such as ``MODEL_BASELINE``."""
    return sorted(set(re.findall(r"\b[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+\b", text)))
