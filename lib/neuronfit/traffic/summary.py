"""What a trace says in numbers: rates, bursts, lengths, growth. Counted by DuckDB, exact, from every row.

The *index of dispersion of counts* is the variance of the number of requests per window over its mean,
over all whole windows between the first request and the last, empty ones included (Cox and Lewis, The
Statistical Analysis of Series of Events, 1966, ch. 4). It is 1 for a Poisson process, 0 for a clock,
above 1 for bursts. A day that has quiet and busy hours raises it too; *within the hour* it is taken
around each hour's own mean.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any, Optional
from zoneinfo import ZoneInfo

import numpy as np

from neuronfit.provenance import Grade, Quantity, absent
from neuronfit.traced import TokenLengths, TraceSummary

if TYPE_CHECKING:
    from neuronfit.traffic.reading import Trace

__all__ = ["FEW", "GROWTH_DAYS", "LIMITS", "dispersion", "growth", "hour_of_week", "lengths_of", "moment", "quantile", "summarise"]

GROWTH_DAYS = 21
"""Whole days from which a trend is told apart from the days of the week."""

FEW = 20
"""Requests below which nothing is said about bursts."""

LIMITS = (1024, 2048, 4096, 8192, 16384, 32768)
"""Tokens of input and output together, as models and compiled lengths have them."""

_BIN_S = 900
"""Rates are collected in quarters of an hour: every zone's offset is a multiple of it."""

_SECOND = 1_000_000


def summarise(trace: "Trace") -> TraceSummary:
    """Everything that is kept of a trace. Memory does not grow with its rows."""
    kind = trace.layout.kind
    common = {
        "file": trace.path.name,
        "sha256": trace.sha256(),
        "format": trace.layout.format,
        "kind": kind,
        "rows": trace.rows,
        "only": trace.only,
    }
    if kind == "lengths":
        requests = trace.one("SELECT count(*) FROM rows")[0]
        return TraceSummary(**common, requests=requests, growth_per_month=absent("fraction", "the trace has no times"), **_tokens(trace))
    measured = _of_counts(trace) if kind == "counts" else _of_arrivals(trace)
    return TraceSummary(**common, requests=trace.arrived, resolution_s=trace.resolution_s, **measured)


# -- single requests ------------------------------------------------------------------------------


def _of_arrivals(trace: "Trace") -> dict[str, Any]:
    low, high = trace.low, trace.high
    span = (high - low) / _SECOND
    trace.sql(f"CREATE OR REPLACE TABLE seconds AS SELECT t // {_SECOND} AS w, count(*) AS n FROM rows GROUP BY w")
    found: dict[str, Any] = {**_times(trace, low, high), **_tokens(trace), **_errors(trace)}
    found["latency_s"] = _latencies(trace)
    found["endpoints"] = trace.endpoints() if trace.layout.kind == "arrivals" else {}
    bins = np.array(trace.sql(f"SELECT w // {_BIN_S} AS b, sum(n)::BIGINT FROM seconds GROUP BY b ORDER BY b"), dtype=np.int64).reshape(-1, 2)
    found |= _hours(trace, bins[:, 0] * _BIN_S, bins[:, 1].astype(float), low / _SECOND, high / _SECOND)
    if trace.arrived < 2 or span <= 0:
        return {**found, "growth_per_month": absent("fraction", "one request, or all at the same moment, have no rate")}
    mean = trace.arrived / span
    minute = _busiest(trace, low, min(60.0, span))
    second, high_second, empty, spread = _windows(trace, low, high, 1)
    found |= {
        "span_s": span,
        "mean_per_s": mean,
        "peak_per_s": minute[1] / min(60.0, span),
        "peak_at": moment(trace, minute[0]),
        "peak_window_s": min(60.0, span),
        "peak_to_mean": minute[1] / min(60.0, span) / mean,
    }
    grid = _grid(trace)
    if grid <= 1.0:
        found |= {"busiest_second": second, "second_p99": high_second, "empty_seconds": empty, "dispersion_1s": spread}
        found |= {"dispersion_1s_within_hour": _within_hour(trace, low, high, 1)}
    if grid <= 60.0:
        found |= {"dispersion_60s": _windows(trace, low, high, 60)[3], "dispersion_60s_within_hour": _within_hour(trace, low, high, 60)}
    trace.notes["grid_s"] = grid
    return found


def _grid(trace: "Trace") -> float:
    """The step, in seconds, between the moments at which requests are written down; 0 where there is none.

    Requests that come in groups on a grid coarser than a second are batches: nothing is known inside.
    """
    distinct, step = trace.gaps["steps"], trace.gaps["step"]
    if not distinct or step is None or step <= _SECOND or trace.arrived < 3 * distinct:
        return 0.0 if step is None or step < _SECOND else min(step / _SECOND, 1.0)
    off = trace.one(f"SELECT count(*) FILTER ((t - {trace.low}) % {step} <> 0) FROM rows")[0]
    return step / _SECOND if off * 100 <= trace.arrived else 1.0


def _busiest(trace: "Trace", low: int, window_s: float) -> tuple[int, int]:
    """Start (microseconds) and requests of the busiest window: minutes of the clock, or the whole of a shorter trace."""
    if window_s < 60:
        return low, trace.arrived
    start, count = trace.one("SELECT w // 60 AS m, sum(n)::BIGINT AS c FROM seconds GROUP BY m ORDER BY c DESC, m LIMIT 1")
    return start * 60 * _SECOND, count


def _windows(trace: "Trace", low: int, high: int, window_s: int) -> tuple[int, int, float, Optional[float]]:
    """Most requests in a window, what 99 % of the windows do not exceed, share of empty windows, dispersion.

    Windows are seconds or minutes of the clock (from zero where there is no date). The dispersion is over those
    that lie wholly inside the trace, the most over all.
    """
    size = window_s * _SECOND
    first, last = -(-low // size), high // size
    counted = trace.sql(f"SELECT n, count(*), count(*) FILTER (w >= {first} AND w < {last}) FROM ({_counted(window_s)}) GROUP BY n")
    most, whole = max(n for n, *_ in counted), last - first
    if whole < 1:
        return most, most, 0.0, None
    filled = {n: inside for n, _, inside in sorted(counted) if inside}
    empty = whole - sum(filled.values())
    windows = {0: empty, **filled} if empty else filled
    high_share = quantile(np.array(list(windows)), np.array(list(windows.values())), 0.99)
    return most, math.ceil(high_share), empty / whole, dispersion(windows)


def _counted(window_s: int) -> str:
    """Requests ``n`` of each window ``w`` that has any, as SQL."""
    return "SELECT w, n FROM seconds" if window_s == 1 else f"SELECT w // {window_s} AS w, sum(n)::BIGINT AS n FROM seconds GROUP BY ALL"


def dispersion(windows: Mapping[int, int]) -> Optional[float]:
    """Variance (n - 1 below) over mean of counts, given as count -> number of windows.

    None for fewer than ten windows, or fewer than :data:`FEW` requests: that is chance.
    """
    number = sum(windows.values())
    total = sum(count * times for count, times in windows.items())
    if number < 10 or total < FEW:
        return None
    mean = total / number
    return sum(times * (count - mean) ** 2 for count, times in windows.items()) / (number - 1) / mean


def _within_hour(trace: "Trace", low: int, high: int, window_s: int) -> Optional[float]:
    """Dispersion around each hour's own mean: sum of squares within the hours x n / (n - 1), over all requests."""
    per_hour = 3600 // window_s
    first, last = -(-low // (3600 * _SECOND)), high // (3600 * _SECOND)
    if last - first < 2:
        return None
    squares, total = trace.one(
        f"SELECT sum(q - n * n / {per_hour}.0), sum(n) FROM (SELECT w // {per_hour} AS k, sum(c) AS n, sum(c * c) AS q "
        f"FROM (SELECT w, n::DOUBLE AS c FROM ({_counted(window_s)})) GROUP BY k) WHERE k >= {first} AND k < {last}"
    )
    return float(squares) * per_hour / (per_hour - 1) / float(total) if total and total >= FEW else None


# -- counts per period ------------------------------------------------------------------------------


def _of_counts(trace: "Trace") -> dict[str, Any]:
    period = trace.period_s
    table = np.array(trace.sql("SELECT t, n, coalesce(e, 0) FROM counts ORDER BY t"), dtype=np.float64).reshape(-1, 3)
    stamps, counts = table[:, 0].astype(np.int64), table[:, 1]
    low, high = int(stamps[0]), int(stamps[-1] + period * _SECOND)
    span = (high - low) / _SECOND
    found: dict[str, Any] = {**_times(trace, low, high), "span_s": span}
    found |= _hours(trace, stamps // _SECOND, counts, low / _SECOND, high / _SECOND, width=period)
    mean = float(counts.sum()) / span
    window = max(60.0, period)
    grouped = np.bincount(((stamps - low) // int(window * _SECOND)).astype(np.int64), weights=counts)
    best = int(np.argmax(grouped))
    found |= {
        "mean_per_s": mean,
        "peak_per_s": float(grouped[best]) / window,
        "peak_at": moment(trace, low + int(best * window * _SECOND)),
        "peak_window_s": window,
        "peak_to_mean": float(grouped[best]) / window / mean,
    }
    if period <= 60 and len(grouped) >= 10 and 60 % period == 0:
        whole = grouped[: int(span // 60)]
        found["dispersion_60s"] = float(whole.var(ddof=1) / whole.mean())
    if trace.one("SELECT count(e) FROM counts")[0]:
        found["error_fraction"] = min(1.0, float(table[:, 2].sum() / counts.sum()))
    return found


# -- what both have -----------------------------------------------------------------------------


def _times(trace: "Trace", low: int, high: int) -> dict[str, Any]:
    unwritten = bool(trace.offsets.get(None))
    zone = (trace.timezone or "UTC") if trace.dated else None
    return {
        "zone": zone,
        "zone_assumed": trace.dated and unwritten and trace.timezone is None,
        "start": moment(trace, low),
        "end": moment(trace, high),
        "span_s": (high - low) / _SECOND,
    }


def moment(trace: "Trace", microseconds: int) -> str:
    """ISO 8601 in the trace's zone; where there is no date, seconds from the start or the time of day."""
    if not trace.dated:
        clock = any(form.kind == "clock" for form in trace.layout.forms)
        return str(timedelta(microseconds=microseconds)) if clock else f"{microseconds / _SECOND:g} s"
    try:
        stamp = datetime(1970, 1, 1, tzinfo=timezone.utc) + timedelta(microseconds=microseconds)
        return stamp.astimezone(ZoneInfo(trace.timezone or "UTC")).isoformat(timespec="milliseconds")
    except OverflowError:
        return f"{microseconds / _SECOND:g} s after 1970"


_SEEN_S = 60.0
"""Seconds of an hour that must have been recorded for its rate: of less, one request makes any number."""


def _hours(trace: "Trace", starts: Any, counts: Any, low: float, high: float, width: float = _BIN_S) -> dict[str, Any]:
    """Rates by hour of the week and of the day, and the trend, from counts in bins of ``width`` seconds."""
    if not trace.dated and not any(form.kind == "clock" for form in trace.layout.forms):
        return {"growth_per_month": _growth_of(trace, starts, counts, low, high)}
    zone = ZoneInfo(trace.timezone or "UTC") if trace.dated else ZoneInfo("UTC")
    week, seen = hour_of_week(starts, counts, low, high, zone, width)
    day = [(week[hour::24].sum(), seen[hour::24].sum()) for hour in range(24)]
    by_day = tuple(float(number / seconds) if seconds >= _SEEN_S else None for number, seconds in day)
    by_week = tuple(float(number / seconds) if seconds >= _SEEN_S else None for number, seconds in zip(week, seen)) if trace.dated else ()
    return {"hour_of_week_per_s": by_week, "hour_of_day_per_s": by_day, "growth_per_month": _growth_of(trace, starts, counts, low, high)}


def hour_of_week(starts: Any, counts: Any, low: float, high: float, zone: ZoneInfo, width: float = _BIN_S) -> tuple[Any, Any]:
    """Requests, and seconds recorded, in each of the 168 local hours of a week, Monday first.

    ``starts`` are the beginnings (epoch seconds) of bins of ``width`` seconds that hold ``counts``. On a
    day on which the clock changes, the hour that is missing has no seconds and the doubled one twice as many.
    """
    edges = np.arange(math.floor(low / _BIN_S) * _BIN_S, high + 1e-9, _BIN_S, dtype=np.float64)
    exposed = np.minimum(edges + _BIN_S, high) - np.maximum(edges, low)
    seen = np.bincount(_slot(edges, zone), weights=np.maximum(exposed, 0.0), minlength=168)
    starts = np.asarray(starts, dtype=np.float64)
    if width > 3600:  # a period of hours or a day is spread evenly over them
        parts = int(width // 3600)
        starts = (starts[:, None] + np.arange(parts) * 3600.0).ravel()
        counts = np.repeat(np.asarray(counts, dtype=np.float64) / parts, parts)
    return np.bincount(_slot(starts, zone), weights=counts, minlength=168), seen


def _slot(seconds: Any, zone: ZoneInfo) -> Any:
    """Local hour of the week, 0 to 167, of epoch seconds."""
    seconds = np.asarray(seconds, dtype=np.float64)
    hours = np.floor(seconds / _BIN_S).astype(np.int64)
    unique, where = np.unique(hours, return_inverse=True)
    epoch = datetime(1970, 1, 1, tzinfo=timezone.utc)
    offsets = np.array([(epoch + timedelta(seconds=int(hour) * _BIN_S)).astimezone(zone).utcoffset().total_seconds() for hour in unique])
    return (((seconds + offsets[where]) // 3600).astype(np.int64) + 3 * 24) % 168  # 1 January 1970 was a Thursday


def _growth_of(trace: "Trace", starts: Any, counts: Any, low: float, high: float) -> Quantity:
    first, last = math.ceil(low / 86_400), math.floor(high / 86_400)
    if last - first < GROWTH_DAYS:
        days = (high - low) / 86_400
        return absent("fraction", f"the trace covers {days:.3g} days; a trend needs {GROWTH_DAYS} whole ones")
    daily = np.bincount((np.asarray(starts) // 86_400).astype(np.int64) - math.floor(low / 86_400), weights=counts)
    whole = daily[first - math.floor(low / 86_400) : last - math.floor(low / 86_400)]
    found = growth(whole)
    if found is None:
        return absent("fraction", "some days have no request, so the days cannot be set against each other")
    value, lower, upper = found
    return Quantity(
        value=value,
        unit="fraction",
        low=lower,
        high=upper,
        confidence=0.95,
        grade=Grade.IMPORTED,
        why=f"straight line through the logarithm of {len(whole)} days",
    )


def growth(daily: Sequence[float]) -> Optional[tuple[float, float, float]]:
    """Relative change per month (30.4 days) and its 95 % interval, from the requests of consecutive days.

    Least squares of the logarithm on the day and the day of the week; the interval (Student's t) is widened
    by sqrt((1 + r) / (1 - r)) for residuals that follow each other with correlation r. None with an empty day.
    """
    from scipy import stats

    series = np.asarray(daily, dtype=np.float64)
    if (series <= 0).any():
        return None
    days = np.arange(len(series))
    design = np.column_stack([days - days.mean(), *[(days % 7 == weekday).astype(float) for weekday in range(7)]])
    logs = np.log(series)
    solved, *_ = np.linalg.lstsq(design, logs, rcond=None)
    residuals = logs - design @ solved
    freedom = len(series) - design.shape[1]
    variance = float(residuals @ residuals) / freedom
    follow = float(residuals[1:] @ residuals[:-1] / (residuals @ residuals)) if variance > 1e-24 else 0.0
    follow = min(max(follow, 0.0), 0.9)
    error = math.sqrt(variance * np.linalg.inv(design.T @ design)[0, 0] * (1 + follow) / (1 - follow))
    reach = float(stats.t.ppf(0.975, freedom)) * error
    month = 365.25 / 12
    return tuple(math.expm1(month * slope) for slope in (solved[0], solved[0] - reach, solved[0] + reach))  # type: ignore[return-value]


# -- lengths ------------------------------------------------------------------------------------


def _tokens(trace: "Trace") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for column, field in (("i", "input_tokens"), ("o", "output_tokens")):
        trace.lengths[column] = trace.sql(f"SELECT {column}, count(*) FROM rows WHERE {column} >= 0 GROUP BY {column} ORDER BY {column}")
        found[field] = lengths_of(trace.lengths[column])
    if found["input_tokens"] and found["output_tokens"]:
        size = LIMITS[0]  # every limit is a multiple of the first
        parts = dict(trace.sql(f"SELECT (i::BIGINT + o + {size - 1}) // {size} AS k, count(*) FROM rows WHERE i >= 0 AND o >= 0 GROUP BY k"))
        over = {limit: sum(count for part, count in parts.items() if part > limit // size) for limit in LIMITS}
        found["total_tokens_over"] = {limit: number / sum(parts.values()) for limit, number in over.items() if number}
    return found


def lengths_of(counted: Sequence[tuple[int, int]]) -> Optional[TokenLengths]:
    """Statistics of lengths given as (tokens, requests) in ascending order; None where there are none."""
    if not counted:
        return None
    table = np.array(counted, dtype=np.int64)
    values, counts = table[:, 0], table[:, 1]
    step = max(1, 2 ** math.ceil(math.log2(max(int(values[-1]), 1) / 256)))
    edges, where = np.unique(-(-values // step) * step, return_inverse=True)
    histogram = np.bincount(where, weights=counts).astype(np.int64)
    return TokenLengths(
        mean=float((values * counts).sum() / counts.sum()),
        minimum=int(values[0]),
        maximum=int(values[-1]),
        quantiles={f"p{share}": quantile(values, counts, share / 100) for share in (50, 90, 95, 99)},
        zero=int(counts[0]) if values[0] == 0 else 0,
        histogram={int(edge): int(count) for edge, count in zip(edges, histogram)},
    )


def quantile(values: Any, counts: Any, share: float) -> float:
    """The ``share`` quantile of ascending values with their counts, interpolated as numpy does (Hyndman and Fan's type 7)."""
    ends = np.cumsum(counts)
    place = share * (int(ends[-1]) - 1)
    below, above = (float(values[np.searchsorted(ends, rank, side="right")]) for rank in (math.floor(place), math.ceil(place)))
    return below + (above - below) * (place - math.floor(place))


def _latencies(trace: "Trace") -> dict[str, float]:
    """Quantiles of the recorded durations, to a millisecond; each from the sample size on at which 0.95 of samples reach beyond it."""
    counted = trace.sql("SELECT round(l::DOUBLE, 3) AS v, count(*) FROM rows WHERE l >= 0 GROUP BY v ORDER BY v")
    if not counted:
        return {}
    values, counts = np.array([entry[0] for entry in counted]), np.array([entry[1] for entry in counted])
    known = int(counts.sum())
    return {f"p{share}": quantile(values, counts, share / 100) for share, least in ((50, 1), (90, 29), (95, 59), (99, 299)) if known >= least}


def _errors(trace: "Trace") -> dict[str, Any]:
    known, failed = trace.one("SELECT count(*) FILTER (s BETWEEN 100 AND 599), count(*) FILTER (s BETWEEN 500 AND 599) FROM rows")
    return {"error_fraction": failed / known} if known else {}
