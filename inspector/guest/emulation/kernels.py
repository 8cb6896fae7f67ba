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
"""Elements up to which an integer tensor is looked through for addresses of other tensors."""


class Executor:
    """Compiles what scripts launch and executes the launches.

    Args:
        arch: gfx name.
        process: executes launches.
        told: gets what came of a launch: `{"kernel", "grid", "threads", "reply"}`.
        limit: seconds that one launch may take.
        sample: so many workgroups of each launch alone are executed; None: all.
        suspended: makes a context in which torch is as it really is, for Triton's front end.
        executed: told of each tensor that a launch wrote to.
        lds_limit: bytes of LDS that one workgroup may ask for.
    """

    def __init__(
        self,
        arch: str,
        process: EmulatorProcess,
        told: Callable[[dict[str, Any]], None],
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
        self._told = told
        self._limit = limit
        self._sample = sample
        self._suspended = suspended
        self._executed = executed
        self._lds_limit = lds_limit
        self._compile = importlib.import_module("triton.compiler.compiler").compile
        self._keys = 0

    def install(self) -> None:
        """Takes the place of Triton's compiler."""
        replace_compiler(self.compile)

    def compile(
        self, src: Any, target: Any = None, options: Any = None, _env_vars: Any = None
    ) -> Any:
        """What launches call; takes and gives what `triton.compile` does."""
        _hash_by_file(src)
        with self._suspended():
            compiled = self._compile(src, target=self.target, options=dict(options or {}))
        self._fits(compiled.metadata)
        self._keys += 1
        key = f"{src.name}-{self._keys}"
        signature = dict(getattr(src, "signature", None) or {})

        def launched(grid: tuple[int, ...], values: Sequence[Any]) -> None:
            self._launch(key, compiled, signature, grid, values)

        return EmulatedKernel(compiled, launched, len(signature))

    def _fits(self, metadata: Any) -> None:
        """Raises what loading the kernel onto the device would, when it asks for too much."""
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
        arguments: list[tuple[str, Any]] = []
        tensors: list[tuple[str, Any]] = []
        types = tuple(signature.values())
        names = _names(signature)
        passed = parameters(types, values)
        for number, (kind, value) in enumerate(passed):
            if not kind.startswith("*"):
                arguments.append((kind, number_of(kind, value)))
                continue
            name = names[number] if number < len(names) else f"argument {number}"
            if value is None or isinstance(value, int):
                arguments.append((kind, value or 0))
            else:
                tensor = getattr(value, "base", value)  # triton.reinterpret's wrapper
                tensors.append((name, tensor))
                arguments.append((kind, int(tensor.data_ptr())))
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
        held = list(_buffers(tensors))
        reply = self._process.launch(request, [buffer for buffer, _ in held])
        for index in reply["written"]:
            if held[index][1] is not None:
                self._executed(held[index][1])
        self._told(
            {"kernel": str(metadata.name), "grid": list(grid), "threads": threads, "reply": reply}
        )


def _hash_by_file(src: Any) -> None:
    """Keeps a copy of a kernel in another file apart in Triton's cache.

    Triton knows a kernel by its text and first line alone. The code of the copy that was compiled
    first would be taken for both, and with it the file that its locations name.
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
    """The storages behind tensors, each once, and those that their elements point to.

    Yields:
        The storage, and the tensor that it is of; None for what is pointed to.
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
    """The memory under a tensor. One of the stand-in device has its bytes in its payload."""
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
    """Storages of live tensors that an integer tensor holds an address of."""
    if not tensors:
        return
    torch = importlib.import_module("torch")
    numbers: set[int] = set()
    for tensor in tensors:
        plain = getattr(tensor, "_payload", tensor)
        numbers.update(int(n) for n in plain.detach().reshape(-1).tolist())
    for thing in gc.get_objects():
        if issubclass(type(thing), torch.Tensor) and (
            hasattr(thing, "_payload") or thing.device.type == "cpu"
        ):
            buffer = _storage(thing, "memory behind a pointer")
            if buffer is not None and any(
                buffer.address <= number < buffer.address + buffer.size for number in numbers
            ):
                yield buffer


__all__ = ["EmulationError", "Executor"]
