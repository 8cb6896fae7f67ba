"""Ways through a kernel: what stands in its blocks, and how often its loops go round."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from ...isa.dataflow.effects import RegisterEffect
from ...isa.waitflow.counters import RAISING, GenerationCounters, events_of
from ...isa.waitflow.waits import decode_wait
from ...model import Block, Function, Loop, Machine
from ..slices import LDS_CLASSES

ROUNDS: Final = 3
"""Iterations of a loop whose end depends on what is unknown; of one with loops in it one less."""
KNOWN_ROUNDS: Final = 20
"""Iterations of a loop that ends by what is known."""


class Raised(NamedTuple):
    """A counter that an instruction raises."""

    counter: str
    in_order: bool
    limit: int
    """The counter's largest value."""


class PlannedInstruction(NamedTuple):
    """An instruction that matters for LDS, with what is passed over in front of it."""

    site: int
    """Its index; -1 at the end of a block."""
    skipped: int
    """Registers that the instructions passed over write."""
    raised: tuple[Raised, ...]
    waits: tuple[tuple[str, int], ...]
    """Counters that it waits for, and how many operations may stay outstanding."""


def plan_of(
    function: Function, gpu: Machine, chosen: Sequence[int], effects: Sequence[RegisterEffect]
) -> list[list[PlannedInstruction]]:
    """Returns each block's instructions that matter for LDS."""
    counters = GenerationCounters.of(gpu.counters)
    steps = frozenset(chosen)
    plan: list[list[PlannedInstruction]] = []
    for block in function.blocks:
        items: list[PlannedInstruction] = []
        skipped = 0
        for inst in function.instructions[block.start : block.stop]:
            raised: tuple[Raised, ...] = ()
            waits: tuple[tuple[str, int], ...] = ()
            if inst.cls in RAISING:
                raised = tuple(
                    Raised(
                        event.counter, bool(event.order), gpu.counters.get(event.counter, 1 << 30)
                    )
                    for event in events_of(inst, counters)
                )
            elif inst.cls == "wait":
                counts = decode_wait(inst.op.name, inst.operands, gpu.waitcnt_fields, gpu.counters)
                waits = tuple(counts.items())
            if inst.index not in steps:
                skipped |= effects[inst.index].writes
                if not (raised or waits or inst.cls in ("barrier", "barrier_signal")):
                    continue
            items.append(PlannedInstruction(inst.index, skipped, raised, waits))
            skipped = 0
        items.append(PlannedInstruction(-1, skipped, (), ()))
        plan.append(items)
    return plan


def reached_accesses(function: Function) -> list[frozenset[int]]:
    """Returns, by block, the accesses of LDS that control may come to from its start on."""
    own = [
        {i.index for i in function.instructions[b.start : b.stop] if i.cls in LDS_CLASSES}
        for b in function.blocks
    ]
    changed = True
    while changed:
        changed = False
        for block in reversed(function.blocks):
            accesses = own[block.index]
            size = len(accesses)
            for successor in block.successors:
                accesses |= own[successor]
            changed |= len(accesses) != size
    return [frozenset(accesses) for accesses in own]


class Loops:
    """Decides how often loops go round.

    `loops`: of the function; a loop's number is its place here.
    """

    def __init__(self, blocks: Sequence[Block], loops: Sequence[Loop]) -> None:
        inside = [frozenset(loop.blocks) for loop in loops]
        self._inside = inside
        self._headers = [loop.header for loop in loops]
        self._limits = [ROUNDS - any(other < loop for other in inside) for loop in inside]
        by_size = sorted(range(len(loops)), key=lambda number: len(inside[number]))
        self._around = [
            [number for number in by_size if block.index in inside[number]] for block in blocks
        ]

    def forced(
        self, rounds: Mapping[int, int], block: int, ways: tuple[int, int], *, known: bool
    ) -> int | None:
        """Which way a branch has to go where a loop has gone round too often, or not yet twice."""
        for number in self._around[block]:
            outside = [to for to in ways if to not in self._inside[number]]
            if len(outside) != 1:
                continue
            limit = KNOWN_ROUNDS if known else self._limits[number]
            if rounds.get(number, 0) + 1 >= limit:
                return outside[0]
            if not known and not rounds.get(number, 0):
                return ways[0] if outside[0] == ways[1] else ways[1]
        return None

    def enter(self, rounds: dict[int, int], block: int, to: int) -> bool:
        """Counts an edge; False where a loop without a way out has gone round too often."""
        for number in self._around[to]:
            if self._headers[number] != to:
                continue
            if block in self._inside[number]:
                rounds[number] = rounds.get(number, 0) + 1
                if rounds[number] > 2 * KNOWN_ROUNDS:
                    return False
            else:
                rounds[number] = 0
        return True
