"""Controlled tests that ran elsewhere: what a load generator, a proxy or the service wrote about each request, or totals.

    read(Path("requests.csv"))          -> TrialLog: rows with the side as the file calls it, or totals
    adopt_trial(question, [(None, path)]) -> Trial: the same criteria and statistics as of a test that ran here

The rows go into a log like that of :mod:`neuronfit.trial.run`, in the dossier, so that the verdict can be repeated. A
latency is what the tool says it is: most count from the time of sending, not from the intended one.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import math
import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, Optional

from neuronfit.errors import BadRecord
from neuronfit.provenance import Imported
from neuronfit.question import Question
from neuronfit.record import Trial, TrialPlan
from neuronfit.trial.evaluate import settle
from neuronfit.trial.log import ARMS, Entry, Log
from neuronfit.trial.log import read as read_log
from neuronfit.trial.plan import plan
from neuronfit.trial.run import agrees, compared

__all__ = ["FORMATS", "Row", "Totals", "TrialLog", "adopt_trial", "read", "recognise"]

FORMATS = {
    "trial_alb": "an access log of an Application Load Balancer",
    "trial_k6": "points of k6 (--out json)",
    "trial_k6_summary": "a summary of k6",
    "trial_vegeta": "results of vegeta (encode, JSON)",
    "trial_vegeta_csv": "results of vegeta (encode --to csv)",
    "trial_locust_stats": "totals of Locust (_stats.csv)",
    "trial_cloudwatch": "metrics of CloudWatch (get-metric-data)",
    "trial_prometheus": "a query over time of Prometheus",
    "trial_lines": "JSON lines, one per request",
    "trial_table": "a CSV, one line per request",
}
"""Format of a log or of totals -> what it is."""

SIDES = {
    "baseline": ("baseline", "control", "a", "old", "blue", "stable", "gpu"),
    "candidate": ("candidate", "treatment", "b", "new", "green", "canary", "shadow", "neuron"),
}
"""Names of a side that need no option, in any case. The names of both targets are known too."""

SECONDS = {"s": 1.0, "sec": 1.0, "seconds": 1.0, "ms": 1e-3, "millis": 1e-3, "milliseconds": 1e-3, "us": 1e-6, "ns": 1e-9}
UNIT = rf"(?:_({'|'.join(SECONDS)}))"
LATENCY = re.compile(rf"^(?:latency|duration|elapsed|response_time|total_time|time_total|e2e|e2e_latency|request_latency|took){UNIT}$")
FIRST = re.compile(rf"^(?:ttft|first_token|time_to_first_token){UNIT}$")
WITHOUT_UNIT = ("latency", "duration", "elapsed", "response_time", "total_time", "e2e_latency", "request_latency", "took")
ARM = ("arm", "side", "variant", "group", "target_group", "target", "backend", "upstream", "version", "scenario")
ID = ("request_id", "id", "pair_id", "pair", "trace_id", "n")
TIME = ("timestamp", "time", "ts", "sent", "start", "start_time", "at_s")
STATUS = ("status", "status_code", "code", "http_status")
FAILURE = ("error", "exception", "failure", "err")
ANSWER = ("answer", "label", "output", "prediction", "response", "result")
TOKENS = ("output_tokens", "completion_tokens", "tokens")
NOTHING = ("", "none", "null", "nan", "-", "false", "0")

PAIRED_FROM = 0.9
"""Share of the request ids that both sides must have for the log to be of paired requests."""


@dataclass
class Row:
    """One request, as the file has it. ``side`` is the file's word, or ``None``; ``at_s`` UNIX seconds or seconds of a clock."""

    side: Optional[str] = None
    id: Optional[str] = None
    at_s: Optional[float] = None
    latency_s: Optional[float] = None
    first_s: Optional[float] = None
    tokens: Optional[int] = None
    error: Optional[str] = None
    answer: Optional[str] = None
    agree: Optional[bool] = None


@dataclass
class Totals:
    """What a monitor counted of one side. ``values``: quantile -> seconds."""

    side: Optional[str] = None
    asked: Optional[int] = None
    failed: Optional[int] = None
    values: dict[str, float] = field(default_factory=dict)


@dataclass
class TrialLog:
    format: str
    rows: list[Row] = field(default_factory=list)
    totals: list[Totals] = field(default_factory=list)
    left_out: int = 0
    """lines without a latency and without an error"""


def recognise(head: bytes, name: str) -> Optional[str]:
    """Format by content, or ``None``."""
    text = head.decode("utf-8-sig", "replace").lstrip()
    first = text.split("\n", 1)[0].strip()
    if re.match(r"^(https?|h2|grpcs?|wss?) \d{4}-\d\d-\d\dT\S+ \S+ \S+:\d+ ", first):
        return "trial_alb"
    if text[:1] == "{":
        return _json_kind(first, text)
    if re.match(r"^\d{18,20},\d{1,3},\d+,", first):
        return "trial_vegeta_csv"
    names = {_plain(cell) for cell in next(csv.reader([first]), [])}
    if {"request_count", "failure_count", "type"} <= names:
        return "trial_locust_stats"
    return "trial_table" if _says_requests(names) else None


def _json_kind(first: str, text: str) -> Optional[str]:
    if '"MetricDataResults"' in text:
        return "trial_cloudwatch"
    if re.search(r'"resultType"\s*:\s*"matrix"', text):
        return "trial_prometheus"
    if '"http_req_duration"' in text and '"metrics"' in text and not re.match(r'\{\s*"metric"|\{\s*"type"', text):
        return "trial_k6_summary"
    try:
        line = json.loads(first)
    except ValueError:
        return None
    if line.get("type") in ("Metric", "Point") and "metric" in line:
        return "trial_k6"
    if {"seq", "code", "latency", "timestamp"} <= line.keys():
        return "trial_vegeta"
    return "trial_lines" if _says_requests({_plain(name) for name in line}) else None


def _says_requests(names: set[str]) -> bool:
    """A latency with its unit (or Locust's, in ms) and a word about the side, the outcome or the request."""
    latency = any(LATENCY.match(name) for name in names) or names & set(WITHOUT_UNIT)
    return bool(latency) and bool(names & {*ARM, *ID, *STATUS, *FAILURE, "success", "ok"})


def read(path: Path, format: Optional[str] = None) -> TrialLog:
    """The rows or totals of a file. Raises :class:`~neuronfit.errors.BadRecord`, one line."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise BadRecord(f"cannot read the log ({error.strerror})", str(path), next="check the path") from None
    format = format or recognise(data[:65536], path.name)
    if format not in FORMATS:
        raise BadRecord(
            "no log of a test that is known",
            path.name,
            allowed=", ".join(name.removeprefix("trial_") for name in FORMATS),
            next="make a CSV with the columns arm, request_id, latency_ms, status",
        )
    try:
        found = _READERS[format](data.decode("utf-8-sig", "replace"), TrialLog(format))
    except (KeyError, TypeError, AttributeError, IndexError, ValueError, csv.Error) as error:
        raise BadRecord(
            f"looks like {FORMATS[format]} and cannot be read as such ({type(error).__name__})", path.name, next="check the file"
        ) from None
    if not found.rows and not found.totals:
        raise BadRecord(f"{FORMATS[format]} without a single request", path.name, next="check the file")
    return found


# -- rows -------------------------------------------------------------------------------------


def _table(text: str, log: TrialLog) -> TrialLog:
    return _records(csv.DictReader(io.StringIO(text)), log)


def _lines(text: str, log: TrialLog) -> TrialLog:
    return _records(_objects(text, log), log)


def _objects(text: str, log: TrialLog) -> Iterator[dict[str, Any]]:
    for line in text.splitlines():
        if line.strip():
            try:
                found = json.loads(line)
            except ValueError:
                found = None
            if isinstance(found, dict):
                yield found
            else:
                log.left_out += 1


def _records(records: Iterable[Mapping[str, Any]], log: TrialLog) -> TrialLog:
    columns: Optional[_Columns] = None
    for record in records:
        cells = {_plain(name): value for name, value in record.items() if isinstance(name, str)}
        columns = columns or _Columns(cells)
        _keep(log, columns.row(cells))
    return log


class _Columns:
    """Which column says what. Raises :class:`~neuronfit.errors.BadRecord` for a latency without a unit."""

    def __init__(self, names: Iterable[str]):
        names = list(names)
        self.latency = next(((name, SECONDS[match[1]]) for name in names if (match := LATENCY.match(name))), None)
        if self.latency is None and "response_time" in names and {"request_type", "exception"} & set(names):
            self.latency = ("response_time", 1e-3)  # Locust: milliseconds
        bare = next((name for name in names if name in WITHOUT_UNIT), None)
        if self.latency is None and bare:
            raise BadRecord("a latency without a unit, column", bare, allowed=f"{bare}_ms, {bare}_s", next="write the unit into the column's name")
        self.first = next(((name, SECONDS[match[1]]) for name in names if (match := FIRST.match(name))), None)
        self.side, self.id, self.time, self.status, self.failure, self.answer, self.tokens = (
            next((name for name in wanted if name in names), None) for wanted in (ARM, ID, TIME, STATUS, FAILURE, ANSWER, TOKENS)
        )
        self.good = next((name for name in ("success", "ok") if name in names), None)
        self.agree = next((name for name in ("agree", "agrees", "match") if name in names), None)

    def row(self, cells: Mapping[str, Any]) -> Row:
        def at(name: Optional[str]) -> Any:
            return cells.get(name) if name else None

        agree, answer = at(self.agree), at(self.answer)
        return Row(
            side=_text(at(self.side)),
            id=_text(at(self.id)),
            at_s=_moment(at(self.time)),
            latency_s=_scaled(cells, self.latency),
            first_s=_scaled(cells, self.first),
            tokens=int(count) if (count := _number(at(self.tokens))) is not None else None,
            error=_failure(at(self.status), at(self.failure), at(self.good)),
            answer=answer if answer is None or isinstance(answer, str) else json.dumps(answer, sort_keys=True),
            agree=None if agree in (None, "") else str(agree).lower() in ("true", "1", "yes"),
        )


def _failure(status: Any, error: Any, good: Any) -> Optional[str]:
    if error is not None and str(error).strip().lower() not in NOTHING:
        return " ".join(str(error).split())[:160]
    code = _number(status)
    if code is not None and not 200 <= code < 400:
        return f"http {code:.0f}"
    if code is None and status is not None and str(status).strip().lower() in ("error", "fail", "failed", "timeout"):
        return str(status).strip().lower()
    if good is not None and str(good).strip().lower() in ("false", "0", "no"):
        return "failed"
    return None


def _keep(log: TrialLog, row: Row) -> None:
    usable = row.error is not None or (row.latency_s is not None and row.latency_s > 0)
    if usable:
        log.rows.append(row)
    else:
        log.left_out += 1


def _k6(text: str, log: TrialLog) -> TrialLog:
    for line in _objects(text, log):
        if line.get("type") != "Point" or line.get("metric") != "http_req_duration":
            continue
        data = line["data"]
        tags = data.get("tags") or {}
        failed = tags.get("expected_response") == "false" or bool(tags.get("error"))
        side = next((tags[name] for name in ARM if tags.get(name) and not (name == "scenario" and tags[name] == "default")), None)
        error = tags.get("error") or _failure(tags.get("status"), None, None) or ("unexpected response" if failed else None)
        value = _number(data["value"])
        row = Row(
            side=side, id=tags.get("request_id"), at_s=_moment(data.get("time")), latency_s=None if value is None else value * 1e-3, error=error
        )
        if row.at_s is not None and row.latency_s is not None:
            row.at_s -= row.latency_s  # k6 stamps the end
        _keep(log, row)
    return log


def _vegeta(text: str, log: TrialLog) -> TrialLog:
    for line in _objects(text, log):
        latency = _number(line["latency"])
        failed = _failure(line["code"] or 599, line.get("error"), None)
        _keep(log, Row(side=line.get("attack") or None, at_s=_moment(line["timestamp"]), latency_s=latency * 1e-9 if latency else None, error=failed))
    return log


def _vegeta_csv(text: str, log: TrialLog) -> TrialLog:
    """timestamp ns, code, latency ns, bytes out, bytes in, error, body, attack, ..."""
    for cells in csv.reader(io.StringIO(text)):
        failed = _failure(int(cells[1]) or 599, cells[5], None)
        side = cells[7] if len(cells) > 7 and cells[7] else None
        _keep(log, Row(side=side, at_s=int(cells[0]) * 1e-9, latency_s=int(cells[2]) * 1e-9, error=failed))
    return log


def _alb(text: str, log: TrialLog) -> TrialLog:
    """Fields of the user guide: 5..7 times, -1 where there was none; 8 status; 16 the target group's ARN; 17 the trace id."""
    for line in text.splitlines():
        if not line.strip():
            continue
        cells = shlex.split(line)
        times = [float(cell) for cell in cells[5:8]]
        group = cells[16].split(":targetgroup/", 1)[-1].split("/")[0]
        taken = sum(times) if min(times) >= 0 else None
        ended = _moment(cells[1])
        error = _failure(cells[8], None, None) or (None if taken is not None else "no answer of the target")
        _keep(log, Row(side=group, at_s=ended - taken if ended and taken else ended, latency_s=taken, error=error))
    return log


# -- totals -----------------------------------------------------------------------------------


def _locust_stats(text: str, log: TrialLog) -> TrialLog:
    rows = [{_plain(name): value for name, value in row.items() if name} for row in csv.DictReader(io.StringIO(text))]
    single = [row for row in rows if row["name"] != "Aggregated"]
    for row in single or rows:
        values = {f"latency_{name}_s": float(row[key]) * 1e-3 for name, key in (("p50", "50%"), ("p95", "95%"), ("p99", "99%")) if row.get(key)}
        log.totals.append(Totals(row["name"] if len(single) > 1 else None, int(row["request_count"]), int(row["failure_count"]), values))
    return log


def _k6_summary(text: str, log: TrialLog) -> TrialLog:
    metrics = {name: entry.get("values", entry) for name, entry in json.loads(text)["metrics"].items()}
    failed, taken = metrics.get("http_req_failed", {}), metrics["http_req_duration"]
    values = {f"latency_{name}_s": taken[key] * 1e-3 for name, key in (("p50", "med"), ("p95", "p(95)"), ("p99", "p(99)")) if key in taken}
    asked = metrics.get("http_reqs", {}).get("count")
    log.totals.append(Totals(None, asked, failed.get("passes"), values))  # k6 counts a failed request as a pass of this rate
    return log


def _cloudwatch(text: str, log: TrialLog) -> TrialLog:
    """Sums of counts; a percentile of a minute is no percentile of the test, so none is taken."""
    found: dict[str, Totals] = {}
    for series in json.loads(text)["MetricDataResults"]:
        label = f"{series.get('Label') or ''} {series['Id']}"
        side = next((word for word in re.split(r"[^A-Za-z0-9.-]+", label) if _arm(word, {})), None)
        one, total = found.setdefault(side or "", Totals(side)), sum(series["Values"])
        if re.search(r"5xx|error|fail", label, re.IGNORECASE):
            one.failed = (one.failed or 0) + round(total)
        elif re.search(r"invocations|requestcount|requests", label, re.IGNORECASE):
            one.asked = (one.asked or 0) + round(total)
    log.totals = [one for one in found.values() if one.asked]
    return log


def _prometheus(text: str, log: TrialLog) -> TrialLog:
    """Counters of requests: what each grew by, resets left out; by status where they carry one. Quantiles: the last value."""
    found: dict[str, Totals] = {}
    for series in json.loads(text)["data"]["result"]:
        labels, values = series["metric"], [float(value) for _, value in series["values"]]
        side = next((labels[name] for name in ARM if labels.get(name)), None)
        one = found.setdefault(side or "", Totals(side))
        if "quantile" in labels:
            one.values[f"latency_p{float(labels['quantile']) * 100:g}_s"] = values[-1]
            continue
        grown = round(sum(max(after - before, 0.0) for before, after in zip(values, values[1:])))
        one.asked = (one.asked or 0) + grown
        status = next((labels[name] for name in STATUS if labels.get(name)), None)
        if status is not None:
            one.failed = (one.failed or 0) + (grown if _failure(status, None, None) or status.lower() == "5xx" else 0)
    log.totals = [one for one in found.values() if one.asked or one.values]
    return log


_READERS: dict[str, Callable[[str, TrialLog], TrialLog]] = {
    "trial_alb": _alb,
    "trial_k6": _k6,
    "trial_k6_summary": _k6_summary,
    "trial_vegeta": _vegeta,
    "trial_vegeta_csv": _vegeta_csv,
    "trial_locust_stats": _locust_stats,
    "trial_cloudwatch": _cloudwatch,
    "trial_prometheus": _prometheus,
    "trial_lines": _lines,
    "trial_table": _table,
}


# -- into the dossier -------------------------------------------------------------------------


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
    logs = [(arm, path, read(path)) for arm, path in files]
    rows = [(arm or _side(row.side, words, path), row) for arm, path, log in logs for row in log.rows]
    totals = [(arm or _side(one.side, words, path), one) for arm, path, log in logs for one in log.totals]
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
    _write(target, registered, number, rows, totals, paired, question, [log for *_, log in logs])
    names = ", ".join(path.name for _, path in files)
    tools = ", ".join(dict.fromkeys(FORMATS[log.format] for *_, log in logs))
    missing_parts = ["the intended time of sending: latency counts from where the tool starts its clock"] if rows else ["a line per request"]
    source = Imported(file=names, sha256=digest, tool=tools, missing=tuple(missing_parts))
    return settle(question, registered, read_log(target), source, str(target.relative_to(question.dossier.folder)))


def _side(word: Optional[str], words: Mapping[str, str], path: Path) -> str:
    found = _arm(word, words)
    if found is None:
        what = "the file does not say which side a request went to" if word is None else "a side that is neither baseline nor candidate"
        advice = (
            "name a file for each: --log baseline=FILE --log candidate=FILE" if word is None else f"--side candidate={word} or --side baseline={word}"
        )
        raise BadRecord(what, word or path.name, next=advice)
    return found


def _arm(word: Optional[str], words: Mapping[str, str]) -> Optional[str]:
    low = (word or "").lower()
    return words.get(low) or next((arm for arm, known in SIDES.items() if low in known), None)


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


def _write(
    path: Path,
    registered: TrialPlan,
    stage: int,
    rows: Sequence[tuple[str, Row]],
    totals: Sequence[tuple[str, Totals]],
    paired: bool,
    question: Question,
    logs: Sequence[TrialLog],
) -> None:
    times = [row.at_s for _, row in rows if row.at_s is not None]
    start = min(times) if len(times) == len(rows) and times else None
    known = start is not None and start > 1e8
    counts = {arm: sum(one == arm for one, _ in rows) for arm in ARMS}
    per_side = round(2 * counts["baseline"] * counts["candidate"] / len(rows)) if rows else 0
    log = Log(path)
    try:
        log.begin(registered.id, datetime.fromtimestamp(start, timezone.utc).isoformat() if known else "unknown")
        log.event("imported", formats=[one.format for one in logs], left_out=sum(one.left_out for one in logs), paired=paired)
        log.event("stage", stage=stage, name=registered.stages[stage]["name"], per_side=max(per_side, 1))
        for arm, one in totals:
            log.event("totals", stage=stage, arm=arm, asked=one.asked, failed=one.failed, values=one.values)
        for entry in _entries(rows, stage, paired, start, question):
            log.add(entry)
        log.event("stage_end", stage=stage)
        log.event("end", why="finished")
    finally:
        log.close()


def _entries(rows: Sequence[tuple[str, Row]], stage: int, paired: bool, start: Optional[float], question: Question) -> list[Entry]:
    """In the order in which answers came, where the log has times."""
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
    return sorted(entries, key=lambda entry: entry.end or entry.due) if start is not None else entries


# -- cells ------------------------------------------------------------------------------------


def _plain(name: str) -> str:
    """``Latency (ms)`` -> ``latency_ms``."""
    return re.sub(r"[^a-z0-9%]+", "_", re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name.strip()).lower()).strip("_")


def _text(value: Any) -> Optional[str]:
    return None if value is None or str(value).strip() == "" else str(value).strip()


def _number(value: Any) -> Optional[float]:
    try:
        found = float(value)
    except (TypeError, ValueError):
        return None
    return found if math.isfinite(found) else None


def _scaled(cells: Mapping[str, Any], column: Optional[tuple[str, float]]) -> Optional[float]:
    value = _number(cells.get(column[0])) if column else None
    return None if value is None else value * column[1]


def _moment(value: Any) -> Optional[float]:
    """UNIX seconds of a number (s, ms, us or ns, by its size) or of an ISO time."""
    number = _number(value)
    if number is not None:
        return number / next((scale for least, scale in ((1e17, 1e9), (1e14, 1e6), (1e11, 1e3)) if number > least), 1.0)
    text = re.sub(r"\.(\d+)", lambda digits: "." + f"{digits[1]:0<6}"[:6], str(value or "")).replace("Z", "+00:00")
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return None
    return (found if found.tzinfo else found.replace(tzinfo=timezone.utc)).timestamp()
