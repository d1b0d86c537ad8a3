"""Step 8: the plan is fixed before the first request."""

import math

import pytest
from example_questions import question, stated, walk
from neuronfit import compare, cost, trial, utilization
from neuronfit.record import Compatibility, CompatibilityOfTarget
from scipy.stats import norm


def planned(asked):
    compare.compare(asked)
    utilization.estimate(asked)
    cost.price(asked)
    return trial.plan(asked)


def test_the_plan_waits_for_its_endpoints(tmp_path):
    record = planned(question(tmp_path))
    assert record.endpoints == {"baseline": None, "candidate": None}
    [finding] = record.findings
    assert (str(finding.severity), finding.code) == ("waiting", "endpoints_unknown")
    assert "trial.baseline_url and trial.candidate_url" in finding.next and "neuronfit trial" in finding.next
    # 60 + 60 + 120 + 240 minutes
    assert (
        record.bottom_line == "Plan registered: inf2 against l4 in 4 stages, 8 hours, rollback first. It waits for baseline and candidate endpoints."
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
        "latency p95 of the candidate at most 1.1 x the baseline's",
        "latency p99 of the candidate at most 20 ms",
        "error rate at most 0.100%",
        "at least 99.5% of paired answers agree",
        "each at 90% confidence, over all stages and looks",
    )
    assert record.guardrails == (
        "error rate of the candidate above 0.200%: all traffic back to the baseline within 60 s",  # twice the objective's
        "more than 1 % of the candidate's requests above 20 ms: all traffic back to the baseline within 60 s",
        "fewer than 99.5% of paired answers agree: all traffic back to the baseline within 60 s",
    )
    assert record.limits == {"error_rate": 0.002, "agreement": 0.995, "latency_p99_s": 0.02}


def test_a_declared_guardrail_replaces_the_default(tmp_path):
    record = trial.plan(question(tmp_path, trial={"max_error_rate": 0.05, "evaluate_every_s": 5}, objective={}))
    assert record.guardrails[0] == "error rate of the candidate above 5.000%: all traffic back to the baseline within 5 s"
    assert len(record.guardrails) == 2 and "latency_p99_s" not in record.limits, "no objective, no bound on latency"


def test_every_metric_becomes_a_criterion_with_its_sentence(tmp_path):
    wanted = {
        "ttft_p95": "ttft p95 of the candidate at most 1.05 x the baseline's",
        "throughput": "throughput of the candidate at least 0.95 x the baseline's",
        "cost_per_result": "cost per result of the candidate at most 1.05 x the baseline's",
        "utilization": "the candidate's devices at most 85% busy, as a monitor sees them during the test",
    }
    record = trial.plan(question(tmp_path, trial={"criteria": [{"metric": metric} for metric in wanted]}))
    assert {entry.metric: entry.says for entry in record.criteria_fixed} == wanted
    better = trial.plan(question(tmp_path / "b", trial={"criteria": [{"metric": "latency_p50", "kind": "superior"}]}))
    assert better.criteria[0] == "latency p50 of the candidate below the baseline's"


def lognormal_baseline(folder, **section):
    """p50 10 ms, p99 20 ms: log-sd ln 2 / 2.3263."""
    asked = question(folder, trial={"candidate": "inf2", "rate_per_s": 50, **section}, objective={})
    values = {"latency_p50_s": 0.01, "latency_p99_s": 0.02, "throughput_per_s": 100}
    asked.dossier.admit(stated(asked, "l4", values=values, imported=True))
    compare.compare(asked)
    return asked


def test_the_sample_size_by_hand(tmp_path):
    """p95, margin 0.05, detect 0.1: 1.15 x 2 (s (z_alpha + z_power) / ln(1.1 / 1.05))^2, with s = sd sqrt(0.95 0.05) / phi(1.645);
    alpha 0.025 / 2 stages, whose last of 100 looks costs a little more than a single one."""
    stages = [{"name": "shadow", "duration_min": 10}, {"name": "canary", "share": 0.2, "duration_min": 10}]
    record = trial.plan(lognormal_baseline(tmp_path, stages=stages, criteria=[{"metric": "latency_p95"}]))
    shadow, canary = record.stages
    sd = math.log(2) / 2.326348
    spread = sd * math.sqrt(0.95 * 0.05) / 0.103136
    single = 1.15 * 2 * (spread * (norm.isf(0.0125) + 0.841621) / math.log(1.1 / 1.05)) ** 2
    assert 1.0 < shadow["requests_needed"] / single < 1.15
    assert shadow["minutes_needed"] == pytest.approx(shadow["requests_needed"] / 50 / 60)
    # of 50 a second a fifth goes to the candidate: as informative as 2 x 0.2 x 0.8 x 50 = 16 a side
    assert canary["minutes_needed"] == pytest.approx(shadow["requests_needed"] / 16 / 60)
    assert (shadow["requests_per_side"], canary["requests_per_side"], canary["expected_requests"]) == (30_000, 9_600, 6_000)
    assert record.findings[-1].code == "endpoints_unknown", "the shadow is long enough"


def test_stages_that_cannot_find_it_are_named_with_the_minutes(tmp_path):
    record = trial.plan(lognormal_baseline(tmp_path, stages=[{"name": "shadow", "duration_min": 0.5}], criteria=[{"metric": "latency_p95"}]))
    found = {finding.code: finding for finding in record.findings}["stages_too_short"]
    assert f"after {record.stages[0]['minutes_needed']:.3g} minutes of stage shadow, which lasts 0.5" in found.because


def test_two_sides_at_one_address_are_a_warning(tmp_path):
    record = trial.plan(question(tmp_path, trial={"baseline_url": "http://h:1/", "candidate_url": "http://h:1"}))
    assert [finding.code for finding in record.findings] == ["same_endpoint"]


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
