"""Does a record contradict itself? Little's law on the rows that vendors really printed."""

import pytest
from example_questions import measured, question, stated
from neuronfit import plausibility
from neuronfit.adopt.published import as_measurement
from neuronfit.catalog import published
from neuronfit.provenance import Grade
from neuronfit.question import Question


def row(row_id, target):
    """A printed row as the record that a question about its model would hold."""
    return as_measurement(published.find(row_id), target, QUESTION)


QUESTION = Question.open("bert-base-uncased")
TRN1 = QUESTION.target("trn1")
TRN1_32 = TRN1.model_copy(update={"name": "trn1-32", "instance_type": "trn1.32xlarge"})
INF2 = QUESTION.target("inf2")


@pytest.mark.parametrize("number", [*range(1, 8), *range(9, 16)])
def test_two_batches_on_two_cores_of_trn1_2xlarge(number):
    """E.g. bert-base, batch 16: 3329.87 x 0.00959 / 16 = 1.996. Both cores are busy: a note, no more."""
    record = row(f"trn1-2025-09-18/{number:02d}", TRN1)
    assert plausibility.batches_in_flight(record).value == pytest.approx(2, rel=0.03)
    [finding] = plausibility.check(record)
    assert (str(finding.severity), finding.code) == ("note", "batches_in_flight")
    assert "2 of 2 NeuronCores busy" in finding.because


@pytest.mark.parametrize("number, flight", [(8, 44.62 * 0.35819 / 8), (16, 40.9 * 0.04901)])
def test_two_batches_on_thirty_two_cores_are_an_idle_instance(number, flight):
    """xlm-roberta-base on trn1.32xlarge: 1.998 and 2.005 batches on 32 cores."""
    record = row(f"trn1-2025-09-18/{number:02d}", TRN1_32)
    known = plausibility.batches_in_flight(record)
    assert known.value == pytest.approx(flight) == pytest.approx(2, rel=0.01) and known.grade is Grade.PUBLISHED
    [finding] = plausibility.check(record)
    assert (str(finding.severity), finding.code) == ("warning", "few_cores_busy")
    assert "about 2 of 32 cores busy" in finding.because and "almost idle" in finding.because


@pytest.mark.parametrize("number", [17, 18, 19, 20])
def test_tensor_parallel_cores_count_as_busy(number):
    """T5: one sequence at a time on 8 cores, 8 of 32 (122.52 x 0.00816 = 1.000)."""
    record = row(f"trn1-2025-09-18/{number}", TRN1_32)
    assert plausibility.batches_in_flight(record).value == pytest.approx(1, rel=0.01)
    [finding] = plausibility.check(record)
    assert (str(finding.severity), finding.code) == ("warning", "few_cores_busy")
    assert "only 1 batch in flight x tensor-parallel degree 8" in finding.because and "8 of 32" in finding.because


def test_a_row_whose_columns_cannot_both_be_right_is_a_blocker():
    """CLIP-ViT-B/32, batch 64, inf2.xlarge: 6509.83 x 0.135806 / 64 = 13.8 batches on 2 cores. At batch 1 it is 1."""
    wrong, right = row("neuron-2026-08-21/69", INF2), row("neuron-2026-08-21/43", INF2)
    assert plausibility.batches_in_flight(wrong).value == pytest.approx(13.81, abs=0.005)
    [finding] = plausibility.check(wrong)
    assert (str(finding.severity), finding.code) == ("blocker", "littles_law")
    assert "13.8" in finding.because and "2 NeuronCores" in finding.because
    assert [str(finding.severity) for finding in plausibility.check(right)] == ["note"]


def test_exactly_the_printed_rows_with_a_flaw_are_blocked():
    """Over every inference row of a single instance in the catalogue: CLIP's two instance types, and no other."""
    blocked = set()
    for printed in published.every():
        for instance_type in printed.instance_types if printed.kind == "inference" and printed.batches_in_flight else ():
            target = INF2.model_copy(update={"instance_type": instance_type})
            if any(str(finding.severity) == "blocker" for finding in plausibility.check(as_measurement(printed, target, QUESTION))):
                blocked.add((printed.row_id, printed.model))
    assert {model for _, model in blocked} == {"openai/clip-vit-base-patch32"}, blocked


# -- what was declared ------------------------------------------------------------------------


@pytest.mark.parametrize("workers, warns", [(1, True), (2, False), (4, True)])
def test_declared_concurrency_against_the_implied_one(tmp_path, workers, warns):
    """2,000/s x 8 ms / 8 = 2 batches; more than 10 % from what was declared is a warning."""
    asked = question(tmp_path)
    record = stated(asked, "inf2", values={"throughput_per_s": 2000, "latency_mean_s": 0.008}, workers=workers)
    [finding] = plausibility.check(record)
    assert (finding.code == "littles_law") is warns
    if warns:
        assert f"2 batches in flight, {workers} were declared" in finding.because


@pytest.mark.parametrize("latency_s, warns", [(0.0080, False), (0.0087, False), (0.0089, True), (0.0071, True)])
def test_ten_percent_is_the_limit(tmp_path, latency_s, warns):
    record = stated(question(tmp_path), "inf2", values={"throughput_per_s": 2000, "latency_mean_s": latency_s}, workers=2)
    assert any(finding.code == "littles_law" for finding in plausibility.check(record)) is warns


def test_a_closed_loop_of_our_own_has_one_batch_in_flight(tmp_path):
    """Calls one after another: rate x latency / batch = 1 by construction, also with results_per_call above the batch."""
    asked = question(tmp_path)
    record = measured(asked, "inf2", [1000, 1010], batch=4)
    assert plausibility.batches_in_flight(record).value == pytest.approx(1, rel=0.01)
    tokens = record.model_copy(update={"results_per_call": 40, "result_unit": "token", "latency_of": "request"})
    assert plausibility.batches_in_flight(tokens).value == pytest.approx(1, rel=0.01)


def test_the_mean_is_preferred_to_the_median(tmp_path):
    """Little's law is about means: 100/s x 0.02 s / 1 = 2, whatever the median."""
    record = stated(question(tmp_path), "l4", batch=1, values={"throughput_per_s": 100, "latency_mean_s": 0.02, "latency_p50_s": 0.01})
    flight = plausibility.batches_in_flight(record)
    assert flight.value == pytest.approx(2) and "mean" in flight.why


@pytest.mark.parametrize("values", [{"throughput_per_s": 100}, {"latency_mean_s": 0.01}, {"throughput_per_s": 100, "latency_p99_s": 0.1}])
def test_what_is_not_known_is_not_computed(tmp_path, values):
    record = stated(question(tmp_path), "inf2", values=values)
    assert not plausibility.batches_in_flight(record).known
    assert plausibility.check(record) == ()


def test_no_batch_size_no_law(tmp_path):
    record = stated(question(tmp_path), "inf2", batch=None, values={"throughput_per_s": 100, "latency_mean_s": 0.01})
    assert "batch size" in plausibility.batches_in_flight(record).why


def test_a_gpu_has_no_core_count_to_compare_with(tmp_path):
    """TensorRT on an L4, batch 8: 2168 x 0.00369 / 8 = 1.00. Five batches in flight are no contradiction on a GPU."""
    record = stated(question(tmp_path), "l4", values={"throughput_per_s": 2168, "latency_mean_s": 0.00369})
    assert [finding.code for finding in plausibility.check(record)] == ["batches_in_flight"]
    many = stated(question(tmp_path), "l4", values={"throughput_per_s": 2168, "latency_mean_s": 5 * 0.00369})
    assert [str(finding.severity) for finding in plausibility.check(many)] == ["note"]


# -- percentiles ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "values, broken",
    [
        ({"latency_p50_s": 0.010, "latency_p99_s": 0.009}, "latency p99 9 ms is below latency p50 10 ms"),
        ({"latency_p50_s": 0.010, "latency_p95_s": 0.009, "latency_p99_s": 0.020}, "latency p95 9 ms is below latency p50 10 ms"),
        ({"latency_p90_s": 0.010, "latency_p99_s": 0.009}, "latency p99 9 ms is below latency p90 10 ms"),
        ({"latency_p50_s": 0.010, "latency_p99_s": 0.010}, None),
        ({"latency_p50_s": 0.010, "latency_p90_s": 0.011, "latency_p95_s": 0.012, "latency_p99_s": 0.013}, None),
        ({"latency_mean_s": 0.02, "latency_p50_s": 0.010}, None),
    ],
)
def test_a_higher_percentile_is_not_below_a_lower_one(tmp_path, values, broken):
    found = [finding for finding in plausibility.check(stated(question(tmp_path), "l4", values=values)) if finding.code == "percentiles_reversed"]
    assert [(str(finding.severity), finding.because) for finding in found] == ([("blocker", broken)] if broken else [])


# -- the silicon ------------------------------------------------------------------------------

BERT = {"hidden_size": 768, "vocab_size": 30522, "max_position_embeddings": 512}


def test_what_one_result_costs_at_least():
    """bert-base: 109,482,240 parameters, of which 30,522 + 512 rows of 768 are looked up; 128 tokens."""
    work = plausibility.work_of(BERT, "inference", 109_482_240)
    assert work.parameters == 109_482_240 - (30522 + 512) * 768
    assert work.flops(128) == pytest.approx(21.93e9, rel=1e-3), "2 x 85.6 M x 128; the published figure for a forward pass is 22.4 GFLOP"
    decoder = plausibility.work_of({"hidden_size": 4096, "vocab_size": 128256, "tie_word_embeddings": False}, "token", 8.03e9)
    assert decoder.flops(None) == pytest.approx(2 * (8.03e9 - 2 * 128256 * 4096)) and decoder.tokens_per_result == 1
    both = plausibility.work_of({"d_model": 1024, "vocab_size": 32128, "is_encoder_decoder": True}, "token", 2.85e9)
    assert both.parameters == pytest.approx((2.85e9 - 32128 * 1024) / 2)
    assert plausibility.work_of({"hidden_size": 768, "image_size": 224, "patch_size": 16}, "image", 86e6).tokens_per_result == 196
    assert plausibility.work_of({"depths": [3, 4, 6, 3]}, "image", 25.6e6).flops(None) == pytest.approx(2 * 0.9 * 25.6e6)
    assert plausibility.work_of({"hidden_size": 4096, "num_local_experts": 8}, "token", 47e9) is None
    assert plausibility.work_of({}, "inference", 1e9) is None


@pytest.mark.parametrize(
    "rate, precision, expected",
    [
        (5000, "fp16", None),  # 110 of 121 TFLOP/s
        (6000, "fp16", ("blocker", "faster_than_silicon")),  # 131 TFLOP/s
        (3000, "fp32", ("warning", "faster_than_precision")),  # 66 TFLOP/s: tensor cores in TF32 reach 60
        (2000, "fp32", None),
        (6000, "int8", None),  # 242 TOP/s
        (12000, "int8", ("blocker", "faster_than_silicon")),
        (6000, None, None),  # might have been quantised
    ],
)
def test_no_l4_answers_faster_than_its_silicon(tmp_path, rate, precision, expected):
    """An L4 has 121 dense TFLOP/s in FP16, 60 in TF32 and 242 TOP/s in INT8 (catalogue); bert-base costs 21.9 GFLOP at 128 tokens."""
    work = plausibility.work_of(BERT, "inference", 109_482_240)
    row = stated(question(tmp_path), "l4", values={"throughput_per_s": rate}, precision=precision)
    found = [(str(finding.severity), finding.code) for finding in plausibility.check(row, work) if finding.code.startswith("faster")]
    assert found == ([expected] if expected else [])
    if expected and expected[0] == "blocker":
        because = next(finding.because for finding in plausibility.check(row, work) if finding.code == "faster_than_silicon")
        assert f"{rate:,}/s x at least 21.9 GFLOP" in because and "2 x parameters" in because and "g6.xlarge has" in because


def test_a_decode_step_reads_the_weights(tmp_path):
    """8 G parameters in BF16 are 16 GB a step; an L4 reads 300 GB/s, so one stream gets 18.7 tokens/s and eight get 150."""
    work = plausibility.Work(8e9, 1)

    def codes_of(rate, batch):
        row = stated(question(tmp_path), "l4", batch=batch, values={"throughput_per_s": rate}, precision="bf16").model_copy(
            update={"result_unit": "token", "latency_of": "token"}
        )
        return [finding.code for finding in plausibility.check(row, work) if finding.code.startswith("faster")]

    assert codes_of(18, 1) == [] and codes_of(20, 1) == ["faster_than_silicon"]
    assert codes_of(140, 8) == [] and codes_of(160, 8) == ["faster_than_silicon"]


def test_an_impossible_figure_is_blocked_at_the_door_and_never_stands(tmp_path):
    asked = question(tmp_path)
    admitted = asked.dossier.admit(measured(asked, "inf2", [90_000, 91_000, 92_000]))
    assert "faster_than_silicon" in {finding.code for finding in admitted.findings}
    from neuronfit import compare

    record = compare.compare(asked)
    assert asked.dossier.get(record.headline["inf2"]).grade is Grade.PUBLISHED


def test_no_printed_row_of_the_catalogue_outruns_its_silicon():
    """The ceilings are bounds from below of the work, so no honest figure may touch them: every row of the ten models."""
    from neuronfit.catalog import models

    looked = 0
    for name in ("bert-base-uncased", "albert-base-v2", "roberta-large", "t5-3b", "flan-t5-xl", "distilbert-base-uncased"):
        asked = Question.open(name)
        work = asked.work()
        assert work is not None and work.parameters < models.find(name).parameters
        for printed in published.every():
            if printed.model_key == name and printed.kind == "inference":
                for instance_type in printed.instance_types:
                    record = as_measurement(printed, INF2.model_copy(update={"instance_type": instance_type}), asked)
                    looked += 1
                    assert not [finding for finding in plausibility.check(record, work) if finding.code == "faster_than_silicon"], printed.row_id
    assert looked > 40


def test_tokens_per_second_against_time_per_token(tmp_path):
    """8 streams at 20 ms a token write at most 400 tokens/s."""
    values = {"output_tokens_per_s": 500.0, "tpot_mean_s": 0.020}
    row = stated(question(tmp_path), "l4", values=values, workers=8)
    (found,) = [finding for finding in plausibility.check(row) if finding.code == "tokens_against_tpot"]
    assert "keeps 10 streams writing, 8 were open" in found.because
    fine = stated(question(tmp_path), "l4", values={**values, "output_tokens_per_s": 430.0}, workers=8)
    assert not [finding for finding in plausibility.check(fine) if finding.code == "tokens_against_tpot"]


# -- at the door ------------------------------------------------------------------------------


def test_findings_are_recomputed_whoever_wrote_the_record(tmp_path):
    """A record that arrives with a clean bill of health for an impossible figure gets its blocker at admission."""
    asked = question(tmp_path)
    claimed = row("neuron-2026-08-21/69", asked.target("inf2")).model_copy(update={"workload": asked.ref})
    forged = claimed.model_copy(update={"findings": plausibility.check(row("trn1-2025-09-18/02", TRN1))})
    admitted = asked.dossier.admit(forged)
    assert [finding.code for finding in admitted.findings if finding.code in plausibility.CODES] == ["littles_law"]
