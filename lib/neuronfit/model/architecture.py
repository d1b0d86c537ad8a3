"""Architecture: tasks, the config file, and small questions to it. No weights, no torch."""

from __future__ import annotations

import contextlib
import copy
import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Iterator, Mapping, Optional, Union

from neuronfit.errors import BadParams, nearest
from neuronfit.model.refusals import folders, one_line, one_of

if TYPE_CHECKING:
    import torch

__all__ = [
    "PRECISIONS",
    "TASKS",
    "Task",
    "architecture_of",
    "check_task",
    "config_digest",
    "dtypes_by_precision",
    "first_of",
    "image_size",
    "padding_token",
    "patches",
    "position_limit",
    "quiet_transformers",
    "read_config",
    "read_json",
    "settings_of",
    "start_token",
    "text_settings",
]


@dataclass(frozen=True)
class Task:
    """What a model is asked to do.

    ``auto_class`` names the transformers class, ``result`` what one useful result is
    (``"inference"``, ``"token"`` or ``"image"``), ``input`` what goes in (``"text"`` or ``"image"``).
    """

    name: str
    auto_class: str
    result: str
    input: str
    model_types: str
    """the table of transformers that lists the model types which can do this"""

    @property
    def generates(self) -> bool:
        """Whether one call is a loop that writes tokens."""
        return self.result == "token"


_ALL_TASKS = (
    Task("feature-extraction", "AutoModel", "inference", "text", "MODEL_MAPPING_NAMES"),
    Task("fill-mask", "AutoModelForMaskedLM", "inference", "text", "MODEL_FOR_MASKED_LM_MAPPING_NAMES"),
    Task(
        "text-classification",
        "AutoModelForSequenceClassification",
        "inference",
        "text",
        "MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING_NAMES",
    ),
    Task("text-generation", "AutoModelForCausalLM", "token", "text", "MODEL_FOR_CAUSAL_LM_MAPPING_NAMES"),
    Task(
        "text2text-generation",
        "AutoModelForSeq2SeqLM",
        "token",
        "text",
        "MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES",
    ),
    Task(
        "image-classification",
        "AutoModelForImageClassification",
        "image",
        "image",
        "MODEL_FOR_IMAGE_CLASSIFICATION_MAPPING_NAMES",
    ),
)

TASKS: dict[str, Task] = {task.name: task for task in _ALL_TASKS}

PRECISIONS: dict[str, int] = {"fp32": 4, "bf16": 2, "fp16": 2, "int8": 1}
"""Precision -> bytes per parameter."""

_NOT_ARCHITECTURE = ("transformers_version", "_name_or_path", "torch_dtype", "dtype", "architectures")

_POSITIONS_START_AFTER_PADDING = frozenset(
    "camembert data2vec-text ibert layoutlmv3 lilt longformer luke markuplm mpnet roberta "
    "roberta-prelayernorm xlm-roberta xlm-roberta-xl xmod".split()
)
"""These number positions from ``pad_token_id + 1``: roberta's 514 positions hold 512 tokens."""


# --- the config ------------------------------------------------------------------------------------


def read_config(path: Union[str, Path]) -> dict[str, Any]:
    """Read the ``config.json`` of a model, or the one in the folder ``path``.

    Raises :class:`~neuronfit.errors.BadParams` as :func:`read_json` does, and when its ``model_type`` is
    unknown to the installed transformers; the message names the nearest model type.
    """
    config = read_json(path)
    check_model_type(config)
    return config


def read_json(path: Union[str, Path]) -> dict[str, Any]:
    """Read a JSON object that may or may not be a model's config.

    Raises :class:`~neuronfit.errors.BadParams` when the file is missing or is not a JSON object; the
    message names the nearest config beside it.
    """
    path = Path(path)
    file = path / "config.json" if path.is_dir() else path
    try:
        text = file.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise BadParams("model config is not a text file", str(file), allowed="a config.json in UTF-8") from None
    except OSError:
        raise BadParams("no model config at", str(path), allowed=_configs_beside(path)) from None
    try:
        config = json.loads(text)
    except json.JSONDecodeError as error:
        raise BadParams(
            "model config is not complete JSON",
            str(file),
            allowed=f"valid JSON (it breaks at line {error.lineno}, column {error.colno}: {error.msg})",
            next="copy the file again from its source",
        ) from None
    if not isinstance(config, dict):
        raise BadParams("model config is not a JSON object", type(config).__name__, allowed='{"model_type": "bert", ...}')
    return config


def config_digest(config: Mapping[str, Any]) -> str:
    """Sixteen hex digits (sha256) that identify the architecture.

    Keys that do not change what is computed are left out at every depth: ``transformers_version``,
    ``_name_or_path``, ``torch_dtype``, ``dtype``, ``architectures``. Key order does not matter.
    """
    canonical = json.dumps(architecture_of(config), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()[:16]


def position_limit(config: Mapping[str, Any]) -> Optional[int]:
    """The longest sequence (tokens) the position embeddings hold; ``None`` where there is no limit (T5)."""
    settings = text_settings(settings_of(config))
    positions = getattr(settings, "max_position_embeddings", None)
    if not isinstance(positions, int) or positions <= 0:
        return None
    if settings.model_type in _POSITIONS_START_AFTER_PADDING:
        return positions - (settings.pad_token_id or 0) - 1
    return positions


# --- small questions to a config -------------------------------------------------------------------


def settings_of(config: Mapping[str, Any]) -> Any:
    """The config as the transformers object of its model type, which fills in defaults."""
    import transformers

    check_model_type(config)
    try:
        with quiet_transformers():
            return transformers.CONFIG_MAPPING[config["model_type"]].from_dict(copy.deepcopy(dict(config)))
    except Exception as error:  # each config class validates in its own way
        said = " ".join(line.strip() for line in str(error).splitlines()[:2] if line.strip()) or one_line(error)
        raise BadParams("transformers refuses the config", said, next="correct that key") from error


def text_settings(settings: Any) -> Any:
    """The settings of the text part where a config holds several configs, otherwise the settings themselves."""
    if isinstance(getattr(settings, "vocab_size", None), int):
        return settings
    try:
        return settings.get_text_config(decoder=True)
    except Exception as error:  # a config whose text part is ambiguous says so in its own way
        return settings if error else None


@contextlib.contextmanager
def quiet_transformers() -> Iterator[None]:
    """While a config is read or a model constructed, transformers logs errors only; what we say ourselves is not touched.

    Its warnings there are about keys that a config of another release has, and about how the class is meant to be used.
    """
    from transformers.utils import logging

    before = logging.get_verbosity()
    logging.set_verbosity(max(before, logging.ERROR))
    try:
        yield
    finally:
        logging.set_verbosity(before)


def check_model_type(config: Mapping[str, Any]) -> None:
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING_NAMES

    model_type = config.get("model_type")
    if model_type is None:
        raise BadParams("config has no model_type, only", ", ".join(sorted(config)[:6]), next='add "model_type": "bert" or another')
    if model_type not in CONFIG_MAPPING_NAMES:
        import transformers

        near = ", ".join(nearest(str(model_type), CONFIG_MAPPING_NAMES))
        raise BadParams(
            f"model_type is unknown to transformers {transformers.__version__}",
            model_type,
            allowed=near or f"{len(CONFIG_MAPPING_NAMES)} types, for example bert, t5, llama, vit",
            next="its code lies in its own repository and is not run here: take the config of the architecture that it is built from"
            if "auto_map" in config
            else "correct it, or install a transformers that knows it",
        )


def check_task(config: Mapping[str, Any], task: str) -> None:
    from transformers.models.auto import modeling_auto

    one_of("unknown task", task, TASKS)
    check_model_type(config)
    able = [name for name, one in TASKS.items() if config["model_type"] in getattr(modeling_auto, one.model_types)]
    if task not in able:
        raise BadParams(f"{config['model_type']} cannot do the task", task, allowed=", ".join(able) or "none of ours")


def architecture_of(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: architecture_of(inner) for key, inner in value.items() if key not in _NOT_ARCHITECTURE}
    return value


def dtypes_by_precision() -> dict[str, torch.dtype]:
    import torch

    return {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}


def first_of(settings: Any, *names: str) -> Any:
    """The first of these settings that is there and not ``None`` (some libraries spell one size six ways)."""
    values = (getattr(settings, name, None) for name in names)
    return next((value for value in values if value is not None), None)


def image_size(settings: Any) -> tuple[int, int]:
    size = getattr(settings, "image_size", None) or 224
    return (size, size) if isinstance(size, int) else tuple(size)


def patches(settings: Any) -> int:
    """Tokens a vision transformer makes of one image: its patches and the class token."""
    height, width = image_size(settings)
    patch = getattr(settings, "patch_size", None) or 16
    patch = patch if isinstance(patch, int) else patch[0]
    return (height // patch) * (width // patch) + 1


def padding_token(settings: Any) -> int:
    """An id to pad with; where the config has none, the end token, as generation does."""
    for token in (first_of(settings, "pad_token_id"), first_of(settings, "eos_token_id"), 0):
        if isinstance(token, (list, tuple)):
            token = token[0]
        if token is not None:
            return token
    return 0


def start_token(settings: Any) -> int:
    return first_of(settings, "decoder_start_token_id", "bos_token_id", "pad_token_id") or 0


def _configs_beside(path: Path) -> str:
    """The nearest folders with a config.json around a path that has none."""
    wanted = path.parent if path.suffix == ".json" and not path.parent.is_dir() else path
    known = [child.name for child in folders(wanted.parent) if (child / "config.json").is_file()]
    near = nearest(wanted.name, known) or known[:3]
    return ", ".join(str(wanted.parent / name) for name in near) or "a config.json or a folder that holds one"
