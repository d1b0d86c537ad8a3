"""From the lines of a scan to what they say: messages of the catalogue, in order, and facts.

A line may hold several messages (a loading error and its status), or none that is known: then only an
error word, an exception, or nothing. Words alone decide nothing; see :mod:`~neuronfit.diagnose.verdict`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from functools import lru_cache
from typing import Optional

from neuronfit.catalog import compiler_codes
from neuronfit.catalog.compiler_codes import CompilerCode
from neuronfit.diagnose.scan import Line, Scan

__all__ = ["Message", "errors", "exceptions", "facts", "is_about_neuron", "last_time", "messages", "moment", "texts"]

_LOOK_AT: dict[bytes, int] = {
    # codes and statuses
    b"NCC_": 120, b"support ticket": 20, b"[XTP": 20, b"[TEN4": 20, b"[NLA0": 20, b"[XCG": 20, b"[GCA": 20, b"[LUR": 20, b"[F13": 20,
    b"exitcode=": 60, b"command returned: ": 40, b"failed with ": 40, b"exit status ": 40, b"exited with code ": 40,
    b"nrt_": 80, b"NRT_": 120, b"status=": 60, b"status_code": 40, b"status code": 40, b" err: ": 80, b"error: 1": 20,
    # what an error word introduces
    b"Error message:": 20, b"CommandDriver]:": 300, b"Traceback (most": 40, b"ERROR": 120, b"Error: ": 60, b"Exception: ": 20,
    b"Interrupt": 20, b"Failed to": 60, b"FATAL": 20, b"panicked": 10, b"WARNING": 12, b"Aborted": 10,
    # sizes and numbers
    b"* total:": 24, b"* tensors:": 24, b"* model code:": 24, b"* model constants:": 24, b"* shared scratchpad:": 24, b"* scratchpad:": 24,
    b"* dma rings:": 24, b"* collectives:": 24, b"* runtime:": 24, b"Total SB Partition Size": 4, b"Total Accessed Bytes": 4, b"dtype_check": 8, b"with opcode": 8,
    b"tp_degree": 20, b"num_cores": 20, b"tensor_parallel": 20, b"tensor-parallel": 20, b"tensor model parallel": 10, b"input example shape": 60,
    b"size mismatch at index": 120, b"Recompiling function": 120,
    # how much is on the device
    b"% of ": 40, b"percent compiled": 40, b"percent fused": 40, b"sub-graphs successfully compiled": 40, b"not compiled by neuron-cc": 40,
    b"partitioner created": 20, b"currently not supported in": 20, b"Neuron:aten::": 600, b"[not supported]": 300,
    b"support_percentage": 8, b'"kind"': 200, b'"failureAt"': 200, b'"call"': 200,
    b"compilation_summary": 4, b"Total graphs": 8, b"Total successful compilations": 8, b"Total failed compilations": 8,
    # what ran, with what
    b"ersion": 80, b"neuronx-cc": 60, b"neuron-cc": 60, b"Running command": 10, b"--auto-cast": 20, b"--framework": 40,
    b"Compiled in ": 20, b"ompilation Time]": 60, b"Finished Compilation for all HLOs": 20, b"priority HLO in ": 20, b"inf1.": 6, b"inf2.": 6,
    b"trn1.": 6, b"trn1n.": 6, b"trn2.": 6, b"trn3": 6,
}  # fmt: skip

_NEURON = re.compile(
    r"neuron|\bnrt_|\bNRT[:_]|TDRV:|NMGR:|NCC_|\[job\.|penguin|Tensorizer|WalrusDriver|LayoutBottleneck|GlobalLayoutOpt|BackendPassManager"
    r"|NeuronCore|\.neff\b|\bNEFF:|\bCCOM\b|\bENC:|\binf[12]\.\d*xlarge|\btrn[123]n?\.\d*xlarge",
    re.IGNORECASE,
)
_NCC = re.compile(r"NCC_[A-Z]{2,6}\d{3}")
_LEGACY = re.compile(r"\[([A-Z]{1,4}\d{3})\]")
_LEGACY_CONTEXT = re.compile(r"support ticket|neuronx?-cc|over the threshold|tensorizer|Unhandled exception|Neff|NEFF|in SB\b", re.IGNORECASE)
_EXIT = re.compile(
    r"returned with exitcode=(-?\d+)|[Cc]ompile command returned: (-?\d+)|neuronx?-cc (?:compilation )?failed with (?:status )?(-?\d+)"
    r"|compilation failed with (-?\d+)|[Bb]ackend exited with code (-?\d+)|returned non-zero exit status (-?\d+)"
)
_STATUS = re.compile(
    r"nrt_\w+:? ?(?:failed )?status[ =:]+(\d+)|\bstatus_code[ =:]+(\d+)|nrt status code (\d+)|NRTD:\w+\] error: (\d+)|\berr: ?(\d+?)(?=20\d\d-[A-Z][a-z][a-z]-|\D|$)"
    r"|devices, error:(\d+)|nrt_\w+ failed[. ]+Status = (\d+)"
)
_STATUS_NAME = re.compile(r"\bNRT_[A-Z]+(?:_[A-Z]+)*\b")
_EXCEPTION = re.compile(r"(?:^|[\s\]])((?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Interrupt|Exit|Failure))(?::\s*(.*))?$")
_ERROR_LEVEL = re.compile(r"\bERROR\b|\bFATAL\b|\bCRITICAL\b|\bERROR:|\[ERROR\]|\bFATA\[")
_CUDA_LIBRARY = re.compile(r"lib(?:cud|cublas|cufft|curand|cusolver|cusparse|nvinfer|nvrtc|nccl\.|nv)")
_NEURON_MODULES = (
    "neuronxcc",
    "neuronx",
    "torch_neuron",
    "libneuron",
    "torch_xla",
    "transformers_neuronx",
    "optimum",
    "nki",
    "vllm_neuron",
    "jax_neuron",
    "neuron",
)
_CUDA_MODULES = ("apex", "flash_attn", "bitsandbytes", "xformers", "triton", "pycuda", "cupy", "tensorrt")
_KILLED = re.compile(r"(?:^|[\s:])Killed(?:\s*$|\s{2,}\S|\s+python|\s+\(|\s+neuron)")
_SENSE = {
    "served": re.compile(r'"POST (?!/(?:health|ping|metrics))\S* HTTP/1\.1"'),
    "generating": re.compile(r"Avg generation throughput: (?:[1-9]|0\.\d*[1-9])"),
    "benchmarked": re.compile(r"latency_ms_p50\W{1,4}\d"),
    "stepped": re.compile(r"'loss': (?!nan)"),
    "tests_passed": re.compile(r"^(?!.*\b\d+ (?:failed|errors?)\b).*\b\d+ passed\b.* in [\d.]+ ?s"),
    "tests_failed": re.compile(r"\b\d+ failed\b.* in [\d.]+ ?s"),
    "permission": re.compile(r"^(?!.*\bWARN)(?=.*(?:neuron|nrt|Error\b|ERROR))", re.IGNORECASE),
    "package_mismatch": re.compile(r"Error|ERROR"),
    "placeholder": re.compile(r"Error|neuron"),
    "heads_not_divisible": re.compile(r"Error|ERROR|tensor parallel"),
    "model_not_served": re.compile(r"neuron", re.IGNORECASE),
    "package_not_found": re.compile(r"neuron", re.IGNORECASE),
    "damaged_file": re.compile(r"neff|model|neuron|cache", re.IGNORECASE),
}
"""Texts that other programs print in another sense too: what the rest of the line must hold."""


@dataclass(frozen=True)
class Message:
    """A message of the catalogue, where it stood, and the line around it."""

    entry: CompilerCode
    line: int
    text: str

    @property
    def level(self) -> str:
        return self.entry.level


@lru_cache(maxsize=None)
def _signatures() -> dict[bytes, tuple[CompilerCode, ...]]:
    found: dict[bytes, list[CompilerCode]] = {}
    for entry in compiler_codes.signatures():
        found.setdefault((entry.find or "").encode(), []).append(entry)
    return {text: tuple(entries) for text, entries in found.items()}


@lru_cache(maxsize=None)
def texts() -> dict[bytes, int]:
    """Every text to look for, with the number of lines to keep of it."""
    return {**_LOOK_AT, **{text: max(24, _LOOK_AT.get(text, 0)) for text in _signatures()}}


_ANYWHERE = (
    "killed",
    "host_memory",
    "library_mismatch",
    "library_missing",
    "module_missing",
    "file_limit",
    "input_absent",
    "loss_not_a_number",
    "cuda_library",
    "cuda_word",
    "bad_flag",
    "cuda_only_package",
    "serving",
    "engine_failed",
    "hub_token",
    "master_address",
)


def is_about_neuron(scan: Scan, said: Iterable[Message]) -> bool:
    """Does anything in the log come from Neuron software? Messages that any program prints do not count."""
    if any(message.entry.source != "host-messages" and message.entry.code not in _ANYWHERE for message in said):
        return True
    return any(_NEURON.search(part) for part in (scan.head, scan.tail)) or any(_NEURON.search(line.text) for line in scan.lines)


# -- messages ---------------------------------------------------------------------------------


def messages(lines: Iterable[Line]) -> list[Message]:
    """All messages of the catalogue, in the order of the log."""
    return [Message(entry, line.number, line.text) for line in lines for entry in _of(line)]


def _of(line: Line) -> list[CompilerCode]:
    found: dict[str, CompilerCode] = {}
    entries = (*_signed(line), *_coded(line.text), *_ended(line.text), *_stated(line.text))
    for entry in sorted(entries, key=lambda entry: entry.level != "root"):
        found.setdefault(entry.code, entry)
    return list(found.values())


def _signed(line: Line) -> Iterator[CompilerCode]:
    table = _signatures()
    for text in line.found:
        for entry in table.get(text, ()):
            judged = _judged(entry, line.text)
            if judged is not None:
                yield judged


def _judged(entry: CompilerCode, text: str) -> Optional[CompilerCode]:
    """The entry, or ``None`` where its text occurs in another sense; some depend on what else the line says."""
    if entry.code == "killed":
        return entry if entry.find != "Killed" or _KILLED.search(text) else None
    if entry.code == "allocation_failed" and entry.find == "on ND ":
        return entry if "ailed to allocate" in text else None
    if entry.code == "dynamic_shape":
        return entry if re.search(r"support|ERROR|[Ee]rror", text) else None
    if entry.code == "module_missing":
        match = re.search(r"No module named '([\w.]+)", text)
        name = match[1] if match else ""
        if name.startswith("vllm._C"):
            return None
        if name.split(".")[0] in _CUDA_MODULES:
            return replace(
                entry, code="cuda_only_package", category="cuda_package", phase="any", title=f"The program imports {name}, which exists for CUDA only"
            )
        if not name.startswith(_NEURON_MODULES) and re.search(r"\bWARN|Failed to import", text):
            return None
        return replace(entry, title=f"The Python package {name} is not installed in this environment") if name else entry
    if entry.code == "library_missing":
        return None if _CUDA_LIBRARY.search(text) or "libnccom" in text else entry
    if entry.code == "compile_failed" and entry.find == "returned non-zero exit status":
        return entry if re.search(r"neuron|hlo|walrus|penguin", text, re.IGNORECASE) else None
    if entry.code == "operator" and entry.find == "nsupported operator":
        return None if "no unsupported operator" in text.lower() or "unsupported_operators" in text else entry
    if entry.code == "compile_failed" and entry.find in ("neuron-cc failed with", "neuronx-cc failed with"):
        return None if re.search(r"-cc failed with 0\b", text) else entry
    if entry.code == "information_dump" and "Failure:" in text:
        return None
    if entry.code == "init_failed" and "Status = 0" in text:
        return None
    if entry.code == "input_absent":
        return entry if re.search(r"Error", text) else None
    if entry.code in _SENSE:
        return entry if _SENSE[entry.code].search(text) else None
    return entry


def _coded(text: str) -> Iterator[CompilerCode]:
    if "NCC_" in text:
        for code in _NCC.findall(text):
            yield compiler_codes.known(code) or _unlisted(code, text)
    for code in _LEGACY.findall(text) if "[" in text else ():
        entry = compiler_codes.known(code) or compiler_codes.known(f"NCC_{code}")
        if entry and entry.kind == "compiler_legacy":
            yield entry
        elif _LEGACY_CONTEXT.search(text):
            yield _unlisted(code, text)


def _unlisted(code: str, text: str) -> CompilerCode:
    """A code that the catalogue does not have. ``E`` marks what a user can act on, ``I`` the compiler's own errors."""
    letter = code.removeprefix("NCC_")[:1]
    lower = text.lower()
    category = next(
        (name for words, name in (
            (("unsupported operator", "not supported", "unsupported"), "operator"),
            (("instruction", "exceed"), "instruction_limit"),
            (("memory", "exceed"), "device_memory"),
            (("dynamic",), "dynamic_shape"),
        ) if (all if len(words) == 2 else any)(word in lower for word in words)),
        "compiler_internal" if letter != "E" else "compiler_failed",
    )  # fmt: skip
    if letter == "I":
        category = "compiler_internal"
    title = {
        "compiler_internal": "The compiler failed on its own account",
        "operator": "The compiler says that something in the graph is not supported",
        "instruction_limit": "The graph becomes more instructions than the compiler accepts",
        "device_memory": "The model needs more device memory than the target has",
        "dynamic_shape": "A size is not fixed, and the compiler needs every size at compile time",
    }.get(category, "The compiler refuses the graph for a reason that it names")
    return CompilerCode(
        "compiler", code, None, None, "root", category, "compile", f"{title} (the code is not in the catalogue)", (), "unknown", "", ""
    )


def _ended(text: str) -> Iterator[CompilerCode]:
    for groups in _EXIT.findall(text):
        status = next(group for group in groups if group)
        entry = compiler_codes.known(f"exit_{status}")
        if entry is None:
            known = compiler_codes.find("exit_1")
            entry = replace(known, code=f"exit_{status}", number=int(status), title=f"The compiler ended with status {status}")
        yield entry


def _stated(text: str) -> Iterator[CompilerCode]:
    if not re.search(r"nrt|NRT|err|status|Status", text):
        return
    if re.search(r"NRT[\w:]*\s+(?:API|INFO)|\bINFO\b.*NRT:|DUMP_INPUTS_ON_ERR", text):
        return
    for groups in _STATUS.findall(text):
        entry = compiler_codes.runtime_status(int(next(group for group in groups if group)))
        if entry and entry.level != "success":
            yield entry
    for name in _STATUS_NAME.findall(text):
        entry = compiler_codes.runtime_status(name)
        if entry and entry.level not in ("success", "harmless") and not re.search(rf"[!=]= ?{name}|an? {name} value", text):
            yield entry


# -- errors that no message explains ----------------------------------------------------------


def errors(lines: Iterable[Line]) -> list[Line]:
    """Lines of level ERROR or worse."""
    return [line for line in lines if _ERROR_LEVEL.search(line.text)]


def exceptions(lines: Iterable[Line]) -> list[tuple[Line, str, str]]:
    """Final lines of tracebacks: the line, the exception's name, its message."""
    found = []
    for line in lines:
        match = _EXCEPTION.search(line.text)
        if match and "Warning" not in match[1] and not re.search(r"with \w*(?:Error|Exception)\(|\bimport\b.*Error|except ", line.text):
            found.append((line, match[1], (match[2] or "").strip()))
    return found


# -- facts ------------------------------------------------------------------------------------

_VERSIONS = (
    ("neuronx-cc", r"NeuronX Compiler version (\d[\w.+-]*)"),
    ("neuronx-cc", r"neuronxcc version is (\d[\w.+-]*)"),
    ("neuronx-cc", r"neuronx-cc[ =:`*]+(?:version:?`? ?)?(\d+\.\d+\.\d[\w.+-]*)"),
    ("neuronx-cc", r"neuronxcc-(\d+\.\d+\.\d[\w.+]*)/"),
    ("neuronx-cc", r"\"neuronx_cc_version\": \"([\w.+-]+)"),
    ("neuron-cc", r"(?:^|\s)Neuron Compiler version (\d[\w.+-]*)"),
    ("neuron-cc", r"neuron-cc[ =]+(\d+\.\d+\.\d[\w.+-]*)"),
    ("torch-neuronx", r"torch[-_]neuronx(?:_version\"?)?[ =:`\"]+(?:version:?`? ?)?(\d+\.\d[\w.+-]*)"),
    ("torch-neuron", r"torch-neuron[ =]+(\d+\.\d[\w.+-]*)"),
    ("libneuronxla", r"libneuronxla[ =]+(\d+\.\d[\w.+-]*)"),
    ("runtime", r"NRT version: (\d[\w.+-]*)"),
    ("runtime", r"Neuron Runtime (\d+\.\d[\w.+-]*) built"),
    ("instance id", r"Instance ID: (i-[0-9a-f]+)"),
    ("driver", r"Driver version: (\d[\w.+-]*)"),
    ("driver", r"Found neuron driver: (\d[\w.+-]*)"),
    ("collectives", r"CCOM version: (\d[\w.+]*)"),
    ("vllm", r"vLLM (?:API server version|version) (\d[\w.+-]*)"),
    ("vllm", r"LLM engine \(v(\d[\w.+-]*)\)"),
    ("python", r"(?i)(?:Python version|Running on python) (\d[\w.]*)"),
    ("numpy", r"NumPy version (\d[\w.]*)"),
)
_FLAG = re.compile(r"(?<![\w/-])(--?[A-Za-z][\w-]*(?:=[^\s'\",\]]+)?|-O[123])(?:[\s,'\"]+([^\s'\",\]-][^\s'\",\]]*))?")
_PLAIN_FLAGS = (
    "--framework",
    "--output",
    "--logfile",
    "--pipeline",
    "--state",
    "--verbose",
    "--io-config",
    "--input",
    "--out-dir",
    "--logfile-verbose",
)
_INSTANCE = re.compile(r"\b(?:ml\.)?((?:inf[12]|trn[123]n?)\.\d*xlarge)\b")
_COMMAND = re.compile(r"neuronx?-cc['\"]?,? ['\"]?(?:--target=\w+['\"]?,? ['\"]?)?compile\b|Call compiler with cmd|Failed compilation with \[")


def facts(scan: Scan) -> dict[str, str]:
    """Versions, compiler flags, target, instance type, duration: what the log tells beside the verdict."""
    found: dict[str, str] = {}
    extra = [Line(0, text, ()) for text in (*scan.head.splitlines()[:400], *scan.tail.splitlines()[-200:]) if len(text) < 4000]
    for line in (*scan.lines, *extra):
        for name, pattern in _VERSIONS:
            if name not in found and (match := re.search(pattern, line.text)):
                found[name] = match[1].rstrip(".-+")
        if "instance type" not in found and (match := _INSTANCE.search(line.text)):
            found["instance type"] = match[1]
        if "flags" not in found and _COMMAND.search(line.text):
            command = line.text[_COMMAND.search(line.text).start() :]  # type: ignore[union-attr]
            flags = [
                flag if "=" in flag or not value or value.endswith((".pb", ".neff", ".hlo")) else f"{flag} {value}"
                for flag, value in _FLAG.findall(command.split("']:")[0].split("failed:")[0])
                if not flag.startswith(_PLAIN_FLAGS)
            ]
            if flags:
                found["flags"] = " ".join(dict.fromkeys(flags))
    found.update(_duration(scan))
    return found


_CLOCKS = (
    (re.compile(r"(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d:\d\d)(?:[.,](\d{1,6}))?"), "%Y-%m-%d %H:%M:%S"),
    (re.compile(r"(\d{4}-[A-Z][a-z]{2}-\d\d) (\d\d:\d\d:\d\d)(?:\.(\d{1,6}))?"), "%Y-%b-%d %H:%M:%S"),
    (re.compile(r"(\d\d/\d\d/\d{4}) (\d\d:\d\d:\d\d [AP]M)"), "%m/%d/%Y %I:%M:%S %p"),
    (re.compile(r"(?:INFO|WARNING|ERROR|DEBUG) (\d\d-\d\d) (\d\d:\d\d:\d\d)"), "%Y-%m-%d %H:%M:%S"),
)


def moment(text: str) -> Optional[datetime]:
    """The first time stamp of a line, without zone; years that are not written count as 2000."""
    best: Optional[tuple[int, datetime]] = None
    for pattern, form in _CLOCKS:
        match = pattern.search(text)
        if match is None or (best and match.start() >= best[0]):
            continue
        day = match[1] if len(match[1]) > 5 else f"2000-{match[1]}"
        try:
            best = (match.start(), datetime.strptime(f"{day} {match[2]}", form))
        except ValueError:
            continue
    return best[1] if best else None


def last_time(text: str) -> Optional[datetime]:
    """The newest time stamp among the last lines (threads may write out of order)."""
    return max((found for line in text.splitlines()[-400:] if (found := moment(line[:400]))), default=None)


def _duration(scan: Scan) -> dict[str, str]:
    """Seconds of the compilation, from the best witness: a total, then the command and its end, then the span of the log."""
    for pattern, what in (
        (r"\[Total compilation Time\] ([\d.]+) seconds", "the total that the program printed"),
        (r"^\s*Compiled in ([\d.]+) ?s", "the time around the whole compilation"),
        (r"Finished building model in ([\d.]+) seconds", "the time that the library took to build the model"),
    ):
        values = [float(match[1]) for line in scan.lines if (match := re.search(pattern, line.text))]
        if values:
            return {"elapsed_s": f"{values[-1]:g}", "elapsed": what}
    starts = [found for line in scan.lines if _COMMAND.search(line.text) and (found := moment(line.text))]
    ends = [
        found
        for line in scan.lines
        if re.search(r"exitcode=-?\d|Compilation Successfully Completed|Exiting with a successfully", line.text) and (found := moment(line.text))
    ]
    if starts and ends and ends[-1] >= starts[0]:
        return {"elapsed_s": f"{(ends[-1] - starts[0]).total_seconds():g}", "elapsed": "from the compiler's command to its end"}
    first = next((found for line in scan.head.splitlines()[:400] if (found := moment(line[:400]))), None)
    last = last_time(scan.tail)
    if first and last and last > first and (first.year == 2000) is (last.year == 2000):
        return {"elapsed_at_least_s": f"{(last - first).total_seconds():g}", "elapsed": "from the first to the last time stamp"}
    return {}
