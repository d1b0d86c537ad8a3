"""`neuronfit doctor`: what this host can do."""

from __future__ import annotations

from typing import Optional

import click

from neuronfit.cli.common import as_json_option, group, print_json


@group.command(epilog="\b\nExample:\n  neuronfit doctor --json")
@as_json_option
def doctor(as_json: bool) -> int:
    """What this host can do: devices, compilers, versions, and which steps can run here."""
    from neuronfit import system

    found = system.probe()
    abilities = {path: system.can_run(path) for path in ("cpu", "cuda", "neuron_xla", "neuron_native")}
    if as_json:
        print_json(
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
