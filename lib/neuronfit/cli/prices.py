"""`neuronfit prices`: the dated price snapshot."""

from __future__ import annotations

from typing import Any, Optional

import click

from neuronfit.cli.common import as_json_option, group, print_json
from neuronfit.errors import BadInput


@group.group()
def prices() -> None:
    """The dated price snapshot."""


@prices.command("show", epilog="\b\nExample:\n  neuronfit prices show inf2.xlarge g6.xlarge --region us-east-1")
@click.argument("instance_types", nargs=-1)
@click.option("--region", default="us-east-1", show_default=True, help="AWS region, or `all`.")
@click.option("--option", help="Purchase option, such as on_demand; default: all.")
@as_json_option
def prices_show(instance_types: tuple[str, ...], region: str, option: Optional[str], as_json: bool) -> int:
    """Show prices with their date and source."""
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
        if price.status in ("current", "derived")
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
    click.echo(f"{'instance type':<18}{'region':<16}{'purchase option':<26}{'USD/h':>11}  {'as of':<12}source")
    for price in shown:
        click.echo(
            f"{price.instance_type:<18}{price.region:<16}{price.purchase_option:<26}{price.usd_per_hour:>11.5f}  {price.as_of:<12}{price.source} ({price.grade})"
        )
    return 0


def _price_json(price: Any) -> dict[str, Any]:
    return {
        "instance_type": price.instance_type,
        "region": price.region,
        "purchase_option": price.purchase_option,
        "usd_per_hour": float(price.usd_per_hour),
        "as_of": price.as_of,
        "grade": str(price.grade),
        "source": price.source,
    }
