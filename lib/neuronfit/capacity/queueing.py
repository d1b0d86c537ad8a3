"""Closed forms of the queues that have one, to check the simulator against and to answer at once.

Notation of the field: arrival rate (1/s), service time (s), servers c, load = rate x service / c.
Waiting time is from arrival to the start of service. Every function wants a load below 1 and raises
:class:`~neuronfit.errors.BadInput` otherwise: at or above it the queue grows without end.

Sources: Kleinrock, *Queueing Systems* I (1975), 3.2 (M/M/1), 3.5 (M/M/c), 5.6 and 5.7 (M/G/1: Pollaczek
1930, Khinchine 1932); Erlang (1917) for M/M/c; Neuts, *Matrix-Geometric Solutions* (1981), 5.1, for the
distribution of waiting in M/PH/1.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from neuronfit.errors import BadInput

__all__ = [
    "erlang_c",
    "md1_wait_mean",
    "md1_wait_quantile",
    "mg1_wait_mean",
    "mmc_wait_mean",
    "mmc_wait_quantile",
    "mph1_wait_quantile",
]


def _load(rate_per_s: float, service_s: float, servers: int = 1) -> float:
    load = rate_per_s * service_s / servers
    if not 0 < load < 1:
        raise BadInput("a queue settles only at a load", load, allowed="above 0 and below 1", next="add servers or lower the rate")
    return load


def erlang_c(servers: int, offered: float) -> float:
    """Probability that a request waits in M/M/c; ``offered`` = rate x service time, below ``servers``.

    From Erlang B by its recursion B(k) = a B(k-1) / (k + a B(k-1)), which does not overflow, and
    C = c B / (c - a (1 - B)).
    """
    blocked = 1.0
    for count in range(1, servers + 1):
        blocked = offered * blocked / (count + offered * blocked)
    return servers * blocked / (servers - offered * (1 - blocked))


def mmc_wait_mean(rate_per_s: float, service_s: float, servers: int = 1) -> float:
    """Mean waiting time of M/M/c, s: C / (c/service - rate). With one server this is load x service / (1 - load)."""
    _load(rate_per_s, service_s, servers)
    return erlang_c(servers, rate_per_s * service_s) / (servers / service_s - rate_per_s)


def mmc_wait_quantile(rate_per_s: float, service_s: float, servers: int, q: float) -> float:
    """The ``q`` quantile (0..1) of waiting in M/M/c, s: P(W > x) = C exp(-(c/service - rate) x)."""
    _load(rate_per_s, service_s, servers)
    waits = erlang_c(servers, rate_per_s * service_s)
    return max(0.0, math.log(waits / (1 - q)) / (servers / service_s - rate_per_s))


def mg1_wait_mean(rate_per_s: float, service_s: float, variation_squared: float) -> float:
    """Pollaczek-Khinchine: mean waiting of M/G/1, s = load x service x (1 + variation squared) / (2 (1 - load)).

    ``variation_squared`` is the variance of the service time over its mean squared: 1 exponential, 0 constant.
    """
    load = _load(rate_per_s, service_s)
    return load * service_s * (1 + variation_squared) / (2 * (1 - load))


def md1_wait_mean(rate_per_s: float, service_s: float) -> float:
    """Mean waiting of M/D/1, s: half of that of M/M/1."""
    return mg1_wait_mean(rate_per_s, service_s, 0.0)


def md1_wait_quantile(rate_per_s: float, service_s: float, q: float) -> float:
    """The ``q`` quantile of waiting in M/D/1, s, by Erlang's formula (1909).

    P(W <= x) = (1 - load) sum over k <= x/service of (-y)^k / k! exp(y), y = rate (x - k service). The terms
    alternate and grow, so the sum is taken in exact fractions of the exponent: with decimals of 60 digits and more.
    """
    load = _load(rate_per_s, service_s)
    if q <= 1 - load:
        return 0.0
    low, high = 0.0, 1.0
    while _md1_below(load, high) < q:
        low, high = high, 2 * high
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if _md1_below(load, middle) < q else (low, middle)
    return high * service_s


def _md1_below(load: float, x: float) -> float:
    """P(W <= x service times)."""
    from decimal import Decimal, localcontext

    with localcontext() as context:
        context.prec = 60 + int(2 * x)
        rho, place, total, factorial = Decimal(load), Decimal(x), Decimal(0), Decimal(1)
        for count in range(int(x) + 1):
            factorial *= count or 1
            y = rho * (place - count)
            total += (-y) ** count / factorial * y.exp() if y else Decimal(1 if count == 0 else 0)
        return float((1 - rho) * total)


def mph1_wait_quantile(rate_per_s: float, start: Sequence[float], rates: Sequence[Sequence[float]], q: float) -> float:
    """The ``q`` quantile of waiting in M/PH/1, s: services of phase type (exponential, Erlang, hyperexponential, ...).

    ``start`` holds the probability of each first phase, ``rates`` the generator between phases (1/s). Waiting is a geometric number
    of residual services, hence phase type with start load x e and generator S + load x exit e, e = -start S^-1 / mean.
    """
    from scipy.linalg import expm

    generator, first = np.asarray(rates, float), np.asarray(start, float)
    ones = np.ones(len(first))
    occupation = -first @ np.linalg.inv(generator)
    load = _load(rate_per_s, float(occupation.sum()))
    residual = occupation / occupation.sum()
    waiting = generator + load * np.outer(-generator @ ones, residual)

    def above(x: float) -> float:
        return float(load * residual @ expm(waiting * x) @ ones)

    if above(0.0) <= 1 - q:
        return 0.0
    low, high = 0.0, float(occupation.sum())
    while above(high) > 1 - q:
        low, high = high, 2 * high
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if above(middle) > 1 - q else (low, middle)
    return high
