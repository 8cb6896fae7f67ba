"""The state in which waves begin, and the GPU as a kernel finds it."""

from __future__ import annotations

import math

import numpy as np
from msgspec import Struct

from ..isa.dataflow.execution_target import ExecutionTarget
from ..isa.dataflow.operands import EXEC, TTMP, scalar_bits
from ..model import WaveStart
from .machine import MachineState
from .waves import U32, Array, WaveIds, Waves

KERNARG_ADDRESS = 0x7E00_0000_0000
DISPATCH_ADDRESS = 0x7E01_0000_0000


def waves_of(threads: tuple[int, int, int], target: ExecutionTarget) -> int:
    """Waves of a workgroup; the last one may have idle lanes."""
    return -(-math.prod(threads) // target.lanes)


class GridShape(Struct, frozen=True):
    """Work-items of a workgroup in x, y, z, and workgroups of the grid."""

    threads: tuple[int, int, int]
    workgroups: tuple[int, int, int]


def initial_waves(
    start: WaveStart,
    target: ExecutionTarget,
    shape: GridShape,
    numbers: Array,
    machine: MachineState,
    *,
    registers: int,
) -> Waves:
    """The waves of some workgroups as the hardware starts them.

    `numbers`: numbers of the workgroups, int64 [workgroup].
    """
    each = waves_of(shape.threads, target)
    workgroup = np.repeat(np.arange(len(numbers)), each)
    ids = WaveIds(np.tile(np.arange(each), len(numbers)), workgroup, numbers[workgroup])
    waves = Waves.new(registers, target.lanes, ids, machine)
    _set_work_items(waves, start, target, shape.threads)
    for register, value in (
        (start.kernarg_ptr, KERNARG_ADDRESS),
        (start.dispatch_ptr, DISPATCH_ADDRESS),
    ):
        if register is not None:
            waves.set_pair(register, np.full(waves.count, value, np.uint64))
    _set_workgroups(waves, start, target, shape.workgroups)
    return waves


def preload_arguments(waves: Waves, start: WaveStart, segments: Array) -> None:
    """Fills the SGPRs that firmware fills with arguments.

    `segments`: addresses of each wave's arguments, int64 [wave].
    """
    if start.preload_sgpr is None:
        return
    memory, outside = waves.machine.memory, waves.machine.outside(0)
    for dword in range(start.preload_dwords):
        address = segments + 4 * (start.preload_offset + dword)
        waves.scalar[start.preload_sgpr + dword] = memory.read(address, 4, outside)[0]


def _set_work_items(
    waves: Waves, start: WaveStart, target: ExecutionTarget, threads: tuple[int, int, int]
) -> None:
    """Sets the lanes' numbers of work-items, and EXEC where there are more lanes than these."""
    item = waves.wave[:, None] * target.lanes + np.arange(target.lanes)
    size_x, size_y, _ = threads
    x, y, z = item % size_x, item // size_x % size_y, item // (size_x * size_y)
    if target.packs_work_items:
        waves.u32[0] = x | (y << 10) | (z << 20)
    else:
        for row, number in zip(range(start.work_item_dims + 1), (x, y, z), strict=False):
            waves.u32[row] = number
    total = math.prod(threads)
    if total % target.lanes:
        waves.set_mask(EXEC, item < total)


def _set_workgroups(
    waves: Waves, start: WaveStart, target: ExecutionTarget, grid: tuple[int, int, int]
) -> None:
    """Sets the numbers of the waves' workgroups in x, y and z."""
    grid_x, grid_y, _ = grid
    number = waves.group_id
    group = (number % grid_x, number // grid_x % grid_y, number // (grid_x * grid_y))
    if target.generation >= 12:
        # LLVM's AMDGPUUsage: workgroup x in ttmp9, y and z in the halves of ttmp7; the wave's
        # number in its workgroup in bits 25 to 29 of ttmp8.
        waves.scalar[TTMP + 9] = group[0]
        waves.scalar[TTMP + 7] = (group[1] & 0xFFFF) | (group[2] << 16)
        waves.scalar[TTMP + 8] = waves.wave.astype(U32) << U32(25)
        return
    next_sgpr = start.user_sgprs
    for passed, coordinate in zip(start.workgroup_ids, group, strict=True):
        if passed:
            waves.scalar[next_sgpr] = coordinate
            next_sgpr += 1


def workgroup_registers(start: WaveStart, target: ExecutionTarget) -> int:
    """The set of registers that hold the numbers of a wave's workgroup when it begins."""
    if target.generation >= 12:
        return scalar_bits(TTMP + 7, 1) | scalar_bits(TTMP + 9, 1)
    return scalar_bits(start.user_sgprs, sum(start.workgroup_ids))
