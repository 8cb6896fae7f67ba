"""The paths through some code that have most loads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from typing import Final, Literal

from ..isa.dataflow.operands import EXEC
from ..isa.dataflow.value_graph import Operation, operations
from ..isa.graph.longest_way import acyclic
from ..model import Function, Instruction, Loop

LOADS: Final = frozenset(("global_load", "lds_direct"))

_FLAGGED: Final = ("s_cbranch_vccz", "s_cbranch_vccnz")
_JOINS: Final = ("s_and_b", "s_andn2_b", "s_and_not1_b")
_MOST_TRIED: Final = 64
"""Branches of a path whose ways are followed to the end; of others the flags are left out."""

Arm = Literal["then", "else"]


def load_paths(function: Function, loop: Loop | None) -> list[Sequence[int]]:
    """Paths through an iteration of a loop, or through a kernel without loops, by block numbers.

    What is skipped over where no lane is active counts as executed. Of two ways that exclude each
    other a path takes the one with more loads. Where lanes for which a condition does not hold have
    code of their own, one path takes their arm of it, another one the other. A branch on a flag
    that the path itself has set goes as the flag says: LLVM joins the arms of uniform conditions
    so.

    `loop`: the loop; None for all of the kernel.
    """
    inside = range(len(function.blocks)) if loop is None else loop.blocks
    paths = _Paths(function, loop.header if loop is not None else 0, frozenset(inside))
    has_others = any(map(turns_to_others, code_of(function, *inside)))
    arms: tuple[Arm, ...] = ("then", "else") if has_others else ("then",)
    return [paths.blocks(arm) for arm in arms]


def blocks_ahead(order: Sequence[int], before: Mapping[int, Sequence[int]]) -> dict[int, int]:
    """Block -> the blocks that may follow it, as bits; of what `acyclic` finds."""
    ahead = dict.fromkeys(order, 0)
    for number in reversed(order):
        for origin in before.get(number, ()):
            ahead[origin] |= ahead[number] | 1 << number
    return ahead


def code_of(function: Function, *numbers: int) -> Sequence[Instruction]:
    """The instructions of some blocks."""
    code, blocks = function.instructions, [function.blocks[number] for number in numbers]
    return [inst for block in blocks for inst in code[block.start : block.stop]]


def turns_to_others(inst: Instruction) -> bool:
    """Whether an instruction turns to the lanes for which a condition does not hold."""
    return inst.op.name.startswith(("s_andn2_saveexec", "s_and_not1_saveexec", "s_or_saveexec"))


def _flag(branch: Operation) -> bool | None:
    """Whether a branch on a flag jumps, which is a mask of all lanes or none; None: not known."""
    flag, is_set = branch.mask, branch.name == "s_cbranch_vccnz"
    while flag is not None and flag.name.startswith(_JOINS):
        if not any(source.first == EXEC for source in flag.sources[:1]):
            return None
        is_set ^= not flag.name.startswith("s_and_b")
        flag = flag.mask
    if flag is None or not flag.name.startswith("s_mov_b") or not flag.reads_number(0, -1):
        return None
    return flag.reads_number(-1) == is_set


def _scalar_code(function: Function, numbers: Sequence[int]) -> Mapping[int, Sequence[Instruction]]:
    """What writes scalar registers or branches on a flag, by block."""
    codes = [code_of(function, number) for number in numbers]
    if not any(code and code[-1].op.name in _FLAGGED for code in codes):
        return {}
    blocks = [operations(function, code) for code in codes]
    if not any(ops and ops[-1].name in _FLAGGED and ops[-1].maker(_JOINS) for ops in blocks):
        return {}
    return {
        number: [
            operation.inst
            for operation in block
            if operation.name in _FLAGGED or any(r.kind == "sgpr" for r in operation.results)
        ]
        for number, block in zip(numbers, blocks, strict=True)
    }


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
        self._ahead = blocks_ahead(order, before)
        self._loads = {n: sum(i.cls in LOADS for i in code_of(function, n)) for n in order}
        self._scalar_code = _scalar_code(function, order)
        self._most_loads: dict[int, int] = {}
        """Block -> loads from its beginning on, on the path with most of them."""
        for number in reversed(order):
            most = max((self._most_loads[n] for n in self._successors[number]), default=0)
            self._most_loads[number] = most + self._loads[number]

    def blocks(self, arm: Arm) -> Sequence[int]:
        """The blocks of a path in the order of their execution."""
        most_tried = _MOST_TRIED if self._scalar_code else 0
        return self._followed(self._start, arm, {}, most_tried=most_tried)

    def _followed(
        self, start: int, arm: Arm, made: dict[int, Operation], *, most_tried: int
    ) -> Sequence[int]:
        """The blocks from one on."""
        path = [start]
        while ways := self._successors[path[-1]]:
            following = path[-1] + 1
            done = operations(self._function, self._scalar_code.get(path[-1], ()), made)
            jumps = _flag(done[-1]) if done and done[-1].name in _FLAGGED else None
            if len(ways) > 1 and jumps is not None and following in ways:
                ways = [number for number in ways if (number != following) == jumps]
            number = ways[0] if len(ways) == 1 else self._next(path[-1], arm)
            if number is None and most_tried > 0:
                most_tried -= 1
                loads = {
                    way: self._loads_in(self._followed(way, arm, {**made}, most_tried=0))
                    for way in ways
                }
                number = max(ways, key=lambda way: (loads[way], self._most_loads[way]))
            elif number is None:
                number = max(
                    sorted(ways, key=self._function.blocks[path[-1]].successors.index),
                    key=lambda way: self._most_loads[way],
                )
            path.append(number)
        return path

    def _loads_in(self, numbers: Sequence[int]) -> int:
        return sum(self._loads[number] for number in numbers)

    def _next(self, number: int, arm: Arm) -> int | None:
        """The next block behind a branch to two; None where they exclude each other."""
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
            return None
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
