"""The metric registry: SI in storage, and what a reader sees."""

import pytest
from neuronfit.errors import NotFound
from neuronfit.units import METRICS, metric, spoken

SI_SUFFIX = {"_s": "s", "_bytes": "bytes", "_per_s": "1/s", "_usd": "USD"}


def test_the_name_carries_the_unit_in_storage():
    """`latency_p99_s` is in seconds; `output_tokens_per_s` counts tokens, the results that it names."""
    assert metric("throughput_per_s").unit == metric("rate_per_s").unit == "1/s"
    assert metric("output_tokens_per_s").unit == "tokens/s"
    for name, entry in METRICS.items():
        assert name == entry.name
        if name.endswith("_s") and not name.endswith("_per_s"):
            assert entry.unit == "s"
        if name.endswith("_bytes"):
            assert entry.unit == "bytes"


def test_which_direction_is_better():
    better = {name: metric(name).better for name in ("throughput_per_s", "latency_p99_s", "usd_per_million", "ratio", "rate_per_s")}
    assert better == {"throughput_per_s": "higher", "latency_p99_s": "lower", "usd_per_million": "lower", "ratio": None, "rate_per_s": None}


@pytest.mark.parametrize(
    "name, stored, shown",
    [
        ("latency_p50_s", 0.0059740, "5.97 ms"),
        ("latency_p99_s", 0.36619, "366 ms"),
        ("latency_p99_s", 0.0009997, "1 ms"),
        ("throughput_per_s", 2674.19, "2,674/s"),
        ("throughput_per_s", 44.62, "44.62/s"),
        ("throughput_per_s", 999.97, "1,000/s"),
        ("parameters", 109_482_240, "109.5 M"),
        ("weights_bytes", 4 * 109_482_240, "0.408 GiB"),  # 437,928,960 / 2^30 = 0.40785
        ("memory_bytes", 32 * 2**30, "32 GiB"),
        ("utilization", 400 / 2168, "18%"),
        ("utilization", 1.0, "100%"),
        ("usd_per_million", 0.078757, "$0.079"),
        ("usd_per_million", 2.834, "$2.83"),
        ("usd_per_million", 127.4, "$127"),
        ("usd_per_million", 0.9999, "$1.00"),
        ("usd_per_million", 99.999, "$100"),
        ("usd_per_million", 0, "$0"),
        ("usd_per_hour", 0.8048, "$0.805/h"),
        ("usd_per_month", 34.018, "$34.02 a month"),
        ("usd_per_month", -8751.4, "-$8,751 a month"),
        ("ratio", 28.4, "28.4x"),
        ("instances", 11, "11"),
        ("months", 4, "4 months"),
    ],
)
def test_a_number_as_it_is_shown(name, stored, shown):
    assert metric(name).text(stored) == shown


@pytest.mark.parametrize("name", METRICS)
@pytest.mark.parametrize("stored", [1e-7, 0.123456789, 1.0, 9.9999999, 123456.789, 1.23456789e12])
def test_no_metric_shows_more_than_its_digits(name, stored):
    """Below the point at most `digits` significant figures (money: three places), and the value survives."""
    entry = metric(name)
    shown, size = entry.number(stored).replace(",", ""), stored * entry.factor
    mantissa = shown.partition("e")[0]
    whole, _, places = mantissa.partition(".")
    if entry.unit.startswith("USD"):
        assert len(places) <= 3
        assert float(shown) == pytest.approx(size, rel=0.005, abs=0.0005)
    else:
        assert len((whole + places).lstrip("0")) <= max(entry.digits, len(whole))
        assert float(shown) == pytest.approx(size, rel=5 * 10**-entry.digits)


def test_an_unknown_metric_names_the_nearest():
    with pytest.raises(NotFound) as raised:
        metric("latency_p999_s")
    assert "latency_p99_s" in str(raised.value) and "latency_p999_s" in str(raised.value)


@pytest.mark.parametrize(
    "stored, said",
    [
        ("fp32_bf16_matmul", "fp32 with bf16 products"),
        ("reserved_3yr_no_upfront", "3-year reserved, no upfront"),
        ("some_name", "some name"),
        ("bf16", "bf16"),
        ("excludes host<->device copies", "excludes host-device copies"),
        ("no torch.no_grad()", "no torch.no_grad()"),  # code inside a sentence keeps its spelling
    ],
)
def test_stored_names_as_they_are_told(stored, said):
    assert spoken(stored) == said
