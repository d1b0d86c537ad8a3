"""Step 8: the plan is fixed before the first request."""

import math
import random
from pathlib import Path

import pytest
from example_questions import question, stated, walk
from neuronfit import compare, cost, show, tasks, trial, utilization
from neuronfit.errors import BadParams, WaitingForEvidence
from neuronfit.question import Question
from neuronfit.record import Compatibility, CompatibilityOfTarget
from neuronfit.trial.evaluate import judges, look_at
from neuronfit.trial.ledger import Entry
from neuronfit.trial.plan import handed_over
from neuronfit.trial.schedule import MOST_ENTRIES, Schedule
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
    assert better.criteria[0] == "latency p50 of the candidate below the baseline's" and better.criteria_fixed[0].allowed == 1.0
    by = [{"metric": metric, "kind": "superior", "margin": 0.2} for metric in ("latency_p50", "throughput", "cost_per_result")]
    much = trial.plan(question(tmp_path / "c", trial={"criteria": by}))
    assert much.criteria[:3] == (
        "latency p50 of the candidate at most 0.8 x the baseline's",
        "throughput of the candidate at least 1.2 x the baseline's",
        "cost per result of the candidate at most 0.8 x the baseline's",
    )


@pytest.mark.parametrize(
    "ratio, kind, margin, outcome",
    [
        (0.85, "superior", 0.0, "passed"),
        (0.85, "superior", 0.2, "failed"),
        (0.7, "superior", 0.2, "passed"),
        (1.1, "superior", 0.0, "failed"),
        (1.1, "non_inferior", 0.2, "passed"),
        (1.3, "non_inferior", 0.2, "failed"),
    ],
)
def test_superior_means_better_by_the_margin(tmp_path, ratio, kind, margin, outcome):
    """2,000 pairs whose candidate takes ``ratio`` times as long: 0.85 is better than 1, and not better than 0.8."""
    plan = trial.plan(question(tmp_path, trial={"criteria": [{"metric": "latency_p50", "kind": kind, "margin": margin}], "detect": 0.5}))
    draw, entries = random.Random(8), []
    for n in range(2000):
        base = draw.lognormvariate(-4, 0.3)
        entries += [Entry(n=n, stage=0, arm=arm, due=0.0, end=base * factor) for arm, factor in (("baseline", 1.0), ("candidate", ratio))]
    found = look_at(plan.criteria_fixed[0], entries, True, [len(entries)], 2000, 0.025)
    assert found.outcome == outcome and found.value == pytest.approx(ratio), found.because


@pytest.mark.parametrize(
    "criterion, said",
    [
        ({"metric": "error_rate", "kind": "superior"}, "kind has no effect"),
        ({"metric": "agreement", "margin": 0.1}, "margin has no effect"),
        ({"metric": "latency_p95", "bound": 0.5}, "bound has no effect"),
        ({"metric": "throughput", "bound_ms": 5}, "bound_ms has no effect"),
        ({"metric": "latency_p95", "bound_ms": 5, "margin": 0.1}, "margin has no effect"),
    ],
    ids=str,
)
def test_what_would_have_no_effect_on_a_criterion_is_refused(tmp_path, criterion, said):
    with pytest.raises(BadParams, match=said):
        question(tmp_path, trial={"criteria": [criterion]})


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


# -- a stage as a number of requests ----------------------------------------------------------


def test_minutes_follow_from_requests_and_the_rate(tmp_path):
    """50 a second. Shadow: 6,000 to the candidate are 6,000 arrivals, 2 min. A tenth: 6,000 of 60,000 arrivals, 20 min; as informative as
    2 x 0.1 x 0.9 x 60,000 = 10,800 a side. Everything: 3,000 arrivals, 1 min, with nothing to compare."""
    stages = [
        {"name": "shadow", "requests": 6000},
        {"name": "canary", "share": 0.1, "requests": 6000},
        {"name": "full", "share": 1.0, "requests": 3000},
        {"name": "hour", "share": 0.5, "duration_min": 60},
    ]
    record = trial.plan(lognormal_baseline(tmp_path, stages=stages))
    assert [stage["duration_min"] for stage in record.stages] == pytest.approx([2, 20, 1, 60])
    assert [stage["expected_requests"] for stage in record.stages] == [6000, 6000, 3000, 90_000]
    assert [stage["requests_per_side"] for stage in record.stages] == [6000, 10_800, 3000, 90_000]
    assert record.bottom_line.startswith("Plan registered: inf2 against l4 in 4 stages, 1.38 hours,")  # 83 minutes
    assert record.stages[2]["requests_needed"] is None and record.stages[2]["minutes_needed"] is None


def test_planned_is_as_many_as_the_power_calculation_needs(tmp_path):
    """Needed a side n at 50/s: the shadow sends n, a canary of 20 % n / (2 x 0.2 x 0.8) = n / 0.32 arrivals, a fifth of them to the candidate."""
    stages = [{"name": "shadow", "requests": "planned"}, {"name": "canary", "share": 0.2, "requests": "planned"}]
    record = trial.plan(lognormal_baseline(tmp_path, stages=stages, criteria=[{"metric": "latency_p95"}]))
    shadow, canary = record.stages
    needed = shadow["requests_needed"]
    assert needed > 4005 and shadow["requests"] == needed and shadow["duration_min"] == pytest.approx(needed / 50 / 60)
    arrivals = math.ceil(needed / 0.32)
    assert canary["duration_min"] == pytest.approx(arrivals / 50 / 60) and canary["requests"] == round(arrivals / 5)
    assert canary["requests_per_side"] >= needed and shadow["requests_per_side"] >= needed
    assert "stages_too_short" not in {finding.code for finding in record.findings}


@pytest.mark.parametrize(
    "section, traffic, said, next",
    [
        ({"stages": [{"name": "a", "requests": 500}]}, {}, "stage a: it is 500 requests long, and no rate is declared", "trial.rate_per_s"),
        ({"stages": [{"name": "a", "share": 0.05, "requests": 500}]}, {}, "it is 10,000 requests long", "traffic.mean_per_s"),
        (
            {"stages": [{"name": "a", "requests": "planned"}], "rate_per_s": 5},
            {"mean_per_s": 5},
            "the requests that the regression needs, and the baseline has no figure yet",
            "write a number into stages.requests",
        ),
        (
            {"stages": [{"name": "a", "requests": "planned"}], "rate_per_s": 5, "criteria": [{"metric": "error_rate"}]},
            {"mean_per_s": 5},
            "no criterion compares a quantile",
            "write a number into stages.requests",
        ),
    ],
)
def test_a_stage_whose_length_is_not_known_says_what_is_missing(tmp_path, section, traffic, said, next):
    both = {"baseline_url": "http://127.0.0.1:9", "candidate_url": "http://127.0.0.1:8"}
    asked = question(tmp_path, trial={**section, **both}, traffic=traffic)
    record = trial.plan(asked)
    [finding] = [finding for finding in record.findings if finding.code == "stage_length_unknown"]
    assert str(finding.severity) == "waiting" and said in finding.because and next in finding.next
    assert record.stages[0]["duration_min"] is None and "1 stage, of a length that is not known yet" in record.bottom_line
    for start in (lambda: trial.run(asked, progress=False), lambda: handed_over(asked, record)):
        with pytest.raises(WaitingForEvidence) as waits:
            start()
        assert finding.because.split(": ", 1)[1] in str(waits.value) and next in str(waits.value)


@pytest.mark.parametrize(
    "stage, said",
    [
        ({"name": "a"}, "neither duration_min nor requests"),
        ({"name": "a", "duration_min": 5, "requests": 5}, "both duration_min and requests"),
        ({"name": "a", "requests": 0}, "requests"),
        ({"name": "a", "requests": 2.5}, "requests"),
        ({"name": "a", "requests": True}, "requests"),
        ({"name": "a", "requests": "many"}, "requests"),
        ({"name": "a", "mode": "split", "requests": 5}, "sends nothing to the candidate at share 0"),
        ({"name": "a", "share": 1, "requests": "planned"}, "leaves the baseline nothing"),
    ],
    ids=str,
)
def test_a_stage_has_one_length(tmp_path, stage, said):
    with pytest.raises(BadParams) as refused:
        question(tmp_path, trial={"stages": [stage]})
    assert said in str(refused.value) and len(str(refused.value).splitlines()) == 1


def test_a_stage_of_requests_is_handed_over_in_minutes_and_shown(tmp_path):
    """6,000 at 50/s are 2 minutes; the candidate's bill runs for 2 + 20 minutes."""
    stages = [{"name": "shadow", "requests": 6000}, {"name": "canary", "share": 0.1, "requests": 6000}, {"name": "full", "share": 1, "requests": 9}]
    asked = lognormal_baseline(tmp_path, stages=stages)
    record = trial.plan(asked)
    argo = next(text for name, text in handed_over(asked, record).items() if "argo" in name)
    assert "duration: 20m" in argo
    said = " ".join(str(show.stages_table(record)).split())
    assert "shadow shadow 2 (6000 requests) 6,000" in said and "canary split (10% to the candidate) 20 (6000 requests) 6,000" in said, said
    days, because = tasks.parallel_days(asked)
    assert days == pytest.approx((2 + 20 + 9 / 50 / 60) / 1440) and "3 stages" in because
    lost = question(tmp_path / "x", trial={"stages": [{"name": "a", "duration_min": 90}, {"name": "b", "requests": 9}]}, traffic={})
    assert tasks.parallel_days(lost) == (90 / 1440, "2 stages of the controlled test, 1.5 h together, without b, of unknown length")


def test_with_nothing_left_to_compare_only_bounds_are_judged(tmp_path):
    """Alpha is divided among the stages in which something is compared: 0.025 / 2 for the ratio, 0.025 / 3 for the errors."""
    stages = [
        {"name": "shadow", "duration_min": 9},
        {"name": "half", "share": 0.5, "duration_min": 9},
        {"name": "full", "share": 1, "duration_min": 9},
    ]
    criteria = [{"metric": "latency_p95"}, {"metric": "latency_p95", "bound_ms": 30}, {"metric": "error_rate"}]
    record = trial.plan(lognormal_baseline(tmp_path, stages=stages, criteria=criteria))
    seen = [judges(record, stage) for stage in record.stages]
    assert [sorted(one) for one in seen] == [["error_rate", "latency_p95", "latency_p95_bound"]] * 2 + [["error_rate", "latency_p95_bound"]]
    assert seen[0]["latency_p95"].alpha == pytest.approx(0.0125) and seen[2]["error_rate"].alpha == pytest.approx(0.025 / 3)


def test_two_sides_at_one_address_are_a_warning(tmp_path):
    record = trial.plan(question(tmp_path, trial={"baseline_url": "http://h:1/", "candidate_url": "http://h:1"}))
    assert [finding.code for finding in record.findings] == ["same_endpoint"]


@pytest.mark.parametrize("path", sorted((Path(__file__).parents[1] / "params").glob("*.yaml")), ids=lambda path: path.stem)
def test_the_default_plan_of_every_question_can_be_sent_by_one_process(tmp_path, path):
    """BERT-base: 400 a second for 60 minutes to both sides and 420 minutes to one are 2 x 1.44 + 10.08 = 12.96 million requests."""
    asked = Question.from_file(path, reports=tmp_path)
    registered = trial.plan(asked)
    if registered.traffic["rate_per_s"] is None:
        pytest.skip("no rate is declared")
    schedule = Schedule(asked, registered)
    if path.stem == "bert-base-uncased":
        sent = [len(schedule.offsets(number, stage)) for number, stage in enumerate(registered.stages)]
        assert sent == [1_440_000, 1_440_000, 2_880_000, 5_760_000] and sum(sent) + sent[0] == 12_960_000 < MOST_ENTRIES


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
