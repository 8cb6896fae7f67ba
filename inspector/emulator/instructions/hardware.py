"""Hardware registers and clocks: `s_getreg`, `s_setreg`, `s_sendmsg_rtn`.

Steps are built for the mode (rounding, denormals) that the kernel descriptor sets, and every wave
keeps it. Code that writes another mode is refused; writing the same one is allowed.
Fields: CDNA3 ISA, 3.5 (MODE); RDNA4 ISA, 3.4; LLVM, AMDGPUAsmUtils.cpp (names).
"""

from __future__ import annotations

import re
from typing import Final

import numpy as np

from ..access import NotCoveredError
from ..delivery import deliver_scalar
from ..operands import Decoded, Operand
from ..registry import Context, Step, Target, builds
from ..waves import U32, Array, Waves
from .control import nothing
from .scalar import scalar_destination, scalar_source

_FIELD: Final = re.compile(r"hwreg\((\w+)(?:,\s*(\d+))?(?:,\s*(\d+))?\)")
_MODE: Final = frozenset({"HW_REG_MODE", "HW_REG_WAVE_MODE"})
_UNMODELLED: Final = frozenset(
    {"HW_REG_WAVE_SCHED_MODE", "HW_REG_SCHED_MODE", "HW_REG_FLAT_SCR_LO", "HW_REG_FLAT_SCR_HI"}
)
"""Registers whose writes are ignored: scheduling, the address of scratch memory."""


def _field(operand: Operand) -> tuple[str, int, int]:
    """`hwreg(HW_REG_MODE, 4, 2)`: name, first bit, number of bits."""
    match = _FIELD.fullmatch(operand.text)
    if match is None:
        raise NotCoveredError(f"hardware register {operand.text}")
    return match[1], int(match[2] or 0), int(match[3] or 32)


def mode_of(target: Target) -> tuple[int, int]:
    """The mode register of every wave, and a mask of the bits that change values.

    Rounding (3:0) is to nearest even; denormals (7:4): 3 keeps, 0 flushes, for f32, then for f16
    and f64; DX10_CLAMP (8), IEEE (9) up to gfx11; FP16_OVFL (23); on gfx9 indexing of registers
    (27) and skipping (28).
    """
    value = (0 if target.flush32 else 0x30) | (0 if target.flush16 else 0xC0)
    value |= target.saturates16 << 23
    mask = 0xFF | 1 << 23
    if target.generation < 12:
        value |= target.dx10_clamp << 8 | target.ieee << 9
        mask |= 0x300
    if target.generation == 9:
        mask |= 3 << 27
    return value, mask


@builds("s_setreg_b32", "s_setreg_imm32_b32")
def set_register(decoded: Decoded, context: Context) -> Step:
    """Does nothing, since the mode stays; refuses a field that would change values."""
    name, first, width = _field(decoded.operands[0])
    if name in _UNMODELLED:
        return nothing
    if name not in _MODE:
        raise NotCoveredError(decoded.text)
    mode, mask = mode_of(context.target)
    field = U32(((1 << width) - 1) & (mask >> first))
    expected = U32(mode >> first) & field
    read = scalar_source(decoded.operands[1], "u32")

    def step(waves: Waves) -> None:
        if (np.atleast_1d(read(waves)) & field != expected).any():
            raise NotCoveredError(f"{decoded.text}: another mode")

    return step


@builds("s_round_mode", "s_denorm_mode")
def set_mode(decoded: Decoded, context: Context) -> Step:
    """Does nothing; refuses four bits of rounding or denormals that would change values."""
    mode, _ = mode_of(context.target)
    expected = mode & 15 if decoded.name == "s_round_mode" else mode >> 4 & 15
    if decoded.operands[0].integer != expected:
        raise NotCoveredError(f"{decoded.text}: another mode")
    return nothing


@builds("s_getreg_b32")
def get_register(decoded: Decoded, context: Context) -> Step:
    """Reads a field of the mode, the clock, or the compute die's number (always 0)."""
    name, first, width = _field(decoded.operands[1])
    write = scalar_destination(decoded.operands[0], "u32")
    mask = (1 << width) - 1
    mode, modelled = mode_of(context.target)
    outside = mask << first & ~modelled & 0xFFFFFFFF  # bits asked for that nothing here models
    if name in _MODE and not outside:
        value = U32(mode >> first & mask)
        return lambda waves: write(waves, np.full(waves.count, value))
    if name == "HW_REG_XCC_ID":
        return lambda waves: write(waves, np.zeros(waves.count, U32))
    if name in ("HW_REG_SHADER_CYCLES", "HW_REG_SHADER_CYCLES_LO", "HW_REG_SHADER_CYCLES_HI"):
        shift = first + (32 if name.endswith("HI") else 0)
        return lambda waves: write(
            waves, np.full(waves.count, U32(waves.machine.ticks >> shift & mask))
        )
    raise NotCoveredError(decoded.text)


def _ticks(waves: Waves) -> Array:
    rows = np.empty((2, waves.count), U32)
    rows[0], rows[1] = waves.machine.ticks & 0xFFFFFFFF, waves.machine.ticks >> 32
    return rows


@builds("s_memtime", "s_memrealtime", "s_sendmsg_rtn_b64", "s_get_shader_cycles_u64")
def clock(decoded: Decoded, context: Context) -> Step:
    """A clock that counts the blocks the emulator has executed: it only goes forward."""
    target = decoded.operands[0]
    if decoded.name.startswith("s_sendmsg") and "MSG_RTN_GET_REALTIME" not in decoded.text:
        raise NotCoveredError(decoded.text)
    return lambda waves: deliver_scalar(waves, context, target, _ticks(waves))
