"""The trials of one kernel while a run goes on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from ...lint.matching import CORRECTNESS
from ...lint.ranking import in_order
from ...lint.rule import Pack
from ...machines.loader import load
from ...model import Change, KernelReport, TimeChange, Trial
from ..sweep.figures import Figures, figures_of
from ..times import is_faster, is_other_work, time_change
from .candidates import values_of
from .combining import Tried, best_two, differences, merit, pairs_across
from .outcome import TrialOutcome, as_metrics, is_gone, kin_of, new_rules, placed
from .source_changes import RANGE_STAGES, key_of
from .space import is_split
from .trial_results import KernelTrials, TrialRow

WAVES = "num_warps"
FURTHEST = 4
"""Times as many waves as before, or as few, beyond which no further step is tried."""
FURTHEST_SPLIT = 64
"""The same of the parts into which work is cut: one program may be left of hundreds."""


class KernelTrialsProgress:
    """The trials of one kernel.

    Args:
        no_time: why no time is known where no report says that.
        is_whole: whether all that a finding asks for is tried, not only what takes no capture.

    Attributes:
        changes: what is tried, each set of changes once.
        findings: index of a finding -> numbers of the changes that are tried for it.
        waiting: numbers of the changes that were not submitted yet.
    """

    def __init__(
        self, kernel: KernelReport, pack: Pack, no_time: str, *, is_whole: bool = True
    ) -> None:
        self.kernel = kernel
        self._is_whole = is_whole
        self._no_time = kernel.no_time or no_time
        self.changes: list[tuple[Change, ...]] = []
        self.findings: dict[int, list[int]] = {}
        self.waiting: set[int] = set()
        self._unasked: dict[int, None] = {}
        self._numbers: dict[tuple[tuple[str, str, str], ...], int] = {}
        self._outcomes: dict[int, TrialOutcome] = {}
        self._failures: dict[int, str] = {}
        self._other_work: dict[int, str] = {}
        self._rules = {rule.text.id: rule for rule in pack.rules}
        self._kin = kin_of(pack)
        self._placed = placed(kernel.facts, kernel)  # those of findings first
        self._figures = figures_of(kernel)
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

    def plan_unasked(self, changes: Sequence[tuple[Change, ...]]) -> None:
        """Plans changes that no finding asks for."""
        self._unasked.update((self._number(together), None) for together in changes)

    def plan_together(self, index: int, changes: tuple[Change, ...]) -> None:
        """Plans several changes at once for a finding."""
        number = self._number(changes)
        if number not in self.findings[index]:
            self.findings[index].append(number)

    def go_further(self) -> None:
        """Plans a further step of waves or a tile, where the last one in that direction was faster.

        Twice or half as many again: a rule's cure is one step, and the best may be the next.
        """
        for index in list(self.findings):
            for number in list(self.findings[index]):
                if (step := self._further_step(number)) is not None:
                    self.plan_together(index, (step,))
        steps = map(self._further_step, list(self._unasked))
        self.plan_unasked([(step,) for step in steps if step is not None])

    def _further_step(self, number: int) -> Change | None:
        """The step after a change of waves or a tile; None where that is not worth a try."""
        changes, after = self.changes[number], self._us_of(number)
        if len(changes) != 1 or after is None:
            return None
        (change,) = changes
        before, value = change.before, change.value
        is_waves = change.kind == "option" and change.name == WAVES
        if not (is_waves or (change.kind == "constexpr" and number in self._unasked)):
            return None
        if isinstance(before, bool) or not isinstance(before, int) or not isinstance(value, int):
            return None
        grows = value > before
        largest, least = max(value, before), min(value, before)
        furthest = FURTHEST_SPLIT if is_split(change.name) else FURTHEST
        if largest > before * furthest or least * furthest < before:
            return None
        former = self._us_at(replace(change, value=value // 2 if grows else value * 2))
        if former is None or not is_faster(after, former):
            return None
        further = value * 2 if grows else value // 2
        variant = self.kernel.variant
        most = load(variant.arch).max_workgroup_size if variant is not None else 0
        if variant is None or further < 1 or (is_waves and further > most // variant.wave_size):
            return None
        return replace(change, value=further)

    def _us_at(self, change: Change) -> float | None:
        """The time with one change alone; None where it is not known."""
        if change.value == change.before:
            return self._figures.time_us
        number = self._numbers.get(key_of((change,)))
        return self._us_of(number) if number is not None else None

    def _us_of(self, number: int) -> float | None:
        """The time of a change's launch in microseconds; None where it is not known."""
        figures = self._figures_of(number)
        return figures.time_us if figures is not None else None

    def combine(self) -> None:
        """Plans the changes to make together, once each has been tried by itself."""
        for index in self.findings:
            if (pair := best_two(self.tried_for(index))) is not None:
                self.plan_together(index, pair)
        unasked = [self._tried_unasked(number) for number in self._unasked if self._us_of(number)]
        if (pair := best_two(tried for tried in unasked if tried.gone)) is not None:
            self.plan_unasked([pair])
        indices = list(self.findings)
        alone = [self.tried_for(index) for index in indices]
        for left, right, pair in pairs_across([*alone, unasked]):
            if right == len(indices):
                self.plan_unasked([pair])
            rules = {
                self.kernel.findings[indices[at]].rule for at in (left, right) if at < len(indices)
            }
            for index in indices:
                if self.kernel.findings[index].rule in rules:
                    self.plan_together(index, pair)

    def does_other_work(self, number: int, reason: str) -> None:
        """Notes that the launch of a change does other work, so that its time says nothing."""
        self._other_work[number] = reason

    def is_other_work(self, number: int) -> bool:
        """Whether the launch of a change does other work."""
        return number in self._other_work

    def done(self, number: int, outcome: TrialOutcome) -> None:
        """Takes the outcome of a change."""
        self.waiting.discard(number)
        figures = outcome.figures
        if figures is not None and (reason := self._other_work_of(number, figures)):
            outcome = replace(outcome, figures=replace(figures, time_us=None))
            self.does_other_work(number, reason)
        self._outcomes[number] = outcome

    def _other_work_of(self, number: int, figures: Figures) -> str:
        """Why the launch of a change does other work by its figures; "" where it does not."""
        if figures.outside and not self._figures.outside:
            return figures.outside
        sets_macro = any(change.kind == "macro" for change in self.changes[number])
        moved, own = figures.memory_bytes, self._figures.memory_bytes
        if not (sets_macro and moved and own and is_other_work((moved, own))):
            return ""
        return (
            f"it moves {moved / 1e6:,.3g} MB of memory, not {own / 1e6:,.3g}: let the launch"
            " follow the macro (KINSPECT_LAUNCH grid=N/TILE)"
        )

    def fail(self, number: int, reason: str) -> None:
        """Notes that a change could not even be compiled."""
        self.waiting.discard(number)
        self._failures[number] = reason

    def tried_for(self, index: int) -> list[Tried]:
        """What came of the changes that were compiled for a finding."""
        return [
            self._tried(number, gone=self._gone(index, number))
            for number in self.findings[index]
            if number in self._outcomes
        ]

    def _tried_unasked(self, number: int) -> Tried:
        """What came of a change that no finding asks for: what is faster has done its work."""
        time = self._time_of(number)
        return self._tried(number, gone=time is not None and time.verdict == "faster")

    def result(self) -> KernelTrials:
        """What was tried so far."""
        numbers = [n for n in range(self.planned) if n in self._outcomes or n in self._failures]
        own = self._figures
        best = self._best_us()
        trials = {number: self._trial(number) for number in numbers}
        trials = {
            number: replace(
                trial, front=trial.same_as is None and _is_best(self._us_of(number), best)
            )
            for number, trial in trials.items()
        }
        findings = list(self.kernel.findings)
        for index, tried in self.findings.items():
            ranked = sorted(
                (
                    merit(self._tried(number, gone=self._gone(index, number))),
                    len(self.changes[number]),
                    number,
                )
                for number in tried
                if number in trials
            )
            findings[index] = replace(
                findings[index],
                fix=self._fix(index, trials),
                trials=tuple(
                    replace(trials[number], gone=self._gone(index, number)) for *_, number in ranked
                ),
                fix_is_trials=self._rules[findings[index].rule].text.cures_only,
            )
        unchanged = Trial(
            (),
            None,
            metrics=as_metrics(own),
            front=_is_best(own.time_us, best),
            launches=_launches(own),
            no_time="" if own.time_us is not None else self._no_time,
        )
        rows = [self._row(number, trials[number]) for number in numbers]
        rows.sort(key=lambda row: merit(Tried(row.change, bool(row.cures), row.figures)))
        asked = {number for tried in self.findings.values() for number in tried}
        others = (trials[n] for n in numbers if n not in asked)
        fastest = next((trial for trial in others if trial.front and trial.helped), None)
        return KernelTrials(
            kernel=replace(self.kernel, findings=tuple(in_order(findings)), fastest=fastest),
            metrics=as_metrics(own),
            rows=(TrialRow((), unchanged, (), own, from_store=True), *rows),
            without_candidates=tuple(
                dict.fromkeys(
                    self.kernel.findings[index].rule
                    for index, tried in self.findings.items()
                    if not tried
                )
            ),
            missing=self.missing,
        )

    def _best_us(self) -> float | None:
        """The least time of the kernel and of all changes; None where none is known."""
        changed = (self._us_of(number) for number in self._outcomes)
        return min((us for us in (self._figures.time_us, *changed) if us is not None), default=None)

    def _number(self, changes: tuple[Change, ...]) -> int:
        """The number of a set of changes, which is planned if it is new."""
        key = key_of(changes)
        if key not in self._numbers:
            self._numbers[key] = self.planned
            self.waiting.add(self.planned)
            self.changes.append(changes)
        return self._numbers[key]

    def _figures_of(self, number: int) -> Figures | None:
        outcome = self._outcomes.get(number)
        return outcome.figures if outcome is not None else None

    def _gone(self, index: int, number: int) -> bool | None:
        """Whether a change is rid of a finding; None where that is not known."""
        outcome = self._outcomes.get(number)
        if outcome is None or outcome.figures is None:
            return None
        rule = self._rules[self.kernel.findings[index].rule]
        if outcome.figures.cannot_launch is not None and not rule.text.prevents_launch:
            return None  # its rule says nothing of such a kernel
        gone = is_gone(self._placed[index], rule, self._placed, outcome, self._kin)
        if gone and rule.text.removes is not None and self._is_same_code(number):
            return False  # it has only fallen silent: all the work is still there
        if gone and rule.text.improves and self._time_of(number) is None:
            return None  # it may have
        return gone

    def _fix(self, index: int, trials: Mapping[int, Trial]) -> str:
        """A finding's fix without the parts that name an option that was tried in vain.

        Those stand in brackets: `[[Set kpack={lds.conflicts.kpack}. ]]`.
        """
        finding = self.kernel.findings[index]
        rule = self._rules[finding.rule]
        helped: dict[str, bool] = {}
        for number in self.findings[index]:
            if len(self.changes[number]) == 1 and self._figures_of(number) is not None:
                change = self.changes[number][0]
                name = "tile" if change.kind == "constexpr" else change.name
                name = "num_stages" if name == RANGE_STAGES else name
                trial = replace(trials[number], gone=self._gone(index, number) is not False)
                helped[name] = helped.get(name, False) or trial.helped
        failed = [name for name, has_helped in helped.items() if not has_helped]
        values = values_of(finding, self.kernel)
        fix = finding.fix
        if failed and rule.fix.render(values) == fix:
            fix = rule.fix.without(failed).render(values).strip()
        is_complete = self._is_whole and all(number in trials for number in self.findings[index])
        if not fix or not helped or not is_complete or any(helped.values()):
            return fix
        if any(trials[number].helped for number in self.findings[index]):
            return fix
        return f"no option helps; in the source: {fix}"

    def _tried(self, number: int, *, gone: bool | None) -> Tried:
        outcome = self._outcomes.get(number)
        return Tried(
            self.changes[number],
            gone,
            outcome.figures if outcome is not None else None,
            new_rules(self._placed, outcome.findings) if outcome is not None else (),
            self._is_same_code(number),
        )

    def _is_same_code(self, number: int) -> bool:
        """Whether a change left code, LDS and waves as they were."""
        figures = self._figures_of(number)
        if figures is None or figures.isa_sha256 is None:
            return False
        return _code(figures) == _code(self._figures)

    def _same_as(self, number: int) -> tuple[Change, ...] | None:
        """The earlier changes with the same code; () for none at all."""
        if self._is_same_code(number):
            return ()
        figures = self._figures_of(number)
        if figures is None or figures.isa_sha256 is None:
            return None
        for earlier in range(number):
            others = self._figures_of(earlier)
            if others is not None and _code(others) == _code(figures):
                return self.changes[earlier]
        return None

    def _time_of(self, number: int) -> TimeChange | None:
        """What a change does to the time; None where that is not known."""
        return time_change(self._figures.time_us, self._us_of(number))

    def _trial(self, number: int) -> Trial:
        """What came of a change, without regard to a finding."""
        outcome = self._outcomes.get(number)
        if outcome is None or outcome.figures is None:
            error = outcome.error if outcome is not None else None
            reason = error.message if error is not None else self._failures.get(number, "")
            return Trial(self.changes[number], None, failure=reason or "no reason is known")
        time = self._time_of(number)
        no_time = self._other_work.get(number) or outcome.no_time or self._no_time
        return Trial(
            self.changes[number],
            None,
            metrics=as_metrics(outcome.figures),
            diff=differences(self._figures, outcome.figures),
            new=new_rules(self._placed, outcome.findings),
            new_errors=() if self._silences else self._forbidding(outcome, is_timed=bool(time)),
            same_as=self._same_as(number),
            launches=_launches(outcome.figures),
            time=time,
            no_time="" if time is not None else no_time,
            is_baseline_timed=self._figures.time_us is not None,
        )

    def _forbidding(self, outcome: TrialOutcome, *, is_timed: bool) -> tuple[str, ...]:
        """The rules that find something new for which a change is not to be made."""
        new = new_rules(self._placed, (f for f in outcome.findings if f.severity == "error"))
        texts = {rule: self._rules[rule].text for rule in new if rule in self._rules}
        return tuple(
            rule
            for rule in new
            if not is_timed
            or rule not in texts
            or texts[rule].prevents_launch
            or CORRECTNESS in texts[rule].tags
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


def _is_best(us: float | None, best_us: float | None) -> bool:
    return us is not None and best_us is not None and not is_faster(best_us, us)


def _code(figures: Figures) -> tuple[object, ...]:
    return figures.isa_sha256, figures.lds_bytes, figures.waves_per_workgroup


def _launches(figures: Figures) -> bool | None:
    """Whether a workgroup fits; None where its occupancy is unknown."""
    if figures.cannot_launch is not None:
        return False
    return True if figures.waves_per_eu is not None else None
