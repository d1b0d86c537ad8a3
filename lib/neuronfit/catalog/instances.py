"""EC2 instance types with accelerators: what is inside, in SI units.

``instances.csv`` has one row per EC2 type and one per UltraServer (``level`` tells them apart).
Memory is in bytes, bandwidth in bytes/s and peak arithmetic in FLOP/s (int8: operations/s), always
*dense*: the doubled figures of datasheet headlines assume sparsity and are not used. GPU memory is
what the EC2 API reports as usable, which is a little below the figure on the box.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import Optional, Union

from neuronfit.catalog import tables
from neuronfit.errors import NotFound, nearest

__all__ = ["DTYPES", "THIS_HOST", "Instance", "every", "find"]

DTYPES = ("fp32", "tf32", "bf16", "fp16", "fp8", "int8")
"""Number formats for which a peak is recorded. A format the hardware lacks has no entry."""

THIS_HOST = "this-host"
"""Whatever machine is at hand: a type without a price and without facts, for targets of path ``cpu``."""


@dataclass(frozen=True)
class Instance:
    """One EC2 instance type (or UltraServer). ``None`` means not stated anywhere we could read.

    ``accelerator_count`` counts GPUs or Neuron chips and is below 1 for types with a slice of a GPU;
    ``accelerator_memory_bytes``, ``memory_bandwidth_bytes_per_s`` and ``peak_flops`` are totals of
    the whole instance. ``neuroncores`` are physical, ``logical_neuroncores`` what software sees at
    the default logical-core setting; both are ``None`` for GPUs. ``compiler_target`` is the value
    for ``neuronx-cc --target``.
    """

    instance_type: str
    family: str
    vendor: str
    """``"nvidia"`` or ``"aws_neuron"``; ``"host"`` for ``this-host``"""
    level: str
    """``"instance"`` or ``"ultraserver"``"""
    vcpus: Optional[int]
    memory_bytes: Optional[int]
    accelerator_name: str
    accelerator_count: Union[int, float]
    accelerator_memory_bytes_each: Optional[int]
    accelerator_memory_bytes: Optional[int]
    memory_bandwidth_bytes_per_s: Optional[float]
    peak_flops: dict[str, float] = field(hash=False)
    neuroncores: Optional[int]
    logical_neuroncores: Optional[int]
    neuroncores_per_chip: Optional[int]
    generation: Optional[str]
    """``"inf1"``, ``"inf2"``, ``"trn1"``, ``"trn2"``, ``"trn3"`` or ``None`` for GPUs"""
    compiler_target: Optional[str]
    network_gbit_per_s: Optional[float]
    """peak network bandwidth, Gbit/s as sold"""
    source: str
    accelerator_source: str
    as_of: str
    trust: str
    note: str

    @property
    def peak_flops_each(self) -> dict[str, float]:
        """Dense peak of one accelerator by number format, FLOP/s."""
        return {dtype: total / self.accelerator_count for dtype, total in self.peak_flops.items()}


@lru_cache(maxsize=None)
def _by_type() -> dict[str, Instance]:
    return {row["instance_type"]: _instance(row) for row in tables.read("instances")}


def _instance(row: dict[str, str]) -> Instance:
    count = float(row["accelerator_count"])
    return Instance(
        instance_type=row["instance_type"],
        family=row["family"],
        vendor=row["vendor"],
        level=row["level"],
        vcpus=tables.whole(row["vcpus"]),
        memory_bytes=tables.whole(row["memory_bytes"]),
        accelerator_name=row["accelerator_name"],
        accelerator_count=int(count) if count.is_integer() else count,
        accelerator_memory_bytes_each=tables.whole(row["accelerator_memory_bytes_each"]),
        accelerator_memory_bytes=tables.whole(row["accelerator_memory_bytes"]),
        memory_bandwidth_bytes_per_s=tables.number(row["memory_bandwidth_bytes_per_s"]),
        peak_flops={dtype: float(row[f"peak_{dtype}"]) for dtype in DTYPES if row[f"peak_{dtype}"]},
        neuroncores=tables.whole(row["neuroncores"]),
        logical_neuroncores=tables.whole(row["logical_neuroncores"]),
        neuroncores_per_chip=tables.whole(row["neuroncores_per_chip"]),
        generation=tables.text(row["generation"]),
        compiler_target=tables.text(row["compiler_target"]),
        network_gbit_per_s=tables.number(row["network_gbit_per_s"]),
        source=row["source"],
        accelerator_source=row["accelerator_source"],
        as_of=row["as_of"],
        trust=row["trust"],
        note=row["note"],
    )


def find(instance_type: str) -> Instance:
    """The row of this type, e.g. ``find("g6.xlarge")``.

    Raises :class:`~neuronfit.errors.NotFound`; its message names the nearest types.
    """
    if instance_type == THIS_HOST:
        return _this_host()
    try:
        return _by_type()[instance_type]
    except KeyError:
        near = nearest(instance_type, _by_type())
        raise NotFound("unknown instance type", instance_type, allowed=f"nearest: {', '.join(near)}" if near else _families()) from None


def every(level: Optional[str] = "instance") -> tuple[Instance, ...]:
    """All EC2 instance types in file order; ``level=None`` includes UltraServers."""
    return tuple(row for row in _by_type().values() if level in (None, row.level))


def _this_host() -> Instance:
    """Nothing is stated about it; what it is, is read where it is measured (:func:`neuronfit.system.probe`)."""
    return Instance(
        instance_type=THIS_HOST,
        family=THIS_HOST,
        vendor="host",
        level="host",
        vcpus=None,
        memory_bytes=None,
        accelerator_name="CPU of this host",
        accelerator_count=1,
        accelerator_memory_bytes_each=None,
        accelerator_memory_bytes=None,
        memory_bandwidth_bytes_per_s=None,
        peak_flops={},
        neuroncores=None,
        logical_neuroncores=None,
        neuroncores_per_chip=None,
        generation=None,
        compiler_target=None,
        network_gbit_per_s=None,
        source="the host itself",
        accelerator_source="the host itself",
        as_of="",
        trust="none: nothing is stated",
        note="no price; steps about money say so",
    )


def _families() -> str:
    return "types of the families " + ", ".join(dict.fromkeys(row.family for row in every()))
