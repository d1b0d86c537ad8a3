"""Every kind of record: immutable evidence and conclusions, one JSON file each.

A record has a header (schema, id, time, workload, source, findings) and a body. Records are
written once and never edited: the id is a hash of the content, so a changed file is noticed when
it is read. Numbers are SI; an absent number is ``null`` with a reason. Statistics of a
:class:`Measurement` are *derived on read* from its raw values and never stored.

Schema version 1 of each kind is pinned by golden files in ``tests/data/records``.
"""

from __future__ import annotations

import hashlib
import json
from datetime import datetime, timezone
from enum import Enum
from typing import Annotated, Any, Literal, Optional, Union

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, model_validator

from neuronfit import stats
from neuronfit.errors import BadRecord, nearest
from neuronfit.provenance import Grade, Quantity, Source, absent
from neuronfit.system import System
from neuronfit.units import METRICS, metric

__all__ = [
    "AnyRecord",
    "BucketAdvice",
    "BucketChoice",
    "Comparison",
    "Compatibility",
    "CompatibilityOfTarget",
    "Compile",
    "CompileOfBucket",
    "CompileOfTarget",
    "Cost",
    "CostOfTarget",
    "Decision",
    "Difference",
    "Finding",
    "Gate",
    "KINDS",
    "Measurement",
    "NextMeasurement",
    "OperatorAnalysis",
    "OperatorUse",
    "Pair",
    "Payback",
    "PaybackOfTarget",
    "Profile",
    "Record",
    "Run",
    "STEPS",
    "Settings",
    "Severity",
    "Situation",
    "SmallestFit",
    "TrialPlan",
    "UnsupportedOperator",
    "Utilization",
    "UtilizationOfTarget",
    "WorkloadRef",
    "read",
]


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, populate_by_name=True)


class Severity(str, Enum):
    """How much a finding matters. ``waiting``: evidence is missing and ``next`` says how to get it."""

    BLOCKER = "blocker"
    WARNING = "warning"
    WAITING = "waiting"
    NOTE = "note"

    def __str__(self) -> str:
        return self.value


class Finding(_Frozen):
    """Something a reader must know: how bad, a stable code, the value and the limit, what to do."""

    severity: Severity
    code: str = Field(pattern=r"^[a-z0-9_]+$")
    because: str
    next: Optional[str] = None
    target: Optional[str] = None


class WorkloadRef(_Frozen):
    """Which question a record belongs to."""

    name: str
    fingerprint: str = Field(description="hash of model, task, weights and input lengths")


def _now() -> str:
    return datetime.now(timezone.utc).isoformat(timespec="microseconds").replace("+00:00", "Z")


class Record(_Frozen):
    """The common header."""

    schema_: str = Field(alias="schema")
    id: str = ""
    created_utc: str = Field(default_factory=_now)
    workload: WorkloadRef
    source: Source
    findings: tuple[Finding, ...] = ()

    @property
    def kind(self) -> str:
        return self.schema_.partition("/")[0]

    @property
    def grade(self) -> Grade:
        return Grade(self.source.grade)

    def content(self) -> dict[str, Any]:
        """Everything but the id, as plain JSON values."""
        body = self.model_dump(mode="json", by_alias=True)
        body.pop("id")
        return body

    def digest(self) -> str:
        """Content hash: the first 16 hex digits of sha256 over the canonical JSON of :meth:`content`."""
        return hashlib.sha256(_canonical(self.content())).hexdigest()[:16]

    def sealed(self) -> "Record":
        """The same record with its id filled in."""
        return self.model_copy(update={"id": self.digest()})

    def says_the_same_as(self, other: "Record") -> bool:
        """Equal in everything but id and time."""
        mine, theirs = self.content(), other.content()
        mine.pop("created_utc"), theirs.pop("created_utc")
        return mine == theirs

    def to_json(self) -> str:
        """The file's text: readable, one newline at the end."""
        return json.dumps({"schema": self.schema_, "id": self.id, **self.content()}, indent=1, ensure_ascii=False) + "\n"


# -- step 1: what is asked --------------------------------------------------------------------


class Situation(_Frozen):
    """One of the eight situations in which a move is worth considering, or is not."""

    name: str
    applies: Optional[bool] = Field(description="null: not known from the params file")
    because: str
    advice: str


class Profile(Record):
    """Step 1: the workload, its size, its traffic and what stands around it."""

    schema_: Literal["profile/1"] = Field("profile/1", alias="schema")
    question: dict[str, Any] = Field(description="the whole params file, defaults filled in")
    bottom_line: str
    parameters: Quantity
    weights: dict[str, Quantity] = Field(description="precision -> bytes of the weights")
    memory: Optional[Quantity] = Field(None, description="weights and activations of the largest shape, bytes")
    rate_mean: Quantity
    rate_peak: Quantity
    monthly_volume: Quantity
    hourly_rate_per_s: tuple[float, ...] = Field((), description="rate by hour of day, results per second")
    model_share: Quantity
    amdahl_bound: Quantity = Field(description="largest speed-up of a request, whatever the accelerator (ratio)")
    situations: tuple[Situation, ...] = ()


# -- step 2: may it run -----------------------------------------------------------------------


class OperatorUse(_Frozen):
    """One operator of the exported graph with its documented status."""

    name: str
    calls: int
    status: Literal["listed", "restricted", "unsupported", "no_statement"]
    because: str


class CompatibilityOfTarget(_Frozen):
    """Software path, its horizon, and whether the weights fit."""

    target: str
    instance_type: str
    path: str
    supported: Optional[bool] = Field(description="null: nothing documented")
    title: str
    sdk: Optional[str] = None
    torch: Optional[str] = None
    python: Optional[str] = None
    status: str
    until: Optional[str] = None
    as_of: Optional[str] = None
    advice: Optional[str] = None
    command: Optional[str] = Field(None, description="what compiles or serves the model on this path; capitals are placeholders")
    packages: dict[str, str] = Field(default_factory=dict, description="pins as the one release lists them together")
    contradictions: tuple[str, ...] = ()
    source: Optional[str] = None
    memory_needed: Quantity
    memory_available: Quantity
    fits: Optional[bool]
    findings: tuple[Finding, ...] = ()


class SmallestFit(_Frozen):
    """The smallest instance of one vendor on which the model fits, with one tensor-parallel degree."""

    vendor: Literal["aws_neuron", "nvidia"]
    instance_type: str
    tp_degree: int
    copies: int = Field(description="copies of the model side by side on the instance")
    used: Quantity = Field(description="bytes of one rank (logical NeuronCore or GPU) in use")
    room: Quantity = Field(description="bytes of one rank")
    headroom: Quantity = Field(description="free fraction of a rank's memory")
    remarks: tuple[str, ...] = Field((), description="what is padded or copied at this degree")


class Compatibility(Record):
    """Step 2. The strongest positive statement is `no documented blocker found`."""

    schema_: Literal["compatibility/1"] = Field("compatibility/1", alias="schema")
    bottom_line: str
    targets: tuple[CompatibilityOfTarget, ...]
    graph_how: str = Field(description="how the operators were obtained")
    operators: tuple[OperatorUse, ...] = ()
    smallest: tuple[SmallestFit, ...] = ()


# -- step 3: does it compile ------------------------------------------------------------------


class CompileOfBucket(_Frozen):
    """One compilation: one shape on one target, in a process of its own."""

    shape: dict[str, Optional[int]] = Field(description="batch_size, sequence_length, output_length")
    status: Literal["compiled", "failed", "waiting"]
    because: str
    next: Optional[str] = None
    code: Optional[str] = Field(None, description="of a failure: the vendor's code, or our own name")
    steps: tuple[str, ...] = Field((), description="of a failure: what to try, in order")
    proof: Optional[str] = Field(None, description="why this counts as compiled")
    compile_time: Optional[Quantity] = None
    peak_memory: Optional[Quantity] = Field(None, description="host memory of the compiling process and its children together, bytes")
    artefact_size: Optional[Quantity] = Field(None, description="bytes")
    artefact_sha256: Optional[str] = None
    cached: Optional[bool] = Field(None, description="null: not stated")
    cached_because: Optional[str] = None
    versions: dict[str, str] = Field(default_factory=dict)
    flags: tuple[str, ...] = ()
    log: Optional[str] = Field(None, description="file with what the process printed, in the dossier; kept where it failed")


class UnsupportedOperator(_Frozen):
    """An operator that ``torch_neuronx.analyze`` does not take, in its own words."""

    name: str
    failure_at: Optional[str] = None
    call: Optional[str] = Field(None, description="where it is called, the innermost line")


class OperatorAnalysis(_Frozen):
    """What ``torch_neuronx.analyze`` says: each operator compiled alone. Names are those of a TorchScript trace."""

    shape: dict[str, Optional[int]]
    support: Quantity = Field(description="share of operators that are taken, fraction")
    supported: dict[str, int] = Field(default_factory=dict, description="operator -> calls")
    unsupported: tuple[UnsupportedOperator, ...] = ()
    versions: dict[str, str] = Field(default_factory=dict)
    because: str = ""


class CompileOfTarget(_Frozen):
    """The compilations of one target, or the wait for them. Sums are over its buckets."""

    target: str
    path: str
    status: Literal["compiled", "failed", "waiting", "not_needed"]
    because: str
    next: Optional[str] = None
    instance_type: Optional[str] = None
    compile_time: Optional[Quantity] = Field(None, description="all buckets together, s")
    peak_memory: Optional[Quantity] = Field(None, description="host memory of the hungriest bucket, bytes")
    artefact_bytes: Optional[int] = Field(None, description="all buckets together")
    artefact_sha256: Optional[str] = Field(None, description="where there is one bucket")
    versions: dict[str, str] = Field(default_factory=dict)
    flags: tuple[str, ...] = ()
    shape: Optional[dict[str, Optional[int]]] = Field(None, description="where there is one bucket")
    code: Optional[str] = None
    steps: tuple[str, ...] = ()
    buckets: tuple[CompileOfBucket, ...] = ()
    analysis: Optional[OperatorAnalysis] = None
    grade: Optional[Grade] = Field(None, description="of this row's evidence; null: that of the record")
    record: Optional[str] = Field(None, description="id of the record the row was taken from; null: this one")


class BucketChoice(_Frozen):
    """Some sequence lengths to compile for; an input is padded to the next one."""

    count: int = Field(ge=1, description="number of buckets")
    edges: tuple[int, ...] = Field(description="tokens, ascending")
    waste: Quantity = Field(description="share of the tokens computed that are padding, fraction")
    compilations: Quantity = Field(description="batch sizes x buckets x targets")


class BucketAdvice(_Frozen):
    """How many compiled lengths the traffic needs, and which."""

    sentence: str
    rule: str
    present: Optional[BucketChoice] = Field(None, description="the lengths written in workload.shapes")
    choices: tuple[BucketChoice, ...] = Field((), description="for each number of buckets the edges that pad least")
    recommended: Optional[int] = Field(None, description="number of buckets; null: the distribution of lengths is not known")
    batch_sizes: tuple[int, ...] = ()
    targets: tuple[str, ...] = Field((), description="the targets that are compiled for ahead of time")


class Compile(Record):
    """Step 3."""

    schema_: Literal["compile/1"] = Field("compile/1", alias="schema")
    bottom_line: str
    targets: tuple[CompileOfTarget, ...]
    advice: Optional[BucketAdvice] = None
    system: Optional[System] = None

    def row(self, target: str) -> Optional[CompileOfTarget]:
        """The row of a target with the grade of its evidence and the record it comes from filled in."""
        found = next((row for row in self.targets if row.target == target), None)
        if found is None or found.status not in ("compiled", "failed"):
            return found
        return found.model_copy(update={"grade": found.grade or self.grade, "record": found.record or self.id or None})


# -- step 4: how fast -------------------------------------------------------------------------


class Settings(_Frozen):
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


class Run(_Frozen):
    """One independent run: raw values, nothing dropped."""

    start_utc: str
    duration_s: float = Field(gt=0, description="wall time of the timed calls together, seconds")
    cpu_s: Optional[float] = Field(None, ge=0, description="CPU time of the process in that time, seconds")
    warmup_s: tuple[float, ...] = Field((), description="latency of each warm-up call, seconds (kept)")
    values_s: tuple[float, ...] = Field(description="latency of each timed call, seconds")
    errors: tuple[str, ...] = ()


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
    values: dict[str, float] = Field(default_factory=dict, description="metric -> value, where there are no runs")
    settled: Optional[bool] = None
    valid: Optional[bool] = Field(None, description="null: a figure without runs cannot be judged")
    validity: str = Field("", description="why it is valid or not")
    printed: dict[str, str] = Field(default_factory=dict, description="digits as the source printed them")

    @model_validator(mode="after")
    def _evidence_matches_its_grade(self) -> "Measurement":
        if self.source.grade == "measured" and (not self.runs or self.system is None or self.results_per_call is None):
            raise ValueError("a measured record needs runs with raw values, the system and results_per_call")
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

        Percentiles carry a distribution-free interval and are absent below the sample size at
        which it exists (:func:`neuronfit.stats.samples_needed`). Throughput is results over wall
        time of each run; its value is the median over runs and its interval spans the runs.
        """
        unit = metric(name).unit
        known = {"unit": unit, "grade": self.grade, "record": self.id or None}
        if not self.runs:
            if name in self.values:
                return Quantity(value=self.values[name], **known)
            return absent(unit, f"{self.grade} record without {metric(name).label}")
        if name == "throughput_per_s":
            rates = [len(run.values_s) * (self.results_per_call or 0) / run.duration_s for run in self.runs if run.values_s]
            if not rates:
                return absent(unit, self.validity or "no timed call finished")
            return Quantity(value=stats.median(rates), low=min(rates), high=max(rates), **known)
        values = self.latencies_s
        if not values:
            return absent(unit, self.validity or "no timed call finished")
        if name == "latency_mean_s":
            return Quantity(value=sum(values) / len(values), **known)
        quantile = {"latency_p50_s": 0.5, "latency_p90_s": 0.9, "latency_p95_s": 0.95, "latency_p99_s": 0.99}.get(name)
        if quantile is None:
            return absent(unit, f"not derived from call latencies: {name}")
        interval = stats.percentile_interval(values, quantile, confidence)
        if interval is None:
            needed = stats.samples_needed(quantile, confidence)
            return absent(unit, f"{len(values)} samples; {metric(name).label} needs {needed}")
        value = min(max(stats.percentile(values, quantile), interval[0]), interval[1])
        return Quantity(value=value, low=interval[0], high=interval[1], confidence=confidence, **known)


class Difference(_Frozen):
    """A setting in which two sides differ."""

    setting: str
    baseline: str
    candidate: str
    matters: bool = Field(description="it changes what is being compared, so the pair is not comparable")


class Pair(_Frozen):
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


# -- step 5: how busy -------------------------------------------------------------------------


class UtilizationOfTarget(_Frozen):
    """Offered load against capacity. All rates are results per second."""

    target: str
    instance_type: str
    capacity_per_instance: Quantity
    instances: Quantity
    offered_mean: Quantity
    offered_peak: Quantity
    busy_mean: Quantity
    busy_peak: Quantity
    sentence: str


class Utilization(Record):
    """Step 5."""

    schema_: Literal["utilization/1"] = Field("utilization/1", alias="schema")
    bottom_line: str
    targets: tuple[UtilizationOfTarget, ...] = ()


# -- step 6: what it costs --------------------------------------------------------------------


class CostOfTarget(_Frozen):
    """Money per million useful results, on one price basis."""

    target: str
    instance_type: str
    result_unit: str
    price: Quantity
    price_as_of: Optional[str] = Field(None, description="date on which the price was seen to hold")
    full_load: Quantity = Field(description="USD per million at utilization 1")
    expected: Quantity = Field(description="USD per million at the expected utilization")
    per_month: Quantity = Field(description="USD per month for the instances that the peak needs")
    efficiency: Quantity = Field(description="results per second per dollar-hour")
    break_even_throughput: Quantity = Field(description="above this rate the baseline is the cheaper one at full load")
    break_even_utilization: Quantity = Field(description="candidate is cheaper above this busy fraction")
    break_even_price: Quantity = Field(description="candidate is cheaper below this hourly price")
    other_bases: dict[str, Quantity] = Field(default_factory=dict, description="purchase option -> USD per million, full load")
    sentence: str


class Cost(Record):
    """Step 6."""

    schema_: Literal["cost/1"] = Field("cost/1", alias="schema")
    bottom_line: str
    region: str
    purchase_option: str
    targets: tuple[CostOfTarget, ...] = ()


# -- step 7: when it pays back ----------------------------------------------------------------


class PaybackOfTarget(_Frozen):
    """Saving against spending for one candidate."""

    target: str
    saving_per_month: Quantity
    upkeep_per_month: Quantity
    effort: Quantity = Field(description="person-days")
    effort_usd: Quantity
    payback_month: Quantity = Field(description="median over draws; absent when it does not pay back within the horizon")
    probability: Quantity = Field(description="share of draws that pay back within the horizon")
    cumulative_usd: tuple[float, ...] = Field((), description="net position at the end of months 0 (nothing saved yet) to the horizon, likely case")
    volume_needed: Quantity = Field(description="times today's volume at which it would pay back within the horizon (ratio)")
    sentence: str


class Payback(Record):
    """Step 7."""

    schema_: Literal["payback/1"] = Field("payback/1", alias="schema")
    bottom_line: str
    horizon_months: int
    targets: tuple[PaybackOfTarget, ...] = ()


# -- step 8: the controlled test --------------------------------------------------------------


class TrialPlan(Record):
    """Step 8: criteria, stages, guardrails and rollback, fixed before the first request."""

    schema_: Literal["trial_plan/1"] = Field("trial_plan/1", alias="schema")
    bottom_line: str
    candidate: str
    baseline: str
    hypothesis: str
    criteria: tuple[str, ...]
    stages: tuple[dict[str, Any], ...]
    guardrails: tuple[str, ...]
    rollback: tuple[str, ...]
    endpoints: dict[str, Optional[str]]
    status: Literal["planned", "running", "passed", "failed", "aborted", "inconclusive"] = "planned"


# -- step 0: the decision ---------------------------------------------------------------------


class Gate(_Frozen):
    """One question on the way to `migrate`, in order."""

    name: str
    status: Literal["pass", "fail", "open"]
    because: str
    grade: Optional[Grade] = None
    record: Optional[str] = None


class NextMeasurement(_Frozen):
    """The cheapest measurement that could change the verdict."""

    target: str
    why: str
    command: str
    host: str
    minutes: Optional[float] = None
    usd: Optional[Quantity] = None


class Decision(Record):
    """Step 0: should it move?"""

    schema_: Literal["decision/1"] = Field("decision/1", alias="schema")
    verdict: Literal["migrate", "pilot", "right_size_first", "stay", "gather_evidence"]
    headline: str = Field(description="the verdict in a few words")
    sentence: str
    reasons: tuple[str, ...]
    candidate: Optional[str] = None
    gates: tuple[Gate, ...]
    weakest_grade: Optional[Grade]
    next_measurement: Optional[NextMeasurement] = None


AnyRecord = Annotated[
    Union[Profile, Compatibility, Compile, Measurement, Comparison, Utilization, Cost, Payback, TrialPlan, Decision],
    Field(discriminator="schema_"),
]

KINDS: dict[str, type[Record]] = {
    kind.model_fields["schema_"].default.partition("/")[0]: kind
    for kind in (Profile, Compatibility, Compile, Measurement, Comparison, Utilization, Cost, Payback, TrialPlan, Decision)
}

STEPS: dict[int, tuple[str, str]] = {
    1: ("workload", "profile"),
    2: ("compatibility", "compatibility"),
    3: ("compile", "compile"),
    4: ("benchmark", "comparison"),
    5: ("utilization", "utilization"),
    6: ("cost", "cost"),
    7: ("effort", "payback"),
    8: ("controlled_test", "trial_plan"),
    0: ("summary", "decision"),
}
"""Step number -> (notebook name, kind of the record that concludes it), in order of execution."""

_ADAPTER: TypeAdapter[Any] = TypeAdapter(AnyRecord)


def read(text: str, where: str = "record") -> Record:
    """One record from its JSON text.

    Raises :class:`~neuronfit.errors.BadRecord`, always one line, when the text is truncated, is not
    one of our records, has a newer schema, or was edited after it was written.
    """
    try:
        data = json.loads(text)
    except json.JSONDecodeError as error:
        problem = "is empty" if not text.strip() else f"is not complete JSON (line {error.lineno}, column {error.colno})"
        raise BadRecord(f"{where} {problem}", next="copy the file again from the host that wrote it") from None
    schema = data.get("schema") if isinstance(data, dict) else None
    if not isinstance(schema, str) or schema.partition("/")[0] not in KINDS:
        raise BadRecord(f"{where} is not a neuronfit record, its schema is", schema, allowed=", ".join(f"{kind}/1" for kind in KINDS))
    if schema.partition("/")[2] != "1":
        raise BadRecord(f"{where} has schema", schema, allowed=f"{schema.partition('/')[0]}/1", next="update neuronfit on this host")
    try:
        record = _ADAPTER.validate_python(data)
    except ValidationError as error:
        problem = error.errors()[0]
        place = ".".join(str(part) for part in problem["loc"][1:]) or "record"
        raise BadRecord(f"{where}: {place}: {problem['msg']}", problem.get("input"), next="write it again with neuronfit measure") from None
    written = hashlib.sha256(_canonical({key: value for key, value in data.items() if key != "id"})).hexdigest()[:16]
    if record.id != written:
        raise BadRecord(f"{where} was changed after it was written: its id is", record.id, allowed=written, next="restore the original file")
    return record


def _canonical(data: Any) -> bytes:
    return json.dumps(data, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode("utf-8")
