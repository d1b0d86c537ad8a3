"""One GPU, treated fairly: fused attention, half precision where declared, pinned transfers, a full wait.

An unsynchronised or untuned GPU makes any alternative look good, so ``drain`` waits for the device
and everything that was switched on is recorded.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any, Optional

from neuronfit import model
from neuronfit.errors import BadParams, WaitingForEvidence
from neuronfit.model.refusals import one_line
from neuronfit.params import Shape
from neuronfit.record import Finding, Severity
from neuronfit.stats import median
from neuronfit.targets import Subject, TokenTimes, check_memory, inputs_of, model_of, on_a, tensors_of

__all__ = ["CudaTarget"]


class CudaTarget:
    """PyTorch on the first visible GPU in inference mode.

    Settings: ``precision`` (fp32, bf16, fp16: the weights themselves, no autocast), ``tf32`` (fp32 products
    on the tensor cores; off by default), ``compile`` (``torch.compile``; off by default), ``compile_mode``
    (default, reduce-overhead, max-autotune; with compile), ``cuda_graph`` (one captured graph replayed for
    each call; off by default), ``channels_last`` (memory format of images; off by default), ``workers``
    (processes side by side, dealt out over the visible GPUs; default 1). Neither compiled nor captured
    is generation: its cache grows with each token, so each token would be another graph. Attention is
    ``sdpa`` where the model has it; for images cuDNN tries its algorithms during the warm-up. Device
    time is taken with events beside the clock of the host, which decides.
    """

    path = "cuda"
    settings = ("precision", "tf32", "compile", "compile_mode", "cuda_graph", "channels_last", "workers")

    def __init__(self, subject: Subject):
        self.subject = subject
        self.tf32 = subject.switch("tf32")
        self.compiled = subject.switch("compile")
        self.compile_mode = subject.choice("compile_mode", "default", ("default", "reduce-overhead", "max-autotune"))
        self.graphed = subject.switch("cuda_graph")
        generates = model.TASKS[subject.task].generates
        self.channels_last = subject.switch("channels_last")
        self.of_images = model.TASKS[subject.task].input == "image"
        for name, on in (("cuda_graph", self.graphed), ("compile", self.compiled)):
            if on and generates:
                raise BadParams(
                    f"settings.{name} with the task",
                    subject.task,
                    allowed="false: generation is a loop of many calls, and its cache grows with each",
                    next="serve it with vLLM, which captures its graphs, and give the target an endpoint",
                )
        if self.channels_last and not self.of_images:
            raise BadParams("settings.channels_last with the task", subject.task, allowed="false: only images have channels")
        if self.graphed and self.compiled and self.compile_mode != "default":
            raise BadParams("settings.compile_mode with cuda_graph", self.compile_mode, allowed="default; the other modes capture graphs themselves")
        self._tokens = TokenTimes() if generates else None
        if self._tokens is not None:
            self.parts = self._tokens.parts
        self._device_s: deque[float] = deque(maxlen=1000)

    def prepare(self, shape: Shape) -> None:
        """Build, compile and capture. Raises ``WaitingForEvidence`` without a GPU, and where its memory ends on the way."""
        import torch

        try:
            self._prepare(shape)
        except torch.cuda.OutOfMemoryError as error:
            self._model = self._output = self._graph = self._static = None
            self._answers = []
            torch.cuda.empty_cache()
            raise WaitingForEvidence(
                f"the GPU ran out of memory at batch {shape.batch_size}, sequence {shape.sequence_length} in {self.subject.precision}: {one_line(error)}",
                next=f"a smaller batch, or a GPU with more memory: {self.subject.command}",
            ) from None

    def _prepare(self, shape: Shape) -> None:
        import torch

        if not torch.cuda.is_available():
            raise WaitingForEvidence(
                f"torch {torch.__version__} sees no GPU here", next=f"{on_a(self.subject.instance_type)}: {self.subject.command}"
            )
        self._model = self._output = self._graph = None
        self._answers: list[torch.Tensor] = []
        torch.cuda.empty_cache()
        check_memory(self.subject, shape, torch.cuda.mem_get_info()[0], "GPU")
        self._switches(torch)
        self._shape = shape
        self.feed(inputs_of(self.subject, shape))
        built = model_of(self.subject, "cuda")
        if self.channels_last:
            built = built.to(memory_format=torch.channels_last)
        mode = {} if self.compile_mode == "default" else {"mode": self.compile_mode}
        self._attention = str(getattr(getattr(built, "config", None), "_attn_implementation", None) or "not stated")
        self._model = torch.compile(built, dynamic=False, **mode) if self.compiled else built
        self._begin, self._end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        if self.compiled:  # compiles in its first call, which is not a warm-up
            _many_graphs(torch)
            self._breaks = _graph_breaks()
            self.issue()
            self.drain()
        if self.graphed:
            self._capture()

    def _switches(self, torch: Any) -> None:
        """What is set for the whole process, so before each turn: TF32 in products and convolutions, and cuDNN's search for images."""
        _tf32(torch.backends.cuda.matmul, self.tf32)
        _tf32(getattr(torch.backends.cudnn, "conv", torch.backends.cudnn), self.tf32)
        torch.backends.cudnn.benchmark = self.of_images

    def resume(self) -> None:
        """Before a run, when other settings had their turn."""
        import torch

        self._switches(torch)

    def _capture(self) -> None:
        """Record one call on fixed memory; a few calls on a side stream come first, as PyTorch's notes on CUDA graphs ask."""
        import torch

        self._static = {name: tensor.to("cuda") for name, tensor in self._inputs.items()}
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                model.call(self._model, self._static, self.subject.task)
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self._output = tensors_of(model.call(self._model, self._static, self.subject.task))
        self._graph = graph

    def _compute(self) -> tuple[Any, ...]:
        if self._graph is not None:
            for name, tensor in self._inputs.items():
                self._static[name].copy_(tensor, non_blocking=True)
            self._graph.replay()
            return self._output
        if self.compiled and self.compile_mode != "default":
            import torch

            torch.compiler.cudagraph_mark_step_begin()  # the answers of the call before may be overwritten
        there = {name: tensor.to("cuda", non_blocking=True) for name, tensor in self._inputs.items()}
        told = self._tokens.told if self._tokens is not None else None
        return tensors_of(model.call(self._model, there, self.subject.task, self._shape.output_length, told))

    def issue(self) -> None:
        import torch

        if self._tokens is not None:
            self._tokens.begin()
        self._begin.record()
        self._output = self._compute()
        if not self._answers:
            self._answers = [torch.empty(one.shape, dtype=one.dtype, pin_memory=True) for one in self._output]
        for answer, one in zip(self._answers, self._output):
            answer.copy_(one, non_blocking=True)
        self._end.record()

    def drain(self) -> None:
        import torch

        torch.cuda.synchronize()
        self._device_s.append(self._begin.elapsed_time(self._end) / 1e3)

    def read_back(self) -> tuple[Any, ...]:
        """Fetch the answers from the device once more, whatever ``drain`` did."""
        return tuple(one.cpu() for one in self._output)

    def compilations(self) -> Optional[int]:
        """Graphs that ``torch.compile`` has made so far in this process; ``None`` in eager mode."""
        if not self.compiled:
            return None
        from torch._dynamo.utils import counters

        return int(counters["stats"]["unique_graphs"])

    def seen(self) -> dict[str, Any]:
        """Time on the device, from the start of the copies in to the end of the copies out, of the last calls; which device; breaks of the graph."""
        import torch

        found: dict[str, Any] = {"device": torch.cuda.get_device_name()}
        if self._device_s:
            found["device_s_median"] = round(median(self._device_s), 9)
        if self.compiled:
            found["graph_breaks"] = _graph_breaks() - self._breaks
        return found

    def remarks(self) -> Iterator[Finding]:
        """What a fair GPU could still have switched on."""
        half = self.subject.precision in ("bf16", "fp16")
        off = [
            name
            for name, on in (
                ("half precision", half),
                ("torch.compile", self.compiled),
                ("CUDA graphs", self.graphed or self.compile_mode != "default"),
            )
            if not on
        ]
        if self.of_images and not self.channels_last:
            off.append("channels last")
        if off and not self._tokens:
            yield Finding(
                severity=Severity.NOTE,
                code="gpu_untuned",
                because=f"this GPU ran without {', '.join(off)}: tuned it may be faster",
                next="declare settings {precision: fp16, compile: true, cuda_graph: true} as a target of its own, and show parity",
            )
        if self._tokens is not None:
            yield Finding(
                severity=Severity.NOTE,
                code="gpu_untuned",
                because="this GPU generated in a loop of PyTorch calls, without CUDA graphs and without batching of requests: a server is faster",
                next="serve it with vLLM and give the target an endpoint",
            )

    def feed(self, inputs: Mapping[str, Any]) -> None:
        import torch

        layout = {"memory_format": torch.channels_last} if self.channels_last else {}
        self._inputs = {name: tensor.contiguous(**layout).pin_memory() for name, tensor in inputs.items()}

    def outputs(self) -> tuple[Any, ...]:
        return tuple(self._answers)

    def describe(self) -> dict[str, Any]:
        return {
            "precision": "tf32" if self.tf32 and self.subject.precision == "fp32" else self.subject.precision,
            "autocast": "none",
            "workers": 1,
            "accelerators_used": 1,
            "route": ("torch.compile" if self.compiled else "eager") + (", CUDA graph" if self.graphed else ""),
            "tf32": self.tf32,
            "compile_mode": self.compile_mode if self.compiled else "none",
            "cuda_graph": self.graphed,
            **({"channels_last": self.channels_last, "cudnn_benchmark": True} if self.of_images else {}),
            "attention": getattr(self, "_attention", "sdpa where the model has it"),
        }


def _tf32(products: Any, on: bool) -> None:
    """PyTorch 2.9 and later say it in words; earlier ones have a flag, and mixing the two is refused."""
    if hasattr(products, "fp32_precision"):
        products.fp32_precision = "tf32" if on else "ieee"
    else:
        products.allow_tf32 = on


MOST_GRAPHS = 256
"""Shapes and settings of one session; beyond its own limit (8) ``torch.compile`` would run eagerly without a word."""


def _many_graphs(torch: Any) -> None:
    import torch._dynamo

    limits = torch._dynamo.config
    name = "recompile_limit" if hasattr(limits, "recompile_limit") else "cache_size_limit"
    setattr(limits, name, max(getattr(limits, name), MOST_GRAPHS))


def _graph_breaks() -> int:
    """Places where ``torch.compile`` went back to eager Python so far in this process."""
    from torch._dynamo.utils import counters

    return sum(counters["graph_break"].values())


def gpu_of_worker(number: int, visible: Optional[str], count: int) -> str:
    """The value of ``CUDA_VISIBLE_DEVICES`` for a worker: the visible GPUs in turn."""
    devices = [word.strip() for word in visible.split(",") if word.strip()] if visible else [str(place) for place in range(count)]
    return devices[number % len(devices)] if devices else ""
