"""Statements that stand many times in the code of a loop, because somebody unrolled another in it.

The compiler gives all copies of a statement one source position. In HIP each load, store and matrix
instruction of a position counts, unless it has several for one execution (a struct that is copied).
In Triton one operation becomes many instructions, so that the loads of TTGIR are counted: Triton's
front end writes the body of `tl.static_range` out, and no later pass copies a load within a loop.

Inline assembly of the source that is missing from the code.

LLVM drops assembly that it cannot translate and goes on; the compile "succeeds". Its message on
stderr fails the compile; this examines the code itself, independent of messages.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

from ..isa.mnemonics import lookup
from ..model import Instruction, Scalar, SourceLoc, TtgirModule, TtgirOp
from .entries import NO_CODE, Unknown, of_both, of_kernels
from .loop_shape import position_of
from .subject import (
    MATRIX_CLASSES,
    MEMORY_CLASSES,
    NOT_ALL_READ,
    LineName,
    Place,
    Subject,
    Tally,
    source_line,
)

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


ASSEMBLY_SPECS = of_kernels(
    {
        "inline_asm.dropped": "Inline assembly with side effects whose instructions are not in "
        "the code: `pieces` of `of`, the first one's `text`, `at` which line",
    }
)

_COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*|;[^\n]*", re.S)
_LABEL = re.compile(r"^\s*[\w.$]+:(?!\w)")
# Directives whose instructions do not stand in the text.
_MACRO = re.compile(r"^\s*\.(?:macro|rept|rep|irpc?|if\w*|altmacro|long|quad|short|byte)\b", re.M)


def dropped(subject: Subject, module: TtgirModule) -> dict[str, Scalar] | Unknown:
    """The value of the metric of `ASSEMBLY_SPECS`."""
    function = subject.function
    if not function.instructions:
        return NO_CODE
    if not function.all_read:
        return Unknown(NOT_ALL_READ)
    if function.calls:
        return Unknown("the kernel calls other functions, which may hold it")
    # Only kernels with a TTGIR need what reads one.
    from ..ttgir.queries import assembly_text, inline_assembly

    pieces = inline_assembly(module)
    code = [inst.op.name for inst in function.instructions] if pieces else []
    missing = [
        op
        for op in pieces
        if not op.attributes.get("pure", False) and not _stands_in(mnemonics(_text(op)), code)
    ]
    return {
        "pieces": len(missing),
        "of": len(pieces),
        "text": assembly_text(missing[0]) if missing else None,
        "at": LineName.of(missing),
    }


def mnemonics(text: str) -> tuple[str, ...] | None:
    """The instructions of a piece of inline assembly, without encoding suffixes.

    Returns:
        Their names in order, empty where there is none (a compiler barrier); None where the text
        does not tell: macros, data, names put together from operands.
    """
    if _MACRO.search(text):
        return None
    names = []
    for raw in _COMMENT.sub("", text).splitlines():
        line = _LABEL.sub("", raw).strip().lstrip("{").strip()
        if not line or line[0] in ".}":
            continue
        name = line.split(None, 1)[0]
        if "$" in name:
            return None
        names.append(lookup(name).name)
    return tuple(names)


def _text(op: TtgirOp) -> str:
    return str(op.attributes.get("asm_string", ""))


def _stands_in(names: tuple[str, ...] | None, code: Sequence[str]) -> bool:
    """Whether the instructions stand in the code one after the other, as LLVM leaves them."""
    if not names:
        return True
    size = len(names)
    starts = (i for i, name in enumerate(code) if name == names[0])
    return any(tuple(code[i : i + size]) == names for i in starts)
