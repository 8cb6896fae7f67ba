"""Where addresses and sizes come from: words of the kernel's arguments or of its dispatch
packet.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from ..isa.dataflow.operands import Operand
from ..isa.dataflow.value_graph import Operation, registers
from ..model import Function

KERNARG, DISPATCH = "kernarg", "dispatch"

Word = tuple[str, int]
"""Where a word lies: `KERNARG` or `DISPATCH`, and bytes from there."""
_MOVES: Final = ("s_mov_b",)
_ADDS: Final = ("s_add_u32", "s_add_u64")
_LOADS: Final = ("global_load", "lds_direct", "smem_load")
WORD_BYTES: Final = 4


def loaded_word(function: Function, source: Operand, maker: Operation | None) -> Word | None:
    """The word that the first register of a source holds; None of anything else.

    `source`: what an operation reads; `maker`: the operation that made it.
    """
    if maker is None or maker.inst.cls != "smem_load" or not maker.sources:
        return None
    begin = _pointed_to(function, maker.sources[0], maker.argument)
    added = maker.sources[1:]
    # Behind an offset in a register lies whatever lies there.
    if begin is None or any(map(registers, added)) or "offset" in maker.parts.modifiers:
        return None
    place, offset = begin
    offset += sum(operand.integer or 0 for operand in added)
    return place, offset + WORD_BYTES * (source.first - maker.results[0].first)


def _pointed_to(function: Function, source: Operand, maker: Operation | None) -> Word | None:
    """Where a pointer points to."""
    offset = 0
    while maker is not None and maker.sources and maker.name.startswith((*_MOVES, *_ADDS)):
        if maker.name.startswith(_ADDS):
            constant = maker.sources[-1].integer
            if constant is None:
                return None
            offset += constant
        source, maker = maker.sources[0], maker.makers[0]
    start = function.resources.wave_start
    if start is None or maker is not None or source.kind != "sgpr":
        return None
    places = {start.kernarg_ptr: KERNARG, start.dispatch_ptr: DISPATCH}
    place = places.get(source.first)
    return None if place is None else (place, offset)


def pointers_read(function: Function, code: Iterable[Operation]) -> dict[Operation, frozenset[int]]:
    """Operation -> offsets of the pointer arguments that what it reads is computed from.

    What a vector load brings is not followed further.

    `code`: its operations in the order in which they are executed.
    """
    arguments = function.resources.pointers or ()
    found: dict[Operation, frozenset[int]] = {}
    for operation in code:
        read: set[int] = set()
        for source, maker in zip(operation.sources, operation.makers, strict=True):
            word = loaded_word(function, source, maker)
            if word is not None and word[0] == KERNARG:
                read.update(p for p in arguments if word[1] in (p, p + WORD_BYTES))
            elif maker is not None and maker.inst.cls not in _LOADS:
                read |= found[maker]
        found[operation] = frozenset(read)
    return found
