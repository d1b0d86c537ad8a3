"""Step 5 as it is shown: what the sentences say, and that the controls answer without a person."""

import asyncio
import base64
import os
import re
import sys
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest
from example_questions import question
from neuronfit import capacity, compare, show, utilization
from neuronfit.capacity import compiled, fleet, simulator
from neuronfit.capacity.scaling import Plan
from neuronfit.errors import MissingPackage, NeuronFitError
from neuronfit.show.controls import Bench, tried

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
    assert "Start-up of l4, inf2, trn1, 120 s: launch and image 120 s, weights not known (step 1)" in str(table)
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
    assert "Run in JupyterLab" in str(note) and "At twice the demand: l4 at 16,000/s" in str(note)


def test_a_person_gets_controls_that_answer(busy, monkeypatch):
    monkeypatch.setenv("JPY_SESSION_NAME", "05_utilization.ipynb")
    box = show.controls(*busy).box
    sliders, said, drawings = box.children
    left, right = sliders.children
    target, policy = right.children
    assert "l4 at 8,000/s on average, fixed at the peak: 12 g6.xlarge" in said.value
    policy.value = "target_tracking"
    assert "autoscaled: 1 to 19 g6.xlarge" in said.value
    target.value = "trn1"
    assert "trn1.2xlarge" in said.value and all(one.value.startswith("<svg") and "width:100%" in one.value for one in drawings.children)
    left.children[1].value = 100  # growth
    assert "trn1 at 16,000/s" in said.value


def displayed(thing, monkeypatch):
    """The outputs that a cell would have, in order."""
    import IPython.display

    outputs = []
    monkeypatch.setattr(IPython.display, "display", lambda data, raw: outputs.append(data))
    thing._ipython_display_()
    return outputs


def test_controls_without_a_kernel_are_the_picture_they_began_with(busy, monkeypatch):
    """A saved notebook holds both outputs and no state of widgets: JupyterLab then has a line about a missing model in place of the first."""
    panel = show.controls(*busy, interactive=True)
    began = str(show.week_of_demand(tried(*busy, "l4").record))
    panel.target.value = "trn1"
    live, still = displayed(panel, monkeypatch)
    assert live["application/vnd.jupyter.widget-view+json"]["model_id"] == panel.box.model_id and "text/html" not in live
    assert "VBox(" not in live["text/plain"], "what a page shows that has neither the widget nor the style"
    page = still["text/html"]
    assert set(still) == {"text/html", "text/plain"} and still["text/plain"].startswith("l4 at 8,000/s on average")
    assert still["text/plain"] in page and page.count('<img src="data:image/svg+xml;base64,') == 2 and began in page
    pictures = [base64.b64decode(link).decode() for link in re.findall('base64,([^"]+)', page)]
    assert [ElementTree.fromstring(picture).get("role") for picture in pictures] == ["img", "img"] and f'aria-label="{began}"' in pictures[0]


def test_of_controls_and_picture_one_is_hidden(busy, monkeypatch):
    """The style names classes that both outputs have: the picture goes where the controls are, and what else JupyterLab calls a widget where they are not."""
    panel = show.controls(*busy, interactive=True)
    page = displayed(panel, monkeypatch)[1]["text/html"]
    shown, hidden = re.findall(r"\.jp-OutputArea:(has\(.*?\)) \.jp-OutputArea-child", page)
    (live,) = set(panel.box._dom_classes)
    assert shown == f"has(.{live})" and hidden == f"has(.neuronfit-still):not(:has(.{live}))" and '<div class="neuronfit-still">' in page


def test_what_the_controls_say_is_escaped_and_an_error_leaves_no_old_picture(busy, monkeypatch):
    panel = show.controls(*busy, interactive=True)

    def refuse(*args, **options):
        raise NeuronFitError("nothing to simulate for <b>", "x")

    monkeypatch.setattr(panel.bench, "tried", refuse)
    panel.growth.value = 50
    assert "for &lt;b&gt;" in panel.said.value and (panel.week.value, panel.latency.value) == ("", "")
    monkeypatch.undo()
    panel.growth.value = 0
    assert panel.week.value.startswith("<svg") and panel.latency.value.startswith("<svg")


def test_a_target_without_a_curve_has_a_line_in_its_place(busy, monkeypatch):
    panel = show.controls(*busy, interactive=True)
    monkeypatch.setattr(panel.bench, "curve", lambda target, delay_ms: ())
    panel.delay.value = 1.0
    assert "A simulated fleet appears once" in panel.latency.value and panel.week.value.startswith("<svg")


@pytest.fixture(scope="module")
def declared(tmp_path_factory):
    asked = question(tmp_path_factory.mktemp("declared"), traffic=BUSY, baseline__count=15)
    compare.compare(asked)
    return asked, utilization.estimate(asked)


def test_the_declared_fleet_is_drawn_beside_what_is_needed(declared):
    """15 of 2,168/s: 8,000 / 32,520 = 24.6 % busy, where the 12 needed are 31 %."""
    record = declared[1]
    assert "l4 instances: as declared 15, fixed at the peak 12 to 12" in str(show.week_of_demand(record))
    assert "as declared" in show.week_of_demand(record).svg and "l4 as declared: 25% busy" in str(show.options_bars(record))
    table = str(show.scaling_table(record))
    assert "as declared (stands for the target)" in table and "360 E" in table and "At 25% busy l4" in str(show.break_even_curve(record))


def test_the_controls_show_the_declared_fleet_at_another_rate(declared):
    """Four times 24,000/s on 15 x 2,168/s: the peak is lost, and the sentence says so beside the 46 that would be needed (95,999 / 2,124.6)."""
    asked, record = declared
    found = tried(asked, record, "l4", times=4.0)
    assert ": 46 g6.xlarge" in found.sentence and " As declared: 15, 360 instance-hours a day, 98% busy, " in found.sentence
    assert [option.name for option in found.record.targets[0].options] == ["declared", "fixed"]
    assert "as declared 15" in str(show.week_of_demand(found.record)) and "As declared" not in tried(asked, record, "inf2").sentence


def two_days(path):
    """A trace of two days, 8 requests a minute by night and five times that by day, twice that on the second, in bursts: 40 words in, 120 out."""
    rng = np.random.default_rng(11)
    starts = np.arange(0, 2 * 86_400, 60)
    hour = starts / 3600 % 24
    mean = 8 * (1 + 4 * ((hour > 8) & (hour < 18))) * np.where(starts < 86_400, 1, 2)
    counts = rng.negative_binomial(3, 3 / (3 + mean))  # variance mean + mean^2 / 3 within a minute
    seconds = np.sort(np.concatenate([start + 60 * rng.random(count) for start, count in zip(starts, counts)]))
    moments = np.datetime64("2026-03-02T00:00:00") + (seconds * 1e6).astype("timedelta64[us]")
    lines = [f"{str(moment).replace('T', ' ')},40,{tokens}" for moment, tokens in zip(moments, rng.integers(60, 181, len(moments)))]
    path.write_text("\n".join(["TIMESTAMP,ContextTokens,GeneratedTokens", *lines]) + "\n")
    return len(lines)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    folder = tmp_path_factory.mktemp("recorded")
    count = two_days(folder / "trace.csv")
    objective = {"latency_p99_ms": None, "ttft_p99_ms": 1500, "tpot_p99_ms": None}
    asked = question(folder, "flan-t5-xl", traffic={"trace": {"file": str(folder / "trace.csv")}}, objective=objective)
    compare.compare(asked)
    return asked, utilization.estimate(asked), count


def late_by_day(bench, target, policy):
    """Share of late requests on each day of the simulation of the whole window."""
    seen, whole = [], simulator.generate

    def by_day(*args, **options):
        seen.append(whole(*args, **options, bins=(2, 86_400.0)))
        return seen[-1]

    _row, service, start, _usd = bench.of_target(target)
    settings = bench.question.params.policy.capacity.model_copy(update={"scaling": policy})
    plan = {option.name: option for option in capacity.options(bench.demand, service, bench.kept, settings, start)}[policy]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(simulator, "generate", by_day)
        fleet.evaluate(bench.demand, service, bench.kept, settings, start, Plan(policy, plan.paid, plan.ready))
    days = seen[-1].bins
    return days[:, 1] / days[:, 0]


@pytest.mark.parametrize("policy", ["fixed", "scheduled", "target_tracking"])
def test_the_quick_answer_is_the_record_s(recorded, policy, monkeypatch):
    """Instances, hours and busyness to the digit; what is late: the same requests, as long as they are few enough, within a hundredth
    of the busiest day of the whole simulation where they are not (the day starts with an empty queue)."""
    asked, record, count = recorded
    row = next(row for row in record.targets if row.options)
    full = next(option for option in row.options if option.name == policy)
    quick = tried(asked, record, row.target, policy=policy)
    (option,) = quick.record.targets[0].options
    assert "busiest" not in quick.sentence and option == full
    monkeypatch.setattr(fleet, "QUICK_GENERATED", int(0.8 * count))
    day = tried(asked, record, row.target, policy=policy)
    (part,) = day.record.targets[0].options
    assert "of the requests of the busiest 24 h late" in day.sentence and part.how != full.how
    for name in ("fewest", "most", "instance_hours_per_day", "busy", "idle_usd_per_month", "hourly_instances"):
        assert getattr(part, name) == getattr(full, name), name
    first, second = late_by_day(Bench(asked, record), row.target, policy)
    assert part.missed.value == pytest.approx(second, rel=0.01) and second > 1.02 * full.missed.value and first < full.missed.value


def test_where_an_hour_has_too_many_the_day_is_a_process_of_its_rates(recorded, monkeypatch):
    """Bursts within a minute are lost then, so less is late; instances and hours stay. The process has as many requests as the day had,
    60,941 but for the draw, as they keep the lengths of the trace."""
    asked, record, _count = recorded
    row = next(row for row in record.targets if row.options)
    monkeypatch.setattr(fleet, "QUICK_GENERATED", 500)
    (option,) = tried(asked, record, row.target, policy="fixed").record.targets[0].options
    full = row.options[0]
    assert option.how.startswith("every one of 60,9") and option.instance_hours_per_day == full.instance_hours_per_day
    assert 0 <= option.missed.value < full.missed.value


def test_a_move_reads_no_traffic_and_looks_up_no_service_again(busy, monkeypatch):
    controls = sys.modules["neuronfit.show.controls"]
    asked, record = busy
    read, served, drawn = [], [], []
    for owner, name, calls in ((controls, "demand_of", read), (controls, "latency_under_load", drawn), (capacity, "service_of", served)):
        real = getattr(owner, name)
        monkeypatch.setattr(owner, name, lambda *args, real=real, calls=calls: calls.append(args) or real(*args))
    panel = controls._Panel(asked, record, ["l4", "trn1"])
    panel.rate.value, panel.policy.value, panel.growth.value = 2.0, "scheduled", 100
    assert "l4 at 32,000/s" in panel.said.value and (len(read), len(served), len(drawn)) == (1, 1, 1)
    panel.target.value = "trn1"
    panel.delay.value = 3.0
    assert (len(read), len(served), len(drawn)) == (1, 2, 3)


def test_moves_in_a_row_are_answered_once(busy, monkeypatch):
    controls = sys.modules["neuronfit.show.controls"]
    panel = controls._Panel(*busy, ["l4", "trn1"])
    answered, real = [], panel.bench.tried
    monkeypatch.setattr(panel.bench, "tried", lambda *args, **options: answered.append(options["times"]) or real(*args, **options))

    async def three_moves():
        for times in (2.0, 3.0, 4.0):
            panel.rate.value = times
        assert not answered
        while not answered:
            await asyncio.sleep(0.01)
        await asyncio.sleep(2 * controls.TOGETHER_S)

    asyncio.run(three_moves())
    assert answered == [4.0] and "l4 at 32,000/s" in panel.said.value


def test_machine_code_is_kept_in_the_users_cache_only(tmp_path, monkeypatch):
    import numba

    monkeypatch.setenv("NEURONFIT_CACHE", str(tmp_path))
    before = numba.config.CACHE_DIR
    loop = compiled.kernel.__wrapped__("serve")
    assert loop._cache.cache_path.startswith(str(tmp_path)) and numba.config.CACHE_DIR == before
    assert not [name for name in os.listdir(os.path.dirname(compiled.__file__)) if name.endswith((".nbi", ".nbc"))]


def test_without_numba_one_line_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "numba", None)
    with pytest.raises(MissingPackage, match=r"numba.*pip install"):
        compiled.kernel.__wrapped__("serve")
