"""Forms of memory mnemonics, and where lanes point: `global_*`, `flat_*`, `scratch_*`.

Each lane has its own private bytes from 0 on; their interleaving in memory is not observable.
Sources: CDNA3 ISA 10 (flat and global); RDNA3 ISA 11; CDNA4 ISA, 10.5 ("Scratch"); LLVM's
AMDGPUUsage, "Private Address Space".
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

import numpy as np
from msgspec import Struct

from ...isa.dataflow.operands import Decoded, Operand
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
