"""Step 7: closed forms of the payback, and its edges."""

import json

import numpy as np
import pytest
from example_questions import question, walk
from neuronfit import effort, tasks
from neuronfit.catalog import paths
from neuronfit.effort import cumulative, payback_months, positions
from neuronfit.errors import BadParams
from neuronfit.params import TEMPLATES, Effort, Task
from neuronfit.provenance import Grade, Quantity
from neuronfit.record import Compatibility, CompatibilityOfTarget, Compile, CompileOfTarget, Cost, CostOfTarget, Finding
from neuronfit.units import metric

CERTAIN = [{"name": "all of it", "low": 20, "likely": 20, "high": 20}]


def months(effort_usd, net, horizon=36, rate=0.0):
    return float(payback_months([effort_usd], net, horizon, rate)[0])


def paid(tmp_path, base_month, candidate_month, saving=None, admit=(), **plan):
    """The payback record for two monthly bills; ``plan`` is the effort section. Unless it says so, no two fleets run at a time."""
    asked = question(
        tmp_path, effort={"parallel_days": 0, **plan}, candidates=[{"name": "inf2", "instance_type": "inf2.xlarge", "path": "neuron_xla"}]
    )
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
            saving_per_month=saving if name == "inf2" else None,
            sentence="x",
        )
        for name, usd in (("l4", base_month), ("inf2", candidate_month))
    )
    source = {"grade": "estimated", "formula": "by hand"}
    asked.dossier.admit(Cost(workload=asked.ref, source=source, bottom_line="x", region="us-east-1", purchase_option="on_demand", targets=rows))
    for record in admit:
        asked.dossier.admit(record(asked))
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
        row.sentence == "inf2: saves $2,500 a month against $1,000 a month of upkeep; paid back in month 14 (100% of the draws are within 36 months)."
    )
    assert record.bottom_line.startswith("The move to inf2 takes an estimated 20 person-days. inf2: saves")


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


# -- what there is to do ----------------------------------------------------------------------


def found(severity, code, because="because", target="inf2"):
    return Finding(severity=severity, code=code, because=because, target=target)


def checked(*findings, status="maintenance: critical fixes only", until="not announced"):
    """A compatibility record about inf2."""
    gone = Quantity(unit="bytes", why="not needed here")
    row = CompatibilityOfTarget(
        target="inf2",
        instance_type="inf2.xlarge",
        path="neuron_xla",
        supported=True,
        title="the path",
        status=status,
        until=until,
        memory_needed=gone,
        memory_available=gone,
        fits=True,
    )
    return lambda asked: Compatibility(
        workload=asked.ref, source={"grade": "estimated", "formula": "x"}, findings=findings, bottom_line="x", targets=(row,), graph_how="x"
    )


def built(*findings):
    row = CompileOfTarget(target="inf2", path="neuron_xla", status="waiting", because="x")
    return lambda asked: Compile(
        workload=asked.ref, source={"grade": "estimated", "formula": "x"}, findings=findings, bottom_line="x", targets=(row,)
    )


def test_each_blocker_and_condition_becomes_a_task(tmp_path):
    """A blocker and a warning of step 2, one of step 3; a note, a wait and another target's blocker do not. The same one twice is one."""
    step2 = checked(
        found("warning", "known_trap", "gelu is slow"),
        found("warning", "known_trap", "gelu is slow"),
        found("warning", "known_trap", "another trap"),
        found("blocker", "does_not_fit", "too large"),
        found("note", "path_horizon"),
        found("waiting", "operators_not_seen"),
        found("blocker", "path_unsupported", target="l4"),
    )
    [row] = paid(tmp_path, 5000, 2500, admit=[step2, built(found("warning", "shape_failed", "8 x 512"))], tasks=CERTAIN).targets
    own, *asked_for = row.tasks
    assert (own.name, own.because, own.code) == ("all of it", "your plan", None)
    assert [(task.code, task.because) for task in asked_for] == [
        ("does_not_fit", "too large"),
        ("known_trap", "gelu is slow"),
        ("known_trap", "another trap"),
        ("shape_failed", "8 x 512"),
    ]
    assert [(task.low, task.likely, task.high) for task in asked_for[:2]] == [
        tasks.FINDING_TASKS[code][1:] for code in ("does_not_fit", "known_trap")
    ]
    mean = 20 + sum(task.low + task.likely + task.high for task in asked_for) / 3
    assert row.effort.value == pytest.approx(mean, rel=0.03) and row.effort.value > 20


def test_every_task_can_be_replaced_or_left_out(tmp_path):
    step2 = checked(found("warning", "known_trap", "gelu"), found("blocker", "never_heard_of", "x"), found("warning", "nor_of_this", "y"))
    instead = {"known_trap": {"name": "ours", "low": 3, "likely": 3, "high": 3}, "nor_of_this": {"name": "no", "low": 0, "likely": 0, "high": 0}}
    [row] = paid(tmp_path / "a", 5000, 2500, admit=[step2], tasks=CERTAIN, finding_tasks=instead).targets
    assert [(task.name, task.likely) for task in row.tasks] == [("all of it", 20), (tasks.OTHER_BLOCKER[0], tasks.OTHER_BLOCKER[2]), ("ours", 3)]
    [none] = paid(tmp_path / "b", 5000, 2500, admit=[step2], tasks=CERTAIN, tasks_of_findings=False).targets
    assert len(none.tasks) == 1


def test_the_templates_are_ordered_and_chosen_by_name(tmp_path):
    likely = {name: sum(task.likely for task in rows) for name, rows in TEMPLATES.items()}
    assert likely == {"small": 5.5, "medium": 20, "large": 83}
    for name in TEMPLATES:
        [row] = paid(tmp_path / name, 5000, 2500, template=name).targets
        assert (
            sum(task.likely for task in row.tasks) == likely[name]
            and row.tasks[0].because == f"template {name}: inf2.xlarge runs what was compiled for it"
        )
    [own] = paid(tmp_path / "own", 5000, 2500, template="large", tasks=CERTAIN).targets
    assert [task.name for task in own.tasks] == ["all of it"]
    with pytest.raises(BadParams, match="small, medium, large"):
        paid(tmp_path / "bad", 1, 1, template="tiny")


HERE = {"name": "today", "instance_type": "this-host", "path": "cpu"}


@pytest.mark.parametrize(
    "baseline, candidate, names, likely, upkeep",
    [
        # precision alone, on the host at hand: nothing is compiled, built or learned. 1 + 3 + 3 days, and the upkeep that there is already
        (HERE, {**HERE, "name": "bf16", "settings": {"precision": "bf16"}}, ["change", "validate", "rollback"], 7, 0),
        # another GPU: the image is built anew, the software path stays. 4 + 3 + 3
        (
            {"name": "l4", "instance_type": "g6.xlarge", "path": "cuda"},
            {"name": "l40s", "instance_type": "g6e.xlarge", "path": "cuda"},
            ["build", "validate", "rollback"],
            10,
            0,
        ),
        # from Inferentia2 to Trainium1 on one path: compiled again. 4 + 4 + 3 + 3
        (
            {"name": "inf2", "instance_type": "inf2.xlarge", "path": "neuron_xla"},
            {"name": "trn1", "instance_type": "trn1.2xlarge", "path": "neuron_xla"},
            ["convert", "build", "validate", "rollback"],
            14,
            1000,
        ),
        # from a CPU to a GPU: another path, and nothing is compiled ahead. 4 + 3 + 4 + 3 + 2
        (HERE, {"name": "l4", "instance_type": "g6.xlarge", "path": "cuda"}, ["build", "validate", "pipelines", "rollback", "train"], 16, 1000),
        # from a GPU to Inferentia2: the whole template
        (
            {"name": "l4", "instance_type": "g6.xlarge", "path": "cuda"},
            {"name": "inf2", "instance_type": "inf2.xlarge", "path": "neuron_xla"},
            ["convert", "build", "validate", "pipelines", "rollback", "train"],
            20,
            1000,
        ),
    ],
)
def test_the_template_keeps_what_the_move_changes(tmp_path, baseline, candidate, names, likely, upkeep):
    asked = question(tmp_path, baseline=baseline, candidates=[candidate])
    [row] = effort.payback(asked).targets
    assert [task.name.split()[0].strip(",") for task in row.tasks] == names
    assert sum(task.likely for task in row.tasks) == likely and row.upkeep_per_month.value == upkeep
    assert all(task.because.startswith(("template medium: ", "our assumption: ")) for task in row.tasks)


def test_a_declared_plan_and_declared_upkeep_stay_whatever_changes(tmp_path):
    plan = {"tasks": CERTAIN, "upkeep_days_per_month": 0.5}
    asked = question(tmp_path, baseline=HERE, candidates=[{**HERE, "name": "bf16", "settings": {"precision": "bf16"}}], effort=plan)
    [row] = effort.payback(asked).targets
    assert [task.name for task in row.tasks] == ["all of it"] and row.upkeep_per_month.value == 500
    assert row.upkeep_because == "0.5 person-days a month, declared"  # releases of the Neuron SDK are nothing to a CPU


def test_a_model_that_no_page_names_has_to_be_ported_once(tmp_path):
    """Two traps, model not listed and encoder-decoder not served, ask for the same work: 15 days, not 1 + 1; another trap stays its own."""
    step2 = checked(
        found("warning", "known_trap", "model not listed: the guide lists others"),
        found("warning", "known_trap", "encoder decoder not served: no page says so"),
        found("warning", "known_trap", "trace segfault: it crashes"),
    )
    [row] = paid(tmp_path, 5000, 2500, admit=[step2], tasks=CERTAIN).targets
    assert [(task.likely, task.because.partition(":")[0]) for task in row.tasks] == [
        (20, "your plan"),
        (15, "model not listed"),
        (1, "trace segfault"),
    ]


def test_every_trap_that_becomes_a_task_is_in_the_catalogue():
    from neuronfit.catalog import traps

    assert set(tasks.TRAP_TASKS) <= {trap.code.replace("_", " ") for trap in traps.every()}


def test_the_bottom_line_has_the_days_of_the_candidate_that_it_speaks_of(tmp_path):
    """inf2 is reached from the GPU (20 days likely), l40s by another GPU (10): neither has a cost, so both sizes are said."""
    asked = question(
        tmp_path,
        candidates=[
            {"name": "inf2", "instance_type": "inf2.xlarge", "path": "neuron_xla"},
            {"name": "l40s", "instance_type": "g6e.xlarge", "path": "cuda"},
        ],
    )
    record = effort.payback(asked)
    inf2, l40s = (round(row.effort.value) for row in record.targets)
    assert inf2 > l40s
    assert f"to inf2 {inf2} person-days" in record.bottom_line and f"to l40s {l40s} person-days" in record.bottom_line


def test_releases_a_year_are_counted_from_the_catalogues_dates():
    """2.30.0 of 2026-05-21, 2.31.0, 2.32.0, 2.33.0 of 2026-10-19: three in 151 days are 7.26 a year; patches are not counted."""
    rate, said = tasks.releases_per_year()
    dated = [version for version in paths.sdks() if version.endswith(".0") and paths.sdk(version).date]
    assert len(dated) >= 4 and "2.31.1" not in dated
    if len(dated) == 4:
        assert rate == pytest.approx(3 / 151 * 365.25) and said == "SDK 2.30.0 of 2026-05-21 to 2.33.0 of 2026-10-19"


def test_upkeep_by_the_release(tmp_path):
    """Six a year, two days each: one day a month."""
    [row] = paid(tmp_path, 5000, 2500, tasks=CERTAIN, releases_per_year=6, upkeep_days_per_release=2, day_rate_usd=700).targets
    assert row.upkeep_per_month.value == 700 and "6 releases a year (as declared) x 2 person-days each" in row.upkeep_because
    [row] = paid(tmp_path / "b", 5000, 2500, tasks=CERTAIN, releases_per_year=4, upkeep_days_per_month=1).targets
    assert "1 person-day a month, declared; with 4 releases a year (as declared) that is 3 days for each" in row.upkeep_because


# -- two fleets, and a second migration -------------------------------------------------------


def test_the_candidates_bill_during_the_trial_by_hand(tmp_path):
    """Ten days of a candidate that costs 730 a month, 1 an hour: 240 USD, spent before the first month."""
    [row] = paid(tmp_path, 5000, 730, tasks=CERTAIN, parallel_days=10).targets
    assert row.parallel.value == pytest.approx(240) and row.cumulative_usd[0] == pytest.approx(-20240)
    assert row.parallel_because == "the candidate's bill for 10 days, as declared, while the baseline keeps running and is paid for anyway"
    [default] = paid(tmp_path / "b", 5000, 730, tasks=CERTAIN, parallel_days=None).targets
    assert default.parallel.value == pytest.approx(8)  # stages of 60 + 60 + 120 + 240 minutes


def test_the_volume_needed_counts_what_grows_with_it(tmp_path):
    """At k times the volume both fleets together cost k times as much too; there it is paid back in the last month."""
    plan = dict(tasks=CERTAIN, parallel_days=30)
    [row] = paid(tmp_path / "now", 1500, 1000, **plan).targets
    times = row.volume_needed.value
    assert times == pytest.approx((20000 / 36 + 1000) / (500 - 1000 * 30 * 24 / 730 / 36))
    [then] = paid(tmp_path / "then", 1500 * times, 1000 * times, **plan).targets
    assert then.payback_month.value == 36 and then.cumulative_usd[-1] == pytest.approx(0, abs=1e-6)
    assert row.volume_least.value == pytest.approx(times * 1.0e9)  # the monthly volume that the file declares


@pytest.mark.parametrize(
    "status, until, probability",
    [
        ("maintenance: critical fixes only", "not announced", 0.5),
        ("end of support announced", "2.33", 0.9),
        ("whatever", "2.33", 0.9),
        ("public beta", "not announced", 0.3),
        ("current", "not announced", 0.1),
        ("third party, pinned to an older SDK", "not announced", 0.5),
    ],
)
def test_a_path_that_ends_may_have_to_be_left(tmp_path, status, until, probability):
    [row] = paid(tmp_path, 5000, 2500, admit=[checked(status=status, until=until)], tasks=CERTAIN).targets
    assert row.second_move.probability.value == probability and "assumed probability" in row.second_move.because
    assert row.second_move.cost.value == 10000  # half of 20 days at 1,000


def test_every_status_in_the_catalogue_is_known():
    known = [part for part, _, _ in tasks.SECOND_MOVE]
    for row in paths.every():
        if row.supported and row.path not in ("cuda", "cpu", "endpoint"):
            assert any(part in row.status for part in known) or row.until, row.status


def test_a_certain_second_migration_by_hand(tmp_path):
    """Net 1,500 a month, 20,000 and a second 10,000 in a month between 1 and 36: at the end 36 x 1,500 - 30,000 in every draw."""
    [row] = paid(tmp_path, 5000, 2500, tasks=CERTAIN, second_migration_probability=1).targets
    assert {name: band[-1] for name, band in row.band_usd.items()} == {"p5": 24000, "p50": 24000, "p95": 24000}
    assert row.net_present_value.value == 34000 and row.net_present_value.low == 24000  # the value is the likely case, without it
    [without] = paid(tmp_path / "b", 5000, 2500, tasks=CERTAIN, second_migration_probability=0).targets
    assert without.band_usd["p5"] == without.band_usd["p95"] == pytest.approx(without.cumulative_usd)
    assert row.payback_month.high > without.payback_month.value == 14
    early = np.mean([month <= 14 for month in range(1, 37)])  # a second migration by month 14 delays it
    assert row.paid_back_by[14] == pytest.approx(1 - early, abs=0.02)


def test_a_second_migration_in_half_of_the_draws(tmp_path):
    [row] = paid(tmp_path, 5000, 2500, tasks=CERTAIN, second_migration_probability=0.5).targets
    assert row.band_usd["p5"][-1] == 24000 and row.band_usd["p95"][-1] == 34000


# -- as a distribution ------------------------------------------------------------------------


def test_a_doubtful_saving_is_a_normal_one(tmp_path):
    """Saving 2,500 with 90 % between 1,500 and 3,500, upkeep 1,000, effort 20,000: the position after 36 months is normal, and so is
    the chance that it is above 0: 36 (s - 1,000) > 20,000, s > 1,555.6."""
    from scipy import stats

    saving = Quantity(value=2500, unit="USD/month", low=1500, high=3500, confidence=0.9, grade=Grade.ESTIMATED)
    [row] = paid(tmp_path, 5000, 2500, saving=saving, tasks=CERTAIN).targets
    exact = stats.norm(2500, 1000 / stats.norm.ppf(0.95))
    assert row.saving_per_month == saving
    for name, share in (("p5", 0.05), ("p50", 0.5), ("p95", 0.95)):
        assert row.band_usd[name][36] == pytest.approx(36 * (exact.ppf(share) - 1000) - 20000, abs=1500)
    assert row.probability.value == pytest.approx(exact.sf(1000 + 20000 / 36), abs=0.01)
    assert row.probability_saving.value == pytest.approx(exact.sf(1000), abs=0.01)
    for month in (8, 14, 24):
        assert row.paid_back_by[month] == pytest.approx(exact.sf(1000 + 20000 / month), abs=0.01)
    assert row.paid_back_by[0] == 0 and row.probability.value == row.paid_back_by[-1]
    assert row.payback_month.value == 14
    assert row.net_present_value.value == 34000 and (row.net_present_value.low, row.net_present_value.high) == (
        pytest.approx(36 * 500 - 20000, abs=1500),
        pytest.approx(36 * 2500 - 20000, abs=1500),
    )


def test_net_present_value_is_the_annuity(tmp_path):
    """1,500 a month for 36 months at 8 % a year: 1,500 v (1 - v^36) / (1 - v) - 20,000."""
    v = 1.08 ** (-1 / 12)
    [row] = paid(tmp_path, 5000, 2500, tasks=CERTAIN, discount_rate=0.08).targets
    assert row.net_present_value.value == pytest.approx(1500 * v * (1 - v**36) / (1 - v) - 20000)


def test_positions_are_what_the_months_are_read_from():
    efforts, nets = np.array([3000.0, 0.0, 5000.0]), np.array([1000.0, -10.0, 100.0])
    table = positions(efforts, nets, 4)
    assert table.shape == (3, 5) and list(table[0]) == [-3000, -2000, -1000, 0, 1000]
    assert list(payback_months(efforts, nets, 4)) == [3, np.inf, np.inf]
    later = np.array([[0, 0, 500, 500.0]] * 3)
    assert list(payback_months(efforts, nets, 4, later=later)) == [4, np.inf, np.inf]


@pytest.mark.parametrize("seed", range(30))
def test_prices_and_people_in_another_unit_leave_the_month(tmp_path, seed):
    """Everything in money times one factor."""
    import random

    pick = random.Random(seed)
    factor, saving, upkeep, days = pick.choice([0.001, 0.37, 12.5, 1e4]), pick.uniform(100, 5000), pick.uniform(0, 3), pick.uniform(1, 60)
    rate, discount = pick.uniform(200, 2000), pick.choice([0.0, 0.07])
    one = payback_months([days * rate], saving - upkeep * rate, 36, discount)
    two = payback_months([days * rate * factor], saving * factor - upkeep * rate * factor, 36, discount)
    assert one == two
    for net in (saving, 0.0, -saving):
        assert payback_months([0.0], net, 36, discount)[0] in (0, np.inf)


def test_zero_effort_is_month_nought_or_never(tmp_path):
    for place, (base, candidate, month) in enumerate([(5000, 2500, 0), (2500, 2500, 0), (2500, 5000, None)]):
        [row] = paid(tmp_path / str(place), base, candidate, tasks=[], upkeep_days_per_month=0, parallel_days=None).targets
        assert row.payback_month.value == month


def test_the_bottom_line_says_what_the_saving_takes_for_granted(tmp_path):
    records = walk(question(tmp_path))
    taken = next(row.taken_as for row in records["cost"].targets if row.target == "inf2")
    assert "not comparable" in taken and records["payback"].bottom_line.endswith(f" The saving is estimated: {taken}.")
