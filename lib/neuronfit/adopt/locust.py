"""Locust: the statistics CSV (one row per endpoint) and the history CSV (one row per second). Milliseconds.

``Requests/s`` of the history is a mean over the last ten seconds, so it climbs from 0; the ``Total``
columns are cumulative since the start, and the percentile columns are those of the last ten seconds,
rounded by Locust to two digits. Users wait for their answer: a closed loop.
"""

from __future__ import annotations

from typing import Optional

from neuronfit.adopt.document import Document, whole
from neuronfit.adopt.reading import Reading
from neuronfit.adopt.rules import examine
from neuronfit.adopt.tables import Table, csv_tables
from neuronfit.errors import BadRecord
from neuronfit.stats import median

__all__ = ["FORMATS", "read", "recognise"]

FORMATS = {"locust_stats": "Locust statistics, CSV", "locust_history": "Locust history, CSV"}
WINDOW_S = 12
"""Ten seconds of sliding mean and the seconds in which users start."""


def recognise(head: bytes, name: str) -> Optional[str]:
    line = head.decode("utf-8", "replace").lstrip().split("\n", 1)[0]
    if "User Count" in line and "Requests/s" in line and "Timestamp" in line:
        return "locust_history"
    return "locust_stats" if "Request Count" in line and "Median Response Time" in line and "Requests/s" in line else None


def read(document: Document, format: str) -> list[Reading]:
    tables = csv_tables(document.text)
    if not tables or not tables[0].rows:
        raise BadRecord("no row in the Locust file", document.name)
    return [_history(tables[0])] if format == "locust_history" else _stats(tables[0])


def _stats(table: Table) -> list[Reading]:
    rows = table.rows
    total = [row for row in rows if row.get("Name") in ("Aggregated", "Total")]
    single = [row for row in rows if row not in total]
    readings = [_stats_row(table, row) for row in (single if len(single) == 1 else total or single)]
    if len(single) > 1:
        names = ", ".join(row.get("Name", "") for row in single[:4])
        for reading in readings:
            reading.fault("rows_differ", f"the row adds up {len(single)} endpoints ({names})", "adopt a run of one endpoint")
    if table.cut:
        readings[-1].fault("cut_off", "the last row of the file is cut off", "copy the whole file again")
    return readings


def _started(format: str, label: str) -> Reading:
    reading = Reading(format, tool="Locust", label=label, result_unit="inference", latency_of="request")
    reading.definitions["latency_from"] = "send"
    return reading


def _stats_row(table: Table, row: dict[str, str]) -> Reading:
    reading = _started("locust_stats", row.get("Name", ""))
    requests, failed = whole(row.get("Request Count")), whole(row.get("Failure Count"))
    reading.asked, reading.failed = requests, failed
    reading.completed = requests - failed if requests is not None and failed is not None else requests
    for column, name in (("50%", "p50"), ("90%", "p90"), ("95%", "p95"), ("99%", "p99")):
        reading.give(f"latency_{name}_s", table.number(row, column), 1e-3)
    reading.give("latency_mean_s", table.number(row, "Average Response Time"), 1e-3)
    if "latency_p50_s" not in reading.values:
        reading.give("latency_p50_s", table.number(row, "Median Response Time"), 1e-3)
    for end in ("Min", "Max"):
        if (value := table.number(row, f"{end} Response Time")) is not None:
            reading.extremes[f"latency_{end.lower()}_s"] = value * 1e-3
    rate, failing = table.number(row, "Requests/s"), table.number(row, "Failures/s") or 0.0
    reading.give("requests_per_s", rate - failing if rate is not None else None)
    if failed:
        reading.facts["latency"] = "failed requests are in Locust's percentiles"
    reading.facts["end"] = "Locust writes this file once a second and not at its end, so the last second may be missing"
    _rounded(reading)
    return examine(reading)


def _rounded(reading: Reading) -> None:
    reading.fault("rounded", "Locust rounds response times of its percentiles to two digits (1 ms, 10 ms, 100 ms steps)", severity="note")


def _history(table: Table) -> Reading:
    rows = [row for row in table.rows if row.get("Name") in ("Aggregated", "", None)]
    reading = _started("locust_history", "steady part")
    times = [table.number(row, "Timestamp") for row in rows]
    users = [whole(row.get("User Count")) for row in rows]
    most = max((count for count in users if count), default=0)
    full = next((place for place, count in enumerate(users) if count == most), 0)
    first = times[full]
    steady = [row for row, time in zip(rows, times) if first is not None and time is not None and time >= first + WINDOW_S]
    if not most or len(steady) < 3:
        raise BadRecord(
            f"only {len(steady)} rows after the first {WINDOW_S} s",
            "Locust history",
            allowed="a run long enough to settle",
            next="adopt the stats file",
        )
    rates = [rate - (table.number(row, "Failures/s") or 0.0) for row in steady if (rate := table.number(row, "Requests/s")) is not None]
    reading.give("requests_per_s", median(rates) if rates else None)
    reading.concurrency = float(most)
    last = rows[-1]
    requests, failed = whole(last.get("Total Request Count")), whole(last.get("Total Failure Count"))
    reading.asked, reading.failed = requests, failed
    reading.completed = requests - failed if requests is not None and failed is not None else requests
    reading.give("latency_mean_s", table.number(last, "Total Average Response Time"), 1e-3)
    reading.give("latency_p50_s", table.number(last, "Total Median Response Time"), 1e-3)
    for end in ("Min", "Max"):
        if (value := table.number(last, f"Total {end} Response Time")) is not None:
            reading.extremes[f"latency_{end.lower()}_s"] = value * 1e-3
    all_rates = [rate for row in rows if (rate := table.number(row, "Requests/s")) is not None]
    cut, plain = len(rows) - len(steady), sum(all_rates) / len(all_rates) if all_rates else 0.0
    because = f"the first {cut} rows (start of the users and {WINDOW_S} s) are left out: Requests/s is a mean over ten seconds and climbs from 0; steady {reading.values.get('requests_per_s', 0):.3g}/s, over all rows {plain:.3g}/s"
    reading.fault("cold_start", because)
    reading.fault(
        "cumulative_column",
        "the Total columns run from the start and are read from the last row, never averaged; percentile columns are of ten seconds each and are not used",
    )
    absent = sum(row.get("50%") in ("N/A", "", None) for row in rows)
    if absent:
        reading.fault("values_missing", f"{absent} rows have N/A percentiles: missing, not zero", severity="warning")
    _rounded(reading)
    if table.cut:
        reading.fault("cut_off", "the last row of the file is cut off", "copy the whole file again")
    return examine(reading)
