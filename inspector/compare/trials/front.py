"""The Pareto front of what was tried on a kernel, the unchanged kernel included.

As for a sweep (`compare/sweep/pareto.py`), with what LDS conflicts and the slowest unit take. No
figure is a time: the front says which changes are worth measuring.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..sweep.pareto import Objective, loss, objectives_of, unbeaten
from .outcome import TrialFigures

CONFLICTS = Objective("lds_conflicts_per_work", False, "fewer cycles of LDS conflicts per work")
BOUND = Objective("bound_per_work", False, "fewer cycles of the slowest unit per work")
OWN = (CONFLICTS, BOUND)


def objectives(tried: Sequence[TrialFigures]) -> tuple[Objective, ...]:
    """By what kernels are compared.

    LDS conflicts are often unknown where registers spill, and would keep such a kernel on the
    front: like what units take they count only where they are known of all.
    """
    of_sweeps = objectives_of([one.figures for one in tried])
    known = (o for o in OWN if all(getattr(t, o.column) is not None for t in tried))
    return (*of_sweeps, *known)


def losses(figures: TrialFigures, aims: Sequence[Objective]) -> tuple[float | None, ...]:
    """The quantities to be minimised; None where one is unknown."""
    return tuple(
        getattr(figures, aim.column) if aim in OWN else loss(figures.figures, aim) for aim in aims
    )


def on_front(tried: Sequence[TrialFigures | None]) -> list[bool]:
    """For each whether no other one beats it; False for what failed or cannot be launched."""
    able = [one for one in tried if one is not None and one.figures.cannot_launch is None]
    aims = objectives(able)
    return unbeaten(
        [
            losses(one, aims) if one is not None and one.figures.cannot_launch is None else ()
            for one in tried
        ]
    )
