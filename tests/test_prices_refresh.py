"""Refreshing prices: botocore's Stubber answers with the documented shapes, so nothing leaves this host."""

from __future__ import annotations

import json
from datetime import date, datetime, timezone
from decimal import Decimal
from pathlib import Path

import pytest
from click.testing import CliRunner
from neuronfit.catalog import availability, prices, tables
from neuronfit.cli import group
from neuronfit.errors import BadInput, NotFound, WaitingForEvidence
from neuronfit.price_lists import aws
from neuronfit.price_lists import refresh as refreshing

boto3 = pytest.importorskip("boto3")
from botocore.stub import ANY, Stubber  # noqa: E402

NOW = datetime(2026, 11, 30, 12, 0, tzinfo=timezone.utc)
TODAY = date(2026, 11, 30)
SHIPPED_FILE = Path(tables.__file__).parent / "prices.csv"


# -- doubles ----------------------------------------------------------------------------------


class Connection:
    """Hands out stubbed clients; what was not prepared is an error of the test."""

    def __init__(self):
        self.stubs: dict[tuple[str, str], Stubber] = {}

    def stub(self, service: str, region: str = "us-east-1") -> Stubber:
        if (service, region) not in self.stubs:
            client = boto3.client(service, region_name=region, aws_access_key_id="id", aws_secret_access_key="key")
            self.stubs[service, region] = Stubber(client)
            self.stubs[service, region].activate()
        return self.stubs[service, region]

    def client(self, service: str, region_name: str, config: object) -> object:
        return self.stubs[service, region_name].client

    def get_partition_for_region(self, region: str) -> str:
        return boto3.Session().get_partition_for_region(region)


@pytest.fixture
def connection() -> Connection:
    return Connection()


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """Refreshed prices of this test only."""
    monkeypatch.setenv("NEURONFIT_PRICES", str(tmp_path / "prices"))
    prices.reread()
    yield tmp_path / "prices"
    monkeypatch.undo()
    prices.reread()


def item(name="inf2.xlarge", region="us-east-1", usd="0.7000000000", sku="SKU1", currency="USD", reserved=()) -> str:
    """One element of PriceList: a JSON string. ``reserved`` is (years, payment, hourly, upfront) each."""
    terms = {
        "OnDemand": {
            f"{sku}.JRTCKXETXF": {
                "sku": sku,
                "effectiveDate": "2026-11-01T00:00:00Z",
                "termAttributes": {},
                "priceDimensions": {f"{sku}.JRTCKXETXF.6YS6EN2CT7": {"unit": "Hrs", "pricePerUnit": {currency: usd}}},
            }
        }
    }
    for number, (years, payment, hourly, upfront) in enumerate(reserved):
        dimensions = {"hourly": {"unit": "Hrs", "pricePerUnit": {currency: hourly}}}
        if upfront is not None:
            dimensions["upfront"] = {"unit": "Quantity", "pricePerUnit": {currency: upfront}}
        terms.setdefault("Reserved", {})[f"{sku}.R{number}"] = {
            "effectiveDate": "2026-11-01T00:00:00Z",
            "termAttributes": {"LeaseContractLength": f"{years}yr", "OfferingClass": "standard", "PurchaseOption": payment},
            "priceDimensions": dimensions,
        }
    attributes = {"instanceType": name, "regionCode": region, "operatingSystem": "Linux", "tenancy": "Shared"}
    return json.dumps({"product": {"sku": sku, "attributes": attributes}, "terms": terms, "publicationDate": "2026-11-20T00:00:00Z"})


def page(*items: str, token: str | None = None) -> dict:
    return {"FormatVersion": "aws_v1", "PriceList": list(items), **({"NextToken": token} if token else {})}


def ask(connection: Connection, *types: str, options=("on_demand",), regions=("us-east-1",)) -> refreshing.Refreshed:
    return refreshing.refresh(connection, types=types, options=options, regions=regions, now=NOW)


# -- the price list ---------------------------------------------------------------------------


def test_pages_are_followed_and_the_filters_are_the_documented_ones(connection):
    stub = connection.stub("pricing")
    wanted = {
        "instanceType": "inf2.xlarge",
        "regionCode": "us-east-1",
        "locationType": "AWS Region",
        "operatingSystem": "Linux",
        "tenancy": "Shared",
        "preInstalledSw": "NA",
        "capacitystatus": "Used",
        "marketoption": "OnDemand",
        "licenseModel": "No License required",
    }
    asked = {
        "ServiceCode": "AmazonEC2",
        "FormatVersion": "aws_v1",
        "MaxResults": 100,
        "Filters": [{"Type": "TERM_MATCH", "Field": field, "Value": value} for field, value in wanted.items()],
    }
    stub.add_response("get_products", page(item(usd="0.0000000000", sku="ZERO"), token="two"), asked)
    stub.add_response("get_products", page(item(usd="0.7100000000")), {**asked, "NextToken": "two"})
    done = ask(connection, "inf2.xlarge")
    stub.assert_no_pending_responses()
    assert done.failures == () and done.absent == ()
    [change] = done.changes
    assert change.old.usd_per_hour == Decimal("0.7582")
    assert change.fraction == pytest.approx(0.71 / 0.7582 - 1)
    found = prices.find("inf2.xlarge", "us-east-1", "on_demand")
    assert (found.usd_per_hour, found.as_of, found.source) == (Decimal("0.71"), "2026-11-30", "aws-price-list-api")
    assert "effective 2026-11-01" in found.note and "published 2026-11-20" in found.note
    assert found.published().date == "2026-11-30"


def test_reserved_prices_spread_the_upfront_fee_over_the_hours(connection):
    reserved = [(1, "No Upfront", "0.5000000000", None), (3, "Partial Upfront", "0.1046300000", "2750"), (3, "All Upfront", "0.0000000000", "8760")]
    connection.stub("pricing").add_response("get_products", page(item(reserved=reserved)))
    options = ("reserved_1yr_no_upfront", "reserved_3yr_partial_upfront", "reserved_3yr_all_upfront")
    ask(connection, "inf2.xlarge", options=options)
    found = [prices.find("inf2.xlarge", "us-east-1", option).usd_per_hour for option in options]
    assert found[0] == Decimal("0.5")
    assert float(found[1]) == pytest.approx(0.10463 + 2750 / (3 * 8760), abs=1e-9)  # 0.20927
    assert float(found[2]) == pytest.approx(8760 / (3 * 8760), abs=1e-9)
    assert prices.find("inf2.xlarge", "us-east-1", "on_demand").source != "aws-price-list-api", "it was not asked for"


def test_two_prices_for_one_type_fail_loudly_and_the_old_price_stays(connection):
    connection.stub("pricing").add_response("get_products", page(item(usd="0.70", sku="A"), item(usd="0.90", sku="B")))
    connection.stub("pricing").add_response("get_products", page(item("g6.xlarge", usd="0.81", sku="C"), item("g6.xlarge", usd="0.81", sku="D")))
    done = ask(connection, "inf2.xlarge", "g6.xlarge")
    [failure] = done.failures
    assert "2 on_demand prices where one was expected (A 0.70, B 0.90)" in str(failure)
    assert prices.find("inf2.xlarge", "us-east-1", "on_demand").usd_per_hour == Decimal("0.7582")
    assert prices.find("g6.xlarge", "us-east-1", "on_demand").usd_per_hour == Decimal("0.81"), "two SKUs that agree are one price"


def test_a_list_of_zeros_is_recorded_as_no_price(connection, folder):
    assert availability.availability("trn2.48xlarge").is_sold("us-east-2", "on_demand")
    connection.stub("pricing").add_response("get_products", page(item("trn2.48xlarge", "us-east-2", usd="0.0000000000")))
    done = ask(connection, "trn2.48xlarge", regions=("us-east-2",))
    assert done.changes == () and done.failures == ()
    [(_, _, option, why)] = done.absent
    assert option == "on_demand" and "no on-demand price" in why and "1 rows of 0 dropped" in why
    assert ",absent," in (folder / "prices-2026-11-30.csv").read_text()
    assert prices.find("trn2.48xlarge", "us-east-2", "on_demand").usd_per_hour == Decimal("85.964"), "the old price stays"
    sold = availability.availability("trn2.48xlarge")
    assert sold.capacity_block_only
    [finding] = availability.findings("trn2", "trn2.48xlarge", "us-east-2", "on_demand")
    assert finding.code == "capacity_block_only"


def test_a_throttled_look_up_takes_nothing_else_with_it(connection, folder):
    stub = connection.stub("pricing")
    stub.add_response("get_products", page(item(usd="0.70")))
    stub.add_response("get_products", page(item("g6.xlarge", usd="0.80"), token="two"))
    stub.add_client_error("get_products", "ThrottlingException", "Rate exceeded")
    stub.add_response("get_products", page(item("g5.xlarge", usd="1.00")))
    done = ask(connection, "inf2.xlarge", "g6.xlarge", "g5.xlarge")
    [failure] = done.failures
    assert (failure.instance_type, failure.because) == ("g6.xlarge", "ThrottlingException: Rate exceeded")
    found = {name: prices.find(name, "us-east-1", "on_demand").usd_per_hour for name in ("inf2.xlarge", "g6.xlarge", "g5.xlarge")}
    assert found == {"inf2.xlarge": Decimal("0.7"), "g6.xlarge": Decimal("0.8048"), "g5.xlarge": Decimal("1")}
    assert "g6.xlarge" not in done.path.read_text()


@pytest.mark.parametrize(
    ("broken", "because"),
    [
        ('{"product": ', "not the documented JSON"),
        ('{"terms": {}}', "not the documented JSON (KeyError: 'product')"),
        (item(usd="free"), "a price that is no number: 'free'"),
        (item(usd="-1"), "a price that is no amount"),
        (item(currency="CNY"), "prices in CNY, and this table is in USD"),
    ],
)
def test_an_answer_that_cannot_be_read_is_a_failure_with_its_reason(connection, broken, because):
    connection.stub("pricing").add_response("get_products", page(broken))
    done = ask(connection, "inf2.xlarge")
    assert because in done.failures[0].because
    assert done.path is None, "nothing is written when nothing came"
    assert prices.find("inf2.xlarge", "us-east-1", "on_demand").usd_per_hour == Decimal("0.7582")


def test_regions_that_do_not_exist_or_pay_in_another_currency(connection):
    connection.stub("pricing").add_response("get_products", page(item(region="eu-west-1", usd="0.94")))
    done = ask(connection, "inf2.xlarge", regions=("us-mars-one", "cn-north-1", "eu-west-1"))
    assert [failure.region for failure in done.failures] == ["us-mars-one", "cn-north-1"]
    assert "no AWS region is called us-mars-one" in done.failures[0].because
    assert "CNY" in done.failures[1].because
    assert prices.find("inf2.xlarge", "eu-west-1", "on_demand").usd_per_hour == Decimal("0.94")


def test_an_answer_for_another_region_is_not_taken_for_this_one(connection):
    connection.stub("pricing").add_response("get_products", page(item(region="us-west-2", usd="0.50")))
    done = ask(connection, "inf2.xlarge")
    assert done.changes == () and done.absent[0][2] == "on_demand"


def test_sagemaker_hosting_is_asked_by_its_own_name(connection):
    asked = [
        {"Type": "TERM_MATCH", "Field": "instanceName", "Value": "ml.inf2.xlarge"},
        {"Type": "TERM_MATCH", "Field": "regionCode", "Value": "us-east-1"},
        {"Type": "TERM_MATCH", "Field": "component", "Value": "Hosting"},
    ]
    connection.stub("pricing").add_response(
        "get_products",
        page(item("ml.inf2.xlarge", usd="0.95")),
        {"ServiceCode": "AmazonSageMaker", "FormatVersion": "aws_v1", "MaxResults": 100, "Filters": asked},
    )
    ask(connection, "inf2.xlarge", options=("sagemaker_hosting",))
    assert prices.find("inf2.xlarge", "us-east-1", "sagemaker_hosting").usd_per_hour == Decimal("0.95")


# -- Savings Plans ----------------------------------------------------------------------------


def rate(amount, plan="Compute", seconds=94_608_000, usage="BoxUsage:inf2.xlarge", operation="RunInstances", currency="USD") -> dict:
    return {
        "savingsPlanOffering": {"offeringId": "o", "paymentOption": "No Upfront", "planType": plan, "durationSeconds": seconds, "currency": currency},
        "rate": amount,
        "unit": "Hrs",
        "productType": "EC2",
        "serviceCode": "AmazonEC2",
        "usageType": usage,
        "operation": operation,
    }


def test_savings_plans_follow_tokens_and_leave_other_systems_and_hosts_out(connection):
    stub = connection.stub("savingsplans")
    asked = {
        "savingsPlanTypes": ["Compute", "EC2Instance"],
        "savingsPlanPaymentOptions": ["No Upfront"],
        "products": ["EC2"],
        "serviceCodes": ["AmazonEC2"],
        "filters": [
            {"name": "region", "values": ["us-west-2"]},
            {"name": "instanceType", "values": ["inf2.xlarge"]},
            {"name": "productDescription", "values": ["Linux/UNIX"]},
            {"name": "tenancy", "values": ["shared"]},
        ],
    }
    first = [
        rate("0.36", usage="USW2-BoxUsage:inf2.xlarge"),
        rate("0.99", usage="USW2-DedicatedUsage:inf2.xlarge"),
        rate("0.98", usage="USW2-BoxUsage:inf2.xlarge", operation="RunInstances:0010"),
        rate("0.97", usage="USW2-BoxUsage:inf2.8xlarge"),
    ]
    second = [rate("0.31", "EC2Instance", usage="USW2-BoxUsage:inf2.xlarge"), rate("0.52", seconds=31_536_000, usage="USW2-BoxUsage:inf2.xlarge")]
    stub.add_response("describe_savings_plans_offering_rates", {"searchResults": first, "nextToken": "t"}, asked)
    stub.add_response("describe_savings_plans_offering_rates", {"searchResults": second}, {**asked, "nextToken": "t"})
    done = ask(connection, "inf2.xlarge", options=refreshing.LOOKUPS["savings_plans"], regions=("us-west-2",))
    assert done.failures == ()
    assert {change.new.purchase_option: change.new.usd_per_hour for change in done.changes} == {
        "compute_savings_plan_1yr_no_upfront": Decimal("0.52"),
        "compute_savings_plan_3yr_no_upfront": Decimal("0.36"),
        "instance_savings_plan_3yr_no_upfront": Decimal("0.31"),
    }
    assert [row[2] for row in done.absent] == ["instance_savings_plan_1yr_no_upfront"]
    assert "compute_savings_plan_3yr_no_upfront" in prices.options(), "a refreshed way to buy is a way to buy"


def test_savings_plans_that_disagree_or_never_end_are_refused(connection):
    stub = connection.stub("savingsplans")
    stub.add_response("describe_savings_plans_offering_rates", {"searchResults": [rate("0.36"), rate("0.37")]})
    with pytest.raises(aws.Unusable, match="2 compute_savings_plan_3yr_no_upfront rates"):
        aws.savings_plans(stub.client, "inf2.xlarge", "us-east-1", TODAY)
    for _ in range(3):
        stub.add_response("describe_savings_plans_offering_rates", {"searchResults": [], "nextToken": "again"})
    with pytest.raises(aws.Unusable, match="repeat"):
        aws.savings_plans(stub.client, "inf2.xlarge", "us-east-1", TODAY)


# -- spot and capacity blocks -----------------------------------------------------------------


def offer(zone, amount, hour, product="Linux/UNIX") -> dict:
    when = datetime(2026, 11, 30, hour, tzinfo=timezone.utc)
    return {
        "AvailabilityZone": f"us-east-1{zone[-1]}",
        "InstanceType": "inf2.xlarge",
        "ProductDescription": product,
        "SpotPrice": amount,
        "Timestamp": when,
    }


def test_spot_is_the_median_of_the_latest_price_of_each_zone(connection):
    rows = [
        offer("a", "0.90", 1),
        offer("a", "0.20", 9),
        offer("b", "0.30", 8),
        offer("c", "0.60", 7),
        offer("c", "0.10", 6, "Linux/UNIX (Amazon VPC)"),
    ]
    asked = {"InstanceTypes": ["inf2.xlarge"], "ProductDescriptions": ["Linux/UNIX", "Linux/UNIX (Amazon VPC)"], "StartTime": NOW}
    stub = connection.stub("ec2")
    stub.add_response("describe_spot_price_history", {"SpotPriceHistory": rows[:2], "NextToken": "n"}, asked)
    stub.add_response("describe_spot_price_history", {"SpotPriceHistory": rows[2:]}, {**asked, "NextToken": "n"})
    ask(connection, "inf2.xlarge", options=("spot",))
    found = prices.find("inf2.xlarge", "us-east-1", "spot")
    assert found.usd_per_hour == Decimal("0.3")
    assert "from 0.20 (us-east-1a) to 0.60 (us-east-1c)" in found.note and "3 zones" in found.note
    assert prices.interruption_band(found) == "<5%"


def test_no_spot_anywhere_is_recorded(connection):
    connection.stub("ec2").add_response("describe_spot_price_history", {"SpotPriceHistory": []})
    done = ask(connection, "trn2.48xlarge", options=("spot",))
    assert done.absent == (("trn2.48xlarge", "us-east-1", "spot", "no spot price in any zone"),)


def test_a_capacity_block_costs_its_fee_over_hours_and_instances(connection):
    def block(fee, hours, count, currency="USD"):
        return {
            "UpfrontFee": fee,
            "CurrencyCode": currency,
            "CapacityBlockDurationHours": hours,
            "InstanceCount": count,
            "InstanceType": "p5.48xlarge",
        }

    stub = connection.stub("ec2")
    asked = {"InstanceType": "p5.48xlarge", "InstanceCount": 1, "CapacityDurationHours": 24, "StartDateRange": NOW, "EndDateRange": ANY}
    stub.add_response("describe_capacity_block_offerings", {"CapacityBlockOfferings": [block("1200.00", 24, 1)], "NextToken": "n"}, asked)
    stub.add_response(
        "describe_capacity_block_offerings",
        {"CapacityBlockOfferings": [block("4800.00", 24, 4), block("1440.00", 24, 1)]},
        {**asked, "NextToken": "n"},
    )
    done = ask(connection, "p5.48xlarge", options=("capacity_block",))
    [change] = done.changes
    assert change.new.usd_per_hour == Decimal("50")  # 1200/24, 4800/(24 x 4) and 1440/24 are 50, 50 and 60
    assert change.old.usd_per_hour == Decimal("41.528")
    stub.add_response("describe_capacity_block_offerings", {"CapacityBlockOfferings": [block("1", 24, 1, "EUR")]})
    with pytest.raises(aws.Unusable, match="EUR"):
        aws.capacity_block(stub.client, "p5.48xlarge", "us-east-1", NOW)


# -- files ------------------------------------------------------------------------------------


def test_the_shipped_snapshot_is_never_edited_and_a_second_refresh_of_the_day_keeps_the_first(connection, folder):
    before = SHIPPED_FILE.read_bytes()
    connection.stub("pricing").add_response("get_products", page(item(usd="0.70")))
    connection.stub("pricing").add_response("get_products", page(item("g6.xlarge", usd="0.80")))
    ask(connection, "inf2.xlarge")
    ask(connection, "g6.xlarge")
    assert SHIPPED_FILE.read_bytes() == before
    assert [path.name for path in folder.iterdir()] == ["prices-2026-11-30.csv"], "whole, and nothing temporary left"
    assert prices.find("inf2.xlarge", "us-east-1", "on_demand").usd_per_hour == Decimal("0.7")
    assert prices.find("g6.xlarge", "us-east-1", "on_demand").usd_per_hour == Decimal("0.8")
    assert len(prices.history("inf2.xlarge", "us-east-1", "on_demand")) > 1, "older prices are history, not gone"


def written(folder: Path, name: str, *rows: str) -> None:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text("\n".join([",".join(prices.COLUMNS), *rows]) + "\n")
    prices.reread()


def test_the_newest_date_wins_whichever_file_it_is_in(folder):
    row = "inf2.xlarge,us-east-1,on_demand,{},{},current,published,aws-price-list-api,"
    written(folder, "prices-2026-01-01.csv", row.format("0.5", "2026-01-01"))
    assert prices.find("inf2.xlarge", "us-east-1", "on_demand").as_of == "2026-07-20", "the shipped one is newer"
    written(folder, "prices-2026-10-01.csv", row.format("0.6", "2026-10-01"))
    assert prices.find("inf2.xlarge", "us-east-1", "on_demand").usd_per_hour == Decimal("0.6")


@pytest.mark.parametrize(
    "row",
    [
        "inf2.xlarge,us-east-1,on_demand,0,2026-10-01,current,published,aws-price-list-api,",
        "inf2.xlarge,us-east-1,on_demand,cheap,2026-10-01,current,published,aws-price-list-api,",
        "inf2.xlarge,us-east-1,on_demand,1.0,October,current,published,aws-price-list-api,",
        "inf2.xlarge,us-east-1,on_demand",
    ],
)
def test_a_damaged_file_is_named_with_its_line(folder, row):
    with pytest.raises(BadInput, match=r"prices-2026-10-01.csv, line 2 is no price row"):
        written(folder, "prices-2026-10-01.csv", row)
        prices.every()


def test_another_files_columns_are_refused(folder):
    folder.mkdir()
    (folder / "prices-x.csv").write_text("a,b\n1,2\n")
    prices.reread()
    with pytest.raises(BadInput, match="not a refreshed price file"):
        prices.every()


# -- names, credentials, the command ----------------------------------------------------------


def test_names_are_checked_before_anything_is_asked(connection):
    with pytest.raises(NotFound, match="inf2.xlarge"):
        ask(connection, "inf2.xlrage")
    with pytest.raises(BadInput, match="nearest: on_demand"):
        ask(connection, "inf2.xlarge", options=("ondemand",))


def test_refused_credentials_end_the_refresh_and_denied_access_does_not(connection):
    stub = connection.stub("pricing")
    stub.add_client_error("get_products", "AccessDeniedException", "not authorized to perform pricing:GetProducts")
    done = ask(connection, "inf2.xlarge")
    assert "pricing:GetProducts" in done.failures[0].because
    stub.add_client_error("get_products", "ExpiredTokenException", "The security token is expired")
    with pytest.raises(WaitingForEvidence, match="ExpiredTokenException"):
        ask(connection, "inf2.xlarge")


@pytest.fixture
def nobody(monkeypatch, tmp_path):
    for name in ("AWS_PROFILE", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))


def test_without_credentials_the_message_says_which_snapshot_serves(nobody):
    with pytest.raises(WaitingForEvidence) as caught:
        refreshing.connect()
    assert f"the shipped snapshot of {prices.shipped_as_of()} serves" in str(caught.value)
    assert caught.value.exit_status == 3
    with pytest.raises(WaitingForEvidence, match="nobody"):
        refreshing.connect("nobody")


def test_the_command_shows_what_changed_and_ends_with_1_when_a_look_up_failed(connection, monkeypatch):
    monkeypatch.setattr(refreshing, "connect", lambda profile: connection)
    stub = connection.stub("pricing")
    stub.add_response("get_products", page(item(usd="0.6823800000")))
    ran = CliRunner().invoke(group, ["prices", "refresh", "--types", "inf2.xlarge", "--options", "on_demand"], standalone_mode=False)
    assert ran.return_value == 0
    assert "1 prices changed, 0 new, 0 as before" in ran.output
    assert "0.7582 -> 0.68238 USD/h  (-10.0% since 2026-07-20)" in ran.output
    stub.add_client_error("get_products", "ThrottlingException", "Rate exceeded")
    stub.add_response("get_products", page(item("g6.xlarge", usd="0.80")))
    ran = CliRunner().invoke(
        group, ["prices", "refresh", "--types", "inf2.xlarge,g6.xlarge", "--options", "on_demand", "--json"], standalone_mode=False
    )
    assert ran.return_value == 1
    answer = json.loads(ran.output)
    assert answer["failures"] == ["list of inf2.xlarge in us-east-1: ThrottlingException: Rate exceeded"]
    [row] = answer["prices"]
    assert (row["instance_type"], row["usd_per_hour"], row["was_usd_per_hour"]) == ("g6.xlarge", 0.8, 0.8048)


def test_shipped_only_means_no_refresh(connection, monkeypatch):
    monkeypatch.setenv("NEURONFIT_PRICES", "shipped")
    with pytest.raises(BadInput, match="NEURONFIT_PRICES"):
        ask(connection, "inf2.xlarge")
