"""What a load generator saw, as it is kept in a record: requests, how they were sent, and what follows from them.

A :class:`Run` of an endpoint carries :class:`Requests`: parallel tuples with one entry per request, lossless.
Every figure of :func:`derived` is computed from them when the record is read. Definitions:

* latency: from the *intended* send time to the last token (or the whole answer), so that a server, or a
  client, that falls behind is not forgiven the wait (coordinated omission);
* TTFT: from the intended send time to the first chunk that carries text;
* TPOT of a request: (last token - first token) / (output tokens - 1);
* ITL: the gap between two chunks that carry text; equal to the gap between tokens only where each chunk is one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal, Optional

from pydantic import BaseModel, ConfigDict, Field, model_validator

from neuronfit import stats
from neuronfit.provenance import Quantity, absent
from neuronfit.units import metric

if TYPE_CHECKING:
    from neuronfit.record import Measurement, Run

__all__ = ["Load", "LoadAudit", "Probe", "Requests", "derived", "within_objective"]

PERCENTILES = {"p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99}


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Requests(_Frozen):
    """Every request of one run, in the order in which they were due; times in seconds from the start of the run."""

    intended_s: tuple[float, ...] = Field(description="when the request was due")
    sent_s: tuple[Optional[float], ...] = Field(description="when its headers were written; null: never")
    first_s: tuple[Optional[float], ...] = Field(description="first chunk that carried text; null: none came, or the answer was not streamed")
    end_s: tuple[Optional[float], ...] = Field(description="last chunk that carried text, or the whole answer; of a failed request, the failure")
    input_tokens: tuple[Optional[int], ...] = Field((), description="as the server counted them")
    output_tokens: tuple[Optional[int], ...] = Field((), description="as the server counted them, or its chunks")
    gaps_s: tuple[tuple[float, ...], ...] = Field((), description="gaps between the chunks of each request")
    prompt: tuple[int, ...] = Field((), description="number of the prompt that was sent; equal numbers are equal prompts")
    errors: dict[int, str] = Field(default_factory=dict, description="position in these lists -> what went wrong")

    @model_validator(mode="after")
    def _parallel(self) -> "Requests":
        count = len(self.intended_s)
        for name in ("sent_s", "first_s", "end_s"):
            if len(getattr(self, name)) != count:
                raise ValueError(f"{name} has {len(getattr(self, name))} entries, intended_s has {count}")
        for name in ("input_tokens", "output_tokens", "gaps_s", "prompt"):
            if len(getattr(self, name)) not in (0, count):
                raise ValueError(f"{name} has {len(getattr(self, name))} entries, intended_s has {count}")
        if any(not 0 <= place < count for place in self.errors):
            raise ValueError("an error of a request that is not there")
        return self

    def answered(self) -> Iterator[int]:
        """Positions of the requests that were answered."""
        return (place for place, end in enumerate(self.end_s) if end is not None and place not in self.errors)

    def latency_s(self, place: int) -> float:
        return self.end_s[place] - self.intended_s[place]  # type: ignore[operator]

    def service_s(self, place: int) -> Optional[float]:
        """From the actual send; what a closed-loop tool would call latency."""
        sent = self.sent_s[place]
        return None if sent is None else self.end_s[place] - sent  # type: ignore[operator]

    def ttft_s(self, place: int) -> Optional[float]:
        first = self.first_s[place]
        return None if first is None else first - self.intended_s[place]

    def tpot_s(self, place: int) -> Optional[float]:
        """``None`` below two tokens, or where the answer was not streamed."""
        first, tokens = self.first_s[place], self.output_tokens[place] if self.output_tokens else None
        if first is None or not tokens or tokens < 2:
            return None
        return (self.end_s[place] - first) / (tokens - 1)  # type: ignore[operator]

    def chunk_is_a_token(self) -> bool:
        """Whether every answered request had as many chunks as tokens."""
        if not self.gaps_s or not self.output_tokens:
            return False
        return all(self.output_tokens[place] in (None, 0, len(self.gaps_s[place]) + 1) for place in self.answered())


class LoadAudit(_Frozen):
    """What the load generator found about itself. Fractions are 0..1; null: does not apply."""

    asked: int = Field(description="requests that were due")
    answered: int
    failed: int
    lost: int = Field(description="neither answered nor failed when the run was closed")
    asked_rate_per_s: Optional[float] = None
    achieved_rate_per_s: Optional[float] = Field(None, description="requests handed to the network over the time in which they were due")
    gap_ks_p: Optional[float] = Field(None, description="Kolmogorov-Smirnov test of the gaps between sends against the exponential: p")
    repeated_gaps: Optional[float] = Field(None, description="share of gaps that equal the one before")
    lag_p50_s: Optional[float] = Field(None, description="how late requests were started")
    lag_p99_s: Optional[float] = None
    cpu_share: Optional[float] = Field(None, description="share of the time in which the load generator itself computed")
    most_in_flight: int = 0
    connection_waits: int = Field(0, description="requests that waited because every allowed connection was in use")
    repeated_prompts: float = Field(0.0, description="share of requests whose prompt had been sent before: what a prefix cache may answer")
    backlog_growth: Optional[float] = Field(None, description="requests in flight, last third of the run over the middle third")


class Probe(_Frozen):
    """One rate that was tried in the search for the highest that keeps the objective."""

    rate_per_s: float
    kept: bool
    answered: int
    because: str


class Load(_Frozen):
    """How the requests were sent."""

    arrivals: Literal["closed", "poisson", "constant", "trace"]
    rate_per_s: Optional[float] = Field(None, description="asked rate; null where the loop is closed")
    concurrency: Optional[int] = Field(None, description="requests kept in flight; null where the loop is open")
    max_connections: Optional[int] = None
    seed: int = 0
    streamed: bool = True
    tokens_from: Literal["usage", "chunks", "none"] = "none"
    objective_s: dict[str, float] = Field(default_factory=dict, description="what goodput is judged by: ttft, tpot, latency -> bound")
    searched: bool = Field(False, description="the rate is the highest found that keeps the objective, so throughput is the capacity")
    probes: tuple[Probe, ...] = ()
    audit: Optional[LoadAudit] = None


# -- figures ----------------------------------------------------------------------------------


def derived(measurement: Measurement, name: str, confidence: float = 0.95) -> Quantity:
    """One metric of a measurement whose runs carry requests; absent with the reason.

    Percentiles are over all answered requests (ITL: all gaps) of all runs, with the interval of
    :func:`neuronfit.stats.percentile_interval_of_runs`; rates are per run, their value the median over runs.
    Shares of requests have the exact binomial interval (Clopper and Pearson 1934).
    """
    unit = metric(name).unit
    known = {"unit": unit, "grade": measurement.grade, "record": measurement.id or None}
    runs = [run for run in measurement.runs if run.requests is not None]
    load = measurement.load or Load(arrivals="closed")
    if name in ("goodput_fraction", "error_fraction"):
        return _share(runs, load, name, confidence, known)
    if name.endswith("_per_s") and name in _RATES:
        return _rate(measurement, runs, load, name, known)
    series, _, statistic = name.removesuffix("_s").rpartition("_")
    if series not in _SERIES or statistic not in ("mean", *PERCENTILES):
        return absent(unit, f"not derived from requests: {name}")
    by_run, why = _SERIES[series](runs, load)
    by_run = [values for values in by_run if values]
    values = [value for part in by_run for value in part]
    if not values:
        return absent(unit, why or measurement.validity or "no request was answered")
    if statistic == "mean":
        return Quantity(value=sum(values) / len(values), why=why, **known)
    quantile = PERCENTILES[statistic]
    needed = stats.samples_needed(quantile, confidence)
    if len(values) < needed:
        return absent(unit, f"{len(values)} samples; {metric(name).label} needs {needed}")
    value = stats.percentile(values, quantile)
    interval = stats.percentile_interval_of_runs(by_run, quantile, confidence)
    if interval is None:
        wide = f"{len(by_run)} runs differ too much for an interval: the ends are the extremes"
        return Quantity(value=value, low=min(values), high=max(values), why="; ".join(part for part in (why, wide) if part), **known)
    return Quantity(value=value, low=min(interval[0], value), high=max(interval[1], value), confidence=confidence, why=why, **known)


def within_objective(requests: Requests, place: int, bounds: dict[str, float]) -> bool:
    """Whether one request was answered within every bound; a bound that cannot be told is not kept."""
    if requests.end_s[place] is None or place in requests.errors:
        return False
    found = {"latency": requests.latency_s, "ttft": requests.ttft_s, "tpot": requests.tpot_s}
    for name, bound in bounds.items():
        value = found[name](place)
        if value is None and name == "tpot" and requests.output_tokens and requests.output_tokens[place] == 1:
            continue  # one token has no gap to be late in
        if value is None or value > bound:
            return False
    return True


Series = tuple[list[list[float]], Optional[str]]
"""Values of each run, and what a reader must know about them (or why there are none)."""


def _latency(runs: Sequence[Run], load: Load) -> Series:
    return [[run.requests.latency_s(place) for place in run.requests.answered()] for run in runs], None


def _ttft(runs: Sequence[Run], load: Load) -> Series:
    values = [[value for place in run.requests.answered() if (value := run.requests.ttft_s(place)) is not None] for run in runs]
    return values, None if any(values) else "the answers were not streamed"


def _tpot(runs: Sequence[Run], load: Load) -> Series:
    values = [[value for place in run.requests.answered() if (value := run.requests.tpot_s(place)) is not None] for run in runs]
    if not any(values):
        return values, "no streamed answer of two tokens or more with a token count"
    return values, CHUNKS_FOR_TOKENS if load.tokens_from == "chunks" else None


def _itl(runs: Sequence[Run], load: Load) -> Series:
    values = [[gap for place in run.requests.answered() for gap in (run.requests.gaps_s[place] if run.requests.gaps_s else ())] for run in runs]
    if not any(values):
        return values, "no streamed answer of two chunks or more"
    if load.tokens_from != "usage":
        return values, CHUNKS_FOR_TOKENS
    return values, None if all(run.requests.chunk_is_a_token() for run in runs) else "gaps between chunks: some chunks carry several tokens"


CHUNKS_FOR_TOKENS = "the server counts no tokens: each chunk is taken for one"

_SERIES = {"latency": _latency, "ttft": _ttft, "tpot": _tpot, "itl": _itl}
_RATES = ("throughput_per_s", "requests_per_s", "output_tokens_per_s", "input_tokens_per_s")


def _rate(measurement: Measurement, runs: Sequence[Run], load: Load, name: str, known: dict[str, Any]) -> Quantity:
    if name == "throughput_per_s" and load.arrivals != "closed" and not load.searched:
        return absent(known["unit"], f"open loop at {load.rate_per_s or 0:.4g}/s: as many are answered as are sent; see requests_per_s")
    why = None
    if name == "output_tokens_per_s" or (name == "throughput_per_s" and measurement.result_unit == "token"):
        counts, missing = _counted(runs, "output_tokens"), "the answers carry no token counts"
        why = CHUNKS_FOR_TOKENS if load.tokens_from == "chunks" else None
    elif name == "input_tokens_per_s":
        counts, missing = _counted(runs, "input_tokens"), "the answers carry no count of input tokens"
    else:
        each = 1 if name == "requests_per_s" else measurement.results_per_call or 0
        counts, missing = [each * sum(1 for _ in run.requests.answered()) for run in runs], ""
    rates = [count / run.duration_s for run, count in zip(runs, counts) if count is not None]
    if not rates or len(rates) < len(runs) or not any(True for run in runs for _ in run.requests.answered()):
        return absent(known["unit"], missing or measurement.validity or "no request was answered")
    return Quantity(value=stats.median(rates), low=min(rates), high=max(rates), why=why, **known)


def _counted(runs: Sequence[Run], name: str) -> list[Optional[int]]:
    """Tokens of the answered requests of each run; ``None`` where one of them has no count."""
    totals: list[Optional[int]] = []
    for run in runs:
        counts = getattr(run.requests, name)
        values = [counts[place] if counts else None for place in run.requests.answered()]
        totals.append(None if any(value is None for value in values) else sum(values))  # type: ignore[arg-type]
    return totals


def _share(runs: Sequence[Run], load: Load, name: str, confidence: float, known: dict[str, Any]) -> Quantity:
    total = sum(len(run.requests.intended_s) for run in runs)
    if not total:
        return absent(known["unit"], "no request was sent")
    if name == "goodput_fraction":
        if not load.objective_s:
            return absent(known["unit"], "no bound to be within: objective names none")
        count = sum(within_objective(run.requests, place, load.objective_s) for run in runs for place in range(len(run.requests.intended_s)))
    else:
        count = total - sum(1 for run in runs for _ in run.requests.answered())
    low, high = _binomial_interval(count, total, confidence)
    return Quantity(value=count / total, low=low, high=high, confidence=confidence, **known)


def _binomial_interval(count: int, total: int, confidence: float) -> tuple[float, float]:
    """Clopper-Pearson: the shares under which ``count`` of ``total`` is not yet too surprising."""
    from scipy.special import betaincinv

    tail = (1 - confidence) / 2
    low = 0.0 if count == 0 else float(betaincinv(count, total - count + 1, tail))
    high = 1.0 if count == total else float(betaincinv(count + 1, total - count, 1 - tail))
    return min(low, count / total), max(high, count / total)
