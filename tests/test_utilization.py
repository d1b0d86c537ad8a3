"""Step 5: offered load against capacity, by hand."""

import sys

import numpy as np
import pytest
from example_questions import measured, question, stated
from neuronfit import compare, profile, utilization
from neuronfit.capacity import answer, sharing
from neuronfit.capacity.demand import demand_of
from neuronfit.errors import MissingPackage
from neuronfit.provenance import Estimated, Grade, Quantity
from neuronfit.record import Compile, CompileOfTarget, read


def estimated(asked):
    compare.compare(asked)
    record = utilization.estimate(asked)
    return record, {row.target: row for row in record.targets}


def test_bert_on_an_l4_by_hand(tmp_path):
    """400 / 2168 = 18.45 %, 1200 / 2168 = 55.35 %: one instance."""
    _, rows = estimated(question(tmp_path))
    row = rows["l4"]
    assert row.capacity_per_instance.value == pytest.approx(2168.0, abs=0.05)
    assert row.busy_mean.value == pytest.approx(0.1845, abs=5e-5)
    assert row.busy_peak.value == pytest.approx(0.5535, abs=5e-5)
    assert row.instances.value == 1 and row.instances.why == "covers the peak at full load"
    assert row.sentence == "l4: 1 g6.xlarge, 18% busy on average and 55% at the peak."
    assert row.busy_mean.grade is Grade.ESTIMATED and row.capacity_per_instance.grade is Grade.PUBLISHED


@pytest.mark.parametrize(
    "peak, capacity, count", [(1200, 2168, 1), (2168, 2168, 1), (2169, 2168, 2), (6504, 2168, 3), (0.001, 2168, 1), (600, 108.18, 6)]
)
def test_instances_cover_the_peak_rounded_up(peak, capacity, count):
    assert utilization.instances_for(peak, capacity) == count


def test_busy_is_a_share_of_the_fleet():
    assert utilization.busy(400, 1, 2168) == pytest.approx(400 / 2168)
    assert utilization.busy(400, 4, 200) == 0.5
    assert utilization.busy(500, 1, 400) == 1.25  # more than is carried


def test_a_bigger_peak_needs_more_instances_and_idles_more(tmp_path):
    """5,000 / 2,168 = 2.3 -> 3 instances, 400 / 6504 = 6.15 % busy."""
    record, rows = estimated(question(tmp_path, traffic__peak_per_s=5000))
    assert rows["l4"].instances.value == 3
    assert rows["l4"].busy_mean.value == pytest.approx(400 / (3 * 2168.0), rel=1e-4)
    assert "3 g6.xlarge instances" in rows["l4"].sentence
    assert "94% of its hours are idle" in record.bottom_line


def test_a_declared_count_is_used_and_checked(tmp_path):
    record, rows = estimated(question(tmp_path, baseline__count=1, candidates__0__count=5, traffic__peak_per_s=6000))
    assert rows["l4"].busy_peak.value == pytest.approx(6000 / 2168.0, rel=1e-4) and rows["l4"].instances.why == "declared"
    assert rows["inf2"].instances.value == 5 and rows["inf2"].busy_peak.value == pytest.approx(6000 / (5 * 2674.19), rel=1e-4)
    found = [finding for finding in record.findings if finding.code == "peak_not_covered"]
    assert [(finding.target, str(finding.severity)) for finding in found] == [("l4", "warning")]
    assert "277% of the 1 declared instance" in found[0].because and found[0].next == "raise count"


def test_low_utilization_is_noted_below_the_policy_and_not_above(tmp_path):
    record, rows = estimated(question(tmp_path, policy={"min_utilization": 0.16}))
    noted = {finding.target for finding in record.findings if finding.code == "low_utilization"}
    assert noted == {name for name, row in rows.items() if row.busy_mean.value < 0.16} == {"inf2", "trn1"}


def test_the_interval_of_a_capacity_becomes_one_of_the_load_with_its_ends_swapped(tmp_path):
    """Runs of 900, 1,000 and 1,100/s: busy between 400 / 1100 and 400 / 900 (two instances carry 1,200)."""
    asked = question(tmp_path)
    asked.dossier.admit(measured(asked, "l4", [900, 1000, 1100]))
    _, rows = estimated(asked)
    busy = rows["l4"].busy_mean
    assert rows["l4"].instances.value == 2
    assert (busy.low, busy.value, busy.high) == (pytest.approx(400 / 2200), pytest.approx(400 / 2000), pytest.approx(400 / 1800))


def test_without_traffic_nobody_is_busy(tmp_path):
    record, rows = estimated(question(tmp_path, traffic={}))
    assert all(not row.busy_mean.known and not row.instances.known for row in rows.values())
    assert "no traffic is declared" in rows["l4"].busy_mean.why
    [finding] = record.findings
    assert (str(finding.severity), finding.code) == ("waiting", "traffic_unknown") and "params/bert-base-uncased.yaml" in finding.next
    assert record.bottom_line == "No traffic is declared, so nobody can say how busy the hardware would be."


def test_without_step_4_it_waits(tmp_path):
    record = utilization.estimate(question(tmp_path))
    [finding] = record.findings
    assert (str(finding.severity), finding.code, finding.next) == (
        "waiting",
        "no_capacity",
        "neuronfit run params/bert-base-uncased.yaml --steps 4-5",
    )
    assert not any(row.busy_mean.known for row in record.targets)


def test_a_target_without_a_figure_is_absent_with_the_reason(tmp_path):
    _, rows = estimated(question(tmp_path, "xlm-roberta-base"))
    assert not rows["inf2"].busy_mean.known and "no throughput" in rows["inf2"].busy_mean.why
    assert rows["trn1-32"].busy_mean.known


def test_a_volume_alone_is_traffic(tmp_path):
    """1e9 a month / 2,628,000 s = 380.5/s; on 2,168/s that is 17.55 %."""
    _, rows = estimated(question(tmp_path, traffic={"monthly_volume": 1e9}))
    assert rows["l4"].busy_mean.value == pytest.approx(1e9 / 2_628_000 / 2168.0, rel=1e-4)


def test_a_stronger_figure_changes_the_answer(tmp_path):
    asked = question(tmp_path)
    _, before = estimated(asked)
    asked.dossier.admit(stated(asked, "inf2", imported=True, values={"throughput_per_s": 500.0, "latency_p99_s": 0.01}))
    _, after = estimated(asked)
    assert before["inf2"].instances.value == 1 and after["inf2"].instances.value == 3  # 1200 / 500 = 2.4
    assert after["inf2"].busy_mean.value == pytest.approx(400 / 1500)


# -- the simulated fleet ----------------------------------------------------------------------

BUSY = {"traffic": {"mean_per_s": 8000, "peak_per_s": 24_000, "daily_shape": "office"}}


def options_of(row):
    return {option.name: option for option in row.options}


def test_bert_at_twenty_times_the_traffic(tmp_path):
    """24,000/s over 2,168/s is 11.07 of an l4 and, with at most 98 % load, 11.3: 12 instances, 288 hours a day, 8,000 / 26,016 busy."""
    record, rows = estimated(question(tmp_path, **BUSY))
    row = rows["l4"]
    assert row.needed.value == 12 and row.chosen == "fixed" and row.not_simulated is None
    assert row.instance_hours_per_day.value == pytest.approx(288) and row.instance_hours_per_month.value == pytest.approx(12 * 730)
    assert row.idle.value == pytest.approx(1 - 8000 / (12 * 2168.0), rel=1e-3) and row.missed.value == 0
    assert row.instance_hours_per_month.grade is row.missed.grade is row.needed.grade is Grade.ESTIMATED and row.service.grade is Grade.PUBLISHED
    scheduled, tracked = options_of(row)["scheduled"], options_of(row)["target_tracking"]
    assert scheduled.most == 12 and scheduled.fewest == 1 and scheduled.instance_hours_per_day.value < 130
    assert tracked.most == 19 and tracked.busy.value < 0.6  # 24,000 / (2,168 x 0.6) = 18.45
    assert row.instances.value == 12 and "l4 288 instance-hours a day" in record.bottom_line
    assert record.window_h == 168 and len(record.hourly_demand_per_s) == 24 and max(record.hourly_demand_per_s) == 24_000
    assert any("aims at 60%" in sentence for sentence in record.assumptions)


def test_the_idle_money_is_the_idle_share_of_the_price(tmp_path):
    """g6.xlarge on demand in us-east-1 at 0.8048 $/h: 12 x 730 x 0.8048 = 7,050 a month."""
    _, rows = estimated(question(tmp_path, **BUSY))
    option = options_of(rows["l4"])["fixed"]
    assert option.usd_per_month.value == pytest.approx(12 * 730 * 0.8048) and option.idle_usd_per_month.value == pytest.approx(
        option.usd_per_month.value * option.idle.value
    )


def test_break_even_is_the_ratio_of_prices_over_that_of_capacities(tmp_path):
    _, rows = estimated(question(tmp_path))
    assert rows["l4"].break_even_ratio is None
    assert rows["inf2"].break_even_ratio.value == pytest.approx(0.7582 / 2674.18956433 / (0.8048 / 2168.0), rel=1e-3)


def test_an_objective_needs_more_instances_than_full_load(tmp_path):
    """roberta-large on trn1 covers 1,200/s with two at full load; waiting within 20 ms takes three."""
    record, rows = estimated(question(tmp_path, "roberta-large"))
    found = [finding for finding in record.findings if finding.code == "objective_needs_more"]
    assert [finding.target for finding in found] == ["trn1"] and "3 instances keep the objective at the peak, the 2" in found[0].because
    assert rows["trn1"].instances.value == 2 and rows["trn1"].needed.value == 3 and rows["trn1"].instance_hours_per_day.value == pytest.approx(72)


def test_policy_capacity_chooses_what_stands_for_a_target(tmp_path):
    _, rows = estimated(question(tmp_path, policy={"capacity": {"scaling": "target_tracking", "redundancy": 1}}, **BUSY))
    row = rows["inf2"]
    assert row.chosen == "target_tracking" and row.instance_hours_per_day == options_of(row)["target_tracking"].instance_hours_per_day
    assert options_of(row)["fixed"].fewest == 11  # 10 and a spare one


def test_a_declared_count_stands_for_the_target_and_its_lateness_is_a_warning(tmp_path):
    """11 of 2,168/s carry 24,000/s at a load of 1.006: the peak hour is lost. 12 keep it, and stand beside."""
    record, rows = estimated(question(tmp_path, baseline__count=11, **BUSY))
    options = options_of(rows["l4"])
    assert options["declared"].most == 11 and options["fixed"].most == 12 and rows["l4"].chosen == "declared" and rows["l4"].missed.value > 0.05
    assert rows["l4"].instance_hours_per_day.value == 264 and "declared" not in options_of(rows["inf2"])
    found = [finding for finding in record.findings if finding.code == "objective_missed_under_load"]
    assert [finding.target for finding in found] == ["l4"] and "with the declared fleet, 1% may be" in found[0].because
    assert "Simulated with the fixed fleet: l4 as declared 264 instance-hours a day, " in record.bottom_line
    [more] = [finding for finding in record.findings if finding.code == "objective_needs_more" and finding.target == "l4"]
    assert more.because == "12 keep the objective at the peak; 11 declared"


def test_more_declared_than_needed_is_said_spare_ones_counted(tmp_path):
    """12 are needed; over three zones 18 (six in each, any two hold 12). 20 are two too many, 18 are right, 12 too few with zones."""
    zones = {"policy": {"capacity": {"zones": 3}}}
    said = {}
    for count in (20, 18, 12):
        record, _ = estimated(question(tmp_path / str(count), baseline__count=count, **zones, **BUSY))
        said[count] = [(entry.code, entry.because) for entry in record.findings if entry.target == "l4" and "objective" in entry.because]
    assert said[20] == [
        (
            "declared_above_needed",
            "20 instances are declared, 18 keep the objective at the peak, spare ones and zones of policy.capacity included",
        )
    ]
    assert said[18] == [] and said[12] == [
        ("objective_needs_more", "12 keep the objective at the peak, 18 with the spare ones and zones of policy.capacity; 12 declared")
    ]


def test_with_a_policy_that_scales_the_declared_fleet_is_only_shown(tmp_path):
    _, rows = estimated(question(tmp_path, baseline__count=14, policy={"capacity": {"scaling": "scheduled"}}, **BUSY))
    assert rows["l4"].chosen == "scheduled" and options_of(rows["l4"])["declared"].instance_hours_per_day.value == 336


def test_an_objective_below_one_batch_cannot_be_kept_by_any_fleet(tmp_path):
    record, rows = estimated(question(tmp_path, objective={"latency_p99_ms": 0.5}))
    assert not rows["inf2"].needed.known and rows["inf2"].smallest is None and rows["inf2"].shared is None
    assert {finding.target for finding in record.findings if finding.code == "no_fleet_keeps_objective"} >= {"inf2", "trn1"}


def test_without_an_objective_lateness_is_absent(tmp_path):
    _, rows = estimated(question(tmp_path, objective={}))
    assert not rows["l4"].missed.known and "no latency objective" in rows["l4"].missed.why and rows["l4"].instance_hours_per_day.known


def test_a_bound_on_tokens_alone_is_said(tmp_path):
    record, rows = estimated(question(tmp_path, "flan-t5-xl"))
    assert [finding.code for finding in record.findings] == ["objective_needs_more", "waiting_not_bounded"] and rows[
        "trn1-32"
    ].service.kind == "generation"


def test_the_smallest_of_the_family_that_keeps_the_objective(tmp_path):
    """distilbert on g5.2xlarge: the figures name no smaller g5, and inf2 has one type with a figure."""
    _, rows = estimated(question(tmp_path, "distilbert-base-uncased"))
    assert [size.instance_type for size in rows["inf2"].sizes] == ["inf2.xlarge"] and rows["inf2"].smallest == "inf2.xlarge"
    assert rows["a10g"].sizes[-1].needed.value == rows["a10g"].needed.value


def test_a_start_takes_the_weights_of_step_1_and_a_cold_compile_of_step_3(tmp_path):
    """BERT-base in fp32 is 438 MB, at 1 GB/s 0.44 s; the compile time counts only where the cache is cold."""
    for cache, seconds in (("hit", 0.0), ("cold", 310.0)):
        asked = question(tmp_path / cache, policy={"capacity": {"compile_cache": cache}})
        profile.describe(asked)
        time = Quantity(value=310.0, unit="s", grade=Grade.MEASURED)
        row = CompileOfTarget(target="inf2", path="neuron_xla", status="compiled", because="made by hand", compile_time=time)
        source = Estimated(formula="made by hand")
        asked.dossier.admit(Compile(workload=asked.ref, source=source, bottom_line="made by hand", targets=(row,)))
        start = answer.start_up(asked, asked.target("inf2"))
        assert start.compile_s == seconds and start.load_s == pytest.approx(0.438, abs=0.001) and start.launch_s == 120
        _, rows = estimated(asked)
        said = "cold compile 310 s (step 3)" if seconds else "compile cache warm"
        assert rows["inf2"].start_up.value == pytest.approx(120.438 + seconds, abs=0.001)
        assert rows["inf2"].start_up.why == f"launch and image 120 s, weights 0.438 s, {said}"
        if seconds:  # trn1 has no row in step 3
            assert rows["trn1"].start_up.why.endswith("cold compile not known (step 3), counted as nothing")


def test_without_numba_the_bound_stays_and_the_reason_is_said(tmp_path, monkeypatch):
    def missing(*_):
        raise MissingPackage("the simulator needs a package that is not installed", "numba", next='pip install "neuronfit[workbook]"')

    monkeypatch.setattr(answer, "service_of", missing)
    record, rows = estimated(question(tmp_path))
    assert rows["l4"].instances.value == 1 and not rows["l4"].options and "numba" in rows["l4"].not_simulated
    assert {finding.code for finding in record.findings} >= {"not_simulated"}


def test_a_record_with_a_fleet_is_read_back(tmp_path):
    record, _ = estimated(question(tmp_path, **BUSY))
    again = read(record.to_json())
    assert again == record and again.targets[0].service.latency_s[8] == pytest.approx(8 / 2168.0)


def trace_file(tmp_path, count=4_000, seconds=2_400.0):
    """A trace of our own in the columns of the Azure traces."""
    generator = np.random.default_rng(7)
    at = np.sort(generator.random(count)) * seconds
    rows = [
        f"2023-11-16 {18 + int(second) // 3600:02}:{int(second) // 60 % 60:02}:{second % 60:010.7f},{prompt},{output}"
        for second, prompt, output in zip(at, generator.integers(50, 2000, count), generator.integers(1, 400, count))
    ]
    path = tmp_path / "trace.csv"
    path.write_text("TIMESTAMP,ContextTokens,GeneratedTokens\n" + "\n".join(rows) + "\n")
    return path


def test_a_trace_gives_instance_hours_for_each_candidate_to_the_digit(tmp_path):
    """4,000 requests in 40 minutes: 1.67/s fit into one instance of each: 24 hours a day."""
    file = str(trace_file(tmp_path))
    records = [estimated(question(tmp_path / name, traffic={"trace": {"file": file}})) for name in ("one", "two")]
    (first, rows), (second, _) = records
    assert [row.options for row in first.targets] == [row.options for row in second.targets]
    assert [row.latency_at_load for row in first.targets] == [row.latency_at_load for row in second.targets]
    assert {name: row.instance_hours_per_day.value for name, row in rows.items()} == pytest.approx({"l4": 24, "inf2": 24, "trn1": 24})
    assert rows["l4"].offered_mean.grade is Grade.IMPORTED and rows["l4"].offered_mean.why == "counted in the trace"
    assert first.demand.startswith("trace trace.csv: 4,000 requests in 0.66") and first.window_h == pytest.approx(2400 / 3600, rel=0.01)
    assert all(option.how == "every one of 4,000 requests simulated" for option in rows["inf2"].options)


def test_tokens_of_a_trace_load_a_generating_fleet(tmp_path):
    """200 output tokens on average, 1.67 requests/s: 333 tokens/s, more than two of 120.29/s; the busiest minute decides."""
    _, rows = estimated(question(tmp_path, "flan-t5-xl", traffic={"trace": {"file": str(trace_file(tmp_path))}}))
    row = rows["trn1-32"]
    fixed = options_of(row)["fixed"]
    assert fixed.most == row.needed.value >= 4
    assert fixed.busy.value == pytest.approx(333 / (fixed.most * 120.29), rel=0.05)


def test_a_trace_of_an_hour_is_no_week_and_that_is_said(tmp_path):
    record, _ = estimated(question(tmp_path, traffic={"trace": {"file": str(trace_file(tmp_path))}}))
    [found] = [finding for finding in record.findings if finding.code == "window_below_a_week"]
    assert found.because.startswith("the trace covers 0.66") and "nights and weekends" in found.because
    record, _ = estimated(question(tmp_path / "profile"))
    assert all(finding.code != "window_below_a_week" for finding in record.findings)


def test_a_figure_is_reckoned_to_the_lengths_of_the_trace(tmp_path):
    """400/s at 128 and 84 tokens, 4 at a time, 60 ms to the first: a round of 0.84 s, 0.6 s of it steps of 1 / 140 s.

    The trace has prompts of 1,024 and answers of 200 tokens on average: four prompts of 0.48 s and 200 steps are 3.349 s for 800 tokens.
    """
    asked = question(tmp_path, "flan-t5-xl", traffic={"trace": {"file": str(trace_file(tmp_path))}})
    values = {"throughput_per_s": 400.0, "ttft_p50_s": 0.06, "tpot_p50_s": 0.01}
    row = stated(asked, "trn1-32", imported=True, batch=4, values=values, output_length=84, tp_degree=8)
    asked.dossier.admit(row.model_copy(update={"result_unit": "token"}))
    record, rows = estimated(asked)
    [line, *lines] = (tmp_path / "trace.csv").read_text().splitlines()
    prompt, output = np.array([[int(cell) for cell in line.split(",")[1:]] for line in lines]).mean(axis=0)
    by_hand = 4 * output / (4 * prompt * 0.06 / 128 + output * 0.6 / 84)
    found = rows["trn1-32"]
    assert found.capacity_per_instance.value == pytest.approx(by_hand, rel=1e-9) and found.capacity_per_instance.grade is Grade.ESTIMATED
    assert found.busy_mean.value == pytest.approx(found.offered_mean.value / found.instances.value / by_hand)
    assert found.service.input_tokens == pytest.approx(prompt) and found.service.output_tokens == pytest.approx(output)
    said = [finding for finding in record.findings if finding.code == "figure_at_other_lengths"]
    assert [finding.target for finding in said] == ["trn1-32"] and "from its time to first token and its steps" in said[0].because
    assert "sequence_length: 10" in said[0].next


def test_a_trace_too_long_to_keep_still_says_its_lengths(tmp_path, monkeypatch):
    """Every fifth of 4,000 rows: 800 of 1,024 and 200 tokens on average (uniform, so within 5 %)."""
    monkeypatch.setattr(sys.modules["neuronfit.capacity.demand"], "EVERY_RECORDED", 999)
    asked = question(tmp_path, "flan-t5-xl", traffic={"trace": {"file": str(trace_file(tmp_path))}})
    demand = demand_of(asked)
    assert demand.arrivals_s is None and len(demand.lengths) == 800
    assert np.array(demand.lengths).mean(axis=0) == pytest.approx([1024, 200], rel=0.05)


def test_lengths_of_a_profile_are_those_it_declares(tmp_path):
    """Half of 64 and half of 192 tokens have the mean of the figure, 128: nothing is reckoned, but the requests differ."""
    asked = question(tmp_path, "flan-t5-xl", traffic__sequence_lengths={64: 1, 192: 1})
    demand = demand_of(asked)
    assert sorted(set(demand.lengths)) == [(64.0, 84.0), (192.0, 84.0)] and len(demand.lengths) == 1000
    record, rows = estimated(asked)
    assert rows["trn1-32"].service.reckoned is None and all(finding.code != "figure_at_other_lengths" for finding in record.findings)
    assert demand_of(question(tmp_path / "none", "flan-t5-xl")).lengths == ()


# -- sharing with other models -----------------------------------------------------------------


def test_loads_and_memory_of_different_models_add_up():
    """0.5 + 0.7 instances: 2 shared, 2 apart; 4 + 6 of 20 GiB less a tenth. 0.3 + 0.3: 1 shared."""
    gib = 2**30
    one, two = sharing.Part("a", 0.5, 4 * gib, 20 * gib), sharing.Part("b", 0.7, 6 * gib, 20 * gib)
    text = sharing.said("g6.xlarge", [one, two])
    assert text.startswith("a and b on g6.xlarge load 1.2 instances together") and "2 shared, 2 apart" in text and "10 of 18 GiB" in text
    assert "1 shared, 2 apart" in sharing.said("g6.xlarge", [sharing.Part("a", 0.3), sharing.Part("b", 0.3)])
    assert "whether memory holds one copy of each is not known" in sharing.said("g6.xlarge", [sharing.Part("a", 0.3), two])
    large = sharing.Part("c", 0.1, 15 * gib, 20 * gib)
    assert sharing.said("g6.xlarge", [one, large]) == "a and c cannot share g6.xlarge: one copy of each takes 19 of 18 GiB that may be used."
    assert "is open: step 5 of x has no load" in sharing.said("g6.xlarge", [one, sharing.Part("x", None)])


def test_another_workload_is_read_from_the_dossier_beside(tmp_path):
    """bert-base at 1200/s on an l4 of 2168/s is 0.554 instances, so is the same model under another name."""
    other = question(tmp_path, "bert-base-uncased", workload__name="other", workload__published_as="bert-base-uncased")
    estimated(other)
    alone, rows = estimated(question(tmp_path))
    assert all(row.shared_with is None for row in alone.targets)
    shared, rows = estimated(question(tmp_path, policy={"capacity": {"shared_with": ["other"]}}))
    assert rows["l4"].shared_with.startswith("l4: bert-base-uncased and other on g6.xlarge load 1.11 instances together")
    _, rows = estimated(question(tmp_path, policy={"capacity": {"shared_with": ["nobody"]}}))
    assert "is open: step 5 of nobody has no load" in rows["l4"].shared_with
