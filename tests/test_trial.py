"""Step 8: the plan is fixed before the first request."""

import pytest
from example_questions import question, walk
from neuronfit import compare, cost, trial, utilization
from neuronfit.record import Compatibility, CompatibilityOfTarget


def planned(asked):
    compare.compare(asked)
    utilization.estimate(asked)
    cost.price(asked)
    return trial.plan(asked)


def test_the_plan_waits_for_its_endpoints(tmp_path):
    record = planned(question(tmp_path))
    assert record.status == "planned" and record.endpoints == {"baseline": None, "candidate": None}
    [finding] = record.findings
    assert (str(finding.severity), finding.code) == ("waiting", "endpoints_unknown")
    assert "trial.baseline_url and trial.candidate_url" in finding.next and "--steps 8" in finding.next
    # 60 + 60 + 120 + 240 minutes
    assert (
        record.bottom_line
        == "Plan registered: inf2 against l4 in 4 stages, at least 8 hours, rollback first. It waits for baseline and candidate endpoints."
    )


def test_with_one_endpoint_it_waits_for_the_other_and_with_both_for_none(tmp_path):
    one = planned(question(tmp_path / "1", trial={"baseline_url": "https://a.example"}))
    assert "trial.candidate_url not declared" in one.findings[0].because and one.bottom_line.endswith("It waits for candidate endpoint.")
    both = planned(question(tmp_path / "2", trial={"baseline_url": "https://a.example", "candidate_url": "https://b.example"}))
    assert both.findings == () and both.bottom_line.endswith("rollback first.")
    assert both.endpoints == {"baseline": "https://a.example", "candidate": "https://b.example"}


def test_criteria_carry_the_objective_the_margin_and_the_confidence(tmp_path):
    record = trial.plan(question(tmp_path, trial={"latency_margin": 0.1, "min_agreement": 0.995}, policy={"confidence": 0.9}))
    assert record.criteria == (
        "latency p99 of the candidate at most 1.1 x the baseline's and 20 ms",
        "error rate at most 0.100%",
        "at least 99.5% of paired answers agree",
        "each at 90% confidence, per stage",
    )
    assert record.guardrails[0] == "error rate above 0.200% in any minute: all traffic back to the baseline"  # twice the objective's
    assert "20 ms for three minutes" in record.guardrails[1]


def test_a_declared_guardrail_replaces_the_default(tmp_path):
    record = trial.plan(question(tmp_path, trial={"max_error_rate": 0.05}, objective={}))
    assert record.guardrails[0].startswith("error rate above 5.000%")
    assert "twice the baseline's" in record.guardrails[1] and "ms" not in record.criteria[0].replace("times", "")


def test_a_stage_is_as_long_as_its_requests(tmp_path):
    """400/s: 60 min x 60 x 400 = 1,440,000 in the shadow (every request is copied), 1 % of it = 14,400 in the first canary."""
    stages = {stage["name"]: stage["expected_requests"] for stage in trial.plan(question(tmp_path)).stages}
    assert stages == {"shadow": 1_440_000, "canary 1 %": 14_400, "canary 10 %": 288_000, "canary 50 %": 2_880_000}


def test_a_monthly_volume_is_enough_to_expect_requests(tmp_path):
    """1e9 / 2,628,000 s x 3,600 s = 1,369,863."""
    first = trial.plan(question(tmp_path / "a", traffic={"monthly_volume": 1e9})).stages[0]
    assert first["expected_requests"] == 1_369_863
    assert trial.plan(question(tmp_path / "b", traffic={})).stages[0]["expected_requests"] is None


def test_the_plan_is_about_the_declared_candidate(tmp_path):
    record = planned(question(tmp_path, trial={"candidate": "trn1"}))
    assert record.candidate == "trn1" and "trn1 (trn1.2xlarge) is not worse than l4 (g6.xlarge)" in record.hypothesis


@pytest.mark.parametrize("order", [("inf2", "trn1"), ("trn1", "inf2")])
def test_otherwise_about_the_one_that_is_decided_for(tmp_path, order):
    targets = {target.name: target.model_dump(exclude_unset=True) for target in question(tmp_path).params.candidates}
    records = walk(question(tmp_path / "x", candidates=[targets[name] for name in order]))
    assert records["trial_plan"].candidate == records["decision"].candidate == "inf2"


def test_never_about_a_candidate_that_cannot_run(tmp_path):
    """inf2 is the cheapest and its path is documented not to work there."""
    asked = question(tmp_path)
    gone = {"unit": "bytes", "why": "not looked at"}
    row = CompatibilityOfTarget(
        target="inf2",
        instance_type="inf2.xlarge",
        path="neuron_native",
        supported=False,
        title="TorchNeuron",
        status="not supported",
        memory_needed=gone,
        memory_available=gone,
        fits=None,
    )
    source = {"grade": "estimated", "formula": "by hand"}
    asked.dossier.admit(Compatibility(workload=asked.ref, source=source, bottom_line="x", targets=(row,), graph_how="none"))
    assert planned(asked).candidate == "trn1"


def test_rollback_comes_with_the_plan_and_can_be_the_teams_own(tmp_path):
    assert trial.plan(question(tmp_path / "a")).rollback[0] == "set the candidate's traffic weight to 0"
    assert trial.plan(question(tmp_path / "b", trial={"rollback": ["call Ann"]})).rollback == ("call Ann",)


def test_registering_the_same_plan_again_keeps_the_first(tmp_path):
    """The date of the plan is evidence: it was there before the test."""
    asked = question(tmp_path)
    first, again = trial.plan(asked), trial.plan(asked)
    assert (first.id, first.created_utc) == (again.id, again.created_utc)
    moved = question(tmp_path, trial={"min_agreement": 0.5})
    assert trial.plan(moved).id != first.id and len(asked.dossier.files()) == 2
