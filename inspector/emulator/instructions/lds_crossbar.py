"""Exchange between lanes by the crossbar of the LDS: `ds_permute`, `ds_bpermute`, `ds_swizzle`."""

from __future__ import annotations

import numpy as np

from ...isa.dataflow.operands import Decoded
from ..delivery import deliver
from ..registry import BuildContext, NotCoveredError, Step, builds
from ..vector_operands import check_count
from ..waves import U32, Array, Waves


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
