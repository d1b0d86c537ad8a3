"""Readers of price lists: AWS's own in three forms, Karpenter's tables, the Neuron documentation's, FMBench's."""

from __future__ import annotations

import csv
import json
import re
from decimal import Decimal
from pathlib import Path
from typing import Any, Optional

from neuronfit.adopt.document import Document
from neuronfit.catalog import prices
from neuronfit.catalog.availability import availability
from neuronfit.errors import BadRecord, NotFound
from neuronfit.price_lists import aws
from neuronfit.price_lists.foreign import PriceFile, Quoted, families, known_type, money

__all__ = ["FORMATS", "read", "recognise"]

FORMATS = {
    "aws_get_products": "answer of the AWS Price List Query API (get-products), JSON",
    "aws_bulk_csv": "AWS bulk price list of EC2, CSV",
    "aws_savings_plans_csv": "AWS bulk price list of Savings Plans, CSV",
    "karpenter_go": "Karpenter's generated on-demand prices, Go",
    "neuron_ri_effective": "instance prices of the Neuron documentation (RI-effective), CSV",
    "fmbench_pricing": "FMBench pricing file, YAML",
}

_EXAMPLES = 50
"""Rows of types without accelerators that are kept from a file, as examples."""


def recognise(head: str) -> Optional[str]:
    """The format of a file by its first 64 KiB of text, or ``None``."""
    start = head.lstrip()
    if start.startswith("{") and '"PriceList"' in head:
        return "aws_get_products"
    if re.match(r'"?FormatVersion"?,', start):
        return "aws_savings_plans_csv" if "DiscountedRate" in head else "aws_bulk_csv" if "OfferTermCode" in head else None
    if "map[ec2types.InstanceType]float64" in head:
        return "karpenter_go"
    if re.match(r'"?Inst[^,\n]*Type"?,\s*"?RI-Effective', start, re.IGNORECASE):
        return "neuron_ri_effective"
    if re.search(r"^\s*(instance_based|token_based):", head, re.MULTILINE) and re.search(r"^pricing:", head, re.MULTILINE):
        return "fmbench_pricing"
    return None


def read(path: Path, format: str) -> PriceFile:
    """Read a file that :func:`recognise` named. Raises :class:`~neuronfit.errors.BadRecord`."""
    readers = {
        "aws_get_products": _get_products,
        "aws_bulk_csv": _bulk,
        "aws_savings_plans_csv": _plans,
        "karpenter_go": _karpenter,
        "neuron_ri_effective": _ri_effective,
        "fmbench_pricing": _fmbench,
    }
    found = PriceFile(format, FORMATS[format])
    readers[format](path, found)
    return found


# -- AWS --------------------------------------------------------------------------------------


def _get_products(path: Path, found: PriceFile) -> None:
    items = Document.open(path).json.get("PriceList")
    if not isinstance(items, list):
        raise BadRecord("PriceList is no list", path.name, allowed="what aws pricing get-products prints")
    try:
        rows = aws.listed(items)
    except aws.Unusable as error:
        raise BadRecord(str(error), path.name, next="copy the answer again") from None
    groups: dict[tuple[str, str, str], list[aws.Listed]] = {}
    for row in rows:
        if row.operating_system in ("Linux", "") and row.tenancy in ("Shared", ""):
            groups.setdefault((row.instance_type, row.region, row.option), []).append(row)
    for (instance_type, region, option), entries in groups.items():
        amounts = {row.per_hour for row in entries if row.per_hour > 0}
        if len(amounts) != 1:
            why = "no price above 0" if not amounts else f"{len(amounts)} prices ({', '.join(str(one) for one in sorted(amounts))})"
            found.remark("not_one_price", f"{instance_type} in {region} {option}: {why}; left out")
            continue
        row = entries[0]
        found.rows.append(Quoted(instance_type, region, option, amounts.pop(), row.currency, row.publication_date or row.effective_date or None))
    found.basis = ", ".join(sorted({row.basis for row in found.rows})) or None
    _summed_up(found)
    neuron = [json.loads(item)["product"]["attributes"] for item in items if isinstance(item, str)]
    counted = {a["instanceType"]: a.get("gpu") for a in neuron if a.get("gpu") and str(a.get("instanceType", ""))[:3] in ("inf", "trn")}
    if counted:
        said = ", ".join(f"{name} {count}" for name, count in counted.items())
        found.remark("gpu_means_device", f"the attribute gpu counts Neuron devices for Inferentia and Trainium ({said})")
    _missing_by_region(found)
    _ratio_by_region(found)


def _missing_by_region(found: PriceFile) -> None:
    """A type of the file that one of its regions lacks is not offered there; another region's price must not stand in."""
    regions = sorted({row.region for row in found.rows if row.region})
    types = sorted({row.instance_type for row in found.ours})
    for region in regions:
        lacking = [name for name in types if not any(row.region == region for row in found.of_type(name))]
        if lacking:
            found.remark("not_offered", f"{region} has no {', '.join(lacking)} here; another region's price must not stand in")


def _ratio_by_region(found: PriceFile) -> None:
    """How much dearer a region is differs by type, so the ratio of two types' costs depends on the region."""
    home = {row.instance_type: row.per_hour for row in found.ours if row.region == "us-east-1" and row.basis == "on_demand"}
    for region in sorted({row.region for row in found.ours if row.region} - {"us-east-1"}):
        ratios = {
            row.instance_type: row.per_hour / home[row.instance_type] for row in found.ours if row.region == region and row.instance_type in home
        }
        if ratios and max(ratios.values()) - min(ratios.values()) > Decimal("0.02"):
            low, high = min(ratios, key=ratios.__getitem__), max(ratios, key=ratios.__getitem__)
            because = (
                f"{region} against us-east-1: {high} x{ratios[high]:.3f}, {low} x{ratios[low]:.3f}; the ratio of two types depends on the region"
            )
            found.remark("ratio_depends_on_region", because)


def _offer_rows(path: Path, found: PriceFile):
    """Rows below the line that starts with SKU, one at a time: the whole file is gigabytes."""
    with open(path, encoding="utf-8-sig", newline="", errors="replace") as lines:
        for number, row in enumerate(csv.reader(lines)):
            if row and row[0] == "SKU":
                header = row
                break
            if len(row) == 2 and row[0] == "Publication Date":
                found.as_of = row[1][:10]
            if number > 20:
                raise BadRecord("no line starts with SKU", path.name, allowed="a bulk price list with its five lines of metadata")
        else:
            raise BadRecord("the file ends before its header", path.name, next="copy the whole file again")
        short = 0
        for row in csv.reader(lines):
            short += len(row) < len(header)
            yield dict(zip(header, row))
        if short:
            found.remark("rows_cut_off", f"{short} rows have fewer cells than the header")


def _bulk(path: Path, found: PriceFile) -> None:
    """Hourly and upfront rows of one term belong together: USD per hour = Hrs + upfront / (years x 8760)."""
    terms: dict[tuple[str, str], dict[str, Any]] = {}
    examples = 0
    for row in _offer_rows(path, found):
        name = row.get("Instance Type", "")
        key = (row.get("SKU", ""), row.get("OfferTermCode", ""))
        if not name or (key not in terms and not known_type(name) and examples >= _EXAMPLES):
            found.other_rows += 1
            continue
        if key not in terms:
            terms[key] = {"row": row, "hourly": Decimal(0), "upfront": Decimal(0)}
            examples += not known_type(name)
        amount = money(row.get("PricePerUnit"))
        if amount is not None:
            terms[key]["upfront" if row.get("Unit") == "Quantity" else "hourly"] += amount
    upfront = 0
    for term in terms.values():
        row = term["row"]
        years = {"1yr": 1, "3yr": 3}.get(row.get("LeaseContractLength", ""))
        per_hour = aws.effective_hourly(term["hourly"], term["upfront"], years) if years else term["hourly"]
        upfront += bool(term["upfront"])
        words = [row.get("TermType", ""), row.get("LeaseContractLength", ""), row.get("PurchaseOption", ""), row.get("OfferingClass", "")]
        words += [row.get("Operating System", ""), row.get("Pre Installed S/W", "").replace("NA", ""), row.get("Tenancy", "")]
        note = f"{term['hourly']} per hour and {term['upfront']} upfront over {years} years" if term["upfront"] else ""
        basis = ", ".join(word for word in words if word)
        found.rows.append(
            Quoted(row["Instance Type"], row.get("Region Code") or row.get("Location"), basis, per_hour, row.get("Currency"), found.as_of, note)
        )
    found.basis = "; ".join(sorted({row.basis for row in found.rows})[:4]) or None
    _summed_up(found)
    if upfront:
        found.remark(
            "upfront_row", f"{upfront} terms have an upfront row; it is spread over the term, since the hourly row alone would understate the price"
        )
    others = sorted({row.basis for row in found.rows if "Linux" not in row.basis or "Dedicated" in row.basis})
    if others:
        found.remark("not_linux_shared", f"not Linux on shared tenancy: {others[0]}" + (f" and {len(others) - 1} more" if len(others) > 1 else ""))


def _plans(path: Path, found: PriceFile) -> None:
    for row in _offer_rows(path, found):
        name, amount = row.get("DiscountedInstanceType", ""), money(row.get("DiscountedRate"))
        if not name or amount is None or (not known_type(name) and len(found.rows) >= _EXAMPLES):
            found.other_rows += 1
            continue
        family = row.get("Product Family", "") or row.get("OfferCode", "")
        basis = (
            f"{row.get('LeaseContractLength', '?')} {row.get('LeaseContractLengthUnit', 'year')} {row.get('PurchaseOption', '')} commitment, {family}"
        )
        usage = row.get("DiscountedUsageType", "")
        found.rows.append(
            Quoted(
                name,
                row.get("DiscountedRegionCode"),
                basis,
                amount,
                row.get("Currency"),
                found.as_of,
                f"{usage} {row.get('DiscountedOperation', '')}",
            )
        )
    found.basis = "; ".join(sorted({row.basis for row in found.rows})[:4]) or None
    _summed_up(found)
    found.remark("commitment_price", "these are commitment rates, paid whether used or not; never beside on-demand prices")
    boxes = [row for row in found.rows if not re.search(r"(^|-)BoxUsage:", row.note)]
    if boxes:
        found.remark("not_shared_use", f"{len(boxes)} rows are dedicated hosts or unused reservations ({boxes[0].note.strip()})")


def _summed_up(found: PriceFile) -> None:
    currencies = sorted({row.currency for row in found.rows if row.currency})
    found.currency = ", ".join(currencies) or None
    dates = sorted({row.as_of for row in found.rows if row.as_of})
    found.as_of = found.as_of or (dates[-1] if dates else None)
    foreign = [name for name in currencies if name != "USD"]
    if foreign:
        found.remark("another_currency", f"prices in {', '.join(foreign)}; this tool counts in USD and converts nothing")


# -- Karpenter --------------------------------------------------------------------------------


def _karpenter(path: Path, found: PriceFile) -> None:
    text = Document.open(path).text
    generated = re.search(r"generated at (\d{4}-\d{2}-\d{2})", text)
    found.as_of, found.basis = (generated.group(1) if generated else None), "on_demand"
    region = None
    for line in text.splitlines():
        opened = re.match(r'\s*"([a-z]{2}(?:-[a-z]+)+-\d)": \{', line)
        region = opened.group(1) if opened else region
        for name, amount in re.findall(r'"([a-z0-9-]+\.[a-z0-9-]+)":\s*([0-9.]+)', line):
            currency = "CNY" if (region or "").startswith("cn-") else "USD"
            found.rows.append(Quoted(name, region, "on_demand", Decimal(amount), currency, found.as_of))
    _summed_up(found)
    if any(row.currency == "CNY" for row in found.rows):
        because = (
            "the file does not name its currency; prices of China regions are in CNY (about 7 to the USD), so read as USD they would be far too dear"
        )
        found.remark("currency_by_region", because)
    for region in sorted({row.region for row in found.rows if row.region}):
        present = families(row for row in found.rows if row.region == region)
        lacking = [name for name in ("inf2", "trn1", "trn2", "g5") if name not in present]
        if lacking:
            partition = {"cn": " (China)", "us-gov": " (GovCloud)"}.get("us-gov" if region.startswith("us-gov") else region[:2], "")
            found.remark("not_offered", f"{region}{partition} lists no {', '.join(lacking)}: not offered there")
    _premium(found)


def _premium(found: PriceFile) -> None:
    """Against us-east-1 of the catalogue, for USD rows."""
    for region in sorted({row.region for row in found.rows if row.region and row.currency == "USD"} - set(prices.regions())):
        ratios = [
            float(row.per_hour / home.usd_per_hour) - 1
            for row in found.rows
            if row.region == region and (home := _find(row.instance_type, "us-east-1", "on_demand")) is not None and home.as_of >= "2026"
        ]
        if ratios:
            found.remark("region_premium", f"{region} against us-east-1: {sorted(ratios)[len(ratios) // 2]:+.0%} (median of {len(ratios)} types)")


def _find(instance_type: str, region: str, option: str) -> Optional[prices.Price]:
    try:
        return prices.find(instance_type, region, option)
    except NotFound:
        return None


# -- what others print ------------------------------------------------------------------------


def _ri_effective(path: Path, found: PriceFile) -> None:
    rows = list(csv.reader(Document.open(path).text.splitlines()))
    found.basis, equal, ratios = "reserved_3yr_no_upfront", 0, []
    for cells in rows[1:]:
        amount = money(cells[1]) if len(cells) > 1 else None
        if amount is None:
            continue
        name = cells[0].strip().lower()
        found.rows.append(Quoted(name, None, "reserved_3yr_no_upfront", amount, None, None, "printed as RI-Effective"))
        same, listed = _find(name, "us-east-1", "reserved_3yr_no_upfront"), _find(name, "us-east-1", "on_demand")
        equal += same is not None and abs(same.usd_per_hour - amount) <= Decimal("0.0005")
        ratios += [listed.usd_per_hour / amount] if listed else []
    found.remark("basis_not_said", "neither region, currency, date nor term is printed")
    if equal:
        found.remark(
            "basis_recognised",
            f"{equal} of {len(found.rows)} rates are the 3-year no-upfront reserved rates of us-east-1 (USD), rounded to three decimals",
        )
    if ratios:
        because = f"on demand is {min(ratios):.2f} to {max(ratios):.2f} times as dear; beside an on-demand GPU price these exaggerate the saving by that much"
        found.remark("never_beside_on_demand", because)


def _fmbench(path: Path, found: PriceFile) -> None:
    import yaml

    try:
        data = yaml.safe_load(Document.open(path).text)
    except (yaml.YAMLError, ValueError) as error:
        raise BadRecord(f"not valid YAML ({str(error).splitlines()[0]})", path.name) from None
    pricing = data.get("pricing") if isinstance(data, dict) else None
    if not isinstance(pricing, dict):
        raise BadRecord("there is no section pricing", path.name)
    hourly, tokens = pricing.get("instance_based") or {}, pricing.get("token_based") or {}
    provisioned, ratios = [], {}
    for name, value in hourly.items():
        amount = money(value)
        if amount is None:
            continue
        plain = str(name).removeprefix("ml.")
        if "." not in plain or not re.fullmatch(r"[a-z]+[0-9][a-z0-9-]*\.[a-z0-9]+", plain):
            provisioned.append(f"{name} {value}")
            continue
        hosting = str(name).startswith("ml.")
        found.rows.append(Quoted(plain, None, "sagemaker_hosting" if hosting else "EC2, terms not said", amount, None, None, f"printed as {name}"))
        listed = _find(plain, "us-east-1", "on_demand") if known_type(plain) else None
        if hosting and listed is not None:
            ratios[plain] = float(amount / listed.usd_per_hour)
        elif not hosting and known_type(plain) and listed is None and availability(plain).capacity_block_only:
            found.remark("no_on_demand_price", f"{plain} {value}: this type is sold as capacity blocks only, so this is no on-demand price")
    kinds = [word for word, there in (("instance-hours", found.rows), ("provisioned throughput", provisioned), ("per token", tokens)) if there]
    found.basis = "sagemaker_hosting (ml. names)" + (", EC2" if any(row.basis != "sagemaker_hosting" for row in found.rows) else "")
    found.other_rows = len(tokens) + len(provisioned)
    found.remark(
        "kinds_of_price", f"{len(kinds)} kinds in one file: {', '.join(kinds)}" + (f" ({', '.join(provisioned)} an hour)" if provisioned else "")
    )
    found.remark("undated", "no date, region or currency is printed")
    fresh = {name: ratio for name, ratio in ratios.items() if ratio <= _STALE}
    if fresh:
        found.remark(
            "sagemaker_premium",
            f"ml. prices are {min(fresh.values()) - 1:.0%} to {max(fresh.values()) - 1:.0%} above EC2 on demand; never mix the two",
        )
    for name in sorted(set(ratios) - set(fresh)):
        listed = _find(name, "us-east-1", "on_demand")
        old = [price for price in prices.history(name, "us-east-1", "on_demand") if price.status in ("historic", "superseded")]
        seen = f" (was {old[0].usd_per_hour} until {old[0].as_of})" if old else ""
        found.remark(
            "stale", f"ml.{name} is {ratios[name]:.2f} times EC2 on demand of {listed.as_of}, {listed.usd_per_hour}{seen}: older than the price cut"
        )


_STALE = 1.45
"""SageMaker asks 15 to 40 % more than EC2; above this the EC2 price behind it is an old one."""
