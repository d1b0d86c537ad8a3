"""Buckets: the optimum against every other choice, and the counts by hand."""

from __future__ import annotations

import itertools
import random

import pytest
from example_questions import question
from neuronfit import buckets
from neuronfit.buckets import advise, best, findings, padding
from neuronfit.errors import BadInput


def least_padding(shares, count):
    """The oracle: every set of ``count`` edges among the lengths that ends with the longest."""
    lengths = sorted(shares)
    others = itertools.combinations(lengths[:-1], count - 1)
    return min(padding((*edges, lengths[-1]), shares) for edges in others)


@pytest.mark.parametrize("seed", range(12))
def test_no_other_edges_pad_less(seed):
    draw = random.Random(seed)
    lengths = draw.sample(range(1, 600), draw.randint(1, 11))
    shares = {length: draw.choice((draw.random(), draw.randint(1, 5), 1e-6)) for length in lengths}
    found = best(shares)
    assert [len(edges) for edges in found] == list(range(1, min(8, len(shares)) + 1))
    for edges in found:
        assert list(edges) == sorted(set(edges)) and set(edges) <= set(shares) and edges[-1] == max(shares)
        assert padding(edges, shares) == pytest.approx(least_padding(shares, len(edges)), abs=1e-12)


def test_edges_between_the_lengths_never_help():
    shares = {3: 1, 5: 2, 9: 1}
    every = itertools.combinations(range(1, 10), 2)
    assert padding(best(shares)[1], shares) == pytest.approx(min(padding(edges, shares) for edges in every if edges[-1] >= 9))


def test_padding_by_hand():
    """Half of the inputs have 100 tokens, half 300: padded to 300, 600 tokens are computed for 400."""
    shares = {100: 0.5, 300: 0.5}
    assert padding((300,), shares) == pytest.approx(1 - 400 / 600)
    assert padding((100, 300), shares) == 0
    assert padding((200, 400), shares) == pytest.approx(1 - 400 / 600)
    assert padding((300,), {100: 7, 300: 7}) == pytest.approx(1 - 400 / 600), "counts are as good as shares"


def test_more_buckets_never_pad_more_and_all_lengths_pad_nothing():
    draw = random.Random(4)
    shares = {length: draw.random() for length in range(10, 300, 7)}
    wasted = [padding(edges, shares) for edges in best(shares)]
    assert wasted == sorted(wasted, reverse=True) and len(wasted) == 8
    assert padding(best(shares, most=100)[-1], shares) == 0


def test_an_input_that_no_bucket_holds_is_refused():
    with pytest.raises(BadInput, match="no bucket holds the longest input: 300"):
        padding((100,), {300: 1})
    with pytest.raises(BadInput, match="no lengths"):
        best({})
    with pytest.raises(BadInput, match="shares above 0"):
        best({10: 0.0})


def test_thousands_of_lengths_are_no_trouble():
    shares = {length: 1.0 for length in range(1, 2001)}
    edges = best(shares)[3]
    assert edges == (500, 1000, 1500, 2000), "uniform lengths are cut into equal parts"


# -- for a question ---------------------------------------------------------------------------

LENGTHS = {32: 50, 64: 20, 128: 20, 256: 7, 512: 3}
"""Mean 16 + 12.8 + 25.6 + 17.92 + 15.36 = 87.68 tokens; all padded to 512: 1 - 87.68 / 512 = 82.9 % padding."""


def with_lengths(folder, **changes):
    shapes = [{"batch_size": batch, "sequence_length": 512} for batch in (1, 16)]
    return question(folder, **{"workload__shapes": shapes, "traffic__sequence_lengths": LENGTHS, **changes})


def test_the_advice_counts_batch_sizes_times_buckets_times_targets(tmp_path):
    advice = advise(with_lengths(tmp_path))
    assert advice.batch_sizes == (1, 16) and advice.targets == ("inf2", "trn1")
    assert [one.count for one in advice.choices] == [1, 2, 3, 4, 5], "five lengths need no sixth bucket"
    assert [one.compilations.value for one in advice.choices] == [4, 8, 12, 16, 20]
    assert advice.present.waste.value == pytest.approx(1 - 87.68 / 512) == advice.choices[0].waste.value
    assert advice.present.compilations.value == 4 and str(advice.present.waste.grade) == "estimated"


def test_the_recommendation_is_the_fewest_within_five_points_of_the_most(tmp_path):
    advice = advise(with_lengths(tmp_path))
    wasted = {one.count: one.waste.value for one in advice.choices}
    assert wasted[5] == 0 and wasted[advice.recommended] <= 0.05 < wasted[advice.recommended - 1]
    assert "5 percentage points" in advice.rule and str(buckets.MOST) in advice.rule
    chosen = advice.choices[advice.recommended - 1]
    assert f"{2 * chosen.count * 2} compilations" in advice.sentence and "83 %" in advice.sentence


def test_exactly_five_points_are_enough():
    """One bucket pads 1 - 95 / 100 = 5 %, two pad nothing."""
    shares = {90: 0.5, 100: 0.5}
    choices = [
        buckets.BucketChoice(
            count=len(edges),
            edges=edges,
            waste={"value": padding(edges, shares), "unit": "fraction", "grade": "estimated"},
            compilations=buckets._count(1),
        )
        for edges in best(shares)
    ]
    assert choices[0].waste.value == pytest.approx(0.05) and buckets._recommended(choices) == 1


def test_padding_that_could_be_avoided_is_a_note_with_what_to_write(tmp_path):
    advice = advise(with_lengths(tmp_path))
    (finding,) = findings(advice)
    edges = ", ".join(str(edge) for edge in advice.choices[advice.recommended - 1].edges)
    assert (finding.code, str(finding.severity)) == ("padding_avoidable", "note") and finding.next.endswith(f"lengths {edges}")
    shapes = [{"batch_size": 1, "sequence_length": edge} for edge in advice.choices[advice.recommended - 1].edges]
    assert findings(advise(with_lengths(tmp_path, workload__shapes=shapes))) == []


def test_inputs_longer_than_every_shape_are_a_warning_and_no_padding_is_claimed(tmp_path):
    advice = advise(with_lengths(tmp_path, workload__shapes=[{"batch_size": 1, "sequence_length": 128}]))
    assert advice.present.waste.value is None and "512" in advice.present.waste.why and advice.recommended
    (finding,) = findings(advice)
    assert (finding.code, str(finding.severity)) == ("lengths_beyond_buckets", "warning") and "512" in finding.because


def test_without_lengths_the_shapes_are_the_buckets_and_padding_is_unknown(tmp_path):
    shapes = [{"batch_size": 1, "sequence_length": 128}, {"batch_size": 1, "sequence_length": 256}, {"batch_size": 8, "sequence_length": 128}]
    advice = advise(question(tmp_path, workload__shapes=shapes))
    assert advice.choices == () and advice.recommended is None and findings(advice) == []
    assert advice.present.edges == (128, 256) and advice.present.compilations.value == 3 * 2
    assert (
        advice.present.waste.value is None and advice.present.waste.why == "neither traffic.sequence_lengths nor a trace says how long the inputs are"
    )
    assert "6 compilations" in advice.sentence and "not known" in advice.sentence


def test_nothing_is_compiled_ahead_for_a_gpu_or_a_server(tmp_path):
    candidates = [
        {"name": "a10g", "instance_type": "g5.xlarge", "path": "cuda"},
        {"name": "llm", "instance_type": "trn2.48xlarge", "path": "vllm_neuron"},
    ]
    advice = advise(with_lengths(tmp_path, candidates=candidates))
    assert advice.targets == () and {one.compilations.value for one in advice.choices} == {0.0} and findings(advice) == []
    assert "No target is compiled ahead of time" in advice.sentence


def test_one_bucket_reads_well(tmp_path):
    advice = advise(with_lengths(tmp_path, traffic__sequence_lengths={"512": 1}, workload__shapes=[{"batch_size": 1, "sequence_length": 512}]))
    assert advice.sentence == "1 bucket (512 tokens) leaves 0 % padding and needs 2 compilations: 1 batch size x 1 bucket x 2 targets."
