"""A second opinion: which HLO opcodes a model needs, as torch-mlir lowers it, and what is documented about them.

    opinion = hlo.second_opinion(config, "feature-extraction", 1, 128)
    opinion.unlisted                 # opcodes that no page of the Neuron documentation names
    hlo.opcodes(hlo.lower(config, "feature-extraction", 1, 128))

neuronx-cc is not involved. Another lowering writes the same model in other opcodes (XLA makes one ``erf`` of what
torch-mlir writes as thirty multiplications and additions), so this looks at the graph and not at the product, and
nothing here says that an opcode is supported.

Needs the extra ``neuronfit[hlo]``. torch-mlir runs in a process of its own: it may end that process, and it reports
errors past Python. Weights and buffers are inputs of the lowered program and have no data, so a model of any size
needs well under 1 GB as long as its graph is of ordinary size.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Iterator, Mapping, Optional

from neuronfit import errors
from neuronfit.catalog import hlo_opcodes

__all__ = ["HLO_NAMES", "HloOpinion", "lower", "opcodes", "reducers", "second_opinion"]

HOW = "as lowered by torch-mlir, not by neuronx-cc"

HLO_NAMES: dict[str, str] = {
    "broadcast_in_dim": "broadcast",
    "case": "conditional",
    "create_token": "after-all",
    "dot_general": "dot",
    "dynamic_broadcast_in_dim": "broadcast",
    "dynamic_conv": "convolution",
    "dynamic_gather": "gather",
    "dynamic_iota": "iota",
    "dynamic_pad": "pad",
    "dynamic_reshape": "reshape",
    "einsum": "dot",
    "if": "conditional",
    "optimization_barrier": "opt-barrier",
    "real_dynamic_slice": "slice",
    "top_k": "topk",
    "torch_index_select": "gather",
    "unary_einsum": "dot",
}
"""StableHLO (or CHLO) operation -> HLO opcode, where that is not the same name with hyphens. The ``dynamic_`` forms are
meant when the type of their result is static: torch-mlir writes constant sizes that way."""

_SECONDS = 600.0
_SHAPE_IS_AN_OPERAND = frozenset(name for name in HLO_NAMES if name.startswith(("dynamic_", "real_")))
_STRUCTURE = frozenset(("module", "func.func", "func.return", "return", "stablehlo.return"))
_TOKEN = re.compile(
    r"""//[^\n]*                                                   # a comment
      | "(?P<quoted>[a-z_]+\.\w+)"(?=\()                           # an operation in MLIR's generic form
      | "(?:[^"\\\n]|\\.)*"                                        # another string
      | \{-\#.*?\#-\}                                              # values of constants
      | (?:(?<==\ )|(?<=applies\ )|^[ \t]*)(?P<bare>[a-z_]+\.\w+)  # an operation in its own form
    """,
    re.VERBOSE | re.DOTALL | re.MULTILINE,
)
_TARGET = re.compile(r'custom_call"?\s*@"?(?P<bare>[\w.$-]+)|call_target_name\s*=\s*"(?P<quoted>[^"]*)"')
_DIAGNOSTIC = re.compile(r"^loc\((?P<place>.*?)\): error: (?P<said>.*)$", re.MULTILINE)
_PLACE = re.compile(r'"(?P<file>[^"]+)":(?P<line>\d+)')
_TORCH_OPERATOR = re.compile(r'name = "torch\.(?P<name>[\w.]+)"|operation \'torch\.(?!operator)(?P<plain>[\w.]+)\'')
_REFUSED = "neuronfit refused: "


@dataclass(frozen=True)
class HloOpinion:
    """The opcodes of one forward pass (no cache), by what is documented about each. Never a statement of support.

    The four mappings are opcode -> instructions, instructions of reductions and of other inner computations included.
    They are empty where the model could not be lowered: then ``error`` says why, on one line.
    """

    listed: dict[str, int]
    """on the compiler's list of supported operators"""
    implied: dict[str, int]
    """not on the list; another page names them, perhaps in a restricted form"""
    unlisted: dict[str, int]
    """no page that was read names them: not a blocker, and worth a look"""
    unsupported: dict[str, int] = field(default_factory=dict)
    """not on the list; another page says that they do not work"""
    custom_calls: dict[str, int] = field(default_factory=dict)
    """target -> calls"""
    restrictions: dict[str, str] = field(default_factory=dict)
    """opcode that occurs -> the restriction or remark in the documentation; whether it is kept is not judged here"""
    how: str = HOW
    versions: dict[str, str] = field(default_factory=dict)
    """torch-mlir, torch and transformers"""
    seconds: Optional[float] = None
    """of the lowering, importing included"""
    peak_bytes: Optional[int] = None
    """the most memory the lowering process had resident; ``None`` where the system does not say"""
    error: Optional[str] = None

    @property
    def sentence(self) -> str:
        """One line for a reader: how many opcodes are in which class, unlisted and unsupported ones named."""
        if self.error:
            return f"no second opinion at HLO level: {self.error}"
        kinds = len(self.listed) + len(self.implied) + len(self.unlisted) + len(self.unsupported)
        parts = [f"{len(self.listed)} listed", f"{len(self.implied)} implied{_named(self.implied)}"]
        parts += [f"{len(self.unsupported)} documented as unsupported{_named(self.unsupported)}"] if self.unsupported else []
        parts += [f"{len(self.unlisted)} unlisted{_named(self.unlisted)}"]
        return f"{kinds} HLO opcodes, {self.how}: {', '.join(parts)}"


def second_opinion(
    config: Mapping[str, Any],
    task: str,
    batch_size: int,
    sequence_length: int,
    output_length: Optional[int] = None,
    *,
    timeout_s: float = _SECONDS,
) -> HloOpinion:
    """Lower the model of a config and look its opcodes up.

    A model that torch-mlir cannot lower is an answer with ``error``. Raises
    :class:`~neuronfit.errors.WaitingForEvidence` where torch-mlir is not installed, and
    :class:`~neuronfit.errors.BadParams` as :func:`neuronfit.model.example_inputs` does.
    """
    _require_torch_mlir()
    started = time.perf_counter()
    try:
        text, peak_bytes = _lowered(config, task, batch_size, sequence_length, output_length, timeout_s)
    except errors.WaitingForEvidence as error:
        return HloOpinion({}, {}, {}, versions=_versions(), seconds=time.perf_counter() - started, error=str(error))
    seconds = time.perf_counter() - started
    counts = opcodes(text)
    by_tier: dict[str, dict[str, int]] = {tier: {} for tier in hlo_opcodes.TIERS}
    for opcode, count in counts.items():
        by_tier[hlo_opcodes.status(opcode).tier][opcode] = count
    restrictions = {opcode: found for opcode in counts if (found := hlo_opcodes.status(opcode).restriction)}
    if "reduce" in restrictions:
        used = ", ".join(f"{name} {count}" for name, count in reducers(text).items())
        restrictions["reduce"] = f"{restrictions['reduce']}; here: {used}"
    calls = {opcode.partition(" ")[2]: count for opcode, count in counts.items() if opcode.startswith("custom-call ")}
    return HloOpinion(**by_tier, custom_calls=calls, restrictions=restrictions, versions=_versions(), seconds=seconds, peak_bytes=peak_bytes)


def lower(
    config: Mapping[str, Any],
    task: str,
    batch_size: int,
    sequence_length: int,
    output_length: Optional[int] = None,
    *,
    timeout_s: float = _SECONDS,
) -> str:
    """One forward pass (no cache) of the model of a config, as StableHLO text; weights and buffers are its first inputs.

    Raises :class:`~neuronfit.errors.WaitingForEvidence`, on one line, where torch-mlir is not installed, does not fit
    the installed torch, has no lowering for an operator, or takes longer than ``timeout_s``; and
    :class:`~neuronfit.errors.BadParams` as :func:`neuronfit.model.example_inputs` does.
    """
    _require_torch_mlir()
    return _lowered(config, task, batch_size, sequence_length, output_length, timeout_s)[0]


# --- reading StableHLO -----------------------------------------------------------------------------


def opcodes(text: str) -> dict[str, int]:
    """HLO opcode -> instructions in a StableHLO module, the most frequent first.

    Instructions of inner computations (what a reduction applies, how a sort compares, the body of a loop) count as
    they do in HLO. A custom call is ``"custom-call TARGET"``. What is neither StableHLO, CHLO nor a constant keeps its
    dotted name (``"tensor.dim"``), and so does a shape that is not known when compiling: ``"dynamic-iota"``.
    """
    counts = Counter(_opcode(name, statement) for name, statement in _operations(text))
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def reducers(text: str) -> dict[str, int]:
    """What the reductions of a StableHLO module compute: opcode -> reductions.

    ``"other"`` where a reduction is not printed with the one instruction it applies.
    """
    found = (re.search(r"\bapplies stablehlo\.(\w+)", statement) for name, statement in _operations(text) if name == "stablehlo.reduce")
    counts = Counter(_opcode(f"stablehlo.{match[1]}", "") if match else "other" for match in found)
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def _operations(text: str) -> Iterator[tuple[str, str]]:
    """Each operation with its dialect, and the rest of its line."""
    for match in _TOKEN.finditer(text):
        name = match["quoted"] or match["bare"]
        if name and name not in _STRUCTURE:
            end = text.find("\n", match.end())
            yield name, text[match.start() : end if end >= 0 else len(text)]


def _opcode(name: str, statement: str) -> str:
    dialect, _, operation = name.partition(".")
    if name == "arith.constant":
        return "constant"
    if name == "stablehlo.custom_call":
        target = _TARGET.search(statement)
        return f"custom-call {(target['bare'] or target['quoted']) if target else 'without a target'}"
    if dialect not in ("stablehlo", "chlo"):
        return name
    if operation in _SHAPE_IS_AN_OPERAND and "?" in statement.rpartition("->")[2]:
        return operation.replace("_", "-")
    return HLO_NAMES.get(operation, operation.replace("_", "-"))


def _named(counts: Mapping[str, int]) -> str:
    return f" ({', '.join(counts)})" if counts else ""


# --- the process that lowers -----------------------------------------------------------------------


def _require_torch_mlir() -> None:
    if importlib.util.find_spec("torch_mlir") is None:
        raise errors.WaitingForEvidence("a second opinion at HLO level needs torch-mlir, which is not installed", next="pip install neuronfit[hlo]")


def _versions() -> dict[str, str]:
    found = {}
    for package in ("torch-mlir", "torch", "transformers"):
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            found[package] = "unknown"
    return found


def _lowered(
    config: Mapping[str, Any], task: str, batch_size: int, sequence_length: int, output_length: Optional[int], timeout_s: float
) -> tuple[str, Optional[int]]:
    """The StableHLO text, and the peak resident bytes of the process that made it."""
    question = [dict(config), task, batch_size, sequence_length, output_length]
    with tempfile.TemporaryDirectory(prefix="neuronfit-hlo-") as folder:
        places = [str(Path(__file__).parents[1]), *filter(None, [os.environ.get("PYTHONPATH")])]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(places), "TMPDIR": folder, "TEMP": folder, "TMP": folder}
        try:
            done = subprocess.run(
                [sys.executable, "-m", "neuronfit.hlo", folder],
                input=json.dumps(question),
                capture_output=True,
                encoding="utf-8",
                errors="replace",
                env=environment,
                timeout=timeout_s,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise _not_lowered(f"no result within {timeout_s:g} s") from None
        if done.returncode == 0:
            peak = (Path(folder) / "peak").read_text(encoding="ascii")
            return (Path(folder) / "module.mlir").read_text(encoding="utf-8"), int(peak) if peak else None
        refusal = done.stderr.rpartition(_REFUSED)[2] if _REFUSED in done.stderr else ""
        if refusal:
            kind, what, value, allowed, following = json.loads(refusal.splitlines()[0])
            raise getattr(errors, kind)(what, *([] if value is None else [value]), allowed=allowed, next=following)
        raise _not_lowered(_reason(done.stderr, done.returncode))


def _not_lowered(reason: str) -> errors.WaitingForEvidence:
    versions = _versions()
    by = f"torch-mlir {versions['torch-mlir']}, torch {versions['torch']}"
    return errors.WaitingForEvidence(f"no StableHLO of this model by {by}: {reason}", next="rely on the operator check, which does not need it")


def _reason(said: str, status: int) -> str:
    """The first thing the compiler reported, with the source line; otherwise the last line; otherwise how it ended."""
    from neuronfit.check.calls import shown_path

    found = _DIAGNOSTIC.search(said)
    if found:
        operator, place = _TORCH_OPERATOR.search(found["said"]), _PLACE.search(found["place"])
        what = f"no lowering of {operator['name'] or operator['plain']}" if operator else found["said"][:200]
        return f"{what} ({shown_path(place['file'])}:{place['line']})" if place else what
    if status < 0:
        return f"its process ended with {signal.Signals(-status).name}"
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    return lines[-1][:300] if lines else f"its process ended with status {status}"


def _main(folder: Path) -> int:
    """In the other process: question on standard input, ``module.mlir`` and ``peak`` in ``folder``."""
    from neuronfit.model.refusals import one_line

    try:
        text = _lower_here(*json.load(sys.stdin))
    except errors.NeuronFitError as error:
        value = error.value if error.value is None or isinstance(error.value, (str, int, float)) else repr(error.value)
        print(_REFUSED + json.dumps([type(error).__name__, error.what, value, error.allowed, error.next]), file=sys.stderr)
        return 1
    except Exception as error:  # exporter and compiler raise anything; the reason is part of the answer
        print(f"{type(error).__name__}: {one_line(error)}", file=sys.stderr)
        return 1
    (folder / "module.mlir").write_text(text, encoding="utf-8")
    (folder / "peak").write_text(str(_peak_bytes() or ""), encoding="ascii")
    return 0


def _peak_bytes() -> Optional[int]:
    """Peak resident bytes of this process alone; ``None`` where there is no such file."""
    try:
        found = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text(encoding="ascii"))
    except OSError:
        return None
    return int(found[1]) * 1024 if found else None


def _lower_here(config: Mapping[str, Any], task: str, batch_size: int, sequence_length: int, output_length: Optional[int]) -> str:
    """Export on tensors that have a shape and no data, with the weights as inputs, and lower.

    Weights as literals would be hundreds of megabytes of text, and the meta device makes float64 literals that
    StableHLO refuses.
    """
    import inspect
    import warnings

    warnings.simplefilter("ignore")  # what the exporter warns of is its own code, not the model
    import torch
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch_mlir import fx

    from neuronfit import model as models
    from neuronfit.model.construction import replace_buffers, replace_parameters

    def without_data(like: torch.Tensor) -> torch.Tensor:
        return torch.empty(like.shape, dtype=like.dtype, device="cpu")

    given = models.example_inputs(config, task, batch_size, sequence_length, output_length=output_length, device="meta")
    skeleton = models.skeleton(config, task)
    fixed = {"use_cache": False} if "use_cache" in inspect.signature(skeleton.forward).parameters else {}
    with FakeTensorMode():
        replace_parameters(skeleton, lambda name, parameter: without_data(parameter))
        replace_buffers(skeleton, without_data)
        inputs = {name: without_data(tensor) for name, tensor in given.items()}
    state = {name: parameter.detach() for name, parameter in skeleton.named_parameters()}
    state.update(skeleton.named_buffers())

    class WeightsAsInputs(torch.nn.Module):
        def forward(self, state: dict[str, torch.Tensor], inputs: dict[str, torch.Tensor]) -> tuple[torch.Tensor, ...]:
            output = torch.func.functional_call(skeleton, state, (), {**inputs, **fixed}, tie_weights=True)
            parts = output.values() if isinstance(output, Mapping) else output if isinstance(output, (tuple, list)) else (output,)
            return tuple(part for part in parts if isinstance(part, torch.Tensor))

    with torch.no_grad():
        program = torch.export.export(WeightsAsInputs(), (state, inputs), strict=False)
        return str(fx.export_and_import(program, output_type="stablehlo", experimental_support_mutation=True))


if __name__ == "__main__":
    sys.exit(_main(Path(sys.argv[1])))
