"""Step 4's conclusion: which figure stands for each target, and may two of them be compared?

Settings are of two kinds. *Fixed* ones say what is being compared (sequence length, result unit,
what the clock encloses, the number format of the products): if they differ the pair is not
comparable. *Tuned* ones (batch size, software, flags) each side may choose: they are listed.
A ratio is always candidate / baseline.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Optional

from neuronfit import plausibility, stats
from neuronfit.adopt.published import adopt_published
from neuronfit.adopt.record_file import adopt_evidence
from neuronfit.errors import WaitingForEvidence
from neuronfit.measure import measure_together, measured_here, where_to_run
from neuronfit.params import Objective
from neuronfit.parity import shown as parity_shown
from neuronfit.parity import where_possible as compare_outputs_here
from neuronfit.provenance import Estimated, Grade, Quantity, absent, weakest
from neuronfit.question import Question
from neuronfit.record import Comparison, Difference, Finding, Measurement, Pair, Parity, Severity
from neuronfit.units import metric

__all__ = [
    "benchmark",
    "best",
    "compare",
    "differences",
    "doubts",
    "keeps_objective",
    "objective_checks",
    "pair",
    "parity_of",
    "tail_latency",
    "usable",
    "verdict",
]

MOST_RUNS_ASKED = 100
"""Most that ``policy.runs`` takes."""

QUANTISED = ("int8", "fp8", "fp4")
"""Number formats that change the answers; compared only when the workload asks for one of them."""


def benchmark(question: Question, *, progress: bool = True) -> Comparison:
    """Step 4 in one call: adopt the declared evidence, measure what this host can, and compare."""
    adopt_evidence(question)
    waiting = compare_outputs_here(question, progress=progress)  # parity before speed
    return compare(question, [*waiting, *_measure_here(question, progress)])


def _measure_here(question: Question, progress: bool) -> list[Finding]:
    """Measure what this host can, in one session where its targets can take turns; findings say what waits."""
    waiting: list[Finding] = []
    names = measured_here(question)
    together = [name for name in names if question.target(name).path == "cpu"]
    for group in [together, *([name] for name in names if name not in together)]:
        try:
            if group:
                measure_together(question, group, progress=progress)
        except WaitingForEvidence as reason:
            waiting.append(Finding(severity=Severity.WAITING, code="measurement_waits", because=reason.what, next=reason.next, target=group[-1]))
    return waiting


def compare(question: Question, waiting: Sequence[Finding] = ()) -> Comparison:
    """Adopt what is published, pick each target's figure, pair them, and admit the conclusion.

    ``waiting`` are findings of measurements that could not be taken here.
    """
    _, missing = adopt_published(question)
    policy, objective = question.params.policy, question.params.objective
    figures = {target.name: usable(question, target.name) for target in question.targets}
    baseline = question.params.baseline.name
    tops = {name: best(rows, objective) for name, rows in figures.items()}
    matches = {target.name: _matched(figures[baseline], tops[target.name], objective) for target in question.params.candidates if tops[target.name]}
    pairs: list[Pair] = []
    for target in question.params.candidates:
        candidate = tops[target.name]
        for mode, partner in (("matched", matches.get(target.name)), ("best", tops[baseline])):
            if candidate and partner:
                shown_alike = parity_of(question, partner, candidate)
                pairs.append(pair(partner, candidate, mode, policy.margin, policy.confidence, shown_alike))
    headline = {name: row.id for name, row in tops.items() if row}
    first_match = next((match for match in matches.values() if match), None)
    if first_match:
        headline[baseline] = first_match.id
    findings = [
        *waiting,
        *missing,
        *_about(question, tops.values(), objective),
        *_about_pairs(pairs),
        *_about_runs(question, pairs),
        *_only_invalid(question, figures),
    ]
    shown = [row for row in [*tops.values(), *matches.values()] if row]
    record = Comparison(
        workload=question.ref,
        source=Estimated(
            formula="ratio of candidate to baseline, settings compared one by one",
            inputs={row.id: str(row.grade) for row in shown},
        ),
        findings=tuple(findings),
        bottom_line=_bottom_line(question, figures, pairs),
        headline=headline,
        pairs=tuple(pairs),
        margin=policy.margin,
        confidence=policy.confidence,
    )
    return question.dossier.admit(record)


# -- which figure stands for a target ---------------------------------------------------------


def usable(question: Question, target: str) -> list[Measurement]:
    """Measurements of a target that may stand for it, those of the strongest grade only.

    Figures that the catalogue doubts give way to others. Left out: what a blocker finding or an INVALID verdict speaks against, other sequence lengths
    than that of the first shape, and quantised formats unless the workload asks for one.
    """
    workload, work = question.params.workload, question.work()
    length = workload.shapes[0].sequence_length
    rows = [
        row
        for row in question.dossier.measurements(target)
        if row.valid is not False
        and row.settings.sequence_length == length
        and (row.settings.precision not in QUANTISED or row.settings.precision == workload.precision)
        and not any(finding.severity is Severity.BLOCKER for finding in (*row.findings, *plausibility.check(row, work)))
        and (row.quantity("throughput_per_s").value or 0) > 0
    ]
    strongest = min((row.grade.rank for row in rows), default=None)
    rows = [row for row in rows if row.grade.rank == strongest]
    return _newest_of_each([row for row in rows if not doubts(row)] or rows)


def doubts(row: Measurement) -> list[Finding]:
    """Warnings that the catalogue attaches to a published row; such a row stands in only for want of another."""
    return [finding for finding in row.findings if finding.code == "published_row_flagged"]


def _newest_of_each(rows: list[Measurement]) -> list[Measurement]:
    """Of figures that differ only in the age of the software, the newest; of repeats, the last."""
    kept: dict[tuple[object, ...], Measurement] = {}
    for row in sorted(rows, key=age):
        kept[(row.settings.batch_size, row.settings.sequence_length, row.settings.precision, row.settings.tp_degree)] = row
    return list(kept.values())


def age(row: Measurement) -> tuple[object, ...]:
    """Sorts figures of the same settings from the oldest to the newest: by SDK, by date of the source, by time of the record. Doubtful ones come first."""
    return (not doubts(row), _version(row.settings.sdk), getattr(row.source, "date", ""), row.created_utc)


def _version(text: Optional[str]) -> tuple[int, ...]:
    return tuple(int(part) for part in (text or "").split(".") if part.isdigit())


def best(rows: Sequence[Measurement], objective: Objective) -> Optional[Measurement]:
    """The figure with the highest throughput that keeps the latency objective; else of those that may
    keep it (too little is known); else the quickest one."""
    for answer in (True, None):
        rows_so = [row for row in rows if keeps_objective(row, objective) is answer]
        if rows_so:
            return max(rows_so, key=lambda row: row.quantity("throughput_per_s").value)
    known = [row for row in rows if tail_latency(row).known]
    return min(known, key=lambda row: tail_latency(row).value, default=None)


def _matched(baseline_rows: Sequence[Measurement], candidate: Optional[Measurement], objective: Objective) -> Optional[Measurement]:
    """The baseline's figure at the candidate's batch size and sequence length, if there is one."""
    if candidate is None:
        return None
    rows = [
        row
        for row in baseline_rows
        if row.settings.batch_size == candidate.settings.batch_size and row.settings.sequence_length == candidate.settings.sequence_length
    ]
    return best(rows, objective)


def tail_latency(row: Measurement) -> Quantity:
    """The highest latency statistic that is known: p99, else p95, p90, mean or median."""
    for name in ("latency_p99_s", "latency_p95_s", "latency_p90_s", "latency_mean_s", "latency_p50_s"):
        quantity = row.quantity(name)
        if quantity.known:
            return quantity
    return absent("s", "no latency is known")


def keeps_objective(row: Measurement, objective: Objective) -> Optional[bool]:
    """Does the figure keep the declared bounds? ``None`` where nothing is declared or too little is known."""
    answers = [check.kept for check in objective_checks(row, objective)]
    return False if False in answers else None if None in answers or not answers else True


@dataclass(frozen=True)
class ObjectiveCheck:
    """One declared bound against what a figure says. ``kept`` is ``None`` while too little is known."""

    kept: Optional[bool]
    because: str
    """``latency p99 6.17 ms of 20 ms``"""


def objective_checks(row: Measurement, objective: Objective) -> tuple[ObjectiveCheck, ...]:
    """Each declared latency bound that speaks about this figure.

    A latency of one batch is what each request in it waits for; queueing is step 5's matter. A
    latency of one token is compared with the time per output token only. Where the p99 is not known
    a lower percentile or the mean can break its bound, and cannot keep it.
    """
    if row.latency_of == "token":
        bounds = [(objective.tpot_p99_ms, "latency_p99_s", " per token")]
    else:
        bounds = [(objective.latency_p99_ms, "latency_p99_s", ""), (objective.latency_p50_ms, "latency_p50_s", "")]
    return tuple(_objective_check(row, name, bound, of) for bound, name, of in bounds if bound is not None)


def _objective_check(row: Measurement, name: str, bound_ms: float, of: str) -> ObjectiveCheck:
    lower = ("latency_p95_s", "latency_p90_s", "latency_p50_s", "latency_mean_s") if name == "latency_p99_s" else ()
    known = next((seen for seen in (name, *lower) if row.quantity(seen).known), None)
    if known is None:
        return ObjectiveCheck(None, f"no {metric(name).label} is known for the bound of {bound_ms:,g} ms")
    value = row.quantity(known).value
    because = f"{metric(known).label} {metric(known).text(value)}{of} of {bound_ms:,g} ms"
    if value * 1e3 > bound_ms:
        return ObjectiveCheck(False, because)
    return ObjectiveCheck(True, because) if known == name else ObjectiveCheck(None, f"{because}, but the {metric(name).label} is not known")


# -- may they be compared ---------------------------------------------------------------------


def parity_of(question: Question, baseline: Measurement, candidate: Measurement) -> Optional[Parity]:
    """The parity record that speaks for these two figures: it passed, and each side computed in the figure's precision.

    Where a side of it does not state its precision, nobody knows that it is the same one.
    """
    found = parity_shown(question, candidate.target)
    if found is None:
        return None
    sides = ((found.baseline, baseline), (found.candidate, candidate))
    alike = all(side.target == row.target and side.precision is not None and side.precision == row.settings.precision for side, row in sides)
    return found if alike else None


def differences(baseline: Measurement, candidate: Measurement, parity: Optional[Parity] = None) -> tuple[Difference, ...]:
    """Every setting in which the two differ, those that forbid a comparison first.

    A fixed setting that is unknown on one side counts as different: nobody knows that it is the same. So does a
    precision that neither side states, as in two adopted files.
    Precision is tuned where quality is fixed: a known difference of precision does not forbid the
    comparison when a ``parity`` record of this very pair says ``pass``, that is, the answers agree within the
    tolerance that was declared.
    """
    shown = parity is not None and parity.verdict == "pass" and None not in (baseline.settings.precision, candidate.settings.precision)
    left, right = baseline.settings, candidate.settings
    rows = [
        ("result unit", baseline.result_unit, candidate.result_unit, True),
        ("sequence length", left.sequence_length, right.sequence_length, True),
        ("output length", left.output_length, right.output_length, True),
        ("precision of products", left.precision, right.precision, not shown),
        ("timed region", left.timed_region, right.timed_region, True),
        ("weights", left.weights, right.weights, baseline.grade is Grade.MEASURED and candidate.grade is Grade.MEASURED),
        ("latency of", baseline.latency_of, candidate.latency_of, True),
        ("scenario", baseline.scenario, candidate.scenario, False),
        ("batch size", left.batch_size, right.batch_size, False),
        ("autocast", left.autocast, right.autocast, False),
        ("software", left.software, right.software, False),
        ("route", left.route, right.route, False),
        ("compiler flags", left.compiler_flags, right.compiler_flags, False),
        ("tensor-parallel degree", left.tp_degree, right.tp_degree, False),
        ("workers", left.workers, right.workers, False),
        ("CPU threads", left.threads, right.threads, False),
        ("model as named", left.model_variant, right.model_variant, False),
        ("input", left.input, right.input, False),
        ("grade", str(baseline.grade), str(candidate.grade), False),
    ]
    found = [
        Difference(setting=name, baseline=_said(one), candidate=_said(other), matters=matters)
        for name, one, other, matters in rows
        if one != other or (one is None and name == "precision of products")
    ]
    return tuple(sorted(found, key=lambda entry: not entry.matters))


def _said(value: object) -> str:
    return "not stated" if value is None else str(value)


def pair(baseline: Measurement, candidate: Measurement, mode: str, margin: float, confidence: float, parity: Optional[Parity] = None) -> Pair:
    """Compare one baseline figure with one candidate figure; ``parity`` is the record about their answers, if there is one."""
    found = differences(baseline, candidate, parity)
    throughput = _ratio(baseline, candidate, "throughput_per_s", confidence)
    comparable = not any(entry.matters for entry in found)
    answer = verdict(throughput, margin) if comparable else "not_comparable"
    return Pair(
        candidate=candidate.target,
        mode=mode,
        baseline_record=baseline.id,
        candidate_record=candidate.id,
        throughput=throughput,
        latency_p50=_ratio(baseline, candidate, "latency_p50_s", confidence),
        latency_p99=_ratio(baseline, candidate, "latency_p99_s", confidence),
        verdict=answer,
        differences=found,
        sentence=_pair_sentence(baseline, candidate, throughput, answer, found),
    )


def verdict(ratio: Quantity, margin: float) -> str:
    """Read a throughput ratio aloud: both ends beyond the margin, or no claim.

    ``faster`` / ``slower``: the whole interval lies beyond ``1 + margin`` / below ``1 / (1 + margin)``.
    ``same_within_margin``: the whole interval lies between them. Otherwise ``inconclusive``, as is
    every ratio without an interval.
    """
    if not ratio.known or ratio.low is None:
        return "inconclusive"
    upper, lower = 1 + margin, 1 / (1 + margin)
    if ratio.low > upper:
        return "faster"
    if ratio.high < lower:
        return "slower"
    if lower <= ratio.low and ratio.high <= upper:
        return "same_within_margin"
    return "inconclusive"


def _ratio(baseline: Measurement, candidate: Measurement, name: str, confidence: float) -> Quantity:
    left, right = baseline.quantity(name), candidate.quantity(name)
    if not left.known or not right.known:
        side = baseline.target if not left.known else candidate.target
        return absent("ratio", f"{side} has no {metric(name).label}")
    if left.value <= 0 or right.value <= 0:
        return absent("ratio", f"{metric(name).label} of {(baseline if left.value <= 0 else candidate).target} is 0")
    grade = weakest(left, right)
    if name == "throughput_per_s":
        ours, theirs = _rates(candidate), _rates(baseline)
        if len(ours) > 1 and len(theirs) > 1:
            if _took_turns(baseline, candidate):
                pairs = min(len(ours), len(theirs))
                value, low, high = stats.paired_ratio_interval(ours[:pairs], theirs[:pairs], confidence)
                why = f"geometric mean of {pairs} pairs of runs that took turns"
            else:
                value, low, high = stats.ratio_interval([[rate] for rate in ours], [[rate] for rate in theirs], stats.median, confidence)
                why = None
            return Quantity(value=value, low=min(low, value), high=max(high, value), confidence=confidence, unit="ratio", grade=grade, why=why)
    elif left.confidence is not None and right.confidence is not None and min(left.low, right.low) > 0:
        ends = ((quantity.value, quantity.low, quantity.high) for quantity in (right, left))
        value, low, high = stats.ratio_of_estimates(*ends)
        return Quantity(value=value, low=min(low, value), high=max(high, value), confidence=confidence, unit="ratio", grade=grade)
    return Quantity(value=right.value / left.value, unit="ratio", grade=grade, why="without an interval")


def _took_turns(baseline: Measurement, candidate: Measurement) -> bool:
    """Run by run in one session on one host, so that the n-th runs of both met the same conditions."""
    return baseline.taken is not None and candidate.taken is not None and baseline.taken.session == candidate.taken.session


def _rates(row: Measurement) -> list[float]:
    return [_rate(run, row) for run in row.runs if run.values_s and run.duration_s and row.results_per_call]


def _rate(run: object, row: Measurement) -> float:
    return len(run.values_s) * row.results_per_call / run.duration_s  # type: ignore[attr-defined]


# -- sentences and findings -------------------------------------------------------------------


def _own_batch(baseline: Measurement, candidate: Measurement) -> bool:
    """Each side was taken at a batch of its own, which must be said with the ratio."""
    sizes = baseline.settings.batch_size, candidate.settings.batch_size
    return None not in sizes and sizes[0] != sizes[1]


def _pair_sentence(baseline: Measurement, candidate: Measurement, ratio: Quantity, answer: str, found: Iterable[Difference]) -> str:
    if not ratio.known:
        return f"{candidate.target} cannot be set against {baseline.target}: {ratio.why}."
    ours, theirs = (f" at batch {row.settings.batch_size}" if _own_batch(baseline, candidate) else "" for row in (candidate, baseline))
    figure = f"{candidate.target}{ours} answers {metric('ratio').number(ratio.value)} times as many a second as {baseline.target}{theirs}"
    if answer == "not_comparable":
        names = ", ".join(entry.setting for entry in found if entry.matters)
        return f"{figure}, but the two were not taken alike: {names} differ."
    ends = "" if ratio.low is None else f" ({ratio.low:.3g} to {ratio.high:.3g})"
    said = {
        "faster": "faster",
        "slower": "slower",
        "same_within_margin": "the same within the margin",
        "inconclusive": "inconclusive, the figures carry no usable interval" if ratio.low is None else "inconclusive",
    }[answer]
    return f"{figure}{ends}: {said}."


def _about(question: Question, tops: Iterable[Optional[Measurement]], objective: Objective) -> list[Finding]:
    findings = []
    for row in tops:
        if row is None:
            continue
        if keeps_objective(row, objective) is False:
            missed = next(check for check in objective_checks(row, objective) if check.kept is False)
            findings.append(
                Finding(
                    severity=Severity.WARNING,
                    code="objective_missed",
                    because=f"no figure keeps the objective; the quickest has {missed.because}",
                    next="try a smaller batch, or a larger instance",
                    target=row.target,
                )
            )
        findings += [finding for finding in row.findings if finding.severity is Severity.WARNING]
        if row.grade is not Grade.MEASURED:
            findings.append(
                Finding(
                    severity=Severity.WAITING,
                    code="not_measured",
                    because=f"{row.target} rests on a {row.grade} figure; nobody has measured this workload there",
                    next=where_to_run(question, question.target(row.target)),
                    target=row.target,
                )
            )
    return findings


def _about_pairs(pairs: Iterable[Pair]) -> list[Finding]:
    return [
        Finding(severity=Severity.WARNING, code="not_comparable", because=entry.sentence, target=entry.candidate)
        for entry in pairs
        if entry.verdict == "not_comparable" and entry.mode == "matched"
    ]


def _about_runs(question: Question, pairs: Iterable[Pair]) -> list[Finding]:
    """How many runs it takes to find a difference of 10 %, from the runs that there are."""
    policy, findings = question.params.policy, []
    for entry in pairs:
        rows = [question.dossier.get(record) for record in (entry.candidate_record, entry.baseline_record)]
        ours, theirs = (_rates(row) for row in rows)
        if entry.mode != "matched" or len(ours) < 2 or len(theirs) < 2:
            continue
        count = min(len(ours), len(theirs))
        paired = _took_turns(rows[1], rows[0])
        sides = (ours[:count], theirs[:count]) if paired else (ours, theirs)
        wanted = stats.recommended_runs(*sides, margin=policy.margin, confidence=policy.confidence, paired=paired)
        if wanted is None:
            continue
        length = max(run.duration_s or 0.0 for row in rows for run in row.runs)
        enough = count >= wanted
        findings.append(
            Finding(
                severity=Severity.NOTE,
                code="runs_recommended",
                because=f"a difference of 10 % between {entry.candidate} and {question.params.baseline.name} is found with {wanted} runs a side, "
                f"{count} were taken{' in turns' if paired else ''}",
                next=None if enough else _more_runs(wanted, length),
                target=entry.candidate,
            )
        )
    return findings


def _more_runs(wanted: int, length_s: float) -> str:
    if wanted > MOST_RUNS_ASKED:
        return f"measure on a quieter host: more than {MOST_RUNS_ASKED} runs are no answer to noise"
    return f"policy: {{runs: {wanted}, budget_s: {max(1, round(wanted * length_s))}}}, and measure again"


def _only_invalid(question: Question, figures: dict[str, list[Measurement]]) -> list[Finding]:
    """A target that was measured and has no figure: its measurements are INVALID, and the newest says why."""
    findings = []
    for name, rows in figures.items():
        invalid = [row for row in question.dossier.measurements(name) if row.valid is False]
        if invalid and not any(row.grade is Grade.MEASURED for row in rows):
            findings.append(
                Finding(
                    severity=Severity.WARNING,
                    code="measured_invalid",
                    because=f"{name} was measured {len(invalid)} time{'' if len(invalid) == 1 else 's'}, none VALID: {invalid[-1].validity}",
                    next=where_to_run(question, question.target(name)),
                    target=name,
                )
            )
    return findings


def _bottom_line(question: Question, figures: dict[str, list[Measurement]], pairs: Sequence[Pair]) -> str:
    rows = [row for target in question.targets for row in question.dossier.measurements(target.name)]
    counts = {grade: sum(row.grade is grade for row in rows) for grade in Grade}
    have = " and ".join(f"{count} {grade}" for grade, count in counts.items() if count) or "No"
    plural = "s" if len(rows) != 1 else ""
    if not pairs:
        lacking = [name for name, usable_rows in figures.items() if not usable_rows]
        what = "no VALID one" if any(row.valid is False for row in rows if row.target in lacking) else "none"
        verb = "has" if len(lacking) == 1 else "have"
        names = " and ".join(part for part in (", ".join(lacking[:-1]), lacking[-1]) if part)
        return f"{have} figure{plural} for this workload; nothing to compare yet, since {names} {verb} {what}."
    leading = next((entry for entry in pairs if entry.mode == "matched"), pairs[0])
    return f"{have} figure{plural} for this workload: {leading.sentence}"
