"""The Pareto front of a table: the points that no other point beats.

A point beats another where it is at least as good in every objective and better in one. The
objectives are figures of the compiled code. None of them is a time, and no sum of them is one: the
front says which points are worth measuring, not which is fastest.

What the main loop does counts per needed work, which is the same for all points: work that a point
does beyond that, because waves repeat each other's or tiles are padded, makes it worse and not
better. An unknown figure neither beats nor is beaten, so a point with one stays on the front.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from msgspec import Struct

from .figures import Figures, Work


class Objective(Struct, frozen=True):
    """A figure, and whether more of it is better.

    Args:
        work: it counts per needed work of this kind; None: it does not.
    """

    column: str
    more: bool
    text: str
    work: Work | None = None


ALWAYS = (
    Objective("waves_per_eu", True, "more resident waves/SIMD"),
    Objective("vgpr_spills", False, "fewer spilled VGPRs"),
)
_PER_MACS = "per needed MMAC"
_PER_ELEMENTS = "per loaded kelem"
PER_WORK: dict[Work, tuple[Objective, ...]] = {
    "mac": (
        Objective("scratch_per_work", False, f"fewer scratch accesses in loops {_PER_MACS}", "mac"),
        Objective("matrix_cycles_per_work", False, f"fewer matrix cycles {_PER_MACS}", "mac"),
        Objective("full_waits_per_work", False, f"fewer full waits {_PER_MACS}", "mac"),
    ),
    "element": (
        Objective(
            "scratch_per_work", False, f"fewer scratch accesses in loops {_PER_ELEMENTS}", "element"
        ),
        Objective("full_waits_per_work", False, f"fewer full waits {_PER_ELEMENTS}", "element"),
    ),
}
_ON_MATRIX_UNIT = frozenset(("matrix_cycles_per_work", "full_waits_per_work"))


def objectives_of(figures: Sequence[Figures]) -> tuple[Objective, ...]:
    """The objectives by which these points are compared: those known of at least one of them."""
    matrix = any(f.matrix_per_iteration or f.work_unit == "mac" for f in figures)
    objectives = (*ALWAYS, *PER_WORK["mac" if matrix else "element"])
    return tuple(o for o in objectives if any(loss(f, o) is not None for f in figures))


def front(figures: Sequence[Figures | None]) -> list[bool]:
    """For each point whether it is on the front.

    A point that failed, cannot launch, or of which no objective is known, is not on it and keeps
    no other point off it.
    """
    able = [f for f in figures if f is not None and f.cannot_launch is None]
    objectives = objectives_of(able)
    losses = [
        tuple(loss(f, o) for o in objectives) if f is not None and not f.cannot_launch else ()
        for f in figures
    ]
    return unbeaten(losses)


def unbeaten(losses: Sequence[Sequence[float | None]]) -> list[bool]:
    """For each point whether no other one is at least as good in everything and better in one.

    Args:
        losses: of each point the quantities to be minimised, in one order; None where one is
            unknown, empty for points that do not take part.
    """
    complete = {full for point in losses if (full := _complete(point)) is not None}
    beaten = {point for point in complete if any(_beats(rival, point) for rival in complete)}
    return [
        tuple(point) not in beaten and any(part is not None for part in point) for point in losses
    ]


def unknown(figures: Figures | None, objectives: Sequence[Objective]) -> tuple[str, ...]:
    """The columns of the objectives that are not known of a point that could be launched."""
    if figures is None or figures.cannot_launch is not None:
        return ()
    return tuple(o.column for o in objectives if loss(figures, o) is None)


def loss(figures: Figures, objective: Objective) -> float | None:
    """The quantity to be minimised; None where it is unknown."""
    value = getattr(figures, objective.column)
    if objective.work == "mac" and figures.matrix_per_iteration == 0:
        # Its products are left to the vector unit where other points use the matrix unit: no
        # unknown, but the worst.
        if objective.column in _ON_MATRIX_UNIT:
            return math.inf
    elif value and objective.work is not None and figures.work_unit != objective.work:
        return None  # per work of another kind; none at all is none of either
    if value is None:
        return None
    return -float(value) if objective.more else float(value)


def _complete(losses: Sequence[float | None]) -> tuple[float, ...] | None:
    known = tuple(loss for loss in losses if loss is not None)
    return known if known and len(known) == len(losses) else None


def _beats(losses: tuple[float, ...], other_losses: tuple[float, ...]) -> bool:
    return losses != other_losses and all(a <= b for a, b in zip(losses, other_losses, strict=True))
