"""Writing files so that nothing is ever half there."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Union

from neuronfit.errors import NotWritable

__all__ = ["check_writable", "write_whole"]


def write_whole(path: Path, text: Union[str, bytes]) -> None:
    """Write ``text`` (in UTF-8) or bytes to a temporary name beside ``path`` and rename it, creating the folder if needed.

    A reader, and whatever interrupts us, sees the old file or the new one and nothing between. Raises
    :class:`~neuronfit.errors.NotWritable`.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(prefix=".", suffix=".tmp", dir=path.parent)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(text.encode("utf-8") if isinstance(text, str) else text)
                file.flush()
                os.fsync(file.fileno())
            os.chmod(temporary, 0o644)
            os.replace(temporary, path)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise _refused(path.parent, error) from None


def check_writable(folder: Path) -> None:
    """Find out before anything runs. Raises :class:`~neuronfit.errors.NotWritable`."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise _refused(folder, error) from None


def _refused(folder: Path, error: OSError) -> NotWritable:
    return NotWritable(f"the folder cannot be written ({error.strerror or error})", str(folder), next="choose another with --reports DIR")
