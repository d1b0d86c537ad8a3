"""Step 7: what there is to do for this workload, and what it takes to keep it running afterwards.

The list starts from a template (small, medium, large) or from the team's own plan. Of a template only what the move really changes is
left: nothing is compiled where the candidate is no Neuron device, and nobody learns a new software path where it stays. Each blocker and
each condition (warning) that steps 2 and 3 found about a candidate becomes a task of its own, with the finding as its reason. The
person-days are assumptions of ours, in ``FINDING_TASKS``; ``effort.finding_tasks`` replaces any of them by code.

Upkeep follows the releases of the Neuron SDK that the catalogue dates. A software path that ends, or only gets critical fixes, may have
to be left within the horizon: that second migration has a probability and a share of the first one's effort, both printed.
"""

from __future__ import annotations

from datetime import date
from typing import Optional

from neuronfit.catalog import instances, paths
from neuronfit.params import Effort, Target
from neuronfit.question import Question
from neuronfit.record import Compatibility, Compile, Finding, Severity, TaskOfMove

__all__ = [
    "FINDING_TASKS",
    "REPLACED",
    "TRAP_TASKS",
    "neuron",
    "parallel_days",
    "releases_per_year",
    "second_move_probability",
    "task_list",
    "upkeep_days",
]

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

PORTING = ("write or port the model code for this path, and serve it", 5, 15, 40)
GENERATION_LOOP = ("write the loop that generates around the compiled graphs, with its cache", 2, 5, 15)
TRAP_TASKS: dict[str, tuple[str, float, float, float]] = {
    "model not listed": PORTING,
    "encoder decoder not served": PORTING,
    "not a decoder": PORTING,
    "model not in matrix": PORTING,
    "two graphs and a loop": GENERATION_LOOP,
    "generation loop outside": GENERATION_LOOP,
}
"""A ``known_trap`` by the words that its text begins with -> its task; traps that ask for the same task make one. Assumptions of ours."""

SETTINGS_TASK = ("change the settings and roll them out", 0.5, 1, 2)
"""Where neither hardware nor software path changes. An assumption of ours."""

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
    tasks = _planned(plan) if "tasks" in plan.model_fields_set else _of_template(question, target)
    if plan.tasks_of_findings:
        for finding in conditions(question, target):
            entry = _task_of(finding, plan)
            ported = entry is not None and any((task.name, task.code) == (entry.name, entry.code) for task in tasks)
            if entry is not None and not (ported and _trap_task(finding)):
                tasks.append(entry)
    return tuple(tasks)


def _planned(plan: Effort) -> list[TaskOfMove]:
    return [TaskOfMove(name=task.name, low=task.low, likely=task.likely, high=task.high, because="your plan") for task in plan.tasks]


def _of_template(question: Question, target: str) -> list[TaskOfMove]:
    """The template's tasks that this move asks for, each with what asks for it."""
    plan, base, mine = question.params.effort, question.params.baseline, question.target(target)
    kept = [
        TaskOfMove(name=task.name, low=task.low, likely=task.likely, high=task.high, because=f"template {plan.template}: {why}")
        for task in plan.base_tasks
        if (why := _asked_for(task.name, base, mine)) is not None
    ]
    if base.path == mine.path and base.instance_type == mine.instance_type:
        name, low, likely, high = SETTINGS_TASK
        why = f"our assumption: hardware and software path stay, {_settings(question, base, mine)}"
        kept.insert(0, TaskOfMove(name=name, low=low, likely=likely, high=high, because=why))
    return kept


def _asked_for(task: str, base: Target, mine: Target) -> Optional[str]:
    """Why a task of a template is needed for this move, or ``None`` where nothing asks for it. The first word says which it is."""
    first = task.partition(" ")[0].strip(",")
    path = f"the software path changes ({base.path} to {mine.path})" if base.path != mine.path else None
    hardware = f"the hardware changes ({base.instance_type} to {mine.instance_type})" if base.instance_type != mine.instance_type else None
    if first == "convert":
        compiled = neuron(mine) and (path or hardware)
        return f"{mine.instance_type} runs what was compiled for it" if compiled else None
    if first == "build":
        return path or hardware
    if first in ("pipelines", "data", "monitoring", "train"):
        return path
    return "every move asks for it"


def _settings(question: Question, base: Target, mine: Target) -> str:
    asked = question.params.workload.precision
    sides = [target.settings.get("precision", asked) for target in (base, mine)]
    return f"the precision changes ({sides[0]} to {sides[1]})" if sides[0] != sides[1] else "only settings change"


def neuron(target: Target) -> bool:
    """Whether a target is an Inferentia or Trainium device."""
    return instances.find(target.instance_type).generation is not None


def _trap_task(finding: Finding) -> Optional[tuple[str, float, float, float]]:
    return TRAP_TASKS.get(finding.because.partition(":")[0]) if finding.code == "known_trap" else None


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
    name, low, likely, high = _trap_task(finding) or FINDING_TASKS.get(finding.code, other)
    return TaskOfMove(name=name, low=low, likely=likely, high=high, because=finding.because, code=finding.code)


# -- afterwards -------------------------------------------------------------------------------


def releases_per_year() -> tuple[float, str]:
    """Releases of the Neuron SDK a year, patches not counted, and how that is known: (n - 1) over the time from the first to the last dated one."""
    dated = sorted((found.date, found.version) for version in paths.sdks() if (found := paths.sdk(version)).date and version.endswith(".0"))
    (first, oldest), (last, newest) = dated[0], dated[-1]
    days = (date.fromisoformat(last) - date.fromisoformat(first)).days
    rate = (len(dated) - 1) / days * 365.25
    return rate, f"SDK {oldest} of {first} to {newest} of {last}"


def upkeep_days(question: Question, target: str) -> tuple[float, str]:
    """Person-days a month after the move, and what they are made of. Assumed only where the move brings another software path to keep up."""
    plan, base, mine = question.params.effort, question.params.baseline, question.target(target)
    declared = {"upkeep_days_per_month", "upkeep_days_per_release"} & plan.model_fields_set
    if not declared and base.path == mine.path and not neuron(mine):
        return 0.0, f"the software path stays {mine.path}, which is kept up already"
    if plan.upkeep_days_per_release is None and not neuron(mine):
        return plan.upkeep_days_per_month, f"{_days(plan.upkeep_days_per_month)} a month, {'declared' if declared else 'assumed'}"
    found, known = releases_per_year()
    rate = plan.releases_per_year if plan.releases_per_year is not None else found
    source = "as declared" if plan.releases_per_year is not None else known
    if plan.upkeep_days_per_release is not None:
        days = rate * plan.upkeep_days_per_release / 12
        return days, f"{rate:.3g} releases a year ({source}) x {_days(plan.upkeep_days_per_release)} each, over 12 months"
    said = "declared" if "upkeep_days_per_month" in plan.model_fields_set else "assumed"
    if rate == 0:
        return plan.upkeep_days_per_month, f"{_days(plan.upkeep_days_per_month)} a month, {said}; no release is taken"
    each = plan.upkeep_days_per_month * 12 / rate
    return plan.upkeep_days_per_month, (
        f"{_days(plan.upkeep_days_per_month)} a month, {said}; with {rate:.3g} releases a year ({source}) that is {each:.2g} days for each"
    )


def _days(count: float) -> str:
    return f"{count:g} person-day{'' if count == 1 else 's'}"


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
    lengths = tuple(stage.duration_min for stage in stages)
    if None in lengths:
        from neuronfit.trial.plan import lengths_min

        lengths = lengths_min(question)
    minutes, unknown = sum(one for one in lengths if one is not None), [stage.name for stage, one in zip(stages, lengths) if one is None]
    said = f"{len(stages)} stage{'s' * (len(stages) > 1)} of the controlled test, {minutes / 60:g} h together"
    return minutes / 1440, said + (f", without {', '.join(unknown)}, of unknown length" if unknown else "")
