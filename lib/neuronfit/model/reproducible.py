"""Numbers that are the same on every host: integer arithmetic instead of a random generator."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

__all__ = ["hashed", "normal_tile"]


def hashed(count: int, seed: int) -> torch.Tensor:
    """``count`` well-mixed integers in 0..2**32-1, int64: a 32-bit integer hash of the index and seed."""
    import torch

    mixed = (torch.arange(count, dtype=torch.int64) + seed * 0x9E3779B1) & 0xFFFFFFFF
    for _ in range(3):
        mixed = ((mixed ^ (mixed >> 16)) * 0x45D9F3B) & 0xFFFFFFFF
    return mixed ^ (mixed >> 16)


@lru_cache(maxsize=1)
def normal_tile(seed: int) -> torch.Tensor:
    """262,139 values (a prime, so rows do not line up) like N(0, 0.02): sums of four 16-bit
    integers. Shared between calls: do not change it."""
    count, uniform = 262_139, 65_536
    total = (hashed(4 * count, seed) % uniform).view(4, count).sum(dim=0).double()
    deviation = (4 * (uniform**2 - 1) / 12) ** 0.5
    return ((total - 2 * (uniform - 1)) * (0.02 / deviation)).float()
