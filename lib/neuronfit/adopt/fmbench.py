"""FMBench: inferences one by one, summaries per load, with prices and scores, and its cost and price files. Seconds.

Its percentiles are means over chunks of the percentiles of each chunk (a chunk has as many requests
as the concurrency), so none is a percentile of the requests. Transactions are per minute and rounded.
One prompt file is sent in rounds; the first, cold round is in the mean. ``ml.`` instances carry the
SageMaker price. (fmbench, 3_run_inference.ipynb.)
"""

from __future__ import annotations

import re
from collections import defaultdict
from typing import Optional

from neuronfit.adopt.document import Document, whole
from neuronfit.adopt.reading import Reading, Sample
from neuronfit.adopt.rules import examine
from neuronfit.adopt.tables import Table, csv_tables
from neuronfit.catalog import prices
from neuronfit.errors import BadRecord, NeuronFitError

__all__ = ["FORMATS", "read", "recognise"]

FORMATS = {
    "fmbench_requests": "FMBench per-inference results, CSV",
    "fmbench_summary": "FMBench metrics summary, with or without prices and scores, CSV",
    "fmbench_prices": "FMBench instance prices, CSV (no figures)",
    "fmbench_costs": "FMBench run costs, CSV (no figures)",
}


def recognise(head: bytes, name: str) -> Optional[str]:
    line = head.decode("utf-8", "replace").lstrip().split("\n", 1)[0]
    names = {cell.strip().strip('"') for cell in line.split(",")}
    if {"completion_tokens", "latency", "prompt_tokens"} <= names and ("endpoint_name" in names or "experiment_name" in names):
        return "fmbench_requests"
    if {"experiment_name", "concurrency"} <= names and names & {"completion_token_throughput", "transactions_per_minute"}:
        return "fmbench_summary"
    if names == {"instance_type", "price_per_hour"}:
        return "fmbench_prices"
    return "fmbench_costs" if {"experiment_name", "instance_type", "duration_in_seconds", "cost"} <= names else None


def read(document: Document, format: str) -> list[Reading]:
    tables = csv_tables(document.text)
    if not tables or not tables[0].rows:
        raise BadRecord("no row in the FMBench file", document.name)
    table = tables[0]
    readings = {"fmbench_requests": _requests, "fmbench_summary": _summary, "fmbench_prices": _prices, "fmbench_costs": _costs}[format](
        table, document
    )
    if table.cut:
        readings[-1].fault("cut_off", "the last row of the file is cut off", "copy the whole file again")
    return readings


def _instance(reading: Reading, written: Optional[str]) -> None:
    """``ml.g5.12xlarge`` is a SageMaker instance of type g5.12xlarge, at SageMaker's price."""
    if not written:
        return
    plain = written.strip().lower()
    if plain.startswith("ml."):
        reading.facts["hosted on"] = f"SageMaker, {plain}"
    reading.instance_type = plain.removeprefix("ml.")


# -- inferences one by one ----------------------------------------------------------------------


def _requests(table: Table, document: Document) -> list[Reading]:
    groups: dict[tuple[str, ...], list[dict[str, str]]] = defaultdict(list)
    for row in table.rows:
        groups[tuple(row.get(name, "") for name in ("experiment_name", "instance_type", "concurrency", "payload_file"))].append(row)
    return [_group(table, key, rows) for key, rows in groups.items()]


def _group(table: Table, key: tuple[str, ...], rows: list[dict[str, str]]) -> Reading:
    experiment, instance, concurrency, payload = key
    reading = Reading("fmbench_requests", tool="FMBench", label=f"{experiment} {payload} concurrency {concurrency}".strip())
    _instance(reading, instance)
    reading.concurrency = float(concurrency) if concurrency.replace(".", "", 1).isdigit() else None
    reading.model = rows[0].get("ModelName") or None
    samples, lost, ttft_per_token = [], 0, []
    for row in rows:
        latency = table.number(row, "latency")
        if not latency:
            lost += 1
            continue
        first = table.number(row, "time_to_first_token")
        samples.append(Sample(latency, first or None, whole(row.get("completion_tokens")), whole(row.get("prompt_tokens"))))
        if (per := table.number(row, "time_per_output_token")) is not None:
            ttft_per_token.append(per)
    reading.samples, reading.failed, reading.completed = tuple(samples), lost, len(samples)
    if lost:
        reading.errors = (f"{lost} rows without a latency",)
    if ttft_per_token and not any(sample.ttft_s for sample in samples):
        reading.printed["time per output token, the tool's, mean"] = f"{1e3 * sum(ttft_per_token) / len(ttft_per_token):.4g} ms"
    if not samples:
        reading.refused = "no request of this group has a latency"
    reading.definitions["latency_from"] = "send"
    if len(samples) > 2:
        first, rest = samples[0].latency_s, sorted(sample.latency_s for sample in samples[1:])
        middle = rest[len(rest) // 2]
        if first > 3 * middle:
            reading.cold_calls_inside = f"the first request took {first:.3g} s, the median of the others is {middle:.3g} s: no warm-up"
    reading.fault("not_in_file", "no start times: the wall time and the throughput are not in this file", "adopt the summary beside it as well")
    return examine(reading)


# -- summaries ----------------------------------------------------------------------------------


def _summary(table: Table, document: Document) -> list[Reading]:
    echoing = _echoing(table)
    readings = []
    for row in table.rows:
        reading = _summary_row(table, row, echoing)
        if "w_pricing" in document.name and not any(name.startswith("price") for name in table.header):
            reading.fault("price_in_file", "the name promises prices; no column has one")
        readings.append(examine(reading))
    _lengths(readings)
    _cold(readings)
    _missing(readings)
    _ranking(readings)
    return readings


def _echoing(table: Table) -> set[str]:
    """Experiments whose answers contain the prompt: the completion is longer than the prompt, for every prompt file."""
    longer: dict[str, list[bool]] = defaultdict(list)
    prompts: dict[str, list[float]] = defaultdict(list)
    for row in table.rows:
        prompt, answer = table.number(row, "prompt_token_count_mean"), table.number(row, "completion_token_count_mean")
        if prompt and answer:
            longer[row["experiment_name"]].append(prompt <= answer <= prompt + max(0.15 * prompt, 200))
            prompts[row["experiment_name"]].append(prompt)
    return {name for name, flags in longer.items() if all(flags) and max(prompts[name]) > 250}


def _summary_row(table: Table, row: dict[str, str], echoing: set[str]) -> Reading:
    experiment, payload = row.get("experiment_name", ""), row.get("payload_file", "")
    concurrency = table.number(row, "concurrency")
    reading = Reading(
        "fmbench_summary",
        tool="FMBench",
        label=f"{experiment}, {payload.removeprefix('payload_en_').removesuffix('.jsonl')}, concurrency {concurrency:g}"
        if concurrency
        else experiment,
    )
    _instance(reading, row.get("instance_type"))
    reading.facts.update(experiment=experiment, payload=payload)
    reading.concurrency = concurrency
    reading.set("tp_degree", whole(match.group(1)) if (match := re.search(r"tpd=(\d+)", experiment)) else None)
    if match := re.search(r"\bbs=(\d+)", experiment):
        reading.facts["server batch"] = match.group(1)
    prompt, answer = table.number(row, "prompt_token_count_mean"), table.number(row, "completion_token_count_mean")
    minute = table.number(row, "transactions_per_minute")
    reading.give("requests_per_s", minute / 60 if minute is not None else None)
    rate = table.number(row, "completion_token_throughput")
    reading.input_tokens = prompt
    if experiment in echoing and prompt and answer:
        real = max(answer - prompt, 0.0)
        because = f"completion tokens {answer:g} contain the prompt ({prompt:g}): about {real:g} were generated"
        if rate:
            because += f", so {rate:,.6g} tokens/s are about {rate * real / answer:.3g}"
            reading.printed["completion token throughput"] = f"{rate:g} tokens/s"
            rate = rate * real / answer
        reading.fault("answer_includes_prompt", because, "the server returned prompt and answer; compare per generated token")
        answer = real
    reading.output_tokens = answer
    reading.give("output_tokens_per_s", rate)
    reading.give("input_tokens_per_s", table.number(row, "prompt_token_throughput"))
    reading.give("latency_mean_s", table.number(row, "latency_mean"))
    _averaged(reading, table, row)
    _errors(reading, table.number(row, "error_rate"))
    _prompts(reading)
    _money(reading, table, row)
    if minute is not None:
        share = 50 / minute if minute else 100.0
        because = f"{minute:g} transactions a minute: FMBench rounds to whole ones (in steps of 0.6 before that), {share:.2g} % either way"
        reading.fault("rounded", because, severity="warning" if share > 2 else "note")
    reading.definitions["latency_from"] = "send"
    return reading


def _averaged(reading: Reading, table: Table, row: dict[str, str]) -> None:
    found = {
        name: value
        for name in ("latency_p50", "latency_p95", "latency_p99", "TTFT_p50", "TTFT_p99", "TPOT_p50", "TPOT_p99")
        if (value := table.number(row, name)) is not None
    }
    if not found:
        return
    for name, value in found.items():
        reading.printed[f"{name.replace('_', ' ')}, mean over chunks"] = f"{value:g} s"
    because = "the percentiles are means over chunks of each chunk's percentile (a chunk is as large as the concurrency): their tail is too small, and over how many requests is not said"
    reading.fault("percentiles_averaged", because, "take percentiles from per_inference_request_results.csv")


def _errors(reading: Reading, share: Optional[float]) -> None:
    if share is None:
        return
    reading.values["error_fraction"] = share
    if share > 0:
        severity = "blocker" if share >= 0.05 else "warning"
        reading.fault(
            "failed_requests",
            f"{100 * share:.3g} % of the requests failed; the means are those of the survivors",
            "do not rank this row; find out why they failed",
            severity,
        )


def _prompts(reading: Reading) -> None:
    """Prompt tokens per second that the requests do not explain: failed ones count their prompt in no time."""
    said, rate, prompt = (reading.values.get(name) for name in ("input_tokens_per_s", "requests_per_s", "-"))
    prompt = reading.input_tokens
    if said and rate and prompt and said > 4 * rate * prompt and reading.values.get("error_fraction", 0) > 0:
        because = f"{said:,.6g} prompt tokens/s, where {rate:.3g} requests/s of {prompt:g} tokens are {rate * prompt:.4g}: failed requests count their prompt in no time"
        reading.fault("throughput_artefact", because, "not a throughput")
        reading.printed["prompt token throughput"] = f"{said:g} tokens/s"
        reading.values["input_tokens_per_s"] = rate * prompt


def _money(reading: Reading, table: Table, row: dict[str, str]) -> None:
    per, hourly = table.number(row, "price_per_txn"), table.number(row, "price_per_hour")
    minute = table.number(row, "transactions_per_minute")
    if per is None:
        return
    reading.printed["price per transaction"] = f"${per:.6g}"
    implied = per * minute * 60 if minute else hourly
    if implied:
        basis = _basis(reading.instance_type, implied) if not (row.get("instance_type") or "").startswith("ml.") else "SageMaker"
        reading.printed["hourly price behind it"] = f"${implied:.4g}"
        reading.fault(
            "price_in_file",
            f"${per:.4g} a transaction x {minute:g} a minute is ${implied:.4g} an hour ({basis}); dated by the file only and not used for cost",
        )
    if reading.output_tokens:
        thousand = 1000 * per / reading.output_tokens
        reading.printed["price per 1,000 generated tokens"] = f"${thousand:.4g}"
        said = table.number(row, "price_per_token")
        if said:
            because = f"price_per_token {said:g} counts prompt and answer tokens and is rounded; per generated token it is {per / reading.output_tokens:.3g}, {per / reading.output_tokens / said:.0f} times as much"
            reading.fault("rounded", because, severity="warning")


def _basis(instance_type: Optional[str], hourly: float) -> str:
    try:
        rate = prices.find(instance_type or "", "us-east-1", "on_demand")
        value = float(rate.usd_per_hour)
    except NeuronFitError:
        return "basis not stated"
    return (
        "on demand, us-east-1"
        if value and abs(hourly / value - 1) < 0.02
        else f"our catalogue has ${value:.4g} on demand"
        if value
        else "basis not stated"
    )


def _lengths(readings: list[Reading]) -> None:
    groups: dict[str, list[Reading]] = defaultdict(list)
    for reading in readings:
        groups[reading.facts.get("payload", "")].append(reading)
    for payload, rows in groups.items():
        prompts = [row.input_tokens for row in rows if row.input_tokens]
        if prompts and max(prompts) > 1.05 * min(prompts):
            failing = any(row.values.get("error_fraction") for row in rows)
            why = "failed requests changed the mix" if failing else "the rows have different prompts"
            because = f"on {payload} prompts have {min(prompts):,.0f} to {max(prompts):,.0f} tokens on average: {why}"
            for row in rows:
                row.fault("rows_differ", because, "compare rows with the same prompts only")
        lengths = {row.facts["experiment"]: row.output_tokens for row in rows if row.output_tokens}
        if len(lengths) < 2 or max(lengths.values()) < 1.3 * min(lengths.values()):
            continue
        low, high = min(lengths, key=lengths.__getitem__), max(lengths, key=lengths.__getitem__)
        because = f"on {payload} answers have {lengths[low]:.3g} tokens ({low}) to {lengths[high]:.3g} ({high}): latency and transactions are those of different work"
        for row in rows:
            row.fault("answer_lengths_vary", because, "compare per generated token, or measure at one fixed output length")


def _cold(readings: list[Reading]) -> None:
    groups: dict[tuple[str, str], list[Reading]] = defaultdict(list)
    for reading in readings:
        groups[(reading.facts.get("experiment", ""), reading.facts.get("payload", ""))].append(reading)
    for rows in groups.values():
        known = sorted((row for row in rows if row.concurrency and "latency_mean_s" in row.values), key=lambda row: row.concurrency or 0)
        known = [row for row in known if abs((row.output_tokens or 1) / (known[0].output_tokens or 1) - 1) < 0.15]
        if len(known) > 1 and known[0].values["latency_mean_s"] > 1.2 * min(row.values["latency_mean_s"] for row in known[1:]):
            quick = min(known[1:], key=lambda row: row.values["latency_mean_s"])
            because = f"mean latency {known[0].values['latency_mean_s']:g} s at concurrency {known[0].concurrency:g}, {quick.values['latency_mean_s']:g} s at {quick.concurrency:g}: the first, cold calls are in the mean"
            known[0].fault("cold_start", because, "do not use this row; take a higher concurrency, or measure with warm-up")


def _missing(readings: list[Reading]) -> None:
    payloads = dict.fromkeys(row.facts.get("payload", "") for row in readings)
    has: dict[str, set[str]] = defaultdict(set)
    for row in readings:
        has[row.facts.get("experiment", "")].add(row.facts.get("payload", ""))
    if len(has) < 2:
        return
    for experiment, found in has.items():
        absent = [name for name in payloads if name not in found]
        if absent:
            for row in readings:
                if row.facts.get("experiment") == experiment:
                    row.fault("combination_missing", f"{experiment} has no row for {', '.join(absent)}: not run or failed, not zero")


def _ranking(readings: list[Reading]) -> None:
    """Is the cheapest per request also the cheapest per generated token?"""
    priced: dict[str, tuple[float, Reading]] = {}
    for row in readings:
        text = row.printed.get("price per transaction")
        if text and row.output_tokens and len({other.facts.get("payload") for other in readings}) == 1:
            experiment = row.facts["experiment"]
            value = float(text.lstrip("$"))
            if experiment not in priced or value < priced[experiment][0]:
                priced[experiment] = (value, row)
    if len(priced) < 2:
        return
    by_request = min(priced.values(), key=lambda entry: entry[0])[1]
    by_token = min(priced.values(), key=lambda entry: entry[0] / (entry[1].output_tokens or 1))[1]
    if by_request is by_token:
        return
    said = ", ".join(
        f"{row.instance_type} {row.printed['price per 1,000 generated tokens']} at concurrency {row.concurrency:g}" for _, row in priced.values()
    )
    because = f"{by_request.instance_type} is the cheapest per request, {by_token.instance_type} per 1,000 generated tokens ({said}): answers differ in length, and so does the concurrency"
    for row in readings:
        row.fault("ranking_reverses", because, "measure again at one fixed output length")


# -- files without figures ----------------------------------------------------------------------


def _prices(table: Table, document: Document) -> list[Reading]:
    reading = Reading("fmbench_prices", tool="FMBench", label="price list")
    for row in table.rows:
        reading.printed[row["instance_type"]] = f"{row['price_per_hour']} an hour"
    sagemaker = [row["instance_type"] for row in table.rows if row["instance_type"].startswith("ml.")]
    because = "a price list without region, currency, purchase option or date"
    if sagemaker:
        because += (
            f"; {len(sagemaker)} of {len(table.rows)} are SageMaker (ml.) prices, which are higher than those of EC2 and must not be mixed with them"
        )
    reading.fault("another_sort", because, "neuronfit prices show, or pricing.overrides in the params file with a date")
    reading.refused = "a price list, no measurement"
    reading.instead = "neuronfit prices show; the team's own rate goes into pricing.overrides of the params file, with its date"
    return [reading]


def _costs(table: Table, document: Document) -> list[Reading]:
    reading = Reading("fmbench_costs", tool="FMBench", label="run costs")
    for row in table.rows:
        seconds, cost = table.number(row, "duration_in_seconds"), table.number(row, "cost")
        reading.printed[row.get("experiment_name", "")] = f"{cost} for {seconds} s"
        if seconds and cost is not None and round(cost, 2) == cost:
            low, high = (max(cost - 0.005, 0) * 3600 / seconds, (cost + 0.005) * 3600 / seconds)
            because = f"{cost:g} for {seconds:g} s is rounded to cents: anything from {low:.3g} to {high:.3g} an hour"
            reading.fault("rounded", because, "take the hourly price from the catalogue", severity="warning")
    reading.fault("another_sort", "the cost of a run, no speed")
    reading.refused = "the cost of a run, no measurement"
    reading.instead = "neuronfit prices show"
    return [reading]
