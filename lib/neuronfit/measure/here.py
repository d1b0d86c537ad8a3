"""The protocol taken to the targets of a question on *this* host, and the records that come of it."""

from __future__ import annotations

import contextlib
import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Optional

from neuronfit import model, stats, system, targets, watch
from neuronfit.catalog import instances
from neuronfit.errors import BadInput, NotFound, WaitingForEvidence
from neuronfit.inputs import load_inputs
from neuronfit.measure.rounds import Outcome, Plan, Session, Setting
from neuronfit.model.weights import identify
from neuronfit.provenance import Measured
from neuronfit.record import Finding, Measurement, Settings, Severity
from neuronfit.system import System

if TYPE_CHECKING:
    from neuronfit.params import Shape, Target
    from neuronfit.question import Question

__all__ = ["CODES", "already", "measure", "measure_together", "measured_here", "where_to_run"]

CODES = (
    "accelerator_differs",
    "background_load",
    "call_exceeds_budget",
    "call_failed",
    "clock_unproven",
    "dispatch_only",
    "few_samples",
    "few_samples_p99",
    "fewer_runs",
    "gpu_untuned",
    "harness_overhead",
    "host_disturbed",
    "instance_type_unconfirmed",
    "interrupted",
    "not_settled",
    "part_of_the_instance",
    "power_capped",
    "random_weights",
    "recompiled",
    "ran_on_the_cpu",
    "setting_not_applied",
    "throttled",
    "too_short",
)
"""Finding codes of a measurement taken here."""

CLOCK = "time.perf_counter"

SEEN_WHILE_MEASURED = (
    *("peak_rss_bytes", "prepare_s", "cold_call_s", "device", "device_s_median", "graph_breaks", "attention", "operators_on_the_cpu"),
)
"""Entries of ``settings.other`` that are outcomes and do not make a setting another one."""


def measure(
    question: Question,
    target_name: str,
    *,
    shapes: Optional[Sequence[Shape]] = None,
    workers: Optional[Sequence[int]] = None,
    progress: bool = True,
) -> list[Measurement]:
    """Measure a target of the question on this host, at each shape of the workload; the shapes take turns.

    ``workers``: numbers of workers to try at each shape, instead of ``settings.workers``.
    Each record is admitted to the dossier when its turns are over. Raises
    :class:`~neuronfit.errors.WaitingForEvidence` when this host cannot run the target's path or the
    model does not fit, and :class:`~neuronfit.errors.BadInput` when the host is another instance
    type than the one declared.
    """
    return measure_together(question, [target_name], shapes=shapes, workers=workers, progress=progress)


def measure_together(
    question: Question,
    target_names: Sequence[str],
    *,
    shapes: Optional[Sequence[Shape]] = None,
    workers: Optional[Sequence[int]] = None,
    progress: bool = True,
) -> list[Measurement]:
    """Measure several targets of this host in one session: what drifts on the host touches all alike.

    Settings that do not fit into memory beside the others are measured in a session of their own. After
    an interruption the runs that were finished are admitted, as INVALID, before it goes on.
    """
    host = system.probe()
    wanted = [question.target(name) for name in target_names]
    served = [target for target in wanted if target.endpoint is not None]
    wanted = [target for target in wanted if target.endpoint is None]
    for target in wanted:
        _refuse(question, target, host)
    wanted = [mode for target in wanted for mode in _modes(target)]
    if workers is not None:
        wanted = [copies for target in wanted for copies in _with_workers(target, workers)]
    pending = [(target, shape) for target in wanted for shape in (shapes if shapes is not None else question.params.workload.shapes)]
    taken: list[Measurement] = []
    for target in served:
        from neuronfit.load import measure_endpoint

        taken += measure_endpoint(question, target.name, shapes=shapes, progress=progress)
    while pending:
        group: list[_Prepared] = []
        without_a_model = system.resident_bytes()
        try:
            while pending and (not group or (group[0].together and _together(pending[0][0]))):
                group.append(_prepared(question, *pending[0], without_a_model))
                pending.pop(0)
        except WaitingForEvidence:
            if not group:
                raise
        taken += _session(question, group, host, progress)
        group.clear()
    return taken


def _modes(target: Target) -> list[Target]:
    """The target as it is declared, or once for each mode of its path that is measured."""
    every = getattr(targets.for_path(target.path), "modes", ())
    if not every or "mode" in target.settings:
        return [target]
    return [target.model_copy(update={"settings": {**target.settings, "mode": mode}}) for mode in every]


def _with_workers(target: Target, counts: Sequence[int]) -> list[Target]:
    """The target with each number of workers. One worker is this process, which keeps the NeuronCores it once took, so it comes last.

    Raises :class:`~neuronfit.errors.BadInput` where the path has no workers.
    """
    if "workers" not in targets.for_path(target.path).settings:
        able = ", ".join(path for path in targets.MEASURED_HERE if "workers" in targets.for_path(path).settings)
        raise BadInput(f"path {target.path} has no workers, {target.name} cannot be tried with", ", ".join(map(str, counts)), allowed=able)
    order = sorted(set(counts), key=lambda count: (count == 1, count))
    return [target.model_copy(update={"settings": {**target.settings, "workers": count}}) for count in order]


def _together(target: Target) -> bool:
    """Can it be ready beside other settings? Workers on NeuronCores hold the cores that the next setting needs."""
    return targets.may_take_turns(target.path) and not (target.path.startswith("neuron") and target.settings.get("workers", 1) != 1)


@dataclass
class _Prepared:
    """A target, ready to be called at one shape."""

    target: Target
    shape: Shape
    thing: Any
    seen: dict[str, Any]
    together: bool


def _refuse(question: Question, target: Target, host: System) -> None:
    if question.params.workload.kind == "training":
        raise WaitingForEvidence(
            "training is not measured by this code",
            next="time the training run with its own tools; this code does not read their files yet",
        )
    able, why = system.can_run(target.path, host)
    if not able:
        raise WaitingForEvidence(f"this host cannot measure {target.name}: {why}", next=where_to_run(question, target))
    declared = target.instance_type if target.instance_type != targets.THIS_HOST else None
    if declared and host.instance_type and host.instance_type != declared:
        raise BadInput(
            f"target {target.name} is declared as {declared}, this host is",
            host.instance_type,
            allowed=declared,
            next=f"{where_to_run(question, target)}, or declare a target of type {host.instance_type}",
        )


def _prepared(question: Question, target: Target, shape: Shape, without_a_model: Optional[int]) -> _Prepared:
    """Prepare and call once. ``without_a_model``: resident bytes of this process before the first setting of the session.

    The peak is what a process with this setting alone would have had: settings prepared before it are
    taken off.
    """
    thing = _target(question, target)
    before = system.resident_bytes()
    system.peak_memory_bytes(reset=True)
    start = time.perf_counter()
    thing.prepare(shape)
    seen: dict[str, Any] = {"prepare_s": round(time.perf_counter() - start, 4)}
    start = time.perf_counter()
    with contextlib.suppress(Exception):  # what it raises is found out, and recorded, by the warm-up
        thing.issue()
        thing.drain()
        seen["cold_call_s"] = round(time.perf_counter() - start, 6)
    peak = system.peak_memory_bytes()
    if target.path == "cpu" and None not in (peak, before, without_a_model):
        seen["peak_rss_bytes"] = peak - before + without_a_model
    return _Prepared(target, shape, thing, seen, _together(target))


def _session(question: Question, group: Sequence[_Prepared], host: System, show: bool) -> list[Measurement]:
    policy, objective = question.params.policy, question.params.objective
    quantile = 0.99 if objective.latency_p99_ms else 0.5
    plan = Plan(policy.runs, policy.budget_s, policy.interval_width, quantile, policy.confidence)
    settings = [
        Setting(one.thing, label=_label(one), threads=_threads(one.thing), path=one.target.path if one.target.path == "cuda" else "") for one in group
    ]
    label = f"{' and '.join(dict.fromkeys(one.target.name for one in group))}, {len(group)} setting{'' if len(group) == 1 else 's'}"
    watched = watch.monitoring([one.target.path for one in group], host.instance_type)
    with _progress(label, policy.budget_s * len(group), show) as progress, watched as seen:
        session = Session(settings, plan, progress=progress)
        try:
            session.run()
        finally:  # an interruption too leaves the runs that were finished
            done = [(one, session.outcome(setting)) for one, setting in zip(group, settings) if setting.runs]
            taken = [question.dossier.admit(_record(question, one, host, outcome)) for one, outcome in done]
            for one in group:
                getattr(one.thing, "close", lambda: None)()
    for monitor in seen.records(question.ref, [one.target for one in group], host):
        question.dossier.admit(monitor)
    return taken


def _threads(thing: Any) -> Optional[int]:
    """CPU threads of *this* process that compute; workers are other processes, whose time is not ours."""
    described = thing.describe()
    return described.get("threads") if (described.get("workers") or 1) == 1 else None


def _label(one: _Prepared) -> str:
    workers = one.target.settings.get("workers", 1)
    return f"{one.target.name} batch {one.shape.batch_size} sequence {one.shape.sequence_length}" + (f" workers {workers}" if workers != 1 else "")


def _record(question: Question, one: _Prepared, host: System, outcome: Outcome) -> Measurement:
    target, shape, asked = one.target, one.shape, question.params.workload
    result = model.TASKS[asked.model.task].result
    described = {**one.thing.describe(), **one.seen, **getattr(one.thing, "seen", dict)()}
    findings = [*outcome.findings, *_notes(question, target, host, outcome, one.thing)]
    workers = described.get("workers") or 1
    return Measurement(
        workload=question.ref,
        source=Measured(host=host.host, clock=CLOCK),
        findings=tuple(finding.model_copy(update={"target": target.name}) for finding in findings),
        target=target.name,
        instance_type=host.instance_type or (target.instance_type if target.instance_type != targets.THIS_HOST else None),
        system=host,
        settings=_settings(question, shape, host, described),
        scenario="generate" if result == "token" else "single_stream" if shape.batch_size == 1 and workers == 1 else "offline",
        result_unit=result,
        latency_of="request" if result == "token" else "batch",
        results_per_call=model.useful_results(asked.model.task, shape.batch_size, shape.output_length) * workers,
        runs=outcome.runs,
        settled=outcome.settled,
        valid=outcome.valid,
        validity=outcome.validity,
        taken=outcome.taken,
    )


def already(question: Question, target_name: str, shape: Shape) -> Optional[Measurement]:
    """The newest valid measurement of this shape on this host with the same settings, or ``None``."""
    target, host = question.target(target_name), system.probe()
    if target.endpoint is not None or target.path not in targets.MEASURED_HERE:
        return None
    wanted = _settings(question, shape, host, _target(question, target).describe())
    for entry in reversed(question.dossier.measurements(target.name)):
        same_host = entry.grade == "measured" and entry.system is not None and entry.system.host == host.host
        same_place = same_host and entry.system.instance_type == host.instance_type  # type: ignore[union-attr]
        enough = entry.valid and len(entry.runs) >= question.params.policy.runs
        if same_place and enough and _asked(entry.settings) == _asked(wanted):
            return entry
    return None


def _asked(settings: Settings) -> Settings:
    """Settings without what was only seen while they were measured."""
    return settings.model_copy(update={"other": {name: value for name, value in settings.other.items() if name not in SEEN_WHILE_MEASURED}})


def measured_here(question: Question, host: Optional[System] = None) -> list[str]:
    """Targets that this host can measure: those of its instance type or of ``this-host``; else its CPU, as the extra target."""
    host = host or system.probe()
    here = [target for target in question.targets if target.endpoint is None and target.instance_type in (host.instance_type, targets.THIS_HOST)]
    names = [target.name for target in here if system.can_run(target.path, host)[0]]
    declared = any(target.instance_type == targets.THIS_HOST for target in here)
    return names if declared else ["cpu", *names]


def where_to_run(question: Question, target: Target) -> str:
    """What to type, and on which kind of host."""
    if question.params.workload.kind == "training":
        return f"{targets.on_a(target.instance_type)}: time the training run with its own tools, then neuronfit adopt FILE --for {target.name}"
    if target.endpoint is not None or target.path not in targets.MEASURED_HERE:
        from neuronfit.load.serving import how_to_measure

        return how_to_measure(question, target)
    return f"{targets.on_a(target.instance_type)}: neuronfit measure {question.command_name} --target {target.name}"


def _target(question: Question, target: Target) -> Any:
    thing = targets.made(target.path, targets.Subject.of(question, target))
    asked = question.params.workload.inputs
    return targets.FromText(thing) if asked and asked.tokenizer_time == "counted" else thing


def _settings(question: Question, shape: Shape, host: System, described: dict[str, Any]) -> Settings:
    asked = question.params.workload
    image = model.TASKS[asked.model.task].input == "image"
    given = load_inputs(question) if asked.inputs else None
    described = {"timed_region": targets.TIMED_REGION, **({"tokenizer_time": given.tokenizer_time} if given and given.texts else {}), **described}
    return Settings(
        batch_size=shape.batch_size,
        sequence_length=shape.sequence_length,
        output_length=shape.output_length,
        software=host.software,
        input=given.origin if given else f"synthetic {'pixels' if image else 'token ids'}, seed 0",
        weights=_weights(question),
        **{name: value for name, value in described.items() if name in Settings.model_fields},
        other={name: str(value) for name, value in described.items() if name not in Settings.model_fields},
    )


def _weights(question: Question) -> str:
    """Which weights, in words; files with the beginning of their hash, which is the same on every host."""
    asked = question.params.workload.model
    if asked.weights == "random":
        return "random, seed 0"
    known = vars(question)
    if "_weights" not in known:
        known["_weights"] = identify(question.config, asked.task, str(question.file(asked.weights)))
    return f"{known['_weights'].origin}, sha256 {known['_weights'].sha256[:12]}"


# -- what a reader must know beside the validity ----------------------------------------------


def _notes(question: Question, target: Target, host: System, outcome: Outcome, thing: Any) -> Iterator[Finding]:
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
    yield from getattr(thing, "remarks", tuple)()
    yield from _parts(target, thing.describe())
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


def _parts(target: Target, described: dict[str, Any]) -> Iterable[Finding]:
    """A target that keeps some of several accelerators busy says so: the price is for all of them."""
    field, what, used_as = ("logical_neuroncores", "NeuronCore", "neuroncores_used")
    if target.path == "cuda":
        field, what, used_as = ("accelerator_count", "GPU", "accelerators_used")
    there, used = _row(target.instance_type, field, None), described.get(used_as) or 1
    if target.path != "cpu" and there and there > used:
        yield Finding(
            severity=Severity.WARNING,
            code="part_of_the_instance",
            because=f"{used} of {there:g} {what}s of {target.instance_type} {'was' if used == 1 else 'were'} used; its price buys all of them",
            next=f"read throughput as that of {'one ' + what if used == 1 else f'{used} {what}s'}",
        )


def _row(instance_type: str, field: str, otherwise: Any) -> Any:
    try:
        return getattr(instances.find(instance_type), field)
    except NotFound:
        return otherwise


# -- seen while it runs -----------------------------------------------------------------------


@contextlib.contextmanager
def _progress(label: str, budget_s: float, wanted: bool) -> Iterator[Optional[Callable[[float], None]]]:
    """A bar, only where somebody looks at it: on a terminal, or one line of a notebook that is replaced as it goes."""
    if wanted and _in_notebook():
        yield from _line_of_a_notebook(label, budget_s)
        return
    if not wanted or not sys.stderr.isatty():
        yield None
        return
    from tqdm import tqdm

    bar_format = "{desc}: {percentage:3.0f}%|{bar}| {n:.0f} of at most {total:.0f} s"
    with tqdm(total=budget_s, desc=label, leave=False, bar_format=bar_format, file=sys.stderr) as bar:
        yield lambda spent_s: bar.update(min(spent_s, budget_s) - bar.n)


def _line_of_a_notebook(label: str, budget_s: float) -> Iterator[Callable[[float], None]]:
    """A stored notebook keeps the last state alone, where a bar on stderr would leave every one of its states."""
    from IPython.display import display

    line = display({"text/plain": f"{label}: warming up"}, raw=True, display_id=True)
    shown = [0.0]

    def progress(spent_s: float) -> None:
        if time.monotonic() - shown[0] > 0.5:
            shown[0] = time.monotonic()
            line.update({"text/plain": f"{label}: {min(spent_s, budget_s):.0f} of at most {budget_s:.0f} s"}, raw=True)

    yield progress
    line.update({"text/plain": f"{label}: measured"}, raw=True)


def _in_notebook() -> bool:
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return getattr(shell, "kernel", None) is not None
