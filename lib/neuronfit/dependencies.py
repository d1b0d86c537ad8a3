"""Step 2, around the model: what in a source tree works only with CUDA, and what takes its place.

Looks at Python files (imports, calls, keyword arguments) and at requirement files; runs nothing and imports
nothing of the tree. A file that cannot be read or parsed is named, not fatal. Hidden folders, virtual
environments, build output and files above 2 MB are left out, and said to be.
"""

from __future__ import annotations

import ast
import os
import re
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Iterator, Optional, Union

from neuronfit.errors import BadInput

__all__ = ["CALLS", "PACKAGES", "Dependency", "DependencyScan", "Replacement", "Skipped", "scan", "scan_source"]

SIZE_LIMIT = 2 * 2**20
FILE_LIMIT = 20_000
_LEFT_OUT = frozenset("__pycache__ node_modules site-packages dist-packages build dist .venv venv env .tox .nox .eggs".split())


@dataclass(frozen=True)
class Replacement:
    """What to use instead, on the XLA path (Inf2, Trn1) and with TorchNeuron (Trn2, Trn3)."""

    because: str
    xla: str
    native: str
    severity: str = "warning"
    """``"blocker"``: does not run without CUDA; ``"warning"``: has to be changed or guarded; ``"note"``: has no effect"""


@dataclass(frozen=True)
class Dependency:
    """One place in the tree."""

    code: str
    """stable: the package (``"flash-attn"``) or the kind of call (``"cuda_call"``)"""
    file: str
    """relative to the folder that was scanned"""
    line: int
    text: str
    """what stands there: ``"import apex"``, ``"model.cuda()"``"""
    severity: str
    because: str
    xla: str
    native: str
    guarded: bool = False
    """inside ``try: ... except ImportError`` or under an ``if ...is_available()``: the tree may do without"""

    def replacement(self, path: str) -> str:
        """What to use instead on ``"neuron_native"``, or on any of the XLA paths."""
        return self.native if path == "neuron_native" else self.xla


@dataclass(frozen=True)
class Skipped:
    """A file or folder that was not looked at, and why."""

    file: str
    why: str


@dataclass(frozen=True)
class DependencyScan:
    """What was found in a tree; ``files`` counts those that were read."""

    found: tuple[Dependency, ...]
    skipped: tuple[Skipped, ...]
    files: int

    @property
    def blockers(self) -> tuple[Dependency, ...]:
        """Places that do not run without CUDA and are not guarded."""
        return tuple(one for one in self.found if one.severity == "blocker" and not one.guarded)


_TRACED = "nothing: torch_neuronx.trace compiles the plain PyTorch operation"
_NKI = "an NKI kernel, or the plain PyTorch operation, which torch.compile(backend='neuron') fuses"

PACKAGES: dict[str, Replacement] = {
    "apex": Replacement(
        "fused CUDA kernels and mixed precision for NVIDIA GPUs",
        "torch.nn.LayerNorm and torch.optim; precision with --auto-cast",
        "torch.nn.LayerNorm, torch.optim and torch.autocast(device_type='neuron')",
        "blocker",
    ),
    "flash-attn": Replacement(
        "CUDA attention kernels", "attn_implementation='sdpa' or 'eager'", "torch.nn.functional.scaled_dot_product_attention", "blocker"
    ),
    "bitsandbytes": Replacement(
        "8-bit and 4-bit CUDA kernels",
        "bfloat16 weights; NxD Inference has its own int8 and fp8 quantization",
        "bfloat16 weights, or FP8 on Trn3",
        "blocker",
    ),
    "xformers": Replacement("CUDA attention kernels", "attn_implementation='sdpa'", "torch.nn.functional.scaled_dot_product_attention", "blocker"),
    "triton": Replacement("compiles kernels for GPUs", "rewrite the kernel in NKI, or use the plain PyTorch operations", _NKI, "blocker"),
    "cupy": Replacement("arrays on NVIDIA GPUs", "numpy on the host, torch on the device", "numpy on the host, torch on the device", "blocker"),
    "pycuda": Replacement("calls the CUDA driver", "an NKI kernel or a C++ custom operator", _NKI, "blocker"),
    "tensorrt": Replacement("compiles models for NVIDIA GPUs", "torch_neuronx.trace", "torch.compile(backend='neuron')", "blocker"),
    "torch-tensorrt": Replacement("compiles models for NVIDIA GPUs", "torch_neuronx.trace", "torch.compile(backend='neuron')", "blocker"),
    "transformer-engine": Replacement(
        "FP8 layers for NVIDIA GPUs", "torch.nn layers in bfloat16", "torch.nn layers in bfloat16, FP8 on Trn3", "blocker"
    ),
    "deepspeed": Replacement(
        "its optimizers and kernels are built for CUDA", "NxD Training or NxD Core (maintenance)", "FSDP2, or TorchTitan Neuron", "warning"
    ),
    "auto-gptq": Replacement("quantized CUDA kernels", "bfloat16 weights", "bfloat16 weights", "blocker"),
    "autoawq": Replacement("quantized CUDA kernels", "bfloat16 weights", "bfloat16 weights", "blocker"),
    "causal-conv1d": Replacement("CUDA kernel of state-space models", "the plain convolution of the reference implementation", _NKI, "blocker"),
    "mamba-ssm": Replacement(
        "CUDA scan of state-space models", "the slow path of the reference implementation", "the NKI library's selective_scan kernel", "blocker"
    ),
    "onnxruntime-gpu": Replacement(
        "runs ONNX graphs on NVIDIA GPUs; Neuron takes no ONNX",
        "torch_neuronx.trace of the PyTorch model",
        "torch.compile(backend='neuron') of the PyTorch model",
        "blocker",
    ),
    "pynvml": Replacement("reads the state of NVIDIA GPUs", "neuron-monitor", "neuron-monitor, torch_neuronx.memory_stats", "warning"),
    "nvidia-dali": Replacement("loads data on NVIDIA GPUs", "torch.utils.data on the host", "torch.utils.data on the host", "blocker"),
    "liger-kernel": Replacement("Triton kernels", "the model's own layers", _NKI, "blocker"),
    "vllm": Replacement(
        "the standard wheel is built for CUDA", "vLLM with NxD Inference (SDK 2.31 or older)", "vLLM Neuron 0.29 (Trn2, Trn3)", "warning"
    ),
    "horovod": Replacement(
        "its GPU operations are built for NCCL", "torch_xla's collectives", "torch.distributed with the neuron backend", "warning"
    ),
}
"""CUDA-only packages by the name they are installed under."""

_IMPORTS = {
    "apex": "apex",
    "flash_attn": "flash-attn",
    "flash_attn_2_cuda": "flash-attn",
    "flash_attn_interface": "flash-attn",
    "bitsandbytes": "bitsandbytes",
    "xformers": "xformers",
    "triton": "triton",
    "cupy": "cupy",
    "pycuda": "pycuda",
    "tensorrt": "tensorrt",
    "torch_tensorrt": "torch-tensorrt",
    "transformer_engine": "transformer-engine",
    "deepspeed": "deepspeed",
    "auto_gptq": "auto-gptq",
    "gptqmodel": "auto-gptq",
    "awq": "autoawq",
    "causal_conv1d": "causal-conv1d",
    "mamba_ssm": "mamba-ssm",
    "pynvml": "pynvml",
    "nvidia.dali": "nvidia-dali",
    "liger_kernel": "liger-kernel",
    "vllm": "vllm",
    "horovod": "horovod",
}

_REQUIREMENTS = {
    **{name: name for name in PACKAGES},
    "nvidia-ml-py": "pynvml",
    "nvidia-dali-cuda110": "nvidia-dali",
    "nvidia-dali-cuda120": "nvidia-dali",
    "gptqmodel": "auto-gptq",
    "flash-attn-3": "flash-attn",
    "pytorch-triton": "triton",
}

CALLS: dict[str, Replacement] = {
    "cuda_call": Replacement(
        "torch.cuda exists for NVIDIA GPUs only",
        "torch_xla.core.xla_model for lazy tensors; nothing around a traced module",
        "torch.accelerator and torch.neuron (synchronize, memory statistics)",
    ),
    "cuda_move": Replacement("moves tensors or modules to an NVIDIA GPU", "nothing: inputs of a traced module stay on the CPU", ".to('neuron')"),
    "cuda_device": Replacement(
        "names an NVIDIA GPU as device",
        "device 'cpu' around a traced module, or xm.xla_device()",
        "device 'neuron', or torch.accelerator.current_accelerator()",
    ),
    "cuda_autocast": Replacement(
        "autocast for the device type cuda",
        "compile with --auto-cast (matmult or all) and --auto-cast-type bf16",
        "torch.autocast(device_type='neuron', dtype=torch.bfloat16)",
    ),
    "cuda_extension": Replacement("builds a CUDA extension", "a C++ custom operator (Inf2, Trn1) or the plain PyTorch operations", _NKI, "blocker"),
    "cuda_graphs": Replacement(
        "CUDA graphs exist for NVIDIA GPUs only", "nothing: a traced model is one graph already", "torch.compile(backend='neuron', fullgraph=True)"
    ),
    "nccl": Replacement(
        "the NCCL backend exists for NVIDIA GPUs only", "torch.distributed with backend 'xla'", "torch.distributed with backend 'neuron'"
    ),
    "compile_dynamic": Replacement(
        "torch.compile(dynamic=True) is rejected by the neuron backend",
        "pad to fixed shapes and trace one module per bucket",
        "dynamic=False, with inputs padded to buckets",
        "blocker",
    ),
    "compile_mode": Replacement("compile modes other than the default have no effect on Neuron", "torch_neuronx.trace", "leave mode out", "note"),
    "compile_backend": Replacement(
        "this torch.compile backend generates code for GPUs", "torch_neuronx.trace", "torch.compile(backend='neuron', fullgraph=True, dynamic=False)"
    ),
    "compile_shapes": Replacement(
        "without dynamic=False a second shape makes a dimension dynamic, which the compiler refuses",
        "torch_neuronx.trace, one module per shape",
        "torch.compile(backend='neuron', fullgraph=True, dynamic=False)",
        "note",
    ),
    "attention_kernel": Replacement(
        "asks for an attention kernel that needs CUDA", "attn_implementation='sdpa' or 'eager'", "attn_implementation='sdpa'", "blocker"
    ),
    "quantized_load": Replacement(
        "asks for weights that are quantized with CUDA kernels", "bfloat16 weights", "bfloat16 weights, or FP8 on Trn3", "blocker"
    ),
    "cuda_wheel": Replacement(
        "asks for CUDA builds of packages",
        "https://pip.repos.neuron.amazonaws.com",
        "https://download.pytorch.org/whl/cpu with https://pip.repos.neuron.amazonaws.com",
    ),
}
"""Kinds of calls and settings."""

_REQUIREMENT_FILES = re.compile(
    r"(^|[-_.])(requirements|constraints)[^/]*\.(txt|in)$|^(pyproject\.toml|setup\.cfg|Pipfile|environment[^/]*\.ya?ml|conda[^/]*\.ya?ml)$",
    re.IGNORECASE,
)
_REQUIREMENT = re.compile(r"""["']?(?P<name>[A-Za-z0-9][A-Za-z0-9._-]*)\s*(\[[^\]]*\])?\s*(===?|>=|<=|~=|!=|<|>|@|;|["',]|=|$)""")
_CUDA_WHEEL = re.compile(r"download\.pytorch\.org/whl/cu\d+|\+cu\d{2,3}\b|pypi\.nvidia\.com")


# --- entry points ----------------------------------------------------------------------------------


def scan(folder: Union[str, Path]) -> DependencyScan:
    """Scan a source tree (or one file). Raises :class:`~neuronfit.errors.BadInput` where there is none."""
    root = Path(folder)
    if not root.exists():
        raise BadInput("no source tree at", str(folder), allowed="a folder, or one Python or requirements file")
    found: list[Dependency] = []
    skipped: list[Skipped] = []
    read = 0
    base = root if root.is_dir() else root.parent
    for path in _files(root, base, skipped):
        name = path.relative_to(base).as_posix()
        if read >= FILE_LIMIT:
            skipped.append(Skipped(name, f"more than {FILE_LIMIT} files"))
            break
        try:
            if path.stat().st_size > SIZE_LIMIT:
                skipped.append(Skipped(name, "larger than 2 MB"))
                continue
            text = path.read_bytes().decode("utf-8-sig")
        except UnicodeDecodeError:
            skipped.append(Skipped(name, "not a text file in UTF-8"))
            continue
        except OSError as error:
            skipped.append(Skipped(name, f"cannot be read ({error.strerror or type(error).__name__})"))
            continue
        read += 1
        if path.suffix in (".cu", ".cuh"):
            found.append(_place("cuda_extension", CALLS["cuda_extension"], name, 1, path.name, False))
        elif path.suffix == ".ipynb":
            found += _notebook(text, name, skipped)
        elif path.suffix == ".py":
            try:
                found += scan_source(text, name)
            except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
                skipped.append(Skipped(name, f"not Python that this version can parse ({_reason(error)})"))
        else:
            found += _requirements(text, name)
    return DependencyScan(tuple(sorted(found, key=lambda one: (one.file, one.line, one.code))), tuple(skipped), read)


def scan_source(text: str, file: str = "<source>") -> tuple[Dependency, ...]:
    """What one Python source has. Raises ``SyntaxError`` or ``ValueError`` where it cannot be parsed."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the scanned source: invalid escapes and the like
        tree = ast.parse(text)
    reader = _Reader(file)
    reader.visit(tree)
    return tuple({(one.code, one.line): one for one in reader.found}.values())


# --- files -----------------------------------------------------------------------------------------


def _files(root: Path, base: Path, skipped: list[Skipped]) -> Iterator[Path]:
    """The files to read, in a stable order, links to folders not followed."""
    if root.is_file():
        yield root
        return
    for folder, subfolders, names in os.walk(
        root, onerror=lambda error: skipped.append(Skipped(_relative(error.filename, base), f"cannot be read ({error.strerror})"))
    ):
        here = Path(folder)
        for name in sorted(subfolders):
            if name.startswith(".") or name in _LEFT_OUT or name.endswith(".egg-info") or (here / name / "pyvenv.cfg").is_file():
                subfolders.remove(name)
                if name not in ("__pycache__", ".git"):
                    skipped.append(Skipped(_relative(here / name, base), "not part of the source: hidden, an environment or build output"))
        subfolders.sort()
        for name in sorted(names):
            if name.endswith((".py", ".cu", ".cuh", ".ipynb")) or _REQUIREMENT_FILES.search(name):
                path = here / name
                if path.is_file():
                    yield path


def _relative(path: Union[str, Path, None], base: Path) -> str:
    try:
        return Path(path or base).relative_to(base).as_posix()
    except ValueError:
        return Path(path or base).name


def _reason(error: BaseException) -> str:
    if isinstance(error, SyntaxError):
        return f"line {error.lineno}: {error.msg}"
    return type(error).__name__


def _notebook(text: str, name: str, skipped: list[Skipped]) -> list[Dependency]:
    """The code cells of a notebook; lines count within the cells, one after the other."""
    import json

    try:
        cells = json.loads(text)["cells"]
        sources = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    except (ValueError, KeyError, TypeError, RecursionError):
        skipped.append(Skipped(name, "not a notebook that can be read"))
        return []
    found: list[Dependency] = []
    for number, source in enumerate(sources, 1):
        plain = "\n".join("" if line.lstrip().startswith(("%", "!")) else line for line in source.splitlines())
        try:
            found += scan_source(plain, f"{name}, code cell {number}")
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            skipped.append(Skipped(f"{name}, code cell {number}", f"not Python that this version can parse ({_reason(error)})"))
    return found


def _requirements(text: str, name: str) -> Iterator[Dependency]:
    for number, line in enumerate(text.splitlines(), 1):
        plain = line.split("#", 1)[0].strip()
        if _CUDA_WHEEL.search(line):
            yield _place("cuda_wheel", CALLS["cuda_wheel"], name, number, plain, False)
        for match in _REQUIREMENT.finditer(plain.removeprefix("- ").lstrip()):
            package = _package(match["name"])
            if package:
                yield _place(package, PACKAGES[package], name, number, plain, False)
                break


def _package(requirement: str) -> Optional[str]:
    """``"Flash_Attn>=2"`` -> ``"flash-attn"`` where that is a CUDA-only package."""
    match = _REQUIREMENT.match(requirement.strip())
    known = re.sub(r"[-_.]+", "-", match["name"]).lower() if match else ""
    return _REQUIREMENTS.get(re.sub(r"^cupy-cuda\d+x?$", "cupy", known))


def _place(code: str, known: Replacement, file: str, line: int, text: str, guarded: bool) -> Dependency:
    return Dependency(code, file, line, text[:160], known.severity, known.because, known.xla, known.native, guarded)


# --- Python ----------------------------------------------------------------------------------------


class _Reader(ast.NodeVisitor):
    """Finds imports, calls and settings; knows whether it is inside a guard."""

    def __init__(self, file: str) -> None:
        self.file, self.guards = file, 0
        self.found: list[Dependency] = []
        self.cuda_names: set[str] = set()
        """names that stand for torch.cuda or something of it: ``from torch import cuda``"""

    def _add(self, code: str, node: ast.AST, package: bool = False) -> None:
        known = (PACKAGES if package else CALLS)[code]
        self.found.append(_place(code, known, self.file, getattr(node, "lineno", 0), _text(node), self.guards > 0))

    # guards

    def visit_Try(self, node: ast.Try) -> None:
        caught = " ".join(ast.unparse(handler.type) if handler.type else "ImportError" for handler in node.handlers)
        guard = any(name in caught for name in ("ImportError", "ModuleNotFoundError", "Exception"))
        self.guards += guard
        for part in node.body:
            self.visit(part)
        self.guards -= guard
        for part in [*node.handlers, *node.orelse, *node.finalbody]:
            self.visit(part)

    def visit_If(self, node: ast.If) -> None:
        self._guarded(node, node.body, node.orelse)

    def visit_IfExp(self, node: ast.IfExp) -> None:
        self._guarded(node, [node.body], [node.orelse])

    def _guarded(self, node: Union[ast.If, ast.IfExp], body: list, orelse: list) -> None:
        test = ast.unparse(node.test)
        guard = "is_available" in test or "_available" in test or "TYPE_CHECKING" in test or "cuda" in test.lower()
        self.guards += guard
        self.visit(node.test)
        for part in body:
            self.visit(part)
        self.guards -= guard
        for part in orelse:
            self.visit(part)

    # imports

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            self._import(alias.name, node)
            if alias.name == "torch.cuda" and alias.asname:
                self.cuda_names.add(alias.asname)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        if node.level or not node.module:
            return
        self._import(node.module, node)
        for alias in node.names:
            if node.module == "torch" and alias.name == "cuda" or node.module.startswith("torch.cuda"):
                self.cuda_names.add(alias.asname or alias.name)
                self._add("cuda_autocast" if alias.name in ("autocast", "GradScaler") else "cuda_call", node)
            if node.module == "torch.utils.cpp_extension" and alias.name in ("CUDAExtension", "load", "load_inline"):
                if alias.name == "CUDAExtension":
                    self._add("cuda_extension", node)
            if node.module == "nvidia" and alias.name == "dali":
                self._add("nvidia-dali", node, package=True)

    def _import(self, module: str, node: ast.AST) -> None:
        for name in (module.split(".")[0], ".".join(module.split(".")[:2])):
            if name in _IMPORTS:
                self._add(_IMPORTS[name], node, package=True)
                return

    # calls and names

    def visit_Attribute(self, node: ast.Attribute) -> None:
        name = _dotted(node)
        if name and (name.startswith("torch.cuda.") or name.split(".")[0] in self.cuda_names and "." in name):
            self._add(_cuda_kind(name), node)
            return
        if name and name.endswith("cpp_extension.CUDAExtension"):
            self._add("cuda_extension", node)
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        name = _dotted(node.func) or ""
        last = node.func.attr if isinstance(node.func, ast.Attribute) else name
        options = {keyword.arg: keyword.value for keyword in node.keywords if keyword.arg}
        if last == "cuda" and isinstance(node.func, ast.Attribute) and name != "torch.cuda":
            self._add("cuda_move", node)
        elif last == "to" and any(_cuda_text(argument) for argument in [*node.args, *options.values()]):
            self._add("cuda_move", node)
        elif last == "autocast" and any(
            _cuda_text(argument) for argument in [*node.args[:1], *[options[key] for key in ("device_type",) if key in options]]
        ):
            self._add("cuda_autocast", node)
        elif name in ("torch.compile",) or last == "compile" and isinstance(node.func, ast.Attribute) and "torch" in name.split("."):
            self._compile(node, options)
        elif last == "init_process_group" and any(_constant(argument) == "nccl" for argument in [*node.args, *options.values()]):
            self._add("nccl", node)
        elif (
            last in ("load", "load_inline")
            and "cpp_extension" in name
            and any("cuda" in key or ".cu" in ast.unparse(value) for key, value in options.items())
        ):
            self._add("cuda_extension", node)
        elif last == "CUDAExtension" and name == "CUDAExtension":
            self._add("cuda_extension", node)
        elif (
            any(_cuda_text(value) for key, value in options.items() if key in ("device", "map_location", "device_map", "device_type"))
            or name == "torch.device"
            and node.args
            and _cuda_text(node.args[0])
        ):
            self._add("cuda_device", node)
        if last == "setup":
            self._requirements(options)
        if str(_constant(options.get("attn_implementation"))).startswith("flash_attention"):
            self._add("attention_kernel", node)
        if any(_constant(options.get(key)) is True for key in ("load_in_8bit", "load_in_4bit")):
            self._add("quantized_load", node)
        self.generic_visit(node)

    def _requirements(self, options: dict[str, ast.expr]) -> None:
        """What ``setup(install_requires=[...])`` asks for."""
        for key in ("install_requires", "extras_require", "setup_requires"):
            for part in ast.walk(options[key]) if key in options else ():
                package = _package(part.value) if isinstance(part, ast.Constant) and isinstance(part.value, str) else None
                if package:
                    self._add(package, part, package=True)

    def _compile(self, node: ast.Call, options: dict[str, ast.expr]) -> None:
        backend = _constant(options.get("backend"))
        if _constant(options.get("dynamic")) is True:
            self._add("compile_dynamic", node)
        elif "dynamic" not in options:
            self._add("compile_shapes", node)
        if options.get("mode") is not None and _constant(options["mode"]) not in (None, "default"):
            self._add("compile_mode", node)
        if backend in ("inductor", "cudagraphs", "tensorrt", "torch_tensorrt", "onnxrt"):
            self._add("compile_backend", node)

    def visit_Assign(self, node: ast.Assign) -> None:
        if any("device" in ast.unparse(target).lower() for target in node.targets) and _cuda_text(node.value):
            self._add("cuda_device", node)
        self.generic_visit(node)


def _cuda_kind(name: str) -> str:
    if any(word in name for word in ("autocast", "amp.", "GradScaler")):
        return "cuda_autocast"
    return "cuda_graphs" if "graph" in name.lower() else "cuda_call"


def _dotted(node: ast.AST) -> Optional[str]:
    parts = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return ".".join([node.id, *reversed(parts)]) if isinstance(node, ast.Name) else None


def _constant(node: Optional[ast.AST]) -> object:
    return node.value if isinstance(node, ast.Constant) else None


def _cuda_text(node: ast.AST) -> bool:
    """``"cuda"``, ``"cuda:1"``, ``f"cuda:{rank}"``, ``torch.device("cuda")``."""
    if isinstance(node, ast.JoinedStr):
        return bool(node.values) and str(_constant(node.values[0])).startswith("cuda")
    if isinstance(node, ast.Call):
        return _dotted(node.func) in ("torch.device", "device") and bool(node.args) and _cuda_text(node.args[0])
    if isinstance(node, ast.IfExp):
        return _cuda_text(node.body) or _cuda_text(node.orelse)
    return isinstance(node, ast.Constant) and isinstance(node.value, str) and re.match(r"cuda(:\d+)?$", node.value) is not None


def _text(node: ast.AST) -> str:
    text = ast.unparse(node)
    return text.splitlines()[0] if text else ""
