"""Step 6: the hourly price of every target on the question's one basis, and what the way to deploy adds to it.

The team's own rate goes before the catalogue's, less ``pricing.discount``. SageMaker's premium is part of the hourly price, a cluster
of EKS a part of the month. Where the premium of a candidate is unknown it has no price; where that of the baseline is unknown it is left
out for all of them, so that they stay on one basis, and the costs say that it is not in them.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import date
from decimal import Decimal
from typing import Optional

from neuronfit.catalog import availability, deployments, prices
from neuronfit.catalog.instances import THIS_HOST
from neuronfit.errors import NotComparable, NotFound
from neuronfit.params import Target
from neuronfit.provenance import Grade, Quantity, absent, weakest
from neuronfit.question import Question
from neuronfit.record import Finding, Severity

__all__ = ["Offer", "offers"]


@dataclass(frozen=True)
class Offer:
    """What one instance costs an hour, with what the way to deploy adds per instance."""

    price: Quantity
    """USD/h; absent with the reason"""
    as_of: Optional[str] = None
    """the oldest date of what the price is made of, ISO"""
    per_month: dict[str, Quantity] = field(default_factory=dict)
    """what the way to deploy adds by the month, whatever the number of instances: name -> USD/month"""
    left_out: Optional[str] = None
    """what is not in the price, in words"""


def offers(question: Question, today: date) -> tuple[dict[str, Offer], list[Finding]]:
    """Target -> its offer, and what has to be said about them.

    Raises :class:`~neuronfit.errors.NotComparable` where a target or the team's own rate for it is on another basis.
    """
    _refuse_mixed_bases(question)
    findings: list[Finding] = []
    found = {target.name: _price(question, target, findings) for target in question.targets}
    found = _deployed(question, found, findings)
    findings += prices.old_prices({name: offer.as_of for name, offer in found.items()}, today)
    findings += _one_sided_override(question)
    return found, findings


def _refuse_mixed_bases(question: Question) -> None:
    """A target must not bring its own basis through ``settings``, nor its rate through ``pricing.overrides``."""
    pricing = question.params.pricing
    shared = {"purchase_option": pricing.purchase_option, "region": pricing.region, "currency": "USD"}
    for target in question.targets:
        for key, value in shared.items():
            own = target.settings.get(key, value)
            if own != value:
                raise NotComparable(
                    f"{target.name} is priced by {key} {own}, the others by",
                    value,
                    allowed="one price basis for every target",
                    next=f"remove {key} from {target.name}.settings"
                    + (", convert the rate and give it in pricing.overrides" if key == "currency" else f" and set pricing.{key}"),
                )
    used = {target.instance_type for target in question.targets}
    for entry in pricing.overrides:
        if entry.instance_type in used and entry.purchase_option not in (None, pricing.purchase_option):
            raise NotComparable(
                f"the team's own rate for {entry.instance_type} is {entry.purchase_option}, the others are priced by",
                pricing.purchase_option,
                allowed="one price basis for every target",
                next=f"give the {pricing.purchase_option} rate in pricing.overrides, or set pricing.purchase_option: {entry.purchase_option}",
            )


def _one_sided_override(question: Question) -> list[Finding]:
    """The team's own rate on one side and a list price on the other may be two bases under one name."""
    own = {entry.instance_type for entry in question.params.pricing.overrides}
    with_own = [target.name for target in question.targets if target.instance_type in own]
    without = [target.name for target in question.targets if target.instance_type not in own]
    if not with_own or not without:
        return []
    return [
        Finding(
            severity=Severity.WARNING,
            code="price_override_one_sided",
            because=f"{', '.join(with_own)} at the team's own rate, {', '.join(without)} at the {question.params.pricing.purchase_option} list price",
            next="give a rate for every target in pricing.overrides, or make sure that both are on the same terms",
        )
    ]


def _price(question: Question, target: Target, findings: list[Finding]) -> Offer:
    """The hourly price of one instance and the date on which it held; absent with a finding where there is none."""
    pricing = question.params.pricing
    for override in pricing.overrides:
        if override.instance_type == target.instance_type:
            why = f"the team's own rate as of {override.as_of}" + (f": {override.note}" if override.note else "")
            return Offer(Quantity(value=override.usd_per_hour, unit="USD/h", grade=Grade.IMPORTED, why=why), override.as_of)
    if target.instance_type == THIS_HOST:
        because = "the machine at hand has no price in the catalogue"
        advice = f"add a pricing.overrides entry for {THIS_HOST}, with what the team pays for it"
        findings.append(Finding(severity=Severity.WAITING, code="price_unknown", because=because, next=advice, target=target.name))
        return Offer(absent("USD/h", because))
    try:
        found = prices.find(target.instance_type, pricing.region, pricing.purchase_option)
        return Offer(prices.discounted(found, pricing.discount), found.as_of)
    except NotFound as error:
        findings.append(
            Finding(
                severity=Severity.WAITING,
                code="price_unknown",
                because=str(error),
                next=f"neuronfit prices show {target.instance_type}, or add a pricing.overrides entry",
                target=target.name,
            )
        )
    try:
        findings.extend(availability.findings(target.name, target.instance_type, pricing.region, pricing.purchase_option))
    except NotFound:  # a type that no list knows: said above
        pass
    return Offer(absent("USD/h", f"no {pricing.purchase_option} price in {pricing.region}"))


# -- what the way to deploy adds --------------------------------------------------------------


def _deployed(question: Question, plain: dict[str, Offer], findings: list[Finding]) -> dict[str, Offer]:
    """The offers with what ``pricing.deployment`` asks for: the premium in the hourly price, a cluster in the month."""
    pricing = question.params.pricing
    bought = deployments.find(pricing.deployment)
    rented = [target for target in question.targets if target.instance_type != THIS_HOST and plain[target.name].price.known]
    if bought.charge == "none" or not rented:
        return plain
    added = {
        target.name: deployments.surcharge(bought.option, target.instance_type, region=pricing.region, purchase_option=pricing.purchase_option)
        for target in rented
    }
    if bought.charge == "per cluster":
        monthly = {name: row.per_cluster for name, row in added.items()}
        [first, *_] = monthly.values()
        because = f"bought through EKS: {first.value:.2f} USD a month for one cluster are in the month of every target ({first.why})"
        findings.append(Finding(severity=Severity.NOTE, code="deployment_surcharge", because=because))
        return {name: replace(offer, per_month={bought.title: monthly[name]}) if name in monthly else offer for name, offer in plain.items()}
    unknown = {name: (row.per_instance.why or "").partition(":")[0] for name, row in added.items() if not row.per_instance.known}
    if question.params.workload.kind == "training" and pricing.purchase_option != "sagemaker_hosting":
        unknown = {name: "SageMaker prices training apart from hosting, and no such price is in the catalogue" for name in added}
    base = question.params.baseline.name
    if base in unknown:
        said = "; ".join(f"{', '.join(name for name in unknown if unknown[name] == why)}: {why}" for why in dict.fromkeys(unknown.values()))
        findings.append(_unpriced(f"what SageMaker asks above EC2 is in no cost here, and left out on both sides ({said})"))
        left_out = "SageMaker's surcharge, which is not known for " + ", ".join(unknown)
        return {name: replace(offer, left_out=left_out) if name in added else offer for name, offer in plain.items()}
    found = dict(plain)
    for target in rented:
        if target.name in unknown:
            findings.append(_unpriced(f"bought through SageMaker {target.name} has no price: {unknown[target.name]}", target.name))
            found[target.name] = Offer(absent("USD/h", unknown[target.name]))
        else:
            found[target.name] = _dearer(question, target, plain[target.name], added[target.name])
    return found


def _unpriced(because: str, target: Optional[str] = None) -> Finding:
    return Finding(
        severity=Severity.WARNING,
        code="deployment_unpriced",
        because=because,
        next="pricing.purchase_option: sagemaker_hosting, with the rates of every target in pricing.overrides",
        target=target,
    )


def _dearer(question: Question, target: Target, offer: Offer, added: deployments.Surcharge) -> Offer:
    """The offer with the premium per instance-hour, less the team's discount like every list price."""
    premium, pricing = added.per_instance, question.params.pricing
    if premium.value == 0:
        return offer
    amount = Decimal(str(premium.value)) * (1 - Decimal(str(pricing.discount)))
    grade = weakest(offer.price, premium) if pricing.discount == 0 else Grade.ESTIMATED
    value = float(Decimal(str(offer.price.value)) + amount)
    why = f"{offer.price.why}; with {amount:.6g} USD/h of {added.option}: {premium.why}"
    hosting = prices.find(target.instance_type, pricing.region, "sagemaker_hosting")
    as_of = min(hosting.as_of, offer.as_of or hosting.as_of)
    return replace(offer, price=offer.price.model_copy(update={"value": value, "grade": grade, "why": why}), as_of=as_of)
