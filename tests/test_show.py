"""Tables and figures: the numbers by hand, a grade on each, and drawings that fit into any page."""

import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree

import example_records
import pytest
from example_records import GIB
from neuronfit import show
from neuronfit.provenance import Grade, Quantity, absent
from neuronfit.record import (
    Comparison,
    Compatibility,
    Compile,
    Cost,
    Decision,
    Difference,
    Payback,
    Profile,
    SecondMove,
    TaskOfMove,
    TrialPlan,
    Utilization,
)
from neuronfit.show import figures, software


@pytest.fixture(scope="module")
def dossier(tmp_path_factory):
    return example_records.dossier(tmp_path_factory.mktemp("show") / "bert-base-uncased")


def texts(table, row=None):
    rows = [[str(entry) for entry in line.cells] for line in table.rows]
    return rows if row is None else rows[row]


# -- numbers ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("quantity", "metric", "says"),
    [
        (Quantity(value=5.974e-3, unit="s", grade=Grade.PUBLISHED), "latency_p50_s", "5.97 ms [P]"),
        (Quantity(value=2674.19, unit="1/s", grade=Grade.MEASURED), "throughput_per_s", "2,674/s [M]"),
        (Quantity(value=0.0787569, unit="USD/1e6", grade=Grade.ESTIMATED), "usd_per_million", "$0.079 [E]"),
        (Quantity(value=0.408 * GIB, unit="bytes", grade=Grade.IMPORTED), "weights_bytes", "0.408 GiB [I]"),
        (absent("s", "50 samples; latency p99 needs 299"), "latency_p99_s", "– (50 samples; latency p99 needs 299)"),
        (None, "latency_p99_s", "– (not known)"),
    ],
)
def test_number(quantity, metric, says):
    assert show.number(quantity, metric) == says


def test_a_cell_shows_its_interval_in_the_shown_unit():
    quantity = Quantity(value=0.0297, low=0.0295, high=0.0301, confidence=0.95, unit="s", grade=Grade.MEASURED)
    assert str(show.cell((quantity, "latency_p50_s"))) == "29.7 M (29.5–30.1)"


def test_an_interval_that_rounds_to_a_point_is_not_shown():
    quantity = Quantity(value=2674.19, low=2674.1895, high=2674.1905, unit="1/s", grade=Grade.PUBLISHED)
    assert str(show.cell((quantity, "throughput_per_s"))) == "2,674 P"


def test_credentials_in_a_url_are_not_shown():
    assert str(show.cell("https://me:secret@host/v1")) == "https://host/v1"


# -- the headline -----------------------------------------------------------------------------


def test_headline_by_hand(dossier):
    table = show.headline_table(dossier)
    # $/h / (rate x 3600) x 1e6; $/h / (400 x 3600) x 1e6; 400 and 1,200 over the rate
    assert texts(table) == [
        ["l4 (g6.xlarge · TensorRT 10.2 · fp16 · batch 8)", "0.103 P", "0.559 E", "2,168 P", "– / 3.83 P (mean 3.69 P)", "18 E / 55 E", "baseline"],
        [
            "inf2 (inf2.xlarge · XLA trace · fp32 with bf16 products · batch 8)",
            "0.079 P",
            "0.527 E",
            "2,674 P",
            "5.97 P / 6.17 P",
            "15 E / 45 E",
            "not comparable (precision of products, timed region)",
        ],
        [
            "trn1 (trn1.2xlarge · XLA trace · fp32 with bf16 products · batch 16)",
            "0.109 P",
            "0.933 E",
            "3,422 P",
            "9.34 P / 9.42 P",
            "12 E / 35 E",
            "not comparable (precision of products, timed region)",
        ],
    ]
    assert [row.today for row in table.rows] == [True, False, False]


def test_the_cpu_stands_apart_and_is_not_ranked(dossier):
    table = show.headline_table(dossier)
    (row,) = table.reference
    assert str(row.cells[0]).startswith("cpu (torch 2.13.0+cpu")
    assert [str(row.cells[place]) for place in (1, 2, 5, 6)] == ["–"] * 4
    assert "M" in str(row.cells[3]) and "takes no part" in table.reference_title


def test_a_comparable_pair_shows_the_ratio_with_its_grade_and_verdict(tmp_path):
    made = example_records.dossier(tmp_path)
    old = made.latest(Comparison)
    ratio = Quantity(value=1.2335, low=1.21, high=1.26, confidence=0.95, unit="ratio", grade=Grade.MEASURED)
    pair = old.pairs[0].model_copy(update={"throughput": ratio, "verdict": "faster", "differences": ()})
    made.admit(old.model_copy(update={"pairs": (pair,), "created_utc": "2026-12-01T00:00:00.000000Z"}))
    table = show.headline_table(made)
    assert str(table.rows[1].cells[-1]) == "1.23× M (1.21–1.26; faster)"
    assert str(table.rows[2].cells[-1]) == "–"


@pytest.mark.parametrize(("without", "step", "columns"), [((Cost,), 6, (1, 2)), ((Comparison,), 4, (3, 4)), ((Utilization,), 5, (5,))])
def test_a_missing_step_leaves_dashes_that_name_the_command(tmp_path, without, step, columns):
    table = show.headline_table(example_records.dossier(tmp_path, without=without))
    for place in columns:
        for piece in table.rows[1].cells[place].pieces:
            assert piece.text == "–" and piece.why == f"not run yet: neuronfit run params/bert-base-uncased.yaml --steps {step}"


# -- other tables -----------------------------------------------------------------------------


def test_cost_by_hand(dossier):
    table = show.cost_table(dossier.latest(Cost))
    assert texts(table, 1) == ["inf2 (inf2.xlarge)", "0.758 P", "0.079 P", "0.527 E", "553 E", "3,527 P", "2,839 P", "14 E", "0.993 P"]
    # 2674.19/0.7582 = 3527; 0.8048 x 2674.19/0.7582 = 2838.6; (0.7582/2674.19)/(0.8048/400) = 14.1 %; 0.8048/2168 x 2674.19 = 0.9927
    assert [str(entry) for entry in table.rows[0].cells[-3:]] == ["–"] * 3
    assert "$0.079 per million at full load" in table.footnote


def test_other_bases_leave_out_the_one_in_use_and_name_what_has_no_price(dossier):
    table = show.bases_table(dossier.latest(Cost))
    assert [column.label for column in table.columns] == ["target", "on demand", "ri 3yr no upfront", "capacity block"]
    assert texts(table, 1)[1:] == ["0.079 P", "0.034 P", "–"]  # AWS prints $0.0341 for this row


def test_utilization_by_hand(dossier):
    table = show.utilization_table(dossier.latest(Utilization))
    assert texts(table, 0) == ["l4 (g6.xlarge)", "2,168 P", "1 E", "400 E / 1,200 E", "18 E / 55 E"]


def test_payback_that_never_comes_says_why(dossier):
    row = show.payback_table(dossier.latest(Payback)).rows[0]
    assert [str(entry) for entry in row.cells] == ["inf2", "34.02 E", "1,000 E", "22 E (15–31)", "22,000 E (15,000–31,000)", "–", "0 E", "47 E"]
    assert row.cells[5].pieces[0].why == "upkeep is more than the saving"


def test_gates_in_order(dossier):
    rows = texts(show.gates_table(dossier.latest(Decision)))
    assert [row[0] for row in rows] == ["fits", "compiles", "comparable", "parity", "objective", "busy", "cheaper", "pays back", "trial"]
    assert [row[1] for row in rows] == ["passed", "passed", "failed", "open", "passed", "failed", "passed", "failed", "open"]


def test_findings_the_worst_first(dossier):
    rows = texts(show.findings_table(dossier.latest(Comparison).findings))
    assert [row[0] for row in rows] == ["warning", "waiting", "waiting", "waiting"]


def test_operators_the_doubtful_first(dossier):
    rows = texts(show.operators_table(dossier.latest(Compatibility)))
    assert [row[2] for row in rows] == ["restricted", "no statement", "listed"]
    assert [row[1] for row in rows] == ["12", "2", "109"], "72 + 25 + 12 calls of what the list names share a row"


def test_weights_by_hand(dossier):
    rows = texts(show.weights_table(dossier.latest(Profile)))  # 109,482,240 x 4, 2, 1 bytes over 2^30
    assert [row[1] for row in rows] == ["0.408 E", "0.204 E", "0.102 E", "0.55 E"]


def test_request_by_hand(dossier):
    table = show.request_table(dossier.latest(Profile))
    rows = dict(texts(table))  # 1 - 0.1 - 0.3 = 0.6; twice as fast saves 0.6 x (1 - 1/2) = 0.3; 1 / (1 - 0.6) = 2.5
    assert list(rows.values()) == ["10 E", "30 E", "60 E", "30 E"]
    assert "at most 2.5x [E] as fast" in table.footnote


def test_runs_by_hand():
    record = example_records.cpu_measurement()
    rows = texts(show.runs_table(record))
    for row, run in zip(rows, record.runs):
        assert row[1:4] == ["4", "130", "0"]
        assert float(row[5].removesuffix(" M")) == pytest.approx(130 / run.duration_s, abs=0.005)


def test_smallest_instances_by_hand(dossier):
    found = dossier.latest(Compatibility)
    # 0.55 GiB + 96 MiB of 32 / 2 GiB; 0.55 GiB + 512 MiB of 22.35 / 8 GiB
    assert texts(show.fit_table(found)) == [
        ["inf2.xlarge", "1", "2", "0.644 E / 16 P", "96 E", "nothing"],
        ["g6f.large", "1", "1", "1.05 E / 2.79 P", "62 E", "nothing"],
    ]
    split = found.smallest[0].model_copy(
        update={"tp_degree": 8, "copies": 1, "remarks": ("20 attention heads padded to 24", "vocabulary 50257 padded to 50264")}
    )
    row = texts(show.fit_table(found.model_copy(update={"smallest": (split,)})), 0)
    assert row[1:3] == ["8", "1"] and row[-1] == "20 attention heads padded to 24; vocabulary 50257 padded to 50264"
    note = show.fit_table(found.model_copy(update={"smallest": ()}))
    assert isinstance(note, show.Note) and "No instance of the catalogue" in str(note)


def test_plan_lists_everything_fixed_beforehand(dossier):
    rows = dict(texts(show.plan_table(dossier.latest(TrialPlan))))
    assert rows["stage 2"] == "canary 1 %: 1% of the traffic, duration 60 min, expected requests 14,400"
    assert rows["rollback 1"] == "set the candidate's traffic weight to 0"
    assert rows["endpoint of baseline"] == "not declared yet"


def test_provenance_lists_every_record_once(dossier):
    rows = texts(show.provenance_table(dossier))
    assert sorted(row[0] for row in rows) == sorted(record.id for record in example_records.every())
    files = {path.name for path in dossier.files()}
    assert {row[-1] for row in rows} == files


def test_assumptions_list_the_defaults_too(dossier):
    rows = dict(texts(show.assumptions_table(dossier.latest(Profile))))
    assert rows["policy.margin"] == "0.05" and rows["effort.day_rate_usd"] == "1,000"
    assert rows["workload.shapes.2"] == "batch_size 8, sequence_length 128"
    assert rows["trial.baseline_url"] == "not given"


ALL_TABLES = {
    "headline": lambda d: show.headline_table(d),
    "gates": lambda d: show.gates_table(d.latest(Decision)),
    "findings": lambda d: show.findings_table(d.latest(Compatibility).findings),
    "situations": lambda d: show.situations_table(d.latest(Profile)),
    "weights": lambda d: show.weights_table(d.latest(Profile)),
    "request": lambda d: show.request_table(d.latest(Profile)),
    "fit": lambda d: show.fit_table(d.latest(Compatibility)),
    "software": lambda d: show.software_table(d.latest(Compatibility)),
    "paths": lambda d: show.paths_table(d.latest(Compatibility)),
    "operators": lambda d: show.operators_table(d.latest(Compatibility)),
    "compile": lambda d: show.compile_table(d.latest(Compile)),
    "measurements": lambda d: show.measurements_table(d.measurements()),
    "pairs": lambda d: show.pairs_table(d.latest(Comparison)),
    "differences": lambda d: show.differences_table(d.latest(Comparison)),
    "utilization": lambda d: show.utilization_table(d.latest(Utilization)),
    "cost": lambda d: show.cost_table(d.latest(Cost)),
    "bases": lambda d: show.bases_table(d.latest(Cost)),
    "payback": lambda d: show.payback_table(d.latest(Payback)),
    "plan": lambda d: show.plan_table(d.latest(TrialPlan)),
    "runs": lambda d: show.runs_table(d.measurements("cpu")[0]),
    "provenance": lambda d: show.provenance_table(d),
    "assumptions": lambda d: show.assumptions_table(d.latest(Profile)),
}


@pytest.mark.parametrize("name", ALL_TABLES)
def test_every_table_defines_its_columns_and_says_the_same_twice(dossier, name):
    table, again = ALL_TABLES[name](dossier), ALL_TABLES[name](dossier)
    assert table._repr_html_() == again._repr_html_() and str(table) == str(again) and table.html() == again.html()
    assert len(table.definitions()) == len(table.columns)
    assert all(column.meaning for column in table.columns)
    for text in (str(table), table._repr_html_(), table.html()):
        assert not re.search(r"\b(None|nan|inf)\b", text), re.search(r".{40}\b(None|nan|inf)\b.{20}", text)
    assert "id=" not in table._repr_html_()
    ElementTree.fromstring(f"<div>{table._repr_html_()}</div>")
    ElementTree.fromstring(f"<div>{table.html()}</div>")


def dollars_that_math_would_take(page: str) -> list[str]:
    """Texts with two dollar signs outside of what MathJax leaves alone: a notebook would show what is between them as a formula."""
    found = []

    def walk(element, ignored):
        ignored = ignored or "mathjax_ignore" in (element.get("class") or "").split()
        for text in (element.text, *(child.tail for child in element)):
            if not ignored and (text or "").count("$") > 1:
                found.append(text)
        for child in element:
            walk(child, ignored)

    walk(ElementTree.fromstring(f"<div>{page}</div>".replace("<br>", "<br/>")), False)
    return found


@pytest.mark.parametrize("name", ALL_TABLES)
def test_money_in_a_notebook_is_no_formula(dossier, name):
    table = ALL_TABLES[name](dossier)
    assert not dollars_that_math_would_take(table._repr_html_())
    if name == "cost":
        assert dollars_that_math_would_take(table._repr_html_().replace("mathjax_ignore", "")), "the footnote has several sums"


@pytest.mark.parametrize(
    "shown",
    [
        show.Note("from $1 to $2"),
        show.sentences("$0.079 against $0.103", "and $3 of $4"),
        show.Listing("What to type", (software._Entry("a", "here", "echo $A $B", ("$1 or $2",)),)),
    ],
    ids=["note", "sentences", "listing"],
)
def test_money_beside_tables_is_no_formula_either(shown):
    assert "$" in shown._repr_html_() and not dollars_that_math_would_take(shown._repr_html_())


def test_sentences_are_paragraphs_and_lines():
    said = show.sentences("a < b", "c")
    assert str(said) == repr(said) == "a < b\nc"
    assert [entry.text for entry in ElementTree.fromstring(f"<div>{said._repr_html_()}</div>")] == ["a < b", "c"]


def test_a_wide_table_fits_into_a_notebook(dossier):
    """Heads wrap, ids and long names may be broken, many columns are set smaller; a page with a style sheet of its own has none of it."""
    record = dossier.measurements()[0].id
    cells = [show.cell(record), show.cell("time.perf_counter"), show.cell("2.33.0"), show.cell("0.5 of a_b")]

    def table(count):
        columns = tuple(show.Column(f"break-even {place}", "a number", words=place < 2) for place in range(count))
        return show.Table("wide", columns, (show.Row((*cells, *(show.cell("1"),) * count)[:count]),))

    page = table(10)._repr_html_()
    assert "font-size:12px" in page and "font-size:12px" not in table(9)._repr_html_()
    assert f"{record[:8]}<wbr/>{record[8:]}" in page and "time.<wbr/>perf_<wbr/>counter" in page
    assert ">2.33.0<" in page and ">0.5 of a_b<" in page, "numbers and short names stay whole"
    heads = re.findall(r'<th scope="col" style="([^"]*)"', page)
    assert len(heads) == 10 and all(style.split("white-space:")[-1].startswith("normal") for style in heads)
    plain = table(10).html()
    assert record in plain and "wbr" not in plain and 'class="num"' in plain


@pytest.mark.parametrize("name", ALL_TABLES)
def test_text_of_a_table_is_aligned(dossier, name):
    table = ALL_TABLES[name](dossier)
    rule = str(table).splitlines()[2]
    assert set(rule) == {"-", " "} and len(rule.split("  ")) == len(table.columns)


def test_text_in_records_is_escaped():
    table = show.Table("<u>", (show.Column("a", "<i>", words=True),), (show.Row((show.cell("<script>alert('x')</script>"),)),))
    for text in (table.html(), table._repr_html_()):
        assert "<script>" not in text and "<u>" not in text and "&lt;script&gt;" in text


def test_a_row_of_the_wrong_length_is_refused():
    with pytest.raises(ValueError, match="1 cells, the table 2 columns"):
        show.Table("t", (show.Column("a", "a"), show.Column("b", "b")), (show.Row((show.cell("x"),)),))


@pytest.mark.parametrize(
    "nothing",
    [
        lambda: show.cost_table(None),
        lambda: show.paths_table(None),
        lambda: show.fit_table(None),
        lambda: show.gates_table(None),
        lambda: show.measurements_table([]),
        lambda: show.findings_table([]),
        lambda: show.busy_bars(None),
        lambda: show.hourly_load(None, None),
        lambda: show.payback_curve(None),
        lambda: show.settling(None),
        lambda: show.batch_latency_curves([]),
    ],
)
def test_nothing_to_show_is_a_falsy_line(nothing):
    note = nothing()
    assert isinstance(note, show.Note) and not note and len(str(note).splitlines()) == 1
    assert str(note) in note._repr_html_()


# -- figures ----------------------------------------------------------------------------------

ALL_FIGURES = {
    "cost-against-latency": lambda d: show.cost_against_latency(d),
    "batch-latency": lambda d: show.batch_latency_curves(d.measurements()),
    "hourly-load": lambda d: show.hourly_load(d.latest(Profile), d.latest(Utilization)),
    "busy": lambda d: show.busy_bars(d.latest(Utilization)),
    "cost": lambda d: show.cost_bars(d.latest(Cost)),
    "payback": lambda d: show.payback_curve(d.latest(Payback)),
    "settling-cpu": lambda d: show.settling(d.measurements("cpu")[0]),
}


@pytest.mark.parametrize("name", ALL_FIGURES)
def test_every_figure_fits_into_a_page(dossier, name):
    figure, again = ALL_FIGURES[name](dossier), ALL_FIGURES[name](dossier)
    assert figure.name == name and figure.svg == again.svg, "the same records give the same bytes"
    root = ElementTree.fromstring(figure._repr_svg_())
    assert float(root.get("width")) < 600, "a notebook does not blow it up to its own width"
    assert root.get("role") == "img" and root.get("aria-label") == figure.alt == str(figure)
    ids = [element.get("id") for element in root.iter() if element.get("id")]
    assert len(ids) == len(set(ids)) and all(entry.startswith(f"{name}-") for entry in ids)
    assert "currentColor" in figure.svg and figures.INK not in figure.svg
    assert not re.search(r"<style|<metadata|<script|https?://", figure.svg)
    assert "<text" in figure.svg, "words stay words"
    assert not re.search(r"\b(None|nan)\b", figure.svg)
    assert len(figure.svg) < 40_000


def test_the_alternative_text_has_the_numbers(dossier):
    assert str(show.cost_against_latency(dossier)) == (
        "Cost per million at full load against p99 latency: l4 (g6.xlarge) $0.103 at 3.83 ms [P]; inf2 (inf2.xlarge) $0.079 at 6.17 ms [P]; "
        "trn1 (trn1.2xlarge) $0.109 at 9.42 ms [P]. The objective is 20 ms."
    )
    assert "l4 can do 2,168/s on 1 instance" in str(show.hourly_load(dossier.latest(Profile), dossier.latest(Utilization)))
    # (0.8048 - 0.7582) x 730 = 34.018 a month; -22,000 + 36 x (34.018 - 1,000) = -56,775
    assert "inf2 stands at -$56,800 after 36 months" in str(show.payback_curve(dossier.latest(Payback)))


def test_money_is_not_read_as_mathematics(dossier):
    assert "$0.103 full load, $0.559 your traffic" in show.cost_bars(dossier.latest(Cost)).svg


def test_a_published_point_is_open_and_a_measured_one_filled(tmp_path):
    published = show.cost_against_latency(example_records.dossier(tmp_path / "a"))
    made = example_records.dossier(tmp_path / "b")
    old = made.latest(Comparison)
    cpu = made.measurements("cpu")[0]
    made.admit(old.model_copy(update={"headline": {**old.headline, "inf2": cpu.id}, "created_utc": "2026-12-01T00:00:00.000000Z"}))
    measured = show.cost_against_latency(made)
    hue = figures.HUES[0]
    assert f"fill: {hue}" not in published.svg
    assert f"fill: {hue}" in measured.svg
    assert "at 31.3 ms [M]" in measured.alt


def test_png_is_a_png(dossier):
    assert show.busy_bars(dossier.latest(Utilization)).png().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    "points",
    [
        [(5, 0.1, "alpha $0.100"), (5, 0.1, "beta $0.100"), (5, 0.1, "gamma $0.100"), (5, 0.1, "delta $0.100")],
        [(5, 0.1, "alpha $0.100"), (5.3, 0.1005, "beta $0.101"), (5.6, 0.0995, "gamma $0.100"), (19.8, 0.12, "a rather long name $0.120")],
        [(0.1, 0.08, "left $0.080"), (19.9, 0.08, "right $0.080"), (10, 0.0801, "middle $0.080")],
    ],
)
def test_labels_do_not_overlap_and_stay_inside(points):
    with figures._drawing("test"):
        placed = []

        def draw(canvas):
            axes = figures._axes(canvas, "x", "y")
            axes.set_xlim(0, 22)
            axes.set_ylim(0.06, 0.14)
            placed.extend(figures._place(axes, points, []))

        canvas = figures._canvas("test", draw, figures.HEIGHT)
        canvas.draw_without_rendering()
        boxes = [label.get_window_extent() for label in placed]
    assert len(boxes) == len(points), "every point is named"
    for place, box in enumerate(boxes):
        assert not any(box.overlaps(other) for other in boxes[place + 1 :])
        assert box.x0 >= 0 and box.x1 <= figures.WIDTH * 72


def test_drawing_leaves_the_users_settings_alone(dossier):
    import matplotlib

    before = dict(matplotlib.rcParams)
    show.busy_bars(dossier.latest(Utilization))
    assert dict(matplotlib.rcParams) == before


def test_importing_show_draws_nothing_and_loads_no_plotting_library():
    code = "import sys; from neuronfit import show, report; sys.exit('matplotlib' in sys.modules or 'jinja2' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


# -- how it was measured ----------------------------------------------------------------------


def test_the_protocol_of_a_measurement_is_shown():
    """Overhead 2 us of a call of 10 ms is 0.02 %; two calls 19 ms of 10; others 30 CPU seconds in 20 s; device 8 of 10 ms."""
    from neuronfit.record import ClockProof, Run, Taken

    base = example_records.cpu_measurement()
    runs = tuple(
        Run(start_utc=f"2026-11-30T09:0{place}:00Z", duration_s=10.0, cpu_s=9.0, others_cpu_s=others, load_1min=load, values_s=(0.010,) * 30)
        for place, (others, load) in enumerate([(10.0, 1.0), (20.0, 2.5)])
    )
    clock = ClockProof(single_s=0.010, double_s=0.019, read_back_s=0.0101, repeats=5, verdict="proven", because="")
    taken = Taken(
        session="s",
        together_with=("other",),
        rounds=2,
        ended="narrow",
        ended_because="",
        metric="latency_p50_s",
        width_asked=0.02,
        width=0.013,
        budget_s=20,
        warm_up="settled",
        overhead_s=2e-6,
        clock=clock,
    )
    settings = base.settings.model_copy(update={"other": {"device_s_median": "0.008"}})
    entry = base.model_copy(update={"runs": runs, "taken": taken, "settings": settings})
    (row,) = texts(show.protocol_table([entry, base]))
    assert row[1:4] == ["2 × 60", "1 other", "interval narrow enough (start-up settled)"]
    assert row[4:8] == ["1.3 M", "1.9 M", "1.01 M", "2 (under 0.1 %)"]
    assert row[8:] == ["1.5 M (load average up to 2.5)", "80 M"]
    assert not show.protocol_table([base]) and "by this code" in str(show.protocol_table([base]))


def test_curves_leave_out_what_is_invalid_and_take_the_median_where_p99_is_rare():
    base = example_records.cpu_measurement()
    few = tuple(run.model_copy(update={"values_s": (0.010, 0.011, 0.012)}) for run in base.runs)
    entries = [
        base.model_copy(update={"runs": few, "valid": valid, "settings": base.settings.model_copy(update={"batch_size": batch}), "id": str(batch)})
        for batch, valid in ((1, True), (4, True), (8, False))
    ]
    figure = show.batch_latency_curves(entries)
    assert "median latency by batch size" in str(figure) and "batch 4" in str(figure) and "batch 8" not in str(figure)
    assert "No VALID figure" in str(show.batch_latency_curves(entries[2:]))


def test_of_one_setting_the_curve_shows_the_newest_software(dossier):
    """As the headline does: SDK 2.27's 2,674/s, not the 2,500/s of SDK 2.26 that was read in later."""
    newer = next(entry for entry in dossier.measurements("inf2") if entry.settings.batch_size == 8)
    newer = newer.model_copy(update={"settings": newer.settings.model_copy(update={"sdk": "2.27.0"})})
    older = newer.model_copy(
        update={
            "id": "older",
            "created_utc": "2026-12-24T00:00:00.000000Z",
            "settings": newer.settings.model_copy(update={"sdk": "2.26.0"}),
            "values": {**newer.values, "throughput_per_s": 2500.0},
        }
    )
    for order in ([newer, older], [older, newer]):
        said = str(show.batch_latency_curves(order))
        assert "2,674/s" in said and "2,500/s" not in said


def test_a_target_has_one_colour_in_every_figure(dossier):
    """The baseline is grey and the first candidate blue, whichever was measured first."""
    from neuronfit.show.figures import HUES, TODAY

    entries = [entry for name in ("inf2", "l4") for entry in dossier.measurements(name)]
    svg = show.batch_latency_curves(entries, ["l4", "inf2", "trn1"]).svg
    assert TODAY in svg and HUES[0] in svg and HUES[1] not in svg
    only = show.batch_latency_curves(dossier.measurements("inf2"), ["l4", "inf2", "trn1"]).svg
    assert HUES[0] in only and TODAY not in only


def test_settings_that_differ_alike_share_a_row(dossier):
    """Two candidates that differ from the baseline in the same way are one row; a mode is named only where it is not every pair's."""
    comparison = dossier.latest(Comparison)
    one = comparison.pairs[0]
    differences = (
        Difference(setting="timed region", baseline="excludes host<->device copies", candidate="not stated", matters=True),
        Difference(setting="precision", baseline="fp16", candidate="fp32_bf16_matmul", matters=False),
    )
    sizes = Difference(setting="batch size", baseline="16", candidate="8", matters=False)
    made = [
        one.model_copy(update={"candidate": name, "mode": mode, "baseline_record": mode, "differences": (*differences, *more)})
        for name in ("inf2", "trn1")
        for mode, more in (("matched", ()), ("best", (sizes,) if name == "inf2" else ()))
    ]
    table = show.differences_table(comparison.model_copy(update={"pairs": tuple(made)}))
    assert texts(table) == [
        ["timed region", "excludes host-device copies", "not stated", "inf2; trn1", "forbids it"],
        ["precision", "fp16", "fp32 with bf16 products", "inf2; trn1", "shown only"],
        ["batch size", "16", "8", "inf2 (best)", "shown only"],
    ]


def test_other_bases_say_how_old_their_prices_are(dossier):
    """2026-07-20 and 2026-09-06 are 123 and 75 days before the 2026-11-20 on which the cost was reckoned."""
    cost = dossier.latest(Cost)
    assert cost.created_utc.startswith("2026-11-20")
    dated = []
    for row, day in zip(cost.targets, ("2026-07-20", "2026-09-06", "2026-07-20")):
        option = next(name for name in row.other_bases if name.startswith("ri_3yr"))
        price = row.other_bases[option].model_copy(update={"why": f"3-year reserved in us-east-1, list, as of {day}"})
        dated.append(row.model_copy(update={"other_bases": {**row.other_bases, option: price}}))
    table = show.bases_table(cost.model_copy(update={"targets": tuple(dated)}))
    assert table.footnote.endswith("Prices as of: ri 3yr no upfront 2026-07-20 to 2026-09-06, 75 to 123 days old.")
    assert "Prices as of" not in show.bases_table(cost).footnote  # an older record has no dates, and none are made up


def test_an_invalid_figure_says_so_where_it_is_shown(tmp_path):
    """In the headline's reference row and in step 4's table, with the first reason; all reasons are step 4's findings."""
    made = example_records.dossier(tmp_path, without=(Comparison,))
    base = example_records.cpu_measurement()
    validity = "the budget was spent; raise policy.budget_s | host was disturbed: 59%; stop what else runs"
    made.admit(base.model_copy(update={"valid": False, "validity": validity, "created_utc": "2026-12-01T00:00:00.000000Z"}))
    (row,) = show.headline_table(made).reference
    assert "INVALID" in str(row.cells[0])
    table = show.measurements_table([base.model_copy(update={"valid": False, "validity": validity})])
    place = [column.label for column in table.columns].index("source")
    assert "INVALID: the budget was spent, and 1 more" in texts(table, 0)[place] and table.columns[place].wide
    assert "valid: " in texts(show.measurements_table([base]), 0)[place]


def test_a_column_without_a_word_takes_no_room():
    columns = (show.Column("a", "x", words=True), show.Column("b", "y", words=True, wide=True), show.Column("c", "z", words=True, wide=True))
    table = show.Table("t", columns, (show.Row((show.cell("1"), show.cell(None), show.cell("some words"))),))
    assert table.html().count("wide") == 2  # the head and the cell of the last column


def test_a_second_migration_that_is_not_reckoned_with_has_no_price(dossier):
    payback = dossier.latest(Payback)
    never = SecondMove(
        probability=Quantity(value=0.0, unit="fraction", grade=Grade.ESTIMATED),
        cost=Quantity(value=10_000.0, unit="USD", grade=Grade.ESTIMATED),
        because="the path is not one of the Neuron SDK; 50% of the first migration's effort",
    )
    task = TaskOfMove(name="all", low=1, likely=1, high=1, because="x")
    row = payback.targets[0].model_copy(update={"tasks": (task,), "second_move": never})
    footnote = show.tasks_table(payback.model_copy(update={"targets": (row,)})).footnote
    assert "A second migration: not reckoned with (the path is not one of the Neuron SDK)." in footnote and "10,000" not in footnote


def test_a_candidate_is_not_drawn_as_the_baseline_for_want_of_its_figure(dossier):
    """Where the baseline has no cost and no load, the first bar is a candidate's and keeps its colour."""
    from neuronfit.show.figures import HUES, TODAY

    cost, load = dossier.latest(Cost), dossier.latest(Utilization)
    gone = absent("USD/1e6", "no figure")
    costs = (cost.targets[0].model_copy(update={"full_load": gone, "expected": gone}), *cost.targets[1:2])
    idle = (load.targets[0].model_copy(update={"busy_mean": absent("fraction", "no figure")}), *load.targets[1:2])
    for drawn in (show.cost_bars(cost.model_copy(update={"targets": costs})), show.busy_bars(load.model_copy(update={"targets": idle}))):
        assert HUES[0] in drawn.svg and TODAY not in drawn.svg
