"""What the servers share: a log, a precise wait, and the way they start and stop."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import threading
import time
from collections.abc import Awaitable, Callable
from typing import Any

from aiohttp import web

SPIN_S = 0.0015
"""asyncio's timers are up to a millisecond late: the last of a wait is spent asking for the time."""


async def until(moment: float) -> None:
    """Return at ``moment`` on ``time.perf_counter``, or a few microseconds later."""
    if (left := moment - time.perf_counter() - SPIN_S) > 0:
        await asyncio.sleep(left)
    while time.perf_counter() < moment:
        await asyncio.sleep(0)


class Log:
    def __init__(self) -> None:
        self.started = time.perf_counter()
        self.requests: list[dict[str, Any]] = []

    def arrived(self, request: web.Request) -> dict[str, Any]:
        entry: dict[str, Any] = {"id": request.headers.get("X-Request-Id"), "arrived": time.perf_counter(), "sent": []}
        self.requests.append(entry)
        return entry


def event(data: Any) -> bytes:
    return f"data: {data if isinstance(data, str) else json.dumps(data)}\n\n".encode()


async def stream(request: web.Request) -> web.StreamResponse:
    answer = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
    await answer.prepare(request)
    request.transport.get_extra_info("socket").setsockopt(6, 1, 1)  # TCP_NODELAY: each token leaves at once
    return answer


def serve(handler: Callable[[web.Request, Log], Awaitable[web.StreamResponse]], log: Log) -> None:
    """Answer every POST with ``handler`` until standard input is closed; GET /log gives the log."""

    async def post(request: web.Request) -> web.StreamResponse:
        try:
            return await handler(request, log)
        except ConnectionResetError:  # the client went away, as one that gives up does
            return web.Response()

    async def read_log(request: web.Request) -> web.Response:
        return web.json_response({"started": log.started, "requests": log.requests})

    async def main() -> None:
        app = web.Application()
        app.router.add_get("/log", read_log)
        app.router.add_post("/{path:.*}", post)
        runner = web.AppRunner(app, access_log=None, handler_cancellation=True)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0, backlog=2048)
        await site.start()
        port = site._server.sockets[0].getsockname()[1]
        print(json.dumps({"url": f"http://127.0.0.1:{port}"}), flush=True)
        loop, closed = asyncio.get_running_loop(), asyncio.Event()
        threading.Thread(target=lambda: (sys.stdin.read(), loop.call_soon_threadsafe(closed.set)), daemon=True).start()
        await closed.wait()
        await runner.cleanup()

    asyncio.run(main())


def options(**defaults: Any) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    for name, value in defaults.items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=type(value), default=value)
    return parser.parse_args()
