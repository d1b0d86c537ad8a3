"""Step 4's measurement: warm-ups, runs, raw values, and whether they may be believed.

:func:`protocol` is the measurement itself, on any object with ``issue`` and ``drain``;
:func:`measure` takes it to one target of a question and stores the records. Needs no Jupyter.
"""

from __future__ import annotations

import contextlib
import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any, Optional

from neuronfit import model, stats, system, targets
from neuronfit.catalog import instances
from neuronfit.errors import BadInput, NotFound, WaitingForEvidence
from neuronfit.provenance import Measured
from neuronfit.record import Finding, Measurement, Run, Settings, Severity
from neuronfit.system import System

if TYPE_CHECKING:
    from neuronfit.params import Shape, Target
    from neuronfit.question import Question
    from neuronfit.targets import BenchmarkTarget

__all__ = ["CODES", "Outcome", "already", "measure", "protocol", "where_to_run"]

CODES = (
    "accelerator_differs",
    "call_exceeds_budget",
    "call_failed",
    "few_samples",
    "few_samples_p99",
    "fewer_runs",
    "host_disturbed",
    "instance_type_unconfirmed",
    "not_settled",
    "part_of_the_instance",
    "random_weights",
    "setting_not_applied",
)
"""Finding codes of a measurement taken here."""

CLOCK = "time.perf_counter"

WARM_UP_SHARE = 0.1
"""The first run warms up for this share of the budget (at least one call); it is not part of it."""

GIVE_UP_AFTER = 3
"""Failed calls in a row after which a target is not asked again."""

UNDISTURBED = 0.9
"""Share of the time a CPU computation wanted the CPU in which it had it; below, the host was disturbed."""


# -- the protocol -----------------------------------------------------------------------------


@dataclass(frozen=True)
class Outcome:
    """What came of a measurement: raw runs, and a judgement with its reasons."""

    runs: tuple[Run, ...]
    settled: Optional[bool]
    valid: bool
    validity: str
    findings: tuple[Finding, ...] = ()


def protocol(
    target: BenchmarkTarget,
    *,
    runs: int,
    budget_s: float,
    clock: Callable[[], float] = time.perf_counter,
    cpu_clock: Callable[[], float] = time.process_time,
    wait_clock: Callable[[], Optional[float]] = system.waited_for_cpu_s,
    progress: Optional[Callable[[float], None]] = None,
    threads: Optional[int] = None,
    confidence: float = 0.95,
) -> Outcome:
    """Measure a prepared target; one value is the time from before ``issue`` to after ``drain``, seconds.

    1. Warm up: the first run for a tenth of ``budget_s``, later runs with one call; values are kept.
    2. ``runs`` runs share ``budget_s`` of timed calls. Run i of n ends when i/n of it is spent, but
       not before one call; time is looked at between calls, so a call is never cut off.
    3. When the budget is spent no further run starts. When a warm-up *and* the first timed call each
       take longer than the whole budget, that is all: two calls.
    4. A call that raises is recorded with its message and loses no earlier value; after three in a
       row the target is not asked again. ``KeyboardInterrupt`` goes through, nothing is returned.

    ``progress`` is told the seconds of budget spent, between calls. ``threads`` is the number of CPU
    threads that compute; ``None`` where another device does. With it the run is checked for
    disturbance: CPU time over CPU time plus time spent waiting for a CPU (``wait_clock``), or, where
    the system does not count that, CPU time over wall time if there is one thread. CPU time over wall
    time says nothing about several threads, which also wait for each other.
    """
    clocks = _Clocks(clock, cpu_clock, wait_clock if threads else lambda: None)
    taken: list[Run] = []
    waits: list[Optional[float]] = []
    spent, stopped = 0.0, ""
    for number in range(runs):
        if stopped or (number and spent >= budget_s):
            break
        warm_up, share = (0.0 if number else budget_s * WARM_UP_SHARE), budget_s * (number + 1) / runs - spent
        run, waited, stopped = _one_run(target, clocks, warm_up, share, budget_s, _from(spent, progress))
        taken.append(run)
        waits.append(waited)
        spent += run.duration_s
    undisturbed = _undisturbed(taken, waits, threads) if threads else None
    return _judged(tuple(taken), runs, budget_s, stopped, undisturbed, confidence)


@dataclass(frozen=True)
class _Clocks:
    """Seconds of wall time, of CPU time and of waiting for a CPU; only differences are used."""

    wall: Callable[[], float]
    cpu: Callable[[], float]
    wait: Callable[[], Optional[float]]


def _from(spent_s: float, progress: Optional[Callable[[float], None]]) -> Callable[[float], None]:
    """``progress`` of the whole budget as heard from inside one run."""
    return (lambda elapsed: progress(spent_s + elapsed)) if progress else (lambda elapsed: None)


def _one_run(
    target: BenchmarkTarget, clocks: _Clocks, warm_up_s: float, share_s: float, budget_s: float, progress: Callable[[float], None]
) -> tuple[Run, Optional[float], str]:
    """One run, the seconds it waited for a CPU where known, and why no other should follow (or nothing)."""
    start_utc = datetime.now(timezone.utc).isoformat(timespec="microseconds").replace("+00:00", "Z")
    warm: list[float] = []
    values: list[float] = []
    errors: list[str] = []

    def finished(duration_s: float, cpu_s: Optional[float]) -> Run:
        return Run(
            start_utc=start_utc,
            duration_s=max(duration_s, time.get_clock_info("perf_counter").resolution),
            cpu_s=cpu_s,
            warmup_s=tuple(warm),
            values_s=tuple(values),
            errors=tuple(errors),
        )

    begin = clocks.wall()
    while not warm or clocks.wall() - begin < warm_up_s:
        seconds, error = _timed_call(target, clocks.wall)
        if error is None:
            warm.append(seconds)
            continue
        errors.append(f"warm-up: {error}")
        if len(errors) >= GIVE_UP_AFTER:
            return finished(clocks.wall() - begin, None), None, "call_failed"

    elapsed, failed_in_a_row, calls = 0.0, 0, 0
    begin, cpu_begin, wait_begin = clocks.wall(), clocks.cpu(), clocks.wait()
    while not calls or (elapsed < share_s and failed_in_a_row < GIVE_UP_AFTER):
        calls += 1
        seconds, error = _timed_call(target, clocks.wall)
        elapsed = clocks.wall() - begin
        if error:
            errors.append(error)
            failed_in_a_row += 1
        else:
            values.append(seconds)
            failed_in_a_row = 0
        progress(elapsed)
    cpu_s, wait_end = clocks.cpu() - cpu_begin, clocks.wait()
    waited = wait_end - wait_begin if wait_end is not None and wait_begin is not None else None
    stopped = "call_failed" if failed_in_a_row >= GIVE_UP_AFTER else ""
    if warm[0] > budget_s and values and values[0] > budget_s:
        stopped = "call_exceeds_budget"
    return finished(elapsed, cpu_s), waited, stopped


def _timed_call(target: BenchmarkTarget, clock: Callable[[], float]) -> tuple[float, Optional[str]]:
    """Seconds of one call, and its error on one line if it raised."""
    start = clock()
    try:
        target.issue()
        target.drain()
    except Exception as error:  # any device raises its own; the message goes into the record
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        return clock() - start, f"{type(error).__name__}: {lines[0] if lines else 'no message'}"
    return clock() - start, None


def _judged(runs: tuple[Run, ...], asked: int, budget_s: float, stopped: str, undisturbed: Optional[float], confidence: float) -> Outcome:
    """Read the runs: VALID or INVALID, with every reason and what to do about it."""
    values = [value for run in runs for value in run.values_s]
    errors = [error for run in runs for error in run.errors]
    needed = stats.samples_needed(0.5, confidence)
    call = stats.median(values) if values else budget_s
    findings: list[Finding] = []

    def warn(code: str, because: str, next: str) -> None:
        findings.append(Finding(severity=Severity.WARNING, code=code, because=because, next=next))

    if errors:
        warn("call_failed", f"{len(errors)} of {len(errors) + len(values)} calls failed, the first with {errors[0]}", "read the message")
    if stopped == "call_exceeds_budget":
        warn(
            "call_exceeds_budget",
            f"one call takes {values[0]:.3g} s, the budget is {budget_s:.3g} s",
            f"raise policy.budget_s to {_round_up(values[0] * needed * 1.1)} or more",
        )
    elif len(runs) < asked and stopped != "call_failed":
        warn(
            "fewer_runs",
            f"the budget of {budget_s:.3g} s was spent after {len(runs)} of {asked} runs, one call takes {call:.3g} s",
            f"raise policy.budget_s to {_round_up(call * max(needed, asked) * 1.1)} or more",
        )
    if len(values) < needed and stopped != "call_exceeds_budget":
        warn(
            "few_samples",
            f"{len(values)} timed calls; the interval of the median needs {needed}",
            f"raise policy.budget_s to {_round_up(call * needed * 1.1)} or more",
        )
    at_rest: Optional[bool] = None
    if len(values) >= stats.SETTLED_NEEDS:
        at_rest, why = _settled(runs)
        if not at_rest:
            warn("not_settled", why, "measure again on a quiet host, or raise policy.budget_s")
    if undisturbed is not None and undisturbed < UNDISTURBED:
        warn(
            "host_disturbed",
            f"host was disturbed: the computation had a CPU for {undisturbed:.0%} of the time it wanted one, at least {UNDISTURBED:.0%} is expected",
            "stop what else runs on this host and measure again",
        )
    reasons = [f"{finding.because}; {finding.next}" for finding in findings]
    validity = " | ".join(reasons) or f"{len(runs)} runs, {len(values)} timed calls, latency settled"
    return Outcome(runs, at_rest, not findings, validity, tuple(findings))


def _undisturbed(runs: Sequence[Run], waits: Sequence[Optional[float]], threads: int) -> Optional[float]:
    """Share of the wanted CPU time that was had, or ``None`` where that cannot be told."""
    computed = [(run, waited) for run, waited in zip(runs, waits) if run.cpu_s]
    if not computed:
        return None
    cpu_s = sum(run.cpu_s or 0.0 for run, _ in computed)
    known = [waited for _, waited in computed if waited is not None]
    if len(known) == len(computed):
        return cpu_s / (cpu_s + sum(known))
    return cpu_s / sum(run.duration_s for run, _ in computed) if threads == 1 else None


def _settled(runs: Iterable[Run]) -> tuple[bool, str]:
    """All values in order, then each run that is long enough; the first that is not at rest is the answer."""
    series = [tuple(value for run in runs for value in run.values_s)]
    series += [run.values_s for run in runs if len(run.values_s) >= stats.SETTLED_NEEDS]
    answers = [stats.settled(values) for values in series]
    return next((answer for answer in answers if not answer[0]), answers[0])


def _round_up(seconds: float) -> int:
    return max(1, int(seconds) + 1)


# -- one target of a question -----------------------------------------------------------------


def measure(question: Question, target_name: str, *, shapes: Optional[Sequence[Shape]] = None, progress: bool = True) -> list[Measurement]:
    """Measure a target of the question on *this* host, at each shape of the workload.

    Each record is admitted to the dossier as soon as it is taken. Raises
    :class:`~neuronfit.errors.WaitingForEvidence` when this host cannot run the target's path or the
    model does not fit, and :class:`~neuronfit.errors.BadInput` when the host is another instance
    type than the one declared.
    """
    target, host = question.target(target_name), system.probe()
    declared = target.instance_type if target.instance_type != targets.THIS_HOST else None
    if question.params.workload.kind == "training":
        raise WaitingForEvidence(
            "training is not measured by this code",
            next="time the training run with its own tools; this code does not read their files yet",
        )
    able, why = system.can_run(target.path, host)
    if not able:
        raise WaitingForEvidence(f"this host cannot measure {target.name}: {why}", next=where_to_run(question, target))
    if declared and host.instance_type and host.instance_type != declared:
        raise BadInput(
            f"target {target.name} is declared as {declared}, this host is",
            host.instance_type,
            allowed=declared,
            next=f"{where_to_run(question, target)}, or declare a target of type {host.instance_type}",
        )
    taken = []
    for shape in shapes if shapes is not None else question.params.workload.shapes:
        taken.append(question.dossier.admit(_measured(question, target, shape, host, progress)))
    return taken


def already(question: Question, target_name: str, shape: Shape) -> Optional[Measurement]:
    """The newest valid measurement of this shape on this host with the same settings, or ``None``."""
    target, host = question.target(target_name), system.probe()
    if target.path not in targets.MEASURED_HERE:
        return None
    wanted = _settings(question, shape, host, _target(question, target).describe())
    for entry in reversed(question.dossier.measurements(target.name)):
        same_host = entry.grade == "measured" and entry.system is not None and entry.system.host == host.host
        same_place = same_host and entry.system.instance_type == host.instance_type  # type: ignore[union-attr]
        enough = entry.valid and len(entry.runs) >= question.params.policy.runs
        if same_place and enough and entry.settings == wanted:
            return entry
    return None


def where_to_run(question: Question, target: Target) -> str:
    """What to type, and on which kind of host."""
    place = targets.on_a(target.instance_type)
    if target.path not in targets.MEASURED_HERE:
        return f"{place}: serve it by path {target.path} and run that server's own benchmark; this code does not read such files yet"
    return f"{place}: neuronfit measure {question.command_name} --target {target.name}"


def _target(question: Question, target: Target) -> Any:
    return targets.for_path(target.path)(targets.Subject.of(question, target))


def _measured(question: Question, target: Target, shape: Shape, host: System, show: bool) -> Measurement:
    policy, asked = question.params.policy, question.params.workload
    thing = _target(question, target)
    thing.prepare(shape)
    threads = thing.describe().get("threads")
    label = f"{target.name} batch {shape.batch_size} sequence {shape.sequence_length}"
    with _progress(label, policy.budget_s, show) as progress:
        outcome = protocol(thing, runs=policy.runs, budget_s=policy.budget_s, progress=progress, threads=threads, confidence=policy.confidence)
    result = model.TASKS[asked.model.task].result
    findings = [*outcome.findings, *_notes(question, target, host, outcome, thing)]
    return Measurement(
        workload=question.ref,
        source=Measured(host=host.host, clock=CLOCK),
        findings=tuple(finding.model_copy(update={"target": target.name}) for finding in findings),
        target=target.name,
        instance_type=host.instance_type or (target.instance_type if target.instance_type != targets.THIS_HOST else None),
        system=host,
        settings=_settings(question, shape, host, thing.describe()),
        scenario="single_stream" if shape.batch_size == 1 else "offline",
        result_unit=result,
        latency_of="request" if result == "token" else "batch",
        results_per_call=model.useful_results(asked.model.task, shape.batch_size, shape.output_length),
        runs=outcome.runs,
        settled=outcome.settled,
        valid=outcome.valid,
        validity=outcome.validity,
    )


def _settings(question: Question, shape: Shape, host: System, described: dict[str, Any]) -> Settings:
    asked = question.params.workload
    image = model.TASKS[asked.model.task].input == "image"
    weights = asked.model.weights
    return Settings(
        batch_size=shape.batch_size,
        sequence_length=shape.sequence_length,
        output_length=shape.output_length,
        software=host.software,
        timed_region=targets.TIMED_REGION,
        input=f"synthetic {'pixels' if image else 'token ids'}, seed 0",
        weights="random, seed 0" if weights == "random" else weights,
        **{name: value for name, value in described.items() if name in Settings.model_fields},
        other={name: str(value) for name, value in described.items() if name not in Settings.model_fields},
    )


def _notes(question: Question, target: Target, host: System, outcome: Outcome, thing: Any) -> Iterator[Finding]:
    """What a reader must know beside the validity."""
    count, needed = sum(len(run.values_s) for run in outcome.runs), stats.samples_needed(0.99, question.params.policy.confidence)
    if count < needed:
        yield Finding(
            severity=Severity.NOTE,
            code="few_samples_p99",
            because=f"{count} timed calls; p99 needs {needed}, so none is reported",
            next="raise policy.budget_s",
        )
    if question.params.workload.model.weights == "random":
        yield Finding(severity=Severity.NOTE, code="random_weights", because="weights are random: speed is meaningful, answers are not")
    unapplied = [name for name in target.settings if name not in thing.settings]
    if unapplied:
        yield Finding(
            severity=Severity.WARNING,
            code="setting_not_applied",
            because=f"settings.{unapplied[0]} was declared, but path {target.path} applies only {', '.join(thing.settings)}",
            next="remove it from the params file, or measure with the tool that applies it",
        )
    yield from _parts(target)
    if target.instance_type == targets.THIS_HOST or host.instance_type == target.instance_type:
        return
    yield Finding(
        severity=Severity.WARNING,
        code="instance_type_unconfirmed",
        because=f"declared as {target.instance_type}; the type of this host could not be read ({host.absent.get('instance_type', 'unknown')})",
    )
    model_name = (_row(target.instance_type, "accelerator_name", "").split() + ["", ""])[1]
    seen = [one.name for one in host.accelerators]
    if target.path == "cuda" and model_name and not any(re.search(rf"\b{re.escape(model_name)}\b", name) for name in seen):
        yield Finding(
            severity=Severity.WARNING,
            code="accelerator_differs",
            because=f"{target.instance_type} has {model_name}, this host has {', '.join(seen) or 'none listed'}",
            next=where_to_run(question, target),
        )


def _parts(target: Target) -> Iterator[Finding]:
    """A target that keeps one of several accelerators busy says so: the price is for all of them."""
    names = {"cuda": ("accelerator_count", "GPU"), "neuron_xla": ("logical_neuroncores", "NeuronCore")}
    field, what = names.get(target.path, ("logical_neuroncores", "NeuronCore"))
    there = _row(target.instance_type, field, None)
    if target.path != "cpu" and there and there > 1:
        yield Finding(
            severity=Severity.WARNING,
            code="part_of_the_instance",
            because=f"1 of {there:g} {what}s of {target.instance_type} was used; its price buys all of them",
            next=f"read throughput as that of one {what}",
        )


def _row(instance_type: str, field: str, otherwise: Any) -> Any:
    try:
        return getattr(instances.find(instance_type), field)
    except NotFound:
        return otherwise


# -- seen while it runs -----------------------------------------------------------------------


@contextlib.contextmanager
def _progress(label: str, budget_s: float, wanted: bool) -> Iterator[Optional[Callable[[float], None]]]:
    """A bar on stderr, only where somebody looks at it."""
    if not wanted or not (sys.stderr.isatty() or _in_notebook()):
        yield None
        return
    from tqdm import tqdm

    bar_format = "{desc}: {percentage:3.0f}%|{bar}| {n:.0f} of {total:.0f} s"
    with tqdm(total=budget_s, desc=label, leave=False, bar_format=bar_format, file=sys.stderr) as bar:
        yield lambda spent_s: bar.update(min(spent_s, budget_s) - bar.n)


def _in_notebook() -> bool:
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return getattr(shell, "kernel", None) is not None
