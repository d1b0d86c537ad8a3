"""Inferentia2 and Trainium through ``torch_neuronx.trace`` (torch-neuronx up to 2.9, SDK up to 2.31).

The contract is the documented one (AWS Neuron SDK 2.31, inference API reference, 2026-03-13); it
was checked against doubles of these signatures, not against hardware. A traced module takes and
returns CPU tensors, so its call returns after the read-back and there is nothing left to wait for.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from neuronfit import system
from neuronfit.catalog import instances
from neuronfit.errors import NotFound, WaitingForEvidence
from neuronfit.params import Shape
from neuronfit.targets import Subject, check_memory, inputs_of, model_of, on_a, refuse_generation, tensors_of

if TYPE_CHECKING:
    import torch

__all__ = ["NeuronXlaTarget"]


class NeuronXlaTarget:
    """One traced graph of fixed shapes on one NeuronCore.

    Settings: ``precision`` (of the model), ``auto_cast`` (none, matmult, all; default none and always
    passed, since the compiler's default changed between releases), ``auto_cast_type`` (bf16, fp16,
    tf32), ``model_type`` (transformer, generic, unet-inference), ``optlevel`` (1, 2, 3; default 2).
    """

    path = "neuron_xla"
    settings = ("precision", "auto_cast", "auto_cast_type", "model_type", "optlevel")

    def __init__(self, subject: Subject):
        self.subject = subject
        self.auto_cast = subject.choice("auto_cast", "none", ("none", "matmult", "all"))
        self.auto_cast_type = subject.choice("auto_cast_type", "bf16", ("bf16", "fp16", "tf32"))
        self.compiler_args = ["--auto-cast", self.auto_cast]
        self.compiler_args += ["--auto-cast-type", self.auto_cast_type] if self.auto_cast != "none" else []
        model_type = subject.choice("model_type", "transformer", ("transformer", "generic", "unet-inference"))
        self.compiler_args += ["--model-type", model_type, "--optlevel", str(subject.count("optlevel", 2))]
        self.compiler_args += ["--target", compiler_target(subject.instance_type)]

    def prepare(self, shape: Shape) -> None:
        self.build(shape)
        self.compile()

    def build(self, shape: Shape) -> None:
        """The model and its inputs in host memory. Raises ``WaitingForEvidence`` where that cannot be."""
        refuse_generation(self.subject, self.path)
        check_memory(self.subject, shape, system.memory_available(), "host")
        self._traced = self._output = None
        inputs = inputs_of(self.subject, shape)
        self._function = _positional(model_of(self.subject, "cpu"), tuple(inputs))
        self._inputs = tuple(self._function.cast(tensor) for tensor in inputs.values())

    def compile(self) -> None:
        """Trace and compile. Raises whatever the compiler raises; its exception types are not documented."""
        try:
            import torch_neuronx
        except ImportError as error:
            raise WaitingForEvidence(
                f"torch_neuronx does not import ({' '.join(str(error).split())[:120]})",
                next=f"{on_a(self.subject.instance_type)} with SDK 2.31 or earlier: {self.subject.command}",
            ) from error
        without_device = {} if system.neuron_devices() else {"cpu_backend": True}
        self._traced = torch_neuronx.trace(self._function, self._inputs, compiler_args=list(self.compiler_args), **without_device)

    def issue(self) -> None:
        self._output = self._traced(*self._inputs)

    def drain(self) -> None:
        """Nothing to wait for: the traced call has read its results back when it returns."""

    def save(self, folder: Path) -> list[Path]:
        """Write the compiled artefact into ``folder``; it runs on Neuron devices only."""
        path = folder / "model.pt"
        self._traced.save(str(path))
        return [path]

    def describe(self) -> dict[str, Any]:
        precision = self.subject.precision
        if self.auto_cast == "all":
            precision = self.auto_cast_type
        elif self.auto_cast == "matmult" and precision == "fp32":
            precision = "tf32" if self.auto_cast_type == "tf32" else f"fp32_{self.auto_cast_type}_matmul"
        return {
            "precision": precision,
            "autocast": "none" if self.auto_cast == "none" else f"{self.auto_cast} {self.auto_cast_type}",
            "workers": 1,
            "accelerators_used": 1,
            "route": system.XLA_TRACE,
            "compiler_flags": " ".join(self.compiler_args),
            "neuroncores_used": 1,
        }


def compiler_target(instance_type: str) -> str:
    """The value of the compiler's ``--target``. Raises ``WaitingForEvidence`` where the catalogue has none."""
    try:
        target = instances.find(instance_type).compiler_target
    except NotFound:
        target = None
    if target is None:
        raise WaitingForEvidence(f"no compiler target is known for {instance_type}", next="name an Inf2, Trn1 or Trn2 type in the params file")
    return target


def _positional(built: torch.nn.Module, names: tuple[str, ...]) -> torch.nn.Module:
    """The model as a trace wants it: tensors in by position, a tuple of tensors out, no cache."""
    import torch

    if hasattr(built, "config"):
        built.config.use_cache = False

    class Positional(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = built

        def cast(self, tensor: torch.Tensor) -> torch.Tensor:
            return tensor.to(built.dtype) if tensor.is_floating_point() else tensor

        def forward(self, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
            return tensors_of(self.model(**dict(zip(names, tensors))))

    return Positional().eval()
