"""The dossier as one self-contained HTML file for people, and as ``report.json`` for programs.

Everything here is read from ``records/``: nothing is measured, computed or looked up, so the report
can be rebuilt from the records alone, and the same records give the same bytes. A step that has not
run says so and names the command. The HTML loads nothing from anywhere, runs no script, and puts
every text through autoescaping.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Optional, Union

from neuronfit import show
from neuronfit.decide import deciding
from neuronfit.dossier import Dossier
from neuronfit.errors import BadInput, WaitingForEvidence, nearest
from neuronfit.files import write_whole
from neuronfit.provenance import Imported, Published, Quantity, absent
from neuronfit.record import (
    KINDS,
    STEPS,
    Comparison,
    Compatibility,
    Compile,
    Cost,
    Decision,
    Finding,
    Measurement,
    Monitor,
    Payback,
    Profile,
    Record,
    Severity,
    Trial,
    TrialPlan,
    Utilization,
)
from neuronfit.show import Figure, Note, Table
from neuronfit.show.appendix import used_records
from neuronfit.show.table import plain
from neuronfit.units import metric

__all__ = ["build", "render", "write"]

SCHEMA = "report/1"

QUESTIONS = {
    1: "What are we moving: model, traffic, latency promise, memory, and what stands around the model?",
    2: "Do framework, operators, libraries and versions allow it, and for how long?",
    3: "Does a representative model compile for Neuron, how long does that take, what does the compiler object to?",
    4: "On the same work, how do GPU and Neuron compare: parity, latency, throughput?",
    5: "How busy will the hardware be under this traffic, and how much of it is idle?",
    6: "What does a useful result cost on each, at that utilization, on the same price basis?",
    7: "What does the move cost in people and upkeep, and when is it paid back?",
    8: "With criteria fixed beforehand and rollback ready, does a slice of production agree?",
}

TITLES = {1: "Workload", 2: "Compatibility", 3: "Compile test", 4: "Benchmark", 5: "Utilization", 6: "Cost", 7: "Effort", 8: "Controlled test"}


def build(dossier: Dossier, *, generated_utc: Optional[str] = None) -> dict[str, Any]:
    """The content of ``report.json``: numbers are numbers, each with unit, interval, grade and record.

    ``generated_utc`` defaults to the time of the newest record. Raises
    :class:`~neuronfit.errors.BadInput` when the folder does not exist and
    :class:`~neuronfit.errors.WaitingForEvidence` when step 1 has not run.
    """
    dossier = _ReadOnce(dossier)
    profile = _profile(dossier)
    used = used_records(dossier)
    decision = dossier.latest(Decision)
    return {
        "schema": SCHEMA,
        "generated_utc": generated_utc or max(record.created_utc for record, _ in used),
        "workload": {**profile.workload.model_dump(), "question": _question_line(profile)},
        "decision": _decision(decision),
        "targets": _targets(dossier, profile),
        "steps": [_step(dossier, profile, number) for number in TITLES],
        "provenance": [_provenance(record, path) for record, path in used],
    }


def write(dossier: Dossier, *, generated_utc: Optional[str] = None) -> tuple[Path, Path]:
    """Write ``report.html`` and ``report.json`` beside ``records/`` and return their paths.

    Each is written whole or not at all. Raises what :func:`build` raises, and
    :class:`~neuronfit.errors.NotWritable`.
    """
    dossier = _ReadOnce(dossier)
    content = build(dossier, generated_utc=generated_utc)
    page = render(dossier, generated_utc=generated_utc)
    html_path, json_path = dossier.folder / "report.html", dossier.folder / "report.json"
    write_whole(html_path, page)
    write_whole(json_path, _json(content))
    return html_path, json_path


def render(dossier: Dossier, *, generated_utc: Optional[str] = None) -> str:
    """The report as one HTML page."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    dossier = _ReadOnce(dossier)
    content = build(dossier, generated_utc=generated_utc)
    profile, decision = _profile(dossier), dossier.latest(Decision)
    folder = Path(__file__).parent / "templates"
    environment = Environment(loader=FileSystemLoader(folder), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    anchors = {entry["id"] for entry in content["provenance"]}
    environment.filters["shown"] = lambda thing: _html(thing, anchors)
    environment.filters["text"] = plain
    environment.filters["words"] = lambda name: name.replace("_", " ")
    headline = show.headline_table(dossier)
    evidence = {number: _evidence(dossier, number) for number in TITLES}
    tables = [headline, *(item.thing for items in evidence.values() for item in items)]
    appendix = (show.provenance_table(dossier), show.assumptions_table(profile))
    return environment.get_template("report.html.j2").render(
        report=content,
        title=_title(profile),
        details=_details(profile),
        decision=decision,
        stop=_stop(decision),
        first_open=next((place for place, gate in enumerate(decision.gates if decision else ()) if gate.status != "pass"), -1),
        next_price=_next_price(decision),
        afterwards=_afterwards(decision, profile),
        headline=headline,
        figure=show.cost_against_latency(dossier),
        steps=[_shown_step(step, evidence[step["number"]]) for step in content["steps"]],
        records=appendix[0],
        assumptions=appendix[1],
        definitions=_definitions([*tables, *appendix]),
        grades=show.GRADE_MEANS,
        anchors=anchors,
        counted=f"{len(anchors)} record{'s' if len(anchors) != 1 else ''}",
        run_all=show.step_command(profile.workload.name),
        style=(folder / "report.css").read_text(encoding="utf-8"),
    )


class _ReadOnce(Dossier):
    """The dossier as it is now, each file read and checked once: a report asks for the same records often."""

    def __init__(self, dossier: Dossier):
        super().__init__(dossier.folder)
        same = isinstance(dossier, _ReadOnce)
        self._files: list[Path] = dossier._files if same else dossier.files()
        self._read_already: dict[Path, Record] = dossier._read_already if same else {}

    def files(self) -> list[Path]:
        return self._files

    def _read(self, path: Path) -> Record:
        if path not in self._read_already:
            self._read_already[path] = super()._read(path)
        return self._read_already[path]


# -- what is there ----------------------------------------------------------------------------


def _profile(dossier: Dossier) -> Profile:
    """The newest workload profile, without which there is no question to report on."""
    name = dossier.folder.name
    if dossier.folder.suffix in (".yaml", ".yml"):
        raise BadInput(
            "a report is made from a dossier, this is a params file",
            str(dossier.folder),
            allowed="a folder",
            next=f"neuronfit report reports/{dossier.folder.stem}",
        )
    if not dossier.folder.is_dir():
        parent = dossier.folder.parent
        beside = [entry.name for entry in sorted(parent.iterdir()) if entry.is_dir()] if parent.is_dir() else []
        near = nearest(name, beside) or beside[:3]
        raise BadInput("no such dossier", str(dossier.folder), allowed=", ".join(near) or None, next=show.step_command(name))
    profile = dossier.latest(Profile)
    if profile is None:
        raise WaitingForEvidence("the dossier has no workload profile yet", str(dossier.folder), next=show.step_command(name, 1))
    return profile


def _step(dossier: Dossier, profile: Profile, number: int) -> dict[str, Any]:
    record: Any = dossier.latest(KINDS[STEPS[number][1]])
    findings = list(record.findings) if record else []
    if number == 4:
        findings += _about_figures(dossier, findings)
    command = show.step_command(profile.workload.name, number)
    waits = any(finding.severity is Severity.WAITING for finding in findings)
    return {
        "step": number,
        "number": number,
        "name": STEPS[number][0],
        "status": "missing" if record is None else "waiting" if waits else "done",
        "bottom_line": record.bottom_line if record else "Not run yet.",
        "findings": [finding.model_dump(mode="json") for finding in _worst_first(findings)],
        "record": record.id if record else None,
        "command": command,
    }


def _about_figures(dossier: Dossier, known: Iterable[Finding]) -> list[Finding]:
    """Blockers and warnings of single figures that step 4 does not repeat."""
    said = {(finding.code, finding.because) for finding in known}
    serious = (Severity.BLOCKER, Severity.WARNING)
    return [
        finding
        for entry in (*dossier.parities(), *dossier.measurements())
        for finding in entry.findings
        if finding.severity in serious and (finding.code, finding.because) not in said
    ]


def _worst_first(findings: Iterable[Finding]) -> list[Finding]:
    return sorted(findings, key=lambda finding: list(Severity).index(finding.severity))


def _decision(decision: Optional[Decision]) -> dict[str, Any]:
    if decision is None:
        return {
            "verdict": None,
            "headline": None,
            "sentence": "Not decided yet.",
            "candidate": None,
            "reasons": [],
            "weakest_grade": None,
            "gates": [],
            "next_measurement": None,
            "findings": [],
            "record": None,
        }
    body = decision.model_dump(mode="json")
    kept = ("verdict", "headline", "sentence", "candidate", "reasons", "weakest_grade", "gates", "next_measurement", "findings")
    return {**{name: body[name] for name in kept}, "record": decision.id}


def _targets(dossier: Dossier, profile: Profile) -> list[dict[str, Any]]:
    comparison, load, cost = dossier.latest(Comparison), dossier.latest(Utilization), dossier.latest(Cost)
    figures = {entry.id: entry for entry in dossier.measurements()}
    asked = [profile.question["baseline"], *profile.question["candidates"]]
    rows = []
    for place, target in enumerate(asked):
        name = target["name"]
        figure = figures.get(comparison.headline.get(name, "")) if comparison else None
        rows.append(
            {
                "name": name,
                "role": "candidate" if place else "baseline",
                "instance_type": target.get("instance_type"),
                "path": target.get("path"),
                **_speed(figure),
                **_busy(load, name),
                "cost_per_million": _costs(cost, name),
                "verdict": next((pair.verdict for pair in comparison.pairs if pair.candidate == name), None) if comparison else None,
            }
        )
    cpu = figures.get(comparison.headline.get("cpu", "")) if comparison else None
    if cpu is not None:
        rows.append({"name": "cpu", "role": "reference", "instance_type": cpu.instance_type, "path": "cpu", **_speed(cpu)})
    return rows


def _speed(figure: Optional[Measurement]) -> dict[str, Any]:
    def read(name: str) -> dict[str, Any]:
        if figure is None:
            return _number(absent(metric(name).unit, "step 4 has no figure for this target"))
        return _number(figure.quantity(name), figure)

    return {
        "throughput": read("throughput_per_s"),
        "latency": {"mean": read("latency_mean_s"), "p50": read("latency_p50_s"), "p99": read("latency_p99_s")},
        "batch_size": figure.settings.batch_size if figure else None,
    }


def _p99_bound(profile: Optional[Profile]) -> Optional[float]:
    """The bound on p99 latency, ms."""
    return (profile.question.get("objective") or {}).get("latency_p99_ms") if profile else None


def _busy(load: Optional[Utilization], name: str) -> dict[str, Any]:
    row = next((row for row in load.targets if row.target == name), None) if load else None
    if row is None:
        nothing = _number(absent("fraction", "step 5 has no load for this target"))
        return {"utilization": {"mean": nothing, "peak": nothing}, "instances": _number(absent("instances", "step 5 has no load for this target"))}
    return {"utilization": {"mean": _number(row.busy_mean, load), "peak": _number(row.busy_peak, load)}, "instances": _number(row.instances, load)}


def _costs(cost: Optional[Cost], name: str) -> dict[str, Any]:
    row = next((row for row in cost.targets if row.target == name), None) if cost else None
    if cost is None or row is None:
        return {}
    bases: dict[str, Any] = {
        cost.purchase_option: {"region": cost.region, "full_load": _number(row.full_load, cost), "at_your_traffic": _number(row.expected, cost)}
    }
    for option, amount in row.other_bases.items():
        if option != cost.purchase_option:
            bases[option] = {"region": cost.region, "full_load": _number(amount, cost)}
    return bases


def _number(quantity: Quantity, record: Optional[Record] = None) -> dict[str, Any]:
    """A quantity as JSON; where it names no record of its own, the one it was read from."""
    body = quantity.model_dump(mode="json")
    if body["record"] is None and record is not None and quantity.known:
        body["record"] = record.id
    return body


def _provenance(record: Record, path: str) -> dict[str, Any]:
    source = record.source
    return {
        "id": record.id,
        "kind": record.kind,
        "target": record.target if isinstance(record, Measurement) else None,
        "grade": str(record.grade),
        "source": show.source_text(source),
        "date": source.date if isinstance(source, Published) else None,
        "source_sha256": source.sha256 if isinstance(source, Imported) else None,
        "created_utc": record.created_utc,
        "file": f"records/{path}",
    }


def _json(content: Mapping[str, Any]) -> str:
    return json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


# -- what is shown ----------------------------------------------------------------------------


@dataclass(frozen=True)
class _Item:
    """One piece of a step's evidence; ``fold`` is the summary it hides behind, if it does."""

    thing: Union[Table, Figure, show.Listing, Note]
    fold: str = ""


def _evidence(dossier: Dossier, number: int) -> list[_Item]:
    """Tables and figures of one step. What is not there yet is left out: the step says so itself."""
    return [item for item in _EVIDENCE[number](dossier) if not isinstance(item.thing, Note)]


def _shown_step(step: Mapping[str, Any], evidence: list[_Item]) -> dict[str, Any]:
    """A step for the template: its figures side by side, then everything else in order."""
    figures = [item for item in evidence if isinstance(item.thing, Figure) and not item.fold]
    return {
        **step,
        "title": TITLES[step["number"]],
        "question": QUESTIONS[step["number"]],
        "tables": [item.thing for item in evidence if isinstance(item.thing, Table)],
        "figures": figures,
        "rest": [item for item in evidence if item not in figures],
    }


def _plans(dossier: Dossier) -> list[Optional[TrialPlan]]:
    """The present plan; and, where the test was run under another one, that one too, so that both can be read."""
    present, trial = dossier.latest(TrialPlan), dossier.latest(Trial)
    if trial is None or present is None or trial.plan == present.id:
        return [present]
    earlier = next((entry for entry in dossier if isinstance(entry, TrialPlan) and entry.id == trial.plan), None)
    return [present, *([earlier] if earlier else [])]


def _of_benchmark(dossier: Dossier) -> list[_Item]:
    comparison, figures = dossier.latest(Comparison), dossier.measurements()
    measured = [entry for entry in figures if entry.runs]
    items = []
    for entry in dossier.parities():
        items += [_Item(show.parity_table(entry)), _Item(show.parity_sides_table(entry), "What the outputs were computed with")]
    items += [
        _Item(show.pairs_table(comparison)),
        _Item(show.batch_latency_curves(figures, _asked_order(dossier))),
        _Item(show.differences_table(comparison), "Settings that differ" if comparison and comparison.pairs else ""),
        _Item(show.measurements_table(figures), f"All figures in the dossier ({len(figures)})"),
        *([_Item(show.protocol_table(measured), "How it was measured")] if any(entry.taken for entry in measured) else []),
    ]
    for entry in _one_for_each_target(measured):
        items += [_Item(show.settling(entry), f"Single calls of {entry.target}"), _Item(show.runs_table(entry), f"Runs of {entry.target}")]
    return items


def _of_workload(dossier: Dossier) -> list[_Item]:
    """Situations, size, request, and the recorded traffic where there is some."""
    profile = dossier.latest(Profile)
    items = [_Item(show.situations_table(profile)), _Item(show.weights_table(profile)), _Item(show.request_table(profile))]
    if profile is not None and profile.trace is not None:
        items += [_Item(show.trace_table(profile), "Recorded traffic"), _Item(show.week_load(profile)), _Item(show.length_distribution(profile))]
    return items


def _of_compile(dossier: Dossier) -> list[_Item]:
    """What compiled, shape by shape, and how many shapes the traffic needs."""
    compiled = dossier.latest(Compile)
    if compiled is None:
        return [_Item(show.compile_table(None))]
    items = [_Item(show.compile_table(compiled))]
    if any(entry.buckets for entry in compiled.targets):
        items.append(_Item(show.buckets_table(compiled), "Shape by shape"))
    if any(entry.analysis for entry in compiled.targets):
        items.append(_Item(show.analysis_table(compiled), "Operators one by one"))
    if compiled.advice and compiled.advice.choices:
        items.append(_Item(show.padding_curve(compiled.advice)))
    return items


def _one_for_each_target(measured: list[Measurement]) -> list[Measurement]:
    """The newest measurement with runs of each target."""
    return list({entry.target: entry for entry in measured}.values())


def _of_monitors(seen: list[Monitor], modelled: Optional[Utilization]) -> list[_Item]:
    """What monitors saw, where there is any, beside what is modelled."""
    if not seen:
        return []
    return [_Item(show.busyness_table(modelled)), _Item(show.monitor_bars(seen)), _Item(show.monitor_table(seen), "Busyness that was observed")]


_EVIDENCE = {
    1: _of_workload,
    2: lambda dossier: [
        _Item(show.paths_table(dossier.latest(Compatibility))),
        _Item(show.fit_table(dossier.latest(Compatibility))),
        _Item(show.commands(dossier.latest(Compatibility)), "What to type for this workload"),
        _Item(
            show.memory_table(dossier.latest(Compatibility), dossier.latest(Compile), dossier.measurements()),
            "The memory estimate beside measurements",
        ),
        _Item(show.software_table(dossier.latest(Compatibility)), "Versions and contradictions"),
        _Item(show.operators_table(dossier.latest(Compatibility)), "Operators of the graph"),
    ],
    3: _of_compile,
    4: _of_benchmark,
    5: lambda dossier: [
        _Item(show.week_of_demand(dossier.latest(Utilization))),
        _Item(show.options_bars(dossier.latest(Utilization))),
        _Item(show.latency_under_load(dossier.latest(Utilization), _p99_bound(dossier.latest(Profile)))),
        _Item(show.scaling_table(dossier.latest(Utilization))),
        _Item(show.sizes_table(dossier.latest(Utilization)), "Smaller, or shared"),
        _Item(show.break_even_curve(dossier.latest(Utilization)), "Break-even by load"),
        _Item(show.busy_bars(dossier.latest(Utilization))),
        _Item(show.hourly_load(dossier.latest(Profile), dossier.latest(Utilization))),
        _Item(show.utilization_table(dossier.latest(Utilization))),
        *_of_monitors(dossier.monitors(), dossier.latest(Utilization)),
    ],
    6: lambda dossier: [
        _Item(show.cost_bars(dossier.latest(Cost))),
        _Item(show.cost_table(dossier.latest(Cost))),
        *([_Item(show.training_table(dossier.latest(Cost)), "One training run")] if _trains(dossier) else []),
        _Item(show.cheaper_bars(dossier.latest(Cost))),
        _Item(show.doubt_table(dossier.latest(Cost)), "How sure is it?"),
        _Item(show.cost_tornado(dossier.latest(Cost))),
        _Item(show.units_table(dossier.latest(Cost)), "By what is counted"),
        _Item(show.bases_table(dossier.latest(Cost)), "Other purchase options"),
        _Item(show.deployments_table(dossier), "Where it runs"),
        _Item(show.claims_table(dossier), "Claims in circulation"),
        *([_Item(table, "Lower cost to train, recomputed")] if (table := show.recomputed_table(dossier)) else []),
    ],
    7: lambda dossier: [
        _Item(show.payback_curve(dossier.latest(Payback))),
        _Item(show.payback_table(dossier.latest(Payback))),
        _Item(show.paid_back_by(dossier.latest(Payback)), "When it is paid back"),
        *(_Item(show.tasks_table(dossier.latest(Payback), row.target), f"Work: {row.target}") for row in _paid(dossier)),
    ],
    8: lambda dossier: [
        _Item(show.trial_table(dossier.latest(Trial))),
        _Item(show.trial_figure(dossier), "Look by look"),
        _Item(show.monday_table(dossier, _params_file(dossier)), "On Monday morning"),
        _Item(show.stages_table(dossier.latest(TrialPlan)), "Stages"),
        *(_Item(show.plan_table(one)) for one in _plans(dossier)),
    ],
}


def _params_file(dossier: Dossier) -> str:
    """What stands in a command: the params file by its usual place, as in every other command of the page."""
    profile = dossier.latest(Profile)
    return f"params/{profile.workload.name}.yaml" if profile else "PARAMS"


def _asked_order(dossier: Dossier) -> list[str]:
    """Targets as asked, the baseline first."""
    profile = dossier.latest(Profile)
    return [target["name"] for target in (profile.question["baseline"], *profile.question["candidates"])] if profile else []


def _trains(dossier: Dossier) -> bool:
    cost = dossier.latest(Cost)
    return cost is not None and any(row.training is not None for row in cost.targets)


def _paid(dossier: Dossier) -> Sequence[Any]:
    payback = dossier.latest(Payback)
    return payback.targets if payback is not None else ()


def _html(thing: Union[Table, Figure, Note], anchors: set[str]) -> Any:
    """A table in a box of its own that scrolls, a figure with its caption, or a note."""
    from markupsafe import Markup, escape

    if isinstance(thing, Table):
        footnote = f'<p class="footnote">{escape(thing.footnote)}</p>' if thing.footnote else ""
        label = escape(thing.caption)
        return Markup(f'<div class="scroll" role="region" tabindex="0" aria-label="{label}">{thing.html(anchors)}</div>{footnote}')
    if isinstance(thing, Figure):
        # the drawing carries its own text alternative (role and label)
        return Markup(f'<figure id="figure-{thing.name}">{thing.svg}<figcaption>{escape(thing.caption)}</figcaption></figure>')
    return Markup(thing.html())


def _definitions(things: Iterable[Any]) -> list[Table]:
    """Every table whose columns the appendix defines, once."""
    found = {thing.caption: thing for thing in things if isinstance(thing, Table)}
    return list(found.values())


def _stop(decision: Optional[Decision]) -> int:
    """Index of the gate that the verdict follows from, which is where the sentence says that it stops."""
    gates = decision.gates if decision else ()
    gate = deciding(gates) if gates else None
    return next((place for place, one in enumerate(gates) if gate is not None and one.name == gate.name), len(gates))


def _afterwards(decision: Optional[Decision], profile: Profile) -> list[str]:
    """Commands that bring the next measurement back into the report, where it is taken elsewhere."""
    step = decision.next_measurement if decision else None
    if step is None or step.host == "this host" or not step.command.startswith("neuronfit measure "):
        return []
    return [f"neuronfit adopt FILE --for {step.target}", f"{show.step_command(profile.workload.name)} --steps 4-8"]


def _next_price(decision: Optional[Decision]) -> Any:
    """Duration and price of the next measurement, as far as they are known."""
    step = decision.next_measurement if decision else None
    if step is None:
        return None
    parts = [f"about {step.minutes:,.0f} minutes"] if step.minutes is not None else []
    usd = show.Piece.of(step.usd, "usd") if step.usd is not None and step.usd.known else None
    return {"time": ", ".join(parts), "usd": usd}


def _title(profile: Profile) -> str:
    question = profile.question
    candidates = list(dict.fromkeys(target.get("instance_type", target["name"]) for target in question["candidates"]))
    today = question["baseline"].get("instance_type", "its GPU")
    if today in candidates:  # one type on two paths, or in two precisions
        today, candidates = question["baseline"]["name"], [target["name"] for target in question["candidates"]]
    choice = candidates[0] if len(candidates) == 1 else f"{', '.join(candidates[:-1])} or {candidates[-1]}"
    return f"Should {profile.workload.name} move from {today} to {choice}?"


def _details(profile: Profile) -> list[str]:
    """What is asked, in a few short parts: work, shapes, volume, promise."""
    workload, objective = profile.question["workload"], profile.question.get("objective") or {}
    model = workload.get("model") or {}
    parts = [", ".join(str(part) for part in (workload.get("kind"), model.get("task"), workload.get("precision")) if part)]
    shapes = workload.get("shapes") or []
    lengths = sorted({shape["sequence_length"] for shape in shapes})
    batches = sorted({shape["batch_size"] for shape in shapes})
    outputs = sorted({shape["output_length"] for shape in shapes if shape.get("output_length")})
    if shapes:
        text = f"sequence {_and(lengths)}" + (f", output {_and(outputs)}" if outputs else "")
        parts.append(f"{text}, batch {_and(batches)}")
    if profile.monthly_volume.known:
        noun = "tokens" if model.get("task") in ("text-generation", "text2text-generation") else "results"
        parts.append(f"{_large(profile.monthly_volume.value)} {noun} a month")
    rates = [
        f"{word} {metric('rate_per_s').text(rate.value)}" for word, rate in (("mean", profile.rate_mean), ("peak", profile.rate_peak)) if rate.known
    ]
    parts += [", ".join(rates)] if rates else ["no traffic declared"]
    bounds = (
        ("latency_p50_ms", "p50 within {:,g} ms"),
        ("latency_p99_ms", "p99 within {:,g} ms"),
        ("ttft_p99_ms", "first token within {:,g} ms"),
        ("tpot_p99_ms", "each further token within {:,g} ms"),
        ("deadline_h", "done within {:,g} h"),
    )
    promises = [text.format(objective[key]) for key, text in bounds if objective.get(key) is not None]
    parts += [", ".join(promises)] if promises else ["no latency promise declared"]
    return [part for part in parts if part]


def _question_line(profile: Profile) -> str:
    return " · ".join([profile.workload.name, *_details(profile)])


def _and(values: list[int]) -> str:
    texts = [f"{value:,}" for value in values]
    return texts[0] if len(texts) == 1 else f"{', '.join(texts[:-1])} and {texts[-1]}"


def _large(value: float) -> str:
    for size, word in ((1e9, "billion"), (1e6, "million")):
        if value >= size:
            return f"{value / size:,.3g} {word}"
    return f"{value:,.0f}"
