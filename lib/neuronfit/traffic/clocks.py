"""The hour that comes twice: times written without an offset, in a zone whose clock was set back inside the trace.

Two moments have the same text. Where the rows are in the order in which they were written, the one place at which time jumps back tells
the second hour from the first; otherwise nothing does, and both are taken as one.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from zoneinfo import ZoneInfo

__all__ = ["Fold", "folds"]

_HOUR = 3_600_000_000


@dataclass(frozen=True)
class Fold:
    """A stretch of local time that comes twice; all in microseconds as if the local time were UTC."""

    start: int
    end: int
    offset_before: int
    offset_after: int

    def fall_sql(self, source: str) -> str:
        """Rows at which the time falls back within the stretch, by their place ``n``: the first of the second hour."""
        near = f"u >= {self.start - _HOUR} AND u < {self.end + _HOUR} AND z IS NULL"
        return (
            f"SELECT n FROM (SELECT n, u, lag(u) OVER (ORDER BY n) AS before FROM {source} WHERE {near}) "
            f"WHERE u >= {self.start} AND u < {self.end} AND before - u > {(self.end - self.start) // 2}"
        )


def folds(zone: str, low: int, high: int) -> list[Fold]:
    """Where the clock of ``zone`` is set back between two local times (microseconds), 40 places at most."""
    area, found = ZoneInfo(zone), []
    start, hours = datetime.fromtimestamp(low / 1e6 - 86_400, timezone.utc), int((high - low) / _HOUR) + 48
    if hours > 24 * 366 * 20:
        return []
    before = start.astimezone(area).utcoffset() or timedelta()
    for hour in range(1, hours + 1):
        moment = start + timedelta(hours=hour)
        now = moment.astimezone(area).utcoffset() or timedelta()
        if now < before:
            change = _change(area, moment - timedelta(hours=1), moment)
            local = int((change + now).timestamp() * 1e6)
            found.append(Fold(local, local + int((before - now).total_seconds() * 1e6), *(int(each.total_seconds() * 1e6) for each in (before, now))))
        before = now
    return found[:40]


def _change(area: ZoneInfo, low: datetime, high: datetime) -> datetime:
    """The second of UTC at which the offset changes."""
    first = low.astimezone(area).utcoffset()
    while high - low > timedelta(seconds=1):
        middle = low + (high - low) / 2
        low, high = (middle, high) if middle.astimezone(area).utcoffset() == first else (low, middle)
    return high.replace(microsecond=0) if high.microsecond < 500_000 else high.replace(microsecond=0) + timedelta(seconds=1)
