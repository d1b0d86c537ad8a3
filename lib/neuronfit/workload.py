"""What is asked, independent of any machine: fingerprint, traffic, what stands around the model.

Pure functions of the params file; nothing here knows a device or a price.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Optional

from neuronfit import params
from neuronfit.params import SECONDS_PER_MONTH
from neuronfit.traced import TraceSummary

__all__ = ["Asked", "asked", "fingerprint", "hourly_rates", "request_shortening", "request_speedup_bound"]

_OFFICE = (2, 2, 2, 2, 2, 3, 5, 8, 12, 15, 17, 16, 14, 15, 16, 15, 13, 10, 7, 5, 4, 3, 3, 2)
_EVENING = (6, 4, 3, 2, 2, 2, 3, 4, 5, 5, 6, 6, 7, 7, 7, 7, 8, 9, 11, 13, 15, 16, 14, 10)
DAILY_SHAPES: dict[str, tuple[int, ...]] = {"flat": (1,) * 24, "office": _OFFICE, "evening": _EVENING}
"""Weight of each hour, 0 to 23 local time; one hour is the busiest, so that any peak up to 23 times the
mean can be reached. An assumption of ours, replaced by a trace when there is one."""


def fingerprint(workload: params.Workload, config_digest: str) -> str:
    """Hash of what must be the same for two measurements to answer one question.

    Covers the kind, the architecture (``config_digest``), the task, the weights and the lengths of
    inputs and outputs. Batch size and precision are tuned settings and are not part of it; nor is
    anything about traffic or money.
    """
    identity = {
        "kind": workload.kind,
        "architecture": config_digest,
        "task": workload.model.task,
        "weights": workload.model.weights,
        "lengths": sorted({(shape.sequence_length, shape.output_length or 0) for shape in workload.shapes}),
    }
    return hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()[:16]


# -- traffic ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Asked:
    """Traffic with what can be derived filled in; rates in results per second, volume per month.

    ``mismatch`` is the relative difference between the declared volume and mean rate x 730 h, when
    both were declared. ``week_per_s`` are the 168 rates of a recorded week, Monday first; empty where
    no trace says them all. ``recorded`` names what was read from the trace.
    """

    mean_per_s: Optional[float]
    peak_per_s: Optional[float]
    monthly_volume: Optional[float]
    hourly_per_s: tuple[float, ...]
    mismatch: Optional[float]
    week_per_s: tuple[float, ...] = ()
    recorded: frozenset[str] = frozenset()


def asked(traffic: params.Traffic, trace: Optional[TraceSummary] = None, per_request: float = 1.0) -> Asked:
    """Fill in mean, peak and volume from each other (a month has 730 hours), and from a trace.

    What is declared wins. Of a trace, whose requests give ``per_request`` results each, a declared mean
    keeps the shape: its peak to mean, and its hours. Its day replaces the assumed one unless ``daily_shape`` is declared.
    """
    mean, volume = traffic.mean_per_s, traffic.monthly_volume
    mismatch = abs(volume / (mean * SECONDS_PER_MONTH) - 1) if mean and volume else None
    if mean is None and volume is not None:
        mean = volume / SECONDS_PER_MONTH
    if trace is not None and trace.mean_per_s:
        return _with_trace(traffic, trace, per_request, mean, volume, mismatch)
    if volume is None and mean is not None:
        volume = mean * SECONDS_PER_MONTH
    peak = traffic.peak_per_s
    hourly = hourly_rates(mean, peak, traffic.daily_shape) if mean else ()
    if peak is None and hourly:
        peak = max(hourly)
    return Asked(mean, peak, volume, hourly, mismatch)


def _with_trace(
    traffic: params.Traffic, trace: TraceSummary, per_request: float, mean: Optional[float], volume: Optional[float], mismatch: Optional[float]
) -> Asked:
    recorded = set()
    if mean is None:
        mean = trace.mean_per_s * per_request
        recorded.add("mean")
    peak = traffic.peak_per_s
    if peak is None:
        peak = max(mean, mean * (trace.peak_to_mean or 1.0))
        recorded.add("peak")
    day, week = trace.hour_of_day_per_s, trace.hour_of_week_per_s
    shaped = "daily_shape" not in traffic.model_fields_set and len(day) == 24 and None not in day and sum(day) > 0
    hourly = tuple(rate * mean * 24 / sum(day) for rate in day) if shaped else hourly_rates(mean, peak, traffic.daily_shape)
    whole_week = shaped and len(week) == 168 and None not in week
    if shaped:
        recorded.add("hours")
    weekly = tuple(rate * mean * 168 / sum(week) for rate in week) if whole_week else ()
    return Asked(mean, peak, mean * SECONDS_PER_MONTH if volume is None else volume, hourly, mismatch, weekly, frozenset(recorded))


def hourly_rates(mean: float, peak: Optional[float], shape: str) -> tuple[float, ...]:
    """24 hourly rates with the given mean, results per second.

    The hour weights w are raised to a power so that max(w^g) / mean(w^g) = peak / mean: positive
    everywhere, mean kept exactly. A day has 24 hours, so a peak above 23 times the mean is taken as
    23 times: it lasts less than an hour. A flat day stays flat whatever its (short) peaks.
    """
    weights = DAILY_SHAPES[shape]
    if len(set(weights)) == 1 or mean <= 0:
        return (mean,) * 24
    power = 1.0
    if peak is not None:
        wanted = min(max(peak / mean, 1.0), 23.0)
        low, high = 0.0, 64.0
        for _ in range(80):
            power = (low + high) / 2
            low, high = (power, high) if _peak_to_mean(weights, power) < wanted else (low, power)
    raised = [weight**power for weight in weights]
    scale = mean * len(raised) / sum(raised)
    return tuple(weight * scale for weight in raised)


def _peak_to_mean(weights: tuple[int, ...], power: float) -> float:
    top = max(weights)
    raised = [(weight / top) ** power for weight in weights]
    return len(raised) / sum(raised)


# -- what stands around the model -------------------------------------------------------------


def request_shortening(model_share: float, speedup: float) -> float:
    """Amdahl: by which fraction a request gets shorter when its model part is ``speedup`` times faster.

    With a model share of 0.6, a 2x faster accelerator shortens the request by 0.6 x (1 - 1/2) = 0.3.
    """
    return model_share * (1 - 1 / speedup)


def request_speedup_bound(model_share: float) -> Optional[float]:
    """Largest speed-up of a whole request, 1 / (1 - share); ``None`` when the model is all of it."""
    return None if model_share >= 1 else 1 / (1 - model_share)
