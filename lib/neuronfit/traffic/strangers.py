"""Files that hold numbers with times and are no traffic. Naming one is better than reading its samples as requests."""

from __future__ import annotations

import re
from typing import Optional

__all__ = ["named"]

_KNOWN: tuple[tuple[re.Pattern[bytes], str, str], ...] = (
    (
        re.compile(rb'\A\s*(?:\$ neuron-ls|instance-type:)|\A\s*\[\s*\{\s*"neuron_device"|\|\s*LOGICAL\s*\|\s*NEURON\s*\|'),
        "a list of neuron-ls",
        "neuronfit monitor FILE",
    ),
    (
        re.compile(
            rb"^(?:\$ neuron-|Neuron: |FATA\[\d+\]|NRT:|TDRV:)|\bERROR\s+(?:NRT|TDRV|NMGR)\b|\bNRT:nrt_\w+|\bnrt_\w+ status=\d|\bneuronx?-cc\b|\b(?:INFO|WARNING|ERROR):Neuron:",
            re.MULTILINE,
        ),
        "a log of the Neuron runtime or its tools",
        "neuronfit diagnose FILE",
    ),
    (re.compile(rb'"(?:tp_degree|architectures|hidden_size|d_model|torch_dtype)"\s*:'), "the configuration of a model", "neuronfit check FILE"),
    (
        re.compile(rb"\bBilledCost\b|hourly_rate_usd|\bOfferTermCode\b|\bDiscountedRate\b|\bUnblended_?Cost\b|\bunblended_cost\b|\bline_item_usage_"),
        "a list of prices or costs",
        "pricing.overrides in the params file",
    ),
    (re.compile(rb'"predicted"\s*:[^\n]*"measured"\s*:'), "a list of results", "neuronfit adopt FILE --for TARGET --params PARAMS"),
    (re.compile(rb"^[^\n{\[/]*\b(?:[Tt]hroughput|[Cc]ost per)\b[^\n]*\n"), "a table of results", "neuronfit adopt FILE --for TARGET --params PARAMS"),
    (
        re.compile(
            rb"\butilization\.gpu\b|\bmemory\.used\b|gpu_utilization_mean|,\s*(?:NVIDIA|GeForce|Tesla) [^\n]*\bGPU-[0-9a-f]{8}|<nvidia_smi_log|NVSMI LOG|"
            rb"\| NVIDIA-SMI \d|\A\d{4}/\d\d/\d\d \d\d:\d\d:\d\d\.\d{3}, [^\n]*\d (?:%|MiB|W)(?:,|\r?\n)|\ANVIDIA-SMI version|\A\s*# ?(?:gpu|Date) .*\b(?:sm|pwr)\b"
        ),
        "samples of nvidia-smi",
        "neuronfit monitor FILE",
    ),
    (re.compile(rb'neuron_runtime_data\\?"\s*:|neuroncore_counters\\?"\s*:'), "reports of neuron-monitor", "neuronfit monitor FILE"),
    (re.compile(rb"\bDCGM_FI_[A-Z_]+|\bnvidia_smi_[a-z_]+\{"), "samples of a GPU exporter", "neuronfit monitor FILE"),
    (re.compile(rb"^neuron(?:core|_runtime|device)_\w+\{", re.MULTILINE), "samples of the exporter of neuron-monitor", "neuronfit monitor FILE"),
    (re.compile(rb"^\|\s*NEURON\s*\||\bNEURON CORES\b", re.MULTILINE), "a list of neuron-ls", "neuronfit monitor FILE"),
    (
        re.compile(rb"^# (?:HELP|TYPE) \w+ ", re.MULTILINE),
        "one scrape of Prometheus metrics, which has no history",
        "the answer of the query API over a week: /api/v1/query_range?query=sum(rate(...[1m]))",
    ),
    (
        re.compile(
            rb'"(?:request_throughput|ttfts|output_throughput|total_token_throughput|mean_output_throughput_token_per_s|request_latency|'
            rb'time_to_first_token|results_\w+)"\s*:|^"?Timestamp"?,"?User Count'
        ),
        "the result of a benchmark tool: its load is the tool's own, not that of users",
        "neuronfit adopt FILE --for TARGET --params PARAMS, and a log of the service here",
    ),
    (
        re.compile(rb'^INFO:\s+[\d.]+:\d+ - "[A-Z]+ ', re.MULTILINE),
        "uvicorn's own access log, which writes no times",
        "add %(asctime)s to its log format, or take the log of the proxy in front",
    ),
)


_LEVEL = re.compile(rb"(?:^|[\s\[|])(?:TRACE|DEBUG|INFO|WARN|WARNING|ERROR|FATAL|CRITICAL)\b|^[IWEF]\d{4} ")
_REQUEST = re.compile(rb"\b(?:GET|POST|PUT|HEAD|DELETE|OPTIONS) /")


def named(head: bytes) -> Optional[tuple[str, str]]:
    """What a file is that cannot be traffic, and what to type instead; ``None`` where it may be a trace."""
    start = head[: 1 << 16]
    if start[:2] in (b"\xff\xfe", b"\xfe\xff"):
        start = start.replace(b"\x00", b"")
    found = next(((what, then) for known, what, then in _KNOWN if known.search(start)), None)
    if found is None and _is_program_log(start):
        return (
            "a log of a program, whose lines are no requests",
            "the access log of the server or proxy; neuronfit diagnose FILE for one of a compiler or runtime",
        )
    return found


def _is_program_log(start: bytes) -> bool:
    """Whether half of the lines, and three at least, have a level and none has the request of a client."""
    lines = [line for line in start.split(b"\n") if line.strip()][:200]
    levels = sum(bool(_LEVEL.search(line)) for line in lines)
    return levels >= 3 and levels * 2 >= len(lines) and not _REQUEST.search(start)
