"""The command line: exit statuses, one-line errors, JSON, and that evidence survives."""

from __future__ import annotations

import importlib.util
import io
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import click
import pytest
from neuronfit import cli, record
from neuronfit.dossier import Dossier
from neuronfit.record import Decision, Measurement, Profile
from tiny import CONFIG as tiny_config
from tiny import params_file

ROOT = Path(__file__).parents[1]
BERT = "params/bert-base-uncased.yaml"


@pytest.fixture(autouse=True)
def in_the_project(monkeypatch):
    monkeypatch.chdir(ROOT)
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


def call(capsys, *argv: object) -> tuple[int, str, str]:
    """Exit status, standard output, standard error of one command."""
    with pytest.raises(SystemExit) as ended:
        cli.main([str(part) for part in argv])
    out, err = capsys.readouterr()
    return int(ended.value.code or 0), out, err


def tiny(folder: Path, **changes) -> str:
    return str(params_file(folder, **changes))


@pytest.mark.parametrize(
    ("argv", "status", "says"),
    [
        (["run", "nope.yaml"], 2, ["no such params file", "nope.yaml"]),
        (["run", "params/bert-base-uncasd.yaml"], 2, ["params/bert-base-uncased.yaml"]),
        (["run", "params"], 2, ["cannot read the params file"]),
        (["run", BERT, "--steps", "9"], 2, ["--steps", "'9'", "1-8"]),
        (["run", BERT, "--steps", "x"], 2, ["--steps", "'x'"]),
        (["run", BERT, BERT], 2, ["bert-base-uncased", "one name per params file"]),
        (["run"], 2, ["PARAMS", "--help"]),
        (["run", BERT, "--step", "1"], 2, ["--steps"]),
        (["measure", BERT, "--target", "l44"], 2, ["l44", "nearest: l4"]),
        (["measure", BERT, "--target", "l4"], 3, ["cannot measure l4", "g6.xlarge", f"neuronfit measure {BERT} --target l4"]),
        (["measure", BERT, "--target", "baseline"], 3, ["cannot measure l4"]),
        (["measure", BERT, "--target", "inf2"], 3, ["inf2.xlarge", "--target inf2"]),
        (["report", "reports/nowhere"], 2, ["no such dossier", "reports/nowhere"]),
        (["prices", "show", "g6.xlrage"], 2, ["g6.xlrage", "g6.xlarge"]),
        (["prices", "show", "--region", "us-esat-1"], 2, ["us-esat-1", "us-east-1"]),
        (["prices", "show", "--option", "spot"], 2, ["'spot'", "on_demand"]),
        (["nonsense"], 2, ["nonsense", "--help"]),
    ],
)
def test_bad_input_is_one_line_with_the_right_status(capsys, argv, status, says):
    code, out, err = call(capsys, *argv)
    assert code == status
    assert out == ""
    assert err.count("\n") == 1 and err.startswith("neuronfit: ")
    assert "Traceback" not in err
    for part in says:
        assert part in err


def test_an_output_folder_that_cannot_be_written(capsys, tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    code, _, err = call(capsys, "run", tiny(tmp_path), "--reports", blocked)
    assert code == 2
    assert err.count("\n") == 1 and str(blocked) in err and "--reports DIR" in err


def test_every_command_has_help_with_an_example(capsys):
    def commands(group: click.Group, path: tuple[str, ...] = ()):
        for name, command in group.commands.items():
            if isinstance(command, click.Group):
                yield from commands(command, (*path, name))
            else:
                yield (*path, name)

    found = list(commands(cli.group))
    assert {("run",), ("measure",), ("adopt",), ("check",), ("diagnose",), ("report",), ("doctor",), ("prices", "show")} <= set(found)
    for path in found:
        code, out, _ = call(capsys, *path, "--help")
        assert code == 0
        assert re.search(rf"Example.*\n\s+neuronfit {' '.join(path)}", out), path
        assert "--json" in out


def test_prices_show_prints_the_catalogue(capsys):
    code, out, _ = call(capsys, "prices", "show", "inf2.xlarge", "g6.xlarge", "--json")
    assert code == 0
    found = {(row["instance_type"], row["purchase_option"]): row["usd_per_hour"] for row in json.loads(out)}
    assert found["inf2.xlarge", "on_demand"] == 0.7582
    assert found["g6.xlarge", "on_demand"] == 0.8048
    code, out, _ = call(capsys, "prices", "show", "inf2.xlarge", "--option", "on_demand")
    assert re.search(r"inf2\.xlarge +us-east-1 +on_demand +0\.75820 +2026-07-20", out)


def test_doctor_says_what_this_host_can_do(capsys):
    code, out, _ = call(capsys, "doctor", "--json")
    found = json.loads(out)
    assert code == 0
    assert found["paths"]["cpu"]["can_run"] is True
    assert set(found["paths"]) == {"cpu", "cuda", "neuron_xla", "neuron_native"}
    assert found["system"]["packages"]["torch"]


# -- check ------------------------------------------------------------------------------------


@pytest.fixture
def config(tmp_path) -> Path:
    path = tmp_path / "small" / "config.json"
    path.parent.mkdir()
    path.write_text(json.dumps(tiny_config))
    return path


def source_tree(folder: Path, text: str) -> Path:
    folder.mkdir()
    (folder / "serve.py").write_text(text)
    return folder


def test_check_of_a_model_without_blockers(capsys, config):
    code, out, err = call(capsys, "check", config)
    assert (code, err) == (0, "")
    assert out.startswith("small: no documented blocker found; fits on inf2.xlarge with tensor-parallel degree 1.\n")
    assert "encoder" in out and "inf2 " in out and "trn2 " in out


def test_check_takes_a_folder_or_a_params_file_and_prints_json(capsys, config, tmp_path):
    """The two ways name the same model; the shape is the given one, or the first of the params file."""
    code, out, err = call(capsys, "check", config.parent, "--batch", 3, "--sequence", 8, "--generation", "trn1", "--precision", "fp32", "--json")
    assert (code, err) == (0, "")
    found = json.loads(out)
    assert found["name"] == "small" and found["anatomy"]["parameters"] == 24_608
    assert found["shape"] == {"batch_size": 3, "sequence_length": 8, "output_length": None}
    assert list(found["checks"]) == ["trn1"] and found["needed"]["weights_bytes"] == 4 * 24_608
    code, out, _ = call(capsys, "check", tiny(tmp_path), "--json")
    found = json.loads(out)
    assert code == 0 and found["name"] == "tiny" and found["task"] == "feature-extraction"
    assert found["shape"] == {"batch_size": 2, "sequence_length": 16, "output_length": None}


def test_check_waits_where_operators_could_not_be_looked_at(capsys, config, monkeypatch):
    from neuronfit import check

    seen = check.ModuleCheck((), "module inspection", False, {}, "0", "TypeError: cannot be exported")
    monkeypatch.setattr(check, "check_config_on", lambda config, task, shape, targets, experts=None: (seen,) * len(targets))
    code, out, _ = call(capsys, "check", config)
    assert code == 3 and "no documented blocker found, but not every operator could be looked at" in out
    assert "waiting   operators not looked at: TypeError: cannot be exported" in out and "silence about them is no answer" in out


def test_check_finds_what_needs_cuda(capsys, config, tmp_path):
    code, out, _ = call(capsys, "check", config, "--source", source_tree(tmp_path / "a", "import torch\nimport flash_attn\n"))
    assert code == 1
    assert "blocker: cuda_dependency: serve.py:2: import flash_attn" in out and "attn_implementation='sdpa'" in out
    guarded = source_tree(tmp_path / "b", "try:\n    import flash_attn\nexcept ImportError:\n    flash_attn = None\n")
    code, out, _ = call(capsys, "check", config, "--source", guarded)
    assert code == 0 and "warning: cuda_dependency: serve.py:2" in out


def test_check_recognises_a_compile_configuration(capsys, tmp_path):
    path = tmp_path / "neuron_config.json"
    path.write_text(json.dumps({"neuron_config": {"tp_degree": 8, "logical_nc_config": 2}}))
    code, out, _ = call(capsys, "check", path)
    assert code == 0 and "compile configuration of NxD Inference for 16 physical NeuronCores" in out


@pytest.mark.parametrize(
    ("argv", "status", "says"),
    [
        (["nowhere/config.json"], 2, ["no model config at", "nowhere/config.json"]),
        (["nowhere.yaml"], 2, ["no such params file", "nowhere.yaml"]),
        (["LIST"], 2, ["not a JSON object", "'list'"]),
        (["BROKEN"], 2, ["not complete JSON", "line 1"]),
        (["CONFIG", "--generation", "inf9"], 2, ["'inf9'", "inf1, inf2, trn1, trn2, trn3"]),
        (["CONFIG", "--task", "fill-msk"], 2, ["'fill-msk'", "fill-mask"]),
        (["CONFIG", "--sequence", "65"], 2, ["65", "1 to 64 tokens"]),
        (["CONFIG", "--precision", "fp8"], 2, ["fp8", "bf16"]),
        (["CONFIG", "--source", "nowhere"], 2, ["no source tree at", "nowhere"]),
        (["CONFIG", "--hlo"], 3, ["pip install neuronfit[hlo]"]),
    ],
)
def test_check_refuses_in_one_line(capsys, monkeypatch, config, tmp_path, argv, status, says):
    monkeypatch.setitem(sys.modules, "torch_mlir", None)
    monkeypatch.setattr("importlib.util.find_spec", without_torch_mlir(importlib.util.find_spec))
    (tmp_path / "list.json").write_text("[1, 2]")
    (tmp_path / "broken.json").write_text('{"model_type": ')
    places = {"CONFIG": config, "LIST": tmp_path / "list.json", "BROKEN": tmp_path / "broken.json"}
    code, out, err = call(capsys, "check", *(places.get(part, part) for part in argv))
    assert (code, out) == (status, "")
    assert err.count("\n") == 1 and err.startswith("neuronfit: ") and "Traceback" not in err
    for part in says:
        assert part in err


def without_torch_mlir(find_spec):
    return lambda name, *rest: None if name == "torch_mlir" else find_spec(name, *rest)


def test_check_prints_no_warnings_of_transformers(config):
    """It comments on a decoder class without is_decoder; errors, and our own lines, are still printed."""
    config.write_text(json.dumps({**tiny_config, "architectures": ["BertLMHeadModel"]}))
    command = [sys.executable, "-m", "neuronfit.cli", "check", str(config), "--task"]
    done = subprocess.run([*command, "feature-extraction"], cwd=ROOT, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    done = subprocess.run([*command, "fill-msk"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 2 and done.stderr.startswith("neuronfit: unknown task")


# -- diagnose ---------------------------------------------------------------------------------

LOGS = ROOT / "tests" / "data" / "logs"


@pytest.mark.parametrize(
    ("log", "status", "says"),
    [
        ("compile_succeeded", 0, "SUCCEEDED"),
        ("closing_error", 0, "harmless_shutdown"),
        ("operator_with_code", 1, "NCC_EVRF001"),
        ("no_device", 1, "device_absent"),
        ("warnings_only", 3, "CANNOT TELL"),
    ],
)
def test_diagnose_ends_with_what_the_log_says(capsys, log, status, says):
    code, out, err = call(capsys, "diagnose", LOGS / f"{log}.log")
    assert (code, err) == (status, "")
    assert says in out


def test_diagnose_reads_standard_input(capsys, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO((LOGS / "operator_with_code.log").read_bytes())))
    code, out, _ = call(capsys, "diagnose", "-", "--json")
    found = json.loads(out)
    assert code == 1 and found["record"] is None
    assert found["diagnosis"]["code"] == "NCC_EVRF001" and found["diagnosis"]["finding"]["code"] == "unsupported_operator"


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        ([LOGS / "nowhere.log"], ["cannot read the log", "nowhere.log"]),
        ([LOGS / "no_device.log", "--for", "inf2"], ["--for and --params go together"]),
        ([LOGS / "no_device.log", "--for", "inf3", "--params", BERT], ["inf3", "inf2"]),
        ([], ["LOG", "--help"]),
    ],
)
def test_diagnose_refuses_in_one_line(capsys, argv, says, tmp_path):
    code, out, err = call(capsys, "diagnose", *argv, "--reports", tmp_path)
    assert (code, out) == (2, "")
    assert err.count("\n") == 1 and all(part in err for part in says)


def test_a_diagnosed_log_becomes_evidence(capsys, tmp_path):
    argv = ["diagnose", LOGS / "operator_with_code.log", "--for", "inf2", "--params", tiny(tmp_path), "--reports", tmp_path]
    code, out, err = call(capsys, *argv)
    assert (code, err) == (1, "") and re.search(r"adopted [0-9a-f]{16} for inf2", out)
    (adopted,) = Dossier(tmp_path / "tiny")
    assert adopted.kind == "compile" and adopted.row("inf2").status == "failed"


# -- measure and adopt ------------------------------------------------------------------------


def test_measure_writes_a_record_that_another_dossier_adopts(capsys, tmp_path):
    params = tiny(tmp_path, baseline={"name": "host", "instance_type": "g6.xlarge", "path": "cpu"})
    code, out, err = call(capsys, "measure", params, "--target", "host", "--reports", tmp_path / "there", "--json")
    assert code == 0, err
    (taken,) = json.loads(out)
    assert taken["source"]["grade"] == "measured" and taken["target"] == "host"
    (file,) = Dossier(tmp_path / "there" / "tiny").files()
    assert record.read(file.read_text()).id == taken["id"]

    code, out, err = call(capsys, "adopt", file, "--for", "host", "--params", params, "--reports", tmp_path / "here")
    assert code == 0, err
    (adopted,) = Dossier(tmp_path / "here" / "tiny")
    assert isinstance(adopted, Measurement) and adopted.id == taken["id"]

    for damaged, says in ((file.read_text()[:500], "not complete JSON"), ('{"foo": 1}', "not a neuronfit record")):
        bad = tmp_path / "bad.json"
        bad.write_text(damaged)
        code, _, err = call(capsys, "adopt", bad, "--for", "host", "--params", params, "--reports", tmp_path / "here")
        assert code == 2 and err.count("\n") == 1 and says in err
    assert len(Dossier(tmp_path / "here" / "tiny").files()) == 1


def test_a_damaged_record_is_named_and_the_others_stay(capsys, tmp_path):
    params = tiny(tmp_path)
    assert call(capsys, "run", params, "--steps", "1", "--reports", tmp_path)[0] == 0
    dossier = Dossier(tmp_path / "tiny")
    whole = {path: path.read_bytes() for path in dossier.files()}
    broken = dossier.records_folder / "20990101T000000000000Z-measurement-0123456789abcdef.json"
    broken.write_text('{"schema": "measurement/1", "id"')
    code, _, err = call(capsys, "report", dossier.folder)
    assert code == 2 and err.count("\n") == 1
    assert broken.name in err and f"other {len(whole)} records" in err
    assert {path: path.read_bytes() for path in whole} == whole
    broken.unlink()
    code, out, _ = call(capsys, "report", dossier.folder, "--json")
    assert code == 0 and json.loads(out)["workload"]


def test_the_whole_series_for_a_small_model(capsys, tmp_path):
    """All nine notebooks, a report, and the decision as JSON; then the same question again with --resume."""
    params = tiny(tmp_path)
    code, out, err = call(capsys, "run", params, "--reports", tmp_path, "--json")
    assert code == 0, err
    decision = json.loads(out)
    dossier = Dossier(tmp_path / "tiny")
    assert decision["verdict"] == "gather_evidence"
    assert decision["id"] == dossier.latest(Decision).id
    assert {path.name for path in dossier.executed_folder.glob("*.ipynb")} == {path.name for path in (ROOT / "notebooks").glob("*.ipynb")}
    measured = dossier.measurements("cpu")
    assert [entry.settings.batch_size for entry in measured] == [2]
    assert all(entry.grade == "measured" and entry.latencies_s for entry in measured)
    assert (dossier.folder / "report.html").exists()
    before = dossier.files()
    code, out, _ = call(capsys, "run", params, "--reports", tmp_path, "--resume")
    assert code == 0
    assert dossier.files() == before, "nothing new was measured or concluded"
    assert "Measure before you decide." in out


def test_a_notebook_that_meets_bad_evidence_ends_in_one_line(capsys, tmp_path):
    bad = tmp_path / "evidence.json"
    bad.write_text("{")
    params = tiny(tmp_path, evidence=[{"file": str(bad), "target": "l4"}])
    code, _, err = call(capsys, "run", params, "--steps", "1,4", "--reports", tmp_path)
    assert code == 2
    assert err.count("\n") == 1 and "step 4 failed" in err and str(bad) in err
    assert Dossier(tmp_path / "tiny").latest(Profile) is not None


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_in_the_middle(tmp_path, how):
    """One line, status 130, every admitted record whole, no kernel left behind, and --resume goes on."""
    params = tiny(tmp_path, policy={"budget_s": 600})
    command = [sys.executable, "-m", "neuronfit.cli", "run", params, "--steps", "1,4", "--reports", str(tmp_path)]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=listen_to_ctrl_c)
    dossier = Dossier(tmp_path / "tiny")
    deadline = time.monotonic() + 90
    while not (dossier.executed_folder / "04_benchmark.ipynb").exists() and time.monotonic() < deadline:
        assert process.poll() is None, process.communicate()
        time.sleep(0.2)
    time.sleep(3)
    process.send_signal(how)
    try:
        out, err = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 130, err
    assert err.count("\n") == 1 and "interrupted" in err and "--resume" in err
    assert any(isinstance(entry, Profile) for entry in dossier)
    assert not list(dossier.folder.rglob(".*.tmp"))
    assert not kernels_of(tmp_path)


def listen_to_ctrl_c() -> None:
    """A shell's background job is born deaf to SIGINT, and so would be what it starts."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def kernels_of(folder: Path) -> list[str]:
    """Processes whose environment names this test's folder."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            environment = (entry / "environ").read_bytes()
            status = (entry / "stat").read_text().rsplit(")", 1)[1].split()[0]
        except OSError:
            continue
        if f"NEURONFIT_REPORTS={folder}".encode() in environment and status != "Z" and entry.name != str(os.getpid()):
            found.append(entry.name)
    return found


# -- measure: a sweep -------------------------------------------------------------------------


def test_measure_sweeps_batch_sizes_in_turns_and_says_why_it_stopped(capsys, tmp_path):
    """Lengths are those of the first shape; the sizes share one session."""
    path = tiny(tmp_path)
    status, out, _ = call(capsys, "measure", path, "--target", "cpu", "--batch-sizes", "1,2", "--reports", tmp_path / "r", "--json")
    rows = [record.read(json.dumps(row)) for row in json.loads(out)]
    assert status == 0 and [row.settings.batch_size for row in rows] == [1, 2] and {row.settings.sequence_length for row in rows} == {16}
    assert rows[0].taken.session == rows[1].taken.session and rows[0].taken.clock.verdict in ("proven", "unproven")


@pytest.mark.parametrize("sizes", ["1,x", "0", "1,,2", "99999999"])
def test_measure_refuses_batch_sizes_that_are_none(capsys, tmp_path, sizes):
    status, _, err = call(capsys, "measure", tiny(tmp_path), "--target", "cpu", "--batch-sizes", sizes, "--reports", tmp_path / "r")
    assert status == 2 and "--batch-sizes" in err and "whole numbers from 1" in err and len(err.strip().splitlines()) == 1
