"""The paths through some code that have most loads."""

from __future__ import annotations

from collections.abc import Sequence, Set
from typing import Final, Literal

from ..model import Function, Instruction
from .longest_way import acyclic

LOADS: Final = frozenset(("global_load", "lds_direct"))

Arm = Literal["then", "else"]


def load_paths(function: Function, start: int, within: Set[int] | None) -> list[Sequence[int]]:
    """Paths through a kernel without loops, or through an iteration of a loop, by block numbers.

    What is skipped over where no lane is active counts as executed. Of two ways that exclude each
    other a path takes the one with more loads. Where lanes for which a condition does not hold have
    code of their own, one path takes their arm of it, another one the other.

    Args:
        function: the kernel.
        start: the block that the paths begin with.
        within: the loop's blocks; None for all of the function's.
    """
    inside = range(len(function.blocks)) if within is None else within
    paths = _Paths(function, start, frozenset(inside))
    has_others = any(
        turns_to_others(inst) for number in inside for inst in code_of(function, number)
    )
    arms: tuple[Arm, ...] = ("then", "else") if has_others else ("then",)
    return [paths.blocks(arm) for arm in arms]


def code_of(function: Function, number: int) -> Sequence[Instruction]:
    """The instructions of a block."""
    block = function.blocks[number]
    return function.instructions[block.start : block.stop]


def turns_to_others(inst: Instruction) -> bool:
    """Whether an instruction turns to the lanes for which a condition does not hold."""
    return inst.op.name.startswith(("s_andn2_saveexec", "s_and_not1_saveexec", "s_or_saveexec"))


class _Paths:
    """The ways that blocks may be executed in, without those that close a cycle.

    (Cycles are left where they are nested too deeply to be listed as loops, and in irreducible
    ones.)
    """

    def __init__(self, function: Function, start: int, inside: Set[int]) -> None:
        self._function = function
        self._start = start
        order, before = acyclic(function.blocks, start, inside)
        self._successors: dict[int, list[int]] = {number: [] for number in order}
        for number, origins in before.items():
            for origin in origins:
                self._successors[origin].append(number)
        self._ahead: dict[int, int] = {}
        """Block -> the blocks that may follow it, as bits."""
        self._most_loads: dict[int, int] = {}
        """Block -> loads from its beginning on, on the path with most of them."""
        for number in reversed(order):
            ahead, most = 0, 0
            for following in self._successors[number]:
                ahead |= self._ahead[following] | 1 << following
                most = max(most, self._most_loads[following])
            self._ahead[number] = ahead
            self._most_loads[number] = most + sum(
                inst.cls in LOADS for inst in code_of(function, number)
            )

    def blocks(self, arm: Arm) -> Sequence[int]:
        """The blocks of a path in the order of their execution."""
        path = [self._start]
        while ways := self._successors[path[-1]]:
            path.append(ways[0] if len(ways) == 1 else self._next(path[-1], arm))
        return path

    def _next(self, number: int, arm: Arm) -> int:
        """The next block behind a branch to two."""
        first, second = (
            n for n in self._function.blocks[number].successors if n in self._successors[number]
        )
        branch = code_of(self._function, number)[-1].op.name
        if branch.startswith("s_cbranch_exec") and number + 1 in (first, second):
            target = second if first == number + 1 else first
            jumps_in = branch == "s_cbranch_execnz"
            inner, outer = (target, number + 1) if jumps_in else (number + 1, target)
        elif self._ahead[first] >> second & 1:
            inner, outer = first, second
        elif self._ahead[second] >> first & 1:
            inner, outer = second, first
        else:
            return max(first, second, key=lambda n: self._most_loads[n])
        leaves_out = self._begins_else if arm == "then" else self._begins_then
        return outer if leaves_out(number) else inner

    def _begins_else(self, number: int) -> bool:
        return any(map(turns_to_others, code_of(self._function, number)))

    def _begins_then(self, number: int) -> bool:
        """Whether a block turns to lanes beside which there are others, with code of their own."""
        code = code_of(self._function, number)
        at = max(
            (place for place, inst in enumerate(code) if "and_saveexec" in inst.op.name), default=-1
        )
        return at >= 0 and any(
            inst.op.name.startswith("s_xor_b") and "exec" in inst.operands for inst in code[at:]
        )
