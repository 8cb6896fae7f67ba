"""Statements that stand many times in the code of a loop, because somebody unrolled another in it.

The compiler gives all copies of a statement one source position. In HIP each load, store and matrix
instruction of a position counts, unless it has several for one execution (a struct that is copied).
In Triton one operation becomes many instructions, so that the loads of TTGIR are counted: Triton's
front end writes the body of `tl.static_range` out, and no later pass copies a load within a loop.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Final

from ..model import Instruction, Scalar, SourceLoc
from .entries import Unknown, of_both
from .loop_shape import position_of
from .subject import MATRIX_CLASSES, MEMORY_CLASSES, Place, Subject, Tally, source_line

COPIES: Final = "code.copies"

SPECS = of_both(
    {
        COPIES: "The statement that stands most often in the code: how many `copies`, `at` which "
        "line, and what unrolls it (`by`: tl.static_range, #pragma unroll). In Triton loads alone "
        "are counted. None where no statement stands there twice",
    }
)

_COUNTED: Final = frozenset((*MATRIX_CLASSES, *MEMORY_CLASSES)) - {"scratch_load", "scratch_store"}
STATIC_RANGE, PRAGMA = "tl.static_range", "#pragma unroll"
_PYTHON: Final = ".py"
"""Code of a Triton kernel whose TTGIR is missing: an operation's instructions are no copies."""


def copies(subject: Subject, tally: Tally) -> dict[str, Scalar] | Unknown:
    """The value of the metric of `SPECS`."""
    code = subject.function.instructions
    region = [code[i] for i in tally.indices if code[i].cls in _COUNTED]
    is_triton = subject.ttgir is not None
    counts = _copied_loads(subject, region) if is_triton else _copied_instructions(region)
    most = max(counts.values(), key=lambda item: item[0], default=None)
    if most is None or most[0] < 2:
        return Unknown("no statement stands there twice")
    count, loc = most
    by = STATIC_RANGE if is_triton else PRAGMA
    return {"copies": count, "at": source_line(loc), "by": by}


_Counts = dict[Place, tuple[int, SourceLoc]]
"""Position -> how often it occurs, and the first occurrence."""


def _copied_instructions(region: Iterable[Instruction]) -> _Counts:
    """How many instructions a position has, of the mnemonic that it has fewest of."""
    by_position: dict[Place, tuple[Counter[str], SourceLoc]] = {}
    for inst in region:
        if inst.loc is not None and not inst.loc.file.endswith(_PYTHON):
            position = position_of(inst.loc)
            names, _ = by_position.setdefault(position, (Counter(), inst.loc))
            names[inst.cls] += 1
    return {place: (min(c.values()), loc) for place, (c, loc) in by_position.items()}


def _copied_loads(subject: Subject, region: Iterable[Instruction]) -> _Counts:
    """How many loads of TTGIR, in one block of operations, have a position of the region."""
    from ..ttgir import queries  # for Triton kernels alone

    module = subject.ttgir
    assert module is not None
    positions = {position_of(inst.loc) for inst in region if inst.loc is not None}
    # Position -> block of operations, by its owner -> copies. The pipeliner peels loads off a loop:
    # those before it are no copies of the source's.
    in_loops: dict[Place, Counter[int | None]] = {}
    elsewhere: dict[Place, Counter[int | None]] = {}
    locs: dict[Place, SourceLoc] = {}
    for op in queries.loads(module):
        if op.loc is None:
            continue
        position = position_of(op.loc)
        if position in positions:
            locs.setdefault(position, op.loc)
            group = elsewhere if queries.loop_above(op, module) is None else in_loops
            group.setdefault(position, Counter())[op.parent] += 1
    return {
        position: (max((in_loops.get(position) or elsewhere[position]).values()), loc)
        for position, loc in locs.items()
    }
