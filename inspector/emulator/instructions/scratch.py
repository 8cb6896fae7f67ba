"""Private memory of each lane: `scratch_*`, and `buffer_*` through the stack's resource.

Each lane has its own bytes from 0 on; their interleaving in memory is not observable. Source: CDNA4
ISA, 10.5 ("Scratch"); LLVM's AMDGPUUsage, "Private Address Space".
"""

from __future__ import annotations

import numpy as np

from ..operands import Decoded, Operand
from ..registry import BuildContext, NotCoveredError
from ..vector_operands import raw
from ..waves import U32, Array, Waves
from .addressing import I64, Addresses


def private_addresses(decoded: Decoded, lane: Operand, base: tuple[Operand, ...]) -> Addresses:
    """`v2, s3 offset:4`; either address may be `off`. The sum has 32 bits."""
    offset = U32(decoded.number("offset") & 0xFFFFFFFF)
    if decoded.flag("scale_offset"):
        raise NotCoveredError(decoded.text)
    reads = [raw(operand) for operand in (lane, *base[:1]) if operand.name != "off"]

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
