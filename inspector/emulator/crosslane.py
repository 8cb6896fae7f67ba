"""DPP and SDWA: what happens to a source's 32 bits before an instruction uses them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from ..isa.dataflow.execution_target import ExecutionTarget
from ..isa.dataflow.operands import DPP_CONTROLS, Decoded, Operand
from . import numbers
from .waves import U32, Array, Waves

Change = Callable[[Waves, Array], Array]


class _LaneOrigins:
    """Where each lane reads.

    `origin`: the lane that it reads, int64 [lane]. `valid`: whether such a lane exists, bool
    [lane].
    """

    def __init__(self, origin: Array, valid: Array) -> None:
        self.origin = np.where(valid, origin, 0)
        self.valid = valid


def _control(decoded: Decoded) -> str | None:
    """Returns the name of an instruction's DPP control; None without DPP."""
    for name in decoded.modifiers:
        if name in DPP_CONTROLS:
            return name
    return None


def _origins_of(decoded: Decoded, lanes: int) -> _LaneOrigins | None:
    """The lanes that a DPP control reads (CDNA3 ISA, 13.3.9 "DPP"; RDNA3 ISA, 7.7)."""
    control = _control(decoded)
    if control is None:
        return None
    lane = np.arange(lanes)
    row, lane_in_row = lane & ~15, lane & 15
    every = np.ones(lanes, bool)
    text = decoded.modifiers[control]
    if control in ("quad_perm", "dpp8"):
        chosen = np.array(decoded.numbers(control, ()))
        return _LaneOrigins((lane & -len(chosen)) + chosen[lane % len(chosen)], every)
    amount = int(text, 0) if text else 0
    if control == "row_shl":
        return _LaneOrigins(lane + amount, lane_in_row + amount < 16)
    if control == "row_shr":
        return _LaneOrigins(lane - amount, lane_in_row >= amount)
    if control == "row_ror":
        return _LaneOrigins(row + ((lane_in_row - amount) & 15), every)
    if control == "row_mirror":
        return _LaneOrigins(row + 15 - lane_in_row, every)
    if control == "row_half_mirror":
        return _LaneOrigins((lane & ~7) + 7 - (lane & 7), every)
    if control in ("row_share", "row_newbcast"):
        return _LaneOrigins(row + amount, every)
    if control == "row_xmask":
        return _LaneOrigins(row + (lane_in_row ^ amount), every)
    if control == "row_bcast":
        if amount == 15:
            return _LaneOrigins(row - 1, row > 0)
        return _LaneOrigins(np.full(lanes, 31), lane > 31)
    if control == "wave_shl":
        return _LaneOrigins(lane + 1, lane + 1 < lanes)
    if control == "wave_shr":
        return _LaneOrigins(lane - 1, lane > 0)
    if control == "wave_rol":
        return _LaneOrigins((lane + 1) % lanes, every)
    return _LaneOrigins((lane - 1) % lanes, every)


def _zero_fill(decoded: Decoded, target: ExecutionTarget) -> bool:
    """Whether an invalid source reads 0; otherwise its lane is not written.

    `bound_ctrl:1`; up to gfx10 also `:0`, as LLVM before 13 printed it. With dpp8, idle lanes
    always read 0 (LLVM's AMDGPUModifierSyntax, "bound_ctrl" and "fi").
    """
    asked = decoded.modifiers.get("bound_ctrl")
    if asked == "0" and target.generation >= 11:
        return False
    return asked is not None or "dpp8" in decoded.modifiers


def first_operand(decoded: Decoded, target: ExecutionTarget) -> Change | None:
    """DPP's rearrangement of the first source; None where the instruction has none."""
    pattern = _origins_of(decoded, target.lanes)
    if pattern is None:
        return None
    origin, valid = pattern.origin, pattern.valid
    everywhere = bool(valid.all())
    fetch_inactive = decoded.modifiers.get("fi") == "1"

    def change(waves: Waves, bits: Array) -> Array:
        moved = np.broadcast_to(bits, (waves.count, waves.lanes))[:, origin]
        if not waves.full and not fetch_inactive:
            usable = waves.active[:, origin] & valid
            return np.where(usable, moved, U32(0))
        return moved if everywhere else np.where(valid, moved, U32(0))

    return change


def written(decoded: Decoded, target: ExecutionTarget) -> Callable[[Waves], Array] | None:
    """The lanes that DPP lets the result into, uint32 [wave, lane]; None for all active ones.

    row_mask and bank_mask leave lanes out; so does, without zero fill, a source lane that does not
    exist or is idle (CDNA3 ISA, 13.3.9; RDNA3 ISA, 7.7.1: "BOUND_CTRL").
    """
    pattern = _origins_of(decoded, target.lanes)
    if pattern is None:
        return None
    lane = np.arange(target.lanes)
    rows = decoded.number("row_mask", 15) >> (lane // 16)
    banks = decoded.number("bank_mask", 15) >> ((lane % 16) // 4)
    chosen = ((rows & banks) & 1).astype(bool)
    keeps = not _zero_fill(decoded, target)
    if keeps:
        chosen &= pattern.valid
    fixed = np.negative(chosen.astype(U32))
    if keeps and decoded.modifiers.get("fi") != "1":
        origin = pattern.origin

        def lanes(waves: Waves) -> Array:
            allowed = waves.bits & fixed
            return allowed if waves.full else allowed & waves.bits[:, origin]

        return lanes
    return None if chosen.all() else lambda waves: waves.bits & fixed


_SELECT: Final = {
    "BYTE_0": (0, 8), "BYTE_1": (8, 8), "BYTE_2": (16, 8), "BYTE_3": (24, 8),
    "WORD_0": (0, 16), "WORD_1": (16, 16), "DWORD": (0, 32),
}  # fmt: skip


def byte_select(decoded: Decoded, operand: Operand, modifier: str) -> Change:
    """SDWA's choice of a source's byte or word, moved to bit 0 and extended."""
    shift, width = _SELECT[decoded.modifiers.get(modifier, "DWORD")]
    up, down = U32(32 - shift - width), U32(32 - width)
    signed = operand.sign_extend

    def change(waves: Waves, bits: Array) -> Array:
        if width == 32:
            return np.asarray(bits)
        moved = np.asarray(bits) << up
        if signed:
            return (moved.view(np.int32) >> np.int32(down)).view(U32)
        return moved >> down

    return change


def source_change(
    decoded: Decoded, operand: Operand, index: int, target: ExecutionTarget
) -> Change | None:
    """Returns the change that SDWA or DPP make to a source's bits before they are used; None: none.

    `index`: 0 for the first source; DPP changes that one alone, SDWA the first two.
    """
    if decoded.encoding == "sdwa":
        return byte_select(decoded, operand, f"src{index}_sel") if index < 2 else None
    return first_operand(decoded, target) if index == 0 else None


def byte_destination(decoded: Decoded, kind: str) -> Callable[[Waves, Array], None]:
    """SDWA's destination: a byte or word of the register, the rest padded or kept."""
    row = decoded.operands[0].first
    shift, width = _SELECT[decoded.modifiers.get("dst_sel", "DWORD")]
    unused = decoded.modifiers.get("dst_unused", "UNUSED_PAD")
    field = ((1 << width) - 1) << shift
    mask, offset = U32(field), U32(shift)

    def write(waves: Waves, value: Any) -> None:
        """Writes a result's low bits into the selected field."""
        bits = (
            numbers.half_bits(value, kind)
            if kind in numbers.HALVES
            else np.asarray(value).view(U32)
        )
        moved = (bits << offset) & mask
        if unused == "UNUSED_PRESERVE":
            moved = moved | (waves.u32[row] & ~mask)
        elif unused == "UNUSED_SEXT" and shift + width < 32:
            up = U32(32 - shift - width)
            moved = ((moved << up).view(np.int32) >> np.int32(up)).view(U32)
        waves.write(row, moved)

    return write
