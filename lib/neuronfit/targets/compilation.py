"""One compilation in a process of its own, so that a compiler that crashes or is killed is a record too.

:func:`apart` starts ``python -m neuronfit.targets.compilation``, which calls :func:`run`, and watches it:
memory of the process and its children together, everything that they print, how they ended. A fresh
interpreter is started and nothing is forked: neither OpenMP nor a Neuron runtime survives a fork.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import traceback
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Optional

from neuronfit import targets
from neuronfit.errors import BadInput, NeuronFitError, WaitingForEvidence
from neuronfit.params import Shape

if TYPE_CHECKING:
    from neuronfit.targets import Subject

__all__ = ["Job", "Outcome", "apart", "memory_of", "run"]

SAMPLE_S = 0.1
"""Time between two looks at the memory, seconds."""

LOG = "output.log"
COMPILER_LOG = "log-neuron-cc.txt"
"""What neuronx-cc calls its log, in its working folder."""


@dataclass(frozen=True)
class Job:
    """What to do: compile one shape, or ``analyze`` the operators at that shape (neuron_xla only)."""

    subject: Subject
    path: str
    shape: Shape
    analyze: bool = False

    def to_json(self) -> str:
        weights = self.subject.weights
        subject = {
            **dataclasses.asdict(dataclasses.replace(self.subject, inputs=None)),
            "weights": weights if weights == "random" else str(Path(weights).resolve()),
        }
        return json.dumps({"subject": subject, "path": self.path, "shape": self.shape.model_dump(), "analyze": self.analyze})

    @classmethod
    def from_json(cls, text: str) -> "Job":
        data = json.loads(text)
        return cls(targets.Subject(**data["subject"]), data["path"], Shape(**data["shape"]), data["analyze"])


@dataclass(frozen=True)
class Outcome:
    """What came of it. ``status`` is ``done``, ``failed`` (an exception), ``killed`` (``signal`` says by which) or ``waiting``."""

    status: str
    seconds: Optional[float] = None
    because: str = ""
    """message of the exception, or what is waited for"""
    next: Optional[str] = None
    unproven: bool = False
    """waiting, because nothing shows that a graph was compiled"""
    signal: Optional[int] = None
    flags: tuple[str, ...] = ()
    proof: Optional[str] = None
    cached: Optional[bool] = None
    cached_because: Optional[str] = None
    artefact_bytes: Optional[int] = None
    artefact_sha256: Optional[str] = None
    peak_memory_bytes: Optional[int] = None
    analysis: Optional[dict[str, Any]] = None
    log: Optional[Path] = field(default=None, compare=False)
    """everything that was printed, the compiler's own log first"""


# -- in the process of its own ----------------------------------------------------------------


def run(job: Job, folder: Path) -> Outcome:
    """Do it here. Compile time runs from before the compiler is called to after it has answered, without building the model.

    Raises :class:`~neuronfit.errors.NeuronFitError` where the question itself cannot be asked (a
    shape that the model does not hold); what the compiler raises is in the outcome.
    """
    known: dict[str, Any] = {}
    start = time.perf_counter()
    try:
        thing: Any = targets.for_path(job.path)(job.subject)
        known["flags"] = tuple(thing.compiler_args)
        thing.build(job.shape)
        start = time.perf_counter()
        if job.analyze:
            analysis = thing.analyze(folder / "analysis")
            return Outcome("done", time.perf_counter() - start, analysis=json.loads(json.dumps(analysis, default=str)), **known)
        thing.compile(folder / "work")
        known |= {"proof": thing.proof, "cached": thing.cached, "cached_because": thing.cached_because}
    except WaitingForEvidence as error:
        return Outcome("waiting", because=error.what, next=error.next, unproven=isinstance(error, targets.NotProven), **known)
    except NeuronFitError:
        raise
    except Exception as error:  # the compiler documents no exception types; its message is the answer
        traceback.print_exc()
        return Outcome("failed", time.perf_counter() - start, because=f"{type(error).__name__}: {error}", **known)
    taken = time.perf_counter() - start
    size, digest = artefact(thing, folder)
    return Outcome("done", taken, artefact_bytes=size, artefact_sha256=digest, **known)


def artefact(thing: Any, folder: Path) -> tuple[Optional[int], Optional[str]]:
    """Bytes and sha256 of the compiled files together, in name order; ``None`` when there are none to see."""
    saved = folder / "artefact"
    saved.mkdir()
    paths = thing.save(saved)
    if not paths:
        return None, None
    digest, size = hashlib.sha256(), 0
    for path in paths:
        with open(path, "rb") as file:
            while block := file.read(2**20):
                digest.update(block)
                size += len(block)
    shutil.rmtree(saved)
    return size, digest.hexdigest()


def main(folder: Path) -> None:
    """The process of its own: ``job.json`` in, ``outcome.json`` out."""
    try:
        made = dataclasses.asdict(run(Job.from_json((folder / "job.json").read_text(encoding="utf-8")), folder))
    except NeuronFitError as error:
        made = {"status": "refused", "because": str(error)}
    made["peak_memory_bytes"] = _high_water()
    written = folder / "outcome.part"
    written.write_text(json.dumps({name: value for name, value in made.items() if name != "log"}), encoding="utf-8")
    written.rename(folder / "outcome.json")


def _high_water() -> Optional[int]:
    """Peak resident bytes of this process alone. ``getrusage`` would count the parent's memory before ``exec``."""
    try:
        found = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text(encoding="ascii"))
    except OSError:
        return None
    return int(found[1]) * 1024 if found else None


# -- in the process that asks -----------------------------------------------------------------


def apart(job: Job, folder: Path) -> Outcome:
    """Do it in a process of its own, in an empty ``folder`` that is its working folder too. Waits as long as it takes.

    Raises :class:`~neuronfit.errors.BadInput` where the question itself cannot be asked. On an
    interruption the process and its children are ended.
    """
    (folder / "job.json").write_text(job.to_json(), encoding="utf-8")
    found = os.pathsep.join(str(Path(entry).resolve()) for entry in sys.path)
    environment = {**os.environ, "PYTHONPATH": found, "PYTHONUNBUFFERED": "1", "PYTHONFAULTHANDLER": "1"}
    environment["TORCH_NEURONX_DEBUG_DIR"] = str(folder / "work")
    with open(folder / LOG, "wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "neuronfit.targets.compilation", str(folder)],
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        start, peak = time.perf_counter(), 0
        try:
            while True:
                peak = max(peak, memory_of(process.pid))
                try:
                    process.wait(SAMPLE_S)
                    break
                except subprocess.TimeoutExpired:
                    continue
        finally:
            _end(process)
    taken = time.perf_counter() - start
    return _ended(folder, process.returncode, taken, peak or None)


def memory_of(pid: int) -> int:
    """Resident bytes of a process and its children now; pages that they share count for each. 0 when it has ended."""
    import psutil

    try:
        first = psutil.Process(pid)
        every = [first, *first.children(recursive=True)]
    except psutil.Error:
        return 0
    total = 0
    for one in every:
        try:
            total += one.memory_info().rss
        except psutil.Error:  # it ended between two looks
            continue
    return total


def _end(process: subprocess.Popen) -> None:
    """End what is left of the process and everything it started (they are one session)."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        pass
    process.wait()


def _ended(folder: Path, status: int, seconds: float, peak: Optional[int]) -> Outcome:
    log = _whole_log(folder)
    try:
        made = json.loads((folder / "outcome.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        made = None
    if made is None:
        how = f"by signal {-status} ({signal.Signals(-status).name})" if status < 0 else f"with status {status}"
        return Outcome(
            "killed" if status < 0 else "failed",
            seconds,
            because=f"the compiling process ended {how}",
            signal=-status if status < 0 else None,
            peak_memory_bytes=peak,
            log=log,
        )
    if made["status"] == "refused":
        raise BadInput(made["because"])
    made["flags"] = tuple(made["flags"])
    made["peak_memory_bytes"] = max(made["peak_memory_bytes"] or 0, peak or 0) or None
    return Outcome(**made, log=log)


def _whole_log(folder: Path) -> Path:
    """The compiler's own logs, then what was printed: the root of a failure stands before what it caused."""
    own = sorted(folder.rglob(COMPILER_LOG))
    if not own:
        return folder / LOG
    whole = folder / "whole.log"
    with open(whole, "wb") as out:
        for path in (*own, folder / LOG):
            with open(path, "rb") as part:
                shutil.copyfileobj(part, out)
            out.write(b"\n")
    return whole


if __name__ == "__main__":
    main(Path(sys.argv[1]))
