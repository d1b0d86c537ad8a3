"""Device monitors while something is measured: one sample a second, by a process of its own that ends with the measurement.

`nvidia-smi` on a GPU, `neuron-monitor` on NeuronCores; nothing is started for a CPU. What they print is
read as any adopted file is, and becomes a record beside the measurement. A tool that is absent or refuses
is recorded as that; a measurement never fails because of its monitor.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import tempfile
import threading
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


class Watch:
    """One monitor at work. ``why`` says why there is none, or why it left nothing."""

    def __init__(self, tool: Optional[str], instance_type: Optional[str] = None):
        self.tool, self.instance_type = tool, instance_type
        self.why = "" if tool else "nothing watches the devices of this path"
        self.summary: Optional[Summary] = None
        self._process: Optional[subprocess.Popen[bytes]] = None
        self._folder: Optional[str] = None
        self._copier: Optional[threading.Thread] = None

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
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True
            )
        except OSError as error:
            self.why = f"{self.tool} cannot be started ({error.strerror or error})"
            self._forget()
            return
        with contextlib.suppress(OSError, AttributeError):
            os.setpriority(os.PRIO_PROCESS, self._process.pid, 10)
        self._copier = threading.Thread(target=self._copy, name=f"neuronfit {self.tool}", daemon=True)
        self._copier.start()

    def _copy(self) -> None:
        """What the tool prints, into a file, in blocks and without looking at it. When this process dies the pipe breaks and the tool ends too."""
        process, room = self._process, LARGEST
        if process is None or process.stdout is None or self._folder is None:
            return
        with open(Path(self._folder) / "samples", "wb", buffering=0) as out:
            while block := os.read(process.stdout.fileno(), 1 << 16):
                if room > 0:
                    out.write(block)
                room -= len(block)

    def stop(self) -> None:
        """End the tool and read what it left. Raises nothing of the monitor's."""
        process = self._process
        if process is None:
            return
        early = process.poll()
        process.terminate()
        try:
            process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if self._copier is not None:
            self._copier.join(STOP_S)
        if process.stdout is not None:
            process.stdout.close()
        self._read(early)
        self._forget()

    def _read(self, early: Optional[int]) -> None:
        from neuronfit.adopt import monitors
        from neuronfit.adopt.monitors.summary import Summary
        from neuronfit.errors import NeuronFitError

        path = Path(self._folder or "") / "samples"
        try:
            self.summary = Summary.of(monitors.read(path), self.instance_type, Grade.MEASURED)
            if not self.summary.samples:
                raise ValueError("no sample")
        except (NeuronFitError, ValueError, OSError):
            self.summary = None
            try:
                said = path.read_text(encoding="utf-8", errors="replace").strip().splitlines()
            except OSError:
                said = []
            self.why = f"{self.tool} left no sample" + (f" and ended with status {early}" if early else "") + (f": {said[0][:120]}" if said else "")

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
