"""What people really save of a monitor: under the prefixes of logs, in older and newer layouts, in parts. Every answer is computed by hand beside it."""

import csv
import io
import itertools
import json
import re

import pytest
from neuronfit.adopt import monitors
from neuronfit.errors import BadInput

MIB, GIB = 2**20, 2**30


def summary_of(folder, content, **options):
    path = folder / "saved"
    path.write_bytes(content if isinstance(content, bytes) else content.encode("utf-8"))
    return monitors.summarise(path, **options)


def codes(summary):
    return {remark.code for remark in summary.remarks}


def because(summary, code):
    return next(remark.because for remark in summary.remarks if remark.code == code)


def part(summary, device, core=None):
    return next(entry for entry in summary.parts if (entry.device, entry.core) == (device, core))


# -- what carries the lines -------------------------------------------------------------------

LINES = [
    "timestamp, index, name, utilization.gpu [%], memory.used [MiB], memory.total [MiB]",
    *(f"2026/11/20 10:00:0{n}.100, 0, NVIDIA A10G, {40 + 10 * n} %, 5000 MiB, 23028 MiB" for n in range(5)),
]
"""40, 50, 60, 70, 80 %: mean 0.6, over 4 s."""

REPORTS = [
    json.dumps(
        {
            "neuron_runtime_data": [
                {
                    "pid": 1,
                    "report": {
                        "neuroncore_counters": {
                            "period": 1.0,
                            "neuroncores_in_use": {"0": {"neuroncore_utilization": 10.0 * (n + 1)}, "1": {"neuroncore_utilization": 0.0}},
                            "error": "",
                        }
                    },
                }
            ],
            "system_data": {},
            "instance_info": {"instance_type": "inf2.xlarge"},
            "neuron_hardware_info": {"neuron_device_count": 1, "neuroncore_per_device_count": 2},
        }
    )
    for n in range(6)
]
"""Core 0 at 10, 20, ... 60 %, core 1 idle: 0.175 of the device."""

TWO_DIGITS = [f"2026-11-20T10:00:{n:02}" for n in range(60)]


def cells(rows):
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows(rows)
    return out.getvalue()


CARRIED = {
    "kubectl logs --prefix --timestamps": lambda lines: "".join(
        f"[pod/smi-0/smi] {TWO_DIGITS[n]}.000000001Z {line}\n" for n, line in enumerate(lines)
    ),
    "kubectl logs --timestamps": lambda lines: "".join(f"{TWO_DIGITS[n]}.000000001Z {line}\n" for n, line in enumerate(lines)),
    "a node's container file": lambda lines: "".join(f"{TWO_DIGITS[n]}.5Z stdout F {line}\n" for n, line in enumerate(lines)),
    "docker's json-file": lambda lines: "".join(
        json.dumps({"log": line + "\n", "stream": "stdout", "time": f"{TWO_DIGITS[n]}.5Z"}) + "\n" for n, line in enumerate(lines)
    ),
    "docker compose": lambda lines: "".join(f"smi-1  | {line}\n" for line in lines),
    "journalctl": lambda lines: "".join(f"Nov 20 10:00:{n:02} gpu01 smi[991]: {line}\n" for n, line in enumerate(lines)),
    "journalctl -o json": lambda lines: "".join(
        json.dumps({"MESSAGE": line, "__REALTIME_TIMESTAMP": str(1795168800000000 + 1000000 * n)}) + "\n" for n, line in enumerate(lines)
    ),
    "CloudWatch Logs, CSV": lambda lines: cells([("timestamp", "message"), *((1795168800000 + 1000 * n, line) for n, line in enumerate(lines))]),
    "ts": lambda lines: "".join(f"Nov 20 10:00:{n:02} {line}\n" for n, line in enumerate(lines)),
    "brackets": lambda lines: "".join(f"[2026-11-20 10:00:{n:02}] {line}\n" for n, line in enumerate(lines)),
    "quoted": lambda lines: "".join(f"> {line}\n" for line in lines),
    "a terminal": lambda lines: "\x1b[H\x1b[2J" + "\r\n".join(line.replace("NVIDIA", "\x1b[7mNVIDIA\x1b[27m") for line in lines) + "\r\n\x1b[?25h",
}


@pytest.mark.parametrize("carried", CARRIED.values(), ids=CARRIED)
def test_what_carried_a_query_is_taken_off(tmp_path, carried):
    found = summary_of(tmp_path, carried(LINES))
    assert found.samples == 5 and found.busy_mean.value == pytest.approx(0.6)
    assert found.span.value == pytest.approx(4.0) and found.start_utc == "2026-11-20T10:00:00Z"
    assert found.quantities["memory_used_bytes"].value == 5000 * MIB and part(found, "0").name == "NVIDIA A10G"


TIMED = {name: way for name, way in CARRIED.items() if name not in ("docker compose", "journalctl", "ts", "quoted", "a terminal")}


@pytest.mark.parametrize("carried", TIMED.values(), ids=TIMED)
def test_reports_keep_the_time_that_stood_before_them(tmp_path, carried):
    found = summary_of(tmp_path, carried(REPORTS))
    assert found.samples == 6 and found.busy_mean.value == pytest.approx(0.175)
    assert found.reading.clock == "epoch" and found.span.value == pytest.approx(5.0)


@pytest.mark.parametrize("carried", [CARRIED["kubectl logs --timestamps"], CARRIED["docker's json-file"]])
def test_a_tool_without_a_clock_takes_the_carriers(tmp_path, carried):
    screen = ["# gpu   pwr    sm   mem", "# Idx     W     %     %", *(f"    0    70   {share}     1" for share in (10, 20, 60))]
    found = summary_of(tmp_path, carried(screen))
    assert found.busy_mean.value == pytest.approx(0.3) and found.samples == 3
    assert found.reading.clock == "epoch" and found.span.value == pytest.approx(2.0)
    query = ["index, utilization.gpu [%], memory.used [MiB]", *(f"0, {share} %, 100 MiB" for share in (10, 20, 60))]
    found = summary_of(tmp_path, carried(query))
    assert found.busy_mean.value == pytest.approx(0.3) and found.span.value == pytest.approx(2.0)


@pytest.mark.parametrize("delimiter", ["\t", ", ", ";"])
def test_a_column_of_times_is_no_prefix(tmp_path, delimiter):
    head = delimiter.join(("timestamp", "index", "utilization.gpu [%]"))
    rows = [delimiter.join((f"2026-11-20T10:00:0{n}.5+01:00", "0", f"{10 * n} %")) for n in range(6)]
    found = summary_of(tmp_path, "\n".join([head, *rows]))
    assert found.busy_mean.value == pytest.approx(0.25) and found.start_utc == "2026-11-20T09:00:00Z" and found.span.value == 5


def test_a_line_that_lacks_the_prefix_is_read_as_it_is(tmp_path):
    text = CARRIED["kubectl logs --timestamps"](LINES) + "2026/11/20 10:00:05.100, 0, NVIDIA A10G, 0 %, 5000 MiB, 23028 MiB\n"
    assert summary_of(tmp_path, text).busy_mean.value == pytest.approx(0.5)


# -- other layouts of neuron-monitor ----------------------------------------------------------


def changed(report, **groups):
    value = json.loads(report)
    value["neuron_runtime_data"][0]["report"].update(groups)
    return json.dumps(value)


def test_memory_by_category_as_present_peak_and_total(tmp_path):
    parts = {"tensors": {"present": 100, "peak": 200, "total": 900}, "constants": {"present": 300, "peak": 300, "total": 300}, "driver": None}
    memory = {"neuron_runtime_used_bytes": {"neuron_device": 400, "usage_breakdown": {"neuroncore_memory_usage": {"0": parts, "1": {"tensors": 0}}}}}
    found = summary_of(tmp_path, "\n".join(changed(one, memory_used=memory) for one in REPORTS))
    assert part(found, "0", "0").memory_used.value == 400 and found.quantities["memory_used_bytes"].value == 400
    assert found.busy_mean.value == pytest.approx(0.175) and "unit_assumed" not in codes(found)


def test_an_odd_group_blanks_itself_only(tmp_path):
    odd = {"error_summary": {}, "execution_summary": {"completed": {"value": 5}, "timed_out": [1]}}
    memory = {"neuron_runtime_used_bytes": {"neuron_device": 700}}
    found = summary_of(tmp_path, "\n".join(changed(one, execution_stats=odd, memory_used=memory) for one in REPORTS))
    assert found.samples == 6 and found.busy_mean.value == pytest.approx(0.175)
    assert found.quantities["memory_used_bytes"].value == 700 and "executions_completed" not in found.quantities
    assert because(found, "group_error").startswith("execution_stats: ") and "record_cut_off" not in codes(found)


@pytest.mark.parametrize("value", ["NaN", "null"])
def test_a_core_without_a_number_is_not_idle(tmp_path, value):
    text = "\n".join(re.sub(r'"neuroncore_utilization": [1-9]\d\.0', f'"neuroncore_utilization": {value}', one) for one in REPORTS)
    found = summary_of(tmp_path, text)
    assert (found.busy_mean.low, found.busy_mean.high) == (0.0, 0.5), "one of two cores is known, and idle"
    assert "cores_missing" in codes(found) and "up to 50% if what was not recorded was busy" in found.sentence


def test_executions_under_their_name_of_2022(tmp_path):
    stats = {"period": 1.0, "error_summary": {"generic": 1}, "inference_summary": {"completed": 9, "timed_out": 0}, "error": ""}
    found = summary_of(tmp_path, "\n".join(changed(one, inference_stats=stats) for one in REPORTS))
    assert found.quantities["executions_completed"].value == 54 and found.quantities["executions_failed"].value == 6
    assert "no_workload_seen" not in codes(found)


def test_the_layout_of_the_beta(tmp_path):
    report = {
        "runtime_data": [
            {
                "runtime_index": 0,
                "error": "",
                "report": {
                    "nc_counters": {"period": 2.0, "neuron_cores": {str(n): {"neuroncore_utilization": 10.0 * n} for n in range(4)}, "error": ""},
                    "inference_stats": {"period": 2.0, "error_summary": {"generic": 0}, "inference_summary": {"completed": 50}, "error": ""},
                    "memory_used": {"period": 2.0, "runtime_memory": {"host": 1, "device": 3000}, "loaded_models": [], "error": ""},
                    "hw_counters": {"neuron_devices": [{"device_index": 0, "mem_ecc_corrected": 3, "mem_ecc_uncorrected": 0}]},
                },
            }
        ],
        "system_data": {"cpu_usage": {"average_usage": {"user": 30.0, "system": 10.0}}},
        "instance_data": {"instance_id": "i-0", "instance_type": "inf1.xlarge"},
    }
    found = summary_of(tmp_path, json.dumps(report, indent=2))
    assert found.instance_type == "inf1.xlarge" and found.busy_mean.value == pytest.approx(0.15)
    assert found.quantities["executions_completed"].value == 50 and found.quantities["memory_used_bytes"].value == 3000
    assert found.quantities["host_cpu_busy"].value == pytest.approx(0.4)
    assert {"old_tools", "ecc_corrected"} <= codes(found)


def test_reports_that_a_script_printed(tmp_path):
    found = summary_of(tmp_path, "\n".join(str(json.loads(one)) for one in REPORTS))
    assert found.samples == 6 and found.busy_mean.value == pytest.approx(0.175)


# -- neuron-ls --------------------------------------------------------------------------------

LISTING = """$ neuron-ls
instance-type: {kind}
+--------+--------+--------+-----------+
| NEURON | NEURON | NEURON | CONNECTED |
| DEVICE | CORES  | MEMORY |  DEVICES  |
+--------+--------+--------+-----------+
{rows}
+--------+--------+--------+-----------+
"""


def listed(kind, count, cores, memory):
    return LISTING.format(kind=kind, rows="\n".join(f"| {n} | {cores} | {memory} GB | {(n + 1) % 16} |" for n in range(count)))


def test_a_container_sees_fewer_devices_than_the_instance_has(tmp_path):
    found = summary_of(tmp_path, listed("trn2.48xlarge", 1, 4, 96))
    assert found.instance_type == "trn2.48xlarge" and "header_contradicts_body" not in codes(found)
    assert because(found, "devices_missing").startswith("trn2.48xlarge has 16 such devices, 1 is listed")
    assert found.quantities["memory_total_bytes"].value == 96 * GIB, "only what is listed is counted"
    devices = [{"instance_type": "trn2.48xlarge", "neuron_device": 0, "nc_count": 4, "memory_size": 96 * GIB, "neuroncore_ids": [0, 1, 2, 3]}]
    found = summary_of(tmp_path, json.dumps(devices))
    assert found.instance_type == "trn2.48xlarge" and "devices_missing" in codes(found), "the type stands in each device"


@pytest.mark.parametrize(
    ("kind", "count", "cores", "memory", "words"),
    [
        (
            "inf2.48xlarge",
            12,
            2,
            32,
            ("degree 8: 3 replicas", "degree 16 leaves 8 idle", "degree 24 only for a model whose attention heads 24 divides"),
        ),
        ("trn1.32xlarge", 16, 2, 32, ("degree 16: 2 replicas", "degree 8: 4 replicas")),
        ("inf2.24xlarge", 6, 2, 32, ("degree 4: 3 replicas", "degree 8 leaves 4 idle", "degree 12 only")),
    ],
)
def test_which_tensor_parallel_degrees_use_all_cores(tmp_path, kind, count, cores, memory, words):
    said = summary_of(tmp_path, listed(kind, count, cores, memory)).reading.facts["tensor parallel"]
    assert all(word in said for word in words)
    for degree, replicas in re.findall(r"degree (\d+): (\d+) replicas", said):
        assert int(degree) * int(replicas) == count * cores
    for degree, idle in re.findall(r"degree (\d+) leaves (\d+) idle", said):
        assert count * cores % int(degree) == int(idle) > 0
    assert ("only for a model" in said) == (count * cores in (12, 24))


def test_a_small_instance_gets_no_advice_on_degrees(tmp_path):
    assert "tensor parallel" not in summary_of(tmp_path, listed("inf2.xlarge", 1, 2, 32)).reading.facts


# -- nvidia-smi -------------------------------------------------------------------------------

WINDOWS = """Wed Jun 24 10:17:56 2026
+-----------------------------------------------------------------------------------------+
| NVIDIA-SMI 610.62                 KMD Version: 610.62        CUDA UMD Version: 13.3     |
|-----------------------------------------+------------------------+----------------------+
| GPU  Name                  Driver-Model | Bus-Id          Disp.A | Volatile Uncorr. ECC |
|=========================================+========================+======================|
|   0  NVIDIA GeForce RTX 2080 ...  {model}  |   00000000:0C:00.0  On |                  N/A |
| 38%   44C    P2             97W /  250W |    {used}MiB /   8192MiB |    {share}%      Default |
|                                         |                        |                  N/A |
+-----------------------------------------+------------------------+----------------------+
"""


@pytest.mark.parametrize("model", ["WDDM", " TCC", "MCDM"])
def test_the_screen_of_windows_and_of_newer_drivers(tmp_path, model):
    found = summary_of(tmp_path, WINDOWS.format(model=model, used=1366, share=37).replace("\n", "\r\n").encode("utf-16"))
    assert found.busy_mean.value == pytest.approx(0.37) and found.quantities["memory_used_bytes"].value == 1366 * MIB
    assert found.reading.facts["driver"] == "610.62" and part(found, "0").name == "NVIDIA GeForce RTX 2080"


Q = """==============NVSMI LOG==============

Timestamp                                 : Wed Jun 24 10:17:56 2026
Driver Version                            : 610.62 [Deprecated; will be removed in CUDA 14.0. Use KMD Version instead]
KMD Version                               : 610.62

Attached GPUs                             : 1
GPU 00000000:0C:00.0
    Product Name                          : NVIDIA H200
    MIG Mode
        Current                           : {mig}
    MIG Device
        Index                             : 0
        Shared FB Memory Usage
            Total                         : 71424 MiB
            Used                          : 16925 MiB
            Free                          : 54499 MiB
    FB Memory Usage
        Total                             : 143771 MiB
        Used                              : {used} MiB
        Free                              : 126000 MiB
    Utilization
        GPU                               : {share}
"""


def test_memory_that_compute_instances_share_and_a_version_with_a_note(tmp_path):
    found = summary_of(tmp_path, Q.format(mig="Enabled", used=16959, share="N/A"))
    piece = part(found, "0/mig0")
    assert (piece.memory_used.value, piece.memory_total.value) == (16925 * MIB, 71424 * MIB)
    assert found.quantities["memory_used_bytes"].value == 16959 * MIB, "the slice's is part of the card's"
    assert found.reading.facts["driver"] == "610.62"


XML = "<nvidia_smi_log><timestamp>Fri Nov 20 10:00:00 2026</timestamp><gpu><product_name>NVIDIA L40S</product_name><fb_memory_usage><total>46068 MiB</total><used>{used} MiB</used></fb_memory_usage><utilization><gpu_util>{share} %</gpu_util></utilization></gpu></nvidia_smi_log>"
EMPTY = {
    "-q": lambda used, share: Q.format(mig="Disabled", used=used, share=f"{share} %"),
    "-q -x": lambda used, share: XML.format(used=used, share=share),
    "screen": lambda used, share: WINDOWS.format(model="WDDM", used=f"{used:4}", share=share),
    "dmon": lambda used, share: f"# gpu   sm    fb\n# Idx    %    MB\n    0  {share}  {used}\n",
    "exporter": lambda used, share: (
        f'nvidia_smi_utilization_gpu_ratio{{uuid="a"}} {share / 100}\nnvidia_smi_memory_used_bytes{{uuid="a"}} {used * MIB}\n'
    ),
    "DCGM": lambda used, share: f'DCGM_FI_DEV_FB_USED{{gpu="0",UUID="a"}} {used}\nDCGM_FI_DEV_GPU_UTIL{{gpu="0",UUID="a"}} {share}\n',
}


@pytest.mark.parametrize("form", EMPTY.values(), ids=EMPTY)
def test_all_busy_with_no_memory_in_use_is_no_load_in_any_form(tmp_path, form):
    for used in (0, 10):  # a context of CUDA takes more than that
        found = summary_of(tmp_path, form(used, 100))
        assert not found.busy_mean.known and "busy_without_memory" in codes(found)
    for used, share in ((4000, 100), (0, 60)):
        found = summary_of(tmp_path, form(used, share))
        assert found.busy_mean.value == pytest.approx(share / 100) and "busy_without_memory" not in codes(found)


def test_memory_of_processes_is_added_at_one_time(tmp_path):
    head = "timestamp, gpu_name, gpu_uuid, pid, process_name, used_gpu_memory [MiB]\n"
    row = "2026/07/03 22:22:{second}.377, NVIDIA H200, GPU-{gpu}, {pid}, python3, {used} MiB\n"
    moments = ((27, ((0, 1, 2194), (0, 2, 1170), (1, 3, 500))), (28, ((0, 1, 2194), (0, 2, 3000))))
    text = head + "".join(row.format(second=second, gpu=gpu, pid=pid, used=used) for second, all in moments for gpu, pid, used in all)
    found = summary_of(tmp_path, text)
    assert part(found, "0").memory_used.value == (2194 + 3000) * MIB and "added_over_processes" in codes(found)
    assert not found.busy_mean.known


def test_figures_of_whole_processes_are_no_samples(tmp_path):
    text = (
        "timestamp, gpu_name, gpu_uuid, pid, gpu_utilization [%], mem_utilization [%], max_memory_usage [MiB], time [ms]\n"
        "2026/07/03 22:22:27.394, NVIDIA H200, GPU-0, 10744, 97 %, 7 %, 14410 MiB, 41397 ms\n"
    )
    with pytest.raises(BadInput, match="accounted-apps"):
        summary_of(tmp_path, text)


def cards(stamp, count=4, moments=3):
    """Card i at 10 (i + 1) + k percent at moment k; no column says which is which."""
    return "timestamp, utilization.gpu [%], memory.used [MiB]\n" + "".join(
        f"{stamp(k, i)}, {10 * (i + 1) + k} %, {100 * (i + 1)} MiB\n" for k in range(moments) for i in range(count)
    )


def test_cards_that_only_their_stamps_tell_apart(tmp_path):
    found = summary_of(tmp_path, cards(lambda k, i: f"2026/11/20 10:00:0{k}.9{4 * i:02}"))
    assert found.samples == 3 and len(found.parts) == 4 and "devices_by_order" in codes(found)
    assert [round(entry.busy_mean.value, 6) for entry in found.parts] == [0.11, 0.21, 0.31, 0.41]
    assert found.quantities["memory_used_bytes"].value == 1000 * MIB


@pytest.mark.parametrize("steps", [(0.004,), (0.1,), (1.0,), (0.04, 0.04, 0.1)])
def test_one_card_at_any_pace_is_one_card(tmp_path, steps):
    times = itertools.accumulate((steps[n % len(steps)] for n in range(11)), initial=0.0)
    stamps = [f"2026/11/20 10:00:{time:06.3f}" for time in times]
    found = summary_of(tmp_path, cards(lambda k, i: stamps[k], count=1, moments=12))
    assert found.samples == 12 and len(found.parts) == 1 and "devices_by_order" not in codes(found)


def test_one_column_and_bare_numbers(tmp_path):
    assert summary_of(tmp_path, "utilization.gpu [%]\n10 %\n20 %\n60 %\n").busy_mean.value == pytest.approx(0.3)
    assert summary_of(tmp_path, "10\n20\n60\n", columns=("utilization.gpu",)).busy_mean.value == pytest.approx(0.3)
    with pytest.raises(BadInput):
        summary_of(tmp_path, "10\n20\n60\n")


def test_the_same_fields_as_json(tmp_path):
    rows = [
        {"timestamp": f"2026-11-20T10:00:0{n}Z", "index": g, "utilization.gpu": 10 * n + 50 * g, "memory.used": 100} for n in range(5) for g in (0, 1)
    ]
    found = summary_of(tmp_path, "".join(json.dumps(row) + "\n" for row in rows))
    assert [entry.busy_mean.value for entry in found.parts] == [pytest.approx(0.2), pytest.approx(0.7)] and found.span.value == 4
    screens = [
        {
            "hostname": "h",
            "query_time": f"2026-11-20T10:00:0{n}.123456",
            "gpus": [
                {"index": g, "uuid": f"GPU-{g}", "utilization.gpu": 10 * n + 50 * g, "memory.used": 100, "processes": [{"pid": 1}]} for g in (0, 1)
            ],
        }
        for n in range(5)
    ]
    found = summary_of(tmp_path, "\n".join(json.dumps(screen, indent=4) for screen in screens))
    assert [entry.busy_mean.value for entry in found.parts] == [pytest.approx(0.2), pytest.approx(0.7)] and found.span.value == pytest.approx(4)
    assert found.quantities["memory_used_bytes"].value == 200 * MIB, "MiB, as nvidia-smi has it"


def test_a_card_that_is_lost_or_has_no_memory_of_its_own(tmp_path):
    lost = WINDOWS.format(model="WDDM", used=1366, share=37).replace(
        "| 38%   44C    P2             97W /  250W |    1366MiB /   8192MiB |    37%", "|ERR!   ERR! ERR!  ERR! / ERR! |  GPU is lost |  ERR!"
    )
    found = summary_of(tmp_path, lost)
    assert len(found.parts) == 1 and not found.busy_mean.known and "memory_used_bytes" not in found.quantities
    shared = WINDOWS.format(model="WDDM", used=1366, share=37).replace("   1366MiB /   8192MiB", "Not Supported ")
    found = summary_of(tmp_path, shared)
    assert found.busy_mean.value == pytest.approx(0.37) and "memory_used_bytes" not in found.quantities


def test_times_of_the_day_past_midnight(tmp_path):
    rows = "".join(f" {time}      0    {share}\n" for time, share in (("23:59:50", 10), ("00:00:00", 20), ("00:00:20", 60)))
    found = summary_of(tmp_path, f"#Time        gpu    sm\n#HH:MM:SS    Idx     %\n{rows}")
    assert found.span.value == 30 and found.busy_mean.value == pytest.approx(0.3) and found.start_utc is None
    assert "times" not in found.missing


def test_a_card_without_the_counter_is_said_to_have_none(tmp_path):
    found = summary_of(tmp_path, "# gpu   pwr    sm\n# Idx     W     %\n" + "    0   295     -\n" * 5)
    assert not found.busy_mean.known and "MIG" in found.reading.facts["sm"]


# -- Prometheus, Grafana, CloudWatch ----------------------------------------------------------


def test_devices_cores_and_memory_stand_in_the_labels_of_one_series(tmp_path):
    text = (
        'neuron_hardware_info{neuron_device_count="1",neuron_device_memory_size="8589934592",neuroncore_per_device_count="4",instance_type=""} 1.0\n'
    )
    text += "".join(
        f'neuroncore_utilization_ratio{{neuroncore="{core}",runtime_tag="{tag}"}} {0.1 * core if tag == 7 else 0.0}\n'
        for tag in (7, 8)
        for core in range(4)
    )
    found = summary_of(tmp_path, text)
    assert found.busy_mean.value == pytest.approx(0.15) and found.quantities["memory_total_bytes"].value == 8 * GIB
    assert [entry.device for entry in found.parts if entry.core is None] == ["0"]


def test_mig_and_reasons_of_the_other_exporter(tmp_path):
    text = (
        'nvidia_smi_mig_mode_current{uuid="a"} 1\nnvidia_smi_memory_used_bytes{uuid="a"} 1e9\n'
        'nvidia_smi_clocks_event_reasons_active{uuid="a"} 4\nnvidia_smi_clocks_event_reasons_sw_power_cap{uuid="a"} 1\n'
    )
    found = summary_of(tmp_path, text)
    assert "mig_utilization_unknown" in codes(found) and "utilization_not_recorded" not in codes(found)
    assert because(found, "held_back").endswith("in 100% of 1 sample"), "the mask repeats what the single series say"
    mask = text.replace('nvidia_smi_clocks_event_reasons_sw_power_cap{uuid="a"} 1\n', "")
    assert because(summary_of(tmp_path, mask), "held_back").endswith("in 100% of 1 sample")


def test_errors_of_all_devices_are_counted(tmp_path):
    counts = [(0, 1), (6, 1), (14, 2), (15, 0)]
    devices = [{"neuron_device_index": n, "mem_ecc_uncorrected": count, "sram_ecc_uncorrected": 0, "mem_ecc_corrected": 0} for n, count in counts]
    reports = [json.loads(one) for one in REPORTS]
    for report in reports:
        report["system_data"] = {"neuron_hw_counters": {"neuron_devices": devices, "error": ""}}
    said = because(summary_of(tmp_path, "\n".join(map(json.dumps, reports))), "ecc_uncorrected")
    assert said == "4 uncorrected memory errors on 3 devices (device 14: 2, device 0: 1, device 6: 1), 0 of them while it was watched"
    text = "".join(f'DCGM_FI_DEV_XID_ERRORS{{gpu="{gpu}",UUID="{gpu}"}} {xid}\n' for gpu, xid in ((0, 0), (1, 79), (2, 94)))
    assert because(summary_of(tmp_path, text), "xid_error") == "GPU 2 reports XID 94; GPU 1 reports XID 79"


def test_how_many_cards_were_held_back(tmp_path):
    head = "timestamp, index, utilization.gpu [%], clocks_event_reasons.sw_power_cap\n"
    rows = "".join(f"2026/11/20 10:00:0{n}.000, {g}, 90 %, {'Active' if n < 4 - g else 'Not Active'}\n" for n in range(4) for g in range(3))
    assert because(summary_of(tmp_path, head + rows), "held_back") == "GPU 0 was held back by a power cap in 100% of 4 samples, and 2 others too"


@pytest.mark.parametrize(("share", "told"), [(0, False), (40, True)])
def test_an_idle_cards_reasons_for_a_low_clock_hold_nobody_back(tmp_path, share, told):
    head = "timestamp, index, utilization.gpu [%], clocks_event_reasons.sw_power_cap\n"
    found = summary_of(tmp_path, head + "".join(f"2026/11/20 10:00:0{n}.000, 0, {share} %, Active\n" for n in range(5)))
    assert ("held_back" in codes(found)) == told


def test_a_sample_without_labels_is_no_ones(tmp_path):
    text = '   DCGM_FI_DEV_GPU_UTIL{gpu="0",UUID="GPU-a"} 40\n   DCGM_FI_PROF_PIPE_TENSOR_ACTIVE 0\n   DCGM_FI_DEV_FAN_SPEED 0\n'
    found = summary_of(tmp_path, text)
    assert found.busy_mean.value == pytest.approx(0.4) and not part(found, "0").work.known
    assert because(found, "record_cut_off").startswith("DCGM_FI_PROF_PIPE_TENSOR_ACTIVE has no labels")


def test_an_xid_that_is_counted(tmp_path):
    text = 'DCGM_FI_DEV_GPU_UTIL{gpu="0",UUID="a"} 40\nDCGM_EXP_XID_ERRORS_COUNT{gpu="0",UUID="a",xid="79"} 2\n'
    assert because(summary_of(tmp_path, text), "xid_error") == "GPU 0 reports XID 79"


SERIES = [{"__name__": "DCGM_FI_DEV_GPU_UTIL", "gpu": str(gpu), "Hostname": "n"} for gpu in (0, 1)]


@pytest.mark.parametrize(
    "text",
    [
        "".join(
            json.dumps({"metric": one, "values": [10 * n + 10, 20 * n + 20], "timestamps": [1764547200000, 1764547215000]}) + "\n"
            for n, one in enumerate(SERIES)
        ),
        "".join(
            f'{{__name__="DCGM_FI_DEV_GPU_UTIL", gpu="{n}", Hostname="n"}} {(10 * n + 10) * (k + 1)} {1764547200000 + 15000 * k}\n'
            for k in range(2)
            for n in range(2)
        ),
        'sep=,\n"Time","DCGM_FI_DEV_GPU_UTIL{gpu=""0"", Hostname=""n""}","DCGM_FI_DEV_GPU_UTIL{gpu=""1"", Hostname=""n""}"\n'
        '"2025-12-01 00:00:00",10%,20\n"2025-12-01 00:00:15",20%,40\n',
    ],
    ids=["VictoriaMetrics", "promtool tsdb dump", "Grafana"],
)
def test_the_same_series_by_other_ways(tmp_path, text):
    found = summary_of(tmp_path, text)
    assert found.busy_mean.value == pytest.approx(0.225) and len(found.parts) == 2
    assert found.span.value == 15 and found.start_utc == "2025-12-01T00:00:00Z"


def test_a_cell_that_grafana_left_empty_is_absent(tmp_path):
    text = '"Time";"DCGM_FI_DEV_GPU_UTIL{gpu=""0""}"\n2026-11-20 10:00:00;50,5\n2026-11-20 10:01:00;\n2026-11-20 10:02:00;51,5\n'
    found = summary_of(tmp_path, text)
    assert found.busy_mean.value == pytest.approx(0.51)


def test_percent_added_over_gpus_is_no_share(tmp_path):
    points = [{"Timestamp": f"2026-11-20T10:0{n}:00Z", "Average": value, "Unit": "Percent"} for n, value in enumerate((350.0, 250.0, 0.0))]
    found = summary_of(tmp_path, json.dumps({"Label": "GPUUtilization", "Datapoints": points}))
    assert not found.busy_mean.known and "percent up to 350" in because(found, "not_a_mean")


def test_a_series_of_impossible_values_says_nothing(tmp_path):
    """30 samples, 3 of them above 100 %: the other 27 would be a mean of the calm ones."""
    shares = [500 if n % 10 == 9 else 20 for n in range(30)]
    text = "timestamp, index, utilization.gpu [%]\n" + "".join(f"2026/11/20 10:00:{n:02}.000, 0, {share} %\n" for n, share in enumerate(shares))
    found = summary_of(tmp_path, text)
    assert not found.busy_mean.known and "3 of 30 values are impossible" in found.busy_mean.why


# -- what is none, and is named ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ('time="2026-09-12T02:42:06Z" level=fatal msg="Failed to load MLA system information"\n', "found no device"),
        ("NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.\n", "driver does not answer"),
        ("Failed to initialize NVML: Driver/library version mismatch\n", "driver does not answer"),
        ("No devices were found\n", "no GPU"),
        ("bash: nvidia-smi: command not found\n", "not installed"),
        ('{"card0": {"Card series": "Instinct", "GPU use (%)": "99"}}', "AMD"),
        ("device,Temperature (Sensor edge) (C),GPU use (%)\ncard0,45.0,99\n", "AMD"),
        ("[0] GeForce GTX Titan X | 77°C,  96 % | 11848 / 12287 MB | python/52046(11821M)\n", "gpustat"),
        ('[{"device_name": "NVIDIA A10G", "temp": "60C", "gpu_util": "50%"}]', "nvtop"),
        ("  PID USER  DEV  TYPE  GPU        GPU MEM    CPU  HOST MEM Command\n", "nvtop"),
        ("/sys/devices/virtual/neuron_device/neuron0/neuron_core0/stats/other_info/flop_count/total:0\n", "sysfs"),
        ("11-20-2026 10:00:00 RAM 2448/7772MB GR3D_FREQ 45% cpu@45C\n", "tegrastats"),
        ("\tGPU0\tCPU Affinity\tNUMA Affinity\nGPU0\t X \t0-23\t0\n", "topology"),
        ('neuron_core_utilization_avg{core="0"} 42\n', "Neuron Observer"),
        ('"Time","GPU 0","GPU 1"\n"2026-11-20 10:00:00","45%","30%"\n', "Grafana"),
        ('{"status":"success","data":{"resultType":"matrix","result":[{"metric":{"gpu":"0"},"values":[[1764547200,"42"]]}]}}', "no names"),
        ("time,gpu0_util,gpu0_mem,gpu1_util,gpu1_mem\n2026-11-20 10:00:00,40,5000,20,100\n", "columns for each GPU"),
    ],
)
def test_what_no_monitor_wrote_is_named(tmp_path, text, what):
    with pytest.raises(BadInput) as refused:
        summary_of(tmp_path, text)
    assert what in refused.value.what and refused.value.next and "FILE" not in refused.value.next and "\n" not in str(refused.value)
