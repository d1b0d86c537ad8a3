"""Readers of bills: FOCUS and Cost and Usage rows, and tables copied out of Cost Explorer."""

from __future__ import annotations

import csv
import re
from decimal import Decimal
from pathlib import Path
from typing import Optional

from neuronfit.adopt.document import Document, number
from neuronfit.errors import BadRecord
from neuronfit.price_lists.foreign import PriceFile, Quoted, known_type, money

__all__ = ["FORMATS", "read", "recognise"]

FORMATS = {
    "focus": "FOCUS cost rows, CSV",
    "cost_and_usage": "AWS Cost and Usage Report rows, CSV",
    "cost_explorer": "usage types with quantities and costs, copied from Cost Explorer, table",
}

_TYPE = re.compile(r"\b([a-z]+[0-9][a-z0-9-]*\.(?:[0-9]*xlarge|large|metal|medium))\b")


def recognise(head: str) -> Optional[str]:
    """The format of a file by its first 64 KiB of text, or ``None``."""
    first = head.lstrip().split("\n", 1)[0]
    if "BilledCost" in first and "EffectiveCost" in first:
        return "focus"
    if re.search(r"line_?item[_/]?usage_?type", first, re.IGNORECASE):
        return "cost_and_usage"
    if re.search(r"usage\s*type", first, re.IGNORECASE) and re.search(r"cost", first, re.IGNORECASE) and "|" in first:
        return "cost_explorer"
    return None


def read(path: Path, format: str) -> PriceFile:
    """Read a file that :func:`recognise` named. Raises :class:`~neuronfit.errors.BadRecord`."""
    found = PriceFile(format, FORMATS[format])
    {"focus": _focus, "cost_and_usage": _usage, "cost_explorer": _explorer}[format](path, found)
    return found


def _rows(path: Path):
    with open(path, encoding="utf-8-sig", newline="", errors="replace") as lines:
        for row in csv.DictReader(lines):
            yield {
                key: None if value in ("NULL", "null", "") else value
                for key, value in row.items()
                if key is not None and isinstance(value, (str, type(None)))
            }


def _focus(path: Path, found: PriceFile) -> None:
    """``NULL`` is missing; the amortised cost is EffectiveCost, what the invoice says is BilledCost. Sums are exact."""
    columns = ("BilledCost", "EffectiveCost", "ListCost", "ContractedCost")
    sums, count, dates, currencies, no_zone = {name: Decimal(0) for name in columns}, 0, [], set(), False
    for row in _rows(path):
        count += 1
        for name in columns:
            sums[name] += money(row.get(name)) or Decimal(0)
        currencies |= {row["BillingCurrency"]} if row.get("BillingCurrency") else set()
        started = row.get("ChargePeriodStart")
        dates += [started[:10]] if started else []
        no_zone |= bool(started) and not re.search(r"(Z|[+-]\d\d:?\d\d)$", started)
        name = _TYPE.search(f"{row.get('ChargeDescription') or ''} {row.get('SkuMeter') or ''}")
        hours = money(row.get("ConsumedQuantity"))
        unit_is_hours = (row.get("ConsumedUnit") or "") in ("Hrs", "Hours")
        if name and hours and unit_is_hours:
            billed, effective = money(row.get("BilledCost")) or Decimal(0), money(row.get("EffectiveCost")) or Decimal(0)
            paid = effective or billed
            if paid > 0:
                which = "EffectiveCost" if effective else "BilledCost, EffectiveCost is 0"
                found.rows.append(
                    Quoted(
                        name.group(1), row.get("RegionId"), "what was paid", paid / hours, row.get("BillingCurrency"), started and started[:10], which
                    )
                )
        else:
            found.other_rows += 1
    found.basis = "what was paid: EffectiveCost (amortised) where there is one, else BilledCost"
    found.currency, found.as_of = ", ".join(sorted(currencies)) or None, max(dates, default=None)
    found.remark("sums", f"{count} rows: " + ", ".join(f"{name} {sums[name].normalize():f}" for name in columns))
    zero = [name for name in columns if sums[name] == 0]
    if zero and count:
        found.remark("cost_column_of_zeros", f"{', '.join(zero)} is 0 in every row: not filled in, so not the cost")
    if no_zone:
        found.remark("times_without_zone", "times carry no zone; read as UTC")


def _usage(path: Path, found: PriceFile) -> None:
    """Sums per usage type: cost / hours is what was paid for an hour."""
    hours: dict[tuple[str, str], Decimal] = {}
    paid: dict[tuple[str, str], Decimal] = {}
    currencies, total, dates = set(), Decimal(0), []
    for raw in _rows(path):
        row = {re.sub(r"[^a-z]", "", key.lower()): value for key, value in raw.items()}
        usage, kind = row.get("lineitemusagetype") or "", row.get("lineitemlineitemtype") or "Usage"
        cost = money(row.get("lineitemunblendedcost")) or Decimal(0)
        total += cost
        dates += [row["lineitemusagestartdate"][:10]] if row.get("lineitemusagestartdate") else []
        currencies |= {row["lineitemcurrencycode"]} if row.get("lineitemcurrencycode") else set()
        match = re.search(r"(?:^|-)(BoxUsage|SpotUsage|DedicatedUsage):(\S+)$", usage)
        if not match or kind not in ("Usage", "DiscountedUsage", "SavingsPlanCoveredUsage"):
            found.other_rows += 1
            continue
        key = (match.group(2), f"{match.group(1)}, {kind}")
        hours[key] = hours.get(key, Decimal(0)) + (money(row.get("lineitemusageamount")) or Decimal(0))
        paid[key] = paid.get(key, Decimal(0)) + cost
    found.currency, found.as_of = ", ".join(sorted(currencies)) or None, max(dates, default=None)
    found.basis = "what was paid, unblended"
    for (name, kind), quantity in hours.items():
        if quantity > 0 and paid[name, kind] > 0:
            found.rows.append(
                Quoted(name, None, f"what was paid ({kind})", paid[name, kind] / quantity, found.currency, found.as_of, f"{quantity} h")
            )
    accelerated = sum((cost for (name, _), cost in paid.items() if known_type(name)), Decimal(0))
    found.remark(
        "share_of_accelerators", f"instances with accelerators are {accelerated:.2f} of {total:.2f}; the rest does not disappear with a migration"
    )


def _explorer(path: Path, found: PriceFile) -> None:
    """A Markdown table; whether a comma separates decimals is decided by quantity x unit price = cost, row by row."""
    lines = [
        [cell.strip().strip("`") for cell in line.strip().strip("|").split("|")] for line in Document.open(path).text.splitlines() if "|" in line
    ]
    if len(lines) < 2:
        raise BadRecord("the table has no rows", path.name)
    header = [cell.lower() for cell in lines[0]]
    places = {what: next((at for at, cell in enumerate(header) if re.search(pattern, cell)), None) for what, pattern in _COLUMNS.items()}
    if places["cost"] is None or places["quantity"] is None:
        raise BadRecord("the table has no column for quantity or cost", path.name, allowed=", ".join(header))
    rows = [row for row in lines[1:] if len(row) == len(header) and not re.fullmatch(r":?-+:?", row[0])]
    comma = _decimal_comma(rows, places)
    total = accelerated = Decimal(0)
    wrong = []
    region = re.search(r"\b([a-z]{2}(?:-[a-z]+)+-\d)\b", lines[0][0])
    for row in rows:
        quantity, cost = (number(row[places[what]], decimal_comma=comma) for what in ("quantity", "cost"))
        if quantity is None or cost is None:
            found.other_rows += 1
            continue
        exact = Decimal(str(cost))
        total += exact
        name = re.search(r"BoxUsage:(\S+)$", row[places["usage"] or 0])
        if name is None or quantity <= 0:
            found.other_rows += 1
            continue
        accelerated += exact if known_type(name.group(1)) else 0
        rate = _rate(row, places, comma)
        if rate is not None and abs(quantity * rate - cost) > 0.005 * cost:
            wrong.append(f"{name.group(1)}: {quantity:g} x {rate:g} is not {cost:g}")
        per_hour = Decimal(str(rate)) if rate is not None else round(exact / Decimal(str(quantity)), 6)
        found.rows.append(
            Quoted(name.group(1), region.group(1) if region else None, "what was paid", per_hour, "USD", None, f"{quantity:g} h, {cost:g} USD")
        )
    found.basis, found.currency = "what was paid, unblended", "USD" if "USD" in " ".join(lines[0]) or "$" in " ".join(lines[0]) else None
    if comma:
        found.remark("decimal_comma", "a comma separates decimals here: quantity x unit price = cost only that way")
    for because in wrong:
        found.remark("does_not_multiply", because)
    rest = total - accelerated
    found.remark(
        "share_of_accelerators",
        f"instances with accelerators are {accelerated:.2f} of {total:.2f} USD; the other {rest:.2f} do not disappear with a migration",
    )
    eks = {
        kind: cost
        for row in rows
        if (cost := number(row[places["cost"]], decimal_comma=comma))
        for kind in ("perCluster", "extendedSupport")
        if kind in row[0]
    }
    if len(eks) == 2 and eks["extendedSupport"] > eks["perCluster"]:
        because = f"EKS extended support cost {eks['extendedSupport']:.2f}, the control plane itself {eks['perCluster']:.2f}: upgrade the cluster"
        found.remark("eks_extended_support", because)


_COLUMNS = {"usage": r"usage\s*type", "quantity": r"quantity|amount", "cost": r"cost", "rate": r"price|rate"}


def _rate(row: list[str], places: dict[str, Optional[int]], comma: bool) -> Optional[float]:
    if places["rate"] is None:
        return None
    cell = re.match(r"[\d.,]+", row[places["rate"]])
    return number(cell.group(0), decimal_comma=comma) if cell else None


def _decimal_comma(rows: list[list[str]], places: dict[str, Optional[int]]) -> bool:
    """Whether more rows multiply out with decimal commas than without; without unit prices, whether any comma is no thousands separator."""

    def agreeing(comma: bool) -> int:
        count = 0
        for row in rows:
            quantity, cost, rate = (
                number(row[places["quantity"]], decimal_comma=comma),
                number(row[places["cost"]], decimal_comma=comma),
                _rate(row, places, comma),
            )
            count += bool(quantity and cost and rate and abs(quantity * rate - cost) <= 0.005 * cost + 1e-5)
        return count

    if places["rate"] is not None and agreeing(True) != agreeing(False):
        return agreeing(True) > agreeing(False)
    cells = [row[places[what]] for row in rows for what in ("quantity", "cost")]
    return any(re.search(r"\d,(\d{1,2}|\d{4,})\b", cell) for cell in cells) and not any("." in cell for cell in cells)
