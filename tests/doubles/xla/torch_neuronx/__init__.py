"""Double of torch-neuronx 2.9 (XLA): ``trace`` and ``analyze`` with their documented signatures."""

from __future__ import annotations

import os
import shlex
import subprocess
import warnings
from typing import Any

if os.environ.get("NEURON_DOUBLE_SIGNAL"):  # dies as a compiler does, in the process that compiles
    print("INFO: neuronx-cc is working", flush=True)
    os.kill(os.getpid(), int(os.environ["NEURON_DOUBLE_SIGNAL"]))
if os.environ.get("NEURON_DOUBLE_EXIT"):  # leaves without an answer, and leaves a worker behind
    print("worker", subprocess.Popen(["sleep", "1000"]).pid, flush=True)
    os._exit(int(os.environ["NEURON_DOUBLE_EXIT"]))

if os.environ.get("NEURON_DOUBLE_CORES"):  # a file that hears which process sees which cores
    with open(os.environ["NEURON_DOUBLE_CORES"], "a") as heard:
        heard.write(f"{os.getpid()} {os.environ.get('NEURON_RT_VISIBLE_CORES', 'all')}\n")

import neuronxcc  # noqa: E402
import torch  # noqa: E402

__version__ = "2.9.0.2.15.32035"

FLAGS = {
    "--auto-cast": ("none", "matmult", "all"),
    "--auto-cast-type": ("bf16", "fp16", "tf32", "fp8_e4m3"),
    "--model-type": ("generic", "transformer", "unet-inference"),
    "--optlevel": ("1", "2", "3"),
    "--target": ("inf2", "trn1", "trn1n", "trn2"),
}

FLAGS_SINCE_2_27 = {
    "--native-int64": ("default", "enabled", "disabled"),
    "--implicit-integer-downcast": ("default", "all", "none", "dot", "scatter", "all_reduce", "reduce_scatter", "pow"),
}
"""Added by SDK 2.32 and documented for Trn2 and later."""

calls: list[dict[str, Any]] = []
"""Every ``trace``, in order: the arguments it was given."""

fail_with: list[Exception] = []
"""Put an exception here and the next compilation raises it."""

fails_at: dict[tuple[int, ...], Exception] = {}
"""Shape of the first input -> what compiling it raises, every time."""

analyses: list[dict[str, Any]] = []
"""Every ``analyze``, in order: the keywords it was given."""

unsupported: list[dict[str, str]] = []
"""What ``analyze`` objects to, beside three operators that it takes."""


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
    words = [part for word in words for part in word.split("=", 1)]
    flags = dict(zip(words[::2], words[1::2], strict=True))
    release = tuple(int(part) for part in neuronxcc.__version__.split(".")[:2])
    known = {**FLAGS, **(FLAGS_SINCE_2_27 if release >= (2, 27) and flags.get("--target") == "trn2" else {})}
    for flag, value in flags.items():
        if flag not in known or value not in known[flag]:
            raise RuntimeError(f"neuronx-cc: error: unrecognized argument {flag} {value}")
    if cpu_backend and "--target" not in flags:
        raise ValueError("cpu_backend=True needs an explicit --target")
    inputs = (example_inputs,) if isinstance(example_inputs, torch.Tensor) else tuple(example_inputs)
    calls.append({"func": func, "inputs": inputs, "flags": flags, "cpu_backend": cpu_backend})
    if fail_with:
        raise fail_with.pop()
    if tuple(inputs[0].shape) in fails_at:
        raise fails_at[tuple(inputs[0].shape)]
    if os.environ.get("NEURON_DOUBLE_FAILS"):
        print("ERROR 12 [NCC_EXTP004]: Instruction count 7340032 exceeds the limit 5000000", flush=True)
        raise RuntimeError("neuronx-cc failed with 70")
    return Traced(func, inputs)


def analyze(func: Any, example_inputs: Any, compiler_workdir: Any = None, **documented: Any) -> dict[str, Any]:
    """The official pre-check. The percentage is a string."""
    unknown = set(documented) - {"additional_ignored_ops", "max_workers", "is_hf_transformers", "cleanup"}
    if unknown:
        raise TypeError(f"analyze() got an unexpected keyword {sorted(unknown)[0]}")
    if not documented.get("is_hf_transformers") and any(type(one).__module__.startswith("transformers.") for one in func.modules()):
        raise RuntimeError("deadlock: a transformers model is analysed without is_hf_transformers=True")
    analyses.append({"compiler_workdir": compiler_workdir, **documented})
    return {
        "torch_neuronx_version": __version__,
        "neuronx_cc_version": neuronxcc.__version__,
        "support_percentage": f"{300 / (3 + len(unsupported)):.2f}%",
        "supported_operators": {"aten::linear": 3},
        "unsupported_operators": list(unsupported),
    }


class DataParallel:
    """``torch_neuronx.DataParallel`` (SDK 2.31): a batch split over copies of one traced module, joined again."""

    def __init__(self, model: Traced, device_ids: Any = None, dim: int = 0, set_dynamic_batching: bool = True):
        if not isinstance(model, Traced):
            raise TypeError("DataParallel takes a traced module")
        if not device_ids or len(set(device_ids)) != len(device_ids):
            raise ValueError("device_ids: distinct NeuronCores")
        self.model, self.device_ids, self.dim, self.dynamic = model, list(device_ids), dim, set_dynamic_batching
        self.num_workers = 2 * len(self.device_ids)

    def disable_dynamic_batching(self) -> None:
        self.dynamic = False

    def __call__(self, *tensors: torch.Tensor) -> Any:
        count = len(self.device_ids)
        if not self.dynamic and any(tensor.shape[self.dim] / count != shape[self.dim] for tensor, (shape, _) in zip(tensors, self.model.frozen)):
            raise RuntimeError("with dynamic batching off, the batch over the cores must be the compiled one")
        parts = [self.model(*part) for part in zip(*(tensor.chunk(count, self.dim) for tensor in tensors))]
        return tuple(torch.cat(same, self.dim) for same in zip(*parts))
