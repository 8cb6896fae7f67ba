"""One launch: the state in which waves begin, slices of the grid, and what came of it."""

from __future__ import annotations

import copy
import gc
import math
import os
import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
from msgspec import Struct

from ..errors import KinspectError
from ..isa.asm.data import Constants
from ..model import Function, Machine, WaveStart
from .access import NotCoveredError
from .calls import joined
from .counts import Counts
from .footprint import Footprint
from .global_races import GlobalShadow
from .lockstep import EmulationLimitError, Limits, Scheduler
from .machine import MachineState, Trouble
from .memory import Buffer, GlobalMemory, LocalMemory, PrivateMemory, buffer_of
from .operands import EXEC, TTMP
from .outstanding import SCALAR_BIT
from .processes import NotIndependentError, Part, apart, independent
from .program import Code, prepare
from .registry import Target
from .undefined import (
    BLOCKS,
    MOST_BYTES,
    SECONDS,
    WORKGROUPS,
    Access,
    Fill,
    Recorder,
    copies_of,
    first_read,
    live_at_entry,
    name_of,
    set_up,
    undefined_uses,
)
from .waves import U32, Array, Waves

KERNARG_ADDRESS = 0x7E00_0000_0000
DISPATCH_ADDRESS = 0x7E01_0000_0000
CONSTANTS_ADDRESS = 0x7E03_0000_0000
STORES = frozenset({"global_store", "lds_direct_store"})
WRITES = STORES | {"atomic"}
"""Classes of instructions that write global memory; an atomic reads it as well."""
SLICE_WAVES = 256
"""Waves that run together: below 16 the cost of each call rules, far above it the caches'."""


class Launch(Struct, frozen=True):
    """What is launched.

    Args:
        grid: workgroups in x, y, z.
        threads: work-items of a workgroup in x, y, z.
        lds_bytes: LDS of a workgroup.
        arguments: the kernel argument segment.
        workgroups: numbers of those to run; None for all.
        seconds: that it may take.
        blocks: of instructions that may run.
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


class Outcome(Struct, frozen=True):
    """What a launch did.

    Args:
        workgroups: executed ones.
        waves: theirs.
        troubles: what the code did and must not do.
        footprint: distinct bytes of global memory that vector instructions touched; None where
            accesses were not counted.
        executed: instructions that the waves of each workgroup executed, int64 [workgroup].
    """

    workgroups: int
    waves: int
    troubles: tuple[Trouble, ...]
    footprint: Footprint | None
    executed: Array


def target_of(function: Function, arch: str) -> Target:
    """The GPU as a kernel finds it.

    Args:
        function: it says in which mode a wave starts.
        arch: gfx name.
    """
    resources = function.resources
    start = resources.wave_start
    digits = arch.removeprefix("gfx")[:-2]
    generation = int(digits) if digits.isdigit() else 9
    return Target(
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


class Emulator:
    """One kernel, ready for launches."""

    def __init__(
        self,
        function: Function,
        gpu: Machine,
        constants: Constants | None = None,
        functions: Sequence[Function] = (),
    ) -> None:
        """Makes a kernel ready.

        Args:
            function: the kernel's code and resources.
            gpu: what executes it.
            constants: the program's.
            functions: of the program, for the kernel to call.

        Raises:
            KinspectError: the file does not say in which state a wave starts.
        """
        resources = function.resources
        start = resources.wave_start
        if start is None:
            raise KinspectError(
                f"{function.name}: the file does not say in which registers a wave starts",
                "it needs the kernel descriptor (.amdhsa_kernel, or a code object)",
            )
        self.start: WaveStart = start
        self.scratch_bytes = resources.scratch_bytes or 0
        self.target = target_of(function, gpu.arch)
        constants = constants or Constants()
        self._constants = constants.data
        addresses = {name: CONSTANTS_ADDRESS + offset for name, offset in constants.symbols.items()}
        function, called = joined(function, functions)
        addresses |= called
        with without_collections():
            self.code: Code = prepare(
                function,
                self.target,
                gpu.counters,
                gpu.waitcnt_fields,
                gpu.mfma_cycles,
                addresses,
                bool(called),
            )
        self.independent = independent(self.code)
        # Looked for at the first launch that is checked; 0 from then on.
        self._undefined = live_at_entry(function, self.code.effects) & ~set_up(start, self.target)
        line_bytes = gpu.cache_line_bytes
        self.counts = None if line_bytes is None else Counts(gpu.arch, line_bytes)

    def run(
        self, launch: Launch, buffers: list[Buffer], machine: MachineState | None = None
    ) -> Outcome:
        """Executes a launch; buffers are changed in place.

        Raises:
            NotCoveredError: an instruction that the emulator does not carry out was reached.
            EmulationLimitError: it hangs, or takes too long.
            NotIndependentError: several processes cannot do it; buffers have been changed.
        """
        numbers = (
            np.arange(math.prod(launch.grid))
            if launch.workgroups is None
            else np.array(launch.workgroups, np.int64)
        )
        machine = machine or MachineState(
            GlobalMemory(buffers),
            self.code.lds_granule if launch.checks else None,
            self.counts,
            GlobalShadow(math.prod(launch.grid), self.code.global_granule)
            if launch.checks
            else None,
        )
        undefined = self._undefined
        if launch.checks:
            self._look_for_undefined(launch, buffers, numbers, machine)
        machine.memory = GlobalMemory(buffers)
        try:
            limits = Limits(launch.seconds, launch.blocks)
            shares = self._shares(launch, numbers)
            if len(shares) > 1:
                executed = self._execute_apart(launch, shares, machine, limits)
            else:
                executed = self._execute(launch, numbers, machine, limits, {})
        except EmulationLimitError as error:
            error.troubles = tuple(machine.troubles.values())
            raise
        except NotIndependentError:
            # Nothing of it counts, and the next launch looks as this one did.
            self.independent, self._undefined = False, undefined
            raise
        if launch.checks:
            self._note_hazards(machine)
        waves_each = -(-math.prod(launch.threads) // self.target.lanes)
        return Outcome(
            len(numbers),
            len(numbers) * waves_each,
            tuple(machine.troubles.values()),
            self._footprint(),
            executed,
        )

    def _shares(self, launch: Launch, numbers: Array) -> list[Array]:
        """The workgroups of each process: whole slices, the same ones whoever executes them."""
        if launch.processes < 2 or not launch.checks or not self.independent:
            return [numbers]
        per_slice = self._per_slice(launch)
        starts = np.arange(0, len(numbers), per_slice)
        shares = np.array_split(starts, max(min(launch.processes, len(starts)), 1))
        return np.split(numbers, [share[0] for share in shares[1:]])

    def _execute_apart(
        self, launch: Launch, shares: Sequence[Array], machine: MachineState, limits: Limits
    ) -> Array:
        """As `_execute`, each share by a process of its own."""
        blocks, buffers, own = self.code.blocks, machine.memory.buffers, os.getpid()

        def execute(share: Array) -> Part:
            forked = os.getpid() != own
            if forked:  # what came before is the parent's
                machine.troubles = {}
                for block in blocks:
                    block.runs = block.taken = block.divided = 0
                if self.counts is not None:
                    self.counts.begin()
            executed = self._execute(launch, share, machine, limits, {})
            return Part(
                executed,
                [(block.runs, block.taken, block.divided) for block in blocks] if forked else [],
                list(machine.troubles.values()) if forked else [],
                self.counts.accesses if forked and self.counts is not None else {},
                self.counts.touched.folded() if forked and self.counts is not None else {},
                [b.address for b in buffers if b.words is not None and b.words.written],
                machine.granules(),
            )

        before = [(block.runs, block.taken, block.divided) for block in blocks]
        accesses = {} if self.counts is None else copy.deepcopy(self.counts.accesses)
        try:
            parts = apart(shares, execute)
        except NotIndependentError:
            for block, counted in zip(blocks, before, strict=True):
                block.runs, block.taken, block.divided = counted
            if self.counts is not None:
                self.counts.begin(accesses)
            raise
        for part in parts:
            for block, (runs, taken, divided) in zip(blocks, part.blocks, strict=False):
                block.runs += runs
                block.taken += taken
                block.divided += divided
            for trouble in part.troubles:
                machine.note(trouble.kind, trouble.site, trouble.detail)
            if self.counts is not None:
                self.counts.add(part.accesses, part.spans)
            for address in part.written:
                buffer = machine.memory.buffer_at(address)
                if buffer is not None and buffer.words is not None:
                    buffer.words.written = True
        return np.concatenate([part.executed for part in parts])

    def _per_slice(self, launch: Launch) -> int:
        """Workgroups that run together."""
        return max(1, SLICE_WAVES // -(-math.prod(launch.threads) // self.target.lanes))

    def _execute(
        self, launch: Launch, numbers: Array, machine: MachineState, limits: Limits, fill: Fill
    ) -> Array:
        """Runs workgroups on the machine's memory, some at a time.

        Args:
            launch: what is launched.
            numbers: of the workgroups.
            machine: takes what they do.
            limits: what all of them may take.
            fill: what registers that nothing sets up hold.

        Returns:
            Instructions that the waves of each workgroup executed, int64 [workgroup].
        """
        memory = machine.memory
        padded = np.frombuffer(launch.arguments.ljust(512, b"\0"), np.uint8)
        memory.add(buffer_of(padded, KERNARG_ADDRESS, "kernel arguments"))
        if self._constants:
            raw = np.frombuffer(self._constants, np.uint8)
            memory.add(buffer_of(raw, CONSTANTS_ADDRESS, "the program's constants"))
        packet = np.frombuffer(_dispatch_packet(launch), np.uint8)
        memory.add(buffer_of(packet, DISPATCH_ADDRESS, "dispatch packet"))
        machine.work_items = math.prod(launch.threads)
        waves_each = -(-math.prod(launch.threads) // self.target.lanes)
        per_slice = self._per_slice(launch)
        executed = []
        with np.errstate(all="ignore"):
            for start in range(0, len(numbers), per_slice):
                ids = numbers[start : start + per_slice]
                local = LocalMemory(launch.lds_bytes, len(ids))
                private = PrivateMemory(
                    self.scratch_bytes, len(ids) * waves_each, waves_each, self.target.lanes
                )
                scheduler = Scheduler(self.code, machine, limits, len(ids))
                machine.move_in(local, private, len(ids), scheduler.generations)
                waves = initial_waves(
                    self.start,
                    self.target,
                    self.code.vector_registers,
                    launch.threads,
                    launch.grid,
                    ids,
                    machine,
                )
                for row, value in fill.items():
                    if row < SCALAR_BIT:
                        waves.u32[row] = value
                    else:
                        waves.scalar[row - SCALAR_BIT] = value
                scheduler.run(waves)
                executed.append(scheduler.executed)
        return np.concatenate(executed) if executed else np.zeros(0, np.int64)

    def _look_for_undefined(
        self, launch: Launch, buffers: list[Buffer], numbers: Array, machine: MachineState
    ) -> None:
        """Tells of registers that were never written and on which accesses depend, once."""
        registers, self._undefined = self._undefined, 0
        if not registers or sum(buffer.size for buffer in buffers) > MOST_BYTES:
            return
        chosen = numbers[np.unique(np.linspace(0, len(numbers) - 1, WORKGROUPS).astype(int))]
        runs = [(block.runs, block.taken, block.divided) for block in self.code.blocks]

        def run(fill: Fill) -> list[Access] | None:
            recorder = Recorder(copies_of(buffers))
            try:
                self._execute(launch, chosen, recorder, Limits(SECONDS, BLOCKS), fill)
            except (EmulationLimitError, NotCoveredError):
                return None
            return recorder.accesses

        uses = undefined_uses(registers, run)
        for block, before in zip(self.code.blocks, runs, strict=True):
            block.runs, block.taken, block.divided = before
        function = self.code.function
        for row, shown in uses:
            name = name_of(row, self.target.accum_offset)
            where = function.instructions[shown]
            machine.note(
                "uninitialised",
                first_read(function, self.code.effects, row),
                f"{name} is read and nothing has written it; the access of line {where.line} "
                f"({self.code.decoded[shown].text}) depends on it",
            )

    def _note_hazards(self, machine: MachineState) -> None:
        """Tells of matrix instructions without their wait states, where both were executed."""
        if not self.code.hazards:
            return
        executed = {
            site for block in self.code.blocks if block.runs
            for site in range(block.first, block.stop)
        }  # fmt: skip
        for hazard in self.code.hazards:
            if hazard.first in executed and hazard.second in executed:
                earlier = self.code.function.instructions[hazard.first].line
                machine.note(
                    "mfma_hazard",
                    hazard.second,
                    f"{hazard.why}: {hazard.between} wait states behind line {earlier} "
                    f"({self.code.decoded[hazard.first].text}), {hazard.needed} are needed",
                )

    def _footprint(self) -> Footprint | None:
        if self.counts is None:
            return None
        classes = [instruction.cls for instruction in self.code.function.instructions]
        return self.counts.touched.take(
            lambda site: classes[site] not in STORES, lambda site: classes[site] in WRITES
        )


def initial_waves(
    start: WaveStart,
    target: Target,
    registers: int,
    threads: tuple[int, int, int],
    grid: tuple[int, int, int],
    ids: Array,
    machine: MachineState,
) -> Waves:
    """The waves of some workgroups as the hardware starts them.

    Args:
        start: which registers hold what.
        target: the GPU.
        registers: vector registers to have.
        threads: work-items of a workgroup in x, y, z.
        grid: workgroups in x, y, z.
        ids: numbers of the workgroups.
        machine: what they share.
    """
    waves_each = -(-math.prod(threads) // target.lanes)
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
        place = start.user_sgprs
        for passed, number in zip(start.workgroup_ids, group, strict=True):
            if passed:
                waves.scalar[place] = number
                place += 1
    return waves


@contextmanager
def without_collections() -> Iterator[None]:
    """No garbage is looked for: thousands of objects are made that all stay, none in cycles."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _dispatch_packet(launch: Launch) -> bytes:
    """The AQL packet, from which some code reads its size (hsa_kernel_dispatch_packet)."""
    items = [threads * groups for threads, groups in zip(launch.threads, launch.grid, strict=True)]
    return struct.pack(
        "<HHHHHHIIIIIQQQQ", 0, 3, *launch.threads, 0, *items, 0, launch.lds_bytes, 0,
        KERNARG_ADDRESS, 0, 0,
    )  # fmt: skip
