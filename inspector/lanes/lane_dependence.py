"""What depends on lanes: accesses whose addresses rest on no lane's number, on no workgroup's or on
values from memory, and code that at most one lane of a wave executes.

Without a lane's number those of all lanes are equal, without a workgroup's those of all workgroups.

Addresses that are equal for drawn sizes may differ for others: `lane / width` is 0 for all lanes of
a wave only where rows are long. Here the registers are followed that rest on a lane's number, along
every edge of the flow graph. A loop that lanes leave at different times leaves them different
values of what it counts. Else what lanes have written under different masks is not told apart: an
access is uniform where its addresses, carried out, are equal as well.

`if (lane == first active lane)` takes one lane, and whatever is compared inside narrows EXEC
further. Masks are followed through the instructions that LLVM writes for control flow: each with
the comparisons whose result it is contained in.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from typing import Final

from ..emulator.start import workgroup_registers
from ..isa.dataflow.code_registers import CodeRegisters, registers_of
from ..isa.dataflow.effects import RegisterEffect
from ..isa.dataflow.execution_target import target_of
from ..isa.dataflow.operands import (
    EXEC,
    SCALAR_BIT,
    VECTOR_REGISTERS,
    Decoded,
    Operand,
    rows_of,
    scalar_bits,
    vector_bits,
)
from ..model import Function, Instruction, Machine
from .slices import EXEC_BITS, address_bits

_OF_ONE_LANE: Final = re.compile(r"v_read(first)?lane_b32")
_LANES_LEAVE: Final = re.compile(r"s_and(?:n2|_not1)_b(?:32|64)")
_NUMBERS: Final = re.compile(r"v_mbcnt_\w+")
"""Instructions whose result is a lane's number, whatever they read."""
_BRINGING: Final = frozenset(("global_load", "lds_read", "scratch_load", "atomic", "lds_atomic"))
_OVERWRITTEN: Final = 1 << 8192
"""In a set of registers: the pointer to the arguments is no longer there."""


def lane_independent(
    function: Function, machine: Machine, accesses: Collection[int]
) -> frozenset[int]:
    """The accesses, by index, whose addresses rest on no lane's number."""
    work_items = vector_bits(0, 3)
    dependent = _resting_on(work_items, function, machine, accesses, of_lanes=True)
    return frozenset(index for index, depends in dependent.items() if not depends)


def workgroup_independent(
    function: Function, machine: Machine, accesses: Collection[int]
) -> frozenset[int]:
    """The accesses, by index, whose addresses rest on no workgroup's number."""
    start = function.resources.wave_start
    if start is None:
        return frozenset()
    numbers = workgroup_registers(start, target_of(function, machine.arch))
    dependent = _resting_on(numbers, function, machine, accesses, of_lanes=False)
    return frozenset(index for index, depends in dependent.items() if not depends)


def memory_dependent(
    function: Function, machine: Machine, accesses: Collection[int]
) -> frozenset[int]:
    """The accesses, by index, whose addresses rest on values in memory, other than arguments."""
    dependent = _resting_on(0, function, machine, accesses, of_lanes=False, of_memory=True)
    return frozenset(index for index, depends in dependent.items() if depends)


def placed_by_lanes(
    function: Function, machine: Machine, accesses: Collection[int], alike: Collection[int]
) -> frozenset[int]:
    """The accesses, by index, whose addresses rest on values that each lane loads for itself.

    `alike`: indices of the loads that are known to bring one value to all lanes of a wave.
    """
    loads = {
        inst.index
        for inst in function.instructions
        if inst.cls == "global_load" and inst.index not in alike
    }
    of_lanes = loads - lane_independent(function, machine, loads)
    if not of_lanes:
        return frozenset()
    dependent = _resting_on(
        0, function, machine, accesses, of_lanes=False, of_memory=True, bringing=of_lanes
    )
    return frozenset(index for index, depends in dependent.items() if depends)


def _resting_on(
    numbers: int,
    function: Function,
    machine: Machine,
    accesses: Collection[int],
    *,
    of_lanes: bool,
    of_memory: bool = False,
    bringing: Collection[int] | None = None,
) -> dict[int, bool]:
    """Index of an access that is reached -> whether its address rests on some numbers."""
    target = target_of(function, machine.arch)
    code = registers_of(function, target)
    decoded, effects = code.decoded, code.effects
    start = function.resources.wave_start
    if start is None or not function.blocks:
        return {}
    arguments = 0 if start.kernarg_ptr is None else scalar_bits(start.kernarg_ptr, 2)
    entering = [0] * len(function.blocks)
    entering[0] = numbers
    left = _written_before_leaving(function, effects) if of_lanes else {}
    dependent: dict[int, bool] = {}
    work = {block.index for block in function.blocks}
    while work:
        block = function.blocks[min(work)]
        work.discard(block.index)
        registers = entering[block.index]
        for index in range(block.start, block.stop):
            inst, effect = function.instructions[index], effects[index]
            name = inst.op.name
            if index in accesses:
                dependent[index] = bool(address_bits(inst, decoded[index]) & registers)
            varies = bool(effect.reads & ~EXEC_BITS & registers)
            if of_lanes:
                varies = (varies or bool(_NUMBERS.match(name))) and not _OF_ONE_LANE.match(name)
            elif bringing is not None:
                varies = (varies and not _OF_ONE_LANE.match(name)) or index in bringing
            elif of_memory:
                brings = inst.cls == "smem_load" and (
                    registers & _OVERWRITTEN or effect.reads & ~EXEC_BITS & ~arguments
                )
                varies = varies or bool(brings) or inst.cls in _BRINGING
                if effect.writes & arguments:
                    registers |= _OVERWRITTEN
            if varies:
                registers |= effect.writes
            else:
                registers &= ~effect.writes
        for successor in block.successors:
            passed = registers | left.get((block.index, successor), 0)
            if passed & ~entering[successor]:
                entering[successor] |= passed
                work.add(successor)
    return dependent


def _written_before_leaving(
    function: Function, effects: Sequence[RegisterEffect]
) -> dict[tuple[int, int], int]:
    """Edge out of a loop that lanes leave one by one -> the vector registers that it writes."""
    written: dict[tuple[int, int], int] = {}
    for loop in function.loops:
        indices = [
            index
            for number in loop.blocks
            for index in range(function.blocks[number].start, function.blocks[number].stop)
        ]
        if not any(_lets_lanes_leave(function.instructions[index]) for index in indices):
            continue
        registers = 0
        for index in indices:
            registers |= effects[index].writes & VECTOR_REGISTERS
        inside = set(loop.blocks)
        for number in loop.blocks:
            for successor in function.blocks[number].successors:
                if successor not in inside:
                    edge = number, successor
                    written[edge] = written.get(edge, 0) | registers
    return written


def _lets_lanes_leave(inst: Instruction) -> bool:
    return _LANES_LEAVE.fullmatch(inst.op.name) is not None and inst.operands.partition(",")[
        0
    ].strip() in ("exec", "exec_lo")


_EQUAL: Final = re.compile(r"v_cmpx?_eq_[iu]32")
_INSIDE_ALL: Final = -1
"""What a mask without lanes is contained in: every comparison's result."""


class _Masks:
    """What is known at a point of the code.

    `inside`: row of a mask's first register -> the comparisons, as bits, that it is contained in.
    `distinct`: the set of vector registers whose active lanes hold values of their own.
    """

    def __init__(self, inside: dict[int, int] | None = None, distinct: int = 0) -> None:
        self.inside = {} if inside is None else inside
        self.distinct = distinct

    def copy(self) -> _Masks:
        return _Masks(dict(self.inside), self.distinct)

    def meet(self, other: _Masks) -> bool:
        """Keeps what holds in both; returns whether something was dropped."""
        both = {row: bits & other.inside.get(row, 0) for row, bits in self.inside.items()}
        inside = {row: bits for row, bits in both.items() if bits}
        distinct = self.distinct & other.distinct
        changed = inside != self.inside or distinct != self.distinct
        self.inside, self.distinct = inside, distinct
        return changed

    def of(self, operand: Operand) -> int:
        """The comparisons that a mask is contained in."""
        if operand.integer == 0:
            return _INSIDE_ALL
        return self.inside.get(operand.first, 0) if operand.kind == "sgpr" else 0


def single_lane_sites(function: Function, code: CodeRegisters, lanes: int) -> frozenset[int]:
    """The instructions that write EXEC and leave at most one lane in it, by index."""
    if not any(parts.name.startswith("v_mbcnt_") for parts in code.decoded):
        return frozenset()
    entering: dict[int, _Masks] = {0: _Masks()}
    sites: set[int] = set()
    work = {0}
    while work:
        number = min(work)
        work.discard(number)
        block = function.blocks[number]
        masks = entering[number].copy()
        lows = copies = 0  # within the block: counts of the low lanes; copies of EXEC
        for index in range(block.start, block.stop):
            parts, writes = code.decoded[index], code.effects[index].writes
            is_count, is_whole = _counts_lanes(parts, copies, lows, lanes)
            written = _written(masks, parts, 1 << index)
            for row in rows_of(writes >> SCALAR_BIT & ((1 << SCALAR_BIT) - 1)):
                masks.inside.pop(row, None)
                if lanes > 32:
                    masks.inside.pop(row - 1, None)
            masks.inside.update({row: bits for row, bits in written.items() if bits})
            masks.distinct &= ~writes
            lows &= ~writes
            copies &= ~writes
            if is_count and not is_whole:
                lows |= writes
            elif is_whole and index not in code.masked:
                masks.distinct |= writes
            if parts.name.startswith("s_mov_b") and _is_exec(parts.operands[-1]):
                copies |= writes
            if writes >> SCALAR_BIT >> EXEC & 3:
                copies = 0
                if masks.inside.get(EXEC, 0):
                    sites.add(index)
                else:
                    sites.discard(index)
        for successor in block.successors:
            if successor not in entering:
                entering[successor] = masks.copy()
                work.add(successor)
            elif entering[successor].meet(masks):
                work.add(successor)
    return frozenset(sites)


def _is_exec(operand: Operand) -> bool:
    return operand.kind == "sgpr" and operand.first == EXEC


def _counts_lanes(parts: Decoded, copies: int, lows: int, lanes: int) -> tuple[bool, bool]:
    """Whether an instruction counts active lanes before each lane, and whether all of them."""
    is_high = parts.name.startswith("v_mbcnt_hi")
    if not is_high and not parts.name.startswith("v_mbcnt_lo"):
        return False, False
    if len(parts.operands) != 3:
        return False, False
    _, mask, base = parts.operands
    is_active = mask.integer == -1 or (
        mask.kind == "sgpr"
        and bool(copies >> SCALAR_BIT >> mask.first & 1 or mask.first in (EXEC, EXEC + 1))
    )
    if is_high:
        is_all = is_active and base.kind == "vgpr" and bool(lows & vector_bits(base.first, 1))
        return is_all, is_all
    is_low = is_active and base.integer == 0
    return is_low, is_low and lanes == 32


def _written(masks: _Masks, parts: Decoded, site: int) -> dict[int, int]:
    """First row of a mask that an instruction writes -> the comparisons that it is contained in."""
    name, operands = parts.name.rpartition("_b")[0] or parts.name, parts.operands
    active = masks.inside.get(EXEC, 0)
    if parts.name.startswith("v_cmp"):
        result = active | (site if _takes_one_lane(masks, parts) else 0)
        inside = {operands[0].first: result} if operands[0].kind == "sgpr" else {}
        if parts.name.startswith("v_cmpx"):
            inside[EXEC] = result
        return inside
    if not name.startswith("s_") or not operands or operands[0].kind != "sgpr":
        return {}
    to = operands[0].first
    read = [masks.of(operand) for operand in operands[1:]]
    if name.endswith("_saveexec") and read:
        left = {
            "s_and_saveexec": active | read[0],
            "s_andn2_saveexec": read[0],
            "s_and_not1_saveexec": read[0],
            "s_andn1_saveexec": active,
            "s_and_not0_saveexec": active,
            "s_or_saveexec": active & read[0],
        }
        return {to: active, EXEC: left.get(name, 0)}
    if name == "s_mov":
        return {to: read[0]}
    if len(read) == 2:
        if name == "s_and":
            return {to: read[0] | read[1]}
        if name in ("s_andn2", "s_and_not1"):
            return {to: read[0]}
        if name in ("s_or", "s_xor", "s_cselect"):
            return {to: read[0] & read[1]}
    return {}


def _takes_one_lane(masks: _Masks, parts: Decoded) -> bool:
    """Whether a comparison of values that differ between lanes with one value is for equality."""
    if not _EQUAL.fullmatch(parts.name):
        return False
    first, second = parts.operands[-2:]
    if first.kind == "vgpr":
        first, second = second, first
    return (
        second.kind == "vgpr"
        and first.kind != "vgpr"
        and bool(masks.distinct & vector_bits(second.first, 1))
    )
