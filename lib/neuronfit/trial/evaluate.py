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
from neuronfit.trial.ledger import VALUES, Entry, Ledger, latency_s
from neuronfit.trial.log import Logged

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
            for rows in Ledger.of(entries[self._read : upto]).pieces():
                self._add(rows)
            self._read = max(self._read, upto)
            self._look()
        return self.outcome

    @property
    def found(self) -> Look:
        """How it stands after the last look, with its interval."""
        raise NotImplementedError

    @property
    def brief(self) -> str:
        """How it stands, in a few words."""
        return f"{self.criterion.name} {self.outcome}"

    def _add(self, rows: np.ndarray) -> None:
        """Take in the next rows of a ledger."""
        raise NotImplementedError

    def _look(self) -> None:
        self.outcome = self.found.outcome


class _Ratio(Judge):
    """Candidate's quantile over the baseline's, with the boundary of every look so far."""

    def __init__(self, *given: Any):
        super().__init__(*given)
        self.limit = self.criterion.allowed
        self._values = {"candidate": array("d"), "baseline": array("d")}
        self._single = (np.empty(0, np.int64), np.empty(0, bool), np.empty(0))
        """requests of which one side has a value so far: number, whether it is the candidate's, value"""
        self._boundary, self._seen = sequential.Boundary(self.alpha), 0.0
        self._last: Optional[tuple[int, int, float, float]] = None
        """values of the candidate and of the baseline at the last look, its boundary and z"""

    def _add(self, rows: np.ndarray) -> None:
        values = VALUES[self.metric](rows)
        there = ~np.isnan(values)
        news = (rows["n"][there].astype(np.int64), rows["arm"][there] == 1, values[there])
        if self.paired:
            mine, theirs = self._pairs(news)
        else:
            mine, theirs = news[2][news[1]], news[2][~news[1]]
        self._values["candidate"].frombytes(mine.tobytes())
        self._values["baseline"].frombytes(theirs.tobytes())

    def _pairs(self, news: tuple[np.ndarray, ...]) -> tuple[np.ndarray, np.ndarray]:
        """Values of both sides for each request that has become a pair, in the order in which the second answers came."""
        number, mine, value = (np.concatenate(both) for both in zip(self._single, news))
        order = np.argsort(number, kind="stable")
        here, then = order[:-1], order[1:]
        met = (number[here] == number[then]) & (mine[here] != mine[then])
        met[1:] &= ~met[:-1]
        here, then = here[met], then[met]
        left = np.ones(len(number), bool)
        left[here] = left[then] = False
        self._single = (number[left], mine[left], value[left])
        came = np.argsort(then)
        here, then = here[came], then[came]
        return np.where(mine[here], value[here], value[then]), np.where(mine[here], value[then], value[here])

    def _ratio(self, mine: int, theirs: int) -> sequential.QuantileRatio:
        """Over the first so many values of each side; it reads them where they are, so it must be gone before more come."""
        sides = (
            np.frombuffer(self._values[arm], count=count) if count else np.empty(0) for arm, count in (("candidate", mine), ("baseline", theirs))
        )
        return sequential.QuantileRatio(*sides, QUANTILES[self.quantile], paired=self.paired)

    def _look(self) -> None:
        mine, theirs = (len(self._values[arm]) for arm in ("candidate", "baseline"))
        if not min(mine, theirs):
            return
        ratio = self._ratio(mine, theirs)
        share = min(_information(mine, theirs) / max(self.planned, 1), 1.0)
        if not ratio.enough or share <= self._seen:
            return
        self._seen = share
        edge, z = self._boundary.at(share), ratio.z_above(self.limit)
        self._last = (mine, theirs, edge, z)
        if z > edge:
            self.outcome = "failed"
        elif z < -edge:
            self.outcome = "passed"

    @property
    def quantiles(self) -> dict[str, float]:
        """The quantile of either side at the last look, seconds."""
        return {arm: float(np.quantile(np.frombuffer(values), QUANTILES[self.quantile])) for arm, values in self._values.items() if len(values)}

    @property
    def brief(self) -> str:
        """With the ratio; without its interval, which takes a while."""
        return f"{self.criterion.name} {f'x {self._ratio(*self._last[:2]).estimate:.3f} ' if self._last else ''}{self.outcome}"

    @property
    def found(self) -> Look:
        name = self.criterion.name
        if self._last is None:
            q = QUANTILES[self.quantile]
            have, needed = min(map(len, self._values.values())), math.ceil(sequential.LEAST_TAIL / min(q, 1 - q))
            return Look("inconclusive", f"{name}: {have} answers on the smaller side, it is looked at from {needed} on", count=have)
        mine, theirs, edge, z = self._last
        ratio = self._ratio(mine, theirs)
        low, high = ratio.interval(edge)
        ends = f"{low:.3f} to {high:.3f}" if low > 0 and math.isfinite(high) else "too uneven to bound"
        said = f"{name} is {ratio.estimate:.3f} x the baseline's ({ends}), {self.limit:g} is allowed"
        return Look(self.outcome, said, ratio.estimate, low, high, min(mine, theirs), z, edge)


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

    def _add(self, rows: np.ndarray) -> None:
        if self.criterion.metric == "agreement":
            agree = rows["agree"]
            self.of, self.happened = self.of + int((agree >= 0).sum()), self.happened + int((agree == 1).sum())
            return
        mine = rows[rows["arm"] == 1]
        self.of += len(mine)
        if self.criterion.metric == "error_rate":
            self.happened += int((mine["error"] >= 0).sum())
        else:
            self.happened += int((~(VALUES[self.metric](mine) <= self.criterion.bound)).sum())

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

    def _add(self, rows: np.ndarray) -> None:
        good = ~np.isnan(latency_s(rows))
        for arm, place in (("baseline", 0), ("candidate", 1)):
            of_it = rows["arm"] == place
            self.asked[arm] += int(of_it.sum())
            self.good[arm] += int(good[of_it].sum())

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
        worse = criterion.margin if criterion.kind == "non_inferior" else -criterion.margin
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


def compares(criterion: TrialCriterion, mode: str, share: float) -> bool:
    """Whether a criterion is looked at in such a stage: with the baseline nothing is compared where one side gets no request."""
    if criterion.metric == "utilization" or mode not in criterion.stages:
        return False
    return criterion.compare == "bound" or mode != "split" or 0 < share < 1


def judges(plan: TrialPlan, stage: dict[str, Any], whole: Optional[int] = None) -> dict[str, Judge]:
    """Criterion -> its judge, for those that are looked at in a stage; alpha is divided among the stages of each.

    ``whole`` are the requests per side of the whole stage, where they are not those of the plan.
    """
    alpha, found = (1 - plan.confidence) / 2, {}
    for criterion in plan.criteria_fixed:
        if compares(criterion, stage["mode"], stage["share"]):
            share = alpha / max(1, sum(compares(criterion, one["mode"], one["share"]) for one in plan.stages))
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
        news = Ledger.of(entries[self._read :])
        for rows in news.pieces():
            agree, mine = rows["agree"], rows[rows["arm"] == 1]
            failed = mine["error"][mine["error"] >= 0]
            self._told, self._agreed = self._told + int((agree >= 0).sum()), self._agreed + int((agree == 1).sum())
            self._asked, self._failed = self._asked + len(mine), self._failed + len(failed)
            self._reason = news.error(int(failed[-1])) if len(failed) else self._reason
            self._slow += int((~(latency_s(mine) <= bound)).sum()) if bound else 0
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


NOT_REACHED = ("no connection", "connection lost", "timeout")
"""How the error of a request begins that did not reach its service."""


def unreachable(entries: Sequence[Entry], least: int) -> tuple[int, str]:
    """How many of the last entries failed without reaching a service, on both sides, and with what; 0 below ``least`` a side.

    One side that cannot be reached is that side's fault. Both at once is the network between, or the host that sends: no evidence about
    either.
    """
    ledger, sides, count, reason = Ledger.of(entries), {0: 0, 1: 0}, 0, ""
    for rows in reversed(list(ledger.pieces())):
        errors = np.unique(rows["error"])
        away = [place for place in errors if place >= 0 and ledger.error(place).startswith(NOT_REACHED)]
        reached = np.flatnonzero(~np.isin(rows["error"], away))
        last = rows[reached[-1] + 1 :] if len(reached) else rows
        count += len(last)
        for side in sides:
            sides[side] += int((last["arm"] == side).sum())
        reason = reason or (ledger.error(int(last["error"][-1])) if len(last) else "")
        if len(reached):
            break
    return (count, reason) if min(sides.values()) >= least else (0, "")


def breach(plan: TrialPlan, entries: Sequence[Entry]) -> Optional[str]:
    """:meth:`Guard.breach` over all ``entries`` of a stage."""
    return Guard(plan).breach(entries)


# -- the whole test ---------------------------------------------------------------------------


def evaluate(
    plan: TrialPlan, logged: Logged, grade: Grade = Grade.MEASURED, monitor: Optional[Monitor] = None, command: str = "neuronfit monitor FILE"
) -> tuple[tuple[CriterionResult, ...], tuple[StageResult, ...]]:
    """Every criterion in every stage that was begun, and what happened in each stage."""
    from neuronfit.trial.elsewhere import heard

    imported = next(iter(logged.event("imported")), None)
    results, stages = [], []
    for number, stage, entries in _begun(plan, logged):
        totals = [event for event in logged.event("totals") if event["stage"] == number]
        waiting = judges(plan, stage, _whole(logged, number))
        for name in tuple(waiting):
            one = waiting.pop(name)  # one at a time: each holds the values that it has read
            for upto in _looks(logged, number, len(entries)):
                one.take(entries, upto)
            found = one.found
            if imported:
                found = heard(one, found, len(entries) > 0, totals, imported)
            results.append(_result(one.criterion, stage["name"], found, grade))
        stages.append(_stage(stage, entries, totals))
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
        waiting = judges(plan, stage, _whole(logged, number))
        for name in tuple(waiting):
            one = waiting.pop(name)
            for place, upto in enumerate(looks if isinstance(one, _Ratio) else ()):
                failed = one.take(entries, upto) == "failed"
                if (failed or (len(looks) - 1 - place) % math.ceil(len(looks) / most) == 0) and (found := one.found).value is not None:
                    path.append((stage["name"], name, upto, found))
                if failed:
                    break
    return path


def _begun(plan: TrialPlan, logged: Logged) -> list[tuple[int, dict[str, Any], Ledger]]:
    numbers = sorted(set(logged.stages) | {event["stage"] for event in logged.event("stage")})
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


def _quantity(found: Look, criterion: TrialCriterion, grade: Grade) -> Quantity:
    unit = "fraction" if criterion.compare == "bound" else "ratio"
    if found.value is None or not math.isfinite(found.value):
        return absent(unit, found.because)
    low, high = min(found.low, found.value), max(found.high, found.value)
    finite = math.isfinite(low) and math.isfinite(high)
    return Quantity(value=found.value, low=low if finite else None, high=high if finite else None, unit=unit, grade=grade)


def _stage(stage: dict, entries: Sequence[Entry], totals: Sequence[dict[str, Any]] = ()) -> StageResult:
    asked, failed, last = {"baseline": 0, "candidate": 0}, {"baseline": 0, "candidate": 0}, 0.0
    for rows in Ledger.of(entries).pieces():
        for arm, place in (("baseline", 0), ("candidate", 1)):
            errors = rows["error"][rows["arm"] == place]
            asked[arm] += len(errors)
            failed[arm] += int((errors >= 0).sum())
        last = max(last, float(np.where(np.isnan(rows["end"]), rows["due"], rows["end"]).max()))
    for event in totals:
        if not len(entries):
            asked[event["arm"]] += event.get("asked") or 0
        failed[event["arm"]] = max(failed[event["arm"]], event.get("failed") or 0)
    return StageResult(name=stage["name"], mode=stage["mode"], share=stage["share"], asked=asked, failed=failed, duration_s=last)


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
        yield _unfinished(plan, logged, f"{again} --resume")
    elif status == "inconclusive":
        open_ones = ", ".join(name for name, outcome in overall.items() if outcome == "inconclusive")
        yield Finding(
            severity=Severity.WAITING,
            code="trial_inconclusive",
            because=f"{open_ones}: {'each says what is missing' if logged.event('imported') else 'too few requests to tell'}",
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
    if logged.lost and (finished or status != "inconclusive"):
        because = f"{_lost_because(logged)}; {logged.lost:,} requests that failed then do not count, and were sent again"
        yield Finding(severity=Severity.NOTE, code="both_sides_lost", because=because)
    earlier = {
        entry.started_utc: entry
        for entry in question.dossier
        if isinstance(entry, Trial) and entry.candidate == plan.candidate and entry.started_utc != logged.started_utc
    }
    if earlier and not logged.event("imported"):
        said = "; ".join(f"{entry.status}, begun {utc}, plan {entry.plan}" for utc, entry in sorted(earlier.items()))
        because = f"{plan.candidate} was tested before ({said}): a test that is repeated until it passes shows nothing"
        yield Finding(severity=Severity.WARNING, code="tested_before", because=because, next="say in the decision why it was repeated")
    if logged.torn:
        yield Finding(severity=Severity.NOTE, code="log_torn", because=f"{logged.torn} lines of the log are not whole; their requests do not count")


def _unfinished(plan: TrialPlan, logged: Logged, next: str) -> Finding:
    """Why a test that has no verdict ended."""
    why = (logged.ended or {}).get("why")
    if why == "interrupted":
        because = "the test was stopped by hand before its last stage ended; every answer is kept"
        return Finding(severity=Severity.WAITING, code="trial_stopped", because=because, next=next, target=plan.candidate)
    if why == "lost":
        because = f"{_lost_because(logged)}; {logged.lost:,} requests that failed then do not count"
        return Finding(severity=Severity.WAITING, code="both_sides_lost", because=because, next=next, target=plan.candidate)
    because = (
        "a side did not answer the rehearsal, so no traffic was sent"
        if why == "rehearsal"
        else "the test was interrupted before its last stage ended"
    )
    return Finding(severity=Severity.WAITING, code="trial_unfinished", because=because, next=next, target=plan.candidate)


def _lost_because(logged: Logged) -> str:
    events = logged.event("lost")
    return f"{events[-1].get('because')} at {events[-1].get('utc')}" if events else "neither side could be reached"


def _of_import(plan: TrialPlan, logged: Logged):
    """What a test that ran elsewhere cannot show."""
    from neuronfit.trial.elsewhere import files_of

    begun = {event["stage"] for event in logged.event("stage")}
    absent_ones = [stage["name"] for number, stage in enumerate(plan.stages) if number not in begun]
    left_out = sum(event.get("left_out", 0) for event in logged.event("imported"))
    if left_out:
        because = f"{left_out} lines of the file have neither a latency nor an error, and do not count"
        yield Finding(severity=Severity.WARNING, code="rows_left_out", because=because, next="look at those lines: a lost request is a failed one")
    if absent_ones:
        because = f"the log has nothing of {', '.join(absent_ones)}"
        yield Finding(severity=Severity.NOTE, code="stages_missing", because=because, next="adopt their logs too, or leave them out of trial.stages")
    yield from files_of(plan, logged)
    start, registered = _time(logged.started_utc), _time(plan.created_utc)
    if start is None or (registered and start < registered):
        when = logged.started_utc if start else "at a time that the file does not say"
        because = f"the test began {when}, its plan was registered {plan.created_utc}: criteria may have been chosen after the answers were known"
        yield Finding(
            severity=Severity.WARNING, code="plan_after_test", because=because, next="register the plan first: neuronfit trial PARAMS --plan-only"
        )
