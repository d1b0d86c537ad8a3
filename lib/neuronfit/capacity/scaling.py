"""How many instances run, minute by minute: a fixed fleet, a schedule, or autoscaling with a start-up lag.

Each policy gives two series: instances that are *paid* for and instances that are *ready*. They differ while an
instance starts: it costs from the launch and serves from the end of its start-up.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from neuronfit.params import Capacity

__all__ = ["Plan", "StartUp", "fixed", "scheduled", "spread", "target_tracking"]


@dataclass(frozen=True)
class StartUp:
    """Seconds from a decision to the first answer: noticing, starting and pulling the image, loading weights, compiling."""

    reaction_s: float
    launch_s: float
    load_s: float
    compile_s: float

    @property
    def lag_s(self) -> float:
        return self.launch_s + self.load_s + self.compile_s


@dataclass(frozen=True)
class Plan:
    """Instances per minute of the window, both (minutes,)."""

    name: str
    paid: np.ndarray
    ready: np.ndarray

    @property
    def instance_hours(self) -> float:
        return float(self.paid.sum()) / 60


def spread(needed: int, settings: Capacity) -> int:
    """Instances to run where ``needed`` carry the load: at least the minimum count, spare ones, and evenly over zones.

    With more than one zone there are enough that the others carry the load when one is lost: ceil(n / (zones - 1)) in each.
    """
    count = max(needed + settings.redundancy, settings.min_count)
    if settings.zones > 1:
        count = max(count, math.ceil(needed / (settings.zones - 1)) * settings.zones)
        count = math.ceil(count / settings.zones) * settings.zones
    return count


def fixed(minutes: int, needed_at_peak: int, settings: Capacity) -> Plan:
    """The fleet that the peak needs, all the time."""
    counts = np.full(minutes, spread(needed_at_peak, settings), np.int64)
    return Plan("fixed", counts, counts)


def scheduled(rates: np.ndarray, needed: Callable[[float], int], settings: Capacity, start: StartUp, *, repeats: bool) -> Plan:
    """What the busiest minute of each hour needs, hour by hour, started ahead of time; the schedule knows the week."""
    hours = math.ceil(len(rates) / 60)
    by_hour = [spread(needed(float(rates[hour * 60 : (hour + 1) * 60].max())), settings) for hour in range(hours)]
    ready = np.repeat(by_hour, 60)[: len(rates)]
    lead = math.ceil(start.lag_s / 60)
    ahead = np.concatenate([ready, ready[:lead] if repeats else np.full(lead, ready[-1])])
    return Plan("scheduled", _window(ahead, lead, np.maximum)[lead:] if lead else ready, ready)


def target_tracking(rates: np.ndarray, capacity_per_s: float, settings: Capacity, start: StartUp, *, repeats: bool) -> Plan:
    """As many as bring the load of each instance to ``target_utilization``; more when noticed, fewer after the cool-down.

    Wanted in minute t is ceil(rate / (capacity x target)). Asked for is the most that was wanted in the cool-down before t, so a
    short lull lets nothing go. Ready is the least that was asked for during the lag before t: what was asked for all that time has
    started. Asked for is paid for.
    """
    wanted = np.array([spread(max(1, math.ceil(rate / (capacity_per_s * settings.target_utilization))), settings) for rate in rates.tolist()])
    noticed, cool, lag = (math.ceil(seconds / 60) for seconds in (start.reaction_s, settings.scale_in_cooldown_s, start.lag_s))
    lead = min(noticed + cool + lag, len(wanted) * 8)
    before = np.resize(wanted[::-1], lead)[::-1] if repeats else np.full(lead, wanted[0])
    series = np.concatenate([before, wanted])
    if noticed:
        series = np.concatenate([np.full(noticed, series[0]), series[:-noticed]])
    asked = _window(series, cool, np.maximum)
    ready = _window(asked, lag, np.minimum)
    return Plan("target_tracking", asked[lead:], ready[lead:])


def _window(series: np.ndarray, length: int, extreme: np.ufunc) -> np.ndarray:
    """Extreme of each value and the ``length`` before it (fewer at the start), in log2(length) passes."""
    result, reach = series.copy(), 1
    while reach < length + 1:
        shift = min(reach, length + 1 - reach)
        moved = result.copy()
        moved[shift:] = extreme(result[shift:], result[:-shift])
        result, reach = moved, reach + shift
    return result
