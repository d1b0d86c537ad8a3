"""Checking a graph, a module or a config against the documented restrictions."""

from __future__ import annotations

import contextlib
import io
import logging
import traceback
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Optional

from neuronfit import model as models
from neuronfit.catalog import operators
from neuronfit.check import calls as sources
from neuronfit.check.findings import BLOCKER, CONDITIONAL, RAN, ModuleCheck, OperatorFinding, Target
from neuronfit.check.rules import STATEMENTS, Call, Verdict, judge
from neuronfit.errors import NotFound
from neuronfit.model.construction import replace_buffers, replace_parameters

if TYPE_CHECKING:
    import torch

__all__ = ["check_config", "check_config_on", "check_graph", "check_module", "check_module_on", "usual_target"]

PATHS = ("neuron_xla", "neuron_native", "torch_neuron")
_USUAL_PATH = {"inf1": "torch_neuron", "inf2": "neuron_xla", "trn1": "neuron_xla", "trn2": "neuron_native", "trn3": "neuron_native"}
_ORDER = {BLOCKER: 0, CONDITIONAL: 1}
_CALL_LIMIT = 100_000
_RUN_LIMIT = 300_000_000
"""parameters up to which a module that cannot be exported is run on the CPU instead"""

_EXPERTS = 'load the model with experts_implementation="batched_mm" (transformers 5; check it: --experts batched_mm)'
"""transformers groups tokens by expert by sorting; this way of computing the same does not"""

_INDEX_ONLY = frozenset(
    "arange full full_like zeros zeros_like ones ones_like scalar_tensor lift_fresh_copy lift_fresh detach alias clone to _to_copy "
    "contiguous view reshape _unsafe_view expand expand_as unsqueeze squeeze select slice cat stack permute transpose flatten unbind split "
    "repeat new_zeros new_ones empty masked_fill where index gather argmax argmin topk max min eq ne lt le gt ge roll flip constant_pad_nd pad "
    "narrow chunk t triu tril copy broadcast_to movedim embedding index_select max_pool2d_with_indices type_as".split()
)
"""operators whose int64 results are no larger than their inputs, or count positions"""


# --- entry points ----------------------------------------------------------------------------------


def check_graph(
    program: Any,
    generation: str,
    *,
    path: Optional[str] = None,
    native_int64: Optional[str] = None,
    integer_downcast: Optional[str] = None,
) -> tuple[OperatorFinding, ...]:
    """Findings about an ``ExportedProgram`` (or its ``GraphModule`` or ``Graph``), blockers first.

    ``generation`` is one of ``inf1``, ``inf2``, ``trn1``, ``trn2``, ``trn3``. ``path`` defaults to what the
    generation usually runs: XLA on Inf2 and Trn1, TorchNeuron on Trn2 and Trn3; Trn2 with torch-neuronx 2.9
    is ``"neuron_xla"``. The two flags are those of neuronx-cc, ``None`` where they are not set.
    Raises :class:`~neuronfit.errors.NotFound` for an unknown generation or path.
    """
    target = usual_target(generation, path, native_int64, integer_downcast)
    return _sorted(_findings(sources.from_graph(program), target))


def check_module(
    module: torch.nn.Module,
    example_inputs: Any,
    generation: str,
    *,
    path: Optional[str] = None,
    native_int64: Optional[str] = None,
    integer_downcast: Optional[str] = None,
) -> ModuleCheck:
    """Check one forward pass of ``module``, in eval mode.

    ``example_inputs`` is a tensor, a tuple of positional or a mapping of keyword arguments; tensors on the
    meta device will do if the module is there too. First ``torch.export``, non-strict, before and after
    decomposition; where that fails, the failure is a finding with the user's source line, and a recorded run
    on the CPU (small modules with real weights), a partial run and the modules themselves give the rest.
    """
    return check_module_on(module, example_inputs, (usual_target(generation, path, native_int64, integer_downcast),))[0]


def check_module_on(module: torch.nn.Module, example_inputs: Any, targets: Sequence[Target]) -> tuple[ModuleCheck, ...]:
    """:func:`check_module` for several targets at the price of one export."""
    import torch

    args, kwargs = _as_arguments(example_inputs)
    with _evaluating(module), _quiet():
        reason: Optional[BaseException] = None
        for place in _places(module, args, kwargs):
            try:
                program = _exported(*_placed(place, module, args, kwargs))
                decomposed = _decomposed(program)
            except Exception as error:  # the exporter raises anything; which kind it is, is the finding
                reason = reason or error
                continue
            counts = dict(sorted(Counter(call.operator for call in sources.from_graph(program)).items()))
            how = f"torch.export non-strict on {place}"
            return tuple(ModuleCheck(_of_program(program, decomposed, target), how, True, counts, torch.__version__) for target in targets)
        return tuple(_without_export(module, args, kwargs, target, reason) for target in targets)


def _of_program(program: Any, decomposed: Any, target: Target) -> tuple[OperatorFinding, ...]:
    """What is said about a graph as exported, and after decomposition."""
    found = list(_findings(sources.from_graph(program), target))
    if decomposed is not None:
        found = _merged(found, _findings(sources.from_graph(decomposed), target))
    return _sorted(found)


def check_config(
    config: Mapping[str, Any],
    task: str,
    shape: Any,
    generation: str,
    *,
    path: Optional[str] = None,
    native_int64: Optional[str] = None,
    integer_downcast: Optional[str] = None,
    experts: Optional[str] = None,
) -> ModuleCheck:
    """Check the model of a ``config.json`` from its skeleton: no weights, whatever its size.

    ``shape`` has ``batch_size``, ``sequence_length`` and perhaps ``output_length`` (as a mapping, or an entry of
    a workload's shapes). One forward pass without cache. ``experts`` is how transformers computes a mixture of
    experts (``"grouped_mm"``, its default, sorts; ``"batched_mm"`` does not). Raises :class:`~neuronfit.errors.BadParams` as
    :func:`neuronfit.model.example_inputs` does. A model that cannot be exported without data, and is small enough, is
    built with random weights and run.
    """
    target = usual_target(generation, path, native_int64, integer_downcast)
    return check_config_on(config, task, shape, (target,), experts=experts)[0]


def check_config_on(
    config: Mapping[str, Any], task: str, shape: Any, targets: Sequence[Target], *, experts: Optional[str] = None
) -> tuple[ModuleCheck, ...]:
    """:func:`check_config` for several targets at the price of one export."""
    sizes = {
        name: shape.get(name) if isinstance(shape, Mapping) else getattr(shape, name, None)
        for name in ("batch_size", "sequence_length", "output_length")
    }
    inputs = models.example_inputs(config, task, sizes["batch_size"], sizes["sequence_length"], output_length=sizes["output_length"], device="meta")
    skeleton = models.skeleton(config, task)
    if experts is not None:
        skeleton.config._experts_implementation = experts
    found = check_module_on(skeleton, inputs, targets)
    if found[0].looked or sum(parameter.numel() for parameter in skeleton.parameters()) > _RUN_LIMIT:
        return found
    real = models.build(config, task)
    inputs = models.example_inputs(config, task, sizes["batch_size"], sizes["sequence_length"], output_length=sizes["output_length"])
    return check_module_on(real, inputs, targets)


# --- findings --------------------------------------------------------------------------------------


def usual_target(generation: str, path: Optional[str] = None, native_int64: Optional[str] = None, integer_downcast: Optional[str] = None) -> Target:
    """A target with the path that its generation usually runs. Raises :class:`~neuronfit.errors.NotFound`."""
    if generation not in operators.GENERATIONS:
        raise NotFound("unknown accelerator generation", generation, allowed=", ".join(operators.GENERATIONS))
    path = path or _USUAL_PATH[generation]
    if path not in PATHS:
        raise NotFound("no operator rules for the software path", path, allowed=", ".join(PATHS))
    if path == "neuron_native" and generation not in ("trn2", "trn3"):
        raise NotFound("TorchNeuron does not run on", generation, allowed="trn2, trn3")
    return Target(generation, path, native_int64, integer_downcast)


def _findings(calls: Iterable[Call], target: Target) -> Iterator[OperatorFinding]:
    """One finding per kind and source line, its calls counted."""
    merged: dict[tuple[Any, ...], OperatorFinding] = {}
    wide: Optional[Call] = None
    computed: Counter[str] = Counter()
    for call in calls:
        verdict = judge(call, target)
        if verdict:
            finding = _finding(call, verdict, target)
            known = merged.get(_place(finding))
            merged[_place(finding)] = replace(known, calls=known.calls + 1) if known else finding
        if any(value.dtype == "int64" for value in (*call.inputs, *call.outputs)):
            wide = wide or call
            if call.name not in _INDEX_ONLY and any(value.dtype == "int64" for value in call.outputs):
                computed[call.operator] += 1
                wide = wide if wide.name not in _INDEX_ONLY else call
    yield from merged.values()
    if wide is not None and target.generation != "inf1":
        yield _int64(wide, computed, target)


def _int64(call: Call, computed: Counter[str], target: Target) -> OperatorFinding:
    """64-bit integers in the graph, said once: where, and whether anything but positions is computed in them."""
    native = target.casts_int64 is False
    names = ", ".join(name for name, _ in computed.most_common(4))
    detail = f"64-bit integers are computed ({names})" if computed else "64-bit integers only number positions and tokens"
    condition = "values stay below 2^31" if not native else "the target computes with 64-bit integers (--native-int64=enabled)"
    verdict = Verdict(CONDITIONAL, "int64", detail, condition, True if native or not computed else None)
    return replace(_finding(call, verdict, target), calls=sum(computed.values()) or 1)


def _finding(call: Call, verdict: Verdict, target: Target) -> OperatorFinding:
    statement = STATEMENTS[verdict.code]
    return OperatorFinding(
        severity=verdict.severity,
        code=verdict.code,
        operator=call.operator,
        because=f"{verdict.detail}: {statement.because}",
        rewrite=f"{_EXPERTS}, or {statement.rewrite}" if call.file == "transformers/integrations/moe.py" else statement.rewrite,
        condition=verdict.condition,
        kept=verdict.kept,
        calls=1,
        module=call.module,
        module_type=call.module_type,
        file=call.file,
        line=call.line,
        text=call.text,
        generations=_generations(call, verdict, target),
        source=statement.source,
        as_of=statement.as_of,
    )


def _generations(call: Call, verdict: Verdict, target: Target) -> tuple[str, ...]:
    """The generations, each on its usual path, about which the same is said with as much severity."""
    if verdict.code in ("int64", "graph_break", "dynamic_shape", "export_failed"):
        return tuple(name for name in operators.GENERATIONS if name != "inf1" or verdict.code != "int64")
    same = []
    for generation in operators.GENERATIONS:
        there = target if generation == target.generation else usual_target(generation, None, target.native_int64, target.integer_downcast)
        other = judge(call, there)
        if other and (other.severity, other.code, other.kept) == (verdict.severity, verdict.code, verdict.kept):
            same.append(generation)
    return tuple(same)


def _place(finding: OperatorFinding) -> tuple[Any, ...]:
    where = (finding.file, finding.line) if finding.file else (finding.module, finding.operator)
    return (finding.severity, finding.code, finding.kept, *where)


def _merged(found: list[OperatorFinding], more: Iterable[OperatorFinding]) -> list[OperatorFinding]:
    """``found`` and what ``more`` adds at other places. A kind that was seen at a line is not said again for its parts."""
    known = {(finding.code, finding.file, finding.line) for finding in found}
    lines = {(finding.file, finding.line) for finding in found if finding.code == "fft"}
    said = {finding.code for finding in found if finding.code == "int64"}
    for finding in more:
        place = (finding.file, finding.line)
        if (finding.code, *place) in known or finding.code in said or finding.code == "complex" and place in lines:
            continue
        found.append(finding)
        said.update({"int64"} & {finding.code})
    return found


def _sorted(findings: Iterable[OperatorFinding]) -> tuple[OperatorFinding, ...]:
    """Blockers, then broken, open and kept conditions; in the order of the source within each."""
    kept = {False: 0, None: 1, True: 2}
    return tuple(sorted(findings, key=lambda one: (_ORDER[one.severity], kept[one.kept], one.file or "~", one.line or 0, one.code)))


# --- export ----------------------------------------------------------------------------------------


def _as_arguments(example_inputs: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    if isinstance(example_inputs, Mapping):
        return (), dict(example_inputs)
    if isinstance(example_inputs, (tuple, list)):
        return tuple(example_inputs), {}
    return (example_inputs,), {}


def _tensors(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> list[torch.Tensor]:
    import torch
    from torch.utils import _pytree

    return [leaf for leaf in _pytree.tree_leaves((args, dict(kwargs))) if isinstance(leaf, torch.Tensor)]


def _places(module: torch.nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> list[str]:
    """Where to export: as given, then as CPU tensors that have a shape and no data (some models refuse meta)."""
    given = next((tensor.device.type for tensor in _tensors(args, kwargs)), "cpu")
    return [given, "fake cpu"] if given != "cpu" else ["cpu"]


def _placed(place: str, module: torch.nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[Any, Any, Any]:
    if place != "fake cpu":
        return module, args, kwargs
    import copy

    import torch
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.utils import _pytree

    def empty(like: Any) -> Any:
        return torch.empty(like.shape, dtype=like.dtype, device="cpu") if isinstance(like, torch.Tensor) else like

    module = copy.deepcopy(module)
    with FakeTensorMode():
        replace_parameters(module, lambda name, parameter: empty(parameter))
        replace_buffers(module, empty)
        return (module, *_pytree.tree_map(empty, (args, dict(kwargs))))


def _exported(module: torch.nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """The exported program of a wrapper that returns the tensors of whatever the module returns."""
    import inspect

    import torch
    from torch.utils import _pytree

    class TensorsOnly(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.exported_model = module

        def forward(self, *args: Any, **kwargs: Any) -> Any:
            output = self.exported_model(*args, **kwargs)
            return tuple(leaf for leaf in _pytree.tree_leaves(_plain(output)) if isinstance(leaf, torch.Tensor))

    if "use_cache" in inspect.signature(module.forward).parameters:
        kwargs = {"use_cache": False, **kwargs}
    with sources.with_helpers():
        return torch.export.export(TensorsOnly(), args, dict(kwargs), strict=False)


def _plain(output: Any) -> Any:
    """Output objects of libraries as lists, whether or not they are registered with PyTorch."""
    return list(output.values()) if isinstance(output, Mapping) else output


def _decomposed(program: Any) -> Any:
    """The program in core operators, or ``None`` where a decomposition fails (data-dependent sizes can do that)."""
    try:
        return program.run_decompositions()
    except Exception as error:  # what the exported level says stands; the second level only adds to it
        logging.getLogger(__name__).debug("no decomposition: %s", error)
        return None


@contextlib.contextmanager
def _evaluating(module: torch.nn.Module) -> Iterator[None]:
    training = [part for part in module.modules() if part.training]
    module.eval()
    try:
        yield
    finally:
        for part in training:
            part.training = True


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """The exporter prints graphs and warns of its own code; what matters is in the finding."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with warnings.catch_warnings(), contextlib.redirect_stderr(io.StringIO()), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)


# --- where export fails ----------------------------------------------------------------------------


def _without_export(
    module: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], target: Target, reason: Optional[BaseException]
) -> ModuleCheck:
    import torch

    assert reason is not None
    failure = _failure(reason, target)
    seen, finished, real = _recorded(module, args, kwargs)
    found = _merged([failure], _findings(seen, target))
    found = _merged(found, _findings(sources.from_modules(module), target)) if not finished else found
    how = RAN if finished and real else "module inspection" if not seen else "recorded run, up to the failure"
    counts = Counter(call.operator for call in seen)
    return ModuleCheck(
        _sorted(found), how, False, dict(sorted(counts.items())), torch.__version__, error=f"{type(reason).__name__}: {_one_line(reason)}"
    )


def _recorded(module: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[list[Call], bool, bool]:
    """Calls of a run, whether it came to its end, and whether it computed real values."""
    import inspect

    import torch

    tensors = [*module.parameters(), *module.buffers(), *_tensors(args, kwargs)]
    real = all(tensor.device.type == "cpu" and not isinstance(tensor, torch._subclasses.FakeTensor) for tensor in tensors)
    if real and sum(tensor.numel() for tensor in tensors) > _RUN_LIMIT:
        return [], False, False
    if "use_cache" in inspect.signature(module.forward).parameters:
        kwargs = {"use_cache": False, **kwargs}
    seen: list[Call] = []
    try:
        with torch.no_grad(), torch.random.fork_rng(devices=[]), sources.recording(seen, _CALL_LIMIT):
            module(*args, **kwargs)
    except Exception as error:  # the user's code may raise anything on example values
        logging.getLogger(__name__).debug("the recorded run ended early: %s", error)
        return seen, False, real
    return seen, True, real


def _failure(error: BaseException, target: Target) -> OperatorFinding:
    """Why the export failed, as a finding at the user's line."""
    frames = [(frame.filename, frame.lineno or 0, frame.line or "") for frame in traceback.extract_tb(error.__traceback__)]
    frame = sources.user_frame(frames)
    code, operator = _kind(error, frame[2] if frame else "")
    reason = _one_line(error)
    call = Call(
        operator,
        file=sources.shown_path(frame[0]) if frame else None,
        line=frame[1] if frame else None,
        text=frame[2] if frame else None,
    )
    if code == "export_failed":
        verdict = Verdict(
            CONDITIONAL, code, f"torch.export says {type(error).__name__}: {reason}", "the operators that were not seen have no restriction", None
        )
    else:
        verdict = Verdict(BLOCKER, code, f"torch.export says: {reason}")
    return _finding(call, verdict, target)


def _kind(error: BaseException, text: str) -> tuple[str, str]:
    """The class of a failed export, and the operator that stands for it."""
    name, said = type(error).__name__, str(error)
    takes_number = any(sign in text for sign in (".item(", ".tolist(", ".numpy(", "int(", "float(", "bool("))
    branches = text.split(" ", 1)[0].rstrip(":") in ("if", "elif", "while", "assert", "for") or " if " in text
    if "data-dependent" in said or "DataDependent" in name:
        shapes = (
            any(sign in text for sign in ("zeros(", "ones(", "arange(", "empty(", "full(", "view(", "reshape(", "expand(", "[:")) and not branches
        )
        return ("dynamic_shape", "aten.sym_size.int") if shapes else ("graph_break", "aten.item.default")
    if name in ("DynamicOutputShapeException",) or "Constraints violated" in said or "dynamic shape" in said.lower():
        return "dynamic_shape", "aten.sym_size.int"
    if takes_number or ".numpy()" in said or "Boolean value of Tensor" in said or "Cannot copy out of meta tensor" in said:
        return "graph_break", "aten.item.default"
    return "export_failed", "torch.export"


def _one_line(error: BaseException) -> str:
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
