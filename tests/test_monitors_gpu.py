"""nvidia-smi in every form, DCGM and other exporters, CloudWatch: numbers computed by hand, absent never zero."""

import json

import pytest
from neuronfit.adopt import monitors
from neuronfit.errors import BadInput

MIB, GIB = 2**20, 2**30
HEADER = "timestamp, index, name, utilization.gpu [%], memory.used [MiB], memory.total [MiB], power.draw [W]"


def summary_of(folder, content, **options):
    path = folder / "file"
    path.write_bytes(content if isinstance(content, bytes) else content.encode("utf-8"))
    return monitors.summarise(path, **options)


def codes(summary):
    return {remark.code for remark in summary.remarks}


def part(summary, device):
    return next(entry for entry in summary.parts if entry.device == device and entry.core is None)


def rows(values, *, index=0, name="NVIDIA L4", used="5000 MiB", start=0):
    return [f"2026/10/25 02:00:{start + n:02}.000, {index}, {name}, {value}, {used}, 23034 MiB, 70.00 W" for n, value in enumerate(values)]


# -- nvidia-smi, CSV --------------------------------------------------------------------------


def test_mean_p95_and_idle_time_of_a_series(tmp_path):
    found = summary_of(tmp_path, "\n".join([HEADER, *rows([f"{value} %" for value in (0, 0, 10, 20, 70)])]))
    only = part(found, "0")
    assert only.busy_metric == found.busy_metric == "gpu_kernel_active"
    assert only.busy_mean.value == pytest.approx(0.20)
    assert only.busy_median.value == pytest.approx(0.10)
    assert only.busy_p95.value == pytest.approx(0.60)  # 0.2 + 0.8 x 0.5
    assert only.idle.value == pytest.approx(0.4)
    assert only.memory_used.value == 5000 * MIB and only.memory_total.value == 23034 * MIB
    assert (found.span.value, found.start_utc, found.samples) == (4, "2026-10-25T02:00:00Z", 5)
    assert (
        found.sentence
        == "1 device (NVIDIA L4), 5 samples over 4 s; a kernel ran 20% of the time (p95 60%, idle in 40% of the samples); at most 4.88 GiB of 22.5 GiB of device memory in use."
    )


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text.replace(" %", "").replace(" MiB", "").replace(" W", ""),
        lambda text: text.replace("\n", "\r\n"),
        lambda text: ("\ufeff" + text).encode("utf-16-le"),
        lambda text: text.replace(", ", ";").replace(".00 W", ",00 W").replace("23034 MiB", "23.034 MiB").replace("02:00:", "02:00:"),
        lambda text: text.replace(", ", "\t"),
        lambda text: "\n".join('"' + line.replace(", ", '","') + '"' for line in text.split("\n")),
        lambda text: text.replace("5000 MiB", "4.8828125 GiB").replace("70.00 W", "70000 mW"),
        lambda text: (
            text.replace("utilization.gpu [%]", "utilization_gpu_pct")
            .replace("memory.used [MiB]", "memory_used_mib")
            .replace("power.draw [W]", "power_draw_w")
        ),
        lambda text: "nvidia-smi --loop=1\n\n" + text + "\n",
    ],
    ids=["no units", "crlf", "utf-16", "decimal comma", "tabs", "quoted", "other units", "a script's names", "prompt"],
)
def test_spelling_does_not_change_the_numbers(tmp_path, change):
    found = summary_of(tmp_path, change("\n".join([HEADER, *rows([f"{value} %" for value in (0, 0, 10, 20, 70)])])))
    assert found.reading.format == "nvidia_csv" and found.samples == 5
    only = part(found, "0")
    assert only.busy_mean.value == pytest.approx(0.20)
    assert only.memory_used.value == pytest.approx(5000 * MIB) and only.memory_total.value == pytest.approx(23034 * MIB)
    assert only.power.value == pytest.approx(70)


@pytest.mark.parametrize("word", ["[N/A]", "N/A", "[Not Supported]", "[Unknown Error]", "-", "", "nan", "ERR!"])
def test_a_word_is_absent_and_never_zero(tmp_path, word):
    found = summary_of(tmp_path, "\n".join([HEADER, *rows([word] * 3)]))
    assert not part(found, "0").busy_mean.known and not found.busy_mean.known
    assert "utilization_not_recorded" in codes(found)
    assert "busyness" in found.missing


def test_mig_has_no_utilization_and_says_what_has(tmp_path):
    text = "timestamp, index, utilization.gpu [%], memory.used [MiB], memory.total [MiB], mig.mode.current\n2026/10/25 02:00:00, 0, [N/A], 11125 MiB, 81559 MiB, Enabled"
    found = summary_of(tmp_path, text)
    assert "mig_utilization_unknown" in codes(found) and "utilization_not_recorded" not in codes(found)
    assert "DCGM_FI_PROF_GR_ENGINE_ACTIVE" in next(entry for entry in found.findings if entry.code == "mig_utilization_unknown").next


def test_a_hundred_percent_without_memory_is_left_out(tmp_path):
    text = "\n".join([HEADER, *rows(["100 %"], used="0 MiB"), HEADER, *rows(["9 %"], start=9)])
    found = summary_of(tmp_path, text)
    assert part(found, "0").busy_mean.value == pytest.approx(0.09)
    assert {"busy_without_memory", "header_repeated"} <= codes(found)


def test_devices_are_told_apart_and_a_cut_last_moment_is_left_out(tmp_path):
    lines = ["timestamp,gpu,index,memory.used,memory.total,power.draw"]
    lines += [f"2026-10-25T02:00:0{n}+08:00,{gpu}, 0, 4, 81559, {70 + gpu}.0" for n in range(5) for gpu in range(8)]
    lines += [f"2026-10-25T02:00:05+08:00,{gpu}, 0, 4, 81559, 700" for gpu in range(3)]
    found = summary_of(tmp_path, "\n".join(lines))
    assert len(found.parts) == 8 and {entry.samples for entry in found.parts} == {5}
    assert {"column_mislabelled", "last_sample_incomplete", "utilization_not_recorded"} <= codes(found)
    assert found.quantities["power_w"].value == pytest.approx(sum(range(70, 78)))
    assert found.quantities["memory_total_bytes"].value == 8 * 81559 * MIB
    assert found.start_utc == "2026-10-24T18:00:00Z"


def test_a_mislabelled_column_in_a_long_file(tmp_path):
    """The judgement is made once, on many rows, and holds for the rest."""
    lines = ["timestamp,gpu,index,memory.used,memory.total"]
    lines += [f"2026-10-25T02:{n // 60:02}:{n % 60:02}Z,{gpu},0,{1000 + gpu},81559" for n in range(300) for gpu in range(8)]
    found = summary_of(tmp_path, "\n".join(lines))
    assert [part(found, str(gpu)).memory_used.value for gpu in range(8)] == [(1000 + gpu) * MIB for gpu in range(8)]
    assert found.reading.remarks["column_mislabelled"].count == 1


def test_time_stamps_that_differ_by_a_millisecond_are_one_moment(tmp_path):
    lines = [HEADER] + [
        f"2026/10/25 02:00:0{n}.00{gpu}, {gpu}, NVIDIA L4, {gpu * 10} %, 5000 MiB, 23034 MiB, 70.00 W" for n in range(6) for gpu in range(8)
    ]
    found = summary_of(tmp_path, "\n".join(lines))
    assert found.samples == 6 and found.busy_mean.value == pytest.approx(0.35)


def test_a_header_that_is_missing(tmp_path):
    row = "2026/10/25 02:00:00.983, 0, NVIDIA GeForce RTX 3080, GPU-00000000-0000-0000-0000-000000000001, [N/A], [N/A], [N/A], 10240, 9029, 1211, [N/A], 54, [N/A], [N/A]"
    found = summary_of(tmp_path, row)
    assert {"header_missing", "many_values_missing", "utilization_not_recorded", "unit_assumed"} <= codes(found)
    assert part(found, "0").memory_total.value == 10240 * MIB and not part(found, "0").memory_used.known
    assert not found.busy_mean.known


def test_a_clock_that_goes_back_and_a_gap(tmp_path):
    times = ["02:59:56", "02:59:57", "02:59:58", "02:00:00", "02:00:01", "02:00:02", "02:30:02", "02:30:03"]
    found = summary_of(
        tmp_path, HEADER + "\n" + "\n".join(f"2026/10/25 {time}.000, 0, NVIDIA L4, 40 %, 5000 MiB, 23034 MiB, 70.00 W" for time in times)
    )
    assert {"clock_went_back", "gaps_in_time"} <= codes(found)
    assert found.span.value == 2 + 2 + 1800 + 1
    assert found.busy_mean.value == pytest.approx(0.4)


def test_impossible_shares_are_left_out(tmp_path):
    found = summary_of(tmp_path, "\n".join([HEADER, *rows(["50 %", "-1 %", "900 %", "70 %"])]))
    assert part(found, "0").busy_mean.value == pytest.approx(0.6) and "impossible_value" in codes(found)


def test_ratios_in_a_column_without_unit(tmp_path):
    text = "time,gpu_id,gpu_util,mem_used_mb\n" + "\n".join(
        f"{1792893600 + n}.5,{gpu},{0.25 + gpu / 10:.2f},5000" for n in range(100) for gpu in range(2)
    )
    found = summary_of(tmp_path, text)
    assert [part(found, str(gpu)).busy_mean.value for gpu in (0, 1)] == pytest.approx([0.25, 0.35])
    assert found.reading.remarks["unit_assumed"].count == 1


def test_names_of_older_drivers_and_throttling(tmp_path):
    header = "timestamp, gpu_name, gpu_bus_id, index, utilization.gpu [%], memory.used [MB], clocks_throttle_reasons.sw_power_cap, clocks_throttle_reasons.hw_slowdown"
    text = (
        header
        + "\n"
        + "\n".join(
            f"2019/03/01 10:00:0{n}.000, Tesla V100-SXM2-16GB, 00000000:00:1E.0, 0, 50 %, 8000 MB, {'Active' if n < 2 else 'Not Active'}, Not Active"
            for n in range(8)
        )
    )
    found = summary_of(tmp_path, text)
    assert next(remark.because for remark in found.remarks if remark.code == "held_back") == "GPU 0 was held back by a power cap in 25% of 8 samples"
    masked = text.replace("clocks_throttle_reasons.sw_power_cap, clocks_throttle_reasons.hw_slowdown", "clocks_event_reasons.active")
    masked = masked.replace("Not Active, Not Active", "0x0000000000000001").replace("Active, Not Active", "0x0000000000000020")
    assert "by heat in 25%" in next(remark.because for remark in summary_of(tmp_path, masked).remarks if remark.code == "held_back")


def test_a_running_mean_is_not_taken_for_samples(tmp_path):
    samples = [100 * (n % 3 == 0) for n in range(60)]
    means = [sum(samples[: n + 1]) / (n + 1) for n in range(60)]
    text = "timestamp,index,utilization.gpu,memory.used\n" + "\n".join(
        f"2026-10-25T02:00:{n:02}Z,0,{value:.4f},5000" for n, value in enumerate(means)
    )
    found = summary_of(tmp_path, text)
    assert "running_means" in codes(found)
    assert part(found, "0").busy_mean.value == pytest.approx(means[-1] / 100, abs=1e-6) and not part(found, "0").busy_p95.known
    raw = "timestamp,index,utilization.gpu,memory.used\n" + "\n".join(f"2026-10-25T02:00:{n:02}Z,0,{value},5000" for n, value in enumerate(samples))
    assert "running_means" not in codes(summary_of(tmp_path, raw))


def test_columns_that_call_themselves_means(tmp_path):
    text = "timestamp,cpu_percent_mean,gpu_utilization_mean,gpu_memory_used_mean,gpu_memory_free_mean,gpu_memory_total_mean\n"
    text += "2025-01-26 17:08:23,0.0,0.0,40000,6000,46068.0\n2025-01-26 17:08:33,20.0,80.0,40100,5900,46068.0\n"
    found = summary_of(tmp_path, text)
    assert found.busy_mean.value == pytest.approx(0.8) and not part(found, "0").busy_p95.known
    assert {"running_means", "hardware_open"} <= codes(found) and found.span.value == 10


# -- dmon, pmon -------------------------------------------------------------------------------

DMON = "# gpu    pwr  gtemp  mtemp     sm    mem    enc    dec   mclk   pclk\n# Idx      W      C      C      %      %      %      %    MHz    MHz\n"


def test_dmon_with_headers_that_come_again(tmp_path):
    block = DMON + "".join(
        f"    {gpu}    {60 + gpu}     50      -     {20 + 10 * gpu}      5      0      0   6251   2040\n" for _ in range(5) for gpu in range(2)
    )
    found = summary_of(tmp_path, block * 3)
    assert found.samples == 15 and [part(found, str(gpu)).busy_mean.value for gpu in (0, 1)] == pytest.approx([0.2, 0.3])
    assert found.quantities["power_w"].value == pytest.approx(121) and found.reading.clock == "assumed"
    assert found.span.grade.value == "estimated" and "memory_temperature_c" not in found.recorded
    dated = block.replace("# gpu", "#Date       Time        gpu", 1).replace("# Idx", "#YYYYMMDD   HH:MM:SS    Idx", 1)
    dated = "\n".join(line if line.startswith("#") else f" 20261025   02:00:{n:02}  {line}" for n, line in enumerate(dated.split("\n")) if line)
    assert summary_of(tmp_path, dated).reading.clock == "epoch"


def test_a_video_job_is_told(tmp_path):
    found = summary_of(tmp_path, DMON + "    0     97     44      -      7      3    100      0   7500   2040\n" * 5)
    assert "encoder_only" in codes(found) and found.busy_mean.value == pytest.approx(0.07)


def test_pmon_adds_processes_of_a_device(tmp_path):
    text = "# gpu        pid  type    sm   mem   enc   dec   command\n# Idx          #   C/G     %     %     %     %   name\n"
    text += (
        "    0       1234     C    30     5     -     -   python\n    0       1235     C    25     5     -     -   python\n    1          -     -     -     -     -     -   -\n"
        * 6
    )
    found = summary_of(tmp_path, text)
    assert found.samples == 6 and part(found, "0").busy_mean.value == pytest.approx(0.55)
    assert not part(found, "1").busy_mean.known and not found.busy_mean.known
    assert {"added_over_processes", "no_process_attached"} <= codes(found)


# -- XML, -q, the table -----------------------------------------------------------------------

XML = """<?xml version="1.0" ?>
<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v12.dtd">
<nvidia_smi_log>
 <timestamp>Sun Oct 25 02:00:0{second} 2026</timestamp><driver_version>550.54.15</driver_version><attached_gpus>2</attached_gpus>
 <gpu id="00000000:00:1E.0"><product_name>NVIDIA A100-SXM4-80GB</product_name>
  <mig_mode><current_mig>Enabled</current_mig></mig_mode>
  <mig_devices>
   <mig_device><index>0</index><fb_memory_usage><total>19968 MiB</total><used>12 MiB</used></fb_memory_usage></mig_device>
   <mig_device><index>1</index><fb_memory_usage><total>19968 MiB</total><used>13 MiB</used></fb_memory_usage></mig_device>
  </mig_devices>
  <fb_memory_usage><total>81920 MiB</total><reserved>500 MiB</reserved><used>50 MiB</used><free>81370 MiB</free></fb_memory_usage>
  <utilization><gpu_util>N/A</gpu_util></utilization>
  <ecc_errors><volatile><sram_correctable>0</sram_correctable><dram_uncorrectable>3</dram_uncorrectable></volatile><aggregate><dram_uncorrectable>99</dram_uncorrectable></aggregate></ecc_errors>
  <{power}><power_draw>67.03 W</power_draw><current_power_limit>500.00 W</current_power_limit></{power}>
 </gpu>
</nvidia_smi_log>
"""


@pytest.mark.parametrize("power", ["power_readings", "gpu_power_readings"])
def test_slices_are_shown_and_not_added_to_their_card(tmp_path, power):
    found = summary_of(tmp_path, XML.format(second=0, power=power))
    assert found.quantities["memory_used_bytes"].value == 50 * MIB
    assert found.quantities["memory_total_bytes"].value == 80 * GIB
    assert found.quantities["power_w"].value == pytest.approx(67.03)
    assert part(found, "0/mig1").memory_used.value == 13 * MIB
    assert {"mig_utilization_unknown", "devices_missing", "ecc_uncorrected", "single_sample"} <= codes(found)
    assert "3 uncorrected" in next(remark.because for remark in found.remarks if remark.code == "ecc_uncorrected")


def test_several_documents_in_a_file_and_a_last_one_that_is_cut(tmp_path):
    found = summary_of(tmp_path, "".join(XML.format(second=n, power="power_readings") for n in range(4))[:-100])
    assert found.samples == 3 and found.span.value == 2 and "record_cut_off" in codes(found)


def test_q_text(tmp_path):
    text = """
==============NVSMI LOG==============

Timestamp                                 : Sun Oct 25 02:00:00 2026
Driver Version                            : 550.54.15
Attached GPUs                             : 2
GPU 00000000:00:1E.0
    Product Name                          : NVIDIA L4
    FB Memory Usage
        Total                             : 23034 MiB
        Used                              : 1000 MiB
    BAR1 Memory Usage
        Used                              : 1 MiB
    Utilization
        Gpu                               : 37 %
    Clocks Event Reasons
        SW Power Cap                      : Active
        HW Slowdown                       : Not Active
            HW Thermal Slowdown           : Not Active
    GPU Power Readings
        Power Draw                        : 71.50 W
        Current Power Limit               : 72.00 W
GPU 00000000:00:1F.0
    Product Name                          : NVIDIA L4
    Utilization
        Gpu                               : 41 %
"""
    found = summary_of(tmp_path, text)
    assert [part(found, device).busy_mean.value for device in "01"] == pytest.approx([0.37, 0.41])
    assert part(found, "0").memory_used.value == 1000 * MIB and part(found, "0").power.value == 71.5
    assert "held_back" in codes(found)


def test_the_plain_table_and_its_first_percentage(tmp_path):
    text = """Fri Mar 27 10:31:18 2026
+-----------------------------------------------------------------------------------------+
| NVIDIA-SMI 580.95.05              Driver Version: 580.95.05      CUDA Version: 13.0     |
+-----------------------------------------+------------------------+----------------------+
| GPU  Name                 Persistence-M | Bus-Id          Disp.A | Volatile Uncorr. ECC |
| Fan  Temp   Perf          Pwr:Usage/Cap |           Memory-Usage | GPU-Util  Compute M. |
|=========================================+========================+======================|
|   0  NVIDIA GeForce RTX 3080        Off |   00000000:09:00.0  On |                  N/A |
| 50%   41C    P8             25W /  320W |   18307MiB /  20480MiB |     31%      Default |
+-----------------------------------------+------------------------+----------------------+
|   1  NVIDIA A100 80GB PCIe          On  |   00000000:0A:00.0 Off |                    2 |
| N/A   46C    P3             44W /  320W |   19534MiB /  20480MiB |      N/A      Default |
+-----------------------------------------+------------------------+----------------------+
"""
    found = summary_of(tmp_path, text)
    assert part(found, "0").busy_mean.value == pytest.approx(0.31) and not part(found, "1").busy_mean.known
    assert part(found, "1").memory_used.value == 19534 * MIB and found.reading.version == "580.95.05"
    assert {"single_sample", "ecc_uncorrected"} <= codes(found)


def test_a_version_that_points_elsewhere_is_no_version(tmp_path):
    text = 'NVIDIA-SMI version  : 610.62\nDRIVER version      : Deprecated, see "KMD version" instead\nCUDA version        : Deprecated, see "CUDA UMD version" instead\nKMD version         : 610.62\nCUDA UMD version    : 13.3\n'
    found = summary_of(tmp_path, text)
    assert found.reading.facts["driver"] == "610.62" and found.reading.facts["CUDA"] == "13.3"


# -- DCGM and other exporters -----------------------------------------------------------------


def test_marks_for_not_supported_are_absent(tmp_path):
    text = "".join(
        f'DCGM_FI_DEV_MEMORY_TEMP{{gpu="{n}", UUID="GPU-{n}"}} {value}\n'
        for n, value in enumerate((9223372036854775794, 140737488355328, 2147483632, 60))
    )
    found = summary_of(tmp_path, text + 'DCGM_FI_DEV_GPU_UTIL{gpu="3"} NaN\nDCGM_FI_DEV_FB_USED{gpu="3"} +Inf\n')
    assert [row for batch in monitors.read(tmp_path / "file") for row in batch.value] == [60.0]
    assert found.reading.remarks["not_supported"].count == 3


def test_activity_of_exactly_zero_on_a_card_that_works(tmp_path):
    text = 'DCGM_FI_PROF_DRAM_ACTIVE{gpu="0"} 0.000000\nDCGM_FI_PROF_GR_ENGINE_ACTIVE{gpu="0"} 0.000000\nDCGM_FI_DEV_POWER_USAGE{gpu="0"} 167.362\nDCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION{gpu="0"} 129931554972\n'
    found = summary_of(tmp_path, text)
    assert "profiling_counters_stopped" in codes(found) and not found.busy_mean.known
    assert found.quantities["energy_since_start_j"].value / 3.6e6 == pytest.approx(36.09, abs=0.01)
    idle = text.replace("167.362", "25.0")
    assert summary_of(tmp_path, idle).busy_mean.value == 0


def test_a_profiling_share_above_one_is_percent_and_memory_must_add_up(tmp_path):
    found = summary_of(
        tmp_path,
        'DCGM_FI_PROF_SM_ACTIVE{gpu="0"} 65\nDCGM_FI_DEV_FB_USED{gpu="0"} 4096\nDCGM_FI_DEV_FB_FREE{gpu="0"} 8192\nDCGM_FI_DEV_FB_TOTAL{gpu="0"} 49152\nDCGM_FI_DEV_XID_ERRORS{gpu="0"} 5\n',
    )
    assert found.busy_mean.value == pytest.approx(0.65) and found.busy_metric == "gpu_sm_active"
    assert {"ratio_as_percent", "memory_does_not_add_up", "xid_error"} <= codes(found)


def test_units_of_each_exporter(tmp_path):
    ratio = 'nvidia_smi_utilization_gpu_ratio{uuid="u"} 0.09\nnvidia_smi_memory_used_bytes{uuid="u"} 1.048576e+09\nnvidia_smi_clocks_current_sm_clock_hz{uuid="u"} 2.52e+09\nnvidia_smi_command_exit_code 0\n'
    percent = 'DCGM_FI_DEV_GPU_UTIL{gpu="0"} 9\nDCGM_FI_DEV_FB_USED{gpu="0"} 1000\nDCGM_FI_DEV_SM_CLOCK{gpu="0"} 2520\n'
    plain = 'nvidia_smi_utilization_gpu{index="0"} 9\nnvidia_smi_memory_used{index="0"} 1000\nnvidia_smi_clocks_current_sm{index="0"} 2520\n'
    for text in (ratio, percent, plain):
        found = summary_of(tmp_path, text)
        assert len(found.parts) == 1 and found.busy_mean.value == pytest.approx(0.09)
        assert part(found, "0").memory_used.value == 1000 * MIB
        assert {
            key.metric: entry for batch in monitors.read(tmp_path / "file") for key, entry in zip((batch.keys[n] for n in batch.key), batch.value)
        }["sm_clock_hz"] == pytest.approx(2.52e9)


def test_eight_gpus_in_seven_slices_each(tmp_path):
    lines = []
    for gpu in range(8):
        lines.append(f'DCGM_FI_DEV_FB_USED{{gpu="{gpu}",modelName="NVIDIA A100-SXM4-80GB",Hostname="n"}} {1000 * (gpu + 1)}')
        for part_id in range(7):
            labels = f'gpu="{gpu}",modelName="NVIDIA A100-SXM4-80GB",GPU_I_PROFILE="1g.10gb",GPU_I_ID="{7 + part_id}",Hostname="n"'
            lines += [f"DCGM_FI_PROF_GR_ENGINE_ACTIVE{{{labels}}} 0.{part_id + 1}", f"DCGM_FI_DEV_FB_USED{{{labels}}} 100"]
    found = summary_of(tmp_path, "\n".join(lines))
    assert len(found.parts) == 8 * 8
    assert found.quantities["memory_used_bytes"].value == 36000 * MIB
    assert part(found, "3/mig9").busy_mean.value == pytest.approx(0.3)
    assert not found.busy_mean.known and "mig_slices_apart" in codes(found)


def test_a_gpu_shared_by_pods_is_one_reading(tmp_path):
    text = "".join(f'DCGM_FI_DEV_GPU_UTIL{{gpu="0",pod="{pod}"}} {value}\n' for value in (10, 20, 60) for pod in "xy")
    found = summary_of(tmp_path, text)
    assert found.samples == 3 and found.busy_mean.value == pytest.approx(0.3)


def test_tensor_activity_is_what_can_be_compared(tmp_path):
    text = 'DCGM_FI_DEV_GPU_UTIL{gpu="0"} 99\nDCGM_FI_PROF_PIPE_TENSOR_ACTIVE{gpu="0"} 0.25\n'
    found = summary_of(tmp_path, text)
    assert part(found, "0").work_share.value == 0.25 and part(found, "0").work_metric == "gpu_tensor_active"
    assert "busy_is_not_work" in codes(found)
    answer = {
        "status": "success",
        "data": {
            "resultType": "matrix",
            "result": [{"metric": {"__name__": "DCGM_FI_DEV_GPU_UTIL", "gpu": "0"}, "values": [[1792893600 + n, str(10 * n)] for n in range(5)]}],
        },
    }
    found = summary_of(tmp_path, json.dumps(answer))
    assert found.busy_mean.value == pytest.approx(0.2) and found.span.value == 4


# -- CloudWatch -------------------------------------------------------------------------------


def test_cloudwatch_means_and_what_is_no_mean(tmp_path):
    points = [{"Timestamp": f"2026-10-25T02:0{n}:00Z", "Average": 20.0 + n, "Unit": "Percent"} for n in range(5)]
    found = summary_of(tmp_path, json.dumps({"Label": "nvidia_smi_utilization_gpu", "Datapoints": points[::-1]}))
    assert found.busy_mean.value == pytest.approx(0.22) and found.span.value == 240 and "values_are_means" in codes(found)
    most = {
        "MetricDataResults": [{"Id": "m1", "Label": "nvidia_smi_utilization_gpu 0 Maximum", "Timestamps": ["2026-10-25T02:00:00Z"], "Values": [90.0]}]
    }
    found = summary_of(tmp_path, json.dumps(most, indent=1))
    assert not found.busy_mean.known and "not_a_mean" in codes(found)


def test_embedded_metrics_of_neuroncores(tmp_path):
    lines = [
        {
            "_aws": {"Timestamp": 1792893600000 + 60000 * n, "CloudWatchMetrics": []},
            "InstanceType": "inf2.xlarge",
            "NeuronDevice": "device0",
            "NeuronCore": f"core{core}",
            "node_neuroncore_utilization": 10.0 * (core + 1),
        }
        for n in range(5)
        for core in range(2)
    ]
    found = summary_of(tmp_path, "\n".join(map(json.dumps, lines)))
    assert found.busy_mean.value == pytest.approx(0.15) and found.instance_type == "inf2.xlarge" and found.span.value == 240


def test_rows_without_header_that_carry_their_units(tmp_path):
    """``--format=csv,noheader``: a cell in percent and two in MiB say what they are."""
    found = summary_of(tmp_path, "\n".join(f"{value} %, 1000 MiB, 23034 MiB" for value in (10, 20, 60)))
    assert part(found, "0").busy_mean.value == pytest.approx(0.3) and "header_missing" in codes(found)
    assert part(found, "0").memory_used.value == 1000 * MIB and part(found, "0").memory_total.value == 23034 * MIB


def test_a_file_of_two_tools_is_read_as_the_first(tmp_path):
    pmon = "# gpu        pid  type    sm   mem   enc   dec   command\n# Idx          #   C/G     %     %     %     %   name\n    0       1234     C    30     5     -     -   python\n"
    found = summary_of(tmp_path, pmon * 2 + DMON + "    0     97     44      -      7      3    100      0   7500   2040\n")
    assert found.reading.format == "nvidia_pmon" and part(found, "0").busy_mean.value == pytest.approx(0.3)


def test_a_column_of_numbers_that_cannot_be_read_stops_nothing(tmp_path):
    found = summary_of(tmp_path, "\n".join([HEADER, *rows(["50 %", "%%", "1e999 %", "0x1G", "70 %"])]))
    assert part(found, "0").busy_mean.value == pytest.approx(0.6) and found.samples == 5


def test_memory_in_use_is_the_most_and_power_the_mean(tmp_path):
    text = "timestamp, index, memory.used [MiB], power.draw [W]\n" + "\n".join(
        f"2026/10/25 02:00:0{n}, 0, {used} MiB, {power} W" for n, (used, power) in enumerate(((100, 60), (900, 80), (200, 70)))
    )
    found = summary_of(tmp_path, text)
    assert part(found, "0").memory_used.value == 900 * MIB and part(found, "0").power.value == pytest.approx(70)


HEADLESS = "\n".join(
    f"2026/11/20 10:00:{second:02}.000, {gpu}, NVIDIA L4, {30 + 10 * gpu}, {8000 + gpu}, 23034, 50.25" for second in range(6) for gpu in (0, 1)
)


def test_columns_of_a_file_without_header_can_be_said(tmp_path):
    path = tmp_path / "gpu.csv"
    path.write_text(HEADLESS)
    assert "header_missing" in codes(monitors.summarise(path)) and not monitors.summarise(path).busy_mean.known
    fields = ("timestamp", "index", "name", "utilization.gpu", "memory.used", "memory.total", "power.draw")
    said = monitors.summarise(path, columns=fields)
    assert said.busy_mean.value == pytest.approx(0.35) and said.quantities["memory_used_bytes"].value == 16001 * 2**20
    with pytest.raises(BadInput, match="another number of columns"):
        monitors.summarise(path, columns=fields[:-1])


def test_processes_listed_with_their_memory_have_a_header(tmp_path):
    said = summary_of(
        tmp_path,
        "timestamp, gpu_name, gpu_uuid, pid, process_name, used_gpu_memory [MiB]\n2026/11/20 10:00:00.000, NVIDIA A10G, GPU-0, 1, python3, 18000 MiB\n",
    )
    assert said.quantities["memory_used_bytes"].value == 18000 * 2**20 and not codes(said) & {"header_missing"} and not said.busy_mean.known


def test_memory_of_dcgm_is_used_and_free_together(tmp_path):
    names = {"DCGM_FI_DEV_GPU_UTIL": 90, "DCGM_FI_DEV_FB_USED": 40000, "DCGM_FI_DEV_FB_FREE": 5000, "DCGM_FI_DEV_FB_RESERVED": 1068}
    said = summary_of(
        tmp_path, "".join(f'{name}{{gpu="0",UUID="GPU-0",exported_pod="a"}} {value} 1763632800123\n' for name, value in names.items()) + "# EOF\n"
    )
    assert part(said, "0").memory_total.value in (45000 * 2**20, 46068 * 2**20)
    assert part(said, "0").memory_total.why.startswith("used")


def test_a_long_table_of_cloudwatch_has_a_value_a_row(tmp_path):
    """What procstat and mem write into the same table is about the host."""
    head = "Timestamp,Namespace,MetricName,index,pid,exe,Average,Maximum,Unit\n"
    rows_ = "".join(
        f"2026-11-20T10:{minute:02}:00Z,CWAgent,nvidia_smi_utilization_gpu,{gpu},,,{20 + minute + 10 * gpu},99,Percent\n"
        f"2026-11-20T10:{minute:02}:00Z,CWAgent,procstat_cpu_usage,,42,python3,180.5,220,Percent\n"
        for minute in range(6)
        for gpu in (0, 1)
    )
    said = summary_of(tmp_path, head + rows_)
    assert part(said, "0").busy_mean.value == pytest.approx(0.225) and part(said, "1").busy_mean.value == pytest.approx(0.325)
    assert said.samples == 6 and "values_are_means" in codes(said)
