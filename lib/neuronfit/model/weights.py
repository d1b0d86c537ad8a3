"""Which weights: a hash that is the same on every host exactly when the values are."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Optional, Union

from neuronfit.errors import BadParams
from neuronfit.model.architecture import config_digest
from neuronfit.model.construction import skeleton

__all__ = ["INITIALISER", "Weights", "identify", "sha256_of_file", "weight_files"]

INITIALISER = "normal_tile/1"
"""Version of the rule that makes random weights (:func:`neuronfit.model.build`): change it when values change."""


@dataclass(frozen=True)
class Weights:
    """``sha256`` identifies the values, ``origin`` says it in words."""

    sha256: str
    origin: str
    random: bool


def identify(config: Mapping[str, Any], task: str, weights: str = "random", *, seed: int = 0, folder: Union[str, Path, None] = None) -> Weights:
    """Identify the weights that :func:`neuronfit.model.build` loads or makes.

    Files: sha256 over the name and the content of each weight file that is loaded. Random: sha256 over
    the rule, the seed, the config's digest, and the shape and kind of every parameter in the order in
    which it is filled, since another release of transformers may order them differently. Precision is
    not part of it: it is a setting of a target. Raises :class:`~neuronfit.errors.BadParams`.
    """
    if weights == "random":
        layout = [("bias" in name, *parameter.shape) for name, parameter in skeleton(config, task).named_parameters()]
        made_from = {"rule": INITIALISER, "seed": seed, "config": config_digest(config), "parameters": layout}
        return Weights(hashlib.sha256(json.dumps(made_from, sort_keys=True).encode()).hexdigest(), f"random, seed {seed}", True)
    files = weight_files(Path(folder or ".") / weights)
    digest = hashlib.sha256()
    for path in files:
        digest.update(f"{path.name}\0{sha256_of_file(path)}\n".encode())
    size = sum(path.stat().st_size for path in files)
    return Weights(digest.hexdigest(), f"{files[0].name if len(files) == 1 else f'{len(files)} files'}, {size:,} bytes", False)


def weight_files(folder: Path) -> list[Path]:
    """The files that are loaded from a folder, in name order: safetensors before pickles, shards by their index."""
    for stem in ("model.safetensors", "pytorch_model.bin"):
        if (folder / stem).is_file():
            return [folder / stem]
        index = folder / f"{stem}.index.json"
        if index.is_file():
            return sorted(folder / name for name in _shards(index))
    raise BadParams("folder holds no weights", str(folder), allowed="model.safetensors or pytorch_model.bin, or the index of their shards")


def _shards(index: Path) -> set[str]:
    try:
        named = set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values())
    except (OSError, ValueError, LookupError, AttributeError, TypeError):
        raise BadParams("cannot read the index of the weights", str(index), allowed="a JSON object with weight_map") from None
    missing = sorted(name for name in named if not (index.parent / name).is_file())
    if missing:
        raise BadParams("a shard of the weights is missing", missing[0], allowed=f"all {len(named)} files of {index.name}", next="copy it again")
    return named


def sha256_of_file(path: Path, block: Optional[int] = None) -> str:
    """Hex digest of a file's content, read in blocks of ``block`` bytes (1 MiB)."""
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while data := file.read(block or 2**20):
            digest.update(data)
    return digest.hexdigest()
