"""Files that hold no benchmark result: named for what they seem to be, with the command that takes them.

Also the neighbours of results: predictions against measurements, compile statistics of a graph, and the
description of an experiment, whose figures are shown and not adopted.
"""

from __future__ import annotations

import csv
import io
import re
from typing import Any, Optional

from neuronfit.adopt.document import Document, number, whole
from neuronfit.adopt.reading import Reading
from neuronfit.errors import BadRecord
from neuronfit.traffic.layout import recognise as traffic

__all__ = ["FORMATS", "binary", "named", "read", "recognise"]

FORMATS = {
    "predictions": "predicted against measured figures, JSON lines",
    "graph_statistics": "compile statistics of torch-neuronx graphs, CSV (no figures)",
    "experiment_description": "description of an experiment, such as genai-bench's metadata, JSON (no figures)",
}

_BINARY = (
    (b"PK\x03\x04", "a zip archive", "unpack it and adopt the file inside"),
    (b"PAR1", "a Parquet file", "neuronfit traffic FILE, if it is traffic"),
    (b"%PDF", "a PDF document", "copy the table into a CSV file"),
    (b"\x89PNG", "an image", "adopt the numbers behind the figure"),
    (b"SQLite format 3", "a database", "export the table as CSV"),
    (b"\x7fELF", "a program", "name a result file"),
)

_KINDS = (
    (r"^version https://git-lfs", "a Git LFS pointer, not the file itself", "git lfs pull, then again"),
    (r"(?i)^\s*<(!doctype|html)", "an HTML page", "save its table as CSV or Markdown"),
    (r'^\s*\{[^{]*"cells"\s*:|"nbformat"', "a notebook", "save the printed table as text"),
    (r'"(architectures|model_type)"\s*:.*"(hidden_size|num_hidden_layers|d_model|vocab_size)"', "a model's configuration", "neuronfit check FILE"),
    (
        r'"neuron_runtime_data"|neuroncore_utilization|DCGM_FI_|nvidia_smi_|<nvidia_smi_log',
        "a monitor's capture",
        "neuronfit adopt FILE --for TARGET --params PARAMS",
    ),
    (
        r"(?i)lineItem/|BilledCost|ChargePeriodStart|\"terms\"\s*:\s*\{|PricePerUnit|price_?per_?hour|RI-Effective|hourly rate|savings ?plan|DiscountedRate|SpotPrice|spot_advisor|UpfrontFee|UsageQuantity|usage ?type|\$/hr|COST ?\(\$\)|AcceleratorName.*Price|CostExplorer|pricing:|on[- ]?demand.*price",
        "a price list or a bill",
        "neuronfit prices show; own rates go into pricing.overrides",
    ),
    (
        r"(?i)neuronx-cc|neuron-cc|Compiler status|NEURON_CC|NCC_[A-Z0-9]+|\[NLA\d+\]|XTP\d{3}|INFO:Neuron|aten::|libwalrus|percent of .*operat|operations? compiled|percent_supported|supported_operators|too many instructions",
        "a compiler log",
        "neuronfit diagnose FILE",
    ),
    (r"(?i)nrt_|NRT[:_ ]|NERR_|neuron-rtd", "a runtime log", "neuronfit diagnose FILE"),
    (r"(?im)^\s*(workload|baseline|candidates)\s*:", "a params file", "neuronfit run FILE"),
    (
        r'(?i)^timestamp,?.*(ContextTokens|GeneratedTokens|Request tokens)|num_prefill_tokens|"?arrived_at"?|elb_status_code|" \d{3} \d+ "',
        "recorded traffic",
        "neuronfit traffic FILE",
    ),
    (r"(?m)^Traceback \(most recent call last\)", "an error message", "find out why the benchmark failed and run it again"),
)


def binary(data: bytes) -> Optional[tuple[str, str]]:
    """What a file is that is not text, and what to do: by its first bytes."""
    return next(((what, advice) for magic, what, advice in _BINARY if data.startswith(magic)), None)


def named(head: bytes, name: str) -> Optional[tuple[str, str]]:
    """What a text file without results seems to be, and the command that takes it; ``None`` where nothing is recognised."""
    text = head.decode("utf-8", "replace")
    known = next(((what, advice) for pattern, what, advice in _KINDS if re.search(pattern, text[:20000], re.DOTALL)), None)
    if known is None and text.lstrip()[:1] not in "{[" and (found := traffic(head, name)) is not None:
        return f"recorded traffic ({found})", "neuronfit traffic FILE"
    return known


def recognise(head: bytes, name: str) -> Optional[str]:
    text = head.decode("utf-8", "replace")
    bare = text.lstrip()
    first = bare.split("\n", 1)[0]
    if bare.startswith("{") and '"predicted"' in first and '"measured"' in first:
        return "predictions"
    if "graph_id" in first and "torch_neuronx_compile_us" in first:
        return "graph_statistics"
    if bare.startswith("{") and '"traffic_scenario"' in text and '"num_concurrency"' in text:
        return "experiment_description"
    return None


def read(document: Document, format: str) -> list[Reading]:
    return {"predictions": _predictions, "graph_statistics": _graphs, "experiment_description": _experiment}[format](document)


_METRICS = {
    "itl": "itl_mean_s",
    "tpot": "tpot_mean_s",
    "ttft": "ttft_mean_s",
    "latency": "latency_mean_s",
    "req_s": "requests_per_s",
    "tok_s": "output_tokens_per_s",
}


def _predictions(document: Document) -> list[Reading]:
    readings = []
    for line, row in document.lines:
        if not isinstance(row, dict) or "measured" not in row:
            raise BadRecord(f"line {line} has no measured value", document.name)
        name, measured, predicted = str(row.get("metric") or ""), number(row.get("measured")), number(row.get("predicted"))
        reading = Reading(
            "predictions", label=f"{row.get('model')} {name}", model=row.get("model"), instance_type=str(row.get("instance") or "").lower() or None
        )
        key = next((target for word, target in _METRICS.items() if word in name), None)
        if key and measured is not None:
            reading.values[key] = measured * (1e-3 if name.endswith("_ms") else 1.0)
        reading.set("sequence_length", whole(row.get("isl")))
        reading.set("output_length", whole(row.get("osl")))
        if predicted is None:
            reading.fault("not_in_file", f"{name}: predicted is null, so there is no prediction error")
        elif measured:
            reading.facts["prediction error"] = f"{100 * (predicted / measured - 1):+.1f} %"
            reading.printed["predicted"] = f"{predicted:g}"
            reading.fault(
                "declared_by_user",
                f"{name}: predicted {predicted:g}, measured {measured:g}, {100 * (predicted / measured - 1):+.1f} %; the prediction is not adopted",
            )
        source = str(row.get("source") or "")
        reading.facts["source"] = source
        if used := re.search(r"(\d+) (?:GPU|accelerator|chip)", source):
            reading.facts["accelerators used"] = used.group(1)
        if key == "requests_per_s":
            reading.result_unit = "sequence"
            because = "how many of the instance's accelerators were used is only in free text"
            if used:
                because = f"only {used.group(1)} accelerators of {reading.instance_type} were used, says the free text"
            reading.fault(
                "part_of_instance",
                f"{because}: a cost at the price of the whole instance may be too high",
                "say who pays for the others, with --instance-type and --tp-degree",
            )
        readings.append(reading)
    if document.last_line_cut and readings:
        readings[-1].fault("cut_off", "the last line is cut off and left out", "copy the whole file again")
    return readings


def _graphs(document: Document) -> list[Reading]:
    rows = list(csv.DictReader(io.StringIO(document.text)))
    reading = Reading("graph_statistics", tool="torch-neuronx", label="compiled graphs")
    total, done, failed = 0.0, 0, []
    for place, row in enumerate(rows, 1):
        compile_s = (number(row.get("torch_neuronx_compile_us")) or 0.0) * 1e-6
        name = row.get("graph_name") or f"graph {place}"
        if compile_s > 0:
            done, total = done + 1, total + compile_s
            reading.facts[name] = f"{compile_s:.1f} s"
        else:
            failed.append(name)
            reading.facts[name] = "no compile time"
    if done:
        reading.values["compile_s"] = total
    reading.fault(
        "another_sort", f"{done} graphs compiled in {total:.1f} s together (microseconds in the file); compile times are no speed of inference"
    )
    if failed:
        reading.fault("run_failed", f"{', '.join(failed)}: compile time 0 is a failure, not an instant", "neuronfit diagnose on the log of the run")
    reading.refused = "compile times, no inference"
    reading.instead = "neuronfit run --steps 3, or neuronfit diagnose on the log"
    return [reading]


def _experiment(document: Document) -> list[Reading]:
    data: dict[str, Any] = document.json
    reading = Reading("experiment_description", tool="genai-bench", label="metadata", model=data.get("model"))
    command = str(data.get("cmd") or "")
    declared = {
        name: data[name]
        for name in ("server_engine", "server_version", "server_gpu_type", "server_gpu_count", "num_concurrency", "batch_size", "traffic_scenario")
        if data.get(name) not in (None, "")
    }
    count = whole(data.get("server_gpu_count"))
    if count is not None:
        declared["server_gpu_count"] = count
    for name, value in declared.items():
        reading.facts[name.replace("_", " ")] = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
    reading.fault("declared_by_user", "engine, version, GPU type and count are what the user typed, not what was found")
    names = [name for name in (data.get("api_model_name"), data.get("model"), data.get("server_model_tokenizer")) if name]
    plain = {re.sub(r"^.*/", "", str(name)).lower().removesuffix("-instruct") for name in names}
    if len(plain) > 1:
        reading.fault("names_disagree", f"the model is called {', '.join(map(str, names))}", "find out which one was served")
    ports = set(re.findall(r"localhost:(\d+)", command)) | set(re.findall(r"localhost:(\d+)", str(data.get("auth_config") or "")))
    if len(ports) > 1:
        reading.fault("names_disagree", f"the command and the settings name different ports: {', '.join(sorted(ports))}")
    reading.fault("another_sort", "the description of an experiment, without figures")
    reading.refused = "it describes an experiment and has no figures"
    reading.instead = "neuronfit adopt on the result files beside it"
    return [reading]
