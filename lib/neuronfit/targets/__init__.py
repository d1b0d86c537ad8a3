"""The thing being measured: three methods, one class per software path.

``prepare(shape)`` builds (and on Neuron compiles) the model and its inputs, ``issue()`` starts one
call, ``drain()`` returns when its results lie in host memory. The clock of
:mod:`neuronfit.measure` runs from before ``issue`` to after ``drain``, so no target can report the
time it takes to *dispatch* work as the time it takes to do it. Inputs start in host memory and
results end there on every path, because that is what a caller of a model sees.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Optional, Protocol, Union

from neuronfit import model
from neuronfit.errors import BadInput, BadParams, WaitingForEvidence
from neuronfit.params import Shape

if TYPE_CHECKING:
    import torch

    from neuronfit import params
    from neuronfit.question import Question

__all__ = [
    "MEASURED_HERE",
    "THIS_HOST",
    "TIMED_REGION",
    "BenchmarkTarget",
    "NotProven",
    "Subject",
    "check_memory",
    "for_path",
    "inputs_of",
    "model_of",
    "on_a",
    "refuse_generation",
    "tensors_of",
]

MEASURED_HERE = ("cpu", "cuda", "neuron_xla", "neuron_native")
"""Software paths this code can measure; the others have their own server or tool."""

THIS_HOST = "this-host"
"""Instance type of the extra target ``cpu``: whatever machine is at hand."""

TIMED_REGION = "host call, inputs and outputs on the host"

RESERVE = 1.2
"""Memory wanted over what the formula counts: allocator, runtime and fragmentation are not in it."""


class NotProven(WaitingForEvidence):
    """A call returned, and nothing shows that a compiled graph answered it."""


class BenchmarkTarget(Protocol):
    """What the measurement protocol needs of a target."""

    def prepare(self, shape: Shape) -> None:
        """Build and compile everything for this shape. Raises ``WaitingForEvidence`` where it cannot be had."""

    def issue(self) -> None:
        """Start one call. May return before it has finished."""

    def drain(self) -> None:
        """Return when the results of everything issued lie in host memory."""

    def describe(self) -> dict[str, Any]:
        """Settings that are on: keys of ``record.Settings``, and others that are recorded beside them."""


@dataclass(frozen=True)
class Subject:
    """What is measured: the model, how it is set, where it is meant to run, what to type for it."""

    config: Mapping[str, Any]
    task: str
    precision: str = "fp32"
    weights: str = "random"
    settings: Mapping[str, Union[bool, int, float, str]] = field(default_factory=dict)
    instance_type: str = THIS_HOST
    command: str = "neuronfit measure PARAMS --target NAME"
    seed: int = 0

    @classmethod
    def of(cls, question: Question, target: params.Target) -> "Subject":
        """The subject of one target of a question; the target's ``settings`` win over the workload."""
        asked = question.params.workload
        weights = asked.model.weights
        return cls(
            config=question.config,
            task=asked.model.task,
            precision=str(target.settings.get("precision", asked.precision)),
            weights=weights if weights == "random" else str(question.file(weights)),
            settings=target.settings,
            instance_type=target.instance_type,
            command=f"neuronfit measure {question.command_name} --target {target.name}",
        )

    def choice(self, name: str, default: str, allowed: tuple[str, ...]) -> str:
        """A setting that is one of a few words. Raises :class:`~neuronfit.errors.BadParams`."""
        value = self.settings.get(name, default)
        if value not in allowed:
            raise BadParams(f"settings.{name}", value, allowed=", ".join(allowed))
        return str(value)

    def switch(self, name: str) -> bool:
        """A setting that is on or off; off by default. Raises :class:`~neuronfit.errors.BadParams`."""
        value = self.settings.get(name, False)
        if not isinstance(value, bool):
            raise BadParams(f"settings.{name}", value, allowed="true or false")
        return value

    def count(self, name: str, default: int) -> int:
        """A setting that is a whole number from 1. Raises :class:`~neuronfit.errors.BadParams`."""
        value = self.settings.get(name, default)
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise BadParams(f"settings.{name}", value, allowed="a whole number from 1")
        return value


def for_path(path: str) -> type:
    """The class of a software path. Raises :class:`~neuronfit.errors.BadInput` for one that is not measured here."""
    if path == "cpu":
        from neuronfit.targets.cpu import CpuTarget as Found
    elif path == "cuda":
        from neuronfit.targets.cuda import CudaTarget as Found  # type: ignore[assignment]
    elif path == "neuron_xla":
        from neuronfit.targets.neuron_xla import NeuronXlaTarget as Found  # type: ignore[assignment]
    elif path == "neuron_native":
        from neuronfit.targets.neuron_native import NeuronNativeTarget as Found  # type: ignore[assignment]
    else:
        raise BadInput(
            "this code does not measure the path",
            path,
            allowed=", ".join(MEASURED_HERE),
            next="use the benchmark of its own server; this code does not read such files yet",
        )
    return Found


# -- what the paths share ---------------------------------------------------------------------


def model_of(subject: Subject, device: str) -> torch.nn.Module:
    """The runnable model in the subject's precision."""
    return model.build(
        subject.config,
        subject.task,
        precision=subject.precision,
        device=device,
        weights=subject.weights,
        seed=subject.seed,
    )


def inputs_of(subject: Subject, shape: Shape) -> dict[str, torch.Tensor]:
    """The inputs of one call, in host memory."""
    return model.example_inputs(
        subject.config,
        subject.task,
        shape.batch_size,
        shape.sequence_length,
        output_length=shape.output_length,
        seed=subject.seed,
    )


def tensors_of(output: Any) -> tuple[torch.Tensor, ...]:
    """The tensors of a model's answer, caches left out."""
    import torch

    if isinstance(output, torch.Tensor):
        return (output,)
    parts = output.values() if isinstance(output, Mapping) else output
    return tuple(part for part in parts if isinstance(part, torch.Tensor))


def check_memory(subject: Subject, shape: Shape, available: Optional[int], where: str) -> None:
    """Refuse before anything is allocated. ``available`` in bytes; ``None`` (unknown) checks nothing.

    Raises :class:`~neuronfit.errors.WaitingForEvidence` when the formula of
    :func:`neuronfit.model.memory_needed` with 20 % reserve does not fit.
    """
    if available is None:
        return
    need = model.memory_needed(subject.config, subject.task, shape.batch_size, shape.sequence_length, subject.precision, shape.output_length)
    wanted = round(need.total_bytes * RESERVE)
    if wanted > available:
        gib = 2**30
        raise WaitingForEvidence(
            f"not enough {where} memory for batch {shape.batch_size}, sequence {shape.sequence_length} in {subject.precision}: "
            f"{wanted / gib:.3g} GiB needed (weights {need.weights_bytes / gib:.3g}, activations {need.activations_bytes / gib:.3g}, "
            f"20 % reserve), {available / gib:.3g} GiB available",
            next=f"on a host with more memory: {subject.command}",
        )


def on_a(instance_type: str) -> str:
    """Where to type a command: ``on a g6.xlarge``, ``on an inf2.xlarge``, ``here`` without a type."""
    if instance_type == THIS_HOST:
        return "here"
    return f"on {'an' if instance_type[0] in 'aeiou' else 'a'} {instance_type}"


def refuse_generation(subject: Subject, path: str) -> None:
    """A loop that writes tokens is not one graph of fixed shape. Raises ``WaitingForEvidence``."""
    if model.TASKS[subject.task].generates:
        raise WaitingForEvidence(
            f"{subject.task} is a loop of many graphs, which path {path} does not measure",
            next="serve it with vLLM on the Neuron host and use its own benchmark; this code does not read such files yet",
        )
