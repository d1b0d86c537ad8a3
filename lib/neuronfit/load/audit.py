"""The load generator judges itself and its run: what makes a measurement of an endpoint INVALID, and what a reader must know.

:func:`audit` counts, :func:`judge` decides. A finding that makes the measurement INVALID is a warning with what to
do about it; the others are warnings or notes that leave it valid.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Optional

import numpy as np

from neuronfit import stats
from neuronfit.load import arrivals
from neuronfit.load.generator import INTERRUPTED, Response, Sent
from neuronfit.record import Finding, Severity
from neuronfit.served import LoadAudit
from neuronfit.units import metric

__all__ = ["CODES", "Expected", "audit", "client_objections", "judge", "overloaded"]

CODES = (
    "chunks_for_tokens",
    "client_bound",
    "connection_cap",
    "few_samples",
    "few_samples_p99",
    "gaps_not_random",
    "gaps_repeated",
    "input_length_differs",
    "interrupted",
    "not_settled",
    "not_streamed",
    "output_length_differs",
    "overloaded",
    "prompts_repeated",
    "rate_missed",
    "requests_failed",
    "responses_lost",
    "run_too_short",
    "schedule_late",
)
"""Finding codes of a load."""

BUSY = 0.8
"""Share of a core that sending and receiving may take; above, arrival times are those of the client's own queue."""

LATE_S, LATE_SHARE = 0.002, 0.05
"""A p99 of lateness up to 2 ms, or up to this share of the median latency, is left to the interval."""

RATE_TOLERANCE = 0.02
"""Achieved and asked rate may differ by this much."""

BY_CHANCE = 0.001
"""p of the Kolmogorov-Smirnov test below which gaps are called not exponential."""

REPEATED = 0.01
"""More random gaps than this that equal the one before cannot be random."""

BACKLOG_GROWTH, BACKLOG_SHARE = 1.3, 0.05
"""Overload: requests in flight grow by this factor from the middle to the last third of the run, and at its end
this share of all requests is still open. Steady growth from zero gives a factor of 5/3; a queue at rest 1."""

SHORTEST = 5
"""A run must last this many median latencies: a queue needs a few of them to form."""

LENGTH_TOLERANCE = 0.10
"""Tokens as the server counted them may differ from what was asked by this much."""


@dataclass(frozen=True)
class Expected:
    """What was asked of a load."""

    arrivals: str
    """closed, poisson, constant or trace"""
    rate_per_s: Optional[float] = None
    max_connections: Optional[int] = None
    input_length: Optional[float] = None
    output_length: Optional[int] = None
    error_rate: float = 0.001
    percentile: Optional[float] = None
    """a quantile that the result cannot do without"""
    wants_tokens: bool = False
    confidence: float = 0.95
    longer: str = "raise policy.budget_s"
    """what to type for more samples; with a number of seconds after it"""


def audit(runs: Sequence[Sent], expected: Expected) -> LoadAudit:
    """Count over all runs of one load."""
    everything = [response for run in runs for response in run.responses]
    due = [[response.intended - run.begin for response in run.responses] for run in runs]
    started = [[response.started - run.begin for response in run.responses if response.started is not None] for run in runs]
    open_loop = expected.arrivals != "closed"
    window = sum(run.window_s for run in runs) / max(1, len(runs))
    found = arrivals.check(due, started, expected.rate_per_s, window, exponential=expected.arrivals == "poisson") if open_loop else None
    lags = [response.started - response.intended for response in everything if response.started is not None]
    failed = [response for response in everything if response.error is not None]
    prompts = {response.prompt for response in everything}
    return LoadAudit(
        asked=len(everything),
        answered=sum(response.answered for response in everything),
        failed=len(failed),
        lost=sum(response.end is None and response.error is None for response in everything),
        asked_rate_per_s=_asked_rate(expected, due, window) if open_loop else None,
        achieved_rate_per_s=found.achieved_rate_per_s if found else None,
        gap_ks_p=found.ks_p if found else None,
        repeated_gaps=found.repeated if found else None,
        lag_p50_s=_rounded(stats.percentile(lags, 0.5)) if lags and open_loop else None,
        lag_p99_s=_rounded(stats.percentile(lags, 0.99)) if lags and open_loop else None,
        cpu_share=round(max((run.busy for run in runs), default=0.0), 4),
        most_in_flight=max((run.most_in_flight for run in runs), default=0),
        connection_waits=sum(response.waited_for_connection for response in everything),
        repeated_prompts=1 - len(prompts) / len(everything) if everything else 0.0,
        backlog_growth=_median_of([growth for run in runs if (growth := backlog(run)[0]) is not None]) if open_loop else None,
    )


def _asked_rate(expected: Expected, due: Sequence[Sequence[float]], window_s: float) -> Optional[float]:
    if expected.rate_per_s is not None:
        return expected.rate_per_s
    return sum(len(run) for run in due) / (window_s * len(due)) if window_s > 0 and due else None


def backlog(run: Sent) -> tuple[Optional[float], float]:
    """(requests in flight in the last third over the middle third, share of all requests still open at the end of the window).

    In flight at an arrival: what had arrived by then and not ended. ``None`` below 30 requests.
    """
    if len(run.responses) < 30:
        return None, 0.0
    due = np.array([response.intended - run.begin for response in run.responses])
    ends = np.sort([np.inf if response.end is None else response.end - run.begin for response in run.responses])
    in_flight = np.arange(1, len(due) + 1) - np.searchsorted(ends, due, side="right")
    middle = in_flight[(due >= run.window_s / 3) & (due < run.window_s * 2 / 3)]
    last = in_flight[due >= run.window_s * 2 / 3]
    still_open = float((ends > run.window_s).mean())
    if not middle.size or not last.size:
        return None, still_open
    return float(last.mean() / middle.mean()), still_open


def overloaded(run: Sent) -> bool:
    """Whether the queue grew over the run."""
    growth, still_open = backlog(run)
    return run.overloaded or (growth is not None and growth > BACKLOG_GROWTH and still_open > BACKLOG_SHARE)


def judge(runs: Sequence[Sent], counted: LoadAudit, expected: Expected) -> tuple[list[Finding], list[Finding], Optional[bool]]:
    """(what makes it INVALID, what a reader must know beside that, whether it was at rest; null: too few to tell)."""
    everything = [response for run in runs for response in run.responses]
    answered = [response for response in everything if response.answered]
    latencies = [response.end - response.intended for response in answered]  # type: ignore[operator]
    invalid = [*_completeness(runs, counted, expected, everything), *_amount(runs, latencies, expected), *_generator(counted, expected, latencies)]
    at_rest, unsettled = _rest(runs, expected)
    return [*invalid, *unsettled], [*_counts(answered, expected), *_few_for_p99(latencies, expected), *_prompts(counted)], at_rest


# -- INVALID ----------------------------------------------------------------------------------


def _completeness(runs: Sequence[Sent], counted: LoadAudit, expected: Expected, everything: Sequence[Response]) -> list[Finding]:
    found = []
    if any(run.interrupted for run in runs):
        found.append(_warning("interrupted", f"stopped by hand after {counted.answered} answers; they are kept", "measure again and let it finish"))
    failed = [response for response in everything if response.error not in (None, INTERRUPTED)]
    if failed and len(failed) > expected.error_rate * len(everything):
        said = _most_common([response.error or "" for response in failed])
        found.append(
            _warning(
                "requests_failed",
                f"{len(failed)} of {len(everything)} requests failed ({len(failed) / len(everything):.2%}, objective.error_rate allows "
                f"{expected.error_rate:.2%}), most often with: {said}",
                "read the message; a server that refuses load needs a lower rate",
            )
        )
    if counted.lost:
        found.append(
            _warning(
                "responses_lost",
                f"{counted.lost} of {counted.asked} requests were neither answered nor failed",
                "raise endpoint.timeout_s, or lower the rate",
            )
        )
    return found


def _amount(runs: Sequence[Sent], latencies: Sequence[float], expected: Expected) -> list[Finding]:
    found = []
    quantile = expected.percentile or 0.5
    needed = stats.samples_needed(quantile, expected.confidence)
    spent = sum(run.window_s for run in runs)
    if len(latencies) < needed:
        seconds = f" to {int(spent * needed / len(latencies) * 1.1) + 1} s or more" if latencies else ""
        what = f"p{quantile * 100:g}" if expected.percentile else "the interval of the median"
        found.append(_warning("few_samples", f"{len(latencies)} answers; {what} needs {needed}", f"{expected.longer}{seconds}"))
    typical = stats.median(latencies) if latencies else None
    shortest = min((run.window_s for run in runs), default=0.0)
    if typical is not None and expected.arrivals != "closed" and shortest < SHORTEST * typical:
        found.append(
            _warning(
                "run_too_short",
                f"a run of {shortest:.3g} s is {shortest / typical:.2g} median latencies long, at least {SHORTEST} are needed for a queue to show",
                f"{expected.longer} to {int(SHORTEST * typical * len(runs)) + 1} s or more",
            )
        )
    return found


def client_objections(runs: Sequence[Sent], expected: Expected) -> list[Finding]:
    """Only what the load generator could not do: too busy, rate missed, connections. Lateness alone is judged in the end."""
    latencies = [response.end - response.intended for run in runs for response in run.responses if response.answered]  # type: ignore[operator]
    return [
        finding
        for finding in _generator(audit(runs, expected), expected, latencies)
        if finding.code in ("client_bound", "rate_missed", "connection_cap")
    ]


def _generator(counted: LoadAudit, expected: Expected, latencies: Sequence[float]) -> list[Finding]:
    found = []
    text = metric("latency_p50_s").text
    if counted.cpu_share is not None and counted.cpu_share > BUSY:
        found.append(
            _warning(
                "client_bound",
                f"the load generator computed for {counted.cpu_share:.0%} of the time, at most {BUSY:.0%} is allowed: it measured itself",
                "lower the rate or the requests in flight, or send from a faster host",
            )
        )
    allowed = max(LATE_S, LATE_SHARE * stats.median(latencies)) if latencies else LATE_S
    if counted.lag_p99_s is not None and counted.lag_p99_s > allowed:
        found.append(
            _warning(
                "schedule_late",
                f"requests were started late: p50 {text(counted.lag_p50_s or 0)}, p99 {text(counted.lag_p99_s)}, at most {text(allowed)} is allowed",
                "stop what else runs on this host, or lower the rate",
            )
        )
    asked, achieved = counted.asked_rate_per_s, counted.achieved_rate_per_s
    if asked and achieved and abs(achieved / asked - 1) > RATE_TOLERANCE:
        found.append(
            _warning(
                "rate_missed",
                f"{achieved:.4g} requests/s were sent, {asked:.4g}/s were asked for ({achieved / asked - 1:+.1%})",
                "lower the rate, or send from a faster host",
            )
        )
    if counted.gap_ks_p is not None and counted.gap_ks_p < BY_CHANCE:
        found.append(
            _warning(
                "gaps_not_random",
                f"the gaps between sends are not exponential (Kolmogorov-Smirnov p = {counted.gap_ks_p:.2g})",
                "send from a quiet host",
            )
        )
    if expected.arrivals == "poisson" and (counted.repeated_gaps or 0) > REPEATED:
        found.append(_warning("gaps_repeated", f"{counted.repeated_gaps:.0%} of the gaps equal the one before", "draw every gap from one generator"))
    if counted.connection_waits and expected.arrivals != "closed":
        found.append(
            _warning(
                "connection_cap",
                f"{counted.connection_waits} of {counted.asked} requests waited for one of the {expected.max_connections} connections allowed",
                "raise endpoint.max_connections, or lower the rate",
            )
        )
    return found


def _rest(runs: Sequence[Sent], expected: Expected) -> tuple[Optional[bool], list[Finding]]:
    if expected.arrivals != "closed":
        full = [run for run in runs if run.overloaded or len(run.responses) >= 30]
        if not full:
            return None, []
        grown = [run for run in full if overloaded(run)]
        if 2 * len(grown) <= len(full):
            return True, []
        growth, still_open = backlog(grown[0])
        because = (
            f"the queue grew: {growth or 0:.2f} times as many requests in flight in the last third as in the middle, {still_open:.0%} open at the end"
        )
        return False, [_warning("overloaded", because, "lower the rate: above its capacity a server's latency depends only on how long one measures")]
    for run in runs:
        values = [response.end - response.intended for response in run.responses if response.answered]  # type: ignore[operator]
        if len(values) >= stats.SETTLED_NEEDS:
            quiet, why = stats.settled(values)
            if not quiet:
                return False, [_warning("not_settled", why, f"{expected.longer}, or measure again when the server is quiet")]
    return (True, []) if any(len(run.responses) >= stats.SETTLED_NEEDS for run in runs) else (None, [])


# -- to be known ------------------------------------------------------------------------------


def _counts(answered: Sequence[Response], expected: Expected) -> list[Finding]:
    found = []
    if not answered or not expected.wants_tokens:
        return found
    if not any(response.chunks for response in answered):
        found.append(
            _warning("not_streamed", "the answers came in one piece, so there is no time to the first token", "let the server stream (stream: true)")
        )
    elif not all(response.counted_by_server for response in answered):
        found.append(
            _warning(
                "chunks_for_tokens",
                "the server counts no tokens; each chunk is taken for one, and some servers put several into one",
                "use a server that answers stream_options.include_usage",
            )
        )
    for code, name, wanted in (("input", "input_tokens", expected.input_length), ("output", "output_tokens", expected.output_length)):
        counts = [getattr(response, name) for response in answered if getattr(response, name) is not None]
        if wanted and counts and abs(float(np.mean(counts)) / wanted - 1) > LENGTH_TOLERANCE:
            said = f"{np.mean(counts):.4g} {code} tokens per request on average, {wanted:g} were asked for"
            if code == "input":
                found.append(_warning("input_length_differs", said, "compare only with figures of the same counted length"))
            else:
                found.append(_warning("output_length_differs", said, "let the model write on, e.g. endpoint.body: {ignore_eos: true}"))
    return found


def _few_for_p99(latencies: Sequence[float], expected: Expected) -> list[Finding]:
    needed = stats.samples_needed(0.99, expected.confidence)
    if expected.percentile == 0.99 or len(latencies) >= needed:
        return []
    because = f"{len(latencies)} answers; p99 needs {needed}, so none is reported"
    return [Finding(severity=Severity.NOTE, code="few_samples_p99", because=because, next=expected.longer)]


def _prompts(counted: LoadAudit) -> list[Finding]:
    if not counted.repeated_prompts:
        return []
    because = (
        f"{counted.repeated_prompts:.0%} of the requests repeat a prompt that was sent before: a server that caches prefixes answers them faster"
    )
    return [_warning("prompts_repeated", because, "give a longer file of prompts, or switch the server's prefix cache off")]


def _warning(code: str, because: str, next: str) -> Finding:
    return Finding(severity=Severity.WARNING, code=code, because=because, next=next)


def _most_common(texts: Sequence[str]) -> str:
    return max(set(texts), key=texts.count)


def _median_of(values: Sequence[float]) -> Optional[float]:
    return round(stats.median(values), 4) if values else None


def _rounded(seconds: float) -> float:
    return round(seconds, 7)
