"""How long one instance takes: latency by batch size from the dossier, or decode steps for generation.

The throughput of each figure is kept to the digit: a batch of b that w workers turn out at a rate T takes w x b / T seconds, with
w by Little's law from the latency beside it. So batching at saturation gives the very throughput that step 4 shows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Optional, Union

import numpy as np

from neuronfit import memory, model
from neuronfit.compare import usable
from neuronfit.errors import NeuronFitError
from neuronfit.params import Objective, Target
from neuronfit.provenance import Grade, weakest
from neuronfit.question import Question
from neuronfit.record import Measurement
from neuronfit.stats import batches_in_flight

__all__ = ["BatchService", "GenerationService", "Promise", "Service", "batch_table", "from_rows", "promise", "service_of"]

MOST_BATCH = 4096
_Z99 = 2.3263478740408408
"""99 % quantile of the normal distribution."""

CLOSE = 0.05
"""Mean lengths within this share of the figure's are taken for the figure's own."""

_PROMPTS = 0.05
"""Where no time to first token is known: what the time per token leaves of the throughput is the reading of prompts from this share on."""


@dataclass(frozen=True)
class BatchService:
    """An instance that answers batches: ``latency_s[b - 1]`` for a batch of b, ``workers`` batches at a time.

    ``sigma`` is the spread of one batch's latency (lognormal, mean kept), 0 where the p99 is not known. ``said`` are the
    assumptions, in sentences.
    """

    latency_s: tuple[float, ...]
    workers: int
    sigma: float
    grade: Grade
    said: tuple[str, ...] = ()

    @property
    def largest_batch(self) -> int:
        return len(self.latency_s)

    @property
    def capacity_per_s(self) -> float:
        """Results per second of one instance with full batches."""
        return self.workers * len(self.latency_s) / self.latency_s[-1]

    @property
    def results_per_request(self) -> float:
        return 1.0


@dataclass(frozen=True)
class GenerationService:
    """An instance that generates text: ``copies`` of the model, ``step_s[k - 1]`` per decode step with k sequences.

    ``input_tokens`` and ``output_tokens`` are means: those of the figure, or after :meth:`at` those of the traffic, whose requests
    are drawn from ``lengths`` (input, output). ``cache_tokens`` bounds what a copy's key-value cache holds.
    """

    step_s: tuple[float, ...]
    prefill_s: float
    cache_tokens: float
    copies: int
    input_tokens: float
    output_tokens: float
    grade: Grade
    said: tuple[str, ...] = ()
    lengths: tuple[tuple[float, float], ...] = ()
    reckoned: str = ""

    @property
    def slots(self) -> int:
        """Sequences of one copy at a time: slots, or what the cache holds at the mean lengths."""
        held = self.cache_tokens / (self.input_tokens + self.output_tokens)
        return len(self.step_s) if held >= len(self.step_s) else max(1, int(held))

    @property
    def capacity_per_s(self) -> float:
        """Output tokens per second of one instance with every slot in use."""
        one_round = self.slots * self.input_tokens * self.prefill_s + self.output_tokens * self.step_s[self.slots - 1]
        return self.copies * self.slots * self.output_tokens / one_round

    @property
    def results_per_request(self) -> float:
        return float(self.output_tokens)

    def at(self, lengths: Sequence[tuple[float, float]]) -> "GenerationService":
        """The same instance with requests of these (input, output) tokens: the prompt at the speed of the time to first token, then the steps.

        An estimate where the means are further than ``CLOSE`` from the figure's. ``self`` where ``lengths`` is empty or nothing is written.
        """
        given = np.asarray(lengths, float)
        if not len(given) or given[:, 1].mean() <= 0:
            return self
        prompt, output = (float(mean) for mean in given.mean(axis=0))
        alike = abs(prompt - self.input_tokens) <= CLOSE * self.input_tokens and abs(output - self.output_tokens) <= CLOSE * self.output_tokens
        said, reckoned = list(self.said), ""
        if not alike:
            how = "its time to first token and its steps" if self.prefill_s > 0 else "its steps alone, so that a longer prompt costs nothing more"
            reckoned = (
                f"its figure reads {self.input_tokens:,.0f} and writes {self.output_tokens:,.0f} tokens a request, the traffic {prompt:,.0f} and "
                f"{output:,.0f} on average: reckoned from {how}; a step is taken to last as long at any length"
            )
            said.append(reckoned)
        beyond = float((given.sum(axis=1) > self.cache_tokens).mean())
        if beyond > 0:
            said.append(f"{beyond:.2%} of the requests are longer than the key-value cache of a copy holds and count as late")
        return replace(
            self,
            input_tokens=prompt,
            output_tokens=output,
            lengths=tuple((float(one), float(other)) for one, other in lengths),
            reckoned=reckoned,
            grade=self.grade if alike else Grade.ESTIMATED,
            said=tuple(said),
        )


Service = Union[BatchService, GenerationService]


@dataclass(frozen=True)
class Promise:
    """Bounds in seconds (inf: none) and the share of requests that may be later: 1 % for a p99."""

    latency_s: float = math.inf
    ttft_s: float = math.inf
    tpot_s: float = math.inf
    allowed: float = 0.01

    @property
    def made(self) -> bool:
        return min(self.latency_s, self.ttft_s, self.tpot_s) < math.inf

    @property
    def waiting_s(self) -> float:
        """The bound that waiting counts against; inf where only the time per token is bounded, or nothing."""
        return min(self.latency_s, self.ttft_s)


def promise(objective: Objective) -> Promise:
    """The latency objective of the params file. A bound on the median alone allows half of the requests to be later."""

    def seconds(value_ms: Optional[float]) -> float:
        return math.inf if value_ms is None else value_ms / 1e3

    found = Promise(seconds(objective.latency_p99_ms), seconds(objective.ttft_p99_ms), seconds(objective.tpot_p99_ms))
    if not found.made and objective.latency_p50_ms is not None:
        return Promise(latency_s=seconds(objective.latency_p50_ms), allowed=0.5)
    return found


def service_of(question: Question, target: Target, figure: Measurement, lengths: Sequence[tuple[float, float]] = ()) -> Service:
    """The service of a target from the figure that stands for it in step 4 and its neighbours of other batch sizes.

    ``lengths`` are those of the traffic (input and output tokens of its requests), which only generation asks for.
    """
    rows = [row for row in usable(question, target.name) if _alike(row, figure)]
    if figure.id not in {row.id for row in rows}:
        rows.append(figure)
    return from_rows(question, target.instance_type, target.path, rows, figure, lengths)


def from_rows(
    question: Question,
    instance_type: str,
    path: str,
    rows: Sequence[Measurement],
    figure: Measurement,
    lengths: Sequence[tuple[float, float]] = (),
) -> Service:
    """The same from any figures of one instance type; ``figure`` sets the largest batch and the number of workers."""
    if figure.result_unit == "token":
        return _generation(question, instance_type, figure, rows).at(lengths)
    return _batches(path, figure, rows)


def _alike(row: Measurement, figure: Measurement) -> bool:
    left, right = row.settings, figure.settings
    return (row.result_unit, row.latency_of, left.precision, left.tp_degree) == (
        figure.result_unit,
        figure.latency_of,
        right.precision,
        right.tp_degree,
    )


def _latency(row: Measurement) -> Optional[float]:
    for name in ("latency_mean_s", "latency_p50_s", "latency_p90_s", "latency_p95_s", "latency_p99_s"):
        if (value := row.quantity(name).value) is not None:
            return value
    return None


def _workers(row: Measurement) -> int:
    """Batches in flight by Little's law, at least one."""
    latency, batch = _latency(row), row.settings.batch_size or 1
    if latency is None:
        return row.settings.workers or 1
    return max(1, round(batches_in_flight(row.quantity("throughput_per_s").value, latency, batch)))


def _batches(path: str, figure: Measurement, rows: Sequence[Measurement]) -> BatchService:
    said = []
    points: dict[int, float] = {}
    for row in [*rows, figure]:  # the figure last: it decides its own batch size
        batch = row.settings.batch_size or 1
        points[batch] = _workers(row) * batch / row.quantity("throughput_per_s").value
    largest = min(figure.settings.batch_size or 1, MOST_BATCH)
    if _latency(figure) is None:
        said.append("its figure states no latency: a batch is taken to last batch / throughput, one at a time")
    fixed_shapes = path.startswith("neuron") or path == "torch_neuron"
    if fixed_shapes:
        said.append("shapes are compiled ahead of time, so a smaller batch takes as long as the next compiled one")
    elif len([size for size in points if size <= largest]) > 1:
        said.append("between the batch sizes that have a figure, latency is taken along a line")
    if min(points) > 1:
        said.append(f"no figure for batches below {min(points)}: they are taken to last as long")
    p50, p99 = figure.quantity("latency_p50_s"), figure.quantity("latency_p99_s")
    sigma = math.log(p99.value / p50.value) / _Z99 if p50.known and p99.known and p99.value > p50.value > 0 else 0.0
    if sigma == 0:
        said.append("the spread of one batch's latency is not known and taken as none")
    used = [row for row in [*rows, figure] if (row.settings.batch_size or 1) <= largest]
    return BatchService(batch_table(points, largest, fixed_shapes), _workers(figure), sigma, weakest(*(row.grade for row in used)), tuple(said))


def batch_table(points: dict[int, float], largest: int, fixed_shapes: bool = False) -> tuple[float, ...]:
    """Latency of batches of 1 to ``largest``, s, from that of some sizes; never less for a larger batch.

    Along lines between the known sizes, or with ``fixed_shapes`` that of the next known size. Below the smallest its latency.
    """
    known = sorted(points)
    sizes = np.arange(1, largest + 1)
    if fixed_shapes:
        table = np.array([points[known[min(int(np.searchsorted(known, size)), len(known) - 1)]] for size in sizes])
    else:
        table = np.interp(sizes, known, [points[size] for size in known])
    return tuple(float(value) for value in np.minimum(np.maximum.accumulate(table), table[-1]))


def _generation(question: Question, instance_type: str, figure: Measurement, rows: Sequence[Measurement]) -> GenerationService:
    """Each figure gives a round: its batch reads its prompts and writes its outputs in copies x batch x output / throughput seconds."""
    prompt, output = _lengths(question, figure)
    copies, one_round, step = _round(question, figure)
    batch, first, said, prefill = figure.settings.batch_size or 1, figure.quantity("ttft_p50_s").value, [], 0.0
    if first is not None and batch * first < one_round:
        prefill = first / prompt
    elif first is None and step and one_round - output * step > _PROMPTS * one_round:
        prefill = (one_round - output * step) / (batch * prompt)
        said.append("no time to first token is known: what the time per token leaves of the throughput is taken to be the reading of the prompts")
    if prefill == 0:
        said.append("the time to first token is not known apart: the throughput is taken to include reading the prompt")
    points = {}
    for row in [*rows, figure]:  # the figure last: it decides its own number of sequences
        sequences, (read, written), (_, whole, step) = row.settings.batch_size or 1, _lengths(question, row), _round(question, row)
        left = whole - sequences * read * prefill
        points[sequences] = (left if left > 0 else min(whole, written * step if step else whole)) / written
    slots = min(batch, MOST_BATCH)
    if len(points) == 1 and slots > 1:
        said.append("with fewer sequences a decode step is taken to last as long")
    cache, why = _cache_tokens(question, instance_type, figure, copies)
    said += why
    grade = weakest(*(row.grade for row in [*rows, figure]))
    return GenerationService(batch_table(points, slots), prefill, cache, copies, prompt, output, grade, tuple(said))


def _lengths(question: Question, row: Measurement) -> tuple[int, int]:
    """Input and output tokens of a figure's requests; what it does not state is that of the first shape."""
    shape = question.params.workload.shapes[0]
    return row.settings.sequence_length or shape.sequence_length, row.settings.output_length or shape.output_length or 1


def _round(question: Question, row: Measurement) -> tuple[int, float, Optional[float]]:
    """Copies of the model by Little's law, seconds in which a copy answers one batch, and its time per output token where known."""
    batch, rate, step = row.settings.batch_size or 1, row.quantity("throughput_per_s").value, row.quantity("tpot_p50_s").value
    if step is None and row.latency_of == "token":
        step = _latency(row)
    copies = max(1, round(rate * step / batch)) if step else (row.settings.dp_degree or 1)
    return copies, copies * batch * _lengths(question, row)[1] / rate, step


def _cache_tokens(question: Question, instance_type: str, figure: Measurement, copies: int) -> tuple[float, tuple[str, ...]]:
    """Tokens that the key-value cache of one copy holds beside the weights, by step 2's formula, and what has to be said of it.

    Memory of one rank less the headroom, the weights, activations and the reserve, over the bytes of a token; where several copies share a
    rank each has its part of it. Never fewer than the figure itself had at work; inf where the formula does not apply.
    """
    prompt, output = _lengths(question, figure)
    stated, degree, said = figure.settings.precision, figure.settings.tp_degree, []
    precision = stated if stated in model.PRECISIONS else question.params.workload.precision
    try:
        anatomy = memory.describe(question.config)
        parts = memory.needed(anatomy, 1, prompt, precision, output_length=output)
        if degree is None:
            degree = memory.best(anatomy, parts, instance_type).tp_degree
            said.append(f"its figure states no tensor-parallel degree: {degree} is taken, the least that fits, for the key-value cache")
        room = memory.fit(anatomy, parts, instance_type, degree)
    except NeuronFitError as error:
        return math.inf, (f"how much the key-value cache holds is not known ({error.what})",)
    if room.cache_bytes <= 0:
        return math.inf, ()
    share = max(1.0, copies * degree / room.ranks)
    free = (room.rank_bytes * (1 - memory.HEADROOM) - room.reserve_bytes) / share - room.weights_bytes - room.other_bytes
    held, had = free / room.cache_bytes * (prompt + output), float((figure.settings.batch_size or 1) * (prompt + output))
    if held < had:
        said.append(
            f"by step 2's formula the key-value cache holds fewer tokens ({precision}) than its figure had at work: those {had:,.0f} are taken"
        )
    return max(held, had), tuple(said)
