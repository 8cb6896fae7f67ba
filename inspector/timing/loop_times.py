"""What an iteration of each loop takes, and what it waits for."""

from __future__ import annotations

from typing import Final

from ..model import Loop
from ..model.time import LoopTime, Stall
from .attribution import ISSUE, LEAST, WAITING, Attribution, sums
from .cu_values import REASONS
from .timed import LaunchTime, Timing

_NOTHING: Final = (0.0,) * len(REASONS)


def loop_times(
    timing: Timing,
    found: Attribution,
    now: LaunchTime,
    in_l2: LaunchTime | None = None,
    *,
    is_launch: bool = True,
) -> tuple[LoopTime, ...]:
    """The loops that were executed, in program order.

    `in_l2`: its time with all data in the L2; None where nobody asked. `is_launch`: whether the
    launch is known: else nothing is said of shares and iterations.
    """
    resident = timing.placement.resident * max(map(len, timing.workgroups), default=0)
    return tuple(
        _loop_time(timing, loop, found, now, in_l2, resident, is_launch=is_launch)
        for loop in timing.function.loops
        if _iterations(timing, loop)
    )


def _loop_time(
    timing: Timing,
    loop: Loop,
    found: Attribution,
    now: LaunchTime,
    in_l2: LaunchTime | None,
    resident: int,
    *,
    is_launch: bool,
) -> LoopTime:
    function = timing.function
    nested = {n for inner in function.loops if inner.parent == loop.id for n in inner.blocks}
    own = [function.blocks[number] for number in loop.blocks if number not in nested]
    sites = [site for block in own for site in range(block.start, block.stop)]
    row = sums([found.stalled.get(site, _NOTHING) for site in sites])
    row[ISSUE] += sum(found.issued.get(site, 0.0) for site in sites)
    share = sum(row)
    stalls = tuple(
        sorted(
            (
                Stall(reason, round(part / share, 4))
                for reason, part in zip(REASONS, row, strict=True)
                if part > LEAST * share
            ),
            key=lambda stall: -stall.share,
        )
    )
    first = function.instructions[function.blocks[loop.header].start]
    return LoopTime(
        loop=loop.id,
        source=next(
            (loc.in_user_code for site in sites if (loc := function.instructions[site].loc)), None
        ),
        line=first.line,
        waves=resident,
        cycles=_per_iteration(now, loop, resident),
        l2_cycles=None if in_l2 is None else _per_iteration(in_l2, loop, resident),
        iterations=round(_iterations(timing, loop), 1) if is_launch else None,
        share=round(share, 4) if is_launch else None,
        limiter=WAITING[stalls[0].reason] if stalls else "nothing",
        stalls=stalls,
    )


def _per_iteration(time: LaunchTime, loop: Loop, resident: int) -> float | None:
    """Cycles in which each of the resident waves does an iteration."""
    cycles = time.cycles_of.get(loop.id)
    return None if cycles is None else round(cycles * resident, 1)


def _iterations(timing: Timing, loop: Loop) -> float:
    """The mean of the waves that are simulated."""
    waves = timing.waves
    return sum(wave.trips.get(loop.id, (0, 0))[1] for wave in waves) / max(1, len(waves))
