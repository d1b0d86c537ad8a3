"""What the splitter adds to a request, and how many it carries: ``python benchmarks/splitter.py``.

Direct and through the splitter take turns, round by round, in one run on this machine; server, splitter
and client are processes of their own. The load is open loop at the asked rate, latency is taken from
the intended time of sending, and the figure is the difference of the two sides of one round.
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import os
import time
from typing import Any

import numpy as np


def _serve_upstream(pipe: Any) -> None:
    from aiohttp import web

    async def main() -> None:
        async def hello(request: web.BaseRequest) -> web.Response:
            await request.read()
            return web.Response(body=b'{"label": 1, "score": 0.98}', content_type="application/json")

        runner = web.ServerRunner(web.Server(hello, access_log=None))
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        pipe.send("http://{}:{}".format(*runner.addresses[0]))
        await asyncio.Event().wait()

    asyncio.run(main())


def _serve_splitter(pipe: Any, upstream: str) -> None:
    from neuronfit.splitter import Plan, Splitter

    async def main() -> None:
        async with Splitter(upstream, upstream, plan=Plan(weight=0.5)) as splitter:
            pipe.send(splitter.url)
            while True:
                await asyncio.sleep(0.05)
                if pipe.poll():
                    pipe.recv()
                    times = os.times()
                    pipe.send(times.user + times.system)

    asyncio.run(main())


async def _load(url: str, rate: float, seconds: float, seed: int) -> tuple[np.ndarray, float]:
    """Latencies in s, and the rate that was reached."""
    from aiohttp import ClientSession, TCPConnector

    due = np.cumsum(np.random.default_rng(seed).exponential(1 / rate, int(rate * seconds)))
    taken = np.zeros(len(due))
    async with ClientSession(connector=TCPConnector(limit=0)) as client:
        begin = time.perf_counter() + 0.1

        async def one(number: int) -> None:
            async with client.post(url, data=b'{"text": "a sentence"}', headers={"X-User-Id": str(number)}) as answer:
                await answer.read()
            taken[number] = time.perf_counter() - begin - due[number]

        tasks = []
        for number, when in enumerate(due):
            wait = begin + when - time.perf_counter()
            if wait > 0:
                await asyncio.sleep(wait)
            tasks.append(asyncio.create_task(one(number)))
        await asyncio.gather(*tasks)
        return taken, len(due) / (time.perf_counter() - begin)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rate", type=float, default=500, help="requests per second")
    parser.add_argument("--seconds", type=float, default=4)
    parser.add_argument("--rounds", type=int, default=5)
    asked = parser.parse_args()
    context = multiprocessing.get_context("spawn")
    (ours, theirs), (mine, splitters) = context.Pipe(), context.Pipe()
    upstream = context.Process(target=_serve_upstream, args=(theirs,), daemon=True)
    upstream.start()
    direct = ours.recv()
    splitter = context.Process(target=_serve_splitter, args=(splitters, direct), daemon=True)
    splitter.start()
    through = mine.recv()
    print(f"{asked.rate:g} requests/s, {asked.seconds:g} s a round, {os.cpu_count()} cores")
    print(f"{'round':<7}{'direct p50':>12}{'p99':>9}{'through p50':>13}{'p99':>9}{'added p50':>11}{'p99':>9}   ms")
    rows = []
    asyncio.run(_load(through, asked.rate / 2, 1.0, 0))
    for number in range(asked.rounds):
        row, reached = [], []
        for url in (direct, through) if number % 2 else (through, direct):
            latencies, rate = asyncio.run(_load(url, asked.rate, asked.seconds, number + 1))
            row.append((url, *np.quantile(latencies, (0.5, 0.99)) * 1e3))
            reached.append(rate)
        row.sort(key=lambda entry: entry[0] != direct)
        (_, a, b), (_, c, d) = row
        rows.append((c - a, d - b))
        print(f"{number + 1:<7}{a:>12.2f}{b:>9.2f}{c:>13.2f}{d:>9.2f}{c - a:>11.2f}{d - b:>9.2f}   reached {min(reached):,.0f}/s")
    mine.send("cpu")
    cpu = mine.recv()
    count = asked.rounds * int(asked.rate * asked.seconds) + int(asked.rate / 2)
    print(f"added, median of rounds: p50 {np.median([row[0] for row in rows]):.2f} ms, p99 {np.median([row[1] for row in rows]):.2f} ms")
    print(f"the splitter takes {cpu / count * 1e6:.0f} us of CPU a request, start-up included: {count / cpu:,.0f} requests/s fill one core")


if __name__ == "__main__":
    main()
