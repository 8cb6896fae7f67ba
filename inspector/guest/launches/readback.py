"""What scripts read back of what kernels wrote: launches that can be executed when that is asked.

A launch itself only notes its arguments. The kernel is compiled, in a child that a deadline ends,
and run by the emulator's process once a value is asked for that rests on it, within the seconds
that were given for all of it.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from ..emulation.arguments import ArgumentError, parameters
from ..emulation.process import EmulationError, EmulatorProcess, SharedBuffer
from ..world.assumptions import UnknownFloat
from ..world.refused import RefusedError
from . import processes
from .compiling import Compiled, CompileError, compile_within

MARGIN_SECONDS = 0.05
"""What is left for the way back of a launch that is ended by the emulator itself."""
PILOT_WAVES = 4096
"""Waves of a launch from which a few workgroups are run first, to see how long all would take."""
PILOT_SHARE = 0.25
"""Of the seconds that are left, what such a trial may take."""
TOGETHER = 256
"""Waves that the emulator runs at one time: a trial's seconds hold for so many at the least."""
KINDS: Mapping[str, str] = MappingProxyType(
    {"limit": "budget", "uncovered": "uncovered", "hang": "faulty"}
)
"""Kind of an `EmulationError` -> why a launch is refused."""


@dataclass(frozen=True)
class Launch:
    """One launch, as the recorder saw it.

    Args:
        key: of its specialisation.
        src: what Triton compiles.
        options: those that were stated.
        types: of its arguments, `constexpr` for those that are no parameters of the kernel.
        written_places: places among the parameters that it writes to; None: it may be any.
        grid: workgroups in x, y and z.
        values: its arguments, as many as types at the end.
    """

    key: str
    src: Any
    options: Mapping[str, Any]
    types: tuple[Any, ...]
    written_places: frozenset[int] | None
    grid: tuple[int, ...]
    values: Sequence[Any]


class Readback:
    """Follows a script's launches.

    Args:
        world: in which the script runs.
        arch: gfx name of the target.
        command: starts the emulator's process; None where launches are not executed.
        refusal: why not, if so.
        seconds: of wall time for all that is executed in this run.
        folder: for scratch files.
        deadline: when the run has to end, by `time.monotonic`.
    """

    def __init__(
        self,
        world: Any,
        arch: str,
        command: Sequence[str] | None,
        refusal: RefusedError | None,
        seconds: float,
        folder: str,
        deadline: float,
    ) -> None:
        self._world = world
        self._arch = arch
        self._command = list(command) if command is not None and seconds > 0 else None
        self._refusal = refusal
        self._folder = folder
        self._deadline = deadline
        self._environment = dict(os.environ)
        self._compile = importlib.import_module("triton.compiler.compiler").compile
        self._process: EmulatorProcess | None = None
        self._owner = 0
        self._compiled: dict[str, Compiled | CompileError] = {}
        self.executed = 0
        self.busy = False
        self.is_trial: Callable[[], bool] = lambda: False
        world.emulate_for(seconds if self._command is not None else 0.0)

    def launched(self, launch: Launch) -> None:
        """Notes what a launch writes, and how that could be known."""
        if self._command is not None and self.is_trial():
            return  # of what an autotuner tries nothing remains: it launches once more
        try:
            passed = list(_passed(launch))
        except ArgumentError:
            passed = None
        if passed is None:
            tensors = [its for its in map(self._world.on_device, launch.values) if its is not None]
            self._world.launched(tensors, [True] * len(tensors), None, RefusedError("inputs"))
            return
        arguments: list[tuple[str, Any]] = []
        tensors, writes = [], []
        is_known = True
        for place, kind, value in passed:
            tensor = self._world.on_device(value)
            if tensor is not None:
                tensors.append(tensor)
                writes.append(launch.written_places is None or place in launch.written_places)
            if not kind.startswith("*"):
                is_known = is_known and not isinstance(value, UnknownFloat)
                arguments.append((kind, value))
            elif tensor is not None:
                arguments.append((kind, int(value.data_ptr())))
            else:  # an address as a number: whose memory it is nobody knows
                is_known = is_known and value is None
                arguments.append((kind, 0))
        execute, refusal = None, self._refusal
        if self._command is not None:
            refusal = RefusedError("inputs")
            if is_known and 0 not in launch.grid:
                execute = self._executing(launch, arguments, tensors)
        if 0 not in launch.grid:
            self._world.launched(tensors, writes, execute, refusal)

    def _executing(
        self, launch: Launch, arguments: list[tuple[str, Any]], tensors: Sequence[Any]
    ) -> Callable[..., None]:
        """What executes a launch: it holds numbers and places, and no tensor."""
        addresses = list(dict.fromkeys(int(its.untyped_storage().data_ptr()) for its in tensors))
        key, src, options, grid = launch.key, launch.src, launch.options, launch.grid

        def execute(allocations: Sequence[Any], written: Sequence[int], seconds: float) -> None:
            until = min(time.monotonic() + seconds, self._deadline)
            with self._at_work():
                compiled = self._kernel(key, src, options, until)
                buffers = [
                    SharedBuffer(address, int(its.numel()), "an argument", int(its.data_ptr()))
                    for address, its in zip(addresses, allocations)
                    if its.numel()
                ]
                places = [n for n, its in enumerate(allocations) if its.numel()]
                reply = self._run(key, compiled, grid, arguments, buffers, until)
                if any(places[nth] not in written for nth in reply["written"]):
                    raise RefusedError("failed", "it writes to an argument unforeseen")
                self.executed += 1

        return execute

    def _run(
        self,
        key: str,
        compiled: Compiled,
        grid: tuple[int, ...],
        arguments: list[tuple[str, Any]],
        buffers: Sequence[SharedBuffer],
        until: float,
    ) -> dict[str, Any]:
        """Has the emulator execute a launch.

        Raises:
            RefusedError: it cannot, it takes too long, or the kernel does what it must not.
        """
        request: dict[str, Any] = {
            "kernel": key,
            "grid": list(grid),
            "threads": compiled.threads,
            "lds": compiled.lds_bytes,
            "arguments": arguments,
            "scratch": compiled.scratch_bytes,
            "sample": None,
        }
        process = self._emulator()
        process.deadline = until
        try:
            process.load(key, compiled.text, self._arch)
            self._try(process, request, compiled, buffers, until)
            request["seconds"] = max(until - time.monotonic() - MARGIN_SECONDS, 0.0)
            reply = process.launch(request, buffers)
        except EmulationError as failure:
            raise RefusedError(KINDS.get(failure.kind, "failed"), str(failure)) from None
        except (OSError, ValueError) as failure:  # its pipes or memory: the script closed them, say
            self._process = None
            raise RefusedError("failed", str(failure)) from None
        for trouble in reply["troubles"]:
            raise RefusedError("faulty", str(trouble["kind"]))
        return reply

    @staticmethod
    def _try(
        process: EmulatorProcess,
        request: Mapping[str, Any],
        compiled: Compiled,
        buffers: Sequence[SharedBuffer],
        until: float,
    ) -> None:
        """Refuses a large launch that would not be done in time, by one of its workgroups.

        Raises:
            RefusedError: it would take more than the seconds that are left.
        """
        waves_each = max(compiled.threads // compiled.wave_size, 1)
        grid_x, grid_y, grid_z = request["grid"]
        waves = grid_x * grid_y * grid_z * waves_each
        if waves < PILOT_WAVES:
            return
        left = until - time.monotonic()
        pilot = {**request, "sample": 1, "seconds": left * PILOT_SHARE}
        try:
            took = float(process.launch(pilot, buffers, keep=False)["seconds"])
        except EmulationError as failure:
            if failure.kind != "limit":
                raise
            return  # a workgroup that waits for others, say
        if took * (waves // TOGETHER) > until - time.monotonic():
            raise RefusedError("budget")

    def _kernel(self, key: str, src: Any, options: Mapping[str, Any], until: float) -> Compiled:
        """A kernel's code.

        Raises:
            RefusedError: it cannot be compiled, or not in time.
        """
        result = self._compiled.get(key)
        if result is None:
            self._emulator().start()  # its imports take as long as the compiler does
            try:
                result = compile_within(
                    self._compile, src, options, self._arch, self._world, self._folder, until
                )
            except CompileError as failure:
                result = failure
            self._compiled[key] = result
        if isinstance(result, CompileError):
            raise RefusedError("budget" if result.is_late else "failed", str(result))
        return result

    def _emulator(self) -> EmulatorProcess:
        """The process; in a child that the script forked one of its own."""
        if self._process is None or self._owner != os.getpid():
            assert self._command is not None
            self._process = EmulatorProcess(self._command, self._environment)
            self._owner = os.getpid()
        return self._process

    @contextlib.contextmanager
    def _at_work(self) -> Iterator[None]:
        """Nothing interrupts what happens inside, and the processes are ours."""
        self.busy = True
        try:
            with processes.ours():
                yield
        finally:
            self.busy = False


def _passed(launch: Launch) -> Iterator[tuple[int, str, Any]]:
    """Place among the kernel's parameters, type and value of each argument.

    Raises:
        ArgumentError: the arguments are not those of the types.
    """
    types = launch.types
    if not types or len(launch.values) < len(types):
        raise ArgumentError("the arguments of a launch are not those of its kernel")
    place = 0
    for kind, value in zip(types, launch.values[len(launch.values) - len(types) :]):
        if kind == "constexpr":
            continue
        for inner_kind, inner_value in parameters((kind,), (value,)):
            yield place, inner_kind, inner_value
        place += 1
