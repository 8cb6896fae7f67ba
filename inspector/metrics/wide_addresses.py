"""Addresses that vector instructions compute in 64 bits where a base and a 32-bit offset would do.

An access of global memory takes its address as a pair of VGPRs, or as an SGPR pair with a VGPR of
32 bits added to it (ISA documents, "Global" and the SADDR field). LLVM chooses the latter where it
can prove that the offset in bytes is not negative and fits in 32 bits, which an index of C++ seldom
shows: an `int` may be negative, and `4 * index` may overflow an `unsigned`.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from typing import Final

from ..isa.dataflow.operands import VCC
from ..isa.dataflow.value_graph import Operation, operations
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
_SIGN: Final = "v_ashrrev_i32"
"""An arithmetic shift by 31 makes the upper half of a number that is widened."""
_ACCESSES: Final = frozenset(("global_load", "global_store"))
_PAIR: Final = 2
_MOST_STEPS: Final = 16
"""Instructions of one address that are followed."""


def wide_addresses(subject: Subject, region: Tally) -> dict[str, Scalar] | Unknown:
    """The value of the metric of `SPECS`."""
    if subject.ttgir is not None:
        return NOT_IN_TRITON
    function = subject.function
    code = [function.instructions[index] for index in region.indices]
    accesses = [inst for inst in code if inst.cls in _ACCESSES]
    with_base: list[Instruction] = []
    arithmetic: set[int] = set()
    far = 0
    if accesses and any(_WIDE.match(inst.op.name) for inst in code):
        starts = [block.start for block in function.blocks]
        for operation in operations(function, code):
            inst = operation.inst
            if inst.cls not in _ACCESSES or not _has_whole_address(operation):
                continue
            chain = _wide_chain(operation)
            if chain:
                indices = {step.inst.index for step in chain}
                with_base.append(inst)
                arithmetic |= indices
                far += len({bisect_right(starts, at) for at in (*indices, inst.index)}) > 1
    return {
        "accesses": len(with_base),
        "of": len(accesses),
        "instructions": len(arithmetic),
        "saved": max(0, len(arithmetic) - len(with_base)),
        "least": max(0, len(arithmetic) - len(with_base) - far),
        "at": LineName.of(with_base),
    }


def _has_whole_address(access: Operation) -> bool:
    """Whether the first source of an access is a pair of VGPRs that holds the whole address."""
    if len(access.sources) < 2 or access.sources[-1].text != "off":
        return False
    return access.sources[0].letter == "v" and access.sources[0].count == _PAIR


def _wide_chain(access: Operation) -> set[Operation]:
    """The 64-bit arithmetic of an address; empty where no base in SGPRs is part of it."""
    chain: set[Operation] = set()
    pending = [*access.made(0)]
    while pending and len(chain) < _MOST_STEPS:
        step = pending.pop()
        is_other_shift = step.name == _SIGN and not step.reads_number(31)
        if step in chain or not _WIDE.match(step.parts.name) or is_other_shift:
            continue
        chain.add(step)
        for place, source in enumerate(step.sources):
            pending += step.made(place) if source.kind == "vgpr" else ()
    adds_scalar = any(
        "add" in step.name and any(s.kind == "sgpr" and s.first < VCC for s in step.sources)
        for step in chain
    )
    return chain if adds_scalar else set()
