"""Compiles the kernels of a script and executes their launches in the emulator.

Everything before and after the compiler is Triton's own.

Has autotuners run one configuration each, so that no other has written what it leaves out.

The replacement of Triton's compiled kernel: its launches are executed without a GPU.

Profilers and tests set hooks for loading and launching (`triton.knobs.runtime`:
`kernel_load_start_hook`, `launch_enter_hook`); they are called where Triton calls them
(triton/compiler/compiler.py, `CompiledKernel`, and the launchers of its drivers).
"""

from __future__ import annotations

import gc
import hashlib
import importlib
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from ..launches.stand_in_kernel import StandInKernel, replace_compiler
from ..lowering import target
from ..world.device import MAX_THREADS_PER_BLOCK
from .arguments import number_of, parameters
from .process import EmulatorProcess, LaunchBuffer

POINTER_BYTES = 8
MAX_POINTERS = 1 << 16
"""Elements up to which an integer tensor is searched for addresses of other tensors."""


class Executor:
    """Takes the place of Triton's compiler, and executes launches.

    Args:
        report: called with the outcome of each launch: `{"kernel", "grid", "threads", "reply"}`.
        limit: seconds that one launch may take.
        sample: number of workgroups of each launch to execute; None for all.
        suspended: returns a context with the unpatched torch, for Triton's front end.
        waiting: returns a context in which the script waits, for a text or for what is told of it.
    """

    def __init__(
        self,
        arch: str,
        process: EmulatorProcess,
        *,
        report: Callable[[dict[str, Any]], None],
        limit: float,
        sample: int | None = None,
        suspended: Callable[[], AbstractContextManager[None]] = nullcontext,
        executed: Callable[[Any], None] = lambda tensor: None,
        lds_limit: int = 1 << 30,
        waiting: Callable[[str], AbstractContextManager[None]] = lambda text: nullcontext(),
    ) -> None:
        self.arch = arch
        self.launches = 0
        self.target = target(arch)
        self._process = process
        self._report = report
        self._limit = limit
        self._sample = sample
        self._suspended = suspended
        self._executed = executed
        self._lds_limit = lds_limit
        self._waiting = waiting
        self._compile = importlib.import_module("triton.compiler.compiler").compile
        self._kernel_count = 0
        self._last_key = ""

    def install(self) -> None:
        replace_compiler(self.compile)

    def compile(
        self, src: Any, target: Any = None, options: Any = None, _env_vars: Any = None
    ) -> Any:
        """Called by launches; same parameters and kind of result as `triton.compile`."""
        _hash_by_file(src)
        with self._suspended(), self._waiting(f"compiling {src.name}"):
            compiled = self._compile(src, target=self.target, options=dict(options or {}))
        self._check_resources(compiled.metadata)
        self._kernel_count += 1
        # A forked child counts for itself, and shares the emulator.
        key = f"{src.name}-{os.getpid()}-{self._kernel_count}"
        signature = dict(getattr(src, "signature", None) or {})

        def launched(grid: tuple[int, ...], values: Sequence[Any]) -> None:
            self._launch(key, compiled, signature, grid, values)

        return EmulatedKernel(compiled, launched, len(signature))

    def _threads(self, metadata: Any) -> int:
        return int(metadata.num_warps) * int(self.target.warp_size)

    def _check_resources(self, metadata: Any) -> None:
        """Checks that a workgroup fits the GPU, as loading the kernel would."""
        errors = importlib.import_module("triton.runtime.errors")
        threads = self._threads(metadata)
        if metadata.shared > self._lds_limit:
            raise errors.OutOfResources(metadata.shared, self._lds_limit, "shared memory")
        if threads > MAX_THREADS_PER_BLOCK:
            raise errors.OutOfResources(threads, MAX_THREADS_PER_BLOCK, "threads")

    def _launch(
        self,
        key: str,
        compiled: Any,
        signature: dict[str, Any],
        grid: tuple[int, ...],
        values: Sequence[Any],
    ) -> None:
        """Executes a launch of the kernel `key`; a grid with a 0 executes nothing."""
        self.launches += 1
        if 0 in grid:
            return
        is_first, self._last_key = key != self._last_key, key
        with self._waiting(f"emulating {compiled.metadata.name}" if is_first else ""):
            self._process.load(key, compiled.asm["amdgcn"], self.arch)
        arguments, tensors = _arguments(signature, values)
        metadata = compiled.metadata
        threads = self._threads(metadata)
        request = {
            "kernel": key,
            "grid": list(grid),
            "threads": threads,
            "lds": int(metadata.shared),
            "arguments": arguments,
            "scratch": int(getattr(metadata, "global_scratch_size", 0) or 0),
            "seconds": self._limit,
            "sample": self._sample,
        }
        owned_buffers = list(_buffers(tensors))
        with self._waiting(""):
            reply = self._process.launch(request, [buffer for buffer, _ in owned_buffers])
        for index in reply["written"]:
            _, owner = owned_buffers[index]
            if owner is not None:
                self._executed(owner)
        self._report(
            {"kernel": str(metadata.name), "grid": list(grid), "threads": threads, "reply": reply}
        )


def _arguments(
    signature: dict[str, Any], values: Sequence[Any]
) -> tuple[list[tuple[str, Any]], list[tuple[str, Any]]]:
    """A launch's arguments as (type, number or address), and its tensors as (name, tensor)."""
    arguments: list[tuple[str, Any]] = []
    tensors: list[tuple[str, Any]] = []
    names = _parameter_names(signature)
    for number, (kind, value) in enumerate(parameters(tuple(signature.values()), values)):
        if not kind.startswith("*"):
            arguments.append((kind, number_of(kind, value)))
        elif value is None or isinstance(value, int):
            arguments.append((kind, value or 0))
        else:
            name = names[number] if number < len(names) else f"argument {number}"
            tensor = getattr(value, "base", value)  # triton.reinterpret's wrapper
            tensors.append((name, tensor))
            arguments.append((kind, int(tensor.data_ptr())))
    return arguments, tensors


def _hash_by_file(src: Any) -> None:
    """Makes Triton's cache distinguish copies of a kernel in different files.

    Triton identifies a kernel by its text and first line. Both copies would get the code compiled
    first, whose debug locations name the wrong file.
    """
    files = sorted(_files_of(getattr(src, "fn", None), set()))
    if files:
        original_hash = src.hash
        src.hash = lambda: hashlib.sha256("\0".join([original_hash(), *files]).encode()).hexdigest()


def _files_of(function: Any, visited: set[int]) -> set[str]:
    """Files of a `triton.jit` function and of those that it calls by a global name."""
    python: Any = getattr(function, "fn", None)
    code = getattr(python, "__code__", None)
    if code is None or id(function) in visited:
        return set()
    visited.add(id(function))
    files = {str(code.co_filename)}
    for name in code.co_names:
        files |= _files_of(python.__globals__.get(name), visited)
    return files


def _parameter_names(signature: dict[str, Any]) -> list[str]:
    """Names of the kernel's parameters; empty where a tuple or descriptor becomes several."""
    if any(not isinstance(k, str) or k.startswith("tensordesc") for k in signature.values()):
        return []
    return [name for name, kind in signature.items() if kind != "constexpr"]


def _buffers(tensors: Sequence[tuple[str, Any]]) -> Iterator[tuple[LaunchBuffer, Any]]:
    """The storages of tensors, and those whose addresses integer tensors hold, each once."""
    visited: set[int] = set()
    pointer_tensors = []
    for name, tensor in tensors:
        buffer = _storage(tensor, name)
        if buffer is None or buffer.address in visited:
            continue
        visited.add(buffer.address)
        yield buffer, tensor
        if _may_hold_pointers(tensor):
            pointer_tensors.append(tensor)
    for buffer in _pointed_to(pointer_tensors):
        if buffer.address not in visited:
            visited.add(buffer.address)
            yield buffer, None


def _storage(tensor: Any, name: str) -> LaunchBuffer | None:
    """A tensor's storage; None if it is empty. The bytes of a device tensor are its payload's."""
    storage = tensor.untyped_storage()
    address, size = int(storage.data_ptr()), int(storage.nbytes())
    payload = getattr(tensor, "_payload", None)
    if payload is None:
        return LaunchBuffer(address, size, name) if size else None
    payload_storage = payload.untyped_storage()
    size = min(size, int(payload_storage.nbytes()))
    return LaunchBuffer(address, size, name, int(payload_storage.data_ptr())) if size else None


def _may_hold_pointers(tensor: Any) -> bool:
    """Whether a tensor is a short one of 64-bit integers."""
    return (
        not tensor.is_floating_point()
        and tensor.element_size() == POINTER_BYTES
        and tensor.numel() <= MAX_POINTERS
    )


def _pointed_to(tensors: Sequence[Any]) -> Iterator[LaunchBuffer]:
    """Storages of live tensors whose addresses these integer tensors hold."""
    if not tensors:
        return
    torch = importlib.import_module("torch")
    numbers: set[int] = set()
    for tensor in tensors:
        payload = getattr(tensor, "_payload", tensor)
        numbers.update(int(number) for number in payload.detach().reshape(-1).tolist())
    for candidate in gc.get_objects():
        # Not isinstance(), which would ask proxies for their __class__.
        if issubclass(type(candidate), torch.Tensor) and (
            hasattr(candidate, "_payload") or candidate.device.type == "cpu"
        ):
            buffer = _storage(candidate, "memory behind a pointer")
            if buffer is not None and any(
                buffer.address <= number < buffer.address + buffer.size for number in numbers
            ):
                yield buffer


_LAUNCHER_ARGUMENTS = 6
"""How many values Triton 3 passes between the grid and the kernel's arguments: stream, function,
packed metadata, launch metadata, and the hooks before and after the launch."""


class EmulatedKernel(StandInKernel):
    """A kernel on an emulated GPU.

    Args:
        parameters: how many arguments it takes, including constants.
    """

    def __init__(
        self,
        compiled: Any,
        launched: Callable[[tuple[int, ...], Sequence[Any]], None],
        parameters: int,
    ) -> None:
        super().__init__(str(compiled.metadata.name), launched, lambda: compiled)
        self.packed_metadata = getattr(compiled, "packed_metadata", None)
        self._compiled = compiled
        self._parameters = parameters

    def _init_handles(self) -> None:
        if self.module is None:
            self._call_hook("kernel_load_start_hook")
            self.module = self.function = 1
            self._call_hook("kernel_load_end_hook")

    def launch_metadata(self, grid: Any, stream: Any, *args: Any) -> Any:
        """The launch's metadata for hooks, made by Triton's own method."""
        make = getattr(type(self._compiled), "launch_metadata", None)
        return None if make is None else make(self, grid, stream, *args)

    def run(self, grid_0: Any, grid_1: Any, grid_2: Any, *launch_args: Any) -> None:
        """Executes a launch, and calls the hooks that are passed with it."""
        self._init_handles()
        # Older launchers pass more before the arguments. Constants at the end may be left out.
        count = max(len(launch_args) - self._parameters, _LAUNCHER_ARGUMENTS)
        metadata, enter_hook, exit_hook = (
            launch_args[3:count] if count == _LAUNCHER_ARGUMENTS else (None, None, None)
        )
        if enter_hook is not None:
            enter_hook(metadata)
        super().run(grid_0, grid_1, grid_2, *launch_args[count:])
        if exit_hook is not None:
            exit_hook(metadata)

    def __getitem__(self, grid: Any) -> Callable[..., None]:
        self._init_handles()

        def launch(*args: Any, stream: Any = None) -> None:
            sizes = [*grid, 1, 1]
            self.run(
                *sizes[:3],
                stream,
                self.function,
                self.packed_metadata,
                self.launch_metadata(grid, stream, *args),
                self._hook("launch_enter_hook"),
                self._hook("launch_exit_hook"),
                *args,
            )

        return launch

    def __del__(self) -> None:
        if self.__dict__.get("module") is not None and not sys.is_finalizing():
            self._call_hook("kernel_unload_hook")
            self.module = None

    def _call_hook(self, name: str) -> None:
        hook = self._hook(name)
        if hook is not None:
            compiled = self._compiled
            hook(self.module, self.function, self.name, compiled.metadata_group, compiled.hash)

    def _hook(self, name: str) -> Any:
        """A hook by name: from Triton's knobs (3.4 and newer), or from the class; None if unset."""
        runtime = getattr(sys.modules.get("triton.knobs"), "runtime", None)
        return getattr(type(self._compiled) if runtime is None else runtime, name, None)


class ConfigChoice:
    """The configuration that autotuners run, and what there was to choose from.

    Args:
        number: of the configuration, from 0; of a tuner with fewer it counts on from its first. One
            that cannot be launched is passed over.
        runs: how many configurations are run in all; None for all that there are.

    Attributes:
        most: configurations of the tuner that has most; 1 where none tunes.
    """

    def __init__(self, number: int, runs: int | None, note: Callable[[str], None]) -> None:
        self.most = 1
        self.chosen: dict[str, str] = {}
        self._number = number
        self._runs = runs
        self._note = note
        self._done: set[int] = set()

    def install(self) -> None:
        tuner: Any = importlib.import_module("triton.runtime.autotuner").Autotuner
        prune, bench = tuner.prune_configs, tuner._bench

        def prune_and_turn(tuner: Any, *args: Any, **kwargs: Any) -> Any:
            configs = list(prune(tuner, *args, **kwargs))
            self._done.discard(id(tuner))
            self._count(len(configs))
            first = self._number % max(len(configs), 1)
            return configs[first:] + configs[:first]

        def bench_first(tuner: Any, *args: Any, config: Any, **kwargs: Any) -> Any:
            if id(tuner) in self._done:
                return [float("inf")] * 3
            times = bench(tuner, *args, config=config, **kwargs)
            if times[0] != float("inf"):
                self._done.add(id(tuner))
                name = getattr(tuner.base_fn, "__name__", "kernel")
                self.chosen[name] = in_words(config.all_kwargs())
            return times

        tuner.prune_configs, tuner._bench = prune_and_turn, bench_first
        if hasattr(tuner, "check_disk_cache"):  # it would take what another run has chosen
            tuner.check_disk_cache = lambda tuner, key, configs, benchmark: benchmark() or False

    def _count(self, configs: int) -> None:
        self.most = max(self.most, configs)
        if self._runs is not None and configs > self._runs:
            self._note(
                f"of an autotuner's {configs} configurations {self._runs} ran (--configs all: all)"
            )


def in_words(values: Mapping[str, Any]) -> str:
    """`BLOCK=64 num_warps=4`: the values of a configuration, without those that all have."""
    return " ".join(f"{name}={value}" for name, value in values.items() if name != "num_ctas")
