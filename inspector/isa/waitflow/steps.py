"""A function's instructions reduced to what matters to its counters, worked out once.

An *event id* names one counter raised by one instruction. What an instruction touches is turned
into the ids whose registers those are, so that the dataflow never looks at registers again.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from kinspect.inspector.isa.flow import FLOW_CLASSES, Flow, flow_of
from kinspect.inspector.isa.waitflow.events import Counters, Effect, Event, events_of
from kinspect.inspector.isa.waitflow.registers import named, split, touched
from kinspect.inspector.model import Function, Instruction

BARRIER: frozenset[Effect] = frozenset({"lds", "dma"})
FENCE: frozenset[Effect] = frozenset({"load", "store", "lds", "dma", "other"})
_COPIED: frozenset[Effect] = frozenset({"dma"})
"""What reads LDS may read what was copied there, even where a lone wave needs no barrier."""
_PASSED_OVER = frozenset({"wait", "alu_wait", "nop", "hint"})
_FENCED = frozenset({"barrier", "barrier_signal", "cache", "atomic", "lds_atomic", "message"})
# Stores that other waves are meant to see: gfx940's sc bits, older glc/dlc, gfx12's scope.
_COHERENT = re.compile(r"(?<![\w:])(?:sc0|sc1|glc|dlc)(?![\w:])|\bscope:SCOPE_(?:SE|DEV|SYS)\b")


@dataclass(frozen=True, slots=True)
class Step:
    """One instruction that raises, waits for or touches something.

    Args:
        index: of the instruction in its function.
        raises: event ids.
        touches: ids of events whose registers it reads or writes, itself perhaps among them.
        waits: counter -> n.
        orders: effects that must be over before it, for other waves to see them in order.
        fence: whether a wait stands here for a fence: what follows it orders memory.
        clears: nothing is outstanding any more (a call: the callee waits for everything).
    """

    index: int
    raises: tuple[int, ...] = ()
    touches: tuple[int, ...] = ()
    waits: Mapping[str, int] | None = None
    orders: frozenset[Effect] = frozenset()
    fence: bool = False
    clears: bool = False


@dataclass(frozen=True, slots=True)
class Steps:
    """A function for the dataflow.

    Args:
        events: by id.
        producers: by id, the index of the instruction.
        channels: by id, the number of its (counter, order); -1 where no order is kept.
        counts: counter -> its channels' numbers.
        blocks: by block index, its steps.
    """

    events: tuple[Event, ...]
    producers: tuple[int, ...]
    channels: tuple[int, ...]
    counts: Mapping[str, tuple[int, ...]]
    blocks: tuple[tuple[Step, ...], ...]


def steps_of(
    function: Function,
    maxima: Mapping[str, int],
    waits_of: Callable[[Instruction], Mapping[str, int]],
) -> Steps:
    """Reduces a function.

    Args:
        function: the code.
        maxima: the machine's counters -> largest value.
        waits_of: what a wait instruction waits for.
    """
    counters = Counters.of(maxima)
    events: list[Event] = []
    producers: list[int] = []
    raised: dict[int, tuple[int, ...]] = {}
    writers: dict[int, list[int]] = {}
    for inst in function.instructions:
        found = events_of(inst, counters)
        if not found:
            continue
        ids = tuple(range(len(events), len(events) + len(found)))
        raised[inst.index] = ids
        for number, event in zip(ids, found, strict=True):
            events.append(event)
            producers.append(inst.index)
            for register in event.writes:
                writers.setdefault(register, []).append(number)
    numbers: dict[tuple[str, str], int] = {}
    channels = tuple(
        numbers.setdefault((e.counter, e.order), len(numbers)) if e.order else -1 for e in events
    )
    counts: dict[str, tuple[int, ...]] = {}
    for (counter, _), number in numbers.items():
        counts[counter] = (*counts.get(counter, ()), number)
    maker = _Maker(raised, writers, tuple(events), channels, waits_of)
    blocks = tuple(
        tuple(maker.steps(function.instructions[block.start : block.stop]))
        for block in function.blocks
    )
    return Steps(tuple(events), tuple(producers), channels, counts, blocks)


@dataclass(frozen=True, slots=True)
class _Maker:
    raised: Mapping[int, tuple[int, ...]]
    writers: Mapping[int, list[int]]
    events: tuple[Event, ...]
    channels: tuple[int, ...]
    waits_of: Callable[[Instruction], Mapping[str, int]]

    def steps(self, instructions: tuple[Instruction, ...]) -> list[Step]:
        found = []
        for place, inst in enumerate(instructions):
            if inst.cls == "wait":
                waits = self.waits_of(inst)
                if waits:
                    fence = _is_fence(instructions, place + 1)
                    found.append(Step(inst.index, waits=waits, fence=fence))
                continue
            raises = self.raised.get(inst.index, ())
            touches = self._touches(inst, raises)
            orders, clears = _orders(inst)
            if raises or touches or orders or clears:
                found.append(Step(inst.index, raises, touches, None, orders, False, clears))
        return found

    def _touches(self, inst: Instruction, raises: tuple[int, ...]) -> tuple[int, ...]:
        if not self.writers:
            return ()
        writers = self.writers
        written = {r for number in raises for r in self.events[number].writes}
        if not written:
            seen = touched(inst.op.name, inst.operands)
            if writers.keys().isdisjoint(seen):
                return ()
            return tuple(dict.fromkeys(i for r in seen if r in writers for i in writers[r]))
        # What it only writes may still be on its way to the same register, so long as the two
        # come back in the order of issue.
        own = {self.channels[number] for number in raises} - {-1}
        # A 16-bit load into half a register keeps the other half, so that it reads it.
        text = inst.operands if "_d16" in inst.op.name else split(inst.operands)[1]
        read = named(text)
        ids = [i for r in read if r in writers for i in writers[r]]
        ids += [i for r in written for i in writers[r] if self.channels[i] not in own]
        return tuple(dict.fromkeys(ids))


def _orders(inst: Instruction) -> tuple[frozenset[Effect], bool]:
    if inst.cls in ("barrier", "barrier_signal"):
        return BARRIER, False
    if inst.cls == "cache":
        return FENCE, False
    if inst.cls in ("lds_read", "lds_atomic"):
        return _COPIED, False
    if inst.cls in FLOW_CLASSES and flow_of(inst.op, inst.operands) in (Flow.CALL, Flow.INDIRECT):
        return FENCE, True
    return frozenset(), False


def _is_fence(instructions: tuple[Instruction, ...], place: int) -> bool:
    """Whether what comes next orders memory between waves: the wait before it may serve that.

    LLVM puts a fence's wait straight before what it is for, after all scheduling.
    """
    for inst in instructions[place:]:
        if inst.cls in _PASSED_OVER:
            continue
        if inst.cls in _FENCED:
            return True
        if inst.cls in ("global_store", "scratch_store"):
            return _COHERENT.search(inst.operands) is not None
        if inst.cls in FLOW_CLASSES:
            flow = flow_of(inst.op, inst.operands)
            return flow in (Flow.END, Flow.CALL, Flow.INDIRECT)
        return False
    return False
