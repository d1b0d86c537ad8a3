"""Step 4's conclusion: which figure stands for a target, and may two be set against each other?"""

import numpy as np
import pytest
from example_questions import measured, question, stated
from neuronfit import compare, stats
from neuronfit.adopt.published import as_measurement
from neuronfit.catalog import published
from neuronfit.params import Objective
from neuronfit.provenance import Grade, Measured, Quantity
from neuronfit.record import Finding, Parity, ParityMetric, ParitySide, Severity, Taken
from scipy import stats as scipy_stats


def pairs_of(record, target):
    return {entry.mode: entry for entry in record.pairs if entry.candidate == target}


def headline(asked, record, target):
    return asked.dossier.get(record.headline[target])


# -- from published figures -------------------------------------------------------------------


def test_matched_means_the_same_batch_on_both_sides(tmp_path):
    """inf2.xlarge is published at batch 8 (2,674.19/s), the L4 at 8 (2,168) and, its best within 20 ms, 16 (2,384.5)."""
    asked = question(tmp_path)
    record = compare.compare(asked)
    for target, batch, candidate_rate, matched_rate in (("inf2", 8, 2674.18956433, 2168.0), ("trn1", 16, 3421.56625089, 2384.5)):
        found = pairs_of(record, target)
        matched, best = found["matched"], found["best"]
        base, candidate = asked.dossier.get(matched.baseline_record), asked.dossier.get(matched.candidate_record)
        assert base.settings.batch_size == candidate.settings.batch_size == batch
        assert matched.throughput.value == pytest.approx(candidate_rate / matched_rate)
        assert best.throughput.value == pytest.approx(candidate_rate / 2384.5)
        assert asked.dossier.get(best.baseline_record).settings.batch_size == 16


def test_batches_of_their_own_are_said_with_the_ratio(tmp_path):
    """Batch 4 against batch 1 is not the speed of the hardware alone."""
    asked = question(tmp_path)
    one, four = measured(asked, "l4", [1000, 1001, 1002], batch=1), measured(asked, "inf2", [2000, 2001, 2002], batch=4)
    assert compare.pair(one, four, "best", 0.05, 0.95).sentence.startswith("inf2 at batch 4 answers 2 times as many a second as l4 at batch 1 (")
    alike = measured(asked, "inf2", [2000, 2001, 2002], batch=1)
    assert compare.pair(one, alike, "matched", 0.05, 0.95).sentence.startswith("inf2 answers 2 times as many a second as l4 (")


def test_a_ratio_is_candidate_over_baseline(tmp_path):
    """p99 6.171 ms against 3.83 ms: latency ratio 1.61, although throughput is 1.23 times."""
    matched = pairs_of(compare.compare(question(tmp_path)), "inf2")["matched"]
    assert matched.latency_p99.value == pytest.approx(6.17100715 / 3.83)
    assert matched.throughput.value == pytest.approx(1.2335, abs=1e-4)
    assert not matched.latency_p50.known and "l4 has no latency p50" in matched.latency_p50.why


def test_published_figures_that_were_not_taken_alike_are_not_comparable(tmp_path):
    record = compare.compare(question(tmp_path))
    matched = pairs_of(record, "inf2")["matched"]
    assert matched.verdict == "not_comparable"
    assert [entry.setting for entry in matched.differences if entry.matters] == ["precision of products", "timed region"]
    assert "precision of products, timed region differ" in matched.sentence
    values = {entry.setting: (entry.baseline, entry.candidate) for entry in matched.differences}
    assert values["precision of products"] == ("fp16", "fp32_bf16_matmul")
    assert values["timed region"][1] == "not stated"
    findings = {finding.target: finding for finding in record.findings if finding.code == "not_comparable"}
    assert findings["inf2"].because == matched.sentence


def test_quantised_rows_are_adopted_and_never_stand_for_an_fp32_workload(tmp_path):
    """The L4's fastest printed figure is INT8, 5,178/s at batch 32: other answers, so another question."""
    asked = question(tmp_path)
    record = compare.compare(asked)
    rows = asked.dossier.measurements("l4")
    assert max(row.values["throughput_per_s"] for row in rows) == pytest.approx(5178.0, abs=0.1)
    assert {row.settings.precision for row in compare.usable(asked, "l4")} == {"fp16"}
    assert headline(asked, record, "l4").settings.precision == "fp16"
    wanted = question(tmp_path / "int8", workload__precision="int8")
    compare.compare(wanted)
    assert "int8" in {row.settings.precision for row in compare.usable(wanted, "l4")}


def test_the_newest_software_stands(tmp_path):
    """trn1.2xlarge at batch 16 is printed for SDK 2.26.0 (3,329.87/s) and 2.27.0 (3,421.57/s)."""
    asked = question(tmp_path)
    record = compare.compare(asked)
    assert {row.settings.sdk for row in asked.dossier.measurements("trn1")} == {"2.26.0", "2.27.0"}
    assert headline(asked, record, "trn1").settings.sdk == "2.27.0"
    assert headline(asked, record, "trn1").values["throughput_per_s"] == pytest.approx(3421.566, abs=1e-3)


def test_newest_is_by_version_number_then_by_date_and_never_by_order_of_admission(tmp_path):
    asked = question(tmp_path)
    for sdk, date, rate in (("2.9.0", "2026-01-01", 9), ("2.27.0", "2026-03-01", 27.3), ("2.27.0", "2026-02-01", 27.2), ("2.26.0", "2026-09-01", 26)):
        asked.dossier.admit(stated(asked, "inf2", values={"throughput_per_s": rate}, sdk=sdk, date=date))
    assert [row.values["throughput_per_s"] for row in compare.usable(asked, "inf2")] == [27.3]


def test_a_page_of_the_same_software_and_an_older_date_gives_way(tmp_path):
    """bert-base at batch 1 is printed with SDK 2.26.0 on both pages; the page of 2026-02-26 has more digits."""
    asked = question(tmp_path)
    compare.compare(asked)
    [row] = [row for row in compare.usable(asked, "trn1") if row.settings.batch_size == 1]
    assert row.source.date == "2026-02-26" and row.values["throughput_per_s"] == pytest.approx(2085.45272427)


def test_doubted_figures_give_way_and_stand_in_only_for_want_of_others(tmp_path):
    asked = question(tmp_path)
    doubt = Finding(severity=Severity.WARNING, code="published_row_flagged", because="no synchronisation", target="l4")
    asked.dossier.admit(stated(asked, "l4", values={"throughput_per_s": 3000}).model_copy(update={"findings": (doubt,)}))
    assert [row.values["throughput_per_s"] for row in compare.usable(asked, "l4")] == [3000]
    asked.dossier.admit(stated(asked, "l4", values={"throughput_per_s": 100}, batch=1))
    assert [row.values["throughput_per_s"] for row in compare.usable(asked, "l4")] == [100]


def test_an_impossible_row_never_stands_for_a_target(tmp_path):
    """CLIP-ViT-B/32 at batch 64 (13.8 batches on 2 cores), at the question's length: blocked, so the other row stands."""
    asked = question(tmp_path)
    for row_id in ("neuron-2026-08-21/69", "neuron-2026-08-21/43"):
        row = as_measurement(published.find(row_id), asked.target("inf2"), asked)
        asked.dossier.admit(row.model_copy(update={"settings": row.settings.model_copy(update={"sequence_length": 128}), "findings": ()}))
    assert len(asked.dossier.measurements("inf2")) == 2
    assert [row.values["throughput_per_s"] for row in compare.usable(asked, "inf2")] == [161.047]


def test_nothing_on_one_side(tmp_path):
    """xlm-roberta-base: no figure for g6.xlarge nor for inf2.xlarge, two for idle large instances."""
    asked = question(tmp_path, "xlm-roberta-base")
    record = compare.compare(asked)
    assert record.pairs == () and set(record.headline) == {"inf2-48", "trn1-32"}
    assert "nothing to compare yet, since l4 and inf2 have none" in record.bottom_line
    codes = {(finding.target, finding.code) for finding in record.findings}
    assert {("trn1-32", "few_cores_busy"), ("inf2-48", "few_cores_busy"), ("l4", "nothing_published"), ("inf2", "nothing_published")} <= codes


def test_an_objective_that_no_figure_keeps_is_said(tmp_path):
    """trn1.32xlarge answers xlm-roberta-base in 44.1 ms (p99, batch 1); asked are 20 ms."""
    record = compare.compare(question(tmp_path, "xlm-roberta-base"))
    found = {finding.target: finding for finding in record.findings if finding.code == "objective_missed"}
    assert set(found) == {"inf2-48", "trn1-32"}
    assert "44.1 ms of 20 ms" in found["trn1-32"].because and str(found["trn1-32"].severity) == "warning"


def test_comparing_twice_changes_nothing(tmp_path):
    asked = question(tmp_path)
    first = compare.compare(asked)
    count = len(asked.dossier.files())
    assert compare.compare(asked).id == first.id and len(asked.dossier.files()) == count


# -- from measurements ------------------------------------------------------------------------


def compared(tmp_path, baseline_rates, candidate_rates, **changes):
    asked = question(tmp_path, **changes)
    asked.dossier.admit(measured(asked, "l4", baseline_rates))
    asked.dossier.admit(measured(asked, "inf2", candidate_rates))
    return asked, compare.compare(asked)


@pytest.mark.parametrize(
    "baseline, candidate, verdict",
    [
        ([1000, 1002, 998], [1500, 1503, 1497], "faster"),
        ([1500, 1503, 1497], [1000, 1002, 998], "slower"),
        ([1000, 1001, 999], [1001, 1002, 1000], "same_within_margin"),
        ([1000, 1300, 700], [1100, 1500, 800], "inconclusive"),
        ([1000, 1030, 970], [1060, 1090, 1030], "inconclusive"),
    ],
)
def test_a_verdict_needs_both_ends_beyond_the_margin(tmp_path, baseline, candidate, verdict):
    asked, record = compared(tmp_path, baseline, candidate)
    pair = pairs_of(record, "inf2")["matched"]
    assert pair.verdict == verdict
    assert pair.throughput.value == pytest.approx(sorted(candidate)[1] / sorted(baseline)[1])
    assert pair.throughput.low < pair.throughput.value < pair.throughput.high
    assert pair.throughput.grade is Grade.MEASURED and pair.throughput.confidence == 0.95
    assert [entry.setting for entry in pair.differences if entry.matters] == []
    assert f"({pair.throughput.low:.3g} to {pair.throughput.high:.3g})" in pair.sentence


def test_the_margin_is_the_questions(tmp_path):
    """1.5 times as fast is `faster` at 5 % and within a margin of 60 %."""
    _, record = compared(tmp_path, [1000, 1002, 998], [1500, 1503, 1497], policy__margin=0.6)
    assert pairs_of(record, "inf2")["matched"].verdict == "same_within_margin"
    assert record.margin == 0.6


@pytest.mark.parametrize(
    "low, value, high, expected",
    [
        (1.06, 1.10, 1.15, "faster"),
        (1.05, 1.10, 1.15, "inconclusive"),  # touches the margin
        (0.80, 0.90, 0.95, "slower"),
        (0.80, 0.90, 0.96, "inconclusive"),  # 1 / 1.05 = 0.952
        (0.96, 1.00, 1.04, "same_within_margin"),
        (0.94, 1.00, 1.04, "inconclusive"),
        (None, 3.00, None, "inconclusive"),
    ],
)
def test_the_verdict_of_an_interval(low, value, high, expected):
    ratio = Quantity(value=value, low=low, high=high, unit="ratio", grade=Grade.MEASURED)
    assert compare.verdict(ratio, 0.05) == expected


def test_swapping_the_sides_mirrors_the_verdict(tmp_path):
    """log(a/b) = -log(b/a): value and ends are reciprocal, faster becomes slower."""
    _, one = compared(tmp_path / "a", [1000, 1010, 990], [1300, 1290, 1310])
    _, two = compared(tmp_path / "b", [1300, 1290, 1310], [1000, 1010, 990])
    left, right = (pairs_of(record, "inf2")["matched"] for record in (one, two))
    assert (left.verdict, right.verdict) == ("faster", "slower")
    assert left.throughput.value * right.throughput.value == pytest.approx(1)
    assert left.throughput.low * right.throughput.high == pytest.approx(1, rel=0.01)


def test_one_run_on_a_side_says_nothing_about_spread(tmp_path):
    _, record = compared(tmp_path, [1000, 1001, 1002], [2000])
    pair = pairs_of(record, "inf2")["matched"]
    assert pair.verdict == "inconclusive" and pair.throughput.low is None and pair.throughput.value == pytest.approx(2000 / 1001)


def test_a_run_in_which_nothing_finished_does_not_count(tmp_path):
    """Two good runs remain; 0 results a second would have no logarithm."""
    asked = question(tmp_path)
    good = measured(asked, "inf2", [1500, 1503, 1497])
    empty = good.runs[0].model_copy(update={"values_s": (), "errors": ("out of memory",)})
    record = good.model_copy(update={"runs": (empty, *good.runs[1:])})
    pair = compare.pair(measured(asked, "l4", [1000, 1002, 998]).sealed(), record.sealed(), "matched", 0.05, 0.95)
    assert pair.throughput.value == pytest.approx(1.5) and pair.throughput.low > 1.05


def test_measured_outranks_imported_outranks_published(tmp_path):
    asked = question(tmp_path)
    compare.compare(asked)
    assert {row.grade for row in compare.usable(asked, "inf2")} == {Grade.PUBLISHED}
    asked.dossier.admit(stated(asked, "inf2", imported=True, values={"throughput_per_s": 50.0}))
    assert [row.values["throughput_per_s"] for row in compare.usable(asked, "inf2")] == [50.0]
    asked.dossier.admit(measured(asked, "inf2", [40, 41]))
    record = compare.compare(asked)
    assert headline(asked, record, "inf2").grade is Grade.MEASURED
    assert "inf2" not in {finding.target for finding in record.findings if finding.code == "not_measured"}
    assert headline(asked, record, "l4").grade is Grade.PUBLISHED
    assert pairs_of(record, "inf2")["matched"].throughput.grade is Grade.PUBLISHED


def test_an_invalid_measurement_is_not_used(tmp_path):
    asked = question(tmp_path)
    asked.dossier.admit(measured(asked, "inf2", [9000, 9001, 9002], valid=False))
    record = compare.compare(asked)
    assert headline(asked, record, "inf2").grade is Grade.PUBLISHED
    asked.dossier.admit(measured(asked, "inf2", [1000, 1001, 1002]))
    assert headline(asked, compare.compare(asked), "inf2").quantity("throughput_per_s").value == pytest.approx(1001)


def test_the_cpu_of_this_host_takes_no_part(tmp_path):
    asked = question(tmp_path)
    asked.dossier.admit(measured(asked, "cpu", [99999, 99998]).model_copy(update={"instance_type": None}))
    record = compare.compare(asked)
    assert set(record.headline) == {"l4", "inf2", "trn1"} and {entry.candidate for entry in record.pairs} == {"inf2", "trn1"}


# -- settings ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "setting, name, value",
    [
        ("sequence_length", "sequence length", 64),
        ("output_length", "output length", 5),
        ("precision", "precision of products", "fp16"),
        ("timed_region", "timed region", "device only"),
        ("weights", "weights", "/data/w"),
        ("timed_region", "timed region", None),
    ],
)
def test_a_difference_that_matters_forbids_the_comparison(tmp_path, setting, name, value):
    asked = question(tmp_path)
    base, candidate = measured(asked, "l4", [1000, 1001, 999]), measured(asked, "inf2", [2000, 2001, 1999], **{setting: value})
    pair = compare.pair(base.sealed(), candidate.sealed(), "matched", 0.05, 0.95)
    assert pair.verdict == "not_comparable" and f"not taken alike: {name} differ" in pair.sentence
    assert pair.differences[0].setting == name and pair.differences[0].matters


@pytest.mark.parametrize(
    "setting, value", [("batch_size", 16), ("software", "other 1.0"), ("route", "eager"), ("autocast", "all"), ("input", "a file")]
)
def test_a_tuned_setting_is_listed_and_allows_it(tmp_path, setting, value):
    asked = question(tmp_path)
    candidate = measured(asked, "inf2", [2000, 2001, 1999])
    candidate = candidate.model_copy(update={"settings": candidate.settings.model_copy(update={setting: value})})
    pair = compare.pair(measured(asked, "l4", [1000, 1001, 999]).sealed(), candidate.sealed(), "best", 0.05, 0.95)
    assert pair.verdict == "faster" and [entry.matters for entry in pair.differences] == [False]


def test_tokens_are_not_requests(tmp_path):
    asked = question(tmp_path)
    candidate = measured(asked, "inf2", [2000, 2001]).model_copy(update={"result_unit": "token"})
    pair = compare.pair(measured(asked, "l4", [1000, 1001]).sealed(), candidate.sealed(), "best", 0.05, 0.95)
    assert pair.verdict == "not_comparable" and "result unit differ" in pair.sentence


def test_the_same_record_against_itself_differs_in_nothing(tmp_path):
    record = measured(question(tmp_path), "l4", [1000, 1001]).sealed()
    assert compare.differences(record, record) == ()


# -- precision, and turns ---------------------------------------------------------------------


def parity_record(asked, candidate="inf2", verdict="pass", precisions=("fp16", "fp32_bf16_matmul"), tolerance=0.99):
    """A record of two sides that agree in 0.9999 of 1, or do not."""

    def side(target, precision):
        return ParitySide(
            target=target,
            host="bench",
            computed_utc="2026-11-20T09:00:00Z",
            precision=precision,
            weights="random, seed 0",
            weights_sha256="1" * 64,
            inputs="synthetic",
            inputs_sha256="2" * 64,
            fed_sha256="3" * 64,
        )

    value = Quantity(value=0.9999, unit="ratio", grade=Grade.MEASURED)
    return Parity(
        workload=asked.ref,
        source=Measured(host="bench", clock="none"),
        baseline=side("l4", precisions[0]),
        candidate=side(candidate, precisions[1]),
        verdict=verdict,
        level="numerical",
        bottom_line="they agree",
        judged_by="cosine",
        metrics=(ParityMetric(metric="cosine", statistic="worst", value=value, samples=8, tolerance=tolerance, kept=True),),
        samples=8,
        compared="hidden states",
    )


def with_precisions(tmp_path, *records, **changes):
    asked = question(tmp_path, baseline__settings={"precision": "fp16"}, candidates__0__settings={"auto_cast": "matmult"}, **changes)
    asked.dossier.admit(measured(asked, "l4", [1000, 1002, 998], precision="fp16"))
    asked.dossier.admit(measured(asked, "inf2", [1500, 1503, 1497]))
    for made in records:
        asked.dossier.admit(made(asked))
    record = compare.compare(asked)
    return pairs_of(record, "inf2")["matched"], asked


def test_another_precision_is_comparable_where_parity_was_shown(tmp_path):
    pair, _ = with_precisions(tmp_path / "none")
    assert pair.verdict == "not_comparable" and pair.differences[0].setting == "precision of products"
    pair, _ = with_precisions(tmp_path / "pass", parity_record)
    assert pair.verdict == "faster"
    [listed] = [entry for entry in pair.differences if entry.setting == "precision of products"]
    assert (listed.baseline, listed.candidate, listed.matters) == ("fp16", "fp32_bf16_matmul", False), "it is still said"


@pytest.mark.parametrize(
    "made",
    [
        lambda asked: parity_record(asked, verdict="fail"),
        lambda asked: parity_record(asked, verdict="inconclusive"),
        lambda asked: parity_record(asked, candidate="trn1"),
        lambda asked: parity_record(asked, precisions=("fp16", "bf16")),
        lambda asked: parity_record(asked, precisions=("fp32", "fp32_bf16_matmul")),
        lambda asked: parity_record(asked, precisions=(None, "fp32_bf16_matmul")),
        lambda asked: parity_record(asked, tolerance=0.5),
    ],
    ids=["failed", "inconclusive", "another candidate", "other products", "another baseline", "not stated", "another tolerance"],
)
def test_parity_of_something_else_shows_nothing(tmp_path, made):
    pair, _ = with_precisions(tmp_path, made)
    assert pair.verdict == "not_comparable"


def test_an_unknown_precision_stays_unknown_whatever_parity_says(tmp_path):
    asked = question(tmp_path)
    left, right = (measured(asked, name, [1000, 1001], precision=precision).sealed() for name, precision in (("l4", "fp16"), ("inf2", None)))
    shown = parity_record(asked, precisions=("fp16", None))
    assert any(entry.matters for entry in compare.differences(left, right, shown))


def in_turns(asked, target, rates, session="s1"):
    record = measured(asked, target, rates)
    taken = Taken(
        session=session, rounds=3, ended="budget", ended_because="", metric="latency_p50_s", width_asked=0.02, budget_s=20, warm_up="settled"
    )
    return record.model_copy(update={"taken": taken})


def test_runs_that_took_turns_are_compared_in_pairs(tmp_path):
    """A host that halves its speed midway: as pairs both runs say 1.5; as independent runs nothing can be said."""
    asked = question(tmp_path)
    rates = ([1000, 990, 510, 500], [1500, 1480, 770, 748])
    base, candidate = (in_turns(asked, name, side).sealed() for name, side in zip(("l4", "inf2"), rates))
    pair = compare.pair(base, candidate, "matched", 0.05, 0.95)
    logs = np.log(np.array(rates[1]) / np.array(rates[0]))
    reach = scipy_stats.t.ppf(0.975, 3) * logs.std(ddof=1) / 2
    assert pair.throughput.value == pytest.approx(np.exp(logs.mean())) and pair.verdict == "faster"
    assert pair.throughput.low == pytest.approx(np.exp(logs.mean() - reach)) and "4 pairs of runs that took turns" in pair.throughput.why
    apart = compare.pair(base, in_turns(asked, "inf2", rates[1], "s2").sealed(), "matched", 0.05, 0.95)
    assert apart.verdict == "inconclusive"


def test_latency_ratios_carry_an_interval_where_both_sides_do(tmp_path):
    asked = question(tmp_path)
    generator = np.random.default_rng(3)
    sides = []
    for name, level in (("l4", 0.010), ("inf2", 0.008)):
        record = measured(asked, name, [800] * 12)
        runs = tuple(run.model_copy(update={"values_s": tuple(level * np.exp(0.05 * generator.standard_normal(100)))}) for run in record.runs)
        sides.append(record.model_copy(update={"runs": runs}).sealed())
    pair = compare.pair(*sides, "matched", 0.05, 0.95)
    for ratio in (pair.latency_p50, pair.latency_p99):
        assert ratio.low < 0.8 < ratio.high and ratio.confidence == 0.95 and ratio.high / ratio.low < 1.2


def test_how_many_runs_it_takes_is_said(tmp_path):
    """Rates that scatter by 1.5 %: the sample-size function asks for more than three runs, and says what to write."""
    _, record = compared(tmp_path, [1000, 1015, 990], [1100, 1115, 1085])
    (found,) = [finding for finding in record.findings if finding.code == "runs_recommended" and finding.target == "inf2"]
    wanted = stats.recommended_runs([1100, 1115, 1085], [1000, 1015, 990])
    assert wanted > 3 and f"is found with {wanted} runs a side, 3 were taken" in found.because
    assert found.next.startswith(f"policy: {{runs: {wanted}, budget_s: ")
    _, record = compared(tmp_path / "wild", [1000, 1200, 800], [1100, 1300, 900])
    (found,) = [finding for finding in record.findings if finding.code == "runs_recommended" and finding.target == "inf2"]
    assert found.next == "measure on a quieter host: more than 100 runs are no answer to noise"
    _, record = compared(tmp_path / "calm", [1000, 1000.1, 1000.2], [1100, 1100.1, 1100.2])
    (found,) = [finding for finding in record.findings if finding.code == "runs_recommended" and finding.target == "inf2"]
    assert "3 runs a side, 3 were taken" in found.because and found.next is None


def test_a_target_with_nothing_but_invalid_measurements_says_why(tmp_path):
    asked = question(tmp_path, "xlm-roberta-base")
    asked.dossier.admit(measured(asked, "l4", [100, 101, 102], valid=False).model_copy(update={"validity": "host was disturbed"}))
    found = {finding.target: finding for finding in compare.compare(asked).findings if finding.code == "measured_invalid"}
    assert set(found) == {"l4"} and "measured 1 time, none VALID: host was disturbed" in found["l4"].because


# -- the objective ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "values, objective, kept",
    [
        ({"latency_p99_s": 0.0200}, dict(latency_p99_ms=20), True),
        ({"latency_p99_s": 0.0201}, dict(latency_p99_ms=20), False),
        ({"latency_p99_s": 0.010}, {}, None),
        ({}, dict(latency_p99_ms=20), None),
        ({"latency_p50_s": 0.010}, dict(latency_p99_ms=20), None),  # a median keeps no p99
        ({"latency_p95_s": 0.019}, dict(latency_p99_ms=20), None),
        ({"latency_p95_s": 0.021}, dict(latency_p99_ms=20), False),  # but it can break one
        ({"latency_p99_s": 0.010, "latency_p50_s": 0.006}, dict(latency_p99_ms=20, latency_p50_ms=5), False),
        ({"latency_p99_s": 0.010, "latency_p50_s": 0.004}, dict(latency_p99_ms=20, latency_p50_ms=5), True),
        ({"latency_p99_s": 0.010}, dict(latency_p99_ms=20, latency_p50_ms=5), None),
        ({"latency_p99_s": 0.010}, dict(tpot_p99_ms=5), None),  # a batch is no token
    ],
)
def test_a_bound_is_kept_missed_or_not_known(tmp_path, values, objective, kept):
    row = stated(question(tmp_path), "l4", values={"throughput_per_s": 1.0, **values})
    assert compare.keeps_objective(row, Objective(**objective)) is kept


def test_the_check_that_is_missed_is_the_one_that_is_named(tmp_path):
    row = stated(question(tmp_path), "l4", values={"latency_p99_s": 0.008, "latency_p50_s": 0.006})
    checks = compare.objective_checks(row, Objective(latency_p99_ms=20, latency_p50_ms=5))
    assert [(check.kept, check.because) for check in checks] == [(True, "latency p99 8 ms of 20 ms"), (False, "latency p50 6 ms of 5 ms")]


def test_a_token_is_held_against_the_bound_for_tokens(tmp_path):
    row = stated(question(tmp_path), "l4", values={"latency_p99_s": 0.009}).model_copy(update={"latency_of": "token"})
    assert compare.keeps_objective(row, Objective(latency_p99_ms=1)) is None
    assert compare.keeps_objective(row, Objective(tpot_p99_ms=10)) is True
    assert compare.keeps_objective(row, Objective(tpot_p99_ms=8)) is False


def test_the_best_figure_is_the_fastest_that_keeps_the_bound(tmp_path):
    asked = question(tmp_path)
    rows = {
        name: stated(asked, "l4", batch=batch, values={"throughput_per_s": rate, **latency})
        for name, batch, rate, latency in (
            ("small", 1, 100, {"latency_p99_s": 0.005}),
            ("good", 8, 500, {"latency_p99_s": 0.018}),
            ("unknown", 16, 700, {}),
            ("late", 32, 900, {"latency_p99_s": 0.050}),
        )
    }
    objective = Objective(latency_p99_ms=20)

    def pick(*names):
        return compare.best([rows[name] for name in names], objective)

    assert pick(*rows) is rows["good"]
    assert pick("unknown", "late") is rows["unknown"]
    assert pick("late", "small", "unknown") is rows["small"]
    assert compare.best([rows["late"]], objective) is rows["late"]
    assert compare.best(list(rows.values()), Objective()) is rows["late"]
    assert compare.best([], objective) is None


def test_a_bound_changes_which_batch_stands(tmp_path):
    """L4 in FP16: 2,384.5/s at batch 16 takes 6.78 ms (p99), 2,168/s at batch 8 takes 3.83, 1,000/s at batch 1 1.02."""
    for bound, batch in ((20, 16), (5, 8), (1.1, 1)):
        asked = question(tmp_path / str(bound), objective__latency_p99_ms=bound)
        compare.compare(asked)
        assert compare.best(compare.usable(asked, "l4"), asked.params.objective).settings.batch_size == batch


def test_the_tail_is_the_highest_statistic_known(tmp_path):
    asked = question(tmp_path)
    everything = {"latency_p99_s": 5.0, "latency_p95_s": 4.0, "latency_p90_s": 3.0, "latency_mean_s": 2.0, "latency_p50_s": 1.0}
    for expected in (5.0, 4.0, 3.0, 2.0, 1.0):
        assert compare.tail_latency(stated(asked, "l4", values=dict(everything))).value == expected
        everything.pop(next(iter(everything)))
    assert not compare.tail_latency(stated(asked, "l4", values={"throughput_per_s": 1.0})).known


def test_a_figure_of_zero_is_no_figure(tmp_path):
    asked = question(tmp_path)
    asked.dossier.admit(stated(asked, "inf2", imported=True, values={"throughput_per_s": 0.0}))
    assert compare.usable(asked, "inf2") == []
    pair = compare.pair(
        stated(asked, "l4", values={"throughput_per_s": 0.0}).sealed(),
        stated(asked, "inf2", values={"throughput_per_s": 1.0}).sealed(),
        "best",
        0.05,
        0.95,
    )
    assert not pair.throughput.known and pair.verdict == "inconclusive"
    assert pair.sentence == "inf2 cannot be set against l4: throughput of l4 is 0."
