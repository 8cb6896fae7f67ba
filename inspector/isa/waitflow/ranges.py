"""Values that scalar registers may have after comparisons with numbers.

Registers hold 32 bits and count as unsigned: a signed comparison with a number is one or two ranges
of unsigned values. Copies, and sums with a number, carry a range to another register.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from msgspec import Struct

from ...model import Instruction
from ..dataflow.operands import operand_texts
from ..mnemonics import Flow, flow_of
from .registers import named, split_destination

Values = tuple[tuple[int, int], ...]
"""Ranges of values, (first, last) both included, ascending and disjoint."""
Ranges = frozenset[tuple[int, Values]]
"""(register, its values), for registers whose values are restricted."""

_SIZE = 1 << 32
_SIGN = 1 << 31
ALL: Values = ((0, _SIZE - 1),)
_REGISTER = re.compile(r"s(?:\[(\d{1,9})\]|(\d{1,9}))")
_NUMBER = re.compile(r"-?(?:0[xX][0-9a-fA-F]+|\d+)")
_COPIES = frozenset(("s_mov_b32",))
_SUMS: Mapping[str, int] = {
    "s_add_u32": 1,
    "s_add_i32": 1,
    "s_sub_u32": -1,
    "s_sub_i32": -1,
}


class RegisterChange(Struct, frozen=True):
    """A change of a register by a block.

    Args:
        source: the register whose value at the start of the block it gets; None for an unknown one.
        plus: number that is added to that value.
    """

    register: int
    source: int | None = None
    plus: int = 0


def compared(comparison: str, number_type: str, operands: str) -> tuple[int, Values] | None:
    """The register of a comparison with a number, and its values where the comparison holds.

    Args:
        comparison: `eq`, `lt` or `le`.
        number_type: `i32` or `u32`; None is returned for others.
        operands: as printed.
    """
    if number_type not in ("i32", "u32"):
        return None
    left, _, right = (operand.strip() for operand in operands.partition(","))
    # Added to both sides of a signed comparison, this makes it an unsigned one.
    base = _SIGN if number_type == "i32" and comparison != "eq" else 0
    register, number = _register(left), _number(right)
    is_register_left = register is not None and number is not None
    if not is_register_left:
        register, number = _register(right), _number(left)
    if register is None or number is None:
        return None
    bound = (number + base) % _SIZE
    if comparison == "eq":
        first, last = bound, bound
    elif is_register_left:
        first, last = 0, bound if comparison == "le" else bound - 1
    else:
        first, last = bound if comparison == "le" else bound + 1, _SIZE - 1
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


def changes_of(
    blocks: Sequence[Sequence[Instruction]], compared_registers: set[int]
) -> list[list[RegisterChange]]:
    """The changes by each block of registers that are compared, or copied to compared ones."""
    copies = [
        (change.register, change.source)
        for code in blocks
        for inst in code
        if (change := _copy_or_sum(inst)) is not None and change.source is not None
    ]
    tracked = set(compared_registers)
    while sources := {s for r, s in copies if r in tracked and s not in tracked}:
        tracked |= sources
    return [_changes(code, tracked) for code in blocks]


def after(changes: Sequence[RegisterChange], assumed: Ranges) -> Ranges:
    """The values after a block, by its changes."""
    if not assumed or not changes:
        return assumed
    old_values, values = dict(assumed), dict(assumed)
    for change in changes:
        values.pop(change.register, None)
        source = old_values.get(change.source) if change.source is not None else None
        if source is not None:
            values[change.register] = _shifted(source, change.plus)
    return frozenset(values.items())


def live(
    changes: Sequence[Sequence[RegisterChange]],
    compared_at: Mapping[int, int],
    successors: Sequence[Sequence[int]],
) -> list[frozenset[int]]:
    """By block, the registers whose values before it decide a comparison in or after it.

    Args:
        changes: by block, as `changes_of` returns them.
        compared_at: block -> the register that its ending compares.
        successors: by block.
    """
    sources_of = [{change.register: change.source for change in block} for block in changes]
    live_in: list[frozenset[int]] = [frozenset() for _ in changes]
    changed = True
    while changed:
        changed = False
        for index in reversed(range(len(changes))):
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
    if not inst.op.name.startswith("s_"):
        registers.update(named(split_destination(other_operands)[0]))
    return registers


def _changes(code: Sequence[Instruction], tracked: set[int]) -> list[RegisterChange]:
    """The changes of the tracked registers by a block."""
    change_of: dict[int, RegisterChange] = {}
    for inst in code:
        if flow_of(inst.op, inst.operands) is Flow.CALL:
            change_of.update((register, RegisterChange(register)) for register in tracked)
            continue
        if inst.op.name.startswith(("s_cmp", "s_bitcmp")):
            continue
        change = _copy_or_sum(inst)
        if change is not None and change.register in tracked and change.source is not None:
            earlier = change_of.get(change.source, RegisterChange(change.source, change.source))
            change_of[change.register] = RegisterChange(
                change.register, earlier.source, earlier.plus + change.plus
            )
            continue
        written = written_registers(inst) & tracked
        change_of.update((register, RegisterChange(register)) for register in written)
    # A loop counter would get new values in each iteration without end.
    return [
        RegisterChange(change.register)
        if change.source == change.register and change.plus
        else change
        for change in change_of.values()
    ]


def _copy_or_sum(inst: Instruction) -> RegisterChange | None:
    """The change by a copy, or by a sum with a number; None for other instructions."""
    name = inst.op.name
    if name not in _COPIES and name not in _SUMS:
        return None
    destination, *sources = operand_texts(inst.operands)
    register = _register(destination)
    source = _register(sources[0]) if sources else None
    if register is None or source is None:
        return None
    if name in _COPIES and len(sources) == 1:
        return RegisterChange(register, source)
    number = _number(sources[1]) if name in _SUMS and len(sources) == 2 else None
    return None if number is None else RegisterChange(register, source, _SUMS[name] * number)


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
