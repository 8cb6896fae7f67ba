"""Compiled kernels whose launches are executed by the emulator.

They stand where Triton's compiled kernels do: everything up to the compiler and after it is
Triton's own.
"""

from __future__ import annotations

import gc
import hashlib
import importlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from ..launches.kernel import replace_compiler
from ..lowering import target
from ..world.device import MAX_THREADS_PER_BLOCK
from .arguments import number_of, parameters
from .compiled import EmulatedKernel
from .process import EmulationError, EmulatorProcess, SharedBuffer

POINTER_BYTES = 8
MOST_POINTERS = 1 << 16
"""Most elements of an integer tensor that is searched for addresses of other tensors."""


class Executor:
    """Compiles what scripts launch and executes the launches.

    Args:
        arch: gfx name.
        process: executes launches.
        report: called with the outcome of each launch: `{"kernel", "grid", "threads", "reply"}`.
        limit: seconds that one launch may take.
        sample: number of workgroups of each launch to execute; None for all.
        suspended: makes a context with the unpatched torch, for Triton's front end.
        executed: called with each tensor that a launch wrote to.
        lds_limit: bytes of LDS that one workgroup may ask for.
    """

    def __init__(
        self,
        arch: str,
        process: EmulatorProcess,
        report: Callable[[dict[str, Any]], None],
        limit: float,
        sample: int | None = None,
        suspended: Callable[[], AbstractContextManager[None]] = nullcontext,
        executed: Callable[[Any], None] = lambda tensor: None,
        lds_limit: int = 1 << 30,
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
        self._compile = importlib.import_module("triton.compiler.compiler").compile
        self._keys = 0

    def install(self) -> None:
        """Replaces Triton's compiler by `compile`."""
        replace_compiler(self.compile)

    def compile(
        self, src: Any, target: Any = None, options: Any = None, _env_vars: Any = None
    ) -> Any:
        """Called by launches; same parameters and kind of result as `triton.compile`."""
        _hash_by_file(src)
        with self._suspended():
            compiled = self._compile(src, target=self.target, options=dict(options or {}))
        self._check_resources(compiled.metadata)
        self._keys += 1
        key = f"{src.name}-{self._keys}"
        signature = dict(getattr(src, "signature", None) or {})

        def launched(grid: tuple[int, ...], values: Sequence[Any]) -> None:
            self._launch(key, compiled, signature, grid, values)

        return EmulatedKernel(compiled, launched, len(signature))

    def _check_resources(self, metadata: Any) -> None:
        """Raises what loading the kernel onto the GPU would raise if it needs too much of it."""
        errors = importlib.import_module("triton.runtime.errors")
        threads = int(metadata.num_warps) * int(self.target.warp_size)
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
        self.launches += 1
        if 0 in grid:
            return
        self._process.load(key, compiled.asm["amdgcn"], self.arch)
        arguments, tensors = _arguments(signature, values)
        metadata = compiled.metadata
        threads = int(metadata.num_warps) * int(self.target.warp_size)
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
    names = _names(signature)
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

    Triton identifies a kernel by its text and first line alone. It would use the code that was
    compiled first for both copies, with debug locations that name the wrong file.
    """
    files = sorted(_files_of(getattr(src, "fn", None), set()))
    if files:
        plain = src.hash
        src.hash = lambda: hashlib.sha256("\0".join([plain(), *files]).encode()).hexdigest()


def _files_of(function: Any, seen: set[int]) -> set[str]:
    """Files of a `triton.jit` function and of those that it calls by a global name."""
    python: Any = getattr(function, "fn", None)
    code = getattr(python, "__code__", None)
    if code is None or id(function) in seen:
        return set()
    seen.add(id(function))
    files = {str(code.co_filename)}
    for name in code.co_names:
        files |= _files_of(python.__globals__.get(name), seen)
    return files


def _names(signature: dict[str, Any]) -> list[str]:
    """Names of the parameters; empty where tuples or descriptors make several of one."""
    if any(not isinstance(k, str) or k.startswith("tensordesc") for k in signature.values()):
        return []
    return [name for name, kind in signature.items() if kind != "constexpr"]


def _buffers(tensors: Sequence[tuple[str, Any]]) -> Iterator[tuple[SharedBuffer, Any]]:
    """The storages of tensors, and those that addresses in integer tensors point to, each once.

    Yields:
        The storage, and its tensor; None for a storage that is only pointed to.
    """
    seen: set[int] = set()
    pointing = []
    for name, tensor in tensors:
        buffer = _storage(tensor, name)
        if buffer is None or buffer.address in seen:
            continue
        seen.add(buffer.address)
        yield buffer, tensor
        if _may_hold_pointers(tensor):
            pointing.append(tensor)
    for buffer in _pointed_to(pointing):
        if buffer.address not in seen:
            seen.add(buffer.address)
            yield buffer, None


def _storage(tensor: Any, name: str) -> SharedBuffer | None:
    """A tensor's memory; None if it is empty. A device tensor has its bytes in its payload."""
    storage = tensor.untyped_storage()
    address, size = int(storage.data_ptr()), int(storage.nbytes())
    payload = getattr(tensor, "_payload", None)
    if payload is None:
        return SharedBuffer(address, size, name) if size else None
    real = payload.untyped_storage()
    size = min(size, int(real.nbytes()))
    return SharedBuffer(address, size, name, int(real.data_ptr())) if size else None


def _may_hold_pointers(tensor: Any) -> bool:
    return (
        not tensor.is_floating_point()
        and tensor.element_size() == POINTER_BYTES
        and tensor.numel() <= MOST_POINTERS
    )


def _pointed_to(tensors: Sequence[Any]) -> Iterator[SharedBuffer]:
    """Storages of live tensors that these integer tensors hold addresses of."""
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


__all__ = ["EmulationError", "Executor"]
