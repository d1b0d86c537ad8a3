"""HLO opcodes: counted by hand on small texts, looked up in the catalogue, and measured where torch-mlir is installed."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest
import tiny
import yaml
from neuronfit import hlo, model
from neuronfit.catalog import hlo_opcodes
from neuronfit.errors import BadParams, WaitingForEvidence

ROOT = Path(__file__).parents[1]
QUESTIONS = sorted(path.stem for path in (ROOT / "params").glob("*.yaml"))

OF_TEN_MODELS = frozenset(
    "abs add and broadcast_in_dim ceil clamp compare concatenate constant convert divide dot_general dynamic_iota exponential "
    "gather iota log maximum minimum multiply negate power reduce reduce_window reshape rsqrt select slice subtract tanh transpose".split()
)
"""StableHLO operations in the ten models of the Trn1 page, batch 1, 128 tokens: torch-mlir 20261001, torch 2.13.0."""

MEASURED = {
    "albert-base-v2": (24, 1762, ()),
    "bert-base-uncased": (24, 2240, ()),
    "bert-large-uncased": (24, 4328, ()),
    "distilbert-base-uncased": (23, 1179, ()),
    "electra-base-discriminator": (23, 2230, ()),
    "flan-t5-xl": (27, 6706, ()),
    "roberta-base": (25, 2252, ("reduce-window",)),
    "roberta-large": (25, 4340, ("reduce-window",)),
    "t5-3b": (26, 6166, ()),
    "xlm-roberta-base": (23, 2335, ("reduce-window",)),
}
"""Model -> distinct opcodes, instructions, implied ones, with the same versions. None is unlisted."""

SMALL = """\
module attributes {mhlo.num_partitions = 1 : i32} {
  func.func @main(%arg0: tensor<4x8xf32>, %arg1: tensor<8x2xf32>, %arg2: tensor<4xi64>) -> tensor<4x2xf32> {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32> // not stablehlo.sine
    %cst_0 = arith.constant dense<768> : tensor<1xi64>
    %0 = stablehlo.dot_general %arg0, %arg1, contracting_dims = [1] x [0] : (tensor<4x8xf32>, tensor<8x2xf32>) -> tensor<4x2xf32>
    %1 = stablehlo.reduce(%0 init: %cst) applies stablehlo.add across dimensions = [1] : (tensor<4x2xf32>, tensor<f32>) -> tensor<4xf32>
    %2 = stablehlo.broadcast_in_dim %1, dims = [0] : (tensor<4xf32>) -> tensor<4x2xf32>
    %3 = "stablehlo.gather"(%arg1, %arg2) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], start_index_map = [0]>}> : (tensor<8x2xf32>, tensor<4xi64>) -> tensor<4x2xf32>
    %4 = stablehlo.add %2, %3 {note = "%9 = stablehlo.cosine"} : tensor<4x2xf32>
    return %4 : tensor<4x2xf32>
  }
}
"""

REGIONS = """\
    %0 = stablehlo.dynamic_iota %c, dim = 0 : (tensor<1xi64>) -> tensor<128xi64>
    %1 = stablehlo.dynamic_iota %d, dim = 0 : (tensor<1xi64>) -> tensor<?xi64>
    %2:2 = "stablehlo.sort"(%arg0, %0) <{dimension = 1 : i64, is_stable = false}> ({
    ^bb0(%arg1: tensor<f32>, %arg2: tensor<f32>, %arg3: tensor<i64>, %arg4: tensor<i64>):
      %9 = stablehlo.compare GT, %arg1, %arg2, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
      stablehlo.return %9 : tensor<i1>
    }) : (tensor<4x8xf32>, tensor<4x8xi64>) -> (tensor<4x8xf32>, tensor<4x8xi64>)
    %3:2 = stablehlo.reduce(%a init: %cst), (%b init: %c) across dimensions = [0] : (tensor<4xf32>, tensor<4xi64>, tensor<f32>, tensor<i64>) -> (tensor<f32>, tensor<i64>)
     reducer(%arg1: tensor<f32>, %arg3: tensor<f32>) (%arg2: tensor<i64>, %arg4: tensor<i64>)  {
      %8 = stablehlo.minimum %arg2, %arg4 : tensor<i64>
      stablehlo.return %8, %arg2 : tensor<f32>, tensor<i64>
    }
    %4 = stablehlo.reduce(%m init: %t) applies stablehlo.and across dimensions = [3] : (tensor<4x1xi1>, tensor<i1>) -> tensor<4xi1>
    %5 = stablehlo.custom_call @AwsNeuronErf(%3#0) {backend_config = ""} : (tensor<f32>) -> tensor<f32>
    %6 = "stablehlo.custom_call"(%3#0) <{call_target_name = "xla.mystery"}> : (tensor<f32>) -> tensor<f32>
    %7 = chlo.erf %5 : tensor<f32> -> tensor<f32>
    %10 = tensor.dim %arg0, %c0 : tensor<?x4xf32>
    %11 = "stablehlo.case"(%i) ({
      stablehlo.return %5 : tensor<f32>
    }) : (tensor<i32>) -> tensor<f32>
{-#
  dialect_resources: { builtin: { torch.float32: "0x0400" } }
#-}
"""


# --- reading texts ---------------------------------------------------------------------------------


def test_opcodes_of_a_small_module():
    """Two constants; two additions, one of them inside the reduction. Comments, strings and attributes are no operations."""
    assert hlo.opcodes(SMALL) == {"add": 2, "constant": 2, "broadcast": 1, "dot": 1, "gather": 1, "reduce": 1}
    assert hlo.reducers(SMALL) == {"add": 1}


def test_inner_computations_custom_calls_and_other_dialects():
    assert hlo.opcodes(REGIONS) == {
        "reduce": 2,
        "and": 1,
        "compare": 1,
        "conditional": 1,
        "custom-call AwsNeuronErf": 1,
        "custom-call xla.mystery": 1,
        "dynamic-iota": 1,
        "erf": 1,
        "iota": 1,
        "minimum": 1,
        "sort": 1,
        "tensor.dim": 1,
    }
    assert hlo.reducers(REGIONS) == {"and": 1, "other": 1}


def test_a_text_without_operations():
    assert hlo.opcodes("") == hlo.reducers("module {\n}\n") == {}


# --- the catalogue ---------------------------------------------------------------------------------


def test_the_list_has_62_names():
    names = [name for known in hlo_opcodes.every() for name in known.names]
    assert len(names) == len(set(names)) == 62
    assert all(known.names for known in hlo_opcodes.every() if known.tier == "listed" and not known.opcode.startswith("custom-call "))


@pytest.mark.parametrize(
    ("opcode", "tier"),
    [
        ("dot", "listed"),
        ("broadcast", "listed"),
        ("custom-call", "listed"),
        ("custom-call AwsNeuronErf", "listed"),
        ("custom-call AwsNeuronModuleMarkerStart-Forward", "listed"),
        ("custom-call xla.mystery", "unlisted"),
        ("convolution", "implied"),
        ("reduce-window", "implied"),
        ("sort", "implied"),
        ("complex", "implied"),
        ("fft", "unsupported"),
        ("conditional", "unsupported"),
        ("or", "unlisted"),
        ("dynamic-iota", "unlisted"),
    ],
)
def test_tiers(opcode, tier):
    known = hlo_opcodes.status(opcode)
    assert (known.opcode, known.tier) == (opcode, tier)
    assert bool(known.source) == bool(known.as_of) == (tier != "unlisted")


def test_what_is_not_on_the_list_says_where_it_is_named():
    for known in hlo_opcodes.every():
        assert known.tier in hlo_opcodes.TIERS and known.tier != "unlisted"
        assert known.tier == "listed" or known.restriction and not known.names, known


def test_every_operation_of_the_ten_models_has_an_opcode_that_a_page_names():
    for name in OF_TEN_MODELS:
        (opcode,) = hlo.opcodes(f"    %0 = stablehlo.{name} %arg0 : (tensor<4xf32>) -> tensor<4xf32>\n")
        assert hlo_opcodes.status(opcode).tier == ("implied" if name == "reduce_window" else "listed"), opcode


def test_names_are_opcodes():
    assert all("_" not in opcode and opcode not in hlo.HLO_NAMES for opcode in hlo.HLO_NAMES.values())


# --- without torch-mlir, and with a stand-in for it ------------------------------------------------


def test_without_torch_mlir_the_message_says_what_to_install(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    for ask in (hlo.lower, hlo.second_opinion):
        with pytest.raises(WaitingForEvidence, match=r"not installed \| next: pip install neuronfit\[hlo\]$"):
            ask(tiny.CONFIG, "feature-extraction", 1, 16)


@pytest.fixture
def stand_in(tmp_path, monkeypatch):
    """A package named torch_mlir, whose ``export_and_import`` has the given body."""

    def make(body: str, start: str = "") -> None:
        package = tmp_path / "torch_mlir"
        package.mkdir()
        (package / "__init__.py").write_text(start, encoding="utf-8")
        lines = "".join(f"    {line}\n" for line in body.splitlines())
        (package / "fx.py").write_text(f"def export_and_import(program, *, output_type, experimental_support_mutation):\n{lines}", encoding="utf-8")
        monkeypatch.syspath_prepend(tmp_path)
        monkeypatch.setenv("PYTHONPATH", str(tmp_path))

    return make


def test_weights_are_inputs_without_data(stand_in):
    """The stand-in sees the exported program: every parameter and buffer is an input, none is stored."""
    stand_in(
        "import torch\n"
        "from torch._subclasses.fake_tensor import FakeTensor\n"
        "values = [node.meta['val'] for node in program.graph.nodes if node.op == 'placeholder']\n"
        "assert values and all(isinstance(value, FakeTensor) for value in values)\n"
        "assert not program.state_dict and not program.constants\n"
        "assert any(tuple(value.shape) == (128, 32) for value in values)\n"
        "assert output_type == 'stablehlo' and experimental_support_mutation\n"
        "return '    %0 = stablehlo.tanh %a : tensor<1xf32>\\n    %1 = stablehlo.xor %a, %a : tensor<1xf32>\\n'"
        "'    %2 = stablehlo.custom_call @AwsNeuronGelu(%a) : (tensor<1xf32>) -> tensor<1xf32>\\n    %3 = chlo.erf %a : tensor<1xf32>\\n'"
        "'    %4 = \"stablehlo.fft\"(%a) : (tensor<1xf32>) -> tensor<1xf32>\\n'"
    )
    found = hlo.second_opinion(tiny.CONFIG, "feature-extraction", 2, 16)
    assert found.error is None
    assert (found.listed, found.implied, found.unlisted, found.unsupported) == (
        {"custom-call AwsNeuronGelu": 1, "tanh": 1},
        {"erf": 1},
        {"xor": 1},
        {"fft": 1},
    )
    assert found.custom_calls == {"AwsNeuronGelu": 1}
    assert "AwsNeuronErf" in found.restrictions["erf"]
    assert set(found.versions) == {"torch-mlir", "torch", "transformers"} and found.seconds > 0
    assert found.sentence == (
        "5 HLO opcodes, as lowered by torch-mlir, not by neuronx-cc: 2 listed, 1 implied (erf), 1 documented as unsupported (fft), 1 unlisted (xor)"
    )


def test_an_operator_without_lowering_is_named_with_its_line(stand_in):
    stand_in(
        "import sys\n"
        'print(\'loc(callsite("/x/site-packages/transformers/integrations/moe.py":634:0 at "/x/y.py":2:0)): error: failed to legalize operation \''
        " '\\'torch.operator\\' that was explicitly marked illegal: %2 = \"torch.operator\"(%1) <{name = \"torch.aten.histc\"}> : () -> ()', file=sys.stderr)\n"
        "raise RuntimeError('Lowering failed with the following diagnostics:\\n\\nmany lines')"
    )
    found = hlo.second_opinion(tiny.CONFIG, "feature-extraction", 1, 16)
    assert "no lowering of aten.histc (transformers/integrations/moe.py:634)" in found.error
    assert "\n" not in found.error and "Traceback" not in found.error
    assert not found.listed and found.sentence.startswith("no second opinion at HLO level: ")
    with pytest.raises(WaitingForEvidence, match="no lowering of aten.histc"):
        hlo.lower(tiny.CONFIG, "feature-extraction", 1, 16)


@pytest.mark.parametrize(
    ("start", "body", "said"),
    [
        ("raise ImportError('undefined symbol: _ZN5torch')", "", "ImportError: undefined symbol: _ZN5torch"),
        ("", "import os, signal; os.kill(os.getpid(), signal.SIGABRT)", "its process ended with SIGABRT"),
        ("import time; time.sleep(60)", "", "no result within 0.5 s"),
    ],
)
def test_a_torch_mlir_that_does_not_fit_is_one_line(stand_in, start, body, said):
    stand_in(body or "pass", start)
    found = hlo.second_opinion(tiny.CONFIG, "feature-extraction", 1, 16, timeout_s=0.5 if "0.5" in said else 120)
    assert said in found.error and "no StableHLO of this model by torch-mlir" in found.error
    assert "\n" not in found.error and "Traceback" not in found.error


def test_a_wrong_question_is_refused_as_everywhere(stand_in):
    stand_in("return ''")
    with pytest.raises(BadParams, match="sequence_length is more than bert has positions for: 65"):
        hlo.second_opinion(tiny.CONFIG, "feature-extraction", 1, 65)


# --- with torch-mlir -------------------------------------------------------------------------------

needs_torch_mlir = pytest.mark.skipif(
    importlib.util.find_spec("torch_mlir") is None, reason="torch-mlir is not installed: pip install neuronfit[hlo]"
)


@needs_torch_mlir
@pytest.mark.parametrize("name", QUESTIONS)
def test_the_ten_models(name):
    """Nothing unlisted, in under 1 GB; the numbers are those of the versions named above."""
    asked = yaml.safe_load((ROOT / "params" / f"{name}.yaml").read_text(encoding="utf-8"))["workload"]["model"]
    config = model.read_config(ROOT / asked["config"])
    output_length = 128 if model.TASKS[asked["task"]].generates else None
    found = hlo.second_opinion(config, asked["task"], 1, 128, output_length)
    assert found.error is None
    assert found.unlisted == found.unsupported == found.custom_calls == {}
    assert found.peak_bytes is None or found.peak_bytes < 1e9
    known = {next(iter(hlo.opcodes(f"    %0 = stablehlo.{name} %a : tensor<1xf32>\n"))) for name in OF_TEN_MODELS}
    assert {*found.listed, *found.implied} <= known
    if (found.versions["torch-mlir"], found.versions["torch"].partition("+")[0], found.versions["transformers"]) == ("20261001", "2.13.0", "5.24.0"):
        counts = {**found.listed, **found.implied}
        assert (len(counts), sum(counts.values()), tuple(found.implied)) == MEASURED[name]


@needs_torch_mlir
def test_the_text_is_stablehlo_and_small():
    text = hlo.lower(tiny.CONFIG, "feature-extraction", 2, 16)
    assert "func.func @main(" in text and "stablehlo.dot_general" in text
    assert len(text) < 100_000
