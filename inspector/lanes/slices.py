"""The instructions that the addresses of memory accesses depend on: backward slices.

One is for the addresses of all accesses; every scalar instruction is in it, since branches and
masks rest on these. The other is for LDS addresses alone, and follows SCC as if it were a register.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Container, Mapping, Sequence
from typing import Final, NamedTuple

from ..isa.dataflow.effects import RegisterEffect, bits_of, result_count
from ..isa.dataflow.operands import (
    EXEC,
    M0,
    SCALAR_ROWS,
    VECTOR_REGISTERS,
    Decoded,
    Operand,
    scalar_bits,
)
from ..model import Function, Instruction

ACCESSES: Final = frozenset(
    ("global_load", "global_store", "lds_read", "lds_write", "lds_direct", "lds_direct_store",
     "atomic", "lds_atomic")
)  # fmt: skip
"""Classes of the instructions whose addresses are looked for."""
MOST_ROUNDS: Final = 40
"""Over the flow graph, until it is known what is needed; loops in loops take one each."""
_SCALAR: Final = frozenset(("salu", "smem_load"))
LDS_CLASSES: Final = frozenset(
    ("lds_read", "lds_write", "lds_atomic", "lds_direct", "lds_direct_store")
)
SCC_BIT: Final = scalar_bits(SCALAR_ROWS, 1)
"""Stands for the scalar condition code in a set of registers."""
EXEC_BITS: Final = scalar_bits(EXEC, 2)
_M0_BITS: Final = scalar_bits(M0, 1)
_KEEPS_SCC: Final = re.compile(
    r"s_(mov|cmov|movk|cselect|mul|pack|getpc|load|buffer_load|wait|nop|barrier|setprio|sleep|brev"
    r"|ff[01]|flbit|clz|ctz|cls|sext|bitset|getreg|setreg|delay|clause|memtime|inst_prefetch|add_f"
    r"|sub_f|fma|cvt|min_f|max_f|rndne|trunc|floor|ceil|branch|cbranch|endpgm|set|bitreplicate)\w*"
)
"""Scalar operations that leave SCC alone (ISA documents: no "SCC = ..." stands with them)."""
_READS_SCC: Final = re.compile(r"s_(cselect|cmov|addc|subb|add_co_ci|sub_co_ci|cbranch_scc)\w*")


def address_bits(instruction: Instruction, parts: Decoded) -> int:
    """The registers that an access takes its addresses from, a bit each."""
    bits = 0
    for operand in address_operands(instruction, parts):
        bits |= bits_of(operand)
    return bits


def address_operands(instruction: Instruction, parts: Decoded) -> Sequence[Operand]:
    """The operands that an access takes its addresses from."""
    if parts.name.startswith(("buffer_", "tbuffer_")):
        return parts.operands if "lds" in parts.modifiers else parts.operands[1:]
    sources = parts.operands[result_count(instruction, parts) :]
    if parts.name.startswith("ds_"):
        return sources[:1]
    if instruction.cls in ("global_store", "atomic"):  # behind the address stands the data
        return (*sources[:1], *sources[2:])
    return sources


class Slice(NamedTuple):
    """Instructions to carry out.

    Args:
        sites: their indices, ascending; none where it takes too long to find them.
        at_start: of each block the registers that they read before they are written.
        read_on: the accesses among them whose results others of them read.
    """

    sites: list[int]
    at_start: list[int]
    read_on: frozenset[int]


def address_slice(
    function: Function,
    decoded: Sequence[Decoded],
    effects: Sequence[RegisterEffect],
    *,
    masked: Container[int],
) -> Slice:
    """Accesses of memory, all scalar instructions and what both depend on.

    `masked`: indices of those to which lanes come that are switched off there.
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
    return backward_slice(function, effects, accesses, always, masked=masked)


def backward_slice(
    function: Function,
    effects: Sequence[RegisterEffect],
    accesses: Mapping[int, tuple[int, int]],
    always: Container[int],
    masks: int = 0,
    *,
    masked: Container[int],
) -> Slice:
    """Accesses, the instructions that always count, and what both depend on.

    `accesses`: by index the registers that the address needs, and those that need not be known
    before the access, since it writes them. `always`: indices of instructions that count whatever
    needs them. `masks`: registers that are needed wherever anything is carried out. `masked`:
    indices of the instructions to which lanes come that are switched off there.
    """
    blocks = function.blocks
    at_start = [0] * len(blocks)
    at_end: list[int | None] = [None] * len(blocks)
    chosen: set[int] = set()
    read_on: set[int] = set()
    for _ in range(MOST_ROUNDS):
        changed = False
        for block in reversed(blocks):
            wanted = masks
            for successor in block.successors:
                wanted |= at_start[successor]
            if wanted == at_end[block.index]:
                continue
            at_end[block.index] = wanted
            for site in range(block.stop - 1, block.start - 1, -1):
                effect = effects[site]
                # In lanes that are switched off a vector register keeps what it had.
                kept = VECTOR_REGISTERS if site in masked else 0
                if site in accesses:
                    chosen.add(site)
                    address, written = accesses[site]
                    if effect.writes & wanted:
                        read_on.add(site)
                        address |= effect.reads  # of an atomic: what it brings rests on its data
                    wanted = wanted & ~(written & ~kept) | address
                elif site in always or effect.writes & wanted:
                    chosen.add(site)
                    ended = effect.low & effect.high & ~kept
                    wanted = wanted & ~ended | effect.reads | masks
            if wanted != at_start[block.index]:
                at_start[block.index] = wanted
                changed = True
        if not changed:
            return Slice(sorted(chosen), at_start, frozenset(read_on))
    return Slice([], at_start, frozenset())


def with_scc(effect: RegisterEffect, parts: Decoded) -> RegisterEffect:
    """A scalar instruction's effect with the condition code among the registers."""
    if not parts.name.startswith("s_"):
        return effect
    added, keeps = _scalar(parts.name)
    reads, writes, low, high = effect.reads | added, effect.writes, effect.low, effect.high
    if not keeps:
        writes, low, high = writes | SCC_BIT, low | SCC_BIT, high | SCC_BIT
    return RegisterEffect(reads, writes, low, high)


@functools.lru_cache(maxsize=1 << 10)
def _scalar(name: str) -> tuple[int, bool]:
    """Returns the registers that a scalar instruction reads unnamed, and if it leaves SCC alone."""
    reads = SCC_BIT if _READS_SCC.fullmatch(name) else 0
    if "exec" in name:  # s_and_saveexec, s_cbranch_execz
        reads |= EXEC_BITS
    return reads, _KEEPS_SCC.fullmatch(name) is not None


def lds_address_bits(inst: Instruction, parts: Decoded) -> int:
    """The registers that an access takes its LDS address from."""
    name, operands = parts.name, parts.operands
    if "_addtid_" in name or name.startswith(("ds_append", "ds_consume")):
        return _M0_BITS
    if not name.startswith("ds_"):
        if "_async_" in name:  # the address in LDS comes first in a load, second in a store
            index = 0 if "_to_lds" in name else 1
            return bits_of(operands[index]) if index < len(operands) else 0
        return _M0_BITS
    sources = operands[result_count(inst, parts) :]
    return bits_of(sources[0]) if sources else 0


def lds_slice(
    function: Function,
    decoded: Sequence[Decoded],
    effects: Sequence[RegisterEffect],
    masked: Container[int],
) -> list[int]:
    """Accesses of LDS, branches, and what both depend on, masks included.

    `effects`: what they do to registers, as `with_scc` has it. Returns indices, ascending; none
    where it takes too long to find them.
    """
    accesses = {
        inst.index: (lds_address_bits(inst, decoded[inst.index]), effect.low & effect.high)
        for inst, effect in zip(function.instructions, effects, strict=True)
        if inst.cls in LDS_CLASSES
    }
    branches = {site for site, parts in enumerate(decoded) if parts.name.startswith("s_cbranch_")}
    return backward_slice(function, effects, accesses, branches, EXEC_BITS, masked=masked).sites
