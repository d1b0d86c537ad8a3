"""A price file that somebody has: what it is, on which basis, in which currency, of which date, and what is wrong with it.

    read(path) -> PriceFile

A file is recognised by its content, never by its name. Nothing is adopted: what should be used goes into
``pricing.overrides`` by hand, with its date. The readers are in ``lists``, ``market`` and ``bills``; each offers
``FORMATS`` (name -> title), ``recognise(head)`` and ``read(document, format)``.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Optional, Union

from neuronfit.catalog import instances
from neuronfit.errors import BadInput, BadRecord

__all__ = ["PriceFile", "Quoted", "Remark", "formats", "known_type", "money", "read"]


@dataclass(frozen=True)
class Quoted:
    """One price as the file has it. ``basis`` is a purchase option of ours, or words where it is none of them."""

    instance_type: str
    region: Optional[str]
    basis: str
    per_hour: Decimal
    currency: Optional[str]
    as_of: Optional[str]
    note: str = ""

    @property
    def ours(self) -> bool:
        """Whether the catalogue knows the type as one with accelerators."""
        return known_type(self.instance_type)


@dataclass(frozen=True)
class Remark:
    """What a reader of the file must know: a stable code and one sentence."""

    code: str
    because: str


@dataclass
class PriceFile:
    """What a file turned out to be. ``basis``, ``currency`` and ``as_of`` are ``None`` where the file does not say."""

    format: str
    title: str
    basis: Optional[str] = None
    currency: Optional[str] = None
    as_of: Optional[str] = None
    rows: list[Quoted] = field(default_factory=list)
    remarks: list[Remark] = field(default_factory=list)
    is_prices: bool = True
    """whether there is any price in it that could be used for an instance-hour"""
    other_rows: int = 0
    """rows of other types or kinds, read and not kept"""

    def remark(self, code: str, because: str) -> None:
        self.remarks.append(Remark(code, because))

    def of_type(self, instance_type: str) -> list[Quoted]:
        return [row for row in self.rows if row.instance_type == instance_type]

    @property
    def ours(self) -> list[Quoted]:
        return [row for row in self.rows if row.ours]


def known_type(name: str) -> bool:
    return name in _types()


def _types() -> frozenset[str]:
    return frozenset(row.instance_type for row in instances.every(level=None))


def money(text: object) -> Optional[Decimal]:
    """An amount with a decimal point, exact; ``None`` for what is absent (empty, ``NULL``) or no amount."""
    plain = str(text).strip() if text is not None else ""
    try:
        value = Decimal(plain)
    except ArithmeticError:
        return None
    return value if value.is_finite() else None


def _readers() -> tuple:
    from neuronfit.price_lists import bills, lists, market

    return (lists, market, bills)


def formats() -> dict[str, str]:
    """Every format that is recognised: name -> title."""
    return {name: title for reader in _readers() for name, title in reader.FORMATS.items()}


def read(path: Union[str, Path]) -> PriceFile:
    """Recognise and read a price file. Raises :class:`~neuronfit.errors.BadRecord` for what cannot be read as text
    and :class:`~neuronfit.errors.BadInput` for a file that is no price file of a known kind."""
    path = Path(path)
    try:
        with open(path, "rb") as file:
            head = file.read(65536)
    except OSError as error:
        raise BadRecord(f"cannot read the file ({error.strerror})", str(path), allowed="a price file", next="check the path") from None
    if not head.strip():
        raise BadRecord("the file is empty", str(path), allowed="a price file", next="copy it again")
    text = _text(head)
    for reader in _readers():
        name = reader.recognise(text)
        if name is not None:
            found = reader.read(path, name)
            _remark_on_types(found)
            return found
    raise BadInput(
        "no price file of a known kind",
        str(path),
        allowed=", ".join(formats().values()),
        next="give the rate under pricing.overrides, with its date",
    )


def _text(head: bytes) -> str:
    for encoding in ("utf-16",) if head[:2] in (b"\xff\xfe", b"\xfe\xff") else ("utf-8-sig", "latin-1"):
        try:
            return head.decode(encoding, "ignore" if encoding != "latin-1" else "strict")
        except UnicodeError:
            continue
    return ""


def _remark_on_types(found: PriceFile) -> None:
    if found.is_prices and found.rows and not found.ours:
        found.remark("no_accelerated_type", "no row is about an instance type with accelerators")
    zero = sorted({row.instance_type for row in found.rows if row.per_hour <= 0})
    if zero:
        found.remark("price_of_zero", f"{', '.join(zero[:5])}: a price of zero is no price; left out")
        found.rows = [row for row in found.rows if row.per_hour > 0]


def families(rows: Iterable[Quoted]) -> set[str]:
    """The families (``inf2``, ``g6``) that these rows are about."""
    return {row.instance_type.partition(".")[0] for row in rows}
