"""Device monitors while something is measured: one sample a second, by a process of its own that ends with the measurement.

`nvidia-smi` on a GPU, `neuron-monitor` on NeuronCores; nothing is started for a CPU. What they print is
read as any adopted file is, and becomes a record beside the measurement. A tool that is absent or refuses
is recorded as that, one that began late, fell silent or ended early as having watched a part only; a
measurement never fails or waits because of its monitor.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Optional

from neuronfit.provenance import Grade, Measured, absent
from neuronfit.record import Finding, Monitor, Severity

if TYPE_CHECKING:
    from neuronfit.adopt.monitors.summary import Summary
    from neuronfit.params import Target
    from neuronfit.record import WorkloadRef
    from neuronfit.system import System

__all__ = ["Watch", "monitoring"]

TOOL = {"cuda": "nvidia-smi", "neuron_xla": "neuron-monitor", "neuron_native": "neuron-monitor"}
"""Software path -> what watches its devices."""

FIELDS = (
    *("timestamp", "index", "name", "driver_version", "utilization.gpu", "utilization.memory", "memory.used", "memory.total"),
    *("power.draw", "power.limit", "temperature.gpu", "clocks.sm", "mig.mode.current", "ecc.errors.uncorrected.volatile.total"),
)
"""Asked of every driver of the last ten years; one field that a driver does not know would fail them all."""

NEURON_CONFIG = {
    "period": "1s",
    "neuron_runtimes": [{"tag_filter": ".*", "metrics": [{"type": name} for name in ("neuroncore_counters", "memory_used", "execution_stats")]}],
    "system_metrics": [{"type": name} for name in ("vcpu_usage", "memory_info", "neuron_hw_counters")],
}

STOP_S = 3.0
"""Seconds a monitor has to end when it is asked to; then it is ended."""

LARGEST = 1 << 30
"""Bytes kept of what a monitor prints; more is read and dropped."""

SILENT_S = 3.0
"""Seconds without a sample, at the beginning or at the end, that are told; also a tenth of the time watched, if that is longer."""


class Watch:
    """One monitor at work. ``why`` says why there is none, or why it left nothing."""

    def __init__(self, tool: Optional[str], instance_type: Optional[str] = None):
        self.tool, self.instance_type = tool, instance_type
        self.why = "" if tool else "nothing watches the devices of this path"
        self.summary: Optional[Summary] = None
        self._process: Optional[subprocess.Popen[bytes]] = None
        self._folder: Optional[str] = None
        self._copier: Optional[threading.Thread] = None
        self._began = self._first = self._last = self._ended = 0.0
        self._dropped = 0
        self._failed = ""

    def start(self) -> None:
        """Start the tool if it is there. Raises nothing."""
        if self.tool is None:
            return
        program = shutil.which(self.tool)
        if program is None:
            self.why = f"{self.tool} is not on the PATH"
            return
        try:
            self._folder = tempfile.mkdtemp(prefix="neuronfit-watch-")
            command = [program, f"--query-gpu={','.join(FIELDS)}", "--format=csv", "-l", "1"]
            if self.tool == "neuron-monitor":
                config = Path(self._folder) / "config.json"
                config.write_text(json.dumps(NEURON_CONFIG), encoding="utf-8")
                command = [program, "-c", str(config)]
            self._began = time.monotonic()
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True
            )
        except OSError as error:
            self.why = f"{self.tool} cannot be started ({error.strerror or error})"
            self._forget()
            return
        with contextlib.suppress(OSError, AttributeError):
            os.setpriority(os.PRIO_PROCESS, self._process.pid, 10)
        self._copier = threading.Thread(target=self._copy, args=(self._process,), name=f"neuronfit {self.tool}", daemon=True)
        self._copier.start()

    def _copy(self, process: subprocess.Popen[bytes]) -> None:
        """What the tool prints, into a file, in blocks and without looking at it. When this process dies the pipe breaks and the tool ends too."""
        room = LARGEST
        if process.stdout is None or self._folder is None:
            return
        try:
            with open(Path(self._folder) / "samples", "wb", buffering=0) as out:
                while block := os.read(process.stdout.fileno(), 1 << 16):
                    self._last = time.monotonic()
                    self._first = self._first or self._last
                    if room > 0:
                        out.write(block)
                    else:
                        self._dropped += len(block)
                    room -= len(block)
        except (OSError, ValueError) as error:  # no room on the disk, or the pipe was closed
            self._failed = f"what it printed cannot be kept ({getattr(error, 'strerror', None) or error})"
        self._ended = time.monotonic()

    def stop(self) -> None:
        """End the tool and read what it left, once. Raises nothing of the monitor's."""
        process, self._process = self._process, None
        if process is None:
            return
        stopped, early = time.monotonic(), process.poll()
        for number in (signal.SIGTERM, getattr(signal, "SIGKILL", signal.SIGTERM)):
            _signal(process, number)
            with contextlib.suppress(subprocess.TimeoutExpired):  # one that hangs in its driver cannot be ended: it is left
                process.wait(STOP_S)
                if number == signal.SIGTERM and _group_lives(process):
                    continue  # a child of it still holds the pipe
                break
        if self._copier is not None:
            self._copier.join(STOP_S)
        if process.stdout is not None and (self._copier is None or not self._copier.is_alive()):
            process.stdout.close()
        try:
            self._read(early, stopped)
        except Exception as error:  # whatever it is: the measurement beside it is whole
            self.summary, self.why = None, f"what {self.tool} printed cannot be read ({type(error).__name__})"
        self._forget()

    def _in_part(self, early: Optional[int], stopped: float, path: Path) -> str:
        """What of the time was not watched, in words; empty where all of it was."""
        whole = stopped - self._began
        slack = max(SILENT_S, 0.1 * whole)
        missing = []
        if self._first - self._began > slack:
            missing.append(f"its first sample came after {self._first - self._began:.0f} of {whole:.0f} s")
        if early is not None:
            ended = (self._ended or stopped) - self._began
            missing.append(f"it ended by itself after {ended:.1f} of {whole:.1f} s with status {early}{_last_words(path)}")
        elif stopped - self._last > slack:
            missing.append(f"it printed nothing in the last {stopped - self._last:.0f} of {whole:.0f} s")
        if self._dropped:
            missing.append(f"what it printed beyond {LARGEST >> 20} MiB was not kept")
        if self._failed:
            missing.append(self._failed)
        return "; ".join(missing)

    def _read(self, early: Optional[int], stopped: float) -> None:
        from neuronfit.adopt import monitors
        from neuronfit.adopt.monitors.summary import Remarked, Summary
        from neuronfit.errors import NeuronFitError

        path = Path(self._folder or "") / "samples"
        try:
            reading = monitors.read(path)
            with contextlib.closing(reading.source):
                self.summary = Summary.of(reading, self.instance_type, Grade.MEASURED)
            if not self.summary.samples or not self.summary.parts:
                raise ValueError("no sample")
            if missing := self._in_part(early, stopped, path):
                remark = Remarked("watched_in_part", f"{self.tool}: {missing}; nothing is known of that time")
                self.summary = dataclasses.replace(self.summary, remarks=(*self.summary.remarks, remark))
        except (NeuronFitError, ValueError, OSError):
            self.summary = None
            try:
                said = path.read_text(encoding="utf-8", errors="replace").strip().splitlines()
            except OSError:
                said = []
            self.why = (
                f"{self.tool} left no sample"
                + (f" and ended with status {early}" if early else "")
                + (f": {_printable(said[0])}" if said else "")
                + (f"; {self._failed}" if self._failed else "")
            )

    def _forget(self) -> None:
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None

    def records(self, ref: WorkloadRef, targets: Iterable[Target], host: System) -> list[Monitor]:
        """One record a target that was measured meanwhile; of a tool that was absent a record that says so. Nothing for a CPU."""
        if self.tool is None:
            return []
        named = {target.name: target for target in targets if TOOL.get(target.path) == self.tool}
        return [self._record(ref, target, host) for target in named.values()]

    def _record(self, ref: WorkloadRef, target: Target, host: System) -> Monitor:
        from neuronfit.adopt.monitors.evidence import sampled

        if self.summary is not None:
            return sampled(ref, self.summary, target.name, host.instance_type, host.host)
        return Monitor(
            workload=ref,
            source=Measured(host=host.host, clock="none"),
            findings=(
                Finding(
                    severity=Severity.NOTE,
                    code="not_monitored",
                    because=f"nothing was sampled while {target.name} was measured: {self.why}",
                    next=f"install {self.tool}, or sample with another tool and neuronfit monitor FILE --for {target.name}",
                    target=target.name,
                ),
            ),
            bottom_line=f"{target.name}: nothing was sampled while it was measured: {self.why}.",
            target=target.name,
            instance_type=host.instance_type,
            format="none",
            span=absent("s", self.why),
            samples=0,
            busy_mean=absent("fraction", self.why),
        )


def _signal(process: subprocess.Popen[bytes], number: int) -> None:
    """To the tool and what it started: they are a session of their own."""
    try:
        os.killpg(process.pid, number)
    except (OSError, AttributeError):
        with contextlib.suppress(OSError):
            process.send_signal(number)


def _group_lives(process: subprocess.Popen[bytes]) -> bool:
    try:
        os.killpg(process.pid, 0)
    except (OSError, AttributeError):
        return False
    return True


def _last_words(path: Path) -> str:
    """The last line that was printed, where it is a message and no sample."""
    try:
        with open(path, "rb") as samples:
            samples.seek(max(0, os.path.getsize(path) - 4096))
            last = samples.read().decode("utf-8", "replace").strip().rpartition("\n")[2]
    except OSError:
        return ""
    return f" ({_printable(last)})" if last and last[:1] != "{" and last.count(",") < 3 else ""


def _printable(text: str) -> str:
    return "".join(character if character.isprintable() else "?" for character in text)[:120]


@contextlib.contextmanager
def monitoring(paths: Iterable[str], instance_type: Optional[str] = None) -> Iterator[Watch]:
    """Watch the devices of these software paths while the block runs; afterwards ``records`` has what was seen.

    ``instance_type`` of this host, where known, gives capacity and peak.
    """
    watch = Watch(next((TOOL[path] for path in paths if path in TOOL), None), instance_type)
    watch.start()
    try:
        yield watch
    finally:
        watch.stop()
