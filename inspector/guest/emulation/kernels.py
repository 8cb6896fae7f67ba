"""Compiled kernels whose launches are executed by the emulator.

They stand where Triton's compiled kernels do: everything up to the compiler and after it is
Triton's own.
"""

from __future__ import annotations

import gc
import importlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ..lowering import target
from .arguments import parameters
from .process import EmulationError, EmulatorProcess, SharedBuffer

SEAMS = ("triton.compiler.compiler", "triton.compiler", "triton")
"""Modules that hold `compile`; `JITFunction.create_binder` imports it from the second."""
POINTER_BYTES = 8
MOST_POINTERS = 1 << 16
"""Elements up to which an integer tensor is looked through for addresses of other tensors."""


class Executor:
    """Compiles what scripts launch and executes the launches.

    Args:
        arch: gfx name.
        process: executes launches.
        told: gets what was noticed at a launch: `{"kernel", "reply"}`.
        limit: seconds that one launch may take.
        sample: so many workgroups of each launch alone are executed; None: all.
    """

    def __init__(
        self,
        arch: str,
        process: EmulatorProcess,
        told: Callable[[dict[str, Any]], None],
        limit: float,
        sample: int | None = None,
    ) -> None:
        self.arch = arch
        self._process = process
        self._told = told
        self._limit = limit
        self._sample = sample
        self.target = target(arch)
        self._compile = importlib.import_module("triton.compiler.compiler").compile
        self._keys = 0

    def install(self) -> None:
        """Takes the place of Triton's compiler."""
        for name in SEAMS:
            importlib.import_module(name).compile = self.compile  # type: ignore[attr-defined]

    def compile(
        self, src: Any, target: Any = None, options: Any = None, _env_vars: Any = None
    ) -> Any:
        """What launches call; takes and gives what `triton.compile` does."""
        compiled = self._compile(src, target=self.target, options=dict(options or {}))
        self._keys += 1
        signature = getattr(src, "signature", {})
        return EmulatedKernel(compiled, signature, f"{src.name}-{self._keys}", self)

    def launch(
        self, kernel: EmulatedKernel, grid: tuple[int, int, int], values: Sequence[Any]
    ) -> None:
        """Executes a launch.

        Raises:
            EmulationError: it could not be executed, or did what no kernel may do.
        """
        compiled = kernel.compiled
        self._process.load(kernel.key, compiled.asm["amdgcn"], self.arch)
        arguments: list[tuple[str, int | float]] = []
        tensors: list[tuple[str, Any]] = []
        types = tuple(kernel.signature.values())
        names = _names(kernel.signature)
        passed = parameters(types, values[len(values) - len(types) :])
        for number, (kind, value) in enumerate(passed):
            if not kind.startswith("*"):
                arguments.append((kind, value))
                continue
            name = names[number] if number < len(names) else f"argument {number}"
            if value is None:
                arguments.append((kind, 0))
            elif isinstance(value, int):
                arguments.append((kind, value))
            else:
                tensors.append((name, value))
                arguments.append((kind, int(value.data_ptr())))
        metadata = compiled.metadata
        request = {
            "kernel": kernel.key,
            "grid": list(grid),
            "threads": int(metadata.num_warps) * int(self.target.warp_size),
            "lds": int(metadata.shared),
            "arguments": arguments,
            "scratch": int(getattr(metadata, "global_scratch_size", 0) or 0),
            "seconds": self._limit,
            "sample": self._sample,
        }
        reply = self._process.launch(request, list(_buffers(tensors)))
        self._told({"kernel": kernel.name, "reply": reply})


def _names(signature: dict[str, Any]) -> list[str]:
    """Names of the parameters; empty where tuples or descriptors make several of one."""
    if any(not isinstance(k, str) or k.startswith("tensordesc") for k in signature.values()):
        return []
    return [name for name, kind in signature.items() if kind != "constexpr"]


def _buffers(tensors: Sequence[tuple[str, Any]]) -> Iterator[SharedBuffer]:
    """The storages behind tensors, each once, and those that their elements point to."""
    seen: set[int] = set()
    pointing = []
    for name, tensor in tensors:
        buffer = _storage(tensor, name)
        if buffer is None or buffer.address in seen:
            continue
        seen.add(buffer.address)
        yield buffer
        if _may_hold_pointers(tensor):
            pointing.append(tensor)
    if pointing:
        for address, size in _pointed_to(pointing):
            if address not in seen:
                seen.add(address)
                yield SharedBuffer(address, size, "memory behind a pointer")


def _storage(tensor: Any, name: str) -> SharedBuffer | None:
    storage = tensor.untyped_storage()
    size = int(storage.nbytes())
    return SharedBuffer(int(storage.data_ptr()), size, name) if size else None


def _may_hold_pointers(tensor: Any) -> bool:
    return (
        not tensor.is_floating_point()
        and tensor.element_size() == POINTER_BYTES
        and tensor.numel() <= MOST_POINTERS
    )


def _pointed_to(tensors: Sequence[Any]) -> Iterator[tuple[int, int]]:
    """Storages of live tensors that an integer tensor holds an address of."""
    torch = importlib.import_module("torch")
    numbers = {int(n) for tensor in tensors for n in tensor.detach().reshape(-1).tolist()}
    for thing in gc.get_objects():
        if type(thing) is torch.Tensor and thing.device.type == "cpu":
            storage = thing.untyped_storage()
            start, size = int(storage.data_ptr()), int(storage.nbytes())
            if size and any(start <= number < start + size for number in numbers):
                yield start, size


class EmulatedKernel:
    """A compiled kernel that runs in the emulator.

    Args:
        compiled: Triton's own.
        signature: name -> type of its parameters.
        key: names it to the emulator's process.
        executor: executes its launches.
    """

    def __init__(
        self, compiled: Any, signature: dict[str, Any], key: str, executor: Executor
    ) -> None:
        self.compiled = compiled
        self.signature = signature
        self.key = key
        self.name = str(compiled.metadata.name)
        self.function = 1
        self.module = None
        self.packed_metadata = None
        self.n_max_threads = 1024
        self._executor = executor

    def run(self, grid_0: Any, grid_1: Any, grid_2: Any, *others: Any) -> None:
        """What a launcher does; behind the grid come stream, function, hooks and arguments."""
        self._executor.launch(self, (int(grid_0), int(grid_1), int(grid_2)), others)

    def __getitem__(self, grid: Any) -> Callable[..., None]:
        def launch(*args: Any, stream: Any = None) -> None:
            sizes = [*grid, 1, 1]
            self.run(*sizes[:3], *args)

        return launch

    def launch_metadata(self, grid: Any, stream: Any, *args: Any) -> None:
        """Only profilers want it."""

    def result(self, *args: Any) -> EmulatedKernel:
        """What an asynchronous compile gives."""
        return self

    def _init_handles(self) -> None:
        """Nothing is loaded onto a device."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        compiled = self.__dict__["compiled"]
        return getattr(compiled if hasattr(compiled, name) else compiled.metadata, name)


__all__ = ["EmulatedKernel", "EmulationError", "Executor"]
