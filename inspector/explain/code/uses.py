"""Finds where a register is written and read, and which of these uses are of one value.

Registers are rows of the files as `isa.dataflow.operands` counts them, and SCC, which no
analysis follows, is one more.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable

from msgspec import Struct

from ...isa.dataflow.effects import bits_of, effect_of
from ...isa.dataflow.execution_target import ExecutionTarget
from ...isa.dataflow.operands import (
    EXEC,
    SCALAR_BIT,
    SCALAR_ROWS,
    SUFFIXES,
    VECTOR_REGISTERS,
    decode,
    parse_operand,
    rows_of,
    scalar_bits,
)
from ...model import Function, Instruction

_REGISTER = re.compile(
    r"(?<![\w.])(?:(?:acc|ttmp|[vas])(?:\d+\b|\[\d+(?::\d+)?\])|(?:vcc|exec)(?:_lo|_hi)?\b|scc\b|m0\b)"
)
_RANGE = re.compile(r"(acc|ttmp|[vas])\[(\d+):(\d+)\]")
_TARGET = ExecutionTarget("gfx906", 9, 64)
"""Targets differ in what an operation leaves of a register: on this one no load clears a half."""
_SCC = 1 << (SCALAR_BIT + SCALAR_ROWS)
_EXEC = scalar_bits(EXEC, 2)
_CHANGES_EXEC = re.compile(r"s_\w*(?:saveexec|wrexec)")
_READS_SCC = re.compile(r"s_(?:cbranch_scc|cselect|cmovk?|addc|subb|add_co_ci|sub_co_ci)")
_WRITES_SCC = re.compile(
    r"s_(?:cmpk?_|bitcmp[01]_|(?:add|sub)_[iu]32|addc_|subb_|(?:add|sub)_co_|addk_|(?:min|max)_[iu]32"
    r"|(?:and|or|xor|andn[12]|orn[12]|and_not[01]|or_not[01]|nand|nor|xnor|not|wqm|quadmask)_"
    r"|(?:lshl|lshr)_b|ashr_i|bfe_|lshl[1-4]_add_|bcnt[01]_|abs_|absdiff_)"
)


class Uses(Struct, frozen=True):
    """The lines of a function that write or read a register, from 0, ascending.

    Args:
        register: its name as the caller or the line spells it; "" where the line names none.
        of_value: the lines among them that concern the value it holds at the line asked about: the
            writes that may have produced it and the reads that may see it.
    """

    register: str
    writes: tuple[int, ...] = ()
    reads: tuple[int, ...] = ()
    of_value: frozenset[int] = frozenset()


def registers_of(text: str) -> list[tuple[int, int, str]]:
    """The registers that a line names: (first column, column past its end, `v[0:3]`)."""
    code = text.partition(";")[0].partition("//")[0]
    return [(m.start(), m.end(), m[0]) for m in _REGISTER.finditer(code)]


def numbers_of(name: str) -> tuple[int, ...]:
    """The rows of a register or a range of them; none for another name."""
    return rows_of(_bits(name))


def _bits(name: str) -> int:
    return _SCC if name == "scc" else bits_of(parse_operand(name, _TARGET.accum_offset))


def single_registers(name: str) -> list[str]:
    """The registers of a range, `v[2:3]` as `v2` and `v3`; any other name as it is."""
    ranged = _RANGE.fullmatch(name)
    if ranged is None:
        return [name]
    first, last = int(ranged[2]), int(ranged[3])
    return [f"{ranged[1]}{number}" for number in range(first, last + 1)]


def uses(function: Function, line: int, register: str | None = None) -> Uses:
    """Where a register is written and read in a function.

    The cursor's line, from 0, decides which value `of_value` is about. A use of any register of a
    range counts. Without a register it is the one that the line writes or, if it writes none, the
    first that it reads.
    """
    current = [inst for inst in function.instructions if inst.line - 1 == line]
    if register is None:
        register = next((name for inst in current for name in _registers_written_first(inst)), "")
    numbers = _bits(register)
    if not numbers:
        return Uses(register)
    writes: list[int] = []
    reads: list[int] = []
    touching: dict[int, tuple[bool, bool]] = {}
    for inst in function.instructions:
        written, read = _effects(inst)
        if numbers & written:
            writes.append(inst.line - 1)
        if numbers & read:
            reads.append(inst.line - 1)
        if numbers & (written | read):
            kills = not numbers & ~written and not numbers & read
            touching[inst.index] = (bool(numbers & read), kills)
    value = _lines_of_value(function, {inst.index for inst in current}, touching, set(writes))
    return Uses(
        register, tuple(dict.fromkeys(writes)), tuple(dict.fromkeys(reads)), frozenset(value)
    )


def effects(inst: Instruction) -> tuple[frozenset[int], frozenset[int]]:
    """The rows that an instruction writes, and those that it reads."""
    written, read = _effects(inst)
    return frozenset(rows_of(written)), frozenset(rows_of(read))


def _effects(inst: Instruction) -> tuple[int, int]:
    """The registers that an instruction writes and reads, as bits.

    What it leaves of a register, in lanes or halves, is read: the old value goes on.
    """
    parts = decode(inst.mnemonic, inst.operands, SUFFIXES, _TARGET.accum_offset)
    effect = effect_of(inst, parts, _TARGET)
    kept = effect.writes & ~(effect.low & effect.high) & VECTOR_REGISTERS
    if inst.cls == "atomic" and parts.name.startswith(("buffer_", "image_")):
        kept |= effect.writes  # one register is the operand and the old value
    written, read = _unnamed(inst.op.name)
    return effect.writes | written, effect.reads | kept | read


@functools.lru_cache(maxsize=4096)
def _unnamed(name: str) -> tuple[int, int]:
    """EXEC and SCC, as far as an instruction of this name writes and reads them unnamed."""
    exec_changes = _EXEC if _CHANGES_EXEC.match(name) else 0
    written = exec_changes | (_SCC if _WRITES_SCC.match(name) else 0)
    reads_exec = _EXEC if name.startswith("s_cbranch_exec") else exec_changes
    return written, reads_exec | (_SCC if _READS_SCC.match(name) else 0)


def _registers_written_first(inst: Instruction) -> Iterable[str]:
    """The registers that an instruction names, those that it writes first."""
    written, _ = _effects(inst)
    names = [m[0] for m in _REGISTER.finditer(inst.operands)]
    return sorted(names, key=lambda name: not written & _bits(name))


def _lines_of_value(
    function: Function,
    current: set[int],
    touching: dict[int, tuple[bool, bool]],
    writing_lines: set[int],
) -> set[int]:
    """Lines that may produce or see the value that a register holds at some instructions."""
    instructions = function.instructions
    writers: set[int] = set()
    for index in current:
        if index in touching and instructions[index].line - 1 in writing_lines:
            writers.add(index)
    if not writers:  # the instructions only read the register, or do not use it
        for index in current:
            writers |= _reaching_writers(function, index, touching, writing_lines)
    lines = {instructions[index].line - 1 for index in writers}
    for index in writers:
        readers = _reached_readers(function, index, touching)
        lines |= {instructions[reader].line - 1 for reader in readers}
    return lines


def _block_of(function: Function, index: int) -> int:
    return next(b.index for b in function.blocks if b.start <= index < b.stop)


def _reaching_writers(
    function: Function, index: int, touching: dict[int, tuple[bool, bool]], writing_lines: set[int]
) -> set[int]:
    """Indices of the writes that may reach an instruction, walking the control flow backwards."""
    writers: set[int] = set()
    first = _block_of(function, index)
    visited: set[int] = set()
    work = [(first, index)]
    while work:
        number, stop = work.pop()
        block = function.blocks[number]
        for position in range(stop - 1, block.start - 1, -1):
            line = function.instructions[position].line - 1
            if position in touching and line in writing_lines:
                writers.add(position)
                if touching[position][1]:
                    break
        else:
            for predecessor in block.predecessors:
                if predecessor not in visited:
                    visited.add(predecessor)
                    work.append((predecessor, function.blocks[predecessor].stop))
    return writers


def _reached_readers(
    function: Function, index: int, touching: dict[int, tuple[bool, bool]]
) -> set[int]:
    """Indices of the reads that an instruction's write may reach, along the control flow."""
    readers: set[int] = set()
    visited: set[int] = set()
    work = [(_block_of(function, index), index + 1)]
    while work:
        number, start = work.pop()
        block = function.blocks[number]
        for position in range(start, block.stop):
            reads, kills = touching.get(position, (False, False))
            if reads:
                readers.add(position)
            if kills:
                break
        else:
            for successor in block.successors:
                if successor not in visited:
                    visited.add(successor)
                    work.append((successor, function.blocks[successor].start))
    return readers
