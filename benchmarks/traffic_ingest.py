"""Reading recorded traffic, beside DuckDB's and Polars' own readers of the same file, in one run.

    python benchmarks/traffic_ingest.py --rows 2000000              ratios, CPU time and wall time
    python benchmarks/traffic_ingest.py --rows 30000000 --bounded   one long trace: time and peak memory

The files are made here, in a temporary folder that is deleted. *open* reads the file, checks order and duplicates;
*summary* adds every number and finding. Their own readers only read the columns into memory: of an access log they split the line at
blanks and leave the time a text. Polars does that two to three times as fast as DuckDB, and reads CSV with times at a third of DuckDB's speed.

The floor is held against DuckDB's reader, for both files, for *open* and for *summary*: it is the one that the library reads with and that is in the lock.
Measured with 2 million rows on 2 busy cores, 2026-11-30, best of three, CPU time: CSV *open* 0.73 and *summary* 0.57 of DuckDB's reader (2.17 and 1.69 of
Polars'); access log *open* 0.85 and *summary* 0.71 of DuckDB's (0.53 and 0.44 of Polars'). A quarter of *summary* of the access log is the SHA-256 of the file.
An access log is parted at its quotes by DuckDB's CSV reader; with one expression over each line *open* was 0.75 and 0.33, with string functions half of that.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import duckdb
from neuronfit import traffic

FLOOR = 0.5
"""Of the speed of DuckDB's reader."""

MADE = {
    "csv": (
        "SELECT strftime(make_timestamp(1715299200000000 + i * 21500 + (hash(i) % 20000)::BIGINT), '%Y-%m-%d %H:%M:%S.%f') || '+00:00' AS \"TIMESTAMP\", "
        "(hash(i) % 4000)::INT AS ContextTokens, (hash(i + 1) % 300)::INT AS GeneratedTokens FROM range({rows}) t(i)",
        "HEADER",
    ),
    "log": (
        "SELECT '10.' || (i % 250) || '.' || (i % 199) || '.7 - - [' || strftime(make_timestamp(1715299200000000 + i * 20000), '%d/%b/%Y:%H:%M:%S') || "
        "' +0000] \"POST /v1/predict?q=' || (i % 9973) || ' HTTP/1.1\" ' || (CASE WHEN i % 500 = 0 THEN 503 ELSE 200 END) || ' ' || (i % 5000) || "
        '\' "https://example.com/a" "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/120.0"\' FROM range({rows}) t(i)',
        "HEADER false, QUOTE '', ESCAPE '', DELIMITER '\x01'",
    ),
}


def make(kind: str, rows: int, folder: Path) -> Path:
    query, options = MADE[kind]
    path = folder / f"made.{kind}"
    with duckdb.connect() as connection:
        connection.execute(f"COPY ({query.format(rows=rows)}) TO '{path}' (FORMAT csv, {options})")
    return path


def by_duckdb(path: Path) -> None:
    options = "" if path.suffix == ".csv" else ", delim = ' ', quote = '\"', header = false"
    with duckdb.connect() as connection:
        connection.execute(f"CREATE TABLE made AS SELECT * FROM read_csv('{path}'{options})")


def by_polars(path: Path) -> None:
    import polars

    options = {"try_parse_dates": True} if path.suffix == ".csv" else {"separator": " ", "has_header": False}
    polars.read_csv(path, **options)


def opened(path: Path) -> None:
    traffic.open_trace(path).close()


def summarised(path: Path) -> None:
    with traffic.open_trace(path) as trace:
        traffic.findings(trace, traffic.summarise(trace))


def timed(work: Callable[[Path], None], path: Path, tries: int) -> tuple[float, float]:
    """Best CPU seconds (all threads together) and best wall seconds."""
    best = [float("inf"), float("inf")]
    for _ in range(tries):
        cpu, wall = time.process_time(), time.perf_counter()
        work(path)
        best = [min(best[0], time.process_time() - cpu), min(best[1], time.perf_counter() - wall)]
    return best[0], best[1]


def side_by_side(rows: int, tries: int, folder: Path) -> bool:
    kept = True
    for kind in MADE:
        path = make(kind, rows, folder)
        size = path.stat().st_size / 1e6
        works = {"DuckDB's reader": by_duckdb, "Polars' reader": by_polars, "open": opened, "summary": summarised}
        times = {}
        for name, work in works.items():
            try:
                times[name] = timed(work, path, tries)
            except ImportError:
                continue
        print(f"{kind}: {rows:,} rows, {size:,.0f} MB; CPU time, wall time in brackets")
        for name, (cpu, wall) in times.items():
            against = ", ".join(
                f"{times[other][0] / cpu:.2f} of {other}" for other in ("DuckDB's reader", "Polars' reader") if other in times and other != name
            )
            print(f"  {name:<17} {size / cpu:7.0f} MB/s  ({size / wall:5.0f})  {rows / cpu / 1e6:5.2f} M rows/s   {against}")
        kept &= all(times["DuckDB's reader"][0] / times[ours][0] >= FLOOR for ours in ("open", "summary"))
        path.unlink()
    return kept


def bounded(rows: int, kind: str, folder: Path) -> bool:
    """One long trace in a process of its own, so that the peak is that of reading and not of making."""
    path = make(kind, rows, folder)
    program = (
        "import resource, sys, time\nfrom neuronfit import traffic\nstart = time.perf_counter()\n"
        "with traffic.open_trace(sys.argv[1]) as trace:\n    said = traffic.summarise(trace)\n    found = traffic.findings(trace, said)\n"
        "print(f'{said.requests:,} requests, {time.perf_counter() - start:.0f} s, peak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:,.0f} MiB')"
    )
    print(f"{kind}: {rows:,} rows, {path.stat().st_size / 1e6:,.0f} MB, memory limit {traffic.MEMORY_LIMIT}")
    done = subprocess.run([sys.executable, "-c", program, str(path)], capture_output=True, text=True)
    print("  " + (done.stdout.strip() or done.stderr.strip()[-500:]))
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    return done.returncode == 0 and peak < 2048


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--tries", type=int, default=3, help="the best of so many is shown")
    parser.add_argument("--bounded", choices=list(MADE), nargs="?", const="csv", help="one long trace instead: time and peak memory")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="neuronfit-bench-") as folder:
        if given.bounded:
            return 0 if bounded(given.rows, given.bounded, Path(folder)) else 1
        return 0 if side_by_side(given.rows, given.tries, Path(folder)) else 1


if __name__ == "__main__":
    sys.exit(main())
