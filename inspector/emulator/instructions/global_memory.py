"""Loads and stores of global memory: `global_*`, `flat_*`, `buffer_*`.

Addresses: CDNA3 ISA 9.1 (buffer), 10 (flat and global); RDNA3 ISA 9 and 10.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable

import numpy as np
from msgspec import Struct

from ..access import NotCoveredError, raw
from ..delivery import deliver, issue
from ..operands import Decoded, Operand
from ..registry import Context, Step, builds_matching
from ..waves import U32, Array, Waves

I64 = np.int64

# Addresses of all lanes (int64 [wave, lane]) and which of them may be used (None: all active ones).
Addresses = Callable[[Waves], tuple[Array, Array | None]]

_WORDS = {
    "dword": 4, "dwordx2": 8, "dwordx3": 12, "dwordx4": 16,
    "b32": 4, "b64": 8, "b96": 12, "b128": 16,
    "ubyte": 1, "sbyte": 1, "byte": 1, "u8": 1, "i8": 1, "b8": 1,
    "ushort": 2, "sshort": 2, "short": 2, "u16": 2, "i16": 2, "b16": 2,
}  # fmt: skip
_NAME = re.compile(
    r"(global|flat|buffer|scratch)_(load|store)_(lds_)?(?:(d16)_)?(?:(hi)_)?"
    r"(dword(?:x[234])?|[us]?byte|[us]?short|[uib](?:8|16|32|64|96|128))(?:_(d16))?(?:_(hi))?"
)


class Form(Struct, frozen=True):
    """What a mnemonic says of an access.

    Args:
        space: global, flat, buffer or scratch.
        writes: whether it is a store.
        size: bytes of each lane.
        signed: whether a byte or short is sign-extended.
        half: half of the register that a 16-bit form reads or writes; None for whole registers.
    """

    space: str
    writes: bool
    size: int
    signed: bool
    half: int | None


def form_of(name: str) -> Form:
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
    return Form(space, verb == "store", _WORDS[width], signed, half)


@builds_matching(r"(global|flat|buffer)_(load|store)_\w+")
def build(decoded: Decoded, context: Context) -> Step:
    """A load or store through registers, or a load into LDS (`lds`)."""
    form = form_of(decoded.name)
    if context.private:
        return importlib.import_module(".scratch", __package__).through_resource(decoded, context)
    if "lds" in decoded.modifiers or "_lds_" in decoded.name:
        return importlib.import_module(".lds_direct", __package__).load_to_lds(decoded, context)
    operands = decoded.operands
    if form.space == "buffer":
        data = operands[0]
        addresses = buffer_addresses(decoded, context, operands[1:], form.size)
    elif form.writes:
        data = operands[1]
        addresses = flat_addresses(decoded, operands[0], operands[2:])
    else:
        data = operands[0]
        addresses = flat_addresses(decoded, operands[1], operands[2:])
    return (
        _store(form, context, data, addresses)
        if form.writes
        else _load(form, context, data, addresses)
    )


def flat_addresses(decoded: Decoded, lane: Operand, base: tuple[Operand, ...]) -> Addresses:
    """`v[0:1], off` or `v0, s[0:1]`, with `offset`."""
    offset = I64(decoded.number("offset"))
    if base and base[0].kind == "sgpr" and not base[0].is_null:
        row = base[0].first
        read = raw(lane) if lane.kind == "vgpr" else None

        def scalar_base(waves: Waves) -> tuple[Array, Array | None]:
            start = waves.pair(row).view(I64)[:, None] + offset
            if read is None:
                return np.broadcast_to(start, (waves.count, waves.lanes)), None
            return start + read(waves).astype(I64), None

        return scalar_base
    row = lane.first
    return lambda waves: (waves.pair_of(row).view(I64) + offset, None)


def buffer_addresses(
    decoded: Decoded, context: Context, operands: tuple[Operand, ...], size: int
) -> Addresses:
    """`v0, s[0:3], s4 offen offset:16`: address and range check of a raw buffer (stride 0)."""
    if operands and operands[0].name == "off":
        operands = operands[1:]
    lane = operands[0] if operands[0].kind == "vgpr" else None
    resource, scalar_offset = operands[1:3] if lane is not None else operands[:2]
    if decoded.flag("idxen"):
        raise NotCoveredError(f"{decoded.text}: indexed buffer")
    offset = I64(decoded.number("offset"))
    row = resource.first
    read = raw(lane) if lane is not None and decoded.flag("offen") else None
    scalar = raw(scalar_offset)

    def addresses(waves: Waves) -> tuple[Array, Array | None]:
        low, high, records, _ = waves.scalar[row : row + 4]
        start = (low.astype(I64) | ((high & U32(0xFFFF)).astype(I64) << I64(32)))[:, None]
        if (high >> U32(16) & U32(0x3FFF)).any():
            raise NotCoveredError(f"{decoded.text}: buffer with a stride")
        place = (
            np.zeros((waves.count, waves.lanes), I64) if read is None else (read(waves).astype(I64))
        )
        place = place + offset
        inside = place + I64(size) <= records.astype(I64)[:, None]
        return start + place + np.asarray(scalar(waves)).astype(I64), (
            None if inside.all() else inside
        )

    return addresses


def extended(values: Array, form: Form) -> Array:
    """A gathered result as uint32 [register, ...]."""
    if form.size >= 4:
        return values
    if form.signed:
        signed = values.view(np.int8 if form.size == 1 else np.int16)
        wide = signed.astype(np.int32).view(U32)
        return (wide & U32(0xFFFF) if form.half is not None else wide)[None]
    return values.astype(U32)[None]


def _load(form: Form, context: Context, data: Operand, addresses: Addresses) -> Step:
    half = form.half if form.half is not None else data.half

    def step(waves: Waves) -> None:
        where, inside = addresses(waves)
        memory = waves.machine.memory
        outside = waves.machine.outside(context.index)
        if waves.full and inside is None:
            waves.machine.touched(context.index, waves, where, None, form.size)
            rows = extended(memory.read(where, form.size, outside), form)
        else:
            usable = waves.active if inside is None else waves.active & inside
            waves.machine.touched(context.index, waves, where, usable, form.size)
            picked = extended(memory.read(where[usable], form.size, outside), form)
            rows = np.zeros((len(picked), waves.count, waves.lanes), U32)
            rows[:, usable] = picked
        deliver(waves, context, data, rows, half)

    return step


def _store(form: Form, context: Context, data: Operand, addresses: Addresses) -> Step:
    first, count = data.first, max(form.size // 4, 1)
    half = form.half if form.half is not None else data.half or 0

    def step(waves: Waves) -> None:
        where, inside = addresses(waves)
        usable = waves.active if inside is None else waves.active & inside
        waves.machine.touched(context.index, waves, where, usable, form.size)
        values = waves.u32[first : first + count][:, usable]
        if form.size < 4:
            values = (values[0] >> U32(16 * half)).astype(np.uint8 if form.size == 1 else np.uint16)
        outside = waves.machine.outside(context.index)
        waves.machine.memory.write(where[usable], values, form.size, outside)
        issue(waves, context)

    return step
