"""From a target with an endpoint to measurements in the dossier: plan, load, judge, record.

records = measure_endpoint(question, "trn1-32", scenario="server", rate_per_s=20)
"""

from __future__ import annotations

import contextlib
import gc
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any, Optional

from neuronfit import model, stats, system, targets
from neuronfit.errors import BadParams, WaitingForEvidence
from neuronfit.load import audit, prompts, scenarios
from neuronfit.load.generator import Response, Sent
from neuronfit.load.scenarios import Line, Plan, Taken
from neuronfit.provenance import Measured
from neuronfit.record import Finding, Measurement, Run, Settings, Severity
from neuronfit.served import Load, Requests
from neuronfit.targets.endpoint import address

if TYPE_CHECKING:
    from neuronfit.params import Endpoint, Objective, Shape, Target
    from neuronfit.question import Question
    from neuronfit.system import System

__all__ = ["measure_endpoint", "plan_of", "requests_of"]

CLOCK = "time.perf_counter of the client"

TIMED_REGION = "intended send time to last token, at the client, network included"

DIGITS = 7
"""Times are kept to a tenth of a microsecond."""


def measure_endpoint(
    question: Question,
    target_name: str,
    *,
    shapes: Optional[Sequence[Shape]] = None,
    progress: bool = True,
    scenario: Optional[str] = None,
    rate_per_s: Optional[float] = None,
    duration_s: Optional[float] = None,
    concurrency: Optional[int] = None,
) -> list[Measurement]:
    """Load the endpoint of a target, at each length of the workload, and admit what came of it.

    The keyword arguments replace those of ``policy``. Each record is admitted as soon as it is taken, also an INVALID one,
    and one that was stopped with Ctrl-C. Raises :class:`~neuronfit.errors.WaitingForEvidence` when the
    target has no endpoint or nothing answers there.
    """
    target = question.target(target_name)
    if target.endpoint is None:
        raise WaitingForEvidence(f"{target.name} has no endpoint", next=f"serve the model, then write endpoint: {{url: ...}} under {target.name}")
    if question.params.workload.kind == "training":
        raise WaitingForEvidence("training is not measured through an endpoint", next="time the training run with its own tools")
    plan = plan_of(question, scenario=scenario, rate_per_s=rate_per_s, duration_s=duration_s, concurrency=concurrency)
    host, taken = system.probe(), []
    for shape in _calls(shapes if shapes is not None else question.params.workload.shapes, target.endpoint):
        for load, line in _loads(question, target, shape, plan, progress):
            record = _record(question, target, shape, host, plan, load, line)
            if not any(run.values_s for run in record.runs) and not load.interrupted:
                _nothing_answered(question, target, load)
            taken.append(question.dossier.admit(record))
            if load.interrupted:
                return taken
    return taken


def plan_of(
    question: Question,
    *,
    scenario: Optional[str] = None,
    rate_per_s: Optional[float] = None,
    duration_s: Optional[float] = None,
    concurrency: Optional[int] = None,
) -> Plan:
    """How to load: what is given, else ``policy``, else what fits the task.

    An open loop that is not searched lasts as long as its percentile needs when no duration is given.
    """
    policy, objective = question.params.policy, question.params.objective
    generates = model.TASKS[question.params.workload.model.task].generates
    scenario = scenario or policy.scenario or ("generate" if generates else "single_stream")
    rate = rate_per_s or policy.rate_per_s
    if rate is not None and scenario in ("single_stream", "offline"):
        raise BadParams(f"a rate has no meaning in scenario {scenario}", rate, allowed="none", next="--scenario server or --scenario generate")
    if concurrency is not None and (concurrency > 1 and scenario == "single_stream" or scenario == "server" or (scenario == "generate" and rate)):
        raise BadParams(f"requests in flight are not chosen in scenario {scenario}{' at a rate' if rate else ''}", concurrency, next="leave it out")
    if scenario == "generate" and not generates:
        raise BadParams("scenario generate times tokens, and the task writes none", question.params.workload.model.task, next="--scenario server")
    replays = policy.arrivals == "trace" and scenario in ("server", "generate")
    trace, lengths = _trace(question, duration_s or policy.budget_s) if replays else ((), ())
    plan = Plan(
        scenario=scenario,
        duration_s=duration_s or policy.budget_s,
        runs=policy.runs,
        arrivals=policy.arrivals,
        rate_per_s=None if trace else rate,
        concurrency=concurrency or (question.params.traffic.concurrency if scenario == "generate" and not rate else None),
        trace_s=trace,
        trace_lengths=lengths,
        margin=max(policy.margin, 0.01),
        confidence=policy.confidence,
    )
    if rate and duration_s is None and not trace and _percentile(objective) is not None:
        plan = replace(plan, duration_s=max(plan.duration_s, 1.1 * stats.samples_needed(0.99, plan.confidence) / rate))
    return plan


def _trace(question: Question, duration_s: float) -> tuple[tuple[float, ...], tuple[tuple[Optional[int], Optional[int]], ...]]:
    """The first ``duration_s`` of ``traffic.trace``: arrival times in seconds, and (input, output) tokens where it has them."""
    from neuronfit.traffic import arrivals

    given = question.params.traffic.trace
    if given is None:
        raise BadParams("policy.arrivals is trace, and traffic names no file", "trace", allowed="poisson or constant", next="write traffic.trace")
    times: list[float] = []
    lengths: list[tuple[Optional[int], Optional[int]]] = []
    for piece in arrivals(question.file(given.file), (0.0, duration_s), **given.model_dump(exclude={"file"})):
        times += piece.seconds.tolist()
        sides = [
            [None] * len(piece) if side is None else [int(one) if one > 0 else None for one in side]
            for side in (piece.input_tokens, piece.output_tokens)
        ]
        lengths += list(zip(*sides))
    return tuple(times), tuple(lengths) if any(one or other for one, other in lengths) else ()


def _calls(shapes: Sequence[Shape], endpoint: Endpoint) -> list[Shape]:
    """The shapes of the requests: a server forms its own batches, so for completions and chat only lengths differ."""
    if endpoint.api == "json" and "{prompts}" in str(endpoint.body):
        return list(shapes)
    return list(dict.fromkeys(shape.model_copy(update={"batch_size": 1}) for shape in shapes))


def _loads(question: Question, target: Target, shape: Shape, plan: Plan, show: bool) -> Iterator[tuple[Taken, Line]]:
    endpoint: Endpoint = target.endpoint  # type: ignore[assignment]
    open_loop = plan.scenario == "server" or (plan.scenario == "generate" and (plan.rate_per_s is not None or bool(plan.trace_s)))
    line = Line(endpoint, prompts.of(question, shape, traffic_lengths=open_loop), shape)
    label = f"{target.name} {plan.scenario} {shape.sequence_length}{f' + {shape.output_length}' if shape.output_length else ''} tokens"
    gc.collect()  # once, since it is off while requests are in flight
    with _progress(label, plan.duration_s * (1 + scenarios.WARM_UP_SHARE), show) as line.progress:
        if plan.scenario == "offline":
            for load in scenarios.best_concurrency(line, plan, endpoint.max_connections):
                yield load, line
        elif open_loop and plan.rate_per_s is None and not plan.trace_s:
            yield scenarios.highest_rate(line, plan, question.params.objective), line
        elif open_loop:
            yield scenarios.at_rate(line, plan, plan.rate_per_s), line
        else:
            yield scenarios.at_concurrency(line, plan, plan.concurrency or 1), line


def _nothing_answered(question: Question, target: Target, load: Taken) -> None:
    errors = [response.error for run in load.runs for response in run.responses if response.error]
    raise WaitingForEvidence(
        f"{address(target.endpoint)} answered none of {sum(len(run.responses) for run in load.runs)} requests: {errors[0] if errors else 'no answer'}",  # type: ignore[arg-type]
        next=f"start the server and see that this host reaches it, then neuronfit measure {question.command_name} --target {target.name}",
    )


# -- the record -------------------------------------------------------------------------------


def _record(question: Question, target: Target, shape: Shape, host: System, plan: Plan, load: Taken, line: Line) -> Measurement:
    asked, objective = question.params.workload, question.params.objective
    endpoint: Endpoint = target.endpoint  # type: ignore[assignment]
    task = model.TASKS[asked.model.task]
    answered = load.answered
    recorded = load.arrivals == "trace" and bool(plan.trace_lengths)
    chunks = bool(answered) and not all(response.counted_by_server for response in answered)
    tokens_from = "none" if not any(response.output_tokens for response in answered) else "chunks" if chunks else "usage"
    expected = audit.Expected(
        arrivals=load.arrivals,
        rate_per_s=load.rate_per_s if load.arrivals != "trace" else None,
        max_connections=endpoint.max_connections,
        input_length=_mean_length(line) if task.input != "image" and not recorded else None,
        output_length=shape.output_length if not recorded else None,
        error_rate=objective.error_rate,
        percentile=_percentile(objective) if load.arrivals != "closed" else None,
        wants_tokens=task.generates and endpoint.api != "json",
        confidence=plan.confidence,
        longer="raise policy.budget_s or --duration",
    )
    counted = audit.audit(load.runs, expected)
    invalid, known, at_rest = audit.judge(load.runs, counted, expected)
    findings = [*invalid, *known, *_about_objective(load, objective, plan), *_about_server(target, endpoint)]
    runs = [_run(one, load.warmup if not number else (), load.arrivals != "closed") for number, one in enumerate(load.runs)]
    fixed_length = len(line.prompts.lengths) == 1 and not line.prompts.texts and not recorded
    return Measurement(
        workload=question.ref,
        source=Measured(host=host.host, clock=CLOCK),
        findings=tuple(finding.model_copy(update={"target": target.name}) for finding in findings),
        target=target.name,
        instance_type=target.instance_type if target.instance_type != targets.THIS_HOST else host.instance_type,
        system=host,
        settings=_settings(question, target, shape, endpoint, load, line, fixed_length),
        scenario=plan.scenario,  # type: ignore[arg-type]
        result_unit=task.result,
        latency_of="request",
        results_per_call=model.useful_results(asked.model.task, shape.batch_size, shape.output_length),
        runs=tuple(runs),
        settled=at_rest,
        valid=not invalid,
        validity=" | ".join(f"{finding.because}; {finding.next}" for finding in invalid) or _said(load, counted.answered),
        load=Load(
            arrivals=load.arrivals,  # type: ignore[arg-type]
            rate_per_s=load.rate_per_s,
            concurrency=load.concurrency,
            max_connections=endpoint.max_connections,
            seed=plan.seed,
            streamed=any(response.chunks for response in answered),
            tokens_from=tokens_from,
            objective_s=_bounds(objective),
            searched=load.searched,
            probes=load.probes,
            audit=counted,
        ),
    )


def _said(load: Taken, answered: int) -> str:
    how = f"{load.concurrency} in flight" if load.arrivals == "closed" else f"{load.arrivals} at {load.rate_per_s or 0:.4g}/s"
    return f"{len(load.runs)} {'run' if len(load.runs) == 1 else 'runs'}, {answered} requests answered, {how}"


def _settings(question: Question, target: Target, shape: Shape, endpoint: Endpoint, load: Taken, line: Line, fixed_length: bool) -> Settings:
    asked = question.params.workload
    other = {"api": endpoint.api, "endpoint": address(endpoint)}
    if endpoint.model:
        other["served_model"] = endpoint.model
    if load.server:
        other["server"] = load.server
    if load.concurrency:
        other["concurrency"] = str(load.concurrency)
    other |= {key: str(value) for key, value in target.settings.items() if key not in Settings.model_fields}
    known = {key: value for key, value in target.settings.items() if key in Settings.model_fields and key not in _OURS}
    return Settings(
        batch_size=shape.batch_size,
        sequence_length=shape.sequence_length if fixed_length or line.prompts.texts else None,
        output_length=shape.output_length,
        precision=str(target.settings.get("precision", asked.precision)),
        route=f"{target.path}, HTTP {endpoint.api}",
        timed_region=TIMED_REGION,
        input=f"{line.prompts.origin}, sha256 {line.prompts.sha256[:16]}" if line.prompts.sha256 else line.prompts.origin,
        weights=f"{asked.model.weights}, as declared for the server",
        other=other,
        **known,
    )


_OURS = ("batch_size", "sequence_length", "output_length", "precision", "route", "timed_region", "input", "weights", "other")


def _mean_length(line: Line) -> Optional[float]:
    if line.prompts.texts or not line.prompts.lengths:
        return None
    return sum(length * share for length, share in line.prompts.lengths.items())


def _percentile(objective: Objective) -> Optional[float]:
    tail = (objective.latency_p99_ms, objective.ttft_p99_ms, objective.tpot_p99_ms)
    return 0.99 if any(bound is not None for bound in tail) else None


def _bounds(objective: Objective) -> dict[str, float]:
    """What one request must keep to count as good, seconds."""
    given = {"latency": objective.latency_p99_ms, "ttft": objective.ttft_p99_ms, "tpot": objective.tpot_p99_ms}
    return {name: bound / 1e3 for name, bound in given.items() if bound is not None}


def _about_objective(load: Taken, objective: Objective, plan: Plan) -> Iterable[Finding]:
    if load.probes and not load.searched and not load.interrupted:
        yield Finding(
            severity=Severity.WARNING,
            code="no_rate_keeps_objective",
            because=f"no rate down to {min(one.rate_per_s for one in load.probes):.3g}/s kept the objective, the last with {load.probes[-1].because}",
            next="loosen the objective, or look at single_stream: a lone request may already break it",
        )
    elif limits := [one for one in load.probes if one.because.startswith(scenarios.CLIENT_LIMIT)]:
        yield Finding(
            severity=Severity.WARNING,
            code="search_ended_by_client",
            because=f"at {min(one.rate_per_s for one in limits):.4g}/s {limits[0].because}; the rate found is a lower bound of the server's capacity",
            next="search again from a faster or quieter host, or with more endpoint.max_connections",
        )
    elif load.arrivals != "closed":
        kept, because = scenarios.keeps(load, objective, plan.confidence)
        if not kept:
            yield Finding(
                severity=Severity.WARNING, code="objective_missed", because=because, next="lower the rate, or search it: leave the rate out"
            )


def _about_server(target: Target, endpoint: Endpoint) -> Iterable[Finding]:
    """The client sees no hardware: what serves is as the params file says."""
    yield Finding(
        severity=Severity.WARNING,
        code="server_as_declared",
        because=f"{target.instance_type}, precision and weights are as the params file declares them: an endpoint does not show what it runs on",
        next="keep the server's start command and its log beside this record",
    )


def _run(sent: Sent, warmup: Sequence[Response], by_schedule: bool) -> Run:
    """One load as a record's run. It lasts to the last answer, in an open loop at least as long as requests were due."""
    ends = [response.end for response in sent.responses if response.end is not None]
    span = (max(ends) if ends else sent.end) - sent.begin
    requests = requests_of(sent)
    return Run(
        start_utc=_utc(sent),
        duration_s=max(span, sent.window_s if by_schedule and not sent.interrupted else 0.0, 1e-9),
        cpu_s=sent.cpu_s,
        warmup_s=tuple(_kept(response.end - response.intended) for response in warmup if response.answered),  # type: ignore[operator]
        values_s=tuple(_kept(requests.latency_s(place)) for place in requests.answered()),
        errors=tuple(response.error for response in sent.responses if response.error),
        requests=requests,
    )


def requests_of(sent: Sent) -> Requests:
    """The raw table of one load, times from its beginning."""

    def since(moment: Optional[float]) -> Optional[float]:
        return None if moment is None else _kept(moment - sent.begin)

    responses = sent.responses
    counted = any(response.output_tokens is not None for response in responses)
    read = any(response.input_tokens is not None for response in responses)
    streamed = any(response.chunks for response in responses)
    return Requests(
        intended_s=tuple(_kept(response.intended - sent.begin) for response in responses),
        sent_s=tuple(since(response.sent) for response in responses),
        first_s=tuple(since(response.first) for response in responses),
        end_s=tuple(since(response.end) for response in responses),
        input_tokens=tuple(response.input_tokens for response in responses) if read else (),
        output_tokens=tuple(response.output_tokens for response in responses) if counted else (),
        gaps_s=tuple(tuple(_kept(b - a) for a, b in zip(response.chunks, response.chunks[1:])) for response in responses) if streamed else (),
        prompt=tuple(response.prompt for response in responses),
        errors={place: response.error for place, response in enumerate(responses) if response.error},
    )


def _kept(seconds: float) -> float:
    return round(seconds, DIGITS)


def _utc(sent: Sent) -> str:
    import time

    started = datetime.now(timezone.utc) - timedelta(seconds=time.perf_counter() - sent.begin)
    return started.isoformat(timespec="microseconds").replace("+00:00", "Z")


@contextlib.contextmanager
def _progress(label: str, total_s: float, wanted: bool) -> Iterator[Optional[Callable[[float], None]]]:
    """A bar on stderr, only where somebody looks at it; a search grows it."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    if not wanted or not (sys.stderr.isatty() or getattr(shell, "kernel", None) is not None):
        yield None
        return
    from tqdm import tqdm

    with tqdm(
        total=total_s, desc=label, leave=False, bar_format="{desc}: {percentage:3.0f}%|{bar}| {n:.0f} of {total:.0f} s", file=sys.stderr
    ) as bar:

        def heard(spent_s: float) -> Any:
            bar.total = max(bar.total, spent_s)
            bar.update(spent_s - bar.n)

        yield heard
