"""Every published row that matches the workload becomes a record, with its conditions.

A row matches when it is about the same architecture, at a sequence length that the workload asks
for, on the target's instance type. Batch size and precision need not match: they are tuned, and
the comparison names them. What is missing is said, with what is nearest.
"""

from __future__ import annotations

from typing import Optional

from neuronfit.catalog import instances, published
from neuronfit.catalog.published import PublishedRow
from neuronfit.measure import where_to_run
from neuronfit.params import Target
from neuronfit.question import Question
from neuronfit.record import Finding, Measurement, Settings, Severity

__all__ = ["adopt_published", "as_measurement"]

_METRIC_OF = {
    "throughput_per_s": "throughput_per_s",
    "latency_mean_s": "latency_mean_s",
    "latency_p50_s": "latency_p50_s",
    "latency_p90_s": "latency_p90_s",
    "latency_p95_s": "latency_p95_s",
    "latency_p99_s": "latency_p99_s",
}
"""Column of the published table -> metric of a record."""

_SCENARIO = {"Real Time": "single_stream", "Batch": "offline"}


def adopt_published(question: Question) -> tuple[list[Measurement], list[Finding]]:
    """Admit a record for each matching row of each target; findings say what was not found."""
    admitted: list[Measurement] = []
    missing: list[Finding] = []
    lengths = sorted({shape.sequence_length for shape in question.params.workload.shapes})
    for target in question.targets:
        found = False
        for length in lengths:
            rows = published.match(question.published_as, target.instance_type, length, kind=question.params.workload.kind)
            if question.params.workload.kind == "training":  # a throughput is that of one instance; more of them scale by workload.training
                rows = tuple(row for row in rows if row.instance_count == 1)
            for row in rows:
                admitted.append(question.dossier.admit(as_measurement(row, target, question)))
            found = found or bool(rows)
        if not found and target.instance_type != instances.THIS_HOST:
            because = published.explain_no_match(question.published_as, target.instance_type, lengths[0])
            if question.params.workload.kind == "training":
                because = f"No published training figure for {question.published_as} on one {target.instance_type} at sequence length {lengths[0]}."
            missing.append(
                Finding(
                    severity=Severity.WAITING,
                    code="nothing_published",
                    because=because,
                    next=where_to_run(question, target),
                    target=target.name,
                )
            )
    return admitted, missing


def as_measurement(row: PublishedRow, target: Target, question: Question) -> Measurement:
    """One published row as a record for ``target``."""
    return Measurement(
        workload=question.ref,
        source=row.published(),
        target=target.name,
        instance_type=target.instance_type,
        settings=_settings(row),
        scenario=_SCENARIO.get(row.application_type or "", "unknown"),
        result_unit=_result_unit(row),
        latency_of=row.latency_of or "batch",
        values={name: value for column, name in _METRIC_OF.items() if (value := getattr(row, column)) is not None},
        validity="a figure without raw values; it cannot be judged here",
        printed=_printed(row),
        findings=_flagged(row, target),
    )


def _settings(row: PublishedRow) -> Settings:
    conditions = dict(row.conditions)
    return Settings(
        batch_size=row.batch_size,
        sequence_length=row.sequence_length,
        output_length=row.output_length,
        precision=row.precision,
        autocast=row.autocast,
        software=" ".join(part for part in (row.software or row.framework, f"SDK {row.sdk}" if row.sdk else None) if part),
        sdk=row.sdk,
        route=row.run_mode,
        tp_degree=row.tp_degree,
        dp_degree=row.dp_degree,
        accelerators_used=row.accelerators_used,
        timed_region=conditions.pop("timed region", None),
        input=conditions.pop("input", None),
        model_variant=row.model,
        other=conditions,
    )


def _result_unit(row: PublishedRow) -> str:
    return row.result_unit if row.result_unit in ("inference", "token", "image", "sequence") else "inference"


def _printed(row: PublishedRow) -> dict[str, str]:
    printed = {
        "throughput_per_s": row.throughput_printed,
        "usd_per_million": _text(row.usd_per_million_printed),
        "usd_per_hour": _text(row.usd_per_hour_printed),
        "price_basis": row.price_basis,
    }
    return {key: value for key, value in printed.items() if value is not None}


def _text(number: object) -> Optional[str]:
    return None if number is None else str(number)


def _flagged(row: PublishedRow, target: Target) -> tuple[Finding, ...]:
    if row.flag != "warn":
        return ()
    return (Finding(severity=Severity.WARNING, code="published_row_flagged", because=row.flag_text, target=target.name),)
