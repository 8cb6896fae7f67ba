"""What each wait is there for.

What a wait ends lives on as its *debt* until something shows what it was for: an instruction that
touches the registers (the wait was needed for it), a barrier or fence (it was needed for order), or
another wait that would have ended it as well (it was not needed for it). The youngest event that
was needed says how large the wait's n could be.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from heapq import heappop, heappush
from typing import Literal

from msgspec import Struct

from ...model import Block, Function
from .pending import CAP, Outstanding, outstanding
from .steps import Step, Steps, members

Verdict = Literal["needed", "over-strict", "ordering", "idle"]

Debts = dict[int, dict[int, int]]
"""Event id -> index of the wait that ended it -> the age that it would have by now."""


class Judged(Struct, frozen=True):
    """One counter of one wait.

    Args:
        index: of the wait instruction.
        counter: which counter.
        n: what it waits down to.
        verdict: `needed` for a register, `ordering` for a barrier or fence, `over-strict` where a
            larger n does, `idle` where nothing that it could end is outstanding.
        could_be: over-strict: the largest n that does; None where no wait is needed at all.
        waits_for: indices of the instructions that it has to wait for, ascending.
    """

    index: int
    counter: str
    n: int
    verdict: Verdict
    could_be: int | None
    waits_for: tuple[int, ...]


class Missing(Struct, frozen=True):
    """A register is touched while an operation that writes it may be outstanding.

    Args:
        index: of the instruction that touches it.
        producer: of the operation.
        counter: which counter tells that it is over.
        n: what that counter has to be waited down to, at least.
    """

    index: int
    producer: int
    counter: str
    n: int


class Verdicts(Struct, frozen=True):
    """All waits of a function.

    Args:
        waits: in program order.
        missing: where one would have to be.
        ends: wait's index -> indices of the instructions that may be over only there.
    """

    waits: tuple[Judged, ...]
    missing: tuple[Missing, ...]
    ends: Mapping[int, frozenset[int]]


def judge(steps: Steps, function: Function, maxima: Mapping[str, int]) -> Verdicts:
    """What every wait of a function is there for, and where one is missing.

    Args:
        steps: the function's instructions reduced.
        function: the same with its control flow.
        maxima: the machine's counters -> largest value, which means "do not wait".
    """
    blocks = function.blocks
    pending = outstanding(steps, blocks, maxima)
    uses = _Uses(steps, pending, maxima)
    uses.run(blocks)
    judged = [
        uses.judged(step, counter, n)
        for block in steps.blocks
        for step in block
        if step.index in pending.at_wait
        for counter, n in (step.waits or {}).items()
    ]
    missing = dict.fromkeys(
        Missing(index, steps.producers[number], steps.events[number].counter, pending.early[place])
        for place in _too_early(steps, function, maxima, pending)
        for index, number in (place,)
    )
    ends = {
        index: frozenset(
            steps.producers[number] for numbers in ended.values() for number in numbers
        )
        for index, ended in pending.at_wait.items()
    }
    return Verdicts(tuple(judged), tuple(missing), ends)


def _too_early(
    steps: Steps, function: Function, maxima: Mapping[str, int], pending: Outstanding
) -> list[tuple[int, int]]:
    """Where a register is touched too early for certain: (instruction's index, event id).

    A flat load counts as one of memory and as one of LDS. Who writes assembly knows where the
    address lies, so that a wait for memory alone may do.
    """
    if not pending.early:
        return []
    # Which paths the code can take is asked only where a register may be touched too early.
    from .feasible import confirmed

    places = confirmed(function, steps, maxima, pending)
    fetched = {
        (index, steps.producers[number])
        for index, number in places
        if steps.events[number].effect != "lds"
    }
    flat = Counter(steps.producers)
    return [
        (index, number)
        for index, number in pending.early
        if (index, number) in places
        and (flat[steps.producers[number]] == 1 or (index, steps.producers[number]) in fetched)
    ]


class _Uses:
    """The second dataflow: who needed what a wait has ended."""

    def __init__(self, steps: Steps, pending: Outstanding, maxima: Mapping[str, int]) -> None:
        self._steps = steps
        self._maxima = maxima
        self._ended = pending.at_wait
        self._needed: dict[int, set[int]] = {}  # wait's index -> event ids, for a register
        self._ordered: dict[int, set[int]] = {}

    def run(self, blocks: Sequence[Block]) -> None:
        entry_debts: dict[int, Debts] = {0: {}} if blocks else {}
        waiting = [0] if blocks else []
        while waiting:
            index = heappop(waiting)
            exit_debts = self._through(self._steps.blocks[index], entry_debts[index])
            for successor in blocks[index].successors:
                previous = entry_debts.get(successor)
                if previous is None:
                    entry_debts[successor] = {number: dict(by) for number, by in exit_debts.items()}
                elif not _merge(previous, exit_debts):
                    continue
                if successor not in waiting:
                    heappush(waiting, successor)

    def judged(self, step: Step, counter: str, n: int) -> Judged:
        """The verdict on one counter of one wait."""
        ended = self._ended[step.index].get(counter, {})
        needed_ids = self._needed.get(step.index, set()) & ended.keys()
        ordered_ids = self._ordered.get(step.index, set()) & ended.keys()
        if not ended:
            return Judged(step.index, counter, n, "idle", None, ())
        most = min((ended[number] for number in needed_ids | ordered_ids), default=None)
        if most is not None:  # beyond that nothing can be asked for
            most = min(most, self._maxima.get(counter, CAP) - 1)
        serves = needed_ids or ordered_ids
        producers = tuple(sorted({self._steps.producers[number] for number in serves}))
        if most is None and any(not self._steps.events[number].writes for number in ended):
            # No register tells when a store is over: whoever waits for one wants order.
            return Judged(step.index, counter, n, "ordering", None, ())
        if most is None or most > n:
            return Judged(step.index, counter, n, "over-strict", most, producers)
        for_register = any(ended[number] <= n for number in needed_ids) or not ordered_ids
        verdict: Verdict = "needed" if for_register else "ordering"
        return Judged(step.index, counter, n, verdict, None, producers)

    def _through(self, block: Sequence[Step], entry: Debts) -> Debts:
        channels, events = self._steps.channels, self._steps.events
        clocks = [0] * (max(channels, default=-1) + 1)
        debts: Debts = {}
        owed = 0  # the set of those in `debts`
        for number, by in entry.items():
            debts[number] = {wait: -age for wait, age in by.items()}
            owed |= 1 << number
        for step in block:
            if step.waits is not None:
                owed = self._wait(step, step.waits, debts, owed, clocks)
                continue
            if touched := step.touches & owed:
                owed ^= touched
                self._settle(debts, touched, self._needed)
            if ordered := step.orders & owed:
                owed ^= ordered
                self._settle(debts, ordered, self._ordered)
            if step.clears:
                debts.clear()
                owed = 0
            for number in step.raises:
                if channels[number] >= 0:
                    clocks[channels[number]] += 1
                if owed >> number & 1 and events[number].writes:
                    del debts[number]  # written anew before anybody looked
                    owed ^= 1 << number
        return {
            number: {wait: self._age(number, since, clocks) for wait, since in by.items()}
            for number, by in debts.items()
        }

    @staticmethod
    def _settle(debts: Debts, settled: int, noted: dict[int, set[int]]) -> None:
        """Notes what some debts were for."""
        for number in members(settled):
            for wait in debts.pop(number):
                noted.setdefault(wait, set()).add(number)

    def _wait(
        self, step: Step, waits: Mapping[str, int], debts: Debts, owed: int, clocks: Sequence[int]
    ) -> int:
        """One wait: what is owed after it."""
        events, channels, own = self._steps.events, self._steps.channels, step.index
        for number, by in list(debts.items()):
            n = waits.get(events[number].counter)
            if n is None:
                continue
            channel = channels[number]
            for wait, since in list(by.items()):
                over = n == 0 if channel < 0 else clocks[channel] - since >= n
                if over and wait != own:
                    del by[wait]
            if not by:
                del debts[number]
                owed ^= 1 << number
        for ended in self._ended.get(own, {}).values():
            for number, age in ended.items():
                owed |= 1 << number
                channel = channels[number]
                clock = clocks[channel] if channel >= 0 else 0
                by = debts.setdefault(number, {})
                by[own] = max(by.get(own, -CAP), clock - age)
            if step.fence and ended:
                self._ordered.setdefault(own, set()).update(ended)
        return owed

    def _age(self, number: int, since: int, clocks: Sequence[int]) -> int:
        channel = self._steps.channels[number]
        return min(clocks[channel] - since, CAP) if channel >= 0 else 0


def _merge(into: Debts, new: Debts) -> bool:
    """Adds what is new; whether anything was."""
    changed = False
    for number, by in new.items():
        have = into.setdefault(number, {})
        for wait, age in by.items():
            if wait not in have or age < have[wait]:
                have[wait] = age
                changed = True
    return changed
