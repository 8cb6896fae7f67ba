"""Compiles the kernels of a script and executes their launches in the emulator.

Everything before and after the compiler is Triton's own.
"""

from __future__ import annotations

import gc
import hashlib
import importlib
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from ..launches.stand_in_kernel import replace_compiler
from ..lowering import target
from ..world.device import MAX_THREADS_PER_BLOCK
from .arguments import number_of, parameters
from .emulated_kernel import EmulatedKernel
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
