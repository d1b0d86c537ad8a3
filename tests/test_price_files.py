"""Price files of other tools: what they are, on which basis, and what a reader must be told. Own files of the same shapes."""

from __future__ import annotations

import json
import textwrap
from decimal import Decimal

import pytest
from click.testing import CliRunner
from neuronfit.catalog import prices
from neuronfit.cli import group
from neuronfit.errors import BadInput, BadRecord
from neuronfit.price_lists import foreign


def read(tmp_path, text, name="file.txt"):
    """``read`` of a file with this text, or with this mapping as JSON."""
    path = tmp_path / name
    path.write_text(json.dumps(text) if isinstance(text, dict) else textwrap.dedent(text).lstrip("\n"), encoding="utf-8")
    return foreign.read(path)


def said(found, code) -> str:
    """What is remarked under this code; fails where nothing is."""
    texts = [remark.because for remark in found.remarks if remark.code == code]
    assert texts, f"no {code} among {[remark.code for remark in found.remarks]}"
    return " / ".join(texts)


def codes(found) -> set[str]:
    return {remark.code for remark in found.remarks}


# -- AWS --------------------------------------------------------------------------------------


def sku(name, region, *amounts, currency="USD", gpu=None, system="Linux") -> list[str]:
    attributes = {"instanceType": name, "regionCode": region, "operatingSystem": system, "tenancy": "Shared", **({"gpu": gpu} if gpu else {})}
    return [
        json.dumps(
            {
                "product": {"sku": f"S{number}", "attributes": attributes},
                "terms": {"OnDemand": {"t": {"priceDimensions": {"d": {"unit": "Hrs", "pricePerUnit": {currency: amount}}}, "termAttributes": {}}}},
                "publicationDate": "2026-09-10T19:55:14Z",
            }
        )
        for number, amount in enumerate(amounts)
    ]


def test_get_products_is_decoded_twice_and_regions_are_kept_apart(tmp_path):
    items = [
        *sku("inf2.xlarge", "us-east-1", "0.7582000000", gpu="1"),
        *sku("inf2.xlarge", "eu-west-1", "0.9477500000", gpu="1"),
        *sku("g5.2xlarge", "us-east-1", "1.2120000000", gpu="1"),
        *sku("g5.2xlarge", "eu-west-1", "1.3529600000", gpu="1"),
        *sku("g6.xlarge", "us-east-1", "0.8048000000", "0.0000000000"),
    ]
    found = read(tmp_path, {"FormatVersion": "aws_v1", "PriceList": items})
    assert (found.format, found.basis, found.currency, found.as_of) == ("aws_get_products", "on_demand", "USD", "2026-09-10")
    assert {(row.instance_type, row.region): row.per_hour for row in found.rows} == {
        ("inf2.xlarge", "us-east-1"): Decimal("0.7582"),
        ("inf2.xlarge", "eu-west-1"): Decimal("0.94775"),
        ("g5.2xlarge", "us-east-1"): Decimal("1.212"),
        ("g5.2xlarge", "eu-west-1"): Decimal("1.35296"),
        ("g6.xlarge", "us-east-1"): Decimal("0.8048"),
    }
    assert said(found, "not_offered") == "eu-west-1 has no g6.xlarge here; another region's price must not stand in"
    assert "inf2.xlarge x1.250, g5.2xlarge x1.116" in said(found, "ratio_depends_on_region")
    assert "inf2.xlarge 1" in said(found, "gpu_means_device") and "g5" not in said(found, "gpu_means_device")


def test_two_prices_of_one_type_are_left_out_and_said(tmp_path):
    found = read(tmp_path, {"PriceList": [*sku("g6.xlarge", "us-east-1", "0.80", "1.50"), *sku("g5.xlarge", "us-east-1", "0.00")]})
    assert found.rows == []
    assert "g6.xlarge in us-east-1 on_demand: 2 prices (0.80, 1.50)" in said(found, "not_one_price")
    assert "g5.xlarge in us-east-1 on_demand: no price above 0" in said(found, "not_one_price")
    windows = read(tmp_path, {"PriceList": sku("g6.xlarge", "us-east-1", "1.50", system="Windows")})
    assert windows.rows == []


def test_an_item_that_is_no_json_is_an_error_that_names_the_file(tmp_path):
    with pytest.raises(BadRecord, match="not the documented JSON.*file.txt"):
        read(tmp_path, {"PriceList": ['{"product"']})


BULK = """
    "FormatVersion","v1.0"
    "Disclaimer","words, with commas"
    "Publication Date","2025-09-12T22:53:08Z"
    "Version","20250912225308"
    "OfferCode","AmazonEC2"
    "SKU","OfferTermCode","TermType","PriceDescription","Unit","PricePerUnit","Currency","LeaseContractLength","PurchaseOption","OfferingClass","Instance Type","Tenancy","Operating System","Pre Installed S/W","Region Code"
    "A","T1","Reserved","hourly","Hrs","0.1000000000","USD","3yr","Partial Upfront","standard","g5.xlarge","Shared","Linux","NA","us-east-1"
    "A","T1","Reserved","Upfront Fee","Quantity","2628","USD","3yr","Partial Upfront","standard","g5.xlarge","Shared","Linux","NA","us-east-1"
    "B","T2","OnDemand","hourly","Hrs","1.0060000000","USD","","","","g5.xlarge","Shared","Linux","NA","us-east-1"
    "C","T2","OnDemand","hourly","Hrs","0.2000000000","USD","","","","c6i.large","Dedicated","Windows","SQL Web","us-east-1"
    "D","T2","OnDemand","storage","GB-Mo","0.1000000000","USD","","","","","","","","us-east-1"
"""


def test_the_bulk_list_pairs_hourly_and_upfront_rows(tmp_path):
    found = read(tmp_path, BULK)
    assert (found.format, found.as_of, found.currency) == ("aws_bulk_csv", "2025-09-12", "USD")
    reserved, on_demand = found.of_type("g5.xlarge")
    assert reserved.per_hour == Decimal("0.1") + Decimal(2628) / (3 * 8760) == Decimal("0.2")
    assert reserved.basis == "Reserved, 3yr, Partial Upfront, standard, Linux, Shared" and "2628 upfront" in reserved.note
    assert on_demand.per_hour == Decimal("1.006")
    assert "would understate" in said(found, "upfront_row") and "Windows" in said(found, "not_linux_shared")
    assert len(found.ours) == 2 and found.other_rows == 1


def test_a_bulk_list_that_is_cut_off(tmp_path):
    lines = BULK.strip().splitlines()
    with pytest.raises(BadInput):
        read(tmp_path, "\n".join(line.strip() for line in lines[:5]) + "\n")
    cut = read(tmp_path, "\n".join(line.strip() for line in lines[:8]) + '\n"B","T2","OnDem')
    assert "1 rows have fewer cells" in said(cut, "rows_cut_off") and cut.of_type("g5.xlarge")[0].per_hour == Decimal("0.2")


def test_savings_plans_have_another_layout_and_are_commitments(tmp_path):
    found = read(
        tmp_path,
        """
        FormatVersion,v1.0
        Publication Date,2025-09-11T18:44:47Z
        Version,20250911184447
        OfferCode,AmazonComputeSavingsPlan
        SKU,RateCode,Unit,DiscountedRate,Currency,DiscountedUsageType,DiscountedOperation,PurchaseOption,LeaseContractLength,LeaseContractLengthUnit,Product Family,DiscountedRegionCode,DiscountedInstanceType
        X,X.1,Hrs,0.33,USD,BoxUsage:inf2.xlarge,RunInstances,No Upfront,3,year,ComputeSavingsPlans,us-east-1,inf2.xlarge
        X,X.2,Hrs,0.99,USD,DedicatedUsage:inf2.xlarge,RunInstances,No Upfront,3,year,ComputeSavingsPlans,us-east-1,inf2.xlarge
        """,
    )
    assert found.format == "aws_savings_plans_csv" and found.basis == "3 year No Upfront commitment, ComputeSavingsPlans"
    assert [row.per_hour for row in found.rows] == [Decimal("0.33"), Decimal("0.99")]
    assert "never beside on-demand" in said(found, "commitment_price")
    assert "1 rows are dedicated hosts" in said(found, "not_shared_use")


# -- Karpenter, Neuron documentation, FMBench -------------------------------------------------

KARPENTER = """
    package pricing
    // generated at {date}T01:00:11Z for {region}
    var InitialOnDemandPrices = map[string]map[ec2types.InstanceType]float64{{
        "{region}": {{
            // g6 family
            {rows}
        }},
    }}
"""


def test_prices_of_china_are_in_cny_although_the_file_does_not_say_so(tmp_path):
    rows = '"g5.xlarge": 9.513890, "inf1.xlarge": 2.288000,'
    found = read(tmp_path, KARPENTER.format(date="2024-11-06", region="cn-north-1", rows=rows))
    assert (found.format, found.currency, found.as_of, found.basis) == ("karpenter_go", "CNY", "2024-11-06", "on_demand")
    assert found.of_type("g5.xlarge")[0].per_hour == Decimal("9.513890")
    assert "CNY" in said(found, "another_currency") and "converts nothing" in said(found, "another_currency")
    assert "does not name its currency" in said(found, "currency_by_region")
    assert "cn-north-1 (China) lists no inf2, trn1, trn2" in said(found, "not_offered")


def test_govcloud_lacks_whole_families_and_is_dearer(tmp_path):
    rows = '"g6.xlarge": 1.014400, "g6.2xlarge": 1.232200, "inf1.xlarge": 0.288000,'
    found = read(tmp_path, KARPENTER.format(date="2026-07-20", region="us-gov-west-1", rows=rows))
    assert found.currency == "USD"
    assert "us-gov-west-1 (GovCloud) lists no inf2, trn1, trn2, g5: not offered there" in said(found, "not_offered")
    assert "+26%" in said(found, "region_premium")  # 1.0144 / 0.8048 = 1.2604


def test_the_rates_of_the_neuron_documentation_are_recognised_as_three_year_reserved(tmp_path):
    found = read(tmp_path, "Inst. Type,RI-Effective hourly rate\nInf2.xlarge,0.328\nInf2.48xlarge,5.608\nInf2.8xlarge,0.850\n")
    assert found.basis == "reserved_3yr_no_upfront" and found.currency is None and found.as_of is None
    assert found.of_type("inf2.xlarge")[0].per_hour == Decimal("0.328"), "Inf2 and inf2 are one type"
    assert said(found, "basis_recognised").startswith("3 of 3 rates are the 3-year no-upfront reserved rates of us-east-1")
    assert "2.31 to 2.32 times" in said(found, "never_beside_on_demand")  # 0.7582 / 0.328 = 2.3116


def test_fmbench_mixes_three_kinds_of_price_and_two_of_them_are_stale(tmp_path):
    found = read(
        tmp_path,
        """
        pricing:
          instance_based:
            anthropic.claude-v3-sonnet-pt-nc: 88
            ml.g5.xlarge: 1.4084
            ml.inf2.xlarge: 0.99
            ml.p4d.24xlarge: 37.688
            p5e.48xlarge: 110.92
          token_based:
            anthropic.claude-3-5-sonnet-20240620-v1:0:
              input-per-1k-tokens: 0.003
        """,
    )
    assert found.format == "fmbench_pricing" and found.other_rows == 2
    assert "3 kinds in one file" in said(found, "kinds_of_price") and "88 an hour" in said(found, "kinds_of_price")
    assert {row.instance_type: row.basis for row in found.rows}["inf2.xlarge"] == "sagemaker_hosting"
    assert "31% to 40%" in said(found, "sagemaker_premium")  # 0.99 / 0.7582 = 1.306, 1.4084 / 1.006 = 1.400
    assert "ml.p4d.24xlarge is 1.72 times EC2 on demand" in said(found, "stale") and "32.7726" in said(found, "stale")
    assert "p5e.48xlarge 110.92" in said(found, "no_on_demand_price")


# -- what is on offer -------------------------------------------------------------------------


def test_capacity_blocks_are_prepaid_and_local_zones_are_no_regions(tmp_path):
    def row(region, each, hourly):
        return {"region_code": region, "hourly_rate_usd": hourly, "accelerator_hourly_rate_usd": each}

    trn2 = {"accelerator_count": 16, "pricing": [row("us-east-2", 2.23505, 35.7608), row("us-east-1-atl-2a", 2.0, 35.0)]}
    p5e = {"accelerator_count": 8, "pricing": [row("us-east-2", 5.97, 47.76)]}
    data = {"metadata": {"last_updated": "2026-07-22T07:14:56Z"}, "instance_types": {"trn2.48xlarge": trn2, "p5e.48xlarge": p5e}}
    found = read(tmp_path, data)
    assert (found.format, found.basis, found.currency, found.as_of) == ("capacity_blocks", "capacity_block", "USD", "2026-07-22")
    assert found.of_type("trn2.48xlarge")[0].per_hour == Decimal("35.7608")
    assert said(found, "local_zone") == "us-east-1-atl-2a: Local Zones, not Regions"
    assert "trn2.48xlarge in us-east-1-atl-2a: 2.0 x 16 is not 35.0" in said(found, "accelerators_do_not_add_up")
    assert said(found, "no_on_demand_price").startswith("p5e.48xlarge:")


def test_spot_advice_is_a_saving_and_a_band_and_no_price(tmp_path):
    data = {
        "ranges": [{"index": 0, "label": "<5%", "dots": 0, "max": 5}, {"index": 4, "label": ">20%", "dots": 4, "max": 100}],
        "instance_types": {"inf2.xlarge": {}, "g5.xlarge": {}, "trn2.48xlarge": {}},
        "spot_advisor": {
            "us-east-1": {"Linux": {"inf2.xlarge": {"s": 78, "r": 0}, "g5.xlarge": {"s": 59, "r": 4}}},
            "eu-west-1": {"Linux": {"g5.xlarge": {"s": 56, "r": 0}}},
        },
    }
    found = read(tmp_path, data)
    [inf2] = found.of_type("inf2.xlarge")
    assert inf2.per_hour == pytest.approx(Decimal("0.7582") * Decimal("0.22"), abs=Decimal("0.00001"))
    assert "78 % below on demand" in inf2.note and "<5%" in inf2.note and ">20%" in found.of_type("g5.xlarge")[0].note
    assert found.as_of is None and "undated" in said(found, "not_a_quote")
    assert "inf2.xlarge: no spot in eu-west-1" in said(found, "no_spot")
    assert "trn2.48xlarge: no spot in any region here" in said(found, "no_spot")


def test_skypilots_offers_are_rounded_and_name_the_wrong_generation(tmp_path):
    found = read(
        tmp_path,
        """
        I 01-31 21:48:06 optimizer.py:910]  CLOUD   INSTANCE      vCPUs   Mem(GB)   ACCELERATORS   REGION/ZONE   COST ($)   CHOSEN
        I 01-31 21:48:06 optimizer.py:910]  AWS     inf2.xlarge   4       16        Inferentia:1   us-west-2     0.76          OK
        I 01-31 21:48:06 optimizer.py:910] -----------------------------
        """,
    )
    assert found.of_type("inf2.xlarge")[0].per_hour == Decimal("0.76")
    assert "the list has 0.7582, +0.2%" in said(found, "rounded")
    assert "Inferentia:1 on inf2.xlarge" in said(found, "accelerator_generation")


def test_a_list_of_clouds_has_no_prices_and_says_so(tmp_path):
    found = read(tmp_path, 'AcceleratorName,Providers\nA10,"azure,lambda,oci"\nInferentia,aws\nT4,"aws,azure,gcp"\n')
    assert not found.is_prices and found.rows == [] and found.other_rows == 3
    assert "no price in this file" in said(found, "no_prices") and "Inferentia: aws" in said(found, "clouds")


# -- bills ------------------------------------------------------------------------------------


def test_focus_sums_are_exact_and_null_is_missing(tmp_path):
    head = (
        "BilledCost,BillingCurrency,ChargeDescription,ChargePeriodStart,ConsumedQuantity,ConsumedUnit,ContractedCost,EffectiveCost,ListCost,RegionId"
    )
    rows = [
        '0.10,USD,"$1.006 per On Demand Linux g5.xlarge Instance Hour",2024-09-23 19:00:00,0.1,Hours,0.0,0.05,0.1006,us-east-1',
        '0.20,USD,"$0.00 per GB",2024-09-27 06:00:00,NULL,GB,0.0,0.20,NULL,NULL',
    ]
    found = read(tmp_path, "\n".join([head, *rows]) + "\n")
    assert (found.format, found.currency, found.as_of) == ("focus", "USD", "2024-09-27")
    [row] = found.rows
    assert row.per_hour == Decimal("0.5") and row.note == "EffectiveCost", "amortised, not billed: 0.05 / 0.1"
    assert "BilledCost 0.3, EffectiveCost 0.25, ListCost 0.1006" in said(found, "sums")
    assert said(found, "cost_column_of_zeros").startswith("ContractedCost is 0 in every row")
    assert "times_without_zone" in codes(found)


def test_cost_and_usage_rows_are_summed_by_usage_type(tmp_path):
    head = "lineItem/UsageType,lineItem/LineItemType,lineItem/UsageAmount,lineItem/UnblendedCost,lineItem/CurrencyCode,lineItem/UsageStartDate"
    rows = [
        "USW2-BoxUsage:inf2.xlarge,Usage,1.0,0.7582,USD,2026-10-01T00:00:00Z",
        "USW2-BoxUsage:inf2.xlarge,Usage,0.5,0.3791,USD,2026-10-02T00:00:00Z",
        "USW2-EBS:VolumeUsage.gp3,Usage,10,0.8,USD,2026-10-02T00:00:00Z",
    ]
    found = read(tmp_path, "\n".join([head, *rows]) + "\n")
    assert (found.format, found.as_of) == ("cost_and_usage", "2026-10-02")
    assert found.of_type("inf2.xlarge")[0].per_hour == Decimal("1.1373") / Decimal("1.5")
    assert "1.14 of 1.94" in said(found, "share_of_accelerators")


BILL = """
    | Usage type (us-east-1) | UsageQuantity | UnblendedCost (USD) | Unit price |
    | --- | ---: | ---: | ---: |
    | `BoxUsage:g5.xlarge` | 30{d}75528 | 30{d}93981 | 1{d}006 USD/h |
    | `BoxUsage:m7i.large` | 65{d}64389 | 6{d}61690 | 0{d}1008 USD/h |
    | `USE1-AmazonEKS-Hours:perCluster` | 38{d}01316 | 3{d}80132 | 0{d}10 USD/h |
    | `USE1-AmazonEKS-Hours:extendedSupport` | 38{d}01316 | 19{d}00658 | 0{d}50 USD/h |
"""


@pytest.mark.parametrize("mark", [",", "."])
def test_the_decimal_mark_is_found_by_multiplying(tmp_path, mark):
    found = read(tmp_path, BILL.format(d=mark))
    [g5] = found.of_type("g5.xlarge")
    assert g5.per_hour == Decimal("1.006") and g5.region == "us-east-1" and "30.7553 h" in g5.note
    assert ("decimal_comma" in codes(found)) is (mark == ",")
    assert "does_not_multiply" not in codes(found)
    assert "30.94 of 60.36 USD; the other 29.42" in said(found, "share_of_accelerators")
    assert "extended support cost 19.01, the control plane itself 3.80" in said(found, "eks_extended_support")


def test_a_row_that_does_not_multiply_out_is_said(tmp_path):
    found = read(tmp_path, BILL.format(d=".").replace("30.93981", "40.93981"))
    assert "g5.xlarge: 30.7553 x 1.006 is not 40.9398" in said(found, "does_not_multiply")


# -- none of these ----------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["hello\n", '{"a": 1}', "a,b\n1,2\n", "<html></html>", "\x00\x01\x02"])
def test_what_is_no_price_file_is_refused_with_what_is(tmp_path, text):
    with pytest.raises(BadInput, match="no price file of a known kind.*Karpenter") as caught:
        read(tmp_path, text)
    assert "pricing.overrides" in str(caught.value) and "\n" not in str(caught.value)


def test_empty_and_missing_files(tmp_path):
    with pytest.raises(BadRecord, match="empty"):
        read(tmp_path, " \n")
    with pytest.raises(BadRecord, match="check the path"):
        foreign.read(tmp_path / "none")


def test_a_byte_order_mark_and_utf_16_are_read_through(tmp_path):
    text = "Inst. Type,RI-Effective hourly rate\nInf2.xlarge,0.328\n"
    for encoding in ("utf-8-sig", "utf-16"):
        path = tmp_path / encoding
        path.write_bytes(text.encode(encoding))
        assert foreign.read(path).of_type("inf2.xlarge")[0].per_hour == Decimal("0.328")


def test_the_command_shows_what_it_is_and_adopts_nothing(tmp_path):
    path = tmp_path / "rates.csv"
    path.write_text("Inst. Type,RI-Effective hourly rate\nInf2.xlarge,0.328\n")
    before = prices.every()
    ran = CliRunner().invoke(group, ["prices", "read", str(path)], standalone_mode=False)
    assert ran.return_value == 0 and "Nothing was adopted" in ran.output and "basis: reserved_3yr_no_upfront" in ran.output
    assert prices.every() is before
    ran = CliRunner().invoke(group, ["prices", "read", str(path), "--json"], standalone_mode=False)
    assert json.loads(ran.output)["prices"][0]["per_hour"] == "0.328"


def test_every_format_has_a_title_and_is_in_the_docs():
    from pathlib import Path

    page = (Path(__file__).parents[1] / "docs" / "prices.md").read_text(encoding="utf-8")
    for name, title in foreign.formats().items():
        assert f"| `{name}` | {title} |" in page, name
