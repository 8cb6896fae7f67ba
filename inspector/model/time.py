"""How long a launch takes by the timing model, where the time goes, and what would save it.

The work that the cure of a finding takes away: the timing model says what that is worth.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Final, Literal

from msgspec import Meta, Struct

from .numbers import Count, Line, Positive, Real
from .source import SourceLoc

StallReason = Literal[
    "issue", "dependency", "vector", "matrix", "lds", "memory", "barrier", "scalar", "icache",
    "launch", "tail",
]  # fmt: skip
"""What the time goes to: `issue`: instructions that issue; `dependency`: results of vector and
scalar instructions; `vector`, `matrix`, `lds`: the unit is busy; `memory`: loads and stores;
`barrier`: other waves; `scalar`: scalar loads; `icache`: instructions; `launch`: before the first
wave; `tail`: compute units that have nothing left to do."""
CostGone = Literal[
    "scratch", "lines", "conflicts", "wide accesses", "earlier loads", "repeated products",
    "occupancy", "workgroups", "memory latency", "memory bandwidth", "memory", "lds", "barriers",
    "vector work", "matrix work", "launch",
]  # fmt: skip
"""A cost that is taken away. What a change of the code can do: `scratch`: private memory is not
used; `lines`: accesses touch as few cache lines as hold their bytes; `conflicts`: no LDS banks
conflict; `wide accesses`: lanes move 16 bytes at a time; `earlier loads`: loads of loops are begun
an iteration earlier; `repeated products`: no wave does another's matrix products; `occupancy`:
twice the workgroups at a time; `workgroups`: the work spreads evenly over all compute units. What
bounds others: `memory latency`, `memory bandwidth`: memory is immediate, or moves any number of
bytes; `memory`, `lds`, `barriers`, `vector work`, `matrix work`: such instructions take no time;
`launch`: the launch takes none."""
BOUNDS: Final[frozenset[CostGone]] = frozenset(
    (
        "memory latency", "memory bandwidth", "memory", "lds", "barriers", "vector work",
        "matrix work", "launch",
    )
)  # fmt: skip
"""Changes that no edit of the code makes: what is left without bounds what others can save."""
Share = Annotated[float, Meta(ge=0)]


class Stall(Struct, frozen=True):
    """What one reason takes of a launch's time, 0 to 1."""

    reason: StallReason
    share: Share


class TimeLine(Struct, frozen=True):
    """A line of the source, or of the code where that has none.

    Args:
        source: None where the instructions have none.
        line: of the assembly: that of the instruction that takes most.
        share: of the launch's time, 0 to 1.
        reason: what most of it goes to.
    """

    source: SourceLoc | None
    line: int
    share: Share
    reason: StallReason


class LoopTime(Struct, frozen=True, kw_only=True):
    """What an iteration of a loop takes.

    Args:
        loop: its id.
        source: of its first instruction that has one.
        line: of the assembly where it begins.
        waves: that a compute unit holds at a time.
        cycles: in which each of these does an iteration, nested loops included; None where too few
            iterations were executed to tell.
        l2_cycles: the same with all data in the L2; None where that was not worked out.
        iterations: of a wave, in all; None where the launch is not known.
        share: of the launch's time that its instructions take, nested loops left out, 0 to 1; None
            where the launch is not known.
        limiter: what most of its time goes to.
        stalls: shares of its own time by reason, nested loops left out, the largest first.
    """

    loop: str
    source: SourceLoc | None
    line: int
    waves: int
    cycles: Real | None
    l2_cycles: Real | None = None
    iterations: Real | None
    share: Share | None
    limiter: str
    stalls: tuple[Stall, ...]


class InstructionTime(Struct, frozen=True, gc=False, omit_defaults=True):
    """What waves take at an instruction of a launch.

    Args:
        line: of the assembly (1-based).
        share: of the launch's time, 0 to 1: the wait for it to issue, and its issue.
        stalled: the part of `share` that is the wait.
        reason: what most of the wait is for; `issue` where there is none.
    """

    line: int
    share: Share
    stalled: Share = 0.0
    reason: StallReason = "issue"


class Saving(Struct, frozen=True):
    """What the launch would take if one cost were gone.

    Args:
        change: which cost.
        us: microseconds without it.
        percent: of the time that it saves.
    """

    change: CostGone
    us: Real
    percent: Real


class KernelTime(Struct, frozen=True, kw_only=True):
    """The time of a launch, estimated.

    Args:
        us: microseconds, from an empty cache.
        low, high: three quarters of the launches that the model was held against lie between.
        warm_us: with the data in the Infinity Cache; None where that is the same.
        cycles: of the busiest compute unit.
        mhz: the clock that is assumed: the stated one, or what the power limit leaves of the peak.
        gpu: the product.
        workgroups: of the grid.
        rounds: workgroups that the busiest compute unit executes.
        resident: of these at a time.
        limiter: what takes most: a unit that is busy nearly all the time, or a reason to wait.
        units: share of the time that each unit is busy: vector, matrix, lds, l1, l2, l3, memory.
            Memory is busy at the rate that is reached in practice, not at its peak.
        stalls: shares of the time by reason, the largest first.
        lines: where the time goes, the largest share first.
        stalled: share of the time that waves wait at instructions, these not issuing.
        instructions: what they take at each, ascending by line; those that take less than 0.0002
            of the time are left out.
        savings: what would save how much, the most first and `BOUNDS` behind the others; empty
            where nobody asked.
        assumed: what was taken for granted.
        goes_by_made_up: types of integers that nobody knows where its addresses, masks or branches
            rest on what it loads.
        memory_bytes: that the launch moves to and from the device memory, from an empty cache; None
            in reports of older versions.
        peak_mhz: the product's peak clock, from which `mhz` follows; None where `mhz` was stated,
            and in reports of older versions.
        outside: the first access of memory outside of all arguments, with which the time is that
            of no real launch; empty without one.
    """

    us: Positive
    low: Positive
    high: Positive
    warm_us: Positive | None
    cycles: Real
    mhz: Positive
    gpu: str
    workgroups: int
    rounds: int
    resident: int
    limiter: str
    units: Mapping[str, Share]
    stalls: tuple[Stall, ...]
    lines: tuple[TimeLine, ...]
    stalled: Share = 0.0
    instructions: tuple[InstructionTime, ...] = ()
    savings: tuple[Saving, ...] = ()
    assumed: tuple[str, ...] = ()
    goes_by_made_up: tuple[str, ...] = ()
    memory_bytes: Count | None = None
    peak_mhz: Positive | None = None
    outside: str = ""


Removed = Literal[
    "scratch", "lines", "conflicts", "wide accesses", "earlier loads", "repeated products",
    "occupancy", "workgroups", "work", "latency", "code", "vector", "matrix", "scalar", "lds",
    "loads", "stores", "atomics", "barriers", "no-ops", "products",
    "iterations",
]  # fmt: skip
"""What goes. `scratch` to `workgroups`: as `CostGone`; `work`: waves that do nothing of use;
`iterations`: of loops; `latency`: waiting for memory that is overlapped; `code`: misses of the
instruction cache; the rest: instructions of a unit, `lds` with the crossbar; `products`: matrix
instructions, and the loads and LDS accesses of their operands."""


MUCH, LEAST = 10.0, 3.0
"""Percent of a launch's time: what a cure saves makes a warning, a note, or less than both."""


class Removal(Struct, frozen=True):
    """Work that goes.

    Args:
        what: kind of work.
        part: of it at its place, 0 to 1; of `occupancy` what is added to the resident workgroups.
        loops: ids of the loops where it is; empty: not bound to any.
        lines: of the assembly, of the instructions; empty: all of the loops, or of the kernel.
        named: lines of instructions that go first; `part` is of the loop, or of the code outside of
            loops, where most of them are. Empty: a part of all at the place goes.
    """

    what: Removed
    part: Annotated[float, Meta(ge=0)] = 1.0
    loops: tuple[str, ...] = ()
    lines: tuple[Line, ...] = ()
    named: tuple[Line, ...] = ()
