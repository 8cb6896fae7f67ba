"""Buffer descriptors: where a `buffer_*` access points and what is in range.

Sources: CDNA4 ISA, 9.1.5 (addressing, range checking) and 9.1.8 (descriptor); RDNA3 ISA, 9.4 and
9.6; what OOB_SELECT means on gfx10 and gfx11: Mesa, radv_buffer_view.c; gfx1250's wider fields:
LLVM, AMDGPULegalizerInfo (45-bit number of records). The scalar offset takes no part in the check.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from msgspec import Struct

from ...isa.dataflow.execution_target import ExecutionTarget
from ...isa.dataflow.operands import Decoded, Operand
from ..registry import BuildContext, NotCoveredError
from ..vector_operands import Read, check_count, raw
from ..waves import U32, Array, Waves
from .spaces import I64, Addresses

_RAW, _UNCHECKED, _INDEX, _INDEX_AND_OFFSET = 3, 2, 1, 0
"""OOB_SELECT."""


class Resource(Struct):
    """Descriptors of all waves, int64 [wave] each.

    Args:
        stride: bytes from one index to the next.
        records: bytes or indices that the buffer has.
        element: bytes that are swizzled together; 0 where addresses are not swizzled.
        index_stride: indices that are swizzled together.
        add_lane: 1 where the lane's number is added to the index.
        check: OOB_SELECT, how the range is checked.
    """

    base: Array
    stride: Array
    records: Array
    element: Array
    index_stride: Array
    add_lane: Array
    check: Array

    @property
    def is_raw(self) -> bool:
        """Whether offsets simply add up, and the end of the buffer alone is checked."""
        adds_up = not (self.stride.any() or self.element.any() or self.add_lane.any())
        return adds_up and bool((self.check == _RAW).all())


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


class _Access(Struct, frozen=True):
    """A buffer access as the instruction states it.

    Args:
        descriptor: row of the descriptor's first scalar register.
        index: the lanes' indices; None without `idxen`.
        offset_register: the lanes' offsets; None without `offen`.
        scalar_offset: the offset that takes no part in the range check.
        parts: where the parts begin whose range is checked by itself.
        part_size: bytes of each of these.
    """

    target: ExecutionTarget
    descriptor: int
    index: Read | None
    offset_register: Read | None
    scalar_offset: Read
    offset: int
    size: int
    parts: tuple[int, ...]
    part_size: int

    def needed(self, part: int) -> int:
        """Bytes from the access' offset on that must be in range for its part at byte `part`.

        Up to gfx10 the part's first byte counts, from gfx11 on its last.
        """
        return part + (self.part_size if self.target.generation >= 11 else 1)


def buffer_addresses(
    decoded: Decoded,
    context: BuildContext,
    operands: tuple[Operand, ...],
    size: int,
    *,
    indivisible: bool = False,
) -> Addresses:
    """`v[0:1], s[0:3], s4 idxen offen offset:16`.

    `operands`: from the address on. `indivisible`: an access is in range as a whole or not at all
    (atomics).
    """
    access = _access_of(decoded, context, operands, size, indivisible=indivisible)
    target, row = access.target, access.descriptor
    is_raw = _raw_test(target)

    def addresses(waves: Waves) -> tuple[Array, Array | None]:
        # Raw buffers take a short way: offsets add up, and one comparison tells the range.
        scalar_offset = np.asarray(access.scalar_offset(waves)).astype(I64)
        words = waves.scalar[row : row + 4]
        if access.index is None and is_raw(words):
            base = words[0].astype(I64) | words[1].astype(I64) << 32
            records = words[2].astype(I64)
        else:
            descriptors = resource_of(waves, row, target)
            base, records = descriptors.base, descriptors.records
            if access.index is not None or not descriptors.is_raw:
                inner, inside = _structured(waves, descriptors, access)
                return inner + (base[:, None] + scalar_offset), inside
        return _raw_addresses(waves, access, base[:, None] + scalar_offset, records)

    return addresses


def _access_of(
    decoded: Decoded,
    context: BuildContext,
    operands: tuple[Operand, ...],
    size: int,
    *,
    indivisible: bool,
) -> _Access:
    """Returns the access that an instruction states; arguments as `buffer_addresses` has them."""
    if decoded.flag("tfe") or decoded.flag("addr64"):
        raise NotCoveredError(decoded.text)
    if operands and operands[0].name == "off":
        operands = operands[1:]
    lane = operands[0] if operands[0].kind == "vgpr" else None
    resource, scalar_offset = operands[1:3] if lane is not None else operands[:2]
    with_index, with_offset = decoded.flag("idxen"), decoded.flag("offen")
    check_count(resource, 4)
    check_count(scalar_offset, 1)
    if (lane is not None) != (with_index or with_offset):
        raise NotCoveredError(f"{decoded.text}: address")
    if lane is not None:
        check_count(lane, with_index + with_offset)
    whole = indivisible or size <= 4
    return _Access(
        context.target,
        resource.first,
        raw(lane) if lane is not None and with_index else None,
        raw(lane, int(with_index)) if lane is not None and with_offset else None,
        raw(scalar_offset),
        decoded.number("offset"),
        size,
        (0,) if whole else tuple(range(0, size, 4)),
        size if whole else 4,
    )


def _raw_addresses(
    waves: Waves, access: _Access, base: Array, records: Array
) -> tuple[Array, Array | None]:
    """Addresses in a raw buffer, and which are in range."""
    shape = (waves.count, waves.lanes)
    read = access.offset_register
    offsets = np.zeros((waves.count, 1), U32) if read is None else np.asarray(read(waves))
    where = offsets.astype(I64) + (base + I64(access.offset))
    if where.shape != shape:
        where = np.broadcast_to(where, shape)
    # The largest offset in a register with which the last part is still in range.
    last = access.parts[-1]
    room = records - access.needed(last) - access.offset
    if int(offsets.max()) <= int(room.min()):
        return where, None
    inside = [_at_most(offsets, room + (last - part)) for part in access.parts]
    if inside[0].shape != shape:
        inside = [np.broadcast_to(lanes, shape) for lanes in inside]
    return where, _one_or_each(inside)


def _raw_test(target: ExecutionTarget) -> Callable[[Array], bool]:
    """Whether descriptors, uint32 [4, wave], are those of plain raw buffers: a quick look."""
    flags = 1 << 23 | (3 << 28 if target.generation >= 10 else 0)
    mask, expected = U32(flags), U32(flags & ~(1 << 23))
    if target.arch.startswith("gfx125"):
        return lambda words: False

    def is_raw(words: Array) -> bool:
        return int(words[1].max()) <= 0xFFFF and bool(((words[3] & mask) == expected).all())

    return is_raw


def _at_most(offset: Array, limit: Array) -> Array:
    """Whether uint32 [wave, lane] <= int64 [wave]."""
    limit32 = np.clip(limit, 0, 0xFFFFFFFF).astype(U32)[:, None]
    return (offset <= limit32) & (limit >= 0)[:, None]


def _one_or_each(inside: list[Array]) -> Array | None:
    """One mask where all dwords agree, else one for each."""
    if all(np.array_equal(inside[0], other) for other in inside[1:]):
        return None if inside[0].all() else inside[0]
    return np.stack(inside)


def _structured(waves: Waves, descriptors: Resource, access: _Access) -> tuple[Array, Array | None]:
    """Offsets from the base and what is in range, with everything that a descriptor can ask for."""
    shape = (waves.count, waves.lanes)
    read = access.offset_register
    offsets = I64(access.offset) + (I64(0) if read is None else read(waves).astype(I64))
    offsets = np.broadcast_to(offsets, shape)
    index = np.zeros(shape, I64)
    if access.index is not None:
        index = np.broadcast_to(access.index(waves).astype(I64), shape)
    index = index + descriptors.add_lane[:, None] * np.arange(waves.lanes)
    stride, element = descriptors.stride[:, None], descriptors.element[:, None]
    swizzled = element > 0
    if (swizzled & (element < access.size)).any():
        raise NotCoveredError("an access of more than one element of a swizzled buffer")
    unit = np.maximum(element, 1)
    group = descriptors.index_stride[:, None]
    within = (index // group * stride + offsets // unit * unit) * group + (
        index % group * unit + offsets % unit
    )
    inner = np.where(swizzled, within, offsets + stride * index)
    inside = [_in_range(descriptors, access, index, offsets, part) for part in access.parts]
    return inner, _one_or_each(inside)


def _in_range(
    descriptors: Resource, access: _Access, index: Array, offsets: Array, part: int
) -> Array:
    """Which lanes' parts at byte `part` are in range, bool [wave, lane]."""
    target, indexed = access.target, access.index is not None
    stride, records, element = (
        column[:, None] for column in (descriptors.stride, descriptors.records, descriptors.element)
    )
    swizzled = element > 0
    end = offsets + access.needed(part)
    by_bytes = end + np.where(swizzled, 0, stride * index) <= records
    by_index = index < records
    if target.generation == 9:
        return _in_range_gfx9(descriptors, indexed, by_bytes, by_index)
    by_both = by_index & (end <= stride)
    check = descriptors.check[:, None]
    if (swizzled & (check == _RAW)).any() and target.generation == 10:
        raise NotCoveredError("a swizzled raw buffer on gfx10")
    return np.select(
        [check == _INDEX_AND_OFFSET, check == _INDEX, check == _UNCHECKED],
        [by_both, by_index, np.broadcast_to(records != 0, index.shape)],
        np.where(swizzled & (stride > 0), by_both, by_bytes),
    )


def _in_range_gfx9(descriptors: Resource, indexed: bool, by_bytes: Array, by_index: Array) -> Array:
    """Returns the lanes in range on gfx9, as CDNA4 ISA, 9.1.5.1, describes it for some buffers."""
    adds, swizzled = descriptors.add_lane[:, None] == 1, descriptors.element[:, None] > 0
    private = adds & ~np.bool_(indexed)
    plain = ~adds & ~swizzled & ~np.bool_(indexed)
    by_record = ~adds & (descriptors.stride[:, None] > 0) & np.bool_(indexed)
    if not (private | plain | by_record).all():
        raise NotCoveredError("a buffer whose range check is not documented")
    return np.where(private, True, np.where(plain, by_bytes, by_index))
