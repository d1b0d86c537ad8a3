"""What a Neuron compiler or runtime log means: did it succeed, what failed, why, what to do.

    from neuronfit.diagnose import diagnose
    print(diagnose("log-neuron-cc.txt").sentence)

===============  ===========================================================================
``scan``         reads the stream once, in bounded memory, and keeps the lines that matter
``reading``      lines -> messages of the catalogue, in order, and facts
``support``      shares of operators, and the JSON of ``analyze()``
``meaning``      kind of failure -> finding, severity, steps
``cause``        the operator, size or count that this log names
``verdict``      all of it -> one answer
``private``      masks ids, hosts, accounts, users and tokens in what is shown
``evidence``     a diagnosed log -> step 3's record for a target
===============  ===========================================================================
"""

from __future__ import annotations

import io
import os
import zlib
from pathlib import Path
from typing import BinaryIO, Union

from neuronfit.diagnose import reading
from neuronfit.diagnose.diagnosis import Diagnosis, Evidence, Mention
from neuronfit.diagnose.scan import scan
from neuronfit.diagnose.verdict import verdict
from neuronfit.errors import BadInput

__all__ = ["Diagnosis", "Evidence", "Mention", "diagnose"]


def diagnose(log: Union[str, "os.PathLike[str]", BinaryIO]) -> Diagnosis:
    """Diagnose a log: a path, or a stream opened in binary mode that is read to its end.

    Any length, one pass, bounded memory; plain text, gzip, or ``analyze()`` JSON. Raises
    :class:`~neuronfit.errors.BadInput` when it cannot be read or is not text.
    """
    if isinstance(log, (str, os.PathLike)):
        path = Path(log)
        try:
            with open(path, "rb") as stream:
                return _diagnose(stream, str(path))
        except OSError as error:
            raise BadInput(
                f"cannot read the log ({error.strerror or error})", str(path), next="neuronfit diagnose LOG, or - for standard input"
            ) from None
    if isinstance(log, io.TextIOBase):
        raise TypeError("the log must be opened in binary mode")
    return _diagnose(log, getattr(log, "name", "the stream"))


def _diagnose(stream: BinaryIO, name: str) -> Diagnosis:
    try:
        found = scan(stream, reading.texts())
    except (EOFError, zlib.error) as error:
        raise BadInput(f"the compressed log is damaged ({error})", name, next="unpack it and give the text") from None
    if found.binary:
        raise BadInput(
            "not a log: the file is binary", name, allowed="text, gzipped text or JSON", next="give the log that was printed, not the compiled model"
        )
    return verdict(found)
