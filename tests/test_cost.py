"""Step 6: what a useful result costs, on one price basis."""

import math
from decimal import Decimal

import pytest
from example_questions import measured, question, stated, walk
from neuronfit import compare, cost, utilization
from neuronfit.catalog import prices, published
from neuronfit.cost import Basis, Priced, saving_fraction, usd_per_million
from neuronfit.errors import BadInput, NotComparable
from neuronfit.provenance import Grade, Quantity, absent

TRN1 = [row for row in published.every() if row.collection == "trn1-2025-09-18"]


def priced(asked):
    compare.compare(asked)
    utilization.estimate(asked)
    record = cost.price(asked)
    return record, {row.target: row for row in record.targets}


# -- the formula ------------------------------------------------------------------------------


def test_the_page_has_twenty_costs():
    assert len(TRN1) == 20 and all(row.usd_per_million_printed for row in TRN1)


@pytest.mark.parametrize("row", TRN1, ids=lambda row: row.row_id)
def test_the_published_costs_are_the_formula_at_the_three_year_reserved_rate(row):
    """Utilization 1, the hourly price from the catalogue. The printed cost is rounded to 0.001 USD and the
    throughput to 0.01/s, so the two intervals must meet."""
    [instance_type] = row.instance_types
    hourly = float(prices.find(instance_type, "us-east-1", "reserved_3yr_no_upfront").usd_per_hour)
    slowest, fastest = row.rounding("throughput_per_s")
    lowest, highest = usd_per_million(hourly, fastest), usd_per_million(hourly, slowest)
    half = float(Decimal("0.0005"))
    printed = float(row.usd_per_million_printed)
    assert printed - half <= highest and lowest <= printed + half


@pytest.mark.parametrize(
    "hourly, rate, shown",
    [
        (0.7582, 2674.19, 0.079),  # 758200 / (2674.19 x 3600) = 0.07876
        (0.8048, 2168.0, 0.103),  # 0.10312
        (0.512294, 3329.87, 0.043),  # trn1.2xlarge, 3-year reserved
    ],
)
def test_costs_by_hand(hourly, rate, shown):
    assert round(usd_per_million(hourly, rate), 3) == shown
    assert usd_per_million(hourly, rate) == pytest.approx(1e6 * hourly / (rate * 3600))


def test_what_doubles_and_halves_it():
    base = usd_per_million(1.0, 1000)
    assert usd_per_million(1.0, 1000, utilization=0.5) == pytest.approx(2 * base)
    assert usd_per_million(1.0, 1000, success=0.5) == pytest.approx(2 * base)
    assert usd_per_million(1.0, 1000, instances=2) == pytest.approx(2 * base)
    assert usd_per_million(1.0, 2000, instances=2) == pytest.approx(base)
    assert usd_per_million(2.0, 1000) == pytest.approx(2 * base)


@pytest.mark.parametrize(
    "wrong, part",
    [
        (dict(throughput_per_s=0), "throughput is: 0"),
        (dict(throughput_per_s=-5), "throughput is: -5"),
        (dict(throughput_per_s=math.nan), "throughput is: nan"),
        (dict(throughput_per_s=math.inf), "throughput is: inf"),
        (dict(throughput_per_s=1, utilization=0), "utilization is: 0"),
        (dict(throughput_per_s=1, utilization=30), "utilization is not a fraction: 30"),
        (dict(throughput_per_s=1, success=0), "success rate is: 0"),
        (dict(throughput_per_s=1, success=99.9), "success rate is not a fraction: 99.9"),
    ],
)
def test_no_useful_result_has_no_cost(wrong, part):
    with pytest.raises(BadInput) as raised:
        usd_per_million(1.0, **wrong)
    assert part in str(raised.value) and len(str(raised.value).splitlines()) == 1


# -- one basis --------------------------------------------------------------------------------

ON_DEMAND = Basis("us-east-1", "on_demand")


def usd(value, unit="USD/1e6", basis=ON_DEMAND):
    return Priced(Quantity(value=value, unit=unit, grade=Grade.PUBLISHED), basis)


def test_a_saving_is_a_share_of_the_baselines_cost():
    assert saving_fraction(usd(0.079), usd(0.103)) == pytest.approx(0.2330, abs=1e-4)
    assert saving_fraction(usd(0.109), usd(0.094)) == pytest.approx(-0.1596, abs=1e-4)
    assert saving_fraction(usd(1.0), usd(1.0)) == 0


@pytest.mark.parametrize(
    "basis",
    [Basis("us-east-1", "reserved_3yr_no_upfront"), Basis("eu-west-1", "on_demand"), Basis("us-east-1", "capacity_block")],
)
def test_reserved_against_on_demand_is_refused(basis):
    """The factor between them is 2.3 to 2.6: more than any saving this project looks for."""
    for pair in ((usd(0.034, basis=basis), usd(0.103)), (usd(0.103), usd(0.034, basis=basis))):
        with pytest.raises(NotComparable) as raised:
            saving_fraction(*pair)
        assert str(basis) in str(raised.value) and "on demand in us-east-1" in str(raised.value)
        assert len(str(raised.value).splitlines()) == 1


def test_amounts_that_are_not_of_one_kind_are_refused():
    with pytest.raises(NotComparable, match="different units"):
        saving_fraction(usd(0.079), usd(500, unit="USD/month"))
    with pytest.raises(NotComparable, match="no price"):
        saving_fraction(Priced(absent("USD/1e6", "no price"), ON_DEMAND), usd(1))
    with pytest.raises(NotComparable, match="amount above 0"):
        saving_fraction(usd(1), usd(0))


@pytest.mark.parametrize("key, value", [("purchase_option", "reserved_3yr_no_upfront"), ("region", "eu-west-1")])
@pytest.mark.parametrize("side", ["baseline", "candidates__0"])
def test_a_target_cannot_bring_its_own_basis(tmp_path, key, value, side):
    asked = question(tmp_path, **{f"{side}__settings": {key: value}})
    with pytest.raises(NotComparable) as raised:
        cost.price(asked)
    name = "l4" if side == "baseline" else "inf2"
    assert f"{name} is priced by {key} {value}" in str(raised.value) and f"{name}.settings" in str(raised.value)
    assert asked.dossier.files() == []


def test_saying_the_same_basis_again_is_no_error(tmp_path):
    asked = question(tmp_path, baseline__settings={"purchase_option": "on_demand", "region": "us-east-1"})
    assert priced(asked)[1]["l4"].price.value == 0.8048


def test_the_basis_applies_to_every_target(tmp_path):
    """What the table says for the option, on both sides: less than 55 % of the on-demand rate."""
    record, rows = priced(question(tmp_path, pricing__purchase_option="reserved_3yr_no_upfront"))
    for name, instance_type in (("l4", "g6.xlarge"), ("inf2", "inf2.xlarge"), ("trn1", "trn1.2xlarge")):
        known = float(prices.find(instance_type, "us-east-1", "reserved_3yr_no_upfront").usd_per_hour)
        assert rows[name].price.value == known < 0.55 * float(prices.find(instance_type, "us-east-1", "on_demand").usd_per_hour)
    assert "reserved 3yr no upfront in us-east-1" in record.bottom_line
    assert not [finding for finding in record.findings if finding.code == "printed_on_another_basis"]


# -- the ten-minute answer --------------------------------------------------------------------


def test_bert_on_demand(tmp_path):
    """0.7582 / (2674.19 x 3600) x 1e6 = 0.0788; 0.8048 / (2168 x 3600) x 1e6 = 0.1031: 23.6 % less."""
    record, rows = priced(question(tmp_path))
    assert round(rows["inf2"].full_load.value, 3) == 0.079
    assert round(rows["l4"].full_load.value, 3) == 0.103
    assert rows["inf2"].full_load.grade is Grade.PUBLISHED
    assert record.bottom_line.startswith(
        "$0.079 per million on inf2.xlarge against $0.103 on g6.xlarge at full load (24% less), on demand in us-east-1"
    )


def test_at_the_traffic_a_result_costs_what_the_fleet_costs(tmp_path):
    """One instance each for 400/s: 1e6 x 0.8048 / (400 x 3600) = 0.5589 and 0.5265; 730 h: 587.50 and 553.49 USD."""
    record, rows = priced(question(tmp_path))
    assert rows["l4"].expected.value == pytest.approx(0.558889, abs=1e-6)
    assert rows["inf2"].expected.value == pytest.approx(0.526528, abs=1e-6)
    assert rows["l4"].per_month.value == pytest.approx(587.504) and rows["inf2"].per_month.value == pytest.approx(553.486)
    assert rows["l4"].expected.grade is Grade.ESTIMATED
    assert "at your traffic $0.527 against $0.559 (6% less)" in record.bottom_line


def test_expected_is_full_load_over_utilization(tmp_path):
    """The two formulas are one: cost at traffic = cost at full load / busy share."""
    asked = question(tmp_path, traffic__peak_per_s=9000)
    _, rows = priced(asked)
    load = {row.target: row for row in utilization.estimate(asked).targets}
    for name, row in rows.items():
        assert row.expected.value == pytest.approx(row.full_load.value / load[name].busy_mean.value)


def test_what_a_fleet_cannot_carry_is_not_useful(tmp_path):
    """One declared instance of 2,168/s under 4,000/s serves 2,168 of them: full load, no cheaper."""
    _, rows = priced(question(tmp_path, baseline__count=1, traffic={"mean_per_s": 4000, "peak_per_s": 4000}))
    assert rows["l4"].expected.value == pytest.approx(rows["l4"].full_load.value)


def test_efficiency(tmp_path):
    """2674.19 / 0.7582 = 3,527 results per second per dollar-hour."""
    _, rows = priced(question(tmp_path))
    assert rows["inf2"].efficiency.value == pytest.approx(2674.18956433 / 0.7582)
    assert 1e6 / (rows["inf2"].efficiency.value * 3600) == pytest.approx(rows["inf2"].full_load.value)


# -- break-even -------------------------------------------------------------------------------


def test_break_even_throughput_by_hand(tmp_path):
    """0.8048 x 2674.19 / 0.7582 = 2,838.6/s; at that rate the L4 costs exactly what inf2 does."""
    _, rows = priced(question(tmp_path))
    even = rows["inf2"].break_even_throughput
    assert even.value == pytest.approx(2838.6, abs=0.1) and even.grade is Grade.PUBLISHED
    assert usd_per_million(0.8048, even.value) == pytest.approx(rows["inf2"].full_load.value)
    assert not rows["l4"].break_even_throughput.known and rows["l4"].break_even_throughput.why == "this is the baseline"


def test_break_even_of_designs_own_example(tmp_path):
    """trn1.2xlarge at 3,330/s (1.34375 USD/h) against g5.xlarge (1.006): 1.006 x 3329.87 / 1.34375 = 2,493/s."""
    asked = question(tmp_path, baseline={"name": "a10g", "instance_type": "g5.xlarge", "path": "cuda"})
    asked.dossier.admit(stated(asked, "trn1", batch=16, imported=True, values={"throughput_per_s": 3329.87, "latency_p99_s": 0.00968}))
    _, rows = priced(asked)
    assert rows["trn1"].break_even_throughput.value == pytest.approx(2493, abs=0.5)


def test_break_even_price_and_utilization(tmp_path):
    """Below 0.10312 x 2674.19 x 3600 / 1e6 = 0.9927 USD/h inf2 wins at full load; above 0.0788 / 0.5589 = 14.1 % busy it beats
    the L4 at its own 18 %."""
    _, rows = priced(question(tmp_path))
    assert rows["inf2"].break_even_price.value == pytest.approx(0.8048 / 2168.0 * 2674.18956433, rel=1e-4)
    assert rows["inf2"].break_even_utilization.value == pytest.approx(0.078757 / 0.558889, rel=1e-3)
    assert usd_per_million(0.7582, 2674.18956433, utilization=rows["inf2"].break_even_utilization.value) == pytest.approx(rows["l4"].expected.value)


def test_break_even_price_is_against_the_same_batch(tmp_path):
    """trn1 at batch 16 is set against the L4 at batch 16 (2,384.5/s), not at the batch 8 of inf2's partner."""
    _, rows = priced(question(tmp_path))
    assert rows["trn1"].break_even_price.value == pytest.approx(0.8048 / 2384.5 * 3421.56625089, rel=1e-4)


# -- intervals, units, gaps -------------------------------------------------------------------


def test_a_fast_end_is_a_cheap_end(tmp_path):
    asked = question(tmp_path)
    asked.dossier.admit(measured(asked, "inf2", [900, 1000, 1100]))
    _, rows = priced(asked)
    full = rows["inf2"].full_load
    assert (full.low, full.value, full.high) == (
        pytest.approx(1e6 * 0.7582 / (1100 * 3600)),
        pytest.approx(1e6 * 0.7582 / (1000 * 3600)),
        pytest.approx(1e6 * 0.7582 / (900 * 3600)),
    )
    assert full.grade is Grade.PUBLISHED  # measured speed x published price


@pytest.mark.parametrize(
    "name, target, cost_per_million",
    [("t5-3b", "trn1-32", 1e6 * 21.5 / (110.23 * 3600)), ("flan-t5-xl", "trn1-32", 1e6 * 21.5 / (120.29 * 3600))],
)
def test_t5_is_reported_per_million_tokens(tmp_path, name, target, cost_per_million):
    _, rows = priced(question(tmp_path, name))
    assert rows[target].result_unit == "token" and rows[target].full_load.value == pytest.approx(cost_per_million, rel=1e-3)
    assert "per million tokens at full load" in rows[target].sentence


def test_an_idle_instance_has_an_upper_bound_for_a_cost(tmp_path):
    record, rows = priced(question(tmp_path, "xlm-roberta-base"))
    found = {finding.target: finding for finding in record.findings if finding.code == "cost_of_idle_instance"}
    assert set(found) == {"inf2-48", "trn1-32"} and "upper bound" in found["trn1-32"].because
    assert rows["trn1-32"].full_load.value > 100  # USD per million, against 0.08 for bert-base on inf2.xlarge
    assert record.bottom_line == "No cost to compare yet: l4, inf2 lack a throughput or a price."


def test_what_the_source_printed_is_said_with_its_basis(tmp_path):
    record, _ = priced(question(tmp_path))
    found = {finding.target: finding for finding in record.findings if finding.code == "printed_on_another_basis"}
    assert set(found) == {"inf2", "trn1"}
    assert "$0.0341 per million on reserved_3yr_no_upfront" in found["inf2"].because and "$0.079" in found["inf2"].because


def test_every_other_basis_is_in_the_table_or_absent_with_the_reason(tmp_path):
    _, rows = priced(question(tmp_path))
    other = rows["inf2"].other_bases
    assert set(other) == set(prices.OPTIONS)
    assert other["on_demand"] == rows["inf2"].full_load
    reserved = float(prices.find("inf2.xlarge", "us-east-1", "reserved_3yr_no_upfront").usd_per_hour)
    assert other["reserved_3yr_no_upfront"].value == pytest.approx(1e6 * reserved / (2674.18956433 * 3600))
    assert not other["capacity_block"].known and "no capacity_block price in us-east-1" in other["capacity_block"].why


def test_a_price_that_is_not_quoted_waits_and_is_never_a_guess(tmp_path):
    record, rows = priced(question(tmp_path, pricing__purchase_option="capacity_block"))
    assert not rows["l4"].full_load.known and not rows["l4"].per_month.known
    found = {finding.target: finding for finding in record.findings if finding.code == "price_unknown"}
    assert {"l4", "inf2"} <= set(found) and str(found["l4"].severity) == "waiting"
    assert "g6.xlarge" in found["l4"].because and "pricing.overrides" in found["l4"].next


def test_without_a_throughput_there_is_no_cost_but_a_price(tmp_path):
    record = cost.price(question(tmp_path))
    assert [row.price.value for row in record.targets] == [0.8048, 0.7582, 1.34375]
    assert not any(row.full_load.known or row.expected.known for row in record.targets)
    assert [(finding.code, finding.target) for finding in record.findings] == [("no_cost", name) for name in ("l4", "inf2", "trn1")]
    assert record.findings[0].next == "on a g6.xlarge: neuronfit measure params/bert-base-uncased.yaml --target l4"


# -- the team's own rates ---------------------------------------------------------------------


def test_an_override_is_used_and_says_whose_it_is(tmp_path):
    own = [
        {"instance_type": name, "usd_per_hour": 0.5, "as_of": "2026-10-01", "note": "agreement"}
        for name in ("g6.xlarge", "inf2.xlarge", "trn1.2xlarge")
    ]
    record, rows = priced(question(tmp_path, pricing__overrides=own))
    assert {row.price.value for row in record.targets} == {0.5}
    assert rows["l4"].price.grade is Grade.IMPORTED and "2026-10-01: agreement" in rows["l4"].price.why
    assert not [finding for finding in record.findings if finding.code == "price_override_one_sided"]


def test_an_override_on_one_side_is_a_warning(tmp_path):
    """A negotiated rate beside a list price may be a reserved price beside an on-demand one."""
    own = [{"instance_type": "inf2.xlarge", "usd_per_hour": 0.3, "as_of": "2026-10-01"}]
    record, _ = priced(question(tmp_path, pricing__overrides=own))
    [finding] = [finding for finding in record.findings if finding.code == "price_override_one_sided"]
    assert (
        str(finding.severity) == "warning"
        and "inf2 at the team's own rate" in finding.because
        and "l4, trn1 at the on_demand list price" in finding.because
    )


# -- different results ------------------------------------------------------------------------


def test_a_million_tokens_is_not_set_beside_a_million_requests(tmp_path):
    asked = question(tmp_path, "t5-3b")
    row = stated(asked, "l40s", batch=1, imported=True, values={"throughput_per_s": 5.0, "latency_p99_s": 0.2}, sequence_length=128)
    asked.dossier.admit(row)
    records = walk(asked)
    assert records["cost"].bottom_line == "No cost to compare yet: l40s counts inferences, the candidates count something else."
    assert "cannot be set side by side" in records["decision"].sentence
    assert "%" not in records["decision"].sentence


# -- which candidate --------------------------------------------------------------------------


def test_the_cheapest_leads(tmp_path):
    asked = question(tmp_path)
    assert cost.leading(asked) == "inf2"  # the first, while nothing is known
    priced(asked)
    assert cost.leading(asked) == "inf2"
    swapped = question(tmp_path / "swapped", candidates=list(reversed([target.model_dump(exclude_unset=True) for target in asked.params.candidates])))
    assert cost.leading(swapped) == "trn1"
    priced(swapped)
    assert cost.leading(swapped) == "inf2"


def test_a_candidate_that_misses_the_objective_does_not_lead_while_another_keeps_it(tmp_path):
    """inf2 is the cheaper one and too slow; trn1 keeps the bound."""
    asked = question(tmp_path)
    asked.dossier.admit(stated(asked, "inf2", imported=True, values={"throughput_per_s": 5000.0, "latency_p99_s": 0.050}))
    _, rows = priced(asked)
    assert rows["inf2"].full_load.value < rows["trn1"].full_load.value
    assert cost.leading(asked) == "trn1"
