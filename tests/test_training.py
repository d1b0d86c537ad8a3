"""Training by the run: hours and dollars by hand, Daly's expectation against a simulation, and the published BERT-Large figures."""

import math

import numpy as np
import pytest
from example_questions import question, walk
from neuronfit import training
from neuronfit.catalog import prices, published
from neuronfit.cost import usd_per_million
from neuronfit.draws import Draws
from neuronfit.errors import BadInput, BadParams
from neuronfit.params import Training
from neuronfit.provenance import Grade, Quantity, absent
from neuronfit.training import Run, best_interval_h, duration_h, training_run


def known(value, unit, **ends):
    return Quantity(value=value, unit=unit, grade=Grade.PUBLISHED, **ends)


def run(name="trn1", kind="trn1.32xlarge", instances=1, usd=21.5, speed=3826.6103, **plan):
    return Run(name, kind, instances, known(usd, "USD/h"), known(speed, "1/s"), Training(**{"samples": 1e9, **plan}))


# -- hours ------------------------------------------------------------------------------------


def test_computing_by_hand():
    """1e9 / (4,000 x 3,600) = 69.44 h; on 16 instances at 90 % of linear scaling 4.823 h."""
    assert run(speed=4000).hours(4000.0) == (pytest.approx(69.4444, abs=1e-4), pytest.approx(69.4444, abs=1e-4))
    compute, _ = run(speed=4000, instances=16, scaling_efficiency=0.9).hours(4000.0)
    assert compute == pytest.approx(1e9 / (4000 * 16 * 0.9 * 3600))
    alone, _ = run(speed=4000, scaling_efficiency=0.9).hours(4000.0)
    assert alone == pytest.approx(69.4444, abs=1e-4)  # one instance has nothing to scale to


def test_checkpoints_without_interruptions():
    """100 h, every 2 h, 3 minutes each: 50 x 0.05 = 2.5 h more."""
    assert duration_h(100.0, every_h=2, checkpoint_h=0.05) == pytest.approx(102.5)
    assert duration_h(100.0, every_h=2) == 100


def test_a_short_run_is_one_piece():
    assert duration_h(0.5, every_h=2, checkpoint_h=0.05) == pytest.approx(0.55)
    rate = 0.01
    assert duration_h(0.5, every_h=2, checkpoint_h=0.05, interruptions_per_h=rate) == pytest.approx((math.exp(rate * 0.55) - 1) / rate)


def test_interruptions_by_hand():
    """M = 20 h, R = 0.5 h, t + d = 2.1 h: 20 e^0.025 (e^0.105 - 1) x 100 / 2 = 113.5 h."""
    expected = 20 * math.exp(0.025) * (math.exp(0.105) - 1) * 50
    assert expected == pytest.approx(113.51, abs=0.01)
    assert duration_h(100.0, every_h=2, checkpoint_h=0.1, restart_h=0.5, interruptions_per_h=1 / 20) == pytest.approx(expected)


def test_rare_interruptions_end_in_none():
    assert duration_h(100.0, every_h=2, checkpoint_h=0.05, restart_h=1, interruptions_per_h=1e-9) == pytest.approx(102.5)


def test_the_expectation_is_that_of_a_simulation():
    """Pieces of 2 h and a checkpoint of 0.1 h; an interruption at any moment, restarts included, begins the piece (or the restart) again."""
    generator, mean, restart, piece = np.random.default_rng(7), 8.0, 0.5, 2.1
    totals = []
    for _ in range(3000):
        clock = 0.0
        for _ in range(10):
            while True:
                failure = generator.exponential(mean)
                if failure >= piece:
                    clock += piece
                    break
                clock += failure
                while (again := generator.exponential(mean)) < restart:
                    clock += again
                clock += restart
        totals.append(clock)
    expected = duration_h(20.0, every_h=2, checkpoint_h=0.1, restart_h=restart, interruptions_per_h=1 / mean)
    assert np.mean(totals) == pytest.approx(expected, rel=0.01)


def test_youngs_interval_is_near_the_least():
    """sqrt(2 x 0.05 x 100) = 3.16 h; no interval on a grid does better by more than a thousandth."""
    best = best_interval_h(0.05, 0.01)
    assert best == pytest.approx(math.sqrt(10))
    there = duration_h(100.0, every_h=best, checkpoint_h=0.05, interruptions_per_h=0.01)
    others = [duration_h(100.0, every_h=every, checkpoint_h=0.05, interruptions_per_h=0.01) for every in np.linspace(0.5, 20, 200)]
    assert there <= min(others) * 1.001
    assert best_interval_h(0.05, 0) is None and best_interval_h(0, 0.01) is None


def test_more_instances_are_interrupted_more_often():
    plan = dict(interruptions_per_month=7.3, restart_s=1800, checkpoint_s=60)
    assert run(instances=1, **plan).interruptions_per_h == pytest.approx(0.01)
    assert run(instances=16, **plan).interruptions_per_h == pytest.approx(0.16)


def test_a_run_that_never_ends_is_refused():
    with pytest.raises(BadInput) as raised:
        duration_h(1000.0, every_h=100, interruptions_per_h=1.0)
    assert "never end" in str(raised.value) and "checkpoint_every_h" in str(raised.value) and len(str(raised.value).splitlines()) == 1


def test_samples_or_tokens():
    with pytest.raises(BadParams, match="either samples or tokens"):
        question(None, workload__training={"checkpoint_s": 3})
    with pytest.raises(BadParams, match="either samples or tokens"):
        question(None, workload__training={"samples": 3, "tokens": 3})
    by_token, by_sample = Training(tokens=1e9), Training(samples=1e6)
    assert training.amount_per_result(by_token, "sequence", 128) == 128 and training.amount_per_result(by_token, "token", 128) == 1
    assert training.amount_per_result(by_sample, "token", 128) == 1 / 128 and training.amount_per_result(by_sample, "image", 128) == 1


# -- money ------------------------------------------------------------------------------------


def test_a_run_by_hand():
    """1e9 samples at 4,000/s on 2 x 21.5 USD/h: 34.72 h, 1,493 USD; the baseline at 5,000/s for 27.447: 55.56 h, 1,525 USD."""
    found = training_run(run(instances=2, speed=4000), run("p4de", "p4de.24xlarge", usd=27.44705, speed=5000), 30, Draws(1000))
    assert found.duration.value == pytest.approx(34.7222, abs=1e-4) and found.instance_hours.value == pytest.approx(69.4444, abs=1e-4)
    assert found.cost.value == pytest.approx(1493.06, abs=0.01) and found.cost.low is None
    assert found.saving.value == pytest.approx(1 - 1493.0556 / 1524.8361, abs=1e-5)
    assert found.probability_cheaper.value == 1 and found.deadline_kept is False and "deadline of 30 h is missed" in found.sentence


def test_lognormal_throughput_gives_analytic_quantiles():
    """Cost is inversely proportional to throughput: its 5th percentile is that at the 95th of the throughput."""
    speed = known(4000, "1/s", low=3200, high=5000, confidence=0.95)
    found = training_run(Run("a", "trn1.32xlarge", 1, known(21.5, "USD/h"), speed, Training(samples=1e9)), None, None, Draws(400_000))
    reach = math.exp(math.log(1.25) / 1.959964 * 1.644854)
    middle = 21.5 * 1e9 / (4000 * 3600)
    assert found.cost.value == pytest.approx(middle)
    assert found.cost.low == pytest.approx(middle / reach, rel=0.01) and found.cost.high == pytest.approx(middle * reach, rel=0.01)


def test_without_a_figure_or_a_price_there_is_no_cost():
    none = Run("a", "x", 1, known(1, "USD/h"), absent("1/s", "nobody timed it"), Training(samples=1))
    assert training_run(none, None, None, Draws(10)).cost.why == "nobody timed it"
    unpriced = Run("a", "x", 1, absent("USD/h", "not sold"), known(1, "1/s"), Training(samples=3600))
    found = training_run(unpriced, run(), None, Draws(10))
    assert found.duration.value == 1 and found.cost.why == "not sold" and found.saving.why == "not sold"


# -- what is published ------------------------------------------------------------------------


def rate(row_id):
    [row] = [row for row in published.every() if row.row_id == row_id]
    assert row.kind == "training" and row.instance_count == 1 and row.sequence_length == 128
    return row.throughput_per_s


def test_bert_large_cost_to_train_then_and_now():
    """Phase 1, per million sequences, on demand in us-east-1: Trn1 1.56; P4d 1.98 at the price of 2022 and 1.33 at that of 2026.

    The GPU figure is that of a DGX A100 with 80 GB, standing in for P4d; optimizer, batch and year of the software differ.
    """
    trn1, a100 = rate("neuron-2026-08-21/93"), rate("nvidia-dle-bert/04")
    then = float(max(row.usd_per_hour for row in prices.history("p4d.24xlarge", "us-east-1", "on_demand")))
    now = float(prices.find("p4d.24xlarge", "us-east-1", "on_demand").usd_per_hour)
    hourly = float(prices.find("trn1.32xlarge", "us-east-1", "on_demand").usd_per_hour)
    costs = {
        name: training_run(run(usd=usd, speed=speed, samples=1e6), None, None, Draws(10)).cost.value
        for name, usd, speed in (("trn1", hourly, trn1), ("then", then, a100), ("now", now, a100))
    }
    assert {name: round(usd, 2) for name, usd in costs.items()} == {"trn1": 1.56, "then": 1.98, "now": 1.33}
    assert costs["trn1"] == pytest.approx(usd_per_million(hourly, trn1))
    assert 1 - costs["trn1"] / costs["then"] == pytest.approx(0.21, abs=0.005)
    assert costs["trn1"] / costs["now"] - 1 == pytest.approx(0.17, abs=0.01)
    assert 1 - hourly / then == pytest.approx(0.344, abs=5e-4) and 1 - hourly / now == pytest.approx(0.021, abs=5e-4)


@pytest.fixture
def bert_large(tmp_path):
    """1e9 sequences on P4de today against Trn1."""
    return lambda **more: question(
        tmp_path,
        "bert-large-uncased",
        workload__kind="training",
        baseline={"name": "p4de", "instance_type": "p4de.24xlarge", "path": "cuda"},
        candidates=[{"name": "trn1", "instance_type": "trn1.32xlarge", "path": "neuron_xla"}],
        **{"workload__training": {"samples": 1e9}, "objective": {"deadline_h": 70}, **more},
    )


def test_a_training_question_is_answered_by_the_run(bert_large):
    """1e9 / (3,826.6103 x 3600) = 72.59 h x 21.5 = 1,560.7; 1e9 / (4,591 x 3600) x 27.44705 = 1,660.7: 6 % less."""
    record = walk(bert_large())["cost"]
    rows = {row.target: row for row in record.targets}
    assert rows["trn1"].training.cost.value == pytest.approx(1560.7, abs=0.1)
    assert rows["p4de"].training.cost.value == pytest.approx(1660.7, abs=0.1)
    assert rows["trn1"].training.cost.grade is Grade.ESTIMATED and rows["trn1"].training.cost.low < 1560 < rows["trn1"].training.cost.high
    assert rows["trn1"].training.saving.value == pytest.approx(0.0602, abs=5e-4)
    assert 0.55 < rows["trn1"].probability_cheaper.value < 0.75
    assert "run on trn1.32xlarge in 72.59 h" in record.bottom_line and "(6% less)" in record.bottom_line
    assert [(finding.code, finding.target) for finding in record.findings if finding.code == "deadline_missed"] == [("deadline_missed", "trn1")]


def test_runs_in_a_month_give_a_saving(bert_large):
    records = walk(bert_large(workload__training={"samples": 1e9, "runs_per_month": 10}, effort={"upkeep_days_per_month": 0, "tasks": []}))
    [row] = records["payback"].targets
    assert row.saving_per_month.value == pytest.approx(10 * (1660.7 - 1560.7), abs=3)
    assert row.saving_per_month.low < 0 < row.saving_per_month.high


def test_without_an_amount_it_waits(bert_large):
    record = walk(bert_large(workload__training=None))["cost"]
    assert "training_amount_unknown" in {finding.code for finding in record.findings}
    assert record.bottom_line.startswith("No cost of a training run to compare yet")
