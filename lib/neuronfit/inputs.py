"""What goes into the model: real inputs from a file, or synthetic ones with the lengths of the traffic.

    loaded = load_inputs(question)               # what there is, identified by its hash
    call = tensors(loaded, question.config, "fill-mask", shape, start=0)   # one call, padded to the shape

Both sides of a comparison read the same file, so both get the same tensors; ``Inputs.sha256`` says
that they did. Text becomes token ids here, which is the tokenizer's work: whether a timed call
includes it is declared in ``workload.inputs.tokenizer_time`` and recorded.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Optional

import numpy as np

from neuronfit import model, params
from neuronfit.errors import BadParams, nearest
from neuronfit.model.architecture import image_size, padding_token, settings_of
from neuronfit.model.reproducible import hashed
from neuronfit.model.tokenizer import Tokenizer, has_tokenizer

if TYPE_CHECKING:
    import torch

    from neuronfit.params import Shape
    from neuronfit.question import Question

__all__ = ["FromText", "Inputs", "batches", "fed_sha256", "load_inputs", "tensors", "token_lengths"]

SYNTHETIC = "synthetic"
TEXT_FILES = (".txt", ".jsonl", ".csv")
IMAGE_FILES = (".png", ".jpg", ".jpeg")
TEXT_KEYS = ("text", "prompt", "messages")
"""Where the text of a line is looked for when ``workload.inputs.column`` does not say it."""

SYNTHETIC_COUNT = 256
"""How many synthetic inputs there are when nobody asks for a number."""


@dataclass(frozen=True)
class Inputs:
    """Inputs as they were read. Tuples have one entry per input, or none where that is not known.

    ``lengths`` are tokens with the model's special tokens, before anything is cut; of text without a
    tokenizer they are not known. ``messages`` are the chat of each line, where the file has chats.
    """

    origin: str
    """what a record says about it: where it comes from, how many, and the beginning of the hash"""
    sha256: str
    texts: tuple[str, ...] = ()
    lengths: tuple[int, ...] = ()
    labels: tuple[str, ...] = ()
    messages: tuple[Any, ...] = field(default=(), compare=False)
    ids: tuple[tuple[int, ...], ...] = field(default=(), compare=False)
    pixels: Optional[np.ndarray] = field(default=None, compare=False)
    """float32 [inputs, channels, height, width]"""
    tokenizer: Optional[str] = None
    """folder of the tokenizer"""
    tokenizer_time: str = "excluded"
    seed: int = 0
    synthetic: bool = False

    def __len__(self) -> int:
        return len(self.pixels) if self.pixels is not None else len(self.lengths) or len(self.texts)


def load_inputs(question: Question, *, count: Optional[int] = None) -> Inputs:
    """The inputs of a question: all that the file holds, or the first ``count``.

    Without ``workload.inputs`` every input is synthetic and as long as the first shape. With
    ``source: synthetic`` lengths follow ``traffic.sequence_lengths``: each length gets its share of
    ``count`` (256) to the nearest whole input, in an order that depends on the seed only. Raises
    :class:`~neuronfit.errors.BadParams` for a file that cannot be used.
    """
    kept = vars(question).setdefault("_inputs", {})  # a question is read once, its file too
    if count not in kept:
        kept[count] = _read(question, count)
    return kept[count]


def _read(question: Question, count: Optional[int]) -> Inputs:
    asked = question.params.workload.inputs
    task = model.TASKS[question.params.workload.model.task]
    if asked is None or asked.source == SYNTHETIC:
        if asked is not None and asked.labels:
            raise BadParams(
                "workload.inputs.labels: synthetic inputs have no right answers", asked.labels, next="name a file in workload.inputs.source"
            )
        return _synthetic(question, asked or params.Inputs(), count or SYNTHETIC_COUNT, task.input)
    path = question.file(asked.source)
    images = path.is_dir() or path.suffix.lower() == ".npy"
    if images != (task.input == "image"):
        fits = "a folder of PNG or JPEG images, or an .npy array" if task.input == "image" else f"a file that ends in {', '.join(TEXT_FILES)}"
        raise BadParams(f"workload.inputs.source does not fit the task {task.name}", asked.source, allowed=f"{SYNTHETIC}, or {fits}")
    if not path.exists():
        beside = [one.name for one in path.parent.glob("*")] if path.parent.is_dir() else []
        near = nearest(path.name, beside)
        raise BadParams("workload.inputs.source: no such file", asked.source, allowed=", ".join(near) or f"{SYNTHETIC}, or a file that exists")
    return _images(question, asked, path, count) if images else _texts(question, asked, path, count)


def tensors(loaded: Inputs, config: Mapping[str, Any], task: str, shape: Shape, *, start: int = 0) -> dict[str, torch.Tensor]:
    """One call: ``shape.batch_size`` inputs from number ``start`` on, beginning again where they end.

    Text: ``input_ids`` and ``attention_mask`` int64 [batch, sequence], padded to the shape (on the
    left for text-generation, whose last position is continued; on the right otherwise) and cut to it.
    Images: ``pixel_values`` float32 [batch, channels, height, width]. An encoder-decoder also gets the
    made-up ``decoder_input_ids`` of :func:`neuronfit.model.example_inputs`.
    """
    import torch

    rows = [(start + place) % len(loaded) for place in range(shape.batch_size)]
    if loaded.pixels is not None:
        return {"pixel_values": torch.from_numpy(loaded.pixels[rows])}
    made = model.example_inputs(
        config,
        task,
        max(rows) + 1 if loaded.synthetic else shape.batch_size,
        shape.sequence_length,
        output_length=shape.output_length,
        seed=loaded.seed,
    )
    if loaded.synthetic:
        made = {name: tensor[rows] for name, tensor in made.items()}
        if "pixel_values" in made:
            return made
        last = made["input_ids"][:, -1:].tolist() if task == "text-classification" else [[]] * len(rows)  # a decoder's end token, which is read
        lengths = [min(loaded.lengths[row], shape.sequence_length) for row in rows]
        ids = [[*made["input_ids"][place, : length - len(end)].tolist(), *end] for place, (length, end) in enumerate(zip(lengths, last))]
    else:
        ids = _cut(loaded, rows, shape.sequence_length)
    padded, mask = _padded(ids, shape.sequence_length, padding_token(settings_of(config)), left=task == "text-generation")
    made["input_ids"], made["attention_mask"] = torch.from_numpy(padded), torch.from_numpy(mask)
    return made


class FromText:
    """One call after the other, each made from the text when it is asked for: what a server does that gets text.

    The tokenizer and everything that does not depend on the text are prepared beforehand.
    """

    def __init__(self, loaded: Inputs, config: Mapping[str, Any], task: str, shape: Shape):
        if not loaded.ids or loaded.tokenizer is None:
            raise BadParams(
                "workload.inputs.tokenizer_time: nothing is tokenized here", loaded.origin, allowed="excluded, or a file of prompts and a tokenizer"
            )
        self._loaded, self._shape, self._left = loaded, shape, task == "text-generation"
        self._made = tensors(loaded, config, task, shape)
        self._padding, self._tokenizer, self._start = padding_token(settings_of(config)), Tokenizer(loaded.tokenizer), 0

    def __call__(self) -> dict[str, torch.Tensor]:
        import torch

        count = len(self._loaded)
        texts = [self._loaded.texts[(self._start + place) % count] for place in range(self._shape.batch_size)]
        self._start += self._shape.batch_size
        ids = self._tokenizer.encode(texts, self._shape.sequence_length)
        padded, mask = _padded(ids, self._shape.sequence_length, self._padding, self._left)
        return {**self._made, "input_ids": torch.from_numpy(padded), "attention_mask": torch.from_numpy(mask)}


def batches(question: Question, shape: Shape, *, count: Optional[int] = None) -> Iterator[dict[str, torch.Tensor]]:
    """The inputs of a question, call by call, each once; the last call is filled up from the beginning."""
    loaded, task = load_inputs(question, count=count), question.params.workload.model.task
    for start in range(0, len(loaded), shape.batch_size):
        yield tensors(loaded, question.config, task, shape, start=start)


def fed_sha256(calls: Sequence[Mapping[str, torch.Tensor]], count: int) -> str:
    """Hash of what the model gets of the first ``count`` inputs: names, shapes, number formats and values, however they are batched."""
    digest, done = hashlib.sha256(), 0
    for call in calls:
        arrays = {name: call[name].numpy() for name in sorted(call)}
        for row in range(min(len(next(iter(arrays.values()))), count - done)):
            for name, array in arrays.items():
                digest.update(f"{name} {array.dtype} {array[row].shape}\n".encode())
                digest.update(np.ascontiguousarray(array[row]).tobytes())
            done += 1
    return digest.hexdigest()


def token_lengths(loaded: Inputs, limit: int) -> tuple[int, int]:
    """(how many inputs are longer than ``limit`` tokens and are cut to it, the longest length)."""
    return sum(length > limit for length in loaded.lengths), max(loaded.lengths, default=0)


# -- synthetic --------------------------------------------------------------------------------


def _synthetic(question: Question, asked: params.Inputs, count: int, kind: str) -> Inputs:
    workload = question.params.workload
    longest = max(shape.sequence_length for shape in workload.shapes)
    shares = question.params.traffic.length_shares if workload.inputs is not None and kind == "text" else {}
    lengths = _shared_out(shares, count, asked.seed) if shares else (longest,) * count
    spread = f", lengths of the traffic ({min(lengths)} to {max(lengths)} tokens)" if shares else ""
    made_from = {"rule": "hashed/1", "kind": kind, "seed": asked.seed, "lengths": lengths}
    return Inputs(
        origin=f"synthetic {'pixels' if kind == 'image' else 'token ids'}, seed {asked.seed}{spread}",
        sha256=hashlib.sha256(json.dumps(made_from, sort_keys=True).encode()).hexdigest(),
        lengths=lengths,
        seed=asked.seed,
        synthetic=True,
    )


def _shared_out(shares: Mapping[int, float], count: int, seed: int) -> tuple[int, ...]:
    """``count`` lengths in these shares, by largest remainders (Hamilton's method), shuffled by the seed."""
    exact = {length: share * count for length, share in shares.items()}
    whole = {length: int(value) for length, value in exact.items()}
    left = count - sum(whole.values())
    for length in sorted(exact, key=lambda length: (whole[length] - exact[length], length))[:left]:
        whole[length] += 1
    ordered = [length for length, number in sorted(whole.items()) for _ in range(number)]
    keys = hashed(count, seed).tolist()
    return tuple(ordered[place] for place in sorted(range(count), key=keys.__getitem__))


# -- text -------------------------------------------------------------------------------------


def _texts(question: Question, asked: params.Inputs, path: Path, count: Optional[int]) -> Inputs:
    if path.suffix.lower() not in TEXT_FILES:
        raise BadParams("workload.inputs.source is not a file of prompts", path.name, allowed=f"a file that ends in {', '.join(TEXT_FILES)}")
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "it is not text in UTF-8"
        raise BadParams(f"cannot read workload.inputs.source ({reason})", str(path), next="check the path and the encoding") from None
    rows = {".txt": _lines, ".jsonl": _json_lines, ".csv": _table}[path.suffix.lower()](text, path.name)
    read = [_text_of(row, asked, f"{path.name}, line {number}") for number, row in rows][: count or None]
    if not read:
        raise BadParams("workload.inputs.source holds no inputs", str(path), allowed="at least one line of text")
    texts, messages, labels = tuple(one[0] for one in read), tuple(one[1] for one in read), tuple(one[2] for one in read)
    digest = hashlib.sha256()
    for parts in zip(texts, labels):
        digest.update(json.dumps(parts, ensure_ascii=False).encode() + b"\n")
    folder = _tokenizer_folder(question, asked)
    ids = _encoded(question, folder, texts) if folder else ()
    return Inputs(
        origin=f"{path.name}, {len(texts)} prompts, sha256 {digest.hexdigest()[:12]}",
        sha256=digest.hexdigest(),
        texts=texts,
        lengths=tuple(len(one) for one in ids),
        labels=labels if asked.labels else (),
        messages=messages if any(messages) else (),
        ids=ids,
        tokenizer=str(folder) if folder else None,
        tokenizer_time=asked.tokenizer_time,
        seed=asked.seed,
    )


def _lines(text: str, name: str) -> Iterator[tuple[int, Any]]:
    return ((number, line) for number, line in enumerate(text.splitlines(), 1) if line.strip())


def _json_lines(text: str, name: str) -> Iterator[tuple[int, Any]]:
    for number, line in _lines(text, name):
        try:
            yield number, json.loads(line)
        except json.JSONDecodeError as error:
            raise BadParams(
                f"{name}, line {number} is not complete JSON (column {error.colno})", line[:60], next="copy the file again, or remove the line"
            ) from None


def _table(text: str, name: str) -> Iterator[tuple[int, Any]]:
    reader = csv.DictReader(io.StringIO(text, newline=""), strict=True)
    try:
        for row in reader:
            if None in row or None in row.values():
                raise BadParams(f"{name}, line {reader.line_num} has another number of cells than its head", len(reader.fieldnames or ()))
            yield reader.line_num, row
    except csv.Error as error:
        raise BadParams(f"{name}, line {reader.line_num} is not CSV ({error})", name, next="quote cells that hold quotes or commas") from None


def _text_of(row: Any, asked: params.Inputs, where: str) -> tuple[str, Any, str]:
    """(text, chat if it is one, label) of one line."""
    if isinstance(row, str):
        if asked.labels or asked.column:
            raise BadParams("workload.inputs: lines of text have no keys", asked.labels or asked.column, allowed="a .jsonl or .csv file")
        return row, (), ""
    if not isinstance(row, Mapping):
        raise BadParams(f"{where} is not an object with keys", str(row)[:60], allowed='{"text": "..."}')
    column = asked.column or next((key for key in TEXT_KEYS if key in row), next(iter(row)) if len(row) == 1 else None)
    if column is None or column not in row:
        raise BadParams(f"{where} has no key for the text", asked.column or TEXT_KEYS[0], allowed=", ".join(row), next="set workload.inputs.column")
    if asked.labels and row.get(asked.labels) in (None, ""):
        raise BadParams(f"{where} has no label under", asked.labels, allowed=", ".join(row), next="set workload.inputs.labels")
    value = row[column]
    label = str(row[asked.labels]) if asked.labels else ""
    if isinstance(value, list):
        try:
            return "\n".join(str(part["content"]) for part in value), tuple(value), label
        except (TypeError, KeyError):
            raise BadParams(f"{where}: {column} is not a chat", str(value)[:60], allowed='[{"role": "user", "content": "..."}]') from None
    if not isinstance(value, str) or not value:
        raise BadParams(f"{where}: {column} is not text", str(value)[:60], allowed="a text that is not empty")
    return value, (), label


def _tokenizer_folder(question: Question, asked: params.Inputs) -> Optional[Path]:
    """Declared, that of the weights or that of the config; ``None`` where there is none (an endpoint has its own)."""
    if asked.tokenizer:
        return question.file(asked.tokenizer)
    written = question.params.workload.model
    config = question.file(written.config)
    near = [question.file(written.weights)] if written.weights != "random" else []
    near.append(config if config.is_dir() else config.parent)
    return next((folder for folder in near if has_tokenizer(folder)), None)


def _encoded(question: Question, folder: Path, texts: Sequence[str]) -> tuple[tuple[int, ...], ...]:
    ids = tuple(tuple(one) for one in Tokenizer(folder).encode(texts))
    highest, known = max((max(one, default=0) for one in ids), default=0), question.config.get("vocab_size")
    if isinstance(known, int) and highest >= known:
        raise BadParams(
            "tokenizer is of another model: it gives the token id", highest, allowed=f"0 to {known - 1}", next="set workload.inputs.tokenizer"
        )
    empty = next((number for number, one in enumerate(ids) if not one), None)
    if empty is not None:
        raise BadParams("the tokenizer makes no tokens of", texts[empty], next="remove the line")
    return ids


def _cut(loaded: Inputs, rows: Sequence[int], limit: int) -> list[Sequence[int]]:
    """Token ids of these inputs, at most ``limit`` each; what is cut keeps its special tokens."""
    if not loaded.ids:
        raise BadParams(
            "no tokenizer is known for these prompts",
            loaded.origin,
            allowed="a folder with tokenizer files",
            next="set workload.inputs.tokenizer, or name the folder of the weights in workload.model.weights",
        )
    found: list[Sequence[int]] = [loaded.ids[row] for row in rows]
    long = [place for place, one in enumerate(found) if len(one) > limit]
    if long:
        again = Tokenizer(str(loaded.tokenizer)).encode([loaded.texts[rows[place]] for place in long], limit)
        for place, one in zip(long, again):
            found[place] = one
    return found


def _padded(ids: Sequence[Sequence[int]], length: int, padding: int, left: bool) -> tuple[np.ndarray, np.ndarray]:
    """int64 [inputs, length] of ids and of the mask: 1 where a token is, 0 where padding is."""
    padded, mask = np.full((len(ids), length), padding, dtype=np.int64), np.zeros((len(ids), length), dtype=np.int64)
    for row, one in enumerate(ids):
        place = slice(length - len(one), length) if left else slice(0, len(one))
        padded[row, place], mask[row, place] = one, 1
    return padded, mask


# -- images -----------------------------------------------------------------------------------


def _images(question: Question, asked: params.Inputs, path: Path, count: Optional[int]) -> Inputs:
    settings = settings_of(question.config)
    channels, (height, width) = getattr(settings, "num_channels", None) or 3, image_size(settings)
    if path.is_dir():
        files = sorted(one for one in path.rglob("*") if one.suffix.lower() in IMAGE_FILES)[: count or None]
        if not files:
            raise BadParams("workload.inputs.source holds no images", str(path), allowed=f"files that end in {', '.join(IMAGE_FILES)}")
        if asked.labels not in (None, "folder"):
            raise BadParams("workload.inputs.labels", asked.labels, allowed="folder: the name of an image's folder is its class")
        mean, spread = _normalisation(question)
        pixels = np.stack([_image(file, channels, height, width, mean, spread) for file in files])
        labels = tuple(file.parent.name for file in files) if asked.labels else ()
    else:
        if asked.labels:
            raise BadParams("workload.inputs.labels: an array has no labels", asked.labels, next="put images into one folder per class")
        pixels, labels = _array(path, channels, height, width)[: count or None], ()
    digest = hashlib.sha256(json.dumps([pixels.shape, labels]).encode() + pixels.tobytes()).hexdigest()
    origin = f"{path.name}, {len(pixels)} images, sha256 {digest[:12]}"
    return Inputs(origin=origin, sha256=digest, labels=labels, pixels=pixels, tokenizer_time=asked.tokenizer_time, seed=asked.seed)


def _normalisation(question: Question) -> tuple[np.ndarray, np.ndarray]:
    """Mean and deviation per channel: of preprocessor_config.json beside weights or config, else 0.5 and 0.5."""
    written = question.params.workload.model
    for place in (written.weights, written.config):
        folder = question.file(place)
        file = (folder if folder.is_dir() else folder.parent) / "preprocessor_config.json"
        if place != "random" and file.is_file():
            found = model.read_json(file)
            if "image_mean" in found and "image_std" in found:
                return np.asarray(found["image_mean"], np.float32), np.asarray(found["image_std"], np.float32)
    return np.float32([0.5]), np.float32([0.5])


def _image(file: Path, channels: int, height: int, width: int, mean: np.ndarray, spread: np.ndarray) -> np.ndarray:
    """float32 [channels, height, width]: resized (bilinear), 0..1, then mean and deviation."""
    try:
        from PIL import Image, UnidentifiedImageError
    except ImportError:
        raise BadParams("images cannot be read without the package", "pillow", next="pip install pillow, or give an .npy array") from None
    try:
        with Image.open(file) as opened:
            image = opened.convert("L" if channels == 1 else "RGB").resize((width, height), Image.Resampling.BILINEAR)
    except (UnidentifiedImageError, OSError) as error:
        raise BadParams("not a whole image", str(file), allowed=f"PNG or JPEG ({' '.join(str(error).split())[:80]})", next="copy it again") from None
    pixels = np.asarray(image, np.float32).reshape(height, width, channels) / 255
    return np.ascontiguousarray(((pixels - mean) / spread).transpose(2, 0, 1), dtype=np.float32)


def _array(path: Path, channels: int, height: int, width: int) -> np.ndarray:
    """An .npy file: float [n, channels, height, width] as the model takes it, or uint8 [n, height, width, channels] (scaled to -1..1)."""
    try:
        array = np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise BadParams("cannot read workload.inputs.source", str(path), allowed=f"an .npy array ({' '.join(str(error).split())[:80]})") from None
    if array.dtype == np.uint8 and array.shape[1:] == (height, width, channels):
        array = array.transpose(0, 3, 1, 2).astype(np.float32) / 127.5 - 1
    if array.dtype.kind != "f" or array.shape[1:] != (channels, height, width) or not len(array):
        allowed = f"float [n, {channels}, {height}, {width}] or uint8 [n, {height}, {width}, {channels}]"
        raise BadParams("workload.inputs.source is an array of", f"{array.dtype} {list(array.shape)}", allowed=allowed)
    return np.ascontiguousarray(array, dtype=np.float32)
