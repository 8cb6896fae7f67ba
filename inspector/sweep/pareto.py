"""The Pareto front of a table: the points that no other point beats.

A point is on the front when no other one is at least as good in every objective and better in one.
The objectives are figures of the compiled code. None of them is a time, and no sum of them is one:
the front says which points are worth measuring, not which is fastest.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from kinspect.inspector.sweep.figures import Figures


@dataclass(frozen=True, slots=True)
class Objective:
    """A figure, and whether more of it is better."""

    column: str
    more: bool
    text: str


MATRIX = Objective(
    "full_waits_per_1000_matrix_cycles", False, "fewer full waits per 1000 matrix cycles"
)
OBJECTIVES = (
    Objective("waves_per_eu", True, "more resident waves/EU"),
    Objective("scratch_in_loops", False, "fewer scratch accesses in loops"),
    Objective("vgpr_spills", False, "fewer spilled VGPRs"),
    MATRIX,
)
WITHOUT_MATRIX = Objective(
    "full_waits_per_iteration", False, "fewer full waits per iteration of the main loop"
)
"""In place of the one about matrix cycles, where no point has matrix instructions."""


def objectives_of(figures: Sequence[Figures]) -> tuple[Objective, ...]:
    """The objectives by which these points are compared: those known of at least one of them."""
    matrix = any(f.matrix_per_iteration for f in figures)
    asked = [o for o in OBJECTIVES if matrix or o is not MATRIX]
    if not matrix:
        asked.append(WITHOUT_MATRIX)
    return tuple(o for o in asked if any(_loss(f, o) is not None for f in figures))


def front(figures: Sequence[Figures | None]) -> list[bool]:
    """For each point whether it is on the front.

    A point that failed, cannot launch, or lacks a figure that others have, is not on it and keeps
    no other point off it.
    """
    able = [f for f in figures if f is not None and f.cannot_launch is None]
    objectives = objectives_of(able)
    if not objectives:
        return [False] * len(figures)
    losses: list[tuple[float, ...] | None] = []
    for one in figures:
        known = [] if one is None or one.cannot_launch else [_loss(one, o) for o in objectives]
        whole = [loss for loss in known if loss is not None]
        losses.append(tuple(whole) if len(whole) == len(objectives) else None)
    distinct = {loss for loss in losses if loss is not None}
    unbeaten = {
        one for one in distinct if not any(_beats(other, one) for other in distinct - {one})
    }
    return [loss in unbeaten if loss is not None else False for loss in losses]


def _loss(figures: Figures, objective: Objective) -> float | None:
    """What is to be as small as possible; None where it is unknown."""
    value = getattr(figures, objective.column)
    if value is None:
        # No matrix instruction where other points have some: that is no unknown but the worst.
        none = objective is MATRIX and figures.matrix_per_iteration == 0
        return math.inf if none else None
    return -float(value) if objective.more else float(value)


def _beats(one: tuple[float, ...], other: tuple[float, ...]) -> bool:
    return one != other and all(a <= b for a, b in zip(one, other, strict=True))
