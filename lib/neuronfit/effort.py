"""Step 7: what does the move cost in people, and when is it paid back?

    position(m) = - person-days x day rate - candidate's bill during the trial + sum over months of (saving - upkeep) / (1 + rate)^(m / 12)
                  - a second migration, in the draws in which there is one

Each task is a triangular distribution over (low, likely, high) person-days; tasks are drawn
independently. The saving has the interval that step 6 gave it. The payback month is the first month in
which cumulative saving exceeds migration plus upkeep, so it has a distribution too. Deterministic for a given seed.
During the trial the baseline keeps running and is paid for anyway: what the trial adds is the candidate's bill for those days.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Optional

from neuronfit import draws, tasks
from neuronfit.draws import Draws
from neuronfit.params import HOURS_PER_MONTH, Effort
from neuronfit.profile import offered
from neuronfit.provenance import Estimated, Grade, Quantity, absent
from neuronfit.question import Question
from neuronfit.record import Cost, CostOfTarget, Finding, Payback, PaybackOfTarget, SecondMove, Severity, TaskOfMove
from neuronfit.units import metric

__all__ = ["DRAWS", "cumulative", "payback", "payback_months", "positions", "size"]

DRAWS = 20_000

ROUNDING = 1e-9
"""Relative. Sums of floats differ in the last digit; that must not cost a month."""


def payback(question: Question) -> Payback:
    """Set saving against spending for every candidate and admit the record."""
    plan, priced = question.params.effort, question.dossier.latest(Cost)
    costs = {row.target: row for row in priced.targets} if priced else {}
    base = costs.get(question.params.baseline.name)
    rows = tuple(_of_candidate(question, target.name, costs.get(target.name), base) for target in question.params.candidates)
    findings = []
    if not any(row.saving_per_month.known for row in rows):
        findings.append(
            Finding(
                severity=Severity.WAITING,
                code="no_saving",
                because="a saving needs monthly costs of the baseline and a candidate",
                next=f"neuronfit run {question.command_name} --steps 4-7",
            )
        )
    record = Payback(
        workload=question.ref,
        source=Estimated(
            formula="first month with cumulative saving above effort plus upkeep; triangular person-days",
            inputs={
                "effort": "declared" if "effort" in question.params.model_fields_set else "assumed",
                "saving": "estimated",
                "second migration": "declared" if plan.second_migration_probability is not None else "assumed",
            },
        ),
        findings=tuple(findings),
        bottom_line=_bottom_line(rows, plan, {row.target: row.taken_as for row in priced.targets} if priced else {}),
        horizon_months=plan.horizon_months,
        targets=rows,
    )
    return question.dossier.admit(record)


def payback_months(effort_usd: Any, net_per_month: Any, horizon: int, discount_rate: float = 0.0, later: Any = None):
    """Payback month for each drawn effort: the first at whose end the net savings have reached it;
    ``inf`` where it lies beyond the horizon.

    ``effort_usd`` is an array of USD, ``net_per_month`` the saving minus upkeep in USD a month, one number or one for each effort;
    ``later`` is what else has been spent by the end of months 1 to the horizon, an array (draws, months). Month
    0 means that there was nothing to pay back. Discounting is monthly: (1 + rate)^(-month/12).
    """
    import numpy as np

    spent = np.atleast_1d(np.asarray(effort_usd, dtype=float))
    net = np.broadcast_to(np.asarray(net_per_month, dtype=float), spent.shape)
    gains = net[:, None] * np.cumsum(_factors(horizon, discount_rate))[None, :]
    reached = gains - (0.0 if later is None else later) >= (spent * (1 - ROUNDING))[:, None]
    found = np.where(reached.any(axis=1), reached.argmax(axis=1) + 1.0, np.inf)
    return np.where(spent <= 0, np.where(net >= 0, 0.0, np.inf), found)


def positions(effort_usd: Any, net_per_month: Any, horizon: int, discount_rate: float = 0.0, later: Any = None):
    """Net position at the end of months 0..horizon for each draw, USD: an array (draws, horizon + 1); arguments as in :func:`payback_months`."""
    import numpy as np

    spent = np.atleast_1d(np.asarray(effort_usd, dtype=float))
    net = np.broadcast_to(np.asarray(net_per_month, dtype=float), spent.shape)
    gains = net[:, None] * np.cumsum(_factors(horizon, discount_rate))[None, :] - (0.0 if later is None else later)
    return np.concatenate([-spent[:, None], gains - spent[:, None]], axis=1)


def _factors(horizon: int, discount_rate: float):
    import numpy as np

    return (1 + discount_rate) ** (-np.arange(1, horizon + 1) / 12)


def cumulative(effort_usd: float, net_per_month: float, horizon: int, discount_rate: float = 0.0) -> tuple[float, ...]:
    """Net position at the end of months 0..horizon, USD: minus the effort, plus the discounted net saving. Summed in decimals."""
    position, net = -Decimal(str(effort_usd)), Decimal(str(net_per_month))
    found = [position]
    for month in range(1, horizon + 1):
        position += net * Decimal(str((1 + discount_rate) ** (-month / 12)))
        found.append(position)
    return tuple(float(value) for value in found)


@dataclass(frozen=True)
class _Spending:
    """What a move costs, drawn and likely; USD."""

    days: Quantity
    usd: Quantity
    parallel: Quantity
    drawn_usd: Any
    """work and the candidate's bill during the trial, for each draw"""
    later: Any
    """spent on a second migration by the end of months 1 to the horizon, (draws, months); ``None`` where there is none"""

    @property
    def likely_usd(self) -> float:
        return self.usd.value + (self.parallel.value if self.parallel.known else 0.0)


def _draw_days(work: tuple[TaskOfMove, ...], source: Draws):
    """Total person-days, as many as there are draws."""
    import numpy as np

    total = np.zeros(source.count)
    for place, task in enumerate(work):
        total += source.triangle(f"task {place} {task.name}", task.low, task.likely, task.high)
    return total


def _spending(
    question: Question, name: str, mine: Optional[CostOfTarget], work: tuple[TaskOfMove, ...], second: SecondMove, source: Draws
) -> _Spending:
    import numpy as np

    plan, rate = question.params.effort, question.params.effort.day_rate_usd
    days = _draw_days(work, source)
    low, likely, high = (float(value) for value in np.percentile(days, (5, 50, 95)))
    extra = tasks.parallel_days(question)[0] * 24
    if mine is None or not mine.per_month.known:
        parallel = absent("USD", "the candidate's bill is not known" if mine is None else mine.per_month.why or "the candidate's bill is not known")
    else:
        parallel = _estimate(mine.per_month.value / HOURS_PER_MONTH * extra, "USD")
    usd = days * rate
    happens = source.happens(f"second migration {name}", second.probability.value)
    later = None
    if np.any(happens):
        month = source.generator(f"month of a second migration {name}").integers(1, plan.horizon_months + 1, source.count)
        months = np.arange(1, plan.horizon_months + 1)
        amount = happens * usd * plan.second_migration_share * (1 + plan.discount_rate) ** (-month / 12)
        later = amount[:, None] * (months[None, :] >= month[:, None])
    return _Spending(
        days=_estimate(likely, "person-days", low, high),
        usd=_estimate(likely * rate, "USD", low * rate, high * rate),
        parallel=parallel,
        drawn_usd=usd + (parallel.value if parallel.known else 0.0),
        later=later,
    )


def _while_it_runs(question: Question) -> str:
    """What is spent during the trial, in words."""
    days, because = tasks.parallel_days(question)
    return f"the candidate's bill for {because}, while the baseline keeps running and is paid for anyway" if days else because


def _second_move(question: Question, name: str, work: tuple[TaskOfMove, ...]) -> SecondMove:
    plan = question.params.effort
    probability, because = tasks.second_move_probability(question, name)
    share, rate = plan.second_migration_share, plan.day_rate_usd
    low, likely, high = (sum(getattr(task, end) for task in work) * share * rate for end in ("low", "likely", "high"))
    return SecondMove(
        probability=_estimate(probability, "fraction"),
        cost=_estimate(likely, "USD", low, high),
        because=f"{because}; {share:.0%} of the first migration's effort, in a month drawn from the horizon",
    )


def _of_candidate(question: Question, name: str, mine: Optional[CostOfTarget], base: Optional[CostOfTarget]) -> PaybackOfTarget:
    import numpy as np

    plan, source = question.params.effort, Draws(DRAWS)
    work = tasks.task_list(question, name)
    second = _second_move(question, name, work)
    spending = _spending(question, name, mine, work, second, source)
    upkeep_days, upkeep_because = tasks.upkeep_days(question, name)
    upkeep = _estimate(upkeep_days * plan.day_rate_usd, "USD/month")
    common = dict(
        target=name,
        upkeep_per_month=upkeep,
        upkeep_because=upkeep_because,
        effort=spending.days,
        effort_usd=spending.usd,
        tasks=work,
        parallel=spending.parallel,
        parallel_because=_while_it_runs(question),
        second_move=second,
    )
    if mine is None or base is None or not mine.per_month.known or not base.per_month.known:
        why = next((row.per_month.why for row in (base, mine) if row and not row.per_month.known), None) or "no monthly cost is known; run step 6"
        unknown = dict(saving_per_month=absent("USD/month", why), payback_month=absent("months", why), probability=absent("fraction", why))
        return PaybackOfTarget(volume_needed=absent("ratio", why), sentence=f"{name}: {why}.", **common, **unknown)
    saving = mine.saving_per_month if mine.saving_per_month is not None and mine.saving_per_month.known else None
    saving = saving or _estimate(base.per_month.value - mine.per_month.value, "USD/month")
    drawn = source.of(f"saving {name}", saving, difference=True) - upkeep.value
    net = saving.value - upkeep.value
    shape = dict(horizon=plan.horizon_months, discount_rate=plan.discount_rate)
    months = payback_months(spending.drawn_usd, drawn, later=spending.later, **shape)
    paths = positions(spending.drawn_usd, drawn, later=spending.later, **shape)
    share = float(np.isfinite(months).mean())
    month = _month(months, plan.horizon_months)
    times = _volume_needed(saving.value, upkeep.value, spending, plan)
    likely = cumulative(spending.likely_usd, net, plan.horizon_months, plan.discount_rate)
    volume = offered(question).monthly_volume
    worth = draws.summary(likely[-1], paths[:, -1], "USD", Grade.ESTIMATED, "a second migration lies in the interval, not in the value")
    return PaybackOfTarget(
        saving_per_month=saving,
        payback_month=month,
        probability=_estimate(share, "fraction"),
        cumulative_usd=likely,
        volume_needed=times,
        volume_least=absent("1/month", times.why or "no volume is declared")
        if not times.known or volume is None
        else _estimate(times.value * volume, "1/month"),
        net_present_value=worth,
        band_usd={f"p{level}": tuple(round(float(value), 2) for value in np.percentile(paths, level, axis=0)) for level in (5, 50, 95)},
        paid_back_by=tuple(float(np.mean(months <= number)) for number in range(plan.horizon_months + 1)),
        probability_saving=_estimate(draws.chance(drawn > 0), "fraction"),
        sentence=_sentence(name, saving.value, upkeep.value, month, share, times, plan),
        **common,
    )


def _month(months: Any, horizon: int) -> Quantity:
    """The median payback month, with the 5th and 95th percentile where they lie within the horizon."""
    import numpy as np

    low, median, high = np.percentile(months, (5, 50, 95), method="inverted_cdf")
    if not np.isfinite(median):
        return absent("months", f"not within {horizon} months")
    if not np.isfinite(high):
        return Quantity(
            value=float(median), unit="months", grade=Grade.ESTIMATED, why=f"5 % of the draws by month {low:.0f}; 95 % not within {horizon} months"
        )
    return _estimate(float(median), "months", float(low), float(high))


def _volume_needed(saving: float, upkeep: float, spending: _Spending, plan: Effort) -> Quantity:
    """Times today's volume at which it would pay back at the end of the horizon, fleets growing in proportion.

    From k x saving x a = effort + k x parallel + upkeep x a with a = the sum of the discount factors, so
    k = (effort / a + upkeep) / (saving - parallel / a). The likely case, without a second migration.
    """
    if saving <= 0:
        return absent("ratio", "the candidate costs more a month, so no volume helps")
    factors = float(_factors(plan.horizon_months, plan.discount_rate).sum())
    left = saving - (spending.parallel.value if spending.parallel.known else 0.0) / factors
    if left <= 0:
        return absent("ratio", "the candidate's bill during the trial is more than the move saves over the horizon")
    return _estimate((spending.usd.value / factors + upkeep) / left, "ratio")


def _estimate(value: float, unit: str, low: Optional[float] = None, high: Optional[float] = None) -> Quantity:
    ends = {} if low is None else {"low": min(low, value), "high": max(high, value), "confidence": 0.9}
    return Quantity(value=value, unit=unit, grade=Grade.ESTIMATED, **ends)


def _sentence(name: str, saving: float, upkeep: float, month: Quantity, share: float, times: Quantity, plan: Effort) -> str:
    money, horizon = metric("usd_per_month").text, plan.horizon_months
    if saving == 0:
        return f"{name}: costs as much as the baseline, so there is no saving to pay the move back."
    if saving < 0:
        but = f" as it stands; {share:.0%} of the draws do within {horizon} months" if share >= 0.005 else ""
        return f"{name}: costs {money(-saving)} more than the baseline, so it never pays back{but}."
    start = f"{name}: saves {money(saving)} against {money(upkeep)} of upkeep"
    if month.known:
        return f"{start}; paid back in month {month.value:.0f} ({share:.0%} of the draws are within {horizon} months)."
    text = f"{start}, so it does not pay back within {horizon} months"
    text += f" ({share:.0%} of the draws do)" if share >= 0.005 else ""
    return f"{text}; it would from {metric('ratio').number(times.value)} times the volume." if times.known else f"{text}."


def _bottom_line(rows: tuple[PaybackOfTarget, ...], plan: Effort, taken_as: dict[str, Optional[str]]) -> str:
    """The answer, with what its saving takes for granted: a sentence is no stronger than its weakest number."""
    known = [row for row in rows if row.saving_per_month.known]
    if not known:
        sizes = dict.fromkeys(size(row.effort) for row in rows)
        if len(sizes) == 1:
            return f"The move takes an estimated {next(iter(sizes))}; the saving it would be set against is not known yet."
        each = "; ".join(f"to {row.target} {size(row.effort)}" for row in rows)
        return f"The move takes, estimated, {each}; the saving it would be set against is not known yet."
    paying = [row for row in known if row.payback_month.known]
    shown = min(paying, key=lambda row: row.payback_month.value) if paying else max(known, key=lambda row: row.saving_per_month.value)
    return f"The move to {shown.target} takes an estimated {size(shown.effort)}. {shown.sentence}{_taken(taken_as.get(shown.target))}"


def size(effort: Quantity) -> str:
    """Person-days with their interval, no finer than an estimate is: ``25 person-days (20 to 30)``."""
    days = metric("person_days").number
    low, value, high = (days(round(one)) if one >= 10 else days(round(one, 1)) for one in (effort.low, effort.value, effort.high))
    return f"{value} person-day{'' if value == '1' else 's'}" + (f" ({low} to {high})" if low != high else "")


def _taken(text: Optional[str]) -> str:
    return f" The saving is estimated: {text}." if text else ""
