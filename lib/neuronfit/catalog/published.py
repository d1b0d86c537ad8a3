"""Speeds that vendors have printed: AWS's Neuron tables, NVIDIA's tables, audited MLPerf results.

One table, one set of columns, SI units. A printed figure is only as good as its conditions, so every
row carries them: what was timed, with which input, in which precision, on how much of an instance.
Nothing here was measured by us. Digits are kept exactly as printed, so that the rounding of each
figure is known (:meth:`PublishedRow.rounding`).

``model_key`` joins rows of the same architecture *and* vocabulary; the head or the fine-tuning that
the page names is a condition. Cased and uncased are different models.

``result_unit`` says what is counted:

=========  ===================================================================================
inference  one input item through the model (one sequence, one image to classify)
token      one token; the condition ``tokens counted`` says whether input tokens are included
image      one generated image, or one training image
sequence   one training sequence
request    one complete text-generation request
=========  ===================================================================================
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from decimal import Decimal
from functools import lru_cache
from typing import Optional

from neuronfit.catalog import instances, sources, tables
from neuronfit.errors import NotFound, nearest
from neuronfit.provenance import Grade, Published, Quantity
from neuronfit.units import metric

__all__ = [
    "PRECISIONS",
    "PublishedRow",
    "canonical",
    "every",
    "explain_no_match",
    "find",
    "match",
    "models",
]

PRECISIONS = ("fp32", "fp32_bf16_matmul", "tf32", "fp16", "bf16", "int8", "fp8", "fp4")
"""What the arithmetic is done in. ``fp32_bf16_matmul``: fp32 model, matrix products cast to bf16."""

_METRICS = {
    "throughput_per_s": "throughput_per_s",
    "latency_p50_s": "latency_p50_s",
    "latency_mean_s": "latency_mean_s",
    "latency_p90_s": "latency_p90_s",
    "latency_p95_s": "latency_p95_s",
    "latency_p99_s": "latency_p99_s",
    "ttft_p50_s": "ttft_p50_s",
    "ttft_p99_s": "ttft_p99_s",
    "tpot_p50_s": "tpot_p50_s",
    "tpot_p99_s": "tpot_p99_s",
}
"""column -> name of its metric in :mod:`neuronfit.units`"""

_WHOLE = (
    "accelerators_used",
    "batch_size",
    "sequence_length",
    "input_length",
    "output_length",
    "tp_degree",
    "dp_degree",
)
_TEXT = (
    "framework",
    "task",
    "application_type",
    "precision",
    "model_dtype",
    "autocast",
    "latency_of",
    "sdk",
    "software",
    "run_mode",
    "price_basis",
    "date",
)


@dataclass(frozen=True)
class PublishedRow:
    """One printed row. ``None`` means the page does not say.

    ``instance_types`` are the EC2 types the row speaks for: its own, or, for a row about a GPU card,
    the types that hold exactly that card in that number. It is empty when the row used a fraction
    of an instance. ``instance_count`` is above 1 for multi-node training. ``latency_of`` says what
    one latency spans: ``"batch"``, ``"token"`` or ``"request"``.
    """

    row_id: str
    collection: str
    kind: str
    """``"inference"`` or ``"training"``"""
    model: str
    """as printed"""
    model_key: str
    instance_types: tuple[str, ...]
    instance_count: int
    hardware: str
    accelerators_used: Optional[int]
    framework: Optional[str]
    task: Optional[str]
    application_type: Optional[str]
    batch_size: Optional[int]
    sequence_length: Optional[int]
    input_length: Optional[int]
    output_length: Optional[int]
    precision: Optional[str]
    model_dtype: Optional[str]
    autocast: Optional[str]
    throughput_per_s: Optional[float]
    throughput_printed: Optional[str]
    """the digits on the page; ``None`` where throughput was computed from the printed mean latency"""
    result_unit: str
    latency_of: Optional[str]
    latency_p50_s: Optional[float]
    latency_mean_s: Optional[float]
    latency_p90_s: Optional[float]
    latency_p95_s: Optional[float]
    latency_p99_s: Optional[float]
    ttft_p50_s: Optional[float]
    ttft_p99_s: Optional[float]
    tpot_p50_s: Optional[float]
    tpot_p99_s: Optional[float]
    sdk: Optional[str]
    """Neuron SDK version"""
    software: Optional[str]
    run_mode: Optional[str]
    tp_degree: Optional[int]
    dp_degree: Optional[int]
    usd_per_million_printed: Optional[Decimal]
    usd_per_hour_printed: Optional[Decimal]
    price_basis: Optional[str]
    date: Optional[str]
    """date of the page, ISO; shortened where no more is known"""
    source: str
    as_of: str
    flag: str
    """``"none"``, ``"info"`` or ``"warn"``: whether the row contradicts itself or invites misuse"""
    flag_text: str
    conditions: dict[str, str] = field(hash=False)
    digits: dict[str, str] = field(hash=False, repr=False)
    """column -> the digits it was read from, in SI"""

    def rounding(self, column: str) -> Optional[tuple[float, float]]:
        """The interval of values that print as this row's ``column``; ``None`` where it is empty.

        Half a unit in the last printed digit either way. A throughput that was computed as batch
        size over printed mean latency inherits the rounding of that latency.
        """
        if column == "throughput_per_s" and self.throughput_per_s is not None and self.throughput_printed is None:
            shortest, longest = self.rounding("latency_mean_s")
            return self.batch_size / longest, self.batch_size / shortest
        if column not in self.digits:
            return None
        value = Decimal(self.digits[column])
        half = Decimal(5).scaleb(value.as_tuple().exponent - 1)
        return float(value - half), float(value + half)

    def quantity(self, column: str) -> Quantity:
        """The figure as a graded number with its rounding as bounds, or absent with the reason.

        ``column`` is one of the throughput, latency, ``ttft_*`` and ``tpot_*`` fields; anything else
        raises :class:`~neuronfit.errors.NotFound`.
        """
        if column not in _METRICS:
            raise NotFound("not a published metric", column, allowed=", ".join(_METRICS))
        unit = metric(_METRICS[column]).unit
        value = getattr(self, column)
        if value is None:
            return Quantity(unit=unit, why=f"{self.row_id} does not print {column}")
        low, high = self.rounding(column)
        low, high = min(low, value), max(high, value)
        return Quantity(value=value, unit=unit, low=low, high=high, grade=Grade.PUBLISHED, why=self.row_id)

    def published(self) -> Published:
        """The pedigree of the row, for a record."""
        return Published(
            title=sources.find(self.source).title,
            date=self.date or self.as_of,
            conditions={"row": self.row_id, **self.conditions},
            price_basis=self.price_basis,
        )

    @property
    def batches_in_flight(self) -> Optional[float]:
        """Little's law: throughput x p50 latency / batch size; ``None`` where a part is missing.

        For rows whose latency spans one token it is the number of sequences generated at a time.
        """
        if None in (self.throughput_per_s, self.latency_p50_s, self.batch_size):
            return None
        return self.throughput_per_s * self.latency_p50_s / self.batch_size


@lru_cache(maxsize=None)
def _by_id() -> dict[str, PublishedRow]:
    shared = {row["collection"]: json.loads(row["conditions"]) for row in tables.read("collections")}
    return {row["row_id"]: _row(row, shared[row["collection"]]) for row in tables.read("published")}


def _row(row: dict[str, str], shared: dict[str, str]) -> PublishedRow:
    own = json.loads(row["conditions"]) if row["conditions"] else {}
    throughput = row["throughput_per_s"]
    digits = {column: row[column] for column in _METRICS if row[column]}
    if row["throughput_basis"] == "computed":
        digits.pop("throughput_per_s")
    return PublishedRow(
        row_id=row["row_id"],
        collection=row["collection"],
        kind=row["kind"],
        model=row["model"],
        model_key=row["model_key"],
        instance_types=tuple(row["instance_types"].split()),
        instance_count=int(row["instance_count"]),
        hardware=row["hardware"],
        throughput_printed=throughput if throughput and row["throughput_basis"] == "printed" else None,
        result_unit=row["result_unit"],
        usd_per_million_printed=Decimal(row["usd_per_million"]) if row["usd_per_million"] else None,
        usd_per_hour_printed=Decimal(row["usd_per_hour"]) if row["usd_per_hour"] else None,
        source=row["source"],
        as_of=row["as_of"],
        flag=row["flag"],
        flag_text=row["flag_text"],
        conditions={**shared, **own},
        digits=digits,
        **{column: tables.number(row[column]) for column in _METRICS},
        **{column: tables.whole(row[column]) for column in _WHOLE},
        **{column: tables.text(row[column]) for column in _TEXT},
    )


def every() -> tuple[PublishedRow, ...]:
    """All rows, inference and training, in file order."""
    return tuple(_by_id().values())


def find(row_id: str) -> PublishedRow:
    """One row by its id. Raises :class:`~neuronfit.errors.NotFound` with the nearest ids."""
    try:
        return _by_id()[row_id]
    except KeyError:
        near = nearest(row_id, _by_id())
        allowed = f"nearest: {', '.join(near)}" if near else None
        raise NotFound("unknown published row", row_id, allowed=allowed) from None


@lru_cache(maxsize=None)
def models() -> tuple[str, ...]:
    """The model keys with at least one row, sorted."""
    return tuple(sorted({row.model_key for row in every()}, key=str.lower))


@lru_cache(maxsize=None)
def _keys_by_name() -> dict[str, str]:
    names: dict[str, set[str]] = {}
    for row in every():
        inside = [part.rstrip(")") for part in row.model.split("(")[1:] if "-" in part]  # BERT base (bert-base-cased)
        for name in (row.model, row.model_key, row.model_key.rsplit("/", 1)[-1], *inside):
            names.setdefault(name.lower(), set()).add(row.model_key)
    return {name: keys.pop() for name, keys in names.items() if len(keys) == 1}


def canonical(model: str) -> Optional[str]:
    """The model key for a printed name, a key or a Hugging Face id (any owner); ``None`` if unknown."""
    name = model.strip().lower()
    return _keys_by_name().get(name) or _keys_by_name().get(name.rsplit("/", 1)[-1])


def match(
    model_key: str,
    instance_type: Optional[str] = None,
    sequence_length: Optional[int] = None,
    task: Optional[str] = None,
    kind: str = "inference",
) -> tuple[PublishedRow, ...]:
    """Rows about this model, newest first; empty where there is none (see :func:`explain_no_match`).

    Newest: Neuron rows by SDK version, then page date; rows without an SDK follow, by date. Rows
    flagged ``warn`` are included: look at ``flag``.
    """
    key = canonical(model_key)
    rows = [
        row
        for row in every()
        if row.model_key == key
        and row.kind == kind
        and (instance_type is None or instance_type in row.instance_types)
        and (sequence_length is None or row.sequence_length == sequence_length)
        and (task is None or row.task == task)
    ]
    return tuple(sorted(rows, key=_age, reverse=True))


def _age(row: PublishedRow) -> tuple:
    version = tuple(int(part) for part in row.sdk.split(".")) if row.sdk else ()
    return version, row.date or ""


def explain_no_match(model_key: str, instance_type: Optional[str] = None, sequence_length: Optional[int] = None) -> str:
    """One sentence: which published figure was not found, and what is nearest."""
    asked = f"No published figure for {model_key}"
    asked += f" on {instance_type}" if instance_type else ""
    asked += f" at sequence length {sequence_length}" if sequence_length else ""
    return f"{asked}: {_nearest_rows(model_key, instance_type, sequence_length)}."


def _nearest_rows(model_key: str, instance_type: Optional[str], sequence_length: Optional[int]) -> str:
    key = canonical(model_key)
    if key is None:
        near = nearest(model_key, models())
        return "the model is not in the catalogue" + (f"; nearest by name: {', '.join(near)}" if near else "")
    if match(key, instance_type, sequence_length):
        return "rows do match, so another condition excludes them"
    on = f" on {instance_type}" if instance_type else ""
    here = match(key, instance_type)
    if here:
        return f"nearest is the same model{on}{_at_lengths(here) or ', without a fixed sequence length'}"
    for rows in (match(key, sequence_length=sequence_length), match(key)):
        names = sorted({name for row in rows for name in row.instance_types})
        if names:
            at = "" if rows and rows[0].sequence_length == sequence_length else _at_lengths(rows)
            return f"nearest is the same model on {_nearest_instances(instance_type, names)}{at}"
    if match(key):
        return f"the only figures are for part of an instance ({_list(sorted({row.hardware for row in match(key)}))})"
    return "the only figures for this model are about training"


def _at_lengths(rows: tuple[PublishedRow, ...]) -> str:
    lengths = sorted({row.sequence_length for row in rows if row.sequence_length})
    return f" at sequence length {_list(lengths)}" if lengths else ""


def _nearest_instances(instance_type: Optional[str], names: list[str]) -> str:
    """Types of the family asked for come first, then those of the same vendor."""
    try:
        asked = instances.find(instance_type) if instance_type else None
    except NotFound:
        asked = None

    def distance(name: str) -> tuple:
        row = instances.find(name)
        return asked is not None and row.family != asked.family, asked is not None and row.vendor != asked.vendor, name

    return _list(sorted(names, key=distance))


def _list(values: list, most: int = 6) -> str:
    shown = ", ".join(str(value) for value in values[:most])
    return shown + (f" and {len(values) - most} more" if len(values) > most else "")
