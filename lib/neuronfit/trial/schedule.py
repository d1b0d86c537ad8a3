"""What a controlled test asks, and when: seed, stage and number decide it, so a resumed test goes on where it was.

Times are one array a stage; a request is made when it is due.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Optional

import numpy as np

from neuronfit.errors import BadInput, BadRecord, WaitingForEvidence
from neuronfit.load import arrivals, prompts
from neuronfit.load.generator import Request
from neuronfit.question import Question
from neuronfit.record import TrialPlan

__all__ = ["MOST_ENTRIES", "Schedule", "given_requests"]

MOST_ENTRIES = 16_000_000
"""Requests of a test, those to both sides counted twice, of which one process keeps account in about 2 GiB (benchmarks/trial_memory.py)."""

TEXTS = 4096
"""Different synthetic texts of a stage."""

KEPT_CHARACTERS = 1 << 26
"""Texts that are kept for the next time they are asked."""


class Schedule:
    """Requests by number, and the times at which those of a stage are due.

    Raises :class:`~neuronfit.errors.WaitingForEvidence` for a stage whose length is not known, and
    :class:`~neuronfit.errors.BadInput` for more requests than one process keeps account of.
    """

    def __init__(self, question: Question, registered: TrialPlan):
        self.question, self.plan = question, registered
        self.given = given_requests(question)
        self.times = _times(self.given)
        if self.times:
            self.given = sorted(self.given, key=lambda entry: entry["at_s"])
        self._made: dict[int, Request] = {}
        self._characters = 0
        self._prompts: Optional[prompts.Prompts] = None
        self._check()

    def _check(self) -> None:
        rate = self.plan.traffic.get("rate_per_s")
        for stage in self.plan.stages:
            if stage["duration_min"] is None and not self.times:
                raise WaitingForEvidence(f"stage {stage['name']} has no length: {stage['open']}", next=stage["next"])
        if self.times:
            return
        if not rate:
            raise WaitingForEvidence("no rate is declared to send requests at", next="add trial.rate_per_s or traffic.mean_per_s")
        lines = sum(rate * stage["duration_min"] * 60 * (1 if stage["mode"] == "split" else 2) for stage in self.plan.stages)
        if lines > MOST_ENTRIES:
            raise BadInput(
                f"the test would send {lines:,.0f} requests to both sides together, at a rate per second of",
                f"{rate:g}",
                allowed=f"up to {MOST_ENTRIES:,} in a test, with these stages {rate * MOST_ENTRIES / lines:.3g} a second",
                next=f"write trial.rate_per_s or shorter stages into {self.question.command_name}: a part of the traffic is enough, "
                "the plan says how many requests are needed",
            )

    def offsets(self, number: int, stage: Mapping[str, Any]) -> np.ndarray:
        """Seconds from the start of a stage at which its requests are due, ascending."""
        if not self.times:
            generator = np.random.default_rng((self.question.params.trial.seed, number))
            return arrivals.poisson(self.plan.traffic["rate_per_s"], stage["duration_min"] * 60, generator)
        if not stage.get("requests"):
            return arrivals.replay(self.times, stage["duration_min"] * 60)
        wanted = round(stage["requests"] / (stage["share"] if stage["mode"] == "split" else 1.0))
        if wanted > len(self.times):
            raise BadInput(
                f"stage {stage['name']} asks for {wanted:,} requests, trial.requests has times for",
                f"{len(self.times):,}",
                next="lower stages.requests, or leave at_s out of the file: then it is read round and round at trial.rate_per_s",
            )
        return arrivals.replay(self.times)[:wanted]

    def which(self, stage: int, n: int) -> int:
        """The number, over all stages, of request ``n`` of a stage. One with a time of its own is the same in every stage."""
        return n if self.times else 1_000_003 * stage + n

    def key(self, which: int) -> str:
        """Who asks."""
        return str(self.given[which % len(self.given)].get("key", which)) if self.given else str(which)

    def prepare(self, stage: int, numbers: Sequence[int]) -> None:
        """Make the texts that come first now: making one while answers arrive would hold them up."""
        for n in numbers[:TEXTS] if not self.given else ():
            if self._characters >= KEPT_CHARACTERS:
                return
            self.request(self.which(stage, int(n)))

    def request(self, which: int) -> Request:
        if self.given:
            place = which % len(self.given)
            text = self.given[place]["text"]
            return Request(place, text, (text,), self.question.params.workload.shapes[0].output_length)
        place = which % TEXTS
        made = self._made.get(place)
        if made is None:
            shape = self.question.params.workload.shapes[0].model_copy(update={"batch_size": 1})
            self._prompts = self._prompts or prompts.of(self.question, shape, traffic_lengths=True)
            made = self._prompts.request(place, shape)
            if self._characters < KEPT_CHARACTERS:
                self._characters += len(made.text)
                self._made[place] = made
        return made


def _times(given: Sequence[Mapping[str, Any]]) -> list[float]:
    """When the given requests are due, ascending; nothing where one does not say."""
    times = [entry.get("at_s") for entry in given]
    good = all(isinstance(time_s, (int, float)) and not isinstance(time_s, bool) for time_s in times)
    return sorted(times) if good else []


def given_requests(question: Question) -> list[dict[str, Any]]:
    """The lines of ``trial.requests``. Raises :class:`~neuronfit.errors.BadRecord` with the line that is none."""
    named = question.params.trial.requests
    if named is None:
        return []
    path = question.file(named)
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
    except (OSError, ValueError) as error:
        raise BadRecord(
            f"cannot read trial.requests ({getattr(error, 'strerror', None) or 'it is not text'})", str(path), allowed="JSON lines"
        ) from None
    found = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            entry = json.loads(line)
        except ValueError:
            entry = None
        text = entry.get("text", entry.get("prompt")) if isinstance(entry, dict) else None
        if not isinstance(text, str):
            raise BadRecord(f"{path}, line {number} is no request", line[:60], allowed='a line such as {"text": "...", "key": "user-1", "at_s": 0.5}')
        found.append({**entry, "text": text})
    if not found:
        raise BadRecord("trial.requests holds no request", str(path), allowed="JSON lines with a text each")
    return found
