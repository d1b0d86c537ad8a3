"""Live sampling: stand-ins for the tools on a PATH of their own; nothing of theirs is left running."""

import os
import stat
import time
from pathlib import Path

import example_questions
import pytest
from neuronfit.params import Target
from neuronfit.provenance import Grade
from neuronfit.system import System
from neuronfit.watch import FIELDS, monitoring

HOST = System(host="test-host", instance_type="g6.xlarge")
L4 = Target(name="l4", instance_type="g6.xlarge", path="cuda")
INF2 = Target(name="inf2", instance_type="inf2.xlarge", path="neuron_xla")

NVIDIA = """#!/bin/sh
echo "$$" > "{folder}/pid"
echo "$@" > "{folder}/arguments"
echo "timestamp, index, name, driver_version, utilization.gpu [%], memory.used [MiB], memory.total [MiB]"
n=0
while true; do
  echo "2026/10/25 02:00:0$n.000, 0, NVIDIA L4, 550.54, 40 %, 5000 MiB, 23034 MiB"
  n=$((n + 1)); [ $n -gt 9 ] && n=9
  sleep 0.05
done
"""

NEURON = """#!/bin/sh
cat "$2" > "{folder}/config"
echo "$$" > "{folder}/pid"
trap '' TERM
while true; do
  echo '{{"neuron_runtime_data":[{{"pid":1,"report":{{"neuroncore_counters":{{"period":1.0,"neuroncores_in_use":{{"0":{{"neuroncore_utilization":30.0}},"1":{{"neuroncore_utilization":50.0}}}},"error":""}}}}}}],"system_data":{{}},"instance_info":{{"instance_type":"inf2.xlarge"}},"neuron_hardware_info":{{"neuron_device_count":1,"neuroncore_per_device_count":2}}}}'
  sleep 0.05
done
"""


@pytest.fixture
def tools(tmp_path, monkeypatch):
    """Put a stand-in on the PATH: its text with {folder} filled in."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}/usr/bin{os.pathsep}/bin")

    def put(name, text):
        path = folder / name
        path.write_text(text.replace("{folder}", str(folder)).replace("{{", "{").replace("}}", "}"), encoding="utf-8")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        return folder

    return put


def wait_for(path, seconds=10.0):
    end = time.monotonic() + seconds
    while not (path.exists() and path.read_text()) and time.monotonic() < end:
        time.sleep(0.01)
    time.sleep(0.3)
    return path.read_text().strip()


def alive(pid):
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return False
    return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"


@pytest.fixture
def ref(tmp_path):
    return example_questions.question(tmp_path / "reports").ref


def test_what_nvidia_smi_printed_becomes_a_measured_record(tools, ref):
    folder = tools("nvidia-smi", NVIDIA)
    with monitoring(["cuda"], "g6.xlarge") as watch:
        pid = wait_for(folder / "pid")
        assert alive(pid)
    assert not alive(pid)
    (made,) = watch.records(ref, [L4, L4], HOST)
    assert made.grade is Grade.MEASURED and made.source.host == "test-host"
    assert made.target == "l4" and made.busy_mean.value == pytest.approx(0.4) and made.samples >= 1
    assert made.parts[0].memory_total.value == 23034 * 2**20
    asked = (folder / "arguments").read_text()
    assert f"--query-gpu={','.join(FIELDS)}" in asked and "-l 1" in asked


def test_neuron_monitor_is_asked_for_one_report_a_second_and_ended_even_if_it_will_not(tools, ref, monkeypatch):
    monkeypatch.setattr("neuronfit.watch.STOP_S", 0.3)
    folder = tools("neuron-monitor", NEURON)
    with monitoring(["neuron_xla"]) as watch:
        pid = wait_for(folder / "pid")
    assert not alive(pid)
    assert '"period": "1s"' in (folder / "config").read_text()
    (made,) = watch.records(ref, [INF2], HOST)
    assert made.busy_mean.value == pytest.approx(0.4) and made.busy_metric == "neuroncore_utilization"


def test_a_tool_that_is_absent_is_recorded_as_that(tools, ref):
    tools("something-else", "#!/bin/sh\n")
    with monitoring(["cuda"]) as watch:
        pass
    (made,) = watch.records(ref, [L4], HOST)
    assert [entry.code for entry in made.findings] == ["not_monitored"]
    assert made.samples == 0 and not made.busy_mean.known and "not on the PATH" in made.busy_mean.why


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("#!/bin/sh\necho 'NVIDIA-SMI has failed because it couldn not communicate with the driver'\nexit 9\n", "NVIDIA-SMI has failed"),
        ("#!/bin/sh\nexit 6\n", "no sample"),
        ("#!/no/such/interpreter\n", "cannot be started"),
    ],
)
def test_a_tool_that_fails_is_recorded_with_its_words(tools, ref, text, why):
    tools("nvidia-smi", text)
    with monitoring(["cuda"]) as watch:
        time.sleep(0.3)
    (made,) = watch.records(ref, [L4], HOST)
    assert why in made.bottom_line and not made.parts


def test_a_cpu_is_not_watched(tools, ref):
    folder = tools("nvidia-smi", NVIDIA)
    with monitoring(["cpu"]) as watch:
        time.sleep(0.1)
    assert watch.records(ref, [Target(name="cpu", instance_type="this-host", path="cpu")], HOST) == []
    assert not (folder / "pid").exists()


def test_a_measurement_that_raises_ends_its_monitor(tools):
    folder = tools("nvidia-smi", NVIDIA)
    with pytest.raises(KeyboardInterrupt), monitoring(["cuda"]):
        pid = wait_for(folder / "pid")
        raise KeyboardInterrupt
    assert not alive(pid)
    assert not list(Path(os.environ.get("TMPDIR", "/tmp")).glob("neuronfit-watch-*/samples"))
