"""How each criterion stands: a function of the plan and the log, so that anyone can repeat it.

Ratios of quantiles are judged group-sequentially, shares by anytime-valid bounds (:mod:`neuronfit.sequential`).
The looks that were taken while the test ran are events in the log and are repeated in the same order, so the
boundaries are the same. The chance of a false alarm, (1 - confidence) / 2 for each end, is divided among the stages
in which a criterion is looked at.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Any, Optional

import numpy as np

from neuronfit import sequential
from neuronfit.provenance import Grade, Quantity, Source, absent
from neuronfit.question import Question
from neuronfit.record import CriterionResult, Finding, Monitor, Severity, StageResult, Trial, TrialCriterion, TrialPlan
from neuronfit.trial.log import Entry, Logged

__all__ = ["Guard", "Judge", "Look", "breach", "evaluate", "history", "judges", "look_at", "settle"]

GUARD_ALPHA = 0.001
"""Chance that a guardrail acts without cause, over the whole stage: it stops a test, so it is small."""

QUANTILES = {"p50": 0.5, "p95": 0.95, "p99": 0.99}


@dataclass(frozen=True)
class Look:
    """One criterion in one stage after some requests."""

    outcome: str
    """passed, failed or inconclusive"""
    because: str
    value: Optional[float] = None
    low: Optional[float] = None
    high: Optional[float] = None
    count: int = 0
    z: Optional[float] = None
    """of a ratio: how far it lies above what is allowed, in standard errors"""
    edge: Optional[float] = None
    """the boundary of this look: failed above it, passed below minus it"""


# -- one criterion in one stage ---------------------------------------------------------------


class Judge:
    """One criterion in one stage, looked at after more and more requests.

    ``planned`` are the requests per side of a whole stage, against which a look's share of the information is measured;
    ``alpha`` the chance of a false alarm of each end over all looks. Each entry is read once, so a look costs what is new.
    Once ``failed`` it stays so: the test ends there. ``passed`` stands as long as it has not failed: each end of a boundary
    holds over all looks by itself.
    """

    def __init__(self, criterion: TrialCriterion, paired: bool, planned: int, alpha: float):
        self.criterion, self.paired, self.planned, self.alpha = criterion, paired, planned, alpha
        self.metric, _, self.quantile = criterion.metric.partition("_")
        self.outcome = "inconclusive"
        self._read = 0

    def take(self, entries: Sequence[Entry], upto: Optional[int] = None) -> str:
        """Look after the first ``upto`` entries (all of them by default); returns the outcome."""
        upto = len(entries) if upto is None else upto
        if self.outcome != "failed":
            for entry in entries[self._read : upto]:
                self._add(entry)
            self._read = max(self._read, upto)
            self._look()
        return self.outcome

    @property
    def found(self) -> Look:
        """How it stands after the last look, with its interval."""
        raise NotImplementedError

    def _add(self, entry: Entry) -> None:
        raise NotImplementedError

    def _look(self) -> None:
        self.outcome = self.found.outcome


class _Ratio(Judge):
    """Candidate's quantile over the baseline's, with the boundary of every look so far."""

    def __init__(self, *given: Any):
        super().__init__(*given)
        self.limit = 1 + self.criterion.margin if self.criterion.kind == "non_inferior" else 1.0
        self._values = {"candidate": array("d"), "baseline": array("d")}
        self._single: dict[int, tuple[str, float]] = {}
        self._boundary, self._seen = sequential.Boundary(self.alpha), 0.0
        self._last: Optional[tuple[sequential.QuantileRatio, float, float, int]] = None

    def _add(self, entry: Entry) -> None:
        value = getattr(entry, f"{self.metric}_s")
        if value is None:
            return
        if not self.paired:
            self._values[entry.arm].append(value)
            return
        other = self._single.pop(entry.n, None)
        if other is None or other[0] == entry.arm:
            self._single[entry.n] = (entry.arm, value)
            return
        self._values[entry.arm].append(value)
        self._values[other[0]].append(other[1])

    def _look(self) -> None:
        mine, theirs = (np.array(self._values[arm]) for arm in ("candidate", "baseline"))
        if not min(len(mine), len(theirs)):
            return
        ratio = sequential.QuantileRatio(mine, theirs, QUANTILES[self.quantile], paired=self.paired)
        share = min(_information(len(mine), len(theirs)) / max(self.planned, 1), 1.0)
        if not ratio.enough or share <= self._seen:
            return
        self._seen = share
        edge, z = self._boundary.at(share), ratio.z_above(self.limit)
        self._last = (ratio, edge, z, min(len(mine), len(theirs)))
        if z > edge:
            self.outcome = "failed"
        elif z < -edge:
            self.outcome = "passed"

    @property
    def found(self) -> Look:
        name = self.criterion.name
        if self._last is None:
            q = QUANTILES[self.quantile]
            have, needed = min(map(len, self._values.values())), math.ceil(sequential.LEAST_TAIL / min(q, 1 - q))
            return Look("inconclusive", f"{name}: {have} answers on the smaller side, it is looked at from {needed} on", count=have)
        ratio, edge, z, count = self._last
        low, high = ratio.interval(edge)
        ends = f"{low:.3f} to {high:.3f}" if low > 0 and math.isfinite(high) else "too uneven to bound"
        said = f"{name} is {ratio.estimate:.3f} x the baseline's ({ends}), {self.limit:g} is allowed"
        return Look(self.outcome, said, ratio.estimate, low, high, count, z, edge)


def _information(mine: int, theirs: int) -> float:
    """Requests per side of an even split that would tell as much: the harmonic mean."""
    return 2 * mine * theirs / (mine + theirs)


class _Share(Judge):
    """A share of requests against a fixed bound: errors, answers that agree, or requests beyond a bound on latency.

    At most 1 - q of the requests may lie beyond the bound of a quantile; a failed request lies beyond.
    """

    def __init__(self, *given: Any):
        super().__init__(*given)
        self.happened = self.of = 0
        bound = self.criterion.bound
        self.bound = 1 - QUANTILES[self.quantile] if self.quantile in QUANTILES else bound
        self.what = {
            "error_rate": "of the candidate's requests failed",
            "agreement": "of the paired answers agree",
        }.get(self.criterion.metric, f"of the candidate's requests took longer than {bound * 1e3:g} ms")

    def _add(self, entry: Entry) -> None:
        if self.criterion.metric == "agreement":
            if entry.agree is not None:
                self.of, self.happened = self.of + 1, self.happened + entry.agree
        elif entry.arm == "candidate":
            self.of += 1
            if self.criterion.metric == "error_rate":
                self.happened += entry.error is not None
            else:
                value = getattr(entry, f"{self.metric}_s")
                self.happened += value is None or value > self.criterion.bound

    @property
    def found(self) -> Look:
        return share_of(self.criterion.name, self.happened, self.of, self.bound, self.alpha, self.what, most=self.criterion.metric != "agreement")


def share_of(name: str, happened: int, of: int, bound: float, alpha: float, what: str, *, most: bool) -> Look:
    """A share against its bound: at ``most`` it, or at least. The bounds hold over all looks."""
    low, high = sequential.share_bounds(happened, of, alpha, expected=min(max(bound, 0.001), 0.999))
    if not of:
        return Look("inconclusive", f"{name}: no request yet of which it can be said that it is one {what}")
    good, bad = (high <= bound, low > bound) if most else (low >= bound, high < bound)
    seen = f"{name}: {happened} of {of} ({happened / of:.3%}; {low:.3%} to {high:.3%}) {what}"
    said = f"{seen}, {'at most' if most else 'at least'} {bound:.3%} is asked"
    return Look("passed" if good else "failed" if bad else "inconclusive", said, happened / of, low, high, of)


class _Fleet(Judge):
    """``throughput`` and ``cost_per_result``: useful answers of both sides, which were asked the same number of times.

    Ratio of the shares answered, and of the money of both fleets over it; bounds from both shares at half of
    ``alpha`` each, so that both hold together (Bonferroni).
    """

    def __init__(self, *given: Any):
        super().__init__(*given)
        self.asked, self.good = {"candidate": 0, "baseline": 0}, {"candidate": 0, "baseline": 0}

    def _add(self, entry: Entry) -> None:
        self.asked[entry.arm] += 1
        self.good[entry.arm] += entry.latency_s is not None

    @property
    def found(self) -> Look:
        criterion, shares, count = self.criterion, [], min(self.asked.values())
        for arm in ("candidate", "baseline"):
            if not self.good[arm]:
                return Look("inconclusive", f"{criterion.name}: no answer of the {arm} yet", count=count)
            bounds = sequential.share_bounds(self.good[arm], self.asked[arm], self.alpha / 2, expected=0.999)
            shares.append((self.good[arm] / self.asked[arm], *bounds))
        (mine, my_low, my_high), (theirs, their_low, their_high) = shares
        value, low, high = mine / theirs, my_low / their_high, my_high / max(their_low, 1e-12)
        worse = criterion.margin if criterion.kind == "non_inferior" else 0.0
        if criterion.metric == "throughput":
            outcome = "passed" if low >= 1 - worse else "failed" if high < 1 - worse else "inconclusive"
            said = f"{criterion.name}: answers are {value:.3f} x the baseline's ({low:.3f} to {high:.3f}), {1 - worse:g} is asked"
            return Look(outcome, said, value, low, high, count)
        money = criterion.money_ratio
        if money is None:
            return Look("inconclusive", f"{criterion.name}: the prices of both sides are not known; run step 6 first", count=count)
        value, low, high = money / value, money / high, money / max(low, 1e-12)
        outcome = "passed" if high <= 1 + worse else "failed" if low > 1 + worse else "inconclusive"
        said = f"{criterion.name}: a result costs {value:.3f} x the baseline's ({low:.3f} to {high:.3f}), {1 + worse:g} is allowed"
        return Look(outcome, said, value, low, high, count)


def judge(criterion: TrialCriterion, paired: bool, planned: int, alpha: float) -> Judge:
    """The judge of a criterion. ``utilization`` has none: no request says it (:func:`busyness`)."""
    if criterion.metric.partition("_")[2] in QUANTILES and criterion.compare == "baseline":
        return _Ratio(criterion, paired, planned, alpha)
    return (_Fleet if criterion.metric in ("throughput", "cost_per_result") else _Share)(criterion, paired, planned, alpha)


def judges(plan: TrialPlan, stage: dict[str, Any], whole: Optional[int] = None) -> dict[str, Judge]:
    """Criterion -> its judge, for those that are looked at in a stage; alpha is divided among the stages of each.

    ``whole`` are the requests per side of the whole stage, where they are not those of the plan.
    """
    alpha, found = (1 - plan.confidence) / 2, {}
    for criterion in plan.criteria_fixed:
        if criterion.metric != "utilization" and stage["mode"] in criterion.stages:
            share = alpha / max(1, sum(one["mode"] in criterion.stages for one in plan.stages))
            found[criterion.name] = judge(criterion, stage["mode"] != "split", whole or stage.get("requests_per_side") or 1, share)
    return found


def look_at(criterion: TrialCriterion, entries: Sequence[Entry], paired: bool, looks: Sequence[int], planned: int, alpha: float) -> Look:
    """Judge one criterion on the entries of a stage; ``looks`` are the numbers of entries after which it was looked at, ascending."""
    one = judge(criterion, paired, planned, alpha)
    for upto in looks:
        one.take(entries, upto)
    return one.found


def busyness(criterion: TrialCriterion, monitor: Optional[Monitor], command: str) -> Look:
    """``utilization``: the mean busyness that a monitor saw of the candidate's devices while the test ran, at most the bound."""
    name = criterion.name
    if monitor is None or not monitor.busy_mean.known:
        return Look("inconclusive", f"{name}: no monitor's record of the candidate overlaps the test; next: {command}")
    seen = monitor.busy_mean
    low, high = (seen.value if end is None else end for end in (seen.low, seen.high))
    outcome = "passed" if high <= criterion.bound else "failed" if low > criterion.bound else "inconclusive"
    said = f"{name}: the candidate's devices were {seen.value:.1%} busy ({monitor.busy_metric}), at most {criterion.bound:.1%} is asked"
    return Look(outcome, said, seen.value, low, high, monitor.samples)


# -- guardrails -------------------------------------------------------------------------------


class Guard:
    """Watches the present stage; each entry is read once."""

    def __init__(self, plan: TrialPlan):
        self.limits = plan.limits
        self._read = self._asked = self._failed = self._slow = self._told = self._agreed = 0
        self._reason = ""

    def breach(self, entries: Sequence[Entry]) -> Optional[str]:
        """Why traffic must go back to the baseline now, or nothing."""
        bound = self.limits.get("latency_p99_s")
        for entry in entries[self._read :]:
            if entry.agree is not None:
                self._told, self._agreed = self._told + 1, self._agreed + entry.agree
            if entry.arm == "candidate":
                self._asked += 1
                self._failed += entry.error is not None
                self._reason = entry.error or self._reason
                self._slow += bool(bound) and ((value := entry.latency_s) is None or value > bound)
        self._read = len(entries)
        if not self._asked:
            return None
        most = self.limits["error_rate"]
        low, _ = sequential.share_bounds(self._failed, self._asked, GUARD_ALPHA, expected=max(most, 0.001))
        if low > most:
            seen = f"{self._failed} of {self._asked} requests failed (at least {low:.2%}, {most:.2%} is allowed)"
            return f"error_rate: {seen}, the last with: {self._reason}"
        least = self.limits["agreement"]
        _, high = sequential.share_bounds(self._agreed, self._told, GUARD_ALPHA, expected=least)
        if self._told and high < least:
            return f"agreement: {self._agreed} of {self._told} answers agree (at most {high:.2%}, {least:.2%} is asked)"
        low, _ = sequential.share_bounds(self._slow, self._asked, GUARD_ALPHA, expected=0.01)
        if bound and low > 0.01:
            return f"latency_p99: {self._slow} of {self._asked} requests took longer than {bound * 1e3:g} ms (at least {low:.2%}, 1 % is allowed)"
        return None


def breach(plan: TrialPlan, entries: Sequence[Entry]) -> Optional[str]:
    """:meth:`Guard.breach` over all ``entries`` of a stage."""
    return Guard(plan).breach(entries)


# -- the whole test ---------------------------------------------------------------------------


def evaluate(
    plan: TrialPlan, logged: Logged, grade: Grade = Grade.MEASURED, monitor: Optional[Monitor] = None, command: str = "neuronfit monitor FILE"
) -> tuple[tuple[CriterionResult, ...], tuple[StageResult, ...]]:
    """Every criterion in every stage that was begun, and what happened in each stage."""
    results, stages = [], []
    for number, stage, entries in _begun(plan, logged):
        for one in judges(plan, stage, _whole(logged, number)).values():
            for upto in _looks(logged, number, len(entries)):
                one.take(entries, upto)
            found = one.found
            totals = [event for event in logged.event("totals") if event["stage"] == number]
            if totals and not entries:
                found = _of_totals(one, totals)
            results.append(_result(one.criterion, stage["name"], found, grade))
        stages.append(_stage(stage, entries))
    for criterion in plan.criteria_fixed:
        if criterion.metric == "utilization" and stages:
            results.append(_result(criterion, "all stages", busyness(criterion, monitor, command), grade))
    return tuple(results), tuple(stages)


def history(plan: TrialPlan, logged: Logged, most: int = 12) -> list[tuple[str, str, int, Look]]:
    """(stage, criterion, entries seen, how it stood) at looks at ratios of quantiles: the path of the test.

    Every look counts; up to ``most`` of a stage and criterion, the last among them, are returned with their intervals.
    """
    path = []
    for number, stage, entries in _begun(plan, logged):
        looks = _looks(logged, number, len(entries))
        for name, one in judges(plan, stage, _whole(logged, number)).items():
            for place, upto in enumerate(looks if isinstance(one, _Ratio) else ()):
                failed = one.take(entries, upto) == "failed"
                if (failed or (len(looks) - 1 - place) % math.ceil(len(looks) / most) == 0) and (found := one.found).value is not None:
                    path.append((stage["name"], name, upto, found))
                if failed:
                    break
    return path


def _begun(plan: TrialPlan, logged: Logged) -> list[tuple[int, dict[str, Any], list[Entry]]]:
    numbers = sorted({entry.stage for entry in logged.entries} | {event["stage"] for event in logged.event("stage")})
    return [(number, plan.stages[number], logged.of(number)) for number in numbers if 0 <= number < len(plan.stages)]


def _whole(logged: Logged, stage: int) -> Optional[int]:
    """Requests per side of a whole stage, as its first event says: those of its schedule, or of a log from elsewhere."""
    told = [event["per_side"] for event in logged.event("stage") if event["stage"] == stage and "per_side" in event]
    return told[0] if told else None


def _looks(logged: Logged, stage: int, most: int) -> list[int]:
    return sorted({min(event["count"], most) for event in logged.event("look") if event["stage"] == stage} | {most})


def _result(criterion: TrialCriterion, stage: str, found: Look, grade: Grade) -> CriterionResult:
    value = _quantity(found, criterion, grade)
    return CriterionResult(criterion=criterion.name, stage=stage, outcome=found.outcome, because=found.because, value=value, count=found.count)


def _of_totals(one: Judge, totals: Sequence[dict[str, Any]]) -> Look:
    """What totals of a monitor say, where there is no line per request: the share of errors; of anything else nothing."""
    mine = [event for event in totals if event["arm"] == "candidate" and event.get("asked")]
    name = one.criterion.name
    if one.criterion.metric == "error_rate" and mine and all(event.get("failed") is not None for event in mine):
        failed, asked = sum(event["failed"] for event in mine), sum(event["asked"] for event in mine)
        return share_of(name, failed, asked, one.criterion.bound, one.alpha, "of the candidate's requests failed", most=True)
    said = [
        f"{event['arm']} {event['values'][key] * 1e3:g} ms" for event in totals if (key := f"{one.criterion.metric}_s") in event.get("values", {})
    ]
    seen = f" ({', '.join(said)})" if said else ""
    return Look("inconclusive", f"{name}: the file has totals{seen} and no line per request, so no interval can be given")


def _quantity(found: Look, criterion: TrialCriterion, grade: Grade) -> Quantity:
    unit = "fraction" if criterion.compare == "bound" else "ratio"
    if found.value is None or not math.isfinite(found.value):
        return absent(unit, found.because)
    low, high = min(found.low, found.value), max(found.high, found.value)
    finite = math.isfinite(low) and math.isfinite(high)
    return Quantity(value=found.value, low=low if finite else None, high=high if finite else None, unit=unit, grade=grade)


def _stage(stage: dict, entries: Sequence[Entry]) -> StageResult:
    counts = {arm: [entry for entry in entries if entry.arm == arm] for arm in ("baseline", "candidate")}
    return StageResult(
        name=stage["name"],
        mode=stage["mode"],
        share=stage["share"],
        asked={arm: len(rows) for arm, rows in counts.items()},
        failed={arm: sum(entry.error is not None for entry in rows) for arm, rows in counts.items()},
        duration_s=max((entry.end or entry.due for entry in entries), default=0.0),
    )


def _monitor(question: Question, plan: TrialPlan, logged: Logged) -> Optional[Monitor]:
    """The newest monitor's record of the candidate whose time overlaps that of the test."""
    begun, ended = _time(logged.started_utc), _time((logged.ended or {}).get("utc")) or datetime.now(timezone.utc)
    for record in reversed(question.dossier.monitors(plan.candidate)):
        start = _time(record.start_utc)
        if begun and start and record.span.known and start <= ended and start + timedelta(seconds=record.span.value) >= begun:
            return record
    return None


def _time(utc: Optional[str]) -> Optional[datetime]:
    try:
        found = datetime.fromisoformat((utc or "").replace("Z", "+00:00"))
    except ValueError:
        return None
    return found if found.tzinfo else found.replace(tzinfo=timezone.utc)


def settle(question: Question, plan: TrialPlan, logged: Logged, source: Source, log_name: str) -> Trial:
    """The verdict as a record, admitted. Passed: every criterion passed in some stage and failed in none.

    ``aborted`` after a breach, ``failed`` when a criterion failed, ``inconclusive`` otherwise. A log of another plan is
    no verdict on this one: the record says so and is invalid.
    """
    watch = f"neuronfit monitor FILE --for {plan.candidate} --params {question.command_name}"
    results, stages = evaluate(plan, logged, Grade(source.grade), _monitor(question, plan, logged), watch)
    names = [criterion.name for criterion in plan.criteria_fixed]
    overall = {name: _overall([row for row in results if row.criterion == name]) for name in names}
    breaches = [event["because"] for event in logged.event("breach")]
    imported = logged.event("imported")
    finished = (logged.ended or {}).get("why") == "finished" and (bool(imported) or len(stages) == len(plan.stages))
    if breaches:
        status = "aborted"
    elif "failed" in overall.values():
        status = "failed"
    elif finished and set(overall.values()) == {"passed"}:
        status = "passed"
    else:
        status = "inconclusive"
    changed = logged.plan != plan.id
    findings = list(_findings(question, plan, logged, status, overall, finished, changed))
    rehearsals = logged.event("rehearsal")
    record = Trial(
        workload=question.ref,
        source=source,
        findings=tuple(findings),
        bottom_line=_sentence(plan, status, overall, breaches, results, changed),
        plan=logged.plan,
        candidate=plan.candidate,
        baseline=plan.baseline,
        status=status,
        valid=not changed,
        started_utc=logged.started_utc,
        criteria=results,
        overall=overall,
        stages=stages,
        breaches=tuple(breaches),
        rehearsed=bool(rehearsals and rehearsals[-1].get("ok")),
        rolled_back=_rolled_back(logged),
        torn_lines=logged.torn,
        repeated_requests=logged.doubled,
        log=log_name,
        log_sha256=logged.sha256,
    )
    return question.dossier.admit(record)


def _overall(rows: Sequence[CriterionResult]) -> str:
    outcomes = {row.outcome for row in rows}
    return "failed" if "failed" in outcomes else "passed" if "passed" in outcomes else "inconclusive"


def _rolled_back(logged: Logged) -> Optional[bool]:
    backs = logged.event("rollback")
    return bool(backs[-1].get("ok")) if backs else None


def _sentence(
    plan: TrialPlan, status: str, overall: dict[str, str], breaches: Sequence[str], results: Sequence[CriterionResult], changed: bool
) -> str:
    sides = f"{plan.candidate} against {plan.baseline}"
    if changed:
        return f"The test of {sides} does not count: its plan was changed after it began."
    if status == "aborted":
        return f"Stopped by a guardrail, {breaches[0]}. Traffic went back to {plan.baseline}."
    if status == "failed":
        bad = next(row for row in results if row.outcome == "failed")
        return f"{plan.candidate} failed the test in stage {bad.stage}: {bad.because}."
    if status == "passed":
        return f"{plan.candidate} passed the test: all {len(overall)} criteria hold at {plan.confidence:.0%} confidence. Raise its share to everything, and keep the way back for a week."
    open_ones = [name for name, outcome in overall.items() if outcome != "passed"]
    return f"The test of {sides} is inconclusive so far: {', '.join(open_ones) or 'it did not run to its end'} {'is' if len(open_ones) == 1 else 'are'} open."


def _findings(question: Question, plan: TrialPlan, logged: Logged, status: str, overall: dict[str, str], finished: bool, changed: bool):
    again = f"neuronfit trial {question.command_name}"
    if changed:
        because = f"the log was begun under plan {logged.plan}, the present plan is {plan.id}"
        yield Finding(severity=Severity.BLOCKER, code="plan_changed", because=because, next=f"{again} --fresh", target=plan.candidate)
    for event in logged.event("breach"):
        yield Finding(
            severity=Severity.BLOCKER,
            code="guardrail_breached",
            because=event["because"],
            next="find the cause before another test",
            target=plan.candidate,
        )
    for name, outcome in overall.items():
        if outcome == "failed":
            yield Finding(
                severity=Severity.BLOCKER,
                code="criterion_failed",
                because=f"{name} failed",
                next="find the cause before another test",
                target=plan.candidate,
            )
    if status == "inconclusive" and not finished:
        yield Finding(
            severity=Severity.WAITING,
            code="trial_unfinished",
            because="the test was interrupted before its last stage ended",
            next=f"{again} --resume",
            target=plan.candidate,
        )
    elif status == "inconclusive":
        open_ones = ", ".join(name for name, outcome in overall.items() if outcome == "inconclusive")
        yield Finding(
            severity=Severity.WAITING,
            code="trial_inconclusive",
            because=f"{open_ones}: too few requests to tell",
            next="lengthen the stages, then run it again",
            target=plan.candidate,
        )
    if logged.event("imported"):
        yield from _of_import(plan, logged)
    if _rolled_back(logged) is False:
        yield Finding(
            severity=Severity.BLOCKER,
            code="rollback_unverified",
            because="after the breach the baseline did not answer every request",
            next="look at the endpoints now",
        )
    if logged.torn:
        yield Finding(severity=Severity.NOTE, code="log_torn", because=f"{logged.torn} lines of the log are not whole; their requests do not count")


def _of_import(plan: TrialPlan, logged: Logged):
    """What a test that ran elsewhere cannot show."""
    begun = {event["stage"] for event in logged.event("stage")}
    absent_ones = [stage["name"] for number, stage in enumerate(plan.stages) if number not in begun]
    left_out = sum(event.get("left_out", 0) for event in logged.event("imported"))
    if left_out:
        because = f"{left_out} lines of the file have neither a latency nor an error, and do not count"
        yield Finding(severity=Severity.WARNING, code="rows_left_out", because=because, next="look at those lines: a lost request is a failed one")
    if absent_ones:
        because = f"the log has nothing of {', '.join(absent_ones)}"
        yield Finding(severity=Severity.NOTE, code="stages_missing", because=because, next="adopt their logs too, or leave them out of trial.stages")
    start, registered = _time(logged.started_utc), _time(plan.created_utc)
    if start is None or (registered and start < registered):
        when = logged.started_utc if start else "at a time that the file does not say"
        because = f"the test began {when}, its plan was registered {plan.created_utc}: criteria may have been chosen after the answers were known"
        yield Finding(
            severity=Severity.WARNING, code="plan_after_test", because=because, next="register the plan first: neuronfit trial PARAMS --plan-only"
        )
