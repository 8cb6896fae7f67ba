"""Narrow accesses by which one lane takes neighbouring bytes one after the other.

LLVM makes one access of them where they stand side by side and nothing in between may change the
memory. Each behind a check of its own, or beside stores through other pointers, they stay apart.

Addresses that vector instructions compute in 64 bits where a base and a 32-bit offset would do.

An access of global memory takes its address as a pair of VGPRs, or as an SGPR pair with a VGPR of
32 bits added to it (ISA documents, "Global" and the SADDR field). LLVM chooses the latter where it
can prove that the offset in bytes is not negative and fits in 32 bits, which an index of C++ seldom
shows: an `int` may be negative, and `4 * index` may overflow an `unsigned`.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from ..isa.dataflow.operands import VCC, Operand
from ..isa.dataflow.value_graph import Operation, graph_of, operations, parts_of, rows_of
from ..isa.mnemonics import access_bits
from ..model import Function, Instruction, Loop, Scalar
from .access_spans import is_coherent
from .entries import NOT_IN_TRITON, Unknown, of_both
from .subject import LineName, Subject, Tally

if TYPE_CHECKING:
    from ..lanes.addresses import Places


_Group = tuple[str, str, int, str | None]
"""(class, address, bits, loop) of accesses."""
_Widths = dict[tuple[str, str | None], set[int]]
WIDEST: Final = 128
_ACCESSES: Final = frozenset(("global_load", "global_store"))
_NARROW: Final = 32


def joint_accesses(subject: Subject, owner: Mapping[int, Loop]) -> dict[int, int]:
    """Index of an access -> bits per lane that it and its neighbours move together, 128 at most.

    Only accesses of 32 bits or less that have neighbours are in it: others of their width in the
    same loop, whose lanes all lie as far from theirs, or with the same registers as address. Those
    of lanes side by side are left out: a lane's neighbours are other lanes' elements there.

    Args:
        subject: the kernel; there are none in Triton's code.
        owner: block -> the innermost loop around it.
    """
    if subject.ttgir is not None:
        return {}
    function = subject.function
    wide = _widths(function, owner)
    if all(bits > _NARROW for widths in wide.values() for bits in widths):
        return {}
    joint = {
        **_by_registers(function, owner, wide),
        **_by_places(function, owner, wide, subject.places),
    }
    return {index: bits for index, bits in joint.items() if not _in_a_row(subject, index)}


def _in_a_row(subject: Subject, index: int) -> bool:
    """Whether the lanes of an access lie side by side."""
    use = subject.uses.get(index)
    inst = subject.function.instructions[index]
    bits = access_bits(inst.op, inst.operands)
    return use is not None and bits is not None and use.lies_side_by_side(bits) is True


def _by_places(
    function: Function,
    owner: Mapping[int, Loop],
    wide: _Widths,
    places: Mapping[int, Sequence[Places]],
) -> dict[int, int]:
    """`joint_accesses` of accesses whose lanes lie at known places."""
    groups: dict[tuple[str, int, str | None, bytes], list[tuple[int, Instruction]]] = {}
    for block in function.blocks:
        loop = owner.get(block.index)
        for inst in function.instructions[block.start : block.stop]:
            access = _narrow_access(inst)
            at = places.get(inst.index, ()) if access is not None else ()
            if access is None or len(at) != 1 or at[0].scattered:
                continue
            where = at[0].where
            first = int(where[0, 0, 0])
            loop_id = loop.id if loop is not None else None
            key = inst.cls, access[1], loop_id, (where - first).tobytes()
            groups.setdefault(key, []).append((first, inst))
    joint: dict[int, int] = {}
    for (cls, bits, loop_id, _), group in groups.items():
        if len(group) > 1:
            joint.update(_runs(group, bits, wide[cls, loop_id]))
    return joint


def _by_registers(function: Function, owner: Mapping[int, Loop], wide: _Widths) -> dict[int, int]:
    """`joint_accesses` of accesses with the same registers as address."""
    joint: dict[int, int] = {}
    open_groups: dict[_Group, list[tuple[int, Instruction]]] = {}
    address_of: dict[_Group, set[int]] = {}
    for number, code in enumerate(graph_of(function).by_block):
        loop_id = owner[number].id if number in owner else None
        for operation in code:
            inst, written = operation.inst, rows_of(operation.results)
            access = _narrow_access(inst)
            for key in [key for key in open_groups if not address_of[key].isdisjoint(written)]:
                if access is not None and (inst.cls, *access[:2]) == key[:3]:
                    # A load may overwrite its own address: it belongs to the group still.
                    open_groups[key].append((access[2], inst))
                    access = None
                joint.update(_runs(open_groups.pop(key), key[2], wide[key[0], key[3]]))
            if access is None:
                continue
            address, bits, offset = access
            key = inst.cls, address, bits, loop_id
            address_of[key] = rows_of(_address(inst))
            if address_of[key].isdisjoint(written):
                open_groups.setdefault(key, []).append((offset, inst))
    for key, group in open_groups.items():
        joint.update(_runs(group, key[2], wide[key[0], key[3]]))
    return joint


def _widths(function: Function, owner: Mapping[int, Loop]) -> _Widths:
    """(class, loop) -> the widths of its accesses in bits."""
    wide: _Widths = {}
    for block in function.blocks:
        loop = owner.get(block.index)
        for inst in function.instructions[block.start : block.stop]:
            if inst.cls in _ACCESSES:
                bits = access_bits(inst.op, inst.operands)
                key = inst.cls, loop.id if loop is not None else None
                wide.setdefault(key, set()).add(bits or 0)
    return wide


def _narrow_access(inst: Instruction) -> tuple[str, int, int] | None:
    """The registers of a narrow access's address, its bits per lane and its offset in bytes."""
    if inst.cls not in _ACCESSES or is_coherent(inst):
        return None
    bits = access_bits(inst.op, inst.operands)
    if bits is None or bits > _NARROW:
        return None
    address = [operand.text for operand in _address(inst)]
    if not address:
        return None  # damaged text
    parts = parts_of(inst)
    address += [f"{k}:{value}" for k, value in parts.modifiers.items() if k != "offset"]
    return " ".join(address), bits, parts.offset()


def _address(inst: Instruction) -> Sequence[Operand]:
    """The operands of an access that are not its data."""
    data = 0 if inst.cls == "global_load" else 1
    return [operand for n, operand in enumerate(parts_of(inst).operands) if n != data]


def _runs(
    group: Sequence[tuple[int, Instruction]], bits: int, widths: Collection[int]
) -> Iterator[tuple[int, int]]:
    """The accesses of a group that have neighbours, each with the bits of its run."""
    by_offset: dict[int, list[Instruction]] = {}
    for offset, inst in group:
        by_offset.setdefault(offset, []).append(inst)
    run: list[int] = []
    starts: list[int | None] = [*sorted(by_offset), None]
    for start in starts:
        if run and (
            start is None or start != run[-1] + bits // 8 or (len(run) + 1) * bits > WIDEST
        ):
            if len(run) > 1 and len(run) * bits > max(widths):
                for place in run:
                    yield from ((inst.index, len(run) * bits) for inst in by_offset[place])
            run = []
        if start is not None:
            run.append(start)


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
