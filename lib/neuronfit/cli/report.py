"""`neuronfit report`: the HTML and JSON again."""

from __future__ import annotations

from pathlib import Path

import click

from neuronfit.cli.common import as_json_option, group, shown


@group.command(epilog="\b\nExample:\n  neuronfit report reports/bert-base-uncased")
@click.argument("dossier", type=click.Path(path_type=Path))
@as_json_option
def report(dossier: Path, as_json: bool) -> int:
    """Rebuild the HTML and JSON of a dossier from its records."""
    from neuronfit import report as reporting
    from neuronfit.dossier import Dossier

    html, data = reporting.write(Dossier(dossier))
    if as_json:
        click.echo(data.read_text(encoding="utf-8"), nl=False)
    else:
        click.echo(f"report: {shown(html)}")
    return 0
