"""The static operator check: what is documented against this model, at which line, and what to write instead.

A pure function over an exported graph that looks at arguments, not only at names::

    check.check_module(module, (x,), "inf2").blockers
    check.check_config(config, "text-generation", {"batch_size": 1, "sequence_length": 128}, "trn2")
    check.check_graph(torch.export.export(module, (x,)), "trn1")

Nothing here says that an operator is supported: only the compiler can.
"""

from __future__ import annotations

from neuronfit.check.findings import BLOCKER, CONDITIONAL, ModuleCheck, OperatorFinding, Target
from neuronfit.check.modules import check_config, check_config_on, check_graph, check_module, usual_target
from neuronfit.check.parts import check_parts_on
from neuronfit.check.rules import CODES

__all__ = [
    "BLOCKER",
    "CODES",
    "CONDITIONAL",
    "ModuleCheck",
    "OperatorFinding",
    "Target",
    "check_config",
    "check_config_on",
    "check_graph",
    "check_module",
    "check_parts_on",
    "usual_target",
]
