"""Scalar loads, stores and atomics: one address per wave (CDNA3 ISA, 8; RDNA4 ISA, 8)."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

import numpy as np

from ...isa.dataflow.effects import returns_value
from ...isa.dataflow.operands import Decoded, Operand
from ..delivery import deliver_scalar, issue
from ..registry import BuildContext, NotCoveredError, Step, builds, builds_matching
from ..vector_operands import check_count, raw
from ..waves import U32, Array, Waves
from .atomic_operations import apply, operation_of, values_of, words_of
from .buffers import resource_of
from .spaces import I64

_LOAD: Final = re.compile(r"s_(buffer_)?load_(?:dword(?:x(\d{1,9}))?|([ui])(8|16)|b(\d{1,9}))")
_STORE: Final = re.compile(r"s_(buffer_)?store_dword(?:x(\d{1,9}))?")
_ATOMIC: Final = re.compile(r"s_(buffer_)?atomic_(\w+?)(_x2)?")

ADDRESS_BITS: Final = (1 << 48) - 1

Places = Callable[[Waves], tuple[Array, Array]]
"""Addresses, int64 [wave], and which are in range: bool [dword, wave] (one row below 4 bytes)."""


def scalar_places(
    decoded: Decoded,
    context: BuildContext,
    base: Operand,
    offsets: tuple[Operand, ...],
    size: int,
    *,
    through_buffer: bool,
) -> Places:
    """`s[4:5], s8 offset:0x10`: the two low bits of an address of dwords do not count.

    Through a buffer, what lies behind its end is out of range, dword by dword.
    """
    check_count(base, 4 if through_buffer else 2)
    offset_of = _offsets(decoded, offsets, size)
    aligned = I64(-1 if size < 4 else -4)
    count, each = max(size // 4, 1), min(size, 4)

    def places(waves: Waves) -> tuple[Array, Array]:
        """Each wave's address, int64 [wave], and which dwords are in range [dword, wave]."""
        offset = offset_of(waves)
        odd = (offset | waves.scalar[base.first]) & ~aligned
        if odd.any():
            first = int(odd.argmax())
            waves.machine.misaligned(
                context.index,
                (int(waves.pair(base.first)[first]) & ADDRESS_BITS) + int(offset[first]),
                size,
                "a scalar access drops the two low bits",
            )
        offset &= aligned
        inside = np.ones((count, waves.count), bool)
        if not through_buffer:
            return (waves.pair(base.first).view(I64) & aligned) + offset, inside
        descriptors = resource_of(waves, base.first, context.target)
        end = descriptors.records * np.maximum(descriptors.stride, 1)
        for dword in range(count):
            inside[dword] = offset + (4 * dword + each) <= end
        return (descriptors.base & aligned) + offset, inside

    return places


def _offsets(
    decoded: Decoded, operands: tuple[Operand, ...], size: int
) -> Callable[[Waves], Array]:
    """Returns what adds the offsets of an access up for each wave, int64 [wave]."""
    if any(operand.kind not in ("sgpr", "constant") for operand in operands):
        raise NotCoveredError(decoded.text)
    fixed = decoded.number("offset") + sum(
        operand.integer or 0 for operand in operands if operand.kind == "constant"
    )
    for operand in operands:
        check_count(operand, 1)
    registers = [raw(operand) for operand in operands if operand.kind == "sgpr"]
    scale = size if decoded.flag("scale_offset") else 1

    def offsets(waves: Waves) -> Array:
        total = np.full(waves.count, fixed, I64)
        for read in registers:
            total += np.asarray(read(waves)).astype(I64).reshape(-1) * scale
        return total

    return offsets


@builds_matching(r"s_(buffer_)?load_\w+")
def load(decoded: Decoded, context: BuildContext) -> Step:
    """`s_load_dwordx4 s[0:3], s[4:5], 0x10`, `s_buffer_load_b32 s0, s[4:7], s8`."""
    match = _LOAD.fullmatch(decoded.name)
    if match is None:
        raise NotCoveredError(decoded.text)
    through_buffer, words, sign, narrow, bits = match.groups()
    count = int(words or 1) if bits is None else int(bits) // 32
    size = int(narrow) // 8 if narrow else 4 * count
    target, base, *offsets = decoded.operands
    check_count(target, count)
    places = scalar_places(
        decoded, context, base, tuple(offsets), size, through_buffer=bool(through_buffer)
    )

    def step(waves: Waves) -> None:
        where, inside = places(waves)
        machine = waves.machine
        outside = machine.outside(context.index)
        complete = inside.all(0)
        picked = machine.memory.read(where, size, outside, None if complete.all() else complete)
        if narrow:
            wide = picked.view(f"i{size}").astype(np.int32).view(U32) if sign == "i" else picked
            picked = wide.astype(U32)[None]
        if count > 1 and not complete.all():  # a part of the dwords may still be in range
            for dword in range(count):
                partial = inside[dword] & ~complete
                if partial.any():
                    dword_address = where + 4 * dword
                    picked[dword] |= machine.memory.read(dword_address, 4, outside, partial)[0]
        deliver_scalar(waves, context, target, picked)

    return step


@builds_matching(r"s_(buffer_)?store_dword(x[24])?")
def store(decoded: Decoded, context: BuildContext) -> Step:
    """`s_store_dwordx2 s[4:5], s[2:3], 0x10` (gfx8 to gfx10)."""
    match = _STORE.fullmatch(decoded.name)
    assert match is not None
    count = int(match[2] or 1)
    data, base, *offsets = decoded.operands
    check_count(data, count)
    places = scalar_places(
        decoded, context, base, tuple(offsets), 4 * count, through_buffer=bool(match[1])
    )

    def step(waves: Waves) -> None:
        where, inside = places(waves)
        machine = waves.machine
        for dword in range(count):
            waves_in = np.flatnonzero(inside[dword])
            machine.memory.write(
                where[waves_in] + 4 * dword,
                waves.scalar[data.first + dword][waves_in][None],
                4,
                machine.outside(context.index),
            )
        issue(waves, context)

    return step


@builds_matching(r"s_(buffer_)?atomic_\w+")
def atomic(decoded: Decoded, context: BuildContext) -> Step:
    """`s_atomic_add s5, s[2:3], 0x10 glc`: waves take turns (gfx9)."""
    match = _ATOMIC.fullmatch(decoded.name)
    assert match is not None
    wide = bool(match[3])
    size = 8 if wide else 4
    operation = operation_of(match[2], "", context.target, wide=wide, in_lds=False)
    data, base, *offsets = decoded.operands
    check_count(data, operation.operands * size // 4)
    places = scalar_places(
        decoded, context, base, tuple(offsets), size, through_buffer=bool(match[1])
    )
    returns = returns_value(decoded)

    def step(waves: Waves) -> None:
        where, inside = places(waves)
        usable = inside.all(0)
        machine = waves.machine
        outside = machine.outside(context.index)
        words = [
            waves.scalar[data.first + first_word : data.first + first_word + size // 4][:, usable]
            for first_word in range(0, operation.operands * size // 4, size // 4)
        ]
        met = apply(
            lambda address: values_of(machine.memory.read(address, size, outside)),
            lambda address, new: machine.memory.write(address, words_of(new), size, outside),
            where[usable],
            [values_of(part).view(operation.dtype) for part in words],
            operation,
        )
        if not returns:
            issue(waves, context)
            return
        rows = np.zeros((size // 4, waves.count), U32)
        rows[:, usable] = words_of(met)
        deliver_scalar(waves, context, data, rows)

    return step


@builds(
    "s_dcache_inv", "s_dcache_wb", "s_dcache_inv_vol", "s_dcache_wb_vol", "s_gl1_inv",
    "s_icache_inv",
)  # fmt: skip
def cache(decoded: Decoded, context: BuildContext) -> Step:
    """Caches are not modelled."""
    return lambda waves: issue(waves, context) if context.counters else None
