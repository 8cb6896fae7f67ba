"""Slices of a kernel for its LDS addresses: the instructions to be carried out to know them."""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from typing import Final

from ..model import Function, Instruction
from .effects import Effect, bits_of, result_count
from .operands import EXEC, M0, SCALAR_ROWS, Decoded
from .register_sets import scalar_bits
from .slices import backward_slice

LDS_CLASSES: Final = frozenset(
    ("lds_read", "lds_write", "lds_atomic", "lds_direct", "lds_direct_store")
)
SCC_BIT: Final = scalar_bits(SCALAR_ROWS, 1)
"""Stands for the scalar condition code in a set of registers."""
EXEC_BITS: Final = scalar_bits(EXEC, 2)
_M0_BITS: Final = scalar_bits(M0, 1)
# Scalar operations that leave SCC alone (ISA documents: no "SCC = ..." stands with them).
_KEEPS_SCC: Final = re.compile(
    r"s_(mov|cmov|movk|cselect|mul|pack|getpc|load|buffer_load|wait|nop|barrier|setprio|sleep|brev"
    r"|ff[01]|flbit|clz|ctz|cls|sext|bitset|getreg|setreg|delay|clause|memtime|inst_prefetch|add_f"
    r"|sub_f|fma|cvt|min_f|max_f|rndne|trunc|floor|ceil|branch|cbranch|endpgm|set|bitreplicate)\w*"
)
_READS_SCC: Final = re.compile(r"s_(cselect|cmov|addc|subb|add_co_ci|sub_co_ci|cbranch_scc)\w*")


def with_scc(effect: Effect, parts: Decoded) -> Effect:
    """A scalar instruction's effect with the condition code among the registers."""
    if not parts.name.startswith("s_"):
        return effect
    added, keeps = _scalar(parts.name)
    reads, writes, low, high = effect.reads | added, effect.writes, effect.low, effect.high
    if not keeps:
        writes, low, high = writes | SCC_BIT, low | SCC_BIT, high | SCC_BIT
    return Effect(reads, writes, low, high)


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
    function: Function, decoded: Sequence[Decoded], effects: Sequence[Effect]
) -> list[int]:
    """Accesses of LDS, branches, and what both depend on, masks included.

    Args:
        function: the code.
        decoded: its instructions, taken apart.
        effects: what they do to registers, as `with_scc` has it.

    Returns:
        Indices, ascending; none where it takes too long to find them.
    """
    accesses = {
        inst.index: (lds_address_bits(inst, decoded[inst.index]), effect.low & effect.high)
        for inst, effect in zip(function.instructions, effects, strict=True)
        if inst.cls in LDS_CLASSES
    }
    branches = {site for site, parts in enumerate(decoded) if parts.name.startswith("s_cbranch_")}
    return backward_slice(function, effects, accesses, branches, EXEC_BITS)[0]
