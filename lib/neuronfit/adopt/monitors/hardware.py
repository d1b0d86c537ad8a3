"""What the catalogue knows of the devices that a monitor names: capacity, cores, peak, and which instances they may sit in."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Optional

from neuronfit.catalog import instances
from neuronfit.errors import NotFound

__all__ = ["Known", "about", "candidates", "gpus_of_memory", "peak_of_gpu", "peaks_of_core"]


@dataclass(frozen=True)
class Known:
    """An instance type as its monitor sees it. Peaks are dense BF16, or FP16 where there is none, FLOP/s."""

    instance_type: str
    vendor: str
    name: str
    devices: Optional[int]
    cores_per_device: Optional[int]
    """logical cores at the default setting; ``None`` for GPUs"""
    memory_bytes: Optional[int]
    peak_of_core: Optional[float]
    """of one logical core, or of one GPU"""
    peak_dtype: str


@lru_cache(maxsize=None)
def about(instance_type: str) -> Optional[Known]:
    """The catalogue's row, or ``None`` for a type it does not have."""
    try:
        row = instances.find(instance_type)
    except NotFound:
        return None
    count = row.accelerator_count if row.accelerator_count >= 1 else 1
    cores = row.logical_neuroncores
    dtype = "bf16" if "bf16" in row.peak_flops else "fp16"
    total = row.peak_flops.get(dtype)
    return Known(
        instance_type=row.instance_type,
        vendor=row.vendor,
        name=row.accelerator_name,
        devices=int(count),
        cores_per_device=int(cores / count) if cores else None,
        memory_bytes=row.accelerator_memory_bytes_each,
        peak_of_core=total / (cores or row.accelerator_count) if total else None,
        peak_dtype=dtype.upper(),
    )


def candidates(devices: int, cores_per_device: int, memory_bytes: Optional[float]) -> tuple[str, ...]:
    """Neuron instance types with so many devices of so many cores and so much memory each."""
    found = []
    for row in instances.every():
        if row.vendor != "aws_neuron" or row.accelerator_count != devices:
            continue
        cores = {row.neuroncores_per_chip, int((row.logical_neuroncores or 0) / row.accelerator_count)}
        memory = row.accelerator_memory_bytes_each
        if cores_per_device in cores and (memory_bytes is None or memory is None or abs(memory / memory_bytes - 1) < 0.05):
            found.append(row.instance_type)
    return tuple(found)


def peaks_of_core() -> dict[str, float]:
    """Generation -> dense BF16 peak of one physical NeuronCore, FLOP/s."""
    found: dict[str, float] = {}
    for row in instances.every(None):
        if row.vendor == "aws_neuron" and row.generation and row.neuroncores and "bf16" in row.peak_flops:
            found.setdefault(row.generation, row.peak_flops["bf16"] / row.neuroncores)
    return found


def peak_of_gpu(name: Optional[str]) -> Optional[tuple[float, str]]:
    """Dense BF16 (or FP16) peak of a GPU by the name its driver prints, FLOP/s, and the format; ``None``: not in the catalogue."""
    if not name:
        return None
    words = set(re.findall(r"[A-Z0-9]+", name.upper()))
    for row in instances.every():
        if row.vendor != "nvidia" or row.accelerator_count < 1:
            continue
        model = re.sub(r"^NVIDIA ", "", row.accelerator_name).upper().split()
        short = model[0]
        if short not in words:
            continue
        if any(part.startswith("SXM") for part in model) and "PCIE" in words:
            continue
        dtype = "bf16" if "bf16" in row.peak_flops else "fp16"
        if dtype in row.peak_flops:
            return row.peak_flops_each[dtype], dtype.upper()
    return None


def gpus_of_memory(total_bytes: float) -> tuple[str, ...]:
    """Which GPU of the catalogue, or how many of one, have about this much memory (4 %)."""
    found: dict[str, None] = {}
    for row in instances.every():
        each = row.accelerator_memory_bytes_each
        if row.vendor != "nvidia" or not each:
            continue
        for count in (1, 2, 4, 8):
            if abs(total_bytes / (each * count) - 1) < 0.04:
                found[f"{count} x {row.accelerator_name.removeprefix('NVIDIA ')}" if count > 1 else row.accelerator_name.removeprefix("NVIDIA ")] = (
                    None
                )
    return tuple(sorted(found, key=lambda text: (" x " in text, text)))


def same_gpu(one: Iterable[str], other: str) -> bool:
    """Whether two names of a GPU have their model word in common."""
    return bool({word.upper() for word in one} & {word.upper() for word in other.split()})
