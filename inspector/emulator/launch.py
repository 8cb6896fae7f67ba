"""One kernel made ready, its launches and their results."""

from __future__ import annotations

import gc
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

import numpy as np
from msgspec import Struct

from ..base.errors import KinspectError
from ..isa.asm.constants import Constants
from ..isa.dataflow.definitions import live_at_entry
from ..isa.dataflow.execution_target import initial_registers, target_of
from ..model import Function, Machine, WaveStart
from .access_figures import Footprint
from .checks.checking import CheckingMachine
from .checks.global_shadow import GlobalShadow
from .checks.undefined import note_undefined_uses
from .counts import AccessCounter
from .extents import MOST_SCRATCH, check_extents
from .grid import CONSTANTS_ADDRESS, GridRunner, Launch
from .linking import joined
from .lockstep import EmulationLimitError, LaunchLimits, Watch
from .machine import Trouble
from .memory import Buffer, GlobalMemory
from .processes import NotIndependentError, execute_in_processes, has_independent_workgroups
from .program import PreparedCode, prepare
from .start import waves_of
from .waves import Array

Runner = TypeVar("Runner", bound=GridRunner)
STORES = frozenset({"global_store", "lds_direct_store"})
WRITES = STORES | {"atomic"}
"""Classes of instructions that write global memory; an atomic reads it as well."""


class LaunchOutcome(Struct, frozen=True):
    """The results of a launch beside the memory that it wrote.

    `footprint`: distinct bytes of global memory that vector instructions touched; None where
    accesses were not counted. `executed`: instructions that the waves of each workgroup executed,
    int64 [workgroup].
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

        Raises:
            KinspectError: the file does not say in which state a wave starts.
        """
        self.start = _wave_start(function)
        self.target = target_of(function, gpu.arch)
        constants = constants or Constants()
        addresses = {name: CONSTANTS_ADDRESS + offset for name, offset in constants.symbols.items()}
        function, called = joined(function, functions)
        with without_collections():
            self.code: PreparedCode = prepare(
                function,
                self.target,
                gpu.counters,
                gpu.waitcnt_fields,
                mfma_cycles=gpu.mfma_cycles,
                symbols=addresses | called,
                calls=bool(called),
            )
        self._scratch_bytes = function.resources.scratch_bytes or 0
        self._constants = constants.data
        self._grid = self.runner(GridRunner, self.code)
        set_up = initial_registers(self.start, self.target)
        self._undefined_at_entry = live_at_entry(function, self.code.effects) & ~set_up
        self._looked_for_undefined = False  # at the first launch that is checked
        self._is_divisible: bool | None = None  # and for good, once shares of a launch have raced
        line_bytes = gpu.cache_line_bytes
        self.counts = None if line_bytes is None else AccessCounter(gpu.arch, line_bytes)

    def runner(self, kind: type[Runner], code: PreparedCode) -> Runner:
        """A runner of this kernel's workgroups.

        `code`: what it executes: the kernel's own code, or a part of it.
        """
        return kind(code, self.start, self._scratch_bytes, self._constants)

    @property
    def is_divisible(self) -> bool:
        """Whether several processes may execute a launch."""
        if self._is_divisible is None:
            self._is_divisible = has_independent_workgroups(self.code)
        return self._is_divisible

    def run(
        self,
        launch: Launch,
        buffers: list[Buffer],
        watch: Watch | None = None,
    ) -> LaunchOutcome:
        """Executes a launch; buffers are changed in place.

        `watch`: see `LaunchLimits`; of several processes it sees the share of this one.

        Raises:
            KinspectError: it is larger than a launch can be here.
            NotCoveredError: an instruction that the emulator does not carry out was reached.
            EmulationLimitError: it hangs, or takes too long.
            NotIndependentError: several processes cannot do it; buffers have been changed.
        """
        check_extents(launch.grid, launch.threads, launch.workgroups is not None)
        self._check_scratch(launch)
        numbers = (
            np.arange(math.prod(launch.grid))
            if launch.workgroups is None
            else np.array(launch.workgroups, np.int64)
        )
        machine = self._machine(launch, buffers)
        before = self._looked_for_undefined
        if launch.checks and not before:
            self._looked_for_undefined = True
            undefined = self._undefined_at_entry
            note_undefined_uses(undefined, self._grid, launch, buffers, numbers, machine)
        limits = LaunchLimits(launch.seconds, launch.blocks, watch=watch)
        try:
            executed = self._executed(launch, numbers, machine, limits)
        except EmulationLimitError as error:
            error.troubles = tuple(machine.troubles.values())
            raise
        except NotIndependentError:
            # Nothing of it counts, and the next launch looks as this one did.
            self._is_divisible, self._looked_for_undefined = False, before
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

    def _check_scratch(self, launch: Launch) -> None:
        """Refuses private memory that this machine cannot hold."""
        waves = self._grid.per_slice(launch) * waves_of(launch.threads, self.target)
        needed = self._scratch_bytes * waves * self.target.lanes
        if needed > MOST_SCRATCH:
            raise KinspectError(
                f"{self._scratch_bytes:,} bytes of private memory for each work-item: {waves} waves"
                f" take {needed / 2**30:,.1f} GiB, and the emulator has {MOST_SCRATCH >> 30}",
                "lower what the kernel states (.private_segment_fixed_size)",
            )

    def _machine(self, launch: Launch, buffers: list[Buffer]) -> CheckingMachine:
        """Returns the state of a launch, with what its accesses are watched by."""
        memory = GlobalMemory(buffers)
        if not launch.checks:
            return CheckingMachine(memory, counts=self.counts)
        shadow = GlobalShadow(
            math.prod(launch.grid), self.code.global_granule, waves_of(launch.threads, self.target)
        )
        return CheckingMachine(memory, self.code.lds_granule, self.counts, shadow)

    def _executed(
        self, launch: Launch, numbers: Array, machine: CheckingMachine, limits: LaunchLimits
    ) -> Array:
        """Executes workgroups, maybe in several processes; see `GridRunner.run`."""

        def execute(share: Array) -> Array:
            return self._grid.run(launch, share, machine, limits)

        shares = self._shares(launch, numbers)
        if len(shares) == 1:
            return execute(numbers)
        return execute_in_processes(shares, execute, self.code, machine, limits, self.counts)

    def _shares(self, launch: Launch, numbers: Array) -> list[Array]:
        """The workgroups of each process: whole slices, the same ones whoever executes them."""
        if launch.processes < 2 or not launch.checks or not self.is_divisible:
            return [numbers]
        per_slice = self._grid.per_slice(launch)
        starts = np.arange(0, len(numbers), per_slice)
        shares = np.array_split(starts, max(min(launch.processes, len(starts)), 1))
        return np.split(numbers, [share[0] for share in shares[1:]])

    def _note_hazards(self, machine: CheckingMachine) -> None:
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


def _wave_start(function: Function) -> WaveStart:
    """The state in which a kernel's waves start; raises KinspectError where the file lacks it."""
    start = function.resources.wave_start
    if start is None:
        raise KinspectError(
            f"{function.name}: the file does not say in which registers a wave starts",
            "it needs the kernel descriptor (.amdhsa_kernel, or a code object)",
        )
    return start


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
