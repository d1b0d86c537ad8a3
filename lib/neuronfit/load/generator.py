"""Sending requests and keeping what happens to each: open loop by a schedule, closed loop by requests in flight.

The loop runs in a thread of its own, so that it works inside a notebook, draws its progress elsewhere and can be
stopped with Ctrl-C without losing an answer. In an open loop a second thread does nothing but wait for the next
due time: asyncio's own timers round up to a millisecond, a thread is about ten times as exact.

    requests, schedule -> open_loop -> list of Response
"""

from __future__ import annotations

import asyncio
import gc
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Optional

__all__ = ["Control", "Request", "Response", "Sent", "closed_loop", "open_loop", "run"]

Send = Callable[["Request", "Response"], Awaitable[None]]
"""Sends one request and fills in its response; an exception is recorded as the response's error."""

LEAD_S = 0.02
"""Time between starting a run and its first possible request."""

INTERRUPTED = "interrupted"

CYCLES_IDLE, CYCLES_BUSY = 5_000, 20_000
"""Containers made and not freed since the last sweep at which the youngest are swept: while no request is in flight, and at any time."""


@dataclass(frozen=True)
class Request:
    """What is asked: ``prompt`` numbers the text (equal numbers, equal texts)."""

    prompt: int
    text: str = ""
    texts: tuple[str, ...] = ()
    output_length: Optional[int] = None


@dataclass(slots=True)
class Response:
    """What became of one request; times of ``time.perf_counter``, seconds.

    ``started``: the client was told to send. ``sent``: the headers were written. ``chunks``: when each chunk that
    carries text arrived; ``end`` is the last of them, or the end of an answer that is not streamed.
    """

    number: int
    prompt: int
    intended: float
    started: Optional[float] = None
    sent: Optional[float] = None
    chunks: list[float] = field(default_factory=list)
    end: Optional[float] = None
    input_tokens: Optional[int] = None
    output_tokens: Optional[int] = None
    counted_by_server: bool = False
    waited_for_connection: bool = False
    text: Optional[str] = None
    error: Optional[str] = None

    @property
    def first(self) -> Optional[float]:
        return self.chunks[0] if self.chunks else None

    @property
    def answered(self) -> bool:
        return self.end is not None and self.error is None


@dataclass
class Control:
    """The handle on a running load: what it has done so far, and how to stop it."""

    most_in_flight: int = 0
    in_flight: int = 0
    started: int = 0
    finished: int = 0
    interrupted: bool = False
    overloaded: bool = False
    stopped: threading.Event = field(default_factory=threading.Event)
    _cancel: Optional[Callable[[], None]] = None

    def stop(self) -> None:
        """No further request, and those in flight are given up."""
        self.stopped.set()
        if self._cancel is not None:
            self._cancel()


@dataclass(frozen=True)
class Sent:
    """One finished load: responses in the order in which they were due, from ``begin`` to ``end`` on the clock."""

    responses: tuple[Response, ...]
    begin: float
    end: float
    window_s: float
    """time in which requests were due, seconds"""
    cpu_s: float
    """CPU time of the process"""
    busy: float
    """share of the time in which the thread that sends and receives was computing"""
    most_in_flight: int
    interrupted: bool
    overloaded: bool = False
    """given up because more requests were in flight than allowed"""


async def open_loop(
    send: Send,
    requests: Iterable[Request],
    offsets_s: Sequence[float],
    control: Control,
    *,
    window_s: float,
    drain_s: float = 60.0,
    most_in_flight: Optional[int] = None,
    keep: bool = True,
) -> tuple[list[Response], float]:
    """Start request i at ``offsets_s[i]``, whatever has become of the earlier ones; (responses, begin).

    After the last one ``drain_s`` are waited for answers; what is still open then is lost: neither ``end`` nor ``error``.
    With ``most_in_flight`` the load is given up when the server falls that far behind. ``requests`` are taken one by one, each before
    it is due, from another thread. Without ``keep`` no response outlives its request, and none is returned: for loads of hours.
    """
    loop = asyncio.get_running_loop()
    begin = time.perf_counter() + LEAD_S
    responses: list[Response] = []
    tasks: set[asyncio.Task[None]] = set()
    all_started = asyncio.Event()
    unmade: list[BaseException] = []
    control._cancel = lambda: loop.call_soon_threadsafe(_cancel_all, tasks)

    def start(request: Request, response: Response) -> None:
        task = loop.create_task(_one(send, request, response, control))
        tasks.add(task)
        task.add_done_callback(tasks.discard)
        if most_in_flight is not None and control.in_flight > most_in_flight and not control.stopped.is_set():
            control.overloaded = True
            control.stopped.set()
            _cancel_all(tasks)

    def metronome() -> None:
        try:
            for number, (request, offset) in enumerate(zip(requests, offsets_s)):
                response = Response(number, request.prompt, begin + float(offset))
                while (left := response.intended - time.perf_counter()) > 0:
                    if control.stopped.wait(left):
                        break
                if control.stopped.is_set():
                    break
                if keep:
                    responses.append(response)
                loop.call_soon_threadsafe(start, request, response)
        except BaseException as error:  # a request that cannot be made is the caller's error, raised below
            unmade.append(error)
        loop.call_soon_threadsafe(all_started.set)

    clock = threading.Thread(target=metronome, name="neuronfit-schedule", daemon=True)
    clock.start()
    await all_started.wait()
    left = begin + window_s - time.perf_counter()
    waiting = set(tasks)
    if waiting:
        await asyncio.wait(waiting, timeout=max(0.0, left) + drain_s)
    await _give_up(tasks)
    clock.join()
    if unmade:
        raise unmade[0]
    return [response for response in responses if response.started is not None or not control.stopped.is_set()], begin


async def closed_loop(
    send: Send,
    requests: Iterator[Request],
    control: Control,
    *,
    concurrency: int = 1,
    duration_s: float,
    count: Optional[int] = None,
    give_up_after: int = 20,
) -> tuple[list[Response], float]:
    """Keep ``concurrency`` requests in flight for ``duration_s``, or until ``count`` were sent; (responses, begin).

    The next request is due when an earlier one is answered, so a stalled server is asked less often: latency from
    such a loop says nothing about waiting. After ``give_up_after`` failures in a row no more is sent.
    """
    loop = asyncio.get_running_loop()
    responses: list[Response] = []
    begin = time.perf_counter()
    failed_in_a_row = 0

    async def worker() -> None:
        nonlocal failed_in_a_row
        while not control.stopped.is_set() and (not responses or count is not None or time.perf_counter() - begin < duration_s):
            if failed_in_a_row >= give_up_after or (count is not None and len(responses) >= count):
                return
            request = next(requests, None)
            if request is None:
                return
            response = Response(len(responses), request.prompt, time.perf_counter())
            responses.append(response)
            await _one(send, request, response, control)
            failed_in_a_row = failed_in_a_row + 1 if response.error else 0

    tasks = {loop.create_task(worker()) for _ in range(concurrency)}
    control._cancel = lambda: loop.call_soon_threadsafe(_cancel_all, tasks)
    if control.stopped.is_set():
        _cancel_all(tasks)
    await asyncio.gather(*tasks, return_exceptions=True)
    return responses, begin


async def _one(send: Send, request: Request, response: Response, control: Control) -> None:
    response.started = time.perf_counter()
    control.started += 1
    control.in_flight += 1
    control.most_in_flight = max(control.most_in_flight, control.in_flight)
    try:
        await send(request, response)
    except asyncio.CancelledError:
        if control.stopped.is_set():
            response.error, response.end = response.error or INTERRUPTED, time.perf_counter()
        raise
    except Exception as error:  # whatever a client raises is this request's outcome
        response.error, response.end = one_line(error), time.perf_counter()
    finally:
        control.in_flight -= 1
        control.finished += 1


def one_line(error: BaseException) -> str:
    """Type and first line of an exception; one that calls itself ``plain`` is its own message."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    if lines and getattr(error, "plain", False):
        return lines[0][:300]
    return f"{type(error).__name__}: {lines[0] if lines else 'no message'}"[:300]


def _cancel_all(tasks: set[asyncio.Task[None]]) -> None:
    for task in list(tasks):
        task.cancel()


async def _give_up(tasks: set[asyncio.Task[None]]) -> None:
    waiting = set(tasks)
    _cancel_all(waiting)
    if waiting:
        await asyncio.wait(waiting)


# -- in a thread of its own -------------------------------------------------------------------


def run(
    load: Callable[[Control], Coroutine[Any, Any, tuple[list[Response], float]]],
    *,
    window_s: float,
    control: Optional[Control] = None,
    progress: Optional[Callable[[Control], None]] = None,
) -> Sent:
    """Run one load to its end and return what came of it.

    ``load`` is called with the :class:`Control` in the new thread's event loop. Ctrl-C stops the load, keeps every
    answer and is not raised again: the result says ``interrupted``. A second one goes through. The garbage collector
    does not run by itself meanwhile, since a collection of a large heap takes as long as a token: only the youngest
    objects are swept, once they are many (:data:`CYCLES_IDLE`), so that a load of hours does not pile up cycles.
    """
    control = control or Control()
    outcome: dict[str, Any] = {}

    def inside() -> None:
        try:
            outcome["answer"] = asyncio.run(_timed(load, control))
        except BaseException as error:  # carried to the caller's thread, raised there
            outcome["error"] = error
        finally:
            ended.set()

    ended = threading.Event()  # not Thread.join: interrupted, it may take a running thread for an ended one
    thread = threading.Thread(target=inside, name="neuronfit-load", daemon=True)
    collecting = gc.isenabled()
    gc.disable()
    try:
        thread.start()
        while not ended.is_set():
            try:
                ended.wait(0.1)
                if collecting:
                    _sweep(control)
                if progress is not None:
                    progress(control)
            except KeyboardInterrupt:
                if control.interrupted:
                    raise
                control.interrupted = True
                control.stop()
    finally:
        if collecting:
            gc.enable()
    if "error" in outcome:
        raise outcome["error"]
    (responses, begin), end, cpu_s, busy = outcome["answer"]
    return Sent(tuple(responses), begin, end, window_s, cpu_s, busy, control.most_in_flight, control.interrupted, control.overloaded)


def _sweep(control: Control) -> None:
    """Collect the youngest objects when many more were made than freed; what survives is not looked at again."""
    if gc.get_count()[0] > (CYCLES_BUSY if control.in_flight else CYCLES_IDLE):
        gc.collect(0)


async def _timed(load: Callable[[Control], Coroutine[Any, Any, Any]], control: Control) -> tuple[Any, float, float, float]:
    wall, process, thread = time.perf_counter(), time.process_time(), time.thread_time()
    answer = await load(control)
    end = time.perf_counter()
    spent = max(end - wall, 1e-9)
    return answer, end, time.process_time() - process, (time.thread_time() - thread) / spent
