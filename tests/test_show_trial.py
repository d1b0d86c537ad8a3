"""Step 8 as it is shown: stages with the minutes they need, a log under way, the path look by look, and what to do next."""

import random

import pytest
from example_questions import question, stated
from neuronfit import compare, show, trial
from neuronfit.provenance import Measured
from neuronfit.show import Figure, Note
from neuronfit.trial.evaluate import history, settle
from neuronfit.trial.log import Entry, Log, read
from neuronfit.trial.run import log_path

SECTION = {
    "candidate": "inf2",
    "rate_per_s": 10,
    "stages": [{"name": "shadow", "duration_min": 1}, {"name": "canary", "share": 0.5, "duration_min": 1}],
    "criteria": [{"metric": "latency_p50", "margin": 0.3}, {"metric": "error_rate", "bound": 0.05}],
    "detect": 0.8,
}


def under_way(folder, slower=1.0, ended=None):
    """A shadow of 600 pairs with five looks, and a canary that has just begun."""
    this = question(folder, trial=SECTION, objective={})
    plan = trial.plan(this)
    path, generator = log_path(this, plan.id), random.Random(4)
    log = Log(path)
    log.begin(plan.id, "2026-11-30T12:00:00Z")
    log.event("stage", stage=0, name="shadow", per_side=600)
    for n in range(600):
        base = 0.02 * generator.lognormvariate(0, 0.3)
        for arm, value in (("baseline", base), ("candidate", base * slower)):
            failed = "http 500: no" if n == 7 and arm == "candidate" else None
            log.add(Entry(n=n, stage=0, arm=arm, due=n / 10, end=n / 10 + value, agree=None if arm == "baseline" else n != 9, error=failed))
        if n % 120 == 119:
            log.event("look", stage=0, count=2 * (n + 1))
    log.event("stage_end", stage=0)
    log.event("stage", stage=1, name="canary", per_side=300)
    log.add(Entry(n=0, stage=1, arm="baseline", due=0.0, end=0.02))
    if ended:
        log.event("end", why=ended, utc="2026-11-30T12:02:00Z")
    log.close()
    return this, plan, path


def text(thing) -> str:
    return " ".join(str(thing).split())


def test_nothing_begun(tmp_path):
    this = question(tmp_path, trial=SECTION)
    trial.plan(this)
    assert isinstance(show.progress_table(this.dossier), Note) and isinstance(show.trial_figure(this.dossier), Note)
    said = text(show.monday_table(this.dossier, "params/x.yaml"))
    assert "On Monday morning (planned)" in said and "neuronfit trial params/x.yaml --plan-only" in said


def test_a_log_under_way_is_read_as_it_stands(tmp_path):
    this, _, _ = under_way(tmp_path)
    said = text(show.progress_table(this.dossier))
    assert "shadow done 600 (0 failed) 600 (1 failed) 599 of 600 5" in said, said
    assert "canary under way 1 (0 failed) 0 (0 failed)" in said
    assert "no end is written" in said
    assert "On Monday morning (begun)" in text(show.monday_table(this.dossier, "p.yaml"))


def test_the_path_has_a_point_a_look_with_the_ratio(tmp_path):
    this, plan, path = under_way(tmp_path, slower=1.1)
    looks = history(plan, read(path))
    assert [(stage, name, count) for stage, name, count, _ in looks] == [("shadow", "latency_p50", 240 * n) for n in range(1, 6)]
    assert all(look.value == pytest.approx(1.1) and look.low <= 1.1 <= look.high for *_, look in looks)
    edges = [look.edge for *_, look in looks]
    assert edges == sorted(edges, reverse=True), "the boundary falls from look to look"
    assert [count for *_, count, _ in history(plan, read(path), most=2)] == [480, 1200]
    figure = show.trial_figure(this.dossier)
    assert isinstance(figure, Figure) and "latency_p50 is 1.100 x the baseline's" in figure.alt


def test_the_path_ends_where_it_failed(tmp_path):
    this, plan, path = under_way(tmp_path, slower=1.6)
    last = history(plan, read(path))[-1]
    assert last[3].outcome == "failed" and last[3].z > last[3].edge


@pytest.mark.parametrize("slower, ended, state", [(1.6, "failed", "failed"), (1.0, "interrupted", "inconclusive")])
def test_monday_follows_the_verdict(tmp_path, slower, ended, state):
    this, plan, path = under_way(tmp_path, slower, ended)
    record = settle(this, plan, read(path), Measured(host="x", clock="time.perf_counter"), "trial/x")
    said = text(show.monday_table(this.dossier, "p.yaml"))
    assert record.status == state and f"({state})" in said
    assert ("leave all traffic at the baseline" in said) == (state == "failed") and ("p.yaml --resume" in said) == (state == "inconclusive")


def test_stages_say_how_long_they_must_be(tmp_path):
    """10 a second: needed / 10 / 60 minutes in the shadow; an even split of n requests tells as much as n / 2 a side: twice that."""
    this = question(tmp_path, trial={**SECTION, "criteria": [{"metric": "latency_p50", "margin": 0.3}]}, objective={})
    this.dossier.admit(stated(this, "l4", values={"latency_p50_s": 0.01, "latency_p99_s": 0.02, "throughput_per_s": 100}, imported=True))
    compare.compare(this)
    plan = trial.plan(this)
    shadow, canary = plan.stages
    needed = shadow["requests_needed"]
    assert shadow["minutes_needed"] == pytest.approx(needed / 600) and canary["minutes_needed"] == pytest.approx(needed / 300)
    said = text(show.stages_table(plan))
    assert f"{needed:,}" in said and "lognormal assumed" in said, said
