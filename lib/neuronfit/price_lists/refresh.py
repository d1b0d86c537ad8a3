"""Many look-ups into one dated file of the user, and what changed against the prices known before.

The file ``prices-<date>.csv`` lies in :func:`neuronfit.catalog.prices.folder` and is written whole or not at all. A
look-up that failed puts nothing into it, so every other price stays what it was. The shipped snapshot is not touched.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any, Optional

from neuronfit.catalog import instances, prices
from neuronfit.catalog.prices import Price
from neuronfit.errors import BadInput, MissingPackage, NotFound, NotWritable, WaitingForEvidence, nearest
from neuronfit.files import write_whole
from neuronfit.price_lists import aws

__all__ = ["LOOKUPS", "Change", "Failure", "Refreshed", "refresh", "connect"]

LOOKUPS = {
    "list": ("on_demand", *(option for option in prices.OPTIONS if option.startswith("reserved_"))),
    "savings_plans": tuple(option for option in prices.OPTIONS if "savings_plan" in option),
    "spot": ("spot",),
    "capacity_block": ("capacity_block",),
    "sagemaker": ("sagemaker_hosting",),
}
"""Look-up -> the purchase options that it answers."""

_NO_CREDENTIALS = (
    "UnrecognizedClientException",
    "InvalidClientTokenId",
    "ExpiredToken",
    "ExpiredTokenException",
    "AuthFailure",
    "InvalidSignatureException",
)
_PRICING_ENDPOINTS = {
    "aws": "us-east-1",
    "aws-us-gov": "us-east-1",
    "aws-eusc": "eusc-de-east-1",
    "aws-iso": "us-iso-east-1",
    "aws-iso-b": "us-isob-east-1",
}
"""Where the Price List is asked; one endpoint serves all regions of its partition, and GovCloud has none of its own."""


@dataclass(frozen=True)
class Failure:
    """A look-up that brought nothing: what was asked, and why it failed."""

    lookup: str
    instance_type: str
    region: str
    because: str

    def __str__(self) -> str:
        return f"{self.lookup} of {self.instance_type} in {self.region}: {self.because}"


@dataclass(frozen=True)
class Change:
    """One price before and now; ``old`` is ``None`` where none was known."""

    new: Price
    old: Optional[Price]

    @property
    def fraction(self) -> Optional[float]:
        """(new - old) / old."""
        return None if self.old is None else float(self.new.usd_per_hour / self.old.usd_per_hour - 1)


@dataclass(frozen=True)
class Refreshed:
    """What one refresh brought. ``path`` is ``None`` where nothing was written."""

    path: Optional[Path]
    asked: int
    changes: tuple[Change, ...]
    """every price that came, changed or not"""
    absent: tuple[tuple[str, str, str, str], ...]
    """(type, region, option, why) that AWS does not sell"""
    failures: tuple[Failure, ...]

    @property
    def changed(self) -> tuple[Change, ...]:
        return tuple(change for change in self.changes if change.old is not None and change.new.usd_per_hour != change.old.usd_per_hour)

    @property
    def new(self) -> tuple[Change, ...]:
        return tuple(change for change in self.changes if change.old is None)


def connect(profile: Optional[str] = None) -> Any:
    """A boto3 connection with credentials. Raises :class:`~neuronfit.errors.WaitingForEvidence` where there are none."""
    try:
        import boto3
        from botocore.exceptions import BotoCoreError
    except ImportError:
        raise MissingPackage("boto3 is not installed here", next="pip install boto3, or use the shipped snapshot") from None
    try:
        connection = boto3.Session(profile_name=profile)
        credentials = connection.get_credentials()
        if credentials is not None:
            credentials.get_frozen_credentials()
    except BotoCoreError as error:
        raise _no_credentials(str(error)) from None
    if credentials is None:
        raise _no_credentials("none are set up")
    return connection


def _no_credentials(why: str) -> WaitingForEvidence:
    return WaitingForEvidence(
        f"no AWS credentials: {why}; the shipped snapshot of {prices.shipped_as_of()} serves",
        allowed="a profile, environment variables or a role that may pricing:GetProducts, savingsplans:DescribeSavingsPlansOfferingRates, "
        "ec2:DescribeSpotPriceHistory and ec2:DescribeCapacityBlockOfferings",
        next="aws configure, then neuronfit prices refresh --profile NAME",
    )


def refresh(
    connection: Any,
    *,
    regions: Sequence[str] = ("us-east-1",),
    types: Sequence[str] = (),
    options: Sequence[str] = (),
    now: Optional[datetime] = None,
    progress: Callable[[Iterable[Any]], Iterable[Any]] = iter,
) -> Refreshed:
    """Ask AWS for these types (all known ones when empty), regions and purchase options (all when empty), and write the file.

    Raises :class:`~neuronfit.errors.BadInput` for names that do not exist and
    :class:`~neuronfit.errors.WaitingForEvidence` when the credentials are refused; any other failed look-up is listed.
    """
    now = now or datetime.now(timezone.utc)
    where = prices.folder()
    if where is None:
        raise BadInput("NEURONFIT_PRICES", prices.SHIPPED, allowed="a folder", next="unset it, or name the folder for refreshed prices")
    types = tuple(types) or tuple(row.instance_type for row in instances.every())
    _check_names(types, options)
    lookups = [name for name, answers in LOOKUPS.items() if not options or set(options) & set(answers)]
    wanted = set(options) or {option for answers in LOOKUPS.values() for option in answers}
    clients, found, absent, failures = _Clients(connection), [], [], []
    asks = [(lookup, instance_type, region) for region in regions for instance_type in types for lookup in lookups]
    for lookup, instance_type, region in progress(asks):
        try:
            answer = _ask(clients, lookup, instance_type, region, now)
        except aws.Unusable as error:
            failures.append(Failure(lookup, instance_type, region, str(error)))
            continue
        found += [price for price in answer.prices if price.purchase_option in wanted]
        absent += [(instance_type, region, option, why) for option, why in answer.absent if option in wanted]
    changes = tuple(Change(price, _known_before(price)) for price in found)
    path = _write(where / f"prices-{now.date().isoformat()}.csv", found, absent, now) if found or absent else None
    prices.reread()
    return Refreshed(path, len(asks), changes, tuple(absent), tuple(failures))


def _check_names(types: Sequence[str], options: Sequence[str]) -> None:
    for name in types:
        instances.find(name)
    answerable = [option for answers in LOOKUPS.values() for option in answers]
    for option in options:
        if option not in answerable:
            near = nearest(option, answerable)
            raise BadInput("--options", option, allowed=", ".join(answerable) + (f" (nearest: {near[0]})" if near else ""))


class _Clients:
    """One client per service and region, made when it is first needed."""

    def __init__(self, connection: Any):
        self.connection, self.made = connection, {}

    def __call__(self, service: str, region: str) -> Any:
        if (service, region) not in self.made:
            from botocore.config import Config

            config = Config(retries={"mode": "standard", "max_attempts": 5}, connect_timeout=10, read_timeout=60)
            self.made[service, region] = self.connection.client(service, region_name=region, config=config)
        return self.made[service, region]

    def partition(self, region: str) -> str:
        from botocore.exceptions import UnknownRegionError

        try:
            return self.connection.get_partition_for_region(region)
        except UnknownRegionError:
            raise aws.Unusable(f"no AWS region is called {region}") from None


def _ask(clients: _Clients, lookup: str, instance_type: str, region: str, now: datetime) -> aws.Answer:
    """One look-up; what botocore raises becomes :class:`aws.Unusable`, or an end when the credentials are refused."""
    from botocore.exceptions import BotoCoreError, ClientError, NoCredentialsError, PartialCredentialsError

    partition = clients.partition(region)
    if partition == "aws-cn":
        raise aws.Unusable("prices of the China regions are in CNY, and this table is in USD; they are kept apart, not converted")
    endpoint, today = _PRICING_ENDPOINTS.get(partition, "us-east-1"), now.date()
    try:
        if lookup == "list":
            return aws.list_prices(clients("pricing", endpoint), instance_type, region, today)
        if lookup == "sagemaker":
            return aws.sagemaker_hosting(clients("pricing", endpoint), instance_type, region, today)
        if lookup == "savings_plans":
            return aws.savings_plans(clients("savingsplans", "us-east-1"), instance_type, region, today)
        if lookup == "spot":
            return aws.spot(clients("ec2", region), instance_type, region, now)
        return aws.capacity_block(clients("ec2", region), instance_type, region, now)
    except (NoCredentialsError, PartialCredentialsError) as error:
        raise _no_credentials(str(error)) from None
    except ClientError as error:
        said = error.response.get("Error", {})
        code, text = said.get("Code", "no code"), said.get("Message", "")
        if code in _NO_CREDENTIALS:
            raise _no_credentials(f"{code}: {text}") from None
        raise aws.Unusable(f"{code}: {text}".strip(": ")) from None
    except BotoCoreError as error:
        raise aws.Unusable(f"{type(error).__name__}: {error}") from None


def _known_before(price: Price) -> Optional[Price]:
    """The newest usable price of the same key, on the same terms."""
    try:
        return prices.find(price.instance_type, price.region, price.purchase_option)
    except NotFound:
        return None


def _write(path: Path, found: Sequence[Price], absent: Sequence[tuple[str, str, str, str]], now: datetime) -> Path:
    """The day's file with these rows; rows of an earlier refresh of the same day that were not asked again are kept."""
    rows: dict[tuple[str, str, str], dict[str, Any]] = {}
    if path.is_file():
        with open(path, encoding="utf-8", newline="") as lines:
            rows = {(row["instance_type"], row["region"], row["purchase_option"]): row for row in csv.DictReader(lines)}
    for price in found:
        rows[price.instance_type, price.region, price.purchase_option] = {
            **{name: getattr(price, name) for name in prices.COLUMNS},
            "usd_per_hour": format(Decimal(price.usd_per_hour), "f"),
            "grade": price.grade.value,
        }
    for instance_type, region, option, why in absent:
        cells = (instance_type, region, option, "", now.date().isoformat(), prices.ABSENT, "", "", why)
        rows[instance_type, region, option] = dict(zip(prices.COLUMNS, cells))
    text = io.StringIO()
    writer = csv.DictWriter(text, prices.COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows[key] for key in sorted(rows))
    try:
        write_whole(path, text.getvalue())
    except NotWritable as error:
        raise NotWritable(error.what, error.value, next="set NEURONFIT_PRICES to a folder that can be written") from None
    return path
