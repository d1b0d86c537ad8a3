"""Step 8: the controlled production test.

:mod:`.plan` fixes criteria, stages and guardrails as a record before the first request; :mod:`.run` rehearses
the way back, sends the traffic of :mod:`.schedule` and acts on guardrails; :mod:`.log` keeps every request in an append-only
file, :mod:`.ledger` in columns; :mod:`.evaluate` reads that file, and nothing else, to say how each criterion stands. Figures of a test
that ran elsewhere enter through the same log (:mod:`neuronfit.adopt.trial_logs`).
"""

from neuronfit.trial.evaluate import evaluate, settle
from neuronfit.trial.plan import plan, stage_text
from neuronfit.trial.run import run

__all__ = ["evaluate", "plan", "run", "settle", "stage_text"]
