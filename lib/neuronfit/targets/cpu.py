"""The CPU of the host at hand. Real evidence for that CPU; never a stand-in for an accelerator."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from neuronfit import model, system
from neuronfit.params import Shape
from neuronfit.targets import Subject, TokenTimes, check_memory, inputs_of, model_of, tensors_of

__all__ = ["CpuTarget"]


class CpuTarget:
    """Eager PyTorch in inference mode.

    Settings: ``precision`` (fp32, bf16, fp16), ``threads`` (default: the physical cores this process
    may use), ``workers`` (processes side by side, which share these cores; default 1). Text that is
    generated is timed in two parts, the first token and the others.
    """

    path = "cpu"
    settings = ("precision", "threads", "workers")

    def __init__(self, subject: Subject):
        self.subject = subject
        self.threads = subject.count("threads", max(1, system.physical_cores() // subject.count("workers", 1)))
        self._tokens = TokenTimes() if model.TASKS[subject.task].generates else None
        if self._tokens is not None:
            self.parts = self._tokens.parts

    def prepare(self, shape: Shape) -> None:
        import torch

        self._threads(torch)
        check_memory(self.subject, shape, system.memory_available(), "host")
        self._output = None
        self._shape = shape
        self._inputs = inputs_of(self.subject, shape)
        self._model = model_of(self.subject, "cpu")

    def _threads(self, torch: Any) -> None:
        if torch.get_num_threads() != self.threads:  # another setting of this session may have chosen otherwise
            torch.set_num_threads(self.threads)

    def resume(self) -> None:
        """Before a run, when other settings had their turn."""
        import torch

        self._threads(torch)

    def issue(self) -> None:
        if self._tokens is not None:
            self._tokens.begin()
        told = self._tokens.told if self._tokens is not None else None
        self._output = model.call(self._model, self._inputs, self.subject.task, self._shape.output_length, told)

    def drain(self) -> None:
        """Nothing to wait for: a CPU call returns with its results."""

    def feed(self, inputs: Mapping[str, Any]) -> None:
        self._inputs = dict(inputs)

    def outputs(self) -> tuple[Any, ...]:
        return tensors_of(self._output)

    def describe(self) -> dict[str, Any]:
        return {"precision": self.subject.precision, "autocast": "none", "threads": self.threads, "workers": 1, "route": "eager"}
