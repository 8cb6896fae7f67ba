"""The slack of a wait: how long before it the operation that it waits for was issued.

Searched backwards from each wait over the control flow, back edges included, for the fewest
instructions. Only paths count on which the wait completes the operation: at least n others of the
same order were raised after it, and no wait on the path completed it before. (In a pipelined loop
the load just above a wait may be the one that the *next* iteration waits for.)

The values that each counter may have after an instruction are worked out over all paths as well: a
counter rises with every operation that it counts, and a wait for n lets it fall to n. How fast it
falls by itself is not known, so its count is the most: what a wait at that place would have to
expect. In a loop that never waits that is its largest value, where issue stalls.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Mapping, Sequence
from heapq import heappop, heappush
from itertools import accumulate

from msgspec import Struct

from ...model import Block, Function, Instruction
from ..mnemonics import FLOW_CLASSES, Flow, flow_of
from .counters import RAISING, GenerationCounters, events_of
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
        counters = GenerationCounters.of(maxima)
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
