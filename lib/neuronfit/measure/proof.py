"""Does the clock stop when the work is done? And what does the harness itself take?"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Optional

from neuronfit.record import ClockProof
from neuronfit.stats import median

__all__ = ["AGREE", "LEAST_DOUBLE", "overhead", "prove"]

AGREE = 1.25
"""A call with its answer read on the host may take this many times as long as one without: below, they agree."""

LEAST_DOUBLE = 1.3
"""Two calls take at least this many times as long as one. Launches that overlap stay well above it."""

REPEATS = 5
EMPTY_CALLS = 201


class _Empty:
    """A target that does nothing: what is timed is the harness."""

    def issue(self) -> None: ...

    def drain(self) -> None: ...


def overhead(clock: Callable[[], float], timed_call: Callable[[Any, Callable[[], float]], tuple[float, Optional[str]]]) -> float:
    """Seconds that the harness adds to one call: the median of calls to an empty target, timed as real ones are."""
    empty = _Empty()
    return median([timed_call(empty, clock)[0] for _ in range(EMPTY_CALLS)])


def prove(target: Any, clock: Callable[[], float], time_s: float) -> Optional[ClockProof]:
    """Time one call, one call with its answer read, and two calls behind one wait; the quickest of up to five each.

    *With and without read-back agree*: where ``drain`` does not wait, reading the answer does, and the
    call is a ``dispatch_only`` one. What reading costs when nothing is pending is taken off.
    *Twice the work takes about twice the time*: where it takes as long as once, the clock does not
    see the work, or the second call replaced the first (``unproven``).

    A target offers its answer by ``read_back`` (a method that fetches from the device) or ``outputs``.
    Repeats until ``time_s`` is spent, once at least. ``None`` where a call fails; that is found out
    again, and recorded, by the timed calls.
    """
    read = getattr(target, "read_back", None) or getattr(target, "outputs", None)
    singles: list[float] = []
    doubles: list[float] = []
    reads: list[float] = []
    try:
        if read is not None:
            _touch(read())  # whatever the warm-up left over
        begin = clock()
        while not singles or (len(singles) < REPEATS and clock() - begin < time_s):
            start = clock()
            target.issue()
            target.drain()
            singles.append(clock() - start)
            if read is not None:
                _touch(read())
                done = clock()
                _touch(read())
                reads.append(max(0.0, (done - start) - (clock() - done)))
            start = clock()
            target.issue()
            target.issue()
            target.drain()
            doubles.append(clock() - start)
            if read is not None:
                _touch(read())  # so that nothing is left over for the next repeat
    except KeyboardInterrupt:
        raise
    except Exception as error:  # any device raises its own; the timed calls find it again and record it
        del error
        return None
    single, double, read_back = min(singles), min(doubles), min(reads, default=None)
    verdict, because = _verdict(single, double, read_back)
    return ClockProof(single_s=single, double_s=double, read_back_s=read_back, repeats=len(singles), verdict=verdict, because=because)


def _verdict(single: float, double: float, read_back: Optional[float]) -> tuple[str, str]:
    if single <= 0:
        return "unproven", "a call takes less than the clock can tell"
    times = f"two calls take {double / single:.2f} times as long as one"
    if read_back is not None and read_back > AGREE * single:
        ratio = read_back / single
        return "dispatch_only", f"reading the answer makes a call {ratio:.3g} times as long: the clock stops before the work is done"
    if double < LEAST_DOUBLE * single:
        return "unproven", f"{times}, about 2 is expected: the clock does not see the work"
    if read_back is None:
        return "proven", f"{times}; this target offers no answer to read"
    return "proven", f"{times}, with its answer read a call takes {read_back / single:.2f} times as long"


def _touch(answers: Any) -> None:
    """Look at one element of each answer: an array that is not there yet has to come."""
    for one in answers if isinstance(answers, (tuple, list)) else ():
        flat = getattr(one, "reshape", None)
        if flat is not None and getattr(one, "size", None) is not None:
            last = flat(-1)[-1:]
            if hasattr(last, "tolist"):
                last.tolist()
