"""The parity file: one side's kept outputs, in one file that travels between hosts.

An .npz file (numpy) with the arrays of :class:`~neuronfit.parity.answers.Answers` and a header in JSON
that identifies question, weights, inputs and settings, and holds a hash of the arrays.
"""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Union

import numpy as np
from pydantic import ValidationError

from neuronfit.errors import BadRecord
from neuronfit.files import write_whole
from neuronfit.parity.answers import Answers
from neuronfit.record import ParitySide, WorkloadRef

__all__ = ["FORMAT", "Reference", "read", "write"]

FORMAT = "neuronfit-parity/1"

_ARRAYS = tuple(one.name for one in fields(Answers) if one.name not in ("kind", "width", "before", "after"))


@dataclass(frozen=True)
class Reference:
    """Outputs of one side and what they were computed with."""

    workload: WorkloadRef
    task: str
    side: ParitySide
    answers: Answers
    shape: dict[str, Any]
    seed: int = 0


def write(reference: Reference, path: Path) -> None:
    """Write the file whole or not at all. Raises :class:`~neuronfit.errors.NotWritable`."""
    arrays = {name: array for name in _ARRAYS if (array := getattr(reference.answers, name)) is not None}
    header = {
        "format": FORMAT,
        "workload": reference.workload.model_dump(),
        "task": reference.task,
        "shape": reference.shape,
        "seed": reference.seed,
        "side": reference.side.model_dump(exclude={"file_sha256"}),
        "kind": reference.answers.kind,
        "width": reference.answers.width,
    }
    header["content_sha256"] = _digest(header, arrays)
    buffer = io.BytesIO()
    np.savez_compressed(buffer, header=np.frombuffer(json.dumps(header).encode(), np.uint8), **arrays)  # type: ignore[arg-type]
    write_whole(path, buffer.getvalue())


def read(path: Union[str, Path]) -> Reference:
    """Read a parity file. Raises :class:`~neuronfit.errors.BadRecord`, one line, when it is missing, truncated or foreign."""
    path, again = Path(path), "copy it again from the host that wrote it"
    try:
        data = path.read_bytes()
    except OSError as error:
        raise BadRecord(f"cannot read the parity file ({error.strerror})", str(path), allowed="a file written by neuronfit parity --out") from None
    try:
        with np.load(io.BytesIO(data), allow_pickle=False) as stored:
            arrays = {name: stored[name] for name in stored.files}
    except (zipfile.BadZipFile, ValueError, EOFError, OSError, KeyError, NotImplementedError) as error:
        reason = " ".join(str(error).split())[:80]
        raise BadRecord(f"the parity file is truncated or no parity file ({reason})", str(path), next=again) from None
    try:
        header = json.loads(arrays.pop("header").tobytes())
        found = header["format"]
        if found != FORMAT:
            raise BadRecord("the parity file has format", found, allowed=FORMAT, next="update neuronfit on the older of the two hosts")
        if header.pop("content_sha256") != _digest(header, arrays):
            raise BadRecord("the parity file was changed after it was written", str(path), next=again)
        answers = Answers(kind=header["kind"], width=header["width"], **{name: array for name, array in arrays.items() if name in _ARRAYS})
        side = ParitySide(**header["side"], file_sha256=hashlib.sha256(data).hexdigest())
        return Reference(WorkloadRef(**header["workload"]), header["task"], side, answers, header["shape"], header["seed"])
    except (KeyError, TypeError, AttributeError, ValueError, ValidationError) as error:
        reason = " ".join(str(error).split())[:80]
        raise BadRecord(f"not a parity file of this project ({reason})", str(path), allowed="a file written by neuronfit parity --out") from None


def _digest(header: dict[str, Any], arrays: dict[str, np.ndarray]) -> str:
    digest = hashlib.sha256(json.dumps(header, sort_keys=True).encode())
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        digest.update(f"{name} {array.dtype.str} {array.shape}\n".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()
