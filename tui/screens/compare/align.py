"""The code of two hot loops as rows: instructions that belong together stand side by side.

By source line first, as the comparison in `inspector.compare.diff` does it; within a line by what
the instructions are, whatever their registers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from difflib import SequenceMatcher
from itertools import zip_longest
from typing import Literal

from msgspec import Struct

from ....inspector.compare.diff import isa
from ....inspector.compare.diff.results import KernelDiff, LoopPair
from ....inspector.errors import KinspectError
from ....inspector.explain import view
from ....inspector.model import Function, Instruction, KernelReport, LoopReport, SourceLoc

Sign = Literal[" ", "-", "+", "~"]
"""Of an instruction: on both sides, on the left alone, on the right alone, at another place."""
Kind = Literal["loop", "place", "code"]
SourceText = Callable[[SourceLoc], "str | None"]
TextOf = Callable[[KernelReport], "str | None"]

NO_CODE = "the code is not at hand"
_MNEMONIC = 24
_STYLES = (
    # beginnings of classes, and what the views call their colour
    (("mfma", "wmma"), "matrix"),
    (("scratch",), "scratch"),
    (("lds",), "lds"),
    (("global", "atomic", "image", "prefetch", "cache"), "memory"),
    (("wait", "alu_wait", "barrier"), "wait"),
    (("branch",), "branch"),
    (("salu", "smem"), "scalar"),
    (("nop", "hint", "message", "control", "export", "gds", "unknown"), "other"),
)


class Side(Struct, frozen=True):
    """What a row shows on one side: a heading, or an instruction with its line in the assembly."""

    text: str
    sign: Sign = " "
    line: int | None = None
    style: str = ""


class Row(Struct, frozen=True):
    """A row of both views; None where a side has nothing there."""

    kind: Kind
    left: Side | None
    right: Side | None

    @property
    def differs(self) -> bool:
        """Whether one side has something that the other has not."""
        signs = {side.sign for side in (self.left, self.right) if side is not None}
        return bool(signs & {"-", "+"})


class Aligned(Struct, frozen=True):
    """The rows of both views.

    Attributes:
        rows: all of them.
        differences: where a difference begins, ascending.
        folds: first -> last row of long stretches in which nothing differs.
        note: why there are no rows.
    """

    rows: tuple[Row, ...]
    differences: tuple[int, ...] = ()
    folds: tuple[tuple[int, int], ...] = ()
    note: str = ""


def aligned(pair: KernelDiff, text: TextOf, source: SourceText) -> Aligned:
    """The hot loops of both sides; the whole of kernels without loops.

    Args:
        pair: the kernels, with their loops paired.
        text: the assembly of a kernel.
        source: the text of a source line.
    """
    functions: list[Function] = []
    for report in (pair.left, pair.right):
        function = _function(report, text)
        if function is None:
            return Aligned((), note=NO_CODE)
        functions.append(function)
    rows: list[Row] = []
    for loops in pair.loops or (None,):
        rows += _region(loops, functions, source)
    if not any(row.kind == "code" for row in rows):
        return Aligned((), note=NO_CODE)
    return Aligned(tuple(rows), tuple(_differences(rows)), tuple(_folds(rows)))


def _function(report: KernelReport, text: TextOf) -> Function | None:
    source = text(report)
    if source is None:
        return None
    try:
        return isa.function_for(report, isa.functions_of(source))
    except KinspectError:
        return None


def _region(
    loops: LoopPair | None, functions: Sequence[Function], source: SourceText
) -> Iterator[Row]:
    """A loop of both sides, or all of the code, under a heading."""
    ends: tuple[LoopReport | None, LoopReport | None] = (None, None)
    if loops is not None:
        ends = loops.left, loops.right
        yield Row("loop", *(Side(_loop_title(loops, end)) for end in ends))
        if ends[0] is None or ends[1] is None:
            return
    sides = [isa.region_of(function, end) for function, end in zip(functions, ends, strict=True)]
    if sides[0] is None or sides[1] is None:
        return
    left, right = (isa.by_line(side) for side in sides if side is not None)
    texts = [
        {place: [isa.canonical(i) for i in instructions] for place, instructions in side.items()}
        for side in (left, right)
    ]
    for left_place, right_place in isa.paired_lines(texts[0], texts[1]):
        left_code = left.get(left_place, []) if left_place is not None else []
        right_code = right.get(right_place, []) if right_place is not None else []
        yield _place_row(left_place, right_place, left_code, right_code, source)
        yield from _aligned_rows(left_code, right_code)


def _loop_title(loops: LoopPair, loop: LoopReport | None) -> str:
    if loop is None:
        return "no such loop"
    basis = f"  {loops.basis}" if loops.basis else ""
    return f"hot loop {loop.id}  {view.source_span(loop.source)}{basis}"


def _place_row(
    left_place: str | None,
    right_place: str | None,
    left_code: Sequence[Instruction],
    right_code: Sequence[Instruction],
    source: SourceText,
) -> Row:
    sides: list[Side | None] = []
    for place, instructions in ((left_place, left_code), (right_place, right_code)):
        if place is None:
            sides.append(None)
            continue
        text = ""
        if place and instructions and (loc := instructions[0].loc) is not None:
            text = " ".join((source(loc.in_user_code) or "").split())
        count = view.plural(len(instructions), "instruction") if instructions else "nothing"
        sides.append(Side(f"{place or 'no source line'}  {text or count}"))
    return Row("place", sides[0], sides[1])


def _aligned_rows(
    left_code: Sequence[Instruction], right_code: Sequence[Instruction]
) -> Iterator[Row]:
    a, b = [isa.canonical(i) for i in left_code], [isa.canonical(i) for i in right_code]
    gone, new = Counter(a) - Counter(b), Counter(b) - Counter(a)
    for tag, i1, i2, j1, j2 in _edits(a, b):
        if tag == "equal":
            for i, j in zip(range(i1, i2), range(j1, j2), strict=True):
                yield Row("code", _side(left_code[i], " "), _side(right_code[j], " "))
            continue
        lefts = [_side(left_code[i], _sign(a[i], gone, "-")) for i in range(i1, i2)]
        rights = [_side(right_code[j], _sign(b[j], new, "+")) for j in range(j1, j2)]
        for left, right in zip_longest(lefts, rights):
            yield Row("code", left, right)


def _edits(a: Sequence[str], b: Sequence[str]) -> Iterable[tuple[str, int, int, int, int]]:
    """The opcodes of difflib; all replaced where aligning would take too long."""
    if max(len(a), len(b)) > isa.MOST_FOR_ALIGNMENT and a != b:
        return [("replace", 0, len(a), 0, len(b))]
    return SequenceMatcher(None, a, b, autojunk=False).get_opcodes()


def _sign(text: str, budget: Counter[str], sign: Sign) -> Sign:
    """`sign` while the budget lasts; "~" for the others, which both sides have in another order."""
    if budget[text] > 0:
        budget[text] -= 1
        return sign
    return "~"


def _side(instruction: Instruction, sign: Sign) -> Side:
    text = f"{instruction.mnemonic:<{_MNEMONIC}} {instruction.operands}".rstrip()
    return Side(text, sign, instruction.line, _style(instruction.cls))


def _style(cls: str) -> str:
    return next((style for starts, style in _STYLES if cls.startswith(starts)), "vector")


# --------------------------------------------------------------------------- ways through the rows

_CONTEXT = 3
"""Rows around a difference that are always shown."""


def _differences(rows: Sequence[Row]) -> Iterator[int]:
    """The rows at which a stretch of differing rows begins."""
    in_difference = False
    for line, row in enumerate(rows):
        if row.differs and not in_difference:
            yield line
        in_difference = row.differs


def _folds(rows: Sequence[Row]) -> Iterator[tuple[int, int]]:
    """Stretches of code of one source line without a difference near by."""
    near = bytearray(len(rows))
    for line, row in enumerate(rows):
        if row.differs:
            first = max(0, line - _CONTEXT)
            near[first : line + _CONTEXT + 1] = b"\1" * len(near[first : line + _CONTEXT + 1])
    start: int | None = None
    for line in range(len(rows) + 1):
        quiet = line < len(rows) and rows[line].kind == "code" and not near[line]
        if quiet and start is None:
            start = line
        elif not quiet and start is not None:
            # The heading of the source line is what stays, if the stretch begins under it.
            first = start - 1 if rows[start - 1].kind == "place" else start
            if line - 1 - first > 1:
                yield first, line - 1
            start = None


def title(pair: KernelDiff) -> str:
    """How much of the code differs, in a few words."""
    if not pair.isa:
        return "the code is the same but for registers and order"
    gone = sum(difference.only[0] for difference in pair.isa)
    new = sum(difference.only[1] for difference in pair.isa)
    common = sum(difference.common for difference in pair.isa)
    return f"{gone} gone, {new} new, {common} the same"
