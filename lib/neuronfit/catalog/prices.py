"""What an instance-hour costs: dated price snapshots by region and way to buy.

The shipped snapshot is ``prices.csv``. ``neuronfit prices refresh`` writes newer ones to a folder of the
user (:func:`folder`); they are read too, and for each type, region and purchase option the newest
``as_of`` wins. A look-up that failed wrote nothing, so the older price stays.

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
on-demand ones: :func:`same_basis` refuses it. :func:`age_days` and :func:`old_prices` say how old a price is;
where a type is sold at all says :mod:`~neuronfit.catalog.availability`.
"""

from __future__ import annotations

import csv
import os
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import date
from decimal import Decimal, InvalidOperation
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Optional, Union

from neuronfit.catalog import instances, sources, tables
from neuronfit.errors import BadInput, NotComparable, NotFound, nearest
from neuronfit.provenance import Grade, Published, Quantity
from neuronfit.record import Finding, Severity
from neuronfit.units import spoken

if TYPE_CHECKING:
    import pandas

__all__ = [
    "ABSENT",
    "COLUMNS",
    "LIVE",
    "OLD_AFTER_DAYS",
    "OPTIONS",
    "SHIPPED",
    "STATUSES",
    "Price",
    "absences",
    "age_days",
    "availability",
    "discounted",
    "every",
    "find",
    "folder",
    "history",
    "interruption_band",
    "old_prices",
    "options",
    "regions",
    "reread",
    "same_basis",
    "shipped_as_of",
    "table",
]

OPTIONS = (
    "on_demand",
    "reserved_1yr_no_upfront",
    "reserved_1yr_partial_upfront",
    "reserved_1yr_all_upfront",
    "reserved_3yr_no_upfront",
    "reserved_3yr_partial_upfront",
    "reserved_3yr_all_upfront",
    "compute_savings_plan_1yr_no_upfront",
    "compute_savings_plan_3yr_no_upfront",
    "instance_savings_plan_1yr_no_upfront",
    "instance_savings_plan_3yr_no_upfront",
    "capacity_block",
    "spot",
    "spot_estimate",
    "sagemaker_hosting",
)
"""Every way to buy that can be asked for; the shipped snapshot has rows for those that :func:`options` lists."""

STATUSES = ("current", "superseded", "derived", "estimate", "historic")

ABSENT = "absent"
"""Status of a row of a refreshed file that says: asked, and there is no such price. It has no amount."""

COLUMNS = ("instance_type", "region", "purchase_option", "usd_per_hour", "as_of", "status", "grade", "source", "note")
"""Of ``prices.csv`` and of every refreshed file."""

LIVE = {
    "aws-price-list-api": "AWS Price List Query API (GetProducts), asked with the user's credentials",
    "aws-savings-plans-api": "AWS Savings Plans API (DescribeSavingsPlansOfferingRates), asked with the user's credentials",
    "aws-spot-history-api": "EC2 DescribeSpotPriceHistory, asked with the user's credentials",
    "aws-capacity-block-api": "EC2 DescribeCapacityBlockOfferings, asked with the user's credentials",
}
"""Sources of refreshed rows: id -> title."""

OLD_AFTER_DAYS = 180
"""A price older than this is a finding: the June 2025 cut and the capacity-block updates of 2026 both came within half a year."""

SHIPPED = "shipped"
"""Value of ``NEURONFIT_PRICES`` that leaves refreshed files alone."""

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

    def __post_init__(self) -> None:
        if not (self.usd_per_hour.is_finite() and self.usd_per_hour > 0):
            raise BadInput(
                f"a price of zero is no price: {self.instance_type} in {self.region} {self.purchase_option}",
                str(self.usd_per_hour),
                allowed="a finite number of USD per hour above 0",
                next="leave the row out: it is a reservation's or an unused block's placeholder",
            )

    @property
    def live(self) -> bool:
        """Whether it was asked from AWS by this user."""
        return self.source in LIVE

    @property
    def basis(self) -> str:
        """Region and purchase option in words; two prices are comparable when these are the same."""
        return f"{self.purchase_option.replace('_', ' ')} in {self.region}"

    def quantity(self) -> Quantity:
        """The price as a graded number in USD/h."""
        return Quantity(
            value=float(self.usd_per_hour),
            unit="USD/h",
            grade=self.grade,
            why=f"{spoken(self.purchase_option)} in {self.region}, {self.source}, as of {self.as_of}",
        )

    def published(self) -> Published:
        """The pedigree of a quoted price. Raises ``ValueError`` for one we estimated."""
        if self.grade is not Grade.PUBLISHED:
            raise ValueError(f"the price of {self.instance_type} in {self.region} is {self.grade}, not published")
        return Published(
            title=LIVE.get(self.source) or sources.find(self.source).title,
            date=self.as_of,
            conditions={"region": self.region, "operating system": "Linux", "tenancy": "shared"},
            price_basis=self.purchase_option,
        )

    def __str__(self) -> str:
        return f"{self.purchase_option} in {self.region} {self.usd_per_hour} USD/h ({self.as_of})"


@lru_cache(maxsize=None)
def every() -> tuple[Price, ...]:
    """All rows, whatever their status: the shipped ones in file order, then refreshed ones by file name."""
    return (*_shipped(), *(row for _, row in _refreshed() if isinstance(row, Price)))


@lru_cache(maxsize=None)
def _shipped() -> tuple[Price, ...]:
    return tuple(_price(row) for row in tables.read("prices"))


def _price(row: dict[str, str]) -> Price:
    return Price(**{**row, "usd_per_hour": Decimal(row["usd_per_hour"]), "grade": Grade(row["grade"])})


def shipped_as_of() -> str:
    """The newest date in the shipped snapshot, ISO."""
    return max(price.as_of for price in _shipped())


def folder() -> Optional[Path]:
    """Where refreshed snapshots lie: ``NEURONFIT_PRICES``, else the user's data folder; ``None`` when it says ``shipped``."""
    said = os.environ.get("NEURONFIT_PRICES", "").strip()
    if said == SHIPPED:
        return None
    if said:
        return Path(said).expanduser()
    data = os.environ.get("XDG_DATA_HOME", "").strip()
    return (Path(data) if data else Path.home() / ".local" / "share") / "neuronfit"


@lru_cache(maxsize=None)
def _refreshed() -> tuple[tuple[str, Union[Price, tuple[str, str, str, str, str]]], ...]:
    """(file name, price) of every refreshed row; a row without a price is (type, region, option, date, reason).

    Raises :class:`~neuronfit.errors.BadInput` naming the file and line of what is no price row.
    """
    where, found = folder(), []
    for path in sorted(where.glob("prices-*.csv")) if where is not None and where.is_dir() else ():
        with open(path, encoding="utf-8", newline="") as lines:
            rows = csv.DictReader(lines)
            if tuple(rows.fieldnames or ()) != COLUMNS:
                raise BadInput("not a refreshed price file", str(path), allowed=", ".join(COLUMNS), next="delete it, or neuronfit prices refresh")
            for row in rows:
                try:
                    date.fromisoformat(row["as_of"])
                    if row["status"] == ABSENT:
                        found.append((path.name, (row["instance_type"], row["region"], row["purchase_option"], row["as_of"], row["note"])))
                    else:
                        found.append((path.name, _price(row)))
                except (ValueError, TypeError, InvalidOperation, BadInput) as error:
                    raise BadInput(f"{path}, line {rows.line_num} is no price row ({error})", next="delete the file, or repair the line") from None
    return tuple(found)


def absences(instance_type: str, region: str, purchase_option: str) -> tuple[tuple[str, str], ...]:
    """(date, reason) of each refresh that asked for this price and learnt that there is none; newest first."""
    key = (instance_type, region, purchase_option)
    rows = [row[3:] for _, row in _refreshed() if not isinstance(row, Price) and row[:3] == key]
    return tuple(sorted(rows, reverse=True))


def reread() -> None:
    """Forget what was read, so that a snapshot refreshed in this process counts."""
    from neuronfit.catalog.availability import known

    for cached in (every, _shipped, _refreshed, _by_key, regions, options, _priced_types, known):
        cached.cache_clear()


@lru_cache(maxsize=None)
def _by_key() -> dict[tuple[str, str, str], tuple[Price, ...]]:
    groups: dict[tuple[str, str, str], list[Price]] = {}
    for price in every():
        groups.setdefault((price.instance_type, price.region, price.purchase_option), []).append(price)
    return {key: tuple(sorted(rows, key=lambda row: (row.as_of, row.live), reverse=True)) for key, rows in groups.items()}


@lru_cache(maxsize=None)
def regions() -> tuple[str, ...]:
    """The regions in the snapshot, sorted."""
    return tuple(sorted({price.region for price in every()}))


@lru_cache(maxsize=None)
def options() -> tuple[str, ...]:
    """The ways to buy that there are rows for, in the order of :data:`OPTIONS`."""
    known = {price.purchase_option for price in every()}
    return tuple(option for option in OPTIONS if option in known)


def availability(instance_type: str):
    """Where and how this type is sold at all: an :class:`~neuronfit.catalog.availability.Availability`."""
    from neuronfit.catalog.availability import availability as answer

    return answer(instance_type)


# -- age and basis ----------------------------------------------------------------------------


def age_days(price: Union[Price, str], today: date) -> int:
    """Days between the day a price was seen to hold (a :class:`Price` or its ISO date) and ``today``; never below 0."""
    as_of = price.as_of if isinstance(price, Price) else price
    return max(0, (today - date.fromisoformat(as_of)).days)


def old_prices(as_of_by_target: dict[str, Optional[str]], today: date) -> tuple[Finding, ...]:
    """The finding ``prices_old`` when a target's price is older than :data:`OLD_AFTER_DAYS`; empty otherwise.

    Targets without a price (``None``) are left out.
    """
    ages = {name: age_days(as_of, today) for name, as_of in as_of_by_target.items() if as_of}
    old = {name: days for name, days in ages.items() if days > OLD_AFTER_DAYS}
    if not old:
        return ()
    said = ", ".join(f"{name} {as_of_by_target[name]} ({days} days)" for name, days in old.items())
    return (
        Finding(
            severity=Severity.WARNING,
            code="prices_old",
            because=f"prices older than {OLD_AFTER_DAYS} days: {said}",
            next="neuronfit prices refresh, or give the team's own rates with their dates in pricing.overrides",
        ),
    )


def same_basis(prices: Sequence[Price]) -> str:
    """The one basis of these prices in words. Raises :class:`~neuronfit.errors.NotComparable` for mixed regions or options."""
    bases = {price.basis: price for price in prices}
    if len(bases) > 1:
        said = " against ".join(f"{price.instance_type} {basis}" for basis, price in bases.items())
        raise NotComparable(
            "prices on different bases",
            said,
            allowed="one region and one purchase option for both sides",
            next="set pricing.region and pricing.purchase_option once, for every target",
        )
    return next(iter(bases), "")


def discounted(price: Price, fraction: float) -> Quantity:
    """A list price less the team's discount, USD/h; grade ``estimated``, because the discount is what the team says of it.

    Capacity blocks are left as they are, since commitment discounts do not apply to them; a fraction of 0 changes nothing.
    """
    if not 0 <= fraction < 1:
        raise BadInput("pricing.discount is not a fraction", fraction, allowed="from 0 to below 1", next="write 0.12 for 12 %")
    plain = price.quantity()
    if fraction == 0 or price.purchase_option == "capacity_block":
        return plain
    value = float(price.usd_per_hour * (1 - Decimal(str(fraction))))
    return plain.model_copy(update={"value": value, "grade": Grade.ESTIMATED, "why": f"{plain.why}, less {fraction:.4g} of it (pricing.discount)"})


def interruption_band(price: Price) -> Optional[str]:
    """How often such spot instances were interrupted in a month, as the Spot Advisor prints it (``"<5%"``); ``None`` where unknown."""
    match = re.search(r"interruption band ([<>]?\d+(?:-\d+)?%)", price.note)
    return match.group(1) if match else None


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
    if not rows:
        sold = availability(instance_type)
        if sold.capacity_block_only and purchase_option != "capacity_block":
            what += "; it is sold as capacity blocks only, prepaid for a fixed window"
    gone = absences(instance_type, region, purchase_option)
    if gone:
        what += f"; asked on {gone[0][0]}: {gone[0][1]}"
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
