"""Reasons that a load is not issued an iteration ahead of the dot that it feeds.

Triton 3.9's pass for AMD (`TritonAMDGPUTransforms/ScheduleLoops.cpp`) handles `scf.for` alone, and
operations directly in its body, and on CDNA 1 to 3 leaves loads of fewer than 32 bits per lane in
place. An address that comes from another load does not prevent it: with two stages or more such
loads were issued ahead on gfx942, gfx950 and gfx1100, over one and two loads in a row.
"""

from __future__ import annotations

from enum import Enum

from ..model import TtgirModule, TtgirOp
from .axes.analysis import analyze
from .axes.graph import functions
from .axes.tiles import tile_of
from .axes.widths import Layouts, limits_of
from .flow import Flow
from .trips import Staging

LEAST_BITS = 32
KEEPS_NARROW = frozenset(("gfx908", "gfx90a", "gfx942"))
"""Targets on which narrow loads are not issued ahead (ScheduleLoops.cpp, filterSmallVectors)."""


class Cause(Enum):
    """The reason that a load stays in the iteration of its dot."""

    WHILE = "while"
    CONDITIONAL = "conditional"
    NARROW = "narrow"


def cause(flow: Flow, staging: Staging, load: TtgirOp, arch: str) -> Cause | None:
    """The first known reason that applies to a load; None if none does."""
    loop = flow.loop[load.index]
    if loop is None:
        return None
    if flow.module.ops[loop].name == "scf.while":
        return Cause.WHILE
    dots = [way.dot for way in staging.ways if way.load.index == load.index]
    if load.parent != loop or (dots and all(dot.parent != loop for dot in dots)):
        return Cause.CONDITIONAL
    if arch in KEEPS_NARROW and (_width(flow.module, load) or LEAST_BITS) < LEAST_BITS:
        return Cause.NARROW
    return None


def _width(module: TtgirModule, load: TtgirOp) -> int | None:
    """Bits per lane that one access of a load moves; None where that cannot be told."""
    for graph in functions(module):
        for op in graph.ops:
            if op.index == load.index:
                tile = tile_of(op)
                if tile is None:
                    return None
                addressing = (tile.pointer, tile.offsets, tile.mask)
                axes = analyze(graph, [name for name in addressing if name is not None])
                limits = limits_of(tile, axes, Layouts())
                return None if limits is None else limits.width
    return None
