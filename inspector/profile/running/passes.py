"""Distributes groups of counters over passes that each fit the hardware.

Each pass runs the whole program once, so that there should be few. A block of the hardware counts
a limited number of counters at a time; a derived counter needs its operands, which the counters of
a pass share. The counters of a group stay together, so that ratios are of one pass.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from msgspec import Struct

from ...base.errors import KinspectError
from ..figures import counters
from .counter_sets import CounterGroup


class Hardware(Struct, frozen=True):
    """The counting capacity of a target.

    Attributes:
        block: returns the block of a hardware counter; None if unknown, which means no limit.
        limit: returns how many counters a block counts at a time; None if unknown.
    """

    operands: Callable[[str], Iterable[str]]  # returns the hardware counters that a counter needs
    block: Callable[[str], str | None]
    limit: Callable[[str], int | None]

    def excess(self, names: Iterable[str]) -> dict[str, tuple[int, int]]:
        """Block -> number of needed counters and limit, for blocks whose limit is exceeded."""
        operands_of: dict[str, set[str]] = {}
        for name in names:
            for operand in self.operands(name):
                block = self.block(operand)
                if block is not None:
                    operands_of.setdefault(block, set()).add(operand)
        exceeded = {}
        for block, operands in operands_of.items():
            capacity = self.limit(block)
            if capacity is not None and len(operands) > capacity:
                exceeded[block] = (len(operands), capacity)
        return exceeded


def of_arch(arch: str) -> Hardware:
    """The hardware of a target, by the tables of `counters`."""
    return Hardware(
        operands=lambda name: counters.operands(name, arch),
        block=counters.block_of,
        limit=lambda block: counters.limit(block, arch),
    )


def split(
    groups: Sequence[CounterGroup], hardware: Hardware, clock: str | None = None
) -> tuple[tuple[str, ...], ...]:
    """The counters of each pass.

    The largest groups are placed first, each into the pass that it shares most counters with and
    that still holds it: the same groups give the same passes, in whatever order they come.

    `groups`: whose counters must stay together.
    `hardware`: the target's counters; each pass must fit its registers.

    Raises:
        KinspectError: a group fits no pass by itself.
    """
    passes: list[dict[str, None]] = []
    for group in sorted(
        groups,
        key=lambda candidate_group: (
            -len(candidate_group.counters),
            sorted(candidate_group.counters),
        ),
    ):
        _refuse(group, hardware)
        best: dict[str, None] | None = None
        shared = -1
        for candidate in passes:
            common = sum(name in candidate for name in group.counters)
            if common > shared and not hardware.excess([*candidate, *group.counters]):
                best, shared = candidate, common
        if best is None:
            best = {}
            passes.append(best)
        best.update(dict.fromkeys(group.counters))
    if clock is not None:
        for pass_counters in passes:
            if not hardware.excess([*pass_counters, clock]):
                pass_counters[clock] = None
    return tuple(tuple(pass_counters) for pass_counters in passes)


def _refuse(group: CounterGroup, hardware: Hardware) -> None:
    """Raises KinspectError if a group does not fit in a pass."""
    exceeded = hardware.excess(group.counters)
    if not exceeded:
        return
    block, (count, capacity) = min(exceeded.items())
    if len(group.counters) == 1:
        demand = f"{group.counters[0]} takes {count} counters of {block}"
    else:
        demand = f"{', '.join(group.counters)} ({group.name}) take {count} counters of {block}"
    raise KinspectError(
        f"{demand} in one pass, and the hardware has {capacity}",
        "ask for its operands one by one, by --counters",
    )
