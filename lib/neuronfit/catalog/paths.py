"""Software paths: which stack runs a model on which hardware, in which versions, for how long.

A *path* is the route from a PyTorch (or JAX, or served) model to the device. What is supported
depends on the accelerator generation more than on the model, so ``paths.csv`` has one row per path
and generation. ``sdk_versions.csv`` lists what each Neuron SDK release ships.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import Optional

from neuronfit.catalog import instances, tables
from neuronfit.errors import NotFound, nearest

__all__ = ["PATHS", "SdkRelease", "SoftwarePath", "every", "find", "packages", "sdk", "sdks"]

PATHS = (
    "cuda",
    "cpu",
    "neuron_xla",
    "neuron_native",
    "vllm_neuron",
    "nxd_inference",
    "torch_neuron",
    "jax",
    "tensorflow",
    "optimum_neuron",
    "endpoint",
)
_ANY_HOST = ("cpu", "endpoint")
_OTHER = "other"


@dataclass(frozen=True)
class SoftwarePath:
    """One path on one generation. ``None`` means it does not apply or is not documented.

    ``packages`` are pins as the one release ``sdk`` lists them together. ``until`` is the last SDK or
    date, or ``"not announced"``. ``contradictions`` are places where the vendor's own pages
    disagree. What to type for a workload is :mod:`neuronfit.recipe`'s.
    """

    path: str
    generation: str
    """an accelerator generation, ``"nvidia"``, or ``"any"`` where the hardware does not matter"""
    supported: bool
    title: str
    sdk: Optional[str]
    torch: Optional[str]
    python: tuple[str, ...]
    compiler: Optional[str]
    """neuronx-cc (or neuron-cc) version"""
    packages: dict[str, str] = field(hash=False)
    status: str
    until: Optional[str]
    as_of: str
    source: str
    advice: str
    contradictions: tuple[str, ...]
    transformers: Optional[str] = None
    """the versions of Hugging Face transformers that the source names; ``None``: not stated"""
    transformers_source: Optional[str] = None


@dataclass(frozen=True)
class SdkRelease:
    """One Neuron SDK release. ``date`` is ISO, ``None`` where not documented with certainty."""

    version: str
    date: Optional[str]
    generations: tuple[str, ...]
    source: str
    as_of: str
    complete: bool
    """False where only part of the package lists was seen: absence proves nothing"""


@lru_cache(maxsize=None)
def _rows() -> dict[tuple[str, str], dict[str, str]]:
    return {(row["path"], row["generation"]): row for row in tables.read("paths")}


def find(path: str, instance_type: str) -> SoftwarePath:
    """What this path means on this instance type; ``supported`` may be False, then ``advice`` says why.

    ``cpu`` and ``endpoint`` work with any instance type, also one that is not in the catalogue.
    Raises :class:`~neuronfit.errors.NotFound` for an unknown path or type.
    """
    if path not in PATHS:
        near = nearest(path, PATHS)
        raise NotFound("unknown software path", path, allowed=", ".join(near or PATHS))
    if path in _ANY_HOST:
        return _software_path(_rows()[path, "any"], "any")
    instance = instances.find(instance_type)
    generation = instance.generation or instance.vendor
    row = _rows().get((path, generation)) or _rows()[path, _OTHER]
    return _software_path(row, generation)


def every() -> tuple[SoftwarePath, ...]:
    """All rows; the generation ``"other"`` stands for every generation that is not listed."""
    return tuple(_software_path(row, generation) for (_, generation), row in _rows().items())


def _software_path(row: dict[str, str], generation: str) -> SoftwarePath:
    return SoftwarePath(
        path=row["path"],
        generation=generation,
        supported=row["supported"] == "yes",
        title=row["title"],
        sdk=tables.text(row["sdk"]),
        torch=tables.text(row["torch"]),
        python=tuple(row["python"].split()),
        compiler=tables.text(row["compiler"]),
        packages=dict(pin.split("==") for pin in row["packages"].split()),
        status=row["status"],
        until=tables.text(row["until"]),
        as_of=row["as_of"],
        source=row["source"],
        advice=row["advice"],
        contradictions=tuple(part for part in row["contradictions"].split(" | ") if part),
        transformers=tables.text(row["transformers"]),
        transformers_source=tables.text(row["transformers_source"]),
    )


@lru_cache(maxsize=None)
def _releases() -> dict[str, tuple[dict[str, str], ...]]:
    releases: dict[str, list[dict[str, str]]] = {}
    for row in tables.read("sdk_versions"):
        releases.setdefault(row["sdk"], []).append(row)
    return {version: tuple(rows) for version, rows in releases.items()}


def sdks() -> tuple[str, ...]:
    """The SDK versions in the table, newest first."""
    return tuple(sorted(_releases(), key=lambda version: tuple(int(part) for part in version.split(".")), reverse=True))


def sdk(version: str) -> SdkRelease:
    """One release, e.g. ``sdk("2.31.1")``. Raises :class:`~neuronfit.errors.NotFound`."""
    rows = _release_rows(version)
    return SdkRelease(
        version=version,
        date=tables.text(rows[0]["released"]),
        generations=tuple(dict.fromkeys(name for row in rows for name in row["generations"].split())),
        source=rows[0]["source"],
        as_of=rows[0]["as_of"],
        complete=all(row["complete"] == "yes" for row in rows),
    )


def packages(version: str, generation: Optional[str] = None) -> dict[str, tuple[str, ...]]:
    """Package -> the versions that this release lists for a generation (``None``: for any).

    A release may list several versions of one package, one per framework version. For releases
    whose ``complete`` is False an absent package is not evidence of missing support.
    """
    found: dict[str, list[str]] = {}
    for row in _release_rows(version):
        if generation is None or generation in row["generations"].split():
            found.setdefault(row["package"], []).append(row["version"])
    return {name: tuple(versions) for name, versions in found.items()}


def _release_rows(version: str) -> tuple[dict[str, str], ...]:
    try:
        return _releases()[version]
    except KeyError:
        near = [known for known in sdks() if known.startswith(f"{version}.")] or nearest(version, sdks())
        raise NotFound("unknown Neuron SDK version", version, allowed=", ".join(near or sdks())) from None
