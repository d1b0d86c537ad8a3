"""Step 0: should it move? Nine gates in order; the verdict follows from the first one not passed.

    fits -> compiles -> comparable -> parity -> objective -> busy -> cheaper -> pays back -> trial

=================  ==========================================================================
first not passed   verdict
=================  ==========================================================================
fits, compiles     ``stay`` when they fail; ``gather_evidence`` while they are open
comparable         ``gather_evidence``: the figures must not be set against each other
objective          ``stay`` when missed; ``gather_evidence`` while open
busy               ``right_size_first``: idle money is saved without a migration
cheaper, pays back ``stay`` when they fail; ``gather_evidence`` while open
parity, trial      ``stay`` when they fail; ``pilot`` while open: users have not been asked
none               ``migrate``
=================  ==========================================================================

Ceiling: with published or estimated performance on either side the verdict is at most ``pilot``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Optional

from neuronfit import parity
from neuronfit.compare import doubts, objective_checks
from neuronfit.compatibility import NOT_NAMED
from neuronfit.cost import Basis, Priced, leading, listed, of_draws, saving_fraction, speaks_against, usd_per_million
from neuronfit.effort import size
from neuronfit.profile import describe
from neuronfit.provenance import Estimated, Grade, Quantity, weakest
from neuronfit.question import Question
from neuronfit.record import (
    Comparison,
    Compatibility,
    CompatibilityOfTarget,
    Compile,
    Cost,
    CostOfTarget,
    Decision,
    Finding,
    Gate,
    Measurement,
    NextMeasurement,
    Payback,
    Profile,
    Severity,
    Trial,
    TrialPlan,
    Utilization,
)
from neuronfit.targets import MEASURED_HERE, THIS_HOST
from neuronfit.units import metric, spoken
from neuronfit.utilization import headline

__all__ = ["GATES", "HEADLINES", "decide", "deciding", "verdict"]

GATES = ("fits", "compiles", "comparable", "parity", "objective", "busy", "cheaper", "pays back", "trial")

HEADLINES = {
    "migrate": "Move it.",
    "pilot": "Worth a pilot.",
    "right_size_first": "Right-size first.",
    "stay": "Stay where you are.",
    "gather_evidence": "Measure before you decide.",
}

SETUP_MIN = 10.0
"""Minutes to start an instance and install, before a measurement begins. Our assumption."""

_WHEN_FAILED = {"busy": "right_size_first", "comparable": "gather_evidence", "parity": "stay", "trial": "stay"}
_WHEN_OPEN = ("parity", "trial")
"""Gates that allow a pilot while they are open; any other open gate asks for evidence."""


def decide(question: Question) -> Decision:
    """Walk the gates for the leading candidate and admit the decision.

    Opened first, on an empty dossier, it describes the question itself (step 1), so that there is a
    report that says what has not been run yet.
    """
    if question.dossier.latest(Profile) is None:
        describe(question)
    evidence = _Evidence(question)
    gates = evidence.gates()
    performance = evidence.performance_grade()
    answer = verdict(gates, performance)
    next_measurement = _next_measurement(question, evidence, gates, answer)
    record = Decision(
        workload=question.ref,
        source=Estimated(
            formula="nine gates in order; the first one not passed decides",
            inputs={gate.name: str(gate.grade) if gate.grade else "absent" for gate in gates},
        ),
        findings=tuple(_findings(question, evidence)),
        verdict=answer,
        headline=HEADLINES[answer],
        sentence=evidence.sentence(answer, gates),
        reasons=tuple(evidence.reasons()),
        candidate=evidence.name,
        gates=gates,
        weakest_grade=evidence.weakest_grade(),
        next_measurement=next_measurement,
    )
    return question.dossier.admit(record)


def verdict(gates: Sequence[Gate], performance: Optional[Grade]) -> str:
    """The verdict of the table above, short enough to read aloud.

    ``performance`` is the weakest grade among the throughputs of both sides, ``None`` if one is absent.
    A gate that is not given is open.
    """
    gate = deciding(gates)
    if gate is not None and gate.status == "fail":
        return _WHEN_FAILED.get(gate.name, "stay")
    if gate is not None and gate.name not in _WHEN_OPEN:
        return "gather_evidence"
    if performance is None:
        return "gather_evidence"
    if gate is not None or performance.rank > Grade.IMPORTED.rank:
        return "pilot"
    return "migrate"


def deciding(gates: Sequence[Gate]) -> Optional[Gate]:
    """The gate that the verdict follows from, or ``None`` when all nine are passed.

    An open parity or trial gate does not hide what a later gate says: a candidate that is dearer is
    not piloted just because its answers were not compared yet.
    """
    given = {gate.name: gate for gate in gates}
    stops = [gate for name in GATES if (gate := given.get(name) or Gate(name=name, **_open("it was not looked at"))).status != "pass"]
    hard = (gate for gate in stops if gate.status == "fail" or gate.name not in _WHEN_OPEN)
    return next(hard, stops[0] if stops else None)


class _Evidence:
    """What the dossier holds about the leading candidate (:func:`neuronfit.cost.leading`)."""

    def __init__(self, question: Question):
        dossier = question.dossier
        self.question = question
        self.compatibility = dossier.latest(Compatibility)
        self.compile = dossier.latest(Compile)
        self.comparison = dossier.latest(Comparison)
        self.utilization = dossier.latest(Utilization)
        self.cost = dossier.latest(Cost)
        self.payback = dossier.latest(Payback)
        self.plan = dossier.latest(TrialPlan)
        self.trial = dossier.latest(Trial)
        self.base = question.params.baseline
        self.name = leading(question)
        self.parity = parity.latest(question, self.name)
        self.pairs = {entry.mode: entry for entry in self.comparison.pairs if entry.candidate == self.name} if self.comparison else {}

    # -- look-ups

    def path_of(self, name: str) -> Optional[CompatibilityOfTarget]:
        rows = self.compatibility.targets if self.compatibility else ()
        return next((row for row in rows if row.target == name), None)

    def cost_of(self, name: str) -> Optional[CostOfTarget]:
        return next((row for row in self.cost.targets if row.target == name), None) if self.cost else None

    def figure(self, name: str) -> Optional[Measurement]:
        return headline(self.question, self.comparison, name)

    def busy_of(self, name: str):
        return next((row for row in self.utilization.targets if row.target == name), None) if self.utilization else None

    def payback_of(self, name: str):
        return next((row for row in self.payback.targets if row.target == name), None) if self.payback else None

    def blockers(self) -> list[Finding]:
        """Blocker findings of step 2 about the model itself or the leading candidate."""
        found = self.compatibility.findings if self.compatibility else ()
        return [finding for finding in found if finding.severity is Severity.BLOCKER and finding.target in (None, self.name)]

    def unnamed(self) -> Optional[str]:
        """That no page names this kind of model on the leading candidate's software path, in words; ``None`` where nothing says so."""
        row, words = self.path_of(self.name), {code.replace("_", " ") for code in NOT_NAMED}
        found = [*(self.compatibility.findings if self.compatibility else ()), *(row.findings if row else ())]
        traps = {finding.because.partition(":")[0] for finding in found if finding.code == "known_trap" and finding.target == self.name}
        if row is None or not traps & words:
            return None
        if "encoder decoder not served" in traps:
            return f"no page says that {row.title} serves encoder-decoder models"
        return f"no page of {row.title} names this kind of model"

    def unlike(self) -> bool:
        """Step 4 does not let the figures of the leading candidate be compared with the baseline's."""
        return any(entry.verdict == "not_comparable" for entry in self.pairs.values())

    def taken_with(self) -> str:
        """The software of the candidate's figure, as far as it is stated."""
        figure = self.figure(self.name)
        return (figure.settings.software or figure.settings.route or "software that is not stated") if figure else ""

    def idles(self, name: str) -> bool:
        """The figure leaves most of its instance idle, so break-even values against it mean little."""
        figure = self.figure(name)
        return figure is not None and any(finding.code == "few_cores_busy" for finding in figure.findings)

    def performance_grade(self) -> Optional[Grade]:
        figures = [self.figure(name) for name in (self.base.name, self.name)]
        return weakest(*figures) if all(figures) else None

    def weakest_grade(self) -> Optional[Grade]:
        """Of everything the conclusion leans on; ``None`` when it leans on no number at all."""
        parts = [self.figure(self.base.name), self.figure(self.name)]
        parts += [row.full_load for name in (self.base.name, self.name) if (row := self.cost_of(name))]
        parts += [row.busy_mean for name in (self.base.name, self.name) if (row := self.busy_of(name))]
        graded = [part for part in parts if part is not None and part.grade is not None]
        return weakest(*graded) if graded else None

    def savings(self) -> dict[str, float]:
        """Fractions saved against the baseline on one basis: matched and best figures, and at the traffic.

        Nothing where the two sides count different results."""
        mine, theirs = self.cost_of(self.name), self.cost_of(self.base.name)
        if self.cost is None or mine is None or theirs is None or not mine.price.known or not theirs.price.known:
            return {}
        if mine.full_load.known and theirs.full_load.known and mine.result_unit != theirs.result_unit:
            return {}
        basis = Basis(self.cost.region, self.cost.purchase_option)
        found = {}
        for mode, entry in self.pairs.items():
            if entry.throughput.known:
                found[mode] = 1 - (mine.price.value / theirs.price.value) / entry.throughput.value
        if mine.expected.known and theirs.expected.known:
            found["traffic"] = saving_fraction(Priced(mine.expected, basis), Priced(theirs.expected, basis))
        return found

    # -- gates

    def gates(self) -> tuple[Gate, ...]:
        steps = (self._fits, self._compiles, self._comparable, self._parity, self._objective, self._busy, self._cheaper, self._pays_back, self._trial)
        return tuple(Gate(name=name, **step()) for name, step in zip(GATES, steps))

    def _fits(self) -> dict:
        row = self.path_of(self.name)
        if row is None:
            return _open("step 2 has not been run")
        says = dict(grade=Grade.ESTIMATED, record=self.compatibility.id)
        if row.fits is None or not row.memory_needed.known or not row.memory_available.known:
            return dict(
                status="open", because=row.memory_available.why or row.memory_needed.why or "memory is not known", record=self.compatibility.id
            )
        text = metric("memory_bytes").text
        because = f"{text(row.memory_needed.value)} of {text(row.memory_available.value)} {'host' if self.question.target(self.name).path == 'cpu' else 'accelerator'} memory"
        return dict(status="pass" if row.fits else "fail", because=because, **says)

    def _compiles(self) -> dict:
        row = self.path_of(self.name)
        built = self.compile.row(self.name) if self.compile else None
        if built and built.status in ("compiled", "failed"):
            status = "pass" if built.status == "compiled" else "fail"
            return dict(status=status, because=built.because, grade=built.grade, record=built.record)
        if built and built.status == "not_needed" and self.question.target(self.name).path == "cpu":
            return dict(status="pass", because=built.because, grade=self.compile.grade, record=self.compile.id)
        if row is not None and row.supported is False:
            return dict(status="fail", because=f"{row.title}: {row.status}", grade=Grade.PUBLISHED, record=self.compatibility.id)
        blockers = self.blockers()
        if blockers:
            return dict(status="fail", because=blockers[0].because, grade=Grade.PUBLISHED, record=self.compatibility.id)
        figure = self.figure(self.name)
        if figure is not None:
            because = f"not compiled here; a {figure.grade} figure says that this model runs there"
            if self.unnamed():
                because += f" with {self.taken_with()}; {self.unnamed()}"
            return dict(
                status="pass",
                because=because,
                grade=figure.grade,
                record=figure.id,
            )
        return _open("no documented blocker found, and not compiled yet", self.compile.id if self.compile else None)

    def _comparable(self) -> dict:
        entry = self.pairs.get("matched") or self.pairs.get("best")
        if entry is None:
            sides = (self.base.name, self.name)
            invalid = any(row.valid is False for name in sides if self.figure(name) is None for row in self.question.dossier.measurements(name))
            why = "one side was measured, and no measurement of it is VALID" if invalid else "one side has no figure"
            return _open(why, self.comparison.id if self.comparison else None)
        if entry.verdict == "not_comparable":
            names = listed([part.setting for part in entry.differences if part.matters])
            return dict(status="fail", because=f"{names} differ", grade=entry.throughput.grade, record=self.comparison.id)
        return dict(status="pass", because="taken alike", grade=entry.throughput.grade, record=self.comparison.id)

    def _parity(self) -> dict:
        """Numerical parity alone (random weights) shows that the hardware computes right, not that the answers are as good."""
        found = self.parity
        if found is None:
            return _open("no outputs have been compared yet")
        says = dict(because=found.bottom_line.rstrip("."), grade=found.grade, record=found.id)
        if found.verdict == "pass" and (found.level == "numerical" or found.grade.rank > Grade.IMPORTED.rank):
            return dict(status="open", **says)
        return dict(status={"pass": "pass", "fail": "fail"}.get(found.verdict, "open"), **says)

    def _objective(self) -> dict:
        figure, objective = self.figure(self.name), self.question.params.objective
        if figure is None:
            return _open("no latency is known")
        checks = objective_checks(figure, objective)
        if not checks:
            return _open("no latency objective is declared", figure.id)
        worst = min(checks, key=lambda check: (False, None, True).index(check.kept))
        status = {True: "pass", False: "fail", None: "open"}[worst.kept]
        because = f"{figure.grade} {worst.because}, before queueing" if worst.kept is not None else worst.because
        return dict(status=status, because=because, grade=figure.grade, record=figure.id)

    def _busy(self) -> dict:
        row = self.busy_of(self.name)
        if row is None or not row.busy_mean.known:
            return _open((row.busy_mean.why if row else None) or "step 5 has not been run")
        needed = self.question.params.policy.min_utilization
        share = row.busy_mean.value
        because = f"{share:.0%} busy on average, {needed:.0%} wanted"
        return dict(status="pass" if share >= needed else "fail", because=because, grade=row.busy_mean.grade, record=self.utilization.id)

    def _cheaper(self) -> dict:
        savings = self.savings()
        if not savings:
            return _open("no cost on both sides", self.cost.id if self.cost else None)
        margin = self.question.params.policy.margin
        least, most = self._savings_at_the_ends(savings)
        names = {"matched": "at the same batch", "best": "each at its best", "traffic": "at your traffic"}
        because = "; ".join(f"{abs(value):.0%} {'less' if value >= 0 else 'more'} {names[mode]}" for mode, value in savings.items())
        status = "pass" if least > margin else "fail" if most <= margin else "open"
        if status == "open":
            because += f"; the interval of the ratio leaves it open ({least:.0%} to {most:.0%} saved)"
        return dict(status=status, because=because + self._how_likely(), grade=self.weakest_grade(), record=self.cost.id)

    def _how_likely(self) -> str:
        """The probability that the candidate is the cheaper one, and the interval of the saving where it reaches from loss to gain."""
        row = self.cost_of(self.name)
        known = [
            f"in {of_draws(share)} of the draws {where}"
            for where, found in (("at full load", row.probability_cheaper_full_load), ("at your traffic", row.probability_cheaper))
            if found is not None and (share := found.value) is not None
        ]
        face = "figures at face value, " if "face value" in (row.taken_as or "") else ""
        taken = f" ({face}doubts as in step 6)" if row.taken_as else ""
        text = f"; estimated, it is the cheaper one {listed(known)}{taken}" if known else ""
        saving, money = row.saving_per_month, metric("usd_per_month").text
        if saving is not None and saving.low is not None and saving.low < 0 < saving.high:
            text += f"; the saving may be anything from {money(saving.low)} to {money(saving.high)}"
        return text

    def _savings_at_the_ends(self, savings: dict[str, float]) -> tuple[float, float]:
        """The least saving over all modes, at the unfavourable and at the favourable end of the ratio's interval."""
        ends = {mode: (value, value) for mode, value in savings.items()}
        for mode, entry in self.pairs.items():
            ratio = entry.throughput
            if mode in ends and ratio.low is not None:
                ends[mode] = tuple(1 - (1 - savings[mode]) * ratio.value / end for end in (ratio.low, ratio.high))
        return min(low for low, _ in ends.values()), min(high for _, high in ends.values())

    def _pays_back(self) -> dict:
        row = self.payback_of(self.name)
        if row is None or not row.saving_per_month.known:
            return _open((row.saving_per_month.why if row else None) or "step 7 has not been run")
        if row.payback_month.known:
            return dict(status="pass", because=f"in month {row.payback_month.value:.0f}", grade=Grade.ESTIMATED, record=self.payback.id)
        return dict(status="fail", because=row.payback_month.why, grade=Grade.ESTIMATED, record=self.payback.id)

    def _trial(self) -> dict:
        if self.plan is None:
            return _open("step 8 has not been run")
        if self.plan.candidate != self.name:
            return _open(f"the plan is about {self.plan.candidate}, not about {self.name}", self.plan.id)
        if self.trial is None or self.trial.candidate != self.name:
            return _open("planned, not run", self.plan.id)
        if not self.trial.valid or self.trial.plan != self.plan.id:
            return _open(f"the test was run under another plan ({self.trial.plan}) than the present one", self.trial.id)
        status = {"passed": "pass", "failed": "fail", "aborted": "fail"}.get(self.trial.status, "open")
        return dict(status=status, because=self.trial.bottom_line, grade=self.trial.grade, record=self.trial.id)

    # -- sentences

    def sentence(self, answer: str, gates: Sequence[Gate]) -> str:
        mine, theirs = self.cost_of(self.name), self.cost_of(self.base.name)
        first = deciding(gates)
        stop = f"It stops at the gate \u201c{first.name}\u201d: {first.because}." if first else "Every gate is passed."
        if first is None and answer == "pilot":
            stop += f" {str(self.performance_grade()).capitalize()} figures carry no further than a pilot."
        if mine is None or theirs is None or not mine.full_load.known or not theirs.full_load.known:
            return f"{self._without_both_costs(mine, theirs)} {stop}"
        if mine.result_unit != theirs.result_unit:
            return f"{mine.instance_type} is known by {mine.result_unit}s, {theirs.instance_type} by {theirs.result_unit}s: their costs cannot be set side by side. {stop}"
        money, savings = metric("usd_per_million").text, self.savings()
        grade, their_cost = self.performance_grade(), self._baseline_cost(theirs)
        unit = "tokens" if mine.result_unit == "token" else "requests"
        saved = savings.get("matched", savings.get("best", 1 - mine.full_load.value / theirs.full_load.value))
        change = f"{abs(saved):.0%} {'less' if saved >= 0 else 'more'}"
        if first and first.name == "comparable":
            doubted = next((finding for row in (self.figure(self.base.name), self.figure(self.name)) for finding in doubts(row)), None)
            doubt = f" The figure of {doubted.target} is doubtful: {doubted.because}." if doubted else ""
            return (
                f"Taken at face value, {grade} figures give {money(mine.full_load.value)} for a million {unit} on {mine.instance_type} at full load, "
                f"{change} than the {money(their_cost)} on {theirs.instance_type}. But they were not taken alike: {first.because}.{doubt}"
            )
        return (
            f"On {grade} figures {mine.instance_type} would answer a million {unit} for {money(mine.full_load.value)}, "
            f"{change} than {theirs.instance_type}\u2019s {money(their_cost)} at full load. {stop}"
        )

    def _without_both_costs(self, mine: Optional[CostOfTarget], theirs: Optional[CostOfTarget]) -> str:
        """What can be said while a cost is missing on one side or on both."""
        if mine is not None and mine.full_load.known and theirs is not None:
            unit = "tokens" if mine.result_unit == "token" else "requests"
            cost, grade = metric("usd_per_million").text(mine.full_load.value), mine.full_load.grade
            text = f"A million {unit} would cost {cost} on {mine.instance_type} at full load ({grade}"
            text += "; most of the instance idles, so this is an upper bound)" if self.idles(self.name) else ")"
            text += f", but {theirs.instance_type} has no figure to set it against."
            return f"{text} That figure was taken with {self.taken_with()}; {self.unnamed()}." if self.unnamed() else text
        base, candidate = self.base.instance_type, self.question.target(self.name).instance_type
        if base == candidate:  # one type on two paths, or in two precisions
            if base == THIS_HOST:
                return f"{self.base.name} and {self.name} run on the machine at hand, which has no price: only speed and answers are compared."
            base, candidate = f"{self.base.name} ({base})", f"{self.name} ({candidate})"
        return f"{base} and {candidate} have no costs to set side by side yet."

    def _partner(self) -> Optional[Measurement]:
        """The baseline's figure that the leading candidate is set against."""
        entry = self.pairs.get("matched") or self.pairs.get("best")
        return self.question.dossier.get(entry.baseline_record) if entry else self.figure(self.base.name)  # type: ignore[return-value]

    def _baseline_cost(self, row: CostOfTarget) -> float:
        """USD per million on the baseline, by the figure that the saving is computed with."""
        partner = self._partner()
        return usd_per_million(row.price.value, partner.quantity("throughput_per_s").value) if partner else row.full_load.value

    def reasons(self) -> list[str]:
        lines = [
            self._reason_fits(),
            self._reason_objective(),
            self._reason_figures(),
            self._reason_best(),
            self._reason_traffic(),
            self._reason_break_even(),
        ]
        lines.append(self._reason_payback())
        lines += self._reasons_others()
        return [line for line in lines if line]

    def _reason_fits(self) -> Optional[str]:
        row = self.path_of(self.name)
        if row is None or row.fits is None:
            return None
        text = metric("memory_bytes").text
        room = f"an estimated {text(row.memory_needed.value)} of {text(row.memory_available.value)} on {spoken_host(row.instance_type)}"
        start = f"It fits ({room})" if row.fits else f"It does not fit ({room})"
        blockers = "a documented blocker was found" if self.blockers() else "no documented blocker was found"
        unnamed = f"; {self.unnamed()}" if self.unnamed() else ""
        horizon = f" Software path: {row.title}, {row.status}{unnamed}." if row.supported else ""
        return f"{start}, and {blockers}.{horizon}"

    def _reason_objective(self) -> Optional[str]:
        """Only where the promise is broken: a cost of results that come too late must not stand without it."""
        found = self._objective()
        return f"{self.name} misses the latency objective: {found['because']}." if found["status"] == "fail" else None

    def _reason_figures(self) -> Optional[str]:
        entry = self.pairs.get("matched") or self.pairs.get("best")
        if entry is None:
            return None
        parts = [f"{part.setting} ({spoken(part.baseline)}, against {spoken(part.candidate)})" for part in entry.differences if part.matters]
        if not parts:
            return entry.sentence
        return f"The figures differ in {'; '.join(parts)}."

    def _reason_best(self) -> Optional[str]:
        savings = self.savings()
        if "best" not in savings or "matched" not in savings or abs(savings["best"] - savings["matched"]) < 0.005:
            return None
        entry = self.pairs["best"]
        base = self.question.dossier.get(entry.baseline_record)
        price = self.cost_of(self.base.name).price
        rate = base.quantity("throughput_per_s")
        cost = 1e6 * price.value / (rate.value * 3600)
        at_best, at_same = (f"{abs(savings[mode]):.0%} {'less' if savings[mode] >= 0 else 'more'}" for mode in ("best", "matched"))
        return (
            f"At its own best batch ({base.settings.batch_size}) {self.base.name} answers {metric('throughput_per_s').text(rate.value)} for "
            f"{metric('usd_per_million').text(cost)} per million: against that {self.name} costs {at_best}, not {at_same}."
        )

    def _reason_traffic(self) -> Optional[str]:
        mine, theirs = self.busy_of(self.name), self.busy_of(self.base.name)
        if mine is None or theirs is None or not mine.busy_mean.known or not theirs.busy_mean.known:
            return None
        text = f"Estimated for your traffic: {self.base.name} would be {theirs.busy_mean.value:.0%} busy on average and {self.name} {mine.busy_mean.value:.0%}"
        saving = self.savings().get("traffic")
        if saving is None:
            return f"{text}."
        fleets = {theirs.instances.value, mine.instances.value}
        fleet = (
            "one instance each covers the peak"
            if fleets == {1}
            else f"the peak needs {theirs.instances.value:.0f} of {self.base.name} and {mine.instances.value:.0f} of {self.name}"
        )
        so = f"so {self.name} would cost {abs(saving):.0%} {'less' if saving >= 0 else 'more'}"
        return f"{text}; {fleet}, {so}{', were the figures comparable' if self.unlike() else ''}."

    def _reason_break_even(self) -> Optional[str]:
        row, figure = self.cost_of(self.name), self._partner()
        if row is None or not row.break_even_throughput.known or figure is None or self.idles(self.name):
            return None
        rate = metric("throughput_per_s").text
        known = figure.quantity("throughput_per_s")
        return (
            f"Break-even at full load: {self.base.name} is the cheaper one if it answers more than {rate(row.break_even_throughput.value)}; "
            f"the {figure.grade} figure at batch {figure.settings.batch_size} is {rate(known.value)}."
        )

    def _reason_payback(self) -> Optional[str]:
        """What the move costs in people beside what it saves, so that no saving on the first screen stands without it."""
        row = self.payback_of(self.name)
        if row is None or not row.effort.known:
            return None
        start = f"Moving takes an estimated {size(row.effort)}"
        if not row.saving_per_month.known:
            return f"{start}; what it would save is not known yet."
        said = row.sentence.removeprefix(f"{row.target}: ")
        return f"{start}. {'At face value, with figures that are not comparable' if self.unlike() else 'Estimated'}, {row.target} {said}"

    def _reasons_others(self) -> list[str]:
        lines, theirs = [], self.cost_of(self.base.name)
        for target in self.question.params.candidates:
            row = self.cost_of(target.name)
            if target.name == self.name or row is None:
                continue
            against = speaks_against(self.question, target.name)
            if against is not None:
                lines.append(f"{target.name} is out: {against}.")
            elif row.full_load.known and theirs is not None and theirs.full_load.known:
                pair = next((p for p in self.comparison.pairs if p.candidate == target.name and p.mode == "matched" and p.throughput.known), None)
                saved = (
                    1 - (row.price.value / theirs.price.value) / pair.throughput.value if pair else 1 - row.full_load.value / theirs.full_load.value
                )
                money = metric("usd_per_million").text
                unlike = any(p.candidate == target.name and p.verdict == "not_comparable" for p in self.comparison.pairs)
                at = f"at the same batch ({self.question.dossier.get(pair.candidate_record).settings.batch_size})" if pair else "at full load"
                lines.append(
                    f"{target.name} ({target.instance_type}): {money(row.full_load.value)} per million ({row.full_load.grade}{', not comparable' if unlike else ''}), {abs(saved):.0%} "
                    f"{'less' if saved >= 0 else 'more'} than {self.base.name}’s {money(row.full_load.value / (1 - saved))} {at}."
                )
            elif not row.full_load.known:
                lines.append(f"{target.name} ({target.instance_type}): {row.full_load.why}.")
        return lines


def spoken_host(instance_type: str) -> str:
    return "this host" if instance_type == THIS_HOST else instance_type


def _open(because: str, record: Optional[str] = None) -> dict:
    return dict(status="open", because=because, record=record)


# -- what to measure next ---------------------------------------------------------------------


def _next_measurement(question: Question, evidence: _Evidence, gates: Sequence[Gate], answer: str) -> Optional[NextMeasurement]:
    """The cheapest measurement that could change the verdict: the baseline first, it needs no new hardware.

    ``None`` where none could: a candidate that does not fit or does not compile stays out, however fast.
    """
    if any(gate.status == "fail" and gate.name in ("fits", "compiles") for gate in gates):
        return None
    for name in (evidence.base.name, evidence.name):
        figure = evidence.figure(name)
        if figure is None or figure.grade.rank > Grade.IMPORTED.rank:
            return _measure(question, evidence, name)
    parity_open = any(gate.name == "parity" and gate.status == "open" for gate in gates)
    if answer == "pilot" and parity_open and question.target(evidence.name).path in MEASURED_HERE:
        numerical = evidence.parity is not None and evidence.parity.level == "numerical"
        why = "with real weights; so far they are random" if numerical else "on the same inputs and weights, before production is asked"
        (place, first), *then = parity.steps(question, evidence.name)
        then_say = "".join(f" Then {there}: {what}." for there, what in then)
        return NextMeasurement(
            target=evidence.name,
            why=f"Both sides are measured. Compare their answers {why}.{then_say}",
            command=first,
            host="this host" if place == "here" else f"one {question.params.baseline.instance_type}",
        )
    if answer in ("pilot", "migrate"):
        return NextMeasurement(
            target=evidence.name,
            why="Both sides are measured; production has to agree. Run the controlled test of step 8.",
            command=f"neuronfit run {question.command_name} --steps 8",
            host="any host that reaches both endpoints",
        )
    stops = deciding(gates)
    if (
        stops is not None
        and stops.name == "busy"
        and stops.status == "fail"
        and question.params.traffic is not None
        and not question.params.traffic.trace
    ):
        return NextMeasurement(
            target=evidence.base.name,
            why=f"The verdict rests on the traffic as declared ({stops.because}). Count what really arrives, from an access log or a monitor's file, "
            "and put the section that this prints into the params file.",
            command="neuronfit traffic FILE",
            host="any host that holds the log",
        )
    return None


def _measure(question: Question, evidence: _Evidence, name: str) -> NextMeasurement:
    target, policy = question.target(name), question.params.policy
    shapes = len(question.params.workload.shapes)
    minutes = SETUP_MIN + shapes * policy.budget_s * 1.5 / 60
    row = evidence.cost_of(name)
    usd = None
    if row is not None and row.price.known:
        usd = Quantity(
            value=row.price.value * minutes / 60,
            unit="USD",
            grade=Grade.ESTIMATED,
            why=f"{minutes:.0f} minutes, of which {SETUP_MIN:.0f} to set up (our assumption)",
        )
    leading = evidence.cost_of(evidence.name)
    if name == evidence.base.name:
        why = f"The hardware you already run: {target.instance_type}."
        if leading is not None and leading.break_even_throughput.known and not evidence.idles(evidence.name):
            rate = metric("throughput_per_s").text(leading.break_even_throughput.value)
            why += f" If it answers more than {rate}, it is the cheaper one and the question is settled without renting Neuron hardware."
        else:
            why += " Its figure is what every candidate is set against, and it needs no new hardware."
    else:
        why = f"The leading candidate, {target.instance_type}: the baseline is measured, this side rests on weaker evidence."
    return NextMeasurement(
        target=name,
        why=why,
        command=f"neuronfit measure {question.command_name} --target {name}",
        host="this host" if target.instance_type == THIS_HOST else f"one {target.instance_type}",
        minutes=minutes,
        usd=usd,
    )


def _findings(question: Question, evidence: _Evidence) -> list[Finding]:
    """Warnings and blockers of all steps about the leading pair, so that the first page has them."""
    shown = []
    for record in (evidence.compatibility, evidence.parity, evidence.comparison, evidence.cost):
        for finding in record.findings if record else ():
            about = finding.target in (None, evidence.name, evidence.base.name)
            if about and finding.severity in (Severity.BLOCKER, Severity.WARNING) and finding not in shown:
                shown.append(finding)
    return shown
