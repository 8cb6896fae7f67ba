"""Which vector instruction of a basic block made the values that another one uses.

LLVM expands operations without an instruction of their own, such as an integer division, within a
block. To recognise an expansion takes the operands of its instructions, not their order, which the
scheduler changes. What comes from another block has no maker here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence, Set
from typing import Final

from msgspec import Struct, field

from ..base.recent_results import kept_for_recent
from ..isa.vector_halves import TWO_RESULTS, WITHOUT_RESULT, halves
from ..isa.waitflow.registers import named, split_destination, unnamed_of
from ..model import Function, Instruction
from .mix import VALU_CLASSES

_ADDS_TO_RESULT: Final = re.compile(r"v_(?:pk_)?(?:fmac|mac|dot\d?c)")
_SUFFIX: Final = re.compile(r"_(?:e32|e64|(?:e64_)?dpp(?:8|16)?|sdwa)$")
_MODIFIERS: Final = re.compile(r"[|\-]|\bneg\(|\babs\(|\)")


class Operation(Struct, eq=False):
    """A vector instruction, or half of a VOPD instruction.

    Args:
        index: the instruction's index in the function.
        name: its mnemonic without the suffix of its encoding and without `dual`.
        sources: the operands that it reads, `|x|` and `-x` as `x`.
        makers: for each of them the operation of this block that made it; None for another block's.
        users: the operations of this block that read its result.
    """

    index: int
    name: str
    sources: tuple[str, ...]
    makers: tuple[Operation | None, ...]
    users: list[Operation] = field(default_factory=list)

    def maker(self, pattern: re.Pattern[str]) -> Operation | None:
        """The first of its operands' makers whose name matches."""
        return next((m for m in self.makers if m is not None and pattern.match(m.name)), None)

    def users_named(self, pattern: re.Pattern[str]) -> Iterator[Operation]:
        """The users of its result whose name matches."""
        return (user for user in self.users if pattern.match(user.name))

    def same_source(self, number: int, other: Operation, other_number: int) -> bool:
        """Whether operand `number` is the same value as the other's operand `other_number`.

        A register of another block counts as unchanged: an expansion's operands live through it.
        """
        maker = self.makers[number]
        return self.sources[number] == other.sources[other_number] and (
            maker is other.makers[other_number]
        )


class Expansions(Struct, frozen=True):
    """Operations of a region for which the compiler wrote several instructions.

    Args:
        results: an instruction of each operation.
        steps: indices of all their instructions.
        saved: instructions that the shorter form saves at least.
        counts: the operations by kind.
    """

    results: Sequence[Instruction]
    steps: Set[int]
    saved: int
    counts: Mapping[str, int]


def block_ranges(function: Function, indices: Sequence[int]) -> Iterator[Sequence[Instruction]]:
    """The code of each block that the region of these instructions has."""
    at = 0
    for block in function.blocks:
        while at < len(indices) and indices[at] < block.start:
            at += 1
        if at < len(indices) and indices[at] < block.stop:
            yield function.instructions[block.start : block.stop]


def block_operations(function: Function, code: Sequence[Instruction]) -> Sequence[Operation]:
    """The vector operations of a block of a function, by its code; the same ones each time."""
    start, known = code[0].index, _known_blocks(function)
    if start not in known:
        known[start] = operations(code)
    return known[start]


@kept_for_recent
def _known_blocks(_: Function) -> dict[int, Sequence[Operation]]:
    """First instruction of a block -> its operations, as far as they were asked for."""
    return {}


def operations(code: Sequence[Instruction]) -> list[Operation]:
    """The vector operations of a block, in its order."""
    made_by: dict[int, Operation] = {}
    result: list[Operation] = []
    for inst in code:
        if inst.cls in WITHOUT_RESULT:
            continue
        if inst.cls not in VALU_CLASSES:
            destination, _ = split_destination(inst.operands)
            for register in named(destination):
                made_by.pop(register, None)
            continue
        made = [_half(inst.index, name, operands, made_by) for name, operands in halves(inst)]
        for operation, registers in made:
            for maker in operation.makers:
                if maker is not None:
                    maker.users.append(operation)
            made_by.update(dict.fromkeys(registers, operation))
            result.append(operation)
    return result


def _half(
    index: int, full_name: str, operands: str, made_by: dict[int, Operation]
) -> tuple[Operation, tuple[int, ...]]:
    """An operation and the registers that it writes."""
    name = _SUFFIX.sub("", full_name.replace("v_dual_", "v_"))
    destination, rest = split_destination(operands)
    registers = named(destination)
    if TWO_RESULTS.match(name):
        second, rest = split_destination(rest)
        registers += named(second)
    parts = [_MODIFIERS.sub("", part).split() for part in rest.split(",")]
    sources = [part[0] for part in parts if part]
    makers = [_maker(source, made_by) for source in sources]
    if _ADDS_TO_RESULT.match(name):
        sources.append(destination.strip())
        makers.append(_maker(destination, made_by))
    if name == "v_cndmask_b32" and len(sources) == 2:  # half of a VOPD instruction
        sources.append("vcc_lo")
        makers.append(_maker("vcc_lo", made_by))
    for register in unnamed_of(name):
        makers.append(made_by.get(register))
        sources.append("vcc")
    return Operation(index, name, tuple(sources), tuple(makers)), registers


def _maker(source: str, made_by: dict[int, Operation]) -> Operation | None:
    """What made an operand; of several registers, the first."""
    registers = named(source)
    return made_by.get(registers[0]) if registers else None
