"""A complete dossier for the tests: every kind of record, with numbers that can be checked by hand.

BERT-base at sequence length 128, on demand in us-east-1:

    target  instance       $/h      results/s   $ per million at full load = 1e6 x $/h / (rate x 3600)
    l4      g6.xlarge      0.8048   2168.00     0.10312
    inf2    inf2.xlarge    0.7582   2674.19     0.07876
    trn1    trn1.2xlarge   1.34375  3421.57     0.10909

400 results a second on average and 1,200 at the peak: one instance each, so a million results cost
1e6 x $/h / (400 x 3600) = 0.5589, 0.5265 and 0.9332, and a month of 730 hours 587.50, 553.49 and 980.94.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from neuronfit import params, plausibility
from neuronfit.dossier import Dossier
from neuronfit.provenance import Estimated, Grade, Imported, Measured, Published, Quantity, absent
from neuronfit.record import (
    BucketAdvice,
    BucketChoice,
    Comparison,
    Compatibility,
    CompatibilityOfTarget,
    Compile,
    CompileOfBucket,
    CompileOfTarget,
    Cost,
    CostOfTarget,
    CriterionResult,
    Decision,
    Difference,
    Finding,
    Gate,
    Measurement,
    Monitor,
    MonitoredPart,
    NextMeasurement,
    OperatorAnalysis,
    OperatorUse,
    Pair,
    Parity,
    ParityMetric,
    ParitySide,
    Payback,
    PaybackOfTarget,
    Profile,
    Record,
    Run,
    Settings,
    Severity,
    Situation,
    SmallestFit,
    StageResult,
    Trial,
    TrialPlan,
    UnsupportedOperator,
    Utilization,
    UtilizationOfTarget,
    WorkloadRef,
)
from neuronfit.system import System

REF = WorkloadRef(name="bert-base-uncased", fingerprint="5f0c1d2e3a4b5c6d")
PRICE = {"l4": 0.8048, "inf2": 0.7582, "trn1": 1.34375}
INSTANCE = {"l4": "g6.xlarge", "inf2": "inf2.xlarge", "trn1": "trn1.2xlarge"}
RATE = {"l4": 2168.0, "inf2": 2674.19, "trn1": 3421.57}
MEAN, PEAK = 400.0, 1200.0
GIB = 2**30
HOURLY = tuple(MEAN * share for share in (0.2,) * 7 + (0.5, 1.0, 1.7, 2.1, 2.2, 2.0, 2.1, 2.2, 2.1, 1.9, 1.4, 0.9, 0.6, 0.5, 0.4, 0.3, 0.3))

QUESTION: dict[str, Any] = {
    "workload": {
        "name": "bert-base-uncased",
        "kind": "inference",
        "model": {"config": "params/models/bert-base-uncased/config.json", "task": "feature-extraction", "weights": "random"},
        "shapes": [{"batch_size": 1, "sequence_length": 128}, {"batch_size": 8, "sequence_length": 128}, {"batch_size": 16, "sequence_length": 128}],
        "precision": "fp32",
        "surroundings": [{"name": "tokenizer", "share": 0.1}, {"name": "feature store", "share": 0.3}],
    },
    "traffic": {"mean_per_s": MEAN, "peak_per_s": PEAK, "daily_shape": "office"},
    "objective": {"latency_p99_ms": 20, "error_rate": 0.001},
    "baseline": {"name": "l4", "instance_type": "g6.xlarge", "path": "cuda"},
    "candidates": [
        {"name": "inf2", "instance_type": "inf2.xlarge", "path": "neuron_xla"},
        {"name": "trn1", "instance_type": "trn1.2xlarge", "path": "neuron_xla"},
    ],
    "pricing": {"region": "us-east-1", "purchase_option": "on_demand"},
}


def question() -> dict[str, Any]:
    """The params mapping as step 1 stores it: defaults filled in."""
    return params.parse(QUESTION).model_dump(mode="json")


def every() -> list[Record]:
    """All records of the example in the order of the steps, sealed. Fixed times, so fixed ids."""
    figures = measurements()
    compared = comparison(figures)
    return [profile(), compatibility(), compiled(), *figures, compared, utilization(), cost(), payback(), trial_plan(), decision(compared)]


def dossier(folder: Path, *, without: tuple[type[Record], ...] = ()) -> Dossier:
    """The example admitted into ``folder``, except the kinds named in ``without``."""
    made = Dossier(folder)
    for record in every():
        if not isinstance(record, without):
            made.admit(record)
    return made


# -- one maker for each kind ------------------------------------------------------------------


def profile() -> Profile:
    parameters = 109_482_240
    return Profile(
        **_header(
            0, Estimated(formula="parameters counted on the meta device; traffic as declared", inputs={"config": "declared", "traffic": "declared"})
        ),
        question=question(),
        bottom_line="109.5 M parameters, 0.408 GiB as FP32; 400 results a second on average, 1,200 at the peak; three of the eight situations apply.",
        parameters=_estimate(parameters, "parameters"),
        weights={name: _estimate(parameters * size, "bytes") for name, size in (("fp32", 4), ("bf16", 2), ("int8", 1))},
        memory=_estimate(0.55 * GIB, "bytes"),
        rate_mean=_estimate(MEAN, "1/s", why="declared in the params file"),
        rate_peak=_estimate(PEAK, "1/s", why="declared in the params file"),
        monthly_volume=_estimate(MEAN * 730 * 3600, "1/month", why="mean rate x 730 h"),
        hourly_rate_per_s=HOURLY,
        model_share=_estimate(0.6, "fraction"),
        amdahl_bound=_estimate(2.5, "ratio"),
        situations=(
            Situation(
                name="large-scale inference",
                applies=True,
                because="1.05e+09 results a month; large from 100,000,000 (our assumption)",
                advice="Consider: a lower cost per result adds up, and pays for the engineering.",
            ),
            Situation(
                name="predictable high traffic",
                applies=True,
                because="peak is 3.0 times the mean; predictable up to 4 (our assumption)",
                advice="Consider: hardware that is bought by the hour stays busy.",
            ),
            Situation(name="large training", applies=False, because="kind is inference", advice="Consider Trainium: compare cost per run."),
            Situation(
                name="stable production",
                applies=True,
                because="stage is production, 0 model changes a month",
                advice="Consider: one compilation serves for months.",
            ),
            Situation(
                name="low utilization",
                applies=None,
                because="decided by offered load against capacity, in step 5",
                advice="If the hardware idles: right-size first.",
            ),
        ),
    ).sealed()


def compatibility() -> Compatibility:
    def target(name: str, path: str, title: str, memory_gib: float, **more: Any) -> CompatibilityOfTarget:
        return CompatibilityOfTarget(
            target=name,
            instance_type=INSTANCE[name],
            path=path,
            supported=True,
            title=title,
            as_of="2026-08-21",
            memory_needed=_estimate(0.55 * GIB, "bytes"),
            memory_available=_published(memory_gib * GIB, "bytes"),
            fits=True,
            **more,
        )

    frozen = Finding(
        severity=Severity.WARNING,
        code="path_in_maintenance",
        because="the XLA trace path ends with SDK 2.31 (torch 2.9); later SDKs do not carry it",
        next="plan one migration more, to TorchNeuron on Trn2 or Trn3",
        target="inf2",
    )
    neuron = dict(
        sdk="2.31",
        torch="2.9",
        python="3.10-3.12",
        status="in maintenance",
        advice="pin SDK 2.31",
        command="torch_neuronx.trace(model, example_inputs)",
        packages={"torch-neuronx": "2.9.0.2.15.32035"},
        contradictions=("Two pages pair different compilers.",),
    )
    return Compatibility(
        **_header(1, Published(title="AWS Neuron documentation", date="2026-08-21", conditions={"revision": "81ce03ae"})),
        findings=(
            frozen,
            Finding(
                severity=Severity.NOTE,
                code="operators_without_statement",
                because="2 of 23 operators are in no list: silence is not support",
                next="neuronfit run params/bert-base-uncased.yaml --steps 3",
            ),
        ),
        bottom_line="No documented blocker found. The software path is frozen: plan one migration more.",
        targets=(
            target("l4", "cuda", "CUDA", 22.35, status="supported", torch="2.13"),
            target("inf2", "neuron_xla", "XLA trace (torch-neuronx)", 32, **neuron, findings=(frozen,)),
            target("trn1", "neuron_xla", "XLA trace (torch-neuronx)", 32, **neuron),
        ),
        graph_how="exported with torch.export from the config, random weights",
        operators=(
            OperatorUse(name="aten.addmm", calls=72, status="listed", because="in the list of supported operators"),
            OperatorUse(name="aten.layer_norm", calls=25, status="listed", because="in the list of supported operators"),
            OperatorUse(name="aten.scaled_dot_product_attention", calls=12, status="restricted", because="decomposed before it is compiled"),
            OperatorUse(name="aten.gelu", calls=12, status="listed", because="in the list of supported operators"),
            OperatorUse(name="aten.expand_as", calls=2, status="no_statement", because="in no list"),
        ),
        smallest=(
            smallest_fit("aws_neuron", "inf2.xlarge", 2, reserve=96 * 2**20, room=16 * GIB),
            smallest_fit("nvidia", "g6f.large", 1, reserve=512 * 2**20, room=2_999_975_936),
        ),
    ).sealed()


def smallest_fit(vendor: str, instance_type: str, copies: int, reserve: int, room: int) -> SmallestFit:
    """One copy of 0.55 GiB on one NeuronCore or GPU.

    A NeuronCore of inf2.xlarge has 32 / 2 = 16 GiB: 0.55 + 96 / 1024 = 0.64375 are used and 1 - 0.64375 / 16 = 95.98 % free.
    An eighth of an L4 has 2.794 GiB: 0.55 + 0.5 = 1.05 are used and 1 - 1.05 / 2.794 = 62.42 % free.
    """
    used = 0.55 * GIB + reserve
    return SmallestFit(
        vendor=vendor,
        instance_type=instance_type,
        tp_degree=1,
        copies=copies,
        used=_estimate(used, "bytes"),
        room=_published(room, "bytes"),
        headroom=_estimate(1 - used / room, "fraction"),
    )


def compiled() -> Compile:
    waiting = "no Neuron compiler on this host"
    command = "neuronfit run params/bert-base-uncased.yaml --steps 3"
    return Compile(
        **_header(2, Estimated(formula="none: nothing was compiled", inputs={})),
        findings=tuple(
            Finding(severity=Severity.WAITING, code="compiler_absent", because=waiting, next=f"{command}, on a {INSTANCE[name]}", target=name)
            for name in ("inf2", "trn1")
        ),
        bottom_line="Waiting for a host with the Neuron compiler.",
        targets=(
            CompileOfTarget(
                target="l4", path="cuda", instance_type="g6.xlarge", status="not_needed", because="the CUDA path compiles while it loads"
            ),
            CompileOfTarget(target="inf2", path="neuron_xla", instance_type="inf2.xlarge", status="waiting", because=waiting, next=command),
            CompileOfTarget(target="trn1", path="neuron_xla", instance_type="trn1.2xlarge", status="waiting", because=waiting, next=command),
        ),
        advice=bucket_advice(),
    ).sealed()


def bucket_advice() -> BucketAdvice:
    """Half of the inputs have 32 tokens, a quarter 64 and a quarter 128: 64 on average.

    Padded to 128, 1 - 64 / 128 = 50 % is padding. Of two buckets 64 and 128 pad least: 80 tokens are
    computed, 1 - 64 / 80 = 20 %. Three pad nothing, and two are not within five points of that.
    """
    found = (((128,), 0.5), ((64, 128), 0.2), ((32, 64, 128), 0.0))
    choices = tuple(
        BucketChoice(count=len(edges), edges=edges, waste=_estimate(waste, "fraction"), compilations=_estimate(3.0 * len(edges) * 2, "count"))
        for edges, waste in found
    )
    return BucketAdvice(
        sentence="3 buckets (32, 64, 128 tokens) leave 0 % padding and need 18 compilations: 3 batch sizes x 3 buckets x 2 targets. "
        "The lengths of workload.shapes (128) leave 50 %.",
        rule="the fewest buckets whose padding is within 5 percentage points of that of 8 buckets",
        present=choices[0],
        choices=choices,
        recommended=3,
        batch_sizes=(1, 8, 16),
        targets=("inf2", "trn1"),
    )


def compiled_on_hardware() -> Compile:
    """One target of each outcome that the example dossier lacks: compiled, failed, kept from an earlier record. Not in :func:`every`."""
    versions = {"torch": "2.9.0", "torch_neuronx": "2.9.0.2.15.32035", "neuronxcc": "2.26.6360.0"}
    flags = ("--target", "inf2", "--auto-cast", "none", "--auto-cast-type", "bf16", "--optlevel", "2", "--model-type", "transformer")
    shapes = [{"batch_size": batch, "sequence_length": 128, "output_length": None} for batch in (1, 8, 16)]
    memory = "resident memory of the process and its children together (Python, torch and the model included), sampled every 0.1 s"

    def built(shape: dict[str, Any], seconds: float, size: int, peak: float) -> CompileOfBucket:
        return CompileOfBucket(
            shape=shape,
            status="compiled",
            because=f"batch {shape['batch_size']}, sequence 128 compiled in {seconds:g} s",
            proof="torch_neuronx.trace returned a compiled module",
            compile_time=_measurement(seconds, "s"),
            peak_memory=_measurement(peak * GIB, "bytes", memory),
            artefact_size=_measurement(size, "bytes"),
            artefact_sha256="ab" * 32,
            cached=False,
            cached_because="the weights are part of a traced artefact, which is never taken from the compile cache",
            versions=versions,
            flags=flags,
        )

    steps = ("reduce batch size, sequence length or image size, or split the model into parts that are compiled apart", "compile with -O1")
    why = "batch 16, sequence 128 failed after 312 s: NCC_EXTP004: The graph becomes too many instructions: 7,340,032 of 5,000,000."
    too_large = CompileOfBucket(
        shape=shapes[2],
        status="failed",
        because=why,
        next=steps[0],
        code="NCC_EXTP004",
        steps=steps,
        peak_memory=_measurement(9.5 * GIB, "bytes", memory),
        versions=versions,
        flags=flags,
        log="logs/inf2-b16-s128-0f3a9c21.log",
    )
    buckets = (built(shapes[0], 92.0, 231_000_000, 4.5), built(shapes[1], 141.0, 236_000_000, 6.25), too_large)
    analysis = OperatorAnalysis(
        shape=shapes[0],
        support=_measurement(0.995, "fraction"),
        supported={"aten::linear": 72, "aten::layer_norm": 25, "aten::add": 102},
        unsupported=(UnsupportedOperator(name="aten::sort", failure_at="neuronx-cc", call="model.py(12): forward"),),
        versions={"torch-neuronx": "2.9.0.2.15.32035", "neuronx-cc": "2.26.6360.0"},
        because="each of 200 operator calls compiled alone, at batch 1, sequence 128",
    )
    return Compile(
        **_header(2, Measured(host="compile-host", clock="time.perf_counter"), second=30),
        findings=(
            Finding(severity=Severity.WARNING, code="shape_failed", because=why, next=steps[0], target="inf2"),
            Finding(
                severity=Severity.NOTE,
                code="compile_evidence_kept",
                because="torch_neuronx 2.9.0.2.15.32035 is the route XLA trace; the imported result of record 1234567890abcdef stands",
                target="trn1",
            ),
        ),
        bottom_line="bert-base-uncased compiles for inf2 (233 s) and does not compile for trn1 (record 1234567890abcdef).",
        targets=(
            CompileOfTarget(
                target="l4", path="cuda", instance_type="g6.xlarge", status="not_needed", because="the CUDA path compiles while it loads"
            ),
            CompileOfTarget(
                target="inf2",
                path="neuron_xla",
                instance_type="inf2.xlarge",
                status="compiled",
                because="2 of 3 shapes compiled, every length among them, in 233 s",
                compile_time=_measurement(233.0, "s"),
                peak_memory=_measurement(9.5 * GIB, "bytes", memory),
                artefact_bytes=467_000_000,
                versions=versions,
                flags=flags,
                buckets=buckets,
                analysis=analysis,
                grade=Grade.MEASURED,
            ),
            CompileOfTarget(
                target="trn1",
                path="neuron_xla",
                instance_type="trn1.2xlarge",
                status="failed",
                because="a log says: FAILED: The operator is not supported. aten::sort",
                next="rewrite it with operators that are listed: neuronfit check names a rewrite where one is documented",
                code="NCC_EUOC002",
                grade=Grade.IMPORTED,
                record="1234567890abcdef",
            ),
        ),
        advice=bucket_advice(),
        system=System(host="compile-host", instance_type="m7i.8xlarge", packages=versions),
    ).sealed()


def measurements() -> list[Measurement]:
    """Headline figure of each target first in its group; the CPU of this host last, with raw values."""
    l4 = dict(precision="fp16", software="TensorRT 10.2", timed_region="device only: no host copies, no tokenization", input="synthetic")
    neuron = dict(
        precision="fp32_bf16_matmul",
        software="torch-neuronx 2.9",
        sdk="2.27",
        route="XLA trace",
        timed_region="host call to host result",
        input="synthetic",
    )
    tensorrt = Published(title="NVIDIA TensorRT BERT demo, performance table", date="2024-08", conditions={"GPU": "L4", "mode": "FP16"})
    aws = Published(
        title="AWS Neuron benchmarks, encoder inference", date="2025-12-19", conditions={"run mode": "data parallel"}, price_basis="ri_3yr_no_upfront"
    )
    rows = [
        ("l4", tensorrt, 8, l4, {"throughput_per_s": 2168.0, "latency_mean_s": 3.69e-3, "latency_p99_s": 3.83e-3}),
        ("l4", tensorrt, 1, l4, {"throughput_per_s": 1000.0, "latency_mean_s": 1.00e-3, "latency_p99_s": 1.06e-3}),
        ("inf2", aws, 8, neuron, {"throughput_per_s": 2674.19, "latency_p50_s": 5.974e-3, "latency_p99_s": 6.171e-3}),
        ("inf2", aws, 1, neuron, {"throughput_per_s": 1998.21, "latency_p50_s": 0.99897e-3, "latency_p99_s": 1.04046e-3}),
        ("trn1", aws, 16, neuron, {"throughput_per_s": 3421.57, "latency_p50_s": 9.345e-3, "latency_p99_s": 9.420e-3}),
        ("trn1", aws, 1, neuron, {"throughput_per_s": 2085.45, "latency_p50_s": 0.94295e-3, "latency_p99_s": 1.02854e-3}),
    ]
    published = [
        Measurement(
            **_header(3, source, second=place),
            target=target,
            instance_type=INSTANCE[target],
            settings=Settings(batch_size=batch, sequence_length=128, **settings),
            scenario="offline",
            results_per_call=batch,
            values=values,
            printed={name: f"{value:g}" for name, value in values.items()},
        )
        for place, (target, source, batch, settings, values) in enumerate(rows)
    ]
    return [*(_as_admitted(entry) for entry in published), cpu_measurement()]


def cpu_measurement() -> Measurement:
    """Three runs of 130 calls: enough for a p99 with an interval. The raw values follow a fixed pattern."""
    runs = tuple(
        Run(
            start_utc=f"2026-11-20T09:0{index}:00Z",
            duration_s=round(sum(_call_s(index, call) for call in range(130)), 6),
            cpu_s=round(sum(_call_s(index, call) for call in range(130)) * 7.6, 6),
            warmup_s=(0.412, 0.071, 0.034, 0.031),
            values_s=tuple(_call_s(index, call) for call in range(130)),
        )
        for index in range(3)
    )
    host = System(
        host="ci-runner",
        os="Linux 6.8",
        python="3.12.4",
        cpu="AMD EPYC 9R14",
        cores_physical=8,
        cores_logical=16,
        memory_bytes=32 * GIB,
        packages={"torch": "2.13.0+cpu", "transformers": "5.24.0"},
        absent={"accelerators": "no NVIDIA driver and no Neuron device"},
    )
    taken = Measurement(
        **_header(3, Measured(host="ci-runner", clock="time.perf_counter"), second=9),
        target="cpu",
        system=host,
        settings=Settings(
            batch_size=1,
            sequence_length=128,
            precision="fp32",
            software="torch 2.13.0+cpu",
            threads=8,
            timed_region="host call to host result",
            input="synthetic",
            weights="random",
        ),
        scenario="single_stream",
        results_per_call=1,
        runs=runs,
        settled=True,
        valid=True,
        validity="3 runs of 130 calls, settled after 4 warm-up calls",
    )
    return _as_admitted(taken)


def parity() -> Parity:
    """64 inputs: cosine 0.9997 at worst; 63 of 64 first answers agree, Wilson's interval 0.9167 to 0.9972."""
    same = dict(
        software="torch 2.9.1",
        weights="model.safetensors, 437,951,328 bytes",
        weights_sha256="a" * 64,
        inputs="prompts.jsonl, 64 prompts, sha256 bbbbbbbbbbbb",
        inputs_sha256="b" * 64,
        fed_sha256="c" * 64,
    )
    share = Quantity(value=63 / 64, low=0.916659, high=0.997236, confidence=0.95, unit="fraction", grade=Grade.MEASURED)
    return Parity(
        **_header(4, Measured(host="neuron-host", clock="none: no duration was taken"), second=30),
        baseline=ParitySide(
            target="l4",
            instance_type="g6.xlarge",
            host="gpu-host",
            computed_utc="2026-11-20T08:00:00Z",
            precision="fp32",
            autocast="none",
            route="eager",
            file_sha256="d" * 64,
            **same,
        ),
        candidate=ParitySide(
            target="inf2",
            instance_type="inf2.xlarge",
            host="neuron-host",
            computed_utc="2026-11-20T09:00:00Z",
            precision="fp32_bf16_matmul",
            autocast="matmult bf16",
            route="XLA trace",
            **same,
        ),
        verdict="pass",
        level="answers",
        bottom_line="inf2 answers as l4 does: cosine similarity 0.9997 at worst over 64 inputs, at least 0.99 wanted.",
        judged_by="cosine",
        metrics=(
            ParityMetric(metric="cosine", statistic="worst", value=_measurement(0.9997, "cosine"), samples=64, tolerance=0.99, kept=True),
            ParityMetric(metric="cosine", statistic="mean", value=_measurement(0.9999, "cosine"), samples=64),
            ParityMetric(metric="top1_agreement", statistic="share", value=share, samples=64),
        ),
        samples=64,
        compared="the 64 largest of 30,522 logits of the baseline and the sum of all, of each input at up to 16 positions",
        system=System(host="neuron-host", instance_type="inf2.xlarge"),
    ).sealed()


def comparison(figures: list[Measurement]) -> Comparison:
    best = {
        target: max((entry for entry in figures if entry.target == target), key=lambda entry: entry.quantity("throughput_per_s").value)
        for target in (*INSTANCE, "cpu")
    }
    differences = (
        Difference(setting="precision of products", baseline="fp16", candidate="fp32_bf16_matmul", matters=True),
        Difference(setting="timed region", baseline="device only", candidate="host call to host result", matters=True),
        Difference(setting="software", baseline="TensorRT 10.2", candidate="torch-neuronx 2.9", matters=False),
    )
    pairs = tuple(
        Pair(
            candidate=name,
            mode="matched" if name == "inf2" else "best",
            baseline_record=best["l4"].id,
            candidate_record=best[name].id,
            throughput=Quantity(value=RATE[name] / RATE["l4"], unit="ratio", grade=Grade.PUBLISHED, why="without an interval"),
            latency_p50=absent("ratio", "l4 has no latency p50"),
            latency_p99=Quantity(value=p99 / 3.83, unit="ratio", grade=Grade.PUBLISHED, why="without an interval"),
            verdict="not_comparable",
            differences=differences,
            sentence=f"{name} answers {RATE[name] / RATE['l4']:.2f}x as many a second as l4, but the two were not taken alike: precision of products, timed region differ.",
        )
        for name, p99 in (("inf2", 6.171), ("trn1", 9.420))
    )
    waiting = tuple(
        Finding(
            severity=Severity.WAITING,
            code="not_measured",
            because=f"{name} rests on a published figure; nobody has measured this workload there",
            next=f"neuronfit measure params/bert-base-uncased.yaml --target {name}, on a {INSTANCE[name]}",
            target=name,
        )
        for name in INSTANCE
    )
    return Comparison(
        **_header(4, Estimated(formula="ratio candidate / baseline; verdict needs both ends beyond the margin", inputs={"figures": "published"})),
        findings=(*waiting, Finding(severity=Severity.WARNING, code="not_comparable", because=pairs[0].sentence, target="inf2")),
        bottom_line="6 published figures and 1 measured on this host's CPU; not comparable yet: precision and timed region differ.",
        headline={target: entry.id for target, entry in best.items()},
        pairs=pairs,
        margin=0.05,
        confidence=0.95,
    ).sealed()


def utilization() -> Utilization:
    rows = tuple(
        UtilizationOfTarget(
            target=name,
            instance_type=INSTANCE[name],
            capacity_per_instance=_published(rate, "1/s"),
            instances=_estimate(1, "instances"),
            offered_mean=_estimate(MEAN, "1/s"),
            offered_peak=_estimate(PEAK, "1/s"),
            busy_mean=_estimate(MEAN / rate, "fraction"),
            busy_peak=_estimate(PEAK / rate, "fraction"),
            sentence=f"One {INSTANCE[name]} covers the peak and is {MEAN / rate:.0%} busy on average.",
        )
        for name, rate in RATE.items()
    )
    return Utilization(
        **_header(5, Estimated(formula="offered rate / (instances x capacity)", inputs={"capacity": "published", "traffic": "declared"})),
        findings=(
            Finding(
                severity=Severity.WARNING,
                code="low_utilization",
                because="l4 is 18% busy on average, 30% wanted",
                next="share the instance or take a smaller one before migrating",
                target="l4",
            ),
        ),
        bottom_line="18 % busy on average today; 82 % of the bill is idle time.",
        targets=rows,
    ).sealed()


def monitor() -> Monitor:
    """The baseline's GPU, adopted: busy 3.67 % of the time on average."""
    seen = {"grade": Grade.IMPORTED}
    busy = {"busy_metric": "gpu_kernel_active", "busy_mean": Quantity(value=0.0367, unit="fraction", **seen)}
    return Monitor(
        **_header(5, Imported(file="gpu.csv", sha256="0" * 64, tool="nvidia-smi", missing=("work done (FLOP/s or tensor activity)",)), 1),
        bottom_line="l4: 1 device (NVIDIA L4), 107 samples over 106 s; a kernel ran 3.7% of the time.",
        target="l4",
        instance_type="g6.xlarge",
        format="nvidia_csv",
        start_utc="2026-11-20T09:00:00Z",
        span=Quantity(value=106.0, unit="s", **seen),
        samples=107,
        **busy,
        parts=(
            MonitoredPart(
                device="0",
                name="NVIDIA L4",
                samples=107,
                **busy,
                busy_median=Quantity(value=0.01, unit="fraction", **seen),
                busy_p95=Quantity(value=0.11, unit="fraction", **seen),
                idle=Quantity(value=0.495, unit="fraction", **seen),
                memory_used=Quantity(value=1094 * 2**20, unit="bytes", **seen),
                memory_total=Quantity(value=23034 * 2**20, unit="bytes", **seen),
                power=Quantity(value=30.0, unit="W", **seen),
                work=absent("FLOP/s", "not recorded"),
                work_share=absent("fraction", "no work was recorded"),
            ),
        ),
        quantities={"power_w": Quantity(value=30.0, unit="W", **seen)},
        recorded=("gpu_kernel_active", "memory_used_bytes", "memory_total_bytes", "power_w"),
        facts={"driver": "550.54.15"},
    ).sealed()


def cost() -> Cost:
    base = PRICE["l4"]
    rows = tuple(
        CostOfTarget(
            target=name,
            instance_type=INSTANCE[name],
            result_unit="inference",
            price=_published(PRICE[name], "USD/h", why="AWS Price List, 2026-07-20"),
            price_as_of="2026-07-20",
            full_load=_published(1e6 * PRICE[name] / (rate * 3600), "USD/1e6"),
            expected=_estimate(1e6 * PRICE[name] / (MEAN * 3600), "USD/1e6"),
            per_month=_estimate(PRICE[name] * 730, "USD/month"),
            efficiency=_published(rate / PRICE[name], "1/s/(USD/h)"),
            break_even_throughput=absent("1/s", "this is the baseline") if name == "l4" else _published(base * rate / PRICE[name], "1/s"),
            break_even_utilization=absent("fraction", "this is the baseline")
            if name == "l4"
            else _estimate((PRICE[name] / rate) / (base / MEAN), "fraction"),
            break_even_price=absent("USD/h", "this is the baseline") if name == "l4" else _published(base / RATE["l4"] * rate, "USD/h"),
            other_bases={
                "on_demand": _published(1e6 * PRICE[name] / (rate * 3600), "USD/1e6"),
                "ri_3yr_no_upfront": _published(1e6 * reserved / (rate * 3600), "USD/1e6"),
                "capacity_block": absent("USD/1e6", "no capacity_block price in us-east-1"),
            },
            sentence=f"{name} ({INSTANCE[name]}): ${1e6 * PRICE[name] / (rate * 3600):.3f} per million at full load, ${1e6 * PRICE[name] / (MEAN * 3600):.3f} at your traffic.",
        )
        for (name, rate), reserved in zip(RATE.items(), (0.3694, 0.32754, 0.51229))
    )
    return Cost(
        **_header(
            6,
            Estimated(
                formula="1e6 x hourly price x instances / (throughput x 3600 x utilization x success rate)",
                inputs={"price": "published", "throughput": "published"},
            ),
        ),
        findings=(
            Finding(
                severity=Severity.NOTE,
                code="printed_on_another_basis",
                because="the source prints $0.0341 per million on ri_3yr_no_upfront; here it is $0.079",
                target="inf2",
            ),
        ),
        bottom_line="$0.527 against $0.559 a million at your traffic: the saving shrinks from 24 % at full load to 6 %.",
        region="us-east-1",
        purchase_option="on_demand",
        targets=rows,
    ).sealed()


def payback() -> Payback:
    def target(name: str) -> PaybackOfTarget:
        saving = (PRICE["l4"] - PRICE[name]) * 730
        return PaybackOfTarget(
            target=name,
            saving_per_month=_estimate(saving, "USD/month"),
            upkeep_per_month=_estimate(1000, "USD/month"),
            effort=Quantity(value=22, low=15, high=31, confidence=0.9, unit="person-days", grade=Grade.ESTIMATED),
            effort_usd=Quantity(value=22000, low=15000, high=31000, confidence=0.9, unit="USD", grade=Grade.ESTIMATED),
            payback_month=absent("months", "upkeep is more than the saving"),
            probability=_estimate(0, "fraction"),
            cumulative_usd=tuple(round(-22000 + (saving - 1000) * month, 2) for month in range(37)),
            volume_needed=_estimate(47, "ratio") if saving > 0 else absent("ratio", "it saves nothing at any volume"),
            sentence=f"{name} {'saves' if saving > 0 else 'costs'} ${abs(saving):,.0f} a month {'before' if saving > 0 else 'more before'} $1,000 of upkeep: it does not pay back within 36 months.",
        )

    return Payback(
        **_header(
            7,
            Estimated(
                formula="first month in which cumulative saving exceeds migration and upkeep, over 10,000 draws",
                inputs={"effort": "assumed", "saving": "estimated"},
            ),
        ),
        bottom_line="22 person-days (15 to 31); does not pay back within 36 months below 47 times today's volume.",
        horizon_months=36,
        targets=(target("inf2"), target("trn1")),
    ).sealed()


def trial_plan() -> TrialPlan:
    stages = (("shadow", 0.0, 60), ("canary 1 %", 0.01, 60), ("canary 10 %", 0.1, 120), ("canary 50 %", 0.5, 240))
    return TrialPlan(
        **_header(8, Estimated(formula="plan from the params file; nothing was run", inputs={"trial": "declared"})),
        findings=(
            Finding(
                severity=Severity.WAITING,
                code="endpoints_unknown",
                because="trial.baseline_url and trial.candidate_url not declared, so no request can be sent",
                next="add them to params/bert-base-uncased.yaml",
            ),
        ),
        bottom_line="Plan registered: inf2 against l4 in 4 stages, at least 8 hours, rollback first. It waits for both endpoints.",
        candidate="inf2",
        baseline="l4",
        hypothesis="On the same requests inf2 (inf2.xlarge) is not worse than l4 (g6.xlarge) in latency, errors and answers.",
        criteria=(
            "latency p99 of the candidate at most 1.05 x the baseline's and 20 ms",
            "error rate at most 0.100%",
            "at least 99.0% of paired answers agree",
        ),
        stages=tuple(
            {"name": name, "share": share, "duration_min": minutes, "expected_requests": round(MEAN * minutes * 60 * (share or 1))}
            for name, share, minutes in stages
        ),
        guardrails=("error rate above 0.200% in any minute: all traffic back to the baseline",),
        rollback=("set the candidate's traffic weight to 0", "confirm by responses that the baseline answers every request"),
        endpoints={"baseline": None, "candidate": None},
    ).sealed()


def trial(plan: TrialPlan) -> Trial:
    """A test that a guardrail stopped in its first split stage."""
    share = {"unit": "fraction", "grade": "measured", "confidence": None}
    return Trial(
        **_header(8, Measured(host="gpu-host", clock="time.perf_counter"), second=1),
        findings=(
            Finding(
                severity=Severity.BLOCKER,
                code="guardrail_breached",
                because="error_rate: 9 of 144 requests failed (at least 1.32%, 0.20% is allowed), the last with: http 500: out of device memory",
                next="find the cause before another test",
                target="inf2",
            ),
        ),
        bottom_line="Stopped by a guardrail, error_rate: 9 of 144 requests failed. Traffic went back to l4.",
        plan=plan.id,
        candidate="inf2",
        baseline="l4",
        status="aborted",
        valid=True,
        started_utc="2026-11-30T12:00:00.000Z",
        criteria=(
            CriterionResult(
                criterion="agreement",
                stage="shadow",
                outcome="passed",
                because="14,390 of 14,400 paired answers agree, at least 99.000% is asked",
                value=Quantity(value=14390 / 14400, low=0.9983, high=0.9998, **share),
                count=14400,
            ),
            CriterionResult(
                criterion="error_rate",
                stage="canary 1 %",
                outcome="failed",
                because="9 of 144 of the candidate's requests failed, at most 0.100% is asked",
                value=Quantity(value=9 / 144, low=0.0132, high=0.1741, **share),
                count=144,
            ),
        ),
        overall={"agreement": "passed", "error_rate": "failed"},
        stages=(
            StageResult(
                name="shadow",
                mode="shadow",
                share=0.0,
                asked={"baseline": 14400, "candidate": 14400},
                failed={"baseline": 0, "candidate": 0},
                duration_s=3600.0,
            ),
            StageResult(
                name="canary 1 %",
                mode="split",
                share=0.01,
                asked={"baseline": 14256, "candidate": 144},
                failed={"baseline": 0, "candidate": 9},
                duration_s=36.0,
            ),
        ),
        breaches=("error_rate: 9 of 144 requests failed",),
        rehearsed=True,
        rolled_back=True,
        log="trial/x.jsonl",
        log_sha256="0" * 64,
    ).sealed()


def decision(compared: Comparison) -> Decision:
    published, estimated = Grade.PUBLISHED, Grade.ESTIMATED
    command = "neuronfit measure params/bert-base-uncased.yaml --target l4"
    return Decision(
        **_header(
            9, Estimated(formula="nine gates in order; the first one not passed decides", inputs={"fits": "estimated", "comparable": "published"})
        ),
        verdict="gather_evidence",
        headline="Measure before you decide.",
        sentence=(
            "On published figures inf2.xlarge would answer a million requests for $0.079, 24% less than g6.xlarge’s $0.103 at full load. "
            "It stops at the gate “comparable”: the figures differ in precision of products, timed region."
        ),
        reasons=(
            "It needs 0.55 GiB of 32 GiB on inf2.xlarge, no documented blocker found; the XLA trace path is in maintenance.",
            "The figures differ in precision of products (fp16 against fp32_bf16_matmul) and timed region (device only against host call to host result).",
            "At your traffic l4 would be 18% busy on average and inf2 15%; with 1 and 1 instances the difference is 6% less.",
            "Break-even at full load: l4 is the cheaper one if it answers more than 2,839/s; the published figure at batch 8 is 2,168/s.",
            "trn1.2xlarge: $0.109 per million, 6% more than l4 at full load.",
        ),
        candidate="inf2",
        gates=(
            Gate(name="fits", status="pass", because="0.55 GiB of 32 GiB accelerator memory", grade=estimated),
            Gate(name="compiles", status="pass", because="not compiled here; a published figure says that this model runs there", grade=published),
            Gate(
                name="comparable",
                status="fail",
                because="the figures differ in precision of products, timed region",
                grade=published,
                record=compared.id,
            ),
            Gate(name="parity", status="open", because="no outputs have been compared yet"),
            Gate(name="objective", status="pass", because="published latency 6.17 ms of 20 ms, before queueing", grade=published),
            Gate(name="busy", status="fail", because="15% busy on average, 30% wanted", grade=estimated),
            Gate(name="cheaper", status="pass", because="24% less at the same batch; 6% less at your traffic", grade=estimated),
            Gate(name="pays back", status="fail", because="upkeep is more than the saving", grade=estimated),
            Gate(name="trial", status="open", because="planned, not run"),
        ),
        weakest_grade=estimated,
        next_measurement=NextMeasurement(
            target="l4",
            why="The GPU you already run. If it answers more than 2,839/s at batch 8, the question is settled without renting Neuron hardware.",
            command=command,
            host="one g6.xlarge",
            minutes=12,
            usd=_estimate(0.8048 * 12 / 60, "USD"),
        ),
    ).sealed()


# -- parts ------------------------------------------------------------------------------------


def _header(step: int, source: Any, second: int = 0) -> dict[str, Any]:
    return {"workload": REF, "source": source, "created_utc": f"2026-11-20T09:{10 + step:02d}:{second:02d}.000000Z"}


def _as_admitted(measurement: Measurement) -> Measurement:
    """With the findings that admission recomputes, so that admitting it changes nothing."""
    return measurement.model_copy(update={"findings": plausibility.check(measurement)}).sealed()


def _estimate(value: float, unit: str, why: str | None = None) -> Quantity:
    return Quantity(value=value, unit=unit, grade=Grade.ESTIMATED, why=why)


def _measurement(value: float, unit: str, why: str | None = None) -> Quantity:
    return Quantity(value=value, unit=unit, grade=Grade.MEASURED, why=why)


def _published(value: float, unit: str, why: str | None = None) -> Quantity:
    return Quantity(value=value, unit=unit, grade=Grade.PUBLISHED, why=why)


def _call_s(run: int, call: int) -> float:
    """Latency of one call, seconds: 28 ms with a saw-tooth of 3 ms and a slow call now and then."""
    return round(0.028 + 0.0002 * run + 0.003 * ((call * 37) % 23) / 23 + (0.009 if call % 97 == 96 else 0), 6)


def golden() -> dict[str, Record]:
    """One record of each kind; the measurement is the one with raw values."""
    return {record.kind: record for record in (*every(), parity(), monitor(), trial(trial_plan()))}


if __name__ == "__main__":  # writes tests/data/records: only for a new kind or a new schema version
    folder = Path(__file__).parent / "data" / "records"
    folder.mkdir(parents=True, exist_ok=True)
    for kind, record in golden().items():
        (folder / f"{kind}.json").write_text(record.to_json(), encoding="utf-8")
