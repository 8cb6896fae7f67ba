"""What is planned, compiled and found out for one kernel, while a run goes on."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from ...lint.rule import Pack, Rule
from ...machines.loader import load
from ...model import Change, KernelReport, Trial
from ..sweep.figures import Figures
from .candidates import cures_of, loop_of, values_of
from .change_key import key_of
from .combining import Tried, differences, merit, pairs_across, pairs_of
from .front import objectives, on_front
from .outcome import (
    TrialFigures,
    TrialOutcome,
    figures_of_loop,
    is_gone,
    kin_of,
    loop_figures,
    new_errors,
    new_rules,
    placed,
    trial_figures,
)
from .results import KernelTrials, TrialRow

WAVES = "num_warps"
FURTHEST = 4
"""Times as many waves as before, or as few, beyond which no further step is tried."""


class KernelTrialsProgress:
    """The trials of one kernel.

    Args:
        kernel: its report.
        pack: the rules by which changed kernels are judged.

    Attributes:
        kernel: its report.
        changes: what is tried, each set of changes once.
        findings: index of a finding -> numbers of the changes that are tried for it.
        waiting: numbers of the changes that were not submitted yet.
    """

    def __init__(self, kernel: KernelReport, pack: Pack) -> None:
        self.kernel = kernel
        self.changes: list[tuple[Change, ...]] = []
        self.findings: dict[int, list[int]] = {}
        self.waiting: set[int] = set()
        self._numbers: dict[tuple[tuple[str, str, str], ...], int] = {}
        self._outcomes: dict[int, TrialOutcome] = {}
        self._failures: dict[int, str] = {}
        self._rules = {rule.text.id: rule for rule in pack.rules}
        self._kin = kin_of(pack)
        self._placed = placed(kernel.findings, kernel)
        self._figures = trial_figures(kernel)
        self._loops = loop_figures(kernel)
        self._main_loop = _main_loop(kernel)
        # Of a kernel that cannot be launched other rules say nothing: what they find is not new.
        self._silences = any(
            self._rules[finding.rule].text.prevents_launch
            for finding in kernel.findings
            if finding.rule in self._rules
        )

    @property
    def planned(self) -> int:
        """How many changes there are."""
        return len(self.changes)

    @property
    def figures(self) -> Figures:
        """The figures of the unchanged kernel."""
        return self._figures.figures

    @property
    def is_done(self) -> bool:
        """Whether all of them are done."""
        return self.missing == 0

    @property
    def missing(self) -> int:
        """How many of them are not done."""
        return self.planned - len(self._outcomes) - len(self._failures)

    def plan(self, index: int, changes: Sequence[tuple[Change, ...]]) -> None:
        """Plans changes for a finding."""
        self.findings[index] = [self._number(together) for together in changes]

    def plan_together(self, index: int, changes: tuple[Change, ...]) -> None:
        """Plans several changes at once for a finding."""
        number = self._number(changes)
        if number not in self.findings[index]:
            self.findings[index].append(number)

    def go_further(self) -> None:
        """Plans a further step of the waves, where the last one in that direction did help.

        Twice or half as many again: a rule's cure is one step, and the best may be the next.
        """
        for index in list(self.findings):
            for number in list(self.findings[index]):
                if (step := self._further_step(number)) is not None:
                    self.plan_together(index, (step,))

    def _further_step(self, number: int) -> Change | None:
        """The step after a change of the number of waves; None where that is not worth a try."""
        changes, after = self.changes[number], self._figures_of(number)
        if len(changes) != 1 or changes[0].name != WAVES or changes[0].kind != "option":
            return None
        before, value = changes[0].before, changes[0].value
        if not isinstance(before, int) or not isinstance(value, int) or after is None:
            return None
        grows = value > before
        largest, least = max(value, before), min(value, before)
        if largest > before * FURTHEST or least * FURTHEST < before:
            return None
        former = self._figures_at(value // 2 if grows else value * 2, before)
        if former is None or after.figures.cannot_launch is not None:
            return None
        was, now = _comparable([former, after])
        if (
            was is None
            or now is None
            or _is_less(now.bound_per_work, was.bound_per_work) is not True
        ):
            return None
        further = value * 2 if grows else value // 2
        variant = self.kernel.variant
        most = load(variant.arch).max_workgroup_size if variant is not None else 0
        if variant is None or not 1 <= further <= most // variant.wave_size:
            return None
        return replace(changes[0], value=further)

    def _figures_at(self, waves: int, before: int) -> TrialFigures | None:
        """The figures with so many waves and nothing else changed; None where not compiled."""
        if waves == before:
            return self._figures
        number = self._numbers.get(key_of((Change("option", WAVES, waves, before),)))
        return self._figures_of(number) if number is not None else None

    def combine(self) -> None:
        """Plans the changes to make together, once each has been tried by itself."""
        for index in self.findings:
            for pair in pairs_of(self.tried_for(index), self.figures):
                self.plan_together(index, pair)
        indices = list(self.findings)
        alone = [self.tried_for(index) for index in indices]
        for left, right, pair in pairs_across(alone):
            rules = {self.kernel.findings[indices[at]].rule for at in (left, right)}
            for index in indices:
                if self.kernel.findings[index].rule in rules:
                    self.plan_together(index, pair)

    def done(self, number: int, outcome: TrialOutcome) -> None:
        """Takes the outcome of a change."""
        self.waiting.discard(number)
        # The main loop may be another one after a change: figures of like with like.
        figures = figures_of_loop(self._main_loop, self._loops, outcome)
        self._outcomes[number] = replace(outcome, figures=figures)

    def fail(self, number: int, reason: str) -> None:
        """Notes that a change could not even be compiled."""
        self.waiting.discard(number)
        self._failures[number] = reason

    def tried_for(self, index: int) -> list[Tried]:
        """What came of the changes that were compiled for a finding."""
        return [
            self._tried(index, number)
            for number in self.findings[index]
            if number in self._outcomes
        ]

    def result(self) -> KernelTrials:
        """What was tried so far."""
        numbers = [n for n in range(self.planned) if n in self._outcomes or n in self._failures]
        own, *changed = _comparable([self._figures, *map(self._figures_of, numbers)])
        assert own is not None
        figures = [own, *changed]
        comparable = dict(zip(numbers, changed, strict=True))
        front = on_front(figures)
        trials = {
            number: self._trial(number, own, comparable[number], is_front=is_front)
            for number, is_front in zip(numbers, front[1:], strict=True)
        }
        findings = list(self.kernel.findings)
        for index, tried in self.findings.items():
            # What is simpler is told first.
            of_finding = sorted(
                (len(self.changes[number]), merit(self._tried(index, number)), number)
                for number in tried
                if number in trials
            )
            findings[index] = replace(
                findings[index],
                fix=self._fix(index),
                trials=tuple(
                    replace(trials[number], gone=self._gone(index, number))
                    for _, _, number in of_finding
                ),
                fix_is_trials=self._rules[findings[index].rule].text.cures_only,
            )
        unchanged = Trial(
            (), None, metrics=own.as_metrics(), front=front[0], launches=_launches(own)
        )
        rows = [TrialRow((), unchanged, (), own, from_store=True)]
        rows += [self._row(number, trials[number]) for number in numbers]
        able = [f for f in figures if f is not None and f.figures.cannot_launch is None]
        return KernelTrials(
            kernel=replace(self.kernel, findings=tuple(findings)),
            metrics=own.as_metrics(),
            rows=tuple(rows),
            objectives=objectives(able),
            without_candidates=tuple(
                dict.fromkeys(
                    self.kernel.findings[index].rule
                    for index, tried in self.findings.items()
                    if not tried
                )
            ),
            missing=self.missing,
        )

    def _number(self, changes: tuple[Change, ...]) -> int:
        """The number of a set of changes, which is planned if it is new."""
        key = key_of(changes)
        if key not in self._numbers:
            self._numbers[key] = self.planned
            self.waiting.add(self.planned)
            self.changes.append(changes)
        return self._numbers[key]

    def _figures_of(self, number: int) -> TrialFigures | None:
        outcome = self._outcomes.get(number)
        return outcome.figures if outcome is not None else None

    def _gone(self, index: int, number: int) -> bool | None:
        """Whether a change is rid of a finding; None where that is not known."""
        outcome = self._outcomes.get(number)
        if outcome is None or outcome.figures is None:
            return None
        rule = self._rules[self.kernel.findings[index].rule]
        if _launches(outcome.figures) is False and not rule.text.prevents_launch:
            return None  # its rule says nothing of such a kernel
        gone = is_gone(self._placed[index], rule, self._placed, outcome, self._kin)
        return self._improves(rule, outcome.figures) if gone else gone

    def _fix(self, index: int) -> str:
        """A finding's fix without the parts that name a change that was tried in vain.

        Those are the parts that hold the metric of a cure: `[[try kpack={lds.conflicts.kpack}]]`.
        """
        finding = self.kernel.findings[index]
        rule = self._rules[finding.rule]
        failed = frozenset(
            cure.metric
            for cure in cures_of(rule)
            if cure.metric
            and any(
                self.changes[number][0].name == cure.option and self._is_in_vain(index, number)
                for number in self.findings[index]
                if len(self.changes[number]) == 1
            )
        )
        values = values_of(finding, self.kernel)
        if not failed or rule.fix.render(values) != finding.fix:
            return finding.fix
        return rule.fix.without(failed).render(values) or finding.fix

    def _is_in_vain(self, index: int, number: int) -> bool:
        """Whether a change leaves a finding, and the figure that its rule wants better, as it was.

        The figure is the main loop's; a finding about another loop has to be gone.
        """
        outcome = self._outcomes.get(number)
        if outcome is None or outcome.figures is None or self._gone(index, number) is not False:
            return False
        finding = self.kernel.findings[index]
        loop = loop_of(finding, self.kernel)
        if loop is not None and loop.id != self.kernel.main_loop:
            return True
        rule = self._rules[finding.rule]
        return not rule.text.improves or self._improves(rule, outcome.figures) is not True

    def _tried(self, index: int, number: int) -> Tried:
        outcome = self._outcomes.get(number)
        return Tried(
            self.changes[number],
            self._gone(index, number),
            outcome.figures if outcome is not None else None,
            new_rules(self._placed, outcome.findings) if outcome is not None else (),
            self._is_same_code(number),
        )

    def _improves(self, rule: Rule, figures: TrialFigures) -> bool | None:
        """Whether the figure that a rule wants better is so; None where that is not known."""
        own = self._figures
        if rule.text.improves == "occupancy":
            return _is_less(own.figures.waves_per_eu, figures.figures.waves_per_eu)
        if rule.text.improves == "lds_conflicts":
            return _is_less(figures.lds_conflicts_per_work, own.lds_conflicts_per_work)
        return True

    def _is_same_code(self, number: int) -> bool:
        """Whether a change left code, LDS and waves as they were."""
        figures = self._figures_of(number)
        if figures is None or figures.figures.isa_sha256 is None:
            return False
        return _code(figures) == _code(self._figures)

    def _same_as(self, number: int) -> tuple[Change, ...] | None:
        """The earlier changes with the same code; () for none at all."""
        if self._is_same_code(number):
            return ()
        figures = self._figures_of(number)
        if figures is None or figures.figures.isa_sha256 is None:
            return None
        for earlier in range(number):
            others = self._figures_of(earlier)
            if others is not None and _code(others) == _code(figures):
                return self.changes[earlier]
        return None

    def _trial(
        self, number: int, own: TrialFigures, figures: TrialFigures | None, *, is_front: bool
    ) -> Trial:
        """What came of a change, without regard to a finding.

        Args:
            number: of the change.
            own: figures of the unchanged kernel.
            figures: those of the changed one, with the same bounds; None where it failed.
            is_front: whether it is on the front.
        """
        outcome = self._outcomes.get(number)
        if outcome is None or figures is None:
            error = outcome.error if outcome is not None else None
            reason = error.message if error is not None else self._failures.get(number, "")
            return Trial(self.changes[number], None, failure=reason or "no reason is known")
        same_as = self._same_as(number)
        return Trial(
            self.changes[number],
            None,
            metrics=figures.as_metrics(),
            diff=differences(own, figures),
            new=new_rules(self._placed, outcome.findings),
            new_errors=() if self._silences else new_errors(self._placed, outcome.findings),
            front=is_front and same_as is None,
            same_as=same_as,
            launches=_launches(figures),
        )

    def _row(self, number: int, trial: Trial) -> TrialRow:
        outcome = self._outcomes.get(number)
        concerned: dict[str, bool] = {}
        is_cure = replace(trial, gone=True).helped
        for index, tried in self.findings.items():
            if number in tried:
                rule = self.kernel.findings[index].rule
                concerned[rule] = concerned.get(rule, True) and self._gone(index, number) is True
        return TrialRow(
            change=self.changes[number],
            trial=trial,
            cures=tuple(rule for rule, cured in concerned.items() if cured and is_cure),
            figures=outcome.figures if outcome is not None else None,
            from_store=outcome.from_store if outcome is not None else False,
            seconds=outcome.seconds if outcome is not None else 0.0,
            host=outcome.host if outcome is not None else None,
        )


def _comparable(figures: Sequence[TrialFigures | None]) -> list[TrialFigures | None]:
    """Figures with the bounds of those units alone that are known of all that have any."""
    known = [set(one.bounds) for one in figures if one is not None and one.bounds]
    units = sorted(set.intersection(*known)) if known else []
    return [one.bounded_by(units) if one is not None else None for one in figures]


def _main_loop(kernel: KernelReport) -> int | None:
    """Index of the main loop among the hot ones, in the order of the code."""
    hot = sorted((loop for loop in kernel.loops if loop.hot), key=lambda loop: loop.header.line)
    return next((n for n, loop in enumerate(hot) if loop.id == kernel.main_loop), None)


def _is_less(one: float | None, other: float | None) -> bool | None:
    return one < other if one is not None and other is not None else None


def _code(figures: TrialFigures) -> tuple[object, ...]:
    own = figures.figures
    return own.isa_sha256, own.lds_bytes, own.waves_per_workgroup


def _launches(figures: TrialFigures) -> bool | None:
    """Whether a workgroup fits; None where its occupancy is unknown."""
    if figures.figures.cannot_launch is not None:
        return False
    return True if figures.figures.waves_per_eu is not None else None
