"""What the commands share: the group, options that several take, and printing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

__all__ = ["INTERRUPTED", "as_json_option", "group", "params_path", "print_json", "reports_option", "shown"]

INTERRUPTED = 130
"""Exit status after Ctrl-C."""

reports_option = click.option("--reports", type=click.Path(path_type=Path), metavar="DIR", help="Folder of the dossiers (default: reports/).")
as_json_option = click.option("--json", "as_json", is_flag=True, help="Print the record as JSON.")
params_path = click.Path(path_type=Path)


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name="neuronfit", message="neuronfit %(version)s")
def group() -> None:
    """Should this workload move from GPU instances to AWS Trainium or Inferentia?

    \b
    neuronfit run params/bert-base-uncased.yaml     the whole series, and the HTML report
    neuronfit doctor                                what this host can do
    """


def print_json(data: Any) -> None:
    click.echo(json.dumps(data, indent=1, ensure_ascii=False))


def shown(path: Path) -> str:
    """Relative to the working folder where that is shorter."""
    try:
        return str(path.resolve().relative_to(Path.cwd()))
    except ValueError:
        return str(path)
