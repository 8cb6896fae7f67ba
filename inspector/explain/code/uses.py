"""Where a register is written and read.

What an instruction writes follows from its name: mostly the first operand, nothing for stores and
comparisons, two for a carry. Registers are numbered as the wait dataflow numbers them.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Sequence

from msgspec import Struct

from ...isa.mnemonics import returns_value
from ...isa.waitflow.registers import named, unnamed_of
from ...model import Function, Instruction

_TEXT = re.compile(
    r"(?<![\w.])(?:(?:acc|ttmp|[vas])(?:\d+\b|\[\d+(?::\d+)?\])|(?:vcc|exec)(?:_lo|_hi)?\b|scc\b|m0\b)"
)
_EXEC = (16386, 16387)
_SCC, _M0 = 16388, 16389
_SPECIAL = re.compile(r"(?<![\w.])(exec(?:_lo|_hi)?|scc|m0)\b")
_NUMBERS = {
    "exec": _EXEC,
    "exec_lo": _EXEC[:1],
    "exec_hi": _EXEC[1:],
    "scc": (_SCC,),
    "m0": (_M0,),
}

# The first operand is read, or there is none; nothing that is named is written.
_WRITES_NOTHING = re.compile(
    r"s_(?:cmpk?|bitcmp[01])_|s_(?:cbranch|branch|setpc|set_pc|add_pc|waitcnt|wait|nop|barrier|sleep|setreg"
    r"|setprio|setkill|sethalt|sendmsg(?!_rtn)|store|buffer_store|scratch_store|dcache|icache"
    r"|gl1|inst_prefetch|set_gpr|set_vgpr|set_inst|prefetch|trap|endpgm|clause|delay_alu|code_end"
    r"|version|round_mode|denorm_mode|ttrace|incperf|decperf|rfe|monitor|atc|wakeup)"
    r"|exp\b|export|v_nop|v_pipeflush|v_clrexcp|v_illegal|\w+_prefetch_"
)
_SILENT_CLASSES = frozenset(
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
# A carry, the scaled flag or the mask stands second.
_WRITES_TWO = re.compile(
    r"v_(?:add_co|sub_co|subrev_co|addc_co|subb_co|subbrev_co|add_co_ci|sub_co_ci|subrev_co_ci|addc"
    r"|subb|subbrev|div_scale|mad_u64_u32|mad_i64_i32|mad_co_u64_u32|mad_co_i64_i32)(?:_|$)"
)
_SWAPS = re.compile(r"v_(?:swap|swaprel|permlane(?:16|32)_swap)_")
# Before gfx9 additions without `co` in the name carry too: then VCC stands second.
_OLD_CARRY = re.compile(r"v_(?:add|sub|subrev)_[ui]32")
# What is written is read as well: accumulators, half registers, conditional moves.
_KEEPS = re.compile(
    r"v_(?:fmac|mac|pk_fmac|dot\d+c|swap|swaprel|writelane|movreld|permlane(?:16|32)_swap"
    r"|dual_fmac|dual_dot2acc|smfmac|swmmac)"
    r"|s_(?:addk|mulk|cmovk?|bitset[01]|fmac)_|\w*_d16"
)
_IMPLICIT_EXEC = re.compile(r"s_\w*(?:saveexec|wrexec)")
_MASKED_BY_EXEC = re.compile(r"v_cmpx")
_DPP_KEEPS = re.compile(r"row_|quad_perm|wave_|dpp8|dst_unused:UNUSED_PRESERVE")
_MASKS_SOME = re.compile(r"(?:row|bank)_mask:(?!0xf\b)|UNUSED_PRESERVE")
_READS_SCC = re.compile(r"s_(?:cbranch_scc|cselect|cmovk?|addc|subb|add_co_ci|sub_co_ci)")
_WRITES_SCC = re.compile(
    r"s_(?:cmpk?_|bitcmp[01]_|(?:add|sub)_[iu]32|addc_|subb_|(?:add|sub)_co_|addk_|(?:min|max)_[iu]32"
    r"|(?:and|or|xor|andn[12]|orn[12]|and_not[01]|or_not[01]|nand|nor|xnor|not|wqm|quadmask)_"
    r"|(?:lshl|lshr)_b|ashr_i|bfe_|lshl[1-4]_add_|bcnt[01]_|abs_|absdiff_)"
)
_PAIRED = "::"  # gfx11's dual issue: two operations in one instruction


class Uses(Struct, frozen=True):
    """Where a register is touched. Lines count from 0 and ascend.

    Attributes:
        register: as it was asked for, or as the line writes it; "" where there is none.
        writes: lines that write any of it.
        reads: lines that read any of it.
        of_value: those among them that have to do with the value it holds at the line: the writes
            that may have made it and the reads that may see it.
    """

    register: str
    writes: tuple[int, ...] = ()
    reads: tuple[int, ...] = ()
    of_value: frozenset[int] = frozenset()


def registers_of(text: str) -> list[tuple[int, int, str]]:
    """The registers that a line names: (first column, column behind it, `v[0:3]`)."""
    code = _code(text)
    return [(m.start(), m.end(), m[0]) for m in _TEXT.finditer(code)]


def register_at(text: str, column: int) -> str | None:
    """The register that stands at a column of a line."""
    for start, stop, name in registers_of(text):
        if start <= column < stop:
            return name
    return None


def numbers_of(text: str) -> tuple[int, ...]:
    """Numbers of the registers that an operand text names, EXEC, SCC and M0 among them."""
    numbers = named(text)
    if "exec" in text or "scc" in text or "m0" in text:
        numbers += tuple(n for name in _SPECIAL.findall(text) for n in _NUMBERS[name])
    return numbers


def uses(function: Function, line: int, register: str | None = None) -> Uses:
    """Where a register is written and read in a function.

    Args:
        function: the code.
        line: where the reader stands, from 0.
        register: `v12`, `s[4:7]`, `vcc`; any of a range counts. None: what the line writes, else
            the first that it reads.
    """
    current = [inst for inst in function.instructions if inst.line - 1 == line]
    if register is None:
        register = next((name for inst in current for name in _chosen(inst)), "")
    numbers = frozenset(numbers_of(register))
    if not numbers:
        return Uses(register)
    writes: list[int] = []
    reads: list[int] = []
    touching: dict[int, tuple[bool, bool]] = {}
    for inst in function.instructions:
        if numbers.isdisjoint(_touched(inst.op.name, inst.operands)):
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
    value = _of_value(function, {inst.index for inst in current}, touching, set(writes))
    return Uses(
        register, tuple(dict.fromkeys(writes)), tuple(dict.fromkeys(reads)), frozenset(value)
    )


def effects(inst: Instruction) -> tuple[frozenset[int], frozenset[int]]:
    """Numbers of the registers that an instruction writes, and of those that it reads."""
    if _PAIRED in inst.operands:
        first, _, second = inst.operands.partition(_PAIRED)
        name, _, operands = second.strip().partition(" ")
        first_effects = _effects(inst.op.name, inst.cls, first, _may_return(inst))
        second_effects = _effects(name, inst.cls, operands, False)
        return first_effects[0] | second_effects[0], first_effects[1] | second_effects[1]
    return _effects(inst.op.name, inst.cls, inst.operands, _may_return(inst))


def _may_return(inst: Instruction) -> bool:
    return returns_value(inst.op, inst.operands)


@functools.lru_cache(maxsize=32768)
def _touched(name: str, operands: str) -> frozenset[int]:
    """Registers that an instruction may touch: a quick first look."""
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
    parts = operands.split(",")
    count = _written_operands(name, cls, parts, returns)
    written_numbers = set(numbers_of(",".join(parts[:count])))
    read_numbers = set(numbers_of(",".join(parts[count:])))
    if written_numbers and (_KEEPS.match(name) or _keeps_lanes(name, operands)):
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
    """How many of the first operands are written."""
    if cls in _SILENT_CLASSES or _WRITES_NOTHING.match(name):
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
        return 0  # gfx10 on: only EXEC is written, and not named
    if _WRITES_TWO.match(name) and len(parts) > 2:
        return 2
    if _OLD_CARRY.match(name) and len(parts) == 4:
        return 2
    if _SWAPS.match(name):
        return 2
    return 1


def _keeps_lanes(name: str, operands: str) -> bool:
    """Whether lanes or bits that the operation leaves alone keep their old value."""
    if not name.startswith("v_"):
        return False
    if _DPP_KEEPS.search(operands) is None:
        return False
    return "bound_ctrl" not in operands or _MASKS_SOME.search(operands) is not None


def _chosen(inst: Instruction) -> Iterable[str]:
    """The registers of an instruction, what it writes first."""
    written_numbers, _ = effects(inst)
    names = [m[0] for m in _TEXT.finditer(inst.operands)]
    return sorted(names, key=lambda name: written_numbers.isdisjoint(numbers_of(name)))


def _of_value(
    function: Function,
    current: set[int],
    touching: dict[int, tuple[bool, bool]],
    writing_lines: set[int],
) -> set[int]:
    """Lines that make or see the value that a register holds at some instructions.

    Args:
        function: the code.
        current: the instructions' indices.
        touching: index -> whether it reads, and whether it writes the whole register anew.
        writing_lines: lines that write any of it.
    """
    instructions = function.instructions
    makers: set[int] = set()
    for index in current:
        if index in touching and instructions[index].line - 1 in writing_lines:
            makers.add(index)
    if not makers:  # it reads, or only passes by
        for index in current:
            makers |= _backwards(function, index, touching, writing_lines)
    lines = {instructions[index].line - 1 for index in makers}
    for index in makers:
        lines |= {instructions[at].line - 1 for at in _forwards(function, index, touching)}
    return lines


def _block_of(function: Function, index: int) -> int:
    return next(b.index for b in function.blocks if b.start <= index < b.stop)


def _backwards(
    function: Function,
    index: int,
    touching: dict[int, tuple[bool, bool]],
    writing_lines: set[int],
) -> set[int]:
    """The instructions that may have written what the register holds before one."""
    writers: set[int] = set()
    first = _block_of(function, index)
    visited: set[int] = set()
    work = [(first, index)]
    while work:
        number, stop = work.pop()
        block = function.blocks[number]
        for at in range(stop - 1, block.start - 1, -1):
            if at in touching and function.instructions[at].line - 1 in writing_lines:
                writers.add(at)
                if touching[at][1]:
                    break
        else:
            for predecessor in block.predecessors:
                if predecessor not in visited:
                    visited.add(predecessor)
                    work.append((predecessor, function.blocks[predecessor].stop))
    return writers


def _forwards(function: Function, index: int, touching: dict[int, tuple[bool, bool]]) -> set[int]:
    """The instructions that may read what one has written."""
    readers: set[int] = set()
    visited: set[int] = set()
    work = [(_block_of(function, index), index + 1)]
    while work:
        number, start = work.pop()
        block = function.blocks[number]
        for at in range(start, block.stop):
            reads, kills = touching.get(at, (False, False))
            if reads:
                readers.add(at)
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
