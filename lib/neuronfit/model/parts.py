"""The parts of a model that are compiled on their own, each with inputs it takes: text, vision, audio, or all of it.

Our tasks give one kind of input to one whole model. A vision-language model, a speech model or a state-space
model fits none of them, and its operators can be looked at all the same: part by part, from the part's own config.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Mapping, Optional

from neuronfit.errors import BadParams, NeuronFitError
from neuronfit.model.architecture import image_size, settings_of, start_token, text_settings
from neuronfit.model.construction import replace_buffers, replace_parameters, whole_skeleton
from neuronfit.model.refusals import one_line

if TYPE_CHECKING:
    import torch

__all__ = ["Part", "parts_of"]

NESTED = ("text_config", "vision_config", "audio_config")
"""keys under which a config holds the config of a part"""

SAMPLES_PER_TOKEN = 320
"""of 16 kHz audio in the speech encoders of the wav2vec2 family: the product of their strides"""

DEEP, LONG = 4, 32
"""layers and tokens up to which a model with recurrent layers is looked at whole: its scan is unrolled token by token,
and neither more layers of a kind nor more tokens bring another operator"""


@dataclass(frozen=True)
class Part:
    """One part. ``module`` is on the meta device, or ``None`` where ``reason`` says why it could not be built."""

    name: str
    """``text``, ``vision``, ``audio``, or ``model`` where it is one"""
    module: Optional[torch.nn.Module]
    inputs: dict[str, torch.Tensor]
    shortened: Optional[str] = None
    """which share of the layers was built, where not all were"""
    reason: Optional[str] = None


def parts_of(config: Mapping[str, Any], batch_size: int, sequence_length: int, output_length: Optional[int] = None) -> tuple[Part, ...]:
    """Skeletons and inputs of the parts of the model in ``config``.

    A config with configs inside is taken apart; any other is one part. Lengths are cut to what a part takes: a
    speech encoder reads its fixed window. Of a model with more recurrent layers than
    ``DEEP`` the first ones are built, at least one of each kind, and read at most ``LONG`` tokens. Raises :class:`~neuronfit.errors.BadParams` as
    :func:`neuronfit.model.whole_skeleton` does where nothing at all can be built.
    """
    settings = settings_of(config)
    inner = [] if getattr(settings, "is_encoder_decoder", False) else [key for key in NESTED if isinstance(config.get(key), Mapping)]
    if not inner:
        return (_part("model", config, batch_size, sequence_length, output_length),)
    found = []
    for key in inner:
        own = getattr(settings, key, None)
        if own is None:
            continue
        described = {**own.to_dict(), "model_type": own.model_type, "architectures": None}
        one = _part(key.removesuffix("_config"), described, batch_size, sequence_length, output_length)
        found.append(one if one.module is not None else _within(one, config, own, batch_size, sequence_length))
    return tuple(found)


def _part(name: str, config: Mapping[str, Any], batch_size: int, sequence_length: int, output_length: Optional[int]) -> Part:
    shorter, said = _shortened(config)
    try:
        module = whole_skeleton(shorter)
        replace_parameters(module, lambda _, parameter: parameter.to("meta"))
        replace_buffers(module, lambda buffer: buffer.to("meta"))
        inputs = _inputs(module, batch_size, min(sequence_length, LONG) if said else sequence_length, output_length)
    except NeuronFitError as error:
        return Part(name, None, {}, said, _said(error))
    except Exception as error:  # a class that needs more than its config raises what it likes
        return Part(name, None, {}, said, f"{config.get('model_type')} cannot be built on its own: {one_line(error)}")
    return Part(name, module, inputs, said)


def _within(failed: Part, config: Mapping[str, Any], own: Any, batch_size: int, sequence_length: int) -> Part:
    """The part as a piece of the whole skeleton, where its config has no class of its own."""
    import transformers

    whole = whole_skeleton(config)
    pieces = (one for one in whole.modules() if one is not whole and isinstance(one, transformers.PreTrainedModel))
    piece = next((one for one in pieces if type(one.config) is type(own)), None)
    if piece is None:
        return failed
    replace_buffers(piece, lambda buffer: buffer.to("meta"))
    try:
        return Part(failed.name, piece, _inputs(piece, batch_size, sequence_length, None), failed.shortened)
    except NeuronFitError as error:
        return Part(failed.name, None, {}, failed.shortened, _said(error))


def _said(error: BaseException) -> str:
    """What an error says, without its advice on params files."""
    return str(error).split(" | ")[0]


def _shortened(config: Mapping[str, Any]) -> tuple[dict[str, Any], Optional[str]]:
    """A copy with the first layers only, where layers are recurrent and many; lists with one entry per layer are cut too."""
    settings = text_settings(settings_of(config))
    layers = getattr(settings, "num_hidden_layers", None)
    if not _recurrent(settings) or not isinstance(layers, int) or layers <= DEEP:
        return dict(config), None
    keep = min(layers, max(2, _until_every_kind(settings)))
    shorter = copy.deepcopy(dict(config))
    for holder in (shorter, *(shorter[key] for key in NESTED if isinstance(shorter.get(key), dict))):
        for key, value in holder.items():
            if isinstance(value, list) and len(value) == layers:
                holder[key] = value[:keep]
            elif key in ("num_hidden_layers", "n_layer", "n_layers") and value == layers:
                holder[key] = keep
    shorter.setdefault("num_hidden_layers", keep)
    return shorter, f"the first {keep} of {layers} layers, at most {LONG} tokens"


def _recurrent(settings: Any) -> bool:
    kinds = {str(kind) for name in ("layer_types", "layers_block_type", "block_types") for kind in getattr(settings, name, None) or ()}
    return bool(kinds & {"mamba", "mamba2", "recurrent", "linear_attention", "rwkv"}) or settings.model_type in (
        "mamba",
        "mamba2",
        "falcon_mamba",
        "rwkv",
    )


def _until_every_kind(settings: Any) -> int:
    """Layers until each kind of layer, and each place of a repeating expert, has occurred."""
    kinds = next((list(found) for name in ("layer_types", "layers_block_type") if (found := getattr(settings, name, None))), [])
    pattern = list(getattr(settings, "block_types", None) or ())
    experts = (getattr(settings, "expert_layer_offset", None) or 0) + 1
    last = max((kinds.index(kind) + 1 for kind in set(kinds)), default=0)
    return max(last, len(pattern), experts)


def _inputs(module: torch.nn.Module, batch_size: int, sequence_length: int, output_length: Optional[int]) -> dict[str, torch.Tensor]:
    """What the module reads, by the name of its main input, on meta."""
    import torch

    settings, main = module.config, getattr(module, "main_input_name", "input_ids")
    text = text_settings(settings)

    def empty(*sizes: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
        return torch.empty(sizes, dtype=dtype, device="meta")

    if main == "pixel_values":
        height, width = image_size(settings)
        return {main: empty(batch_size, getattr(settings, "num_channels", None) or 3, height, width)}
    decodes = bool(getattr(settings, "is_encoder_decoder", False))
    if main == "input_features":
        window = 2 * (getattr(settings, "max_source_positions", None) or sequence_length)
        inputs = {main: empty(batch_size, getattr(settings, "num_mel_bins", None) or 80, window)}
    elif main == "input_values":
        inputs = {main: empty(batch_size, SAMPLES_PER_TOKEN * sequence_length + 80)}
    elif main == "input_ids":
        longest = getattr(text, "max_position_embeddings", None)
        length = min(sequence_length, longest) if isinstance(longest, int) and longest > 0 else sequence_length
        inputs = {main: empty(batch_size, length, dtype=torch.int64), "attention_mask": empty(batch_size, length, dtype=torch.int64)}
    else:
        raise BadParams(f"{type(module).__name__} reads", main, allowed="input_ids, pixel_values, input_features, input_values")
    if decodes:
        start_token(settings)
        length = output_length or min(sequence_length, getattr(settings, "max_target_positions", None) or sequence_length)
        inputs["decoder_input_ids"] = empty(batch_size, length, dtype=torch.int64)
    return inputs
