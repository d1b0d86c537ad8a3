"""Loading a served model, and knowing that the load was what it claims to be.

    offsets = arrivals.poisson(rate_per_s=20, duration_s=30, generator=numpy.random.default_rng(0))
    requests = [Request(prompt=0, text="...")] * len(offsets)
    sent = run(lambda control: open_loop(client.send, requests, offsets, control, window_s=30), window_s=30)

``arrivals`` says when requests are due, ``generator`` sends them and keeps what happens to each, ``audit`` judges the
load itself, ``scenarios`` says which loads are run, ``prompts`` what is sent, ``evidence`` makes records of it.
"""

from __future__ import annotations

from neuronfit.load.evidence import measure_endpoint, plan_of
from neuronfit.load.generator import Control, Request, Response, Sent, closed_loop, open_loop, run
from neuronfit.load.scenarios import Plan, Taken

__all__ = ["Control", "Plan", "Request", "Response", "Sent", "Taken", "closed_loop", "measure_endpoint", "open_loop", "plan_of", "run"]
