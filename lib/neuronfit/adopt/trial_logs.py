"""Controlled tests that ran elsewhere, into the dossier: what a load generator, a proxy or the service wrote about each request, or totals.

    adopt_trial(question, [(None, path)]) -> Trial: the same criteria and statistics as of a test that ran here

The rows that :mod:`neuronfit.adopt.request_logs` reads go into a log like that of :mod:`neuronfit.trial.run`, in the dossier,
so that the verdict can be repeated.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, Optional

from neuronfit.adopt.metric_exports import Totals, side_of
from neuronfit.adopt.request_logs import FORMATS, Row, TrialLog, read, recognise
from neuronfit.errors import BadRecord
from neuronfit.provenance import Imported
from neuronfit.question import Question
from neuronfit.record import Trial, TrialPlan
from neuronfit.trial.evaluate import settle
from neuronfit.trial.log import ARMS, Entry, Log
from neuronfit.trial.log import read as read_log
from neuronfit.trial.plan import plan
from neuronfit.trial.run import agrees, compared

__all__ = ["FORMATS", "Row", "TrialLog", "adopt_trial", "read", "recognise"]

PAIRED_FROM = 0.9
"""Share of the request ids that both sides must have for the log to be of paired requests."""


def adopt_trial(
    question: Question, files: Sequence[tuple[Optional[str], Path]], sides: Optional[Mapping[str, str]] = None, stage: Optional[str] = None
) -> Trial:
    """Judge a test that ran elsewhere and admit the verdict.

    ``files`` are (side, path): one file with both sides and ``None``, or one a side. ``sides`` maps the file's words for a
    side to ``baseline`` or ``candidate``. ``stage`` names the stage of the plan it was; by default the first that fits:
    paired where both sides have the same request ids, split otherwise. Raises :class:`~neuronfit.errors.BadRecord`.
    """
    registered = plan(question)
    words = {word.lower(): arm for word, arm in (sides or {}).items()}
    words |= {registered.baseline.lower(): "baseline", registered.candidate.lower(): "candidate"}
    logs = [(arm, path, read(path, words=words)) for arm, path in files]
    rows = [(arm or _side(row.side, words, path, log), row) for arm, path, log in logs for row in log.rows]
    totals = [(arm or _side(one.side, words, path, log), one) for arm, path, log in logs for one in log.totals]
    missing = [arm for arm in ARMS if arm not in {arm for arm, _ in (*rows, *totals)}]
    if missing:
        raise BadRecord(
            f"the log has no request of the {missing[0]}", files[0][1].name, next=f"add --log {missing[0]}=FILE, or --side {missing[0]}=WORD"
        )
    paired = _paired(rows)
    number = _stage(registered, rows, paired, stage)
    digest = hashlib.sha256(b"".join(path.read_bytes() for _, path in files)).hexdigest()
    target = question.dossier.folder / "trial" / f"{registered.id}-{digest[:8]}.jsonl"
    target.unlink(missing_ok=True)
    _write(target, registered, number, rows, totals, paired, question, _noted(logs, rows))
    names = ", ".join(path.name for _, path in files)
    tools = ", ".join(dict.fromkeys(FORMATS[log.format] for *_, log in logs))
    missing_parts = ["the intended time of sending: latency counts from where the tool starts its clock"] if rows else ["a line per request"]
    source = Imported(file=names, sha256=digest, tool=tools, missing=tuple(missing_parts))
    return settle(question, registered, read_log(target), source, str(target.relative_to(question.dossier.folder)))


def _side(word: Optional[str], words: Mapping[str, str], path: Path, log: TrialLog) -> str:
    found = side_of(word, words)
    if found is None:
        named = {row.side for row in log.rows} | {one.side for one in log.totals}
        what = "the file does not say which side a request went to" if len(named) < 2 else "a side that is neither baseline nor candidate"
        files = "name a file for each: --log baseline=FILE --log candidate=FILE"
        advice = files if len(named) < 2 else f"--side candidate={word} or --side baseline={word}"
        raise BadRecord(what, path.name if word is None or len(named) < 2 else word, next=advice)
    return found


def _paired(rows: Sequence[tuple[str, Row]]) -> bool:
    """Both sides have the same requests, each once."""
    ids = {arm: [row.id for one, row in rows if one == arm] for arm in ARMS}
    if any(None in one or len(set(one)) != len(one) for one in ids.values()) or not all(ids.values()):
        return False
    both = set(ids["baseline"]) & set(ids["candidate"])
    return len(both) >= PAIRED_FROM * max(map(len, ids.values()))


def _stage(registered: TrialPlan, rows: Sequence[tuple[str, Row]], paired: bool, name: Optional[str]) -> int:
    """Number of the stage that the log is of."""
    names = [stage["name"] for stage in registered.stages]
    if name is not None:
        if name not in names:
            raise BadRecord("the plan has no stage of that name", name, allowed=", ".join(names))
        fits = [names.index(name)]
        if rows and not paired and registered.stages[fits[0]]["mode"] != "split":
            raise BadRecord("the stage pairs requests, and the log does not: there are no request ids that both sides share, stage", name)
        return fits[0]
    share = sum(arm == "candidate" for arm, _ in rows) / len(rows) if rows else 0.5
    fits = [number for number, stage in enumerate(registered.stages) if (stage["mode"] != "split") == paired or not rows]
    if not fits:
        kind = "pairs requests" if paired else "splits traffic"
        raise BadRecord(f"the plan has no stage that {kind}, and the log does", names, next="add such a stage to trial.stages")
    return min(fits, key=lambda number: abs(registered.stages[number]["share"] - share)) if not paired else fits[0]


def _noted(logs: Sequence[tuple[Optional[str], Path, TrialLog]], rows: Sequence[tuple[str, Row]]) -> dict[str, Any]:
    """What must be known of the files beside their rows: which failures they cannot show, how latencies are rounded, when each side was asked."""
    unsaid, steps = {}, {}
    for arm, _, log in logs:
        for one in (arm,) if arm else ARMS:
            if log.rows and log.unsaid:
                unsaid[one] = log.unsaid
            if log.rows and log.step_s:
                steps[one] = log.step_s
    spans = {}
    for arm in ARMS:
        times = [row.at_s for one, row in rows if one == arm and row.at_s is not None and row.at_s > 1e8]
        if times:
            spans[arm] = [min(times), max(times)]
    left_out = sum(log.left_out for *_, log in logs)
    return {"formats": [log.format for *_, log in logs], "left_out": left_out, "unsaid": unsaid, "steps": steps, "spans": spans}


def _write(
    path: Path,
    registered: TrialPlan,
    stage: int,
    rows: Sequence[tuple[str, Row]],
    totals: Sequence[tuple[str, Totals]],
    paired: bool,
    question: Question,
    noted: Mapping[str, Any],
) -> None:
    times = [row.at_s for _, row in rows if row.at_s is not None]
    start = min(times) if len(times) == len(rows) and times else None
    known = start is not None and start > 1e8
    counts = {arm: sum(one == arm for one, _ in rows) for arm in ARMS}
    per_side = round(2 * counts["baseline"] * counts["candidate"] / len(rows)) if rows else 0
    log = Log(path)
    try:
        log.begin(registered.id, datetime.fromtimestamp(start, timezone.utc).isoformat() if known else "unknown")
        log.event("imported", **noted, paired=paired)
        log.event("stage", stage=stage, name=registered.stages[stage]["name"], per_side=max(per_side, 1))
        for arm, one in totals:
            buckets = {metric: [[bucket.above, min(bucket.upto, 1e9), bucket.count] for bucket in each] for metric, each in one.buckets.items()}
            log.event(
                "totals", stage=stage, arm=arm, asked=one.asked, failed=one.failed, values=one.values, buckets=buckets, remarks=list(one.remarks)
            )
        for entry in _entries(rows, stage, paired, start, question):
            log.add(entry)
        log.event("stage_end", stage=stage)
        log.event("end", why="finished")
    finally:
        log.close()


def _entries(rows: Sequence[tuple[str, Row]], stage: int, paired: bool, start: Optional[float], question: Question) -> list[Entry]:
    """In the order in which answers came, where the log has times; in that of the file within a second, where it has whole seconds only."""
    asked = question.params.trial
    numbers = {key: number for number, key in enumerate(dict.fromkeys(row.id for _, row in rows))} if paired else {}
    answers: dict[Optional[str], Any] = {}
    entries = []
    for place, (arm, row) in enumerate(rows):
        due = row.at_s - start if start is not None and row.at_s is not None else float(place)
        agree = row.agree
        if paired and row.answer is not None and row.error is None:
            found = compared(row.answer, asked.agree_on)
            if row.id in answers:
                other, theirs = answers[row.id]
                agree = agrees(*((found, theirs) if other == "baseline" else (theirs, found)), asked.agree_within)
            answers[row.id] = (arm, found)
        entries.append(
            Entry(
                n=numbers[row.id] if paired else place,
                stage=stage,
                arm=arm,
                due=due,
                first=None if row.first_s is None else due + row.first_s,
                end=None if row.latency_s is None else due + row.latency_s,
                tokens=row.tokens,
                agree=agree,
                error=row.error,
            )
        )
    if start is None:
        return entries
    whole = all(row.at_s == int(row.at_s or 0) for _, row in rows)
    return sorted(entries, key=lambda entry: entry.due if whole else entry.end or entry.due)
