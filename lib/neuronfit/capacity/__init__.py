"""Step 5's capacity model: how many instances keep the objective under this traffic, how busy they are, what idles.

``queueing``   closed forms: M/M/1, M/M/c, M/D/1, M/G/1
``compiled``   the inner loops, compiled by Numba when first needed
``simulator``  requests through a queue, batches and instances that come and go
``arrivals``   a trace, or a Poisson process whose rate changes
``service``    latency by batch size and decode steps, from the dossier
``scaling``    fixed, scheduled, target tracking: instances paid for and ready, minute by minute
``fleet``      a window of traffic against a service and a policy
"""

from __future__ import annotations

from neuronfit.capacity.fleet import Answer, Demand, Option, break_even, latency_at_load, needed, options, shared_copies, stretch
from neuronfit.capacity.scaling import Plan, StartUp, spread
from neuronfit.capacity.service import BatchService, GenerationService, Promise, Service, from_rows, promise, service_of
from neuronfit.capacity.simulator import Change, Outcome, generate, simulate, warm_up

__all__ = [
    "Answer",
    "BatchService",
    "Change",
    "Demand",
    "GenerationService",
    "Option",
    "Outcome",
    "Plan",
    "Promise",
    "Service",
    "StartUp",
    "break_even",
    "from_rows",
    "generate",
    "latency_at_load",
    "needed",
    "options",
    "promise",
    "service_of",
    "shared_copies",
    "simulate",
    "spread",
    "stretch",
    "warm_up",
]
