"""Where the time of a launch goes: by reason, by unit, by line, by instruction.

What an iteration of each loop takes, and what it waits for.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from msgspec import Struct

from ..model import Instruction, Loop, SourceLoc
from ..model.time import InstructionTime, LoopTime, Stall, StallReason, TimeLine
from .costs import IDLE, REASONS
from .timed import LaunchTime, Timing

MOST_LINES: Final = 12
BUSY: Final = 0.75
"""Share of the time from which on a unit is what limits a launch."""
LEAST_OF_INSTRUCTION: Final = 0.0002
"""Share of the time below which an instruction is not listed."""
LEAST: Final = 0.005
"""Share below which a reason or a line is not told."""
ISSUE: Final = REASONS.index("issue")
MEMORY: Final = REASONS.index("memory")
QUEUE: Final = "atomics on one cache line"
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
_Rows = Mapping[int, Sequence[float]]
"""By instruction, shares of the time by `REASONS`."""


class Attribution(Struct, frozen=True):
    """The time of a launch, dealt out in shares of it.

    Args:
        launch, tail: before the first workgroup, and while some units idle.
        issued: by instruction, what it takes to issue.
        stalled: what waves wait before it issues.
        blamed: what it takes in all, where waits count for the accesses that they wait for.
    """

    launch: float
    tail: float
    issued: Mapping[int, float]
    stalled: _Rows
    blamed: _Rows

    @property
    def waits_for_memory(self) -> float:
        """What waves wait for memory, 0 to 1."""
        return sum(row[MEMORY] for row in self.stalled.values())

    def taken(self, site: int) -> float:
        """What waves spend at an instruction."""
        return self.issued.get(site, 0.0) + sum(self.stalled.get(site, ()))


def attributed(timing: Timing, now: LaunchTime) -> Attribution:
    """Deals out a launch's time: what its simulated waves took stands for all of them."""
    launch = timing.rates.launch_us / now.us
    placement = timing.placement
    even = timing.workgroups_in_grid / min(timing.device.cus, timing.workgroups_in_grid)
    tail = (1 - launch) * max(0.0, placement.busiest - even) / placement.busiest
    queued = (1 - launch) * now.queue_added
    issued = {site: _issue_cycles(timing, site) * n for site, n in now.cu.issues.items()}
    issuing = sum(issued.values())
    scale, blamed_scale = (
        (1 - launch - tail - queued) / ((sum(map(sum, rows.values())) + issuing) or 1.0)
        for rows in (now.cu.stalls, now.cu.blamed)
    )
    blamed = {}
    for site in sorted(now.cu.blamed.keys() | issued.keys()):
        row = list(now.cu.blamed.get(site, (0.0,) * len(REASONS)))
        row[ISSUE] += issued.get(site, 0.0)
        blamed[site] = [cycles * blamed_scale for cycles in row]
    stalled = {site: [cycles * scale for cycles in row] for site, row in now.cu.stalls.items()}
    for site, count in timing.queued.items() if queued else ():
        share = queued * count / sum(timing.queued.values())
        for rows in (stalled, blamed):
            rows.setdefault(site, [0.0] * len(REASONS))[MEMORY] += share
    return Attribution(
        launch, tail, {site: cycles * scale for site, cycles in issued.items()}, stalled, blamed
    )


def stalls_of(found: Attribution) -> tuple[Stall, ...]:
    """Shares of the time by reason; the issue of instructions is one of them."""
    shares: dict[StallReason, float] = dict(zip(REASONS, sums(found.stalled.values()), strict=True))
    shares["issue"] += sum(found.issued.values())
    shares["launch"] = found.launch
    shares["tail"] = found.tail
    told = [Stall(reason, round(share, 4)) for reason, share in shares.items() if share >= LEAST]
    return tuple(sorted(told, key=lambda stall: -stall.share))


def limiter_of(now: LaunchTime, stalls: tuple[Stall, ...]) -> str:
    """What takes most: a unit that is busy nearly all the time, or what waves wait for."""
    if now.queue_added > 0:
        return QUEUE
    unit, share = max(now.units.items(), key=lambda item: item[1])
    if share >= BUSY:
        return _THROUGHPUT[unit]
    return WAITING[stalls[0].reason] if stalls else "nothing"


def lines_of(found: Attribution, instructions: Sequence[Instruction]) -> tuple[TimeLine, ...]:
    """The lines where the time goes, the largest share first.

    Waits count for the accesses that they wait for.
    """
    of_places: dict[SourceLoc | int, list[tuple[int, Sequence[float]]]] = {}
    for site, row in found.blamed.items():
        of_places.setdefault(_place(instructions[site]), []).append((site, row))
    lines = []
    for place, rows in of_places.items():
        by_reason = sums(row for _, row in rows)
        most, _ = max(rows, key=lambda item: sum(item[1]))
        source = place if isinstance(place, SourceLoc) else None
        share, reason = round(sum(by_reason), 4), REASONS[by_reason.index(max(by_reason))]
        if share >= LEAST:
            lines.append(TimeLine(source, instructions[most].line, share, reason))
    return tuple(sorted(lines, key=lambda line: -line.share)[:MOST_LINES])


def instructions_of(
    found: Attribution, instructions: Sequence[Instruction]
) -> tuple[InstructionTime, ...]:
    """What waves take at each line of the assembly, those below `LEAST_OF_INSTRUCTION` left out."""
    sites: dict[int, list[int]] = {}
    for site in found.issued.keys() | found.stalled.keys():
        sites.setdefault(instructions[site].line, []).append(site)
    times = []
    for line, own in sorted(sites.items()):
        share = sum(map(found.taken, own))
        if share >= LEAST_OF_INSTRUCTION:
            row = sums(found.stalled[site] for site in own if site in found.stalled)
            reason = REASONS[row.index(max(row))]
            times.append(InstructionTime(line, round(share, 5), round(sum(row), 5), reason))
    return tuple(times)


def sums(rows: Iterable[Sequence[float]]) -> list[float]:
    """Shares by reason, added up."""
    return [sum(parts) for parts in zip(*rows, strict=True)] or [0.0] * len(REASONS)


def _place(inst: Instruction) -> SourceLoc | int:
    """The user's line that an instruction is for; that of the code where it has none."""
    if inst.loc is None or not inst.loc.line:
        return inst.line
    own = inst.loc.in_user_code
    return SourceLoc(own.file, own.line)


def _issue_cycles(timing: Timing, site: int) -> float:
    cost = timing.costs.sites[site]
    return cost.cycles if cost.kind == IDLE else float(timing.machine.issue_cycles or 1)


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
