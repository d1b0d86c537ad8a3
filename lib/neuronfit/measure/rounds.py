"""The protocol: several settings take turns, run by run, until their intervals are narrow or the budget is spent."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any, Optional

from neuronfit import stats, system
from neuronfit.measure import judgement, proof
from neuronfit.record import ClockProof, Finding, Run, Taken

if TYPE_CHECKING:
    from neuronfit.targets import BenchmarkTarget

__all__ = ["Clocks", "Outcome", "Plan", "Session", "Setting", "at_rest", "protocol", "timed_call"]

WARM_UP_SHARE = 0.25
"""The start-up may take this share of the budget (one call at least); the warm-up is not part of the budget."""

WARM_UP_LEAST_S = 0.2
"""Clocks of processors and accelerators rise within this time; no more than a fiftieth of the budget."""

AT_REST = 0.02
"""Warm: the last quarter of the calls is less than this fraction quicker than the quarter before."""

SLICES = 4
"""A run takes the budget over this many times the runs asked for, so that calm targets are left early
and others end with enough runs to tell how runs differ."""

CALLS_PER_RUN = 5
"""A run has as many calls as this where the budget allows it."""

PROOF_SHARE = 0.1
"""The proof of the clock may take this share of the budget (one repeat at least)."""

GIVE_UP_AFTER = 3
"""Failed calls in a row after which a target is not asked again."""


@dataclass(frozen=True)
class Clocks:
    """Seconds of wall time, of CPU time and of waiting for a CPU; only differences are used."""

    wall: Callable[[], float] = time.perf_counter
    cpu: Callable[[], float] = time.process_time
    wait: Callable[[], Optional[float]] = system.waited_for_cpu_s
    host: Callable[[], system.HostState] = system.host_state


@dataclass(frozen=True)
class Plan:
    """What is asked of a measurement. ``width``: half width of the interval at which it may stop, fraction; 0 spends the budget."""

    runs: int
    budget_s: float
    width: float = 0.05
    quantile: float = 0.5
    confidence: float = 0.95
    prove: bool = True

    @property
    def metric(self) -> str:
        return f"latency_p{self.quantile * 100:.0f}_s"


@dataclass(frozen=True)
class Outcome:
    """What came of a measurement: raw runs, and a judgement with its reasons."""

    runs: tuple[Run, ...]
    settled: Optional[bool]
    valid: bool
    validity: str
    findings: tuple[Finding, ...] = ()
    taken: Optional[Taken] = None


@dataclass
class Setting:
    """One target at one shape while it is measured. ``threads``: CPU threads that compute, ``None`` where another device does."""

    target: BenchmarkTarget
    label: str = ""
    threads: Optional[int] = None
    path: str = ""
    runs: list[Run] = field(default_factory=list)
    warm: list[float] = field(default_factory=list)
    warm_errors: list[str] = field(default_factory=list)
    warm_up: str = "cut_off"
    proof: Optional[ClockProof] = None
    spent_s: float = 0.0
    failed_in_a_row: int = 0
    compilations: list[Optional[int]] = field(default_factory=list)
    slowed: tuple[str, ...] = ()
    ended: str = ""


class Session:
    """Measure prepared settings in turns; one value is the time from before ``issue`` to after ``drain``, seconds.

    1. Warm up each setting until the last quarter of its calls is not quicker than the quarter before,
       for at most a quarter of ``budget_s``. The values are kept in the first run.
    2. Prove the clock of each setting (:func:`neuronfit.measure.proof.prove`).
    3. Rounds: every setting that has not ended takes one run, in reversed order every other round, so
       that what drifts on the host touches all alike. A run starts with one warm-up call.
    4. A setting ends after ``runs`` runs when the interval of the metric is narrow, or when its budget of
       timed calls is spent; after three failed calls in a row; or, where a warm-up *and* the first timed
       call each take longer than the whole budget, after these two calls. Time is looked at between
       calls, so a call is never cut off.
    5. A call that raises is recorded with its message and loses no earlier value. ``KeyboardInterrupt``
       goes through; what was measured until then can still be had from :meth:`outcomes`.
    """

    def __init__(self, settings: Sequence[Setting], plan: Plan, clocks: Clocks = Clocks(), progress: Optional[Callable[[float], None]] = None):
        self.settings, self.plan, self.clocks = list(settings), plan, clocks
        self.progress = progress or (lambda spent_s: None)
        self.id = uuid.uuid4().hex[:12]
        self.overhead_s: Optional[float] = None

    def run(self) -> None:
        self.overhead_s = proof.overhead(self.clocks.wall, timed_call)
        for setting in self.settings:
            self._warm_up(setting)
            if self.plan.prove and not setting.ended and max(setting.warm, default=0.0) <= self.plan.budget_s:
                setting.proof = proof.prove(setting.target, self.clocks.wall, self.plan.budget_s * PROOF_SHARE)
        number = 0
        while active := [setting for setting in self.settings if not setting.ended]:
            for setting in active if number % 2 == 0 else reversed(active):
                self._one_run(setting)
                self._may_end(setting)
            number += 1

    # -- the parts of a measurement

    def _warm_up(self, setting: Setting) -> None:
        clock, most = self.clocks.wall, self.plan.budget_s * WARM_UP_SHARE
        getattr(setting.target, "resume", lambda: None)()
        least, begin = min(WARM_UP_LEAST_S, self.plan.budget_s / 50), clock()
        while True:
            seconds, error = timed_call(setting.target, clock)
            if error is None:
                setting.warm.append(seconds)
            else:
                setting.warm_errors.append(f"warm-up: {error}")
                if len(setting.warm_errors) >= GIVE_UP_AFTER:
                    self._record(setting, Run(start_utc=_now(), duration_s=_RESOLUTION, values_s=(), **self._first(setting)))
                    setting.ended = "failed"
                    return
            elapsed = clock() - begin
            if elapsed >= least and at_rest(setting.warm):
                setting.warm_up = "settled"
                return
            if setting.warm and elapsed >= most:
                return

    def _first(self, setting: Setting) -> dict[str, Any]:
        return {"warmup_s": tuple(setting.warm), "errors": tuple(setting.warm_errors)}

    def _slice(self, setting: Setting) -> float:
        """Seconds of the next run: a slice of the budget or five calls, but so that the runs asked for still fit."""
        budget, runs = self.plan.budget_s, self.plan.runs
        left = max(0.0, budget - setting.spent_s)
        known = [value for run in setting.runs for value in run.values_s] or setting.warm[-3:]
        wanted = max(budget / (SLICES * runs), CALLS_PER_RUN * stats.median(known) if known else 0.0)
        return min(wanted, left / max(1, runs - len(setting.runs)))

    def _one_run(self, setting: Setting) -> None:
        clocks, share = self.clocks, self._slice(setting)
        warm: list[float] = []
        values: list[float] = []
        errors: list[str] = []
        parts: dict[str, list[float]] = {"ttft_s": [], "tpot_s": []}
        resume = getattr(setting.target, "resume", None)
        if resume is not None:  # other settings had their turn
            resume()
        if setting.runs:
            seconds, error = timed_call(setting.target, clocks.wall)
            warm += [seconds] if error is None else []
            errors += [f"warm-up: {error}"] if error else []
        else:
            warm, errors = list(setting.warm), list(setting.warm_errors)
        if not setting.compilations:
            setting.compilations.append(_compilations(setting.target))
        parts_of, progress, start_utc = getattr(setting.target, "parts", None), self.progress, _now()
        before, waited = clocks.host(), clocks.wait() if setting.threads else None
        cpu_begin, begin, elapsed = clocks.cpu(), clocks.wall(), 0.0
        spent = sum(one.spent_s for one in self.settings)

        def finish() -> None:
            cpu_s, after = clocks.cpu() - cpu_begin, clocks.host()
            waited_now = clocks.wait() if setting.threads else None
            device = system.accelerator_state(setting.path) if setting.path else system.AcceleratorState()
            setting.slowed = tuple(dict.fromkeys((*setting.slowed, *device.slowed)))
            run = Run(
                start_utc=start_utc,
                duration_s=max(elapsed, _RESOLUTION),
                cpu_s=cpu_s,
                warmup_s=tuple(warm),
                values_s=tuple(values),
                errors=tuple(errors),
                ttft_s=tuple(parts["ttft_s"]),
                tpot_s=tuple(parts["tpot_s"]),
                waited_s=None if waited is None or waited_now is None else max(0.0, waited_now - waited),
                others_cpu_s=None if before.busy_s is None or after.busy_s is None else max(0.0, after.busy_s - before.busy_s - cpu_s),
                load_1min=after.load_1min,
                cpu_clock_hz=after.cpu_clock_hz,
                accelerator_clock_hz=device.clock_hz,
                accelerator_power_w=device.power_w,
            )
            self._record(setting, run)

        setting.failed_in_a_row, calls = 0, 0
        try:
            while not calls or (elapsed < share and setting.failed_in_a_row < GIVE_UP_AFTER):
                calls += 1
                seconds, error = timed_call(setting.target, clocks.wall)
                elapsed = clocks.wall() - begin
                if error:
                    errors.append(error)
                    setting.failed_in_a_row += 1
                else:
                    values.append(seconds)
                    setting.failed_in_a_row = 0
                    if parts_of is not None:
                        for name, value in parts_of().items():
                            parts[name].append(value)
                progress(spent + elapsed)
        except KeyboardInterrupt:
            if values:
                finish()
            raise
        finish()

    @staticmethod
    def _record(setting: Setting, run: Run) -> None:
        setting.runs.append(run)
        setting.spent_s += run.duration_s
        setting.compilations.append(_compilations(setting.target))

    def _may_end(self, setting: Setting) -> None:
        plan, last = self.plan, setting.runs[-1]
        if setting.failed_in_a_row >= GIVE_UP_AFTER:
            setting.ended = "failed"
        elif len(setting.runs) == 1 and max(setting.warm, default=0.0) > plan.budget_s and last.values_s and last.values_s[0] > plan.budget_s:
            setting.ended = "one_call"
        elif len(setting.runs) >= plan.runs and self._is_narrow(setting):
            setting.ended = "narrow"
        elif setting.spent_s >= plan.budget_s * (1 - 1e-9):
            setting.ended = "budget"

    def _is_narrow(self, setting: Setting) -> bool:
        width = self.width(setting)
        return width is not None and width < self.plan.width and setting.spent_s >= judgement.SHORTEST_S

    def width(self, setting: Setting) -> Optional[float]:
        """Half width of the interval of the metric over its value, or ``None`` where there is no interval yet."""
        runs = [run.values_s for run in setting.runs if run.values_s]
        if not runs:
            return None
        ends = stats.percentile_interval_of_runs(runs, self.plan.quantile, self.plan.confidence)
        return None if ends is None else (ends[1] - ends[0]) / 2 / stats.percentile([value for run in runs for value in run], self.plan.quantile)

    # -- what came of it

    def outcomes(self) -> list[Outcome]:
        """One per setting, in the order given; those without a run are left out of an interrupted session."""
        return [self.outcome(setting) for setting in self.settings if setting.runs]

    def outcome(self, setting: Setting) -> Outcome:
        ended, width, plan = setting.ended or "interrupted", self.width(setting), self.plan
        because = {
            "narrow": f"the interval of {plan.metric} is within {plan.width:.0%} of its value",
            "budget": f"the budget of {plan.budget_s:.3g} s is spent",
            "failed": f"{GIVE_UP_AFTER} calls in a row failed",
            "interrupted": "somebody stopped it",
            "one_call": "one call takes longer than the budget",
        }[ended]
        if ended == "budget" and width is not None and plan.width:
            because += f"; the interval of {plan.metric} is within {width:.1%} of its value, {plan.width:.0%} was asked for"
        taken = Taken(
            session=self.id,
            together_with=tuple(one.label for one in self.settings if one is not setting),
            rounds=plan.runs,
            ended=ended,
            ended_because=because,
            metric=plan.metric,
            width_asked=plan.width,
            width=width,
            budget_s=plan.budget_s,
            warm_up=setting.warm_up,
            overhead_s=self.overhead_s,
            clock=setting.proof,
        )
        seen = judgement.Seen(tuple(setting.runs), taken, plan.confidence, setting.threads, tuple(setting.compilations), setting.slowed)
        settled, findings, invalid = judgement.judge(seen)
        reasons = [f"{finding.because}; {finding.next}" if finding.next else finding.because for finding in findings if finding.code in invalid]
        values = sum(len(run.values_s) for run in setting.runs)
        validity = " | ".join(reasons) or f"{len(setting.runs)} runs, {values} timed calls, latency settled"
        return Outcome(tuple(setting.runs), settled, not invalid, validity, findings, taken)


def protocol(
    target: BenchmarkTarget,
    *,
    runs: int,
    budget_s: float,
    width: float = 0.05,
    quantile: float = 0.5,
    clock: Callable[[], float] = time.perf_counter,
    cpu_clock: Callable[[], float] = time.process_time,
    wait_clock: Callable[[], Optional[float]] = system.waited_for_cpu_s,
    host: Callable[[], system.HostState] = system.host_state,
    progress: Optional[Callable[[float], None]] = None,
    threads: Optional[int] = None,
    confidence: float = 0.95,
    prove: bool = True,
) -> Outcome:
    """One target alone: a :class:`Session` of one setting. ``progress`` is told the seconds of budget spent, between calls."""
    plan = Plan(runs, budget_s, width, quantile, confidence, prove)
    session = Session([Setting(target, threads=threads)], plan, Clocks(clock, cpu_clock, wait_clock, host), progress)
    session.run()
    return session.outcomes()[0]


_RESOLUTION = time.get_clock_info("perf_counter").resolution


def timed_call(target: Any, clock: Callable[[], float]) -> tuple[float, Optional[str]]:
    """Seconds of one call, and its error on one line if it raised."""
    start = clock()
    try:
        target.issue()
        target.drain()
    except Exception as error:  # any device raises its own; the message goes into the record
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        return clock() - start, f"{type(error).__name__}: {lines[0] if lines else 'no message'}"
    return clock() - start, None


def at_rest(warm: Sequence[float]) -> bool:
    """Has the start-up passed: the last quarter of the calls is not quicker than the quarter before (three calls at least each)?"""
    window = max(3, len(warm) // 4)
    if len(warm) < 2 * window:
        return False
    return stats.median(warm[-window:]) >= (1 - AT_REST) * stats.median(warm[-2 * window : -window])


def _compilations(target: Any) -> Optional[int]:
    count = getattr(target, "compilations", None)
    return count() if callable(count) else None


def _now() -> str:
    return datetime.now(timezone.utc).isoformat(timespec="microseconds").replace("+00:00", "Z")
