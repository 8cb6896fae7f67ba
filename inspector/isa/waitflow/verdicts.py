"""The purpose of each wait.

An operation that a wait has completed lives on as the wait's *debt* until the code shows what the
wait was needed for: an instruction that touches the registers (needed for the register), a barrier
or fence (needed for order), or another wait that would have completed it as well (not needed). The
youngest event that was needed decides how large the wait's n could be.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from heapq import heappop, heappush
from typing import Final, Literal

from msgspec import Struct

from ...model import Block, Function
from .pending import CAP, PendingEvents, outstanding
from .steps import CounterStep, CounterSteps, members

Verdict = Literal["needed", "over-strict", "ordering", "idle"]

Debts = dict[int, dict[int, int]]
"""Event id -> index of the wait that completed it -> when the event was raised, by its channel's
clock: 0 is the beginning of the block. The inner tables are shared from block to block and copied
before they are changed: most debts pass through most blocks as they are."""


class JudgedWait(Struct, frozen=True):
    """The verdict on one counter of one wait.

    Args:
        index: index of the wait instruction.
        n: the count that it waits down to.
        verdict: `needed` for a register, also where a barrier comes before its use, `ordering` for
            a barrier or fence alone, `over-strict` where a larger n suffices, `idle` where nothing
            that it could complete is outstanding.
        could_be: of an over-strict wait, the largest n that suffices; None where none is needed.
        waits_for: indices of the instructions that it has to wait for, ascending.
    """

    index: int
    counter: str
    n: int
    verdict: Verdict
    could_be: int | None
    waits_for: tuple[int, ...]


class MissingWait(Struct, frozen=True):
    """A register is touched while an operation that writes it may be outstanding.

    Args:
        index: index of the instruction that touches it.
        producer: index of the operation.
        counter: the counter that the operation raises.
        n: the count that the counter has to be waited down to, at least.
    """

    index: int
    producer: int
    counter: str
    n: int


class Verdicts(Struct, frozen=True):
    """The verdicts on all waits of a function.

    Args:
        waits: in program order.
    """

    waits: tuple[JudgedWait, ...]
    missing: tuple[MissingWait, ...]


def judge(steps: CounterSteps, function: Function, maxima: Mapping[str, int]) -> Verdicts:
    """Judges every wait of a function, and names the missing ones.

    `steps`: the function reduced for the dataflow; `maxima`: the machine's counters -> largest
    value, which means "do not wait".
    """
    blocks = function.blocks
    pending = outstanding(steps, blocks, maxima)
    needs = _Needs(steps, pending, maxima)
    needs.run(blocks)
    judged = [
        needs.judged(step, counter, n)
        for block in steps.blocks
        for step in block
        if step.index in pending.at_wait
        for counter, n in (step.waits or {}).items()
    ]
    missing = dict.fromkeys(
        MissingWait(
            index, steps.producers[number], steps.events[number].counter, pending.early[key]
        )
        for key in _too_early(steps, function, maxima, pending)
        for index, number in (key,)
    )
    return Verdicts(tuple(judged), tuple(missing))


def _too_early(
    steps: CounterSteps, function: Function, maxima: Mapping[str, int], pending: PendingEvents
) -> list[tuple[int, int]]:
    """(instruction's index, event id) where a register is certainly touched too early."""
    if not pending.early:
        return []
    # Feasible paths are computed only where a register may be touched too early.
    from .feasible import confirmed

    confirmed_keys = confirmed(function, steps, maxima, pending)
    memory_loads = {
        (index, steps.producers[number])
        for index, number in confirmed_keys
        if steps.events[number].effect != "lds"
    }
    flat = Counter(steps.producers)
    return [
        (index, number)
        for index, number in pending.early
        if (index, number) in confirmed_keys
        and (flat[steps.producers[number]] == 1 or (index, steps.producers[number]) in memory_loads)
    ]


class _Needs:
    """The second dataflow: which completed operations are needed, and for what."""

    def __init__(
        self, steps: CounterSteps, pending: PendingEvents, maxima: Mapping[str, int]
    ) -> None:
        self._steps = steps
        self._maxima = maxima
        self._completed = pending.at_wait
        self._needed: dict[int, set[int]] = {}  # wait's index -> event ids, for a register
        self._ordered: dict[int, set[int]] = {}

    def run(self, blocks: Sequence[Block]) -> None:
        """Runs the dataflow to its fixed point; `judged` may be called after it."""
        entry_debts: dict[int, Debts] = {0: {}} if blocks else {}
        work = [0] if blocks else []
        while work:
            index = heappop(work)
            exit_debts = self._through(self._steps.blocks[index], entry_debts[index])
            for successor in blocks[index].successors:
                previous = entry_debts.get(successor)
                if previous is None:
                    entry_debts[successor] = dict(exit_debts)
                elif not _merge(previous, exit_debts):
                    continue
                if successor not in work:
                    heappush(work, successor)

    def judged(self, step: CounterStep, counter: str, n: int) -> JudgedWait:
        """The verdict on one counter of one wait."""
        completed = self._completed[step.index].get(counter, {})
        needed_ids = self._needed.get(step.index, set()) & completed.keys()
        ordered_ids = self._ordered.get(step.index, set()) & completed.keys()
        if not completed:
            return JudgedWait(step.index, counter, n, "idle", None, ())
        sufficient = min((completed[number] for number in needed_ids | ordered_ids), default=None)
        if sufficient is not None:  # a counter at its maximum waits for nothing
            sufficient = min(sufficient, self._maxima.get(counter, CAP) - 1)
        serves = needed_ids or ordered_ids
        producers = tuple(sorted({self._steps.producers[number] for number in serves}))
        if sufficient is None and any(
            not self._steps.events[number].writes for number in completed
        ):
            # No register depends on a store: a wait for one is for order.
            return JudgedWait(step.index, counter, n, "ordering", None, ())
        if sufficient is None or sufficient > n:
            return JudgedWait(step.index, counter, n, "over-strict", sufficient, producers)
        for_register = any(completed[number] <= n for number in needed_ids) or not ordered_ids
        verdict: Verdict = "needed" if for_register else "ordering"
        return JudgedWait(step.index, counter, n, verdict, None, producers)

    def _through(self, block: Sequence[CounterStep], entry: Debts) -> Debts:
        """Runs one block and returns the debts at its end."""
        channels, events = self._steps.channels, self._steps.events
        clocks = [0] * (max(channels, default=-1) + 1)
        debts = dict(entry)
        owed = 0  # the set of the ids in `debts`
        for number in debts:
            owed |= 1 << number
        for step in block:
            if step.waits is not None:
                owed = self._wait(step, step.waits, debts, owed, clocks)
                continue
            if touched := step.touches & owed:
                owed ^= touched
                for number in members(touched):
                    for wait in debts.pop(number):
                        self._needed.setdefault(wait, set()).add(number)
            if ordered := step.orders & owed:
                for number in members(ordered):
                    for wait in debts[number]:  # a register may need it behind the barrier as well
                        self._ordered.setdefault(wait, set()).add(number)
                    if not events[number].writes:
                        del debts[number]
                        owed ^= 1 << number
            if step.clears:
                debts.clear()
                owed = 0
            for number in step.raises:
                if channels[number] >= 0:
                    clocks[channels[number]] += 1
                if owed >> number & 1 and events[number].writes:
                    del debts[number]  # overwritten before any use
                    owed ^= 1 << number
        return {
            number: _moved(raised, clocks[channel] if (channel := channels[number]) >= 0 else None)
            for number, raised in debts.items()
        }

    def _wait(
        self,
        step: CounterStep,
        waits: Mapping[str, int],
        debts: Debts,
        owed: int,
        clocks: Sequence[int],
    ) -> int:
        """Runs one wait and returns the set of the events owed after it."""
        events, channels, wait_index = self._steps.events, self._steps.channels, step.index
        for number, raised in list(debts.items()):
            n = waits.get(events[number].counter)
            if n is None:
                continue
            channel = channels[number]
            latest = (CAP if n == 0 else -CAP - 1) if channel < 0 else clocks[channel] - n
            remaining = {
                wait: since
                for wait, since in raised.items()
                if since > latest or wait == wait_index
            }
            if not remaining:
                del debts[number]
                owed ^= 1 << number
            elif len(remaining) < len(raised):
                debts[number] = remaining
        for completed in self._completed.get(wait_index, {}).values():
            for number, age in completed.items():
                owed |= 1 << number
                channel = channels[number]
                clock = clocks[channel] if channel >= 0 else 0
                raised = debts.get(number, _NONE)
                since = max(raised.get(wait_index, -CAP), clock - age)
                debts[number] = {**raised, wait_index: since}
            if step.fence and completed:
                self._ordered.setdefault(wait_index, set()).update(completed)
        return owed


_NONE: Final[dict[int, int]] = {}


def _moved(raised: dict[int, int], clock: int | None) -> dict[int, int]:
    """Times before the end of a block, by the clock of the next one."""
    if clock == 0:
        return raised
    if clock is None:
        return dict.fromkeys(raised, 0) if any(raised.values()) else raised
    oldest = clock - CAP
    if max(raised.values()) == -CAP:
        return raised
    return {wait: since - clock if since > oldest else -CAP for wait, since in raised.items()}


def _merge(debts: Debts, new: Debts) -> bool:
    """Adds new debts; returns whether any was new or younger."""
    changed = False
    for number, raised in new.items():
        known = debts.get(number)
        if known is raised:
            continue
        if known is None:
            debts[number] = raised
            changed = changed or bool(raised)
            continue
        younger = {
            wait: since
            for wait, since in raised.items()
            if wait not in known or since > known[wait]
        }
        if younger:
            debts[number] = {**known, **younger}
            changed = True
    return changed
