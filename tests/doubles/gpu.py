"""Double of a CUDA device for one test: an asynchronous queue, strict about what real ones are strict about.

Written from PyTorch's notes on CUDA semantics (asynchronous execution, pinned memory, events, graphs). It
computes on the CPU and says nothing about speed: ``log`` is what it is for. A copy to the host is
there only after ``synchronize``; until then its memory holds nan.
"""

from __future__ import annotations

import math
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import torch

log: list[str] = []
"""What happened, in order: ``copy in``, ``copy out``, ``record``, ``synchronize``, ``capture``, ``replay``."""


class Event:
    def __init__(self, enable_timing: bool = False):
        self.timing, self.recorded, self.done = enable_timing, False, False

    def record(self) -> None:
        log.append("record")
        self.recorded, self.done = True, False
        _queue.append(self.finish)

    def finish(self) -> None:
        self.done = True

    def elapsed_time(self, other: "Event") -> float:
        if not (self.timing and other.timing):
            raise RuntimeError("Both events must be created with argument 'enable_timing=True'.")
        if not (self.done and other.done):
            raise RuntimeError("Both events must be completed before calculating elapsed time.")
        return 2.5


_queue: list[Any] = []
"""Work that was handed over and is not done."""

_pinned: set[int] = set()
_capturing: list["Graph"] = []


class Stream:
    def wait_stream(self, other: "Stream") -> None: ...


class Graph:
    """Records what runs while it is captured, and repeats it on the same memory."""

    def __init__(self) -> None:
        self.function: Any = None

    def replay(self) -> None:
        log.append("replay")
        self.function()


def synchronize() -> None:
    log.append("synchronize")
    while _queue:
        _queue.pop(0)()


def install(monkeypatch: Any) -> None:
    """Give torch a GPU for one test."""
    log.clear(), _queue.clear(), _pinned.clear()
    tensor_to, module_to, tensor_copy, empty = torch.Tensor.to, torch.nn.Module.to, torch.Tensor.copy_, torch.empty

    def to_tensor(self: torch.Tensor, *where: Any, **options: Any) -> torch.Tensor:
        if where[:1] == ("cuda",):
            if _capturing:
                raise RuntimeError("memory that is allocated while a graph is captured is not what a call is given later")
            if options.get("non_blocking") and id(self) not in _pinned:
                raise RuntimeError("a copy that does not block needs pinned memory, or it blocks and is slow")
            log.append("copy in")
            there = self.clone()
            there.on_gpu = True
            return there
        return tensor_to(self, *where, **options)

    def pin(self: torch.Tensor) -> torch.Tensor:
        _pinned.add(id(self))
        _kept.append(self)
        return self

    _kept: list[torch.Tensor] = []

    def make(*sizes: Any, pin_memory: bool = False, device: Any = None, **options: Any) -> torch.Tensor:
        if device is not None and not str(device).startswith("cuda"):
            options["device"] = device
        made = empty(*sizes, **options)
        if pin_memory:
            made.fill_(math.nan)
            _pinned.add(id(made))
            _kept.append(made)
        return made

    def copy(self: torch.Tensor, other: torch.Tensor, non_blocking: bool = False) -> torch.Tensor:
        if non_blocking and id(self) in _pinned:
            log.append("copy out")
            _queue.append(lambda: tensor_copy(self, other))
            return self
        return tensor_copy(self, other)

    @contextmanager
    def capture(graph: Graph) -> Any:
        log.append("capture")
        if _queue:
            raise RuntimeError("operation not permitted when stream is capturing")
        if "side stream" not in log:
            raise RuntimeError("a graph is captured after calls on a side stream, or it holds what libraries set up in their first call")
        _capturing.append(graph)
        try:
            yield
        finally:
            _capturing.remove(graph)

    @contextmanager
    def stream(of: Stream) -> Any:
        log.append("side stream")
        yield

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "a double")
    monkeypatch.setattr(torch.backends.cuda, "matmul", SimpleNamespace(fp32_precision="none"))
    monkeypatch.setattr(torch.backends.cudnn, "conv", SimpleNamespace(fp32_precision="none"))
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda: (2**34, 2**34))
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: None)
    monkeypatch.setattr(torch.cuda, "synchronize", synchronize)
    monkeypatch.setattr(torch.cuda, "Event", Event)
    monkeypatch.setattr(torch.cuda, "Stream", Stream)
    monkeypatch.setattr(torch.cuda, "current_stream", Stream)
    monkeypatch.setattr(torch.cuda, "stream", stream)
    monkeypatch.setattr(torch.cuda, "CUDAGraph", Graph)
    monkeypatch.setattr(torch.cuda, "graph", capture)
    monkeypatch.setattr(torch.Tensor, "to", to_tensor)
    monkeypatch.setattr(torch.Tensor, "pin_memory", pin)
    monkeypatch.setattr(torch.Tensor, "copy_", copy)
    monkeypatch.setattr(torch, "empty", make)
    monkeypatch.setattr(torch.nn.Module, "to", lambda self, *where, **options: self if where[:1] == ("cuda",) else module_to(self, *where, **options))
