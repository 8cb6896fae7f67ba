"""Splits counters into passes: each fits the hardware, and no ratio is torn apart.

A pass runs the whole program once, so that few are wanted. What one block of the hardware can
count at a time is its limit; a derived counter takes what its operands take, and counters of one
pass share operands.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from msgspec import Struct

from ...errors import KinspectError
from ..figures import counters
from .sets import Group


class Hardware(Struct, frozen=True):
    """What counts counters.

    Attributes:
        operands: the hardware's counters that one counter takes.
        block: the block of a hardware counter; None where it is unknown, and then without limit.
        limit: how many counters a block counts at a time; None where it is unknown.
    """

    operands: Callable[[str], Iterable[str]]
    block: Callable[[str], str | None]
    limit: Callable[[str], int | None]

    def excess(self, names: Iterable[str]) -> dict[str, tuple[int, int]]:
        """Blocks that are asked for too much at once: how much, and their limit."""
        operands_of: dict[str, set[str]] = {}
        for name in names:
            for operand in self.operands(name):
                block = self.block(operand)
                if block is not None:
                    operands_of.setdefault(block, set()).add(operand)
        over = {}
        for block, operands in operands_of.items():
            most = self.limit(block)
            if most is not None and len(operands) > most:
                over[block] = (len(operands), most)
        return over


def of_arch(arch: str) -> Hardware:
    """The hardware of a target, by the tables of `counters`."""
    return Hardware(
        operands=lambda name: counters.operands(name, arch),
        block=counters.block_of,
        limit=lambda block: counters.limit(block, arch),
    )


def split(
    groups: Sequence[Group], hardware: Hardware, clock: str | None = None
) -> tuple[tuple[str, ...], ...]:
    """The counters of each pass.

    The largest groups are placed first, each into the pass that it shares most counters with and
    that still holds it: the same groups give the same passes, in whatever order they come.

    Args:
        groups: whose counters must stay together.
        hardware: what it must fit.
        clock: a counter to add to each pass that has room for it.

    Raises:
        KinspectError: a group fits no pass by itself.
    """
    passes: list[dict[str, None]] = []
    for group in sorted(groups, key=lambda g: (-len(g.counters), sorted(g.counters))):
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


def _refuse(group: Group, hardware: Hardware) -> None:
    over = hardware.excess(group.counters)
    if not over:
        return
    block, (count, most) = min(over.items())
    if len(group.counters) == 1:
        demand = f"{group.counters[0]} takes {count} counters of {block}"
    else:
        demand = f"{', '.join(group.counters)} ({group.name}) take {count} counters of {block}"
    raise KinspectError(
        f"{demand} in one pass, and the hardware has {most}",
        "ask for its operands one by one, by --counters",
    )
