"""Everything that can go wrong, readable in a minute.

Each error says, on one line: what is wrong, the value, what is allowed (or nearest), what to type
next. ``exit_status`` is what the command line ends with.

    NeuronFitError
    |-- BadInput              exit 2   what was typed or read cannot be used
    |   |-- BadParams                  a params file or notebook parameter
    |   |-- BadRecord                  a record file that is truncated, foreign or of another question
    |   |-- NotFound                   a name that is not in the catalogue, with the nearest ones
    |   |-- NotComparable              two numbers that must not be put side by side
    |   |-- MissingPackage             an optional package is not installed on this host
    |   `-- NotWritable                a folder or file that cannot be written
    |-- CheckFailed           exit 1   a blocker was found, or a criterion failed
    `-- WaitingForEvidence    exit 3   nothing is wrong, something is missing
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Any, Optional

__all__ = [
    "BadInput",
    "BadParams",
    "BadRecord",
    "CheckFailed",
    "MissingPackage",
    "NeuronFitError",
    "NotComparable",
    "NotFound",
    "NotWritable",
    "WaitingForEvidence",
    "nearest",
]

_NOTHING = object()


class NeuronFitError(Exception):
    """Base of all errors of this package; ``str()`` is always one line."""

    exit_status = 2

    def __init__(self, what: str, value: Any = _NOTHING, *, allowed: Optional[str] = None, next: Optional[str] = None):
        self.what, self.allowed, self.next = what, allowed, next
        self.value = None if value is _NOTHING else value
        parts = [what if value is _NOTHING else f"{what}: {_short(value)}"]
        parts += [f"allowed: {allowed}"] if allowed else []
        parts += [f"next: {next}"] if next else []
        super().__init__(" | ".join(" ".join(str(part).split()) for part in parts))

    def _render_traceback_(self) -> list[str]:
        """What a notebook shows instead of a traceback: the one line (a hook of IPython)."""
        return [f"{type(self).__name__}: {self}"]


class BadInput(NeuronFitError):
    """What was typed or read cannot be used."""


class BadParams(BadInput):
    """A params file, or a parameter of a notebook, is not a question we can answer."""


class BadRecord(BadInput):
    """A file is not a record of this project, is damaged, or answers another question."""


class NotFound(BadInput):
    """A name is not in the catalogue; the message lists the nearest names."""


class NotComparable(BadInput):
    """Two numbers that must not be put side by side (price basis, unit, currency)."""


class MissingPackage(BadInput):
    """An optional package is needed here and is not installed."""


class NotWritable(BadInput):
    """A file or folder cannot be written."""


class CheckFailed(NeuronFitError):
    """A blocker was found or a criterion failed."""

    exit_status = 1


class WaitingForEvidence(NeuronFitError):
    """Nothing is wrong; something has to be measured first."""

    exit_status = 3


def nearest(name: str, known: Iterable[str], count: int = 3) -> list[str]:
    """The known names most like ``name`` (best first), ignoring case; may be empty."""
    by_lower = {known_name.lower(): known_name for known_name in known}
    close = difflib.get_close_matches(str(name).lower(), by_lower, n=count, cutoff=0.5)
    return [by_lower[match] for match in close]


def _short(value: Any, limit: int = 120) -> str:
    text = value if isinstance(value, str) else repr(value)
    text = f"'{text}'" if isinstance(value, str) else text
    return text if len(text) <= limit else text[: limit - 3] + "..."
