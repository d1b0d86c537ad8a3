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
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Optional

from neuronfit import model, system
from neuronfit.diagnose.private import masked
from neuronfit.errors import WaitingForEvidence
from neuronfit.params import Shape
from neuronfit.record import Finding, Severity
from neuronfit.targets import NotProven, Subject, check_memory, inputs_of, model_of, on_a, refuse_generation, tensors_of

__all__ = ["NeuronNativeTarget"]

NO_FALLBACK = {"TORCH_NEURONX_DISABLE_FALLBACK_EXECUTION": "1", "TORCH_NEURONX_PRESERVE_COMPILATION_ARTIFACTS": "1"}
"""A graph that does not compile must raise; falling back to eager would be timed as if it had compiled."""


class NeuronNativeTarget:
    """One graph of fixed shapes, compiled, or operator by operator.

    Settings: ``precision`` (fp32, bf16, fp16), ``mode`` (compiled or eager; a measurement takes both where
    none is set, otherwise compiled is meant), ``workers`` (one process per NeuronCore side by side;
    default 1). In eager mode an operator that the device lacks runs on the CPU and nothing
    is said: operators are tracked, and a run with such operators is no Neuron evidence.
    """

    path = "neuron_native"
    settings = ("precision", "mode", "workers")
    modes = ("compiled", "eager")
    """Measured one after the other where no mode is set: compiled is not always the quicker one."""
    compiler_args = ('backend="neuron"', "fullgraph=True", "dynamic=False", "TORCH_NEURONX_DISABLE_FALLBACK_EXECUTION=1")

    def __init__(self, subject: Subject):
        self.subject = subject
        self.eager = subject.choice("mode", "compiled", self.modes) == "eager"
        self.on_the_cpu: Optional[tuple[str, ...]] = None
        self.proof: Optional[str] = None
        self.cached: Optional[bool] = None
        self.cached_because = "nothing was compiled"
        stated = os.environ.get("NEURON_CC_FLAGS")
        if stated:  # read by the back end too, so it belongs to what was compiled with
            self.compiler_args = (*self.compiler_args, f"NEURON_CC_FLAGS={masked(stated)}")

    def prepare(self, shape: Shape) -> None:
        self.build(shape)
        if not self.eager:
            self.compile()
        self._track()

    def _track(self) -> None:
        """One call with the operators counted: which of them ran on the CPU? ``None`` where this release does not say.

        ``clear_op_tracking`` and ``get_fallback_ops`` (torch-neuronx sources, 2026). The first eager call
        compiles each operator, which is not a warm-up.
        """
        import torch_neuronx

        if self.eager:
            self._model = self._built
        clear, fallen = (getattr(torch_neuronx, name, None) for name in ("clear_op_tracking", "get_fallback_ops"))
        if callable(clear):
            clear()
        self.issue()
        self.drain()
        self.on_the_cpu = tuple(sorted({str(name) for name in fallen()})) if callable(fallen) else None

    def remarks(self) -> Iterator[Finding]:
        """Operators that ran on the CPU, or that nobody can tell."""
        if self.on_the_cpu:
            shown = ", ".join(self.on_the_cpu[:4]) + (f" and {len(self.on_the_cpu) - 4} more" if len(self.on_the_cpu) > 4 else "")
            yield Finding(
                severity=Severity.BLOCKER,
                code="ran_on_the_cpu",
                because=f"{len(self.on_the_cpu)} operators ran on the CPU ({shown}): this is no evidence about Neuron",
                next="compile the graph (settings.mode: compiled), or replace these operators",
            )
        elif self.on_the_cpu is None and self.eager:
            yield Finding(
                severity=Severity.BLOCKER,
                code="ran_on_the_cpu",
                because="this torch-neuronx does not say which operators ran on the CPU (no get_fallback_ops), so an eager run is no evidence about Neuron",
                next="measure with a torch-neuronx that has it, or compile the graph (settings.mode: compiled)",
            )

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

    def read_back(self) -> tuple[Any, ...]:
        """Fetch the answers from the device once more, whatever ``drain`` did."""
        return tuple(one.cpu() for one in self._output)

    def compilations(self) -> Optional[int]:
        """Graphs compiled so far; ``None`` in eager mode and where this release does not say."""
        import torch_neuronx

        graphs = None if self.eager else _graphs(torch_neuronx)
        return None if graphs is None else len(graphs)

    def save(self, folder: Path) -> list[Path]:
        """The NEFF files this compilation left behind (``TORCH_NEURONX_DEBUG_DIR``); empty when none are found."""
        kept = Path(os.environ.get("TORCH_NEURONX_DEBUG_DIR", "/tmp/neuron_backend"))
        return sorted(path for path in kept.rglob("*.neff") if path.stat().st_mtime >= self._compile_start)

    def feed(self, inputs: Mapping[str, Any]) -> None:
        self._inputs = dict(inputs)

    def outputs(self) -> tuple[Any, ...]:
        return tuple(self._answers)

    def describe(self) -> dict[str, Any]:
        return {
            "precision": self.subject.precision,
            "autocast": "none",
            "workers": 1,
            "accelerators_used": 1,
            "route": system.TORCHNEURON_EAGER if self.eager else system.TORCHNEURON_COMPILED,
            "compiler_flags": None if self.eager else " ".join(self.compiler_args),
            "neuroncores_used": 1,
            "operators_on_the_cpu": "not stated" if self.on_the_cpu is None else ", ".join(self.on_the_cpu) or "none",
        }


def _graphs(torch_neuronx: Any) -> Optional[list[Any]]:
    """Metrics of the graphs compiled so far; ``None`` where this release has none. Waits for the compiler."""
    metrics = getattr(torch_neuronx, "get_dynamo_metrics", None)
    return list(metrics() or ()) if callable(metrics) else None
