"""`neuronfit prices`: the dated price snapshot, its refresh, where a type is sold, and price files."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date
from pathlib import Path
from typing import Any, Optional

import click

from neuronfit.cli.common import as_json_option, group, print_json
from neuronfit.errors import BadInput


@group.group()
def prices() -> None:
    """The dated price snapshot, and newer ones."""


@prices.command("show", epilog="\b\nExample:\n  neuronfit prices show inf2.xlarge g6.xlarge --region us-east-1")
@click.argument("instance_types", nargs=-1)
@click.option("--region", default="us-east-1", show_default=True, help="AWS region, or `all`.")
@click.option("--option", help="Purchase option, such as on_demand; default: all.")
@as_json_option
def prices_show(instance_types: tuple[str, ...], region: str, option: Optional[str], as_json: bool) -> int:
    """Show prices with their date, age and source."""
    from neuronfit.catalog import instances
    from neuronfit.catalog import prices as table

    for name in instance_types:
        instances.find(name)
    for what, value, known in (("--region", region, (*table.regions(), "all")), ("--option", option, (*table.options(), None))):
        if value not in known:
            raise BadInput(what, value, allowed=", ".join(entry for entry in known if entry))
    rows = [
        price
        for price in table.every()
        if price.status in ("current", "derived", "estimate")
        and (not instance_types or price.instance_type in instance_types)
        and region in ("all", price.region)
        and option in (None, price.purchase_option)
    ]
    newest: dict[tuple[str, str, str], Any] = {}
    for price in sorted(rows, key=lambda price: (price.status == "current", price.as_of)):
        newest[(price.instance_type, price.region, price.purchase_option)] = price
    if not newest:
        from neuronfit.errors import NotFound

        raise NotFound(
            "no price for",
            f"{', '.join(instance_types) or 'any type'} in {region}, {option or 'any option'}",
            allowed="other regions and options",
            next="neuronfit prices show --region all",
        )
    shown = [newest[key] for key in sorted(newest)]
    if as_json:
        print_json([_price_json(price) for price in shown])
        return 0
    today = date.today()
    click.echo(f"{'instance type':<18}{'region':<16}{'purchase option':<36}{'USD/h':>11}  {'as of':<12}{'age':>7}  source")
    for price in shown:
        age = table.age_days(price, today)
        old = "  old" if age > table.OLD_AFTER_DAYS else ""
        click.echo(
            f"{price.instance_type:<18}{price.region:<16}{price.purchase_option:<36}{price.usd_per_hour:>11.5f}  {price.as_of:<12}{age:>5} d"
            f"  {price.source} ({price.grade}){_band(table, price)}{old}"
        )
    if any(table.age_days(price, today) > table.OLD_AFTER_DAYS for price in shown):
        click.echo(f"old: seen more than {table.OLD_AFTER_DAYS} days ago. Next: neuronfit prices refresh")
    return 0


def _band(table: Any, price: Any) -> str:
    band = table.interruption_band(price)
    return f", interrupted in a month: {band}" if band else ""


def _price_json(price: Any) -> dict[str, Any]:
    return {
        "instance_type": price.instance_type,
        "region": price.region,
        "purchase_option": price.purchase_option,
        "usd_per_hour": float(price.usd_per_hour),
        "as_of": price.as_of,
        "age_days": _age(price),
        "grade": str(price.grade),
        "source": price.source,
        "note": price.note,
    }


def _age(price: Any) -> int:
    from neuronfit.catalog.prices import age_days

    return age_days(price, date.today())


# -- where ------------------------------------------------------------------------------------


@prices.command("where", epilog="\b\nExample:\n  neuronfit prices where trn2.48xlarge p5e.48xlarge")
@click.argument("instance_types", nargs=-1, required=True)
@as_json_option
def prices_where(instance_types: tuple[str, ...], as_json: bool) -> int:
    """Show in which regions, and how, a type is sold at all."""
    from neuronfit.catalog import prices as table

    found = [table.availability(name) for name in instance_types]
    if as_json:
        print_json(
            [
                {
                    "instance_type": one.instance_type,
                    "options": {region: list(ways) for region, ways in one.options.items()},
                    "capacity_block_only": one.capacity_block_only,
                    "smallest_of_family": one.smallest_of_family,
                    "as_of": one.as_of,
                }
                for one in found
            ]
        )
        return 0
    for one in found:
        click.echo(
            f"{one.instance_type}: "
            + (f"sold in {len(one.regions)} regions we have prices for (as of {one.as_of})" if one.sold else "in no price list we have")
        )
        if one.capacity_block_only:
            click.echo("  as capacity blocks only: prepaid for a fixed window, not cancellable")
        if one.smallest_of_family != one.instance_type:
            click.echo(f"  smallest of its family: {one.smallest_of_family}")
        for region, ways in one.options.items():
            click.echo(f"  {region:<16}{', '.join(ways)}")
    return 0


# -- refresh ----------------------------------------------------------------------------------


def _words(given: tuple[str, ...]) -> tuple[str, ...]:
    """``--types a,b --types c`` -> a, b, c, each once."""
    return tuple(dict.fromkeys(word.strip() for part in given for word in part.split(",") if word.strip()))


@prices.command(
    "refresh", epilog="\b\nExample:\n  neuronfit prices refresh --region us-east-1 --types inf2.xlarge,g6.xlarge --options on_demand,spot"
)
@click.option("--region", "regions", multiple=True, metavar="REGION", help="AWS region; may be repeated (default: us-east-1).")
@click.option("--types", multiple=True, metavar="TYPES", help="Instance types, separated by commas (default: all known ones).")
@click.option("--options", multiple=True, metavar="OPTIONS", help="Purchase options, separated by commas (default: all).")
@click.option("--profile", metavar="NAME", help="Profile of your AWS configuration.")
@as_json_option
def prices_refresh(regions: tuple[str, ...], types: tuple[str, ...], options: tuple[str, ...], profile: Optional[str], as_json: bool) -> int:
    """Ask AWS for today's prices, with your credentials."""
    from neuronfit.price_lists import refresh as refreshing

    connection = refreshing.connect(profile)
    done = refreshing.refresh(connection, regions=_words(regions) or ("us-east-1",), types=_words(types), options=_words(options), progress=_progress)
    if as_json:
        print_json(_refreshed_json(done))
    else:
        _show_refreshed(done)
    return 1 if done.failures else 0


def _progress(asks: Iterable[Any]) -> Iterable[Any]:
    from tqdm import tqdm

    return tqdm(asks, desc="prices", unit="look-up", disable=None)


def _refreshed_json(done: Any) -> dict[str, Any]:
    return {
        "file": str(done.path) if done.path else None,
        "asked": done.asked,
        "prices": [
            {
                **_price_json(change.new),
                "was_usd_per_hour": float(change.old.usd_per_hour) if change.old else None,
                "was_as_of": change.old.as_of if change.old else None,
                "change_fraction": change.fraction,
            }
            for change in done.changes
        ],
        "absent": [dict(zip(("instance_type", "region", "purchase_option", "because"), row)) for row in done.absent],
        "failures": [str(failure) for failure in done.failures],
    }


def _show_refreshed(done: Any) -> None:
    changed, new = done.changed, done.new
    same = len(done.changes) - len(changed) - len(new)
    click.echo(
        f"{done.asked} look-ups: {len(changed)} prices changed, {len(new)} new, {same} as before, {len(done.absent)} not sold, {len(done.failures)} failed"
    )
    for change in changed:
        price = change.new
        click.echo(
            f"  {price.instance_type:<18}{price.region:<16}{price.purchase_option:<36}{change.old.usd_per_hour.normalize():f} -> {price.usd_per_hour:f} USD/h"
            f"  ({change.fraction:+.1%} since {change.old.as_of})"
        )
    for change in new:
        price = change.new
        click.echo(f"  {price.instance_type:<18}{price.region:<16}{price.purchase_option:<36}{price.usd_per_hour:f} USD/h  (new)")
    for instance_type, region, option, why in done.absent:
        click.echo(f"  {instance_type:<18}{region:<16}{option:<36}{why}")
    for failure in done.failures:
        click.echo(f"  failed: {failure}; the price known before stays")
    click.echo(f"Written: {done.path}" if done.path else "Nothing was written.")


# -- read -------------------------------------------------------------------------------------


@prices.command("read", epilog="\b\nExample:\n  neuronfit prices read get-products.json")
@click.argument("file", type=click.Path(path_type=Path))
@as_json_option
def prices_read(file: Path, as_json: bool) -> int:
    """Say what a price file is, and what is wrong with it; nothing is adopted."""
    from neuronfit.price_lists import foreign

    found = foreign.read(file)
    if as_json:
        print_json(
            {
                "format": found.format,
                "is_prices": found.is_prices,
                "basis": found.basis,
                "currency": found.currency,
                "as_of": found.as_of,
                "prices": [{**vars(row), "per_hour": str(row.per_hour)} for row in found.ours],
                "other_rows": found.other_rows + len(found.rows) - len(found.ours),
                "remarks": [vars(remark) for remark in found.remarks],
            }
        )
        return 0
    not_said = "not said"
    click.echo(f"{file.name}: {found.title}")
    if not found.is_prices:
        click.echo("  There is no price in this file.")
    else:
        click.echo(f"  basis: {found.basis or not_said}   currency: {found.currency or not_said}   as of: {found.as_of or not_said}")
    rows = found.ours or found.rows[:5]
    for row in rows:
        amount = f"{row.per_hour:.5f}"
        click.echo(f"  {row.instance_type:<18}{row.region or '':<18}{row.basis:<30}{amount:>12} {row.currency or '':<4} {row.note}".rstrip())
    others = found.other_rows + len(found.rows) - len(rows)
    if others:
        click.echo(f"  and {others} rows of other types or kinds")
    for remark in found.remarks:
        click.echo(f"  {remark.code}: {remark.because}")
    click.echo("Nothing was adopted. A rate to use goes into pricing.overrides of a params file, with its date.")
    return 0
