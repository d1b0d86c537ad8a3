"""What a kind of failure becomes: the finding, its severity, and what to try in order.

The category of a message (see :mod:`~neuronfit.catalog.compiler_codes`) decides; steps that belong to
one message alone stand in the catalogue and come first.
"""

from __future__ import annotations

from dataclasses import dataclass

from neuronfit.record import Finding, Severity

__all__ = ["CATEGORIES", "ENVIRONMENT", "Meaning", "meaning"]

ENVIRONMENT = frozenset({"driver", "no_device", "cores_busy", "network", "disk", "download", "permission"})
"""Faults of the host or its set-up: nothing is learned about the model."""


@dataclass(frozen=True)
class Meaning:
    """``finding`` is what the failure becomes (its sentence is the diagnosis); ``steps`` are for all of its kind."""

    finding: Finding
    steps: tuple[str, ...]


CATEGORIES: dict[str, Meaning] = {
    "operator": Meaning(Finding(severity=Severity.BLOCKER, code="unsupported_operator", because="about the model"), (
        "look the operator up for the newest compiler: neuronx-cc list-operators --framework XLA",
        "rewrite it with operators that are listed: neuronfit check names a rewrite where one is documented",
        "compile with the newest SDK before giving up: missing operators are added",
    )),
    "operator_parameter": Meaning(Finding(severity=Severity.BLOCKER, code="unsupported_operator", because="about the model"), ("change the argument that the message names, or write the operation in two steps",)),
    "dynamic_shape": Meaning(Finding(severity=Severity.BLOCKER, code="dynamic_shape", because="about the model"), (
        "give every input a fixed size: pad to a few sizes and compile one graph for each (neuronfit advises the sizes)",
        "replace nonzero, boolean indexing and masked_select by a mask of fixed size with torch.where",
        "with torch.compile pass dynamic=False",
    )),
    "dtype": Meaning(Finding(severity=Severity.BLOCKER, code="unsupported_dtype", because="about the data type"), (
        "compile with bfloat16 or float32: leave out --auto-cast-type fp8_e4m3 or the FP8 weights",
        "retry on the newest SDK: data types are added by release and by device generation",
    )),
    "integer_arithmetic": Meaning(Finding(severity=Severity.BLOCKER, code="integer_arithmetic", because="about the data type"), ("cast to a float type before the operation and back after it",)),
    "integer_range": Meaning(Finding(severity=Severity.BLOCKER, code="integer_range", because="about the data type"), ("use 32-bit integers",)),
    "instruction_limit": Meaning(Finding(severity=Severity.BLOCKER, code="instruction_limit", because="about this graph at this shape"), (
        "reduce batch size, sequence length or image size, or split the model into parts that are compiled apart",
        "for a transformer pass --model-type=transformer",
        "compile with -O1",
        "raise the tensor-parallel degree so that each core gets a smaller graph",
    )),
    "graph_file_limit": Meaning(Finding(severity=Severity.BLOCKER, code="graph_file_limit", because="about this graph"), (
        "pass large constants (weights, tables) as inputs or parameters: a large literal inside the graph is the usual cause",
        "split the model into parts that are compiled apart",
        "optimisation level -O1 does not help here",
    )),
    "device_memory": Meaning(Finding(severity=Severity.BLOCKER, code="device_memory", because="about the model on this instance"), (
        "raise the tensor-parallel degree: weights and cache are divided by it",
        "reduce batch size, sequence length or the number of sequences: the cache shrinks with them",
        "take an instance with more NeuronCores or more memory per core: neuronfit check shows the smallest that fits",
    )),
    "on_chip_memory": Meaning(Finding(severity=Severity.BLOCKER, code="on_chip_memory", because="about this graph"), ("reduce the tile, batch or spatial size that the message names",)),
    "host_memory": Meaning(Finding(severity=Severity.WARNING, code="host_memory", because="about the host that compiles"), (
        "compile on an instance with more memory (64 to 128 GB for large models); no device is needed for it, copy the compiled files afterwards",
        "compile fewer graphs at once: fewer workers, fewer buckets, lengths padded to a few sizes",
        "add swap space where a larger instance is not at hand",
    )),
    "compiler_internal": Meaning(Finding(severity=Severity.BLOCKER, code="compiler_internal_error", because="about this compiler release"), (
        "compile with the newest SDK: most internal errors are gone a release or two later",
        "compile with -O1, and with --model-type=transformer for a transformer",
        "find the layer by compiling the model in halves, and write it another way",
        "report it at github.com/aws-neuron/aws-neuron-sdk/issues with the graph and the stored artifacts",
    )),
    "compiler_crash": Meaning(Finding(severity=Severity.BLOCKER, code="compiler_crash", because="about this compiler release"), (
        "look for the first error above the crash: it is nearer to the cause",
        "watch the host's memory while compiling: a full host looks like a crash",
        "compile with the newest SDK and with -O1",
        "report it at github.com/aws-neuron/aws-neuron-sdk/issues with the graph",
    )),
    "compiler_worker": Meaning(Finding(severity=Severity.WARNING, code="compiler_crash", because="about the installation or the host"), (
        "start the compiler by hand (neuron-cc --version, neuronx-cc --version): a broken installation shows its missing symbol or library at once",
        "install the Neuron packages of one SDK release into a fresh environment",
        "watch the host's memory while compiling and take a larger instance when it runs full",
    )),
    "compiler_failed": Meaning(Finding(severity=Severity.BLOCKER, code="compile_failed", because="about unknown"), (
        "look for the first error above this part of the log",
        "read the compiler's own log, log-neuron-cc.txt, in its working folder",
        "compile with the newest SDK",
    )),
    "process_crash": Meaning(Finding(severity=Severity.WARNING, code="process_crash", because="about unknown"), (
        "use packages of one SDK release in a fresh environment",
        "run once more with a core dump and report it with the versions",
    )),
    "empty_graph": Meaning(Finding(severity=Severity.BLOCKER, code="empty_graph", because="about the input of the compiler"), ("check what is handed to the compiler: an empty kernel, a graph without operations, or a wrong folder",)),
    "invalid_graph": Meaning(Finding(severity=Severity.BLOCKER, code="invalid_graph", because="about the graph"), ("use framework and compiler of one SDK release", "read the instruction that the compiler's log names")),
    "kernel_contract": Meaning(Finding(severity=Severity.BLOCKER, code="kernel_contract", because="about a kernel"), ("read the kernel's contract in the NKI documentation",)),
    "kernel_limit": Meaning(Finding(severity=Severity.BLOCKER, code="kernel_limit", because="about a kernel"), ()),
    "bounds": Meaning(Finding(severity=Severity.BLOCKER, code="index_out_of_bounds", because="about the model or its inputs"), (
        "check the indices on the CPU, where the same call fails with a message: token ids against the vocabulary, positions against the table",
        "set NEURON_RT_DBG_DUMP_INPUTS_ON_ERR=1006 to keep the inputs of the failing call",
    )),
    "graph_break": Meaning(Finding(severity=Severity.BLOCKER, code="graph_break", because="about the model"), ("rewrite the line that the traceback names",)),
    "framework": Meaning(Finding(severity=Severity.WARNING, code="framework_error", because="about the program"), ("read the traceback from its last line upwards",)),
    "cuda_package": Meaning(Finding(severity=Severity.BLOCKER, code="cuda_only_package", because="about the program"), ("remove the package or make it optional: neuronfit check names what replaces it",)),
    "stale_artifact": Meaning(Finding(severity=Severity.WARNING, code="stale_artifact", because="about the cache"), (
        "compile again with --retry_failed_compilation in NEURON_CC_FLAGS, or delete the folder of the cache",
        "read the original error that the cache kept: it is printed behind this message",
    )),
    "configuration": Meaning(Finding(severity=Severity.WARNING, code="configuration", because="about the settings"), ()),
    "nothing_compiled": Meaning(Finding(severity=Severity.BLOCKER, code="nothing_compiled", because="about the model"), (
        "look above for why each part was refused: a compiler that was killed or does not start is the usual reason",
        "run the analysis to see which operators are not supported",
    )),
    "partial_support": Meaning(Finding(severity=Severity.BLOCKER, code="partial_support", because="about the model"), (
        "rewrite the operators that stay on the CPU: each one cuts the graph, and every cut costs two transfers",
        "measure before deciding: the share of supported operators is not a share of the speed",
        "try a newer device generation (torch-neuronx on Inf2 or Trn1): it supports more operators",
    )),
    "cpu_fallback": Meaning(Finding(severity=Severity.BLOCKER, code="cpu_fallback", because="about the model"), ("do not use latencies measured after this line: they are CPU latencies",)),
    "training_graph": Meaning(Finding(severity=Severity.WARNING, code="training_graph", because="about the exported model"), (
        "export the model for inference: a frozen graph or a SavedModel with an inference signature",
        "then analyse it again: the operators that are named belong to training and saving",
    )),
    "driver": Meaning(Finding(severity=Severity.WAITING, code="driver_absent", because="about this host, not the model"), (
        "run on an Inf or Trn instance with aws-neuronx-dkms installed; a host without devices can only compile",
        "check with neuron-ls and lsmod | grep neuron",
    )),
    "no_device": Meaning(Finding(severity=Severity.WAITING, code="device_absent", because="about this host, not the model"), (
        "start the container with --device=/dev/neuron0 (one for each device), or run on an Inf or Trn instance",
        "check on the host with neuron-ls that the driver is installed",
        "read no utilisation from a monitor here: no device is visible",
    )),
    "cores_busy": Meaning(Finding(severity=Severity.WAITING, code="cores_busy", because="about this host, not the model"), (
        "end the other process, often a second Jupyter kernel or a leftover Python: neuron-ls shows its id",
        "give each process its own cores with NEURON_RT_VISIBLE_CORES",
        "in notebooks delete the model and shut the kernel down before the next one starts",
    )),
    "core_count": Meaning(Finding(severity=Severity.BLOCKER, code="core_count", because="about the number of cores asked for"), (
        "ask for a number of cores that the instance has: inf2.24xlarge 12, inf2.48xlarge 24, trn1.2xlarge 2, trn1.32xlarge 32",
        "ask for a number that the instance connects: 1, 2, 8, 16 or 32 on Trn1, and check before compiling",
        "free cores that other processes hold",
    )),
    "neff_version": Meaning(Finding(severity=Severity.WARNING, code="neff_version", because="about the versions, not the model"), (
        "use compiler, runtime and driver of one SDK release: upgrade aws-neuronx-runtime-lib and aws-neuronx-dkms, or compile with the older compiler",
        "in a container mind that the driver is the host's",
    )),
    "install": Meaning(Finding(severity=Severity.WARNING, code="broken_installation", because="about the installation, not the model"), (
        "install the Neuron packages of one SDK release into a fresh environment",
        "check that only one of torch-neuron and torch-neuronx is installed",
    )),
    "network": Meaning(Finding(severity=Severity.WAITING, code="network", because="about the hosts, not the model"), ("launch the instances with EFA and install aws-efa-installer", "check that all workers run and can reach each other")),
    "disk": Meaning(Finding(severity=Severity.WAITING, code="disk_full", because="about this host, not the model"), ()),
    "permission": Meaning(Finding(severity=Severity.WAITING, code="permission_denied", because="about this host, not the model"), (
        "give the user the right to open what the message names: /dev/neuron* for the devices, the folder of the cache for compiled graphs",
        "in a container pass the devices and mount the cache so that its user may write",
    )),
    "model_not_served": Meaning(Finding(severity=Severity.BLOCKER, code="model_not_served", because="about the model on this software path"), (
        "take another software path: neuronfit check on a params file gives the status of each",
        "bring model code of your own, and count the porting as effort in step 7",
    )),
    "download": Meaning(Finding(severity=Severity.WAITING, code="download_refused", because="about this host, not the model"), ()),
    "hardware": Meaning(Finding(severity=Severity.WAITING, code="hardware_failure", because="about this instance, not the model"), (
        "stop and start the instance, so that it moves to other hardware, and run again from the last checkpoint",
        "look for NEURON_HW_ERR and its action in dmesg",
    )),
    "numerical": Meaning(Finding(severity=Severity.BLOCKER, code="not_a_number", because="about the numbers"), (
        "run the same inputs on the CPU in the same precision",
        "check the cast mode: compile with --auto-cast=none, keep sensitive layers in float32",
        "for masks use a finite large negative number instead of minus infinity",
    )),
    "execution": Meaning(Finding(severity=Severity.WARNING, code="execution_error", because="about this setting"), (
        "discard every throughput and latency of the setting that printed this: the requests did not complete",
        "repeat with fewer workers or models per core",
        "when it persists, treat it as a hardware error: move to another instance",
    )),
    "timeout": Meaning(Finding(severity=Severity.WARNING, code="execution_timeout", because="about the run"), (
        "look at the logs of all workers: one that still compiles or has failed holds up the others",
        "raise NEURON_RT_EXEC_TIMEOUT when the model needs longer",
        "look for a hardware error in dmesg",
    )),
    "collective": Meaning(Finding(severity=Severity.WARNING, code="collective_stuck", because="about the run"), ("look at the logs of all workers for the one that failed first", "look for a hardware error in dmesg")),
    "notification_overflow": Meaning(Finding(severity=Severity.WARNING, code="notification_overflow", because="about a setting"), ("set NEURON_RT_ENABLE_DGE_NOTIFICATIONS=0 and run again",)),
    "bad_input": Meaning(Finding(severity=Severity.WARNING, code="bad_input", because="about the inputs"), ("compare shapes and data types of the call with those the model was compiled for",)),
    "runtime": Meaning(Finding(severity=Severity.WARNING, code="runtime_error", because="about unknown"), ("look for the first ERROR line of the runtime", "set NEURON_RT_LOG_LEVEL=INFO and run again")),
    "serving": Meaning(Finding(severity=Severity.WARNING, code="server_failed", because="about unknown"), ("read the first traceback of the worker processes, not the last one",)),
}  # fmt: skip


def meaning(category: str) -> Meaning:
    """What a category becomes; an unknown one becomes a compile failure of unknown cause."""
    return CATEGORIES.get(category, CATEGORIES["compiler_failed"])
