"""The params file: one YAML file is one question.

The models below *are* the documentation of the file: each field has a unit, a default and the
values it allows, and ``params/params.schema.json`` is generated from them. Reading is strict: an
unknown key is an error that names the nearest known key, a wrong type or unit is an error that
says what is allowed. Millisecond keys exist here because people write them; everything that is
stored is SI.

Only what has no sensible default must be given: ``workload``, ``baseline`` and ``candidates``.

===============  ===========================================================================
``workload``     model, shapes, inputs, quality; traffic; objective
``target``       baseline and candidates, their endpoints, files of evidence
``money``        prices and what they are bought through
``test``         the controlled production test
``policy``       what counts as different, how a fleet is run
``whole``        the file: its sections, and what must agree between them
``credentials``  what a file must never hold
``reading``      the file, read strictly, problems in one line each
===============  ===========================================================================
"""

from __future__ import annotations

from neuronfit.params.credentials import SECRETS
from neuronfit.params.money import PriceOverride, Pricing
from neuronfit.params.policy import Capacity, Policy
from neuronfit.params.reading import json_schema, load, parse
from neuronfit.params.target import Endpoint, Evidence, Target
from neuronfit.params.test import DEFAULT_STAGES, Criterion, CriterionMetric, Stage, Trial
from neuronfit.params.whole import SECTIONS, Params
from neuronfit.params.workload import (
    HOURS_PER_MONTH,
    QUALITY,
    SECONDS_PER_MONTH,
    Inputs,
    Model,
    Objective,
    Quality,
    Shape,
    Surrounding,
    Trace,
    Traffic,
    Workload,
)
from neuronfit.sections import DEFAULT_TASKS, TEMPLATES, Doubt, Effort, HostCost, Task, Training

__all__ = [
    "Capacity",
    "Criterion",
    "CriterionMetric",
    "DEFAULT_STAGES",
    "DEFAULT_TASKS",
    "Doubt",
    "Effort",
    "Endpoint",
    "Evidence",
    "HOURS_PER_MONTH",
    "HostCost",
    "Inputs",
    "Model",
    "Objective",
    "Params",
    "Policy",
    "PriceOverride",
    "Pricing",
    "QUALITY",
    "Quality",
    "SECONDS_PER_MONTH",
    "SECRETS",
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
