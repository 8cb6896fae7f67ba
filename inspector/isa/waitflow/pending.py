"""The operations that may be outstanding at each point of a function, over all paths.

Per event: the least age of any instance that may still be outstanding, and the greatest. An age is
the number of events of the same counter and order raised since. A wait for n completes every
instance of age n or more; the least age decides what is certainly complete, the greatest whether a
wait does anything. Where paths meet, least ages fall and greatest ages rise, so that the iteration
ends.

A counter and order is a channel, with a clock that counts its events. Inside a block an event is
kept with the clock at which it was raised, below 0 if that was before the block: its age is the
clock less that. Events without an order have no channel (-1): their age is always 0, and only a
wait for 0 completes them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from heapq import heappop, heappush

from msgspec import Struct, field

from ...model import Block
from .steps import CounterStep, CounterSteps, members

CAP = 64
"""The greatest age: no counter counts further (the machine files' largest maximum is 63)."""
_PATIENCE = 4
"""Visits of a block after which a rising age goes to CAP at once."""

Ages = dict[int, tuple[int, int]]
"""Event id -> (least age, greatest age)."""
Live = dict[int, tuple[int, int]]
"""Event id -> the clock when its youngest and its oldest instance were raised."""


class PendingEvents(Struct):
    """The fixed point of the dataflow.

    Args:
        at_wait: wait's index -> counter -> event id -> least age of the instances it completes.
        early: (instruction's index, event id) -> age: the instruction touches registers of an event
            that may be outstanding; a wait for that age in front of it would complete the event.
    """

    at_wait: dict[int, dict[str, dict[int, int]]] = field(default_factory=dict)
    early: dict[tuple[int, int], int] = field(default_factory=dict)


def outstanding(
    steps: CounterSteps, blocks: Sequence[Block], maxima: Mapping[str, int]
) -> PendingEvents:
    """Runs the dataflow: forwards, from nothing outstanding at the entry.

    `blocks`: the function's control flow; `maxima`: counter -> its largest value. Issue stalls
    there, so that an older event is complete without any wait; LLVM relies on that.
    """
    age_limits = ceilings(steps, maxima)
    entry_ages: dict[int, Ages] = {0: {}} if blocks else {}
    records: dict[int, PendingEvents] = {}  # by block, of its last visit
    visits = dict.fromkeys(range(len(blocks)), 0)
    work = [0] if blocks else []
    while work:
        index = heappop(work)  # in program order: loops settle before the code after them
        visits[index] += 1
        records[index] = PendingEvents()
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
    result = PendingEvents()
    for index in sorted(records):
        result.at_wait.update(records[index].at_wait)
        result.early.update(records[index].early)
    return result


def ceilings(steps: CounterSteps, maxima: Mapping[str, int]) -> tuple[int, ...]:
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
    for event, (least_age, greatest_age) in new.items():
        if event in old:
            old_least_age, old_greatest_age = old[event]
            greatest_age = (
                CAP
                if hurry and greatest_age > old_greatest_age
                else max(greatest_age, old_greatest_age)
            )
            least_age = min(least_age, old_least_age)
        joined[event] = (least_age, greatest_age)
    return joined


def through(
    steps: CounterSteps,
    block: Sequence[CounterStep],
    entry: Ages,
    age_limits: Sequence[int],
    record: PendingEvents,
) -> Ages:
    """Runs one block and returns the ages at its end.

    `block`: the block's steps; `entry`: the ages at its start; `age_limits`: by event id, as
    `ceilings` gives them; `record`: gets what the block's waits complete, and registers touched too
    early.
    """
    clocks = [0] * (max(steps.channels, default=-1) + 1)
    live = {event: (-least, -greatest) for event, (least, greatest) in entry.items()}
    state = _BlockState(steps, clocks, record, live, sum(1 << event for event in live))
    for step in block:
        if step.waits is not None:
            state.wait(step.index, step.waits)
            continue
        if step.touches & state.alive:
            state.touch(step, age_limits)
        if step.clears:
            state.clear()
        if step.raises:
            state.count(step.raises)
    ages = {
        event: (state.age(event, newest), state.age(event, oldest))
        for event, (newest, oldest) in state.live.items()
    }
    return {event: pair for event, pair in ages.items() if pair[0] < CAP}


class _BlockState(Struct):
    """The events that may be outstanding at one point of a block.

    Args:
        clocks: by channel, the events that the block has raised so far.
        record: gets what waits complete, and registers touched too early.
        live: the events, with the clocks at which they were raised.
        alive: the ids in `live`, as bits.
    """

    steps: CounterSteps
    clocks: list[int]
    record: PendingEvents
    live: Live
    alive: int

    def clear(self) -> None:
        """Ends all events."""
        self.live.clear()
        self.alive = 0

    def age(self, event: int, since: int) -> int:
        """The age of an event that was raised at the clock `since`."""
        channel = self.steps.channels[event]
        return min(self.clocks[channel] - since, CAP) if channel >= 0 else 0

    def count(self, raises: Sequence[int]) -> None:
        """Raises events."""
        live, channels = self.live, self.steps.channels
        for event in raises:
            self.alive |= 1 << event
            channel = channels[event]
            if channel < 0:
                live[event] = (0, 0)
                continue
            self.clocks[channel] += 1
            latest = self.clocks[channel]
            live[event] = (latest, live[event][1] if event in live else latest)

    def touch(self, step: CounterStep, age_limits: Sequence[int]) -> None:
        """Ends the events whose registers a step touches, and records those touched too early."""
        for index, touches in step.run or ((step.index, step.touches),):
            touched = touches & self.alive
            if not touched:
                continue
            self.alive &= ~touched
            for event in members(touched):
                newest, _ = self.live.pop(event)
                if (current_age := self.age(event, newest)) < age_limits[event]:
                    self.record.early[index, event] = current_age

    def wait(self, index: int, waits: Mapping[str, int]) -> None:
        """Ends the events that a wait completes, and records them."""
        completed: dict[str, dict[int, int]] = {counter: {} for counter in waits}
        channels = self.steps.channels
        for event, (newest, oldest) in list(self.live.items()):
            counter = self.steps.events[event].counter
            n = waits.get(counter)
            if n is None:
                continue
            channel = channels[event]
            if channel < 0:
                if n:
                    continue
                completed[counter][event] = 0
            else:
                latest = self.clocks[channel] - n
                if oldest > latest:
                    continue
                completed[counter][event] = max(self.clocks[channel] - newest, n)
                if newest > latest:
                    self.live[event] = (newest, latest + 1)
                    continue
            del self.live[event]
            self.alive &= ~(1 << event)
        self.record.at_wait[index] = completed
