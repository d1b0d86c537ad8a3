"""pyproject.toml, requirements.lock and the conda environments agree, for every Python they promise."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path

import pytest
import yaml
from neuronfit.catalog import paths, tables
from packaging.markers import default_environment
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parents[1]
PYTHONS = ("3.10", "3.11", "3.12", "3.13", "3.14")
PLATFORMS = {
    "linux": {"sys_platform": "linux", "os_name": "posix", "platform_system": "Linux", "platform_machine": "x86_64"},
    "linux-arm": {"sys_platform": "linux", "os_name": "posix", "platform_system": "Linux", "platform_machine": "aarch64"},
    "mac": {"sys_platform": "darwin", "os_name": "posix", "platform_system": "Darwin", "platform_machine": "arm64"},
    "windows": {"sys_platform": "win32", "os_name": "nt", "platform_system": "Windows", "platform_machine": "AMD64"},
}
NEURON_FILES = {
    "environment-neuron-xla.yml": ("2.31.1", ("inf2", "trn1")),
    "environment-neuron.yml": ("2.33.0", ("trn2", "trn3")),
}
"""File -> the SDK release it holds, and the generations it is for."""

VENDOR_INDEXES = {
    "--extra-index-url https://pip.repos.neuron.amazonaws.com",
    "--extra-index-url https://download.pytorch.org/whl/cpu",
}


def project() -> dict:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


NOT_LOCKED = ("hlo", "bench")
"""Extras without a pin. ``hlo``: an optional second opinion of 270 MB that `make test` shall not need, from dated
snapshots that name no version of torch. ``bench``: what `make bench` sets beside our own simulator, where it is installed."""


def asked() -> list[Requirement]:
    """Dependencies and locked extras of pyproject.toml."""
    extras = [entries for name, entries in project()["optional-dependencies"].items() if name not in NOT_LOCKED]
    return [Requirement(entry) for entry in (*project()["dependencies"], *(entry for extra in extras for entry in extra))]


def lock_lines() -> list[str]:
    lines = (ROOT / "requirements.lock").read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line.strip() and not line.startswith("#")]


def host(python: str, platform: str = "linux") -> dict[str, str]:
    named = {"implementation_name": "cpython", "platform_python_implementation": "CPython"}
    return {**default_environment(), **PLATFORMS[platform], **named, "python_version": python, "python_full_version": f"{python}.6"}


def pinned(lines: list[str], python: str, platform: str = "linux") -> dict[str, list[Requirement]]:
    """Normalised name -> the lines that apply on this host."""
    found: dict[str, list[Requirement]] = {}
    for entry in map(Requirement, lines):
        if entry.marker is None or entry.marker.evaluate(host(python, platform)):
            found.setdefault(canonicalize_name(entry.name), []).append(entry)
    return found


def version_of(entry: Requirement) -> Version:
    (only,) = entry.specifier
    assert only.operator == "==", f"{entry} is not a pin"
    return Version(only.version)


def environment(name: str) -> dict:
    return yaml.safe_load((ROOT / name).read_text(encoding="utf-8"))


def python_of(name: str) -> str:
    (line,) = [entry for entry in environment(name)["dependencies"] if str(entry).startswith("python")]
    return line.partition("=")[2]


def pip_lines(name: str) -> list[str]:
    (section,) = [entry["pip"] for entry in environment(name)["dependencies"] if isinstance(entry, dict)]
    return section


def requirements(name: str) -> list[str]:
    return [line for line in pip_lines(name) if not line.startswith("-")]


ENVIRONMENTS = ("environment.yml", *NEURON_FILES)


# -- the lock ---------------------------------------------------------------------------------


def test_requires_python_covers_the_versions_that_are_promised():
    allowed = SpecifierSet(project()["requires-python"])
    assert all(f"{python}.0" in allowed for python in PYTHONS)
    assert "3.9.20" not in allowed


@pytest.mark.parametrize("python", PYTHONS)
@pytest.mark.parametrize("platform", PLATFORMS)
def test_every_dependency_and_extra_has_one_pin_within_its_bounds(python, platform):
    pins = pinned(lock_lines(), python, platform)
    for wanted in asked():
        entries = pins.get(canonicalize_name(wanted.name), [])
        if wanted.marker is not None and not wanted.marker.evaluate(host(python, platform)):
            assert not entries, f"{wanted.name} is not asked for on {platform}, and has a pin"
            continue
        assert len(entries) == 1, f"{wanted.name} has {len(entries)} pins on {platform}, Python {python}"
        assert version_of(entries[0]) in wanted.specifier, f"{entries[0]} is outside {wanted}"


@pytest.mark.parametrize("python", PYTHONS)
@pytest.mark.parametrize("platform", PLATFORMS)
def test_the_lock_has_no_package_twice_for_one_host(python, platform):
    doubled = {name: entries for name, entries in pinned(lock_lines(), python, platform).items() if len(entries) > 1}
    assert not doubled


def test_the_lock_holds_plain_pins_only():
    for line in lock_lines():
        assert "://" not in line and " @ " not in line, f"{line} names a place"
        assert not line.startswith("-"), f"{line} is an option or an editable line"
        version = version_of(Requirement(line))
        assert version.local is None, f"{line} has a local version tag"


def test_the_lock_has_no_line_twice_and_writes_names_in_their_normal_form():
    names = [re.split(r"[=; ]", line)[0].lower() for line in lock_lines()]
    assert len(set(lock_lines())) == len(lock_lines())
    assert names == [canonicalize_name(name) for name in names]


# -- the conda environments -------------------------------------------------------------------


def test_the_files_are_what_the_tool_writes():
    spec = importlib.util.spec_from_file_location("environments", ROOT / "tools" / "environments.py")
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    for name, text in tool.environments(ROOT).items():
        assert (ROOT / name).read_text(encoding="utf-8") == text, f"{name} is stale: python tools/environments.py"
    assert set(tool.environments(ROOT)) == set(ENVIRONMENTS)


def test_the_workbook_environment_is_the_lock():
    assert [line for line in pip_lines("environment.yml") if line != "-e ."] == lock_lines()


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_conda_brings_python_and_pip_only(name):
    plain = [entry for entry in environment(name)["dependencies"] if isinstance(entry, str)]
    assert [entry.partition("=")[0] for entry in plain] == ["python", "pip"]
    assert f"{python_of(name)}.0" in SpecifierSet(project()["requires-python"])
    assert python_of(name) in PYTHONS
    assert pip_lines(name)[-1] == "-e .", "the project itself comes last"


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_an_environment_names_no_place_but_the_vendors(name):
    options = [line for line in pip_lines(name) if line.startswith("-") and line != "-e ."]
    assert set(options) <= VENDOR_INDEXES
    assert bool(options) == (name in NEURON_FILES)
    for line in requirements(name):
        assert "://" not in line and " @ " not in line
    hosts = set(re.findall(r"https?://([^/\s\"]+)", (ROOT / name).read_text(encoding="utf-8")))
    assert hosts <= {"pip.repos.neuron.amazonaws.com", "download.pytorch.org"}


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_an_environment_says_what_it_is_for_and_that_it_was_not_solved(name):
    head = (ROOT / name).read_text(encoding="utf-8").partition("\nname:")[0]
    assert all(line.startswith("#") for line in head.splitlines())
    said = " ".join(head.replace("#", " ").split())
    assert "never solved or installed" in said and f"conda env create -f {name}" in said
    assert re.search(r"\b2026-\d\d-\d\d\b", said), "no date"


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_an_environment_satisfies_the_project(name):
    """Each dependency is given once, and what is given lies within the project's bounds."""
    given = pinned(requirements(name), python_of(name))
    for wanted in map(Requirement, project()["dependencies"]):
        entries = given.get(canonicalize_name(wanted.name), [])
        assert len(entries) == 1, f"{wanted.name} is given {len(entries)} times in {name}"
        for specifier in entries[0].specifier:
            if specifier.operator == "==":
                assert Version(specifier.version.removesuffix(".*")) in wanted.specifier
    assert all(len(entries) == 1 for entries in given.values())


# -- the Neuron stacks ------------------------------------------------------------------------


@pytest.mark.parametrize("name", NEURON_FILES)
def test_neuron_pins_are_those_of_the_release(name):
    release, generations = NEURON_FILES[name]
    for generation in generations:
        listed = {canonicalize_name(package): versions for package, versions in paths.packages(release, generation).items()}
        checked = 0
        for entry in map(Requirement, requirements(name)):
            versions = listed.get(canonicalize_name(entry.name), ())
            if versions:
                assert any(version in entry.specifier for version in versions), f"{entry} is not in SDK {release}: {versions}"
                checked += 1
        assert checked >= 3, f"{name} holds {checked} packages of SDK {release} for {generation}"
    assert f"SDK {release}" in (ROOT / name).read_text(encoding="utf-8")


@pytest.mark.parametrize("name", NEURON_FILES)
def test_python_is_one_that_the_release_lists(name):
    release, generations = NEURON_FILES[name]
    given = {canonicalize_name(entry.name): entry for entry in map(Requirement, requirements(name))}
    rows = [row for row in tables.read("sdk_versions") if row["sdk"] == release and canonicalize_name(row["package"]) in given and row["python"]]
    fitting = [row for row in rows if row["version"] in given[canonicalize_name(row["package"])].specifier]
    assert fitting, f"no package of {name} states its Pythons"
    for row in fitting:
        assert python_of(name) in row["python"].split(), f"{row['package']} {row['version']} lists Python {row['python']}"


@pytest.mark.parametrize("name", NEURON_FILES)
def test_torch_is_the_one_that_torch_neuronx_was_built_for(name):
    given = {entry.name: entry for entry in map(Requirement, requirements(name))}
    (neuron,), (torch,) = given["torch-neuronx"].specifier, given["torch"].specifier
    assert neuron.version.split(".")[:2] == torch.version.split(".")[:2]


@pytest.mark.parametrize("name", NEURON_FILES)
def test_the_files_agree_with_the_software_paths(name):
    """The compiler is the one that the catalogue names for the path and the generation."""
    path = {"environment-neuron-xla.yml": "neuron_xla", "environment-neuron.yml": "neuron_native"}[name]
    machine = {"neuron_xla": "inf2.xlarge", "neuron_native": "trn2.3xlarge"}[path]
    known = paths.find(path, machine)
    assert known.sdk == NEURON_FILES[name][0]
    assert f"neuronx-cc=={known.compiler}" in requirements(name)
    assert python_of(name) in known.python


def test_numpy_and_transformers_keep_to_what_neuron_asks_for():
    """NumPy 2.2 or 2.3 (2.1 was dropped), transformers from 4.52."""
    for name in NEURON_FILES:
        given = {entry.name: entry.specifier for entry in map(Requirement, requirements(name))}
        assert [version for version in ("1.26.4", "2.1.3", "2.2.6", "2.3.5", "2.4.6") if version in given["numpy"]] == ["2.2.6", "2.3.5"]
        (transformers,) = given["transformers"]
        assert Version(transformers.version) >= Version("4.52")


def test_the_native_environment_has_the_torch_of_the_lock():
    locked = {entry.name: entry for entry in map(Requirement, lock_lines()) if entry.name == "torch"}
    assert str(locked["torch"].specifier) in {
        str(entry.specifier) for entry in map(Requirement, requirements("environment-neuron.yml")) if entry.name == "torch"
    }
