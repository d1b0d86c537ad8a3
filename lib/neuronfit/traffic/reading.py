"""One trace, opened: read once by DuckDB into a table of numbers on disk, then asked as often as needed.

The table has one row per request: ``t`` (microseconds UTC, or from zero where the trace has no date),
``i`` and ``o`` (tokens), ``s`` (status), ``l`` (seconds), ``p`` (method and path) and ``h`` (hash of
the row). Texts of people, addresses and secrets are never in it. It lies in a private folder that
is deleted when the trace is closed. Memory is bounded by DuckDB's own limit; what is larger goes to disk.
"""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Optional, Union

from neuronfit.errors import BadInput, NeuronFitError, nearest
from neuronfit.traffic import clocks, metrics, quoted, spans, times
from neuronfit.traffic.files import head_of, source_of
from neuronfit.traffic.layout import FORMATS, Layout, layout_of

__all__ = ["MEMORY_LIMIT", "Trace", "open_trace"]

MEMORY_LIMIT = "1GB"
"""What DuckDB may take; beyond it, it writes to the trace's own folder."""

_HEALTH_HINTS = ("Health", "kube-probe", "GoogleHC")
HEALTH_CHECKERS = ("ELB-HealthChecker", "kube-probe", "GoogleHC", "Amazon-Route53-Health-Check", "Consul Health Check", "HealthChecker/")
"""Parts of the names under which load balancers ask whether a server lives. They are no traffic."""

_CHUNK = 4_000_000

_IN_MEMORY = 512 << 20
"""Bytes of text up to which the table stays in memory, as far as the limit allows; a larger one is packed on disk."""

_LONGEST_YEARS = 20


def open_trace(
    file: Union[str, Path],
    *,
    format: Optional[str] = None,
    timezone: Optional[str] = None,
    only: Optional[str] = None,
    time_column: Optional[str] = None,
    input_column: Optional[str] = None,
    output_column: Optional[str] = None,
    time_unit: Optional[str] = None,
    memory_limit: str = MEMORY_LIMIT,
) -> "Trace":
    """Read a trace. Close it, or use it in a ``with``.

    ``timezone`` is the IANA zone of times without one, and that of hours and weekdays. ``only`` keeps the
    requests of one method and path of an access log, such as ``POST /predict`` (``*`` stands for
    anything). ``time_unit`` (s, ms, us, ns) is that of numbers without a date. Raises
    :class:`~neuronfit.errors.BadInput`, one line, for what is no trace.
    """
    if format is not None and format not in FORMATS:
        raise BadInput("unknown format of a trace", format, allowed=", ".join(nearest(format, FORMATS) or FORMATS))
    if time_unit is not None and time_unit not in times.UNITS:
        raise BadInput("unknown unit of time", time_unit, allowed=", ".join(times.UNITS))
    given = {"format": format, "time_column": time_column, "input_column": input_column, "output_column": output_column, "time_unit": time_unit}
    return Trace(Path(file), zone_of(timezone), only, given, memory_limit)


def zone_of(name: Optional[str]) -> Optional[str]:
    """``name`` if it is an IANA time zone. Raises :class:`~neuronfit.errors.BadInput`."""
    import zoneinfo

    if name is None:
        return None
    try:
        zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        near = nearest(name, zoneinfo.available_timezones())
        raise BadInput("unknown time zone", name, allowed=", ".join(near or ("UTC", "Europe/Berlin", "America/New_York"))) from None
    return name


class Trace:
    """An opened trace. ``layout`` says what it is; counts of rows say what was left out and why."""

    def __init__(self, path: Path, timezone: Optional[str], only: Optional[str], given: Mapping[str, Any], memory_limit: str = MEMORY_LIMIT):
        try:
            import duckdb
        except ImportError:
            raise BadInput("reading traces needs DuckDB", allowed="the extra neuronfit[workbook]", next="pip install duckdb") from None
        self.path, self.timezone, self.only, self.given = path, timezone, only, dict(given)
        self.source = source_of(path)
        self.head = head = self.source.head
        self._folder = Path(tempfile.mkdtemp(prefix="neuronfit-trace-"))
        try:
            links = self.source.links(self._folder)
            self._source = _text(links[0]) if len(links) == 1 else f"[{', '.join(map(_text, links))}]"
            self.connection = duckdb.connect(":memory:" if self.source.size <= _IN_MEMORY else str(self._folder / "trace.duckdb"))
            self._set(memory_limit)
            self._failure = duckdb.Error
            packed = self.source.packed[0]
            self._parquet, self._expressions = self._parquet_columns() if head[:4] == b"PAR1" and not packed else ({}, {})
            self.layout = layout_of(head, str(path), packed=packed, given=self.given, parquet=tuple(self._parquet))
            self._same_form()
            self._read()
        except BaseException as error:
            self.close()
            if isinstance(error, NeuronFitError) or not isinstance(error, duckdb.Error):
                raise
            raise self._unreadable(error) from None

    # -- life ---------------------------------------------------------------------------------

    def __enter__(self) -> "Trace":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Trace({self.path.name!r}: {self.layout.title}, {self.rows:,} rows)"

    def close(self) -> None:
        """Delete the table."""
        connection = getattr(self, "connection", None)
        if connection is not None:
            connection.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _set(self, memory_limit: str) -> None:
        self.connection.execute("SET TimeZone = 'UTC'")
        self.connection.execute(f"SET memory_limit = '{memory_limit}'")
        self.connection.execute(f"SET temp_directory = '{self._folder}'")
        self.connection.execute("SET enable_progress_bar = false")

    def _unreadable(self, error: Exception) -> BadInput:
        """One line of ours: DuckDB's own quotes the file, which may hold secrets."""
        text = str(error)
        known = (
            ("Out of Memory", "more memory is needed than is allowed", "raise memory_limit"),
            ("No space left", "the disk of temporary files is full", "set TMPDIR to a larger one"),
            ("magic bytes", "the Parquet file is damaged or cut off", "write or copy it again"),
            ("parquet", "the Parquet file is damaged or cut off", "write or copy it again"),
            ("gzip", "the compressed trace is damaged or cut off", "pack or copy it again"),
            ("maximum_object_size", "a JSON object is larger than 16 MiB", "write one object per request"),
            ("axim", "a line is longer than 2 MiB", "leave texts out of the export"),
            ("JSON", "the JSON is damaged", "write one object per request and line"),
        )
        what, then = next(
            ((what, then) for word, what, then in known if word.lower() in text.lower()), ("the trace cannot be read", "look at its first lines")
        )
        return BadInput(f"{what} ({type(error).__name__})", str(self.path), next=then)

    def sql(self, query: str) -> list[tuple[Any, ...]]:
        """Rows of a query over ``rows`` (requests) or ``counts``."""
        return self.connection.execute(query).fetchall()

    def one(self, query: str) -> tuple[Any, ...]:
        return self.sql(query)[0]

    def sha256(self) -> str:
        """Hash of the file as it lies on disk."""
        return self.source.sha256()

    # -- reading ------------------------------------------------------------------------------

    def _parquet_columns(self) -> tuple[dict[str, str], dict[str, str]]:
        """Columns with their types, those inside structures by their path, and the SQL text of each."""
        relation = self.connection.sql(f"SELECT * FROM read_parquet({self._source})")
        kinds: dict[str, str] = {}
        texts: dict[str, str] = {}

        def add(path: str, text: str, kind: Any, depth: int) -> None:
            if kind.id == "struct" and depth < 4:
                for name, inner in kind.children:
                    add(f"{path}.{name}", f"{text}[{_text(name)}]", inner, depth + 1)
            else:
                kinds[path], texts[path] = str(kind), text

        for name, kind in zip(relation.columns, relation.types):
            add(name, _name(name), kind, 0)
        return kinds, texts

    def _same_form(self) -> None:
        """Several files must be of one form. Raises :class:`~neuronfit.errors.BadInput` with the one that is not."""
        from dataclasses import replace

        given = {key: value for key, value in self.given.items() if value is not None}
        for file, packed in zip(self.source.files[1:], self.source.packed[1:]):
            head = head_of(file, 1 << 16)[0]
            if self.layout.container == "document" or (head[:4] == b"PAR1") != (self.layout.container == "parquet"):
                if self.layout.format == "cloudwatch" and head.lstrip()[:1] == b"{" and b'"metric_name"' in head:
                    continue
                raise BadInput("the files of a trace are of different form", str(file), allowed="files like the first", next="give it alone")
            if head[:4] == b"PAR1":
                continue  # DuckDB says where a column is missing
            try:
                other = layout_of(head[: head.rfind(b"\n") + 1] or head, str(file), packed=packed, given=given)
            except BadInput as error:
                if "no rows" in str(error) or "no requests" in str(error):
                    continue
                raise
            if _form(other) != _form(self.layout):
                raise BadInput("the files of a trace are of different form", str(file), allowed="the columns of the first file", next="give it alone")
            more = tuple(form for form in other.forms if form not in self.layout.forms)
            names = tuple(dict.fromkeys((*self.layout.names, *other.names))) if other.container in ("json", "jsonl") else self.layout.names
            self.layout = replace(self.layout, forms=(*self.layout.forms, *more), names=names)

    def _read(self) -> None:
        self.rows = self.unreadable = self.health_checks = self.not_asked_for = self.blank = 0
        self.duplicates = self.dropped_duplicates = self.unsorted = 0
        self.rows_of_unit: dict[str, int] = {}
        self.offsets: dict[Optional[int], int] = {}
        self.notes: dict[str, Any] = {}
        self.lengths: dict[str, list[tuple[int, int]]] = {}
        if self.layout.container == "document" or self.layout.format == "cloudwatch":
            metrics.load_document(self)
            return
        if self.layout.container == "parquet":
            self._parquet_layout()
        if self.layout.kind == "lengths":
            self._ingest_lengths()
        elif self.layout.kind == "counts":
            metrics.load_table(self)
        else:
            self._ingest()

    def relation(self) -> str:
        """The file as SQL: every column a text, but for Parquet."""
        found, path, packed = self.layout, self._source, "compression = 'auto'"
        if found.container == "parquet":
            inner = [f"{text} AS {_name(name)}" for name, text in self._expressions.items() if text != _name(name)]
            return f"(SELECT *, {', '.join(inner)} FROM read_parquet({path}))" if inner else f"read_parquet({path})"
        if found.container == "otlp":
            return spans.relation(path, not found.inside, self.source.size + (1 << 24) if found.inside else 1 << 26)
        if found.inside:
            members = ", ".join(f"json_extract_string(e, {_text(chr(36) + '.' + _name(name))}) AS {_name(name)}" for name in found.names)
            size = max(self.source.size, 1 << 24) + (1 << 20)
            document = (
                f"read_json({path}, format = 'unstructured', columns = {{{_text(found.inside)}: 'JSON[]'}}, maximum_object_size = {size}, {packed})"
            )
            return f"(SELECT {members} FROM (SELECT unnest({_name(found.inside)}) AS e FROM {document}))"
        if found.container in ("json", "jsonl"):
            shape = "newline_delimited" if found.container == "jsonl" else "array" if self._starts_with_list() else "unstructured"
            return f"read_json({path}, format = '{shape}', columns = {_struct(found.names)}, ignore_errors = {str(shape == 'newline_delimited').lower()}, {packed})"
        encoding = f"encoding = '{found.encoding}'"
        if self._parts:
            return quoted.relation(self._source, found.encoding, self._parts)
        if found.container == "lines":
            return f"(SELECT line, regexp_extract(line, {_text(found.expression)}, {list(found.groups)}) AS g FROM {self._lines()})"
        return (
            f"read_csv({path}, auto_detect = false, columns = {_struct(found.names, self._typed)}, delim = {_text(found.delimiter)}, quote = {_text(found.quote)}, "
            f"escape = {_text(found.escape)}, header = {str(found.header).lower()}, skip = {found.skip}, null_padding = true, strict_mode = false, "
            f"store_rejects = true, rejects_limit = 100000, {encoding}, {packed}{self._slow_reading})"
        )

    _slow_reading = ""
    _parts = 0
    _typed: frozenset[str] = frozenset()
    """columns that the CSV reader itself turns into whole numbers"""

    def _starts_with_list(self) -> bool:
        return self.head.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] == b"["

    def _parquet_layout(self) -> None:
        """Look at some rows, since Parquet columns have types of their own; times that have one are taken as they are."""
        names = tuple(self._parquet)
        sample = self.sql(f"SELECT {', '.join(f'CAST({_name(name)} AS VARCHAR)' for name in names)} FROM {self.relation()} LIMIT 200")
        if not sample:
            raise BadInput("the trace has columns and no rows", str(self.path), next="give a file with one row per request")
        from neuronfit.traffic.layout import _columns

        values = {name: [row[number] for row in sample if row[number] is not None] for number, name in enumerate(names)}
        self.layout = _columns(self.layout, names, values, str(self.path), {key: value for key, value in self.given.items() if value is not None})

    def stamp(self) -> tuple[str, str]:
        """Microseconds and written offset of a row, as SQL."""
        found = self.layout
        kind = self._parquet.get(found.named.get("time", ""), "") if found.container == "parquet" else ""
        if kind.startswith("TIMESTAMP") or kind == "DATE":
            column, zoned = self._expressions[found.named["time"]], "TIME ZONE" in kind or kind.startswith("TIMESTAMPTZ")
            stamp = f"epoch_us(CAST({column} AS TIMESTAMPTZ))" if zoned else f"epoch_us(CAST({column} AS TIMESTAMP))"
            return stamp, f"CASE WHEN {column} IS NOT NULL THEN 0::SMALLINT END" if zoned else "NULL::SMALLINT"
        text = found.roles["time"]
        return times.stamp_sql(text, found.forms, found.time_factor), times.offset_sql(text, found.forms)

    def _ingest(self) -> None:
        """Read the file into ``raw``: fast as most files allow, and once more with care where that left something unread."""
        if self.layout.format == "w3c":
            self._same_fields()
        if (self.layout.parts or (self.layout.container == "csv" and self.layout.forms)) and self._fill(fast=True):
            return
        self.connection.execute("DROP TABLE IF EXISTS filled CASCADE")
        self._fill(fast=False)

    def _same_fields(self) -> None:
        """A server that was set up anew writes other columns from then on, in the same file. Raises :class:`~neuronfit.errors.BadInput`."""
        lines = f"SELECT DISTINCT regexp_replace(trim(line), '\\s+', ' ', 'g') FROM {self._lines()} WHERE starts_with(line, '#Fields:')"
        found = [line for (line,) in self.sql(lines)]
        if len(found) > 1:
            what = "the log's #Fields change inside the trace"
            raise BadInput(what, f"{len(found)} different lines", allowed="one set of fields", next="split the file at each #Fields line")

    def _lines(self) -> str:
        return (
            f"read_csv({self._source}, auto_detect = false, columns = {{'line': 'VARCHAR'}}, delim = chr(1), quote = '', escape = '', header = false, "
            f"strict_mode = false, ignore_errors = true, encoding = '{self.layout.encoding}', compression = 'auto')"
        )

    def _fill(self, fast: bool) -> bool:
        found, roles = self.layout, self.layout.roles
        numeric = any(form.kind == "number" for form in found.forms)
        self._typed = frozenset(found.named[role] for role in ("input", "output") if role in found.whole) if fast else frozenset()
        stamp, offset = times.stamp_sql("w", found.forms, found.time_factor, fast), times.offset_sql("w", found.forms)
        typed = found.container == "parquet" and (
            self._parquet.get(found.named["time"], "").startswith("TIMESTAMP") or self._parquet.get(found.named["time"]) == "DATE"
        )
        if typed:
            stamp, offset = self.stamp()
        parts = found.parts if fast else 0
        if parts:
            otherwise = quoted.slow(roles["time"], found.expression, found.groups)
            stamp, offset = quoted.stamp_and_offset(otherwise, found.forms[0])
        if found.at_end:
            stamp = f"{stamp} - CAST(coalesce({roles['latency']}, 0) * {found.latency_factor * 1e6!r} AS BIGINT)"
        columns = {
            "u": stamp,
            "z": offset,
            "m": _magnitude("w") if numeric and not typed else None,
            **{
                key: None
                if role not in roles
                else roles[role]
                if found.named.get(role) in self._typed
                else _whole(roles[role], fast, found.delimiter)
                for key, role in (("i", "input"), ("o", "output"))
            },
            "s": f"try_cast({roles['status']} AS SMALLINT)" if "status" in roles else None,
            "l": f"CAST({roles['latency']} * {found.latency_factor!r} AS FLOAT)" if "latency" in roles else None,
            "p": self._endpoint(),
            "c": f"NOT coalesce({found.kept}, false)" if found.kept else self._health_check(),
            "h": f"hash({', '.join(_name(name) for name in found.names)})",
        }
        if parts:
            agents = " OR ".join(f"({self._health_check(f'c{number}')})" for number in found.agents) or "false"
            columns |= {
                "s": quoted.status_sql(quoted.slow(roles["status"], found.expression, found.groups)),
                "p": quoted.endpoint_sql(quoted.slow(self._endpoint() or "NULL", found.expression, found.groups)),
                "c": agents,
                "h": "hash(c0, c1, c2)",
            }
        absent = ", ".join(f"NULL::{_TYPES[key]} AS {key}" for key, value in columns.items() if value is None)
        keep = f"WHERE NOT (starts_with(\"{found.names[0]}\", '#'))" if found.format == "w3c" else ""
        if found.container == "lines":
            keep = "WHERE length(line) > 0 AND NOT starts_with(line, '#')"
        if parts:
            keep = "WHERE (strlen(c0) > 0 OR c1 IS NOT NULL) AND NOT starts_with(coalesce(c0, ''), '#')"
        written = f"try_cast({roles['time']} AS DOUBLE)" if numeric and len(found.forms) == 1 and not typed else roles["time"]
        if any(form.kind in ("clock", "pattern") for form in found.forms):
            written = f"trim({written})"
        inner = f"SELECT * FROM {{relation}} {keep}" if parts else f"SELECT *, {written} AS w FROM {{relation}} {keep}"
        self._parts = parts
        self._create(f"CREATE TABLE filled AS SELECT {', '.join(f'{value} AS {key}' for key, value in columns.items() if value)} FROM ({inner})")
        self.connection.execute(f"CREATE OR REPLACE VIEW raw AS SELECT *{', ' + absent if absent else ''} FROM filled")
        doubtful = " OR ".join(["u IS NULL", *(f"{column} IS NULL" for column, role in (("i", "input"), ("o", "output")) if role in roles)])
        if fast and (self.rejected or (not parts and self.one(f"SELECT count(*) FROM raw WHERE {doubtful}")[0])):
            return False
        sorts = self.sql("SELECT u IS NULL, coalesce(c, false), z, m, count(*) FROM raw GROUP BY ALL")
        total, bad = sum(count for *_, count in sorts), sum(count for unread, *_, count in sorts if unread)
        self.rows, self.unreadable = total + self.rejected, bad + self.rejected
        self.health_checks = sum(count for unread, check, *_, count in sorts if check and not unread)
        where = "u IS NOT NULL" + (" AND NOT c" if columns["c"] else "")
        if self.only is not None:
            where += self._only(where)
            sorts = self.sql(f"SELECT false, false, z, m, count(*) FROM raw WHERE {where} GROUP BY ALL")
        kept = [(z, m, count) for unread, check, z, m, count in sorts if not unread and not check]
        if not kept:
            self._nothing_left(total)
        for z, m, count in kept:
            self.offsets[z] = self.offsets.get(z, 0) + count
            if m is not None:
                self.rows_of_unit[_UNIT[m]] = self.rows_of_unit.get(_UNIT[m], 0) + count
        self._place(where)
        return True

    def _create(self, query: str) -> None:
        """Run the query that reads the file; again with other settings where the file needs them."""
        self.rejected = 0
        try:
            self.connection.execute(query.replace("{relation}", self.relation()))
        except self._failure as error:
            if "null_padding" in str(error) or "parallel" in str(error):
                self._slow_reading = ", parallel = false"
            elif "unicode" in str(error).lower() or "utf-8" in str(error).lower():
                self._as_latin()
            else:
                raise
            self.connection.execute("DROP TABLE IF EXISTS filled")
            self.connection.execute("DROP TABLE IF EXISTS reject_errors")
            self.connection.execute("DROP TABLE IF EXISTS reject_scans")
            self.connection.execute(query.replace("{relation}", self.relation()))
        if self.layout.container == "csv" or self._parts:
            kinds = dict(self.sql("SELECT error_type::VARCHAR, count(DISTINCT line) FROM reject_errors GROUP BY 1"))
            if any("ENCOD" in kind.upper() or "UNICODE" in kind.upper() for kind in kinds) and self.layout.encoding == "utf-8":
                self._as_latin()
                self.connection.execute("DROP TABLE filled")
                self.connection.execute(query.replace("{relation}", self.relation()))
                kinds = {}
            self.rejected = sum(kinds.values())
            self.connection.execute("DROP TABLE IF EXISTS reject_errors")
            self.connection.execute("DROP TABLE IF EXISTS reject_scans")

    def _as_latin(self) -> None:
        from dataclasses import replace

        self.layout = replace(self.layout, encoding="latin-1")

    def _ingest_lengths(self) -> None:
        roles = self.layout.roles
        self._create(f"CREATE TABLE filled AS SELECT {_whole(roles.get('input'))} AS i, {_whole(roles.get('output'))} AS o FROM {{relation}}")
        total, bad = self.one("SELECT count(*), count(*) FILTER (i IS NULL AND o IS NULL) FROM filled")
        self.rows, self.unreadable = total + self.rejected, bad + self.rejected
        if bad == total:
            raise BadInput("no row holds a number of tokens", str(self.path), next="name the columns: input_column, output_column")
        self.connection.execute(
            "CREATE VIEW rows AS SELECT NULL::BIGINT AS t, i, o, NULL::SMALLINT AS s, NULL::FLOAT AS l, NULL AS p FROM filled WHERE i IS NOT NULL OR o IS NOT NULL"
        )

    def _nothing_left(self, total: int) -> None:
        if self.only is not None and self.not_asked_for:
            raise BadInput(
                "traffic.trace.only: no request is", self.only, allowed=self.notes.get("endpoints") or "METHOD /path", next="use one of these"
            )
        if self.health_checks:
            raise BadInput("the trace holds health checks only", f"{self.health_checks:,} rows", next="give a log of requests")
        what = self.layout.named.get("time", "time")
        allowed = "ISO 8601, seconds, milli-, micro- or nanoseconds since 1970, or seconds from the start"
        raise BadInput(f"no time of {total:,} rows can be read in column", what, allowed=allowed, next="name the column: time_column")

    # -- times ----------------------------------------------------------------------------------

    def _place(self, where: str) -> None:
        """Make ``rows``: times in UTC (or from zero), sorted, without doubled rows."""
        clock = all(form.kind == "clock" for form in self.layout.forms) and self.layout.container != "parquet"
        low, high = self.one(f"SELECT min(u), max(u) FROM raw WHERE {where}")
        self.dated = not clock and not (self.rows_of_unit.get("relative", 0) * 2 > sum(self.rows_of_unit.values()) > 0)
        source, stamp = "raw", "u"
        unknown = self.offsets.get(None, 0)
        if not self.dated and not clock and (high - low) > 5 * 366 * 86_400 * 10**6 and "time_unit" not in {k for k, v in self.given.items() if v}:
            stamp, self.notes["guessed_unit"] = "u // 1000", "ms"
        if clock:
            source = (
                "(SELECT *, u + 86400000000::BIGINT * sum(CASE WHEN u < before - 43200000000 THEN 1 ELSE 0 END) OVER (ROWS UNBOUNDED PRECEDING) AS d "
                "FROM (SELECT *, lag(u) OVER () AS before FROM raw))"
            )
            stamp = "d::BIGINT"
        elif self.dated and unknown and self.timezone:
            source, local = self._second_hours(low, high)
            stamp = f"CASE WHEN z IS NULL THEN {local} ELSE u END"
        select = f"SELECT {stamp} AS t, i, o, s, l, p, h FROM {source} WHERE {where}"
        self.connection.execute(f"CREATE VIEW rows AS {select}")
        self._look()
        if self.unsorted or clock:
            self._keep("SELECT * FROM rows ORDER BY t")
            self._look(sorted=True)
        self._outliers()
        years = (self.high - self.low) / 1e6 / 86_400 / 365.25
        if self.dated and years > _LONGEST_YEARS:
            raise BadInput(
                "the times of the trace lie too far apart",
                f"{years:,.0f} years",
                allowed=f"{_LONGEST_YEARS} years",
                next="look at the column of times",
            )
        self._duplicates()

    def _second_hours(self, low: int, high: int) -> tuple[str, str]:
        """Rows and UTC of local times without an offset; where the clock is set back and rows are in order, both hours."""
        local, told = f"epoch_us(timezone('{self.timezone}', make_timestamp(u)))", []
        source = "(SELECT *, row_number() OVER () AS n FROM raw)"
        for fold in clocks.folds(self.timezone or "UTC", low, high):
            falls = self.sql(fold.fall_sql(source))
            if len(falls) == 1:
                within = f"u >= {fold.start} AND u < {fold.end}"
                told.append(f"WHEN {within} AND n < {falls[0][0]} THEN u - {fold.offset_before} WHEN {within} THEN u - {fold.offset_after}")
        self.notes["second_hours"] = len(told)
        return (source, f"CASE {' '.join(told)} ELSE {local} END") if told else ("raw", local)

    def _look(self, sorted: bool = False) -> None:
        """What one pass over the times says: their order, number and ends, the gaps between neighbours, how finely they are written."""
        self.gaps: dict[str, Any]
        gaps = "min(g), max(g), avg(g), min(g) FILTER (g > 0), count(*) FILTER (g > 0), count(*) FILTER (g = 0)"
        fell, self.arrived, self.low, self.high, self.fine, *found = self.one(
            f"SELECT count(*) FILTER (g < 0), count(*), min(t), max(t), count(*) FILTER (t % 1000000 <> 0), {gaps} FROM (SELECT t, t - lag(t) OVER () AS g FROM rows)"
        )
        if not sorted:
            self.unsorted = fell
        self.gaps = dict(zip(("least", "most", "mean", "step", "steps", "ties"), found))

    def _keep(self, select: str) -> None:
        """Replace ``rows`` by a table."""
        self.connection.execute(f"CREATE OR REPLACE TABLE kept_new AS {select}")
        self.connection.execute("DROP VIEW rows")
        self.connection.execute("DROP VIEW IF EXISTS raw")
        self.connection.execute("DROP TABLE IF EXISTS filled")
        self.connection.execute("DROP TABLE IF EXISTS kept")
        self.connection.execute("ALTER TABLE kept_new RENAME TO kept")
        self.connection.execute("CREATE VIEW rows AS SELECT * FROM kept")

    def _outliers(self) -> None:
        """A few times decades away from all others are damaged: they would stretch the span and hide everything."""
        if self.high - self.low < 29 * 86_400_000_000:
            return
        days = self.sql("SELECT t // 86400000000 AS d, count(*) FROM rows GROUP BY d ORDER BY d")
        if len(days) < 2 or days[-1][0] - days[0][0] < 30:
            return
        gaps = [later[0] - earlier[0] for earlier, later in zip(days, days[1:])]
        widest = max(range(len(gaps)), key=gaps.__getitem__)
        before = sum(count for _, count in days[: widest + 1])
        after = self.arrived - before
        if gaps[widest] * 10 < (days[-1][0] - days[0][0]) * 9 or min(before, after) * 100 > self.arrived:
            return
        edge = days[widest + 1][0] * 86_400_000_000
        self.notes["outliers"] = min(before, after)
        self._keep(f"SELECT * FROM rows WHERE t {'<' if before > after else '>='} {edge}")
        self._look(sorted=True)

    def _duplicates(self) -> None:
        """Rows that agree in every field. Dropped where that cannot be chance: an id, or times finer than a second."""
        fine = not self.layout.at_end and self.fine * 10 > self.arrived
        self.resolution_s = 1e-6 if fine else 1.0
        if not self.gaps["ties"]:
            return
        edges = self._edges()
        twice = 0
        for low, high in edges:
            tied = f"SELECT h, t, lag(t) OVER () AS a, lead(t) OVER () AS b FROM rows WHERE t >= {low} AND t < {high}"
            twice += self.one(f"SELECT count(*) - count(DISTINCT h) FROM ({tied}) WHERE t = a OR t = b")[0]
        self.duplicates = twice
        if not twice or not (fine or "id" in self.layout.named):
            return
        self.connection.execute("CREATE TABLE single AS SELECT * FROM rows LIMIT 0")
        for low, high in edges:
            self.connection.execute(
                f"INSERT INTO single SELECT * FROM rows WHERE t >= {low} AND t < {high} QUALIFY row_number() OVER (PARTITION BY h) = 1 ORDER BY t"
            )
        self._keep("SELECT * FROM single")
        self.connection.execute("DROP TABLE single")
        self.dropped_duplicates = twice
        self._look(sorted=True)

    def _edges(self) -> list[tuple[int, int]]:
        """Stretches of time with some millions of rows each."""
        low, high = self.low, self.high
        if self.arrived <= _CHUNK:
            return [(low, high + 1)]
        share = max((high + 1 - low) // 4096, 1)
        counted = self.sql(f"SELECT (t - {low}) // {share} AS b, count(*) FROM rows GROUP BY b ORDER BY b")
        edges, held, start = [], 0, low
        for part, count in counted:
            held += count
            if held >= _CHUNK:
                end = low + (part + 1) * share
                edges.append((start, end))
                start, held = end, 0
        return [*edges, (start, high + 1)] if start <= high else edges

    # -- who asked for what ---------------------------------------------------------------------

    def _endpoint(self) -> Optional[str]:
        """Method and path of a request without its query, as SQL."""
        roles = self.layout.roles
        method, path = roles.get("method"), roles.get("path")
        if path is None and "request" in roles:
            method, path = f"split_part({roles['request']}, ' ', 1)", f"split_part({roles['request']}, ' ', 2)"
        if path is None:
            return None
        bare = path if self.layout.container == "lines" else f"split_part({path}, '?', 1)"
        bare = f"CASE WHEN starts_with({path}, 'http') THEN regexp_replace({bare}, '^https?://[^/]*', '') ELSE {bare} END"
        whole = f"{method} || ' ' || {bare}" if method else bare
        return f"CASE WHEN {path} = '' THEN NULL WHEN strlen({path}) > 200 THEN left({whole}, 200) ELSE {whole} END"

    def _health_check(self, agent: Optional[str] = None) -> Optional[str]:
        agent = agent or self.layout.roles.get("agent")
        if not agent:
            return None
        quick, sure = (" OR ".join(f"contains({agent}, {_text(word)})" for word in words) for words in (_HEALTH_HINTS, HEALTH_CHECKERS))
        return f"coalesce(({quick}) AND ({sure}), false)"

    def _only(self, where: str) -> str:
        if self.layout.kind != "arrivals" or self._endpoint() is None:
            raise BadInput("traffic.trace.only needs a method and path in the trace; this is", self.layout.title, next="leave only out")
        words = (self.only or "").split()
        if not words or len(words) > 2 or not words[-1].startswith(("/", "*")):
            raise BadInput("traffic.trace.only", self.only, allowed="METHOD /path or /path, * for anything", next='only: "POST /predict"')
        path = "/".join(re.escape(part) for part in words[-1].split("/")).replace("\\*", ".*")
        with_method = "method" in self.layout.roles or "request" in self.layout.roles
        before = (re.escape(words[0].upper()) if len(words) == 2 else "[A-Z]+") + " " if with_method else ""
        self.notes["endpoints"] = ", ".join(self.endpoints("raw", where, 5))
        matches = f" AND regexp_full_match(p, {_text(before + path)})"
        total = self.one(f"SELECT count(*) FROM raw WHERE {where}")[0]
        kept = self.one(f"SELECT count(*) FROM raw WHERE {where}{matches}")[0]
        self.not_asked_for = total - kept
        return matches

    def endpoints(self, table: str = "rows", where: str = "true", most: int = 5) -> dict[str, int]:
        """The commonest methods and paths with their number of requests; ids and names in paths are masked."""
        merged: dict[str, int] = {}
        for text, count in self.sql(f"SELECT p, count(*) AS n FROM {table} WHERE p IS NOT NULL AND {where} GROUP BY p ORDER BY n DESC, p LIMIT 1000"):
            shown = masked_path(text)
            merged[shown] = merged.get(shown, 0) + count
        return dict(sorted(merged.items(), key=lambda entry: -entry[1])[:most])


def masked_path(text: str) -> str:
    """A method and path in which whatever looks like an id, an address or a secret is ``*``."""
    method, _, path = text.rpartition(" ")
    parts = [part if _PLAIN_PART.fullmatch(part) else "*" for part in path.split("/")]
    word = method if re.fullmatch(r"[A-Z]{1,10}", method) else "*" if method else ""
    return f"{word} {'/'.join(parts)}".strip()


_PLAIN_PART = re.compile(r"(?:[A-Za-z][A-Za-z._:-]{0,39}|v\d{1,2}(?:\.\d{1,2}|beta\d?|alpha\d?)?|)")
"""Words, and versions; anything with more digits could be somebody."""


def _form(layout: Layout) -> tuple[Any, ...]:
    """What files of one trace have in common."""
    names = () if layout.container in ("json", "jsonl") else layout.names
    return (
        layout.container,
        layout.kind,
        names,
        layout.delimiter,
        layout.header,
        layout.skip,
        layout.inside,
        layout.expression,
        layout.named.get("time"),
    )


_TYPES = {"m": "TINYINT", "i": "INTEGER", "o": "INTEGER", "s": "SMALLINT", "l": "FLOAT", "p": "VARCHAR", "c": "BOOLEAN"}

_UNIT = {0: "relative", 1: "s", 2: "ms", 3: "us", 4: "ns"}


def _magnitude(text: str) -> str:
    number = f"try_cast({text} AS DOUBLE)"
    return (
        f"CASE WHEN {number} IS NULL THEN NULL WHEN abs({number}) < {times.EPOCH_FROM} THEN 0 WHEN {number} < 1e11 THEN 1 WHEN {number} < 1e14 THEN 2 "
        f"WHEN {number} < 1e17 THEN 3 ELSE 4 END::TINYINT"
    )


def _whole(text: Optional[str], fast: bool = False, delimiter: str = ",") -> str:
    """A number of tokens; with care also one with thousands separators or written as 3.74e2. Where cells are parted by semicolons
    a comma is the decimal mark, and a dot before three digits groups thousands."""
    if text is None:
        return "NULL::INTEGER"
    if fast and delimiter != ";":
        return f"try_cast({text} AS INTEGER)"
    bare = f"replace(replace({text}, ',', ''), ' ', '')"
    if delimiter == ";":
        bare = f"replace(regexp_replace({text}, '[.](\\d{{3}})', '\\1', 'g'), ',', '.')"
    loose = f"try_cast(round(try_cast({bare} AS DOUBLE)) AS INTEGER)"
    return loose if delimiter == ";" else f"coalesce(try_cast({text} AS INTEGER), {loose})"


def _text(value: object) -> str:
    return "'" + str(value).replace("'", "''") + "'"


def _name(value: str) -> str:
    return '"' + value.replace('"', '""') + '"'


def _struct(names: tuple[str, ...], whole: frozenset[str] = frozenset()) -> str:
    return "{" + ", ".join(f"{_text(name)}: {_text('INTEGER' if name in whole else 'VARCHAR')}" for name in names) + "}"
