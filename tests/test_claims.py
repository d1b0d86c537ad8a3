"""Claims beside evidence, the arithmetic behind them, and what each way to deploy adds."""

from __future__ import annotations

from decimal import Decimal

import example_questions
import example_records
import pytest
from neuronfit import params, show
from neuronfit.catalog import claims, deployments, instances, prices
from neuronfit.errors import BadInput, BadParams, NotFound
from neuronfit.provenance import Grade, absent
from neuronfit.record import Comparison, Cost

SEED_ARTICLES = {
    "trn1-cost-to-train": ("saving_fraction", "0.5"),
    "inf2-price-performance": ("price_performance_ratio", "1.4"),
    "inf2-throughput-inf1": ("throughput_ratio", "4"),
    "inf2-latency-inf1": ("latency_ratio", "10"),
    "trn1-accelerators": ("accelerators", "16"),
    "trn1-network": ("network_gbit_per_s", "800"),
    "trn1n-network": ("network_gbit_per_s", "1600"),
    "inf2-memory-chip": ("memory_gib_each", "32"),
    "inf2-memory": ("memory_gib", "384"),
}


# -- the table --------------------------------------------------------------------------------


def test_the_figures_of_the_articles_are_there():
    for name, (metric, value) in SEED_ARTICLES.items():
        claim = claims.find(name)
        assert (claim.metric, claim.value) == (metric, Decimal(value)), name


def test_every_claim_says_who_when_against_what_and_what_became_of_it():
    families = {row.family for row in instances.every(level=None)}
    for claim in claims.every():
        assert claim.who and claim.said_on and claim.baseline and claim.fine_print and claim.verdict and claim.because, claim.id
        assert claim.families and set(claim.families) | set(claim.against) <= families, claim.id
        assert claim.workload in ("any", "inference", "training") and claim.value > 0
        assert claim.bound in ("", "up to", "from", "over")
    assert [claim.id for claim in claims.every() if claim.recalled] == ["inf2-price-performance", "inf2-memory", "inf2-bandwidth"]
    with pytest.raises(NotFound, match="trn1-network"):
        claims.find("trn1-netwrok")


@pytest.mark.parametrize(
    ("claim_id", "instance_type", "value"),
    [
        ("inf2-memory", "inf2.48xlarge", 384),
        ("inf2-memory-chip", "trn1.32xlarge", 32),
        ("trn1-accelerators", "trn1.32xlarge", 16),
        ("trn1-memory", "trn1.32xlarge", 512),
        ("trn1-network", "trn1.32xlarge", 800),
        ("trn1n-network", "trn1n.32xlarge", 1600),
        ("trn2-memory", "trn2.48xlarge", 1536),
    ],
)
def test_claims_about_an_instance_are_those_of_the_catalogue(claim_id, instance_type, value):
    claim = claims.find(claim_id)
    facts = instances.find(instance_type)
    assert facts.family in claim.families
    row = claims._instance(claim, params.Target(name="t", instance_type=instance_type, path="neuron_xla"))
    assert row.here.value == value == float(claim.value) and row.kept and row.reason == ""
    small = claims._instance(claims.find("inf2-memory"), params.Target(name="t", instance_type="inf2.xlarge", path="neuron_xla"))
    assert small.here.value == 32 and small.kept is None and "not inf2.xlarge" in small.reason


# -- fifty per cent lower cost to train -------------------------------------------------------


def test_fifty_per_cent_recomputed_with_the_prices_of_then_and_now():
    hourly_2022, hourly_2026, trn1, p4d_2022, p4d_2026, p4de = claims.cost_to_train()
    assert hourly_2022.value.value == pytest.approx(1 - 21.50 / 32.7726)
    assert round(100 * hourly_2022.value.value, 1) == 34.4
    assert round(100 * hourly_2026.value.value, 1) == 2.1
    assert trn1.value.value == pytest.approx(1e6 * 21.50 / (3826.6103 * 3600))
    assert [round(row.value.value, 2) for row in (trn1, p4d_2022, p4d_2026, p4de)] == [1.56, 1.98, 1.33, 1.66]
    assert round(1 - trn1.value.value / p4d_2022.value.value, 2) == 0.21, "21 % cheaper then"
    assert round(trn1.value.value / p4d_2026.value.value - 1, 2) == 0.17, "17 % dearer now"
    for row in (trn1, p4d_2022, p4d_2026, p4de):
        assert row.value.grade is Grade.ESTIMATED
        text = " ".join(row.caveats)
        assert all(word in text for word in ("DGX A100 80 GB", "AdamW", "LAMB", "2021", "order of magnitude"))


def test_the_verdicts_state_what_the_prices_give():
    of_2026 = {name: prices.find(name, "us-east-1", "on_demand").usd_per_hour for name in ("inf2.xlarge", "g5.xlarge", "g6.xlarge")}
    text = claims.find("inf2-price-performance").because
    for other, said in (("g5.xlarge", "1.06"), ("g6.xlarge", "1.32")):
        assert round(1.4 * float(of_2026["inf2.xlarge"] / of_2026[other]), 2) == float(said)
        assert f"{said} times" in text
    dearer = float(prices.find("trn1n.32xlarge", "us-east-1", "on_demand").usd_per_hour) / 21.50 - 1
    assert f"{dearer:.1%}".replace("%", " %") in claims.find("trn1n-network").fine_print


# -- beside the evidence ----------------------------------------------------------------------


def asked(tmp_path, records=(), **changes):
    """The example question (g6.xlarge against inf2 and trn1) with these records in its dossier."""
    question = example_questions.question(tmp_path, **changes)
    question.dossier.latest = lambda kind: next((record for record in records if isinstance(record, kind)), None)
    return question


def rows_of(question) -> dict[tuple[str, str], claims.Beside]:
    return {(row.claim.id, row.target): row for row in claims.beside(question)}


def test_without_evidence_nothing_is_comparable_but_what_is_in_an_instance(tmp_path):
    rows = rows_of(asked(tmp_path))
    assert {row.claim.id for row in rows.values() if row.comparable} == {
        "inf2-memory", "inf2-memory-chip", "inf2-bandwidth", "trn1-accelerators", "trn1-memory", "trn1-network",
    }  # fmt: skip
    assert "step 6" in rows["inf2-price-performance", "inf2"].reason
    assert rows["trn1-cost-to-train", "trn1"].reason == "it is about training, this is inference"
    assert rows["inf2-throughput-inf1", "inf2"].reason == "it compares with inf1, the baseline here is g6.xlarge"
    assert rows["trn1-cost-to-train", "trn1"].sentence.endswith("not comparable, it is about training, this is inference.")
    assert all(row.kept is None for row in rows.values() if not row.comparable)


def test_price_performance_is_the_ratio_of_the_efficiencies(tmp_path):
    cost = example_records.cost()
    rows = rows_of(asked(tmp_path, records=(cost,)))
    row = rows["inf2-price-performance", "inf2"]
    efficiency = {entry.target: entry.efficiency.value for entry in cost.targets}
    assert row.comparable and row.here.value == pytest.approx(efficiency["inf2"] / efficiency["l4"])
    assert row.here.value == pytest.approx(2674.19 / 0.7582 / (2168.0 / 0.8048), rel=1e-4)  # 1.309
    assert "names no baseline; yours is g6.xlarge" in row.reason
    assert row.kept is None, "'up to' is kept by anything less"
    other = cost.targets[1].model_copy(update={"result_unit": "token"})
    mixed = cost.model_copy(update={"targets": (cost.targets[0], other, *cost.targets[2:])})
    assert "tokens" in rows_of(asked(tmp_path, records=(mixed,)))["inf2-price-performance", "inf2"].reason


def test_costs_of_figures_that_are_not_comparable_are_not_set_beside_a_claim(tmp_path):
    """The example's pairs differ in what matters: nothing that follows from them is comparable either."""
    cost, compared = example_records.cost(), example_records.comparison(example_records.measurements())
    unlike = tuple(pair.model_copy(update={"verdict": "not_comparable"}) for pair in compared.pairs)
    row = rows_of(asked(tmp_path, records=(cost, compared.model_copy(update={"pairs": unlike}))))["inf2-price-performance", "inf2"]
    assert not row.comparable and "not comparable" in row.reason
    alike = tuple(pair.model_copy(update={"verdict": "faster"}) for pair in compared.pairs)
    assert rows_of(asked(tmp_path, records=(cost, compared.model_copy(update={"pairs": alike}))))["inf2-price-performance", "inf2"].comparable


def test_throughput_and_latency_come_from_the_pair_of_step_4(tmp_path):
    figures = example_records.measurements()
    compared = example_records.comparison(figures)
    assert isinstance(compared, Comparison)
    [best] = [pair for pair in compared.pairs if pair.candidate == "inf2" and pair.mode == "best"] or [compared.pairs[0]]
    name = best.candidate
    latency = best.latency_p50.model_copy(update={"value": 0.25, "low": 0.2, "high": 0.5, "confidence": 0.95, "grade": Grade.MEASURED, "why": None})
    pair = best.model_copy(update={"latency_p50": latency, "verdict": "faster"})
    compared_so = compared.model_copy(update={"pairs": (pair,)})
    rows = rows_of(asked(tmp_path, records=(compared_so,), baseline__instance_type="inf1.xlarge", baseline__path="neuron_xla"))
    assert rows["inf2-throughput-inf1", name].here == pair.throughput
    row = rows["inf2-latency-inf1", name]
    assert (row.here.value, row.here.low, row.here.high) == (4.0, 2.0, 5.0), "1 / 0.25, and the ends change places"
    assert row.kept is False, "4 times is not 10 times"
    assert rows["inf2-throughput-g5", name].reason == "it compares with g5, the baseline here is inf1.xlarge"
    unsure = pair.model_copy(update={"verdict": "not_comparable"})
    rows = rows_of(asked(tmp_path, records=(compared.model_copy(update={"pairs": (unsure,)}),)))
    assert not rows["inf2-throughput-g5", name].comparable


def test_absent_costs_are_not_compared(tmp_path):
    cost = example_records.cost()
    gone = cost.targets[1].model_copy(update={"efficiency": absent("1/s/(USD/h)", "no throughput of inf2")})
    record = cost.model_copy(update={"targets": (cost.targets[0], gone, *cost.targets[2:])})
    assert isinstance(record, Cost)
    assert rows_of(asked(tmp_path, records=(record,)))["inf2-price-performance", "inf2"].reason == "no throughput of inf2"


def test_the_tables_show_claims_reasons_and_sources(tmp_path):
    text = str(show.claims_table(asked(tmp_path, records=(example_records.cost(),))))
    assert "up to 40 % better price-performance" in text and "recalled" in text and "not comparable" in text
    assert "1.31 E" in text or "1.31 P" in text
    assert "8 of 17 can be compared" in text
    again = str(show.recomputed_table())
    assert all(word in again for word in ("1.56", "1.98", "1.33", "34", "DGX A100 80 GB stands for p4d.24xlarge"))


def test_a_dossier_without_its_params_file_shows_the_same(tmp_path):
    """The report has the dossier only; what was asked is in its profile."""
    dossier = example_records.dossier(tmp_path)
    text = str(show.claims_table(dossier))
    assert "up to 40 % better price-performance" in text and "1.31" in text
    assert "SageMaker hosting" in str(show.deployments_table(dossier))
    assert "1.56" in str(show.recomputed_table(dossier)), "a Trn1 is among the candidates"
    assert not show.recomputed_table(asked(tmp_path / "no", candidates=[example_questions.mapping()["candidates"][0]], trial={}))
    empty = example_records.dossier(tmp_path / "empty", without=tuple(type(record) for record in example_records.every()))
    assert not show.claims_table(empty) and "step 1" in str(show.deployments_table(empty))


# -- where it runs ----------------------------------------------------------------------------


def test_what_each_way_to_deploy_adds_in_a_month():
    assert deployments.surcharge("ec2", "inf2.xlarge").total.value == 0
    assert deployments.surcharge("ecs", "inf2.xlarge", instances=50).total.value == 0
    assert deployments.surcharge("eks", "inf2.xlarge", instances=50).total.value == pytest.approx(0.10 * 730)
    assert deployments.surcharge("eks", "inf2.xlarge", clusters=2).total.value == pytest.approx(146)
    assert deployments.surcharge("eks_extended", "g6.xlarge").total.value == pytest.approx(0.60 * 730)
    hosting = deployments.surcharge("sagemaker", "inf2.xlarge", instances=3)
    assert hosting.per_instance.value == pytest.approx(0.99 - 0.7582) and hosting.per_instance.grade is Grade.PUBLISHED
    assert hosting.total.value == pytest.approx((0.99 - 0.7582) * 3 * 730)
    batch = deployments.find("batch")
    assert batch.recalled and "recalled" in batch.quantity().why and deployments.surcharge("batch", "g6.xlarge").total.value == 0


def test_a_premium_that_is_not_known_is_absent_with_the_reason():
    for name, words in (("trn1.2xlarge", "no price of ml.trn1.2xlarge"), ("p4d.24xlarge", "37.688")):
        found = deployments.surcharge("sagemaker", name)
        assert not found.total.known and words in found.total.why
    reserved = deployments.surcharge("sagemaker", "inf2.xlarge", purchase_option="reserved_3yr_no_upfront")
    assert not reserved.total.known and "priced on demand" in reserved.total.why
    assert deployments.surcharge("sagemaker", "inf2.xlarge", purchase_option="sagemaker_hosting").total.value == 0
    with pytest.raises(NotFound, match="sagemaker"):
        deployments.find("sagemakr")
    with pytest.raises(BadInput, match="negative"):
        deployments.surcharge("eks", "inf2.xlarge", clusters=-1)


def test_the_premium_differs_by_type():
    """SageMaker's premium differs by type, so it is no constant that drops out of a comparison."""
    premium = {name: deployments.hosting_premium(name, "us-east-1").value for name in ("inf2.xlarge", "g5.2xlarge", "trn1.32xlarge")}
    list_price = {name: float(prices.find(name, "us-east-1", "on_demand").usd_per_hour) for name in premium}
    shares = {name: round(premium[name] / list_price[name], 3) for name in premium}
    assert shares == {"inf2.xlarge": 0.306, "g5.2xlarge": 0.25, "trn1.32xlarge": 0.325}


def test_the_table_of_deployments_marks_the_chosen_one(tmp_path):
    table = show.deployments_table(example_questions.question(tmp_path, pricing={"deployment": "eks"}))
    assert [row.today for row in table.rows] == [False, True, False, False, False, False]
    assert "73.00" in str(table) and "–" in str(table)


# -- params -----------------------------------------------------------------------------------


def test_discount_deployment_and_terms_of_an_override_are_params(tmp_path):
    own = {"instance_type": "inf2.xlarge", "usd_per_hour": 0.3, "as_of": "2026-11-01", "purchase_option": "compute_savings_plan_3yr_no_upfront"}
    question = example_questions.question(tmp_path, pricing={"discount": 0.12, "deployment": "sagemaker", "overrides": [own]})
    pricing = question.params.pricing
    assert (pricing.discount, pricing.deployment, pricing.overrides[0].purchase_option) == (0.12, "sagemaker", own["purchase_option"])
    assert example_questions.question(tmp_path).params.pricing.deployment == "ec2"
    for wrong, words in (
        ({"discount": 12}, "pricing.discount"),
        ({"deployment": "lambda"}, "ec2, eks, ecs, batch, sagemaker"),
        ({"overrides": [{**own, "purchase_option": "savings_plan"}]}, "pricing.overrides: purchase_option"),
    ):
        with pytest.raises(BadParams, match=words):
            example_questions.question(tmp_path, pricing=wrong)
