"""Private memory of each lane: `scratch_*`, and `buffer_*` through the stack's resource.

Each lane has its own bytes from 0 on; how they lie in memory nobody else can see. Source: CDNA3
ISA, 10.1 (flat scratch); LLVM's AMDGPUUsage, "Private Address Space".
"""

from __future__ import annotations

import numpy as np

from ..access import NotCoveredError, raw
from ..delivery import deliver, issue
from ..operands import Decoded, Operand
from ..registry import Context, Step, builds_matching
from ..waves import U32, Array, Waves
from .global_memory import Addresses, Form, extended, form_of

I64 = np.int64


@builds_matching(r"scratch_(load|store)_\w+")
def build(decoded: Decoded, context: Context) -> Step:
    """`scratch_load_dword v1, v2, s3 offset:4`; either address may be `off`."""
    form = form_of(decoded.name)
    if form.writes:
        lane, data, scalar = decoded.operands[:3]
    else:
        data, lane, scalar = decoded.operands[:3]
    offset = I64(decoded.number("offset"))
    reads = [raw(operand) for operand in (lane, scalar) if operand.name != "off"]

    def addresses(waves: Waves) -> tuple[Array, Array | None]:
        place = np.full((waves.count, waves.lanes), offset)
        for read in reads:
            place = place + np.asarray(read(waves)).view(np.int32).astype(I64)
        return place, None

    return private_access(form, context, data, addresses)


def through_resource(decoded: Decoded, context: Context) -> Step:
    """`buffer_load_dword v1, off, s[0:3], s32 offset:4`, where s[0:3] are the stack's resource.

    The hardware interleaves the lanes' bytes; what a scalar offset adds counts for all lanes.
    """
    form = form_of(decoded.name)
    data, *operands = decoded.operands
    if operands[0].name == "off":
        operands = operands[1:]
    lane = operands[0] if operands[0].kind == "vgpr" else None
    scalar = operands[2] if lane is not None else operands[1]
    offset = I64(decoded.number("offset"))
    read = raw(lane) if lane is not None and decoded.flag("offen") else None
    base = raw(scalar)
    lanes = context.target.lanes

    def addresses(waves: Waves) -> tuple[Array, Array | None]:
        place = np.full((waves.count, waves.lanes), offset)
        if read is not None:
            place = place + read(waves).astype(I64)
        return place + np.asarray(base(waves)).astype(I64) // lanes, None

    return private_access(form, context, data, addresses)


def private_access(form: Form, context: Context, data: Operand, addresses: Addresses) -> Step:
    """A load or store of the lanes' own bytes."""
    first, count = data.first, max(form.size // 4, 1)
    half = form.half if form.half is not None else data.half

    def step(waves: Waves) -> None:
        inner, _ = addresses(waves)
        private = waves.machine.private
        inside = (inner >= 0) & (inner + form.size <= private.size)
        usable = waves.active & inside
        if not inside.all() and (waves.active & ~inside).any():
            waves.machine.outside_scratch(context.index, inner[waves.active & ~inside])
        resident = waves.workgroup.astype(I64) * private.waves_each + waves.wave
        lane = resident[:, None] * waves.lanes + np.arange(waves.lanes)
        where = (lane * private.stride + inner)[usable]
        if form.writes:
            values = waves.u32[first : first + count][:, usable]
            if form.size < 4:
                shift = U32(16 * (half or 0))
                values = (values[0] >> shift).astype(np.uint8 if form.size == 1 else np.uint16)
            private.words.scatter(where, values, form.size)
            issue(waves, context)
            return
        picked = extended(private.words.gather(where, form.size), form)
        rows = np.zeros((len(picked), waves.count, waves.lanes), U32)
        rows[:, usable] = picked
        deliver(waves, context, data, rows, half)

    return step


__all__ = ["NotCoveredError", "build", "private_access", "through_resource"]
