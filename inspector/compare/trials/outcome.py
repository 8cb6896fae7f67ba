"""Compiles one changed kernel, and says what came of it: figures, and findings with their places.

What the main loop does counts per needed work, so that tiles and numbers of waves do not matter.
The outcome is stored beside the compile that it follows from.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from ...base.errors import KinspectError, unforeseen
from ...base.version import VERSION
from ...lint.rule import Pack, Rule
from ...metrics.bounds import UNITS
from ...model import (
    ErrorRecord,
    Finding,
    KernelReport,
    Metric,
    Scalar,
    Variant,
    int_of,
    number_of,
)
from ...pipeline import analysis
from ...pipeline.context import Overrides
from ...pipeline.jobs import Job, compile_and_report
from ..diff.loops import paired_by_lines
from ..sweep.figures import PORTION, Figures, figures_of
from .candidates import loop_of

if TYPE_CHECKING:
    from concurrent.futures import Future

    from ...compile.pool import Compiler

FORMAT = 2
"""Raised when the outcome of an unchanged compile would change."""
_OVERLAP = 0.25
"""Share of their source lines that two loops have in common at least to count as one."""


class PlacedFinding(Struct, frozen=True):
    """A finding and the loop that it is about.

    Args:
        rule: the rule's id.
        severity: of the finding.
        lines: source lines of the innermost loop around it, as (file, line), sorted; none for the
            kernel as a whole or where they are not known.
    """

    rule: str
    severity: str
    lines: tuple[tuple[str, int], ...] = ()

    def is_at(self, other: PlacedFinding) -> bool:
        """Whether both are about the same loop, as far as is known."""
        mine, others = set(self.lines), set(other.lines)
        if not mine or not others:
            return True
        return len(mine & others) >= _OVERLAP * len(mine | others)


class Unknown(Struct, frozen=True):
    """Metrics that are not known of a kernel (no `lines`), or of one of its loops."""

    lines: tuple[tuple[str, int], ...]
    metrics: tuple[str, ...]


class TrialFigures(Struct, frozen=True):
    """The figures of a changed kernel.

    Args:
        figures: as a sweep has them.
        lds_conflicts_per_work: cycles that LDS bank conflicts add in the main loop, all waves of
            the workgroup together, per unit of needed work.
        bounds: unit -> cycles of the CU that it takes at least in an iteration of the main loop,
            per unit of needed work of all workgroups that are resident; without those not known.
        bound_per_work: the largest of those of `bounds` that are compared.
        bound_unit: the unit that takes them.
    """

    figures: Figures
    lds_conflicts_per_work: float | None = None
    bounds: Mapping[str, float] = field(default_factory=dict)
    bound_per_work: float | None = None
    bound_unit: str | None = None

    @property
    def vector_per_work(self) -> float | None:
        """Cycles for which the main loop's vector instructions keep a CU, per unit of work."""
        return self.bounds.get("vector")

    def bounded_by(self, units: Iterable[str]) -> TrialFigures:
        """The figures with the bound of some units alone: those known of all that is compared."""
        unit = max(units, key=lambda unit: self.bounds.get(unit, 0.0), default=None)
        cycles = self.bounds.get(unit) if unit is not None else None
        return replace(self, bound_per_work=cycles, bound_unit=unit)

    def without_loop(self) -> TrialFigures:
        """The figures of the kernel as a whole: those of its main loop are unknown."""
        figures = replace(
            self.figures,
            matrix_per_iteration=None,
            matrix_cycles_per_iteration=None,
            matrix_efficiency=None,
            full_waits_per_iteration=None,
            full_waits_per_1000_matrix_cycles=None,
            unroll=None,
            work_per_iteration=None,
            matrix_cycles_per_work=None,
            full_waits_per_work=None,
        )
        return TrialFigures(figures)

    def as_metrics(self) -> dict[str, Scalar]:
        """The figures that are told, by name."""
        own = self.figures
        return {
            "vgpr_spill_count": own.vgpr_spills,
            "scratch_in_loops": own.scratch_in_loops,
            "vgpr_count": own.vgprs,
            "agpr_count": own.agprs,
            "lds_bytes": own.lds_bytes,
            "waves_per_workgroup": own.waves_per_workgroup,
            "occupancy.waves_per_eu": own.waves_per_eu,
            "occupancy.limiter": own.limiter,
            "scratch_per_work": own.scratch_per_work,
            "full_waits_per_work": own.full_waits_per_work,
            "matrix_cycles_per_work": own.matrix_cycles_per_work,
            "vector_per_work": self.vector_per_work,
            "lds_conflicts_per_work": self.lds_conflicts_per_work,
            "bound_per_work": self.bound_per_work,
            "bound.unit": self.bound_unit,
            "work_unit": own.work_unit,
            "code_bytes": own.code_bytes,
        }


class LoopFigures(Struct, frozen=True):
    """The figures of a kernel with those of one of its hot loops, in place of the main loop's.

    Args:
        lines: source lines of the loop, as (file, line), sorted; none where they are not known.
        figures: of the kernel and this loop.
    """

    lines: tuple[tuple[str, int], ...]
    figures: TrialFigures


class TrialOutcome(Struct, frozen=True):
    """What became of one changed kernel: plain values, so that any Executor can pass it on.

    Args:
        figures: None where it failed.
        findings: of the same rules as the unchanged kernel's.
        unknown: what is not known of it, so that no rule can speak of it.
        error: why it failed.
        loops: figures of each of its hot loops, in the order of the code.
        from_store: nothing was compiled or analysed.
        seconds: how long it took.
        host: the machine that has the artifacts; None for this one.
    """

    figures: TrialFigures | None
    findings: tuple[PlacedFinding, ...] = ()
    unknown: tuple[Unknown, ...] = ()
    error: ErrorRecord | None = None
    loops: tuple[LoopFigures, ...] = ()
    from_store: bool = False
    seconds: float = 0.0
    host: str | None = None


class _Stored(Struct, frozen=True):
    """What the store keeps of an outcome."""

    figures: TrialFigures
    findings: tuple[PlacedFinding, ...]
    unknown: tuple[Unknown, ...]
    loops: tuple[LoopFigures, ...]


def run_trial(job: Job, compiler: Compiler | None = None) -> TrialOutcome:
    """Compiles and analyses a changed kernel, in any thread or process.

    Args:
        job: the changed variant, and how it is analysed.
        compiler: this process's workers; None: a cached one per process and settings.

    Raises:
        KinspectError: nothing can be compiled at all: no usable Triton, or an unwritable store.
    """
    from ...compile.pool import compiler_of_process

    compiler = compiler_of_process(job.settings) if compiler is None else compiler
    started = time.perf_counter()
    keys = (compiler.key(job.variant), compiler.key(job.variant, passes=True))
    name = _note_name(job)
    # Keys do not cover `overrides`: an outcome that depends on them is not stored.
    is_storable = job.overrides == Overrides() and compiler.settings.read_store
    if is_storable:
        for data in filter(None, (compiler.store.noted(key, name) for key in keys)):
            stored = _decoded(data)
            if stored is not None:
                seconds = time.perf_counter() - started
                return TrialOutcome(
                    stored.figures,
                    stored.findings,
                    stored.unknown,
                    loops=stored.loops,
                    from_store=True,
                    seconds=seconds,
                )
    outcome = compile_and_report(job, compiler)
    seconds = time.perf_counter() - started
    if not outcome.reports:
        return TrialOutcome(None, error=outcome.error, seconds=seconds)
    report = outcome.reports[0]  # a TTIR module holds one kernel
    result = _Stored(
        trial_figures(report),
        placed(report.findings, report),
        unknown_of(report),
        loop_figures(report),
    )
    if is_storable:
        data = msgspec.json.encode(result)
        for key in keys:  # does nothing if there is no such entry
            compiler.store.note(key, name, data)
    return TrialOutcome(
        result.figures,
        result.findings,
        result.unknown,
        loops=result.loops,
        from_store=outcome.from_store,
        seconds=seconds,
    )


def outcome_of(job: Job, future: Future[TrialOutcome]) -> TrialOutcome:
    """The outcome of a finished job; an exception is an error of that change alone."""
    try:
        return future.result()
    except KinspectError as error:
        return TrialOutcome(None, error=job.record("compile", error))
    except Exception as error:
        return TrialOutcome(None, error=job.record("analyze", unforeseen(error)))


def loop_figures(report: KernelReport) -> tuple[LoopFigures, ...]:
    """The figures of a kernel, once for each of its hot loops, in the order of the code."""
    hot = sorted((loop for loop in report.loops if loop.hot), key=lambda loop: loop.header.line)
    return tuple(
        LoopFigures(
            tuple(sorted({(at.file, at.line) for at in loop.source})),
            trial_figures(report, loop.id),
        )
        for loop in hot
    )


def figures_of_loop(
    number: int | None, before: Sequence[LoopFigures], after: TrialOutcome
) -> TrialFigures | None:
    """A changed kernel's figures with those of the loop that was the main one before.

    Loops are paired as `diff` pairs them: by their source lines, else by their order where both
    have as many.

    Args:
        number: index of the main loop among the hot ones of the unchanged kernel; None where it is
            none of them.
        before: of the unchanged kernel.
        after: of the changed one.

    Returns:
        Figures without those of any loop where the changed kernel has hot loops, but none that
        does the main one's work.
    """
    if after.figures is None or number is None or not after.loops:
        return after.figures
    pairs = paired_by_lines(
        [set(loop.lines) for loop in before], [set(loop.lines) for loop in after.loops]
    )
    if len(before) == len(after.loops) and len(pairs) < len(before):
        pairs = [(index, index) for index in range(len(before))]
    paired = dict(pairs).get(number)
    if paired is not None:
        return after.loops[paired].figures
    return after.figures.without_loop()


def trial_figures(report: KernelReport, loop_id: str | None = None) -> TrialFigures:
    """The figures of a kernel's report.

    Args:
        report: of the kernel.
        loop_id: the loop that figures of a loop are about; None for the main one.
    """
    figures = figures_of(report, loop_id)
    loop_id = report.main_loop if loop_id is None else loop_id
    main = next((loop for loop in report.loops if loop.id == loop_id), None)
    inside = main.metrics if main is not None else {}
    work, waves = figures.work_per_iteration, figures.waves_per_workgroup
    resident = int_of(report.metrics, "occupancy.workgroups_per_cu")
    conflicts = number_of(inside, "lds.conflict_cycles")
    conflicts_per_work = None
    bounds: dict[str, float] = {}
    if work and figures.work_unit is not None:
        portions = work / PORTION[figures.work_unit]
        if conflicts is not None and waves is not None:
            conflicts_per_work = round(conflicts * waves / portions, 3)
        for unit in UNITS if resident else ():
            cycles = number_of(inside, f"bound.{unit}")
            if cycles is not None and resident:
                bounds[unit] = round(cycles / (resident * portions), 3)
    return TrialFigures(figures, conflicts_per_work, bounds).bounded_by(bounds)


def placed(findings: Iterable[Finding], report: KernelReport) -> tuple[PlacedFinding, ...]:
    """The findings of a report with the source lines of their loops."""
    placed_findings = []
    for finding in findings:
        loop = loop_of(finding, report)
        lines = sorted({(at.file, at.line) for at in loop.source}) if loop is not None else ()
        placed_findings.append(PlacedFinding(finding.rule, finding.severity, tuple(lines)))
    return tuple(placed_findings)


def unknown_of(report: KernelReport) -> tuple[Unknown, ...]:
    """The metrics that are not known of a kernel and of its loops."""
    unknown = [Unknown((), _unknown_names(report.metrics.values()))]
    for loop in report.loops:
        lines = tuple(sorted({(at.file, at.line) for at in loop.source}))
        unknown.append(Unknown(lines, _unknown_names(loop.metrics.values())))
    return tuple(part for part in unknown if part.metrics)


def _unknown_names(metrics: Iterable[Metric]) -> tuple[str, ...]:
    return tuple(m.name for m in metrics if m.value is None)


def is_gone(
    finding: PlacedFinding,
    rule: Rule,
    before: Iterable[PlacedFinding],
    after: TrialOutcome,
    kin: Mapping[str, frozenset[str]],
) -> bool | None:
    """Whether a finding is gone, and none that says the same of its loop has come in its place.

    Args:
        finding: a finding of the unchanged kernel.
        rule: its rule.
        before: all findings of that kernel.
        after: the changed one.
        kin: rule -> rules that supersede it or are superseded by it.

    Returns:
        None where what the rule demands is not known of the changed kernel.
    """
    related = kin.get(finding.rule, frozenset())
    present = {other.rule for other in before if other.is_at(finding)}
    if any(
        other.rule == finding.rule or (other.rule in related and other.rule not in present)
        for other in after.findings
        if other.is_at(finding)
    ):
        return False
    demanded = {name.name for name in rule.require.names}
    for part in after.unknown:
        in_kernel = not finding.lines or rule.text.scope == "kernel"
        concerns = not part.lines if in_kernel else PlacedFinding("", "", part.lines).is_at(finding)
        if concerns and demanded.intersection(part.metrics):
            return None
    return True


def new_rules(before: Iterable[PlacedFinding], after: Iterable[PlacedFinding]) -> tuple[str, ...]:
    """The rules that find something where they found nothing before."""
    earlier = list(before)
    return tuple(
        dict.fromkeys(
            found.rule
            for found in after
            if not any(found.rule == old.rule and found.is_at(old) for old in earlier)
        )
    )


def new_errors(before: Iterable[PlacedFinding], after: Iterable[PlacedFinding]) -> tuple[str, ...]:
    """The rules that find an error anew."""
    return new_rules(before, (found for found in after if found.severity == "error"))


def kin_of(pack: Pack) -> dict[str, frozenset[str]]:
    """Rule -> the rules that supersede it and those that it supersedes."""
    kin: dict[str, set[str]] = {}
    for rule in pack.rules:
        for superior in rule.text.superseded_by:
            kin.setdefault(rule.text.id, set()).add(superior)
            kin.setdefault(superior, set()).add(rule.text.id)
    return {rule: frozenset(others) for rule, others in kin.items()}


def _note_name(job: Job) -> str:
    """Name of the store's note beside a compile: it holds all else that the outcome depends on."""
    pack = job.analysis.rules or analysis.default_pack()
    variant: Variant = replace(job.variant, ttir="", passed=None)
    facts = [
        [rule.text for rule in pack.rules],
        variant,
        [job.analysis.lanes, job.analysis.races, job.analysis.values],
    ]
    digest = hashlib.sha256(msgspec.json.encode(facts, enc_hook=str)).hexdigest()[:16]
    return f"trial-v{FORMAT}-{analysis.ANALYSIS_VERSION}-{VERSION}-{digest}.json"


def _decoded(data: bytes) -> _Stored | None:
    try:
        return msgspec.json.decode(data, type=_Stored)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
