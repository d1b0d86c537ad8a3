"""Prices: known digits, the status rules, and messages that say what is missing and what is near."""

from decimal import Decimal

import pytest
from neuronfit.catalog import prices
from neuronfit.errors import NotFound
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
    with pytest.raises(NotFound, match="no price of this type at all"):
        prices.find("trn2.3xlarge", "us-east-1", "on_demand")


def test_unknown_names_say_what_is_allowed():
    with pytest.raises(NotFound, match="nearest: g6.xlarge"):
        prices.find("g6.xlrage", "us-east-1", "on_demand")
    with pytest.raises(NotFound) as caught:
        prices.find("g6.xlarge", "mars-north-1", "on_demand")
    assert all(region in str(caught.value) for region in NINE)
    with pytest.raises(NotFound) as caught:
        prices.find("g6.xlarge", "us-east-1", "savings_plan")
    assert all(option in str(caught.value) for option in prices.options())


def test_regions_and_options():
    assert prices.regions() == NINE
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
