"""Step 6: what does a useful result cost, on one price basis for all?

    USD per million = 1e6 x hourly price x instances / useful results per hour
    useful results per hour = throughput x 3600 x utilization x success rate

With utilization 1 and the 3-year no-upfront reserved rate this reproduces the cost column of AWS's
Trn1 inference page (2025-09-18). Utilization 1 is a bound, not an estimate: the second figure uses
the instance-hours of step 5 and counts useful results only (:mod:`neuronfit.useful`), with an interval
and a probability that the candidate is the cheaper one (:mod:`neuronfit.doubt`). A training workload is
priced by the run (:mod:`neuronfit.training`). Every price has a basis (region and purchase option); two
bases are never put side by side.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from decimal import Decimal
from typing import Optional

from neuronfit import doubt, parity, training
from neuronfit.catalog import prices
from neuronfit.compare import keeps_objective, objective_checks
from neuronfit.draws import Draws, doubtful
from neuronfit.errors import BadInput, NotComparable, NotFound
from neuronfit.measure import where_to_run
from neuronfit.offers import Offer, offers
from neuronfit.params import SECONDS_PER_MONTH, Doubt, Target
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
from neuronfit.units import metric, spoken
from neuronfit.useful import beside, fleet_of, monthly_usd, per_unit, useful_share
from neuronfit.utilization import headline

__all__ = ["Basis", "Priced", "leading", "listed", "of_draws", "price", "saving_fraction", "speaks_against", "today", "unlike", "usd_per_million"]


def today() -> date:
    """The day by which a price is judged old."""
    return date.today()


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
    offered, findings = offers(question, today())
    comparison, load = question.dossier.latest(Comparison), question.dossier.latest(Utilization)
    loads = {row.target: row for row in load.targets} if load else {}
    figures = {target.name: headline(question, comparison, target.name) for target in question.targets}
    partners = _partners(question, comparison, figures)
    source = Draws()
    sides = {
        target.name: _side(question, target, figures[target.name], loads.get(target.name), offered[target.name], source)
        for target in question.targets
    }
    rows = tuple(_of_target(question, target, figures[target.name], offered, partners.get(target.name), sides, source) for target in question.targets)
    findings += _findings(question, rows, figures)
    basis = Basis(question.params.pricing.region, question.params.pricing.purchase_option)
    record = Cost(
        workload=question.ref,
        source=Estimated(
            formula="1e6 x hourly price x instances / (throughput x 3600 x utilization x success rate)",
            inputs={row.target: str(row.full_load.grade or "absent") for row in rows},
        ),
        findings=tuple(findings),
        bottom_line=_bottom_line(question, rows, _terms(question, basis, offered)),
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


# -- one target -------------------------------------------------------------------------------


def _partners(question: Question, comparison: Optional[Comparison], figures: dict[str, Optional[Measurement]]) -> dict[str, Measurement]:
    """Candidate -> the baseline figure it was matched with (same batch), else the baseline's own."""
    base = figures[question.params.baseline.name]
    partners = {name: base for name in figures if base}
    for entry in comparison.pairs if comparison else ():
        if entry.mode == "matched":
            partners[entry.candidate] = question.dossier.get(entry.baseline_record)
    return partners  # type: ignore[return-value]


@dataclass(frozen=True)
class _Side:
    """What one target costs at the traffic, and the inputs of it; ``inputs`` is ``None`` while step 5 knows no fleet."""

    expected: Quantity
    per_month: Quantity
    inputs: Optional[doubt.Inputs] = None
    assumed: tuple[str, ...] = ()
    useful: Optional[Quantity] = None
    useful_because: Optional[str] = None
    beside: dict[str, Quantity] = field(default_factory=dict)
    doubts: dict[str, float] = field(default_factory=dict)
    """input -> the half width that is assumed for it, fraction"""


def _side(
    question: Question, target: Target, figure: Optional[Measurement], load: Optional[UtilizationOfTarget], offer: Offer, source: Draws
) -> _Side:
    """The fleet of step 5 in money: USD per million useful results and per month, with the interval of the inputs; always an estimate."""
    rate = offer.price
    fleet = fleet_of(question, target, load) if load is not None else None
    if question.params.workload.kind == "training" or fleet is None or not rate.known:
        why = "a training run is priced as a whole" if question.params.workload.kind == "training" else None
        why = why or ("no utilization is known; run step 5" if load is None else load.instances.why if fleet is None else rate.why)
        return _Side(absent("USD/1e6", why or "no utilization is known"), absent("USD/month", why or "no utilization is known"))
    useful, because = useful_share(figure, load)
    fleet = replace(fleet, usd_per_month=fleet.usd_per_month + sum(usd.value for usd in offer.per_month.values()))
    plain = doubt.Inputs(target.name, target.instance_type, rate, load.capacity_per_instance, load.offered_mean, useful, fleet)
    inputs = doubt.with_doubt(plain, question.params.policy.doubt)
    parts = beside(question.params.pricing.surroundings, target.name, load.offered_mean.value * SECONDS_PER_MONTH)
    shown = {name: Quantity(value=float(usd), unit="USD/month", grade=Grade.ESTIMATED, why="declared") for name, usd in parts.items()}
    for name, usd in offer.per_month.items():
        parts[name] = parts.get(name, Decimal(0)) + Decimal(str(usd.value))
        shown[name] = usd.model_copy(update={"value": float(parts[name])})
    per_month = doubt.per_month(inputs, source)
    expected = doubt.per_million(inputs, source) if useful.value > 0 else absent("USD/1e6", f"no result is useful: {because}")
    summed = float(monthly_usd(rate.value, fleet.hours, parts))
    ends = {} if per_month.low is None else {"low": min(per_month.low, summed), "high": max(per_month.high, summed)}
    return _Side(
        expected=expected,
        per_month=per_month.model_copy(update={"value": summed, **ends}),
        inputs=inputs,
        assumed=doubt.assumed(plain, inputs),
        useful=useful,
        useful_because=because,
        beside=shown,
        doubts=doubt.shares(plain, inputs),
    )


def _of_target(
    question: Question,
    target: Target,
    figure: Optional[Measurement],
    offered: dict[str, Offer],
    partner: Optional[Measurement],
    sides: dict[str, _Side],
    source: Draws,
) -> CostOfTarget:
    base = question.params.baseline
    offer = offered[target.name]
    rate, base_price = offer.price, offered[base.name].price
    throughput = figure.quantity("throughput_per_s") if figure else absent("1/s", "no throughput is known yet (step 4)")
    partner_rate = partner.quantity("throughput_per_s") if partner else absent("1/s", "the baseline has no throughput")
    is_base = target.name == base.name
    side, base_side = sides[target.name], sides[base.name]
    full, base_full = _full_load(rate, throughput), _full_load(base_price, partner_rate)
    itself = "this is the baseline"
    unit = "million tokens" if figure and figure.result_unit == "token" else "million"
    row = CostOfTarget(
        target=target.name,
        instance_type=target.instance_type,
        result_unit=figure.result_unit if figure else "inference",
        price=rate,
        price_as_of=offer.as_of,
        full_load=full,
        expected=side.expected,
        per_month=side.per_month,
        efficiency=_derived("1/s/(USD/h)", lambda speed, money: speed / money, throughput, rate),
        break_even_throughput=absent("1/s", itself)
        if is_base
        else _derived("1/s", lambda theirs, speed, mine: theirs * speed / mine, base_price, throughput, rate),
        break_even_utilization=absent("fraction", itself)
        if is_base
        else _derived("fraction", lambda mine, theirs: mine / theirs, full, base_side.expected),
        break_even_price=absent("USD/h", itself)
        if is_base
        else _derived("USD/h", lambda theirs, speed: theirs * speed * 3600 / 1e6, base_full, throughput),
        other_bases=_other_bases(question, target, throughput),
        tokens_per_usd=_tokens_per_usd(figure, throughput, rate),
        useful=side.useful,
        useful_because=side.useful_because,
        beside_per_month=side.beside,
        assumed=side.assumed,
        sentence=_sentence(target, full, side.expected, unit, offer.left_out),
    )
    if question.params.workload.kind == "training":
        return _with_run(question, row, target, throughput, partner, offered, source)
    if figure is not None and side.inputs is not None and side.expected.known:
        fleet = side.inputs.fleet
        row = row.model_copy(
            update={
                "instance_hours_per_month": Quantity(value=fleet.hours, unit="h", grade=Grade.ESTIMATED, why=fleet.because),
                "hours_because": fleet.because,
                "per_unit": per_unit(question, figure, side.expected),
                "tornado": doubt.tornado(side.inputs),
            }
        )
    if is_base or partner is None or partner.result_unit != row.result_unit:
        return row
    return row.model_copy(update=_against_baseline(question, row, side, base_side, (throughput, partner_rate, base_price), source))


def _against_baseline(
    question: Question, row: CostOfTarget, mine: _Side, base: _Side, known: tuple[Quantity, Quantity, Quantity], source: Draws
) -> dict[str, object]:
    """How likely the candidate is the cheaper one, what it saves a month, and from which volume on it is."""
    throughput, base_throughput, base_price = known
    assume = question.params.policy.doubt
    found = {
        "probability_cheaper_full_load": doubt.full_load_cheaper(
            (row.instance_type, _doubted(row.price, assume), _doubted(throughput, assume)),
            (question.params.baseline.instance_type, _doubted(base_price, assume), _doubted(base_throughput, assume)),
            source,
        ),
        "taken_as": _taken_as(question, row.target, (throughput, base_throughput), (row.price, base_price), (mine.doubts, base.doubts)),
    }
    if mine.inputs is not None and base.inputs is not None and mine.expected.known and base.expected.known:
        found["saving_per_month"], found["probability_cheaper"] = doubt.saving(mine.inputs, base.inputs, source)
        found["break_even_volume"] = doubt.break_even_volume(mine.inputs, base.inputs)
    return found


def unlike(comparison: Optional[Comparison], name: str) -> Optional[str]:
    """What makes the figures of a candidate and of the baseline not comparable (``batch_size and framework differ``); ``None`` where they are."""
    entry = next((pair for pair in comparison.pairs if pair.candidate == name), None) if comparison else None  # matched comes before best
    if entry is None or entry.verdict != "not_comparable":
        return None
    names = [part.setting.replace("_", " ") for part in entry.differences if part.matters]
    return f"{listed(names)} {'differs' if len(names) == 1 else 'differ'}" if names else entry.sentence.rstrip(".")


def listed(words: Sequence[str]) -> str:
    """``a``, ``a and b``, ``a, b and c``."""
    return " and ".join(part for part in (", ".join(words[:-1]), *words[-1:]) if part)


def _taken_as(
    question: Question, name: str, speeds: Sequence[Quantity], rates: Sequence[Quantity], others: Sequence[dict[str, float]]
) -> Optional[str]:
    """What a probability takes for granted: the doubt that is assumed, and figures that are not comparable taken at face value."""
    widths: dict[str, set[float]] = {}
    assume = question.params.policy.doubt
    for words, quantities in (("throughput", speeds), ("hourly price", rates)):
        for plain in quantities:
            drawn = _doubted(plain, assume)
            if plain.known and plain.low is None and drawn.low is not None:
                widths.setdefault(words, set()).add(round(drawn.high / drawn.value - 1, 6))
    for side in others:
        for words, share in side.items():
            widths.setdefault(words, set()).add(round(share, 6))
    said = [f"{' or '.join(f'{width:.3g}'.rstrip('.') for width in sorted(100 * w for w in widths[words]))}% in the {words}" for words in widths]
    parts = [f"a doubt of {listed(said)} is assumed"] if said else []
    differ = unlike(question.dossier.latest(Comparison), name)
    if differ:
        parts.append(f"the figures are taken at face value although they are not comparable: {differ}")
    return "; ".join(parts) or None


def _doubted(quantity: Quantity, assume: Doubt) -> Quantity:
    """A price or a throughput with the assumed interval of its grade where it brings none."""
    if not quantity.known:
        return quantity
    if quantity.unit == "USD/h":
        return doubtful(quantity, assume.estimated_price if quantity.grade is Grade.ESTIMATED else assume.price)
    return doubtful(quantity, getattr(assume, str(quantity.grade)))


def _tokens_per_usd(figure: Optional[Measurement], throughput: Quantity, rate: Quantity) -> Quantity:
    """Tokens that a dollar buys at full load: those written for generation, else those read, padding and all."""
    if figure is None:
        return absent("1/USD", throughput.why or "no throughput is known yet (step 4)")
    tokens = 1 if figure.result_unit == "token" else figure.settings.sequence_length if figure.result_unit != "image" else None
    if not tokens:
        return absent("1/USD", "the figure does not say how many tokens a result has")
    return _derived("1/USD", lambda speed, money: speed * tokens * 3600 / money, throughput, rate)


def _with_run(
    question: Question,
    row: CostOfTarget,
    target: Target,
    throughput: Quantity,
    partner: Optional[Measurement],
    offered: dict[str, Offer],
    source: Draws,
) -> CostOfTarget:
    """The row of a training workload: one run, beside the baseline's."""
    plan, base, assume = question.params.workload.training, question.params.baseline, question.params.policy.doubt
    if plan is None:
        return row
    length = question.params.workload.shapes[0].sequence_length
    comparison = question.dossier.latest(Comparison)
    figure = headline(question, comparison, target.name)

    def run(of: Target, known: Optional[Measurement]) -> training.Run:
        speed = known.quantity("throughput_per_s") if known else absent("1/s", "no training throughput is known yet (step 4)")
        factor = training.amount_per_result(plan, known.result_unit if known else "sequence", length)
        scaled = speed if not speed.known else training.scaled(speed, factor)
        return training.run_of(of, _doubted(offered[of.name].price, assume), _doubted(scaled, assume), plan)

    mine, theirs = run(target, figure), run(base, partner)
    found = training.training_run(mine, None if target.name == base.name else theirs, question.params.objective.deadline_h, source)
    said = {"training": found, "sentence": found.sentence}
    if target.name != base.name:
        said["probability_cheaper"] = found.probability_cheaper
        speeds = [known.quantity("throughput_per_s") for known in (figure, partner) if known]
        said["taken_as"] = _taken_as(question, target.name, speeds, [offered[side.name].price for side in (target, base)], ())
    if plan.runs_per_month and found.cost.known:
        said["per_month"] = _and_clusters(training.scaled(found.cost, plan.runs_per_month), offered[target.name])
        said["beside_per_month"] = offered[target.name].per_month
        if target.name != base.name and found.saving.known:
            said["saving_per_month"] = training.saved_per_month(mine, theirs, plan.runs_per_month, source)
    return row.model_copy(update=said)


def _and_clusters(runs: Quantity, offer: Offer) -> Quantity:
    """USD of a month's runs with what the way to deploy adds by the month."""
    added = sum(usd.value for usd in offer.per_month.values())
    edges = {} if runs.low is None else {"low": runs.low + added, "high": runs.high + added}
    return runs.model_copy(update={"value": runs.value + added, "unit": "USD/month", **edges})


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


def _other_bases(question: Question, target: Target, throughput: Quantity) -> dict[str, Quantity]:
    """The same figure on every purchase option the snapshot has for this region."""
    region, table = question.params.pricing.region, {}
    for option in prices.options():
        try:
            rate = prices.discounted(prices.find(target.instance_type, region, option), question.params.pricing.discount)
        except NotFound:
            table[option] = absent("USD/1e6", f"no {spoken(option)} price in {region}")
        else:
            full = _full_load(rate, throughput)
            table[option] = full.model_copy(update={"why": rate.why}) if full.known else full
    return table


# -- sentences and findings -------------------------------------------------------------------


def _sentence(target: Target, full: Quantity, expected: Quantity, unit: str, left_out: Optional[str]) -> str:
    if not full.known:
        return f"{target.name}: no cost, because {full.why}."
    money = metric("usd_per_million").text
    text = f"{target.name} ({target.instance_type}): {money(full.value)} per {unit} at full load"
    text += f", {money(expected.value)} at your traffic" if expected.known else ""
    return f"{text}, without {left_out}." if left_out else f"{text}."


def _basis_words(basis: str) -> str:
    """``reserved_3yr_no_upfront, us-east-1 (...)`` with the purchase option as it is spoken."""
    option, comma, rest = basis.partition(",")
    return f"{spoken(option)} prices{comma}{rest}"


def _findings(question: Question, rows: Sequence[CostOfTarget], figures: dict[str, Optional[Measurement]]) -> list[Finding]:
    findings, money = _about_training(question, rows), metric("usd_per_million").text
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
                f"the source prints ${float(printed):.3g} per million at {_basis_words(basis)}; "
                f"here, {spoken(question.params.pricing.purchase_option)}, it is {money(row.full_load.value)}"
            )
            findings.append(Finding(severity=Severity.NOTE, code="printed_on_another_basis", because=because, target=row.target))
        if keeps_objective(figure, question.params.objective) is False:
            broken = next(check.because for check in objective_checks(figure, question.params.objective) if check.kept is False)
            because = f"{row.target}: {broken}, so results at this rate are late: this is a cost at saturation, not under the objective"
            next_ = f"a figure of {row.target} that keeps the objective, with a smaller batch"
            findings.append(Finding(severity=Severity.WARNING, code="cost_misses_objective", because=because, next=next_, target=row.target))
        agreed = parity.latest(question, row.target) if row.target != question.params.baseline.name else None
        if agreed is not None and agreed.verdict == "fail":
            because = f"{row.target} failed parity, so none of its results is accepted; the cost is reckoned as if they were"
            findings.append(Finding(severity=Severity.WARNING, code="cost_not_accepted", because=because, next=agreed.bottom_line, target=row.target))
        if any(finding.code == "few_cores_busy" for finding in figure.findings):
            because = "the throughput behind this cost leaves most of the instance idle, so the cost is an upper bound"
            findings.append(Finding(severity=Severity.WARNING, code="cost_of_idle_instance", because=because, target=row.target))
    return findings


def _about_training(question: Question, rows: Sequence[CostOfTarget]) -> list[Finding]:
    workload, objective = question.params.workload, question.params.objective
    if workload.kind != "training":
        return []
    if workload.training is None:
        because = "how much one run processes is not declared, so a run has neither time nor cost"
        next_ = f"add workload.training: {{samples: ...}} to {question.command_name}"
        return [Finding(severity=Severity.WAITING, code="training_amount_unknown", because=because, next=next_)]
    return [
        Finding(
            severity=Severity.WARNING,
            code="deadline_missed",
            because=f"{row.target} takes {row.training.duration.value:.4g} h, the deadline is {objective.deadline_h:g} h",
            next=f"raise count of {row.target}",
            target=row.target,
        )
        for row in rows
        if row.training is not None and row.training.deadline_kept is False
    ]


def _runs_line(rows: Sequence[CostOfTarget], base: CostOfTarget, terms: str) -> str:
    """The answer for training, in one sentence."""
    known = [row for row in rows if row is not base and row.training is not None and row.training.cost.known]
    if not known or base.training is None or not base.training.cost.known:
        lacking = [row.target for row in rows if row.training is None or not row.training.cost.known]
        return f"No cost of a training run to compare yet: {listed(lacking)} {'lacks' if len(lacking) == 1 else 'lack'} a throughput, a price or an amount."
    best = min(known, key=lambda row: row.training.cost.value)
    money, run = metric("usd").text, best.training
    text = (
        f"{money(run.cost.value)} for a run on {best.instance_type} in {run.duration.value:.4g} h against {money(base.training.cost.value)} on "
        f"{base.instance_type} in {base.training.duration.value:.4g} h ({_more_or_less(run.saving.value)}), {terms}"
    )
    return f"{text}; {_likely(run.probability_cheaper, best)}."


def of_draws(share: float) -> str:
    """A probability in words that are no stronger than draws can be: ``97%``, ``more than 99%``."""
    return "more than 99%" if share > 0.99 else "less than 1%" if share < 0.01 else f"{share:.0%}"


def _likely(probability: Optional[Quantity], row: CostOfTarget) -> str:
    """``estimated: inf2 is the cheaper one in 97% of the draws (a doubt of 25% in the throughput is assumed)``."""
    if probability is None or not probability.known:
        return f"how likely {row.target} is the cheaper one is not known"
    text = f"{probability.grade}: {row.target} is the cheaper one in {of_draws(probability.value)} of the draws"
    return f"{text} ({row.taken_as})" if row.taken_as else text


def _terms(question: Question, basis: Basis, offered: dict[str, Offer]) -> str:
    """The basis in words, and through what the instances are bought where that costs something."""
    left_out = next((offer.left_out for offer in offered.values() if offer.left_out), None)
    if left_out:
        return f"{basis}, without {left_out}"
    bought = {"eks": "EKS", "sagemaker": "SageMaker"}.get(question.params.pricing.deployment)
    return f"{basis}, bought through {bought}" if bought else str(basis)


def _bottom_line(question: Question, rows: Sequence[CostOfTarget], terms: str) -> str:
    base = next(row for row in rows if row.target == question.params.baseline.name)
    if question.params.workload.kind == "training":
        return _runs_line(rows, base, terms)
    priced = [row for row in rows if row is not base and row.full_load.known]
    if not priced or not base.full_load.known:
        lacking = [row.target for row in rows if not row.full_load.known]
        return f"No cost to compare yet: {listed(lacking)} {'lacks' if len(lacking) == 1 else 'lack'} a throughput or a price."
    money = metric("usd_per_million").text
    priced = [row for row in priced if row.result_unit == base.result_unit]
    if not priced:
        return f"No cost to compare yet: {base.target} counts {base.result_unit}s, the candidates count something else."
    best = min(priced, key=lambda row: row.full_load.value)
    basis = Basis(question.params.pricing.region, question.params.pricing.purchase_option)
    saving = saving_fraction(Priced(best.full_load, basis), Priced(base.full_load, basis))
    unit = "million tokens" if best.result_unit == "token" else "million"
    text = (
        f"{money(best.full_load.value)} per {unit} on {best.instance_type} against {money(base.full_load.value)} on {base.instance_type} "
        f"at full load ({_more_or_less(saving)}), {terms}"
    )
    if best.expected.known and base.expected.known:
        real = saving_fraction(Priced(best.expected, basis), Priced(base.expected, basis))
        text += f"; at your traffic {money(best.expected.value)} against {money(base.expected.value)} ({_more_or_less(real)})"
    likely = best.probability_cheaper or best.probability_cheaper_full_load
    return f"{text}; {_likely(likely, best)}." if likely is not None and likely.known else f"{text}."


def _more_or_less(saving: float) -> str:
    return f"{abs(saving):.0%} {'less' if saving >= 0 else 'more'}"
