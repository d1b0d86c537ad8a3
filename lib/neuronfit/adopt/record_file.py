"""A record written by `neuronfit measure` on another host, admitted here."""

from __future__ import annotations

from pathlib import Path
from typing import Optional, Union

from neuronfit import record as records
from neuronfit.errors import BadInput, BadRecord
from neuronfit.question import CPU, Question
from neuronfit.record import Measurement, Parity, Record

__all__ = ["adopt_evidence", "adopt_record", "read_record", "target_of"]


def adopt_evidence(question: Question) -> list[Record]:
    """Admit every file of the params file's ``evidence`` section: records of other hosts, and other tools' files with
    what is declared about them. Raises the first error met."""
    from neuronfit.adopt import Declared, adopt

    admitted: list[Record] = []
    for entry in question.params.evidence:
        for path, outcome in adopt(question, question.file(entry.file), entry.target, format=entry.format, declared=Declared.of(entry.settings)):
            if isinstance(outcome, BadInput):
                if str(path) in str(outcome):
                    raise outcome
                value = () if outcome.value is None else (outcome.value,)
                raise BadRecord(f"evidence file {path}: {outcome.what}", *value, allowed=outcome.allowed, next=outcome.next)
            admitted += outcome
    return admitted


def read_record(path: Union[str, Path]) -> Union[Measurement, Parity]:
    """The measurement, or the comparison of outputs, in a file. Raises :class:`~neuronfit.errors.BadRecord` when it is missing,
    truncated, foreign or another kind of record."""
    path = Path(path)
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or "it is not text"
        raise BadRecord(f"cannot read the evidence file ({reason})", str(path), allowed="a JSON file written by neuronfit measure") from None
    record = records.read(text, where=str(path))
    if not isinstance(record, (Measurement, Parity)):
        raise BadRecord(f"{path} is a {record.kind} record", record.schema_, allowed="measurement/1, parity/1")
    return record


def adopt_record(question: Question, path: Union[str, Path], target: str) -> Union[Measurement, Parity]:
    """Admit one record file for a target. The record itself is not changed: its grade stays measured.

    Raises :class:`~neuronfit.errors.BadRecord` as :func:`read_record` does, and when the record is
    about another target or question, or was taken on another instance type.
    """
    aim, record = question.target(target), read_record(path)
    name = aim.name
    about, instance_type = _about(record)
    if about != name:
        raise BadRecord(f"{path} was measured as target {about!r}, asked for", name, next=f"use --for {about}")
    if record.workload.fingerprint != question.ref.fingerprint:
        raise BadRecord(
            f"{path} answers another question (model, task, weights or lengths); its fingerprint is",
            record.workload.fingerprint,
            allowed=question.ref.fingerprint,
            next=f"neuronfit measure {question.command_name} --target {name}",
        )
    if instance_type and name != CPU and instance_type != aim.instance_type:
        raise BadRecord(
            f"{path} was taken on another instance type than {name} has",
            instance_type,
            allowed=aim.instance_type,
            next="correct the params file, or measure there",
        )
    return question.dossier.admit(record)


def _about(record: Union[Measurement, Parity]) -> tuple[str, Optional[str]]:
    """Target and instance type that a record speaks for; a comparison of outputs speaks for its candidate."""
    side = record.candidate if isinstance(record, Parity) else record
    return side.target, side.instance_type


def target_of(record: Union[Measurement, Parity]) -> str:
    """Name of the target that a record of this project speaks for."""
    return _about(record)[0]
