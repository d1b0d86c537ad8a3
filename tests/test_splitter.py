"""The splitter between real HTTP servers on loopback: who answers, what passes through, what is never done."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import hashlib
import io
import json
import random
from collections import Counter
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from neuronfit.errors import BadInput
from neuronfit.splitter import ARM_HEADER, LARGEST_COPY, Plan, Splitter, arm_of
from neuronfit.splitter import run as on_the_loop
from yarl import URL

TOKEN = "open-sesame"


class Upstream:
    """A server that says who it is, what it was asked, and misbehaves when the path says so."""

    def __init__(self, name: str, delay_s: float = 0.0):
        self.name, self.delay_s = name, delay_s
        self.seen: list[str] = []
        self.bodies: list[bytes] = []
        self.headers: list[Any] = []
        self.url = ""

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        self.headers.append(request.headers)
        body = b"".join([chunk async for chunk in request.content.iter_any()])
        self.bodies.append(body)
        number = request.headers.get("X-Number", "")
        self.seen.append(number)
        if self.delay_s:
            await asyncio.sleep(self.delay_s)
        if request.path == "/reset":
            request.transport.abort()
            return web.Response()
        if request.path in ("/stream", "/half"):
            response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
            response.enable_chunked_encoding()
            await response.prepare(request)
            for part in range(5):
                if request.path == "/half" and part == 3:
                    request.transport.abort()
                    return response
                await response.write(f"data: {self.name} {number} {part}\n\n".encode())
                await asyncio.sleep(0.02)
            await response.write_eof()
            return response
        if request.path == "/gzip":
            return web.Response(body=gzip.compress(b"packed " * 99, mtime=0), headers={"Content-Encoding": "gzip", "X-Twice": "a"})
        if request.path == "/moved":
            return web.Response(status=302, headers={"Location": "/elsewhere"})
        if request.path == "/large":
            return web.Response(body=number.encode().ljust(8, b".") * 40_000)
        if request.path == "/health":
            return web.Response(status=503 if self.name == "sick" else 200)
        digest = hashlib.sha256(body).hexdigest()[:12]
        return web.json_response({"by": self.name, "number": number, "path": request.raw_path, "method": request.method, "body": digest})

    async def __aenter__(self) -> "Upstream":
        self._runner = web.ServerRunner(web.Server(self.handle, access_log=None), shutdown_timeout=0.2)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self.url = "http://{}:{}".format(*self._runner.addresses[0])
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._runner.cleanup()


@contextlib.asynccontextmanager
async def setting(*, second: str = "candidate", delay_s: float = 0.0, **options: Any):
    async with Upstream("baseline") as baseline, Upstream(second, delay_s) as candidate:
        async with Splitter(baseline.url, candidate.url, **options) as splitter, aiohttp.ClientSession(auto_decompress=False) as client:
            yield baseline, candidate, splitter, client


def user_of(arm: str, weight: float) -> str:
    return next(f"user-{number}" for number in range(1000) if arm_of(f"user-{number}", weight, "neuronfit") == arm)


# -- who answers ------------------------------------------------------------------------------


def test_a_larger_weight_adds_keys_and_moves_none_back():
    keys = [f"user-{number}" for number in range(20_000)]
    chosen = {weight: {key for key in keys if arm_of(key, weight) == "candidate"} for weight in (0.0, 0.01, 0.05, 0.25, 0.5, 1.0)}
    for weight, some in chosen.items():
        assert len(some) == pytest.approx(weight * len(keys), abs=4 * (len(keys) * weight * (1 - weight)) ** 0.5 + 1e-9)
    assert chosen[0.0] == set() and chosen[1.0] == set(keys)
    assert chosen[0.01] < chosen[0.05] < chosen[0.25] < chosen[0.5]


def test_the_hash_is_the_documented_one():
    part = int.from_bytes(hashlib.sha256(b"salt\0user-7").digest()[:8], "big") / 2**64
    assert arm_of("user-7", part + 1e-9, "salt") == "candidate"
    assert arm_of("user-7", part - 1e-9, "salt") == "baseline"


def test_users_stay_where_they_are_and_the_answer_says_who_gave_it():
    async def run() -> None:
        async with setting(plan=Plan(weight=0.3)) as (_, _, splitter, client):
            for number in range(40):
                user = f"user-{number}"
                for _ in range(2):
                    async with client.get(URL(f"{splitter.url}/v1?q=%2Fa%20b", encoded=True), headers={"X-User-Id": user}) as answer:
                        said = await answer.json()
                        assert said["by"] == answer.headers[ARM_HEADER] == arm_of(user, 0.3, "neuronfit")
                        assert said["path"] == "/v1?q=%2Fa%20b"

    on_the_loop(run())


# -- what passes through ----------------------------------------------------------------------


def test_bodies_headers_and_statuses_pass_unchanged():
    async def run() -> None:
        async with setting() as (baseline, _, splitter, client):
            large = random.Random(1).randbytes(300_000)

            async def chunks():
                for start in range(0, len(large), 7_000):
                    yield large[start : start + 7_000]

            for body in (large, chunks(), b"", b"small"):
                async with client.post(
                    f"{splitter.url}/echo", data=body, headers={"Connection": "X-Private", "X-Private": "1", "X-Kept": "2"}
                ) as answer:
                    assert answer.status == 200 and (await answer.json())["method"] == "POST"
            assert baseline.bodies == [large, large, b"", b"small"]
            sent = baseline.headers[0]
            assert "X-Private" not in sent and sent["X-Kept"] == "2" and sent["X-Forwarded-For"] == "127.0.0.1"
            async with client.get(f"{splitter.url}/gzip") as answer:
                assert answer.headers["Content-Encoding"] == "gzip" and gzip.decompress(await answer.read()) == b"packed " * 99
            async with client.get(f"{splitter.url}/moved", allow_redirects=False) as answer:
                assert answer.status == 302 and answer.headers["Location"] == "/elsewhere"
            async with client.head(f"{splitter.url}/echo") as answer:
                assert answer.status == 200 and int(answer.headers["Content-Length"]) > 0 and await answer.read() == b""
            async with client.post(f"{splitter.url}/echo", data=b"x" * 200_000, expect100=True) as answer:
                assert answer.status == 200

    on_the_loop(run())


def test_a_stream_arrives_while_it_is_being_written():
    async def run() -> None:
        async with setting() as (_, _, splitter, client):
            loop, times = asyncio.get_running_loop(), []
            async with client.get(f"{splitter.url}/stream", headers={"X-Number": "9"}) as answer:
                text = b""
                async for chunk in answer.content.iter_any():
                    times.append(loop.time())
                    text += chunk
            assert text == b"".join(f"data: baseline 9 {part}\n\n".encode() for part in range(5))
            assert len(times) >= 3 and times[-1] - times[0] > 0.04

    on_the_loop(run())


# -- what goes wrong --------------------------------------------------------------------------


def test_failures_are_told_apart_and_nothing_is_sent_twice():
    async def run() -> None:
        async with setting(timeout_s=0.3, plan=Plan(weight=1.0), delay_s=1.0) as (_, candidate, splitter, client):
            async with client.post(f"{splitter.url}/echo", data=b"slow") as answer:
                assert answer.status == 504 and "in time" in (await answer.json())["error"]
            assert candidate.bodies == [b"slow"]
        async with setting() as (baseline, _, splitter, client):
            async with client.post(f"{splitter.url}/reset", data=b"once") as answer:
                assert answer.status == 502
            assert baseline.bodies == [b"once"], "a POST that broke off is not sent again"
            for _ in range(2):  # the second time over a connection that was kept
                async with client.get(f"{splitter.url}/echo") as answer:
                    assert answer.status == 200
            before = len(baseline.bodies)
            async with client.post(f"{splitter.url}/reset", data=b"over a kept connection") as answer:
                assert answer.status == 502
            assert baseline.bodies[before:] == [b"over a kept connection"], "nor over a connection that was kept"
            with pytest.raises(aiohttp.ClientPayloadError):
                async with client.get(f"{splitter.url}/half") as answer:
                    await answer.read()
            assert splitter.counts.broken["baseline"] == 1 and splitter.counts.failed["baseline"] == 2
        async with Upstream("baseline") as baseline, Splitter(baseline.url, "http://127.0.0.1:9", plan=Plan(weight=1.0)) as splitter:
            async with aiohttp.ClientSession() as client, client.get(splitter.url) as answer:
                assert answer.status == 502 and answer.headers[ARM_HEADER] == "candidate"

    on_the_loop(run())


def test_an_unhealthy_candidate_gets_nothing_until_it_recovers():
    async def run() -> None:
        async with setting(second="sick", plan=Plan(weight=1.0), health_path="/health", health_every_s=0.05) as (_, sick, splitter, client):
            for _ in range(100):
                if splitter.healthy["candidate"] is not None:
                    break
                await asyncio.sleep(0.02)
            async with client.get(splitter.url) as answer:
                assert answer.headers[ARM_HEADER] == "baseline"
            sick.name = "well again"
            for _ in range(100):
                if splitter.healthy["candidate"]:
                    break
                await asyncio.sleep(0.02)
            async with client.get(splitter.url) as answer:
                assert answer.headers[ARM_HEADER] == "candidate"

    on_the_loop(run())


@pytest.mark.parametrize(("loop", "total"), [(on_the_loop, 8_000), (asyncio.run, 2_000)], ids=["uvloop", "asyncio"])
def test_chaos_loses_and_mixes_nothing(loop, total):
    """Requests with client aborts, upstream resets, half answers and slow readers, 64 at a time; each whole answer is its own."""

    async def run() -> None:
        generator = random.Random(4)
        kinds = generator.choices(["/echo", "/large", "/stream", "/reset", "/half", "abort", "slow reader"], [60, 8, 8, 4, 4, 10, 6], k=total)
        outcome: Counter[str] = Counter()
        async with setting(plan=Plan(weight=0.5)) as (baseline, candidate, splitter, _):
            connector = aiohttp.TCPConnector(limit=64)
            async with aiohttp.ClientSession(connector=connector) as client:

                async def one(number: int, kind: str) -> None:
                    path = {"abort": "/stream", "slow reader": "/large"}.get(kind, kind)
                    arm = arm_of(str(number), 0.5, "neuronfit")
                    headers = {"X-User-Id": str(number), "X-Number": str(number)}
                    body = str(number).encode() * generator.randint(1, 40)
                    try:
                        async with client.post(splitter.url + path, headers=headers, data=body) as answer:
                            if kind == "abort":
                                await answer.content.readany()
                                answer.close()
                                outcome["abort"] += 1
                                return
                            if kind == "slow reader":
                                await asyncio.sleep(0.05)
                            text = await answer.read()
                            status = answer.status
                    except aiohttp.ClientPayloadError:
                        assert kind == "/half", kind
                        outcome["/half"] += 1
                        return
                    if status == 502:
                        assert kind == "/reset", kind
                    elif path == "/echo":
                        said = json.loads(text)
                        assert (said["by"], said["number"], said["body"]) == (arm, str(number), hashlib.sha256(body).hexdigest()[:12])
                    elif path == "/large":
                        assert text == str(number).encode().ljust(8, b".") * 40_000
                    else:
                        assert text == b"".join(f"data: {arm} {number} {part}\n\n".encode() for part in range(5))
                    outcome[kind] += 1

                await asyncio.gather(*(one(number, kind) for number, kind in enumerate(kinds)))
            assert outcome == Counter(kinds)
            seen = Counter(baseline.seen) + Counter(candidate.seen)
            assert seen == Counter({str(number): 1 for number in range(total)}), "every request reached one side, once"
            assert sum(splitter.counts.asked.values()) == total
            assert sum(splitter.counts.failed.values()) == kinds.count("/reset") and sum(splitter.counts.broken.values()) == kinds.count("/half")

    loop(run())


# -- shadow -----------------------------------------------------------------------------------


def test_a_shadow_neither_delays_nor_changes_the_answer():
    async def run() -> None:
        async with setting(plan=Plan(mode="shadow"), delay_s=0.5) as (baseline, candidate, splitter, client):
            loop = asyncio.get_running_loop()
            begin = loop.time()
            for number in range(10):
                async with client.post(f"{splitter.url}/echo", data=b"copy me", headers={"X-Number": str(number)}) as answer:
                    assert (await answer.json())["by"] == "baseline"
            assert loop.time() - begin < 0.5, "ten answers came before the first shadow's"
            async with client.post(f"{splitter.url}/echo", data=io.BytesIO(b"z" * (LARGEST_COPY + 70_000))) as answer:
                assert answer.status == 200
            for _ in range(100):
                if splitter.counts.shadows_answered == 10:
                    break
                await asyncio.sleep(0.05)
            assert splitter.counts.shadows_answered == 10 and splitter.counts.shadows_left_out == 1
            assert candidate.bodies == [b"copy me"] * 10 and len(baseline.bodies) == 11

    on_the_loop(run())


def test_a_dead_shadow_is_nobodys_problem():
    async def run() -> None:
        async with Upstream("baseline") as baseline, Splitter(baseline.url, "http://127.0.0.1:9", plan=Plan(mode="shadow")) as splitter:
            async with aiohttp.ClientSession() as client, client.get(splitter.url) as answer:
                assert answer.status == 200
            await asyncio.sleep(0.1)
            assert splitter.counts.failed == {"baseline": 0, "candidate": 1}

    on_the_loop(run())


# -- administration ---------------------------------------------------------------------------


def test_the_admin_endpoint_asks_for_its_token():
    async def run() -> None:
        async with setting(token=TOKEN, plan=Plan(weight=0.0)) as (_, _, splitter, client):
            admin, bearer = splitter.admin_url, {"Authorization": f"Bearer {TOKEN}"}
            assert admin.startswith("http://127.0.0.1:")
            for headers in ({}, {"Authorization": TOKEN}, {"Authorization": "Bearer wrong"}, {"Authorization": "Bearer \xe9"}):
                async with client.put(f"{admin}/plan", json={"weight": 1.0}, headers=headers) as answer:
                    assert answer.status == 401
            assert splitter.plan.weight == 0.0
            async with client.put(f"{admin}/plan", json={"weight": 1.0}, headers=bearer) as answer:
                assert answer.status == 200 and (await answer.json())["weight"] == 1.0
            async with client.get(splitter.url) as answer:
                assert answer.headers[ARM_HEADER] == "candidate"
            for bad in (b'{"weight": 2}', b'{"weight": "much"}', b'{"mode": "both"}', b"[]", b"not json"):
                async with client.put(f"{admin}/plan", data=bad, headers=bearer) as answer:
                    assert answer.status == 400 and (await answer.json())["error"]
            async with client.get(f"{admin}/status", headers=bearer) as answer:
                assert (await answer.json())["counts"]["asked"] == {"baseline": 0, "candidate": 1}
            async with client.get(f"{splitter.url}/status", headers=bearer) as answer:
                assert (await answer.json())["by"] == "candidate", "the admin paths are not on the public port"
            assert len(splitter.changes) == 1

    on_the_loop(run())


def test_the_admin_endpoint_refuses_other_machines(monkeypatch):
    async def run() -> None:
        async with setting(token=TOKEN) as (_, _, splitter, client):
            monkeypatch.setattr(web.BaseRequest, "remote", property(lambda self: "192.0.2.7"))
            async with client.get(f"{splitter.admin_url}/status", headers={"Authorization": f"Bearer {TOKEN}"}) as answer:
                assert answer.status == 403

    on_the_loop(run())


def test_without_a_token_there_is_no_admin_endpoint():
    async def run() -> None:
        async with setting() as (_, _, splitter, _):
            assert splitter.admin_url == ""

    on_the_loop(run())


@pytest.mark.parametrize("plan", [{"mode": "both"}, {"weight": 1.5}, {"weight": -0.1}, {"weight": True}])
def test_a_plan_that_means_nothing_is_refused(plan):
    with pytest.raises(BadInput):
        Plan(**plan)


def test_a_taken_port_is_one_line():
    async def run() -> None:
        async with setting() as (baseline, candidate, splitter, _):
            taken = int(splitter.url.rpartition(":")[2])
            with pytest.raises(BadInput, match="cannot listen"):
                await Splitter(baseline.url, candidate.url).start(port=taken)

    on_the_loop(run())


def test_an_upstream_is_an_address():
    with pytest.raises(BadInput, match="HTTP address"):
        Splitter("localhost:8000", "http://127.0.0.1:1")
