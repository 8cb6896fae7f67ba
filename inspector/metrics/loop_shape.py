"""The shape of the source's loops in the code: unroll factors, remainder loops and code size.

LLVM unrolls K-loops by itself (2 to 16 times in about half of compiled GEMMs), so counts per ISA
iteration mislead unless divided by the unroll factor. That factor is the number of matrix
instructions at a source position over the number that one `tt.dot` there needs. It is unknown for a
loop without matrix instructions, and where its positions disagree.

LLVM turns a loop of unknown trip count into two: one that does several source iterations at a time
and one for the remaining ones. Both have the same source statements, the first a multiple of each;
loops that are written twice, or inlined twice, have different positions. A remainder that is not a
loop is not distinguishable from iterations that pipelining peeled off.

Loops that go on in smaller steps where another has stopped are such remainders, too.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence, Set
from itertools import pairwise
from typing import Final

from ..isa.dataflow.value_graph import Operation, graph_of, is_same, registers, rows_of
from ..isa.mnemonics import access_bits
from ..isa.twos_complement import signed
from ..model import Function, Instruction, Loop, Metric, SourceLoc, TtgirModule, TtgirOp
from .entries import of_loops
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
    from ..ttgir import queries
    from ..ttgir import (  # the layout algebra, for Triton kernels alone
        redundant_work as matrix_work,
    )

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


_SUM: Final = re.compile(r"[sv]_(add|sub|subrev)(k?)_[iu](?:32|64)")
_SHIFTED_SUM: Final = "v_lshl_add_u64"


def leftovers(function: Function) -> set[str]:
    """Ids of the loops that do what another one's larger steps leave over."""
    inner = {loop.parent for loop in function.loops}
    innermost = [loop for loop in function.loops if loop.id not in inner]
    if len(innermost) < 2:
        return set()
    code = graph_of(function).by_block
    steps = {loop.id: dict(_steps([code[number] for number in loop.blocks])) for loop in innermost}
    found = set[str]()
    for main in innermost:
        behind = sorted(
            (
                loop
                for loop in innermost
                if loop.parent == main.parent and loop.header > main.header and steps[loop.id]
            ),
            key=lambda loop: loop.header,
        )
        if not behind or not steps[main.id]:
            continue
        origins = {register: {step} for register, step in steps[main.id].items()}
        reached = max(main.blocks) + 1
        for loop in behind:
            for block in code[reached : loop.header]:
                for operation in block:
                    _follow(operation, origins)
            reached = max(reached, loop.header)
            if not origins:
                break
            if _goes_on(origins, steps[loop.id]):
                found.add(loop.id)
    return found


def _goes_on(origins: Mapping[int, Set[int]], steps: Mapping[int, int]) -> bool:
    """Whether a loop steps by less what follows from a register that an earlier one has stepped."""
    return any(
        main_step * step > 0 and abs(main_step) > abs(step)
        for register, step in steps.items()
        for main_step in origins.get(register, ())
    )


def _follow(operation: Operation, origins: dict[int, set[int]]) -> None:
    """Hands the steps that registers come from on to what an operation computes from them."""
    passed = set[int]()
    if not operation.inst.cls.endswith("_load"):
        for register in rows_of(operation.sources):
            passed.update(origins.get(register, ()))
    for register in rows_of(operation.results):
        if passed:
            origins[register] = passed
        else:
            origins.pop(register, None)


def _steps(blocks: Sequence[Sequence[Operation]]) -> Iterator[tuple[int, int]]:
    """Yields the registers that each iteration adds a constant to, and nothing else, with it."""
    done = [operation for block in blocks for operation in block]
    writes = Counter(row for operation in done for row in rows_of(operation.results))
    for operation in done:
        step = _step(operation)
        row = registers(operation.results[0])[0] if step else None
        if step and row is not None and writes[row] == 1:
            yield row, step


def _step(operation: Operation) -> int | None:
    """The constant that an operation adds to its own result, of 64 bits to the lower half."""
    sources, result = [*operation.sources], operation.results[:1]
    is_shifted = operation.name == _SHIFTED_SUM
    sum_of = _SUM.fullmatch(operation.name)
    if is_shifted and len(sources) == 3 and sources[1].integer == 0:
        del sources[1]
    elif sum_of is None:
        return None
    if len(sources) != 2 or not result or not registers(result[0]):
        return None
    kind, is_short = (sum_of[1], sum_of[2]) if sum_of is not None else ("add", "")
    if kind == "subrev" or (kind == "add" and sources[0].integer is not None):
        sources.reverse()
    register, constant = sources
    if not is_same(register, result[0]) or constant.integer is None:
        return None
    step = signed(constant.integer, 16 if is_short else 32)
    return step if kind == "add" else -step
