"""Reads and writes of all lanes in each memory: global, LDS, private; flat addresses lead to all.

`usable` is bool [wave, lane], or None where every lane takes part; what is not usable reads 0.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np
from msgspec import Struct

from ..machine import LaneAccess, picked
from ..memory import PRIVATE_APERTURE, SHARED_APERTURE, cleared, masked
from ..registry import BuildContext
from ..waves import U32, Array, Waves
from .addressing import I64, AccessForm, extended

Read = Callable[[LaneAccess], Array]
"""Values as `MemoryWords.gather` has them; places are those in the lane's or workgroup's memory."""
Write = Callable[[LaneAccess, "StoredRegisters"], object]


def usable_lanes(waves: Waves, inside: Array | None) -> Array | None:
    """Active lanes that are in range; None for all."""
    if inside is None:
        return None if waves.full else waves.active
    return inside if waves.full else waves.active & inside


def access_of(
    waves: Waves, context: BuildContext, where: Array, usable: Array | None, size: int
) -> LaneAccess:
    """An instruction's access at some places."""
    return LaneAccess(context.index, waves, where, usable, size, context.coherent)


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


def lds_places(waves: Waves, site: int, inner: Array, size: int) -> tuple[Array, Array | None]:
    """Byte offsets in the memory of all workgroups, int64 [wave, lane], and which are inside.

    What lies past the workgroup's LDS reads 0 and is not written. `inner`: addresses in the
    workgroup's LDS, uint32 [wave, lane].
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
        waves.machine.outside_lds(site, waves, inner, bad, size)
    return where, inside


def in_lds(access: LaneAccess) -> LaneAccess:
    """An access by addresses in the workgroup's LDS, as one of the memory of all workgroups."""
    where, inside = lds_places(access.waves, access.site, access.where, access.size)
    return access.placed(where, both(access.usable, inside))


def in_private(access: LaneAccess) -> LaneAccess:
    """An access by addresses in each lane's private memory, as one of the memory of all lanes."""
    waves, inner, private = access.waves, access.where, access.waves.machine.private
    inside = (inner >= 0) & (inner <= private.size - access.size)
    bad = waves.active & ~inside
    if bad.any():
        waves.machine.outside_scratch(access.site, inner[bad])
    resident = waves.workgroup.astype(I64) * private.waves_each + waves.wave
    lane = resident[:, None] * waves.lanes + np.arange(waves.lanes)
    usable = access.usable if inside.all() else both(access.usable, inside)
    return access.placed(lane * private.stride + inner, usable)


def both(first: Array | None, second: Array | None) -> Array | None:
    """Returns the lanes that are in both sets; None stands for all lanes."""
    if first is None or second is None:
        return second if first is None else first
    return first & second


def read_global(access: LaneAccess) -> Array:
    """Reads from addresses of global memory."""
    values: Array = access.waves.machine.read_global(access)
    return values


def read_lds(access: LaneAccess) -> Array:
    """Reads from addresses in the workgroup's LDS."""
    values: Array = access.waves.machine.read_lds(in_lds(access))
    return values


def read_private(access: LaneAccess) -> Array:
    """Reads from addresses in the lanes' private memory."""
    access = in_private(access)
    words = access.waves.machine.private.words
    return cleared(words.gather(masked(access.where, access.usable), access.size), access.usable)


def read_flat(access: LaneAccess) -> Array:
    """Reads from flat addresses, in whichever memory they lead to."""
    parts = flat_parts(access.where, access.usable)
    if parts is None:
        return read_global(access)
    values: Array | None = None
    for name, places, lanes in parts:
        part = READS[name](access.placed(places, lanes))
        values = part if values is None else values | part
    assert values is not None
    return values


def read_registers(
    waves: Waves, context: BuildContext, form: AccessForm, where: Array, inside: Array | None
) -> Array:
    """What a load brings, uint32 [register, wave, lane].

    Dwords are loaded one by one where only some of a lane's are in range. `inside`: what is in
    range, as `addressing.Addresses` has it.
    """
    read = READS[form.space]
    if inside is None or inside.ndim == 2:
        usable = usable_lanes(waves, inside)
        return extended(read(access_of(waves, context, where, usable, form.size)), form)
    return np.concatenate(
        [
            read(access_of(waves, context, where + 4 * part, usable_lanes(waves, lanes), 4))
            for part, lanes in enumerate(inside)
        ]
    )


def write_global(access: LaneAccess, registers: StoredRegisters) -> None:
    """Stores registers to addresses."""
    lanes = access.lanes
    values = registers.values(access.waves, access.size, lanes)
    access.waves.machine.write_global(access, values, lanes)


def write_lds(access: LaneAccess, registers: StoredRegisters) -> tuple[Array, Array]:
    """Stores registers to LDS; returns the places and lanes (`delivery.issue`)."""
    access, waves = in_lds(access), access.waves
    lanes = access.lanes
    waves.machine.write_lds(access, registers.values(waves, access.size, lanes), lanes)
    return access.where, waves.active if access.usable is None else access.usable


def write_private(access: LaneAccess, registers: StoredRegisters) -> None:
    """Stores registers to private memory."""
    access, waves = in_private(access), access.waves
    lanes = access.lanes
    values = registers.values(waves, access.size, lanes)
    waves.machine.private.words.scatter(picked(access.where, lanes), values, access.size)


def write_flat(access: LaneAccess, registers: StoredRegisters) -> None:
    """Stores registers to flat addresses."""
    parts = flat_parts(access.where, access.usable)
    if parts is None:
        write_global(access, registers)
        return
    for name, places, lanes in parts:
        WRITES[name](access.placed(places, lanes), registers)


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
