"""Instructions that move no data: waits, hints, messages, caches.

Branches and barriers: `program.py`.
"""

from __future__ import annotations

from collections.abc import Mapping

from ..delivery import issue
from ..operands import Decoded
from ..registry import BuildContext, Step, builds, builds_matching
from ..waves import Waves


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
