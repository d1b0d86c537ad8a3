"""Several targets of one path side by side, each in a process of its own: how an instance is kept busy.

One call is one batch on every worker at once, and ends when the last has answered; its results are
those of all workers. On Neuron each worker sees one core (``NEURON_RT_VISIBLE_CORES``), of several GPUs one
(``CUDA_VISIBLE_DEVICES``), on a CPU it gets its share of the threads. A fresh interpreter is started for each and nothing is forked: neither
OpenMP nor a Neuron runtime survives a fork. The first worker of ``neuron_xla`` compiles and saves, the
others load what it saved.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Optional

from neuronfit import targets
from neuronfit.errors import BadInput, NeuronFitError, WaitingForEvidence
from neuronfit.params import Shape
from neuronfit.targets import Subject
from neuronfit.targets.compilation import Job

__all__ = ["Workers"]

CORE = "NEURON_RT_VISIBLE_CORES"
GPU = "CUDA_VISIBLE_DEVICES"
LOG = "worker.log"


class Workers:
    """``settings.workers`` copies of a target. Ends its processes when it is closed or forgotten."""

    def __init__(self, path: str, subject: Subject):
        kind = targets.for_path(path)
        self.path, self.subject = path, subject
        self.settings = kind.settings
        self.count = subject.count("workers", 1)
        self._one = kind(subject)
        self._processes: list[subprocess.Popen[bytes]] = []
        self._folder: Optional[Path] = None

    def prepare(self, shape: Shape) -> None:
        """Start the workers and wait until each is ready, the first before the others. Raises as the target itself would."""
        self.close()
        self._folder = Path(tempfile.mkdtemp(prefix="neuronfit-workers-"))
        job = Job(self.subject, self.path, shape).to_json()
        given = self._inputs(shape)
        shares_artefact = hasattr(self._one, "load")
        artefact = self._folder / "model.pt"
        for number in range(self.count):
            order = {"job": job, "inputs": given, "save": str(self._folder) if shares_artefact and number == 0 else None}
            order["load"] = str(artefact) if shares_artefact and number and artefact.exists() else None
            self._processes.append(self._start(number, order))
            if number == 0:
                self._answer(0)
        for number in range(1, self.count):
            self._answer(number)

    def _inputs(self, shape: Shape) -> Optional[str]:
        """The file with the inputs that the params file names, made once; ``None`` where each worker makes them up."""
        if self.subject.inputs is None:
            return None
        import torch

        path = self._folder / "inputs.pt"  # type: ignore[operator]
        torch.save(targets.inputs_of(self.subject, shape), path)
        return str(path)

    def place(self, number: int) -> dict[str, str]:
        """Environment that puts a worker on its NeuronCore or GPU."""
        if self.path.startswith("neuron"):
            return {CORE: str(number)}
        if self.path == "cuda":
            from neuronfit.targets.cuda import gpu_of_worker

            return {GPU: gpu_of_worker(number, os.environ.get(GPU), self._gpus())}
        return {}

    def _gpus(self) -> int:
        import torch

        return torch.cuda.device_count()

    def _start(self, number: int, order: Mapping[str, Any]) -> subprocess.Popen[bytes]:
        found = os.pathsep.join(str(Path(entry).resolve()) for entry in sys.path)
        environment = {**os.environ, "PYTHONPATH": found, **self.place(number)}
        with open(self._folder / f"{number}-{LOG}", "wb") as log:  # type: ignore[operator]
            process = subprocess.Popen(
                [sys.executable, "-m", "neuronfit.targets.workers"],
                cwd=self._folder,
                env=environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
            )
        process.stdin.write(json.dumps(order).encode() + b"\n")  # type: ignore[union-attr]
        process.stdin.flush()  # type: ignore[union-attr]
        return process

    def _answer(self, number: int) -> None:
        """One line of a worker: ``ok``, or what went wrong."""
        line = self._processes[number].stdout.readline()  # type: ignore[union-attr]
        if line == b"ok\n":
            return
        if not line:
            status = self._processes[number].wait()
            raise RuntimeError(f"worker {number + 1} of {self.count} ended with status {status}: {self._last_line(number)}")
        said = json.loads(line)
        if said["kind"] == "waiting":
            raise WaitingForEvidence(said["what"], next=said["next"])
        if said["kind"] == "refused":
            raise BadInput(said["what"])
        raise RuntimeError(f"worker {number + 1} of {self.count}: {said['what']}")

    def _last_line(self, number: int) -> str:
        try:
            lines = (self._folder / f"{number}-{LOG}").read_text(encoding="utf-8", errors="replace").split("\n")  # type: ignore[operator]
        except OSError:
            return "no message"
        return next((line.strip()[:200] for line in reversed(lines) if line.strip()), "no message")

    def _tell(self, word: bytes) -> None:
        for process in self._processes:
            process.stdin.write(word)  # type: ignore[union-attr]
            process.stdin.flush()  # type: ignore[union-attr]

    def issue(self) -> None:
        self._pending = getattr(self, "_pending", 0) + 1
        self._tell(b"call\n")

    def drain(self) -> None:
        pending, self._pending = self._pending, 0
        for _ in range(pending):
            for number in range(self.count):
                self._answer(number)

    def read_back(self) -> tuple[Any, ...]:
        """Every worker fetches its answer from its device once more."""
        self._tell(b"read\n")
        for number in range(self.count):
            self._answer(number)
        return ()

    def describe(self) -> dict[str, Any]:
        described = {**self._one.describe(), "workers": self.count}
        if described.get("neuroncores_used"):
            described["neuroncores_used"] = self.count
        if self.path == "cuda":
            described["accelerators_used"] = min(self.count, max(1, self._gpus()))
        return described

    def close(self) -> None:
        """End the workers and forget what they left behind."""
        for process in self._processes:
            for end in (process.stdin, process.stdout):
                with contextlib.suppress(OSError):
                    end.close()  # type: ignore[union-attr]
            process.kill()
            process.wait()
        self._processes = []
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None

    def __del__(self) -> None:
        with contextlib.suppress(Exception):
            self.close()


# -- in a worker ------------------------------------------------------------------------------


def work(order: Mapping[str, Any], lines: Any, say: Any) -> None:
    """Prepare once, then one call per line. What libraries print goes to the log, not to ``say``."""
    job = Job.from_json(order["job"])
    try:
        thing: Any = targets.for_path(job.path)(job.subject)
        if order["load"]:
            thing.load(Path(order["load"]), job.shape)
        else:
            thing.prepare(job.shape)
        if order["inputs"]:
            import torch

            thing.feed(torch.load(order["inputs"], weights_only=True))
        if order["save"]:
            thing.save(Path(order["save"]))
    except WaitingForEvidence as error:
        return say({"kind": "waiting", "what": error.what, "next": error.next})
    except NeuronFitError as error:
        return say({"kind": "refused", "what": str(error)})
    except Exception as error:  # the compiler and the runtime raise their own
        return say({"kind": "failed", "what": f"{type(error).__name__}: {error}"})
    say(None)
    for line in lines:
        try:
            if line == b"read\n":
                for one in (getattr(thing, "read_back", None) or thing.outputs)():
                    one.reshape(-1)[-1:].tolist()
            else:
                thing.issue()
                thing.drain()
        except Exception as error:
            say({"kind": "failed", "what": f"{type(error).__name__}: {error}"})
            continue
        say(None)


def main() -> None:
    """The process of its own: an order and calls on standard input, one line each on standard output."""
    answers = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)  # a library that prints must not be taken for an answer

    def say(problem: Optional[Mapping[str, Any]]) -> None:
        answers.write(b"ok\n" if problem is None else json.dumps(problem).encode() + b"\n")

    work(json.loads(sys.stdin.buffer.readline()), iter(sys.stdin.buffer.readline, b""), say)


if __name__ == "__main__":
    main()
