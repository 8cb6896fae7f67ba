"""The longest way through an iteration of a loop, or through a kernel without loops.

A lane's `if (i < n)` is a block that is jumped over where no lane is left in EXEC
(`s_and_saveexec`, `s_cbranch_execz`), and so is either side of an if with an else. The blocks that
every iteration executes are then often few and hold none of the work. The longest way goes through
each such block, as a whole wave in the middle of a tensor does, and of the ways behind a scalar
branch through the one with most instructions. Some of these may exclude each other, as the cases of
a switch do that are asked for one by one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set

from msgspec import Struct

from ...model import Block, Function
from .cfg import innermost_loops
from .loops import DominatorTree, dominator_tree


class Way(Struct, frozen=True):
    """A way through some code.

    Args:
        blocks: those outside of nested loops, in execution order.
        needed: of these, the ones that no scalar branch leaves out on other ways.
        instructions: in all of them.
        optional: in those that are not needed.
    """

    blocks: tuple[int, ...]
    needed: tuple[int, ...]
    instructions: int
    optional: int


def longest_ways(function: Function, loops: Set[str]) -> dict[str, Way]:
    """Loop id -> the longest way through an iteration.

    `loops`: ids of the loops that are asked about.
    """
    if not loops:
        return {}
    owner = innermost_loops(function)
    own = {index: loop.id for index, loop in owner.items()}
    tree = dominator_tree(_with_guards_passed(function, own))
    return {
        loop.id: _way(
            function,
            longest(
                function.blocks,
                loop.header,
                frozenset(loop.blocks),
                loop.latches,
                {number for number in loop.blocks if own[number] == loop.id},
            ),
            tree,
            loop.latches,
        )
        for loop in function.loops
        if loop.id in loops
    }


def kernel_way(function: Function) -> Way | None:
    """The longest way through a kernel without loops; None of one with loops or without code."""
    if function.loops or not function.blocks:
        return None
    ends = [block.index for block in function.blocks if not block.successors]
    every = frozenset(range(len(function.blocks)))
    blocks = longest(function.blocks, 0, every, ends, every)
    tree = dominator_tree(_with_guards_passed(function, {}))
    return _way(function, blocks, tree, blocks[-1:])


def _way(
    function: Function, blocks: Sequence[int], tree: DominatorTree, ends: Sequence[int]
) -> Way:
    """A way; `tree` has the dominators where lanes pass their checks, `ends` the last blocks."""
    needed = tuple(number for number in blocks if all(tree.dominates(number, end) for end in ends))
    total, certain = (
        sum(_size(function.blocks[number]) for number in numbers) for numbers in (blocks, needed)
    )
    return Way(tuple(blocks), needed, total, total - certain)


def _size(block: Block) -> int:
    return block.stop - block.start


def longest(
    blocks: Sequence[Block],
    start: int,
    inside: Set[int],
    ends: Iterable[int],
    counted: Set[int],
) -> list[int]:
    """The blocks that count on the longest way from one block to one of several.

    Edges that close a cycle are not followed, so that each block is passed once at most.

    Args:
        blocks: all of the function's.
        start: the first.
        inside: those that a way may lead through.
        ends: the last ones to choose from.
        counted: those whose instructions count; of nested loops they do not.
    """
    order, before = acyclic(blocks, start, inside)
    lengths: dict[int, int] = {}
    come_from: dict[int, int] = {}
    for number in order:
        above = max(before.get(number, ()), key=lambda other: lengths[other], default=None)
        if above is not None:
            come_from[number] = above
        own = _size(blocks[number]) if number in counted else 0
        lengths[number] = own + (lengths[above] if above is not None else 0)
    last = max((end for end in ends if end in lengths), key=lambda end: lengths[end], default=None)
    way = []
    while last is not None:
        if last in counted:
            way.append(last)
        last = come_from.get(last)
    return way[::-1]


def acyclic(
    blocks: Sequence[Block], start: int, inside: Set[int]
) -> tuple[list[int], Mapping[int, Sequence[int]]]:
    """The blocks that one leads to, each behind all that lead to it, and the latter of each."""
    before: dict[int, list[int]] = {}
    postorder: list[int] = []
    is_open = {start: True}
    stack = [(start, iter(blocks[start].successors))]
    while stack:
        number, remaining = stack[-1]
        for following in remaining:
            if following not in inside or is_open.get(following):
                continue
            before.setdefault(following, []).append(number)
            if following not in is_open:
                is_open[following] = True
                stack.append((following, iter(blocks[following].successors)))
                break
        else:
            is_open[number] = False
            postorder.append(number)
            stack.pop()
    return postorder[::-1], before


def _with_guards_passed(function: Function, own: Mapping[int, str]) -> list[Sequence[int]]:
    """The blocks that follow each one where every check that lanes make is passed by some lane."""
    headers = {loop.header for loop in function.loops}

    def is_skip(block: Block, following: int) -> bool:
        if following in headers or own.get(following) != own.get(block.index):
            return False
        last = function.instructions[block.stop - 1].op.name if block.stop > block.start else ""
        jumps = following != block.index + 1
        return last == ("s_cbranch_execz" if jumps else "s_cbranch_execnz")

    return [
        [following for following in block.successors if not is_skip(block, following)]
        if len(block.successors) > 1
        else block.successors
        for block in function.blocks
    ]
