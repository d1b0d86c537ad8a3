"""May a measurement be believed? VALID or INVALID, with every reason and what to do about it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Optional

from neuronfit import stats
from neuronfit.record import Finding, Run, Severity, Taken

__all__ = ["INVALID", "Seen", "judge"]

UNDISTURBED = 0.9
"""Share of the time a CPU computation wanted the CPU in which it had it; below, the host was disturbed."""

BUSY_WITH_OTHERS = 0.25
"""CPUs that everything else on the host used on average, over the CPUs that this measurement used: above, it is background load."""

SLOWER_CLOCK = 0.9
"""Clock of the last third of the runs over that of the first; below, something throttled."""

SHORTEST_S = 0.2
"""Timed calls together shorter than this say more about the scheduler than about the target."""

INVALID = frozenset(
    "call_failed call_exceeds_budget fewer_runs few_samples not_settled host_disturbed dispatch_only clock_unproven "
    "recompiled throttled too_short interrupted".split()
)
"""Codes that make a measurement INVALID; the others are remarks."""


@dataclass(frozen=True)
class Seen:
    """All that a judgement looks at. ``compilations``: graphs compiled so far, at the start and after each run."""

    runs: tuple[Run, ...]
    taken: Taken
    confidence: float = 0.95
    threads: Optional[int] = None
    compilations: tuple[Optional[int], ...] = ()
    slowed: tuple[str, ...] = ()

    @property
    def values(self) -> list[float]:
        return [value for run in self.runs for value in run.values_s]

    @property
    def call_s(self) -> float:
        return stats.median(self.values) if self.values else self.taken.budget_s


def judge(seen: Seen) -> tuple[Optional[bool], tuple[Finding, ...], frozenset[str]]:
    """(did it settle, findings, codes among them that make it INVALID)."""
    findings = [*_calls(seen), *_clock(seen)]
    settled: Optional[bool] = None
    if len(seen.values) >= stats.SETTLED_NEEDS:
        settled, why = _settled(seen.runs)
        if not settled:
            findings.append(_warning("not_settled", why, "measure again on a quiet host, or raise policy.budget_s"))
    findings += _host(seen)
    return settled, tuple(findings), INVALID & {finding.code for finding in findings}


def _warning(code: str, because: str, next: Optional[str] = None) -> Finding:
    return Finding(severity=Severity.WARNING, code=code, because=because, next=next)


def _calls(seen: Seen) -> Iterator[Finding]:
    """Calls that failed, too few, too long or too short."""
    values, taken = seen.values, seen.taken
    errors = [error for run in seen.runs for error in run.errors]
    needed = stats.samples_needed(0.5, seen.confidence)
    if errors:
        yield _warning("call_failed", f"{len(errors)} of {len(errors) + len(values)} calls failed, the first with {errors[0]}", "read the message")
    if taken.ended == "interrupted":
        yield _warning("interrupted", f"stopped by hand after {len(values)} timed calls in {len(seen.runs)} of {taken.rounds} runs", "measure again")
    if taken.ended == "one_call":
        because = f"one call takes {values[0]:.3g} s, the budget is {taken.budget_s:.3g} s"
        yield _warning("call_exceeds_budget", because, f"raise policy.budget_s to {_round_up(values[0] * needed * 1.1)} or more")
        return
    enough = f"raise policy.budget_s to {_round_up(seen.call_s * max(needed, taken.rounds) * 1.1)} or more"
    if len(seen.runs) < taken.rounds and taken.ended == "budget":
        because = f"the budget of {taken.budget_s:.3g} s was spent after {len(seen.runs)} of {taken.rounds} runs, one call takes {seen.call_s:.3g} s"
        yield _warning("fewer_runs", because, enough)
    if len(values) < needed:
        yield _warning("few_samples", f"{len(values)} timed call{'' if len(values) == 1 else 's'}; the interval of the median needs {needed}", enough)
    timed = sum(run.duration_s for run in seen.runs)
    if values and timed < SHORTEST_S and taken.ended != "interrupted":
        yield _warning("too_short", f"the timed calls took {timed:.2g} s together, {SHORTEST_S:g} s is the least", "raise policy.budget_s")


def _clock(seen: Seen) -> Iterator[Finding]:
    """What the proof of the clock says, and compilations among the timed calls."""
    clock = seen.taken.clock
    if clock is not None and clock.verdict == "dispatch_only":
        yield _warning("dispatch_only", clock.because, "make drain wait until the results lie in host memory")
    if clock is not None and clock.verdict == "unproven":
        yield _warning("clock_unproven", clock.because, "look for work that is replaced, cached or not waited for")
    if seen.call_s and (seen.taken.overhead_s or 0.0) > 0.02 * seen.call_s:
        because = f"the harness itself takes {seen.taken.overhead_s * 1e6:.3g} us of a call of {seen.call_s * 1e6:.3g} us"  # type: ignore[operator]
        yield _warning("harness_overhead", because, "use a larger batch; throughput and latency are those of the harness too")
    known = [count for count in seen.compilations if count is not None]
    if known and known[-1] > known[0]:
        because = f"{known[-1] - known[0]} graph{'s were' if known[-1] - known[0] > 1 else ' was'} compiled among the timed calls"
        yield _warning("recompiled", because, "find what changes from call to call, and measure again")


def _host(seen: Seen) -> Iterator[Finding]:
    """What the host did meanwhile."""
    undisturbed = _undisturbed(seen.runs, seen.threads)
    if undisturbed is not None and undisturbed < UNDISTURBED:
        because = (
            f"host was disturbed: the computation had a CPU for {undisturbed:.0%} of the time it wanted one, at least {UNDISTURBED:.0%} is expected"
        )
        yield _warning("host_disturbed", because, "stop what else runs on this host and measure again")
    known = [run for run in seen.runs if run.others_cpu_s is not None and run.cpu_s is not None and run.values_s]
    if known:
        wall, others, own = (sum(getattr(run, name) for run in known) for name in ("duration_s", "others_cpu_s", "cpu_s"))
        if wall > 0.5 and others > BUSY_WITH_OTHERS * max(own, wall):
            loads = [run.load_1min for run in known if run.load_1min is not None]
            load = f", load average {max(loads):.3g}" if loads else ""
            busy = f"{others / wall:.2g}"
            because = f"everything else on this host kept {busy} CPU{'' if busy == '1' else 's'} busy, this measurement {own / wall:.2g}{load}"
            yield _warning("background_load", because, "stop what else runs on this host and measure again")
    yield from _throttled(seen)


def _throttled(seen: Seen) -> Iterator[Finding]:
    """A clock that fell while it ran: the CPU's where the CPU computes, the accelerator's elsewhere."""
    field, what = ("cpu_clock_hz", "CPU") if seen.threads else ("accelerator_clock_hz", "accelerator")
    clocks = [value for run in seen.runs if (value := getattr(run, field))]
    third = max(1, len(clocks) // 3)
    if len(clocks) >= 3 and stats.median(clocks[-third:]) < SLOWER_CLOCK * stats.median(clocks[:third]):
        first, last = stats.median(clocks[:third]), stats.median(clocks[-third:])
        because = f"the {what} clock fell from {first / 1e6:,.0f} to {last / 1e6:,.0f} MHz while it was measured"
        yield _warning("throttled", because, "let it cool, or fix the clock, and measure again")
    heat = [reason for reason in seen.slowed if reason != "power cap"]
    if heat:
        yield _warning("throttled", f"the driver held the clock of the accelerator down: {', '.join(heat)}", "improve the cooling and measure again")
    elif seen.slowed:
        yield Finding(severity=Severity.NOTE, code="power_capped", because="the accelerator ran at its power limit, as it does under full load")


def _undisturbed(runs: Sequence[Run], threads: Optional[int]) -> Optional[float]:
    """Share of the wanted CPU time that was had, or ``None`` where that cannot be told.

    CPU time over CPU time plus time spent waiting for a CPU or, where the system does not count that, CPU
    time over wall time if there is one thread. CPU time over wall time says nothing about several
    threads, which also wait for each other.
    """
    computed = [run for run in runs if run.cpu_s]
    if not computed or not threads:
        return None
    cpu_s = sum(run.cpu_s or 0.0 for run in computed)
    known = [run.waited_s for run in computed if run.waited_s is not None]
    if len(known) == len(computed):
        return cpu_s / (cpu_s + sum(known))
    return cpu_s / sum(run.duration_s for run in computed) if threads == 1 else None


def _settled(runs: Iterable[Run]) -> tuple[bool, str]:
    """All values in order, then each run that is long enough; the first that is not at rest is the answer."""
    series = [tuple(value for run in runs for value in run.values_s)]
    series += [run.values_s for run in runs if len(run.values_s) >= 5 * stats.SETTLED_NEEDS]
    answers = [stats.settled(values) for values in series]
    return next((answer for answer in answers if not answer[0]), answers[0])


def _round_up(seconds: float) -> int:
    return max(1, int(seconds) + 1)
