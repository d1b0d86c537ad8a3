"""Write docs/params.md from the models in ``neuronfit.params``: ``python tools/params_doc.py``.

Meaning, default and allowed values are read from the code. Written here are only the text around
the tables, the units, and a meaning for the few keys whose field has no description.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin

from neuronfit import params, targets
from neuronfit.catalog import prices
from neuronfit.model import TASKS
from neuronfit.question import CPU
from pydantic import BaseModel
from pydantic.fields import FieldInfo

ROOT = Path(__file__).resolve().parents[1]

NO_UNIT = "–"

UNITS = (
    ("_per_s", "results/s"),
    ("_ms", "ms"),
    ("_usd", "USD"),
    ("usd_per_hour", "USD/h"),
    ("_days_per_month", "person-days/month"),
    ("_months", "months"),
    ("_min", "minutes"),
    ("_h", "hours"),
    ("_s", "s"),
    ("share", "fraction"),
    ("_rate", "fraction"),
    ("margin", "fraction"),
    ("min_agreement", "fraction"),
    ("confidence", "fraction"),
    ("min_utilization", "fraction"),
)
"""End of a key -> its unit; the first that fits."""

UNIT_OF = {
    "workload.shapes.batch_size": "sequences",
    "workload.shapes.sequence_length": "tokens",
    "workload.shapes.output_length": "tokens",
    "workload.quality.tolerance": "that of the metric",
    "workload.inputs.count": "inputs",
    "workload.inputs.seed": "seed",
    "workload.model_changes_per_month": "changes/month",
    "traffic.monthly_volume": "results/month",
    "traffic.concurrency": "requests",
    "baseline.count": "instances",
    "pricing.discount": "fraction",
    "pricing.surroundings.usd_per_month": "USD/month",
    "pricing.surroundings.usd_per_million": "USD/1e6 results",
    "workload.training.samples": "samples",
    "workload.training.tokens": "tokens",
    "workload.training.scaling_efficiency": "fraction",
    "workload.training.interruptions_per_month": "interruptions/month",
    "workload.training.runs_per_month": "runs/month",
    "effort.finding_tasks.low": "person-days",
    "effort.finding_tasks.likely": "person-days",
    "effort.finding_tasks.high": "person-days",
    "effort.upkeep_days_per_release": "person-days/release",
    "effort.releases_per_year": "releases/year",
    "effort.second_migration_probability": "fraction",
    "effort.parallel_days": "days",
    "policy.doubt.published": "fraction",
    "policy.doubt.imported": "fraction",
    "policy.doubt.measured": "fraction",
    "policy.doubt.estimated": "fraction",
    "policy.doubt.volume": "fraction",
    "policy.doubt.price": "fraction",
    "policy.doubt.estimated_price": "fraction",
    "effort.tasks.low": "person-days",
    "effort.tasks.likely": "person-days",
    "effort.tasks.high": "person-days",
    "effort.day_rate_usd": "USD/person-day",
    "effort.discount_rate": "fraction/year",
    "policy.runs": "runs",
    "policy.interval_width": "fraction",
    "policy.capacity.scaling": NO_UNIT,
    "policy.capacity.target_utilization": "fraction",
    "policy.capacity.load_bytes_per_s": "bytes/s",
    "policy.capacity.compile_cache": NO_UNIT,
    "policy.capacity.min_count": "instances",
    "policy.capacity.redundancy": "instances",
    "policy.capacity.zones": "zones",
    "policy.capacity.failures_per_month": "failures/month",
    "policy.capacity.seed": "seed",
    "policy.rate_per_s": "requests/s",
    "trial.seed": "seed",
    "trial.rate_per_s": "requests/s",
    "trial.stages.requests": "requests",
    "trial.detect": "fraction",
    "trial.power": "fraction",
    "trial.agree_within": "fraction",
    "trial.criteria.bound": "fraction",
    "baseline.endpoint.timeout_s": "s",
    "baseline.endpoint.max_connections": "connections",
}

MEANING = {
    "workload.kind": "what is moved; training is described, priced and tested for compatibility, but not measured by this code",
    "workload.shapes": "shapes of a call; each is measured, and the first one decides which sequence length is compared",
    "workload.surroundings": "what takes time in a request beside the model; the model has the rest",
    "workload.stage": "an experiment, or something that users depend on",
    "traffic.daily_shape": "shape of the day around the mean; the three shapes are our assumption",
    "pricing.region": "AWS region of every price",
    "pricing.overrides": "the team's own rates; they replace the snapshot for these instance types",
    "pricing.overrides.instance_type": "EC2 instance type that the rate is for",
    "trial.stages": "stages of the test, in order",
    "trial.stages.name": "name of the stage",
    "trial.criteria": "success criteria, each with its metric",
    "trial.criteria.metric": "what is judged",
    "trial.baseline_url": "endpoint that serves the baseline; credentials never belong in this file",
    "trial.candidate_url": "endpoint that serves the candidate; credentials never belong in this file",
}

SECTION_TEXT = {
    "workload": "What is asked for, independent of any machine. `name`, `model.config` are required. Two measurements belong to one question when kind, architecture, task, weights and lengths are the same; batch size and precision are settings.",
    "traffic": "How much is asked. Give `mean_per_s` or `monthly_volume`, or name a file of recorded traffic in `trace` (what it may be: [`neuronfit traffic`](commands.md#neuronfit-traffic)); what is declared wins, and a difference of more than a tenth is a finding. What is missing is derived (a month has 730 hours), and two values that disagree by more than a fifth are a finding. Without this section, utilization, cost at your traffic and payback wait.",
    "objective": "The promise that must be kept. A latency is that of one call: queueing is not in it. A figure that misses a bound gives way to one that keeps it.",
    "baseline": "Where it runs today: one target. `instance_type` is any type of the catalogue; a wrong one is answered with the nearest names.",
    "candidates": "Where it might run: a list of at least one target, with the same keys as `baseline`. Names must differ from each other and from the baseline's, and cannot be `cpu` or `baseline`.",
    "evidence": "Record files from other hosts, adopted whenever step 4 runs. A list; may be empty.",
    "pricing": "One price basis for every target. Two bases are never compared.",
    "effort": "What the move costs in people. The default tasks are those of a medium migration of one service: replace them with your own plan. Each blocker and condition that steps 2 and 3 find becomes a task on top.",
    "trial": "The controlled production test, fixed before it starts. Step 8 registers the plan as a record.",
    "policy": "What counts as different, how long to measure, and what a verdict needs.",
}

NOT_JUDGED: tuple[str, ...] = ()
"""Keys that are recorded and shown while no step decides by them; a test notices when one does."""

SETTINGS = {
    "precision": "number format of the model: fp32, bf16 or fp16; default: `workload.precision`",
    "threads": "CPU threads; default: the physical cores this process may use",
    "tf32": "true: fp32 products run on the tensor cores as TF32; default false",
    "compile": "true: the model is compiled with `torch.compile`; default false",
    "auto_cast": "none, matmult or all; default none. Always passed, because the compiler's own default changed between releases",
    "auto_cast_type": "bf16, fp16 or tf32; default bf16; always passed, used when auto_cast is not none",
    "model_type": "transformer, generic or unet-inference; default transformer",
    "optlevel": "1, 2 or 3; default 2",
    "native_int64": "disabled or enabled; default disabled; passed on Trn2 and later to neuronx-cc 2.27 or later, because a change of the compiler's own default is announced",
    "implicit_integer_downcast": "all or none; default all; passed where native_int64 is, for the same reason",
    "workers": "processes side by side, one NeuronCore each, or a share of the CPU's threads; default 1",
    "data_parallel": "NeuronCores over which one call is split; default 1",
    "mode": "compiled or eager; default: both are measured",
    "compile_mode": "default, reduce-overhead or max-autotune; with compile",
    "channels_last": "true: images lie in memory with their channels last; default false; for images only",
    "cuda_graph": "true or false: one captured graph replayed for each call; default false; not for generation",
}
"""Key of a target's ``settings`` -> what it does, for the paths that this code measures."""

HEAD = """\
<!-- Made by `python tools/params_doc.py` from lib/neuronfit/params/; do not edit. -->
# The params file

One YAML file is one question. Required are `workload`, `baseline` and `candidates`; every other key has the
default given here. Reading is strict: an unknown key is an error that names the nearest known one, a wrong value
is an error that says what is allowed, a key written twice is an error.

Editors that speak JSON schema complete and check the file while you type: its first line names
`params.schema.json`, which `make schema` writes from the same models.

The same sections are the parameters of every notebook: `workload` is the name of a file in `params/`, a path, or the
mapping itself; the other sections are `None` (taken from that file) or a mapping that replaces the section of
the file. Keys in milliseconds exist only here, because people write them; everything stored is in SI units.

A smallest file:

```yaml
workload:
  name: my-service
  model: {config: params/models/bert-base-uncased/config.json}
baseline: {name: gpu, instance_type: g6.xlarge, path: cuda}
candidates:
  - {name: inf2, instance_type: inf2.xlarge, path: neuron_xla}
```

Paths in the file (`workload.model.config`, `weights`, `evidence[].file`) are looked up as written, then beside
the params file, then in the project.
"""

SETTINGS_HEAD = """\
## Settings of a target

`settings` records what was tuned. The paths below are measured by this code and apply the keys listed; a key that
a path does not apply is recorded as the finding `setting_not_applied`. `cpu` is a target that every question has
beside its own: the CPU of the host at hand.

| path | key | meaning |
|---|---|---|
"""


def document() -> str:
    """The text of docs/params.md."""
    parts = [HEAD, *(_section(name, field) for name, field in params.Params.model_fields.items()), _settings(), _defaults()]
    kept = ", ".join(f"`{key}`" for key in NOT_JUDGED)
    note = f"\nRecorded and shown, but no step decides by them yet: {kept}.\n" if kept else ""
    parts[0] += note
    return "\n".join(part.strip() + "\n" for part in parts)


def keys() -> Iterator[tuple[str, FieldInfo]]:
    """Every key of the file in order, dotted; list items have no index. ``candidates`` repeats ``baseline``."""
    yield from _walk(params.Params, "")


def _walk(model: type[BaseModel], prefix: str) -> Iterator[tuple[str, FieldInfo]]:
    for name, field in model.model_fields.items():
        yield f"{prefix}{name}", field
        inner = _model_in(field.annotation)
        if inner and f"{prefix}{name}" != "candidates":
            yield from _walk(inner, f"{prefix}{name}.")


def _section(name: str, field: FieldInfo) -> str:
    text = f"## {name}\n\n{SECTION_TEXT[name]}\n"
    if name == "candidates":
        return text
    rows = [row for row in keys() if row[0].startswith(f"{name}.")]
    lines = [_row(key, one) for key, one in rows if _is_leaf(one) or key in MEANING]
    return text + "\n| key | meaning | unit | default | allowed |\n|---|---|---|---|---|\n" + "\n".join(lines)


def _row(key: str, field: FieldInfo) -> str:
    shown = key.partition(".")[2]
    cells = (f"`{shown}`", meaning(key, field), unit(key, field), _default(field), _allowed(key, field))
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def meaning(key: str, field: FieldInfo) -> str:
    """What the key says; the field's own description comes first."""
    return field.description or MEANING[key]


def unit(key: str, field: FieldInfo) -> str:
    """The unit of a number, a dash for what is not one."""
    if not _is_number(field.annotation):
        return NO_UNIT
    return UNIT_OF.get(key) or next(unit for end, unit in UNITS if key.endswith(end))


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "**required**"
    value = field.get_default(call_default_factory=True)
    if value is None:
        return "none"
    if isinstance(value, (tuple, dict)) and not value:
        return "empty"
    if isinstance(value, tuple):
        return "see [defaults](#defaults)" if value and field.annotation != tuple[params.Shape, ...] else "one shape: batch 1, sequence 128"
    if isinstance(value, float):
        return f"`{value:g}`"
    return f"`{value}`" if value != "" else "empty"


def _allowed(key: str, field: FieldInfo) -> str:
    known = {
        "pricing.region": prices.regions(),
        "pricing.purchase_option": prices.OPTIONS,
        "pricing.overrides.purchase_option": prices.OPTIONS,
        "workload.model.task": tuple(TASKS),
    }
    if key == "traffic.sequence_lengths":
        return "whole numbers from 1, each with a number above 0"
    options = known.get(key) or _options(field.annotation)
    if options:
        return ", ".join(f"`{option}`" for option in options)
    limits = {"ge": "from {:g}", "gt": "above {:g}", "le": "to {:g}", "lt": "below {:g}"}
    bounds = [text.format(getattr(part, name)) for part in field.metadata for name, text in limits.items() if getattr(part, name, None) is not None]
    kind = "whole number" if _is_whole(field.annotation) else "number" if _is_number(field.annotation) else ""
    if kind:
        return " ".join([kind, _span(bounds)]).strip()
    pattern = next((part.pattern for part in field.metadata if getattr(part, "pattern", None)), None)
    if pattern:
        return "YYYY-MM-DD" if "\\d" in pattern else "letters, digits, `.`, `_`, `-`; starts with a letter or digit"
    if get_origin(field.annotation) is dict:
        return "names with a number, a word, true or false"
    if get_origin(field.annotation) is tuple:
        return "a list, at least one entry" if any(getattr(part, "min_length", 0) for part in field.metadata) else "a list"
    return "text"


def _span(bounds: list[str]) -> str:
    """``["from 1", "to 100"]`` -> ``"from 1 to 100"``; ends that are not included are joined by *and*."""
    return " ".join(bounds) if bounds and bounds[-1].startswith("to ") else " and ".join(bounds)


# -- annotations ------------------------------------------------------------------------------


def _options(annotation: Any) -> tuple[str, ...]:
    return get_args(annotation) if get_origin(annotation) is Literal else ()


def _plain(annotation: Any) -> Any:
    """The annotation without ``Optional``."""
    if get_origin(annotation) is Union:
        return next(part for part in get_args(annotation) if part is not type(None))
    return annotation


def _is_number(annotation: Any) -> bool:
    return _plain(annotation) in (int, float)


def _is_whole(annotation: Any) -> bool:
    return _plain(annotation) is int


def _model_in(annotation: Any) -> Any:
    for part in (annotation, *get_args(annotation)):
        if isinstance(part, type) and issubclass(part, BaseModel):
            return part
    return None


def _is_leaf(field: FieldInfo) -> bool:
    return _model_in(field.annotation) is None or get_origin(field.annotation) is tuple


# -- what stands outside the tables -----------------------------------------------------------


def _settings() -> str:
    rows = [f"| `{path}` | `{key}` | {SETTINGS[key]} |" for path in targets.MEASURED_HERE for key in targets.for_path(path).settings]
    assert CPU in targets.MEASURED_HERE
    return SETTINGS_HEAD + "\n".join(rows)


def _defaults() -> str:
    tasks = [f"  - {json.dumps(task.name)}: {task.low:g}, {task.likely:g}, {task.high:g}" for task in params.DEFAULT_TASKS]
    stages = [f"  - {stage.name}: share {stage.share:g}, {stage.duration_min:g} minutes" for stage in params.DEFAULT_STAGES]
    rollback = [f"  - {step}" for step in params.Trial().rollback]
    lines = [
        "## Defaults",
        "",
        "- `effort.tasks`, person-days low, likely, high:",
        *tasks,
        "- `trial.stages`:",
        *stages,
        "- `trial.rollback`:",
        *rollback,
    ]
    return "\n".join(lines)


def main() -> None:
    (ROOT / "docs").mkdir(exist_ok=True)
    (ROOT / "docs" / "params.md").write_text(document(), encoding="utf-8")


if __name__ == "__main__":
    main()
