"""Recorded traffic: what a file is, and the numbers in it, against formulas and numpy."""

from __future__ import annotations

import csv
import gzip
import io
import json
from collections.abc import Sequence
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any, get_args
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from neuronfit import params, traffic
from neuronfit.errors import BadInput
from neuronfit.traced import TraceSummary
from neuronfit.traffic import columns, layout, metrics, summary, times

MONDAY = datetime(2024, 3, 4, tzinfo=timezone.utc)
SECRET = "sk-live-4f9a8b7c6d5e"


def iso(seconds: float, start: datetime = MONDAY) -> str:
    return (start + timedelta(microseconds=round(seconds * 1e6))).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def table(rows: Sequence[Sequence[Any]], header: Sequence[str] = ("timestamp", "input_tokens", "output_tokens"), **options: Any) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n", **options).writerows([header, *rows])
    return text.getvalue()


def read(tmp_path: Path, content: Any, name: str = "trace.dat", **options: Any) -> tuple[TraceSummary, dict[str, Any]]:
    """Summary, and findings by code, of a file with this content. The name says nothing on purpose."""
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode("utf-8"))
    with traffic.open_trace(path, **options) as trace:
        said = traffic.summarise(trace)
        found = traffic.findings(trace, said)
    assert {finding.code for finding in found} <= set(traffic.MEANINGS)
    return said, {finding.code: finding for finding in reversed(found)}


def refused(tmp_path: Path, content: Any, **options: Any) -> str:
    with pytest.raises(BadInput) as error:
        read(tmp_path, content, **options)
    assert "\n" not in str(error.value) and error.value.exit_status == 2
    return str(error.value)


# -- rates and bursts -------------------------------------------------------------------------


def test_a_clock_has_dispersion_0_and_is_no_production_traffic(tmp_path):
    """Ten a second, at .0, .1, ... of each of 600 seconds: every second has ten."""
    said, found = read(tmp_path, table([(iso(i / 10), 5, 5) for i in range(6001)]))
    assert (said.dispersion_1s, said.dispersion_60s, said.busiest_second, said.empty_seconds) == (0, 0, 10, 0)
    assert said.mean_per_s == pytest.approx(6001 / 600) and said.peak_per_s == 10
    assert "0.1 s" in found["trace_synthetic"].because


def test_a_poisson_process_has_dispersion_1(tmp_path):
    """40,000 arrivals at 20/s. The standard error of the estimate is about sqrt(2 / 2000 seconds) = 0.032."""
    moments = np.cumsum(np.random.default_rng(7).exponential(0.05, 40_000))
    said, found = read(tmp_path, table([(iso(second), 1, 1) for second in moments]))
    assert said.dispersion_1s == pytest.approx(1, abs=4 * 0.032)
    assert said.mean_per_s == pytest.approx(20, rel=0.02)
    assert "trace_synthetic" not in found and "trace_bursty" not in found


def test_batches_of_ten_have_dispersion_10_and_numpy_agrees(tmp_path):
    """Ten requests within a millisecond at each event of a Poisson process: compound, so variance / mean = 10."""
    events = np.cumsum(np.random.default_rng(8).exponential(0.5, 4000))
    moments = np.round(np.sort((events[:, None] + np.arange(10) * 1e-4).ravel()), 6)
    said, found = read(tmp_path, table([(iso(second), 1, 1) for second in moments]))
    counts = np.bincount(np.floor(moments).astype(int))
    inside = counts[int(np.ceil(moments[0])) : int(np.floor(moments[-1]))]
    assert said.dispersion_1s == pytest.approx(inside.var(ddof=1) / inside.mean())
    assert said.dispersion_1s == pytest.approx(10, rel=0.15)
    assert said.empty_seconds == pytest.approx((inside == 0).mean()) and said.busiest_second == counts.max()
    assert said.second_p99 == np.ceil(np.quantile(inside, 0.99))
    assert "trace_bursty" in found


def test_the_busiest_minute_and_the_peak_to_mean(tmp_path):
    """One a second for 10 minutes, and 120 more in minute 4."""
    moments = sorted([*range(601), *(240 + i / 2 + 0.25 for i in range(120))])
    said, _ = read(tmp_path, table([(iso(second), 1, 1) for second in moments]))
    assert (said.peak_per_s, said.peak_at) == (3, "2024-03-04T00:04:00.000+00:00")
    assert said.peak_to_mean == pytest.approx(3 / (721 / 600))


def test_the_shape_of_the_day_is_not_a_burst_within_the_hour(tmp_path):
    """Hours of 10/s and of 1/s in turn, each a Poisson process: far from 1 over all, 1 within the hours."""
    random, moments = np.random.default_rng(3), []
    for hour in range(6):
        count = random.poisson(3600 * (10 if hour % 2 else 1))
        moments += list(3600 * hour + np.sort(random.uniform(0, 3600, count)))
    moments = [0.0, *moments, 6 * 3600.0]
    said, _ = read(tmp_path, table([(iso(second), 1, 1) for second in moments]))
    assert said.dispersion_1s > 4 and said.dispersion_1s_within_hour == pytest.approx(1, abs=0.05)
    assert said.dispersion_60s > 100 and said.dispersion_60s_within_hour == pytest.approx(1, abs=0.3)


def test_dispersion_by_hand():
    """Counts 0 0 ... (9 times) and 20: mean 2, variance (9 x 4 + 324) / 9 = 40."""
    assert summary.dispersion({0: 9, 20: 1}) == pytest.approx(20)
    assert summary.dispersion({2: 10}) == 0
    assert summary.dispersion({1: 9}) is None and summary.dispersion({0: 90, 1: 10}) is None  # too few windows, too few requests


# -- lengths ------------------------------------------------------------------------------------


def test_lengths_are_those_of_numpy(tmp_path):
    random = np.random.default_rng(5)
    given, made = random.integers(1, 9000, 5000), random.geometric(0.01, 5000)
    said, _ = read(tmp_path, table([(iso(i), a, b) for i, (a, b) in enumerate(zip(given, made))]))
    for lengths, values in ((said.input_tokens, given), (said.output_tokens, made)):
        assert lengths.mean == pytest.approx(values.mean())
        assert (lengths.minimum, lengths.maximum) == (values.min(), values.max())
        assert lengths.quantiles == {f"p{q}": pytest.approx(np.percentile(values, q)) for q in (50, 90, 95, 99)}
        assert sum(lengths.histogram.values()) == 5000 and len(lengths.histogram) <= 256
        edges, reached = np.array(list(lengths.histogram)), np.cumsum(list(lengths.histogram.values()))
        assert all(reached[i] == (values <= edges[i]).sum() for i in range(len(edges)))
    assert said.total_tokens_over[4096] == pytest.approx((given + made > 4096).mean())


def test_a_quantile_of_counts_is_numpys(tmp_path):
    values, counts = np.array([1, 5, 9]), np.array([3, 1, 6])
    for share in (0, 0.1, 0.25, 0.3, 0.5, 0.99, 1):
        assert summary.quantile(values, counts, share) == pytest.approx(np.quantile(np.repeat(values, counts), share))


def test_zero_missing_and_capped_lengths_are_said(tmp_path):
    rows = [(iso(i), 4096 if i % 10 == 0 else i + 1, 0 if i < 3 else 7) for i in range(500)] + [(iso(500), "", -1), (iso(501), "n/a", 5)]
    said, found = read(tmp_path, table(rows))
    assert found["trace_zero_output"].because.startswith("3 of 502")
    assert "50 requests" in found["trace_lengths_capped"].because and "4,096" in found["trace_lengths_capped"].because
    assert "2 of 502 rows have no number of input tokens" in found["trace_lengths_missing"].because
    assert said.output_tokens.minimum == 0 and said.requests == 502


# -- hours, days, growth ------------------------------------------------------------------------


def test_the_168_hours_of_a_week(tmp_path):
    """h + 1 requests in hour h of Monday to Sunday, for two weeks; the last hour ends with the trace."""
    moments = [week * 604_800 + hour * 3600 + i * 3600 / (hour + 1) for week in range(2) for hour in range(168) for i in range(hour + 1)]
    said, found = read(tmp_path, table([(iso(second), 1, 1) for second in [*moments, 2 * 604_800 - 1e-6]]))
    assert said.hour_of_week_per_s[:167] == pytest.approx([(hour + 1) / 3600 for hour in range(167)])
    assert said.hour_of_day_per_s[5] == pytest.approx(np.mean([(day * 24 + 6) / 3600 for day in range(7)]))
    assert "trace_short" not in found and "trace_less_than_a_week" not in found


def test_hours_are_those_of_the_declared_zone_also_when_the_clock_changes(tmp_path):
    """Berlin, 31 March 2024: 2:00 to 3:00 does not exist. One request each minute of Sunday, UTC: every local hour but 2 has 60."""
    midnight = datetime(2024, 3, 30, 23, tzinfo=timezone.utc)  # 0:00 in Berlin
    said, _ = read(tmp_path, table([(iso(60 * i, midnight), 1, 1) for i in range(23 * 60 + 1)]), timezone="Europe/Berlin")
    day = said.hour_of_week_per_s[6 * 24 :]
    assert day[2] is None and day[1] == day[3] == day[23] == pytest.approx(1 / 60)
    assert said.start == "2024-03-31T00:00:00.000+01:00" and said.end == "2024-04-01T00:00:00.000+02:00"


def test_local_times_without_a_zone_are_placed_by_the_declared_one(tmp_path):
    rows = [(f"2024-03-31 {hour:02d}:{minute:02d}:00", 1, 1) for hour in (0, 1, 3, 4) for minute in range(60)]
    said, found = read(tmp_path, table(rows), timezone="Europe/Berlin")
    assert said.span_s == 4 * 3600 - 60  # without a hole: 1:59 is followed by 3:00
    assert "trace_gap" not in found and "2024-03-31" in found["trace_clock_change"].because and "forward" in found["trace_clock_change"].because
    assumed, found = read(tmp_path, table(rows))
    assert assumed.span_s == 5 * 3600 - 60 and assumed.zone_assumed and "trace_zone_unknown" in found


def test_a_doubled_hour_has_twice_the_seconds():
    """Berlin, 27 October 2024: 2:00 to 3:00 comes twice."""
    low = datetime(2024, 10, 26, 22, tzinfo=timezone.utc).timestamp()
    _, seen = summary.hour_of_week([], [], low, low + 25 * 3600, ZoneInfo("Europe/Berlin"))
    assert seen[6 * 24 + 2] == 7200 and seen[6 * 24 + 1] == 3600 and seen.sum() == 25 * 3600


def test_a_leap_day_counts(tmp_path):
    start = datetime(2024, 2, 28, tzinfo=timezone.utc)
    said, _ = read(tmp_path, table([(iso(3600 * i, start), 1, 1) for i in range(49)]))
    assert said.end == "2024-03-01T00:00:00.000+00:00" and said.span_s == 2 * 86_400


def test_growth_of_a_known_trend():
    """e^(0.01 d) with a weekly shape: exp(0.01 x 30.4375) - 1 a month; with noise the interval holds it."""
    days = np.arange(70)
    shape = np.array([1, 1.1, 1.2, 1.1, 1.0, 0.5, 0.4])[days % 7]
    value, low, high = summary.growth(1000 * shape * np.exp(0.01 * days))
    assert (value, high - low) == (pytest.approx(np.expm1(0.304375), rel=1e-9), pytest.approx(0, abs=1e-6))
    held = 0
    for seed in range(200):
        noise = np.random.default_rng(seed).normal(0, 0.1, 70)
        _, low, high = summary.growth(1000 * shape * np.exp(0.01 * days + noise))
        held += low <= np.expm1(0.304375) <= high
    assert 0.92 <= held / 200 <= 1.0
    assert summary.growth([5.0] * 20 + [0.0] * 10) is None


def test_growth_waits_for_three_weeks(tmp_path):
    said, _ = read(tmp_path, table([(iso(3600 * i), 1, 1) for i in range(24 * 5)]))
    assert not said.growth_per_month.known and "21" in said.growth_per_month.why
    said, _ = read(tmp_path, table([(iso(86_400 / (10 + day) * i + 86_400 * day), 1, 1) for day in range(31) for i in range(10 + day)]))
    assert said.growth_per_month.low > 0.5 and str(said.growth_per_month.grade) == "imported"


# -- times ----------------------------------------------------------------------------------------

STAMPS = {
    "iso": lambda t: t.strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
    "blank": lambda t: t.strftime("%Y-%m-%d %H:%M:%S.%f+00:00"),
    "seven digits": lambda t: t.strftime("%Y-%m-%d %H:%M:%S.%f0Z"),
    "offset": lambda t: (t + timedelta(hours=5, minutes=30)).strftime("%Y-%m-%dT%H:%M:%S.%f+05:30"),
    "west": lambda t: (t - timedelta(hours=7)).strftime("%Y-%m-%dT%H:%M:%S.%f-0700"),
    "word": lambda t: t.strftime("%Y-%m-%d %H:%M:%S.%f UTC"),
    "comma": lambda t: t.strftime("%Y-%m-%d %H:%M:%S,%f"),
    "seconds": lambda t: f"{t.timestamp():.6f}",
    "milliseconds": lambda t: f"{t.timestamp() * 1e3:.3f}",
    "microseconds": lambda t: str(round(t.timestamp() * 1e6)),
    "nanoseconds": lambda t: str(round(t.timestamp() * 1e6) * 1000),
    "log": lambda t: t.strftime("%d/%b/%Y:%H:%M:%S +0000"),
    "log west": lambda t: (t - timedelta(hours=8)).strftime("%d/%b/%Y:%H:%M:%S -0800"),
    "dots": lambda t: t.strftime("%d.%m.%Y %H:%M:%S"),
    "american": lambda t: t.strftime("%m/%d/%Y %I:%M:%S %p"),
    "basic": lambda t: t.strftime("%Y%m%dT%H%M%SZ"),
    "mail": lambda t: t.strftime("%a, %d %b %Y %H:%M:%S GMT"),
}


@pytest.mark.parametrize("how", STAMPS)
def test_times_however_written_are_the_same_moments(tmp_path, how):
    start = datetime(2024, 3, 14, 22, 30, tzinfo=timezone.utc)
    moments = [start + timedelta(seconds=7 * i + i % 3) for i in range(2000)]
    said, found = read(tmp_path, table([(STAMPS[how](moment), 1, 1) for moment in moments]))
    assert said.requests == 2000
    assert said.start == "2024-03-14T22:30:00.000+00:00"
    assert said.span_s == pytest.approx((moments[-1] - moments[0]).total_seconds(), abs=1e-3)
    assert said.zone_assumed == (how in ("comma", "dots", "american"))
    assert "trace_rows_unreadable" not in found and "trace_time_units_mixed" not in found


def test_seconds_and_milliseconds_in_one_column(tmp_path):
    """A joined export: each number is read by its size, and it is said."""
    start = MONDAY.timestamp()
    rows = [(int(start + i) * (1000 if i >= 300 else 1), 1, 1) for i in range(600)]
    said, found = read(tmp_path, table(rows))
    assert said.span_s == 599 and "300 in ms, 300 in s" in found["trace_time_units_mixed"].because


def test_zones_that_are_missing_in_half_of_the_rows(tmp_path):
    rows = [((MONDAY + timedelta(seconds=i)).strftime("%Y-%m-%dT%H:%M:%S") + ("+00:00" if i % 2 else ""), 1, 1) for i in range(100)]
    said, found = read(tmp_path, table(rows))
    assert "50 of 100" in found["trace_zone_mixed"].because and said.span_s == 99
    said, _ = read(tmp_path, table(rows), timezone="Asia/Tokyo")
    assert said.span_s == 9 * 3600 + 99  # those without are nine hours earlier


def test_an_offset_that_changes_is_said(tmp_path):
    rows = [(f"2024-03-31T{hour:02d}:{minute:02d}:00{'+01:00' if hour < 2 else '+02:00'}", 1, 1) for hour in (0, 1, 3) for minute in range(60)]
    said, found = read(tmp_path, table(rows))
    assert "+01:00, +02:00" in found["trace_offset_changes"].because and said.span_s == 3 * 3600 - 60


@pytest.mark.parametrize(("unit", "factor"), [(None, 1), ("ms", 1e-3), ("us", 1e-6)])
def test_times_from_the_start(tmp_path, unit, factor):
    said, found = read(tmp_path, table([(i * 10, 1, 1) for i in range(200)]), time_unit=unit)
    assert said.span_s == pytest.approx(1990 * factor) and said.zone is None and said.hour_of_week_per_s == ()
    assert (unit or "taken as s") in found["trace_relative_times"].because


def test_the_unit_may_stand_in_the_name(tmp_path):
    said, _ = read(tmp_path, table([(i * 10, 1, 1) for i in range(200)], ("arrival_time_ms", "input_tokens", "output_tokens")))
    assert said.span_s == pytest.approx(1.99)


def test_times_of_day_go_on_after_midnight(tmp_path):
    rows = [((MONDAY + timedelta(hours=23, minutes=50, seconds=i)).strftime("%H:%M:%S"), 1, 1) for i in range(1200)]
    said, found = read(tmp_path, table(rows))
    assert said.span_s == 1199 and "trace_no_date" in found and said.hour_of_week_per_s == ()
    assert said.hour_of_day_per_s[23] == pytest.approx(1) and said.hour_of_day_per_s[12] is None


def test_date_and_time_in_two_columns(tmp_path):
    for day, start in (("%Y-%m-%d", "2024-03-04"), ("%d.%m.%Y", "2024-03-04")):
        rows = [(moment.strftime(day), moment.strftime("%H:%M:%S"), 7) for moment in (MONDAY + timedelta(minutes=i) for i in range(3000))]
        said, found = read(tmp_path, table(rows, ("Date", "Time", "input_tokens")))
        assert said.start.startswith(start) and said.span_s == 2999 * 60 and "trace_no_date" not in found


def test_a_name_with_the_signs_of_a_pattern(tmp_path):
    assert read(tmp_path, PLAIN, name="trace [1]*'.csv")[0].requests == 300


def test_a_date_that_could_be_either_way_round_is_said(tmp_path):
    rows = [((MONDAY + timedelta(seconds=i)).strftime("%m/%d/%Y %H:%M:%S"), 1, 1) for i in range(100)]
    assert "trace_day_or_month" in read(tmp_path, table(rows))[1]
    rows = [((MONDAY + timedelta(days=20, seconds=i)).strftime("%d/%m/%Y %H:%M:%S"), 1, 1) for i in range(100)]
    said, found = read(tmp_path, table(rows))
    assert "trace_day_or_month" not in found and said.start.startswith("2024-03-24")


def test_what_is_a_time_and_what_is_not():
    assert [form.kind for form in times.forms_of(["2024-03-04T00:00:00Z"])] == ["iso"]
    assert times.forms_of(["abc", "2024-03-04"]) == () or times.forms_of(["abc", "def", "2024-03-04"]) == ()
    assert times.forms_of(["abc", "def", "2024-03-04"]) == () and times.forms_of([]) == ()


# -- rows that are not as they should be ----------------------------------------------------------


def test_order_does_not_matter(tmp_path):
    rows = [(iso(second), i, 2 * i) for i, second in enumerate(np.cumsum(np.random.default_rng(2).exponential(1, 500)))]
    sorted_, found = read(tmp_path, table(rows))
    assert "trace_unsorted" not in found
    shuffled = [rows[i] for i in np.random.default_rng(1).permutation(500)]
    said, found = read(tmp_path, table(shuffled))
    assert said.model_copy(update={"sha256": sorted_.sha256}) == sorted_
    fell = sum(shuffled[i][0] < shuffled[i - 1][0] for i in range(1, 500))
    assert found["trace_unsorted"].because.startswith(f"{fell:,} of 500")


def test_copies_are_left_out_where_they_cannot_be_chance(tmp_path):
    rows = [(iso(1.37 * i), i, 1) for i in range(200)]
    said, found = read(tmp_path, table(rows + rows[:50]))
    assert said.requests == 200 and said.rows == 250 and "50 of 250" in found["trace_duplicates"].because
    whole = [(iso(i // 4), 5, 1) for i in range(400)]  # whole seconds: four alike a second may well be four requests
    said, found = read(tmp_path, table(whole))
    assert said.requests == 400 and "300 of 400" in found["trace_duplicates"].because
    named = [(iso(i // 4), i, f"r{i}") for i in range(400)]  # but not where every row has a name of its own
    said, found = read(tmp_path, table(named + named[:7], ("timestamp", "input_tokens", "request_id")))
    assert said.requests == 400 and "7 of 407" in found["trace_duplicates"].because


def test_three_alike_that_do_not_follow_each_other(tmp_path):
    rows = [(iso(0.5), 1, 1), (iso(0.5), 2, 2), (iso(0.5), 1, 1), *((iso(1.1 * i), 3, 3) for i in range(1, 50))]
    said, found = read(tmp_path, table(rows))
    assert said.requests == 51 and "1 of 52" in found["trace_duplicates"].because


def test_a_gap_is_said_with_the_mean_without_it(tmp_path):
    """1/s for 1000 s, nothing for 4 hours, 1/s for 1000 s."""
    moments = [*np.arange(1000) + 0.1 * np.sin(np.arange(1000)), *15_400 + np.arange(1000) + 0.1 * np.cos(np.arange(1000))]
    _, found = read(tmp_path, table([(iso(abs(second)), 1, 1) for second in moments]))
    assert "4 hours" in found["trace_gap"].because and "the mean is 1.001/s" in found["trace_gap"].because


def test_a_time_of_another_age_is_left_out(tmp_path):
    rows = [("1970-01-01T00:00:00.000000Z", 1, 1), *((iso(1.3 * i), 1, 1) for i in range(300))]
    said, found = read(tmp_path, table(rows))
    assert said.requests == 300 and said.start.startswith("2024") and found["trace_outliers"].because.startswith("1 ")


def test_times_of_two_ages_are_refused(tmp_path):
    rows = [(f"{year}-03-04T00:00:{i:02d}Z", 1, 1) for year in (1971, 2024) for i in range(50)]
    assert "53 years" in refused(tmp_path, table(rows))


def test_unreadable_rows_are_counted_and_the_rest_is_kept(tmp_path):
    rows = [(iso(i), i, 1) for i in range(300)]
    rows[7] = ("yesterday", 1, 1)
    said, found = read(tmp_path, table(rows))
    assert said.requests == 299 and "1 of 300" in found["trace_rows_unreadable"].because


# -- ways of writing a table ------------------------------------------------------------------

ROWS = [(iso(1.7 * i), 1000 + i, i) for i in range(300)]
PLAIN = table(ROWS)
WRITTEN = {
    "crlf": PLAIN.replace("\n", "\r\n"),
    "no last newline": PLAIN.rstrip("\n"),
    "mark at the start": "\ufeff" + PLAIN,
    "utf-16": PLAIN.encode("utf-16"),
    "semicolons": table(ROWS, delimiter=";"),
    "tabs": table(ROWS, delimiter="\t"),
    "bars": table(ROWS, delimiter="|"),
    "comments": "# exported yesterday\n\n" + PLAIN,
    "separators": table([(stamp, f"{given:,}", f"{made:,}") for stamp, given, made in ROWS]),
    "decimals": table([(stamp, f"{given}.0", f"{made}.0") for stamp, given, made in ROWS]),
    "a text with commas, quotes and lines": table(
        [(stamp, 'he said ""no"", then\nleft, "again"', given, made) for stamp, given, made in ROWS],
        ("timestamp", "note", "input_tokens", "output_tokens"),
    ),
    "other names": table(ROWS, ("Arrival Time", "Prompt Tokens", "completion-tokens")),
    "other order": table([(made, given, stamp) for stamp, given, made in ROWS], ("GeneratedTokens", "ContextTokens", "TIMESTAMP")),
    "gzip": gzip.compress(PLAIN.encode()),
    "two gzip files": gzip.compress(PLAIN[:2000].encode()) + gzip.compress(PLAIN[2000:].encode()),
    "latin-1": table(
        [(stamp, "Jos\u00e9", given, made) for stamp, given, made in ROWS], ("timestamp", "note", "input_tokens", "output_tokens")
    ).encode("latin-1"),
    "json lines with a mark": "\ufeff"
    + "".join(json.dumps({"time": stamp, "input_tokens": given, "output_tokens": made}) + "\r\n" for stamp, given, made in ROWS),
    "no header": table(ROWS).partition("\n")[2],
    "json lines": "".join(
        json.dumps({"ts": stamp, "usage": {"prompt_tokens": given, "completion_tokens": made}}) + "\n" for stamp, given, made in ROWS
    ),
    "json list": json.dumps([{"created_at": stamp, "input_length": given, "output_length": made} for stamp, given, made in ROWS], indent=1),
}


@pytest.mark.parametrize("how", WRITTEN)
def test_a_table_however_written_says_the_same(tmp_path, how):
    said, found = read(tmp_path, WRITTEN[how])
    assert (said.requests, said.input_tokens.mean, said.output_tokens.maximum) == (300, 1149.5, 299)
    assert said.span_s == pytest.approx(1.7 * 299)
    assert ("trace_columns_guessed" in found) == (how == "no header")


@pytest.mark.parametrize("kind", ["zoned", "naive", "epoch"])
def test_parquet(tmp_path, kind):
    import duckdb

    stamp = {
        "zoned": "to_timestamp(1709510400 + i * 1.7)",
        "naive": "make_timestamp(1709510400000000 + i * 1700000)",
        "epoch": "1709510400000 + i * 1700",
    }[kind]
    path = tmp_path / "x.bin"
    with duckdb.connect() as connection:
        connection.execute(
            f"COPY (SELECT {stamp} AS arrival, 1000 + i AS input_tokens, i AS output_tokens FROM range(300) t(i)) TO '{path}' (FORMAT parquet)"
        )
    with traffic.open_trace(path) as trace:
        said = traffic.summarise(trace)
    assert (said.format, said.requests, said.input_tokens.mean) == ("parquet", 300, 1149.5)
    assert said.start == "2024-03-04T00:00:00.000+00:00" and said.span_s == pytest.approx(1.7 * 299) and said.zone_assumed == (kind == "naive")


def test_columns_may_be_named(tmp_path):
    text = table([(iso(i), iso(i + 1000), 5, 9) for i in range(100)], ("started", "updated", "a", "b"))
    said, _ = read(tmp_path, text, time_column="updated", input_column="b")
    assert said.start == "2024-03-04T00:16:40.000+00:00" and said.input_tokens.mean == 9
    assert "allowed: updated" in refused(tmp_path, text, time_column="updatd")


def test_roles_of_columns():
    assert columns.assign(["TIMESTAMP", "ContextTokens", "GeneratedTokens"]) == {
        "time": "TIMESTAMP",
        "input": "ContextTokens",
        "output": "GeneratedTokens",
    }
    found = columns.assign(["Timestamp", "Model", "Request tokens", "Response tokens", "Total tokens", "Log Type"])
    assert (found["input"], found["output"]) == ("Request tokens", "Response tokens")
    assert columns.assign(["end_time", "arrival_time", "timestamp"])["start"] == "arrival_time"
    assert columns.private_names(["authorization", "prompt", "prompt_tokens", "request.headers.cookie", "user_agent"]) == (
        "authorization",
        "prompt",
        "request.headers.cookie",
    )


# -- logs of servers --------------------------------------------------------------------------


def line(
    i: int,
    request: str = "POST /predict?q=1 HTTP/1.1",
    status: int = 200,
    who: str = "10.1.2.3",
    user: str = "-",
    tail: str = "",
    zone: str = "+0100",
) -> str:
    stamp = (MONDAY + timedelta(seconds=i)).strftime("%d/%b/%Y:%H:%M:%S")
    return f'{who} - {user} [{stamp} {zone}] "{request}" {status} 17{tail}\n'


AGENT = ' "https://example.com/" "Mozilla/5.0 (X11)"'
LOGS = {
    "common": lambda i: line(i),
    "combined": lambda i: line(i, tail=AGENT),
    "more fields": lambda i: line(i, tail=AGENT + ' 0.123 0.120 "-" rt=0.1'),
    "ipv6": lambda i: line(i, who="2001:db8::7", tail=AGENT),
    "escaped quotes": lambda i: line(i, tail=' "-" "a \\"quoted\\" agent"'),
    "a user with a blank": lambda i: line(i, user="ann lee", tail=AGENT),
    "virtual host": lambda i: "example.com:443 " + line(i, tail=AGENT),
    "quotes in the path": lambda i: line(i, request='POST /predict?q=\\"x\\" HTTP/1.1', tail=AGENT),
}


@pytest.mark.parametrize("how", LOGS)
def test_access_logs(tmp_path, how):
    said, found = read(tmp_path, "".join(LOGS[how](i) for i in range(200)))
    assert (said.format, said.requests, said.span_s, said.error_fraction) == ("access_log", 200, 199, 0)
    assert said.start == "2024-03-03T23:00:00.000+00:00" and said.endpoints == {"POST /predict": 200}
    assert "trace_rows_unreadable" not in found and "trace_no_lengths" in found and "trace_private" in found


def test_errors_health_checks_and_one_endpoint(tmp_path):
    """300 requests: 100 health checks, 150 predictions of which 15 failed, 50 of something else."""
    text = "".join(line(i, "GET /health HTTP/1.1", tail=' "-" "ELB-HealthChecker/2.0"') for i in range(100))
    text += "".join(line(i, status=503 if i % 10 == 0 else 200, tail=AGENT) for i in range(150))
    text += "".join(line(i, "GET /metrics HTTP/1.1", tail=AGENT) for i in range(50))
    said, found = read(tmp_path, text)
    assert said.requests == 200 and said.error_fraction == pytest.approx(15 / 200) and said.endpoints == {"POST /predict": 150, "GET /metrics": 50}
    assert "100 of 300" in found["trace_health_checks"].because and "7.5%" in found["trace_errors"].because
    said, found = read(tmp_path, text, only="POST /predict")
    assert said.requests == 150 and said.error_fraction == pytest.approx(0.1) and "50 requests" in found["trace_only"].because
    assert read(tmp_path, text, only="/me*")[0].requests == 50
    message = refused(tmp_path, text, only="PUT /predict")
    assert "POST /predict, GET /metrics" in message
    assert "METHOD /path" in refused(tmp_path, text, only="predict")
    assert "needs a method and path" in refused(tmp_path, PLAIN, only="POST /predict")


def test_odd_requests_in_a_log_are_requests(tmp_path):
    odd = ["-", "\\x16\\x03\\x01", "GET /a b c HTTP/1.1", "OPTIONS * RTSP/1.0", 'GET /\\"x\\" 500 HTTP/1.0']
    text = "".join(line(i, request, status=400) for i, request in enumerate(odd * 20))
    said, found = read(tmp_path, text)
    assert said.requests == 100 and said.error_fraction == 0 and "trace_rows_unreadable" not in found


def test_the_arrival_in_a_load_balancers_log_is_its_creation_time(tmp_path):
    """Field 22, not field 2; the latency is the sum of three times, and -1 where there was no target."""

    def entry(i: int, took: str, agent: str = "curl/8") -> str:
        return (
            f'https {iso(i + 5)} app/lb/1 192.0.2.1:2817 10.0.0.2:80 {took} 200 200 0 57 "POST https://www.example.com:443/v1/x HTTP/1.1" "{agent}" A TLSv1.2 '
            f'arn:x "Root=1" "www.example.com" "arn:y" 1 {iso(i)} "forward" "-" "-" "10.0.0.2:80" "200" "-" "-" TID_1\n'
        )

    text = "".join(entry(i, "0.086 0.048 0.037") for i in range(60)) + entry(60, "-1 -1 -1") + entry(61, "0 0 0", "ELB-HealthChecker/2.0")
    said, _ = read(tmp_path, text)
    assert (said.format, said.requests, said.start, said.span_s) == ("alb", 61, "2024-03-04T00:00:00.000+00:00", 60)
    assert said.latency_s["p50"] == pytest.approx(0.171) and said.endpoints == {"POST /v1/x": 61} and said.input_tokens is None


def test_a_gateway_writes_at_the_end_and_keeps_secrets(tmp_path):
    """Every value a text, the usage inside an answer that is JSON in a text, the arrival = time - duration."""
    rows = [
        {
            "time_local": (MONDAY + timedelta(seconds=3 * i)).strftime("%d/%b/%Y:%H:%M:%S +0000"),
            "remote_addr": "192.0.2.77",
            "request": "POST /v1/chat/completions HTTP/1.1",
            "status": "200",
            "request_time": "1.977",
            "authorization": f"Bearer {SECRET}",
            "request_body": json.dumps({"messages": [{"role": "user", "content": "my secret question"}], "max_tokens": 7}),
            "response_body": json.dumps({"created": 1_700_000_000, "usage": {"prompt_tokens": 10 + i, "completion_tokens": 11}}),
        }
        for i in range(50)
    ]
    said, found = read(tmp_path, "".join(json.dumps(row) + "\n" for row in rows))
    assert said.start == "2024-03-03T23:59:58.023+00:00" and said.input_tokens.mean == 34.5 and said.output_tokens.mean == 11
    assert "time_local" in found["trace_time_is_answer"].because and "authorization" in found["trace_private"].because
    shown = said.model_dump_json() + "".join(finding.model_dump_json() for finding in found.values())
    assert not any(secret in shown for secret in (SECRET, "secret question", "192.0.2.77"))


def test_nothing_private_is_in_the_table_on_disk(tmp_path, monkeypatch):
    from neuronfit.traffic import reading

    monkeypatch.setattr(reading, "_IN_MEMORY", 0)
    path = tmp_path / "log"
    path.write_text("".join(line(i, request=f"GET /u?token={SECRET}", user="ann.lee", who="192.0.2.77", tail=AGENT) for i in range(3000)))
    with traffic.open_trace(path) as trace:
        trace.connection.execute("CHECKPOINT")
        held = b"".join(file.read_bytes() for file in trace._folder.iterdir() if not file.is_symlink())
        folder = trace._folder
        assert not any(secret.encode() in held for secret in (SECRET, "ann.lee", "192.0.2.77"))
    assert not folder.exists()


def test_ids_in_paths_are_masked(tmp_path):
    from neuronfit.traffic.reading import masked_path

    assert masked_path("GET /users/1234567/orders") == "GET /users/*/orders"
    assert masked_path("POST /v1/models/ann@example.com") == "POST /v1/models/*"
    assert masked_path(f"GET /k/{SECRET}") == "GET /k/*" and masked_path("/v1.1/predict") == "/v1.1/predict"


def test_extended_logs(tmp_path):
    """IIS writes milliseconds and blanks, CloudFront seconds and tabs; both write the time of the answer, UTC."""
    for mark, took in ((" ", "1500"), ("\t", "1.5")):
        fields = "#Version: 1.0\n#Fields: date time cs-method cs-uri-stem sc-status time-taken\n"
        rows = [
            mark.join(((MONDAY + timedelta(seconds=2 * i)).strftime(f"%Y-%m-%d{mark}%H:%M:%S"), "POST", "/predict", "200", took)) + "\n"
            for i in range(100)
        ]
        said, _ = read(tmp_path, fields + "".join(rows))
        assert (said.format, said.requests, said.start) == ("w3c", 100, "2024-03-03T23:59:58.500+00:00") and said.latency_s["p50"] == 1.5


# -- counts per period ------------------------------------------------------------------------


def test_cloudwatch_statistics_in_any_order(tmp_path):
    points = [{"Timestamp": f"2024-03-04T00:{minute:02d}:00+00:00", "Sum": 60.0 * (minute + 1), "Unit": "Count"} for minute in range(60)]
    said, found = read(tmp_path, json.dumps({"Label": "Invocations", "Datapoints": points[30:] + points[:30]}))
    assert (said.format, said.kind, said.requests) == ("cloudwatch", "counts", 60 * 60 * 61 // 2)
    assert (
        said.mean_per_s == pytest.approx(30.5)
        and said.peak_per_s == 60
        and said.peak_at.startswith("2024-03-04T00:59")
        and said.dispersion_1s is None
    )
    assert "60 s" in found["trace_counts_only"].because and "trace_unsorted" in found


def test_cloudwatch_data_with_errors(tmp_path):
    stamps = [f"2024-03-04T{hour:02d}:00:00Z" for hour in range(24)]
    results = [
        {"Id": "a", "Label": "TargetResponseTime", "Timestamps": stamps, "Values": [0.1] * 24, "StatusCode": "Complete"},
        {"Id": "b", "Label": "RequestCount", "Timestamps": stamps[::-1], "Values": [7200.0] * 24, "StatusCode": "PartialData"},
        {"Id": "c", "Label": "HTTPCode_Target_5XX_Count", "Timestamps": stamps[:1], "Values": [1728.0], "StatusCode": "Complete"},
    ]
    said, found = read(tmp_path, json.dumps({"MetricDataResults": results}, indent=2))
    assert said.requests == 172_800 and said.error_fraction == pytest.approx(0.01) and said.peak_window_s == 3600 and "trace_partial" in found
    assert said.hour_of_day_per_s == pytest.approx([2.0] * 24)


def test_the_console_of_cloudwatch(tmp_path):
    text = 'Full label,RequestCount\nLabel,RequestCount\nRegion,us-east-1\nPeriod,300\nStatistic,Sum\n2024/03/04 00:00:00,300\n2024/03/04 00:05:00,"1,200"\n2024/03/04 00:10:00,0\n'
    said, _ = read(tmp_path, text)
    assert (said.requests, said.mean_per_s, said.peak_per_s, said.peak_window_s) == (1500, pytest.approx(1500 / 900), 4, 300)


def test_an_average_is_no_number_of_requests(tmp_path):
    point = {"Timestamp": "2024-03-04T00:00:00Z", "Average": 5.0, "Unit": "Count"}
    assert "Sum" in refused(tmp_path, json.dumps({"Label": "RequestCount", "Datapoints": [point, point]}))
    assert "no data points" in refused(tmp_path, json.dumps({"Label": "RequestCount", "Datapoints": []}))
    latency = {"Id": "a", "Label": "Latency", "Timestamps": ["2024-03-04T00:00:00Z", "2024-03-04T00:01:00Z"], "Values": [1, 2]}
    assert "RequestCount" in refused(tmp_path, json.dumps({"MetricDataResults": [latency]}))


def test_a_counter_that_is_reset(tmp_path):
    """10 70 130 | 20 80 140: growth 60 60, then 20 since the reset, 60 60."""
    values = [10, 70, 130, 20, 80, 140]
    rows = [(int(MONDAY.timestamp()) + 60 * i, value) for i, value in enumerate(values)]
    said, found = read(tmp_path, table(rows, ("timestamp", "http_requests_total")))
    assert said.requests == 260 and said.span_s == 300 and said.peak_per_s == 1 and "1 time" in found["trace_counter_reset"].because
    steps, resets = metrics.increments(values)
    assert list(steps) == [60, 60, 20, 60, 60] and resets == 1


def test_growth_over_missing_readings_is_no_peak():
    """0 at 0 s, 60 at 60 s, nothing until 240 s with 240: one a second all the time."""
    moments, steps = metrics.spread([0, 60, 240], [60.0, 180.0], 60)
    assert list(moments) == [0, 60, 120, 180] and list(steps) == [60, 60, 60, 60]


def test_prometheus_series_are_summed_and_codes_are_errors(tmp_path):
    start = int(MONDAY.timestamp())
    series = [
        {"metric": {"__name__": "http_requests_total", "code": code}, "values": [[start + 15 * i, str(value)] for i, value in enumerate(values)]}
        for code, values in (("200", [100, 115, 130, 5, 20]), ("500", [0, 0, 1, 1, 2]))
    ]
    said, found = read(tmp_path, json.dumps({"status": "success", "data": {"resultType": "matrix", "result": series}}))
    assert (said.format, said.requests) == ("prometheus", 15 + 15 + 5 + 15 + 2) and said.error_fraction == pytest.approx(2 / 52)
    assert "trace_counter_reset" in found


def test_tables_of_counts_and_rates(tmp_path):
    stamps = [f"2024-03-04 00:{minute:02d}:00Z" for minute in range(60)]
    said, _ = read(tmp_path, table(list(zip(stamps, range(60))), ("minute", "requests")))
    assert (said.kind, said.requests) == ("counts", 1770) and said.mean_per_s == pytest.approx(1770 / 3600)
    values = np.arange(60)
    assert said.dispersion_60s == pytest.approx(values.var(ddof=1) / values.mean())
    said, _ = read(tmp_path, table(list(zip(stamps, range(60))), ("time", "rps")))
    assert said.requests == 1770 * 60 and said.peak_per_s == 59


# -- what is no trace ---------------------------------------------------------------------------


def test_lengths_without_times_say_that_the_rate_is_unknown(tmp_path):
    said, found = read(
        tmp_path, table([(100 + i, 5, 105 + i, 0.5) for i in range(100)], ("num_prefill_tokens", "num_decode_tokens", "num_total_tokens", "pd_ratio"))
    )
    assert said.kind == "lengths" and said.mean_per_s is None and said.dispersion_1s is None and said.input_tokens.mean == 149.5
    assert str(found["trace_no_arrivals"].severity) == "waiting" and "mean_per_s" in found["trace_no_arrivals"].next


def test_batches_are_no_arrivals(tmp_path):
    """Every three seconds a group, in milliseconds from the start, as a published trace has them."""
    rows = [{"timestamp": 3000 * (i // 5), "input_length": 100 + i, "output_length": 5, "hash_ids": [1, 2]} for i in range(1000)]
    said, found = read(tmp_path, "".join(json.dumps(row) + "\n" for row in rows))
    assert said.format == "mooncake" and said.span_s == pytest.approx(597) and said.dispersion_1s is None and said.busiest_second is None
    assert "3 s" in found["trace_batched"].because and said.mean_per_s == pytest.approx(1000 / 597)


def test_a_generated_trace_is_said(tmp_path):
    random = np.random.default_rng(4)
    rows = [(i, ("a", "b")[i % 2], random.integers(10, 100), random.integers(0, 50), 1, "API log") for i in range(250)]
    said, found = read(tmp_path, table(rows, ("Timestamp", "Model", "Request tokens", "Response tokens", "Total tokens", "Log Type")))
    assert (said.format, said.dispersion_1s) == ("burstgpt", 0) and "input and output lengths" in found["trace_synthetic"].because


def test_known_traces_by_their_columns(tmp_path):
    azure = table([(f"2023-11-16 18:17:{i % 60:02d}.9799600", 5, 6) for i in range(3)], ("TIMESTAMP", "ContextTokens", "GeneratedTokens"))
    vidur = table([(i * 1.5, 5, 6) for i in range(30)], ("arrived_at", "num_prefill_tokens", "num_decode_tokens"))
    assert traffic.recognise(azure.encode()) == "azure_llm" and traffic.recognise(vidur.encode()) == "vidur"
    assert traffic.recognise(line(1).encode()) == "access_log" and traffic.recognise(b"\x00\x01\x02" * 99) is None
    assert set(get_args(get_args(params.Trace.model_fields["format"].annotation)[0])) == set(traffic.FORMATS)


NO_TRACE = {
    "pointer": ("version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 52283111\n", "git lfs pull"),
    "empty": ("", "empty"),
    "blank": ("\n\n  \n", "empty"),
    "header": ("timestamp,input_tokens\n", "header and no rows"),
    "template": ("timestamp,input_tokens\nYYYY-MM-DD HH:MM:SS,<tokens>\n", "template"),
    "no times": ("name,colour\nann,red\nbob,blue\n", "no column of times"),
    "zip": (b"PK\x03\x04rest", "unpack"),
    "binary": (bytes(range(256)) * 20, "binary"),
    "page": ("<!DOCTYPE html><html></html>", "web page"),
    "cut gzip": (gzip.compress(PLAIN.encode())[:-500], "damaged"),
    "cut json": ('{"MetricDataResults": [{"Id": "a", "Timestamps": ["2024', "damaged"),
    "cut parquet": (b"PAR1" + b"\x00" * 100, "Parquet"),
    "no times to read": (table([("soon", 1, 1)] * 3), "time"),
    "negative counts": (table([(iso(60 * i), -5) for i in range(5)], ("timestamp", "requests")), "below zero"),
}


@pytest.mark.parametrize("what", NO_TRACE)
def test_what_is_no_trace_is_refused_in_one_line(tmp_path, what):
    content, said = NO_TRACE[what]
    assert said.lower() in refused(tmp_path, content).lower()


def test_wrong_options_are_refused(tmp_path):
    assert "Europe/Berlin" in refused(tmp_path, PLAIN, timezone="Europe/Berlinn")
    assert "access_log" in refused(tmp_path, PLAIN, format="acces_log")
    assert "ms" in refused(tmp_path, PLAIN, time_unit="minutes")
    with pytest.raises(BadInput, match="No such file"):
        traffic.open_trace(tmp_path / "none.csv")
    (tmp_path / "empty").mkdir()
    with pytest.raises(BadInput, match="no file of a trace"):
        traffic.open_trace(tmp_path / "empty")


def test_one_request_has_no_rate(tmp_path):
    said, found = read(tmp_path, table([(iso(1), 5, 5)]))
    assert said.requests == 1 and said.mean_per_s is None and "trace_one_moment" in found
    said, found = read(tmp_path, table([(iso(1), i, 5) for i in range(9)]))
    assert said.mean_per_s is None and "same moment" in found["trace_one_moment"].because


def test_a_refusal_does_not_quote_the_file(tmp_path):
    text = table([(f"token {SECRET}", 1, 1)] * 5)
    assert SECRET not in refused(tmp_path, text)
    assert SECRET not in refused(tmp_path, f'{{"a": "{SECRET}", ')


# -- single requests ----------------------------------------------------------------------------


def test_arrivals_in_pieces(tmp_path):
    path, moments = tmp_path / "t.csv", np.round(np.cumsum(np.random.default_rng(1).exponential(0.01, 10_000)), 6)
    path.write_text(table([(iso(second), i, "" if i == 5 else 2) for i, second in enumerate(moments)]))
    pieces = list(traffic.arrivals(path, chunk=4096))
    assert len(pieces) > 2 and max(map(len, pieces)) <= 4096
    seconds = np.concatenate([piece.seconds for piece in pieces])
    assert seconds == pytest.approx(moments - moments[0], abs=2e-6) and (np.diff(seconds) >= 0).all()
    assert list(np.concatenate([piece.input_tokens for piece in pieces])) == list(range(10_000))
    assert pieces[0].output_tokens[5] == -1 and pieces[0].output_tokens[6] == 2 and pieces[0].seconds.dtype == np.float64


def test_arrivals_of_a_window_and_without_tokens(tmp_path):
    path = tmp_path / "t.log"
    path.write_text("".join(line(i) for i in range(100)))
    with traffic.open_trace(path) as trace:
        [piece] = traffic.arrivals(trace, (10, 20))
        assert list(piece.seconds) == list(range(10)) and piece.input_tokens is None
        with pytest.raises(BadInput, match="window"):
            list(traffic.arrivals(trace, (20, 10)))
    (tmp_path / "c.csv").write_text(table([(iso(60 * i), 5) for i in range(5)], ("timestamp", "requests")))
    with pytest.raises(BadInput, match="no single requests"):
        list(traffic.arrivals(tmp_path / "c.csv"))


def test_large_traces_are_read_in_stretches(tmp_path, monkeypatch):
    """With stretches of 100 rows the copies are still found, each once."""
    from neuronfit.traffic import reading

    monkeypatch.setattr(reading, "_CHUNK", 100)
    rows = [(iso(1.37 * i), i, 1) for i in range(1500)]
    said, found = read(tmp_path, table(sorted(rows + rows[::3])))
    assert said.requests == 1500 and "500 of 2,000" in found["trace_duplicates"].because
    assert said.input_tokens.mean == np.arange(1500).mean()


def test_layout_has_a_title_for_each_format():
    assert all(layout.Layout(name, "csv").title for name in traffic.FORMATS)
