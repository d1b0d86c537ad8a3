"""Tables without a tool: CSV, Markdown and console tables whose columns say what they are.

A header is read word by word: a statistic (mean, p50, p99), a quantity (TTFT, TPOT, ITL, latency,
tokens/s, requests/s), a unit, a setting (batch, concurrency, ISL, OSL). Cells that are no exact number
(``FAIL``, ``OOM``, ``~1200``, ``78.98*``) are kept as what they are. Tried last, after every named format.
"""

from __future__ import annotations

import re
from typing import Any, Optional

from neuronfit.adopt.document import Document, marked, number, whole
from neuronfit.adopt.reading import Reading
from neuronfit.adopt.rules import examine
from neuronfit.adopt.tables import Table, bar_tables, csv_tables
from neuronfit.errors import BadRecord

__all__ = ["FORMATS", "certain", "column", "read", "recognise"]

FORMATS = {"table": "a table of benchmark figures whose columns say what they are: CSV, Markdown or console text"}

_STATISTICS = (
    ("p99", r"\bp99\b|99%|99th"),
    ("p95", r"\bp95\b|95th"),
    ("p90", r"\bp90\b|90th"),
    ("p50", r"\bp50\b|\bmedian\b|50th"),
    ("mean", r"\bmean\b|\bavg\b|average"),
)
_KINDS = (
    ("ttft", r"\bttft\b|first token"),
    ("tpot", r"\btpot\b|per output token"),
    ("itl", r"\bitl\b|inter.?token"),
    ("latency", r"\be2el?\b|latency|end.to.end|response time"),
)
_SETTINGS = {
    "batch_size": r"^(bs|batch|batch[ _]?size)$",
    "concurrency": r"^(c|concur|concurrency|clients|num_concurrent(_requests)?|max_concurrency)$",
    "requests": r"^(n|n[ _]?req(uests)?|num_requests|requests|samples|count)$",
    "sequence_length": r"^(isl|input[ _]?(len|length|tokens)|seq(uence)?[ _]?(len|length))$",
    "output_length": r"^(osl|output[ _]?(len|length|tokens))$",
    "tp_degree": r"^(tp|tp[ _]?degree|tensor[ _]?parallel)$",
    "gpus": r"^(gpus|num_gpus|accelerators|devices)$",
    "model": r"^(model|model[ _]?(id|name))$",
    "instance_type": r"^(instance|instance[ _]?type|inst\. type|hardware)$",
    "precision": r"^(precision|dtype|data[ _]?type|quantization)$",
    "duration": r"^duration( \(s\)|_s)?$",
    "users": r"^(num_)?users$",
    "workers": r"^(num_)?workers$",
    "segment": r"^segment[ _]?size$",
}


def column(header: str) -> tuple[str, float]:
    """What a column holds: a metric or setting and the factor to SI. ``("", 1)`` where it is neither.

    ``("latency_p50_s", 1e-3)`` for ``p50(ms)``; ``("ttft_s", 1e-3)`` for ``TTFT (ms)``, a statistic not being named.
    """
    plain = re.sub(r"[`*]", "", header).strip().lower()
    for name, pattern in _SETTINGS.items():
        if re.match(pattern, plain):
            return name, 1.0
    words = plain.replace("_", " ")
    rate = re.search(r"/ ?s\b|per s(ec)?\b|/sec|\brps\b|\btps\b|\bqps\b|tput|throughput|req/min", words)
    if rate and not re.search(r"\bms\b", words):
        if re.search(r"user", words):
            return "user_tokens", 1.0
        if re.search(r"gpu|accelerator|device|core|chip", words):
            return "device_tokens", 1.0
        if re.search(r"prefill|input|prompt", words):
            return "input_tokens_per_s", 1.0
        if re.search(r"req|\brps\b|\bqps\b|transactions", words):
            return "requests_per_s", 1.0
        if re.search(r"decode", words):
            return "decode_tokens", 1.0
        if re.search(r"total.*token.*duration|total token", words):
            return "total_tokens", 1.0
        if re.search(r"tok|\btps\b", words):
            return "output_tokens_per_s", 1.0
        if re.search(r"\bw/ ?s|inf|img|image|sample|seq|sentence|item|throughput|tput", words):
            return "throughput_per_s", 1.0
    factor = 1e-3 if re.search(r"\bms\b|\(ms\)", words) else 1e-6 if re.search(r"\bus\b|µs", words) else 1.0
    timed = factor != 1.0 or re.search(r"\(s\)|\bs$|\bsec(onds)?\b", words)
    kind = next((name for name, pattern in _KINDS if re.search(pattern, words)), None)
    bare = words.replace("(", " ").replace(")", " ")
    statistic = next((name for name, pattern in _STATISTICS if re.search(pattern, bare)), None)
    if kind is None and statistic and factor == 1e-3 and not re.search(r"ttst|second token", words):
        kind = "latency"
    if kind and timed and not re.search(r"ttst|second token", words):
        return (f"{kind}_{statistic}_s" if statistic else f"{kind}_s"), factor
    return "", 1.0


_METRICS = ("input_tokens_per_s", "requests_per_s", "output_tokens_per_s", "throughput_per_s", "decode_tokens", "user_tokens")


def _figures(table: Table) -> list[str]:
    return [name for name in table.header if (what := column(name)[0]) in _METRICS or what.endswith("_s")]


def recognise(head: bytes, name: str) -> Optional[str]:
    text = head.decode("utf-8", "replace")
    if text.lstrip()[:1] in "{[<":
        return None
    return "table" if any(_figures(table) and table.rows for table in _tables(text)) else None


def certain(head: bytes) -> bool:
    """Does a Markdown or console table with both a duration and a rate say that this is a benchmark, whatever stands around it?"""
    for table in bar_tables(head.decode("utf-8", "replace")):
        kinds = [column(name)[0] for name in table.header]
        if table.rows and any(kind.endswith("_s") and "_per_" not in kind for kind in kinds) and any("_per_s" in kind for kind in kinds):
            return True
    return False


def _tables(text: str) -> list[Table]:
    found = bar_tables(text)
    if found:
        return found
    line = text.lstrip().split("\n", 1)[0]
    return csv_tables(text) if re.search(r"[,;\t]", line) and len(line) < 4000 else []


def read(document: Document, format: str) -> list[Reading]:
    preamble = _preamble(document.text)
    readings: list[Reading] = []
    for place, table in enumerate(table for table in _tables(document.text) if _figures(table)):
        rows = [_row(table, row, preamble) for row in table.rows]
        for name in table.duplicated:
            rows[0].fault("duplicate_column", f"two columns are named {name!r}; the first is used", "rename one")
        if table.cut and rows:
            rows[-1].fault("cut_off", f"the last row is cut off: {table.cut[:60]}", "copy the whole file again")
        for note in table.notes:
            rows[0].fault("duplicate_column", note)
        for reading in rows:
            reading.facts["table"] = table.title or str(place + 1)
        _sweep(rows)
        _users(rows, table)
        readings += rows
    readings += _beside(document.text, preamble)
    if not readings:
        raise BadRecord("no row with figures in the table", document.name)
    _tables_differ(readings, document.text)
    _compile_times(readings, document.text)
    return readings


def _preamble(text: str) -> dict[str, Any]:
    """What the prose around the tables says about all of them."""
    found: dict[str, Any] = {}
    for name, pattern in (
        ("sequence_length", r"(?:Input Sequence Length|ISL)\)?\s*(?:\(ISL\)\s*)?[:=]?\s*(\d+)"),
        ("output_length", r"(?:Output Sequence Length|OSL)\)?\s*(?:\(OSL\)\s*)?[:=]?\s*(\d+)"),
        ("concurrency", r"--concurrency[ =](\d+)"),
        ("requests", r"\b(\d[\d,]*) requests\b"),
    ):
        if match := re.search(pattern, text.split("\n|", 1)[0]):
            found[name] = number(match.group(1))
    if match := re.search(r"instance-type:\s*(\S+)", text):
        found["instance_type"] = match.group(1)
    if match := re.search(r"torch-neuronx:\s*(\S+)", text):
        found["software"] = f"torch-neuronx {match.group(1)}"
    if match := re.search(r"\b(AIPerf|aiperf|vLLM|GuideLLM|LLMPerf)\b(?: (\d+\.\d+\.\d+))?", text):
        found["tool"], found["tool_version"] = match.group(1), match.group(2)
    found["no_warmup"] = bool(re.search(r"--warmup-request-count[ =]0\b", text))
    return found


def _row(table: Table, row: dict[str, str], preamble: dict[str, Any]) -> Reading:
    reading = Reading("table", tool=preamble.get("tool"), tool_version=preamble.get("tool_version"))
    labels, user, decode, starred, odd, found = [], None, None, [], [], {}
    for name, cell in row.items():
        what, factor = column(name)
        if what.startswith("itl_") and "aiperf" in str(reading.tool).lower():
            what = what.replace("itl_", "tpot_")  # a mean per request in this tool
        value = table.number(row, name)
        odd_kind = marked(cell)
        if what and what not in ("model", "instance_type", "precision") and odd_kind:
            odd.append((name, cell, odd_kind))
        if what == "model":
            reading.model = cell or None
        elif what == "instance_type":
            reading.instance_type = cell.strip().lower().removeprefix("ml.") or None
        elif what == "precision":
            reading.set("precision", {"float16": "fp16", "bfloat16": "bf16", "float32": "fp32"}.get(cell.lower(), cell.lower()))
        elif what in _SETTINGS:
            found[what] = value
        elif what in ("user_tokens", "device_tokens", "decode_tokens", "total_tokens"):
            if value is not None:
                reading.printed[name] = f"{value:g} tokens/s"
                user = value if what == "user_tokens" and user is None else user
                decode = value if what == "decode_tokens" else decode
        elif what and value is not None:
            if odd_kind == "starred":
                starred.append(name)
            if what.endswith("_s") and what.count("_") == 1 and what not in reading.values:
                what = what.replace("_s", "_mean_s")
                reading.facts.setdefault("statistic", "not named in the header; taken as the mean")
            if what in reading.values:
                continue
            reading.values[what] = value * factor
        elif not what and cell and not re.search(r"<\w+", cell):
            labels.append(cell if number(cell) is None else f"{name} {cell}")
    _settings(reading, found, preamble, table)
    reading.label = " ".join([*labels[:4], *(f"{key} {value:g}" for key, value in found.items() if value is not None)])[:160] or "row"
    if labels:
        reading.facts["row"] = " ".join(labels[:2])
    _odd(reading, odd, row)
    if starred:
        because = f"{', '.join(starred)} carry a star: the source calls them contaminated by stalls"
        reading.fault("contaminated", because, "do not use this throughput; take a row without a star")
        for name in ("output_tokens_per_s", "throughput_per_s"):
            if name in reading.values:
                reading.printed[name.removesuffix("_per_s")] = f"{reading.values.pop(name):g} a second, starred"
    if decode and user and reading.concurrency and abs(decode / (user * reading.concurrency) - 1) < 0.02:
        _derived(reading, decode, user)
    if "ttft_mean_s" not in reading.values and not any(
        name.startswith(("output_tok", "input_tok", "ttft", "tpot", "itl")) for name in reading.values
    ):
        reading.result_unit, reading.latency_of = "inference", "batch"
    if "input_tokens_per_s" in reading.values and not {"output_tokens_per_s", "requests_per_s"} & set(reading.values):
        reading.fault("not_in_file", "prefill only: no output tokens, no latency, and the batch is not stated", "measure generation as well")
    return examine(reading, serving=bool(reading.concurrency))


def _settings(reading: Reading, found: dict[str, Any], preamble: dict[str, Any], table: Table) -> None:
    reading.set("batch_size", whole(found.get("batch_size")))
    reading.set("tp_degree", whole(found.get("tp_degree")))
    reading.set("sequence_length", whole(found.get("sequence_length") or preamble.get("sequence_length")))
    reading.concurrency = found.get("concurrency") or (number(match.group(1)) if (match := re.search(r"\bc=(\d+)\)", table.title)) else None)
    if "concurrency" not in found and reading.concurrency is None:
        reading.concurrency = preamble.get("concurrency")
    own_count = any(column(name)[0] == "requests" for name in table.header)
    reading.completed = whole(found.get("requests")) if own_count else whole(preamble.get("requests"))
    expected = found.get("output_length") or preamble.get("output_length")
    reading.expected_output_tokens = expected
    requests, tokens = reading.values.get("requests_per_s"), reading.values.get("output_tokens_per_s")
    if requests and tokens:
        reading.output_tokens = tokens / requests
    elif expected:
        reading.set("output_length", whole(expected))
        if requests:
            reading.output_tokens = expected
    if found.get("sequence_length"):
        reading.input_tokens = found["sequence_length"]
    gpus = found.get("gpus") or (number(match.group(1)) if (match := re.search(r"(\d+) GPUs", table.title)) else None)
    if gpus:
        reading.facts["accelerators"] = f"{gpus:g}"
        reading.set("accelerators_used", whole(gpus))
        if tokens:
            reading.printed["per accelerator"] = f"{tokens / gpus:.4g} tokens/s"
    reading.instance_type = reading.instance_type or preamble.get("instance_type")
    reading.set("software", preamble.get("software"))
    if found.get("duration") and not requests:
        reading.duration_s = found["duration"]


def _odd(reading: Reading, odd: list[tuple[str, str, str]], row: dict[str, str]) -> None:
    words = " ".join(str(cell) for cell in row.values()).lower()
    for name, cell, kind in odd:
        if kind == "failed":
            note = next((text for text in row.values() if len(text) > 12 and text != cell and number(text) is None and " " in text), "")
            because = f"{name} is {cell}{': ' + note if note else ''}: the run failed, which is a result about feasibility, not a zero"
            reading.fault("run_failed", because, "neuronfit diagnose on its log; a ratio to this row is undefined")
            reading.refused = f"the run failed ({cell})"
        elif kind == "approximate":
            reading.fault("approximate_value", f"{name} is {cell!r}: an estimate, no measurement", "measure it")
            reading.refused = "the figure is an estimate"
        elif kind == "placeholder":
            reading.fault("placeholder", f"{name} is {cell!r}: a template, not a result")
            reading.refused = "a template with placeholders"
        elif kind == "two values":
            reading.fault("ambiguous_cell", f"{name} is {cell!r}: two values in one cell", "the notes may say which one")
    if re.search(r"\bestimated?\b", words) and not reading.refused:
        reading.fault("approximate_value", "the row calls itself estimated", "measure it")
        reading.refused = "the figure is an estimate"


def _derived(reading: Reading, decode: float, user: float) -> None:
    rate, tokens = reading.values.get("requests_per_s"), reading.expected_output_tokens
    because = f"{decode:g} tokens/s is the rate per user, {user:g}, times {reading.concurrency:g}: derived, not counted"
    if rate and tokens:
        truth = rate * tokens
        reading.values["output_tokens_per_s"] = truth
        because += f"; {rate:g} requests/s x {tokens:g} tokens are {truth:.4g}, so it overstates {decode / truth:.3g} times (the wait for the first token is left out)"
    reading.fault("derived_column", because, "use requests/s x output tokens for cost")


def _sweep(rows: list[Reading]) -> None:
    """Where throughput stops rising: the least batch or concurrency within three percent of the most."""
    for name, pick in (("batch", lambda row: row.settings.get("batch_size")), ("concurrency", lambda row: row.concurrency)):
        known = [row for row in rows if pick(row) and row.values.get("throughput_per_s") and not row.refused]
        if len(known) < 3 or len({pick(row) for row in known}) < len(known):
            continue
        top = max(known, key=lambda row: row.values["throughput_per_s"])
        near = min((row for row in known if row.values["throughput_per_s"] >= 0.97 * top.values["throughput_per_s"]), key=pick)
        last = max(known, key=pick)
        if near is last:
            near.fault("operating_point", f"throughput still rises at {name} {pick(last):g}, the largest of the table: no saturation is seen")
            return
        more = last.values["throughput_per_s"] / near.values["throughput_per_s"] - 1
        times = ""
        if "latency_mean_s" in near.values and "latency_mean_s" in last.values:
            times = f" has {last.values['latency_mean_s'] / near.values['latency_mean_s']:.2g} times the latency for {100 * more:.2g} % more"
        near.fault(
            "operating_point", f"throughput saturates at {name} {pick(near):g} ({near.values['throughput_per_s']:g}/s); {name} {pick(last):g}{times}"
        )
        return


def _users(rows: list[Reading], table: Table) -> None:
    """Throughput in proportion to the users, whatever else changes: the client is the limit."""
    if not any(column(name)[0] == "users" for name in table.header):
        return
    pairs = []
    for row, cells in zip(rows, table.rows):
        users = next((table.number(cells, name) for name in table.header if column(name)[0] == "users"), None)
        if users and row.values.get("requests_per_s"):
            pairs.append((users, row.values["requests_per_s"]))
    ratios = [rate / users for users, rate in pairs]
    if len({users for users, _ in pairs}) < 2 or not ratios or max(ratios) > 1.1 * min(ratios):
        return
    wait = sum(users for users, _ in pairs) / sum(rate for _, rate in pairs)
    because = f"requests/s are users / {wait:.3g} s in every row, whatever the workers: the users are the limit, not the system"
    for row in rows:
        row.fault("users_are_the_limit", because, "no capacity can be read from it: measure with more users, or an open loop")
        row.refused = "the client was the limit; it says nothing about the system"


def _tables_differ(readings: list[Reading], text: str) -> None:
    """Tables of one page with other warm-up or concurrency: not to be mixed."""
    groups: dict[str, list[Reading]] = {}
    for reading in readings:
        groups.setdefault(reading.facts.get("table", ""), []).append(reading)
    if len(groups) < 2:
        return
    highest = max((reading.concurrency or 0 for reading in readings), default=0)
    unwarmed = _preamble(text)["no_warmup"]
    for rows in groups.values():
        fixed = {row.concurrency for row in rows}
        if len(fixed) == 1 and len(rows) > 2 and (only := fixed.pop()) and only < highest:
            for row in rows:
                row.fault(
                    "latency_bound",
                    f"every row has concurrency {only:g}, other tables go up to {highest:g}: latency-bound, no throughput result",
                    "take the throughput from the sweep",
                )
                if unwarmed:
                    because = "this table was taken without warm-up requests, the sweeps of the page with them: compare within a table only, and at the same number of accelerators"
                    row.fault("rows_differ", because)


def _beside(text: str, preamble: dict[str, Any]) -> list[Reading]:
    """Results printed as lines under a heading: ``Latency  mean: 22.84 ms  p95: 22.94 ms`` and ``Throughput: 175.2 windows/sec``."""
    found = []
    for match in re.finditer(r"=+ *([^=\n]+?) *=+\n((?:(?!===).*\n?)*)", text):
        title, body = match.groups()
        rate = re.search(r"Throughput:\s*([\d.,]+)\s*(\w+)/s", body)
        latency = re.search(r"Latency\s+(.*)", body)
        if not rate or not latency:
            continue
        reading = Reading(
            "table", tool=preamble.get("tool"), label=title, result_unit="inference", latency_of="batch", instance_type=preamble.get("instance_type")
        )
        reading.give("throughput_per_s", number(rate.group(1)))
        for statistic, value, unit in re.findall(r"(mean|p50|p90|p95|p99):\s*([\d.,]+)\s*(ms|s)\b", latency.group(1)):
            reading.give(f"latency_{statistic}_s", number(value), 1e-3 if unit == "ms" else 1.0)
        if shape := re.search(r"input shape: torch\.Size\(\[(\d+)", text):
            reading.set("batch_size", int(shape.group(1)))
            reading.fault("rows_differ", f"the latency is of a batch of {shape.group(1)} over several cores: do not compare it with batch 1")
        if cores := re.search(r"\((\d+) cores\)", title):
            reading.facts["cores"] = cores.group(1)
        if speedup := re.search(r"Speedup:\s*([\d.]+)x", text):
            reading.fault("operating_point", f"{reading.values['throughput_per_s']:g}/s over all cores, {speedup.group(1)} times one core")
        reading.set("software", preamble.get("software"))
        found.append(examine(reading, serving=False))
    return found


def _compile_times(readings: list[Reading], text: str) -> None:
    for batch, seconds in re.findall(r"BS=(\d+): Compiling[^\n]*\n(?:Compiler status PASS\n)?(\d+)s,", text):
        for reading in readings:
            if reading.settings.get("batch_size") == int(batch) and not reading.facts.get("cores"):
                reading.give("compile_s", float(seconds))
