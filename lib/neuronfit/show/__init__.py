"""What is shown, in notebooks and in the report alike: tables, figures, numbers with their grade.

    from neuronfit import show
    show.headline_table(dossier)          # a Table: shows itself in a notebook, prints as text
    show.cost_against_latency(dossier)    # a Figure: shows itself; str() is the sentence in numbers
    show.number(quantity, "latency_p99_s")

Importing this draws nothing and imports no plotting library; the figures do so when they are called.
"""

from __future__ import annotations

from neuronfit.show.appendix import assumptions_table, provenance_table
from neuronfit.show.figures import (
    Figure,
    batch_latency_curves,
    busy_bars,
    cost_against_latency,
    cost_bars,
    hourly_load,
    padding_curve,
    payback_curve,
    settling,
)
from neuronfit.show.headline import findings_table, gates_table, headline_table
from neuronfit.show.steps import (
    analysis_table,
    bases_table,
    buckets_table,
    compile_table,
    cost_table,
    differences_table,
    fit_table,
    measurements_table,
    operators_table,
    pairs_table,
    paths_table,
    payback_table,
    plan_table,
    request_table,
    runs_table,
    situations_table,
    software_table,
    utilization_table,
    weights_table,
)
from neuronfit.show.table import GRADE_MEANS, Cell, Column, Note, Piece, Row, Table, cell, number
from neuronfit.show.wording import source_text, step_command

__all__ = [
    "Cell",
    "Column",
    "Figure",
    "GRADE_MEANS",
    "Note",
    "Piece",
    "Row",
    "Table",
    "analysis_table",
    "assumptions_table",
    "bases_table",
    "batch_latency_curves",
    "buckets_table",
    "busy_bars",
    "cell",
    "compile_table",
    "cost_against_latency",
    "cost_bars",
    "cost_table",
    "differences_table",
    "findings_table",
    "fit_table",
    "gates_table",
    "headline_table",
    "hourly_load",
    "measurements_table",
    "number",
    "operators_table",
    "padding_curve",
    "pairs_table",
    "paths_table",
    "payback_curve",
    "payback_table",
    "plan_table",
    "provenance_table",
    "request_table",
    "runs_table",
    "settling",
    "situations_table",
    "software_table",
    "source_text",
    "step_command",
    "utilization_table",
    "weights_table",
]
