"""Exchange between lanes, with scalar registers, and of two registers: readlane, permlane, swap.

Permutations that pass through the LDS crossbar (bpermute) are in `lds_crossbar.py`.
"""

from __future__ import annotations

import numpy as np

from ...isa.dataflow.operands import Decoded, Operand
from ..registry import BuildContext, NotCoveredError, Step, builds, builds_as
from ..vector_operands import Read, check_count, raw
from ..waves import U32, Array, Waves
from .scalar_operands import scalar_destination, scalar_source


def _values(read: Read, waves: Waves) -> Array:
    """An operand's values, [wave, lane], also where all lanes have the same one."""
    return np.broadcast_to(read(waves), (waves.count, waves.lanes))


def _scalars(read: Read, waves: Waves) -> Array:
    """A scalar operand's values, [wave], also where all waves have the same one."""
    return np.broadcast_to(read(waves), (waves.count,))


def _first_lanes(lanes: Array, *, other_row: bool) -> Array:
    """The first lane of each lane's row of 16, or of the neighbouring row."""
    return (lanes & ~15) ^ (16 if other_row else 0)


@builds("v_readfirstlane_b32")
def read_first_lane(decoded: Decoded, context: BuildContext) -> Step:
    """The value of the lowest active lane; of lane 0 where none is active."""
    read = raw(decoded.operands[1])
    write = scalar_destination(decoded.operands[0], "u32")

    def step(waves: Waves) -> None:
        values = _values(read, waves)
        if waves.full:
            write(waves, values[:, 0])
        else:
            write(waves, values[np.arange(waves.count), waves.active.argmax(1)])

    return step


@builds("v_readlane_b32")
def read_lane(decoded: Decoded, context: BuildContext) -> Step:
    """The value of one lane, active or not."""
    read = raw(decoded.operands[1])
    lane = scalar_source(decoded.operands[2], "u32")
    write = scalar_destination(decoded.operands[0], "u32")

    def step(waves: Waves) -> None:
        chosen = _scalars(lane, waves) & U32(waves.lanes - 1)
        values = _values(read, waves)
        write(waves, values[np.arange(waves.count), chosen])

    return step


@builds("v_writelane_b32")
def write_lane(decoded: Decoded, context: BuildContext) -> Step:
    """Writes a scalar to one lane, active or not."""
    check_count(decoded.operands[0], 1)
    row = decoded.operands[0].first
    value = scalar_source(decoded.operands[1], "u32")
    lane = scalar_source(decoded.operands[2], "u32")

    def step(waves: Waves) -> None:
        chosen = _scalars(lane, waves) & U32(waves.lanes - 1)
        waves.u32[row][np.arange(waves.count), chosen] = value(waves)

    return step


def _row_permutation(decoded: Decoded, context: BuildContext, *, other_row: bool) -> Step:
    """V_PERMLANE16, V_PERMLANEX16: lane i of a row reads the lane that nibble i of S2:S1 names.

    The X form reads the neighbouring row.
    """
    target, data, low, high = decoded.operands
    read = raw(data)
    selectors = [scalar_source(operand, "u32") for operand in (low, high)]
    lanes = np.arange(context.target.lanes)
    lane_in_row = (lanes & 15).astype(U32)
    row = _first_lanes(lanes, other_row=other_row)

    def origin(waves: Waves) -> Array:
        words = [_scalars(selector, waves)[:, None] for selector in selectors]
        word = np.where(lane_in_row < 8, words[0], words[1])
        return row + ((word >> (U32(4) * (lane_in_row & U32(7)))) & U32(15)).astype(np.int64)

    return _exchange(decoded, target, read, origin)


def _exchange(decoded: Decoded, target: Operand, read: Read, origin: Read) -> Step:
    """Lanes take the values of those that `origin` names, int64 [wave, lane].

    op_sel: bit 0 reads idle lanes too (FI), bit 1 gives 0 for them (BOUND_CTRL); with neither, a
    lane that would read an idle one keeps its value, as with DPP (RDNA3 ISA, 16.12).
    """
    check_count(target, 1)
    fetch_idle, zero_idle = decoded.bits("op_sel", 2)[:2]

    def step(waves: Waves) -> None:
        places = origin(waves)
        values = _values(read, waves)
        moved = np.take_along_axis(values, places, 1)
        if waves.full or fetch_idle:
            waves.write(target.first, moved)
            return
        usable = np.take_along_axis(waves.active, places, 1)
        if zero_idle:
            waves.write(target.first, np.where(usable, moved, U32(0)))
        else:
            # As a mask of bits: minus 1 is all ones.
            written = waves.bits & np.negative(usable.astype(U32))
            waves.write_where(target.first, moved, written)

    return step


builds_as("v_permlane16_b32", _row_permutation, other_row=False)
builds_as("v_permlanex16_b32", _row_permutation, other_row=True)


def _chosen_in_row(decoded: Decoded, context: BuildContext, *, other_row: bool) -> Step:
    """V_PERMLANE16_VAR, V_PERMLANEX16_VAR: each lane names its source in bits 3:0 of S1."""
    target, data, choice = decoded.operands
    read, choose = raw(data), raw(choice)
    lanes = np.arange(context.target.lanes)
    row = _first_lanes(lanes, other_row=other_row)

    def origin(waves: Waves) -> Array:
        chosen = _values(choose, waves) & U32(15)
        return row + chosen.astype(np.int64)

    return _exchange(decoded, target, read, origin)


builds_as("v_permlane16_var_b32", _chosen_in_row, other_row=False)
builds_as("v_permlanex16_var_b32", _chosen_in_row, other_row=True)


@builds("v_permlane64_b32")
def other_half(decoded: Decoded, context: BuildContext) -> Step:
    """V_PERMLANE64: the two halves of the wave change places."""
    read = raw(decoded.operands[1])
    origin = np.arange(context.target.lanes) ^ 32
    check_count(decoded.operands[0], 1)
    row = decoded.operands[0].first

    def step(waves: Waves) -> None:
        if waves.lanes == 64:
            values = _values(read, waves)
            waves.write(row, values[:, origin])

    return step


def _two_rows(decoded: Decoded) -> tuple[int, int]:
    """The rows of two operands of one register each."""
    first, second = decoded.operands
    for operand in (first, second):
        check_count(operand, 1)
    return first.first, second.first


def _swap(decoded: Decoded, context: BuildContext, width: int) -> Step:
    """V_PERMLANE16_SWAP, V_PERMLANE32_SWAP: odd rows of D change places with even rows of S0.

    Rows have `width` lanes (CDNA4 ISA, V_PERMLANE32_SWAP_B32). The document is silent on EXEC: a
    pair of lanes of which one is idle is refused.
    """
    first, second = _two_rows(decoded)
    lanes = np.arange(context.target.lanes)
    odd = (lanes // width) % 2 == 1
    other = lanes ^ width

    def step(waves: Waves) -> None:
        if not waves.full and (waves.active != waves.active[:, other]).any():
            raise NotCoveredError(f"{decoded.text} with one lane of a pair idle")
        first_values, second_values = waves.u32[first].copy(), waves.u32[second].copy()
        waves.write(first, np.where(odd, second_values[:, other], first_values))
        waves.write(second, np.where(odd, second_values, first_values[:, other]))

    return step


builds_as("v_permlane16_swap_b32", _swap, 16)
builds_as("v_permlane32_swap_b32", _swap, 32)


@builds("v_swap_b32")
def swap(decoded: Decoded, context: BuildContext) -> Step:
    """Two registers change places."""
    first, second = _two_rows(decoded)

    def step(waves: Waves) -> None:
        first_values, second_values = waves.u32[first].copy(), waves.u32[second].copy()
        waves.write(first, second_values)
        waves.write(second, first_values)

    return step


@builds("v_swap_b16")
def swap_halves(decoded: Decoded, context: BuildContext) -> Step:
    """`v_swap_b16 v1.l, v2.h`: two halves of registers change places."""
    if any(operand.half is None for operand in decoded.operands):
        raise NotCoveredError(decoded.text)
    rows = [operand.first for operand in decoded.operands]
    shifts = [U32(16 * (operand.half or 0)) for operand in decoded.operands]

    def step(waves: Waves) -> None:
        first_half, second_half = (
            (waves.u32[r] >> s) & U32(0xFFFF) for r, s in zip(rows, shifts, strict=True)
        )
        for row, shift, value in zip(rows, shifts, (second_half, first_half), strict=True):
            kept_half = waves.u32[row] & ~(U32(0xFFFF) << shift)
            waves.write(row, kept_half | (value << shift))

    return step
