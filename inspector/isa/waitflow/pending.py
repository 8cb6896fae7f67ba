"""What is outstanding at each point of a function, over all paths.

Per event: the least age of any instance that may still be outstanding, and the greatest. An age is
how many events of the same counter and order were raised since. A wait for n ends every instance of
age n or more; the least age decides what is surely over, the greatest whether a wait does anything.
Where paths meet, least ages fall and greatest ages rise, so that the iteration comes to an end.

A counter rises with every operation that counts in it, and a wait for n lets it fall to n. How fast
it falls by itself nobody knows, so its count is the most over all paths: what a wait placed there
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
"""Ages end here: no counter counts further (the machine files' largest maximum is 63)."""
_PATIENCE = 4
"""Visits of a block after which a rising age goes to CAP at once."""

Ages = dict[int, tuple[int, int]]
"""Event id -> the least age and the greatest."""
Live = dict[int, tuple[int, int]]
"""Event id -> the clock when the youngest instance was raised, and the oldest."""


class Outstanding(Struct):
    """The fixed point.

    Args:
        at_wait: wait's index -> counter -> event id -> least age of the instances that it ends.
        early: (instruction's index, event id) -> age: it touches registers of what may still be
            outstanding, and a wait for the age would have ended that.
    """

    at_wait: dict[int, dict[str, dict[int, int]]] = field(default_factory=dict)
    early: dict[tuple[int, int], int] = field(default_factory=dict)


def outstanding(steps: Steps, blocks: Sequence[Block], maxima: Mapping[str, int]) -> Outstanding:
    """Runs the dataflow: forwards, from nothing outstanding at the entry.

    Args:
        steps: the function.
        blocks: its control flow.
        maxima: counter -> its largest value. Issue stalls there, so that an older event is over
            without any wait; LLVM relies on that.
    """
    most = ceilings(steps, maxima)
    entry_ages: dict[int, Ages] = {0: {}} if blocks else {}
    records: dict[int, Outstanding] = {}  # what the last visit found: nothing changes after it
    visits = dict.fromkeys(range(len(blocks)), 0)
    waiting = [0] if blocks else []
    while waiting:
        index = heappop(waiting)  # blocks stand in program order: loops settle before what follows
        visits[index] += 1
        records[index] = Outstanding()
        exit_ages = through(steps, steps.blocks[index], entry_ages[index], most, records[index])
        for successor in blocks[index].successors:
            previous_ages = entry_ages.get(successor)
            joined = join(previous_ages, exit_ages, visits[successor] > _PATIENCE)
            if joined != previous_ages:
                entry_ages[successor] = joined
                if successor not in waiting:
                    heappush(waiting, successor)
    result = Outstanding()
    for index in sorted(records):
        result.at_wait.update(records[index].at_wait)
        result.early.update(records[index].early)
    return result


def ceilings(steps: Steps, maxima: Mapping[str, int]) -> tuple[int, ...]:
    """By event id the largest value of its counter: an older event is over."""
    return tuple(maxima.get(event.counter, CAP) for event in steps.events)


def join(old: Ages | None, new: Ages, hurry: bool) -> Ages:
    """What may be outstanding where two paths meet; `hurry`: rising ages go to CAP at once."""
    if old is None:
        return new
    joined = dict(old)
    for number, (least, most) in new.items():
        if number in old:
            old_least, old_most = old[number]
            most = CAP if hurry and most > old_most else max(most, old_most)
            least = min(least, old_least)
        joined[number] = (least, most)
    return joined


def through(
    steps: Steps,
    block: Sequence[Step],
    entry: Ages,
    most: Sequence[int],
    record: Outstanding,
) -> Ages:
    """One block: the ages at its end. Ages are kept as `clock - age` while it runs."""
    channels = steps.channels
    clocks = [0] * (max(channels, default=-1) + 1)
    live: Live = {number: (-least, -most) for number, (least, most) in entry.items()}
    alive = 0  # the set of those in `live`
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
                    if (current_age := age(number, newest)) < most[number]:
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
    return {n: (least, most) for n, (least, most) in ages.items() if least < CAP}


def _wait(
    steps: Steps,
    index: int,
    waits: Mapping[str, int],
    live: Live,
    clocks: Sequence[int],
    record: Outstanding,
) -> int:
    """One wait: the set of what it ends for good."""
    ended: dict[str, dict[int, int]] = {counter: {} for counter in waits}
    over = 0
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
            ended[counter][number] = 0
        else:
            latest = clocks[channel] - n
            if oldest > latest:
                continue
            ended[counter][number] = max(clocks[channel] - newest, n)
            if newest > latest:
                live[number] = (newest, latest + 1)
                continue
        del live[number]
        over |= 1 << number
    record.at_wait[index] = ended
    return over


# --------------------------------------------------------------------------- counter by counter

Count = tuple[int, ...]
"""For each counter, the most that may be outstanding."""


def outstanding_counts(
    function: Function,
    maxima: Mapping[str, int],
    waits_of: Callable[[Instruction], Mapping[str, int]],
) -> tuple[Mapping[str, int] | None, ...]:
    """What may be outstanding after each instruction of a function, at most.

    Args:
        function: the code; nothing is outstanding at its entry.
        maxima: the machine's counters -> largest value.
        waits_of: what a wait instruction waits for.

    Returns:
        For each instruction counter -> count, with the counters that the function's operations
        raise; None where control never comes.
    """
    walk = _Walk(function, maxima, waits_of)
    return walk.run()


class _Walk:
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
        self._most = tuple(min(CAP, maxima.get(name, CAP)) for name in self._names)
        place = {name: number for number, name in enumerate(self._names)}
        # Instructions that change a count: what they add, what they leave.
        self._adds = {i: [place[name] for name in names] for i, names in raised.items() if names}
        self._leaves: dict[int, list[tuple[int, int]]] = {}
        for inst in function.instructions:
            if inst.cls == "wait":
                waits = waits_of(inst).items()
                self._leaves[inst.index] = [(place[c], n) for c, n in waits if c in place]
            elif inst.cls in FLOW_CLASSES and flow_of(inst.op, inst.operands) is Flow.CALL:
                # The callee waits for everything before it comes back.
                self._leaves[inst.index] = [(number, 0) for number in place.values()]
        self._changing = sorted(self._adds.keys() | self._leaves.keys())

    def run(self) -> tuple[Mapping[str, int] | None, ...]:
        """The fixed point, written out."""
        blocks = self._function.blocks
        inside = [self._inside(block) for block in blocks]
        effects = [self._effect(changing) for changing in inside]
        entry_counts: dict[int, Count] = {0: (0,) * len(self._names)} if blocks else {}
        waiting = [0] if blocks else []
        while waiting:
            index = heappop(waiting)
            exit_count = tuple(
                min(count + add, most)
                for count, (add, most) in zip(entry_counts[index], effects[index], strict=True)
            )
            for successor in blocks[index].successors:
                entry_count = entry_counts.get(successor)
                joined = (
                    exit_count if entry_count is None else tuple(map(max, entry_count, exit_count))
                )
                if joined != entry_count:
                    entry_counts[successor] = joined
                    if successor not in waiting:
                        heappush(waiting, successor)
        return self._written_out(entry_counts, inside)

    def _inside(self, block: Block) -> Sequence[int]:
        """The instructions of a block that change a count."""
        changing = self._changing
        return changing[bisect_left(changing, block.start) : bisect_left(changing, block.stop)]

    def _effect(self, changing: Sequence[int]) -> tuple[tuple[int, int], ...]:
        """What a block does to each count: it adds some, and leaves at most so many."""
        adds = [0] * len(self._names)
        mosts = list(self._most)
        for at in changing:
            for number in self._adds.get(at, ()):
                adds[number] += 1
                mosts[number] = min(mosts[number] + 1, self._most[number])
            for number, left in self._leaves.get(at, ()):
                mosts[number] = min(mosts[number], left)
        return tuple(zip(adds, mosts, strict=True))

    def _written_out(
        self, entry_counts: Mapping[int, Count], inside: Sequence[Sequence[int]]
    ) -> tuple[Mapping[str, int] | None, ...]:
        count_maps: dict[Count, Mapping[str, int]] = {}
        result: list[Mapping[str, int] | None] = [None] * len(self._function.instructions)
        for index, count in entry_counts.items():
            block = self._function.blocks[index]
            at = block.start
            for changing in (*inside[index], block.stop):
                count_map = count_maps.setdefault(count, dict(zip(self._names, count, strict=True)))
                result[at:changing] = [count_map] * (changing - at)
                if changing < block.stop:
                    count = self._step(changing, count)
                at = changing
        return tuple(result)

    def _step(self, at: int, count: Count) -> Count:
        changed = list(count)
        for number in self._adds.get(at, ()):
            changed[number] = min(changed[number] + 1, self._most[number])
        for number, left in self._leaves.get(at, ()):
            changed[number] = min(changed[number], left)
        return tuple(changed)
