"""How far two sides' answers agree: numbers with a definition, and intervals where they are shares.

Numerical metrics are judged by their *worst* input, shares by an interval. A share of inputs has
Wilson's interval (Wilson 1927; recommended by Brown, Cai and DasGupta 2001): its ends are the shares p
with ``|p_hat - p| = z sqrt(p (1 - p) / n)``. An input with several positions counts once, since its
positions are not independent; a mean of values in 0..1 varies no more than a share, so the interval is
on the wide side. The difference of two shares of the *same* inputs has the interval of Agresti and Min
(2005): half an input is added to each cell of the two-by-two table, then Wald's formula for pairs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Optional

import numpy as np

from neuronfit.parity.answers import TOP, Answers

__all__ = ["AT_MOST", "METRICS_OF", "PROPORTIONS", "Row", "agreement", "inputs_needed", "labelled", "paired_difference", "shifted", "wilson"]

AT_MOST = ("max_abs_error", "max_rel_error", "kl_divergence")
"""Metrics whose tolerance is an upper bound; of all others it is a lower one."""

PROPORTIONS = ("top1_agreement", "topk_agreement", "greedy_match", "exact_match", "accuracy")
"""Metrics with an interval; they say something about answers, not only about numbers."""

METRICS_OF = {
    "vectors": ("cosine", "max_abs_error", "max_rel_error"),
    "logits": ("cosine", "max_abs_error", "max_rel_error", "top1_agreement", "topk_agreement", "kl_divergence"),
    "tokens": ("greedy_match", "exact_match"),
}
"""What the answers are -> metrics that are defined for them; the first one decides where none is declared."""


@dataclass(frozen=True)
class Row:
    """One number: ``statistic`` is worst, mean or share; ``low`` and ``high`` bound a share at the confidence asked for."""

    metric: str
    statistic: str
    value: float
    low: Optional[float] = None
    high: Optional[float] = None


def agreement(baseline: Answers, candidate: Answers, confidence: float = 0.95) -> list[Row]:
    """Every metric that is defined for these answers. Values are finite, shapes fit (see ``misfit``).

    With a = baseline and b = candidate at one kept position (a vector of hidden states or logits):

    - ``cosine`` = a.b / (|a| |b|); of an input its lowest position; 1 where both are zero, 0 where one is;
    - ``max_abs_error`` = max |b - a|, in the units of the output;
    - ``max_rel_error`` = max |b - a| / max |a| (normwise, in the maximum norm: Higham 2002, 6.1);
    - ``kl_divergence`` = sum p log(p / q), nats, p = softmax of the baseline, q of the candidate: the cost of
      taking the candidate for the baseline. Classes that are not kept are one class, which can only lower it;
    - ``top1_agreement``: share of positions with the same largest class; ``topk_agreement``: overlap of the
      sets of the five largest ones;
    - ``greedy_match``: share of tokens before the first difference; ``exact_match``: share of sequences
      without one.
    """
    if baseline.kind == "tokens":
        same = baseline.tokens == candidate.tokens  # type: ignore[operator]
        prefix = np.where(same.all(axis=1), 1.0, same.argmin(axis=1) / same.shape[1])
        return [
            _share("greedy_match", prefix, confidence),
            Row("greedy_match", "worst", float(prefix.min())),
            _share("exact_match", same.all(axis=1).astype(float), confidence),
        ]
    a, b = baseline.values.astype(np.float64), candidate.values.astype(np.float64)
    error, size = np.abs(b - a).max(axis=1), np.abs(a).max(axis=1)
    absolute = _by_input(baseline, error, max)
    relative = absolute / np.maximum(_by_input(baseline, size, max), np.finfo(np.float32).tiny)
    near = _by_input(baseline, cosine(a, b), min)
    rows = [
        Row("cosine", "worst", float(near.min())),
        Row("cosine", "mean", float(near.mean())),
        Row("max_abs_error", "worst", float(absolute.max())),
        Row("max_abs_error", "mean", float(absolute.mean())),
        Row("max_rel_error", "worst", float(relative.max())),
        Row("max_rel_error", "mean", float(relative.mean())),
    ]
    if baseline.kind == "logits":
        same = (baseline.top[:, 0] == candidate.top[:, 0]).astype(float)  # type: ignore[index]
        count = min(TOP, baseline.width - 1) or 1
        sets = [len(set(one[:count]) & set(other[:count])) / count for one, other in zip(baseline.top.tolist(), candidate.top.tolist())]  # type: ignore[union-attr]
        divergence = _by_input(baseline, kl(baseline, candidate), max)
        rows += [
            _share("top1_agreement", _by_input(baseline, same, np.mean), confidence),
            _share("topk_agreement", _by_input(baseline, np.array(sets), np.mean), confidence),
            Row("kl_divergence", "worst", float(divergence.max())),
            Row("kl_divergence", "mean", float(divergence.mean())),
        ]
    return rows


def cosine(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Cosine of each row of ``a`` and ``b``."""
    sizes = np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1)
    both_zero = (np.linalg.norm(a, axis=1) == 0) & (np.linalg.norm(b, axis=1) == 0)
    found = np.divide((a * b).sum(axis=1), sizes, out=np.zeros(len(a)), where=sizes > 0)
    return np.where(both_zero, 1.0, np.clip(found, -1.0, 1.0))


def kl(baseline: Answers, candidate: Answers) -> np.ndarray:
    """KL(baseline || candidate) in nats at each kept position."""
    from scipy.special import rel_entr

    p, q = (np.exp(side.values.astype(np.float64) - side.logsumexp[:, None]) for side in (baseline, candidate))  # type: ignore[index]
    if baseline.ids is not None:
        p, q = (np.hstack([one, np.clip(1 - one.sum(axis=1, keepdims=True), 1e-12, 1)]) for one in (p, q))
    return np.maximum(rel_entr(p, np.maximum(q, 1e-300)).sum(axis=1), 0.0)


def shifted(baseline: Answers, candidate: Answers) -> Optional[int]:
    """+1 or -1 where the candidate's answers are the baseline's, moved by one position; ``None`` where they are not."""
    a = baseline.values.astype(np.float64)
    inner = baseline.positions > 0
    for step, moved in ((1, candidate.after), (-1, candidate.before)):
        if moved is not None and inner.sum() > 1:
            straight = cosine(a[inner], candidate.values[inner].astype(np.float64))
            aslant = cosine(a[inner], moved[inner].astype(np.float64))
            if np.median(aslant) > 0.99 and np.median(aslant) > np.median(straight):
                return step
    return None


def labelled(right_baseline: Sequence[bool], right_candidate: Sequence[bool], confidence: float = 0.95) -> list[Row]:
    """Shares that are right by the labels on each side, and candidate minus baseline with its paired interval."""
    one, other = np.asarray(right_baseline, float), np.asarray(right_candidate, float)
    low, high = paired_difference(one, other, confidence)
    difference = float(other.mean() - one.mean())
    return [
        Row("accuracy", "baseline", float(one.mean()), *wilson(float(one.mean()), len(one), confidence)),
        Row("accuracy", "candidate", float(other.mean()), *wilson(float(other.mean()), len(other), confidence)),
        Row("accuracy", "difference", difference, min(low, difference), max(high, difference)),
    ]


# -- intervals --------------------------------------------------------------------------------


def wilson(share: float, count: int, confidence: float = 0.95) -> tuple[float, float]:
    """Wilson's score interval of a share of ``count`` inputs (0..1; ``share`` need not be a whole number of them)."""
    z2 = _z(confidence) ** 2
    middle = (share + z2 / (2 * count)) / (1 + z2 / count)
    reach = math.sqrt(z2) / (1 + z2 / count) * math.sqrt(share * (1 - share) / count + z2 / (4 * count**2))
    return max(0.0, min(middle - reach, share)), min(1.0, max(middle + reach, share))


def inputs_needed(bound: float, confidence: float = 0.95) -> Optional[int]:
    """Inputs of which *all* must agree before Wilson's lower end reaches ``bound``: n >= z^2 bound / (1 - bound).

    ``None`` for a bound of 1, which no sample can show.
    """
    return None if bound >= 1 else max(1, math.ceil(_z(confidence) ** 2 * bound / (1 - bound) - 1e-9))


def paired_difference(one: np.ndarray, other: np.ndarray, confidence: float = 0.95) -> tuple[float, float]:
    """Interval of mean(other) - mean(one) over the same inputs, each right (1) or wrong (0): Agresti and Min 2005."""
    count = len(one) + 2
    lost, won = float(((one == 1) & (other == 0)).sum()) + 0.5, float(((one == 0) & (other == 1)).sum()) + 0.5
    middle = (won - lost) / count
    reach = _z(confidence) * math.sqrt(max(won + lost - (won - lost) ** 2 / count, 0.0)) / count
    return middle - reach, middle + reach


def _z(confidence: float) -> float:
    from scipy.special import ndtri

    return float(ndtri((1 + confidence) / 2))


def _share(name: str, per_input: np.ndarray, confidence: float) -> Row:
    share = float(per_input.mean())
    return Row(name, "share", share, *wilson(share, len(per_input), confidence))


def _by_input(answers: Answers, per_position: np.ndarray, statistic) -> np.ndarray:
    return np.array([float(statistic(one)) for one in answers.of_inputs(per_position)])
