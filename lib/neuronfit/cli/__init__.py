"""`neuronfit`: the command line.

Exit status: 0 done, 1 a check failed, 2 usage or bad input (one line), 3 waiting for evidence,
130 interrupted. ``--json`` prints records instead of text; progress goes to standard error, and
only to a terminal.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
from typing import Optional

import click

from neuronfit.cli import adopt, check, diagnose, doctor, measure, monitor, parity, prices, report, run, traffic, trial  # noqa: F401  each adds its command to the group
from neuronfit.cli.common import INTERRUPTED, group
from neuronfit.errors import NeuronFitError

__all__ = ["main"]

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # before torch is imported; see series.ENVIRONMENT


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
        logging.getLogger("asyncio").setLevel(logging.CRITICAL)  # a task that ended with its kernel has nothing to add
        _fail("interrupted | every record admitted so far is kept | next: the same command with --resume", INTERRUPTED)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        status = 0
    sys.exit(status if isinstance(status, int) else 0)


def _fail(message: str, status: int) -> None:
    click.echo(f"neuronfit: {' '.join(message.split())}", err=True)
    sys.exit(status)
