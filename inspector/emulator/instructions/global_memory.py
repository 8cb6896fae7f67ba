"""Loads and stores: `global_*`, `flat_*`, `buffer_*`, `scratch_*`, through registers or into LDS.

Addresses: CDNA3 ISA 9.1 (buffer), 10 (flat and global); RDNA3 ISA 9 and 11. Loads that transpose
small matrices between lanes, of global memory and LDS, are here too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np
from msgspec.structs import replace

from ...isa.dataflow.operands import M0, Decoded, Operand
from ..delivery import deliver, issue
from ..machine import picked
from ..registry import BuildContext, NotCoveredError, Step, builds, builds_matching
from ..vector_operands import check_count
from ..waves import U32, Array, Waves
from .buffers import buffer_addresses
from .spaces import (
    I64,
    WRITES,
    AccessForm,
    Addresses,
    StoredRegisters,
    access_of,
    flat_addresses,
    form_of,
    lds_places,
    place_in_register,
    private_addresses,
    read_global,
    read_lds,
    read_registers,
    stack_addresses,
    usable_lanes,
)

NOWHERE: Final = U32(0x7FFFFFFF)
"""LDS address by which Triton says that a lane takes no part (its lowering of masked copies)."""


def load_to_lds(decoded: Decoded, context: BuildContext) -> Step:
    """`buffer_load_dword v0, s[0:3], 0 offen lds`, `global_load_lds_dwordx4 v[0:1], off`.

    A lane's data goes to M0 + the instruction's offset + lane number * 4, or * 16 for 96 and 128
    bits, once the wait lets it (CDNA4 ISA, 9.1.9 and 10.3). Lanes that are out of range bring 0.
    M0 gives 16 bits up to gfx942 and 18 on gfx950 to `buffer_*`; of them the others ignore two.
    """
    if "_async_" in decoded.name:
        raise NotCoveredError(decoded.text)
    form = form_of(decoded.name)
    addresses: Addresses
    operands = decoded.operands
    if form.space == "buffer":
        addresses = buffer_addresses(decoded, context, operands, form.size)
    elif form.space == "scratch":
        addresses = private_addresses(decoded, operands[0], operands[1:])
    else:
        addresses = flat_addresses(decoded, context, operands[0], operands[1:], form.size)
    offset = decoded.number("offset")
    size = max(form.size, 4)
    step_bytes = 4 if size == 4 else 16
    lane_offset = (np.arange(context.target.lanes) * step_bytes + offset).astype(U32)
    known = 0x3FFFF if context.target.arch == "gfx950" or form.space != "buffer" else 0xFFFF
    mask = U32(known if form.space == "buffer" else known & ~3)

    def step(waves: Waves) -> None:
        rows = read_registers(waves, context, form, *addresses(waves))
        base = (waves.scalar[M0] & mask)[:, None] + lane_offset
        _put_later(waves, context, base, rows, size)

    return step


def _put_later(
    waves: Waves,
    context: BuildContext,
    inner: Array,
    rows: Array,
    size: int,
    taking: Array | None = None,
) -> None:
    """Writes [dword, wave, lane] to LDS addresses when the wait lets it; `taking`: which lanes."""
    where, inside = lds_places(waves, context.index, inner, size)
    if taking is not None:
        inside = taking if inside is None else inside & taking
    usable = usable_lanes(waves, inside)

    def complete(waves: Waves, arrays: tuple[Array, ...]) -> None:
        places, *words = arrays
        written = words.pop() if usable is not None else None
        access = access_of(waves, context, places, written, size)
        lanes = access.lanes
        values = np.stack([picked(word, lanes) for word in words])
        waves.machine.write_lds(access, values if size >= 4 else values[0], lanes)

    mask = () if usable is None else (usable.copy(),)
    issue(waves, context, complete, (where, *rows, *mask))


@builds_matching(r"global_load_async_to_lds_b(8|32|64|128)")
def load_async(decoded: Decoded, context: BuildContext) -> Step:
    """`global_load_async_to_lds_b128 v1, v8, s[4:5] offset:16`: each lane names its LDS address.

    The offset counts for both addresses (LLVM, IntrinsicsAMDGPU.td, AMDGPUAsyncGlobalLoadToLDS).
    """
    form = form_of(decoded.name)
    target, lane, *base = decoded.operands
    check_count(target, 1)
    addresses = flat_addresses(decoded, context, lane, tuple(base), form.size)
    offset = U32(decoded.number("offset") & 0xFFFFFFFF)

    def step(waves: Waves) -> None:
        where, _ = addresses(waves)
        named = waves.u32[target.first]
        # Lanes that would write outside of LDS read nothing (CDNA4 ISA, 9.1.9.1).
        taking = named != NOWHERE
        everyone = bool(taking.all())
        usable = usable_lanes(waves, None if everyone else taking)
        values = read_global(access_of(waves, context, where, usable, form.size))
        if form.size == 1:
            values = values[None]
        inner = named + offset if everyone else np.where(taking, named + offset, U32(0))
        _put_later(waves, context, inner, values, form.size, None if everyone else taking)

    return step


@builds_matching(r"global_store_async_from_lds_b(8|32|64|128)")
def store_async(decoded: Decoded, context: BuildContext) -> Step:
    """`global_store_async_from_lds_b64 v8, v1, s[4:5]`: address, LDS address."""
    form = form_of(decoded.name)
    lane, source, *base = decoded.operands
    check_count(source, 1)
    addresses = flat_addresses(decoded, context, lane, tuple(base), form.size)
    offset = U32(decoded.number("offset") & 0xFFFFFFFF)

    def step(waves: Waves) -> None:
        where, _ = addresses(waves)
        usable = usable_lanes(waves, None)
        inner = waves.u32[source.first] + offset
        values = read_lds(access_of(waves, context, inner, usable, form.size))
        access = access_of(waves, context, where, usable, form.size)
        lanes = access.lanes
        rows = values if form.size >= 4 else values[None]
        chosen = np.stack([picked(row, lanes) for row in rows])
        chosen = chosen if form.size >= 4 else chosen[0]
        waves.machine.write_global(access, chosen, lanes)
        issue(waves, context)

    return step


@builds_matching(r"(global|flat|buffer|scratch)_(load|store)_\w+")
def build(decoded: Decoded, context: BuildContext) -> Step:
    """A load or store through registers, or a load into LDS (`lds`)."""
    form = form_of(decoded.name)
    if "lds" in decoded.modifiers or "_lds_" in decoded.name:
        return load_to_lds(decoded, context)
    operands = decoded.operands
    if form.space == "buffer":
        data, *others = operands
        if context.private:
            addresses = stack_addresses(decoded, context, tuple(others))
            return _step(replace(form, space="scratch"), context, data, addresses)
        addresses = buffer_addresses(decoded, context, tuple(others), form.size)
    else:
        data, lane = (operands[1], operands[0]) if form.writes else operands[:2]
        if form.space == "scratch":
            addresses = private_addresses(decoded, lane, operands[2:])
        else:
            addresses = flat_addresses(decoded, context, lane, operands[2:], form.size)
    return _step(form, context, data, addresses)


def _step(form: AccessForm, context: BuildContext, data: Operand, addresses: Addresses) -> Step:
    """Returns the step of a load or a store."""
    check_count(data, form.registers)
    make = _store if form.writes else _load
    return make(form, context, data, addresses)


def _load(form: AccessForm, context: BuildContext, data: Operand, addresses: Addresses) -> Step:
    """Returns the step of a load."""
    half = form.half if form.half is not None else data.half

    def step(waves: Waves) -> None:
        rows = read_registers(waves, context, form, *addresses(waves))
        placed, kept_half = place_in_register(rows, half, context)
        deliver(waves, context, data, placed, kept_half)

    return step


def _store(form: AccessForm, context: BuildContext, data: Operand, addresses: Addresses) -> Step:
    """Returns the step of a store; dwords are stored one by one where only some are in range."""
    size = form.size
    half = form.half if form.half is not None else data.half or 0
    registers = StoredRegisters(data.first, half)
    dwords = [StoredRegisters(data.first + number) for number in range(form.registers)]
    write = WRITES[form.space]

    def step(waves: Waves) -> None:
        where, inside = addresses(waves)
        if inside is not None and inside.ndim == 3:
            for part, lanes in enumerate(inside):
                usable = usable_lanes(waves, lanes)
                write(access_of(waves, context, where + 4 * part, usable, 4), dwords[part])
        else:
            usable = usable_lanes(waves, inside)
            write(access_of(waves, context, where, usable, size), registers)
        issue(waves, context)

    return step


@builds("global_load_addtid_b32", "global_store_addtid_b32")
def by_lane_number(decoded: Decoded, context: BuildContext) -> Step:
    """Lane i accesses the base in SGPRs + offset + 4 * i (RDNA3 ISA, 16.20)."""
    data, base = decoded.operands
    if base.kind != "sgpr" or base.is_null:
        raise NotCoveredError(decoded.text)
    check_count(base, 2)
    steps = np.arange(context.target.lanes) * 4 + decoded.number("offset")

    def addresses(waves: Waves) -> tuple[Array, Array | None]:
        return waves.pair(base.first).view(I64)[:, None] + steps, None

    form = AccessForm("global", "store" in decoded.name, 4, signed=False, half=None)
    return _step(form, context, data, addresses)


Origin = Callable[[int], "tuple[Array, Array]"]
"""Lanes of a wave -> for each lane and element of its result [lane, element]: the lane that reads
it, and which of that lane's elements it is."""


def columns_of_16(elements: int) -> Origin:
    """gfx950: 16 lanes read a matrix of 16 columns, row after row; lane i gets column i."""

    def origin(lanes: int) -> tuple[Array, Array]:
        lane = np.arange(lanes)[:, None]
        position = np.arange(elements) * 16 + (lane & 15)
        return (lane & ~15) + position // elements, position % elements

    return origin


def eight_by_eight_16(lanes: int) -> tuple[Array, Array]:
    """gfx1250, 16 bits: 8 lanes transpose their 8 x 8 elements."""
    lane, element = np.arange(lanes)[:, None], np.arange(8)[None]
    return (lane & ~7) + element, (lane & 7) + 0 * element


def eight_by_eight_8(lanes: int) -> tuple[Array, Array]:
    """gfx1250, 8 bits: as with 16, but 8 lanes take from two runs of 4.

    Lane 8 of a result comes from lane 4 on, element 4 of it from lane 8 on (Triton's lowering of
    local_load to ds_load_tr8_b64).
    """
    lane, element = np.arange(lanes)[:, None], np.arange(8)[None]
    source = (lane & 16) + ((lane & 8) >> 1) + (element & 3) + ((element & 4) << 1)
    return source, (lane & 7) + 0 * element


_TRANSPOSED: Final[dict[str, tuple[int, int, Origin]]] = {
    # Name -> bytes of a lane, bits of an element, where a result's elements come from.
    "ds_read_b64_tr_b16": (8, 16, columns_of_16(4)),
    "ds_read_b64_tr_b8": (8, 8, columns_of_16(8)),
    "ds_read_b64_tr_b4": (8, 4, columns_of_16(16)),
    "ds_read_b96_tr_b6": (12, 6, columns_of_16(16)),
    "ds_load_tr16_b128": (16, 16, eight_by_eight_16),
    "ds_load_tr8_b64": (8, 8, eight_by_eight_8),
    "global_load_tr16_b128": (16, 16, eight_by_eight_16),
    "global_load_tr8_b64": (8, 8, eight_by_eight_8),
}


@builds(*_TRANSPOSED)
def read_transposed(decoded: Decoded, context: BuildContext) -> Step:
    """Each lane reads its bytes; then elements change lanes by a fixed pattern.

    Sources: CDNA4 ISA, 11.4 "MFMA Transpose Load from LDS", and CDNA5 ISA, 10.9 (global) and 11.2.4
    (LDS): every lane must be active.
    """
    size, bits, pattern = _TRANSPOSED[decoded.name]
    target, address, *base = decoded.operands
    check_count(target, size // 4)
    lane, element = pattern(context.target.lanes)
    offset = U32(decoded.number("offset") & 0xFFFFFFFF)
    in_lds = decoded.name.startswith("ds_")
    addresses = None
    if in_lds:
        check_count(address, 1)
    else:
        addresses = flat_addresses(decoded, context, address, tuple(base), size)

    def step(waves: Waves) -> None:
        if not waves.full:
            raise NotCoveredError(f"{decoded.text} with idle lanes")
        if addresses is None:
            inner = waves.u32[address.first] + offset
            words = read_lds(access_of(waves, context, inner, None, size))
        else:
            where, _ = addresses(waves)
            words = read_global(access_of(waves, context, where, None, size))
        elements = _unpacked(np.ascontiguousarray(words.transpose(1, 2, 0)), bits)
        rows = _packed(elements[:, lane, element], bits).transpose(2, 0, 1)
        deliver(waves, context, target, rows, None)

    return step


def _unpacked(words: Array, bits: int) -> Array:
    """uint32 [wave, lane, dword] -> elements [wave, lane, element], the lowest first."""
    if bits in (8, 16):
        return words.view(np.uint8 if bits == 8 else np.uint16)
    flat = np.unpackbits(words.view(np.uint8), axis=-1, bitorder="little")
    return flat.reshape(*flat.shape[:-1], -1, bits)


def _packed(elements: Array, bits: int) -> Array:
    contiguous = np.ascontiguousarray(elements)
    if bits in (8, 16):
        return contiguous.view(U32)
    flat = contiguous.reshape(*contiguous.shape[:2], -1)
    return np.packbits(flat, axis=-1, bitorder="little").view(U32)
