"""How often the loops of a Triton kernel go round, by the launch or by constant bounds."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Final

from .subject import Subject

MOST_WORKGROUPS: Final = 1 << 16
"""Of a launch, up to which the iterations of each are looked for."""


_FIRST_WORKGROUPS: Final = 32
"""Of a large launch the first ones along each axis: the last ones may have less to do."""


def most_iterations(subject: Subject) -> Mapping[int, int]:
    """Loop of the TTGIR, by its operation's index -> iterations of the workgroup with most of them.

    Loops whose iterations are not known are left out.
    """
    module, grid = subject.ttgir, subject.facts.grid
    if module is None:
        return {}
    # Only Triton kernels need it.
    from ..ttgir import queries

    if grid and prod(grid):
        from ..ttgir.executions import loop_runs

        if prod(grid) > MOST_WORKGROUPS:
            grid = tuple([min(extent, _FIRST_WORKGROUPS) for extent in grid])
        launch = loop_runs(module, subject.facts.values or {}, grid)
        return {run.op.index: int(run.iterations.max()) for run in launch}
    constants = queries.integer_constants(module)
    trips = {op.index: queries.constant_trips(op, constants) for op in module.ops}
    return {index: count for index, count in trips.items() if count is not None}
