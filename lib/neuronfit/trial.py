"""Step 8: the controlled production test, written down before it starts.

The plan is a record: criteria, stages, guardrails and rollback are fixed, hashed and dated before
the first request is sent, so nobody can move them afterwards. Running it needs both endpoints.
"""

from __future__ import annotations

from neuronfit.cost import leading
from neuronfit.params import Target
from neuronfit.provenance import Estimated
from neuronfit.question import Question
from neuronfit.record import Finding, Severity, TrialPlan
from neuronfit.workload import asked

__all__ = ["plan"]


def plan(question: Question) -> TrialPlan:
    """Write the pre-registered plan and admit it. It waits until both endpoints are declared."""
    trial, objective = question.params.trial, question.params.objective
    candidate, baseline = _candidate(question), question.params.baseline
    bound = f" and {objective.latency_p99_ms:g} ms" if objective.latency_p99_ms else ""
    errors = trial.max_error_rate if trial.max_error_rate is not None else 2 * objective.error_rate
    volume = asked(question.params.traffic).mean_per_s
    minutes = sum(stage.duration_min for stage in trial.stages)
    endpoints = {"baseline": trial.baseline_url, "candidate": trial.candidate_url}
    waiting = [name for name, url in endpoints.items() if not url]
    record = TrialPlan(
        workload=question.ref,
        source=Estimated(formula="plan from the params file; nothing was run", inputs={"trial": "declared"}),
        findings=tuple(_waiting(question, waiting)),
        bottom_line=(
            f"Plan registered: {candidate.name} against {baseline.name} in {len(trial.stages)} stages, at least {minutes / 60:.3g} hours, "
            + (f"rollback first. It waits for {' and '.join(waiting)} endpoint{'s' if len(waiting) > 1 else ''}." if waiting else "rollback first.")
        ),
        candidate=candidate.name,
        baseline=baseline.name,
        hypothesis=(
            f"On the same requests {candidate.name} ({candidate.instance_type}) is not worse than {baseline.name} "
            f"({baseline.instance_type}) in latency, errors and answers."
        ),
        criteria=(
            f"latency p99 of the candidate at most {1 + trial.latency_margin:g} x the baseline's{bound}",
            f"error rate at most {objective.error_rate:.3%}",
            f"at least {trial.min_agreement:.1%} of paired answers agree",
            f"each at {question.params.policy.confidence:.0%} confidence, per stage",
        ),
        stages=tuple(
            {
                "name": stage.name,
                "share": stage.share,
                "duration_min": stage.duration_min,
                "expected_requests": round(volume * stage.duration_min * 60 * (stage.share or 1.0)) if volume else None,
            }
            for stage in trial.stages
        ),
        guardrails=(
            f"error rate above {errors:.3%} in any minute: all traffic back to the baseline",
            f"latency p99 above {objective.latency_p99_ms:g} ms for three minutes: all traffic back to the baseline"
            if objective.latency_p99_ms
            else "latency p99 above twice the baseline's for three minutes: all traffic back to the baseline",
        ),
        rollback=trial.rollback,
        endpoints=endpoints,
    )
    return question.dossier.admit(record)


def _candidate(question: Question) -> Target:
    """The candidate to test: the declared one, else the one the decision is about."""
    return question.target(question.params.trial.candidate or leading(question))


def _waiting(question: Question, waiting: list[str]) -> list[Finding]:
    if not waiting:
        return []
    keys = " and ".join(f"trial.{name}_url" for name in waiting)
    return [
        Finding(
            severity=Severity.WAITING,
            code="endpoints_unknown",
            because=f"{keys} not declared, so no request can be sent",
            next=f"add {keys} to {question.command_name}, then neuronfit run {question.command_name} --steps 8",
        )
    ]
