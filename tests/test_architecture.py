"""The shape of the package: who may import what, and that importing does nothing."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "lib" / "neuronfit"
MODULES = sorted(PACKAGE.rglob("*.py"))

LAYERS = (
    ("provenance", "errors", "units", "stats", "draws", "sequential", "files"),
    (
        "sections",
        "params",
        "system",
        "traced",
        "served",
        "fleets",
        "record",
        "catalog",
        "plausibility",
        "dossier",
        "model",
        "workload",
        "question",
        "traffic",
        "inputs",
    ),
    (
        *(
            "targets",
            "profile",
            "check",
            "hlo",
            "memory",
            "dependencies",
            "buckets",
            "examine",
            "diagnose",
            "recipe",
            "compatibility",
            "compile",
            "watch",
            "measure",
            "load",
        ),
        *(
            "adopt",
            "price_lists",
            "parity",
            "compare",
            "capacity",
            "utilization",
            "useful",
            "doubt",
            "training",
            "offers",
            "cost",
            "tasks",
            "effort",
            "handover",
            "splitter",
            "trial",
            "decide",
        ),
    ),
    ("show", "report", "series", "cli"),
)
"""As in lib/neuronfit/__init__.py: a module imports its own layer or earlier ones."""

ONLY_IN = {
    "torch": {"inputs", "model", "targets", "check", "hlo"},
    "torch_mlir": {"hlo"},
    "torch_neuronx": {"targets", "system"},
    "neuronxcc": {"targets", "system"},
    "transformers": {"model"},
    "matplotlib": {"show"},
    "ipywidgets": {"show"},
    "numba": {"capacity"},
    "papermill": {"series"},
    "nbclient": {"series"},
    "click": {"cli"},
    "jinja2": {"report"},
    "boto3": {"price_lists"},
    "botocore": {"price_lists"},
    "ray": set(),
}


def part(path: Path) -> str:
    """``catalog/prices.py`` -> ``catalog``."""
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imports(path: Path) -> list[tuple[str, int, bool]]:
    """(module, line, at import time) of each import statement that runs."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    typing_only = {
        id(node) for block in ast.walk(tree) if isinstance(block, ast.If) and "TYPE_CHECKING" in ast.unparse(block.test) for node in ast.walk(block)
    }
    inside = {id(node) for function in ast.walk(tree) if isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)) for node in ast.walk(function)}
    found = []
    for node in ast.walk(tree):
        if id(node) in typing_only:
            continue
        early = id(node) not in inside
        if isinstance(node, ast.Import):
            found += [(name.name, node.lineno, early) for name in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.append((node.module, node.lineno, early))
            if node.module == "neuronfit":
                found += [(f"neuronfit.{name.name}", node.lineno, early) for name in node.names]
    return found


def test_every_module_has_a_layer():
    known = {name for layer in LAYERS for name in layer} | {"__init__", "templates"}
    assert {part(path) for path in MODULES} <= known


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_point_up_the_list(path):
    level = {name: number for number, layer in enumerate(LAYERS) for name in layer}
    own = part(path)
    if own == "__init__":
        return
    for module, line, _ in imports(path):
        if module.startswith("neuronfit."):
            other = module.split(".")[1]
            if other in level:
                assert level[other] <= level[own], f"{path.name}:{line} imports {module} from a later layer"


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_heavy_packages_stay_where_they_belong(path):
    for module, line, early in imports(path):
        package = module.split(".")[0]
        if package in ONLY_IN:
            assert part(path) in ONLY_IN[package], f"{path.name}:{line} imports {module}"
            if package in ("torch", "transformers", "matplotlib", "papermill"):
                assert not early, f"{path.name}:{line} imports {module} when it is imported itself"


def test_importing_everything_has_no_side_effects(tmp_path):
    """No network, no subprocess, no file written, and none of the heavy packages."""
    program = """
import builtins, importlib, os, pkgutil, socket, subprocess, sys
def refuse(*args, **kwargs): raise AssertionError(f"side effect at import: {args}")
socket.socket.connect = refuse
subprocess.Popen.__init__ = refuse
os.mkdir = os.makedirs = refuse
real_open = builtins.open
def reading_only(file, mode="r", *args, **kwargs):
    assert not set(mode) & set("wax+"), f"writes {file} at import"
    return real_open(file, mode, *args, **kwargs)
builtins.open = reading_only
import neuronfit
for found in pkgutil.walk_packages(neuronfit.__path__, "neuronfit."):
    importlib.import_module(found.name)
heavy = {"torch", "transformers", "matplotlib", "papermill", "pandas", "IPython"} & set(sys.modules)
assert not heavy, heavy
"""
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_no_module_outgrows_one_sitting():
    """A verb that outgrows this becomes a package of the same name."""
    long = {str(path.relative_to(PACKAGE)): len(path.read_text().splitlines()) for path in MODULES}
    assert {name: count for name, count in long.items() if count > 900} == {}


def test_no_star_imports_and_no_catch_all_that_swallows():
    for path in MODULES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom):
                assert all(name.name != "*" for name in node.names), path
            if isinstance(node, ast.ExceptHandler) and (node.type is None or ast.unparse(node.type) in ("Exception", "BaseException")):
                assert any(isinstance(inner, ast.Raise) for inner in ast.walk(node)) or node.name, f"{path.name}:{node.lineno} swallows everything"
