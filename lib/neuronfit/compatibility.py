"""Step 2: do framework, operators and versions allow it, for how long, and does it fit in memory?

What can be known without the Neuron compiler is known here, and nothing beyond it is claimed. The
strongest positive statement is `no documented blocker found`: only neuronx-cc can say more.
"""

from __future__ import annotations

from typing import Optional

from neuronfit import memory, model
from neuronfit.catalog import instances, operators, paths
from neuronfit.check import ModuleCheck, check_config_on, usual_target
from neuronfit.examine import findings_of
from neuronfit.params import Target
from neuronfit.provenance import Estimated, Grade, Quantity, absent
from neuronfit.question import Question
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

UNCONDITIONAL = (None, "always")
"""Values of a documented restriction's ``when`` that need no look at the arguments."""


def check(question: Question) -> Compatibility:
    """Check every target's software path and memory, and the operators of the exported graph."""
    graph, checks = _looked_at(question)
    generations = _generations(question)
    used = _operators(graph.exported, generations)
    need = _memory_needed(question)
    rows = tuple(_of_target(target, need) for target in question.targets)
    about_operators = _checked_findings(checks) if checks else [*_operator_findings(used, generations), *_export_findings(graph)]
    findings = [*about_operators, *(finding for row in rows for finding in row.findings)]
    record = Compatibility(
        workload=question.ref,
        source=Estimated(
            formula="exported graph and software path against documented status",
            inputs={"operators": "published", "software paths": "published", "memory": "estimated"},
        ),
        findings=tuple(findings),
        bottom_line=_bottom_line(question, rows, findings),
        targets=rows,
        graph_how=f"{graph.how}, torch {graph.torch_version}",
        operators=used,
        smallest=_smallest(question),
    )
    return question.dossier.admit(record)


def _smallest(question: Question) -> tuple[SmallestFit, ...]:
    """The smallest Inferentia or Trainium instance, and the smallest GPU instance, that hold the largest shape."""
    workload = question.params.workload
    anatomy = memory.describe(question.config, question.published_as)
    parts = max(
        (
            memory.needed(anatomy, shape.batch_size, shape.sequence_length, workload.precision, output_length=shape.output_length or 0)
            for shape in workload.shapes
        ),
        key=lambda need: need.weights_bytes + need.cache_bytes + need.activations_bytes,
    )
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


def _looked_at(question: Question) -> tuple[model.Graph, dict[str, ModuleCheck]]:
    """The exported graph of the first shape, and what is documented against it for each Neuron candidate."""
    wanted = {
        target.name: usual_target(machine.generation, RULES_OF_PATH[target.path])
        for target in question.params.candidates
        if (machine := instances.find(target.instance_type)).generation
        and target.path in RULES_OF_PATH
        and paths.find(target.path, target.instance_type).supported is not False
    }
    targets = tuple(dict.fromkeys(wanted.values())) or (usual_target("inf2"),)
    found = check_config_on(question.config, question.params.workload.model.task, question.params.workload.shapes[0], targets)
    first, by_target = found[0], dict(zip(targets, found))
    graph = model.Graph(exported=first.operators, decomposed={}, how=first.how, torch_version=first.torch_version, error=first.error)
    return graph, {name: by_target[target] for name, target in wanted.items()}


def _checked_findings(checks: dict[str, ModuleCheck]) -> list[Finding]:
    """Operator findings of all candidates; one that concerns every candidate names none."""
    of: dict[Finding, list[str]] = {}
    for name, found in checks.items():
        for finding in findings_of(found):
            of.setdefault(finding, []).append(name)
    return [
        finding.model_copy(update={"target": None if len(names) == len(checks) else name})
        for finding, names in of.items()
        for name in (names if len(names) < len(checks) else names[:1])
    ]


def _memory_needed(question: Question) -> Quantity:
    """Bytes for weights and activations of the largest declared shape, one copy of the model."""
    workload = question.params.workload
    needs = [
        model.memory_needed(
            question.config, workload.model.task, shape.batch_size, shape.sequence_length, workload.precision, shape.output_length
        ).total_bytes
        for shape in workload.shapes
    ]
    return Quantity(value=max(needs), unit="bytes", grade=Grade.ESTIMATED, why="weights exactly, activations as an upper estimate")


def _of_target(target: Target, need: Quantity) -> CompatibilityOfTarget:
    machine = instances.find(target.instance_type)
    path = paths.find(target.path, target.instance_type)
    if machine.accelerator_memory_bytes:
        room = Quantity(value=machine.accelerator_memory_bytes, unit="bytes", grade=Grade.PUBLISHED, why=f"{machine.source}, {machine.as_of}")
        fits: Optional[bool] = need.value <= room.value
    else:
        room, fits = absent("bytes", f"the catalogue has no accelerator memory for {target.instance_type}"), None
    findings = []
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
        command=path.compile_command,
        packages=dict(path.packages),
        contradictions=tuple(path.contradictions),
        source=path.source,
        memory_needed=need,
        memory_available=room,
        fits=fits,
        findings=tuple(findings),
    )


def _horizon(until: str) -> str:
    return "an end of support is not announced" if until == "not announced" else f"until {until}"


def _generations(question: Question) -> dict[str, str]:
    """Candidate -> its accelerator generation; GPUs have none and no entry."""
    found = {target.name: instances.find(target.instance_type).generation for target in question.params.candidates}
    return {name: generation for name, generation in found.items() if generation}


def _operators(counts: dict[str, int], generations: dict[str, str]) -> tuple[OperatorUse, ...]:
    """Each operator with its most severe documented status on any candidate's generation."""
    severe = ("unsupported", "restricted", "listed", "no_statement")
    rows = []
    for name, calls in sorted(counts.items(), key=lambda entry: (-entry[1], entry[0])):
        statements = [operators.status(name, generation) for generation in generations.values()] or [operators.status(name)]
        known = min(statements, key=lambda entry: severe.index(entry.status))
        condition = f" (only with {known.when})" if known.when not in UNCONDITIONAL else ""
        rows.append(OperatorUse(name=name, calls=calls, status=known.status, because=f"{known.because}{condition}"))
    return tuple(rows)


def _operator_findings(used: tuple[OperatorUse, ...], generations: dict[str, str]) -> list[Finding]:
    """Unsupported operators are blockers, about the model where every candidate's generation is affected
    and about the affected candidates elsewhere. Restrictions that hang on a condition stay in the table:
    what the operators are called with is not looked at here."""
    found: list[Finding] = []
    for row in used:
        told = {name: operators.status(row.name, generation) for name, generation in generations.items()}
        hit = {name: known for name, known in told.items() if known.status in ("unsupported", "restricted") and known.when in UNCONDITIONAL}
        everywhere = len(hit) == len(generations) and len(set(hit.values())) == 1
        for name in [None] if everywhere else hit:
            known = next(iter(hit.values())) if name is None else hit[name]
            found.append(
                Finding(
                    severity=Severity.BLOCKER if known.status == "unsupported" else Severity.WARNING,
                    code=f"operator_{known.status}",
                    because=f"{row.name}, {row.calls} call{'s' if row.calls != 1 else ''}: {known.because}",
                    next=known.rewrite,
                    target=name,
                )
            )
    return found


def _export_findings(graph: model.Graph) -> list[Finding]:
    if not graph.error:
        return []
    return [
        Finding(
            severity=Severity.WARNING,
            code="export_failed",
            because=f"the graph could not be exported ({graph.error}); only the kinds of modules are known",
            next="make the forward pass exportable: static shapes, no data-dependent branches",
        )
    ]


def _bottom_line(question: Question, rows: tuple[CompatibilityOfTarget, ...], findings: list[Finding]) -> str:
    blockers = [finding for finding in findings if finding.severity is Severity.BLOCKER]
    candidates = [row for row in rows if row.target != question.params.baseline.name]
    horizons = "; ".join(
        f"{row.target}: {row.title}, {f'SDK {row.sdk}' if row.sdk else 'no SDK'}, {row.status}" for row in candidates if row.supported
    )
    if blockers:
        return f"{len(blockers)} documented blocker{'s' if len(blockers) > 1 else ''}: {blockers[0].because}." + (f" {horizons}." if horizons else "")
    return f"No documented blocker found. {horizons}."
