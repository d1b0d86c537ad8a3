"""`neuronfit measure`: one target, on this host."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Optional

import click

from neuronfit.cli.common import INTERRUPTED, as_json_option, group, params_path, print_json, reports_option, shown

if TYPE_CHECKING:
    from neuronfit.params import Shape
    from neuronfit.question import Question
    from neuronfit.record import Measurement


@group.command(epilog="\b\nExample, on the GPU host:\n  neuronfit measure params/bert-base-uncased.yaml --target l4")
@click.argument("params", type=params_path)
@click.option("--target", required=True, help="A target of the params file, `baseline`, or `cpu` for this host's CPU.")
@click.option("--scenario", type=click.Choice(["single_stream", "offline", "server", "generate"]), help="How an endpoint is loaded.")
@click.option("--rate", type=click.FloatRange(min=0, min_open=True), help="Requests per second sent to an endpoint; default: searched.")
@click.option("--duration", type=click.FloatRange(min=0, min_open=True), help="Seconds of load on an endpoint; default: policy.budget_s.")
@click.option("--concurrency", type=click.IntRange(min=1), help="Requests kept in flight at an endpoint.")
@click.option("--workers", help="Workers side by side to try at each batch size, e.g. 1,2,4; default: settings.workers of the target.")
@click.option("--batch-sizes", help="Sequences per call to sweep, e.g. 1,2,4,8; default: workload.shapes. The sizes take turns, run by run.")
@reports_option
@as_json_option
def measure(
    params: Path,
    target: str,
    scenario: Optional[str],
    rate: Optional[float],
    duration: Optional[float],
    concurrency: Optional[int],
    workers: Optional[str],
    batch_sizes: Optional[str],
    reports: Optional[Path],
    as_json: bool,
) -> int:
    """Measure one target on this host, or through its endpoint. No Jupyter and no plotting package is needed."""
    from neuronfit import measure as measuring
    from neuronfit.errors import BadInput
    from neuronfit.files import check_writable
    from neuronfit.load import measure_endpoint
    from neuronfit.question import Question
    from neuronfit.units import metric

    question = Question.from_file(params, reports=reports)
    served = question.target(target).endpoint is not None
    load = {"scenario": scenario, "rate_per_s": rate, "duration_s": duration, "concurrency": concurrency}
    given = [name for name, value in load.items() if value is not None]
    if given and not served:
        raise BadInput(
            f"--{given[0].partition('_')[0]} loads an endpoint, and {target} has none", next=f"write endpoint: {{url: ...}} under {target}"
        )
    if workers and served:
        raise BadInput("--workers starts copies on this host, and an endpoint has its own", workers, next="set them where the server is started")
    check_writable(question.dossier.folder)
    counts = _numbers("--workers", workers, 1024, "1,2,4") if workers else None
    shapes = _swept(question, batch_sizes) if batch_sizes else None
    taken = measure_endpoint(question, target, **load) if served else measuring.measure(question, target, shapes=shapes, workers=counts)
    status = INTERRUPTED if any(finding.code == "interrupted" for record in taken for finding in record.findings) else 0
    if as_json:
        print_json([json.loads(record.to_json()) for record in taken])
        return status
    for record in taken:
        if record.load is not None:
            _say_load(record)
            click.echo(f"  written: {shown(next(path for path in question.dossier.files() if record.id in path.name))}")
            continue
        rate = record.quantity("throughput_per_s")
        shape = f"batch {record.settings.batch_size}, sequence {record.settings.sequence_length}"
        shape += f", {record.settings.workers} workers" if (record.settings.workers or 1) > 1 else ""
        value = metric("throughput_per_s").text(rate.value) if rate.known else f"no throughput, {rate.why}"
        state = "VALID" if record.valid else f"INVALID, {record.validity}"
        route = f", {record.settings.route}" if len({one.settings.route for one in taken}) > 1 else ""
        click.echo(f"{record.target}, {shape}{route}: {value}   {state}")
        if record.taken is not None:
            overhead = f"; an empty call takes {record.taken.overhead_s * 1e6:.3g} us" if record.taken.overhead_s is not None else ""
            click.echo(f"  stopped: {record.taken.ended_because}{overhead}")
        path = next(path for path in question.dossier.files() if record.id in path.name)
        click.echo(f"  written: {shown(path)}")
    _say_best(question, taken)
    click.echo(f"  next: copy it to the host that writes the report, then neuronfit adopt FILE --for {taken[-1].target}")
    return status


def _swept(question: Question, batch_sizes: str) -> list[Shape]:
    """The first shape at each of these batch sizes. Raises :class:`~neuronfit.errors.BadInput`."""
    first = question.params.workload.shapes[0]
    return [first.model_copy(update={"batch_size": size}) for size in _numbers("--batch-sizes", batch_sizes, 65536, "1,2,4,8")]


def _numbers(option: str, text: str, most: int, example: str) -> list[int]:
    """Whole numbers with commas between, each once. Raises :class:`~neuronfit.errors.BadInput`."""
    from neuronfit.errors import BadInput

    words = [word.strip() for word in text.split(",")]
    wrong = next((word for word in words if not word.isdecimal() or not 1 <= int(word) <= most), None)
    if wrong is not None:
        raise BadInput(option, wrong, allowed=f"whole numbers from 1 to {most} with commas between", next=f"{option} {example}")
    return list(dict.fromkeys(int(word) for word in words))


def _say_best(question: Question, taken: list[Measurement]) -> None:
    """Of several settings the one with the highest throughput under the objective, of the valid ones."""
    from neuronfit import compare
    from neuronfit.units import metric

    valid = [record for record in taken if record.valid and record.load is None]
    top = compare.best(valid, question.params.objective)
    if len(taken) < 2 or top is None:
        return
    kept = compare.keeps_objective(top, question.params.objective)
    about = {True: "keeps the objective", False: "none keeps the objective", None: "whether it keeps the objective is not known"}[kept]
    workers = top.settings.workers or 1
    rate = metric("throughput_per_s").text(top.quantity("throughput_per_s").value)
    click.echo(f"  best of {len(valid)} valid: batch {top.settings.batch_size}, {workers} worker{'s' if workers > 1 else ''}, {rate}; {about}")


LOAD_METRICS = (
    *("throughput_per_s", "requests_per_s", "output_tokens_per_s", "latency_p50_s", "latency_p99_s", "ttft_p50_s", "ttft_p99_s"),
    *("tpot_p50_s", "itl_p50_s", "goodput_fraction", "error_fraction"),
)


def _say_load(record: Measurement) -> None:
    """One measurement through an endpoint: how it was loaded, every figure there is, and whether to believe it."""
    from neuronfit.units import metric

    load, output = record.load, record.settings.output_length
    how = f"{load.concurrency} in flight" if load.arrivals == "closed" else f"{load.arrivals} at {load.rate_per_s or 0:.4g} requests/s"
    lengths = f"{record.settings.sequence_length or 'mixed'}{f' + {output}' if output else ''} tokens"
    click.echo(f"{record.target}, {record.scenario}, {lengths}, {how}   {'VALID' if record.valid else 'INVALID'}")
    for name in LOAD_METRICS:
        found = record.quantity(name)
        if found.known:
            within = f"   ({metric(name).text(found.low)} to {metric(name).text(found.high)})" if found.low is not None else ""
            click.echo(f"  {metric(name).label:<32} {metric(name).text(found.value)}{within}")
    for finding in record.findings:
        click.echo(f"  {finding.severity}: {finding.code}: {finding.because}{f'; {finding.next}' if finding.next else ''}")
