"""Step 5: offered load against capacity, by hand."""

import pytest
from example_questions import measured, question, stated
from neuronfit import compare, utilization
from neuronfit.provenance import Grade


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
