"""What a reader of a trace must know: what was left out, what was assumed, what the trace cannot say."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Optional
from zoneinfo import ZoneInfo

from neuronfit.record import Finding, Severity
from neuronfit.traced import TokenLengths, TraceSummary

if TYPE_CHECKING:
    from neuronfit.traffic.reading import Trace

__all__ = ["MEANINGS", "findings"]

MEANINGS: dict[str, str] = {
    "trace_rows_unreadable": "rows without a readable time (or number) were left out",
    "trace_health_checks": "requests of load balancers that ask whether a server lives were left out",
    "trace_spans": "spans that are parts of a request, and no request themselves, were left out",
    "trace_duplicates": "rows agree in every field; left out where that cannot be chance, kept where times are whole seconds",
    "trace_unsorted": "rows are not in the order of their times; they were sorted",
    "trace_outliers": "a few times lie far from all others and were left out",
    "trace_gap": "for a long time no request is recorded: nothing came, or nothing was written",
    "trace_zone_unknown": "times have no zone; taken as UTC",
    "trace_future": "times lie in the future",
    "trace_serial_days": "times are days since 1900, as a spreadsheet writes them",
    "trace_sampled": "the file may hold a share of the requests only",
    "trace_zone_mixed": "some times have a zone and some have none",
    "trace_offset_changes": "the written offset from UTC changes; all were converted",
    "trace_clock_change": "the clock was set forward or back inside the trace",
    "trace_time_units_mixed": "numbers of different units (seconds, milliseconds) stand in one column; each was read by its size",
    "trace_relative_times": "times count from the start, so hour and weekday are not known",
    "trace_no_date": "times of day without a date",
    "trace_day_or_month": "day and month could be either way round",
    "trace_time_is_answer": "the written time is that of the answer; the duration was subtracted to get the arrival",
    "trace_duration_unit": "durations have no unit; the size of the whole numbers decided",
    "trace_batched": "requests are written down in groups on a coarse grid: nothing is known inside a step",
    "trace_no_arrivals": "the file has lengths and no times",
    "trace_few_requests": "fewer than a hundred requests",
    "trace_one_moment": "all requests have the same time, or there is one",
    "trace_bursty": "the busiest second is far above the mean: sizing by the mean rate leaves requests waiting",
    "trace_synthetic": "gaps are all equal, as a script makes them: not production traffic",
    "trace_short": "less than a day: the rate by hour is known for a part of it",
    "trace_less_than_a_week": "some hours of the week were not recorded",
    "trace_counter_reset": "a counter fell back: it was reset, and its growth before and after was added up",
    "trace_counter": "the numbers grow all the time: a counter, of which the increments were taken",
    "trace_counts_only": "numbers per period and no single requests: bursts inside a period are not known",
    "trace_partial": "the export says itself that it is not complete",
    "trace_zero_output": "requests without an output token: failed, refused or cut off",
    "trace_lengths_missing": "some rows have no number of tokens",
    "trace_lengths_capped": "many requests have exactly the largest length: a limit cut them",
    "trace_no_lengths": "no column of tokens",
    "trace_private": "columns that hold texts, addresses or secrets; none of it was kept",
    "trace_columns_guessed": "there is no usable header; columns were told apart by their values",
    "trace_only": "requests of other methods and paths were left out",
    "trace_errors": "a share of the answers is an error of the server",
}
"""Code -> what it says."""

_SUSPICIOUS_GAP_S = 60.0
_GAP_EXPECTED = 50.0
_BURSTY = 3.0


def findings(trace: "Trace", said: TraceSummary) -> tuple[Finding, ...]:
    """Findings of an opened trace and its summary, the gravest first."""
    found = [*_rows(trace, said), *_time(trace, said), *_process(trace, said), *_lengths(trace, said), *_content(trace, said)]
    order = list(Severity)
    return tuple(sorted(found, key=lambda finding: order.index(finding.severity)))


def _note(code: str, because: str, next: Optional[str] = None) -> Finding:
    return Finding(severity=Severity.NOTE, code=code, because=because, next=next)


def _warn(code: str, because: str, next: Optional[str] = None) -> Finding:
    return Finding(severity=Severity.WARNING, code=code, because=because, next=next)


def _rows(trace: "Trace", said: TraceSummary) -> list[Finding]:
    found = []
    if trace.unreadable:
        share = trace.unreadable / max(trace.rows, 1)
        because = f"{trace.unreadable:,} of {trace.rows:,} rows ({share:.2%}) have no readable time or number and are left out"
        look = "look at the file if they are many"
        found.append(_warn("trace_rows_unreadable", because, look) if share > 0.001 else _note("trace_rows_unreadable", because, look))
    if trace.health_checks and trace.layout.kept:
        because = f"{trace.health_checks:,} of {trace.rows:,} spans are not {trace.layout.kept_title} and are left out"
        found.append(_note("trace_spans", because, "spans are often sampled: compare the number with that of an access log"))
    elif trace.health_checks:
        because = f"{trace.health_checks:,} of {trace.rows:,} rows are health checks of a load balancer and are left out"
        found.append(_note("trace_health_checks", because))
    if trace.duplicates and trace.dropped_duplicates:
        because = f"{trace.dropped_duplicates:,} of {trace.rows:,} rows repeat an earlier one in every field and are left out"
        found.append(_warn("trace_duplicates", because, "find out whether a file was joined twice"))
    elif trace.duplicates:
        because = f"{trace.duplicates:,} of {trace.rows:,} rows repeat another in every field; times are whole seconds, so this can be chance, and they are kept"
        found.append(_note("trace_duplicates", because, "take the copies out if a file was joined twice"))
    if trace.unsorted:
        found.append(_note("trace_unsorted", f"{trace.unsorted:,} of {trace.rows:,} rows come before the time of the row above; they were sorted"))
    if trace.notes.get("outliers"):
        because = f"{trace.notes['outliers']:,} rows lie far from all others in time and are left out"
        found.append(_warn("trace_outliers", because, "look at their times"))
    if trace.not_asked_for:
        because = f"{trace.not_asked_for:,} requests are not {said.only} and are left out; {said.requests:,} remain"
        found.append(_note("trace_only", because))
    if any(name.startswith("captureData.") for name in trace.layout.named.values()) or "captureData" in trace.layout.names:
        because = "data capture keeps the share of requests that InitialSamplingPercentage says; the rate is that of what was kept"
        found.append(_warn("trace_sampled", because, "divide by that share, or take Invocations from CloudWatch"))
    if trace.notes.get("partial"):
        because = f"the export is not complete ({trace.notes['partial']})"
        found.append(_warn("trace_partial", because, "get the remaining pages and join them"))
    return found


def _time(trace: "Trace", said: TraceSummary) -> list[Finding]:
    if said.kind == "lengths":
        because = f"{said.requests:,} lengths and no times: rate, peak and bursts are not known; the lengths are used"
        return [
            Finding(severity=Severity.WAITING, code="trace_no_arrivals", because=because, next="declare traffic.mean_per_s and traffic.peak_per_s")
        ]
    found = []
    unknown, total = trace.offsets.get(None, 0), sum(trace.offsets.values())
    declared = trace.timezone is not None
    clock = any(form.kind == "clock" for form in trace.layout.forms)
    unit = trace.given.get("time_unit")
    if clock and not trace.dated:
        found.append(
            _warn("trace_no_date", "times of day without a date: the hour is known, the weekday is not, and a jump back is taken as midnight")
        )
    elif not trace.dated:
        taken = trace.notes.get("guessed_unit") or unit or {1.0: "s", 1e-3: "ms", 1e-6: "us", 1e-9: "ns"}[trace.layout.time_factor]
        because = f"times count from the start (taken as {taken}), so hour of the day and weekday are not known"
        found.append(_note("trace_relative_times", because, None if unit else "if that is not the unit: time_unit: ms"))
    elif 0 < unknown < total:
        because = f"{unknown:,} of {total:,} times have no zone, the others have one; those without are taken as {trace.timezone or 'UTC'}"
        found.append(_warn("trace_zone_mixed", because, None if declared else "timezone: Europe/Berlin, or what it was"))
    elif unknown and not declared:
        found.append(
            _warn(
                "trace_zone_unknown",
                "no time zone is written; times are taken as UTC, so hours of the day may be shifted",
                "timezone: Europe/Berlin, or what it was",
            )
        )
    offsets = sorted(offset for offset in trace.offsets if offset is not None)
    if len(offsets) > 1:
        shown = ", ".join(f"{'-' if offset < 0 else '+'}{abs(offset) // 60:02d}:{abs(offset) % 60:02d}" for offset in offsets[:6])
        found.append(_note("trace_offset_changes", f"times are written with the offsets {shown}; all were converted to UTC"))
    found += _clock_changes(trace, said)
    now = datetime.now(timezone.utc)
    if trace.dated and said.end and (datetime.fromisoformat(said.end) - now) > timedelta(days=1):
        because = f"the last time is {said.end}, and today is {now.date()}: the clock of the server was wrong, or the times are read wrongly"
        found.append(_warn("trace_future", because, "look at the times; time_column and timezone say how to read them"))
    if any(form.kind == "serial" for form in trace.layout.forms):
        because = f"the numbers in {trace.layout.named.get('time')} are read as days since 1900, as a spreadsheet writes times"
        found.append(_warn("trace_serial_days", because, "if they count seconds from the start: time_unit: s"))
    sizes = {name: count for name, count in trace.rows_of_unit.items() if count}
    if len(sizes) > 1:
        because = f"numbers of different size stand in one column ({', '.join(f'{count:,} in {name}' for name, count in sorted(sizes.items()))})"
        found.append(_warn("trace_time_units_mixed", because, "look whether two exports were joined"))
    if any(form.ambiguous for form in trace.layout.forms):
        pattern = next(form.pattern for form in trace.layout.forms if form.ambiguous)
        found.append(_warn("trace_day_or_month", f"day and month could be either way round; read as {pattern}", "write dates as 2024-05-31"))
    if trace.layout.latency_assumed and said.latency_s:
        because = f"{trace.layout.named.get('latency')} has no unit and holds large whole numbers; read as {trace.layout.latency_assumed}"
        found.append(_note("trace_duration_unit", because, "name the column with its unit, such as duration_ms"))
    if trace.layout.at_end:
        found.append(
            _note(
                "trace_time_is_answer",
                f"{trace.layout.named.get('time')} is written when the answer is; arrival = time - {trace.layout.named.get('latency')}",
            )
        )
    return found


def _clock_changes(trace: "Trace", said: TraceSummary) -> list[Finding]:
    """Where a declared zone has a change of its clock inside the trace, and times were written without an offset."""
    if trace.timezone is None or not trace.offsets.get(None) or said.start is None or not trace.dated:
        return []
    zone, start, end = ZoneInfo(trace.timezone), datetime.fromisoformat(said.start), datetime.fromisoformat(said.end or said.start)
    hours = int((end - start).total_seconds() // 3600)
    if hours > 24 * 366 * 20:
        return []
    before, changes = None, []
    for hour in range(hours + 2):
        offset = (start.astimezone(timezone.utc) + timedelta(hours=hour)).astimezone(zone).utcoffset()
        if before is not None and offset is not None and offset != before:
            changes.append((start.astimezone(zone) + timedelta(hours=hour), offset > before))
        before = offset
    told = "; the rows are in order, so the two hours of the same name were told apart"
    if not trace.notes.get("second_hours"):
        told = "; without offsets the repeated hour cannot be told apart and is taken as one of the two"
    return [
        _note(
            "trace_clock_change",
            f"the clock of {trace.timezone} is set {'forward' if forward else 'back'} on {when.date()}" + ("" if forward else told),
        )
        for when, forward in changes[:4]
    ]


def _process(trace: "Trace", said: TraceSummary) -> list[Finding]:
    if said.kind == "lengths":
        return []
    found: list[Finding] = []
    if said.mean_per_s is not None and said.requests < 100:
        found.append(_warn("trace_few_requests", f"{said.requests:,} requests: rates, peaks and bursts of so few are chance", "record a week"))
    if said.mean_per_s is None:
        because = "one request" if said.requests == 1 else f"{said.requests:,} requests, all at the same moment"
        return [
            Finding(
                severity=Severity.WAITING,
                code="trace_one_moment",
                because=f"{because}: no rate can be told",
                next="declare traffic.mean_per_s, or give a longer trace",
            )
        ]
    if said.kind == "counts":
        period = trace.period_s
        because = f"numbers per {period:g} s and no single requests: the peak is that of {said.peak_window_s:g} s, bursts inside are not known"
        found.append(_note("trace_counts_only", because, "an access log shows single requests"))
        if trace.notes.get("counter"):
            found.append(_note("trace_counter", "the numbers grow all the time: a counter, of which the increments were taken"))
        if trace.notes.get("resets"):
            because = f"the counter fell back {trace.notes['resets']:,} times: it was reset, and what it shows then was counted since"
            found.append(_warn("trace_counter_reset", because, "look whether servers were restarted; requests just before are lost"))
    else:
        grid = trace.notes.get("grid_s", 0.0)
        if grid > 1.0:
            because = f"all times lie on a grid of {grid:g} s with {said.requests * grid / max(said.span_s or 1, 1):.3g} requests a step on average"
            found.append(
                _warn("trace_batched", f"{because}: these are batches, and bursts below {grid:g} s are not known", "do not take them for arrivals")
            )
        else:
            found += _constant(trace, said)
            if said.dispersion_1s and said.dispersion_1s > _BURSTY and said.busiest_second:
                because = (
                    f"the busiest second has {said.busiest_second:,} requests, {said.busiest_second / said.mean_per_s:.0f} times the mean; the dispersion per second "
                    f"is {said.dispersion_1s:.3g}, and 1 would be chance"
                )
                found.append(_warn("trace_bursty", because, "size for the peak, not for the mean"))
    if trace.dated and said.span_s is not None:
        if said.span_s < 86_400:
            known = sum(rate is not None for rate in said.hour_of_day_per_s)
            found.append(
                _warn("trace_short", f"the trace covers {_span(said.span_s)}: rates are known for {known} of 24 hours of the day", "record a week")
            )
        elif said.span_s < 7 * 86_400 * 0.99:
            known = sum(rate is not None for rate in said.hour_of_week_per_s)
            found.append(
                _note("trace_less_than_a_week", f"the trace covers {_span(said.span_s)}: {known} of the 168 hours of the week", "record a week")
            )
    found += _gap(trace, said)
    return found


def _span(seconds: float) -> str:
    for size, name in ((86_400, "days"), (3600, "hours"), (60, "minutes")):
        if seconds >= size:
            return f"{seconds / size:.3g} {name}"
    return f"{seconds:.3g} seconds"


def _constant(trace: "Trace", said: TraceSummary) -> list[Finding]:
    low, high, middle = trace.gaps["least"], trace.gaps["most"], trace.gaps["mean"]
    if said.requests < 10 or not middle or (high - low) > 0.01 * middle:
        return []
    evenly = [
        name for name, lengths in (("input", said.input_tokens), ("output", said.output_tokens)) if lengths and _uniform(lengths, said.requests)
    ]
    also = f", and the {' and '.join(evenly)} lengths spread evenly between their ends, as a random generator does" if evenly else ""
    because = f"every gap is {middle / 1e6:g} s{also}: generated, not production traffic"
    return [_warn("trace_synthetic", because, "give a recorded trace; its rate and bursts say nothing about users")]


def _uniform(lengths: TokenLengths, number: int) -> bool:
    """Whether lengths could be drawn evenly between their ends (Kolmogorov-Smirnov below its 10 % limit), over a wide range."""
    if number < 20 or lengths.maximum - lengths.minimum < 10 or len(lengths.histogram) < 8:
        return False
    width, seen, worst = lengths.maximum - lengths.minimum + 1, 0, 0.0
    for edge, count in sorted(lengths.histogram.items()):
        before = seen / number
        seen += count
        expected = (min(edge, lengths.maximum) - lengths.minimum + 1) / width
        worst = max(worst, abs(seen / number - expected), abs(before - expected) - 1 / len(lengths.histogram))
    return worst < 1.22 / math.sqrt(number)


def _gap(trace: "Trace", said: TraceSummary) -> list[Finding]:
    """The longest times without a request that chance does not explain at the mean rate."""
    limit = max(_SUSPICIOUS_GAP_S, _GAP_EXPECTED / said.mean_per_s, 1.5 * trace.resolution_s) if said.mean_per_s else math.inf
    if said.kind == "counts":
        step = trace.period_s
        limit = 1.5 * step
        query = "SELECT t, t - lag(t) OVER (ORDER BY t) AS g FROM counts"
    else:
        if trace.gaps["most"] <= limit * 1e6:
            return []
        query = "SELECT t, t - lag(t) OVER () AS g FROM rows"
    number, total, longest, at = trace.one(f"SELECT count(*), sum(g), max(g), arg_max(t - g, g) FROM ({query}) WHERE g > {limit * 1e6}")
    if not number:
        return []
    from neuronfit.traffic.summary import moment

    recorded = (said.span_s or 0.0) - total / 1e6
    because = f"{number:,} gap{'s' if number > 1 else ''} of {_span(total / 1e6)} together, the longest {_span(longest / 1e6)} from {moment(trace, int(at))}"
    if recorded > 0:
        because += f"; if nothing was recorded then, the mean is {said.requests / recorded:.4g}/s and not {said.mean_per_s:.4g}/s"
    grave = longest / 1e6 >= 3600 or longest / 1e6 >= 0.1 * (said.span_s or 1.0)
    ask = "find out whether nothing came or nothing was written"
    return [_warn("trace_gap", because, ask) if grave else _note("trace_gap", because, ask)]


def _lengths(trace: "Trace", said: TraceSummary) -> list[Finding]:
    if said.kind == "counts":
        return []
    found = []
    if said.input_tokens is None and said.output_tokens is None:
        found.append(_note("trace_no_lengths", "the trace has no numbers of tokens, so lengths are not known", "declare traffic.sequence_lengths"))
        return found
    if said.output_tokens and said.output_tokens.zero:
        share = said.output_tokens.zero / said.requests
        found.append(
            _note(
                "trace_zero_output",
                f"{said.output_tokens.zero:,} of {said.requests:,} requests ({share:.1%}) have no output token: failed, refused or cut off",
            )
        )
    for name, lengths, column in (("input", said.input_tokens, "i"), ("output", said.output_tokens, "o")):
        if lengths is None:
            continue
        counted = trace.lengths[column]
        missing = said.requests - sum(count for _, count in counted)
        if missing:
            found.append(_warn("trace_lengths_missing", f"{missing:,} of {said.requests:,} rows have no number of {name} tokens, or one below 0"))
        top = sum(count for tokens, count in counted if tokens >= math.floor(lengths.maximum * 0.999))
        exact = counted[-1][1]
        limit = (top >= 10 and top > 0.002 * said.requests) or (exact >= 5 and _round(lengths.maximum))
        if limit and lengths.maximum >= 64 and lengths.quantiles["p50"] < 0.9 * lengths.maximum:
            top = top if top > 0.002 * said.requests else exact
            because = f"{top:,} requests ({top / said.requests:.1%}) have the largest {name} length, {lengths.maximum:,} tokens, or almost: a limit cut them"
            found.append(_note("trace_lengths_capped", because))
    return found


def _round(tokens: int) -> bool:
    """A number that people set as a limit: hundreds, or a power of two."""
    return tokens % 100 == 0 or tokens & (tokens - 1) == 0


def _content(trace: "Trace", said: TraceSummary) -> list[Finding]:
    found = []
    private: Sequence[str] = trace.layout.private
    if private:
        what = (
            "lines with addresses of people"
            if private == ("line",)
            else f"the columns {', '.join(name if len(name) <= 40 else '...' for name in private[:8])}"
        )
        found.append(
            _note("trace_private", f"{what} may hold texts, addresses or secrets; nothing of them was kept or shown", "do not pass the file on")
        )
    if trace.layout.guessed:
        named = ", ".join(f"{role} = {column}" for role, column in trace.layout.named.items())
        found.append(
            _warn(
                "trace_columns_guessed",
                f"no column has a known name; taken by their values: {named}",
                "name them: time_column, input_column, output_column",
            )
        )
    if said.error_fraction and said.error_fraction > 0.01:
        found.append(_warn("trace_errors", f"{said.error_fraction:.1%} of the answers are errors of the server (status 500 and above)"))
    return found
