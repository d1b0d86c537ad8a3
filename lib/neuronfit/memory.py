"""Step 2: does it fit, where, split how many ways, and which is the smallest instance?

Weights are exact: the parameters of the model's skeleton, every expert counted. The cache is exact for the
architecture: per layer full, windowed, latent (MLA), a constant state, or none. Activations are an upper
estimate (:func:`neuronfit.model.memory_needed` has the formula). Per rank, that is one logical NeuronCore or GPU::

    weights / t  +  keys and values of the replicated heads  +  cache share  +  activations / t  +  reserve

with t the tensor-parallel degree. Below t key-value heads a rank holds kv_heads / t of them, above it one, so
from there on splitting saves no cache. A latent cache is not split at all. A model fits where every rank keeps
``HEADROOM`` of its memory free for compiled code, scratch space and fragmentation.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any, Mapping, Optional

from neuronfit import model as models
from neuronfit.catalog import instances
from neuronfit.catalog.instances import Instance
from neuronfit.errors import BadParams
from neuronfit.model.architecture import settings_of
from neuronfit.model.size import layer_elements

__all__ = [
    "Anatomy",
    "CODES",
    "Fit",
    "LayerCache",
    "MemoryParts",
    "NeuronConfiguration",
    "Remark",
    "best",
    "degrees",
    "describe",
    "fit",
    "fits",
    "needed",
    "neuron_configuration",
    "smallest",
]

CODES: dict[str, tuple[str, ...]] = {
    "beams": ("note",),
    "compiled_in_parts": ("note",),
    "head_dim": ("warning", "note"),
    "kv_heads": ("note",),
    "latent_cache": ("note",),
    "library_defaults": ("warning",),
    "mixed_heads": ("warning",),
    "mixture_of_experts": ("note",),
    "no_length_limit": ("note",),
    "operator_support_unknown": ("warning",),
    "position_limit_not_deployable": ("note",),
    "quantized": ("warning",),
    "size_differs_from_name": ("warning",),
    "tp_degrees": ("warning", "note"),
    "two_graphs": ("note",),
}
"""Codes of remarks about a config -> their severities."""

HEADROOM = 0.10
"""share of a rank's memory that stays free"""
RESERVE_NEURON = 96 * 2**20
"""microcode per physical NeuronCore, as the runtime reserves it (Neuron documentation)"""
RESERVE_GPU = 512 * 2**20
"""an assumption: CUDA context and libraries"""
CACHE_BYTES = {"fp32": 4, "bf16": 2, "fp16": 2, "int8": 2}
OPTIMIZER_BYTES = {"adamw": 8, "sgd": 0, "sgd_momentum": 4}
"""bytes per parameter of optimizer states in fp32"""


# --- the architecture, as far as memory goes --------------------------------------------------------


@dataclass(frozen=True)
class LayerCache:
    """What one kind of layer keeps per sequence, in elements.

    ``per_token`` is for keys and values together over all key-value heads, for up to ``window`` tokens
    (``None``: all of them); ``constant`` does not grow (state-space and linear attention). ``heads`` are the
    key-value heads that can be split over ranks, 0 where the cache is one latent vector that every rank holds.
    """

    kind: str
    layers: int
    per_token: int = 0
    window: Optional[int] = None
    constant: int = 0
    heads: int = 0

    def elements(self, tokens: int) -> int:
        """For one sequence of ``tokens``, all layers of this kind."""
        kept = tokens if self.window is None else min(tokens, self.window)
        return self.layers * (self.per_token * kept + self.constant)


@dataclass(frozen=True)
class Remark:
    """Something about the config that its reader should know. ``severity`` is ``warning`` or ``note``."""

    severity: str
    code: str
    because: str


@dataclass(frozen=True)
class Anatomy:
    """A model as far as memory goes. Counts are exact for the installed transformers' model class."""

    model_type: str
    built_as: str
    """the class whose skeleton was counted"""
    kind: str
    """``encoder``, ``decoder``, ``encoder-decoder``, ``vision``, ``speech``, ``multimodal``, ``state-space`` or ``hybrid``"""
    parameters: int
    parts: dict[str, int]
    """parameters of ``text``, ``vision``, ``audio``, or of the one ``model``; sums to ``parameters``"""
    active_parameters: int
    """read for one token: with a mixture of experts the chosen ones only"""
    hidden: int
    layers: int
    heads: Optional[int]
    kv_heads: Optional[int]
    head_size: Optional[int]
    mlp: int
    vocabulary: int
    position_limit: Optional[int]
    caches: tuple[LayerCache, ...]
    key_value_parameters: int
    """of the projections that are copied where a rank has less than one key-value head"""
    beams: int
    graphs: int
    """models to compile: 2 for encoder and decoder, or text and vision"""
    remarks: tuple[Remark, ...]

    @property
    def kv_elements_per_token(self) -> int:
        """Elements that one more token adds, while no window is full."""
        return sum(cache.layers * cache.per_token for cache in self.caches)


@dataclass(frozen=True)
class NeuronConfiguration:
    """Not a model: a compile configuration of NxD Inference (``neuron_config.json``), its operating point."""

    tp_degree: Optional[int]
    batch_size: Optional[int]
    sequence_length: Optional[int]
    logical_nc_config: Optional[int]
    precision: Optional[str]

    @property
    def physical_cores(self) -> Optional[int]:
        return None if self.tp_degree is None else self.tp_degree * (self.logical_nc_config or 1)


def neuron_configuration(config: Mapping[str, Any]) -> Optional[NeuronConfiguration]:
    """The operating point where ``config`` is a Neuron compile configuration, otherwise ``None``."""
    if "model_type" in config or not {"tp_degree", "logical_nc_config", "neuron_config"} & set(config):
        return None
    inner = config["neuron_config"] if isinstance(config.get("neuron_config"), Mapping) else config
    return NeuronConfiguration(
        inner.get("tp_degree"),
        inner.get("batch_size") or inner.get("max_batch_size"),
        inner.get("seq_len") or inner.get("max_context_length"),
        inner.get("logical_nc_config"),
        inner.get("torch_dtype"),
    )


def describe(config: Mapping[str, Any], name: Optional[str] = None) -> Anatomy:
    """The anatomy of the model that a ``config.json`` describes. No weights, no accelerator.

    ``name`` is what somebody calls the model (a folder or hub name); a size in it that the count contradicts
    becomes a remark. Raises :class:`~neuronfit.errors.BadParams` for what is not a Hugging Face config, naming
    a Neuron compile configuration as such.
    """
    found = neuron_configuration(config)
    if found:
        raise BadParams(
            "this is a Neuron compile configuration, not a model config: it compiles for",
            f"tp_degree {found.tp_degree}, batch {found.batch_size}, sequence {found.sequence_length}",
            allowed="the config.json of the model itself",
        )
    if "model_type" not in config:
        raise BadParams(
            "not a Hugging Face config (no model_type); its keys are",
            ", ".join(sorted(config)[:6]),
            allowed='{"model_type": "llama", ...}',
            next=_other_config(config),
        )
    settings = settings_of(config)
    skeleton = models.whole_skeleton(config)
    text = settings.get_text_config()
    reader = _Reader(text)
    encoder_decoder = bool(getattr(settings, "is_encoder_decoder", False) or reader.get("is_encoder_decoder", False))
    parts, experts = _parts(skeleton)
    hidden = _whole(reader.first("hidden_size", "d_model", "n_embd")) or 0
    layers = _whole(reader.first("num_hidden_layers", "n_layers", "n_layer", "num_layers")) or 0
    if config.get("num_hidden_layers") == 0:
        raise BadParams("the config has no layers: num_hidden_layers is", 0, allowed="a whole number from 1")
    heads = _whole(reader.first("num_attention_heads", "n_heads", "n_head", "num_heads"))
    kv_heads = _kv_heads(reader, heads)
    head_size = reader.first("d_kv", "head_dim", "kv_channels") or (hidden // heads if heads else None)
    caches = _caches(reader, hidden, layers, heads, kv_heads, head_size, _decodes(skeleton, settings, encoder_decoder), encoder_decoder)
    chosen, of = (
        reader.first("num_experts_per_tok", "moe_top_k", "top_k_experts", "moe_topk"),
        reader.first("n_routed_experts", "num_local_experts", "num_experts", "moe_num_experts"),
    )
    active = sum(parts.values()) - (experts - experts * chosen // of if experts and chosen and of else 0)
    anatomy = Anatomy(
        model_type=str(config["model_type"]),
        built_as=type(skeleton).__name__,
        kind=_kind(settings, skeleton, caches, encoder_decoder, parts),
        parameters=sum(parts.values()),
        parts=parts,
        active_parameters=active,
        hidden=hidden,
        layers=layers,
        heads=heads,
        kv_heads=kv_heads,
        head_size=head_size,
        mlp=_mlp(reader, hidden, chosen, of),
        vocabulary=reader.first("vocab_size") or 0,
        position_limit=_positive(reader.first("max_position_embeddings", "max_seq_len")),
        caches=caches,
        key_value_parameters=sum(cache.layers * hidden * cache.per_token for cache in caches if cache.heads),
        beams=max(1, int(reader.first("num_beams") or config.get("num_beams") or 1)),
        graphs=2 if encoder_decoder or len([size for size in parts.values() if size]) > 1 else 1,
        remarks=(),
    )
    return _remarked(anatomy, config, reader, name)


def _other_config(config: Mapping[str, Any]) -> Optional[str]:
    """What to do with a JSON file that lies in model folders and describes no model."""
    if "peft_type" in config:
        return f"this is an adapter: check the base model, {config.get('base_model_name_or_path') or 'which it does not name'}; merged, the adapter changes no shape"
    if "_class_name" in config:
        return (
            f"this is a diffusers {config['_class_name']}, which transformers does not build: check its text encoder, and compile the rest (step 3)"
        )
    if "_diffusers_version" in config or "scheduler" in config:
        return "this is a diffusers pipeline: each of its folders is a model of its own"
    if any(key in config for key in ("tokenizer_class", "model_max_length", "added_tokens_decoder")):
        return "this is a tokenizer's config: take the config.json beside it"
    if any(key in config for key in ("max_new_tokens", "do_sample", "temperature")):
        return "this is a generation config: take the config.json beside it"
    if "weight_map" in config:
        return "this is an index of weight files: take the config.json beside it"
    return None


class _Reader:
    """Settings by any of their names; values that differ per layer read as the first layer's."""

    def __init__(self, settings: Any) -> None:
        self.settings = settings

    def get(self, name: str, otherwise: Any = None) -> Any:
        for holder in (self.settings, *(getattr(self.settings, inner, None) for inner in ("attn_config", "ffn_config"))):
            try:
                value = getattr(holder, name, None)
            except Exception as error:  # transformers refuses values that differ per layer, each class in its way
                value = self.raw(name) if error else None
            if value is not None:
                return value
        return otherwise

    def raw(self, name: str) -> Any:
        stored = vars(self.settings)
        return stored.get(name, stored.get(f"_{name}"))

    def first(self, *names: str) -> Any:
        return next((value for value in (self.get(name) for name in names) if value is not None), None)

    def of_layer(self, index: int, name: str) -> Any:
        """``name`` in layer ``index``, where the library keeps one config per layer."""
        try:
            return getattr(self.settings.per_layer_config[index], name, None)
        except Exception as error:  # older libraries have no such list
            return None if error else None


def _whole(size: Any) -> Optional[int]:
    """A size that the whole model has; ``None`` where each stage has its own (a list, as Swin's heads)."""
    return size if isinstance(size, int) else None


def _positive(limit: Any) -> Optional[int]:
    """A limit, where there is one: some configs write -1 for none."""
    return limit if isinstance(limit, int) and limit > 0 else None


def _parts(skeleton: Any) -> tuple[dict[str, int], int]:
    """Parameters of the text, vision and audio parts, and how many belong to routed experts."""
    parts, experts = {"text": 0}, 0
    for name, parameter in skeleton.named_parameters():
        part = "vision" if re.search(r"vision|visual|image_", name) else "audio" if "audio" in name else "text"
        parts[part] = parts.get(part, 0) + parameter.numel()
        if ".experts." in name:
            experts += parameter.numel()
    return ({"model": parts["text"]} if len(parts) == 1 else parts), experts


def _kv_heads(reader: _Reader, heads: Optional[int]) -> Optional[int]:
    if reader.get("multi_query") is True and reader.get("new_decoder_architecture") is not True:
        return 1
    return reader.first("num_key_value_heads", "num_kv_heads", "kv_n_heads", "n_head_kv", "multi_query_group_num") or heads


def _mlp(reader: _Reader, hidden: int, chosen: Optional[int], of: Optional[int]) -> int:
    """Width that one token passes: the chosen experts' together in a mixture of experts."""
    dense = (
        reader.first("intermediate_size", "d_ff", "encoder_ffn_dim", "ffn_dim", "n_inner", "ffn_hidden_size", "intermediate_size_mlp") or 4 * hidden
    )
    narrow = reader.first("moe_intermediate_size", "expert_ffn_hidden_size") or dense
    if not of or not chosen:
        return dense
    return max(dense, narrow * (chosen + (reader.first("n_shared_experts") or 0)))


def _decodes(skeleton: Any, settings: Any, encoder_decoder: bool) -> bool:
    """Whether tokens are generated: only then is there a cache."""
    return encoder_decoder or bool(getattr(skeleton, "can_generate", lambda: False)())


def _caches(
    reader: _Reader,
    hidden: int,
    layers: int,
    heads: Optional[int],
    kv_heads: Optional[int],
    head_size: Optional[int],
    decodes: bool,
    encoder_decoder: bool,
) -> tuple[LayerCache, ...]:
    if not decodes:
        return ()
    if encoder_decoder:
        layers = reader.first("num_decoder_layers", "decoder_layers") or layers
    if (
        reader.first("state_size")
        and not reader.get("layer_types_with_attention")
        and (heads is None or reader.get("model_type") in ("mamba", "mamba2"))
    ):
        return (_state_space(reader, hidden, layers),)
    latent = reader.first("kv_lora_rank")
    if latent:
        return (LayerCache("latent", layers, per_token=latent + (reader.first("qk_rope_head_dim") or 0)),)
    if heads is None:
        kept = reader.first("attention_hidden_size")  # RWKV keeps five vectors of the attention's width in each layer
        return (LayerCache("state", layers, constant=5 * kept),) if kept else ()
    shared = reader.first("num_kv_shared_layers") or 0
    kinds = list(reader.get("layer_types") or ())[: layers - shared] or ["full_attention"] * (layers - shared)
    window = reader.first("sliding_window")
    uses_window = window and reader.get("use_sliding_window", True) is not False
    if not reader.get("layer_types") and uses_window:
        kinds = ["sliding_attention"] * len(kinds)
    counted: dict[LayerCache, int] = {}
    for index, kind in enumerate(kinds):
        one = _layer(reader, index, kind, kv_heads or heads, head_size or 0, window if uses_window else None)
        counted[one] = counted.get(one, 0) + 1
    return tuple(LayerCache(one.kind, count, one.per_token, one.window, one.constant, one.heads) for one, count in counted.items())


def _layer(reader: _Reader, index: int, kind: str, kv_heads: int, head_size: int, window: Optional[int]) -> LayerCache:
    if kind in ("mamba", "mamba2") or "linear" in kind and not reader.first("linear_num_value_heads") and reader.first("mamba_d_state"):
        return _state_space(reader, reader.first("hidden_size") or 0, 1)
    if kind == "recurrent" or "linear" in kind and reader.first("lru_width"):
        width = reader.first("lru_width", "hidden_size") or 0
        return LayerCache("state", 1, constant=width * (reader.first("conv1d_width") or 1))
    if "linear" in kind or kind == "conv":
        keys, values = reader.first("linear_num_key_heads") or 0, reader.first("linear_num_value_heads") or 0
        key, value, kernel = (
            reader.first("linear_key_head_dim") or 0,
            reader.first("linear_value_head_dim") or 0,
            reader.first("linear_conv_kernel_dim") or 0,
        )
        return LayerCache("linear", 1, constant=values * key * value + (2 * keys * key + values * value) * kernel, heads=values)
    if "full" in kind and reader.first("global_head_dim"):
        kv_heads = reader.first("num_global_key_value_heads") or kv_heads
        head_size = reader.first("global_head_dim")
    else:
        kv_heads = reader.of_layer(index, "num_key_value_heads") or kv_heads
        head_size = reader.of_layer(index, "head_dim") or head_size
    if "sliding" in kind:
        return LayerCache("sliding", 1, 2 * kv_heads * head_size, window, heads=kv_heads)
    if "chunked" in kind:
        return LayerCache("chunked", 1, 2 * kv_heads * head_size, reader.first("attention_chunk_size"), heads=kv_heads)
    return LayerCache("full", 1, 2 * kv_heads * head_size, heads=kv_heads)


def _state_space(reader: _Reader, hidden: int, layers: int) -> LayerCache:
    """Mamba: per channel its states and the tail of its convolution; Mamba 2 convolves its groups' states too.

    In a hybrid ``intermediate_size`` is the width of the MLP, so the inner width is the expanded hidden size there.
    """
    expanded = int((reader.first("expand", "mamba_expand") or 2) * hidden)
    inner = expanded if reader.first("mamba_expand") or reader.first("num_experts") else reader.first("intermediate_size") or expanded
    states = reader.first("state_size", "mamba_d_state", "d_state") or 0
    return LayerCache("state", layers, constant=inner * (states + (reader.first("conv_kernel", "mamba_d_conv", "d_conv") or 0)))


def _kind(settings: Any, skeleton: Any, caches: tuple[LayerCache, ...], encoder_decoder: bool, parts: Mapping[str, int]) -> str:
    kinds = {cache.kind for cache in caches}
    if kinds == {"state"}:
        return "state-space"
    if kinds & {"linear", "state"}:
        return "hybrid"
    if encoder_decoder:
        return "encoder-decoder"
    if parts.get("vision") or parts.get("audio"):
        return "multimodal"
    if caches:
        return "decoder"
    return {"pixel_values": "vision", "input_values": "speech", "input_features": "speech"}.get(getattr(skeleton, "main_input_name", ""), "encoder")


def _remarked(one: Anatomy, config: Mapping[str, Any], reader: _Reader, name: Optional[str]) -> Anatomy:
    said: list[Remark] = []

    def note(code: str, because: str, severity: str = "note") -> None:
        said.append(Remark(severity, code, because))

    inner = config.get("text_config") if isinstance(config.get("text_config"), Mapping) else config
    wide = (one.heads or 0) * (one.head_size or 0)
    if one.heads and "head_dim" in inner and wide != one.hidden:
        text = f"head_dim {one.head_size} x {one.heads} heads = {wide}, hidden size {one.hidden} (/ heads = {one.hidden / one.heads:g}); head_dim is used as given"
        note("head_dim", text, "warning" if 2 * wide < one.hidden else "note")
    assumed = [
        key
        for key in ("vocab_size", "max_position_embeddings")
        if one.kind not in ("vision", "state-space") and not set(_ALIASES[key]) & set(inner) and _positive(reader.first(*_ALIASES[key]))
    ]
    if assumed:
        note(
            "library_defaults",
            f"not in the config, taken from the library's defaults: {', '.join(f'{key} {reader.first(*_ALIASES[key])}' for key in assumed)}",
            "warning",
        )
    if one.kind == "encoder-decoder":
        note("two_graphs", "encoder and decoder are compiled separately")
    if one.beams > 1:
        note("beams", f"num_beams {one.beams}: the decoder runs {one.beams} sequences per request")
    if one.position_limit is None and one.kind in ("encoder", "decoder", "encoder-decoder") and not reader.first("max_source_positions"):
        note("no_length_limit", "relative positions: the config gives no longest sequence, it must come from the workload")
    if len([size for size in one.parts.values() if size]) > 1:
        note(
            "compiled_in_parts",
            "compiled as separate models: "
            + ", ".join(f"{part} {size:,} parameters" for part, size in one.parts.items())
            + "; image or audio tokens add to the prompt",
        )
    quantized = config.get("quantization_config") or inner.get("quantization_config")
    if isinstance(quantized, Mapping):
        method = quantized.get("quant_method")
        note(
            "quantized",
            f"{method} weights are a GPU format or need kernels of their own; converted to bf16 they take {2 * one.parameters:,} bytes",
            "warning",
        )
    if one.active_parameters != one.parameters:
        note(
            "mixture_of_experts",
            f"mixture of experts: {one.active_parameters:,} of {one.parameters:,} parameters are read per token, all of them take memory",
        )
    kinds = {cache.kind for cache in one.caches}
    if kinds & {"linear", "state"}:
        note(
            "operator_support_unknown",
            f"{'state-space or recurrent' if 'state' in kinds else 'linear-attention'} layers: their state does not grow with the sequence; no statement that Neuron's serving stacks support them",
            "warning",
        )
    if len({(cache.per_token, cache.heads) for cache in one.caches if cache.per_token}) > 1:
        note("mixed_heads", "key-value heads or their size differ between layers; no statement that Neuron's serving stacks support it", "warning")
    if "latent" in kinds:
        note("latent_cache", "multi-head latent attention: counted as the latent vector; transformers' own cache holds the expanded keys and values")
    if one.position_limit and one.position_limit > 1_000_000:
        note(
            "position_limit_not_deployable",
            f"max_position_embeddings {one.position_limit:,} is a limit of the model, not a length that can be deployed",
        )
    if one.heads and one.caches and one.heads % 16:
        even = [degree for degree in range(1, one.heads + 1) if one.heads % degree == 0]
        power = any(degree in even for degree in (2, 4, 8))
        note("tp_degrees", f"{one.heads} attention heads divide over {', '.join(map(str, even))} ranks only", "note" if power else "warning")
    if one.heads and one.kv_heads and one.caches and one.kv_heads < one.heads and "latent" not in kinds:
        note(
            "kv_heads",
            f"{one.kv_heads} key-value heads: above a tensor-parallel degree of {one.kv_heads} each is copied, and the cache per rank shrinks no further",
        )
    if name:
        said += _name_remark(name, one)
    return replace(one, remarks=tuple(said))


_ALIASES = {
    "vocab_size": ("vocab_size",),
    "max_position_embeddings": ("max_position_embeddings", "n_positions", "max_seq_len", "max_sequence_length", "n_ctx", "max_source_positions"),
}


def _name_remark(name: str, one: Anatomy) -> list[Remark]:
    times = re.search(r"(?<![\d.])(\d+)x(\d+(?:\.\d+)?)[bB](?![a-z])", name)
    plain = re.search(r"(?<![\d.xa-zA-Z])(\d+(?:\.\d+)?)[bB](?![a-z])", name)
    if not times and not plain:
        return []
    size = float(times[1]) * float(times[2]) if times else float(plain[1])
    if abs(size * 1e9 - one.parameters) <= 0.15 * one.parameters:
        return []
    return [
        Remark(
            "warning", "size_differs_from_name", f"the name says {(times or plain)[0]}, the config has {one.parameters / 1e9:.2f} billion parameters"
        )
    ]


# --- how much ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class MemoryParts:
    """Bytes of one copy of the model, before it is split."""

    weights_bytes: int
    cache_bytes: int
    activations_bytes: int
    gradients_bytes: int = 0
    optimizer_bytes: int = 0

    @property
    def total_bytes(self) -> int:
        return self.weights_bytes + self.cache_bytes + self.activations_bytes + self.gradients_bytes + self.optimizer_bytes


def needed(
    anatomy: Anatomy,
    batch_size: int,
    sequence_length: int,
    precision: str = "bf16",
    *,
    output_length: int = 0,
    training: bool = False,
    optimizer: str = "adamw",
    checkpointing: bool = True,
) -> MemoryParts:
    """Memory of one copy. Inference: weights, cache of prompt and output, activations of the prompt.

    Training adds gradients (in ``precision``) and the optimizer: AdamW keeps two fp32 states, 8 bytes per
    parameter, and a 4-byte master copy below fp32. Activations are then kept for every layer: 2 elements of the
    hidden size per token with ``checkpointing`` (plus one layer being recomputed), 34 bytes per element of the
    hidden size and 5 per score without it (Korthikanti et al. 2022, 16-bit).
    """
    for what, value in (("batch_size", batch_size), ("sequence_length", sequence_length)):
        if not isinstance(value, int) or value < 1:
            raise BadParams(f"{what} is not a count", value, allowed="a whole number from 1")
    if precision not in models.PRECISIONS:
        raise BadParams("unknown precision", precision, allowed=", ".join(models.PRECISIONS))
    if optimizer not in OPTIMIZER_BYTES:
        raise BadParams("unknown optimizer", optimizer, allowed=", ".join(OPTIMIZER_BYTES))
    size, weights = max(2, models.PRECISIONS[precision]), anatomy.parameters * models.PRECISIONS[precision]
    heads, head_size = anatomy.heads or 0, anatomy.head_size or 0
    layer = layer_elements(batch_size, sequence_length, sequence_length, anatomy.hidden, heads, head_size, anatomy.mlp)
    logits = batch_size * sequence_length * anatomy.vocabulary if anatomy.caches else 0
    if training:
        tokens = batch_size * sequence_length
        per_layer = 2 * tokens * anatomy.hidden if checkpointing else tokens * (17 * anatomy.hidden + (5 * heads * sequence_length) // 2)
        activations = (anatomy.layers * per_layer + layer + 2 * logits) * size
        master = 4 if models.PRECISIONS[precision] < 4 else 0
        return MemoryParts(weights, 0, activations, anatomy.parameters * size, anatomy.parameters * (OPTIMIZER_BYTES[optimizer] + master))
    sequences = batch_size * (anatomy.beams if output_length else 1)
    cache = sequences * sum(one.elements(_cached(anatomy, sequence_length, output_length)) for one in anatomy.caches)
    if anatomy.kind == "encoder-decoder":  # the source, read by every decoder layer
        cache += sequences * sum(one.elements(sequence_length) for one in anatomy.caches)
    return MemoryParts(weights, cache * CACHE_BYTES[precision], (layer + logits) * size)


def _cached(anatomy: Anatomy, sequence_length: int, output_length: int) -> int:
    return output_length if anatomy.kind == "encoder-decoder" else sequence_length + output_length


# --- where it fits -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Fit:
    """One model on one instance type with one tensor-parallel degree.

    A rank is a logical NeuronCore or a GPU. ``divides`` is whether heads and key-value heads split evenly;
    where not, the framework has to pad (``padding`` says how) and ``fits`` is the padded figure.
    """

    instance_type: str
    tp_degree: int
    ranks: int
    rank_bytes: int
    weights_bytes: int
    cache_bytes: int
    other_bytes: int
    """activations, gradients and optimizer states of one rank"""
    reserve_bytes: int
    divides: bool
    padding: tuple[str, ...] = ()

    @property
    def used_bytes(self) -> int:
        return self.weights_bytes + self.cache_bytes + self.other_bytes + self.reserve_bytes

    @property
    def headroom(self) -> float:
        """Free share of a rank's memory; negative where it does not fit."""
        return 1 - self.used_bytes / self.rank_bytes

    @property
    def fits(self) -> bool:
        return self.headroom >= HEADROOM

    @property
    def copies(self) -> int:
        """Copies of the model that run side by side."""
        return self.ranks // self.tp_degree


def _ranks(instance: Instance) -> tuple[int, int, int]:
    """(ranks, bytes of one, reserve of one); physical cores that form a logical one share its memory."""
    total = instance.accelerator_memory_bytes or 0
    if instance.vendor == "aws_neuron":
        count = instance.logical_neuroncores or instance.neuroncores or 1
        return count, total // count, RESERVE_NEURON * max(1, (instance.neuroncores or count) // count)
    count = max(1, int(instance.accelerator_count))
    return count, total // count, RESERVE_GPU


def degrees(instance: Instance) -> tuple[int, ...]:
    """Tensor-parallel degrees to try. Trn1.32xlarge takes 1, 2, 8 and 32 only; elsewhere divisors and powers of two."""
    ranks, _, _ = _ranks(instance)
    if instance.generation == "trn1" and ranks == 32:
        return (1, 2, 8, 32)
    powers = {1 << power for power in range(ranks.bit_length())}
    return tuple(sorted(degree for degree in powers | {d for d in range(1, ranks + 1) if ranks % d == 0} if degree <= ranks))


def fit(anatomy: Anatomy, parts: MemoryParts, instance_type: str, tp_degree: int) -> Fit:
    """The memory of one rank. Raises ``NotFound`` for an unknown instance, ``BadParams`` for a degree it has no ranks for."""
    instance = instances.find(instance_type)
    ranks, size, reserve = _ranks(instance)
    if not isinstance(tp_degree, int) or not 1 <= tp_degree <= ranks:
        raise BadParams(f"{instance_type} has {ranks} ranks, not tensor-parallel degree", tp_degree, allowed=", ".join(map(str, degrees(instance))))
    padding, divides, stretch = [], True, 1.0
    if anatomy.heads and anatomy.heads % tp_degree:
        padded = -(-anatomy.heads // tp_degree) * tp_degree
        divides, stretch = False, padded / anatomy.heads
        padding.append(f"{anatomy.heads} attention heads padded to {padded}")
    kv_heads, latent = anatomy.kv_heads, any(cache.kind == "latent" for cache in anatomy.caches)
    replicated = 1.0
    if anatomy.caches and kv_heads and not latent and tp_degree > 1:
        per_rank = max(1, -(-kv_heads // tp_degree))
        replicated = per_rank * tp_degree / kv_heads
        if kv_heads % tp_degree and tp_degree % kv_heads:
            divides = False
            padding.append(f"{kv_heads} key-value heads do not divide over {tp_degree} ranks")
        elif tp_degree > kv_heads:
            padding.append(f"{kv_heads} key-value heads copied {tp_degree // kv_heads} times")
    if anatomy.vocabulary and anatomy.vocabulary % tp_degree:
        padding.append(f"vocabulary {anatomy.vocabulary} padded to {-(-anatomy.vocabulary // tp_degree) * tp_degree}")
    per_weight = parts.weights_bytes / anatomy.parameters
    weights = (parts.weights_bytes + anatomy.key_value_parameters * per_weight * (replicated - 1)) * stretch / tp_degree
    cache = parts.cache_bytes * (1.0 if latent else replicated / tp_degree)
    other = (parts.gradients_bytes + parts.optimizer_bytes + parts.activations_bytes * stretch) / tp_degree
    return Fit(instance_type, tp_degree, ranks, size, round(weights), round(cache), round(other), reserve, divides, tuple(padding))


def fits(anatomy: Anatomy, parts: MemoryParts, *, generations: Optional[tuple[Optional[str], ...]] = None) -> tuple[Fit, ...]:
    """The best degree on every catalogue instance, smallest accelerator memory first.

    Best is the smallest degree that divides and fits (most copies), else the smallest that fits with padding, else
    the one with most headroom. ``generations`` keeps some: ``("inf2", "trn1")``, ``None`` in it stands for GPUs.
    """
    rows = []
    for instance in instances.every():
        if instance.accelerator_memory_bytes and (generations is None or instance.generation in generations):
            rows.append((_size(instance), best(anatomy, parts, instance.instance_type)))
    return tuple(found for _, found in sorted(rows, key=lambda row: row[0]))


def best(anatomy: Anatomy, parts: MemoryParts, instance_type: str) -> Fit:
    """The best degree on one instance type, as :func:`fits` says. Raises ``NotFound`` for an unknown type."""
    tried = [fit(anatomy, parts, instance_type, degree) for degree in degrees(instances.find(instance_type))]
    good = [one for one in tried if one.fits]
    return next((one for one in good if one.divides), good[0] if good else max(tried, key=lambda one: one.headroom))


def smallest(anatomy: Anatomy, parts: MemoryParts, *, generations: Optional[tuple[Optional[str], ...]] = None) -> Optional[Fit]:
    """The instance with the least accelerator memory (then host memory) on which it fits; ``None``: on none.

    Where heads divide evenly on some instance, only such count; padding is the second choice, not the cheaper one.
    """
    good = [one for one in fits(anatomy, parts, generations=generations) if one.fits]
    return next((one for one in good if one.divides), good[0] if good else None)


def _size(instance: Instance) -> tuple[int, int, str]:
    return (instance.accelerator_memory_bytes or 0, instance.memory_bytes or 0, instance.instance_type)
