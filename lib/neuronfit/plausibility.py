"""Does a record contradict itself or the silicon? Checked for every record that enters a dossier.

Little's law: throughput x mean latency / batch = batches in flight. Compared with what was declared
and with the number of cores, it finds tables that print the cost of an almost idle instance, and
figures that cannot both be true.

The silicon: no instance computes more than its peak and none reads more than its memory bandwidth. What
a result costs at least is counted from below (:func:`work_of`), so a figure above the ceiling is
impossible and not merely surprising.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Optional

from neuronfit.catalog import instances
from neuronfit.errors import NotFound
from neuronfit.provenance import Quantity, absent
from neuronfit.record import Finding, Measurement, Severity
from neuronfit.stats import batches_in_flight as little
from neuronfit.units import metric

__all__ = ["Work", "batches_in_flight", "check", "work_of"]

CODES = (
    "batches_in_flight",
    "faster_than_precision",
    "faster_than_silicon",
    "few_cores_busy",
    "littles_law",
    "percentiles_reversed",
    "tokens_against_tpot",
)
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
    if measurement.latencies_s and all(run.duration_s for run in measurement.runs):
        spent = sum(run.duration_s for run in measurement.runs)
        at_once = measurement.settings.workers or 1  # a call of several workers is one batch on each
        value = at_once * sum(measurement.latencies_s) / spent
        return Quantity(value=value, unit="batches", grade=measurement.grade, why="time in calls over wall time")
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


def check(measurement: Measurement, work: Optional[Work] = None) -> tuple[Finding, ...]:
    """Findings about one measurement, recomputed whenever it is admitted. ``work``: what one result costs; ``None``: not known."""
    silicon = _silicon(measurement, work) if work is not None else ()
    return (*_percentiles(measurement), *_concurrency(measurement), *_tokens(measurement), *silicon)


# -- what a result costs at least -------------------------------------------------------------


@dataclass(frozen=True)
class Work:
    """A bound from below. ``parameters`` take part in a matrix product once for each token, ``tokens_per_result`` of them."""

    parameters: float
    tokens_per_result: Optional[int]
    """``None``: the tokens of the input sequence"""

    def flops(self, sequence_length: Optional[int]) -> Optional[float]:
        """Floating-point operations of one result: 2 x parameters x tokens, a multiplication and an addition each."""
        tokens = self.tokens_per_result if self.tokens_per_result is not None else sequence_length
        return 2.0 * self.parameters * tokens if tokens else None


def work_of(config: Mapping[str, Any], result: str, parameters: float) -> Optional[Work]:
    """What one useful result costs at least, from the model's config and its number of parameters.

    Forward FLOPs are about 2 x parameters x tokens (Kaplan et al. 2020, *Scaling laws for neural language
    models*, 2.1); attention scores come on top and are left out. Embedding tables are looked up and not
    multiplied, so vocabulary and positions are taken off. An encoder-decoder writes a token with its
    decoder: half of the parameters, a little less than it has. One image of a vision transformer is as
    many tokens as it has patches; of a convolutional network each weight counts once, which is very low.

    ``None`` where even this may be too much: experts of which few are used, and configs without sizes.
    """
    settings = {**config, **(config.get("text_config") or {})}
    if any(settings.get(name) for name in ("num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts")):
        return None
    hidden = next((settings[name] for name in ("hidden_size", "d_model", "dim", "n_embd") if isinstance(settings.get(name), int)), None)
    if result == "image":
        size, patch = settings.get("image_size"), settings.get("patch_size")
        tokens = (size // patch) ** 2 if isinstance(size, int) and isinstance(patch, int) else 1
        return Work(parameters * 0.9, tokens)
    if hidden is None:
        return None
    positions = next((settings[name] for name in ("max_position_embeddings", "n_positions") if isinstance(settings.get(name), int)), 0)
    tables = (settings.get("vocab_size") or 0) * (settings.get("embedding_size") or hidden) + positions * hidden
    multiplied = parameters - tables * (2 if settings.get("tie_word_embeddings") is False else 1)
    if settings.get("is_encoder_decoder"):
        multiplied /= 2
    return Work(multiplied, 1 if result == "token" else None) if multiplied > 0 else None


_FORMATS = {
    "fp32": ("fp32", "tf32"),
    "tf32": ("tf32", "fp32"),
    "bf16": ("bf16", "fp16"),
    "fp16": ("fp16", "bf16"),
    "int8": ("int8",),
    "fp8": ("fp8",),
}
"""Precision of the products -> formats whose peak may be used: TF32 is on by default in some libraries, so it is allowed to fp32."""

_BYTES = {"fp32": 4, "tf32": 4, "fp32_bf16_matmul": 4, "bf16": 2, "fp16": 2, "int8": 1, "fp8": 1}


def _silicon(measurement: Measurement, work: Work) -> tuple[Finding, ...]:
    """Arithmetic and memory traffic that the figure implies, against the peaks of the whole instance."""
    machine, throughput = _machine(measurement), measurement.quantity("throughput_per_s")
    if machine is None or not throughput.known:
        return ()
    settings, name = measurement.settings, measurement.instance_type
    precision = settings.precision or ""
    formats = _FORMATS.get(precision, ("bf16", "fp16", "fp32", "tf32") if "matmul" in precision else ())
    stated = max((machine.peak_flops[one] for one in formats if one in machine.peak_flops), default=None)
    allowed = [value for one, value in machine.peak_flops.items() if precision in ("int8", "fp8", "") or one not in ("int8", "fp8")]
    highest = max(allowed, default=None)
    flops = work.flops(settings.sequence_length)
    needed = flops * throughput.value if flops else 0.0

    def finding(severity: Severity, code: str, because: str, next: str) -> tuple[Finding, ...]:
        return (Finding(severity=severity, code=code, because=because, next=next, target=measurement.target),)

    implied = (
        f"{metric('throughput_per_s').text(throughput.value)} x at least {(flops or 0) / 1e9:.3g} GFLOP is {needed / 1e12:.4g} TFLOP/s"
        " (2 x parameters without tables x tokens)"
    )
    if highest and needed > highest:
        because = f"{implied}; {name} has {highest / 1e12:.4g} at its fastest"
        return finding(Severity.BLOCKER, "faster_than_silicon", because, "look for a clock that stops early, a cached answer or a wrong unit")
    per_step = _most_at_once(measurement) or settings.batch_size or settings.workers
    if measurement.result_unit == "token" and per_step and machine.memory_bandwidth_bytes_per_s:
        read = work.parameters * _BYTES.get(precision, 1) * throughput.value / per_step
        if read > machine.memory_bandwidth_bytes_per_s:
            because = (
                f"each step writes {per_step} token{'s' if per_step > 1 else ''} and reads the weights: {read / 1e9:,.0f} GB/s, "
                f"{name} has {machine.memory_bandwidth_bytes_per_s / 1e9:,.0f}"
            )
            return finding(Severity.BLOCKER, "faster_than_silicon", because, "check the batch size and what is counted as a token")
    if stated and needed > stated:
        because = f"{implied}; {name} has {stated / 1e12:.4g} in {precision}"
        return finding(Severity.WARNING, "faster_than_precision", because, "the products ran in a narrower format than is stated")
    return ()


def _tokens(measurement: Measurement) -> tuple[Finding, ...]:
    """Streams that write a token every TPOT seconds write no more than streams / TPOT tokens per second."""
    rate, streams = measurement.quantity("output_tokens_per_s"), measurement.settings.workers
    mean, median = measurement.quantity("tpot_mean_s"), measurement.quantity("tpot_p50_s")
    tpot = mean if mean.known else median
    if not (rate.known and tpot.known and streams) or measurement.scenario == "server":
        return ()
    busy = rate.value * tpot.value / streams
    if busy <= 1 + TOLERANCE:
        return ()
    because = f"{rate.value:,.4g} tokens/s x {metric('tpot_mean_s').text(tpot.value)} per token keeps {busy * streams:.3g} streams writing, {streams} were open"
    return (
        Finding(
            severity=Severity.WARNING,
            code="tokens_against_tpot",
            because=because,
            next="one of tokens/s, time per token and concurrency is wrong, or means something else",
            target=measurement.target,
        ),
    )


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
    if not cores or measurement.latency_of == "request":  # a server holds many requests at a time
        what = "requests" if measurement.latency_of == "request" else "batches"
        return finding(Severity.NOTE, "batches_in_flight", f"{number:.3g} {what} in flight on average")
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


def _most_at_once(measurement: Measurement) -> Optional[int]:
    """Of a served model: the most requests that were in flight, which bounds the batch that the server formed."""
    audit = measurement.load.audit if measurement.load is not None else None
    return audit.most_in_flight if audit is not None and audit.most_in_flight else None


def _declared(measurement: Measurement) -> Optional[int]:
    """How many batches the record says were kept in flight."""
    if measurement.settings.workers:
        return measurement.settings.workers
    return 1 if measurement.scenario == "single_stream" and measurement.runs else None


def _cores(measurement: Measurement) -> Optional[int]:
    """Physical NeuronCores of the instance; ``None`` for GPUs and hosts that are not in the catalogue."""
    machine = _machine(measurement)
    return machine.neuroncores if machine else None


def _machine(measurement: Measurement) -> Optional[instances.Instance]:
    if not measurement.instance_type:
        return None
    try:
        return instances.find(measurement.instance_type)
    except NotFound:
        return None
