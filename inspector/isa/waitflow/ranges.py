"""Values that scalar registers may have after comparisons with numbers.

Registers hold 32 bits and count as unsigned: a signed comparison with a number is one or two ranges
of unsigned values. Copies, and sums with a number, carry a range to another register.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from msgspec import Struct

from ...model import Instruction
from ..mnemonics import Flow, flow_of
from .registers import named, split_destination

Values = tuple[tuple[int, int], ...]
"""Ranges of values, (first, last) both included, ascending and disjoint."""
Ranges = frozenset[tuple[int, Values]]
"""(register, its values), for registers whose values are restricted."""

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
    """The effect of a block on a register: it gets the value of `source` at the start of the block
    plus `plus`, or an unknown one.
    """

    register: int
    source: int | None = None
    plus: int = 0


def compared(comparison: str, type_: str, operands: str) -> tuple[int, Values] | None:
    """The register of a comparison with a number, and its values where the comparison holds.

    Args:
        comparison: `eq`, `lt` or `le`.
        type_: `i32` or `u32`; None is returned for others.
        operands: as printed.
    """
    left_operand, _, right_operand = (text.strip() for text in operands.partition(","))
    if type_ not in ("i32", "u32"):
        return None
    base = (
        _SIGN if type_ == "i32" and comparison != "eq" else 0
    )  # shifts signed order to start at 0
    register, number = _register(left_operand), _number(right_operand)
    if register is not None and number is not None:
        bound = (number + base) % _SIZE
        first, last = (
            (bound, bound)
            if comparison == "eq"
            else (0, bound if comparison == "le" else bound - 1)
        )
    else:
        register, number = _register(right_operand), _number(left_operand)
        if register is None or number is None:
            return None
        bound = (number + base) % _SIZE
        first, last = (
            (bound, bound) if comparison == "eq" else (bound + (comparison == "lt"), _SIZE - 1)
        )
    return register, _shifted(((first, last),), -base) if first <= last else ()


def narrowed(assumed: Ranges, register: int, true_values: Values, holds: bool) -> Ranges | None:
    """The values after a comparison that holds or not; None where that outcome is impossible."""
    values = dict(assumed)
    remaining = _intersection(
        values.get(register, ALL), true_values if holds else _without(true_values)
    )
    if not remaining:
        return None
    values[register] = remaining
    return frozenset(values.items())


def effects(blocks: Sequence[Sequence[Instruction]], compared_: set[int]) -> list[list[Effect]]:
    """The effects of each block on registers that are compared, or copied to compared ones."""
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
    """The values after a block, by its effects."""
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
    """By block, the registers whose values before it decide a comparison in or after it.

    Args:
        effects_: by block, as `effects` returns them.
        compared_at: block -> the register that its ending compares.
        successors: by block.
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
    """Registers that an instruction may write: of vector ones, all in the first two operands."""
    first_operand, other_operands = split_destination(inst.operands)
    registers = set(named(first_operand))
    return (
        registers
        if inst.op.name.startswith("s_")
        else registers | set(named(split_destination(other_operands)[0]))
    )


def _effects(code: Sequence[Instruction], tracked: set[int]) -> list[Effect]:
    """The effects of a block on the tracked registers."""
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
    # A loop counter would get new values in each iteration without end.
    return [
        Effect(effect.register) if effect.source == effect.register and effect.plus else effect
        for effect in effect_of.values()
    ]


def _copy_or_sum(inst: Instruction) -> Effect | None:
    """The effect of a copy, or of a sum with a number; None for other instructions."""
    name = inst.op.name
    if name not in _COPIES and name not in _SUMS:
        return None
    operand_texts = [text.strip() for text in inst.operands.split(",")]
    target = _register(operand_texts[0])
    if target is None:
        return None
    if name in _COPIES and len(operand_texts) == len(("target", "source")):
        source = _register(operand_texts[1])
        return Effect(target, source) if source is not None else None
    if name in _SUMS and len(operand_texts) == len(("target", "left", "right")):
        source, number = _register(operand_texts[1]), _number(operand_texts[2])
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
    """All values but these."""
    gaps, start = [], 0
    for first, last in values:
        if start < first:
            gaps.append((start, first - 1))
        start = last + 1
    return (*gaps, (start, _SIZE - 1)) if start < _SIZE else tuple(gaps)


def _joined(values: Sequence[tuple[int, int]]) -> Values:
    joined: list[tuple[int, int]] = []
    for first, last in sorted(values):
        if joined and first <= joined[-1][1] + 1:
            joined[-1] = (joined[-1][0], max(joined[-1][1], last))
        else:
            joined.append((first, last))
    return tuple(joined)
