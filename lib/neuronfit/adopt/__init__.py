"""Other people's numbers -> records. One module per family of files; found by content, never by name.

    from neuronfit.adopt import adopt, read
    read("results.json")                                  # what the file says, belonging to nothing yet
    adopt(question, "results.json", "l4", declared=Declared(precision="fp16"))

The order in which the families are asked is fixed: monitors, then the tools by name, then tables whose
columns say what they are. :data:`FORMATS` lists every format that can be forced.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Optional, Union

from neuronfit.adopt import (
    aiperf,
    fmbench,
    free_tables,
    genai_bench,
    guidellm,
    inference_perf,
    llmperf,
    load_summaries,
    load_tools,
    locust,
    mlperf,
    monitors,
    neuronperf,
    nxdi,
    optimum_benchmark,
    other_sort,
    vendor,
    vllm,
)
from neuronfit.adopt.document import HEAD, Document
from neuronfit.adopt.evidence import Declared, contradictions, declare, measurements
from neuronfit.adopt.reading import Reading
from neuronfit.errors import BadInput, BadRecord, nearest
from neuronfit.question import Question
from neuronfit.record import Record

__all__ = [
    "FORMATS",
    "Declared",
    "FileRead",
    "Reading",
    "adopt",
    "files_in",
    "format_of",
    "head_of",
    "is_monitor",
    "is_own_record",
    "read",
    "read_all",
]

MODULES: tuple[ModuleType, ...] = (
    vllm,
    aiperf,
    guidellm,
    llmperf,
    inference_perf,
    genai_bench,
    optimum_benchmark,
    neuronperf,
    fmbench,
    mlperf,
    locust,
    load_tools,
    vendor,
    nxdi,
    other_sort,
    free_tables,
)
"""The readers of benchmark files, in the order in which they are asked."""

FORMATS: dict[str, str] = {name: text for module in MODULES for name, text in module.FORMATS.items()}
"""Format of a benchmark file -> what it is. Monitors have their own in :data:`neuronfit.adopt.monitors.FORMATS`."""

OWN = re.compile(rb'^\s*\{\s*"schema"\s*:\s*"[a-z_]+/\d+"')


@dataclass
class FileRead:
    """One file and what it holds; ``problem`` is the one line that says why it could not be read."""

    path: Path
    format: Optional[str] = None
    readings: list[Reading] = field(default_factory=list)
    document: Optional[Document] = None
    problem: Optional[BadInput] = None


def is_own_record(head: bytes) -> bool:
    """Was the file written by this project?"""
    return bool(OWN.match(head.removeprefix(b"\xef\xbb\xbf")))


def format_of(document: Document) -> Optional[str]:
    """The format of a benchmark file by its content, or ``None``."""
    return next((found for module in MODULES if (found := module.recognise(document.head, document.name))), None)


def is_monitor(head: bytes, name: str) -> bool:
    """Is it a monitor's capture, and no benchmark that happens to print one (a log with a neuron-ls table on top)?"""
    head = monitors.plain_head(head)  # compressed, or UTF-16 of a Windows shell
    if any(module.recognise(head, name) for module in MODULES if module is not free_tables) or free_tables.certain(head):
        return False
    return monitors.recognise(head, name) is not None


def read(path: Union[str, Path], *, format: Optional[str] = None, declared: Optional[Declared] = None) -> FileRead:
    """Read one benchmark file. Raises :class:`~neuronfit.errors.BadRecord`, always one line, that names what
    the file seems to be, what can be read, and the command that takes it."""
    path = Path(path)
    document = Document.open(path)
    name = format or _recognised(document, path)
    module = next((module for module in MODULES if name in module.FORMATS), None)
    if module is None:
        near = nearest(name, FORMATS)
        raise BadRecord("unknown format of a benchmark file", name, allowed=", ".join(near or FORMATS))
    try:
        readings = module.read(document, name)
    except BadRecord as error:
        readings = _of_cut(module, document, name, error)
        if not readings:
            raise BadRecord(
                f"{FORMATS[name]}: {error.what}", error.value if error.value is not None else path.name, allowed=error.allowed, next=error.next
            ) from None
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, ZeroDivisionError, OverflowError) as error:
        because = f"{type(error).__name__} at an unexpected place"
        raise BadRecord(
            f"looks like {FORMATS[name]} and cannot be read as such ({because})", path.name, next="check the file, or name its format with --format"
        ) from None
    for reading in readings:
        reading.format = name
        if document.not_numbers:
            reading.fault("values_missing", f"{document.not_numbers} values of the file are NaN or infinite: missing, not zero", "check the run")
        if declared:
            declare(reading, declared)
        _degree_in_name(reading, path.stem)
    return FileRead(path, name, readings, document)


def _of_cut(module: ModuleType, document: Document, name: str, error: BadRecord) -> list[Reading]:
    """What a JSON file says before the place where it is cut off: to look at, never to adopt."""
    mended = document.mended() if "cut off" in error.what else None
    if mended is None:
        return []
    try:
        readings = [reading for reading in module.read(mended, name) if reading.has_figures]
    except (BadRecord, KeyError, TypeError, ValueError, AttributeError, IndexError, ZeroDivisionError, OverflowError):
        return []
    for reading in readings:
        reading.fault("cut_off", f"{error.what}: what stands before it is shown and cannot be adopted", "copy the whole file again")
        reading.refused, reading.instead = error.what, "copy the whole file again"
    return readings


def _degree_in_name(reading: Reading, stem: str) -> None:
    """Only the file's name says on how many accelerators it ran."""
    rate, match = reading.values.get("output_tokens_per_s"), re.search(r"(?:^|[_.-])tp[_-]?(\d+)(?=[_.-]|$)", stem, re.IGNORECASE)
    if not match or not rate or reading.settings.get("tp_degree") or int(match.group(1)) < 2:
        return
    degree = int(match.group(1))
    because = f"tensor-parallel degree {degree} is only in the file's name: {rate / degree:.4g} output tokens/s per accelerator, if so"
    reading.fault("not_in_file", because, f"say it with --tp-degree {degree}")


def _recognised(document: Document, path: Path) -> str:
    if not document.data.strip():
        raise BadRecord("the file is empty", path.name, next="copy it again")
    if found := other_sort.binary(document.data):
        raise BadRecord(f"the file is {found[0]}", path.name, allowed="JSON, JSON lines, CSV, Markdown or console text", next=found[1])
    name = format_of(document)
    if name:
        return name
    if found := load_summaries.refused(document.head):
        raise BadRecord(f"{found[0]} cannot be used", path.name, next=found[1])
    if found := monitors.strangers.neighbour(document.head):
        raise BadRecord(f"no benchmark result and no monitor's file: it is {found[0]}", path.name, next=found[1].replace("FILE", path.name))
    if found := other_sort.named(document.head, document.name):
        raise BadRecord(f"no benchmark result: it seems to be {found[0]}", path.name, next=found[1].replace("FILE", path.name))
    text = document.text.lstrip()
    if text[:1] in "{[":
        _ = document.json if "\n{" not in text else document.lines  # says where it is cut off
    known = ", ".join(dict.fromkeys(module.__name__.rsplit(".", 1)[1] for module in MODULES if module not in (other_sort, free_tables)))
    raise BadRecord(
        "not a neuronfit record, and no known benchmark format",
        path.name,
        allowed=f"results of {known}, or a table with units in its header",
        next="name it with --format, or make a CSV of it",
    )


def head_of(path: Path) -> bytes:
    """The first bytes of a file, from which it is recognised. Raises :class:`~neuronfit.errors.BadRecord`."""
    try:
        with path.open("rb") as file:
            return file.read(HEAD)
    except OSError as error:
        raise BadRecord(f"cannot read the file ({error.strerror})", str(path), allowed="a result file", next="check the path") from None


def files_in(path: Path) -> list[Path]:
    """The file itself, or every file of a folder, one level deep, by name; hidden ones left out."""
    if not path.is_dir():
        return [path]
    found = sorted(entry for entry in path.iterdir() if entry.is_file() and not entry.name.startswith("."))
    if not found:
        raise BadRecord("the folder has no file", str(path), next="name a folder of results")
    return found


def read_all(path: Union[str, Path], *, format: Optional[str] = None, declared: Optional[Declared] = None) -> list[FileRead]:
    """Read a file, or every benchmark file of a folder; a file that cannot be read has ``problem`` set. Rows of
    different files that contradict each other get a finding."""
    found = []
    for file in files_in(Path(path)):
        try:
            found.append(read(file, format=format, declared=declared))
        except BadInput as error:
            found.append(FileRead(file, problem=error))
    contradictions((entry.path.name, entry.readings) for entry in found)
    return found


def adopt(
    question: Question,
    path: Union[str, Path],
    target: Optional[str] = None,
    *,
    format: Optional[str] = None,
    declared: Optional[Declared] = None,
) -> Iterator[tuple[Path, Union[list[Record], BadInput]]]:
    """Admit what a file, or each file of a folder, says about a target: per file its records, or the error that stopped it.

    ``target`` may be ``None`` for records of this project, which name their own.
    """
    for file in files_in(Path(path)):
        try:
            yield file, _adopt_file(question, file, target, format, declared or Declared())
        except BadInput as error:
            yield file, error


def _adopt_file(question: Question, path: Path, target: Optional[str], format: Optional[str], declared: Declared) -> list[Record]:
    from neuronfit.adopt.record_file import adopt_record, read_record, target_of

    head = head_of(path)
    if format is None and is_own_record(head):
        return [adopt_record(question, path, target or target_of(read_record(path)))]
    if target is None:
        known = ", ".join(entry.name for entry in question.targets)
        raise BadRecord("the file does not say for which target it speaks", path.name, allowed=known, next="name the target with --for")
    if (format in monitors.FORMATS) or (format is None and is_monitor(head, path.name)):
        return [question.dossier.admit(record) for record in monitors.to_records(question, path, target, format)]
    found = read(path, format=format, declared=declared)
    document = found.document or Document.open(path)
    return [question.dossier.admit(record) for record in measurements(question, found.readings, document, target, declared)]
