"""Running a controlled test: rehearsal, stages, guardrails, and the way back.

Requests are due at times fixed beforehand (open loop), whatever has become of the earlier ones, and latency counts from
those times. Replay and shadow stages send every request to both sides; split stages send it to one, by a
hash of its key. Every answer goes to the log before anything else happens, so an interruption loses only
what was in flight, and that is sent again on resuming.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any, Optional

import numpy as np

from neuronfit import system
from neuronfit.errors import BadInput, BadRecord, NotWritable, WaitingForEvidence
from neuronfit.load import arrivals, generator, prompts
from neuronfit.load.generator import Control, Request, Response
from neuronfit.provenance import Measured
from neuronfit.question import Question
from neuronfit.record import Trial, TrialPlan
from neuronfit.splitter import arm_of
from neuronfit.trial.evaluate import Guard, Judge, judges, settle
from neuronfit.trial.log import Entry, Log, Logged, answer_hash, read
from neuronfit.trial.plan import endpoint_of, even_split, plan

if TYPE_CHECKING:
    from neuronfit.params import Endpoint
    from neuronfit.targets.endpoint import EndpointClient

__all__ = ["agrees", "compared", "log_path", "run"]

REHEARSED_WITH = 5
"""Requests that each side must answer before traffic is trusted to it, and after a rollback."""

SALT = "neuronfit"

MOST_LOOKS = 100
"""Looks per stage; a shorter evaluation interval looks at guardrails only in between."""

MOST_REQUESTS = 3_000_000
"""Requests of one stage that one process keeps account of (about 2 GiB)."""

SWITCH_S = 0.0005
"""How long the thread that evaluates may keep the interpreter while answers arrive, seconds."""


def log_path(question: Question, plan_id: str) -> Path:
    """Where the log of a plan lies: ``trial/<plan id>.jsonl`` in the dossier."""
    return question.dossier.folder / "trial" / f"{plan_id}.jsonl"


def run(
    question: Question, *, resume: bool = False, fresh: bool = False, progress: bool = True, tell: Optional[Callable[[str], None]] = None
) -> Trial:
    """Register the plan, run what is left of the test, and admit the verdict.

    ``resume`` goes on with an unfinished log of the same plan; ``fresh`` puts earlier logs aside. Raises
    :class:`~neuronfit.errors.WaitingForEvidence` without both endpoints and
    :class:`~neuronfit.errors.BadInput` when a log is there and neither was asked for, or when the plan was changed
    since the log was begun.
    """
    registered = plan(question)
    endpoints = _endpoints(question, registered)
    given = _requests(question)
    _check_size(question, registered, given)
    path = _log_to_use(question, registered, resume, fresh)
    before = read(path) if path.exists() else None
    log, switch = Log(path), sys.getswitchinterval()
    try:
        sys.setswitchinterval(SWITCH_S)
        if before is None:
            log.begin(registered.id, _utc())
        else:
            log.event("resume", utc=_utc())
        why = _Run(question, registered, endpoints, given, log, progress, tell or (lambda line: None)).everything(before)
        log.event("end", why=why, utc=_utc())
        log.sync()
    finally:
        sys.setswitchinterval(switch)
        log.close()
    source = Measured(host=system.probe().host, clock="time.perf_counter")
    return settle(question, registered, read(path), source, str(path.relative_to(question.dossier.folder)))


def _endpoints(question: Question, registered: TrialPlan) -> dict[str, Endpoint]:
    sides = {"baseline": question.target(registered.baseline), "candidate": question.target(registered.candidate)}
    found = {side: endpoint_of(question, side, target) for side, target in sides.items()}
    missing = [f"trial.{side}_url" for side, endpoint in found.items() if endpoint is None]
    if missing:
        raise WaitingForEvidence(
            f"{' and '.join(missing)} not declared, so no request can be sent",
            next=f"add them to {question.command_name}, then neuronfit trial {question.command_name}",
        )
    return found  # type: ignore[return-value]


def _check_size(question: Question, registered: TrialPlan, given: Sequence[dict[str, Any]]) -> None:
    """Refuse a stage that no single process can send, before the first request."""
    rate = registered.traffic.get("rate_per_s")
    for stage in registered.stages if rate and not _times(given) else ():
        seconds = stage["duration_min"] * 60
        if rate * seconds > MOST_REQUESTS:
            raise BadInput(
                f"stage {stage['name']} would send {rate * seconds:,.0f} requests, at a rate per second of",
                f"{rate:g}",
                allowed=f"up to {MOST_REQUESTS:,} in a stage, here {MOST_REQUESTS / seconds:.3g} a second",
                next=f"write trial.rate_per_s into {question.command_name}: a part of the traffic is enough, the plan says how many requests are needed",
            )


def _log_to_use(question: Question, registered: TrialPlan, resume: bool, fresh: bool) -> Path:
    """The log to write. Every refusal says what to type."""
    path = log_path(question, registered.id)
    command = f"neuronfit trial {question.command_name}"
    others = sorted(path.parent.glob("*.jsonl"), key=lambda one: one.stat().st_mtime) if path.parent.is_dir() else []
    if fresh:
        if path.exists():
            path.rename(path.with_name(f"{path.stem}-{len(others)}.jsonl.old"))
        return path
    if path.exists():
        ended = (read(path).ended or {}).get("why")
        if ended in ("finished", "breach", "failed"):
            raise BadInput("this plan has been tested already, its log is", str(path), next=f"{command} --fresh starts another test of the same plan")
        if not resume:
            raise BadInput("a test of this plan was begun and is not finished, its log is", str(path), next=f"{command} --resume, or --fresh")
        return path
    unfinished = [one for one in others if not read(one).ended or (read(one).ended or {}).get("why") == "interrupted"]
    if resume and unfinished:
        logged = read(unfinished[-1])
        settle(question, registered, logged, Measured(host=system.probe().host, clock="time.perf_counter"), f"trial/{unfinished[-1].name}")
        raise BadInput(
            f"the plan was changed after the test began: the log is of plan {logged.plan}, the params file now gives",
            registered.id,
            allowed="the plan under which the test began",
            next=f"restore the params file, or {command} --fresh",
        )
    if resume:
        raise BadInput("there is no unfinished test to resume in", str(path.parent), next=command)
    return path


# -- what is compared in an answer ------------------------------------------------------------


def compared(text: Optional[str], key: Optional[str]) -> Any:
    """The part of an answer that must agree: the value under a dotted key of its JSON, the whole JSON, or the text."""
    try:
        value = json.loads(text or "")
    except ValueError:
        return text
    for part in key.split(".") if key else ():
        try:
            value = value[int(part)] if isinstance(value, list) else value[part]
        except (KeyError, IndexError, ValueError, TypeError):
            return {"missing": key}
    return value


def agrees(mine: Any, theirs: Any, within: float) -> bool:
    """Same structure and texts; numbers within ``within`` of the baseline's (and of 1e-9 for zero)."""
    if isinstance(mine, bool) or isinstance(theirs, bool) or mine is None or theirs is None:
        return mine is theirs
    if isinstance(mine, (int, float)) and isinstance(theirs, (int, float)):
        return abs(mine - theirs) <= within * abs(theirs) + 1e-9 * bool(within)
    if isinstance(mine, dict) and isinstance(theirs, dict):
        return mine.keys() == theirs.keys() and all(agrees(mine[name], theirs[name], within) for name in mine)
    if isinstance(mine, list) and isinstance(theirs, list):
        return len(mine) == len(theirs) and all(agrees(one, other, within) for one, other in zip(mine, theirs))
    return type(mine) is type(theirs) and mine == theirs


# -- one test ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Due:
    """One request of a stage: its number, when it is due (s from the start of the stage), who asks, what."""

    n: int
    at_s: float
    key: str
    request: Request


class _Run:
    """One process's part of a test."""

    def __init__(
        self,
        question: Question,
        registered: TrialPlan,
        endpoints: dict[str, Endpoint],
        given: Sequence[dict[str, Any]],
        log: Log,
        progress: bool,
        tell: Callable[[str], None],
    ):
        self.question, self.plan, self.endpoints, self.given, self.log = question, registered, endpoints, given, log
        self.progress, self.tell, self.trial = progress, tell, question.params.trial
        self.entries: list[Entry] = []
        self.judges: dict[str, Judge] = {}
        self.guard = Guard(registered)
        self.weight, self.why, self.full = 0.0, "", ""
        self.unwritten: Optional[NotWritable] = None

    def everything(self, before: Optional[Logged]) -> str:
        """All stages that are not done; returns ``finished``, ``breach``, ``failed``, ``interrupted`` or ``rehearsal``."""
        import scipy.stats  # noqa: F401  now, since an import while answers arrive would hold them up

        if not self._rehearse():
            return "rehearsal"
        done = {event["stage"] for event in before.event("stage_end")} if before else set()
        for number, stage in enumerate(self.plan.stages):
            if number in done:
                continue
            self.entries = before.of(number) if before else []
            looks = [event["count"] for event in before.event("look") if event["stage"] == number] if before else []
            why = self._stage(number, stage, looks)
            if why:
                return why
        return "finished"

    # -- rehearsal and rollback

    def _rehearse(self) -> bool:
        """Switch to the candidate and back, each verified by answers."""
        answered = {arm: self._answers(arm) for arm in ("candidate", "baseline")}
        ok = all(count == REHEARSED_WITH for count, _ in answered.values())
        self.log.event("rehearsal", ok=ok, answered={arm: count for arm, (count, _) in answered.items()}, of=REHEARSED_WITH, utc=_utc())
        for arm, (count, reason) in answered.items():
            if count < REHEARSED_WITH:
                self.tell(f"rehearsal: the {arm} answered {count} of {REHEARSED_WITH} requests, {reason}")
        if ok:
            self.tell(f"rehearsal: switched to the candidate and back, {2 * REHEARSED_WITH} answers verified it")
        return ok

    def _answers(self, arm: str) -> tuple[int, str]:
        """How many of a few requests one side answers, routed as the traffic is; and the first thing that went wrong."""
        self.weight = 1.0 if arm == "candidate" else 0.0

        async def ask() -> list[Response]:
            async with _clients(self.endpoints) as clients:
                responses = []
                for number in range(REHEARSED_WITH):
                    due = self._due(number, 0.0, len(self.given) + number)
                    response = Response(number, due.request.prompt, time.perf_counter())
                    route = arm_of(due.key, self.weight, SALT)
                    try:
                        await clients[route].send(due.request, response)
                    except Exception as error:  # whatever a client raises is this request's outcome
                        response.error = generator.one_line(error)
                    responses.append(response)
                    if route != arm:
                        response.error = f"answered by the {route}"
                return responses

        outcome: list[list[Response]] = []
        generator.run(lambda control: _as_load(ask, outcome), window_s=0.0)
        failed = [response.error for response in outcome[0] if response.error]
        return REHEARSED_WITH - len(failed), failed[0] if failed else ""

    def _back_to_the_baseline(self, stage: int, because: str, kind: str) -> None:
        """Route everything to the baseline, verify it by answers, and write both down."""
        self.weight = 0.0
        self.log.event(kind, stage=stage, because=because, utc=_utc())
        count, reason = self._answers("baseline")
        self.log.event("rollback", ok=count == REHEARSED_WITH, answered=count, of=REHEARSED_WITH, utc=_utc())
        self.log.sync()
        self.tell(
            f"{because} | traffic is back at the baseline, which answered {count} of {REHEARSED_WITH} requests" + (f": {reason}" if reason else "")
        )

    # -- a stage

    def _stage(self, number: int, stage: dict[str, Any], looks: Sequence[int]) -> str:
        """Send what is left of a stage, after the ``looks`` taken before. Returns why the test ends here, or nothing."""
        paired = stage["mode"] != "split"
        self.weight = 1.0 if paired else stage["share"]
        schedule = self._schedule(number, stage)
        seen = {(entry.n, entry.arm) for entry in self.entries}
        arms = {due.n: ("baseline", "candidate") if paired else (arm_of(due.key, self.weight, SALT),) for due in schedule}
        left = [due for due in schedule if any((due.n, arm) not in seen for arm in arms[due.n])]
        per_side = max(1, round(len(schedule) * even_split(stage)))
        self.guard, self.judges = Guard(self.plan), judges(self.plan, stage, per_side)
        for count in looks:
            for judge in self.judges.values():
                judge.take(self.entries, count)
        self.log.event("stage", stage=number, name=stage["name"], share=stage["share"], per_side=per_side, left=len(left), utc=_utc())
        if not left:
            self.log.event("stage_end", stage=number, utc=_utc())
            return ""
        begin_s = left[0].at_s
        window_s = max(stage["duration_min"] * 60 - begin_s, left[-1].at_s - begin_s)
        self.why = self.full = ""
        with _bar(stage["name"], len(left), self.progress) as show:
            sent = generator.run(
                lambda control: self._traffic(number, stage, left, begin_s, window_s, arms, seen, control),
                window_s=window_s,
                progress=show,
            )
        if self.unwritten:
            raise self.unwritten
        if sent.interrupted:
            return "interrupted"
        if self.why:
            kind, because = self.why.split(": ", 1)
            self._back_to_the_baseline(number, because, kind)
            return "breach" if kind == "breach" else "failed"
        self.log.event("stage_end", stage=number, utc=_utc(), **({"early": self.full} if self.full else {}))
        self.log.sync()
        self.tell(f"{stage['name']}: {len(self.entries)} answers logged" + (f"; {self.full}" if self.full else ""))
        return ""

    async def _traffic(
        self,
        number: int,
        stage: dict[str, Any],
        left: Sequence[_Due],
        begin_s: float,
        window_s: float,
        arms: dict[int, tuple[str, ...]],
        seen: set[tuple[int, str]],
        control: Control,
    ) -> tuple[list[Response], float]:
        """The open loop of one stage, with a watch beside it that looks at intervals."""
        answers: dict[int, dict[str, Any]] = {}
        async with _clients(self.endpoints) as clients:

            async def send(request: Request, response: Response) -> None:
                due = left[response.number]
                asked = [arm for arm in arms[due.n] if (due.n, arm) not in seen]
                await asyncio.gather(*(self._one(clients[arm], arm, number, due, begin_s, response.intended, answers, control) for arm in asked))
                response.end = time.perf_counter()

            over = asyncio.Event()
            watch = asyncio.create_task(self._watch(number, window_s, control, over))
            try:
                offsets = [due.at_s - begin_s for due in left]
                longest = max(endpoint.timeout_s for endpoint in self.endpoints.values())
                return await generator.open_loop(
                    send, [due.request for due in left], offsets, control, window_s=window_s, drain_s=longest + 1.0, most_in_flight=None
                )
            finally:
                over.set()
                await watch
                if not control.stopped.is_set():
                    await self._look(number)

    async def _one(
        self,
        client: EndpointClient,
        arm: str,
        stage: int,
        due: _Due,
        begin_s: float,
        intended: float,
        answers: dict[int, dict[str, Any]],
        control: Control,
    ) -> None:
        """One request to one side, and its line in the log."""
        response = Response(due.n, due.request.prompt, intended)
        zero = intended - (due.at_s - begin_s)
        error = None
        try:
            await client.send(due.request, response)
        except Exception as failure:  # whatever a client raises is this request's outcome
            error = generator.one_line(failure)
        end = response.end or time.perf_counter()
        agree = None
        found = compared(response.text, self.trial.agree_on) if error is None else None
        if error is None and self.plan.stages[stage]["mode"] != "split":
            others = answers.setdefault(due.n, {})
            others[arm] = found
            if len(others) == 2:
                agree = agrees(others["candidate"], others["baseline"], self.trial.agree_within)
                del answers[due.n]
        entry = Entry(
            n=due.n,
            stage=stage,
            arm=arm,
            due=round(due.at_s - begin_s, 7),
            sent=_since(zero, response.sent),
            first=_since(zero, response.first),
            end=_since(zero, end),
            tokens=response.output_tokens,
            hash=answer_hash([json.dumps(found, sort_keys=True)]) if error is None else None,
            agree=agree,
            error=error,
        )
        try:
            self.log.add(entry)
        except NotWritable as refused:  # an answer that cannot be kept: no further request
            self.unwritten = refused
            control.stop()
            return
        self.entries.append(entry)

    async def _watch(self, number: int, window_s: float, control: Control, over: asyncio.Event) -> None:
        """Look every ``evaluate_every_s`` until the stage is over or must end."""
        every = self.trial.evaluate_every_s
        between = max(1, round(window_s / every / MOST_LOOKS))
        turn = 0
        while not over.is_set():
            turn += 1
            try:
                await asyncio.wait_for(over.wait(), every)
            except asyncio.TimeoutError:
                await self._look(number, whole=turn % between == 0)
            if self.why or self.unwritten or self.full:
                control.stop()
                return

    async def _look(self, number: int, whole: bool = True) -> None:
        """Guardrails, and now and then the criteria, in another thread: answers go on arriving meanwhile."""
        count = len(self.entries)
        try:
            if whole and count:
                self.log.event("look", stage=number, count=count)
            await asyncio.to_thread(self._evaluate, self.entries[:count], whole)
        except NotWritable as refused:
            self.unwritten = refused

    def _evaluate(self, entries: list[Entry], whole: bool) -> None:
        """Sets ``why`` when the test must end here, ``full`` when a stage may end early."""
        self.log.sync()
        reason = self.guard.breach(entries)
        if reason:
            self.why = f"breach: {reason}"
            return
        outcomes = {name: judge.take(entries) for name, judge in self.judges.items()} if whole and entries else {}
        for name, outcome in outcomes.items():
            if outcome == "failed":
                self.why = f"failed: {self.judges[name].found.because}"
                return
        if self.trial.may_pass_early and outcomes and set(outcomes.values()) == {"passed"}:
            self.full = "every criterion of the stage has passed"

    # -- what is asked, and when

    def _schedule(self, number: int, stage: dict[str, Any]) -> list[_Due]:
        """Every request of a stage, the same each time it is asked: seed, stage and number decide it."""
        seconds = stage["duration_min"] * 60
        times = _times(self.given)
        if times:
            offsets = arrivals.replay(times, seconds)
        else:
            rate = self.plan.traffic.get("rate_per_s")
            if not rate:
                raise WaitingForEvidence("no rate is declared to send requests at", next="add trial.rate_per_s or traffic.mean_per_s")
            offsets = arrivals.poisson(rate, seconds, np.random.default_rng((self.trial.seed, number)))
        start = 1_000_003 * number
        return [self._due(place, float(at_s), start + place) for place, at_s in enumerate(offsets)]

    def _due(self, n: int, at_s: float, which: int) -> _Due:
        if self.given:
            line = self.given[which % len(self.given)]
            length = self.question.params.workload.shapes[0].output_length
            return _Due(n, at_s, str(line.get("key", which)), Request(which % len(self.given), line["text"], (line["text"],), length))
        shape = self.question.params.workload.shapes[0].model_copy(update={"batch_size": 1})
        return _Due(n, at_s, str(which), self._prompts(shape).request(which % 4096, shape))

    def _prompts(self, shape: Any) -> prompts.Prompts:
        if not hasattr(self, "_made"):
            self._made = prompts.of(self.question, shape, traffic_lengths=True)
        return self._made


def _times(given: Sequence[dict[str, Any]]) -> list[float]:
    """When the given requests are due, ascending; nothing where one does not say."""
    times = [entry.get("at_s") for entry in given]
    good = all(isinstance(time_s, (int, float)) and not isinstance(time_s, bool) for time_s in times)
    return sorted(times) if good else []


def _requests(question: Question) -> list[dict[str, Any]]:
    """The lines of ``trial.requests``. Raises :class:`~neuronfit.errors.BadRecord` with the line that is none."""
    named = question.params.trial.requests
    if named is None:
        return []
    path = question.file(named)
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError) as error:
        raise BadRecord(
            f"cannot read trial.requests ({getattr(error, 'strerror', None) or 'it is not text'})", str(path), allowed="JSON lines"
        ) from None
    found = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            entry = json.loads(line)
        except ValueError:
            entry = None
        text = entry.get("text", entry.get("prompt")) if isinstance(entry, dict) else None
        if not isinstance(text, str):
            raise BadRecord(f"{path}, line {number} is no request", line[:60], allowed='a line such as {"text": "...", "key": "user-1", "at_s": 0.5}')
        found.append({**entry, "text": text})
    if not found:
        raise BadRecord("trial.requests holds no request", str(path), allowed="JSON lines with a text each")
    return found


class _clients:
    """A session towards each side."""

    def __init__(self, endpoints: dict[str, Endpoint]):
        from neuronfit.targets.endpoint import EndpointClient

        self._clients = {arm: EndpointClient(endpoint, keep_text=True) for arm, endpoint in endpoints.items()}

    async def __aenter__(self) -> dict[str, EndpointClient]:
        for client in self._clients.values():
            await client.__aenter__()
        return self._clients

    async def __aexit__(self, *exception: Any) -> None:
        for client in self._clients.values():
            await client.__aexit__(*exception)


async def _as_load(ask: Callable[[], Any], outcome: list[Any]) -> tuple[list[Response], float]:
    begin = time.perf_counter()
    outcome.append(await ask())
    return [], begin


class _bar:
    """A bar on stderr, only on a terminal."""

    def __init__(self, name: str, total: int, wanted: bool):
        self.name, self.total, self.wanted, self.bar = name, total, wanted and sys.stderr.isatty(), None

    def __enter__(self) -> Callable[[Control], None]:
        if self.wanted:
            from tqdm import tqdm

            self.bar = tqdm(total=self.total, desc=self.name, unit="request", leave=False)
        return self.show

    def show(self, control: Control) -> None:
        if self.bar is not None:
            self.bar.update(control.finished - self.bar.n)
            self.bar.set_postfix_str(f"{control.in_flight} in flight")

    def __exit__(self, *_: object) -> None:
        if self.bar is not None:
            self.bar.close()


def _since(zero: float, moment: Optional[float]) -> Optional[float]:
    return None if moment is None else round(moment - zero, 7)


def _utc() -> str:
    return datetime.now(timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")
