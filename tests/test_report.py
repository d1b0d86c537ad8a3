"""The report: rebuilt from records alone, whole with any step missing, one file, every number graded."""

import json
import re
import shutil
from html.parser import HTMLParser

import example_records
import pytest
from neuronfit import report
from neuronfit.dossier import Dossier
from neuronfit.errors import BadInput, BadRecord, NotWritable, WaitingForEvidence
from neuronfit.record import (
    KINDS,
    STEPS,
    Comparison,
    Compatibility,
    Compile,
    Cost,
    Decision,
    Finding,
    Measurement,
    Payback,
    Profile,
    Severity,
    TrialPlan,
    Utilization,
)
from neuronfit.units import metric

CONCLUSIONS = (Compatibility, Compile, Comparison, Utilization, Cost, Payback, TrialPlan, Decision)
VOID = {"meta", "br", "hr", "img", "input", "link"}


class Page(HTMLParser):
    """A page taken apart: refuses what is not well-formed, keeps ids, links, tags and text."""

    def __init__(self, html):
        super().__init__(convert_charrefs=True)
        self.open, self.tags, self.ids, self.links, self.text, self.cells = [], [], [], [], [], []
        self.feed(html)
        self.close()
        assert not self.open, f"left open: {self.open}"

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        self.tags.append((tag, attributes))
        self.ids += [attributes["id"]] if "id" in attributes else []
        self.links += [attributes["href"]] if tag == "a" else []
        if tag in ("td", "th"):
            self.cells.append(
                {
                    "tag": tag,
                    "classes": attributes.get("class", "").split(),
                    "text": "",
                    "bare": "",
                    "numbers": 0,
                    "grades": [],
                    "table": self.table(),
                }
            )
        if attributes.get("class") == "n":
            self.cells[-1]["numbers"] += 1
        if "g" in attributes.get("class", "").split() and self.cells:
            self.cells[-1]["grades"].append(attributes["title"].split(",")[0])
        if tag not in VOID:
            self.open.append((tag, attributes))

    def handle_startendtag(self, tag, attributes):
        self.handle_starttag(tag, attributes)
        if tag not in VOID:
            self.handle_endtag(tag)

    def handle_endtag(self, tag):
        assert self.open and self.open[-1][0] == tag, f"</{tag}> closes {self.open[-1:]}"
        self.open.pop()

    def handle_data(self, data):
        if self.open and self.open[-1][0] == "style":
            return
        self.text.append(data)
        if any(tag in ("td", "th") for tag, _ in self.open):
            self.cells[-1]["text"] += data
            if not any(tag == "small" or attributes.get("class") == "n" for tag, attributes in self.open):
                self.cells[-1]["bare"] += data

    def table(self):
        return next((attributes.get("class", "") for tag, attributes in reversed(self.open) if tag == "table"), "")

    @property
    def words(self):
        return " ".join(" ".join(self.text).split())


@pytest.fixture(scope="module")
def dossier(tmp_path_factory):
    return example_records.dossier(tmp_path_factory.mktemp("report") / "bert-base-uncased")


@pytest.fixture(scope="module")
def html(dossier):
    return report.render(dossier)


@pytest.fixture(scope="module")
def page(html):
    return Page(html)


@pytest.fixture(scope="module")
def content(dossier):
    return report.build(dossier)


# -- one file ---------------------------------------------------------------------------------


def test_ids_are_unique_and_every_link_leads_somewhere(page):
    assert len(page.ids) == len(set(page.ids))
    assert page.links and {link.removeprefix("#") for link in page.links} <= set(page.ids)
    labelled = {attributes["aria-labelledby"] for _, attributes in page.tags if "aria-labelledby" in attributes}
    assert labelled <= set(page.ids)


def test_nothing_is_loaded_and_nothing_runs(html, page):
    assert not {"script", "link", "iframe", "object", "embed", "img", "base", "form"} & {tag for tag, _ in page.tags}
    for tag, attributes in page.tags:
        for name, value in attributes.items():
            assert not name.startswith("on"), f"<{tag} {name}>"
            if name in ("src", "href", "xlink:href", "srcset", "action", "poster", "data"):
                assert value.startswith(("#", "data:image/png;base64,")), f"<{tag} {name}={value[:60]}>"
    assert not re.search(r"@import|url\((?!#)|https?://", html)
    policy = next(attributes["content"] for tag, attributes in page.tags if attributes.get("http-equiv") == "Content-Security-Policy")
    assert policy == "default-src 'none'; style-src 'unsafe-inline'; img-src data:"


def test_no_machine_words_in_the_text(page):
    assert not re.search(r"\b(None|nan|NaN|null|undefined|True|False)\b", page.words)
    assert "{{" not in page.words and "{%" not in page.words


def test_landmarks_headings_captions_and_scope(page):
    tags = [tag for tag, _ in page.tags]
    assert [tags.count(name) for name in ("header", "main", "footer", "h1")] == [1, 1, 1, 1]
    assert tags.count("caption") == tags.count("table")
    assert all(attributes.get("scope") in ("col", "row", "rowgroup") for tag, attributes in page.tags if tag == "th")
    drawings = [attributes for tag, attributes in page.tags if tag == "svg"]
    assert len(drawings) == 8 and all(entry["role"] == "img" and len(entry["aria-label"]) > 30 for entry in drawings)
    assert next(attributes["lang"] for tag, attributes in page.tags if tag == "html") == "en"


def luminance(color):
    """Relative luminance of ``#rrggbb`` (WCAG 2.2)."""
    digits = color.lstrip("#")
    digits = "".join(2 * one for one in digits) if len(digits) == 3 else digits
    parts = [int(digits[place : place + 2], 16) / 255 for place in (0, 2, 4)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one, other):
    high, low = sorted((luminance(one), luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def test_words_can_be_read_in_light_in_dark_and_on_paper(html):
    """WCAG AA, 4.5 : 1, for every colour of words on every ground that it stands on. The formula's own check: black on white is 21."""
    assert contrast("#000", "#fff") == pytest.approx(21) and contrast("#777", "#fff") == pytest.approx(4.48, abs=0.01)
    palettes = [dict(re.findall(r"--([a-z-]+):(#[0-9a-f]{3,6})", block)) for block in re.findall(r":root\{([^}]*)\}", html)]
    assert len(palettes) == 3  # light, dark, print
    for palette in palettes:
        for words in ("ink", "soft", "accent", "good", "wait", "bad", "m", "i", "p", "e"):
            for ground in ("paper", "tint"):
                assert contrast(palette[words], palette[ground]) >= 4.5, (words, ground, palette[words])
        for words, ground in (("ink", "wait-bg"), ("soft", "wait-bg"), ("soft", "good-bg"), ("soft", "calm-bg"), ("e", "wait-bg"), ("p", "calm-bg")):
            assert contrast(palette[words], palette[ground]) >= 4.5, (words, ground)


def test_size_is_that_of_a_mail_not_of_a_film(html):
    assert len(html.encode()) < 400_000


# -- the first screen -------------------------------------------------------------------------


def headline(page):
    return [cell for cell in page.cells if "table-headline" in cell["table"]]


def test_every_number_of_the_headline_carries_a_grade(page):
    numbers = [cell for cell in headline(page) if cell["tag"] == "td" and re.search(r"\d", cell["text"])]
    assert len(numbers) == 3 * 5 + 2  # three targets with five number cells, the CPU with two
    for cell in numbers:
        assert len(cell["grades"]) == cell["numbers"] > 0 and not re.search(r"\d", cell["bare"]), cell


def test_the_headline_by_hand(page):
    rows = [cell["text"].replace("\n", "") for cell in headline(page) if cell["tag"] == "td"]
    assert rows[:6] == ["0.103P", "0.559E", "2,168P", "– / 3.83Pmean 3.69 P", "18E / 55E", "baseline"]
    assert rows[6:11] == ["0.079P", "0.527E", "2,674P", "5.97P / 6.17P", "15E / 45E"]
    assert rows[12:17] == ["0.109P", "0.933E", "3,422P", "9.34P / 9.42P", "12E / 35E"]


def test_the_same_number_everywhere(dossier, page, content):
    """The headline table, the figures and report.json show one number, rounded the same way, with the same grade."""
    table = [cell["text"].replace("\n", "") for cell in headline(page) if cell["tag"] == "td"]
    said = {attributes["aria-label"] for tag, attributes in page.tags if tag == "svg"}
    against_latency, by_batch, bars = (
        next(text for text in said if text.startswith(start))
        for start in ("Cost per million at full load", "Throughput against", "Cost of a million useful results: ")
    )
    for place, target in enumerate(entry for entry in content["targets"] if entry["role"] != "reference"):
        bases = target["cost_per_million"]["on_demand"]
        shown = table[6 * place : 6 * place + 6]
        for number, name, cell in (
            (bases["full_load"], "usd_per_million", shown[0]),
            (bases["at_your_traffic"], "usd_per_million", shown[1]),
            (target["throughput"], "throughput_per_s", shown[2]),
            (target["latency"]["p99"], "latency_p99_s", shown[3].partition(" / ")[2]),
            (target["utilization"]["mean"], "utilization", shown[4]),
        ):
            assert cell.startswith(metric(name).number(number["value"]) + number["grade"][0].upper()), (target["name"], name, cell)
        usd, p99 = metric("usd_per_million").text(bases["full_load"]["value"]), metric("latency_p99_s").text(target["latency"]["p99"]["value"])
        assert f"{target['name']} ({target['instance_type']}) {usd} at {p99} [{bases['full_load']['grade'][0].upper()}]" in against_latency
        assert f"{target['name']} {usd} at full load" in bars
        assert f"batch {target['batch_size']}: {metric('throughput_per_s').text(target['throughput']['value'])} at {p99}" in by_batch
    assert content["decision"]["sentence"] in page.words and all(" ".join(reason.split()) in page.words for reason in content["decision"]["reasons"])


def test_why_a_number_is_absent_can_be_read_without_pointing(page):
    """The L4's page prints no median; the CPU takes no part in cost. Both are text, not a tooltip alone."""
    words = page.words
    assert "Why a number is not known" in words and "point at it" not in words
    listed = words[words.index("Why a number is not known") : words.index("What the columns mean")]
    assert (
        "l4: latency p50 / p99" in listed
        and "cpu: full load, your traffic, busy mean / peak, against baseline this host's CPU takes no part in cost and load" in listed
    )


def test_contents_lead_to_every_part(page):
    links = page.links[: page.links.index("#appendix") + 1]
    assert links == ["#targets", "#gates", "#next", *(f"#step-{number}" for number in range(1, 9)), "#appendix"]


def test_the_next_measurement_comes_back(page):
    """Taken on another host, so that the page says how it gets into this dossier."""
    words = page.words
    at = words.index("neuronfit measure params/bert-base-uncased.yaml --target l4")
    assert "It writes one file. Copy it back here, then:" in words[at:]
    assert "neuronfit adopt FILE --for l4 neuronfit run params/bert-base-uncased.yaml --steps 4-8" in words[at:]


def test_every_command_names_its_params_file(page):
    assert "neuronfit trial params/bert-base-uncased.yaml --plan-only" in page.words and "PARAMS" not in page.words


def test_no_stored_names_in_what_is_said(dossier, page):
    """Finding codes and keys of the params file have underscores; what is said about evidence has none."""
    said = [dossier.latest(Decision).sentence, *(attributes["aria-label"] for tag, attributes in page.tags if tag == "svg")]
    said += [cell["text"] for cell in headline(page)]
    said += [attributes["title"] for tag, attributes in page.tags if tag == "th" and "title" in attributes and "." not in attributes["title"]]
    assert not [text for text in said if re.search(r"\b[a-z0-9]+_[a-z0-9_]+\b|<->", text)]


def with_gates(made, **statuses):
    """The newest decision of a dossier with these gates, and the sentence of a later one."""
    old = made.latest(Decision)
    gates = tuple(gate.model_copy(update={"status": statuses.get(gate.name.replace(" ", "_"), "pass")}) for gate in old.gates)
    made.admit(old.model_copy(update={"gates": gates, "created_utc": "2026-12-01T00:00:00.000000Z"}))
    return Page(report.render(made))


def test_the_gate_that_is_marked_is_the_one_that_the_verdict_follows_from(tmp_path):
    """Parity is open and the hardware idles: the sentence says that it stops at busy, and so does the list."""
    page = with_gates(example_records.dossier(tmp_path), parity="open", busy="fail", trial="open")
    classes = [
        attributes["class"].split()
        for tag, attributes in page.tags
        if tag == "li" and attributes.get("class", "").split()[:1] in (["pass"], ["fail"], ["open"])
    ]
    assert classes == [["pass"], ["pass"], ["pass"], ["open"], ["pass"], ["fail", "stop"], ["pass", "later"], ["pass", "later"], ["open", "later"]]
    assert "The verdict follows from this; what is open above does not change it." in page.words and "The evidence stops here." not in page.words


def test_order_of_the_first_screen(page):
    words = page.words.removeprefix("Should bert-base-uncased move from g6.xlarge to inf2.xlarge or trn1.2xlarge? ")  # the title
    order = [
        "Should bert-base-uncased move from g6.xlarge to inf2.xlarge or trn1.2xlarge?",
        "sequence 128, batch 1, 8 and 16",
        "1.05 billion results a month",
        "mean 400/s, peak 1,200/s",
        "p99 within 20 ms",
        "Measure before you decide.",
        "It stops at the gate “comparable”",
        "Break-even at full load",
        "Baseline and candidates",
        "Cost against latency",
        "How far the evidence goes",
        "The evidence stops here.",
        "The next measurement",
        "neuronfit measure params/bert-base-uncased.yaml --target l4",
        "The eight steps",
        "Appendix",
    ]
    at = 0
    for part in order:
        assert part in words[at:], part
        at = words.index(part, at) + len(part)


def test_the_path_shows_where_the_evidence_stops(page):
    gates = [
        attributes["class"].split()
        for tag, attributes in page.tags
        if tag == "li" and attributes.get("class", "").split()[:1] in (["pass"], ["fail"], ["open"])
    ]
    assert gates == [["pass"], ["pass"], ["fail", "stop"], *([status, "later"] for status in ("open", "pass", "fail", "pass", "fail", "open"))]


def test_the_next_measurement_says_where_how_long_and_how_much(page):
    assert "on one g6.xlarge takes about 12 minutes costs $0.161 E" in page.words  # 0.8048 x 12 / 60


# -- the steps --------------------------------------------------------------------------------


def test_eight_folded_steps_with_their_bottom_lines(dossier, page):
    steps = [attributes for tag, attributes in page.tags if tag == "details" and attributes.get("id", "").startswith("step-")]
    assert [entry["id"] for entry in steps] == [f"step-{number}" for number in range(1, 9)]
    assert not any("open" in entry for entry in steps)
    for number, (_, kind) in STEPS.items():
        if number:
            assert dossier.latest(KINDS[kind]).bottom_line in page.words


def test_findings_are_there_with_their_codes_and_commands(dossier, page):
    for record in dossier:
        if isinstance(record, CONCLUSIONS):
            for finding in record.findings:
                assert finding.code in page.words and finding.because in page.words


def test_every_record_is_in_the_appendix(dossier, page):
    for record in dossier:
        assert f"record-{record.id}" in page.ids


def test_assumptions_and_definitions_are_in_the_appendix(page):
    for part in (
        "policy.margin",
        "effort.day_rate_usd",
        "above this rate the baseline is the cheaper one at full load",
        "another tool's result file, adopted",
    ):
        assert part in page.words


def test_the_policy_of_the_text_is_the_question_asked(content):
    assert content["workload"]["question"] == (
        "bert-base-uncased · inference, feature-extraction, fp32 · sequence 128, batch 1, 8 and 16 · 1.05 billion results a month · "
        "mean 400/s, peak 1,200/s · p99 within 20 ms"
    )


# -- something is missing ---------------------------------------------------------------------


@pytest.mark.parametrize("kind", [*CONCLUSIONS, Measurement], ids=lambda kind: kind.__name__)
def test_it_renders_when_any_one_kind_is_missing(tmp_path, kind):
    made = example_records.dossier(tmp_path / "bert-base-uncased", without=(kind,))
    page, content = Page(report.render(made)), report.build(made)
    assert len(page.ids) == len(set(page.ids)) and {link.removeprefix("#") for link in page.links} <= set(page.ids)
    assert not re.search(r"\b(None|nan)\b", page.words)
    for number, (_, name) in STEPS.items():
        if number and KINDS[name] is kind:
            assert f"Not run yet. neuronfit run params/bert-base-uncased.yaml --steps {number} not run yet" in page.words
            assert content["steps"][number - 1]["status"] == "missing"
            assert content["steps"][number - 1]["command"] == f"neuronfit run params/bert-base-uncased.yaml --steps {number}"


def test_it_renders_with_the_first_step_alone(tmp_path):
    made = example_records.dossier(tmp_path / "bert-base-uncased", without=(*CONCLUSIONS, Measurement))
    content, page = report.build(made), Page(report.render(made))
    assert "Not decided yet." in page.words and "neuronfit run params/bert-base-uncased.yaml" in page.words
    assert [step["status"] for step in content["steps"]] == ["done", *["missing"] * 7]
    assert content["decision"]["verdict"] is None and content["decision"]["gates"] == []
    throughput = content["targets"][0]["throughput"]
    assert throughput["value"] is None and throughput["why"] == "step 4 has no figure for this target"


def test_status_of_a_step_that_asks_for_evidence(content):
    assert [step["status"] for step in content["steps"]] == ["done", "done", "waiting", "waiting", "done", "done", "done", "waiting"]


# -- report.json ------------------------------------------------------------------------------


def test_json_has_what_the_design_promises(content):
    assert content["schema"] == "report/1"
    assert {"schema", "workload", "decision", "targets", "steps", "provenance"} <= set(content)
    assert {"verdict", "sentence", "weakest_grade", "gates", "next_measurement"} <= set(content["decision"])
    assert content["decision"]["verdict"] == "gather_evidence" and content["decision"]["weakest_grade"] == "estimated"
    for step in content["steps"]:
        assert {"number", "name", "status", "bottom_line", "findings"} <= set(step)
    for entry in content["provenance"]:
        assert {"id", "kind", "grade", "source", "date", "created_utc", "file"} <= set(entry)


def test_json_numbers_are_numbers_with_unit_grade_and_record(dossier, content):
    ids = {record.id for record in dossier}
    l4, inf2, trn1, cpu = content["targets"]
    assert [target["role"] for target in content["targets"]] == ["baseline", "candidate", "candidate", "reference"]
    costs = [target["cost_per_million"]["on_demand"]["full_load"]["value"] for target in (l4, inf2, trn1)]
    assert costs == pytest.approx([0.1031, 0.0788, 0.1091], abs=5e-5)
    assert inf2["cost_per_million"]["ri_3yr_no_upfront"]["full_load"]["value"] == pytest.approx(0.0340, abs=5e-5)
    assert inf2["cost_per_million"]["on_demand"]["at_your_traffic"]["value"] == pytest.approx(0.7582e6 / (400 * 3600))
    assert (inf2["throughput"]["value"], inf2["throughput"]["unit"], inf2["throughput"]["grade"]) == (2674.19, "1/s", "published")
    assert l4["latency"]["p50"]["value"] is None and l4["latency"]["mean"]["value"] == pytest.approx(3.69e-3)
    assert l4["utilization"]["mean"]["value"] == pytest.approx(400 / 2168)
    assert cpu["latency"]["p99"]["low"] <= cpu["latency"]["p99"]["value"] <= cpu["latency"]["p99"]["high"]

    def quantities(value):
        if isinstance(value, dict):
            if {"value", "unit", "grade"} <= set(value):
                yield value
            else:
                for inner in value.values():
                    yield from quantities(inner)

    found = [quantity for target in content["targets"] for quantity in quantities(target)]
    assert len(found) > 30
    for quantity in found:
        if quantity["value"] is None:
            assert quantity["why"] and quantity["grade"] is None
        else:
            assert isinstance(quantity["value"], (int, float)) and quantity["grade"] and quantity["record"] in ids


# -- writing ----------------------------------------------------------------------------------


def test_written_beside_the_records_and_rebuilt_from_them_alone(dossier, tmp_path):
    html_path, json_path = report.write(dossier)
    assert (html_path, json_path) == (dossier.folder / "report.html", dossier.folder / "report.json")
    assert json.loads(json_path.read_text(encoding="utf-8")) == report.build(dossier)
    elsewhere = Dossier(tmp_path / "bert-base-uncased")
    shutil.copytree(dossier.records_folder, elsewhere.records_folder)
    report.write(elsewhere)
    assert (elsewhere.folder / "report.html").read_bytes() == html_path.read_bytes()
    assert (elsewhere.folder / "report.json").read_bytes() == json_path.read_bytes()
    assert str(dossier.folder) not in html_path.read_text(encoding="utf-8")


def test_time_is_that_of_the_newest_record_unless_given(dossier):
    assert report.build(dossier)["generated_utc"] == "2026-11-20T09:19:00.000000Z"
    given = report.build(dossier, generated_utc="2026-12-24T18:00:00Z")
    assert given["generated_utc"] == "2026-12-24T18:00:00Z"
    assert "as of 2026-12-24 18:00 UTC" in Page(report.render(dossier, generated_utc="2026-12-24T18:00:00Z")).words


def test_no_dossier_is_one_line_with_the_nearest(dossier):
    with pytest.raises(BadInput, match="no such dossier") as caught:
        report.build(Dossier(dossier.folder.parent / "bert-base-cased"))
    message = str(caught.value)
    assert "\n" not in message and "bert-base-uncased" in message and "neuronfit run params/bert-base-cased.yaml" in message


def test_a_dossier_without_a_profile_waits(tmp_path):
    made = Dossier(tmp_path / "bert-base-uncased")
    made.admit(example_records.cpu_measurement())
    with pytest.raises(WaitingForEvidence, match="no workload profile") as caught:
        report.write(made)
    assert "--steps 1" in str(caught.value) and "\n" not in str(caught.value)
    assert not (made.folder / "report.html").exists()


def test_a_damaged_record_is_one_line_and_writes_nothing(tmp_path):
    made = example_records.dossier(tmp_path / "bert-base-uncased")
    path = next(path for path in made.files() if "-cost-" in path.name)
    path.write_text(path.read_text(encoding="utf-8")[:500], encoding="utf-8")
    with pytest.raises(BadRecord) as caught:
        report.write(made)
    assert "\n" not in str(caught.value) and not (made.folder / "report.html").exists()


def test_an_old_report_survives_a_full_disk(dossier, monkeypatch):
    html_path, _ = report.write(dossier)
    before = html_path.read_bytes()

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.replace", full)
    with pytest.raises(NotWritable, match="No space left on device"):
        report.write(dossier, generated_utc="2027-01-01T00:00:00Z")
    monkeypatch.undo()
    assert html_path.read_bytes() == before
    assert sorted(path.name for path in dossier.folder.iterdir()) == ["records", "report.html", "report.json"]


# -- hostile and odd content ------------------------------------------------------------------


def test_text_in_records_is_escaped(tmp_path):
    made = example_records.dossier(tmp_path / "bert-base-uncased")
    evil = "</style><script>alert(1)</script><img src=x onerror=alert(2)> \"'&"
    old, cost = made.latest(Decision), made.latest(Cost)
    finding = Finding(severity=Severity.BLOCKER, code="evil", because=evil, next=evil, target=evil)
    later = "2026-12-01T00:00:00.000000Z"
    gates = tuple(gate.model_copy(update={"because": evil}) for gate in old.gates)
    step = old.next_measurement.model_copy(update={"why": evil, "command": evil, "host": evil})
    made.admit(
        old.model_copy(
            update={
                "headline": evil,
                "sentence": evil,
                "reasons": (evil,),
                "gates": gates,
                "next_measurement": step,
                "findings": (finding,),
                "created_utc": later,
            }
        )
    )
    made.admit(cost.model_copy(update={"bottom_line": evil, "findings": (finding,), "created_utc": later}))
    html = report.render(made)
    page = Page(html)
    assert not {"script", "img"} & {tag for tag, _ in page.tags}
    assert evil in "".join(page.text)


def test_credentials_in_an_endpoint_do_not_reach_the_page(tmp_path):
    made = example_records.dossier(tmp_path / "bert-base-uncased")
    plan, profile = made.latest(TrialPlan), made.latest(Profile)
    url = "https://user:hunter2@gpu.example/v1"
    made.admit(plan.model_copy(update={"endpoints": {"baseline": url, "candidate": None}, "created_utc": "2026-12-01T00:00:00.000000Z"}))
    asked = {**profile.question, "trial": {**profile.question["trial"], "baseline_url": url}}
    made.admit(profile.model_copy(update={"question": asked, "created_utc": "2026-12-01T00:00:00.000000Z"}))
    html = report.render(made)
    assert "hunter2" not in html and "gpu.example/v1" in html


def test_the_newest_decision_is_the_one_shown(tmp_path):
    made = example_records.dossier(tmp_path / "bert-base-uncased")
    old = made.latest(Decision)
    gates = tuple(gate.model_copy(update={"status": "pass"}) for gate in old.gates)
    made.admit(
        old.model_copy(
            update={
                "verdict": "migrate",
                "headline": "Move it.",
                "gates": gates,
                "next_measurement": None,
                "created_utc": "2026-12-01T00:00:00.000000Z",
            }
        )
    )
    page = Page(report.render(made))
    assert "Move it." in page.words and "Measure before you decide." not in page.words
    assert "The evidence stops here." not in page.words and "The next measurement" not in page.words


def test_measured_on_both_sides(tmp_path):
    made = example_records.dossier(tmp_path / "bert-base-uncased")
    cpu = made.measurements("cpu")[0]
    for second, (target, instance) in enumerate((("l4", "g6.xlarge"), ("inf2", "inf2.xlarge"))):
        made.admit(cpu.model_copy(update={"target": target, "instance_type": instance, "created_utc": f"2026-12-01T00:00:0{second}.000000Z"}))
    page = Page(report.render(made))
    assert len(page.ids) == len(set(page.ids))
    assert {"figure-settling-cpu", "figure-settling-l4", "figure-settling-inf2"} <= set(page.ids)


def test_many_candidates_and_long_names_render(tmp_path):
    made = Dossier(tmp_path / "bert-base-uncased")
    profile = example_records.profile()
    names = [f"a-rather-long-candidate-name-{number}" for number in range(9)]
    candidates = [{"name": name, "instance_type": "inf2.xlarge", "path": "neuron_xla"} for name in names]
    made.admit(profile.model_copy(update={"question": {**profile.question, "candidates": candidates}}))
    page = Page(report.render(made))
    assert all(name in page.words for name in names)
    assert "to inf2.xlarge?" in page.words


def test_a_params_file_is_no_dossier(tmp_path):
    with pytest.raises(BadInput, match=r"this is a params file.*neuronfit report reports/t5-3b"):
        report.write(Dossier("params/t5-3b.yaml"))
