"""Scalar loads: one address per wave (CDNA3 ISA, 7; RDNA3 ISA, 8)."""

from __future__ import annotations

import re

import numpy as np

from ..access import NotCoveredError, raw
from ..delivery import deliver_scalar, issue
from ..operands import Decoded
from ..registry import Context, Step, builds, builds_matching
from ..waves import U32, Waves

I64 = np.int64
_NAME = re.compile(r"s_(buffer_)?load_(?:dword(?:x(\d+))?|([ui])(8|16)|b(\d+))")


@builds_matching(r"s_(buffer_)?load_\w+")
def load(decoded: Decoded, context: Context) -> Step:
    """`s_load_dwordx4 s[0:3], s[4:5], 0x10`, `s_buffer_load_b32 s0, s[4:7], s8`."""
    match = _NAME.fullmatch(decoded.name)
    if match is None:
        raise NotCoveredError(decoded.text)
    through_buffer, words, sign, narrow, bits = match.groups()
    count = int(words or 1) if bits is None else int(bits) // 32
    size = int(narrow) // 8 if narrow else 4 * count
    target, base = decoded.operands[:2]
    offset = I64(decoded.number("offset"))
    registers = [raw(operand) for operand in decoded.operands[2:]]

    def step(waves: Waves) -> None:
        start = waves.pair(base.first).view(I64)
        place = np.full(waves.count, offset)
        for read in registers:
            place = place + np.broadcast_to(np.asarray(read(waves)), (waves.count, 1))[:, 0].astype(
                I64
            )
        machine = waves.machine
        if through_buffer:
            start = start & I64(0xFFFFFFFFFFFF)
            inside = place + size <= waves.scalar[base.first + 2].astype(I64)
        else:
            inside = np.ones(waves.count, bool)
        where = start + (place & I64(-1 if narrow else -4))
        picked = machine.memory.read(where[inside], size, machine.outside(context.index))
        if narrow:
            wide = picked.view(f"i{size}").astype(np.int32).view(U32) if sign == "i" else picked
            picked = wide.astype(U32)[None]
        rows = np.zeros((count, waves.count), U32)
        rows[:, inside] = picked
        machine.touched_scalar(context.index, waves, where, inside, size)
        deliver_scalar(waves, context, target, rows)

    return step


@builds("s_memtime", "s_memrealtime")
def clock(decoded: Decoded, context: Context) -> Step:
    """A clock that counts this emulator's blocks: it goes forward, and means nothing else."""
    target = decoded.operands[0]

    def step(waves: Waves) -> None:
        ticks = waves.machine.ticks
        rows = np.zeros((2, waves.count), U32)
        rows[0], rows[1] = ticks & 0xFFFFFFFF, ticks >> 32
        deliver_scalar(waves, context, target, rows)

    return step


@builds("s_dcache_inv", "s_dcache_wb", "s_gl1_inv", "s_icache_inv")
def cache(decoded: Decoded, context: Context) -> Step:
    """Caches are not modelled."""
    return lambda waves: issue(waves, context) if context.counters else None
