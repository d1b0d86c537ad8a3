"""Streaming statistics of the table: each series' mean, percentiles, idle share and growth, in bounded memory."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Optional

from neuronfit.adopt.monitors.table import MONITORED, Batch, Key

__all__ = ["IDLE", "Clock", "Series", "gather"]

IDLE = 0.005
"""A sample at or below half a percent counts as idle."""

KEPT = 20000
"""Values kept as they are; beyond, shares are counted in bins of 0.01 %, whose percentiles are right to that."""

BINS = 10001


@dataclass
class Series:
    """One series. ``grown`` is by how much a counter grew, restarts from 0 allowed for."""

    key: Key
    count: int = 0
    total: float = 0.0
    least: float = float("inf")
    most: float = float("-inf")
    last: float = 0.0
    idle: int = 0
    grown: float = 0.0
    restarts: int = 0
    values: list[Any] = field(default_factory=list)
    kept: int = 0
    bins: Any = None

    def add(self, values: Any) -> None:
        """Some values in their order (a numpy array)."""
        import numpy as np

        kind = MONITORED[self.key.metric].kind
        if kind == "counter":
            steps = np.diff(values, prepend=self.last if self.count else values[0])
            back = steps < 0
            self.restarts += int(back.sum())
            self.grown += float(np.where(back, values, steps).sum())
        self.count += len(values)
        self.total += float(values.sum())
        self.least, self.most = min(self.least, float(values.min())), max(self.most, float(values.max()))
        self.last = float(values[-1])
        if kind == "share":
            self.idle += int((values <= IDLE).sum())
            if self.bins is None and self.kept + len(values) <= KEPT:
                self.values.append(values)
                self.kept += len(values)
            else:
                if self.bins is None:
                    self.bins = np.zeros(BINS, dtype=np.int64)
                    for earlier in self.values:
                        self._count(earlier)
                    self.values.clear()
                self._count(values)

    def _count(self, values: Any) -> None:
        import numpy as np

        self.bins += np.bincount((values * (BINS - 1) + 0.5).astype(np.int64).clip(0, BINS - 1), minlength=BINS)

    @property
    def mean(self) -> float:
        return min(max(self.total / self.count, self.least), self.most)

    def quantile(self, q: float) -> float:
        """Linear between order statistics while all values are kept; of the bins afterwards."""
        import numpy as np

        if self.bins is None:
            return float(np.quantile(np.concatenate(self.values), q))
        return float(np.searchsorted(np.cumsum(self.bins), q * self.count)) / (BINS - 1)

    def is_running_mean(self) -> bool:
        """Whether the values look like means since the start: then i x_i - (i-1) x_(i-1), the sample behind each, stays a share for
        every i, and varies far more than the values do. Samples proper fail that within a few steps."""
        import numpy as np

        if self.bins is not None or self.count < 20:
            return False
        values = np.concatenate(self.values)
        if len(np.unique(values)) < len(values) / 2:
            return False
        order = np.arange(1, len(values) + 1)
        behind = order * values
        behind[1:] -= order[:-1] * values[:-1]
        tail = slice(len(values) // 2, None)
        return bool((behind >= -0.02).all() and (behind <= 1.02).all() and behind[tail].std() > 4 * values[tail].std() and values[tail].std() > 0)


@dataclass
class Clock:
    """The times of the rows: first, last, how far the clock ran forward, how often it went back, the longest step."""

    first: Optional[float] = None
    last: float = 0.0
    forward: float = 0.0
    back: int = 0
    moments: int = 0
    longest: float = 0.0
    steps: list[float] = field(default_factory=list)

    def add(self, times: Any) -> None:
        import numpy as np

        if not len(times):
            return
        if self.first is None:
            self.first = self.last = float(times[0])
            self.moments = 1
        steps = np.diff(times, prepend=self.last)
        moved = steps[np.abs(steps) > 1e-9]
        self.back += int((moved < -0.5).sum())
        ahead = moved[moved > 0]
        self.moments += len(moved)
        self.forward += float(ahead.sum())
        if len(ahead):
            self.longest = max(self.longest, float(ahead.max()))
            if len(self.steps) < KEPT:
                self.steps.extend(ahead[: KEPT - len(self.steps)].tolist())
        self.last = float(times[-1])


def gather(batches: Any) -> tuple[dict[Key, Series], Clock]:
    """All series of a reading, and its clock."""
    import numpy as np

    found: dict[int, Series] = {}
    clock = Clock()
    keys: list[Key] = []
    batch: Batch
    for batch in batches:
        keys = batch.keys
        index, values = np.asarray(batch.key), np.asarray(batch.value, dtype=np.float64)
        clock.add(np.asarray(batch.time, dtype=np.float64))
        order = np.argsort(index, kind="stable")
        index, values = index[order], values[order]
        starts = np.flatnonzero(np.diff(index, prepend=-1))
        for start, end in zip(starts, [*starts[1:], len(index)]):
            number = int(index[start])
            if number not in found:
                found[number] = Series(keys[number])
            found[number].add(values[start:end])
    return {series.key: series for series in found.values()}, clock
