"""Step 4's measurement: settings that take turns, raw values, and whether they may be believed.

    measure(question, "l4")                  # one target of a question, at every shape, on this host
    measure_together(question, ["a", "b"])   # several, taking turns run by run
    protocol(target, runs=3, budget_s=20)    # anything with ``issue`` and ``drain``

``rounds`` is the protocol, ``proof`` shows that the clock stops when the work is done, ``judgement``
says VALID or INVALID and why, ``here`` takes it to the targets of a question. Needs no Jupyter.
"""

from __future__ import annotations

from neuronfit.measure.here import CODES, already, measure, measure_together, measured_here, where_to_run
from neuronfit.measure.rounds import Clocks, Outcome, Plan, Session, Setting, protocol

__all__ = [
    "CODES",
    "Clocks",
    "Outcome",
    "Plan",
    "Session",
    "Setting",
    "already",
    "measure",
    "measure_together",
    "measured_here",
    "protocol",
    "where_to_run",
]
