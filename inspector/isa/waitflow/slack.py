"""How long before a wait the operation that it waits for was issued: the slack.

Searched backwards from each wait over the control flow, back edges included, for the fewest
instructions. Only ways count on which the wait really ends the operation: at least n others of the
same order were raised after it, and no wait on the way ended it before. (In a pipelined loop the
load that stands just above a wait may be the one that the *next* iteration waits for.)
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from heapq import heappop, heappush
from itertools import accumulate

from msgspec import Struct

from ...model import Block
from .pending import CAP
from .steps import Steps
from .verdicts import Judged

Cost = tuple[int, int, int]
"""Instructions, those of them whose cycles are unknown, and the known cycles: compared in order."""
_FREE: Cost = (0, 0, 0)
_RAISE, _WAIT, _CLEAR = range(3)
Mark = tuple[int, int, int]
"""An instruction's index, what it does to a counter, and the event id or the wait's n."""


class Slack(Struct, frozen=True):
    """What lies between issue and wait.

    Args:
        instructions: the fewest on any way.
        cycles: of the matrix unit, on that way (the least where several are as short); None where
            the figure of an instruction is not known.
    """

    instructions: int
    cycles: int | None


def slacks(
    steps: Steps,
    blocks: Sequence[Block],
    cycles: Mapping[int, int | None],
    judged: Sequence[Judged],
) -> list[Slack | None]:
    """The slack of each verdict, in their order; None where it waits for nothing.

    Args:
        steps: the function.
        blocks: its control flow.
        cycles: index of each matrix instruction -> cycles that it takes its unit; None if unknown.
        judged: the verdicts.
    """
    search = _Search(steps, blocks, cycles)
    return [search.slack(verdict) if verdict.waits_for else None for verdict in judged]


class _Search:
    def __init__(
        self, steps: Steps, blocks: Sequence[Block], cycles: Mapping[int, int | None]
    ) -> None:
        self._steps = steps
        self._blocks = blocks
        self._starts = [block.start for block in blocks]
        self._raised: dict[int, list[int]] = {}  # instruction's index -> event ids
        for number, producer in enumerate(steps.producers):
            self._raised.setdefault(producer, []).append(number)
        self._matrix = sorted(cycles)
        figures = [cycles[index] for index in self._matrix]
        self._unknown = list(accumulate((f is None for f in figures), initial=0))
        self._known_cycles = list(accumulate((f or 0 for f in figures), initial=0))
        self._marks = _marks(steps)

    def slack(self, wait: Judged) -> Slack | None:
        """The least over the operations that the wait is there for."""
        targets: dict[int, set[int]] = {}
        for producer in wait.waits_for:
            for number in self._raised.get(producer, ()):
                if self._steps.events[number].counter == wait.counter:
                    channel = self._steps.channels[number]
                    targets.setdefault(channel, set()).add(number)
        costs = [self._nearest(wait, channel, event_ids) for channel, event_ids in targets.items()]
        best = min((cost for cost in costs if cost is not None), default=None)
        if best is None:
            return None
        instructions, unknown, cycles = best
        return Slack(instructions, None if unknown else cycles)

    def _nearest(self, wait: Judged, channel: int, event_ids: set[int]) -> Cost | None:
        """Dijkstra over (block, younger ones still to pass, older ones that no wait has ended)."""
        marks = self._marks[wait.counter, channel]
        start = bisect_right(self._starts, wait.index) - 1
        todo = [(_FREE, start, wait.index, wait.n if channel >= 0 else 0, CAP)]
        best: Cost | None = None
        visited: set[tuple[int, int, int, int]] = set()
        while todo:
            cost, block, stop, to_pass, left = heappop(todo)
            if best is not None and cost >= best:
                break
            if (block, stop, to_pass, left) in visited:
                continue
            visited.add((block, stop, to_pass, left))
            passed = marks[block]
            for place in range(bisect_left(passed, (stop,)) - 1, -1, -1):
                index, kind, value = passed[place]
                if kind == _RAISE:
                    if to_pass <= 0 and value in event_ids:
                        total = self._plus(cost, index + 1, stop)
                        best = total if best is None else min(best, total)
                        left = 0
                    elif channel >= 0:
                        to_pass -= 1
                        left -= left < CAP  # no wait has been passed: there is no limit
                elif kind == _CLEAR:
                    left = 0
                elif channel >= 0:
                    left = min(left, value)
                elif value == 0:
                    left = 0
                if left <= max(to_pass, 0):
                    break
            else:
                to_pass = max(to_pass, 0)
                at = self._blocks[block]
                entry_cost = self._plus(cost, at.start, stop)
                for previous in at.predecessors:
                    end = self._blocks[previous].stop
                    heappush(todo, (entry_cost, previous, end, to_pass, left))
        return best

    def _plus(self, cost: Cost, start: int, stop: int) -> Cost:
        """The cost of going through instructions start to stop as well."""
        instructions, unknown, known_cycles = cost
        first = bisect_left(self._matrix, start)
        last = bisect_left(self._matrix, stop, first)
        return (
            instructions + stop - start,
            unknown + self._unknown[last] - self._unknown[first],
            known_cycles + self._known_cycles[last] - self._known_cycles[first],
        )


def _marks(steps: Steps) -> dict[tuple[str, int], list[list[Mark]]]:
    """(Counter, channel) -> block -> what happens to the counter there, as far as it is seen."""
    empty = range(len(steps.blocks))
    keys = [(event.counter, at) for event, at in zip(steps.events, steps.channels, strict=True)]
    by_key: dict[tuple[str, int], list[list[Mark]]] = {k: [[] for _ in empty] for k in set(keys)}
    of_counter: dict[str, list[list[list[Mark]]]] = {}
    for (counter, _), marks in by_key.items():
        of_counter.setdefault(counter, []).append(marks)
    for index, block in enumerate(steps.blocks):
        for step in block:
            if step.waits is not None:
                for counter, n in step.waits.items():
                    for marks in of_counter.get(counter, ()):
                        marks[index].append((step.index, _WAIT, n))
                continue
            if step.clears:
                for marks in by_key.values():
                    marks[index].append((step.index, _CLEAR, 0))
            for number in step.raises:
                by_key[keys[number]][index].append((step.index, _RAISE, number))
    return by_key
