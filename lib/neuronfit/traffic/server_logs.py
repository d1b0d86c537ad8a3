"""Lines that servers and proxies write, beside the common form: what they look like, and the one expression that reads them.

Field order of each is that of its own manual: Envoy and Istio "default format string" (start time, duration in ms),
HAProxy "HTTP log format" (accept date, total time in ms, no zone), S3 "server access log format" (time of receipt, total time in ms),
Squid "native log format" (time of logging, elapsed ms); ``app_log`` is uvicorn's, hypercorn's or an application's own with a date in front.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Optional

from neuronfit.traffic import times

__all__ = ["DOCKER", "DOCKER_LINE", "LINES", "Line", "form_of"]


@dataclass(frozen=True)
class Line:
    """One way of writing a line. ``expression`` (RE2) takes out ``groups``: d time, m method, p path, s status, l milliseconds."""

    looks: re.Pattern[str]
    expression: str
    groups: str
    form: times.Form
    at_end: bool = False
    """the time is that of the answer; the latency is subtracted"""


DOCKER = re.compile(r'^\{"log": ?"[^\[{]*\[\d\d?/[A-Z][a-z]{2}/\d{4}:[\d:]+ [+-]\d{4}\] \\"')
DOCKER_LINE = r'^\{"log": ?"[^\[]*\[([^\]]*)\] \\"(\S+) ([^ ?"\\]*)(?:[ ?](?:[^"\\]|\\[^"])*)?\\" (\d\d\d)'
"""An access log as Docker keeps what a container writes: a line inside a JSON text."""

LINES: dict[str, Line] = {
    "envoy": Line(
        re.compile(r'^\[\d{4}-\d\d-\d\dT[\d:.]+Z\] "\S* [^"]*" \d{1,3} '),
        r'^\[([^\]]*)\] "(\S+) ([^ ?"]*)[^"]*" (\d+) (?:\S+ )*?\d+ \d+ (\d+|-) ',
        "dmpsl",
        times.Form("iso"),
    ),
    "haproxy": Line(
        re.compile(r"\[\d\d/[A-Z][a-z]{2}/\d{4}:\d\d:\d\d:\d\d\.\d{3}\] \S+ \S+ (?:-?\d+/){4}\+?\d+ (?:\d{3}|-1) "),
        r'\[([^\]]*)\] \S+ \S+ (?:-?\d+/){4}\+?(\d+) (\d{3}|-1) [^"]*"(\S+) ([^ ?"]*)',
        "dlsmp",
        times.Form("pattern", "%d/%b/%Y:%H:%M:%S.%g"),
    ),
    "s3": Line(
        re.compile(r"^[0-9a-f]{64} \S+ \[\d\d/[A-Z][a-z]{2}/\d{4}:[\d:]+ [+-]\d{4}\] \S+ \S+ \S+ [A-Z]+\."),
        r'^\S+ \S+ \[([^\]]*)\] \S+ \S+ \S+ \S+ .*? "(\S+) ([^ ?"]*)[^"]*" (\d{3}|-) \S+ \S+ \S+ (\d+|-) ',
        "dmpsl",
        times.Form("clf"),
    ),
    "squid": Line(
        re.compile(r"^ *\d{9,10}\.\d{3} +\d+ \S+ [A-Z_]+/\d{3} \d+ [A-Z]+ "),
        r"^ *(\d+\.\d+) +(\d+) \S+ \w+/(\d+) \d+ (\S+) ([^ ?]*)",
        "dlsmp",
        times.Form("number"),
        at_end=True,
    ),
    "app_log": Line(
        re.compile(r'^(?!.*\[\d\d?/[A-Z][a-z]{2}/\d{4}:)(?:[A-Z]+:? +)?\W?\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d[^"]*"[A-Z]+ /\S* HTTP/[\d.]+" \d{3}\b'),
        r'^(?:[A-Z]+:? +)?\W?(\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?)[^"]*"([A-Z]+) ([^ ?"]*)[^"]*" (\d{3})',
        "dmps",
        times.Form("iso"),
    ),
}
"""Name of a format -> its lines."""


def form_of(sample: Sequence[str]) -> Optional[str]:
    """The format of most of these lines, if it is one of :data:`LINES`."""
    return next((name for name, line in LINES.items() if sum(bool(line.looks.search(text)) for text in sample) * 2 > len(sample)), None)
