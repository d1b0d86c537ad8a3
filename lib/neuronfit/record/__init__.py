"""Every kind of record: immutable evidence and conclusions, one JSON file each.

A record has a header (schema, id, time, workload, source, findings) and a body. Records are
written once and never edited: the id is a hash of the content, so a changed file is noticed when
it is read. Numbers are SI; an absent number is ``null`` with a reason. Statistics of a
:class:`Measurement` are *derived on read* from its raw values and never stored.

Schema version 1 of each kind is pinned by golden files in ``tests/data/records``.
"""

from __future__ import annotations

import hashlib
import json
from typing import Annotated, Any, Union

from pydantic import Field, TypeAdapter, ValidationError

from neuronfit.errors import BadRecord
from neuronfit.record.asked import Profile, Situation
from neuronfit.record.decision import Decision, Gate, NextMeasurement
from neuronfit.record.fit import (
    BucketAdvice,
    BucketChoice,
    Compatibility,
    CompatibilityOfTarget,
    Compile,
    CompileOfBucket,
    CompileOfTarget,
    OperatorAnalysis,
    OperatorUse,
    SmallestFit,
    UnsupportedOperator,
)
from neuronfit.record.header import Finding, Record, Severity, WorkloadRef, canonical
from neuronfit.record.load import Monitor, MonitoredPart, Observed, Utilization, UtilizationOfTarget
from neuronfit.record.money import Cost, CostOfTarget, Payback, PaybackOfTarget, SecondMove, Sensitivity, TaskOfMove, TrainingRun
from neuronfit.record.speed import ClockProof, Comparison, Difference, Measurement, Pair, Parity, ParityMetric, ParitySide, Run, Settings, Taken
from neuronfit.record.test import CriterionResult, StageResult, Trial, TrialCriterion, TrialPlan

__all__ = [
    "AnyRecord",
    "BucketAdvice",
    "BucketChoice",
    "Comparison",
    "Compatibility",
    "CompatibilityOfTarget",
    "ClockProof",
    "Compile",
    "CompileOfBucket",
    "CompileOfTarget",
    "Cost",
    "CostOfTarget",
    "CriterionResult",
    "Decision",
    "Difference",
    "Finding",
    "Gate",
    "KINDS",
    "Measurement",
    "Monitor",
    "MonitoredPart",
    "Observed",
    "NextMeasurement",
    "OperatorAnalysis",
    "OperatorUse",
    "Pair",
    "Parity",
    "ParityMetric",
    "ParitySide",
    "Payback",
    "PaybackOfTarget",
    "Profile",
    "Record",
    "Run",
    "STEPS",
    "SecondMove",
    "Sensitivity",
    "StageResult",
    "Settings",
    "Severity",
    "Situation",
    "SmallestFit",
    "Taken",
    "TaskOfMove",
    "TrainingRun",
    "Trial",
    "TrialCriterion",
    "TrialPlan",
    "UnsupportedOperator",
    "Utilization",
    "UtilizationOfTarget",
    "WorkloadRef",
    "read",
]

AnyRecord = Annotated[
    Union[Profile, Compatibility, Compile, Measurement, Parity, Comparison, Utilization, Monitor, Cost, Payback, TrialPlan, Trial, Decision],
    Field(discriminator="schema_"),
]

KINDS: dict[str, type[Record]] = {
    kind.model_fields["schema_"].default.partition("/")[0]: kind
    for kind in (Profile, Compatibility, Compile, Measurement, Parity, Comparison, Utilization, Monitor, Cost, Payback, TrialPlan, Trial, Decision)
}

STEPS: dict[int, tuple[str, str]] = {
    1: ("workload", "profile"),
    2: ("compatibility", "compatibility"),
    3: ("compile", "compile"),
    4: ("benchmark", "comparison"),
    5: ("utilization", "utilization"),
    6: ("cost", "cost"),
    7: ("effort", "payback"),
    8: ("controlled_test", "trial_plan"),
    0: ("summary", "decision"),
}
"""Step number -> (notebook name, kind of the record that concludes it), in order of execution."""

_ADAPTER: TypeAdapter[Any] = TypeAdapter(AnyRecord)


def read(text: str, where: str = "record") -> Record:
    """One record from its JSON text.

    Raises :class:`~neuronfit.errors.BadRecord`, always one line, when the text is truncated, is not
    one of our records, has a newer schema, or was edited after it was written.
    """
    try:
        data = json.loads(text)
    except json.JSONDecodeError as error:
        problem = "is empty" if not text.strip() else f"is not complete JSON (line {error.lineno}, column {error.colno})"
        raise BadRecord(f"{where} {problem}", next="copy the file again from the host that wrote it") from None
    schema = data.get("schema") if isinstance(data, dict) else None
    if not isinstance(schema, str) or schema.partition("/")[0] not in KINDS:
        raise BadRecord(f"{where} is not a neuronfit record, its schema is", schema, allowed=", ".join(f"{kind}/1" for kind in KINDS))
    if schema.partition("/")[2] != "1":
        raise BadRecord(f"{where} has schema", schema, allowed=f"{schema.partition('/')[0]}/1", next="update neuronfit on this host")
    try:
        record = _ADAPTER.validate_python(data)
    except ValidationError as error:
        problem = error.errors()[0]
        place = ".".join(str(part) for part in problem["loc"][1:]) or "record"
        raise BadRecord(f"{where}: {place}: {problem['msg']}", problem.get("input"), next="write it again with neuronfit measure") from None
    written = hashlib.sha256(canonical({key: value for key, value in data.items() if key != "id"})).hexdigest()[:16]
    if record.id != written:
        raise BadRecord(f"{where} was changed after it was written: its id is", record.id, allowed=written, next="restore the original file")
    return record
