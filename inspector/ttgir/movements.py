"""The movement of data by a `convert_layout`: between registers, between lanes, or through LDS.

Source: Triton 3.9, lib/Analysis/Utility.cpp (`minimalCvtLayout`, `cvtReordersRegisters`,
`cvtNeedsWarpShuffle`, `cvtNeedsSharedMemory`), which the AMD backend's allocation of LDS uses. A
conversion uses shuffles if it stays within the wave and exchanges at most one register bit for a
lane bit. The tests compare the outcome with the LDS that Triton allocates.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from ..model import TtgirOp
from .flow import DataFlow
from .layouts import type_to_linear
from .linear import Basis, LinearLayout, rank, solve

Movement = Literal["registers", "lanes", "lds"]
Movements = Mapping[int, Movement | None]
"""Index of each `convert_layout` -> the movement of its data."""
CONVERSIONS = frozenset(("ttg.convert_layout", "triton_gpu.convert_layout"))
_MOST_EXCHANGES = 1


def movements(flow: DataFlow) -> dict[int, Movement | None]:
    """The movement of each `convert_layout` of a module."""
    return {op.index: movement(op) for op in flow.module.ops if op.name in CONVERSIONS}


def movement(op: TtgirOp) -> Movement | None:
    """The movement of a `convert_layout`; None where a layout is not understood."""
    source, target = op.operand_types[0], op.result_types[0]
    if source.layout == target.layout:
        return "registers"
    source_layout, target_layout = type_to_linear(source), type_to_linear(target)
    if source_layout is None or target_layout is None:
        return None
    return movement_between(source_layout, target_layout)


def movement_between(source: LinearLayout, target: LinearLayout) -> Movement:
    """The movement of data from one layout to another.

    Each index bit of the target layout adds a step to the element's coordinates; the registers and
    lanes of the source layout that add the same step hold the data. A bit whose step no registers
    and lanes of the same wave add needs LDS.
    """
    bases = (*source.register, *source.lane)
    registers = (1 << len(source.register)) - 1
    wave_sources = [solve(v, bases) for v in _differences(source.warp, target.warp)]
    block_sources = [solve(v, bases) for v in _differences(source.block, target.block)]
    register_sources = [solve(v, bases) for v in target.register]
    if source.lane == target.lane:
        lane_sources: list[int | None] = [(registers + 1) << bit for bit in range(len(target.lane))]
    else:
        lane_sources = [solve(v, bases) for v in target.lane]
    if None in (*wave_sources, *block_sources, *register_sources, *lane_sources):
        return "lds"
    lane_parts = [index & ~registers for index in register_sources if index is not None]
    register_parts = [index & registers for index in lane_sources if index is not None]
    if any(index & registers for index in (*wave_sources, *block_sources) if index is not None):
        return "lds"  # each wave would have to send another register
    lanes_stay = all(index == (registers + 1) << bit for bit, index in enumerate(lane_sources))
    if lanes_stay and not any(lane_parts) and not any((*wave_sources, *block_sources)):
        return "registers"
    exchanged = max(_rank(lane_parts), _rank(register_parts))
    return "lanes" if exchanged <= _MOST_EXCHANGES else "lds"


def _rank(indices: Sequence[int]) -> int:
    return rank([(index & 0xFFFFFFFF,) for index in indices])


def _differences(source_bases: Sequence[Basis], target_bases: Sequence[Basis]) -> tuple[Basis, ...]:
    """The exclusive or of the two layouts' basis vectors, bit by bit; missing ones are zero."""
    longest = max(len(source_bases), len(target_bases))
    zero = (0,) * len((*source_bases, *target_bases)[0]) if longest else ()
    left_bases = (*source_bases, *(zero,) * (longest - len(source_bases)))
    right_bases = (*target_bases, *(zero,) * (longest - len(target_bases)))
    return tuple(
        tuple(a ^ b for a, b in zip(left_basis, right_basis, strict=True))
        for left_basis, right_basis in zip(left_bases, right_bases, strict=True)
    )
