"""A server that answers as the model's name says: ``ok``, or one of the ways in which servers fail or differ.

``mix``: the number of the request (its X-Request-Id) picks from the names in --mix.
"""

from __future__ import annotations

import asyncio
import json

from aiohttp import web
from common import Log, event, options, serve, stream

given = options(mix="ok")


def text(words: str, finish: str | None = None) -> dict:
    return {"choices": [{"index": 0, "text": words, "delta": {"content": words}, "finish_reason": finish}]}


USAGE = {"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 5}}
WORDS = ["one", " two", " thr\u00e4\u00e4", " four", " five"]
WHOLE = b"".join(event(text(word)) for word in WORDS) + event(text("", "stop")) + event(USAGE) + event("[DONE]")


async def answer(request: web.Request, log: Log) -> web.StreamResponse:
    entry = log.arrived(request)
    body = json.loads(await request.read())
    kind = body.get("model", "ok")
    if kind == "mix":
        names = given.mix.split(",")
        kind = names[int(entry["id"]) % len(names)]
    entry["kind"] = kind
    if kind == "http_429":
        return web.json_response({"error": {"message": "too many requests", "type": "rate_limit"}}, status=429)
    if kind == "http_500":
        return web.Response(text="Internal Server Error", status=500)
    if kind == "no_stream_options" and "stream_options" in body:
        return web.json_response({"error": {"message": "unknown field stream_options"}}, status=400)
    if kind == "hang":
        await asyncio.sleep(30)
    if kind == "reset":
        request.transport.abort()
        return web.Response()
    if kind == "json":
        return web.json_response({"choices": [{"text": "".join(WORDS)}], "usage": USAGE["usage"]})
    if kind == "json_error":
        return web.json_response({"error": "model is loading"})
    if kind == "not_json":
        return web.Response(text="<html>", content_type="text/html")
    response = await stream(request)
    if kind in ("ok", "merged"):
        await response.write(WHOLE)
    elif kind == "split":  # every byte on its own
        for place in range(len(WHOLE)):
            await response.write(WHOLE[place : place + 1])
            await asyncio.sleep(0)
    elif kind == "comments":
        for word in WORDS:
            await response.write(b": keep-alive\r\n\r\n" + event(text(word)).replace(b"\n", b"\r\n"))
            await asyncio.sleep(0.002)
        await response.write(event(text("", "stop")) + event(USAGE) + event("[DONE]"))
    elif kind == "role_first":
        await response.write(event({"choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}}]}))
        await asyncio.sleep(0.1)
        await response.write(WHOLE)
    elif kind == "several_tokens":
        await response.write(event(text("one two")))
        await asyncio.sleep(0.05)
        await response.write(event(text(" three four five")) + event(text("", "stop")) + event(USAGE) + event("[DONE]"))
    elif kind == "no_usage" or kind == "no_stream_options":
        for word in WORDS:
            await response.write(event(text(word)))
            await asyncio.sleep(0.01)
        await response.write(event(text("", "stop")) + event("[DONE]"))
    elif kind == "no_done":
        await response.write(b"".join(event(text(word)) for word in WORDS) + event(text("", "stop")) + event(USAGE).rstrip(b"\n"))
    elif kind == "empty":
        await response.write(
            event(text("", "stop")) + event({"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 0}}) + event("[DONE]")
        )
    else:
        await response.write(event(text("one")) + event(text(" two")))
        await asyncio.sleep(0.02)
        if kind == "reset_midway":
            request.transport.abort()
        elif kind == "malformed":
            await response.write(b"data: {not json\n\n")
        elif kind == "error_event":
            await response.write(event({"error": {"message": "engine died", "code": 500}}))
        elif kind == "hang_midway":
            await asyncio.sleep(30)
        elif kind != "truncated":
            raise ValueError(kind)
    return response


serve(answer, Log())
