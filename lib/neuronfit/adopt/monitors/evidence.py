"""A monitor's file, or what was sampled while measuring, as the record kind ``monitor`` of a dossier."""

from __future__ import annotations

from typing import TYPE_CHECKING, Optional

from neuronfit.adopt.monitors import hardware
from neuronfit.errors import BadInput
from neuronfit.provenance import Imported, Measured
from neuronfit.record import Monitor

if TYPE_CHECKING:
    from neuronfit.adopt.monitors.summary import Summary
    from neuronfit.params import Target
    from neuronfit.question import Question
    from neuronfit.record import WorkloadRef

__all__ = ["check", "record", "sampled"]


def record(question: "Question", summary: "Summary", target: "Target") -> Monitor:
    """The record of an adopted file. Raises :class:`~neuronfit.errors.BadInput` where the file is of another instance type."""
    check(summary, target)
    summary = summary if summary.instance_type else summary_for(summary, target.instance_type)
    source = Imported(
        file=summary.reading.source.name,
        sha256=summary.reading.source.sha256,
        tool=summary.reading.tool,
        tool_version=summary.reading.version or (f"driver {driver}" if (driver := summary.reading.facts.get("driver")) else None),
        missing=summary.missing,
    )
    return _record(question.ref, summary, target.name, summary.instance_type or target.instance_type, source)


def sampled(ref: "WorkloadRef", summary: "Summary", target: str, instance_type: Optional[str], host: str) -> Monitor:
    """The record of samples taken here while a measurement ran. What the tool does not record is among its facts."""
    source = Measured(host=host, clock=f"{summary.reading.tool}, one sample a second")
    if summary.missing:
        summary.reading.facts["not recorded"] = ", ".join(summary.missing)
    return _record(ref, summary, target, summary.instance_type or instance_type, source)


def summary_for(summary: "Summary", instance_type: str) -> "Summary":
    """The same file read again with the declared instance type, which gives capacity and peak."""
    from neuronfit.adopt import monitors

    reading = summary.reading
    return monitors.summarise(reading.source.path, format=reading.format, instance_type=instance_type, columns=reading.columns)


def check(summary: "Summary", target: "Target") -> None:
    """Refuse a file of another instance type or of the other vendor's devices."""
    declared, seen = hardware.about(target.instance_type), summary.reading.instance_type
    if seen and seen != target.instance_type and declared is not None:
        raise BadInput(
            f"the file is of another instance type than {target.name} has",
            seen,
            allowed=target.instance_type,
            next="correct the params file, or sample there",
        )
    vendor = (
        "nvidia"
        if any(name.startswith("gpu_") for name in summary.recorded) or summary.reading.format.startswith(("nvidia", "dcgm", "gpu_"))
        else None
    )
    vendor = "aws_neuron" if summary.reading.format.startswith("neuron") or "neuroncore_utilization" in summary.recorded else vendor
    if declared is not None and vendor is not None and vendor != declared.vendor:
        raise BadInput(
            f"the file is about {'NVIDIA GPUs' if vendor == 'nvidia' else 'NeuronCores'}, {target.name} is",
            target.instance_type,
            next="name the target that it is about with --for",
        )


def _record(ref: "WorkloadRef", summary: "Summary", target: str, instance_type: Optional[str], source: "Imported | Measured") -> Monitor:
    return Monitor(
        workload=ref,
        source=source,
        findings=tuple(entry.finding(target) for entry in summary.remarks),
        bottom_line=f"{target}: {summary.sentence[0].lower() if summary.sentence[:2].isalpha() else summary.sentence[0]}{summary.sentence[1:]}",
        target=target,
        instance_type=instance_type,
        format=summary.reading.format,
        start_utc=summary.start_utc,
        span=summary.span,
        samples=summary.samples,
        busy_metric=summary.busy_metric,
        busy_mean=summary.busy_mean,
        parts=summary.parts,
        quantities=summary.quantities,
        recorded=summary.recorded,
        facts=dict(summary.reading.facts),
    )
