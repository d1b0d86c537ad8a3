"""Readers of what is on offer: capacity blocks, the Spot Advisor's statistics, SkyPilot's tables."""

from __future__ import annotations

import csv
import re
from decimal import Decimal
from pathlib import Path
from typing import Optional

from neuronfit.adopt.document import Document
from neuronfit.catalog import prices
from neuronfit.errors import BadRecord, NotFound
from neuronfit.price_lists.foreign import PriceFile, Quoted, known_type, money

__all__ = ["FORMATS", "read", "recognise"]

FORMATS = {
    "capacity_blocks": "EC2 Capacity Block prices, JSON",
    "spot_advisor": "EC2 Spot Instance Advisor data, JSON",
    "skypilot_offers": "offers in SkyPilot's output, text",
    "skypilot_accelerators": "SkyPilot list of accelerators and clouds, CSV (no prices)",
}


def recognise(head: str) -> Optional[str]:
    """The format of a file by its first 64 KiB of text, or ``None``."""
    if head.lstrip().startswith("{"):
        if '"hourly_rate_usd"' in head:
            return "capacity_blocks"
        if '"spot_advisor"' in head or ('"ranges"' in head and '"dots"' in head):
            return "spot_advisor"
    if re.search(r"\bCLOUD\s+INSTANCE\b.*\bCOST \(\$\)", head):
        return "skypilot_offers"
    if re.match(r"\s*AcceleratorName,Providers\b", head):
        return "skypilot_accelerators"
    return None


def read(path: Path, format: str) -> PriceFile:
    """Read a file that :func:`recognise` named. Raises :class:`~neuronfit.errors.BadRecord`."""
    found = PriceFile(format, FORMATS[format])
    document = Document.open(path)
    try:
        {"capacity_blocks": _blocks, "spot_advisor": _advisor, "skypilot_offers": _offers, "skypilot_accelerators": _accelerators}[format](
            document, found
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise BadRecord(f"not the documented shape ({type(error).__name__}: {error})", path.name, allowed=FORMATS[format]) from None
    return found


def _blocks(document: Document, found: PriceFile) -> None:
    data = document.json
    found.basis, found.currency = "capacity_block", "USD"
    found.as_of = str(data.get("metadata", {}).get("last_updated", ""))[:10] or None
    zones, wrong = set(), []
    for name, entry in data["instance_types"].items():
        for row in entry["pricing"]:
            region, amount = row["region_code"], money(row["hourly_rate_usd"])
            if amount is None:
                continue
            local = re.fullmatch(r"[a-z]{2}(-[a-z]+)+-\d", region) is None
            zones |= {region} if local else set()
            each = money(row.get("accelerator_hourly_rate_usd"))
            if each is not None and abs(each * entry.get("accelerator_count", 1) - amount) > Decimal("0.01") * amount:
                wrong.append(f"{name} in {region}: {each} x {entry.get('accelerator_count')} is not {amount}")
            found.rows.append(Quoted(name, region, "capacity_block", amount, "USD", found.as_of, "Local Zone" if local else ""))
    found.remark(
        "capacity_block_basis", "prepaid for a fixed window, not cancellable; never beside on-demand prices, and no commitment discount applies"
    )
    if zones:
        found.remark("local_zone", f"{', '.join(sorted(zones))}: Local Zones, not Regions")
    for because in wrong[:5]:
        found.remark("accelerators_do_not_add_up", because)
    only = sorted({row.instance_type for row in found.ours if not prices.availability(row.instance_type).on_demand_regions})
    if only:
        found.remark("no_on_demand_price", f"{', '.join(only)}: no on-demand list has these, capacity blocks are the only price")


def _advisor(document: Document, found: PriceFile) -> None:
    """``s`` is a saving in per cent and ``r`` an index of a band: neither is a price. Price = on demand x (1 - s / 100)."""
    data = document.json
    bands = {entry["index"]: entry["label"] for entry in data["ranges"]}
    seen: dict[str, set[str]] = {}
    for region, systems in data["spot_advisor"].items():
        for name, entry in systems.get("Linux", {}).items():
            seen.setdefault(name, set()).add(region)
            if not known_type(name):
                found.other_rows += 1
                continue
            note = f"{entry['s']} % below on demand, interrupted in a month: {bands.get(entry['r'], '?')}"
            try:
                listed = prices.find(name, region, "on_demand")
            except NotFound:
                found.other_rows += 1
                continue
            amount = round(listed.usd_per_hour * (1 - Decimal(str(entry["s"])) / 100), 5)
            found.rows.append(Quoted(name, region, "spot_estimate", amount, "USD", None, f"{note}, of {listed.usd_per_hour} ({listed.as_of})"))
    found.basis, found.currency = "spot_estimate", None
    found.remark(
        "not_a_quote", "savings and interruption bands of the last 30 days, undated; the prices here are our product with the on-demand price"
    )
    regions = set(data["spot_advisor"])
    for name in sorted(set(data.get("instance_types", {})) | set(seen)):
        lacking = sorted(regions - seen.get(name, set()))
        if known_type(name) and lacking:
            found.remark("no_spot", f"{name}: no spot in {'any region here' if len(lacking) == len(regions) else ', '.join(lacking)}")


def _offers(document: Document, found: PriceFile) -> None:
    found.basis, found.currency = "on demand or spot, not said", "USD"
    pattern = re.compile(r"\b(AWS)\s+(\S+?)(\[Spot\])?\s+([\d.]+)\s+([\d.]+)\s+(\S+)\s+([a-z]{2}(?:-[a-z]+)+-\d[a-z]?)\s+([\d.]+)")
    for _, name, spot, _, _, accelerator, region, cost in pattern.findall(document.text):
        amount = money(cost)
        if amount is None:
            continue
        found.rows.append(Quoted(name, region, "spot" if spot else "on_demand", amount, "USD", None, f"accelerator printed as {accelerator}"))
        places = len(cost.partition(".")[2])
        if places <= 2:
            exact = None if spot else _exact(name, region)
            off = f"; the list has {exact}, {float(amount / exact) - 1:+.1%}" if exact else ""
            found.remark("rounded", f"{name} {cost}: rounded to {places} decimals{off}")
        word = accelerator.partition(":")[0]
        if word == "Inferentia" and name.startswith("inf2") or word == "Trainium" and name.startswith("trn2"):
            found.remark("accelerator_generation", f"{accelerator} on {name}: the generation follows from the instance type, not from this name")
    if not found.rows:
        found.is_prices = False


def _exact(name: str, region: str) -> Optional[Decimal]:
    try:
        return prices.find(name, region.rstrip("abcdef"), "on_demand").usd_per_hour
    except NotFound:
        return None


def _accelerators(document: Document, found: PriceFile) -> None:
    rows = list(csv.DictReader(document.text.splitlines()))
    found.is_prices, found.other_rows = False, len(rows)
    found.remark("no_prices", "which cloud has which accelerator; there is no price in this file")
    clouds = {row["AcceleratorName"]: [cloud.strip() for cloud in row["Providers"].split(",")] for row in rows}
    neuron = [name for name in clouds if name.startswith(("Inferentia", "Trainium"))]
    if neuron:
        found.remark("clouds", "; ".join(f"{name}: {', '.join(clouds[name])}" for name in neuron))
