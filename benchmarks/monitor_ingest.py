"""How fast is a file of neuron-monitor read, and in how much memory? Beside plain loops over the same lines, in one run.

    python benchmarks/monitor_ingest.py [--mb 300]

Three hosts: an inf2 with one process, a trn1.32xlarge with one, and one with a process a core. Reports have the parts that real ones
have: loaded models and the host CPU by CPU are most of them. The file is made in a temporary folder and removed. CPU time of one core.
"""

from __future__ import annotations

import argparse
import gc
import json
import resource
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import orjson
from neuronfit.adopt import monitors

HOSTS = {"inf2.xlarge, 1 process": (1, 2, 4, 8), "trn1.32xlarge, 1 process": (1, 32, 128, 24), "trn1.32xlarge, 32 processes": (32, 32, 128, 12)}
"""Name -> processes, cores, vCPUs, loaded models a process."""

EACH_S = 1.000113182
REPORTS = 7
"""Different reports; the file repeats them."""


def report(number: int, processes: int, cores: int, cpus: int, models: int) -> dict[str, object]:
    """One report; core c of process p is busy where p is c or the only one."""

    def runtime(process: int) -> dict[str, object]:
        used = range(cores) if processes == 1 else [process]
        counters = {
            str(c): {"neuroncore_utilization": 40.25 + (number + c) % 50 if c in used else 0, "flops": 12345678901234 + c if c in used else 0}
            for c in range(cores)
        }
        nothing = {"constants": 0, "model_code": 0, "model_shared_scratchpad": 0, "runtime_memory": 0, "tensors": 0}
        parts = {"constants": 193986816, "model_code": 176285056, "model_shared_scratchpad": 0, "runtime_memory": 0, "tensors": 20971520}
        breakdown = {"application_memory": 20480, "constants": 0, "dma_buffers": 524288, "tensors": 0}
        model = {"host": 544768, "neuron_device": 61163072, "usage_breakdown": {"host": breakdown, "neuron_device": {**parts, "tensors": 0}}}
        loaded = [
            {
                "name": f"/tmp/neuroncc_compile_workdir/3379feee-78e0-4e01-b382-{process:06d}{n:06d}/model.MODULE_855895338905798074+c7db2df4.neff",
                "uuid": "497517d38ea045daa2a4fb50ffc5115f",
                "model_id": 10009 + n,
                "is_running": n == 0,
                "subgraphs": {"sg_00": {"memory_used_bytes": model, "neuroncore_index": 0, "neuron_device_index": 0}},
            }
            for n in range(models)
        ]
        latency = {f"p{q}": 0.01100001 + q * 1e-8 for q in (0, 1, 25, 50, 75, 99, 100)}
        return {
            "pid": 784315 + process,
            "address": "",
            "neuron_runtime_tag": str(535 + process),
            "error": "",
            "report": {
                "neuroncore_counters": {"period": EACH_S, "neuroncores_in_use": counters, "error": ""},
                "execution_stats": {
                    "period": EACH_S,
                    "error_summary": {"generic": 0, "numerical": 0, "transient": 0, "model": 0, "runtime": 0, "hardware": 0},
                    "execution_summary": {
                        "completed": 123,
                        "completed_with_err": 0,
                        "completed_with_num_err": 0,
                        "timed_out": 0,
                        "incorrect_input": 0,
                        "failed_to_queue": 0,
                    },
                    "latency_stats": {"total_latency": latency, "device_latency": latency},
                    "error": "",
                },
                "memory_used": {
                    "period": EACH_S,
                    "neuron_runtime_used_bytes": {
                        "host": 6997643264,
                        "neuron_device": 12519788544,
                        "usage_breakdown": {
                            "host": breakdown,
                            "neuroncore_memory_usage": {str(c): parts if c in used else nothing for c in range(cores)},
                        },
                    },
                    "loaded_models": loaded,
                    "error": "",
                },
                "neuron_runtime_vcpu_usage": {"period": EACH_S, "vcpu_usage": {"user": 42.01, "system": 12.34}, "error": ""},
            },
        }

    usage = {"user": 34.41, "nice": 0, "system": 27.96, "idle": 37.63, "io_wait": 0, "irq": 0, "soft_irq": 0}
    devices = max(1, cores // 2)
    return {
        "neuron_runtime_data": [runtime(process) for process in range(processes)],
        "system_data": {
            "neuron_hw_counters": {
                "period": EACH_S,
                "neuron_devices": [
                    {"neuron_device_index": n, "mem_ecc_corrected": 0, "mem_ecc_uncorrected": 0, "sram_ecc_uncorrected": 0, "sram_ecc_corrected": 0}
                    for n in range(devices)
                ],
                "error": "",
            },
            "vcpu_usage": {
                "period": EACH_S,
                "average_usage": usage,
                "usage_data": {str(n): usage for n in range(cpus)},
                "context_switch_count": 123456,
                "error": "",
            },
            "memory_info": {
                "period": EACH_S,
                "memory_total_bytes": 49345835008,
                "memory_used_bytes": 16042344448,
                "swap_total_bytes": 0,
                "swap_used_bytes": 0,
                "error": "",
            },
        },
        "instance_info": {"instance_name": "", "instance_id": "", "instance_type": "inf2.xlarge" if cores == 2 else "trn1.32xlarge", "error": ""},
        "neuron_hardware_info": {
            "neuron_device_type": "inferentia2" if cores == 2 else "trainium",
            "neuron_device_count": devices,
            "neuron_device_memory_size": 34359738368,
            "neuroncore_per_device_count": 2,
            "logical_neuroncore_config": 1,
            "error": "",
        },
    }


def table(path: Path) -> int:
    """Every row of the table, in batches."""
    return sum(len(batch) for batch in monitors.read(path))


def loop_json(path: Path) -> int:
    """What a simple tool does: parse each line and add up one number."""
    with open(path, "rb") as lines:
        return sum(len(json.loads(line)["neuron_runtime_data"]) for line in lines)


def loop_orjson(path: Path) -> int:
    """The same with the fastest parser."""
    with open(path, "rb") as lines:
        return sum(len(orjson.loads(line)["neuron_runtime_data"]) for line in lines)


def timed(work: Callable[[Path], object], path: Path, size: int) -> tuple[float, object]:
    gc.collect()
    start = time.process_time()
    answer = work(path)
    return size / (time.process_time() - start) / 1e6, answer


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mb", type=int, default=300, help="size of each file, MB")
    given = parser.parse_args()
    good = True
    for name, shape in HOSTS.items():
        lines = [orjson.dumps(report(number, *shape)) + b"\n" for number in range(REPORTS)]
        with tempfile.TemporaryDirectory() as folder:
            path, small = Path(folder) / "monitor.jsonl", Path(folder) / "small.jsonl"
            small.write_bytes(b"".join(lines))
            rounds = max(1, given.mb * 1_000_000 // sum(map(len, lines)))
            with open(path, "wb") as out:
                for _ in range(rounds):
                    out.writelines(lines)
            size = path.stat().st_size
            table(small), monitors.summarise(small)
            before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            rate, rows = timed(table, path, size)
            summed, summary = timed(monitors.summarise, path, size)
            more = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
            fast, _ = timed(loop_orjson, path, size)
            slow, _ = timed(loop_json, path, size)
        right = summary.samples == REPORTS * rounds and abs(summary.busy_mean.value - expected(shape)) < 1e-9
        print(f"{name}: {size / 1e6:,.0f} MB, {REPORTS * rounds:,} reports of {len(lines[0]) / 1e3:,.0f} kB, {rows:,} rows; CPU time of one core")
        print(f"  table                     {rate:8.0f} MB/s")
        print(f"  table and summary         {summed:8.0f} MB/s   busy {summary.busy_mean.value:.4f}, {'as computed by hand' if right else 'WRONG'}")
        print(f"  loop, orjson              {fast:8.0f} MB/s   parsing alone")
        print(f"  loop, json                {slow:8.0f} MB/s   parsing alone")
        print(f"  memory {more:.0f} MB more than after {REPORTS} reports")
        good = good and right and rate >= 150 and more < 200
    return 0 if good else 1


def expected(shape: tuple[int, int, int, int]) -> float:
    """Mean over reports and cores of the utilization that :func:`report` writes, as a fraction."""
    _, cores, _, _ = shape
    return sum(40.25 + (number + core) % 50 for number in range(REPORTS) for core in range(cores)) / REPORTS / cores / 100


if __name__ == "__main__":
    sys.exit(main())
