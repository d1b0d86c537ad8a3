"""Parsers of text with known right answers, the route, and what this host says of itself."""

import json
from pathlib import Path

import doubles
import pytest
from neuronfit import system
from neuronfit.errors import BadInput
from neuronfit.system import Accelerator, System

GIB = 2**30


def test_cpuinfo_of_two_cores_with_two_threads_each():
    block = "processor\t: {}\nmodel name\t: AMD EPYC 7R13\nphysical id\t: 0\ncore id\t\t: {}\n"
    info = system.parse_cpuinfo("\n".join(block.format(number, number % 2) for number in range(4)))
    assert info.name == "AMD EPYC 7R13" and info.processors == (0, 1, 2, 3)
    assert len(set(info.cores.values())) == 2


def test_cpuinfo_of_arm_states_no_name_and_no_cores():
    info = system.parse_cpuinfo("processor\t: 0\nBogoMIPS\t: 243.75\n\nprocessor\t: 1\nBogoMIPS\t: 243.75\n")
    assert info == system.CpuInfo(None, (0, 1), {})


def test_meminfo_is_in_bytes():
    sizes = system.parse_meminfo("MemTotal:       16384 kB\nMemAvailable:    1024 kB\nHugePages_Total:       3\nnonsense\n")
    assert sizes == {"MemTotal": 16 * 2**20, "MemAvailable": 2**20, "HugePages_Total": 3}


@pytest.mark.parametrize(("text", "limit"), [("max\n", None), ("536870912\n", 536870912), ("9223372036854771712\n", None), ("", None), ("-1", None)])
def test_cgroup_limit(text, limit):
    assert system.parse_cgroup_limit(text) == limit


@pytest.mark.parametrize(("text", "cpus"), [("max 100000", None), ("150000 100000\n", 1.5), ("-1\n 100000\n", None), ("", None)])
def test_cpu_quota(text, cpus):
    assert system.parse_cpu_quota(text) == cpus


def test_equal_gpus_are_counted():
    text = "name, memory.total [MiB], driver_version\n" + "NVIDIA L4, 23034 MiB, 550.54.15\n" * 4 + "Tesla T4, 15360 MiB, 550.54.15\n"
    assert system.parse_nvidia_smi_csv(text) == (
        Accelerator(name="NVIDIA L4", count=4, memory_bytes_each=23034 * 2**20, driver="550.54.15"),
        Accelerator(name="Tesla T4", count=1, memory_bytes_each=15360 * 2**20, driver="550.54.15"),
    )


def test_what_a_gpu_does_not_state_is_absent_not_zero():
    (gpu,) = system.parse_nvidia_smi_csv("name, memory.total [MiB], driver_version\nNVIDIA GB10, [N/A], [Not Supported]\n")
    assert gpu == Accelerator(name="NVIDIA GB10", count=1)
    assert system.parse_nvidia_smi_csv("NVIDIA-SMI has failed because it couldn't communicate\n") == ()


@pytest.mark.parametrize("wrapped", [False, True])
def test_neuron_ls_as_a_list_and_as_an_object(wrapped):
    devices = [{"neuron_device": number, "nc_count": 2, "memory_size": 32 * GIB} for number in range(2)]
    text = json.dumps({"instance_type": "inf2.24xlarge", "neuron_devices": devices} if wrapped else devices)
    assert system.parse_neuron_ls_json(text) == (Accelerator(name="Neuron device, 2 cores", count=2, memory_bytes_each=32 * GIB),)


def test_neuron_ls_with_one_device_none_and_no_json():
    assert system.parse_neuron_ls_json('{"neuron_device": 0}') == (Accelerator(name="Neuron device", count=1),)
    assert system.parse_neuron_ls_json("[]") == system.parse_neuron_ls_json('{"instance": 1}') == ()
    with pytest.raises(ValueError):
        system.parse_neuron_ls_json("No neuron device found.")


def test_torchs_version_file():
    text = "from typing import Optional\n__version__ = '2.13.0+cu130'\ndebug = False\ncuda: Optional[str] = '13.0'\nhip = None\n"
    assert system.parse_torch_version(text) == ("2.13.0+cu130", "13.0")
    assert system.parse_torch_version("__version__ = '2.9.1+cpu'\ncuda: Optional[str] = None\n") == ("2.9.1+cpu", None)
    assert system.parse_torch_version("") == (None, None)


# -- the route --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("place", "version", "route"),
    [
        ("inf2", "2.9.0.2.15.32035", "XLA trace"),
        ("trn1.2xlarge", "2.8.0.2.10.16998", "XLA trace"),
        ("trn2.48xlarge", "2.9.0", "XLA trace"),
        ("trn2.3xlarge", "2.13.3.0.1", "TorchNeuron compiled"),
        ("trn3", "2.14.3.0", "TorchNeuron compiled"),
    ],
)
def test_routes_that_exist(place, version, route):
    assert system.neuron_route(place, version) == route


@pytest.mark.parametrize(
    ("place", "version", "said"),
    [
        ("inf2.xlarge", "2.13.3.0", "Trn2 and Trn3 only"),
        ("trn1", "2.14", "Trn2 and Trn3 only"),
        ("trn3", "2.9.0", "needs TorchNeuron"),
        ("inf1", "2.9.0", "archived"),
        ("inf2", "1.0", "2.9 or earlier"),
        ("trn2", "2.11", "2.13 or later"),
        ("g6.xlarge", "2.9", "not a Neuron instance"),
    ],
)
def test_routes_that_do_not(place, version, said):
    with pytest.raises(BadInput, match=said):
        system.neuron_route(place, version)


# -- importing, not finding -------------------------------------------------------------------


def test_the_placeholder_of_the_public_index_is_absent_although_it_is_found(monkeypatch):
    import importlib.util

    doubles.install(monkeypatch, "wrong_package")
    assert importlib.util.find_spec("torch_neuronx") is not None
    present, missing = system.import_neuron()
    assert present == {} and "WRONG PACKAGE" in missing["torch_neuronx"] and missing["neuronxcc"] == "not installed"
    able, why = system.can_run("neuron_xla")
    assert not able and "WRONG PACKAGE" in why


def test_the_xla_packages_are_reported_with_their_versions(monkeypatch):
    doubles.install(monkeypatch, "xla")
    host = system.probe()
    assert host.packages["torch_neuronx"].startswith("2.9.0") and host.packages["neuronxcc"].startswith("2.22")
    assert system.can_run("neuron_xla", host)[0]
    able, why = system.can_run("neuron_native", host.model_copy(update={"instance_type": "trn2.3xlarge"}))
    assert not able and "XLA trace" in why and "TorchNeuron compiled" in why


def test_without_a_device_neuron_cannot_be_measured(monkeypatch):
    doubles.install(monkeypatch, "xla", device=False)
    able, why = system.can_run("neuron_xla")
    assert not able and "/dev/neuron" in why


def test_the_doubles_are_out_of_reach_otherwise():
    assert "torch_neuronx" in system.import_neuron()[1]


# -- this host --------------------------------------------------------------------------------


def test_the_probe_describes_this_host_and_survives_json():
    host = system.probe()
    assert host.host and host.cores_physical >= 1 and host.cores_logical >= host.cores_physical
    assert 0 < host.memory_available_bytes <= host.memory_bytes
    assert host.software.startswith("torch 2.") and ", transformers " in host.software
    assert System.model_validate_json(host.model_dump_json()) == host
    for name in ("instance_type", "region"):
        assert (getattr(host, name) is None) == (name in host.absent)
    assert system.can_run("cpu", host) == (True, f"torch {host.packages['torch']} on {host.cores_physical} cores")


def test_a_host_without_any_tool_is_still_described(monkeypatch):
    monkeypatch.setattr(system, "_text", lambda path: None)
    monkeypatch.setattr(system, "_command", lambda *words: (None, f"{words[0]} is not installed"))
    host = system.probe()
    assert host.accelerators == () and host.absent["gpu"] == "nvidia-smi is not installed"
    assert host.instance_type is None and "EC2" in host.absent["instance_type"]


def test_a_container_limit_bounds_memory(monkeypatch):
    files = {
        "/proc/meminfo": "MemTotal: 16777216 kB\nMemAvailable: 12582912 kB\n",
        "/proc/self/cgroup": "0::/job\n",
        "/sys/fs/cgroup/job/memory.max": "max\n",
        "/sys/fs/cgroup/memory.max": f"{4 * GIB}\n",
        "/sys/fs/cgroup/memory.current": f"{3 * GIB}\n",
        "/sys/fs/cgroup/memory.stat": f"anon 5\ninactive_file {GIB // 2}\n",
    }
    monkeypatch.setattr(system, "_text", lambda path: files.get(str(path)))
    assert system._memory({}) == (4 * GIB, GIB + GIB // 2)


def test_a_version_1_limit_bounds_memory(monkeypatch):
    files = {
        "/proc/meminfo": "MemTotal: 16777216 kB\nMemAvailable: 12582912 kB\n",
        "/proc/self/cgroup": "5:cpu,cpuacct:/\n4:memory:/docker/abc\n0::/\n",
        "/sys/fs/cgroup/memory/docker/abc/memory.limit_in_bytes": f"{2 * GIB}\n",
        "/sys/fs/cgroup/memory/docker/abc/memory.usage_in_bytes": f"{GIB}\n",
        "/sys/fs/cgroup/cpu/cpu.cfs_quota_us": "250000\n",
        "/sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n",
    }
    monkeypatch.setattr(system, "_text", lambda path: files.get(str(path)))
    assert system._memory({}) == (2 * GIB, GIB)
    assert system._cpu_quota() == 2.5


def _on_ec2(monkeypatch, answer):
    files = {"/sys/devices/virtual/dmi/id/sys_vendor": "Amazon EC2\n", "/sys/devices/virtual/dmi/id/product_name": "g6.xlarge\n"}
    monkeypatch.setattr(system, "_text", lambda path: files.get(str(path)))
    monkeypatch.setattr(system, "_metadata", answer)
    absent = {}
    return system._ec2(absent), absent


def test_ec2_says_what_it_is(monkeypatch):
    values = {"api/token": "t", "meta-data/instance-type": "g6.xlarge", "meta-data/placement/region": "us-east-1"}
    assert _on_ec2(monkeypatch, lambda what, **options: values[what]) == (("g6.xlarge", "us-east-1"), {})


def test_a_silent_metadata_service_leaves_the_type_of_the_firmware(monkeypatch):
    def silent(what, **options):
        raise OSError("timed out")

    found, absent = _on_ec2(monkeypatch, silent)
    assert found == ("g6.xlarge", None) and "did not answer" in absent["region"] and "instance_type" not in absent


def test_the_metadata_service_is_not_asked_elsewhere(monkeypatch):
    monkeypatch.setattr(system, "_text", lambda path: None)
    monkeypatch.setattr(system, "_metadata", lambda *what, **options: pytest.fail("asked"))
    assert system._ec2({}) == (None, None)


# -- while something runs ---------------------------------------------------------------------


def test_the_state_of_the_gpus_is_the_slowest_clock_and_the_power_of_all():
    """Two GPUs: 1,980 MHz at 300.5 W, and 1,410 MHz whose driver holds it for heat (0x20) and at its power cap (0x4)."""
    state = system.parse_nvidia_smi_state("1980, 300.50, 0x0000000000000000\n1410, 349.5, 0x0000000000000024\n")
    assert state == system.AcceleratorState(clock_hz=1.41e9, power_w=650.0, slowed=("power cap", "heat (software)"))
    assert system.parse_nvidia_smi_state("1410, [N/A], [Not Supported]") == system.AcceleratorState(clock_hz=1.41e9)
    assert system.parse_nvidia_smi_state("no devices were found") == system.AcceleratorState()
    assert system.parse_nvidia_smi_state("1000, 10, 0x0000000000000001").slowed == (), "0x1 is an idle GPU"


def test_busy_time_of_all_processors():
    """user 100 + nice 20 + system 30 + irq 5 + softirq 5 + steal 40 = 200 ticks of a hundredth; idle and waiting for a disk are not."""
    text = "cpu  100 20 30 9000 700 5 5 40 0 0\ncpu0 50 10 15 4500 350 2 3 20 0 0\nintr 1"
    assert system.parse_proc_stat(text, 100) == 2.0
    assert system.parse_proc_stat("", 100) is None and system.parse_proc_stat("cpu0 1 2 3 4 5 6 7 8 9", 100) is None


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs /proc")
def test_peak_memory_follows_what_was_allocated_since_the_reset():
    if system.peak_memory_bytes(reset=True) is None:
        pytest.skip("this system does not let a process reset its peak")
    before = system.peak_memory_bytes()
    block = bytearray(64 * 2**20)
    block[::4096] = b"x" * len(block[::4096])
    grown = system.peak_memory_bytes()
    del block
    assert 60 * 2**20 < grown - before < 100 * 2**20 and system.peak_memory_bytes() > grown - 2 * 2**20
    assert system.peak_memory_bytes(reset=True) < grown - 50 * 2**20
