"""Judges the figures of a hot loop that differ, or those of a kernel that has no loop."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from msgspec import Struct
from msgspec.structs import replace

from ...metrics.mix import WIDEST_BITS
from ...model import KernelReport, LoopReport, Metric, MetricValue, value_of
from .diff_results import Basis, FigureChange, Judgement, LoopPair
from .loops import ALL_WAVES, basis_of, needed_work, waves_of
from .tolerances import JUDGED, JudgedFigure
from .verdicts import SCRATCH, DifferingFigure, JudgementContext, number

CYCLES = "cycles.mfma"
INSTRUCTIONS = "count.instructions"
ISSUE_CYCLES = 4
"""Cycles between two instructions of one wave on CDNA, at least; see `_hidden`."""
MATRIX = "matrix.instructions"
BOUND = "bound.cycles"
BOUND_AS_MEASURED = "per ISA iteration of all resident workgroups"
_MATRIX_COUNTS = ("count.mfma", "count.wmma")
_ELSEWHERE = "another target: other instructions"
_INTO_LDS = "lds_direct"
_WITH_LOADS_INTO_LDS = {f"vector_bits.{cls}.mean": cls for cls in ("global_load", "lds_write")}
"""Figures of accesses that a load past the registers, straight into LDS, takes the place of."""
_WIDEST_COPIES = "straight to LDS as wide as the target can"
_PER_ITERATION = ("count.", "cycles.", "lds.conflict_cycles")
"""Prefixes of figures that grow with the work of an iteration; the others are shares or widths."""


class Region(Struct, frozen=True):
    """The code of one loop on both sides, or of the whole kernel where neither has a loop.

    Args:
        loop: id of the left side's loop; None for the kernel.
        basis: what each side's figures are divided by.
        bound: cycles that the slowest unit takes for that work; None where unknown.
    """

    loop: str | None
    left: Mapping[str, Metric]
    right: Mapping[str, Metric]
    basis: Basis
    bound: tuple[float, float] | None = None

    @property
    def executed(self) -> str:
        """In words, what the figures are of as they are measured."""
        return "per wave" if self.loop is None else "per wave and ISA iteration"


def whole_kernel(left: KernelReport, right: KernelReport, *, same_tiles: bool = True) -> Region:
    """The region of a kernel without loops: all of it runs once.

    Args:
        same_tiles: whether their constexprs are the same, so that one program does the same work.
    """
    left_metrics, right_metrics = _as_region(left), _as_region(right)
    waves = waves_of(left), waves_of(right)
    if not same_tiles:
        basis = basis_of(left_metrics, right_metrics, waves, "program")
    elif needed_work(left_metrics, right_metrics) is not None:
        # Of the same tiles a program does the same, whatever it loads now.
        basis = basis_of(left_metrics, right_metrics, waves, ratio=waves[0] / waves[1])
    elif waves[0] != waves[1]:
        basis = Basis((1 / waves[0], 1 / waves[1]), ALL_WAVES)
    else:
        basis = Basis((1, 1), "in the kernel, which has no loop")
    return Region(None, left_metrics, right_metrics, basis)


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
        basis=pair.basis,
        bound=pair.bound_per_work,
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
    figures = f"hot loop {loop.id}{where} has no counterpart"
    missing = DifferingFigure("loop", "", left_id, right_id, left_id)
    return missing.change("unknown", figures, f"only the {side} has it", matters=True)


def region_changes(region: Region, context: JudgementContext) -> Iterator[FigureChange]:
    """Yields the judged figures of a region that differ."""
    for name, judged in JUDGED.items():
        if name == BOUND:
            yield from _bound(judged, region, context)
        elif judged.where == "loop":
            yield from _figure(name, judged, region, context)
    yield from _matrix_kinds(region, context)


def has_scratch(metrics: Mapping[str, Metric]) -> bool:
    """Tells whether a region spills or reloads."""
    return any(value_of(metrics, name) for name in SCRATCH)


def _bound(
    judged: JudgedFigure, region: Region, context: JudgementContext
) -> Iterator[FigureChange]:
    """Yields what the slowest unit takes, if it differs for the same work."""
    left, right = value_of(region.left, BOUND), value_of(region.right, BOUND)
    raw_left, raw_right = number(left), number(right)
    if raw_left is None or raw_right is None:
        return
    figure = DifferingFigure(BOUND, "cycles", left, right, region.loop)
    bound = region.bound
    if bound is None:
        # Without the needed work it is told only to those who set a budget for it.
        if not context.is_stated(BOUND):
            return
        divisors = region.basis.divisors
        if divisors is None:
            yield figure.change("unknown", judged.words, region.basis.words, matters=True)
            return
        bound = raw_left / divisors[0], raw_right / divisors[1]
    scaled = _ScaledFigure(
        BOUND,
        (raw_left, raw_right),
        bound,
        region.basis.words,
        BOUND_AS_MEASURED,
    )
    if not scaled.is_same:
        yield _judged(figure, scaled, region, context)


class _ScaledFigure(Struct, frozen=True):
    """A figure of a region on both sides, as measured and divided by the work of each side.

    Args:
        basis: in words, the unit of work that `scaled` is for; "" for shares and widths.
    """

    name: str
    raw: tuple[float, float]
    scaled: tuple[float, float]
    basis: str
    executed: str

    @property
    def is_same(self) -> bool:
        left, right = self.scaled
        return abs(left - right) <= 1e-9 * max(abs(left), abs(right))

    @property
    def text(self) -> str:
        """Both values in words, with the unit of work and the relative change."""
        per_wave = f" ({self._as_executed} {self.executed})" if self._as_executed else ""
        return self._text(f" {self.basis}{per_wave}" if self.basis else "")

    @property
    def brief(self) -> str:
        """`text` without the unit of work; both values as executed in brackets, per wave
        and ISA iteration where nothing else is said.
        """
        executed = f" {self.executed}" if self.executed == BOUND_AS_MEASURED else ""
        return self._text(f" ({self._as_executed}{executed})" if self._as_executed else "")

    @property
    def _as_executed(self) -> str:
        """The values of one wave's ISA iteration; "" where the compared ones are no others."""
        if not self.basis or self.raw == self.scaled:
            return ""
        return " → ".join(map(short_number, self.raw))

    @property
    def values(self) -> str:
        """Both values in words, and nothing else."""
        return f"{' → '.join(map(short_number, self.scaled))} {JUDGED[self.name].words}"

    def _text(self, basis: str) -> str:
        left, right = self.scaled
        grown = (right / left - 1) * 100 if left else None
        share = f" ({grown:+.{0 if abs(grown) >= 100 else 1}f} %)" if grown is not None else ""
        return f"{self.values}{basis}{share}"


def _figure(
    name: str, judged: JudgedFigure, region: Region, context: JudgementContext
) -> Iterator[FigureChange]:
    """Yields the judgement of a figure, if it differs once divided by the work of each side."""
    metric_name = name
    left, right = _value(region.left, name), _value(region.right, name)
    if name == CYCLES and left is None and right is None:
        metric_name = "count.mfma"  # the cycles of these instructions are unknown: count them
        left, right = _matrix_count(region.left), _matrix_count(region.right)
    if left is None and right is None:
        return
    metric = region.left.get(metric_name) or region.right.get(metric_name)
    unit = metric.unit if metric is not None else ""
    figure = DifferingFigure(metric_name, unit, left, right, region.loop)
    matters = context.tolerances.matters(name)
    is_per_iteration = name.startswith(_PER_ITERATION)
    raw_left, raw_right = number(left), number(right)
    if raw_left is None or raw_right is None:
        # A width is unknown where there is no access of that kind, which is no gap in the report.
        if is_per_iteration:
            matters &= not (raw_right == 0 and judged.better == "less")  # that is no regression
            yield figure.change("unknown", judged.words, "unknown on one side", matters=matters)
        return
    divisors = region.basis.divisors if is_per_iteration else (1.0, 1.0)
    if divisors is None and 0 in (raw_left, raw_right):
        divisors = (1.0, 1.0)  # zero stays zero, whatever it is divided by
    if divisors is None:
        if raw_left != raw_right:
            yield figure.change("unknown", judged.words, region.basis.words, matters=matters)
        return
    basis = region.basis.words if is_per_iteration else ""
    scaled = _ScaledFigure(
        name,
        (raw_left, raw_right),
        (raw_left / divisors[0], raw_right / divisors[1]),
        basis,
        region.executed,
    )
    if scaled.is_same:
        return
    if _is_equally_wide(name, region, context):
        yield _change(figure, scaled, "neutral", more=f", {_WIDEST_COPIES}")
        return
    yield _judged(figure, scaled, region, context)


def _is_equally_wide(name: str, region: Region, context: JudgementContext) -> bool:
    """Whether a mean width differs only because loads into LDS are as wide as the target has them.

    CDNA2 and CDNA3 copy 32 bits at a time there, and need no registers and no LDS write for it.
    """
    if name not in _WITH_LOADS_INTO_LDS:
        return False
    sides = region.left, region.right
    widths = [number(_value(side, name, widest=True)) for side in sides]
    known = [width for width in widths if width is not None]
    if len(known) < len(sides) or widths == [number(_value(side, name)) for side in sides]:
        return False
    return context.tolerances.for_figure(name).allows(max(known), min(known))


def _value(metrics: Mapping[str, Metric], name: str, *, widest: bool = False) -> MetricValue:
    """A figure of a region; loads into LDS count among those whose mean width it is."""
    cls = _WITH_LOADS_INTO_LDS.get(name)
    if cls is None or not value_of(metrics, f"count.{_INTO_LDS}"):
        return value_of(metrics, name)
    accesses = bits = 0.0
    for part in (cls, _INTO_LDS):
        count = number(value_of(metrics, f"count.{part}"))
        mean = number(value_of(metrics, f"vector_bits.{part}.mean"))
        if widest and part == _INTO_LDS and value_of(metrics, f"vectorized.{part}") == 1:
            mean = WIDEST_BITS
        if count and mean is None:
            return None
        accesses, bits = accesses + (count or 0), bits + (count or 0) * (mean or 0)
    return round(bits / accesses, 2)


def _judged(
    figure: DifferingFigure, scaled: _ScaledFigure, region: Region, context: JudgementContext
) -> FigureChange:
    """Judges a figure whose scaled values are known and differ."""
    name, (left, right) = scaled.name, scaled.scaled
    judged = JUDGED[name]
    if not context.same_arch and not judged.across_archs:
        return replace(_change(figure, scaled, "shown"), reason=_ELSEWHERE)
    worse = (right > left) == (judged.better == "less")
    # An amount that is allowed counts in one wave's iteration of the left, as it is executed.
    unit = scaled.raw[0] / left if left else scaled.raw[1] / right
    better_value, worse_value = sorted((left * unit, right * unit), reverse=judged.better == "more")
    if context.tolerances.for_figure(name).allows(better_value, worse_value):
        return _change(figure, scaled, "neutral", more=", within the tolerance")
    matrix_cycles = _hidden(region, scaled.raw) if name == INSTRUCTIONS else None
    if matrix_cycles is not None and not context.is_stated(name):
        hidden = f", beside at least {short_number(matrix_cycles)} cycles of matrix work"
        return _change(figure, scaled, "neutral", more=hidden)
    judgement: Judgement = "regression" if worse else "improvement"
    return replace(_change(figure, scaled, judgement), matters=context.tolerances.matters(name))


def _change(
    figure: DifferingFigure, scaled: _ScaledFigure, judgement: Judgement, *, more: str = ""
) -> FigureChange:
    """A figure's change in words; `more` is said behind it."""
    return figure.change(
        judgement,
        scaled.text + more,
        basis=scaled.basis,
        brief=scaled.brief + more,
        values=scaled.values,
    )


def _hidden(region: Region, counts: tuple[float, float]) -> float | None:
    """Returns the matrix cycles that hide the instructions of both sides; None if they do not.

    A wave issues at most one instruction in 4 cycles (CDNA: each SIMD has its turn every fourth
    cycle), and the matrix unit works meanwhile: so few instructions do not decide the time.
    """
    cycles = [number(value_of(side, CYCLES)) for side in (region.left, region.right)]
    known = [n for n in cycles if n is not None]
    if len(known) < len(counts):
        return None
    fits = all(n >= ISSUE_CYCLES * count for n, count in zip(known, counts, strict=True))
    return min(known) if fits else None


def short_number(value: float) -> str:
    """A figure in few digits: whole cycles and instructions from a thousand on."""
    return f"{round(value, 2):g}" if abs(value) < 1000 else f"{value:.0f}"


def _matrix_kinds(region: Region, context: JudgementContext) -> Iterator[FigureChange]:
    """Different matrix instructions: their cycles are judged elsewhere, this names them."""
    left_kinds, right_kinds = value_of(region.left, MATRIX), value_of(region.right, MATRIX)
    if not isinstance(left_kinds, Mapping) or not isinstance(right_kinds, Mapping):
        return
    if sorted(left_kinds) == sorted(right_kinds):
        return
    figures, reason = f"{_listed(left_kinds)} → {_listed(right_kinds)}", ""
    judgement: Judgement = "neutral" if context.same_arch else "shown"
    matters = False
    if context.same_arch and bool(left_kinds) != bool(right_kinds):
        judgement, matters = ("improvement" if right_kinds else "regression"), True
        reason = "the vector unit does the products now" if left_kinds else ""
    kinds = DifferingFigure(MATRIX, "", left_kinds, right_kinds, region.loop)
    yield kinds.change(judgement, figures, reason, matters=matters)


def _listed(kinds: Mapping[str, object]) -> str:
    return ", ".join(f"{count} × {name}" for name, count in kinds.items()) or "none"


def _matrix_count(metrics: Mapping[str, Metric]) -> int | None:
    counts = [value_of(metrics, name) for name in _MATRIX_COUNTS]
    known_counts = [n for n in counts if isinstance(n, int)]
    return sum(known_counts) if known_counts else None
