"""One trace, opened: read once by DuckDB into a table of numbers on disk, then asked as often as needed.

The table has one row per request: ``t`` (microseconds UTC, or from zero where the trace has no date),
``i`` and ``o`` (tokens), ``s`` (status), ``l`` (seconds), ``p`` (method and path) and ``h`` (hash of
the row). Texts of people, addresses and secrets are never in it. It lies in a private folder that
is deleted when the trace is closed. Memory is bounded by DuckDB's own limit; what is larger goes to disk.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Optional, Union

from neuronfit.errors import BadInput, NeuronFitError, nearest
from neuronfit.traffic import metrics, times
from neuronfit.traffic.layout import FORMATS, head_of, layout_of

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

_PACKED = 10
"""How much smaller gzip makes a log, about."""


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
        head, gzipped = head_of(path)
        self.head = head
        self._folder = Path(tempfile.mkdtemp(prefix="neuronfit-trace-"))
        try:
            self._source = self._folder / "source"  # a name without the signs that DuckDB takes for patterns
            self._source.symlink_to(path.resolve())
            size = path.stat().st_size * (_PACKED if gzipped else 1)
            self.connection = duckdb.connect(":memory:" if size <= _IN_MEMORY else str(self._folder / "trace.duckdb"))
            self._set(memory_limit)
            self._failure = duckdb.Error
            parquet = self._parquet_columns() if head[:4] == b"PAR1" and not gzipped else {}
            self.layout = layout_of(head, str(path), gzipped=gzipped, given=self.given, parquet=tuple(parquet))
            self._parquet = parquet
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
        digest = hashlib.sha256()
        with open(self.path, "rb") as file:
            for block in iter(lambda: file.read(1 << 20), b""):
                digest.update(block)
        return digest.hexdigest()

    # -- reading ------------------------------------------------------------------------------

    def _parquet_columns(self) -> dict[str, str]:
        return {str(name): str(kind) for name, kind, *_ in self.sql(f"DESCRIBE SELECT * FROM read_parquet({_text(self._source)})")}

    def _read(self) -> None:
        self.rows = self.unreadable = self.health_checks = self.not_asked_for = self.blank = 0
        self.duplicates = self.dropped_duplicates = self.unsorted = 0
        self.rows_of_unit: dict[str, int] = {}
        self.offsets: dict[Optional[int], int] = {}
        self.notes: dict[str, Any] = {}
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
        found, path = self.layout, _text(self._source)
        packed = "compression = 'gzip'" if found.gzipped else "compression = 'none'"
        if found.container == "parquet":
            return f"read_parquet({path})"
        if found.container in ("json", "jsonl"):
            shape = "newline_delimited" if found.container == "jsonl" else "array" if self._starts_with_list() else "unstructured"
            return f"read_json({path}, format = '{shape}', columns = {_struct(found.names)}, ignore_errors = {str(shape == 'newline_delimited').lower()}, {packed})"
        encoding = f"encoding = '{found.encoding}'"
        if found.container == "lines":
            lines = (
                f"read_csv({path}, auto_detect = false, columns = {{'line': 'VARCHAR'}}, delim = chr(1), quote = '', escape = '', header = false, "
                f"strict_mode = false, ignore_errors = true, {encoding}, {packed})"
            )
            return f"(SELECT line, regexp_extract(line, {_text(found.expression)}, {list(found.groups)}) AS g FROM {lines})"
        return (
            f"read_csv({path}, auto_detect = false, columns = {_struct(found.names)}, delim = {_text(found.delimiter)}, quote = {_text(found.quote)}, "
            f"escape = {_text(found.escape)}, header = {str(found.header).lower()}, skip = {found.skip}, null_padding = true, strict_mode = false, "
            f"store_rejects = true, rejects_limit = 100000, {encoding}, {packed}{self._slow_reading})"
        )

    _slow_reading = ""

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
            column, zoned = _name(found.named["time"]), "TIME ZONE" in kind
            stamp = f"epoch_us({column})" if zoned else f"epoch_us(CAST({column} AS TIMESTAMP))"
            return stamp, f"CASE WHEN {column} IS NOT NULL THEN 0::SMALLINT END" if zoned else "NULL::SMALLINT"
        text = found.roles["time"]
        return times.stamp_sql(text, found.forms, found.time_factor), times.offset_sql(text, found.forms)

    def _ingest(self) -> None:
        """Read the file into ``raw``: fast as most files allow, and once more with care where that left something unread."""
        if self.layout.container == "csv" and self.layout.forms and self._fill(fast=True):
            return
        self.connection.execute("DROP TABLE IF EXISTS filled CASCADE")
        self._fill(fast=False)

    def _fill(self, fast: bool) -> bool:
        found, roles = self.layout, self.layout.roles
        numeric = any(form.kind == "number" for form in found.forms)
        stamp, offset = times.stamp_sql("w", found.forms, found.time_factor, fast), times.offset_sql("w", found.forms)
        typed = found.container == "parquet" and (
            self._parquet.get(found.named["time"], "").startswith("TIMESTAMP") or self._parquet.get(found.named["time"]) == "DATE"
        )
        if typed:
            stamp, offset = self.stamp()
        if found.at_end:
            stamp = f"{stamp} - CAST(coalesce({roles['latency']}, 0) * {found.latency_factor * 1e6!r} AS BIGINT)"
        columns = {
            "u": stamp,
            "z": offset,
            "m": _magnitude("w") if numeric and not typed else None,
            "i": _whole(roles["input"], fast, found.delimiter) if "input" in roles else None,
            "o": _whole(roles["output"], fast, found.delimiter) if "output" in roles else None,
            "s": f"try_cast({roles['status']} AS SMALLINT)" if "status" in roles else None,
            "l": f"CAST({roles['latency']} * {found.latency_factor!r} AS FLOAT)" if "latency" in roles else None,
            "p": self._endpoint(),
            "c": self._health_check(),
            "h": f"hash({', '.join(_name(name) for name in found.names)})",
        }
        absent = ", ".join(f"NULL::{_TYPES[key]} AS {key}" for key, value in columns.items() if value is None)
        keep = f"WHERE NOT (starts_with(\"{found.names[0]}\", '#'))" if found.format == "w3c" else ""
        if found.container == "lines":
            keep = "WHERE length(line) > 0 AND NOT starts_with(line, '#')"
        written = f"try_cast({roles['time']} AS DOUBLE)" if numeric and len(found.forms) == 1 and not typed else roles["time"]
        if any(form.kind in ("clock", "pattern") for form in found.forms):
            written = f"trim({written})"
        inner = f"SELECT *, {written} AS w FROM {{relation}} {keep}"
        self._create(f"CREATE TABLE filled AS SELECT {', '.join(f'{value} AS {key}' for key, value in columns.items() if value)} FROM ({inner})")
        self.connection.execute(f"CREATE OR REPLACE VIEW raw AS SELECT *{', ' + absent if absent else ''} FROM filled")
        doubtful = " OR ".join(["u IS NULL", *(f"{column} IS NULL" for column, role in (("i", "input"), ("o", "output")) if role in roles)])
        if fast and self.one(f"SELECT count(*) FROM raw WHERE {doubtful}")[0]:
            return False
        total, bad, checks = self.one("SELECT count(*), count(*) FILTER (u IS NULL), count(*) FILTER (coalesce(c, false) AND u IS NOT NULL) FROM raw")
        self.rows, self.unreadable, self.health_checks = total + self.rejected, bad + self.rejected, checks
        where = "u IS NOT NULL" + (" AND NOT c" if columns["c"] else "")
        if self.only is not None:
            where += self._only(where)
        kept = self.one(f"SELECT count(*) FROM raw WHERE {where}")[0]
        if not kept:
            self._nothing_left(total)
        self.offsets = dict(self.sql(f"SELECT z, count(*) FROM raw WHERE {where} GROUP BY z"))
        self.rows_of_unit = {
            _UNIT[size]: count for size, count in self.sql(f"SELECT m, count(*) FROM raw WHERE m IS NOT NULL AND {where} GROUP BY m")
        }
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
        if self.layout.container == "csv":
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
            stamp = f"CASE WHEN z IS NULL THEN epoch_us(timezone('{self.timezone}', make_timestamp(u))) ELSE u END"
        select = f"SELECT {stamp} AS t, i, o, s, l, p, h FROM {source} WHERE {where}"
        self.connection.execute(f"CREATE VIEW rows AS {select}")
        self.unsorted, self.arrived = self.one("SELECT count(*) FILTER (t < before), count(*) FROM (SELECT t, lag(t) OVER () AS before FROM rows)")
        if self.unsorted or clock:
            self._keep("SELECT * FROM rows ORDER BY t")
        self._outliers()
        low, high = self.one("SELECT min(t), max(t) FROM rows")
        years = (high - low) / 1e6 / 86_400 / 365.25
        if self.dated and years > _LONGEST_YEARS:
            raise BadInput(
                "the times of the trace lie too far apart",
                f"{years:,.0f} years",
                allowed=f"{_LONGEST_YEARS} years",
                next="look at the column of times",
            )
        self._duplicates()

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
        self.arrived = max(before, after)
        self._outliers_done = True

    def _duplicates(self) -> None:
        """Rows that agree in every field. Dropped where that cannot be chance: an id, or times finer than a second."""
        edges = self._edges()
        twice = 0
        for low, high in edges:
            tied = f"SELECT h, t, lag(t) OVER () AS a, lead(t) OVER () AS b FROM rows WHERE t >= {low} AND t < {high}"
            twice += self.one(f"SELECT count(*) - count(DISTINCT h) FROM ({tied}) WHERE t = a OR t = b")[0]
        self.duplicates = twice
        fine = not self.layout.at_end and self.one("SELECT count(*) FILTER (t % 1000000 <> 0) FROM rows")[0] * 10 > self.arrived
        self.resolution_s = 1e-6 if fine else 1.0
        if not twice or not (fine or "id" in self.layout.named):
            return
        self.connection.execute("CREATE TABLE single AS SELECT * FROM rows LIMIT 0")
        for low, high in edges:
            self.connection.execute(
                f"INSERT INTO single SELECT * FROM rows WHERE t >= {low} AND t < {high} QUALIFY row_number() OVER (PARTITION BY h) = 1 ORDER BY t"
            )
        self._keep("SELECT * FROM single")
        self.connection.execute("DROP TABLE single")
        self.dropped_duplicates, self.arrived = twice, self.arrived - twice

    def _edges(self) -> list[tuple[int, int]]:
        """Stretches of time with some millions of rows each."""
        low, high = self.one("SELECT min(t), max(t) FROM rows")
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

    def _health_check(self) -> Optional[str]:
        agent = self.layout.roles.get("agent")
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


def _struct(names: tuple[str, ...]) -> str:
    return "{" + ", ".join(f"{_text(name)}: 'VARCHAR'" for name in names) + "}"
