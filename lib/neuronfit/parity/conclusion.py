"""What follows from two sides' outputs: rows with their bound, one of four verdicts, findings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Optional

import numpy as np

from neuronfit import inputs, model
from neuronfit.errors import BadParams
from neuronfit.inputs import Inputs
from neuronfit.model.tokenizer import Tokenizer
from neuronfit.parity.agreement import AT_MOST, PROPORTIONS, Row, agreement, inputs_needed, labelled, shifted
from neuronfit.parity.answers import Answers
from neuronfit.provenance import Grade, Quantity
from neuronfit.record import Finding, ParityMetric, ParitySide, Severity
from neuronfit.units import metric

if TYPE_CHECKING:
    from neuronfit.question import Question

__all__ = ["Case", "what_differs"]

DIFFERENT_ANSWERS = 0.99
"""Below this share of equal first answers a warning says so, whatever decides."""


def what_differs(baseline: ParitySide, candidate: ParitySide) -> Optional[str]:
    """``weights``, ``inputs`` or ``tensors`` by hash; ``None`` where both sides were given the same."""
    if baseline.weights_sha256 != candidate.weights_sha256:
        return "weights"
    if baseline.inputs_sha256 != candidate.inputs_sha256:
        return "inputs"
    return "tensors" if baseline.fed_sha256 != candidate.fed_sha256 else None


@dataclass(frozen=True)
class Case:
    """Everything a verdict is made of. ``theirs`` are the baseline's answers, ``ours`` the candidate's.

    ``ours`` is ``None`` where ``wrong`` says in words what makes the candidate's output unusable, or where
    the two sides were not given the same.
    """

    question: Question
    baseline: ParitySide
    candidate: ParitySide
    loaded: Inputs
    random_weights: Optional[str]
    """what of the weights is random, in words; then nothing is said about answers"""
    theirs: Answers
    ours: Optional[Answers]
    wrong: Optional[str]
    metric: str
    tolerance: float
    command: str

    @property
    def level(self) -> str:
        """What a verdict stands for: ``numerical`` with random weights, else ``answers`` or ``labelled``."""
        return "numerical" if self.random_weights else "labelled" if self.metric == "accuracy" else "answers"

    @property
    def differs(self) -> Optional[str]:
        return what_differs(self.baseline, self.candidate)

    @cached_property
    def rows(self) -> tuple[ParityMetric, ...]:
        """Every metric; the one that decides has its bound and whether it is kept."""
        return tuple(self._judged(row, rows) for rows in [self._measured()] for row in rows)

    @cached_property
    def verdict(self) -> tuple[str, str]:
        """One of four verdicts, and the sentence that says why."""
        base, ours = self.baseline, self.candidate
        if self.differs == "weights":
            return "not_comparable", (
                f"Not comparable: {base.target} has other weights ({base.weights}, sha256 {base.weights_sha256[:12]}) "
                f"than {ours.target} ({ours.weights}, sha256 {ours.weights_sha256[:12]})."
            )
        if self.differs == "inputs":
            return "not_comparable", f"Not comparable: {base.target} was given other inputs ({base.inputs}) than {ours.target} ({ours.inputs})."
        if self.differs == "tensors":
            return "not_comparable", (
                f"Not comparable: from the same inputs {base.target} and {ours.target} were fed different tensors; tokenizer, shape or padding differ."
            )
        if self.wrong:
            return "fail", f"{ours.target} does not answer as {base.target} does: its output has {self.wrong}."
        row = next(one for one in self.rows if one.tolerance is not None)
        said = _said(row)
        numerical = f" Numerical parity only: {self.random_weights}, so nothing is said about answers." if self.random_weights else ""
        if row.kept is False:
            return "fail", f"{ours.target} does not answer as {base.target} does: {said}.{numerical}"
        if self.random_weights and self.metric in PROPORTIONS:
            label = metric(self.metric).label
            return (
                "inconclusive",
                f"Numerical parity only: {self.random_weights}, so \u201c{label}\u201d cannot decide ({said}).",
            )
        if row.kept is None:
            return "inconclusive", f"Not enough inputs to tell whether {ours.target} answers as {base.target} does: {said}; {self._more()}."
        return "pass", f"{ours.target} answers as {base.target} does: {said}.{numerical}"

    def findings(self) -> Iterator[Finding]:
        """What a reader must know beside the verdict."""
        answer, sentence = self.verdict
        base, ours = self.baseline.target, self.candidate.target
        if self.differs:
            yield Finding(
                severity=Severity.BLOCKER,
                code="parity_not_comparable",
                because=sentence,
                next=f"the same {self.differs} on both hosts; {self.command}",
            )
            return
        step = shifted(self.theirs, self.ours) if answer == "fail" and self.ours is not None else None
        if step:
            yield Finding(
                severity=Severity.BLOCKER,
                code="parity_shifted",
                because=f"outputs of {ours} are those of {base}, moved by {step:+d} position",
                next="look at padding side, start token and slicing of the candidate",
            )
        if answer == "fail":
            yield Finding(
                severity=Severity.BLOCKER,
                code="parity_fails",
                because=sentence,
                next="raise the candidate's precision (auto_cast none), or look at padding, masks and the vocabulary",
            )
        if answer == "inconclusive":
            yield Finding(severity=Severity.WAITING, code="parity_inconclusive", because=sentence, next=f"{self._more()}; {self.command}")
        yield from self._notes()
        same = next((row.value.value for row in self.rows if row.metric == "top1_agreement"), None)
        if answer == "pass" and same is not None and same < DIFFERENT_ANSWERS and not self.random_weights:
            yield Finding(
                severity=Severity.WARNING,
                code="parity_answers_differ",
                because=f"{metric(self.metric).label} passes, but only {metric('top1_agreement').text(same)} of the first answers are the same",
                next="set workload.quality.metric to top1_agreement, or judge by labels",
            )

    def _notes(self) -> Iterator[Finding]:
        if self.random_weights:
            yield Finding(
                severity=Severity.NOTE,
                code="random_weights",
                because=f"{self.random_weights}: parity is numerical only and says nothing about answers",
                next="set workload.model.weights to a folder that holds all of them",
            )
        elif self.loaded.synthetic:
            yield Finding(
                severity=Severity.NOTE,
                code="parity_synthetic_inputs",
                because="inputs are made up; real ones may reach other values of the model",
                next="set workload.inputs.source",
            )
        workload = self.question.params.workload
        limit = workload.shapes[0].sequence_length
        cut, longest = inputs.token_lengths(self.loaded, limit)
        if cut and model.TASKS[workload.model.task].input == "text":
            yield Finding(
                severity=Severity.NOTE,
                code="inputs_cut",
                because=f"{cut} of {len(self.loaded)} inputs are cut to {limit} tokens, the longest has {longest}",
                next="put a longer shape first in workload.shapes",
            )

    # -- rows

    def _measured(self) -> list[Row]:
        if self.ours is None:
            return []
        confidence = self.question.params.policy.confidence
        found = agreement(self.theirs, self.ours, confidence)
        if self.loaded.labels:
            found += labelled(self._right(self.theirs), self._right(self.ours), confidence)
        return found

    def _right(self, answers: Answers) -> list[bool]:
        """Whether each answer is the label: a class by number or by its name in the config, generated text by its words."""
        labels = self.loaded.labels
        if answers.kind == "tokens":
            if self.loaded.tokenizer is None:
                raise BadParams("labels of generated text need a tokenizer", self.loaded.origin, next="set workload.inputs.tokenizer")
            read = Tokenizer(self.loaded.tokenizer)
            return [read.decode(row).split() == label.split() for row, label in zip(answers.tokens.tolist(), labels)]  # type: ignore[union-attr]
        if answers.kind != "logits" or (answers.counts != 1).any():
            task = self.question.params.workload.model.task
            raise BadParams("workload.inputs.labels: this task has no answer that is right or wrong", task, next="remove it")
        names = {str(name): int(number) for number, name in (self.question.config.get("id2label") or {}).items()}
        wanted = [names[label] if label in names else int(label) if label.isdecimal() else -1 for label in labels]
        unknown = next((label for label, number in zip(labels, wanted) if not 0 <= number < answers.width), None)
        if unknown is not None:
            raise BadParams(
                "workload.inputs.labels: the model has no class", unknown, allowed=", ".join(list(names)[:8]) or f"0 to {answers.width - 1}"
            )
        return (answers.top[:, 0] == np.array(wanted)).tolist()  # type: ignore[index]

    def _judged(self, row: Row, rows: Sequence[Row]) -> ParityMetric:
        decisive = "difference" if self.metric == "accuracy" else "share" if self.metric in PROPORTIONS else "worst"
        bound = kept = None
        if (row.metric, row.statistic) == (self.metric, decisive):
            bound = self.tolerance
            if self.metric == "accuracy":  # MLPerf's way of saying it: at least this share of the baseline's
                bound = -(1 - self.tolerance) * next(one.value for one in rows if (one.metric, one.statistic) == ("accuracy", "baseline"))
            kept = _kept(row, bound)
        interval = {"low": row.low, "high": row.high, "confidence": self.question.params.policy.confidence} if row.low is not None else {}
        value = Quantity(value=row.value, unit=metric(row.metric).unit, grade=Grade.MEASURED, **interval)
        return ParityMetric(metric=row.metric, statistic=row.statistic, value=value, samples=len(self.theirs), tolerance=bound, kept=kept)

    def _more(self) -> str:
        if self.random_weights and self.metric in PROPORTIONS:
            return "name real weights in workload.model.weights"
        needed = inputs_needed(self.tolerance, self.question.params.policy.confidence) if self.metric != "accuracy" else None
        return f"at least {needed:,} inputs are needed" if needed else "more labelled inputs are needed"


def _kept(row: Row, bound: float) -> Optional[bool]:
    """Numbers against the bound; a share by its interval, but a bound of 1 asks about this sample only."""
    if row.low is None or row.high is None:
        return row.value <= bound if row.metric in AT_MOST else row.value >= bound
    if bound >= 1:
        return row.value >= bound
    return True if row.low >= bound else False if row.high < bound else None


def _said(row: ParityMetric) -> str:
    """``cosine similarity 0.99987 at worst over 64 inputs, at least 0.99 wanted``."""
    shown, value = metric(row.metric), row.value
    how = {"worst": " at worst", "difference": ", candidate minus baseline,"}.get(row.statistic, "")
    span = f" ({shown.number(value.low)} to {shown.text(value.high)})" if value.low is not None and value.high is not None else ""
    side = "at most" if row.metric in AT_MOST else "at least"
    return f"{shown.label} {shown.text(value.value)}{how}{span} over {row.samples} inputs, {side} {shown.text(row.tolerance)} wanted"  # type: ignore[arg-type]
