"""What a model computes: its operators, from the exported graph."""

from __future__ import annotations

import copy
import traceback
import warnings
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Mapping, Optional

from neuronfit.model.construction import replace_buffers, replace_parameters, skeleton
from neuronfit.model.inputs import example_inputs
from neuronfit.model.refusals import one_line

if TYPE_CHECKING:
    import torch

__all__ = ["Graph", "graph_of", "operators"]


@dataclass(frozen=True)
class Graph:
    """How often each operator occurs in one forward pass.

    ``exported`` counts the ATen operators as the model is written (``aten.linear.default``),
    ``decomposed`` after ``run_decompositions`` (``aten.addmm.default``). ``how`` is ``"torch.export
    non-strict on meta"`` or, for models that do not allow that, ``"... on fake cpu"``. Where export
    fails both are empty, ``how`` is ``"module inspection"``, ``modules`` counts the module types
    instead and ``error`` says why, with the source line.
    """

    exported: dict[str, int]
    decomposed: dict[str, int]
    how: str
    torch_version: str
    attention: Optional[str] = None
    """``sdpa`` or ``eager``: it changes the list"""
    modules: Optional[dict[str, int]] = None
    error: Optional[str] = None


def operators(
    config: Mapping[str, Any],
    task: str,
    batch_size: int,
    sequence_length: int,
    *,
    output_length: Optional[int] = None,
) -> Graph:
    """The operators of one forward pass (no cache), from the skeleton: no weights, no accelerator.

    For generation this is the pass over the whole prompt; a decoding step uses the same operators
    plus those of the cache. Raises :class:`~neuronfit.errors.BadParams` as :func:`example_inputs`
    does; a model that cannot be exported is an answer, not an error (see :class:`Graph`).
    """
    inputs = example_inputs(config, task, batch_size, sequence_length, output_length=output_length, device="meta")
    return graph_of(skeleton(config, task), inputs)


def graph_of(model: torch.nn.Module, inputs: Mapping[str, torch.Tensor]) -> Graph:
    """The operators of ``model(**inputs)``, both on one device (meta will do).

    What cannot be exported on meta (some models ask for autocast there) is tried again as CPU
    tensors without data.
    """
    import torch

    device = next(iter(inputs.values())).device.type
    attention = getattr(getattr(model, "config", None), "_attn_implementation", None)
    for place in (device, "fake cpu"):
        try:
            exported, decomposed = _exported(*(_as_fake_cpu(model, inputs) if place == "fake cpu" else (model, inputs)))
            return Graph(exported, decomposed, f"torch.export non-strict on {place}", torch.__version__, attention)
        except Exception as error:  # the exporter raises anything; the reason is part of the answer
            reason = f"{type(error).__name__}: {one_line(error)} ({_source_line(error)})"
    leaves = Counter(type(part).__name__ for part in model.modules() if not any(part.children()))
    modules = dict(sorted(leaves.items()))
    return Graph({}, {}, "module inspection", torch.__version__, attention, modules=modules, error=reason)


def _exported(model: torch.nn.Module, inputs: Mapping[str, Any]) -> tuple[dict[str, int], dict[str, int]]:
    """Operator counts before and after decomposition."""
    import inspect

    import torch

    class TensorsOnly(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, **named: Any) -> Any:
            output = self.model(**named)
            if isinstance(output, torch.Tensor):
                return output
            parts = output.values() if isinstance(output, Mapping) else output
            return tuple(part for part in parts if isinstance(part, torch.Tensor))

    if "use_cache" in inspect.signature(model.forward).parameters:
        inputs = {**inputs, "use_cache": False}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what the exporter warns of is its own code, not the model
        program = torch.export.export(TensorsOnly(), (), dict(inputs), strict=False)
        return _count_operators(program), _count_operators(program.run_decompositions())


def _as_fake_cpu(model: torch.nn.Module, inputs: Mapping[str, torch.Tensor]) -> tuple[torch.nn.Module, dict[str, torch.Tensor]]:
    """A copy of model and inputs as CPU tensors that have a shape and no data."""
    import torch
    from torch._subclasses.fake_tensor import FakeTensorMode

    def empty(like: torch.Tensor) -> torch.Tensor:
        return torch.empty(like.shape, dtype=like.dtype, device="cpu")

    model = copy.deepcopy(model)
    with FakeTensorMode():
        replace_parameters(model, lambda name, parameter: empty(parameter))
        replace_buffers(model, empty)
        return model, {name: empty(tensor) for name, tensor in inputs.items()}


def _count_operators(program: Any) -> dict[str, int]:
    import torch

    counts = Counter(
        str(node.target)
        for graph in program.graph_module.modules()
        if isinstance(graph, torch.fx.GraphModule)
        for node in graph.graph.nodes
        if node.op == "call_function" and isinstance(node.target, torch._ops.OpOverload)
    )
    return {name: count for name, count in sorted(counts.items()) if not name.startswith("aten._assert")}


def _source_line(error: BaseException) -> str:
    """The innermost line outside torch, as file:line in function."""
    import torch

    inside = str(Path(torch.__file__).parent)
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not frame.filename.startswith(inside)]
    frame = frames[-1]
    return f"{Path(frame.filename).name}:{frame.lineno} in {frame.name}"
