"""What is shown, in notebooks and in the report alike: tables, figures, numbers with their grade.

    from neuronfit import show
    show.headline_table(dossier)          # a Table: shows itself in a notebook, prints as text
    show.cost_against_latency(dossier)    # a Figure: shows itself; str() is the sentence in numbers
    show.number(quantity, "latency_p99_s")

Importing this draws nothing and imports no plotting library; the figures do so when they are called.
"""

from __future__ import annotations

from neuronfit.show.appendix import assumptions_table, provenance_table
from neuronfit.show.capacity import break_even_curve, latency_under_load, options_bars, scaling_table, sizes_table, week_of_demand
from neuronfit.show.claims import claims_table, deployments_table, recomputed_table
from neuronfit.show.controls import controls
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
from neuronfit.show.money import cheaper_bars, cost_tornado, doubt_table, paid_back_by, tasks_table, training_table, units_table
from neuronfit.show.monitors import busyness_table, monitor_bars, monitor_parts_table, monitor_table
from neuronfit.show.parity import parity_sides_table, parity_table
from neuronfit.show.protocol import protocol_table
from neuronfit.show.software import Listing, commands, memory_table
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
    trial_table,
    utilization_table,
    weights_table,
)
from neuronfit.show.table import GRADE_MEANS, Cell, Column, Note, Piece, Row, Sentences, Table, cell, number, sentences
from neuronfit.show.traffic import length_distribution, trace_table, week_load
from neuronfit.show.trial import monday_table, progress_table, stages_table, trial_figure
from neuronfit.show.wording import source_text, step_command

__all__ = [
    "Cell",
    "Column",
    "Figure",
    "GRADE_MEANS",
    "Listing",
    "Note",
    "Piece",
    "Row",
    "Sentences",
    "Table",
    "analysis_table",
    "assumptions_table",
    "bases_table",
    "batch_latency_curves",
    "break_even_curve",
    "buckets_table",
    "busy_bars",
    "busyness_table",
    "cell",
    "cheaper_bars",
    "claims_table",
    "commands",
    "compile_table",
    "controls",
    "cost_against_latency",
    "cost_bars",
    "cost_table",
    "cost_tornado",
    "deployments_table",
    "differences_table",
    "doubt_table",
    "findings_table",
    "fit_table",
    "gates_table",
    "headline_table",
    "hourly_load",
    "latency_under_load",
    "length_distribution",
    "measurements_table",
    "memory_table",
    "monday_table",
    "monitor_bars",
    "monitor_parts_table",
    "monitor_table",
    "number",
    "operators_table",
    "options_bars",
    "padding_curve",
    "paid_back_by",
    "pairs_table",
    "parity_sides_table",
    "parity_table",
    "paths_table",
    "payback_curve",
    "payback_table",
    "plan_table",
    "progress_table",
    "protocol_table",
    "provenance_table",
    "recomputed_table",
    "request_table",
    "runs_table",
    "scaling_table",
    "sentences",
    "settling",
    "situations_table",
    "sizes_table",
    "software_table",
    "source_text",
    "stages_table",
    "step_command",
    "tasks_table",
    "trace_table",
    "training_table",
    "trial_figure",
    "trial_table",
    "units_table",
    "utilization_table",
    "week_load",
    "week_of_demand",
    "weights_table",
]
