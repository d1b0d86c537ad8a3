"""A server that answers after --service-s, but not at all during the last --stall-s of every --period-s."""

from __future__ import annotations

import time

from aiohttp import web
from common import Log, options, serve, until

given = options(period_s=1.0, stall_s=0.1, service_s=0.001)


async def answer(request: web.Request, log: Log) -> web.StreamResponse:
    entry = log.arrived(request)
    phase = (entry["arrived"] - log.started) % given.period_s
    stalled = given.period_s - phase if phase > given.period_s - given.stall_s else 0.0
    await until(entry["arrived"] + stalled + given.service_s)
    entry["sent"].append(time.perf_counter())
    return web.json_response({"ok": True})


serve(answer, Log())
