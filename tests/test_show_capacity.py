"""Step 5 as it is shown: what the sentences say, and that the controls answer without a person."""

import os

import pytest
from example_questions import question
from neuronfit import compare, show, utilization
from neuronfit.capacity import compiled
from neuronfit.errors import MissingPackage
from neuronfit.show.controls import tried

BUSY = {"mean_per_s": 8000, "peak_per_s": 24_000, "daily_shape": "office"}


@pytest.fixture(scope="module")
def busy(tmp_path_factory):
    asked = question(tmp_path_factory.mktemp("busy"), traffic=BUSY)
    compare.compare(asked)
    return asked, utilization.estimate(asked)


@pytest.fixture(scope="module")
def empty(tmp_path_factory):
    return utilization.estimate(question(tmp_path_factory.mktemp("empty")))


def test_the_week_names_the_fleets_in_words(busy):
    figure = show.week_of_demand(busy[1])
    assert "l4 instances: fixed at the peak 12 to 12, by schedule 1 to 12, autoscaled 1 to 19" in str(figure)
    assert figure.svg.count("<svg") == 1 and "Thu" in figure.svg and "l4, g6.xlarge" in figure.svg


def test_busy_and_idle_money(busy):
    said = str(show.options_bars(busy[1]))
    assert "l4 fixed at the peak: 31% busy, $4,882 a month idle, 0% late" in said and "trn1 by schedule" in said


def test_policies_that_come_to_the_same_are_one_bar(tmp_path):
    asked = question(tmp_path)
    compare.compare(asked)
    said = str(show.options_bars(utilization.estimate(asked)))
    assert said.count("whatever the policy") == 3 and "by schedule" not in said


def test_latency_under_load_names_the_objective(busy):
    figure = show.latency_under_load(busy[1], 20)
    assert "The objective is 20 ms" in str(figure) and "at 90% load" in str(figure) and "objective 20 ms" in figure.svg


def test_break_even_at_todays_load(busy):
    """inf2 needs 0.764 of what the l4 is busy: 0.764 x 30.8 % = 23 %."""
    assert "At 31% busy l4" in str(show.break_even_curve(busy[1])) and "inf2 23%" in str(show.break_even_curve(busy[1]))


def test_tables_hold_each_option_and_size(busy):
    table = show.scaling_table(busy[1])
    assert len(table.rows) == 9 and "288 E" in str(table) and "stands for the target" in str(table) and "seed 0" in str(table)
    assert "g6.xlarge (smallest that keeps the objective)" in str(show.sizes_table(busy[1]))


@pytest.mark.parametrize("name", ["week_of_demand", "options_bars", "latency_under_load", "break_even_curve", "scaling_table", "sizes_table"])
def test_without_a_figure_there_is_a_note(name, empty):
    assert not getattr(show, name)(empty) and not getattr(show, name)(None)


def test_what_is_tried_is_not_written(busy):
    asked, record = busy
    before = sorted(asked.dossier.folder.rglob("*.json"))
    twice = tried(asked, record, "inf2", times=2.0, delay_ms=1.0, policy="scheduled")
    assert twice.sentence.startswith("inf2 at 16,000/s on average, by schedule: 1 to 19 inf2.xlarge")
    assert twice.record.targets[0].options[0].most == 19  # 48,000 / (2,674 x 0.98) = 18.3
    assert sorted(asked.dossier.folder.rglob("*.json")) == before


def test_a_batch_delay_costs_latency_at_a_low_load(busy):
    asked, record = busy
    quick, patient = (tried(asked, record, "l4", delay_ms=delay).record.targets[0].latency_at_load[0].p50_s for delay in (0.0, 5.0))
    assert patient > quick + 0.003


def test_nobody_at_the_notebook_gets_a_sentence(busy, monkeypatch):
    monkeypatch.delenv("JPY_SESSION_NAME", raising=False)
    note = show.controls(*busy)
    assert "Opened in JupyterLab" in str(note) and "At twice the demand: l4 at 16,000/s" in str(note)


def test_a_person_gets_controls_that_answer(busy, monkeypatch):
    monkeypatch.setenv("JPY_SESSION_NAME", "05_utilization.ipynb")
    box = show.controls(*busy)
    sliders, said, drawings = box.children
    left, right = sliders.children
    target, policy = right.children
    assert said.value.startswith("l4 at 8,000/s on average, fixed at the peak: 12 g6.xlarge")
    policy.value = "target_tracking"
    assert "autoscaled: 1 to 19 g6.xlarge" in said.value
    target.value = "trn1"
    assert "trn1.2xlarge" in said.value and drawings.children[0].value.startswith("<svg")
    left.children[1].value = 100  # growth
    assert said.value.startswith("trn1 at 16,000/s")


def test_machine_code_is_kept_in_the_users_cache_only(tmp_path, monkeypatch):
    import numba

    monkeypatch.setenv("NEURONFIT_CACHE", str(tmp_path))
    before = numba.config.CACHE_DIR
    loop = compiled.kernel.__wrapped__("serve")
    assert loop._cache.cache_path.startswith(str(tmp_path)) and numba.config.CACHE_DIR == before
    assert not [name for name in os.listdir(os.path.dirname(compiled.__file__)) if name.endswith((".nbi", ".nbc"))]


def test_without_numba_one_line_says_what_to_install(monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "numba", None)
    with pytest.raises(MissingPackage, match=r"numba.*pip install"):
        compiled.kernel.__wrapped__("serve")
