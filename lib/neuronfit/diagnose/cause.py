"""The likely cause in this log: the operator, size, count or percentage that the log itself names."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Optional

from neuronfit.diagnose.reading import Message
from neuronfit.diagnose.scan import Line

__all__ = ["amount", "cause", "degree", "operators", "training_operators"]

_UNITS = {"B": 1, "KB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30, "TB": 1 << 40, "KIB": 1 << 10, "MIB": 1 << 20, "GIB": 1 << 30}
_TRAINING = frozenset(
    "SaveV2 RestoreV2 VariableV2 Variable VarHandleOp Assign AssignVariableOp AssignAdd TruncatedNormal ShardedFilename MergeV2Checkpoints "
    "ApplyAdam ApplyGradientDescent ResourceApplyAdam RandomUniform RandomStandardNormal StringJoin".split()
)
_NOT_AN_OPERATOR = frozenset(
    "the a an this that operator operators op in for is not are target opcode hlo with error was were used found found: set list".split()
)


def cause(category: str, messages: Iterable[Message], lines: Iterable[Line]) -> str:
    """One or two sentences with what the log names; empty when it names nothing."""
    messages, lines = list(messages), list(lines)
    tellers: dict[str, Callable[[list[Message], list[Line]], Iterable[str]]] = {
        "instruction_limit": _instructions,
        "device_memory": _device_memory,
        "on_chip_memory": _on_chip,
        "host_memory": _host_memory,
        "graph_file_limit": _graph_file,
        "operator": _operator,
        "training_graph": _training,
        "dynamic_shape": _dynamic,
        "dtype": _dtype,
        "core_count": _core_count,
        "cores_busy": _busy,
        "neff_version": _neff,
        "bounds": _bounds,
        "timeout": _timeout,
        "driver": _driver,
        "execution": _execution,
        "permission": _quoted,
        "model_not_served": _quoted,
        "install": _install,
        "bad_input": _bad_input,
    }
    said = list(tellers.get(category, _message)(messages, lines))
    return " ".join(_sentence(part) for part in said if part)


def _sentence(part: str) -> str:
    """With a capital and a full stop; a name such as ``nrt_load`` stays as it is written."""
    name = re.match(r"\w*[_:.]\w", part)
    return (part if name else part[0].upper() + part[1:]) + ("" if part.endswith(".") else ".")


def amount(text: str) -> float:
    """Bytes of a size such as ``13.170GB`` or ``43.325 MB``."""
    match = re.fullmatch(r"([\d.]+)\s*([KMGT]?i?B)", text.strip(), re.IGNORECASE)
    if match is None:
        raise ValueError(f"not a size: {text!r}")
    return float(match[1]) * _UNITS[match[2].upper()]


def _ratio(value: float, limit: float) -> str:
    return f"{value / limit:.1f} times the limit" if value >= 1.05 * limit else f"{100 * value / limit:.1f} % of the limit"


def _millions(count: int) -> str:
    return f"{count / 1e6:.2f} million" if count >= 1e6 else f"{count:,}"


def _instructions(messages: list[Message], lines: list[Line]) -> Iterable[str]:
    said: dict[str, None] = {}
    for message in messages:
        numbers = [
            int(number.replace(",", ""))
            for number in re.findall(r"(?<![\w.+-])\d[\d,]{4,}(?![\w.+-]*[\w-])", re.sub(r"^\S*\d{4}-\d\d-\S+\s*|MODULE_\S+", "", message.text))
        ]
        numbers = [number for number in numbers if number >= 10_000]
        if len(numbers) >= 2 and numbers[0] >= numbers[1]:
            said[f"{_millions(numbers[0])} instructions against {_millions(numbers[1])}: {_ratio(numbers[0], numbers[1])}"] = None
        elif numbers:
            said[f"{_millions(numbers[0])} instructions"] = None
        elif match := re.search(r"after unroll for function (\S+)", message.text):
            said[f"function {match[1]} of this graph; other graphs and other shapes of the model are judged apart"] = None
    yield from list(said)[:4]
    shape = next((match[1] for line in reversed(lines) if (match := re.search(r"(\w+), input example shape = ", line.text))), None)
    if shape:
        yield f"the last graph that was built is {shape}"


def _device_memory(messages: list[Message], lines: list[Line]) -> Iterable[str]:
    text = "\n".join(message.text for message in messages)
    asked = re.findall(r"[Ff]ailed to allocate ([\d.]+\s*[KMG]?i?B)(?: \(usage: ([^)]+)\))?[^\n]*? on ND (\d+):NC (\d+)", text)
    table: dict[str, str] = {}
    for line in lines:
        if match := re.match(r"\s*\* ([\w ]+): ([\d.]+\s*[KMG]?i?B)", line.text):
            table.setdefault(match[1].strip(), match[2].replace(" ", ""))
    if asked:
        size, usage, _, _ = asked[0]
        cores = sorted({f"{nd}:{nc}" for _, _, nd, nc in asked}, key=lambda core: [int(part) for part in core.split(":")])
        total = f" with {table['total']} in use" if "total" in table else ""
        yield f"{size} more{f' for {usage}' if usage else ''} did not fit{total} (device:core {', '.join(cores[:4])}{', ...' if len(cores) > 4 else ''})"
    if table and "total" in table:
        parts = sorted(((name, size) for name, size in table.items() if name != "total"), key=lambda entry: -amount(entry[1]))[:3]
        yield f"of {table['total']} the largest parts are " + ", ".join(
            f"{name} {size} ({100 * amount(size) / amount(table['total']):.0f} %)" for name, size in parts
        )
    if match := re.search(r"mempool \[[\d:]+\] total (\d+) occupied (\d+) needed (\d+) available (\d+)", text):
        total, occupied, needed, available = map(int, match.groups())
        yield f"{needed:,} bytes were needed and {available:,} available; {100 * occupied / total:.0f} % of {total:,} bytes occupied"
    if match := re.search(r"peak HBM usage \(([\d.]+)\) exceeds ([\d.]+) ?GB", text):
        yield f"{float(match[1]):.1f} GB against {match[2]} GB: {_ratio(float(match[1]), float(match[2]))}"
    elif not asked:
        sizes = [(found, amount(found)) for found in re.findall(r"(?<![\w.])\d[\d.]*\s*[KMGT]i?B\b", text)]
        if len(sizes) >= 2 and sizes[0][1] > sizes[1][1] > 0:
            yield f"{sizes[0][0]} against {sizes[1][0]}: {_ratio(sizes[0][1], sizes[1][1])}"
    if match := re.search(r"NRT_RESOURCE in (nrt_\w+)|(nrt_\w+):? status=4", text):
        yield f"the call that failed is {match[1] or match[2]}"
    asked_for = degree(lines)
    if asked_for:
        yield f"the log asks for {asked_for}"


def _on_chip(messages: list[Message], lines: list[Line]) -> Iterable[str]:
    text = "\n".join([*(message.text for message in messages), *(line.text for line in lines)])
    if match := re.search(r"Instruction: (\S+) with opcode: (\w+)", text):
        yield f"instruction {match[1]} ({match[2]})"
    used, limit = re.search(r"Total Accessed Bytes[^\n:]*: (\d+)", text), re.search(r"Total SB Partition Size: (\d+)", text)
    if used and limit:
        yield f"{int(used[1]):,} bytes of a partition against {int(limit[1]):,}: {100 * int(used[1]) / int(limit[1]):.0f} % of the limit"


def _host_memory(messages: list[Message], lines: list[Line]) -> Iterable[str]:
    shown = [message for message in messages if message.entry.category == "host_memory"]
    ways = {
        "was killed by the system (signal 9)": any(re.search(r"-9\b|F137|137\b|[Kk]illed|SIGKILL", message.text) for message in shown),
        "could not get memory (std::bad_alloc)": any(re.search(r"bad_alloc|reserve|allocate memory", message.text) for message in shown),
    }
    said = [way for way, happened in ways.items() if happened]
    if said:
        yield f"a process {' and one '.join(said)}"
    sizes = sorted(
        {int(size) for line in lines for size in re.findall(r"(?:expected|actual) (\d+)", line.text) if "size mismatch at index" in line.text}
    )
    if len(sizes) > 1:
        yield f"each new input length was compiled anew (lengths seen: {', '.join(map(str, sizes[:8]))}), which fills memory and cache: pad to a few lengths"
    hlo = [match[1] for line in lines if (match := re.search(r"generating HLO: ([\w.]+)", line.text))]
    if hlo:
        yield f"it was building {hlo[-1]}"


def _graph_file(messages: list[Message], lines: list[Line]) -> Iterable[str]:
    for message in messages:
        if match := re.search(r"size of (\d+)GB: (\d+)", message.text):
            yield f"the graph takes {int(match[2]):,} bytes against {match[1]} GB: {100 * int(match[2]) / (int(match[1]) << 30):.0f} % of the limit"


def operators(text: str) -> list[str]:
    """Operator names that an error message gives."""
    if match := re.search(r"not implemented: \{(.*)", text):
        return [name for name in re.findall(r"'([A-Za-z]\w*)'", match[1])]
    found: list[str] = []
    for pattern in (
        r"\b((?:aten|prim|torchvision|xla|mhlo|stablehlo|chlo)(?:::|\.)\w+)",
        r"nsupported (?:HLO )?op(?:code|erator|eration)?s?:? [\"'<`]?([A-Za-z][\w.-]*)",
        r"nsupported (?:HLO )?op(?:code|erator|eration)?s?[ :]*[\"'`]([\w.:-]+)",
        r"(?:unsupported|CustomCall) target:? [\"']?([\w.$-]+)",
        r"<ufunc '(\w+)'>",
        r"unexpected operator:? ([A-Za-z][\w.-]*)",
        r"[Oo]p(?:erator|code|eration)?:? [\"'`]?([A-Za-z][\w.:-]*)[\"'`]? (?:is|was) not supported",
        r"[\"'`]([a-z][\w.:-]+)[\"'`] (?:op |operator |operation )?(?:is|was) not supported",
    ):
        found += [name.rstrip(".:") for name in re.findall(pattern, text)]
    return [name for name in dict.fromkeys(found) if name.lower() not in _NOT_AN_OPERATOR]


def training_operators(names: Iterable[str]) -> list[str]:
    """Those of the operators that exist in training and checkpoint graphs only."""
    return [name for name in names if name in _TRAINING]


def _operator(messages: list[Message], lines: list[Line]) -> Iterable[str]:
    names = list(dict.fromkeys(name for message in messages for name in operators(message.text)))
    if names == ["invert"]:
        yield "the operator is invert (bitwise not)"
    elif names:
        yield (
            f"the operator is {names[0]}" if len(names) == 1 else f"{len(names)} operators: {', '.join(names[:8])}{', ...' if len(names) > 8 else ''}"
        )
    else:
        yield from _message(messages, lines)


def _training(messages: list[Message], lines: list[Line]) -> Iterable[str]:
    names = list(dict.fromkeys(name for message in messages for name in operators(message.text)))
    yield f"{', '.join(training_operators(names))} belong to training and saving, so the model was exported with its training graph; this says nothing about the model's own operators"


def _dynamic(messages: list[Message], lines: list[Line]) -> Iterable[str]:
    if any("set-dimension-size" in message.text for message in messages):
        yield "the operation set-dimension-size comes from nonzero, boolean indexing or masked_select"
    else:
        yield from _message(messages, lines)


def _dtype(messages: list[Message], lines: list[Line]) -> Iterable[str]:
    text = "\n".join([*(message.text for message in messages), *(line.text for line in lines)])
    if match := re.search(r"Instruction (\w+) \S+ generates invalid ISA", text):
        yield f"the instruction is {match[1]}"
    names = re.findall(r"\b(?:f8e\w+|F8E\w+|fp8_\w+|float8_\w+|float4_\w+|complex(?:64|128)|c64|c128|f64|u64)\b", text)
    if names:
        yield f"the data type is {', '.join(dict.fromkeys(names[:6]))}"
    elif "dtype_check" in text:
        yield "the check that failed is about the data type; an 8-bit auto-cast (--auto-cast-type fp8_e4m3) is the usual reason, and bfloat16 or float32 compile"


def degree(lines: Iterable[Line]) -> Optional[str]:
    """The tensor-parallel degree or number of cores that a log asks for, as it is written there."""
    for line in lines:
        if match := re.search(r"(tp_degree|num_cores|tensor[_-]parallel[_-](?:size|degree))['\"]?[ =:]+(\d+)", line.text):
            return f"{match[1].replace('-', '_')} = {match[2]}"
        if match := re.search(r"initializing tensor model parallel with size (\d+)", line.text):
            return f"tensor parallel size = {match[1]}"
        if match := re.search(r"num_cores (\d+)", line.text):
            return f"num_cores = {match[1]}"
    return None


def _core_count(messages: list[Message], lines: list[Line]) -> Iterable[str]:
    text = "\n".join(message.text for message in messages)
    asked_for = degree(lines)
    if asked_for:
        yield f"the log asks for {asked_for}"
    if match := re.search(r"Supported number of Neuron Cores is ([^.]+)", text):
        yield f"the instance connects {match[1]}"
    if match := re.search(r"Could not open the nd(\d+)", text):
        yield f"device {match[1]} does not exist here"
    if match := re.search(r"(nrt_\w+) status=2", text):
        yield f"{match[1]} was refused as invalid (status 2, not 4: memory is not the reason)"


def _busy(messages: list[Message], lines: list[Line]) -> Iterable[str]:
    text = "\n".join(message.text for message in messages)
    if match := re.search(r"Requested:(\S+) Available:(\d+)", text):
        yield f"cores requested: {match[1]}, free: {match[2]}"


def _neff(messages: list[Message], lines: list[Line]) -> Iterable[str]:
    text = "\n".join(message.text for message in messages)
    if match := re.search(r"NEFF version:? ([\d.]+), features: (0x[0-9a-f]+) are not supported", text):
        yield f"NEFF version {match[1]} uses features {match[2]} that this runtime lacks"
    if match := re.search(r"supported: ([\d.]+) received: ([\d.]+)", text):
        yield f"NEFF version {match[2]} was given, {match[1]} is supported"
    if match := re.search(r"operator code (\d+)", text):
        yield f"the instruction is number {match[1]}"


def _bounds(messages: list[Message], lines: list[Line]) -> Iterable[str]:
    said = dict.fromkeys(match[1] for message in messages if (match := re.search(r"failed to run ([^,]+), due to out-of-bound", message.text)))
    yield f"the access is {' and '.join(said)}" if said else ""
    if not said:
        yield from _message(messages, lines)


def _timeout(messages: list[Message], lines: list[Line]) -> Iterable[str]:
    for message in messages:
        if match := re.search(r"(inference|execution) timeout \((\d+) ms\)", message.text):
            yield f"{match[1]} was given up after {int(match[2]) / 1000:g} s"
            return


def _driver(messages: list[Message], lines: list[Line]) -> Iterable[str]:
    text = "\n".join(message.text for message in messages)
    if match := re.search(r"requires Neuron Driver version ([\d.]+)", text):
        yield f"driver {match[1]} or newer is needed"
    if match := re.search(r"compatibility id: (\d+)", text):
        yield f"the runtime has compatibility id {match[1]}"


def _execution(messages: list[Message], lines: list[Line]) -> Iterable[str]:
    count = len({message.line for message in messages})
    if count > 1:
        yield f"at least {count} lines report it, so it is not one request"


_PREFIX = re.compile(
    r"^.*?(?:\[NCC_\w+\]|\[[A-Z]{1,4}\d{3}\]|Error message:|ERROR:|RuntimeError:|AssertionError:|(?:ERROR|USER|WARNING|INFO) \d+ \[[^\]]*\]:)\s*"
)
_SUPPORT = re.compile(r"\s*-? ?Please open a support ticket.*$|\s*Please (?:lodge|report).*$")


def _quoted(messages: list[Message], lines: list[Line]) -> Iterable[str]:
    """What stands behind the name of the exception or the level, without time stamps."""
    said = re.split(r"\bERROR\b\s*|\w*Error: ", messages[0].text)[-1].strip(" .\"'")
    yield f'the log says: "{said[:220]}{"..." if len(said) > 220 else ""}"'


def _bad_input(messages: list[Message], lines: list[Line]) -> Iterable[str]:
    yield from (_quoted if messages[0].entry.code == "other_shape" else _message)(messages, lines)


def _install(messages: list[Message], lines: list[Line]) -> Iterable[str]:
    yield from (_quoted if messages[0].entry.code in ("package_mismatch", "package_not_found") else _message)(messages, lines)


def _message(messages: list[Message], lines: list[Line]) -> Iterable[str]:
    """The compiler's own sentence, shortened."""
    for message in messages:
        if _PREFIX.search(message.text) and message.level == "root":
            said = _SUPPORT.sub("", _PREFIX.sub("", message.text, count=1)).strip(" .\"'")
            if 8 < len(said):
                yield f'the log says: "{said[:220]}{"..." if len(said) > 220 else ""}"'
                return
