"""Live sampling: stand-ins for the tools on a PATH of their own; nothing of theirs is left running."""

import os
import re
import stat
import subprocess
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
    missing = made.facts["not recorded"].split(", ")
    assert "device memory" in missing and "power" in missing and "busyness" not in missing


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


ROW = "2026/10/25 02:00:0{n}.000, 0, NVIDIA L4, 550.54, {share} %, 5000 MiB, 23034 MiB"
HEAD = 'echo "timestamp, index, name, driver_version, utilization.gpu [%], memory.used [MiB], memory.total [MiB]"'


def printing(*shares):
    return "\n".join([HEAD, *(f'echo "{ROW.format(n=n, share=share)}"' for n, share in enumerate(shares))])


def has_printed(watch):
    return watch._last > 0


def has_ended(watch):
    return watch._process.poll() is not None


def watched(tools, ref, script, seconds, ready=has_printed):
    """What is recorded of a stand-in beside a block that lasts so many seconds longer than until it is ready; the block's answer is never lost."""
    tools("nvidia-smi", f"#!/bin/sh\n{script}\n")
    begun = time.monotonic()
    with monitoring(["cuda"], "g6.xlarge") as watch:
        while not ready(watch) and time.monotonic() - begun < 10:
            time.sleep(0.01)
        time.sleep(seconds)
        answer = 42
    assert answer == 42
    (made,) = watch.records(ref, [L4], HOST)
    made = type(made).model_validate_json(made.to_json())
    return made


def tool_path():
    return Path(os.environ["PATH"].split(os.pathsep)[0]) / "nvidia-smi"


def said(made, code):
    return next((entry.because for entry in made.findings if entry.code == code), None)


def test_a_tool_that_ends_with_an_error_in_the_middle_keeps_its_samples_and_says_so(tools, ref):
    made = watched(tools, ref, printing(20, 60) + "\necho 'Unable to determine the device handle for GPU 0'\nexit 15", 0.2, has_ended)
    assert made.samples == 2 and made.busy_mean.value == pytest.approx(0.4)
    because = said(made, "watched_in_part")
    assert re.search(r"ended by itself after \d+\.\d of \d+\.\d s", because)
    assert "status 15 (Unable to determine the device handle for GPU 0)" in because


def test_a_tool_that_prints_nothing_costs_no_more_than_its_ending(tools, ref, monkeypatch):
    monkeypatch.setattr("neuronfit.watch.STOP_S", 0.3)
    begun = time.monotonic()
    made = watched(tools, ref, "trap '' TERM\nwhile true; do sleep 0.1; done", 0.3, lambda watch: True)
    assert made.samples == 0 and "left no sample" in made.busy_mean.why and said(made, "not_monitored")
    assert time.monotonic() - begun < 8.0, "it waits STOP_S for the tool to end, three times at most"


@pytest.mark.parametrize(
    "garbage", ["head -c 3000 /dev/urandom", "yes '{\"neuron_runtime_data\": [[[' | head -n 400", "printf '\\033[2J\\000\\377,,,;;;%%\\n'"]
)
def test_a_tool_that_prints_garbage_is_recorded_as_that(tools, ref, garbage):
    made = watched(tools, ref, garbage, 0.2)
    assert made.samples == 0 and not made.busy_mean.known and not made.parts
    assert "left no sample" in made.bottom_line and made.bottom_line.isprintable()


def test_garbage_between_samples_costs_no_sample(tools, ref):
    between = (
        printing(30)
        + "\nhead -c 300 /dev/zero | tr '\\0' '#'\necho\necho 'Failed to initialize NVML: Unknown Error'\n"
        + printing(30, 90).split("\n", 2)[2]
    )
    made = watched(tools, ref, between + "\ntouch $0.done\nsleep 60", 0.1, lambda watch: Path(f"{tool_path()}.done").exists())
    assert made.samples == 2 and made.busy_mean.value == pytest.approx(0.6)


def test_a_tool_that_begins_late_is_said_to_have_watched_a_part(tools, ref, monkeypatch):
    monkeypatch.setattr("neuronfit.watch.SILENT_S", 0.3)
    made = watched(tools, ref, "sleep 0.8\n" + printing(40) + "\nsleep 60", 0.3)
    assert made.samples == 1 and re.search(r"its first sample came after \d+ of \d+ s", said(made, "watched_in_part"))


def test_a_tool_that_falls_silent_is_said_to_have_watched_a_part(tools, ref, monkeypatch):
    monkeypatch.setattr("neuronfit.watch.SILENT_S", 0.3)
    made = watched(tools, ref, printing(40, 60) + "\nsleep 60", 1.2)
    assert made.samples == 2 and re.search(r"printed nothing in the last \d+ of \d+ s", said(made, "watched_in_part"))
    monkeypatch.setattr("neuronfit.watch.SILENT_S", 30.0)
    whole = watched(tools, ref, printing(40, 60) + "\nsleep 60", 0.1)
    assert said(whole, "watched_in_part") is None


def test_what_the_tool_started_is_ended_too(tools, ref):
    folder = tools("nvidia-smi", "")
    script = f"(trap '' TERM; echo $BASHPID > {folder}/child; while true; do sleep 0.1; done) &\n{printing(50)}\nwait"
    tools("nvidia-smi", f"#!/bin/bash\n{script}\n")
    begun = time.monotonic()
    with monitoring(["cuda"], "g6.xlarge") as watch:
        child = wait_for(folder / "child")
    assert time.monotonic() - begun < 5.0
    assert watch.records(ref, [L4], HOST)[0].busy_mean.value == pytest.approx(0.5)
    end = time.monotonic() + 5
    while alive_or_gone(child) and time.monotonic() < end:
        time.sleep(0.05)
    assert not alive_or_gone(child)


def alive_or_gone(pid):
    try:
        return alive(pid)
    except FileNotFoundError:
        return False


def test_a_tool_that_cannot_be_ended_is_left(tools, ref, monkeypatch):
    """One that hangs in its driver takes no signal: here every wait runs out."""
    monkeypatch.setattr("neuronfit.watch.STOP_S", 0.1)
    tools("nvidia-smi", "#!/bin/sh\n" + printing(70) + "\nsleep 60\n")
    with monkeypatch.context() as patched, monitoring(["cuda"], "g6.xlarge") as watch:
        time.sleep(0.3)
        process = watch._process

        def never(timeout=None):
            raise subprocess.TimeoutExpired("nvidia-smi", timeout)

        patched.setattr(process, "wait", never)
        watch.stop()
    assert watch.records(ref, [L4], HOST)[0].busy_mean.value == pytest.approx(0.7)
    type(process).wait(process, 5)


def test_a_reader_that_fails_loses_no_measurement(tools, ref, monkeypatch):
    def fails(*_):
        raise MemoryError

    monkeypatch.setattr("neuronfit.adopt.monitors.summary.Summary.of", fails)
    made = watched(tools, ref, printing(40) + "\nsleep 60", 0.1)
    assert made.samples == 0 and "cannot be read (MemoryError)" in made.busy_mean.why


def test_what_is_printed_beyond_what_is_kept_is_said(tools, ref, monkeypatch):
    monkeypatch.setattr("neuronfit.watch.LARGEST", 150)
    made = watched(tools, ref, printing(40) + f"\nsleep 0.2\necho '{ROW.format(n=1, share=90)}'\nsleep 60", 0.6)
    assert made.samples == 1 and "was not kept" in said(made, "watched_in_part")
