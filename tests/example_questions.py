"""Questions and measurements for the tests: the bert-base file with changes, figures made by hand."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import yaml
from neuronfit import compare, cost, decide, effort, params, profile, trial, utilization
from neuronfit.provenance import Imported, Measured, Published
from neuronfit.question import Question
from neuronfit.record import Measurement, Record, Run, Settings
from neuronfit.system import System

ROOT = Path(__file__).resolve().parents[1]
NAMES = (
    "albert-base-v2",
    "bert-base-uncased",
    "bert-large-uncased",
    "distilbert-base-uncased",
    "electra-base-discriminator",
    "flan-t5-xl",
    "roberta-base",
    "roberta-large",
    "t5-3b",
    "xlm-roberta-base",
)
"""The ten models of the Trn1 inference page (2025-09-18)."""

INSTANCE = {"l4": "g6.xlarge", "inf2": "inf2.xlarge", "trn1": "trn1.2xlarge"}
STEPS_WITHOUT_EXPORT: tuple[Callable[[Question], Record], ...] = (
    profile.describe,
    compare.compare,
    utilization.estimate,
    cost.price,
    effort.payback,
    trial.plan,
    decide.decide,
)
"""Every step that needs neither torch.export (4 s a model) nor a compiler."""


def mapping(name: str = "bert-base-uncased", **changes: Any) -> dict[str, Any]:
    """A params file as a mapping. ``workload__model__task="x"`` sets a nested key, an int picks from a list."""
    data = copy.deepcopy(yaml.safe_load((ROOT / "params" / f"{name}.yaml").read_text(encoding="utf-8")))
    for place, value in changes.items():
        *parents, last = [int(part) if part.isdigit() else part for part in place.split("__")]
        inner: Any = data
        for key in parents:
            inner = inner.setdefault(key, {}) if isinstance(inner, dict) else inner[key]
        inner[last] = value
    return data


def question(reports: Path, name: str = "bert-base-uncased", **changes: Any) -> Question:
    """The question with changes, its dossier under ``reports``."""
    return Question(params.parse(mapping(name, **changes)), reports=reports)


def walk(asked: Question, steps: Sequence[Callable[[Question], Record]] = STEPS_WITHOUT_EXPORT) -> dict[str, Any]:
    """Run steps in order; kind of record -> record."""
    return {record.kind: record for record in (step(asked) for step in steps)}


def measured(
    asked: Question,
    target: str,
    rates_per_s: Sequence[float],
    *,
    batch: int = 8,
    calls: int = 300,
    valid: bool = True,
    **settings: Any,
) -> Measurement:
    """One run per rate: ``calls`` calls of ``batch`` results, all of the same latency batch / rate.

    300 calls and more give a p99 (299 is the least that has an interval at 95 %).
    """
    instance_type = asked.target(target).instance_type
    common = dict(
        batch_size=batch,
        sequence_length=128,
        precision="fp32_bf16_matmul",
        timed_region="host call to host result",
        weights="random",
        input="synthetic",
    )
    runs = tuple(
        Run(start_utc=f"2026-11-20T09:0{place}:00Z", duration_s=calls * batch / rate, values_s=(batch / rate,) * calls)
        for place, rate in enumerate(rates_per_s)
    )
    return Measurement(
        workload=asked.ref,
        source=Measured(host="bench", clock="time.perf_counter"),
        target=target,
        instance_type=instance_type,
        system=System(host="bench", instance_type=instance_type),
        settings=Settings(**{**common, **settings}),
        scenario="offline",
        results_per_call=batch,
        runs=runs,
        settled=True,
        valid=valid,
        validity="made by hand",
    )


def stated(
    asked: Question, target: str, *, batch: int = 8, imported: bool = False, date: str = "2026-01-01", values: dict[str, float], **settings: Any
) -> Measurement:
    """A published (or imported) figure with the given values and settings."""
    common = dict(batch_size=batch, sequence_length=128, precision="fp32_bf16_matmul", timed_region="host call to host result")
    source = Imported(file="other.json", sha256="0" * 64) if imported else Published(title="a table", date=date)
    return Measurement(
        workload=asked.ref,
        source=source,
        target=target,
        instance_type=asked.target(target).instance_type,
        settings=Settings(**{**common, **settings}),
        scenario="offline",
        values=values,
    )
