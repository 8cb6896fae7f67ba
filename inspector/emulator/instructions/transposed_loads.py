"""Loads from LDS and global memory that transpose small matrices between lanes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np

from ...isa.dataflow.operands import Decoded
from ..delivery import deliver
from ..registry import BuildContext, NotCoveredError, Step, builds
from ..vector_operands import check_count
from ..waves import U32, Array, Waves
from .addressing import flat_addresses
from .spaces import access_of, read_global, read_lds

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
    """uint32 [wave, lane, dword] -> elements [wave, lane, element], the lowest first.

    Elements of 4 and 6 bits are bool [wave, lane, element, bit].
    """
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
