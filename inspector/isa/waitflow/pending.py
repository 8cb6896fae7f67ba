"""The operations that may be outstanding at each point of a function, over all paths.

Per event: the least age of any instance that may still be outstanding, and the greatest. An age is
the number of events of the same counter and order raised since. A wait for n completes every
instance of age n or more; the least age decides what is certainly complete, the greatest whether a
wait does anything. Where paths meet, least ages fall and greatest ages rise, so that the iteration
ends.

A counter rises with every operation that it counts, and a wait for n lets it fall to n. How fast it
falls by itself is not known, so its count is the most over all paths: what a wait at that place
would have to expect. In a loop that never waits that is its largest value, where issue stalls.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from heapq import heappop, heappush

from msgspec import Struct, field

from ...model import Block, Function, Instruction
from ..mnemonics import FLOW_CLASSES, Flow, flow_of
from .counters import RAISING, Counters, events_of
from .steps import Step, Steps, members

CAP = 64
"""The greatest age: no counter counts further (the machine files' largest maximum is 63)."""
_PATIENCE = 4
"""Visits of a block after which a rising age goes to CAP at once."""

Ages = dict[int, tuple[int, int]]
"""Event id -> (least age, greatest age)."""
Live = dict[int, tuple[int, int]]
"""Event id -> the clock when its youngest and its oldest instance were raised."""


class Outstanding(Struct):
    """The fixed point of the dataflow.

    Args:
        at_wait: wait's index -> counter -> event id -> least age of the instances it completes.
        early: (instruction's index, event id) -> age: the instruction touches registers of an event
            that may still be outstanding, and that a wait for the age would have completed.
    """

    at_wait: dict[int, dict[str, dict[int, int]]] = field(default_factory=dict)
    early: dict[tuple[int, int], int] = field(default_factory=dict)


def outstanding(steps: Steps, blocks: Sequence[Block], maxima: Mapping[str, int]) -> Outstanding:
    """Runs the dataflow: forwards, from nothing outstanding at the entry.

    Args:
        steps: the function.
        blocks: its control flow.
        maxima: counter -> its largest value. Issue stalls there, so that an older event is
            complete without any wait; LLVM relies on that.
    """
    age_limits = ceilings(steps, maxima)
    entry_ages: dict[int, Ages] = {0: {}} if blocks else {}
    records: dict[int, Outstanding] = {}  # by block, of its last visit
    visits = dict.fromkeys(range(len(blocks)), 0)
    work = [0] if blocks else []
    while work:
        index = heappop(work)  # in program order: loops settle before the code after them
        visits[index] += 1
        records[index] = Outstanding()
        exit_ages = through(
            steps, steps.blocks[index], entry_ages[index], age_limits, records[index]
        )
        for successor in blocks[index].successors:
            previous_ages = entry_ages.get(successor)
            joined = join(previous_ages, exit_ages, visits[successor] > _PATIENCE)
            if joined != previous_ages:
                entry_ages[successor] = joined
                if successor not in work:
                    heappush(work, successor)
    result = Outstanding()
    for index in sorted(records):
        result.at_wait.update(records[index].at_wait)
        result.early.update(records[index].early)
    return result


def ceilings(steps: Steps, maxima: Mapping[str, int]) -> tuple[int, ...]:
    """By event id the largest value of its counter: an older event is complete."""
    return tuple(maxima.get(event.counter, CAP) for event in steps.events)


def join(old: Ages | None, new: Ages, hurry: bool) -> Ages:
    """The ages where two paths meet.

    Args:
        old: the ages so far; None before the first visit.
        new: the ages on the other path.
        hurry: rising ages go to CAP at once.
    """
    if old is None:
        return new
    joined = dict(old)
    for number, (least_age, greatest_age) in new.items():
        if number in old:
            old_least_age, old_greatest_age = old[number]
            greatest_age = (
                CAP
                if hurry and greatest_age > old_greatest_age
                else max(greatest_age, old_greatest_age)
            )
            least_age = min(least_age, old_least_age)
        joined[number] = (least_age, greatest_age)
    return joined


def through(
    steps: Steps,
    block: Sequence[Step],
    entry: Ages,
    age_limits: Sequence[int],
    record: Outstanding,
) -> Ages:
    """Runs one block and returns the ages at its end.

    Args:
        steps: the function.
        block: the block's steps.
        entry: the ages at its start.
        age_limits: by event id, as `ceilings` gives them.
        record: gets what the block's waits complete, and registers touched too early.
    """
    channels = steps.channels
    # Inside the block an age is kept as the clock at which the event was raised.
    clocks = [0] * (max(channels, default=-1) + 1)
    live: Live = {n: (-least_age, -greatest_age) for n, (least_age, greatest_age) in entry.items()}
    alive = 0  # the set of the ids in `live`
    for number in live:
        alive |= 1 << number

    def age(number: int, since: int) -> int:
        channel = channels[number]
        return min(clocks[channel] - since, CAP) if channel >= 0 else 0

    for step in block:
        if step.waits is not None:
            alive &= ~_wait(steps, step.index, step.waits, live, clocks, record)
            continue
        if step.touches & alive:
            for index, touches in step.run or ((step.index, step.touches),):
                touched = touches & alive
                if not touched:
                    continue
                alive &= ~touched
                for number in members(touched):
                    newest, _ = live.pop(number)
                    if (current_age := age(number, newest)) < age_limits[number]:
                        record.early[index, number] = current_age
        if step.clears:
            live.clear()
            alive = 0
        for number in step.raises:
            alive |= 1 << number
            channel = channels[number]
            if channel < 0:
                live[number] = (0, 0)
                continue
            clocks[channel] += 1
            latest = clocks[channel]
            live[number] = (latest, live[number][1] if number in live else latest)
    ages = {n: (age(n, newest), age(n, oldest)) for n, (newest, oldest) in live.items()}
    return {
        n: (least_age, greatest_age)
        for n, (least_age, greatest_age) in ages.items()
        if least_age < CAP
    }


def _wait(
    steps: Steps,
    index: int,
    waits: Mapping[str, int],
    live: Live,
    clocks: Sequence[int],
    record: Outstanding,
) -> int:
    """Runs one wait; returns the set of the events of which no instance is outstanding any more."""
    completed: dict[str, dict[int, int]] = {counter: {} for counter in waits}
    completed_ids = 0
    events, channels = steps.events, steps.channels
    for number, (newest, oldest) in list(live.items()):
        counter = events[number].counter
        n = waits.get(counter)
        if n is None:
            continue
        channel = channels[number]
        if channel < 0:
            if n:
                continue
            completed[counter][number] = 0
        else:
            latest = clocks[channel] - n
            if oldest > latest:
                continue
            completed[counter][number] = max(clocks[channel] - newest, n)
            if newest > latest:
                live[number] = (newest, latest + 1)
                continue
        del live[number]
        completed_ids |= 1 << number
    record.at_wait[index] = completed
    return completed_ids


# --------------------------------------------------------------------------- counter by counter

Count = tuple[int, ...]
"""By counter, the most operations that may be outstanding."""


def outstanding_counts(
    function: Function,
    maxima: Mapping[str, int],
    waits_of: Callable[[Instruction], Mapping[str, int]],
) -> tuple[Mapping[str, int] | None, ...]:
    """The most operations that may be outstanding after each instruction of a function.

    Args:
        function: the code; nothing is outstanding at its entry.
        maxima: the machine's counters -> largest value.
        waits_of: the counters that a wait instruction waits for, and their counts.

    Returns:
        For each instruction counter -> count, with the counters that the function's operations
        raise; None where control never comes.
    """
    return _CounterFlow(function, maxima, waits_of).run()


class _CounterFlow:
    """The dataflow of the counters' values."""

    def __init__(
        self,
        function: Function,
        maxima: Mapping[str, int],
        waits_of: Callable[[Instruction], Mapping[str, int]],
    ) -> None:
        self._function = function
        counters = Counters.of(maxima)
        raised = {
            inst.index: [event.counter for event in events_of(inst, counters)]
            for inst in function.instructions
            if inst.cls in RAISING
        }
        self._names = tuple(dict.fromkeys(name for names in raised.values() for name in names))
        self._maxima = tuple(min(CAP, maxima.get(name, CAP)) for name in self._names)
        number_of = {name: number for number, name in enumerate(self._names)}
        # Instructions that change a count: the counters they raise, and the limits they set.
        self._adds = {
            i: [number_of[name] for name in names] for i, names in raised.items() if names
        }
        self._limits: dict[int, list[tuple[int, int]]] = {}
        for inst in function.instructions:
            if inst.cls == "wait":
                waits = waits_of(inst).items()
                self._limits[inst.index] = [(number_of[c], n) for c, n in waits if c in number_of]
            elif inst.cls in FLOW_CLASSES and flow_of(inst.op, inst.operands) is Flow.CALL:
                # The callee waits for everything before it returns.
                self._limits[inst.index] = [(number, 0) for number in number_of.values()]
        self._changing = sorted(self._adds.keys() | self._limits.keys())

    def run(self) -> tuple[Mapping[str, int] | None, ...]:
        """Computes the fixed point and returns the counts of `outstanding_counts`."""
        blocks = self._function.blocks
        inside = [self._inside(block) for block in blocks]
        effects = [self._effect(changing) for changing in inside]
        entry_counts: dict[int, Count] = {0: (0,) * len(self._names)} if blocks else {}
        work = [0] if blocks else []
        while work:
            index = heappop(work)
            exit_count = tuple(
                min(count + add, limit)
                for count, (add, limit) in zip(entry_counts[index], effects[index], strict=True)
            )
            for successor in blocks[index].successors:
                entry_count = entry_counts.get(successor)
                joined = (
                    exit_count if entry_count is None else tuple(map(max, entry_count, exit_count))
                )
                if joined != entry_count:
                    entry_counts[successor] = joined
                    if successor not in work:
                        heappush(work, successor)
        return self._counts_by_instruction(entry_counts, inside)

    def _inside(self, block: Block) -> Sequence[int]:
        """The instructions of a block that change a count."""
        changing = self._changing
        return changing[bisect_left(changing, block.start) : bisect_left(changing, block.stop)]

    def _effect(self, changing: Sequence[int]) -> tuple[tuple[int, int], ...]:
        """(operations added, greatest count at its end) of a block, by counter."""
        additions = [0] * len(self._names)
        limits = list(self._maxima)
        for position in changing:
            for number in self._adds.get(position, ()):
                additions[number] += 1
                limits[number] = min(limits[number] + 1, self._maxima[number])
            for number, wait_limit in self._limits.get(position, ()):
                limits[number] = min(limits[number], wait_limit)
        return tuple(zip(additions, limits, strict=True))

    def _counts_by_instruction(
        self, entry_counts: Mapping[int, Count], inside: Sequence[Sequence[int]]
    ) -> tuple[Mapping[str, int] | None, ...]:
        """The counts after each instruction; None where control never comes."""
        count_maps: dict[Count, Mapping[str, int]] = {}
        result: list[Mapping[str, int] | None] = [None] * len(self._function.instructions)
        for index, count in entry_counts.items():
            block = self._function.blocks[index]
            position = block.start
            for changing in (*inside[index], block.stop):
                count_map = count_maps.setdefault(count, dict(zip(self._names, count, strict=True)))
                result[position:changing] = [count_map] * (changing - position)
                if changing < block.stop:
                    count = self._step(changing, count)
                position = changing
        return tuple(result)

    def _step(self, position: int, count: Count) -> Count:
        """The counts after an instruction that changes them."""
        changed = list(count)
        for number in self._adds.get(position, ()):
            changed[number] = min(changed[number] + 1, self._maxima[number])
        for number, wait_limit in self._limits.get(position, ()):
            changed[number] = min(changed[number], wait_limit)
        return tuple(changed)
