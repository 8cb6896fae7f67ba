"""What waves of a kernel do of which no launch is known: each goes the longest way.

Loops run as often as is stated, or for long; each access touches what is known of it, and cache
lines of its own.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from ..base.errors import KinspectError
from ..isa.graph.longest_way import longest
from ..isa.launch import entry_block
from ..machines.rates import rates_of
from ..model import Function, LaneUse, Loop, Machine, MemoryOp
from .costs import Sharing, costs_of
from .device import Device, Placement, place
from .timed import Timing
from .trace import INNERMOST_TRIPS, OUTER_TRIPS
from .wave_traces import Access, TracedLoop, WaveTrace, iterations

MANY: Final = 1000
"""Iterations of a loop of which nothing is stated: its start and end take no part of the time."""
_MOST_ISSUES: Final = 1_000_000
"""Instructions of all waves that are simulated, a few seconds of it."""
_STATE: Final = "state its launch: --grid, --workgroup, --args"
_LDS: Final = ("lds_read", "lds_write", "lds_atomic")
_LDS_BYTES: Final = 128
"""That an LDS moves in a cycle (the ISA guides: 32 banks of 4 bytes)."""


def known_accesses(
    function: Function, listed: Iterable[MemoryOp], machine: Machine, lanes: int
) -> tuple[dict[int, Access], int]:
    """What one wave's accesses come to, by index of the instruction, and of how many it is guessed.

    Lanes whose addresses are not known are taken to lie side by side, without bank conflicts.

    `listed`: its memory accesses, with what their lanes touch.
    """
    line_bytes = machine.cache_line_bytes or 64
    by_line = {op.line: op for op in listed}
    accesses = {}
    guessed = 0
    for inst in function.instructions:
        op = by_line.get(inst.line)
        if op is None or op.cls.startswith("smem"):
            continue
        use, least = op.use or LaneUse(), (op.bits or 32) * lanes // 8
        if op.cls in _LDS:
            ideal = _known(use.cycles_ideal, least / _LDS_BYTES)
            accesses[inst.index] = Access(cycles=_known(use.cycles, ideal), least=ideal)
            guessed += use.cycles is None
        else:
            count = _known(use.lines, least / line_bytes)
            accesses[inst.index] = Access((0,) * count, _known(use.bytes, least))
            guessed += use.lines is None and not op.cls.startswith("scratch")
    return accesses, guessed


def _known(mean: float | None, guess: float) -> int:
    """The mean of some waves for one of them; a guess where it is not known."""
    return math.ceil(guess if mean is None else mean)


def unlaunched(
    function: Function,
    machine: Machine,
    device: Device,
    accesses: Mapping[int, Access],
    resident: int,
    waves: int,
    grid: int | None,
    trips: Mapping[str, int],
) -> Timing:
    """A kernel made ready to be timed without executing it; all its data come from memory.

    `accesses`: as of `static_workgroups`. `grid`: workgroups of the launch; None: as many as the
    device holds at a time. `trips`: as of `static_workgroups`.

    Raises:
        KinspectError: the longest way cannot be told.
    """
    rates = rates_of(machine.arch)
    assert rates is not None, "whoever asks for a time has looked"
    placement = Placement((), tuple(range(resident)), resident, resident, device.cus)
    if grid is not None:
        placement = place(device, grid, resident, waves)
    return Timing(
        machine=machine,
        rates=rates,
        device=device,
        costs=costs_of(function, machine, rates),
        placement=placement,
        sharing=Sharing({}, {}, {}),
        function=function,
        workgroups=static_workgroups(function, accesses, len(placement.simulated), waves, trips),
        workgroups_in_grid=grid or resident * device.cus,
        footprint=0,
    )


def static_workgroups(
    function: Function,
    accesses: Mapping[int, Access],
    workgroups: int,
    waves: int,
    trips: Mapping[str, int],
) -> list[list[WaveTrace]]:
    """The traces of some workgroups, [workgroup][wave].

    `accesses`: by index of an instruction, what one wave's access comes to; of its lines only the
    number counts. `trips`: loop id -> iterations each time that a wave enters it; `MANY` where it
    has none.

    Raises:
        KinspectError: the longest way cannot be told.
    """
    loops = [TracedLoop(loop, frozenset(loop.blocks), loop.header) for loop in function.loops]
    if any(loop.irreducible for loop in function.loops):
        raise KinspectError("a loop of it is entered at several places", _STATE)
    if not function.blocks:
        raise KinspectError("there is no code in it", "pass assembly or a code object")
    way = list(_way(function, trips))
    blocks = [function.blocks[number] for number in way]
    stream = [site for block in blocks for site in range(block.start, block.stop)]
    lengths = (block.stop - block.start for block in blocks)
    if len(stream) * workgroups * waves > _MOST_ISSUES:
        raise KinspectError(f"its longest way is {len(stream):,} instructions long", _STATE)
    starts = list(itertools.accumulate(lengths, initial=0))
    spans = iterations(way, starts, loops)
    counts = _trips(function, Counter(loop for loop, _, _ in spans), trips)
    numbers = itertools.count()

    def trace() -> WaveTrace:
        touched = {}
        for position, site in enumerate(stream):
            access = accesses.get(site)
            if access is not None:
                lines = tuple(itertools.islice(numbers, len(access.lines)))
                touched[position] = Access(lines, access.bytes, access.cycles, access.least)
        return WaveTrace(stream, touched, counts, spans)

    return [[trace() for _ in range(waves)] for _ in range(workgroups)]


def _kept(loop: Loop, function: Function, trips: Mapping[str, int]) -> int:
    has_nested = any(other.parent == loop.id for other in function.loops)
    most = OUTER_TRIPS if has_nested else INNERMOST_TRIPS
    return max(1, min(most, trips.get(loop.id, MANY)))


def _way(function: Function, trips: Mapping[str, int]) -> Iterator[int]:
    """Numbers of the blocks on the longest way, with the iterations of loops that are kept."""
    blocks = function.blocks
    headed = {loop.header: loop for loop in function.loops}

    def passed(way: list[int], around: Loop | None) -> Iterator[int]:
        for number in way:
            loop = headed.get(number)
            if loop is not None and loop is not around:
                inside = frozenset(loop.blocks)
                iteration = longest(blocks, loop.header, inside, loop.latches, inside)
                for _ in range(_kept(loop, function, trips) - 1):
                    yield from passed(iteration, loop)
            yield number

    every = frozenset(range(len(blocks)))
    ends = [block.index for block in blocks if not block.successors]
    return passed(longest(blocks, entry_block(function), every, ends, every), None)


def _trips(
    function: Function, kept: Mapping[str, int], trips: Mapping[str, int]
) -> dict[str, tuple[int, int]]:
    """By loop that is passed, its iterations on the way and in all."""
    counts: dict[str, tuple[int, int]] = {}
    for loop in sorted(function.loops, key=lambda loop: loop.depth):
        if not kept.get(loop.id):
            continue
        outer = counts[loop.parent][1] if loop.parent in counts else 1
        counts[loop.id] = kept[loop.id], max(kept[loop.id], outer * trips.get(loop.id, MANY))
    return counts
