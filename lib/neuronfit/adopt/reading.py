"""What a reader of a foreign file hands back: figures in SI units, what the file says, what is wrong with it.

A :class:`Reading` belongs to no question yet. One file may hold many: a row per concurrency, per
instance, per shape. Readers are pure: bytes in, readings out, no clock and no network. Every reader
module offers ``recognise(head, name)``, which judges by content, and ``read(document, format)``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Optional

__all__ = ["CODES", "DISTRIBUTIONS", "Fault", "QUANTILES", "Reading", "Sample"]

CODES = {
    # what the requests did
    "failed_requests": ("warning", "blocker"),
    "failures_not_stated": ("note",),
    "short_answers": ("warning",),
    "answer_lengths_vary": ("warning",),
    "output_tokens_differ": ("warning",),
    "answer_includes_prompt": ("warning",),
    "token_counts_disagree": ("note", "warning"),
    "client_batch_unknown": ("warning",),
    # what the statistics are worth
    "too_few_samples": ("warning",),
    "sample_count_unknown": ("note",),
    "percentiles_averaged": ("warning",),
    "percentile_missing": ("note",),
    "means_only": ("warning",),
    "values_missing": ("warning",),
    "cut_off": ("warning",),
    "values_cut": ("warning",),
    "rounded": ("warning", "note"),
    "tail_outlier": ("note",),
    "bimodal": ("warning",),
    "unordered_statistics": ("blocker",),
    "contaminated": ("warning",),
    # cold and warm
    "cold_start": ("warning",),
    "compile_time_absent": ("note",),
    # load
    "overload": ("warning",),
    "queueing": ("warning",),
    "rate_not_reached": ("warning",),
    "client_idle": ("warning",),
    "users_are_the_limit": ("warning",),
    "in_flight": ("note",),
    "in_flight_differs": ("warning",),
    "goodput": ("note", "warning"),
    "not_poisson": ("warning",),
    "queueing_excluded": ("note",),
    "closed_loop": ("note",),
    "stages_pooled": ("blocker",),
    "latency_bound": ("note",),
    "prefill_bound": ("warning",),
    # numbers that are not what their name says
    "peak_not_throughput": ("note",),
    "tpot_redefined": ("note",),
    "itl_includes_first_token": ("warning",),
    "itl_per_chunk": ("note",),
    "totals_disagree": ("warning",),
    "derived_column": ("warning",),
    "throughput_forgets_empty_seconds": ("warning",),
    "throughput_mislabelled": ("warning",),
    "throughput_contradicts_tpot": ("warning",),
    "throughput_artefact": ("warning",),
    "latency_of_whole_batch": ("note",),
    "cumulative_column": ("note",),
    "unit_not_stated": ("note", "warning"),
    "means_contradict_rates": ("blocker",),
    "metric_missing": ("note",),
    "clock_differs": ("note",),
    "harness_overhead": ("warning",),
    # not measured
    "placeholder": ("blocker",),
    "mock_server": ("blocker",),
    "approximate_value": ("blocker",),
    "run_failed": ("blocker",),
    "result_invalid": ("blocker",),
    "training_figures": ("blocker",),
    "tiny_model": ("warning",),
    "declared_by_user": ("note",),
    "names_disagree": ("warning",),
    "device_count": ("warning",),
    # tables
    "rows_differ": ("warning",),
    "several_models": ("warning",),
    "repeated_runs": ("note",),
    "operating_point": ("note",),
    "combination_missing": ("note",),
    "ambiguous_cell": ("warning",),
    "duplicate_column": ("warning",),
    "part_of_instance": ("warning",),
    "files_contradict": ("warning",),
    # money
    "price_in_file": ("note",),
    "price_implausible": ("warning",),
    "ranking_reverses": ("warning",),
    # this adoption
    "another_sort": ("note",),
    "declared_contradicts_file": ("warning",),
    "model_name_differs": ("warning",),
    "shape_not_asked": ("warning",),
    "not_in_file": ("note",),
    "harmless_message": ("note",),
}
"""Finding codes of adopted files -> the severities they may have, the usual one first."""

QUANTILES = {"p50": 0.50, "p90": 0.90, "p95": 0.95, "p99": 0.99}
DISTRIBUTIONS = ("latency", "ttft", "tpot", "itl")
"""Durations of which mean and percentiles are metrics: whole request, first token, time per token after it, gap."""


@dataclass(frozen=True)
class Fault:
    """Something wrong with a figure or worth knowing: a code of :data:`CODES`, why, what to do."""

    code: str
    because: str
    next: Optional[str] = None
    severity: str = ""

    def __post_init__(self) -> None:
        allowed = CODES[self.code]
        if not self.severity:
            object.__setattr__(self, "severity", allowed[0])
        if self.severity not in allowed:
            raise ValueError(f"{self.code} is never a {self.severity}")


@dataclass(frozen=True)
class Sample:
    """One answered request, seconds and counts; ``None`` where the file does not say."""

    latency_s: float
    ttft_s: Optional[float] = None
    output_tokens: Optional[int] = None
    input_tokens: Optional[int] = None
    start_s: Optional[float] = None

    @property
    def tpot_s(self) -> Optional[float]:
        """Time per output token after the first, the definition of vLLM and of this project."""
        if self.ttft_s is None or not self.output_tokens or self.output_tokens < 2:
            return None
        return (self.latency_s - self.ttft_s) / (self.output_tokens - 1)


@dataclass
class Reading:
    """Figures of one load at one setting, as one file gives them.

    ``values`` are metrics of :mod:`neuronfit.units` in SI; ``printed`` are figures that exist in the
    file and must not be used as metrics (with their unit); ``facts`` are other things the file says;
    ``settings`` are fields of :class:`~neuronfit.record.Settings`.
    """

    format: str
    tool: Optional[str] = None
    tool_version: Optional[str] = None
    label: str = ""
    model: Optional[str] = None
    instance_type: Optional[str] = None
    values: dict[str, float] = field(default_factory=dict)
    printed: dict[str, str] = field(default_factory=dict)
    facts: dict[str, str] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)
    definitions: dict[str, str] = field(default_factory=dict)
    extremes: dict[str, float] = field(default_factory=dict)
    """Figures in SI that no metric exists for and the rules need: ``latency_max_s``, ``ttft_p75_s`` ..."""
    scenario: str = "unknown"
    result_unit: str = "token"
    latency_of: str = "request"
    results_per_call: Optional[int] = None
    samples: tuple[Sample, ...] = ()
    warmup_s: tuple[float, ...] = ()
    start_utc: Optional[str] = None
    duration_s: Optional[float] = None
    asked: Optional[int] = None
    completed: Optional[int] = None
    failed: Optional[int] = None
    errors: tuple[str, ...] = ()
    request_rate: Optional[float] = None
    concurrency: Optional[float] = None
    input_tokens: Optional[float] = None
    """Mean per request."""
    output_tokens: Optional[float] = None
    """Mean per request."""
    expected_output_tokens: Optional[float] = None
    cold_calls_inside: Optional[str] = None
    faults: list[Fault] = field(default_factory=list)
    refused: Optional[str] = None
    """Why no record can be made of it; ``instead`` is the command that takes it."""
    instead: Optional[str] = None

    def fault(self, code: str, because: str, next: Optional[str] = None, severity: str = "") -> None:
        """Note a fault once per code and reason."""
        new = Fault(code, because, next, severity)
        if new not in self.faults:
            self.faults.append(new)

    def give(self, name: str, value: Optional[float], factor: float = 1.0) -> None:
        """Store ``value * factor`` as a metric; ``None`` stores nothing."""
        if value is not None:
            self.values[name] = value * factor

    def set(self, name: str, value: Any) -> None:
        """Store a setting; ``None`` stores nothing."""
        if value is not None and value != "":
            self.settings[name] = value

    @property
    def has_figures(self) -> bool:
        return bool(self.values or self.samples)
