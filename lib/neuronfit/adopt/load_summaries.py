"""What load generators print at their end: one summary a service. Pure text in, seconds and counts out.

    recognise(head) -> "wrk_text"          summaries(text, "wrk_text") -> [Summary(...)]

A summary counts requests and failures and has percentiles as printed. ``asked`` are the requests that were sent and
are known to have ended; ``failed`` those without an answer or with a status other than 2xx and 3xx. :mod:`~neuronfit.adopt.load_tools` makes
a measurement of one, :mod:`~neuronfit.adopt.trial_logs` one side of a test.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Optional

__all__ = ["Bucket", "FORMATS", "REFUSED", "Summary", "recognise", "refused", "summaries"]

FORMATS = {
    "k6_summary": "k6, end-of-test summary (--summary-export or handleSummary), JSON",
    "vegeta_report": "vegeta report, JSON",
    "vegeta_text": "vegeta report, text",
    "wrk_text": "wrk or wrk2, text",
    "hey_text": "hey, text",
    "ab_text": "ab (ApacheBench), text",
    "h2load_text": "h2load, text",
    "autocannon_json": "autocannon, JSON",
    "artillery_json": "Artillery report (--output), JSON",
    "locust_json": "Locust statistics (--json)",
    "siege_json": "siege, JSON",
    "bombardier_json": "bombardier, JSON",
}
"""Format of a summary -> what it is."""

REFUSED = (
    (r"^Percentage served,Time in ms", "ab's table of percentages (-e)", "give ab -g FILE, and what ab printed"),
    (r"^Method,Name,Error,Occurrences", "Locust's list of failures", "take the file that ends in _stats.csv, or log each request by a listener"),
    (r"^Count,Message,Traceback,Nodes", "Locust's list of exceptions", "take the file that ends in _stats.csv, or log each request by a listener"),
    (
        r"^Timestamp,User Count,Type,Name,Requests/s",
        "Locust's history, whose percentiles are of ten seconds each",
        "take the file that ends in _stats.csv",
    ),
    (
        r"(?s)^(\[.*/INFO/locust\.|.*?# reqs +# fails \|)",
        "what Locust prints on the console",
        "run it with --csv NAME or --json, or log each request",
    ),
    (r"(?s)^.*?Summary report @ \d\d:", "what Artillery prints on the console", "run it with --output FILE.json"),
    (r"(?s)^.*?http_req_duration\.{3,}:? ", "what k6 prints on the console", "run it with --out json=FILE, or --summary-export FILE"),
    (r"(?s)^.*?Running \d+s? (test|requests).*?\u2502 Latency", "what autocannon prints on the console", "run it with --json"),
    (r"(?s)^.{0,200}(BytesOut|bytes_out).{0,400}(Attack|Latency).*?\x00", "vegeta's binary results", "vegeta encode --to json RESULTS > FILE"),
    (r"^Bucket +# +%", "vegeta's histogram", "vegeta encode --to json RESULTS > FILE"),
)
"""Output of a load tool that cannot be used: what it looks like, what it is, what to export instead."""


@dataclass(frozen=True)
class Bucket:
    """``count`` requests took more than ``above`` and at most ``upto`` seconds; ``upto`` may be infinite."""

    above: float
    upto: float
    count: int


@dataclass
class Summary:
    tool: str
    side: Optional[str] = None
    """the tool's word for it, where a file may hold several"""
    asked: Optional[int] = None
    failed: Optional[int] = None
    quantiles: dict[float, float] = field(default_factory=dict)
    """fraction -> seconds, as printed"""
    mean_s: Optional[float] = None
    least_s: Optional[float] = None
    most_s: Optional[float] = None
    duration_s: Optional[float] = None
    concurrency: Optional[int] = None
    offered_per_s: Optional[float] = None
    """of an open loop"""
    step_s: Optional[float] = None
    """latencies are rounded to this"""
    clock_s: float = 0.0
    """the duration may be too long by this"""
    from_schedule: bool = False
    """latency counts from the intended time of sending"""
    buckets: tuple[Bucket, ...] = ()
    remarks: tuple[str, ...] = ()


def recognise(head: bytes) -> Optional[str]:
    """Format by content, or ``None``."""
    text = head.decode("utf-8", "replace").lstrip("\ufeff \r\n\t")
    if text[:1] not in "{[" and (begun := re.search(r"^[{\[]", text[:4000], re.MULTILINE)):
        text = text[begun.start() :]  # what the tool said before its JSON
    if text[:1] in "{[":
        return next((name for name, found in _JSON.items() if re.search(found, text[:20000], re.DOTALL)), None)
    return next((name for name, found in _TEXT.items() if re.search(found, text, re.DOTALL)), None)


_JSON = {
    "vegeta_report": r'^\{\s*"latencies"\s*:\s*\{',
    "autocannon_json": r'^\{(?=.*"non2xx")(?=.*"latency"\s*:\s*\{).*"p97_5"',
    "artillery_json": r'^\{\s*"aggregate"\s*:\s*\{',
    "locust_json": r'^\[\s*\{(?=.*"num_requests")(?=.*"response_times"\s*:\s*\{).*"num_failures"',
    "siege_json": r'^\{\s*"transactions"\s*:.*"availability"\s*:',
    "bombardier_json": r'^\{\s*"spec"\s*:\s*\{.*"numberOfConnections".*"req2xx"',
    "k6_summary": r'^\{(?!\s*"(metric|type)"\s*:\s*"(Metric|Point|http_)).*"http_req_duration"(?=.*"(med|avg)"\s*:)',
}

_TEXT = {
    "wrk_text": r"^(?:.*\n)?Running .+ test @ .*threads and \d+ connections",
    "hey_text": r"^Summary:\s+Total:.*\bsecs.*(Latency distribution|Response time histogram|Status code distribution)",
    "ab_text": r"This is ApacheBench.*Time taken for tests:|^Server Software:.*Time taken for tests:",
    "h2load_text": r"finished in [\d.]+\w+, .*req/s.*requests: \d+ total, \d+ started",
    "vegeta_text": r"^Requests +\[total, rate(, throughput)?\].*Latencies +\[",
}


def refused(head: bytes) -> Optional[tuple[str, str]]:
    """What a load tool wrote that cannot be used, and what to export instead."""
    text = head.decode("utf-8", "replace").lstrip("\ufeff\r\n")
    return next(((what, advice) for pattern, what, advice in REFUSED if re.search(pattern, text)), None)


def summaries(text: str, format: str) -> list[Summary]:
    """The summaries of a file. Raises ``KeyError``, ``ValueError`` or ``TypeError`` where it is not what it looks like."""
    return _READERS[format](text)


# -- JSON -------------------------------------------------------------------------------------


def _k6(text: str) -> list[Summary]:
    """Three shapes: ``--summary-export`` (flat), ``handleSummary`` (``values``), the machine-readable one (``results.metrics``, a list)."""
    data = json.loads(text[text.index("{") :])
    listed = data.get("results", {}).get("metrics") if isinstance(data.get("results"), Mapping) else None
    entries = {entry["name"]: entry for entry in listed} if listed is not None else data["metrics"]
    metrics = {name: entry.get("values", entry) for name, entry in entries.items()}
    failed, asked = metrics.get("http_req_failed", {}), metrics.get("http_reqs", {})
    taken = metrics.get("http_req_duration{expected_response:true}") or metrics["http_req_duration"]
    lost = failed.get("passes", failed.get("matches"))  # k6 counts a failed request as a pass of this rate
    known = "http_req_duration{expected_response:true}" in metrics or not lost
    seconds = (data.get("state") or {}).get("testRunDurationMs")
    rate = asked.get("rate")
    return [
        Summary(
            "k6",
            asked=_int(asked.get("count")),
            failed=_int(lost),
            quantiles={0.5: taken["med"] * 1e-3} | _percents(taken, r"p\(?(\d+(?:\.\d+)?)\)?", 1e-3),
            mean_s=_scaled(taken.get("avg"), 1e-3),
            least_s=_scaled(taken.get("min"), 1e-3),
            most_s=_scaled(taken.get("max"), 1e-3),
            duration_s=seconds * 1e-3 if seconds else asked["count"] / rate if rate else None,
            remarks=() if known else ("failed requests are in k6's percentiles",),
        )
    ]


def _vegeta(text: str) -> list[Summary]:
    data = json.loads(text)
    codes, taken = data.get("status_codes") or {}, data["latencies"]
    asked = data["requests"]
    good = sum(count for code, count in codes.items() if 200 <= int(code) < 400)
    return [
        Summary(
            "vegeta",
            asked=asked,
            failed=asked - good,
            quantiles=_percents(taken, r"(\d+)th", 1e-9),
            mean_s=_scaled(taken.get("mean"), 1e-9),
            least_s=_scaled(taken.get("min"), 1e-9),
            most_s=_scaled(taken.get("max"), 1e-9),
            duration_s=(data["duration"] + data.get("wait", 0)) * 1e-9,
            offered_per_s=data.get("rate"),
            remarks=("failed requests are in vegeta's percentiles",) if asked > good else (),
        )
    ]


def _autocannon(text: str) -> list[Summary]:
    data = json.loads(text)
    taken, answered, lost = data["latency"], data["requests"]["total"], data["errors"]
    return [
        Summary(
            "autocannon",
            asked=answered + lost,
            failed=data["non2xx"] + lost,
            quantiles=_percents({name.replace("_", "."): value for name, value in taken.items()}, r"p(\d+(?:\.\d+)?)", 1e-3),
            mean_s=_scaled(taken.get("mean", taken.get("average")), 1e-3),
            least_s=_scaled(taken.get("min"), 1e-3),
            most_s=_scaled(taken.get("max"), 1e-3),
            duration_s=data["duration"],
            concurrency=data.get("connections"),
            step_s=1e-3,
            clock_s=1.0,
            remarks=(
                "autocannon has p97.5 and no p95",
                *(("answers with an error status are in its percentiles",) if data["non2xx"] else ()),
            ),
        )
    ]


def _artillery(text: str) -> list[Summary]:
    """Counters and sketches of version 2. A sketch is right within 1 %; a virtual user that could not connect counts under ``errors.*``."""
    whole = json.loads(text)["aggregate"]
    counters, taken = whole["counters"], whole["summaries"]["http.response_time"]
    lost = sum(count for name, count in counters.items() if name.startswith("errors."))
    bad = sum(count for name, count in counters.items() if (code := re.fullmatch(r"http\.codes\.(\d+)", name)) and not 200 <= int(code[1]) < 400)
    good = whole["summaries"].get("http.response_time.2xx", taken)
    first, last = whole.get("firstMetricAt"), whole.get("lastMetricAt")
    seconds = (last - first) * 1e-3 if first and last else None
    asked = counters["http.requests"]
    return [
        Summary(
            "Artillery",
            asked=asked,
            failed=bad + min(lost, asked - bad),
            quantiles=_percents(good, r"p(\d{2})", 1e-3),
            mean_s=_scaled(good.get("mean"), 1e-3),
            least_s=_scaled(good.get("min"), 1e-3),
            most_s=_scaled(good.get("max"), 1e-3),
            duration_s=seconds,
            offered_per_s=asked / seconds if seconds else None,
            remarks=("Artillery's percentiles are right within 1 %, those of the answers with status 2xx",),
        )
    ]


def _locust(text: str) -> list[Summary]:
    """Response times are counts per rounded millisecond: to 1 below 100, to 10 below 1,000, to 100 below 10,000."""
    found = []
    for entry in json.loads(text[text.index("[") :]):
        times = sorted((float(value), count) for value, count in entry["response_times"].items())
        buckets = tuple(_locust_bucket(value, count) for value, count in times)
        asked = entry["num_requests"]
        seconds = entry.get("last_request_timestamp", 0) - entry.get("start_time", 0)
        found.append(
            Summary(
                "Locust",
                side=entry.get("name") or None,
                asked=asked,
                failed=entry["num_failures"],
                quantiles={q: _of_counts(times, q) * 1e-3 for q in (0.5, 0.9, 0.95, 0.99)} if times else {},
                mean_s=entry["total_response_time"] / asked * 1e-3 if asked else None,
                least_s=_scaled(entry.get("min_response_time"), 1e-3),
                most_s=_scaled(entry.get("max_response_time"), 1e-3),
                duration_s=seconds if seconds > 0 else None,
                step_s=1e-3,
                buckets=buckets,
                remarks=("failed requests are in Locust's response times",) if entry["num_failures"] else (),
            )
        )
    return found


def _locust_bucket(value: float, count: int) -> Bucket:
    step = next((step for most, step in ((100, 1), (1000, 10), (10000, 100)) if value < most), 1000)
    below = 1 if value == 100 else 10 if value == 1000 else 100 if value == 10000 else step
    return Bucket(max(value - below / 2, 0.0) * 1e-3, (value + step / 2) * 1e-3, count)


def _of_counts(times: list[tuple[float, int]], q: float) -> float:
    rank, seen = math.ceil(q * sum(count for _, count in times)), 0
    for value, count in times:
        seen += count
        if seen >= rank:
            return value
    return times[-1][0]


def _siege(text: str) -> list[Summary]:
    data = json.loads(text[text.index("{") :])
    lost, done = int(data["failed_transactions"]), int(data["transactions"])
    remark = "siege prints hundredths of a second and no percentile, so no latency is taken"
    return [Summary("siege", asked=done + lost, failed=lost, duration_s=float(data["elapsed_time"]), remarks=(remark,))]


def _bombardier(text: str) -> list[Summary]:
    data = json.loads(text[text.index("{") :])
    result, spec = data["result"], data["spec"]
    taken = result["latency"]
    counts = {name: result[name] for name in ("req1xx", "req2xx", "req3xx", "req4xx", "req5xx", "others")}
    return [
        Summary(
            "bombardier",
            asked=sum(counts.values()),
            failed=sum(counts.values()) - counts["req2xx"] - counts["req3xx"],
            quantiles={int(name) / 100: value * 1e-6 for name, value in (taken.get("percentiles") or {}).items()},
            mean_s=_scaled(taken.get("mean"), 1e-6),
            most_s=_scaled(taken.get("max"), 1e-6),
            duration_s=result["timeTakenSeconds"],
            concurrency=spec["numberOfConnections"],
        )
    ]


# -- text -------------------------------------------------------------------------------------


def _wrk(text: str) -> list[Summary]:
    asked, seconds = _found(text, r"(\d+) requests in (\S+),")
    errors = [int(count) for count in _found(text, r"Socket errors: connect (\d+), read (\d+), write (\d+), timeout (\d+)") or (0, 0, 0, 0)]
    bad = int((_found(text, r"Non-2xx or 3xx responses: (\d+)") or (0,))[0])
    mean = _found(text, r"\n\s*Latency +(\S+) +\S+ +(\S+)")
    threads = _found(text, r"threads and (\d+) connections")
    quantiles = {float(share) / 100: _duration(value) for share, value in re.findall(r"\n\s*(\d+(?:\.\d+)?)% +([\d.]+(?:us|ms|s|m|h))\b", text)}
    corrected = "Recorded Latency" in text
    remarks = ["wrk does not count the requests that are under way when it stops"]
    remarks += [] if quantiles else ["wrk prints percentiles with --latency only"]
    remarks += ["answers with an error status are in wrk's percentiles"] if bad else []
    return [
        Summary(
            "wrk2" if corrected else "wrk",
            asked=int(asked) + sum(errors),
            failed=bad + sum(errors),
            quantiles={q: value for q, value in quantiles.items() if q < 1},
            mean_s=_duration(mean[0]) if mean else None,
            most_s=_duration(mean[1]) if mean else None,
            duration_s=_duration(seconds),
            concurrency=int(threads[0]) if threads else None,
            from_schedule=corrected,
            remarks=tuple(remarks),
        )
    ]


def _hey(text: str) -> list[Summary]:
    total = _found(text, r"Total:\s+([\d.]+) secs")
    codes = {int(code): int(count) for code, count in re.findall(r"\[(\d{3})\]\s+(\d+) responses", text)}
    errors = sum(int(count) for count in re.findall(r"\n\s+\[(\d+)\]\t", text.partition("Error distribution:")[2]))
    answered = sum(codes.values())
    bad = sum(count for code, count in codes.items() if not 200 <= code < 400)
    middle = {name: _found(text, rf"{name}:\s+([\d.]+) secs") for name in ("Average", "Fastest", "Slowest")}
    return [
        Summary(
            "hey",
            asked=answered + errors,
            failed=bad + errors,
            quantiles={int(share) / 100: float(value) for share, value in re.findall(r"(\d+)%+ in ([\d.]+) secs", text) if float(value)},
            mean_s=float(middle["Average"][0]) if middle["Average"] else None,
            least_s=float(middle["Fastest"][0]) if middle["Fastest"] else None,
            most_s=float(middle["Slowest"][0]) if middle["Slowest"] else None,
            duration_s=float(total[0]),
            step_s=1e-4,
            remarks=("answers with an error status are in hey's percentiles",) if bad else (),
        )
    ]


def _ab(text: str) -> list[Summary]:
    """An answer of another length than the first is "failed" to ab and is an answer here."""
    done = int(_found(text, r"Complete requests:\s+(\d+)")[0])
    parts = dict(re.findall(r"(Connect|Receive|Length|Exceptions): (\d+)", text.partition("Failed requests:")[2].partition("\n\n")[0]))
    bad = int((_found(text, r"Non-2xx responses:\s+(\d+)") or (0,))[0])
    lost = sum(int(parts.get(name, 0)) for name in ("Connect", "Receive", "Exceptions"))
    total = _found(text, r"\nTotal:\s+(\d+)\s+(\d+)\s+\S+\s+(\d+)\s+(\d+)")
    threads = _found(text, r"Concurrency Level:\s+(\d+)")
    quantiles = {int(share) / 100: int(value) * 1e-3 for share, value in re.findall(r"\n\s+(\d+)%\s+(\d+)", text) if int(share) < 100}
    remarks = ["answers with an error status are in ab's percentiles"] if bad else []
    if int(parts.get("Length", 0)) > bad:
        remarks.append(f"ab calls {parts['Length']} answers failed because their length differs from that of the first: they are answers")
    return [
        Summary(
            "ab",
            asked=done,
            failed=min(bad + lost, done),
            quantiles=quantiles,
            mean_s=_mean_of_ab(text),
            least_s=int(total[0]) * 1e-3 if total else None,
            most_s=int(total[3]) * 1e-3 if total else None,
            duration_s=float(_found(text, r"Time taken for tests:\s+([\d.]+) seconds")[0]),
            concurrency=int(threads[0]) if threads else None,
            step_s=1e-3,
            remarks=tuple(remarks),
        )
    ]


def _mean_of_ab(text: str) -> Optional[float]:
    found = _found(text, r"Time per request:\s+([\d.]+) \[ms\] \(mean\)")
    return float(found[0]) * 1e-3 if found else None


def _h2load(text: str) -> list[Summary]:
    """``time for request`` has the columns that its header names: min, max, mean, and in later versions median, p95 and p99."""
    started, done, good = (int(part) for part in _found(text, r"requests: \d+ total, (\d+) started, (\d+) done, (\d+) succeeded"))
    # the header's "+/- sd" is one column of two words
    header = _found(text, r"\n +((?:min|request) .*)\n(?=time for request|request)")
    cells = _found(text, r"\n(?:time for request|request) *:((?: +[\d.]+(?:ns|us|ms|s|m|h)\b)+)")
    names = (header[0] if header else "").replace("+/- sd", "share").split()
    values = {name: _duration(cell) for name, cell in zip(names, cells[0].split())} if cells else {}
    shares = {"median": 0.5, "p95": 0.95, "p99": 0.99}
    clients = _found(text, r"(\d+) total client")
    remarks = () if "median" in values else ("this version of h2load prints no percentiles: --log-file has each request",)
    return [
        Summary(
            "h2load",
            asked=started,
            failed=started - good,
            quantiles={q: values[name] for name, q in shares.items() if name in values},
            mean_s=values.get("mean"),
            least_s=values.get("min"),
            most_s=values.get("max"),
            duration_s=_duration(_found(text, r"finished in (\S+),")[0]),
            concurrency=int(clients[0]) if clients else None,
            remarks=remarks,
        )
    ]


def _vegeta_text(text: str) -> list[Summary]:
    asked, rate = _found(text, r"Requests +\[total, rate[^\]]*\] +(\d+), ([\d.]+)")
    lasted = _found(text, r"Duration +\[total[^\]]*\] +([^,\s]+)")
    names, values = _found(text, r"Latencies +\[([^\]]+)\] +([^\n]+)")
    taken = dict(zip((name.strip() for name in names.split(",")), (_duration(value) for value in values.split(","))))
    codes = {int(code): int(count) for code, count in re.findall(r"(\d+):(\d+)", _found(text, r"Status Codes +\[code:count\] +([^\n]*)")[0])}
    good = sum(count for code, count in codes.items() if 200 <= code < 400)
    return [
        Summary(
            "vegeta",
            asked=int(asked),
            failed=int(asked) - good,
            quantiles={int(name) / 100: value for name, value in taken.items() if name.isdigit()},
            mean_s=taken.get("mean"),
            least_s=taken.get("min"),
            most_s=taken.get("max"),
            duration_s=_duration(lasted[0]) if lasted else None,
            offered_per_s=float(rate),
            remarks=("failed requests are in vegeta's percentiles",) if int(asked) > good else (),
        )
    ]


_READERS: dict[str, Callable[[str], list[Summary]]] = {
    "k6_summary": _k6,
    "vegeta_report": _vegeta,
    "vegeta_text": _vegeta_text,
    "wrk_text": _wrk,
    "hey_text": _hey,
    "ab_text": _ab,
    "h2load_text": _h2load,
    "autocannon_json": _autocannon,
    "artillery_json": _artillery,
    "locust_json": _locust,
    "siege_json": _siege,
    "bombardier_json": _bombardier,
}


# -- cells ------------------------------------------------------------------------------------

_PARTS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ns": 1e-9}


def _duration(text: str) -> float:
    """``1m0.5s``, ``416.529ms``, ``639µs``: seconds."""
    parts = re.findall(r"([\d.]+)(ms|us|µs|μs|ns|h|m|s)", text.strip())
    if not parts:
        raise ValueError(text)
    return sum(float(value) * _PARTS[unit] for value, unit in parts)


def _found(text: str, pattern: str) -> Any:
    match = re.search(pattern, text)
    return match.groups() if match else None


def _percents(values: Mapping[str, Any], pattern: str, factor: float) -> dict[float, float]:
    found: Iterable[tuple[Any, Any]] = ((re.fullmatch(pattern, name), value) for name, value in values.items())
    return {round(float(match[1]) / 100, 8): value * factor for match, value in found if match and value is not None and 0 < float(match[1]) < 100}


def _scaled(value: Optional[float], factor: float) -> Optional[float]:
    return None if value is None else value * factor


def _int(value: Optional[float]) -> Optional[int]:
    return None if value is None else round(value)
