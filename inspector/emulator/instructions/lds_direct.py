"""Copies between memory and LDS that pass no register, and loads that transpose."""

from __future__ import annotations

from typing import Final

import numpy as np

from ...isa.dataflow.operands import M0, Decoded
from ..delivery import issue
from ..machine import picked
from ..registry import BuildContext, NotCoveredError, Step, builds_matching
from ..vector_operands import check_count
from ..waves import U32, Array, Waves
from .addressing import Addresses, flat_addresses, form_of, private_addresses
from .buffers import buffer_addresses
from .spaces import access_of, lds_places, read_global, read_lds, read_registers, usable_lanes

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
