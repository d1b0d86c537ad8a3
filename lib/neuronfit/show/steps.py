"""The tables of the eight steps, one function each: a record in, a table out.

Nothing is computed here. Each function lays out what a record says, defines its columns, and
returns a :class:`~neuronfit.show.table.Note` where the record is not there yet.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import date
from typing import Any, Optional, Union

from neuronfit import stats
from neuronfit.provenance import Quantity
from neuronfit.record import (
    Comparison,
    Compatibility,
    CompatibilityOfTarget,
    Compile,
    Cost,
    Measurement,
    OperatorUse,
    Pair,
    Payback,
    Profile,
    Trial,
    TrialPlan,
    Utilization,
)
from neuronfit.show.headline import VERDICTS
from neuronfit.show.table import Cell, Column, Note, Table, cell, number, plain, rows_of
from neuronfit.show.wording import basis, missing, not_run, one_line, per_million, shape, software, source_text, words
from neuronfit.units import spoken
from neuronfit.workload import request_shortening

__all__ = [
    "analysis_table",
    "bases_table",
    "buckets_table",
    "compile_table",
    "cost_table",
    "differences_table",
    "fit_table",
    "measurements_table",
    "operators_table",
    "pairs_table",
    "paths_table",
    "payback_table",
    "plan_table",
    "request_table",
    "runs_table",
    "situations_table",
    "software_table",
    "trial_table",
    "utilization_table",
    "weights_table",
]


# -- steps 1 to 3 ------------------------------------------------------------------------------


def situations_table(profile: Optional[Profile]) -> Union[Table, Note]:
    """The situations in which a move is worth considering, or is not."""
    if profile is None or not profile.situations:
        return Note("No situations were judged.") if profile else not_run(None, 1)
    answer = {True: ("yes", "good"), False: ("no", ""), None: ("a later step decides", "wait")}
    return Table(
        caption="Which of the eight situations apply",
        columns=(
            Column("situation", "a situation in which a move is worth considering, or is not", words=True),
            Column("applies", "judged from the params file alone", words=True),
            Column("because", "the value and the limit", words=True, wide=True),
            Column("advice", "what follows if it applies", words=True, wide=True),
        ),
        rows=rows_of(
            (cell(entry.name, strong=bool(entry.applies)), cell(answer[entry.applies][0]), cell(entry.because), cell(entry.advice))
            for entry in profile.situations
        ),
        key="situations",
    )


def weights_table(profile: Optional[Profile]) -> Union[Table, Note]:
    """How large the model is in each precision."""
    if profile is None:
        return not_run(None, 1)
    rows = [(cell(precision), cell((size, "weights_bytes"))) for precision, size in profile.weights.items()]
    if profile.memory is not None:
        rows.append((cell("weights and activations, largest shape"), cell((profile.memory, "memory_bytes"))))
    return Table(
        caption="Size of the model",
        columns=(
            Column("what", "precision of the weights; the last row adds activations of the largest shape asked for", words=True),
            Column("size", "bytes the accelerator's memory must hold", "GiB"),
        ),
        rows=rows_of(rows),
        footnote=number(profile.parameters, "parameters").replace(" [", " parameters [") + ".",
        record=profile.id,
    )


def request_table(profile: Optional[Profile]) -> Union[Table, Note]:
    """What a request is made of, and what a faster accelerator can do for all of it (Amdahl's law)."""
    if profile is None:
        return not_run(None, 1)
    around = (profile.question.get("workload") or {}).get("surroundings") or ()
    share, bound = profile.model_share, profile.amdahl_bound
    halved = Quantity(value=request_shortening(share.value, 2), unit="fraction", grade=share.grade) if share.known else None
    rows = [(cell(part["name"]), cell((Quantity(value=part["share"], unit="fraction", grade=share.grade), "fraction"))) for part in around]
    rows.append((cell("the model", strong=True), cell((share, "fraction"))))
    rows.append((cell("a request gets shorter by, were the model twice as fast"), cell((halved, "fraction"))))
    return Table(
        caption="What a request is made of",
        columns=(
            Column("part", "what stands around the model is declared in workload.surroundings; it does not get faster", words=True),
            Column("share", "of the request's time", "%"),
        ),
        rows=rows_of(rows),
        footnote=f"Whatever the accelerator, a request gets at most {number(bound, 'ratio')} as fast." if bound.known else f"No bound: {bound.why}.",
        key="request",
        record=profile.id,
    )


def paths_table(compatibility: Optional[Compatibility]) -> Union[Table, Note]:
    """Software path of each target, how long it is supported, and whether the model fits."""
    if compatibility is None:
        return not_run(None, 2)
    answer = {True: ("yes", "good"), False: ("no", "bad"), None: ("nothing documented", "wait")}
    return Table(
        caption="Software paths and memory",
        columns=(
            Column("target", "name in the params file and instance type", words=True),
            Column("path", "the software that would run it", words=True),
            Column("supported", "what the vendor documents for this family and task", words=True),
            Column("versions", "SDK, torch, Python and transformers of the path, as its documents state them", words=True),
            Column("until", "end of support, where a date is documented", words=True),
            Column("needs / has", "memory the model needs, and what the accelerators of one instance have", "GiB"),
            Column("fits", "whether the former is below the latter", words=True),
        ),
        record=compatibility.id,
        rows=rows_of(
            (
                cell(entry.target, note=entry.instance_type, strong=True),
                cell(entry.title, note=entry.status),
                cell(answer[entry.supported][0], tone=answer[entry.supported][1]),
                cell(_versions(entry)),
                cell(entry.until or "no date documented", note=f"as of {entry.as_of}" if entry.as_of else ""),
                cell((entry.memory_needed, "memory_bytes"), (entry.memory_available, "memory_bytes")),
                cell(
                    *{True: ("yes",), False: ("no",), None: ("not known",)}[entry.fits], tone={True: "good", False: "bad", None: "wait"}[entry.fits]
                ),
            )
            for entry in compatibility.targets
        ),
        key="paths",
    )


def software_table(compatibility: Optional[Compatibility]) -> Union[Table, Note]:
    """The versions that one release lists together, traps, and where the vendor's pages disagree."""
    if compatibility is None:
        return not_run(None, 2)
    rows = [entry for entry in compatibility.targets if entry.packages or entry.contradictions]
    if not rows:
        return Note("The catalogue has no pinned versions for these software paths.")
    return Table(
        caption="Software of each path",
        columns=(
            Column("target", "name in the params file, and the path", words=True),
            Column("versions", "packages that one release lists together", words=True),
            Column("advice", "traps and what to pin", words=True, wide=True),
            Column("the pages disagree", "contradictions in the vendor's own documents", words=True, wide=True),
        ),
        rows=rows_of(
            (
                cell(entry.target, note=entry.path, strong=True),
                cell(", ".join(f"{name} {version}" for name, version in entry.packages.items()) or None),
                cell(entry.advice),
                cell(" ".join(entry.contradictions) or "no contradiction was seen"),
            )
            for entry in rows
        ),
        key="software",
        record=compatibility.id,
    )


def _versions(entry: CompatibilityOfTarget) -> str:
    """What a path asks for; on a Neuron path a version that no document states is said to be not stated."""
    stated = {"SDK": entry.sdk, "torch": entry.torch, "Python": entry.python, "transformers": entry.transformers}
    always = ("torch", "Python", "transformers") if entry.sdk else ()
    return ", ".join(f"{what} {version or 'not stated'}" for what, version in stated.items() if version or what in always)


def fit_table(compatibility: Optional[Compatibility]) -> Union[Table, Note]:
    """The smallest instance of each vendor on which the model fits with headroom."""
    if compatibility is None:
        return not_run(None, 2)
    if not compatibility.smallest:
        return Note("No instance of the catalogue holds the model with headroom.")
    return Table(
        caption="Smallest instances that hold the model",
        columns=(
            Column("instance type", "least accelerator memory with at least a tenth of it free", words=True),
            Column("degree", "tensor-parallel degree: NeuronCores or GPUs that share one copy"),
            Column("copies", "copies of the model side by side on the instance"),
            Column("used / room", "memory of one NeuronCore or GPU: weights, cache, activations and reserve, and what it has", "GiB"),
            Column("free", "share of that memory", "%"),
            Column("remarks", "what is padded or copied at this degree", words=True, wide=True),
        ),
        rows=rows_of(
            (
                cell(fit.instance_type, strong=True),
                cell(f"{fit.tp_degree}"),
                cell(f"{fit.copies}"),
                cell((fit.used, "memory_bytes"), (fit.room, "memory_bytes")),
                cell((fit.headroom, "fraction")),
                cell("; ".join(fit.remarks) or "nothing"),
            )
            for fit in compatibility.smallest
        ),
        key="fit",
        record=compatibility.id,
    )


def operators_table(compatibility: Optional[Compatibility]) -> Union[Table, Note]:
    """Operators of the exported graph with their documented status: doubtful ones each, the others together by what is said of them."""
    if compatibility is None:
        return not_run(None, 2)
    if not compatibility.operators:
        return Note(f"No operators were listed: {compatibility.graph_how}.")
    order = ("unsupported", "restricted", "no_statement", "listed")
    tone = {"unsupported": "bad", "restricted": "wait", "no_statement": "", "listed": ""}
    groups: dict[tuple[str, str], list[OperatorUse]] = {}
    for entry in sorted(compatibility.operators, key=lambda entry: (order.index(entry.status), -entry.calls, entry.name)):
        alone = entry.name if entry.status in ("unsupported", "restricted") else ""
        groups.setdefault((entry.status, alone or entry.because), []).append(entry)
    return Table(
        caption="Operators of the graph",
        columns=(
            Column(
                "operators", "names in the exported graph; those of which the same is said share a row, the most called first", words=True, wide=True
            ),
            Column("calls", "how often one forward pass calls them"),
            Column("status", "what the vendor's lists say about it; silence is not support", words=True),
            Column("because", "the list and the entry", words=True, wide=True),
        ),
        rows=rows_of(
            (
                cell(
                    ", ".join(_bare(entry.name) for entry in entries) if len(entries) > 1 else entries[0].name,
                    note=f"{len(entries)} operators" if len(entries) > 1 else "",
                    strong=status == "unsupported",
                ),
                cell(f"{sum(entry.calls for entry in entries):,}"),
                cell(words(status), tone="" if "keeps the condition" in entries[0].because else tone[status]),
                cell(entries[0].because),
            )
            for (status, _), entries in groups.items()
        ),
        footnote=f"How the operators were obtained: {compatibility.graph_how}.",
        key="operators",
    )


def _bare(name: str) -> str:
    """``aten.add.Tensor`` -> ``add.Tensor``; ``aten.relu.default`` -> ``relu``."""
    return name.removeprefix("aten.").removesuffix(".default")


def compile_table(compiled: Optional[Compile]) -> Union[Table, Note]:
    """What compiled, how long it took, or what is waited for."""
    if compiled is None:
        return not_run(None, 3)
    tone = {"compiled": "good", "failed": "bad", "waiting": "wait", "not_needed": ""}
    return Table(
        caption="Compilation",
        columns=(
            Column("target", "name in the params file and software path", words=True),
            Column("status", "compiled, failed, waiting for a host, or not needed on this path", words=True),
            Column("compile time", "wall time of one compilation", "s"),
            Column("artefact", "size of the compiled file", "MiB"),
            Column("compiled with", "shape, versions and flags", words=True, wide=True),
            Column("because", "what the compiler said, and what to do", words=True, wide=True),
        ),
        rows=rows_of(
            (
                cell(entry.target, note=entry.path, strong=True),
                cell(words(entry.status), tone=tone[entry.status]),
                cell((entry.compile_time, "compile_s")) if entry.compile_time else missing("nothing was compiled"),
                cell(f"{entry.artefact_bytes / 2**20:,.1f}") if entry.artefact_bytes else missing("nothing was compiled"),
                _compiled_with(entry.versions, entry.flags, entry.shape),
                cell(entry.because, note=entry.next or ""),
            )
            for entry in compiled.targets
        ),
        key="compile",
        record=compiled.id,
    )


def buckets_table(compiled: Optional[Compile]) -> Union[Table, Note]:
    """Every compilation: one shape on one target."""
    rows = [(entry.target, bucket) for entry in (compiled.targets if compiled else ()) for bucket in entry.buckets]
    if not rows:
        return Note("No shape has been compiled yet.")
    tone = {"compiled": "good", "failed": "bad", "waiting": "wait"}
    cached = {True: "yes", False: "no", None: "not stated"}
    return Table(
        caption="Compilations, shape by shape",
        columns=(
            Column("target", "name in the params file, and the shape", words=True),
            Column("status", "compiled, failed, or waiting for another host", words=True),
            Column("time", "wall time of the compilation", "s"),
            Column("peak memory", "most host memory the compiler and its children held", "GiB"),
            Column("artefact", "size of the compiled file", "MiB"),
            Column("cached", "whether it came from a compile cache", words=True),
            Column("because", "what the compiler said, and what to try first", words=True, wide=True),
        ),
        rows=rows_of(
            (
                cell(target, note=_shape_words(bucket.shape), strong=True),
                cell(words(bucket.status), tone=tone[bucket.status]),
                cell((bucket.compile_time, "compile_s")) if bucket.compile_time else missing("not compiled"),
                cell((bucket.peak_memory, "memory_bytes")) if bucket.peak_memory else missing("not recorded"),
                cell(f"{bucket.artefact_size.value / 2**20:,.1f}") if bucket.artefact_size and bucket.artefact_size.known else missing("no artefact"),
                cell(cached[bucket.cached], note=bucket.cached_because or ""),
                cell(bucket.because, note=bucket.steps[0] if bucket.steps else bucket.next or ""),
            )
            for target, bucket in rows
        ),
        key="buckets",
        record=compiled.id,
    )


def analysis_table(compiled: Optional[Compile]) -> Union[Table, Note]:
    """What the official analysis says about operators compiled one by one."""
    rows = [(entry.target, entry.analysis) for entry in (compiled.targets if compiled else ()) if entry.analysis]
    if not rows:
        return Note("The compiler's own operator analysis has not run yet.")
    return Table(
        caption="Operators compiled one by one",
        columns=(
            Column("target", "name in the params file", words=True),
            Column("taken", "share of operators that compile alone, as printed; says nothing about the whole graph", "%"),
            Column("not taken", "operator, where it failed and where it is called", words=True, wide=True),
        ),
        rows=rows_of(
            (
                cell(target, strong=True),
                cell((analysis.support, "fraction")),
                cell("; ".join(" ".join(part for part in (one.name, one.failure_at, one.call) if part) for one in analysis.unsupported) or "none"),
            )
            for target, analysis in rows
        ),
        key="analysis",
        record=compiled.id,
    )


def _shape_words(sizes: Mapping[str, Optional[int]]) -> str:
    return ", ".join(f"{name.partition('_')[0]} {value:,}" for name, value in sizes.items() if value)


# -- step 4 ------------------------------------------------------------------------------------


def measurements_table(measurements: Sequence[Measurement]) -> Union[Table, Note]:
    """Every figure in the dossier with the settings under which it was taken."""
    if not measurements:
        return Note("No measurement and no published figure yet.")
    ordered = sorted(measurements, key=lambda entry: (entry.settings.precision or "", entry.settings.batch_size or 0, entry.grade.rank))
    names = list(dict.fromkeys(entry.target for entry in measurements))
    ordered.sort(key=lambda entry: names.index(entry.target))
    return Table(
        caption="Figures in the dossier",
        columns=(
            Column("target", "name in the params file and instance type", words=True),
            Column("batch × length", "sequences per call and tokens per sequence"),
            Column("precision", "what the multiplications run in", words=True),
            Column("throughput", "useful results of one instance per second", "per second"),
            Column("mean", "mean latency of one call", "ms"),
            Column("p50", "median latency of one call", "ms"),
            Column("p99", "99th percentile of latency, where the sample is large enough", "ms"),
            Column("taken with", "software, route, SDK and what the clock covered", words=True, wide=True),
            Column(
                "source",
                "who says so, and whether a measurement is valid: the first reason why not, step 4's findings have all",
                words=True,
                wide=True,
            ),
            Column("record", "id of the record", words=True),
        ),
        rows=rows_of(
            (
                cell(entry.target, note=entry.instance_type or "", strong=True),
                cell(shape(entry)),
                cell(spoken(entry.settings.precision or "not stated")),
                cell((entry.quantity("throughput_per_s"), "throughput_per_s")),
                cell((entry.quantity("latency_mean_s"), "latency_mean_s")),
                cell((entry.quantity("latency_p50_s"), "latency_p50_s")),
                cell((entry.quantity("latency_p99_s"), "latency_p99_s")),
                cell(software(entry), note=spoken(entry.settings.timed_region or "")),
                cell(source_text(entry.source), note=_validity(entry), tone="bad" if entry.valid is False else ""),
                cell(entry.id, record=entry.id),
            )
            for entry in ordered
        ),
        key="measurements",
    )


def pairs_table(comparison: Optional[Comparison]) -> Union[Table, Note]:
    """Candidate over baseline with an interval, and the verdict."""
    if comparison is None:
        return not_run(None, 4)
    if not comparison.pairs:
        return Note("No two figures could be put side by side yet.")
    return Table(
        caption="Candidate against baseline",
        columns=(
            Column("candidate", "name in the params file", words=True),
            Column("mode", "matched: the same batch on both sides; best: each side's best batch", words=True),
            Column("throughput", "candidate / baseline; above 1 the candidate is faster", "ratio"),
            Column("p50", "median latency, candidate / baseline", "ratio"),
            Column("p99", "99th percentile of latency, candidate / baseline", "ratio"),
            Column("verdict", "both ends of the interval must lie beyond the margin to say faster or slower", words=True),
        ),
        rows=rows_of(
            (
                cell(pair.candidate, strong=True),
                cell(modes),
                cell((pair.throughput, "ratio")),
                cell((pair.latency_p50, "ratio")),
                cell((pair.latency_p99, "ratio")),
                cell(VERDICTS[pair.verdict][0], tone=VERDICTS[pair.verdict][1]),
            )
            for pair, modes in _each_once(comparison.pairs)
        ),
        footnote=" ".join(
            [
                *dict.fromkeys(pair.sentence for pair in comparison.pairs),
                f"Margin {comparison.margin * 100:g}%, confidence {comparison.confidence * 100:g}%.",
            ]
        ),
        record=comparison.id,
        key="pairs",
    )


def _each_once(pairs: Sequence[Pair]) -> list[tuple[Pair, str]]:
    """Pairs with their modes; matched and best may be the same two figures, which are shown once."""
    found: dict[tuple[str, str, str], tuple[Pair, list[str]]] = {}
    for pair in pairs:
        found.setdefault((pair.candidate, pair.baseline_record, pair.candidate_record), (pair, []))[1].append(pair.mode)
    return [(pair, " and ".join(modes)) for pair, modes in found.values()]


def differences_table(comparison: Optional[Comparison]) -> Union[Table, Note]:
    """The settings in which two sides differ, and whether that forbids the comparison."""
    if comparison is None:
        return not_run(None, 4)
    alike: dict[tuple[bool, str, str, str], dict[str, str]] = {}
    for pair, modes in _each_once(comparison.pairs):
        for entry in pair.differences:
            found = alike.setdefault((not entry.matters, entry.setting, spoken(entry.baseline), spoken(entry.candidate)), {})
            found[pair.candidate] = f"{found[pair.candidate]} and {modes}" if pair.candidate in found else modes
    if not alike:
        return Note("The settings do not differ.")
    every = {pair.candidate: sum(other.candidate == pair.candidate for other, _ in _each_once(comparison.pairs)) for pair in comparison.pairs}
    rows = [
        (
            cell(words(setting), strong=not harmless),
            cell(theirs),
            cell(ours),
            cell("; ".join(_in_pairs(name, modes, every[name]) for name, modes in found.items())),
            cell("forbids it" if not harmless else "shown only", tone="bad" if not harmless else ""),
        )
        for (harmless, setting, theirs, ours), found in sorted(alike.items(), key=lambda row: row[0][0])
    ]
    return Table(
        caption="Settings that differ",
        columns=(
            Column("setting", "the setting in which they differ; what forbids the comparison comes first", words=True),
            Column("baseline", "its value on the baseline", words=True),
            Column("candidate", "its value on the candidate", words=True),
            Column("pairs", "the candidates that it is so for; how the two figures were matched, where it is not so for every pair", words=True),
            Column("comparison", "whether the difference changes what is being compared", words=True),
        ),
        rows=rows_of(rows),
        key="differences",
    )


def _in_pairs(candidate: str, modes: str, count: int) -> str:
    """The candidate, with the modes where it has pairs that do not differ so."""
    return candidate if len(modes.split(" and ")) >= count or count == 1 else f"{candidate} ({modes})"


def runs_table(measurement: Optional[Measurement]) -> Union[Table, Note]:
    """The independent runs of one measurement, nothing dropped."""
    if measurement is None or not measurement.runs:
        return Note("A figure without runs: its raw values are not known.")

    def own(value: Optional[float], unit: str, why: str) -> Quantity:
        if value is None:
            return Quantity(unit=unit, why=why)
        return Quantity(value=value, unit=unit, grade=measurement.grade)

    rows = []
    for index, run in enumerate(measurement.runs, 1):
        rate = len(run.values_s) * measurement.results_per_call / run.duration_s if measurement.results_per_call and run.duration_s else None
        middle = stats.median(list(run.values_s)) if run.values_s else None
        rows.append(
            (
                cell(f"run {index}", note=f"{run.start_utc[:19].replace('T', ' ')} UTC"),
                cell(f"{len(run.warmup_s):,}"),
                cell(f"{len(run.values_s):,}"),
                cell(f"{len(run.errors):,}", note=run.errors[0] if run.errors else ""),
                cell(f"{run.duration_s:,.2f}" if run.duration_s else "not stated"),
                cell((own(rate, "1/s", "results per call are not known"), "throughput_per_s")),
                cell((own(middle, "s", "no timed call finished"), "latency_p50_s")),
            )
        )
    return Table(
        caption=f"Runs of {measurement.target}, {shape(measurement)}",
        columns=(
            Column("run", "an independent run and when it started", words=True),
            Column("warm-up", "calls before the timed ones; kept in the record, not in the statistics"),
            Column("timed", "calls that count"),
            Column("errors", "calls that failed"),
            Column("duration", "wall time of the timed calls together", "s"),
            Column("throughput", "useful results over that wall time", "per second"),
            Column("p50", "median latency of the run's timed calls", "ms"),
        ),
        rows=rows_of(rows),
        footnote=measurement.validity,
        key="runs",
        record=measurement.id,
    )


# -- steps 5 to 8 ------------------------------------------------------------------------------


def utilization_table(utilization: Optional[Utilization]) -> Union[Table, Note]:
    """Offered load against capacity."""
    if utilization is None:
        return not_run(None, 5)
    if not utilization.targets:
        return Note("No target has both a load and a capacity yet.")
    return Table(
        caption="Load against capacity",
        columns=(
            Column("target", "name in the params file and instance type", words=True),
            Column("capacity", "useful results of one instance per second", "per second"),
            Column("instances", "as many as the peak needs, or as declared"),
            Column("load mean / peak", "offered load", "per second"),
            Column("busy mean / peak", "offered load over the capacity of all instances", "%"),
        ),
        rows=rows_of(
            (
                cell(entry.target, note=entry.instance_type, strong=True),
                cell((entry.capacity_per_instance, "throughput_per_s")),
                cell((entry.instances, "instances")),
                cell((entry.offered_mean, "rate_per_s"), (entry.offered_peak, "rate_per_s")),
                cell((entry.busy_mean, "utilization"), (entry.busy_peak, "utilization")),
            )
            for entry in utilization.targets
        ),
        footnote=" ".join(entry.sentence for entry in utilization.targets),
        key="utilization",
        record=utilization.id,
    )


def cost_table(cost: Optional[Cost]) -> Union[Table, Note]:
    """What a million useful results cost, and where the answer would turn."""
    if cost is None:
        return not_run(None, 6)
    if not cost.targets:
        return Note("No target has both a price and a throughput yet.")
    units = sorted({entry.result_unit for entry in cost.targets if entry.full_load.known})
    return Table(
        caption="Cost of a million useful results" + (f" ({' and '.join(units)})" if units else ""),
        columns=(
            Column("target", "name in the params file and instance type", words=True),
            Column("price", "one instance", "$ per hour"),
            Column("full load", "at utilization 1", per_million(cost)),
            Column("your traffic", "at the expected utilization", per_million(cost)),
            Column("a month", "all instances that the peak needs", "$"),
            Column("efficiency", "useful results per second for each dollar an hour", "per second per $/h"),
            Column("break-even throughput", "above this rate the baseline is the cheaper one at full load", "per second"),
            Column("break-even busy", "the candidate is cheaper above this busy share", "%"),
            Column("break-even price", "the candidate is cheaper below this price", "$ per hour"),
        ),
        rows=rows_of(
            (
                (
                    cell(entry.target, note=entry.instance_type, strong=True),
                    cell((entry.price, "usd_per_hour")),
                    cell((entry.full_load, "usd_per_million")),
                    cell((entry.expected, "usd_per_million")),
                    cell((entry.per_month, "usd_per_month")),
                    cell((entry.efficiency, "per_s_per_usd_hour")),
                    cell((entry.break_even_throughput, "throughput_per_s")),
                    cell((entry.break_even_utilization, "utilization")),
                    cell((entry.break_even_price, "usd_per_hour")),
                )
                for entry in cost.targets
            ),
            today=0,
        ),
        footnote=" ".join([*(entry.sentence for entry in cost.targets), *_at_face_value(cost), basis(cost)]),
        key="cost",
        record=cost.id,
    )


def _at_face_value(cost: Cost) -> list[str]:
    """What the comparison of these costs takes for granted; the targets of one text together."""
    said: dict[str, list[str]] = {}
    for entry in cost.targets:
        if entry.taken_as:
            said.setdefault(entry.taken_as, []).append(entry.target)
    return [f"{' and '.join(names)} beside the baseline, estimated: {text}." for text, names in said.items()]


def bases_table(cost: Optional[Cost]) -> Union[Table, Note]:
    """The same cost at full load on each purchase option: compare down a column, never across."""
    if cost is None:
        return not_run(None, 6)
    options = list(dict.fromkeys(option for entry in cost.targets for option in entry.other_bases if option != cost.purchase_option))
    if not options:
        return Note("No other purchase option has a price for these instances.")
    return Table(
        caption="Cost at full load on each purchase option",
        columns=(
            Column("target", "name in the params file and instance type", words=True),
            Column(spoken(cost.purchase_option), "the basis of this report", per_million(cost)),
            *(Column(spoken(option), "the same throughput at this purchase option", per_million(cost)) for option in options),
        ),
        rows=rows_of(
            (
                cell(entry.target, note=entry.instance_type, strong=True),
                cell((entry.full_load, "usd_per_million")),
                *(
                    cell((entry.other_bases[option], "usd_per_million")) if option in entry.other_bases else missing("no price known")
                    for option in options
                ),
            )
            for entry in cost.targets
        ),
        footnote="Compare down a column. Across columns the price basis differs, so the comparison would be unfair." + _ages(cost, options),
        key="bases",
        record=cost.id,
    )


def _ages(cost: Cost, options: Sequence[str]) -> str:
    """How old the prices of the other purchase options were when the costs were reckoned, where their dates are known."""
    reckoned, said = date.fromisoformat(cost.created_utc[:10]), []
    for option in options:
        texts = (entry.other_bases[option].why or "" for entry in cost.targets if option in entry.other_bases and entry.other_bases[option].known)
        days = sorted({found for text in texts for found in re.findall(r"as of (\d{4}-\d{2}-\d{2})", text)})
        if days:
            ages = [(reckoned - date.fromisoformat(day)).days for day in (days[-1], days[0])]
            old = f"{ages[0]}" if ages[0] == ages[1] else f"{ages[0]} to {ages[1]}"
            said.append(f"{spoken(option)} {' to '.join(dict.fromkeys((days[0], days[-1])))}, {old} days old")
    return f" Prices as of: {'; '.join(said)}." if said else ""


def payback_table(payback: Optional[Payback]) -> Union[Table, Note]:
    """Saving against spending for each candidate."""
    if payback is None:
        return not_run(None, 7)
    if not payback.targets:
        return Note("No candidate has both a saving and an effort yet.")
    return Table(
        caption="Saving against effort",
        columns=(
            Column("candidate", "name in the params file", words=True),
            Column("saving", "at your traffic, before upkeep", "$ a month"),
            Column("upkeep", "additional work after the move", "$ a month"),
            Column("effort", "work of the move", "person-days"),
            Column("effort", "the same in money", "$"),
            Column("pays back in", "first month in which saving exceeds migration and upkeep, median over draws", "month"),
            Column("probability", f"share of draws that pay back within {payback.horizon_months} months", "%"),
            Column("volume needed", "times today's volume at which it would pay back", "times"),
        ),
        rows=rows_of(
            (
                cell(entry.target, strong=True),
                cell((entry.saving_per_month, "usd_per_month")),
                cell((entry.upkeep_per_month, "usd_per_month")),
                cell((entry.effort, "person_days")),
                cell((_no_finer(entry.effort_usd), "usd")),
                cell((entry.payback_month, "months")),
                cell((entry.probability, "fraction")),
                cell((entry.volume_needed, "ratio")),
            )
            for entry in payback.targets
        ),
        footnote=" ".join(entry.sentence for entry in payback.targets),
        key="payback",
        record=payback.id,
    )


def plan_table(plan: Optional[TrialPlan]) -> Union[Table, Note]:
    """The controlled test as fixed beforehand: hypothesis, criteria, stages, guardrails, rollback."""
    if plan is None:
        return not_run(None, 8)
    rows = [("hypothesis", plan.hypothesis)]
    rows += [(f"criterion {index}", text) for index, text in enumerate(plan.criteria, 1)]
    rows += [(f"stage {index}", _stage_text(stage)) for index, stage in enumerate(plan.stages, 1)]
    rows += [(f"guardrail {index}", text) for index, text in enumerate(plan.guardrails, 1)]
    rows += [(f"rollback {index}", text) for index, text in enumerate(plan.rollback, 1)]
    rows += [(f"endpoint of {name}", url or "not declared yet") for name, url in plan.endpoints.items()]
    return Table(
        caption=f"Controlled test of {plan.candidate} against {plan.baseline}",
        columns=(
            Column("part", "hypothesis, criteria, stages, guardrails and rollback, in order", words=True),
            Column("fixed before the first request", "what the plan says; changing it makes another record", words=True, wide=True),
        ),
        rows=rows_of((cell(part, strong=True), cell(text)) for part, text in rows),
        key="plan",
    )


def trial_table(trial: Optional[Trial]) -> Union[Table, Note]:
    """Every criterion of the controlled test, stage by stage."""
    if trial is None:
        return Note("The test has not been run: there is a plan and no answer yet.")
    tones = {"passed": "good", "failed": "bad", "inconclusive": ""}
    return Table(
        caption=f"Controlled test of {trial.candidate} against {trial.baseline}: {trial.status}",
        columns=(
            Column("criterion", "as fixed in the plan", words=True),
            Column("stage", "part of the test", words=True),
            Column("outcome", "at the confidence of the plan, over all looks", words=True),
            Column("value", "ratio candidate / baseline, or share of the requests"),
            Column("requests", "answers on the smaller side"),
            Column("because", "value and limit", words=True, wide=True),
        ),
        rows=rows_of(
            (
                cell(row.criterion.replace("_", " "), strong=True),
                cell(row.stage),
                cell(row.outcome, tone=tones[row.outcome]),
                cell((row.value, "fraction" if row.value.unit == "fraction" else "ratio")),
                cell(f"{row.count:,}"),
                cell(row.because),
            )
            for row in trial.criteria
        ),
        footnote=" ".join(f"{stage.name}: {sum(stage.asked.values()):,} requests, {sum(stage.failed.values()):,} failed." for stage in trial.stages),
        key="trial",
        record=trial.id,
    )


def _no_finer(usd: Quantity) -> Quantity:
    """An estimate in money with three digits that count."""
    if not usd.known:
        return usd
    return usd.model_copy(update={name: float(f"{end:.3g}") for name in ("value", "low", "high") if (end := getattr(usd, name)) is not None})


# -- parts of rows -----------------------------------------------------------------------------


def _compiled_with(versions: Mapping[str, str], flags: Sequence[str], compiled: Optional[Mapping[str, Optional[int]]]) -> Cell:
    parts = [f"{words(key)} {value}" for key, value in (compiled or {}).items() if value is not None]
    parts += [f"{name} {version}" for name, version in versions.items()]
    parts += [" ".join(flags)] if flags else []
    return cell(", ".join(parts)) if parts else missing("nothing was compiled")


def _validity(measurement: Measurement) -> str:
    """Whether a measurement followed the protocol; of several reasons why not the first. Nothing about a figure without runs."""
    if measurement.valid is None:
        return ""
    first, *more = measurement.validity.split(" | ")
    if measurement.valid:
        return f"valid: {first}" if first else "valid"
    return f"INVALID: {first.partition('; ')[0]}{f', and {len(more)} more' if more else ''}"


def _stage_text(stage: Mapping[str, Any]) -> str:
    parts = []
    for key, value in stage.items():
        if value is None or key in ("next", "length_from"):
            continue
        if key == "name":
            parts.insert(0, f"{value}:")
        elif key == "share" and isinstance(value, (int, float)):
            parts.append(f"{value * 100:g}% of the traffic,")
        elif key == "open":
            parts.append(f"length not known: {value},")
        elif key.endswith("_min") and isinstance(value, (int, float)):
            parts.append(f"{words(key[:-4])} {value:,g} min,")
        else:
            parts.append(f"{words(key)} {one_line(value)},")
    return plain(" ".join(parts).rstrip(","))
