"""Double of torch-neuronx 2.9 (XLA): ``trace`` and ``analyze`` with their documented signatures."""

from __future__ import annotations

import shlex
import warnings
from typing import Any

import torch

__version__ = "2.9.0.2.15.32035"

FLAGS = {
    "--auto-cast": ("none", "matmult", "all"),
    "--auto-cast-type": ("bf16", "fp16", "tf32", "fp8_e4m3"),
    "--model-type": ("generic", "transformer", "unet-inference"),
    "--optlevel": ("1", "2", "3"),
    "--target": ("inf2", "trn1", "trn1n", "trn2"),
}

calls: list[dict[str, Any]] = []
"""Every ``trace``, in order: the arguments it was given."""

fail_with: list[Exception] = []
"""Put an exception here and the next compilation raises it."""


class Traced(torch.nn.Module):
    """A compiled graph: shapes and dtypes are frozen, CPU tensors in, CPU tensors out."""

    def __init__(self, func: torch.nn.Module, example_inputs: tuple[torch.Tensor, ...]):
        super().__init__()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.script = torch.jit.trace(func, example_inputs, strict=False, check_trace=False)
        self.frozen = [(tuple(one.shape), one.dtype) for one in example_inputs]

    def forward(self, *tensors: torch.Tensor) -> Any:
        for given, (shape, dtype) in zip(tensors, self.frozen, strict=True):
            if given.device.type != "cpu":
                raise RuntimeError(f"a traced module takes CPU tensors, not {given.device}")
            if tuple(given.shape) != shape or given.dtype != dtype:
                raise RuntimeError(f"input is {tuple(given.shape)} {given.dtype}, the graph was compiled for {shape} {dtype}")
        with torch.no_grad():
            return self.script(*tensors)

    def save(self, path: str, **options: Any) -> None:
        """As of a script module."""
        self.script.save(path, **options)


def trace(
    func: Any,
    example_inputs: Any,
    *positional: Any,
    input_output_aliases: dict = {},  # noqa: B006  as documented
    compiler_workdir: Any = None,
    compiler_args: Any = None,
    partitioner_config: Any = None,
    inline_weights_to_neff: bool = True,
    cpu_backend: bool = False,
) -> Traced:
    """``torch_neuronx.trace``; everything after the inputs is keyword-only."""
    if positional:
        raise TypeError("trace() options are keyword-only")
    if not (compiler_args is None or isinstance(compiler_args, str) or all(isinstance(one, str) for one in compiler_args)):
        raise TypeError("compiler_args is a str or a list of str")
    words = shlex.split(compiler_args) if isinstance(compiler_args, str) else list(compiler_args or [])
    flags = dict(zip(words[::2], words[1::2], strict=True))
    for flag, value in flags.items():
        if flag not in FLAGS or value not in FLAGS[flag]:
            raise RuntimeError(f"neuronx-cc: error: unrecognized argument {flag} {value}")
    if cpu_backend and "--target" not in flags:
        raise ValueError("cpu_backend=True needs an explicit --target")
    inputs = (example_inputs,) if isinstance(example_inputs, torch.Tensor) else tuple(example_inputs)
    calls.append({"func": func, "inputs": inputs, "flags": flags, "cpu_backend": cpu_backend})
    if fail_with:
        raise fail_with.pop()
    return Traced(func, inputs)


def analyze(func: Any, example_inputs: Any, compiler_workdir: Any = None, **documented: Any) -> dict[str, Any]:
    """The official pre-check. The percentage is a string."""
    unknown = set(documented) - {"additional_ignored_ops", "max_workers", "is_hf_transformers", "cleanup"}
    if unknown:
        raise TypeError(f"analyze() got an unexpected keyword {sorted(unknown)[0]}")
    return {
        "torch_neuronx_version": __version__,
        "neuronx_cc_version": "2.22.12471.0+b4a00d10",
        "support_percentage": "100.00%",
        "supported_operators": {"aten::linear": 3},
        "unsupported_operators": [],
    }
