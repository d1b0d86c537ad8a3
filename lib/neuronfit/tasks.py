"""Step 7: what there is to do for this workload, and what it takes to keep it running afterwards.

The list starts from a template (small, medium, large) or from the team's own plan. Each blocker and each condition (warning) that steps
2 and 3 found about a candidate becomes a task of its own, with the finding as its reason. The person-days are assumptions of ours, in
``FINDING_TASKS``; ``effort.finding_tasks`` replaces any of them by code.

Upkeep follows the releases of the Neuron SDK that the catalogue dates. A software path that ends, or only gets critical fixes, may have
to be left within the horizon: that second migration has a probability and a share of the first one's effort, both printed.
"""

from __future__ import annotations

from datetime import date
from typing import Optional

from neuronfit.catalog import paths
from neuronfit.params import Effort
from neuronfit.question import Question
from neuronfit.record import Compatibility, Compile, Finding, Severity, TaskOfMove

__all__ = ["FINDING_TASKS", "REPLACED", "parallel_days", "releases_per_year", "second_move_probability", "task_list", "upkeep_days"]

FINDING_TASKS: dict[str, tuple[str, float, float, float]] = {
    "path_unsupported": ("move to a software path that exists on this instance type", 5, 10, 30),
    "does_not_fit": ("make the model fit: a narrower precision, a split, or a larger instance", 2, 5, 15),
    "fits_nowhere": ("make the model smaller: no instance holds it", 5, 15, 40),
    "needs_splitting": ("serve it split over accelerators, and test that", 2, 4, 10),
    "known_trap": ("work around a known trap", 0.5, 1, 4),
    "transformers_newer_than_path": ("load the model with an older transformers release, and test that", 0.5, 1, 5),
    "compile_failed": ("get the model to compile", 3, 8, 25),
    "shape_failed": ("change or leave out a shape that does not compile", 0.5, 1, 4),
    "analysis_objects": ("rewrite operators that the compiler refuses", 1, 3, 10),
    "cuda_dependency": ("replace what needs CUDA", 1, 3, 10),
    "lengths_beyond_buckets": ("compile for longer inputs, or cut them", 0.5, 1, 2),
    "mixed_heads": ("find a serving stack that knows this model", 1, 3, 10),
    "operator_support_unknown": ("compile one layer and look", 1, 3, 10),
    "quantized": ("convert the weights", 1, 2, 5),
}
"""Code of a finding -> task, and low, likely and high person-days. Assumptions of ours."""

OTHER_BLOCKER = ("rewrite what is not supported", 1, 4, 15)
OTHER_CONDITION = ("keep a condition that is documented", 0.5, 1, 4)

REPLACED = 0.0
"""Person-days of a task that leaves a finding out."""

SECOND_MOVE = (
    ("end of support", 0.9, "its end is announced"),
    ("archived", 0.9, "it is archived"),
    ("maintenance", 0.5, "it only gets critical fixes"),
    ("third party", 0.5, "a third party has pinned it to an older SDK"),
    ("beta", 0.3, "it is a beta, whose interfaces change"),
    ("current", 0.1, "it is current; paths have been replaced before"),
)
"""Part of a path's status -> probability of leaving it within the horizon, and why. Assumptions of ours."""


def task_list(question: Question, target: str) -> tuple[TaskOfMove, ...]:
    """The tasks of moving to one candidate: the base list, then one for each blocker and condition of steps 2 and 3."""
    plan = question.params.effort
    declared = "tasks" in plan.model_fields_set
    because = "your plan" if declared else f"template {plan.template}"
    tasks = [TaskOfMove(name=task.name, low=task.low, likely=task.likely, high=task.high, because=because) for task in plan.base_tasks]
    if plan.tasks_of_findings:
        tasks += [entry for finding in conditions(question, target) if (entry := _task_of(finding, plan)) is not None]
    return tuple(tasks)


def conditions(question: Question, target: str) -> list[Finding]:
    """Blockers and warnings of steps 2 and 3 about a candidate, each once, blockers first."""
    checked, built = question.dossier.latest(Compatibility), question.dossier.latest(Compile)
    found: dict[tuple[str, str], Finding] = {}
    row = next((row for row in checked.targets if row.target == target), None) if checked else None
    for finding in [*(checked.findings if checked else ()), *(row.findings if row else ()), *(built.findings if built else ())]:
        about = finding.target in (None, target)
        if about and finding.severity in (Severity.BLOCKER, Severity.WARNING):
            found.setdefault((finding.code, finding.because), finding)
    return sorted(found.values(), key=lambda finding: finding.severity is not Severity.BLOCKER)


def _task_of(finding: Finding, plan: Effort) -> Optional[TaskOfMove]:
    own = plan.finding_tasks.get(finding.code)
    if own is not None:
        if own.high == REPLACED:
            return None
        return TaskOfMove(name=own.name, low=own.low, likely=own.likely, high=own.high, because=finding.because, code=finding.code)
    other = OTHER_BLOCKER if finding.severity is Severity.BLOCKER else OTHER_CONDITION
    name, low, likely, high = FINDING_TASKS.get(finding.code, other)
    return TaskOfMove(name=name, low=low, likely=likely, high=high, because=finding.because, code=finding.code)


# -- afterwards -------------------------------------------------------------------------------


def releases_per_year() -> tuple[float, str]:
    """Releases of the Neuron SDK a year, patches not counted, and how that is known: (n - 1) over the time from the first to the last dated one."""
    dated = sorted((found.date, found.version) for version in paths.sdks() if (found := paths.sdk(version)).date and version.endswith(".0"))
    (first, oldest), (last, newest) = dated[0], dated[-1]
    days = (date.fromisoformat(last) - date.fromisoformat(first)).days
    rate = (len(dated) - 1) / days * 365.25
    return rate, f"SDK {oldest} of {first} to {newest} of {last}"


def upkeep_days(plan: Effort) -> tuple[float, str]:
    """Person-days a month after the move, and what they are made of."""
    found, known = releases_per_year()
    rate = plan.releases_per_year if plan.releases_per_year is not None else found
    source = "as declared" if plan.releases_per_year is not None else known
    if plan.upkeep_days_per_release is not None:
        days = rate * plan.upkeep_days_per_release / 12
        return days, f"{rate:.3g} releases a year ({source}) x {plan.upkeep_days_per_release:g} person-days each, over 12 months"
    said = "declared" if "upkeep_days_per_month" in plan.model_fields_set else "assumed"
    if rate == 0:
        return plan.upkeep_days_per_month, f"{plan.upkeep_days_per_month:g} person-days a month, {said}; no release is taken"
    each = plan.upkeep_days_per_month * 12 / rate
    return plan.upkeep_days_per_month, (
        f"{plan.upkeep_days_per_month:g} person-days a month, {said}; with {rate:.3g} releases a year ({source}) that is {each:.2g} days for each"
    )


def second_move_probability(question: Question, target: str) -> tuple[float, str]:
    """How likely the software path has to be left within the horizon, and why: declared, else by its status in step 2."""
    plan, checked = question.params.effort, question.dossier.latest(Compatibility)
    if plan.second_migration_probability is not None:
        return plan.second_migration_probability, "as declared"
    if question.target(target).path in ("cpu", "cuda", "endpoint"):
        return 0.0, "the path is not one of the Neuron SDK"
    row = next((row for row in checked.targets if row.target == target), None) if checked else None
    if row is None:
        return 0.0, "step 2 has not said how long the path is supported, so none is reckoned with"
    ends = row.until if row.until and row.until != "not announced" else None
    if ends:
        return 0.9, f"{row.title} is supported until {ends} (assumed probability)"
    for part, probability, why in SECOND_MOVE:
        if part in row.status:
            return probability, f"{row.title}: {why} (assumed probability)"
    return 0.5, f"{row.title}: {row.status} (assumed probability)"


def parallel_days(question: Question) -> tuple[float, str]:
    """Days for which the candidate runs while the baseline keeps running, and where they come from."""
    plan = question.params.effort
    if plan.parallel_days is not None:
        return plan.parallel_days, f"{plan.parallel_days:g} days, as declared"
    if "tasks" in plan.model_fields_set and not plan.tasks:
        return 0.0, "no work is planned, so nothing is tried either"
    stages = question.params.trial.stages
    minutes = sum(stage.duration_min for stage in stages)
    return minutes / 1440, f"{len(stages)} stages of the controlled test, {minutes / 60:g} h together"
