"""Spilled registers followed through scratch memory: each dword of a slot is one more register.

A spill stores whole registers of the active lanes at a fixed place, and a reload brings them back:
for what a register holds it is a move. The places are told by whoever knows which accesses of
scratch are spills, or are those whose offset stands in the code (`slot_dwords`).
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Mapping, Sequence
from typing import Final

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from ..emulator.registry import Step
from ..emulator.waves import Waves
from ..isa.dataflow.effects import RegisterEffect, bits_of
from ..isa.dataflow.operands import (
    SCALAR_BIT,
    VECTOR_REGISTERS,
    Decoded,
    rows_of,
    vector_bits,
)
from ..isa.mnemonics import access_bits
from ..model import Function

SpillDwords = Mapping[int, Sequence[Hashable]]
"""Index of a scratch access that is a spill or a reload -> the dwords of slots that it touches."""


_DWORDS: Final = re.compile(r"(?:scratch|buffer)_(load|store)_(?:dword(?:x(\d))?|b(32|64|96|128))")


def slot_dwords(function: Function, decoded: Sequence[Decoded]) -> dict[int, Sequence[int]]:
    """By index of an access of the stack, the offsets of its dwords, where they stand in the code.

    Arrays on the stack, whose addresses lie in registers, are not told: LLVM keeps them apart from
    spill slots.
    """
    dwords: dict[int, Sequence[int]] = {}
    for inst in function.instructions:
        parts = decoded[inst.index]
        match = _DWORDS.fullmatch(parts.name)
        if inst.cls not in ("scratch_load", "scratch_store") or match is None:
            continue
        verb, times, bits = match.groups()
        operands = list(parts.operands)
        data = 1 if verb == "store" and parts.name.startswith("scratch") else 0
        if data >= len(operands) or operands.pop(data).kind != "vgpr":
            continue
        if parts.name.startswith("buffer"):  # off, s[0:3], 0
            if len(operands) != 3 or operands[2].integer != 0:
                continue
            operands = operands[:1]
        offset = parts.number("offset")
        if offset % 4 == 0 and all(operand.text == "off" for operand in operands):
            size = int(bits) // 8 if bits else 4 * int(times or 1)
            dwords[inst.index] = range(offset, offset + size, 4)
    return dwords


class FollowedSpills(Struct, frozen=True):
    """Spills and reloads as moves between registers.

    `slots`: the rows of slots, a bit each; nothing is known of one until it is stored.
    """

    effects: Sequence[RegisterEffect]
    moves: Mapping[int, Step]
    slots: int


def follow_spills(
    function: Function,
    decoded: Sequence[Decoded],
    effects: Sequence[RegisterEffect],
    dwords: SpillDwords,
) -> FollowedSpills:
    """Makes registers of the dwords that spills and reloads touch.

    A dword that some access touches in another way (a part of it, more than it has data for) stays
    memory, as do all where there are more than rows to hold them.
    """
    if not dwords:
        return FollowedSpills(effects, {}, 0)
    data = {site: _data_rows(function, decoded, effects, site) for site in dwords}
    irregular = {
        dword
        for site, touched in dwords.items()
        if len(data[site]) != len(touched)
        or access_bits(function.instructions[site].op, function.instructions[site].operands)
        != 32 * len(touched)
        for dword in touched
    }
    followed = {
        site: touched
        for site, touched in dwords.items()
        if touched and irregular.isdisjoint(touched)
    }
    used = 0
    for effect in effects:
        used |= (effect.reads | effect.writes) & VECTOR_REGISTERS
    first = used.bit_length()
    names = dict.fromkeys(dword for touched in followed.values() for dword in touched)
    if first + len(names) > SCALAR_BIT:
        return FollowedSpills(effects, {}, 0)
    row_of = {dword: first + number for number, dword in enumerate(names)}
    with_slots, moves = list(effects), {}
    for site, touched in followed.items():
        slots = [row_of[dword] for dword in touched]
        is_store = function.instructions[site].cls == "scratch_store"
        with_slots[site] = _with_slots(effects[site], slots, is_store=is_store)
        moves[site] = _move(slots, data[site]) if is_store else _move(data[site], slots)
    return FollowedSpills(with_slots, moves, vector_bits(first, len(names)))


def _data_rows(
    function: Function, decoded: Sequence[Decoded], effects: Sequence[RegisterEffect], site: int
) -> Sequence[int]:
    """The vector registers that an access of scratch stores or loads, in order."""
    if function.instructions[site].cls != "scratch_store":
        return rows_of(effects[site].writes & VECTOR_REGISTERS)
    parts = decoded[site]
    position = 0 if parts.name.startswith("buffer_") else 1  # scratch_store VADDR, DATA, SADDR
    if len(parts.operands) <= position:
        return []
    return rows_of(bits_of(parts.operands[position]) & VECTOR_REGISTERS)


def _with_slots(effect: RegisterEffect, slots: Sequence[int], *, is_store: bool) -> RegisterEffect:
    """An access's effect with the rows of its slots."""
    bits = 0
    for row in slots:
        bits |= vector_bits(row, 1)
    if not is_store:
        return replace(effect, reads=effect.reads | bits)
    return replace(
        effect, writes=effect.writes | bits, low=effect.low | bits, high=effect.high | bits
    )


def _move(to: Sequence[int], source: Sequence[int]) -> Step:
    """Moves registers in the active lanes."""
    targets, sources = list(to), list(source)

    def move(waves: Waves) -> None:
        for target, row in zip(targets, sources, strict=True):
            np.copyto(waves.vector[target], waves.vector[row], where=waves.active)

    return move
