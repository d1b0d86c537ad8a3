"""Step 6: what does a useful result cost, on one price basis for all?

    USD per million = 1e6 x hourly price x instances / useful results per hour
    useful results per hour = throughput x 3600 x utilization x success rate

With utilization 1 and the 3-year no-upfront reserved rate this reproduces the cost column of AWS's
Trn1 inference page (2025-09-18). Utilization 1 is a bound, not an estimate: the second figure uses
the utilization of step 5. Every price has a basis (region and purchase option); two bases are
never put side by side.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Optional

from neuronfit.catalog import prices
from neuronfit.compare import keeps_objective
from neuronfit.errors import BadInput, NotComparable, NotFound
from neuronfit.measure import where_to_run
from neuronfit.params import HOURS_PER_MONTH, Target
from neuronfit.provenance import Estimated, Grade, Quantity, absent, weakest
from neuronfit.question import Question
from neuronfit.record import (
    Comparison,
    Compatibility,
    Compile,
    Cost,
    CostOfTarget,
    Finding,
    Measurement,
    Severity,
    Utilization,
    UtilizationOfTarget,
)
from neuronfit.units import metric
from neuronfit.utilization import headline

__all__ = ["Basis", "Priced", "leading", "price", "saving_fraction", "speaks_against", "usd_per_million"]


@dataclass(frozen=True)
class Basis:
    """What a price means: where it is paid, and under which terms."""

    region: str
    purchase_option: str

    def __str__(self) -> str:
        return f"{self.purchase_option.replace('_', ' ')} in {self.region}"


@dataclass(frozen=True)
class Priced:
    """An amount of money with its basis, so that it can refuse to be compared with another."""

    usd: Quantity
    basis: Basis


def usd_per_million(usd_per_hour: float, throughput_per_s: float, *, instances: float = 1, utilization: float = 1, success: float = 1) -> float:
    """USD per million useful results (formula above).

    ``throughput_per_s`` is that of the whole fleet of ``instances`` at full load, in useful results
    per second; ``utilization`` and ``success`` are fractions in (0, 1]. Raises
    :class:`~neuronfit.errors.BadInput` when nothing useful would be produced.
    """
    for name, value, most in (("throughput", throughput_per_s, None), ("utilization", utilization, 1), ("success rate", success, 1)):
        if not (value > 0 and math.isfinite(value)):
            raise BadInput(f"no useful results: {name} is", value, allowed="a finite number above 0")
        if most is not None and value > most:
            raise BadInput(f"{name} is not a fraction", value, allowed="above 0 and at most 1", next="write 0.3 for 30 %")
    return 1e6 * usd_per_hour * instances / (throughput_per_s * 3600 * utilization * success)


def saving_fraction(candidate: Priced, baseline: Priced) -> float:
    """Share of the baseline's cost that the candidate saves; negative when it is dearer.

    Raises :class:`~neuronfit.errors.NotComparable` unless both have the same price basis: a 3-year
    reserved rate beside an on-demand one is off by a factor of 2.3 to 2.6. Nor are dollars per million
    set beside dollars a month, or anything beside an absent amount.
    """
    if candidate.usd.unit != baseline.usd.unit:
        raise NotComparable("amounts in different units", f"{candidate.usd.unit} against {baseline.usd.unit}", allowed="one unit for both sides")
    for side in (candidate.usd, baseline.usd):
        if not side.known:
            raise NotComparable("an amount is absent", side.why, allowed="a known amount on both sides")
    if baseline.usd.value <= 0:
        raise NotComparable("no fraction of the baseline's cost exists, it is", baseline.usd.value, allowed="an amount above 0")
    if candidate.basis != baseline.basis:
        raise NotComparable(
            "prices on different bases",
            f"{candidate.basis} against {baseline.basis}",
            allowed="one region and one purchase option for both sides",
            next="set pricing.region and pricing.purchase_option once, for every target",
        )
    return 1 - candidate.usd.value / baseline.usd.value


def price(question: Question) -> Cost:
    """Price every target on the question's one basis and admit the record."""
    _refuse_mixed_bases(question)
    comparison, load = question.dossier.latest(Comparison), question.dossier.latest(Utilization)
    loads = {row.target: row for row in load.targets} if load else {}
    figures = {target.name: headline(question, comparison, target.name) for target in question.targets}
    findings: list[Finding] = []
    offers = {target.name: _price(question, target, findings) for target in question.targets}
    priced = {name: rate for name, (rate, _) in offers.items()}
    dates = {name: as_of for name, (_, as_of) in offers.items()}
    base = question.params.baseline
    partners = _partners(question, comparison, figures)
    rows = tuple(
        _of_target(
            question,
            target,
            figures[target.name],
            loads.get(target.name),
            priced,
            dates[target.name],
            partners.get(target.name),
            loads.get(base.name),
        )
        for target in question.targets
    )
    findings += [*_one_sided_override(question), *_findings(question, rows, figures)]
    basis = Basis(question.params.pricing.region, question.params.pricing.purchase_option)
    record = Cost(
        workload=question.ref,
        source=Estimated(
            formula="1e6 x hourly price x instances / (throughput x 3600 x utilization x success rate)",
            inputs={row.target: str(row.full_load.grade or "absent") for row in rows},
        ),
        findings=tuple(findings),
        bottom_line=_bottom_line(question, rows, basis),
        region=basis.region,
        purchase_option=basis.purchase_option,
        targets=rows,
    )
    return question.dossier.admit(record)


# -- which candidate ---------------------------------------------------------------------------


def speaks_against(question: Question, name: str) -> Optional[str]:
    """Why a candidate is out, whatever it costs: steps 2 and 3 say so. ``None`` where nothing does."""
    checked, built = question.dossier.latest(Compatibility), question.dossier.latest(Compile)
    row = next((row for row in checked.targets if row.target == name), None) if checked else None
    if row is not None and row.supported is False:
        return f"{row.title}: {row.status}"
    if row is not None and row.fits is False:
        return "it does not fit in memory"
    failed = next((entry for entry in built.targets if entry.target == name and entry.status == "failed"), None) if built else None
    if failed is not None:
        return failed.because
    about = [finding for finding in checked.findings if finding.target == name] if checked else []
    blocker = next((finding for finding in about if finding.severity is Severity.BLOCKER), None)
    return blocker.because if blocker else None


def leading(question: Question) -> str:
    """The candidate that the controlled test and the decision are about.

    The cheapest at full load of those that nothing speaks against, among them of those that do not
    miss the latency objective; the first one in the file while no cost is known.
    """
    names = [target.name for target in question.params.candidates]
    alive = [name for name in names if speaks_against(question, name) is None] or names
    priced, comparison = question.dossier.latest(Cost), question.dossier.latest(Comparison)
    costs = {row.target: row.full_load.value for row in priced.targets if row.target in alive and row.full_load.known} if priced else {}
    figures = {name: headline(question, comparison, name) for name in costs}
    keeping = [name for name, figure in figures.items() if figure and keeps_objective(figure, question.params.objective) is not False]
    return min(keeping or costs, key=costs.__getitem__) if costs else alive[0]


# -- prices -----------------------------------------------------------------------------------


def _refuse_mixed_bases(question: Question) -> None:
    """A target must not bring its own basis through ``settings``."""
    pricing = question.params.pricing
    shared = {"purchase_option": pricing.purchase_option, "region": pricing.region}
    for target in question.targets:
        for key, value in shared.items():
            own = target.settings.get(key, value)
            if own != value:
                raise NotComparable(
                    f"{target.name} is priced by {key} {own}, the others by",
                    value,
                    allowed="one price basis for every target",
                    next=f"remove {key} from {target.name}.settings and set pricing.{key}",
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


def _price(question: Question, target: Target, findings: list[Finding]) -> tuple[Quantity, Optional[str]]:
    """The hourly price of one instance and the date on which it held; absent with a finding where there is none."""
    pricing = question.params.pricing
    for override in pricing.overrides:
        if override.instance_type == target.instance_type:
            why = f"the team's own rate as of {override.as_of}" + (f": {override.note}" if override.note else "")
            return Quantity(value=override.usd_per_hour, unit="USD/h", grade=Grade.IMPORTED, why=why), override.as_of
    try:
        found = prices.find(target.instance_type, pricing.region, pricing.purchase_option)
        return found.quantity(), found.as_of
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
        return absent("USD/h", f"no {pricing.purchase_option} price in {pricing.region}"), None


# -- one target -------------------------------------------------------------------------------


def _partners(question: Question, comparison: Optional[Comparison], figures: dict[str, Optional[Measurement]]) -> dict[str, Measurement]:
    """Candidate -> the baseline figure it was matched with (same batch), else the baseline's own."""
    base = figures[question.params.baseline.name]
    partners = {name: base for name in figures if base}
    for entry in comparison.pairs if comparison else ():
        if entry.mode == "matched":
            partners[entry.candidate] = question.dossier.get(entry.baseline_record)
    return partners  # type: ignore[return-value]


def _of_target(
    question: Question,
    target: Target,
    figure: Optional[Measurement],
    load: Optional[UtilizationOfTarget],
    priced: dict[str, Quantity],
    price_as_of: Optional[str],
    partner: Optional[Measurement],
    base_load: Optional[UtilizationOfTarget],
) -> CostOfTarget:
    rate, base_price = priced[target.name], priced[question.params.baseline.name]
    throughput = figure.quantity("throughput_per_s") if figure else absent("1/s", "no throughput is known yet (step 4)")
    partner_rate = partner.quantity("throughput_per_s") if partner else absent("1/s", "the baseline has no throughput")
    is_base = target.name == question.params.baseline.name
    full = _full_load(rate, throughput)
    expected, per_month = _at_traffic(rate, load)
    base_expected, _ = _at_traffic(base_price, base_load)
    base_full = _full_load(base_price, partner_rate)
    itself = "this is the baseline"
    unit = "million tokens" if figure and figure.result_unit == "token" else "million"
    return CostOfTarget(
        target=target.name,
        instance_type=target.instance_type,
        result_unit=figure.result_unit if figure else "inference",
        price=rate,
        price_as_of=price_as_of,
        full_load=full,
        expected=expected,
        per_month=per_month,
        efficiency=_derived("1/s/(USD/h)", lambda speed, money: speed / money, throughput, rate),
        break_even_throughput=absent("1/s", itself)
        if is_base
        else _derived("1/s", lambda theirs, speed, mine: theirs * speed / mine, base_price, throughput, rate),
        break_even_utilization=absent("fraction", itself)
        if is_base
        else _derived("fraction", lambda mine, theirs: mine / theirs, full, base_expected),
        break_even_price=absent("USD/h", itself)
        if is_base
        else _derived("USD/h", lambda theirs, speed: theirs * speed * 3600 / 1e6, base_full, throughput),
        other_bases=_other_bases(question, target, throughput),
        sentence=_sentence(target, full, expected, unit),
    )


def _derived(unit: str, formula, *inputs: Quantity) -> Quantity:
    """``formula`` of the inputs' values with the weakest of their grades, or absent with the first reason."""
    missing = next((part for part in inputs if not part.known), None)
    if missing is not None:
        return absent(unit, missing.why or "an input is missing")
    return Quantity(value=formula(*(part.value for part in inputs)), unit=unit, grade=weakest(*inputs))


def _full_load(price: Quantity, throughput: Quantity) -> Quantity:
    """USD per million at utilization 1; a fast end of throughput is a low end of cost."""
    plain = _derived("USD/1e6", usd_per_million, price, throughput)
    if not plain.known or throughput.low is None or throughput.low <= 0:
        return plain
    low, high = (usd_per_million(price.value, rate) for rate in (throughput.high, throughput.low))
    return plain.model_copy(update={"low": low, "high": high, "confidence": throughput.confidence})


def _at_traffic(price: Quantity, load: Optional[UtilizationOfTarget]) -> tuple[Quantity, Quantity]:
    """USD per million and per month for the instances that the traffic needs; always an estimate."""
    if load is None or not load.instances.known or not price.known:
        why = "no utilization is known; run step 5" if load is None else load.instances.why if not load.instances.known else price.why
        return absent("USD/1e6", why or "no utilization is known"), absent("USD/month", why or "no utilization is known")
    count, rate = load.instances.value, load.offered_mean.value
    served = min(rate, count * load.capacity_per_instance.value)
    per_million = 1e6 * price.value * count / (served * 3600)
    return (
        Quantity(value=per_million, unit="USD/1e6", grade=Grade.ESTIMATED),
        Quantity(value=price.value * count * HOURS_PER_MONTH, unit="USD/month", grade=Grade.ESTIMATED),
    )


def _other_bases(question: Question, target: Target, throughput: Quantity) -> dict[str, Quantity]:
    """The same figure on every purchase option the snapshot has for this region."""
    region, table = question.params.pricing.region, {}
    for option in prices.options():
        try:
            rate = prices.find(target.instance_type, region, option).quantity()
        except NotFound:
            table[option] = absent("USD/1e6", f"no {option} price in {region}")
        else:
            table[option] = _full_load(rate, throughput)
    return table


# -- sentences and findings -------------------------------------------------------------------


def _sentence(target: Target, full: Quantity, expected: Quantity, unit: str) -> str:
    if not full.known:
        return f"{target.name}: no cost, because {full.why}."
    money = metric("usd_per_million").text
    text = f"{target.name} ({target.instance_type}): {money(full.value)} per {unit} at full load"
    return f"{text}, {money(expected.value)} at your traffic." if expected.known else f"{text}."


def _findings(question: Question, rows: Sequence[CostOfTarget], figures: dict[str, Optional[Measurement]]) -> list[Finding]:
    findings = []
    for row in rows:
        if not row.full_load.known and row.price.known:
            findings.append(
                Finding(
                    severity=Severity.WAITING,
                    code="no_cost",
                    because=f"{row.target} has a price and no throughput",
                    next=where_to_run(question, question.target(row.target)),
                    target=row.target,
                )
            )
    for row in rows:
        figure = figures[row.target]
        if figure is None or not row.full_load.known:
            continue
        printed, basis = figure.printed.get("usd_per_million"), figure.printed.get("price_basis")
        if printed and basis and not basis.startswith(question.params.pricing.purchase_option):
            because = (
                f"the source prints ${float(printed):.3g} per million on {basis}; here it is {metric('usd_per_million').text(row.full_load.value)}"
            )
            findings.append(Finding(severity=Severity.NOTE, code="printed_on_another_basis", because=because, target=row.target))
        if any(finding.code == "few_cores_busy" for finding in figure.findings):
            because = "the throughput behind this cost leaves most of the instance idle, so the cost is an upper bound"
            findings.append(Finding(severity=Severity.WARNING, code="cost_of_idle_instance", because=because, target=row.target))
    return findings


def _bottom_line(question: Question, rows: Sequence[CostOfTarget], basis: Basis) -> str:
    base = next(row for row in rows if row.target == question.params.baseline.name)
    priced = [row for row in rows if row is not base and row.full_load.known]
    if not priced or not base.full_load.known:
        lacking = [row.target for row in rows if not row.full_load.known]
        return f"No cost to compare yet: {', '.join(lacking)} {'lacks' if len(lacking) == 1 else 'lack'} a throughput or a price."
    money = metric("usd_per_million").text
    priced = [row for row in priced if row.result_unit == base.result_unit]
    if not priced:
        return f"No cost to compare yet: {base.target} counts {base.result_unit}s, the candidates count something else."
    best = min(priced, key=lambda row: row.full_load.value)
    saving = saving_fraction(Priced(best.full_load, basis), Priced(base.full_load, basis))
    unit = "million tokens" if best.result_unit == "token" else "million"
    text = (
        f"{money(best.full_load.value)} per {unit} on {best.instance_type} against {money(base.full_load.value)} on {base.instance_type} "
        f"at full load ({_more_or_less(saving)}), {basis}"
    )
    if best.expected.known and base.expected.known:
        real = saving_fraction(Priced(best.expected, basis), Priced(base.expected, basis))
        text += f"; at your traffic {money(best.expected.value)} against {money(base.expected.value)} ({_more_or_less(real)})"
    return f"{text}."


def _more_or_less(saving: float) -> str:
    return f"{abs(saving):.0%} {'less' if saving >= 0 else 'more'}"
