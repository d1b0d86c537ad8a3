"""Where a type is sold at all: regions, ways to buy, capacity blocks only, and whether there is a smaller size.

A cheaper chip that is not to be had is a finding. What is known is what price lists say: a type with a price
in a region is sold there, one without is *not quoted* there in any list we have, each list with its date.
On-demand lists cover nine regions (:func:`covered`); another region is not judged, because no list says what is missing there.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import Optional

from neuronfit.catalog import instances, prices
from neuronfit.errors import NotComparable, NotFound, nearest
from neuronfit.record import Finding, Severity

__all__ = ["Availability", "availability", "covered", "findings", "known", "refuse"]

_SOLD = ("current", "derived", "estimate", "superseded")
"""A price that was replaced still says that the type is sold there; a historic one does not."""


@dataclass(frozen=True)
class Availability:
    """What the price lists say about one instance type. ``options`` is region -> ways to buy, both sorted."""

    instance_type: str
    family: str
    options: dict[str, tuple[str, ...]] = field(hash=False)
    smallest_of_family: str
    """the cheapest size to start with: fewest accelerators, then fewest CPUs, of those that have a price"""
    as_of: Optional[str]
    """newest date among its prices; ``None`` where it has none"""

    @property
    def regions(self) -> tuple[str, ...]:
        return tuple(self.options)

    @property
    def sold(self) -> bool:
        """Whether any list we have prices it."""
        return bool(self.options)

    def regions_with(self, option: str) -> tuple[str, ...]:
        """Regions where it can be bought on these terms."""
        return tuple(region for region, ways in self.options.items() if option in ways)

    @property
    def on_demand_regions(self) -> tuple[str, ...]:
        return self.regions_with("on_demand")

    @property
    def spot_regions(self) -> tuple[str, ...]:
        return tuple(region for region, ways in self.options.items() if {"spot", "spot_estimate"} & set(ways))

    @property
    def capacity_block_only(self) -> bool:
        """Sold, and in no region any other way."""
        return self.sold and {way for ways in self.options.values() for way in ways} == {"capacity_block"}

    def is_sold(self, region: str, option: str) -> bool:
        """Whether a price list has it in this region on these terms; ``spot`` and ``spot_estimate`` are one market."""
        if option in ("spot", "spot_estimate"):
            return region in self.spot_regions
        return option in self.options.get(region, ())

    def __str__(self) -> str:
        if not self.sold:
            return f"{self.instance_type}: in no price list we have"
        where = "; ".join(f"{region}: {', '.join(ways)}" for region, ways in self.options.items())
        return f"{self.instance_type} (as of {self.as_of}): {where}"


@lru_cache(maxsize=None)
def known() -> dict[str, dict[str, set[str]]]:
    """Type -> region -> ways to buy, of prices that a newer refresh did not find gone. Do not change it."""
    table: dict[str, dict[str, set[str]]] = {}
    for price in prices.every():
        gone = prices.absences(price.instance_type, price.region, price.purchase_option)
        if price.status in _SOLD and not (gone and gone[0][0] > price.as_of):
            table.setdefault(price.instance_type, {}).setdefault(price.region, set()).add(price.purchase_option)
    return table


def availability(instance_type: str) -> Availability:
    """Where and how it is sold. Raises :class:`~neuronfit.errors.NotFound` for a type that is in no list at all."""
    priced = known()
    try:
        facts = instances.find(instance_type)
        family = facts.family
    except NotFound:
        if instance_type not in priced:
            near = nearest(instance_type, [*priced, *(row.instance_type for row in instances.every(level=None))])
            raise NotFound("unknown instance type", instance_type, allowed=", ".join(near) or "see neuronfit prices show") from None
        family = instance_type.partition(".")[0]
    ways = {region: tuple(sorted(found, key=prices.OPTIONS.index)) for region, found in sorted(priced.get(instance_type, {}).items())}
    return Availability(
        instance_type=instance_type,
        family=family,
        options=ways,
        smallest_of_family=_smallest(family, priced) or instance_type,
        as_of=max((price.as_of for price in prices.every() if price.instance_type == instance_type), default=None),
    )


def _smallest(family: str, priced: dict[str, dict[str, set[str]]]) -> Optional[str]:
    sizes = [row for row in instances.every() if row.family == family and row.instance_type in priced]
    return min(sizes, key=lambda row: (row.accelerator_count, row.vcpus or 0, row.instance_type)).instance_type if sizes else None


def covered() -> tuple[str, ...]:
    """Regions whose whole on-demand list we have: only there does a missing type mean that it is not sold.

    What a user refreshed is a few types of a region, so it does not count.
    """
    return tuple(sorted({price.region for price in prices.every() if price.purchase_option == "on_demand" and not price.live}))


def findings(target: str, instance_type: str, region: str, option: str) -> tuple[Finding, ...]:
    """What stands against buying this type in this region on these terms; empty where a price list has it.

    ===================== ==========================================================================
    not_sold_in_region    no list has it in this region at all
    capacity_block_only   it is sold, but as capacity blocks only, and those were not asked for
    spot_absent           it is sold in this region, and no spot offer is known
    not_sold_this_way     it is sold in this region, on other terms
    ===================== ==========================================================================
    """
    sold = availability(instance_type)
    judged = region in covered() or sold.capacity_block_only or prices.absences(instance_type, region, option)
    if sold.is_sold(region, option) or not judged:
        return ()
    elsewhere = ", ".join(sold.regions_with(option)) or "no region we have prices for"
    ways = ", ".join(way.replace("_", " ") for way in sold.options.get(region, ()))
    words = option.replace("_", " ")
    if sold.capacity_block_only and option != "capacity_block":
        because = f"{instance_type} is sold as capacity blocks only (prepaid, 1 to 182 days, not cancellable), in {', '.join(sold.regions)}"
        to_do = f"pricing: {{region: {sold.regions[0]}, purchase_option: capacity_block}} for every target, or an override of your own"
        return (_against("capacity_block_only", because, to_do, target),)
    if region not in sold.options:
        because = f"no price list has {instance_type} in {region}" + (
            f"; it is sold in {', '.join(sold.regions)}" if sold.sold else " or anywhere else"
        )
        return (_against("not_sold_in_region", because, "another region for every target, another type, or neuronfit prices refresh", target),)
    if option in ("spot", "spot_estimate"):
        because = f"no spot offer of {instance_type} is known in {region}; it is sold there as {ways}"
        to_do = f"pricing.purchase_option: on_demand; spot of it is known in {', '.join(sold.spot_regions) or 'no region'}"
        return (_against("spot_absent", because, to_do, target),)
    because = f"{instance_type} has no {words} price in {region}; it is sold there as {ways}, and {words} in {elsewhere}"
    return (_against("not_sold_this_way", because, "one of these for every target, neuronfit prices refresh, or pricing.overrides", target),)


def _against(code: str, because: str, next_step: str, target: str) -> Finding:
    return Finding(severity=Severity.WARNING, code=code, because=because, next=next_step, target=target)


def refuse(instance_type: str, region: str, option: str) -> None:
    """Raise :class:`~neuronfit.errors.NotComparable` with the reason when it is not sold there on these terms."""
    against = findings(instance_type, instance_type, region, option)
    if against:
        raise NotComparable(f"{against[0].code.replace('_', ' ')}: {against[0].because}", next=against[0].next)
