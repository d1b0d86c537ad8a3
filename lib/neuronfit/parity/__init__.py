"""Step 4, before speed: do two targets give the same answers on the same inputs and weights?

Two ways lead to one record. Both sides on one host: :func:`between_here`. Two hosts: the baseline's
outputs travel as a file that :func:`write_reference` writes there and :func:`against` reads here. A
side is identified by the hash of its weights and of its inputs; where they differ nothing is compared.

What is compared is in :mod:`~neuronfit.parity.answers`, how in :mod:`~neuronfit.parity.agreement`.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any, Optional

import numpy as np

from neuronfit import inputs, params, system, targets
from neuronfit.errors import BadInput, BadParams, BadRecord, WaitingForEvidence
from neuronfit.inputs import Inputs
from neuronfit.model.construction import NOT_IN_THE_WEIGHTS
from neuronfit.model.weights import Weights, identify
from neuronfit.parity import reference_file
from neuronfit.parity.agreement import METRICS_OF
from neuronfit.parity.answers import KIND, Answers, joined, keep, kept_in_words, misfit
from neuronfit.parity.conclusion import Case, what_differs
from neuronfit.parity.reference_file import Reference
from neuronfit.provenance import Measured
from neuronfit.record import Finding, Parity, ParitySide, Severity

if TYPE_CHECKING:
    from neuronfit.params import Shape, Target
    from neuronfit.question import Question

__all__ = ["against", "between_here", "command", "judged_by", "latest", "shown", "steps", "where_possible", "write_reference"]

NO_CLOCK = "none: no duration was taken"

DEFAULT_COUNT = 64
"""Inputs compared where the params file does not say how many."""


# -- the four ways in -------------------------------------------------------------------------


def between_here(question: Question, baseline: str, candidate: str, *, progress: bool = True) -> Parity:
    """Compute both sides on this host, compare them and admit the record.

    Raises :class:`~neuronfit.errors.WaitingForEvidence` where this host cannot run one of the targets.
    """
    for name in (baseline, candidate):
        _check_host(question, question.target(name))
    return _against(question, _reference(question, question.target(baseline), progress), question.target(candidate), progress)


def write_reference(question: Question, target: str, path: Path, *, progress: bool = True) -> Reference:
    """Compute one side's outputs on this host and write them to a file that travels. Raises as :func:`between_here`."""
    aim = question.target(target)
    _check_host(question, aim)
    reference = _reference(question, aim, progress)
    reference_file.write(reference, path)
    return reference


def against(question: Question, path: Path, candidate: str, *, progress: bool = True) -> Parity:
    """Compute the candidate's outputs on this host, compare them with those in a parity file, and admit the record.

    Raises :class:`~neuronfit.errors.BadRecord` for a file that is truncated, foreign, or of another question.
    """
    reference, aim = reference_file.read(path), question.target(candidate)
    if reference.workload.fingerprint != question.ref.fingerprint:
        raise BadRecord(
            f"{path} answers another question (model, task, weights or lengths); its fingerprint is",
            reference.workload.fingerprint,
            allowed=question.ref.fingerprint,
            next="write it again with the present params file",
        )
    if reference.side.target == aim.name:
        raise BadRecord(f"{path} holds the outputs of the same target", aim.name, next="compare another target with it")
    _check_host(question, aim)
    return _against(question, reference, aim, progress)


def where_possible(question: Question, *, progress: bool = True) -> list[Finding]:
    """Compare every candidate with the baseline where both sides run on this host and it has not been done; findings say what waits."""
    host, waiting = system.probe(), []

    def is_here(target: Target) -> bool:
        here = target.instance_type in (targets.THIS_HOST, host.instance_type)
        return here and target.path in targets.MEASURED_HERE and system.can_run(target.path, host)[0]

    base = question.params.baseline
    for one in question.params.candidates:
        if not (is_here(base) and is_here(one)) or latest(question, one.name) is not None:
            continue
        try:
            between_here(question, base.name, one.name, progress=progress)
        except WaitingForEvidence as reason:
            waiting.append(Finding(severity=Severity.WAITING, code="parity_waits", because=reason.what, next=reason.next, target=one.name))
    return waiting


# -- what the dossier knows -------------------------------------------------------------------


def latest(question: Question, candidate: str) -> Optional[Parity]:
    """The record that speaks for the baseline and this candidate as they are set in the params file today.

    The newest that passed or failed, else the newest; ``None`` where there is none. A record that was
    judged by another metric or tolerance, or at another precision, speaks for another question.
    """
    base = question.params.baseline.name
    found = [
        one
        for one in question.dossier
        if isinstance(one, Parity)
        and (one.baseline.target, one.candidate.target) == (base, candidate)
        and one.workload.fingerprint == question.ref.fingerprint
        and _asked_so(question, one)
    ]
    decided = [one for one in found if one.verdict in ("pass", "fail")]
    return next(iter((decided or found)[::-1]), None)


def shown(question: Question, candidate: str) -> Optional[Parity]:
    """The record which shows that this candidate answers as the baseline does; ``None`` where nothing shows it.

    With it, figures whose products have different precision answer the same question.
    """
    found = latest(question, candidate)
    return found if found is not None and found.verdict == "pass" else None


def steps(question: Question, candidate: str) -> tuple[tuple[str, str], ...]:
    """(where, what to type) to compare the baseline with this candidate: one step on one host, two on two."""
    base, other = question.params.baseline, question.target(candidate)
    start = f"neuronfit parity {question.command_name} --target"
    if base.instance_type == other.instance_type:
        return ((targets.on_a(other.instance_type), f"{start} {other.name}"),)
    file = f"{base.name}.npz"
    return (
        (targets.on_a(base.instance_type), f"{start} {base.name} --out {file}"),
        (targets.on_a(other.instance_type), f"{start} {other.name} --reference {file}"),
    )


def command(question: Question, candidate: str) -> str:
    """The steps in a line: ``on a g6.xlarge: neuronfit parity ...; then on an inf2.xlarge: neuronfit parity ...``."""
    parts = steps(question, candidate)
    if len(parts) == 1 and parts[0][0] == "here":
        return parts[0][1]
    return "; then ".join(f"{place}: {what}" for place, what in parts)


def judged_by(question: Question) -> tuple[str, float]:
    """Metric and tolerance that decide. Raises :class:`~neuronfit.errors.BadParams` where the metric is not defined for the task."""
    workload = question.params.workload
    defined = METRICS_OF[KIND[workload.model.task]]
    labels = workload.inputs.labels if workload.inputs else None
    name = workload.quality.metric or ("accuracy" if labels else defined[0])
    allowed = (*defined, *(("accuracy",) if labels else ()))
    if name not in allowed:
        why = "set workload.inputs.labels" if name == "accuracy" else None
        raise BadParams(f"workload.quality.metric is not defined for {workload.model.task}", name, allowed=", ".join(allowed), next=why)
    given = workload.quality.tolerance
    return name, params.QUALITY[name] if given is None else given


def _asked_so(question: Question, record: Parity) -> bool:
    name, tolerance = judged_by(question)
    row = next((one for one in record.metrics if one.tolerance is not None), None)
    if record.judged_by != name or (row is not None and name != "accuracy" and row.tolerance != tolerance):
        return False
    for side in (record.baseline, record.candidate):
        target = question.target(side.target)
        if target.path in targets.MEASURED_HERE and side.precision is not None:
            if targets.for_path(target.path)(targets.Subject.of(question, target)).describe().get("precision") != side.precision:
                return False
    return True


# -- one side ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Asked:
    """What both sides are given."""

    loaded: Inputs
    weights: Weights
    calls: list[Mapping[str, Any]]
    fed_sha256: str
    made_up: list[str] = field(default_factory=list)
    """what was not in the weights and is random, as far as the answers depend on it"""

    @classmethod
    def of(cls, question: Question) -> "_Asked":
        workload = question.params.workload
        loaded = inputs.load_inputs(question, count=workload.inputs.count if workload.inputs else DEFAULT_COUNT)
        calls = [
            inputs.tensors(loaded, question.config, workload.model.task, workload.shapes[0], start=start)
            for start in range(0, len(loaded), workload.shapes[0].batch_size)
        ]
        weights = workload.model.weights
        identity = identify(question.config, workload.model.task, weights if weights == "random" else str(question.file(weights)))
        return cls(loaded, identity, calls, inputs.fed_sha256(calls, len(loaded)))

    def side(self, question: Question, target: Target, thing: Any, host: system.System) -> ParitySide:
        described = thing.describe()
        return ParitySide(
            target=target.name,
            instance_type=host.instance_type or (target.instance_type if target.instance_type != targets.THIS_HOST else None),
            host=host.host,
            computed_utc=datetime.now(timezone.utc).isoformat(timespec="seconds").replace("+00:00", "Z"),
            precision=described.get("precision"),
            autocast=described.get("autocast"),
            route=described.get("route"),
            software=host.software,
            weights=self.weights.origin,
            weights_sha256=self.weights.sha256,
            inputs=self.loaded.origin,
            inputs_sha256=self.loaded.sha256,
            fed_sha256=self.fed_sha256,
        )


def _reference(question: Question, target: Target, progress: bool) -> Reference:
    judged_by(question)  # a metric that cannot be taken is refused before anything runs
    asked, workload = _Asked.of(question), question.params.workload
    thing = targets.for_path(target.path)(targets.Subject.of(question, target))
    parts = list(_answers(question, target, thing, asked, None, progress))
    wrong = next((one for one in parts if isinstance(one, str)), None)
    if wrong:
        raise BadInput(f"the outputs of {target.name} cannot be a reference: {wrong}", next="choose a precision that holds the model's values")
    side = asked.side(question, target, thing, system.probe())
    shape = workload.shapes[0].model_dump()
    return Reference(question.ref, workload.model.task, side, joined(parts), shape, asked.loaded.seed)  # type: ignore[arg-type]


def _answers(question: Question, target: Target, thing: Any, asked: _Asked, reference: Optional[Answers], progress: bool) -> Iterator[Any]:
    """What is kept of each call, or in words what makes the outputs unusable."""
    workload = question.params.workload
    shape, kind = workload.shapes[0], KIND[workload.model.task]
    asked.made_up.extend(_prepare(thing, shape))
    total, done = len(asked.loaded), 0
    for call in _seen(asked.calls, f"{target.name}: {total} inputs", progress):
        thing.feed(call)
        thing.issue()
        thing.drain()
        count = min(shape.batch_size, total - done)
        output = targets.answer_of(thing)[:count]
        if kind == "tokens":
            output = output[:, -(shape.output_length or 0) :]
        mask = call["attention_mask"].numpy()[:count] if "attention_mask" in call else None
        mask = _of_the_output(mask, output, call)
        there = output if mask is None or output.ndim < 3 or mask.shape[1] != output.shape[1] else output[mask.astype(bool)]
        if not np.isfinite(there).all():
            yield f"{np.isnan(there).sum():,} values are NaN and {np.isinf(there).sum():,} infinite"
            return
        part = reference.between(done, done + count) if reference is not None else None
        why = misfit(kind, output, part) if part is not None else None
        if why:
            yield why
            return
        yield keep(kind, output, mask, part)
        done += count


def _prepare(thing: Any, shape: Shape) -> Iterator[str]:
    """Prepare the target; gives what the weights' files do not hold. A pooler has no part in what is compared."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        thing.prepare(shape)
    for one in caught:
        text = str(one.message)
        if not text.startswith(NOT_IN_THE_WEIGHTS):
            warnings.warn_explicit(one.message, one.category, one.filename, one.lineno)
        elif not all("pooler" in name for name in text.partition(": ")[2].split(", ")):
            yield text


def _of_the_output(mask: Optional[np.ndarray], output: np.ndarray, call: Mapping[str, Any]) -> Optional[np.ndarray]:
    """The mask belongs to the encoder's tokens; a decoder's output has positions of its own, all of them used."""
    return None if mask is None or output.ndim != 3 or "decoder_input_ids" in call else mask


def _seen(calls: Sequence[Any], label: str, wanted: bool) -> Iterator[Any]:
    """A bar on stderr, only on a terminal."""
    if not wanted or not sys.stderr.isatty():
        yield from calls
        return
    from tqdm import tqdm

    yield from tqdm(calls, desc=label, unit="call", leave=False, file=sys.stderr)


def _check_host(question: Question, target: Target) -> None:
    host = system.probe()
    place = f"{targets.on_a(target.instance_type)}: neuronfit parity {question.command_name} --target {target.name}"
    if target.path not in targets.MEASURED_HERE:
        raise WaitingForEvidence(
            f"outputs of path {target.path} are not computed by this code", next="compare them with the server's own evaluation, and look in step 8"
        )
    able, why = system.can_run(target.path, host)
    if not able:
        raise WaitingForEvidence(f"this host cannot compute the outputs of {target.name}: {why}", next=place)
    declared = target.instance_type if target.instance_type != targets.THIS_HOST else None
    if declared and host.instance_type and host.instance_type != declared:
        raise BadInput(f"target {target.name} is declared as {declared}, this host is", host.instance_type, allowed=declared, next=place)


# -- both sides -------------------------------------------------------------------------------


def _against(question: Question, reference: Reference, target: Target, progress: bool) -> Parity:
    name, tolerance = judged_by(question)
    asked, host = _Asked.of(question), system.probe()
    thing = targets.for_path(target.path)(targets.Subject.of(question, target))
    side = asked.side(question, target, thing, host)
    answers: Optional[Answers] = None
    wrong: Optional[str] = None
    if what_differs(reference.side, side) is None:
        parts = list(_answers(question, target, thing, asked, reference.answers, progress))
        wrong = next((one for one in parts if isinstance(one, str)), None)
        answers = None if wrong else joined(parts)
    case = Case(
        question=question,
        baseline=reference.side,
        candidate=side,
        loaded=asked.loaded,
        random_weights="weights are random" if asked.weights.random else next(iter(asked.made_up), None),
        theirs=reference.answers,
        ours=answers,
        wrong=wrong,
        metric=name,
        tolerance=tolerance,
        command=command(question, target.name),
    )
    return question.dossier.admit(
        Parity(
            workload=question.ref,
            source=Measured(host=host.host, clock=NO_CLOCK),
            findings=tuple(finding.model_copy(update={"target": target.name}) for finding in case.findings()),
            baseline=reference.side,
            candidate=side,
            verdict=case.verdict[0],
            level=case.level,
            bottom_line=case.verdict[1],
            judged_by=name,
            metrics=case.rows,
            samples=len(reference.answers) if answers is not None else 0,
            compared=kept_in_words(reference.answers),
            system=host,
        )
    )
