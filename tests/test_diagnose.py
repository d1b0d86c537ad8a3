"""Logs: what they mean, whatever wraps them, and nothing private in what is shown."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import re
import tracemalloc
from pathlib import Path

import example_questions
import numpy as np
import pytest
from neuronfit.catalog import compiler_codes
from neuronfit.diagnose import Diagnosis, diagnose, meaning, reading
from neuronfit.diagnose.cause import amount, operators
from neuronfit.diagnose.evidence import adopt, row
from neuronfit.diagnose.private import masked
from neuronfit.diagnose.scan import BLOCK, Searcher, clean, scan
from neuronfit.errors import BadInput, WaitingForEvidence
from neuronfit.record import Compile

LOGS = Path(__file__).parent / "data" / "logs"


def said(text: str | bytes) -> Diagnosis:
    return diagnose(io.BytesIO(text if isinstance(text, bytes) else text.encode()))


# -- whole logs -------------------------------------------------------------------------------

EXPECTED = {
    "compile_succeeded.log": ("success", "compile", "compile_succeeded", "compile_succeeded", r"73 s"),
    "library_prints_a_wrong_time.log": ("success", "compile", "compile_succeeded", "compile_succeeded", r"251\.6 s"),
    "operator_with_code.log": ("failed", "compile", "NCC_EVRF001", "unsupported_operator", r"cholesky.*exit status is 70"),
    "instruction_limit_after_other_graphs.log": (
        "failed",
        "compile",
        "XTP003",
        "instruction_limit",
        r"12\.50 million .* 2\.5 times the limit.*1 other compilation",
    ),
    "device_memory_interleaved.log": (
        "failed",
        "load",
        "NRT_RESOURCE",
        "device_memory",
        r"96\.500MB more for tensors .*15\.900GB.*0:0, 1:1.*tensors 14\.310GB \(90 %\)",
    ),
    "glued_threads_old_runtime.log": ("failed", "load", "NRT_UNSUPPORTED_NEFF_VERSION", "neff_version", r"features 0x100"),
    "no_device.log": ("environment", "environment", "no_device", "device_absent", r"No Neuron device"),
    "compiled_but_no_driver.log": ("environment", "execute", "driver_missing", "driver_absent", r"Compiled, but not run"),
    "killed.log": ("failed", "compile", "killed", "host_memory", r"building context_encoding_model.*1 other compilation"),
    "falls_back_to_cpu.log": ("failed", "compile", "worker_ended", "compiler_crash", r"falls back to the CPU.*100 % .* does not mean"),
    "three_percentages.log": (
        "partial",
        "compile",
        "mostly_cpu",
        "partial_support",
        r"10 % \(5 of 50\).*90 %.*25 % \(1 of 4\).*80 % \(40 of 50\).*nonzero",
    ),
    "impossible_percentage.log": (
        "partial",
        "compile",
        "partial_support",
        "partial_support",
        r"impossible -700 %.*9 operations of 4 kinds.*GatherNd, ArgMax compute",
    ),
    "training_graph.log": ("failed", "compile", "training_graph", "training_graph", r"training graph.*nothing about the model's own operators"),
    "warnings_only.log": ("unknown", "any", "no_verdict", "log_without_verdict", r"at least 150 s"),
    "crash_tail.log": ("failed", "compile", "cause_not_in_log", "compile_failed", r"not in this part of the log.*2\.6\.0\.19"),
    "closing_error.log": ("success", "execute", "harmless_shutdown", "harmless_shutdown", r"Harmless"),
    "analyze_inference.json": ("partial", "analyze", "unsupported_operator", "unsupported_operator", r"75 % .*aten::fft_fft at net\.py line 31"),
    "analyze_training.json": (
        "partial",
        "analyze",
        "unsupported_operator",
        "unsupported_operator",
        r"60 % .*train\.py line 24.*also supported elsewhere",
    ),
}


def test_every_log_in_the_folder_has_an_expectation():
    assert {path.name for path in LOGS.iterdir()} == set(EXPECTED)


@pytest.mark.parametrize("name", EXPECTED)
def test_whole_logs(name):
    found = diagnose(LOGS / name)
    outcome, phase, code, finding, words = EXPECTED[name]
    assert (found.outcome, found.phase, found.code, found.finding.code) == (outcome, phase, code, finding)
    assert re.search(words, found.sentence), found.sentence
    assert found.why and found.title
    assert found.steps, "there is always something to try"
    assert found.exit_status == {"success": 0, "unknown": 3}.get(outcome, 1)


@pytest.mark.parametrize("name", [name for name in EXPECTED if name.endswith(".log")])
@pytest.mark.parametrize("wrapping", ["crlf", "ansi", "prefix", "invalid", "utf16", "gzip", "bom"])
def test_wrapping_does_not_change_the_verdict(name, wrapping):
    raw = (LOGS / name).read_bytes()
    wrapped = {
        "crlf": lambda: raw.replace(b"\n", b"\r\n"),
        "ansi": lambda: b"\n".join(b"\x1b[31m" + line + b"\x1b[0m" for line in raw.split(b"\n")),
        "prefix": lambda: b"\n".join(b"2026-05-05T01:02:03.123456789Z stdout F " + line if line[:1].isalpha() else line for line in raw.split(b"\n")),
        "invalid": lambda: b"\xff\xfe\xfa caf\xe9 \x80\n"[2:] + raw.replace(b"INFO", b"INFO \xe9"),
        "utf16": lambda: raw.decode().encode("utf-16"),
        "gzip": lambda: gzip.compress(raw),
        "bom": lambda: b"\xef\xbb\xbf" + raw,
    }[wrapping]()
    plain, found = diagnose(LOGS / name), said(wrapped)
    assert (found.outcome, found.code, found.finding.code) == (plain.outcome, plain.code, plain.finding.code)


def test_evidence_points_at_the_lines():
    found = diagnose(LOGS / "operator_with_code.log")
    lines = (LOGS / "operator_with_code.log").read_text().splitlines()
    assert any("NCC_EVRF001" in entry.text for entry in found.evidence)
    for entry in found.evidence:
        assert entry.text == " ".join(lines[entry.line - 1].split())
    assert found.facts["flags"] == "--target trn2 -O1"
    assert found.lines == len(lines)


def test_facts_are_read_beside_the_verdict():
    facts = diagnose(LOGS / "compile_succeeded.log").facts
    assert facts["neuronx-cc"] == "2.22.12471.0+b4a00d10"
    assert facts["python"] == "3.11.9"
    assert facts["flags"] == "--target trn1 --model-type=transformer"
    assert facts["elapsed_s"] == "73"


# -- kinds of failures ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "outcome", "code", "finding", "words"),
    [
        ("ERROR TDRV:tdrv_open Failed to open /dev/neuron0: Permission denied", "environment", "permission", "permission_denied", "/dev/neuron0"),
        ("neuron_cc_cache.py\nPermissionError: [Errno 13] Permission denied: '/var/tmp/neuron-compile-cache/a.lock'", "environment", "permission", "permission_denied", "a.lock"),
        ("import torch_neuronx\nImportError: This package is a placeholder. Please install from the vendor", "environment", "placeholder", "broken_installation", "placeholder"),
        ("optimum/neuron\nImportError: cannot import name 'foo' from 'transformers.utils'", "environment", "package_mismatch", "broken_installation", "foo"),
        ("ERROR: No matching distribution found for neuronx-cc==2.*", "environment", "package_not_found", "broken_installation", "neuronx-cc"),
        ("ERROR: Package 'torch-neuronx' requires a different Python: 3.9.2 not in '>=3.10'", "environment", "package_not_found", "broken_installation", "3.9.2"),
        ("platform neuron\nERROR: [Errno 98] error while attempting to bind: address already in use", "environment", "port_taken", "configuration", "port"),
        ("0/4 nodes are available: 4 Insufficient aws.amazon.com/neuron.", "environment", "no_device", "device_absent", "Kubernetes"),
        ("NotImplementedError: Model architectures ['T5'] are not supported on Neuron for now.", "failed", "model_not_served", "model_not_served", "T5"),
        ("KeyError: \"mamba is not supported yet for neuron. Only ['bert']\"", "failed", "model_not_served", "model_not_served", "mamba"),
        ("neuronx_distributed/utils.py\nAssertionError: 25 is not divisible by 8", "failed", "heads_not_divisible", "core_count", "degree"),
        ("platform neuron\nValueError: max seq len (131072) is larger than the maximum number of tokens that can be stored in KV cache (4096).", "failed", "cache_too_small", "device_memory", "cache"),
        ("RuntimeError: Incorrect tensor shape at input tensor #0: received 1 129, expected 1 128. (neuron::forward_v2)", "failed", "other_shape", "bad_input", "received 1 129"),
        ("ERROR NEFF:neff_parse hash mismatch: expected 3fa0 got 99b1 for model.neff", "failed", "damaged_file", "stale_artifact", "hash"),
        ("[NCC_EBVF030] Instructions generated by compiler 7500000 exceeds the typical limit of 5000000.", "failed", "NCC_EBVF030", "instruction_limit", r"1\.5 times"),
        ("2023-09-08T21:17:33Z Too many instructions after unroll for function sg0001 !\nneuronx-cc", "failed", "too_many_instructions", "instruction_limit", "sg0001"),
        ("[XCG815]  Estimated peak HBM usage (24.0) exceeds 16GB. Neff won't be able to load on chip", "failed", "XCG815", "device_memory", r"1\.5 times"),
        ("[NCC_EOOM001] The combined memory needed (36GB) exceeds the HBM limit of 24GB", "failed", "NCC_EOOM001", "device_memory", r"1\.5 times"),
        ("ValueError: Message torch_neuronx.pyhlo.HloModuleProto exceeds maximum protobuf size of 2GB: 2416960823", "failed", "graph_file_limit", "graph_file_limit", "113 %"),
        ("[GCA035] Instruction: I-2-0 with opcode: TensorTensor couldn't be allocated in SB\nTotal Accessed Bytes per partition by instruction: 300\nTotal SB Partition Size: 200", "failed", "GCA035", "on_chip_memory", "150 %"),
        ("x.cc:160] ERROR: Unsupported operator: erf\nneuronx-cc failed with 70", "failed", "operator", "unsupported_operator", "erf"),
        ("neuronx-cc: CustomCallOp unsupported target: TopK", "failed", "operator", "unsupported_operator", "TopK"),
        ("ERROR [neuronx-cc]: Error message:  unexpected operator <ufunc 'invert'>", "failed", "operator", "unsupported_operator", "bitwise not"),
        ('neuronx-cc: unsupported HLO opcode "set-dimension-size"', "failed", "dynamic_shape", "dynamic_shape", "nonzero"),
        ("Neuron compile failed. Operator aten::adaptive_max_pool2d is not supported", "failed", "operator", "unsupported_operator", "aten::adaptive_max_pool2d"),
        ("[Codegen]: Instruction Pool I-7-0 generates invalid ISA instruction:\ninst failed assertion check: 's4d4_pl_dtype_check'\nneuronx-cc", "failed", "instruction_type", "unsupported_dtype", "fp8"),
        ("ERROR [WalrusDriver]: Instruction Pool I-7-0 generates invalid ISA instruction:\ninst failed: 'shape_check'", "failed", "instruction_type", "compiler_internal_error", "does not have"),
        ("INFO:Neuron:Compile command returned: -9", "failed", "exit_-9", "host_memory", "killed"),
        ("neuronx-cc was started\n[F137] neuronx-cc was forcibly killed - insufficient system memory", "failed", "F137", "host_memory", "signal 9"),
        ("[F134] neuronx-cc terminated abnormally - Please open a support ticket", "failed", "F134", "compiler_crash", "not in this part"),
        ("[Neuron] [ERROR] CPU fallback failed for 'torch_compile' failed: std::bad_alloc", "failed", "host_memory", "host_memory", "bad_alloc"),
        ("RuntimeError: nrt_load_collectives status=4 message=\"Allocation Failure\"", "failed", "NRT_RESOURCE", "device_memory", "nrt_load_collectives"),
        ("to_neuron(tp_degree=24)\nRuntimeError: nrt_load_collectives status=2", "failed", "NRT_INVALID", "core_count", "tp_degree = 24"),
        ("RuntimeError: nrt_execute status=2", "failed", "NRT_INVALID", "bad_input", "invalid"),
        ("ERROR NRT:nrt_load_collectives  Unsupported topology. Supported number of Neuron Cores is 1, 2, 8, 16 or a multiple of 32.  For other", "failed", "topology", "core_count", "1, 2, 8, 16"),
        ("E tf] nrt status code 1004, details \"[NMGR:exec_wait] Inference completed with err: 1004", "failed", "NRT_EXEC_COMPLETED_WITH_ERR", "execution_error", "error of the device"),
        ("nrtd[1]: Error notifications found on NC 0 INFER_ERROR_SUBTYPE_NUMERICAL", "failed", "not_a_number", "not_a_number", "not numbers"),
        ("ERROR  NMGR:dlr_infer  Inference completed with err: 1006. mode", "failed", "NRT_EXEC_OOB", "index_out_of_bounds", "outside"),
        ("ERROR TDRV:x (FATAL-RT-UNDEFINED-STATE) inference timeout (600000 ms) on Neuron Device 0\nInference completed with err: 5", "failed", "NRT_TIMEOUT", "execution_timeout", "600 s"),
        ("ERROR NRT:nrt_infodump Failure: NRT_EXEC_UNIT_UNRECOVERABLE in nrt_execute()", "failed", "NRT_EXEC_UNIT_UNRECOVERABLE", "hardware_failure", "execution unit"),
        ("ERROR NRT:nrt_allocate_neuron_cores NeuronCore(s) not available - Requested:2 Available:0", "environment", "cores_busy", "cores_busy", "free: 0"),
        ("ERROR NRT:nrt_init This Neuron Runtime (compatibility id: 6) is not compatible with the installed aws-neuron-dkms package.", "environment", "driver_old", "driver_absent", "compatibility id 6"),
        ("NEFF version mismatch supported: 1.1 received: 2.0", "failed", "neff_newer", "neff_version", "2.0 was given, 1.1"),
        ("neuron:mc_alloc: device mempool [0:0] total 1000 occupied 900 needed 128 available 100", "failed", "pool_full", "device_memory", "90 %"),
        ("File \"neuronxcc/x.py\"\nImportError: libwalrus.so: undefined symbol: _ZNK3bir", "failed", "library_mismatch", "broken_installation", "does not fit"),
        ("EngineCore failed to start.\nModuleNotFoundError: No module named 'neuronx_distributed_inference'", "environment", "module_missing", "broken_installation", "neuronx_distributed_inference"),
        ("vllm neuron\nModuleNotFoundError: No module named 'flash_attn'", "failed", "cuda_only_package", "cuda_only_package", "flash_attn"),
        ("[NCC_IQQQ123] odd - Please open a support ticket", "failed", "NCC_IQQQ123", "compiler_internal_error", "not in the catalogue"),
        ("USER 10200 [neuronxcc.driver.CommandDriver]: Something new went wrong\nERROR 10200 [neuronxcc.driver.CommandDriver]: An Internal Compiler Error has occurred", "failed", "internal_error", "compiler_internal_error", "Something new went wrong"),
        ("Total successful compilations: 5\nTotal failed compilations: 2\nNEURON_PARALLEL_COMPILE", "failed", "graphs_failed", "compile_failed", "2 of 7"),
        ("Using a cached neff at /var/x. Exiting with a successfully compiled graph.\n{'loss': nan, 'epoch': 1}", "failed", "loss_not_a_number", "not_a_number", "not a number"),
    ],
)  # fmt: skip
def test_kinds_of_failures(text, outcome, code, finding, words):
    found = said(text)
    assert (found.outcome, found.code, found.finding.code) == (outcome, code, finding), found.sentence
    assert re.search(words, found.sentence), found.sentence


@pytest.mark.parametrize(
    "line",
    [
        "NEURON 2024 CCOM WARN Timeout waiting for RX (waited 120 sec) - retrying, [bootstrapInit]",
        "neuron:npid_detach: pid=90193\nefa 0000:a0:1a.0: Failed to process command DEREG_MR (opcode 8) comp_status 7 err -22",
        "CCOM WARN OFI plugin initNet() failed is EFA enabled?",
        "WARNING neuron _custom_ops.py:21] Failed to import from vllm._C with ModuleNotFoundError(\"No module named 'vllm._C'\")",
    ],
)
def test_messages_that_only_look_like_errors(line):
    found = said(line)
    assert found.outcome == "unknown" and found.exit_status == 3
    assert found.harmless, "named as harmless"
    after = said(f"Compiler status PASS\n{line}\n")
    assert after.outcome == "success" and after.harmless


def test_error_words_in_a_run_that_ended_well_are_no_failure():
    found = said("neuronx-cc compile --target trn1\n2026-01-01 ERROR something odd was logged\nAborting...\nSubcommand returned with exitcode=0\n")
    assert found.outcome == "success" and found.confidence == "sure"
    assert found.harmless[-1].code == "error_word" and found.harmless[-1].line == 2


def test_a_warning_before_a_good_end_is_no_failure_and_before_a_bad_one_it_is():
    warning = "WARNING neuronx-cc: Unsupported operator: foo, another way is taken\n"
    good = said(warning + "Subcommand returned with exitcode=0\n")
    assert good.outcome == "success" and "operator" in [mention.code for mention in good.harmless]
    bad = said(warning + "Compiler status PASS\nRuntimeError: neuronx-cc failed with 70\n")
    assert (bad.outcome, bad.code) == ("failed", "operator")


NO_EFA = "2026-Nov-12 10:00:09.120000 411:411 ERROR NET/OFI No EFA device found\n"
ANSWERED = 'INFO:     10.0.0.9:42718 - "POST /v1/completions HTTP/1.1" 200 OK\n'
PASSED = "====================== 3 passed, 4 warnings in 214.33s (0:03:34) ======================\n"
TRAINED = "{'loss': 1.97, 'grad_norm': 1.1, 'epoch': 0.2}\n{'train_runtime': 311.2, 'train_loss': 2.1, 'epoch': 1.0}\n"


@pytest.mark.parametrize(
    ("results", "phase", "code", "finding"),
    [
        ("Compiler status PASS\n", "compile", "compile_succeeded", "compile_succeeded"),
        ("INFO:     Application startup complete.\n", "serve", "serve_succeeded", "serve_succeeded"),
        (ANSWERED, "serve", "serve_succeeded", "serve_succeeded"),
        ("INFO Engine 000: Avg generation throughput: 88.1 tokens/s, Running: 4 reqs\n", "serve", "serve_succeeded", "serve_succeeded"),
        (TRAINED, "execute", "run_succeeded", "run_succeeded"),
        (TRAINED.splitlines(keepends=True)[0], "execute", "run_succeeded", "run_succeeded"),
        ("{'e2e_model': {'latency_ms_p50': 812.2, 'throughput': 1260.9}}\n", "execute", "run_succeeded", "run_succeeded"),
        (f"tests/unit/test_attention.py::test_tp[8] PASSED\n{PASSED}", "execute", "tests_passed", "run_succeeded"),
    ],
)
@pytest.mark.parametrize("kind", [NO_EFA, "2026-Nov-12 ERROR NRT:nrt_init NeuronCore(s) not available - Requested:nc0-nc1 Available:0\nretrying\n"])
def test_a_fault_of_the_environment_that_the_run_got_over_is_no_failure(kind, results, phase, code, finding):
    before = said(f"neuron: start\n{kind}")
    assert before.outcome == "environment", "alone it is one"
    found = said(f"neuron: start\n{kind}{results}")
    assert (found.outcome, found.phase, found.code, found.finding.code) == ("success", phase, code, finding)
    assert {mention.code for mention in found.harmless} & {"efa_missing", "cores_busy"}


@pytest.mark.parametrize(
    ("after", "outcome", "code"),
    [
        ("2026-11-12T10:01:09Z ERROR [neuronx-cc]: [NCC_EVRF018] Pooling window dilation\n", "failed", "NCC_EVRF018"),
        ("RuntimeError: nrt_execute status=1201\n", "failed", "NRT_EXEC_HW_ERR_HBM_UE"),
        (NO_EFA + "ERROR CCOM Ofi plugin is not installed or EFA is not enabled\n", "environment", "efa_missing"),
    ],
)
def test_what_comes_after_the_answers_still_counts(after, outcome, code):
    found = said(f"neuron: start\n{NO_EFA}{ANSWERED}{after}")
    assert (found.outcome, found.code) == (outcome, code)


@pytest.mark.parametrize(
    "line",
    [
        '"GET /health HTTP/1.1" 200 OK',
        '"POST /v1/completions HTTP/1.1" 500 Internal Server Error',
        "Avg generation throughput: 0.0 tokens/s, Running: 0 reqs",
        "=========== 1 failed, 3 passed in 88.12s ===========",
        "{'latency_ms_p50': null}",
    ],
)
def test_what_only_looks_like_a_result_is_none(line):
    assert said(f"neuron: start\n{NO_EFA}{line}\n").outcome in ("environment", "failed")


def test_a_driver_that_is_missing_on_a_compile_host_is_no_failure_of_the_compilation():
    driver = "2026-Nov-12 ERROR NRT:nrt_init Unable to determine Neuron Driver version.\n"
    assert said(f"{driver}Compiler status PASS\n").outcome == "success"
    assert said(f"Compiler status PASS\n{driver}").outcome == "environment"
    assert said(f"{driver}nrt_init failed, status = 1\nCompiler status PASS\n").outcome == "environment"


def test_failed_tests_name_the_first_failure():
    found = said(
        "tests/neuron/test_tp.py::test_llama[tp8] FAILED\nE       AssertionError: Tensor-likes are not close!\n"
        "==================== 1 failed, 1 passed in 88.12s ====================\n"
    )
    assert (found.outcome, found.code, found.finding.code) == ("failed", "tests_failed", "framework_error")
    assert "Tensor-likes are not close" in found.cause


def test_a_server_that_names_its_reason_is_quoted():
    found = said(
        "INFO Automatically detected platform neuron.\nERROR 11-12 10:02:11 [core.py:586] EngineCore failed to start.\n"
        "ERROR 11-12 10:02:11 [core.py:586] ValueError: unknown override 'pa_blocks'\n"
        "RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}\n"
    )
    assert (found.outcome, found.phase, found.code) == ("failed", "serve", "engine_failed")
    assert "ValueError: unknown override 'pa_blocks'" in found.cause and "not in this part" not in found.title


@pytest.mark.parametrize(
    "text",
    [
        f"INFO Automatically detected platform cuda.\nINFO:     Application startup complete.\n{ANSWERED}",
        "ERROR EngineCore failed to start.\ntorch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB\n",
    ],
)
def test_the_log_of_a_gpu_server_is_no_neuron_log(text):
    assert said(text).finding.code == "log_not_recognised"


def test_years_that_are_not_written_make_no_duration():
    found = said("2026-Nov-12 10:00:09.1 ERROR neuron odd\nINFO 11-12 10:00:20 [core.py:5] neuron\n")
    assert "elapsed_at_least_s" not in found.facts


def test_random_bytes_are_no_log_and_a_foreign_encoding_is_one():
    with pytest.raises(BadInput, match="binary"):
        said(bytes(np.random.default_rng(7).integers(0, 256, 50_000, dtype=np.uint8)))
    assert said("Compiler status PASS é à ü ñ neuronx-cc\n".encode("latin-1")).outcome == "success"


def test_a_traceback_after_the_compilation_is_a_failure_of_something_later():
    found = said("Compiler status PASS\nTraceback (most recent call last):\n  File \"a.py\", line 3\nKeyError: 'logits'\n")
    assert (found.outcome, found.phase) == ("failed", "execute")
    assert "compilation succeeded" in found.title and "logits" in found.cause


def test_the_root_comes_first_and_the_rest_is_ranked():
    found = said(
        "RuntimeError: neuronx-cc failed with 70\n"
        "[F139] neuronx-cc terminated abnormally\n"
        "ERROR NRT:nrt_allocate_neuron_cores NeuronCore(s) not available - Requested:1 Available:0\n"
        "[NCC_EVRF004] Complex data types are not supported: complex64\n"
    )
    assert found.code == "NCC_EVRF004" and "complex64" in found.cause
    codes = [mention.code for mention in found.others]
    assert codes[0] == "cores_busy" and codes.index("cores_busy") < codes.index("compile_failed")


def test_an_earlier_failure_from_the_cache_is_said_to_be_one():
    found = said(
        "ERROR ||NEURON_CC_WRAPPER||: Got a cached failed neff at /var/tmp/x. Will skip compilation\n Failed compilation with ['neuronx-cc']: [NCC_EVRF013] TopK does not support int32\n"
    )
    assert found.code == "NCC_EVRF013"
    assert "taken from the cache" in found.cause


def test_codes_of_one_run_are_a_log_and_many_codes_are_a_table():
    table = "code,meaning\n" + "".join(f"{entry.code},{entry.title}\n" for entry in compiler_codes.every() if entry.kind == "compiler")
    assert said(table).code == "reference_table"
    assert (
        said("name\n" + "".join(f"{entry.number},{entry.code}\n" for entry in compiler_codes.every() if entry.kind == "runtime")).code
        == "reference_table"
    )


@pytest.mark.parametrize(
    "text", ["", "nothing of interest\n", "torch.cuda.OutOfMemoryError: CUDA out of memory\nKilled\n", '{"a": 1}', "ERROR in a web server\n" * 50]
)
def test_what_is_not_a_neuron_log_is_not_recognised(text):
    found = said(text)
    assert found.outcome == "unknown" and found.finding.severity == "waiting"
    assert found.missing and found.exit_status == 3
    if "ERROR" in text or "Error" in text:
        assert any("rror" in entry.text or "ERROR" in entry.text for entry in found.informative)


def test_an_unknown_exception_of_a_neuron_program_is_a_guess():
    found = said("import torch_neuronx\nTraceback (most recent call last):\nFrobnicationError: the neuron widget is upside down\n")
    assert (found.outcome, found.code, found.confidence) == ("failed", "unlisted_error", "guess")
    assert "upside down" in found.cause and found.informative


def test_an_interrupted_run_says_nothing():
    assert said("neuronx-cc compile x\nTraceback (most recent call last):\nKeyboardInterrupt\n").code == "interrupted"


# -- support ----------------------------------------------------------------------------------


@pytest.mark.parametrize("percent", ['"100.00%"', "100", '"100"'])
def test_a_clean_analysis_in_either_flavour(percent):
    inference = '{"support_percentage": %s, "supported_operators": {"aten::linear": 3, "aten::relu": 2}, "unsupported_operators": []}' % percent
    training = '{"support_percentage": %s, "supported_operators": {"aten": {"aten::mm": 4}}, "unsupported_operators": {"aten": []}}' % percent
    for text in (inference, training):
        found = said(text)
        assert (found.outcome, found.phase, found.code) == ("success", "analyze", "analysis_clean")
        assert "nothing about memory" in found.cause
    assert "5 calls of 2 operators" in said(inference).cause


@pytest.mark.parametrize("percent", ["112.00%", "-5%"])
def test_an_impossible_percentage_is_ignored_and_said(percent):
    found = said(
        json.dumps(
            {
                "support_percentage": percent,
                "supported_operators": {"aten::mm": 1},
                "unsupported_operators": [{"kind": "aten::nonzero", "call": "m.py 3"}],
            }
        )
    )
    assert found.outcome == "partial" and "impossible" in found.cause and "supported as printed" not in found.cause
    assert any("torch.where" in step for step in found.steps)


def test_an_analysis_that_is_cut_off_or_printed_as_python_is_read_all_the_same():
    whole = (LOGS / "analyze_inference.json").read_text()
    cut = said(whole[:-60])
    assert (cut.outcome, cut.code, cut.confidence) == ("partial", "unsupported_operator", "likely") and "cut off" in cut.cause
    printed = said("some log line\n" + str(json.loads(whole)) + "\nmore\n")
    assert printed.code == "unsupported_operator" and "net.py line 31" in printed.cause


def test_practically_everything_on_the_device_is_a_success_that_names_the_rest():
    found = said(
        "INFO:Neuron:Number of arithmetic operators (post-compilation) before = 565, compiled = 548, percent compiled = 96.99%\n"
        "INFO:Neuron:Neuron successfully compiled 1 sub-graphs, Total fused subgraphs = 1, Percent of model sub-graphs successfully compiled = 100.0%\n"
    )
    assert found.outcome == "success" and "96.99 % (548 of 565)" in found.cause


def test_the_report_of_compilations_ahead_of_time():
    report = {
        "compilation_summary": {"true": 3, "false": 1},
        "compilation_report": {"/x/model.hlo_module.pb": {"status": False, "retry": 1}},
        "compilation_time": 12.5,
    }
    found = said("NEURON_PARALLEL_COMPILE\n" + json.dumps(report, indent=4))
    assert (found.outcome, found.code) == ("failed", "graphs_failed") and "1 of 4" in found.title
    assert found.facts["elapsed_s"] == "12.5"
    report["compilation_summary"] = {"true": 4}
    assert said("NEURON_PARALLEL_COMPILE\n" + json.dumps(report)).outcome == "success"


# -- nothing private --------------------------------------------------------------------------

PRIVATE = {
    "Instance ID: i-0123456789abcdef0 done": "i-0123456789abcdef0",
    "Nodename: ip-10-1-2-3.ec2.internal": "ip-10-1-2-3",
    "Hostname: trainbox7": "trainbox7",
    "image 123456789012.dkr.ecr.us-east-1.amazonaws.com/x": "123456789012",
    "arn:aws:sagemaker:us-east-1:123456789012:endpoint/x": "123456789012",
    "arn:aws:iam::123456789012:role/x": "123456789012",
    "token hf_abcdefghijklmnopqrstuvwxyz": "hf_abcdefgh",
    "AWS_KEY=AKIAABCDEFGHIJKLMNOP": "AKIAABCD",
    "/home/alice/model.py": "alice",
    "peer [203.0.113.7]:22947": "203.0.113.7",
    "connect 10.20.30.40 failed": "10.20.30.40",
    "alice@trainbox7:~$ python x.py": "trainbox7",
    "mail alice@example.org": "alice@",
    "api_key: s3cr3tvalue": "s3cr3tvalue",
}


@pytest.mark.parametrize("text", PRIVATE)
def test_private_data_is_masked(text):
    assert PRIVATE[text] not in masked(text)


@pytest.mark.parametrize(
    "text",
    [
        "neuronxcc version is 2.9.0.40+07376825f",
        "macCnt 390113129496 threshold 4398046511104",
        "sg0000 finished",
        "NRT version: 2.21.41.0",
        "driver 2.17.17.0",
        "2024-Jul-30 14:22:31.244396 65191:69012 ERROR   NRT:nrt_infodump",
    ],
)
def test_what_is_not_private_stays(text):
    assert masked(text) == text


def test_nothing_private_in_any_part_of_an_answer():
    lines = [
        *PRIVATE,
        "neuronx-cc compile /home/alice/x.pb --target trn1 --output /home/alice/y",
        "ERROR [NCC_EVRF001] Unsupported operator: erf /home/alice on ip-10-1-2-3 i-0123456789abcdef0",
        "RuntimeError: /home/alice 10.20.30.40",
        "Traceback (most recent call last):",
    ]
    for text in ("\n".join(lines), "\n".join(lines[:-3]), "neuron\n" + "\n".join(lines[-2:])):
        shown = said(text).model_dump_json()
        for secret in PRIVATE.values():
            assert secret not in shown, secret


# -- reading a stream -------------------------------------------------------------------------


def test_texts_at_any_place_are_found_as_a_plain_search_finds_them():
    texts = reading.texts()
    searcher = Searcher(texts)
    for shift in range(4):
        block = b"x" * shift + b"\n".join(b"abc " + text + b" def" for text in texts)
        found = {text: list(starts) for text, starts in searcher.places(block)}
        assert set(found) == set(texts)
        for text, starts in found.items():
            assert starts == [match.start() for match in re.finditer(b"(?=" + re.escape(text) + b")", block)]


def test_a_text_that_is_too_short_is_refused():
    with pytest.raises(ValueError, match="at least 4"):
        Searcher({b"abc": 1})


class Dribble(io.RawIOBase):
    """A pipe: returns a few bytes at a time."""

    def __init__(self, data: bytes, size: int):
        self.data, self.size = io.BytesIO(data), size

    def read(self, size: int = -1) -> bytes:
        return self.data.read(self.size)


@pytest.mark.parametrize("size", [7, 4096, 100_003])
def test_a_pipe_that_delivers_in_pieces(size):
    filler = b"2026-01-01T00:00:00Z INFO 1 [pass]: nothing happens here\n" * 4000
    data = filler + (LOGS / "operator_with_code.log").read_bytes() + filler
    data = data if size > 7 else data[len(filler) - 200 : -len(filler) + 200]
    found = diagnose(Dribble(data, size))
    assert found.code == "NCC_EVRF001"
    assert found.lines == len(data.splitlines()) and found.bytes == len(data)
    assert "NCC_EVRF001" in data.splitlines()[found.evidence[0].line - 1].decode()


SEAMS = [seam * BLOCK - 25 - before for seam in (1, 2, 3) for before in (3, 12, 20, 40)]


@pytest.mark.parametrize("place", [0, 100, *SEAMS])
def test_a_line_of_many_megabytes(place):
    message = b"ERROR [NCC_EVRF001] Unsupported operator: erf "
    data = b"first line of neuronx-cc\n" + b"y" * place + message + b"z" * (4 * BLOCK - place) + b"\nlast\n"  # 25 bytes before the long line
    found = said(data)
    assert found.code == "NCC_EVRF001" and "erf" in found.cause
    assert found.evidence[0].line == 2 and len(found.evidence[0].text) <= 300
    assert found.lines == 3


def test_a_flood_of_one_error_hides_no_other_and_costs_no_memory():
    flood = b"2026-01-01 00:00:00.000 1:1 ERROR  TDRV:spam   RuntimeError: Failed to do the same thing, status=99\n" * 60_000
    data = flood + b"ERROR NRT:nrt_allocate_neuron_cores NeuronCore(s) not available - Requested:2 Available:0\n" + flood
    tracemalloc.start()
    found = said(data)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found.code == "cores_busy" and found.evidence[0].line == 60_001
    assert peak < 40e6, f"{peak / 1e6:.0f} MB for {len(data) / 1e6:.0f} MB of log"


def test_kept_lines_are_the_first_and_the_newest():
    data = b"".join(b"line %06d with status=1\n" % number for number in range(50_000))
    found = scan(io.BytesIO(data), {b"status=": 5}, recent=3)
    assert [line.number for line in found.lines] == [1, 2, 3, 4, 5, 49_998, 49_999, 50_000]
    assert found.counts == {b"status=": 50_000}


def test_progress_bars_are_lines_of_their_own():
    found = said(b"Loading:  10%\rLoading:  90%\rRuntimeError: nrt_tensor_allocate status=4\rbye\n")
    assert found.code == "NRT_RESOURCE"
    assert found.evidence[0].text == "RuntimeError: nrt_tensor_allocate status=4"


def test_clean_takes_colours_and_replaces_what_is_not_utf8():
    assert clean(b"\x1b[1;31mred\x1b[0m \x1b]8;;x\x07link \xff\n") == "red link \ufffd"


def test_what_cannot_be_read_is_bad_input(tmp_path):
    with pytest.raises(BadInput, match="cannot read the log"):
        diagnose(tmp_path / "absent.log")
    with pytest.raises(BadInput, match="cannot read the log"):
        diagnose(tmp_path)
    with pytest.raises(BadInput, match="binary"):
        said(b"\x7fELF" + bytes(5000))
    with pytest.raises(BadInput, match="damaged"):
        said(gzip.compress(b"neuron" * 1000)[:40])
    with pytest.raises(TypeError, match="binary mode"):
        diagnose(io.StringIO("x"))


# -- tables and small parts -------------------------------------------------------------------


def test_every_category_has_a_meaning_and_every_finding_code_is_one():
    used = {entry.category for entry in compiler_codes.every()} - {"success", "harmless"}
    assert used <= set(meaning.CATEGORIES)
    assert meaning.ENVIRONMENT <= set(meaning.CATEGORIES)
    for entry in meaning.CATEGORIES.values():
        assert re.fullmatch(r"[a-z_]+", entry.finding.code)
        assert all(not step.endswith(".") for step in entry.steps)


def test_every_listed_code_is_diagnosed_as_its_category():
    for entry in compiler_codes.every():
        if entry.kind == "compiler":
            found = said(f"2026-01-01T00:00:00Z ERROR 1 [root]: [{entry.code}] message - Please open a support ticket\n")
            assert (found.outcome, found.code) == ("failed", entry.code)
            assert found.finding.code == meaning.meaning(entry.category).finding.code
            assert found.confidence == "sure" and found.source == entry.source


def test_every_root_signature_is_found_on_its_own():
    specific = {"allocation_failed", "dynamic_shape", "killed", "module_missing", "library_missing", "compile_failed"}
    for entry in compiler_codes.signatures():
        if entry.level != "root" or entry.code in specific:
            continue
        found = said(f"neuronx-cc ERROR {entry.find} 'x'\n")
        assert found.outcome in ("failed", "environment"), (entry.code, found.sentence)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("Unsupported operator: triangular-solve - Try", ["triangular-solve"]),
        ("operator aten::grid_sampler is not supported", ["aten::grid_sampler"]),
        ("Unsupported CustomCall target: ResizeBilinear", ["ResizeBilinear"]),
        ("unexpected operator <ufunc 'invert'>", ["invert"]),
        ("not implemented: {'SaveV2', 'Assign'(env)", ["SaveV2", "Assign"]),
        ("An unsupported operator was used.", []),
    ],
)
def test_operator_names(text, names):
    assert operators(text) == names


def test_amounts():
    assert amount("13.5GB") == 13.5 * 2**30 and amount("7.352KB") == 7.352 * 1024
    with pytest.raises(ValueError, match="not a size"):
        amount("many")


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("2023-09-21T22:33:53Z INFO", "22:33:53"),
        ("2024-Jul-10 09:14:35.120533 1:2 ERROR", "09:14:35"),
        ("09/22/2021 03:01:34 PM ERROR", "15:01:34"),
        ("INFO 02-11 14:13:27 x.py", "14:13:27"),
        ("[2026-03-06 00:14:07.473: I x", "00:14:07"),
    ],
)
def test_time_stamps(text, seconds):
    assert f"{reading.moment(text):%H:%M:%S}" == seconds


def test_no_time_stamp():
    assert reading.moment("version 2024-99-99 99:99:99") is None


# -- step 3's evidence ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "status"),
    [
        ("compile_succeeded.log", "compiled"),
        ("operator_with_code.log", "failed"),
        ("device_memory_interleaved.log", "failed"),
        ("three_percentages.log", "failed"),
    ],
)
def test_the_row_of_a_target(name, status):
    built = row(diagnose(LOGS / name), "inf2", "neuron_xla")
    assert built.status == status and "a log says" in built.because
    if status == "compiled":
        assert built.compile_time.value == 73 and built.compile_time.grade == "imported"
        assert built.versions["neuronx-cc"].startswith("2.22") and "--model-type=transformer" in built.flags
    else:
        assert built.next and built.compile_time is None


def test_an_analysis_alone_proves_no_compilation():
    clean_analysis = said('{"support_percentage": "100%", "supported_operators": {"aten::mm": 1}, "unsupported_operators": []}')
    assert row(clean_analysis, "inf2", "neuron_xla").status == "waiting"


def test_a_log_becomes_the_evidence_of_its_target_and_other_rows_stay(tmp_path):
    asked = example_questions.question(tmp_path / "reports")
    log = LOGS / "compile_succeeded.log"
    record, found = adopt(asked, log, "inf2")
    assert record.source.grade == "imported" and record.source.sha256 == hashlib.sha256(log.read_bytes()).hexdigest()
    assert (record.source.file, record.source.tool) == (log.name, "neuronx-cc")
    with open(LOGS / "operator_with_code.log", "rb") as stream:
        adopt(asked, stream, "trn1")
    latest = asked.dossier.latest(Compile)
    assert {entry.target: entry.status for entry in latest.targets} == {"inf2": "compiled", "trn1": "failed"}
    assert [(finding.target, finding.code) for finding in latest.findings if finding.target == "trn1"] == [("trn1", "unsupported_operator")]
    assert found.outcome == "success"


@pytest.mark.parametrize("name", ["no_device.log", "warnings_only.log"])
def test_a_log_that_says_nothing_about_the_model_is_no_evidence(tmp_path, name):
    asked = example_questions.question(tmp_path / "reports")
    with pytest.raises(WaitingForEvidence, match="no evidence"):
        adopt(asked, LOGS / name, "inf2")
    assert asked.dossier.files() == []


def test_an_analysis_does_not_replace_a_compilation(tmp_path):
    asked = example_questions.question(tmp_path / "reports")
    adopt(asked, LOGS / "compile_succeeded.log", "inf2")
    analysed = io.BytesIO(b'{"support_percentage": "100%", "supported_operators": {"aten::mm": 1}, "unsupported_operators": []}')
    record, _ = adopt(asked, analysed, "inf2")
    assert record.targets[0].status == "compiled"


# -- kinds of logs, in the wrappings that container platforms put around them ---------------------


def docker(*lines):
    return "".join(json.dumps({"log": f"{line}\n", "stream": "stderr", "time": "2026-03-02T10:11:12.000Z"}) + "\n" for line in lines)


def fluent(*lines):
    return "".join(json.dumps({"@timestamp": "2026-03-02T10:11:12Z", "kubernetes": {"pod_name": "a"}, "message": line}) + "\n" for line in lines)


def journal(*lines):
    return "".join(f"Mar 02 10:11:12 ip-10-0-0-1 server[3210]: {line}\n" for line in lines)


def cri(*lines):
    return "".join(f"2026-03-02T10:11:12.123456789Z stderr F {line}\n" for line in lines)


def windows(*lines):
    return "".join(f"{line}\r\n" for line in lines)


def coloured(*lines):
    return "".join(f"\x1b[31;1m{line}\x1b[0m\n" for line in lines)


def wide(*lines):
    return windows(*lines).encode("utf-16")


EXIT = "2026-03-02T10:11:13Z INFO 9 [root]: Subcommand returned with exitcode=70"
KINDS = {
    "NCC_EVRF001": ("Operator 'triangular-solve' is not supported", "unsupported_operator", "triangular-solve"),
    "NCC_EVRF013": ("TopK does not support int32/int64 input: s64[1,32000], k = 50", "integer_arithmetic", "floats only"),
    "NCC_EOOM001": ("memory needed exceeds the limit: 27.31 GB needed, 24 GB available", "device_memory", r"27\.31 GB against 24 GB"),
    "NCC_EBVF030": ("The number of instructions generated (9283744) exceeds the limit (5000000)", "instruction_limit", r"1\.9 times"),
    "NCC_EVRF051": ("FP8 e4m3fn is not supported on trn2", "unsupported_dtype", "Trn3"),
    "NCC_EMOD025": ("Dynamic dimension found in input 0: tensor<?x768xf32>", "dynamic_shape", "fixed"),
    "NCC_EARG001": ("Logical NeuronCore value 2 is not valid for target trn1", "configuration", "logical NeuronCore"),
}


@pytest.mark.parametrize("wrapped", [docker, fluent, journal, cri, windows, coloured, wide], ids=lambda wrap: wrap.__name__)
@pytest.mark.parametrize("code", KINDS)
def test_a_code_is_found_in_every_wrapping(wrapped, code):
    text, finding, cause = KINDS[code]
    found = said(wrapped("starting", f"2026-03-02T10:11:12Z ERROR 9 [root]: [{code}] {text}", EXIT))
    assert (found.outcome, found.phase, found.code, found.finding.code) == ("failed", "compile", code, finding)
    assert re.search(cause, f"{found.title} {found.cause}") and found.confidence == "sure"


@pytest.mark.parametrize("wrapped", [docker, fluent, journal, cri, windows, coloured, wide], ids=lambda wrap: wrap.__name__)
def test_a_success_with_warnings_is_one_in_every_wrapping(wrapped):
    lines = (
        "TracerWarning: Converting a tensor to a Python boolean",
        "WARNING: Failed to import module vllm._C",
        "Compiler status PASS",
        "p50 4.1 ms, 0 errors",
    )
    assert said(wrapped("INFO ||NEURON_CC_WRAPPER||: Call compiler with cmd: neuronx-cc compile --target=inf2", *lines)).outcome == "success"


def test_ranks_that_time_out_follow_from_the_one_with_broken_memory():
    """Rank 3 reports the memory error first; ranks 0 and 1 wait for it and time out ten seconds later."""
    found = said(
        "[rank3]: 2026-Mar-02 10:11:07.22 88:120 ERROR TDRV:exec (FATAL-RT-UNDEFINED-STATE) [ND 4][NC 1] encountered uncorrectable memory error.\n"
        "[rank3]: 2026-Mar-02 10:11:07.23 88:120 ERROR NRT:nrt_infodump Failed with status 1201 NRT_EXEC_HW_ERR_HBM_UE\n"
        "[rank0]: 2026-Mar-02 10:11:17.00 85:110 ERROR NMGR:dlr_infer Inference completed with err: 5\n"
        "[rank1]: 2026-Mar-02 10:11:17.01 86:111 ERROR NMGR:dlr_infer Inference completed with err: 5\n"
    )
    assert (found.outcome, found.code, found.finding.code) == ("failed", "NRT_EXEC_HW_ERR_HBM_UE", "hardware_failure")


@pytest.mark.parametrize(
    "line", ["command terminated with exit code 137", "Last State: Terminated  Reason: OOMKilled", "worker exited with code 137"]
)
def test_a_container_that_was_killed_ran_out_of_host_memory(line):
    found = said(
        f"2026-03-02T10:11:12Z INFO 1 [root]: neuronx-cc compile --target trn1\n2026-03-02T10:41:12Z INFO 1 [job.WalrusDriver.0]: Running\n{line}\n"
    )
    assert (found.outcome, found.finding.code) == ("failed", "host_memory")
    assert said(f"{line}\n").code == "not_recognised"  # nothing in it is Neuron's


def test_a_log_that_breaks_off_is_not_called_either_way():
    found = said(
        "2026-03-02T10:11:12Z INFO 4211 [root]: neuronx-cc compile --target inf2\n2026-03-02T10:15:13Z INFO 4211 [job.Frontend.0]: Start tensoriz"
    )
    assert (found.outcome, found.code) == ("unknown", "no_verdict")
