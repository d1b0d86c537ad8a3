"""Rules that hold for every served load, whichever tool wrote the file.

They look at one :class:`~neuronfit.adopt.reading.Reading` at a time: were requests lost, are there
enough of them for the percentile, was the client or the server the limit, do the totals agree, is a
name used for something else. What must not stand as a metric moves to ``printed``; nothing is dropped.
"""

from __future__ import annotations

from typing import Optional

from neuronfit import stats
from neuronfit.adopt.reading import DISTRIBUTIONS, QUANTILES, Reading
from neuronfit.units import metric

__all__ = ["declare", "examine", "set_aside", "summarise"]

TOLERABLE_FAILURES = 0.05
"""From this share of failed requests on, the figure must not be used at all."""

BATCH_ADVICE = "say it with --batch-size"

DISAGREE = 0.02
"""Totals that differ by more than this are not rounding."""


def examine(reading: Reading, *, serving: bool = True) -> Reading:
    """Apply the rules and return the same reading. ``serving`` adds those about requests that arrive at a server."""
    if reading.samples:
        summarise(reading)
    _complete_rates(reading)
    _failures(reading)
    _totals(reading)
    _order(reading)
    _outliers(reading)
    _cold(reading)
    _sample_size(reading)
    _lengths(reading)
    if serving:
        _flight(reading)
        _load(reading)
        _streaming(reading)
        _goodput(reading)
    _headline(reading)
    return reading


def declare(
    reading: Reading, *, requests: Optional[int], concurrency: Optional[float], output_length: Optional[int], batch_size: Optional[int] = None
) -> None:
    """Apply the rules again that wait for what the file does not say: how many were asked, how many at a time, how long, how large a call."""
    waiting = any(fault.code == "client_batch_unknown" and "--batch-size" in (fault.next or "") for fault in reading.faults)
    if batch_size is not None and waiting and reading.result_unit != "token":
        _drop(reading, "client_batch_unknown")
        calls = reading.values.get("requests_per_s")
        if calls is None and reading.completed and reading.duration_s:
            calls = reading.values["requests_per_s"] = reading.completed / reading.duration_s
            reading.printed.pop("requests_per_s", None)
        if calls is not None:
            reading.values["throughput_per_s"] = calls * batch_size
    if requests is not None and (reading.asked is None or reading.asked == reading.completed):
        reading.asked = requests
        reading.values.pop("error_fraction", None)
        _drop(reading, "failures_not_stated", "sample_count_unknown")
        if reading.completed is not None:
            _failures(reading)
        elif any("_p" in name for name in reading.values):
            reading.completed = requests
            _sample_size(reading)
    if concurrency is not None and reading.concurrency is None:
        reading.concurrency = concurrency
        _drop(reading, "in_flight")
        _flight(reading)
    if output_length is not None and reading.output_tokens:
        reading.expected_output_tokens = float(output_length)
        _drop(reading, "output_tokens_differ")
        _lengths(reading)


def _drop(reading: Reading, *codes: str) -> None:
    reading.faults[:] = [fault for fault in reading.faults if fault.code not in codes]


def summarise(reading: Reading) -> None:
    """Means and percentiles of raw requests as metrics (SI), tokens and wall time where known."""
    found = {
        "latency": [sample.latency_s for sample in reading.samples],
        "ttft": [sample.ttft_s for sample in reading.samples if sample.ttft_s is not None],
        "tpot": [sample.tpot_s for sample in reading.samples if sample.tpot_s is not None],
    }
    for name, values in found.items():
        if not values:
            continue
        reading.values[f"{name}_mean_s"] = sum(values) / len(values)
        for quantile, q in QUANTILES.items():
            reading.values[f"{name}_{quantile}_s"] = stats.percentile(values, q)
        reading.extremes[f"{name}_min_s"], reading.extremes[f"{name}_max_s"] = min(values), max(values)
    outputs = [sample.output_tokens for sample in reading.samples if sample.output_tokens is not None]
    inputs = [sample.input_tokens for sample in reading.samples if sample.input_tokens is not None]
    if outputs:
        reading.output_tokens = sum(outputs) / len(outputs)
        reading.extremes.update(output_tokens_min=min(outputs), output_tokens_max=max(outputs))
    if inputs:
        reading.input_tokens = sum(inputs) / len(inputs)
    if reading.completed is None:
        reading.completed = len(reading.samples)
    starts = [sample.start_s for sample in reading.samples if sample.start_s is not None]
    if reading.duration_s is None and len(starts) == len(reading.samples) and starts:
        ends = [sample.start_s + sample.latency_s for sample in reading.samples if sample.start_s is not None]
        reading.duration_s = max(max(ends) - min(starts), 1e-9)


def set_aside(reading: Reading, name: str) -> None:
    """Move a metric to ``printed``, with its unit: it is in the file and must not be used."""
    if name in reading.values:
        reading.printed[name] = metric(name).text(reading.values.pop(name))


def _complete_rates(reading: Reading) -> None:
    """Rates that follow from counts and the wall time."""
    values, duration = reading.values, reading.duration_s
    if "requests_per_s" not in values and reading.completed and duration:
        values["requests_per_s"] = reading.completed / duration
    rate = reading.completed / duration if reading.completed and duration else values.get("requests_per_s")
    if rate and reading.latency_of == "batch":
        rate *= reading.settings.get("batch_size") or 1
    if "output_tokens_per_s" not in values and reading.output_tokens and rate:
        values["output_tokens_per_s"] = rate * reading.output_tokens
    if "input_tokens_per_s" not in values and reading.input_tokens and rate:
        values["input_tokens_per_s"] = rate * reading.input_tokens
    if reading.input_tokens:
        reading.settings.setdefault("sequence_length", round(reading.input_tokens))
    if reading.output_tokens:
        reading.settings.setdefault("output_length", round(reading.output_tokens))
    if reading.scenario == "unknown" and reading.result_unit == "token":
        reading.scenario = "server" if reading.request_rate else "generate"


def _failures(reading: Reading) -> None:
    done, failed = reading.completed, reading.failed
    asked = reading.asked if reading.asked is not None else done + failed if done is not None and failed is not None else None
    if asked is None or done is None:
        if done is not None and failed is None:
            reading.fault(
                "failures_not_stated", f"{done:,} requests succeeded; the file does not say how many were asked or failed", "say it with --requests"
            )
        return
    missing = failed if failed else max(asked - done, 0)
    if not asked:
        return
    share = min(missing / asked, 1.0)
    reading.values.setdefault("error_fraction", share)
    if missing:
        silent = "" if failed else " (the file calls none of them failed)"
        advice = "find out why they failed and measure again; the percentiles are those of the survivors"
        severity = "blocker" if share >= TOLERABLE_FAILURES else "warning"
        reading.fault("failed_requests", f"{missing:,} of {asked:,} requests have no answer, {100 * share:.3g} %{silent}", advice, severity)


def _totals(reading: Reading) -> None:
    """Recompute what follows from totals and the wall time; the recomputed figure is the one used."""
    values, duration, done = reading.values, reading.duration_s, reading.completed
    if not duration or not done:
        return
    if reading.latency_of == "batch":  # a call is no request, and a phase has not all of its tokens
        return
    expected = {
        "requests_per_s": done / duration,
        "output_tokens_per_s": reading.output_tokens * done / duration if reading.output_tokens else None,
        "input_tokens_per_s": reading.input_tokens * done / duration if reading.input_tokens else None,
    }
    for name, truth in expected.items():
        said = values.get(name)
        if truth is None or said is None or abs(said - truth) <= max(DISAGREE * truth, 0.0051):
            continue
        reading.printed[name] = metric(name).text(said)
        values[name] = truth
        reading.fault(
            "totals_disagree", f"{metric(name).label} is printed as {said:.6g}/s, counts over {duration:.6g} s give {truth:.6g}/s, which is used"
        )
    total = reading.extremes.get("total_tokens_per_s")
    if total and reading.output_tokens and reading.input_tokens:
        truth = (reading.output_tokens + reading.input_tokens) * done / duration
        if abs(total - truth) > max(DISAGREE * truth, 0.0051):
            reading.fault(
                "totals_disagree", f"total tokens/s is printed as {total:,.6g}, input and output tokens over {duration:.6g} s give {truth:,.6g}"
            )


def _order(reading: Reading) -> None:
    for name in DISTRIBUTIONS:
        known = [(quantile, reading.values[f"{name}_{quantile}_s"]) for quantile in QUANTILES if f"{name}_{quantile}_s" in reading.values]
        if (least := reading.extremes.get(f"{name}_min_s")) is not None:
            known.insert(0, ("min", least))
        if (largest := reading.extremes.get(f"{name}_max_s")) is not None:
            known.append(("max", largest))
        for (low, below), (high, above) in zip(known, known[1:]):
            if above < below * (1 - 1e-6):
                because = f"{name} {high} {above:.6g} s is below {low} {below:.6g} s"
                reading.fault("unordered_statistics", because, "check the source; the columns may be exchanged")
                break
        negative = next((part for part, value in known if value < 0), None)
        if negative:
            reading.fault("unordered_statistics", f"{name} {negative} is negative", "check the source")


def _outliers(reading: Reading) -> None:
    for name in DISTRIBUTIONS:
        top, largest = reading.values.get(f"{name}_p99_s"), reading.extremes.get(f"{name}_max_s")
        if top and largest and largest > 3 * top:
            why = {
                "itl": "a decode step waited, as when another prompt is prefilled",
                "latency": "one request was far slower, as the first, cold one is",
            }.get(name, "a single value")
            reading.fault("tail_outlier", f"{name} max {_s(largest)} is beyond p99 {_s(top)}: {why}")
        middle, p75, p90 = (reading.values.get(f"{name}_p50_s"), reading.extremes.get(f"{name}_p75_s"), reading.values.get(f"{name}_p90_s"))
        if name != "itl" and middle and p75 and p90 and p75 >= 2 * middle and p90 >= 4 * middle:
            reading.fault("bimodal", f"{name} has two levels: p50 {_s(middle)}, p75 {_s(p75)}, p90 {_s(p90)}; one number does not describe it")


def _cold(reading: Reading) -> None:
    mean, middle = reading.values.get("ttft_mean_s"), reading.values.get("ttft_p50_s")
    top = next((reading.values[name] for name in ("ttft_p99_s", "ttft_p95_s") if name in reading.values), reading.extremes.get("ttft_max_s"))
    if mean and middle and top and mean > 1.5 * middle and top > 10 * middle:
        because = f"time to first token: mean {_s(mean)}, p50 {_s(middle)}, tail {_s(top)}: a few cold or stalled requests make the mean"
        reading.fault("cold_start", because, "use the median, or measure again with warm-up requests left out")
    if reading.cold_calls_inside:
        reading.fault("cold_start", reading.cold_calls_inside, "leave warm-up requests out of the measurement")


def _sample_size(reading: Reading) -> None:
    count = len(reading.samples) or reading.completed
    has = [name for name in reading.values if any(name.startswith(f"{kind}_p") for kind in DISTRIBUTIONS)]
    if count is None:
        if has:
            tail = [metric(name).label for name in has if "_p9" in name]
            if tail:
                reading.fault(
                    "sample_count_unknown", f"the file does not say over how many requests {', '.join(tail[:4])} were taken", "say it with --requests"
                )
        return
    few: dict[str, list[str]] = {}
    for name in has:
        kind, quantile = name.removesuffix("_s").rsplit("_", 1)
        size = count * (reading.output_tokens or 1) if kind == "itl" else count
        if size < stats.samples_needed(QUANTILES[quantile]):
            set_aside(reading, name)
            few.setdefault(quantile, []).append(kind)
    if few:
        names = [quantile for quantile in QUANTILES if quantile in few]
        needed = stats.samples_needed(QUANTILES[names[0]])
        kinds = ", ".join(dict.fromkeys(kind for quantile in names for kind in few[quantile]))
        because = (
            f"{', '.join(names)} of {kinds} rest on {count:,} request{'s' if count != 1 else ''}, so on the last value or two; {names[0]} needs {needed}: "
            "shown as printed, not used"
        )
        reading.fault("too_few_samples", because, f"measure with at least {stats.samples_needed(QUANTILES[names[-1]])} requests for {names[-1]}")


def _lengths(reading: Reading) -> None:
    mean, expected = reading.output_tokens, reading.expected_output_tokens
    if mean and expected and abs(mean / expected - 1) > 0.05:
        because = f"{mean:.4g} output tokens per request were counted, {expected:g} were asked for or declared"
        advice = "ignore the end-of-text token, or compare only with runs of the same length"
        reading.fault("output_tokens_differ", because, advice)
    low, high = reading.extremes.get("output_tokens_min"), reading.extremes.get("output_tokens_max")
    if mean and low is not None and high is not None and high - low > 0.3 * mean:
        because = f"answers have {low:g} to {high:g} tokens, so request latencies are those of different work"
        reading.fault("answer_lengths_vary", because, "compare the time per token, or measure at one output length")


def _latency_mean(reading: Reading) -> tuple[Optional[float], str]:
    values = reading.values
    for name in ("latency_mean_s", "latency_p50_s"):
        if name in values:
            return values[name], metric(name).label
    first = values.get("ttft_mean_s", values.get("ttft_p50_s"))
    per = values.get("tpot_mean_s", values.get("tpot_p50_s"))
    if first is not None and per is not None and reading.output_tokens:
        return first + per * max(reading.output_tokens - 1, 0), "first token + time per token x tokens"
    return None, ""


def _flight(reading: Reading) -> None:
    rate, (latency, how) = reading.values.get("requests_per_s"), _latency_mean(reading)
    if not rate or not latency or reading.latency_of != "request":
        return
    flight = rate * latency
    said = f"{rate:.4g} requests/s x {_s(latency)} ({how}) = {flight:.3g} requests in flight"
    declared = reading.concurrency
    if not declared:
        reading.fault("in_flight", said)
    elif flight < 0.75 * declared and reading.request_rate is None:
        advice = "the client was the limit: take the time per token from this file, not the capacity"
        reading.fault("client_idle", f"{said}, {declared:g} were asked for: the client idled, so its throughput is too low", advice)
    elif not 0.9 <= flight / declared <= 1.1 and not (reading.request_rate and flight < declared):
        reading.fault("in_flight_differs", f"{said}, {declared:g} were declared", "one of rate, latency and concurrency is not what it says")
    else:
        reading.fault("in_flight", f"{said}, {declared:g} declared")


def _load(reading: Reading) -> None:
    values, rate = reading.values, reading.request_rate
    achieved, (latency, _) = values.get("requests_per_s"), _latency_mean(reading)
    first = values.get("ttft_mean_s", values.get("ttft_p50_s"))
    middle = values.get("ttft_p50_s", first)
    share = first / latency if first and latency else None
    overloaded = False
    if rate and achieved and achieved < 0.9 * rate:
        done, duration = reading.completed, reading.duration_s
        drain = duration - done / rate if done and duration else None
        asked = f"{rate:g} requests/s were asked for, {achieved:.4g} answered"
        if (share or 0) > 0.15 and (first or 0) > 1:
            overloaded = True
            because = f"{asked}: the offered load exceeds the capacity, about {achieved:.3g}/s, and latencies grow with the length of the run"
            reading.fault("overload", because, "latencies of this run are no property of the server: measure below its capacity")
        elif drain is not None and latency and drain <= 2 * max(latency, values.get("latency_p99_s", 0.0)):
            because = f"{asked}: the last {drain:.3g} s of {duration:.3g} s only drain, which is no saturation"
            reading.fault("rate_not_reached", because, "measure for longer to reach the asked rate")
        elif drain is None:
            because = f"{asked}; without the wall time it cannot be told whether the run only drained or the client was slow"
            reading.fault("rate_not_reached", because, "measure for longer")
        else:
            because = f"{asked}, and waiting for the first token does not explain it: the client did not send as fast as asked"
            reading.fault("rate_not_reached", because, "check the load generator")
    tpot = values.get("tpot_p50_s", values.get("tpot_mean_s", 0.0))
    alone = reading.concurrency is not None and reading.concurrency <= 1
    if first and middle and not overloaded and not alone and ((share or 0) >= 0.3 and first > 1 or middle > max(2.0, 20 * tpot)):
        part = f", {100 * share:.0f} % of the latency" if share else ""
        median = f" and {_s(middle)} in the middle" if "ttft_p50_s" in values and "ttft_mean_s" in values else ""
        because = f"time to first token is {_s(first)} on average{median}{part}: requests wait in a queue"
        reading.fault("queueing", because, "overload: the server was given more than it can take; lower the rate or the concurrency")


def _streaming(reading: Reading) -> None:
    values = reading.values
    gap, mean_gap, per = values.get("itl_p50_s"), values.get("itl_mean_s"), values.get("tpot_mean_s", values.get("tpot_p50_s"))
    if gap and per and gap < 1e-3 and gap < 0.1 * per:
        because = f"gap between tokens p50 {_s(gap)} against {_s(per)} per token: several tokens arrive in one piece"
        reading.fault("itl_per_chunk", because, "use the time per output token")
    elif gap and mean_gap and mean_gap > 5 * gap:
        because = f"gap between tokens: mean {_s(mean_gap)}, median {_s(gap)}; decoding waits for the prefill of other prompts, and neither stands for the other"
        reading.fault("tail_outlier", because)
    out, into = reading.output_tokens, reading.input_tokens
    if out and into and out <= 8 and into >= 20 * out:
        rates = f"{values.get('requests_per_s', 0):.4g} requests/s, {values.get('input_tokens_per_s', 0):.4g} input tokens/s"
        because = f"{into:.4g} input tokens and {out:.3g} output tokens per request: prefill is the work ({rates})"
        reading.fault("prefill_bound", because, "quote requests or input tokens per second, and no price per output token")
    if reading.concurrency and not reading.request_rate and reading.concurrency > 1 and any(name.startswith("latency_p9") for name in values):
        reading.fault("closed_loop", f"a closed loop of {reading.concurrency:g}: a slow answer delays the next question, so queueing is hidden")


def _goodput(reading: Reading) -> None:
    good, rate = reading.extremes.get("good_requests_per_s"), reading.values.get("requests_per_s")
    if good is None or not rate:
        return
    share = min(good / rate, 1.0)
    reading.values.setdefault("goodput_fraction", share)
    because = f"{good:.3g} of {rate:.3g} requests/s keep the tool's own objective, {100 * share:.0f} %"
    if share < 0.95:
        reading.fault("goodput", f"{because}; {100 * (1 - share):.0f} % miss it", "read the objective that the run was given", "warning")
    else:
        reading.fault("goodput", because)


def _headline(reading: Reading) -> None:
    """``throughput_per_s`` in the unit of the result, so that the row can be compared and priced."""
    values = reading.values
    overloaded = any(fault.code == "overload" for fault in reading.faults)
    if "throughput_per_s" not in values and reading.request_rate and not overloaded and "requests_per_s" in values:
        slow = any(fault.code == "rate_not_reached" for fault in reading.faults)
        why = "fewer were sent or answered than asked, and why is not known" if slow else "as many are answered as are sent"
        because = f"open loop at {reading.request_rate:g} requests/s: {why}, so the rate is no capacity"
        reading.fault("latency_bound", because, "take the capacity from a closed loop, or from the highest rate that keeps the objective")
    elif "throughput_per_s" not in values:
        if reading.result_unit == "token" and "output_tokens_per_s" in values:
            values["throughput_per_s"] = values["output_tokens_per_s"]
        elif reading.result_unit != "token" and "requests_per_s" in values:
            batch = reading.settings.get("batch_size")
            if batch is None and reading.latency_of == "batch" and reading.samples:
                because = f"{values['requests_per_s']:.4g} calls/s are of a batch whose size is not in the file, so they are no throughput"
                reading.fault("client_batch_unknown", because, BATCH_ADVICE)
                set_aside(reading, "requests_per_s")
            else:
                values["throughput_per_s"] = values["requests_per_s"] * (batch or 1)
    has_latency = any(name.startswith(("latency_", "ttft_")) for name in values)
    if (
        has_latency
        and not any("_p" in name for name in values if name.startswith(DISTRIBUTIONS))
        and not any("_p" in name for name in reading.printed)
    ):
        reading.fault(
            "means_only",
            "the file has means and no percentiles: it says nothing about the tail",
            "measure with percentiles before promising a latency",
        )
    elif has_latency and not any(name.endswith("_p99_s") for name in (*values, *reading.printed)):
        reading.fault("percentile_missing", "no p99 is in the file", "measure with percentiles before promising a latency")


def _s(seconds: float) -> str:
    return f"{seconds:.4g} s" if seconds >= 1 else f"{1e3 * seconds:.4g} ms" if seconds >= 1e-3 else f"{1e6 * seconds:.4g} µs"
