"""The vendor's own CSV tables: Neuron documentation, encoders, decoders, vision, diffusion and training.

Milliseconds; throughput is of the whole instance. ``FP32`` with autocast ``Matmult-BF16`` multiplies
in bfloat16. The TTFT of a batch is that of all its prompts together. Figures of these tables that are
in the catalogue are adopted by step 4 itself, with grade published; a file is adopted as imported.
"""

from __future__ import annotations

import re
from typing import Optional

from neuronfit.adopt.document import Document, whole
from neuronfit.adopt.reading import Reading
from neuronfit.adopt.rules import examine
from neuronfit.adopt.tables import Table, csv_tables
from neuronfit.errors import BadRecord

__all__ = ["FORMATS", "read", "recognise"]

FORMATS = {
    "neuron_table": "Neuron documentation, published inference table, CSV",
    "neuron_training_table": "Neuron documentation, published training table, CSV",
}
_PRECISION = {"fp32": "fp32", "float32": "fp32", "fp16": "fp16", "bf16": "bf16", "bfloat16": "bf16", "int8": "int8"}
_ROUNDING = 0.08
"""Published throughput may exceed what the time per token allows by rounding and by its mean, not by more than this."""


def recognise(head: bytes, name: str) -> Optional[str]:
    line = head.decode("utf-8", "replace").lstrip().split("\n", 1)[0]
    if "Globalbatch" in line.replace(" ", "") and re.search(r"Performance ?\[?seq/sec", line):
        return "neuron_training_table"
    if (
        re.search(r"Inst\. Type|Instance[- ]Type", line)
        and re.search(r"Throughput ?\(|Latency P50", line)
        and ("Neuron Version" in line or "Neuron SDK" in line)
    ):
        return "neuron_table"
    return None


def read(document: Document, format: str) -> list[Reading]:
    tables = csv_tables(document.text)
    if not tables or not tables[0].rows:
        raise BadRecord("no row in the table", document.name)
    table = tables[0]
    if format == "neuron_training_table":
        return [_training(table, row) for row in table.rows]
    readings = [_row(table, row) for row in table.rows]
    if table.cut:
        readings[-1].fault("cut_off", "the last row of the file is cut off", "copy the whole file again")
    _outliers(readings)
    return readings


def _named(table: Table, row: dict[str, str], *parts: str) -> tuple[Optional[float], str]:
    """Value and column of the first header that holds all parts."""
    for name in table.header:
        if all(part.lower() in name.lower() for part in parts):
            return table.number(row, name), name
    return None, ""


def _row(table: Table, row: dict[str, str]) -> Reading:
    instance = row.get("Inst. Type") or row.get("Instance Type") or row.get("Instance-Type") or ""
    rate, column = _named(table, row, "throughput")
    tokens = "token" in column.lower()
    image = "Image Size" in row or "image" in row.get("Task", "").lower()
    reading = Reading("neuron_table", tool="Neuron documentation", tool_version=row.get("Neuron Version"), model=row.get("Model"))
    reading.label = f"{row.get('Model')} on {instance}, batch {row.get('Batch Size')}"
    reading.instance_type = instance.strip().lower() or None
    reading.result_unit = "token" if tokens else "image" if image else "inference"
    reading.latency_of = "batch"
    reading.scenario = {"real time": "single_stream", "batch": "offline"}.get(row.get("Application Type", "").lower(), "unknown")
    reading.give("throughput_per_s", rate)
    if tokens:
        reading.give("output_tokens_per_s", rate)
    for kind, words in (("ttft", ("TTFT",)), ("tpot", ("TPOT",)), ("latency", ("Latency",))):
        for quantile in ("P50", "P99"):
            value, name = _named(table, row, *words, quantile)
            if value is not None and (kind != "latency" or not re.search("TTFT|TPOT", name)):
                reading.give(f"{kind}_{quantile.lower()}_s", value, 1e-3 if "(ms)" in name else 1.0)
    batch = whole(row.get("Batch Size"))
    dtype, autocast = row.get("Model Data Type", ""), row.get("Compilation Autocast Data Type", "")
    reading.set("batch_size", batch)
    reading.set("sequence_length", whole(row.get("Sequence Length")))
    if (given := whole(row.get("Input Length"))) is not None:
        reading.input_tokens = float(given)
        reading.settings["sequence_length"] = given
        reading.facts["context length"] = row.get("Sequence Length", "")
    reading.set("output_length", whole(row.get("Output Length")))
    reading.output_tokens = float(reading.settings["output_length"]) if "output_length" in reading.settings else None
    reading.set("precision", _precision(dtype, autocast))
    reading.set("autocast", autocast or None)
    reading.set("tp_degree", whole(row.get("TP Degree")))
    reading.set("sdk", row.get("Neuron Version"))
    reading.set("software", row.get("Framework"))
    reading.set("route", row.get("Run Mode"))
    reading.facts.update({key: row[key] for key in ("Task", "Image Size", "Weight Storage Data Type", "Run Mode") if row.get(key)})
    if _precision(dtype, autocast) is None and dtype:
        reading.fault("ambiguous_cell", f"the model data type is {dtype!r}: parts run in different types", "say which with --precision")
    _flight(reading, batch)
    if tokens:
        _generation(reading, batch)
    if batch == 1 and row.get("Application Type", "").lower() == "batch":
        reading.fault("rows_differ", "a Batch row with batch size 1: it is the real-time figure again")
    return examine(reading, serving=False)


def _precision(dtype: str, autocast: str) -> Optional[str]:
    plain = dtype.strip().lower()
    if plain == "fp32" and "matmul" in autocast.lower() and "bf16" in autocast.lower():
        return "fp32_bf16_matmul"
    if plain in ("fp16", "bf16") and "bf16" in autocast.lower():
        return "bf16"
    return _PRECISION.get(plain)


def _flight(reading: Reading, batch: Optional[int]) -> None:
    rate, latency = reading.values.get("throughput_per_s"), reading.values.get("latency_p50_s")
    if not rate or not latency or not batch:
        return
    flight = rate * latency / batch
    unit = "image" if reading.result_unit == "image" else "batch"
    said = f"{rate:.6g}/s x p50 {1e3 * latency:.5g} ms / batch {batch} = {flight:.2f} {unit if round(flight) == 1 else unit + 's' if unit == 'image' else 'batches'} in flight"
    reading.fault("in_flight", f"{said}: the throughput is that of the whole instance, so it is priced once")
    if reading.result_unit == "image":
        reading.fault("client_batch_unknown", "the results are generated images, no requests of a language model; compare with images only")


def _generation(reading: Reading, batch: Optional[int]) -> None:
    values, out = reading.values, reading.output_tokens
    rate, first, per = values.get("throughput_per_s"), values.get("ttft_p50_s"), values.get("tpot_p50_s")
    if batch and batch > 1 and first:
        reading.fault("latency_of_whole_batch", f"TTFT {first:.4g} s is for the batch of {batch} prompts together")
    if not (rate and first and per and out and batch):
        return
    allowed = batch * out / (first + per * (out - 1))
    share = rate / allowed - 1
    if abs(share) > _ROUNDING:
        because = f"{rate:.5g} tokens/s are printed; batch {batch} x {out:g} tokens over TTFT + TPOT x {out - 1:g} allow {allowed:.4g}: {100 * abs(share):.0f} % {'more' if share > 0 else 'less'}"
        reading.fault("throughput_contradicts_tpot", because, "do not build on either before it is explained")


def _outliers(readings: list[Reading]) -> None:
    """Rows of one table that must not be compared: another instance, task, release or weight format than the most."""
    if len(readings) < 2:
        return
    for what, pick in (
        ("instance", lambda row: row.instance_type),
        ("task", lambda row: row.facts.get("Task")),
        ("Neuron release", lambda row: row.settings.get("sdk")),
        ("weight format", lambda row: row.facts.get("Weight Storage Data Type")),
        ("precision", lambda row: row.settings.get("precision")),
    ):
        values = [pick(row) for row in readings]
        kinds = list(dict.fromkeys(value for value in values if value))
        if len(kinds) < 2:
            continue
        usual = max(kinds, key=values.count)
        for row, value in zip(readings, values):
            if value and value != usual:
                row.fault("rows_differ", f"{what} {value}, where most rows have {usual}: not comparable with them")
    for row in readings:
        if row.facts.get("Weight Storage Data Type", "").lower() == "int8":
            row.definitions["weights"] = "int8"


def _training(table: Table, row: dict[str, str]) -> Reading:
    rate, _ = _named(table, row, "Performance")
    nodes = whole(row.get("Nodes")) or 1
    instance = row.get("Instance-Type", "").lower()
    reading = Reading(
        "neuron_training_table", tool="Neuron documentation", tool_version=row.get("Neuron Version"), model=row.get("Model"), result_unit="sequence"
    )
    reading.label = f"{row.get('Model')}, {nodes} node{'s' if nodes != 1 else ''}, {row.get('Training Data-Type')}"
    if rate is not None:
        reading.values["throughput_per_s"] = rate
        reading.printed["per node"] = f"{rate / nodes:.5g} sequences/s on each of {nodes}"
    reading.facts.update(
        {
            key.strip(): value
            for key, value in row.items()
            if value and key in ("Topology", "Microbatch", "Globalbatch", "Optimizer", "MFU[%]", "Strong/Weak Scaling")
        }
    )
    if not row.get("MFU[%]"):
        reading.fault("not_in_file", "MFU is empty: not stated, not zero")
    if "/" in instance:
        reading.fault("ambiguous_cell", f"one cell names two instance types ({instance}): they cost differently", "say which with --instance-type")
    else:
        reading.instance_type = instance or None
    if match := re.search(r"\bPh(\d)\b", row.get("Model", "")):
        reading.facts["phase"] = f"{match.group(1)} (phase 1 has sequences of 128 tokens, phase 2 of 512)"
        reading.fault("rows_differ", "sequences/s of phase 1 (128 tokens) and phase 2 (512) are different work")
    reading.fault(
        "training_figures", "training throughput; this is no inference figure", "neuronfit decides about inference with figures of inference"
    )
    reading.refused = "training throughput, no inference"
    return reading
