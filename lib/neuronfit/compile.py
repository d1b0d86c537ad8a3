"""Step 3: does the model compile for Neuron, how long does that take, what does the compiler object to?

Where a compiler imports, every shape of the workload is compiled for every Neuron target, each in a
process of its own. Elsewhere the step waits, says what to type on which host, and keeps what an
earlier record knows.
"""

from __future__ import annotations

import hashlib
import io
import json
import re
import shutil
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Optional

from neuronfit import buckets, diagnose, system, targets
from neuronfit.catalog import instances, paths
from neuronfit.diagnose import Diagnosis, meaning, reading, support
from neuronfit.diagnose.private import masked
from neuronfit.diagnose.scan import scan
from neuronfit.errors import BadInput, NotFound
from neuronfit.model import TASKS
from neuronfit.provenance import Estimated, Grade, Measured, Quantity, absent
from neuronfit.record import Compile, CompileOfBucket, CompileOfTarget, Finding, OperatorAnalysis, Severity, UnsupportedOperator
from neuronfit.system import System
from neuronfit.targets import compilation
from neuronfit.targets.compilation import Job, Outcome

if TYPE_CHECKING:
    from neuronfit.params import Shape, Target
    from neuronfit.question import Question

__all__ = ["CODES", "compile_test", "informative_lines", "shapes_to_compile"]

CODES = (
    "analysis_failed",
    "analysis_objects",
    "compile_evidence_kept",
    "compile_failed",
    "compile_unproven",
    "compiled_elsewhere",
    "compiler_absent",
    "compiler_crash",
    "host_memory",
    "shape_failed",
    "shape_waiting",
)
"""Finding codes of step 3, beside those of :mod:`neuronfit.buckets` and of a diagnosed log."""

CLOCK = "time.perf_counter"
KNOWN = ("compiled", "failed")
"""Statuses that are evidence."""

_INFORMATIVE = re.compile(r"\bNCC_\w+|\[[A-Z]{4,}\d{3}\]|\bERROR\b|\berror:|Error\b|not supported|unsupported", re.IGNORECASE)

_FRAME = re.compile(r'^\s*(File ".*", line \d+|Traceback \(most recent call last\)|\^+\s*$)')

_UNSPECIFIC = ("compile_failed", "crash", "process_crash", "unlisted_error")
"""Diagnoses that say less than how the process ended."""

_MEMORY_IS = "resident memory of the process and its children together (Python, torch and the model included), sampled every 0.1 s"

NOT_COMPILED = {
    "cuda": "PyTorch runs on a GPU without ahead-of-time compilation",
    "cpu": "PyTorch runs on a CPU without ahead-of-time compilation",
    "endpoint": "an endpoint is called, not compiled",
}
"""Paths without a Neuron compiler, and why."""


def compile_test(question: Question) -> Compile:
    """Compile every shape for every Neuron target, where this host can, and store the record.

    A target that only waits keeps the newest result that an earlier record of the same question has.
    """
    host = system.probe()
    rows, findings, tried = [], [], False
    for target in question.targets:
        row, found = _row(question, target, host)
        tried |= any(bucket.status in KNOWN for bucket in row.buckets)
        earlier = _earlier(question, target) if row.status == "waiting" else None
        if earlier is not None:
            row, found = earlier[0], [*earlier[1], _kept(row, earlier[0])]
        rows.append(row)
        findings += found
    advice = buckets.advise(question)
    record = Compile(
        workload=question.ref,
        source=Measured(host=host.host, clock=CLOCK) if tried else _nothing_compiled(rows),
        findings=(*findings, *buckets.findings(advice)),
        bottom_line=_bottom_line(question, rows),
        targets=tuple(rows),
        advice=advice,
        system=host if tried else None,
    )
    return question.dossier.admit(record)


def shapes_to_compile(question: Question) -> tuple[Shape, ...]:
    """The shapes of the workload that are different graphs, in order. The length of an image does not make one."""
    image = TASKS[question.params.workload.model.task].input == "image"
    different = {}
    for shape in question.params.workload.shapes:
        different.setdefault((shape.batch_size, None if image else shape.sequence_length, shape.output_length), shape)
    return tuple(different.values())


def informative_lines(text: str, most: int = 3, width: int = 200) -> str:
    """The lines of a compiler's message that say something: those with an error code or the word, else the first."""
    lines = [line.strip() for line in text.splitlines() if line.strip() and not _FRAME.match(line)]
    telling = [line for line in lines if _INFORMATIVE.search(line)] or lines or ["no message"]
    return " / ".join(line if len(line) <= width else line[: width - 3] + "..." for line in telling[:most])


# -- one target -------------------------------------------------------------------------------


def _row(question: Question, target: Target, host: System) -> tuple[CompileOfTarget, list[Finding]]:
    said: dict[str, Any] = {"target": target.name, "path": target.path, "instance_type": target.instance_type}
    if target.path in NOT_COMPILED:
        return CompileOfTarget(status="not_needed", because=NOT_COMPILED[target.path], **said), []
    if target.path not in buckets.COMPILED_PATHS:
        return _compiled_elsewhere(question, target, said)
    lacking = _why_no_compiler(target, host)
    if lacking:
        row = CompileOfTarget(status="waiting", because=lacking, next=_where(question, target), **said)
        return row, [Finding(severity=Severity.WAITING, code="compiler_absent", because=row.because, next=row.next, target=row.target)]
    shapes = shapes_to_compile(question)
    analysis, notes = _analysed(question, target, host, shapes[0]) if target.path == "neuron_xla" else (None, [])
    tried = [_bucket(question, target, host, shape) for shape in shapes]
    row, findings = _together(tried, said)
    about = _about_analysis(analysis, target, row.status == "compiled") if analysis else []
    return row.model_copy(update={"analysis": analysis}), [*findings, *about, *notes]


def _compiled_elsewhere(question: Question, target: Target, said: dict[str, Any]) -> tuple[CompileOfTarget, list[Finding]]:
    """A server or exporter compiles by itself; its log, adopted, is this step's evidence."""
    path = paths.find(target.path, target.instance_type)
    because = f"{path.title} compiles by itself when it starts or exports, and is not started here"
    typed = f"neuronfit diagnose LOG --for {target.name} --params {question.command_name}"
    next = f"{targets.on_a(target.instance_type)} do what step 2 says under 'What to type', keep what it prints, and adopt it: {typed}"
    if path.supported is False:
        because, next = f"{path.title} on {target.instance_type}: {path.status}", path.advice
    row = CompileOfTarget(status="waiting", because=because, next=next, **said)
    return row, [Finding(severity=Severity.WAITING, code="compiled_elsewhere", because=because, next=next, target=target.name)]


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
    return f"no Neuron compiler on this host: {package} {'is not installed' if reason == 'not installed' else reason}"


def _where(question: Question, target: Target) -> str:
    place = targets.on_a(target.instance_type)
    if target.path == "neuron_xla":
        place += ", or on any x86-64 host with the packages of SDK 2.31,"
    return f"{place} type: neuronfit run {question.command_name} --steps 3"


def _together(tried: Sequence[tuple[CompileOfBucket, Optional[Finding]]], said: dict[str, Any]) -> tuple[CompileOfTarget, list[Finding]]:
    """One answer from all shapes.

    Batch sizes are ours to choose, lengths are not: it compiles when for every length some batch size
    does, and does not when for some length none does and a blocker says why. A compilation that failed
    for another reason (the host, a crash of unknown cause) leaves the question open.
    """
    by_length: dict[Any, list[tuple[CompileOfBucket, Optional[Finding]]]] = {}
    for bucket, finding in tried:
        by_length.setdefault((bucket.shape.get("sequence_length"), bucket.shape.get("output_length")), []).append((bucket, finding))
    open_ones = [pair for group in by_length.values() if all(one.status != "compiled" for one, _ in group) for pair in group]
    blocked = [pair for pair in open_ones if pair[1] is not None and pair[1].severity is Severity.BLOCKER]
    lead, why = next(iter(blocked or open_ones), (None, None))
    done = [bucket for bucket, _ in tried if bucket.status == "compiled"]
    times = [bucket.compile_time for bucket in done if bucket.compile_time]
    peaks = [bucket.peak_memory for bucket, _ in tried if bucket.peak_memory]
    sizes = [int(bucket.artefact_size.value or 0) for bucket in done if bucket.artefact_size and bucket.artefact_size.known]
    first, only = tried[0][0], len(tried) == 1
    seconds = sum(time.value or 0.0 for time in times)
    every = (
        f"all {len(done)} shapes compiled" if len(done) == len(tried) else f"{len(done)} of {len(tried)} shapes compiled, every length among them,"
    )
    row = CompileOfTarget(
        status="failed" if blocked else "waiting" if open_ones else "compiled",
        because=lead.because if lead else first.because if only else f"{every} in {seconds:.3g} s",
        next=lead.next if lead else None,
        code=lead.code if lead else None,
        steps=lead.steps if lead else (),
        compile_time=Quantity(value=seconds, unit="s", grade=Grade.MEASURED) if times else None,
        peak_memory=max(peaks, key=lambda one: one.value or 0.0) if peaks else None,
        artefact_bytes=sum(sizes) if sizes else None,
        artefact_sha256=first.artefact_sha256 if only else None,
        versions=first.versions,
        flags=first.flags,
        shape=first.shape if only else None,
        buckets=tuple(bucket for bucket, _ in tried),
        grade=Grade.MEASURED if any(bucket.status in KNOWN for bucket, _ in tried) else None,
        **said,
    )
    others = [pair for pair in tried if pair[1] is not None and pair[0] is not lead and (why is None or pair[1].code != why.code)]
    return row, [*([why] if why else []), *(_beside(bucket, finding) for bucket, finding in others if finding)]


def _beside(bucket: CompileOfBucket, finding: Finding) -> Finding:
    """What a reader must know of a shape that does not decide."""
    if bucket.status == "failed":
        return Finding(severity=Severity.WARNING, code="shape_failed", because=finding.because, next=finding.next, target=finding.target)
    return Finding(severity=Severity.WAITING, code="shape_waiting", because=finding.because, next=finding.next, target=finding.target)


# -- one shape --------------------------------------------------------------------------------


def _bucket(question: Question, target: Target, host: System, shape: Shape) -> tuple[CompileOfBucket, Optional[Finding]]:
    """Compile one shape. With what was found where it did not compile."""
    words = _words(question, shape)
    with tempfile.TemporaryDirectory(prefix="neuronfit-") as folder:
        outcome = compilation.apart(Job(targets.Subject.of(question, target), target.path, shape), Path(folder))
        said: dict[str, Any] = {
            "shape": shape.model_dump(),
            "versions": {name: host.packages[name] for name in ("torch", "torch_neuronx", "neuronxcc") if name in host.packages},
            "flags": outcome.flags,
            "peak_memory": _measured(outcome.peak_memory_bytes, "bytes", _MEMORY_IS),
        }
        if outcome.status == "waiting":
            code = "compile_unproven" if outcome.unproven else "shape_waiting"
            finding = _waits(code, f"{words}: {outcome.because}", outcome.next, target.name)
            return CompileOfBucket(status="waiting", because=finding.because, next=finding.next, **said), finding
        if outcome.status != "done":
            finding, code, steps = _failure(outcome, target.name, words, host)
            log = _keep_log(question, target, shape, outcome)
            return CompileOfBucket(status="failed", because=finding.because, next=finding.next, code=code, steps=steps, log=log, **said), finding
    compiled = CompileOfBucket(
        status="compiled",
        because=f"{words} compiled in {outcome.seconds:.3g} s",
        proof=outcome.proof,
        compile_time=_measured(outcome.seconds, "s"),
        artefact_size=_measured(outcome.artefact_bytes, "bytes") or absent("bytes", "no compiled file was found"),
        artefact_sha256=outcome.artefact_sha256,
        cached=outcome.cached,
        cached_because=outcome.cached_because,
        **said,
    )
    return compiled, None


def _waits(code: str, because: str, next: Optional[str], target: str) -> Finding:
    if code == "compile_unproven":
        return Finding(severity=Severity.WAITING, code="compile_unproven", because=because, next=next, target=target)
    return Finding(severity=Severity.WAITING, code="shape_waiting", because=because, next=next, target=target)


def _failure(outcome: Outcome, target: str, words: str, host: System) -> tuple[Finding, str, tuple[str, ...]]:
    """What a failed compilation becomes: the finding, the code of the failure, what to try."""
    diagnosis = _diagnosed(outcome)
    begin = f"{words} failed after {outcome.seconds or 0.0:.3g} s"
    if diagnosis is not None and diagnosis.outcome in ("failed", "partial", "environment") and diagnosis.code not in _UNSPECIFIC:
        because = f"{begin}: {diagnosis.code}: {diagnosis.finding.because}"
        next = diagnosis.steps[0] if diagnosis.steps else diagnosis.finding.next
        return diagnosis.finding.model_copy(update={"because": because, "next": next, "target": target}), diagnosis.code, diagnosis.steps
    if outcome.signal == 9 or outcome.because.startswith("MemoryError"):
        steps = meaning.meaning("host_memory").steps
        peak, total = outcome.peak_memory_bytes, host.memory_bytes
        seen = f"; at its peak it held {peak / 2**30:.3g} GiB" + (f" of {total / 2**30:.3g}" if total else "") if peak else ""
        because = f"{begin}: {outcome.because}, nearly always because the host ran out of memory{seen}"
        return (
            Finding(severity=Severity.WARNING, code="host_memory", because=because, next=steps[0], target=target),
            "killed" if outcome.signal else "MemoryError",
            steps,
        )
    if outcome.signal:
        steps = meaning.meaning("compiler_crash").steps
        finding = Finding(severity=Severity.BLOCKER, code="compiler_crash", because=f"{begin}: {outcome.because}", next=steps[0], target=target)
        return finding, f"signal_{outcome.signal}", steps
    steps = meaning.meaning("compiler_failed").steps
    because = f"{begin}: {masked(informative_lines(outcome.because))}"
    return Finding(severity=Severity.BLOCKER, code="compile_failed", because=because, next=steps[0], target=target), "compile_failed", steps


def _diagnosed(outcome: Outcome) -> Optional[Diagnosis]:
    """What the log says, or the message where nothing was printed; ``None`` where it cannot be read."""
    try:
        if outcome.log is not None and outcome.log.stat().st_size:
            return diagnose.diagnose(outcome.log)
        return diagnose.diagnose(io.BytesIO(outcome.because.encode()))
    except (BadInput, OSError):
        return None


def _keep_log(question: Question, target: Target, shape: Shape, outcome: Outcome) -> Optional[str]:
    """Copy the log of a failure into the dossier; its name there, or ``None`` where there is no log."""
    if outcome.log is None or not outcome.log.stat().st_size:
        return None
    with open(outcome.log, "rb") as file:
        digest = hashlib.file_digest(file, "sha256") if hasattr(hashlib, "file_digest") else hashlib.sha256(file.read())
    size = "-".join(f"{letter}{number}" for letter, number in zip("bso", shape.model_dump().values()) if number is not None)
    kept = Path("logs") / f"{target.name}-{size}-{digest.hexdigest()[:8]}.log"
    try:
        (question.dossier.folder / "logs").mkdir(parents=True, exist_ok=True)
        shutil.copyfile(outcome.log, question.dossier.folder / kept)
    except OSError:  # where the log cannot be written, the record cannot either, and that is reported
        return None
    return str(kept)


def _words(question: Question, shape: Shape) -> str:
    parts = [f"batch {shape.batch_size}"]
    parts += [f"sequence {shape.sequence_length}"] if TASKS[question.params.workload.model.task].input != "image" else []
    parts += [f"output {shape.output_length}"] if shape.output_length else []
    return ", ".join(parts)


def _measured(value: Optional[float], unit: str, why: Optional[str] = None) -> Optional[Quantity]:
    return None if value is None else Quantity(value=float(value), unit=unit, grade=Grade.MEASURED, why=why)


# -- the official pre-check -------------------------------------------------------------------


def _analysed(question: Question, target: Target, host: System, shape: Shape) -> tuple[Optional[OperatorAnalysis], list[Finding]]:
    """``torch_neuronx.analyze`` at one shape. That it fails itself is a note: the compilation decides."""
    with tempfile.TemporaryDirectory(prefix="neuronfit-") as folder:
        outcome = compilation.apart(Job(targets.Subject.of(question, target), target.path, shape, analyze=True), Path(folder))
    if outcome.status == "waiting":
        return None, []  # the compilation waits for the same, and says so
    found = _parsed(outcome.analysis) if outcome.analysis else None
    if found is None:
        why = masked(informative_lines(outcome.because, most=1)) if outcome.because else "its answer has no support_percentage"
        because = f"torch_neuronx.analyze gave no answer: {why}"
        return None, [
            Finding(severity=Severity.NOTE, code="analysis_failed", because=because, next="read the compilation instead", target=target.name)
        ]
    taken, out_of = found.percent, sum(found.supported.values()) + len(found.unsupported)
    return (
        OperatorAnalysis(
            shape=shape.model_dump(),
            support=Quantity(value=taken / 100, unit="fraction", grade=Grade.MEASURED)
            if taken is not None
            else absent("fraction", f"analyze() printed {found.impossible or 'no percentage'}"),
            supported=found.supported,
            unsupported=tuple(_objection(entry) for entry in found.unsupported),
            versions=found.versions,
            because=f"each of {out_of} operator calls compiled alone, at {_words(question, shape)}",
        ),
        [],
    )


def _parsed(answer: dict[str, Any]) -> Optional[support.Analysis]:
    """Read as the JSON that people print it to, with its percentage in a string; graphs left out."""
    listed = answer.get("unsupported_operators")
    if isinstance(listed, list):
        slim = [{key: value for key, value in entry.items() if key != "opGraph"} if isinstance(entry, dict) else entry for entry in listed]
        answer = {**answer, "unsupported_operators": slim}
    return support.analysis(scan(io.BytesIO(json.dumps(answer).encode()), reading.texts()))


def _objection(entry: dict[str, str]) -> UnsupportedOperator:
    call = next((line.strip() for line in entry.get("call", "").splitlines() if line.strip()), None)
    return UnsupportedOperator(name=entry.get("kind", "unnamed"), failure_at=entry.get("failureAt"), call=masked(call) if call else None)


def _about_analysis(analysis: OperatorAnalysis, target: Target, compiled: bool) -> list[Finding]:
    if not analysis.unsupported and analysis.support.value in (None, 1.0):
        return []
    named = ", ".join(sorted({f"{one.name} ({one.failure_at})" if one.failure_at else one.name for one in analysis.unsupported})) or "not named"
    share = f"{analysis.support.value * 100:g} %" if analysis.support.value is not None else "an unknown share"
    because = f"torch_neuronx.analyze takes {share} of the operators; not taken: {named}"
    if compiled:
        because += "; the whole graph compiled all the same"
    next = "rewrite the operator: neuronfit check names a rewrite where one is documented"
    return [
        Finding(severity=Severity.NOTE if compiled else Severity.WARNING, code="analysis_objects", because=because, next=next, target=target.name)
    ]


# -- what an earlier record knows -------------------------------------------------------------


def _earlier(question: Question, target: Target) -> Optional[tuple[CompileOfTarget, list[Finding]]]:
    """The newest result for this target in the dossier, with its findings; compiled here or adopted from a log."""
    for record in reversed([entry for entry in question.dossier if isinstance(entry, Compile)]):
        row = record.row(target.name)
        if record.workload.fingerprint != question.ref.fingerprint or row is None or row.status not in KNOWN:
            continue
        if row.path == target.path and _same_hardware(row.instance_type, target.instance_type):
            about = [one for one in record.findings if one.target == target.name]
            return row, [one for one in about if one.severity is not Severity.WAITING and one.code != "compile_evidence_kept"]
    return None


def _same_hardware(one: Optional[str], other: str) -> bool:
    """Whether the same compiled graph serves: the same generation. A row that names no type is believed."""
    if one is None or one == other:
        return True
    try:
        return instances.find(one).generation == instances.find(other).generation is not None
    except NotFound:
        return False


def _kept(waiting: CompileOfTarget, kept: CompileOfTarget) -> Finding:
    return Finding(
        severity=Severity.NOTE,
        code="compile_evidence_kept",
        because=f"{waiting.because}; the {kept.grade} result of record {kept.record} stands",
        next=waiting.next,
        target=kept.target,
    )


def _nothing_compiled(rows: Iterable[CompileOfTarget]) -> Estimated:
    kept = {row.target: str(row.grade) for row in rows if row.status in KNOWN}
    if kept:
        return Estimated(formula="nothing compiled on this host; results of earlier records stand", inputs=kept)
    return Estimated(formula="no compiler on this host; nothing compiled", inputs={})


# -- what it says -----------------------------------------------------------------------------


def _bottom_line(question: Question, rows: Sequence[CompileOfTarget]) -> str:
    asked = [row for row in rows if row.status != "not_needed"]
    if not asked:
        return f"No target of {question.name} needs a Neuron compiler."
    parts = []
    for status, words in (("compiled", "compiles for"), ("failed", "does not compile for")):
        named = [_named(row) for row in asked if row.status == status]
        parts += [f"{words} {_and(named)}"] if named else []
    waiting = [row for row in asked if row.status == "waiting"]
    names = [row.target for row in waiting]
    if not parts:
        if any(row.buckets for row in waiting) or all(row.path not in buckets.COMPILED_PATHS for row in waiting):
            return f"Whether {question.name} compiles is not known for {_and(names)}: {waiting[0].because}."
        return f"Whether {question.name} compiles is not known for {_and(names)}: this host cannot compile for {'it' if len(names) == 1 else 'them'}."
    parts += [f"has not been compiled for {_and(names)}"] if names else []
    return f"{question.name} {_and(parts)}."


def _named(row: CompileOfTarget) -> str:
    """``inf2 (4.2 s)``, and where an earlier record says so, which."""
    about = [f"{row.compile_time.value:.3g} s"] if row.compile_time and row.compile_time.known else []
    about += [f"record {row.record}"] if row.record else []
    return f"{row.target} ({', '.join(about)})" if about else row.target


def _and(words: list[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"
