"""What every record has: schema, id, time, workload, source and findings; and how it becomes JSON."""

from __future__ import annotations

import hashlib
import json
from datetime import datetime, timezone
from enum import Enum
from typing import Any, Optional

from pydantic import BaseModel, ConfigDict, Field

from neuronfit.provenance import Grade, Source


class Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, populate_by_name=True)


class Severity(str, Enum):
    """How much a finding matters. ``waiting``: evidence is missing and ``next`` says how to get it."""

    BLOCKER = "blocker"
    WARNING = "warning"
    WAITING = "waiting"
    NOTE = "note"

    def __str__(self) -> str:
        return self.value


class Finding(Frozen):
    """Something a reader must know: how bad, a stable code, the value and the limit, what to do."""

    severity: Severity
    code: str = Field(pattern=r"^[a-z0-9_]+$")
    because: str
    next: Optional[str] = None
    target: Optional[str] = None


class WorkloadRef(Frozen):
    """Which question a record belongs to."""

    name: str
    fingerprint: str = Field(description="hash of model, task, weights and input lengths")


def _now() -> str:
    return datetime.now(timezone.utc).isoformat(timespec="microseconds").replace("+00:00", "Z")


class Record(Frozen):
    """The common header."""

    schema_: str = Field(alias="schema")
    id: str = ""
    created_utc: str = Field(default_factory=_now)
    workload: WorkloadRef
    source: Source
    findings: tuple[Finding, ...] = ()

    @property
    def kind(self) -> str:
        return self.schema_.partition("/")[0]

    @property
    def grade(self) -> Grade:
        return Grade(self.source.grade)

    def content(self) -> dict[str, Any]:
        """Everything but the id, as plain JSON values."""
        body = self.model_dump(mode="json", by_alias=True)
        body.pop("id")
        return body

    def digest(self) -> str:
        """Content hash: the first 16 hex digits of sha256 over the canonical JSON of :meth:`content`."""
        return hashlib.sha256(canonical(self.content())).hexdigest()[:16]

    def sealed(self) -> "Record":
        """The same record with its id filled in."""
        return self.model_copy(update={"id": self.digest()})

    def says_the_same_as(self, other: "Record") -> bool:
        """Equal in everything but id and time."""
        mine, theirs = self.content(), other.content()
        mine.pop("created_utc"), theirs.pop("created_utc")
        return mine == theirs

    def to_json(self) -> str:
        """The file's text: readable, one newline at the end."""
        return json.dumps({"schema": self.schema_, "id": self.id, **self.content()}, indent=1, ensure_ascii=False) + "\n"


def canonical(data: Any) -> bytes:
    return json.dumps(data, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode("utf-8")
