"""neuron-monitor, neuron-ls, neuron-top: the answer of every file is computed by hand beside it."""

import bz2
import gzip
import json
import lzma
import math

import pytest
from neuronfit.adopt import monitors
from neuronfit.errors import BadInput

GIB = 2**30


def saved(folder, content, name="file.txt"):
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode("utf-8"))
    return path


def summary_of(folder, content, **options):
    return monitors.summarise(saved(folder, content), **options)


def codes(summary):
    return {remark.code for remark in summary.remarks}


def part(summary, device, core=None):
    return next(entry for entry in summary.parts if (entry.device, entry.core) == (device, core))


def runtime(pid, shares, *, period=5.0, completed=10, latency=None, memory=None, **groups):
    """One process: core -> percent."""
    report = {
        "neuroncore_counters": {
            "period": period,
            "neuroncores_in_use": {core: {"neuroncore_utilization": share} for core, share in shares.items()},
            "error": "",
        },
        "execution_stats": {
            "period": period,
            "error_summary": {"generic": 0, "numerical": 0},
            "execution_summary": {"completed": completed, "completed_with_err": 0, "timed_out": 0},
            "latency_stats": {"total_latency": latency, "device_latency": None},
            "error": "",
        },
        "memory_used": {"period": period, "neuron_runtime_used_bytes": {"host": 1, "neuron_device": memory or 0}, "loaded_models": [], "error": ""},
    }
    report.update(groups)
    return {"pid": pid, "neuron_runtime_tag": "1", "error": "", "report": report}


def report(*runtimes, kind="inf2.xlarge", devices=1, each=2, lnc=1, system=None):
    return {
        "neuron_runtime_data": list(runtimes),
        "system_data": system or {},
        "instance_info": {"instance_type": kind, "error": ""},
        "neuron_hardware_info": {
            "neuron_device_count": devices,
            "neuron_device_memory_size": 32 * GIB,
            "neuroncore_per_device_count": each,
            "logical_neuroncore_config": lnc,
            "error": "",
        },
    }


def lines(reports):
    return "\n".join(json.dumps(entry) for entry in reports) + "\n"


TEN = [report(runtime(7, {"0": 10.0 * n, "1": 0.0})) for n in range(10)]
"""Core 0 at 0, 10, ... 90 %, core 1 idle: means 0.45 and 0, of the device 0.225."""


# -- neuron-monitor ---------------------------------------------------------------------------


def test_processes_are_added_core_by_core_and_never_averaged(tmp_path):
    latencies = [{"p50": 0.0035, "p99": 0.005}, {"p50": 0.0036, "p99": 0.067}]
    found = summary_of(
        tmp_path,
        lines(
            [
                report(
                    runtime(1, {"0": 30.0, "1": 0.0}, latency=latencies[0], memory=3 * GIB),
                    runtime(2, {"0": 0.0, "1": 10.0}, latency=latencies[1], memory=2 * GIB, completed=27),
                )
            ]
        ),
    )
    assert part(found, "0", "0").busy_mean.value == pytest.approx(0.30)
    assert part(found, "0", "1").busy_mean.value == pytest.approx(0.10)
    assert found.busy_mean.value == pytest.approx(0.20)  # over 4 listed values it would be 0.10
    assert found.busy_metric == "neuroncore_utilization"
    assert found.quantities["memory_used_bytes"].value == 5 * GIB
    assert found.quantities["memory_total_bytes"].value == 32 * GIB
    assert found.quantities["executions_completed"].value == 37
    assert found.quantities["executions_per_s"].value == pytest.approx(37 / 5)
    assert found.quantities["latency_p99_worst_s"].value == 0.067


@pytest.mark.parametrize(
    "wrap",
    [
        lines,
        lambda reports: json.dumps(reports, indent=1),
        lambda reports: "[\n" + ",\n".join(json.dumps(entry, indent=2) for entry in reports) + "\n]",
        lambda reports: "".join(json.dumps(entry, indent=1) for entry in reports),
        lambda reports: "".join(json.dumps(entry) for entry in reports),
        lambda reports: json.dumps({str(n): entry for n, entry in enumerate(reports)}),
        lambda reports: "".join(f"2026-10-25T02:00:{n:02}.123456789Z stdout F {json.dumps(entry)}\n" for n, entry in enumerate(reports)),
        lambda reports: "".join(
            json.dumps({"log": json.dumps(entry) + "\n", "time": f"2026-10-25T02:00:{n:02}.1Z"}) + "\n" for n, entry in enumerate(reports)
        ),
        lambda reports: json.dumps(
            {"events": [{"timestamp": 1792893600000 + 1000 * n, "message": json.dumps(entry)} for n, entry in enumerate(reports)]}
        ),
        lambda reports: "started neuron-monitor\n" + lines(reports) + "\n\n",
        lambda reports: lines(reports).replace("\n", "\r\n"),
        lambda reports: gzip.compress(lines(reports).encode()),
        lambda reports: gzip.compress(lines(reports[:5]).encode()) + gzip.compress(lines(reports[5:]).encode()),
        lambda reports: bz2.compress(lines(reports).encode()),
        lambda reports: lzma.compress(lines(reports).encode()),
        lambda reports: b"\xef\xbb\xbf" + lines(reports).encode(),
        lambda reports: ("\ufeff" + lines(reports)).encode("utf-16-le"),
    ],
    ids=[
        "lines",
        "array",
        "array of lines",
        "pretty, one after the other",
        "on one line",
        "keyed",
        "prefixed",
        "docker",
        "cloudwatch logs",
        "banner",
        "crlf",
        "gz",
        "two gz",
        "bz2",
        "xz",
        "bom",
        "utf-16",
    ],
)
def test_the_wrapping_does_not_change_the_numbers(tmp_path, wrap):
    found = summary_of(tmp_path, wrap(TEN))
    assert found.reading.format == "neuron_monitor"
    assert found.samples == 10
    assert part(found, "0", "0").busy_mean.value == pytest.approx(0.45)
    assert part(found, "0", "0").busy_p95.value == pytest.approx(0.855)  # 0.8 + 0.55 x 0.1, linear between order statistics
    assert part(found, "0", "0").idle.value == pytest.approx(0.1)
    assert found.busy_mean.value == pytest.approx(0.225)
    assert "record_cut_off" not in codes(found)


def test_times_are_sums_of_periods_or_the_wrappers(tmp_path):
    found = summary_of(tmp_path, lines(TEN))
    assert (found.reading.clock, found.span.value, found.start_utc) == ("periods", pytest.approx(50), None)
    found = summary_of(tmp_path, "".join(f"2026-10-25T02:00:{n:02}Z {json.dumps(entry)}\n" for n, entry in enumerate(TEN)))
    assert (found.reading.clock, found.span.value, found.start_utc) == ("epoch", pytest.approx(9), "2026-10-25T02:00:00Z")


def test_loaded_models_and_usage_by_cpu_are_skipped_without_changing_a_number(tmp_path):
    """Long lines are shortened before they are parsed; brackets in a name must not derail that."""
    name = "/tmp/x}]}}/model" * 30
    model = {"name": name, "subgraphs": {"sg_00": {"memory_used_bytes": {"host": 1, "neuron_device": 2}}}}
    usage = {"average_usage": {"user": 30.0, "system": 10.0}, "usage_data": {str(n): {"user": 1.0, "idle": 99.0} for n in range(200)}, "error": ""}
    entries = []
    for n in range(10):
        shares = {str(core): 10.0 * n if core == 0 else 0 for core in range(2)}
        entry = report(
            runtime(7, shares, memory=GIB),
            system={"vcpu_usage": usage, "memory_info": {"memory_used_bytes": 5, "memory_total_bytes": 9, "error": ""}},
        )
        for core in entry["neuron_runtime_data"][0]["report"]["neuroncore_counters"]["neuroncores_in_use"].values():
            core["flops"] = 10**12 if core["neuroncore_utilization"] else 0
        entry["neuron_runtime_data"][0]["report"]["memory_used"]["loaded_models"] = [model] * 20
        entry["neuron_runtime_data"][0]["report"]["memory_used"]["neuron_runtime_used_bytes"]["usage_breakdown"] = {
            "neuroncore_memory_usage": {
                "0": {"constants": 3, "model_code": 0, "model_shared_scratchpad": 0, "runtime_memory": 0, "tensors": 4},
                "1": {"constants": 0, "model_code": 0, "model_shared_scratchpad": 0, "runtime_memory": 0, "tensors": 0},
            }
        }
        entries.append(entry)
    compact = "\n".join(json.dumps(entry, separators=(",", ":")) for entry in entries)
    assert len(compact) > 10 * 6000
    for content in (compact, lines(entries)):
        found = summary_of(tmp_path, content)
        assert found.samples == 10 and "record_cut_off" not in codes(found)
        assert part(found, "0", "0").busy_mean.value == pytest.approx(0.45)
        assert part(found, "0", "1").busy_mean.value == 0
        assert part(found, "0", "0").work.value == pytest.approx(0.9e12)
        assert part(found, "0", "1").work.value == 0
        assert part(found, "0", "0").memory_used.value == 7
        assert not part(found, "0", "1").memory_used.known
        assert found.quantities["host_cpu_busy"].value == pytest.approx(0.4)
        assert found.quantities["host_memory_total_bytes"].value == 9


def test_an_error_blanks_its_own_group_only(tmp_path):
    broken = {"neuron_runtime_vcpu_usage": {"period": 5.0, "vcpu_usage": {"user": 0, "system": 0}, "error": "open /proc/1/stat: no such file"}}
    found = summary_of(tmp_path, lines([report(runtime(1, {"0": 50.0, "1": 50.0}, **broken))]))
    assert found.busy_mean.value == pytest.approx(0.5)
    counters = {"neuroncore_counters": {"period": 5.0, "neuroncores_in_use": {"0": {"neuroncore_utilization": 0.0}}, "error": "cannot read"}}
    found = summary_of(tmp_path, lines([report(runtime(1, {}, memory=GIB, **counters))]))
    assert not found.busy_mean.known and "group_error" in codes(found)
    assert found.quantities["memory_used_bytes"].value == GIB


def test_no_process_is_no_number_and_not_zero(tmp_path):
    found = summary_of(tmp_path, lines([report()] * 3))
    assert not found.busy_mean.known and "no_process_attached" in codes(found)
    assert "no process" in found.busy_mean.why
    assert found.quantities["memory_total_bytes"].value == 32 * GIB


def test_a_report_of_milliseconds_gives_memory_and_no_share(tmp_path):
    found = summary_of(tmp_path, lines([report(runtime(1, {"0": 0.0, "1": 0.0}, period=0.008, completed=0, memory=9 * GIB))]))
    assert not found.busy_mean.known and {"short_period", "no_workload_seen"} <= codes(found)
    assert found.quantities["memory_used_bytes"].value == 9 * GIB
    found = summary_of(tmp_path, lines([report(runtime(1, {"0": 0.0, "1": 0.0}, period=0.008)), report(runtime(1, {"0": 80.0, "1": 40.0}))]))
    assert found.busy_mean.value == pytest.approx(0.6)


def test_failed_executions_are_told_with_what_completed(tmp_path):
    stats = {
        "period": 5.0,
        "error_summary": {"generic": 2},
        "execution_summary": {"completed": 2},
        "latency_stats": {"total_latency": None},
        "error": "",
    }
    found = summary_of(tmp_path, lines([report(runtime(1, {"0": 1.0, "1": 1.0}, execution_stats=stats))]))
    remark = next(entry for entry in found.remarks if entry.code == "execution_errors")
    assert remark.because.startswith("2 executions failed with 2 completed")
    assert "latency_p99_worst_s" not in found.quantities


def test_a_line_cut_off_keeps_what_came_before_and_its_complete_groups(tmp_path):
    text = lines(TEN)
    found = summary_of(tmp_path, text[:-40])
    assert found.samples == 10 and "record_cut_off" in codes(found)
    stats = '{"neuron_runtime_data":[{"pid":1,"report":{"execution_stats":{"period":5.0,"error_summary":{"generic":2},"execution_summary":{"completed":2},"error":""},'
    cores = '"neuroncore_counters":{"period":5.0,"neuroncores_in_use":{"0":{"neuroncore_utilization":90.0},"1":{"neuroncore_util'
    found = summary_of(tmp_path, stats + cores)
    assert "execution_errors" in codes(found)
    assert not found.busy_mean.known, "one core of a list that was cut is not the list"


def test_a_writer_that_was_killed_and_started_again(tmp_path):
    found = summary_of(tmp_path, json.dumps(TEN[0])[:180] + "\n" + lines(TEN))
    assert part(found, "0", "0").busy_mean.value == pytest.approx(0.45)
    assert "record_cut_off" in codes(found)


def test_a_compressed_file_that_ends_early_is_read_so_far(tmp_path):
    many = lines([report(runtime(n, {"0": float(n % 7), "1": 50.0})) for n in range(3000)])
    found = summary_of(tmp_path, gzip.compress(many.encode())[:-500])
    assert 100 < found.samples < 3001 and "record_cut_off" in codes(found)
    assert part(found, "0", "1").busy_mean.value == pytest.approx(0.5)


def test_text_nan_null_and_negative_numbers(tmp_path):
    text = lines([report(runtime(1, {"0": 50.0, "1": 50.0})) for _ in range(6)]).split("\n")
    for line, value in ((1, "NaN"), (2, "-3.0"), (3, '"60.0"'), (4, "null")):
        text[line] = text[line].replace('"neuroncore_utilization": 50.0', f'"neuroncore_utilization": {value}', 1)
    found = summary_of(tmp_path, "\n".join(text))
    assert found.samples == 6
    assert part(found, "0", "0").busy_mean.value == pytest.approx((50 + 60 + 50) / 300)
    assert part(found, "0", "1").busy_mean.value == pytest.approx(0.5)
    assert "impossible_value" in codes(found)


def test_logical_cores_of_trainium2_and_the_physical_ones_below(tmp_path):
    counters = {
        str(core): {
            "neuroncore_utilization": float(core),
            "flops": 83.375e12,
            "v3d": {f"nc_v3.{2 * core}": {"neuroncore_utilization": 10.0}, f"nc_v3.{2 * core + 1}": {"neuroncore_utilization": 90.0}},
        }
        for core in range(64)
    }
    entry = report(
        runtime(1, {}, neuroncore_counters={"period": 1.0, "neuroncores_in_use": counters, "error": ""}),
        kind="trn2.48xlarge",
        devices=16,
        each=4,
        lnc=2,
    )
    found = summary_of(tmp_path, lines([entry] * 3))
    assert found.busy_mean.value == pytest.approx(0.315)  # mean of 0 .. 63 percent
    assert part(found, "15").busy_mean.value == pytest.approx(0.615)  # cores 60 to 63
    assert part(found, "0", "3").work_share.value == pytest.approx(0.5)  # 83.375 of 667 / 4 TFLOP/s
    assert "neuroncore_physical_utilization" in found.recorded


def test_pieces_that_are_no_json_are_read_for_their_pairs(tmp_path):
    text = (
        'batch 8\n"neuroncore_counters":{"period":1.0,"neuroncores_in_use":{"0":{"neuroncore_utilization":99.0,"effective_flops":34200000000000}\n'
        'batch 16\n{"neuroncore_utilization":100,"effective_flops":33250000000000},"1",\n'
        '{"period":1.0,"neuroncores_in_use":{"0":{"neuroncore_utilization":100,"effective_flops":33250000000000},"1"\n'
    )
    found = summary_of(tmp_path, text, instance_type="inf2.xlarge")
    core = part(found, "0", "0")
    assert core.busy_mean.value == pytest.approx(0.995) and core.work.value == pytest.approx(33.725e12)
    assert core.work_share.value == pytest.approx(0.355)  # of 95 TFLOP/s
    assert {"busy_is_not_work", "record_cut_off"} <= codes(found)


# -- its Prometheus form ----------------------------------------------------------------------


def scrape(values, tag="1", kind="inf1.xlarge"):
    labels = f'instance_type="{kind}",runtime_tag="{tag}"'
    return "".join(f'neuroncore_utilization_ratio{{{labels},neuroncore="{core}"}} {value}\n' for core, value in values.items())


def test_ratios_of_prometheus_and_a_core_that_is_missing(tmp_path):
    found = summary_of(tmp_path, "# TYPE x gauge\n" + scrape({0: 0.86, 1: 0.0, 2: 0.0}) + 'execution_errors_created{error_type="generic"} 1.67e+09\n')
    assert found.busy_mean.value == pytest.approx(0.215)
    assert (found.busy_mean.low, found.busy_mean.high) == (pytest.approx(0.215), pytest.approx(0.465))
    assert {"cores_missing", "single_sample"} <= codes(found) and "execution_errors" not in codes(found)
    found = summary_of(tmp_path, scrape({15: 0.0, 16: 0.0, 2: 0.0}, kind="trn1n.32xlarge") + "neuroncore_utilization_ratio{availab")
    assert not found.busy_mean.known and "3 of 32 cores" in found.busy_mean.why
    assert {"record_cut_off", "no_workload_seen"} <= codes(found)


def test_two_scrapes_give_a_rate_and_a_counter_may_restart(tmp_path):
    def one(count, errors):
        return (
            f'execution_status_total{{status_type="completed",instance_type="inf2.xlarge"}} {count}\nexecution_errors_total{{error_type="generic"}} {errors}\n'
            + scrape({0: 0.5, 1: 0.5}, kind="inf2.xlarge")
        )

    found = summary_of(tmp_path, one(100, 0) + one(160, 1) + one(10, 1))
    assert found.samples == 3
    assert found.quantities["executions_completed"].value == 70  # 60, then 10 since the restart
    assert found.quantities["executions_failed"].value == 1
    assert found.busy_mean.value == pytest.approx(0.5)


# -- neuron-ls and neuron-top -----------------------------------------------------------------

TABLE = """$ neuron-ls
instance-type: inf2.48xlarge
+--------+--------+--------+-----------+---------+--------+----------------+---------+
| NEURON | NEURON | NEURON | CONNECTED |   PCI   |  PID   |    COMMAND     | RUNTIME |
| DEVICE | CORES  | MEMORY |  DEVICES  |   BDF   |        |                | VERSION |
+--------+--------+--------+-----------+---------+--------+----------------+---------+
{rows}
+--------+--------+--------+-----------+---------+--------+----------------+---------+

| 99 | 2 | 32 GB | below the table |
"""


def test_a_row_without_a_number_belongs_to_the_device_above(tmp_path):
    rows = "\n".join(
        f"| {n} | 2 | 32 GB | {n - 1}, {n + 1} | 80:1e.0 | 31{n} | python serve.py | 2.27.0 |\n|  |  |  |  |  | 999 | neuron-ls -a | NA |"
        for n in range(12)
    )
    found = summary_of(tmp_path, TABLE.format(rows=rows))
    assert found.reading.facts["devices"] == "12 devices, 24 cores, 384 GiB"
    assert found.instance_type == "inf2.48xlarge"
    assert "neuron-ls" not in found.reading.facts["held by"] and "310" in found.reading.facts["held by"]
    assert "header_contradicts_body" not in codes(found) and not found.busy_mean.known


def test_a_header_that_contradicts_the_rows_sizes_nothing(tmp_path):
    found = summary_of(tmp_path, TABLE.format(rows="| 0 | 2 | 32 GB | | 80:1e.0 | | | |").replace("inf2.48", "trn2.48"))
    assert "header_contradicts_body" in codes(found) and found.instance_type is None
    assert found.quantities["memory_total_bytes"].value == 32 * GIB
    assert found.reading.facts["could be"] == "inf2.8xlarge, inf2.xlarge, trn1.2xlarge"


@pytest.mark.parametrize(
    "top", [lambda devices: devices, lambda devices: {"instance_type": "trn2.48xlarge", "ultraserver": None, "neuron_devices": devices}]
)
def test_neuron_ls_json_as_a_list_and_as_the_object_that_replaces_it(tmp_path, top):
    devices = [
        {
            "neuron_device": n,
            "nc_count": 4,
            "memory_size": 96 * GIB,
            "neuroncore_ids": [4 * n + k for k in range(4)],
            "connected_to": None,
            "neuron_processes": [],
        }
        for n in range(16)
    ]
    found = summary_of(tmp_path, json.dumps(top(devices)))
    assert found.reading.facts["devices"] == "16 devices, 64 cores, 1536 GiB"
    assert found.instance_type == ("trn2.48xlarge" if isinstance(top(devices), dict) else None)


def test_cores_in_use_of_a_top_screen(tmp_path):
    found = summary_of(
        tmp_path,
        "Total NeuronDevices: 16 NeuronCores: 64 NCGs: 64\nModels: 37 loaded, 0 running. NeuronCores: 37 used.\nModels: 41 loaded. NeuronCores: 41 used.\n",
    )
    assert found.reading.facts["cores used"] == "37, 41 of 64 (58%, 64%)"
    assert {"cores_not_loaded", "occupancy_varies", "first_generation"} <= codes(found)
    found = summary_of(
        tmp_path, "\x1b[2Jneuron-top\n NeuronCore Utilization\n        NC0   NC1\n ND0  [||| 50.00%] [ 30.00%]\n ND1  [ 0.00%] [100.00%]\n"
    )
    assert [part(found, str(n)).busy_mean.value for n in (0, 1)] == pytest.approx([0.4, 0.5])


# -- the table and the record -----------------------------------------------------------------


def test_the_table_has_six_columns_in_si(tmp_path):
    (batch,) = monitors.read(saved(tmp_path, lines(TEN[:1] + [report(runtime(7, {"0": 50.0, "1": 25.0}, memory=GIB))])))
    columns = batch.columns()
    assert list(columns) == ["time", "device", "core", "metric", "value", "unit"]
    rows = set(zip(*columns.values()))
    assert (10.0, "0", "1", "neuroncore_utilization", 0.25, "fraction") in rows
    assert (10.0, "", "", "memory_used_bytes", float(GIB), "bytes") in rows


def test_a_large_file_comes_in_batches_of_bounded_size(tmp_path):
    path = saved(tmp_path, lines(TEN) * 2000)
    sizes = [len(batch) for batch in monitors.read(path)]
    assert len(sizes) > 1 and max(sizes) < 70_000
    found = monitors.summarise(path)
    assert found.samples == 20_000
    assert part(found, "0", "0").busy_mean.value == pytest.approx(0.45)


def test_beyond_the_kept_values_percentiles_come_from_bins(tmp_path):
    import numpy as np
    from neuronfit.adopt.monitors.series import KEPT, Series
    from neuronfit.adopt.monitors.table import Key

    values = np.random.default_rng(0).beta(2, 5, 3 * KEPT)
    series = Series(Key("0", "", "gpu_kernel_active"))
    for piece in np.array_split(values, 7):
        series.add(piece)
    assert series.bins is not None and series.count == len(values)
    assert series.quantile(0.95) == pytest.approx(np.quantile(values, 0.95), abs=1.1e-4)
    assert math.isclose(series.mean, values.mean())


def test_what_is_no_monitors_file_is_refused_in_one_line(tmp_path):
    for content in (b"", bytes(range(256)) * 50, b'{"a": 1}', b"hello,world\n1,2\n", b"\x1f\x8bbroken"):
        with pytest.raises(BadInput, match="not a monitor's file") as caught:
            summary_of(tmp_path, content)
        assert "\n" not in str(caught.value)
    with pytest.raises(BadInput, match="cannot read the monitor's file"):
        monitors.summarise(tmp_path / "absent.csv")
    with pytest.raises(BadInput, match="unknown monitor format"):
        monitors.read(saved(tmp_path, "x"), "excel")


def test_recognition_does_not_look_at_the_name():
    head = lines(TEN).encode()
    assert {monitors.recognise(head[:65536], name) for name in ("a.csv", "b.prom", "")} == {"neuron_monitor"}
    assert monitors.recognise(gzip.compress(head), "x") == "neuron_monitor"


def test_reports_of_two_instances_in_one_file_are_said_to_be_mixed(tmp_path):
    one, other = report(runtime(1, {"0": 1.0, "1": 1.0})), report(runtime(1, {"0": 9.0, "1": 9.0}))
    one["instance_info"]["instance_id"], other["instance_info"]["instance_id"] = "i-1", "i-2"
    assert "several_instances" in codes(summary_of(tmp_path, lines([one, other])))
    assert "several_instances" not in codes(summary_of(tmp_path, lines([one, one])))


def test_percent_under_the_name_of_a_ratio(tmp_path):
    found = summary_of(tmp_path, scrape({0: 86.0, 1: 10.0, 2: 0.0, 3: 0.0}))
    assert found.busy_mean.value == pytest.approx(0.24) and "ratio_as_percent" in codes(found)


def test_standard_input(tmp_path, monkeypatch):
    import io
    import types

    monkeypatch.setattr("sys.stdin", types.SimpleNamespace(buffer=io.BytesIO(lines(TEN).encode())))
    found = monitors.summarise("-")
    assert found.samples == 10 and found.reading.source.name == "standard input" and len(found.reading.source.sha256) == 64


def test_cores_that_no_process_holds_are_idle_unless_the_report_was_cut(tmp_path):
    """neuron-monitor lists the cores in use: 2 of 32 at 48 % are 3 % of the instance."""
    entry = report(runtime(1, {"0": 48.0, "1": 48.0}), kind="trn1.32xlarge", devices=16)
    found = summary_of(tmp_path, lines([entry] * 2))
    assert found.busy_mean.value == pytest.approx(0.03) and "cores_not_used" in codes(found) and "cores_missing" not in codes(found)
    found = summary_of(tmp_path, lines([entry] * 2)[:-30])
    assert not found.busy_mean.known and "cores_missing" in codes(found)


@pytest.mark.parametrize(
    ("content", "what"),
    [
        ("", "empty"),
        ("<!DOCTYPE html><html></html>", "web page"),
        ("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 5\n", "Git LFS"),
        ("TDRV: no device\n$ neuron-monitor\n" + json.dumps({"neuron_runtime_data": [], "system_data": {}}), "log of the Neuron runtime"),
        ("==== ROCm System Management Interface ====\nGPU 0 55%\n", "rocm-smi"),
        ("procs -----------memory---------- ---swap--\n r b swpd\n 1 0 0\n", "vmstat"),
        ("NAME     CPU(cores)   CPU%   MEMORY(bytes)\nnode-a   1200m  30%  8000Mi\n", "kubectl"),
        (json.dumps({"request_throughput": 5.0}), "benchmark"),
        ("TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:17:03.97,5,6\n2023-11-16 18:17:04.97,5,6\n", "recorded traffic"),
    ],
)
def test_what_no_monitor_wrote_is_named(tmp_path, content, what):
    with pytest.raises(BadInput) as refused:
        summary_of(tmp_path, content)
    assert f"not a monitor's file: it is {what}" in refused.value.what or what in refused.value.what
    assert refused.value.next and "FILE" not in refused.value.next and "\n" not in str(refused.value)


def test_the_sentence_names_the_instance_that_the_devices_make(tmp_path):
    listing = [{"neuron_device": number, "nc_count": 2, "memory_size": 32 * GIB, "connected_to": []} for number in range(12)]
    assert summary_of(tmp_path, json.dumps(listing)).sentence.startswith("12 devices of inf2.48xlarge, ")
