"""The values that scalar registers may have, by the comparisons with numbers on the way.

Registers hold 32 bits and are told as unsigned: a signed comparison with a number is one or two
ranges of those. Copies, and sums with a number, carry what is known to another register.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from msgspec import Struct

from ...model import Instruction
from ..mnemonics import Flow, flow_of
from .registers import named, split_destination

Values = tuple[tuple[int, int], ...]
"""Ranges of values, first and last included, rising and apart."""
Ranges = frozenset[tuple[int, Values]]
"""Registers of whose values something is known."""

_SIZE = 1 << 32
_SIGN = 1 << 31
ALL: Values = ((0, _SIZE - 1),)
_REGISTER = re.compile(r"s(?:\[(\d+)\]|(\d+))")
_NUMBER = re.compile(r"-?(?:0[xX][0-9a-fA-F]+|\d+)")
_COPIES = frozenset(("s_mov_b32",))
_SUMS: Mapping[str, int] = {
    "s_add_u32": 1,
    "s_add_i32": 1,
    "s_sub_u32": -1,
    "s_sub_i32": -1,
}


class Effect(Struct, frozen=True):
    """What a block does to a register: it gets what `source` was, plus `plus`, or is lost."""

    register: int
    source: int | None = None
    plus: int = 0


def compared(kind: str, type_: str, operands: str) -> tuple[int, Values] | None:
    """The register of a comparison with a number, and its values where the comparison holds.

    Args:
        kind: `eq`, `lt` or `le`.
        type_: `i32` or `u32`; others tell nothing.
        operands: as printed.
    """
    left, _, right = (part.strip() for part in operands.partition(","))
    if type_ not in ("i32", "u32"):
        return None
    base = _SIGN if type_ == "i32" and kind != "eq" else 0  # signed order, moved to begin at 0
    register, number = _register(left), _number(right)
    if register is not None and number is not None:
        at = (number + base) % _SIZE
        first, last = (at, at) if kind == "eq" else (0, at if kind == "le" else at - 1)
    else:
        register, number = _register(right), _number(left)
        if register is None or number is None:
            return None
        at = (number + base) % _SIZE
        first, last = (at, at) if kind == "eq" else (at + (kind == "lt"), _SIZE - 1)
    return register, _shifted(((first, last),), -base) if first <= last else ()


def narrowed(assumed: Ranges, register: int, among: Values, holds: bool) -> Ranges | None:
    """What is known behind a comparison; None where it cannot come out so."""
    values = dict(assumed)
    left = _intersection(values.get(register, ALL), among if holds else _without(among))
    if not left:
        return None
    values[register] = left
    return frozenset(values.items())


def effects(blocks: Sequence[Sequence[Instruction]], compared_: set[int]) -> list[list[Effect]]:
    """Per block what its instructions do to registers that are compared, or are copied to such."""
    copies = [
        (change.register, change.source)
        for code in blocks
        for inst in code
        if (change := _copy_or_sum(inst)) is not None and change.source is not None
    ]
    tracked = set(compared_)
    while sources := {s for r, s in copies if r in tracked and s not in tracked}:
        tracked |= sources
    return [_effects(code, tracked) for code in blocks]


def after(effects_: Sequence[Effect], assumed: Ranges) -> Ranges:
    """What is known behind a block."""
    if not assumed or not effects_:
        return assumed
    old_values, values = dict(assumed), dict(assumed)
    for effect in effects_:
        values.pop(effect.register, None)
        source = old_values.get(effect.source) if effect.source is not None else None
        if source is not None:
            values[effect.register] = _shifted(source, effect.plus)
    return frozenset(values.items())


def live(
    effects_: Sequence[Sequence[Effect]],
    compared_at: Mapping[int, int],
    successors: Sequence[Sequence[int]],
) -> list[frozenset[int]]:
    """Per block the registers whose values before it decide a comparison in or behind it.

    Args:
        effects_: per block, as `effects` gives them.
        compared_at: block -> the register that its ending compares.
        successors: per block.
    """
    sources_of = [{effect.register: effect.source for effect in block} for block in effects_]
    live_in: list[frozenset[int]] = [frozenset() for _ in effects_]
    changed = True
    while changed:
        changed = False
        for index in reversed(range(len(effects_))):
            live_out = {r for successor in successors[index] for r in live_in[successor]}
            if index in compared_at:
                live_out.add(compared_at[index])
            sources = (sources_of[index].get(register, register) for register in live_out)
            registers = frozenset(register for register in sources if register is not None)
            if registers != live_in[index]:
                live_in[index], changed = registers, True
    return live_in


def written_registers(inst: Instruction) -> set[int]:
    """Registers that an instruction may write: of a vector one the first two operands'."""
    first, other_operands = split_destination(inst.operands)
    registers = set(named(first))
    return (
        registers
        if inst.op.name.startswith("s_")
        else registers | set(named(split_destination(other_operands)[0]))
    )


def _effects(code: Sequence[Instruction], tracked: set[int]) -> list[Effect]:
    effect_of: dict[int, Effect] = {}
    for inst in code:
        if flow_of(inst.op, inst.operands) is Flow.CALL:
            effect_of.update((register, Effect(register)) for register in tracked)
            continue
        if inst.op.name.startswith(("s_cmp", "s_bitcmp")):
            continue
        change = _copy_or_sum(inst)
        if change is not None and change.register in tracked and change.source is not None:
            earlier = effect_of.get(change.source, Effect(change.source, change.source))
            effect_of[change.register] = Effect(
                change.register, earlier.source, earlier.plus + change.plus
            )
            continue
        effect_of.update(
            (register, Effect(register)) for register in written_registers(inst) & tracked
        )
    # A register that counts would be known anew in each iteration, and never the same.
    return [
        Effect(effect.register) if effect.source == effect.register and effect.plus else effect
        for effect in effect_of.values()
    ]


def _copy_or_sum(inst: Instruction) -> Effect | None:
    """What a copy or a sum with a number makes of which register; None for anything else."""
    name = inst.op.name
    if name not in _COPIES and name not in _SUMS:
        return None
    parts = [part.strip() for part in inst.operands.split(",")]
    target = _register(parts[0])
    if target is None:
        return None
    if name in _COPIES and len(parts) == len(("target", "source")):
        source = _register(parts[1])
        return Effect(target, source) if source is not None else None
    if name in _SUMS and len(parts) == len(("target", "left", "right")):
        source, number = _register(parts[1]), _number(parts[2])
        if source is not None and number is not None:
            return Effect(target, source, _SUMS[name] * number)
    return None


def _register(text: str) -> int | None:
    match = _REGISTER.fullmatch(text)
    if match is None:
        return None
    (register,) = named(text) or (None,)
    return register


def _number(text: str) -> int | None:
    return int(text, 0) % _SIZE if _NUMBER.fullmatch(text) else None


def _shifted(values: Values, plus: int) -> Values:
    shifted: list[tuple[int, int]] = []
    for first, last in values:
        low, high = (first + plus) % _SIZE, (last + plus) % _SIZE
        shifted += [(low, high)] if low <= high else [(low, _SIZE - 1), (0, high)]
    return _joined(shifted)


def _intersection(left: Values, right: Values) -> Values:
    overlaps = [(max(a, c), min(b, d)) for a, b in left for c, d in right]
    return _joined([(first, last) for first, last in overlaps if first <= last])


def _without(values: Values) -> Values:
    gaps, at = [], 0
    for first, last in values:
        if at < first:
            gaps.append((at, first - 1))
        at = last + 1
    return (*gaps, (at, _SIZE - 1)) if at < _SIZE else tuple(gaps)


def _joined(values: Sequence[tuple[int, int]]) -> Values:
    joined: list[tuple[int, int]] = []
    for first, last in sorted(values):
        if joined and first <= joined[-1][1] + 1:
            joined[-1] = (joined[-1][0], max(joined[-1][1], last))
        else:
            joined.append((first, last))
    return tuple(joined)
