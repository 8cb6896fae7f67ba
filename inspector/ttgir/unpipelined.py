"""Loads that are not issued an iteration ahead of the dot that they feed, and the reasons.

Triton 3.9's pass for AMD (`TritonAMDGPUTransforms/ScheduleLoops.cpp`) handles `scf.for` alone, and
operations directly in its body, and on CDNA 1 to 3 leaves loads of fewer than 32 bits per lane in
place. An address that comes from another load does not prevent it: with two stages or more such
loads were issued ahead on gfx942, gfx950 and gfx1100, over one and two loads in a row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum

from ..model import TtgirModule, TtgirOp
from .axes.analysis import analyze
from .axes.graph import functions
from .axes.tiles import needed_values, tile_of
from .axes.widths import Layouts, limits_of
from .flow import DataFlow
from .queries import (
    DOTS,
    INDEXED_VIEWS,
    LOADS_TO_LDS,
    LOCAL_LOAD,
    LOCAL_STORE,
    REGISTER_LOADS,
    VIEWS,
)

LEAST_BITS = 32
KEEPS_NARROW = frozenset(("gfx908", "gfx90a", "gfx942"))
"""Targets on which narrow loads are not issued ahead (ScheduleLoops.cpp, filterSmallVectors)."""


class Cause(Enum):
    """The reason that a load stays in the iteration of its dot."""

    WHILE = "while"
    CONDITIONAL = "conditional"
    NARROW = "narrow"


def cause(flow: DataFlow, load: TtgirOp, dots: Sequence[TtgirOp], arch: str) -> Cause | None:
    """The first known reason that applies to a load; None if none does.

    `load`: a load in a loop with dots; `dots`: the dots that it reaches; `arch`: gfx name of the
    target.
    """
    loop = flow.loop[load.index]
    if loop is None:
        return None
    if flow.module.ops[loop].name == "scf.while":
        return Cause.WHILE
    if load.parent != loop or (dots and all(dot.parent != loop for dot in dots)):
        return Cause.CONDITIONAL
    if arch in KEEPS_NARROW and (_width(flow.module, load) or LEAST_BITS) < LEAST_BITS:
        return Cause.NARROW
    return None


def _width(module: TtgirModule, load: TtgirOp) -> int | None:
    """Bits per lane that one access of a load moves; None where that cannot be told."""
    for graph in functions(module):
        for op in graph.ops:
            tile = tile_of(op) if op.index == load.index else None
            if tile is not None:
                axes = analyze(graph, needed_values([tile]))
                limits = limits_of(tile, axes, Layouts())
                return None if limits is None else limits.width
    return None


def same_iteration(flow: DataFlow) -> set[int]:
    """Loads in loops with dots whose value reaches a dot of the same iteration.

    Carried values are left out, and so are loops around others with dots, which Triton does not
    pipeline. A buffer in LDS counts where the same part of it was written earlier in the loop's
    body.
    """
    outer: set[int | None] = {None}
    for index in flow.dot_loops:
        enclosing = flow.loop[index]
        while enclosing is not None:
            outer.add(enclosing)
            enclosing = flow.loop[enclosing]
    loads: dict[int, frozenset[int]] = {}  # value -> loads whose value it holds or is made of
    stored_loads: dict[_Location, frozenset[int]] = {}
    reaching: set[int] = set()
    for op in flow.module.ops:
        if not flow.in_dot_loop(op) or flow.loop[op.index] in outer:
            continue
        operands, results = flow.operands[op.index], flow.results[op.index]
        if op.name in DOTS:  # the accumulator is left out
            reaching |= _union(loads, (*operands[:2], *operands[3:]))
            continue
        sources = _union(loads, operands)
        if op.name in LOADS_TO_LDS:
            for value, operand_type in zip(operands, op.operand_types, strict=True):
                if operand_type.kind == "memdesc":
                    stored_loads[_location(flow, value)] = frozenset((op.index,))
        elif op.name in LOCAL_STORE and len(operands) > 1:
            stored_loads[_location(flow, operands[1])] = _union(loads, operands[:1])
        elif op.name in LOCAL_LOAD:
            stored = stored_loads.get(_location(flow, operands[0]), frozenset())
            sources = _union(loads, operands[:1]) | stored
        elif op.name in REGISTER_LOADS:
            sources = frozenset((op.index,))
        if sources:
            loads.update(dict.fromkeys(results, sources))
    return reaching


_Location = tuple[int, ...]
"""The value that a buffer is, and the indices of the views that select a part of it."""


def _location(flow: DataFlow, value: int) -> _Location:
    """The part of a buffer that a value is."""
    op = flow.op(value)
    if op is None or op.name not in VIEWS:
        return (value,)
    inner = _location(flow, flow.operands[op.index][0])
    return (*inner, *flow.operands[op.index][1:]) if op.name in INDEXED_VIEWS else inner


def _union(loads: Mapping[int, frozenset[int]], values: Sequence[int]) -> frozenset[int]:
    """The loads of several values."""
    return frozenset().union(*(loads.get(value, ()) for value in values))
