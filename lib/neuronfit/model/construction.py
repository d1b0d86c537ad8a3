"""A copy of a model: a skeleton without weights, or one that runs."""

from __future__ import annotations

import contextlib
import math
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any, Callable, Iterator, Mapping, Optional, Union

from neuronfit.errors import BadParams, nearest
from neuronfit.model.architecture import TASKS, architecture_of, check_task, dtypes_by_precision, quiet_transformers, read_config, settings_of
from neuronfit.model.refusals import folders, one_line, one_of
from neuronfit.model.reproducible import normal_tile

if TYPE_CHECKING:
    import torch

__all__ = ["build", "construct", "replace_buffers", "replace_parameters", "skeleton", "whole_skeleton"]


NOT_IN_THE_WEIGHTS = "not in the weights"
"""How the warning about parameters begins that no file holds."""


def skeleton(config: Mapping[str, Any], task: str) -> torch.nn.Module:
    """The model on the meta device, in eval mode: every shape, no weight memory.

    Attention is ``sdpa`` where the model supports it, otherwise ``eager``; it changes the operator
    list. Raises :class:`~neuronfit.errors.BadParams` for an unknown task, and for a model that
    cannot do the task.
    """
    model = construct(config, task, "fp32")
    replace_parameters(model, lambda name, parameter: parameter.to("meta"))
    replace_buffers(model, lambda buffer: buffer.to("meta"))
    return model


def build(
    config: Mapping[str, Any],
    task: str,
    *,
    precision: str = "fp32",
    device: str = "cpu",
    weights: str = "random",
    seed: int = 0,
    folder: Union[str, Path, None] = None,
) -> torch.nn.Module:
    """The model in eval mode with real weights on ``device``.

    ``weights="random"``: norms 1, biases 0, everything else like N(0, 0.02), the same values on
    every host for the same ``seed``. Speed does not depend on the values, answers do: use it to
    time, not to judge quality. Otherwise ``weights`` is a folder with ``model.safetensors`` or
    ``pytorch_model.bin`` (sharded too), relative to ``folder`` if given; nothing is downloaded. Parts
    the files do not hold are initialised from ``seed``, with a warning that names them.

    ``precision`` is ``fp32``, ``bf16`` or ``fp16``. Raises :class:`~neuronfit.errors.BadParams` for
    another precision, an unusable device, a missing or damaged weights folder, and a folder whose
    config contradicts ``config``.
    """
    import torch

    dtypes = dtypes_by_precision()
    one_of("precision cannot be built", precision, dtypes)
    try:
        place = torch.empty(0, device=device).device
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        raise BadParams("device cannot be used", str(device), allowed=f"{one_line(error)}; try cpu") from None

    if weights != "random":
        return _load(config, task, dtypes[precision], Path(folder or ".") / weights, seed).to(place).eval()

    model = construct(config, task, precision)
    tile, cursor = normal_tile(seed).to(dtypes[precision]).to(place), 0
    largest = max(parameter.numel() for parameter in model.parameters())
    tile = tile.repeat(min(64, 1 + largest // tile.numel()))  # few long copies instead of many short ones

    def fill(name: str, parameter: torch.Tensor) -> torch.Tensor:
        nonlocal cursor
        if parameter.dim() < 2:
            value = 0.0 if "bias" in name else 1.0
            return torch.full(parameter.shape, value, dtype=parameter.dtype, device=place)
        filled = torch.empty(parameter.shape, dtype=parameter.dtype, device=place)
        flat, done = filled.view(-1), 0
        while done < flat.numel():
            length = min(flat.numel() - done, tile.numel() - cursor)
            flat[done : done + length] = tile[cursor : cursor + length]
            done, cursor = done + length, (cursor + length) % tile.numel()
        return filled

    replace_parameters(model, fill)
    replace_buffers(model, lambda buffer: buffer.to(place))
    unfilled = [name for name, buffer in model.named_buffers() if buffer.is_meta]
    if unfilled:
        raise BadParams(
            "random weights do not cover the buffer",
            unfilled[0],
            allowed="models whose buffers are computed by their constructor",
            next="set weights to a folder that holds this model's weights",
        )
    return model


# --- construction ----------------------------------------------------------------------------------


def whole_skeleton(config: Mapping[str, Any]) -> torch.nn.Module:
    """The model that the config itself names, on meta: all its parts, whatever our tasks know of it.

    That is ``architectures[0]`` where the installed transformers has it, otherwise the first task's class that
    takes the model type (an encoder that could be turned into a decoder stays one), otherwise ``AutoModel``. Raises :class:`~neuronfit.errors.BadParams`.
    """
    import transformers
    from transformers.models.auto import modeling_auto

    settings = settings_of(config)
    named = getattr(transformers, str((config.get("architectures") or [None])[0]), None)
    if isinstance(named, type) and issubclass(named, transformers.PreTrainedModel) and isinstance(settings, named.config_class or ()):
        makers = [named._from_config]
    else:
        reads_first = bool(getattr(settings, "is_encoder_decoder", False))
        encodes = (
            not reads_first and not getattr(settings, "is_decoder", False) and config["model_type"] in modeling_auto.MODEL_FOR_MASKED_LM_MAPPING_NAMES
        )
        order = sorted(
            TASKS.values(),
            key=lambda task: (task.name != "fill-mask" if encodes else not task.generates, (task.name == "text-generation") is reads_first),
        )
        able = [task.auto_class for task in order if config["model_type"] in getattr(modeling_auto, task.model_types)]
        makers = [getattr(transformers, name).from_config for name in [*able, "AutoModel"]]
    model = _constructed(makers[0], config, "fp32", f"transformers cannot build {config.get('model_type')}")
    replace_parameters(model, lambda name, parameter: parameter.to("meta"))
    return model


def construct(config: Mapping[str, Any], task: str, precision: str) -> torch.nn.Module:
    """The model with its weight matrices on meta, and its buffers and small vectors computed on the CPU.

    Constructors allocate matrices with ``torch.empty`` and compute buffers (position ids, rotary
    frequencies) with everything else, so sending only ``torch.empty`` to meta gives correct buffers
    without weight memory, which ``to_empty`` on an all-meta model would leave undefined.
    """
    import transformers

    check_task(config, task)
    make = getattr(transformers, TASKS[task].auto_class).from_config
    return _constructed(make, config, precision, f"transformers cannot build {config.get('model_type')} for {task}")


def _constructed(make: Callable[..., Any], config: Mapping[str, Any], precision: str, failure: str) -> torch.nn.Module:
    import torch
    from torch.overrides import TorchFunctionMode

    class WeightsOnMeta(TorchFunctionMode):
        def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            kwargs = dict(kwargs or {})
            if kwargs.get("device") is None and (function is torch.empty or function in filled and _elements(args) > _MATRIX):
                kwargs["device"] = "meta"
            return function(*args, **kwargs)

    filled = (torch.zeros, torch.ones, torch.rand, torch.randn)
    for attention in ("sdpa", "eager"):
        try:
            with WeightsOnMeta(), quiet_transformers():
                model = make(
                    settings_of(config),
                    attn_implementation=attention,
                    dtype=dtypes_by_precision()[precision],
                    **({} if make.__name__ == "_from_config" else {"trust_remote_code": False}),
                )
            break
        except (ImportError, TypeError, ValueError, RuntimeError) as error:
            reason = error
    else:
        raise BadParams(failure, one_line(reason), next="check the sizes in its config.json") from reason
    _honour_tie_flag(model, config)
    return model.eval()


_MATRIX = 2**26
"""elements from which zeros and the like can only be weights (stacked experts), not a mask or a table"""


def _elements(sizes: tuple[Any, ...]) -> int:
    """How many elements ``torch.zeros(*sizes)`` makes."""
    sizes = sizes[0] if len(sizes) == 1 and isinstance(sizes[0], (tuple, list)) else sizes
    return math.prod(size for size in sizes if isinstance(size, int))


def _honour_tie_flag(model: torch.nn.Module, config: Mapping[str, Any]) -> None:
    """Give the output head its own matrix where the config says ``tie_word_embeddings: false``.

    transformers 5 ties T5's three embeddings whatever the config says, while the published
    checkpoints of flan-t5 have a separate head; encoder and decoder do share theirs.
    """
    import torch

    if config.get("tie_word_embeddings") is not False or not hasattr(model, "get_output_embeddings"):
        return
    head, embedding = model.get_output_embeddings(), model.get_input_embeddings()
    if head is not None and head.weight is embedding.weight:
        head.weight = torch.nn.Parameter(torch.empty_like(head.weight, device="meta"))


def replace_parameters(model: torch.nn.Module, make: Callable[[str, torch.Tensor], torch.Tensor]) -> None:
    """Replace each unique parameter by ``make(name, parameter)``; shared parameters stay shared."""
    import torch

    owners: dict[int, list[tuple[torch.nn.Module, str]]] = {}
    for module in model.modules():
        for name, parameter in module.named_parameters(recurse=False, remove_duplicate=False):
            owners.setdefault(id(parameter), []).append((module, name))
    with torch.no_grad():
        for places in owners.values():
            module, name = places[0]
            old = getattr(module, name)
            new = torch.nn.Parameter(make(name, old), requires_grad=old.requires_grad)
            for module, name in places:
                setattr(module, name, new)


def replace_buffers(model: torch.nn.Module, make: Callable[[torch.Tensor], torch.Tensor]) -> None:
    for module in model.modules():
        for name, buffer in list(module.named_buffers(recurse=False)):
            setattr(module, name, make(buffer))


@contextlib.contextmanager
def _no_bar() -> Iterator[None]:
    """transformers draws a bar while it loads weights, wherever its output goes; a second later it is over."""
    from transformers.utils import logging

    there = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if there:
            logging.enable_progress_bar()


def _load(config: Mapping[str, Any], task: str, dtype: Any, folder: Path, seed: int) -> torch.nn.Module:
    """``from_pretrained`` on a local folder, with its failures turned into one line."""
    import torch
    import transformers

    check_task(config, task)
    names = [f"{stem}{index}" for stem in ("model.safetensors", "pytorch_model.bin") for index in ("", ".index.json")]
    if not folder.is_dir():
        near = nearest(folder.name, [child.name for child in folders(folder.parent)])
        raise BadParams("no weights folder", str(folder), allowed=", ".join(near) or "random, or a folder that exists")
    if not any((folder / name).is_file() for name in names):
        raise BadParams("folder holds no weights", str(folder), allowed=f"one of {', '.join(names)}")
    if (folder / "config.json").is_file():
        theirs, ours = architecture_of(read_config(folder)), architecture_of(config)
        for key in sorted(theirs.keys() & ours.keys()):
            if theirs[key] != ours[key]:
                raise BadParams(
                    f"weights are of another model: {key} is {theirs[key]!r} there, here",
                    ours[key],
                    next=f"use the config of the weights: {folder / 'config.json'}",
                )
    auto_class = getattr(transformers, TASKS[task].auto_class)
    reason: Optional[BaseException] = None
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        for attention in ("sdpa", "eager"):
            try:
                with _no_bar():
                    model, report = auto_class.from_pretrained(
                        str(folder),
                        config=settings_of(config),
                        attn_implementation=attention,
                        dtype=dtype,
                        local_files_only=True,
                        trust_remote_code=False,
                        output_loading_info=True,
                    )
                break
            except Exception as error:  # each file format raises its own; all of them mean unusable weights
                reason = reason or error
        else:
            raise BadParams("weights cannot be loaded", str(folder), allowed=f"files that fit the config ({one_line(reason)})") from reason
    missing = sorted(set(report["missing_keys"]))
    if missing:
        warnings.warn(
            f"{NOT_IN_THE_WEIGHTS}, random from seed {seed}: {', '.join(missing[:4])}"
            + (f" and {len(missing) - 4} more" if len(missing) > 4 else ""),
            stacklevel=3,
        )
    return model
