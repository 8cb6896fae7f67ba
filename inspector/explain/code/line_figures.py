"""Figures of lines of code: what the columns beside a kernel's texts hold.

Everything stems from fields of the report. What instructions have is summed up for the lines of
the source and of the TTGIR that they stem from; of live registers and widths the worst is taken.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeVar

from msgspec import Struct, field

from ...model import KernelReport, LaneUse

if TYPE_CHECKING:
    from .links import Links

_T = TypeVar("_T")
_ONCE = 1e-4
"""Part of the hottest line's figure that the largest one outside of hot loops counts for."""
ByKind = Mapping[str, Mapping[int, float]]
"""Kind of text -> line, from 0 -> figure."""


class LineColumn(Struct, frozen=True):
    """A column that can stand beside code.

    Args:
        title: at its head, at most five characters.
        sentence: a format of a line's figure, `weight`, and of what stands in the column, `text`.
        is_cost: whether lines with most of it are hot unless the user chooses another column.
    """

    name: str
    title: str
    about: str
    sentence: str
    present: Callable[[KernelReport], bool]
    is_cost: bool = True


class LineFigures(Struct, frozen=True):
    """One column's figures.

    Args:
        texts: what stands in the column where that is not the figure.
        in_hot_loops: the part of a sum that stems from hot loops, of one iteration of each.
    """

    column: LineColumn
    weights: ByKind
    texts: Mapping[str, Mapping[int, str]] = field(default_factory=dict)
    in_hot_loops: ByKind = field(default_factory=dict)

    def text(self, kind: str, line: int) -> str:
        """What stands in the column; "" for nothing."""
        text = self.texts.get(kind, {}).get(line)
        if text is not None:
            return text
        weight = self.weights.get(kind, {}).get(line)
        return amount(weight) if weight is not None else ""

    def sentence(self, kind: str, line: int) -> str:
        """A line's figure in words; of a sum also how much of it hot loops execute."""
        weight = self.weights.get(kind, {}).get(line, 0)
        sentence = self.column.sentence.format(weight=weight, text=self.text(kind, line))
        if not any(self.in_hot_loops.get(kind, {}).values()):
            return sentence
        repeated = self.in_hot_loops[kind].get(line, 0)
        if repeated >= weight:
            return f"{sentence} in an iteration of each hot loop"
        if not repeated:
            return f"{sentence} outside of hot loops"
        return (
            f"{sentence}: {amount(repeated)} in an iteration of each hot loop, "
            f"{amount(weight - repeated)} outside"
        )

    def heat(self, kind: str) -> Mapping[int, float]:
        """How hot each line of a text is, in the column's unit.

        That is the line's figure. Where the text has sums of which hot loops execute a part, it is
        that part, and the rest counts for so little that it only orders lines that are otherwise
        equal: it is executed once where the part is executed in every iteration.
        """
        by_line, repeated = self.weights.get(kind, {}), self.in_hot_loops.get(kind, {})
        most = max(repeated.values(), default=0)
        if not most:
            return by_line
        once = most * _ONCE / max(by_line.values())
        return {line: repeated.get(line, 0) + weight * once for line, weight in by_line.items()}

    def hottest(self, kind: str, depth: Callable[[int], int]) -> tuple[int, ...]:
        """The lines with a figure, the hottest first; of equal ones those in deeper loops."""
        by_line = self.heat(kind)
        return tuple(
            sorted(
                (line for line, weight in by_line.items() if weight),
                key=lambda line: (-by_line[line], -depth(line), line),
            )
        )


def _has_lanes(report: KernelReport) -> bool:
    return report.emulated is not None and any(
        line.active_lanes is not None and line.active_lanes < 1 for line in report.emulated.lines
    )


def _has_bound(report: KernelReport) -> bool:
    units = [loop.metrics.get("bound.unit") for loop in report.loops]
    return any(unit is not None and unit.value not in (None, "latency") for unit in units)


def _excess(use: LaneUse) -> float | None:
    """Cache lines beyond the least; None where either is unknown."""
    if use.lines is None or use.lines_ideal is None:
        return None
    return use.lines - use.lines_ideal


COLUMNS: Mapping[str, LineColumn] = MappingProxyType(
    {
        column.name: column
        for column in (
            LineColumn(
                "stall",
                "stall",
                "share of what the kernel stalled, measured, %",
                "{weight:.1f} % of what was measured",
                lambda report: bool(report.measured_lines),
            ),
            LineColumn(
                "predicted",
                "pred%",
                "share of what the kernel stalls by the timing model, %, and for what",
                "{weight:.1f} % of the predicted stalls, mostly {text}",
                lambda report: report.time is not None and bool(report.time.instructions),
            ),
            LineColumn(
                "exec",
                "exec",
                "emulated: how often a wave executes the line (ISA), or its share of all"
                " executions, %",
                "{weight:.1f} % of the executed instructions",
                lambda report: report.emulated is not None,
            ),
            LineColumn(
                "spill",
                "spill",
                "accesses of spilled registers; in the ISA ↓ ↑ and their slot",
                "{weight:.0f} × a spilled register stored or reloaded",
                lambda report: bool(report.spills),
            ),
            LineColumn(
                "live",
                "vgpr",
                "live VGPRs, in the ISA with their curve and the budgets",
                "{text} live VGPRs",
                lambda report: report.live_peak is not None and bool(report.live_peak.counts),
                is_cost=False,
            ),
            LineColumn(
                "conflicts",
                "banks",
                "cycles that LDS bank conflicts add, one wave's access",
                "{text} cycles of LDS bank conflicts",
                lambda report: any(_conflict_cycles(report)),
            ),
            LineColumn(
                "lines",
                "lines",
                "cache lines beyond the least for the bytes, one wave's access",
                "{text} cache lines beyond the least",
                lambda report: any(_extra_cache_lines(report)),
            ),
            LineColumn(
                "bits",
                "bits",
                "bits a lane of accesses that could be wider",
                "{text} bits a lane, {weight:.0f} times as many would do",
                lambda report: any(_narrow(report)),
            ),
            LineColumn(
                "lanes",
                "lanes",
                "lanes active in an access, emulated, %",
                "{text} % of the lanes active",
                _has_lanes,
            ),
            LineColumn(
                "bound",
                "bound",
                "cycles of the unit that bounds the hot loop, one wave's",
                "{text} cycles of the unit that bounds the loop",
                _has_bound,
            ),
            LineColumn(
                "slack",
                "slack",
                "instructions between a wait and the youngest operation that it waits for",
                "{text} instructions between the wait and what it waits for",
                lambda report: any(_slacks(report)),
                is_cost=False,
            ),
        )
    }
)
"""All columns, in the order in which they stand unless the user chose another."""
DEFAULT = tuple(name for name in COLUMNS if name != "bound")


def chosen(names: Sequence[str], report: KernelReport) -> tuple[LineColumn, ...]:
    """The columns of these names, or the default ones, that the kernel has figures for."""
    known = [COLUMNS[name] for name in names if name in COLUMNS] or [COLUMNS[n] for n in DEFAULT]
    return tuple(column for column in known if column.present(report))


def amount(figure: float) -> str:
    """A figure in at most five characters; the decimals that fit."""
    if figure >= 99_999.5:
        return f"{figure / 1e6:.0f}M" if figure >= 999_500 else f"{figure / 1000:.0f}k"
    if figure == int(figure) or figure >= 100:
        return f"{figure:.0f}"
    return f"{figure:.1f}" if figure >= 1 else f"{figure:.2g}"


def line_figures(
    report: KernelReport,
    links: Links,
    *,
    shares: ByKind,
    predicted: Mapping[int, tuple[float, str]],
    executed: Mapping[int, str],
    cycles: Mapping[int, float],
) -> dict[str, LineFigures]:
    """The figures of all columns that a kernel has some for, by name.

    Shares are measured or emulated, %. `predicted` and `cycles` (of the unit that bounds the loop)
    are by line of the assembly from 1, `executed` (executions of a wave) from 0.
    """
    line_sums = _LineSums(links)
    figures: dict[str, LineFigures] = {}

    def add(name: str, weights: ByKind, texts: Mapping[str, Mapping[int, str]]) -> None:
        if COLUMNS[name].present(report):
            figures[name] = LineFigures(COLUMNS[name], weights, texts)

    def add_sums(
        name: str, by_line: Mapping[int, float], texts: Mapping[str, Mapping[int, str]]
    ) -> None:
        if COLUMNS[name].present(report):
            repeated = {n: figure for n, figure in by_line.items() if _in_hot_loop(report, n)}
            sums, in_hot_loops = line_sums.sums(by_line), line_sums.sums(repeated)
            figures[name] = LineFigures(COLUMNS[name], sums, texts, in_hot_loops)

    add("stall", shares, {})
    add(
        "predicted",
        line_sums.sums({line: share for line, (share, _) in predicted.items()}),
        line_sums.foremost(predicted),
    )
    if not report.measured_lines:
        add("exec", shares, {"amdgcn": executed})
    slots = {
        line: f"{sign}{'' if slot.offset is None else slot.offset}"
        for slot in report.spills
        for lines, sign in ((slot.reloads, "↑"), (slot.stores, "↓"))
        for line in lines
    }
    add_sums("spill", dict.fromkeys(slots, 1), {"amdgcn": _from_zero(slots)})
    add_sums("conflicts", dict(_conflict_cycles(report)), {})
    add_sums("lines", dict(_extra_cache_lines(report)), {})
    narrow = dict(_narrow(report))
    add(
        "bits",
        line_sums.worst({line: ratio for line, (ratio, _) in narrow.items()}),
        line_sums.least({line: bits for line, (_, bits) in narrow.items()}),
    )
    if report.emulated is not None:
        active = {
            line.line: 100 * line.active_lanes
            for line in report.emulated.lines
            if line.active_lanes is not None
        }
        off = {line: 100 - percent for line, percent in active.items()}
        rounded = {line: round(percent) for line, percent in active.items()}
        add("lanes", line_sums.worst(off), line_sums.least(rounded))
    if report.live_peak is not None:
        live = {line: vgprs for line, vgprs, _ in report.live_peak.counts}
        add("live", line_sums.worst(live), {})
    add("bound", line_sums.sums(cycles), {})
    slacks = dict(_slacks(report))
    add(
        "slack",
        line_sums.worst({line: 1 / (1 + slack) for line, slack in slacks.items()}),
        line_sums.least(slacks),
    )
    return figures


def _in_hot_loop(report: KernelReport, line: int) -> bool:
    """Whether the innermost loop around a line of the assembly, from 1, is a hot one."""
    around = [
        loop for loop in report.loops if any(first <= line <= last for first, last in loop.lines)
    ]
    return bool(around) and max(around, key=lambda loop: loop.depth).hot


def _conflict_cycles(report: KernelReport) -> Iterator[tuple[int, float]]:
    """Yields lines with LDS bank conflicts and the cycles these add, the emulator's last."""
    for op in report.memory_ops:
        if op.use is not None and op.use.conflicts:
            yield op.line, op.use.conflicts
    if report.emulated is not None:
        for line in report.emulated.lines:
            if line.conflict_cycles:
                yield line.line, line.conflict_cycles


def _extra_cache_lines(report: KernelReport) -> Iterator[tuple[int, float]]:
    """Yields lines whose accesses touch more cache lines than the least, and how many more."""
    for op in report.memory_ops:
        if op.use is not None and (excess := _excess(op.use)):
            yield op.line, excess
    if report.emulated is not None:
        for line in report.emulated.lines:
            if line.cache_lines is None or line.least_cache_lines is None:
                continue
            if line.cache_lines > line.least_cache_lines:
                yield line.line, line.cache_lines - line.least_cache_lines


def _narrow(report: KernelReport) -> Iterator[tuple[int, tuple[float, int]]]:
    """Yields lines of accesses that could be wider: how many times, and their bits a lane."""
    bits = {op.line: op.bits for op in report.memory_ops}
    for access in report.accesses:
        for line in access.lines:
            own = bits.get(line)
            if own and access.widest is not None and own < access.widest:
                yield line, (access.widest / own, own)


def _slacks(report: KernelReport) -> Iterator[tuple[int, int]]:
    """Yields lines of waits and the least number of instructions that hide what they wait for."""
    by_line: dict[int, int] = {}
    for wait in report.waits:
        if wait.slack is not None and wait.waits_for:
            by_line[wait.line] = min(wait.slack, by_line.get(wait.line, wait.slack))
    yield from by_line.items()


def _from_zero(texts: Mapping[int, str]) -> dict[int, str]:
    return {line - 1: text for line, text in texts.items()}


class _LineSums:
    """Carries figures of the assembly's lines over to the lines that they stem from."""

    def __init__(self, links: Links) -> None:
        self._links = links

    def _targets(self, line: int) -> Iterator[tuple[str, int]]:
        """The lines of all texts that a line of the assembly counts for."""
        yield "amdgcn", line
        for source_line in self._links.related("amdgcn", line, "source")[:1]:
            yield "source", source_line
        for ttgir_line in self._links.related("amdgcn", line, "ttgir"):
            yield "ttgir", ttgir_line

    def _joined(
        self, figures: Mapping[int, _T], join: Callable[[_T, _T], _T]
    ) -> dict[str, dict[int, _T]]:
        """What the figures of all instructions, by lines from 1, are together for each line."""
        by_kind: dict[str, dict[int, _T]] = {}
        for line, figure in figures.items():
            for kind, target in self._targets(line - 1):
                by_line = by_kind.setdefault(kind, {})
                by_line[target] = join(by_line[target], figure) if target in by_line else figure
        return by_kind

    def sums(self, figures: Mapping[int, float]) -> ByKind:
        """The sums of the figures of all instructions that stem from a line."""
        return self._joined(figures, operator.add)

    def worst(self, figures: Mapping[int, float]) -> ByKind:
        """The largest of the figures of all instructions that stem from a line."""
        return self._joined(figures, max)

    def foremost(self, figures: Mapping[int, tuple[float, str]]) -> dict[str, dict[int, str]]:
        """The text that has the largest sum of figures, of all instructions of a line."""

        def together(left: dict[str, float], right: dict[str, float]) -> dict[str, float]:
            return left | {text: left.get(text, 0) + figure for text, figure in right.items()}

        single = {line: {text: figure} for line, (figure, text) in figures.items()}
        return {
            kind: {line: max(sums, key=sums.__getitem__) for line, sums in by_line.items()}
            for kind, by_line in self._joined(single, together).items()
        }

    def least(self, figures: Mapping[int, int]) -> dict[str, dict[int, str]]:
        """The least of the numbers of all instructions that stem from a line, as texts."""
        return {
            kind: {line: str(figure) for line, figure in by_line.items()}
            for kind, by_line in self._joined(figures, min).items()
        }
