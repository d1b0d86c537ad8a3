"""Single requests of a trace, in order, for whoever plays them again: a simulator or a load generator."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Optional, Union

from neuronfit.errors import BadInput
from neuronfit.traffic.reading import Trace, open_trace

__all__ = ["Arrivals", "arrivals"]


@dataclass(frozen=True)
class Arrivals:
    """Some requests that follow each other.

    ``seconds``: float64, from the start of the window, ascending. ``input_tokens`` and ``output_tokens``:
    int32 of the same length, -1 where a row has none, or None where the trace has no such column.
    """

    seconds: Any
    input_tokens: Optional[Any]
    output_tokens: Optional[Any]

    def __len__(self) -> int:
        return len(self.seconds)


def arrivals(
    trace: Union[Trace, str, Path], window: Optional[tuple[float, float]] = None, *, chunk: int = 1_000_000, **options: Any
) -> Iterator[Arrivals]:
    """The requests in ``chunk``-sized pieces, times in seconds from the first request, or from the window's start.

    ``window`` is (from, to) in seconds after the first request, the end excluded. ``trace`` is an opened
    trace, or a file and the options of :func:`~neuronfit.traffic.open_trace`. Memory holds one piece.
    Raises :class:`~neuronfit.errors.BadInput` for a trace without single requests.
    """
    if not isinstance(trace, Trace):
        with open_trace(trace, **options) as opened:
            yield from arrivals(opened, window, chunk=chunk)
        return
    if trace.layout.kind != "arrivals":
        raise BadInput(
            "the trace has no single requests to play", trace.layout.title, allowed="a trace with one row per request", next="use its rates"
        )
    if window is not None and not 0 <= window[0] < window[1]:
        raise BadInput("the window of a trace", window, allowed="(from, to) in seconds after the first request")
    first = trace.one("SELECT min(t) FROM rows")[0]
    start = first + (round(window[0] * 1e6) if window else 0)
    where = f"WHERE t >= {start} AND t < {first + round(window[1] * 1e6)}" if window else ""
    has = {column: trace.one(f"SELECT count({column}) FROM rows")[0] > 0 for column in "io"}
    cursor = trace.connection.cursor()
    try:
        reader = cursor.execute(f"SELECT (t - {start}) / 1e6 AS seconds, coalesce(i, -1) AS i, coalesce(o, -1) AS o FROM rows {where}")
        blocks = max(1, chunk // 2048)
        while True:
            piece = _piece(reader, blocks)
            if piece is None:
                return
            yield Arrivals(piece["seconds"], piece["i"] if has["i"] else None, piece["o"] if has["o"] else None)
    finally:
        cursor.close()


def _piece(reader: Any, blocks: int) -> Optional[dict[str, Any]]:
    import numpy as np

    frame = reader.fetch_df_chunk(blocks)
    if not len(frame):
        return None
    return {"seconds": frame["seconds"].to_numpy(np.float64), "i": frame["i"].to_numpy(np.int32), "o": frame["o"].to_numpy(np.int32)}
