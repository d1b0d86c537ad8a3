"""What to type to compile or serve this very workload on one software path.

Everything that the params file says is filled in: model, task, shapes, precision, settings, instance, and the
tensor-parallel degree that the memory fit gives. What it does not say stands in ``notes`` beside the command, never
as a placeholder inside it. A recipe is text: nothing here runs it, and the calls and options in it are those of the
documents that the catalogue names for the path.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import Any, Callable, Optional

from neuronfit import memory
from neuronfit.catalog import instances
from neuronfit.model import TASKS
from neuronfit.model.architecture import image_size, settings_of
from neuronfit.params import Target
from neuronfit.question import Question

__all__ = ["DTYPES", "Recipe", "recipe"]

DTYPES = {"fp32": "float32", "bf16": "bfloat16", "fp16": "float16", "int8": "bfloat16"}
"""Number format of the params file -> what PyTorch and vLLM call it. Int8 weights are computed with in bfloat16."""


@dataclass(frozen=True)
class Recipe:
    """``command`` is complete and can be pasted into a shell; ``None`` where the path has no command, then a note says why."""

    command: Optional[str]
    host: str
    """where it runs"""
    notes: tuple[str, ...] = ()
    """what was chosen, and what the params file does not say"""


@dataclass(frozen=True)
class _Facts:
    """What a command is filled with."""

    question: Question
    target: Target
    anatomy: memory.Anatomy
    fit: Optional[memory.Fit]
    """the best degree on the target's instance; ``None`` where the catalogue has no memory for it"""

    @property
    def model(self) -> str:
        """The folder of the weights, or of the config where the params file names no weights."""
        named = self.question.params.workload.model
        return named.weights if self.has_weights else (named.config.removesuffix("/config.json") or ".")

    @property
    def has_weights(self) -> bool:
        return self.question.params.workload.model.weights != "random"

    @property
    def precision(self) -> str:
        return str(self.target.settings.get("precision", self.question.params.workload.precision))

    @property
    def dtype(self) -> str:
        return DTYPES.get(self.precision, self.precision)

    @property
    def degree(self) -> int:
        return self.fit.tp_degree if self.fit else 1

    @property
    def task(self) -> Any:
        return TASKS[self.question.params.workload.model.task]

    @property
    def shapes(self) -> tuple[tuple[int, int, Optional[int]], ...]:
        return tuple((one.batch_size, one.sequence_length, one.output_length) for one in self.question.params.workload.shapes)

    @property
    def longest(self) -> int:
        """Prompt and output of the longest shape, tokens."""
        return max(length + (output or 0) for _, length, output in self.shapes)

    @property
    def widest(self) -> int:
        return max(batch for batch, _, _ in self.shapes)

    def weight_notes(self) -> list[str]:
        if self.has_weights:
            return []
        return [
            f"the params file names no weights: {self.model} holds the architecture only, so the weights here are random; set workload.model.weights"
        ]


def recipe(question: Question, target: Target, fit: Optional[memory.Fit] = None, anatomy: Optional[memory.Anatomy] = None) -> Recipe:
    """The command for ``target``; ``fit`` is its instance's best tensor-parallel degree, where it is known."""
    facts = _Facts(question, target, anatomy or memory.describe(question.config, question.published_as), fit)
    return _OF_PATH[target.path](facts)


# -- PyTorch: a script -------------------------------------------------------------------------------


def _script(environment: str, lines: list[str]) -> str:
    return "\n".join([f"{environment}python - <<'PY'", *lines, "PY"])


def _model_lines(facts: _Facts) -> list[str]:
    source = f"{facts.model!r}"
    made = f"from_pretrained({source})" if facts.has_weights else f"from_config(AutoConfig.from_pretrained({source}))"
    made = f"model = {facts.task.auto_class}.{made}.to(torch.{facts.dtype})"
    return [made, *(["model.config.use_cache = False"] if facts.task.generates else []), "model.eval()"]


def _inputs(facts: _Facts) -> tuple[str, list[str]]:
    """The head of a loop over the shapes, and the lines in it that make ``inputs``, a mapping."""
    if facts.task.input == "image":
        settings = settings_of(facts.question.config)
        height, width = image_size(settings)
        channels = getattr(settings, "num_channels", None) or 3
        batches = ", ".join(str(batch) for batch in dict.fromkeys(batch for batch, _, _ in facts.shapes))
        return f"for batch in ({batches},):", [
            f'inputs = {{"pixel_values": torch.zeros(batch, {channels}, {height}, {width}, dtype=torch.{facts.dtype})}}'
        ]
    if facts.anatomy.kind == "encoder-decoder":
        rows = ", ".join(f"({batch}, {length}, {output or length})" for batch, length, output in facts.shapes)
        inputs = ["ids = torch.ones(batch, length, dtype=torch.int64)"]
        inputs += ['inputs = {"input_ids": ids, "attention_mask": ids, "decoder_input_ids": torch.ones(batch, output, dtype=torch.int64)}']
        return f"for batch, length, output in ({rows},):", inputs
    rows = ", ".join(f"({batch}, {length})" for batch, length, _ in facts.shapes)
    inputs = ["ids = torch.ones(batch, length, dtype=torch.int64)", 'inputs = {"input_ids": ids, "attention_mask": ids}']
    return f"for batch, length in ({rows},):", inputs


def _file(facts: _Facts) -> str:
    """The name of an artefact, as the body of an f-string."""
    generation = instances.find(facts.target.instance_type).generation
    return f"{facts.question.name}.{generation}.b{{batch}}" + ("" if facts.task.input == "image" else ".s{length}") + ".pt"


def _imports(facts: _Facts, package: str) -> list[str]:
    classes = sorted({facts.task.auto_class, *(() if facts.has_weights else ("AutoConfig",))})
    return ["import torch", f"import {package}", f"from transformers import {', '.join(classes)}"]


_POSITIONAL = [
    "class Positional(torch.nn.Module):",
    "    def __init__(self, model, names):",
    "        super().__init__()",
    "        self.model, self.names = model, names",
    "    def forward(self, *tensors):",
    "        output = self.model(**dict(zip(self.names, tensors))).to_tuple()",
    "        return tuple(one for one in output if isinstance(one, torch.Tensor))",
]
"""A trace takes tensors by position, in an order that differs between models, and gives tensors back."""


def _xla(facts: _Facts) -> Recipe:
    loop, inputs = _inputs(facts)
    lines = [
        *_imports(facts, "torch_neuronx"),
        *_POSITIONAL,
        *_model_lines(facts),
        loop,
        *(f"    {line}" for line in inputs),
        "    traced = torch_neuronx.trace(",
        "        Positional(model, tuple(inputs)).eval(), tuple(inputs.values()), cpu_backend=True,",
        f"        compiler_args={_compiler_args(facts)},",
        "    )",
        f'    torch.jit.save(traced, f"{_file(facts)}")',
    ]
    notes = [*facts.weight_notes(), *_same_for_every_shape(facts)]
    if facts.degree > 1:
        instead = "split it with NeuronX Distributed" if facts.anatomy.kind == "encoder-decoder" else "take NxD Inference or vLLM Neuron"
        notes.append(f"a trace is one NeuronCore's, and this model needs {facts.degree} of them: {instead} instead")
    if facts.task.generates:
        notes.append("this compiles one forward pass over the prompt; the loop that writes tokens is not in it")
    host = f"{facts.target.instance_type}, or any x86-64 host with SDK 2.31's torch-neuronx and neuronx-cc (cpu_backend=True needs no device)"
    return Recipe(_script("", lines), host, tuple(notes))


def _compiler_args(facts: _Facts) -> list[str]:
    settings = facts.target.settings
    target = instances.find(facts.target.instance_type).compiler_target or str(instances.find(facts.target.instance_type).generation)
    args = [
        "--target",
        target,
        "--auto-cast",
        str(settings.get("auto_cast", "none")),
        "--auto-cast-type",
        str(settings.get("auto_cast_type", "bf16")),
    ]
    return [*args, "--optlevel", str(settings.get("optlevel", 2)), "--model-type", str(settings.get("model_type", "transformer"))]


def _same_for_every_shape(facts: _Facts) -> list[str]:
    return [
        f"`neuronfit run {facts.question.command_name} --steps 3` on that host does the same for every shape and records time, memory, flags and versions"
    ]


def _native(facts: _Facts) -> Recipe:
    loop, inputs = _inputs(facts)
    lines = [
        *_imports(facts, "torch_neuronx"),
        *_model_lines(facts),
        'model = model.to("neuron")',
        loop,
        *(f"    {line}" for line in inputs),
        "    torch._dynamo.reset()",
        '    compiled = torch.compile(model, backend="neuron", fullgraph=True, dynamic=False)',
        "    with torch.no_grad():",
        '        compiled(**{name: tensor.to("neuron") for name, tensor in inputs.items()})',
        "    torch.neuron.synchronize()",
        "print(torch_neuronx.get_dynamo_metrics())",
    ]
    notes = [
        *facts.weight_notes(),
        *_same_for_every_shape(facts),
        "the last line must name one graph for each shape: an empty answer means that nothing was compiled",
    ]
    if facts.degree > 1:
        notes.append(
            f"the model needs {facts.degree} NeuronCores, and this runs on one: split it with the tensor parallelism of transformers"
            + ("" if facts.anatomy.kind == "encoder-decoder" else " or serve it with vLLM Neuron")
        )
    return Recipe(
        _script("TORCH_NEURONX_DISABLE_FALLBACK_EXECUTION=1 ", lines), f"{facts.target.instance_type} with torch-neuronx 2.13 or later", tuple(notes)
    )


def _inf1(facts: _Facts) -> Recipe:
    loop, inputs = _inputs(facts)
    lines = [
        *_imports(facts, "torch_neuron"),
        *_POSITIONAL,
        *_model_lines(facts),
        loop,
        *(f"    {line}" for line in inputs),
        "    traced = torch.neuron.trace(Positional(model, tuple(inputs)).eval(), tuple(inputs.values()))",
        f'    traced.save(f"{_file(facts)}")',
    ]
    notes = [*facts.weight_notes(), "archived software for PyTorch 1.13: a transformers release of that time is needed, which no page names"]
    return Recipe(_script("", lines), f"{facts.target.instance_type}, or any x86-64 host with torch-neuron 1.13 and neuron-cc", tuple(notes))


# -- serving: a command ------------------------------------------------------------------------------


def _serve(facts: _Facts, environment: str, host: str, more: list[str], without: tuple[str, ...] = ()) -> Recipe:
    """A server's command; ``without`` is what an encoder-decoder model can do instead, which no vLLM page covers."""
    if not facts.task.generates:
        return Recipe(None, host, (f"this path serves models that generate text; the task here is {facts.task.name}",))
    if facts.anatomy.kind == "encoder-decoder":
        return Recipe(None, host, ("no document says that vLLM on Neuron serves encoder-decoder models, so there is no command", *without))
    options = {
        "--tensor-parallel-size": facts.degree,
        "--max-num-seqs": facts.widest,
        "--max-model-len": facts.longest,
        "--dtype": facts.dtype,
    }
    arguments = " ".join(f"{name} {value}" for name, value in options.items())
    notes = list(more)
    if not facts.has_weights:
        notes.insert(
            0, f"the params file names no weights: a server needs a folder with weights and tokenizer, and {facts.model} may hold the config only"
        )
    if facts.fit is None:
        notes.append("the catalogue has no memory for this instance, so the tensor-parallel degree is not from a fit")
    elif not facts.fit.fits:
        notes.append(f"degree {facts.degree} leaves the most room on this instance, and it still does not fit with headroom")
    return Recipe(f"{environment}vllm serve {shlex.quote(facts.model)} {arguments}", host, tuple(notes))


def _vllm(facts: _Facts) -> Recipe:
    target = instances.find(facts.target.instance_type).generation
    notes = [
        "set VLLM_NEURON_BACKEND explicitly: the saved trace is reused only then, and start-up times of two runs compare only if it was the same",
        f"with VLLM_NEURON_CPU_COMPILE=1 NEURON_PLATFORM_TARGET_OVERRIDE={target} in front, a host without a device compiles and serves nothing",
    ]
    instead = ("compile encoder and decoder apart with TorchNeuron (path neuron_native), and write the loop around them",)
    return _serve(facts, "VLLM_NEURON_BACKEND=neuron_native ", facts.target.instance_type, notes, instead)


def _nxdi(facts: _Facts) -> Recipe:
    return _serve(
        facts,
        "",
        f"{facts.target.instance_type} with vLLM 0.16, the Neuron plug-in 0.5 and SDK 2.31's NxD Inference",
        ["it compiles when it starts, and keeps the artefacts"],
        (
            "the vendor's figures for T5 (Trn1 page of 2025-09-18, SDK 2.17 and 2.18) were made with NeuronX Distributed itself at tensor-parallel degree 8: "
            "that is model code to write or to take from its examples, not a server to start",
            "where one NeuronCore holds the model, trace encoder and decoder apart (path neuron_xla) and write the loop around them",
        ),
    )


def _exported_length(facts: _Facts, length: int, output: Optional[int]) -> int:
    """Prompt and output share one sequence in a decoder; encoder and decoder have one each."""
    return max(length, output or 0) if facts.anatomy.kind == "encoder-decoder" else length + (output or 0)


def _optimum(facts: _Facts) -> Recipe:
    commands = []
    for batch, length, output in facts.shapes:
        sizes = f"--batch_size {batch}" + ("" if facts.task.input == "image" else f" --sequence_length {_exported_length(facts, length, output)}")
        if facts.task.name == "text-generation":
            cast = f"--tensor_parallel_size {facts.degree} --torch_dtype {facts.dtype}"
        else:
            cast = "--auto_cast none" if facts.precision == "fp32" else f"--auto_cast all --auto_cast_type {facts.precision}"
        folder = f"{facts.question.name}-neuron-b{batch}" + ("" if facts.task.input == "image" else f"-s{length}")
        commands.append(f"optimum-cli export neuron --model {shlex.quote(facts.model)} --task {facts.task.name} {sizes} {cast} {folder}/")
    notes = (
        [] if facts.has_weights else [f"the params file names no weights: the export reads them from {facts.model}, which may hold the config only"]
    )
    if facts.anatomy.kind == "encoder-decoder":
        notes.append(
            "the options for encoder-decoder models (beams, lengths of both sides) are in no document that was read: see optimum-cli export neuron --help"
        )
    return Recipe(
        "\n".join(dict.fromkeys(commands)), f"{facts.target.instance_type}, or any x86-64 host with optimum-neuron[neuronx] 0.4.5", tuple(notes)
    )


# -- everything else ---------------------------------------------------------------------------------


def _jax(facts: _Facts) -> Recipe:
    if facts.task.input == "image":
        shown = f"images of batch {facts.widest}"
    else:
        shown = " and ".join(f"jax.ShapeDtypeStruct(({batch}, {length}), 'int32')" for batch, length, _ in facts.shapes)
    return Recipe(
        None,
        facts.target.instance_type,
        (
            f"no command compiles a PyTorch model with JAX: rewrite it as a function of its weights first, then jax.jit(function).lower(weights, ...).compile() with {shown}",
        ),
    )


def _tensorflow(facts: _Facts) -> Recipe:
    return Recipe(None, facts.target.instance_type, ("no current release compiles TensorFlow models",))


def _measured_here(facts: _Facts) -> Recipe:
    host = "this host" if facts.target.path == "cpu" else facts.target.instance_type
    return Recipe(f"neuronfit measure {facts.question.command_name} --target {facts.target.name}", host, tuple(facts.weight_notes()))


_OF_PATH: dict[str, Callable[[_Facts], Recipe]] = {
    "cpu": _measured_here,
    "cuda": _measured_here,
    "endpoint": _measured_here,
    "jax": _jax,
    "neuron_native": _native,
    "neuron_xla": _xla,
    "nxd_inference": _nxdi,
    "optimum_neuron": _optimum,
    "tensorflow": _tensorflow,
    "torch_neuron": _inf1,
    "vllm_neuron": _vllm,
}
