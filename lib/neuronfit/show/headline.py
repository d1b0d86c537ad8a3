"""The tables of the first screen: baseline against candidates, the gates, the findings."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Optional, Union

from neuronfit.dossier import Dossier
from neuronfit.record import Comparison, Cost, Decision, Finding, Measurement, Pair, Profile, Severity, Utilization
from neuronfit.show.table import Cell, Column, Note, Piece, Row, Table, cell, rows_of
from neuronfit.show.wording import basis, missing, not_run, per_million, step_command, words
from neuronfit.units import spoken

__all__ = ["VERDICTS", "findings_table", "gates_table", "headline_table"]

VERDICTS = {
    "faster": ("faster", "good"),
    "slower": ("slower", "bad"),
    "same_within_margin": ("same within margin", ""),
    "inconclusive": ("inconclusive", "wait"),
    "not_comparable": ("not comparable", "wait"),
}
"""Verdict of a pair -> how it is said, and its tone."""

STATUS = {"pass": ("passed", "good"), "fail": ("failed", "bad"), "open": ("open", "wait")}
"""Status of a gate -> how it is said, and its tone."""


def headline_table(dossier: Dossier) -> Union[Table, Note]:
    """Baseline against candidates, a grade on every number; this host's CPU apart, if measured.

    Shows the measurement that step 4 chose for each target; never picks one itself.
    """
    profile = dossier.latest(Profile)
    if profile is None:
        return not_run(dossier.folder.name, 1)
    name = profile.workload.name
    comparison, cost = dossier.latest(Comparison), dossier.latest(Cost)
    utilization = dossier.latest(Utilization)
    chosen = {entry.id: entry for entry in dossier.measurements()}
    targets = [profile.question["baseline"], *profile.question["candidates"]]
    reasons = {step: f"not run yet: {step_command(name, step)}" for step in (4, 5, 6)}
    reasons |= {4: "step 4 has no figure for this target"} if comparison else {}
    reasons |= {5: "step 5 has no load for this target"} if utilization else {}
    reasons |= {6: "step 6 has no cost for this target"} if cost else {}
    rows = []
    for index, target in enumerate(targets):
        label = target["name"]
        figure = chosen.get(comparison.headline.get(label, "")) if comparison else None
        rows.append(
            (
                _target_cell(label, target.get("instance_type", ""), figure, today=index == 0),
                *_money_cells(_of_target(cost, label), reasons[6], cost.id if cost else ""),
                *_speed_cells(figure, reasons[4]),
                _busy_cell(_of_target(utilization, label), reasons[5], utilization.id if utilization else ""),
                cell("baseline") if index == 0 else _verdict_cell(comparison, label),
            )
        )
    reference = _cpu_row(dossier, comparison)
    return Table(
        caption="Baseline and candidates",
        columns=(
            Column("target", "name in the params file, instance type, and what the figure was taken with", words=True),
            Column("full load", "price per hour over useful results per hour, the hardware busy all the time", per_million(cost)),
            Column("your traffic", "the same at the expected utilization: what a million useful results cost you", per_million(cost)),
            Column("throughput", "useful results of one instance per second", "per second"),
            Column("latency p50 / p99", "median and 99th percentile of one call at the batch size shown, or of one token where it says so", "ms"),
            Column("busy mean / peak", "offered load over capacity, at the mean and at the peak rate", "%"),
            Column("against baseline", "throughput candidate / baseline with its verdict, where the two may be compared"),
        ),
        rows=rows_of(rows, today=0),
        reference=reference,
        reference_title="For reference only, takes no part in the decision: the CPU of the host that ran step 4" if reference else "",
        footnote=basis(cost) if cost else "",
        key="headline",
    )


def gates_table(decision: Optional[Decision]) -> Union[Table, Note]:
    """The nine gates in order, and the record that says so."""
    if decision is None:
        return Note("No decision yet.")
    return Table(
        caption="How far the evidence goes",
        columns=(
            Column("gate", "a question on the way to `migrate`, in order", words=True),
            Column("status", "passed, failed, or open: not answered by evidence yet", words=True),
            Column("because", "the value and the limit", words=True, wide=True),
            Column("grade", "the weakest source grade this gate leans on", words=True),
            Column("record", "id of the record that says so", words=True),
        ),
        rows=rows_of(
            (
                cell(words(gate.name), strong=True),
                cell(STATUS[gate.status][0], tone=STATUS[gate.status][1]),
                cell(gate.because),
                cell(str(gate.grade) if gate.grade else None),
                cell(gate.record, record=gate.record or ""),
            )
            for gate in decision.gates
        ),
        key="gates",
    )


def findings_table(findings: Iterable[Finding]) -> Union[Table, Note]:
    """What a reader must know, the worst first."""
    ordered = sorted(findings, key=lambda finding: list(Severity).index(finding.severity))
    if not ordered:
        return Note("No findings.")
    tones = {Severity.BLOCKER: "bad", Severity.WARNING: "wait", Severity.WAITING: "wait", Severity.NOTE: ""}
    return Table(
        caption="Findings",
        columns=(
            Column("severity", "blocker, warning, waiting (evidence is missing) or note", words=True),
            Column("code", "stable name of the finding", words=True),
            Column("target", "the target it is about, if one", words=True),
            Column("because", "the value and the limit", words=True, wide=True),
            Column("next", "what to do, as a command where there is one", words=True, wide=True),
        ),
        rows=rows_of(
            (
                cell(str(finding.severity), strong=True, tone=tones[finding.severity]),
                cell(finding.code),
                cell(finding.target or "all"),
                cell(finding.because),
                cell(finding.next or "nothing"),
            )
            for finding in ordered
        ),
        key="findings",
    )


# -- cells of the headline ---------------------------------------------------------------------


def _of_target(conclusion: Optional[Union[Cost, Utilization]], name: str) -> Any:
    return next((entry for entry in conclusion.targets if entry.target == name), None) if conclusion else None


def _target_cell(label: str, instance_type: str, figure: Optional[Measurement], today: bool) -> Cell:
    how = [instance_type]
    if figure is not None:
        settings = figure.settings
        how += [part for part in (settings.route or settings.software, settings.precision and spoken(settings.precision)) if part]
        how += [f"batch {settings.batch_size}"] if settings.batch_size else []
        how += ["INVALID: not to be relied on, see step 4"] if figure.valid is False else []
    elif today:
        how.append("today")
    return cell(label, note=" · ".join(part for part in how if part), strong=True)


def _money_cells(entry: Any, why: str, record: str) -> tuple[Cell, Cell]:
    if entry is None:
        return missing(why), missing(why)
    return cell((entry.full_load, "usd_per_million"), record=record), cell((entry.expected, "usd_per_million"), record=record)


def _speed_cells(figure: Optional[Measurement], why: str) -> tuple[Cell, Cell]:
    if figure is None:
        return missing(why), missing(why)
    p50, p99 = figure.quantity("latency_p50_s"), figure.quantity("latency_p99_s")
    mean = Piece.of(figure.quantity("latency_mean_s"), "latency_mean_s")
    notes = [f"mean {mean}"] if not p50.known and mean.grade else []
    notes += ["per token"] if figure.latency_of == "token" else []
    latency = cell((p50, "latency_p50_s"), (p99, "latency_p99_s"), note=", ".join(notes))
    return cell((figure.quantity("throughput_per_s"), "throughput_per_s")), latency


def _busy_cell(entry: Any, why: str, record: str) -> Cell:
    if entry is None:
        return missing(why)
    return cell((entry.busy_mean, "utilization"), (entry.busy_peak, "utilization"), record=record)


def _verdict_cell(comparison: Optional[Comparison], candidate: str) -> Cell:
    pair = _headline_pair(comparison, candidate)
    if pair is None:
        return missing("no pair of figures to compare yet")
    word, tone = VERDICTS[pair.verdict]
    if pair.verdict == "not_comparable" or not pair.throughput.known:
        matters = [words(entry.setting) for entry in pair.differences if entry.matters]
        return cell(word, note=", ".join(matters), tone=tone)
    ratio = Piece.of(pair.throughput, "ratio")
    return Cell((replace(ratio, text=f"{ratio.text}×", record=ratio.record or comparison.id),), note=word, tone=tone)


def _headline_pair(comparison: Optional[Comparison], candidate: str) -> Optional[Pair]:
    """The pair of the two figures that the table shows, else the best pair, else any."""
    pairs = [pair for pair in comparison.pairs if pair.candidate == candidate] if comparison else []
    shown = set(comparison.headline.values()) if comparison else set()
    exact = [pair for pair in pairs if {pair.baseline_record, pair.candidate_record} <= shown]
    best = [pair for pair in pairs if pair.mode == "best"]
    return next(iter(exact or best or pairs), None)


def _cpu_row(dossier: Dossier, comparison: Optional[Comparison]) -> tuple[Row, ...]:
    """This host's CPU: shown where it was measured, never ranked."""
    measured = dossier.measurements("cpu")
    if not measured:
        return ()
    chosen = comparison.headline.get("cpu") if comparison else None
    figure = next((entry for entry in measured if entry.id == chosen), measured[-1])
    nothing = missing("this host's CPU takes no part in cost and load")
    cells = (_target_cell("cpu", "", figure, today=False), nothing, nothing, *_speed_cells(figure, ""), nothing, nothing)
    return rows_of([cells])
