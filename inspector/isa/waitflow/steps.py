"""A function's instructions reduced to what matters to its counters, worked out once.

An *event id* names one counter raised by one instruction. What an instruction touches is turned
into the ids whose registers those are, so that the dataflow never looks at registers again. A *set*
of ids is an int with their bits: most questions here are whether two sets meet.
"""

from __future__ import annotations

import functools
import operator
import re
from collections.abc import Callable, Iterable, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from ...model import Function, Instruction
from ..mnemonics import FLOW_CLASSES, Flow, flow_of
from .counters import RAISING, Counters, Effect, Event, events_of
from .registers import high_half, low_half, named_halves, overlapping, split_destination, unnamed_of

BARRIER: frozenset[Effect] = frozenset({"lds", "dma"})
FENCE: frozenset[Effect] = frozenset({"load", "store", "lds", "dma", "other"})
_COPIED: frozenset[Effect] = frozenset({"dma"})
"""What reads LDS may read what was copied there, even where a lone wave needs no barrier."""
_ORDERING = FLOW_CLASSES | {"barrier", "barrier_signal", "cache", "lds_read", "lds_atomic"}
_PASSED_OVER = frozenset({"wait", "alu_wait", "nop", "hint"})
_FENCED = frozenset({"barrier", "barrier_signal", "cache", "atomic", "lds_atomic", "message"})
# Stores that other waves are meant to see: gfx940's sc bits, older glc/dlc, gfx12's scope.
_COHERENT = re.compile(r"(?<![\w:])(?:sc0|sc1|glc|dlc)(?![\w:])|\bscope:SCOPE_(?:SE|DEV|SYS)\b")


class Step(Struct, frozen=True):
    """One instruction that raises, waits for or orders something, or a run that only touches.

    Args:
        index: of the instruction in its function, the first of a run.
        raises: event ids.
        touches: set of ids of events whose registers it reads or writes, itself perhaps among them.
        waits: counter -> n.
        orders: set of ids that must be over before it, for other waves to see them in order.
        fence: whether a wait stands here for a fence: what follows it orders memory.
        clears: nothing is outstanding any more (a call: the callee waits for everything).
        run: of a run that only touches, each instruction's index and what it touches; `touches` is
            all of that.
    """

    index: int
    raises: tuple[int, ...] = ()
    touches: int = 0
    waits: Mapping[str, int] | None = None
    orders: int = 0
    fence: bool = False
    clears: bool = False
    run: Sequence[tuple[int, int]] = ()


def members(ids: int) -> list[int]:
    """The event ids in a set, ascending."""
    numbers = []
    while ids:
        lowest = ids & -ids
        numbers.append(lowest.bit_length() - 1)
        ids ^= lowest
    return numbers


class Steps(Struct, frozen=True):
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
    halves = counters.flat_in_order
    events: list[Event] = []
    producers: list[int] = []
    raised: dict[int, tuple[int, ...]] = {}
    writers: dict[int, int] = {}
    for inst in function.instructions:
        if inst.cls not in RAISING:
            continue
        inst_events = events_of(inst, counters)
        if not inst_events:
            continue
        if halves and "_d16" in inst.op.name:
            half = high_half if "_d16_hi" in inst.op.name else low_half
            inst_events = tuple(
                replace(event, writes=tuple(map(half, event.writes))) for event in inst_events
            )
        ids = tuple(range(len(events), len(events) + len(inst_events)))
        raised[inst.index] = ids
        for number, event in zip(ids, inst_events, strict=True):
            events.append(event)
            producers.append(inst.index)
            for register in event.writes:
                writers[register] = writers.get(register, 0) | 1 << number
    numbers: dict[tuple[str, str], int] = {}
    channels = tuple(
        numbers.setdefault((e.counter, e.order), len(numbers)) if e.order else -1 for e in events
    )
    counts: dict[str, tuple[int, ...]] = {}
    for (counter, _), number in numbers.items():
        counts[counter] = (*counts.get(counter, ()), number)
    wave = function.resources.wave_size
    maker = _Maker(raised, writers, events, channels, waits_of, halves, wave)
    blocks = tuple(
        tuple(maker.steps(function.instructions[block.start : block.stop]))
        for block in function.blocks
    )
    return Steps(tuple(events), tuple(producers), channels, counts, blocks)


_HALF_STORE = re.compile(
    r"(?P<kind>ds|global|flat|scratch|buffer)_(?:store|write)_(?:d16_hi_)?(?:b8|b16|byte|short)"
    r"(?:_d16_hi)?"
)
_WHOLE = re.compile(r"v\d+")


class _Memo(dict[str, int]):
    """Sets of ids by text, each worked out once."""

    def __init__(self, make: Callable[[str], int]) -> None:
        super().__init__()
        self._make = make

    def __missing__(self, text: str) -> int:
        value = self[text] = self._make(text)
        return value


class _Maker:
    """Makes steps.

    Args:
        raised: instruction's index -> event ids.
        writers: register -> set of the events that write it.
        events: by id.
        channels: by id.
        waits_of: what a wait instruction waits for.
        halves: whether a load into half a register leaves the other half alone.
        wave: lanes of a wave.
    """

    def __init__(
        self,
        raised: Mapping[int, tuple[int, ...]],
        writers: Mapping[int, int],
        events: Sequence[Event],
        channels: Sequence[int],
        waits_of: Callable[[Instruction], Mapping[str, int]],
        halves: bool,
        wave: int | None,
    ) -> None:
        self._halves = halves
        self._raised = raised
        self._writers = writers
        self._events = events
        self._waits_of = waits_of
        self._channels = channels
        self._of_channel: dict[int, int] = {}
        self._of_effect: dict[Effect, int] = {}
        for number, (event, channel) in enumerate(zip(events, channels, strict=True)):
            bit = 1 << number
            self._of_channel[channel] = self._of_channel.get(channel, 0) | bit
            self._of_effect[event.effect] = self._of_effect.get(event.effect, 0) | bit
        # Few different words make up all operands, and no register's name goes over two of them.
        self._of_word = _Memo(lambda word: self._writers_of(named_halves(word)))
        # What an instruction touches without naming it.
        self._of_op = _Memo(lambda name: self._writers_of(unnamed_of(name, wave)))

    def steps(self, instructions: Sequence[Instruction]) -> list[Step]:
        steps: list[Step] = []
        run: list[tuple[int, int]] = []
        for place, inst in enumerate(instructions):
            cls, index = inst.cls, inst.index
            if cls == "wait":
                waits = self._waits_of(inst)
                if waits:
                    _end(run, steps)
                    fence = _is_fence(instructions, place + 1)
                    steps.append(Step(index, waits=waits, fence=fence))
                continue
            raises = self._raised.get(index)
            if raises is None and cls not in _ORDERING:
                if self._writers:
                    touches = self._named(self._operands(inst), self._of_op[inst.op.name])
                    if touches:
                        run.append((index, touches))
                continue
            _end(run, steps)
            effects, clears = _orders(inst)
            orders = 0
            for effect in effects:
                orders |= self._of_effect.get(effect, 0)
            touches = self._touches(inst, raises or ())
            if raises or touches or orders or clears:
                steps.append(Step(index, raises or (), touches, None, orders, False, clears))
        _end(run, steps)
        return steps

    def _named(self, text: str, initial_ids: int = 0) -> int:
        """Events that write the registers that a text names, added to `initial_ids`."""
        words = text.replace(",", " ").split()
        return functools.reduce(operator.or_, map(self._of_word.__getitem__, words), initial_ids)

    def _operands(self, inst: Instruction) -> str:
        """The operands, with the half that a store of 16 bits and less reads."""
        store = _HALF_STORE.fullmatch(inst.op.name) if self._halves else None
        if store is None:
            return inst.operands
        words = inst.operands.split(",")
        data = 0 if store["kind"] == "buffer" else 1
        if data < len(words) and _WHOLE.fullmatch(
            words[data].split()[0] if words[data].split() else ""
        ):
            words[data] = f" {words[data].split()[0]}{'.h' if 'd16_hi' in inst.op.name else '.l'}"
        return ",".join(words)

    def _writers_of(self, registers: Iterable[int]) -> int:
        ids = 0
        for register in registers:
            for overlapped in overlapping(register):
                ids |= self._writers.get(overlapped, 0)
        return ids

    def _touches(self, inst: Instruction, raises: tuple[int, ...]) -> int:
        if not self._writers:
            return 0
        touched = 0
        for number in raises:
            touched |= self._writers_of(self._events[number].writes)
        if not touched:
            return self._named(self._operands(inst), self._of_op[inst.op.name])
        # What it only writes may still be on its way to the same register, so long as the two
        # come back in the order of issue.
        for channel in {self._channels[number] for number in raises} - {-1}:
            touched &= ~self._of_channel[channel]
        # A 16-bit load into half a register keeps the other half. Before gfx10 that counts as a
        # read of it, as LLVM has it; gfx11's halves are registers of their own.
        merges = "_d16" in inst.op.name and not self._halves
        text = inst.operands if merges else split_destination(inst.operands)[1]
        return touched | self._named(text)


def _end(run: list[tuple[int, int]], steps: list[Step]) -> None:
    """Makes one step of a run."""
    if not run:
        return
    touches = 0
    for _, ids in run:
        touches |= ids
    steps.append(Step(run[0][0], (), touches, run=tuple(run)))
    run.clear()


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


def _is_fence(instructions: Sequence[Instruction], place: int) -> bool:
    """Whether what comes next orders memory between waves: the wait before it may serve that.

    LLVM puts a fence's wait straight before what it is for, after all scheduling.
    """
    for at in range(place, len(instructions)):
        inst = instructions[at]
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
