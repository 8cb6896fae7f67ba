"""The instructions that the addresses of memory accesses depend on: backward slices.

All scalar instructions are among them, since branches and masks rest on these.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from typing import Final

from ..model import Function, Instruction
from .effects import Effect, bits_of, result_count
from .operands import Decoded, Operand

ACCESSES: Final = frozenset(
    ("global_load", "global_store", "lds_read", "lds_write", "lds_direct", "lds_direct_store",
     "atomic", "lds_atomic")
)  # fmt: skip
"""Classes of the instructions whose addresses are looked for."""
MOST_ROUNDS: Final = 40
"""Over the flow graph, until it is known what is needed; loops in loops take one each."""
_SCALAR: Final = frozenset(("salu", "smem_load"))


def address_bits(instruction: Instruction, parts: Decoded) -> int:
    """The registers that an access takes its addresses from, a bit each."""
    bits = 0
    for operand in _address_operands(instruction, parts):
        bits |= bits_of(operand)
    return bits


def _address_operands(instruction: Instruction, parts: Decoded) -> Sequence[Operand]:
    if parts.name.startswith(("buffer_", "tbuffer_")):
        return parts.operands if "lds" in parts.modifiers else parts.operands[1:]
    sources = parts.operands[result_count(instruction, parts) :]
    if parts.name.startswith("ds_"):
        return sources[:1]
    if instruction.cls in ("global_store", "atomic"):  # behind the address stands the data
        return (*sources[:1], *sources[2:])
    return sources


def address_slice(
    function: Function, decoded: Sequence[Decoded], effects: Sequence[Effect]
) -> tuple[list[int], list[int]]:
    """Accesses, all scalar instructions and what both depend on.

    Returns:
        Indices of these instructions, none where it takes too long to find them; of each block the
        registers that they read before they are written.
    """
    instructions = function.instructions
    accesses = {
        inst.index: (address_bits(inst, decoded[inst.index]), effect.low | effect.high)
        for inst, effect in zip(instructions, effects, strict=True)
        if inst.cls in ACCESSES
    }
    always = {
        index
        for index, inst in enumerate(instructions)
        if inst.cls in _SCALAR or inst.op.name.startswith("v_cmpx")
    }
    return backward_slice(function, effects, accesses, always)


def backward_slice(
    function: Function,
    effects: Sequence[Effect],
    accesses: Mapping[int, tuple[int, int]],
    always: Container[int],
    masks: int = 0,
) -> tuple[list[int], list[int]]:
    """Accesses, the instructions that always count, and what both depend on.

    Args:
        function: the code.
        effects: what its instructions do to registers.
        accesses: by index the registers that the address needs, and those that need not be known
            before the access, since it writes them.
        always: indices of instructions that count whatever needs them.
        masks: registers that are needed wherever anything is carried out.

    Returns:
        As `address_slice` does.
    """
    blocks = function.blocks
    at_start = [0] * len(blocks)
    chosen: set[int] = set()
    for _ in range(MOST_ROUNDS):
        changed = False
        for block in reversed(blocks):
            wanted = masks
            for successor in block.successors:
                wanted |= at_start[successor]
            for site in range(block.stop - 1, block.start - 1, -1):
                effect = effects[site]
                if site in accesses:
                    chosen.add(site)
                    address, written = accesses[site]
                    wanted = wanted & ~written | address
                elif site in always or effect.writes & wanted:
                    chosen.add(site)
                    wanted = wanted & ~(effect.low & effect.high) | effect.reads | masks
            if wanted != at_start[block.index]:
                at_start[block.index] = wanted
                changed = True
        if not changed:
            return sorted(chosen), at_start
    return [], at_start
