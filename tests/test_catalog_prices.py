"""Prices: known digits, the status rules, and messages that say what is missing and what is near."""

from dataclasses import replace
from datetime import date
from decimal import Decimal

import pytest
from neuronfit.catalog import availability, prices
from neuronfit.errors import BadInput, NotComparable, NotFound
from neuronfit.provenance import Grade

NINE = (
    "ap-northeast-1", "ap-south-1", "ap-southeast-2", "eu-central-1", "eu-north-1", "eu-west-1",
    "us-east-1", "us-east-2", "us-west-2",
)  # fmt: skip


@pytest.mark.parametrize(
    ("instance_type", "region", "option", "usd"),
    [
        ("inf2.xlarge", "us-east-1", "on_demand", "0.7582"),
        ("g6.xlarge", "us-east-1", "on_demand", "0.8048"),
        ("g5.xlarge", "us-east-1", "on_demand", "1.006"),
        ("trn1.2xlarge", "us-east-1", "on_demand", "1.34375"),
        ("trn1.32xlarge", "us-east-1", "on_demand", "21.50"),
        ("p4d.24xlarge", "us-east-1", "on_demand", "21.957642"),
        ("p4de.24xlarge", "us-east-1", "on_demand", "27.44705"),
        ("p5.48xlarge", "us-east-1", "on_demand", "55.04"),
        ("p5en.48xlarge", "us-east-1", "on_demand", "63.296"),
        ("p5.4xlarge", "us-east-1", "on_demand", "6.88"),
        ("inf2.xlarge", "us-east-1", "reserved_3yr_no_upfront", "0.32754"),
        ("inf2.48xlarge", "us-east-1", "reserved_3yr_no_upfront", "5.60791"),
        ("trn1.32xlarge", "us-east-1", "reserved_3yr_no_upfront", "8.19666"),
        ("p5.48xlarge", "us-west-2", "capacity_block", "41.528"),
        ("p5.48xlarge", "eu-north-1", "capacity_block", "37.76"),
        ("p4de.24xlarge", "us-east-1", "capacity_block", "17.712"),
        ("trn2.48xlarge", "us-east-2", "capacity_block", "35.7608"),
        ("trn2.48xlarge", "us-east-2", "on_demand", "85.964"),
    ],
)
def test_known_prices(instance_type, region, option, usd):
    price = prices.find(instance_type, region, option)
    assert price.usd_per_hour == Decimal(usd)
    assert (price.status, price.grade) == ("current", Grade.PUBLISHED)


def test_the_june_2025_cut_is_in_force():
    old, new = Decimal("32.7726"), prices.find("p4d.24xlarge", "us-east-1", "on_demand").usd_per_hour
    assert float(new / old) == pytest.approx(1 - 0.33, abs=0.001)
    assert old in {price.usd_per_hour for price in prices.history("p4d.24xlarge", "us-east-1", "on_demand")}


def test_find_returns_the_newest_current_row_everywhere():
    for price in prices.every():
        if price.status == "current":
            found = prices.find(price.instance_type, price.region, price.purchase_option)
            assert found.status == "current"
            assert found.as_of >= price.as_of


def test_stale_rows_are_never_current():
    for price in prices.every():
        text = price.note.lower()
        if "before the p4/p5 price cut" in text or "until the p4/p5 price cut" in text:
            assert price.status in ("superseded", "historic"), price
        if price.purchase_option.startswith("reserved") and price.instance_type[:2] in ("p4", "p5"):
            assert price.status == "superseded", price
        if price.status == "current" and price.purchase_option == "capacity_block":
            assert price.as_of == "2026-07-22", price


def test_a_derived_price_stands_in_and_is_graded_estimated():
    price = prices.find("p4d.24xlarge", "eu-west-1", "on_demand")
    assert (price.status, price.grade) == ("derived", Grade.ESTIMATED)
    # 35.39655 before the cut, times 21.957642 / 32.7726
    assert float(price.usd_per_hour) == pytest.approx(35.39655 * 21.957642 / 32.7726, abs=1e-5)
    assert price.quantity().grade is Grade.ESTIMATED
    with pytest.raises(ValueError, match="estimated"):
        price.published()


def test_grades_follow_the_status():
    for price in prices.every():
        estimated = price.status in ("derived", "estimate")
        assert price.grade is (Grade.ESTIMATED if estimated else Grade.PUBLISHED)
        assert (price.purchase_option == "spot_estimate") is (price.status == "estimate")


def test_spot_is_saving_times_on_demand():
    price = prices.find("inf2.xlarge", "us-east-1", "spot_estimate")
    assert price.grade is Grade.ESTIMATED
    assert float(price.usd_per_hour) == pytest.approx(0.7582 * (1 - 0.78), abs=1e-4)


def test_a_superseded_price_is_refused_by_name_but_can_be_asked_for():
    key = ("p4d.24xlarge", "us-east-1", "reserved_3yr_no_upfront")
    with pytest.raises(NotFound) as caught:
        prices.find(*key)
    message = str(caught.value)
    assert "12.4989613" in message and "superseded" in message and "2025-04-05" in message
    assert "on_demand in us-east-1 21.957642" in message
    assert prices.find(*key, status="superseded").usd_per_hour == Decimal("12.4989613")


def test_not_sold_names_the_nearest_rows():
    with pytest.raises(NotFound) as caught:
        prices.find("trn2.48xlarge", "us-east-1", "on_demand")
    message = str(caught.value)
    assert "not sold or not quoted: trn2.48xlarge in us-east-1 on_demand" in message
    assert "capacity_block in us-east-2 35.7608" in message
    with pytest.raises(NotFound, match=r"capacity_block in us-(east-2|west-2) 47.76"):
        prices.find("p5e.48xlarge", "us-east-1", "on_demand")
    with pytest.raises(NotFound, match="sold as capacity blocks only.*capacity_block in sa-east-1 2.235"):
        prices.find("trn2.3xlarge", "sa-east-1", "on_demand")
    with pytest.raises(NotFound, match="no price of this type at all"):
        prices.find("trn2u.48xlarge", "us-east-1", "on_demand")


def test_unknown_names_say_what_is_allowed():
    with pytest.raises(NotFound, match="nearest: g6.xlarge"):
        prices.find("g6.xlrage", "us-east-1", "on_demand")
    with pytest.raises(NotFound) as caught:
        prices.find("g6.xlarge", "mars-north-1", "on_demand")
    assert all(region in str(caught.value) for region in NINE)
    with pytest.raises(NotFound) as caught:
        prices.find("g6.xlarge", "us-east-1", "savings_plan")
    assert all(option in str(caught.value) for option in prices.OPTIONS)


def test_regions_and_options():
    assert prices.regions() == tuple(sorted({*NINE, "sa-east-1", "ap-southeast-4"})), "two of them for the smallest Trn2 only"
    assert availability.covered() == NINE
    assert {price.purchase_option for price in prices.every()} == set(prices.options())
    assert {price.status for price in prices.every()} == set(prices.STATUSES)


def test_history_is_newest_first_and_empty_where_there_is_none():
    rows = prices.history("p5.48xlarge", "us-east-1", "capacity_block")
    assert [price.usd_per_hour for price in rows] == [Decimal("41.528"), Decimal("31.464"), Decimal("39.33")]
    assert prices.history("g6.xlarge", "us-east-1", "capacity_block") == ()


def test_the_neuron_pages_round_the_three_year_reserved_rate():
    printed = [price for price in prices.every() if price.source == "neuron-instance-prices"]
    assert len(printed) == 10
    for price in printed:
        exact = prices.find(price.instance_type, "us-east-1", "reserved_3yr_no_upfront")
        assert exact.status == "current"
        assert abs(exact.usd_per_hour - price.usd_per_hour) <= Decimal("0.0005")


def test_prices_are_plausible():
    for price in prices.every():
        assert Decimal("0.01") < price.usd_per_hour < 200, price
    for price in prices.every():
        if price.status == "current" and price.purchase_option == "reserved_3yr_no_upfront":
            one = prices.find(price.instance_type, price.region, "reserved_1yr_no_upfront")
            assert price.usd_per_hour < one.usd_per_hour


def test_quantity_and_pedigree():
    price = prices.find("g6.xlarge", "us-east-1", "on_demand")
    quantity = price.quantity()
    assert (quantity.value, quantity.unit, quantity.grade) == (0.8048, "USD/h", Grade.PUBLISHED)
    pedigree = price.published()
    assert pedigree.price_basis == "on_demand" and pedigree.conditions["region"] == "us-east-1"


def test_table():
    pytest.importorskip("pandas")
    frame = prices.table(instance_types=("g6.xlarge", "inf2.xlarge"), region="us-east-1", purchase_option="on_demand")
    assert set(frame["instance_type"]) == {"g6.xlarge", "inf2.xlarge"}
    assert set(frame["status"]) == {"current"}
    assert frame["usd_per_hour"].dtype == float
    empty = prices.table(region="nowhere")
    assert len(empty) == 0 and "usd_per_hour" in empty.columns


# -- age and basis ----------------------------------------------------------------------------


def test_age_is_counted_in_days_and_never_negative():
    price = prices.find("inf2.xlarge", "us-east-1", "on_demand")
    assert price.as_of == "2026-07-20"
    assert prices.age_days(price, date(2026, 11, 30)) == 11 + 31 + 30 + 31 + 30  # July 20 to November 30
    assert prices.age_days("2026-11-30", date(2026, 11, 30)) == 0
    assert prices.age_days("2026-12-01", date(2026, 11, 30)) == 0


def test_prices_are_old_after_180_days_and_not_on_the_last_of_them():
    as_of = {"l4": "2026-06-03", "inf2": "2026-11-01", "none": None}
    assert prices.old_prices(as_of, date(2026, 11, 30)) == ()  # June 3 to November 30 is 180 days
    [finding] = prices.old_prices(as_of, date(2026, 12, 1))
    assert finding.code == "prices_old" and "l4 2026-06-03 (181 days)" in finding.because and "inf2" not in finding.because


def test_two_bases_are_refused_with_both_named():
    ours, theirs = prices.find("inf2.xlarge", "us-east-1", "on_demand"), prices.find("g6.xlarge", "us-east-1", "on_demand")
    assert prices.same_basis([ours, theirs]) == "on demand in us-east-1"
    with pytest.raises(NotComparable, match="inf2.xlarge reserved 3yr no upfront in us-east-1"):
        prices.same_basis([theirs, prices.find("inf2.xlarge", "us-east-1", "reserved_3yr_no_upfront")])
    with pytest.raises(NotComparable, match="in eu-west-1 against g6.xlarge"):
        prices.same_basis([prices.find("inf2.xlarge", "eu-west-1", "on_demand"), theirs])


def test_a_price_of_zero_is_no_price():
    price = prices.find("inf2.xlarge", "us-east-1", "on_demand")
    for amount in ("0", "-1", "NaN"):
        with pytest.raises(BadInput, match="a price of zero is no price"):
            replace(price, usd_per_hour=Decimal(amount))


def test_a_discount_makes_an_estimate_and_leaves_capacity_blocks_alone():
    price = prices.find("inf2.xlarge", "us-east-1", "on_demand")
    assert prices.discounted(price, 0) == price.quantity()
    less = prices.discounted(price, 0.12)
    assert less.value == pytest.approx(0.7582 * 0.88) and less.grade is Grade.ESTIMATED and "pricing.discount" in less.why
    block = prices.find("p5.48xlarge", "us-east-1", "capacity_block")
    assert prices.discounted(block, 0.12).value == 41.528
    for fraction in (-0.1, 1, 12):
        with pytest.raises(BadInput, match="pricing.discount"):
            prices.discounted(price, fraction)


def test_interruption_bands_of_the_spot_advisor():
    bands = {name: prices.interruption_band(prices.find(name, "us-east-1", "spot_estimate")) for name in ("inf2.xlarge", "g5.xlarge", "g4dn.xlarge")}
    assert bands == {"inf2.xlarge": "<5%", "g5.xlarge": ">20%", "g4dn.xlarge": "15-20%"}
    assert prices.interruption_band(prices.find("inf2.xlarge", "us-east-1", "on_demand")) is None


def test_sagemaker_asks_more_than_ec2_for_every_type_that_both_have():
    rows = [price for price in prices.every() if price.purchase_option == "sagemaker_hosting" and price.status == "current"]
    assert len(rows) == 23
    for price in rows:
        premium = float(price.usd_per_hour / prices.find(price.instance_type, "us-east-1", "on_demand").usd_per_hour) - 1
        assert 0.19 < premium < 0.401, price
    assert prices.find("trn1.32xlarge", "us-east-1", "sagemaker_hosting").usd_per_hour == Decimal("28.497")


# -- where it is sold at all ------------------------------------------------------------------


def test_availability_of_known_types():
    inf2, p5e, trn2 = (prices.availability(name) for name in ("inf2.8xlarge", "p5e.48xlarge", "trn2.48xlarge"))
    assert inf2.on_demand_regions == NINE and inf2.smallest_of_family == "inf2.xlarge" and not inf2.capacity_block_only
    assert p5e.capacity_block_only and "us-east-1" not in p5e.regions
    assert trn2.options == {"us-east-2": ("on_demand", "capacity_block")} and trn2.smallest_of_family == "trn2.3xlarge"
    assert trn2.spot_regions == ()
    assert prices.availability("trn1.32xlarge").smallest_of_family == "trn1.2xlarge"
    assert not prices.availability("trn2u.48xlarge").sold
    with pytest.raises(NotFound, match="inf2.xlarge"):
        prices.availability("inf2.xlarg")


@pytest.mark.parametrize(
    ("instance_type", "region", "option", "code", "words"),
    [
        ("inf2.xlarge", "us-east-1", "on_demand", None, ""),
        ("inf2.xlarge", "us-east-1", "spot", None, ""),
        ("trn1.32xlarge", "eu-west-1", "on_demand", "not_sold_in_region", "it is sold in ap-south-1"),
        ("p5e.48xlarge", "us-east-1", "on_demand", "capacity_block_only", "prepaid"),
        ("trn2.3xlarge", "us-east-1", "on_demand", "capacity_block_only", "ap-southeast-4, sa-east-1"),
        ("trn2.48xlarge", "us-east-2", "spot_estimate", "spot_absent", "on demand, capacity block"),
        ("inf2.xlarge", "us-east-1", "capacity_block", "not_sold_this_way", "no capacity block price"),
        ("trn2u.48xlarge", "us-east-1", "on_demand", "not_sold_in_region", "or anywhere else"),
        ("g6.xlarge", "sa-east-1", "on_demand", None, ""),  # no list covers that region, so nothing is said
    ],
)
def test_what_cannot_be_bought_is_a_finding_and_refused_with_the_reason(instance_type, region, option, code, words):
    found = availability.findings("inf2", instance_type, region, option)
    assert [finding.code for finding in found] == ([code] if code else [])
    if code:
        assert words in found[0].because and found[0].next and found[0].target == "inf2"
        with pytest.raises(NotComparable, match=code.replace("_", " ")):
            availability.refuse(instance_type, region, option)
    else:
        availability.refuse(instance_type, region, option)
