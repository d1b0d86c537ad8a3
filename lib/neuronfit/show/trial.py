"""Step 8: the stages of the plan, the test as it stands, its path look by look, and what to do next."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Optional, Union

from neuronfit.dossier import Dossier
from neuronfit.record import Trial, TrialPlan
from neuronfit.show.figures import LIMIT, AnyFigure, _axes, _color, _figure
from neuronfit.show.table import Column, Note, Table, cell, rows_of
from neuronfit.show.wording import missing

if TYPE_CHECKING:
    from neuronfit.trial.log import Logged

__all__ = ["monday_table", "progress_table", "stages_table", "trial_figure"]

STEPS = {
    "passed": (
        ("raise the candidate's share to everything, stage by stage as in the plan", "neuronfit trial {params} --handover handover/"),
        ("keep the baseline running and the way back open for a week", ""),
        ("let the decision take the verdict in", "neuronfit run {params}"),
    ),
    "failed": (
        ("leave all traffic at the baseline, where the test put it", ""),
        ("find the cause: compare one slow, wrong or failed request of the log on both sides", ""),
        ("look at the busyness of the devices during the test", "neuronfit monitor FILE --for {candidate} --params {params}"),
        ("test again after the cause is gone; the failed test stays in the dossier", "neuronfit trial {params} --fresh"),
    ),
    "aborted": (
        ("check by responses that the baseline answers every request", ""),
        ("read the reason of the last failures in the log, and the service's own log", "neuronfit diagnose LOG"),
        ("test again after the cause is gone; the aborted test stays in the dossier", "neuronfit trial {params} --fresh"),
    ),
    "inconclusive": (
        ("go on where the test was interrupted", "neuronfit trial {params} --resume"),
        ("or, where it ran to its end: lengthen the stages to the minutes that the plan says are needed", "neuronfit trial {params} --plan-only"),
        ("adopt what a criterion still lacks, such as a monitor's file", "neuronfit monitor FILE --for {candidate} --params {params}"),
    ),
    "planned": (
        ("declare both endpoints and read the criteria with whoever is on call", "neuronfit trial {params} --plan-only"),
        ("run the test; Ctrl-C stops it without losing an answer", "neuronfit trial {params}"),
        ("or hand the plan over to where production runs", "neuronfit trial {params} --handover handover/"),
        ("or judge a test that ran elsewhere by its log", "neuronfit trial {params} --log FILE"),
    ),
    "begun": (("let it run, or go on with it where it was interrupted", "neuronfit trial {params} --resume"),),
}
"""Where the test stands -> what to do, with the command."""


def stages_table(plan: Optional[TrialPlan]) -> Union[Table, Note]:
    """The stages with the requests that come, and the minutes after which the regression would be found."""
    if plan is None:
        return Note("No plan has been registered yet: neuronfit trial PARAMS --plan-only.")
    unknown = str(plan.traffic.get("spread_from") or "no rate is declared")
    return Table(
        caption="Stages, and how long they must be",
        columns=(
            Column("stage", "in this order", words=True),
            Column("traffic", "replay and shadow: both sides get every request; split: the candidate answers its share", words=True),
            Column("lasts, min", "as planned; in brackets what it follows from, where the plan gives requests"),
            Column("requests", "that reach the candidate at the declared rate"),
            Column("needed a side", "requests of each side at which the regression is found with the wanted power"),
            Column("needed, min", "time in which they come; longer than planned: the stage cannot find it by itself"),
        ),
        rows=rows_of(
            (
                cell(stage["name"], strong=True),
                cell(_mode(stage), note="" if _mode(stage) != "split" else f"{stage['share']:.0%} to the candidate"),
                _length(stage),
                _count(stage.get("expected_requests"), "no rate is declared"),
                _count(stage.get("requests_needed"), _why_none(stage, unknown)),
                _minutes(stage, _why_none(stage, unknown)),
            )
            for stage in plan.stages
        ),
        footnote=f"Spread of latency: {unknown}.",
        key="stages",
        record=plan.id,
    )


def _why_none(stage: dict[str, Any], unknown: str) -> str:
    return "there is no baseline to compare with" if _mode(stage) == "split" and stage["share"] in (0, 1) else unknown


def _mode(stage: dict[str, Any]) -> str:
    return stage.get("mode") or ("split" if stage.get("share") else "shadow")


def _count(value: Optional[float], why: str) -> Any:
    return missing(why) if value is None else cell(f"{value:,.0f}")


def _minutes(stage: dict[str, Any], why: str) -> Any:
    needed = stage.get("minutes_needed")
    if needed is None:
        return missing(why)
    enough = stage["duration_min"] is not None and needed <= stage["duration_min"] * (1 + 1e-9)
    return cell(f"{needed:,.3g}", tone="good" if enough else "wait")


def _length(stage: dict[str, Any]) -> Any:
    """Minutes; where the params file gives requests, they are said beside it."""
    minutes, wanted = stage["duration_min"], stage.get("length_from")
    if minutes is None:
        return missing(stage["open"])
    return cell(f"{minutes:.4g}" if wanted else f"{minutes:g}", note={None: "", "planned": "as needed"}.get(wanted, f"{wanted} requests"))


# -- the log ----------------------------------------------------------------------------------


def _newest(dossier: Dossier) -> tuple[Optional[TrialPlan], "Optional[Logged]"]:
    """The log that was written to last, and its plan."""
    from neuronfit.errors import BadRecord
    from neuronfit.trial.log import read

    folder: Path = dossier.folder / "trial"
    for path in sorted(folder.glob("*.jsonl"), key=lambda one: one.stat().st_mtime, reverse=True) if folder.is_dir() else ():
        try:
            logged = read(path)
        except BadRecord:
            continue
        plan = next((entry for entry in dossier if isinstance(entry, TrialPlan) and entry.id == logged.plan), None)
        if plan is not None:
            return plan, logged
    return None, None


def progress_table(dossier: Dossier) -> Union[Table, Note]:
    """The test as its log stands at this moment: requests, failures and agreement by stage. Reading sends nothing."""
    plan, logged = _newest(dossier)
    if plan is None or logged is None:
        return Note("No test has been begun: there is a plan, and no log yet.")
    ended = {event["stage"] for event in logged.event("stage_end")}
    begun = {event["stage"] for event in logged.event("stage")}
    rows = []
    for number, stage in enumerate(plan.stages):
        entries = logged.of(number)
        sides, told, agreed = {"baseline": [0, 0], "candidate": [0, 0]}, 0, 0
        for part in entries.pieces():
            for place, side in enumerate(sides.values()):
                errors = part["error"][part["arm"] == place]
                side[0], side[1] = side[0] + len(errors), side[1] + int((errors >= 0).sum())
            told, agreed = told + int((part["agree"] >= 0).sum()), agreed + int((part["agree"] == 1).sum())
        rows.append(
            (
                cell(stage["name"], strong=True),
                cell("done" if number in ended else "under way" if number in begun else "to come", tone="good" if number in ended else ""),
                *(cell(f"{asked:,}", note=f"{failed:,} failed") for asked, failed in sides.values()),
                cell(f"{agreed:,} of {told:,}") if told else missing("no pair yet"),
                cell(f"{sum(event['stage'] == number for event in logged.event('look')):,}"),
            )
        )
    end = logged.ended
    state = f"ended: {end['why']}" if end else "no end is written: it is under way, or was interrupted"
    return Table(
        caption=f"The test of {plan.candidate} against {plan.baseline}, as its log stands",
        columns=(
            Column("stage", "in this order", words=True),
            Column("state", "by the events of the log", words=True),
            Column("baseline", "requests with an outcome"),
            Column("candidate", "requests with an outcome"),
            Column("answers agree", "of pairs of which both were answered"),
            Column("looks", "times the criteria were evaluated"),
        ),
        rows=rows_of(rows),
        footnote=f"Begun {logged.started_utc}; {state}." + (f" Torn lines: {logged.torn}." if logged.torn else ""),
        key="progress",
        record=plan.id,
    )


def trial_figure(dossier: Dossier) -> AnyFigure:
    """Ratio candidate / baseline at the looks of a test, each with the interval that holds over all looks."""
    plan, logged = _newest(dossier)
    if plan is None or logged is None:
        return Note("The path of the test appears with its first look.")
    from neuronfit.trial.evaluate import history

    path = history(plan, logged)
    if not path:
        return Note("No stage has enough requests for a ratio of quantiles yet.")
    before, counts = 0, {}
    for number, stage in enumerate(plan.stages):
        counts[stage["name"]] = before
        before += len(logged.of(number))
    names = list(dict.fromkeys(name for _, name, _, _ in path))
    limits = {entry.name: entry.allowed for entry in plan.criteria_fixed}
    last = {(stage, name): look for stage, name, _, look in path}
    said = "; ".join(f"{stage}: {look.because}, {look.outcome}" for (stage, _), look in last.items())

    def draw(figure: Any) -> None:
        axes = _axes(figure, "requests with an outcome, all stages", "candidate / baseline")
        ends = [limits[name] for name in names] + [1.0]
        for name in names:
            points = [(counts[stage] + upto, look) for stage, criterion, upto, look in path if criterion == name]
            xs, ys = [x for x, _ in points], [look.value for _, look in points]
            reach = [
                [max(y - max(look.low, y / 2), 0) for y, (_, look) in zip(ys, points)],
                [max(min(look.high, 2 * y) - y, 0) for y, (_, look) in zip(ys, points)],
            ]
            axes.errorbar(
                xs, ys, yerr=reach, fmt="o", markersize=5, capsize=3, linewidth=1.2, color=_color(names, name), label=name.replace("_", " ")
            )
            ends += [y - low for y, low in zip(ys, reach[0])] + [y + high for y, high in zip(ys, reach[1])]
        for limit in {limits[name] for name in names}:
            axes.axhline(limit, color=LIMIT, linestyle=(0, (5, 4)), linewidth=1.4)
        axes.set_xlim(0, before * 1.05)
        axes.set_ylim(min(ends) * 0.97, max(ends) * 1.03)
        if len(names) > 1:
            axes.legend(frameon=False, fontsize=10)

    return _figure(
        "trial-path",
        f"Path of the test. {said}.",
        draw,
        "Each point is a look; its bar is the interval that holds over all looks (an end beyond a factor of two is cut). Failed: the whole bar lies above the "
        "broken line, which is what the plan allows. Passed: below it.",
    )


# -- what to do -------------------------------------------------------------------------------


def monday_table(dossier: Dossier, params: str) -> Union[Table, Note]:
    """What to do next, step by step, for where the test stands. ``params`` is what stands in a command."""
    plan, trial = dossier.latest(TrialPlan), dossier.latest(Trial)
    if plan is None:
        return Note("No plan has been registered yet: neuronfit trial PARAMS --plan-only.")
    of_plan = trial is not None and trial.valid and trial.plan == plan.id
    begun = (dossier.folder / "trial" / f"{plan.id}.jsonl").exists()
    state = trial.status if of_plan and trial else "begun" if begun else "planned"
    filled = [(text, command.format(params=params, candidate=plan.candidate)) for text, command in STEPS[state]]
    return Table(
        caption=f"On Monday morning ({state})",
        columns=(
            Column("step", "in this order", words=True, wide=True),
            Column("command", "what to type, where there is one", words=True, wide=True),
        ),
        rows=rows_of((cell(text), cell(command) if command else cell("by hand")) for text, command in filled),
        footnote=trial.bottom_line if of_plan and trial else plan.bottom_line,
        key="monday",
        record=trial.id if of_plan and trial else plan.id,
    )
