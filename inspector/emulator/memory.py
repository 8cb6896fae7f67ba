"""Memories: the buffers that a launch may touch, and LDS.

Addresses in a buffer are those of the process that owns it; nothing else exists. An access by many
lanes usually falls into one buffer, which is tried first; what falls outside of all is reported
and reads 0.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from msgspec import Struct

Array = np.ndarray[Any, Any]
I64 = np.int64

PRIVATE_APERTURE = 0x7D00_0000_0000
SHARED_APERTURE = 0x7C00_0000_0000
"""Where flat addresses of private memory and of LDS begin; each 4 GiB long."""
PADDING = 16
"""Bytes behind a memory's end, so that it can be viewed in words of 16 bytes."""


def masked(offsets: Array, wanted: Array | None) -> Array:
    """Returns offsets (int64), 0 where not wanted; bits cost a fifth of `np.where`."""
    return offsets if wanted is None else offsets & np.negative(wanted.astype(I64))


def cleared(values: Array, wanted: Array | None) -> Array:
    """Zeroes gathered values that are not wanted; may change `values`."""
    if wanted is None:
        return values
    mask = np.negative(wanted.view(np.int8)).astype(f"i{values.itemsize}").view(values.dtype)
    values &= mask
    return values


def first_active(where: Array, usable: Array | None) -> int | None:
    """The first lane's address; None where no lane is active."""
    active = where.reshape(-1) if usable is None else where[usable]
    return int(active[0]) if active.size else None


class MemoryWords:
    """Bytes, seen in words of 1 to 16 bytes."""

    __slots__ = ("by_width", "data", "size", "written")

    def __init__(self, data: Array, size: int) -> None:
        self.data = data
        self.size = size
        self.written = False
        """Whether any byte has been written."""
        aligned = data[: len(data) & ~15]
        self.by_width = {
            1: data,
            2: aligned.view(np.uint16),
            4: aligned.view(np.uint32),
            8: aligned.view(np.uint64),
            16: aligned.view(np.complex128),
        }

    def gather(self, offsets: Array, size: int) -> Array:
        """`size` bytes (1, 2, or a multiple of 4) at each offset (int64).

        Returns uint8 or uint16 of the offsets' shape, else uint32 [dword, ...].
        """
        if size < 4:
            if size == 2 and (offsets & 1).any():
                low = self.data.take(offsets).astype(np.uint16)
                return low | (self.data.take(offsets + 1).astype(np.uint16) << np.uint16(8))
            return self.by_width[size].take(offsets >> (size - 1))
        if size == 4:
            return self._words(offsets)[None]
        low_bits = int(np.bitwise_or.reduce(offsets, axis=None)) if offsets.size else 0
        for width in (16, 8):
            if size % width or low_bits & (width - 1):
                continue
            shift = 4 if width == 16 else 3
            parts = [
                self.by_width[width].take(
                    (offsets + offset) >> shift if offset else offsets >> shift
                )
                for offset in range(0, size, width)
            ]
            rows = np.empty((size // 4, *offsets.shape), np.uint32)
            for number, part in enumerate(parts):
                split = part.view(np.uint32).reshape(*offsets.shape, width // 4)
                for dword in range(width // 4):
                    rows[number * (width // 4) + dword] = split[..., dword]
            return rows
        rows = np.empty((size // 4, *offsets.shape), np.uint32)
        for dword in range(size // 4):
            rows[dword] = self._words(offsets + 4 * dword)
        return rows

    def _words(self, offsets: Array) -> Array:
        """Returns a dword at each offset, which need not be aligned."""
        if offsets.size and int(np.bitwise_or.reduce(offsets, axis=None)) & 3:
            word = np.zeros(offsets.shape, np.uint32)
            for byte_index in range(4):
                word |= self.data.take(offsets + byte_index).astype(np.uint32) << np.uint32(
                    8 * byte_index
                )
            return word
        return self.by_width[4].take(offsets >> 2)

    def scatter(self, offsets: Array, values: Array, size: int) -> None:
        """Writes what `gather` would read; where offsets repeat, the last one stays.

        `offsets`: bytes, one-dimensional. `values`: [offset] for 1 and 2 bytes, else [dword,
        offset].
        """
        self.written |= bool(offsets.size)
        if not offsets.size:
            return
        low_bits = int(np.bitwise_or.reduce(offsets, axis=None))
        if size < 4:
            if size == 2 and low_bits & 1:
                self.data[offsets] = values.astype(np.uint8)
                self.data[offsets + 1] = (values >> 8).astype(np.uint8)
            else:
                self.by_width[size][offsets >> (size - 1)] = values
        elif size in (8, 16) and not low_bits & (size - 1):
            words = np.empty((len(offsets), size // 4), np.uint32)
            for dword in range(size // 4):  # a fifth of what transposing at once costs
                words[:, dword] = values[dword]
            view = words.view(np.uint64 if size == 8 else np.complex128)[:, 0]
            self.by_width[size][offsets >> (3 if size == 8 else 4)] = view
        elif low_bits & 3:
            for dword in range(size // 4):
                for byte_index in range(4):
                    byte = (values[dword] >> np.uint32(8 * byte_index)).astype(np.uint8)
                    self.data[offsets + (4 * dword + byte_index)] = byte
        else:
            for dword in range(size // 4):
                self.by_width[4][(offsets >> 2) + dword] = values[dword]


class Buffer(Struct):
    """Memory of the launching process. `data` has `PADDING` bytes more than `size`."""

    address: int
    size: int
    data: Array
    name: str = ""
    words: MemoryWords | None = None

    @property
    def end(self) -> int:
        return self.address + self.size


def buffer_of(values: Array, address: int, name: str = "") -> Buffer:
    """A buffer that holds a copy of an array."""
    raw = np.ascontiguousarray(values).view(np.uint8).reshape(-1)
    data = np.zeros((raw.size + PADDING + 15) & ~15, np.uint8)
    data[: raw.size] = raw
    return Buffer(address, raw.size, data, name)


# Told of lanes whose access lies outside of every buffer: addresses, bytes, whether it writes.
Outside = Callable[[Array, int, bool], None]


class GlobalMemory:
    """The buffers of a launch.

    `buffers`: none may overlap another.
    """

    def __init__(self, buffers: Iterable[Buffer]) -> None:
        self.buffers = sorted(buffers, key=lambda buffer: buffer.address)
        self.starts = [buffer.address for buffer in self.buffers]
        for buffer in self.buffers:
            buffer.words = buffer.words or MemoryWords(buffer.data, buffer.size)

    def add(self, buffer: Buffer) -> None:
        """Adds a buffer (kernel arguments, constants of the code object)."""
        buffer.words = MemoryWords(buffer.data, buffer.size)
        index = bisect_right(self.starts, buffer.address)
        self.buffers.insert(index, buffer)
        self.starts.insert(index, buffer.address)

    def buffer_at(self, address: int) -> Buffer | None:
        """The buffer that holds an address."""
        index = bisect_right(self.starts, address) - 1
        if index >= 0 and address < self.buffers[index].end:
            return self.buffers[index]
        return None

    def read(
        self, addresses: Array, size: int, outside: Outside, wanted: Array | None = None
    ) -> Array:
        """`MemoryWords.gather` at addresses (int64, any shape); what is not `wanted` is 0."""
        buffer = self._likely(addresses, wanted)
        if buffer is not None:
            assert buffer.words is not None
            offsets = masked(addresses - buffer.address, wanted)
            if int(offsets.view(np.uint64).max()) + size <= buffer.size:
                return cleared(buffer.words.gather(offsets, size), wanted)
        flat = addresses.reshape(-1)
        lanes = np.arange(flat.size) if wanted is None else np.flatnonzero(wanted)
        values = np.zeros(
            flat.shape if size < 4 else (size // 4, flat.size),
            {1: np.uint8, 2: np.uint16}.get(size, np.uint32),
        )
        for part, words, offsets in self._parts(flat[lanes], size, outside, writes=False):
            values[..., lanes[part]] = words.gather(offsets, size)
        return values.reshape(values.shape[:-1] + addresses.shape)

    def write(self, addresses: Array, values: Array, size: int, outside: Outside) -> None:
        """`MemoryWords.scatter` at addresses (int64, one-dimensional)."""
        buffer = self._likely(addresses, None)
        if buffer is not None:
            assert buffer.words is not None
            offsets = addresses - buffer.address
            if int(offsets.view(np.uint64).max()) + size <= buffer.size:
                buffer.words.scatter(offsets, values, size)
                return
        for lanes, words, offsets in self._parts(addresses, size, outside, writes=True):
            words.scatter(offsets, values[..., lanes], size)

    def _likely(self, addresses: Array, wanted: Array | None) -> Buffer | None:
        """The buffer of the first address that is wanted: an access rarely leaves it."""
        if not addresses.size:
            return None
        flat = addresses.reshape(-1)
        if wanted is None:
            return self.buffer_at(int(flat[0]))
        first = int(wanted.argmax())
        return self.buffer_at(int(flat[first])) if wanted.reshape(-1)[first] else None

    def _parts(
        self, addresses: Array, size: int, outside: Outside, *, writes: bool
    ) -> list[tuple[Array, MemoryWords, Array]]:
        """Splits an access by buffer: lanes, the buffer's words, offsets; others are reported."""
        starts = np.array(self.starts, I64)
        ends = np.array([buffer.end for buffer in self.buffers], I64)
        position = np.searchsorted(starts, addresses, side="right") - 1
        inside = position >= 0
        if len(self.buffers):
            inside &= addresses + size <= ends[np.maximum(position, 0)]
        else:
            inside[:] = False
        if not inside.all():
            outside(addresses[~inside], size, writes)
        parts = []
        for index in np.unique(position[inside]):
            lanes = np.flatnonzero(inside & (position == index))
            buffer = self.buffers[index]
            assert buffer.words is not None
            parts.append((lanes, buffer.words, addresses[lanes] - buffer.address))
        return parts


class LocalMemory:
    """LDS of the resident workgroups, `size` bytes each; a slot's LDS starts at slot * `stride`."""

    def __init__(self, size: int, slots: int) -> None:
        self.size = size
        self.stride = (size + 15) & ~15
        self.words = MemoryWords(
            np.zeros(self.stride * slots + PADDING, np.uint8), self.stride * slots
        )


class PrivateMemory:
    """Scratch of all lanes of the resident waves: `size` bytes each, `stride` apart."""

    def __init__(self, size: int, waves: int, waves_each: int, lanes: int) -> None:
        self.size = size
        self.stride = (size + 15) & ~15
        self.waves_each = waves_each
        total = self.stride * waves * lanes
        self.words = MemoryWords(np.zeros(total + PADDING, np.uint8), total)
