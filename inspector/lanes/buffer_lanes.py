"""Which lanes take part in an access of a buffer whose offsets rest on drawn sizes."""

from __future__ import annotations

from typing import Final

import numpy as np

from ..emulator.waves import Array, Waves
from ..isa.dataflow.operands import Decoded
from .held_masks import MASKED_OFFSETS
from .unknowns import DRAWS

_UNLIMITED: Final = (1 << 31) - 2
"""Bytes of a buffer whose size is not that of its array: Triton's, LLVM's largest."""


def offsets_of(parts: Decoded, waves: Waves, *, limited: bool) -> Array | None:
    """The lanes' offsets in the buffer of an access, as far as its size does not tell lanes.

    `limited`: whether buffers that end with their array count. Returns a copy, uint32 [draw, wave
    and lane]; None where it is no such access.
    """
    if not parts.name.startswith("buffer_") or not parts.flag("offen") or parts.flag("idxen"):
        return None
    operands = parts.operands[0 if parts.flag("lds") else 1 :][:2]
    if [operand.kind for operand in operands] != ["vgpr", "sgpr"]:
        return None
    offset, descriptor = operands
    records = waves.scalar[descriptor.first + 2]
    if not limited and int(records.min()) < _UNLIMITED:
        return None
    offsets: Array = waves.vector[offset.first].reshape(DRAWS, -1).copy()
    return offsets


def lanes_in_buffer(usable: Array, offsets: Array, active: Array) -> Array:
    """The lanes that take part in a buffer access, bool [wave, lane].

    Products of drawn sizes may lead out of a buffer, as no launch's do: lanes whose offsets
    rest on these take part in all draws if they do in one.
    """
    drawn = usable.reshape(offsets.shape).any(0)
    drawn &= np.isin(offsets, MASKED_OFFSETS, invert=True).all(0)
    for draw in range(DRAWS):
        drawn &= offsets[draw] != offsets[draw - 1]
    lanes: Array = np.tile(drawn, DRAWS).reshape(usable.shape)
    return usable | (lanes & active)
