"""One look-up of one price at AWS, through a boto3 client that the caller made.

Each function returns an :class:`Answer` or raises :class:`Unusable` with the reason; a service's own errors
(throttling, access denied) come through as botocore raises them. Nothing is guessed: several prices where one
was expected, another currency, or text that is no JSON end the look-up, and the older price stays.

Shapes of requests and answers: AWS Price List Query API, Savings Plans API and EC2 API as botocore describes them.
The Price List answers a list of JSON *strings*; a reserved price has an hourly and an upfront part:

    USD per hour = Hrs + upfront / (years x 8760)
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal, InvalidOperation
from statistics import median
from typing import Any, Optional

from neuronfit.catalog import prices
from neuronfit.catalog.prices import Price
from neuronfit.errors import NotFound
from neuronfit.provenance import Grade

__all__ = [
    "HOURS_PER_YEAR",
    "Answer",
    "Listed",
    "Unusable",
    "capacity_block",
    "effective_hourly",
    "list_prices",
    "listed",
    "sagemaker_hosting",
    "savings_plans",
    "spot",
]

HOURS_PER_YEAR = 8760
_PAYMENTS = {"No Upfront": "no_upfront", "Partial Upfront": "partial_upfront", "All Upfront": "all_upfront"}
_PLANS = {"Compute": "compute_savings_plan", "EC2Instance": "instance_savings_plan"}
_YEARS = {31_536_000: 1, 94_608_000: 3}
_MOST_PAGES = 500


class Unusable(Exception):
    """An answer that must not become a price; ``str()`` is the reason in one line."""


@dataclass(frozen=True)
class Answer:
    """What one look-up brought. ``absent`` is purchase option -> why there is no such price."""

    prices: tuple[Price, ...] = ()
    absent: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Listed:
    """One term of one SKU: an on-demand price, or a reserved one with both its parts."""

    instance_type: str
    region: str
    option: str
    """``on_demand`` or ``reserved_<years>yr_<payment>``"""
    sku: str
    currency: str
    hourly: Decimal
    upfront: Decimal
    years: int
    effective_date: str
    publication_date: str
    operating_system: str
    tenancy: str

    @property
    def per_hour(self) -> Decimal:
        return effective_hourly(self.hourly, self.upfront, self.years) if self.years else self.hourly


def effective_hourly(hourly: Decimal, upfront: Decimal, years: int) -> Decimal:
    """USD per hour of a commitment: the hourly part and the upfront fee spread over its hours. Raises ``ValueError``."""
    if years < 1:
        raise ValueError(f"a commitment of {years} years")
    return hourly + upfront / (years * HOURS_PER_YEAR)


# -- Price List -------------------------------------------------------------------------------


def list_prices(client: Any, instance_type: str, region: str, today: date) -> Answer:
    """On-demand and standard reserved prices of one type in one region (Linux, shared tenancy, nothing pre-installed)."""
    metal = instance_type.endswith(".metal")
    wanted = {
        "instanceType": instance_type,
        "regionCode": region,
        "locationType": "AWS Region",
        "operatingSystem": "Linux",
        "tenancy": "Dedicated" if metal else "Shared",
        "preInstalledSw": "NA",
        "capacitystatus": "Used",
        "marketoption": "OnDemand",
        "licenseModel": "No License required",
        **({"productFamily": "Compute Instance (bare metal)"} if metal else {}),
    }
    rows = [row for row in listed(_price_list(client, "AmazonEC2", wanted)) if (row.instance_type, row.region) == (instance_type, region)]
    return _one_each(rows, instance_type, region, today, always=("on_demand",))


def sagemaker_hosting(client: Any, instance_type: str, region: str, today: date) -> Answer:
    """What SageMaker hosting charges for ``ml.<instance_type>``."""
    name = f"ml.{instance_type}"
    items = _price_list(client, "AmazonSageMaker", {"instanceName": name, "regionCode": region, "component": "Hosting"})
    rows = [
        Listed(**{**vars(row), "instance_type": instance_type, "option": "sagemaker_hosting"}) for row in listed(items) if row.option == "on_demand"
    ]
    return _one_each(rows, instance_type, region, today, always=("sagemaker_hosting",))


def _price_list(client: Any, service: str, wanted: dict[str, str]) -> Iterator[Any]:
    filters = [{"Type": "TERM_MATCH", "Field": field, "Value": value} for field, value in wanted.items()]
    pages = client.get_paginator("get_products").paginate(ServiceCode=service, FormatVersion="aws_v1", MaxResults=100, Filters=filters)
    for number, page in enumerate(pages):
        if number >= _MOST_PAGES:
            raise Unusable(f"the list does not end after {_MOST_PAGES} pages")
        yield from page.get("PriceList", ())


def listed(items: Iterable[Any]) -> list[Listed]:
    """Every on-demand and standard reserved term of these items, each a JSON string or what it decodes to. Zero rows are kept."""
    return [row for item in items for row in _terms(item)]


def _terms(item: Any) -> Iterator[Listed]:
    try:
        item = json.loads(item) if isinstance(item, str) else item
        product, terms = item["product"], item.get("terms", {})
        attributes, sku = product["attributes"], product.get("sku", "")
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise Unusable(f"an item of the price list is not the documented JSON ({type(error).__name__}: {error})") from None
    try:
        for kind, offers in terms.items():
            for term in offers.values():
                option, years = _option_of(kind, term.get("termAttributes") or {})
                if option is None:
                    continue
                parts = [_part(dimension) for dimension in term["priceDimensions"].values()]
                currencies = {currency for _, currency, _ in parts}
                yield Listed(
                    instance_type=attributes.get("instanceType") or attributes.get("instanceName", ""),
                    region=attributes.get("regionCode", ""),
                    option=option,
                    sku=sku,
                    currency="/".join(sorted(currencies)),
                    hourly=sum((amount for unit, _, amount in parts if unit != "Quantity"), Decimal(0)),
                    upfront=sum((amount for unit, _, amount in parts if unit == "Quantity"), Decimal(0)),
                    years=years,
                    effective_date=str(term.get("effectiveDate", ""))[:10],
                    publication_date=str(item.get("publicationDate", ""))[:10],
                    operating_system=attributes.get("operatingSystem", ""),
                    tenancy=attributes.get("tenancy", ""),
                )
    except (KeyError, TypeError, AttributeError) as error:
        raise Unusable(f"a term of SKU {sku} is not the documented JSON ({type(error).__name__}: {error})") from None


def _option_of(kind: str, attributes: dict[str, str]) -> tuple[Optional[str], int]:
    if kind == "OnDemand":
        return "on_demand", 0
    years = {"1yr": 1, "3yr": 3}.get(attributes.get("LeaseContractLength", ""))
    payment = _PAYMENTS.get(attributes.get("PurchaseOption", ""))
    if kind != "Reserved" or attributes.get("OfferingClass") != "standard" or not years or not payment:
        return None, 0
    return f"reserved_{years}yr_{payment}", years


def _part(dimension: dict[str, Any]) -> tuple[str, str, Decimal]:
    """(unit, currency, amount) of one price dimension; the price is text with ten decimals, kept exact."""
    [(currency, amount)] = _one_currency(dimension["pricePerUnit"]).items()
    return dimension.get("unit", "Hrs"), currency, _money(amount)


def _one_currency(amounts: dict[str, str]) -> dict[str, str]:
    if len(amounts) != 1:
        raise Unusable(f"a price in {len(amounts)} currencies ({', '.join(sorted(amounts)) or 'none'}) where one was expected")
    return amounts


def _money(text: Any) -> Decimal:
    try:
        amount = Decimal(str(text))
    except InvalidOperation:
        raise Unusable(f"a price that is no number: {text!r}") from None
    if not amount.is_finite() or amount < 0:
        raise Unusable(f"a price that is no amount: {text!r}")
    return amount


def _one_each(rows: list[Listed], instance_type: str, region: str, today: date, always: tuple[str, ...]) -> Answer:
    """At most one price per option. Zero rows are dropped; two different prices, or another currency, end the look-up."""
    foreign = sorted({row.currency for row in rows} - {"USD"})
    if foreign:
        raise Unusable(f"prices in {', '.join(foreign)}, and this table is in USD; they are kept apart, not converted")
    found, absent = [], []
    for option in sorted({*always, *(row.option for row in rows)}, key=prices.OPTIONS.index):
        of_option = [row for row in rows if row.option == option]
        priced = [row for row in of_option if row.per_hour > 0]
        amounts = {row.per_hour for row in priced}
        if len(amounts) > 1:
            said = ", ".join(f"{row.sku or 'no SKU'} {row.per_hour}" for row in priced)
            raise Unusable(f"{len(priced)} {option} prices where one was expected ({said}); which one is Linux is not certain")
        if not priced:
            zero = f"; {len(of_option)} rows of 0 dropped" if of_option else ""
            absent.append((option, f"no {'on-demand' if option == 'on_demand' else option.replace('_', ' ')} price in the price list{zero}"))
            continue
        row = priced[0]
        note = f"effective {row.effective_date or 'date not given'}, list published {row.publication_date or 'date not given'}"
        if row.upfront:
            note += f"; {row.hourly} per hour and {row.upfront} upfront over {row.years} years"
        found.append(_row(instance_type, region, option, row.per_hour, today, "aws-price-list-api", note))
    return Answer(tuple(found), tuple(absent))


def _row(instance_type: str, region: str, option: str, amount: Decimal, today: date, source: str, note: str) -> Price:
    return Price(instance_type, region, option, round(amount, 10).normalize(), today.isoformat(), "current", Grade.PUBLISHED, source, note)


# -- Savings Plans ----------------------------------------------------------------------------


def savings_plans(client: Any, instance_type: str, region: str, today: date) -> Answer:
    """Compute and EC2 Instance Savings Plans rates, no upfront, 1 and 3 years (Linux, shared tenancy)."""
    rates: dict[str, set[Decimal]] = {}
    for row in _rates(client, instance_type, region):
        offering = row.get("savingsPlanOffering", {})
        years, plan = _YEARS.get(offering.get("durationSeconds")), _PLANS.get(offering.get("planType"))
        usage = str(row.get("usageType", ""))
        if not years or not plan or row.get("operation") != "RunInstances" or not re.search(rf"(^|-)BoxUsage:{re.escape(instance_type)}$", usage):
            continue  # another system, a dedicated host, or an unused reservation
        if offering.get("currency", "USD") != "USD":
            raise Unusable(f"rates in {offering['currency']}, and this table is in USD; they are kept apart, not converted")
        if row.get("unit") != "Hrs":
            raise Unusable(f"a rate per {row.get('unit')} where one per hour was expected")
        rates.setdefault(f"{plan}_{years}yr_no_upfront", set()).add(_money(row.get("rate")))
    found, absent = [], []
    for option in (f"{plan}_{years}yr_no_upfront" for plan in _PLANS.values() for years in (1, 3)):
        amounts = rates.get(option, set()) - {Decimal(0)}
        if len(amounts) > 1:
            raise Unusable(f"{len(amounts)} {option} rates where one was expected ({', '.join(str(one) for one in sorted(amounts))})")
        if not amounts:
            absent.append((option, f"no {option.replace('_', ' ')} rate is offered"))
            continue
        note = "hourly commitment, no upfront; paid whether it is used or not"
        found.append(_row(instance_type, region, option, amounts.pop(), today, "aws-savings-plans-api", note))
    return Answer(tuple(found), tuple(absent))


def _rates(client: Any, instance_type: str, region: str) -> Iterator[dict[str, Any]]:
    filters = {"region": region, "instanceType": instance_type, "productDescription": "Linux/UNIX", "tenancy": "shared"}
    asked = {
        "savingsPlanTypes": list(_PLANS),
        "savingsPlanPaymentOptions": ["No Upfront"],
        "products": ["EC2"],
        "serviceCodes": ["AmazonEC2"],
        "filters": [{"name": name, "values": [value]} for name, value in filters.items()],
    }
    yield from _pages(client.describe_savings_plans_offering_rates, asked, "searchResults", "nextToken")


def _pages(call: Any, asked: dict[str, Any], results: str, token_name: str) -> Iterator[dict[str, Any]]:
    token, seen = None, set()
    while True:
        page = call(**asked, **({token_name: token} if token else {}))
        yield from page.get(results, ())
        token = page.get(token_name)
        if not token:
            return
        if token in seen or len(seen) > _MOST_PAGES:
            raise Unusable("the pages repeat themselves")
        seen.add(token)


# -- spot and capacity blocks -----------------------------------------------------------------


def spot(client: Any, instance_type: str, region: str, now: datetime) -> Answer:
    """The spot price in force: the latest of each zone, of these the median; the range is in the note.

    Zones are told apart by their id, since their names differ between accounts.
    """
    pages = client.get_paginator("describe_spot_price_history").paginate(
        InstanceTypes=[instance_type], ProductDescriptions=["Linux/UNIX", "Linux/UNIX (Amazon VPC)"], StartTime=now
    )
    latest: dict[str, tuple[datetime, Decimal]] = {}
    for row in (row for page in pages for row in page.get("SpotPriceHistory", ())):
        if row.get("InstanceType") != instance_type:
            continue
        zone, amount = row.get("AvailabilityZoneId") or row.get("AvailabilityZone", "?"), _money(row.get("SpotPrice"))
        if amount > 0 and (zone not in latest or row["Timestamp"] > latest[zone][0]):
            latest[zone] = (row["Timestamp"], amount)
    if not latest:
        return Answer(absent=(("spot", "no spot price in any zone"),))
    by_price = sorted((amount, zone) for zone, (_, amount) in latest.items())
    (low, low_zone), (high, high_zone) = by_price[0], by_price[-1]
    note = f"latest of {len(latest)} zones, median; from {low} ({low_zone}) to {high} ({high_zone})"
    band = _band(instance_type, region)
    note += f"; {band}" if band else "; interruption band not known"
    return Answer((_row(instance_type, region, "spot", median(amount for amount, _ in by_price), now.date(), "aws-spot-history-api", note),))


def _band(instance_type: str, region: str) -> Optional[str]:
    """The interruption band of the shipped Spot Advisor copy, with its date."""
    try:
        advised = prices.find(instance_type, region, "spot_estimate")
    except NotFound:
        return None
    band = prices.interruption_band(advised)
    return f"interruption band {band} (Spot Advisor of {advised.as_of})" if band else None


def capacity_block(client: Any, instance_type: str, region: str, now: datetime, *, hours: int = 24, count: int = 1, weeks: int = 8) -> Answer:
    """The capacity blocks on offer: UpfrontFee / (hours x instances), the median of the offers; the range is in the note."""
    asked = {
        "InstanceType": instance_type,
        "InstanceCount": count,
        "CapacityDurationHours": hours,
        "StartDateRange": now,
        "EndDateRange": now + timedelta(weeks=weeks),
    }
    amounts = []
    for offer in _pages(client.describe_capacity_block_offerings, asked, "CapacityBlockOfferings", "NextToken"):
        if offer.get("CurrencyCode", "USD") != "USD":
            raise Unusable(f"offers in {offer['CurrencyCode']}, and this table is in USD; they are kept apart, not converted")
        over = offer.get("CapacityBlockDurationHours", hours) * offer.get("InstanceCount", count)
        fee = _money(offer.get("UpfrontFee"))
        if over > 0 and fee > 0:
            amounts.append(fee / over)
    if not amounts:
        return Answer(absent=(("capacity_block", f"no block of {hours} h for {count} instance is on offer in the next {weeks} weeks"),))
    note = f"prepaid; median of {len(amounts)} offers of {hours} h, from {min(amounts):.6g} to {max(amounts):.6g} per hour"
    return Answer((_row(instance_type, region, "capacity_block", median(amounts), now.date(), "aws-capacity-block-api", note),))
