"""What to type: every value of the params file stands in the command, and the scripts run against doubles of the documented calls."""

import json
import os
import re
import shlex
import subprocess
import sys

import pytest
from example_questions import question
from neuronfit import memory, params
from neuronfit.question import Question
from neuronfit.recipe import recipe
from neuronfit.targets import Subject
from neuronfit.targets.neuron_xla import NeuronXlaTarget
from tiny import CONFIG, question_data

LLAMA = {"model_type": "llama", "vocab_size": 128, "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 8, "num_key_value_heads": 4}
LLAMA |= {"intermediate_size": 64, "max_position_embeddings": 256}
T5 = {"model_type": "t5", "vocab_size": 128, "d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 2, "num_heads": 4, "is_encoder_decoder": True}
T5 |= {"decoder_start_token_id": 0, "pad_token_id": 0, "eos_token_id": 1}
VIT = {
    "model_type": "vit",
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "image_size": 28,
    "patch_size": 14,
}
GENERATES = [{"batch_size": 2, "sequence_length": 64, "output_length": 32}, {"batch_size": 4, "sequence_length": 16, "output_length": 8}]


def asked(folder, path, instance_type, config=CONFIG, task="feature-extraction", shapes=None, settings=None, **workload):
    data = question_data(folder, candidates=[{"name": "there", "instance_type": instance_type, "path": path, "settings": settings or {}}])
    (folder / "model").mkdir(exist_ok=True)
    (folder / "model" / "config.json").write_text(json.dumps(config), encoding="utf-8")
    data["workload"] |= {"model": {"config": str(folder / "model" / "config.json"), "task": task, **workload.pop("model", {})}, **workload}
    data["workload"]["shapes"] = shapes or [{"batch_size": 2, "sequence_length": 16}, {"batch_size": 1, "sequence_length": 8}]
    return Question(params.parse(data), reports=folder)


def typed(one, fitted=True):
    target = one.params.candidates[0]
    anatomy = memory.describe(one.config)
    parts = memory.needed(anatomy, 4, 64, one.params.workload.precision, output_length=32)
    return recipe(one, target, memory.best(anatomy, parts, target.instance_type) if fitted else None, anatomy)


# -- scripts, run against doubles ----------------------------------------------------------------

DOUBLE = '''
"""Stands in for torch_neuronx: the documented signatures, and a note of every call."""
import json, os, sys, types
import torch

def said(**what):
    with open(os.environ["SAID"], "a") as lines:
        lines.write(json.dumps(what) + "\\n")

def trace(func, example_inputs, *, compiler_workdir=None, compiler_args=None, cpu_backend=False):
    assert isinstance(func, torch.nn.Module) and not func.training and isinstance(example_inputs, tuple)
    with torch.no_grad():
        output = func(*example_inputs)
    assert isinstance(output, tuple), type(output)
    said(shapes=[list(one.shape) for one in example_inputs], dtype=str(next(func.parameters()).dtype), args=compiler_args, cpu_backend=cpu_backend)
    return torch.jit.trace(torch.nn.Identity(), torch.ones(1))

metrics = []

def get_dynamo_metrics():
    return metrics

def compile(model, *, backend, fullgraph, dynamic):
    assert (backend, fullgraph, dynamic) == ("neuron", True, False)
    assert os.environ["TORCH_NEURONX_DISABLE_FALLBACK_EXECUTION"] == "1"
    def run(**inputs):
        model(**inputs)
        metrics.append("graph")
        said(shapes=[list(one.shape) for one in inputs.values()], dtype=str(model.dtype))
    return run

class Neuron(types.ModuleType):
    pass

torch.compile = compile
torch.neuron = types.SimpleNamespace(synchronize=lambda: said(synchronized=True))
real_to = {torch.Tensor: torch.Tensor.to, torch.nn.Module: torch.nn.Module.to}
for kind, to in real_to.items():
    kind.to = lambda self, *args, _to=to, **named: self if args == ("neuron",) else _to(self, *args, **named)
'''


def run(one, folder):
    """Run the command in a shell, with the double first on the path; what the double noted."""
    (folder / "doubles").mkdir(exist_ok=True)
    (folder / "doubles" / "torch_neuronx.py").write_text(DOUBLE, encoding="utf-8")
    (folder / "bin").mkdir(exist_ok=True)
    (folder / "bin" / "python").write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n', encoding="utf-8")
    (folder / "bin" / "python").chmod(0o755)
    environment = {
        **os.environ,
        "PYTHONPATH": str(folder / "doubles"),
        "SAID": str(folder / "said"),
        "PATH": f"{folder / 'bin'}:{os.environ['PATH']}",
    }
    done = subprocess.run(["sh", "-c", typed(one).command], cwd=folder, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in (folder / "said").read_text(encoding="utf-8").splitlines()], done.stdout


def test_the_trace_script_runs_and_compiles_every_shape(tmp_path):
    one = asked(tmp_path, "neuron_xla", "inf2.xlarge", precision="bf16")
    noted, _ = run(one, tmp_path)
    assert [call["shapes"] for call in noted] == [[[2, 16], [2, 16]], [[1, 8], [1, 8]]]
    assert {call["dtype"] for call in noted} == {"torch.bfloat16"} and all(call["cpu_backend"] for call in noted)
    assert sorted(path.name for path in tmp_path.glob("*.pt")) == ["tiny.inf2.b1.s8.pt", "tiny.inf2.b2.s16.pt"]


def test_the_trace_script_has_the_flags_that_step_3_compiles_with(tmp_path):
    settings = {"auto_cast": "matmult", "optlevel": 1}
    one = asked(tmp_path, "neuron_xla", "trn1.2xlarge", settings=settings)
    ours = NeuronXlaTarget(Subject(CONFIG, "feature-extraction", instance_type="trn1.2xlarge", settings=settings)).compiler_args
    assert str(ours) in typed(one).command


def test_an_encoder_decoder_is_traced_with_both_inputs(tmp_path):
    noted, _ = run(asked(tmp_path, "neuron_xla", "inf2.xlarge", T5, "text2text-generation", GENERATES[:1]), tmp_path)
    assert noted[0]["shapes"] == [[2, 64], [2, 64], [2, 32]]


def test_images_have_a_batch_and_no_length(tmp_path):
    noted, _ = run(asked(tmp_path, "neuron_xla", "inf2.xlarge", VIT, "image-classification"), tmp_path)
    assert [call["shapes"] for call in noted] == [[[2, 3, 28, 28]], [[1, 3, 28, 28]]]


def test_the_native_script_compiles_waits_and_shows_its_proof(tmp_path):
    noted, printed = run(asked(tmp_path, "neuron_native", "trn2.3xlarge"), tmp_path)
    assert [call.get("shapes", "synchronize") for call in noted] == [[[2, 16]] * 2, "synchronize", [[1, 8]] * 2, "synchronize"]
    assert printed.strip() == "['graph', 'graph']"


# -- servers and exporters -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "instance_type", "instead"),
    [("vllm_neuron", "trn2.3xlarge", "TorchNeuron"), ("nxd_inference", "inf2.8xlarge", "NeuronX Distributed itself")],
)
def test_no_server_is_named_for_an_encoder_decoder_model(tmp_path, path, instance_type, instead):
    """No page says that vLLM on Neuron serves one; the published T5 figures are NeuronX Distributed's, degree 8."""
    found = typed(asked(tmp_path, path, instance_type, T5, "text2text-generation", GENERATES))
    assert found.command is None
    assert "no document says" in found.notes[0] and any(instead in note for note in found.notes)
    assert any("degree 8" in note for note in found.notes) is (path == "nxd_inference")


@pytest.mark.parametrize("path, instance_type", [("vllm_neuron", "trn2.3xlarge"), ("nxd_inference", "inf2.8xlarge")])
def test_a_server_gets_degree_batch_length_and_format(tmp_path, path, instance_type):
    """Longest: 64 + 32 tokens; widest batch 4. The weights' folder is the params file's own."""
    one = asked(tmp_path, path, instance_type, LLAMA, "text-generation", GENERATES, precision="bf16", model={"weights": "weights/llama"})
    words = shlex.split(typed(one).command)
    words = words[words.index("vllm") :]
    assert words[:3] == ["vllm", "serve", "weights/llama"]
    assert dict(zip(words[3::2], words[4::2])) == {
        "--tensor-parallel-size": "1",
        "--max-num-seqs": "4",
        "--max-model-len": "96",
        "--dtype": "bfloat16",
    }


def test_the_degree_is_that_of_the_memory_fit(tmp_path):
    """A 7-billion-parameter model in fp32 is 27 GB and one NeuronCore of Inf2 has 16 GiB: two share it."""
    big = {**LLAMA, "hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 32, "intermediate_size": 11008}
    one = asked(tmp_path, "nxd_inference", "inf2.8xlarge", big, "text-generation", GENERATES, precision="fp32")
    assert "--tensor-parallel-size 2 " in typed(one).command
    traced = typed(asked(tmp_path, "neuron_xla", "inf2.8xlarge", big, "text-generation", GENERATES, precision="fp32"))
    assert any("needs 2 of them" in note for note in traced.notes)


def test_a_server_of_language_models_serves_no_encoder(tmp_path):
    found = typed(asked(tmp_path, "vllm_neuron", "trn2.3xlarge"))
    assert found.command is None and "feature-extraction" in found.notes[0]


def test_optimum_exports_each_shape_once(tmp_path):
    lines = typed(asked(tmp_path, "optimum_neuron", "inf2.xlarge", precision="bf16")).command.splitlines()
    assert [re.findall(r"--(?:batch_size|sequence_length) (\d+)", line) for line in lines] == [["2", "16"], ["1", "8"]]
    assert all(" --auto_cast all --auto_cast_type bf16 " in line and line.split()[:3] == ["optimum-cli", "export", "neuron"] for line in lines)


# -- honesty ---------------------------------------------------------------------------------------


def test_random_weights_are_said_and_no_command_has_a_placeholder(tmp_path):
    found = typed(asked(tmp_path, "neuron_xla", "inf2.xlarge"))
    assert "names no weights" in found.notes[0] and str(tmp_path / "model") in found.command
    assert not re.search(r"\b(MODEL|TARGET|BATCH|OUTPUT|FOLDER|INSTANCE)\b|<[a-z]", found.command)
    assert not any("names no weights" in note for note in typed(asked(tmp_path, "neuron_xla", "inf2.xlarge", model={"weights": "w"})).notes)


def test_jax_has_no_command_and_says_what_to_do(tmp_path):
    found = typed(asked(tmp_path, "jax", "inf2.xlarge"))
    assert found.command is None and "(2, 16)" in found.notes[0] and "rewrite" in found.notes[0]


def test_the_baseline_is_measured_by_name(tmp_path):
    one = question(tmp_path)
    assert recipe(one, one.params.baseline).command == f"neuronfit measure {one.command_name} --target {one.params.baseline.name}"
