"""What the same instances cost more when they are bought through EKS, ECS, AWS Batch or SageMaker.

``deployments.csv`` has one row per option. A surcharge is per cluster (EKS), per instance-hour (SageMaker: the price of
``ml.<type>`` replaces that of EC2) or nothing (EC2, ECS, Batch). It is the same on both sides of a comparison only
for EKS; SageMaker's premium differs by type, so it can change which target is the cheaper one.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from typing import Optional

from neuronfit.catalog import prices, tables
from neuronfit.errors import BadInput, NotFound, nearest
from neuronfit.params import HOURS_PER_MONTH
from neuronfit.provenance import Grade, Quantity, absent, weakest

__all__ = ["EXTENDED", "Deployment", "Surcharge", "every", "find", "hosting_premium", "surcharge"]

EXTENDED = "eks_extended"
"""EKS with a Kubernetes version past its standard support: not a choice of the params file, but a price to know."""


@dataclass(frozen=True)
class Deployment:
    """One way to buy instances. ``usd_per_hour`` is per cluster; ``None`` where the charge is per instance type."""

    option: str
    title: str
    charge: str
    """``none``, ``per cluster`` or ``per instance``"""
    usd_per_hour: Optional[Decimal]
    grade: Grade
    recalled: bool
    """from general knowledge, not seen in a copy of the page"""
    source: str
    as_of: str
    note: str

    def quantity(self) -> Quantity:
        """The charge per cluster and hour, USD/h; absent where it depends on the type."""
        if self.usd_per_hour is None:
            return absent("USD/h", f"{self.title}: the charge depends on the instance type")
        why = f"{self.title}, {self.source} of {self.as_of}" + (" (recalled)" if self.recalled else "")
        return Quantity(value=float(self.usd_per_hour), unit="USD/h", grade=self.grade, why=why)


@dataclass(frozen=True)
class Surcharge:
    """What an option adds. ``per_instance`` is USD/h, the others USD a month; absent ones say why."""

    option: str
    per_instance: Quantity
    per_cluster: Quantity
    total: Quantity
    """all clusters and instances, USD/month"""


@lru_cache(maxsize=None)
def every() -> tuple[Deployment, ...]:
    """All options, in file order."""
    return tuple(
        Deployment(
            **{
                **row,
                "usd_per_hour": Decimal(row["usd_per_hour"]) if row["usd_per_hour"] else None,
                "grade": Grade(row["grade"]),
                "recalled": row["recalled"] == "yes",
            }
        )
        for row in tables.read("deployments")
    )


def find(option: str) -> Deployment:
    """The option of this name. Raises :class:`~neuronfit.errors.NotFound` with the nearest names."""
    by_name = {row.option: row for row in every()}
    try:
        return by_name[option]
    except KeyError:
        raise NotFound("unknown deployment", option, allowed=", ".join(nearest(option, by_name) or by_name)) from None


def hosting_premium(instance_type: str, region: str) -> Quantity:
    """USD per instance-hour that SageMaker hosting asks above EC2 on demand; absent with the reason where no ``ml.`` price is known."""
    try:
        hosting, plain = (prices.find(instance_type, region, option) for option in ("sagemaker_hosting", "on_demand"))
    except NotFound as error:
        return absent("USD/h", f"no price of ml.{instance_type} in {region} to set beside EC2 on demand: {error.what}")
    value = float(hosting.usd_per_hour - plain.usd_per_hour)
    why = f"ml.{instance_type} {hosting.usd_per_hour} ({hosting.as_of}) less EC2 on demand {plain.usd_per_hour} ({plain.as_of})"
    return Quantity(value=value, unit="USD/h", grade=weakest(hosting.quantity(), plain.quantity()), why=why)


def surcharge(
    option: str,
    instance_type: str,
    *,
    region: str = "us-east-1",
    purchase_option: str = "on_demand",
    instances: float = 1,
    clusters: int = 1,
    hours: float = HOURS_PER_MONTH,
) -> Surcharge:
    """What ``option`` adds to this many instances in a month of ``hours``, on top of their price under ``purchase_option``.

        USD/month = clusters x USD per cluster-hour x hours + instances x premium per instance-hour x hours

    Raises :class:`~neuronfit.errors.BadInput` for negative counts.
    """
    if not (instances >= 0 and clusters >= 0 and hours >= 0):
        raise BadInput("a negative count", f"instances {instances}, clusters {clusters}, hours {hours}", allowed="from 0")
    row = find(option)
    nothing = Quantity(value=0.0, unit="USD/month", grade=row.grade, why=row.note)
    if row.charge == "per cluster":
        rate = row.quantity()
        monthly = rate.model_copy(update={"value": rate.value * clusters * hours, "unit": "USD/month"})
        return Surcharge(option, rate.model_copy(update={"value": 0.0, "why": row.note}), monthly, monthly)
    if row.charge == "none":
        return Surcharge(option, row.quantity(), nothing, nothing)
    if purchase_option not in ("on_demand", "sagemaker_hosting"):
        premium = absent("USD/h", f"SageMaker hosting is priced on demand; {purchase_option} of EC2 does not apply to it")
    elif purchase_option == "sagemaker_hosting":
        premium = Quantity(value=0.0, unit="USD/h", grade=row.grade, why="the price is SageMaker's already")
    else:
        premium = hosting_premium(instance_type, region)
    if not premium.known:
        return Surcharge(option, premium, nothing, absent("USD/month", premium.why or "the premium is not known"))
    total = premium.model_copy(update={"value": premium.value * instances * hours, "unit": "USD/month"})
    return Surcharge(option, premium, nothing, total)
