"""How big a model is: parameters, and the memory of one call."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Mapping, Optional

from neuronfit.errors import BadParams
from neuronfit.model.architecture import PRECISIONS, TASKS, check_task, first_of, patches, settings_of
from neuronfit.model.construction import skeleton
from neuronfit.model.inputs import example_inputs
from neuronfit.model.refusals import one_of, positive

__all__ = ["MemoryNeed", "bytes_by_precision", "count_parameters", "image_elements", "layer_elements", "memory_needed"]


def count_parameters(config: Mapping[str, Any], task: str) -> int:
    """Number of unique parameters: a matrix shared by two layers counts once."""
    return sum(parameter.numel() for parameter in skeleton(config, task).parameters())


def bytes_by_precision(count: int) -> dict[str, int]:
    """Weight bytes of ``count`` parameters in each precision."""
    return {precision: count * size for precision, size in PRECISIONS.items()}


def layer_elements(batch_size: int, new: int, attended: int, hidden: int, heads: int, head_size: int, mlp: int) -> int:
    """Elements alive in one transformer layer while ``new`` tokens attend to ``attended``; see :func:`memory_needed`."""
    attention = 2 * (new + attended) * heads * head_size + 3 * heads * new * attended
    return batch_size * (6 * new * hidden + attention + 3 * new * mlp)


@dataclass(frozen=True)
class MemoryNeed:
    """Bytes one call needs. Weights are exact, activations an estimate on the high side."""

    weights_bytes: int
    activations_bytes: int
    total_bytes: int


def memory_needed(
    config: Mapping[str, Any],
    task: str,
    batch_size: int,
    sequence_length: int,
    precision: str,
    output_length: Optional[int] = None,
) -> MemoryNeed:
    """Memory for one inference call: weights, and the activations alive at the fullest moment.

    With b sequences, q new tokens attending to k, hidden size h, a heads of size d, MLP width f,
    vocabulary v (all per element of ``precision``; int8 weights keep 2-byte activations)::

        layer(q, k) = b * (6*q*h + 2*(q + k)*a*d + 3*a*q*k + 3*q*f)
                      hidden, q/k/v and context, scores + softmax + mask, MLP
        logits(q)   = b * q * v                      with a language-model head, else 0
        cache(t)    = 2 * layers * b * t * kv_heads * d

    encoder, or one forward     layer(s, s) + logits(s)
    text-generation             layer(s, s) + logits(s) + cache(s + o) + 3 * b * v * 4 bytes
    text2text-generation        layer(s, s) + layer(1, max(s, o)) + logits(1) + cache(s) + cache(o)
                                + 3 * b * v * 4 bytes

    A model for images without one hidden size and heads (ResNet, ConvNeXt, Swin) is run on the meta device, which allocates
    nothing: what is alive is the input and the output of the largest layer, and once more the largest output, which a shortcut keeps.

    Only one layer is alive at a time (no gradients), and scores are counted although a fused
    attention does not store them: an upper figure, not a tight one. For an encoder-decoder without
    ``output_length`` the decoder reads ``sequence_length`` tokens at once. Not counted: the runtime
    itself, compiler scratch space, memory fragmentation.

    Raises :class:`~neuronfit.errors.BadParams` for an unknown precision, and for texts with architectures
    that are not transformers.
    """
    check_task(config, task)
    one_of("unknown precision", precision, PRECISIONS)
    batch_size, sequence_length = positive("batch_size", batch_size), positive("sequence_length", sequence_length)
    output = 0 if output_length is None else positive("output_length", output_length)
    settings = settings_of(config)
    hidden, layers = first_of(settings, "hidden_size"), first_of(settings, "num_hidden_layers")
    heads = first_of(settings, "num_attention_heads")
    if not all(isinstance(size, int) for size in (hidden, layers, heads)):
        if TASKS[task].input == "image":
            return _need(config, task, precision, batch_size * image_elements(config, task))
        raise BadParams(
            "no memory formula for model type",
            settings.model_type,
            allowed="transformers with one hidden size and one number of heads",
            next="measure it on the target",
        )
    head_size = first_of(settings, "d_kv", "head_dim") or hidden // heads
    kv_heads = first_of(settings, "num_key_value_heads") or heads
    decoder_layers = first_of(settings, "num_decoder_layers", "decoder_layers") or layers
    names = ("intermediate_size", "d_ff", "hidden_dim", "encoder_ffn_dim", "ffn_dim", "n_inner")
    mlp = first_of(settings, *names) or 4 * hidden
    vocabulary = first_of(settings, "vocab_size") or 0
    has_head = task in ("fill-mask", "text-generation", "text2text-generation")

    def layer(new: int, attended: int) -> int:
        return layer_elements(batch_size, new, attended, hidden, heads, head_size, mlp)

    def logits(new: int) -> int:
        return batch_size * new * vocabulary if has_head else 0

    def cache(tokens: int, of_layers: int) -> int:
        return 2 * of_layers * batch_size * tokens * kv_heads * head_size

    if TASKS[task].input == "image":
        sequence_length = patches(settings)
    elements, scores_bytes = layer(sequence_length, sequence_length), 0
    if getattr(settings, "is_encoder_decoder", False):
        step = 1 if output else sequence_length
        elements += layer(step, max(sequence_length, output)) + logits(step)
        elements += cache(sequence_length, decoder_layers) + cache(output, decoder_layers) if output else 0
    else:
        elements += logits(sequence_length)
        elements += cache(sequence_length + output, layers) if output else 0
    if output and has_head:
        scores_bytes = 3 * batch_size * vocabulary * 4

    return _need(config, task, precision, elements, scores_bytes)


def _need(config: Mapping[str, Any], task: str, precision: str, elements: int, more_bytes: int = 0) -> MemoryNeed:
    weights_bytes = count_parameters(config, task) * PRECISIONS[precision]
    activations_bytes = elements * max(PRECISIONS[precision], 2) + more_bytes
    return MemoryNeed(weights_bytes, activations_bytes, weights_bytes + activations_bytes)


def image_elements(config: Mapping[str, Any], task: str) -> int:
    """Elements alive at the fullest layer for one image, by running the model without data; see :func:`memory_needed`."""
    import torch

    model, largest, kept = skeleton(config, task), 0, 0

    def look(module: Any, given: tuple[Any, ...], answer: Any) -> None:
        nonlocal largest, kept
        into, out = (sum(one.numel() for one in side if isinstance(one, torch.Tensor)) for side in (given, (answer,)))
        largest, kept = max(largest, into + out), max(kept, out)

    for module in model.modules():
        if not list(module.children()):
            module.register_forward_hook(look)
    with torch.no_grad():
        model(**{name: tensor.to("meta") for name, tensor in example_inputs(config, task, 1, 1).items()})
    return largest + kept
