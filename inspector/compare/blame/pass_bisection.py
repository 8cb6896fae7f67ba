"""The pass on TTGIR that is responsible, found by stopping one Triton's passes for the other's."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec import Struct

from ...compile.passes import CompilerPass, PassDump
from ..passdiff import aligned, different_options, name_of

STAGE = "ttgir"
Measure = Callable[[str, int, int], float | None]
"""The figure of a compile by the right build; None where it does not compile. Takes a module of the
left build, how many of the right build's passes on TTGIR are left out, and how many there are."""


class GuiltyPasses(Struct, frozen=True):
    """Passes of both builds between the last point with the right's figure and the next one.

    Args:
        name: the first of them, which both run; None if there is none.
    """

    name: str | None
    only_left: tuple[str, ...]
    only_right: tuple[str, ...]
    options: tuple[str, str] | None
    compiles: int


def guilty_passes(
    dumps: tuple[PassDump, PassDump], figures: tuple[float, float], measure: Measure
) -> GuiltyPasses | None:
    """Bisects the passes on TTGIR.

    Args:
        dumps: the passes of the left build, and of the right one over the same TTIR.
        figures: the figure where the left build has run all passes on TTGIR, and where the right
            one has.

    Returns:
        None if no point between compiles, or the dumps have no such passes.
    """
    left, right = ([p for p in dump.passes if p.stage == STAGE] for dump in dumps)
    if not left or not right:
        return None
    starts = left[0].index, right[0].index
    points = [
        (i, j)
        for i, j in aligned(left, right)
        if i > 0 and j > 0  # at the start the module is still TTIR
    ]
    cuts = [(0, 0), *points, (len(left), len(right))]
    low, high, compiles = 0, len(cuts) - 1, 0
    while high - low > 1:
        middle = (low + high) // 2
        i, j = cuts[middle]
        figure = measure(dumps[0].text(starts[0] + i), j, len(right))
        compiles += 1
        if figure is None:
            del cuts[middle]
            high -= 1
        elif abs(figure - figures[0]) < abs(figure - figures[1]):
            high = middle
        else:
            low = middle
    if len(cuts) == 2:
        return None
    (i, j), (next_i, next_j) = cuts[low], cuts[high]
    return _between(left[i:next_i], right[j:next_j], compiles)


def _between(
    left: Sequence[CompilerPass], right: Sequence[CompilerPass], compiles: int
) -> GuiltyPasses:
    names = [[name_of(item) for item in side] for side in (left, right)]
    if names[0][:1] != names[1][:1]:
        return GuiltyPasses(None, tuple(names[0]), tuple(names[1]), None, compiles)
    options = different_options(left[0], right[0])
    rest = [tuple(side[1:]) for side in names]
    return GuiltyPasses(names[0][0], rest[0], rest[1], options, compiles)
