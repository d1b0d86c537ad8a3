"""`neuronfit traffic`: what a file of recorded traffic says."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Optional

import click

from neuronfit.cli.common import as_json_option, group, params_path, print_json


@group.command(
    epilog='\b\nExamples:\n  neuronfit traffic access.log.gz --only "POST /predict" --timezone Europe/Berlin\n  neuronfit traffic requests.parquet --json'
)
@click.argument("file", type=params_path)
@click.option("--format", "format", help="What the file is, such as access_log; default: found by its content.")
@click.option("--timezone", help="IANA zone of times without one, and of hours and weekdays; default: UTC.")
@click.option("--only", help='Requests of one method and path of an access log, such as "POST /predict"; * stands for anything.')
@click.option("--time-column", help="Column of the arrival; default: found by its name.")
@click.option("--input-column", help="Column of the input tokens; default: found by its name.")
@click.option("--output-column", help="Column of the output tokens; default: found by its name.")
@click.option("--time-unit", type=click.Choice(["s", "ms", "us", "ns"]), help="Unit of numbers that count from the start; default: s.")
@as_json_option
def traffic(file: Path, as_json: bool, **options: Optional[str]) -> int:
    """What a FILE of recorded traffic says: rates, bursts, lengths, and what it cannot say.

    CSV, Parquet, JSON lines, access logs, spans and metric exports, also packed; a folder or a pattern is several files. Texts, addresses and secrets in it are never
    kept or shown. Exit status: 0 read, 2 no trace, 3 it has no rate.
    """
    from neuronfit import traffic as files

    with files.open_trace(file, **options) as trace:
        said = files.summarise(trace)
        findings = files.findings(trace, said)
        title = trace.layout.title
    if as_json:
        print_json({"trace": said.model_dump(mode="json"), "findings": [finding.model_dump(mode="json") for finding in findings]})
    else:
        _say(said, title, findings)
        click.echo("\nfor the params file:\n")
        click.echo(_block(file, options, said))
    return 3 if said.mean_per_s is None else 0


def _say(said: Any, title: str, findings: Any) -> None:
    noun = {"arrivals": "requests", "counts": "requests in periods", "lengths": "lengths without times"}[said.kind]
    click.echo(f"{said.file}: {title}; {said.requests:,} {noun} in {said.rows:,} rows")
    for label, text in _facts(said):
        click.echo(f"  {label:<12} {text}")
    for finding in findings:
        click.echo(f"  {finding.severity}: {finding.code}: {finding.because}" + (f" | {finding.next}" if finding.next else ""))


def _facts(said: Any) -> list[tuple[str, str]]:
    from neuronfit.units import metric

    rate, found = metric("rate_per_s").text, []
    if said.start:
        zone = f"{said.zone}{' (assumed)' if said.zone_assumed else ''}" if said.zone else "no date"
        found.append(("span", f"{said.start} to {said.end}, {said.span_s / 3600:,.4g} h; zone: {zone}"))
    if said.mean_per_s is not None:
        found.append(
            ("rate", f"{rate(said.mean_per_s)} on average, {rate(said.peak_per_s)} in the busiest {said.peak_window_s:g} s at {said.peak_at}")
        )
        found.append(("peak to mean", f"{said.peak_to_mean:.3g}"))
    if said.busiest_second is not None:
        found.append(("seconds", f"{said.busiest_second:,} requests in the busiest, {said.empty_seconds:.1%} without any"))
    bursts = [f"{value:.3g} per {window}" for window, value in (("second", said.dispersion_1s), ("minute", said.dispersion_60s)) if value is not None]
    if bursts:
        inside = said.dispersion_60s_within_hour
        found.append(
            ("dispersion", ", ".join(bursts) + (f", {inside:.3g} per minute within the hour" if inside is not None else "") + "; 1 is chance")
        )
    days = [value for value in said.hour_of_day_per_s if value is not None]
    if len(days) > 1:
        hours = {value: hour for hour, value in enumerate(said.hour_of_day_per_s) if value is not None}
        found.append(("hours", f"busiest {hours[max(days)]}:00 with {rate(max(days))}, quietest {hours[min(days)]}:00 with {rate(min(days))}"))
    growth = said.growth_per_month
    found.append(("growth", f"{growth.value:+.1%} a month [{growth.low:+.1%} to {growth.high:+.1%}]" if growth.known else f"not known: {growth.why}"))
    for name, lengths in (("input", said.input_tokens), ("output", said.output_tokens)):
        if lengths:
            shares = ", ".join(f"{share} {value:,.5g}" for share, value in lengths.quantiles.items())
            found.append((name, f"mean {lengths.mean:,.5g} tokens, {shares}, largest {lengths.maximum:,}"))
    if said.total_tokens_over:
        found.append(("together", ", ".join(f"{share:.3%} above {limit:,}" for limit, share in said.total_tokens_over.items()) + " tokens"))
    if said.latency_s:
        found.append(("durations", ", ".join(f"{share} {value:.3g} s" for share, value in said.latency_s.items())))
    if said.error_fraction is not None:
        found.append(("errors", f"{said.error_fraction:.3%} of the answers have status 500 and above"))
    if len(said.endpoints) > 1:
        found.append(("asked for", ", ".join(f"{name} {count:,}" for name, count in said.endpoints.items())))
    return found


def _block(file: Path, options: dict[str, Optional[str]], said: Any) -> str:
    """The section to paste, as YAML; the profile that says the same without the file as comments."""
    import yaml

    trace = {"file": str(file), **{key: value for key, value in options.items() if value is not None}}
    text = yaml.safe_dump({"traffic": {"trace": trace}}, sort_keys=False, width=150, allow_unicode=True).rstrip()
    if said.mean_per_s is not None:
        text += f"\n  # or, without the file, per request:\n  # mean_per_s: {_plain(said.mean_per_s)}\n  # peak_per_s: {_plain(max(said.peak_per_s, said.mean_per_s))}"
    if said.input_tokens:
        text += f"\n  # sequence_lengths: {_shares(said.input_tokens)}"
    return text


def _plain(rate: float) -> str:
    """Four digits, without an exponent, which YAML may take for a text."""
    return f"{float(f'{rate:.4g}'):.12f}".rstrip("0").rstrip(".")


def _shares(lengths: Any, most: int = 8) -> str:
    """A few lengths with the requests up to each, enough for a profile."""
    total, seen, found = sum(lengths.histogram.values()), 0, {}
    for edge, count in lengths.histogram.items():
        place = seen * most // total
        seen += count
        found[place] = (max(1, edge), found.get(place, (0, 0))[1] + count)
    return "{" + ", ".join(f"{edge}: {count}" for edge, count in found.values()) + "}"
