"""Should this workload move from GPU instances to AWS Trainium or Inferentia?

The order in which to read the package, which is also the order in which modules may import each
other:

leaves    provenance, errors, units, stats, draws, sequential, files
nouns     sections, params, system, traced, served, fleets, record, catalog, plausibility, dossier, model, workload, question,
          traffic, inputs
verbs     profile, check, hlo, memory, dependencies, examine, recipe, compatibility, buckets, compile, diagnose,
          watch, measure (with targets, load), adopt, price_lists, parity, compare, capacity, utilization,
          useful, doubt, training, offers, cost, tasks, effort, handover, splitter, trial, decide
edges     show, report, series, cli

``from neuronfit import Question`` is the usual beginning; importing the package itself does
nothing else.
"""

from __future__ import annotations

from typing import Any

__all__ = ["Dossier", "Question", "__version__"]

__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    """The two classes people start from, imported when asked for, so that ``import neuronfit`` stays light."""
    if name == "Question":
        from neuronfit.question import Question

        return Question
    if name == "Dossier":
        from neuronfit.dossier import Dossier

        return Dossier
    raise AttributeError(f"module 'neuronfit' has no attribute {name!r}")
