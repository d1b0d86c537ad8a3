"""`neuronfit`: the command line.

Exit status: 0 done, 1 a check failed, 2 usage or bad input (one line), 3 waiting for evidence,
130 interrupted. ``--json`` prints records instead of text; progress goes to standard error, and
only to a terminal.
"""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any, Optional

import click

from neuronfit.errors import BadInput, NeuronFitError

__all__ = ["main"]

INTERRUPTED = 130

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # before torch is imported; see series.ENVIRONMENT

_reports = click.option("--reports", type=click.Path(path_type=Path), metavar="DIR", help="Folder of the dossiers (default: reports/).")
_as_json = click.option("--json", "as_json", is_flag=True, help="Print the record as JSON.")
_params = click.Path(path_type=Path)


def main(argv: Optional[list[str]] = None) -> None:
    """Entry point: turns every expected error into one line and the right exit status."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with group.make_context("neuronfit", list(sys.argv[1:] if argv is None else argv)) as context:
            status = group.invoke(context)
    except NeuronFitError as error:
        _fail(str(error), error.exit_status)
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.ctx.get_help())
        status = 2
    except click.UsageError as error:
        hint = f" | next: {error.ctx.command_path} --help" if error.ctx else ""
        _fail(error.format_message() + hint, 2)
    except click.exceptions.Exit as ended:
        status = ended.exit_code
    except click.ClickException as error:
        _fail(error.format_message(), 2)
    except (KeyboardInterrupt, click.Abort):
        _fail("interrupted | every record admitted so far is kept | next: the same command with --resume", INTERRUPTED)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        status = 0
    sys.exit(status if isinstance(status, int) else 0)


def _fail(message: str, status: int) -> None:
    click.echo(f"neuronfit: {' '.join(message.split())}", err=True)
    sys.exit(status)


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name="neuronfit", message="neuronfit %(version)s")
def group() -> None:
    """Should this workload move from GPU instances to AWS Trainium or Inferentia?

    \b
    neuronfit run params/bert-base-uncased.yaml     the whole series, and the HTML report
    neuronfit doctor                                what this host can do
    """


# -- run --------------------------------------------------------------------------------------


@group.command(epilog="\b\nExample:\n  neuronfit run params/*.yaml --steps 1-8 --resume")
@click.argument("params", nargs=-1, required=True, type=_params)
@click.option("--steps", metavar="1-8", help="Only these steps, such as 4 or 1-3,6; the summary follows.")
@click.option("--resume", is_flag=True, help="Skip steps whose conclusion for the same params file is there.")
@_reports
@_as_json
def run(params: tuple[Path, ...], steps: Optional[str], resume: bool, reports: Optional[Path], as_json: bool) -> int:
    """Execute the notebooks of one or many workloads and render the reports."""
    from neuronfit import series
    from neuronfit.files import check_writable
    from neuronfit.question import Question

    wanted = series.parse_steps(steps)
    questions = [Question.from_file(path, reports=reports) for path in params]
    _refuse_doubles(questions)
    for question in questions:
        check_writable(question.dossier.folder)
    outcomes = []
    for question in questions:
        with _Progress(question.name, len(wanted)) as progress:
            outcome = series.run(question, wanted, resume=resume, tell=progress.tell)
        outcomes.append(outcome)
        if not as_json:
            _say_outcome(outcome)
        elif outcome.failed:
            _say_failure(outcome)
    if as_json:
        found = [outcome.decision.content() | {"id": outcome.decision.id} for outcome in outcomes if outcome.decision]
        _print_json(found[0] if len(questions) == 1 and found else found)
    failures = [outcome.failed for outcome in outcomes if outcome.failed]
    return 0 if not failures else 2 if any(failure.bad_input for failure in failures) else 1


def _refuse_doubles(questions: list[Any]) -> None:
    seen: dict[str, Any] = {}
    for question in questions:
        other = seen.setdefault(question.name, question)
        if other is not question:
            raise BadInput(f"{other.origin} and {question.origin} both ask about workload", question.name, allowed="one name per params file")


class _Progress:
    """One bar per workload on a terminal, nothing elsewhere."""

    def __init__(self, name: str, steps: int):
        self.name, self.steps, self.bar = name, steps, None

    def __enter__(self) -> "_Progress":
        if sys.stderr.isatty():
            from tqdm import tqdm

            self.bar = tqdm(total=self.steps, desc=self.name, unit="step", leave=False)
        return self

    def tell(self, step: int, state: str) -> None:
        from neuronfit.record import STEPS

        if self.bar is None:
            return
        if state == "running":
            self.bar.set_postfix_str(f"{step} {STEPS[step][0]}")
        else:
            self.bar.update()

    def __exit__(self, *_: object) -> None:
        if self.bar is not None:
            self.bar.close()


def _say_outcome(outcome: Any) -> None:
    decision = outcome.decision
    if decision:
        click.echo(f"{outcome.question.name}: {decision.headline} {decision.sentence}")
        if decision.next_measurement:
            click.echo(f"  next: {decision.next_measurement.command}   (on {decision.next_measurement.host})")
    if outcome.html:
        click.echo(f"  report: {_shown(outcome.html)}")
    if outcome.failed:
        _say_failure(outcome)


def _say_failure(outcome: Any) -> None:
    failed = outcome.failed
    kept = len(outcome.question.dossier.files())
    click.echo(f"neuronfit: {outcome.question.name}: step {failed.step} failed: {failed.name}: {failed} | {kept} records are kept", err=True)


# -- measure, adopt ---------------------------------------------------------------------------


@group.command(epilog="\b\nExample, on the GPU host:\n  neuronfit measure params/bert-base-uncased.yaml --target l4")
@click.argument("params", type=_params)
@click.option("--target", required=True, help="A target of the params file, `baseline`, or `cpu` for this host's CPU.")
@_reports
@_as_json
def measure(params: Path, target: str, reports: Optional[Path], as_json: bool) -> int:
    """Measure one target on this host. No Jupyter and no plotting package is needed."""
    from neuronfit import measure as measuring
    from neuronfit.files import check_writable
    from neuronfit.question import Question
    from neuronfit.units import metric

    question = Question.from_file(params, reports=reports)
    question.target(target)
    check_writable(question.dossier.folder)
    taken = measuring.measure(question, target)
    if as_json:
        _print_json([json.loads(record.to_json()) for record in taken])
        return 0
    for record in taken:
        rate = record.quantity("throughput_per_s")
        shape = f"batch {record.settings.batch_size}, sequence {record.settings.sequence_length}"
        value = metric("throughput_per_s").text(rate.value) if rate.known else f"no throughput, {rate.why}"
        state = "VALID" if record.valid else f"INVALID, {record.validity}"
        click.echo(f"{record.target}, {shape}: {value}   {state}")
        path = next(path for path in question.dossier.files() if record.id in path.name)
        click.echo(f"  written: {_shown(path)}")
    click.echo(f"  next: copy it to the host that writes the report, then neuronfit adopt FILE --for {taken[-1].target}")
    return 0


@group.command(epilog="\b\nExample:\n  neuronfit adopt l4.json --for l4")
@click.argument("file", type=_params)
@click.option("--for", "target", required=True, help="The target that the file speaks for.")
@click.option("--params", type=_params, help="The question it is evidence for; default: the file in params/ that its workload names.")
@_reports
@_as_json
def adopt(file: Path, target: str, params: Optional[Path], reports: Optional[Path], as_json: bool) -> int:
    """Bring a record that was measured on another host into the dossier."""
    from neuronfit.adopt.record_file import adopt_record, read_record
    from neuronfit.question import Question, params_file

    question = Question.from_file(params or params_file(read_record(file).workload.name), reports=reports)
    record = adopt_record(question, file, target)
    if as_json:
        _print_json(json.loads(record.to_json()))
    else:
        click.echo(f"adopted {record.id} for {record.target} | next: neuronfit run {question.command_name} --steps 4-8")
    return 0


# -- report -----------------------------------------------------------------------------------


@group.command(epilog="\b\nExample:\n  neuronfit report reports/bert-base-uncased")
@click.argument("dossier", type=click.Path(path_type=Path))
@_as_json
def report(dossier: Path, as_json: bool) -> int:
    """Rebuild the HTML and JSON of a dossier from its records."""
    from neuronfit import report as reporting
    from neuronfit.dossier import Dossier

    html, data = reporting.write(Dossier(dossier))
    if as_json:
        click.echo(data.read_text(encoding="utf-8"), nl=False)
    else:
        click.echo(f"report: {_shown(html)}")
    return 0


# -- check ------------------------------------------------------------------------------------


@group.command(epilog="\b\nExamples:\n  neuronfit check config.json\n  neuronfit check params/bert-base-uncased.yaml --source ../service")
@click.argument("model", type=_params)
@click.option("--task", help="What the model is asked to do, such as fill-mask; default: what its kind usually does.")
@click.option("--batch", "batch_size", type=click.IntRange(min=1), help="Sequences per call; default: 1, or the params file's.")
@click.option("--sequence", "sequence_length", type=click.IntRange(min=1), help="Tokens per sequence; default: 128, or the params file's.")
@click.option("--output", "output_length", type=click.IntRange(min=1), help="Tokens generated per sequence.")
@click.option("--precision", type=click.Choice(["fp32", "bf16", "fp16", "int8"]), help="Number format; default: bf16, or the params file's.")
@click.option("--generation", "generations", multiple=True, help="inf1, inf2, trn1, trn2 or trn3; may be repeated. Default: inf2 and trn2.")
@click.option("--source", type=_params, help="A source tree to scan for CUDA-only packages and calls.")
@click.option("--hlo", "with_hlo", is_flag=True, help="Lower the model too and look up its opcodes (needs the extra neuronfit[hlo]).")
@_as_json
def check(
    model: Path,
    task: Optional[str],
    batch_size: Optional[int],
    sequence_length: Optional[int],
    output_length: Optional[int],
    precision: Optional[str],
    generations: tuple[str, ...],
    source: Optional[Path],
    with_hlo: bool,
    as_json: bool,
) -> int:
    """Would it run on Neuron? Operators, memory and dependencies of a model, without weights.

    MODEL is a config.json, a folder that holds one, or a params file. Exit status: 0 no documented
    blocker found, 1 a blocker was found.
    """
    from neuronfit import check as checking
    from neuronfit import hlo
    from neuronfit.examine import examine

    asked = _asked_for(model)
    given = {"task": task, "batch_size": batch_size, "sequence_length": sequence_length, "output_length": output_length, "precision": precision}
    asked.update({key: value for key, value in given.items() if value is not None})
    targets = tuple(checking.usual_target(generation) for generation in generations)
    found = examine(**asked, targets=targets, source=str(source) if source else None)
    opinion = hlo.second_opinion(asked["config"], found.task, **found.shape) if with_hlo and found.task else None
    if as_json:
        _print_json(found.plain() | ({"hlo": dataclasses.asdict(opinion)} if opinion else {}))
    else:
        _say_examination(found, opinion)
    return 1 if found.blockers else 0


def _asked_for(path: Path) -> dict[str, Any]:
    """Config, name and shape of what is to be checked."""
    from neuronfit.model import read_json
    from neuronfit.question import Question

    if path.suffix not in (".yaml", ".yml"):
        folder = path if path.is_dir() else path.parent
        return {"config": read_json(path), "name": path.stem if path.is_file() and path.stem != "config" else folder.resolve().name}
    question = Question.from_file(path)
    workload = question.params.workload
    first = workload.shapes[0]
    return {
        "config": question.config,
        "name": question.name,
        "task": workload.model.task,
        "batch_size": first.batch_size,
        "sequence_length": first.sequence_length,
        "output_length": first.output_length,
        "precision": workload.precision,
    }


def _say_examination(found: Any, opinion: Any) -> None:
    from neuronfit.units import metric

    click.echo(found.sentence)
    if found.anatomy:
        anatomy, size = found.anatomy, metric("memory_bytes").text
        click.echo(
            f"  model     {anatomy.kind}, {metric('parameters').text(anatomy.parameters)} parameters, {anatomy.layers} layers, {anatomy.graphs} graph{'s' if anatomy.graphs > 1 else ''} to compile"
        )
        parts = {"weights": found.needed.weights_bytes, "cache": found.needed.cache_bytes, "activations at most": found.needed.activations_bytes}
        click.echo(
            f"  memory    {', '.join(f'{size(value)} {name}' for name, value in parts.items() if value)} ({found.precision}, batch {found.shape['batch_size']}, sequence {found.shape['sequence_length']})"
        )
        for side, fit in found.smallest.items():
            text = f"{fit.instance_type}, tensor-parallel degree {fit.tp_degree}, {fit.headroom:.0%} free" if fit else "no instance of the catalogue"
            click.echo(f"  {side:<9} smallest that fits: {text}")
    for generation, looked in found.checks.items():
        click.echo(f"  {generation:<9} {sum(looked.operators.values())} operator calls of {len(looked.operators)} kinds, by {looked.how}")
    if found.unchecked:
        click.echo(f"  operators not looked at: {found.unchecked}")
    for finding in found.findings:
        click.echo(f"  {finding.severity}: {finding.code}: {finding.because}")
        if finding.next:
            click.echo(f"           instead: {finding.next}")
    if opinion:
        click.echo(f"  hlo       {opinion.sentence}")


# -- diagnose ---------------------------------------------------------------------------------


@group.command(
    epilog="\b\nExamples:\n  neuronfit diagnose log-neuron-cc.txt\n  kubectl logs pod | neuronfit diagnose -\n  neuronfit diagnose compile.log --for inf2 --params params/bert-base-uncased.yaml"
)
@click.argument("log", type=click.Path(path_type=Path, allow_dash=True))
@click.option("--for", "target", help="Make the log step 3's evidence for this target (with --params).")
@click.option("--params", type=_params, help="The question it is evidence for.")
@_reports
@_as_json
def diagnose(log: Path, target: Optional[str], params: Optional[Path], reports: Optional[Path], as_json: bool) -> int:
    """What a Neuron compiler or runtime log means, and what to do. `-` reads standard input.

    Exit status: 0 the log says success, 1 a failure was found, 3 it cannot be told.
    """
    from neuronfit.diagnose import diagnose as judge

    if (target is None) != (params is None):
        raise BadInput("--for and --params go together", next="neuronfit diagnose LOG --for TARGET --params PARAMS")
    source: Any = sys.stdin.buffer if str(log) == "-" else log
    if params is not None and target is not None:
        from neuronfit.diagnose.evidence import adopt as adopt_log
        from neuronfit.question import Question

        record, found = adopt_log(Question.from_file(params, reports=reports), source, target)
    else:
        record, found = None, judge(source)
    if as_json:
        _print_json({"diagnosis": found.model_dump(mode="json"), "record": record.id if record else None})
    else:
        _say_diagnosis(found)
        if record:
            click.echo(f"adopted {record.id} for {target} | next: neuronfit run {params} --steps 3-8")
    return found.exit_status


def _say_diagnosis(found: Any) -> None:
    click.echo(found.sentence)
    click.echo(f"  phase    {found.phase}    code {found.code}    finding {found.finding.severity}: {found.finding.code}")
    click.echo(f"  sure?    {found.confidence}: {found.why}")
    for entry in found.evidence or found.informative:
        click.echo(f"  line {entry.line:<6} {entry.text}")
    for number, step in enumerate(found.steps, 1):
        click.echo(f"  {number}. {step}")
    for word, mentions in (("also", found.others), ("harmless", found.harmless)):
        for mention in mentions:
            click.echo(
                f"  {word:<8} line {mention.line}{f' and {mention.count - 1} more' if mention.count > 1 else ''}: {mention.title} ({mention.code})"
            )
    for name, value in found.facts.items():
        click.echo(f"  {name:<18} {value}")
    for what in found.missing:
        click.echo(f"  missing  {what}")


# -- report -----


# -- doctor -----------------------------------------------------------------------------------


@group.command(epilog="\b\nExample:\n  neuronfit doctor --json")
@_as_json
def doctor(as_json: bool) -> int:
    """What this host can do: devices, compilers, versions, and which steps can run here."""
    from neuronfit import system

    found = system.probe()
    abilities = {path: system.can_run(path) for path in ("cpu", "cuda", "neuron_xla", "neuron_native")}
    if as_json:
        _print_json(
            {"system": found.model_dump(mode="json"), "paths": {path: {"can_run": able, "because": why} for path, (able, why) in abilities.items()}}
        )
        return 0
    click.echo(f"host      {found.host}" + (f", {found.instance_type}" if found.instance_type else ""))
    click.echo(f"system    {found.os}, Python {found.python}")
    click.echo(f"cpu       {found.cpu}, {found.cores_physical} cores")
    click.echo(f"memory    {_gib(found.memory_available_bytes)} of {_gib(found.memory_bytes)} available")
    for part in found.accelerators:
        click.echo(f"device    {part.count} x {part.name}" + (f", driver {part.driver}" if part.driver else ""))
    click.echo("packages  " + ", ".join(f"{name} {version}" for name, version in found.packages.items()))
    click.echo("")
    for path, (able, why) in abilities.items():
        click.echo(f"{'can' if able else 'cannot':<7} measure on {path:<14} {why}")
    neuron = any(abilities[path][0] for path in ("neuron_xla", "neuron_native"))
    click.echo("")
    click.echo("steps 1, 2, 5, 6, 7, 8 and the summary run on any host")
    click.echo(f"step 3    {'compiles here' if neuron else 'waits here: it needs the Neuron compiler'}")
    here = ", ".join(path for path, (able, _) in abilities.items() if able)
    click.echo(f"step 4    measures {here} here; other targets on their own hosts")
    return 0


def _gib(size: Optional[int]) -> str:
    return "unknown" if size is None else f"{size / 2**30:.1f} GiB"


# -- prices -----------------------------------------------------------------------------------


@group.group()
def prices() -> None:
    """The dated price snapshot."""


@prices.command("show", epilog="\b\nExample:\n  neuronfit prices show inf2.xlarge g6.xlarge --region us-east-1")
@click.argument("instance_types", nargs=-1)
@click.option("--region", default="us-east-1", show_default=True, help="AWS region, or `all`.")
@click.option("--option", help="Purchase option, such as on_demand; default: all.")
@_as_json
def prices_show(instance_types: tuple[str, ...], region: str, option: Optional[str], as_json: bool) -> int:
    """Show prices with their date and source."""
    from neuronfit.catalog import instances
    from neuronfit.catalog import prices as table

    for name in instance_types:
        instances.find(name)
    for what, value, known in (("--region", region, (*table.regions(), "all")), ("--option", option, (*table.options(), None))):
        if value not in known:
            raise BadInput(what, value, allowed=", ".join(entry for entry in known if entry))
    rows = [
        price
        for price in table.every()
        if price.status in ("current", "derived")
        and (not instance_types or price.instance_type in instance_types)
        and region in ("all", price.region)
        and option in (None, price.purchase_option)
    ]
    newest: dict[tuple[str, str, str], Any] = {}
    for price in sorted(rows, key=lambda price: (price.status == "current", price.as_of)):
        newest[(price.instance_type, price.region, price.purchase_option)] = price
    if not newest:
        from neuronfit.errors import NotFound

        raise NotFound(
            "no price for",
            f"{', '.join(instance_types) or 'any type'} in {region}, {option or 'any option'}",
            allowed="other regions and options",
            next="neuronfit prices show --region all",
        )
    shown = [newest[key] for key in sorted(newest)]
    if as_json:
        _print_json([_price_json(price) for price in shown])
        return 0
    click.echo(f"{'instance type':<18}{'region':<16}{'purchase option':<26}{'USD/h':>11}  {'as of':<12}source")
    for price in shown:
        click.echo(
            f"{price.instance_type:<18}{price.region:<16}{price.purchase_option:<26}{price.usd_per_hour:>11.5f}  {price.as_of:<12}{price.source} ({price.grade})"
        )
    return 0


def _price_json(price: Any) -> dict[str, Any]:
    return {
        "instance_type": price.instance_type,
        "region": price.region,
        "purchase_option": price.purchase_option,
        "usd_per_hour": float(price.usd_per_hour),
        "as_of": price.as_of,
        "grade": str(price.grade),
        "source": price.source,
    }


# -- printing ---------------------------------------------------------------------------------


def _print_json(data: Any) -> None:
    click.echo(json.dumps(data, indent=1, ensure_ascii=False))


def _shown(path: Path) -> str:
    """Relative to the working folder where that is shorter."""
    try:
        return str(path.resolve().relative_to(Path.cwd()))
    except ValueError:
        return str(path)


if __name__ == "__main__":
    main()
