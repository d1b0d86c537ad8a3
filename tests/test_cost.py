"""Step 6: what a useful result costs, on one price basis."""

import math
import random
from dataclasses import replace
from datetime import date
from decimal import Decimal
from statistics import NormalDist

import pytest
from example_questions import measured, question, stated, walk
from neuronfit import compare, cost, doubt, show, utilization
from neuronfit.catalog import prices, published
from neuronfit.cost import Basis, Priced, saving_fraction, usd_per_million
from neuronfit.errors import BadInput, BadParams, NotComparable
from neuronfit.params import HostCost
from neuronfit.provenance import Grade, Quantity, absent
from neuronfit.useful import Fleet, beside, monthly_usd, useful_share

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
    """One declared instance of 2,168/s under 4,000/s: the queue grows for ever, every answer is late, and none of them is useful."""
    _, rows = priced(question(tmp_path, baseline__count=1, traffic={"mean_per_s": 4000, "peak_per_s": 4000}))
    assert not rows["l4"].expected.known and "no result is useful" in rows["l4"].expected.why and "100.00% late" in rows["l4"].expected.why
    assert rows["l4"].useful.value == 0 and rows["l4"].per_month.value == pytest.approx(587.504)


def test_without_an_objective_it_serves_what_it_can(tmp_path):
    """Nothing can be late: 2,168 of 4,000/s are answered, so it costs what it does at full load."""
    asked = question(tmp_path, baseline__count=1, traffic={"mean_per_s": 4000, "peak_per_s": 4000}, objective={})
    _, rows = priced(asked)
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
    assert record.bottom_line == "No cost to compare yet: l4 and inf2 lack a throughput or a price."


def test_what_the_source_printed_is_said_with_its_basis(tmp_path):
    record, _ = priced(question(tmp_path))
    found = {finding.target: finding for finding in record.findings if finding.code == "printed_on_another_basis"}
    assert set(found) == {"inf2", "trn1"}
    assert "$0.0341 per million at 3-year reserved, no upfront prices, us-east-1" in found["inf2"].because and "$0.079" in found["inf2"].because


def test_every_other_basis_is_in_the_table_or_absent_with_the_reason(tmp_path):
    _, rows = priced(question(tmp_path))
    other = rows["inf2"].other_bases
    assert set(other) == set(prices.options())
    assert (other["on_demand"].value, other["on_demand"].grade) == (rows["inf2"].full_load.value, rows["inf2"].full_load.grade)
    assert prices.find("inf2.xlarge", "us-east-1", "spot_estimate").as_of in other["spot_estimate"].why  # each has the date of its price
    reserved = float(prices.find("inf2.xlarge", "us-east-1", "reserved_3yr_no_upfront").usd_per_hour)
    assert other["reserved_3yr_no_upfront"].value == pytest.approx(1e6 * reserved / (2674.18956433 * 3600))
    assert not other["capacity_block"].known and "no capacity block price in us-east-1" in other["capacity_block"].why


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


# -- useful results ---------------------------------------------------------------------------


def fleet(**changes):
    """Five instances of 2,000/s that carry a peak of 9,000/s and a mean of 3,000/s."""
    known = dict(hours=5 * 730.0, because="x", instances=5.0, load=4.5, capacity_per_s=2000.0, asked_per_s=3000.0, grows="fixed")
    return Fleet(**{**known, **changes})


def test_a_fleet_grows_by_whole_instances():
    """Peak 9,000 at 2,000 each: 5. Half the volume: ceil(2.25) = 3. Twice as fast instances: 3. A spare one stays a spare one."""
    assert fleet().hours_at(2000, 3000) == 3650
    assert fleet().hours_at(2000, 1500) == 3 * 730 and fleet().hours_at(4000, 3000) == 3 * 730
    assert fleet(hours=6 * 730.0, instances=6.0).hours_at(2000, 1500) == 4 * 730
    assert fleet(grows="declared").hours_at(1, 99999) == 3650
    assert fleet(grows="elastic").hours_at(2000, 1500) == pytest.approx(3650 / 2)
    assert fleet(grows="elastic").hours_at(2000, 1) == 730  # never below the fewest


def test_usd_per_million_useful_results_by_hand():
    """5 x 0.80 USD/h x 730 = 2,920 + 80 a month + 0.01 per million of 7,884 million = 3,078.84; 98 % of them useful: 0.39849 per million."""
    one = fleet(usd_per_month=80.0, usd_per_million=0.01)
    assert one.usd_at(0.80, 2000, 3000) == pytest.approx(3078.84)
    assert one.usd_per_million_at(0.80, 2000, 3000, 0.98) == pytest.approx(3078.84 / (7884 * 0.98))
    starved = fleet(grows="declared", instances=1.0, hours=730.0)  # one instance: 2,000 of 3,000/s
    assert starved.carried_at(2000, 3000) == pytest.approx(2 / 3)
    assert starved.usd_per_million_at(0.80, 2000, 3000, 1.0) == pytest.approx(usd_per_million(0.80, 2000))


def test_money_is_summed_in_decimals():
    parts = {"storage": Decimal("0.1"), "load balancer": Decimal("0.2")}
    assert monthly_usd(0.7, 3, parts) == Decimal("2.4")
    costs = (
        HostCost(name="storage", usd_per_month=0.1),
        HostCost(name="transfer", usd_per_million=0.2),
        HostCost(name="balancer", usd_per_month=7, target="l4"),
    )
    assert beside(costs, "inf2", 3e6) == {"storage": Decimal("0.1"), "transfer": Decimal("0.6")}
    assert beside(costs, "l4", 0)["balancer"] == 7


def test_what_is_declared_beside_the_instances_is_in_the_bill(tmp_path):
    """18 a month for the balancer and 0.01 per million of 1,051.2 million asked for a month at 400/s: 28.51 USD on each side."""
    declared = [{"name": "load balancer", "usd_per_month": 18}, {"name": "transfer", "usd_per_million": 0.01}]
    _, rows = priced(question(tmp_path, pricing__surroundings=declared))
    assert rows["l4"].per_month.value == pytest.approx(587.504 + 18 + 10.512)
    assert {name: usd.value for name, usd in rows["l4"].beside_per_month.items()} == {"load balancer": 18, "transfer": pytest.approx(10.512)}
    assert rows["l4"].expected.value == pytest.approx((587.504 + 28.512) / 1051.2)
    assert rows["inf2"].saving_per_month.value == pytest.approx(587.504 - 553.486)


@pytest.mark.parametrize("missed, error, share", [(None, None, 1.0), (0.01, None, 0.99), (None, 0.02, 0.98), (0.01, 0.02, 0.99 * 0.98)])
def test_late_and_failed_results_are_not_useful(tmp_path, missed, error, share):
    asked = question(tmp_path)
    values = {"throughput_per_s": 1000.0, "latency_p99_s": 0.01, **({} if error is None else {"error_fraction": error})}
    figure = stated(asked, "inf2", imported=True, values=values)
    load = utilization.estimate(asked).targets[0]
    load = load.model_copy(update={"missed": None if missed is None else Quantity(value=missed, unit="fraction", grade=Grade.ESTIMATED)})
    found, because = useful_share(figure, load)
    assert found.value == pytest.approx(share) and ("not counted" in because) == (error is None) and ("not known" in because) == (missed is None)


def test_goodput_stands_where_nothing_was_simulated(tmp_path):
    asked = question(tmp_path)
    figure = stated(asked, "inf2", imported=True, values={"throughput_per_s": 1000.0, "goodput_fraction": 0.93, "error_fraction": 0.01})
    assert useful_share(figure, None)[0].value == 0.93


def test_costs_by_what_is_counted(tmp_path):
    """0.526528 per million requests of 128 tokens: 0.0041135 per million tokens; 64 tokens on average cost twice as much each."""
    _, rows = priced(question(tmp_path / "a"))
    assert rows["inf2"].per_unit["inference"].value == pytest.approx(0.526528, abs=1e-6)
    assert rows["inf2"].per_unit["input token"].value == pytest.approx(0.526528 / 128, rel=1e-5)
    _, rows = priced(question(tmp_path / "b", traffic__sequence_lengths={32: 0.5, 96: 0.5}))
    assert rows["inf2"].per_unit["input token"].value == pytest.approx(0.526528 / 64, rel=1e-5)
    assert "padding not counted" in rows["inf2"].per_unit["input token"].why
    assert rows["inf2"].tokens_per_usd.value == pytest.approx(2674.18956433 * 128 * 3600 / 0.7582)


def test_a_request_of_a_trace_has_the_tokens_that_the_trace_writes(tmp_path):
    """Answers of 100 and 300 tokens: a request costs 200 tokens, not the 84 of the figure; prompts of 50 are a quarter of that."""
    lines = [f"2026-03-02 00:{place // 60:02}:{place % 60:02},50,{(100, 300)[place % 2]}" for place in range(1200)]
    (tmp_path / "trace.csv").write_text("\n".join(["TIMESTAMP,ContextTokens,GeneratedTokens", *lines]) + "\n")
    asked = question(tmp_path, "flan-t5-xl", traffic={"trace": {"file": str(tmp_path / "trace.csv")}})
    found = walk(asked, (compare.compare, utilization.estimate, cost.price))["cost"]
    row = next(row for row in found.targets if row.target == "trn1-32")
    per_token = row.per_unit["output token"].value
    assert row.per_unit["request"].value == pytest.approx(200 * per_token, rel=1e-3) and "200 output tokens" in row.per_unit["request"].why
    assert row.per_unit["input token"].value == pytest.approx(200 / 50 * per_token, rel=1e-2)


def test_a_cost_at_saturation_is_called_one(tmp_path):
    asked = question(tmp_path, objective={"latency_p99_ms": 1.0})
    record, _ = priced(asked)
    found = {finding.target: finding for finding in record.findings if finding.code == "cost_misses_objective"}
    assert "inf2" in found and "of 1 ms" in found["inf2"].because and "at saturation" in found["inf2"].because
    assert not [finding for finding in priced(question(tmp_path / "kept"))[0].findings if finding.code == "cost_misses_objective"]


# -- doubt ------------------------------------------------------------------------------------

CERTAIN = {"doubt": {"published": 0, "imported": 0, "measured": 0, "estimated": 0, "volume": 0, "price": 0, "estimated_price": 0}}


def test_with_certain_inputs_the_draws_are_the_closed_form(tmp_path):
    _, rows = priced(question(tmp_path, policy=CERTAIN))
    for name, usd in (("l4", 0.8048), ("inf2", 0.7582), ("trn1", 1.34375)):
        assert rows[name].expected.value == pytest.approx(1e6 * usd / (400 * 3600), rel=1e-12)
        assert rows[name].expected.low is None and rows[name].per_month.low is None and rows[name].tornado == () and rows[name].assumed == ()
    assert rows["inf2"].probability_cheaper.value == 1 and rows["trn1"].probability_cheaper.value == 0
    assert rows["inf2"].saving_per_month.value == pytest.approx(34.018) and rows["inf2"].saving_per_month.low is None


def test_the_probability_at_full_load_is_the_analytic_one(tmp_path):
    """ln of the ratio of costs is normal: mean ln(0.0788 / 0.1031), variance 2 (ln 1.25 / 1.96)^2; both throughputs are published."""
    _, rows = priced(question(tmp_path))
    ratio = (0.7582 / 2674.18956433) / (0.8048 / 2168.0)
    sigma = math.sqrt(2) * math.log(1.25) / 1.959964
    expected = NormalDist().cdf(-math.log(ratio) / sigma)
    assert 0.9 < expected < 0.99
    assert rows["inf2"].probability_cheaper_full_load.value == pytest.approx(expected, abs=0.01)
    assert rows["inf2"].probability_cheaper_full_load.grade is Grade.ESTIMATED


def test_a_lognormal_volume_gives_analytic_quantiles(tmp_path):
    """One declared instance each: cost is 1 / volume, so its 5th percentile is that at the volume's 95th."""
    doubt = {"doubt": {**CERTAIN["doubt"], "volume": 0.2}}
    asked = question(tmp_path, policy=doubt, baseline__count=1, traffic={"mean_per_s": 400, "peak_per_s": 400, "daily_shape": "flat"})
    _, rows = priced(asked)
    reach = math.exp(math.log(1.2) / 1.959964 * 1.644854)
    found = rows["l4"].expected
    assert found.low == pytest.approx(0.558889 / reach, rel=0.01) and found.high == pytest.approx(0.558889 * reach, rel=0.01)
    assert rows["l4"].per_month.low is None  # the bill does not depend on the volume


def test_a_tornado_has_each_input_at_its_ends(tmp_path):
    """An override that is certain, a volume of 400/s within a factor of 1.2, a throughput that one instance never feels."""
    _, rows = priced(question(tmp_path))
    table = {entry.input: entry for entry in rows["inf2"].tornado}
    assert list(table)[0] == "volume" and set(table) == {"volume", "throughput"}
    assert table["volume"].usd_at_low.value == pytest.approx(0.526528 * 1.2, rel=1e-5)
    assert table["volume"].usd_at_high.value == pytest.approx(0.526528 / 1.2, rel=1e-5)
    assert table["throughput"].usd_at_low.value == table["throughput"].usd_at_high.value == pytest.approx(0.526528, rel=1e-5)
    assert "a factor of 1.25 either way is assumed" in " ".join(rows["inf2"].assumed)


def test_a_measured_interval_is_not_replaced_by_an_assumption(tmp_path):
    asked = question(tmp_path)
    asked.dossier.admit(measured(asked, "inf2", [900, 1000, 1100]))
    _, rows = priced(asked)
    assert not [text for text in rows["inf2"].assumed if text.startswith("throughput")]
    [speed] = [entry for entry in rows["inf2"].tornado if entry.input == "throughput"]
    assert (speed.low.value, speed.high.value) == (900, 1100)


@pytest.mark.parametrize("seed", range(40))
def test_more_utilization_never_costs_more_per_result(seed):
    """The same fleet with more to do, up to what it carries; whatever stands beside it by the month."""
    pick = random.Random(seed)
    one = fleet(grows="declared", instances=pick.uniform(1, 9), hours=pick.uniform(1, 9) * 730, usd_per_month=pick.uniform(0, 500))
    one = replace(one, hours=one.instances * 730)
    rates = sorted(pick.uniform(1, one.instances * 2000) for _ in range(20))
    costs = [one.usd_per_million_at(0.8, 2000, rate, 0.99) for rate in rates]
    assert all(later <= earlier * (1 + 1e-12) for earlier, later in zip(costs, costs[1:]))


# -- from which volume on ---------------------------------------------------------------------


def side(name, usd, speed, mean=400.0, peak=1200.0, **changes):
    def known(value, unit):
        return Quantity(value=value, unit=unit, grade=Grade.PUBLISHED)

    count = math.ceil(peak / speed)
    made = fleet(hours=count * 730.0, instances=float(count), load=peak / speed, capacity_per_s=speed, asked_per_s=mean, **changes)
    return doubt.Inputs(name, name, known(usd, "USD/h"), known(speed, "1/s"), known(mean, "1/s"), known(1.0, "fraction"), made)


def test_a_dearer_faster_instance_pays_from_a_volume_on():
    """3 USD for 3,000/s against 2 USD for 1,000/s, peak three times the mean. The last step on which it is dearer is the first: one of
    it (3) against one of the others (2), up to a peak of 1,000/s, which is 333/s on average and 876 million a month."""
    found = doubt.break_even_volume(side("c", 3.0, 3000.0), side("b", 2.0, 1000.0))
    assert found.value == pytest.approx(1000 / 3 * 730 * 3600)


@pytest.mark.parametrize("seed", range(30))
def test_beyond_the_volume_it_is_never_dearer_and_just_below_it_is(seed):
    """Counted one by one on a grid of peaks."""
    pick = random.Random(seed)
    p_c, p_b, t_c, t_b = pick.uniform(1, 4), pick.uniform(1, 4), pick.uniform(500, 3000), pick.uniform(500, 3000)
    found = doubt.break_even_volume(side("c", p_c, t_c), side("b", p_b, t_b))
    dearer = [peak for peak in range(1, 120_000, 7) if p_c * math.ceil(peak / t_c) > p_b * math.ceil(peak / t_b) * (1 + 1e-12)]
    if found.known:
        turn = found.value / (730 * 3600) * 3
        assert turn < 110_000 and max(dearer) <= turn <= max(dearer) + 7
    elif "not the dearer one at any" in found.why:
        assert not dearer or p_c / t_c >= p_b / t_b
    else:
        assert p_c / t_c >= p_b / t_b and dearer


def test_where_no_volume_turns_it_the_reason_is_given():
    assert "dearer one at every volume" in doubt.break_even_volume(side("c", 2.0, 1000.0), side("b", 1.0, 1000.0)).why
    assert "not the dearer one at any volume" in doubt.break_even_volume(side("c", 1.0, 1000.0), side("b", 2.0, 1000.0)).why
    below = doubt.break_even_volume(side("c", 1.0, 500.0), side("b", 1.5, 1000.0))  # 1 below a peak of 500, then 2 against 1.5
    assert "the other way round" in below.why and f"{500 / 3 * 730 * 3600:.3g}" in below.why
    assert "declared" in doubt.break_even_volume(side("c", 1.0, 500.0, grows="declared"), side("b", 1.5, 1000.0)).why


# -- refused ----------------------------------------------------------------------------------


def test_another_currency_is_refused(tmp_path):
    with pytest.raises(BadParams) as raised:
        question(tmp_path, pricing__overrides=[{"instance_type": "g6.xlarge", "usd_per_hour": 0.7, "as_of": "2026-10-01", "currency": "EUR"}])
    assert "'EUR' beside USD would mix currencies" in str(raised.value) and len(str(raised.value).splitlines()) == 1
    with pytest.raises(NotComparable, match="priced by currency EUR"):
        cost.price(question(tmp_path, baseline__settings={"currency": "EUR"}))


@pytest.mark.parametrize("usd", [0, -1])
def test_a_price_of_nought_is_refused(tmp_path, usd):
    with pytest.raises(BadParams, match="usd_per_hour"):
        question(tmp_path, pricing__overrides=[{"instance_type": "g6.xlarge", "usd_per_hour": usd, "as_of": "2026-10-01"}])


@pytest.mark.parametrize(
    "instance_type, region, part",
    [("p5e.48xlarge", "us-east-1", "capacity_block"), ("trn2.48xlarge", "us-east-1", "us-east-2")],
)
def test_what_is_not_sold_so_has_no_price_and_says_how_it_is(tmp_path, instance_type, region, part):
    target = {"name": "c", "instance_type": instance_type, "path": "cuda" if instance_type[0] == "p" else "neuron_xla"}
    record = cost.price(question(tmp_path, candidates=[target], pricing__region=region))
    row = record.targets[1]
    assert not row.price.known and not row.full_load.known
    said = " ".join(f"{finding.because} {finding.next or ''}" for finding in record.findings if finding.target == "c")
    assert part in said


INF2 = [row for row in published.every() if row.collection == "neuron-2026-08-21" and row.usd_per_million_printed and "inf2" in row.instance_types[0]]


def test_the_inf2_pages_have_their_costs():
    assert len(INF2) >= 20


@pytest.mark.parametrize("row", INF2, ids=lambda row: row.row_id)
def test_the_published_inf2_costs_are_the_formula_at_the_three_year_reserved_rate(row):
    """As for Trn1, with the catalogue's own price; these pages multiply by a rate that they print with three decimals (0.328, not 0.32754)."""
    hourly = float(prices.find(row.instance_types[0], "us-east-1", "reserved_3yr_no_upfront").usd_per_hour)
    slowest, fastest = row.rounding("throughput_per_s")
    printed = Decimal(row.usd_per_million_printed)
    half = float(Decimal(1).scaleb(printed.as_tuple().exponent) / 2)
    lowest, highest = usd_per_million(round(hourly - 0.0005, 3), fastest), usd_per_million(round(hourly + 0.0005, 3), slowest)
    assert float(printed) - half <= highest and lowest <= float(printed) + half


# -- discount, own terms, age, and what the way to deploy adds --------------------------------


def test_the_discount_is_taken_off_every_list_price_and_not_off_the_teams_own_rate(tmp_path):
    """0.8048 x 0.88 = 0.708224 and 1.34375 x 0.88 = 1.1825; inf2 has an agreed rate of 0.6."""
    own = [{"instance_type": "inf2.xlarge", "usd_per_hour": 0.6, "as_of": "2026-10-01"}]
    _, rows = priced(question(tmp_path, pricing__discount=0.12, pricing__overrides=own))
    assert [rows[name].price.value for name in ("l4", "inf2", "trn1")] == [pytest.approx(0.708224), 0.6, pytest.approx(1.1825)]
    assert rows["l4"].price.grade is Grade.ESTIMATED and rows["inf2"].price.grade is Grade.IMPORTED
    assert rows["l4"].per_month.value == pytest.approx(0.708224 * 730)
    assert rows["l4"].other_bases["on_demand"].value == pytest.approx(rows["l4"].full_load.value)


def test_an_own_rate_on_other_terms_is_refused(tmp_path):
    own = {"instance_type": "inf2.xlarge", "usd_per_hour": 0.33, "as_of": "2026-10-01"}
    asked = question(tmp_path / "a", pricing__overrides=[{**own, "purchase_option": "reserved_3yr_no_upfront"}])
    with pytest.raises(NotComparable) as raised:
        cost.price(asked)
    assert "inf2.xlarge is reserved_3yr_no_upfront" in str(raised.value) and "on_demand" in str(raised.value) and asked.dossier.files() == []
    for same in ({"purchase_option": "on_demand"}, {}):
        assert priced(question(tmp_path / f"b{len(same)}", pricing__overrides=[{**own, **same}]))[1]["inf2"].price.value == 0.33
    other = {**own, "instance_type": "p5.48xlarge", "purchase_option": "capacity_block"}  # no target here
    assert priced(question(tmp_path / "c", pricing__overrides=[other]))[1]["inf2"].price.value == 0.7582


def old(record):
    return [finding.because for finding in record.findings if finding.code == "prices_old"]


def test_a_price_of_half_a_year_ago_is_a_finding_on_every_basis(tmp_path, monkeypatch):
    """inf2 and trn1 on demand were seen on 2026-07-20, g6 on 2026-09-06, the reserved rates on 2025-04-05."""
    assert old(priced(question(tmp_path / "a"))[0]) == []
    [said] = old(priced(question(tmp_path / "b", pricing__purchase_option="reserved_3yr_no_upfront"))[0])
    assert "l4 2025-04-05 (604 days)" in said and "inf2 2025-04-05" in said
    assert old(priced(question(tmp_path / "c", pricing__purchase_option="spot_estimate"))[0])
    monkeypatch.setattr(cost, "today", lambda: date(2027, 1, 16))
    assert old(priced(question(tmp_path / "d"))[0]) == []  # 180 days
    monkeypatch.setattr(cost, "today", lambda: date(2027, 1, 17))
    [said] = old(priced(question(tmp_path / "e"))[0])
    assert "inf2 2026-07-20 (181 days)" in said and "l4" not in said


@pytest.mark.parametrize(
    "instance_type, region, code",
    [
        ("p5e.48xlarge", "us-east-1", "capacity_block_only"),
        ("trn2.48xlarge", "us-east-1", "not_sold_in_region"),
    ],
)
def test_what_is_not_to_be_had_is_a_finding_of_step_6(tmp_path, instance_type, region, code):
    target = {"name": "c", "instance_type": instance_type, "path": "cuda" if instance_type[0] == "p" else "neuron_xla"}
    record = cost.price(question(tmp_path, candidates=[target], pricing__region=region))
    assert code in [finding.code for finding in record.findings if finding.target == "c"]
    assert not record.targets[1].price.known


def test_a_cluster_of_eks_is_in_the_month_of_both_sides_once(tmp_path):
    """0.10 x 730 = 73 USD. 587.504 + 73 = 660.504; per million of 1,051.2 million: 0.628333. The saving stays 34.018."""
    record, rows = priced(question(tmp_path, pricing__deployment="eks"))
    assert rows["l4"].per_month.value == pytest.approx(660.504) and rows["inf2"].per_month.value == pytest.approx(553.486 + 73)
    assert rows["l4"].expected.value == pytest.approx(660.504 / 1051.2) and rows["l4"].full_load.value == pytest.approx(0.103116, abs=1e-6)
    assert [usd.value for usd in rows["l4"].beside_per_month.values()] == [73] and rows["l4"].price.value == 0.8048
    assert rows["inf2"].saving_per_month.value == pytest.approx(34.018)
    [finding] = [finding for finding in record.findings if finding.code == "deployment_surcharge"]
    assert "73.00 USD a month" in finding.because and "bought through EKS" in record.bottom_line


def test_sagemaker_is_priced_by_its_own_rate_on_both_sides(tmp_path):
    """ml.g5.xlarge 1.4084 and ml.inf2.xlarge 0.99 stand where EC2 has 1.006 and 0.7582, in every figure, once."""
    base = {"name": "a10g", "instance_type": "g5.xlarge", "path": "cuda"}
    asked = question(tmp_path, baseline=base, pricing__deployment="sagemaker")
    asked.dossier.admit(stated(asked, "a10g", imported=True, values={"throughput_per_s": 2500.0, "latency_p99_s": 0.005}))
    record, rows = priced(asked)
    assert rows["a10g"].price.value == pytest.approx(1.4084) and rows["inf2"].price.value == pytest.approx(0.99)
    assert rows["a10g"].per_month.value == pytest.approx(1.4084 * 730) and rows["inf2"].per_month.value == pytest.approx(0.99 * 730)
    assert rows["inf2"].full_load.value == pytest.approx(rows["inf2"].other_bases["sagemaker_hosting"].value)
    assert rows["inf2"].price_as_of == "2025-01-26" and "a10g 2025-01-26" in old(record)[0]
    assert not rows["trn1"].price.known and "ml.trn1.2xlarge" in rows["trn1"].price.why  # one candidate without: no price, the others stay
    assert [finding.target for finding in record.findings if finding.code == "deployment_unpriced"] == ["trn1"]


def test_a_premium_that_the_baseline_lacks_is_left_out_on_both_sides_and_said(tmp_path):
    record, rows = priced(question(tmp_path, pricing__deployment="sagemaker"))
    assert rows["l4"].price.value == 0.8048 and rows["inf2"].price.value == 0.7582
    [finding] = [finding for finding in record.findings if finding.code == "deployment_unpriced"]
    assert "left out on both sides" in finding.because and "ml.g6.xlarge" in finding.because
    for text in (record.bottom_line, rows["l4"].sentence, rows["inf2"].sentence):
        assert "without SageMaker's surcharge, which is not known for l4" in text


def test_a_reserved_rate_is_not_sagemakers(tmp_path):
    record, rows = priced(question(tmp_path, pricing__deployment="sagemaker", pricing__purchase_option="reserved_3yr_no_upfront"))
    assert rows["inf2"].price.value == pytest.approx(0.32754)
    assert "priced on demand" in next(finding.because for finding in record.findings if finding.code == "deployment_unpriced")


# -- no sentence is stronger than its weakest number ------------------------------------------


def test_how_likely_is_said_with_what_it_takes_for_granted(tmp_path):
    """Both figures are published, and not taken alike: one sentence has the chance, the assumed doubt, and that they are not comparable."""
    asked = question(tmp_path)
    records = walk(asked)
    record, row = records["cost"], records["cost"].targets[1]
    sentence = record.bottom_line
    for part in (
        "estimated: inf2 is the cheaper one in more than 99% of the draws",
        "a doubt of 25% in the throughput and 20% in the volume is assumed",
        "taken at face value although they are not comparable: precision of products and timed region differ",
    ):
        assert part in sentence
    assert "probability above" not in sentence and row.taken_as in sentence
    [gate] = [gate for gate in records["decision"].gates if gate.name == "cheaper"]
    assert "(figures at face value, doubts as in step 6)" in gate.because and gate.grade is Grade.ESTIMATED
    assert row.taken_as in str(show.cost_table(record)) and row.probability_cheaper.grade is Grade.ESTIMATED


def test_measured_alike_with_their_own_intervals_nothing_is_taken_for_granted(tmp_path):
    asked = question(tmp_path, policy=CERTAIN)
    for name, rates in (("l4", [900, 1000, 1100]), ("inf2", [1900, 2000, 2100])):
        asked.dossier.admit(measured(asked, name, rates))
    record, rows = priced(asked)
    assert rows["inf2"].taken_as is None and "face value" not in record.bottom_line
    [gate] = [gate for gate in walk(asked)["decision"].gates if gate.name == "cheaper"]
    assert "doubts" not in gate.because and "face value" not in gate.because
    assert record.bottom_line.endswith("estimated: inf2 is the cheaper one in more than 99% of the draws.")


def test_two_widths_are_both_named(tmp_path):
    """Published 25 %, imported 10 %: `10 or 25%`."""
    asked = question(tmp_path)
    asked.dossier.admit(stated(asked, "inf2", imported=True, values={"throughput_per_s": 2600.0, "latency_p99_s": 0.006}))
    assert "10 or 25% in the throughput" in priced(asked)[1]["inf2"].taken_as


def test_the_bar_and_the_table_are_no_nearer_to_certain_than_draws_can_say(tmp_path):
    record, rows = priced(question(tmp_path))
    assert rows["inf2"].probability_cheaper.value > 0.99 and rows["trn1"].probability_cheaper.value < 0.01
    figure, table = str(show.cheaper_bars(record)), str(show.doubt_table(record))
    assert "inf2 95% at full load [E]; inf2 more than 99% at your traffic [E]" in figure and "less than 1% at your traffic" in figure
    assert "> 99 E" in table and "< 1 E" in table and rows["inf2"].taken_as in table
    assert "appears once" in str(show.cheaper_bars(cost.price(question(tmp_path / "empty"))))


def test_hosting_is_not_what_training_costs(tmp_path):
    """ml.trn1.32xlarge and ml.p4d.24xlarge have hosting prices; a training job is not billed by them."""
    asked = question(
        tmp_path,
        workload__kind="training",
        workload__training={"samples": 1e6},
        baseline={"name": "p4d", "instance_type": "p4d.24xlarge", "path": "cuda"},
        candidates=[{"name": "trn1", "instance_type": "trn1.32xlarge", "path": "neuron_xla"}],
        pricing__deployment="sagemaker",
    )
    record = cost.price(asked)
    [finding] = [finding for finding in record.findings if finding.code == "deployment_unpriced"]
    assert "prices training apart from hosting" in finding.because
    assert record.targets[1].price.value == float(prices.find("trn1.32xlarge", "us-east-1", "on_demand").usd_per_hour)
