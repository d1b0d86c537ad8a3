"""How much of a model the device takes: percentages of torch-neuron logs, and the JSON of ``analyze()``.

Three different shares are printed under the same word: of operators that are known, of operators
that were compiled, of sub-graphs that were compiled. They are kept apart, and a percentage outside
0 to 100 is impossible and ignored.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Optional

from neuronfit.diagnose.scan import Line, Scan

__all__ = ["Analysis", "Report", "Share", "Support", "analysis", "report", "support"]

_NO_COMPUTE = re.compile(
    r"^(prim::|NoOp$|Placeholder|Const$|Identity$|Shape$|aten::(?:Int|size|ScalarImplicit|__getitem__|detach|contiguous|dropout)$)"
)


@dataclass(frozen=True)
class Share:
    """A percentage as printed, with its counts where they were printed."""

    percent: float
    part: Optional[int] = None
    total: Optional[int] = None
    line: int = 0

    def __str__(self) -> str:
        counts = f" ({self.part:,} of {self.total:,})" if self.part is not None and self.total is not None else ""
        return f"{self.percent:g} %{counts}"


@dataclass
class Support:
    """What a torch-neuron or TensorFlow-Neuron log says about operators on the device."""

    known: Optional[Share] = None
    known_with_primitives: Optional[Share] = None
    fused: Optional[Share] = None
    compiled: Optional[Share] = None
    subgraphs: Optional[Share] = None
    left_out: list[str] = field(default_factory=list)
    left_out_count: Optional[int] = None
    impossible: list[Share] = field(default_factory=list)
    lines: list[Line] = field(default_factory=list)

    @property
    def left_out_compute(self) -> list[str]:
        """Operators left out that compute something."""
        return [name for name in self.left_out if not _NO_COMPUTE.match(name)]

    @property
    def on_device(self) -> Optional[Share]:
        """The share that decides: compiled where it is known, else planned, else known."""
        return self.compiled or self.fused or self.known or self.known_with_primitives

    @property
    def complete(self) -> bool:
        """Practically all of the model is on the device, as one piece."""
        if self.compiled:
            return self.compiled.percent >= 95 and (self.subgraphs is None or self.subgraphs.percent == 100)
        return not self.left_out_compute and (self.on_device is None or self.on_device.percent >= 99.995) and not self.impossible


def support(lines: Iterable[Line]) -> Optional[Support]:
    """Percentages and operators left out, or ``None`` when the log prints none."""
    found, listing = Support(), False
    patterns = (
        ("known_with_primitives", r"(-?[\d.]+)% of all operations \(including primitives\) \((\d+) of (\d+)\)"),
        ("known", r"(-?[\d.]+)% of arithmetic operations \((\d+) of (\d+)\)"),
        ("fused", r"pre-compilation\) before = (?P<t>\d+), fused = (?P<p>\d+), percent fused = (?P<x>-?[\d.]+)%"),
        ("compiled", r"post-compilation\) before = (?P<t>\d+), compiled = (?P<p>\d+), percent compiled = (?P<x>-?[\d.]+)%"),
        (
            "subgraphs",
            r"successfully compiled (?P<p>\d+) sub-graphs, Total fused subgraphs = (?P<t>\d+), Percent of model sub-graphs successfully compiled = (?P<x>-?[\d.]+)%",
        ),
        ("compiled", r"(-?[\d.]+)% of operators compiled"),
    )
    for line in lines:
        hit = False
        for name, pattern in patterns:
            match = re.search(pattern, line.text)
            if match is None:
                continue
            groups = match.groupdict() or {
                "x": match[1],
                "p": match[2] if match.re.groups > 1 else None,
                "t": match[3] if match.re.groups > 2 else None,
            }
            share = Share(float(groups["x"]), *(int(groups[key]) if groups[key] else None for key in ("p", "t")), line.number)
            hit = True
            if 0 <= share.percent <= 100:
                setattr(found, name, share)
            else:
                found.impossible.append(share)
        if match := re.search(r"There are (\d+) ops of (\d+) different types .*?not compiled by neuron-cc: (.*)", line.text):
            found.left_out_count = int(match[1])
            _extend(found.left_out, re.findall(r"[A-Za-z_][\w:.]*", match[3].split("(For more")[0]))
            hit, listing = True, False
        elif "currently not supported in" in line.text:
            hit = listing = True
        elif match := re.search(r"Neuron: ?(?:=> )?((?:aten|prim)::\w+)\s*$", line.text):
            if listing:
                _extend(found.left_out, [match[1]])
        elif match := re.search(r"=> ((?:aten|prim)::\w+): \d+ \[not supported\]", line.text):
            _extend(found.left_out, [match[1]])
            hit = True
        else:
            listing = False
        if hit:
            found.lines.append(line)
    return found if found.lines else None


def _extend(names: list[str], more: Iterable[str]) -> None:
    names.extend(name for name in more if name not in names)


# -- analyze() --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Analysis:
    """The result of ``torch_neuronx.analyze`` or of its training flavour, as printed; nothing is recomputed."""

    percent: Optional[float]
    impossible: Optional[str]
    supported: dict[str, int]
    unsupported: tuple[dict[str, str], ...]
    versions: dict[str, str]
    training: bool
    cut: bool


def analysis(scan: Scan) -> Optional[Analysis]:
    """The analysis in a log or JSON file, complete or cut off; ``None`` when there is none."""
    if b"support_percentage" not in scan.counts:
        return None
    if scan.whole is not None:
        text = scan.whole.decode("utf-8", "replace").lstrip("\ufeff")
        for data in _objects(text, "support_percentage"):
            return _analysis(data)
    return _cut_analysis(scan)


def _objects(text: str, key: str) -> Iterator[dict[str, Any]]:
    """JSON objects (or printed Python dicts) in a text that have a key at their top level."""
    at = text.find(key)
    while at >= 0:
        start = text.rfind("{", 0, at)
        for _ in range(8):
            if start < 0:
                break
            data = _object_at(text, start)
            if isinstance(data, dict) and key in data:
                yield data
                break
            start = text.rfind("{", 0, start)
        at = text.find(key, at + len(key))


def _object_at(text: str, start: int) -> Any:
    try:
        return json.JSONDecoder().raw_decode(text, start)[0]
    except ValueError:
        pass
    depth = 0
    for match in re.finditer(r"[{}]", text[start : start + 2_000_000]):
        depth += 1 if match[0] == "{" else -1
        if depth == 0:
            try:
                return ast.literal_eval(text[start : start + match.end()])
            except (ValueError, SyntaxError, MemoryError, RecursionError):
                return None
    return None


def _analysis(data: dict[str, Any]) -> Analysis:
    percent, impossible = _percent(data.get("support_percentage"))
    supported: dict[str, int] = {}
    for name, value in (data.get("supported_operators") or {}).items() if isinstance(data.get("supported_operators"), dict) else ():
        for key, count in value.items() if isinstance(value, dict) else ((name, value),):
            supported[str(key)] = supported.get(str(key), 0) + (int(count) if isinstance(count, (int, float)) else 1)
    listed = data.get("unsupported_operators") or []
    training = isinstance(listed, dict) or any(isinstance(value, dict) for value in (data.get("supported_operators") or {}).values())
    entries = [entry for group in listed.values() if isinstance(group, list) for entry in group] if isinstance(listed, dict) else listed
    unsupported = tuple(
        {key: str(value) for key, value in entry.items() if key in ("kind", "failureAt", "call")} if isinstance(entry, dict) else {"kind": str(entry)}
        for entry in (entries if isinstance(entries, list) else [])
    )
    versions = {
        name: str(data[key]) for name, key in (("torch-neuronx", "torch_neuronx_version"), ("neuronx-cc", "neuronx_cc_version")) if data.get(key)
    }
    return Analysis(percent, impossible, supported, unsupported, versions, training, cut=False)


def _cut_analysis(scan: Scan) -> Analysis:
    text = "\n".join(line.text for line in scan.lines)
    percent, impossible = _percent((re.search(r"support_percentage['\"]?\s*:\s*['\"]?(-?[\d.]+)", text) or [None, None])[1])
    kinds = re.findall(r"[\"']kind[\"']\s*:\s*[\"']([^\"']+)", text)
    stages = re.findall(r"[\"']failureAt[\"']\s*:\s*[\"']([^\"']+)", text)
    calls = re.findall(r"[\"']call[\"']\s*:\s*[\"']([^\"']+)", text)
    unsupported = tuple(
        {key: values[index] for key, values in (("kind", kinds), ("failureAt", stages), ("call", calls)) if index < len(values)}
        for index in range(len(kinds))
    )
    return Analysis(percent, impossible, {}, unsupported, {}, False, cut=True)


def _percent(value: Any) -> tuple[Optional[float], Optional[str]]:
    """A percentage from a number or a text such as ``"100.00%"``; the second is one that cannot be."""
    try:
        number = float(str(value).strip().rstrip("%").strip())
    except ValueError:
        return None, None
    return (number, None) if 0 <= number <= 100 else (None, f"{number:g} %")


# -- neuron_parallel_compile ------------------------------------------------------------------


@dataclass(frozen=True)
class Report:
    """How many graphs were compiled ahead of time, and how many of them failed."""

    succeeded: int
    failed: int
    seconds: Optional[float] = None


def report(scan: Scan) -> Optional[Report]:
    """The report of ``neuron_parallel_compile`` (JSON or its closing lines), or ``None``."""
    if b"compilation_summary" in scan.counts and scan.whole is not None:
        for data in _objects(scan.whole.decode("utf-8", "replace"), "compilation_summary"):
            summary = data["compilation_summary"]
            if isinstance(summary, dict):
                counts = {str(key).lower(): int(value) for key, value in summary.items() if isinstance(value, (int, float))}
                seconds = data.get("compilation_time")
                return Report(counts.get("true", 0), counts.get("false", 0), float(seconds) if isinstance(seconds, (int, float)) else None)
    text = "\n".join(line.text for line in scan.lines)
    succeeded = re.findall(r"Total successful compilations: (\d+)", text)
    failed = re.findall(r"Total failed compilations: (\d+)", text)
    return Report(int(succeeded[-1]) if succeeded else 0, int(failed[-1])) if failed else None
