"""How fast costs are drawn: a million draws of 20 candidates and their baseline, against the limit of two seconds.

    python benchmarks/monte_carlo.py [--draws 1000000] [--candidates 20]

Each side has a price, instance-hours and a throughput with an interval of their own, and the volume is common to all. Timed are the
draws, the cost, its interval and the probability that it is below the baseline's. Beside it, in the same run: the same work with
nothing but numpy's own lognormal, so that the ratio says what the library adds.
"""

from __future__ import annotations

import argparse
import math
import time

import numpy as np
from neuronfit.draws import Draws, chance, ends, spread
from neuronfit.provenance import Grade, Quantity

LIMIT_S = 2.0


def about(value: float, factor: float, unit: str) -> Quantity:
    return Quantity(value=value, unit=unit, low=value / factor, high=value * factor, confidence=0.95, grade=Grade.ESTIMATED)


def ours(count: int, sides: int) -> list[tuple[float, float, float]]:
    source, found, base = Draws(count), [], None
    volume = source.of("volume", about(400, 1.2, "1/s"))
    for place in range(sides):
        price = source.of(f"price {place}", about(1 + place / 10, 1.1, "USD/h"), keep=False)
        hours = source.of(f"hours {place}", about(730, 1.1, "h"), keep=False)
        speed = source.of(f"throughput {place}", about(2000, 1.25, "1/s"), keep=False)
        cost = price * hours / (volume * speed)
        base = cost if base is None else base
        found.append((*ends(cost), chance(cost < base)))
    return found


def plain(count: int, sides: int) -> list[tuple[float, float, float]]:
    generator, found, base = np.random.default_rng(1), [], None
    sigma = {factor: math.log(factor) / spread(0.95) for factor in (1.1, 1.2, 1.25)}
    volume = generator.lognormal(math.log(400), sigma[1.2], count)
    for place in range(sides):
        price = generator.lognormal(math.log(1 + place / 10), sigma[1.1], count)
        hours = generator.lognormal(math.log(730), sigma[1.1], count)
        speed = generator.lognormal(math.log(2000), sigma[1.25], count)
        cost = price * hours / (volume * speed)
        base = cost if base is None else base
        found.append((*np.quantile(cost, (0.05, 0.95)), float(np.mean(cost < base))))
    return found


def timed(work, count: int, sides: int) -> tuple[float, list[tuple[float, float, float]]]:
    best, found = math.inf, []
    for _ in range(3):
        start = time.perf_counter()
        found = work(count, sides)
        best = min(best, time.perf_counter() - start)
    return best, found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=1_000_000)
    parser.add_argument("--candidates", type=int, default=20)
    given = parser.parse_args()
    sides = given.candidates + 1
    mine, found = timed(ours, given.draws, sides)
    theirs, reference = timed(plain, given.draws, sides)
    worst = max(abs(a[end] / b[end] - 1) for a, b in zip(found, reference) for end in (0, 1))
    print(f"{given.draws:,} draws of {given.candidates} candidates and a baseline, best of three")
    print(f"  draws.py          {mine:6.2f} s   {'within' if mine < LIMIT_S else 'BEYOND'} the {LIMIT_S:g} s allowed")
    print(f"  numpy lognormal   {theirs:6.2f} s   ratio {mine / theirs:.2f}")
    print(f"  5th and 95th percentiles agree within {worst:.2%}")


if __name__ == "__main__":
    main()
