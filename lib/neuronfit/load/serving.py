"""What to type where a path is measured through a server: start it, name its address, measure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from neuronfit import targets
from neuronfit.catalog import instances, paths
from neuronfit.errors import NeuronFitError

if TYPE_CHECKING:
    from neuronfit.params import Target
    from neuronfit.question import Question

__all__ = ["SERVED", "how_to_measure"]

SERVED = ("endpoint", "vllm_neuron", "nxd_inference", "optimum_neuron", "jax", "torch_neuron")
"""Paths that are measured through an endpoint, or adopted from the benchmark of their own server."""


def how_to_measure(question: Question, target: Target) -> str:
    """The next step for a target of a served path, on one line: with an endpoint measure it, without one serve it first."""
    measure = f"neuronfit measure {question.command_name} --target {target.name}"
    if target.endpoint is not None:
        return f"on a host beside the server at {target.endpoint.url}: {measure}"
    write = f"write endpoint: {{url: 'http://HOST:8000'}} under {target.name} and run {measure}"
    place = targets.on_a(target.instance_type)
    if target.path == "endpoint":
        return f"{place}: start the server, {write}"
    command = _command(question, target)
    start = f"serve it with `{command}`" if command else f"serve it by path {target.path} (no command is known for this model, see step 2)"
    return f"{place}: {start}, {write}; or adopt the result file of that server's own benchmark: neuronfit adopt FILE --for {target.name}"


def _command(question: Question, target: Target) -> str:
    """The serving command of the path, filled in for this workload; empty where there is none on one line."""
    from neuronfit import memory
    from neuronfit.recipe import recipe

    if not paths.find(target.path, target.instance_type).supported:
        return ""
    shape = max(question.params.workload.shapes, key=lambda one: one.batch_size * (one.sequence_length + (one.output_length or 0)))
    try:
        anatomy = memory.describe(question.config, question.published_as)
        parts = memory.needed(
            anatomy, shape.batch_size, shape.sequence_length, question.params.workload.precision, output_length=shape.output_length or 0
        )
        known = instances.find(target.instance_type).accelerator_memory_bytes
        command = recipe(question, target, memory.best(anatomy, parts, target.instance_type) if known else None, anatomy).command
    except NeuronFitError:
        return ""
    return command if command and "\n" not in command else ""
