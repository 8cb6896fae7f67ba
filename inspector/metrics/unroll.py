"""How many iterations of the source's loop one iteration of the ISA's loop does.

LLVM unrolls K-loops on its own account (2 to 16 times in about half of compiled GEMMs), so counts
per ISA iteration mislead unless divided by this. The witness is the matrix instructions of each
source position against the number that one `tt.dot` there needs. A loop without any, or whose
positions do not give one common whole number, is left unknown.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from ..model import Instruction, MetricSpec, SourceLoc, TtgirModule, TtgirOp
from .subject import MATRIX_CLASSES, Place

SPECS = (
    MetricSpec(
        "unroll",
        "iterations",
        "derived",
        "loop",
        "Source iterations per ISA iteration: how often the compiler unrolled the loop",
    ),
)


def factor(region: Sequence[Instruction], ttgir: TtgirModule | None) -> int | None:
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
    for op in _in_loops(queries.dots(ttgir), ttgir):
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


def _in_loops(ops: Sequence[TtgirOp], module: TtgirModule) -> list[TtgirOp]:
    """Only ops inside a loop: a peeled copy before or after it has the same source position."""
    return [op for op in ops if _looped(op, module)]


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
