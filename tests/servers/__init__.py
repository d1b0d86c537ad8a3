"""Servers for the tests of the load generator, each in a process of its own: ``with serving("deterministic", tokens=20) as server``.

They listen on 127.0.0.1 at a free port, keep a log with the times of ``time.perf_counter`` (one clock for all processes
of a Linux or macOS host), and end by themselves when their standard input is closed.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Server:
    url: str

    def log(self) -> dict[str, Any]:
        """``started`` and ``requests``: one mapping per request, in the order of arrival."""
        with urllib.request.urlopen(f"{self.url}/log", timeout=10) as answer:
            return json.load(answer)


@contextlib.contextmanager
def serving(name: str, **options: Any) -> Iterator[Server]:
    """A server of this folder by its module's name; options become ``--key value``."""
    arguments = [part for key, value in options.items() for part in (f"--{key.replace('_', '-')}", str(value))]
    command = [sys.executable, str(Path(__file__).parent / f"{name}.py"), *arguments]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        line = process.stdout.readline()
        if not line:
            raise RuntimeError(f"{name} did not start: exit status {process.wait(10)}")
        yield Server(json.loads(line)["url"])
    finally:
        process.stdin.close()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(10)
        process.stdout.close()
