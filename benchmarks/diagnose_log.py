"""How fast is a log diagnosed, and in how much memory? Beside a plain loop over its lines, in one run.

    python benchmarks/diagnose_log.py [--mb 1000] [--flood]

The log is made on the fly and never stored: a compiler's dull lines, a warning here and there, one
failure near the end. ``--flood`` makes every line an error line, the worst case for a search by words.
"""

from __future__ import annotations

import argparse
import gc
import io
import re
import resource
import sys
import time
from collections.abc import Callable

from neuronfit.diagnose import diagnose

DULL = (
    "2026-02-03T09:00:{s:02}Z USER {pid} [sg{g:04}/Tensorizer/PassNumber{n}]: Running PassNumber{n}\n"
    "2026-02-03T09:00:{s:02}Z INFO {pid} [PassNumber{n}]: Finished (changed=True, elapsed {n} of 4711 statements)\n"
    "2026-02-03T09:00:{s:02}Z INFO {pid} [BackendPassManager]: curr_vmrss:  {n}mb, ru_maxrss:  {n}mb (delta=0mb)\n"
    "2026-02-03T09:00:{s:02}Z INFO {pid} [BackendPassManager]: Output has 1 module(s), 1 function(s), {n} memory location(s), 1 block(s), and {n} instruction(s).\n"
    "  tiled_pf_transpose: Fix prefix (0,) and permute (1,) with (3, 2) / latency={n}; shape=(8, {n}, 8, 128); dtype_size=2\n"
    "│ qSPSpillReload0_defId_{g} │ {n} │\n"
)
WARNING = "2026-02-03T09:00:00Z WARNING 12 [LayoutBottleneck]: Connected component _add.{n} has no matmult/reduce/batchnorm. Guessing layout. Considering putting on CPU.\n"
FLOOD = (
    "2026-Feb-03 09:00:{s:02}.000{n} 610:{pid} ERROR  TDRV:exec_consume_notifications   RuntimeError: Failed to do the same thing again, status={n}\n"
)
FAILURE = (
    b"2026-02-03T09:10:00Z [XTP003] Number of instructions (10046893) is over the threshold (5000000). Operators are too large. - Please open a support ticket\n"
    b"2026-02-03T09:10:01Z INFO 11 [root]: Subcommand returned with exitcode=70\n"
)


class Made(io.RawIOBase):
    """A log of ``size`` bytes that exists one piece at a time; the failure stands 1 MB before its end."""

    def __init__(self, size: int, flood: bool):
        text = "".join(
            (FLOOD if flood else DULL).format(s=n % 60, pid=100 + n % 7, g=n % 40, n=1000 + n) + ("" if flood or n % 500 else WARNING.format(n=n))
            for n in range(4000)
        )
        self.piece, self.left, self.place, self.failed = text.encode(), size, 0, False

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:
        if self.left <= 0:
            return 0
        if not self.failed and self.left <= 1_000_000 and self.place == 0:
            self.failed, part = True, FAILURE
        else:
            part = self.piece[self.place : self.place + min(len(buffer), self.left)]
            self.place = (self.place + len(part)) % len(self.piece)
        buffer[: len(part)] = part
        self.left -= len(part)
        return len(part)


def line_loop(stream: io.BufferedReader) -> int:
    """What a simple tool does: look at every line for an error word."""
    return sum(1 for line in stream if b"ERROR" in line or b"error" in line)


def regex_loop(stream: io.BufferedReader) -> int:
    """The same with one expression for a few words."""
    word = re.compile(rb"ERROR|[Ee]rror|[Ff]ailed|Traceback|exitcode=|status")
    return sum(1 for line in stream if word.search(line))


def timed(work: Callable[[io.BufferedReader], object], size: int, flood: bool) -> tuple[float, object]:
    gc.collect()
    stream = io.BufferedReader(Made(size, flood), 1 << 20)
    start = time.process_time()
    answer = work(stream)
    return size / (time.process_time() - start) / 1e6, answer


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mb", type=int, default=1000, help="size of the log, MB")
    parser.add_argument("--flood", action="store_true", help="every line is an error line")
    given = parser.parse_args()
    size = given.mb * 1_000_000
    timed(diagnose, 2_000_000, given.flood)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    rate, found = timed(diagnose, size, given.flood)
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    making, _ = timed(lambda stream: sum(len(block) for block in iter(lambda: stream.read(1 << 20), b"")), size, given.flood)
    loop, _ = timed(line_loop, size, given.flood)
    regex, _ = timed(regex_loop, min(size, 200_000_000), given.flood)
    print(f"log of {given.mb:,} MB, {found.lines:,} lines{', every line an error' if given.flood else ''}; CPU time of one core")
    print(f"  diagnose                  {rate:8.0f} MB/s   {found.code}, line {found.evidence[0].line:,}")
    print(f"  loop, two words           {loop:8.0f} MB/s")
    print(f"  loop, one expression      {regex:8.0f} MB/s")
    print(f"  making the log alone      {making:8.0f} MB/s   (contained in each of the above)")
    print(f"  peak memory {after / 1024:.0f} MB, of which {(after - before) / 1024:.0f} MB more than after a log of 2 MB")
    return 0 if found.code == "XTP003" and rate >= 100 and after - before < 64 * 1024 else 1


if __name__ == "__main__":
    sys.exit(main())
