"""kill -9 at ten random moments of a controlled test, resumed each time: ``python benchmarks/trial_kills.py``.

After each kill the log is read; at the end every request must be in it once, on each side, and the verdict be that of a test
that was never interrupted.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from test_trial_run import killed_and_resumed  # noqa: E402


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--seed", type=int, default=10)
    asked = parser.parse_args()
    begin = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        record = killed_and_resumed(Path(folder), asked.kills, asked.seed)
    sent = sum(sum(stage.asked.values()) for stage in record.stages)
    print(f"{asked.kills} kills: {sent} requests, each once; {record.torn_lines} torn lines; {record.status}; {time.perf_counter() - begin:.0f} s")


if __name__ == "__main__":
    main()
