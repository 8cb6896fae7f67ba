"""Where lanes point (`global_*`, `flat_*`, `scratch_*`); reads and writes there, in each memory.

`usable` is bool [wave, lane], or None where every lane takes part; what is not usable reads 0. Each
lane has its own private bytes from 0 on; their interleaving in memory is not observable. Sources:
CDNA3 ISA 10 (flat and global); RDNA3 ISA 11; CDNA4 ISA, 10.5 ("Scratch"); LLVM's AMDGPUUsage,
"Private Address Space".
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

import numpy as np
from msgspec import Struct

from ...isa.dataflow.operands import Decoded, Operand
from ..machine import LaneAccess, picked
from ..memory import PRIVATE_APERTURE, SHARED_APERTURE, cleared, masked
from ..registry import BuildContext, NotCoveredError
from ..vector_operands import check_count, raw
from ..waves import U32, Array, Waves

I64 = np.int64

Addresses = Callable[[Waves], tuple[Array, Array | None]]
"""Addresses of all lanes (int64 [wave, lane]) and which of them are in range: None for all, bool
[wave, lane], or [dword, wave, lane] where some lanes' accesses are so in part."""

_WIDTHS: Final = {
    "dword": 4, "dwordx2": 8, "dwordx3": 12, "dwordx4": 16,
    "b32": 4, "b64": 8, "b96": 12, "b128": 16,
    "ubyte": 1, "sbyte": 1, "byte": 1, "u8": 1, "i8": 1, "b8": 1,
    "ushort": 2, "sshort": 2, "short": 2, "u16": 2, "i16": 2, "b16": 2,
}  # fmt: skip
_NAME: Final = re.compile(
    r"(global|flat|buffer|scratch)_(load|store)_(lds_|async_to_lds_|async_from_lds_)?"
    r"(?:(d16)_)?(?:(hi)_)?"
    r"(dword(?:x[234])?|[us]?byte|[us]?short|[uib](?:8|16|32|64|96|128))(?:_(d16))?(?:_(hi))?"
)


class AccessForm(Struct, frozen=True):
    """An access as its mnemonic states it.

    Args:
        space: global, flat, buffer or scratch.
        size: bytes of each lane.
        signed: whether a byte or short is sign-extended.
        half: half of the register that a 16-bit form reads or writes; None for whole registers.
    """

    space: str
    writes: bool
    size: int
    signed: bool
    half: int | None

    @property
    def registers(self) -> int:
        """Registers of each lane."""
        return max(self.size // 4, 1)


def form_of(name: str) -> AccessForm:
    """Reads a mnemonic.

    >>> form_of("global_load_short_d16_hi").half
    1
    """
    match = _NAME.fullmatch(name)
    if match is None:
        raise NotCoveredError(name)
    space, verb, _, d16, hi, width, d16_behind, hi_behind = match.groups()
    half = 1 if hi or hi_behind else 0 if d16 or d16_behind else None
    signed = width in ("sbyte", "sshort", "i8", "i16")
    return AccessForm(space, verb == "store", _WIDTHS[width], signed, half)


def flat_addresses(
    decoded: Decoded, context: BuildContext, lane: Operand, base: tuple[Operand, ...], size: int
) -> Addresses:
    """`v[0:1], off` or `v0, s[0:1]`, with `offset`.

    gfx1250 takes the offset in a VGPR as signed and may scale it by the access' size (LLVM,
    GCNSubtarget::hasSignedGVSOffset, hasScaleOffset).
    """
    offset = I64(decoded.number("offset"))
    if base and base[0].kind == "sgpr" and not base[0].is_null:
        check_count(base[0], 2)
        check_count(lane, 1)
        row = base[0].first
        read = raw(lane) if lane.kind == "vgpr" else None
        signed = context.target.arch.startswith("gfx125")
        scale = size if decoded.flag("scale_offset") else 1

        def scalar_base(waves: Waves) -> tuple[Array, Array | None]:
            start = waves.pair(row).view(I64)[:, None] + offset
            if read is None:
                return np.broadcast_to(start, (waves.count, waves.lanes)), None
            places = read(waves)
            wide = (places.view(np.int32) if signed else places).astype(I64)
            if scale != 1:
                wide *= scale
            wide += start
            return wide, None

        return scalar_base
    if base and base[0].kind != "sgpr" and base[0].name != "off":
        raise NotCoveredError(f"{decoded.text}: address")
    if decoded.flag("scale_offset") or lane.kind != "vgpr" or lane.count != 2:
        raise NotCoveredError(f"{decoded.text}: address")
    row = lane.first

    def lane_base(waves: Waves) -> tuple[Array, Array | None]:
        where = waves.pair_of(row).view(I64)
        if offset:
            where += offset
        return where, None

    return lane_base


def extended(values: Array, form: AccessForm) -> Array:
    """A gathered result as uint32 [register, ...]."""
    if form.size >= 4:
        return values
    if form.signed:
        signed = values.view(np.int8 if form.size == 1 else np.int16)
        wide = signed.astype(np.int32).view(U32)
        return (wide & U32(0xFFFF) if form.half is not None else wide)[None]
    return values.astype(U32)[None]


def place_in_register(
    rows: Array, half: int | None, context: BuildContext
) -> tuple[Array, int | None]:
    """Returns a 16-bit result's bits in place, and the one half that is written; None for both.

    Where registers have ECC, a load of 16 bits writes the whole register and clears the half that
    is not meant (CDNA4 ISA, 9.1.6; LLVM, GCNSubtarget::d16PreservesUnusedBits).
    """
    if half is None or not context.target.d16_clears:
        return rows, half
    return (rows << U32(16) if half else rows), None


def private_addresses(decoded: Decoded, lane: Operand, base: tuple[Operand, ...]) -> Addresses:
    """`v2, s3 offset:4`; either address may be `off`. The sum has 32 bits."""
    offset = U32(decoded.number("offset") & 0xFFFFFFFF)
    if decoded.flag("scale_offset"):
        raise NotCoveredError(decoded.text)
    named = [operand for operand in (lane, *base[:1]) if operand.name != "off"]
    for operand in named:
        check_count(operand, 1)
    reads = [raw(operand) for operand in named]

    def addresses(waves: Waves) -> tuple[Array, Array | None]:
        total = np.full((waves.count, waves.lanes), offset)
        for read in reads:
            total = total + read(waves)
        return total.astype(I64), None

    return addresses


def stack_addresses(
    decoded: Decoded, context: BuildContext, operands: tuple[Operand, ...]
) -> Addresses:
    """`v0, s[0:3], s32 offen offset:4`, where s[0:3] are the stack's resource.

    The hardware interleaves the lanes' bytes; what a scalar offset adds counts for all lanes.
    """
    if decoded.flag("idxen"):
        raise NotCoveredError(f"{decoded.text}: indexed access of the stack")
    if operands[0].name == "off":
        operands = operands[1:]
    lane = operands[0] if operands[0].kind == "vgpr" else None
    scalar = operands[2] if lane is not None else operands[1]
    if lane is not None:
        check_count(lane, 1)
    check_count(scalar, 1)
    offset = I64(decoded.number("offset"))
    read = raw(lane) if lane is not None and decoded.flag("offen") else None
    base = raw(scalar)
    lanes = context.target.lanes

    def addresses(waves: Waves) -> tuple[Array, Array | None]:
        total = np.full((waves.count, waves.lanes), offset)
        if read is not None:
            total = total + read(waves).astype(I64)
        return total + np.asarray(base(waves)).astype(I64) // lanes, None

    return addresses


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
    range, as `Addresses` has it.
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
