"""Inferentia2 and Trainium through ``torch_neuronx.trace`` (torch-neuronx up to 2.9, SDK up to 2.31).

The contract is the documented one (AWS Neuron SDK 2.31, inference API reference, 2026-03-13); it
was checked against doubles of these signatures, not against hardware. A traced module takes and
returns CPU tensors, so its call returns after the read-back and there is nothing left to wait for.
The weights are part of the artefact, which is why a trace is never taken from the compile cache.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Optional

from neuronfit import system
from neuronfit.catalog import instances
from neuronfit.errors import BadParams, NotFound, WaitingForEvidence
from neuronfit.params import Shape
from neuronfit.targets import Subject, check_memory, inputs_of, model_of, on_a, refuse_generation, tensors_of

if TYPE_CHECKING:
    import torch

__all__ = ["NeuronXlaTarget"]

INT64_FLAGS_SINCE = (2, 27)
"""neuronx-cc release that added ``--native-int64`` and ``--implicit-integer-downcast`` (SDK 2.32.0,
compiler release notes, 2026-08-17); an older one refuses them as unknown."""

INT64_TARGETS = ("trn2", "trn3")
"""Compiler targets for which the two flags are documented."""


class NeuronXlaTarget:
    """One traced graph of fixed shapes, on one NeuronCore or copied to several. Every flag that changes the numbers is passed, none is left to a default.

    Settings: ``precision`` (of the model), ``auto_cast`` (none, matmult, all; default none: the
    compiler's default changed in SDK 2.27), ``auto_cast_type`` (bf16, fp16, tf32; default bf16, used
    when auto_cast is not none), ``model_type`` (transformer, generic, unet-inference), ``optlevel``
    (1, 2, 3; default 2), ``native_int64`` (disabled, enabled; default disabled) and
    ``implicit_integer_downcast`` (all, none; default all). The last two are passed on Trn2 and later
    to a compiler that knows them; the vendor has announced to change their defaults.

    ``data_parallel`` (NeuronCores, default 1): one call is split over that many copies of the graph
    (``torch_neuronx.DataParallel``), each compiled for its part of the batch, which must divide.
    ``workers`` (default 1): that many processes side by side, each with one core of its own
    (``NEURON_RT_VISIBLE_CORES``) and a whole batch, as the vendor's page measures *Data Parallel*.
    """

    path = "neuron_xla"
    settings = (
        *("precision", "auto_cast", "auto_cast_type", "model_type", "optlevel", "native_int64", "implicit_integer_downcast"),
        *("data_parallel", "workers"),
    )
    cached: Optional[bool] = False
    cached_because = "the weights are part of a traced artefact, which is never taken from the compile cache"
    proof = "torch_neuronx.trace returned a compiled module"

    def __init__(self, subject: Subject):
        self.subject = subject
        self.auto_cast = subject.choice("auto_cast", "none", ("none", "matmult", "all"))
        self.auto_cast_type = subject.choice("auto_cast_type", "bf16", ("bf16", "fp16", "tf32"))
        self.copies = subject.count("data_parallel", 1)
        if self.copies > 1 and subject.count("workers", 1) > 1:
            raise BadParams("settings.data_parallel beside workers", self.copies, allowed="one of the two", next="remove one")
        target = compiler_target(subject.instance_type)
        model_type = subject.choice("model_type", "transformer", ("transformer", "generic", "unet-inference"))
        self.compiler_args = ["--target", target, "--auto-cast", self.auto_cast, "--auto-cast-type", self.auto_cast_type]
        self.compiler_args += ["--optlevel", str(subject.count("optlevel", 2)), "--model-type", model_type]
        int64 = subject.choice("native_int64", "disabled", ("disabled", "enabled"))
        downcast = subject.choice("implicit_integer_downcast", "all", ("all", "none"))
        if target in INT64_TARGETS and _release(system.import_neuron()[0].get("neuronxcc")) >= INT64_FLAGS_SINCE:
            self.compiler_args += [f"--native-int64={int64}", f"--implicit-integer-downcast={downcast}"]

    def prepare(self, shape: Shape) -> None:
        self.build(shape)
        self.compile()

    def build(self, shape: Shape) -> None:
        """The model and its inputs in host memory. Raises ``WaitingForEvidence`` where that cannot be."""
        refuse_generation(self.subject, self.path)
        check_memory(self.subject, shape, system.memory_available(), "host")
        if shape.batch_size % self.copies:
            raise BadParams("shapes: batch_size does not divide over data_parallel", shape.batch_size, allowed=f"a multiple of {self.copies}")
        self._traced = self._output = None
        inputs = inputs_of(self.subject, shape)
        self._function = _positional(model_of(self.subject, "cpu"), tuple(inputs))
        self._names = tuple(inputs)
        self.feed(inputs)

    def analyze(self, workdir: Path) -> dict[str, Any]:
        """The official pre-check: each operator compiled alone. Needs the compiler and no device.

        ``is_hf_transformers`` is what the documentation asks for with transformers models, to prevent deadlocks.
        """
        return dict(self._torch_neuronx().analyze(self._function, self._inputs, compiler_workdir=str(workdir), is_hf_transformers=True))

    def compile(self, workdir: Optional[Path] = None) -> None:
        """Trace and compile. Raises whatever the compiler raises; its exception types are not documented.

        Without a Neuron device ``cpu_backend`` lets any host with the compiler do it.
        """
        options: dict[str, Any] = {} if system.neuron_devices() else {"cpu_backend": True}
        if workdir is not None:
            options["compiler_workdir"] = str(workdir)
        torch_neuronx = self._torch_neuronx()
        part = tuple(tensor[: len(tensor) // self.copies] for tensor in self._inputs) if self.copies > 1 else self._inputs
        self._traced = torch_neuronx.trace(self._function, part, compiler_args=list(self.compiler_args), **options)
        self._whole = self._traced
        if self.copies > 1:
            self._whole = torch_neuronx.DataParallel(self._traced, device_ids=list(range(self.copies)), dim=0)
            self._whole.disable_dynamic_batching()  # so that another shape than the compiled one is refused and not looped over

    def load(self, file: Path, shape: Shape) -> None:
        """Take what :meth:`save` wrote instead of compiling: a worker beside the one that compiled."""
        import torch

        self._torch_neuronx()
        self.build(shape)
        self._traced = self._whole = torch.jit.load(str(file))

    def _torch_neuronx(self) -> Any:
        try:
            import torch_neuronx
        except ImportError as error:
            raise WaitingForEvidence(
                f"torch_neuronx does not import ({' '.join(str(error).split())[:120]})",
                next=f"{on_a(self.subject.instance_type)} with SDK 2.31 or earlier: {self.subject.command}",
            ) from error
        return torch_neuronx

    def issue(self) -> None:
        self._output = self._whole(*self._inputs)

    def drain(self) -> None:
        """Nothing to wait for: the traced call has read its results back when it returns."""

    def save(self, folder: Path) -> list[Path]:
        """Write the compiled artefact into ``folder``; it runs on Neuron devices only."""
        path = folder / "model.pt"
        self._traced.save(str(path))
        return [path]

    def feed(self, inputs: Mapping[str, Any]) -> None:
        self._inputs = tuple(self._function.cast(inputs[name]) for name in self._names)

    def outputs(self) -> tuple[Any, ...]:
        return tuple(self._output)

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
            "neuroncores_used": self.copies,
            "dp_degree": self.copies if self.copies > 1 else None,
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


def _release(version: Optional[str]) -> tuple[int, ...]:
    """``"2.26.6360.0+b4a0"`` -> ``(2, 26)``; nothing known is older than everything."""
    numbers = re.match(r"(\d+)\.(\d+)", version or "")
    return (int(numbers[1]), int(numbers[2])) if numbers else ()


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
