"""Text to token ids, from a folder of tokenizer files. Nothing is downloaded."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Union

from neuronfit.errors import BadParams
from neuronfit.model.refusals import one_line

__all__ = ["FILES", "Tokenizer", "has_tokenizer"]

FILES = ("tokenizer.json", "vocab.txt", "vocab.json", "spiece.model", "tokenizer.model", "sentencepiece.bpe.model")
"""Any of these makes a folder one that holds a tokenizer."""


def has_tokenizer(folder: Union[str, Path]) -> bool:
    return any((Path(folder) / name).is_file() for name in FILES)


class Tokenizer:
    """The tokenizer of a folder: ``tokenizer.json`` by itself, older files through transformers.

    Raises :class:`~neuronfit.errors.BadParams` when there is none or it cannot be read.
    """

    def __init__(self, folder: Union[str, Path]):
        self.folder = Path(folder)
        if not has_tokenizer(self.folder):
            raise BadParams("folder holds no tokenizer", str(folder), allowed=f"one of {', '.join(FILES)}", next="set workload.inputs.tokenizer")
        try:
            self._fast = self._read()
        except Exception as error:  # each file format raises its own; all of them mean an unusable tokenizer
            raise BadParams("tokenizer cannot be read", str(folder), allowed=f"files that fit together ({one_line(error)})") from error
        self._fast.no_padding()

    def _read(self) -> Any:
        import tokenizers

        file = self.folder / "tokenizer.json"
        if file.is_file():
            return tokenizers.Tokenizer.from_file(str(file))
        import transformers

        return transformers.AutoTokenizer.from_pretrained(str(self.folder), local_files_only=True, trust_remote_code=False)._tokenizer

    @property
    def size(self) -> int:
        """Token ids run from 0 to ``size`` - 1."""
        return self._fast.get_vocab_size(with_added_tokens=True)

    def encode(self, texts: Sequence[str], limit: int = 0) -> list[list[int]]:
        """Token ids of each text with the model's special tokens; at most ``limit`` of them where that is not 0."""
        if limit:
            self._fast.enable_truncation(max_length=limit)
        else:
            self._fast.no_truncation()
        return [one.ids for one in self._fast.encode_batch(list(texts), add_special_tokens=True)]

    def decode(self, ids: Sequence[int]) -> str:
        """Text of token ids, special tokens left out."""
        return str(self._fast.decode(list(ids), skip_special_tokens=True))
