"""Claims beside the evidence, the arithmetic behind the oldest one, and what each way to deploy adds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Optional, Union

from neuronfit.catalog import claims, deployments
from neuronfit.catalog.instances import THIS_HOST
from neuronfit.dossier import Dossier
from neuronfit.errors import BadParams
from neuronfit.params import HOURS_PER_MONTH, Params, Pricing, parse
from neuronfit.question import Question
from neuronfit.record import Profile
from neuronfit.show.table import Cell, Column, Note, Table, cell, rows_of

__all__ = ["claims_table", "deployments_table", "recomputed_table"]

_TONES = {"verified": "good", "contradicted": "bad", "out of date": "bad"}


@dataclass(frozen=True)
class _Asked:
    """What was asked, from the profile of a dossier: the report knows no params file."""

    params: Params
    dossier: Dossier


def _asked(about: Union[Question, Dossier]) -> Optional[Union[Question, _Asked]]:
    if isinstance(about, Question):
        return about
    profile = about.latest(Profile)
    try:
        return _Asked(parse(dict(profile.question)), about) if profile else None
    except BadParams:  # written by a release with other keys
        return None


def claims_table(about: Union[Question, Dossier]) -> Union[Table, Note]:
    """Every claim that concerns the targets, beside what the dossier gives, or why they are not comparable."""
    asked = _asked(about)
    if asked is None:
        return Note("No question is known yet to set claims beside; run step 1.")
    rows = claims.beside(asked)
    if not rows:
        return Note("No claim in circulation is about these instance families.")
    compared = sum(row.comparable for row in rows)
    return Table(
        caption="Claims in circulation, beside the evidence of this dossier",
        columns=(
            Column("claim", "what is said, by whom and when", words=True, wide=True),
            Column("against", "the baseline that the claim states, and its fine print", words=True, wide=True),
            Column(
                "here",
                "what this dossier's evidence about the target that is named, or the catalogue for what is in an instance, gives for the same thing",
                words=True,
                wide=True,
            ),
            Column("what became of it", "our check of the claim with dated prices and printed figures", words=True, wide=True),
        ),
        rows=rows_of(_claim(row) for row in rows),
        footnote=f"{compared} of {len(rows)} can be compared with this dossier. Recalled: from general knowledge, no copy of the page was read.",
        key="claims",
    )


def _claim(row: claims.Beside) -> tuple[Cell, ...]:
    claim = row.claim
    who = f"{claim.who}, {claim.said_on}" + (", recalled" if claim.recalled else "")
    return (
        cell(claim.claim, note=who, strong=True),
        cell(claim.baseline if claim.baseline != "-" else "no baseline", note=claim.fine_print),
        _here(row),
        cell(claim.verdict, note=f"{claim.because} ({claim.source}, {claim.as_of})", tone=_TONES.get(claim.verdict, "wait")),
    )


def _here(row: claims.Beside) -> Cell:
    if not row.comparable:
        return cell("not comparable", note=f"{row.target}: {row.reason}", tone="wait")
    if row.claim.metric == "saving_fraction":
        return cell((row.here, "fraction"), note=f"% saved by {row.target}; {row.reason}".rstrip("; "))
    if row.claim.of_instance:
        return cell(f"{row.here.value:,.4g} {row.claim.unit}", note=f"{row.target}; {row.reason}".rstrip("; "))
    return cell((row.here, "ratio"), note=f"times, {row.target}; {row.reason}".rstrip("; "))


def recomputed_table(about: Union[Question, Dossier, None] = None) -> Union[Table, Note]:
    """The claim of 50 % lower cost to train, recomputed with the prices of 2022 and of today; a note where ``about`` has no Trn1."""
    asked = _asked(about) if about is not None else None
    if about is not None and (asked is None or claims.find("trn1-cost-to-train") not in claims.concerning(asked.params.candidates)):
        return Note("The claim of 50 % lower cost to train is about Trn1, which is no candidate here.")
    rows = claims.cost_to_train()
    caveats = next(row.caveats for row in rows if row.caveats)
    return Table(
        caption="Up to 50 % lower cost to train, recomputed",
        columns=(
            Column("what", "which price or cost", words=True, wide=True),
            Column("value", "per cent, or USD per million sequences"),
        ),
        rows=rows_of(
            (
                cell(row.what),
                cell(
                    (row.value, "fraction" if row.value.unit == "fraction" else "usd_per_million"),
                    note=f"{'%' if row.value.unit == 'fraction' else 'USD'} = {row.value.why}",
                ),
            )
            for row in rows
        ),
        footnote=f"Costs: {'; '.join(caveats)}.",
        key="recomputed",
    )


def deployments_table(about: Union[Question, Dossier]) -> Union[Table, Note]:
    """What each way to deploy adds in a month to one instance of every target, in one cluster."""
    asked = _asked(about)
    if asked is None:
        return Note("No question is known yet to price deployments for; run step 1.")
    pricing = asked.params.pricing
    targets = [target for target in asked.params.targets if target.instance_type != THIS_HOST]
    return Table(
        caption=f"What it costs where it runs: surcharge of one instance, USD a month, {pricing.region}",
        columns=(
            Column("bought through", "pricing.deployment of the params file; the chosen one is marked", words=True),
            *(Column(target.name, f"one instance of {target.instance_type}, on top of its price", "USD/month") for target in targets),
            Column("charge", "what is charged, with source and date", words=True, wide=True),
        ),
        rows=rows_of(
            (
                (
                    cell(row.title, strong=row.option == pricing.deployment),
                    *(_surcharge(row.option, target.instance_type, pricing) for target in targets),
                    cell(row.charge, note=f"{row.note}; {row.source}, {row.as_of}" + (", recalled" if row.recalled else "")),
                )
                for row in deployments.every()
            ),
            today=next(index for index, row in enumerate(deployments.every()) if row.option == pricing.deployment),
        ),
        footnote=f"A month has {HOURS_PER_MONTH:.0f} hours. A dash: the surcharge is not known, which is not the same as none.",
        key="deployments",
    )


def _surcharge(option: str, instance_type: str, pricing: Pricing) -> Cell:
    found = deployments.surcharge(option, instance_type, region=pricing.region, purchase_option=pricing.purchase_option)
    return cell((found.total, "usd_per_month"))
