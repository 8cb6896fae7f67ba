"""Global stores that may still be on their way when their wave comes to a barrier, and later loads.

A barrier does not wait for stores. Where stores have a counter of their own (RDNA), the waves of a
workgroup may lie on two CUs, and a wait for that counter before the barrier is what makes a store
visible to them. A load behind the barrier is in order with it if the store was waited for, and a
barrier came after that wait.

Only ways that go forwards in the code are followed: what a loop stores and loads in its next
iteration mostly lies elsewhere.

Barriers that not all waves of a workgroup take part in.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from ...model import Function, Instruction
from .counters import GenerationCounters
from .steps import CounterSteps


class UnwaitedStore(Struct, frozen=True):
    """A store that is not waited for before a barrier, and a load that comes behind that.

    Args:
        store: index of the instruction.
        barrier: index of the barrier.
        load: index of the load.
        counter: the counter that the store raises.
        n: the count that the counter has to be waited down to before the barrier, at least.
    """

    store: int
    barrier: int
    load: int
    counter: str
    n: int


class _Crossing(Struct, frozen=True):
    """A store that was not waited for at a barrier; `n` is its age there."""

    barrier: int
    n: int
    is_awaited: bool = False  # since, but no barrier has come after that


_Ages = dict[int, int]
"""Event id of a store that may be outstanding -> how many events its counter has counted since."""
_Crossed = dict[int, _Crossing]
"""Event id -> the first barrier that it crossed."""


def unwaited_stores(
    steps: CounterSteps, function: Function, maxima: Mapping[str, int]
) -> list[UnwaitedStore]:
    """The stores of a function that come to a barrier unwaited for, each with each later load.

    `steps`: the function reduced for the dataflow; `maxima`: the machine's counters -> largest
    value; issue stalls there.
    """
    counters = GenerationCounters.of(maxima)
    if counters.store == counters.load:
        return []
    sweep = _Sweep(steps, function, counters.store, maxima[counters.store])
    for index, block in enumerate(function.blocks):
        ages, crossed = sweep.through(index)
        for successor in block.successors:
            if successor > index:
                sweep.enter(successor, ages, crossed)
    return sweep.pairs


class _Sweep:
    """One pass over the blocks, each after those that lead to it."""

    def __init__(self, steps: CounterSteps, function: Function, counter: str, most: int) -> None:
        self.pairs: list[UnwaitedStore] = []
        self._steps = steps
        self._at = {step.index: step for block in steps.blocks for step in block if not step.run}
        self._function = function
        self._counter, self._most = counter, most
        self._entries: dict[int, tuple[_Ages, _Crossed]] = {}

    def enter(self, block: int, ages: _Ages, crossed: _Crossed) -> None:
        """Joins what holds at the end of a block with what holds at the start of another."""
        known_ages, known_crossed = self._entries.setdefault(block, ({}, {}))
        for number, age in ages.items():
            known_ages[number] = min(age, known_ages.get(number, age))
        for number, crossing in crossed.items():
            known = known_crossed.get(number)
            if known is None or known.is_awaited:
                known_crossed[number] = crossing

    def through(self, block: int) -> tuple[_Ages, _Crossed]:
        """Runs one block, and returns what holds at its end."""
        ages, crossed = self._entries.pop(block, ({}, {}))
        start, stop = self._function.blocks[block].start, self._function.blocks[block].stop
        for inst in self._function.instructions[start:stop]:
            step = self._at.get(inst.index)
            if inst.cls in ("barrier", "barrier_signal"):
                if inst.op.name != "s_barrier_wait":
                    self._signal(inst.index, ages, crossed)
            elif step is None:
                continue
            elif step.waits is not None:
                self._wait(step.waits.get(self._counter), ages, crossed)
            elif step.clears:
                ages.clear()
                crossed.clear()
            else:
                self._access(inst, step.raises, ages, crossed)
        return ages, crossed

    @staticmethod
    def _signal(barrier: int, ages: _Ages, crossed: _Crossed) -> None:
        for number in [number for number, each in crossed.items() if each.is_awaited]:
            del crossed[number]
        for number, age in ages.items():
            crossed.setdefault(number, _Crossing(barrier, age))

    @staticmethod
    def _wait(n: int | None, ages: _Ages, crossed: _Crossed) -> None:
        completed = [number for number, age in ages.items() if n is not None and age >= n]
        for number in completed:
            del ages[number]
            if number in crossed:
                crossed[number] = replace(crossed[number], is_awaited=True)

    def _access(
        self, inst: Instruction, raises: Sequence[int], ages: _Ages, crossed: _Crossed
    ) -> None:
        """Ages what is outstanding by what an access raises, and pairs a load with stores."""
        if inst.cls == "global_load":
            for number, crossing in crossed.items():
                store, (barrier, n) = self._steps.producers[number], (crossing.barrier, crossing.n)
                self.pairs.append(UnwaitedStore(store, barrier, inst.index, self._counter, n))
        for number in raises:
            event = self._steps.events[number]
            if event.counter != self._counter:
                continue
            for other in [other for other in ages if other != number]:
                ages[other] += 1
                if ages[other] >= self._most:
                    del ages[other]
            if inst.cls == "global_store" and event.effect == "store":
                ages[number] = 0


_WHOLE_WORKGROUP = frozenset({"-1", "0xffff", "65535", ""})
"""Operands of the one barrier that needs no name; `s_barrier` has none."""


def has_special_barriers(function: Function) -> bool:
    """Whether a function has barriers that not all waves of the workgroup take part in."""
    for inst in function.instructions:
        if inst.cls == "control" and "barrier" in inst.op.traits:
            return True
        if inst.cls not in ("barrier", "barrier_signal"):
            continue
        if inst.op.name.endswith("_isfirst") or inst.operands.strip() not in _WHOLE_WORKGROUP:
            return True
    return False
