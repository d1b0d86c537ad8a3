"""What an instance-hour costs: dated price snapshots for nine regions and four ways to buy.

Prices are USD per instance-hour, Linux, shared tenancy. ``status`` says what a row is worth:

===========  ======================================================================================
current      quoted, and nothing newer is known
superseded   quoted before a price change (P4/P5 before June 2025, older capacity-block prices)
derived      an old quote scaled by the cut seen in us-east-1: our estimate
estimate     spot: on-demand price times the advertised saving
historic     kept for the price history only
===========  ======================================================================================

:func:`find` answers with current rows only; a derived on-demand price stands in where nothing is
quoted and is graded ``estimated``. Reserved and capacity-block prices must never be put beside
on-demand ones: ask for the same ``purchase_option`` on both sides.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from decimal import Decimal
from functools import lru_cache
from typing import TYPE_CHECKING, Optional

from neuronfit.catalog import instances, sources, tables
from neuronfit.errors import NotFound, nearest
from neuronfit.provenance import Grade, Published, Quantity

if TYPE_CHECKING:
    import pandas

__all__ = ["OPTIONS", "STATUSES", "Price", "every", "find", "history", "options", "regions", "table"]

OPTIONS = ("on_demand", "reserved_1yr_no_upfront", "reserved_3yr_no_upfront", "capacity_block", "spot_estimate")
STATUSES = ("current", "superseded", "derived", "estimate", "historic")

_PREFERRED_REGION = "us-east-1"


@dataclass(frozen=True)
class Price:
    """One price. ``as_of`` is the ISO date on which it was seen to hold."""

    instance_type: str
    region: str
    purchase_option: str
    usd_per_hour: Decimal
    as_of: str
    status: str
    grade: Grade
    source: str
    note: str

    def quantity(self) -> Quantity:
        """The price as a graded number in USD/h."""
        return Quantity(
            value=float(self.usd_per_hour),
            unit="USD/h",
            grade=self.grade,
            why=f"{self.purchase_option} in {self.region}, {self.source}, as of {self.as_of}",
        )

    def published(self) -> Published:
        """The pedigree of a quoted price. Raises ``ValueError`` for one we estimated."""
        if self.grade is not Grade.PUBLISHED:
            raise ValueError(f"the price of {self.instance_type} in {self.region} is {self.grade}, not published")
        return Published(
            title=sources.find(self.source).title,
            date=self.as_of,
            conditions={"region": self.region, "operating system": "Linux", "tenancy": "shared"},
            price_basis=self.purchase_option,
        )

    def __str__(self) -> str:
        return f"{self.purchase_option} in {self.region} {self.usd_per_hour} USD/h ({self.as_of})"


@lru_cache(maxsize=None)
def every() -> tuple[Price, ...]:
    """All rows, whatever their status, in file order."""
    return tuple(
        Price(
            instance_type=row["instance_type"],
            region=row["region"],
            purchase_option=row["purchase_option"],
            usd_per_hour=Decimal(row["usd_per_hour"]),
            as_of=row["as_of"],
            status=row["status"],
            grade=Grade(row["grade"]),
            source=row["source"],
            note=row["note"],
        )
        for row in tables.read("prices")
    )


@lru_cache(maxsize=None)
def _by_key() -> dict[tuple[str, str, str], tuple[Price, ...]]:
    groups: dict[tuple[str, str, str], list[Price]] = {}
    for price in every():
        groups.setdefault((price.instance_type, price.region, price.purchase_option), []).append(price)
    return {key: tuple(sorted(rows, key=lambda row: row.as_of, reverse=True)) for key, rows in groups.items()}


@lru_cache(maxsize=None)
def regions() -> tuple[str, ...]:
    """The regions in the snapshot, sorted."""
    return tuple(sorted({price.region for price in every()}))


def options() -> tuple[str, ...]:
    """The ways to buy that the snapshot knows."""
    return OPTIONS


def find(instance_type: str, region: str, purchase_option: str, *, status: Optional[str] = None) -> Price:
    """The newest usable price of this type, in this region, on these terms.

    Current rows win; a derived on-demand price (grade ``estimated``) is the stand-in where nothing
    is quoted; ``spot_estimate`` rows are estimates by nature. Ask for another ``status`` by name.
    Raises :class:`~neuronfit.errors.NotFound` saying which part is unknown, or that the combination
    is not sold or quoted, and what is nearest.
    """
    _check_names(instance_type, region, purchase_option, status)
    rows = history(instance_type, region, purchase_option)
    for wanted in (status,) if status else ("current", "derived", "estimate"):
        for price in rows:
            if price.status == wanted:
                return price
    raise _not_quoted(instance_type, region, purchase_option, rows, status)


def history(instance_type: str, region: str, purchase_option: str) -> tuple[Price, ...]:
    """Every row of one price, newest first, whatever its status; empty where there is none."""
    return _by_key().get((instance_type, region, purchase_option), ())


def table(
    instance_types: Optional[tuple[str, ...]] = None,
    region: Optional[str] = None,
    purchase_option: Optional[str] = None,
    status: Optional[str] = "current",
) -> "pandas.DataFrame":
    """Rows as a table, one column per field of :class:`Price`; ``None`` means do not filter.

    ``usd_per_hour`` is a float here. An empty result keeps its columns.
    """
    import pandas

    wanted = {
        "region": region,
        "purchase_option": purchase_option,
        "status": status,
    }
    rows = [
        {**asdict(price), "usd_per_hour": float(price.usd_per_hour), "grade": str(price.grade)}
        for price in every()
        if (instance_types is None or price.instance_type in instance_types)
        and all(value is None or getattr(price, name) == value for name, value in wanted.items())
    ]
    return pandas.DataFrame(rows, columns=list(Price.__dataclass_fields__))


def _check_names(instance_type: str, region: str, purchase_option: str, status: Optional[str]) -> None:
    types = _priced_types()
    if instance_type not in types:
        known = {**dict.fromkeys(types), **{row.instance_type: None for row in instances.every(level=None)}}
        if instance_type not in known:
            near = nearest(instance_type, known)
            raise NotFound(
                "unknown instance type",
                instance_type,
                allowed=f"nearest: {', '.join(near)}" if near else "see neuronfit.catalog.instances.every()",
            )
    if region not in regions():
        raise NotFound("no prices for region", region, allowed=", ".join(regions()))
    if purchase_option not in OPTIONS:
        raise NotFound("unknown purchase option", purchase_option, allowed=", ".join(OPTIONS))
    if status is not None and status not in STATUSES:
        raise NotFound("unknown price status", status, allowed=", ".join(STATUSES))


@lru_cache(maxsize=None)
def _priced_types() -> frozenset[str]:
    return frozenset(price.instance_type for price in every())


def _not_quoted(instance_type: str, region: str, purchase_option: str, rows: tuple[Price, ...], status: Optional[str]) -> NotFound:
    what = f"not sold or not quoted: {instance_type} in {region} {purchase_option}"
    if status:
        what += f" with status {status}"
    elif rows:
        stale = rows[0]
        what += f"; the only quote is {stale.usd_per_hour} USD/h of {stale.as_of} and that one is {stale.status}" + (
            f" ({stale.note})" if stale.note else ""
        )
    near = _nearest_rows(instance_type, region, purchase_option)
    what += "; nearest: " + (", ".join(str(price) for price in near) if near else "no price of this type at all")
    return NotFound(what, next="use a price above, or give your own under pricing.overrides")


def _nearest_rows(instance_type: str, region: str, purchase_option: str, count: int = 4) -> list[Price]:
    """Usable prices of the same type, closest first: this region, then these terms, then us-east-1."""
    usable: dict[tuple[str, str], Price] = {}
    for (row_type, row_region, row_option), rows in _by_key().items():
        if row_type == instance_type:
            good = [price for price in rows if price.status in ("current", "derived", "estimate")]
            if good:
                usable[row_region, row_option] = min(good, key=lambda price: STATUSES.index(price.status))

    def distance(price: Price) -> tuple:
        return (
            price.purchase_option == "spot_estimate",
            price.region != region,
            price.purchase_option != purchase_option,
            price.region != _PREFERRED_REGION,
            price.region[:2] != region[:2],
            OPTIONS.index(price.purchase_option),
            price.region,
        )

    return sorted(usable.values(), key=distance)[:count]
