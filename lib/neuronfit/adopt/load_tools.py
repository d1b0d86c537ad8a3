"""A load generator's run against one service, as a measurement: its summary, or its requests one by one.

Users that wait for their answer are a closed loop: how many there were is the concurrency. wrk, hey, ab, h2load, autocannon, siege and Locust
count latency from the time of sending. Where answers with an error status are in a tool's percentiles, that is said.
"""

from __future__ import annotations

from typing import Optional

from neuronfit.adopt import load_summaries, request_logs
from neuronfit.adopt.document import Document
from neuronfit.adopt.load_summaries import Summary
from neuronfit.adopt.reading import QUANTILES, Reading, Sample
from neuronfit.adopt.request_logs import Row, TrialLog
from neuronfit.adopt.rules import examine, set_aside
from neuronfit.errors import BadRecord

__all__ = ["FORMATS", "read", "recognise"]

LOGS = {
    "k6_points": ("trial_k6", "k6", "k6 points (--out json), JSON lines"),
    "k6_csv": ("trial_k6_csv", "k6", "k6 points (--out csv), CSV"),
    "vegeta_json": ("trial_vegeta", "vegeta", "vegeta results (encode --to json), JSON lines"),
    "vegeta_csv": ("trial_vegeta_csv", "vegeta", "vegeta results (encode --to csv), CSV"),
    "hey_csv": ("trial_hey", "hey", "hey requests (-o csv), CSV"),
    "ab_gnuplot": ("trial_ab", "ab", "ab requests (-g), parted by tabs"),
    "h2load_log": ("trial_h2load", "h2load", "h2load requests (--log-file), parted by tabs"),
    "jmeter_jtl": ("trial_jmeter", "JMeter", "JMeter samples (JTL), CSV"),
}
"""Format -> (its name among the logs of tests, tool, what it is)."""

LEAST_CLOCK = 0.05
"""A duration that may be wrong by more than this share gives no rate."""

FORMATS = {**load_summaries.FORMATS, **{name: what for name, (_, _, what) in LOGS.items()}}


def recognise(head: bytes, name: str) -> Optional[str]:
    if found := load_summaries.recognise(head):
        return found
    log = request_logs.recognise(head, name)
    return next((name for name, (known, _, _) in LOGS.items() if known == log), None)


def read(document: Document, format: str) -> list[Reading]:
    if format in LOGS:
        log = request_logs.parse(document.text, LOGS[format][0], document.name)
        sides = dict.fromkeys(row.side for row in log.rows)
        several = len(sides) > 1
        return [_of_rows(format, log, [row for row in log.rows if row.side == side], side if several else None) for side in sides]
    found = [one for one in load_summaries.summaries(document.text, format) if one.asked]
    if not found:
        raise BadRecord("the summary counts no request", document.name, next="run the test again")
    return [_of_summary(format, one) for one in found]


def _started(format: str, tool: str, label: Optional[str]) -> Reading:
    reading = Reading(format, tool=tool, label=label or "", result_unit="inference", latency_of="request")
    reading.definitions["latency_from"] = "send"
    return reading


def _of_summary(format: str, one: Summary) -> Reading:
    reading = _started(format, one.tool, one.side)
    if one.from_schedule:
        reading.definitions["latency_from"] = "schedule"
    reading.asked, reading.failed = one.asked, one.failed
    reading.completed = one.asked - one.failed if one.asked is not None and one.failed is not None else one.asked
    reading.duration_s, reading.concurrency, reading.request_rate = one.duration_s, one.concurrency, one.offered_per_s
    names = {q: name for name, q in QUANTILES.items()}
    for q, value in one.quantiles.items():
        if q in names and value > 0:
            reading.values[f"latency_{names[q]}_s"] = value
    reading.give("latency_mean_s", one.mean_s)
    for end, value in (("min", one.least_s), ("max", one.most_s)):
        if value is not None:
            reading.extremes[f"latency_{end}_s"] = value
    for number, remark in enumerate(one.remarks, 1):
        reading.facts["latency" if number == 1 else f"latency, {number}"] = remark
    middle = one.quantiles.get(0.5)
    if one.step_s and middle:
        share = one.step_s / middle
        because = f"{one.tool} rounds latencies to {one.step_s * 1e3:g} ms, {share:.1%} of the median"
        reading.fault("rounded", because, severity="warning" if share > 0.05 else "note")
    if format == "siege_json":
        reading.fault("metric_missing", one.remarks[0])
    examine(reading)
    if one.duration_s and one.clock_s > LEAST_CLOCK * one.duration_s:
        set_aside(reading, "requests_per_s")
        set_aside(reading, "throughput_per_s")
        share = one.clock_s / one.duration_s
        because = f"{one.tool} waits for the end of its last second, so a rate over {one.duration_s:g} s may be {share:.0%} too low: shown, not used"
        reading.fault("rounded", because, "run it for a minute")
    return reading


def _of_rows(format: str, log: TrialLog, rows: list[Row], side: Optional[str]) -> Reading:
    reading = _started(format, LOGS[format][1], side)
    good = [row for row in rows if row.error is None and row.latency_s is not None]
    starts = [row.at_s for row in rows if row.at_s is not None]
    first = min(starts, default=0.0)
    whole = all(start == int(start) for start in starts)  # seconds only: no rate can be told of it
    timed = len(starts) == len(rows) and not whole
    good.sort(key=lambda row: row.at_s or 0.0)
    reading.samples = tuple(
        Sample(row.latency_s, row.first_s, row.tokens, start_s=row.at_s - first if timed and row.at_s is not None else None) for row in good
    )
    reading.asked, reading.failed, reading.completed = len(rows), len(rows) - len(good), len(good)
    if timed:
        reading.duration_s = max((row.at_s or 0.0) + (row.latency_s or 0.0) for row in rows) - first
    if log.unsaid:
        reading.fault("failures_not_stated", log.unsaid, "look at what the tool printed at its end")
    if log.left_out:
        reading.fault("values_missing", f"{log.left_out} lines have neither a latency nor an error", "look at those lines")
    if log.step_s:
        reading.fault("rounded", "latencies are whole milliseconds", severity="note")
    return examine(reading)
