"""LDS: `ds_read*`, `ds_write*`; `ds_load*`, `ds_store*` from gfx11 on.

Source: CDNA3 ISA 11, RDNA3 ISA 12.
"""

from __future__ import annotations

import re

import numpy as np

from ..access import NotCoveredError
from ..delivery import deliver, issue
from ..operands import Decoded
from ..registry import Context, Step, builds_matching
from ..waves import U32, Array, Waves

I64 = np.int64
_NAME = re.compile(
    r"ds_(read|write|load|store)(2|_2addr)?(_stride64|st64)?_"
    r"([uib])(8|16|32|64|96|128)(?:_(d16))?(?:_(hi))?"
)


@builds_matching(r"ds_(read|write|load|store)(2|_2addr)?(_stride64|st64)?_[uib]\d+(_d16)?(_hi)?")
def build(decoded: Decoded, context: Context) -> Step:
    """A read or write of one place or, in the `2` forms, of two."""
    match = _NAME.fullmatch(decoded.name)
    if match is None:
        raise NotCoveredError(decoded.text)
    verb, two, stride, sign, bits, d16, hi = match.groups()
    size = int(bits) // 8
    half = 1 if hi else 0 if d16 else None
    unit = size * (64 if stride else 1)
    if two:
        offsets = [decoded.number("offset0") * unit, decoded.number("offset1") * unit]
    else:
        offsets = [decoded.number("offset")]
    if verb in ("read", "load"):
        return _read(decoded, context, offsets, size, half, signed=sign == "i")
    return _write(decoded, context, offsets, size, half or 0)


def places(
    waves: Waves, context: Context, address: Array, offset: int, size: int
) -> tuple[Array, Array | None]:
    """Byte offsets in the memory of all workgroups, int64 [wave, lane], and which are inside.

    Addresses are 32 bits wide and wrap; what lies past the workgroup's LDS reads 0 and is not
    written.
    """
    local = waves.machine.local
    inner = (address + U32(offset)).astype(I64)
    inside = inner + size <= local.size
    where = inner + (waves.workgroup.astype(I64) * local.stride)[:, None]
    if inside.all():
        return where, None
    bad = waves.active & ~inside
    if bad.any():
        waves.machine.outside_lds(context.index, waves, inner, bad, size)
    return where, inside


def _read(
    decoded: Decoded,
    context: Context,
    offsets: list[int],
    size: int,
    half: int | None,
    *,
    signed: bool,
) -> Step:
    target, address = decoded.operands[:2]
    row = address.first
    if target.half is not None:
        half = target.half

    def step(waves: Waves) -> None:
        parts = []
        for offset in offsets:
            where, inside = places(waves, context, waves.u32[row], offset, size)
            usable: Array | None = None
            if waves.full and inside is None:
                gathered = waves.machine.local.words.gather(where, size)
            else:
                usable = waves.active if inside is None else waves.active & inside
                gathered = waves.machine.local.words.gather(np.where(usable, where, 0), size)
            waves.machine.before_lds(context.index, waves, where, usable, size, None)
            if size < 4:
                if signed:
                    wide = gathered.view(f"i{size}").astype(np.int32).view(U32)
                    gathered = wide & U32(0xFFFF) if half is not None else wide
                gathered = gathered.astype(U32)[None]
            if inside is not None:
                gathered = np.where(inside, gathered, U32(0))
            parts.append(gathered)
        rows = parts[0] if len(parts) == 1 else np.concatenate(parts)
        deliver(waves, context, target, rows, half)

    return step


def _write(decoded: Decoded, context: Context, offsets: list[int], size: int, half: int) -> Step:
    address, *data = decoded.operands
    row = address.first
    count = max(size // 4, 1)

    def step(waves: Waves) -> None:
        written = []
        for offset, source in zip(offsets, data, strict=False):
            where, inside = places(waves, context, waves.u32[row], offset, size)
            usable = waves.active if inside is None else waves.active & inside
            values = waves.u32[source.first : source.first + count][:, usable]
            if size < 4:
                shift = U32(16 * (source.half if source.half is not None else half))
                values = (values[0] >> shift).astype(np.uint8 if size == 1 else np.uint16)
            machine = waves.machine
            machine.before_lds(context.index, waves, where, usable, size, values)
            machine.local.words.scatter(where[usable], values, size)
            machine.after_lds(context.index, waves, where, usable, size, values)
            written += [where, usable]
        issue(waves, context, None, tuple(written), size)

    return step
