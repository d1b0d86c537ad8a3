"""Step 7: closed forms of the payback, and its edges."""

import json

import numpy as np
import pytest
from example_questions import question, walk
from neuronfit import effort
from neuronfit.effort import cumulative, payback_months
from neuronfit.params import Effort, Task
from neuronfit.provenance import Grade, Quantity
from neuronfit.record import Cost, CostOfTarget
from neuronfit.units import metric

CERTAIN = [{"name": "all of it", "low": 20, "likely": 20, "high": 20}]


def months(effort_usd, net, horizon=36, rate=0.0):
    return float(payback_months([effort_usd], net, horizon, rate)[0])


def paid(tmp_path, base_month, candidate_month, **plan):
    """The payback record for two monthly bills; ``plan`` is the effort section."""
    asked = question(tmp_path, effort=plan, candidates=[{"name": "inf2", "instance_type": "inf2.xlarge", "path": "neuron_xla"}])
    gone = Quantity(unit="1/s", why="not needed here")
    rows = tuple(
        CostOfTarget(
            target=name,
            instance_type=asked.target(name).instance_type,
            result_unit="inference",
            price=gone,
            full_load=gone,
            expected=gone,
            per_month=Quantity(value=usd, unit="USD/month", grade=Grade.ESTIMATED),
            efficiency=gone,
            break_even_throughput=gone,
            break_even_utilization=gone,
            break_even_price=gone,
            sentence="x",
        )
        for name, usd in (("l4", base_month), ("inf2", candidate_month))
    )
    source = {"grade": "estimated", "formula": "by hand"}
    asked.dossier.admit(Cost(workload=asked.ref, source=source, bottom_line="x", region="us-east-1", purchase_option="on_demand", targets=rows))
    return effort.payback(asked)


# -- the month --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "effort_usd, net, month",
    [
        (12000, 1000, 12),  # exactly
        (12000.01, 1000, 13),  # a cent more
        (11999.99, 1000, 12),
        (36000, 1000, 36),  # the last month that counts
        (36000.01, 1000, np.inf),
        (1, 1000, 1),
        (0, 1000, 0),
        (0, 0, 0),
        (0, -1, np.inf),
        (1, 0, np.inf),
        (12000, -1000, np.inf),
        (2.1, 0.7, 3),  # 0.7 + 0.7 + 0.7 is 2.0999999999999996 in floats
        (0.3, 0.1, 3),
    ],
)
def test_the_first_month_in_which_it_is_paid_back(effort_usd, net, month):
    assert months(effort_usd, net) == month


@pytest.mark.parametrize("factor", [0.001, 0.07, 3.3, 1e6])
@pytest.mark.parametrize("effort_usd, net", [(12000, 1000), (12345, 678.9), (20000, 700), (2.1, 0.7), (36000, 1000)])
def test_twice_the_effort_at_twice_the_saving_is_the_same_month(effort_usd, net, factor):
    assert months(effort_usd * factor, net * factor) == months(effort_usd, net)


def test_without_discount_it_is_a_division():
    """ceil(effort / net) for 1,000 efforts."""
    efforts = np.linspace(1, 40_000, 1000)
    found = payback_months(efforts, 1013.7, 36)
    expected = np.ceil(efforts / 1013.7)
    assert np.array_equal(found, np.where(expected > 36, np.inf, expected))


def test_discounting_delays_by_the_annuity_formula():
    """Sum of v^m for m = 1..n is v (1 - v^n) / (1 - v), v = 1.1^(-1/12); the first n at which 1,000 x that reaches 12,000."""
    v = 1.1 ** (-1 / 12)
    expected = next(n for n in range(1, 100) if 1000 * v * (1 - v**n) / (1 - v) >= 12000)
    assert months(12000, 1000, 36, 0.10) == expected == 13
    assert cumulative(12000, 1000, 24, 0.10)[-1] == pytest.approx(-12000 + 1000 * v * (1 - v**24) / (1 - v))


def test_the_position_month_by_month():
    assert cumulative(3000, 1000, 4) == (-3000, -2000, -1000, 0, 1000)
    positions = cumulative(12345, 678.9, 36)
    assert next(month for month, value in enumerate(positions) if value >= 0) == months(12345, 678.9)


# -- from two bills ---------------------------------------------------------------------------


def test_a_certain_plan_by_hand(tmp_path):
    """20 days x 1,000 = 20,000; saves 5,000 - 2,500 - 1 x 1,000 of upkeep = 1,500 a month: 20,000 / 1,500 = 13.3 -> month 14."""
    record = paid(tmp_path, 5000, 2500, tasks=CERTAIN)
    [row] = record.targets
    assert (row.effort.low, row.effort.value, row.effort.high) == (20, 20, 20)
    assert row.effort_usd.value == 20000 and row.upkeep_per_month.value == 1000 and row.saving_per_month.value == 2500
    assert row.payback_month.value == 14 and row.probability.value == 1
    assert len(row.cumulative_usd) == 37 and row.cumulative_usd[0] == -20000 and row.cumulative_usd[-1] == pytest.approx(-20000 + 36 * 1500)
    assert (
        row.sentence
        == "inf2: saves $2,500 a month against $1,000 a month of upkeep; paid back in month 14 (100% of the drawn efforts are within 36 months)."
    )
    assert record.bottom_line.startswith("The move takes about 20 person-days (20 to 20). inf2: saves")


def test_a_negative_saving_never_pays_back_at_any_volume(tmp_path):
    [row] = paid(tmp_path, 2500, 5000, tasks=CERTAIN).targets
    assert not row.payback_month.known and row.probability.value == 0
    assert not row.volume_needed.known and "no volume helps" in row.volume_needed.why
    assert row.sentence == "inf2: costs $2,500 a month more than the baseline, so it never pays back."


def test_upkeep_above_the_saving_never_pays_back_at_this_volume(tmp_path):
    """Saves 500 a month, upkeep 1,000. At k times: (500 k - 1000) x 36 = 20,000 -> k = (20,000 / 36 + 1,000) / 500 = 3.11."""
    [row] = paid(tmp_path, 1500, 1000, tasks=CERTAIN).targets
    assert not row.payback_month.known and row.payback_month.why == "not within 36 months"
    assert row.volume_needed.value == pytest.approx((20000 / 36 + 1000) / 500)
    assert "it would from 3.11 times the volume" in row.sentence


@pytest.mark.parametrize("rate", [0.0, 0.12])
@pytest.mark.parametrize("horizon", [12, 36])
def test_at_the_volume_needed_it_is_paid_back_exactly_at_the_horizon(tmp_path, rate, horizon):
    plan = dict(tasks=CERTAIN, discount_rate=rate, horizon_months=horizon)
    [row] = paid(tmp_path / "now", 1500, 1000, **plan).targets
    times = row.volume_needed.value
    [then] = paid(tmp_path / "then", 1500 * times, 1000 * times, **plan).targets
    assert then.payback_month.value == horizon
    assert then.cumulative_usd[-1] == pytest.approx(0, abs=1e-6)
    [short] = paid(tmp_path / "short", 1500 * times * 0.999, 1000 * times * 0.999, **plan).targets
    assert not short.payback_month.known
    assert then.volume_needed.value == pytest.approx(1)


def test_no_effort_at_all_is_month_0(tmp_path):
    [row] = paid(tmp_path, 5000, 2500, tasks=[]).targets
    assert row.effort.value == 0 and row.payback_month.value == 0
    [free] = paid(tmp_path / "free", 5000, 2500, tasks=CERTAIN, day_rate_usd=0).targets
    assert free.effort.value == 20 and free.payback_month.value == 0


def test_equal_bills_save_nothing(tmp_path):
    [row] = paid(tmp_path, 1000, 1000, tasks=CERTAIN, upkeep_days_per_month=0).targets
    assert not row.payback_month.known and not row.volume_needed.known and row.probability.value == 0
    assert row.sentence == "inf2: costs as much as the baseline, so there is no saving to pay the move back."


# -- uncertainty ------------------------------------------------------------------------------


def test_the_distribution_is_that_of_triangles(tmp_path):
    """A triangle over (a, c, b) has mean (a + b + c) / 3 and median by its own formula; scipy's agrees."""
    from scipy import stats

    task = {"name": "one", "low": 2, "likely": 4, "high": 10}
    [row] = paid(tmp_path, 5000, 2500, tasks=[task]).targets
    triangle = stats.triang(c=(4 - 2) / (10 - 2), loc=2, scale=8)
    assert row.effort.value == pytest.approx(triangle.median(), rel=0.02)
    assert (row.effort.low, row.effort.high) == (pytest.approx(triangle.ppf(0.05), rel=0.02), pytest.approx(triangle.ppf(0.95), rel=0.02))
    assert row.effort.confidence == 0.9


def test_independent_tasks_spread_less_than_their_extremes(tmp_path):
    """The six default tasks sum to 10 / 20 / 44 days; 5 to 95 % of the sums lie well inside."""
    [row] = paid(tmp_path, 5000, 2500).targets
    assert sum(task.low for task in Effort().tasks) == 10 and sum(task.high for task in Effort().tasks) == 44
    mean = sum(task.low + task.likely + task.high for task in Effort().tasks) / 3
    variance = sum(_variance(task) for task in Effort().tasks)
    assert row.effort.value == pytest.approx(mean, rel=0.02)
    assert row.effort.high - row.effort.low == pytest.approx(2 * 1.645 * variance**0.5, rel=0.05)


def _variance(task: Task) -> float:
    a, c, b = task.low, task.likely, task.high
    return (a * a + b * b + c * c - a * b - a * c - b * c) / 18


def test_the_probability_is_the_share_of_plans_that_pay_back(tmp_path):
    """Net 1,000 a month over 20 months pays 20 days; a symmetric triangle of 10 to 30 days lies below that half the time."""
    plan = dict(tasks=[{"name": "one", "low": 10, "likely": 20, "high": 30}], upkeep_days_per_month=0, horizon_months=20)
    [row] = paid(tmp_path, 2000, 1000, **plan).targets
    assert row.probability.value == pytest.approx(0.5, abs=0.02)


def test_the_same_question_gets_the_same_answer(tmp_path):
    one, two = (paid(tmp_path / name, 5000, 2500) for name in "ab")
    assert [json.loads(row.model_dump_json()) for row in one.targets] == [json.loads(row.model_dump_json()) for row in two.targets]


# -- the chain --------------------------------------------------------------------------------


def test_bert_saves_less_than_its_upkeep(tmp_path):
    """(0.8048 - 0.7582) x 730 = 34.02 USD a month against one day of upkeep."""
    record = walk(question(tmp_path))["payback"]
    rows = {row.target: row for row in record.targets}
    assert rows["inf2"].saving_per_month.value == pytest.approx(34.018)
    assert rows["trn1"].saving_per_month.value == pytest.approx((0.8048 - 1.34375) * 730)
    assert not rows["inf2"].payback_month.known
    assert "saves $34.02 a month against $1,000 a month of upkeep" in record.bottom_line
    assert metric("usd_per_month").text(34.018) in record.bottom_line


def test_without_costs_it_says_what_is_missing(tmp_path):
    record = effort.payback(question(tmp_path))
    assert all(not row.saving_per_month.known and row.effort.known for row in record.targets)
    assert [(str(finding.severity), finding.code) for finding in record.findings] == [("waiting", "no_saving")]
    assert "is not known yet" in record.bottom_line


def test_assumed_and_declared_plans_are_told_apart(tmp_path):
    assert effort.payback(question(tmp_path / "a")).source.inputs["effort"] == "assumed"
    assert effort.payback(question(tmp_path / "b", effort={"day_rate_usd": 500})).source.inputs["effort"] == "declared"
