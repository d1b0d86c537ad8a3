"""Draws of a :class:`~neuronfit.provenance.Quantity`: what an interval means for everything computed from it.

==============================  ==========================================================================
a quantity                      is drawn as
==============================  ==========================================================================
without an interval, or one     its value, always: what is certain stays certain, to the last digit
of no width
with both ends above 0          lognormal, the value its median, the ends its quantiles
a fraction (unit `fraction`,    beta of the same mean and spread
interval inside 0..1)
anything else, and a            normal, the value its median, the ends its quantiles
difference
==============================  ==========================================================================

The ends are those of the stated confidence, 95 % where none is stated. An interval that is not symmetric
(on the log scale, for a lognormal) is drawn in two halves that meet at the value, each with the spread of its
own side (the two-piece normal: Wallis, Statistical Science 29(1), 2014, p. 106), so that the median and both
ends come out as stated.

One name is one draw: :meth:`Draws.of` returns the same numbers for the same name, so that a volume which both
fleets serve does not pretend to be two. Every name has a stream of its own, hence neither the order of the
calls nor another input changes a digit. Pure functions on arrays; no clock, no state outside :class:`Draws`.
"""

from __future__ import annotations

import math
import zlib
from typing import TYPE_CHECKING, Any, Optional, Union

from neuronfit.provenance import Grade, Quantity

if TYPE_CHECKING:
    import numpy as np

    Drawn = Union[float, np.ndarray]
"""What a draw is: a float where the input is certain, else an array of ``count`` values."""

__all__ = ["COUNT", "Draws", "LEVEL", "SEED", "chance", "doubtful", "ends", "spread", "summary"]

COUNT = 40_000
"""Draws of a record: the standard error of a probability is below 0.25 percentage points."""

SEED = 20261130

LEVEL = 0.90
"""Confidence of a summary: 5th to 95th percentile of the draws."""

DEFAULT_CONFIDENCE = 0.95


def spread(confidence: Optional[float]) -> float:
    """Standard deviations from the median to an end of the interval: 1.96 at 95 %."""
    from statistics import NormalDist

    return NormalDist().inv_cdf(0.5 + (confidence or DEFAULT_CONFIDENCE) / 2)


class Draws:
    """Named draws from one seed.

    ``count`` values of each uncertain input; certain ones stay floats, so that arithmetic on them is the closed form.
    """

    def __init__(self, count: int = COUNT, seed: int = SEED) -> None:
        self.count, self.seed = count, seed
        self._kept: dict[str, "Drawn"] = {}

    def generator(self, name: str) -> "np.random.Generator":
        """The stream of a name; the same for the same seed, on every platform."""
        import numpy as np

        return np.random.Generator(np.random.SFC64(np.random.SeedSequence([self.seed, zlib.crc32(name.encode())])))

    def of(self, name: str, quantity: Quantity, *, keep: bool = True, difference: bool = False) -> "Drawn":
        """Draws of ``quantity`` under ``name``; the same numbers when the name comes again. Raises ``ValueError`` where it is absent.

        ``keep=False`` does not remember them, for an input of one target that is used once: a million draws are 8 MB.
        A ``difference``, such as a saving, is drawn normal although its interval may lie above 0: it could have been below.
        """
        if name in self._kept:
            return self._kept[name]
        drawn = self._draw(name, quantity, difference)
        if keep:
            self._kept[name] = drawn
        return drawn

    def triangle(self, name: str, low: float, likely: float, high: float) -> "Drawn":
        """Triangular draws of three points; a float where they are one."""
        if low == high:
            return float(likely)
        if name not in self._kept:
            self._kept[name] = self.generator(name).triangular(low, likely, high, self.count)
        return self._kept[name]

    def happens(self, name: str, probability: float) -> "Drawn":
        """1.0 in a share of the draws, else 0.0; a float where the share is 0 or 1."""
        if probability <= 0 or probability >= 1:
            return float(probability >= 1)
        if name not in self._kept:
            self._kept[name] = (self.generator(name).random(self.count) < probability).astype(float)
        return self._kept[name]

    def _draw(self, name: str, quantity: Quantity, difference: bool) -> "Drawn":
        import numpy as np

        if not quantity.known:
            raise ValueError(f"{name} is absent ({quantity.why}); nothing can be drawn")
        value, low, high = quantity.value, quantity.low, quantity.high
        if low is None or low == high:
            return float(value)
        width, generator = spread(quantity.confidence), self.generator(name)
        if quantity.unit == "fraction" and 0 <= low and high <= 1 and 0 < value < 1:
            variance = ((high - low) / (2 * width)) ** 2
            if variance < value * (1 - value):  # a beta of this mean and variance exists
                size = value * (1 - value) / variance - 1
                return generator.beta(value * size, (1 - value) * size, self.count)
            return generator.triangular(low, value, high, self.count)
        normal = generator.standard_normal(self.count)
        if low > 0 and not difference:
            down, up = math.log(value / low) / width, math.log(high / value) / width
            normal *= down if math.isclose(down, up, rel_tol=1e-9) else np.where(normal < 0, down, up)
            np.exp(normal, out=normal)
            normal *= value
            return normal
        down, up = (value - low) / width, (high - value) / width
        normal *= down if math.isclose(down, up, rel_tol=1e-9) else np.where(normal < 0, down, up)
        normal += value
        return normal


def doubtful(quantity: Quantity, doubt: float) -> Quantity:
    """The quantity with an assumed 95 % interval from value / (1 + doubt) to value x (1 + doubt), where it brings none of its own."""
    if not quantity.known or quantity.low is not None or doubt <= 0 or quantity.value <= 0:
        return quantity
    return quantity.model_copy(update={"low": quantity.value / (1 + doubt), "high": quantity.value * (1 + doubt), "confidence": DEFAULT_CONFIDENCE})


def ends(drawn: Any, level: float = LEVEL) -> Optional[tuple[float, float]]:
    """Lower and upper quantile of the draws at ``level``; ``None`` for a certain value."""
    import numpy as np

    if np.ndim(drawn) == 0:
        return None
    low, high = np.quantile(drawn, ((1 - level) / 2, (1 + level) / 2))
    return float(low), float(high)


def summary(value: float, drawn: Any, unit: str, grade: Grade, why: Optional[str] = None, level: float = LEVEL) -> Quantity:
    """``value`` (the closed form at the inputs' own values) with the interval of the draws.

    An interval of no width is none. Where the value lies outside the draws' interval, as it can where fleets grow by whole instances, the end is moved to it.
    """
    found = ends(drawn, level)
    if found is None or all(math.isclose(end, value, rel_tol=1e-12) for end in found):
        return Quantity(value=float(value), unit=unit, grade=grade, why=why)
    return Quantity(value=float(value), unit=unit, low=min(found[0], value), high=max(found[1], value), confidence=level, grade=grade, why=why)


def chance(happens: Any) -> float:
    """Share of the draws in which a condition holds; 0 or 1 where it is certain."""
    import numpy as np

    return float(np.mean(happens))
