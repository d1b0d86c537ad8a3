"""Does a record contradict itself or the silicon? Checked for every record that enters a dossier.

Little's law: throughput x mean latency / batch = batches in flight. Compared with what was declared
and with the number of cores, it finds tables that print the cost of an almost idle instance, and
figures that cannot both be true.
"""

from __future__ import annotations

from typing import Optional

from neuronfit.catalog import instances
from neuronfit.errors import NotFound
from neuronfit.provenance import Quantity, absent
from neuronfit.record import Finding, Measurement, Severity
from neuronfit.stats import batches_in_flight as little
from neuronfit.units import metric

__all__ = ["batches_in_flight", "check"]

CODES = ("batches_in_flight", "few_cores_busy", "littles_law", "percentiles_reversed")
"""Finding codes that are recomputed here on every admission."""

TOLERANCE = 0.10
"""Declared and implied concurrency may differ by this much (DESIGN section 7)."""

MOST_WORKERS_PER_CORE = 2
"""More batches per NeuronCore than this are not in flight in any documented serving set-up: encoders
keep one worker per core busy, vision models two (Neuron documentation, benchmark pages, 2025-2026)."""


def batches_in_flight(measurement: Measurement) -> Quantity:
    """Little's law on one record: throughput x mean latency / batch, in batches (or token streams).

    With raw values this is the time spent in calls over the wall time of the runs. Without them the
    median stands in where no mean latency is known, which is close for the narrow latency
    distributions of fixed-shape inference.
    """
    if measurement.latencies_s:
        spent = sum(run.duration_s for run in measurement.runs)
        return Quantity(value=sum(measurement.latencies_s) / spent, unit="batches", grade=measurement.grade, why="time in calls over wall time")
    throughput = measurement.quantity("throughput_per_s")
    mean = measurement.quantity("latency_mean_s")
    latency = mean if mean.known else measurement.quantity("latency_p50_s")
    per_call = measurement.settings.batch_size
    if measurement.latency_of != "token" and measurement.results_per_call:
        per_call = measurement.results_per_call
    if not throughput.known or not latency.known or not per_call:
        return absent("batches", "needs throughput, a mean or median latency and the batch size")
    return Quantity(
        value=little(throughput.value, latency.value, per_call),
        unit="batches",
        grade=measurement.grade,
        why=f"Little's law with the {'mean' if mean.known else 'median'} latency",
    )


def check(measurement: Measurement) -> tuple[Finding, ...]:
    """Findings about one measurement, recomputed whenever it is admitted."""
    return (*_percentiles(measurement), *_concurrency(measurement))


def _percentiles(measurement: Measurement) -> tuple[Finding, ...]:
    """A higher percentile cannot be below a lower one."""
    names = ("latency_p50_s", "latency_p90_s", "latency_p95_s", "latency_p99_s")
    known = [(metric(name), measurement.quantity(name).value) for name in names if measurement.quantity(name).known]
    for (lower, below), (higher, above) in zip(known, known[1:]):
        if above < below:
            because = f"{higher.label} {higher.text(above)} is below {lower.label} {lower.text(below)}"
            return (
                Finding(severity=Severity.BLOCKER, code="percentiles_reversed", because=because, next="check the source", target=measurement.target),
            )
    return ()


def _concurrency(measurement: Measurement) -> tuple[Finding, ...]:
    flight = batches_in_flight(measurement)
    if not flight.known:
        return ()

    def finding(severity: Severity, code: str, because: str, next: Optional[str] = None) -> tuple[Finding, ...]:
        return (Finding(severity=severity, code=code, because=because, next=next, target=measurement.target),)

    number, declared = flight.value, _declared(measurement)
    if declared and abs(number / declared - 1) > TOLERANCE:
        because = f"throughput x latency / batch gives {number:.3g} batches in flight, {declared} were declared"
        return finding(Severity.WARNING, "littles_law", because, "one of throughput, latency, batch and workers is wrong")
    cores, degree = _cores(measurement), measurement.settings.tp_degree or 1
    if not cores:
        return finding(Severity.NOTE, "batches_in_flight", f"{number:.3g} batches in flight on average")
    busy = number * degree
    if number > MOST_WORKERS_PER_CORE * cores * (1 + TOLERANCE):
        because = f"{number:.3g} batches in flight on {cores} NeuronCores: throughput and latency cannot both be right"
        return finding(Severity.BLOCKER, "littles_law", because, "do not build a conclusion on this row")
    split = f" x tensor-parallel degree {degree}" if degree > 1 else ""
    if busy < cores / 2:
        because = (
            f"only {number:.2g} {'batch' if round(number, 1) == 1 else 'batches'} in flight{split} on {cores} NeuronCores: about {busy:.0f} of {cores} cores busy, "
            "so a cost from this row is that of an almost idle instance"
        )
        return finding(Severity.WARNING, "few_cores_busy", because, "look for a smaller instance, or for a run that fills this one")
    return finding(
        Severity.NOTE,
        "batches_in_flight",
        f"{number:.2g} {'batch' if round(number, 1) == 1 else 'batches'} in flight{split}: {min(busy, cores):.0f} of {cores} NeuronCores busy",
    )


def _declared(measurement: Measurement) -> Optional[int]:
    """How many batches the record says were kept in flight."""
    if measurement.settings.workers:
        return measurement.settings.workers
    return 1 if measurement.scenario == "single_stream" and measurement.runs else None


def _cores(measurement: Measurement) -> Optional[int]:
    """Physical NeuronCores of the instance; ``None`` for GPUs and hosts that are not in the catalogue."""
    if not measurement.instance_type:
        return None
    try:
        return instances.find(measurement.instance_type).neuroncores
    except NotFound:
        return None
