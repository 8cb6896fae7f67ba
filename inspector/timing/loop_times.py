"""What an iteration of each loop takes, and what it waits for."""

from __future__ import annotations

from collections.abc import Iterable

from ..model import Loop
from ..model.time import LoopTime, Stall
from .attribution import LEAST, WAITING, issue_cycles, parts
from .cu import REASONS
from .timed import LaunchTime, Timing


def loop_times(
    timing: Timing, now: LaunchTime, in_l2: LaunchTime | None = None, *, is_launch: bool = True
) -> tuple[LoopTime, ...]:
    """The loops that were executed, in program order.

    Args:
        timing: of the launch.
        now: its time.
        in_l2: its time with all data in the L2; None where nobody asked.
        is_launch: whether the launch is known: else nothing is said of shares and iterations.
    """
    resident = timing.placement.resident * max(map(len, timing.workgroups), default=0)
    return tuple(
        _loop_time(timing, loop, now, in_l2, resident, is_launch=is_launch)
        for loop in timing.function.loops
        if _iterations(timing, loop)
    )


def _loop_time(
    timing: Timing,
    loop: Loop,
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
    taken, total = _cycles(timing, now, sites), sum(_cycles(timing, now, now.cu.issues))
    stalls = tuple(
        sorted(
            (
                Stall(reason, round(cycles / sum(taken), 4))
                for reason, cycles in zip(REASONS, taken, strict=True)
                if cycles > LEAST * sum(taken)
            ),
            key=lambda stall: -stall.share,
        )
    )
    first = function.instructions[function.blocks[loop.header].start]
    inside, _, _ = parts(timing, now)
    return LoopTime(
        loop=loop.id,
        source=next((i.loc for i in map(function.instructions.__getitem__, sites) if i.loc), None),
        line=first.line,
        waves=resident,
        cycles=_per_iteration(now, loop, resident),
        l2_cycles=None if in_l2 is None else _per_iteration(in_l2, loop, resident),
        iterations=round(_iterations(timing, loop), 1) if is_launch else None,
        share=round(inside * sum(taken) / total, 4) if is_launch and total else None,
        limiter=WAITING[stalls[0].reason] if stalls else "nothing",
        stalls=stalls,
    )


def _per_iteration(time: LaunchTime, loop: Loop, resident: int) -> float | None:
    """Cycles in which each of the resident waves does an iteration."""
    cycles = time.cycles_of.get(loop.id)
    return None if cycles is None else round(cycles * resident, 1)


def _cycles(timing: Timing, now: LaunchTime, sites: Iterable[int]) -> list[float]:
    """Cycles that waves wait for or issue instructions, by `REASONS`."""
    taken = [0.0] * len(REASONS)
    for site in sites:
        for reason, cycles in enumerate(now.cu.stalls.get(site, ())):
            taken[reason] += cycles
        taken[0] += issue_cycles(timing, site) * now.cu.issues.get(site, 0)
    return taken


def _iterations(timing: Timing, loop: Loop) -> float:
    """The mean of the waves that are simulated."""
    waves = [wave for workgroup in timing.workgroups for wave in workgroup]
    return sum(wave.trips.get(loop.id, (0, 0))[1] for wave in waves) / max(1, len(waves))
