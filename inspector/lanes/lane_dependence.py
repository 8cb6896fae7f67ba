"""Accesses whose addresses rest on no lane's number, on no workgroup's, or on values from memory.

Without a lane's number those of all lanes are equal, without a workgroup's those of all workgroups.

Addresses that are equal for drawn sizes may differ for others: `lane / width` is 0 for all lanes of
a wave only where rows are long. Here the registers are followed that rest on a lane's number, along
every edge of the flow graph. A loop that lanes leave at different times leaves them different
values of what it counts. Else what lanes have written under different masks is not told apart: an
access is uniform where its addresses, carried out, are equal as well.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from typing import Final

from ..emulator.start import workgroup_registers
from ..isa.dataflow.code_registers import registers_of
from ..isa.dataflow.effects import RegisterEffect
from ..isa.dataflow.execution_target import target_of
from ..isa.dataflow.register_sets import VECTOR_REGISTERS, scalar_bits, vector_bits
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
