"""One launch: its arguments and limits, slices of the grid, and its results."""

from __future__ import annotations

import copy
import functools
import gc
import math
import os
import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
from msgspec import Struct

from ..errors import KinspectError
from ..isa.asm.constants import Constants
from ..model import Function, Machine, WaveStart
from .access import NotCoveredError
from .calls import joined
from .counts import Counts
from .footprint import Footprint
from .global_races import GlobalShadow
from .lockstep import EmulationLimitError, Limits, Scheduler
from .machine import MachineState, Trouble
from .memory import Buffer, GlobalMemory, LocalMemory, PrivateMemory, buffer_of
from .outstanding import SCALAR_BIT
from .processes import NotIndependentError, Part, apart, independent
from .program import Code, prepare
from .start import DISPATCH_ADDRESS, KERNARG_ADDRESS, initial_waves, target_of, waves_of
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
from .waves import Array

CONSTANTS_ADDRESS = 0x7E03_0000_0000
STORES = frozenset({"global_store", "lds_direct_store"})
WRITES = STORES | {"atomic"}
"""Classes of instructions that write global memory; an atomic reads it as well."""
SLICE_WAVES = 256
"""Waves that run together: below 16 the cost of each call rules, far above it the caches'."""


class Launch(Struct, frozen=True):
    """A kernel's arguments, its workgroups, and how far it may run.

    Args:
        grid: workgroups in x, y, z.
        threads: work-items of a workgroup in x, y, z.
        lds_bytes: LDS of a workgroup.
        arguments: the kernel argument segment.
        workgroups: numbers of those to run; None for all.
        seconds: that it may take.
        blocks: blocks of instructions that may run, in all.
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


class LaunchOutcome(Struct, frozen=True):
    """The results of a launch beside the memory that it wrote.

    Args:
        workgroups: executed ones.
        waves: executed ones.
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
            functions: the program's, for the kernel to call.

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
        # Looked for at the first launch that is checked; 0 from then on.
        self._undefined = live_at_entry(function, self.code.effects) & ~set_up(start, self.target)
        line_bytes = gpu.cache_line_bytes
        self.counts = None if line_bytes is None else Counts(gpu.arch, line_bytes)

    @functools.cached_property
    def independent(self) -> bool:
        """Whether several processes may execute a launch."""
        return independent(self.code)

    def run(
        self, launch: Launch, buffers: list[Buffer], machine: MachineState | None = None
    ) -> LaunchOutcome:
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
        return LaunchOutcome(
            len(numbers),
            len(numbers) * waves_of(launch.threads, self.target),
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
        """Executes each share of the workgroups as `_execute` does, in a process of its own."""
        code, counts, buffers = self.code, self.counts, machine.memory.buffers
        own = os.getpid()

        def execute(share: Array) -> Part:
            forked = os.getpid() != own
            if forked:  # what came before is the parent's
                machine.troubles = {}
                code.recount([(0, 0, 0)] * len(code.blocks))
                if counts is not None:
                    counts.begin()
            executed = self._execute(launch, share, machine, limits, {})
            return Part(
                executed,
                code.tallies,
                list(machine.troubles.values()),
                counts.accesses if counts is not None else {},
                counts.touched.folded() if forked and counts is not None else {},
                [b.address for b in buffers if b.words is not None and b.words.written],
                machine.granules(),
            )

        tallies = code.tallies
        accesses = {} if counts is None else copy.deepcopy(counts.accesses)
        try:
            parts = apart(shares, execute)
        except NotIndependentError:
            code.recount(tallies)
            if counts is not None:
                counts.begin(accesses)
            raise
        for part in parts[1:]:  # the first is this process's own
            code.add(part.blocks)
            for trouble in part.troubles:
                machine.note(trouble.kind, trouble.site, trouble.detail)
            if counts is not None:
                counts.add(part.accesses, part.spans)
            for address in part.written:
                buffer = machine.memory.buffer_at(address)
                if buffer is not None and buffer.words is not None:
                    buffer.words.written = True
        return np.concatenate([part.executed for part in parts])

    def _per_slice(self, launch: Launch) -> int:
        """Returns how many workgroups run together."""
        return max(1, SLICE_WAVES // waves_of(launch.threads, self.target))

    def _execute(
        self, launch: Launch, numbers: Array, machine: MachineState, limits: Limits, fill: Fill
    ) -> Array:
        """Runs workgroups on the machine's memory, some at a time.

        Args:
            launch: what is launched.
            numbers: numbers of the workgroups.
            machine: takes what they do.
            limits: the time and blocks for all of them.
            fill: contents of registers that nothing sets up.

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
        waves_each = waves_of(launch.threads, self.target)
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
        """Notes registers that were never written and on which accesses depend, once."""
        registers, self._undefined = self._undefined, 0
        if not registers or sum(buffer.size for buffer in buffers) > MOST_BYTES:
            return
        chosen = numbers[np.unique(np.linspace(0, len(numbers) - 1, WORKGROUPS).astype(int))]
        tallies = self.code.tallies

        def run(fill: Fill) -> list[Access] | None:
            recorder = Recorder(copies_of(buffers))
            try:
                self._execute(launch, chosen, recorder, Limits(SECONDS, BLOCKS), fill)
            except (EmulationLimitError, NotCoveredError):
                return None
            return recorder.accesses

        uses = undefined_uses(registers, run)
        self.code.recount(tallies)
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
        """Notes matrix instructions without their wait states, where both were executed."""
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


@contextmanager
def without_collections() -> Iterator[None]:
    """Switches garbage collection off: thousands of objects are made, none in cycles."""
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
