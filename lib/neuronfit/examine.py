"""What can be known about a model without Neuron hardware and without its weights: `neuronfit check`.

Puts the single checks together: operators with their arguments (:mod:`~neuronfit.check`), memory on
every instance of the catalogue (:mod:`~neuronfit.memory`), CUDA-only code in a source tree
(:mod:`~neuronfit.dependencies`), and optionally the opcodes after lowering (:mod:`~neuronfit.hlo`).
The strongest positive statement is `no documented blocker found`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Optional

from neuronfit import check, dependencies, memory, model
from neuronfit.catalog import traps
from neuronfit.errors import NeuronFitError
from neuronfit.record import Finding, Severity
from neuronfit.units import metric

__all__ = ["Examination", "TASK_OF_KIND", "examine", "findings_of", "known_traps", "usual_task"]

TASK_OF_KIND = {
    "encoder": "feature-extraction",
    "decoder": "text-generation",
    "encoder-decoder": "text2text-generation",
    "vision": "image-classification",
}
"""What a model of a kind is usually asked to do; models of other kinds are looked at part by part."""

USUAL_GENERATIONS = ("inf2", "trn2")
"""One of each software generation: what is said about Inf2 holds for Trn1, what is said about Trn2 for Trn3."""


@dataclass(frozen=True)
class Examination:
    """Everything found. ``checks`` has one entry per accelerator generation, none where nothing could be exported."""

    name: str
    task: Optional[str]
    shape: dict[str, Optional[int]]
    precision: str
    anatomy: Optional[memory.Anatomy]
    configuration: Optional[memory.NeuronConfiguration]
    needed: Optional[memory.MemoryParts]
    smallest: dict[str, Optional[memory.Fit]]
    """``neuron`` and ``gpu``: the smallest instance that fits with headroom"""
    checks: dict[str, check.ModuleCheck]
    unchecked: Optional[str]
    """why operators were not looked at, all of them or those of a part"""
    scan: Optional[dependencies.DependencyScan]
    findings: tuple[Finding, ...]

    @property
    def blockers(self) -> tuple[Finding, ...]:
        return tuple(finding for finding in self.findings if finding.severity is Severity.BLOCKER)

    @property
    def waiting(self) -> bool:
        """Whether operators remain that could not be looked at, so that finding nothing means nothing."""
        return self.configuration is None and self.unchecked is not None

    @property
    def sentence(self) -> str:
        """The bottom line."""
        if self.configuration is not None:
            cores = self.configuration.physical_cores
            return f"{self.name} is no model but a compile configuration of NxD Inference" + (f" for {cores} physical NeuronCores." if cores else ".")
        if self.blockers:
            count = len(self.blockers)
            return f"{self.name}: {count} documented blocker{'s' if count > 1 else ''}, first: {self.blockers[0].because}."
        where = self.smallest.get("neuron")
        fits = (
            f"; fits on {where.instance_type} with tensor-parallel degree {where.tp_degree}"
            if where
            else "; fits on no Inferentia or Trainium instance of the catalogue"
        )
        looked = "no documented blocker found" if self.checks else "its operators could not be looked at"
        if self.checks and self.unchecked:
            looked += ", but not every operator could be looked at"
        return f"{self.name}: {looked}{fits if self.anatomy else ''}."

    def plain(self) -> dict[str, Any]:
        """As plain JSON values."""
        data = {entry.name: getattr(self, entry.name) for entry in dataclasses.fields(self) if entry.name != "findings"}
        return {"sentence": self.sentence, **_jsonable(data), "findings": [finding.model_dump(mode="json") for finding in self.findings]}


def examine(
    config: Mapping[str, Any],
    *,
    name: str = "model",
    task: Optional[str] = None,
    batch_size: int = 1,
    sequence_length: Optional[int] = None,
    output_length: Optional[int] = None,
    precision: str = "bf16",
    targets: Sequence[check.Target] = (),
    source: Optional[str] = None,
    experts: Optional[str] = None,
) -> Examination:
    """Examine the architecture in ``config`` (a config.json as a mapping).

    ``sequence_length`` defaults to 128 tokens, or fewer where the model takes fewer. ``targets`` defaults to
    one Inferentia2/Trainium1 and one Trainium2/Trainium3 target on their usual paths. ``experts`` is how transformers shall
    compute a mixture of experts (``"batched_mm"`` does not sort). Raises
    :class:`~neuronfit.errors.BadParams` when the config is not one of a model, and when the model cannot do the
    task or take the length that was asked for.
    """
    chosen = tuple(targets) or tuple(check.usual_target(generation) for generation in USUAL_GENERATIONS)
    scan = dependencies.scan(source) if source else None
    own = memory.neuron_configuration(config)
    if own is not None:
        return Examination(name, None, {}, precision, None, own, None, {}, {}, "this is no model", scan, tuple(_of_scan(scan, chosen)))
    anatomy = memory.describe(config, name)
    asked = any(one is not None for one in (task, sequence_length, output_length))
    task = task or usual_task(anatomy)
    length = sequence_length or min(128, anatomy.position_limit or 128)
    shape = {"batch_size": batch_size, "sequence_length": length, "output_length": output_length}
    if asked and task:
        model.example_inputs(config, task, batch_size, length, output_length=output_length, device="meta")
    needed = memory.needed(anatomy, batch_size, length, precision, output_length=output_length or 0)
    smallest = {
        "neuron": memory.smallest(anatomy, needed, generations=tuple(dict.fromkeys(("inf2", "trn1", *(target.generation for target in chosen))))),
        "gpu": memory.smallest(anatomy, needed, generations=(None,)),
    }
    checks, unchecked = _checked(config, task, shape, chosen, experts)
    findings = [Finding(severity=Severity(remark.severity), code=remark.code, because=remark.because) for remark in anatomy.remarks]
    for found in checks.values():
        findings += [finding for finding in findings_of(found) if finding not in findings]
    for target in chosen:
        findings += [trap for trap in known_traps(target.path, target.generation, anatomy) if trap not in findings]
    findings += _of_memory(smallest["neuron"], anatomy)
    findings += _of_scan(scan, chosen)
    ordered = tuple(sorted(findings, key=lambda finding: list(Severity).index(finding.severity)))
    return Examination(name, task, shape, precision, anatomy, None, needed, smallest, checks, unchecked, scan, ordered)


def usual_task(anatomy: memory.Anatomy) -> Optional[str]:
    """What a model of this kind is usually asked to do, ``None`` where that is not one of our tasks."""
    return TASK_OF_KIND.get(anatomy.kind)


def findings_of(found: check.ModuleCheck) -> list[Finding]:
    """Operator findings as findings of a record.

    A blocker stays one. A condition that the model breaks is a warning, one that the graph cannot tell a
    note; a condition that is kept is no finding.
    """
    severity = {False: Severity.WARNING, None: Severity.NOTE}
    return [
        Finding(
            severity=Severity.BLOCKER if entry.severity == check.BLOCKER else severity[entry.kept],
            code=entry.code,
            because=f"{entry.operator}, {entry.calls} call{'s' if entry.calls > 1 else ''} at {entry.where}, on {_generations(entry.generations)}: {entry.because}",
            next=entry.rewrite,
        )
        for entry in found.findings
        if entry.severity == check.BLOCKER or entry.kept is not True
    ]


def known_traps(path: str, generation: Optional[str], anatomy: memory.Anatomy, target: Optional[str] = None) -> list[Finding]:
    """What is documented, or publicly known, about this kind of model on a software path; one finding per trap."""
    return [
        Finding(
            severity=Severity.WARNING,
            code="known_trap",
            because=f"{words}: {trap.because} ({trap.source}, {trap.as_of})",
            next=trap.next,
            target=target,
        )
        for trap in traps.known(path, generation, anatomy.model_type, anatomy.kind)
        if (words := trap.code.replace("_", " "))
    ]


def _generations(names: Sequence[str]) -> str:
    return ", ".join(name.capitalize() for name in names)


def _checked(
    config: Mapping[str, Any], task: Optional[str], shape: Mapping[str, Any], targets: Sequence[check.Target], experts: Optional[str]
) -> tuple[dict[str, check.ModuleCheck], Optional[str]]:
    """By the task where the model has one of ours, otherwise part by part; and why operators were not seen, where they were not."""
    reasons: tuple[str, ...] = ()
    found: tuple[check.ModuleCheck, ...] = ()
    if task is not None:
        try:
            found = check.check_config_on(config, task, shape, targets, experts=experts)
        except NeuronFitError as error:
            reasons = (str(error),)
        else:
            reasons = () if found[0].looked else (found[0].error or found[0].how,)
    if not found:
        try:
            found, reasons = check.check_parts_on(config, shape, targets)
        except NeuronFitError as error:
            reasons = (*reasons, str(error))
    return {target.generation: one for target, one in zip(targets, found)}, "; ".join(reasons) or None


def _of_memory(smallest: Optional[memory.Fit], anatomy: memory.Anatomy) -> list[Finding]:
    if smallest is None:
        because = f"{metric('parameters').text(anatomy.parameters)} parameters fit on no Inferentia or Trainium instance of the catalogue"
        return [
            Finding(
                severity=Severity.BLOCKER,
                code="fits_nowhere",
                because=because,
                next="take a narrower precision, a smaller batch or a shorter sequence",
            )
        ]
    if smallest.padding:
        because = f"on {smallest.instance_type} with tensor-parallel degree {smallest.tp_degree}: {'; '.join(smallest.padding)}"
        return [
            Finding(
                severity=Severity.NOTE,
                code="padded_or_copied",
                because=because,
                next="memory figures here count it; check that your serving stack does it",
            )
        ]
    return []


def _of_scan(scan: Optional[dependencies.DependencyScan], targets: Sequence[check.Target]) -> list[Finding]:
    if scan is None:
        return []
    path = targets[0].path
    severity = {"blocker": Severity.BLOCKER, "warning": Severity.WARNING, "note": Severity.NOTE}
    return [
        Finding(
            severity=Severity.WARNING if entry.guarded and entry.severity == "blocker" else severity[entry.severity],
            code="cuda_dependency",
            because=f"{entry.file}:{entry.line}: {entry.text}: {entry.because}" + (" (guarded)" if entry.guarded else ""),
            next=entry.replacement(path),
        )
        for entry in scan.found
    ]


def _jsonable(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        extra = {"headroom": value.headroom, "used_bytes": value.used_bytes} if isinstance(value, memory.Fit) else {}
        return {entry.name: _jsonable(getattr(value, entry.name)) for entry in dataclasses.fields(value)} | extra
    if isinstance(value, Mapping):
        return {str(key): _jsonable(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [_jsonable(entry) for entry in value]
    return value
