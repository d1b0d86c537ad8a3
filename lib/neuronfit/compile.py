"""Step 3: does the model compile for Neuron, how long does that take, what does the compiler object to?

Where a compiler imports, the first shape of the workload is compiled through the same target that
would be measured. Elsewhere the step waits, and says what to type on which host.
"""

from __future__ import annotations

import hashlib
import re
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Optional

from neuronfit import system, targets
from neuronfit.errors import BadInput, NeuronFitError, WaitingForEvidence
from neuronfit.provenance import Estimated, Grade, Measured, Quantity
from neuronfit.record import Compile, CompileOfTarget, Finding, Severity
from neuronfit.system import System

if TYPE_CHECKING:
    from neuronfit.params import Shape, Target
    from neuronfit.question import Question

__all__ = ["CODES", "compile_test", "informative_lines"]

CODES = ("compile_failed", "compiler_absent")
"""Finding codes of step 3."""

CLOCK = "time.perf_counter"

_INFORMATIVE = re.compile(r"\bNCC_\w+|\[[A-Z]{4,}\d{3}\]|\bERROR\b|\berror:|Error\b|not supported|unsupported", re.IGNORECASE)

_FRAME = re.compile(r'^\s*(File ".*", line \d+|Traceback \(most recent call last\)|\^+\s*$)')


def compile_test(question: Question) -> Compile:
    """Compile the first shape for every Neuron target, where this host can, and store the record."""
    host = system.probe()
    rows = tuple(_row(question, target, host) for target in question.targets)
    compiled = any(row.status in ("compiled", "failed") for row in rows)
    record = Compile(
        workload=question.ref,
        source=(Measured(host=host.host, clock=CLOCK) if compiled else Estimated(formula="no compiler on this host; nothing compiled", inputs={})),
        findings=tuple(finding for row in rows for finding in _findings(row)),
        bottom_line=_bottom_line(question, rows),
        targets=rows,
        system=host if compiled else None,
    )
    return question.dossier.admit(record)


def informative_lines(text: str, most: int = 3, width: int = 200) -> str:
    """The lines of a compiler's message that say something: those with an error code or the word, else the first."""
    lines = [line.strip() for line in text.splitlines() if line.strip() and not _FRAME.match(line)]
    telling = [line for line in lines if _INFORMATIVE.search(line)] or lines or ["no message"]
    return " / ".join(line if len(line) <= width else line[: width - 3] + "..." for line in telling[:most])


# -- one target -------------------------------------------------------------------------------


def _row(question: Question, target: Target, host: System) -> CompileOfTarget:
    if target.path not in ("neuron_xla", "neuron_native"):
        because = {
            "cuda": "PyTorch runs on a GPU without ahead-of-time compilation",
            "cpu": "PyTorch runs on a CPU without ahead-of-time compilation",
            "endpoint": "an endpoint is called, not compiled",
        }.get(target.path, f"path {target.path} compiles inside its own server, when it starts")
        return CompileOfTarget(target=target.name, path=target.path, status="not_needed", because=because)
    absent = _why_no_compiler(target, host)
    if absent:
        return _waiting(question, target, absent)
    return _compiled(question, target, host, question.params.workload.shapes[0])


def _why_no_compiler(target: Target, host: System) -> Optional[str]:
    """Why nothing can be compiled for this target here; ``None`` when it can."""
    version = host.packages.get("torch_neuronx")
    if version is None:
        return _package_absent("torch_neuronx", host)
    wanted = system.XLA_TRACE if target.path == "neuron_xla" else system.TORCHNEURON_COMPILED
    try:
        route = system.neuron_route(target.instance_type, version)
    except BadInput as error:
        return f"{host.host} has torch_neuronx {version}: {error.allowed or error}"
    if route != wanted:
        return f"torch_neuronx {version} on {host.host} is the route {route}; path {target.path} needs {wanted}"
    if target.path == "neuron_xla" and "neuronxcc" not in host.packages:
        return _package_absent("neuronxcc", host)
    if target.path == "neuron_native" and not system.neuron_devices():
        return f"TorchNeuron compiles on the device, and {host.host} has no /dev/neuron* device"
    return None


def _package_absent(package: str, host: System) -> str:
    reason = host.absent.get(package, "not installed")
    return f"no Neuron compiler on {host.host}: {package} {'is not installed' if reason == 'not installed' else reason}"


def _waiting(question: Question, target: Target, because: str) -> CompileOfTarget:
    command = f"neuronfit run {question.command_name} --steps 3"
    place = targets.on_a(target.instance_type)
    if target.path == "neuron_xla":
        place += ", or on any x86-64 host with the packages of SDK 2.31,"
    return CompileOfTarget(target=target.name, path=target.path, status="waiting", because=because, next=f"{place} type: {command}")


def _compiled(question: Question, target: Target, host: System, shape: Shape) -> CompileOfTarget:
    try:
        thing: Any = targets.for_path(target.path)(targets.Subject.of(question, target))
        thing.build(shape)
    except WaitingForEvidence as error:
        return CompileOfTarget(target=target.name, path=target.path, status="waiting", because=error.what, next=error.next)
    said = {
        "target": target.name,
        "path": target.path,
        "versions": {name: host.packages[name] for name in ("torch", "torch_neuronx", "neuronxcc") if name in host.packages},
        "flags": tuple(thing.compiler_args),
        "shape": shape.model_dump(),
    }
    start = time.perf_counter()
    try:
        thing.compile()
    except NeuronFitError:
        raise
    except Exception as error:  # the compiler documents no exception types; its message is the answer
        taken = time.perf_counter() - start
        because = f"after {taken:.3g} s: {type(error).__name__}: {informative_lines(str(error))}"
        return CompileOfTarget(status="failed", because=because, next="keep the compiler's log and type: neuronfit diagnose LOG", **said)
    taken = time.perf_counter() - start
    size, digest = _artefact(thing)
    return CompileOfTarget(
        status="compiled",
        because=f"batch {shape.batch_size}, sequence {shape.sequence_length} compiled in {taken:.3g} s",
        compile_time=Quantity(value=taken, unit="s", grade=Grade.MEASURED),
        artefact_bytes=size,
        artefact_sha256=digest,
        **said,
    )


def _artefact(thing: Any) -> tuple[Optional[int], Optional[str]]:
    """Bytes and sha256 of the compiled files together, in name order; ``None`` when there are none to see."""
    with tempfile.TemporaryDirectory(prefix="neuronfit-") as folder:
        paths = thing.save(Path(folder))
        if not paths:
            return None, None
        digest, size = hashlib.sha256(), 0
        for path in paths:
            with open(path, "rb") as file:
                while block := file.read(2**20):
                    digest.update(block)
                    size += len(block)
    return size, digest.hexdigest()


# -- what it says -----------------------------------------------------------------------------


def _findings(row: CompileOfTarget) -> list[Finding]:
    if row.status == "waiting":
        return [Finding(severity=Severity.WAITING, code="compiler_absent", because=row.because, next=row.next, target=row.target)]
    if row.status == "failed":
        return [Finding(severity=Severity.BLOCKER, code="compile_failed", because=row.because, next=row.next, target=row.target)]
    return []


def _bottom_line(question: Question, rows: tuple[CompileOfTarget, ...]) -> str:
    asked = [row for row in rows if row.status != "not_needed"]
    if not asked:
        return f"No target of {question.name} needs a Neuron compiler."
    parts = []
    for status, words in (("compiled", "compiles for"), ("failed", "does not compile for")):
        named = [f"{row.target} ({row.compile_time.value:.3g} s)" if row.compile_time else row.target for row in asked if row.status == status]
        parts += [f"{words} {_and(named)}"] if named else []
    waiting = [row.target for row in asked if row.status == "waiting"]
    if not parts:
        return f"Whether {question.name} compiles is not known for {_and(waiting)}: this host cannot compile for {'it' if len(waiting) == 1 else 'them'}."
    parts += [f"has not been compiled for {_and(waiting)}"] if waiting else []
    return f"{question.name} {_and(parts)}."


def _and(words: list[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"
