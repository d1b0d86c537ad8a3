"""Each path does what its contract says: on the CPU for real, on Neuron against documented doubles."""

import ast
import importlib.util
import os
import sys
import types
from pathlib import Path

import doubles
import psutil
import pytest
import torch
from neuronfit import model, system, targets
from neuronfit.errors import BadInput, BadParams, WaitingForEvidence
from neuronfit.params import Shape
from neuronfit.targets import Subject

TINY = {
    "model_type": "bert",
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 64,
    "vocab_size": 200,
    "max_position_embeddings": 64,
}
SHAPE = Shape(batch_size=2, sequence_length=16)


def subject(**changes):
    return Subject(**{"config": TINY, "task": "feature-extraction", **changes})


def made(path, **changes):
    return targets.for_path(path)(subject(**changes))


@pytest.fixture
def expected():
    built = model.build(TINY, "feature-extraction")
    return model.call(built, model.example_inputs(TINY, "feature-extraction", 2, 16), "feature-extraction").last_hidden_state


@pytest.mark.parametrize("path", targets.MEASURED_HERE)
def test_every_path_keeps_the_protocol(path):
    kind = targets.for_path(path)
    assert kind.path == path and "precision" in kind.settings
    assert all(callable(getattr(kind, name)) for name in ("prepare", "issue", "drain", "describe"))


def test_an_unknown_path_names_those_that_exist():
    with pytest.raises(BadInput, match="cpu, cuda, neuron_xla, neuron_native"):
        targets.for_path("jax")


# -- cpu --------------------------------------------------------------------------------------


def test_the_cpu_computes_what_the_model_says(expected):
    threads = torch.get_num_threads()
    target = made("cpu", settings={"threads": 1})
    try:
        target.prepare(SHAPE)
        assert torch.get_num_threads() == 1
        target.issue()
        target.drain()
    finally:
        torch.set_num_threads(threads)
    torch.testing.assert_close(target._output.last_hidden_state, expected, rtol=1e-4, atol=1e-5)
    assert not target._output.last_hidden_state.requires_grad
    assert target.describe()["threads"] == 1


def test_the_cpu_uses_the_physical_cores_unless_told(monkeypatch):
    monkeypatch.setattr(system, "physical_cores", lambda: 7)
    assert made("cpu").describe()["threads"] == 7


def test_the_cpu_generates_text():
    config = {
        "model_type": "llama",
        "hidden_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "intermediate_size": 64,
        "vocab_size": 100,
        "max_position_embeddings": 64,
    }
    target = made("cpu", config=config, task="text-generation")
    target.prepare(Shape(batch_size=1, sequence_length=8, output_length=3))
    target.issue()
    assert target._output.shape == (1, 11)


@pytest.mark.parametrize("threads", [0, True, "two"])
def test_threads_are_a_whole_number(threads):
    with pytest.raises(BadParams, match="settings.threads"):
        made("cpu", settings={"threads": threads})


def test_memory_is_checked_before_anything_is_built(monkeypatch):
    monkeypatch.setattr(system, "memory_available", lambda: 2**20 // 10)
    monkeypatch.setattr(model, "build", lambda *given, **options: pytest.fail("allocated"))
    with pytest.raises(WaitingForEvidence) as caught:
        made("cpu", command="neuronfit measure params/x.yaml --target cpu").prepare(SHAPE)
    assert "GiB needed" in str(caught.value) and "GiB available" in str(caught.value)
    assert "neuronfit measure params/x.yaml --target cpu" in str(caught.value)


def test_unknown_memory_stops_nothing():
    targets.check_memory(subject(), SHAPE, None, "host")


# -- cuda -------------------------------------------------------------------------------------


@pytest.mark.skipif(torch.cuda.is_available(), reason="this host has a GPU")
def test_without_a_gpu_cuda_waits():
    with pytest.raises(WaitingForEvidence, match="on a g6.xlarge: neuronfit measure"):
        made("cuda", instance_type="g6.xlarge").prepare(SHAPE)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_the_gpu_computes_what_the_model_says(expected):
    target = made("cuda")
    target.prepare(SHAPE)
    for _ in range(2):
        target.issue()
        target.drain()
    assert target._answers[0].device.type == "cpu"
    torch.testing.assert_close(target._answers[0], expected, rtol=1e-3, atol=1e-4)


def test_what_is_switched_on_for_the_gpu_is_described():
    assert made("cuda").describe()["precision"] == "fp32"
    on = made("cuda", settings={"tf32": True, "compile": True}).describe()
    assert (on["precision"], on["route"], on["tf32"]) == ("tf32", "torch.compile", True)
    assert made("cuda", precision="fp16", settings={"tf32": True}).describe()["precision"] == "fp16"
    with pytest.raises(BadParams, match="true or false"):
        made("cuda", settings={"tf32": "yes"})


# -- neuron, XLA ------------------------------------------------------------------------------


def test_a_trace_has_explicit_flags_and_gives_the_models_answer(monkeypatch, expected):
    double = doubles.install(monkeypatch, "xla")
    target = made("neuron_xla", instance_type="inf2.xlarge")
    target.prepare(SHAPE)
    (call,) = double.calls
    assert call["flags"] == {"--target": "inf2", "--auto-cast": "none", "--auto-cast-type": "bf16", "--optlevel": "2", "--model-type": "transformer"}
    assert call["cpu_backend"] is False and isinstance(call["func"], torch.nn.Module)
    target.issue()
    target.drain()
    assert all(one.device.type == "cpu" for one in target._output)
    torch.testing.assert_close(target._output[0], expected, rtol=1e-4, atol=1e-5)


def test_the_compiled_shape_is_frozen(monkeypatch):
    doubles.install(monkeypatch, "xla")
    target = made("neuron_xla", instance_type="trn1.2xlarge")
    target.prepare(SHAPE)
    longer = targets.inputs_of(target.subject, Shape(batch_size=2, sequence_length=17))
    with pytest.raises(RuntimeError, match="compiled for"):
        target._traced(*longer.values())


@pytest.mark.parametrize(
    ("settings", "precision", "autocast"),
    [
        ({}, "fp32", "none"),
        ({"auto_cast": "matmult"}, "fp32_bf16_matmul", "matmult bf16"),
        ({"auto_cast": "matmult", "auto_cast_type": "tf32"}, "tf32", "matmult tf32"),
        ({"auto_cast": "all"}, "bf16", "all bf16"),
    ],
)
def test_the_precision_is_what_the_products_run_in(monkeypatch, settings, precision, autocast):
    double = doubles.install(monkeypatch, "xla")
    target = made("neuron_xla", instance_type="inf2.xlarge", settings=settings)
    described = target.describe()
    assert (described["precision"], described["autocast"]) == (precision, autocast)
    target.prepare(SHAPE)
    assert double.calls[0]["flags"]["--auto-cast-type"] == (autocast.split()[1] if settings else "bf16")
    assert "--auto-cast" in described["compiler_flags"]


def test_without_a_device_the_trace_is_compiled_for_the_declared_one(monkeypatch):
    double = doubles.install(monkeypatch, "xla", device=False)
    made("neuron_xla", instance_type="inf2.xlarge").prepare(SHAPE)
    assert double.calls[0]["cpu_backend"] is True and double.calls[0]["flags"]["--target"] == "inf2"


@pytest.mark.parametrize(
    ("instance_type", "compiler", "passed"),
    [
        ("trn2.48xlarge", "2.27.5334.0", {"--native-int64": "disabled", "--implicit-integer-downcast": "all"}),
        ("trn2.48xlarge", "2.26.6360.0+f1a2", {}),
        ("trn1.2xlarge", "2.27.5334.0", {}),
    ],
)
def test_both_int64_flags_are_stated_where_the_compiler_knows_them(monkeypatch, instance_type, compiler, passed):
    """A compiler before 2.27 refuses them as unknown, and so does the double."""
    double = doubles.install(monkeypatch, "xla")
    monkeypatch.setattr(sys.modules["neuronxcc"], "__version__", compiler)
    made("neuron_xla", instance_type=instance_type).prepare(SHAPE)
    assert {flag: value for flag, value in double.calls[0]["flags"].items() if "int" in flag} == passed


def test_the_int64_flags_can_be_chosen(monkeypatch):
    double = doubles.install(monkeypatch, "xla")
    monkeypatch.setattr(sys.modules["neuronxcc"], "__version__", "2.27.5334.0")
    settings = {"native_int64": "enabled", "implicit_integer_downcast": "none"}
    made("neuron_xla", instance_type="trn2.48xlarge", settings=settings).prepare(SHAPE)
    flags = double.calls[0]["flags"]
    assert (flags["--native-int64"], flags["--implicit-integer-downcast"]) == ("enabled", "none")
    with pytest.raises(BadParams, match="settings.native_int64"):
        made("neuron_xla", instance_type="trn2.48xlarge", settings={"native_int64": "on"})


def test_half_precision_inputs_follow_the_model(monkeypatch):
    double = doubles.install(monkeypatch, "xla")
    vit = {
        "model_type": "vit",
        "hidden_size": 32,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "intermediate_size": 64,
        "image_size": 32,
        "patch_size": 16,
    }
    target = made("neuron_xla", config=vit, task="image-classification", precision="bf16", instance_type="inf2.xlarge")
    target.prepare(Shape(batch_size=1, sequence_length=1))
    assert double.calls[0]["inputs"][0].dtype == torch.bfloat16


def test_the_placeholder_waits_and_says_so(monkeypatch):
    doubles.install(monkeypatch, "wrong_package")
    with pytest.raises(WaitingForEvidence, match="WRONG PACKAGE"):
        made("neuron_xla", instance_type="inf2.xlarge").prepare(SHAPE)


def test_a_gpu_type_has_no_compiler_target():
    with pytest.raises(WaitingForEvidence, match="no compiler target"):
        made("neuron_xla", instance_type="g6.xlarge")


def test_the_double_refuses_what_the_documentation_refuses(monkeypatch):
    double = doubles.install(monkeypatch, "xla")
    linear, example = torch.nn.Linear(2, 2), torch.ones(1, 2)
    with pytest.raises(TypeError, match="keyword-only"):
        double.trace(linear, example, {})
    with pytest.raises(ValueError, match="--target"):
        double.trace(linear, example, cpu_backend=True)
    with pytest.raises(RuntimeError, match="unrecognized"):
        double.trace(linear, example, compiler_args="--auto-cast matmul")
    with pytest.raises(RuntimeError, match="unrecognized"):
        double.trace(linear, example, compiler_args="--target inf2 --native-int64=disabled")
    with pytest.raises(TypeError, match="unexpected keyword"):
        double.analyze(linear, example, workers=1)
    assert double.analyze(linear, example)["support_percentage"] == "100.00%"


def test_the_double_deadlocks_on_a_transformers_model_as_documented(monkeypatch, tmp_path):
    double = doubles.install(monkeypatch, "xla", device=False)
    target = made("neuron_xla", instance_type="inf2.xlarge")
    target.build(SHAPE)
    with pytest.raises(RuntimeError, match="deadlock"):
        double.analyze(target._function, target._inputs)
    assert target.analyze(tmp_path)["supported_operators"] == {"aten::linear": 3}
    assert double.analyses[-1]["is_hf_transformers"] is True and double.analyses[-1]["compiler_workdir"] == str(tmp_path)


# -- neuron, native ---------------------------------------------------------------------------


def test_native_compiles_in_prepare_and_reads_back_before_the_clock_stops(monkeypatch, expected):
    monkeypatch.delenv("TORCH_NEURONX_DISABLE_FALLBACK_EXECUTION", raising=False)
    double = doubles.install(monkeypatch, "native")
    target = made("neuron_native", instance_type="trn2.3xlarge")
    target.prepare(SHAPE)
    assert os.environ["TORCH_NEURONX_DISABLE_FALLBACK_EXECUTION"] == "1"
    assert double.log[:4] == ["to", "reset", "compile", "execute"] and set(double.log[4:]) == {"read back", "execute"}
    double.log.clear()
    target.issue()
    assert double.log == ["execute"], "no compilation in a timed call"
    target.drain()
    assert double.log[1:] == ["read back"] * len(target._output) and target._output
    torch.testing.assert_close(target._answers[0], expected, rtol=1e-4, atol=1e-5)


def test_native_raises_where_it_would_fall_back(monkeypatch):
    double = doubles.install(monkeypatch, "native")
    monkeypatch.setenv("TORCH_NEURONX_DISABLE_FALLBACK_EXECUTION", "0")
    double.fail_with.append(RuntimeError("NCC_EVRF004: operator not supported"))
    with pytest.raises(RuntimeError, match="NCC_EVRF004"):
        made("neuron_native", instance_type="trn2.3xlarge").prepare(SHAPE)


def test_raising_is_the_default_of_the_double_and_falling_back_a_choice(monkeypatch):
    double = doubles.install(monkeypatch, "native")
    monkeypatch.delenv("TORCH_NEURONX_DISABLE_FALLBACK_EXECUTION", raising=False)
    model_there = torch.nn.Linear(2, 2).to("neuron")
    double.fail_with += [RuntimeError("NCC_EVRF004"), RuntimeError("NCC_EVRF004")]
    with pytest.raises(RuntimeError, match="NCC_EVRF004"):
        double.Compiled(model_there)(input=torch.ones(1, 2).to("neuron"))
    monkeypatch.setenv("TORCH_NEURONX_DISABLE_FALLBACK_EXECUTION", "0")
    double.Compiled(model_there)(input=torch.ones(1, 2).to("neuron"))
    assert "fell back to eager" in double.log and double.get_dynamo_metrics() == []


def test_every_shape_starts_from_a_reset_and_proves_its_own_graph(monkeypatch):
    double = doubles.install(monkeypatch, "native")
    target = made("neuron_native", instance_type="trn2.3xlarge")
    for length in (16, 32):
        target.prepare(Shape(batch_size=1, sequence_length=length))
        assert target.proof == "get_dynamo_metrics: 1 graph, 412 nodes, 3.2 s in the compiler" and target.cached is False
    assert [word for word in double.log if word in ("reset", "compile")] == ["reset", "compile"] * 2


def test_without_metrics_of_a_graph_nothing_counts_as_compiled(monkeypatch):
    double = doubles.install(monkeypatch, "native")
    monkeypatch.setattr(double, "get_dynamo_metrics", list)
    with pytest.raises(targets.NotProven, match="no compiled graph"):
        made("neuron_native", instance_type="trn2.3xlarge").prepare(SHAPE)
    monkeypatch.delattr(double, "get_dynamo_metrics")
    with pytest.raises(targets.NotProven, match="has no get_dynamo_metrics"):
        made("neuron_native", instance_type="trn2.3xlarge").prepare(SHAPE)


def test_metrics_without_compile_time_leave_the_cache_open(monkeypatch):
    double = doubles.install(monkeypatch, "native")
    monkeypatch.setattr(double.Graph, "__init__", lambda self: self.__dict__.update(graph_node_count=412, torch_neuronx_compile_us=0))
    target = made("neuron_native", instance_type="trn2.3xlarge")
    target.prepare(SHAPE)
    assert target.cached is None and "no time" in target.cached_because


def test_flags_from_the_environment_belong_to_what_was_compiled_with(monkeypatch):
    monkeypatch.setenv("NEURON_CC_FLAGS", "--cache_dir=/home/ada/cache -O1")
    assert made("neuron_native").describe()["compiler_flags"].endswith("NEURON_CC_FLAGS=--cache_dir=/home/(user)/cache -O1")


def test_the_model_is_one_graph_without_breaks():
    """What the native path asks of the model, with torch's own tracer in place of the Neuron backend."""
    built = model.build(TINY, "feature-extraction")
    compiled = torch.compile(built, backend="eager", fullgraph=True, dynamic=False)
    inputs = model.example_inputs(TINY, "feature-extraction", 2, 16)
    answer = targets.tensors_of(model.call(compiled, inputs, "feature-extraction"))
    torch.testing.assert_close(answer[0], model.call(built, inputs, "feature-extraction").last_hidden_state)


@pytest.mark.parametrize("path", ["neuron_xla", "neuron_native"])
def test_generation_is_not_one_graph(monkeypatch, path):
    doubles.install(monkeypatch, "xla" if path == "neuron_xla" else "native")
    with pytest.raises(WaitingForEvidence, match="vLLM"):
        made(path, task="text-generation", instance_type="trn2.48xlarge").prepare(SHAPE)


# -- eager and compiled, several at once ------------------------------------------------------


def test_native_is_measured_compiled_and_eager(monkeypatch, expected):
    double = doubles.install(monkeypatch, "native")
    assert targets.for_path("neuron_native").modes == ("compiled", "eager")
    eager = made("neuron_native", instance_type="trn2.3xlarge", settings={"mode": "eager"})
    eager.prepare(SHAPE)
    assert "compile" not in double.log and "operators" in double.log and eager.compilations() is None
    assert eager.describe()["route"] == "TorchNeuron eager" and eager.describe()["compiler_flags"] is None
    assert list(eager.remarks()) == [] and eager.describe()["operators_on_the_cpu"] == "none"
    torch.testing.assert_close(eager._answers[0], expected, rtol=1e-4, atol=1e-5)
    compiled = made("neuron_native", instance_type="trn2.3xlarge")
    compiled.prepare(SHAPE)
    assert compiled.describe()["route"] == "TorchNeuron compiled" and compiled.compilations() == 1


def test_an_eager_run_with_operators_on_the_cpu_is_no_neuron_evidence(monkeypatch):
    double = doubles.install(monkeypatch, "native")
    double.lacking += ["aten::sort", "aten::unique"]
    target = made("neuron_native", instance_type="trn2.3xlarge", settings={"mode": "eager"})
    target.prepare(SHAPE)
    (found,) = target.remarks()
    assert (found.code, str(found.severity)) == ("ran_on_the_cpu", "blocker")
    assert "2 operators ran on the CPU (aten::sort, aten::unique)" in found.because
    monkeypatch.delattr(double, "get_fallback_ops")
    unknown = made("neuron_native", instance_type="trn2.3xlarge", settings={"mode": "eager"})
    unknown.prepare(SHAPE)
    (found,) = unknown.remarks()
    assert found.code == "ran_on_the_cpu" and "does not say" in found.because
    compiled = made("neuron_native", instance_type="trn2.3xlarge", settings={"mode": "compiled"})
    compiled.prepare(SHAPE)
    assert list(compiled.remarks()) == [], "a graph that would fall back raises, and its metrics prove it"


def test_the_answer_is_fetched_again_for_the_proof_of_the_clock(monkeypatch):
    double = doubles.install(monkeypatch, "native")
    target = made("neuron_native", instance_type="trn2.3xlarge")
    target.prepare(SHAPE)
    double.log.clear()
    assert len(target.read_back()) == double.log.count("read back") > 0


def test_one_call_is_split_over_cores(monkeypatch, expected):
    double = doubles.install(monkeypatch, "xla")
    target = made("neuron_xla", instance_type="inf2.xlarge", settings={"data_parallel": 2})
    target.prepare(SHAPE)
    assert double.calls[0]["inputs"][0].shape[0] == SHAPE.batch_size // 2, "compiled for its part of the batch"
    target.issue()
    target.drain()
    torch.testing.assert_close(target._output[0], expected, rtol=1e-4, atol=1e-5)
    assert (target.describe()["neuroncores_used"], target.describe()["dp_degree"]) == (2, 2)
    with pytest.raises(BadParams, match="does not divide"):
        target.prepare(Shape(batch_size=3, sequence_length=16))
    with pytest.raises(BadParams, match="beside workers"):
        made("neuron_xla", instance_type="inf2.xlarge", settings={"data_parallel": 2, "workers": 2})


def test_one_worker_per_core(monkeypatch, tmp_path):
    """Each call is a batch on each of two cores; the first worker compiles, the second loads what it saved."""
    doubles.install(monkeypatch, "xla")
    heard = tmp_path / "cores"
    monkeypatch.setenv("NEURON_DOUBLE_CORES", str(heard))
    target = targets.made("neuron_xla", subject(instance_type="inf2.xlarge", settings={"workers": 2}))
    try:
        target.prepare(SHAPE)
        for _ in range(3):
            target.issue()
            target.drain()
        target.read_back()
        described = target.describe()
        assert (described["workers"], described["neuroncores_used"]) == (2, 2)
        processes = [process.pid for process in target._processes]
    finally:
        target.close()
    seen = dict(line.split() for line in heard.read_text().splitlines())
    assert [seen[str(pid)] for pid in processes] == ["0", "1"], "each process sees one core"
    assert not any(psutil.pid_exists(pid) for pid in processes)


def test_workers_on_a_cpu_share_its_threads_and_tell_what_went_wrong(monkeypatch):
    monkeypatch.setattr(system, "physical_cores", lambda: 4)
    target = targets.made("cpu", subject(settings={"workers": 2}))
    assert target.describe()["threads"] == 2 and target.describe()["workers"] == 2
    try:
        target.prepare(SHAPE)
        target.issue()
        target.issue()
        target.drain()
        target._processes[1].kill()
        target._processes[1].wait()
        with pytest.raises((RuntimeError, BrokenPipeError)):
            target.issue()
            target.drain()
    finally:
        target.close()
    target = targets.made("cpu", subject(settings={"workers": 2}))
    with pytest.raises(BadInput, match="more than bert has positions for"):
        target.prepare(Shape(batch_size=1, sequence_length=5000))
    target.close()
    assert type(targets.made("cpu", subject())).__name__ == "CpuTarget", "one worker is this process"


# -- where things may be imported -------------------------------------------------------------


def imported(nodes):
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module.split(".")[0]


def test_torch_is_imported_inside_functions_only():
    folder = Path(targets.__file__).parent
    beside = [folder.parent / f"{name}.py" for name in ("system", "stats", "compile")] + sorted((folder.parent / "measure").glob("*.py"))
    for path in [*beside, *sorted(folder.glob("*.py"))]:
        tree = ast.parse(path.read_text())
        assert not {"torch", "torch_neuronx", "transformers"} & set(imported(tree.body)), path
        if path in beside:
            assert not {"torch", "torch_neuronx", "transformers"} & set(imported(ast.walk(tree))), path


def test_the_library_cannot_import_the_doubles():
    assert importlib.util.find_spec("torch_neuronx") is None
    for path in Path(targets.__file__).parents[1].rglob("*.py"):
        assert not {"doubles", "tests"} & set(imported(ast.walk(ast.parse(path.read_text())))), path


# -- a GPU, on a double -----------------------------------------------------------------------


@pytest.fixture
def gpu(monkeypatch):
    """The double, with models that are built on the CPU for it."""
    from doubles import gpu as double

    double.install(monkeypatch)
    build = model.build
    monkeypatch.setattr(model, "build", lambda *given, device="cpu", **options: build(*given, device="cpu", **options))
    return double


def test_the_gpu_is_waited_for_before_the_clock_stops(gpu, expected):
    target = made("cuda")
    target.prepare(SHAPE)
    gpu.log.clear()
    target.issue()
    assert "synchronize" not in gpu.log and torch.isnan(target.outputs()[0]).all(), "handed over, not done"
    target.drain()
    assert gpu.log[0] == "record" and gpu.log[-2:] == ["record", "synchronize"] and gpu.log.count("copy out") == len(target.outputs())
    torch.testing.assert_close(target.outputs()[0], expected, rtol=1e-4, atol=1e-5)
    assert target.seen() == {"device": "a double", "device_s_median": 0.0025}, "2.5 ms between its events"
    assert len(target.read_back()) == len(target.outputs())


def test_a_captured_graph_is_replayed_with_the_inputs_of_the_call(gpu, monkeypatch, expected):
    target = made("cuda", settings={"cuda_graph": True})
    target.prepare(SHAPE)
    assert gpu.log.count("capture") == 1
    monkeypatch.setattr(model, "call", lambda *given, **options: pytest.fail("a replayed graph calls no model"))
    gpu.log.clear()
    target._graph.function = lambda: None
    target.issue()
    target.drain()
    assert gpu.log.count("replay") == 1 and "copy in" not in gpu.log, "inputs are copied into the memory that was captured"
    torch.testing.assert_close(target.outputs()[0], expected, rtol=1e-4, atol=1e-5)
    assert target.describe()["route"] == "eager, CUDA graph" and target.describe()["cuda_graph"] is True


def test_what_a_gpu_was_not_given_is_said(gpu):
    target = made("cuda")
    target.prepare(SHAPE)
    (found,) = target.remarks()
    assert found.code == "gpu_untuned" and "without half precision, torch.compile, CUDA graphs" in found.because
    assert target.describe()["attention"] == "sdpa"
    tuned = made("cuda", precision="fp16", settings={"compile": True, "compile_mode": "reduce-overhead"})
    assert list(tuned.remarks()) == []
    with pytest.raises(BadParams, match="a loop of many calls"):
        made("cuda", task="text-generation", settings={"cuda_graph": True})
    with pytest.raises(BadParams, match="compile_mode with cuda_graph"):
        made("cuda", settings={"cuda_graph": True, "compile": True, "compile_mode": "max-autotune"})
    with pytest.raises(BadParams, match=r"settings\.compile with the task.*its cache grows"):
        made("cuda", task="text-generation", settings={"compile": True})
    with pytest.raises(BadParams, match="only images have channels"):
        made("cuda", settings={"channels_last": True})


def test_tf32_belongs_to_the_setting_and_not_to_whoever_was_prepared_last(gpu):
    """The flags are of the process: each setting sets its own again before its turn."""
    plain, quick = made("cuda"), made("cuda", settings={"tf32": True})
    plain.prepare(SHAPE)
    quick.prepare(SHAPE)
    assert torch.backends.cuda.matmul.fp32_precision == torch.backends.cudnn.conv.fp32_precision == "tf32"
    plain.resume()
    assert torch.backends.cuda.matmul.fp32_precision == torch.backends.cudnn.conv.fp32_precision == "ieee"
    assert plain.describe()["tf32"] is False and plain.describe()["precision"] == "fp32" and quick.describe()["precision"] == "tf32"


def test_older_releases_have_a_flag_for_tf32():
    from neuronfit.targets.cuda import _tf32

    older = types.SimpleNamespace(allow_tf32=True)
    _tf32(older, False)
    assert older.allow_tf32 is False and not hasattr(older, "fp32_precision")


def test_a_gpu_whose_memory_ends_says_so_and_what_to_do(gpu, monkeypatch):
    def full(*given, **options):
        raise torch.cuda.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 MiB.\nmore")

    monkeypatch.setattr(model, "build", full)
    with pytest.raises(WaitingForEvidence, match="ran out of memory at batch .*Tried to allocate 20.00 MiB") as raised:
        made("cuda").prepare(SHAPE)
    assert "a smaller batch" in str(raised.value) and "\n" not in str(raised.value)


def test_images_may_be_in_channels_last_and_cudnn_searches(gpu, monkeypatch):
    monkeypatch.setattr(torch.backends.cudnn, "benchmark", False)
    resnet = {"model_type": "resnet", "embedding_size": 8, "hidden_sizes": [8, 16], "depths": [1, 1], "layer_type": "basic", "image_size": 32}
    subject_of = targets.Subject(resnet, "image-classification", settings={"channels_last": True})
    target = targets.made("cuda", subject_of)
    target.prepare(Shape(batch_size=2, sequence_length=1))
    assert target._inputs["pixel_values"].is_contiguous(memory_format=torch.channels_last) and torch.backends.cudnn.benchmark is True
    assert next(one for one in target._model.parameters() if one.dim() == 4).is_contiguous(memory_format=torch.channels_last)
    target.issue()
    target.drain()
    plain = targets.made("cpu", targets.Subject(resnet, "image-classification"))
    plain.prepare(Shape(batch_size=2, sequence_length=1))
    plain.issue()
    torch.testing.assert_close(target.outputs()[0], plain.outputs()[0], rtol=1e-4, atol=1e-5)
    (said,) = targets.made("cuda", targets.Subject(resnet, "image-classification", precision="fp16")).remarks()
    assert "channels last" in said.because and target.describe()["channels_last"] is True


@pytest.mark.parametrize(("visible", "count", "places"), [(None, 4, ["0", "1", "2", "3", "0"]), ("2,3", 8, ["2", "3", "2"]), (None, 1, ["0", "0"])])
def test_workers_are_dealt_out_over_the_gpus(monkeypatch, visible, count, places):
    """One GPU each, so that the whole instance works; more workers than GPUs share."""
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if visible:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: count)
    target = targets.made("cuda", subject(settings={"workers": len(places)}))
    assert [target.place(number)["CUDA_VISIBLE_DEVICES"] for number in range(len(places))] == places
    assert target.describe()["accelerators_used"] == min(len(places), count) and target.describe()["workers"] == len(places)


def test_workers_get_the_inputs_that_the_params_file_names(monkeypatch):
    """What the record says went in is what went in: the file of inputs reaches every worker."""
    given = inputs_of_a_file()
    target = targets.made("cpu", subject(settings={"workers": 2, "threads": 1}, inputs=given))
    told = []
    start = type(target)._start
    monkeypatch.setattr(type(target), "_start", lambda self, number, order: told.append(torch.load(order["inputs"])) or start(self, number, order))
    try:
        target.prepare(SHAPE)
        target.issue()
        target.drain()
    finally:
        target.close()
    assert len(told) == 2 and all(one["input_ids"][0, :3].tolist() == [5, 6, 7] for one in told)


def test_a_tokenizer_that_is_counted_is_not_spread_over_workers():
    with pytest.raises(BadParams, match="tokenizer_time: counted with settings.workers.*one worker.*endpoint"):
        targets.FromText(targets.made("cpu", subject(settings={"workers": 2})))


def inputs_of_a_file():
    from neuronfit.inputs import Inputs

    return Inputs("prompts.txt, 2 prompts", "0" * 64, texts=("a", "b"), lengths=(3, 3), ids=((5, 6, 7), (8, 9, 10)))


def test_a_drain_that_forgets_to_wait_is_caught_by_the_proof(gpu, monkeypatch):
    """What the proof looks at is the device: the answers are fetched again, and the events were not reached."""
    target = made("cuda")
    target.prepare(SHAPE)
    target.issue()
    with pytest.raises(RuntimeError, match="must be completed"):
        target._begin.elapsed_time(target._end)
