"""LDS: `ds_read*`, `ds_write*` (`ds_load*`, `ds_store*` from gfx11 on), and its crossbar.

Source: CDNA3 ISA 11, RDNA3 ISA 12.
"""

from __future__ import annotations

import re
from typing import Final

import numpy as np

from ...isa.dataflow.operands import M0, Decoded
from ..delivery import deliver, issue
from ..machine import LaneAccess
from ..registry import BuildContext, NotCoveredError, Step, builds, builds_matching
from ..vector_operands import check_count
from ..waves import U32, Array, Waves
from .spaces import (
    AccessForm,
    StoredRegisters,
    access_of,
    extended,
    place_in_register,
    read_lds,
    usable_lanes,
    write_lds,
)

_NAME: Final = re.compile(
    r"ds_(read|write|load|store)(2|_2addr)?(_stride64|st64)?_"
    r"([uib])(8|16|32|64|96|128)(?:_(d16))?(?:_(hi))?"
)


@builds_matching(r"ds_(read|write|load|store)(2|_2addr)?(_stride64|st64)?_[uib]\d+(_d16)?(_hi)?")
def build(decoded: Decoded, context: BuildContext) -> Step:
    """A read or write of one place or, in the `2` forms, of two."""
    form = _form_of(decoded)
    if form is None:
        raise NotCoveredError(decoded.text)
    make = _write if form[0].writes else _read
    return make(decoded, context, form[1], form[0])


def _form_of(decoded: Decoded) -> tuple[AccessForm, list[int]] | None:
    """What a read's or write's mnemonic states, and its byte offsets; None for other forms."""
    match = _NAME.fullmatch(decoded.name)
    if match is None or decoded.flag("gds"):
        return None
    verb, two, stride, sign, bits, d16, hi = match.groups()
    size = int(bits) // 8
    half = 1 if hi else 0 if d16 else None
    offsets = pair_offsets(decoded, size, stride=bool(stride)) if two else single_offset(decoded)
    return AccessForm("lds", verb in ("write", "store"), size, sign == "i", half), offsets


def plain_places(decoded: Decoded) -> tuple[int, list[int], int] | None:
    """The vector row of a read's or write's address, its byte offsets, and the bytes of each lane.

    None for accesses of other forms.
    """
    form = _form_of(decoded)
    if form is None:
        return None
    index = 0 if form[0].writes else 1
    if index >= len(decoded.operands) or decoded.operands[index].kind != "vgpr":
        return None
    return decoded.operands[index].first, form[1], form[0].size


def single_offset(decoded: Decoded) -> list[int]:
    """The byte offset of an instruction with one address."""
    return [decoded.number("offset")]


def pair_offsets(decoded: Decoded, size: int, *, stride: bool) -> list[int]:
    """Returns an instruction's two byte offsets, stated in units of the access or of 64 of it."""
    unit = size * (64 if stride else 1)
    return [decoded.number("offset0") * unit, decoded.number("offset1") * unit]


def _read(decoded: Decoded, context: BuildContext, offsets: list[int], form: AccessForm) -> Step:
    """Returns the step of a read at one or two offsets from its address."""
    target, address = decoded.operands[:2]
    check_count(target, len(offsets) * max(form.size // 4, 1))
    check_count(address, 1)
    row = address.first
    half = form.half if form.half is not None else target.half

    def step(waves: Waves) -> None:
        base = waves.u32[row]
        usable = usable_lanes(waves, None)
        parts = [
            extended(
                read_lds(access_of(waves, context, base + U32(offset), usable, form.size)), form
            )
            for offset in offsets
        ]
        rows = parts[0] if len(parts) == 1 else np.concatenate(parts)
        placed, kept_half = place_in_register(rows, half, context)
        deliver(waves, context, target, placed, kept_half)

    return step


def _write(decoded: Decoded, context: BuildContext, offsets: list[int], form: AccessForm) -> Step:
    """Returns the step of a write at one or two offsets from its address."""
    address, *data = decoded.operands
    check_count(address, 1)
    for source in data:
        check_count(source, max(form.size // 4, 1))
    row = address.first
    stores = [
        (
            offset,
            StoredRegisters(source.first, source.half or 0 if form.half is None else form.half),
        )
        for offset, source in zip(offsets, data, strict=True)
    ]

    def step(waves: Waves) -> None:
        base = waves.u32[row]
        usable = usable_lanes(waves, None)
        written: list[Array] = []
        for offset, registers in stores:
            access = access_of(waves, context, base + U32(offset), usable, form.size)
            written += write_lds(access, registers)
        issue(waves, context, None, tuple(written), form.size)

    return step


@builds("ds_read_addtid_b32", "ds_load_addtid_b32", "ds_write_addtid_b32", "ds_store_addtid_b32")
def by_lane_number(decoded: Decoded, context: BuildContext) -> Step:
    """Lane i accesses M0[15:0] + offset + 4 * i (CDNA3 ISA, DS_READ_ADDTID_B32)."""
    data = decoded.operands[0]
    check_count(data, 1)
    steps = (np.arange(context.target.lanes) * 4 + decoded.number("offset")).astype(U32)

    def access(waves: Waves) -> LaneAccess:
        places = (waves.scalar[M0] & U32(0xFFFF))[:, None] + steps
        return access_of(waves, context, places, usable_lanes(waves, None), 4)

    def read(waves: Waves) -> None:
        deliver(waves, context, data, read_lds(access(waves)), None)

    def write(waves: Waves) -> None:
        written = write_lds(access(waves), StoredRegisters(data.first))
        issue(waves, context, None, written, 4)

    return read if "_read_" in decoded.name or "_load_" in decoded.name else write


def _check_single(decoded: Decoded) -> None:
    """Raises NotCoveredError unless every operand is one register."""
    for operand in decoded.operands:
        check_count(operand, 1)


@builds("ds_bpermute_b32", "ds_bpermute_fi_b32")
def pull(decoded: Decoded, context: BuildContext) -> Step:
    """Each lane reads the lane that its address / 4 names.

    An idle one gives 0, but not in the FI form (CDNA3 and RDNA4 ISA, DS_BPERMUTE_B32).
    """
    target, address, data = decoded.operands
    _check_single(decoded)
    offset = U32(decoded.number("offset"))
    fetch_idle = "_fi_" in decoded.name

    def step(waves: Waves) -> None:
        origin = ((waves.u32[address.first] + offset) >> U32(2)) & U32(waves.lanes - 1)
        values = waves.u32[data.first]
        if not (waves.full or fetch_idle):
            values = values & waves.bits
        deliver(waves, context, target, np.take_along_axis(values, origin, 1)[None], None)

    return step


@builds("ds_permute_b32")
def push(decoded: Decoded, context: BuildContext) -> Step:
    """Each active lane writes to the lane that its address / 4 names; the others get 0."""
    target, address, data = decoded.operands
    _check_single(decoded)
    offset = U32(decoded.number("offset"))

    def step(waves: Waves) -> None:
        aim = ((waves.u32[address.first] + offset) >> U32(2)) & U32(waves.lanes - 1)
        wave, lane = np.nonzero(waves.active)
        moved = np.zeros((waves.count, waves.lanes), U32)
        moved[wave, aim[wave, lane]] = waves.u32[data.first][wave, lane]
        deliver(waves, context, target, moved[None], None)

    return step


@builds("ds_swizzle_b32")
def swizzle(decoded: Decoded, context: BuildContext) -> Step:
    """A fixed pattern; idle lanes give 0."""
    target, data = decoded.operands
    _check_single(decoded)
    origin = swizzle_pattern(decoded.modifiers.get("offset", "0"), context.target.lanes)

    def step(waves: Waves) -> None:
        values = waves.u32[data.first]
        if not waves.full:
            values = values & waves.bits
        deliver(waves, context, target, values[:, origin][None], None)

    return step


def swizzle_pattern(text: str, lanes: int) -> Array:
    """The lanes that ds_swizzle reads, from its offset as LLVM prints it or as a number.

    Source: CDNA3 ISA, DS_SWIZZLE_B32; LLVM's AMDGPUOperandSyntax, "swizzle". A pattern holds within
    32 lanes.
    """
    lane = np.arange(lanes)
    inner = lane & 31
    if not text.startswith("swizzle("):
        return _coded_swizzle(lane, int(text, 0))
    mode, *arguments = (part.strip() for part in text[len("swizzle(") : -1].split(","))
    if mode == "BITMASK_PERM":
        origin = np.zeros(lanes, np.int64)
        for bit, rule in zip((16, 8, 4, 2, 1), arguments[0].strip('"'), strict=True):
            own = inner & bit
            origin |= {"0": 0, "1": bit}.get(rule, own if rule == "p" else own ^ bit)
        return (lane & ~31) + origin
    numbers = [int(argument, 0) for argument in arguments]
    if mode == "QUAD_PERM":
        return (lane & ~3) + np.array(numbers)[lane & 3]
    if mode == "SWAP":
        return lane ^ numbers[0]
    if mode == "REVERSE":
        return (lane & -numbers[0]) + numbers[0] - 1 - lane % numbers[0]
    if mode == "BROADCAST":
        return (lane & -numbers[0]) + numbers[1]
    if mode == "FFT":
        return _fft_swizzle(lane, numbers[0])
    if mode == "ROTATE":
        step = numbers[1] if numbers[0] == 0 else -numbers[1]
        return (lane & ~31) + ((inner + step) & 31)
    raise NotCoveredError(f"ds_swizzle offset:{text}")


def _coded_swizzle(lane: Array, bits: int) -> Array:
    """Returns the lane that each lane reads by the bits of a DS_SWIZZLE offset."""
    inner = lane & 31
    if bits >= 0xE000:
        return _fft_swizzle(lane, bits & 31)
    if bits >= 0xC000:
        step = -(bits >> 5 & 31) if bits & 0x400 else bits >> 5 & 31
        mask = bits & 31
        return (lane & ~31) + ((inner & mask) | ((inner + step) & 31 & ~mask))
    if bits & 0x8000:
        return (lane & ~3) + (bits >> (2 * (lane & 3)) & 3)
    return (lane & ~31) + (((inner & bits & 31) | (bits >> 5 & 31)) ^ (bits >> 10 & 31))


def _fft_swizzle(lane: Array, mask: int) -> Array:
    """Bits of the lane's number in reverse, but for those of the mask."""
    inner = lane & 31
    reverse = np.zeros_like(lane)
    for bit in range(5):
        reverse |= (inner >> bit & 1) << (4 - bit)
    return (lane & ~31) + ((reverse >> mask.bit_count()) | (inner & mask))
