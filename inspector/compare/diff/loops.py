"""Pairs the hot loops of two reports of a kernel, and makes their figures comparable.

Loops are paired by the source lines that their code comes from, else by their order. An iteration
of an unrolled loop, or one of larger tiles, does more work. Figures are therefore told per work
that the source needs (`work.macs`, `work.loaded`), which does not depend on the compiler, all waves
of the workgroup together: as `try` and `sweep` tell them. Only where it is unknown they are per
iteration.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from math import isclose
from types import MappingProxyType

from ...metrics.bounds import UNITS
from ...model import KernelReport, LoopReport, Metric, int_of, number_of
from ..sweep.figures import PORTION, Work
from .diff_results import Basis, LoopBound, LoopPair

_LEAST_OVERLAP = 0.25
"""Loops with a smaller share of source lines in common are not paired by their lines."""
_MOST_COMPARED = 1_000_000
"""Pairs of loops whose lines are compared, of two kernels."""
_WORK_METRICS: Mapping[Work, str] = MappingProxyType({"mac": "work.macs", "element": "work.loaded"})
"""Measures of the source's work; the first that is not 0 on both sides is compared."""
PER: Mapping[Work, str] = MappingProxyType({"mac": "per MMAC", "element": "per kelem"})
"""What figures are told per: a million multiply-accumulates, or a thousand loaded elements."""
ALL_WAVES = "all waves of the workgroup together"
_MATRIX = ("count.mfma", "count.wmma")
_TRAFFIC = ("bytes.global_load", "bytes.lds_direct", "bytes.global_store")
"""Measures of issued traffic, which replace the source's work where that is unknown."""
_KINDS = "matrix.instructions"


def pair_loops(
    left: KernelReport, right: KernelReport, *, same_tiles: bool = True
) -> tuple[LoopPair, ...]:
    """Pairs the hot loops of both reports, in the order of the code; each is in one pair.

    A hot loop may be paired with one that is not hot on the other side, where nothing else has
    its source lines.

    Args:
        same_tiles: whether the constexprs are the same, so that a source iteration is the same
            work.
    """
    waves = waves_of(left), waves_of(right)
    hot = [[loop for loop in side.loops if loop.hot] for side in (left, right)]
    cold = [[loop for loop in side.loops if not loop.hot] for side in (left, right)]
    starts = _start(left), _start(right)
    matched, unmatched = _by_source(hot[0], hot[1], starts)
    if len(hot[0]) == len(hot[1]) and unmatched[0]:
        # As many loops as before, but at other lines: the source was edited.
        matched = list(zip(*(sorted(side, key=_sort_key) for side in hot), strict=True))
        unmatched = ([], [])
    left_pairs, left_only = _by_source(unmatched[0], cold[1], starts)
    right_pairs, right_only = _by_source(unmatched[1], cold[0], (starts[1], starts[0]))
    matched += left_pairs + [(cold_loop, hot_loop) for hot_loop, cold_loop in right_pairs]
    resident = residents_of(left), residents_of(right)
    pairs = [
        _pair(
            left_loop,
            right_loop,
            loop_basis(left_loop, right_loop, waves, same_tiles),
            resident,
            waves,
        )
        for left_loop, right_loop in matched
    ]
    pairs.sort(key=lambda pair: pair.left.header.line if pair.left is not None else 0)
    pairs += [LoopPair(loop, None, Basis(None, "")) for loop in left_only[0]]
    pairs += [LoopPair(None, loop, Basis(None, "")) for loop in right_only[0]]
    return tuple(pairs)


def _by_source(
    left_loops: Sequence[LoopReport], right_loops: Sequence[LoopReport], starts: tuple[int, int]
) -> tuple[list[tuple[LoopReport, LoopReport]], tuple[list[LoopReport], list[LoopReport]]]:
    """Pairs loops by their source lines, those with the largest overlap first."""
    indices = paired_by_lines(
        [_lines(loop, starts[0]) for loop in left_loops],
        [_lines(loop, starts[1]) for loop in right_loops],
    )
    paired_left, paired_right = {left for left, _ in indices}, {right for _, right in indices}
    pairs = [(left_loops[left], right_loops[right]) for left, right in indices]
    unmatched = (
        [loop for left_index, loop in enumerate(left_loops) if left_index not in paired_left],
        [loop for right_index, loop in enumerate(right_loops) if right_index not in paired_right],
    )
    return pairs, unmatched


def paired_by_lines(
    left: Sequence[AbstractSet[tuple[str, int]]], right: Sequence[AbstractSet[tuple[str, int]]]
) -> list[tuple[int, int]]:
    """Pairs of indices of loops with source lines in common, the largest overlap first.

    Of very many loops those with the same lines are paired, in order.

    Args:
        left: source lines (file, line) of each loop of the left side.
    """
    if len(left) * len(right) > _MOST_COMPARED:
        return list(_paired_by_equal_lines(left, right))
    candidates = sorted(
        (-share, abs(left_index - right_index), left_index + right_index, left_index, right_index)
        for left_index, left_lines in enumerate(left)
        for right_index, right_lines in enumerate(right)
        if (share := _overlap(left_lines, right_lines)) >= _LEAST_OVERLAP
    )
    paired_left, paired_right = set[int](), set[int]()
    pairs = []
    for _, _, _, left_index, right_index in candidates:
        if left_index not in paired_left and right_index not in paired_right:
            paired_left.add(left_index)
            paired_right.add(right_index)
            pairs.append((left_index, right_index))
    return pairs


def _paired_by_equal_lines(
    left: Sequence[AbstractSet[tuple[str, int]]], right: Sequence[AbstractSet[tuple[str, int]]]
) -> Iterator[tuple[int, int]]:
    unpaired = defaultdict[frozenset[tuple[str, int]], deque[int]](deque)
    for right_index, lines in enumerate(right):
        unpaired[frozenset(lines)].append(right_index)
    for left_index, lines in enumerate(left):
        if lines and (indices := unpaired.get(frozenset(lines))):
            yield left_index, indices.popleft()


def _overlap(
    left_lines: AbstractSet[tuple[str, int]], right_lines: AbstractSet[tuple[str, int]]
) -> float:
    """Returns the share of common lines among the source lines of both; 0 if a side has none."""
    return (
        len(left_lines & right_lines) / len(left_lines | right_lines)
        if left_lines and right_lines
        else 0.0
    )


def _lines(loop: LoopReport, start: int) -> set[tuple[str, int]]:
    """Returns a loop's source lines relative to the kernel's first line, which may move."""
    return {(location.file.rpartition("/")[2], location.line - start) for location in loop.source}


def _start(kernel: KernelReport) -> int:
    return kernel.source.line if kernel.source is not None else 0


def _sort_key(loop: LoopReport) -> tuple[int, int]:
    """Returns a loop's first source line and its line in the assembly."""
    return min((location.line for location in loop.source), default=0), loop.header.line


def _pair(
    left: LoopReport,
    right: LoopReport,
    basis: Basis,
    resident: tuple[int | None, int | None],
    waves: tuple[int, int],
) -> LoopPair:
    """Two loops that do the same work, with what the slowest unit of each takes for it."""
    units = [
        unit
        for unit in UNITS
        if all(number_of(loop.metrics, f"bound.{unit}") is not None for loop in (left, right))
    ]
    bounds = _bound(left, resident[0], units), _bound(right, resident[1], units)
    return LoopPair(left, right, basis, bounds, waves)


def loop_basis(
    left: LoopReport, right: LoopReport, waves: tuple[int, int], same_tiles: bool
) -> Basis:
    """What makes the figures of two loops comparable.

    Args:
        same_tiles: whether the constexprs are the same: then a source iteration is the same work,
            whatever it loads now.
    """
    left_iterations, right_iterations = _iterations(left), _iterations(right)
    if same_tiles and left_iterations and right_iterations:
        per = left_iterations / waves[0], right_iterations / waves[1]
        per_work = _per_work(left.metrics, right.metrics, waves, per[1] / per[0])
        if per_work is not None:
            return per_work
        if waves[0] != waves[1]:
            return Basis(per, f"per source iteration, {ALL_WAVES}")
        single = left_iterations == right_iterations == 1
        words = "per iteration" if single else "per source iteration"
        return Basis((left_iterations, right_iterations), words)
    return basis_of(left.metrics, right.metrics, waves)


def _iterations(loop: LoopReport) -> float | None:
    """Returns the source iterations in an iteration of the ISA loop; None if unknown."""
    return loop.unroll or number_of(loop.metrics, "work.iterations")


def basis_of(
    left: Mapping[str, Metric],
    right: Mapping[str, Metric],
    waves: tuple[int, int],
    unit: str = "ISA iteration",
    ratio: float | None = None,
) -> Basis:
    """Relates the figures of two loops, or two kernels without one, to the work that they do.

    Args:
        left: metrics of one iteration of one wave on the left.
        unit: what the figures are per, in words, where the source's work is unknown.
        ratio: how many times the left wave's work a wave of the right does; None: as the work is.
    """
    per_work = _per_work(left, right, waves, ratio)
    return per_work if per_work is not None else _issued_basis(left, right, unit)


def _per_work(
    left: Mapping[str, Metric],
    right: Mapping[str, Metric],
    waves: tuple[int, int],
    ratio: float | None,
) -> Basis | None:
    """Figures per work that the source needs; None where that is unknown. See `basis_of`."""
    work = needed_work(left, right)
    if work is None:
        return None
    kind, (left_work, right_work) = work
    per = left_work / waves[0] / PORTION[kind]
    needed = right_work / waves[1] / (left_work / waves[0])
    if ratio is None or isclose(ratio, needed):
        return Basis((per, per * needed), f"{PER[kind]}, {ALL_WAVES}", kind)
    # The edited source needs another amount of it in the same iteration.
    return Basis((per, per * ratio), f"{PER[kind]} of the left, {ALL_WAVES}", kind)


def _issued_basis(left: Mapping[str, Metric], right: Mapping[str, Metric], unit: str) -> Basis:
    """Relates figures to the work that is issued, where the source's is unknown; see `basis_of`."""
    # Different matrix instructions do the same work in different numbers: do not count them then.
    same_kinds = _kinds(left) == _kinds(right)
    names = (*_MATRIX, *_TRAFFIC) if same_kinds else _TRAFFIC
    amounts = [(number_of(left, name), number_of(right, name)) for name in names]
    known = [(a, b) for a, b in amounts if a is not None and b is not None and (a or b)]
    if all(a == b for a, b in known):
        # Both issue the same, or nothing that is counted here (loops of plain arithmetic).
        return Basis((1, 1), f"per {unit}")
    if same_kinds and all(a and b for a, b in known):
        ratios = [b / a for a, b in known]
        if all(isclose(ratio, ratios[0], rel_tol=1e-3) for ratio in ratios):
            return Basis((1, ratios[0]), f"per {unit} of the left; {_ratio_text(ratios[0])}")
    return Basis(None, f"the two do not do the same work in one {unit}")


def needed_work(
    left: Mapping[str, Metric], right: Mapping[str, Metric]
) -> tuple[Work, tuple[float, float]] | None:
    """Returns the source's work in an iteration on each side, over all waves; None if unknown."""
    for kind, name in _WORK_METRICS.items():
        left_work, right_work = number_of(left, name), number_of(right, name)
        if left_work is None or right_work is None:
            return None  # only 0 means that there are no dots and loads can be compared instead
        if left_work and right_work:
            return kind, (left_work, right_work)
        if left_work or right_work:
            return None
    return None


def _kinds(metrics: Mapping[str, Metric]) -> object:
    metric = metrics.get(_KINDS)
    value = metric.value if metric is not None else None
    return sorted(value) if isinstance(value, Mapping) else None


def _ratio_text(ratio: float) -> str:
    if ratio > 1:
        return f"one of the right does {ratio:g} times the work"
    return f"one of the right does 1/{1 / ratio:g} of the work"


def waves_of(kernel: KernelReport) -> int:
    """Returns the waves of a workgroup; 1 if they are unknown, as both sides' are then."""
    metric = kernel.metrics.get("waves_per_workgroup")
    value = metric.value if metric is not None else None
    return value if isinstance(value, int) and value > 0 else 1


def residents_of(kernel: KernelReport) -> int | None:
    """Returns the workgroups that are resident on a CU; None if unknown, or if none fits."""
    return int_of(kernel.metrics, "occupancy.workgroups_per_cu") or None


def _bound(loop: LoopReport, resident: int | None, units: Sequence[str]) -> LoopBound | None:
    """What the slowest of some units takes in an iteration of one of the resident workgroups."""
    if resident is None or not units:
        return None
    cycles = {unit: number_of(loop.metrics, f"bound.{unit}") or 0.0 for unit in units}
    unit = max(units, key=lambda unit: cycles[unit])
    return LoopBound(unit, cycles[unit], resident)
