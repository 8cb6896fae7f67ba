"""The slack of a wait: how long before it the operation that it waits for was issued.

Searched backwards from each wait over the control flow, back edges included, for the fewest
instructions. Only paths count on which the wait completes the operation: at least n others of the
same order were raised after it, and no wait on the path completed it before. (In a pipelined loop
the load just above a wait may be the one that the *next* iteration waits for.)
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from heapq import heappop, heappush
from itertools import accumulate

from msgspec import Struct

from ...model import Block
from .pending import CAP
from .steps import CounterSteps
from .verdicts import JudgedWait

Cost = tuple[int, int, int]
"""(instructions, those of unknown cycles, known cycles), compared in this order."""
_FREE: Cost = (0, 0, 0)
_RAISE, _WAIT, _CLEAR = range(3)
Mark = tuple[int, int, int]
"""(instruction's index, `_RAISE`, `_WAIT` or `_CLEAR`, event id or the wait's n)."""


class Slack(Struct, frozen=True):
    """The code between issue and wait.

    Args:
        instructions: the fewest on any path.
        cycles: cycles of the matrix unit on that path (the least where several are as short); None
            where the cycles of an instruction are not known.
    """

    instructions: int
    cycles: int | None


def slacks(
    steps: CounterSteps,
    blocks: Sequence[Block],
    cycles: Mapping[int, int | None],
    judged: Sequence[JudgedWait],
) -> list[Slack | None]:
    """The slack of each verdict, in their order; None where it waits for nothing.

    `blocks`: its control flow; `cycles`: index of each matrix instruction -> cycles that it takes
    its unit; None if unknown; `judged`: the verdicts.
    """
    search = _Search(steps, blocks, cycles)
    return [search.slack(verdict) if verdict.waits_for else None for verdict in judged]


class _Search:
    """Searches backwards from waits; set up once for a function."""

    def __init__(
        self, steps: CounterSteps, blocks: Sequence[Block], cycles: Mapping[int, int | None]
    ) -> None:
        self._steps = steps
        self._blocks = blocks
        self._starts = [block.start for block in blocks]
        self._raised: dict[int, list[int]] = {}  # instruction's index -> event ids
        for number, producer in enumerate(steps.producers):
            self._raised.setdefault(producer, []).append(number)
        self._matrix_indices = sorted(cycles)
        figures = [cycles[index] for index in self._matrix_indices]
        self._unknown = list(accumulate((f is None for f in figures), initial=0))
        self._known_cycles = list(accumulate((f or 0 for f in figures), initial=0))
        self._marks = _marks(steps)

    def slack(self, wait: JudgedWait) -> Slack | None:
        """The least slack over the operations that the wait is needed for."""
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

    def _nearest(self, wait: JudgedWait, channel: int, event_ids: set[int]) -> Cost | None:
        """The cheapest path back to one of the events, by Dijkstra's algorithm."""
        marks = self._marks[wait.counter, channel]
        start = bisect_right(self._starts, wait.index) - 1
        queue = [(_FREE, start, wait.index, wait.n if channel >= 0 else 0, CAP)]
        best: Cost | None = None
        visited: set[tuple[int, int, int, int]] = set()
        while queue:
            cost, block, stop, to_pass, outstanding = heappop(queue)
            if best is not None and cost >= best:
                break
            if (block, stop, to_pass, outstanding) in visited:
                continue
            visited.add((block, stop, to_pass, outstanding))
            block_marks = marks[block]
            for mark_number in range(bisect_left(block_marks, (stop,)) - 1, -1, -1):
                index, action, value = block_marks[mark_number]
                if action == _RAISE:
                    if to_pass <= 0 and value in event_ids:
                        total = self._plus(cost, index + 1, stop)
                        best = total if best is None else min(best, total)
                        outstanding = 0
                    elif channel >= 0:
                        to_pass -= 1
                        outstanding -= outstanding < CAP  # CAP until a wait was passed
                elif action == _CLEAR:
                    outstanding = 0
                elif channel >= 0:
                    outstanding = min(outstanding, value)
                elif value == 0:
                    outstanding = 0
                if outstanding <= max(to_pass, 0):
                    break
            else:
                to_pass = max(to_pass, 0)
                block_model = self._blocks[block]
                entry_cost = self._plus(cost, block_model.start, stop)
                for previous in block_model.predecessors:
                    end = self._blocks[previous].stop
                    heappush(queue, (entry_cost, previous, end, to_pass, outstanding))
        return best

    def _plus(self, cost: Cost, start: int, stop: int) -> Cost:
        """The cost with the instructions from start to stop added."""
        instructions, unknown, known_cycles = cost
        low = bisect_left(self._matrix_indices, start)
        high = bisect_left(self._matrix_indices, stop, low)
        return (
            instructions + stop - start,
            unknown + self._unknown[high] - self._unknown[low],
            known_cycles + self._known_cycles[high] - self._known_cycles[low],
        )


def _marks(steps: CounterSteps) -> dict[tuple[str, int], list[list[Mark]]]:
    """(Counter, channel) -> block -> the marks of the counter in it, in order."""
    block_numbers = range(len(steps.blocks))
    keys = [
        (event.counter, channel)
        for event, channel in zip(steps.events, steps.channels, strict=True)
    ]
    by_key: dict[tuple[str, int], list[list[Mark]]] = {
        k: [[] for _ in block_numbers] for k in set(keys)
    }
    by_counter: dict[str, list[list[list[Mark]]]] = {}
    for (counter, _), marks in by_key.items():
        by_counter.setdefault(counter, []).append(marks)
    for index, block in enumerate(steps.blocks):
        for step in block:
            if step.waits is not None:
                for counter, n in step.waits.items():
                    for marks in by_counter.get(counter, ()):
                        marks[index].append((step.index, _WAIT, n))
                continue
            if step.clears:
                for marks in by_key.values():
                    marks[index].append((step.index, _CLEAR, 0))
            for number in step.raises:
                by_key[keys[number]][index].append((step.index, _RAISE, number))
    return by_key
