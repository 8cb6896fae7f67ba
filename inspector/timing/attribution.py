"""Where the time of a launch goes: by reason, by unit, by line."""

from __future__ import annotations

from collections import defaultdict
from typing import Final

from ..model import Instruction, SourceLoc
from ..model.time import Stall, StallReason, TimeLine
from .costs import IDLE
from .cu import REASONS
from .timed import LaunchTime, Timing

MOST_LINES: Final = 12
BUSY: Final = 0.75
"""Share of the time from which on a unit is what limits a launch."""
LEAST: Final = 0.005
"""Shares below are not told."""
_THROUGHPUT: Final = {
    "vector": "vector work", "matrix": "matrix work", "lds": "LDS bandwidth",
    "l1": "L1 bandwidth", "l2": "L2 bandwidth", "l3": "L3 bandwidth",
    "memory": "memory bandwidth",
}  # fmt: skip
WAITING: Final = {
    "issue": "instructions", "dependency": "dependent instructions", "vector": "vector work",
    "matrix": "matrix work", "lds": "LDS latency", "memory": "memory latency",
    "barrier": "barriers", "scalar": "scalar loads", "icache": "instruction fetch",
    "launch": "launch", "tail": "too few workgroups",
}  # fmt: skip
"""Reason -> what is said to limit a launch that waits for it most."""


def stalls_of(timing: Timing, now: LaunchTime) -> tuple[Stall, ...]:
    """Shares of the time by reason; the issue of instructions is one of them."""
    inside, launch, tail = parts(timing, now)
    taken: dict[StallReason, float] = defaultdict(float)
    total = 0.0
    for row in now.cu.stalls.values():
        for reason, cycles in zip(REASONS, row, strict=True):
            taken[reason] += cycles
            total += cycles
    issued = sum(issue_cycles(timing, site) * count for site, count in now.cu.issues.items())
    taken["issue"] += issued
    total += issued
    shares: dict[StallReason, float] = {
        reason: inside * cycles / total for reason, cycles in taken.items() if total
    }
    shares["launch"] = launch
    shares["tail"] = tail
    told = [Stall(reason, round(share, 4)) for reason, share in shares.items() if share >= LEAST]
    return tuple(sorted(told, key=lambda stall: -stall.share))


def limiter_of(now: LaunchTime, stalls: tuple[Stall, ...]) -> str:
    """What takes most: a unit that is busy nearly all the time, or what waves wait for."""
    unit, share = max(now.units.items(), key=lambda item: item[1])
    if share >= BUSY:
        return _THROUGHPUT[unit]
    return WAITING[stalls[0].reason] if stalls else "nothing"


def lines_of(timing: Timing, now: LaunchTime) -> tuple[TimeLine, ...]:
    """The lines where the time goes, the largest share first.

    Waits count for the accesses that they wait for.
    """
    inside, _, _ = parts(timing, now)
    instructions = timing.function.instructions
    taken: dict[SourceLoc | int, list[float]] = {}
    most: dict[SourceLoc | int, tuple[float, int]] = {}
    total = 0.0
    for site in now.cu.issues.keys() | now.cu.blamed.keys():
        row = list(now.cu.blamed.get(site, [0.0] * len(REASONS)))
        row[0] += issue_cycles(timing, site) * now.cu.issues.get(site, 0)
        cycles = sum(row)
        key = _place(instructions[site])
        known = taken.setdefault(key, [0.0] * len(REASONS))
        for reason, part in enumerate(row):
            known[reason] += part
        most[key] = max(most.get(key, (-1.0, 0)), (cycles, instructions[site].line))
        total += cycles
    if not total:
        return ()
    ranked = sorted(taken.items(), key=lambda item: -sum(item[1]))[:MOST_LINES]
    return tuple(
        TimeLine(
            key if isinstance(key, SourceLoc) else None,
            most[key][1],
            round(inside * sum(row) / total, 4),
            REASONS[row.index(max(row))],
        )
        for key, row in ranked
        if inside * sum(row) / total >= LEAST
    )


def _place(inst: Instruction) -> SourceLoc | int:
    """The line of the source that an instruction is for; that of the code where it has none."""
    if inst.loc is None or not inst.loc.line:
        return inst.line
    return SourceLoc(inst.loc.file, inst.loc.line)


def parts(timing: Timing, now: LaunchTime) -> tuple[float, float, float]:
    """Shares of the time within workgroups, before the first one, and while some units idle."""
    launch = timing.rates.launch_us / now.us
    placement = timing.placement
    even = timing.workgroups_in_grid / min(timing.device.cus, timing.workgroups_in_grid)
    tail = (1 - launch) * max(0.0, placement.busiest - even) / placement.busiest
    return 1 - launch - tail, launch, tail


def issue_cycles(timing: Timing, site: int) -> float:
    """Cycles that an instruction keeps its wave from the next one."""
    cost = timing.costs.sites[site]
    return cost.cycles if cost.kind == IDLE else float(timing.machine.issue_cycles or 1)
