"""`neuronfit check` as a function: the single checks together, and how their answers become findings."""

from __future__ import annotations

import ast
import json
from collections import defaultdict
from pathlib import Path

import pytest
from neuronfit import check, dependencies, memory, model
from neuronfit.check import modules, rules
from neuronfit.check.findings import ModuleCheck, OperatorFinding
from neuronfit.errors import BadParams
from neuronfit.examine import _of_memory, examine, findings_of, usual_task
from neuronfit.record import Finding, Severity
from tiny import CONFIG

GIB = 2**30


# -- operator findings as findings of a record ------------------------------------------------


def operator_finding(**changes) -> OperatorFinding:
    values = {
        "severity": check.CONDITIONAL,
        "code": "int64",
        "operator": "aten.add.Tensor",
        "because": "64-bit integers become 32-bit ones",
        "rewrite": "keep values below 2^31",
        "condition": "values stay below 2^31",
        "kept": None,
        "calls": 1,
        "module": "encoder.layer.0",
        "module_type": "Layer",
        "file": "modeling_x.py",
        "line": 12,
        "text": "x + 1",
        "generations": ("inf2", "trn1"),
        "source": "neuron-docs-2.32",
        "as_of": "2026-08-21",
    }
    return OperatorFinding(**values | changes)


def found(*findings: OperatorFinding) -> list[Finding]:
    return findings_of(ModuleCheck(findings, "by hand", True, {}, "2.13"))


@pytest.mark.parametrize(
    ("severity", "kept", "becomes"),
    [
        (check.BLOCKER, None, Severity.BLOCKER),
        (check.BLOCKER, True, Severity.BLOCKER),
        (check.CONDITIONAL, False, Severity.WARNING),
        (check.CONDITIONAL, None, Severity.NOTE),
        (check.CONDITIONAL, True, None),
    ],
)
def test_severity_of_an_operator_finding(severity, kept, becomes):
    made = found(operator_finding(severity=severity, kept=kept))
    assert [finding.severity for finding in made] == ([becomes] if becomes else [])


def test_a_finding_says_operator_calls_place_generations_reason_and_rewrite():
    (one,) = found(operator_finding())
    assert (one.code, one.target, one.next) == ("int64", None, "keep values below 2^31")
    assert one.because == ("aten.add.Tensor, 1 call at modeling_x.py:12, in encoder.layer.0, on Inf2, Trn1: 64-bit integers become 32-bit ones")
    (many,) = found(operator_finding(calls=24, file=None, line=None, module=None))
    assert "24 calls at source line unknown, on" in many.because


def test_findings_keep_their_order_and_kept_conditions_leave_no_gap():
    made = found(operator_finding(code="sort"), operator_finding(code="fft", kept=True), operator_finding(code="complex", severity=check.BLOCKER))
    assert [finding.code for finding in made] == ["sort", "complex"]


# -- a model ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def tiny():
    return examine(CONFIG, name="small")


def parameters_by_hand() -> int:
    vocabulary, hidden, mlp, positions, types, layers = 128, 32, 64, 64, 2, 2
    norm = 2 * hidden
    embeddings = (vocabulary + positions + types) * hidden + norm
    attention = 4 * (hidden * hidden + hidden) + norm
    feed_forward = hidden * mlp + mlp + mlp * hidden + hidden + norm
    head = hidden * hidden + hidden + norm + vocabulary  # its matrix is that of the embeddings
    return embeddings + layers * (attention + feed_forward) + head


def test_a_small_encoder(tiny):
    assert tiny.anatomy.parameters == parameters_by_hand() == 24_608
    assert (tiny.anatomy.kind, tiny.task, tiny.anatomy.caches) == ("encoder", "feature-extraction", ())
    assert tiny.needed.weights_bytes == 2 * 24_608 and tiny.needed.cache_bytes == 0
    assert tiny.shape == {"batch_size": 1, "sequence_length": 64, "output_length": None}, "128 tokens are more than it takes"
    assert tiny.blockers == () and tiny.scan is None and tiny.unchecked is None
    assert set(tiny.checks) == {"inf2", "trn2"} and all(one.complete for one in tiny.checks.values())
    assert tiny.sentence == "small: no documented blocker found; fits on inf2.xlarge with tensor-parallel degree 1."


def test_the_smallest_instances_by_hand(tiny):
    """Inf2.xlarge has the least memory of its kind, 32 GiB for two NeuronCores; its reserve is 96 MiB for each."""
    fit = tiny.smallest["neuron"]
    used = tiny.needed.weights_bytes + tiny.needed.activations_bytes + 96 * 2**20
    assert (fit.instance_type, fit.tp_degree, fit.copies, fit.rank_bytes) == ("inf2.xlarge", 1, 2, 16 * GIB)
    assert fit.used_bytes == used and fit.headroom == pytest.approx(1 - used / (16 * GIB))
    gpu = tiny.smallest["gpu"]
    assert (gpu.tp_degree, gpu.reserve_bytes) == (1, 512 * 2**20) and gpu.instance_type.startswith("g")


def test_a_finding_of_both_generations_is_said_once(tiny):
    codes = [finding.code for finding in tiny.findings]
    assert codes.count("int64") == 1 and "Inf2, Trn1, Trn2, Trn3" in tiny.findings[codes.index("int64")].because


def test_plain_is_json_with_numbers_as_numbers(tiny):
    data = json.loads(json.dumps(tiny.plain(), allow_nan=False))
    assert data["sentence"] == tiny.sentence
    assert data["anatomy"]["parameters"] == 24_608
    fit = data["smallest"]["neuron"]
    assert fit["used_bytes"] == tiny.smallest["neuron"].used_bytes and 0.9 < fit["headroom"] < 1
    assert data["checks"]["inf2"]["operators"] == tiny.checks["inf2"].operators
    assert [finding["severity"] for finding in data["findings"]] == [str(finding.severity) for finding in tiny.findings]


# -- what fits no task of ours ------------------------------------------------------------------

LLAMA = {"model_type": "llama", "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 64}
CLIP_VISION = {"model_type": "clip_vision_model", "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
CLIP_VISION |= {"image_size": 28, "patch_size": 14}
LLAVA = {"model_type": "llava", "architectures": ["LlavaForConditionalGeneration"], "text_config": LLAMA, "vision_config": CLIP_VISION}


def test_a_vision_language_model_is_looked_at_part_by_part():
    """Counted by hand. Text: 7 products a layer and the head, 15; vision: 6 a layer, 12."""
    seen = examine(LLAVA, name="small", sequence_length=16, targets=(check.usual_target("inf2"),))
    looked = seen.checks["inf2"]
    assert seen.unchecked is None and not seen.waiting and looked.complete
    assert looked.operators["aten.linear.default"] == 15 + 12 and "aten.conv2d.default" in looked.operators
    assert looked.how.startswith("text: torch.export") and "; vision: torch.export" in looked.how
    assert any(finding.module and finding.module.startswith("text: model") for finding in looked.findings)


def test_a_part_that_cannot_be_looked_at_makes_the_answer_wait(monkeypatch):
    built = model.parts_of(LLAVA, 1, 16)
    broken = (built[0], model.Part("vision", None, {}, None, "reads a grid that depends on the image"))
    monkeypatch.setattr(model, "parts_of", lambda *asked: broken)
    seen = examine(LLAVA, name="small", sequence_length=16, targets=(check.usual_target("inf2"),))
    assert seen.waiting and seen.unchecked == "vision: reads a grid that depends on the image" and not seen.checks["inf2"].complete
    assert "no documented blocker found, but not every operator could be looked at" in seen.sentence


def test_where_nothing_can_be_looked_at_nothing_is_claimed(monkeypatch):
    monkeypatch.setattr(model, "parts_of", lambda *asked: (model.Part("model", None, {}, None, "no class"),))
    seen = examine(LLAVA, name="small", sequence_length=16)
    assert seen.waiting and seen.checks == {} and seen.sentence.startswith("small: its operators could not be looked at")


MIXTRAL = {"model_type": "mixtral", "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1, "num_attention_heads": 4, "vocab_size": 64}
MIXTRAL |= {"num_key_value_heads": 2, "num_local_experts": 4, "num_experts_per_tok": 2}


def test_the_sort_of_a_mixture_of_experts_goes_away_with_the_rewrite_it_names():
    """Documented: aten::sort is unsupported by the trace (Inf2, Trn1); for the native backend there is no statement."""
    seen = examine(MIXTRAL, sequence_length=16)
    [blocker] = seen.blockers
    assert blocker.code == "sort" and "Inf2, Trn1" in blocker.because and "moe.py:" in blocker.because
    assert 'experts_implementation="batched_mm"' in blocker.next and "--experts batched_mm" in blocker.next
    rewritten = examine(MIXTRAL, sequence_length=16, experts="batched_mm")
    assert rewritten.blockers == () and not any(finding.code == "sort" for finding in rewritten.findings) and not rewritten.waiting


def test_known_traps_are_said_for_the_models_they_concern():
    config = {"model_type": "wav2vec2", "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
    codes = [finding for finding in examine(config, sequence_length=10).findings if finding.code == "known_trap"]
    assert len(codes) == 1 and "segmentation fault" in codes[0].because and "SDK 2.28" in codes[0].next
    assert not [finding for finding in examine(CONFIG, sequence_length=10).findings if finding.code == "known_trap"]


def test_shape_and_targets_are_those_asked_for():
    asked = examine(CONFIG, batch_size=3, sequence_length=8, precision="fp32", targets=(check.usual_target("trn1"),))
    assert asked.shape == {"batch_size": 3, "sequence_length": 8, "output_length": None}
    assert list(asked.checks) == ["trn1"] and asked.needed.weights_bytes == 4 * 24_608


@pytest.mark.parametrize("asked", [{"task": "fill-msk"}, {"task": "image-classification"}, {"sequence_length": 65}])
def test_what_the_model_cannot_do_is_refused(asked):
    with pytest.raises(BadParams):
        examine(CONFIG, **asked)


def test_a_compile_configuration_is_no_model():
    own = examine({"neuron_config": {"tp_degree": 8, "batch_size": 2, "seq_len": 4096, "logical_nc_config": 2}}, name="deployed")
    assert own.anatomy is None and own.configuration.tp_degree == 8 and own.findings == ()
    assert own.sentence == "deployed is no model but a compile configuration of NxD Inference for 16 physical NeuronCores."
    json.dumps(own.plain())


def test_what_is_no_config_is_refused():
    with pytest.raises(BadParams, match="no model_type"):
        examine({"layers": 3})


def test_a_model_that_fits_nowhere():
    """8 x 10^12 parameters in two layers: 17 TB in bf16, more than any instance has. Nothing is allocated."""
    width = 2**19
    huge = {
        "model_type": "llama",
        "architectures": ["LlamaForCausalLM"],
        "vocab_size": 128,
        "hidden_size": width,
        "intermediate_size": 4 * width,
        "num_hidden_layers": 2,
        "num_attention_heads": 4096,
        "num_key_value_heads": 4096,
        "max_position_embeddings": 64,
    }
    vast = examine(huge, name="vast", sequence_length=2)
    matrices = 2 * (4 * width**2 + 3 * 4 * width**2) + 2 * 128 * width
    assert vast.anatomy.parameters == matrices + 5 * width
    assert vast.smallest == {"neuron": None, "gpu": None}
    assert [finding.code for finding in vast.blockers] == ["fits_nowhere"]
    assert vast.findings[0] == vast.blockers[0], "blockers come first"
    assert vast.blockers[0].next and vast.sentence.startswith("vast: 1 documented blocker, first: ")


def test_padding_at_the_smallest_degree_is_a_note():
    """25 heads do not divide over the two NeuronCores that 20 GiB need."""
    anatomy = memory.describe({**CONFIG, "hidden_size": 100, "num_attention_heads": 25})
    parts = memory.MemoryParts(20 * GIB, 0, 0)
    fit = memory.fit(anatomy, parts, "inf2.xlarge", 2)
    assert not fit.divides and fit.fits
    (note,) = _of_memory(fit, anatomy)
    assert (note.severity, note.code) == (Severity.NOTE, "padded_or_copied")
    assert note.because == "on inf2.xlarge with tensor-parallel degree 2: 25 attention heads padded to 26"


# -- a source tree ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "severity", "line"),
    [
        ("import torch\nimport apex\n", Severity.BLOCKER, 2),
        ("try:\n    import apex\nexcept ImportError:\n    apex = None\n", Severity.WARNING, 2),
        ("model.cuda()\n", Severity.WARNING, 1),
        ("import torch\ntorch.compile(f, mode='max-autotune', dynamic=False)\n", Severity.NOTE, 2),
    ],
)
def test_what_needs_cuda_is_a_finding(tmp_path, text, severity, line):
    (tmp_path / "serve.py").write_text(text)
    # a compile configuration has no operators to look at, so that this is about the source alone
    seen = examine({"neuron_config": {"tp_degree": 2}}, source=str(tmp_path))
    (finding,) = seen.findings
    assert (finding.code, finding.severity) == ("cuda_dependency", severity)
    assert finding.because.startswith(f"serve.py:{line}: ")
    assert finding.because.endswith(" (guarded)") == (severity is Severity.WARNING and "try" in text)
    assert bool(seen.blockers) is (severity is Severity.BLOCKER)


def test_the_replacement_is_that_of_the_first_targets_path(tmp_path):
    (tmp_path / "serve.py").write_text("import apex\n")
    apex = dependencies.PACKAGES["apex"]
    for generation, replacement in (("inf2", apex.xla), ("trn2", apex.native)):
        seen = examine({"neuron_config": {}}, source=str(tmp_path), targets=(check.usual_target(generation),))
        assert seen.findings[0].next == replacement


def test_a_blocker_in_the_source_decides(tmp_path):
    (tmp_path / "serve.py").write_text("import apex\n")
    seen = examine(CONFIG, name="small", source=str(tmp_path), sequence_length=4)
    assert [finding.code for finding in seen.blockers] == ["cuda_dependency"]
    assert seen.sentence.startswith("small: 1 documented blocker, first: serve.py:1: import apex")


def test_what_a_kind_is_asked_to_do(tiny):
    assert usual_task(tiny.anatomy) == "feature-extraction"
    assert usual_task(memory.describe({"model_type": "gpt2", "n_embd": 32, "n_layer": 1, "n_head": 4, "vocab_size": 64})) == "text-generation"


@pytest.mark.parametrize(
    ("changes", "kind"),
    [({}, "encoder"), ({"is_decoder": True}, "decoder"), ({"architectures": ["BertForMaskedLM"]}, "encoder"), ({"model_type": "roberta"}, "encoder")],
)
def test_an_encoder_that_could_be_a_decoder_is_one_only_when_it_says_so(changes, kind):
    assert memory.describe({**CONFIG, **changes}).kind == kind


# -- the lists of codes that the documentation is tested with ---------------------------------


def calls(module, name: str):
    tree = ast.parse(Path(module.__file__).read_text(encoding="utf-8"))
    return [node for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == name]


def test_memory_lists_its_codes():
    said = defaultdict(set)
    for call in calls(memory, "note"):
        said[call.args[0].value] |= (
            {part.value for part in ast.walk(call.args[2]) if isinstance(part, ast.Constant) and part.value in ("note", "warning")}
            if len(call.args) > 2
            else {"note"}
        )
    for call in calls(memory, "Remark"):
        if isinstance(call.args[1], ast.Constant):
            said[call.args[1].value].add(call.args[0].value)
    assert {code: set(severities) for code, severities in memory.CODES.items()} == said


def test_check_lists_its_codes_with_the_severities_that_its_rules_can_give():
    """A verdict whose ``kept`` is computed may be any of warning, note or nothing; a written one is exact."""
    assert set(check.CODES) == set(rules.STATEMENTS)
    certain, possible = defaultdict(set), defaultdict(set)
    flagged = {call.args[2].value for call in calls(rules, "_downcast")}
    for call in [*calls(rules, "Verdict"), *calls(modules, "Verdict")]:
        severity, code = call.args[0].id, call.args[1]
        failed_export = ("graph_break", "dynamic_shape") if severity == "BLOCKER" else ("export_failed",)
        if isinstance(code, ast.Constant):
            codes = (code.value,)
        else:
            codes = failed_export if "torch.export" in ast.unparse(call.args[2]) else flagged
        kept = call.args[4] if len(call.args) > 4 else None
        for one in codes:
            if severity == "BLOCKER":
                certain[one].add("blocker")
            elif isinstance(kept, ast.Constant):
                certain[one] |= {False: {"warning"}, None: {"note"}, True: set()}[kept.value]
            else:
                possible[one] |= {"warning", "note"}
    for code, severities in check.CODES.items():
        assert certain[code] <= set(severities) <= certain[code] | possible[code], code
