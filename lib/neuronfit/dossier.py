"""The dossier remembers: ``reports/<workload>/records/*.json``, one door in.

A record enters through :meth:`Dossier.admit` and no other way, wherever it comes from. Admission
checks that it is a record, belongs to this question, and is not there already. Files are written
to a temporary name and renamed, so an interrupted run leaves every earlier record whole, and are
never edited or overwritten.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Iterator, Optional, TypeVar, Union

from neuronfit import plausibility
from neuronfit import record as records
from neuronfit.errors import BadRecord
from neuronfit.files import write_whole
from neuronfit.record import KINDS, Measurement, Record

__all__ = ["Dossier"]

Kind = TypeVar("Kind", bound=Record)


class Dossier:
    """The folder of one workload. Creating the object touches nothing on disk.

    ``work`` says what one result of the workload costs at least, where that is known; measurements are
    held against it on admission.
    """

    def __init__(self, folder: Union[str, Path], work: Callable[[], Optional[plausibility.Work]] = lambda: None):
        self.folder = Path(folder)
        self.work = work
        self.records_folder = self.folder / "records"
        self.executed_folder = self.folder / "executed"

    def __repr__(self) -> str:
        return f"Dossier({str(self.folder)!r}, {len(self.files())} records)"

    # -- in ---------------------------------------------------------------------------------

    def admit(self, record: Kind) -> Kind:
        """Store a record and return it with its id.

        A conclusion that says what the newest one of its kind already says is not stored again; the
        stored one is returned. A raw measurement whose content is already there is likewise a
        duplicate. Plausibility findings are recomputed here, whoever wrote the record. Raises :class:`~neuronfit.errors.BadRecord` when the record belongs to another
        question and :class:`~neuronfit.errors.NotWritable` when the folder cannot be written.
        """
        record = _checked(record, self.work() if isinstance(record, Measurement) else None).sealed()
        self._check_question(record)
        twin = self._twin_of(record)
        if twin is not None:
            return twin
        stamp = record.created_utc.replace("-", "").replace(":", "").replace(".", "")
        path = self.records_folder / f"{stamp}-{record.kind}-{record.id}.json"
        write_whole(path, record.to_json())
        return record

    def _check_question(self, record: Record) -> None:
        if isinstance(record, records.Profile):
            return
        profile = self.latest(records.Profile)
        if profile is None:
            return
        if record.workload.name != profile.workload.name:
            raise BadRecord(
                f"the record belongs to workload {record.workload.name!r}, this dossier to", profile.workload.name, next="admit it to its own dossier"
            )
        if record.workload.fingerprint != profile.workload.fingerprint:
            raise BadRecord(
                f"the record was taken for another question (fingerprint {record.workload.fingerprint}); this one is",
                profile.workload.fingerprint,
                next="measure again with the present params file",
            )

    def _twin_of(self, record: Kind) -> Optional[Kind]:
        same_kind = [other for other in self if isinstance(other, type(record))]
        if not isinstance(record, (Measurement, records.Parity, records.Monitor)):
            same_kind = same_kind[-1:]
        return next((other for other in reversed(same_kind) if other.says_the_same_as(record)), None)

    # -- out --------------------------------------------------------------------------------

    def files(self) -> list[Path]:
        """Record files, oldest first."""
        return sorted(self.records_folder.glob("*.json")) if self.records_folder.is_dir() else []

    def __iter__(self) -> Iterator[Record]:
        """All records, oldest first. Raises :class:`~neuronfit.errors.BadRecord` on a damaged file."""
        for path in self.files():
            yield self._read(path)

    def _read(self, path: Path) -> Record:
        intact = len(self.files()) - 1
        try:
            return records.read(path.read_text(encoding="utf-8"), where=str(path))
        except UnicodeDecodeError:
            raise BadRecord(f"{path} is not text", next=f"move it out of the folder; the other {intact} records are untouched") from None
        except OSError as error:
            raise BadRecord(f"cannot read {path} ({error.strerror})", next="check its permissions") from None
        except BadRecord as error:
            raise BadRecord(
                error.what,
                *([error.value] if error.value is not None else []),
                allowed=error.allowed,
                next=f"{error.next or 'restore the file'}, or move it out of the folder; the other {intact} records are untouched",
            ) from None

    def latest(self, kind: type[Kind]) -> Optional[Kind]:
        """The newest record of a kind that answers the present question, or ``None``."""
        newest = self._newest(kind)
        profile = newest if kind is records.Profile else self._newest(records.Profile)
        if newest and profile and newest.workload.fingerprint != profile.workload.fingerprint:
            return None
        return newest

    def _newest(self, kind: type[Kind]) -> Optional[Kind]:
        paths = [path for path in self.files() if f"-{_kind_name(kind)}-" in path.name]
        return self._read(paths[-1]) if paths else None  # type: ignore[return-value]

    def measurements(self, target: Optional[str] = None) -> list[Measurement]:
        """Measurements of the present question, oldest first, of one target or of all."""
        profile = self.latest(records.Profile)
        return [
            entry
            for entry in self
            if isinstance(entry, Measurement)
            and (target is None or entry.target == target)
            and (profile is None or entry.workload.fingerprint == profile.workload.fingerprint)
        ]

    def monitors(self, target: Optional[str] = None) -> list[records.Monitor]:
        """What device monitors saw, for the present question, oldest first, of one target or of all."""
        profile = self.latest(records.Profile)
        return [
            entry
            for entry in self
            if isinstance(entry, records.Monitor)
            and (target is None or entry.target == target)
            and (profile is None or entry.workload.fingerprint == profile.workload.fingerprint)
        ]

    def parities(self) -> list[records.Parity]:
        """Comparisons of outputs for the present question, one per pair: the newest that passed or failed, else the newest."""
        profile, found = self.latest(records.Profile), {}
        for entry in self:
            if isinstance(entry, records.Parity) and (profile is None or entry.workload.fingerprint == profile.workload.fingerprint):
                pair = (entry.baseline.target, entry.candidate.target)
                if entry.verdict in ("pass", "fail") or pair not in found or found[pair].verdict not in ("pass", "fail"):
                    found[pair] = entry
        return list(found.values())

    def get(self, record_id: str) -> Record:
        """The record with this id. Raises :class:`~neuronfit.errors.BadRecord` when there is none."""
        for path in self.files():
            if path.stem.endswith(f"-{record_id}"):
                return self._read(path)
        raise BadRecord("no record has the id", record_id, allowed=f"{len(self.files())} records in {self.records_folder}")


def _checked(record: Kind, work: Optional[plausibility.Work] = None) -> Kind:
    """The record with its plausibility findings recomputed; other findings are kept."""
    if not isinstance(record, Measurement):
        return record
    kept = tuple(finding for finding in record.findings if finding.code not in plausibility.CODES)
    return record.model_copy(update={"findings": (*kept, *plausibility.check(record, work))})


def _kind_name(kind: type[Record]) -> str:
    return next(name for name, cls in KINDS.items() if cls is kind)
