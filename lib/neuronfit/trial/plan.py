"""The plan of a controlled test: criteria, stages, guardrails and rollback, as a record before the first request.

The record's id is a hash of its content and its time is that of its writing, so nobody can move the criteria
afterwards without being seen: the log of a test names the plan under which it was begun.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from typing import Any, Optional

from neuronfit import handover, sequential
from neuronfit.catalog import instances
from neuronfit.cost import leading
from neuronfit.errors import WaitingForEvidence
from neuronfit.params import Criterion, Endpoint, Stage, Target
from neuronfit.profile import offered
from neuronfit.provenance import Estimated
from neuronfit.question import Question
from neuronfit.record import Comparison, Cost, Finding, Severity, TrialCriterion, TrialPlan, Utilization
from neuronfit.trial.evaluate import QUANTILES, compares
from neuronfit.utilization import headline

__all__ = ["METHOD", "endpoint_of", "even_split", "handed_over", "lengths_min", "plan", "stage_text"]

METHOD = (
    "Quantiles: candidate against baseline at the pooled quantile (Mood 1950; paired: McNemar 1947), looked at group-sequentially with "
    "O'Brien-Fleming type alpha spending (Lan and DeMets 1983). Shares: beta-binomial mixture bounds, valid at every look (Robbins 1970; Howard et al. 2021). "
    "Alpha is (1 - confidence) / 2 for each end, divided among the stages."
)

MOST_BUSY = 0.85
"""Busyness of the candidate's devices up to which there is room for a peak; an assumption, until ``bound`` says otherwise."""

PAIRED, ALL = ("replay", "shadow"), ("replay", "shadow", "split")


def plan(question: Question) -> TrialPlan:
    """Write the pre-registered plan and admit it. It waits until both endpoints are known.

    Once a test was begun under a plan, that plan stands as long as the params file says the same, whatever
    evidence has come in since.
    """
    standing, declared = question.dossier.latest(TrialPlan), _declared(question)
    if standing is not None and standing.declared == declared and (question.dossier.folder / "trial" / f"{standing.id}.jsonl").exists():
        return standing
    trial, objective = question.params.trial, question.params.objective
    candidate, baseline = _candidate(question), question.params.baseline
    sides = {"baseline": baseline, "candidate": candidate}
    endpoints = {side: endpoint_of(question, side, target) for side, target in sides.items()}
    waiting = [side for side, endpoint in endpoints.items() if endpoint is None]
    rate = trial.rate_per_s or offered(question).mean_per_s
    criteria = tuple(_fixed(question, entry, candidate) for entry in (trial.criteria or _default(question)))
    needed, spread_from = _needed(question, criteria)
    stages = tuple(_stage(question, stage, rate, needed, spread_from) for stage in trial.stages)
    errors = trial.max_error_rate if trial.max_error_rate is not None else 2 * objective.error_rate
    limits = {"error_rate": errors, "agreement": trial.min_agreement}
    if objective.latency_p99_ms:
        limits["latency_p99_s"] = objective.latency_p99_ms / 1e3
    record = TrialPlan(
        workload=question.ref,
        source=Estimated(formula="plan from the params file; nothing was run", inputs={"trial": "declared"}),
        findings=(*_waiting(question, waiting), *_same(question, endpoints), *_open(stages), *_short(question, stages)),
        bottom_line=(
            f"Plan registered: {candidate.name} against {baseline.name} in {len(trial.stages)} stage{'s' * (len(trial.stages) > 1)}, {_length(stages)}, "
            + (f"rollback first. It waits for {' and '.join(waiting)} endpoint{'s' if len(waiting) > 1 else ''}." if waiting else "rollback first.")
        ),
        candidate=candidate.name,
        baseline=baseline.name,
        hypothesis=(
            f"On the same requests {candidate.name} ({candidate.instance_type}) is not worse than {baseline.name} "
            f"({baseline.instance_type}) in latency, errors and answers."
        ),
        criteria=(*(entry.says for entry in criteria), f"each at {question.params.policy.confidence:.0%} confidence, over all stages and looks"),
        stages=stages,
        guardrails=tuple(_guardrails(limits, trial.evaluate_every_s)),
        rollback=trial.rollback,
        endpoints={side: endpoint.url if endpoint else None for side, endpoint in endpoints.items()},
        criteria_fixed=criteria,
        limits=limits,
        confidence=question.params.policy.confidence,
        method=METHOD,
        traffic={
            "requests": trial.requests or "the workload's inputs",
            "rate_per_s": rate,
            "seed": trial.seed,
            "spread_from": spread_from,
        },
        declared=declared,
    )
    return question.dossier.admit(record)


def _declared(question: Question) -> str:
    """Hash of every key of the params file that the plan follows from."""
    asked = question.params
    parts = (asked.trial, asked.objective, asked.baseline, *asked.candidates)
    said = [part.model_dump(mode="json") for part in parts] + [asked.policy.confidence, question.ref.fingerprint]
    return hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()[:16]


def endpoint_of(question: Question, side: str, target: Target) -> Optional[Endpoint]:
    """Where one side of the test is asked: its target's endpoint, with the address that ``trial`` gives; ``None`` without any."""
    trial = question.params.trial
    url = trial.baseline_url if side == "baseline" else trial.candidate_url
    if target.endpoint is not None:
        return target.endpoint.model_copy(update={"url": url}) if url else target.endpoint
    if url is None:
        return None
    body = trial.body if trial.api == "json" or trial.body != {"inputs": "{prompt}"} else {}
    return Endpoint(url=url, api=trial.api, model=trial.model, api_key_env=trial.api_key_env, timeout_s=trial.timeout_s, body=body)


def _candidate(question: Question) -> Target:
    """The candidate to test: the declared one, else the one the decision is about."""
    return question.target(question.params.trial.candidate or leading(question))


def handed_over(question: Question, registered: TrialPlan) -> dict[str, str]:
    """The plan as files for the places where production runs (:mod:`neuronfit.handover`)."""
    for stage in registered.stages:
        if stage["duration_min"] is None:
            raise WaitingForEvidence(f"stage {stage['name']} cannot be handed over without its minutes: {stage['open']}", next=stage["next"])
    stages = tuple(handover.Stage(stage["name"], stage["mode"], stage["share"], stage["duration_min"]) for stage in registered.stages)
    baseline, candidate = (_fleet(question, name) for name in (registered.baseline, registered.candidate))
    return handover.render(
        handover.Handover(
            name=question.name,
            baseline=baseline or handover.Side(question.target(registered.baseline).instance_type, 1, _devices(question, registered.baseline)),
            candidate=candidate or handover.Side(question.target(registered.candidate).instance_type, 1, _devices(question, registered.candidate)),
            stages=stages,
            max_error_fraction=registered.limits["error_rate"],
            max_latency_p99_s=registered.limits.get("latency_p99_s"),
            plan_id=registered.id,
            counted=baseline is not None and candidate is not None,
        )
    )


def _fleet(question: Question, name: str) -> Optional[handover.Side]:
    """The declared instances of a target, else those that step 5 found; ``None`` where neither is known."""
    target, busy = question.target(name), question.dossier.latest(Utilization)
    found = next((row.instances for row in busy.targets if row.target == name), None) if busy else None
    count = target.count or (math.ceil(found.value) if found is not None and found.known else None)
    return handover.Side(target.instance_type, count, _devices(question, name)) if count else None


def _devices(question: Question, name: str) -> int:
    """GPUs or Neuron chips of one instance of a target; a slice of one counts as one."""
    return max(1, math.floor(instances.find(question.target(name).instance_type).accelerator_count))


# -- criteria ---------------------------------------------------------------------------------


def _default(question: Question) -> tuple[Criterion, ...]:
    bound = question.params.objective.latency_p99_ms
    fixed = (Criterion(metric="latency_p99", bound_ms=bound),) if bound else ()
    return (Criterion(metric="latency_p95"), *fixed, Criterion(metric="error_rate"), Criterion(metric="agreement"))


def _fixed(question: Question, asked: Criterion, candidate: Target) -> TrialCriterion:
    """One criterion with every default filled in, and its sentence."""
    trial, objective = question.params.trial, question.params.objective
    margin = asked.margin if asked.margin is not None else trial.latency_margin if asked.kind == "non_inferior" else 0.0
    base = {"metric": asked.metric, "kind": asked.kind, "margin": margin, "stages": ALL}
    shown = asked.metric.replace("_", " ")
    if asked.metric == "error_rate":
        bound = objective.error_rate if asked.bound is None else asked.bound
        return TrialCriterion(**{**base, "margin": 0.0}, name="error_rate", compare="bound", bound=bound, says=f"error rate at most {bound:.3%}")
    if asked.metric == "agreement":
        bound = trial.min_agreement if asked.bound is None else asked.bound
        says = f"at least {bound:.1%} of paired answers agree"
        return TrialCriterion(**{**base, "margin": 0.0, "stages": PAIRED}, name="agreement", compare="bound", bound=bound, says=says)
    if asked.metric == "utilization":
        bound = MOST_BUSY if asked.bound is None else asked.bound
        says = f"the candidate's devices at most {bound:.0%} busy, as a monitor sees them during the test"
        return TrialCriterion(**{**base, "margin": 0.0}, name="utilization", compare="bound", bound=bound, says=says)
    if asked.bound_ms is not None:
        name, says = f"{asked.metric}_bound", f"{shown} of the candidate at most {asked.bound_ms:g} ms"
        return TrialCriterion(**{**base, "margin": 0.0}, name=name, compare="bound", bound=asked.bound_ms / 1e3, says=says)
    better, more = asked.kind == "superior", asked.metric == "throughput"
    if better and not margin:
        limit = f"{'above' if more else 'below'} the baseline's"
    else:
        limit = f"{'at least' if more else 'at most'} {(1 + margin) if better == more else (1 - margin):g} x the baseline's"
    if asked.metric in ("throughput", "cost_per_result"):
        base |= {"stages": PAIRED}
    money = _money_ratio(question, candidate) if asked.metric == "cost_per_result" else None
    says = f"{shown} of the candidate {limit}"
    return TrialCriterion(**base, name=asked.metric, compare="baseline", money_ratio=money, says=says)


def _money_ratio(question: Question, candidate: Target) -> Optional[float]:
    """Hourly money of the candidate's instances over that of the baseline's, at the declared counts (1 where none is)."""
    cost = question.dossier.latest(Cost)
    rows = {row.target: row for row in cost.targets} if cost else {}
    mine, theirs = rows.get(candidate.name), rows.get(question.params.baseline.name)
    if mine is None or theirs is None or not mine.price.known or not theirs.price.known or not theirs.price.value:
        return None
    return mine.price.value * (candidate.count or 1) / (theirs.price.value * (question.params.baseline.count or 1))


# -- how many requests ------------------------------------------------------------------------


def _needed(question: Question, criteria: Sequence[TrialCriterion]) -> tuple[Optional[int], str]:
    """Requests per side of a stage at which the regression is found with the wanted power, and where the spread is from.

    The hungriest quantile criterion decides; alpha as in the evaluation, divided among the stages.
    """
    trial = question.params.trial
    wanted = [entry for entry in criteria if entry.compare == "baseline" and entry.metric.partition("_")[2] in QUANTILES]
    if not wanted:
        return None, "no criterion compares a quantile"
    figure = headline(question, question.dossier.latest(Comparison), question.params.baseline.name)
    sizes, origin = [], ""
    for entry in wanted:
        looked_at = sum(compares(entry, stage.how, stage.share) for stage in trial.stages)
        if not looked_at:
            return None, f"no stage compares {entry.name} with the baseline"
        alpha = (1 - question.params.policy.confidence) / 2 / looked_at
        q = QUANTILES[entry.metric.partition("_")[2]]
        spread, origin = _spread(figure, q)
        if spread is None:
            return None, origin
        margin = entry.margin if entry.kind == "non_inferior" else 0.0  # superior: as far beyond what is asked
        sizes.append(sequential.requests_needed(spread, margin=margin, detect=max(trial.regression, 1.2 * margin), alpha=alpha, power=trial.power))
    return max(sizes), origin


def _spread(figure: Any, q: float) -> tuple[Optional[float], str]:
    """Spread of the log of a quantile: from raw latencies of the baseline where there are any, else lognormal from its p50 and p99."""
    from scipy.stats import norm

    if figure is None:
        return None, "the baseline has no figure yet"
    values = [value for value in figure.latencies_s if value > 0]
    if len(values) * min(q, 1 - q) >= sequential.LEAST_TAIL:
        return sequential.spread_of_log_quantile(values, q), f"{len(values)} {figure.grade} latencies of {figure.target}"
    middle, tail = figure.quantity("latency_p50_s"), figure.quantity("latency_p99_s")
    if middle.known and tail.known and tail.value > middle.value > 0:
        width = math.log(tail.value / middle.value) / norm.ppf(0.99)
        return width * math.sqrt(q * (1 - q)) / norm.pdf(norm.ppf(q)), f"p50 and p99 of {figure.target} ({figure.grade}), lognormal assumed"
    return None, f"the figure of {figure.target} says nothing about the spread of latency"


def even_split(stage: Mapping[str, Any]) -> float:
    """Requests per side of an even split that tell as much as one request of the stage: 1 where both get it, else 2 s (1 - s).

    At share 1 there is nothing left to compare with: 0.
    """
    return 1.0 if stage["mode"] != "split" else 2 * stage["share"] * (1 - stage["share"])


def lengths_min(question: Question) -> tuple[Optional[float], ...]:
    """Minutes of each stage as the plan would say them; ``None`` where the rate or the sample that it follows from is not known."""
    trial = question.params.trial
    rate = trial.rate_per_s or offered(question).mean_per_s
    criteria = tuple(_fixed(question, entry, _candidate(question)) for entry in (trial.criteria or _default(question)))
    needed, origin = _needed(question, criteria)
    return tuple(_stage(question, stage, rate, needed, origin)["duration_min"] for stage in trial.stages)


def _stage(question: Question, stage: Stage, rate: Optional[float], needed: Optional[int], origin: str) -> dict[str, Any]:
    """One stage of the plan. Where the file gives requests, the minutes follow from the rate: whole requests, none too few."""
    even = even_split({"mode": stage.how, "share": stage.share})
    sent, minutes, unknown = None, stage.duration_min, None
    if stage.requests == "planned" and needed:
        sent = math.ceil(needed / even)
    elif stage.requests == "planned":
        unknown = (
            f"it is to get the requests that the regression needs, and {origin}",
            f"write a number into stages.requests of {question.command_name}, or give {question.params.baseline.name} a figure that says it",
        )
    elif stage.requests:
        sent = math.ceil(stage.requests / stage.reach)
    if sent and rate:
        minutes = sent / rate / 60
    elif sent:
        unknown = (
            f"it is {sent:,} requests long, and no rate is declared",
            f"add trial.rate_per_s or traffic.mean_per_s to {question.command_name}",
        )
    told = rate * minutes * 60 if rate and minutes else None
    return {
        "name": stage.name,
        "mode": stage.how,
        "share": stage.share,
        "duration_min": minutes,
        "expected_requests": round((told if sent is None else sent) * stage.reach) if told else None,
        "requests_per_side": max(1, round(told * (even or 1.0))) if told else None,
        "requests_needed": needed if even else None,
        "minutes_needed": needed / (rate * even) / 60 if needed and rate and even else None,
        **({"requests": None if sent is None else round(sent * stage.reach), "length_from": str(stage.requests)} if stage.requests else {}),
        **({"open": unknown[0], "next": unknown[1]} if unknown else {}),
    }


def stage_text(stage: Mapping[str, Any], registered: TrialPlan) -> str:
    """One stage on a line: how long, how many requests, and after how many minutes of today's traffic the regression is found."""
    minutes, comes = stage["duration_min"], stage.get("expected_requests")
    kind = "both sides get every request" if stage["mode"] != "split" else f"{stage['share']:.0%} to the candidate"
    lasts = f"of unknown length ({stage['open']})" if minutes is None else f"{minutes:.3g} minutes"
    said = f"stage {stage['name']}: {kind}, {lasts}" + (f", {comes:,} requests to the candidate" if comes else "")
    if stage["mode"] == "split" and stage["share"] in (0, 1):
        return f"{said}; nothing to compare with, bounds and errors are judged"
    if stage["requests_needed"] is None:
        return f"{said}; how many are needed is not known: {registered.traffic.get('spread_from')}"
    needed = f"{said}; needed are {stage['requests_needed']:,} a side"
    return needed + (f", {stage['minutes_needed']:.3g} minutes at this traffic" if stage["minutes_needed"] else "")


def _length(stages: Sequence[Mapping[str, Any]]) -> str:
    """All stages together: ``8 hours``, ``at least 2 hours``."""
    known = [stage["duration_min"] for stage in stages if stage["duration_min"] is not None]
    if not known:
        return "of a length that is not known yet"
    return ("" if len(known) == len(stages) else "at least ") + _duration(sum(known))


def _duration(minutes: float) -> str:
    return f"{minutes / 60:.3g} hours" if minutes >= 60 else f"{minutes:.3g} minutes"


# -- guardrails and findings ------------------------------------------------------------------


def _guardrails(limits: dict[str, float], every_s: float) -> list[str]:
    back = f"all traffic back to the baseline within {every_s:g} s"
    said = [f"error rate of the candidate above {limits['error_rate']:.3%}: {back}"]
    if "latency_p99_s" in limits:
        said.append(f"more than 1 % of the candidate's requests above {limits['latency_p99_s'] * 1e3:g} ms: {back}")
    said.append(f"fewer than {limits['agreement']:.1%} of paired answers agree: {back}")
    return said


def _waiting(question: Question, waiting: list[str]) -> list[Finding]:
    if not waiting:
        return []
    keys = " and ".join(f"trial.{name}_url" for name in waiting)
    return [
        Finding(
            severity=Severity.WAITING,
            code="endpoints_unknown",
            because=f"{keys} not declared, so no request can be sent",
            next=f"add {keys} to {question.command_name}, then neuronfit trial {question.command_name}",
        )
    ]


def _same(question: Question, endpoints: dict[str, Optional[Endpoint]]) -> list[Finding]:
    """Both sides at one address: a test of the test, and no evidence about the candidate."""
    mine, theirs = endpoints["candidate"], endpoints["baseline"]
    if mine is None or theirs is None or mine.url.rstrip("/") != theirs.url.rstrip("/") or mine.model != theirs.model:
        return []
    because = f"baseline and candidate are both at {mine.url}: whatever is behind it is compared with itself"
    return [Finding(severity=Severity.WARNING, code="same_endpoint", because=because, next=f"name two addresses in {question.command_name}")]


def _open(stages: Sequence[Mapping[str, Any]]) -> list[Finding]:
    """Stages whose length is not known yet."""
    waiting = [stage for stage in stages if stage["duration_min"] is None]
    return [
        Finding(severity=Severity.WAITING, code="stage_length_unknown", because=f"stage {stage['name']}: {stage['open']}", next=stage["next"])
        for stage in waiting
    ]


def _short(question: Question, stages: Sequence[Mapping[str, Any]]) -> list[Finding]:
    """Stages that cannot find the regression they are meant to find."""
    known = [stage for stage in stages if stage["minutes_needed"] and stage["duration_min"] is not None]
    if not known or any(stage["minutes_needed"] <= stage["duration_min"] * (1 + 1e-9) for stage in known):
        return []
    best = min(known, key=lambda stage: stage["minutes_needed"])
    trial = question.params.trial
    return [
        Finding(
            severity=Severity.WARNING,
            code="stages_too_short",
            because=f"a regression of {trial.regression:.0%} is found with {trial.power:.0%} chance after {best['minutes_needed']:.3g} minutes of stage "
            f"{best['name']}, which lasts {best['duration_min']:g}",
            next=f"lengthen a stage of {question.command_name} (requests: planned), or raise trial.detect",
        )
    ]
