"""Hot loops of two reports of a kernel, side by side.

Loops belong together by the source lines that their code comes from, else by their order. A loop
that the compiler unrolled, or one of larger tiles, does more in one pass, so figures are compared
per needed work: what the source asks for (`work.macs`, `work.loaded`), not what is issued.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isclose

from ...model import KernelReport, LoopReport, Metric, number_of
from .results import LoopPair

_LEAST_OVERLAP = 0.25
"""Share of source lines in common below which lines do not tell that loops belong together."""
_WORK_METRICS = ("work.macs", "work.loaded")
"""Measures of the source's work; the first that neither side has as 0 or unknown is used."""
_MATRIX = ("count.mfma", "count.wmma")
_TRAFFIC = ("bytes.global_load", "bytes.lds_direct", "bytes.global_store")
"""Measures of issued traffic, which replace the source's work where that is unknown."""
_KINDS = "matrix.instructions"


def pair_loops(
    left: KernelReport, right: KernelReport, *, same_tiles: bool = True
) -> tuple[LoopPair, ...]:
    """The hot loops of both, in the order of the code; each in one pair.

    A hot loop may be paired with one that is not hot on the other side, where nothing else has
    its source lines.

    Args:
        left: a kernel's report.
        right: another one's of the same kernel.
        same_tiles: their constexprs are the same, so that one source iteration is the same work.
    """
    waves = waves_of(left), waves_of(right)
    hot = [[loop for loop in side.loops if loop.hot] for side in (left, right)]
    cold = [[loop for loop in side.loops if not loop.hot] for side in (left, right)]
    starts = _start(left), _start(right)
    matched, unmatched = _by_source(hot[0], hot[1], starts)
    if len(hot[0]) == len(hot[1]) and unmatched[0]:
        # As many as before and not at the same lines: the source was edited.
        matched = list(zip(*(sorted(side, key=_place) for side in hot), strict=True))
        unmatched = ([], [])
    for n in (0, 1):
        cold_pairs = _by_source(unmatched[n], cold[1 - n], (starts[n], starts[1 - n]))[0]
        matched += [(a, b) if n == 0 else (b, a) for a, b in cold_pairs]
        paired_ids = {id(a) for a, _ in cold_pairs}
        unmatched[n][:] = [loop for loop in unmatched[n] if id(loop) not in paired_ids]
    pairs = [LoopPair(a, b, *loop_basis(a, b, waves, same_tiles)) for a, b in matched]
    pairs.sort(key=lambda p: p.left.header_line if p.left is not None else 0)
    pairs += [LoopPair(loop, None, None, "") for loop in unmatched[0]]
    pairs += [LoopPair(None, loop, None, "") for loop in unmatched[1]]
    return tuple(pairs)


def _by_source(
    left_loops: Sequence[LoopReport], right_loops: Sequence[LoopReport], starts: tuple[int, int]
) -> tuple[list[tuple[LoopReport, LoopReport]], tuple[list[LoopReport], list[LoopReport]]]:
    """Pairs of the largest overlap first; equal ones in the order of the code. And the rest."""
    candidates = sorted(
        (-share, abs(i - j), i + j, i, j)
        for i, left_loop in enumerate(left_loops)
        for j, right_loop in enumerate(right_loops)
        if (share := _overlap(_lines(left_loop, starts[0]), _lines(right_loop, starts[1])))
        >= _LEAST_OVERLAP
    )
    left, right = set[int](), set[int]()
    pairs = []
    for _, _, _, i, j in candidates:
        if i not in left and j not in right:
            left.add(i)
            right.add(j)
            pairs.append((left_loops[i], right_loops[j]))
    unmatched = (
        [loop for i, loop in enumerate(left_loops) if i not in left],
        [loop for j, loop in enumerate(right_loops) if j not in right],
    )
    return pairs, unmatched


def _overlap(left_lines: set[tuple[str, int]], right_lines: set[tuple[str, int]]) -> float:
    """Source lines in common, of all that either has; 0 where a side has none."""
    return (
        len(left_lines & right_lines) / len(left_lines | right_lines)
        if left_lines and right_lines
        else 0.0
    )


def _lines(loop: LoopReport, start: int) -> set[tuple[str, int]]:
    """A loop's source lines relative to the kernel's first line, which may move in the file."""
    return {(at.file.rpartition("/")[2], at.line - start) for at in loop.source}


def _start(kernel: KernelReport) -> int:
    return kernel.source.line if kernel.source is not None else 0


def _place(loop: LoopReport) -> tuple[int, int]:
    """The order of loops in the source, then in the code."""
    return min((at.line for at in loop.source), default=0), loop.header_line


def loop_basis(
    left: LoopReport, right: LoopReport, waves: tuple[int, int], same_tiles: bool
) -> tuple[tuple[float, float] | None, str]:
    """The divisors that make the figures of both sides comparable, and their unit in words.

    Args:
        left: a loop.
        right: metrics of its counterpart.
        waves: waves of a workgroup on each side.
        same_tiles: the constexprs are the same.
    """
    left_iterations, right_iterations = _iterations(left), _iterations(right)
    if same_tiles and left_iterations and right_iterations:
        if waves[0] != waves[1]:
            per = (left_iterations / waves[0], right_iterations / waves[1])
            return per, "per source iteration, all waves of the workgroup together"
        single = left_iterations == right_iterations == 1
        words = "per iteration" if single else "per source iteration"
        return (left_iterations, right_iterations), words
    return basis(left.metrics, right.metrics, waves)


def _iterations(loop: LoopReport) -> float | None:
    """Source iterations in one pass of the loop."""
    return loop.unroll or number_of(loop.metrics, "work.iterations")


def basis(
    left: Mapping[str, Metric],
    right: Mapping[str, Metric],
    waves: tuple[int, int],
    each: str = "ISA iteration",
) -> tuple[tuple[float, float] | None, str]:
    """How the figures of two loops, or two kernels without one, relate to the work that they do.

    Args:
        left: figures of one wave and one pass.
        right: likewise.
        waves: waves of a workgroup on each side.
        each: name of the unit that the figures are of.

    Returns:
        What each side's figures are divided by, None where that cannot be told; and the words.
    """
    least_work = needed_work(left, right)
    if least_work is not None:
        ratio = least_work[1] / waves[1] / (least_work[0] / waves[0])
        if isclose(ratio, 1):
            return (1, 1), f"per {each}, in which both need the same work"
        return (1, ratio), f"per {each} of the left; {_words(ratio)}"
    # By other matrix instructions the same work is another number of them.
    same_kinds = _kinds(left) == _kinds(right)
    names = (*_MATRIX, *_TRAFFIC) if same_kinds else _TRAFFIC
    work = [(number_of(left, name), number_of(right, name)) for name in names]
    known_work = [(a, b) for a, b in work if a is not None and b is not None and (a or b)]
    if not known_work or all(a == b for a, b in known_work):
        # The same work in one pass, or none that could be counted: loops of plain arithmetic.
        return (1, 1), f"per {each}"
    if same_kinds and all(a and b for a, b in known_work):
        ratios = [b / a for a, b in known_work]
        if all(isclose(ratio, ratios[0], rel_tol=1e-3) for ratio in ratios):
            return (1, ratios[0]), f"per {each} of the left; {_words(ratios[0])}"
    return None, f"the two do not do the same work in one {each}"


def needed_work(
    left: Mapping[str, Metric], right: Mapping[str, Metric]
) -> tuple[float, float] | None:
    """The source's work in one iteration on each side, over all waves; None where unknown."""
    for name in _WORK_METRICS:
        a, b = number_of(left, name), number_of(right, name)
        if a is None or b is None:
            return None  # 0 says that there are no dots, and loads may tell; None does not
        if a and b:
            return a, b
        if a or b:
            return None
    return None


def _kinds(metrics: Mapping[str, Metric]) -> object:
    metric = metrics.get(_KINDS)
    value = metric.value if metric is not None else None
    return sorted(value) if isinstance(value, Mapping) else None


def _words(ratio: float) -> str:
    if ratio > 1:
        return f"one of the right does {ratio:g} times the work"
    return f"one of the right does 1/{1 / ratio:g} of the work"


def waves_of(kernel: KernelReport) -> int:
    """Waves of a workgroup; 1 where they are unknown, as both sides' are then."""
    metric = kernel.metrics.get("waves_per_workgroup")
    value = metric.value if metric is not None else None
    return value if isinstance(value, int) and value > 0 else 1
