"""The params file: one YAML file is one question.

The models below *are* the documentation of the file: each field has a unit, a default and the
values it allows, and ``params/params.schema.json`` is generated from them. Reading is strict: an
unknown key is an error that names the nearest known key, a wrong type or unit is an error that
says what is allowed. Millisecond keys exist here because people write them; everything that is
stored is SI.

Only what has no sensible default must be given: ``workload``, ``baseline`` and ``candidates``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import date
from pathlib import Path
from typing import Any, Literal, Optional, Union, get_args

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from neuronfit.errors import BadParams, nearest

__all__ = [
    "Effort",
    "Evidence",
    "Model",
    "Objective",
    "Params",
    "Policy",
    "PriceOverride",
    "Pricing",
    "Quality",
    "SECTIONS",
    "Shape",
    "Stage",
    "Surrounding",
    "Target",
    "Task",
    "Traffic",
    "Trial",
    "Workload",
    "json_schema",
    "load",
    "parse",
]

HOURS_PER_MONTH = 730.0
"""8,760 hours a year over 12, the convention of price lists."""

SECONDS_PER_MONTH = HOURS_PER_MONTH * 3600.0

Path_ = Literal[
    "cuda",
    "cpu",
    "neuron_xla",
    "neuron_native",
    "vllm_neuron",
    "nxd_inference",
    "torch_neuron",
    "jax",
    "endpoint",
]


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    @model_validator(mode="before")
    @classmethod
    def _true_is_not_a_number(cls, data: Any) -> Any:
        """Pydantic would read ``true`` as 1; as a word it is refused, under its own key."""
        if not isinstance(data, Mapping):
            return data
        fields = cls.model_fields
        return {
            key: str(value).lower() if isinstance(value, bool) and key in fields and _is_number(fields[key].annotation) else value
            for key, value in data.items()
        }


def _is_number(annotation: Any) -> bool:
    return bool({int, float} & {annotation, *get_args(annotation)})


# -- workload ---------------------------------------------------------------------------------


class Model(_Section):
    """Which model: an architecture, a task, and optionally its weights."""

    config: str = Field(description="path of a Hugging Face config.json, or of a folder that holds one")
    task: str = Field("feature-extraction", description="what the model is asked to do, e.g. fill-mask")
    weights: str = Field("random", description="`random` (speed does not depend on weights) or a folder with weights")


class Shape(_Section):
    """One shape of a call: what is compiled, measured and compared."""

    batch_size: int = Field(ge=1, le=65536, description="sequences per call")
    sequence_length: int = Field(ge=1, description="tokens per input sequence, padding included")
    output_length: Optional[int] = Field(None, ge=1, description="tokens generated per sequence; generation tasks only")


class Quality(_Section):
    """How it is decided that the candidate's answers are as good."""

    metric: Literal["cosine", "max_abs_error", "top1_agreement", "greedy_match"] = "cosine"
    tolerance: float = Field(0.99, ge=0, description="the bound the metric must keep (cosine and agreements: at least)")


class Surrounding(_Section):
    """Something in the request that is not the model."""

    name: str = Field(description="e.g. tokenizer, feature store, post-processing")
    share: float = Field(gt=0, lt=1, description="share of the request's time, fraction")


class Workload(_Section):
    """What is asked for, independent of any machine."""

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$", description="name of the question; the dossier's folder")
    kind: Literal["inference", "training"] = "inference"
    model: Model
    published_as: Optional[str] = Field(None, description="name of this model in published tables; default: `name`")
    shapes: tuple[Shape, ...] = Field((Shape(batch_size=1, sequence_length=128),), min_length=1)
    precision: Literal["fp32", "bf16", "fp16", "int8"] = Field("fp32", description="precision asked for")
    quality: Quality = Quality()
    surroundings: tuple[Surrounding, ...] = ()
    stage: Literal["experiment", "production"] = "production"
    model_changes_per_month: float = Field(0.0, ge=0, description="model updates that need a new compile, per month")

    @model_validator(mode="after")
    def _shares_leave_room_for_the_model(self) -> "Workload":
        total = sum(part.share for part in self.surroundings)
        if total >= 1:
            raise ValueError(f"surroundings: shares sum to {total:g}; they must leave the model a share above 0")
        return self

    @property
    def model_share(self) -> float:
        """Share of a request's time that the model itself takes, fraction (1 when nothing is declared)."""
        return 1.0 - sum(part.share for part in self.surroundings)


# -- traffic and promise ----------------------------------------------------------------------


class Traffic(_Section):
    """How much is asked: a profile. Rates are useful results (inferences) per second."""

    mean_per_s: Optional[float] = Field(None, gt=0, description="mean rate over the month, results per second")
    peak_per_s: Optional[float] = Field(None, gt=0, description="rate in the busiest minute, results per second")
    daily_shape: Literal["flat", "office", "evening"] = Field("flat", description="shape of the day around the mean")
    monthly_volume: Optional[float] = Field(None, gt=0, description="useful results per month")
    concurrency: Optional[int] = Field(None, ge=1, description="requests in flight at the mean rate, if known")
    sequence_lengths: dict[int, float] = Field(
        default_factory=dict,
        description="tokens per input sequence -> share of the requests, e.g. {64: 0.7, 512: 0.3}; counts will do, they are normalised",
    )

    @field_validator("sequence_lengths", mode="before")
    @classmethod
    def _lengths_and_shares(cls, given: Any) -> Any:
        if not isinstance(given, Mapping):
            return given
        for length, share in given.items():
            whole = length if isinstance(length, int) else int(length) if isinstance(length, str) and length.isdecimal() else 0
            if isinstance(length, bool) or whole < 1:
                raise ValueError(f"{length!r} is no length; a whole number of tokens, from 1")
            if isinstance(share, bool) or not isinstance(share, (int, float)) or not 0 < share < float("inf"):
                raise ValueError(f"{share!r} is no share of length {length}; a number above 0")
        return given

    @property
    def length_shares(self) -> dict[int, float]:
        """``sequence_lengths`` in ascending order, shares summing to 1; empty where not declared."""
        total = sum(self.sequence_lengths.values())
        return {length: share / total for length, share in sorted(self.sequence_lengths.items())}

    @model_validator(mode="after")
    def _peak_is_not_below_mean(self) -> "Traffic":
        mean, name = self.mean_per_s, "mean_per_s"
        if mean is None and self.monthly_volume:
            mean, name = self.monthly_volume / SECONDS_PER_MONTH, "the mean that monthly_volume over 730 h gives,"
        if mean and self.peak_per_s and self.peak_per_s < mean:
            raise ValueError(f"peak_per_s: {self.peak_per_s:g} is below {name} {mean:.4g}")
        return self


class Objective(_Section):
    """The promise that must be kept."""

    latency_p50_ms: Optional[float] = Field(None, gt=0, description="bound on the median latency, milliseconds")
    latency_p99_ms: Optional[float] = Field(None, gt=0, description="bound on the 99th percentile latency, milliseconds")
    ttft_p99_ms: Optional[float] = Field(None, gt=0, description="bound on time to first token, milliseconds")
    tpot_p99_ms: Optional[float] = Field(None, gt=0, description="bound on time per output token, milliseconds")
    error_rate: float = Field(0.001, ge=0, lt=1, description="share of requests that may fail, fraction")
    deadline_h: Optional[float] = Field(None, gt=0, description="training: time by which a run must be done, hours")


# -- targets ----------------------------------------------------------------------------------


class Target(_Section):
    """Where it runs, or might run."""

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$", description="short name used on the command line")
    instance_type: str = Field(description="EC2 instance type, e.g. g6.xlarge")
    path: Path_ = Field(description="software path")
    count: Optional[int] = Field(None, ge=1, description="instances; default: as many as the peak needs")
    settings: dict[str, Union[bool, int, float, str]] = Field(
        default_factory=dict, description="what was tuned, e.g. {precision: fp16, batch_size: 8}"
    )


# -- evidence, money, people ------------------------------------------------------------------


class Evidence(_Section):
    """A file to adopt into the dossier."""

    file: str = Field(description="path of a record written by `neuronfit measure`")
    target: str = Field(description="name of the baseline or candidate it speaks for")


class PriceOverride(_Section):
    """The team's own rate for one instance type."""

    instance_type: str
    usd_per_hour: float = Field(gt=0, description="USD per instance-hour")
    as_of: str = Field(description="date of the rate, YYYY-MM-DD", pattern=r"^\d{4}-\d{2}-\d{2}$")
    note: str = Field("", description="where the rate comes from, e.g. enterprise agreement")

    @field_validator("as_of", mode="before")
    @classmethod
    def _yaml_reads_a_date_as_a_date(cls, value: Any) -> Any:
        return value.isoformat() if type(value) is date else value

    @field_validator("as_of")
    @classmethod
    def _on_the_calendar(cls, value: str) -> str:
        date.fromisoformat(value)
        return value


class Pricing(_Section):
    """One price basis for every target."""

    region: str = "us-east-1"
    purchase_option: str = Field("on_demand", description="one purchase option for both sides")
    overrides: tuple[PriceOverride, ...] = ()

    @field_validator("overrides")
    @classmethod
    def _one_rate_each(cls, overrides: tuple[PriceOverride, ...]) -> tuple[PriceOverride, ...]:
        types = [entry.instance_type for entry in overrides]
        doubled = {name for name in types if types.count(name) > 1}
        if doubled:
            raise ValueError(f"two rates are given for {sorted(doubled)[0]}; one each")
        return overrides


class Task(_Section):
    """One piece of migration work."""

    name: str
    low: float = Field(ge=0, description="optimistic, person-days")
    likely: float = Field(ge=0, description="most likely, person-days")
    high: float = Field(ge=0, description="pessimistic, person-days")

    @model_validator(mode="after")
    def _ordered(self) -> "Task":
        if not self.low <= self.likely <= self.high:
            raise ValueError(f"{self.name}: low {self.low:g}, likely {self.likely:g}, high {self.high:g} are not in order")
        return self


DEFAULT_TASKS = (
    Task(name="convert and compile the model", low=2, likely=4, high=10),
    Task(name="build the serving image and deployment", low=2, likely=4, high=8),
    Task(name="validate quality against the baseline", low=2, likely=3, high=8),
    Task(name="pipelines, monitoring and alerts", low=2, likely=4, high=8),
    Task(name="rollback and controlled test", low=1, likely=3, high=6),
    Task(name="train the people on call", low=1, likely=2, high=4),
)
"""A medium migration of one inference service; an assumption, to be replaced by the team's own plan."""


class Effort(_Section):
    """What the move costs in people."""

    tasks: tuple[Task, ...] = Field(DEFAULT_TASKS, description="person-days as low, likely, high")
    day_rate_usd: float = Field(1000.0, ge=0, description="USD per person-day")
    upkeep_days_per_month: float = Field(1.0, ge=0, description="additional upkeep after the move, person-days per month")
    horizon_months: int = Field(36, ge=1, le=120, description="how far ahead payback is looked for, months")
    discount_rate: float = Field(0.0, ge=0, lt=1, description="yearly discount rate, fraction")


# -- trial ------------------------------------------------------------------------------------


class Stage(_Section):
    """One stage of the controlled production test."""

    name: str
    share: float = Field(ge=0, le=1, description="share of production traffic answered by the candidate, fraction")
    duration_min: float = Field(gt=0, description="minimum duration, minutes")


DEFAULT_STAGES = (
    Stage(name="shadow", share=0.0, duration_min=60),
    Stage(name="canary 1 %", share=0.01, duration_min=60),
    Stage(name="canary 10 %", share=0.10, duration_min=120),
    Stage(name="canary 50 %", share=0.50, duration_min=240),
)


class Trial(_Section):
    """The controlled production test, fixed before it starts. Credentials never belong here."""

    candidate: Optional[str] = Field(None, description="name of the candidate to test; default: the one decided for")
    baseline_url: Optional[str] = Field(None, description="endpoint of the baseline")
    candidate_url: Optional[str] = Field(None, description="endpoint of the candidate")
    stages: tuple[Stage, ...] = DEFAULT_STAGES
    latency_margin: float = Field(0.05, ge=0, lt=1, description="p99 may be worse than the baseline's by this fraction")
    max_error_rate: Optional[float] = Field(None, ge=0, lt=1, description="guardrail; default: twice the objective's")
    min_agreement: float = Field(0.99, ge=0, le=1, description="share of paired answers that must agree, fraction")
    rollback: tuple[str, ...] = Field(
        (
            "set the candidate's traffic weight to 0",
            "confirm by responses that the baseline answers every request",
            "keep the candidate's logs and this plan's record",
        ),
        description="steps, in order; exercised once before the first stage",
    )


class Policy(_Section):
    """What counts as different, and what a verdict needs."""

    margin: float = Field(0.05, ge=0, lt=1, description="differences within this fraction are `the same`")
    confidence: float = Field(0.95, gt=0.5, lt=1, description="confidence of intervals, fraction")
    min_utilization: float = Field(0.30, ge=0, le=1, description="mean utilization below which right-sizing comes first")
    runs: int = Field(3, ge=1, le=100, description="independent runs per shape of a measurement")
    budget_s: float = Field(20.0, gt=0, description="time for the timed values of one shape, seconds")


# -- the file ---------------------------------------------------------------------------------


class Params(_Section):
    """A whole question."""

    workload: Workload
    traffic: Traffic = Traffic()
    objective: Objective = Objective()
    baseline: Target
    candidates: tuple[Target, ...] = Field(min_length=1)
    evidence: tuple[Evidence, ...] = ()
    pricing: Pricing = Pricing()
    effort: Effort = Effort()
    trial: Trial = Trial()
    policy: Policy = Policy()

    @field_validator("candidates")
    @classmethod
    def _names_differ(cls, candidates: tuple[Target, ...]) -> tuple[Target, ...]:
        names = [target.name for target in candidates]
        doubled = {name for name in names if names.count(name) > 1}
        if doubled:
            raise ValueError(f"two candidates are named {sorted(doubled)[0]!r}; names must differ")
        return candidates

    @model_validator(mode="after")
    def _names_are_known(self) -> "Params":
        names = [target.name for target in self.targets]
        if len(set(names)) < len(names):
            raise ValueError(f"baseline and a candidate are both named {self.baseline.name!r}; names must differ")
        for place, given, known in [("evidence", entry.target, names) for entry in self.evidence] + [
            ("trial.candidate", self.trial.candidate, names[1:])
        ]:
            if given is not None and given not in known:
                what = "target" if known is names else "candidate"
                raise ValueError(f"{place}: no {what} is named {given!r}; named are {', '.join(known)}{_nearest_text(given, known)}")
        return self

    @property
    def targets(self) -> tuple[Target, ...]:
        """Baseline first, then the candidates."""
        return (self.baseline, *self.candidates)


SECTIONS = tuple(Params.model_fields)
"""Top-level keys of the file, the same names as the notebooks' parameters."""


def load(path: Union[str, Path]) -> Params:
    """Read a params file. Raises :class:`~neuronfit.errors.BadParams`, always one line."""
    path = Path(path)
    hint = f"neuronfit run {path}"
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        beside = [str(found) for folder in (path.parent / "params", path.parent) for found in sorted(folder.glob("*.y*ml"))]
        names = {Path(found).name: found for found in reversed(beside)}
        near = [names[name] for name in nearest(path.name, names)] or beside[:3]
        raise BadParams("no such params file", str(path), allowed=", ".join(near) or "a YAML file") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or ("it is not text" if isinstance(error, UnicodeDecodeError) else str(error))
        raise BadParams(f"cannot read the params file ({reason})", str(path), allowed="a YAML file in UTF-8", next="check the path") from None
    try:
        data = yaml.load(text, Loader=_StrictLoader)
    except (ValueError, LookupError, AttributeError, RecursionError) as error:  # a tag or date that PyYAML itself trips over
        reason = "nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise BadParams(f"not valid YAML ({reason})", str(path), next=f"write plain words and numbers, then {hint}") from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"{path}, line {mark.line + 1}, column {mark.column + 1}" if mark else str(path)
        problem = getattr(error, "problem", None) or str(error)
        raise BadParams(f"not valid YAML ({problem})", where, next=f"fix the line, then {hint}") from None
    return parse(data, where=str(path))


def parse(data: Any, where: str = "parameters") -> Params:
    """Turn a mapping of sections into :class:`Params`; ``where`` names its origin in messages."""
    if not isinstance(data, Mapping):
        kind = {list: "a list", str: "a string", type(None): "empty"}.get(type(data), type(data).__name__)
        raise BadParams(
            f"{where} is {kind}, not a mapping of sections",
            allowed=", ".join(SECTIONS),
            next="start from params/bert-base-uncased.yaml",
        )
    try:
        return Params.model_validate(dict(data))
    except ValidationError as error:
        raise _one_line(error, where) from None


def json_schema() -> dict[str, Any]:
    """The JSON schema of a params file, for editors (``params/params.schema.json``)."""
    schema = Params.model_json_schema()
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    schema["title"] = "neuronfit params file"
    return schema


# -- reading strictly -------------------------------------------------------------------------


class _StrictLoader(yaml.SafeLoader):
    """YAML that refuses a key written twice and reads ``1e9`` as the number it looks like."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[Any] = set()
        for key_node, _ in node.value:
            if key_node.tag == "tag:yaml.org,2002:merge":
                continue
            key = self.construct_object(key_node, deep=True)
            if not isinstance(key, (str, int, float, bool, type(None))):
                raise yaml.constructor.ConstructorError(None, None, "a key must be a plain word", key_node.start_mark)
            if key in seen:
                raise yaml.constructor.ConstructorError(None, None, f"the key {key!r} is written twice", key_node.start_mark)
            seen.add(key)
        return super().construct_mapping(node, deep)


_StrictLoader.add_implicit_resolver("tag:yaml.org,2002:float", re.compile(r"^[-+]?[0-9]+(\.[0-9]*)?[eE][-+]?[0-9]+$"), list("-+0123456789"))


def _one_line(error: ValidationError, where: str) -> BadParams:
    """The first problem of a validation, as what / value / allowed / next."""
    problems = [
        entry
        for entry in error.errors()
        if not any(len(other["loc"]) > len(entry["loc"]) and other["loc"][: len(entry["loc"])] == entry["loc"] for other in error.errors())
    ]  # a list that is too short because its entry was refused is one problem
    problem = next((entry for entry in problems if entry["type"] == "extra_forbidden"), problems[0])
    keys = [str(part) for part in problem["loc"]]
    if "settings" in keys:  # what follows the setting's name is pydantic's name for a type
        keys = keys[: keys.index("settings") + 2]
        problems = [entry for entry in problems if entry is problem or "settings" not in entry["loc"]]
    place = f"{where}: {'.'.join(keys)}" if keys else where
    more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
    kind, context, value = problem["type"], problem.get("ctx", {}), problem.get("input")
    if kind == "extra_forbidden":
        known = _fields_at(problem["loc"][:-1])
        near = nearest(keys[-1], known)
        allowed = f"{near[0]} (did you mean that?); all: {', '.join(known)}" if near else ", ".join(known)
        return BadParams(f"{where}: unknown key{more}", ".".join(keys), allowed=allowed)
    if kind == "missing":
        return BadParams(f"{place} is missing{more}", allowed="a value; it has no default", next="add the key")
    if kind == "literal_error":
        options = [option.strip(" '") for option in context["expected"].replace(" or ", ", ").split(",")]
        near = _nearest_text(value, options) if isinstance(value, str) else ""
        return BadParams(f"{place}{more}", value, allowed=f"{', '.join(options)}{near}")
    description = _description_at(problem["loc"])
    message = problem["msg"].removeprefix("Value error, ")
    for python, plain in _PLAIN_WORDS:
        message = message.replace(python, plain)
    message = message[:1].lower() + message[1:]
    if "settings" in problem["loc"]:
        message = "true, false, a number or a word"
    allowed = "; ".join(part for part in (message, description) if part)
    if kind == "value_error" and isinstance(value, (Mapping, BaseModel, list, tuple)):
        return BadParams(f"{place}{more}: {message}")
    return BadParams(f"{place}{more}", value, allowed=allowed)


_PLAIN_WORDS = (
    ("Tuple should have at least 1 item after validation, not 0", "at least one entry"),
    ("Input should be a valid tuple", "a list of entries"),
    ("Input should be a valid dictionary", "a mapping of keys"),
    (" or instance of ", " for "),
)
"""Pydantic speaks Python; a params file is YAML."""


def _nearest_text(name: str, known: Any) -> str:
    near = nearest(name, known)
    return f" (nearest: {near[0]})" if near else ""


def _model_at(loc: tuple[Any, ...]) -> Optional[type[BaseModel]]:
    """The section class that the path of an error leads to."""
    model: Optional[type[BaseModel]] = Params
    for part in loc:
        if isinstance(part, int):
            continue
        field = model.model_fields.get(part) if model else None
        model = _section_in(field.annotation) if field else None
    return model


def _section_in(annotation: Any) -> Optional[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    for inner in getattr(annotation, "__args__", ()):
        found = _section_in(inner)
        if found:
            return found
    return None


def _fields_at(loc: tuple[Any, ...]) -> list[str]:
    model = _model_at(loc)
    return list(model.model_fields) if model else []


def _description_at(loc: tuple[Any, ...]) -> str:
    model = _model_at(loc[:-1])
    field = model.model_fields.get(loc[-1]) if model and loc else None
    return (field.description or "") if field else ""
