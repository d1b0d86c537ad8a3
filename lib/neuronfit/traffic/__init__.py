"""Recorded traffic: a file with one row per request, or a number of requests per period.

    from neuronfit import traffic
    with traffic.open_trace("access.log.gz", only="POST /predict") as trace:
        said = traffic.summarise(trace)          # rates, bursts, lengths: a TraceSummary
        traffic.findings(trace, said)            # what was left out, assumed, and cannot be known
        for piece in traffic.arrivals(trace, (0, 3600)):
            piece.seconds, piece.input_tokens    # numpy arrays

===============  ===========================================================================
``columns``      what a column holds, by its name
``times``        how times are written
``files``        several files, folders, packed files
``layout``       what a file is, by its first bytes
``server_logs``  lines of proxies
``spans``        OpenTelemetry
``series``       tables of dashboards, a number per period
``strangers``    what is no traffic, named
``clocks``       the hour that comes twice
``quoted``       access logs, parted at their quotes
``reading``      the file, read once by DuckDB in bounded memory
``metrics``      counts per period: CloudWatch, Prometheus, tables
``summary``      the numbers
``findings``     what a reader must know
``arrivals``     single requests, in order
===============  ===========================================================================
"""

from __future__ import annotations

from neuronfit.traffic.arrivals import Arrivals, arrivals
from neuronfit.traffic.findings import MEANINGS, findings
from neuronfit.traffic.layout import FORMATS, recognise
from neuronfit.traffic.reading import MEMORY_LIMIT, Trace, open_trace
from neuronfit.traffic.summary import summarise

__all__ = ["Arrivals", "FORMATS", "MEANINGS", "MEMORY_LIMIT", "Trace", "arrivals", "findings", "open_trace", "recognise", "summarise"]
