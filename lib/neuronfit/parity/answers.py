"""What is kept of a side's outputs: enough to compare, small enough to travel.

A batch of hidden states or logits is large (64 inputs of 128 tokens over a vocabulary of 30,522 are
1 GB), so positions and classes are chosen by a rule that both sides share:

- positions: up to ``POSITIONS`` of each input, evenly spaced over its tokens, first and last included;
- logits over more than ``WHOLE`` classes: the ``LEADING`` largest ones of the baseline, and the
  logarithm of the sum of all exponentials, from which the probability of each kept class is exact;
- everything else, and generated tokens: whole.

Pure functions of arrays; nothing here knows a device or a file.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Optional

import numpy as np

__all__ = ["Answers", "KIND", "LEADING", "POSITIONS", "WHOLE", "joined", "keep", "kept_in_words", "misfit"]

POSITIONS = 16
WHOLE = 1024
LEADING = 64
TOP = 5
"""Leading classes that are compared as a set."""

MEAN = -1
"""Stands for the mean over an input's tokens in ``Answers.positions``; it is what sentence embeddings are made of."""

KIND = {
    "feature-extraction": "vectors",
    "fill-mask": "logits",
    "text-classification": "logits",
    "image-classification": "logits",
    "text-generation": "tokens",
    "text2text-generation": "tokens",
}
"""Task -> what its answers are."""


@dataclass(frozen=True)
class Answers:
    """Answers of ``len(counts)`` inputs; the kept positions of all inputs lie one after the other.

    ``counts`` int32 [inputs], ``positions`` int32 [kept], ``values`` float32 [kept, width or LEADING],
    ``ids`` int32 like values (only where classes were chosen), ``logsumexp`` float64 [kept] and
    ``top`` int32 [kept, TOP] (logits), ``tokens`` int64 [inputs, output length] (generation).
    ``before`` and ``after`` are values one position earlier and later, to notice a shift; they do not
    travel.
    """

    kind: str
    width: int
    counts: np.ndarray
    positions: np.ndarray
    values: np.ndarray
    ids: Optional[np.ndarray] = None
    logsumexp: Optional[np.ndarray] = None
    top: Optional[np.ndarray] = None
    tokens: Optional[np.ndarray] = None
    before: Optional[np.ndarray] = None
    after: Optional[np.ndarray] = None

    def __len__(self) -> int:
        return len(self.counts)

    def of_inputs(self, per_position: np.ndarray) -> list[np.ndarray]:
        """Rows of an array over positions, input by input."""
        return np.split(per_position, np.cumsum(self.counts)[:-1])

    def between(self, start: int, end: int) -> "Answers":
        """The answers of inputs ``start`` to ``end`` - 1."""
        ends = np.concatenate([[0], np.cumsum(self.counts)])
        rows = slice(int(ends[start]), int(ends[min(end, len(self))]))
        arrays = {one.name: getattr(self, one.name) for one in fields(self) if isinstance(getattr(self, one.name), np.ndarray)}
        return replace(self, **{name: array[slice(start, end) if name in ("counts", "tokens") else rows] for name, array in arrays.items()})


def keep(kind: str, output: np.ndarray, mask: Optional[np.ndarray], reference: Optional[Answers] = None) -> Answers:
    """Keep of one call's output what is compared.

    ``output`` is float32 [inputs, positions, width] or [inputs, width], or int64 [inputs, tokens] for
    ``tokens``; ``mask`` [inputs, positions] is 1 where a token is. With ``reference`` the classes and
    positions of the same inputs there are taken (the second side), else they are chosen here.
    """
    if kind == "tokens":
        nothing = np.zeros(0, np.int32)
        count = len(output)
        return Answers(kind, output.shape[1], np.zeros(count, np.int32), nothing, np.zeros((0, 0), np.float32), tokens=output.astype(np.int64))
    if output.ndim == 2:
        output, mask = output[:, None, :], None
    output = output.astype(np.float32, copy=False)
    width = output.shape[-1]
    places = [_places(mask[row] if mask is not None else np.ones(output.shape[1])) for row in range(len(output))]
    rows = np.repeat(np.arange(len(output)), [len(one) for one in places])
    columns = np.concatenate(places)
    picked = output[rows, columns]
    one_earlier = output[rows, np.maximum(columns - 1, 0)]
    one_later = output[rows, np.minimum(columns + 1, output.shape[1] - 1)]
    counts = np.array([len(one) for one in places], np.int32)
    if kind == "vectors":
        if output.shape[1] > 1:
            weights = (mask if mask is not None else np.ones(output.shape[:2])).astype(np.float32)
            means = np.einsum("ipw,ip->iw", output, weights) / weights.sum(axis=1, keepdims=True)
            ends = np.cumsum(counts)
            picked, one_earlier, one_later = (np.insert(array, ends, means, axis=0) for array in (picked, one_earlier, one_later))
            columns, counts = np.insert(columns, ends, MEAN), counts + 1
        return Answers(kind, width, counts, columns.astype(np.int32), picked, before=one_earlier, after=one_later)
    ids = reference.ids if reference is not None else _leading(picked, LEADING) if width > WHOLE else None
    kept = picked if ids is None else np.take_along_axis(picked, ids.astype(np.int64), axis=1)
    shifted = (None, None) if ids is not None or output.shape[1] == 1 else (one_earlier, one_later)
    return Answers(
        kind,
        width,
        counts,
        columns.astype(np.int32),
        kept,
        ids=ids,
        logsumexp=_log_sum_exp(picked),
        top=_leading(picked, min(TOP, width)),
        before=shifted[0],
        after=shifted[1],
    )


def misfit(kind: str, output: np.ndarray, reference: Answers) -> Optional[str]:
    """Why this output cannot be an answer to the same question, in words; ``None`` where it can."""
    if kind == "tokens":
        if output.ndim == 2 and output.shape[1] != reference.width:
            return f"{output.shape[1]} tokens a sequence, the baseline wrote {reference.width}"
        return None if output.ndim == 2 else f"an output of {output.ndim} dimensions where tokens have 2"
    if output.ndim not in (2, 3):
        return f"an output of {output.ndim} dimensions"
    if output.shape[-1] != reference.width:
        what = "hidden size" if kind == "vectors" else "number of classes"
        return f"a {what} of {output.shape[-1]}, the baseline's is {reference.width}"
    highest = int(reference.positions.max(initial=0))
    have = output.shape[1] if output.ndim == 3 else 1
    return None if highest < have else f"{have} positions, the baseline has at least {highest + 1}"


def joined(parts: Sequence[Answers]) -> Answers:
    """The answers of several calls as one."""
    first = parts[0]
    arrays = {one.name for one in fields(Answers) if isinstance(getattr(first, one.name), np.ndarray)}
    return replace(first, **{name: np.concatenate([getattr(part, name) for part in parts]) for name in arrays})


def kept_in_words(answers: Answers) -> str:
    """What of the outputs is compared, for the record."""
    if answers.kind == "tokens":
        return f"all {answers.width} tokens of each sequence"
    most = int(answers.counts.max(initial=0))
    if answers.kind == "vectors":
        mean = " and their mean over all tokens" if (answers.positions == MEAN).any() else ""
        places = f"at most {most - bool(mean)} positions" if most > 1 else "the one vector"
        return f"hidden states ({answers.width} wide) of {places} of each input{mean}"
    places = f" at up to {most} positions" if most > 1 else ""
    if answers.ids is None:
        return f"all {answers.width:,} logits of each input{places}"
    return f"the {answers.values.shape[1]} largest of {answers.width:,} logits of the baseline and the sum of all, of each input{places}"


# -- inside -----------------------------------------------------------------------------------


def _places(mask: np.ndarray) -> np.ndarray:
    """Up to ``POSITIONS`` of the places where a token is, evenly spaced."""
    there = np.flatnonzero(mask)
    if len(there) <= POSITIONS:
        return there
    return there[np.linspace(0, len(there) - 1, POSITIONS).round().astype(int)]


def _leading(values: np.ndarray, count: int) -> np.ndarray:
    """int32 [rows, count]: the classes of the largest values, largest first; the lower class first where they tie."""
    return np.argsort(-values, axis=1, kind="stable")[:, :count].astype(np.int32)


def _log_sum_exp(values: np.ndarray) -> np.ndarray:
    from scipy.special import logsumexp

    return np.asarray(logsumexp(values.astype(np.float64), axis=1))
