"""Loads from memory straight into LDS, and reads of LDS that transpose.

A lane's data goes to M0 + the instruction's offset + lane number * bytes, once the wait lets it
(CDNA3 ISA, 9.1.9 "Memory Buffer Load to LDS"; CDNA4 ISA for 96 and 128 bits).
"""

from __future__ import annotations

import re
from typing import Final

import numpy as np

from ..access import NotCoveredError
from ..delivery import deliver, issue
from ..operands import M0, Decoded
from ..registry import Context, Step, builds_matching
from ..waves import U32, Array, Waves
from .global_memory import Addresses, buffer_addresses, extended, flat_addresses, form_of
from .lds import places

I64 = np.int64


def load_to_lds(decoded: Decoded, context: Context) -> Step:
    """`buffer_load_dword v0, s[0:3], 0 offen lds`, `global_load_lds_dwordx4 v[0:1], off`."""
    form = form_of(decoded.name)
    addresses: Addresses
    if form.space == "buffer":
        addresses = buffer_addresses(decoded, context, decoded.operands, form.size)
    else:
        addresses = flat_addresses(decoded, decoded.operands[0], decoded.operands[1:])
    offset = decoded.number("offset")
    size = max(form.size, 4)
    lane_offset = (np.arange(context.target.lanes) * size).astype(U32)

    def complete(waves: Waves, arrays: tuple[Array, ...]) -> None:
        where, written, *rows = arrays
        values = np.stack(rows)[:, written]
        machine = waves.machine
        machine.before_lds(context.index, waves, where, written, size, values)
        machine.local.words.scatter(where[written], values, size)
        machine.after_lds(context.index, waves, where, written, size, values)

    def step(waves: Waves) -> None:
        source, inside = addresses(waves)
        usable = waves.active if inside is None else waves.active & inside
        machine = waves.machine
        machine.touched(context.index, waves, source, usable, form.size)
        picked = machine.memory.read(source[usable], form.size, machine.outside(context.index))
        rows = np.zeros((max(form.size // 4, 1), waves.count, waves.lanes), U32)
        rows[:, usable] = extended(picked, form)  # lanes out of range bring 0
        base = (waves.scalar[M0] + U32(offset))[:, None] + lane_offset
        where, within = places(waves, context, base, 0, size)
        written = waves.active if within is None else waves.active & within
        issue(waves, context, complete, (where, written.copy(), *rows))

    return step


_TRANSPOSED: Final = re.compile(r"ds_read_b(64|96)_tr_b(4|6|8|16)")


@builds_matching(r"ds_read_b(64|96)_tr_b(4|6|8|16)")
def read_transposed(decoded: Decoded, context: Context) -> Step:
    """DS_READ_B64_TR_B16 and its like of gfx950.

    16 lanes read a matrix of 16 columns, row after row, each lane its part of a row; then lane i
    gets column i: element j of its result is element i of row j (CDNA4 ISA, 11.4).
    """
    match = _TRANSPOSED.fullmatch(decoded.name)
    assert match is not None
    size, bits = int(match[1]) // 8, int(match[2])
    target, address = decoded.operands
    offset = decoded.number("offset")

    def step(waves: Waves) -> None:
        where, inside = places(waves, context, waves.u32[address.first], offset, size)
        usable = waves.active if inside is None else waves.active & inside
        waves.machine.before_lds(context.index, waves, where, usable, size, None)
        words = waves.machine.local.words.gather(np.where(usable, where, 0), size)
        words = np.where(usable, words, U32(0)).transpose(1, 2, 0)  # [wave, lane, dword]
        elements = _unpacked(np.ascontiguousarray(words), bits)
        per_lane = elements.shape[-1]
        matrix = elements.reshape(waves.count, waves.lanes // 16, per_lane, 16)
        columns = matrix.transpose(0, 1, 3, 2).reshape(waves.count, waves.lanes, per_lane)
        rows = _packed(columns, bits).transpose(2, 0, 1)
        deliver(waves, context, target, np.ascontiguousarray(rows), None)

    return step


def _unpacked(words: Array, bits: int) -> Array:
    """uint32 [..., dword] -> elements of `bits` bits, the lowest first."""
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


__all__ = ["NotCoveredError", "load_to_lds", "read_transposed"]
