"""Counts of requests and failures as a monitor exports them, a side or both: CloudWatch, Prometheus, Locust's statistics.

    read(text, "trial_prometheus") -> [Totals(side, asked, failed, values, buckets, remarks)]

A percentile of a minute is no percentile of the test, and a computed query is no count: neither is taken. Cumulative buckets
of a histogram bound a quantile between two of their edges.
"""

from __future__ import annotations

import csv
import io
import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Optional

from neuronfit.adopt.load_summaries import Bucket
from neuronfit.errors import BadRecord

__all__ = ["FORMATS", "SIDES", "Totals", "read", "recognise", "side_of"]

FORMATS = {
    "trial_locust_stats": "totals of Locust (_stats.csv)",
    "trial_cloudwatch": "metrics of CloudWatch (get-metric-data or get-metric-statistics)",
    "trial_cloudwatch_csv": "metrics of CloudWatch (the console's CSV)",
    "trial_prometheus": "a query over time of Prometheus",
}
"""Format of totals -> what it is."""

SIDES = {
    "baseline": ("baseline", "control", "a", "old", "blue", "stable", "gpu"),
    "candidate": ("candidate", "treatment", "b", "new", "green", "canary", "shadow", "neuron"),
}
"""Names of a side that need no option, in any case. The names of both targets are known too."""

LABELS = (
    "arm",
    "side",
    "variant",
    "group",
    "target_group",
    "target",
    "backend",
    "upstream",
    "version",
    "scenario",
    "service",
    "deployment",
    "app",
    "job",
)
"""Labels of Prometheus that may name the side, in order."""

STATUS = ("status", "status_code", "code", "http_status", "response_code")


@dataclass
class Totals:
    """What a monitor counted of one side. ``values``: ``latency_p99_s`` -> seconds; ``buckets``: latency, ttft or tpot -> ascending, none left out."""

    side: Optional[str] = None
    asked: Optional[int] = None
    failed: Optional[int] = None
    values: dict[str, float] = field(default_factory=dict)
    buckets: Mapping[str, Sequence[Bucket]] = field(default_factory=dict)
    remarks: Sequence[str] = ()


def side_of(word: Optional[str], words: Mapping[str, str]) -> Optional[str]:
    """``baseline`` or ``candidate``, by the words given or those that need no option."""
    low = (word or "").lower()
    return words.get(low) or next((arm for arm, known in SIDES.items() if low in known), None)


def recognise(text: str) -> Optional[str]:
    first = text.split("\n", 1)[0].strip()
    if text[:1] == "{":
        if '"MetricDataResults"' in text or re.match(r'\{\s*"(Label|Datapoints)"\s*:', text):
            return "trial_cloudwatch"
        return "trial_prometheus" if re.search(r'"resultType"\s*:\s*"\w+"', text) else None
    if re.match(r'^"?(Full label|Label)"?,', first) and re.search(r'(?m)^"?\d{4}[-/]\d\d[-/]\d\d[ T]', text):
        return "trial_cloudwatch_csv"
    try:
        cells = {cell.strip().lower() for cell in next(csv.reader([first]), [])}
    except csv.Error:  # no text: a compressed file, or UTF-16
        return None
    return "trial_locust_stats" if {"request count", "failure count", "type"} <= cells else None


def read(text: str, format: str, words: Iterable[str] = ()) -> list[Totals]:
    """The totals of each side; ``words`` are those that mean a side. Raises :class:`~neuronfit.errors.BadRecord` for what is no count."""
    known = {word.lower() for word in words} | {word for names in SIDES.values() for word in names}
    if format == "trial_locust_stats":
        return _locust_stats(text)
    if format == "trial_prometheus":
        return _prometheus(json.loads(text)["data"], known)
    return _counted(_cloudwatch(json.loads(text)) if format == "trial_cloudwatch" else _console(text), known)


# -- Locust -----------------------------------------------------------------------------------


def _locust_stats(text: str) -> list[Totals]:
    rows = list(csv.DictReader(io.StringIO(text)))
    single = [row for row in rows if row["Name"] != "Aggregated"]
    lag = "Locust writes this file once a second and not at its end, so the last second may be missing"
    found = []
    for row in single or rows:
        values = {
            f"latency_{name}_s": float(row[key]) * 1e-3 for name, key in (("p50", "50%"), ("p95", "95%"), ("p99", "99%")) if _known(row.get(key))
        }
        side = row["Name"] if len(single) > 1 else None
        found.append(Totals(side, int(row["Request Count"]), int(row["Failure Count"]), values, remarks=(lag,)))
    return found


def _known(cell: Optional[str]) -> bool:
    return cell not in (None, "", "N/A")


# -- CloudWatch -------------------------------------------------------------------------------

Series = tuple[str, str, list[float]]
"""What it is called (label and id), its statistic where the file says it, its values"""


def _cloudwatch(data: Mapping[str, Any]) -> Iterator[Series]:
    if "Datapoints" in data:
        points = data["Datapoints"]
        kinds = {kind for point in points for kind in point if kind in ("Sum", "Average", "Maximum", "Minimum", "SampleCount")}
        kind = "Sum" if "Sum" in kinds else next(iter(sorted(kinds)), "Sum")
        yield str(data.get("Label") or ""), kind, [float(point[kind]) for point in points]
        return
    for series in data["MetricDataResults"]:
        if series.get("StatusCode", "Complete") == "PartialData" or data.get("NextToken"):
            raise BadRecord(
                "the answer of CloudWatch is one page of several", str(series.get("Label")), next="ask for every page, and join their values"
            )
        yield f"{series.get('Label') or ''} {series['Id']}", "", [float(value) for value in series["Values"]]


def _console(text: str) -> Iterator[Series]:
    """Lines of labels, region, period and statistic, then one line per period: a column a series."""
    heads: dict[str, list[str]] = {}
    columns: list[list[float]] = []
    for cells in csv.reader(io.StringIO(text)):
        if not cells or not any(cells):
            continue
        if not re.match(r"\d{4}[-/]\d\d", cells[0]):
            heads[cells[0].strip().lower()] = cells[1:]
            columns = columns or [[] for _ in cells[1:]]
            continue
        for column, cell in zip(columns, cells[1:]):
            if cell.strip():
                column.append(float(cell.replace(",", "")))
    for place, values in enumerate(columns):
        name = " ".join(heads[key][place] for key in ("full label", "label") if place < len(heads.get(key, ())))
        yield name, (heads.get("statistic") or [""] * len(columns))[place], values


ASKED = re.compile(r"(?<![a-z])(invocations|request_?count)(?!per)", re.IGNORECASE)
BAD = re.compile(r"invocation5xxerrors|invocation4xxerrors|httpcode_(target|elb)_[45]xx|5xx|4xx", re.IGNORECASE)
MODEL = re.compile(r"modelerrors|error|fail", re.IGNORECASE)
LATER = re.compile(r"latency|responsetime|duration|utiliz", re.IGNORECASE)


def _counted(found: Iterable[Series], known: set[str]) -> list[Totals]:
    """Sums of Invocations or RequestCount, and of the errors. Errors of the model are counted where no 4xx or 5xx is: they are the same requests."""
    sides: dict[str, Totals] = {}
    model: dict[str, int] = {}
    for label, statistic, values in found:
        side = next((word for word in re.split(r"[^A-Za-z0-9.-]+", label) if word.lower() in known), None)
        side = side or next((part for part in re.split(r"[\s,/]+", label) if part.lower() in known), None)
        one, joined = sides.setdefault((side or "").lower(), Totals(side)), label.replace(" ", "")
        if LATER.search(joined):
            one.remarks = (*one.remarks, "a percentile or mean of each period is no percentile of the test")
            continue
        kind = (
            "asked" if ASKED.search(label) and not BAD.search(joined) else "bad" if BAD.search(joined) else "model" if MODEL.search(joined) else None
        )
        if kind is None:
            if re.search(r"per_?(instance|target)", joined, re.IGNORECASE):
                continue
            what = "a series of CloudWatch that does not say which metric it is"
            raise BadRecord(what, label.strip(), next="put Invocations, Invocation5XXErrors, RequestCount ... into its Label or Id")
        if statistic not in ("", "Sum") or any(value != round(value) for value in values):
            raise BadRecord(f"counts need the statistic Sum, this is {statistic or 'a mean'}", label.strip(), next="export it again with Stat=Sum")
        if kind == "asked":
            one.asked = (one.asked or 0) + round(sum(values))
        elif kind == "bad":
            one.failed = (one.failed or 0) + round(sum(values))
        else:
            model[(side or "").lower()] = model.get((side or "").lower(), 0) + round(sum(values))
    for name, count in model.items():
        sides[name].failed = count if sides[name].failed is None else max(sides[name].failed, count)
    return [one for one in sides.values() if one.asked or one.failed is not None]


# -- Prometheus -------------------------------------------------------------------------------


def _prometheus(data: Mapping[str, Any], known: set[str]) -> list[Totals]:
    """Counters: what each grew by, as ``increase`` counts it (after a restart a counter begins at 0). Buckets of a histogram alike.

    Where the series carry a status, failed requests count as failed and are in no bucket.
    """
    if data["resultType"] != "matrix":
        advice = "ask /api/v1/query_range over the time of the test"
        raise BadRecord("one value of each series says nothing about the test", f"resultType {data['resultType']}", next=advice)
    found: dict[str, Totals] = {}
    edges: dict[tuple[str, str], dict[float, float]] = {}
    counted: dict[str, tuple[int, Optional[int]]] = {}
    for series in data["result"]:
        labels = series["metric"]
        values = [value for _, text in series["values"] if math.isfinite(value := float(text))]
        name = labels.get("__name__", "")
        if not values or name.endswith(("_sum", "_created")):
            continue
        side, metric = _label(labels, known), _duration_of(name)
        key = (side or "").lower()
        one = found.setdefault(key, Totals(side))
        if "quantile" in labels:
            one.values[f"{metric}_p{float(labels['quantile']) * 100:g}_s"] = values[-1]
            one.remarks = ("a quantile that the service computed is over its last minutes, not over the test",)
            continue
        if any(value != round(value) for value in values):
            shown = name or ", ".join(f"{label}={word}" for label, word in labels.items()) or "a query without a name"
            what = "values that are no counts, so the query computed something (rate, histogram_quantile)"
            raise BadRecord(what, shown, next="ask for the counters themselves: the series that end in _total, _count or _bucket")
        growth = _grown(values)
        status = next((labels[label] for label in STATUS if labels.get(label)), None)
        bad = None if status is None else bool(re.match(r"[145]", status)) or status == "0"
        if "le" in labels:
            edge = float(labels["le"].replace("+Inf", "inf")) * (1e-3 if re.search(r"millisec|_ms(_|$)", name) else 1.0)
            if math.isinf(edge) and metric == "latency":
                counted[key] = _with(counted.get(key), growth, bad)
            if not bad:
                cumulative = edges.setdefault((key, metric), {})
                cumulative[edge] = cumulative.get(edge, 0.0) + growth
        elif not name.endswith("_count") or metric == "latency":
            one.asked, one.failed = _with((one.asked or 0, one.failed), growth, bad)
    for (key, metric), cumulative in edges.items():
        found[key].buckets = {**found[key].buckets, metric: _buckets(cumulative)}
    for key, (asked, failed) in counted.items():
        one = found[key]
        one.asked, one.failed = (asked, failed) if not one.asked else (one.asked, failed if one.failed is None else one.failed)
    return [one for one in found.values() if one.asked or one.values or one.buckets]


def _with(before: Optional[tuple[int, Optional[int]]], growth: float, bad: Optional[bool]) -> tuple[int, Optional[int]]:
    """(asked, failed) with the growth of one more series; ``failed`` stays unknown without a status."""
    asked, failed = before or (0, None)
    return asked + round(growth), failed if bad is None else (failed or 0) + (round(growth) if bad else 0)


def _duration_of(name: str) -> str:
    return "ttft" if re.search(r"first_token|ttft", name) else "tpot" if re.search(r"per_output_token|inter_token|tpot", name) else "latency"


def _label(labels: Mapping[str, str], known: set[str]) -> Optional[str]:
    """The first label whose value is a word for a side, else the first that is there."""
    there = [labels[name] for name in LABELS if labels.get(name)]
    return next((word for word in (*there, *labels.values()) if word.lower() in known), there[0] if there else None)


def _grown(values: Sequence[float]) -> float:
    return sum(after - before if after >= before else after for before, after in zip(values, values[1:]))


def _buckets(edges: Mapping[float, float]) -> tuple[Bucket, ...]:
    """Cumulative counts by upper edge, seconds -> buckets."""
    found, below, seen = [], 0.0, 0.0
    for edge, count in sorted(edges.items()):
        found.append(Bucket(below, edge, max(round(count - seen), 0)))
        below, seen = edge, max(count, seen)
    return tuple(found)
