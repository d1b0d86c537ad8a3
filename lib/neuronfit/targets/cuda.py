"""One GPU, treated fairly: fused attention, half precision where declared, pinned transfers, a full wait.

An unsynchronised or untuned GPU makes any alternative look good, so ``drain`` waits for the device
and everything that was switched on is recorded.
"""

from __future__ import annotations

from typing import Any

from neuronfit import model
from neuronfit.errors import WaitingForEvidence
from neuronfit.params import Shape
from neuronfit.targets import Subject, check_memory, inputs_of, model_of, on_a, tensors_of

__all__ = ["CudaTarget"]


class CudaTarget:
    """PyTorch on ``cuda:0`` in inference mode.

    Settings: ``precision`` (fp32, bf16, fp16), ``tf32`` (fp32 products on the tensor cores; off by
    default), ``compile`` (``torch.compile``; off by default).
    """

    path = "cuda"
    settings = ("precision", "tf32", "compile")

    def __init__(self, subject: Subject):
        self.subject = subject
        self.tf32 = subject.switch("tf32")
        self.compiled = subject.switch("compile")

    def prepare(self, shape: Shape) -> None:
        import torch

        if not torch.cuda.is_available():
            raise WaitingForEvidence(
                f"torch {torch.__version__} sees no GPU here", next=f"{on_a(self.subject.instance_type)}: {self.subject.command}"
            )
        self._model = self._output = None
        self._answers: list[torch.Tensor] = []
        torch.cuda.empty_cache()
        check_memory(self.subject, shape, torch.cuda.mem_get_info()[0], "GPU")
        torch.backends.cuda.matmul.fp32_precision = "tf32" if self.tf32 else "ieee"
        torch.backends.cudnn.conv.fp32_precision = "tf32" if self.tf32 else "ieee"
        self._shape = shape
        self._inputs = {name: tensor.pin_memory() for name, tensor in inputs_of(self.subject, shape).items()}
        built = model_of(self.subject, "cuda")
        self._model = torch.compile(built, dynamic=False) if self.compiled else built
        if self.compiled:  # compiles in its first call, which is not a warm-up
            self.issue()
            self.drain()

    def issue(self) -> None:
        import torch

        there = {name: tensor.to("cuda", non_blocking=True) for name, tensor in self._inputs.items()}
        self._output = tensors_of(model.call(self._model, there, self.subject.task, self._shape.output_length))
        if not self._answers:
            self._answers = [torch.empty(one.shape, dtype=one.dtype, pin_memory=True) for one in self._output]
        for answer, one in zip(self._answers, self._output):
            answer.copy_(one, non_blocking=True)

    def drain(self) -> None:
        import torch

        torch.cuda.synchronize()

    def describe(self) -> dict[str, Any]:
        return {
            "precision": "tf32" if self.tf32 and self.subject.precision == "fp32" else self.subject.precision,
            "autocast": "none",
            "workers": 1,
            "accelerators_used": 1,
            "route": "torch.compile" if self.compiled else "eager",
            "tf32": self.tf32,
        }
