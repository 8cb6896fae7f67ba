"""What to think of the figures of a hot loop that differ, or of a kernel that has no loop."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from msgspec import Struct

from ...model import KernelReport, LoopReport, Metric, value_of
from .loops import basis, waves_of
from .results import Change, Judgement, LoopPair
from .tolerances import JUDGED, Judged
from .verdicts import SCRATCH, Setting, number

CYCLES = "cycles.mfma"
INSTRUCTIONS = "count.instructions"
ISSUE_CYCLES = 4
MATRIX = "matrix.instructions"
_MATRIX_COUNTS = ("count.mfma", "count.wmma")
_ELSEWHERE = "another target: other instructions"
_PER_ITERATION = ("count.", "cycles.", "lds.conflict_cycles")
"""Prefixes of figures that grow with the work of an iteration; the others are shares and widths."""


class Region(Struct, frozen=True):
    """The code of one loop on both sides, or of the whole kernel where neither has a loop.

    Args:
        loop: id of the left side's loop; None for the kernel.
        left: figures of the left side.
        right: figures of the right side.
        per: see `LoopPair.per`.
        basis: in words, what a figure is per.
    """

    loop: str | None
    left: Mapping[str, Metric]
    right: Mapping[str, Metric]
    per: tuple[float, float] | None
    basis: str


def whole_kernel(left: KernelReport, right: KernelReport, *, same_tiles: bool = True) -> Region:
    """The region of a kernel without loops: all of it runs once.

    Args:
        left: a kernel's report.
        right: another one's of the same kernel.
        same_tiles: their constexprs are the same, so that one program does the same work.
    """
    left_metrics, right_metrics = _as_region(left), _as_region(right)
    waves = waves_of(left), waves_of(right)
    if not same_tiles:
        return Region(
            None, left_metrics, right_metrics, *basis(left_metrics, right_metrics, waves, "program")
        )
    if waves[0] != waves[1]:
        per = (1 / waves[0], 1 / waves[1])
        return Region(None, left_metrics, right_metrics, per, "all waves of the workgroup together")
    return Region(None, left_metrics, right_metrics, (1, 1), "in the kernel, which has no loop")


def _as_region(kernel: KernelReport) -> Mapping[str, Metric]:
    total = kernel.metrics.get("instruction_count")
    return kernel.metrics if total is None else {**kernel.metrics, "count.instructions": total}


def of_pair(pair: LoopPair) -> Region | None:
    """The region of two loops; None where one side lacks it."""
    if pair.left is None or pair.right is None:
        return None
    return Region(pair.left.id, pair.left.metrics, pair.right.metrics, pair.per, pair.basis)


def missing_loop(pair: LoopPair) -> Change | None:
    """A hot loop without a counterpart: what happened to its work cannot be told."""
    if pair.left is not None and pair.right is not None:
        return None
    loop: LoopReport | None = pair.left if pair.left is not None else pair.right
    assert loop is not None
    at = loop.source[0] if loop.source else None
    where = f" at {at.file.rpartition('/')[2]}:{at.line}" if at is not None else ""
    side = "left" if pair.left is not None else "right"
    ids = [p.id if p is not None else None for p in (pair.left, pair.right)]
    return Change(
        *("loop", "", ids[0], ids[0], ids[1], "unknown", True),
        *(f"hot loop {loop.id}{where} has no counterpart", f"only the {side} has it"),
    )


def region_changes(region: Region, setting: Setting) -> Iterator[Change]:
    """The judged figures of a region that differ."""
    for name, judged in JUDGED.items():
        if judged.where == "loop":
            yield from _figure(name, judged, region, setting)
    yield from _kinds(region, setting)


def has_scratch(metrics: Mapping[str, Metric]) -> bool:
    """Whether the region spills or reloads."""
    return any(value_of(metrics, name) for name in SCRATCH)


def _figure(name: str, judged: Judged, region: Region, setting: Setting) -> Iterator[Change]:
    left_value, right_value = value_of(region.left, name), value_of(region.right, name)
    metric_name = name
    if name == CYCLES and left_value is None and right_value is None:
        metric_name = "count.mfma"  # no cycles known of these instructions: their number
        left_value, right_value = _matrix(region.left), _matrix(region.right)
    grows = name.startswith(_PER_ITERATION)
    if left_value is None and right_value is None:
        return
    metric = region.left.get(metric_name) or region.right.get(metric_name)
    unit = metric.unit if metric is not None else ""
    matters = setting.tolerances.matters(name)
    a, b = number(left_value), number(right_value)

    def change(
        judgement: Judgement, figures: str, reason: str = "", *, weighs: bool = matters
    ) -> Change:
        return Change(
            *(metric_name, unit, region.loop, left_value, right_value),
            *(judgement, weighs, figures, reason),
        )

    if a is None or b is None:
        # Widths have no figure where there is no such access: no fault of the report.
        if grows:
            yield change("unknown", judged.words, "unknown on one side")
        return
    per = region.per if grows else (1.0, 1.0)
    if per is None and 0 in (a, b):
        per = (1.0, 1.0)  # none at all is none, however much is done
    if per is None:
        if a != b:
            yield change("unknown", judged.words, region.basis)
        return
    x, y = a / per[0], b / per[1]
    if abs(x - y) <= 1e-9 * max(abs(x), abs(y)):
        return
    figures = _words(judged.words, (a, b), (x, y), region.basis if grows else "")
    if not setting.same_arch and not judged.across_archs:
        yield change("shown", figures, _ELSEWHERE, weighs=False)
        return
    worse = (y > x) == (judged.better == "less")
    better_value, worse_value = (x, y) if worse else (y, x)
    if setting.tolerances.of(name).allows(better_value, worse_value):
        yield change("neutral", f"{figures}, within the tolerance", weighs=False)
        return
    hiding = _hidden(region, (a, b)) if name == INSTRUCTIONS else None
    if hiding is not None and not setting.tolerances.is_stated(name):
        hidden = f"{figures}, beside at least {_g(hiding)} cycles of matrix work"
        yield change("neutral", hidden, weighs=False)
        return
    yield change("regression" if worse else "improvement", figures)


def _hidden(region: Region, counts: tuple[float, float]) -> float | None:
    """The matrix cycles beside which the instructions of both sides fit; None if they do not.

    A wave issues one instruction in 4 cycles at most (CDNA: each SIMD has its turn every fourth
    cycle), and the matrix unit works on meanwhile: so few instructions do not decide the time.
    """
    cycles = [number(value_of(side, CYCLES)) for side in (region.left, region.right)]
    known_cycles = [c for c in cycles if c is not None]
    fits = [c >= ISSUE_CYCLES * n for c, n in zip(known_cycles, counts, strict=False)]
    return min(known_cycles) if len(known_cycles) == len(counts) and all(fits) else None


def _words(noun: str, raw: tuple[float, float], each: tuple[float, float], basis: str) -> str:
    figures = f"{_g(each[0])} → {_g(each[1])} {noun}"
    grown = (each[1] / each[0] - 1) * 100 if each[0] else None
    share = f" ({grown:+.{0 if abs(grown) >= 100 else 1}f} %)" if grown is not None else ""
    stated = f" {basis}" if basis else ""
    if basis and (raw != each):
        stated += f" ({_g(raw[0])} → {_g(raw[1])} per wave and ISA iteration)"
    return f"{figures}{stated}{share}"


def _g(number: float) -> str:
    return f"{round(number, 2):g}" if abs(number) < 1e5 else f"{number:.0f}"


def _kinds(region: Region, setting: Setting) -> Iterator[Change]:
    """Other matrix instructions: their cycles judge them, the names are said."""
    left_kinds, right_kinds = value_of(region.left, MATRIX), value_of(region.right, MATRIX)
    if not isinstance(left_kinds, Mapping) or not isinstance(right_kinds, Mapping):
        return
    if sorted(left_kinds) == sorted(right_kinds):
        return
    moved, reason = f"{_list(left_kinds)} → {_list(right_kinds)}", ""
    judgement: Judgement = "neutral" if setting.same_arch else "shown"
    matters = False
    if setting.same_arch and bool(left_kinds) != bool(right_kinds):
        judgement, matters = ("improvement" if right_kinds else "regression"), True
        reason = "the vector unit does the products now" if left_kinds else ""
    yield Change(
        MATRIX, "", region.loop, left_kinds, right_kinds, judgement, matters, moved, reason
    )


def _list(kinds: Mapping[str, object]) -> str:
    return ", ".join(f"{count} × {name}" for name, count in kinds.items()) or "none"


def _matrix(metrics: Mapping[str, Metric]) -> int | None:
    counts = [value_of(metrics, name) for name in _MATRIX_COUNTS]
    known_counts = [n for n in counts if isinstance(n, int)]
    return sum(known_counts) if known_counts else None
