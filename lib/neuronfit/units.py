"""The metric registry: name, unit, which direction is better, how it is shown.

Storage is SI (``_s``, ``_bytes``, ``_per_s``, ``_usd``); milliseconds and GiB exist only in what is
shown. A metric that is not here does not exist: :func:`metric` raises and names the nearest ones.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Optional

from neuronfit.errors import NotFound, nearest

__all__ = ["METRICS", "Metric", "metric", "spoken"]


@dataclass(frozen=True)
class Metric:
    """One kind of number.

    ``unit`` is the unit in storage, ``shown_unit`` the one on screen and
    ``shown = stored * factor``. ``better`` is ``"higher"``, ``"lower"`` or ``None`` where neither is.
    """

    name: str
    unit: str
    better: Optional[str]
    label: str
    shown_unit: str
    factor: float = 1.0
    digits: int = 3
    """significant digits shown"""

    def number(self, value: float) -> str:
        """``value`` (stored unit) as shown, without its unit: ``0.00597`` s -> ``"5.97"``."""
        return _round(value * self.factor, self.digits, self.unit.startswith("USD"))

    def text(self, value: float) -> str:
        """``value`` (stored unit) as shown, with its unit: ``"5.97 ms"``, ``"2,674/s"``, ``"$0.079"``."""
        shown = self.number(value)
        if self.unit.startswith("USD"):
            minus, shown = ("-", shown[1:]) if shown.startswith("-") else ("", shown)
            return f"{minus}${shown}" + {"USD/h": "/h", "USD/month": " a month"}.get(self.unit, "")
        glue = "" if not self.shown_unit or self.shown_unit[0] in "/x%" else " "
        return f"{shown}{glue}{self.shown_unit}"


def _distribution(name: str, label: str) -> tuple[Metric, ...]:
    """Mean and percentiles of one duration; ``latency_mean_s`` is labelled "mean latency", ``latency_p50_s`` "latency p50"."""
    mean = Metric(f"{name}_mean_s", "s", "lower", f"mean {label}", "ms", 1e3)
    return (mean, *(Metric(f"{name}_p{q}_s", "s", "lower", f"{label} p{q}", "ms", 1e3) for q in (50, 90, 95, 99)))


_ALL = (
    # speed
    Metric("throughput_per_s", "1/s", "higher", "throughput", "/s", digits=4),
    Metric("output_tokens_per_s", "tokens/s", "higher", "output tokens", "tokens/s", digits=4),
    Metric("input_tokens_per_s", "tokens/s", "higher", "input tokens", "tokens/s", digits=4),
    Metric("requests_per_s", "1/s", "higher", "requests answered", "/s", digits=4),
    Metric("goodput_fraction", "fraction", "higher", "answered within the objective", "%", 100.0, 3),
    Metric("error_fraction", "fraction", "lower", "failed requests", "%", 100.0, 3),
    *_distribution("latency", "latency"),
    *_distribution("ttft", "time to first token"),
    *_distribution("tpot", "time per output token"),
    *_distribution("itl", "gap between tokens"),
    Metric("compile_s", "s", "lower", "compile time", "s"),
    Metric("batches_in_flight", "batches", None, "batches in flight", "batches"),
    # size
    Metric("parameters", "parameters", None, "parameters", "M", 1e-6, 4),
    Metric("weights_bytes", "bytes", "lower", "weights", "GiB", 1 / 2**30),
    Metric("memory_bytes", "bytes", None, "memory", "GiB", 1 / 2**30),
    # load
    Metric("rate_per_s", "1/s", None, "offered load", "/s", digits=4),
    Metric("utilization", "fraction", "higher", "busy", "%", 100.0, 2),
    Metric("instances", "instances", "lower", "instances", "", digits=4),
    Metric("power_w", "W", None, "power", "W", digits=3),
    Metric("flop_per_s", "FLOP/s", None, "work done", "TFLOP/s", 1e-12, 3),
    Metric("instance_hours", "h", "lower", "instance-hours", "h", digits=4),
    Metric("late_fraction", "fraction", "lower", "later than the objective", "%", 100.0, 2),
    # money
    Metric("usd_per_hour", "USD/h", "lower", "price", "$/h", digits=4),
    Metric("usd_per_million", "USD/1e6", "lower", "cost per million", "$", digits=3),
    Metric("usd_per_month", "USD/month", "lower", "cost per month", "$", digits=3),
    Metric("usd", "USD", None, "money", "$", digits=3),
    Metric("per_usd", "1/USD", "higher", "results per dollar", "million/$", 1e-6, digits=4),
    Metric("per_s_per_usd_hour", "1/s/(USD/h)", "higher", "throughput per dollar-hour", "/s per $/h", digits=4),
    # agreement of two sides' answers
    Metric("cosine", "cosine", "higher", "cosine similarity", "", digits=6),
    Metric("max_abs_error", "output", "lower", "largest absolute error", "", digits=3),
    Metric("max_rel_error", "fraction", "lower", "largest relative error", "%", 100.0, 3),
    Metric("kl_divergence", "nats", "lower", "KL divergence", "nats", digits=3),
    Metric("top1_agreement", "fraction", "higher", "same first answer", "%", 100.0, 4),
    Metric("topk_agreement", "fraction", "higher", "same leading answers", "%", 100.0, 4),
    Metric("greedy_match", "fraction", "higher", "tokens before the first difference", "%", 100.0, 4),
    Metric("exact_match", "fraction", "higher", "identical outputs", "%", 100.0, 4),
    Metric("accuracy", "fraction", "higher", "right by the labels", "%", 100.0, 4),
    # change and effort
    Metric("ratio", "ratio", None, "candidate / baseline", "x", digits=3),
    Metric("fraction", "fraction", None, "share", "%", 100.0, 2),
    Metric("person_days", "person-days", "lower", "effort", "person-days", digits=3),
    Metric("months", "months", "lower", "months", "months", digits=3),
    Metric("count", "count", None, "count", "", digits=4),
)

METRICS: dict[str, Metric] = {entry.name: entry for entry in _ALL}


def _round(value: float, digits: int, money: bool) -> str:
    size = abs(value)
    if value == 0:
        return "0"
    if money:
        decimals = 0 if size >= 99.995 else 2 if size >= 0.9995 else 3 if size >= 0.00995 or size < 1e-4 else 2 - math.floor(math.log10(size))
    elif size < 1e-4:
        return f"{value:.{digits - 1}e}"
    else:
        decimals = max(0, digits - 1 - math.floor(math.log10(size)))
    if round(size, decimals) == 0:
        return f"{value:.1e}"
    text = f"{value:,.{decimals}f}"
    return text.rstrip("0").rstrip(".") if "." in text and not money else text


_SPOKEN = {
    "fp32_bf16_matmul": "fp32 with bf16 products",
    "on_demand": "on demand",
    "reserved_1yr_no_upfront": "1-year reserved, no upfront",
    "reserved_3yr_no_upfront": "3-year reserved, no upfront",
    "capacity_block": "capacity block",
    "spot_estimate": "spot, estimated",
    "sagemaker_hosting": "SageMaker hosting",
}


def spoken(name: str) -> str:
    """A stored name as a reader is told it: ``"fp32_bf16_matmul"`` -> ``"fp32 with bf16 products"``, ``"host<->device copies"`` -> ``"host-device copies"``.

    Only a name is respelled: code inside a sentence (``torch.no_grad()``) stays as it is.
    """
    plain = name.replace("<->", "-")
    return _SPOKEN.get(name, plain.replace("_", " ") if re.fullmatch(r"\w+", plain) else plain)


def metric(name: str) -> Metric:
    """Look up a metric by name. Raises :class:`~neuronfit.errors.NotFound` with the nearest names."""
    try:
        return METRICS[name]
    except KeyError:
        near = nearest(name, METRICS)
        raise NotFound("unknown metric", name, allowed=", ".join(near or METRICS)) from None
