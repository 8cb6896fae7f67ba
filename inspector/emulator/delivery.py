"""How the results of memory operations reach their registers: when a wait lets them."""

from __future__ import annotations

import numpy as np

from ..isa.dataflow.operands import Operand, half_bits, scalar_bits
from .registry import BuildContext
from .waves import U32, Array, Complete, OutstandingOperation, Waves


def deliver(
    waves: Waves, context: BuildContext, target: Operand, rows: Array, half: int | None
) -> None:
    """Hands the result of a vector load to the registers `target`.

    `waves`: the waves that issued it; lanes that are active now get it. `rows`: uint32 [register,
    wave, lane]. `half`: 0 or 1 where only one half of the one register is written (d16).
    """
    count = len(rows)
    arrays = tuple(rows) if waves.full else (*rows, waves.bits)
    entry = OutstandingOperation(
        half_bits(target.first, count, half),
        _completion(target.first, count, half, masked=not waves.full),
        arrays,
        context.in_order,
        context.index,
    )
    _add(waves, context, entry)


def deliver_scalar(waves: Waves, context: BuildContext, target: Operand, rows: Array) -> None:
    """Hands the result of a scalar load to the registers `target`, uint32 [register, wave]."""
    first, count = target.first, len(rows)

    def complete(waves: Waves, arrays: tuple[Array, ...]) -> None:
        for index in range(count):
            waves.scalar[first + index] = arrays[index]

    bits = scalar_bits(first, count)
    _add(
        waves,
        context,
        OutstandingOperation(bits, complete, tuple(rows), context.in_order, context.index),
    )


def issue(
    waves: Waves,
    context: BuildContext,
    complete: Complete | None = None,
    arrays: tuple[Array, ...] = (),
    lds_bytes: int = 0,
) -> None:
    """An operation that writes no register.

    `complete`: carries it out once a wait lets it (a load into LDS). `arrays`: for `complete`; of a
    write of LDS its places and lanes, in turns. `lds_bytes`: bytes of each lane of a write of LDS.
    """
    entry = OutstandingOperation(0, complete, arrays, context.in_order, context.index, lds_bytes)
    _add(waves, context, entry)


def _add(waves: Waves, context: BuildContext, entry: OutstandingOperation) -> None:
    """Queues an operation in its counters, once each has room; without counters it is done."""
    if not context.counters:  # nothing counts it: it is done at once
        if entry.complete is not None:
            entry.complete(waves, entry.arrays)
        return
    first, *others = context.counters
    # A counter that is full stalls issue until the oldest operation is done.
    for counter, limit in zip(context.counters, context.limits, strict=True):
        waves.outstanding.wait(waves, counter, limit - 1)
    waves.outstanding.add(first, entry)
    for counter in others:
        waves.outstanding.add(
            counter, OutstandingOperation(entry.registers, None, (), False, context.index)
        )


def _completion(first: int, count: int, half: int | None, *, masked: bool) -> Complete:
    """Returns the function that writes a load's arrays to registers."""

    def complete(waves: Waves, arrays: tuple[Array, ...]) -> None:
        for index in range(count):
            value = arrays[index]
            if half is not None:
                other_half = U32(0xFFFF << (16 * (1 - half)))
                value = (waves.u32[first] & other_half) | (value << U32(16 * half))
            if masked:
                waves.write_where(first + index, value, arrays[count])
            else:
                np.copyto(waves.u32[first + index], value)

    return complete
