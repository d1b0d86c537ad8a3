"""A record written by `neuronfit measure` on another host, admitted here."""

from __future__ import annotations

from pathlib import Path
from typing import Union

from neuronfit import record as records
from neuronfit.errors import BadRecord
from neuronfit.question import CPU, Question
from neuronfit.record import Measurement

__all__ = ["adopt_evidence", "adopt_record", "read_record"]


def adopt_evidence(question: Question) -> list[Measurement]:
    """Admit every file of the params file's ``evidence`` section."""
    return [adopt_record(question, question.file(entry.file), entry.target) for entry in question.params.evidence]


def read_record(path: Union[str, Path]) -> Measurement:
    """The measurement in a file. Raises :class:`~neuronfit.errors.BadRecord` when it is missing,
    truncated, foreign or another kind of record."""
    path = Path(path)
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or "it is not text"
        raise BadRecord(f"cannot read the evidence file ({reason})", str(path), allowed="a JSON file written by neuronfit measure") from None
    record = records.read(text, where=str(path))
    if not isinstance(record, Measurement):
        raise BadRecord(f"{path} is a {record.kind} record", record.schema_, allowed="measurement/1")
    return record


def adopt_record(question: Question, path: Union[str, Path], target: str) -> Measurement:
    """Admit one record file for a target. The record itself is not changed: its grade stays measured.

    Raises :class:`~neuronfit.errors.BadRecord` as :func:`read_record` does, and when the record is
    about another target or question, or was taken on another instance type.
    """
    aim, record = question.target(target), read_record(path)
    name = aim.name
    if record.target != name:
        raise BadRecord(f"{path} was measured as target {record.target!r}, asked for", name, next=f"use --for {record.target}")
    if record.workload.fingerprint != question.ref.fingerprint:
        raise BadRecord(
            f"{path} answers another question (model, task, weights or lengths); its fingerprint is",
            record.workload.fingerprint,
            allowed=question.ref.fingerprint,
            next=f"neuronfit measure {question.command_name} --target {name}",
        )
    if record.instance_type and name != CPU and record.instance_type != aim.instance_type:
        raise BadRecord(
            f"{path} was taken on another instance type than {name} has",
            record.instance_type,
            allowed=aim.instance_type,
            next="correct the params file, or measure there",
        )
    return question.dossier.admit(record)
