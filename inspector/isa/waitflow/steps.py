"""A function's instructions reduced to what matters to its wait counters.

An *event id* names one counter raised by one instruction. The registers that an instruction touches
are replaced by the ids of the events that write them, so that the dataflow needs no registers. A
*set* of ids is an int with their bits: the dataflow mostly asks whether two sets intersect.
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
from .counters import RAISING, CounterEvent, Effect, GenerationCounters, events_of
from .registers import high_half, low_half, named_halves, overlapping, split_destination, unnamed_of

BARRIER: frozenset[Effect] = frozenset({"lds", "dma"})
FENCE: frozenset[Effect] = frozenset({"load", "store", "lds", "dma", "other"})
_COPIED: frozenset[Effect] = frozenset({"dma"})
"""Reads of LDS may read data copied there, even where a single wave needs no barrier."""
_ORDERING = FLOW_CLASSES | {"barrier", "barrier_signal", "cache", "lds_read", "lds_atomic"}
_PASSED_OVER = frozenset({"wait", "alu_wait", "nop", "hint"})
_FENCED = frozenset({"barrier", "barrier_signal", "cache", "atomic", "lds_atomic", "message"})
# Stores that other waves are meant to see: gfx940's sc bits, older glc/dlc, gfx12's scope.
_COHERENT = re.compile(r"(?<![\w:])(?:sc0|sc1|glc|dlc)(?![\w:])|\bscope:SCOPE_(?:SE|DEV|SYS)\b")


class CounterStep(Struct, frozen=True):
    """One instruction that raises, waits for or orders something, or a run that only touches.

    Args:
        index: index of the instruction in its function; of a run, of its first one.
        raises: event ids.
        touches: set of the events whose registers it reads or writes, its own perhaps among them.
        waits: counter -> n.
        orders: set of the events that must be complete before it, for other waves to see them in
            order.
        fence: whether a wait belongs to a fence: the code after it orders memory.
        clears: nothing is outstanding any more (a call: the callee waits for everything).
        run: of a run that only touches, each instruction's index and its `touches`; those of the
            step are their union.
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


class CounterSteps(Struct, frozen=True):
    """A function reduced for the dataflow.

    Args:
        events: the events, by id.
        producers: by id, the index of the instruction.
        channels: by id, the number of its (counter, order); -1 where no order is kept.
        counts: counter -> its channels' numbers.
        blocks: by block index, its steps.
    """

    events: tuple[CounterEvent, ...]
    producers: tuple[int, ...]
    channels: tuple[int, ...]
    counts: Mapping[str, tuple[int, ...]]
    blocks: tuple[tuple[CounterStep, ...], ...]


def steps_of(
    function: Function,
    maxima: Mapping[str, int],
    waits_of: Callable[[Instruction], Mapping[str, int]],
) -> CounterSteps:
    """Reduces a function to steps.

    `maxima`: the machine's counters -> largest value; `waits_of`: the counters that a wait
    instruction waits for, and their counts.
    """
    counters = GenerationCounters.of(maxima)
    halves = counters.flat_in_order
    events: list[CounterEvent] = []
    producers: list[int] = []
    raised: dict[int, tuple[int, ...]] = {}
    for inst in function.instructions:
        inst_events = _events(inst, counters, halves) if inst.cls in RAISING else ()
        if inst_events:
            raised[inst.index] = tuple(range(len(events), len(events) + len(inst_events)))
            events.extend(inst_events)
            producers.extend([inst.index] * len(inst_events))
    channels, counts = _channels(events)
    maker = _StepMaker(
        events=events,
        raised=raised,
        channels=channels,
        waits_of=waits_of,
        halves=halves,
        wave_size=function.resources.wave_size,
    )
    blocks = tuple(
        tuple(maker.steps(function.instructions[block.start : block.stop]))
        for block in function.blocks
    )
    return CounterSteps(tuple(events), tuple(producers), channels, counts, blocks)


def _channels(
    events: Sequence[CounterEvent],
) -> tuple[tuple[int, ...], dict[str, tuple[int, ...]]]:
    """The channel of each event, and the channels of each counter; see `CounterSteps`."""
    numbers: dict[tuple[str, str], int] = {}
    channels = tuple(
        numbers.setdefault((e.counter, e.order), len(numbers)) if e.order else -1 for e in events
    )
    counts: dict[str, tuple[int, ...]] = {}
    for (counter, _), number in numbers.items():
        counts[counter] = (*counts.get(counter, ()), number)
    return channels, counts


def _events(
    inst: Instruction, counters: GenerationCounters, halves: bool
) -> tuple[CounterEvent, ...]:
    """The events of an instruction; 16-bit loads write half a register where `halves` is set."""
    events = events_of(inst, counters)
    if not halves or "_d16" not in inst.op.name:
        return events
    half = high_half if "_d16_hi" in inst.op.name else low_half
    return tuple(replace(event, writes=tuple(map(half, event.writes))) for event in events)


_HALF_STORE = re.compile(
    r"(?P<kind>ds|global|flat|scratch|buffer)_(?:store|write)_(?:d16_hi_)?(?:b8|b16|byte|short)"
    r"(?:_d16_hi)?"
)
_FULL_VGPR = re.compile(r"v\d+")


class _Memo(dict[str, int]):
    """Sets of ids by text, each computed once."""

    def __init__(self, compute: Callable[[str], int]) -> None:
        super().__init__()
        self._compute = compute

    def __missing__(self, text: str) -> int:
        value = self[text] = self._compute(text)
        return value


class _StepMaker:
    """Makes the steps of a function's blocks."""

    def __init__(
        self,
        *,
        events: Sequence[CounterEvent],
        raised: Mapping[int, tuple[int, ...]],
        channels: Sequence[int],
        waits_of: Callable[[Instruction], Mapping[str, int]],
        halves: bool,
        wave_size: int | None,
    ) -> None:
        """Prepares the sets of events."""
        self._halves = halves
        self._raised = raised
        self._events = events
        self._waits_of = waits_of
        self._channels = channels
        self._writers: dict[int, int] = {}  # register -> set of the events that write it
        self._of_channel: dict[int, int] = {}
        self._of_effect: dict[Effect, int] = {}
        for number, (event, channel) in enumerate(zip(events, channels, strict=True)):
            bit = 1 << number
            for register in event.writes:
                self._writers[register] = self._writers.get(register, 0) | bit
            self._of_channel[channel] = self._of_channel.get(channel, 0) | bit
            self._of_effect[event.effect] = self._of_effect.get(event.effect, 0) | bit
        # All operands are made of few different words, and no register's name spans two of them.
        self._of_word = _Memo(lambda word: self._writers_of(named_halves(word)))
        # Events whose registers an instruction touches without naming them.
        self._of_op = _Memo(lambda name: self._writers_of(unnamed_of(name, wave_size)))

    def steps(self, instructions: Sequence[Instruction]) -> list[CounterStep]:
        """The steps of one block."""
        steps: list[CounterStep] = []
        run: list[tuple[int, int]] = []
        for position, inst in enumerate(instructions):
            cls, index = inst.cls, inst.index
            if cls == "wait":
                waits = self._waits_of(inst)
                if waits:
                    _end(run, steps)
                    fence = _is_fence(instructions, position + 1)
                    steps.append(CounterStep(index, waits=waits, fence=fence))
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
                steps.append(CounterStep(index, raises or (), touches, None, orders, False, clears))
        _end(run, steps)
        return steps

    def _named(self, text: str, initial_ids: int = 0) -> int:
        """The set of events that write the registers a text names, joined with `initial_ids`."""
        words = text.replace(",", " ").split()
        return functools.reduce(operator.or_, map(self._of_word.__getitem__, words), initial_ids)

    def _operands(self, inst: Instruction) -> str:
        """The operands, with the half that a store of 16 bits and less reads (`v1.l`)."""
        store = _HALF_STORE.fullmatch(inst.op.name) if self._halves else None
        if store is None:
            return inst.operands
        words = inst.operands.split(",")
        data = 0 if store["kind"] == "buffer" else 1
        if data < len(words) and _FULL_VGPR.fullmatch(
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
        """The set of events whose registers an instruction that raises `raises` touches."""
        if not self._writers:
            return 0
        touched = 0
        for number in raises:
            touched |= self._writers_of(self._events[number].writes)
        if not touched:
            return self._named(self._operands(inst), self._of_op[inst.op.name])
        # Results for a register that it only writes may still be outstanding, as long as the two
        # arrive in the order of issue.
        for channel in {self._channels[number] for number in raises} - {-1}:
            touched &= ~self._of_channel[channel]
        # A 16-bit load into half a register keeps the other half. Before gfx10 that counts as a
        # read of it, as in LLVM; gfx11's halves are registers of their own.
        merges = "_d16" in inst.op.name and not self._halves
        text = inst.operands if merges else split_destination(inst.operands)[1]
        return touched | self._named(text)


def _end(run: list[tuple[int, int]], steps: list[CounterStep]) -> None:
    """Makes one step of a run and begins the next run."""
    if not run:
        return
    touches = 0
    for _, ids in run:
        touches |= ids
    steps.append(CounterStep(run[0][0], (), touches, run=tuple(run)))
    run.clear()


def _orders(inst: Instruction) -> tuple[frozenset[Effect], bool]:
    """The effects that an instruction orders, and whether it completes everything."""
    if inst.cls in ("barrier", "barrier_signal"):
        return BARRIER, False
    if inst.cls == "cache":
        return FENCE, False
    if inst.cls in ("lds_read", "lds_atomic"):
        return _COPIED, False
    if inst.cls in FLOW_CLASSES and flow_of(inst.op, inst.operands) in (Flow.CALL, Flow.INDIRECT):
        return FENCE, True
    return frozenset(), False


def _is_fence(instructions: Sequence[Instruction], start: int) -> bool:
    """Whether the code from `start` on orders memory between waves, so that a wait there serves it.

    LLVM inserts a fence's wait directly before the code it is for, after all scheduling.
    """
    for index in range(start, len(instructions)):
        inst = instructions[index]
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
