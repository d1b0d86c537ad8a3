"""A model from its config: how big it is, what it computes, and a runnable copy of it.

Everything starts from a published ``config.json``; no weights are needed to count parameters, to
estimate memory, to list operators or to time a run. The only importer of transformers, and only
inside functions: ``import neuronfit.model`` loads neither torch nor transformers.

One :data:`task <TASKS>` says which model class is meant, what goes in and what one useful result
is. A *skeleton* has the model's structure on the meta device and no weights; a *build* has storage.
Random weights, token ids and pixels come from integer arithmetic, not from a random generator, so
that a GPU host and a Neuron host given the same config and seed run the same model on the same
input.
"""

from __future__ import annotations

from neuronfit.model.architecture import PRECISIONS, TASKS, Task, config_digest, position_limit, read_config, read_json
from neuronfit.model.construction import build, skeleton, whole_skeleton
from neuronfit.model.inputs import call, example_inputs, useful_results
from neuronfit.model.parts import Part, parts_of
from neuronfit.model.size import MemoryNeed, bytes_by_precision, count_parameters, memory_needed

__all__ = [
    "PRECISIONS",
    "TASKS",
    "MemoryNeed",
    "Part",
    "Task",
    "build",
    "bytes_by_precision",
    "call",
    "config_digest",
    "count_parameters",
    "example_inputs",
    "memory_needed",
    "parts_of",
    "position_limit",
    "read_config",
    "read_json",
    "skeleton",
    "useful_results",
    "whole_skeleton",
]
