"""Checking a model part by part: what fits no task of ours (vision-language, speech, state-space) is looked at all the same."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Optional

from neuronfit import model as models
from neuronfit.check.findings import ModuleCheck, Target
from neuronfit.check.modules import check_module_on

__all__ = ["check_parts_on"]


def check_parts_on(
    config: Mapping[str, Any], shape: Mapping[str, Optional[int]], targets: Sequence[Target]
) -> tuple[tuple[ModuleCheck, ...], tuple[str, ...]]:
    """One :class:`ModuleCheck` per target over all parts of the model, and why parts are missing from it.

    ``shape`` has ``batch_size``, ``sequence_length`` and perhaps ``output_length``. A finding's module path begins with
    the part's name where there are several. Nothing is checked, and the first is empty, where no part could be built.
    """
    parts = models.parts_of(config, shape["batch_size"] or 1, shape["sequence_length"] or 128, shape.get("output_length"))
    missing = tuple(f"{part.name}: {part.reason}" for part in parts if part.module is None)
    looked = [(part, check_module_on(part.module, part.inputs, targets)) for part in parts if part.module is not None]
    if not looked:
        return (), missing
    several = len(parts) > 1
    merged = tuple(_merged([(part, found[index]) for part, found in looked], several, bool(missing)) for index in range(len(targets)))
    missing += tuple(f"{part.name}: {found[0].error or found[0].how}" for part, found in looked if not found[0].looked)
    return merged, missing


def _merged(found: Sequence[tuple[models.Part, ModuleCheck]], several: bool, lacking: bool) -> ModuleCheck:
    counts: Counter[str] = Counter()
    for _, one in found:
        counts.update(one.operators)
    return ModuleCheck(
        findings=tuple(
            replace(finding, module=f"{part.name}: {finding.module}" if several and finding.module else finding.module)
            for part, one in found
            for finding in one.findings
        ),
        how="; ".join(_how(part, one, several) for part, one in found),
        complete=all(one.looked for _, one in found) and not lacking,
        operators=dict(sorted(counts.items())),
        torch_version=found[0][1].torch_version,
        error="; ".join(f"{part.name}: {one.error}" if several else one.error for part, one in found if one.error) or None,
    )


def _how(part: models.Part, one: ModuleCheck, several: bool) -> str:
    name = f"{part.name}: " if several else ""
    return f"{name}{one.how}" + (f", {part.shortened}" if part.shortened else "")
