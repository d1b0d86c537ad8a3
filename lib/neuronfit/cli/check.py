"""`neuronfit check`: would it run on Neuron?"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any, Optional

import click

from neuronfit.cli.common import as_json_option, group, params_path, print_json


@group.command(epilog="\b\nExamples:\n  neuronfit check config.json\n  neuronfit check params/bert-base-uncased.yaml --source ../service")
@click.argument("model", type=params_path)
@click.option("--task", help="What the model is asked to do, such as fill-mask; default: what its kind usually does.")
@click.option("--batch", "batch_size", type=click.IntRange(min=1), help="Sequences per call; default: 1, or the params file's.")
@click.option("--sequence", "sequence_length", type=click.IntRange(min=1), help="Tokens per sequence; default: 128, or the params file's.")
@click.option("--output", "output_length", type=click.IntRange(min=1), help="Tokens generated per sequence.")
@click.option("--precision", type=click.Choice(["fp32", "bf16", "fp16", "int8"]), help="Number format; default: bf16, or the params file's.")
@click.option("--generation", "generations", multiple=True, help="inf1, inf2, trn1, trn2 or trn3; may be repeated. Default: inf2 and trn2.")
@click.option("--experts", type=click.Choice(["grouped_mm", "batched_mm", "eager"]), help="How transformers computes a mixture of experts.")
@click.option("--source", type=params_path, help="A source tree to scan for CUDA-only packages and calls.")
@click.option("--hlo", "with_hlo", is_flag=True, help="Lower the model too and look up its opcodes (needs the extra neuronfit[hlo]).")
@as_json_option
def check(
    model: Path,
    task: Optional[str],
    batch_size: Optional[int],
    sequence_length: Optional[int],
    output_length: Optional[int],
    precision: Optional[str],
    generations: tuple[str, ...],
    experts: Optional[str],
    source: Optional[Path],
    with_hlo: bool,
    as_json: bool,
) -> int:
    """Would it run on Neuron? Operators, memory and dependencies of a model, without weights.

    MODEL is a config.json, a folder that holds one, or a params file. Exit status: 0 no documented blocker found, 1 a
    blocker was found, 3 no blocker was found but operators could not be looked at.
    """
    from neuronfit import check as checking
    from neuronfit.examine import examine

    asked = _asked_for(model)
    given = {"task": task, "batch_size": batch_size, "sequence_length": sequence_length, "output_length": output_length, "precision": precision}
    asked.update({key: value for key, value in given.items() if value is not None})
    targets = tuple(checking.usual_target(generation) for generation in generations)
    found = examine(**asked, targets=targets, source=str(source) if source else None, experts=experts)
    opinion = _second_opinion(asked["config"], found) if with_hlo else None
    if as_json:
        print_json(found.plain() | ({"hlo": dataclasses.asdict(opinion)} if opinion else {}))
    else:
        _say_examination(found, opinion)
    return 1 if found.blockers else 3 if found.waiting else 0


def _second_opinion(config: Any, found: Any) -> Any:
    """At HLO level; where the model is not one of our tasks, that is the answer."""
    from neuronfit import hlo
    from neuronfit.errors import BadParams

    if found.task is None:
        return hlo.HloOpinion({}, {}, {}, error="only whole models with one of our tasks are lowered")
    try:
        return hlo.second_opinion(config, found.task, **found.shape)
    except BadParams as error:
        return hlo.HloOpinion({}, {}, {}, error=str(error))


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
            f"  model     {anatomy.kind}, {metric('parameters').text(anatomy.parameters)} parameters, {f'{anatomy.layers} layers, ' if anatomy.layers else ''}{anatomy.graphs} graph{'s' if anatomy.graphs > 1 else ''} to compile"
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
    if found.waiting:
        click.echo(f"  waiting   operators not looked at: {found.unchecked}")
        click.echo("            silence about them is no answer: only the compiler can say (step 3), or check the parts one by one")
    for finding in found.findings:
        click.echo(f"  {finding.severity}: {finding.code}: {finding.because}")
        if finding.next:
            click.echo(f"           instead: {finding.next}")
    if opinion:
        click.echo(f"  hlo       {opinion.sentence}")
