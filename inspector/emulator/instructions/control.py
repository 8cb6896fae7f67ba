"""Instructions that move no data of lanes: waits, hints, caches, hardware registers, clocks.

The mode of a wave decides how steps are built (`modes`). A write that is not followed there and
would change the mode is refused; one that writes what stands there already is not. Branches and
barriers: `program.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np

from ...isa.dataflow.operands import Decoded
from ..delivery import deliver_scalar, issue
from ..modes import FOLLOWED, MODE_REGISTERS, field_of, mode_of
from ..registry import BuildContext, NotCoveredError, Step, builds, builds_matching
from ..waves import U32, Array, Waves
from .scalar_operands import scalar_destination, scalar_source


def nothing(waves: Waves) -> None:
    """A step that changes nothing that is modelled."""


@builds_matching(
    r"s_nop|s_setprio|s_delay_alu|s_clause|s_sleep|s_sethalt|s_set_inst_prefetch_distance"
    r"|s_inst_prefetch|s_ttracedata\w*|s_code_end|s_version|v_nop|s_wakeup"
    r"|s_wait_alu|s_waitcnt_depctr|s_wait_event|s_prefetch_\w+|s_sendmsg|s_set_gpr_idx_off"
    r"|buffer_wbl2|buffer_inv|buffer_gl[01]_inv|buffer_wbinvl1(_vol)?|global_(wb|inv|wbinv)"
    r"|buffer_invl2|(global|flat)_prefetch_b8|s_buffer_prefetch_data|s_set_vgpr_msb|s_incperflevel"
    r"|s_decperflevel|s_singleuse_vdst|s_monitor_sleep|s_sleep_var|s_setprio_inc_wg|ds_nop"
)
def hint(decoded: Decoded, context: BuildContext) -> Step:
    """Timing, priorities, caches, messages to the host: no effect on values."""
    if context.counters:
        return lambda waves: issue(waves, context)
    return nothing


builds("v_clrexcp", "v_pipeflush")(lambda decoded, context: nothing)


@builds_matching(r"s_waitcnt(_\w+cnt)?|s_wait_\w+cnt(_dscnt)?|s_wait_idle")
def wait(decoded: Decoded, context: BuildContext) -> Step:
    """Lets the results through that it waits for."""
    counts: Mapping[str, int] = context.wait

    def step(waves: Waves) -> None:
        for counter, newest in counts.items():
            waves.outstanding.wait(waves, counter, newest)

    return step


@builds("s_sendmsghalt")
def halt(decoded: Decoded, context: BuildContext) -> Step:
    """Sends a message; the halt is not modelled, and the wave goes on."""
    return nothing


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
