"""What records say, in words: sources, price basis, settings, commands. Shared by all tables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Optional

from neuronfit.provenance import Estimated, Imported, Measured, Published, Quantity, Source
from neuronfit.record import Cost, Measurement
from neuronfit.show.table import Cell, Note, Piece, plain
from neuronfit.units import spoken

__all__ = ["basis", "missing", "not_run", "one_line", "per_million", "shape", "software", "source_note", "source_text", "step_command", "words"]


def step_command(name: str, step: Optional[int] = None) -> str:
    """What to type to run one step of a question, or all of them."""
    return f"neuronfit run params/{name}.yaml" + (f" --steps {step}" if step else "")


def not_run(name: Optional[str], step: int) -> Note:
    """The line that stands where a step's table would be, with the command where the question is known."""
    if name is None:
        return Note(f"Step {step} has not run yet.")
    return Note(f"Step {step} has not run yet: {step_command(name, step)}")


def missing(why: str) -> Cell:
    """A dash whose tooltip is the reason."""
    return Cell((Piece.of(Quantity(unit="", why=why), "count"),))


def source_text(source: Source) -> str:
    """Who says so, in a line."""
    if isinstance(source, Measured):
        return f"measured on {source.host}, {source.clock}"
    if isinstance(source, Imported):
        tool = " ".join(part for part in (source.tool, source.tool_version) if part)
        return f"{source.file}{f' ({tool})' if tool else ''}"
    if isinstance(source, Published):
        return f"{source.title}, {source.date}"
    return source.formula


def source_note(source: Source) -> str:
    """The small print of a source: hash and gaps of a file, conditions of a page, inputs of a formula."""
    if isinstance(source, Imported):
        lacking = f"; not in the file: {', '.join(source.missing)}" if source.missing else ""
        return f"sha256 {source.sha256[:16]}{lacking}"
    if isinstance(source, Published):
        terms = {"price basis": source.price_basis} if source.price_basis else {}
        return "; ".join(f"{key}: {value}" for key, value in {**source.conditions, **terms}.items())
    if isinstance(source, Estimated):
        return "; ".join(f"{key}: {value}" for key, value in source.inputs.items())
    return ""


def per_million(cost: Optional[Cost]) -> str:
    """The unit of cost: ``$ per million``, or of tokens where those are the useful result on every side."""
    units = {entry.result_unit for entry in cost.targets if entry.full_load.known} if cost else set()
    return "$ per million tokens" if units == {"token"} else "$ per million"


def basis(cost: Cost) -> str:
    """The one price basis, and what a useful result is."""
    if not any(entry.price.known for entry in cost.targets):
        return "No target has a price yet, so there is no cost."
    option = spoken(cost.purchase_option)
    units = " or ".join(sorted({f"one {entry.result_unit}" for entry in cost.targets if entry.full_load.known}))
    result = f" A useful result is {units}." if units else ""
    return f"{option[:1].upper()}{option[1:]} prices in {cost.region} for every row{_seen(cost)}.{result}"


def _seen(cost: Cost) -> str:
    """On which days the prices held."""
    days = sorted({entry.price_as_of for entry in cost.targets if entry.price_as_of})
    return f", as of {' and '.join(dict.fromkeys((days[0], days[-1])))}" if days else ""


def shape(measurement: Measurement) -> str:
    """Batch size and sequence length, `8 × 128`."""
    settings = measurement.settings
    parts = [str(part) for part in (settings.batch_size, settings.sequence_length) if part is not None]
    return " × ".join(parts) if parts else "not stated"


def software(measurement: Measurement) -> str:
    """Framework, route and SDK, as far as they are stated."""
    settings = measurement.settings
    sdk = f"SDK {settings.sdk}" if settings.sdk and settings.sdk not in (settings.software or "") else None
    return ", ".join(part for part in (settings.software, settings.route, sdk) if part) or "not stated"


def words(name: str) -> str:
    """A stored name as it is read."""
    return name.replace("_", " ")


def one_line(value: Any) -> str:
    """Any JSON value in words, `not given` for nothing."""
    if value is None or value == "" or value == [] or value == {} or value == ():
        return "not given"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:,.10g}"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {one_line(inner)}" for key, inner in value.items() if inner is not None and inner != {})
    if isinstance(value, (list, tuple)):
        return "; ".join(one_line(inner) for inner in value)
    return plain(value)
