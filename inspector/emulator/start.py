"""The state in which waves begin, and the GPU as a kernel finds it."""

from __future__ import annotations

import math

import numpy as np

from ..model import Function, WaveStart
from .machine import MachineState
from .operands import EXEC, TTMP
from .registry import ExecutionTarget
from .waves import U32, Array, Waves

KERNARG_ADDRESS = 0x7E00_0000_0000
DISPATCH_ADDRESS = 0x7E01_0000_0000


def target_of(function: Function, arch: str) -> ExecutionTarget:
    """The GPU as a kernel finds it.

    Args:
        function: the kernel, which states the mode that a wave starts in.
        arch: gfx name.
    """
    resources = function.resources
    start = resources.wave_start
    digits = arch.removeprefix("gfx")[:-2]
    generation = int(digits) if digits.isdigit() else 9
    return ExecutionTarget(
        arch,
        generation,
        # The assembler's default (.amdhsa_wavefront_size32).
        resources.wave_size or (32 if generation >= 10 else 64),
        resources.accum_offset or 512,
        flush32=start is not None and not start.denorm_f32,
        flush16=start is not None and not start.denorm_f16_f64,
        # gfx12 has neither mode: clamp turns NaN to 0, min and max take the number.
        dx10_clamp=generation >= 12 or start is None or start.dx10_clamp is not False,
        ieee=generation < 12 and start is not None and bool(start.ieee_mode),
    )


def waves_of(threads: tuple[int, int, int], target: ExecutionTarget) -> int:
    """Waves of a workgroup; the last one may have idle lanes."""
    return -(-math.prod(threads) // target.lanes)


def initial_waves(
    start: WaveStart,
    target: ExecutionTarget,
    registers: int,
    threads: tuple[int, int, int],
    grid: tuple[int, int, int],
    ids: Array,
    machine: MachineState,
) -> Waves:
    """The waves of some workgroups as the hardware starts them.

    Args:
        start: the registers that hold each initial value.
        target: the GPU.
        registers: vector registers to have.
        threads: work-items of a workgroup in x, y, z.
        grid: workgroups in x, y, z.
        ids: numbers of the workgroups.
        machine: the state that the waves share.
    """
    waves_each = waves_of(threads, target)
    workgroup = np.repeat(np.arange(len(ids)), waves_each)
    wave = np.tile(np.arange(waves_each), len(ids))
    group_id = ids[workgroup]
    waves = Waves.new(registers, target.lanes, wave, workgroup, group_id, machine)
    item = wave[:, None] * target.lanes + np.arange(target.lanes)
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
    for register, value in (
        (start.kernarg_ptr, KERNARG_ADDRESS),
        (start.dispatch_ptr, DISPATCH_ADDRESS),
    ):
        if register is not None:
            waves.set_pair(register, np.full(waves.count, value, np.uint64))
    grid_x, grid_y, _ = grid
    group = (group_id % grid_x, group_id // grid_x % grid_y, group_id // (grid_x * grid_y))
    if target.generation >= 12:
        # LLVM's AMDGPUUsage: workgroup x in ttmp9, y and z in the halves of ttmp7; the wave's
        # number in its workgroup in bits 25 to 29 of ttmp8.
        waves.scalar[TTMP + 9] = group[0]
        waves.scalar[TTMP + 7] = (group[1] & 0xFFFF) | (group[2] << 16)
        waves.scalar[TTMP + 8] = wave.astype(U32) << U32(25)
    else:
        next_sgpr = start.user_sgprs
        for passed, number in zip(start.workgroup_ids, group, strict=True):
            if passed:
                waves.scalar[next_sgpr] = number
                next_sgpr += 1
    return waves
