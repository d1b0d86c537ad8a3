"""What goes into a model, and one unit of work with it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable, Mapping, Optional

from neuronfit.errors import BadParams
from neuronfit.model.architecture import TASKS, check_task, image_size, padding_token, position_limit, settings_of, start_token, text_settings
from neuronfit.model.refusals import one_of, positive
from neuronfit.model.reproducible import hashed

if TYPE_CHECKING:
    import torch

__all__ = ["call", "example_inputs", "useful_results"]


def example_inputs(
    config: Mapping[str, Any],
    task: str,
    batch_size: int,
    sequence_length: int,
    *,
    output_length: Optional[int] = None,
    device: str = "cpu",
    seed: int = 0,
) -> dict[str, torch.Tensor]:
    """Full-length inputs without padding, the same on every host for the same ``seed``.

    Text: ``input_ids`` int64 [batch_size, sequence_length], ordinary tokens of the vocabulary (no
    padding, start, end or mask token; a sequence classifier with a decoder gets the end token last,
    because it reads the answer there), and ``attention_mask`` int64 of ones. An encoder-decoder
    also gets ``decoder_input_ids`` int64 [batch_size, output_length or sequence_length], which begin
    with the start token; :func:`call` leaves them out when it generates. Images: ``pixel_values``
    float32 [batch_size, channels, height, width] in -1..1, at the config's image size (224 if it
    has none); ``sequence_length`` does not apply.

    Raises :class:`~neuronfit.errors.BadParams` when the sequence, with the text to be generated
    after it, is longer than the position embeddings hold.
    """
    import torch

    check_task(config, task)
    batch_size, sequence_length = positive("batch_size", batch_size), positive("sequence_length", sequence_length)
    output = 0 if output_length is None else positive("output_length", output_length)
    settings = settings_of(config)

    if TASKS[task].input == "image":
        height, width = image_size(settings)
        shape = (batch_size, getattr(settings, "num_channels", None) or 3, height, width)
        pixels = hashed(batch_size * shape[1] * height * width, seed) % 2001 - 1000
        return {"pixel_values": (pixels.to(torch.float32) / 1000).view(shape).to(device)}

    limit = position_limit(config)
    has_decoder = bool(getattr(settings, "is_encoder_decoder", False))
    generated_after = output if task == "text-generation" else 0
    longest = max(sequence_length + generated_after, output if has_decoder else 0)
    if limit is not None and longest > limit:
        what = "sequence_length + output_length" if generated_after else "sequence_length"
        raise BadParams(
            f"{what} is more than {settings.model_type} has positions for",
            longest,
            allowed=f"1 to {limit} tokens",
            next=f"set it to {limit} or less, or choose a model with longer context",
        )

    inputs = {"input_ids": _tokens(settings, (batch_size, sequence_length), seed)}
    inputs["attention_mask"] = torch.ones(batch_size, sequence_length, dtype=torch.int64)
    if has_decoder and task == "text-classification":
        inputs["input_ids"][:, -1] = settings.eos_token_id
    elif has_decoder:
        inputs["decoder_input_ids"] = _tokens(settings, (batch_size, output or sequence_length), seed + 1)
        inputs["decoder_input_ids"][:, 0] = start_token(settings)
    return {name: tensor.to(device) for name, tensor in inputs.items()}


def call(
    model: torch.nn.Module,
    inputs: Mapping[str, torch.Tensor],
    task: str,
    output_length: Optional[int] = None,
    on_tokens: Optional[Callable[[], None]] = None,
) -> Any:
    """One unit of work, without gradients: what a benchmark times.

    One forward pass, which returns the model's output object; for the two generation tasks a greedy
    ``generate`` of exactly ``output_length`` new tokens per sequence (the end token is suppressed, so
    random weights cannot stop early), which returns int64 ids [batch, prompt or 1 + output_length].
    Images are cast to the model's precision first. Does not wait for an asynchronous device.

    ``on_tokens`` is called whenever a token of each sequence lies in host memory, and once before for
    the prompt.
    """
    import torch

    one_of("unknown task", task, TASKS)
    with torch.inference_mode():
        if not TASKS[task].generates:
            if "pixel_values" in inputs:
                inputs = {**inputs, "pixel_values": inputs["pixel_values"].to(model.dtype)}
            return model(**inputs)
        length = _output_length(task, output_length)
        prompt = {name: inputs[name] for name in ("input_ids", "attention_mask")}
        return model.generate(
            **prompt,
            min_new_tokens=length,
            max_new_tokens=length,
            do_sample=False,
            num_beams=1,
            use_cache=True,
            **({"streamer": _Streamer(on_tokens)} if on_tokens else {}),
            pad_token_id=padding_token(model.config),
        )


class _Streamer:
    """What ``generate`` tells of its tokens, as it hands them to a text streamer: on the host, step by step."""

    def __init__(self, told: Callable[[], None]):
        self.told = told

    def put(self, tokens: Any) -> None:
        self.told()

    def end(self) -> None: ...


def useful_results(task: str, batch_size: int, output_length: Optional[int] = None) -> int:
    """Useful results of one :func:`call`: inferences or images, or generated tokens."""
    one_of("unknown task", task, TASKS)
    return batch_size * _output_length(task, output_length) if TASKS[task].generates else batch_size


def _tokens(settings: Any, shape: tuple[int, int], seed: int) -> torch.Tensor:
    """Ordinary token ids: uniform over the vocabulary without the config's special tokens.

    A config with configs inside (vision and text) has its vocabulary in the text's.
    """
    settings = text_settings(settings)
    special: set[int] = set()
    for name in ("pad", "bos", "eos", "sep", "cls", "mask", "decoder_start"):
        token = getattr(settings, f"{name}_token_id", None)
        special.update(token if isinstance(token, (list, tuple)) else [token])
    special = {token for token in special if isinstance(token, int) and 0 <= token < settings.vocab_size}
    ids = hashed(shape[0] * shape[1], seed) % (settings.vocab_size - len(special))
    for token in sorted(special):
        ids += (ids >= token).to(ids.dtype)
    return ids.view(shape)


def _output_length(task: str, output_length: Optional[int]) -> int:
    if output_length is None:
        raise BadParams(f"{task} needs output_length", None, allowed="tokens to generate, 1 or more")
    return positive("output_length", output_length)
