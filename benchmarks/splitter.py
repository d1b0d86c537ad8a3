"""What the splitter adds to a request, and how many it carries: ``python benchmarks/splitter.py``.

    client (core 0) ---------------------------> server (core 0)      direct
    client (core 0) ---> splitter (core 1) ----> server (core 0)      through

Direct and through the splitter take turns, round by round, in one run on this machine. The splitter has a core to itself; client and
server share the other, so both are as lean as HTTP allows: they find the length of a message and nothing else. The load is open loop
(Poisson) at the asked rate, latency counts from the intended time of sending, and what the splitter adds is the difference of the same
quantile of the two sides of one round. Exits with 1 when the median of the rounds is above the limit at p99.
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import os
import re
import sys
import time
from collections import deque
from typing import Any

import numpy as np
from neuronfit.splitter import Plan, Splitter, run

LIMIT_MS = 2.0
"""What may be added at p99."""

CONNECTIONS = 64
BODY = b'{"text": "a sentence"}'
ANSWER = b'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 30\r\n\r\n{"label": 1, "score": 0.98125}'
LENGTH = re.compile(rb"content-length: *(\d+)", re.IGNORECASE)


def pin(core: int) -> None:
    """Keep this process on one core, where the system can and there are two."""
    if hasattr(os, "sched_setaffinity") and (os.cpu_count() or 1) > 1:
        os.sched_setaffinity(0, {core})


class Messages(asyncio.Protocol):
    """Calls ``whole`` for every HTTP message that has arrived."""

    transport: Any

    def connection_made(self, transport: Any) -> None:
        self.transport, self.data = transport, b""

    def data_received(self, data: bytes) -> None:
        self.data += data
        while (end := self.data.find(b"\r\n\r\n")) >= 0:
            found = LENGTH.search(self.data, 0, end)
            end += 4 + (int(found[1]) if found else 0)
            if len(self.data) < end:
                return
            self.data = self.data[end:]
            self.whole()

    def whole(self) -> None:
        raise NotImplementedError


class Answering(Messages):
    def whole(self) -> None:
        self.transport.write(ANSWER)


class Asking(Messages):
    """One connection of a client; requests for which none is free wait in ``load``."""

    def __init__(self, load: Load):
        self.load, self.number = load, -1

    def ask(self, number: int) -> None:
        self.number = number
        head = b"POST /v1 HTTP/1.1\r\nHost: x\r\nX-User-Id: %d\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
        self.transport.write(head % (number, len(BODY)) + BODY)

    def whole(self) -> None:
        self.load.answered(self)


class Load:
    """Open loop: request i is due at ``due[i]`` seconds, whatever has become of the earlier ones."""

    def __init__(self, due: np.ndarray):
        self.due, self.taken, self.left = due, np.zeros(len(due)), len(due)
        self.free: list[Asking] = []
        self.waiting: deque[int] = deque()
        self.over = asyncio.Event()

    async def run(self, url: str) -> np.ndarray:
        """Latencies in s, from the intended times of sending."""
        host, port = url.removeprefix("http://").split(":")
        loop = asyncio.get_running_loop()
        self.free = [(await loop.create_connection(lambda: Asking(self), host, int(port)))[1] for _ in range(CONNECTIONS)]
        self.begin = time.perf_counter() + 0.1
        for number, when in enumerate(self.due):
            wait = self.begin + when - time.perf_counter()
            if wait > 0:
                await asyncio.sleep(wait)
            self.free.pop().ask(number) if self.free else self.waiting.append(number)
        await asyncio.wait_for(self.over.wait(), 60)
        for connection in self.free:
            connection.transport.close()
        return self.taken

    def answered(self, connection: Asking) -> None:
        self.taken[connection.number] = time.perf_counter() - self.begin - self.due[connection.number]
        self.left -= 1
        if self.waiting:
            connection.ask(self.waiting.popleft())
        else:
            self.free.append(connection)
        if not self.left:
            self.over.set()


def serve_upstream(pipe: Any) -> None:
    async def main() -> None:
        server = await asyncio.get_running_loop().create_server(Answering, "127.0.0.1", 0, backlog=1024)
        pipe.send("http://{}:{}".format(*server.sockets[0].getsockname()))
        await asyncio.Event().wait()

    pin(0)
    run(main())


def serve_splitter(pipe: Any, upstream: str) -> None:
    async def main() -> None:
        async with Splitter(upstream, upstream, plan=Plan(weight=0.5)) as splitter:
            pipe.send(splitter.url)
            while True:
                await asyncio.sleep(0.05)
                if pipe.poll():
                    pipe.recv()
                    times = os.times()
                    pipe.send(times.user + times.system)

    pin(1)
    run(main())


def measured(url: str, rate: float, seconds: float, seed: int) -> np.ndarray:
    due = np.cumsum(np.random.default_rng(seed).exponential(1 / rate, int(rate * seconds)))

    async def main() -> np.ndarray:
        return await Load(due).run(url)

    return run(main())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rate", type=float, default=2000, help="requests per second")
    parser.add_argument("--seconds", type=float, default=5, help="of either side in a round")
    parser.add_argument("--rounds", type=int, default=7)
    asked = parser.parse_args()
    context = multiprocessing.get_context("spawn")
    (ours, theirs), (mine, splitters) = context.Pipe(), context.Pipe()
    context.Process(target=serve_upstream, args=(theirs,), daemon=True).start()
    direct = ours.recv()
    context.Process(target=serve_splitter, args=(splitters, direct), daemon=True).start()
    through = mine.recv()
    pin(0)

    def splitter_cpu_s() -> float:
        mine.send("CPU time")
        return mine.recv()

    print(f"{asked.rate:g} requests/s, {asked.seconds:g} s a side, {CONNECTIONS} connections, {os.cpu_count()} cores; ms")
    print(f"{'round':<7}{'direct p50':>12}{'p99':>9}{'through p50':>13}{'p99':>9}{'added p50':>11}{'p99':>9}")
    measured(through, asked.rate / 2, 2.0, 0)
    begun, added = splitter_cpu_s(), []
    for number in range(asked.rounds):
        sides = (direct, through) if number % 2 else (through, direct)
        said = {url: np.quantile(measured(url, asked.rate, asked.seconds, number + 1), (0.5, 0.99)) * 1e3 for url in sides}
        (a, b), (c, d) = said[direct], said[through]
        added.append((c - a, d - b))
        print(f"{number + 1:<7}{a:>12.2f}{b:>9.2f}{c:>13.2f}{d:>9.2f}{c - a:>11.2f}{d - b:>9.2f}", flush=True)
    each_s = (splitter_cpu_s() - begun) / (asked.rounds * int(asked.rate * asked.seconds))
    p50, p99 = np.median(added, axis=0)
    worst = np.max(added, axis=0)[1]
    print(f"added, median of rounds: p50 {p50:.2f} ms, p99 {p99:.2f} ms (the worst round {worst:.2f}); up to {LIMIT_MS:g} ms is the aim")
    print(f"the splitter takes {each_s * 1e6:.0f} us of CPU time a request: {1 / each_s:,.0f} requests/s fill one core")
    return 0 if p99 <= LIMIT_MS else 1


if __name__ == "__main__":
    sys.exit(main())
