"""Should this workload move from GPU instances to AWS Trainium or Inferentia?

The order in which to read the package, which is also the order in which modules may import each
other:

leaves    provenance, errors, units, stats, files
nouns     params, system, record, catalog, plausibility, dossier, model, workload, question
verbs     profile, check, hlo, memory, dependencies, examine, compatibility, buckets, compile, diagnose,
          measure (with targets), adopt, compare, utilization, cost, effort, trial, decide
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
