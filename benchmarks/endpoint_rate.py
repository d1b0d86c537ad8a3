"""How much load does one process make, and is it still Poisson? A rate doubles until the audit objects.

    python benchmarks/endpoint_rate.py [--seconds 5]

The server answers at once; each step is one open-loop run of a JSON POST. Ends with status 1 when the audit objects below 200/s.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from neuronfit.load import audit, prompts, scenarios
from neuronfit.params import Endpoint, Shape
from servers import serving


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=5.0, help="length of each step, s")
    parser.add_argument("--strict", action="store_true", help="exit status 1 below 200/s; for a quiet host")
    given = parser.parse_args()
    rate, kept = 50.0, 0.0
    print(f"{'asked/s':>9}{'sent/s':>9}{'KS p':>9}{'lag p50 ms':>12}{'lag p99 ms':>12}{'CPU':>7}  objections")
    with serving("stalling", stall_s=0.0, service_s=0.0) as server:
        line = scenarios.Line(
            Endpoint(url=server.url, api="json", body={"inputs": "{prompt}"}), prompts.synthetic((64,)), Shape(batch_size=1, sequence_length=64)
        )
        while rate <= 6400:
            taken = scenarios.at_rate(line, scenarios.Plan("server", duration_s=given.seconds, runs=1), rate, warm=False)
            expected = audit.Expected("poisson", rate_per_s=rate, max_connections=256)
            seen = audit.audit(taken.runs, expected)
            invalid, _, _ = audit.judge(taken.runs, seen, expected)
            print(
                f"{rate:>9.0f}{seen.achieved_rate_per_s or 0:>9.1f}{seen.gap_ks_p or 0:>9.2g}{1e3 * (seen.lag_p50_s or 0):>12.2f}"
                f"{1e3 * (seen.lag_p99_s or 0):>12.2f}{seen.cpu_share or 0:>7.0%}  {', '.join(finding.code for finding in invalid)}"
            )
            if invalid:
                break
            kept, rate = rate, 2 * rate
    print(f"highest rate without an objection: {kept:g}/s")
    if kept < 200:
        print("below 200/s: the host was busy, or the generator got slower; measure again on a quiet host")
    return 1 if given.strict and kept < 200 else 0


if __name__ == "__main__":
    sys.exit(main())
