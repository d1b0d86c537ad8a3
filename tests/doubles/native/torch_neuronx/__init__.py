"""Double of torch-neuronx 2.14 (TorchNeuron): device ``neuron`` and ``torch.compile(backend="neuron")``.

The device is imitated by marking: ``.to("neuron")`` marks, a model that is on the device refuses
inputs that are not, and ``.cpu()`` is logged as the read-back it is.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

__version__ = "2.14.3.0.1234"

log: list[str] = []
"""What happened, in order: ``to``, ``reset``, ``compile``, ``execute``, ``read back``."""

fail_with: list[Exception] = []
"""Put an exception here and the next compilation raises it."""


@dataclass
class Graph:
    """Metrics of one compiled graph: the fields that the library reads."""

    graph_node_count: int = 412
    torch_neuronx_compile_us: int = 3_200_000


graphs: list[Graph] = []

lacking: list[str] = []
"""Operators that the device does not have: an eager call runs them on the CPU and says nothing."""

_fallen: set[str] = set()


def clear_op_tracking() -> None:
    """Forget which operators ran where."""
    _fallen.clear()


def get_fallback_ops() -> list[str]:
    """Operators that ran on the CPU since the last clearing."""
    return sorted(_fallen)


def get_dynamo_metrics() -> list[Graph]:
    """One entry per graph that was compiled; nothing for one that fell back."""
    return list(graphs)


class Compiled(torch.nn.Module):
    """What ``torch.compile(backend="neuron")`` returns: compiles in its first call per shape."""

    def __init__(self, model: torch.nn.Module):
        super().__init__()
        self.model = model
        self.signatures: set[Any] = set()

    def forward(self, **inputs: torch.Tensor) -> Any:
        for name, tensor in inputs.items():
            if not getattr(tensor, "on_neuron", False):
                raise RuntimeError(f"expected all tensors on device neuron, {name} is on cpu")
        signature = tuple((name, tuple(tensor.shape), tensor.dtype) for name, tensor in inputs.items())
        if signature not in self.signatures:
            log.append("compile")
            if fail_with:
                if os.environ.get("TORCH_NEURONX_DISABLE_FALLBACK_EXECUTION", "1") != "0":  # raising is the default
                    raise fail_with.pop()
                log.append("fell back to eager")
            else:
                graphs.append(Graph())
                _leave_a_neff()
            self.signatures.add(signature)
        log.append("execute")
        hooks, self.model._forward_pre_hooks = self.model._forward_pre_hooks, type(self.model._forward_pre_hooks)()
        try:  # a compiled graph does not go operator by operator
            return self.model(**inputs)
        finally:
            self.model._forward_pre_hooks = hooks

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(self.model, name)


def _eager(given: tuple[Any, ...], named: dict[str, Any]) -> None:
    """The model on the device is called: its inputs have to be there too, and what the device lacks runs on the CPU."""
    for tensor in (*given, *named.values()):
        if isinstance(tensor, torch.Tensor) and not getattr(tensor, "on_neuron", False):
            raise RuntimeError("expected all tensors on device neuron, one is on cpu")
    log.append("operators")
    _fallen.update(lacking)


def _leave_a_neff() -> None:
    """Artefacts stay where TORCH_NEURONX_DEBUG_DIR says, if they are to be kept."""
    where = os.environ.get("TORCH_NEURONX_DEBUG_DIR")
    if where and os.environ.get("TORCH_NEURONX_PRESERVE_COMPILATION_ARTIFACTS") == "1":
        Path(where).mkdir(parents=True, exist_ok=True)
        (Path(where) / f"graph{len(graphs)}.neff").write_bytes(b"NEFF" * 100)


def attach(monkeypatch: Any) -> None:
    """Give torch the device and the backend for one test."""
    module_to, tensor_to, tensor_cpu = torch.nn.Module.to, torch.Tensor.to, torch.Tensor.cpu
    for name in (lacking, _fallen, log, graphs, fail_with):
        name.clear()

    def to_module(self: torch.nn.Module, *where: Any, **options: Any) -> torch.nn.Module:
        if where[:1] != ("neuron",):
            return module_to(self, *where, **options)
        log.append("to")
        self.on_neuron = True
        self.register_forward_pre_hook(lambda module, given, named: _eager(given, named), with_kwargs=True)
        return self

    def to_tensor(self: torch.Tensor, *where: Any, **options: Any) -> torch.Tensor:
        if where[:1] != ("neuron",):
            return tensor_to(self, *where, **options)
        there = self.clone()
        there.on_neuron = True
        return there

    def cpu(self: torch.Tensor, *arguments: Any, **options: Any) -> torch.Tensor:
        log.append("read back")
        return tensor_cpu(self, *arguments, **options)

    def compile(model: Any = None, *positional: Any, fullgraph: bool = False, dynamic: Any = None, backend: str = "inductor", **rest: Any) -> Any:
        if positional or rest:
            raise TypeError(f"not documented for this backend: {positional or rest}")
        if backend != "neuron":
            raise ValueError(f"backend {backend!r}; this double compiles for 'neuron' only")
        if dynamic is not False:
            raise RuntimeError("NCC_EMOD025: dynamic shapes are not supported; pass dynamic=False")
        if not fullgraph:
            raise RuntimeError("a graph break would go unseen: the documentation recommends fullgraph=True")
        if not getattr(model, "on_neuron", False):
            raise RuntimeError("the model is not on device neuron")
        return Compiled(model)

    from torch import _dynamo

    monkeypatch.setattr(_dynamo, "reset", lambda: log.append("reset"))
    monkeypatch.setattr(torch.nn.Module, "to", to_module)
    monkeypatch.setattr(torch.Tensor, "to", to_tensor)
    monkeypatch.setattr(torch.Tensor, "cpu", cpu)
    monkeypatch.setattr(torch, "compile", compile)
