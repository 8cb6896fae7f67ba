"""The memory that a captured launch's kernel finds: what is known of it, else made up.

Floating-point numbers lie between -1 and 1, integers are 0: whatever they index is there. Large
memory costs nothing until it is touched.
"""

from __future__ import annotations

import ctypes
import functools
import mmap
import os
import sys
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from ..emulator.memory import PADDING, Buffer
from ..emulator.numbers import to_bf16
from ..model import PassedMemory

TILE: Final = 1 << 18
"""Bytes of made-up numbers, repeated all over a memory."""
MOST_TILES: Final = 1 << 12
"""Of one memory: what lies behind is 0. A process may map some 65,000 pieces."""
_WHOLE: Final[dict[str, Any]] = {
    "float64": np.float64,
    "float32": np.float32,
    "float16": np.float16,
}
_MAP_FIXED: Final = 0x10
_MAP_PRIVATE: Final = 0x02


def buffers_of(memories: Sequence[PassedMemory]) -> tuple[list[Buffer], tuple[str, ...]]:
    """A buffer for each memory, and the element types of those whose contents were made up."""
    buffers, made_up = [], []
    for memory in memories:
        if memory.contents is not None:
            data = np.zeros(_room(memory.size), np.uint8)
            data[: memory.size] = np.frombuffer(memory.contents, np.uint8)
        else:
            data = _made_up(memory.dtype, _room(memory.size))
            made_up.append(memory.dtype)
        buffers.append(Buffer(memory.address, memory.size, data, memory.dtype))
    return buffers, tuple(made_up)


def _room(size: int) -> int:
    return (size + PADDING + 15) & ~15


def _made_up(dtype: str, room: int) -> Any:
    if not ("float" in dtype or "complex" in dtype):
        return _mapped(room)
    data = _mapped(room)
    if sys.platform == "linux" and room > TILE:
        _repeat(_tile_file(dtype), data, min(room // TILE, MOST_TILES))
        return data
    tile = _tile(dtype)
    for start in range(0, min(room, 16 * TILE), TILE):
        part = data[start : start + TILE]
        part[:] = tile[: len(part)]
    return data


def _mapped(room: int) -> Any:
    """Zeros that take no room until they are written to."""
    if room < TILE:
        return np.zeros(room, np.uint8)
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | getattr(mmap, "MAP_NORESERVE", 0)
    return np.frombuffer(mmap.mmap(-1, room, flags=flags), np.uint8)


def _repeat(descriptor: int, data: Any, times: int) -> None:
    """Lays a file of `TILE` bytes over the first bytes of mapped memory, over and over.

    Pages are copied when they are written to, so the file stays as it is.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = (
        ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long,
    )  # fmt: skip
    start = data.ctypes.data
    access = mmap.PROT_READ | mmap.PROT_WRITE
    for number in range(times):
        place = start + number * TILE
        got = libc.mmap(place, TILE, access, _MAP_PRIVATE | _MAP_FIXED, descriptor, 0)
        if got != place:
            return  # the rest stays 0


@functools.cache
def _tile_file(dtype: str) -> int:
    descriptor = os.memfd_create("kinspect-made-up")
    os.write(descriptor, _tile(dtype).tobytes())
    return descriptor


@functools.cache
def _tile(dtype: str) -> Any:
    """`TILE` bytes of numbers between -1 and 1, the same in every run."""
    random = np.random.default_rng(0)
    if dtype.startswith("float8"):
        # 0.125 to 1 in e4m3 and 0.03 to 0.5 in e5m2, and their negatives.
        return (random.integers(0x20, 0x39, TILE) | random.integers(0, 2, TILE) << 7).astype("u1")
    if dtype == "bfloat16":
        values = random.uniform(-1, 1, TILE // 2).astype(np.float32)
        return np.ascontiguousarray(to_bf16(values)).view(np.uint8)
    kind = np.dtype(_WHOLE.get(dtype, np.float32))
    return random.uniform(-1, 1, TILE // kind.itemsize).astype(kind).view(np.uint8)
