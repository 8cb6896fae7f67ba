"""What became of the source's loops: unrolled how often, their remainders, and code size.

LLVM unrolls K-loops on its own account (2 to 16 times in about half of compiled GEMMs), so counts
per ISA iteration mislead unless divided by how often. The witness is the matrix instructions of
each source position against the number that one `tt.dot` there needs. A loop without any, or whose
positions do not give one common whole number, is left unknown.

LLVM unrolls a loop whose count it does not know into one that does several source iterations at a
time and a second one for what is left over. The two have the same statements of the source, the
first a multiple of each; loops that are written twice, or inlined twice, have positions of their
own. Remainders without a loop are not told from iterations that pipelining peeled off.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from ..model import (
    Function,
    Instruction,
    LoopReport,
    Metric,
    MetricSpec,
    SourceLoc,
    TtgirModule,
    TtgirOp,
)
from .subject import MATRIX_CLASSES, MEMORY_CLASSES, Place, Subject

UNROLL_SPECS = (
    MetricSpec(
        "unroll",
        "iterations",
        "derived",
        "loop",
        "Source iterations per ISA iteration: how often the compiler unrolled the loop",
    ),
)


def unroll_factor(region: Sequence[Instruction], ttgir: TtgirModule | None) -> int | None:
    """The unroll factor of a loop's own instructions, None where it cannot be told.

    Args:
        region: the loop's instructions, nested loops excluded.
        ttgir: the module the code was lowered from.
    """
    if ttgir is None:
        return None
    from ..ttgir import queries  # the layout algebra, for Triton kernels alone

    done: Counter[Place] = Counter(
        place(inst.loc) for inst in region if inst.cls in MATRIX_CLASSES and inst.loc is not None
    )
    if not done:
        return None
    expected: Counter[Place] = Counter()
    # Only dots in a loop: a peeled copy before or after it has the same source position.
    for op in (op for op in queries.dots(ttgir) if _looped(op, ttgir)):
        each = queries.mfma_per_dot(op, ttgir)
        if each is None or op.loc is None:
            return None
        expected[place(op.loc)] += each
    factors = set()
    for where, count in done.items():
        each = expected.get(where)
        if not each or count % each:
            return None
        factors.add(count // each)
    return factors.pop() if len(factors) == 1 else None


def _looped(op: TtgirOp, module: TtgirModule) -> bool:
    parent = op.parent
    while parent is not None:
        owner = module.ops[parent]
        if owner.name in ("scf.for", "scf.while"):
            return True
        parent = owner.parent
    return False


def place(loc: SourceLoc) -> Place:
    """A position with its inlining chain, comparable between ISA comments and TTGIR locations.

    Files are compared by their last part: assembly comments carry no folder.
    """
    chain = []
    at: SourceLoc | None = loc
    while at is not None:
        chain.append((at.file.rpartition("/")[2], at.line, at.column))
        at = at.inlined_at
    return tuple(chain)


_REMAINDER, _CODE, _TOTAL = "loop.remainder", "loop.code_bytes", "remainder.instructions"
MAIN = "loop.main"

SPECS = (
    MetricSpec(
        MAIN,
        "bool",
        "derived",
        "loop",
        "It is the hot loop that does most per iteration, the first of several",
    ),
    MetricSpec(
        _REMAINDER,
        "bool",
        "derived",
        "loop",
        "It does the iterations that an unrolled loop of the same source lines leaves over",
    ),
    MetricSpec(
        _CODE,
        "bytes",
        "estimated",
        "loop",
        "Code of the loop, nested loops included; exact where instructions have addresses",
    ),
    MetricSpec(
        _TOTAL,
        "instructions",
        "derived",
        "kernel",
        "Instructions in loops that are the remainders of unrolled loops",
    ),
)

_WORK = (*MEMORY_CLASSES, *MATRIX_CLASSES)
# Sizes of encodings (ISA documents of CDNA and RDNA, "microcode formats"), where no address tells
# them: memory, matrix and three-operand vector instructions take 64 bits, others 32 and 32 more for
# a literal, which LLVM prints in hex.
_LONG_CLASSES = frozenset(
    (*MEMORY_CLASSES, *MATRIX_CLASSES, "acc_move", "cross_lane", "smem_load", "lds_atomic", "image")
)
_SHORT, _LONG = 4, 8
_SHORT_VECTOR = "_e32"


def remainders(function: Function, own: Mapping[str, Sequence[Instruction]]) -> set[str]:
    """Ids of the loops that do what an unrolled loop leaves over.

    Args:
        function: the kernel.
        own: per loop its instructions, nested loops excluded.
    """
    innermost = {loop.id for loop in function.loops} - {loop.parent for loop in function.loops}
    work = {loop.id: _work(own[loop.id]) for loop in function.loops if loop.id in innermost}
    remainder_ids: set[str] = set()
    for candidate in function.loops:
        for main in function.loops:
            beside = candidate.parent == main.parent and {candidate.id, main.id} <= innermost
            if beside and _is_multiple(work[main.id], work[candidate.id]):
                remainder_ids.add(candidate.id)
    return remainder_ids


def _work(instructions: Sequence[Instruction]) -> Counter[Place]:
    """How much of the loop's work stands at each place of the source."""
    placed = [inst for inst in instructions if inst.loc is not None]
    heavy = [inst for inst in placed if inst.cls in _WORK]
    return Counter(place(inst.loc) for inst in heavy or placed if inst.loc is not None)


def _is_multiple(main: Counter[Place], remainder: Counter[Place]) -> bool:
    """Whether one loop has everything of another at least twice."""
    return (
        bool(remainder)
        and main.keys() == remainder.keys()
        and all(main[k] >= 2 * remainder[k] for k in remainder)
    )


def loop_metrics(
    subject: Subject, own: Mapping[str, Sequence[Instruction]]
) -> dict[str, dict[str, Metric]]:
    """Per loop the figures of this file."""
    function = subject.function
    if not function.loops:
        return {}
    remainder_ids = remainders(function, own)
    sizes = _sizes(function)
    exact = _has_addresses(function)
    by_loop = {}
    for loop in function.loops:
        size = sum(
            sum(sizes[function.blocks[b].start : function.blocks[b].stop]) for b in loop.blocks
        )
        metrics = (
            Metric(_REMAINDER, loop.id in remainder_ids, "bool", "derived"),
            Metric(_CODE, size, "bytes", "derived" if exact else "estimated"),
        )
        by_loop[loop.id] = {metric.name: metric for metric in metrics}
    return by_loop


def kernel_metrics(loops: Sequence[LoopReport], function: Function) -> Iterator[Metric]:
    """The kernel's figure, from those of its loops."""
    if not function.instructions:
        yield Metric(_TOTAL, None, "instructions", "derived", "no code was read")
        return
    remainder_metrics = [loop.metrics for loop in loops if loop.metrics[_REMAINDER].value]
    counts = [metrics["count.instructions"].value for metrics in remainder_metrics]
    whole = sum(count for count in counts if isinstance(count, int))
    yield Metric(_TOTAL, whole, "instructions", "derived")


def _has_addresses(function: Function) -> bool:
    return bool(function.instructions) and all(
        inst.address is not None for inst in function.instructions
    )


def _sizes(function: Function) -> list[int]:
    """Bytes of each instruction: from the next one's address, else from what it looks like."""
    sizes = [_encoded(inst) for inst in function.instructions]
    if _has_addresses(function):
        addresses = [inst.address or 0 for inst in function.instructions]
        sizes[:-1] = [next_at - at for at, next_at in pairwise(addresses)]
    return sizes


def _encoded(inst: Instruction) -> int:
    if inst.cls in _LONG_CLASSES:
        return _LONG
    vector = inst.mnemonic.startswith("v_")
    if vector and not inst.mnemonic.endswith(_SHORT_VECTOR):
        return _LONG
    literal = "0x" in inst.operands and (vector or inst.cls == "salu")
    return _LONG if literal and "k_" not in inst.mnemonic else _SHORT
