"""Pinned parameter counts of the models on the vendor's inference benchmark page.

``models.csv`` holds, per model and at the task that page measures: the exact count, the arithmetic
that gives it (evaluates to the count), who else prints it, as of when. A count taken from a config
alone depends on the installed transformers; this table does not.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from neuronfit.catalog import tables
from neuronfit.errors import NotFound, nearest

__all__ = ["ModelFacts", "every", "find"]


@dataclass(frozen=True)
class ModelFacts:
    """One model at one task. ``parameters`` counts shared matrices once."""

    name: str
    """as the vendor's page and the model hub have it: ``google/flan-t5-xl``"""
    model_key: str
    """the folder under ``params/models``: ``flan-t5-xl``"""
    task: str
    parameters: int
    formula: str
    source: str
    as_of: str
    """date of the source, ISO"""
    note: str


@lru_cache(maxsize=1)
def every() -> tuple[ModelFacts, ...]:
    """All models, in the order of the file."""
    return tuple(ModelFacts(**{**row, "parameters": int(row["parameters"])}) for row in tables.read("models"))


def find(model_key: str) -> ModelFacts:
    """The facts of one model, by folder name or by full name (``google/flan-t5-xl``).

    Raises :class:`~neuronfit.errors.NotFound` with the nearest names.
    """
    known = {name: facts for facts in every() for name in (facts.name, facts.model_key)}
    if model_key not in known:
        near = nearest(model_key, known)
        raise NotFound("no pinned parameter count for", model_key, allowed=", ".join(near or sorted(known)))
    return known[model_key]
