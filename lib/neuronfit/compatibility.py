"""Step 2: do framework, operators and versions allow it, for how long, and does it fit in memory?

What can be known without the Neuron compiler is known here, and nothing beyond it is claimed. The
strongest positive statement is `no documented blocker found`: only neuronx-cc can say more.
"""

from __future__ import annotations

import re
from typing import Optional

from neuronfit import memory, model, system
from neuronfit.catalog import instances, operators, paths, traps
from neuronfit.check import ModuleCheck, check_config_on, usual_target
from neuronfit.errors import BadParams
from neuronfit.examine import findings_of, known_traps
from neuronfit.params import Target
from neuronfit.provenance import Estimated, Grade, Quantity, absent
from neuronfit.question import Question
from neuronfit.recipe import Recipe, recipe
from neuronfit.record import Compatibility, CompatibilityOfTarget, Finding, OperatorUse, Severity, SmallestFit
from neuronfit.units import metric

__all__ = ["check"]

RULES_OF_PATH = {
    "neuron_xla": "neuron_xla",
    "nxd_inference": "neuron_xla",
    "neuron_native": "neuron_native",
    "vllm_neuron": "neuron_native",
    "torch_neuron": "torch_neuron",
}
"""Software path -> the operator rules that hold on it."""

OWN_MODELS = ("nxd_inference", "vllm_neuron")
"""Paths that bring model code of their own: what the graph of transformers' code has against it need not hold there."""

UNCONDITIONAL = (None, "always")
"""Values of a documented restriction's ``when`` that need no look at the arguments."""


def check(question: Question) -> Compatibility:
    """Check every target's software path, known traps and memory, and the operators of the exported graph."""
    first, checks = _looked_at(question)
    anatomy = memory.describe(question.config, question.published_as)
    parts = _largest_shape(question, anatomy)
    need = _memory_needed(question, anatomy, parts)
    rows = tuple(_of_target(question, target, need, anatomy, parts) for target in question.targets)
    about_model = [*_checked_findings(question, checks), *(_not_looked_at(first) if checks else ()), *_remarks(anatomy)]
    findings = [*about_model, *(finding for row in rows for finding in row.findings)]
    record = Compatibility(
        workload=question.ref,
        source=Estimated(
            formula="exported graph and software path against documented status",
            inputs={"operators": "published", "software paths": "published", "memory": "estimated"},
        ),
        findings=tuple(findings),
        bottom_line=_bottom_line(question, rows, findings, first, anatomy),
        targets=rows,
        graph_how=f"{first.how}, torch {first.torch_version}",
        operators=_operators(first, tuple(checks.values()), _generations(question)),
        smallest=_smallest(anatomy, parts),
    )
    return question.dossier.admit(record)


def _largest_shape(question: Question, anatomy: memory.Anatomy) -> memory.MemoryParts:
    """Memory of the declared shape that needs most."""
    workload = question.params.workload
    return max(
        (
            memory.needed(anatomy, shape.batch_size, shape.sequence_length, workload.precision, output_length=shape.output_length or 0)
            for shape in workload.shapes
        ),
        key=lambda need: need.total_bytes,
    )


def _smallest(anatomy: memory.Anatomy, parts: memory.MemoryParts) -> tuple[SmallestFit, ...]:
    """The smallest Inferentia or Trainium instance, and the smallest GPU instance, that hold the largest shape."""
    found = {
        "aws_neuron": memory.smallest(anatomy, parts, generations=("inf2", "trn1", "trn2")),
        "nvidia": memory.smallest(anatomy, parts, generations=(None,)),
    }
    return tuple(_smallest_fit(vendor, fit) for vendor, fit in found.items() if fit is not None)


def _smallest_fit(vendor: str, fit: memory.Fit) -> SmallestFit:
    def estimated(value: float, unit: str) -> Quantity:
        return Quantity(value=value, unit=unit, grade=Grade.ESTIMATED)

    return SmallestFit(
        vendor=vendor,
        instance_type=fit.instance_type,
        tp_degree=fit.tp_degree,
        copies=fit.copies,
        used=estimated(fit.used_bytes, "bytes"),
        room=Quantity(value=fit.rank_bytes, unit="bytes", grade=Grade.PUBLISHED),
        headroom=estimated(fit.headroom, "fraction"),
        remarks=fit.padding,
    )


def _looked_at(question: Question) -> tuple[ModuleCheck, dict[str, ModuleCheck]]:
    """What is documented against the graph of the first shape, for each Neuron candidate; and one of them for its operators."""
    wanted = {
        target.name: usual_target(machine.generation, RULES_OF_PATH[target.path])
        for target in question.params.candidates
        if (machine := instances.find(target.instance_type)).generation
        and target.path in RULES_OF_PATH
        and paths.find(target.path, target.instance_type).supported is not False
    }
    targets = tuple(dict.fromkeys(wanted.values())) or (usual_target("inf2"),)
    found = check_config_on(question.config, question.params.workload.model.task, question.params.workload.shapes[0], targets)
    by_target = dict(zip(targets, found))
    return found[0], {name: by_target[target] for name, target in wanted.items()}


def _checked_findings(question: Question, checks: dict[str, ModuleCheck]) -> list[Finding]:
    """Operator findings of all candidates; one that concerns every candidate names none."""
    of: dict[Finding, list[str]] = {}
    for name, found in checks.items():
        for finding in findings_of(found):
            of.setdefault(_on_path(finding, question.target(name).path), []).append(name)
    return [
        finding.model_copy(update={"target": None if len(names) == len(checks) else name})
        for finding, names in of.items()
        for name in (names if len(names) < len(checks) else names[:1])
    ]


def _on_path(finding: Finding, path: str) -> Finding:
    """A blocker in transformers' code is a question, not a blocker, where the path brings model code of its own."""
    if path not in OWN_MODELS or finding.severity is not Severity.BLOCKER:
        return finding
    title = "NxD Inference" if path == "nxd_inference" else "vLLM Neuron"
    because = f"{finding.because}; this is transformers' code, and {title} runs model code of its own, which was not looked at"
    return finding.model_copy(update={"severity": Severity.WARNING, "because": because})


def _not_looked_at(first: ModuleCheck) -> list[Finding]:
    """Where operators could not be looked at, silence about them is no answer."""
    if first.looked:
        return []
    because = f"not every operator of the model could be looked at ({first.how}): {first.error or 'no reason was given'}"
    return [
        Finding(severity=Severity.WAITING, code="operators_not_seen", because=because, next="compile it: step 3 on a host with the Neuron compiler")
    ]


def _remarks(anatomy: memory.Anatomy) -> list[Finding]:
    """What the config itself gives away: sizes that contradict each other, parts, caches, formats."""
    return [Finding(severity=Severity(remark.severity), code=remark.code, because=remark.because) for remark in anatomy.remarks]


def _memory_needed(question: Question, anatomy: memory.Anatomy, parts: memory.MemoryParts) -> Quantity:
    """Bytes for weights and activations of the largest declared shape, one copy of the model."""
    workload = question.params.workload
    try:
        needs = [
            model.memory_needed(
                question.config, workload.model.task, shape.batch_size, shape.sequence_length, workload.precision, shape.output_length
            ).total_bytes
            for shape in workload.shapes
        ]
    except BadParams:  # no transformer of one width: what is counted for it still holds
        return Quantity(value=parts.total_bytes, unit="bytes", grade=Grade.ESTIMATED, why="weights exactly; activations are not in it")
    return Quantity(value=max(needs), unit="bytes", grade=Grade.ESTIMATED, why="weights exactly, activations as an upper estimate")


def _of_target(question: Question, target: Target, need: Quantity, anatomy: memory.Anatomy, parts: memory.MemoryParts) -> CompatibilityOfTarget:
    machine = instances.find(target.instance_type)
    path = paths.find(target.path, target.instance_type)
    best = memory.best(anatomy, parts, target.instance_type) if machine.accelerator_memory_bytes else None
    typed = recipe(question, target, best, anatomy) if path.supported else Recipe(None, target.instance_type, (path.advice,))
    if machine.accelerator_memory_bytes:
        room = Quantity(value=machine.accelerator_memory_bytes, unit="bytes", grade=Grade.PUBLISHED, why=f"{machine.source}, {machine.as_of}")
        fits: Optional[bool] = need.value <= room.value
    elif target.instance_type == instances.THIS_HOST and (memory_here := system.probe().memory_bytes):
        room = Quantity(value=memory_here, unit="bytes", grade=Grade.MEASURED, why="memory of this host, which its CPU computes in")
        fits = need.value <= room.value
    else:
        room, fits = absent("bytes", f"the catalogue has no accelerator memory for {target.instance_type}"), None
    findings = _traps(question, target, path, anatomy) if path.supported else []
    if path.supported is False:
        findings.append(
            Finding(
                severity=Severity.BLOCKER,
                code="path_unsupported",
                because=f"{path.title} on {target.instance_type}: {path.status}",
                next=path.advice,
                target=target.name,
            )
        )
    elif path.until and path.path.startswith(("neuron", "nxd", "vllm", "torch_neuron")):
        findings.append(
            Finding(
                severity=Severity.NOTE,
                code="path_horizon",
                because=f"{path.title}: {path.status}; {_horizon(path.until)}",
                next=path.advice,
                target=target.name,
            )
        )
    if fits is False:
        text = metric("memory_bytes").text
        findings.append(
            Finding(
                severity=Severity.BLOCKER,
                code="does_not_fit",
                because=f"needs {text(need.value)}, {target.instance_type} has {text(room.value)}",
                next="take a larger instance, a smaller batch or a narrower precision",
                target=target.name,
            )
        )
    elif fits and machine.accelerator_memory_bytes_each and need.value > machine.accelerator_memory_bytes_each:
        findings.append(
            Finding(
                severity=Severity.WARNING,
                code="needs_splitting",
                because=f"needs {metric('memory_bytes').text(need.value)}, one accelerator has {metric('memory_bytes').text(machine.accelerator_memory_bytes_each)}",
                next="serve it with tensor parallelism",
                target=target.name,
            )
        )
    return CompatibilityOfTarget(
        target=target.name,
        instance_type=target.instance_type,
        path=target.path,
        supported=path.supported,
        title=path.title,
        sdk=path.sdk,
        torch=path.torch,
        python=", ".join(path.python) or None,
        status=path.status,
        until=path.until,
        as_of=path.as_of,
        advice=path.advice,
        command=typed.command,
        command_host=typed.host,
        command_notes=typed.notes,
        tp_degree=best.tp_degree if best else None,
        transformers=path.transformers,
        transformers_source=path.transformers_source,
        packages=dict(path.packages),
        contradictions=tuple(path.contradictions),
        source=path.source,
        memory_needed=need,
        memory_available=room,
        fits=fits,
        findings=tuple(findings),
    )


def _traps(question: Question, target: Target, path: paths.SoftwarePath, anatomy: memory.Anatomy) -> list[Finding]:
    """Documented traps for this kind of model on this path, and a config that is newer than the libraries there."""
    found = known_traps(path.path, path.generation, anatomy, target.name)
    written = re.match(r"\d+(\.\d+)*", str(question.config.get("transformers_version") or ""))
    limit = traps.newest_allowed(path.transformers) if path.transformers else None
    if written and limit and tuple(int(part) for part in written[0].split(".")) >= limit:
        found.append(
            Finding(
                severity=Severity.WARNING,
                code="transformers_newer_than_path",
                because=f"the config was written by transformers {written[0]}, and {path.title} is documented with {path.transformers}",
                next=f"load the config with such a release before anything is planned: it may not know {anatomy.model_type}",
                target=target.name,
            )
        )
    return found


def _horizon(until: str) -> str:
    return "an end of support is not announced" if until == "not announced" else f"until {until}"


def _generations(question: Question) -> dict[str, str]:
    """Candidate -> its accelerator generation; GPUs have none and no entry."""
    found = {target.name: instances.find(target.instance_type).generation for target in question.params.candidates}
    return {name: generation for name, generation in found.items() if generation}


def _operators(first: ModuleCheck, checks: tuple[ModuleCheck, ...], generations: dict[str, str]) -> tuple[OperatorUse, ...]:
    """Each operator with its most severe documented status on any candidate's generation, and whether a condition is kept here."""
    asked = {finding.operator for check_ in checks for finding in check_.findings if not finding.kept}
    severe = ("unsupported", "restricted", "listed", "no_statement")
    rows = []
    for name, calls in sorted(first.operators.items(), key=lambda entry: (-entry[1], entry[0])):
        statements = [operators.status(name, generation) for generation in generations.values()] or [operators.status(name)]
        known = min(statements, key=lambda entry: severe.index(entry.status))
        condition = f" (only with {known.when})" if known.when not in UNCONDITIONAL else ""
        kept = condition and checks and first.looked and name not in asked
        because = f"this model keeps the condition: {known.because}{condition}" if kept else f"{known.because}{condition}"
        rows.append(OperatorUse(name=name, calls=calls, status=known.status, because=because))
    return tuple(rows)


NOT_NAMED = ("encoder_decoder_not_served", "not_a_decoder", "model_not_listed", "model_not_in_matrix")
"""Traps that say: the path's pages do not name this model, or this kind of model, among those it runs."""


def _not_named(row: CompatibilityOfTarget, anatomy: memory.Anatomy) -> str:
    known = traps.known(row.path, instances.find(row.instance_type).generation, anatomy.model_type, anatomy.kind)
    return ", whose pages do not name this kind of model" if any(trap.code in NOT_NAMED for trap in known) else ""


def _bottom_line(
    question: Question, rows: tuple[CompatibilityOfTarget, ...], findings: list[Finding], first: ModuleCheck, anatomy: memory.Anatomy
) -> str:
    blockers = [finding for finding in findings if finding.severity is Severity.BLOCKER]
    candidates = [row for row in rows if row.target != question.params.baseline.name]
    horizons = "; ".join(
        f"{row.target}: {row.title}{_not_named(row, anatomy)}, {f'SDK {row.sdk}' if row.sdk else 'no SDK'}, {row.status}"
        for row in candidates
        if row.supported
    )
    if blockers:
        return f"{len(blockers)} documented blocker{'s' if len(blockers) > 1 else ''}: {blockers[0].because}." + (f" {horizons}." if horizons else "")
    seen = "" if first.looked else " Not every operator could be looked at."
    return f"No documented blocker found.{seen} {horizons}."
