"""Running a controlled test: rehearsal, stages, guardrails, and the way back.

Requests are due at times fixed beforehand (open loop), whatever has become of the earlier ones, and latency counts from
those times. Replay and shadow stages send every request to both sides; split stages send it to one, by a
hash of its key. Every answer goes to the log before anything else happens, so an interruption loses only
what was in flight, and that is sent again on resuming.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any, Optional

import numpy as np

from neuronfit import system
from neuronfit.errors import BadInput, BadRecord, NotWritable, WaitingForEvidence
from neuronfit.load import generator
from neuronfit.load.generator import Control, Request, Response
from neuronfit.params import SECRETS
from neuronfit.provenance import Measured
from neuronfit.question import Question
from neuronfit.record import Trial, TrialPlan
from neuronfit.splitter import arm_of
from neuronfit.trial.evaluate import Guard, Judge, judges, settle, unreachable
from neuronfit.trial.ledger import ARMS, Ledger
from neuronfit.trial.log import Entry, Log, Logged, answer_hash, read
from neuronfit.trial.plan import endpoint_of, even_split, plan
from neuronfit.trial.schedule import Schedule

if TYPE_CHECKING:
    from neuronfit.params import Endpoint
    from neuronfit.targets.endpoint import EndpointClient

__all__ = ["agrees", "compared", "log_path", "run"]

REHEARSED_WITH = 5
"""Requests that each side must answer before traffic is trusted to it, and after a rollback."""

SALT = "neuronfit"

MOST_LOOKS = 100
"""Looks per stage; a shorter evaluation interval looks at guardrails only in between."""

TOLD = 10
"""Times a stage that its state is said on a line, where there is no terminal for a bar."""

DONE = ("finished", "breach", "failed")
"""Ends after which a test is not gone on with."""

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
    path = _log_to_use(question, registered, resume, fresh)
    source = Measured(host=system.probe().host, clock="time.perf_counter")
    name = str(path.relative_to(question.dossier.folder))
    if path.exists() and path.stat().st_size and (read(path, requests=False).ended or {}).get("why") in DONE:
        return settle(question, registered, read(path), source, name)  # it ended, and the verdict was never written
    schedule = Schedule(question, registered)
    log, switch = Log(path), sys.getswitchinterval()
    try:
        sys.setswitchinterval(SWITCH_S)
        before = None
        if path.stat().st_size:
            before = read(path)
            log.event("resume", utc=_utc())
        else:
            log.begin(registered.id, _utc())
        test = _Run(question, registered, endpoints, schedule, log, progress, tell or (lambda line: None))
        why = test.everything(before)
        log.event("end", why=why, utc=_utc())
        log.sync()
    finally:
        sys.setswitchinterval(switch)
        log.close()
    del before, test
    return settle(question, registered, read(path), source, name)


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


def _log_to_use(question: Question, registered: TrialPlan, resume: bool, fresh: bool) -> Path:
    """The log to write, or one that has ended and has no verdict. Every refusal says what to type."""
    path = log_path(question, registered.id)
    command = f"neuronfit trial {question.command_name}"
    others = sorted(path.parent.glob("*.jsonl"), key=lambda one: one.stat().st_mtime) if path.parent.is_dir() else []
    unfinished = [one for one in others if one != path and _unfinished(one)]
    if fresh:
        for one in (*unfinished, *([path] if path.exists() else [])):
            with contextlib.suppress(BadRecord):  # no log, so no verdict; it is put aside all the same
                _settle_once(question, registered, one)
        if path.exists():
            path.rename(next(free for number in range(1, 1_000_000) if not (free := path.with_name(f"{path.stem}-{number}.jsonl.old")).exists()))
        return path
    if path.exists() and path.stat().st_size:  # killed before its first line, a log is empty
        logged = read(path, requests=False)
        if (logged.ended or {}).get("why") in DONE:
            if resume and not _verdicts(question, logged.sha256):
                return path
            raise BadInput("this plan has been tested already, its log is", str(path), next=f"{command} --fresh starts another test of the same plan")
        if not resume:
            raise BadInput("a test of this plan was begun and is not finished, its log is", str(path), next=f"{command} --resume, or --fresh")
        return path
    if unfinished:
        began = _settle_once(question, registered, unfinished[-1])
        raise BadInput(
            f"the plan was changed after the test began: the log is of plan {began}, the params file now gives",
            registered.id,
            allowed="the plan under which the test began",
            next=f"restore the params file and {command} --resume, or {command} --fresh",
        )
    if resume and not path.exists():
        raise BadInput("there is no unfinished test to resume in", str(path.parent), next=command)
    return path


def _settle_once(question: Question, registered: TrialPlan, path: Path) -> str:
    """Admit what a log of this or an earlier plan says, unless that was done; returns the plan's id."""
    outline = read(path, requests=False)
    if not _verdicts(question, outline.sha256):
        source = Measured(host=system.probe().host, clock="time.perf_counter")
        settle(question, registered, read(path), source, str(path.relative_to(question.dossier.folder)))
    return outline.plan


def _verdicts(question: Question, sha256: str) -> list[Trial]:
    return [entry for entry in question.dossier if isinstance(entry, Trial) and entry.log_sha256 == sha256]


def _unfinished(path: Path) -> bool:
    """A test that has begun to send, or may have, and has not ended."""
    try:
        logged = read(path, requests=False)
    except BadRecord:
        return False
    why = (logged.ended or {}).get("why")
    return why not in DONE and (why != "rehearsal" or bool(logged.event("stage")))


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


class _Run:
    """One process's part of a test."""

    def __init__(
        self,
        question: Question,
        registered: TrialPlan,
        endpoints: dict[str, Endpoint],
        schedule: Schedule,
        log: Log,
        progress: bool,
        tell: Callable[[str], None],
    ):
        self.plan, self.endpoints, self.schedule, self.log = registered, endpoints, schedule, log
        self.progress, self.tell, self.trial = progress, tell, question.params.trial
        self.secrets = [key for endpoint in endpoints.values() if endpoint.api_key_env and (key := os.environ.get(endpoint.api_key_env))]
        self.entries = Ledger()
        self.judges: dict[str, Judge] = {}
        self.guard = Guard(registered)
        self.weight, self.why, self.full, self.state = 0.0, "", "", ""
        self.unwritten: Optional[NotWritable] = None

    def everything(self, before: Optional[Logged]) -> str:
        """All stages that are not done; returns ``finished``, ``breach``, ``failed``, ``lost``, ``interrupted`` or ``rehearsal``."""
        import scipy.stats  # noqa: F401  now, since an import while answers arrive would hold them up

        for kind in ("breach", "failed") if before else ():
            for event in before.event(kind)[-1:]:  # killed on the way back: it is taken again, and nothing else is sent
                self._back_to_the_baseline(event["stage"], event["because"], kind)
                return kind
        why = self._rehearse()
        if why:
            return why
        done = {event["stage"] for event in before.event("stage_end")} if before else set()
        for number, stage in enumerate(self.plan.stages):
            self.entries = before.stages.pop(number, Ledger()) if before else Ledger()
            if number in done:
                continue
            looks = [event["count"] for event in before.event("look") if event["stage"] == number] if before else []
            why = self._stage(number, stage, looks)
            if why:
                return why
        return "finished"

    # -- rehearsal and rollback

    def _rehearse(self) -> str:
        """Switch to the candidate and back, each verified by answers. Returns why the test ends here, or nothing."""
        answered = {}
        for arm in ("candidate", "baseline"):
            count, reason, stopped = self._answers(arm, may_stop=True)
            if stopped:
                return "interrupted"
            answered[arm] = (count, reason)
        ok = all(count == REHEARSED_WITH for count, _ in answered.values())
        self.log.event("rehearsal", ok=ok, answered={arm: count for arm, (count, _) in answered.items()}, of=REHEARSED_WITH, utc=_utc())
        for arm, (count, reason) in answered.items():
            if count < REHEARSED_WITH:
                self.tell(f"rehearsal: the {arm} answered {count} of {REHEARSED_WITH} requests, {reason}")
        if ok:
            self.tell(f"rehearsal: switched to the candidate and back, {2 * REHEARSED_WITH} answers verified it")
        return "" if ok else "rehearsal"

    def _answers(self, arm: str, may_stop: bool) -> tuple[int, str, bool]:
        """How many of a few requests one side answers, routed as the traffic is; the first thing that went wrong; and whether Ctrl-C stopped it."""
        self.weight = 1.0 if arm == "candidate" else 0.0
        failed: list[str] = []

        async def one(clients: Mapping[str, EndpointClient], number: int) -> None:
            which = len(self.schedule.given) + number
            request, route = self.schedule.request(which), self._arm(which)
            response = Response(number, request.prompt, time.perf_counter())
            try:
                await clients[route].send(request, response)
                if route != arm:
                    failed.append(f"answered by the {route}")
            except Exception as error:  # whatever a client raises is this request's outcome
                failed.append(self._plain(generator.one_line(error)))

        async def ask(control: Control) -> tuple[list[Response], float]:
            begin, loop = time.perf_counter(), asyncio.get_running_loop()
            async with _clients(self.endpoints) as clients:
                asking = asyncio.gather(*(one(clients, number) for number in range(REHEARSED_WITH)))
                if may_stop:
                    control._cancel = lambda: loop.call_soon_threadsafe(asking.cancel)
                try:
                    await asking
                except asyncio.CancelledError:
                    if not control.stopped.is_set():
                        raise
            return [], begin

        sent = generator.run(ask, window_s=0.0)
        return REHEARSED_WITH - len(failed), failed[0] if failed else "", may_stop and sent.interrupted

    def _back_to_the_baseline(self, stage: int, because: str, kind: str) -> None:
        """Route everything to the baseline, verify it by answers, and write both down."""
        self.weight = 0.0
        self.log.event(kind, stage=stage, because=because, utc=_utc())
        self.log.sync()
        count, reason, _ = self._answers("baseline", may_stop=False)
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
        offsets = self.schedule.offsets(number, stage)
        answered = self._answered(len(offsets))
        left = np.flatnonzero(~(answered.all(axis=0) if paired else answered.any(axis=0)))
        per_side = max(1, round(len(offsets) * (even_split(stage) or 1.0)))
        self.guard, self.judges = Guard(self.plan), judges(self.plan, stage, per_side)
        for count in looks:
            for judge in self.judges.values():
                judge.take(self.entries, count)
        self.log.event("stage", stage=number, name=stage["name"], share=stage["share"], per_side=per_side, left=len(left), utc=_utc())
        if not len(left):
            self.log.event("stage_end", stage=number, utc=_utc())
            return ""
        due_s = offsets[left]
        begin_s = float(due_s[0])
        due_s -= begin_s
        lasts_s = stage["duration_min"] * 60 if stage["duration_min"] is not None else 0.0
        window_s = max(lasts_s - begin_s, float(due_s[-1]))
        self.schedule.prepare(number, left)
        self.why = self.full = self.state = ""
        with _bar(stage["name"], len(left), self.progress, lambda: self.state) as bar:
            sent = generator.run(
                lambda control: self._traffic(number, left, due_s, window_s, answered, paired, bar.drawn, control),
                window_s=window_s,
                progress=bar.show,
            )
        if self.unwritten:
            raise self.unwritten
        if self.why:
            kind, because = self.why.split(": ", 1)
            if kind == "lost":
                return self._lost(number, because)
            self._back_to_the_baseline(number, because, kind)
            return kind
        if sent.interrupted:
            return "interrupted"
        self.log.event("stage_end", stage=number, utc=_utc(), **({"early": self.full} if self.full else {}))
        self.log.sync()
        self.tell(f"{stage['name']}: {len(self.entries)} answers logged" + (f"; {self.full}" if self.full else ""))
        return ""

    def _answered(self, count: int) -> np.ndarray:
        """(2, ``count``): which requests of the stage have an outcome, by side in the order of ``ARMS``."""
        found = np.zeros((len(ARMS), count), bool)
        for rows in self.entries.pieces():
            known = rows[rows["n"] < count]
            found[known["arm"], known["n"]] = True
        return found

    def _lost(self, number: int, because: str) -> str:
        """Neither side could be reached: what failed then does not count, and is sent again on resuming."""
        count, _ = unreachable(self.entries, REHEARSED_WITH)
        self.log.event("lost", stage=number, count=count, because=because, utc=_utc())
        self.log.sync()
        self.tell(f"{because}; {count} requests that failed then do not count")
        return "lost"

    def _arm(self, which: int) -> str:
        return arm_of(self.schedule.key(which), self.weight, SALT)

    async def _traffic(
        self,
        number: int,
        left: np.ndarray,
        due_s: np.ndarray,
        window_s: float,
        answered: np.ndarray,
        paired: bool,
        drawn: bool,
        control: Control,
    ) -> tuple[list[Response], float]:
        """The open loop of one stage, with a watch beside it that looks at intervals."""
        async with _clients(self.endpoints) as clients:

            def requests() -> Iterator[Request]:
                for n in left:
                    yield self.schedule.request(self.schedule.which(number, int(n)))

            async def send(request: Request, response: Response) -> None:
                n, due = int(left[response.number]), float(due_s[response.number])
                arms = ARMS if paired else (self._arm(self.schedule.which(number, n)),)
                asked = [arm for arm in arms if not answered[ARMS.index(arm), n]]
                answers: dict[str, Any] = {}
                calls = [self._one(clients[arm], arm, number, n, due, request, response.intended, answers, paired, control) for arm in asked]
                await (asyncio.gather(*calls) if len(calls) > 1 else calls[0])
                response.end = time.perf_counter()

            over = asyncio.Event()
            watch = asyncio.create_task(self._watch(number, window_s, drawn, control, over))
            try:
                longest = max(endpoint.timeout_s for endpoint in self.endpoints.values())
                return await generator.open_loop(send, requests(), due_s, control, window_s=window_s, drain_s=longest + 1.0, keep=False)
            finally:
                over.set()
                await watch
                if not control.stopped.is_set():
                    await self._guarded(control)
                    if not self.why:
                        await self._look(number, drawn, control)

    async def _one(
        self,
        client: EndpointClient,
        arm: str,
        stage: int,
        n: int,
        due: float,
        request: Request,
        intended: float,
        answers: dict[str, Any],
        paired: bool,
        control: Control,
    ) -> None:
        """One request to one side, and its line in the log. ``answers`` holds what the other side said."""
        response = Response(n, request.prompt, intended)
        zero = intended - due
        error = None
        try:
            await client.send(request, response)
        except Exception as failure:  # whatever a client raises is this request's outcome
            error = self._plain(generator.one_line(failure))
        end = response.end or time.perf_counter()
        agree = None
        found = compared(response.text, self.trial.agree_on) if error is None else None
        if error is None and paired:
            answers[arm] = found
            if len(answers) == 2:
                agree = agrees(answers["candidate"], answers["baseline"], self.trial.agree_within)
        entry = Entry(
            n=n,
            stage=stage,
            arm=arm,
            due=round(due, 7),
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

    def _plain(self, error: str) -> str:
        """What a server says about a failure may repeat a key that it was sent; the log does not."""
        for secret in self.secrets:
            error = error.replace(secret, "***")
        return SECRETS.sub("***", error.encode("utf-8", "replace").decode())

    # -- looking

    async def _watch(self, number: int, window_s: float, drawn: bool, control: Control, over: asyncio.Event) -> None:
        """Guardrails every ``evaluate_every_s``, whatever else is being looked at; criteria at most ``MOST_LOOKS`` times a stage."""
        every, begin, turn = self.trial.evaluate_every_s, time.perf_counter(), 0
        between = max(1, round(window_s / every / MOST_LOOKS))
        look: Optional[asyncio.Task[None]] = None
        while not (over.is_set() or control.stopped.is_set()):
            turn = max(turn + 1, int((time.perf_counter() - begin) / every))
            try:
                await asyncio.wait_for(over.wait(), max(0.0, begin + turn * every - time.perf_counter()))
            except asyncio.TimeoutError:
                await self._guarded(control)
                if turn % between == 0 and not self.why and (look is None or look.done()):
                    look = asyncio.create_task(self._look(number, drawn, control))
        if look is not None:
            await look

    async def _guarded(self, control: Control) -> None:
        """Guardrails over what has been answered, in another thread: answers go on arriving meanwhile."""
        entries = self.entries[:]

        def guard() -> None:
            lost, reason = unreachable(entries, REHEARSED_WITH)
            breach = self.guard.breach(entries)
            if lost:
                self.why = f"lost: neither side can be reached ({reason})"
            elif breach:
                self.why = f"breach: {breach}"
            self.log.sync()

        await self._in_a_thread(guard, control)

    async def _look(self, number: int, drawn: bool, control: Control) -> None:
        """Every criterion over what has been answered. Sets ``why`` when the test must end here, ``full`` when the stage may end early."""
        entries = self.entries[:]
        if not len(entries):
            return

        def look() -> None:
            self.log.event("look", stage=number, count=len(entries))
            outcomes = {name: judge.take(entries) for name, judge in self.judges.items()}
            self.state = "; ".join(judge.brief for judge in self.judges.values())
            failed = [self.judges[name].found.because for name, outcome in outcomes.items() if outcome == "failed"]
            if failed and not self.why:
                self.why = f"failed: {failed[0]}"
            elif self.trial.may_pass_early and outcomes and set(outcomes.values()) == {"passed"}:
                self.full = "every criterion of the stage has passed"
            self._looks += 1
            if not drawn and self._looks % max(1, MOST_LOOKS // TOLD) == 0:
                self.tell(f"{self.plan.stages[number]['name']}: {len(entries):,} answers; {self.state}")

        await self._in_a_thread(look, control)

    _looks = 0

    async def _in_a_thread(self, work: Callable[[], None], control: Control) -> None:
        try:
            await asyncio.to_thread(work)
        except NotWritable as refused:
            self.unwritten = refused
        if self.why or self.unwritten or self.full:
            control.stop()


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


class _bar:
    """A bar on stderr, only on a terminal: requests and their rate, what is in flight, and how the criteria stand."""

    def __init__(self, name: str, total: int, wanted: bool, state: Callable[[], str]):
        self.name, self.total, self.state, self.bar = name, total, state, None
        self.drawn = wanted and sys.stderr.isatty()

    def __enter__(self) -> "_bar":
        if self.drawn:
            from tqdm import tqdm

            self.bar = tqdm(total=self.total, desc=self.name, unit="request", leave=False)
        return self

    def show(self, control: Control) -> None:
        if self.bar is not None:
            self.bar.set_postfix_str(f"{control.in_flight} in flight" + (f"; {state}" if (state := self.state()) else ""), refresh=False)
            self.bar.update(control.finished - self.bar.n)

    def __exit__(self, *_: object) -> None:
        if self.bar is not None:
            self.bar.close()


def _since(zero: float, moment: Optional[float]) -> Optional[float]:
    return None if moment is None else round(moment - zero, 7)


def _utc() -> str:
    return datetime.now(timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")
