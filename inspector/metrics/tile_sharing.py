"""Tiles that workgroups share, and the L2 caches that bring them: one in each XCD.

The workgroups of a launch's first round, those that fit on the GPU at once, are taken to do the
same iteration at the same time. They are dealt round robin over the XCDs, so that neighbouring
program ids, which often load the same tile, are on different ones: each of these reads it from
memory by itself. Which of them shares what follows from the program ids that addresses depend on.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from ..machines.products import memory_bytes_per_clk
from ..model import LoopReport, Metric, Scalar, int_of, value_of
from .bounds import LONGEST
from .entries import of_kernels, unknown
from .launch import NO_GRID, gpu_of
from .residency import residency
from .subject import Subject, op_line

if TYPE_CHECKING:
    from ..ttgir.operand_tiles import OperandTile

FOOTPRINT, SHARE, TILES = "l2.footprint", "l2.footprint_share", "xcd.tiles"

SPECS = of_kernels(
    {
        FOOTPRINT: "bytes | Bytes of the distinct tiles that the workgroups of the first round "
        "load in one iteration (without a loop: at all), on the XCD that loads most",
        SHARE: "% | The same as a share of that XCD's L2",
        TILES: "How the workgroups of the first round share the tiles that they load in an "
        "iteration: `distinct` tiles of `loads` loads, `reads` from beyond L2 with the workgroups "
        "dealt round robin over `xcds` XCDs, each of which reads a tile once; `contiguous` reads "
        "if each XCD had a contiguous range of program ids instead; `ratio` of the two; `cycles` "
        "and `contiguous_cycles`: what the device's memory takes to deliver either, with every CU "
        "at work (less where the last cache before it has them), beside the bound of the main "
        "loop's `iteration`; `at`: the load that is read most often for nothing; `unknown` loads "
        "are left out",
    },
    "estimated",
    keys={TILES: frozenset({"reads", "distinct", "xcds", "ratio", "contiguous"})},
)


def compute(
    subject: Subject, metrics: Mapping[str, Metric], main: LoopReport | None
) -> Iterator[Metric]:
    """The metrics of `SPECS`.

    `metrics`: its other metrics, its occupancy among them, and its bound where it has no loops;
    `main`: its main loop, with its bound.
    """
    machine, demand = subject.machine, subject.demand
    grid, places = subject.facts.grid, int_of(metrics, "occupancy.workgroups_per_cu")
    resident = residency(machine, demand, metrics) if machine and demand else None
    gpu = gpu_of(machine, resident) if machine and resident else None
    tiles: list[OperandTile] = []
    unknown, reason = 0, _why_not(subject)
    if not reason and (machine is None or gpu is None or not places):
        reason = "the size of the GPU is not known, or what is resident"
    if not reason:
        tiles, unknown = _tiles(subject)
        if not tiles:
            reason = "no load's tile follows from the program ids"
    if reason or machine is None or gpu is None or not places or grid is None:
        yield from _unknown(reason)
        return
    workgroups = math.prod(grid)
    first_round = min(workgroups, places * gpu.units)
    if machine.xcds is None:
        yield from _unknown(f"the number of XCDs of {machine.arch} is not known")
        return
    dealt = [range(xcd, first_round, machine.xcds) for xcd in range(machine.xcds)]
    on_one_xcd = -(-first_round // machine.xcds)
    contiguous = [
        range(start, min(start + on_one_xcd, workgroups))
        for start in (xcd * workgroups // machine.xcds for xcd in range(machine.xcds))
    ]
    note = _note(tiles, unknown)
    footprint = max(_reads(tiles, [on_xcd])[1] for on_xcd in dealt)
    yield Metric(FOOTPRINT, footprint, "bytes", "estimated", note)
    share = None if machine.l2_bytes is None else round(100 * footprint / machine.l2_bytes, 1)
    missing = "" if share is not None else f"the size of {machine.arch}'s L2 is not known"
    yield Metric(SHARE, share, "%", "estimated", missing or note)
    if machine.xcds == 1:
        yield Metric(TILES, None, "mapping", "estimated", f"{machine.arch} has one L2")
        return
    reads, read_bytes = _reads(tiles, dealt)
    apart, near_bytes = _reads(tiles, contiguous)
    rate = memory_bytes_per_clk(machine)
    cycles, near_cycles = (
        None if rate is None else round(size / rate) for size in (read_bytes, near_bytes)
    )
    everywhere = [range(first_round)]
    worst = max(tiles, key=lambda tile: _reads([tile], dealt)[1] - _reads([tile], everywhere)[1])
    value: dict[str, Scalar] = {
        "loads": len(tiles),
        "unknown": unknown,
        "xcds": machine.xcds,
        "distinct": _reads(tiles, everywhere)[0],
        "reads": reads,
        "contiguous": apart,
        "ratio": round(reads / apart, 2),
        "cycles": cycles,
        "contiguous_cycles": near_cycles,
        "iteration": _iteration(metrics if main is None else main.metrics),
        "at": op_line(worst.op),
    }
    yield Metric(TILES, value, "mapping", "estimated", note)


def _iteration(metrics: Mapping[str, Metric]) -> Scalar:
    """Cycles that an iteration of all resident waves takes at least."""
    longest = value_of(metrics, LONGEST)
    return longest["cycles"] if isinstance(longest, Mapping) else None


def _why_not(subject: Subject) -> str:
    if not subject.facts.grid:
        return NO_GRID
    if subject.ttgir is None:
        return "needs the kernel's TTGIR"
    return ""


def _unknown(reason: str) -> Iterator[Metric]:
    yield from unknown(SPECS, reason)


def _tiles(subject: Subject) -> tuple[list[OperandTile], int]:
    """The tiles of the loads in loops, or of all where there are none; how many are not known."""
    from ..ttgir.flow import flow_of
    from ..ttgir.operand_tiles import operand_tiles

    module, facts = subject.ttgir, subject.facts
    assert module is not None
    assert facts.grid is not None
    loop_of = flow_of(module).loop
    loads = list(operand_tiles(module, facts.values or {}, facts.grid))
    in_loops = [(op, tile) for op, tile in loads if loop_of[op.index] is not None]
    counted = in_loops or loads
    return [tile for _, tile in counted if tile], sum(tile is None for _, tile in counted)


def _note(tiles: Sequence[OperandTile], unknown: int) -> str:
    """The loads that the figures leave out; empty where they leave none out."""
    return f"{unknown} of {unknown + len(tiles)} loads are not known" if unknown else ""


def _reads(tiles: Sequence[OperandTile], caches: Sequence[range]) -> tuple[int, int]:
    """The different tiles that workgroups load, and their bytes, summed over caches."""
    count = total = 0
    for size in {tile.size for tile in tiles}:
        numbers = [tile.number for tile in tiles if tile.size == size]
        for on in caches:
            loaded = {n for part in numbers for n in part[on.start : on.stop : on.step].tolist()}
            count += len(loaded)
            total += size * len(loaded)
    return count, total
