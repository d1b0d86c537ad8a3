"""A streaming server that knows its times: the first token after --first-s, then one every --gap-s, by absolute times."""

from __future__ import annotations

import json
import time

from aiohttp import web
from common import Log, event, options, serve, stream, until

given = options(first_s=0.1, gap_s=0.02, tokens=20)


async def answer(request: web.Request, log: Log) -> web.StreamResponse:
    entry = log.arrived(request)
    body = json.loads(await request.read())
    response = await stream(request)
    for number in range(given.tokens):
        await until(entry["arrived"] + given.first_s + number * given.gap_s)
        entry["sent"].append(time.perf_counter())
        await response.write(event({"choices": [{"index": 0, "text": f" t{number}", "finish_reason": None}]}))
    usage = {"prompt_tokens": len(body["prompt"].split()), "completion_tokens": given.tokens}
    await response.write(event({"choices": [{"index": 0, "text": "", "finish_reason": "length"}]}))
    await response.write(event({"choices": [], "usage": usage}) + event("[DONE]"))
    return response


serve(answer, Log())
