"""Published figures: digits as printed, costs reproduced, contradictions found."""

from decimal import Decimal

import pytest
from neuronfit.catalog import instances, prices, published
from neuronfit.errors import NotFound
from neuronfit.provenance import Grade

TRN1 = [row for row in published.every() if row.collection == "trn1-2025-09-18"]


def test_collections_are_complete():
    counts = {}
    for row in published.every():
        counts[row.collection] = counts.get(row.collection, 0) + 1
    assert counts == {
        "trn1-2025-09-18": 20,
        "neuron-2026-08-21": 138,
        "trt-bert-10.8": 200,
        "trt-bert-8.4": 80,
        "hf-inferentia2-2023-04": 36,
        "trtllm-1.0": 34,
        "mlperf": 12,
        "nvidia-dle-bert": 19,
        "neuron-llm-tutorials": 18,
    }
    gpu = set(counts) - {"trn1-2025-09-18", "neuron-2026-08-21", "neuron-llm-tutorials"}
    assert sum(counts[name] for name in gpu) == 381


@pytest.mark.parametrize("row", TRN1, ids=lambda row: row.row_id)
def test_the_printed_trn1_costs_are_the_three_year_reserved_rate(row):
    """Cost per million = 1e6 x USD per hour / (throughput per s x 3600).

    The page prints throughput to two decimals and cost to three, so with half a unit of each the
    printed cost must overlap the interval: cost(throughput + 0.005) - 0.0005 <= printed <=
    cost(throughput - 0.005) + 0.0005.
    """
    [instance_type] = row.instance_types
    usd_per_hour = float(prices.find(instance_type, "us-east-1", "reserved_3yr_no_upfront").usd_per_hour)

    def cost(throughput_per_s):
        return 1e6 * usd_per_hour / (throughput_per_s * 3600)

    printed = float(row.usd_per_million_printed)
    assert cost(row.throughput_per_s + 0.005) - 0.0005 <= printed <= cost(row.throughput_per_s - 0.005) + 0.0005
    on_demand = float(prices.find(instance_type, "us-east-1", "on_demand").usd_per_hour)
    assert 1e6 * on_demand / (row.throughput_per_s * 3600) > 2.5 * printed  # the basis matters


@pytest.mark.parametrize("row", TRN1, ids=lambda row: row.row_id)
def test_littles_law_on_the_trn1_page(row):
    """One batch per NeuronCore of trn1.2xlarge, two of 32 cores for xlm-roberta, one sequence for T5."""
    assert row.batches_in_flight == pytest.approx(1.0 if row.result_unit == "token" else 2.0, rel=0.025)


def test_every_digit_of_the_trn1_page():
    """Column sums of the page, added up from the page itself."""
    assert sum(Decimal(row.throughput_printed) for row in TRN1) == Decimal("35864.88")
    assert sum(Decimal(row.digits["latency_p50_s"]) for row in TRN1) * 1000 == Decimal("516.10")
    assert sum(Decimal(row.digits["latency_p99_s"]) for row in TRN1) * 1000 == Decimal("526.87")
    assert sum(row.usd_per_million_printed for row in TRN1) == Decimal("185.589")


def test_digits_are_kept():
    row = published.find("trn1-2025-09-18/02")
    assert (row.model, row.throughput_printed, row.throughput_per_s) == ("bert-base-uncased", "3329.87", 3329.87)
    assert row.rounding("throughput_per_s") == pytest.approx((3329.865, 3329.875))
    assert row.latency_p50_s == 0.00959
    assert row.rounding("latency_p50_s") == pytest.approx((0.009585, 0.009595))
    assert str(published.find("trn1-2025-09-18/14").usd_per_million_printed) == "0.070"
    assert row.rounding("ttft_p50_s") is None
    assert (row.batch_size, row.sequence_length, row.precision, row.sdk) == (16, 128, "fp32_bf16_matmul", "2.26.0")


def test_throughput_computed_from_latency_inherits_its_rounding():
    rows = [row for row in published.every() if row.throughput_per_s and row.throughput_printed is None]
    assert len(rows) == 280 + 36
    for row in rows:
        assert row.throughput_per_s == pytest.approx(row.batch_size / row.latency_mean_s, abs=0.051)
        low, high = row.rounding("throughput_per_s")
        assert low < row.batch_size / row.latency_mean_s < high
    l4 = published.match("bert-base-uncased", "g6.xlarge", 128)[-1]
    assert l4.rounding("latency_mean_s")[1] - l4.rounding("latency_mean_s")[0] == pytest.approx(1e-5)


def test_quantities_are_graded_and_bounded():
    for row in published.every():
        quantity = row.quantity("throughput_per_s")
        if row.throughput_per_s is None:
            assert not quantity.known and row.row_id in quantity.why
        else:
            assert quantity.grade is Grade.PUBLISHED and quantity.unit == "1/s"
            assert quantity.low <= quantity.value <= quantity.high
    row = published.find("neuron-llm-tutorials/15")
    assert row.quantity("ttft_p50_s").value == 0.05107
    assert row.quantity("tpot_p50_s").unit == "s"
    with pytest.raises(NotFound, match="throughput_per_s"):
        row.quantity("batch_size")


def test_units_are_sane():
    for row in published.every():
        assert row.throughput_per_s is None or row.throughput_per_s > 0, row.row_id
        order = [row.latency_p50_s, row.latency_p90_s, row.latency_p95_s, row.latency_p99_s]
        known = [value for value in order if value is not None]
        assert known == sorted(known), row.row_id
        assert all(1e-5 < value < 100 for value in known), row.row_id
        for low, high in ((row.ttft_p50_s, row.ttft_p99_s), (row.tpot_p50_s, row.tpot_p99_s)):
            if low is not None and high is not None and row.flag != "warn":
                assert low <= high, row.row_id
        assert row.precision is None or row.precision in published.PRECISIONS
        assert row.result_unit in ("inference", "token", "image", "sequence", "request")
        assert row.latency_of in (None, "batch", "token", "request")
        assert row.application_type in (None, "Real Time", "Batch")
        assert row.kind in ("inference", "training")
        assert (row.flag == "none") is (row.flag_text == ""), row.row_id
        assert row.flag in ("none", "info", "warn")
        assert row.throughput_per_s is not None or row.ttft_p50_s is not None, row.row_id
        assert ("tokens counted" in row.conditions) is (row.result_unit == "token"), row.row_id


def test_littles_law_holds_on_every_unflagged_neuron_row():
    checked = 0
    for row in published.every():
        if row.collection == "neuron-2026-08-21" and row.flag == "none" and row.batches_in_flight:
            checked += 1
            whole = max(1, round(row.batches_in_flight))
            assert row.batches_in_flight == pytest.approx(whole, rel=0.06), row.row_id
    assert checked > 40


def test_no_unflagged_decoder_row_beats_its_own_time_per_token():
    """One sequence cannot produce more than 1 / TPOT tokens per second; a batch of b not more than b / TPOT."""
    for row in published.every():
        if row.collection == "neuron-2026-08-21" and row.tpot_p50_s and row.flag != "warn":
            assert row.throughput_per_s <= 1.01 * row.batch_size / row.tpot_p50_s, row.row_id


def test_known_anomalies_are_flagged():
    [clip] = [row for row in published.match("openai/clip-vit-base-patch32") if row.batch_size == 64]
    assert clip.flag == "warn" and "13.8" in clip.flag_text
    assert clip.batches_in_flight == pytest.approx(13.8, abs=0.05)
    for row in published.match("xlm-roberta-base"):
        assert row.flag == "warn" and "idle" in row.flag_text
    assert all(row.flag == "warn" for row in published.every() if row.collection == "hf-inferentia2-2023-04")
    assert published.find("trn1-2025-09-18/02").flag == "none"


def test_encoder_decoder_rows_count_tokens():
    rows = [row for row in published.every() if row.model_key in ("t5-3b", "google/flan-t5-xl")]
    assert len(rows) == 4 + 6
    assert {(row.result_unit, row.latency_of, row.conditions["tokens counted"]) for row in rows} == {("token", "token", "input and output")}
    assert all("token" in row.flag_text for row in rows)


def test_conditions_say_what_makes_the_number():
    row = published.match("bert-base-uncased", "g6.xlarge", 128)[0]
    assert "copies" in row.conditions["timed region"] and "tokenisation" in row.conditions["timed region"]
    assert row.conditions["input"] == "synthetic"
    assert row.conditions["printed model"] == "BERT-base (SQuAD)"
    assert (row.software, row.accelerators_used) == ("TensorRT 10.8", 1)
    decoder = published.match("Llama-2-70b")[0]
    assert decoder.conditions["rendered in docs"] == "no" and decoder.date is None
    assert sum(row.conditions.get("rendered in docs") == "yes" for row in published.every()) == 94
    pedigree = row.published()
    assert pedigree.date == "2025-01-31" and pedigree.conditions["row"] == row.row_id
    assert TRN1[0].published().price_basis.startswith("reserved_3yr_no_upfront")


def test_architectures_and_vocabularies_are_not_mixed():
    printed = {}
    for row in published.every():
        printed.setdefault(row.model_key, set()).add(row.model)
    assert "BERT base (bert-base-cased)" not in printed["bert-base-uncased"]
    assert printed["bert-base-uncased"] == {"bert-base-uncased", "BERT base (bert-base-uncased)", "BERT-base (SQuAD)"}
    assert printed["bert-base"] == {"BERT base"}
    for key, names in printed.items():
        text = " ".join(names).lower()
        sizes = {size for size in ("base", "large", "-7b", "-8b", "-70b", "-405b") if size in text}
        assert len(sizes) <= 1, (key, names)
    for row in published.every():
        assert row.model == row.model_key or row.conditions["printed model"] == row.model, row.row_id


def test_instance_types_hold_exactly_the_card():
    for row in published.every():
        for name in row.instance_types:
            instance = instances.find(name)
            if row.accelerators_used is not None and row.instance_count == 1:
                assert instance.accelerator_count == row.accelerators_used, row.row_id
        if not row.instance_types:
            assert "share of an instance" in row.conditions, row.row_id
    a100 = [row for row in published.every() if row.hardware == "1x NVIDIA A100 40GB"]
    assert len(a100) == 80 and not any(row.instance_types for row in a100)
    l4 = next(row for row in published.every() if row.hardware == "1x NVIDIA L4 24GB")
    assert set(l4.instance_types) == {
        "g6.xlarge", "g6.2xlarge", "g6.4xlarge", "g6.8xlarge", "g6.16xlarge", "gr6.4xlarge", "gr6.8xlarge",
    }  # fmt: skip
    a10 = [row for row in published.every() if "A10 (PCIe" in row.hardware]
    assert len(a10) == 3 and all(row.instance_types == () and row.flag == "warn" for row in a10)


def test_match_is_newest_first_and_filters():
    rows = published.match("bert-base-uncased", "trn1.2xlarge", 128)
    assert [row.sdk for row in rows] == ["2.27.0", "2.26.0", "2.26.0", "2.26.0"]
    assert rows[0].throughput_printed == "3421.56625089"
    assert published.match("google-bert/bert-base-uncased", "trn1.2xlarge", 128) == rows
    answering = published.match("bert-base-uncased", task="question-answering")
    assert answering and {row.task for row in answering} == {"question-answering"}
    assert {row.kind for row in published.match("bert-large-uncased")} == {"inference"}
    assert {row.kind for row in published.match("bert-large-uncased", kind="training")} == {"training"}
    assert published.match("no-such-model") == ()


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("BERT-base (SQuAD)", "bert-base-uncased"),
        ("google-bert/bert-base-uncased", "bert-base-uncased"),
        ("bert-base-cased", "bert-base-cased"),
        ("distilbert-base-uncased-finetuned-sst-2-english", "distilbert-base-uncased"),
        ("microsoft/resnet-50", "resnet50"),
        ("meta-llama/Llama-3.1-8B-Instruct", "Llama-3.1-8B"),
        ("flan-t5-xl", "google/flan-t5-xl"),
        ("bert", None),
        ("SQuAD", None),
    ],
)
def test_canonical_names(name, key):
    assert published.canonical(name) == key


def test_training_rows():
    rows = [row for row in published.every() if row.kind == "training"]
    assert len(rows) == 5 + 17
    [big] = [row for row in rows if row.throughput_printed == "57407.9207"]
    assert (big.instance_count, big.precision, big.result_unit) == (16, "bf16", "sequence")


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        (("bert-base-uncased", "g6.xlarge", 200), "same model on g6.xlarge at sequence length 128, 384"),
        (("bert-base-uncased", "g5.xlarge", 128), "same model on g5.2xlarge"),
        (("bert-base-cased", "inf2.xlarge", 128), "same model on inf1.xlarge"),
        (("roberta-bse", "g5.xlarge", None), "nearest by name: roberta-base"),
        (("vit-base", None, None), "about training"),
        (("zzz", None, None), "not in the catalogue"),
        (("bert-base-uncased", "g6.xlarge", 128), "rows do match"),
    ],
)
def test_explain_no_match(asked, says):
    sentence = published.explain_no_match(*asked)
    assert says in sentence
    assert asked[0] in sentence and sentence.endswith(".") and "\n" not in sentence


def test_unknown_row_names_the_nearest():
    with pytest.raises(NotFound, match="trn1-2025-09-18/02"):
        published.find("trn1-2025-09-18/2")
