"""Judges the figures of a hot loop that differ, or those of a kernel that has no loop."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from msgspec import Struct

from ...model import KernelReport, LoopReport, Metric, value_of
from .loops import basis, waves_of
from .results import FigureChange, Judgement, LoopPair
from .tolerances import JUDGED, JudgedFigure
from .verdicts import SCRATCH, JudgementContext, number

CYCLES = "cycles.mfma"
INSTRUCTIONS = "count.instructions"
ISSUE_CYCLES = 4
"""Cycles between two instructions of one wave on CDNA, at least; see `_hidden`."""
MATRIX = "matrix.instructions"
_MATRIX_COUNTS = ("count.mfma", "count.wmma")
_ELSEWHERE = "another target: other instructions"
_PER_ITERATION = ("count.", "cycles.", "lds.conflict_cycles")
"""Prefixes of figures that grow with the work of an iteration; the others are shares or widths."""


class Region(Struct, frozen=True):
    """The code of one loop on both sides, or of the whole kernel where neither has a loop.

    Args:
        loop: id of the left side's loop; None for the kernel.
        left: metrics of the left side's code, by name.
        right: metrics of the right side's code.
        per: what each side's figures are divided by; see `LoopPair.per`.
        basis: in words, the unit of work that the divided figures are for.
    """

    loop: str | None
    left: Mapping[str, Metric]
    right: Mapping[str, Metric]
    per: tuple[float, float] | None
    basis: str


def whole_kernel(left: KernelReport, right: KernelReport, *, same_tiles: bool = True) -> Region:
    """The region of a kernel without loops: all of it runs once.

    Args:
        left: the report before the change.
        right: the report of the same kernel after it.
        same_tiles: whether their constexprs are the same, so that one program does the same work.
    """
    left_metrics, right_metrics = _as_region(left), _as_region(right)
    waves = waves_of(left), waves_of(right)
    if not same_tiles:
        per, words = basis(left_metrics, right_metrics, waves, "program")
    elif waves[0] != waves[1]:
        per, words = (1 / waves[0], 1 / waves[1]), "all waves of the workgroup together"
    else:
        per, words = (1, 1), "in the kernel, which has no loop"
    return Region(loop=None, left=left_metrics, right=right_metrics, per=per, basis=words)


def _as_region(kernel: KernelReport) -> Mapping[str, Metric]:
    """A kernel's metrics with the instruction count under the name that loops have for it."""
    total = kernel.metrics.get("instruction_count")
    return kernel.metrics if total is None else {**kernel.metrics, "count.instructions": total}


def of_pair(pair: LoopPair) -> Region | None:
    """The region of two loops; None where one side lacks it."""
    if pair.left is None or pair.right is None:
        return None
    return Region(
        loop=pair.left.id,
        left=pair.left.metrics,
        right=pair.right.metrics,
        per=pair.per,
        basis=pair.basis,
    )


def missing_loop(pair: LoopPair) -> FigureChange | None:
    """The change that reports a hot loop without a counterpart: its work cannot be compared."""
    if pair.left is not None and pair.right is not None:
        return None
    loop: LoopReport | None = pair.left if pair.left is not None else pair.right
    assert loop is not None
    start = loop.source[0] if loop.source else None
    where = f" at {start.file.rpartition('/')[2]}:{start.line}" if start is not None else ""
    left_id = pair.left.id if pair.left is not None else None
    right_id = pair.right.id if pair.right is not None else None
    side = "left" if pair.left is not None else "right"
    return FigureChange(
        name="loop",
        unit="",
        loop=left_id,
        left=left_id,
        right=right_id,
        judgement="unknown",
        matters=True,
        figures=f"hot loop {loop.id}{where} has no counterpart",
        reason=f"only the {side} has it",
    )


def region_changes(region: Region, setting: JudgementContext) -> Iterator[FigureChange]:
    """Yields the judged figures of a region that differ."""
    for name, judged in JUDGED.items():
        if judged.where == "loop":
            yield from _figure(name, judged, region, setting)
    yield from _matrix_kinds(region, setting)


def has_scratch(metrics: Mapping[str, Metric]) -> bool:
    """Tells whether a region spills or reloads."""
    return any(value_of(metrics, name) for name in SCRATCH)


def _figure(
    name: str, judged: JudgedFigure, region: Region, setting: JudgementContext
) -> Iterator[FigureChange]:
    """Yields the judgement of a figure, if it differs once divided by the work of each side."""
    left_value, right_value = value_of(region.left, name), value_of(region.right, name)
    metric_name = name
    if name == CYCLES and left_value is None and right_value is None:
        metric_name = "count.mfma"  # the cycles of these instructions are unknown: count them
        left_value, right_value = _matrix_count(region.left), _matrix_count(region.right)
    is_per_iteration = name.startswith(_PER_ITERATION)
    if left_value is None and right_value is None:
        return
    metric = region.left.get(metric_name) or region.right.get(metric_name)
    unit = metric.unit if metric is not None else ""
    matters = setting.tolerances.matters(name)
    left_raw, right_raw = number(left_value), number(right_value)

    def change(
        judgement: Judgement, figures: str, reason: str = "", *, weighs: bool = matters
    ) -> FigureChange:
        """Returns the change of this figure in this loop."""
        return FigureChange(
            name=metric_name,
            unit=unit,
            loop=region.loop,
            left=left_value,
            right=right_value,
            judgement=judgement,
            matters=weighs,
            figures=figures,
            reason=reason,
        )

    if left_raw is None or right_raw is None:
        # A width is unknown where there is no access of that kind, which is no gap in the report.
        if is_per_iteration:
            yield change("unknown", judged.words, "unknown on one side")
        return
    per = region.per if is_per_iteration else (1.0, 1.0)
    if per is None and 0 in (left_raw, right_raw):
        per = (1.0, 1.0)  # zero stays zero, whatever it is divided by
    if per is None:
        if left_raw != right_raw:
            yield change("unknown", judged.words, region.basis)
        return
    left_scaled, right_scaled = left_raw / per[0], right_raw / per[1]
    if abs(left_scaled - right_scaled) <= 1e-9 * max(abs(left_scaled), abs(right_scaled)):
        return
    figures = _words(
        judged.words,
        (left_raw, right_raw),
        (left_scaled, right_scaled),
        region.basis if is_per_iteration else "",
    )
    if not setting.same_arch and not judged.across_archs:
        yield change("shown", figures, _ELSEWHERE, weighs=False)
        return
    worse = (right_scaled > left_scaled) == (judged.better == "less")
    better_value, worse_value = (
        (left_scaled, right_scaled) if worse else (right_scaled, left_scaled)
    )
    if setting.tolerances.for_figure(name).allows(better_value, worse_value):
        yield change("neutral", f"{figures}, within the tolerance", weighs=False)
        return
    matrix_cycles = _hidden(region, (left_raw, right_raw)) if name == INSTRUCTIONS else None
    if matrix_cycles is not None and not setting.tolerances.is_stated(name):
        hidden = f"{figures}, beside at least {_short_number(matrix_cycles)} cycles of matrix work"
        yield change("neutral", hidden, weighs=False)
        return
    yield change("regression" if worse else "improvement", figures)


def _hidden(region: Region, counts: tuple[float, float]) -> float | None:
    """Returns the matrix cycles that hide the instructions of both sides; None if they do not.

    A wave issues at most one instruction in 4 cycles (CDNA: each SIMD has its turn every fourth
    cycle), and the matrix unit works meanwhile: so few instructions do not decide the time.
    """
    cycles = [number(value_of(side, CYCLES)) for side in (region.left, region.right)]
    known_cycles = [cycles_of_side for cycles_of_side in cycles if cycles_of_side is not None]
    fits = [
        cycles_of_side >= ISSUE_CYCLES * count
        for cycles_of_side, count in zip(known_cycles, counts, strict=False)
    ]
    return min(known_cycles) if len(known_cycles) == len(counts) and all(fits) else None


def _words(noun: str, raw: tuple[float, float], scaled: tuple[float, float], basis: str) -> str:
    figures = f"{_short_number(scaled[0])} → {_short_number(scaled[1])} {noun}"
    grown = (scaled[1] / scaled[0] - 1) * 100 if scaled[0] else None
    share = f" ({grown:+.{0 if abs(grown) >= 100 else 1}f} %)" if grown is not None else ""
    stated = f" {basis}" if basis else ""
    if basis and (raw != scaled):
        stated += f" ({_short_number(raw[0])} → {_short_number(raw[1])} per wave and ISA iteration)"
    return f"{figures}{stated}{share}"


def _short_number(number: float) -> str:
    return f"{round(number, 2):g}" if abs(number) < 1e5 else f"{number:.0f}"


def _matrix_kinds(region: Region, setting: JudgementContext) -> Iterator[FigureChange]:
    """Different matrix instructions: their cycles are judged elsewhere, this names them."""
    left_kinds, right_kinds = value_of(region.left, MATRIX), value_of(region.right, MATRIX)
    if not isinstance(left_kinds, Mapping) or not isinstance(right_kinds, Mapping):
        return
    if sorted(left_kinds) == sorted(right_kinds):
        return
    figures, reason = f"{_listed(left_kinds)} → {_listed(right_kinds)}", ""
    judgement: Judgement = "neutral" if setting.same_arch else "shown"
    matters = False
    if setting.same_arch and bool(left_kinds) != bool(right_kinds):
        judgement, matters = ("improvement" if right_kinds else "regression"), True
        reason = "the vector unit does the products now" if left_kinds else ""
    yield FigureChange(
        name=MATRIX,
        unit="",
        loop=region.loop,
        left=left_kinds,
        right=right_kinds,
        judgement=judgement,
        matters=matters,
        figures=figures,
        reason=reason,
    )


def _listed(kinds: Mapping[str, object]) -> str:
    return ", ".join(f"{count} × {name}" for name, count in kinds.items()) or "none"


def _matrix_count(metrics: Mapping[str, Metric]) -> int | None:
    counts = [value_of(metrics, name) for name in _MATRIX_COUNTS]
    known_counts = [n for n in counts if isinstance(n, int)]
    return sum(known_counts) if known_counts else None
