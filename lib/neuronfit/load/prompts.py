"""What is sent: prompts from the workload's own file, or synthetic ones of the traffic's lengths.

Every synthetic prompt is another text (number and seed decide it, nothing else), so that a prefix cache gains
nothing and both sides of a comparison are asked the same.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Optional

import numpy as np

from neuronfit.load.generator import Request

if TYPE_CHECKING:
    from neuronfit.params import Shape
    from neuronfit.question import Question

__all__ = ["Prompts", "of", "synthetic"]

WORDS = (
    "the of and to in is was for on are as with his they at be this from have or by one had not but what all were when we there can an your "
    "which their said if do will each about how up out them then she many some so these would other into has more her two like him see time "
    "could no make than first been its who now people my made over did down only way find use may water long little very after word"
).split()
"""Common short words: about one token each for English tokenizers; what the server counted is in the record."""


@dataclass(frozen=True)
class Prompts:
    """Texts by number. ``texts`` empty: synthetic, as many words as ``lengths`` say (length -> share)."""

    origin: str
    texts: tuple[str, ...] = ()
    lengths: Mapping[int, float] = field(default_factory=dict)
    seed: int = 0
    sha256: Optional[str] = None

    def text(self, number: int) -> tuple[int, str]:
        """(which prompt, its text) for the request of this number; a file is read round and round."""
        if self.texts:
            return number % len(self.texts), self.texts[number % len(self.texts)]
        generator = np.random.default_rng((self.seed, number))
        lengths = list(self.lengths)
        length = lengths[0] if len(lengths) == 1 else int(generator.choice(lengths, p=list(self.lengths.values())))
        return number, self._words(generator, length)

    @staticmethod
    def _words(generator: np.random.Generator, length: int) -> str:
        return " ".join(np.take(_WORD_ARRAY, generator.integers(len(WORDS), size=length)))

    def recorded(self, number: int, input_length: Optional[int], output_length: Optional[int], shape: Shape) -> Request:
        """The request of this number with the lengths of a recorded one; what was not recorded is as elsewhere."""
        place, text = self.text(number)
        if input_length and not self.texts:
            text = self._words(np.random.default_rng((self.seed, number)), input_length)
        return Request(place, text, (text,), output_length or shape.output_length)

    def request(self, number: int, shape: Shape) -> Request:
        """The request of this number; with a batch its prompts follow one another."""
        if shape.batch_size == 1:
            place, text = self.text(number)
            return Request(place, text, (text,), shape.output_length)
        chosen = [self.text(number * shape.batch_size + each) for each in range(shape.batch_size)]
        return Request(chosen[0][0] // shape.batch_size, chosen[0][1], tuple(text for _, text in chosen), shape.output_length)

    def requests(self, shape: Shape, start: int = 0) -> Iterator[Request]:
        """Requests without end, from number ``start``."""
        while True:
            yield self.request(start, shape)
            start += 1


_WORD_ARRAY = np.array(WORDS)


def synthetic(lengths: tuple[int, ...] | Mapping[int, float], seed: int = 0) -> Prompts:
    """Random words; ``lengths`` in words, with their shares where there are several."""
    shares = dict(lengths) if isinstance(lengths, Mapping) else {length: 1 / len(lengths) for length in lengths}
    said = ", ".join(f"{length}" if len(shares) == 1 else f"{length}: {share:.3g}" for length, share in shares.items())
    digest = hashlib.sha256(f"{sorted(shares.items())} {seed}".encode()).hexdigest()
    return Prompts(f"synthetic words, lengths {said}, seed {seed}", lengths=shares, seed=seed, sha256=digest)


def of(question: Question, shape: Shape, *, traffic_lengths: bool) -> Prompts:
    """The prompts of a question: its own texts where it names a file, else synthetic.

    With ``traffic_lengths`` synthetic prompts have the distribution of ``traffic.sequence_lengths`` where that is
    declared; otherwise all are as long as the shape says.
    """
    given = _own(question)
    if given is not None:
        return given
    shares = question.params.traffic.length_shares if traffic_lengths else {}
    return synthetic(shares or (shape.sequence_length,))


def _own(question: Question) -> Optional[Prompts]:
    try:
        from neuronfit.inputs import load_inputs
    except ImportError:
        return None
    found = load_inputs(question)
    return Prompts(found.origin, texts=found.texts, sha256=found.sha256) if found.texts else None
