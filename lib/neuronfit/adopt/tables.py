"""Tables in any dress: CSV with its delimiter found, Markdown, box drawings, columns between bars.

Header names are stripped; a name that occurs twice gets a number and is reported.
"""

from __future__ import annotations

import csv
import io
import re
from dataclasses import dataclass, field
from typing import Optional

from neuronfit.adopt.document import number

__all__ = ["Table", "bar_tables", "box_tables", "csv_tables", "delimiter_of"]


@dataclass
class Table:
    """A header and rows of text cells. ``notes``: what had to be repaired."""

    header: list[str]
    rows: list[dict[str, str]]
    title: str = ""
    decimal_comma: bool = False
    notes: list[str] = field(default_factory=list)
    duplicated: list[str] = field(default_factory=list)
    cut: Optional[str] = None
    """The last row as it stands, where it has fewer cells than the header."""

    def has(self, *names: str) -> bool:
        return set(names) <= set(self.header)

    def number(self, row: dict[str, str], name: str) -> Optional[float]:
        return number(row.get(name), decimal_comma=self.decimal_comma)


def delimiter_of(line: str) -> str:
    """Comma, semicolon or tab: whichever the header has most of outside quotes."""
    bare = re.sub(r'"[^"]*"', "", line)
    return max(",;\t", key=lambda sign: (bare.count(sign), sign == ","))


def csv_tables(text: str) -> list[Table]:
    """Blocks of a CSV file, parted by blank lines; a repeated header line starts nothing new and is left out."""
    tables: list[Table] = []
    for block in re.split(r"\n[ \t]*\n", text.strip("\n")):
        lines = [line for line in block.split("\n") if not line.startswith("#")]
        if not lines or not lines[0].strip():
            continue
        sign = delimiter_of(lines[0])
        try:
            cells = [row for row in csv.reader(io.StringIO("\n".join(lines)), delimiter=sign, skipinitialspace=True) if row]
        except csv.Error:
            continue
        if not cells:
            continue
        tables.append(_table(cells[0], cells[1:], decimal_comma=sign == ";" and _commas_decide(cells[1:])))
    return tables


def _commas_decide(rows: list[list[str]]) -> bool:
    """Are commas the decimal sign here? Yes if some cell has a comma not followed by exactly three digits."""
    return any(re.fullmatch(r"-?\d+,\d+", cell.strip()) and not re.fullmatch(r"-?\d{1,3}(,\d{3})+", cell.strip()) for row in rows for cell in row)


def _table(header: list[str], rows: list[list[str]], *, title: str = "", decimal_comma: bool = False) -> Table:
    names, duplicated = [], []
    for name in (cell.strip().strip("*`").strip() for cell in header):
        if name and name in names:
            duplicated.append(name)
            name = f"{name} #{sum(known == name or known.startswith(f'{name} #') for known in names) + 1}"
        names.append(name)
    table = Table(names, [], title, decimal_comma, duplicated=duplicated)
    for place, cells in enumerate(rows):
        cells = [cell.strip() for cell in cells]
        if cells == [name.strip() for name in header]:
            table.notes.append("the header line is repeated inside the table")
            continue
        if len(cells) < len(names) and place == len(rows) - 1 and any(names[len(cells) :]):
            table.cut = ", ".join(cells)
        table.rows.append({name: cell for name, cell in zip(names, cells) if name})
    return table


def bar_tables(text: str) -> list[Table]:
    """Markdown tables, and console tables whose cells are parted by ``|`` under a ruled line."""
    tables: list[Table] = []
    lines, place, title = text.split("\n"), 0, ""
    while place < len(lines):
        line = lines[place]
        if line.startswith("#"):
            title = line.strip("# ").strip()
        rule = lines[place + 1] if place + 1 < len(lines) else ""
        if line.count("|") >= 2 and re.fullmatch(r"[\s|:+=-]*-{3,}[\s|:+=-]*", rule) and not line.lstrip().startswith("+"):
            header = _cells(line)
            rows = []
            place += 2
            while place < len(lines) and lines[place].count("|") >= 1:
                rows.append(_cells(lines[place]))
                place += 1
            rows = [row for row in rows if not all(re.fullmatch(r"[-:+=\s]*", cell) for cell in row)]
            tables.append(_table(header, rows, title=title))
            continue
        place += 1
    return tables


def _cells(line: str) -> list[str]:
    line = line.strip()
    line = line[1:] if line.startswith("|") else line
    line = line[:-1] if line.endswith("|") and not line.endswith("\\|") else line
    return [cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", line)]


def box_tables(text: str) -> list[Table]:
    """Tables drawn with box characters; a cell that wraps is joined with the one above it. A last row that is cut keeps what it has."""
    tables: list[Table] = []
    title, header, rows, cut = "", None, [], None

    def close() -> None:
        nonlocal header, rows, cut
        if header:
            table = _table(header, [row for row in rows], title=title)
            table.cut = cut
            tables.append(table)
        header, rows, cut = None, [], None

    for line in text.split("\n"):
        bare = line.strip()
        if not bare:
            continue
        if bare[0] in "┏╭┌╔":
            close()
            continue
        if bare[0] in "┃║" and header is None:
            header = [cell.strip() for cell in re.split("[┃║]", bare.strip("┃║"))]
            continue
        if bare[0] in "│║┃" and header:
            cells = [cell.strip() for cell in re.split("[│║┃]", bare[1:-1] if bare[-1] in "│║┃" else bare[1:])]
            if rows and cells[0] and not any(cells[1:]) and len(cells) > 1:
                rows[-1][0] = f"{rows[-1][0]} {cells[0]}"
                continue
            cut = ", ".join(cells) if len(cells) < len(header) else None
            rows.append(cells)
            continue
        if bare[0] in "└╰╚":
            close()
            continue
        if bare[0] not in "┡├╞╠" and header is None:
            title = bare
    close()
    return tables
