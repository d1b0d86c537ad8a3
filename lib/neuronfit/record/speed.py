"""Step 4: how fast, compared, and with the same answers?"""

from __future__ import annotations

from typing import Literal, Optional

from pydantic import Field, model_validator

from neuronfit import stats
from neuronfit.errors import nearest
from neuronfit.provenance import Quantity, absent
from neuronfit.record.header import Frozen, Record
from neuronfit.served import Load, Requests, derived
from neuronfit.system import System
from neuronfit.units import METRICS, metric


class Settings(Frozen):
    """Everything that makes two numbers comparable or not. ``None`` means: not known."""

    batch_size: Optional[int] = None
    sequence_length: Optional[int] = None
    output_length: Optional[int] = None
    precision: Optional[str] = Field(None, description="what the multiplications run in: fp32, fp32_bf16_matmul, fp16, ...")
    autocast: Optional[str] = None
    software: Optional[str] = Field(None, description="framework and compiler with versions")
    sdk: Optional[str] = Field(None, description="Neuron SDK version")
    route: Optional[str] = Field(None, description="e.g. XLA trace, TorchNeuron compiled, eager")
    tp_degree: Optional[int] = None
    dp_degree: Optional[int] = None
    workers: Optional[int] = None
    accelerators_used: Optional[int] = None
    threads: Optional[int] = None
    compiler_flags: Optional[str] = None
    timed_region: Optional[str] = Field(None, description="what lies between start and stop of the clock")
    input: Optional[str] = Field(None, description="synthetic, or a file with its hash")
    weights: Optional[str] = None
    model_variant: Optional[str] = Field(None, description="when the source names another head or checkpoint")
    other: dict[str, str] = Field(default_factory=dict)


class Run(Frozen):
    """One independent run: raw values, nothing dropped."""

    start_utc: str
    duration_s: Optional[float] = Field(None, gt=0, description="wall time of the timed calls together, seconds; null: an adopted file does not say")
    cpu_s: Optional[float] = Field(None, ge=0, description="CPU time of the process in that time, seconds")
    warmup_s: tuple[float, ...] = Field((), description="latency of each warm-up call, seconds (kept)")
    values_s: tuple[float, ...] = Field(description="latency of each timed call, seconds")
    errors: tuple[str, ...] = ()
    ttft_s: tuple[float, ...] = Field((), description="time to the first token of each timed call, seconds; generation only")
    tpot_s: tuple[float, ...] = Field((), description="time per token after the first of each timed call, seconds; generation only")
    waited_s: Optional[float] = Field(None, ge=0, description="time the threads were ready to run and had no CPU, seconds")
    others_cpu_s: Optional[float] = Field(None, ge=0, description="CPU time that everything else on the host used meanwhile, seconds")
    load_1min: Optional[float] = Field(None, ge=0, description="load average of the last minute at the end of the run")
    cpu_clock_hz: Optional[float] = Field(None, ge=0, description="mean clock of the CPUs at the end of the run, Hz")
    accelerator_clock_hz: Optional[float] = Field(None, ge=0, description="lowest clock of the accelerators at the end of the run, Hz")
    accelerator_power_w: Optional[float] = Field(None, ge=0, description="power of the accelerators together at the end of the run, watts")
    requests: Optional[Requests] = Field(None, description="of an endpoint: every request; `values_s` are the latencies of those answered")


class ClockProof(Frozen):
    """What shows that the clock stops when the work is done, and not when it has been handed over."""

    single_s: float = Field(ge=0, description="one call, the quickest of the repeats, seconds")
    double_s: float = Field(ge=0, description="two calls issued before one wait, seconds")
    read_back_s: Optional[float] = Field(None, ge=0, description="one call with its answer read on the host; null: the target offers no answer")
    repeats: int = Field(ge=1)
    verdict: Literal["proven", "dispatch_only", "unproven"]
    because: str


class Taken(Frozen):
    """How a measurement was taken and why it ended. ``session`` joins what was measured in turns."""

    session: str = Field(description="the same for everything that was measured in turns")
    together_with: tuple[str, ...] = Field((), description="settings that took turns with this one, run by run")
    rounds: int = Field(ge=0, description="runs asked for at least")
    ended: Literal["narrow", "budget", "failed", "interrupted", "one_call"] = Field(description="why measuring stopped")
    ended_because: str
    metric: str = Field(description="the metric whose interval decides when to stop")
    width_asked: float = Field(ge=0, description="half width of its interval at which measuring stops, fraction of the value")
    width: Optional[float] = Field(None, ge=0, description="half width reached; null: no interval")
    budget_s: float = Field(ge=0, description="time for the timed values, seconds")
    warm_up: Literal["settled", "cut_off"] = Field(description="did the start-up pass before the first timed call")
    overhead_s: Optional[float] = Field(None, ge=0, description="what an empty call takes in this harness, seconds")
    clock: Optional[ClockProof] = Field(None, description="null: not checked")


class Measurement(Record):
    """Step 4: one target, one setting. Measured records have runs; published ones have values."""

    schema_: Literal["measurement/1"] = Field("measurement/1", alias="schema")
    target: str = Field(description="name of the target in the params file, or `cpu` for this host's CPU")
    instance_type: Optional[str] = None
    system: Optional[System] = None
    settings: Settings
    scenario: Literal["single_stream", "offline", "server", "generate", "unknown"]
    result_unit: Literal["inference", "token", "image", "sequence"] = "inference"
    latency_of: Literal["batch", "token", "request"] = "batch"
    results_per_call: Optional[int] = Field(None, description="useful results of one call (batch, or batch x tokens)")
    runs: tuple[Run, ...] = ()
    values: dict[str, float] = Field(
        default_factory=dict, description="metric -> value: where there are no runs, and of an adopted file what its raw latencies do not give"
    )
    settled: Optional[bool] = None
    valid: Optional[bool] = Field(None, description="null: a figure without runs cannot be judged")
    validity: str = Field("", description="why it is valid or not")
    printed: dict[str, str] = Field(default_factory=dict, description="digits as the source printed them")
    load: Optional[Load] = Field(None, description="of an endpoint: how the requests were sent, and what the load generator found about itself")
    taken: Optional[Taken] = Field(None, description="how it was taken; null: not by this code, or by an earlier release")

    @model_validator(mode="after")
    def _evidence_matches_its_grade(self) -> "Measurement":
        if self.source.grade == "measured" and (not self.runs or self.system is None or self.results_per_call is None):
            raise ValueError("a measured record needs runs with raw values, the system and results_per_call")
        if self.source.grade == "measured" and any(run.duration_s is None for run in self.runs):
            raise ValueError("a measured run has a duration")
        if self.source.grade in ("published", "estimated") and (self.runs or not self.values):
            raise ValueError(f"a {self.source.grade} record has values and no runs")
        unknown = [name for name in self.values if name not in METRICS]
        if unknown:
            raise ValueError(f"unknown metric {unknown[0]!r}; nearest: {', '.join(nearest(unknown[0], METRICS)) or 'none'}")
        return self

    @property
    def latencies_s(self) -> list[float]:
        """All timed calls of all runs, seconds."""
        return [value for run in self.runs for value in run.values_s]

    def quantity(self, name: str, confidence: float = 0.95) -> Quantity:
        """Derive a metric from the raw values, or read it from ``values``; absent with the reason.

        Percentiles carry a distribution-free interval with runs as the unit
        (:func:`neuronfit.stats.percentile_interval_of_runs`) and are absent below the sample size at
        which one exists (:func:`neuronfit.stats.samples_needed`). Where the runs are too few or too
        unlike for it, the ends are the smallest and largest value, without a confidence. Throughput is results over wall
        time of each run; its value is the median over runs and its interval spans the runs.
        """
        unit = metric(name).unit
        known = {"unit": unit, "grade": self.grade, "record": self.id or None}
        if not self.runs:
            if name in self.values:
                return Quantity(value=self.values[name], **known)
            return absent(unit, f"{self.grade} record without {metric(name).label}")
        if any(run.requests is not None for run in self.runs):
            return derived(self, name, confidence)
        if name in self.values:  # an adopted file: what its raw latencies do not give
            return Quantity(value=self.values[name], **known)
        if name == "throughput_per_s":
            rates = [len(run.values_s) * (self.results_per_call or 0) / run.duration_s for run in self.runs if run.values_s and run.duration_s]
            if not rates:
                return absent(unit, self.validity or "no timed call finished")
            return Quantity(value=stats.median(rates), low=min(rates), high=max(rates), **known)
        kind, _, statistic = name.removesuffix("_s").rpartition("_")
        runs = [values for run in self.runs if (values := self._values(run, kind))]
        values = [value for run in runs for value in run]
        if not values and self.latencies_s:
            return absent(unit, f"not derived from call latencies: {name}")
        if not values:
            return absent(unit, self.validity or "no timed call finished")
        if statistic == "mean":
            return Quantity(value=sum(values) / len(values), **known)
        quantile = {"p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99}.get(statistic)
        if quantile is None:
            return absent(unit, f"not derived from call latencies: {name}")
        needed = stats.samples_needed(quantile, confidence)
        if len(values) < needed:
            return absent(unit, f"{len(values)} samples; {metric(name).label} needs {needed}")
        value = stats.percentile(values, quantile)
        interval = stats.percentile_interval_of_runs(runs, quantile, confidence)
        if interval is None:
            why = f"{len(values)} values of {len(runs)} runs count as {stats.effective_samples(runs, quantile, confidence):.0f}: the ends are the extremes"
            return Quantity(value=value, low=min(values), high=max(values), why=why, **known)
        return Quantity(value=value, low=min(interval[0], value), high=max(interval[1], value), confidence=confidence, **known)

    @staticmethod
    def _values(run: Run, kind: str) -> tuple[float, ...]:
        return {"latency": run.values_s, "ttft": run.ttft_s, "tpot": run.tpot_s}.get(kind, ())


class Difference(Frozen):
    """A setting in which two sides differ."""

    setting: str
    baseline: str
    candidate: str
    matters: bool = Field(description="it changes what is being compared, so the pair is not comparable")


class Pair(Frozen):
    """One baseline figure against one candidate figure. A ratio is candidate / baseline."""

    candidate: str
    mode: Literal["matched", "best"] = Field(description="same batch on both sides, or each side's best")
    baseline_record: str
    candidate_record: str
    throughput: Quantity = Field(description="ratio")
    latency_p50: Quantity = Field(description="ratio")
    latency_p99: Quantity = Field(description="ratio")
    verdict: Literal["faster", "slower", "same_within_margin", "inconclusive", "not_comparable"]
    differences: tuple[Difference, ...] = ()
    sentence: str


class Comparison(Record):
    """Step 4's conclusion: every target's headline figure, and the pairs."""

    schema_: Literal["comparison/1"] = Field("comparison/1", alias="schema")
    bottom_line: str
    headline: dict[str, str] = Field(description="target -> id of the measurement shown for it")
    pairs: tuple[Pair, ...] = ()
    margin: float
    confidence: float


class ParitySide(Frozen):
    """What one side computed its outputs with."""

    target: str
    instance_type: Optional[str] = None
    host: str = Field(description="short name of the machine on which the outputs were computed")
    computed_utc: str
    precision: Optional[str] = None
    autocast: Optional[str] = None
    route: Optional[str] = None
    software: Optional[str] = None
    weights: str = Field(description="random with its seed, or the files")
    weights_sha256: str
    inputs: str = Field(description="where the inputs come from")
    inputs_sha256: str = Field(description="of the inputs as they were read")
    fed_sha256: str = Field(description="of the token ids and masks, or pixels, as the model got them")
    file_sha256: Optional[str] = Field(None, description="of the file that brought the outputs here; null: computed here")


class ParityMetric(Frozen):
    """One number about how far two sides' outputs agree."""

    metric: str
    statistic: Literal["worst", "mean", "share", "baseline", "candidate", "difference"] = Field(
        description="worst or mean over the inputs, a share of them; of a labelled file each side's share, and candidate minus baseline"
    )
    value: Quantity
    samples: int = Field(ge=0, description="inputs behind the number")
    tolerance: Optional[float] = Field(None, description="the bound that this row has to keep; null: shown, not judged")
    kept: Optional[bool] = Field(None, description="null: not judged, or the interval holds the bound")


class Parity(Record):
    """Step 4, before speed: do two targets give the same answers on the same inputs and weights?"""

    schema_: Literal["parity/1"] = Field("parity/1", alias="schema")
    baseline: ParitySide
    candidate: ParitySide
    verdict: Literal["pass", "fail", "not_comparable", "inconclusive"]
    level: Literal["numerical", "answers", "labelled"] = Field(description="what the verdict stands for")
    bottom_line: str
    judged_by: str = Field(description="the metric that decides")
    metrics: tuple[ParityMetric, ...] = ()
    samples: int = Field(ge=0, description="inputs compared")
    compared: str = Field(description="what of the outputs was compared")
    system: Optional[System] = Field(None, description="the host of the candidate")
