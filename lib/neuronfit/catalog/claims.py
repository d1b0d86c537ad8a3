"""What AWS and others claim of Trainium and Inferentia: who, when, against what, the fine print, and what became of it.

``claims.csv`` has one row per claim. :func:`concerning` picks those about a question's targets, and :func:`beside` sets
each one beside what the dossier's evidence gives. A claim about training is not comparable with inference, one against G5 not
with a P4d, and nothing is comparable before there is evidence; the reason is always given.

======================= ===================================================== ==========================
metric                  what is claimed                                       what it is set beside
======================= ===================================================== ==========================
throughput_ratio        candidate / baseline                                  the pair of step 4
latency_ratio           baseline / candidate ("n times lower")                the pair of step 4, p50
price_performance_ratio results per dollar, candidate / baseline              efficiency of step 6
saving_fraction         share of the baseline's cost that is saved            cost at full load, step 6
accelerators, memory_gib, memory_gib_each, bandwidth_tb_per_s,
network_gbit_per_s      of one instance                                       ``instances``
chips_in_cluster        of a cluster                                          nothing
======================= ===================================================== ==========================
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from typing import TYPE_CHECKING, Optional

from neuronfit.catalog import instances, prices, published, tables
from neuronfit.errors import NotFound, nearest
from neuronfit.provenance import Grade, Quantity, absent, weakest
from neuronfit.record import Comparison, Cost, CostOfTarget, Pair

if TYPE_CHECKING:
    from neuronfit.params import Target
    from neuronfit.question import Question

__all__ = ["Beside", "Claim", "Recomputed", "beside", "concerning", "cost_to_train", "every", "find"]

_OF_INSTANCE = {
    "accelerators": lambda facts: facts.accelerator_count,
    "memory_gib": lambda facts: facts.accelerator_memory_bytes and facts.accelerator_memory_bytes / 2**30,
    "memory_gib_each": lambda facts: facts.accelerator_memory_bytes_each and facts.accelerator_memory_bytes_each / 2**30,
    "bandwidth_tb_per_s": lambda facts: facts.memory_bandwidth_bytes_per_s and facts.memory_bandwidth_bytes_per_s / 1e12,
    "network_gbit_per_s": lambda facts: facts.network_gbit_per_s,
}
_UNITS = {
    "accelerators": "chips",
    "memory_gib": "GiB",
    "memory_gib_each": "GiB",
    "bandwidth_tb_per_s": "TB/s",
    "network_gbit_per_s": "Gbit/s",
    "saving_fraction": "fraction",
}


@dataclass(frozen=True)
class Claim:
    """One claim. ``value`` is in the unit of ``metric``; ``bound`` is ``up to``, ``from``, ``over`` or empty."""

    id: str
    claim: str
    metric: str
    value: Decimal
    bound: str
    who: str
    said_on: str
    families: tuple[str, ...]
    """instance families that it praises"""
    against: tuple[str, ...]
    """families it compares with; empty where it names none, or is about the instance alone"""
    workload: str
    """``inference``, ``training`` or ``any``"""
    baseline: str
    fine_print: str
    verdict: str
    because: str
    recalled: bool
    """from general knowledge: the page itself was not in any copy that could be read, so do not quote it"""
    source: str
    as_of: str

    @property
    def of_instance(self) -> bool:
        """About what is in an instance, not about how fast or cheap it is."""
        return self.metric in _OF_INSTANCE

    @property
    def unit(self) -> str:
        return _UNITS.get(self.metric, "ratio")


@dataclass(frozen=True)
class Beside:
    """A claim and what this dossier's evidence gives for one target. ``here`` is absent where they are not comparable."""

    claim: Claim
    target: str
    here: Quantity
    comparable: bool
    reason: str
    """why it is not comparable, or what to mind when it is"""

    @property
    def kept(self) -> Optional[bool]:
        """Whether the evidence reaches the claim; ``None`` where they are not comparable.

        "Up to" is reached by anything less, so it is not judged; nor is a claim about the largest size of a family, of a smaller one.
        """
        if not self.comparable or not self.here.known or (self.claim.bound == "up to" and not self.claim.of_instance):
            return None
        reached = self.here.value >= float(self.claim.value) * (1 - 1e-9)
        return reached or (None if self.claim.of_instance else False)

    @property
    def sentence(self) -> str:
        said = f"{self.claim.claim} ({self.claim.who}, {self.claim.said_on})"
        if not self.comparable:
            return f"{said}: not comparable, {self.reason}."
        value = f"{self.here.value:.0%}" if self.claim.metric == "saving_fraction" else f"{self.here.value:.3g} {self.claim.unit}"
        return f"{said}: here {value.replace(' ratio', ' times')} for {self.target}" + (f"; {self.reason}." if self.reason else ".")


@dataclass(frozen=True)
class Recomputed:
    """One row of the arithmetic behind a verdict, from dated prices and printed speeds; ``caveats`` belong to the number."""

    what: str
    value: Quantity
    caveats: tuple[str, ...] = ()


@lru_cache(maxsize=None)
def every() -> tuple[Claim, ...]:
    """All claims, in file order."""
    return tuple(
        Claim(
            **{
                **row,
                "value": Decimal(row["value"]),
                "families": tuple(row["families"].split()),
                "against": tuple(row["against"].split()),
                "recalled": row["recalled"] == "yes",
            }
        )
        for row in tables.read("claims")
    )


def find(claim_id: str) -> Claim:
    """The claim with this id. Raises :class:`~neuronfit.errors.NotFound` with the nearest ids."""
    by_id = {claim.id: claim for claim in every()}
    try:
        return by_id[claim_id]
    except KeyError:
        raise NotFound("unknown claim", claim_id, allowed=", ".join(nearest(claim_id, by_id) or by_id)) from None


def concerning(targets: "Iterable[Target]") -> tuple[Claim, ...]:
    """Claims about the instance families of these targets, in file order."""
    families = {_family(target.instance_type) for target in targets}
    return tuple(claim for claim in every() if families & set(claim.families))


def _family(instance_type: str) -> str:
    try:
        return instances.find(instance_type).family
    except NotFound:
        return instance_type.partition(".")[0]


def beside(question: "Question") -> tuple[Beside, ...]:
    """Each claim that concerns a candidate (or the baseline, for claims about an instance) beside the evidence, in file order."""
    comparison, cost = question.dossier.latest(Comparison), question.dossier.latest(Cost)
    rows = []
    for claim in concerning(question.params.targets):
        for target in question.params.targets:
            if _family(target.instance_type) in claim.families and (claim.of_instance or target is not question.params.baseline):
                rows.append(_beside(claim, target, question, comparison, cost))
    return tuple(rows)


def _beside(claim: Claim, target: "Target", question: "Question", comparison: Optional[Comparison], cost: Optional[Cost]) -> Beside:
    if claim.of_instance:
        return _instance(claim, target)
    refused = _refused(claim, question)
    if refused:
        return Beside(claim, target.name, absent(claim.unit, refused), False, refused)
    here = {
        "throughput_ratio": lambda: _from_pair(comparison, target.name, "throughput"),
        "latency_ratio": lambda: _inverse(_from_pair(comparison, target.name, "latency_p50")),
        "price_performance_ratio": lambda: _from_cost(cost, question, target.name, lambda mine, base: (mine.efficiency, base.efficiency), "ratio"),
        "saving_fraction": lambda: _from_cost(cost, question, target.name, lambda mine, base: (mine.full_load, base.full_load), "fraction"),
    }.get(claim.metric, lambda: absent(claim.unit, "nothing in a dossier measures this"))()
    if not here.known:
        return Beside(claim, target.name, here, False, here.why or "there is no evidence yet")
    mind = "" if claim.against else f"the claim names no baseline; yours is {question.params.baseline.instance_type}"
    return Beside(claim, target.name, here, True, mind)


def _instance(claim: Claim, target: "Target") -> Beside:
    facts = instances.find(target.instance_type)
    value = _OF_INSTANCE[claim.metric](facts)
    if value is None:
        why = f"no {claim.metric} of {target.instance_type} is known"
        return Beside(claim, target.name, absent(claim.unit, why), False, why)
    quantity = Quantity(value=float(value), unit=claim.unit, grade=Grade.PUBLISHED, why=f"{target.instance_type}, {facts.accelerator_source}")
    mind = f"the claim is about the largest size, not {target.instance_type}" if value < float(claim.value) * 0.99 else ""
    return Beside(claim, target.name, quantity, True, mind)


def _refused(claim: Claim, question: "Question") -> Optional[str]:
    """Why the claim says nothing about this question, whatever is measured."""
    kind, base = question.params.workload.kind, question.params.baseline.instance_type
    if claim.workload not in ("any", kind):
        return f"it is about {claim.workload}, this is {kind}"
    if claim.against and _family(base) not in claim.against:
        return f"it compares with {', '.join(claim.against)}, the baseline here is {base}"
    if not claim.against and base == instances.THIS_HOST:
        return "the baseline here is no EC2 instance"
    return None


def _from_pair(comparison: Optional[Comparison], candidate: str, field: str) -> Quantity:
    if comparison is None:
        return absent("ratio", "nothing has been compared yet (step 4)")
    pairs = [pair for pair in comparison.pairs if pair.candidate == candidate and pair.verdict != "not_comparable"]
    best: Optional[Pair] = next((pair for pair in pairs if pair.mode == "best"), pairs[0] if pairs else None)
    if best is None:
        return absent("ratio", "step 4 has no comparable pair for it")
    ratio = getattr(best, field)
    return ratio if ratio.known else absent("ratio", ratio.why or f"the pair has no {field}")


def _inverse(ratio: Quantity) -> Quantity:
    """1 / ratio; the ends of its interval change places."""
    if not ratio.known or ratio.value <= 0:
        return ratio if not ratio.known else absent("ratio", "a latency of 0")
    ends = {"low": 1 / ratio.high, "high": 1 / ratio.low} if ratio.low and ratio.high else {}
    return ratio.model_copy(update={"value": 1 / ratio.value, **ends})


def _from_cost(cost: Optional[Cost], question: "Question", candidate: str, figures, unit: str) -> Quantity:
    """Candidate / baseline for a ratio, 1 - candidate / baseline for a fraction; on the one price basis of the record."""
    rows: dict[str, CostOfTarget] = {row.target: row for row in cost.targets} if cost else {}
    mine, base = rows.get(candidate), rows.get(question.params.baseline.name)
    comparison = question.dossier.latest(Comparison)
    verdicts = [pair.verdict for pair in comparison.pairs if pair.candidate == candidate] if comparison else []
    if verdicts and set(verdicts) == {"not_comparable"}:
        return absent(unit, "its figures and the baseline's are not comparable (step 4), and what follows from them neither")
    if mine is None or base is None:
        return absent(unit, "no costs are known yet (step 6)")
    if mine.result_unit != base.result_unit:
        return absent(unit, f"the baseline counts {base.result_unit}s, the candidate {mine.result_unit}s")
    theirs, ours = figures(mine, base)
    for side in (theirs, ours):
        if not side.known or side.value <= 0:
            return absent(unit, side.why or "no cost is known")
    ratio = theirs.value / ours.value
    why = f"{cost.purchase_option.replace('_', ' ')} in {cost.region}"
    return Quantity(value=1 - ratio if unit == "fraction" else ratio, unit=unit, grade=weakest(theirs, ours), why=why)


# -- the arithmetic behind the first claim ----------------------------------------------------

_TRN1, _P4D, _P4DE = "trn1.32xlarge", "p4d.24xlarge", "p4de.24xlarge"
_CAVEATS = (
    "a DGX A100 80 GB stands for p4d.24xlarge, whose A100 have 40 GB",
    "optimizer and global batch differ: AdamW on Trn1, LAMB on the GPUs",
    "NVIDIA's software is of November 2021, AWS's of SDK 2.28",
    "an order of magnitude, no measurement",
)


def cost_to_train() -> tuple[Recomputed, ...]:
    """The claim of 2022 recomputed: hourly prices then and now, and BERT-Large phase 1 (sequence 128) per million sequences.

    USD per million sequences = 1e6 x USD per hour / (sequences per second x 3600), one instance, on demand in us-east-1,
    speeds as both vendors print them. The old P4d price is the one that held from before Trn1's launch to June 2025.
    """
    trn1 = prices.find(_TRN1, "us-east-1", "on_demand")
    new = {name: prices.find(name, "us-east-1", "on_demand") for name in (_P4D, _P4DE)}
    old = prices.find(_P4D, "us-east-1", "on_demand", status="historic")
    neuron, gpu = (published.find(row_id).throughput_per_s for row_id in ("neuron-2026-08-21/93", "nvidia-dle-bert/04"))
    hour, now = "on demand in us-east-1", new[_P4D].as_of[:4]

    def cheaper(other: prices.Price) -> Quantity:
        why = f"1 - {trn1.usd_per_hour} / {other.usd_per_hour} ({other.as_of})"
        return Quantity(value=float(1 - trn1.usd_per_hour / other.usd_per_hour), unit="fraction", grade=Grade.ESTIMATED, why=why)

    def per_million(price: prices.Price, per_s: float) -> Quantity:
        why = f"1e6 x {price.usd_per_hour} / ({per_s:g} x 3600), price of {price.as_of}"
        return Quantity(value=1e6 * float(price.usd_per_hour) / (float(per_s) * 3600), unit="USD/1e6", grade=Grade.ESTIMATED, why=why)

    return (
        Recomputed(f"{_TRN1} cheaper per hour than {_P4D}, 2022, {hour}", cheaper(old)),
        Recomputed(f"{_TRN1} cheaper per hour than {_P4D}, {now}, {hour}", cheaper(new[_P4D])),
        Recomputed(f"BERT-Large phase 1 on {_TRN1}, per million sequences", per_million(trn1, neuron), _CAVEATS),
        Recomputed(f"the same on {_P4D}, 2022", per_million(old, gpu), _CAVEATS),
        Recomputed(f"the same on {_P4D}, {now}", per_million(new[_P4D], gpu), _CAVEATS),
        Recomputed(f"the same on {_P4DE}, {new[_P4DE].as_of[:4]}", per_million(new[_P4DE], gpu), _CAVEATS),
    )
