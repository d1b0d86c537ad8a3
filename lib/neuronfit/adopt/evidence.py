"""Readings of a foreign file as records of a question: whose rows belong to it, what was declared, what is missing.

The grade is ``imported``. Raw latencies go into runs, so percentiles are derived with their intervals;
what raw latencies do not give (rates, failures) stands in ``values``. A setting that the file does not
state comes from the caller, is listed in ``source.missing`` as declared, and is otherwise unknown.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Optional, Union

from neuronfit.adopt import rules
from neuronfit.adopt.document import Document
from neuronfit.adopt.reading import Fault, Reading
from neuronfit.errors import BadParams, BadRecord, nearest
from neuronfit.provenance import Imported
from neuronfit.question import CPU, Question
from neuronfit.record import Finding, Measurement, Run, Settings, Severity

__all__ = ["Declared", "contradictions", "declare", "findings_of", "measurements", "missing_settings"]

SETTINGS = (
    *("batch_size", "sequence_length", "output_length", "precision", "autocast", "software", "sdk", "route", "tp_degree", "dp_degree"),
    *("workers", "accelerators_used", "timed_region", "input", "weights"),
)
_WHOLE = ("batch_size", "sequence_length", "output_length", "tp_degree", "dp_degree", "workers", "accelerators_used", "requests")
NOT_STATED = "not stated"


@dataclass(frozen=True)
class Declared:
    """What the caller says about a file that does not say it; the same names as in a params file's ``evidence``."""

    batch_size: Optional[int] = None
    sequence_length: Optional[int] = None
    output_length: Optional[int] = None
    precision: Optional[str] = None
    autocast: Optional[str] = None
    software: Optional[str] = None
    sdk: Optional[str] = None
    route: Optional[str] = None
    tp_degree: Optional[int] = None
    dp_degree: Optional[int] = None
    workers: Optional[int] = None
    accelerators_used: Optional[int] = None
    timed_region: Optional[str] = None
    input: Optional[str] = None
    weights: Optional[str] = None
    instance_type: Optional[str] = None
    concurrency: Optional[float] = None
    requests: Optional[int] = None
    model: Optional[str] = None

    @classmethod
    def of(cls, given: Mapping[str, Union[bool, int, float, str, None]]) -> "Declared":
        """From a mapping of settings. Raises :class:`~neuronfit.errors.BadParams` for a name or value that cannot be one."""
        known = [entry.name for entry in fields(cls)]
        checked: dict[str, Any] = {}
        for name, value in given.items():
            if value is None:
                continue
            if name not in known:
                near = nearest(name, known)
                raise BadParams("unknown setting of adopted evidence", name, allowed=", ".join(near or known))
            if name in _WHOLE:
                if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                    raise BadParams(f"declared {name}", value, allowed="a whole number from 1")
            elif name == "concurrency":
                if isinstance(value, bool) or not isinstance(value, (int, float)) or value <= 0:
                    raise BadParams("declared concurrency", value, allowed="a number above 0")
            else:
                value = str(value)
            checked[name] = value
        return cls(**checked)


def declare(reading: Reading, declared: Declared) -> Reading:
    """Fill in what the file leaves open; where it says otherwise the file counts, and a finding says so. Returns the same reading."""
    for name in SETTINGS:
        value = getattr(declared, name)
        if value is None:
            continue
        known = reading.settings.get(name)
        if known is None:
            reading.settings[name] = value
            reading.facts[f"declared {name.replace('_', ' ')}"] = str(value)
        elif str(known).lower() != str(value).lower() and not (name == "output_length" and reading.output_tokens):
            reading.fault("declared_contradicts_file", f"{name} was declared as {value}, the file says {known}, which counts")
    if declared.instance_type:
        own, said = reading.instance_type, declared.instance_type.strip().lower()
        if own is None or "/" in own:
            reading.instance_type = said
            reading.facts["declared instance type"] = said
        elif own != said:
            reading.fault("declared_contradicts_file", f"instance_type was declared as {said}, the file says {own}, which counts")
    rules.declare(
        reading,
        requests=declared.requests,
        concurrency=declared.concurrency,
        output_length=declared.output_length,
        batch_size=declared.batch_size,
    )
    return reading


def missing_settings(reading: Reading) -> tuple[str, ...]:
    """What had to be declared or is unknown, by name; what does not apply is left out."""
    wanted = ["sequence_length", "precision", "software"]
    if reading.latency_of == "batch":
        wanted.insert(0, "batch_size")
    if reading.result_unit == "token":
        wanted.append("output_length")
    if reading.result_unit == "image":
        wanted.remove("sequence_length")
    if "timed_region" not in reading.settings and _timed_region(reading) is None:
        wanted.append("timed_region")
    found = []
    for name in wanted:
        if f"declared {name.replace('_', ' ')}" in reading.facts:
            found.append(f"{name} (declared)")
        elif name not in reading.settings:
            found.append(name)
    if "declared instance type" in reading.facts:
        found.append("instance_type (declared)")
    elif not reading.instance_type:
        found.append("instance_type")
    if reading.completed is None and not reading.samples:
        found.append("number of requests")
    if any(fault.code == "failures_not_stated" for fault in reading.faults):
        found.append("failed requests")
    return tuple(found)


def findings_of(reading: Reading, target: Optional[str] = None) -> tuple[Finding, ...]:
    """The faults of a reading as findings of a record, blockers first."""
    order = [str(one) for one in Severity]
    return tuple(_finding(fault, target) for fault in sorted(reading.faults, key=lambda fault: order.index(fault.severity)))


def _finding(entry: Fault, target: Optional[str]) -> Finding:
    return Finding(severity=Severity(entry.severity), code=entry.code, because=entry.because, next=entry.next, target=target)


def measurements(question: Question, readings: Sequence[Reading], document: Document, target: str, declared: Declared) -> list[Measurement]:
    """A record for each row that belongs to the target; not yet admitted.

    Rows of other instance types and other models are left out. Raises
    :class:`~neuronfit.errors.BadRecord` when none is left, saying what the file has.
    """
    aim = question.target(target)
    usable = [reading for reading in readings if reading.refused is None and reading.has_figures]
    if not usable:
        refused = next((reading for reading in readings if reading.refused), None)
        why = refused.refused if refused else "it has no figures"
        raise BadRecord(
            f"nothing in the file can be adopted: {why}", document.name, next=(refused.instead if refused else None) or "adopt a result file"
        )
    usable = _of_model(question, usable, document, declared)
    if aim.name != CPU:
        usable = _of_instance(usable, document, aim.name, aim.instance_type)
    for reading in usable:
        _lengths_of_question(question, reading)
    return [_measurement(question, reading, document, aim.name) for reading in usable]


COUNTING = 0.01
"""Mean token counts within this share of an asked length are that length: tokenizers add or drop a token or two."""


def _lengths_of_question(question: Question, reading: Reading) -> None:
    """Snap counted lengths to those of the question, and say where a row is about a length nobody asked for."""
    shapes = question.params.workload.shapes
    for name in ("sequence_length", "output_length"):
        counted = reading.settings.get(name)
        asked = sorted({value for shape in shapes if (value := getattr(shape, name)) is not None})
        if counted is None or not asked:
            continue
        near = min(asked, key=lambda value: abs(value - counted))
        if near == counted:
            continue
        if abs(near / counted - 1) <= COUNTING:
            reading.settings[name] = near
            reading.definitions[f"{name.replace('_', ' ')} counted"] = str(counted)
        else:
            because = (
                f"{name.replace('_', ' ')} is {counted}, the question asks for {', '.join(map(str, asked))}: step 4 does not use this row for it"
            )
            reading.fault("shape_not_asked", because, "add the shape to workload.shapes, or measure at an asked one")


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "", re.sub(r"^.*/", "", name.lower()).replace("meta-llama_", ""))


def _of_model(question: Question, readings: list[Reading], document: Document, declared: Declared) -> list[Reading]:
    models = list(dict.fromkeys(reading.model for reading in readings if reading.model))
    wanted = [declared.model] if declared.model else [question.published_as]
    same = [name for name in models if any(_plain(name) == _plain(one) for one in wanted)]
    if same:
        return [reading for reading in readings if reading.model in same]
    if declared.model and models:
        near = nearest(declared.model, models)
        raise BadRecord(
            "the file has no row of the model", declared.model, allowed=", ".join(near or models[:6]), next="name one of them with --model"
        )
    if len(models) > 1:
        raise BadRecord(
            f"the file holds {len(models)} models, none of them called {question.published_as}",
            document.name,
            allowed=", ".join(models[:6]),
            next=f"--model {models[0]!r}, if that is the model of this question",
        )
    if models and not any(_plain(one) in _plain(models[0]) for one in wanted):
        for reading in readings:
            because = f"the file says {models[0]}, the question is about {question.published_as}"
            reading.fault("model_name_differs", because, "adopt it only if that is the same model with the same weights")
    return readings


def _of_instance(readings: list[Reading], document: Document, target: str, wanted: str) -> list[Reading]:
    own = [reading for reading in readings if reading.instance_type in (None, wanted)]
    if own:
        return own
    types = list(dict.fromkeys(reading.instance_type for reading in readings if reading.instance_type))
    raise BadRecord(
        f"the file was taken on another instance type than {target} has",
        ", ".join(map(str, types[:6])),
        allowed=wanted,
        next="correct the params file, or measure there",
    )


def _timed_region(reading: Reading) -> Optional[str]:
    begin = reading.definitions.get("latency_from")
    if begin is None or reading.latency_of != "request":
        return None
    last = "the last token" if reading.result_unit == "token" else "the whole answer"
    return f"at the client, from {'the scheduled time' if begin == 'schedule' else 'sending the request'} to {last}"


def _measurement(question: Question, reading: Reading, document: Document, target: str) -> Measurement:
    runs = _runs(reading)
    derived = ("latency_", *(f"{kind}_" for kind in ("ttft", "tpot") if runs and getattr(runs[0], f"{kind}_s"))) if runs else ()
    values = {name: value for name, value in reading.values.items() if not name.startswith(derived)} if derived else dict(reading.values)
    count = len(reading.samples) or reading.completed
    settings = {name: reading.settings.get(name) for name in SETTINGS}
    settings["timed_region"] = settings["timed_region"] or _timed_region(reading)
    other = {**reading.definitions, **({"row": reading.label} if reading.label else {})}
    for name, value in (("concurrency", reading.concurrency), ("request rate, 1/s", reading.request_rate), ("requests", count)):
        if value is not None:
            other[name] = f"{value:g}"
    settings["weights"] = settings["weights"] or other.pop("weights", None)
    return Measurement(
        workload=question.ref,
        source=Imported(
            file=document.name,
            sha256=document.sha256,
            tool=reading.tool,
            tool_version=reading.tool_version or None,
            missing=missing_settings(reading),
        ),
        target=target,
        instance_type=reading.instance_type,
        settings=Settings(**settings, model_variant=reading.model, other=other),
        scenario=reading.scenario,
        result_unit=reading.result_unit,
        latency_of=reading.latency_of,
        results_per_call=(settings["batch_size"] or 1) if runs and reading.result_unit in ("inference", "image", "sequence") else None,
        runs=runs,
        values=values,
        validity=f"adopted from {reading.tool or 'a table'}"
        + (f", {count:,} requests" if count else ", over how many requests is not stated")
        + ("" if runs else "; a figure without raw values cannot be judged here"),
        printed=reading.printed,
        findings=findings_of(reading, target),
    )


def _runs(reading: Reading) -> tuple[Run, ...]:
    """The raw requests as one run. Time to first token and per token are kept where every request has them."""
    if not reading.samples:
        return ()
    firsts = [sample.ttft_s for sample in reading.samples]
    per = [sample.tpot_s for sample in reading.samples]
    return (
        Run(
            start_utc=reading.start_utc or NOT_STATED,
            duration_s=reading.duration_s,
            warmup_s=reading.warmup_s,
            values_s=tuple(sample.latency_s for sample in reading.samples),
            ttft_s=tuple(value for value in firsts if value is not None) if None not in firsts else (),
            tpot_s=tuple(value for value in per if value is not None and value >= 0),
            errors=reading.errors,
        ),
    )


def contradictions(files: Iterable[tuple[str, list[Reading]]]) -> None:
    """Rows of different files that are about the same thing and disagree by more than a tenth: both get a finding."""
    seen: dict[tuple[str, str, str], tuple[str, float, Reading]] = {}
    for file, readings in files:
        for reading in readings:
            row = reading.facts.get("row")
            if not row or not reading.model:
                continue
            key_row = re.sub(r"_?tp\d+", "", row.lower())
            for name, value in reading.values.items():
                key = (_plain(reading.model), key_row, name)
                if key not in seen:
                    seen[key] = (file, value, reading)
                    continue
                other_file, other, other_reading = seen[key]
                if other_file != file and abs(value / other - 1) > 0.1:
                    because = f"{reading.model}, {row}: {name} is {other:g} in {other_file} and {value:g} in {file}"
                    for one in (reading, other_reading):
                        one.fault("files_contradict", because, "find out which one is right; never average them")
