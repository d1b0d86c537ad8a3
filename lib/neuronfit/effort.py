"""Step 7: what does the move cost in people, and when is it paid back?

Each task is a triangular distribution over (low, likely, high) person-days; tasks are drawn
independently. The payback month is the first month in which cumulative saving exceeds migration
plus upkeep, so it has a distribution too. Deterministic for a given seed.
"""

from __future__ import annotations

from typing import Optional

from neuronfit.params import Effort
from neuronfit.provenance import Estimated, Grade, Quantity, absent
from neuronfit.question import Question
from neuronfit.record import Cost, CostOfTarget, Finding, Payback, PaybackOfTarget, Severity
from neuronfit.units import metric

__all__ = ["DRAWS", "cumulative", "payback", "payback_months"]

DRAWS = 10_000
SEED = 20261130

ROUNDING = 1e-9
"""Relative. Sums of floats differ in the last digit; that must not cost a month."""


def payback(question: Question) -> Payback:
    """Set saving against spending for every candidate and admit the record."""
    plan, priced = question.params.effort, question.dossier.latest(Cost)
    costs = {row.target: row for row in priced.targets} if priced else {}
    base = costs.get(question.params.baseline.name)
    rows = tuple(_of_candidate(target.name, costs.get(target.name), base, plan) for target in question.params.candidates)
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
            inputs={"effort": "declared" if "effort" in question.params.model_fields_set else "assumed", "saving": "estimated"},
        ),
        findings=tuple(findings),
        bottom_line=_bottom_line(rows, plan),
        horizon_months=plan.horizon_months,
        targets=rows,
    )
    return question.dossier.admit(record)


def payback_months(effort_usd, net_per_month: float, horizon: int, discount_rate: float = 0.0):
    """Payback month for each drawn effort: the first at whose end the net savings have reached it;
    ``inf`` where it lies beyond the horizon.

    ``effort_usd`` is an array of USD, ``net_per_month`` the saving minus upkeep in USD a month. Month
    0 means that there was nothing to pay back. Discounting is monthly: (1 + rate)^(-month/12).
    """
    import numpy as np

    months = np.arange(1, horizon + 1)
    gains = np.cumsum(net_per_month * (1 + discount_rate) ** (-months / 12))
    spent = np.asarray(effort_usd, dtype=float)
    if net_per_month <= 0:
        return np.where(spent <= 0, 0.0 if net_per_month == 0 else np.inf, np.inf)
    found = np.searchsorted(gains, spent * (1 - ROUNDING), side="left") + 1.0
    return np.where(spent <= 0, 0.0, np.where(found > horizon, np.inf, found))


def cumulative(effort_usd: float, net_per_month: float, horizon: int, discount_rate: float = 0.0) -> tuple[float, ...]:
    """Net position at the end of months 0..horizon, USD: minus the effort, plus the discounted net saving."""
    position, positions = -effort_usd, [-effort_usd]
    for month in range(1, horizon + 1):
        position += net_per_month * (1 + discount_rate) ** (-month / 12)
        positions.append(position)
    return tuple(positions)


def _draw_days(plan: Effort):
    """Total person-days, ``DRAWS`` of them."""
    import numpy as np

    random = np.random.default_rng(SEED)
    total = np.zeros(DRAWS)
    for task in plan.tasks:
        fixed = task.low == task.high
        total += task.likely if fixed else random.triangular(task.low, task.likely, task.high, DRAWS)
    return total


def _of_candidate(name: str, mine: Optional[CostOfTarget], base: Optional[CostOfTarget], plan: Effort) -> PaybackOfTarget:
    import numpy as np

    days = _draw_days(plan)
    low, likely, high = (float(value) for value in np.percentile(days, (5, 50, 95)))
    effort = _estimate(likely, "person-days", low, high)
    rate = plan.day_rate_usd
    effort_usd = _estimate(likely * rate, "USD", low * rate, high * rate)
    upkeep = _estimate(plan.upkeep_days_per_month * rate, "USD/month")
    if mine is None or base is None or not mine.per_month.known or not base.per_month.known:
        why = next((row.per_month.why for row in (base, mine) if row and not row.per_month.known), None) or "no monthly cost is known; run step 6"
        unknown = dict(saving_per_month=absent("USD/month", why), payback_month=absent("months", why), probability=absent("fraction", why))
        return PaybackOfTarget(
            target=name,
            upkeep_per_month=upkeep,
            effort=effort,
            effort_usd=effort_usd,
            volume_needed=absent("ratio", why),
            sentence=f"{name}: {why}.",
            **unknown,
        )
    saving = base.per_month.value - mine.per_month.value
    net = saving - upkeep.value
    months = payback_months(days * rate, net, plan.horizon_months, plan.discount_rate)
    share = float(np.isfinite(months).mean())
    median = float(np.median(months))
    within = np.isfinite(median)
    month = _estimate(median, "months") if within else absent("months", f"not within {plan.horizon_months} months")
    times = _volume_needed(saving, upkeep.value, effort_usd.value, plan)
    return PaybackOfTarget(
        target=name,
        saving_per_month=_estimate(saving, "USD/month"),
        upkeep_per_month=upkeep,
        effort=effort,
        effort_usd=effort_usd,
        payback_month=month,
        probability=_estimate(share, "fraction"),
        cumulative_usd=cumulative(effort_usd.value, net, plan.horizon_months, plan.discount_rate),
        volume_needed=times,
        sentence=_sentence(name, saving, upkeep.value, month, share, times, plan),
    )


def _volume_needed(saving: float, upkeep: float, effort_usd: float, plan: Effort) -> Quantity:
    """Times today's volume at which it would pay back at the end of the horizon, fleets growing in proportion.

    From k x saving x a = effort + upkeep x a with a = the sum of the discount factors, so
    k = (effort / a + upkeep) / saving.
    """
    if saving <= 0:
        return absent("ratio", "the candidate costs more a month, so no volume helps")
    factors = sum((1 + plan.discount_rate) ** (-month / 12) for month in range(1, plan.horizon_months + 1))
    return _estimate((effort_usd / factors + upkeep) / saving, "ratio")


def _estimate(value: float, unit: str, low: Optional[float] = None, high: Optional[float] = None) -> Quantity:
    ends = {} if low is None else {"low": min(low, value), "high": max(high, value), "confidence": 0.9}
    return Quantity(value=value, unit=unit, grade=Grade.ESTIMATED, **ends)


def _sentence(name: str, saving: float, upkeep: float, month: Quantity, share: float, times: Quantity, plan: Effort) -> str:
    money = metric("usd_per_month").text
    if saving == 0:
        return f"{name}: costs as much as the baseline, so there is no saving to pay the move back."
    if saving <= 0:
        return f"{name}: costs {money(-saving)} more than the baseline, so it never pays back."
    start = f"{name}: saves {money(saving)} against {money(upkeep)} of upkeep"
    if not month.known:
        return f"{start}, so it does not pay back within {plan.horizon_months} months; it would from {metric('ratio').number(times.value)} times the volume."
    return f"{start}; paid back in month {month.value:.0f} ({share:.0%} of the drawn efforts are within {plan.horizon_months} months)."


def _bottom_line(rows: tuple[PaybackOfTarget, ...], plan: Effort) -> str:
    effort = rows[0].effort
    size = f"{effort.value:.0f} person-days ({effort.low:.0f} to {effort.high:.0f})"
    known = [row for row in rows if row.saving_per_month.known]
    if not known:
        return f"The move takes about {size}; the saving it would be set against is not known yet."
    paying = [row for row in known if row.payback_month.known]
    if paying:
        first = min(paying, key=lambda row: row.payback_month.value)
        return f"The move takes about {size}. {first.sentence}"
    best = max(known, key=lambda row: row.saving_per_month.value)
    return f"The move takes about {size}. {best.sentence}"
