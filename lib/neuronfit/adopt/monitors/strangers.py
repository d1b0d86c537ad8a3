"""What a file is that no reader of monitors takes: named, so that the message says what to give instead."""

from __future__ import annotations

import re
from typing import Optional

from neuronfit.adopt.monitors.source import plain_head

__all__ = ["is_runtime_log", "named", "neighbour"]

QUERY = "nvidia-smi --query-gpu=timestamp,index,name,utilization.gpu,memory.used,memory.total,power.draw --format=csv -l 1 > gpu.csv"

RANGE = "/api/v1/query_range?query=DCGM_FI_DEV_GPU_UTIL&start=...&end=...&step=15s, as JSON"

_RUNTIME_LOG = re.compile(rb"^(?:FATA\[\d+\]|NRT:|TDRV:|\d{4}-\w{3}-\d\d [\d:.]+\s+\d+:\d+\s+ERROR\s+(?:NRT|TDRV|NMGR):)", re.MULTILINE)

_NEIGHBOURS: tuple[tuple["re.Pattern[bytes]", str, str], ...] = (
    (
        re.compile(
            rb'ROCm System Management|rocm-smi|\bAMD-SMI\b|\bamdsmi\b|"card\d+"\s*:\s*\{|^device,(?:[^\n]*,)?(?:GPU use \(%\)|Temperature \(Sensor)',
            re.MULTILINE,
        ),
        "output of AMD's rocm-smi or amd-smi",
        "adopt figures of the GPU that is replaced",
    ),
    (re.compile(rb"^\[\d+\] .+\| +\d+.{1,4}C, +\d+ % \|", re.MULTILINE), "a screen of gpustat, one moment", QUERY),
    (re.compile(rb"^\s*PID USER +DEV +TYPE +GPU ", re.MULTILINE), "a screen of nvtop, one moment", QUERY),
    (
        re.compile(rb"neuron_device/neuron\d|neuron_core\d+/stats/"),
        "nodes of the Neuron driver's sysfs, counters since it was loaded",
        "neuron-monitor > neuron.jsonl",
    ),
    (re.compile(rb'"device_name"\s*:\s*"[^"]*"[^}]*"gpu_util"', re.DOTALL), "a snapshot of nvtop, one moment", QUERY),
    (re.compile(rb"\bNVITOP \d|\bnvitop\b"), "a screen of nvitop, one moment", QUERY),
    (re.compile(rb"\bGR3D_FREQ \d+%"), "output of tegrastats on a Jetson, which is no GPU of EC2", QUERY),
    (
        re.compile(rb"^(?:\x1b\[\d*m|\s)+GPU0\b.*CPU Affinity|^\s*GPU0\s+X\s", re.MULTILINE),
        "the topology of nvidia-smi topo, no number of a device's use",
        QUERY,
    ),
    (
        re.compile(rb"^\s*timestamp, .*\bpid, gpu_util(?:ization)? ?\[?.*time \[ms\]", re.MULTILINE),
        "figures of whole processes (nvidia-smi --query-accounted-apps), not samples in time",
        QUERY,
    ),
    (
        re.compile(
            rb"NVIDIA-SMI has failed|Failed to initialize NVML|couldn't communicate with the NVIDIA driver|Unable to determine the device handle"
        ),
        "nvidia-smi's message that its driver does not answer",
        "see that nvidia-smi works on the instance, then " + QUERY,
    ),
    (re.compile(rb"^\s*No devices were found\s*$"), "nvidia-smi's message that there is no GPU", "run it on the instance with the GPUs: " + QUERY),
    (
        re.compile(rb"Failed to load MLA system information|failed to discover Neuron devices|No neuron device available", re.IGNORECASE),
        "a message of the Neuron tools that they found no device",
        "load the driver (sudo modprobe neuron) or run it on the instance: neuron-monitor > neuron.jsonl",
    ),
    (re.compile(rb"(?:nvidia-smi|neuron-(?:monitor|ls|top)): (?:command )?not found"), "a shell's message that the tool is not installed", QUERY),
    (
        re.compile(rb"^neuron[_.](?:device|core|vcpu|efa|system)[_.]\w+", re.MULTILINE),
        "metrics of Neuron Observer, a beta whose units no document states",
        "neuron-monitor > neuron.jsonl, which it does not replace",
    ),
    (
        re.compile(rb"^[^\n]*\b(?:system[./])?gpu[._ ]?0[._ ](?:gpu|util)[^\n]*[,;][^\n]*gpu[._ ]?1[._ ]", re.IGNORECASE),
        "a table with columns for each GPU, whose units are not stated",
        "write one row a GPU and time: timestamp,index,utilization.gpu [%],memory.used [MiB]",
    ),
    (re.compile(rb"^procs -+memory-+", re.MULTILINE), "output of vmstat: the host's CPU and memory, no accelerator", QUERY),
    (
        re.compile(rb"^(?:top - \d\d:\d\d|Tasks:\s+\d+ total|%Cpu\(s\):)", re.MULTILINE),
        "a screen of top: the host's processes, no accelerator",
        QUERY,
    ),
    (
        re.compile(rb"^NAME\s+CPU\(cores\)\s+CPU%", re.MULTILINE),
        "output of kubectl top: CPU and memory, no accelerator",
        "a scrape of dcgm-exporter or neuron-monitor",
    ),
    (
        re.compile(rb"^(?:sep=.[\r\n]+)?\"?Time\"?[,;\t]"),
        "a table exported by Grafana whose columns do not name a metric of a device",
        f"export it without a legend, or {RANGE}; if it counts requests: neuronfit traffic FILE",
    ),
    (
        re.compile(rb'^\s*\{(?=.{0,400}"resultType")(?!.*"__name__")', re.DOTALL),
        "an answer of Prometheus whose series have no names",
        f"ask for the series themselves, without avg, sum or rate: {RANGE}; if it counts requests: neuronfit traffic FILE",
    ),
)
"""Other tools' output, other forms of ours, and messages that a tool printed instead of numbers."""

_KNOWN: tuple[tuple["re.Pattern[bytes]", str, str], ...] = (
    (re.compile(rb"^version https://git-lfs\.github\.com/spec/v1"), "a Git LFS pointer, not the file itself", "git lfs pull"),
    (re.compile(rb"^(?:PAR1|PK\x03\x04|\x7fELF|SQLite format 3|%PDF|\x89PNG)"), "binary", "export it as CSV or JSON"),
    (re.compile(rb"^\s*<(?:!doctype html|html)", re.IGNORECASE), "a web page, maybe of a login", "download the file itself"),
    (_RUNTIME_LOG, "a log of the Neuron runtime or its tools", "neuronfit diagnose FILE"),
    *_NEIGHBOURS,
    (re.compile(rb'"(?:request_throughput|ttfts|output_throughput|request_latency)"\s*:'), "the result of a benchmark tool", "neuronfit adopt FILE"),
    (re.compile(rb"\bNCC_[A-Z]{3,}\d+|neuronx?-cc\b|Compiler status (?:PASS|ERROR)"), "a log of the Neuron compiler", "neuronfit diagnose FILE"),
)


def is_runtime_log(head: bytes) -> bool:
    """Whether runtime or driver messages stand in it: what a monitor printed in between is no series of samples."""
    return bool(_RUNTIME_LOG.search(head))


def neighbour(head: bytes) -> Optional[tuple[str, str]]:
    """The same of what stands close to a monitor's file; for a file that may be anything."""
    head = plain_head(head)
    return next(((what, then) for known, what, then in _NEIGHBOURS if known.search(head)), None)


def named(head: bytes) -> Optional[tuple[str, str]]:
    """What the file seems to be, and what to type instead; ``None`` where nothing is known. ``head`` is unpacked."""
    if not head.strip(b"\xef\xbb\xbf\x00 \t\r\n"):
        return "empty", "sample while the workload runs"
    found = next(((what, then) for known, what, then in _KNOWN if known.search(head)), None)
    if found is not None:
        return found
    from neuronfit import traffic

    form = traffic.recognise(head)
    return (f"recorded traffic ({traffic.FORMATS[form]})", "neuronfit traffic FILE") if form and form not in ("json", "jsonl") else None
