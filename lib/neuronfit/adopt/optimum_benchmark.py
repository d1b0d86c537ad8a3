"""optimum-benchmark: the report, the benchmark file (config and report), and the config alone.

Value lists are complete, in seconds. ``decode`` covers new_tokens - 1 tokens; ``per_token`` also holds
each prefill. ``generate.throughput`` in samples/s is too high by the number of decoded tokens
(seen with 0.6.0). On a GPU the clock is CUDA events, elsewhere the host's: two clocks. The ``process``
launcher spins on a core while it waits.
"""

from __future__ import annotations

import re
from typing import Any, Optional

from neuronfit.adopt.document import Document, number, whole
from neuronfit.adopt.reading import Reading, Sample
from neuronfit.adopt.rules import BATCH_ADVICE, examine
from neuronfit.errors import BadRecord
from neuronfit.stats import median

__all__ = ["FORMATS", "read", "recognise"]

FORMATS = {
    "optimum_benchmark": "optimum-benchmark report or benchmark, JSON",
    "optimum_benchmark_config": "optimum-benchmark configuration, JSON (no figures)",
}
_STEADY = ("prefill", "decode", "forward", "generate", "call")


def recognise(head: bytes, name: str) -> Optional[str]:
    text = head.decode("utf-8", "replace")
    if not text.lstrip().startswith("{"):
        return None
    if re.search(r'"(prefill|decode|forward|generate|call|load_model|per_token)"\s*:\s*\{\s*"(memory|latency)"', text) and '"latency"' in text:
        return "optimum_benchmark"
    if "optimum_benchmark." in text and re.search(r'"(scenario|benchmark)"', text):
        return "optimum_benchmark" if '"report"' in text else "optimum_benchmark_config"
    return None


def read(document: Document, format: str) -> list[Reading]:
    data = document.json
    if not isinstance(data, dict):
        raise BadRecord("not an optimum-benchmark file", document.name)
    bare = any(name in data for name in ("scenario", "benchmark")) and "report" not in data
    config = data.get("config") if isinstance(data.get("config"), dict) else data if bare else {}
    report = data.get("report") if isinstance(data.get("report"), dict) else data if not bare else {}
    if "scenario" not in config and isinstance(config.get("benchmark"), dict):  # version 0.2 calls it benchmark
        config = {**config, "scenario": config["benchmark"]}
    if not report:
        return [_config_only(config)]
    readings = [_phase(name, report[name], report, config) for name in _STEADY if isinstance(report.get(name), dict) and report[name].get("latency")]
    if not readings:
        raise BadRecord("no phase with latencies in the report", document.name, allowed=", ".join(_STEADY))
    return readings


def _phase(name: str, entry: dict[str, Any], report: dict[str, Any], config: dict[str, Any]) -> Reading:
    reading = Reading("optimum_benchmark", tool="optimum-benchmark", label=name, scenario="offline", latency_of="batch", result_unit="inference")
    latency = entry["latency"]
    factor = 1e-3 if latency.get("unit") == "ms" else 1.0
    values = [given * factor for value in latency.get("values") or [] if (given := number(value)) is not None]
    count = whole(latency.get("count")) or len(values)
    reading.completed, reading.failed = count, 0
    if values and len(values) == count:
        reading.samples = tuple(Sample(value) for value in values)
        reading.duration_s = sum(values)
    else:
        if values:
            reading.fault("values_cut", f"{name}: {len(values)} of {count} values are in the file; its own statistics are used")
        for key in ("mean", "p50", "p90", "p95", "p99"):
            reading.give(f"latency_{key}_s", number(latency.get(key)), factor)
    _describe(reading, config)
    throughput = entry.get("throughput") or {}
    rate, unit = number(throughput.get("value")), str(throughput.get("unit") or "")
    if rate is not None:
        _rate(reading, name, rate, unit, report, config)
    if name == "decode":
        reading.definitions["latency"] = "decoding of all tokens but the first, one batch"
    elif name == "prefill":
        reading.definitions["latency"] = "the first token, one batch"
    else:
        reading.definitions["latency"] = f"one {name} call, one batch"
    reading.definitions["clock"] = "CUDA events on a GPU, the host's clock elsewhere"
    reading.fault("clock_differs", "latency is timed by CUDA events on a GPU and by the host elsewhere: compare across devices with care")
    _per_token(reading, report)
    warmups = whole((config.get("scenario") or {}).get("warmup_runs"))
    said = f"{warmups} warm-up runs came first" if warmups is not None else "warm-up runs came first (10 unless configured)"
    because = f"{said}: compile and warm-up time are in no figure of this file"
    if (first := _first(report)) is not None:
        because += f"; the first call took {first:.3g} s"
    reading.fault("compile_time_absent", because, "ask for the compile time separately (step 3)")
    if len(values) > 2 and min(values) > 0:
        reading.facts["spread of the runs"] = f"{100 * (max(values) - min(values)) / min(values):.2g} % over {len(values)}"
    if not config:
        reading.fault(
            "not_in_file",
            "batch, lengths, precision and hardware are in the companion benchmark_config.json",
            "give them with --batch-size, --sequence-length, --precision",
        )
    if (config.get("launcher") or {}).get("name") == "process":
        because = "the process launcher spins on a core while it waits (1.5 times the latency on two cores with 0.6.0)"
        reading.fault("harness_overhead", because, "use the inline launcher on small hosts")
    return examine(reading, serving=False)


def _rate(reading: Reading, name: str, rate: float, unit: str, report: dict[str, Any], config: dict[str, Any]) -> None:
    mean = number(report[name]["latency"].get("mean"))
    batch = reading.settings.get("batch_size")
    if unit.startswith("tokens") and name == "prefill":  # version 0.2 counts the tokens that went in
        reading.values["input_tokens_per_s"] = rate
        if batch and mean:
            reading.values["throughput_per_s"] = batch / mean
        return
    if unit.startswith("tokens"):
        reading.result_unit = "token"
        reading.values["output_tokens_per_s"] = reading.values["throughput_per_s"] = rate
        if mean:
            _decoded(reading, rate * mean, mean, batch, report)
        return
    if name == "generate" and mean:
        truth = (batch or 1) / mean
        if rate > 1.5 * truth:
            tokens = rate / truth
            because = f"generate throughput is printed as {rate:.4g} {unit}; {batch or 1} sample in {mean:.4g} s are {truth:.4g}, {tokens:.3g} times less: it counts decoded tokens"
            reading.fault("throughput_mislabelled", because)
            reading.printed["generate throughput"] = f"{rate:g} {unit}"
            rate = truth
            reading.values["output_tokens_per_s"] = truth * tokens
    reading.values["throughput_per_s"] = rate


def _decoded(reading: Reading, tokens: float, mean: float, batch: Optional[int], report: dict[str, Any]) -> None:
    """How many tokens each sequence got: all tokens over the batch, which the time per step gives where the file does not say it."""
    step = _step(report)
    if batch is None and step:
        implied = tokens / (mean / step)
        batch = round(implied) if implied >= 0.9 and abs(implied / round(implied) - 1) < 0.1 else None
        if batch:
            reading.facts["batch, from the time of a step"] = str(batch)
    if batch is None:
        reading.fault("client_batch_unknown", f"{tokens:.4g} tokens were decoded in {mean:.4g} s, over a batch that is not in the file", BATCH_ADVICE)
        return
    each = tokens / batch  # decoding covers all tokens but the first
    reading.facts["tokens decoded per sequence"] = f"{each:.4g}"
    reading.output_tokens = round(each) + 1.0
    reading.values["tpot_mean_s"] = mean / each


def _step(report: dict[str, Any]) -> Optional[float]:
    """Seconds of one decoding step, from ``per_token``; early versions give values without percentiles."""
    entry = (report.get("per_token") or {}).get("latency") if isinstance(report.get("per_token"), dict) else None
    if not isinstance(entry, dict):
        return None
    factor = 1e-3 if entry.get("unit") == "ms" else 1.0
    middle = number(entry.get("p50"))
    values = [given for value in entry.get("values") or [] if (given := number(value)) is not None]
    if middle is None and values:
        middle = median(values)
    return middle * factor if middle else None


def _per_token(reading: Reading, report: dict[str, Any]) -> None:
    entry = (report.get("per_token") or {}).get("latency") if isinstance(report.get("per_token"), dict) else None
    if not isinstance(entry, dict) or reading.label not in ("decode", "generate"):
        return
    middle, top = _step(report), number(entry.get("p99"))
    prefill = number(((report.get("prefill") or {}).get("latency") or {}).get("p50"))
    count, values = whole(entry.get("count")), entry.get("values") or []
    if count and values and len(values) < count:
        reading.fault("values_cut", f"per_token: {len(values)} of {count:,} values are in the file; its own statistics are used")
    if middle:
        reading.values["itl_p50_s"] = middle
    if top and prefill and 0.8 < top / prefill < 1.25:
        because = f"per_token p99 {top:.4g} s is the prefill ({prefill:.4g} s), which the list contains: it is no tail of decoding"
        reading.fault("itl_includes_first_token", because)
        reading.printed["per token p99"] = f"{1e3 * top:.4g} ms"
    elif top:
        reading.values["itl_p99_s"] = top


def _first(report: dict[str, Any]) -> Optional[float]:
    for name in ("first_generate", "first_forward", "first_call"):
        entry = report.get(name)
        if isinstance(entry, dict) and (value := number((entry.get("latency") or {}).get("mean"))) is not None:
            return value
    return None


def _describe(reading: Reading, config: dict[str, Any]) -> None:
    """Settings from the configuration, where it is beside the report."""
    backend, scenario, environment = (config.get(name) or {} for name in ("backend", "scenario", "environment"))
    shapes = scenario.get("input_shapes") or {}
    generate = scenario.get("generate_kwargs") or {}
    reading.model = reading.model or backend.get("model")
    reading.set("batch_size", whole(shapes.get("batch_size")))
    reading.set("sequence_length", whole(shapes.get("sequence_length")))
    reading.set("output_length", whole(generate.get("max_new_tokens") or scenario.get("new_tokens")))
    dtype = {"float16": "fp16", "bfloat16": "bf16", "float32": "fp32"}.get(str(backend.get("torch_dtype") or ""))
    reading.set("precision", dtype)
    if backend.get("quantization_scheme"):
        reading.facts["quantization"] = f"{backend['quantization_scheme']} {(backend.get('quantization_config') or {}).get('bits', '')}".strip()
    version = backend.get("version")
    reading.set("software", f"{backend.get('name')} {version}".strip() if backend.get("name") else None)
    reading.tool_version = environment.get("optimum_benchmark_version") or reading.tool_version
    gpus = environment.get("gpu")
    if isinstance(gpus, list) and gpus:
        compute = [name for name in gpus if "display" not in str(name).lower()]
        reading.facts["gpu"] = f"{len(compute)} x {compute[0].strip()}" if compute else ", ".join(map(str, gpus))
        if len(compute) != len(gpus) or whole(environment.get("gpu_count")) not in (None, len(compute)):
            because = f"the environment counts {environment.get('gpu_count', len(gpus))} GPUs; {len(gpus) - len(compute)} is a display adapter, {len(compute)} compute"
            reading.fault("device_count", because, "price the compute GPUs only")
    elif gpus:
        reading.facts["gpu"] = str(gpus)
    if environment.get("cpu"):
        reading.facts["cpu"] = str(environment["cpu"]).strip()
    memory = number(environment.get("gpu_vram_mb"))
    if memory and memory > 1e9:
        reading.facts["GPU memory"] = f"{memory / 1e9:.1f} GB"
        reading.fault("unit_not_stated", f"gpu_vram_mb {memory:.0f} can only be bytes: {memory / 1e9:.1f} GB", severity="warning")
    for name in ("batch_size", "sequence_length"):
        if name in reading.settings:
            reading.facts[name.replace("_", " ")] = str(reading.settings[name])
    for key, label in (("warmup_runs", "warm-up runs"), ("iterations", "iterations")):
        if scenario.get(key) is not None:
            reading.facts[label] = str(scenario[key])


def _config_only(config: dict[str, Any]) -> Reading:
    reading = Reading("optimum_benchmark_config", tool="optimum-benchmark", label="configuration")
    _describe(reading, config)
    if (config.get("launcher") or {}).get("name") == "process":
        reading.fault("harness_overhead", "the process launcher spins on a core while it waits", "use the inline launcher on small hosts")
    reading.refused = "a configuration without figures"
    reading.instead = "neuronfit adopt benchmark_report.json --batch-size ... with the values above"
    reading.fault("another_sort", "the companion of a report: it has batch, lengths and hardware, and no figures")
    return reading
