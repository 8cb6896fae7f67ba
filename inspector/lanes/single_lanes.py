"""Code that at most one lane of a wave executes, whatever the values that are not known.

`if (lane == first active lane)` takes one lane, and whatever is compared inside narrows EXEC
further. Masks are followed through the instructions that LLVM writes for control flow: each with
the comparisons whose result it is contained in.
"""

from __future__ import annotations

import re
from typing import Final

from ..isa.dataflow.code_registers import CodeRegisters
from ..isa.dataflow.operands import EXEC, Decoded, Operand
from ..isa.dataflow.register_sets import SCALAR_BIT, rows_of, vector_bits
from ..model import Function

_EQUAL: Final = re.compile(r"v_cmpx?_eq_[iu]32")
_INSIDE_ALL: Final = -1
"""What a mask without lanes is contained in: every comparison's result."""


class _Masks:
    """What is known at a point of the code.

    `inside`: row of a mask's first register -> the comparisons, as bits, that it is contained in.
    `distinct`: the set of vector registers whose active lanes hold values of their own.
    """

    def __init__(self, inside: dict[int, int] | None = None, distinct: int = 0) -> None:
        self.inside = {} if inside is None else inside
        self.distinct = distinct

    def copy(self) -> _Masks:
        return _Masks(dict(self.inside), self.distinct)

    def meet(self, other: _Masks) -> bool:
        """Keeps what holds in both; returns whether something was dropped."""
        both = {row: bits & other.inside.get(row, 0) for row, bits in self.inside.items()}
        inside = {row: bits for row, bits in both.items() if bits}
        distinct = self.distinct & other.distinct
        changed = inside != self.inside or distinct != self.distinct
        self.inside, self.distinct = inside, distinct
        return changed

    def of(self, operand: Operand) -> int:
        """The comparisons that a mask is contained in."""
        if operand.integer == 0:
            return _INSIDE_ALL
        return self.inside.get(operand.first, 0) if operand.kind == "sgpr" else 0


def single_lane_sites(function: Function, code: CodeRegisters, lanes: int) -> frozenset[int]:
    """The instructions that write EXEC and leave at most one lane in it, by index."""
    if not any(parts.name.startswith("v_mbcnt_") for parts in code.decoded):
        return frozenset()
    entering: dict[int, _Masks] = {0: _Masks()}
    sites: set[int] = set()
    work = {0}
    while work:
        number = min(work)
        work.discard(number)
        block = function.blocks[number]
        masks = entering[number].copy()
        lows = copies = 0  # within the block: counts of the low lanes; copies of EXEC
        for index in range(block.start, block.stop):
            parts, writes = code.decoded[index], code.effects[index].writes
            is_count, is_whole = _counts_lanes(parts, copies, lows, lanes)
            written = _written(masks, parts, 1 << index)
            for row in rows_of(writes >> SCALAR_BIT & ((1 << SCALAR_BIT) - 1)):
                masks.inside.pop(row, None)
                if lanes > 32:
                    masks.inside.pop(row - 1, None)
            masks.inside.update({row: bits for row, bits in written.items() if bits})
            masks.distinct &= ~writes
            lows &= ~writes
            copies &= ~writes
            if is_count and not is_whole:
                lows |= writes
            elif is_whole and index not in code.masked:
                masks.distinct |= writes
            if parts.name.startswith("s_mov_b") and _is_exec(parts.operands[-1]):
                copies |= writes
            if writes >> SCALAR_BIT >> EXEC & 3:
                copies = 0
                if masks.inside.get(EXEC, 0):
                    sites.add(index)
                else:
                    sites.discard(index)
        for successor in block.successors:
            if successor not in entering:
                entering[successor] = masks.copy()
                work.add(successor)
            elif entering[successor].meet(masks):
                work.add(successor)
    return frozenset(sites)


def _is_exec(operand: Operand) -> bool:
    return operand.kind == "sgpr" and operand.first == EXEC


def _counts_lanes(parts: Decoded, copies: int, lows: int, lanes: int) -> tuple[bool, bool]:
    """Whether an instruction counts active lanes before each lane, and whether all of them."""
    is_high = parts.name.startswith("v_mbcnt_hi")
    if not is_high and not parts.name.startswith("v_mbcnt_lo"):
        return False, False
    if len(parts.operands) != 3:
        return False, False
    _, mask, base = parts.operands
    is_active = mask.integer == -1 or (
        mask.kind == "sgpr"
        and bool(copies >> SCALAR_BIT >> mask.first & 1 or mask.first in (EXEC, EXEC + 1))
    )
    if is_high:
        is_all = is_active and base.kind == "vgpr" and bool(lows & vector_bits(base.first, 1))
        return is_all, is_all
    is_low = is_active and base.integer == 0
    return is_low, is_low and lanes == 32


def _written(masks: _Masks, parts: Decoded, site: int) -> dict[int, int]:
    """First row of a mask that an instruction writes -> the comparisons that it is contained in."""
    name, operands = parts.name.rpartition("_b")[0] or parts.name, parts.operands
    active = masks.inside.get(EXEC, 0)
    if parts.name.startswith("v_cmp"):
        result = active | (site if _takes_one_lane(masks, parts) else 0)
        inside = {operands[0].first: result} if operands[0].kind == "sgpr" else {}
        if parts.name.startswith("v_cmpx"):
            inside[EXEC] = result
        return inside
    if not name.startswith("s_") or not operands or operands[0].kind != "sgpr":
        return {}
    to = operands[0].first
    read = [masks.of(operand) for operand in operands[1:]]
    if name.endswith("_saveexec") and read:
        left = {
            "s_and_saveexec": active | read[0],
            "s_andn2_saveexec": read[0],
            "s_and_not1_saveexec": read[0],
            "s_andn1_saveexec": active,
            "s_and_not0_saveexec": active,
            "s_or_saveexec": active & read[0],
        }
        return {to: active, EXEC: left.get(name, 0)}
    if name == "s_mov":
        return {to: read[0]}
    if len(read) == 2:
        if name == "s_and":
            return {to: read[0] | read[1]}
        if name in ("s_andn2", "s_and_not1"):
            return {to: read[0]}
        if name in ("s_or", "s_xor", "s_cselect"):
            return {to: read[0] & read[1]}
    return {}


def _takes_one_lane(masks: _Masks, parts: Decoded) -> bool:
    """Whether a comparison of values that differ between lanes with one value is for equality."""
    if not _EQUAL.fullmatch(parts.name):
        return False
    first, second = parts.operands[-2:]
    if first.kind == "vgpr":
        first, second = second, first
    return (
        second.kind == "vgpr"
        and first.kind != "vgpr"
        and bool(masks.distinct & vector_bits(second.first, 1))
    )
