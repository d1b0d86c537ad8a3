"""Different models on the same instances: what the dossiers of other workloads say of the same instance type, added up.

Loads add as instances that each model needs at its peak; memory adds on every instance, as each holds a copy of all. Batches of
different models do not mix and one model's burst delays the other's requests: neither is simulated, so this is a bound in favour of sharing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Optional

from neuronfit.dossier import Dossier
from neuronfit.memory import HEADROOM
from neuronfit.record import Compatibility, Utilization, UtilizationOfTarget

if TYPE_CHECKING:
    from neuronfit.question import Question

__all__ = ["Part", "said", "together"]


@dataclass(frozen=True)
class Part:
    """One model on one instance type. ``peak`` in instances at full load; memory in bytes of one copy and of the instance."""

    name: str
    peak: Optional[float]
    memory: Optional[float] = None
    room: Optional[float] = None


def together(question: "Question", row: UtilizationOfTarget) -> Optional[str]:
    """What sharing this target's instances with ``policy.capacity.shared_with`` comes to, in a sentence; ``None`` where nobody is named."""
    others = question.params.policy.capacity.shared_with
    if not others or not row.capacity_per_instance.known or not row.offered_peak.known:
        return None
    own = Part(question.name, row.offered_peak.value / row.capacity_per_instance.value, *_memory(question.dossier, row.target))
    return f"{row.target}: {said(row.instance_type, [own, *(_part(Dossier(question.reports / name), name, row.instance_type) for name in others)])}"


def said(instance_type: str, parts: Sequence[Part]) -> str:
    """The sum in a sentence. What is not known of one model leaves the whole open, and is named."""
    names = " and ".join(part.name for part in parts)
    unknown = [part.name for part in parts if part.peak is None]
    if unknown:
        return f"whether {names} could share {instance_type} is open: step 5 of {' and '.join(unknown)} has no load and capacity on that type."
    load = sum(part.peak or 0.0 for part in parts)
    alone, shared = sum(max(1, math.ceil(part.peak or 0.0)) for part in parts), max(1, math.ceil(load))
    needed, rooms = [part.memory for part in parts], [part.room for part in parts if part.room]
    if any(size is None for size in needed) or not rooms:
        held = "whether memory holds one copy of each is not known (step 2)"
    else:
        size, room = sum(size or 0.0 for size in needed), min(rooms) * (1 - HEADROOM)
        held = f"one copy of each takes {size / 2**30:.3g} of {room / 2**30:.3g} GiB that may be used"
        if size > room:
            return f"{names} cannot share {instance_type}: {held}."
    return (
        f"{names} on {instance_type} load {load:.3g} instances together where their peaks coincide: {shared} shared, {alone} apart; {held}. "
        "Batches of different models do not mix, which is not simulated."
    )


def _part(dossier: Dossier, name: str, instance_type: str) -> Part:
    record = dossier.latest(Utilization)
    row = next((row for row in record.targets if row.instance_type == instance_type), None) if record else None
    if row is None or not row.capacity_per_instance.known or not row.offered_peak.known:
        return Part(name, None)
    return Part(name, row.offered_peak.value / row.capacity_per_instance.value, *_memory(dossier, row.target))


def _memory(dossier: Dossier, target: str) -> tuple[Optional[float], Optional[float]]:
    checked = dossier.latest(Compatibility)
    row = next((row for row in checked.targets if row.target == target), None) if checked else None
    if row is None or not row.memory_needed.known or not row.memory_available.known:
        return None, None
    return row.memory_needed.value, row.memory_available.value
