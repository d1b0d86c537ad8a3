"""The inner loops, as plain Python that Numba compiles when they are first needed.

:func:`kernel` compiles a function by its name and keeps the machine code in the user's cache folder
(``NEURONFIT_CACHE``, else ``XDG_CACHE_HOME`` or ``~/.cache``), never beside the source, so a second
process starts at once. Where that folder cannot be written, it compiles again. Times are seconds from the
start of the window.
"""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from types import FunctionType
from typing import Any

import numpy as np

from neuronfit.errors import MissingPackage

__all__ = ["BUCKETS", "bucket_edges", "generate_loop", "kernel", "serve_loop"]

LOWEST_OCTAVE, OCTAVES, PER_OCTAVE = -31, 52, 256
BUCKETS = 1 + OCTAVES * PER_OCTAVE
"""A histogram of durations from 2^-32 s to 2^20 s, each bucket under 0.4 % wide; the first holds what is shorter."""


@lru_cache(maxsize=1)
def bucket_edges() -> np.ndarray:
    """Lower edges of the buckets and the upper one of the last, s; (BUCKETS + 1,)."""
    steps = np.arange(OCTAVES * PER_OCTAVE + 1)
    octave, within = np.divmod(steps, PER_OCTAVE)
    return np.concatenate([[0.0], np.ldexp(0.5 + within / (2 * PER_OCTAVE), octave + LOWEST_OCTAVE)])


@lru_cache(maxsize=None)
def kernel(name: str) -> Callable[..., Any]:
    """The compiled loop. Raises :class:`~neuronfit.errors.MissingPackage` where Numba is not installed."""
    try:
        import numba
    except ImportError:
        raise MissingPackage("the simulator needs a package that is not installed", "numba", next='pip install "neuronfit[workbook]"') from None
    loop = {"serve": serve_loop, "generate": generate_loop}[name]
    sift = numba.njit(nogil=True, inline="always")(_sift_down)
    loop = FunctionType(loop.__code__, {**loop.__globals__, "_sift_down": sift}, loop.__name__)
    folder = Path(os.environ.get("NEURONFIT_CACHE") or Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "neuronfit")
    before = numba.config.CACHE_DIR
    if sys.stderr.isatty() and not any(folder.rglob(f"compiled.{loop.__name__}*.nbi")):
        print("compiling the simulator: a few seconds, once on this host", file=sys.stderr)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        numba.config.CACHE_DIR = str(folder)
        return numba.njit(cache=True, nogil=True)(loop)
    except (OSError, RuntimeError):
        return numba.njit(nogil=True)(loop)
    finally:
        numba.config.CACHE_DIR = before


def _sift_down(free: np.ndarray, load: np.ndarray, count: int, at: float, size: int) -> None:
    """Put (``at``, ``size``) in the place of the top of a heap of ``count``; compiled into the loops, which call it once a batch."""
    place = 0
    while True:
        child = 2 * place + 1
        if child >= count:
            break
        if child + 1 < count and free[child + 1] < free[child]:
            child += 1
        if free[child] >= at:
            break
        free[place], load[place] = free[child], load[child]
        place = child
    free[place], load[place] = at, size


def serve_loop(
    arrivals: np.ndarray,  # (n,) s, ascending
    factors: np.ndarray,  # (n,) or (0,): a batch takes its table latency times the factor of its first request
    last: bool,  # no more arrivals follow
    table_s: np.ndarray,  # (b,) latency of a batch of 1..b
    delay_s: float,  # how long the oldest request may wait for a batch to fill
    workers: int,  # per instance
    free: np.ndarray,  # heap of the times at which workers become free; the first state[0] entries are in use
    load: np.ndarray,  # requests in the batch that the worker at the same place of the heap is on, or was last
    change_s: np.ndarray,  # times at which instances come or go
    change: np.ndarray,  # +k instances become ready, -k drain; +k with failed > 0 is a failure of k
    failed: np.ndarray,  # True where the instances are lost at once, with what they are working on
    state: np.ndarray,  # int64: workers in the heap, workers still to drain, next change, requests seen
    skip: int,  # requests that are served but not counted (start of a stretch)
    bound_s: float,  # latency objective, inf: none
    of_wait: bool,  # the histogram is of waiting, not of latency
    histogram: np.ndarray,  # int64 (BUCKETS,)
    bin_s: float,
    bins: np.ndarray,  # float64 (bins, 4): requests, missed, busy worker seconds, waiting seconds, by arrival
    totals: np.ndarray,  # float64: waiting, latency, busy worker seconds, batches, requests, missed, lost, last completion
) -> int:
    """First in first out over one queue, any number of workers, dynamic batching. Returns how many arrivals were used up.

    A batch starts when a worker is free and either the batch is full or its oldest request has waited ``delay_s``;
    it takes what has arrived by then. That makes batches form in the order of arrival, so no event list is needed.
    """
    count, most = arrivals.shape[0], table_s.shape[0]
    changes, bin_count = change_s.shape[0], bins.shape[0]
    head = 0
    while head < count:
        full_at = arrivals[head + most - 1] if head + most - 1 < count else np.inf
        ready = min(arrivals[head] + delay_s, full_at)
        while True:
            begin = max(ready, free[0]) if state[0] > 0 else np.inf
            if state[2] >= changes or change_s[state[2]] > begin:
                break
            at, by = change_s[state[2]], change[state[2]]
            if by > 0 and failed[state[2]]:
                for _ in range(by * workers):
                    if state[0] > 0:  # the last of the heap: any one of them
                        state[0] -= 1
                        if free[state[0]] > at:
                            totals[6] += load[state[0]]
            elif by > 0:
                for _ in range(by * workers):
                    if state[1] > 0:
                        state[1] -= 1
                        continue
                    place = state[0]
                    state[0] += 1
                    while place > 0 and free[(place - 1) // 2] > at:
                        free[place], load[place] = free[(place - 1) // 2], load[(place - 1) // 2]
                        place = (place - 1) // 2
                    free[place], load[place] = at, 0
            else:
                state[1] -= by * workers
            state[2] += 1
            while state[1] > 0 and state[0] > 0:  # drain those that are free first
                state[0] -= 1
                state[1] -= 1
                _sift_down(free, load, state[0], free[state[0]], load[state[0]])
        if begin == np.inf:  # no worker now or ever again: what is left waits for ever
            for place in range(head, count):
                totals[4] += 1
                totals[5] += 1
                slot = min(int(arrivals[place] / bin_s), bin_count - 1)
                bins[slot, 0] += 1
                bins[slot, 1] += 1
            return count
        size = 1
        while size < most and head + size < count and arrivals[head + size] <= begin:
            size += 1
        if size < most and not last and head + size >= count:
            return head  # more may arrive in time
        service = table_s[size - 1]
        if factors.shape[0] > 0:
            service *= factors[head]
        end = begin + service
        _sift_down(free, load, state[0], end, size)
        for place in range(head, head + size):
            state[3] += 1
            if state[3] <= skip:
                continue
            arrived = arrivals[place]
            wait, latency = begin - arrived, end - arrived
            slot = min(int(arrived / bin_s), bin_count - 1)
            totals[0] += wait
            totals[1] += latency
            totals[4] += 1
            bins[slot, 0] += 1
            bins[slot, 3] += wait
            if latency > bound_s:
                totals[5] += 1
                bins[slot, 1] += 1
            mantissa, exponent = math.frexp(wait if of_wait else latency)
            bucket = (exponent - LOWEST_OCTAVE) * PER_OCTAVE + int((mantissa - 0.5) * (2 * PER_OCTAVE)) + 1
            histogram[0 if mantissa <= 0 else max(0, min(bucket, BUCKETS - 1))] += 1
        if state[3] > skip:
            totals[2] += service
            totals[3] += 1
            bins[min(int(arrivals[head] / bin_s), bin_count - 1), 2] += service
            totals[7] = max(totals[7], end)
        head += size
    return count


def generate_loop(
    arrivals: np.ndarray,  # (n,) s, ascending
    prompt: np.ndarray,  # (n,) input tokens
    output: np.ndarray,  # (n,) output tokens, at least 1
    step_s: np.ndarray,  # (slots,) time of one decode step with 1..slots sequences
    prefill_s: float,  # per input token, in which the other sequences of the copy stand still
    cache_tokens: float,  # tokens that a copy's key-value cache holds
    copies: int,  # copies of the model per instance
    instances: np.ndarray,  # (m,) instances ready from change_s on; those with the highest number drain first
    change_s: np.ndarray,  # (m,) s, the first at or before the first arrival
    skip: int,
    ttft_bound_s: float,
    tpot_bound_s: float,
    latency_bound_s: float,
    bin_s: float,
    bins: np.ndarray,  # (bins, 4): requests, missed, busy copy seconds (by completion), waiting
    first: np.ndarray,  # (n,) out: time to first token, s; nan where it never fits
    per_token: np.ndarray,  # (n,) out: time per output token after the first, s; 0 for one token
    latency: np.ndarray,  # (n,) out: arrival to last token, s
    totals: np.ndarray,  # float64: waiting, latency, busy copy seconds, output tokens, requests, missed, never fits, last completion
) -> int:
    """Continuous batching: a request joins a copy as soon as a slot and room for its prompt and output are free.

    One queue, first in first out; a request goes to the copy with the fewest sequences. Its prompt stops the others of that copy for
    ``prefill_s`` x tokens; then each sequence gets one token per step of ``step_s[k - 1]``, k sequences at work.
    """
    count, slots = arrivals.shape[0], step_s.shape[0]
    most = 0
    for number in instances:
        most = max(most, number)
    replicas = most * copies
    left = np.zeros((replicas, slots))  # tokens still to come
    who = np.zeros((replicas, slots), np.int64)
    busy = np.zeros(replicas, np.int64)
    used = np.zeros(replicas)
    clock = np.zeros(replicas)  # up to when tokens are counted
    event = np.full(replicas, np.inf)  # next completion
    width = max(4, int(math.sqrt(replicas)))
    blocks = (replicas + width - 1) // width  # copies are looked through by blocks: a fleet of thousands has one event at a time
    block_event = np.full(blocks, np.inf)  # soonest of a block
    block_busy = np.zeros(blocks, np.int64)  # fewest of a block
    head, period, bin_count = 0, 0, bins.shape[0]
    while True:
        # the next completion
        soonest, when = -1, np.inf
        soonest_block = -1
        for block in range(blocks):
            if block_event[block] < when:
                soonest_block, when = block, block_event[block]
        if soonest_block >= 0:
            soonest = soonest_block * width
            while event[soonest] > when:
                soonest += 1
        # can the head of the queue start now?
        room_at, chosen = np.inf, -1
        if head < count:
            need = prompt[head] + output[head]
            if need > cache_tokens:
                first[head], per_token[head], latency[head] = np.nan, np.nan, np.nan
                if head >= skip:
                    totals[4] += 1
                    totals[5] += 1
                    totals[6] += 1
                    slot = min(int(arrivals[head] / bin_s), bin_count - 1)
                    bins[slot, 0] += 1
                    bins[slot, 1] += 1
                head += 1
                continue
            now = max(arrivals[head], totals[7])
            while period + 1 < change_s.shape[0] and change_s[period + 1] <= now:
                period += 1
            fewest, ready = slots, instances[period] * copies
            for block in range((ready + width - 1) // width):
                if block_busy[block] >= fewest:
                    continue
                for replica in range(block * width, min((block + 1) * width, ready)):
                    if busy[replica] < fewest and used[replica] + need <= cache_tokens:
                        chosen, fewest = replica, busy[replica]
            if chosen >= 0:
                room_at = now
            elif soonest < 0 or (period + 1 < change_s.shape[0] and change_s[period + 1] < when):
                if period + 1 >= change_s.shape[0]:
                    for place in range(head, count):  # no instance now or ever again
                        first[place], per_token[place], latency[place] = np.nan, np.nan, np.nan
                        totals[4] += 1
                        totals[5] += 1
                        totals[6] += 1
                    return count
                totals[7] = change_s[period + 1]
                continue
        if soonest < 0 and chosen < 0:
            return count
        replica = chosen if room_at <= when else soonest
        at = min(room_at, when)
        # bring the copy up to this moment
        if busy[replica] > 0 and at > clock[replica]:
            passed = (at - clock[replica]) / step_s[busy[replica] - 1]
            for slot in range(busy[replica]):
                left[replica, slot] -= passed
            totals[2] += at - clock[replica]
        if busy[replica] == 0 or at > clock[replica]:
            clock[replica] = at
        totals[7] = at
        if room_at <= when:
            place = busy[replica]
            who[replica, place], left[replica, place] = head, output[head] - 1
            busy[replica] += 1
            used[replica] += prompt[head] + output[head]
            stop = prompt[head] * prefill_s
            totals[2] += stop
            clock[replica] += stop
            first[head] = clock[replica] - arrivals[head]
            wait = at - arrivals[head]
            latency[head] = wait  # for the moment
            head += 1
        else:
            slot = 0
            while slot < busy[replica]:
                if left[replica, slot] <= 1e-6:
                    done = who[replica, slot]
                    wait, total = latency[done], max(at, clock[replica]) - arrivals[done]
                    latency[done] = total
                    per_token[done] = (total - first[done]) / (output[done] - 1) if output[done] > 1 else 0.0
                    used[replica] -= prompt[done] + output[done]
                    busy[replica] -= 1
                    left[replica, slot], who[replica, slot] = left[replica, busy[replica]], who[replica, busy[replica]]
                    if done >= skip:
                        totals[0] += wait
                        totals[1] += total
                        totals[3] += output[done]
                        totals[4] += 1
                        bin_of = min(int(arrivals[done] / bin_s), bin_count - 1)
                        bins[bin_of, 0] += 1
                        bins[bin_of, 3] += wait
                        if first[done] > ttft_bound_s or per_token[done] > tpot_bound_s or total > latency_bound_s:
                            totals[5] += 1
                            bins[bin_of, 1] += 1
                else:
                    slot += 1
        if busy[replica] > 0:
            least = np.inf
            for slot in range(busy[replica]):
                least = min(least, left[replica, slot])
            event[replica] = clock[replica] + max(0.0, least) * step_s[busy[replica] - 1]
        else:
            event[replica] = np.inf
        block = replica // width
        block_event[block], block_busy[block] = np.inf, slots
        for other in range(block * width, min((block + 1) * width, replicas)):
            block_event[block] = min(block_event[block], event[other])
            block_busy[block] = min(block_busy[block], busy[other])
    return count
