"""Device monitors: neuron-monitor, neuron-ls, neuron-top, nvidia-smi, DCGM and CloudWatch files as one table, and what they say.

    from neuronfit.adopt import monitors
    for batch in monitors.read("monitor.jsonl"):      # columnar batches: time, device, core, metric, value, unit
        batch.columns()
    monitors.summarise("monitor.jsonl").findings

Files are recognised by content. Memory is bounded whatever their size.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Optional, Union

from neuronfit.adopt.monitors import cloudwatch, neuron_ls, neuron_monitor, nvidia_csv, nvidia_mon, nvidia_query, prometheus, strangers
from neuronfit.adopt.monitors.carried import carrier
from neuronfit.adopt.monitors.source import Source, plain_head
from neuronfit.adopt.monitors.table import Batch, Reading
from neuronfit.errors import BadInput

if TYPE_CHECKING:
    from neuronfit.adopt.monitors.summary import Summary
    from neuronfit.question import Question
    from neuronfit.record import Monitor

__all__ = ["FORMATS", "READERS", "Batch", "Reading", "read", "recognise", "summarise", "to_records"]

READERS: dict[str, Callable[[Reading], Iterator[None]]] = {
    "neuron_monitor": neuron_monitor.read,
    "neuron_monitor_fragments": neuron_monitor.read_fragments,
    "neuron_prometheus": prometheus.read,
    "dcgm_prometheus": prometheus.read,
    "gpu_exporter_prometheus": prometheus.read,
    "prometheus_answer": prometheus.read_answer,
    "grafana_csv": prometheus.read_grafana,
    "neuron_ls_json": neuron_ls.read_json,
    "neuron_ls_table": neuron_ls.read_table,
    "neuron_top": neuron_ls.read_top,
    "neuron_top_json": neuron_ls.read_top_json,
    "nvidia_xml": nvidia_query.read_xml,
    "nvidia_q": nvidia_query.read_text,
    "nvidia_table": nvidia_query.read_table,
    "nvidia_list": nvidia_query.read_list,
    "nvidia_version": nvidia_query.read_version,
    "nvidia_dmon": nvidia_mon.read,
    "nvidia_pmon": nvidia_mon.read_processes,
    "dcgmi_dmon": nvidia_mon.read_dcgmi,
    "running_means": cloudwatch.read_means,
    "cloudwatch": cloudwatch.read,
    "cloudwatch_csv": cloudwatch.read_csv,
    "nvidia_csv": nvidia_csv.read,
    "nvidia_json": nvidia_csv.read_json,
}
"""Format -> its reader, a generator that puts rows into the reading and yields between samples."""

FORMATS: dict[str, tuple[str, str]] = {
    "neuron_monitor": ("neuron-monitor", "JSON reports, one a line, pretty-printed or wrapped"),
    "neuron_monitor_fragments": ("neuron-monitor", "pieces pasted from its reports"),
    "neuron_prometheus": ("neuron-monitor-prometheus", "Prometheus text"),
    "dcgm_prometheus": ("dcgm-exporter", "Prometheus text"),
    "gpu_exporter_prometheus": ("nvidia_gpu_exporter", "Prometheus text"),
    "prometheus_answer": ("Prometheus", "answer of the query API, JSON"),
    "grafana_csv": ("Grafana", "a panel's data as CSV, its columns named after the series"),
    "neuron_ls_json": ("neuron-ls", "JSON: a list, or the object that replaces it from SDK 2.34 on"),
    "neuron_ls_table": ("neuron-ls", "table"),
    "neuron_top": ("neuron-top", "screen or summary lines"),
    "neuron_top_json": ("neuron-top", "JSON"),
    "nvidia_xml": ("nvidia-smi", "`-q -x`, XML"),
    "nvidia_q": ("nvidia-smi", "`-q`, text"),
    "nvidia_table": ("nvidia-smi", "the plain table"),
    "nvidia_list": ("nvidia-smi", "`-L`"),
    "nvidia_version": ("nvidia-smi", "the version lines"),
    "nvidia_dmon": ("nvidia-smi dmon", "text or CSV"),
    "nvidia_pmon": ("nvidia-smi pmon", "text"),
    "dcgmi_dmon": ("dcgmi dmon", "text"),
    "running_means": ("FMBench", "system metrics, CSV of running means"),
    "cloudwatch": ("CloudWatch", "JSON of the API, or log lines with embedded metrics"),
    "cloudwatch_csv": ("CloudWatch", "CSV from the console"),
    "nvidia_csv": ("nvidia-smi", "a query as CSV, with units or without, or a script's own header"),
    "nvidia_json": ("gpustat", "`--json`, or a script's objects with nvidia-smi's fields"),
}
"""Format -> the tool that writes it, and in words what it is."""

OWN_PREFIX = ("neuron_monitor", "neuron_monitor_fragments")
"""Formats whose reader takes what stands before a report itself."""

_RECOGNISERS = (
    neuron_monitor.recognise,
    neuron_ls.recognise,
    nvidia_query.recognise,
    nvidia_mon.recognise,
    cloudwatch.recognise_means,
    cloudwatch.recognise,
    prometheus.recognise,
    nvidia_csv.recognise,
)


def recognise(head: bytes, name: str = "") -> Optional[str]:
    """The format of a file by its first 64 KiB (compressed or UTF-16 as well), or ``None``. ``name`` is not looked at."""
    plain = plain_head(head)
    carried = carrier(plain)
    return (_named(carried.head(plain)) if carried is not None else None) or _named(plain)


def _named(plain: bytes) -> Optional[str]:
    return next((found for recogniser in _RECOGNISERS if (found := recogniser(plain))), None)


def read(path: Union[str, "os.PathLike[str]"], format: Optional[str] = None, *, hashed: bool = False, columns: Sequence[str] = ()) -> Reading:
    """A monitor's file as a :class:`Reading`: iterate it for the batches of the table, bounded in memory.

    ``hashed``: also its SHA-256. ``columns``: the fields of the query that wrote a CSV without a header. Raises :class:`~neuronfit.errors.BadInput` for a file that cannot be read or is none of :data:`FORMATS`.
    """
    source = Source(path, hashed=hashed)
    known = format or recognise(source.head) or ("nvidia_csv" if columns else None)
    if known is None or known not in READERS:
        source.close()
        stranger = strangers.named(source.head) if format is None else None
        raise BadInput(
            "unknown monitor format" if format else "not a monitor's file" + (f": it is {stranger[0]}" if stranger else ""),
            str(Path(path).name) if format is None else format,
            allowed=", ".join(READERS)
            if format
            else None
            if stranger
            else "neuron-monitor, neuron-ls, neuron-top, nvidia-smi, DCGM or CloudWatch output",
            next=(stranger[1] if stranger else strangers.QUERY).replace("FILE", Path(path).name),
        )
    carried = carrier(source.head)
    if carried is not None and (known not in OWN_PREFIX or carried.cells is not None):
        source.carrier = carried
    return Reading(source, known, FORMATS[known][0], columns=tuple(columns))


def summarise(
    path: Union[str, "os.PathLike[str]"], *, format: Optional[str] = None, instance_type: Optional[str] = None, columns: Sequence[str] = ()
) -> "Summary":
    """Read a file to its end and say what it says: busyness by device and core, memory, work done, findings."""
    from neuronfit.adopt.monitors.summary import Summary

    return Summary.of(read(path, format, hashed=True, columns=columns), instance_type)


def to_records(
    question: "Question", path: Union[str, "os.PathLike[str]"], target: str, format: Optional[str] = None, *, columns: Sequence[str] = (), **_: Any
) -> "list[Monitor]":
    """The record of a monitor's file as evidence about a target; not yet admitted. Raises as :func:`read` does."""
    from neuronfit.adopt.monitors.evidence import record

    aim = question.target(target)
    return [record(question, summarise(path, format=format, instance_type=None, columns=columns), aim)]
