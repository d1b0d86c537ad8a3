"""How many requests a second does the capacity simulator serve? Beside ciw and SimPy models of the same queue, in one run.

    python benchmarks/simulator_speed.py [--rounds 5] [--week]

The queue is M/M/1 at a load of 0.8, arrivals and services drawn while it runs. Rounds are interleaved, so that a disturbance of the
machine meets all alike; a ratio is per round. ciw and SimPy serve fewer requests, as they would take hours otherwise; their rate
does not grow with the number. ``--week`` adds a week of 50 million requests over 100 instances with two workers, batches, scaling
and a latency objective, in a process of its own for its peak memory.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import random
import resource
import statistics
import subprocess
import sys
import time

import numpy as np
from neuronfit.capacity.arrivals import poisson, rate_by_minute
from neuronfit.capacity.queueing import mmc_wait_mean
from neuronfit.capacity.simulator import Change, simulate, warm_up

LOAD, SERVICE_S = 0.8, 1.0
OURS, CIW, SIMPY = 20_000_000, 20_000, 100_000


def ours(seed: int) -> tuple[int, float]:
    """(requests, mean waiting in s) of the compiled simulator."""
    generator = np.random.default_rng(seed + 1000)
    stream = poisson([LOAD], 2.0 * OURS / LOAD, seed, most=OURS)

    def paired():
        for piece in stream:
            sizes.append(len(piece))
            yield piece

    def services():
        while True:
            yield generator.standard_exponential(sizes.pop(0))

    sizes: list[int] = []
    out = simulate(paired(), [SERVICE_S], factors=services())
    return out.requests, out.waiting_mean_s


def with_ciw(seed: int) -> tuple[int, float]:
    import ciw

    network = ciw.create_network(
        arrival_distributions=[ciw.dists.Exponential(rate=LOAD)],
        service_distributions=[ciw.dists.Exponential(rate=1 / SERVICE_S)],
        number_of_servers=[1],
    )
    ciw.seed(seed)
    simulation = ciw.Simulation(network)
    simulation.simulate_until_max_customers(CIW)
    records = simulation.get_all_records()
    return len(records), statistics.fmean(record.waiting_time for record in records)


def with_simpy(seed: int) -> tuple[int, float]:
    import simpy

    draw, environment, waits = random.Random(seed), simpy.Environment(), []
    server = simpy.Resource(environment, capacity=1)

    def request():
        arrived = environment.now
        with server.request() as turn:
            yield turn
            waits.append(environment.now - arrived)
            yield environment.timeout(draw.expovariate(1 / SERVICE_S))

    def source():
        for _ in range(SIMPY):
            yield environment.timeout(draw.expovariate(LOAD))
            environment.process(request())

    environment.process(source())
    environment.run()
    return len(waits), statistics.fmean(waits)


def week(requests: int = 50_000_000, instances: int = 100) -> None:
    """A week that swings threefold between night and day, instances that follow, batches of up to eight."""
    hours = [requests / 604_800 * (1 + 0.5 * np.sin(2 * np.pi * (hour - 9) / 24)) for hour in range(24)]
    rates = rate_by_minute(hours)
    table = [0.5 + 0.1 * size for size in range(1, 9)]
    changes, now = [], instances
    for hour in range(1, 168):
        want = max(1, int(np.ceil(instances * hours[hour % 24] / max(hours))))
        if want != now:
            changes.append(Change(hour * 3600.0, want - now))
            now = want
    warm_up()
    started = time.perf_counter()
    out = simulate(poisson(rates, 60.0, 1), table, instances=instances, workers=2, delay_s=0.1, bound_s=5.0, changes=changes, bins=(168, 3600.0))
    spent = time.perf_counter() - started
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"{out.requests} requests, {instances} instances, {out.batches} batches, {out.missed_share:.3%} late, p99 {out.quantile_s(0.99):.3f} s")
    print(f"{spent:.1f} s, {out.requests / spent / 1e6:.2f} million requests/s, peak memory {peak:.2f} GiB")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--week", action="store_true", help="also the week of 50 million requests")
    parser.add_argument("--week-only", action="store_true", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.week_only:
        week()
        return
    warm_up()
    models = {"neuronfit": ours, "SimPy": with_simpy, "ciw": with_ciw}
    for name in ("SimPy", "ciw"):
        if importlib.util.find_spec(name.lower()) is None:
            models.pop(name)
            print(f"{name} is not installed, so nothing is set beside it | next: pip install 'neuronfit[bench]'")
    rates: dict[str, list[float]] = {name: [] for name in models}
    waits: dict[str, list[float]] = {name: [] for name in models}
    for turn in range(asked.rounds):
        for name, model in models.items():
            started = time.perf_counter()
            count, wait = model(turn)
            rates[name].append(count / (time.perf_counter() - started))
            waits[name].append(wait)
    print(
        f"M/M/1 at load {LOAD}, {asked.rounds} rounds; mean waiting in theory {mmc_wait_mean(LOAD, SERVICE_S):.3f} s; {os.cpu_count()} cores, one in use"
    )
    for name, found in rates.items():
        ratios = [mine / theirs for mine, theirs in zip(rates["neuronfit"], found)]
        beside = (
            "" if name == "neuronfit" else f"; neuronfit is {statistics.median(ratios):,.0f} times as fast ({min(ratios):,.0f} to {max(ratios):,.0f})"
        )
        print(
            f"{name:10} {statistics.median(found):14,.0f} requests/s ({min(found):,.0f} to {max(found):,.0f}), "
            f"mean waiting {statistics.median(waits[name]):.3f} s{beside}"
        )
    if asked.week:
        subprocess.run([sys.executable, __file__, "--week-only"], check=True)


if __name__ == "__main__":
    main()
