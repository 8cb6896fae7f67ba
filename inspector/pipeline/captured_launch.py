"""A captured launch made ready for the emulator: the kernel's code, what is passed to it, and
memory with its captured contents or made-up numbers.
"""

from __future__ import annotations

import ctypes
import functools
import mmap
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
from msgspec import Struct

from ..base.errors import KinspectError, unforeseen
from ..base.interrupting import more_data
from ..emulator.grid import Launch
from ..emulator.hostcall import HOSTCALL_ADDRESS, HostCalls
from ..emulator.launch import Emulator
from ..emulator.memory import PADDING, Buffer
from ..emulator.numbers import to_bf16
from ..emulator.registry import NotCoveredError
from ..isa.asm.constants import read_constants
from ..model import Function, Machine, Passed, PassedMemory
from .emulating import SCRATCH_ADDRESS, implicit_arguments, pack_arguments, takes_implicit


class KernelText(Struct, frozen=True):
    """A kernel's code, and the text that it stands in.

    Args:
        functions: all functions of the program, which the kernel may call.
        text: the assembly, whose data sections hold constants; empty of a code object.
    """

    function: Function
    functions: Sequence[Function]
    text: str
    name: str

    def emulator(self, machine: Machine) -> Emulator:
        """The kernel made ready for a target."""
        constants = read_constants(self.text, self.name)
        return Emulator(self.function, machine, constants, self.functions)


class CapturedLaunch(Struct, frozen=True):
    """A launch and its memory.

    Args:
        made_up: element types of the buffers whose contents are made up.
    """

    launch: Launch
    buffers: list[Buffer]
    made_up: tuple[str, ...]


def captured_launch(
    function: Function,
    emulator: Emulator,
    grid: Sequence[int],
    passed: Passed,
    metadata: Mapping[str, Any],
) -> CapturedLaunch:
    """The launch that a script made."""
    grid_x, grid_y, grid_z = (*grid, 1, 1, 1)[:3]
    buffers, made_up = buffers_of(passed.memories)
    scratch_bytes = int(metadata.get("global_scratch_size") or 0) * grid_x * grid_y * grid_z
    if scratch_bytes:
        (zeros,), _ = buffers_of([PassedMemory(SCRATCH_ADDRESS, scratch_bytes, "uint8")])
        buffers.append(zeros)
    arguments = [(parameter.kind, parameter.value) for parameter in passed.parameters]
    hostcall_address = 0
    if takes_implicit(function, arguments):
        buffers.append(HostCalls().buffer)  # what the kernel prints is dropped
        hostcall_address = HOSTCALL_ADDRESS
    threads = int(metadata["num_warps"]) * emulator.target.lanes
    grid_3d, block_3d = (grid_x, grid_y, grid_z), (threads, 1, 1)
    lds_bytes = int(metadata.get("shared") or 0)
    implicit = implicit_arguments(grid_3d, block_3d, lds_bytes, hostcall_address)
    scratch = SCRATCH_ADDRESS if scratch_bytes else 0
    packed = pack_arguments(arguments, scratch, implicit)
    return CapturedLaunch(Launch(grid_3d, block_3d, lds_bytes, packed), buffers, made_up)


def reason_of(error: Exception) -> str:
    """Why executing a launch gave nothing: a bug in the emulator must not take the report along."""
    if isinstance(error, NotCoveredError):
        return f"the emulator does not carry out this yet: {error}"
    if isinstance(error, MemoryError):
        return "executing it takes more memory than there is; launch it on less data"
    return str(error) if isinstance(error, KinspectError) else unforeseen(error).message


TILE: Final = 1 << 18
"""Bytes of made-up numbers, which are repeated over a buffer."""
MOST_TILES: Final = 1 << 12
"""Limit for one buffer, which is 0 beyond: Linux allows a process 65,530 mappings."""
_NUMPY_TYPES: Final[dict[str, Any]] = {
    "float64": np.float64,
    "float32": np.float32,
    "float16": np.float16,
}
_MAP_FIXED: Final = 0x10
_MAP_PRIVATE: Final = 0x02


def buffers_of(memories: Sequence[PassedMemory]) -> tuple[list[Buffer], tuple[str, ...]]:
    """Makes a buffer for each memory; also returns the element types of those made up."""
    buffers, made_up = [], []
    for memory in memories:
        if memory.contents is not None:
            data = np.zeros(_padded_size(memory.size), np.uint8)
            data[: memory.size] = np.frombuffer(memory.contents, np.uint8)
        else:
            data = _made_up(memory.dtype, _padded_size(memory.size))
            made_up.append(memory.dtype)
        buffers.append(Buffer(memory.address, memory.size, data, memory.dtype))
    return buffers, tuple(made_up)


def _padded_size(size: int) -> int:
    return (size + PADDING + 15) & ~15


def _made_up(dtype: str, size: int) -> Any:
    """Returns `size` bytes: numbers for floats, tiled from one file on Linux, else zeros."""
    if not ("float" in dtype or "complex" in dtype):
        return _mapped(size)
    data = _mapped(size)
    if sys.platform == "linux" and size > TILE:
        _repeat(_tile_file(dtype), data, min(size // TILE, MOST_TILES))
        return data
    tile = _tile(dtype)
    for start in range(0, min(size, 16 * TILE), TILE):
        part = data[start : start + TILE]
        part[:] = tile[: len(part)]
    return data


def zeroed(size: int) -> Any:
    """The bytes of a buffer of this size, all 0, which take no memory until they are written."""
    return _mapped(_padded_size(size))


def _mapped(size: int) -> Any:
    """Returns zeros that take no memory until they are written to."""
    if size < TILE:
        return np.zeros(size, np.uint8)
    more_data(size)
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | getattr(mmap, "MAP_NORESERVE", 0)
    return np.frombuffer(mmap.mmap(-1, size, flags=flags), np.uint8)


def _repeat(descriptor: int, data: Any, times: int) -> None:
    """Maps a file of `TILE` bytes over the first `times * TILE` bytes of mapped memory."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = (
        ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long,
    )  # fmt: skip
    start = data.ctypes.data
    access = mmap.PROT_READ | mmap.PROT_WRITE
    for number in range(times):
        address = start + number * TILE
        mapped = libc.mmap(address, TILE, access, _MAP_PRIVATE | _MAP_FIXED, descriptor, 0)
        if mapped != address:
            return  # memory from here on stays 0


@functools.cache
def _tile_file(dtype: str) -> int:
    descriptor = os.memfd_create("kinspect-made-up")
    os.write(descriptor, _tile(dtype).tobytes())
    return descriptor


@functools.cache
def _tile(dtype: str) -> Any:
    """Returns `TILE` bytes of numbers between -1 and 1, the same in every run."""
    random = np.random.default_rng(0)
    if dtype.startswith("float8"):
        # 0.125 to 1 in e4m3 and 0.03 to 0.5 in e5m2, and their negatives.
        return (random.integers(0x20, 0x39, TILE) | random.integers(0, 2, TILE) << 7).astype("u1")
    if dtype == "bfloat16":
        values = random.uniform(-1, 1, TILE // 2).astype(np.float32)
        return np.ascontiguousarray(to_bf16(values)).view(np.uint8)
    kind = np.dtype(_NUMPY_TYPES.get(dtype, np.float32))
    return random.uniform(-1, 1, TILE // kind.itemsize).astype(kind).view(np.uint8)
