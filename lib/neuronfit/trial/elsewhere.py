"""What a test that ran elsewhere can show beside its lines: totals, histograms, and failures that its log leaves out.

A quantile from a histogram lies somewhere in a bucket. Its interval is that of the order statistics (binomial ranks, as in
:func:`neuronfit.stats.percentile_interval`), each end moved out to the edge of its bucket; so it is never narrower than
the bucket. Requests count as independent there, since their order is lost.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timezone
from typing import Any, Optional

from neuronfit import sequential
from neuronfit.record import Finding, Severity, TrialPlan
from neuronfit.trial.evaluate import QUANTILES, Judge, Look, _Ratio, share_of
from neuronfit.trial.log import Logged

__all__ = ["files_of", "heard", "ratio_of_buckets"]

ENDLESS = 1e8
"""Seconds; an upper edge beyond it is infinite (JSON has no infinity)."""

Buckets = Sequence[Sequence[float]]
"""(above, at most, count) of each, seconds, ascending."""


def heard(one: Judge, found: Look, lines: bool, totals: Sequence[Mapping[str, Any]], noted: Mapping[str, Any]) -> Look:
    """How a criterion stands, with the totals of its stage and what the log leaves out of a side.

    ``found`` is what the lines say, where there are any. A share of failures that a log cannot show (``noted["unsaid"]``: side -> why) comes from
    totals of the same side; without them it may be too large and is never small enough. Latencies that are rounded (``noted["steps"]``:
    side -> step in seconds) widen the interval of a ratio by half a step of either side.
    """
    unsaid, steps = noted.get("unsaid") or {}, noted.get("steps") or {}
    counted = _failures(one, totals) if totals and (not lines or "candidate" in unsaid) else None
    if counted is not None:
        return counted
    if totals and not lines:
        return _of_totals(one, totals)
    sides = ("candidate", "baseline") if one.criterion.metric in ("throughput", "cost_per_result") else ("candidate",)
    hidden = next((unsaid[side] for side in sides if side in unsaid), None)
    counts_failures = one.criterion.metric in ("error_rate", "throughput", "cost_per_result") or _fixed_bound(one)
    if hidden and counts_failures and found.outcome == "passed":
        return Look("inconclusive", f"{found.because}; {hidden}", found.value, found.low, found.high, found.count)
    return _widened(one, found, steps) if steps and isinstance(one, _Ratio) and found.value is not None else found


def _widened(one: _Ratio, found: Look, steps: Mapping[str, float]) -> Look:
    off = sum(steps.get(side, 0.0) / 2 / at for side, at in one.quantiles.items())
    low, high = found.low * (1 - off), found.high * (1 + off)
    stands = {"passed": high <= one.limit, "failed": low > one.limit}.get(found.outcome, True)
    ends = f"{low:.3f} to {high:.3f}, with the rounding to whole milliseconds" if math.isfinite(high) else "too uneven to bound"
    said = f"{one.criterion.name} is {found.value:.3f} x the baseline's ({ends}), {one.limit:g} is allowed"
    return Look(found.outcome if stands else "inconclusive", said, found.value, low, high, found.count, found.z, found.edge)


def _fixed_bound(one: Judge) -> bool:
    return one.criterion.compare == "bound" and one.quantile in QUANTILES


def _failures(one: Judge, totals: Sequence[Mapping[str, Any]]) -> Optional[Look]:
    """A file may hold requests and failures, or each a file of its own, as one metric of CloudWatch is."""
    mine = [(event.get("asked") or 0, event.get("failed")) for event in totals if event["arm"] == "candidate"]
    asked, failed = sum(count for count, _ in mine), sum(count or 0 for _, count in mine)
    apart = any(count and lost is None for count, lost in mine)
    together = any(count and lost is not None for count, lost in mine)
    told = any(lost is not None for _, lost in mine) and not (apart and together)
    if one.criterion.metric != "error_rate" or not told or not 0 <= failed <= asked:
        return None
    return share_of(one.criterion.name, failed, asked, one.criterion.bound, one.alpha, "of the candidate's requests failed", most=True)


def _of_totals(one: Judge, totals: Sequence[Mapping[str, Any]]) -> Look:
    """Of latencies a histogram of both sides says something, a printed percentile nothing that could be judged."""
    buckets = {event["arm"]: event["buckets"][one.metric] for event in totals if one.metric in (event.get("buckets") or {})}
    if one.quantile in QUANTILES and one.criterion.compare == "baseline" and len(buckets) == 2:
        mine, theirs = buckets["candidate"], buckets["baseline"]
        return ratio_of_buckets(one.criterion.name, mine, theirs, QUANTILES[one.quantile], one.criterion.allowed, one.alpha)
    if _fixed_bound(one) and "candidate" in buckets:
        failed = sum(event.get("failed") or 0 for event in totals if event["arm"] == "candidate")
        return _beyond(one, buckets["candidate"], failed)
    shown = [
        f"{event['arm']} {event['values'][key] * 1e3:g} ms" for event in totals if (key := f"{one.criterion.metric}_s") in event.get("values", {})
    ]
    seen = f" ({', '.join(shown)})" if shown else ""
    remarks = "; ".join(dict.fromkeys(remark for event in totals for remark in event.get("remarks") or ())) if shown else ""
    because = f"{one.criterion.name}: the file has totals{seen} and no line per request, so no interval can be given"
    return Look("inconclusive", because + (f"; {remarks}" if remarks else ""))


def ratio_of_buckets(name: str, mine: Buckets, theirs: Buckets, q: float, limit: float, alpha: float) -> Look:
    """Ratio of a quantile of two histograms. Each end of its interval holds with chance 1 - ``alpha``, half of it for either side."""
    count = round(min(sum(bucket[2] for bucket in side) for side in (mine, theirs)))
    needed = math.ceil(sequential.LEAST_TAIL / min(q, 1 - q))
    if count < needed:
        return Look("inconclusive", f"{name}: {count} answers on the smaller side, it is looked at from {needed} on", count=count)
    (at, low, high), (at_theirs, low_theirs, high_theirs) = (_quantile(side, q, alpha / 2) for side in (mine, theirs))
    value = at / at_theirs if at_theirs else math.inf
    least = low / high_theirs if math.isfinite(high_theirs) else 0.0
    most = high / low_theirs if low_theirs else math.inf
    outcome = "failed" if least > limit else "passed" if most <= limit else "inconclusive"
    shown = f"{_ms(low, high)} against {_ms(low_theirs, high_theirs)}"
    to = f"{most:.3f}" if math.isfinite(most) else "no bound"
    said = f"{name} from histograms is {shown}: {least:.3f} to {to} x the baseline's, {limit:g} is allowed"
    return Look(outcome, f"{said}; a quantile is known to its bucket only", value, least, most, count)


def _ms(low: float, high: float) -> str:
    return f"{low * 1e3:.4g} to {high * 1e3:.4g} ms" if math.isfinite(high) else f"above {low * 1e3:.4g} ms"


def _quantile(buckets: Buckets, q: float, alpha: float) -> tuple[float, float, float]:
    """(interpolated within its bucket, lower end, upper end) of the ``q`` quantile, seconds."""
    from scipy.stats import binom

    total = round(sum(bucket[2] for bucket in buckets))
    lowest, highest = int(binom.ppf(alpha, total, q)), int(binom.ppf(1 - alpha, total, q)) + 1
    above, upto, part = _place(buckets, q * total)
    middle = above + (upto - above) * part if math.isfinite(upto) else above
    return middle, _place(buckets, max(lowest, 1))[0], _place(buckets, min(highest, total))[1]


def _place(buckets: Buckets, rank: float) -> tuple[float, float, float]:
    """(lower edge, upper edge, how far into it) of the bucket that holds the value of a rank, counted from 1."""
    seen = 0.0
    for above, upto, count in buckets:
        if count and seen + count >= rank - 1e-9:
            return above, math.inf if upto > ENDLESS else upto, (rank - seen) / count
        seen += count
    raise ValueError(f"no bucket holds rank {rank:g} of {seen:g}")


def _beyond(one: Judge, buckets: Buckets, failed: int) -> Look:
    """The share of requests beyond a fixed bound; those of the bucket that the bound divides may lie on either side, and so may failed ones."""
    bound = one.criterion.bound
    total = round(sum(bucket[2] for bucket in buckets))
    sure = round(sum(count for above, _, count in buckets if above >= bound * (1 - 1e-9)))
    maybe = round(sum(count for above, upto, count in buckets if above < bound * (1 - 1e-9) and upto > bound * (1 + 1e-9)))
    most, asked = min(sure + maybe + failed, total + failed), total + failed
    share = 1 - QUANTILES[one.quantile]
    low = sequential.share_bounds(sure, asked, one.alpha, expected=share)[0]
    high = sequential.share_bounds(most, asked, one.alpha, expected=share)[1]
    outcome = "passed" if high <= share else "failed" if low > share else "inconclusive"
    seen = f"{sure} to {most} of {asked}" if most > sure else f"{sure} of {asked}"
    said = f"{one.criterion.name}: {seen} of the candidate's requests took longer than {bound * 1e3:g} ms or failed ({low:.3%} to {high:.3%}), at most {share:.3%} is asked"
    if maybe:
        said += f"; {maybe} are in the bucket that {bound * 1e3:g} ms divides: give the histogram that edge"
    return Look(outcome, said, (sure + most) / 2 / asked, low, high, asked)


def files_of(plan: TrialPlan, logged: Logged) -> Iterator[Finding]:
    """What the files of a test that ran elsewhere leave out: failures, digits, and that both sides were asked in the same hours."""
    for event in logged.event("imported"):
        counted = {one["arm"] for one in logged.event("totals") if one.get("failed") is not None}
        for arm, why in (event.get("unsaid") or {}).items():
            if arm in counted:
                continue
            advice = "export a log that has every request with its status"
            yield Finding(severity=Severity.WARNING, code="failures_unsaid", because=f"{arm}: {why}", next=advice)
        steps = event.get("steps") or {}
        margins = [criterion.margin for criterion in plan.criteria_fixed if criterion.compare == "baseline" and criterion.margin]
        if steps:
            width = f", a margin of {min(margins):.0%} is 1 ms of {1 / min(margins):.0f} ms" if margins else ""
            because = f"latencies of {' and '.join(steps)} are whole milliseconds{width}"
            yield Finding(severity=Severity.NOTE, code="latency_rounded", because=because, next="log latencies with their fractions")
        spans = event.get("spans") or {}
        if len(spans) == 2 and (apart := _apart(*spans.values())):
            shown = ", ".join(f"{arm} from {_clock(first)} to {_clock(last)}" for arm, (first, last) in spans.items())
            because = f"the sides were not asked at the same time ({shown}): {apart:.0%} of the shorter run lies outside the other, and a difference may be that of the hours"
            yield Finding(severity=Severity.WARNING, code="sides_apart", because=because, next="send to both sides at the same time")


def _apart(first: Sequence[float], second: Sequence[float]) -> float:
    """The share of the shorter of two spans that lies outside the other, where it is more than half; else 0."""
    shared = min(first[1], second[1]) - max(first[0], second[0])
    shorter = max(min(first[1] - first[0], second[1] - second[0]), 1.0)
    share = 1 - max(shared, 0.0) / shorter
    return share if share > 0.5 else 0.0


def _clock(unix: float) -> str:
    return datetime.fromtimestamp(unix, timezone.utc).strftime("%Y-%m-%d %H:%M:%S")
