"""Finds where a register is written and read.

Which operands an instruction writes follows from its name: usually the first, none for stores and
scalar comparisons, two for an addition with carry. Registers have the numbers of
`isa.waitflow.registers`; EXEC, SCC and M0, which it does not track, get numbers of their own here.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Sequence

from msgspec import Struct

from ...isa.mnemonics import returns_value
from ...isa.waitflow.registers import named, unnamed_of
from ...model import Function, Instruction

_REGISTER = re.compile(
    r"(?<![\w.])(?:(?:acc|ttmp|[vas])(?:\d+\b|\[\d+(?::\d+)?\])|(?:vcc|exec)(?:_lo|_hi)?\b|scc\b|m0\b)"
)
_RANGE = re.compile(r"(acc|ttmp|[vas])\[(\d+):(\d+)\]")
_EXEC = (16386, 16387)
_SCC, _M0 = 16388, 16389
"""Numbers beyond those of `isa.waitflow.registers`, whose last are VCC's two halves."""
_SPECIAL = re.compile(r"(?<![\w.])(exec(?:_lo|_hi)?|scc|m0)\b")
_NUMBERS = {
    "exec": _EXEC,
    "exec_lo": _EXEC[:1],
    "exec_hi": _EXEC[1:],
    "scc": (_SCC,),
    "m0": (_M0,),
}

# Instructions that write none of their operands: the first is read, or there is none.
_WRITES_NOTHING = re.compile(
    r"s_(?:cmpk?|bitcmp[01])_|s_(?:cbranch|branch|setpc|set_pc|add_pc|waitcnt|wait|nop|barrier|sleep|setreg"
    r"|setprio|setkill|sethalt|sendmsg(?!_rtn)|store|buffer_store|scratch_store|dcache|icache"
    r"|gl1|inst_prefetch|set_gpr|set_vgpr|set_inst|prefetch|trap|endpgm|clause|delay_alu|code_end"
    r"|version|round_mode|denorm_mode|ttrace|incperf|decperf|rfe|monitor|atc|wakeup)"
    r"|exp\b|export|v_nop|v_pipeflush|v_clrexcp|v_illegal|\w+_prefetch_"
)
_CLASSES_WITHOUT_RESULT = frozenset(
    {
        "global_store",
        "scratch_store",
        "lds_write",
        "lds_direct",
        "lds_direct_store",
        "smem_store",
        "prefetch",
        "cache",
        "wait",
        "alu_wait",
        "barrier",
        "barrier_signal",
        "nop",
        "hint",
        "export",
    }
)
_LDS_RETURNS = re.compile(r"_rtn|ds_(?:append|consume)|ds_bvh_stack")
# The second operand is written, too: the carry, or the flag of v_div_scale.
_WRITES_TWO = re.compile(
    r"v_(?:add_co|sub_co|subrev_co|addc_co|subb_co|subbrev_co|add_co_ci|sub_co_ci|subrev_co_ci|addc"
    r"|subb|subbrev|div_scale|mad_u64_u32|mad_i64_i32|mad_co_u64_u32|mad_co_i64_i32)(?:_|$)"
)
_SWAPS = re.compile(r"v_(?:swap|swaprel|permlane(?:16|32)_swap)_")
# Before gfx9, additions without `co` in their name write a carry, too: VCC, the second operand.
_OLD_CARRY = re.compile(r"v_(?:add|sub|subrev)_[ui]32")
# The destination is also read: accumulators, writes of half a register, conditional moves.
_READS_DESTINATION = re.compile(
    r"v_(?:fmac|mac|pk_fmac|dot\d+c|swap|swaprel|writelane|movreld|permlane(?:16|32)_swap"
    r"|dual_fmac|dual_dot2acc|smfmac|swmmac)"
    r"|s_(?:addk|mulk|cmovk?|bitset[01]|fmac)_|\w*_d16"
)
_IMPLICIT_EXEC = re.compile(r"s_\w*(?:saveexec|wrexec)")
_MASKED_BY_EXEC = re.compile(r"v_cmpx")
_DPP_PRESERVES = re.compile(r"row_|quad_perm|wave_|dpp8|dst_unused:UNUSED_PRESERVE")
_MASKS_SOME_LANES = re.compile(r"(?:row|bank)_mask:(?!0xf\b)|UNUSED_PRESERVE")
_READS_SCC = re.compile(r"s_(?:cbranch_scc|cselect|cmovk?|addc|subb|add_co_ci|sub_co_ci)")
_WRITES_SCC = re.compile(
    r"s_(?:cmpk?_|bitcmp[01]_|(?:add|sub)_[iu]32|addc_|subb_|(?:add|sub)_co_|addk_|(?:min|max)_[iu]32"
    r"|(?:and|or|xor|andn[12]|orn[12]|and_not[01]|or_not[01]|nand|nor|xnor|not|wqm|quadmask)_"
    r"|(?:lshl|lshr)_b|ashr_i|bfe_|lshl[1-4]_add_|bcnt[01]_|abs_|absdiff_)"
)
_DUAL_ISSUE_SEPARATOR = "::"  # gfx11's dual issue: two operations in one instruction


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
    code = _code(text)
    return [(m.start(), m.end(), m[0]) for m in _REGISTER.finditer(code)]


def numbers_of(text: str) -> tuple[int, ...]:
    """Numbers of the registers that an operand text names, EXEC, SCC and M0 among them."""
    numbers = named(text)
    if "exec" in text or "scc" in text or "m0" in text:
        numbers += tuple(n for name in _SPECIAL.findall(text) for n in _NUMBERS[name])
    return numbers


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
    numbers = frozenset(numbers_of(register))
    if not numbers:
        return Uses(register)
    writes: list[int] = []
    reads: list[int] = []
    touching: dict[int, tuple[bool, bool]] = {}
    for inst in function.instructions:
        if numbers.isdisjoint(_maybe_touched(inst.op.name, inst.operands)):
            continue
        written_numbers, read_numbers = effects(inst)
        writing, reading = (
            not numbers.isdisjoint(written_numbers),
            not numbers.isdisjoint(read_numbers),
        )
        if writing:
            writes.append(inst.line - 1)
        if reading:
            reads.append(inst.line - 1)
        if writing or reading:
            kills = writing and numbers.issubset(written_numbers) and not reading
            touching[inst.index] = (reading, kills)
    value = _lines_of_value(function, {inst.index for inst in current}, touching, set(writes))
    return Uses(
        register, tuple(dict.fromkeys(writes)), tuple(dict.fromkeys(reads)), frozenset(value)
    )


def effects(inst: Instruction) -> tuple[frozenset[int], frozenset[int]]:
    """Numbers of the registers that an instruction writes, and of those that it reads."""
    if _DUAL_ISSUE_SEPARATOR in inst.operands:
        first, _, second = inst.operands.partition(_DUAL_ISSUE_SEPARATOR)
        name, _, operands = second.strip().partition(" ")
        first_effects = _effects(inst.op.name, inst.cls, first, _may_return(inst))
        second_effects = _effects(name, inst.cls, operands, False)
        return first_effects[0] | second_effects[0], first_effects[1] | second_effects[1]
    return _effects(inst.op.name, inst.cls, inst.operands, _may_return(inst))


def _may_return(inst: Instruction) -> bool:
    return returns_value(inst.op, inst.operands)


@functools.lru_cache(maxsize=32768)
def _maybe_touched(name: str, operands: str) -> frozenset[int]:
    """A superset of the registers that an instruction touches, cheap enough to filter by."""
    numbers = {*numbers_of(operands), *unnamed_of(name)}
    if name.startswith("s_"):
        numbers.add(_SCC)
    if "exec" in name or name.startswith("v_cmpx"):
        numbers.update(_EXEC)
    return frozenset(numbers)


@functools.lru_cache(maxsize=32768)
def _effects(
    name: str, cls: str, operands: str, returns: bool
) -> tuple[frozenset[int], frozenset[int]]:
    """`effects` of one operation; `returns`: whether an atomic returns the old value."""
    parts = operands.split(",")
    count = _written_operands(name, cls, parts, returns)
    written_numbers = set(numbers_of(",".join(parts[:count])))
    read_numbers = set(numbers_of(",".join(parts[count:])))
    if written_numbers and (_READS_DESTINATION.match(name) or _preserves_old_value(name, operands)):
        read_numbers |= written_numbers
    if cls == "atomic" and count and name.startswith(("buffer_", "image_")):
        read_numbers |= written_numbers  # one register is the operand and the old value
    read_numbers.update(unnamed_of(name))
    if _IMPLICIT_EXEC.match(name):
        written_numbers.update(_EXEC)
        read_numbers.update(_EXEC)
    if _MASKED_BY_EXEC.match(name):
        written_numbers.update(_EXEC)
    if name.startswith("s_cbranch_exec"):
        read_numbers.update(_EXEC)
    if _READS_SCC.match(name):
        read_numbers.add(_SCC)
    if _WRITES_SCC.match(name):
        written_numbers.add(_SCC)
    return frozenset(written_numbers), frozenset(read_numbers)


def _written_operands(name: str, cls: str, parts: Sequence[str], returns: bool) -> int:
    """How many operands are written; they come first."""
    if cls in _CLASSES_WITHOUT_RESULT or _WRITES_NOTHING.match(name):
        return 0
    if cls == "atomic":
        return int(returns)
    if cls == "lds_atomic":
        return int(_LDS_RETURNS.search(name) is not None)
    if cls == "gds":
        return int("rtn" in name or "ordered_count" in name)
    if cls == "image" and "store" in name:
        return 0
    if name.startswith("v_cmpx") and len(parts) < 3:
        return 0  # from gfx10 on it writes EXEC alone, which is not among its operands
    if _WRITES_TWO.match(name) and len(parts) > 2:
        return 2
    if _OLD_CARRY.match(name) and len(parts) == 4:
        return 2
    if _SWAPS.match(name):
        return 2
    return 1


def _preserves_old_value(name: str, operands: str) -> bool:
    """Whether lanes or bits that the operation leaves alone keep their old value."""
    if not name.startswith("v_"):
        return False
    if _DPP_PRESERVES.search(operands) is None:
        return False
    return "bound_ctrl" not in operands or _MASKS_SOME_LANES.search(operands) is not None


def _registers_written_first(inst: Instruction) -> Iterable[str]:
    """The registers that an instruction names, those that it writes first."""
    written_numbers, _ = effects(inst)
    names = [m[0] for m in _REGISTER.finditer(inst.operands)]
    return sorted(names, key=lambda name: written_numbers.isdisjoint(numbers_of(name)))


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
    function: Function,
    index: int,
    touching: dict[int, tuple[bool, bool]],
    writing_lines: set[int],
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


def _code(text: str) -> str:
    """A line without its comment."""
    return text.partition(";")[0].partition("//")[0]
