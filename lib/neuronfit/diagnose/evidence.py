"""A diagnosed log as step 3's evidence for a target: adopted, with its hash, graded imported."""

from __future__ import annotations

import hashlib
import os
from typing import TYPE_CHECKING, BinaryIO, Union

from neuronfit.diagnose.diagnosis import Diagnosis
from neuronfit.errors import BadInput, WaitingForEvidence
from neuronfit.provenance import Grade, Imported, Quantity
from neuronfit.record import Compile, CompileOfTarget, Severity

if TYPE_CHECKING:
    from neuronfit.question import Question

__all__ = ["adopt", "row"]


class _Hashed:
    """A binary stream that hashes what is read from it."""

    def __init__(self, stream: BinaryIO):
        self.stream, self.digest = stream, hashlib.sha256()

    def read(self, size: int = -1) -> bytes:
        block = self.stream.read(size)
        self.digest.update(block)
        return block


def adopt(question: Question, log: Union[str, "os.PathLike[str]", BinaryIO], target: str) -> tuple[Compile, Diagnosis]:
    """Diagnose a log and admit it as the compile evidence of one target; rows of other targets are kept.

    Raises :class:`~neuronfit.errors.WaitingForEvidence` when the log says nothing about the model (no
    verdict, or a fault of the host), and :class:`~neuronfit.errors.BadInput` when it cannot be read.
    """
    from neuronfit.diagnose import diagnose

    aim = question.target(target)
    if isinstance(log, (str, os.PathLike)):
        name = str(log)
        try:
            with open(log, "rb") as stream:
                hashed = _Hashed(stream)
                diagnosis = diagnose(hashed)  # type: ignore[arg-type]
        except OSError as error:
            raise BadInput(f"cannot read the log ({error.strerror or error})", name) from None
    else:
        name, hashed = "standard input", _Hashed(log)
        diagnosis = diagnose(hashed)  # type: ignore[arg-type]
    if diagnosis.outcome in ("unknown", "environment"):
        raise WaitingForEvidence(
            f"the log is no evidence for {aim.name}: {diagnosis.title[0].lower()}{diagnosis.title[1:]}",
            next=diagnosis.steps[0] if diagnosis.steps else "add the whole log of a run",
        )
    built = row(diagnosis, aim.name, aim.path)
    before = question.dossier.latest(Compile)
    old = before.row(aim.name) if before else None
    built = built.model_copy(update={"instance_type": aim.instance_type})
    if built.status == "waiting" and old is not None and old.status in ("compiled", "failed"):
        built = old
    others = tuple(filter(None, (before.row(entry.target) for entry in before.targets if entry.target != aim.name))) if before else ()
    finding = diagnosis.finding.model_copy(update={"target": aim.name})
    kept = tuple(found for found in before.findings if found.target != aim.name or built is old) if before else ()
    record = Compile(
        workload=question.ref,
        source=Imported(
            file=os.path.basename(name),
            sha256=hashed.digest.hexdigest(),
            tool=next((tool for tool in ("neuronx-cc", "neuron-cc") if tool in diagnosis.facts), None),
            tool_version=next((diagnosis.facts[tool] for tool in ("neuronx-cc", "neuron-cc") if tool in diagnosis.facts), None),
            missing=tuple(
                what
                for what, fact in (("compiler flags", "flags"), ("compiler version", "neuronx-cc"), ("compile time", "elapsed_s"))
                if fact not in diagnosis.facts
            ),
        ),
        findings=(*kept, *((finding,) if finding.severity is not Severity.NOTE or built is not old else ())),
        bottom_line=f"{aim.name}, from a log: {diagnosis.sentence}",
        advice=before.advice if before else None,
        targets=tuple(
            sorted(
                (*others, built),
                key=lambda entry: (
                    [known.name for known in question.targets].index(entry.target)
                    if entry.target in [known.name for known in question.targets]
                    else 99
                ),
            )
        ),
    )
    return question.dossier.admit(record), diagnosis


def row(diagnosis: Diagnosis, target: str, path: str) -> CompileOfTarget:
    """Step 3's row for a target: ``compiled``, ``failed``, or ``waiting`` where only an analysis was done."""
    proven = (
        diagnosis.outcome == "success"
        and diagnosis.phase in ("compile", "load", "serve", "execute")
        and diagnosis.code not in ("harmless_shutdown", "tests_passed")
    )
    failed = diagnosis.outcome == "failed" or (diagnosis.outcome == "partial" and diagnosis.finding.severity is Severity.BLOCKER)
    status = "compiled" if proven or (diagnosis.outcome == "partial" and not failed) else "failed" if failed else "waiting"
    seconds = diagnosis.facts.get("elapsed_s")
    return CompileOfTarget(
        target=target,
        path=path,
        status=status,  # type: ignore[arg-type]
        because=f"a log says: {diagnosis.sentence}",
        next=diagnosis.steps[0] if status != "compiled" and diagnosis.steps else None,
        compile_time=Quantity(value=float(seconds), unit="s", grade=Grade.IMPORTED, why=diagnosis.facts.get("elapsed"))
        if proven and seconds
        else None,
        versions={
            name: value
            for name, value in diagnosis.facts.items()
            if name in ("neuronx-cc", "neuron-cc", "torch-neuronx", "torch-neuron", "runtime", "driver", "vllm", "libneuronxla")
        },
        flags=tuple(diagnosis.facts.get("flags", "").split()),
        code=diagnosis.code if status == "failed" else None,
        steps=diagnosis.steps if status == "failed" else (),
        grade=Grade.IMPORTED if status != "waiting" else None,
    )
