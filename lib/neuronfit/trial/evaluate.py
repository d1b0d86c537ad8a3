"""How each criterion stands: a function of the plan and the log, so that anyone can repeat it.

Ratios of quantiles are judged group-sequentially, shares by anytime-valid bounds (:mod:`neuronfit.sequential`).
The looks that were taken while the test ran are events in the log and are repeated in the same order, so the
boundaries are the same. The chance of a false alarm, (1 - confidence) / 2 for each end, is divided among the stages
in which a criterion is looked at.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Optional

from neuronfit import sequential
from neuronfit.provenance import Grade, Quantity, Source, absent
from neuronfit.question import Question
from neuronfit.record import CriterionResult, Finding, Severity, StageResult, Trial, TrialCriterion, TrialPlan
from neuronfit.trial.log import Entry, Logged

__all__ = ["Look", "breach", "evaluate", "look_at", "settle"]

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


# -- one criterion in one stage ---------------------------------------------------------------


def values_of(entries: Sequence[Entry], arm: str, metric: str) -> dict[int, float]:
    """Request number -> seconds, of one side, for ``latency``, ``ttft`` or ``tpot``."""
    name = f"{metric}_s"
    return {entry.n: value for entry in entries if entry.arm == arm and (value := getattr(entry, name)) is not None}


def look_at(criterion: TrialCriterion, entries: Sequence[Entry], paired: bool, looks: Sequence[int], planned: int, alpha: float) -> Look:
    """Judge one criterion on the requests of a stage.

    ``looks`` are the numbers of entries after which it was looked at, ascending; ``planned`` the requests per
    side of a whole stage, against which a look's share of the information is measured.
    """
    kind = criterion.metric.partition("_")[0]
    if kind in ("latency", "ttft", "tpot"):
        judge = _ratio if criterion.compare == "baseline" else _bound
        return judge(criterion, entries, paired, looks, planned, alpha)
    if criterion.metric == "error_rate":
        mine = [entry for entry in entries if entry.arm == "candidate"]
        failed = sum(entry.error is not None for entry in mine)
        return _share(failed, len(mine), criterion.bound, alpha, "of the candidate's requests failed", most=True)
    if criterion.metric == "agreement":
        told = [entry.agree for entry in entries if entry.agree is not None]
        return _share(sum(told), len(told), criterion.bound, alpha, "of the paired answers agree", most=False)
    return _fleet(criterion, entries, alpha)


def _ratio(criterion: TrialCriterion, entries: Sequence[Entry], paired: bool, looks: Sequence[int], planned: int, alpha: float) -> Look:
    """Candidate's quantile over the baseline's, with the boundary of every look so far."""
    metric, _, name = criterion.metric.partition("_")
    q, limit = QUANTILES[name], 1 + criterion.margin if criterion.kind == "non_inferior" else 1.0
    boundary, last, seen = sequential.Boundary(alpha), None, 0.0
    for upto in looks:
        part = entries[:upto]
        mine, theirs = values_of(part, "candidate", metric), values_of(part, "baseline", metric)
        if paired:
            both = sorted(mine.keys() & theirs.keys())
            sides = [[mine[n] for n in both], [theirs[n] for n in both]]
        else:
            sides = [list(mine.values()), list(theirs.values())]
        count = min(len(sides[0]), len(sides[1]))
        if not count:
            continue
        ratio = sequential.QuantileRatio(*sides, q, paired=paired)
        share = min(_information(len(sides[0]), len(sides[1])) / max(planned, 1), 1.0)
        if not ratio.enough or share <= seen:
            continue
        seen = share
        edge, z = boundary.at(share), ratio.z_above(limit)
        last = (ratio, edge, z, count)
        if abs(z) > edge:
            break
    if last is None:
        needed = math.ceil(sequential.LEAST_TAIL / min(q, 1 - q))
        have = min(len(values_of(entries, arm, metric)) for arm in ("candidate", "baseline"))
        return Look("inconclusive", f"{have} answers on the smaller side; {criterion.metric} is looked at from {needed} on", count=have)
    ratio, edge, z, count = last
    low, high = ratio.interval(edge)
    ends = f"{low:.3f} to {high:.3f}" if low > 0 and math.isfinite(high) else "too uneven to bound"
    said = f"{criterion.metric} is {ratio.estimate:.3f} x the baseline's ({ends}), {limit:g} is allowed"
    return Look("failed" if z > edge else "passed" if z < -edge else "inconclusive", said, ratio.estimate, low, high, count)


def _information(mine: int, theirs: int) -> float:
    """Requests per side of an even split that would tell as much: the harmonic mean."""
    return 2 * mine * theirs / (mine + theirs)


def _bound(criterion: TrialCriterion, entries: Sequence[Entry], paired: bool, looks: Sequence[int], planned: int, alpha: float) -> Look:
    """A quantile against a fixed bound: at most 1 - q of the requests may lie beyond it; a failed request lies beyond."""
    metric, _, name = criterion.metric.partition("_")
    mine = [entry for entry in entries if entry.arm == "candidate"]
    beyond = sum((value := getattr(entry, f"{metric}_s")) is None or value > criterion.bound for entry in mine)
    return _share(
        beyond, len(mine), 1 - QUANTILES[name], alpha, f"of the candidate's requests took longer than {criterion.bound * 1e3:g} ms", most=True
    )


def _share(happened: int, of: int, bound: float, alpha: float, what: str, *, most: bool) -> Look:
    low, high = sequential.share_bounds(happened, of, alpha, expected=min(max(bound, 0.001), 0.999))
    if not of:
        return Look("inconclusive", f"no request yet: {what}")
    good, bad = (high <= bound, low > bound) if most else (low >= bound, high < bound)
    said = f"{happened} of {of} ({happened / of:.3%}; {low:.3%} to {high:.3%}) {what}, {'at most' if most else 'at least'} {bound:.3%} is asked"
    return Look("passed" if good else "failed" if bad else "inconclusive", said, happened / of, low, high, of)


def _fleet(criterion: TrialCriterion, entries: Sequence[Entry], alpha: float) -> Look:
    """``throughput`` and ``cost_per_result``: useful answers of both sides, which were asked the same number of times.

    Ratio of the shares answered, and of the money of both fleets over it; bounds from both shares at half of
    ``alpha`` each, so that both hold together (Bonferroni).
    """
    shares = []
    for arm in ("candidate", "baseline"):
        mine = [entry for entry in entries if entry.arm == arm]
        good = sum(entry.latency_s is not None for entry in mine)
        if not good:
            return Look("inconclusive", f"no answer of the {arm} yet", count=len(mine))
        shares.append((good / len(mine), *sequential.share_bounds(good, len(mine), alpha / 2, expected=0.999), len(mine)))
    (mine, my_low, my_high, count), (theirs, their_low, their_high, _) = shares
    value, low, high = mine / theirs, my_low / their_high, my_high / their_low
    if criterion.metric == "throughput":
        limit = 1 - criterion.margin if criterion.kind == "non_inferior" else 1.0
        outcome = "passed" if low >= limit else "failed" if high < limit else "inconclusive"
        return Look(outcome, f"answers are {value:.3f} x the baseline's ({low:.3f} to {high:.3f}), {limit:g} is asked", value, low, high, count)
    if criterion.money_ratio is None:
        return Look("inconclusive", "the prices of both sides are not known; run step 6 first", count=count)
    value, low, high = criterion.money_ratio / value, criterion.money_ratio / high, criterion.money_ratio / low
    limit = 1 + criterion.margin if criterion.kind == "non_inferior" else 1.0
    outcome = "passed" if high <= limit else "failed" if low > limit else "inconclusive"
    return Look(outcome, f"a result costs {value:.3f} x the baseline's ({low:.3f} to {high:.3f}), {limit:g} is allowed", value, low, high, count)


# -- guardrails -------------------------------------------------------------------------------


def breach(plan: TrialPlan, entries: Sequence[Entry]) -> Optional[str]:
    """Why traffic must go back to the baseline now, or nothing. ``entries`` are those of the present stage."""
    limits = plan.limits
    mine = [entry for entry in entries if entry.arm == "candidate"]
    if not mine:
        return None
    failed = sum(entry.error is not None for entry in mine)
    low, _ = sequential.share_bounds(failed, len(mine), GUARD_ALPHA, expected=max(limits["error_rate"], 0.001))
    if low > limits["error_rate"]:
        reason = next(entry.error for entry in reversed(mine) if entry.error)
        return f"error_rate: {failed} of {len(mine)} requests failed (at least {low:.2%}, {limits['error_rate']:.2%} is allowed), the last with: {reason}"
    told = [entry.agree for entry in entries if entry.agree is not None]
    _, high = sequential.share_bounds(sum(told), len(told), GUARD_ALPHA, expected=limits["agreement"])
    if told and high < limits["agreement"]:
        return f"agreement: {sum(told)} of {len(told)} answers agree (at most {high:.2%}, {limits['agreement']:.2%} is asked)"
    bound = limits.get("latency_p99_s")
    if bound:
        slow = sum((value := entry.latency_s) is None or value > bound for entry in mine)
        low, _ = sequential.share_bounds(slow, len(mine), GUARD_ALPHA, expected=0.01)
        if low > 0.01:
            return f"latency_p99: {slow} of {len(mine)} requests took longer than {bound * 1e3:g} ms (at least {low:.2%}, 1 % is allowed)"
    return None


# -- the whole test ---------------------------------------------------------------------------


def evaluate(plan: TrialPlan, logged: Logged, grade: Grade = Grade.MEASURED) -> tuple[tuple[CriterionResult, ...], tuple[StageResult, ...]]:
    """Every criterion in every stage that was begun, and what happened in each stage."""
    alpha = (1 - plan.confidence) / 2
    results, stages = [], []
    begun = sorted({entry.stage for entry in logged.entries} | {event["stage"] for event in logged.event("stage")})
    for number in begun:
        if not 0 <= number < len(plan.stages):
            continue
        stage, entries = plan.stages[number], logged.of(number)
        looks = sorted({event["count"] for event in logged.event("look") if event["stage"] == number} | {len(entries)})
        for criterion in plan.criteria_fixed:
            if stage["mode"] not in criterion.stages:
                continue
            share = alpha / max(1, sum(one["mode"] in criterion.stages for one in plan.stages))
            paired = stage["mode"] != "split"
            found = look_at(criterion, entries, paired, looks, stage.get("requests_per_side") or len(entries), share)
            results.append(
                CriterionResult(
                    criterion=criterion.name,
                    stage=stage["name"],
                    outcome=found.outcome,
                    because=found.because,
                    value=_quantity(found, criterion, grade),
                    count=found.count,
                )
            )
        stages.append(_stage(stage, entries))
    return tuple(results), tuple(stages)


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


def settle(question: Question, plan: TrialPlan, logged: Logged, source: Source, log_name: str) -> Trial:
    """The verdict as a record, admitted. Passed: every criterion passed in some stage and failed in none.

    ``aborted`` after a breach, ``failed`` when a criterion failed, ``inconclusive`` otherwise. A log of another plan is
    no verdict on this one: the record says so and is invalid.
    """
    results, stages = evaluate(plan, logged, Grade(source.grade))
    names = [criterion.name for criterion in plan.criteria_fixed]
    overall = {name: _overall([row for row in results if row.criterion == name]) for name in names}
    breaches = [event["because"] for event in logged.event("breach")]
    finished = len(stages) == len(plan.stages) and (logged.ended or {}).get("why") == "finished"
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
    if _rolled_back(logged) is False:
        yield Finding(
            severity=Severity.BLOCKER,
            code="rollback_unverified",
            because="after the breach the baseline did not answer every request",
            next="look at the endpoints now",
        )
    if logged.torn:
        yield Finding(severity=Severity.NOTE, code="log_torn", because=f"{logged.torn} lines of the log are not whole; their requests do not count")
