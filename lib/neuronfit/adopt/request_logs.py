"""Requests as a load generator, a proxy or a service wrote them, one a line; and totals of a monitor. Text in, rows out.

    read(Path("requests.csv")) -> TrialLog: rows with the side as the file calls it, or totals

A latency is what the tool says it is: most count from the time of sending, not from the intended one. What a file leaves
out is said in ``unsaid``: a log that drops the requests without an answer shows no failures.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import math
import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, Optional

from neuronfit.adopt import load_summaries, metric_exports
from neuronfit.adopt.document import MOST_BYTES, Document
from neuronfit.adopt.metric_exports import Totals
from neuronfit.adopt.tables import delimiter_of
from neuronfit.errors import BadRecord

__all__ = ["FORMATS", "REQUESTS", "Row", "TrialLog", "parse", "read", "recognise"]

REQUESTS = {
    "trial_alb": "an access log of an Application Load Balancer",
    "trial_k6": "points of k6 (--out json)",
    "trial_k6_csv": "points of k6 (--out csv)",
    "trial_vegeta": "results of vegeta (encode, JSON)",
    "trial_vegeta_csv": "results of vegeta (encode --to csv)",
    "trial_hey": "requests of hey (-o csv)",
    "trial_ab": "requests of ab (-g)",
    "trial_h2load": "requests of h2load (--log-file)",
    "trial_jmeter": "samples of JMeter (a JTL file as CSV)",
    "trial_lines": "JSON lines, one per request",
    "trial_table": "a CSV, one line per request",
}
"""Format of a log with a line per request -> what it is."""

FORMATS = {**REQUESTS, **metric_exports.FORMATS, **{f"trial_{name}": f"totals of {what}" for name, what in load_summaries.FORMATS.items()}}
"""Format of a log or of totals -> what it is."""

SECONDS = {"s": 1.0, "sec": 1.0, "seconds": 1.0, "ms": 1e-3, "millis": 1e-3, "milliseconds": 1e-3, "us": 1e-6, "ns": 1e-9}
UNIT = rf"(?:_({'|'.join(SECONDS)}))"
LATENCY = re.compile(rf"^(?:latency|duration|elapsed|response_time|total_time|time_total|e2e|e2e_latency|request_latency|took){UNIT}$")
FIRST = re.compile(rf"^(?:ttft|first_token|time_to_first_token){UNIT}$")
WITHOUT_UNIT = ("latency", "duration", "elapsed", "response_time", "total_time", "e2e_latency", "request_latency", "took")
ARM = ("arm", "side", "variant", "group", "target_group", "target", "backend", "upstream", "version", "scenario", "host", "name", "url")
ID = ("request_id", "id", "pair_id", "pair", "trace_id", "n")
TIME = ("timestamp", "time", "ts", "sent", "start", "start_time", "at_s")
STATUS = ("status", "status_code", "code", "http_status", "response_code")
FAILURE = ("error", "exception", "failure", "err")
ANSWER = ("answer", "label", "output", "prediction", "response", "result")
TOKENS = ("output_tokens", "completion_tokens", "tokens")
NOTHING = ("", "none", "null", "nan", "-", "false", "0")

HEY = ["response-time", "DNS+dialup", "DNS", "Request-write", "Response-delay", "Response-read"]
AB = ["starttime", "seconds", "ctime", "dtime", "ttime", "wait"]
JMETER = {"time_stamp", "elapsed", "response_code"}
VALUES_OF_ONE_STEP = 20
"""A column of latencies counts as rounded when its values are whole steps, from this many rows on."""


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
class TrialLog:
    format: str
    rows: list[Row] = field(default_factory=list)
    totals: list[Totals] = field(default_factory=list)
    left_out: int = 0
    """lines without a latency and without an error"""
    unsaid: Optional[str] = None
    """which failures the file cannot show; with it no share of errors can be small"""

    @property
    def step_s(self) -> float:
        """The step to which latencies are rounded: 1 ms where all are whole milliseconds, else 0."""
        values = [row.latency_s * 1e3 for row in self.rows if row.latency_s is not None]
        return 1e-3 if len(values) >= VALUES_OF_ONE_STEP and all(abs(value - round(value)) < 1e-6 for value in values) else 0.0


def recognise(head: bytes, name: str = "") -> Optional[str]:
    """Format by content, or ``None``."""
    text = head.decode("utf-8-sig", "replace").lstrip()
    first = text.split("\n", 1)[0].strip()
    if re.match(r"^(https?|h2|grpcs?|wss?) \d{4}-\d\d-\d\dT\S+ \S+ \S+:\d+ ", first):
        return "trial_alb"
    if found := metric_exports.recognise(text):
        return found
    if found := load_summaries.recognise(head):
        return f"trial_{found}"
    if text[:1] == "{":
        return _json_kind(first)
    if re.match(r"^\d{18,20},\d{1,3},\d+,", first):
        return "trial_vegeta_csv"
    if re.match(r"^\d{16}\t-?\d{1,3}\t\d+$", first):
        return "trial_h2load"
    cells = next(csv.reader(first.splitlines()[:1], delimiter=delimiter_of(first)), [])
    if cells[:6] == HEY:
        return "trial_hey"
    if cells == AB:
        return "trial_ab"
    if cells[:3] == ["metric_name", "timestamp", "metric_value"]:
        return "trial_k6_csv"
    names = {_plain(cell) for cell in cells}
    if JMETER <= names:
        return "trial_jmeter"
    return "trial_table" if _says_requests(names) else None


def _json_kind(first: str) -> Optional[str]:
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


def read(path: Path, format: Optional[str] = None, words: Iterable[str] = ()) -> TrialLog:
    """The rows or totals of a file; ``words`` are those that mean a side. Raises :class:`~neuronfit.errors.BadRecord`, one line."""
    if path.is_file() and path.stat().st_size > MOST_BYTES:
        advice = "keep the lines that are needed, of k6: grep http_req_duration FILE > SMALLER"
        raise BadRecord(f"{path.name} is too large, bytes", path.stat().st_size, allowed=f"up to {MOST_BYTES}", next=advice)
    document = Document.open(path)
    if b"\0" in document.data[:4096] and (found := load_summaries.refused(document.data[:4096])):
        raise BadRecord(f"{found[0]} cannot be used", path.name, next=found[1])
    text, head = document.text, document.head
    format = format or recognise(head, path.name)
    if format not in FORMATS:
        if found := load_summaries.refused(head):
            raise BadRecord(f"{found[0]} cannot be used", path.name, next=found[1])
        raise BadRecord(
            "no log of a test that is known",
            path.name,
            allowed=", ".join(name.removeprefix("trial_") for name in FORMATS),
            next="make a CSV with the columns arm, request_id, latency_ms, status",
        )
    return parse(text, format, path.name, words)


def parse(text: str, format: str, name: str, words: Iterable[str] = ()) -> TrialLog:
    """The rows or totals of a text of a known format. Raises :class:`~neuronfit.errors.BadRecord`, one line, with the file's ``name``."""
    log = TrialLog(format)
    try:
        if format in _READERS:
            _READERS[format](text, log)
        else:
            log.totals = metric_exports.read(text, format, words) if format in metric_exports.FORMATS else _summed(text, format)
    except (KeyError, TypeError, AttributeError, IndexError, ValueError, csv.Error) as error:
        raise BadRecord(f"looks like {FORMATS[format]} and cannot be read as such ({type(error).__name__})", name, next="check the file") from None
    if not log.rows and not log.totals:
        raise BadRecord(f"{FORMATS[format]} without a single request", name, next="check the file")
    return log


def _summed(text: str, format: str) -> list[Totals]:
    """What a load generator printed at its end, as totals."""
    found = load_summaries.summaries(text, format.removeprefix("trial_"))
    names = {0.5: "p50", 0.95: "p95", 0.99: "p99"}
    return [
        Totals(
            one.side if len(found) > 1 else None,
            one.asked,
            one.failed,
            {f"latency_{names[q]}_s": value for q, value in one.quantiles.items() if q in names},
            {"latency": one.buckets} if one.buckets else {},
            one.remarks,
        )
        for one in found
    ]


# -- rows -------------------------------------------------------------------------------------


def _table(text: str, log: TrialLog) -> TrialLog:
    return _records(csv.DictReader(io.StringIO(text), delimiter=delimiter_of(text.split("\n", 1)[0])), log)


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
    if columns is not None and not columns.tells_failures:
        log.unsaid = "the file has no column that says which requests failed (status, error or success)"
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

    @property
    def tells_failures(self) -> bool:
        return bool(self.status or self.failure or self.good)

    def row(self, cells: Mapping[str, Any]) -> Row:
        def at(name: Optional[str]) -> Any:
            return cells.get(name) if name else None

        agree, answer = at(self.agree), at(self.answer)
        return Row(
            side=_text(at(self.side)),
            id=_text(at(self.id)),
            at_s=moment(at(self.time)),
            latency_s=_scaled(cells, self.latency),
            first_s=_scaled(cells, self.first),
            tokens=int(count) if (count := _number(at(self.tokens))) is not None else None,
            error=failure(at(self.status), at(self.failure), at(self.good)),
            answer=answer if answer is None or isinstance(answer, str) else json.dumps(answer, sort_keys=True),
            agree=None if agree in (None, "") else str(agree).lower() in ("true", "1", "yes"),
        )


def failure(status: Any, error: Any = None, good: Any = None) -> Optional[str]:
    """Why a request counts as failed, on one line: an error, a status other than 2xx and 3xx, or a word that says so."""
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


def _k6_row(log: TrialLog, tags: Mapping[str, Any], value: Any, time: Any) -> None:
    """k6 stamps the end, in its CSV in whole seconds. Where no tag names the side, the request's name does, which is its address by default."""
    failed = tags.get("expected_response") == "false" or bool(tags.get("error"))
    side = next((tags[name] for name in ARM if tags.get(name) and not (name == "scenario" and tags[name] == "default")), None)
    error = tags.get("error") or failure(tags.get("status") or None) or ("unexpected response" if failed else None)
    number, at = _number(value), moment(time)
    row = Row(side=side, id=tags.get("request_id"), at_s=at, latency_s=None if number is None else number * 1e-3, error=error)
    if row.at_s is not None and row.latency_s is not None and row.at_s != int(row.at_s):
        row.at_s -= row.latency_s
    _keep(log, row)


def _k6(text: str, log: TrialLog) -> TrialLog:
    for line in _objects(text, log):
        if line.get("type") == "Point" and line.get("metric") == "http_req_duration":
            data = line["data"]
            _k6_row(log, {**(data.get("tags") or {}), **(data.get("metadata") or {})}, data["value"], data.get("time"))
    return log


def _k6_csv(text: str, log: TrialLog) -> TrialLog:
    """A column per tag; tags of the script stand in ``extra_tags`` as ``name=value&name=value``."""
    for line in csv.DictReader(io.StringIO(text)):
        if line["metric_name"] == "http_req_duration":
            more = f"{line.get('extra_tags') or ''}&{line.get('metadata') or ''}"
            extra = dict(part.split("=", 1) for part in more.split("&") if "=" in part)
            _k6_row(log, {**line, **extra}, line["metric_value"], line["timestamp"])
    return log


def _vegeta(text: str, log: TrialLog) -> TrialLog:
    for line in _objects(text, log):
        latency = _number(line["latency"])
        failed = failure(line["code"] or 599, line.get("error"))
        side = line.get("attack") or line.get("url") or None
        _keep(log, Row(side=side, at_s=moment(line["timestamp"]), latency_s=latency * 1e-9 if latency else None, error=failed))
    return log


def _vegeta_csv(text: str, log: TrialLog) -> TrialLog:
    """timestamp ns, code, latency ns, bytes out, bytes in, error, body, attack, sequence, method, URL, headers"""
    for cells in csv.reader(io.StringIO(text)):
        failed = failure(int(cells[1]) or 599, cells[5])
        side = cells[7] if len(cells) > 7 and cells[7] else cells[10] if len(cells) > 10 else None
        _keep(log, Row(side=side, at_s=int(cells[0]) * 1e-9, latency_s=int(cells[2]) * 1e-9, error=failed))
    return log


def _hey(text: str, log: TrialLog) -> TrialLog:
    """Seconds; ``offset`` counts from the start of the run. Requests without an answer are not in the file."""
    for cells in csv.DictReader(io.StringIO(text)):
        latency = _number(cells["response-time"])
        _keep(log, Row(at_s=_number(cells.get("offset")), latency_s=latency, error=failure(cells.get("status-code"))))
    log.unsaid = "hey's CSV leaves out the requests that got no answer (time-outs, refused connections)"
    return log


def _ab(text: str, log: TrialLog) -> TrialLog:
    """Whole milliseconds, sorted by latency. The order within a second is lost, so it is shuffled, always the same way."""
    rows = []
    for cells in csv.DictReader(io.StringIO(text), delimiter="\t"):
        latency = _number(cells["ttime"])
        rows.append(Row(at_s=_number(cells["seconds"]), latency_s=None if latency is None else latency * 1e-3))
    for place in sorted(range(len(rows)), key=lambda place: hashlib.sha256(str(place).encode()).digest()):
        _keep(log, rows[place])
    log.unsaid = "ab -g does not say which requests failed; give ab's printed report as well, --log SIDE=FILE"
    return log


def _h2load(text: str, log: TrialLog) -> TrialLog:
    """Start in microseconds, status or -1, microseconds. Requests that were under way when a connection broke are not in the file."""
    for line in text.splitlines():
        if line.strip():
            start, status, took = line.split("\t")[:3]
            error = failure(status) if int(status) > 0 else "no answer"
            _keep(log, Row(at_s=int(start) * 1e-6, latency_s=int(took) * 1e-6, error=error))
    log.unsaid = "h2load's log leaves out the requests of connections that broke; give its printed report as well, --log SIDE=FILE"
    return log


def _jmeter(text: str, log: TrialLog) -> TrialLog:
    """Milliseconds. ``elapsed`` is the whole answer, ``Latency`` its first byte; the label names the side."""
    for record in csv.DictReader(io.StringIO(text), delimiter=delimiter_of(text.split("\n", 1)[0])):
        cells = {_plain(name): value for name, value in record.items() if name}
        error = cells.get("failure_message") if cells.get("success", "").lower() == "false" else None
        bad = cells.get("success", "").lower() == "false" or failure(cells["response_code"]) is not None
        said = error or (cells["response_code"] if _number(cells["response_code"]) is None else None)
        row = Row(
            side=_text(cells.get("label")),
            at_s=moment(cells["time_stamp"]),
            latency_s=_scaled(cells, ("elapsed", 1e-3)),
            first_s=_scaled(cells, ("latency", 1e-3)) or None,
            error=(failure(cells["response_code"], said) or "failed") if bad else None,
        )
        _keep(log, row)
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
        ended = moment(cells[1])
        error = failure(cells[8]) or (None if taken is not None else "no answer of the target")
        _keep(log, Row(side=group, at_s=ended - taken if ended and taken else ended, latency_s=taken, error=error))
    return log


_READERS: dict[str, Callable[[str, TrialLog], TrialLog]] = {
    "trial_alb": _alb,
    "trial_k6": _k6,
    "trial_k6_csv": _k6_csv,
    "trial_vegeta": _vegeta,
    "trial_vegeta_csv": _vegeta_csv,
    "trial_hey": _hey,
    "trial_ab": _ab,
    "trial_h2load": _h2load,
    "trial_jmeter": _jmeter,
    "trial_lines": _lines,
    "trial_table": _table,
}


# -- cells ------------------------------------------------------------------------------------


def _plain(name: str) -> str:
    """``Latency (ms)`` -> ``latency_ms``."""
    return re.sub(r"[^a-z0-9%]+", "_", re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name.strip()).lower()).strip("_")


def _text(value: Any) -> Optional[str]:
    return None if value is None or str(value).strip() == "" else str(value).strip()


def _number(value: Any) -> Optional[float]:
    """A finite number, also with a decimal comma."""
    if isinstance(value, str) and re.fullmatch(r"\s*-?\d+,\d+\s*", value):
        value = value.replace(",", ".")
    try:
        found = float(value)
    except (TypeError, ValueError):
        return None
    return found if math.isfinite(found) else None


def _scaled(cells: Mapping[str, Any], column: Optional[tuple[str, float]]) -> Optional[float]:
    value = _number(cells.get(column[0])) if column else None
    return None if value is None else value * column[1]


def moment(value: Any) -> Optional[float]:
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
