"""Exchange between lanes and with scalar registers: readlane, bpermute, permlane."""

from __future__ import annotations

import numpy as np

from ..access import raw
from ..operands import Decoded
from ..registry import Context, Step, builds
from ..waves import U32, Waves
from .scalar import scalar_destination, scalar_source


@builds("v_readfirstlane_b32")
def read_first_lane(decoded: Decoded, context: Context) -> Step:
    """The value of the lowest active lane; of lane 0 where none is active."""
    read = raw(decoded.operands[1])
    write = scalar_destination(decoded.operands[0], "u32")

    def step(waves: Waves) -> None:
        values = np.broadcast_to(read(waves), (waves.count, waves.lanes))
        if waves.full:
            write(waves, values[:, 0])
        else:
            write(waves, values[np.arange(waves.count), waves.active.argmax(1)])

    return step


@builds("v_readlane_b32")
def read_lane(decoded: Decoded, context: Context) -> Step:
    """The value of one lane, active or not."""
    read = raw(decoded.operands[1])
    lane = scalar_source(decoded.operands[2], "u32")
    write = scalar_destination(decoded.operands[0], "u32")

    def step(waves: Waves) -> None:
        chosen = np.broadcast_to(lane(waves), (waves.count,)) & U32(waves.lanes - 1)
        values = np.broadcast_to(read(waves), (waves.count, waves.lanes))
        write(waves, values[np.arange(waves.count), chosen])

    return step


@builds("v_writelane_b32")
def write_lane(decoded: Decoded, context: Context) -> Step:
    """Writes a scalar to one lane, active or not."""
    row = decoded.operands[0].first
    value = scalar_source(decoded.operands[1], "u32")
    lane = scalar_source(decoded.operands[2], "u32")

    def step(waves: Waves) -> None:
        chosen = np.broadcast_to(lane(waves), (waves.count,)) & U32(waves.lanes - 1)
        waves.u32[row][np.arange(waves.count), chosen] = value(waves)

    return step
