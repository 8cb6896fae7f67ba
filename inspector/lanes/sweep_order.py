"""In which order the blocks of a flow graph are carried out when all of its edges are followed.

A block comes after those that lead to it, so that one round is enough; the blocks of a loop that
stands in no other go round several times before what comes behind it.
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heappop, heappush

from ..model import Block, Function


def sweep_order(function: Function, rounds: int) -> list[Block]:
    """The blocks in the order in which they are carried out; those that nothing leads to included.

    `rounds`: how often the blocks of loops are carried out; the result has them that often.
    """
    groups: dict[int, list[int]] = {}
    """Number of its first block -> blocks of an outermost loop, or one alone, as they stand."""
    group_of: dict[int, int] = {}
    for loop in function.loops:
        if loop.parent is None:
            members = sorted(loop.blocks)
            groups[members[0]] = members
            group_of.update(dict.fromkeys(members, members[0]))
    loops = frozenset(groups)
    for block in function.blocks:
        if group_of.setdefault(block.index, block.index) == block.index:
            groups.setdefault(block.index, [block.index])
    blocks = function.blocks
    return [
        blocks[index]
        for group in _topological(function, groups, group_of)
        for _ in range(rounds if group in loops else 1)
        for index in groups[group]
    ]


def _topological(
    function: Function, groups: dict[int, list[int]], group_of: dict[int, int]
) -> Iterator[int]:
    """The groups, each after those that lead to it; of those that are free the one that stands
    first.
    """
    behind: dict[int, set[int]] = {group: set() for group in groups}
    for block in function.blocks:
        behind[group_of[block.index]].update(group_of[to] for to in block.successors)
    waits_for = dict.fromkeys(groups, 0)
    for group, following in behind.items():
        following.discard(group)
        for to in following:
            waits_for[to] += 1
    free: list[int] = []
    for group, count in waits_for.items():
        if count == 0:
            heappush(free, group)
    left = dict.fromkeys(sorted(groups))
    while left:
        # A cycle that was not recognised as a loop is entered where it stands first.
        group = heappop(free) if free else next(iter(left))
        if group not in left:
            continue
        del left[group]
        yield group
        for to in behind[group]:
            waits_for[to] -= 1
            if waits_for[to] == 0:
                heappush(free, to)
