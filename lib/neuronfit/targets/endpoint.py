"""A served model behind HTTP: OpenAI-compatible completions and chat with streaming, or a plain JSON POST.

:class:`EndpointClient` sends one request and writes down when its headers left, when each piece of text came and what
the server counted; everything that can go wrong ends as a one-line error of that request. :class:`EventStream` reads
server-sent events from any cut of the bytes. :class:`EndpointTarget` is the same client behind the three methods of
:mod:`neuronfit.targets`.
"""

from __future__ import annotations

import asyncio
import json
import os
import threading
import time
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Optional

from neuronfit.errors import BadInput, WaitingForEvidence

if TYPE_CHECKING:
    import aiohttp

    from neuronfit.load.generator import Request, Response
    from neuronfit.params import Endpoint, Shape
    from neuronfit.targets import Subject

__all__ = ["EndpointClient", "EndpointTarget", "EventStream", "RequestFailed", "body_of"]

REQUEST_ID = "X-Request-Id"
"""Header with the number of the request, so that a server's log can be laid beside ours."""

IDLE_S = 4.0
"""Connections idle for longer are closed by us: common servers close theirs after 5 s, and a request on one fails."""

DONE = "[DONE]"


class RequestFailed(Exception):
    """One request was not answered as it should have been; the message is the record's."""

    plain = True


class EventStream:
    """Server-sent events, fed with bytes as they come (WHATWG HTML, 9.2.6): the data of each complete event.

    Several events in one piece, an event over several pieces, all three line ends, comments and unknown fields are
    read as the standard says. :meth:`rest` gives an event at the end that lacks its empty line, which servers forget.
    """

    def __init__(self) -> None:
        self._buffer = b""
        self._data: list[bytes] = []
        self._first = True

    def feed(self, piece: bytes) -> Iterator[str]:
        if self._first:
            self._buffer += piece
            if len(self._buffer) < 3 and b"\xef\xbb\xbf".startswith(self._buffer):
                return
            piece, self._buffer, self._first = self._buffer.removeprefix(b"\xef\xbb\xbf"), b"", False
        self._buffer += piece
        kept = b"\r" if self._buffer.endswith(b"\r") else b""  # may be half of a line end
        lines = self._buffer[: len(self._buffer) - len(kept)].replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        *complete, last = lines.split(b"\n")
        self._buffer = last + kept
        for line in complete:
            yield from self._line(line)

    def rest(self) -> Iterator[str]:
        """What is left when the connection was closed in good order."""
        line, self._buffer = self._buffer.rstrip(b"\r"), b""
        if line:
            yield from self._line(line)
        yield from self._line(b"")

    def _line(self, line: bytes) -> Iterator[str]:
        if not line:
            if self._data:
                data, self._data = b"\n".join(self._data), []
                yield data.decode("utf-8", errors="replace")
            return
        name, _, value = line.partition(b":")
        if name == b"data":
            self._data.append(value.removeprefix(b" "))


def body_of(endpoint: Endpoint, request: Request, *, streaming: bool = True, usage: bool = True) -> dict[str, Any]:
    """The JSON body of one request.

    For ``completions`` and ``chat`` what ``endpoint.body`` holds is added to (and wins over) the usual keys. For ``json``
    it is the body: ``{prompt}`` in a text is replaced by the prompt, ``"{output_length}"`` by the number of tokens,
    ``"{prompts}"`` by the list of all prompts of the call.
    """
    if endpoint.api == "json":
        return _filled(endpoint.body, request)
    body: dict[str, Any] = {"prompt": request.text} if endpoint.api == "completions" else {"messages": [{"role": "user", "content": request.text}]}
    if endpoint.model:
        body["model"] = endpoint.model
    if request.output_length:
        body["max_tokens"] = request.output_length
    body |= {"temperature": 0, "stream": streaming}
    if streaming and usage:
        body["stream_options"] = {"include_usage": True}
    return body | dict(endpoint.body)


def _filled(template: Any, request: Request) -> Any:
    if isinstance(template, Mapping):
        return {key: _filled(value, request) for key, value in template.items()}
    if isinstance(template, (list, tuple)):
        return [_filled(value, request) for value in template]
    if template == "{output_length}":
        return request.output_length
    if template == "{prompts}":
        return list(request.texts or (request.text,))
    return template.replace("{prompt}", request.text) if isinstance(template, str) else template


class EndpointClient:
    """One HTTP session towards an endpoint; ``async with EndpointClient(endpoint) as client``.

    The API key is read from the environment variable that ``api_key_env`` names, sent as a bearer token and kept
    nowhere. Raises :class:`~neuronfit.errors.BadInput` when the variable is not set.
    """

    def __init__(self, endpoint: Endpoint, *, keep_text: bool = False):
        self.endpoint = endpoint
        self.url = address(endpoint)
        self.keep_text = keep_text
        self.usage = True
        """whether the server is asked to count tokens at the end of a stream; off when it refuses"""
        self.server: Optional[str] = None
        """what the server calls itself, from its `Server` header"""
        self._headers = {"Accept": "text/event-stream, application/json"}
        if endpoint.api_key_env:
            key = os.environ.get(endpoint.api_key_env)
            if not key:
                raise BadInput(
                    "endpoint.api_key_env names an environment variable that is not set",
                    endpoint.api_key_env,
                    next=f"export {endpoint.api_key_env}=... on this host",
                )
            self._headers["Authorization"] = f"Bearer {key}"

    async def __aenter__(self) -> "EndpointClient":
        import aiohttp

        trace = aiohttp.TraceConfig()

        async def written(session: Any, context: Any, params: Any) -> None:
            if context.trace_request_ctx is not None:
                context.trace_request_ctx.sent = time.perf_counter()

        async def queued(session: Any, context: Any, params: Any) -> None:
            if context.trace_request_ctx is not None:
                context.trace_request_ctx.waited_for_connection = True

        trace.on_request_headers_sent.append(written)
        trace.on_connection_queued_start.append(queued)
        connector = aiohttp.TCPConnector(limit=self.endpoint.max_connections, keepalive_timeout=IDLE_S)
        self._session = aiohttp.ClientSession(
            connector=connector,
            timeout=aiohttp.ClientTimeout(total=self.endpoint.timeout_s),
            trace_configs=[trace],
            headers=self._headers,
        )
        return self

    async def __aexit__(self, *exception: Any) -> None:
        await self._session.close()

    async def send(self, request: Request, response: Response) -> None:
        """Send and read to the end. Raises :class:`RequestFailed` with what went wrong, in a few words."""
        import aiohttp

        streaming = self.endpoint.api != "json"
        body = body_of(self.endpoint, request, streaming=streaming, usage=self.usage)
        try:
            async with self._session.post(
                self.url, json=body, headers={REQUEST_ID: str(response.number)}, trace_request_ctx=response, allow_redirects=False
            ) as answer:
                self.server = answer.headers.get("Server", self.server)
                if answer.status != 200:
                    raise RequestFailed(f"http {answer.status}: {_message(await answer.read())}")
                if streaming and answer.content_type == "text/event-stream":
                    await self._stream(answer, response)
                else:
                    _whole(await answer.read(), response, chat=self.endpoint.api != "json", keep=self.keep_text)
        except asyncio.TimeoutError:
            raise RequestFailed(f"timeout: no complete answer within {self.endpoint.timeout_s:g} s") from None
        except aiohttp.ClientConnectorError as error:
            raise RequestFailed(f"no connection: {error.strerror or error}") from None
        except (aiohttp.ClientPayloadError, aiohttp.ServerDisconnectedError, aiohttp.ClientOSError) as error:
            raise RequestFailed(f"connection lost: {_first_line(error)}") from None
        except aiohttp.ClientError as error:
            raise RequestFailed(f"http: {_first_line(error)}") from None

    async def _stream(self, answer: aiohttp.ClientResponse, response: Response) -> None:
        events, reading = EventStream(), _Reading(response, self.keep_text)
        async for piece in answer.content.iter_any():
            now = time.perf_counter()
            for data in events.feed(piece):
                reading.event(data, now)
        for data in events.rest():
            reading.event(data, time.perf_counter())
        reading.finish()


class _Reading:
    """Puts the events of one streamed answer together."""

    def __init__(self, response: Response, keep_text: bool):
        self.response, self.keep_text = response, keep_text
        self.finished = False
        self.parts: list[str] = []

    def event(self, data: str, now: float) -> None:
        if self.finished and data.strip() == DONE:
            return
        if data.strip() == DONE:
            self.finished = True
            return
        try:
            event = json.loads(data)
        except ValueError:
            raise RequestFailed(f"malformed event: {data[:80]!r}") from None
        if not isinstance(event, dict):
            raise RequestFailed(f"malformed event: {data[:80]!r}")
        if event.get("error"):
            raise RequestFailed(f"error in the stream: {_message(data.encode())}")
        choices = event.get("choices") or ()
        texts = [_text(choice) for choice in choices if isinstance(choice, dict)]
        if any(texts):
            self.response.chunks.append(now)
            if self.keep_text:
                self.parts += texts
        if any(isinstance(choice, dict) and choice.get("finish_reason") for choice in choices):
            self.finished = True
        _count(event, self.response)

    def finish(self) -> None:
        response = self.response
        if not self.finished:
            raise RequestFailed(f"the stream ended early: {len(response.chunks)} chunks, no finish_reason and no {DONE}")
        response.end = response.chunks[-1] if response.chunks else time.perf_counter()
        if response.output_tokens is None:
            response.output_tokens = len(response.chunks)
        if self.keep_text:
            response.text = "".join(self.parts)


def _text(choice: Mapping[str, Any]) -> str:
    """The text of one choice of an event: an answer, reasoning or a tool call; a role alone is none."""
    delta = choice.get("delta")
    if not isinstance(delta, Mapping):
        return choice.get("text") or ""
    calls = delta.get("tool_calls")
    return delta.get("content") or delta.get("reasoning_content") or delta.get("reasoning") or (json.dumps(calls) if calls else "")


def _whole(body: bytes, response: Response, *, chat: bool, keep: bool) -> None:
    """An answer that is not streamed: one time, and counts where it has them."""
    response.end = time.perf_counter()
    try:
        answer = json.loads(body)
    except ValueError:
        if chat:
            raise RequestFailed(f"malformed answer: {body[:80]!r}") from None
        answer = None
    if isinstance(answer, dict):
        if answer.get("error"):
            raise RequestFailed(f"error in the answer: {_message(body)}")
        _count(answer, response)
    if keep:
        response.text = body.decode("utf-8", errors="replace")


def _count(event: Mapping[str, Any], response: Response) -> None:
    usage = event.get("usage")
    if not isinstance(usage, Mapping):
        return
    if isinstance(usage.get("completion_tokens"), int):
        response.output_tokens, response.counted_by_server = usage["completion_tokens"], True
    if isinstance(usage.get("prompt_tokens"), int):
        response.input_tokens = usage["prompt_tokens"]


def _message(body: bytes) -> str:
    """The reason a server gives, on one line."""
    text = body.decode("utf-8", errors="replace")
    try:
        said = json.loads(text)
        error = said.get("error", said) if isinstance(said, dict) else said
        text = str(error.get("message", error) if isinstance(error, dict) else error)
    except ValueError:
        pass
    return " ".join(text.split())[:160] or "no message"


def _first_line(error: BaseException) -> str:
    lines = str(error).splitlines()
    return (lines[0] if lines and lines[0].strip() else type(error).__name__)[:160]


def address(endpoint: Endpoint) -> str:
    """Where the requests go: ``url`` as written where it names the resource, else with the usual path of the API."""
    url = endpoint.url.rstrip("/")
    ending = {"completions": "/completions", "chat": "/chat/completions", "json": ""}[endpoint.api]
    if not ending or url.endswith(ending):
        return endpoint.url if not ending else url
    return f"{url}{ending}" if url.endswith("/v1") else f"{url}/v1{ending}"


# -- behind the three methods -----------------------------------------------------------------


class EndpointTarget:
    """An endpoint as a target of :func:`neuronfit.measure.protocol`: one request after the other."""

    path = "endpoint"
    settings = ()

    def __init__(self, subject: Subject, endpoint: Optional[Endpoint] = None):
        if endpoint is None:
            raise WaitingForEvidence(
                "the target has no endpoint to send requests to", next="serve the model, then write endpoint: {url: ..., model: ...} under the target"
            )
        self.subject, self.endpoint = subject, endpoint
        self.responses: list[Response] = []

    def prepare(self, shape: Shape) -> None:
        from neuronfit.load.prompts import synthetic

        self._shape, self._number = shape, 0
        self._prompts = synthetic((shape.sequence_length,))
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="neuronfit-endpoint", daemon=True)
        self._thread.start()
        self._client = EndpointClient(self.endpoint)
        self._soon(self._client.__aenter__()).result()

    def issue(self) -> None:
        from neuronfit.load.generator import Response

        request = self._prompts.request(self._number, self._shape)
        response = Response(self._number, request.prompt, time.perf_counter())
        self._number += 1
        self.responses.append(response)
        self._pending = self._soon(self._client.send(request, response))

    def drain(self) -> None:
        self._pending.result()

    def close(self) -> None:
        self._soon(self._client.__aexit__(None, None, None)).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def describe(self) -> dict[str, Any]:
        return {"route": f"HTTP, {self.endpoint.api}", "api": self.endpoint.api, "endpoint": self.url_shown}

    @property
    def url_shown(self) -> str:
        return address(self.endpoint)

    def _soon(self, coroutine: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop)
