"""The params file: one line for everything that is wrong with it, and the ten files that ship."""

import json
import re
from datetime import date

import pytest
import yaml
from example_questions import NAMES, ROOT, mapping, question, walk
from neuronfit import params
from neuronfit.errors import BadInput, BadParams, NotFound
from neuronfit.params import DEFAULT_TASKS, SECTIONS, Params
from neuronfit.question import Question
from neuronfit.record import Decision

MINIMAL = """\
workload:
  name: one
  model: {config: params/models/bert-base-uncased/config.json}
baseline: {name: l4, instance_type: g6.xlarge, path: cuda}
candidates:
  - {name: inf2, instance_type: inf2.xlarge, path: neuron_xla}
"""


def refused(text, folder, error=BadInput):
    """The one line that opening a file with this text ends in."""
    path = folder / "asked.yaml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(error) as raised:
        Question.from_file(path, reports=folder)
    line = str(raised.value)
    assert len(line.splitlines()) == 1 and len(line) < 700, line
    assert "Traceback" not in line and raised.value.exit_status == 2
    assert not any(word in line for word in ("pydantic", "tuple", "dictionary", "instance of", "None")), line
    return line


# -- bad values under a key -------------------------------------------------------------------

UNIT_OF_P99 = "bound on the 99th percentile latency, milliseconds"

BAD_KEYS = {
    "unknown section": ("trafic", {}, ["trafic", "traffic (did you mean that?)", "candidates"]),
    "unknown key": ("workload__modle", {}, ["workload.modle", "model (did you mean that?)"]),
    "unknown key of a list entry": ("workload__shapes", [{"batch": 1, "sequence_length": 128}], ["workload.shapes.0.batch", "batch_size"]),
    "seconds instead of milliseconds": ("objective__latency_p99_s", 0.02, ["objective.latency_p99_s", "latency_p99_ms (did you mean that?)"]),
    "a number with its unit": ("objective__latency_p99_ms", "20 ms", ["objective.latency_p99_ms", "'20 ms'", "valid number", UNIT_OF_P99]),
    "an hour with its unit": ("traffic__mean_per_s", "400/s", ["traffic.mean_per_s", "'400/s'", "results per second"]),
    "negative rate": ("traffic__mean_per_s", -1, ["traffic.mean_per_s: -1", "greater than 0", "results per second"]),
    "zero rate": ("traffic__mean_per_s", 0, ["traffic.mean_per_s: 0", "greater than 0"]),
    "nan": ("traffic__mean_per_s", float("nan"), ["traffic.mean_per_s: nan", "finite"]),
    "infinite": ("traffic__peak_per_s", float("inf"), ["traffic.peak_per_s: inf", "finite"]),
    "infinite as a word": ("traffic__mean_per_s", "inf", ["traffic.mean_per_s: 'inf'", "finite"]),
    "true as a rate": ("traffic__mean_per_s", True, ["traffic.mean_per_s: 'true'", "valid number"]),
    "true as a count": ("baseline__count", True, ["baseline.count: 'true'", "valid integer"]),
    "false as a share": ("policy__margin", False, ["policy.margin: 'false'", "valid number"]),
    "true in a list entry": ("workload__shapes", [{"batch_size": True, "sequence_length": 128}], ["workload.shapes.0.batch_size: 'true'"]),
    "true as a name": ("workload__name", True, ["workload.name: True", "valid string"]),
    "a number as a name": ("workload__name", 7, ["workload.name: 7", "valid string"]),
    "half a batch": ("workload__shapes", [{"batch_size": 1.5, "sequence_length": 128}], ["workload.shapes.0.batch_size: 1.5", "valid integer"]),
    "percent as a fraction": ("policy__confidence", 95, ["policy.confidence: 95", "less than 1", "fraction"]),
    "unknown path": ("baseline__path", "cude", ["baseline.path: 'cude'", "(nearest: cuda)", "neuron_native"]),
    "unknown precision": ("workload__precision", "float32", ["workload.precision: 'float32'", "fp32, bf16, fp16, int8"]),
    "a precision that no step can do": ("workload__precision", "fp8", ["workload.precision: 'fp8'", "fp32, bf16, fp16, int8"]),
    "unknown kind": ("workload__kind", "infer", ["workload.kind: 'infer'", "(nearest: inference)"]),
    "unknown shape of the day": ("traffic__daily_shape", "offce", ["traffic.daily_shape: 'offce'", "(nearest: office)"]),
    "no candidate": ("candidates", [], ["candidates", "at least one entry"]),
    "one candidate without its dash": ("candidates", {"name": "x"}, ["candidates", "a list of entries"]),
    "a section that is a word": ("traffic", "heavy", ["traffic: 'heavy'", "a mapping of keys for Traffic"]),
    "a section that is a list": ("traffic", [1], ["traffic: [1]", "a mapping of keys"]),
    "a setting that is a list": ("baseline__settings", {"cores": [1, 2]}, ["baseline.settings.cores: [1, 2]", "true, false, a number or a word"]),
    "peak below mean": ("traffic", {"mean_per_s": 400, "peak_per_s": 100}, ["traffic", "peak_per_s: 100 is below mean_per_s 400"]),
    # 1e9 / (730 x 3600) = 380.5
    "peak below what the volume implies": ("traffic", {"monthly_volume": 1e9, "peak_per_s": 100}, ["peak_per_s: 100", "monthly_volume", "380.5"]),
    "a length that is none": ("traffic__sequence_lengths", {"long": 1}, ["traffic.sequence_lengths", "'long' is no length", "from 1"]),
    "a length of nothing": ("traffic__sequence_lengths", {0: 1}, ["0 is no length", "from 1"]),
    "true as a length": ("traffic__sequence_lengths", {True: 1}, ["true is no length"]),
    "half a token": ("traffic__sequence_lengths", {1.5: 1}, ["1.5 is no length"]),
    "a share of nothing": ("traffic__sequence_lengths", {128: 0}, ["0 is no share of length 128", "above 0"]),
    "a negative share": ("traffic__sequence_lengths", {128: 0.5, 256: -0.5}, ["-0.5 is no share of length 256"]),
    "a share as a word": ("traffic__sequence_lengths", {128: "half"}, ["'half' is no share of length 128"]),
    "an endless share": ("traffic__sequence_lengths", {128: float("inf")}, ["inf is no share of length 128"]),
    "lengths as a list": ("traffic__sequence_lengths", [128, 256], ["traffic.sequence_lengths: [128, 256]", "a mapping of keys"]),
    "tasks out of order": ("effort", {"tasks": [{"name": "a", "low": 3, "likely": 2, "high": 4}]}, ["effort.tasks.0", "low 3, likely 2, high 4"]),
    "shares that leave the model nothing": (
        "workload__surroundings",
        [{"name": "a", "share": 0.6}, {"name": "b", "share": 0.4}],
        ["workload", "shares sum to 1"],
    ),
    "name with a slash": ("workload__name", "google/flan", ["workload.name: 'google/flan'", "pattern"]),
    "name that climbs": ("workload__name", "../x", ["workload.name: '../x'", "pattern"]),
    "two candidates of one name": ("candidates__1__name", "inf2", ["candidates", "two candidates are named 'inf2'"]),
    "candidate named as the baseline": ("candidates__1__name", "l4", ["baseline and a candidate are both named 'l4'"]),
    "trial of nobody": ("trial", {"candidate": "inf3"}, ["trial.candidate", "'inf3'", "inf2, trn1", "(nearest: inf2)"]),
    "trial of the baseline": ("trial", {"candidate": "l4"}, ["trial.candidate", "'l4'", "inf2, trn1"]),
    "evidence for nobody": ("evidence", [{"file": "a.json", "target": "l5"}], ["evidence", "'l5'", "l4, inf2, trn1", "(nearest: l4)"]),
    "date that is not one": (
        "pricing__overrides",
        [{"instance_type": "g6.xlarge", "usd_per_hour": 1, "as_of": "2026-02-30"}],
        ["as_of", "2026-02-30"],
    ),
    "two rates for one type": (
        "pricing__overrides",
        [{"instance_type": "g6.xlarge", "usd_per_hour": rate, "as_of": "2026-01-01"} for rate in (1, 2)],
        ["pricing.overrides", "two rates are given for g6.xlarge"],
    ),
    "free of charge": (
        "pricing__overrides",
        [{"instance_type": "g6.xlarge", "usd_per_hour": 0, "as_of": "2026-01-01"}],
        ["usd_per_hour: 0", "greater than 0"],
    ),
}


@pytest.mark.parametrize("what", BAD_KEYS)
def test_a_bad_value_is_one_line_with_key_value_and_what_is_allowed(tmp_path, what):
    place, value, expected = BAD_KEYS[what]
    line = refused(yaml.safe_dump(mapping(**{place: value})), tmp_path, BadParams)
    assert line.startswith(str(tmp_path / "asked.yaml"))
    for part in expected:
        assert part in line, line


BAD_NAMES = {
    "instance type": ("baseline__instance_type", "g6.xlrge", ["l4: unknown instance type: 'g6.xlrge'", "nearest: g6.xlarge"]),
    "instance type of a candidate": ("candidates__1__instance_type", "trn1.2xlarg", ["trn1: unknown instance type", "nearest: trn1.2xlarge"]),
    "instance type like no other": ("baseline__instance_type", "zzz", ["'zzz'", "trn1", "g6"]),
    "instance type of an override": (
        "pricing__overrides",
        [{"instance_type": "g6.xlrge", "usd_per_hour": 1, "as_of": "2026-01-01"}],
        ["pricing.overrides: unknown instance type: 'g6.xlrge'", "nearest: g6.xlarge"],
    ),
    "region": ("pricing__region", "us-est-1", ["pricing.region: 'us-est-1'", "(nearest: us-east-1)"]),
    "purchase option": ("pricing__purchase_option", "ondemand", ["pricing.purchase_option: 'ondemand'", "(nearest: on_demand)", "capacity_block"]),
    "task": (
        "workload__model__task",
        "featur-extraction",
        ["workload.model.task: 'featur-extraction'", "(nearest: feature-extraction)", "fill-mask"],
    ),
    "task that generates without a length": ("workload__model__task", "text-generation", ["output_length", "'text-generation'"]),
    "length that the model has no positions for": (
        "traffic__sequence_lengths",
        {128: 1, 1024: 1},
        ["traffic.sequence_lengths", "positions for: 1024", "1 to 512 tokens"],
    ),
    "model config": (
        "workload__model__config",
        "params/models/bert-base-uncase/config.json",
        ["bert-base-uncase/config.json", "params/models/bert-base-uncased"],
    ),
    "a target called cpu": ("candidates__0__name", "cpu", ["cannot be named: 'cpu'"]),
    "a baseline called cpu": ("baseline__name", "cpu", ["cannot be named: 'cpu'"]),
    "a candidate called baseline": ("candidates__0__name", "baseline", ["cannot be named: 'baseline'"]),
}


@pytest.mark.parametrize("what", BAD_NAMES)
def test_a_name_that_the_catalogue_lacks_is_one_line_with_the_nearest(tmp_path, what):
    place, value, expected = BAD_NAMES[what]
    line = refused(yaml.safe_dump(mapping(**{place: value})), tmp_path)
    for part in expected:
        assert part in line, line


def test_a_baseline_may_be_called_baseline(tmp_path):
    assert question(tmp_path, baseline__name="baseline").target("baseline").instance_type == "g6.xlarge"


# -- bad files --------------------------------------------------------------------------------

BAD_FILES = {
    "list": ("- a\n- b\n", ["is a list, not a mapping of sections", "workload", "params/bert-base-uncased.yaml"]),
    "word": ("hello\n", ["is a string, not a mapping"]),
    "number": ("12\n", ["is int, not a mapping"]),
    "empty": ("", ["is empty, not a mapping"]),
    "comments only": ("# nothing\n", ["is empty, not a mapping"]),
    "syntax": ("workload:\n  name: [a\nbaseline: {}\n", ["not valid YAML", "line 3, column 9", "neuronfit run"]),
    "tab": ("workload:\n\tname: a\n", ["not valid YAML", "'\\t'", "line 2, column 1"]),
    "duplicate key": (MINIMAL + "baseline: {}\n", ["'baseline' is written twice", "line 7, column 1"]),
    "duplicate key inside": ("workload:\n  name: a\n  name: b\n", ["'name' is written twice", "line 3, column 3"]),
    "two documents": (MINIMAL + "---\na: 1\n", ["not valid YAML", "another document", "line 7"]),
    "key that is a list": (MINIMAL + "? [a]\n: 1\n", ["a key must be a plain word", "line 7"]),
    "key that is a number": (MINIMAL + "1: 2\n", ["keys should be strings"]),
    "python object": (MINIMAL + "policy: !!python/object/apply:os.getcwd []\n", ["not valid YAML", "python/object", "line 7"]),
    "tag that does not fit": (MINIMAL + 'policy: {margin: !!int "abc"}\n', ["not valid YAML", "'abc'"]),
    "boolean tag that does not fit": (MINIMAL + "policy: {margin: !!bool maybe}\n", ["not valid YAML", "maybe"]),
    "a thirteenth month": (MINIMAL + "policy: {margin: 2026-13-45}\n", ["not valid YAML", "month must be in 1..12"]),
    "deep nesting": ("[" * 3000, ["not valid YAML", "nested too deeply"]),
    "itself": (MINIMAL + "policy: &a {margin: *a}\n", ["policy.margin", "valid number"]),
    "control characters": (b"\x00\x01\x02", ["not valid YAML", "#x0000"]),
    "binary": (bytes(range(128, 256)), ["cannot read the params file (it is not text)"]),
    "utf-16": (MINIMAL.encode("utf-16"), ["it is not text"]),
    "half of it": ("workload: {name: a}\n", ["workload.model is missing (and 2 more)", "add the key"]),
}


@pytest.mark.parametrize("what", BAD_FILES)
def test_a_file_that_is_not_a_question_is_one_line(tmp_path, what):
    text, expected = BAD_FILES[what]
    line = refused(text, tmp_path, BadParams)
    for part in expected:
        assert part in line, line


@pytest.mark.parametrize(
    "path, expected",
    [
        (ROOT / "params" / "bert-base-uncase.yaml", ["no such params file", "bert-base-uncased.yaml"]),
        (ROOT / "params", ["cannot read the params file", "directory"]),
        (ROOT / "nowhere" / "a.yaml", ["no such params file", "a YAML file"]),
        (ROOT / ("a" * 300 + ".yaml"), ["cannot read the params file", "too long"]),
        ("a\0b.yaml", ["cannot read the params file", "null byte"]),
    ],
)
def test_a_path_that_is_not_a_file_is_one_line(path, expected):
    with pytest.raises(BadParams) as raised:
        params.load(path)
    assert len(str(raised.value).splitlines()) == 1
    for part in expected:
        assert part in str(raised.value)


@pytest.mark.parametrize("given", [["a"], None, "bert", 3])
def test_notebook_parameters_that_are_no_mapping_are_refused(given):
    with pytest.raises(BadParams, match="notebook parameters is .*, not a mapping"):
        params.parse(given, where="notebook parameters")


# -- good files -------------------------------------------------------------------------------


def test_only_three_sections_are_needed_and_the_defaults_are_the_documented_ones(tmp_path):
    path = tmp_path / "one.yaml"
    path.write_text(MINIMAL)
    loaded = params.load(path)
    assert loaded.workload.shapes[0].model_dump() == {"batch_size": 1, "sequence_length": 128, "output_length": None}
    assert (loaded.pricing.region, loaded.pricing.purchase_option) == ("us-east-1", "on_demand")
    assert loaded.traffic.mean_per_s is None and loaded.workload.model_share == 1.0
    assert loaded.effort.tasks == DEFAULT_TASKS
    assert [target.name for target in loaded.targets] == ["l4", "inf2"]
    assert set(SECTIONS) == set(Params.model_fields)


def test_a_big_number_is_a_number_in_yaml_text_and_as_papermill_passes_it(tmp_path):
    """YAML 1.1 reads `1e9` (no dot) as a word; papermill, which uses that reader, hands the word on."""
    assert yaml.safe_load("1e9") == "1e9"
    path = tmp_path / "one.yaml"
    path.write_text(MINIMAL + "traffic: {monthly_volume: 1e9, mean_per_s: 4.0e+2, peak_per_s: -1E3}\n".replace("-1E3", "1E3"))
    loaded = params.load(path).traffic
    assert (loaded.monthly_volume, loaded.mean_per_s, loaded.peak_per_s) == (1_000_000_000.0, 400.0, 1000.0)
    passed = yaml.safe_load(path.read_text())
    assert params.parse(passed).traffic == loaded
    assert params.parse({**passed, "traffic": {"mean_per_s": "400"}}).traffic.mean_per_s == 400.0


def test_a_big_number_among_settings_is_a_number_too(tmp_path):
    path = tmp_path / "one.yaml"
    path.write_text(MINIMAL.replace("path: cuda}", "path: cuda, settings: {limit: 2e3, precision: fp16, compiled: true, cores: 2}}"))
    assert params.load(path).baseline.settings == {"limit": 2000.0, "precision": "fp16", "compiled": True, "cores": 2}


@pytest.mark.parametrize("written", ["2026-10-01", '"2026-10-01"'])
def test_a_date_may_be_written_with_or_without_quotes(tmp_path, written):
    text = MINIMAL + f"pricing: {{overrides: [{{instance_type: g6.xlarge, usd_per_hour: 0.5, as_of: {written}}}]}}\n"
    path = tmp_path / "one.yaml"
    path.write_text(text)
    [entry] = params.load(path).pricing.overrides
    assert entry.as_of == "2026-10-01"
    assert params.parse(yaml.safe_load(text)).pricing.overrides[0].as_of == "2026-10-01"
    assert date.fromisoformat(entry.as_of) == date(2026, 10, 1)


def test_yaml_merge_keys_are_understood(tmp_path):
    path = tmp_path / "one.yaml"
    path.write_text(
        MINIMAL + "policy: &common {margin: 0.1}\ntrial: {latency_margin: 0.2}\neffort:\n  <<: {day_rate_usd: 800}\n  horizon_months: 12\n"
    )
    loaded = params.load(path)
    assert (loaded.effort.day_rate_usd, loaded.effort.horizon_months, loaded.policy.margin) == (800, 12, 0.1)


def test_params_cannot_be_changed_after_reading():
    with pytest.raises(ValueError, match="frozen"):
        params.parse(mapping()).traffic.mean_per_s = 1


@pytest.mark.parametrize("name", NAMES)
def test_every_params_file_loads_and_has_its_name(name):
    loaded = params.load(ROOT / "params" / f"{name}.yaml")
    assert loaded.workload.name == name
    assert loaded.baseline.path == "cuda"
    assert (ROOT / loaded.workload.model.config).is_file()
    assert [target.name for target in loaded.candidates] and loaded.traffic.mean_per_s > 0


def test_the_ten_models_are_there():
    assert {path.stem for path in (ROOT / "params").glob("*.yaml")} >= set(NAMES)


# -- the schema -------------------------------------------------------------------------------


def test_the_schema_file_is_the_models(tmp_path):
    path = ROOT / "params" / "params.schema.json"
    if not path.exists():
        pytest.skip("params/params.schema.json has not been generated")
    assert json.loads(path.read_text(encoding="utf-8")) == json.loads(json.dumps(params.json_schema()))


def test_the_schema_describes_every_key_in_its_unit():
    """Editors show the description; one that names a rate, a time or money without its unit is no help."""
    schema = params.json_schema()
    assert schema["required"] == ["workload", "baseline", "candidates"] and schema["additionalProperties"] is False
    units = {"per_s": "per second", "_ms": "milliseconds", "_usd": "USD", "_h": "hours", "_min": "minutes", "_months": "months", "_s": "second"}
    for section in schema["$defs"].values():
        assert section["additionalProperties"] is False
        for key, described in section["properties"].items():
            suffix = next((suffix for suffix in units if key.endswith(suffix)), None)
            if suffix:
                assert units[suffix] in described["description"], key


def test_every_reason_for_a_refusal_is_plain():
    """No key has a description that could be taken for a value."""
    for section in params.json_schema()["$defs"].values():
        for key, described in section["properties"].items():
            assert re.fullmatch(r"[^\n|]*", described.get("description", "")), key


# -- an eleventh model ------------------------------------------------------------------------


def test_an_eleventh_model_needs_no_code(tmp_path):
    """A model of another family (DistilBERT shape, 3 layers of 48) that no table has heard of."""
    config = {"model_type": "distilbert", "dim": 48, "hidden_dim": 96, "n_layers": 3, "n_heads": 4, "vocab_size": 100, "max_position_embeddings": 64}
    (tmp_path / "config.json").write_text(json.dumps(config))
    text = MINIMAL.replace("name: one", "name: eleventh").replace("params/models/bert-base-uncased/config.json", "config.json")
    (tmp_path / "eleventh.yaml").write_text(text.replace("config.json}", "config.json}\n  shapes: [{batch_size: 2, sequence_length: 32}]"))
    asked = Question.from_file(tmp_path / "eleventh.yaml", reports=tmp_path / "reports")
    records = walk(asked)
    # embeddings (100 + 64) x 48 + norm 2 x 48; a layer: 4 x (48 x 48 + 48) + (48 x 96 + 96) + (96 x 48 + 48) + 2 x 2 x 48
    assert records["profile"].parameters.value == 164 * 48 + 96 + 3 * (4 * 2352 + 4704 + 4656 + 192)
    decision = records["decision"]
    assert isinstance(decision, Decision) and decision.verdict == "gather_evidence"
    assert decision.next_measurement.command == f"neuronfit measure {tmp_path / 'eleventh.yaml'} --target l4"
    missing = {finding.target for finding in records["comparison"].findings if finding.code == "nothing_published"}
    assert missing == {"l4", "inf2"}


def test_a_config_beside_the_params_file_is_found_from_any_folder(tmp_path, monkeypatch):
    (tmp_path / "config.json").write_text((ROOT / "params/models/bert-base-uncased/config.json").read_text())
    (tmp_path / "one.yaml").write_text(MINIMAL.replace("params/models/bert-base-uncased/config.json", "config.json"))
    monkeypatch.chdir(ROOT)
    assert Question.from_file(tmp_path / "one.yaml").config["model_type"] == "bert"


def test_not_found_and_bad_params_are_bad_input():
    assert issubclass(NotFound, BadInput) and issubclass(BadParams, BadInput)


# -- lengths of the traffic -------------------------------------------------------------------


def test_shares_of_lengths_are_kept_as_written_and_normalised_when_asked_for(tmp_path):
    written = params.parse(mapping(traffic__sequence_lengths={512: 1, 64: 3})).traffic
    assert written.sequence_lengths == {512: 1.0, 64: 3.0}
    assert list(written.length_shares.items()) == [(64, 0.75), (512, 0.25)]
    assert params.Traffic().length_shares == {}


def test_lengths_survive_a_record(tmp_path):
    """JSON has words for keys; read again they are the same lengths."""
    asked = params.parse(mapping(traffic__sequence_lengths={64: 3, 512: 1}))
    assert params.parse(json.loads(json.dumps(asked.model_dump(mode="json")))) == asked


KEY = "abc123verysecret"


@pytest.mark.parametrize(
    "section",
    [
        {"api_key_env": f"sk_{KEY}"},
        {"baseline_url": f"http://h/v1?token={KEY}"},
        {"candidate_url": f"http://user:{KEY}@h"},
        {"body": {"headers": [{"Authorization": KEY}]}},
    ],
    ids=["in place of a name", "in a query", "before the host", "in the body"],
)
def test_the_trial_refuses_a_credential_wherever_an_endpoint_does_and_repeats_none(section):
    with pytest.raises(BadParams) as error:
        params.parse({**mapping(), "trial": section})
    assert KEY not in str(error.value) and "\n" not in str(error.value) and "api_key_env" in str(error.value)


def test_a_body_that_holds_itself_ends_in_one_line():
    """An alias in YAML may make a mapping its own value."""
    body = {"again": [], "password": KEY}
    body["again"].append(body)
    with pytest.raises(BadParams) as error:
        params.parse({**mapping(), "trial": {"body": body}})
    assert "body.password" in str(error.value) and KEY not in str(error.value)
