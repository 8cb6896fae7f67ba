"""Atomics that count in bins: where a loaded value's bits or magnitude say which counter it is."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from ..isa.dataflow.value_graph import Operation, operations, registers
from ..isa.mnemonics import access_bits
from ..model import Function, Instruction

_ADDS: Final = re.compile(r"_atomic_(add|sub)(_x2|_[iu](32|64))?$")
_BINNING: Final = re.compile(
    r"v_cvt_(flr_|rpi_|nearest_|floor_)?[iu]32_f(16|32|64)|v_bfe_[iu]32|v_and_b32|v_lshrrev_b32"
)
_NARROW: Final = 32
_MOST_DEPTH: Final = 40


def counting(function: Function, atomics: Sequence[Instruction]) -> list[Instruction]:
    """Those of some atomics that add a constant in a bin."""
    wanted = {inst.index for inst in atomics if _ADDS.search(inst.op.name)}
    if not wanted:
        return []
    made: dict[int, Operation] = {}
    known: dict[Operation, tuple[bool, bool]] = {}
    found = []
    for inst in function.instructions:
        new = operations(function, (inst,), made)
        if inst.index not in wanted or len(new[0].sources) < 2:
            continue
        address, data = new[0].sources[:2]
        if inst.op.name.startswith("buffer_"):
            address, data = data, address
        moves = [made.get(row) for row in data.rows]
        adds_constant = moves and all(
            move is not None
            and move.name.startswith("v_mov_b")
            and move.sources[0].integer is not None
            for move in moves
        )
        rows = [made[row] for row in registers(address) if row in made]
        if adds_constant and any(all(_followed(maker, known, 0)) for maker in rows):
            found.append(inst)
    return found


def _followed(
    operation: Operation, known: dict[Operation, tuple[bool, bool]], depth: int
) -> tuple[bool, bool]:
    """Whether a value rests on a load, and whether a bin was made of that."""
    if depth > _MOST_DEPTH:
        return False, False
    if operation.inst.cls == "global_load":
        bits = access_bits(operation.inst.op, operation.inst.operands)
        return True, bits is not None and bits < _NARROW
    if operation not in known:
        sources = [_followed(maker, known, depth + 1) for maker in operation.all_makers]
        loaded = any(rests for rests, _ in sources)
        binned = any(rests and made for rests, made in sources)
        known[operation] = loaded, loaded and (binned or bool(_BINNING.match(operation.name)))
    return known[operation]
