"""Traces that hold numbers of requests per period instead of requests: CloudWatch, Prometheus, tables of counts.

They become a table ``counts``: ``t`` (start of the period, microseconds UTC), ``n`` (requests in it) and
``e`` (failed ones, null where not known). A counter that only grows becomes its increments; where it
falls back it was reset, and what it shows then was counted since.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any, Optional

from neuronfit.errors import BadInput
from neuronfit.traffic import columns, times
from neuronfit.traffic.files import head_of

if TYPE_CHECKING:
    from neuronfit.traffic.reading import Trace

__all__ = ["increments", "is_counter", "load_document", "load_table", "period_of", "spread"]

_LARGEST = 256 << 20
_REQUESTS = ("requestcount", "invocations", "invocationsperinstance", "count", "requests", "invocationcount", "samplecount", "httprequeststotal")
_ERRORS = ("5xx", "5xxerror", "httpcodetarget5xxcount", "httpcodeelb5xxcount", "invocation5xxerrors", "httpcode5xx", "servererrors")
_SUMS = ("Sum", "SampleCount")


def period_of(stamps: Sequence[int]) -> Optional[int]:
    """Microseconds between neighbours: the commonest difference of sorted times; None for fewer than two."""
    import numpy as np

    gaps = np.diff(np.unique(np.asarray(stamps, dtype=np.int64)))
    if not len(gaps):
        return None
    values, counts = np.unique(gaps, return_counts=True)
    return int(values[np.argmax(counts)])


def increments(values: Sequence[float]) -> tuple[Any, int]:
    """Growth of a counter between readings, and how often it was reset: ``3 5 2 4`` -> ``2 2 2``, once."""
    import numpy as np

    series = np.asarray(values, dtype=np.float64)
    steps = np.diff(series)
    fell = steps < 0
    steps[fell] = series[1:][fell]
    return steps, int(fell.sum())


def spread(stamps: Sequence[int], steps: Any, period: int) -> tuple[Any, Any]:
    """Growth over missing readings, shared evenly among the periods that passed: no peak that nobody saw."""
    import numpy as np

    moments = np.asarray(stamps, dtype=np.int64)
    parts = np.maximum(np.rint(np.diff(moments) / period).astype(np.int64), 1)
    starts = np.repeat(moments[:-1], parts)
    within = np.arange(len(starts)) - np.repeat(np.cumsum(parts) - parts, parts)
    return starts + within * period, np.repeat(np.asarray(steps, dtype=np.float64) / parts, parts)


def is_counter(name: str, values: Sequence[float]) -> bool:
    """By its name, or because it practically only grows over 20 readings and more."""
    import numpy as np

    if columns.plain(name).endswith(("total", "counter", "cumulative")) and columns.plain(name) not in ("total",):
        return True
    series = np.asarray(values, dtype=np.float64)
    steps = np.diff(series)
    if (series[1:][steps < 0] > 0.5 * series[:-1][steps < 0]).any():
        return False  # a counter that is reset begins again from zero
    return (
        len(steps) >= 20
        and float((steps >= 0).mean()) >= 0.95
        and float((steps > 0).mean()) >= 0.5
        and values[0] > 5 * float(np.median(steps[steps > 0]))
    )


# -- tables -------------------------------------------------------------------------------------


def load_table(trace: "Trace") -> None:
    """A CSV, JSON or Parquet table of counts or rates."""
    found = trace.layout
    stamp, offset = trace.stamp()
    role = "count" if "count" in found.roles and "rate" not in found.roles else "rate"
    value = f"try_cast(replace({found.roles[role]}, ',', '') AS DOUBLE)"
    series = f"concat_ws('|', {', '.join(found.series)})" if found.series else "''"
    trace._create(f"CREATE TABLE filled AS SELECT {stamp} AS u, {offset} AS z, {value} AS n, {series} AS k FROM {{relation}}")
    total, bad = trace.one("SELECT count(*), count(*) FILTER (u IS NULL OR n IS NULL) FROM filled")
    trace.rows, trace.unreadable = total + trace.rejected, bad + trace.rejected
    if bad == total:
        raise BadInput(f"no time and number of {total:,} rows can be read", str(trace.path), next="name the column of times: time_column")
    trace.offsets = dict(trace.sql("SELECT z, count(*) FROM filled WHERE u IS NOT NULL AND n IS NOT NULL GROUP BY z"))
    local = f"epoch_us(timezone('{trace.timezone}', make_timestamp(u)))"
    moved = f"CASE WHEN z IS NULL THEN {local} ELSE u END" if trace.timezone and trace.offsets.get(None) and not _undated(trace) else "u"
    rows = trace.connection.execute(f"SELECT {moved} AS t, n, k FROM filled WHERE u IS NOT NULL AND n IS NOT NULL").fetchnumpy()
    named = found.named.get(role, "")
    trace.dated = not _undated(trace)
    _from_series(trace, rows["t"], rows["n"], rows["k"], named, rate=role == "rate")


def _undated(trace: "Trace") -> bool:
    if any(form.kind == "clock" for form in trace.layout.forms):
        return True
    return (
        bool(trace.layout.forms)
        and trace.layout.forms[0].kind == "number"
        and trace.one("SELECT max(abs(u)) FROM filled")[0] < times.EPOCH_FROM * 1e6
    )


def _from_series(trace: "Trace", stamps: Any, values: Any, keys: Any, name: str, rate: bool) -> None:
    """Several series of one metric are summed; each counter has its own resets."""
    import numpy as np

    stamps, values = np.asarray(stamps, dtype=np.int64), np.asarray(values, dtype=np.float64)
    labels, which = np.unique(np.asarray(keys, dtype=str), return_inverse=True)
    period = period_of(stamps)
    if period is None:
        raise BadInput("one row of counts has no period", str(trace.path), next="give at least two")
    trace.unsorted = sum(int((np.diff(stamps[which == key]) < 0).sum()) for key in range(len(labels)))
    order = np.lexsort((stamps, which))
    stamps, values, which = stamps[order], values[order], which[order]
    same = (np.diff(stamps) == 0) & (np.diff(which) == 0) & (np.diff(values) == 0)
    trace.duplicates = trace.dropped_duplicates = int(same.sum())
    keep = np.concatenate(([True], ~same))
    stamps, values, which = stamps[keep], values[keep], which[keep]
    times_, counts, resets, growing = [], [], 0, False
    for key in range(len(labels)):
        mine, now = values[which == key], stamps[which == key]
        if not rate and is_counter(name, mine):
            growing = True
            grown, fell = increments(mine)
            resets += fell
            moments, grown = spread(now, grown, period)
            times_.append(moments)
            counts.append(grown)
        else:
            times_.append(now)
            counts.append(mine * period / 1e6 if rate else mine)
    moments, values = np.concatenate(times_), np.concatenate(counts)
    trace.notes |= {"counter": growing, "resets": resets, "series": len(labels)}
    _store(trace, moments, values, None, period)


def _store(trace: "Trace", moments: Any, values: Any, errors: Any, period: int) -> None:
    import numpy as np

    negative = int((values < 0).sum())
    if negative:
        raise BadInput("a number of requests is below zero", f"{negative} rows", next="give counts, or a counter with a name that ends in _total")
    unique, where = np.unique(moments, return_inverse=True)
    total = np.bincount(where, weights=values)
    failed = np.bincount(where, weights=errors) if errors is not None else np.full(len(unique), np.nan)
    trace.connection.register("counted", {"t": unique.astype(np.int64), "n": total, "e": failed})
    trace.connection.execute("CREATE TABLE counts AS SELECT t, n, CASE WHEN isnan(e) THEN NULL ELSE e END AS e FROM counted ORDER BY t")
    trace.connection.unregister("counted")
    trace.period_s = period / 1e6
    trace.arrived = int(round(float(total.sum())))
    trace.resolution_s = trace.period_s
    if not trace.arrived:
        raise BadInput("the trace counts no request at all", str(trace.path), next="choose a metric of requests, such as RequestCount with Sum")


# -- documents ----------------------------------------------------------------------------------


def load_document(trace: "Trace") -> None:
    """CloudWatch (console CSV, get-metric-data, get-metric-statistics) or a Prometheus range query."""
    if trace.source.size > _LARGEST:
        raise BadInput("one JSON document of this size", f"{trace.source.size / 2**20:,.0f} MiB", allowed="256 MiB", next="export fewer days, or CSV")
    raw = b"\n".join(head_of(file, _LARGEST)[0] for file in trace.source.files)
    text = raw.decode(trace.layout.encoding if trace.layout.encoding != "utf-8" else "utf-8-sig", "replace")
    if trace.layout.container == "csv":
        found = _console_csv(trace, text)
    else:
        try:
            data = json.loads(text)
        except ValueError:
            data = _stream(text)
            if data is None:
                raise BadInput("the JSON is damaged or cut off", str(trace.path), next="export it again") from None
        found = _prometheus(trace, data) if trace.layout.format == "prometheus" else _cloudwatch(trace, data)
    trace.dated, trace.offsets = True, {0: 1}
    requests, errors, name, period = found
    stamps, values = [stamp for stamp, _ in requests], [value for _, value in requests]
    trace.rows = len(requests)
    step = int(period * 1e6) if period else period_of(stamps)
    if step is None:
        raise BadInput("one row of counts has no period", str(trace.path), next="give at least two")
    trace.unsorted = sum(later < earlier for earlier, later in zip(stamps, stamps[1:]))
    import numpy as np

    kept = dict(requests)
    trace.duplicates = trace.dropped_duplicates = len(requests) - len(kept)
    moments = np.array(sorted(kept), dtype=np.int64)
    values = np.array([kept[moment] for moment in moments], dtype=np.float64)
    failed = np.array([dict(errors).get(moment, 0.0) for moment in moments]) if errors is not None else None
    trace.notes = {"counter": False, "resets": 0, "series": 1, "metric": name, **trace.notes}
    _store(trace, moments, values, failed, step)


def _moment(value: Any) -> Optional[int]:
    """Microseconds of one time in a document."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return int(round(value * (1e6 if value < 1e11 else 1e3)))
    text = str(value).strip().replace("/", "-").replace("Z", "+00:00")
    for cut in (text, text.replace(" UTC", "+00:00")):
        try:
            moment = datetime.fromisoformat(cut)
        except ValueError:
            continue
        return int(round((moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc)).timestamp() * 1e6))
    return None


def _pairs(stamps: Sequence[Any], values: Sequence[Any]) -> list[tuple[int, float]]:
    found = []
    for stamp, value in zip(stamps, values):
        moment = _moment(stamp)
        try:
            number = float(value)
        except (TypeError, ValueError):
            continue
        if moment is not None and number == number:
            found.append((moment, number))
    return found


_Counts = tuple[list[tuple[int, float]], Optional[list[tuple[int, float]]], str, Optional[float]]


def _chosen(trace: "Trace", series: Mapping[str, list[tuple[int, float]]]) -> tuple[str, Optional[str]]:
    """The series that counts requests, and the one that counts failures."""
    names = {columns.plain(name.split()[-1] if " " in name else name): name for name in series} | {columns.plain(name): name for name in series}
    requests = next((names[known] for known in _REQUESTS if known in names), None)
    errors = next((names[known] for known in _ERRORS if known in names), None)
    if requests is None:
        rest = [name for name in series if name != errors]
        if len(rest) != 1 or any(word in columns.plain(rest[0]) for word in ("latency", "utilization", "time", "duration", "memory", "cpu", "gpu")):
            shown = ", ".join(list(series)[:6]) or "none"
            raise BadInput(
                "no metric of the file counts requests", shown, allowed="RequestCount, Invocations, Count, with Sum", next="export one of these"
            )
        requests = rest[0]
    return requests, errors


def _cloudwatch(trace: "Trace", data: Any) -> _Counts:
    if isinstance(data, dict) and "Datapoints" in data:
        points = data["Datapoints"] or []
        if not points:
            raise BadInput("the metric has no data points", str(data.get("Label", "")), next="choose a longer time, or another dimension")
        statistic = next((name for name in _SUMS if name in points[0]), None)
        if statistic is None:
            have = ", ".join(key for key in points[0] if key not in ("Timestamp", "Unit"))
            raise BadInput(
                "an average or maximum is no number of requests", have, allowed="the statistic Sum, or SampleCount", next="--statistics Sum"
            )
        label = str(data.get("Label", ""))
        if statistic == "Sum" and any(word in label.lower() for word in ("latency", "utilization", "duration", "responsetime")):
            raise BadInput(
                "the sum of this metric is no number of requests",
                label,
                allowed="RequestCount, Invocations, or SampleCount",
                next="export one of these",
            )
        return _pairs([point.get("Timestamp") for point in points], [point.get(statistic) for point in points]), None, label or statistic, None
    results = data.get("MetricDataResults") if isinstance(data, dict) else data
    series: dict[str, list[tuple[int, float]]] = {}
    for number, result in enumerate(results or []):
        name = str(result.get("Label") or result.get("Id") or f"metric {number + 1}")
        series.setdefault(name, []).extend(_pairs(result.get("Timestamps") or [], result.get("Values") or []))
        if result.get("StatusCode") in ("PartialData", "InternalError"):
            trace.notes["partial"] = result["StatusCode"]
    if isinstance(data, dict) and data.get("NextToken"):
        trace.notes["partial"] = "NextToken"
    series = {name: points for name, points in series.items() if points}
    if not series:
        raise BadInput("the metric has no data points", str(trace.path), next="choose a longer time, or another dimension")
    requests, errors = _chosen(trace, series)
    return series[requests], series.get(errors) if errors else None, requests, None


def _stream(text: str) -> Optional[list[dict[str, Any]]]:
    """A metric stream as Firehose writes it, a JSON object per data point, as series like those of ``get-metric-data``; None for other lines.

    The same requests stand in it once for each set of dimensions (a load balancer, and its zones): the set with the fewest is taken.
    """
    series: dict[str, dict[tuple[str, ...], dict[Any, float]]] = {}
    decoder, place = json.JSONDecoder(), 0
    while (place := text.find("{", place)) >= 0:
        try:
            point, place = decoder.raw_decode(text, place)
        except (ValueError, RecursionError):
            break  # the last one may be cut off
        if not isinstance(point, dict) or "metric_name" not in point or not isinstance(point.get("value"), dict):
            return None
        over = series.setdefault(str(point["metric_name"]), {}).setdefault(tuple(sorted(point.get("dimensions") or {})), {})
        number = point["value"].get("sum")
        if isinstance(number, (int, float)):
            over[point.get("timestamp")] = over.get(point.get("timestamp"), 0.0) + number
    found = []
    for name, sets in series.items():
        over = sets[min(sets, key=lambda dimensions: (len(dimensions), dimensions))]
        found.append({"Label": name, "Timestamps": list(over), "Values": list(over.values())})
    return found or None


def _console_csv(trace: "Trace", text: str) -> _Counts:
    """Lines of key and value, then a line per period."""
    rows = [
        row for row in csv.reader(io.StringIO(text), delimiter=";" if text.count(";") > text.count(",") else ",") if any(cell.strip() for cell in row)
    ]
    start = next((number for number, row in enumerate(rows) if len(row) > 1 and times.forms_of([row[0]]) and _moment(row[0]) is not None), None)
    about = {columns.plain(row[0]): [cell.strip() for cell in row[1:]] for row in (rows if start is None else rows[:start]) if row}
    if start is None:
        raise BadInput("the metric has no data points", str(trace.path), next="choose a longer time, or another dimension")
    width = max(len(row) for row in rows[start:]) - 1
    labels = next((about[key] for key in ("fulllabel", "label", "metricname", "metric") if any(about.get(key, ()))), [])
    labels = [*labels, *(f"metric {number + 1}" for number in range(len(labels), width))]
    statistics = next((about[key] for key in ("statistic", "statistics", "stat") if key in about), [])
    if any(known.lower() in ("average", "maximum", "minimum", "p99", "p90") for known in statistics[:1]):
        raise BadInput(
            "an average or maximum is no number of requests",
            statistics[0],
            allowed="the statistic Sum, or SampleCount",
            next="choose Sum in the console",
        )
    series = {
        labels[number]: _pairs(
            [row[0] for row in rows[start:] if len(row) > number + 1],
            [row[number + 1].replace(",", "") for row in rows[start:] if len(row) > number + 1],
        )
        for number in range(width)
    }
    trace.unreadable = len(rows) - start - max(map(len, series.values()))
    requests, errors = _chosen(trace, series)
    period = next((times_ for times_ in about.get("period", []) if times_.isdigit()), None)
    return series[requests], series.get(errors) if errors else None, requests, float(period) if period else None


def _prometheus(trace: "Trace", data: Any) -> _Counts:
    result = ((data.get("data") or {}).get("result") or []) if isinstance(data, dict) else []
    if not result or "values" not in result[0]:
        raise BadInput(
            "the query has no range of values", str(trace.path), allowed="a range query (resultType matrix)", next="use /api/v1/query_range"
        )
    resets, counts, stamps_seen, name = 0, {}, [], str(result[0].get("metric", {}).get("__name__", "the query"))
    errors: Optional[dict[int, float]] = None
    growing = False
    for series in result:
        metric = series.get("metric", {})
        pairs = sorted(_pairs([value[0] for value in series["values"]], [value[1] for value in series["values"]]))
        stamps, values = [stamp for stamp, _ in pairs], [value for _, value in pairs]
        stamps_seen += stamps
        if is_counter(name, values):
            growing = True
            grown, fell = increments(values)
            resets += fell
            moments, grown = spread(stamps, grown, period_of(stamps) or 1)
            steps = list(zip(moments.tolist(), grown.tolist()))
        else:
            step = (period_of(stamps) or 0) / 1e6
            steps = [(stamp, value * step) for stamp, value in pairs]
        code = next((str(metric[key]) for key in ("code", "status", "status_code") if key in metric), None)
        for stamp, value in steps:
            counts[stamp] = counts.get(stamp, 0.0) + value
        if code is not None:
            errors = errors or {}
            for stamp, value in steps if code.startswith("5") else ():
                errors[stamp] = errors.get(stamp, 0.0) + value
    step = period_of(stamps_seen)
    trace.notes |= {"counter": growing, "resets": resets, "series": len(result)}
    return sorted(counts.items()), sorted(errors.items()) if errors is not None else None, name, step / 1e6 if step else None
