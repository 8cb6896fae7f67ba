"""Executes a script's launches when the script reads the memory that they wrote.

At a launch only its arguments are recorded. Once the script reads a value that depends on it, the
kernel is compiled (in a child process, which a deadline can end) and executed by the emulator's
process. All of this shares one budget of seconds.

Compiles a kernel for the emulator, in a child that can be killed: LLVM cannot be interrupted.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from ..about import replace_triton_key
from ..emulation.arguments import ArgumentError, parameters
from ..emulation.process import EmulationError, EmulatorProcess, LaunchBuffer
from ..lowering import target
from ..process_tree import ChildError, answer_of_child
from ..world.assumptions import LaunchRefusedError, UnknownFloat
from . import processes
from .request import WRITING_SECONDS, ScriptRequest

MARGIN_SECONDS = 0.05
"""Seconds reserved for the emulator's reply after it has ended a launch that took too long."""
PILOT_WAVES = 4096
"""Waves from which on a launch first runs one workgroup, to estimate the time of all of them."""
PILOT_SHARE = 0.25
"""Share of the remaining seconds that such a pilot run may take."""
CONCURRENT_WAVES = 256
"""Waves that the emulator runs at one time: a pilot run is assumed to take the time of so many."""
REASON_BY_KIND: Mapping[str, str] = MappingProxyType(
    {"limit": "budget", "uncovered": "uncovered", "hang": "faulty"}
)
"""Kind of an `EmulationError` -> why a launch is refused."""


@dataclass(frozen=True)
class ScriptLaunch:
    """One launch, as the recorder saw it.

    Args:
        types: types of its arguments; `constexpr` for those that are not kernel parameters.
        written_indices: indices of the kernel parameters that it writes to; None for any.
        grid: workgroups in x, y and z.
        values: its arguments; the last `len(types)` of them belong to `types`.
    """

    key: str
    src: Any
    options: Mapping[str, Any]
    types: tuple[Any, ...]
    written_indices: frozenset[int] | None
    grid: tuple[int, ...]
    values: Sequence[Any]


class Readback:
    """Follows a script's launches in its world.

    `busy`: whether a launch is being compiled or executed.
    `is_trial`: returns whether the present launch is one that the script did not ask for.
    """

    def __init__(self, world: Any, request: ScriptRequest) -> None:
        emulation = request.emulation
        is_on = emulation.command is not None and emulation.seconds > 0
        self._world = world
        self._arch = request.arch
        self._command = list(emulation.command or ()) if is_on else None
        self._refusal = LaunchRefusedError(emulation.reason, emulation.detail)
        self._deadline = request.deadline - WRITING_SECONDS
        self._environment = dict(os.environ)
        self._compiler = ChildCompiler(request.arch, world.suspended)
        self._process: EmulatorProcess | None = None
        self._owner = 0
        self._compiled: dict[str, CompiledCode | ChildError] = {}
        self.busy = False
        self.is_trial: Callable[[], bool] = lambda: False
        world.set_emulation_budget(emulation.seconds if self._command is not None else 0.0)

    def launched(self, launch: ScriptLaunch) -> None:
        """Marks the memory that a launch writes as unknown, and records how to execute it."""
        if self._command is not None and self.is_trial():
            return  # the script reads the results of the launch that follows the trials
        try:
            indexed_values = list(_arguments(launch))
        except ArgumentError:
            on_device = map(self._world.on_device, launch.values)
            tensors = [tensor for tensor in on_device if tensor is not None]
            self._world.launched(tensors, [True] * len(tensors), None, LaunchRefusedError("inputs"))
            return
        arguments: list[tuple[str, Any]] = []
        tensors, writes = [], []
        is_known = True
        for index, kind, value in indexed_values:
            tensor = self._world.on_device(value)
            if tensor is not None:
                tensors.append(tensor)
                writes.append(launch.written_indices is None or index in launch.written_indices)
            if not kind.startswith("*"):
                is_known = is_known and not isinstance(value, UnknownFloat)
                arguments.append((kind, value))
            elif tensor is not None:
                arguments.append((kind, int(value.data_ptr())))
            else:  # None, or a bare address, whose memory cannot be identified
                is_known = is_known and value is None
                arguments.append((kind, 0))
        execute, refusal = None, self._refusal
        if self._command is not None:
            refusal = LaunchRefusedError("inputs")
            if is_known and 0 not in launch.grid:
                execute = self._executor_of(launch, arguments, tensors)
        if 0 not in launch.grid:
            self._world.launched(tensors, writes, execute, refusal)

    def _executor_of(
        self, launch: ScriptLaunch, arguments: list[tuple[str, Any]], tensors: Sequence[Any]
    ) -> Callable[..., None]:
        """A function that executes a launch; it holds addresses, so that no tensor stays alive."""
        addresses = list(dict.fromkeys(int(t.untyped_storage().data_ptr()) for t in tensors))
        key, src, options, grid = launch.key, launch.src, launch.options, launch.grid

        def execute(allocations: Sequence[Any], indices: Sequence[int], seconds: float) -> None:
            until = min(time.monotonic() + seconds, self._deadline)
            with self._working():
                compiled = self._kernel(key, src, options, until)
                buffers = [
                    LaunchBuffer(
                        address, int(memory.numel()), "an argument", int(memory.data_ptr())
                    )
                    for address, memory in zip(addresses, allocations)
                    if memory.numel()
                ]
                # Empty allocations have no buffer.
                allocation_by_buffer = [n for n, m in enumerate(allocations) if m.numel()]
                reply = self._run(
                    key, compiled, grid=grid, arguments=arguments, buffers=buffers, until=until
                )
                if any(allocation_by_buffer[n] not in indices for n in reply["written"]):
                    raise LaunchRefusedError("failed", "it writes to an argument unforeseen")

        return execute

    def _run(
        self,
        key: str,
        compiled: CompiledCode,
        *,
        grid: tuple[int, ...],
        arguments: list[tuple[str, Any]],
        buffers: Sequence[LaunchBuffer],
        until: float,
    ) -> dict[str, Any]:
        request: dict[str, Any] = {"kernel": key, "grid": list(grid), "arguments": arguments}
        request.update(threads=compiled.threads, lds=compiled.lds_bytes, sample=None)
        request["scratch"] = compiled.scratch_bytes
        process = self._emulator()
        process.deadline = until
        try:
            process.load(key, compiled.text, self._arch)
            self._check_duration(process, request, compiled, buffers=buffers, until=until)
            request["seconds"] = max(until - time.monotonic() - MARGIN_SECONDS, 0.0)
            reply = process.launch(request, buffers)
        except EmulationError as failure:
            raise LaunchRefusedError(
                REASON_BY_KIND.get(failure.kind, "failed"), str(failure)
            ) from None
        except (OSError, ValueError) as failure:  # e.g. the script closed the process's pipes
            self._process = None
            raise LaunchRefusedError("failed", str(failure)) from None
        for trouble in reply["troubles"]:
            raise LaunchRefusedError("faulty", str(trouble["kind"]))
        return reply

    @staticmethod
    def _check_duration(
        process: EmulatorProcess,
        request: Mapping[str, Any],
        compiled: CompiledCode,
        *,
        buffers: Sequence[LaunchBuffer],
        until: float,
    ) -> None:
        """Estimates the time of a large launch by running one of its workgroups."""
        waves_per_workgroup = max(compiled.threads // compiled.wave_size, 1)
        grid_x, grid_y, grid_z = request["grid"]
        waves = grid_x * grid_y * grid_z * waves_per_workgroup
        if waves < PILOT_WAVES:
            return
        seconds_left = until - time.monotonic()
        pilot = {**request, "sample": 1, "seconds": seconds_left * PILOT_SHARE}
        try:
            pilot_seconds = float(process.launch(pilot, buffers, write_back=False)["seconds"])
        except EmulationError as failure:
            if failure.kind != "limit":
                raise
            return  # e.g. a workgroup that waits for others: no estimate
        if pilot_seconds * (waves // CONCURRENT_WAVES) > until - time.monotonic():
            raise LaunchRefusedError("budget")

    def _kernel(self, key: str, src: Any, options: Mapping[str, Any], until: float) -> CompiledCode:
        result = self._compiled.get(key)
        if result is None:
            self._emulator().start()  # its imports run while the kernel is compiled
            try:
                result = self._compiler.compile(src, options, until)
            except ChildError as failure:
                result = failure
            self._compiled[key] = result
        if isinstance(result, ChildError):
            raise LaunchRefusedError("budget" if result.is_late else "failed", str(result))
        return result

    def _emulator(self) -> EmulatorProcess:
        """The emulator's process; a child that the script forked starts another one."""
        if self._process is None or self._owner != os.getpid():
            assert self._command is not None
            self._process = EmulatorProcess(self._command, self._environment)
            self._owner = os.getpid()
        return self._process

    @contextlib.contextmanager
    def _working(self) -> Iterator[None]:
        """Keeps the clock from interrupting, and processes of this package from being noted."""
        self.busy = True
        try:
            with processes.ours():
                yield
        finally:
            self.busy = False


def _arguments(launch: ScriptLaunch) -> Iterator[tuple[int, str, Any]]:
    """(index among the kernel's parameters, type, value) of each argument."""
    types = launch.types
    if not types or len(launch.values) < len(types):
        raise ArgumentError("the arguments of a launch are not those of its kernel")
    index = 0
    for kind, value in zip(types, launch.values[len(launch.values) - len(types) :]):
        if kind == "constexpr":
            continue
        for inner_kind, inner_value in parameters((kind,), (value,)):
            yield index, inner_kind, inner_value
        index += 1


@dataclass(frozen=True)
class CompiledCode:
    """A kernel's code.

    Args:
        text: its assembly.
        threads: threads of a workgroup.
        wave_size: lanes of a wave.
        lds_bytes: LDS of a workgroup.
        scratch_bytes: Triton's global scratch memory for each workgroup.
    """

    text: str
    threads: int
    wave_size: int
    lds_bytes: int
    scratch_bytes: int


class ChildCompiler:
    """Compiles kernels with the Triton of now, each in a child process.

    `suspended` returns a context with the unpatched torch, for Triton's front end.
    """

    def __init__(self, arch: str, suspended: Callable[[], AbstractContextManager[None]]) -> None:
        self._arch = arch
        self._suspended = suspended
        self._compile = importlib.import_module("triton.compiler.compiler").compile

    def compile(self, src: Any, options: Mapping[str, Any], deadline: float) -> CompiledCode:
        """Compiles a kernel.

        Raises:
            ChildError: the compiler refuses it, or is not done at `deadline`, by `time.monotonic`.
        """

        def fields() -> dict[str, Any]:
            signal.setitimer(signal.ITIMER_REAL, 0)
            replace_triton_key("kinspect")
            gpu = target(self._arch)
            with self._suspended():
                compiled = self._compile(src, target=gpu, options=dict(options))
            metadata = compiled.metadata
            return {
                "text": compiled.asm["amdgcn"],
                "threads": int(metadata.num_warps) * int(gpu.warp_size),
                "wave_size": int(gpu.warp_size),
                "lds_bytes": int(metadata.shared),
                "scratch_bytes": int(getattr(metadata, "global_scratch_size", 0) or 0),
            }

        return CompiledCode(**answer_of_child(fields, deadline, "its compile"))
