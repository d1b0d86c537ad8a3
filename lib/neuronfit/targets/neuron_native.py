"""Trainium2 and Trainium3 through TorchNeuron (torch-neuronx 2.13 or later): device ``neuron``.

The contract is the documented one (AWS Neuron SDK 2.33.0, October 2026, a public beta); it was
checked against doubles, not against hardware. Work on the device is asynchronous, so the clock
stops only after the results have been read back with ``.cpu()``.

A call that returns proves nothing: where a graph falls back, eager answers come too. So a
compilation counts only with the metrics of a compiled graph (``get_dynamo_metrics``: one entry per
graph with ``graph_node_count`` and ``torch_neuronx_compile_us``; torch-neuronx sources, 2026).
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any, Optional

from neuronfit import model, system
from neuronfit.diagnose.private import masked
from neuronfit.errors import WaitingForEvidence
from neuronfit.params import Shape
from neuronfit.targets import NotProven, Subject, check_memory, inputs_of, model_of, on_a, refuse_generation, tensors_of

__all__ = ["NeuronNativeTarget"]

NO_FALLBACK = {"TORCH_NEURONX_DISABLE_FALLBACK_EXECUTION": "1", "TORCH_NEURONX_PRESERVE_COMPILATION_ARTIFACTS": "1"}
"""A graph that does not compile must raise; falling back to eager would be timed as if it had compiled."""


class NeuronNativeTarget:
    """One compiled graph of fixed shapes. Settings: ``precision`` (fp32, bf16, fp16)."""

    path = "neuron_native"
    settings = ("precision",)
    compiler_args = ('backend="neuron"', "fullgraph=True", "dynamic=False", "TORCH_NEURONX_DISABLE_FALLBACK_EXECUTION=1")

    def __init__(self, subject: Subject):
        self.subject = subject
        self.proof: Optional[str] = None
        self.cached: Optional[bool] = None
        self.cached_because = "nothing was compiled"
        stated = os.environ.get("NEURON_CC_FLAGS")
        if stated:  # read by the back end too, so it belongs to what was compiled with
            self.compiler_args = (*self.compiler_args, f"NEURON_CC_FLAGS={masked(stated)}")

    def prepare(self, shape: Shape) -> None:
        self.build(shape)
        self.compile()

    def build(self, shape: Shape) -> None:
        """The model on the device, its inputs on the host. Raises ``WaitingForEvidence`` where that cannot be."""
        refuse_generation(self.subject, self.path)
        check_memory(self.subject, shape, system.memory_available(), "host")
        os.environ.update(NO_FALLBACK)
        try:
            import torch_neuronx  # noqa: F401  registers the device
        except ImportError as error:
            raise WaitingForEvidence(
                f"torch_neuronx does not import ({' '.join(str(error).split())[:120]})",
                next=f"{on_a(self.subject.instance_type)} with SDK 2.33 or later: {self.subject.command}",
            ) from error
        self._model = self._output = None
        self._shape = shape
        self._inputs = inputs_of(self.subject, shape)
        built = model_of(self.subject, "cpu")
        if hasattr(built, "config"):
            built.config.use_cache = False
        self._built = built.to("neuron")

    def compile(self, workdir: Optional[Path] = None) -> None:
        """Compile, which happens just in time: one call is made here and read back.

        Compilations of other shapes are forgotten first, or Dynamo would mark the dimension that
        changed as dynamic, which the compiler refuses. Raises what the back end raises, and
        :class:`~neuronfit.targets.NotProven` where the call returned without metrics of a compiled graph.
        """
        import torch
        import torch_neuronx

        self._compile_start = time.time()
        torch._dynamo.reset()
        before = len(_graphs(torch_neuronx) or ())
        self._model = torch.compile(self._built, backend="neuron", fullgraph=True, dynamic=False)
        self.issue()
        self.drain()
        graphs = _graphs(torch_neuronx)
        if graphs is None:
            raise NotProven(
                f"torch_neuronx {torch_neuronx.__version__} has no get_dynamo_metrics, so nothing shows that a graph was compiled",
                next=f"{on_a(self.subject.instance_type)} with a torch-neuronx that has it: {self.subject.command}",
            )
        compiled = graphs[before:]
        if not compiled:
            raise NotProven(
                "the call returned, but get_dynamo_metrics names no compiled graph: it may have run eagerly",
                next="look for a fallback in the log, and set TORCH_NEURONX_DISABLE_FALLBACK_EXECUTION=1",
            )
        nodes = sum(int(getattr(graph, "graph_node_count", 0)) for graph in compiled)
        seconds = sum(float(getattr(graph, "torch_neuronx_compile_us", 0)) for graph in compiled) / 1e6
        self.proof = f"get_dynamo_metrics: {len(compiled)} graph{'' if len(compiled) == 1 else 's'}, {nodes} nodes, {seconds:.3g} s in the compiler"
        self.cached = False if seconds > 0 else None
        self.cached_because = "get_dynamo_metrics states time in the compiler" if seconds > 0 else "get_dynamo_metrics states no time in the compiler"

    def issue(self) -> None:
        there = {name: tensor.to("neuron") for name, tensor in self._inputs.items()}
        self._output = tensors_of(model.call(self._model, there, self.subject.task, self._shape.output_length))

    def drain(self) -> None:
        self._answers = [one.cpu() for one in self._output]

    def save(self, folder: Path) -> list[Path]:
        """The NEFF files this compilation left behind (``TORCH_NEURONX_DEBUG_DIR``); empty when none are found."""
        kept = Path(os.environ.get("TORCH_NEURONX_DEBUG_DIR", "/tmp/neuron_backend"))
        return sorted(path for path in kept.rglob("*.neff") if path.stat().st_mtime >= self._compile_start)

    def describe(self) -> dict[str, Any]:
        return {
            "precision": self.subject.precision,
            "autocast": "none",
            "workers": 1,
            "accelerators_used": 1,
            "route": system.TORCHNEURON_COMPILED,
            "compiler_flags": " ".join(self.compiler_args),
            "neuroncores_used": 1,
        }


def _graphs(torch_neuronx: Any) -> Optional[list[Any]]:
    """Metrics of the graphs compiled so far; ``None`` where this release has none. Waits for the compiler."""
    metrics = getattr(torch_neuronx, "get_dynamo_metrics", None)
    return list(metrics() or ()) if callable(metrics) else None
