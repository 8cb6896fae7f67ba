"""Executes workgroups of a grid, as many at a time as numpy carries out best."""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

import numpy as np
from msgspec import Struct

from ..isa.dataflow.operands import SCALAR_BIT
from ..model import WaveStart
from .lockstep import LaunchLimits, Scheduler
from .machine import MachineState
from .memory import GlobalMemory, LocalMemory, PrivateMemory, buffer_of
from .program import PreparedCode
from .start import (
    DISPATCH_ADDRESS,
    KERNARG_ADDRESS,
    GridShape,
    initial_waves,
    preload_arguments,
    waves_of,
)
from .waves import Array


class Launch(Struct, frozen=True):
    """A kernel's arguments, its workgroups, and how far it may run.

    Args:
        workgroups: numbers of those to run; None for all.
        checks: whether every access of LDS is watched for races.
        processes: that may execute it together; only where all buffers are shared memory.
    """

    grid: tuple[int, int, int]
    threads: tuple[int, int, int]
    lds_bytes: int
    arguments: bytes
    workgroups: tuple[int, ...] | None = None
    seconds: float = 600.0
    blocks: int = 50_000_000
    checks: bool = True
    processes: int = 1


CONSTANTS_ADDRESS: Final = 0x7E03_0000_0000
Fill = Mapping[int, int]
"""Row of a register (scalar ones from `SCALAR_BIT` on) -> what it holds when waves begin."""
_NOTHING: Final[Fill] = MappingProxyType({})
SLICE_WAVES: Final = 256
"""Waves that run together: below 16 the cost of each call rules, far above it the caches'."""


class GridRunner:
    """Runs workgroups of one kernel."""

    def __init__(
        self, code: PreparedCode, start: WaveStart, scratch_bytes: int, constants: bytes
    ) -> None:
        self.code = code
        self._start = start
        self._scratch_bytes = scratch_bytes
        self._constants = constants

    def per_slice(self, launch: Launch) -> int:
        """Returns how many workgroups run together."""
        return max(1, SLICE_WAVES // waves_of(launch.threads, self.code.target))

    def run(
        self,
        launch: Launch,
        numbers: Array,
        machine: MachineState,
        limits: LaunchLimits,
        fill: Fill = _NOTHING,
    ) -> Array:
        """Runs workgroups on the machine's memory, some at a time.

        `fill`: contents of registers that nothing sets up. Returns instructions that the waves of
        each workgroup executed, int64 [workgroup].
        """
        self._add_inputs(launch, machine.memory)
        machine.work_items = math.prod(launch.threads)
        per_slice = self.per_slice(launch)
        executed = [np.zeros(0, np.int64)]
        limits.workgroups = len(numbers)
        with np.errstate(all="ignore"):
            for start in range(0, len(numbers), per_slice):
                limits.ended = start
                limits.check(0)  # of time: small workgroups run few blocks each
                slice_numbers = numbers[start : start + per_slice]
                executed.append(self._run_slice(launch, slice_numbers, machine, limits, fill))
        return np.concatenate(executed)

    def _run_slice(
        self,
        launch: Launch,
        numbers: Array,
        machine: MachineState,
        limits: LaunchLimits,
        fill: Fill,
    ) -> Array:
        """Runs workgroups together, with LDS and scratch memory of their own; see `run`."""
        count, waves_each = len(numbers), waves_of(launch.threads, self.code.target)
        scheduler = self.scheduler(machine, limits, count)
        machine.move_in(
            LocalMemory(launch.lds_bytes, count),
            PrivateMemory(
                self._scratch_bytes, count * waves_each, waves_each, self.code.target.lanes
            ),
            count,
            scheduler.generations,
        )
        waves = initial_waves(
            self._start,
            self.code.target,
            GridShape(launch.threads, launch.grid),
            numbers,
            machine,
            registers=self.code.vector_registers,
        )
        preload_arguments(waves, self._start, np.full(waves.count, KERNARG_ADDRESS))
        for row, value in fill.items():
            if row < SCALAR_BIT:
                waves.u32[row] = value
            else:
                waves.scalar[row - SCALAR_BIT] = value
        scheduler.run(waves)
        return scheduler.executed

    def scheduler(self, machine: MachineState, limits: LaunchLimits, slots: int) -> Scheduler:
        """What runs the waves of some resident workgroups."""
        return Scheduler(self.code, machine, limits, slots)

    def _add_inputs(self, launch: Launch, memory: GlobalMemory) -> None:
        """Adds what a launch reads besides its buffers."""
        arguments = np.frombuffer(launch.arguments.ljust(512, b"\0"), np.uint8)
        memory.add(buffer_of(arguments, KERNARG_ADDRESS, "kernel arguments"))
        if self._constants:
            constants = np.frombuffer(self._constants, np.uint8)
            memory.add(buffer_of(constants, CONSTANTS_ADDRESS, "the program's constants"))
        packet = np.frombuffer(_dispatch_packet(launch), np.uint8)
        memory.add(buffer_of(packet, DISPATCH_ADDRESS, "dispatch packet"))


def _dispatch_packet(launch: Launch) -> bytes:
    """The AQL packet, from which some code reads its size (hsa_kernel_dispatch_packet)."""
    items = [threads * groups for threads, groups in zip(launch.threads, launch.grid, strict=True)]
    return struct.pack(
        "<HHHHHHIIIIIQQQQ", 0, 3, *launch.threads, 0, *items, 0, launch.lds_bytes, 0,
        KERNARG_ADDRESS, 0, 0,
    )  # fmt: skip
