"""A small reverse proxy that divides traffic between baseline and candidate, for teams that have none.

    clients -> splitter -> baseline            (mode ``split``: a share of the keys goes to the candidate)
                       `-> candidate           (mode ``shadow``: the baseline answers, the candidate gets a copy)

What it promises:

* **Sticky.** Which side answers depends on the request's key and a salt only (SHA-256), so a user stays where
  he is, on every splitter with the same salt. A larger weight adds keys to the candidate and moves
  none back.
* **Transparent.** Bodies pass byte for byte and chunk by chunk in both directions, compressed ones too.
* **A shadow costs the user nothing.** The copy is sent from a task of its own, after the user's request
  went out; its answer is read and thrown away. Where too many copies are under way, or a body is too
  large to keep, the copy is left out and counted.
* **Nothing that may act twice is sent twice.** Whether a request that broke off was executed cannot be known, so a
  POST or PATCH is never repeated. Methods that may be repeated by their definition (RFC 9110, 9.2.2: GET, PUT, ...) go once more
  when the kept connection turns out to be closed.
* **The way back is short.** Weights change at runtime through an admin endpoint bound to loopback that
  asks for a token; a candidate that fails its health check gets no traffic until it passes again.

Server and client are aiohttp's, on uvloop's event loop where there is one.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import hmac
import ipaddress
import json
import time
from collections.abc import AsyncIterator, Coroutine
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Optional

from neuronfit.errors import BadInput

if TYPE_CHECKING:
    from aiohttp import ClientResponse, ClientSession, web

__all__ = ["ARM_HEADER", "Counts", "Plan", "Splitter", "arm_of", "run"]

ARM_HEADER = "X-Neuronfit-Arm"
"""Response header that says which side answered."""

HOP_BY_HOP = frozenset(
    ("connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade")
)
"""Headers that concern one connection only (RFC 9110, 7.6.1)."""

LARGEST_COPY = 1 << 20
"""Bytes of a request body that are kept for a shadow copy."""

MOST_COPIES = 256
"""Shadow copies under way at once."""

IDLE_S = 4.0
"""How long an unused connection to an upstream is kept: less than servers do (5 s is the shortest default in use, uvicorn's), so that no
request is sent into one that is just being closed."""


@dataclass(frozen=True)
class Plan:
    """Where traffic goes. ``weight`` is the candidate's share of the keys, a fraction; shadow mode ignores it."""

    mode: str = "split"
    weight: float = 0.0

    def __post_init__(self) -> None:
        if self.mode not in ("split", "shadow"):
            raise BadInput("mode", self.mode, allowed="split, shadow")
        if isinstance(self.weight, bool) or not isinstance(self.weight, (int, float)) or not 0 <= self.weight <= 1:
            raise BadInput("weight", self.weight, allowed="a fraction between 0 and 1", next="write 0.05 for 5 %")


@dataclass
class Counts:
    """What happened so far, by side. ``broken`` are answers that ended before they were whole."""

    asked: dict[str, int] = field(default_factory=lambda: {"baseline": 0, "candidate": 0})
    answered: dict[str, int] = field(default_factory=lambda: {"baseline": 0, "candidate": 0})
    failed: dict[str, int] = field(default_factory=lambda: {"baseline": 0, "candidate": 0})
    broken: dict[str, int] = field(default_factory=lambda: {"baseline": 0, "candidate": 0})
    aborted_by_client: int = 0
    shadows_sent: int = 0
    shadows_answered: int = 0
    shadows_left_out: int = 0


def arm_of(key: str, weight: float, salt: str = "") -> str:
    """``candidate`` for a ``weight`` share of all keys, always the same ones, else ``baseline``.

    The first 8 bytes of SHA-256(salt, key) as a fraction of 2^64, compared with the weight.
    """
    digest = hashlib.sha256(f"{salt}\0{key}".encode("utf-8", "surrogateescape")).digest()
    return "candidate" if int.from_bytes(digest[:8], "big") < weight * 2.0**64 else "baseline"


def run(main: Coroutine[Any, Any, Any]) -> Any:
    """``asyncio.run`` on uvloop's event loop, where it is installed: there a request costs a third less CPU time."""
    try:
        import uvloop
    except ImportError:  # Windows
        return asyncio.run(main)
    return uvloop.run(main)


class Splitter:
    """The proxy. ``async with Splitter(...) as splitter`` serves until the block ends.

    ``key_header`` names the header whose value keeps a user on one side; a request without it is
    keyed by its client's address. ``timeout_s`` bounds the wait for the next bytes of an answer.
    ``health_path`` is asked of the candidate every ``health_every_s``; an answer below 500 is healthy.
    ``token`` opens the admin endpoint; without one there is none.
    """

    def __init__(
        self,
        baseline_url: str,
        candidate_url: str,
        *,
        plan: Plan = Plan(),  # noqa: B008  frozen
        key_header: str = "X-User-Id",
        salt: str = "neuronfit",
        timeout_s: float = 60.0,
        connect_timeout_s: float = 5.0,
        health_path: Optional[str] = None,
        health_every_s: float = 5.0,
        token: Optional[str] = None,
    ):
        self.upstreams = {"baseline": _base(baseline_url), "candidate": _base(candidate_url)}
        self.plan, self.key_header, self.salt = plan, key_header, salt
        self.timeout_s, self.connect_timeout_s = timeout_s, connect_timeout_s
        self.health_path, self.health_every_s, self.token = health_path, health_every_s, token
        self.healthy: dict[str, Optional[bool]] = {"baseline": None, "candidate": None}
        self.counts = Counts()
        self.changes: list[tuple[float, Plan]] = []
        """(UNIX time, plan) of every change at runtime"""
        self.url = self.admin_url = ""
        self._session: Optional[ClientSession] = None
        self._copies: set[asyncio.Task[None]] = set()
        self._closing = contextlib.AsyncExitStack()

    # -- life ----------------------------------------------------------------------------------

    async def start(self, host: str = "127.0.0.1", port: int = 0, admin_port: int = 0) -> None:
        """Listen; port 0 takes a free one. ``url`` and ``admin_url`` say where. Raises ``BadInput`` when the port is taken."""
        from aiohttp import ClientSession, ClientTimeout, DummyCookieJar, TCPConnector, web

        timeout = ClientTimeout(total=None, sock_connect=self.connect_timeout_s, sock_read=self.timeout_s)
        connector = TCPConnector(limit=0, keepalive_timeout=IDLE_S)
        self._session = ClientSession(connector=connector, timeout=timeout, cookie_jar=DummyCookieJar(), auto_decompress=False)
        self._closing.push_async_callback(self._session.close)
        try:
            self.url = await self._serve(web.Server(self._answer, handler_cancellation=True, access_log=None), host, port)
            if self.token:
                self.admin_url = await self._serve(web.Server(self._administer, access_log=None), "127.0.0.1", admin_port)
        except BaseException:
            await self._closing.aclose()
            raise
        if self.health_path:
            watch = asyncio.create_task(self._watch_health())
            self._closing.push_async_callback(_ended, watch)

    async def close(self) -> None:
        """Stop listening, let copies under way end for a moment, and close every connection."""
        if self._copies:
            await asyncio.wait(self._copies, timeout=1.0)
        for copy in list(self._copies):
            await _ended(copy)
        await self._closing.aclose()

    async def __aenter__(self) -> "Splitter":
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def _serve(self, server: web.Server, host: str, port: int) -> str:
        from aiohttp import web

        runner = web.ServerRunner(server, shutdown_timeout=1.0)
        await runner.setup()
        self._closing.push_async_callback(runner.cleanup)
        try:
            await web.TCPSite(runner, host, port).start()
        except OSError as error:
            raise BadInput(f"cannot listen on {host} ({error.strerror})", port, allowed="a free port", next="choose another --port") from None
        where = runner.addresses[0]
        return f"http://{where[0] if ':' not in where[0] else f'[{where[0]}]'}:{where[1]}"

    # -- traffic -------------------------------------------------------------------------------

    def set(self, plan: Plan) -> None:
        """Send traffic another way from the next request on."""
        self.plan = plan
        self.changes.append((time.time(), plan))

    def side(self, key: str) -> str:
        """Which side answers a request with this key now; an unhealthy candidate answers nothing."""
        if self.plan.mode == "shadow" or self.healthy["candidate"] is False:
            return "baseline"
        return arm_of(key, self.plan.weight, self.salt)

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        arm = self.side(request.headers.get(self.key_header) or request.remote or "")
        shadowed = self.plan.mode == "shadow" and self.healthy["candidate"] is not False
        kept: Optional[list[bytes]] = [] if shadowed else None
        body = await self._body(request, kept)
        self.counts.asked[arm] += 1
        headers = _forwarded(request)
        try:
            return await self._pass_on(request, arm, headers, body, kept)
        except asyncio.CancelledError:
            self.counts.aborted_by_client += 1
            raise

    async def _body(self, request: web.BaseRequest, kept: Optional[list[bytes]]) -> Any:
        """The request's body: bytes where it is small and stated, else a stream that passes through."""
        if not request.body_exists:
            return None
        if request.headers.get("Expect", "").lower() == "100-continue" and request.transport is not None:
            request.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        if request.content_length is not None and request.content_length <= 1 << 16:
            body = await request.read()
            if kept is not None:
                kept.append(body)
            return body
        return _through(request, kept)

    async def _pass_on(self, request: web.BaseRequest, arm: str, headers: Any, body: Any, kept: Optional[list[bytes]]) -> web.StreamResponse:
        from aiohttp import ClientError, web

        method, path = request.method, request.raw_path
        try:
            upstream = await self._ask(arm, method, path, headers, body)
        except (ClientError, asyncio.TimeoutError, OSError) as error:
            self.counts.failed[arm] += 1
            slow = isinstance(error, asyncio.TimeoutError)
            text = json.dumps({"error": f"{arm} {'did not answer in time' if slow else 'cannot be reached'}", "kind": type(error).__name__})
            return web.Response(status=504 if slow else 502, text=text, content_type="application/json", headers={ARM_HEADER: arm})
        finally:
            if kept is not None:
                self._copy(method, path, headers, kept)
        try:
            return await self._relay(request, arm, upstream)
        finally:
            upstream.release()

    async def _ask(self, arm: str, method: str, path: str, headers: Any, body: Any) -> ClientResponse:
        from yarl import URL

        assert self._session is not None
        url = URL(self.upstreams[arm] + path, encoded=True)
        skipped = ("User-Agent", "Accept", "Accept-Encoding", "Content-Type")
        return await self._session.request(method, url, headers=headers, data=body, allow_redirects=False, skip_auto_headers=skipped)

    async def _relay(self, request: web.BaseRequest, arm: str, upstream: ClientResponse) -> web.StreamResponse:
        """The answer as it comes. One that breaks off upstream breaks off for the client too: half an answer must not look whole."""
        from aiohttp import ClientError, web
        from multidict import CIMultiDict

        headers = CIMultiDict((name, value) for name, value in upstream.headers.items() if name.lower() not in HOP_BY_HOP)
        headers[ARM_HEADER] = arm
        response = web.StreamResponse(status=upstream.status, reason=upstream.reason, headers=headers)
        if upstream.content_length is None and request.version >= (1, 1) and request.method != "HEAD":
            response.enable_chunked_encoding()
        try:
            first = await upstream.content.readany()
            if upstream.content_length is not None and len(first) == upstream.content_length and request.method != "HEAD":
                headers.popall("Content-Length", None)
                self.counts.answered[arm] += 1
                return web.Response(status=upstream.status, reason=upstream.reason, headers=headers, body=first)
            await response.prepare(request)
            while first:
                await response.write(first)
                first = await upstream.content.readany()
        except (ClientError, asyncio.TimeoutError) as error:
            self.counts.broken[arm] += 1
            if not response.prepared:
                return web.Response(
                    status=502, text=json.dumps({"error": f"{arm} broke off", "kind": type(error).__name__}), headers={ARM_HEADER: arm}
                )
            if request.transport is not None:
                request.transport.abort()
            return response
        except ConnectionError:
            self.counts.aborted_by_client += 1
            upstream.close()
            return response
        await response.write_eof()
        self.counts.answered[arm] += 1
        return response

    # -- shadow --------------------------------------------------------------------------------

    def _copy(self, method: str, path: str, headers: Any, kept: list[bytes]) -> None:
        if len(self._copies) >= MOST_COPIES or sum(map(len, kept)) > LARGEST_COPY:
            self.counts.shadows_left_out += 1
            return
        copy = asyncio.create_task(self._send_copy(method, path, headers, b"".join(kept)))
        self._copies.add(copy)
        copy.add_done_callback(self._copies.discard)

    async def _send_copy(self, method: str, path: str, headers: Any, body: bytes) -> None:
        from aiohttp import ClientError

        self.counts.shadows_sent += 1
        try:
            answer = await self._ask("candidate", method, path, headers, body or None)
            async for _ in answer.content.iter_chunked(1 << 16):
                pass
            self.counts.shadows_answered += 1
        except (ClientError, asyncio.TimeoutError, OSError):
            self.counts.failed["candidate"] += 1

    # -- health and administration -------------------------------------------------------------

    async def _watch_health(self) -> None:
        while True:
            for arm in ("baseline", "candidate"):
                self.healthy[arm] = await self._is_healthy(arm)
            await asyncio.sleep(self.health_every_s)

    async def _is_healthy(self, arm: str) -> bool:
        from aiohttp import ClientError, ClientTimeout

        assert self._session is not None and self.health_path is not None
        try:
            async with self._session.get(self.upstreams[arm] + self.health_path, timeout=ClientTimeout(total=self.connect_timeout_s)) as answer:
                return answer.status < 500
        except (ClientError, asyncio.TimeoutError, OSError):
            return False

    def status(self) -> dict[str, Any]:
        """Plan, health and counts, as the admin endpoint tells them."""
        return {"mode": self.plan.mode, "weight": self.plan.weight, "healthy": dict(self.healthy), "counts": vars(self.counts)}

    async def _administer(self, request: web.BaseRequest) -> web.StreamResponse:
        """``GET /status`` and ``PUT /plan {"mode": ..., "weight": ...}``, from loopback, with the token."""
        from aiohttp import web

        if not _from_loopback(request.remote):
            return web.json_response({"error": "the admin endpoint answers this machine only"}, status=403)
        given = request.headers.get("Authorization", "")
        if not hmac.compare_digest(given.encode("utf-8", "surrogateescape"), f"Bearer {self.token}".encode()):
            return web.json_response({"error": "send Authorization: Bearer TOKEN"}, status=401)
        if request.method == "GET" and request.path == "/status":
            return web.json_response(self.status())
        if request.method == "PUT" and request.path == "/plan":
            try:
                asked = json.loads(await request.read())
                self.set(Plan(mode=asked.get("mode", self.plan.mode), weight=asked.get("weight", self.plan.weight)))
            except (ValueError, AttributeError):
                return web.json_response({"error": 'send JSON such as {"weight": 0.05}'}, status=400)
            except BadInput as error:
                return web.json_response({"error": str(error)}, status=400)
            return web.json_response(self.status())
        return web.json_response({"error": "GET /status or PUT /plan"}, status=404)


# -- inside -----------------------------------------------------------------------------------


def _base(url: str) -> str:
    if not url.startswith(("http://", "https://")):
        raise BadInput("an upstream is not an HTTP address", url, allowed="http://HOST:PORT or https://HOST")
    return url.rstrip("/")


def _forwarded(request: web.BaseRequest) -> Any:
    """The request's headers as they go upstream: hop-by-hop ones and those that ``Connection`` names left out."""
    from multidict import CIMultiDict

    named = {part.strip().lower() for value in request.headers.getall("Connection", ()) for part in value.split(",")}
    left_out = HOP_BY_HOP | named | {"host", "expect"}
    headers = CIMultiDict((name, value) for name, value in request.headers.items() if name.lower() not in left_out)
    came_by = headers.get("X-Forwarded-For")
    headers["X-Forwarded-For"] = f"{came_by}, {request.remote}" if came_by else str(request.remote)
    headers.setdefault("X-Forwarded-Host", request.headers.get("Host", ""))
    return headers


async def _through(request: web.BaseRequest, kept: Optional[list[bytes]]) -> AsyncIterator[bytes]:
    """The body chunk by chunk; ``kept`` gets a copy, up to one byte more than may be kept."""
    size = 0
    async for chunk in request.content.iter_any():
        if kept is not None and size <= LARGEST_COPY:
            kept.append(chunk)
            size += len(chunk)
        yield chunk


def _from_loopback(remote: Optional[str]) -> bool:
    try:
        return ipaddress.ip_address((remote or "").partition("%")[0]).is_loopback
    except ValueError:
        return False


async def _ended(task: asyncio.Task[None]) -> None:
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
