"""What every section of the params file is made of, and the sections about training, doubt, money beside the instances and people.

Part of :mod:`neuronfit.params`, which is where to import them from.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, Optional, get_args

from pydantic import BaseModel, ConfigDict, Field, model_validator

__all__ = ["DEFAULT_TASKS", "Doubt", "Effort", "HostCost", "Section", "TEMPLATES", "Task", "Training"]


class Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    @model_validator(mode="before")
    @classmethod
    def _true_is_not_a_number(cls, data: Any) -> Any:
        """Pydantic would read ``true`` as 1; as a word it is refused, under its own key."""
        if not isinstance(data, Mapping):
            return data
        fields = cls.model_fields
        return {
            key: str(value).lower() if isinstance(value, bool) and key in fields and _is_number(fields[key].annotation) else value
            for key, value in data.items()
        }


def _is_number(annotation: Any) -> bool:
    return bool({int, float} & {annotation, *get_args(annotation)})


class Training(Section):
    """One training run: how much is processed, and what comes on top of the computing."""

    samples: Optional[float] = Field(None, gt=0, description="samples (sequences, images) of one run, all epochs together")
    tokens: Optional[float] = Field(None, gt=0, description="tokens of one run; either this or samples")
    scaling_efficiency: float = Field(
        1.0, gt=0, le=1, description="throughput of several instances over that of one times their number, fraction; an assumption until measured"
    )
    checkpoint_every_h: float = Field(1.0, gt=0, description="computing time between two checkpoints, hours")
    checkpoint_s: float = Field(0.0, ge=0, description="time that writing a checkpoint stops the computing, seconds")
    restart_s: float = Field(
        0.0, ge=0, description="time from an interruption until computing goes on, seconds: a new instance, the image, the checkpoint"
    )
    interruptions_per_month: float = Field(
        0.0, ge=0, description="interruptions of one instance in a month of running: failures, and reclaims of spot instances"
    )

    runs_per_month: Optional[float] = Field(None, gt=0, description="runs in a month; without it a saving per month, and payback, are not known")

    @model_validator(mode="after")
    def _one_amount(self) -> "Training":
        if (self.samples is None) == (self.tokens is None):
            raise ValueError("give the amount of one run, either samples or tokens")
        return self


class HostCost(Section):
    """A cost that stands beside the instances: storage, a load balancer, data transfer."""

    name: str = Field(description="what it is; a cost of the same name is added to it")
    usd_per_month: float = Field(0.0, ge=0, description="USD per month, whatever the volume")
    usd_per_million: float = Field(0.0, ge=0, description="USD per million results asked for")
    target: Optional[str] = Field(None, description="the target that it belongs to; default: every one")


class Doubt(Section):
    """Half width of the 95 % interval that is assumed where a number brings none: from value / (1 + x) to value x (1 + x).

    Every default is an assumption of ours. 0 takes the number as certain.
    """

    published: float = Field(0.25, ge=0, description="a throughput that a vendor or a paper printed")
    imported: float = Field(0.10, ge=0, description="a throughput from another tool's file, without its raw values")
    measured: float = Field(0.05, ge=0, description="a throughput measured here that has no interval")
    estimated: float = Field(0.50, ge=0, description="a throughput that we estimated")
    volume: float = Field(0.20, ge=0, description="the declared volume; a recorded one is certain")
    price: float = Field(0.0, ge=0, description="a price that is quoted on its day")
    estimated_price: float = Field(0.20, ge=0, description="a price that is our estimate, such as that of a spot instance")


class Task(Section):
    """One piece of migration work."""

    name: str = Field(description="what has to be done")
    low: float = Field(ge=0, description="optimistic, person-days")
    likely: float = Field(ge=0, description="most likely, person-days")
    high: float = Field(ge=0, description="pessimistic, person-days")

    @model_validator(mode="after")
    def _ordered(self) -> "Task":
        if not self.low <= self.likely <= self.high:
            raise ValueError(f"{self.name}: low {self.low:g}, likely {self.likely:g}, high {self.high:g} are not in order")
        return self


def _template(*rows: tuple[str, float, float, float]) -> tuple[Task, ...]:
    return tuple(Task(name=name, low=low, likely=likely, high=high) for name, low, likely, high in rows)


TEMPLATES: dict[str, tuple[Task, ...]] = {
    "small": _template(
        ("convert and compile the model", 0.5, 1, 3),
        ("build the serving image and deployment", 0.5, 1, 3),
        ("validate quality against the baseline", 0.5, 1, 2),
        ("pipelines, monitoring and alerts", 0.5, 1, 2),
        ("rollback and controlled test", 0.5, 1, 2),
        ("train the people on call", 0.5, 0.5, 1),
    ),
    "medium": _template(
        ("convert and compile the model", 2, 4, 10),
        ("build the serving image and deployment", 2, 4, 8),
        ("validate quality against the baseline", 2, 3, 8),
        ("pipelines, monitoring and alerts", 2, 4, 8),
        ("rollback and controlled test", 1, 3, 6),
        ("train the people on call", 1, 2, 4),
    ),
    "large": _template(
        ("convert and compile the models", 10, 20, 50),
        ("build the serving images and deployments", 8, 15, 40),
        ("validate quality against the baseline", 5, 12, 30),
        ("data and release pipelines", 5, 12, 30),
        ("monitoring, alerts and capacity planning", 4, 8, 20),
        ("rollback and controlled tests", 4, 8, 20),
        ("train the people who build and run it", 4, 8, 16),
    ),
}
"""Assumptions of ours, to be replaced by the team's own plan. Small: one stateless model and a stack that already serves it elsewhere.
Medium: one inference service in production. Large: several models or a training job with its pipelines."""

DEFAULT_TASKS = TEMPLATES["medium"]


class Effort(Section):
    """What the move costs in people, and the candidate's bill for the while that the baseline keeps running beside it."""

    template: Literal["small", "medium", "large"] = Field("medium", description="size of the migration; sets the tasks where none are given")
    tasks: tuple[Task, ...] = Field(DEFAULT_TASKS, description="person-days as low, likely, high; replaces the template's")
    tasks_of_findings: bool = Field(True, description="add a task for each blocker and condition that steps 2 and 3 found")
    finding_tasks: dict[str, Task] = Field(
        default_factory=dict, description="code of a finding -> the task it becomes, where ours does not suit; 0 days leaves it out"
    )
    day_rate_usd: float = Field(1000.0, ge=0, description="USD per person-day")
    upkeep_days_per_month: float = Field(1.0, ge=0, description="additional upkeep after the move, person-days per month")
    upkeep_days_per_release: Optional[float] = Field(
        None, ge=0, description="person-days per release of the Neuron SDK that is taken; replaces upkeep_days_per_month"
    )
    releases_per_year: Optional[float] = Field(
        None, ge=0, description="releases of the SDK that are taken in a year; default: as the catalogue dates them"
    )
    second_migration_probability: Optional[float] = Field(
        None, ge=0, le=1, description="probability of moving again within the horizon; default: by the status of the software path"
    )
    second_migration_share: float = Field(0.5, ge=0, description="effort of a second migration over that of the first")
    parallel_days: Optional[float] = Field(
        None,
        ge=0,
        description="days for which the candidate runs while the baseline keeps running: its bill for them is spent; default: the stages of the controlled test",
    )
    horizon_months: int = Field(36, ge=1, le=120, description="how far ahead payback is looked for, months")
    discount_rate: float = Field(0.0, ge=0, lt=1, description="yearly discount rate, fraction")

    @property
    def base_tasks(self) -> tuple[Task, ...]:
        """The declared tasks, or those of the template."""
        return self.tasks if "tasks" in self.model_fields_set else TEMPLATES[self.template]
