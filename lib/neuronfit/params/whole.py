"""The file as a whole: its sections, and what must agree between them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import Field, field_validator, model_validator

from neuronfit.errors import nearest
from neuronfit.params.credentials import SECRETS, texts_in
from neuronfit.params.money import Pricing
from neuronfit.params.policy import Policy
from neuronfit.params.target import Evidence, Target
from neuronfit.params.test import Trial
from neuronfit.params.workload import Objective, Traffic, Workload
from neuronfit.sections import Effort, Section

__all__ = ["Params", "SECTIONS", "nearest_text"]


class Params(Section):
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

    @model_validator(mode="before")
    @classmethod
    def _no_credentials(cls, data: Any) -> Any:
        """The message never repeats what was written."""
        for section, value in data.items() if isinstance(data, Mapping) else ():
            for where, text in texts_in(value, str(section)):
                if SECRETS.search(text):
                    raise ValueError(f"{where} holds a private key or token; put it into an environment variable and its name into api_key_env")
        return data

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
                raise ValueError(f"{place}: no {what} is named {given!r}; named are {', '.join(known)}{nearest_text(given, known)}")
        return self

    @property
    def targets(self) -> tuple[Target, ...]:
        """Baseline first, then the candidates."""
        return (self.baseline, *self.candidates)


SECTIONS = tuple(Params.model_fields)
"""Top-level keys of the file, the same names as the notebooks' parameters."""


def nearest_text(name: str, known: Any) -> str:
    """`` (nearest: ...)``, or nothing where no known name is near."""
    near = nearest(name, known)
    return f" (nearest: {near[0]})" if near else ""
