"""Which operands hold something that was loaded, and which positions or arguments alone.

Followed forwards from block to block until nothing changes. What a load, an atomic or an access of
LDS delivers is loaded data, and so is all that is computed from it. Numbers of work-items and
workgroups, the kernel's arguments and what is computed from these alone are positions; all other
registers hold constants. That a branch on loaded data leads somewhere makes nothing there data.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from ..isa.dataflow.execution_target import initial_registers
from ..isa.dataflow.liveness import Liveness
from ..isa.dataflow.operands import EXEC, HIGH_HALVES, SCALAR_BIT, scalar_bits, vector_bits
from ..model import Function, Instruction

_EXEC: Final = scalar_bits(EXEC, 2)
_VECTORS: Final = vector_bits(0, SCALAR_BIT)
_WORK_ITEMS: Final = vector_bits(0, 3)
"""Registers that hold positions at first where the code does not state them."""
_DELIVERS: Final = frozenset(
    ("global_load", "lds_read", "scratch_load", "atomic", "lds_atomic", "image", "bvh")
)


class OperandOrigins(Struct, frozen=True):
    """What the registers that each instruction reads hold, as sets of bits (`register_sets`).

    Args:
        data: those with loaded data, on some path.
        positions: those with positions or arguments, on some path.
    """

    data: Sequence[int]
    positions: Sequence[int]


def operand_origins(function: Function, live: Liveness) -> OperandOrigins:
    """Follows the registers of a kernel."""
    start, blocks = function.resources.wave_start, function.blocks
    first = _WORK_ITEMS
    if start is not None:
        first = initial_registers(start, live.target) & ~_EXEC
        for pointer in (start.kernarg_ptr, start.dispatch_ptr):
            if pointer is not None:
                first &= ~scalar_bits(pointer, 2)
    reads = [effect.reads & ~_EXEC for effect in live.effects]
    writes = [effect.writes & ~_EXEC for effect in live.effects]
    kept = [
        ~(ended & ended >> HIGH_HALVES & _VECTORS | written & ~_VECTORS)
        for ended, written in zip(live.ended, writes, strict=True)
    ]
    delivers = [_delivers(inst) for inst in function.instructions]
    of_data, of_positions = [0] * len(reads), [0] * len(reads)
    arriving: dict[int, tuple[int, int]] = {0: (0, first)} if blocks else {}
    waiting = set(arriving)
    while waiting:
        block = blocks[min(waiting)]
        waiting.remove(block.index)
        data, positions = arriving[block.index]
        for index in range(block.start, block.stop):
            read_data, read_positions = reads[index] & data, reads[index] & positions
            of_data[index] |= read_data
            of_positions[index] |= read_positions
            if not writes[index]:
                continue
            data &= kept[index]
            positions &= kept[index]
            is_loaded = bool(read_positions) and delivers[index] == "arguments"
            if read_data or is_loaded or delivers[index] == "data":
                data |= writes[index]
            elif read_positions or delivers[index]:
                positions |= writes[index]
        for following in block.successors:
            before = arriving.get(following)
            known_data, known_positions = before or (0, 0)
            merged = data | known_data, positions | known_positions
            if merged != before:
                arriving[following] = merged
                waiting.add(following)
    return OperandOrigins(of_data, of_positions)


def _delivers(inst: Instruction) -> str:
    """What an instruction brings that does not come from its operands."""
    if inst.cls in _DELIVERS:
        return "data"
    if inst.cls in ("smem_load", "message"):
        return "arguments"
    return "positions" if inst.op.name.startswith("v_mbcnt") else ""
