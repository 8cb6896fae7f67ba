"""Hardware registers and clocks: `s_getreg`, `s_setreg`, `s_sendmsg_rtn`.

The mode of a wave decides how steps are built (`modes`). A write that is not followed there and
would change the mode is refused; one that writes what stands there already is not.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from ..delivery import deliver_scalar
from ..modes import FOLLOWED, MODE_REGISTERS, field_of, mode_of
from ..operands import Decoded
from ..registry import BuildContext, NotCoveredError, Step, builds
from ..waves import U32, Array, Waves
from .control import nothing
from .scalar_operands import scalar_destination, scalar_source

_UNMODELLED: Final = frozenset(
    {"HW_REG_WAVE_SCHED_MODE", "HW_REG_SCHED_MODE", "HW_REG_FLAT_SCR_LO", "HW_REG_FLAT_SCR_HI"}
)
"""Registers whose writes are ignored: scheduling, the address of scratch memory."""


@builds("s_setreg_b32", "s_setreg_imm32_b32")
def set_register(decoded: Decoded, context: BuildContext) -> Step:
    """Writes a field of the mode; refuses one that would change values."""
    name, first, width = field_of(decoded.operands[0])
    if name in _UNMODELLED:
        return nothing
    if name not in MODE_REGISTERS:
        raise NotCoveredError(decoded.text)
    mode, mask = mode_of(context.target)
    if decoded.name == "s_setreg_imm32_b32":
        mask &= ~FOLLOWED
    field = U32(((1 << width) - 1) & (mask >> first))
    expected = U32(mode >> first) & field
    read = scalar_source(decoded.operands[1], "u32")

    def step(waves: Waves) -> None:
        if (np.atleast_1d(read(waves)) & field != expected).any():
            raise NotCoveredError(f"{decoded.text}: another mode")

    return step


@builds("s_denorm_mode")
def set_denormals(decoded: Decoded, context: BuildContext) -> Step:
    """Denormals of f32, then of f16 and f64: two bits each; the steps behind it know the mode."""
    return nothing


@builds("s_round_mode")
def set_rounding(decoded: Decoded, context: BuildContext) -> Step:
    """Refuses every rounding but that to nearest even."""
    if decoded.operands[0].integer != mode_of(context.target)[0] & 15:
        raise NotCoveredError(f"{decoded.text}: another mode")
    return nothing


@builds("s_getreg_b32")
def get_register(decoded: Decoded, context: BuildContext) -> Step:
    """Reads a field of the mode, the clock, or the compute die's number (always 0)."""
    name, first, width = field_of(decoded.operands[1])
    write = scalar_destination(decoded.operands[0], "u32")
    mask = (1 << width) - 1
    mode, modelled = mode_of(context.target)
    outside = mask << first & ~modelled & 0xFFFFFFFF  # bits asked for that nothing here models
    if name in MODE_REGISTERS and not outside:
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
def clock(decoded: Decoded, context: BuildContext) -> Step:
    """A clock that counts this emulator's blocks: it goes forward, and means nothing else."""
    target = decoded.operands[0]
    if decoded.name.startswith("s_sendmsg") and "MSG_RTN_GET_REALTIME" not in decoded.text:
        raise NotCoveredError(decoded.text)
    return lambda waves: deliver_scalar(waves, context, target, _ticks(waves))
