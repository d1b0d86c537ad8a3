"""The CPU of the host at hand. Real evidence for that CPU; never a stand-in for an accelerator."""

from __future__ import annotations

from typing import Any

from neuronfit import model, system
from neuronfit.params import Shape
from neuronfit.targets import Subject, check_memory, inputs_of, model_of

__all__ = ["CpuTarget"]


class CpuTarget:
    """Eager PyTorch in inference mode.

    Settings: ``precision`` (fp32, bf16, fp16), ``threads`` (default: the physical cores this process
    may use).
    """

    path = "cpu"
    settings = ("precision", "threads")

    def __init__(self, subject: Subject):
        self.subject = subject
        self.threads = subject.count("threads", system.physical_cores())

    def prepare(self, shape: Shape) -> None:
        import torch

        check_memory(self.subject, shape, system.memory_available(), "host")
        torch.set_num_threads(self.threads)
        self._output = None
        self._shape = shape
        self._inputs = inputs_of(self.subject, shape)
        self._model = model_of(self.subject, "cpu")

    def issue(self) -> None:
        self._output = model.call(self._model, self._inputs, self.subject.task, self._shape.output_length)

    def drain(self) -> None:
        """Nothing to wait for: a CPU call returns with its results."""

    def describe(self) -> dict[str, Any]:
        return {"precision": self.subject.precision, "autocast": "none", "threads": self.threads, "workers": 1, "route": "eager"}
