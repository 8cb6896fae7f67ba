"""Uses of scratch memory: spilled registers, or private arrays of the source.

Both are the same instructions. LLVM marks a spill in a comment (`4-byte Folded Spill`, `Folded
Reload`), several in one clause at its `s_clause` (LLVM 20, which Triton 3.5 has, not at all), and
states in the metadata how many registers it spilled. Spills are at fixed offsets; an array indexed
by a variable is addressed by a vector register, which a spill never is. Accesses that none of these
identifies are unknown.

LLVM gives a place in scratch memory to one value after another, such as those of two loops that
run one after the other. A web is what holds one value: stores that reach a common reload are of one
web, and so are the reloads that a common store reaches.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from enum import Enum
from typing import TypeVar

from msgspec import Struct

from ..isa.dataflow.value_graph import parts_of
from ..isa.mnemonics import BYTE_OFFSET, access_bits
from ..model import Block, Function, Instruction, Metric
from .entries import NO_CODE, of_both, unknown
from .subject import Subject

_UNIT = "instructions"
_SPILLED: Mapping[str, str] = {
    "scratch_load": "spills.reloads",
    "scratch_store": "spills.stores",
}
_PRIVATE: Mapping[str, str] = {
    "scratch_load": "private_arrays.loads",
    "scratch_store": "private_arrays.stores",
}
_INDEXED = "private_arrays.indexed"

SPECS = of_both(
    {
        "spills.reloads": "instructions | Loads of scratch that are not known to be of a private "
        "array: reloads of spilled registers, where nothing says otherwise",
        "spills.stores": "instructions | Stores to scratch, counted likewise",
        "private_arrays.loads": "instructions | Loads of scratch that are no spill: of arrays "
        "that each work-item has for itself",
        "private_arrays.stores": "instructions | Stores to scratch, counted likewise",
        _INDEXED: "instructions | Those of both whose address is in a register: the index is "
        "known only at run time",
    }
)

_CLASSES = ("scratch_load", "scratch_store")
_FOLDED = "Folded"
_CLAUSE, _CLAUSE_BITS = "s_clause", 0x3F
_VECTOR = re.compile(r"v(\d+|\[)")
_STACK_POINTERS = frozenset(("s32", "s33"))
"""Stack and frame pointer in LLVM's calling convention: offsets from them are fixed."""


class Use(Enum):
    """The purpose of an access of scratch."""

    SPILL = "spill"
    PRIVATE = "private array"
    UNKNOWN = "unknown"


def scratch_accesses(function: Function) -> list[tuple[Instruction, Use]]:
    """Every access of scratch memory in a kernel, with its purpose."""
    if not any(inst.cls in _CLASSES for inst in function.instructions):
        return []
    scratch: list[Instruction] = []
    marked: set[int] = set()
    clauses: set[int] = set()
    folded_end = clause_end = 0
    clauses_are_marked = False
    for inst in function.instructions:
        folded = _FOLDED in inst.comment
        if inst.op.name == _CLAUSE:
            clause_end = inst.index + 2 + _clause_length(inst)
            folded_end = clause_end if folded else folded_end
            clauses_are_marked |= folded
        elif inst.cls in _CLASSES:
            scratch.append(inst)
            if folded or inst.index < folded_end:
                marked.add(inst.index)
            elif inst.index < clause_end:
                clauses.add(inst.index)
    nothing_spilled = function.resources.vgpr_spill_count == 0
    default_use = Use.PRIVATE if marked or nothing_spilled else Use.UNKNOWN
    if default_use is Use.UNKNOWN or nothing_spilled or clauses_are_marked:
        clauses.clear()  # accesses in clauses are marked like others
    spills = _touched_bytes(inst for inst in scratch if inst.index in marked)
    other_places = _touched_bytes(
        inst for inst in scratch if inst.index not in marked and inst.index not in clauses
    )
    uses = []
    for inst in scratch:
        if inst.index in marked:
            use = Use.SPILL
        elif _is_indexed_by_lane(inst):
            use = Use.PRIVATE
        elif inst.index in clauses:
            touched = _touched_bytes((inst,))
            use = Use.UNKNOWN if touched.isdisjoint(other_places) else Use.PRIVATE
            use = use if touched.isdisjoint(spills) else Use.SPILL
        else:
            use = default_use
        uses.append((inst, use))
    return uses


def address_of(inst: Instruction) -> tuple[str, int, int]:
    """(register that the offset is added to, offset, bytes) of a scratch access."""
    match = BYTE_OFFSET.search(inst.operands)
    offset = int(match[1], 0) if match is not None else 0
    bits = access_bits(inst.op, inst.operands) or 32
    return ",".join(address_registers(inst)), offset, bits // 8


def spilled_dwords(function: Function) -> dict[int, tuple[tuple[str, int], ...]]:
    """Index of each spill and reload -> the dwords of scratch that it touches, by base and number.

    Where it is not known which accesses are spills, all are taken for spills, unless one goes to an
    array by an index, which may be any of theirs.
    """
    accesses = scratch_accesses(function)
    is_apart = all(use is not Use.PRIVATE for _, use in accesses)
    dwords = {}
    for inst, use in accesses:
        if use is Use.PRIVATE or (use is Use.UNKNOWN and not is_apart):
            continue
        base, offset, size = address_of(inst)
        if offset % 4:
            return {}  # LLVM aligns slots to 4 bytes: this is something else
        dwords[inst.index] = tuple(
            (base, number) for number in range(offset // 4, offset // 4 + max(size // 4, 1))
        )
    return dwords


def _touched_bytes(accesses: Iterable[Instruction]) -> set[tuple[str, int]]:
    """The bytes that some accesses touch."""
    return {
        (base, offset + k) for base, offset, size in map(address_of, accesses) for k in range(size)
    }


def _is_indexed_by_lane(inst: Instruction) -> bool:
    return any(_VECTOR.match(register) for register in address_registers(inst))


def _is_indexed(inst: Instruction) -> bool:
    return any(register not in _STACK_POINTERS for register in address_registers(inst))


def _clause_length(inst: Instruction) -> int:
    """N of `s_clause N` (RDNA3 ISA: bits 5:0), after which N + 1 instructions follow."""
    try:
        return int(inst.operands.strip(), 0) & _CLAUSE_BITS
    except ValueError:
        return 0


def address_registers(inst: Instruction) -> list[str]:
    """The registers of a scratch access's address, besides the stated offset."""
    parts = parts_of(inst)
    data = 0 if inst.cls == "scratch_load" or "buffer" in inst.op.traits else 1
    address = [operand for number, operand in enumerate(parts.operands) if number != data]
    if "buffer" in inst.op.traits:  # lane, resource, scalar
        lane, scalar = address[:1] if parts.flag("offen") else [], address[2:3]
        return [o.text for o in (*lane, *scalar) if o.kind in ("vgpr", "sgpr") and not o.is_null]
    return [operand.text for operand in address if operand.text != "off"]


def kernel_metrics(subject: Subject) -> Iterator[Metric]:
    """The counts of the kernel."""
    if not subject.function.instructions:
        yield from unknown(SPECS, NO_CODE)
        return
    yield from _counts(scratch_accesses(subject.function))


def loop_metrics(
    function: Function, own_code: Mapping[str, Sequence[Instruction]]
) -> dict[str, dict[str, Metric]]:
    """Loop id -> its metrics by name, nested loops excluded."""
    uses = {inst.index: (inst, use) for inst, use in scratch_accesses(function)}
    return {
        loop: {m.name: m for m in _counts(uses[i.index] for i in body if i.index in uses)}
        for loop, body in own_code.items()
    }


def _counts(accesses: Iterable[tuple[Instruction, Use]]) -> Iterator[Metric]:
    counts = {spec.name: 0 for spec in SPECS}
    for inst, use in accesses:
        counts[(_PRIVATE if use is Use.PRIVATE else _SPILLED)[inst.cls]] += 1
        counts[_INDEXED] += use is Use.PRIVATE and _is_indexed(inst)
    for name, count in counts.items():
        yield Metric(name, count, _UNIT, "derived")


Dword = tuple[str, int]
"""The register that offsets are added to, and the number of the dword behind it."""
_Node = TypeVar("_Node", bound=Hashable)


class Web(Struct, frozen=True):
    """Stores and reloads of one value in one dword of scratch memory, by index.

    Args:
        stores: the instructions that spill it; empty where the wave starts with it.
        reloads: those that fetch it; empty where nothing does.
    """

    stores: tuple[int, ...]
    reloads: tuple[int, ...]


def webs(function: Function) -> dict[Dword, list[Web]]:
    """Each dword of scratch memory that spills touch -> its webs, by their first instruction."""
    instructions = function.instructions
    stores: dict[Dword, list[int]] = defaultdict(list)
    reloads: dict[Dword, list[int]] = defaultdict(list)
    for index, dwords in sorted(spilled_dwords(function).items()):
        is_load = instructions[index].cls == "scratch_load"
        for dword in dwords:
            (reloads if is_load else stores)[dword].append(index)
    if not stores and not reloads:
        return {}
    block_of = {
        index: block
        for block in function.blocks
        for index in range(block.start, block.stop)
        if instructions[index].cls in ("scratch_load", "scratch_store")
    }
    return {
        dword: _of_dword(function.blocks, block_of, stores[dword], reloads[dword])
        for dword in sorted({*stores, *reloads})
    }


def _of_dword(
    blocks: Sequence[Block],
    block_of: Mapping[int, Block],
    stores: Sequence[int],
    reloads: Sequence[int],
) -> list[Web]:
    last_store = {block_of[store].index: store for store in stores}
    at_start: dict[int, frozenset[int]] = {}
    edges: list[tuple[int, int]] = []
    without_store: list[int] = []
    for reload in reloads:
        block = block_of[reload]
        position = bisect_left(stores, reload)
        if position and stores[position - 1] >= block.start:
            reaching: Iterable[int] = (stores[position - 1],)
        else:
            if block.index not in at_start:
                at_start[block.index] = _reaching(blocks, block, last_store)
            reaching = at_start[block.index]
        edges += ((store, reload) for store in reaching)
        if not reaching:
            without_store.append(reload)
    edges += ((without_store[0], reload) for reload in without_store[1:])
    is_reload = set(reloads)
    of_dword = [
        Web(
            tuple(index for index in members if index not in is_reload),
            tuple(index for index in members if index in is_reload),
        )
        for members in components((*stores, *reloads), edges)
    ]
    return sorted(of_dword, key=lambda web: min(web.stores + web.reloads))


def _reaching(
    blocks: Sequence[Block], block: Block, last_store: Mapping[int, int]
) -> frozenset[int]:
    """The stores that may have written what a dword holds where a block begins."""
    reaching = set()
    seen = set(block.predecessors)
    waiting = list(seen)
    while waiting:
        number = waiting.pop()
        if number in last_store:
            reaching.add(last_store[number])
            continue
        before = set(blocks[number].predecessors) - seen
        seen |= before
        waiting += before
    return frozenset(reaching)


def components(
    nodes: Iterable[_Node], edges: Iterable[tuple[_Node, _Node]]
) -> Iterable[list[_Node]]:
    """The nodes that edges join, each component in the order of `nodes`."""
    parent = {node: node for node in nodes}

    def root(node: _Node) -> _Node:
        while parent[node] != node:
            parent[node] = parent[parent[node]]
            node = parent[node]
        return node

    for first, second in edges:
        parent[root(second)] = root(first)
    joined: dict[_Node, list[_Node]] = defaultdict(list)
    for node in parent:
        joined[root(node)].append(node)
    return joined.values()
