"""Addresses that vector instructions compute in 64 bits where a base and a 32-bit offset would do.

An access of global memory takes its address as a pair of VGPRs, or as an SGPR pair with a VGPR of
32 bits added to it (ISA documents, "Global" and the SADDR field). LLVM chooses the latter where it
can prove that the offset in bytes is not negative and fits in 32 bits, which an index of C++ seldom
shows: an `int` may be negative, and `4 * index` may overflow an `unsigned`.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import Final

from ..isa.dataflow.operands import operand_texts
from ..isa.waitflow.registers import FIRST_AGPR, FIRST_SGPR, FIRST_TTMP, named, split_destination
from ..model import Instruction, Scalar
from .entries import NOT_IN_TRITON, Unknown, of_both
from .subject import LineName, Subject, Tally

SPECS = of_both(
    {
        "wide_addresses": "Accesses of global memory whose address is a pair of VGPRs that 64-bit "
        "arithmetic of the same loop makes of a base in SGPRs: how many `accesses` of the `of`, "
        "vector `instructions` of that arithmetic, those beyond one for each access (`saved`), "
        "those beyond two where the offset comes from another block (`least`: there LLVM adds the "
        "base beside the access whatever the offset's width), `at` the line of the first; None "
        "for Triton's code, whose buffer operations `buffer.plain` counts",
    }
)

_WIDE: Final = re.compile(
    r"v_(?:lshl_add_u64|add_co_u32|addc_co_u32|add_co_ci_u32|add_nc_u64|lshlrev_b64"
    r"|ashrrev_i32|mad_u64_u32|mad_i64_i32|mad_co_u64_u32|mad_co_i64_i32)$"
)
_CARRIES: Final = re.compile(r"v_(?:add_co|addc_co|add_co_ci|mad_)")
"""Instructions whose second operand is a carry that they write."""
_SIGN: Final = "v_ashrrev_i32"
"""An arithmetic shift by 31 makes the upper half of a number that is widened."""
_ACCESSES: Final = frozenset(("global_load", "global_store"))
_PAIR: Final = 2
_VGPRS: Final = range(FIRST_AGPR)
_SGPRS: Final = range(FIRST_SGPR, FIRST_TTMP)
_MOST_STEPS: Final = 16
"""Instructions of one address that are followed."""


def wide_addresses(subject: Subject, region: Tally) -> dict[str, Scalar] | Unknown:
    """The value of the metric of `SPECS`."""
    if subject.ttgir is not None:
        return NOT_IN_TRITON
    code = [subject.function.instructions[index] for index in region.indices]
    accesses = [(at, inst) for at, inst in enumerate(code) if inst.cls in _ACCESSES]
    with_base: list[Instruction] = []
    arithmetic: set[int] = set()
    far = 0
    pairs = [(at, inst, pair) for at, inst in accesses if (pair := _address(inst))]
    if pairs and any(_WIDE.match(inst.op.name) for inst in code):
        writers = _Writers(code)
        starts = [block.start for block in subject.function.blocks]
        for at, inst, pair in pairs:
            chain = writers.wide_chain(at, pair)
            if chain:
                with_base.append(inst)
                arithmetic |= chain
                blocks = {bisect_right(starts, index) for index in (*chain, inst.index)}
                far += len(blocks) > 1
    return {
        "accesses": len(with_base),
        "of": len(accesses),
        "instructions": len(arithmetic),
        "saved": max(0, len(arithmetic) - len(with_base)),
        "least": max(0, len(arithmetic) - len(with_base) - far),
        "at": LineName.of(with_base),
    }


def _address(inst: Instruction) -> tuple[int, ...]:
    """The pair of VGPRs that holds an access's whole address; empty where none does."""
    operands = operand_texts(inst.operands)
    position = 1 if inst.cls == "global_load" else 0
    if len(operands) <= position + 1 or not operands[-1].startswith("off"):
        return ()
    registers = named(operands[position])
    return registers if len(registers) == _PAIR and registers[0] in _VGPRS else ()


class _Writers:
    """The instructions of a region by the registers that they write."""

    def __init__(self, code: Sequence[Instruction]) -> None:
        self._code = code
        self._of: dict[int, list[int]] = {}
        for at, inst in enumerate(code):
            for register in named(split_destination(inst.operands)[0]):
                if register in _VGPRS and inst.cls not in ("global_store", "lds_write"):
                    self._of.setdefault(register, []).append(at)

    def wide_chain(self, until: int, address: Sequence[int]) -> set[int]:
        """The 64-bit arithmetic of an address; empty where no base in SGPRs is part of it."""
        chain: set[int] = set()
        adds_scalar = False
        pending = [(register, until) for register in address]
        while pending and len(chain) < _MOST_STEPS:
            register, before = pending.pop()
            writers = self._of.get(register, ())
            position = bisect_left(writers, before)
            if not position or writers[position - 1] in chain:
                continue
            writer = writers[position - 1]
            inst = self._code[writer]
            if _WIDE.match(inst.op.name) is None:
                continue
            operands = operand_texts(inst.operands)
            if inst.op.name == _SIGN and operands[1:2] != ("31",):
                continue
            chain.add(writer)
            sources = operands[2 if _CARRIES.match(inst.op.name) else 1 :]
            registers = {number for source in sources for number in named(source)}
            adds_scalar |= "add" in inst.op.name and any(r in _SGPRS for r in registers)
            pending.extend((number, writer) for number in registers if number in _VGPRS)
        return {self._code[at].index for at in chain} if adds_scalar else set()
