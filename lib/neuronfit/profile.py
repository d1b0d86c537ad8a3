"""Step 1: what are we moving? Size, traffic, surroundings, and whether a move is worth a thought."""

from __future__ import annotations

from typing import Any, Optional

from neuronfit import model, params
from neuronfit import traffic as traffic_files
from neuronfit.catalog import models
from neuronfit.errors import NotFound, WaitingForEvidence
from neuronfit.provenance import Estimated, Grade, Quantity, absent
from neuronfit.question import Question
from neuronfit.record import Finding, Profile, Severity, Situation
from neuronfit.traced import TraceSummary
from neuronfit.units import metric
from neuronfit.workload import Asked, asked, request_speedup_bound

__all__ = ["describe", "length_shares", "offered", "recorded", "results_per_request", "situations", "trace_of"]

LARGE_VOLUME = 1e8
"""Results per month from which we call inference large-scale (about 38 a second). Our assumption."""

STEADY_PEAK_TO_MEAN = 4.0
"""Peak over mean up to which traffic counts as predictable enough to keep bought hardware busy. Our assumption."""

FREQUENT_CHANGES = 4.0
"""Model changes per month from which compilation becomes part of daily work (weekly). Our assumption."""


def describe(question: Question) -> Profile:
    """Describe the workload and admit the record. No weights are loaded and no memory is taken."""
    workload, given = question.params.workload, question.params.traffic
    trace, noticed = recorded(question) if given.trace else (None, ())
    traffic = asked(given, trace, results_per_request(question, trace))
    task = workload.model.task
    count = model.count_parameters(question.config, task)
    sizes = model.bytes_by_precision(count)
    need = max(
        model.memory_needed(question.config, task, shape.batch_size, shape.sequence_length, workload.precision, shape.output_length).total_bytes
        for shape in workload.shapes
    )
    share = workload.model_share
    bound = request_speedup_bound(share)
    findings = [*_count_findings(question, count), *_traffic_findings(question, traffic), *noticed, *_trace_findings(question, trace)]
    record = Profile(
        workload=question.ref,
        source=Estimated(
            formula="parameters counted on the meta device; traffic as declared" + (", completed by a trace" if trace else ""),
            inputs={"config": "declared", "traffic": "declared", **({"trace": "imported"} if trace else {})},
        ),
        findings=tuple(findings),
        question=_plain(question.params),
        bottom_line=_bottom_line(question, count, traffic),
        parameters=_estimated(count, "parameters"),
        weights={precision: _estimated(size, "bytes") for precision, size in sizes.items()},
        memory=_estimated(need, "bytes"),
        rate_mean=_rate(traffic, trace, "mean", _declared(traffic.mean_per_s, "1/s", "mean_per_s", given, "traffic.monthly_volume over 730 hours")),
        rate_peak=_rate(
            traffic, trace, "peak", _declared(traffic.peak_per_s, "1/s", "peak_per_s", given, f"the busiest hour of a {given.daily_shape} day")
        ),
        monthly_volume=_declared(
            traffic.monthly_volume,
            "1/month",
            "monthly_volume",
            given,
            f"{'the mean of the trace' if 'mean' in traffic.recorded else 'traffic.mean_per_s'} x 730 hours",
        ),
        hourly_rate_per_s=traffic.hourly_per_s,
        model_share=_estimated(share, "fraction"),
        amdahl_bound=_estimated(bound, "ratio") if bound else absent("ratio", "nothing is declared around the model (workload.surroundings)"),
        situations=situations(question.params, traffic),
        trace=trace,
    )
    return question.dossier.admit(record)


# -- traffic ----------------------------------------------------------------------------------


def recorded(question: Question) -> tuple[TraceSummary, tuple[Finding, ...]]:
    """Read the trace that the params file names. Raises :class:`~neuronfit.errors.BadInput`, one line."""
    given = question.params.traffic.trace
    if given is None:
        raise WaitingForEvidence("no trace is named", next=f"add traffic: {{trace: {{file: ...}}}} to {question.command_name}")
    with traffic_files.open_trace(question.file(given.file), **given.model_dump(exclude={"file"})) as trace:
        said = traffic_files.summarise(trace)
        return said, traffic_files.findings(trace, said)


def trace_of(question: Question) -> Optional[TraceSummary]:
    """The summary of the question's trace: from step 1's record if it speaks of the same file and options, else read."""
    given = question.params.traffic.trace
    if given is None:
        return None
    record = question.dossier.latest(Profile)
    if record is not None and record.trace is not None and (record.question.get("traffic") or {}).get("trace") == given.model_dump(mode="json"):
        return record.trace
    return recorded(question)[0]


def offered(question: Question) -> Asked:
    """The traffic of a question, declared or recorded: what every later step reckons with."""
    trace = trace_of(question)
    return asked(question.params.traffic, trace, results_per_request(question, trace))


def results_per_request(question: Question, trace: Optional[TraceSummary]) -> float:
    """Useful results of one request: 1, or for generation the output tokens, recorded or asked for in the first shape."""
    workload = question.params.workload
    if not model.TASKS[workload.model.task].generates:
        return 1.0
    if trace is not None and trace.output_tokens is not None:
        return trace.output_tokens.mean
    return float(workload.shapes[0].output_length or 1)


def length_shares(question: Question) -> dict[int, float]:
    """Input length in tokens -> share of the requests: declared, else of the trace; empty where neither says it.

    Lengths of a trace are rounded up to at most 256 steps; those above the model's positions are cut to them,
    as they would have to be.
    """
    declared = question.params.traffic.length_shares
    trace = None if declared else trace_of(question)
    if declared or trace is None or trace.input_tokens is None:
        return declared
    limit, shares = model.position_limit(question.config), {}
    for edge, count in trace.input_tokens.histogram.items():
        length = max(1, edge if limit is None else min(edge, limit))
        shares[length] = shares.get(length, 0) + count
    total = sum(shares.values())
    return {length: count / total for length, count in sorted(shares.items())}


def _rate(traffic: Asked, trace: Optional[TraceSummary], which: str, otherwise: Quantity) -> Quantity:
    """A rate of the trace, imported; or what was declared."""
    if trace is None or which not in traffic.recorded:
        return otherwise
    scaled = "" if "mean" in traffic.recorded else ", scaled to the declared mean"
    value = traffic.mean_per_s if which == "mean" else traffic.peak_per_s
    what = "mean" if which == "mean" else f"busiest {trace.peak_window_s or 60:g} s"
    grade = Grade.IMPORTED if "mean" in traffic.recorded else Grade.ESTIMATED
    return Quantity(value=value, unit="1/s", grade=grade, why=f"{what} of {trace.requests:,} requests in {trace.file}{scaled}")


def _trace_findings(question: Question, trace: Optional[TraceSummary]) -> list[Finding]:
    """Where what is declared and what was recorded disagree by more than a tenth."""
    if trace is None:
        return []
    given, per, found = question.params.traffic, results_per_request(question, trace), []
    pairs = (
        ("mean_per_s", asked(given).mean_per_s, trace.mean_per_s, "/s"),
        ("peak_per_s", given.peak_per_s, trace.peak_per_s, "/s"),
    )
    for key, declared, counted, unit in pairs:
        if declared and counted and abs(counted * per / declared - 1) > 0.1:
            because = f"traffic gives {key} {declared:,.4g}{unit}, the trace {counted * per:,.4g}{unit}; what is declared is used"
            found.append(
                Finding(
                    severity=Severity.WARNING, code="trace_differs", because=because, next=f"take {key} out of {question.command_name}, or correct it"
                )
            )
    if given.sequence_lengths and trace.input_tokens:
        shares = given.length_shares
        mean = sum(length * share for length, share in shares.items())
        if abs(trace.input_tokens.mean / mean - 1) > 0.1:
            because = (
                f"traffic.sequence_lengths have a mean of {mean:,.4g} tokens, the trace {trace.input_tokens.mean:,.4g}; what is declared is used"
            )
            found.append(Finding(severity=Severity.WARNING, code="trace_differs", because=because, next="take sequence_lengths out, or correct them"))
    limit = model.position_limit(question.config)
    if limit is not None and trace.input_tokens and trace.input_tokens.maximum > limit:
        above = sum(count for edge, count in trace.input_tokens.histogram.items() if edge > limit) / sum(trace.input_tokens.histogram.values())
        because = f"inputs of up to {trace.input_tokens.maximum:,} tokens came, the model has positions for {limit:,}; about {above:.1%} would have to be cut or split"
        found.append(
            Finding(
                severity=Severity.WARNING,
                code="trace_beyond_positions",
                because=because,
                next="take a model with more positions, or say how inputs are cut",
            )
        )
    return found


def situations(asked_for: params.Params, traffic: Asked) -> tuple[Situation, ...]:
    """The eight situations in which a move is, or is not, worth considering. ``None``: a later step decides."""
    workload = asked_for.workload
    inference = workload.kind == "inference"
    production = workload.stage == "production"
    volume, changes = traffic.monthly_volume, workload.model_changes_per_month
    shaped = asked_for.traffic.peak_per_s is not None or "daily_shape" in asked_for.traffic.model_fields_set or "peak" in traffic.recorded
    ratio = traffic.peak_per_s / traffic.mean_per_s if shaped and traffic.mean_per_s and traffic.peak_per_s else None
    large = volume is not None and volume >= LARGE_VOLUME
    volume_text = f"{volume:,.0f} results a month" if volume else "no volume declared"
    return (
        Situation(
            name="large-scale inference",
            applies=inference and large if volume else None,
            because=f"{volume_text}; large from {LARGE_VOLUME:,.0f} (our assumption)" if inference else "this is training",
            advice="Consider: a lower cost per result adds up, and pays for the engineering.",
        ),
        Situation(
            name="predictable high traffic",
            applies=(inference and large and ratio <= STEADY_PEAK_TO_MEAN) if ratio else None,
            because=f"peak is {ratio:.1f} times the mean; predictable up to {STEADY_PEAK_TO_MEAN:g} (our assumption)"
            if ratio
            else "neither a peak rate nor a daily shape is declared",
            advice="Consider: hardware that is bought by the hour stays busy, so cost at full load is close to real cost.",
        ),
        Situation(
            name="large training",
            applies=workload.kind == "training",
            because=f"kind is {workload.kind}",
            advice="Consider Trainium: compare cost per run, including restarts and compilation.",
        ),
        Situation(
            name="short experiment",
            applies=not production,
            because=f"stage is {workload.stage}",
            advice="Stay where you are: conversion and compilation cost more than an experiment saves.",
        ),
        Situation(
            name="unsupported operation",
            applies=None,
            because="decided by the operators of the exported graph, in step 2",
            advice="If a blocker is found: rewrite the operation first, or stay.",
        ),
        Situation(
            name="stable production",
            applies=production and changes <= 1,
            because=f"stage is {workload.stage}, {changes:g} model changes a month",
            advice="Consider: one compilation serves for months, so effort is paid once.",
        ),
        Situation(
            name="low utilization",
            applies=None,
            because="decided by offered load against capacity, in step 5",
            advice="If the hardware idles: right-size or share the instance first; that saves without a migration.",
        ),
        Situation(
            name="frequent model changes",
            applies=changes >= FREQUENT_CHANGES,
            because=f"{changes:g} model changes a month; frequent from {FREQUENT_CHANGES:g} (our assumption)",
            advice="Careful: every change is compiled and validated again; automate that before moving.",
        ),
    )


def _bottom_line(question: Question, count: int, traffic: Asked) -> str:
    workload = question.params.workload
    size = metric("parameters").text(count)
    noun = f"{model.TASKS[workload.model.task].result}s"
    what = f"{workload.name}: {size} parameters, {metric('weights_bytes').text(4 * count)} as FP32"
    if not traffic.mean_per_s:
        return f"{what}; no traffic declared yet, so busy hours and monthly cost cannot be computed."
    applying = [entry.name for entry in situations(question.params, traffic) if entry.applies]
    tail = (
        f"{_count_word(len(applying))} of the eight situations {'applies' if len(applying) == 1 else 'apply'}: {', '.join(applying)}"
        if applying
        else "none of the eight situations applies"
    )
    rate = metric("rate_per_s").number
    return f"{what}; {rate(traffic.mean_per_s)} {noun} a second on average, {rate(traffic.peak_per_s)} at the peak; {tail}."


def _count_word(count: int) -> str:
    return ("none", "one", "two", "three", "four", "five", "six", "seven", "eight")[count]


def _count_findings(question: Question, count: int) -> list[Finding]:
    try:
        known = models.find(question.published_as)
    except NotFound:
        return []
    if known.task != question.params.workload.model.task or known.parameters == count:
        return []
    return [
        Finding(
            severity=Severity.WARNING,
            code="parameter_count_differs",
            because=f"the config gives {count:,} parameters, the pinned table {known.parameters:,} ({known.source})",
            next="check the config file against the original one",
        )
    ]


def _traffic_findings(question: Question, traffic: Asked) -> list[Finding]:
    if traffic.mean_per_s is None:
        return [
            Finding(
                severity=Severity.WAITING,
                code="traffic_unknown",
                because="neither traffic.mean_per_s nor traffic.monthly_volume is declared"
                + (", and the trace has no rate" if question.params.traffic.trace else ""),
                next=f"add a traffic section to {question.command_name}",
            )
        ]
    if traffic.mismatch is not None and traffic.mismatch > 0.2:
        return [
            Finding(
                severity=Severity.WARNING,
                code="traffic_inconsistent",
                because=f"monthly_volume and mean_per_s x 730 h differ by {traffic.mismatch:.0%}; the mean rate is used",
                next=f"correct one of them in {question.command_name}",
            )
        ]
    return []


def _plain(asked_for: params.Params) -> dict[str, Any]:
    return asked_for.model_dump(mode="json")


def _estimated(value: float, unit: str) -> Quantity:
    return Quantity(value=value, unit=unit, grade=Grade.ESTIMATED)


def _declared(value: Optional[float], unit: str, key: str, given: params.Traffic, derived: str) -> Quantity:
    """A number of the traffic section, with where it comes from: declared, or derived from what was."""
    if value is None:
        return absent(unit, f"traffic.{key} is not in the params file")
    why = "declared in the params file" if getattr(given, key) is not None else f"not declared; {derived}"
    return Quantity(value=value, unit=unit, grade=Grade.ESTIMATED, why=why)
