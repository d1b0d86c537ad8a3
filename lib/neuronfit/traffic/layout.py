"""What a file is, judged by its first bytes: how it is packed, which columns play which role.

:func:`recognise` says what a file is; :func:`layout_of` also says how to read it, as SQL over one
relation of texts. Nothing here reads more than the head.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Optional

from neuronfit.errors import BadInput, nearest
from neuronfit.traffic import columns, quoted, series, server_logs, spans, strangers, times
from neuronfit.traffic.files import HEAD

__all__ = ["ACCESS_LINE", "FORMATS", "Layout", "layout_of", "recognise"]

FORMATS: dict[str, str] = {
    "azure_llm": "Azure LLM inference trace (TIMESTAMP, ContextTokens, GeneratedTokens)",
    "burstgpt": "BurstGPT trace",
    "mooncake": "Mooncake trace (milliseconds from the start, hash_ids)",
    "vidur": "Vidur trace (arrived_at, num_prefill_tokens, num_decode_tokens)",
    "access_log": "web access log, common or combined form",
    "alb": "log of an AWS Application Load Balancer",
    "elb": "log of an AWS Classic Load Balancer",
    "w3c": "extended log (W3C), as IIS and CloudFront write it",
    "envoy": "access log of Envoy or Istio",
    "haproxy": "HTTP log of HAProxy",
    "s3": "server access log of Amazon S3",
    "squid": "access log of Squid",
    "app_log": "log of an application, with a date in front of each request",
    "otlp": "OpenTelemetry spans (OTLP JSON)",
    "cloudwatch": "CloudWatch metric",
    "prometheus": "Prometheus query result",
    "csv": "CSV",
    "jsonl": "JSON lines",
    "json": "JSON list of objects",
    "parquet": "Parquet",
}
"""Name -> what it is. The first ones are forms of the last four."""

_ACCESS = re.compile(r'^(?:\S+ ){2,4}?.*?\[\d\d?/[A-Z][a-z]{2}/\d{4}:\d\d:\d\d:\d\d(?: [+-]\d{4})?\] "')
_ALB = re.compile(r"^(?:https?|h2|grpcs?|wss?) \d{4}-\d\d-\d\dT\S+ \S+ \S+ \S+ -?[\d.]+ -?[\d.]+ -?[\d.]+ ")
_ELB = re.compile(r"^\d{4}-\d\d-\d\dT\S+Z \S+ \S+:\d+ \S+ -?[\d.]+ -?[\d.]+ -?[\d.]+ (?:\d+|-) (?:\d+|-) \d+ \d+ \"")
ACCESS_LINE = r'^[^\[]*\[([^\]]*)\] "(\S+) ([^ ?"\\]*)(?:(?:[ ?]|\\.)(?:[^"\\]|\\.)*)?" (\d\d\d)'
"""Time, method, path and status of a usual line. RE2 takes it in one pass, which a looser one costs three times."""

_PLACEHOLDER = re.compile(
    r"^(?:<[^>]+>|\$?\{\{?[^}]+\}?\}|\[[^\]]+\]|Y{4}-M{2}-D{2}.*|%[A-Za-z].*|TODO|TBD|x{3,}|\.{3}|…|your[-_ ].*)$", re.IGNORECASE
)


@dataclass(frozen=True)
class Layout:
    """How to read a file. ``roles`` maps a role to an SQL text over the relation; ``named`` to the column's name."""

    format: str
    container: str
    kind: str = "arrivals"
    """arrivals (a row is a request), counts (a row is a number of requests in a period), lengths (no times)"""
    roles: Mapping[str, str] = field(default_factory=dict)
    named: Mapping[str, str] = field(default_factory=dict)
    names: tuple[str, ...] = ()
    forms: tuple[times.Form, ...] = ()
    at_end: bool = False
    """the time is that of the answer; the latency is subtracted"""
    latency_factor: float = 1.0
    latency_assumed: Optional[str] = None
    """the unit taken for durations, where neither name nor format says it"""
    expression: str = ACCESS_LINE
    groups: str = "dmps"
    """of lines: what takes the parts out of one, and their names"""
    parts: int = 0
    """of an access log: the parts between the quotes of its usual lines; 0 where they are not usual"""
    agents: tuple[int, ...] = ()
    """those of them in which clients name themselves"""
    time_factor: float = 1.0
    """seconds per unit of a time without a date"""
    delimiter: str = ","
    quote: str = '"'
    escape: str = '"'
    skip: int = 0
    header: bool = True
    encoding: str = "utf-8"
    private: tuple[str, ...] = ()
    guessed: bool = False
    """there are no names, so the columns were told apart by their values"""
    series: tuple[str, ...] = ()
    """of counts: further columns that tell series apart"""
    whole: frozenset[str] = frozenset()
    """roles of tokens whose values are plain whole numbers, as far as looked at"""
    kept: str = ""
    """of spans: which of them are requests, as SQL"""
    kept_title: str = ""
    inside: str = ""
    """of JSON: the member that holds the list of rows"""

    @property
    def title(self) -> str:
        return FORMATS[self.format]


def recognise(head: bytes, name: str = "") -> Optional[str]:
    """The name in :data:`FORMATS` of a file that begins with ``head``, or None. Content decides; ``name`` is not trusted."""
    try:
        return layout_of(head, name or "the trace").format
    except (BadInput, csv.Error, LookupError):  # the last two: no table at all
        return None


def layout_of(head: bytes, name: str, *, packed: str = "", given: Optional[Mapping[str, Any]] = None, parquet: Sequence[str] = ()) -> Layout:
    """How to read a file. ``given``: what the params file says (format, time_column, input_column, output_column, time_unit).

    ``parquet``: the column names, where the caller read them. Raises :class:`~neuronfit.errors.BadInput`, one line,
    for what cannot be traffic.
    """
    given = {key: value for key, value in (given or {}).items() if value is not None}
    wanted = given.get("format")
    _refuse(head, name)
    if head[:4] == b"PAR1":
        if packed:
            raise BadInput("Parquet inside gzip cannot be read in parts", name, next="unpack it")
        return _columns(Layout("parquet", "parquet"), parquet, {}, name, given) if parquet else Layout("parquet", "parquet")
    text, encoding = _decoded(head)
    lines = [line for line in text.splitlines() if line.strip()]
    if len(head) >= HEAD and len(lines) > 1:
        lines = lines[:-1]
    if not lines:
        raise BadInput("the trace is empty", name, next="give a file with one line per request")
    base = {"encoding": encoding}
    if wanted is None and (stranger := strangers.named(head)):
        raise BadInput(f"no trace: this is {stranger[0]}", name, next=stranger[1])
    first = lines[0].lstrip("\ufeff \t")
    if wanted in ("cloudwatch", "prometheus"):
        return Layout(wanted, "document" if first[:1] in "{[" else "csv", "counts", **base)
    sample = lines[:200]
    if written := (wanted if wanted in server_logs.LINES else None if wanted else server_logs.form_of(sample)):
        return _server_log(written, base)
    if wanted in (None, "access_log") and sum(bool(server_logs.DOCKER.search(line)) for line in sample) * 2 > len(sample):
        return _docker(base)
    lined = first[:1] == "[" and sum(bool(_ACCESS.search(line)) for line in sample) * 2 > len(sample)
    if first[:1] in "{[" and not lined and wanted in (None, "json", "jsonl", "mooncake"):
        return _json(text, lines, name, given, base)
    for form, known in (("access_log", _ACCESS), ("alb", _ALB), ("elb", _ELB)):
        if wanted == form or (wanted is None and sum(bool(known.search(line)) for line in sample) * 2 > len(sample)):
            return {"access_log": _access_log, "alb": _alb, "elb": _elb}[form](sample, base)
    if any(line.startswith("#Fields:") for line in sample):
        return _w3c(sample, name, given, base)
    return _csv(text, name, given, base)


# -- what is no trace ---------------------------------------------------------------------------


def _refuse(head: bytes, name: str) -> None:
    if not head.strip(b"\x00\xef\xbb\xbf \t\r\n"):
        raise BadInput("the trace is empty", name, next="give a file with one line per request")
    pointer = re.match(rb"version https://git-lfs\.github\.com/spec/v1\b.*?\bsize (\d+)", head[:1024], re.DOTALL)
    if pointer:
        size = int(pointer[1])
        shown = f"{size / 1e6:,.0f} MB" if size >= 1e6 else f"{size:,} bytes"
        raise BadInput(f"this is a Git LFS pointer to a file of {shown}, not the trace itself", name, next="git lfs pull, then the same command")
    for magic, what, then in (
        (b"PK\x03\x04", "a zip archive or a spreadsheet", "unpack it, or save it as CSV"),
        (b"BZh", "packed with bzip2", "bunzip2 it"),
        (b"\xfd7zXZ", "packed with xz", "unxz it"),
        (b"SQLite format 3", "a SQLite database", "export the table as CSV"),
        (b"ORC", "an ORC file", "convert it to Parquet"),
        (b"ARROW1", "an Arrow file", "convert it to Parquet"),
    ):
        if head.startswith(magic):
            raise BadInput(
                f"the trace is {what}", name, allowed="CSV, Parquet, JSON lines or an access log, also packed with gzip or zstd", next=then
            )
    start = head[:2048].lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    if start.startswith((b"<!doctype", b"<html", b"<?xml")):
        raise BadInput("this is a web page or XML, not a trace", name, next="download the file itself")
    if head[:2] not in (b"\xff\xfe", b"\xfe\xff") and b"\x00" in head[:4096] and head[:4] != b"PAR1":
        raise BadInput("the trace is binary", name, allowed="CSV, Parquet, JSON lines or an access log, also packed with gzip or zstd")


def _decoded(head: bytes) -> tuple[str, str]:
    if head[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return head[: len(head) // 2 * 2].decode("utf-16", "replace").lstrip("\ufeff"), "utf-16"
    cut = head if len(head) < HEAD else head[:-4]
    try:
        return cut.decode("utf-8-sig"), "utf-8"
    except UnicodeDecodeError as error:
        if error.start >= len(cut) - 4:
            return cut[: error.start].decode("utf-8-sig"), "utf-8"
        return cut.decode("latin-1"), "latin-1"


def _template(values: Sequence[str], name: str) -> None:
    """Placeholders instead of times: somebody's example, not a trace."""
    shown = [value for value in values if value.strip()]
    if shown and sum(bool(_PLACEHOLDER.match(value.strip())) for value in shown) * 2 > len(shown):
        raise BadInput("this is a template: placeholders stand where the times should be", name, next="fill it, or give the recorded file")


# -- logs of servers ----------------------------------------------------------------------------


def _access_log(sample: Sequence[str], base: Mapping[str, Any]) -> Layout:
    """One expression finds time, method, path and status; a line with another request (``"-" 408``) is looked at again."""
    again = "regexp_extract(line, '\\[(\\d\\d?/[A-Z][a-z]{2}/\\d{4}:\\d\\d:\\d\\d:\\d\\d(?: [+-]\\d{4})?)\\]', 1)"
    status = 'regexp_extract(line, \'\\] "(?:[^"\\\\]|\\\\.)*" (\\d{3})\', 1)'
    roles = {
        "time": f"CASE WHEN g.d = '' THEN {again} ELSE g.d END",
        "status": f"CASE WHEN g.d = '' THEN {status} ELSE g.s END",
        "method": "g.m",
        "path": "g.p",
        "agent": "line",
    }
    return Layout(
        *("access_log", "lines", "arrivals", roles, {"time": "[time]"}, ("line",), (times.Form("clf"),)),
        **{**base, "private": ("line",), "parts": quoted.parts_of(sample), "agents": quoted.agents(sample)},
    )


def _docker(base: Mapping[str, Any]) -> Layout:
    roles = {"time": "g.d", "status": "g.s", "method": "g.m", "path": "g.p", "agent": "line"}
    return Layout(
        *("access_log", "lines", "arrivals", roles, {"time": "[time]"}, ("line",), (times.Form("clf"),)),
        **{**base, "expression": server_logs.DOCKER_LINE, "private": ("line",)},
    )


def _server_log(form: str, base: Mapping[str, Any]) -> Layout:
    line = server_logs.LINES[form]
    roles = {"time": "g.d", "status": "g.s", "method": "g.m", "path": "g.p", "agent": "line"}
    named = {"time": "[time]"}
    if "l" in line.groups:
        roles["latency"], named["latency"] = "try_cast(g.l AS DOUBLE)", "the total time"
    about = {"latency_factor": 1e-3, "expression": line.expression, "groups": line.groups, "private": ("line",), "at_end": line.at_end}
    return Layout(*(form, "lines", "arrivals", roles, named, ("line",), (line.form,)), **{**base, **about})


def _numbered(count: int) -> tuple[str, ...]:
    return tuple(f"f{number}" for number in range(1, count + 1))


def _alb(sample: Sequence[str], base: Mapping[str, Any]) -> Layout:
    """Field 22 is when the request came, field 2 when it was answered; 6 to 8 are seconds, -1 where there was no target."""
    took = "+".join(f"try_cast(f{number} AS DOUBLE)" for number in (6, 7, 8))
    latency = f"CASE WHEN try_cast(f6 AS DOUBLE) >= 0 AND try_cast(f7 AS DOUBLE) >= 0 AND try_cast(f8 AS DOUBLE) >= 0 THEN {took} END"
    answered = (
        f"strftime(try_cast(rtrim(f2, 'Z') AS TIMESTAMP) - to_microseconds(CAST(coalesce({latency}, 0) * 1e6 AS BIGINT)), '%Y-%m-%dT%H:%M:%S.%fZ')"
    )
    roles = {
        "time": f"CASE WHEN try_cast(rtrim(f22, 'Z') AS TIMESTAMP) IS NOT NULL THEN f22 ELSE {answered} END",
        "latency": latency,
        "status": "f9",
        "request": "f13",
        "agent": "f14",
    }
    named = {"time": "request_creation_time", "latency": "the three processing times"}
    return Layout(
        *("alb", "csv", "arrivals", roles, named, _numbered(34), (times.Form("iso"),)),
        **{**base, "delimiter": " ", "escape": "\\", "header": False, "private": ("client:port", "request")},
    )


def _elb(sample: Sequence[str], base: Mapping[str, Any]) -> Layout:
    latency = "CASE WHEN try_cast(f5 AS DOUBLE) >= 0 THEN try_cast(f5 AS DOUBLE) + try_cast(f6 AS DOUBLE) + try_cast(f7 AS DOUBLE) END"
    roles = {"time": "f1", "latency": latency, "status": "f8", "request": "f12", "agent": "f13"}
    return Layout(
        *("elb", "csv", "arrivals", roles, {"time": "timestamp", "latency": "the three processing times"}, _numbered(20), (times.Form("iso"),)),
        **{**base, "delimiter": " ", "escape": "\\", "header": False, "private": ("client:port", "request")},
    )


def _w3c(sample: Sequence[str], name: str, given: Mapping[str, Any], base: Mapping[str, Any]) -> Layout:
    place = next(number for number, line in enumerate(sample) if line.startswith("#Fields:"))
    fields = tuple(sample[place].removeprefix("#Fields:").split())
    rows = [line for line in sample[place + 1 :] if not line.startswith("#")]
    if not rows:
        raise BadInput("the log has a header and no requests", name, next="give a log of at least a day")
    tab = any("\t" in line for line in rows)
    if "date" not in fields or "time" not in fields:
        raise BadInput("the log's fields have no date and time", ", ".join(fields)[:80], allowed="date, time and others in #Fields")
    roles = {"time": "\"date\" || ' ' || \"time\" || 'Z'"}
    roles |= {role: f'"{known}"' for role, known in (("status", "sc-status"), ("method", "cs-method"), ("path", "cs-uri-stem")) if known in fields}
    roles |= {"agent": '"cs(User-Agent)"'} if "cs(User-Agent)" in fields else {}
    roles |= {"latency": 'try_cast("time-taken" AS DOUBLE)'} if "time-taken" in fields else {}
    factor = 1.0 if tab else 1e-3  # CloudFront writes seconds and tabs, IIS milliseconds and blanks
    return Layout(
        *("w3c", "csv", "arrivals", roles, {"time": "date and time", "latency": "time-taken"}, fields, (times.Form("iso"),)),
        **{
            **base,
            **{"delimiter": "\t" if tab else " ", "header": False, "at_end": "time-taken" in fields, "latency_factor": factor},
            "private": columns.private_names(fields),
        },
    )


# -- JSON ---------------------------------------------------------------------------------------


def _json(text: str, lines: Sequence[str], name: str, given: Mapping[str, Any], base: Mapping[str, Any]) -> Layout:
    objects: list[dict[str, Any]] = []
    for line in lines[:200]:
        try:
            entry = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(entry, dict):
            objects.append(entry)
    traced = objects or (_listed(text) if '"resourceSpans"' in text[:4096] else [])
    if traced and "resourceSpans" in traced[0]:
        return _otlp(traced, name, bool(objects), base)
    if objects and sum("metric_name" in entry and "value" in entry and "timestamp" in entry for entry in objects) * 2 > len(objects):
        return Layout("cloudwatch", "document", "counts", **base)  # a metric stream
    document = not objects or (len(objects) == 1 and _is_metric(objects[0]))
    if document and re.search(r'"(?:MetricDataResults|Datapoints|MetricResults)"\s*:', text[:HEAD]):
        return Layout("cloudwatch", "document", "counts", **base)
    if document and re.search(r'"resultType"\s*:', text[:HEAD]):
        return Layout("prometheus", "document", "counts", **base)
    container = "jsonl"
    if not objects:
        container, objects = "json", _listed(text)
    if not objects:
        raise BadInput("the JSON is neither one object per line nor a list of objects", name, next="write one object per request and line")
    inside = ""
    alone = text.lstrip("\ufeff \t\r\n")[:1] == "{" and len(objects) <= 1
    if (container == "json" or alone) and (found := _wrapped(text)):
        container, inside, objects = "json", found[0], found[1]
    elif container == "json" and alone:
        raise BadInput("one JSON object: a summary or a configuration, not a list of requests", name, next="write one object per request and line")
    flat = [_flat(entry) for entry in objects]
    names = tuple(dict.fromkeys(key for entry in flat for key in entry))
    values = {key: [str(entry[key]) for entry in flat if entry.get(key) is not None] for key in names}
    top = tuple(dict.fromkeys(key for entry in objects for key in entry))
    form = "mooncake" if "hash_ids" in top and "chat_id" not in top else container
    found = _columns(Layout(form, container, inside=inside, **base), names, values, name, given, tops=top)
    if found.named.get("time") == "ts" and "latency" in found.named and _of_caddy(objects):
        found = _replace(found, at_end=True)
    if form == "mooncake" and found.named.get("time") == "timestamp" and "time_unit" not in given:
        found = _replace(found, time_factor=1e-3)
    return found


def _of_caddy(objects: Sequence[Mapping[str, Any]]) -> bool:
    """Caddy writes a request down when it is answered, with ``ts`` that moment and ``duration``."""
    return sum(str(entry.get("logger", "")).startswith("http.log.access") for entry in objects) * 2 > len(objects)


def _wrapped(text: str) -> Optional[tuple[str, list[dict[str, Any]]]]:
    """The member and first rows of an answer of an API: one object with one list of objects, ``{"data": [...]}``."""
    opened = re.match(r'\s*\{(?:[^\[{]|\{[^{}\[]*\})*?"([A-Za-z_]\w{0,39})"\s*:\s*\[\s*\{', text.lstrip("\ufeff"))
    if not opened:
        return None
    rows = _listed(text.lstrip("\ufeff")[opened.end() - 1 :])
    return (opened[1], rows) if len(rows) > 1 else None


def _otlp(objects: Sequence[Mapping[str, Any]], name: str, lines: bool, base: Mapping[str, Any]) -> Layout:
    kept, title = spans.kept_sql(objects)
    if kept is None:
        allowed = "spans of kind SERVER, or with gen_ai.usage attributes"
        raise BadInput(
            "the spans of this OpenTelemetry export are neither requests at a server nor calls of a model",
            name,
            allowed=allowed,
            next="export the spans of the service",
        )
    took = '(try_cast("endTimeUnixNano" AS HUGEINT) - try_cast("startTimeUnixNano" AS HUGEINT))::DOUBLE'
    roles = {"time": '"startTimeUnixNano"', "input": '"input_tokens"', "output": '"output_tokens"', "latency": took}
    roles |= {role: f'"{role}"' for role in ("status", "method", "path")}
    about = {"latency_factor": 1e-9, "kept": kept, "kept_title": title, "inside": "" if lines else "resourceSpans"}
    named = {"time": "startTimeUnixNano", "latency": "endTimeUnixNano"}
    return Layout(*("otlp", "otlp", "arrivals", roles, named, spans.COLUMNS, (times.Form("number"),)), **{**base, **about})


def _is_metric(entry: Mapping[str, Any]) -> bool:
    return bool({"MetricDataResults", "Datapoints", "MetricResults"} & set(entry)) or "resultType" in (entry.get("data") or {})


def _listed(text: str) -> list[dict[str, Any]]:
    """The first objects of a list, also where the head ends inside one, or of pretty-printed objects one after another."""
    decoder, found, place = json.JSONDecoder(), [], 0
    while len(found) < 200:
        place = text.find("{", place)
        if place < 0:
            break
        try:
            entry, place = decoder.raw_decode(text, place)
        except (ValueError, RecursionError):
            break
        found.append(entry)
    return [entry for entry in found if isinstance(entry, dict)]


def _flat(entry: Mapping[str, Any], before: str = "", depth: int = 0) -> dict[str, Any]:
    """Leaves by their dotted path, also inside texts that are JSON themselves."""
    found: dict[str, Any] = {}
    for key, value in entry.items():
        if isinstance(value, str) and value[:1] == "{" and depth < 4:
            try:
                value = json.loads(value)
            except (ValueError, RecursionError):
                pass
        if isinstance(value, dict) and depth < 4:
            found |= _flat(value, f"{before}{key}.", depth + 1)
            if not value:
                found[f"{before}{key}"] = None
        else:
            found[f"{before}{key}"] = value if isinstance(value, (str, int, float)) and not isinstance(value, bool) else None
    return found


# -- tables -------------------------------------------------------------------------------------


def _csv(text: str, name: str, given: Mapping[str, Any], base: Mapping[str, Any]) -> Layout:
    raw = text.splitlines()
    skip = 0
    while skip < len(raw) - 1 and (not raw[skip].strip() or raw[skip].lstrip().startswith("#")):
        skip += 1
    body = raw[skip : skip + 400]
    if body and body[0].lower().startswith("sep=") and len(body[0]) <= 6:
        skip, body = skip + 1, body[1:]
    delimiter = _delimiter(body)
    table = [row for row in csv.reader(io.StringIO("\n".join(body)), delimiter=delimiter) if any(cell.strip() for cell in row)]
    if len(text) >= HEAD // 2 and len(table) > 2:
        table = table[:-1]
    table, preamble = _after_preamble(table)
    if preamble:
        return Layout("cloudwatch", "csv", "counts", **base)
    header = not any(times.forms_of([cell]) for cell in table[0])
    names = tuple(cell.strip() or f"column{number}" for number, cell in enumerate(table[0], 1)) if header else _numbered(len(table[0]))
    if len(set(names)) < len(names):
        names = tuple(f"{each}_{number}" if names.index(each) < number else each for number, each in enumerate(names))
    rows = table[1:] if header else table
    if header and not rows:
        known = columns.assign(names)
        if len(names) < 2 and not known:
            raise BadInput("this is no table: one column, and its name says nothing", name, allowed="a column of times, and tokens where known")
        raise BadInput("the trace has a header and no rows", name, next="give a file with one line per request")
    values = {key: [row[number] for row in rows if number < len(row)] for number, key in enumerate(names)}
    lower = [key.lower() for key in names]
    form = "csv"
    if lower[:3] == ["timestamp", "contexttokens", "generatedtokens"]:
        form = "azure_llm"
    elif lower[:3] == ["timestamp", "model", "request tokens"]:
        form = "burstgpt"
    elif {"num_prefill_tokens", "num_decode_tokens"} <= set(lower):
        form = "vidur"
    layout = Layout(form, "csv", delimiter=delimiter, skip=skip, header=header, **base)
    return _columns(layout, names, values, name, given)


def _delimiter(lines: Sequence[str]) -> str:
    """The mark that splits the lines into the same number of cells, more than one; a comma where none does."""
    best = (0.0, 0, ",")
    for mark in (",", "\t", ";", "|", " "):
        counts = [len(row) for row in csv.reader(lines[:100], delimiter=mark) if row]
        usual = max(set(counts), key=counts.count) if counts else 1
        if usual > 1 and mark != " " or usual > 2:
            best = max(best, (counts.count(usual) / len(counts) - (0.3 if mark == " " else 0.0), usual, mark), key=lambda entry: entry[:2])
    return best[2]


def _after_preamble(table: list[list[str]]) -> tuple[list[list[str]], bool]:
    """Whether this is a console export: lines of key and value first (Label, Period, Statistic), then times and numbers."""
    keys = [columns.plain(row[0]) for row in table[:12]]
    known = {"label", "fulllabel", "period", "statistic", "region", "account", "accountid", "unit", "id", "metricname", "namespace"}
    return table, len(set(keys) & known) >= 2 and keys[0] in known | {""}


def _columns(
    layout: Layout, names: Sequence[str], values: Mapping[str, Sequence[str]], name: str, given: Mapping[str, Any], tops: Sequence[str] = ()
) -> Layout:
    """The roles of named columns; values, where there are any, decide what a name leaves open."""
    for key in ("time_column", "input_column", "output_column"):
        if key in given and given[key] not in names:
            near = nearest(given[key], names)
            raise BadInput(f"traffic.trace.{key}: no such column", given[key], allowed=", ".join(near or list(names)[:12]))
    forms = {key: times.forms_of(list(texts)) for key, texts in values.items()}
    usable: dict[str, frozenset[str]] = {}
    if values:
        stamps = frozenset(key for key, found in forms.items() if found)
        dated = frozenset(key for key in stamps if not _durations(key, values[key], forms[key]))
        numbers = frozenset(key for key, texts in values.items() if _numeric(texts))
        usable = {
            "start": dated,
            "time": dated,
            "end": dated,
            "input": numbers,
            "output": numbers,
            "latency": numbers,
            "count": numbers,
            "rate": numbers,
        }
    if "time_unit" in given:
        forms = {key: (times.Form("number"),) if found and found[0].kind == "serial" else found for key, found in forms.items()}
    found = columns.assign(names, usable)
    if "time_column" in given:
        found = {role: column for role, column in found.items() if role not in ("start", "end", "time") and column != given["time_column"]}
        found["time"] = given["time_column"]
    for key, role in (("input_column", "input"), ("output_column", "output")):
        if key in given:
            found[role] = given[key]
    guessed = False
    if not ({"start", "time", "end"} & set(found)) and values:
        timed = [key for key in names if forms.get(key) and any(form.kind != "number" for form in forms[key])]
        if not timed and not layout.header and forms.get(names[0]):
            timed = [names[0]]
        if timed:
            found["time"], guessed = timed[0], True
            if not layout.header:
                rest = [key for key in names if key != timed[0] and _numeric(values[key], whole=True)]
                found |= dict(zip(("input", "output"), rest[:2])) if len(rest) == 2 else {}
    roles_of_time = [role for role in ("start", "time", "end") if role in found]
    role = min(roles_of_time, key=lambda each: found[each].count("."), default=None)  # a time of the row itself before one inside an answer
    if role is None and values:
        for column in (each for each in names if plain_time(each) and any(text.strip() for text in values[each])):
            _template(list(values[column]), name)
            raise _no_times(column)
        if not {"input", "output"} & set(found):
            raise BadInput(
                "no column of times was found",
                name,
                allowed=f"a column such as timestamp; there are: {', '.join(columns_shown(names))}",
                next="add time_column: NAME",
            )
    column = found.get(role) if role else None
    if column is not None and values and not forms.get(column):
        _template(list(values[column]), name)
        raise _no_times(column)
    day = _day_of(column, names, values, forms) if column is not None else None
    at_end = role == "end" and "latency" in found
    kind = "lengths" if column is None else "arrivals"
    requests = {"input", "output", "method", "path", "request", "id", "status", "latency"} & set(found)
    if column is not None and not {"input", "output"} & set(found) and ("rate" in found or _counts(layout, names, found, values)):
        kind = "counts"
    elif column is not None and day is None and values and _summed(found, values, column, forms[column]):
        kind, found = "counts", {key: each for key, each in found.items() if key not in ("input", "output")}
    elif column is not None and not requests and values and layout.container == "csv" and day is None:
        beside = [key for key in names if key != column and columns.plain(key) not in columns.ROLES["end"]]
        if metric := series.chosen(beside, values, times.seconds(values[column], forms[column]), name):
            return _of_series(layout, names, values, column, forms[column], metric)
    if kind == "arrivals" and day is None and _days_only(values.get(column, ())):
        raise BadInput(
            "days without a time of day cannot be arrivals of requests, in column",
            column,
            allowed="one moment for each request, or one row for each day with a count under a name such as requests",
            next="name another column: time_column",
        )
    roles = {key: _reference(each, layout, tops) for key, each in found.items() if key not in ("start", "time", "end", "latency")}
    if column is not None:
        roles["time"] = _reference(column, layout, tops)
        if day is not None:
            roles["time"] = f"{_reference(day, layout, tops)} || ' ' || {roles['time']}"
            forms[column] = times.forms_of([f"{date} {clock}" for date, clock in zip(values[day], values[column])])
    if "latency" in found:
        roles["latency"] = f"try_cast({_reference(found['latency'], layout, tops)} AS DOUBLE)"
    named = {**{key: each for key, each in found.items() if key not in ("start", "time", "end")}, **({"time": column} if column else {})}
    factor = times.UNITS.get(given.get("time_unit", ""), _unit_of(column) if column else 1.0)
    of_unit, assumed = columns.latency_unit(found["latency"], values.get(found["latency"], ()), names) if "latency" in found else (1.0, None)
    others = [key for key in names if key not in found.values() and values.get(key) and not _numeric(values[key])]
    return _replace(
        layout,
        kind=kind,
        roles=roles,
        named=named,
        names=tuple(tops or names),
        forms=forms.get(column, ()) if column else (),
        at_end=at_end,
        latency_factor=of_unit,
        latency_assumed=assumed,
        time_factor=factor,
        private=columns.private_names(dict.fromkeys((*tops, *names))),
        guessed=guessed,
        whole=frozenset(role for role in ("input", "output") if role in found and _plain_whole(values.get(found[role], ()))),
        series=tuple(f'"{key}"' for key in others) if kind == "counts" and layout.container == "csv" else (),
    )


def _summed(found: Mapping[str, str], values: Mapping[str, Sequence[str]], column: str, forms: Sequence[times.Form]) -> bool:
    """A row for each period with a number of requests and sums of their tokens, as a usage report has: the sums are no lengths."""
    if "count" not in found or {"method", "path", "request", "id"} & set(found) or not series.even(times.seconds(values[column], forms)):
        return False
    return any(text.strip() not in ("", "0", "1") for text in values[found["count"]])


def _of_series(
    layout: Layout,
    names: Sequence[str],
    values: Mapping[str, Sequence[str]],
    column: str,
    forms: tuple[times.Form, ...],
    metric: tuple[str, list[str], bool],
) -> Layout:
    role, chosen, guessed = metric
    number = series.number_sql([_reference(each, layout, ()) for each in chosen])
    return _replace(
        layout,
        kind="counts",
        roles={"time": _reference(column, layout, ()), role: number},
        named={"time": column, role: chosen[0]},
        names=tuple(names),
        forms=forms,
        time_factor=_unit_of(column),
        guessed=guessed,
        private=columns.private_names(names),
    )


def _day_of(column: str, names: Sequence[str], values: Mapping[str, Sequence[str]], forms: Mapping[str, Sequence[times.Form]]) -> Optional[str]:
    """The column that holds the date of a column of times of day, if there is one."""
    if not forms.get(column) or any(form.kind != "clock" for form in forms[column]):
        return None
    return next((name for name in names if name != column and columns.plain(name) in ("date", "day") and values.get(name)), None)


def _days_only(texts: Sequence[str]) -> bool:
    known = [text.strip() for text in texts if text.strip()]
    return bool(known) and all(re.fullmatch(r"\d{4}[-/]\d\d?[-/]\d\d?|(?:19|20)\d{6}", text) for text in known)


def _no_times(column: str) -> BadInput:
    allowed = "ISO 8601, seconds, milli-, micro- or nanoseconds since 1970, or seconds from the start"
    return BadInput("no time can be read in column", column if len(column) <= 40 else "...", allowed=allowed, next="name another column: time_column")


def plain_time(column: str) -> bool:
    """Whether a name says that the column holds times."""
    return any(form in columns.ROLES[role] for form in (columns.plain(column),) for role in ("start", "time", "end"))


def columns_shown(names: Sequence[str], most: int = 12) -> list[str]:
    """Names short enough for a message; a name is never long, a value taken for one may be."""
    return [each if len(each) <= 40 else "..." for each in names][:most]


def _numeric(texts: Sequence[str], whole: bool = False) -> bool:
    known = [
        text.strip().replace(",", "") for text in texts if text and text.strip() and text.strip().lower() not in ("-", "null", "nan", "none", "n/a")
    ]
    pattern = r"-?\d+" if whole else r"-?\d+(?:\.\d*)?(?:[eE][-+]?\d+)?"
    return bool(known) and sum(bool(re.fullmatch(pattern, text)) for text in known) * 10 >= len(known) * 9


def _plain_whole(texts: Sequence[str]) -> bool:
    return bool(texts) and all(re.fullmatch(r"\d{1,9}", text) for text in texts)


def _durations(column: str, texts: Sequence[str], forms: Sequence[times.Form]) -> bool:
    """Numbers under a name that is as good for a duration as for a time: small ones are durations."""
    if columns.plain(column) not in ("requesttime", "responsetime", "completiontime") or forms[0].kind != "number":
        return False
    return all(times.relative(float(text)) for text in texts if _numeric([text]))


def _counts(layout: Layout, names: Sequence[str], found: Mapping[str, str], values: Mapping[str, Sequence[str]]) -> bool:
    return "count" in found and not {"method", "path", "request", "id"} & set(found)


def _unit_of(column: str) -> float:
    tail = re.search(
        r"(?:_|\b|\()(ns|us|ms|s|sec|seconds|milliseconds)\)?$", re.sub(r"([a-z])(Ms|Us|Ns)$", lambda part: f"{part[1]}_{part[2].lower()}", column)
    )
    return {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "milliseconds": 1e-3}.get(tail[1], 1.0) if tail else 1.0


def _reference(column: str, layout: Layout, tops: Sequence[str]) -> str:
    """SQL text of a column; a nested one by its path, also where an object is written as text."""

    def name(text: str) -> str:
        return '"' + text.replace('"', '""') + '"'

    if layout.container not in ("json", "jsonl") or column in tops:
        return f"CAST({name(column)} AS VARCHAR)" if layout.container == "parquet" else name(column)
    parts = column.split(".")
    top = next(".".join(parts[:size]) for size in range(1, len(parts) + 1) if ".".join(parts[:size]) in tops)
    text, inner = name(top), column[len(top) + 1 :]
    for part in inner.split("."):
        text = _member(text, part)
    return f"coalesce({text}, {_member(name(top), inner)})" if "." in inner else text  # a name may hold dots of its own


def _member(text: str, part: str) -> str:
    escaped = part.replace('"', '\\"').replace("'", "''")
    return f"json_extract_string(try_cast({text} AS JSON), '$.\"{escaped}\"')"


def _replace(layout: Layout, **changes: Any) -> Layout:
    from dataclasses import replace

    return replace(layout, **changes)
