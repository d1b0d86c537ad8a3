"""Which input lengths to compile for. A compiled graph has fixed shapes, so one bucket is one compilation.

An input is padded to the next bucket, so few buckets compute much padding and many buckets cost many
compilations. :func:`best` finds the edges that pad least for a number of buckets; :func:`advise` does
it for the traffic of a question and counts the compilations.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Optional

import numpy as np

from neuronfit.errors import BadInput
from neuronfit.model import TASKS
from neuronfit.profile import length_shares
from neuronfit.provenance import Grade, Quantity, absent
from neuronfit.record import BucketAdvice, BucketChoice, Finding, Severity

if TYPE_CHECKING:
    from neuronfit.question import Question

__all__ = ["CODES", "COMPILED_PATHS", "RULE", "advise", "best", "findings", "padding"]

CODES = ("lengths_beyond_buckets", "padding_avoidable")
"""Finding codes of the advice on buckets."""

COMPILED_PATHS = ("neuron_xla", "neuron_native")
"""Software paths on which this code compiles ahead of time, one graph per shape."""

MOST = 8
"""Buckets are tried from 1 to this many."""

CLOSE_ENOUGH = 0.05
"""A number of buckets is enough when its padding is within this of that of :data:`MOST` buckets."""

RULE = f"the fewest buckets whose padding is within {CLOSE_ENOUGH * 100:.0f} percentage points of that of {MOST} buckets"


def padding(edges: Sequence[int], shares: Mapping[int, float]) -> float:
    """Share of the computed tokens that are padding, 0 to below 1, when inputs are padded to the next edge.

    ``1 - sum(share x length) / sum(share x edge)``. Shares need not sum to 1. Raises
    :class:`~neuronfit.errors.BadInput` when an input is longer than the last edge.
    """
    lengths, weights = _ascending(shares)
    ends = np.unique(np.asarray(edges, dtype=np.int64))
    if not len(ends) or ends[0] < 1 or lengths[-1] > ends[-1]:
        raise BadInput("no bucket holds the longest input", int(lengths[-1]), allowed="a last edge at least as long")
    padded = ends[np.searchsorted(ends, lengths)]
    return max(0.0, 1.0 - float(weights @ lengths) / float(weights @ padded))


def best(shares: Mapping[int, float], most: int = MOST) -> tuple[tuple[int, ...], ...]:
    """For 1, 2, ... ``most`` buckets the ascending edges (tokens) that pad least.

    Ends early when there are as many buckets as distinct lengths: more cannot pad less. An optimal
    edge is always one of the lengths, so with lengths l1 < ... < ln and shares w the least number of
    computed tokens is, exactly::

        f(1, j) = lj x (w1 + ... + wj)
        f(k, j) = min over i < j of f(k - 1, i) + lj x (w(i+1) + ... + wj)

    in O(most x n^2) steps and O(most x n) memory.
    """
    lengths, weights = _ascending(shares)
    count = len(lengths)
    below = np.concatenate(([0.0], np.cumsum(weights)))
    tokens = lengths * below[1:]
    came_from: list[np.ndarray] = []
    for _ in range(1, min(most, count)):
        fewer, origin = np.full(count, np.inf), np.zeros(count, dtype=np.int64)
        for last in range(1, count):
            choices = tokens[:last] + lengths[last] * (below[last + 1] - below[1 : last + 1])
            origin[last] = int(np.argmin(choices))
            fewer[last] = choices[origin[last]]
        tokens = fewer
        came_from.append(origin)
    found = []
    for buckets in range(min(most, count)):
        at, edges = count - 1, [int(lengths[-1])]
        for origin in reversed(came_from[:buckets]):
            at = int(origin[at])
            edges.append(int(lengths[at]))
        found.append(tuple(reversed(edges)))
    return tuple(found)


def advise(question: Question) -> BucketAdvice:
    """The buckets for the question's traffic, and how many compilations they take.

    Compilations are batch sizes of ``workload.shapes`` x buckets x targets that are compiled ahead of
    time. Without ``traffic.sequence_lengths`` or a trace the lengths of the workload are the buckets and the
    padding is not known.
    """
    asked = question.params.workload
    targets = tuple(target.name for target in question.targets if target.path in COMPILED_PATHS)
    batches = tuple(sorted({shape.batch_size for shape in asked.shapes}))
    shares, image = length_shares(question), TASKS[asked.model.task].input == "image"
    lengths = tuple(sorted({shape.sequence_length for shape in asked.shapes}))[: 1 if image else None]

    def choice(edges: tuple[int, ...], compilations: int, why: Optional[str] = None) -> BucketChoice:
        known = why is None
        waste = Quantity(value=padding(edges, shares), unit="fraction", grade=Grade.ESTIMATED) if known else absent("fraction", why)
        return BucketChoice(count=len(edges), edges=edges, waste=waste, compilations=_count(compilations))

    unknown = None
    if image:
        unknown = "images have one size"
    elif not shares:
        unknown = "neither traffic.sequence_lengths nor a trace says how long the inputs are"
    elif max(shares) > lengths[-1]:
        unknown = f"inputs of up to {max(shares):,} tokens come, the longest shape holds {lengths[-1]:,}"
    written = {(shape.batch_size, None if image else shape.sequence_length, shape.output_length) for shape in asked.shapes}
    present = choice(lengths, len(written) * len(targets), unknown)
    choices = () if image or not shares else tuple(choice(edges, len(batches) * len(edges) * len(targets)) for edges in best(shares))
    recommended = _recommended(choices)
    return BucketAdvice(
        sentence=_sentence(present, choices, recommended, len(batches), len(targets)),
        rule=RULE,
        present=present,
        choices=choices,
        recommended=recommended,
        batch_sizes=batches,
        targets=targets,
    )


def findings(advice: BucketAdvice) -> list[Finding]:
    """What must be changed in ``workload.shapes``; nothing where no target is compiled ahead of time."""
    chosen = next((one for one in advice.choices if one.count == advice.recommended), None)
    if chosen is None or advice.present is None or not advice.targets:
        return []
    write = f"write one shape per batch size and length into workload.shapes: lengths {_listed(chosen.edges)}"
    if chosen.edges[-1] > advice.present.edges[-1]:
        because = f"inputs of up to {chosen.edges[-1]:,} tokens come, the longest shape of the workload holds {advice.present.edges[-1]:,}"
        return [Finding(severity=Severity.WARNING, code="lengths_beyond_buckets", because=because, next=write)]
    if _value(advice.present) - _value(chosen) > CLOSE_ENOUGH:
        because = (
            f"{_percent(advice.present)} of the tokens would be padding with the lengths of workload.shapes ({_listed(advice.present.edges)}), "
            f"{_percent(chosen)} with {_listed(chosen.edges)}"
        )
        return [Finding(severity=Severity.NOTE, code="padding_avoidable", because=because, next=write)]
    return []


def _ascending(shares: Mapping[int, float]) -> tuple[np.ndarray, np.ndarray]:
    if not shares:
        raise BadInput("no lengths are given", allowed="at least one length with a share")
    lengths = np.array(sorted(shares), dtype=np.int64)
    weights = np.array([shares[int(length)] for length in lengths], dtype=np.float64)
    if lengths[0] < 1 or not (np.isfinite(weights).all() and (weights > 0).all()):
        raise BadInput("a length or its share cannot be", dict(shares), allowed="lengths from 1, shares above 0")
    return lengths, weights / weights.sum()


def _recommended(choices: Sequence[BucketChoice]) -> Optional[int]:
    """By :data:`RULE`; 1e-12 is rounding and not a difference."""
    return next((one.count for one in choices if _value(one) <= _value(choices[-1]) + CLOSE_ENOUGH + 1e-12), None)


def _value(choice: BucketChoice) -> float:
    return choice.waste.value if choice.waste.value is not None else 0.0


def _count(number: int) -> Quantity:
    return Quantity(value=float(number), unit="count", grade=Grade.ESTIMATED)


def _percent(choice: BucketChoice) -> str:
    return f"{_value(choice) * 100:.0f} %"


def _listed(edges: Sequence[int]) -> str:
    return ", ".join(str(edge) for edge in edges)


def _sentence(present: BucketChoice, choices: Sequence[BucketChoice], recommended: Optional[int], batches: int, targets: int) -> str:
    if not targets:
        return "No target is compiled ahead of time by this code, so buckets cost no compilation here."
    if recommended is None:
        number = int(present.compilations.value or 0)
        return f"The shapes of the workload need {number} compilation{_s(number)}; how much they pad is not known: {present.waste.why}."
    chosen = choices[recommended - 1]
    number = int(chosen.compilations.value or 0)
    said = (
        f"{chosen.count} bucket{_s(chosen.count)} ({_listed(chosen.edges)} tokens) leave{'s' if chosen.count == 1 else ''} "
        f"{_percent(chosen)} padding and need{'s' if chosen.count == 1 else ''} {number} compilation{_s(number)}: "
        f"{batches} batch size{_s(batches)} x {chosen.count} bucket{_s(chosen.count)} x {targets} target{_s(targets)}"
    )
    if present.waste.known and present.edges != chosen.edges:
        return f"{said}. The lengths of workload.shapes ({_listed(present.edges)}) leave {_percent(present)}."
    return f"{said}." if present.waste.known else f"{said}. The shapes of the workload do not hold the traffic: {present.waste.why}."


def _s(number: int) -> str:
    return "" if number == 1 else "s"
