"""Step 6: how far a cost may be off, what makes it so, and how likely the candidate is the cheaper one.

Every input with an interval is drawn (:mod:`neuronfit.draws`), and the same formula (:class:`~neuronfit.useful.Fleet`) that gives the
cost gives its distribution. The volume is one draw for both fleets, and so is the price of one instance type: what both sides share
does not make their difference doubtful. Where a number brings no interval, ``policy.doubt`` assumes one, and the record says which.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from neuronfit import draws
from neuronfit.draws import Draws
from neuronfit.params import SECONDS_PER_MONTH, Doubt
from neuronfit.provenance import Grade, Quantity, absent, weakest
from neuronfit.record import Sensitivity
from neuronfit.useful import Fleet

__all__ = ["Inputs", "assumed", "break_even_volume", "full_load_cheaper", "per_million", "per_month", "saving", "shares", "tornado", "with_doubt"]


@dataclass(frozen=True)
class Inputs:
    """What the cost of one target is made of, each with an interval where there is one."""

    target: str
    instance_type: str
    price: Quantity
    throughput: Quantity
    volume: Quantity
    """results asked for per second, mean"""
    useful: Quantity
    fleet: Fleet

    def names(self) -> dict[str, tuple[str, Quantity]]:
        """Input in words -> the name under which it is drawn, and the quantity. What two targets share has one name."""
        return {
            "hourly price": (f"price {self.instance_type}", self.price),
            "throughput": (f"throughput {self.target}", self.throughput),
            "volume": ("volume", self.volume),
            "useful share": (f"useful {self.target}", self.useful),
        }

    def drawn(self, source: Draws) -> dict[str, Any]:
        return {words: source.of(name, quantity) for words, (name, quantity) in self.names().items()}

    def usd_per_million(self, values: dict[str, Any]) -> Any:
        return self.fleet.usd_per_million_at(values["hourly price"], values["throughput"], values["volume"], values["useful share"])

    def usd_per_month(self, values: dict[str, Any]) -> Any:
        return self.fleet.usd_at(values["hourly price"], values["throughput"], values["volume"])

    def own(self) -> dict[str, float]:
        """Every input at its own value."""
        return {words: quantity.value for words, (_, quantity) in self.names().items()}

    def grade(self) -> Grade:
        return weakest(Grade.ESTIMATED, self.price, self.throughput, self.volume, self.useful)


def with_doubt(inputs: Inputs, doubt: Doubt) -> Inputs:
    """The inputs with the assumed intervals of ``policy.doubt`` where they bring none."""
    speed = getattr(doubt, str(inputs.throughput.grade or Grade.ESTIMATED))
    price = doubt.estimated_price if inputs.price.grade is Grade.ESTIMATED else doubt.price
    volume = 0.0 if inputs.volume.grade is Grade.IMPORTED else doubt.volume
    return replace(
        inputs,
        throughput=draws.doubtful(inputs.throughput, speed),
        price=draws.doubtful(inputs.price, price),
        volume=draws.doubtful(inputs.volume, volume),
    )


def shares(before: Inputs, after: Inputs) -> dict[str, float]:
    """Input -> the assumed half width of its 95 % interval, fraction of its value; inputs with an interval of their own are left out."""
    added = {words: quantity for words, (_, quantity) in after.names().items() if quantity.low is not None and before.names()[words][1].low is None}
    return {words: quantity.high / quantity.value - 1 for words, quantity in added.items()}


def assumed(before: Inputs, after: Inputs) -> tuple[str, ...]:
    """The intervals that were added, as sentences."""
    grades = {words: quantity.grade for words, (_, quantity) in after.names().items()}
    return tuple(
        f"{words}: {grades[words]}, without an interval; a factor of {1 + share:.3g} either way is assumed at 95 %"
        for words, share in shares(before, after).items()
    )


def per_million(inputs: Inputs, source: Draws) -> Quantity:
    """USD per million useful results at your traffic, with the interval of its draws."""
    return draws.summary(inputs.usd_per_million(inputs.own()), inputs.usd_per_million(inputs.drawn(source)), "USD/1e6", inputs.grade())


def per_month(inputs: Inputs, source: Draws) -> Quantity:
    """USD per month, with the interval of its draws."""
    return draws.summary(inputs.usd_per_month(inputs.own()), inputs.usd_per_month(inputs.drawn(source)), "USD/month", inputs.grade())


def saving(candidate: Inputs, baseline: Inputs, source: Draws) -> tuple[Quantity, Quantity]:
    """USD a month that the candidate saves at the same useful results, and the probability that it is the cheaper one.

    The saving is that of the monthly bills. The probability is about dollars per million useful results, in which a candidate that
    answers fewer of them is not the cheaper one for it.
    """
    mine, theirs = candidate.drawn(source), baseline.drawn(source)
    grade = weakest(candidate.grade(), baseline.grade())
    value = baseline.usd_per_month(baseline.own()) - candidate.usd_per_month(candidate.own())
    saved = draws.summary(value, baseline.usd_per_month(theirs) - candidate.usd_per_month(mine), "USD/month", grade)
    share = draws.chance(candidate.usd_per_million(mine) < baseline.usd_per_million(theirs))
    return saved, Quantity(value=share, unit="fraction", grade=grade, why=f"{source.count:,} draws, at your traffic")


def full_load_cheaper(mine: tuple[str, Quantity, Quantity], theirs: tuple[str, Quantity, Quantity], source: Draws) -> Quantity:
    """Probability that the candidate's cost at full load is below the baseline's.

    Each side is instance type, price and throughput (with their intervals); price / throughput is compared.
    """
    missing = next((part for part in (*mine[1:], *theirs[1:]) if not part.known), None)
    if missing is not None:
        return absent("fraction", missing.why or "an input is missing")
    ratio = [
        source.of(f"price {kind}", price) / source.of(f"full load {side} {speed.record or ''}", speed)
        for side, (kind, price, speed) in (("candidate", mine), ("baseline", theirs))
    ]
    grade = weakest(Grade.ESTIMATED, *mine[1:], *theirs[1:])
    return Quantity(value=draws.chance(ratio[0] < ratio[1]), unit="fraction", grade=grade, why=f"{source.count:,} draws, at full load")


def tornado(inputs: Inputs) -> tuple[Sensitivity, ...]:
    """One input at a time at the ends of its interval, the others at their own values; the largest swing first."""
    rows = []
    for words, (_, quantity) in inputs.names().items():
        if quantity.low is None or quantity.low == quantity.high:
            continue
        costs = [inputs.usd_per_million({**inputs.own(), words: end}) for end in (quantity.low, quantity.high)]
        ends = [Quantity(value=end, unit=quantity.unit, grade=quantity.grade) for end in (quantity.low, quantity.high)]
        money = [Quantity(value=float(usd), unit="USD/1e6", grade=inputs.grade()) for usd in costs]
        rows.append(Sensitivity(input=words, low=ends[0], high=ends[1], usd_at_low=money[0], usd_at_high=money[1]))
    return tuple(sorted(rows, key=lambda row: abs(row.usd_at_high.value - row.usd_at_low.value), reverse=True))


# -- by how much volume the answer turns ------------------------------------------------------

MOST_INSTANCES = 200_000


def break_even_volume(candidate: Inputs, baseline: Inputs) -> Quantity:
    """Results per month from which on the candidate's fleet is never the dearer one, both growing by whole instances with the peak.

    With n = ceil(peak / capacity) on each side and k times today's volume, the candidate can be dearer on the last step of its own count
    only while (m + 1) p_c > n_b p_b just above m of its instances. The last such m is searched; from the load at which the baseline
    needs one more instance (or where the candidate's own step ends) the candidate stays ahead. Instances beyond those that the peak
    needs, and costs beside the instances, are left out.
    """
    import numpy as np

    unit = "1/month"
    mine, theirs = candidate.fleet, baseline.fleet
    if "declared" in (mine.grows, theirs.grows):
        return absent(unit, "the number of instances is declared, so the volume does not change the bill")
    p_c, p_b, t_c, t_b = candidate.price.value, baseline.price.value, candidate.throughput.value, baseline.throughput.value
    peak_to_mean = mine.load * mine.capacity_per_s / mine.asked_per_s
    per_load = SECONDS_PER_MONTH / peak_to_mean
    """results per month for each result per second at the peak"""
    slope_c, slope_b = p_c / t_c, p_b / t_b
    if slope_c >= slope_b:
        if p_c >= p_b:
            return absent(unit, "the candidate is the dearer one at every volume")
        steps = np.arange(1, MOST_INSTANCES)
        dearer = (steps + 1) * p_c > (np.floor(steps * t_c / t_b + 1e-12) + 1) * p_b
        if not dearer.any():
            return absent(unit, "the candidate is not the dearer one at any volume that was looked at")
        limit = steps[np.argmax(dearer)] * t_c * per_load
        return absent(unit, f"the other way round: the candidate is the cheaper one below {limit:.3g} a month, and not from there on")
    last = min(int(np.ceil(p_c / (slope_b - slope_c) / t_c)) + 1, MOST_INSTANCES)
    steps = np.arange(0, last + 1)
    dearer = (steps + 1) * p_c > (np.floor(steps * t_c / t_b + 1e-12) + 1) * p_b
    if not dearer.any():
        return absent(unit, "the candidate is not the dearer one at any volume")
    step = int(steps[dearer][-1])
    needed = int(np.ceil((step + 1) * p_c / p_b - 1e-12))  # instances of the baseline that cost as much
    load = min((needed - 1) * t_b, (step + 1) * t_c)
    grade = weakest(Grade.ESTIMATED, candidate.price, baseline.price, candidate.throughput, baseline.throughput)
    return Quantity(value=load * per_load, unit=unit, grade=grade, why="fleets grow by whole instances with the peak")
