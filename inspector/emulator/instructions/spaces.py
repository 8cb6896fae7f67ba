"""Reads and writes of all lanes in each memory: global, LDS, private; flat addresses lead to all.

`usable` is bool [wave, lane], or None where every lane takes part; what is not usable reads 0.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np
from msgspec import Struct

from ..memory import PRIVATE_APERTURE, SHARED_APERTURE, cleared, masked
from ..registry import BuildContext
from ..waves import U32, Array, Waves
from .addressing import I64, AccessForm, extended

Read = Callable[[Waves, BuildContext, Array, "Array | None", int], Array]
"""Waves, context, places [wave, lane], usable, bytes -> values as `MemoryWords.gather` has"""
Write = Callable[[Waves, BuildContext, Array, "Array | None", int, "StoredRegisters"], object]
"""The same, and the registers whose contents are written."""


def usable_lanes(waves: Waves, inside: Array | None) -> Array | None:
    """Active lanes that are in range; None for all."""
    if inside is None:
        return None if waves.full else waves.active
    return inside if waves.full else waves.active & inside


def lanes_of(usable: Array | None) -> Array | None:
    """Numbers of the lanes in all waves; None for all. A tenth of what a boolean index costs."""
    return None if usable is None else np.flatnonzero(usable)


def picked(values: Array, lanes: Array | None) -> Array:
    """[wave, lane] -> [lane] of those lanes."""
    flat = values.reshape(-1)
    return flat if lanes is None else flat.take(lanes)


class StoredRegisters(Struct, frozen=True):
    """The registers whose contents lanes store.

    `half`: which half of it, for 1 and 2 bytes.
    """

    first: int
    half: int = 0

    def values(self, waves: Waves, size: int, lanes: Array | None) -> Array:
        """Returns the `size` bytes that each lane stores, as `MemoryWords.scatter` takes them."""
        count = max(size // 4, 1)
        block = waves.u32[self.first : self.first + count].reshape(count, -1)
        if lanes is not None:
            chosen = np.empty((count, len(lanes)), U32)
            for row in range(count):
                block[row].take(lanes, out=chosen[row])
            block = chosen
        if size >= 4:
            return block
        return (block[0] >> U32(16 * self.half)).astype(np.uint8 if size == 1 else np.uint16)


def lds_places(
    waves: Waves, context: BuildContext, inner: Array, size: int
) -> tuple[Array, Array | None]:
    """Byte offsets in the memory of all workgroups, int64 [wave, lane], and which are inside.

    What lies past the workgroup's LDS reads 0 and is not written.

    `inner`: addresses in the workgroup's LDS, uint32 [wave, lane].
    """
    local = waves.machine.local
    base = (waves.workgroup.astype(I64) * local.stride)[:, None]
    where = inner.astype(I64)
    last = local.size - size
    if int(inner.max()) <= last:
        where += base
        return where, None
    inside = where <= last
    where += base
    bad = waves.active & ~inside
    if bad.any():
        waves.machine.outside_lds(context.index, waves, inner, bad, size)
    return where, inside


def private_places(
    waves: Waves, context: BuildContext, inner: Array, size: int
) -> tuple[Array, Array | None]:
    """Byte offsets in all lanes' private memory, int64 [wave, lane], and which are inside.

    `inner`: addresses in the lane's private memory, int64 [wave, lane].
    """
    private = waves.machine.private
    inside = (inner >= 0) & (inner <= private.size - size)
    bad = waves.active & ~inside
    if bad.any():
        waves.machine.outside_scratch(context.index, inner[bad])
    resident = waves.workgroup.astype(I64) * private.waves_each + waves.wave
    lane = resident[:, None] * waves.lanes + np.arange(waves.lanes)
    return lane * private.stride + inner, None if inside.all() else inside


def both(first: Array | None, second: Array | None) -> Array | None:
    """Returns the lanes that are in both sets; None stands for all lanes."""
    if first is None or second is None:
        return second if first is None else first
    return first & second


def read_global(
    waves: Waves, context: BuildContext, where: Array, usable: Array | None, size: int
) -> Array:
    """Reads from addresses of global memory."""
    machine = waves.machine
    machine.before_global(context, waves, where, usable, size)
    values: Array = machine.memory.read(where, size, machine.outside(context.index), usable)
    return values


def read_lds(
    waves: Waves, context: BuildContext, inner: Array, usable: Array | None, size: int
) -> Array:
    """Reads from addresses in the workgroup's LDS."""
    where, inside = lds_places(waves, context, inner, size)
    usable = both(usable, inside)
    waves.machine.before_lds(context.index, waves, where, usable, size, None)
    words = waves.machine.local.words
    return cleared(words.gather(masked(where, usable), size), usable)


def read_private(
    waves: Waves, context: BuildContext, inner: Array, usable: Array | None, size: int
) -> Array:
    """Reads from addresses in the lanes' private memory."""
    where, inside = private_places(waves, context, inner, size)
    usable = both(usable, inside)
    words = waves.machine.private.words
    return cleared(words.gather(masked(where, usable), size), usable)


def read_flat(
    waves: Waves, context: BuildContext, where: Array, usable: Array | None, size: int
) -> Array:
    """Reads from flat addresses, in whichever memory they lead to."""
    parts = flat_parts(where, usable)
    if parts is None:
        return read_global(waves, context, where, usable, size)
    values: Array | None = None
    for name, places, lanes in parts:
        part = READS[name](waves, context, places, lanes, size)
        values = part if values is None else values | part
    assert values is not None
    return values


def read_registers(
    waves: Waves, context: BuildContext, form: AccessForm, where: Array, inside: Array | None
) -> Array:
    """What a load brings, uint32 [register, wave, lane].

    Dwords are loaded one by one where only some of a lane's are in range.

    `inside`: what is in range, as `addressing.Addresses` has it.
    """
    read = READS[form.space]
    if inside is None or inside.ndim == 2:
        usable = usable_lanes(waves, inside)
        return extended(read(waves, context, where, usable, form.size), form)
    return np.concatenate(
        [
            read(waves, context, where + 4 * part, usable_lanes(waves, lanes), 4)
            for part, lanes in enumerate(inside)
        ]
    )


def write_global(
    waves: Waves,
    context: BuildContext,
    where: Array,
    usable: Array | None,
    size: int,
    registers: StoredRegisters,
) -> None:
    """Stores registers to addresses."""
    lanes = lanes_of(usable)
    values = registers.values(waves, size, lanes)
    put_global(waves, context, where, usable, size, values, lanes=lanes)


def put_global(
    waves: Waves,
    context: BuildContext,
    where: Array,
    usable: Array | None,
    size: int,
    values: Array,
    *,
    lanes: Array | None,
) -> None:
    """Writes values of some lanes to addresses; `lanes` are the numbers of the usable ones."""
    machine = waves.machine
    machine.before_global(context, waves, where, usable, size, values)
    machine.memory.write(picked(where, lanes), values, size, machine.outside(context.index))
    machine.after_global(context)


def write_lds(
    waves: Waves,
    context: BuildContext,
    inner: Array,
    usable: Array | None,
    size: int,
    registers: StoredRegisters,
) -> tuple[Array, Array]:
    """Stores registers to LDS; returns the places and lanes (`delivery.issue`)."""
    where, inside = lds_places(waves, context, inner, size)
    usable = both(usable, inside)
    lanes = lanes_of(usable)
    values = registers.values(waves, size, lanes)
    put_lds(waves, context, where, usable, size, values, lanes=lanes)
    return where, waves.active if usable is None else usable


def put_lds(
    waves: Waves,
    context: BuildContext,
    where: Array,
    usable: Array | None,
    size: int,
    values: Array,
    *,
    lanes: Array | None,
) -> None:
    """Writes values of some lanes to offsets in all workgroups' LDS; see `put_global`."""
    machine = waves.machine
    machine.before_lds(context.index, waves, where, usable, size, values)
    machine.local.words.scatter(picked(where, lanes), values, size)
    machine.after_lds(context.index, waves, where, usable, size, values)


def write_private(
    waves: Waves,
    context: BuildContext,
    inner: Array,
    usable: Array | None,
    size: int,
    registers: StoredRegisters,
) -> None:
    """Stores registers to private memory."""
    where, inside = private_places(waves, context, inner, size)
    lanes = lanes_of(both(usable, inside))
    values = registers.values(waves, size, lanes)
    waves.machine.private.words.scatter(picked(where, lanes), values, size)


def write_flat(
    waves: Waves,
    context: BuildContext,
    where: Array,
    usable: Array | None,
    size: int,
    registers: StoredRegisters,
) -> None:
    """Stores registers to flat addresses."""
    parts = flat_parts(where, usable)
    if parts is None:
        write_global(waves, context, where, usable, size, registers)
        return
    for name, places, lanes in parts:
        WRITES[name](waves, context, places, lanes, size, registers)


def flat_parts(where: Array, usable: Array | None) -> list[tuple[str, Array, Array]] | None:
    """The memories that flat addresses lead to: name, places in it, lanes; None for global alone.

    Upper halves that are the apertures' lead to LDS and private memory (AMDGPUUsage, "Flat").
    """
    upper = where >> 32
    in_lds, in_private = upper == SHARED_APERTURE >> 32, upper == PRIVATE_APERTURE >> 32
    if usable is not None:
        in_lds, in_private = in_lds & usable, in_private & usable
    if not (in_lds.any() or in_private.any()):
        return None
    in_global = ~(in_lds | in_private)
    if usable is not None:
        in_global &= usable
    parts = [
        ("global", where, in_global),
        ("lds", where.astype(U32), in_lds),
        ("scratch", where & I64(0xFFFFFFFF), in_private),
    ]
    return [part for part in parts if part[2].any()]


READS: Final[dict[str, Read]] = {
    "global": read_global,
    "buffer": read_global,
    "flat": read_flat,
    "scratch": read_private,
    "lds": read_lds,
}
WRITES: Final[dict[str, Write]] = {
    "global": write_global,
    "buffer": write_global,
    "flat": write_flat,
    "scratch": write_private,
    "lds": write_lds,
}
