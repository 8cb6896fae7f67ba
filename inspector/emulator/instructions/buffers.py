"""Buffer descriptors: where a `buffer_*` access points and what is in range.

Sources: CDNA4 ISA, 9.1.5 (addressing, range checking) and 9.1.8 (descriptor); RDNA3 ISA, 9.4 and
9.6; what OOB_SELECT means on gfx10 and gfx11: Mesa, radv_buffer_view.c; gfx1250's wider fields:
LLVM, AMDGPULegalizerInfo (45-bit number of records). The scalar offset takes no part in the check.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from msgspec import Struct

from ..operands import Decoded, Operand
from ..registry import Context, ExecutionTarget, NotCoveredError
from ..vector_operands import raw
from ..waves import U32, Array, Waves
from .addressing import I64, Addresses

_RAW, _UNCHECKED, _INDEX, _INDEX_AND_OFFSET = 3, 2, 1, 0
"""OOB_SELECT."""


class Resource(Struct):
    """Descriptors of all waves, int64 [wave]; `element` is 0 where addresses are not swizzled."""

    base: Array
    stride: Array
    records: Array
    element: Array
    index_stride: Array
    add_lane: Array
    check: Array

    @property
    def plain(self) -> bool:
        """Whether offsets simply add up."""
        return not (self.stride.any() or self.element.any() or self.add_lane.any())


def resource_of(waves: Waves, row: int, target: ExecutionTarget) -> Resource:
    """Reads descriptors from scalar registers."""
    low, high, third, fourth = (word.astype(I64) for word in waves.scalar[row : row + 4])
    zero = np.zeros_like(low)
    if target.arch.startswith("gfx125"):
        stride = fourth >> 12 & 0x3FFF
        if stride.any() or (fourth >> 26).any():
            raise NotCoveredError("a buffer with a stride on gfx1250")
        records = high >> 25 | third << 7 | (fourth & 63) << 39
        return Resource(
            low | (high & 0x1FFFFFF) << 32, zero, records, zero, zero, zero, zero + _RAW
        )
    stride = high >> 16 & 0x3FFF
    add_lane = fourth >> 23 & 1
    sizes = np.array([0, 4, 8, 16] if target.generation >= 11 else [0, 0, 4, 4])
    element = sizes[high >> 30]
    if target.generation == 9:
        stride = np.where(add_lane == 1, stride | (fourth >> 15 & 15) << 14, stride)
    return Resource(
        low | (high & 0xFFFF) << 32,
        stride,
        third,
        element,
        I64(8) << (fourth >> 21 & 3),
        add_lane,
        fourth >> 28 & 3 if target.generation >= 10 else zero + _RAW,
    )


def buffer_addresses(
    decoded: Decoded,
    context: Context,
    operands: tuple[Operand, ...],
    size: int,
    *,
    indivisible: bool = False,
) -> Addresses:
    """`v[0:1], s[0:3], s4 idxen offen offset:16`.

    Args:
        decoded: names the modifiers.
        context: the target.
        operands: from the address on.
        size: bytes of each lane.
        indivisible: an access is in range as a whole or not at all (atomics).
    """
    if decoded.flag("tfe") or decoded.flag("addr64"):
        raise NotCoveredError(decoded.text)
    if operands and operands[0].name == "off":
        operands = operands[1:]
    lane = operands[0] if operands[0].kind == "vgpr" else None
    resource, scalar_offset = operands[1:3] if lane is not None else operands[:2]
    offset = decoded.number("offset")
    row = resource.first
    target = context.target
    scalar = raw(scalar_offset)
    with_index, with_offset = decoded.flag("idxen"), decoded.flag("offen")
    index = raw(lane) if lane is not None and with_index else None
    read = raw(lane, int(with_index)) if lane is not None and with_offset else None
    starts = [0] if indivisible or size <= 4 else list(range(0, size, 4))
    each = size if indivisible or size <= 4 else 4
    is_raw = _raw_test(target)

    def addresses(waves: Waves) -> tuple[Array, Array | None]:
        # Raw buffers take a short way: offsets add up, and one comparison tells the range.
        beyond = np.asarray(scalar(waves)).astype(I64)
        words = waves.scalar[row : row + 4]
        if index is None and is_raw(words):
            start = (words[0].astype(I64) | words[1].astype(I64) << 32)[:, None]
            records = words[2].astype(I64)
        else:
            descriptors = resource_of(waves, row, target)
            start, records = descriptors.base[:, None], descriptors.records
            if index is not None or not descriptors.plain or (descriptors.check != _RAW).any():
                indices = None if index is None else index(waves).astype(I64)
                places = I64(offset) + (I64(0) if read is None else read(waves).astype(I64))
                inner, ranges = structured(
                    waves, descriptors, indices, places, target, starts, each, size=size
                )
                return inner + (start + beyond), ranges
        base = start + (I64(offset) + beyond)
        shape = (waves.count, waves.lanes)
        register_offset = (
            np.zeros((waves.count, 1), U32) if read is None else np.asarray(read(waves))
        )
        where = np.broadcast_to(register_offset.astype(I64) + base, shape)
        # The largest offset in a register with which the last dword is still in range.
        room = records - _needed(starts[-1], each, target) - offset
        if int(register_offset.max()) <= int(room.min()):
            return where, None
        inside = [
            np.broadcast_to(_at_most(register_offset, room + (starts[-1] - start)), shape)
            for start in starts
        ]
        return where, _summed_up(inside)

    return addresses


def _raw_test(target: ExecutionTarget) -> Callable[[Array], bool]:
    """Whether descriptors, uint32 [4, wave], are those of plain raw buffers: a quick look."""
    flags = 1 << 23 | (3 << 28 if target.generation >= 10 else 0)
    mask, expected = U32(flags), U32(flags & ~(1 << 23))
    if target.arch.startswith("gfx125"):
        return lambda words: False

    def is_raw(words: Array) -> bool:
        return int(words[1].max()) <= 0xFFFF and bool(((words[3] & mask) == expected).all())

    return is_raw


def _needed(start: int, each: int, target: ExecutionTarget) -> int:
    """Bytes from an access' offset on that must be in range for its dword at `start`.

    Up to gfx10 the dword's first byte counts, from gfx11 on its last.
    """
    return start + (each if target.generation >= 11 else 1)


def _at_most(offset: Array, limit: Array) -> Array:
    """Whether uint32 [wave, lane] <= int64 [wave]."""
    limit32 = np.clip(limit, 0, 0xFFFFFFFF).astype(U32)[:, None]
    return (offset <= limit32) & (limit >= 0)[:, None]


def _summed_up(inside: list[Array]) -> Array | None:
    """One mask where all dwords agree, else one for each."""
    if all(np.array_equal(inside[0], other) for other in inside[1:]):
        return None if inside[0].all() else inside[0]
    return np.stack(inside)


def structured(
    waves: Waves,
    descriptors: Resource,
    indices: Array | None,
    places: Array,
    target: ExecutionTarget,
    starts: list[int],
    each: int,
    *,
    size: int,
) -> tuple[Array, Array | None]:
    """Offsets from the base and what is in range, with everything that a descriptor can ask for.

    Args:
        waves: their lanes.
        descriptors: the descriptors, one for each wave.
        indices: int64 [wave, lane] from a register; None without `idxen`.
        places: offsets from register and instruction, int64.
        target: the GPU.
        starts: where the checked parts of an access begin.
        each: bytes of each part.
        size: bytes of an access.
    """
    shape = (waves.count, waves.lanes)
    places = np.broadcast_to(places, shape)
    index = np.zeros(shape, I64) if indices is None else np.broadcast_to(indices, shape)
    index = index + descriptors.add_lane[:, None] * np.arange(waves.lanes)
    stride, records, element = (
        column[:, None] for column in (descriptors.stride, descriptors.records, descriptors.element)
    )
    swizzled = element > 0
    if (swizzled & (element < size)).any():
        raise NotCoveredError("an access of more than one element of a swizzled buffer")
    unit = np.maximum(element, 1)
    group = descriptors.index_stride[:, None]
    within = (index // group * stride + places // unit * unit) * group + (
        index % group * unit + places % unit
    )
    inner = np.where(swizzled, within, places + stride * index)
    inside = []
    for start in starts:
        end = places + _needed(start, each, target)
        by_bytes = end + np.where(swizzled, 0, stride * index) <= records
        by_index = index < records
        by_both = by_index & (end <= stride)
        if target.generation == 9:
            inside.append(_in_range_gfx9(descriptors, indices is not None, by_bytes, by_index))
            continue
        check = descriptors.check[:, None]
        if (swizzled & (check == _RAW)).any() and target.generation == 10:
            raise NotCoveredError("a swizzled raw buffer on gfx10")
        inside.append(
            np.select(
                [check == _INDEX_AND_OFFSET, check == _INDEX, check == _UNCHECKED],
                [by_both, by_index, np.broadcast_to(records != 0, shape)],
                np.where(swizzled & (stride > 0), by_both, by_bytes),
            )
        )
    return inner, _summed_up(inside)


def _in_range_gfx9(descriptors: Resource, indexed: bool, by_bytes: Array, by_index: Array) -> Array:
    """Returns the lanes in range on gfx9, as CDNA4 ISA, 9.1.5.1, describes it for some buffers."""
    adds, swizzled = descriptors.add_lane[:, None] == 1, descriptors.element[:, None] > 0
    private = adds & ~np.bool_(indexed)
    plain = ~adds & ~swizzled & ~np.bool_(indexed)
    by_record = ~adds & (descriptors.stride[:, None] > 0) & np.bool_(indexed)
    if not (private | plain | by_record).all():
        raise NotCoveredError("a buffer whose range check no document tells")
    return np.where(private, True, np.where(plain, by_bytes, by_index))
