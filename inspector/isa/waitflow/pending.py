"""What is outstanding at each point of a function, over all paths.

Per event: the least age of any instance that may still be outstanding, and the greatest. An age is
how many events of the same counter and order were raised since. A wait for n ends every instance of
age n or more; the least age decides what is surely over, the greatest whether a wait does anything.
Where paths meet, least ages fall and greatest ages rise, so that the iteration comes to an end.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from heapq import heappop, heappush

from msgspec import Struct, field

from ...model import Block
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
