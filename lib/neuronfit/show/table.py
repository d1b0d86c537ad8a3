"""The nouns of what is shown: a table whose numbers carry their grade, and a note where there is none.

A :class:`Table` is the same thing in a notebook, in a terminal and in the report: ``_repr_html_``
gives self-styled HTML, ``str()`` aligned text, and :meth:`Table.html` plain markup for the report's
own style sheet. Nothing random goes in, so the same records give the same bytes.
"""

from __future__ import annotations

import html as markup
import re
import unicodedata
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Optional, Union

from neuronfit.provenance import Grade, Quantity
from neuronfit.units import metric

__all__ = ["ABSENT", "Cell", "Column", "GRADE_MEANS", "Note", "Piece", "Row", "Sentences", "Table", "cell", "number", "plain", "sentences"]

NO_MATH = "tex2jax_ignore mathjax_ignore"
"""Classes that keep MathJax from setting what stands between two dollar signs as a formula: a notebook runs it over all HTML."""

MANY = 9
"""A table of more columns is set smaller in a notebook: it has 848 pixels beside the file browser of a window of 1,280."""

ABSENT = "–"
"""What stands where a number is absent; its reason is the tooltip."""

GRADE_MEANS = {
    Grade.MEASURED: "raw values taken by this code on the host described in the record",
    Grade.IMPORTED: "another tool's result file, adopted",
    Grade.PUBLISHED: "a vendor's or paper's figure",
    Grade.ESTIMATED: "our own formula over other numbers",
}


def number(quantity: Optional[Quantity], metric_name: str) -> str:
    """One number in a sentence: with its unit and grade letter, ``"5.97 ms [P]"``, or why there is none."""
    if quantity is None:
        return f"{ABSENT} (not known)"
    if quantity.value is None:
        return f"{ABSENT} ({quantity.why})"
    return f"{metric(metric_name).text(quantity.value)} [{quantity.grade.letter}]"


def plain(value: object) -> str:
    """Any value as text: names inside URLs (``//user:secret@``) never reach a page."""
    return re.sub(r"//[^/@\s]+@", "//", str(value))


# -- cells ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Piece:
    """One number or word of a cell."""

    text: str
    grade: Optional[Grade] = None
    interval: str = ""
    why: str = ""
    """the reason of an absent number, or what a present one leans on"""
    record: str = ""
    """id of the record that says so"""

    @classmethod
    def of(cls, quantity: Optional[Quantity], metric_name: str) -> "Piece":
        """A quantity in the shown unit of its metric (the unit itself belongs to the column)."""
        if quantity is None:
            return cls(ABSENT, why="not known")
        if quantity.value is None:
            return cls(ABSENT, why=quantity.why or "not known")
        shown = metric(metric_name)
        interval = ""
        if quantity.low is not None and quantity.high is not None and quantity.high > quantity.low:
            low, high = shown.number(quantity.low), shown.number(quantity.high)
            interval = f"{low}–{high}" if low != high else ""
        return cls(shown.number(quantity.value), quantity.grade, interval, quantity.why or "", quantity.record or "")

    def __str__(self) -> str:
        return f"{self.text} {self.grade.letter}" if self.grade else self.text


@dataclass(frozen=True)
class Cell:
    """What stands in one place of a table: pieces joined by a slash, and a small second line."""

    pieces: tuple[Piece, ...]
    note: str = ""
    strong: bool = False
    tone: str = ""
    """``good``, ``bad``, ``wait`` or nothing: a hint of colour beside words that already say it"""
    anchor: str = ""
    """id of the record that this cell introduces, so that others can lead to it"""

    @property
    def graded(self) -> bool:
        return any(piece.grade for piece in self.pieces)

    @property
    def absent(self) -> bool:
        return all(piece.text == ABSENT for piece in self.pieces)

    def __str__(self) -> str:
        text = " / ".join(str(piece) for piece in self.pieces)
        details = [piece.interval for piece in self.pieces if piece.interval] + ([self.note] if self.note else [])
        return f"{text} ({'; '.join(details)})" if details and text else text or self.note


Amount = tuple[Optional[Quantity], str]
"""A quantity and the metric it is shown as."""

Content = Union[str, Cell, Amount, None]


def cell(*contents: Content, note: str = "", strong: bool = False, tone: str = "", record: str = "") -> Cell:
    """A cell from words, quantities with their metric name, or nothing (shown as absent).

    ``record`` is the id of the record to lead to where a quantity does not name its own.
    """
    pieces: list[Piece] = []
    for content in contents:
        if isinstance(content, Cell):
            pieces += content.pieces
        elif isinstance(content, tuple):
            pieces.append(Piece.of(*content))
        else:
            pieces.append(Piece(plain(content)) if content not in (None, "") else Piece(ABSENT, why="not known"))
    if len(pieces) > 1 and all(piece.text == ABSENT for piece in pieces):
        pieces = [Piece(ABSENT, why="; ".join(dict.fromkeys(piece.why for piece in pieces)))]
    if record:
        pieces = [piece if piece.record else replace(piece, record=record) for piece in pieces]
    return Cell(tuple(pieces), plain(note), strong, tone)


@dataclass(frozen=True)
class Column:
    """A column, defined before it is shown: label, unit, meaning. Numbers align right, words left.

    ``wide`` keeps a column of sentences from being squeezed.
    """

    label: str
    meaning: str
    unit: str = ""
    words: bool = False
    wide: bool = False


@dataclass(frozen=True)
class Row:
    """A row; ``today`` marks the one that everything is compared with."""

    cells: tuple[Cell, ...]
    today: bool = False


@dataclass(frozen=True)
class Note:
    """A line where a table or figure would be, when there is nothing to show yet. It is falsy."""

    text: str

    def __bool__(self) -> bool:
        return False

    def __str__(self) -> str:
        return self.text

    def html(self) -> str:
        return f'<p class="remark">{markup.escape(self.text)}</p>'

    def _repr_html_(self) -> str:
        return f'<p class="{NO_MATH}" style="opacity:.7;margin:.4em 0">{markup.escape(self.text)}</p>'


@dataclass(frozen=True)
class Sentences:
    """Paragraphs to read. Printed text is broken by JupyterLab wherever the line ends, also in the middle of a word."""

    texts: tuple[str, ...]

    def __str__(self) -> str:
        return "\n".join(self.texts)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return "\n".join(f'<p class="{NO_MATH}" style="margin:.4em 0">{markup.escape(text)}</p>' for text in self.texts)


def sentences(*texts: str) -> Sentences:
    """What a notebook says in words: ``show.sentences(found.bottom_line)``."""
    return Sentences(texts)


# -- the table --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Table:
    """Columns with definitions, rows of cells, and a second group shown apart (``reference``)."""

    caption: str
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    reference: tuple[Row, ...] = ()
    reference_title: str = ""
    footnote: str = ""
    key: str = field(default="", compare=False)
    """a short name for CSS, e.g. ``headline``"""
    record: str = ""
    """id of the record to lead to where a number does not name its own"""

    def __post_init__(self) -> None:
        for row in (*self.rows, *self.reference):
            if len(row.cells) != len(self.columns):
                raise ValueError(f"{self.caption}: a row has {len(row.cells)} cells, the table {len(self.columns)} columns")

    def definitions(self) -> list[str]:
        """One line per column: label, unit, meaning."""
        return [f"{column.label}{f' ({column.unit})' if column.unit else ''}: {column.meaning}" for column in self.columns]

    @property
    def grades(self) -> list[Grade]:
        """The grades that occur, strongest first."""
        used = {piece.grade for row in (*self.rows, *self.reference) for entry in row.cells for piece in entry.pieces}
        return [grade for grade in Grade if grade in used]

    @property
    def absences(self) -> dict[str, list[str]]:
        """Reason -> where a number is absent for it, ``"l4: full load, your traffic"``: a tooltip cannot be read on paper, nor by touch."""
        found: dict[str, dict[str, list[str]]] = {}
        for row in (*self.rows, *self.reference):
            for column, entry in zip(self.columns, row.cells):
                for piece in entry.pieces:
                    if piece.text == ABSENT and piece.why:
                        labels = found.setdefault(piece.why, {}).setdefault(row.cells[0].pieces[0].text, [])
                        labels += [column.label] if column.label not in labels else []
        return {why: [f"{row}: {', '.join(labels)}" for row, labels in places.items()] for why, places in found.items()}

    # -- as text ----------------------------------------------------------------------------

    def __str__(self) -> str:
        heads = [f"{column.label}{f' [{column.unit}]' if column.unit else ''}" for column in self.columns]
        body = [[str(entry) for entry in row.cells] for row in (*self.rows, *self.reference)]
        widths = [max(_width(line[index]) for line in [heads, *body]) for index in range(len(heads))]

        def aligned(line: Sequence[str]) -> str:
            padded = (
                text + " " * (width - _width(text)) if column.words else " " * (width - _width(text)) + text
                for text, width, column in zip(line, widths, self.columns)
            )
            return "  ".join(padded).rstrip()

        lines = [self.caption, aligned(heads), "  ".join("-" * width for width in widths)]
        lines += [aligned(line) for line in body[: len(self.rows)]]
        if self.reference:
            lines += [self.reference_title, *(aligned(line) for line in body[len(self.rows) :])]
        if self.grades:
            lines.append(", ".join(f"{grade.letter} {grade}" for grade in self.grades))
        if self.footnote:
            lines.append(self.footnote)
        return "\n".join(lines)

    __repr__ = __str__

    # -- as HTML ----------------------------------------------------------------------------

    def html(self, anchors: Container[str] = ()) -> str:
        """Markup with class names only, for a page that brings its own style sheet.

        A grade letter leads to its record where the page says (in ``anchors``) that it shows that record.
        """
        return self._markup(_Dress(inline=False, anchors=anchors))

    def _repr_html_(self) -> str:
        """Markup that brings its own style: what a notebook shows, definitions folded above the table."""
        return f'<div class="{NO_MATH}">\n{self._markup(_Dress(inline=True))}\n</div>'

    def _markup(self, dress: "_Dress") -> str:
        inline = dress.inline
        out: list[str] = []
        rows = (*self.rows, *self.reference)  # a column without a word needs no room for words
        self = replace(
            self,
            columns=tuple(replace(one, wide=one.wide and not all(row.cells[place].absent for row in rows)) for place, one in enumerate(self.columns)),
        )
        if inline:
            out.append(self._definitions_markup(dress))
        dense = "dense" if inline and len(self.columns) > MANY else ""
        out.append(f"<table {dress('table', dense, f'table-{self.key}' if self.key else '')}>")
        out.append(f"<caption {dress('caption')}>{markup.escape(self.caption)}</caption>")
        out.append("<thead><tr>" + "".join(self._head(column, dress) for column in self.columns) + "</tr></thead>")
        out.append("<tbody>" + "".join(self._row(row, dress) for row in self.rows) + "</tbody>")
        if self.reference:
            title = f'<tr><th {dress("apart")} colspan="{len(self.columns)}" scope="rowgroup">{markup.escape(self.reference_title)}</th></tr>'
            out.append("<tbody>" + title + "".join(self._row(row, dress) for row in self.reference) + "</tbody>")
        out.append("</table>")
        if inline and (self.grades or self.footnote):
            legend = " · ".join(f"{grade.letter} {grade}" for grade in self.grades)
            text = ". ".join(part for part in (legend, self.footnote) if part)
            out.append(f"<p {dress('remark')}>{markup.escape(text)}</p>")
        return "\n".join(out)

    def _definitions_markup(self, dress: "_Dress") -> str:
        entries = "".join(
            f"<div><b>{markup.escape(column.label)}</b>{f' ({markup.escape(column.unit)})' if column.unit else ''}: {markup.escape(column.meaning)}</div>"
            for column in self.columns
        )
        return f"<details {dress('defs')}><summary>What the columns mean</summary>{entries}</details>"

    def _head(self, column: Column, dress: "_Dress") -> str:
        unit = f"<small {dress('unit')}>{markup.escape(column.unit)}</small>" if column.unit else ""
        looks = dress("words" if column.words else "num", "wide" if column.wide else "", "head" if dress.inline else "")
        return f'<th scope="col" {looks} title="{markup.escape(column.meaning)}">{markup.escape(column.label)}{unit}</th>'

    def _row(self, row: Row, dress: "_Dress") -> str:
        cells = "".join(self._cell(entry, column, dress, is_head=index == 0) for index, (entry, column) in enumerate(zip(row.cells, self.columns)))
        return f"<tr {dress('today')}>{cells}</tr>" if row.today else f"<tr>{cells}</tr>"

    def _cell(self, entry: Cell, column: Column, dress: "_Dress", is_head: bool) -> str:
        pieces = '<span class="slash"> / </span>'.join(_piece(piece, dress, self.record) for piece in entry.pieces)
        if entry.strong:
            pieces = f"<strong>{pieces}</strong>"
        details = " / ".join(piece.interval for piece in entry.pieces if piece.interval)
        small = f"<small {dress('interval')}>{markup.escape(details)}</small>" if details else ""
        small += f"<small {dress('small')}>{markup.escape(entry.note)}</small>" if entry.note else ""
        anchor = f' id="record-{entry.anchor}"' if entry.anchor and not dress.inline else ""
        body = f'<span class="v"{anchor}>{pieces}{small}</span>'
        label = f"{column.label}, {column.unit}" if column.unit else column.label
        classes = dress("words" if column.words else "num", entry.tone, "none" if entry.absent else "", "wide" if column.wide else "")
        if is_head:
            return f'<th scope="row" {classes}>{body}</th>'
        return f'<td {classes} data-label="{markup.escape(label)}">{body}</td>'


def _piece(piece: Piece, dress: "_Dress", default_record: str) -> str:
    title = f' title="{markup.escape(piece.why)}"' if piece.why else ""
    text = _foldable(markup.escape(piece.text)) if dress.inline else markup.escape(piece.text)
    record = piece.record or default_record
    leads = record in dress.anchors
    if piece.text == ABSENT:
        return f"<span {dress('absent')}{title}>{text}</span>"
    if piece.grade is None:
        if leads and piece.record == piece.text:
            return f'<a href="#record-{record}">{text}</a>'
        return f"<span{title}>{text}</span>" if title else text
    letter, look = piece.grade.letter, dress("g", f"g-{piece.grade.letter.lower()}")
    mark = f'<abbr {look} title="{piece.grade}">{letter}</abbr>'
    if leads:
        mark = f'<a {look} href="#record-{record}" title="{piece.grade}, record {record}">{letter}</a>'
    return f'<span class="n"{title}>{text}{mark}</span>'


def _foldable(text: str) -> str:
    """Where ids of records and names with points or underscores may be broken: else one of them makes a column too wide for a notebook."""
    return re.sub(r"(?<=[a-z]{3}[._])(?=[a-z]{3})|(?<=\b[0-9a-f]{8})(?=[0-9a-f]{8}\b)", "<wbr/>", text)


class _Dress:
    """How an element gets its looks: by class names, or by a style of its own (a notebook has classes of its own)."""

    def __init__(self, inline: bool, anchors: Container[str] = ()):
        self.inline, self.anchors = inline, anchors

    def __call__(self, *names: str) -> str:
        names = tuple(name for name in names if name)
        if not self.inline:
            return f'class="{" ".join(names)}"'
        style = ";".join(_STYLE[name] for name in names if _STYLE.get(name))
        return f'style="{style}"' if style else ""


_STYLE = {
    "table": "border-collapse:collapse;font-variant-numeric:tabular-nums;margin:.3em 0",
    "dense": "font-size:12px",
    "caption": "text-align:left;font-weight:600;padding:.3em 0;caption-side:top",
    "num": "text-align:right;white-space:nowrap;vertical-align:top;padding:.3em .4em;border-bottom:1px solid rgba(127,127,127,.3)",
    "words": "text-align:left;vertical-align:top;padding:.3em .4em;border-bottom:1px solid rgba(127,127,127,.3)",
    "head": "white-space:normal;vertical-align:bottom",
    "today": "background:rgba(127,127,127,.1)",
    "apart": "text-align:left;font-weight:400;opacity:.75;padding:.8em .7em .2em;border-bottom:1px solid rgba(127,127,127,.3)",
    "unit": "display:block;font-weight:400;opacity:.75;font-size:85%",
    "small": "display:block;font-weight:400;opacity:.75;font-size:85%",
    "interval": "display:block;font-weight:400;opacity:.75;font-size:85%",
    "absent": "opacity:.6",
    "g": "font-size:75%;font-weight:700;vertical-align:super;margin-left:.15em;text-decoration:none",
    "g-m": "color:#2a8f5a",
    "g-i": "color:#2787b0",
    "g-p": "color:#a8751a",
    "g-e": "color:#a06aa5",
    "good": "color:#2a8f5a",
    "bad": "color:#d0524a",
    "wait": "color:#a8751a",
    "remark": "opacity:.75;font-size:90%;margin:.2em 0 1em",
    "defs": "opacity:.85;font-size:90%;margin:.4em 0",
}


def _width(text: str) -> int:
    """Columns a terminal needs for the text (wide East Asian characters take two)."""
    return sum(2 if unicodedata.east_asian_width(char) in "WF" else 0 if unicodedata.combining(char) else 1 for char in text)


def rows_of(cells: Iterable[Sequence[Cell]], today: int = -1) -> tuple[Row, ...]:
    """Rows from cells; the one at index ``today`` is marked."""
    return tuple(Row(tuple(entry), today=index == today) for index, entry in enumerate(cells))
