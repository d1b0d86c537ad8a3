"""The thing being measured: three methods, one class per software path.

``prepare(shape)`` builds (and on Neuron compiles) the model and its inputs, ``issue()`` starts one
call, ``drain()`` returns when its results lie in host memory. The clock of
:mod:`neuronfit.measure` runs from before ``issue`` to after ``drain``, so no target can report the
time it takes to *dispatch* work as the time it takes to do it. Inputs start in host memory and
results end there on every path, because that is what a caller of a model sees.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Optional, Protocol, Union

from neuronfit import model
from neuronfit.catalog import instances
from neuronfit.errors import BadInput, BadParams, WaitingForEvidence
from neuronfit.params import Shape

if TYPE_CHECKING:
    import numpy as np
    import torch

    from neuronfit import params
    from neuronfit.inputs import Inputs
    from neuronfit.question import Question

__all__ = [
    "MEASURED_HERE",
    "THIS_HOST",
    "TIMED_REGION",
    "BenchmarkTarget",
    "FromText",
    "NotProven",
    "Subject",
    "answer_of",
    "check_memory",
    "for_path",
    "inputs_of",
    "may_take_turns",
    "model_of",
    "on_a",
    "refuse_generation",
    "TokenTimes",
    "made",
    "tensors_of",
]

MEASURED_HERE = ("cpu", "cuda", "neuron_xla", "neuron_native")
"""Software paths this code can measure; the others have their own server or tool."""

THIS_HOST = instances.THIS_HOST
"""Instance type of the extra target ``cpu``, and of targets declared with it: whatever machine is at hand."""

TIMED_REGION = "host call, inputs and outputs on the host"

TIMED_FROM_TEXT = "host call from text: tokenizer included, outputs on the host"
"""The timed region where ``workload.inputs.tokenizer_time`` is ``counted``."""

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

    def feed(self, inputs: Mapping[str, torch.Tensor]) -> None:
        """Take other inputs of the same shape, in host memory, for the calls that follow."""

    def outputs(self) -> tuple[torch.Tensor, ...]:
        """What the last call answered, in host memory; only after ``drain``."""

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
    inputs: Optional[Inputs] = None
    """inputs that the params file names; ``None``: made up, full length"""

    @classmethod
    def of(cls, question: Question, target: params.Target) -> "Subject":
        """The subject of one target of a question; the target's ``settings`` win over the workload."""
        from neuronfit.inputs import load_inputs

        asked = question.params.workload
        weights = asked.model.weights
        return cls(
            inputs=load_inputs(question) if asked.inputs else None,
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


def may_take_turns(path: str) -> bool:
    """Can several settings of this path be ready at once? Not on TorchNeuron: preparing one forgets the graphs of the others."""
    return path != "neuron_native"


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
            next="serve it and give the target an endpoint, or adopt the result file of its server's own benchmark",
        )
    return Found


def made(path: str, subject: Subject) -> Any:
    """The target of a path, ready to be prepared; with ``settings.workers`` above 1 that many of them side by side."""
    kind = for_path(path)
    if "workers" in kind.settings and subject.count("workers", 1) > 1:
        from neuronfit.targets.workers import Workers

        return Workers(path, subject)
    return kind(subject)


class TokenTimes:
    """When the tokens of one call came: prefill ends with the first, decode is the rest.

    ``begin`` with the call; :meth:`told` for the prompt and for each token.
    """

    def __init__(self, clock: Callable[[], float] = time.perf_counter):
        self.clock = clock
        self.begin()

    def begin(self) -> None:
        self._start, self._times = self.clock(), []

    def told(self) -> None:
        self._times.append(self.clock())

    def parts(self) -> dict[str, float]:
        """``ttft_s`` from the start of the call to the first token, ``tpot_s`` per token after it; empty without tokens."""
        tokens = self._times[1:]  # the first is the prompt
        found = {"ttft_s": tokens[0] - self._start} if tokens else {}
        if len(tokens) > 1:
            found["tpot_s"] = (tokens[-1] - tokens[0]) / (len(tokens) - 1)
        return found


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
    """The inputs of one call, in host memory: the first ones of what the params file names, else made up."""
    if subject.inputs is not None:
        from neuronfit.inputs import tensors

        return tensors(subject.inputs, subject.config, subject.task, shape)
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


def answer_of(target: BenchmarkTarget) -> np.ndarray:
    """What the last call answered, on the host and copied: float32, or int64 for token ids.

    It is the first tensor of the output: hidden states, logits or tokens, by the task.
    """
    import torch

    first = target.outputs()[0].detach().to("cpu")
    return first.to(torch.float32 if first.is_floating_point() else torch.int64).numpy().copy()


class FromText:
    """A target whose calls begin with the text: the tokenizer works inside the timed call. Everything else is the target's own."""

    def __init__(self, target: Any):
        """Raises :class:`~neuronfit.errors.BadParams` for workers, which are processes of their own and get tensors."""
        if not hasattr(target, "feed"):
            raise BadParams(
                "workload.inputs.tokenizer_time: counted with settings.workers",
                target.subject.settings.get("workers"),
                allowed="tokenizer_time: excluded, or one worker",
                next="serve the copies and give the target an endpoint: there the tokenizer's time is in every latency",
            )
        self._target = target

    def __getattr__(self, name: str) -> Any:
        return getattr(self._target, name)

    def prepare(self, shape: Shape) -> None:
        from neuronfit import inputs

        subject = self._target.subject
        self._next = inputs.FromText(subject.inputs, subject.config, subject.task, shape)
        self._target.prepare(shape)

    def issue(self) -> None:
        self._target.feed(self._next())
        self._target.issue()

    def describe(self) -> dict[str, Any]:
        return {**self._target.describe(), "timed_region": TIMED_FROM_TEXT}


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
            next="serve it with vLLM on the Neuron host and give the target an endpoint, or adopt the result file of vLLM's own benchmark",
        )
