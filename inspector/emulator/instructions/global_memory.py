"""Loads and stores through registers: `global_*`, `flat_*`, `buffer_*`, `scratch_*`.

Addresses: CDNA3 ISA 9.1 (buffer), 10 (flat and global); RDNA3 ISA 9 and 11.
"""

from __future__ import annotations

import numpy as np
from msgspec.structs import replace

from ...isa.dataflow.operands import Decoded, Operand
from ..delivery import deliver, issue
from ..registry import BuildContext, NotCoveredError, Step, builds, builds_matching
from ..vector_operands import check_count
from ..waves import Array, Waves
from .addressing import (
    I64,
    AccessForm,
    Addresses,
    flat_addresses,
    form_of,
    place_in_register,
    private_addresses,
    stack_addresses,
)
from .buffers import buffer_addresses
from .lds_direct import load_to_lds
from .spaces import WRITES, StoredRegisters, access_of, read_registers, usable_lanes


@builds_matching(r"(global|flat|buffer|scratch)_(load|store)_\w+")
def build(decoded: Decoded, context: BuildContext) -> Step:
    """A load or store through registers, or a load into LDS (`lds`)."""
    form = form_of(decoded.name)
    if "lds" in decoded.modifiers or "_lds_" in decoded.name:
        return load_to_lds(decoded, context)
    operands = decoded.operands
    if form.space == "buffer":
        data, *others = operands
        if context.private:
            addresses = stack_addresses(decoded, context, tuple(others))
            return _step(replace(form, space="scratch"), context, data, addresses)
        addresses = buffer_addresses(decoded, context, tuple(others), form.size)
    else:
        data, lane = (operands[1], operands[0]) if form.writes else operands[:2]
        if form.space == "scratch":
            addresses = private_addresses(decoded, lane, operands[2:])
        else:
            addresses = flat_addresses(decoded, context, lane, operands[2:], form.size)
    return _step(form, context, data, addresses)


def _step(form: AccessForm, context: BuildContext, data: Operand, addresses: Addresses) -> Step:
    """Returns the step of a load or a store."""
    check_count(data, form.registers)
    make = _store if form.writes else _load
    return make(form, context, data, addresses)


def _load(form: AccessForm, context: BuildContext, data: Operand, addresses: Addresses) -> Step:
    """Returns the step of a load."""
    half = form.half if form.half is not None else data.half

    def step(waves: Waves) -> None:
        rows = read_registers(waves, context, form, *addresses(waves))
        placed, kept_half = place_in_register(rows, half, context)
        deliver(waves, context, data, placed, kept_half)

    return step


def _store(form: AccessForm, context: BuildContext, data: Operand, addresses: Addresses) -> Step:
    """Returns the step of a store; dwords are stored one by one where only some are in range."""
    size = form.size
    half = form.half if form.half is not None else data.half or 0
    registers = StoredRegisters(data.first, half)
    dwords = [StoredRegisters(data.first + number) for number in range(form.registers)]
    write = WRITES[form.space]

    def step(waves: Waves) -> None:
        where, inside = addresses(waves)
        if inside is not None and inside.ndim == 3:
            for part, lanes in enumerate(inside):
                usable = usable_lanes(waves, lanes)
                write(access_of(waves, context, where + 4 * part, usable, 4), dwords[part])
        else:
            usable = usable_lanes(waves, inside)
            write(access_of(waves, context, where, usable, size), registers)
        issue(waves, context)

    return step


@builds("global_load_addtid_b32", "global_store_addtid_b32")
def by_lane_number(decoded: Decoded, context: BuildContext) -> Step:
    """Lane i accesses the base in SGPRs + offset + 4 * i (RDNA3 ISA, 16.20)."""
    data, base = decoded.operands
    if base.kind != "sgpr" or base.is_null:
        raise NotCoveredError(decoded.text)
    check_count(base, 2)
    steps = np.arange(context.target.lanes) * 4 + decoded.number("offset")

    def addresses(waves: Waves) -> tuple[Array, Array | None]:
        return waves.pair(base.first).view(I64)[:, None] + steps, None

    form = AccessForm("global", "store" in decoded.name, 4, signed=False, half=None)
    return _step(form, context, data, addresses)
