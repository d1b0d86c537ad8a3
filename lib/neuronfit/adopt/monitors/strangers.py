"""What a file is that no reader of monitors takes: named, so that the message says what to give instead."""

from __future__ import annotations

import re
from typing import Optional

__all__ = ["is_runtime_log", "named"]

QUERY = "nvidia-smi --query-gpu=timestamp,index,name,utilization.gpu,memory.used,memory.total,power.draw --format=csv -l 1 > gpu.csv"

_RUNTIME_LOG = re.compile(rb"^(?:FATA\[\d+\]|NRT:|TDRV:|\d{4}-\w{3}-\d\d [\d:.]+\s+\d+:\d+\s+ERROR\s+(?:NRT|TDRV|NMGR):)", re.MULTILINE)

_KNOWN: tuple[tuple[re.Pattern[bytes], str, str], ...] = (
    (re.compile(rb"^version https://git-lfs\.github\.com/spec/v1"), "a Git LFS pointer, not the file itself", "git lfs pull"),
    (re.compile(rb"^(?:PAR1|PK\x03\x04|\x7fELF|SQLite format 3|%PDF|\x89PNG)"), "binary", "export it as CSV or JSON"),
    (re.compile(rb"^\s*<(?:!doctype html|html)", re.IGNORECASE), "a web page, maybe of a login", "download the file itself"),
    (_RUNTIME_LOG, "a log of the Neuron runtime or its tools", "neuronfit diagnose FILE"),
    (
        re.compile(rb"ROCm System Management|rocm-smi|\bAMD-SMI\b|\bamdsmi\b"),
        "output of AMD's rocm-smi or amd-smi",
        "adopt figures of the GPU that is replaced",
    ),
    (
        re.compile(rb'"gpus"\s*:\s*\[.*?"utilization\.gpu"', re.DOTALL),
        "JSON of gpustat, one moment",
        QUERY,
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
        re.compile(rb"^\"?Time\"?[,;][^\n]*(?:DCGM_FI_|neuroncore_|nvidia_smi_)"),
        "a table exported by Grafana",
        "the answer of Prometheus itself, as JSON: /api/v1/query_range?query=DCGM_FI_DEV_GPU_UTIL&start=...&end=...&step=15s",
    ),
    (re.compile(rb'"(?:request_throughput|ttfts|output_throughput|request_latency)"\s*:'), "the result of a benchmark tool", "neuronfit adopt FILE"),
    (re.compile(rb"\bNCC_[A-Z]{3,}\d+|neuronx?-cc\b|Compiler status (?:PASS|ERROR)"), "a log of the Neuron compiler", "neuronfit diagnose FILE"),
)


def is_runtime_log(head: bytes) -> bool:
    """Whether runtime or driver messages stand in it: what a monitor printed in between is no series of samples."""
    return bool(_RUNTIME_LOG.search(head))


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
