"""Compares two reports: pairs their kernels, judges the differences, sorts them worst first."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import chain
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from ... import machines
from ...base import limits
from ...base.errors import KinspectError
from ...metrics.given_metrics import US as TIME_US
from ...model import ErrorRecord, Function, KernelReport, KernelTime, Metric, Report, TimeChange
from ..stages import Comparison, Side, compare
from ..times import is_other_work, time_change
from . import isa
from .diff_results import (
    VERDICTS,
    Alone,
    CodeSeen,
    DiffReport,
    FigureChange,
    IsaDifference,
    KernelDiff,
    LoopPair,
    label_of,
)
from .loop_verdicts import has_scratch, missing_loop, of_pair, region_changes, whole_kernel
from .loops import pair_loops
from .pairing import pair_up
from .tolerances import Tolerances
from .verdicts import (
    RESIDENT,
    SCRATCH,
    JudgementContext,
    decided_by_time,
    kernel_changes,
    number,
    verdict_of,
)

MOST_ISA = 8
"""How many kernels' code is compared by default."""
TWO_TARGETS = "two targets: what depends on their limits and instructions is shown, not judged"
_JUDGEMENTS = ("regression", "unknown", "improvement", "shown", "neutral")

TextReader = Callable[[KernelReport], str | None]
"""Returns the assembly text of a kernel's report; None where it cannot be read."""


_REPORT_BYTES = 1 << 16
"""About what a kernel's report has."""


class DiffOptions(Struct, frozen=True):
    """The options of a comparison.

    Args:
        tolerances: how much each figure may get worse: noise, or a stated budget.
        most_isa: kernels whose code is compared line by line, the worst first; None: all.
    """

    tolerances: Tolerances
    varied: Collection[str] = ()
    most_isa: int | None = MOST_ISA


class NamedReport(Struct, frozen=True):
    """One side: a report and its name."""

    label: str
    report: Report


_OTHER_WORK: Final = 2.0
"""Times as many bytes that a changed kernel hardly moves for the same result."""


def diff_reports(
    left: NamedReport, right: NamedReport, options: DiffOptions, text: TextReader
) -> DiffReport:
    """Compares two reports.

    Raises:
        LimitError: that takes more than files of their size may.
    """
    sides = left.report.kernels, right.report.kernels
    with limits.reading(f"{left.label} against {right.label}", sum(map(_bytes, chain(*sides)))):
        return _diff_reports(left, right, options, text)


def _bytes(kernel: KernelReport) -> int:
    """What comparing a kernel is bounded by: the bytes of its artifacts, and of its report."""
    sizes = (artifact.path.stat().st_size for artifact in kernel.artifacts.values())
    try:
        return _REPORT_BYTES + sum(sizes)
    except OSError:
        return _REPORT_BYTES


def _diff_reports(
    left: NamedReport, right: NamedReport, options: DiffOptions, text: TextReader
) -> DiffReport:
    pairing = pair_up(left.report.kernels, right.report.kernels, options.varied)
    labels = left.label, right.label
    pairs = [
        replace(
            diff_kernels(pair.left, pair.right, options.tolerances, labels),
            matched_by=pair.matched_by,
        )
        for pair in pairing.pairs
    ]
    errors = [(side.label, error) for side in (left, right) for error in side.report.errors]
    result = DiffReport(
        tool=right.report.tool,
        left=left.label,
        right=right.label,
        pairs=tuple(pairs),
        only_left=tuple(_alone(k, right.report.errors) for k in pairing.only_left),
        only_right=tuple(_alone(k, left.report.errors) for k in pairing.only_right),
        errors=tuple(errors),
        tolerances={name: str(tolerance) for name, tolerance in options.tolerances.stated.items()},
        notes=_notes(left, right),
    )
    return finished(result, options, text)


def finished(report: DiffReport, options: DiffOptions, text: TextReader) -> DiffReport:
    """The report with its pairs worst first, and the code of those that changed compared."""
    # Without artifacts a pair was judged by figures; its code may still be readable as a target.
    pairs = [
        _with_code(pair, text) if pair.comparison is None and pair.verdict == "same" else pair
        for pair in report.pairs
    ]
    pairs.sort(key=_worst)
    changed = [index for index, pair in enumerate(pairs) if pair.verdict != "same"]
    for index in changed[: options.most_isa]:
        pairs[index] = with_isa(pairs[index], text)
    if options.most_isa is not None:
        for index in changed[options.most_isa :]:
            if pairs[index].code == "missing":
                pairs[index] = replace(pairs[index], code="unasked")
    return replace(report, pairs=tuple(pairs))


def diff_kernels(
    left: KernelReport,
    right: KernelReport,
    tolerances: Tolerances,
    labels: tuple[str, str] = ("left", "right"),
    comparison: Comparison | None = None,
) -> KernelDiff:
    """Compares two reports of a kernel, except for the lines of their code.

    Args:
        tolerances: how much each figure may get worse: noise, or a stated budget.
        comparison: the comparison of their stages, where it was made already.
    """
    context = JudgementContext(tolerances, left.arch == right.arch, _icache(left, right))
    notes = [] if context.same_arch else [TWO_TARGETS]
    code: CodeSeen = "seen"
    if comparison is None and left.artifacts and right.artifacts:
        try:
            comparison = compare(_side(labels[0], left), _side(labels[1], right))
        except KinspectError as error:
            notes.append(f"stages are not compared: {error.message}")
    elif comparison is None:
        code = "missing"
    same_tiles = _constexprs(left) == _constexprs(right)
    loops = pair_loops(left, right, same_tiles=same_tiles)
    changes: Sequence[FigureChange] = _changes(
        left, right, context, loops=loops, same_tiles=same_tiles
    )
    time = _time_change(left, right) if context.same_arch else None
    if time is not None:
        changes = decided_by_time(changes, time, context)
        notes += _other_work(left, right)
    elif other := _incomparable(left, right):
        changes = [change for change in changes if change.name != TIME_US]
        notes.append(other)
    same_code = not _figures_differ(left, right) and not _isa_differs(comparison)
    return KernelDiff(
        left=left,
        right=right,
        matched_by="",
        changes=tuple(sorted(changes, key=_weight)),
        loops=loops,
        time=time,
        verdict=verdict_of(changes, same_code),
        comparison=comparison,
        code=code,
        notes=tuple(notes),
    )


def _time_change(left: KernelReport, right: KernelReport) -> TimeChange | None:
    """What the change does to the time of a launch; None where the launches are not the same."""
    if left.time is None or right.time is None or _incomparable(left, right):
        return None
    return time_change(left.time.us, right.time.us)


def _incomparable(left: KernelReport, right: KernelReport) -> str:
    """Why the times of two launches are not compared; empty where they are."""
    if left.time is None or right.time is None:
        return ""
    before, after = (
        side.variant.values or {} if side.variant is not None else {} for side in (left, right)
    )
    names = [name for name in before if name in after and before[name] != after[name]]
    if names:
        passed = ", ".join(f"{name} {before[name]} | {after[name]}" for name in names)
        return f"other launches, of which times are not compared: {passed}"
    assumed = (_assumed(left.time), _assumed(right.time))
    if left.arch == right.arch and assumed[0] != assumed[1]:
        return f"times are not compared, they assume {assumed[0]} and {assumed[1]}"
    return ""


def _assumed(time: KernelTime) -> str:
    """The product and its clock, in words; the power limit is no assumption of its own."""
    if time.peak_mhz is None:
        return f"{time.gpu} at {time.mhz:,.0f} MHz"
    return f"{time.gpu} at its own clock"


def _isa_differs(comparison: Comparison | None) -> bool:
    """Tells whether the assembly is known to differ."""
    stages = comparison.stages if comparison is not None else ()
    return any(stage.stage == "amdgcn" and stage.same is False for stage in stages)


def _changes(
    left: KernelReport,
    right: KernelReport,
    context: JudgementContext,
    *,
    loops: Sequence[LoopPair],
    same_tiles: bool,
) -> list[FigureChange]:
    """Returns the figures that differ; `same_tiles`: both programs do the same work."""
    if loops:
        regions = [region for pair in loops if (region := of_pair(pair)) is not None]
        missing = [change for pair in loops if (change := missing_loop(pair)) is not None]
    else:
        regions, missing = [whole_kernel(left, right, same_tiles=same_tiles)], []
    hot = (
        any(has_scratch(region.left) for region in regions),
        any(has_scratch(region.right) for region in regions),
    )
    changes = [*kernel_changes(left, right, context, hot), *missing]
    for region in regions:
        changes += region_changes(region, context)
    return changes


def with_isa(pair: KernelDiff, text: TextReader) -> KernelDiff:
    """Compares the code of a pair's hot loops, as far as it can be read."""
    sides = _functions(pair, text)
    if sides is None:
        return pair
    pair = replace(pair, code="seen")
    differences: list[IsaDifference] = []
    for loops in pair.loops or (None,):
        if loops is not None and (loops.left is None or loops.right is None):
            continue
        ends = (loops.left, loops.right) if loops is not None else (None, None)
        left_region, right_region = (
            isa.region_of(function, loop) for function, loop in zip(sides, ends, strict=True)
        )
        if left_region is None or right_region is None:
            continue
        difference = isa.compare_regions(
            left_region, right_region, ends[0].id if ends[0] is not None else None
        )
        if difference.lines:
            differences.append(difference)
    return replace(pair, isa=tuple(differences))


def _with_code(pair: KernelDiff, text: TextReader) -> KernelDiff:
    """Compares the code of a pair with equal figures, if it can be read."""
    sides = _functions(pair, text)
    if sides is None:
        return pair
    if isa.same_code(*sides):
        return replace(pair, code="seen")
    return replace(pair, verdict="neutral", code="differs" if pair.code == "missing" else pair.code)


def _functions(pair: KernelDiff, text: TextReader) -> tuple[Function, Function] | None:
    """The code of both sides; None where one cannot be read."""
    functions: list[Function] = []
    for report in (pair.left, pair.right):
        source = text(report)
        if source is None:
            return None
        try:
            function = isa.function_for(report, isa.functions_of(source))
        except KinspectError:
            return None
        if function is None:
            return None
        functions.append(function)
    return functions[0], functions[1]


def _side(label: str, report: KernelReport) -> Side:
    return Side(label, report.artifacts, report=report)


def _icache(left: KernelReport, right: KernelReport) -> int | None:
    if left.arch is None or left.arch != right.arch or left.arch not in machines.names():
        return None
    return machines.load(left.arch).icache_bytes


def _constexprs(kernel: KernelReport) -> Mapping[str, object]:
    return dict(kernel.variant.constexprs) if kernel.variant is not None else {}


def _figures_differ(left: KernelReport, right: KernelReport) -> bool:
    """Tells whether any figure differs, judged or not."""
    if _values(left.metrics) != _values(right.metrics) or len(left.loops) != len(right.loops):
        return True
    return any(
        _values(left_loop.metrics) != _values(right_loop.metrics)
        for left_loop, right_loop in zip(left.loops, right.loops, strict=True)
    )


def _values(metrics: Mapping[str, Metric]) -> dict[str, object]:
    return {name: metric.value for name, metric in metrics.items()}


def _alone(kernel: KernelReport, other_errors: Iterable[ErrorRecord]) -> Alone:
    """A kernel without counterpart, with why the other side failed at it where that is known."""
    label = label_of(kernel)
    names = {label, f"{label} on {kernel.arch}", kernel.name}
    reason = next(
        (f"{error.stage}: {error.message}" for error in other_errors if error.kernel in names), ""
    )
    return Alone(label, kernel.arch, kernel, reason)


def _other_work(left: KernelReport, right: KernelReport) -> list[str]:
    """The doubt whether two kernels in one stated launch do the same work, by what they move."""
    if left.variant is not None or left.time is None or right.time is None:
        return []
    before, after = left.time.memory_bytes, right.time.memory_bytes
    if not before or not after or not is_other_work((before, after), _OTHER_WORK):
        return []
    return [
        f"it moves {after / 1e6:,.4g} MB of memory, {before / 1e6:,.4g} before: the same work? Both"
        " sides have the stated launch; where they need two, save each with its own (analyze"
        " --save) and compare these"
    ]


def _notes(left: NamedReport, right: NamedReport) -> tuple[str, ...]:
    versions = [side.report.tool.get("analysis") for side in (left, right)]
    notes = [*left.report.notes, *right.report.notes]
    if versions[0] != versions[1]:
        notes.insert(
            0,
            "the reports were made by different versions of kinspect's analysis"
            f" ({versions[0]} and {versions[1]}): figures may differ by that alone",
        )
    return tuple(dict.fromkeys(notes))


def _weight(change: FigureChange) -> tuple[bool, int, str, str]:
    """Sort key of a change: deciding ones first, then those that got worse."""
    order = _JUDGEMENTS.index(change.judgement)
    return (not change.matters, order, change.loop or "", change.name)


def _worst(pair: KernelDiff) -> tuple[int, float, str]:
    """Sort key of a pair: the worst verdict first, then the largest regressions."""
    badness = sum(map(_badness, pair.of("regression", matters=True)))
    return (VERDICTS.index(pair.verdict), -badness, pair.left.id + label_of(pair.left))


def _badness(change: FigureChange) -> float:
    """Returns how much worse a figure got, at most 2; more for spills and lost waves."""
    before, after = number(change.left), number(change.right)
    smaller, larger = sorted((abs(before or 0), abs(after or 0)))
    share = min((larger - smaller) / smaller, 2.0) if smaller else 2.0
    return share + 2 * (change.name in (*SCRATCH, RESIDENT))
