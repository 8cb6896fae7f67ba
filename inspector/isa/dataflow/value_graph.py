"""Which operations made the values that another one uses, along the order of some code.

LLVM expands operations without an instruction of their own, such as an integer division, within a
block. To recognise an expansion takes the operands of its instructions, not their order, which the
scheduler changes. What comes from in front of the code has no maker here.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Iterator, Mapping, Set
from functools import cached_property, lru_cache
from itertools import chain
from typing import Final

from msgspec import Struct, field

from ...base.recent_results import kept_for_recent
from ...model import Function, Instruction
from .effects import reads_vcc_unnamed, results_and_sources
from .operands import (
    HIGH_HALVES,
    NULL,
    SCALAR_BIT,
    SUFFIXES,
    Decoded,
    Operand,
    decode,
    halves_of,
    parse_operand,
)

Names = tuple[str, ...]
"""Beginnings of names of operations."""
_NO_AGPRS: Final = 512
_NONE: Final[Mapping[int, Set[Operation]]] = {}
_VCC: Final = parse_operand("vcc_lo", 0)
_COPIES: Final = (
    *("v_mov_b", "s_mov_b", "v_accvgpr_", "v_readlane_", "v_readfirstlane_"),
    *("v_cndmask_b", "s_cselect_b"),
)
_VARIANT: Final = re.compile(
    r"(?<=v_)(?:pk|dual)_|(?<=v_cmp)x|(?<=v_fma)(?:c|mk|ak)(?=_)|_(?:nc|co)(?=_)|_(?:e64_)?dpp\d+$"
)
"""What mnemonics say of the encoding, and of what is written beside the result."""


class Operation(Struct, eq=False):
    """An instruction, or half of a VOPD instruction.

    Args:
        parts: it or its half, taken apart.
        name: its mnemonic without variants: `v_add_u32` for `v_add_nc_u32`, `v_add_co_u32_e64`,
            `v_fma_f32` for `v_fmac_f32`, `v_cmp_lt_f32` for `v_cmpx_lt_f32`.
        results: the operands that it writes.
        sources: those that it reads, one that the text does not name last.
        makers: for each source the operation that made it, of several registers the first one.
        further: number of a source of several registers -> what made those behind the first.
        users: the operations of which this is a maker, in order.
    """

    inst: Instruction
    parts: Decoded
    name: str
    results: tuple[Operand, ...]
    sources: tuple[Operand, ...]
    makers: tuple[Operation | None, ...]
    further: Mapping[int, Set[Operation]]
    users: list[Operation] = field(default_factory=list)

    @property
    def is_vector(self) -> bool:
        """Whether it is one of the vector unit."""
        return self.inst.cls in ("valu", "acc_move")

    def made(self, number: int) -> set[Operation]:
        """What made the registers of a source."""
        first = self.makers[number]
        return {first, *self.further.get(number, ())} if first else {*self.further.get(number, ())}

    @property
    def all_makers(self) -> set[Operation]:
        """What made any register that it reads."""
        return set[Operation]().union(*map(self.made, range(len(self.sources))))

    @property
    def argument(self) -> Operation | None:
        """What made its first source."""
        return self.makers[0] if self.makers else None

    @property
    def mask(self) -> Operation | None:
        """What made its last source, by which a selection selects."""
        return self.makers[-1] if self.makers else None

    def maker(self, *path: Names) -> Operation | None:
        """The first of its makers of such a name, of its makers of the next name, and so on."""
        found: Operation | None = self
        for names in path:
            makers = found.makers if found is not None else ()
            found = next((m for m in makers if m is not None and m.name.startswith(names)), None)
        return found

    def users_named(self, names: Names) -> Iterator[Operation]:
        """The users of such a name."""
        return (user for user in self.users if user.name.startswith(names))

    def reads(self, operand: Operand) -> bool:
        """Whether one of its sources is an operand, whatever its sign."""
        return any(is_same(source, operand) for source in self.sources)

    def reads_number(self, *numbers: int) -> bool:
        """Whether one of its sources is such a constant."""
        return any(source.integer in numbers for source in self.sources)

    def made_of(
        self, names: Names = ("v_",), stop: Container[Operation | None] = ()
    ) -> set[Operation]:
        """The operation and those that made its sources.

        Args:
            names: those that are followed.
            stop: operations that are not.
        """
        parts, pending = {self}, [*self.makers]
        while pending:
            part = pending.pop()
            if part is None or part in parts or part in stop or not part.name.startswith(names):
                continue
            parts.add(part)
            pending += part.makers
        return parts

    def origins(self) -> set[Operation]:
        """What made all that it reads, with the copies and selections that lie between."""
        found: set[Operation] = set()
        pending: list[Operation | None] = [self]
        while pending:
            part = pending.pop()
            if part is self or (part is not None and part.name.startswith(_COPIES)):
                makers = part.all_makers
                pending += makers - found
                found |= makers
        return found

    def used_by(self, names: Names) -> set[Operation]:
        """The operation and those that use its result, as far as they have such a name."""
        parts, pending = {self}, [self]
        while pending:
            new = set(pending.pop().users_named(names)) - parts
            parts |= new
            pending += new
        return parts


def registers(operand: Operand) -> tuple[int, ...]:
    """The halves of an operand's registers, as numbers."""
    return _rows(operand.kind, operand.first, operand.count, operand.half)


def rows_of(operands: Iterable[Operand]) -> set[int]:
    """The halves of the registers of some operands."""
    return {row for operand in operands for row in registers(operand)}


def parts_of(inst: Instruction) -> Decoded:
    """An instruction taken apart, where it does not matter from which row on AGPRs are."""
    return decode(inst.mnemonic, inst.operands, SUFFIXES, _NO_AGPRS)


def vector_indices(parts: Iterable[Operation | None]) -> set[int]:
    """Indices of the vector instructions among some operations."""
    return {part.inst.index for part in parts if part is not None and part.is_vector}


def is_same(one: Operand, other: Operand) -> bool:
    """Whether two operands are the same registers or the same constant, whatever their signs."""
    return (one.kind, one.first, one.count, one.half, one.integer, one.real, one.name) == (
        (other.kind, other.first, other.count, other.half, other.integer, other.real, other.name)
    )


class ValueGraph:
    """The operations of one function, block by block."""

    def __init__(self, function: Function) -> None:
        self.function = function
        self._blocks: dict[int, list[Operation]] = {}
        code = function.instructions
        self._names = [
            {inst.mnemonic for inst in code[block.start : block.stop]} for block in function.blocks
        ]

    def blocks(self, region: Iterable[int], *names: Names) -> Iterator[list[Operation]]:
        """The operations of the blocks of a region that may hold what is looked for.

        Args:
            region: indices of the region's instructions.
            names: beginnings of mnemonics, of each of which they have one.
        """
        wanted = set(region)
        code = self.function.instructions
        for block, has in zip(self.function.blocks, self._names, strict=True):
            if block.start in wanted and all(
                any(n.startswith(some) for n in has) for some in names
            ):
                known = self._blocks.get(block.index)
                if known is None:
                    known = operations(self.function, code[block.start : block.stop])
                    self._blocks[block.index] = known
                yield known

    def operations(self, region: Iterable[int], *names: Names) -> Iterator[Operation]:
        """The operations of those blocks."""
        return chain.from_iterable(self.blocks(region, *names))

    @cached_property
    def by_block(self) -> list[list[Operation]]:
        """The operations of each block."""
        return list(self.blocks([block.start for block in self.function.blocks]))

    @cached_property
    def in_order(self) -> list[Operation]:
        """All operations, as if no branch were between them."""
        return operations(self.function, self.function.instructions)


@kept_for_recent
def graph_of(function: Function) -> ValueGraph:
    """The graph of a function, which several metrics ask for."""
    return ValueGraph(function)


def operations(
    function: Function, code: Iterable[Instruction], made: dict[int, Operation] | None = None
) -> list[Operation]:
    """The operations of some code of a function, in its order.

    `code`: its instructions that are executed one after the other; `made`: half of a register ->
    what wrote it last, before the code and then behind it.
    """
    offset = function.resources.accum_offset or _NO_AGPRS
    made = {} if made is None else made
    found: list[Operation] = []
    for inst in code:
        parts = decode(inst.mnemonic, inst.operands, SUFFIXES, offset)
        halves = halves_of(parts, offset) if " :: " in parts.text else (parts,)
        new = [_operation(inst, half, made) for half in halves]
        found += new
        for operation in new:
            for maker in operation.makers:
                if maker is not None:
                    maker.users.append(operation)
            for result in operation.results:
                for row in registers(result):
                    made[row] = operation
    return found


def _operation(inst: Instruction, parts: Decoded, made: Mapping[int, Operation]) -> Operation:
    """An operation, and what made what it reads."""
    results, sources = results_and_sources(inst, parts)
    if reads_vcc_unnamed(parts):
        sources = (*sources, _VCC)
    makers: list[Operation | None] = []
    further: dict[int, Set[Operation]] = {}
    for number, source in enumerate(sources):
        rows = registers(source)
        maker = made.get(rows[0]) if rows else None
        makers.append(maker)
        others = {made[row] for row in rows[1:] if row in made} - {maker}
        if others:
            further[number] = others
    name = _name(parts.name)
    return Operation(inst, parts, name, results, sources, tuple(makers), further or _NONE)


@lru_cache(1 << 12)
def _rows(kind: str, first: int, count: int, half: int | None) -> tuple[int, ...]:
    if kind == "sgpr":
        return () if first == NULL else tuple(range(first + SCALAR_BIT, first + SCALAR_BIT + count))
    low = tuple(range(first, first + count)) if kind == "vgpr" else ()
    high = tuple(row + HIGH_HALVES for row in low)
    return (() if half == 1 else low) + (() if half == 0 else high)


@lru_cache(1 << 10)
def _name(mnemonic: str) -> str:
    return _VARIANT.sub("", mnemonic)
