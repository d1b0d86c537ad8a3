"""A monitor's file as a record of a dossier: who it speaks for, what is refused, what is shown; and the command."""

import gzip
import hashlib
import json
import signal
from pathlib import Path

import example_questions
import pytest
from neuronfit import adopt, cli, record, show
from neuronfit.adopt import monitors
from neuronfit.errors import BadInput
from neuronfit.provenance import Grade
from neuronfit.record import Monitor

ROOT = Path(__file__).parents[1]
GPU = "timestamp, index, name, utilization.gpu [%], memory.used [MiB], memory.total [MiB], power.draw [W]\n" + "\n".join(
    f"2026/10/25 02:00:{n:02}.000, 0, NVIDIA L4, {value} %, 5000 MiB, 23034 MiB, 70.00 W" for n, value in enumerate((0, 0, 10, 20, 70))
)


def neuron(kind="inf2.xlarge", share=90.0, flops=38e12):
    counters = {str(core): {"neuroncore_utilization": share, "flops": flops} for core in range(2)}
    groups = {
        "neuroncore_counters": {"period": 1.0, "neuroncores_in_use": counters, "error": ""},
        "execution_stats": {"period": 1.0, "error_summary": {}, "execution_summary": {"completed": 5}, "latency_stats": None, "error": ""},
    }
    hardware = {"neuron_device_count": 1, "neuron_device_memory_size": 2**35, "neuroncore_per_device_count": 2, "logical_neuroncore_config": 1}
    whole = {
        "neuron_runtime_data": [{"pid": 1, "report": groups}],
        "instance_info": {"instance_type": kind},
        "neuron_hardware_info": hardware,
        "system_data": {},
    }
    return json.dumps(whole) + "\n"


@pytest.fixture
def question(tmp_path):
    return example_questions.question(tmp_path / "reports")


def saved(folder, content, name="monitor.txt"):
    path = folder / name
    path.write_text(content, encoding="utf-8")
    return path


@pytest.fixture
def call(capsys, monkeypatch):
    monkeypatch.chdir(ROOT)
    before = signal.getsignal(signal.SIGTERM)

    def run(*argv):
        with pytest.raises(SystemExit) as ended:
            cli.main([str(part) for part in argv])
        out, err = capsys.readouterr()
        return ended.value.code, out, err

    yield run
    signal.signal(signal.SIGTERM, before)


def test_the_record_names_file_hash_tool_and_what_was_not_in_it(tmp_path, question):
    path = saved(tmp_path, GPU)
    (made,) = monitors.to_records(question, path, "l4")
    assert isinstance(made, Monitor) and made.grade is Grade.IMPORTED
    assert made.source.file == "monitor.txt" and made.source.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
    assert made.source.tool == "nvidia-smi"
    assert "memory errors (ECC)" in made.source.missing and "busyness" not in made.source.missing
    assert made.target == "l4" and made.instance_type == "g6.xlarge" and made.workload == question.ref
    assert made.busy_mean.value == pytest.approx(0.2) and made.busy_metric == "gpu_kernel_active"
    assert record.read(question.dossier.admit(made).to_json()) == question.dossier.monitors("l4")[0]


def test_the_same_file_twice_is_one_record_also_after_another(tmp_path, question):
    for target, content in (("l4", GPU), ("inf2", neuron()), ("l4", GPU)):
        (made,) = monitors.to_records(question, saved(tmp_path, content, f"{target}.txt"), target)
        question.dossier.admit(made)
    assert [entry.target for entry in question.dossier.monitors()] == ["l4", "inf2"]


def test_a_file_of_another_instance_type_or_vendor_is_refused(tmp_path, question):
    with pytest.raises(BadInput, match="another instance type") as caught:
        monitors.to_records(question, saved(tmp_path, neuron("trn1.2xlarge")), "inf2")
    assert "inf2.xlarge" in str(caught.value) and "\n" not in str(caught.value)
    with pytest.raises(BadInput, match="NVIDIA GPUs"):
        monitors.to_records(question, saved(tmp_path, GPU), "inf2")
    with pytest.raises(BadInput):
        monitors.to_records(question, saved(tmp_path, neuron("")), "l4")


def test_another_gpu_than_declared_is_a_warning(tmp_path, question):
    (made,) = monitors.to_records(question, saved(tmp_path, GPU.replace("NVIDIA L4", "Tesla V100S-PCIE-32GB")), "l4")
    assert "other_accelerator" in {entry.code for entry in made.findings}
    (made,) = monitors.to_records(question, saved(tmp_path, GPU), "l4")
    assert "other_accelerator" not in {entry.code for entry in made.findings}


def test_the_declared_type_gives_capacity_and_peak(tmp_path, question):
    """Without an instance type in the file, and with two cores of 95 TFLOP/s."""
    (made,) = monitors.to_records(question, saved(tmp_path, neuron("")), "inf2")
    assert made.parts[0].work_share.value == pytest.approx(38 / 95)


def test_both_vendors_in_one_table_are_said_to_differ(tmp_path, question):
    made = [monitors.to_records(question, saved(tmp_path, content), target)[0] for target, content in (("l4", GPU), ("inf2", neuron()))]
    one, both = str(show.monitor_table(made[:1])), str(show.monitor_table(made))
    assert show.monitors.APART not in one and show.monitors.APART in both
    assert "time with a kernel" in both and "time a NeuronCore executed" in both and "40 I" in both
    assert str(show.monitor_bars(made)) == show.monitors.APART
    figure = show.monitor_bars(made[:1])
    assert "20% [I]" in str(figure) and "<svg" in figure.svg
    assert not show.monitor_table([]) and not show.monitor_bars([])


def test_of_two_records_of_a_target_the_newest_is_shown(tmp_path, question):
    old, new = (monitors.to_records(question, saved(tmp_path, GPU.replace(" 70 %", f" {value} %")), "l4")[0] for value in (70, 20))
    assert len(show.monitor_table([old, new]).rows) == 1
    assert "10 I" in str(show.monitor_table([old, new]))


def test_the_command_shows_findings_and_what_is_missing(tmp_path, call):
    status, out, err = call("monitor", saved(tmp_path, GPU))
    assert (status, err) == (0, "")
    assert out.startswith("1 device (NVIDIA L4), 5 samples over 4 s; a kernel ran 20% of the time")
    assert "busy: time with a kernel (gpu_kernel_active)" in out and "not recorded: throttling" in out
    status, out, _ = call("monitor", saved(tmp_path, GPU), "--json")
    told = json.loads(out)
    assert told["busy_mean"]["value"] == pytest.approx(0.2) and told["parts"][0]["idle"]["value"] == pytest.approx(0.4)


def test_the_command_adopts(tmp_path, call):
    status, out, _ = call("monitor", saved(tmp_path, GPU), "--for", "l4", "--params", "params/bert-base-uncased.yaml", "--reports", tmp_path)
    assert status == 0 and "adopted" in out
    (kept,) = (tmp_path / "bert-base-uncased" / "records").glob("*-monitor-*.json")
    assert record.read(kept.read_text(encoding="utf-8")).busy_mean.value == pytest.approx(0.2)


def test_the_command_writes_the_table(tmp_path, call):
    status, _, _ = call("monitor", saved(tmp_path, GPU), "--table", tmp_path / "rows.csv")
    lines = (tmp_path / "rows.csv").read_text(encoding="utf-8").splitlines()
    assert status == 0 and lines[0] == "time,device,core,metric,value,unit" and len(lines) == 1 + 5 * 4
    assert "1792893602.0,0,,gpu_kernel_active,0.1,fraction" in lines


@pytest.mark.parametrize("extra", [("--for", "l4"), ("--params", "params/bert-base-uncased.yaml"), ("--instance-type", "inf9.huge")])
def test_bad_options_end_in_one_line(tmp_path, call, extra):
    status, out, err = call("monitor", saved(tmp_path, GPU), *extra)
    assert (status, out) == (2, "") and err.count("\n") == 1


def test_a_file_without_a_sample_ends_with_status_3(tmp_path, call):
    status, out, _ = call("monitor", saved(tmp_path, '{"neuron_runtime_data": ['))
    assert status == 3 and "no_sample" in out


def test_a_file_that_is_none_ends_in_one_line(tmp_path, call):
    status, out, err = call("monitor", saved(tmp_path, "hello"))
    assert (status, out) == (2, "") and "not a monitor's file" in err and err.count("\n") == 1


@pytest.fixture
def modelled(question):
    """A target's modelled busyness, from published figures: 400 a second on a g6.xlarge of 2,168."""
    from neuronfit import compare

    compare.compare(question)
    return question


def test_what_was_seen_stands_beside_what_is_modelled_with_its_name(modelled, tmp_path):
    from neuronfit import utilization

    assert all(row.observed is None for row in utilization.estimate(modelled).targets)
    assert isinstance(show.busyness_table(utilization.estimate(modelled)), show.Note)
    modelled.dossier.admit(monitors.to_records(modelled, saved(tmp_path, GPU), "l4")[0])
    found = utilization.estimate(modelled)
    seen = {row.target: row.observed for row in found.targets}
    assert seen["l4"].busy.value == pytest.approx(0.2) and seen["l4"].metric == "gpu_kernel_active" and seen["l4"].adopted and seen["inf2"] is None
    assert seen["l4"].monitor == modelled.dossier.monitors("l4")[-1].id
    text = str(show.busyness_table(found))
    assert "GPU: time with a kernel, from a file" in text and "load over capacity" in text and "different quantities" not in text


def test_a_gpu_and_a_neuroncore_are_said_to_be_different(modelled, tmp_path):
    from neuronfit import utilization

    modelled.dossier.admit(monitors.to_records(modelled, saved(tmp_path, GPU), "l4")[0])
    modelled.dossier.admit(monitors.to_records(modelled, saved(tmp_path, neuron(), "n.json"), "inf2")[0])
    found = utilization.estimate(modelled)
    text = str(show.busyness_table(found))
    assert "NeuronCore: time a NeuronCore executed, from a file" in text and "cannot be set side by side" in text
    said = {finding.target: finding for finding in found.findings if finding.code == "busy_differs_from_observed"}
    assert set(said) == {"inf2"} and "15% busy is modelled" in said["inf2"].because and "90% was seen" in said["inf2"].because


def test_of_several_records_the_newest_with_a_number_counts(modelled, tmp_path):
    from neuronfit import utilization

    first = monitors.to_records(modelled, saved(tmp_path, GPU), "l4")[0].model_copy(update={"created_utc": "2026-10-01T00:00:00Z"})
    busier = monitors.to_records(modelled, saved(tmp_path, GPU.replace(" 0 %", " 50 %"), "b.csv"), "l4")[0].model_copy(
        update={"created_utc": "2026-10-02T00:00:00Z"}
    )
    assert utilization.observed([first, busier]).busy.value == pytest.approx(0.4)
    nothing = busier.model_copy(update={"busy_mean": busier.busy_mean.model_copy(update={"value": None, "grade": None, "why": "not recorded"})})
    assert utilization.observed([first, nothing]).busy.value == pytest.approx(0.2) and utilization.observed([]) is None


def test_a_file_of_more_or_of_other_devices_than_declared_is_a_warning(tmp_path, question):
    rows = "".join(f"2026/11/20 10:00:0{n}.000, {index}, 40 %\n" for n in range(3) for index in (0, 1))
    found = monitors.to_records(question, saved(tmp_path, "timestamp, index, utilization.gpu [%]\n" + rows), "l4")[0]
    assert "the file has 2 devices, g6.xlarge has 1" in [entry.because for entry in found.findings]
    text = 'neuron_hardware_info{neuron_device_count="1",neuron_device_memory_size="8589934592",neuroncore_per_device_count="4"} 1.0\n'
    text += 'neuroncore_utilization_ratio{neuroncore="0"} 0.5\n'
    found = monitors.to_records(question, saved(tmp_path, text), "inf2")[0]
    assert "the file's devices have 8 GiB, those of inf2.xlarge 32 GiB" in [entry.because for entry in found.findings]


@pytest.mark.parametrize("packed", [gzip.compress, lambda text: text.decode().replace("\n", "\r\n").encode("utf-16"), lambda text: text])
def test_adopting_knows_a_monitors_file_however_it_was_saved(tmp_path, question, packed):
    path = tmp_path / "saved"
    path.write_bytes(packed((neuron() * 3).encode()))
    ((_, found),) = adopt.adopt(question, path, "inf2")
    assert found[0].kind == "monitor" and found[0].samples == 3


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.\n", "driver does not answer"),
        ("[0] GeForce GTX Titan X | 77C,  96 % | 11848 / 12287 MB | python/52046(11821M)\n", "gpustat"),
        ("==== ROCm System Management Interface ====\nGPU 0 55%\n", "AMD"),
    ],
)
def test_adopting_names_what_stands_close_to_a_monitors_file(tmp_path, question, text, what):
    ((_, refused),) = adopt.adopt(question, saved(tmp_path, text), "l4")
    assert what in refused.what and refused.next
