"""`vllm bench serve | latency | throughput` and SGLang's `bench_serving`: JSON, console text, and logs that hold them.

vLLM writes milliseconds under names that end in ``_ms`` and seconds in lists; tools that copied the
layout write seconds under the bare name. TPOT leaves the first token out; ITL is the gap between
chunks. Latency starts at sending: what waited in the client for ``--max-concurrency`` is not in it.
(vllm/benchmarks/serve.py; sglang/bench_serving.py.)
"""

from __future__ import annotations

import json
import re
from typing import Any, Optional

from neuronfit.adopt.document import Document, marked, number, whole
from neuronfit.adopt.reading import DISTRIBUTIONS, Reading, Sample
from neuronfit.adopt.rules import examine
from neuronfit.errors import BadRecord

__all__ = ["FORMATS", "read", "recognise"]

FORMATS = {
    "vllm_serve": "vLLM or SGLang serving benchmark, JSON",
    "vllm_text": "vLLM or SGLang serving benchmark, console text or job log",
    "vllm_latency": "vllm bench latency, JSON",
    "vllm_throughput": "vllm bench throughput, JSON",
}

_NAMES = {"e2el": "latency", "e2e_latency": "latency", "e2e": "latency", "latency": "latency", "ttft": "ttft", "tpot": "tpot", "itl": "itl"}
_KEY = re.compile(r"^(mean|median|std|min|max|p\d+(?:\.\d+)?)_(e2el|e2e_latency|latency|ttft|tpot|itl)(_ms|_s)?$")
_TEXT_KEY = re.compile(r"^(Mean|Median|Std|Min|Max|P\d+(?:\.\d+)?) (E2EL|E2E Latency|TTFT|TPOT|ITL) \((ms|s)\)$", re.IGNORECASE)


def recognise(head: bytes, name: str) -> Optional[str]:
    text = head.decode("utf-8", "replace")
    if "Serving Benchmark Result" in text:
        return "vllm_text"
    start = text.lstrip()[:1]
    if start not in ("{", "["):
        return None
    if '"request_throughput"' in text and re.search(r'"(median|mean|p99)_(ttft|e2el|e2e_latency|tpot)', text):
        return "vllm_serve"
    if '"output_throughput"' in text and '"request_throughput"' in text:
        return "vllm_serve"
    if '"tput_per_gpu"' in text and re.search(r'"(median|mean|p99)_(ttft|tpot)', text):
        return "vllm_serve"
    if '"avg_latency"' in text and '"percentiles"' in text:
        return "vllm_latency"
    if '"tokens_per_second"' in text and '"requests_per_second"' in text and '"elapsed_time"' in text:
        return "vllm_throughput"
    return None


def read(document: Document, format: str) -> list[Reading]:
    if format == "vllm_text":
        return _text(document)
    found = _objects(document)
    make = {"vllm_serve": _serve, "vllm_latency": _latency, "vllm_throughput": _throughput}[format]
    rows = [make(entry) for entry in found if isinstance(entry, dict)]
    if not rows:
        raise BadRecord("no result object in the file", document.name, allowed="an object with request_throughput")
    return rows


_UNLIMITED = re.compile(r'"(?:request_rate|max_concurrency)"\s*:\s*Infinity')
"""An unlimited rate is a setting, no missing value."""


def _objects(document: Document) -> list[Any]:
    """One object, a list of them, or an object a line: SGLang's ``--output-file`` and vLLM's ``--append-result`` add a line per run."""
    rows = [line for line in document.text.split("\n") if line.strip()]
    if len(rows) > 1 and all(row.lstrip().startswith("{") for row in rows[:2]) and rows[0].rstrip().endswith("}"):
        found = [entry for _, entry in document.lines]
        document.not_numbers -= len(_UNLIMITED.findall(document.text))
        return found
    data = document.json
    document.not_numbers -= len(_UNLIMITED.findall(document.text))
    return data if isinstance(data, list) else [data]


# -- JSON of the serving benchmark --------------------------------------------------------------


def _serve(data: dict[str, Any], namespace: Optional[dict[str, str]] = None) -> Reading:
    data = {str(key).rstrip(":"): value for key, value in data.items()}  # one version writes "request_goodput:"
    sglang = str(data.get("backend", "")).startswith(("sglang", "sgl")) or "mean_e2e_latency_ms" in data or "total_throughput" in data
    reading = Reading(
        "vllm_serve", tool="SGLang bench_serving" if sglang else "vllm bench serve", model=_said(data.get("model_id") or data.get("model"))
    )
    units = _durations(reading, data)
    _common(reading, data)
    namespace = namespace or {}
    reading.asked = whole(data.get("num_prompts")) or whole(namespace.get("num_prompts"))
    reading.failed = whole(data.get("failed"))
    rate = data.get("request_rate")
    reading.request_rate = None if str(rate).lower() in ("inf", "infinity", "none") else number(rate)
    reading.concurrency = number(data.get("max_concurrency"))
    reading.extremes.update(_known(total_tokens_per_s=number(data.get("total_token_throughput") or data.get("total_throughput"))))
    reading.extremes.update(_known(good_requests_per_s=number(data.get("request_goodput"))))
    if reading.extremes.get("good_requests_per_s") == number(data.get("request_throughput")):
        reading.extremes.pop("good_requests_per_s", None)  # written as the throughput when no objective was given
    _peaks(reading, number(data.get("max_output_tokens_per_s")), number(data.get("max_concurrent_requests")))
    claimed = number(data.get("output_len") or data.get("random_output_len"))
    if claimed is None:
        claimed = number(namespace.get("random_output_len"))
    reading.expected_output_tokens = claimed
    _metadata(reading, data)
    if "e2el_including_client_queue" in " ".join(data) or "client_queue_time" in " ".join(data):
        _queued(reading, data)
    reading.definitions["latency_from"] = "send"
    reading.definitions["tpot"] = "without the first token: (latency - TTFT) / (tokens - 1)"
    reading.definitions["itl"] = "gap between chunks"
    if units == {"s"}:
        reading.fault("unit_not_stated", "durations have no _ms suffix and are read as seconds (this layout elsewhere writes milliseconds)")
        reading.facts["durations in the file"] = "seconds"
    _details(reading, data)
    _per_accelerator(reading, data)
    if reading.concurrency and "latency_mean_s" not in reading.values and not reading.samples and "latency_p50_s" not in reading.values:
        reading.fault("queueing_excluded", "the latency starts at sending; waiting for a free slot in the client is not in it")
    if (tp := re.search(r"(?:^|_)tp(\d+)", str(data.get("label") or data.get("result_filename") or ""))) is not None:
        reading.set("tp_degree", int(tp.group(1)))
    return examine(reading)


def _durations(reading: Reading, data: dict[str, Any]) -> set[str]:
    units = set()
    for key, value in data.items():
        match = _KEY.match(key)
        given = number(value) if match else None
        if match is None or given is None:
            continue
        statistic, kind, unit = match.groups()
        factor = 1e-3 if unit == "_ms" else 1.0
        units.add("ms" if unit == "_ms" else "s")
        _store(reading, statistic, _NAMES[kind], given * factor)
    return units


def _store(reading: Reading, statistic: str, kind: str, seconds: float) -> None:
    statistic = {"median": "p50", "p50.0": "p50", "p99.0": "p99"}.get(statistic.lower(), statistic.lower())
    name = f"{kind}_{statistic}_s"
    if kind in DISTRIBUTIONS and statistic in ("mean", "p50", "p90", "p95", "p99"):
        reading.values[name] = seconds
    else:
        reading.extremes[name] = seconds


def _common(reading: Reading, data: dict[str, Any]) -> None:
    reading.duration_s = number(data.get("duration"))
    reading.completed = whole(data.get("completed"))
    done = reading.completed
    inputs, outputs = number(data.get("total_input_tokens")), number(data.get("total_output_tokens"))
    if done:
        reading.input_tokens = inputs / done if inputs else None
        reading.output_tokens = outputs / done if outputs else None
    reading.give("requests_per_s", number(data.get("request_throughput")))
    reading.give("output_tokens_per_s", number(data.get("output_throughput")))
    reading.give("input_tokens_per_s", number(data.get("input_throughput")))
    if "total_input_sequences" in data or "input_sequence_throughput" in data:
        reading.result_unit = "inference"
        reading.give("throughput_per_s", number(data.get("input_sequence_throughput")))


def _per_accelerator(reading: Reading, data: dict[str, Any]) -> None:
    """Aggregates that print tokens/s per accelerator (``tput_per_gpu``): times the number of them is the server's throughput."""
    each, count = number(data.get("output_tput_per_gpu")), whole(data.get("tp") or data.get("num_gpus"))
    if number(data.get("tput_per_gpu")) is None:
        return
    reading.concurrency = reading.concurrency or number(data.get("conc"))
    reading.set("tp_degree", count)
    reading.set("precision", {"float16": "fp16", "bfloat16": "bf16"}.get(str(data.get("precision")), data.get("precision")))
    reading.facts.update({name: str(data[name]) for name in ("hw", "framework", "isl", "osl") if data.get(name) not in (None, "")})
    reading.printed["tokens per accelerator, input and output"] = f"{data['tput_per_gpu']:g} tokens/s"
    if each and count and "output_tokens_per_s" not in reading.values:
        reading.values["output_tokens_per_s"] = each * count
        reading.fault(
            "peak_not_throughput", f"{each:.4g} output tokens/s per accelerator x {count} = {each * count:.5g}: the file prints per accelerator"
        )


def _peaks(reading: Reading, tokens: Optional[float], requests: Optional[float]) -> None:
    if tokens:
        reading.printed["peak output tokens"] = f"{tokens:g} tokens/s"
        average = reading.values.get("output_tokens_per_s")
        beside = f", the run's own is {average:.4g}/s" if average else ""
        reading.fault("peak_not_throughput", f"{tokens:g} tokens/s is the peak of one second{beside}; it is not the throughput")
    if requests:
        reading.printed["peak requests in flight"] = f"{requests:g}"
        if reading.concurrency and requests > reading.concurrency:
            reading.fault(
                "peak_not_throughput",
                f"peak requests in flight {requests:g} is above the limit of {reading.concurrency:g}: counted per second, not at a moment",
            )


_KNOWN = re.compile(
    r"^(date|endpoint_type|backend|dataset_name|label|model_id|tokenizer_id|num_prompts|request_rate|burstiness|max_concurrency|duration|completed|failed|good_completed|"
    r"total_.*|request_.*|output_throughput|input_throughput|.*_ms|max_output.*|max_concurrent.*|rtfx|(mean|median|std|p\d+)_.*|"
    r"input_lens|output_lens|ttfts|itls|latencies|start_times|queue_times|generated_texts|errors|probe_.*|rps_change_events|spec_decode.*|concurrency)$"
)


def _metadata(reading: Reading, data: dict[str, Any]) -> None:
    """What the user wrote with ``--metadata``: text, not measured."""
    added = {key: str(value) for key, value in data.items() if not _KNOWN.match(key) and isinstance(value, (str, int, float)) and value != ""}
    for key in ("backend", "label", "tokenizer_id", "date", "burstiness"):
        if data.get(key) not in (None, ""):
            reading.facts[key] = str(data[key])
    if added:
        text = ", ".join(f"{key}={value}" for key, value in sorted(added.items()))
        reading.fault("declared_by_user", f"written by whoever ran it, not measured: {text}")
        reading.facts.update({f"declared {key}": value for key, value in added.items()})
        reading.set("tp_degree", whole(added.get("tp") or added.get("tensor_parallel_size")))


def _queued(reading: Reading, data: dict[str, Any]) -> None:
    """Newer versions add the time that a request waited in the client; that latency is the one users feel."""
    for key, value in data.items():
        match = re.match(r"^(mean|median|p\d+)_e2el_including_client_queue_ms$", key)
        given = number(value) if match else None
        if match and given is not None:
            reading.printed[f"latency from schedule, {match.group(1)}"] = f"{given:g} ms"


def _details(reading: Reading, data: dict[str, Any]) -> None:
    """``--save-detailed``: lists in seconds, one entry per request; failed ones have latency 0 or an error."""
    ttfts, outputs = data.get("ttfts"), data.get("output_lens")
    if not isinstance(ttfts, list) or not isinstance(outputs, list) or not ttfts:
        return
    count = len(ttfts)
    errors = data.get("errors") if isinstance(data.get("errors"), list) else [""] * count
    itls = data.get("itls") if isinstance(data.get("itls"), list) else [None] * count
    latencies = data.get("latencies") if isinstance(data.get("latencies"), list) else [None] * count
    starts = data.get("start_times") if isinstance(data.get("start_times"), list) else [None] * count
    inputs = data.get("input_lens") if isinstance(data.get("input_lens"), list) else [None] * count
    if not len(outputs) == len(errors) == len(itls) == len(latencies) == count:
        reading.fault("values_cut", "the detailed lists have different lengths and are not used")
        return
    samples, failed = [], []
    for place in range(count):
        first, gaps = number(ttfts[place]), itls[place]
        latency = number(latencies[place])
        if latency is None and first is not None and isinstance(gaps, list):
            latency = first + sum(number(gap) or 0.0 for gap in gaps)
        if errors[place] or not latency:
            failed.append(str(errors[place] or "no answer")[:120])
            continue
        samples.append(
            Sample(
                latency,
                first,
                whole(outputs[place]),
                whole(inputs[place]) if place < len(inputs) else None,
                number(starts[place]) if place < len(starts) else None,
            )
        )
    if samples:
        reading.samples, reading.errors = tuple(samples), tuple(failed)
        reading.completed = len(samples)
        reading.failed = len(failed) if reading.failed is None else reading.failed
        reading.asked = max(reading.asked or 0, count)


# -- console text -------------------------------------------------------------------------------

_LINES = {
    "successful requests": "completed",
    "failed requests": "failed",
    "benchmark duration (s)": "duration",
    "total input tokens": "total_input_tokens",
    "total generated tokens": "total_output_tokens",
    "total generated tokens (retokenized)": "retokenized",
    "request throughput (req/s)": "request_throughput",
    "request goodput (req/s)": "request_goodput",
    "input token throughput (tok/s)": "input_throughput",
    "output token throughput (tok/s)": "output_throughput",
    "peak output token throughput (tok/s)": "max_output_tokens_per_s",
    "peak concurrent requests": "max_concurrent_requests",
    "total token throughput (tok/s)": "total_token_throughput",
    "request rate configured (rps)": "request_rate",
    "traffic request rate": "request_rate",
    "maximum request concurrency": "max_concurrency",
    "max request concurrency": "max_concurrency",
    "concurrency": "concurrency",
    "backend": "backend",
}


def _text(document: Document) -> list[Reading]:
    text = document.text
    namespace = _namespace(text)
    block = text.split("Serving Benchmark Result")
    readings = []
    embedded = _embedded(document, text)
    before = block[0]
    for part in block[1:]:
        reading = _block(part, before, namespace)
        before = part
        readings.append(reading)
    if embedded and len(embedded) == len(readings):
        readings = [_serve(entry, namespace) for entry in embedded]
        for reading in readings:
            reading.format = "vllm_text"
            reading.facts["read from"] = "the JSON inside the log, which has more digits than the text"
    for reading in readings:
        _log(reading, text, namespace)
    return readings


def _block(part: str, before: str, namespace: dict[str, str]) -> Reading:
    data: dict[str, Any] = {}
    placeholders = []
    durations: list[tuple[str, str, float]] = []
    accuracy = None
    for line in [*before.split("\n")[-12:], *part.split("\n")]:
        name, sign, cell = line.partition(":")
        if not sign:
            continue
        name, cell = name.strip(), cell.strip()
        key = _LINES.get(name.lower())
        match = _TEXT_KEY.match(name)
        if (key or match) and marked(cell) == "placeholder":
            placeholders.append(name)
            continue
        if key:
            data[key] = cell if key in ("backend", "request_rate") else number(cell)
        elif match and (value := number(cell)) is not None:
            kind = _NAMES[match.group(2).lower().replace(" ", "_")]
            durations.append((match.group(1), kind, value * (1e-3 if match.group(3).lower() == "ms" else 1.0)))
        elif name.lower().startswith("accuracy"):
            accuracy = cell
    sglang = str(data.get("backend", "")).startswith("sgl") or "retokenized" in data
    reading = Reading("vllm_text", tool="SGLang bench_serving" if sglang else "vllm bench serve", model=namespace.get("model"))
    if placeholders:
        reading.fault("placeholder", f"{', '.join(placeholders[:3])}: the text has xxx instead of numbers", "this is a template, not a result")
        reading.refused = "a template with placeholders, not a result"
        return reading
    for statistic, kind, value in durations:
        _store(reading, statistic, kind, value)
    _common(reading, data)
    reading.failed = whole(data.get("failed"))
    reading.asked = whole(namespace.get("num_prompts"))
    rate = data.get("request_rate")
    reading.request_rate = None if rate is None or str(rate).lower() == "inf" else number(rate)
    reading.concurrency = number(data.get("max_concurrency")) or number(namespace.get("max_concurrency"))
    reading.extremes.update(_known(total_tokens_per_s=data.get("total_token_throughput"), good_requests_per_s=data.get("request_goodput")))
    _peaks(reading, data.get("max_output_tokens_per_s"), data.get("max_concurrent_requests"))
    if data.get("retokenized") and data.get("total_output_tokens"):
        said, again = data["total_output_tokens"], data["retokenized"]
        if said != again:
            reading.fault(
                "token_counts_disagree",
                f"{said:,.0f} output tokens by the server, {again:,.0f} retokenised by the client; the server's count is used",
            )
    if accuracy:
        reading.facts["accuracy"] = accuracy
    if namespace.get("random_output_len"):
        reading.expected_output_tokens = number(namespace["random_output_len"])
    reading.definitions.update(latency_from="send", tpot="without the first token", itl="gap between chunks")
    if data.get("backend"):
        reading.facts["backend"] = str(data["backend"])
    return examine(reading)


def _namespace(text: str) -> dict[str, str]:
    """The ``Namespace(...)`` line that the tool prints: what it really ran with."""
    match = re.search(r"Namespace\((.*)\)", text)
    if not match:
        return {}
    pairs = re.findall(r"(\w+)=('(?:[^'\\]|\\.)*'|[^,]+)", match.group(1))
    return {key: value.strip("'") for key, value in pairs if value != "None"}


def _embedded(document: Document, text: str) -> list[dict[str, Any]]:
    found = []
    for line in text.split("\n"):
        if line.startswith("{") and '"request_throughput"' in line:
            try:
                found.append(json.loads(line, parse_constant=document._constant))
            except ValueError:
                continue
    return found


def _log(reading: Reading, text: str, namespace: dict[str, str]) -> None:
    """What the lines around the result say: the environment that was asked for against what the tool ran with."""
    asked = re.search(r"IGNORE_EOS\s*=\s*(\w+)", text)
    if asked and namespace.get("ignore_eos") and asked.group(1).lower() != namespace["ignore_eos"].lower():
        because = f"IGNORE_EOS={asked.group(1)} was set in the environment, the tool ran with ignore_eos={namespace['ignore_eos']}, which counts"
        reading.fault("declared_contradicts_file", because, "pass --ignore-eos to the tool")
    if re.search(r"No platform detected|Platform plugin \w+ function's return value is None|libcuda\.so", text):
        reading.fault(
            "harmless_message",
            "warnings about a missing platform or libcuda are the client's: it needs no accelerator, and they say nothing about the server",
        )


# -- latency and throughput ---------------------------------------------------------------------


def _latency(data: dict[str, Any]) -> Reading:
    """``vllm bench latency --output-json``: seconds per batch, offline."""
    reading = Reading("vllm_latency", tool="vllm bench latency", result_unit="inference", latency_of="batch", scenario="offline")
    reading.give("latency_mean_s", number(data.get("avg_latency")))
    for key, value in (data.get("percentiles") or {}).items():
        if (given := number(value)) is not None:
            _store(reading, f"p{key}".replace(".0", ""), "latency", given)
    latencies = [given for entry in data.get("latencies") or [] if (given := number(entry)) is not None]
    reading.samples = tuple(Sample(value) for value in latencies)
    reading.duration_s = sum(latencies) or None
    reading.failed = 0
    for name in ("batch_size", "input_len", "output_len", "tensor_parallel_size"):
        if data.get(name) is not None:
            reading.set(
                {"input_len": "sequence_length", "output_len": "output_length", "tensor_parallel_size": "tp_degree"}.get(name, name),
                whole(data[name]),
            )
    reading.definitions["latency"] = "one whole batch, prefill and all output tokens"
    return examine(reading, serving=False)


def _throughput(data: dict[str, Any]) -> Reading:
    """``vllm bench throughput --output-json``: all requests at once; tokens are input and output together."""
    reading = Reading("vllm_throughput", tool="vllm bench throughput", scenario="offline")
    reading.duration_s = number(data.get("elapsed_time"))
    reading.completed = whole(data.get("num_requests"))
    reading.failed = 0 if reading.completed is not None else None
    reading.give("requests_per_s", number(data.get("requests_per_second")))
    total, tokens = number(data.get("tokens_per_second")), number(data.get("total_num_tokens"))
    if total:
        reading.printed["input and output tokens"] = f"{total:g} tokens/s"
        reading.fault("peak_not_throughput", f"{total:g} tokens/s counts input and output tokens together; the output's own is not in the file")
    if tokens and reading.completed:
        reading.facts["tokens per request, input and output"] = f"{tokens / reading.completed:g}"
    reading.result_unit = "sequence"
    return examine(reading, serving=False)


def _known(**values: Optional[float]) -> dict[str, float]:
    return {name: value for name, value in values.items() if value is not None}


def _said(value: Any) -> Optional[str]:
    return str(value) if value not in (None, "") else None
