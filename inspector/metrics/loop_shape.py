"""The shape of the source's loops in the code: unroll factors, remainder loops and code size.

LLVM unrolls K-loops by itself (2 to 16 times in about half of compiled GEMMs), so counts per ISA
iteration mislead unless divided by the unroll factor. That factor is the number of matrix
instructions at a source position over the number that one `tt.dot` there needs. It is unknown for a
loop without matrix instructions, and where its positions disagree.

LLVM turns a loop of unknown trip count into two: one that does several source iterations at a time
and one for the remaining ones. Both have the same source statements, the first a multiple of each;
loops that are written twice, or inlined twice, have different positions. A remainder that is not a
loop is not distinguishable from iterations that pipelining peeled off.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import pairwise

from ..isa.mnemonics import access_bits
from ..model import (
    Function,
    Instruction,
    Loop,
    Metric,
    SourceLoc,
    TtgirModule,
    TtgirOp,
)
from .entries import of_loops
from .leftover_loops import leftovers
from .subject import MATRIX_CLASSES, MEMORY_CLASSES, Place, Subject

UNROLL_SPECS = of_loops(
    {
        "unroll": "iterations | Source iterations per ISA iteration: how often the compiler "
        "unrolled the loop",
    }
)


def unroll_factor(region: Sequence[Instruction], ttgir: TtgirModule | None) -> int | None:
    """The unroll factor of a loop's own instructions; None where it is unknown.

    Args:
        region: the loop's instructions, nested loops excluded.
        ttgir: the module the code was lowered from.
    """
    if ttgir is None:
        return None
    from ..ttgir import matrix_work, queries  # the layout algebra, for Triton kernels alone

    instructions: Counter[Place] = Counter(
        position_of(inst.loc)
        for inst in region
        if inst.cls in MATRIX_CLASSES and inst.loc is not None
    )
    if not instructions:
        return None
    needed: Counter[Place] = Counter()
    # Only dots in a loop: a peeled copy before or after it has the same source position.
    for op in queries.dots(ttgir):
        if not _is_in_loop(op, ttgir):
            continue
        per_dot = matrix_work.mfma_per_dot(op)
        if per_dot is None or op.loc is None:
            return None
        needed[position_of(op.loc)] += per_dot
    factors = set()
    for position, count in instructions.items():
        per_iteration = needed.get(position)
        if not per_iteration or count % per_iteration:
            return None
        factors.add(count // per_iteration)
    return factors.pop() if len(factors) == 1 else None


def _is_in_loop(op: TtgirOp, module: TtgirModule) -> bool:
    parent = op.parent
    while parent is not None:
        owner = module.ops[parent]
        if owner.name in ("scf.for", "scf.while"):
            return True
        parent = owner.parent
    return False


def position_of(loc: SourceLoc) -> Place:
    """A position with its inlining chain, comparable between ISA comments and TTGIR locations.

    Files are compared by their last part: assembly comments carry no folder.
    """
    chain = []
    position: SourceLoc | None = loc
    while position is not None:
        chain.append((position.file.rpartition("/")[2], position.line, position.column))
        position = position.inlined_at
    return tuple(chain)


_REMAINDER, _CODE = "loop.remainder", "loop.code_bytes"
_PARTED = "loop.parted"
MAIN = "loop.main"

SPECS = (
    *of_loops(
        {
            MAIN: "bool | It is the hot loop that does most per iteration, the first of several",
            _REMAINDER: "bool | It does the iterations that an unrolled loop of the same source "
            "lines leaves over, or goes on in smaller steps where another loop has stopped",
            _PARTED: "bool | It goes round while any lane is active: lanes can leave it at "
            "different times",
        }
    ),
    *of_loops(
        {
            _CODE: "bytes | Code of the loop, nested loops included; exact where instructions "
            "have addresses",
        },
        "estimated",
    ),
)

_WORK = (*MEMORY_CLASSES, *MATRIX_CLASSES)


def remainders(function: Function, own_code: Mapping[str, Sequence[Instruction]]) -> set[str]:
    """Ids of the loops that do the remaining iterations of an unrolled loop."""
    innermost = {loop.id for loop in function.loops} - {loop.parent for loop in function.loops}
    work = {loop.id: _work(own_code[loop.id]) for loop in function.loops if loop.id in innermost}
    remainder_ids: set[str] = set()
    for candidate in function.loops:
        for main in function.loops:
            are_siblings = candidate.parent == main.parent and {candidate.id, main.id} <= innermost
            if are_siblings and _is_multiple(work[main.id], work[candidate.id]):
                remainder_ids.add(candidate.id)
    return remainder_ids


def _work(instructions: Sequence[Instruction]) -> Counter[Place]:
    """What is done at each source position."""
    placed = [inst for inst in instructions if inst.loc is not None]
    heavy = [inst for inst in placed if inst.cls in _WORK]
    work: Counter[Place] = Counter()
    for inst in heavy or placed:
        if inst.loc is not None:
            bits = access_bits(inst.op, inst.operands) if heavy else None
            work[position_of(inst.loc)] += bits or 1
    return work


def _is_multiple(main: Counter[Place], remainder: Counter[Place]) -> bool:
    """Whether a loop has the work of every position at least twice as often as another."""
    return (
        bool(remainder)
        and main.keys() == remainder.keys()
        and all(main[k] >= 2 * remainder[k] for k in remainder)
    )


def loop_metrics(
    subject: Subject, own_code: Mapping[str, Sequence[Instruction]]
) -> dict[str, dict[str, Metric]]:
    """Loop id -> its metrics by name: whether it is a remainder, and its code size."""
    function = subject.function
    if not function.loops:
        return {}
    remainder_ids = remainders(function, own_code) | leftovers(function)
    sizes = instruction_bytes(function)
    exact = has_addresses(function)
    by_loop = {}
    for loop in function.loops:
        size = sum(
            sum(sizes[function.blocks[b].start : function.blocks[b].stop]) for b in loop.blocks
        )
        metrics = (
            Metric(_REMAINDER, loop.id in remainder_ids, "bool", "derived"),
            Metric(_PARTED, _is_parted(function, loop), "bool", "derived"),
            Metric(_CODE, size, "bytes", "derived" if exact else "estimated"),
        )
        by_loop[loop.id] = {metric.name: metric for metric in metrics}
    return by_loop


def _is_parted(function: Function, loop: Loop) -> bool:
    """Whether a branch back is on active lanes."""
    latches = (function.blocks[number] for number in loop.latches)
    ends = (function.instructions[b.stop - 1] for b in latches if b.stop > b.start)
    return any(inst.op.name == "s_cbranch_execnz" for inst in ends)


# --------------------------------------------------------------------------- code size

_LONG_CLASSES = frozenset(
    (*MEMORY_CLASSES, *MATRIX_CLASSES, "acc_move", "cross_lane", "smem_load", "lds_atomic", "image")
)
_SHORT, _LONG = 4, 8  # bytes
_SHORT_VECTOR = "_e32"


def has_addresses(function: Function) -> bool:
    """Whether every instruction has an address, as in disassembled code."""
    return bool(function.instructions) and all(
        inst.address is not None for inst in function.instructions
    )


def instruction_bytes(function: Function) -> list[int]:
    """Bytes of each instruction: exact where it and the next one have addresses."""
    sizes = [_encoded_bytes(inst) for inst in function.instructions]
    if has_addresses(function):
        addresses = [inst.address or 0 for inst in function.instructions]
        sizes[:-1] = [following - address for address, following in pairwise(addresses)]
    return sizes


def _encoded_bytes(inst: Instruction) -> int:
    """Bytes of an instruction by its mnemonic.

    The length of encodings is in the ISA documents of CDNA and RDNA, "microcode formats": memory,
    matrix and three-operand vector instructions take 64 bits, others 32 and 32 more for a literal,
    which LLVM prints in hex.
    """
    if inst.cls in _LONG_CLASSES:
        return _LONG
    is_vector = inst.mnemonic.startswith("v_")
    if is_vector and not inst.mnemonic.endswith(_SHORT_VECTOR):
        return _LONG
    has_literal = "0x" in inst.operands and (is_vector or inst.cls == "salu")
    # SOPK (s_movk_i32, s_addk_i32) holds 16 bits of constant in its 32.
    return _LONG if has_literal and "k_" not in inst.mnemonic else _SHORT
