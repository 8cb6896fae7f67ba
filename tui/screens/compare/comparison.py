"""Compares two kernels: their figures, and the code of their hot loops.

Aligning thousands of instructions holds the interpreter's lock for tenths of a second, which would
freeze the screen: large kernels are compared in a child process.

Of hot loops, source lines are paired first, as in `inspector.compare.diff`, and then the
instructions of each pair, whose registers do not matter.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from difflib import SequenceMatcher
from itertools import zip_longest
from pathlib import Path
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from ....inspector.base.errors import KinspectError
from ....inspector.compare.diff import isa
from ....inspector.compare.diff.diff_results import DiffReport, KernelDiff, LoopPair
from ....inspector.compare.diff.isa import assembly_of
from ....inspector.compare.diff.reports import DiffOptions, diff_kernels, finished
from ....inspector.compare.diff.tolerances import Tolerances
from ....inspector.explain import loop_view, view
from ....inspector.model import Function, Instruction, KernelReport, LoopReport, SourceLoc
from ....inspector.pipeline.analysis import source_reader
from ...child_process import MessagingChild
from .compare_figures import short_labels

CHILD_BYTES = 150_000
"""Bytes of assembly of both kernels together from which on a process pays for its start."""


class KernelComparison(Struct, frozen=True):
    """Two kernels compared.

    Attributes:
        code: the code of both hot loops, aligned.
    """

    pair: KernelDiff
    code: Aligned


def comparison_of(left: KernelReport, right: KernelReport) -> KernelComparison:
    """Compares two kernels and aligns their code; takes seconds for large kernels.

    Raises:
        KinspectError: they cannot be compared.
    """
    tolerances = Tolerances({})
    labels = short_labels(left, right)
    pair = diff_kernels(left, right, tolerances, labels)
    report = DiffReport({}, *labels, (pair,))
    pair = finished(report, DiffOptions(tolerances, most_isa=None), assembly_of).pairs[0]
    code = aligned(pair, assembly_of, source_reader())
    if code.rows:  # also of kernels that were read, whose code is not among their artifacts
        pair = replace(pair, code="seen")
    return KernelComparison(pair, code)


def compared_in_child(
    left: KernelReport, right: KernelReport, is_cancelled: Callable[[], bool]
) -> KernelComparison | str:
    """Compares two kernels as `comparison_of` does, large ones in a child process.

    Returns:
        The comparison, or why there is none.
    """
    if sum(map(_size, (left, right))) < CHILD_BYTES:
        return _comparison_or_reason(left, right)
    child = MessagingChild(f"{__name__}:send_comparison", (left, right), "compares")
    try:
        result: KernelComparison = child.run(is_cancelled=is_cancelled)
    except KinspectError as error:
        return str(error)
    return result


def _size(report: KernelReport) -> int:
    """The size in bytes of a kernel's assembly, or of the file that it was read from."""
    artifact = report.artifacts.get("amdgcn")
    path = artifact.path if artifact is not None else Path(report.file)
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _comparison_or_reason(left: KernelReport, right: KernelReport) -> KernelComparison | str:
    try:
        return comparison_of(left, right)
    except KinspectError as error:
        return str(error)
    except Exception as error:
        # A bug must be seen on the page, not end the UI.
        return f"internal error: {type(error).__name__}: {error}"


def send_comparison(
    kernels: tuple[KernelReport, KernelReport], send: Callable[[str, KernelComparison], None]
) -> None:
    """Compares two kernels, in a child process."""
    send("result", comparison_of(*kernels))


Sign = Literal[" ", "-", "+", "~"]
"""An instruction is on both sides, only on the left, only on the right, or at another place."""
Kind = Literal["loop", "place", "code"]
SourceText = Callable[[SourceLoc], "str | None"]
TextOf = Callable[[KernelReport], "str | None"]

_NO_CODE = "the code is not at hand"
MNEMONIC_WIDTH = 24
"""Columns of an instruction's mnemonic, before its operands."""
_CONTEXT = 3
"""Rows before and after a difference that are never folded."""
_STYLES = (
    (("mfma", "wmma"), "matrix"),
    (("scratch",), "scratch"),
    (("lds",), "lds"),
    (("global", "atomic", "image", "prefetch", "cache"), "memory"),
    (("wait", "alu_wait", "barrier"), "wait"),
    (("branch",), "branch"),
    (("salu", "smem"), "scalar"),
    (("nop", "hint", "message", "control", "export", "gds", "unknown"), "other"),
)
"""(prefixes of instruction classes, style); all others are vector instructions."""


class AlignedCell(Struct, frozen=True):
    """One side of a row: a heading, or an instruction.

    Attributes:
        sign: whether the other side has the instruction, too.
        line: the instruction's line in the assembly, counted from 1; None for a heading.
    """

    text: str
    sign: Sign = " "
    line: int | None = None
    style: str = ""


class AlignedRow(Struct, frozen=True):
    """A row of both views; `left` or `right` is None where that side is empty."""

    kind: Kind
    left: AlignedCell | None
    right: AlignedCell | None

    @property
    def differs(self) -> bool:
        """Whether one side has an instruction that the other lacks."""
        signs = {cell.sign for cell in (self.left, self.right) if cell is not None}
        return bool(signs & {"-", "+"})


class Aligned(Struct, frozen=True):
    """The rows of both views.

    Attributes:
        differences: index of the first row of each difference, ascending.
        folds: (first, last) row of each long stretch in which nothing differs.
        note: why there are no rows; "" if there are some.
    """

    rows: tuple[AlignedRow, ...]
    differences: tuple[int, ...] = ()
    folds: tuple[tuple[int, int], ...] = ()
    note: str = ""


def aligned(pair: KernelDiff, text: TextOf, source: SourceText) -> Aligned:
    """Aligns the hot loops of two kernels, or all of their code if they have no loops.

    Args:
        pair: the kernels, with their loops paired.
        text: returns the assembly of a kernel; None if it has gone.
        source: returns the text of a source line; None if it is unknown.
    """
    functions: list[Function] = []
    for report in (pair.left, pair.right):
        function = _function(report, text)
        if function is None:
            return Aligned((), note=_NO_CODE)
        functions.append(function)
    rows: list[AlignedRow] = []
    for loops in pair.loops or (None,):
        rows += _region(loops, functions, source)
    if not any(row.kind == "code" for row in rows):
        return Aligned((), note=_NO_CODE)
    return Aligned(tuple(rows), tuple(_differences(rows)), tuple(_folds(rows)))


def _function(report: KernelReport, text: TextOf) -> Function | None:
    """The kernel's function in its assembly; None if that cannot be read."""
    source = text(report)
    if source is None:
        return None
    try:
        return isa.function_for(report, isa.functions_of(source))
    except KinspectError:
        return None


def _region(
    loops: LoopPair | None, functions: Sequence[Function], source: SourceText
) -> Iterator[AlignedRow]:
    """The rows of a loop of both sides under a heading, or of all the code without one."""
    loop_reports: tuple[LoopReport | None, LoopReport | None] = (None, None)
    if loops is not None:
        loop_reports = loops.left, loops.right
        yield AlignedRow("loop", *(AlignedCell(_loop_title(loops, loop)) for loop in loop_reports))
        if loop_reports[0] is None or loop_reports[1] is None:
            return
    regions = [
        isa.region_of(function, loop)
        for function, loop in zip(functions, loop_reports, strict=True)
    ]
    if regions[0] is None or regions[1] is None:
        return
    left, right = (isa.by_line(region) for region in regions if region is not None)
    texts = [
        {
            location: [isa.canonical(instruction) for instruction in instructions]
            for location, instructions in code_by_location.items()
        }
        for code_by_location in (left, right)
    ]
    for left_place, right_place in isa.paired_lines(texts[0], texts[1]):
        left_code = left.get(left_place, []) if left_place is not None else []
        right_code = right.get(right_place, []) if right_place is not None else []
        yield _place_row(left_place, right_place, left_code, right_code, source)
        yield from _aligned_rows(left_code, right_code)


def _loop_title(loops: LoopPair, loop: LoopReport | None) -> str:
    if loop is None:
        return "no such loop"
    basis = f"  {loops.basis.words}" if loops.basis.words else ""
    return f"hot loop {loop.id}  {loop_view.source_span(loop.source)}{basis}"


def _place_row(
    left_place: str | None,
    right_place: str | None,
    left_code: Sequence[Instruction],
    right_code: Sequence[Instruction],
    source: SourceText,
) -> AlignedRow:
    cells: list[AlignedCell | None] = []
    for location, instructions in ((left_place, left_code), (right_place, right_code)):
        if location is None:
            cells.append(None)
            continue
        text = ""
        if location and instructions and (loc := instructions[0].loc) is not None:
            text = " ".join((source(loc.in_user_code) or "").split())
        count = view.plural(len(instructions), "instruction") if instructions else "nothing"
        cells.append(AlignedCell(f"{location or 'no source line'}  {text or count}"))
    return AlignedRow("place", cells[0], cells[1])


def _aligned_rows(
    left_code: Sequence[Instruction], right_code: Sequence[Instruction]
) -> Iterator[AlignedRow]:
    left_texts = [isa.canonical(instruction) for instruction in left_code]
    right_texts = [isa.canonical(instruction) for instruction in right_code]
    left_only = Counter(left_texts) - Counter(right_texts)
    right_only = Counter(right_texts) - Counter(left_texts)
    for tag, i1, i2, j1, j2 in _edits(left_texts, right_texts):
        if tag == "equal":
            for i, j in zip(range(i1, i2), range(j1, j2), strict=True):
                yield AlignedRow("code", _cell(left_code[i], " "), _cell(right_code[j], " "))
            continue
        lefts = [_cell(left_code[i], _sign(left_texts[i], left_only, "-")) for i in range(i1, i2)]
        rights = [
            _cell(right_code[j], _sign(right_texts[j], right_only, "+")) for j in range(j1, j2)
        ]
        for left, right in zip_longest(lefts, rights):
            yield AlignedRow("code", left, right)


def _edits(a: Sequence[str], b: Sequence[str]) -> Iterable[tuple[str, int, int, int, int]]:
    """The opcodes of difflib; all replaced where aligning would take too long."""
    if max(len(a), len(b)) > isa.MOST_FOR_ALIGNMENT and a != b:
        return [("replace", 0, len(a), 0, len(b))]
    return SequenceMatcher(None, a, b, autojunk=False).get_opcodes()


def _sign(text: str, budget: Counter[str], sign: Sign) -> Sign:
    """`sign` while the budget of a text lasts; "~" for those that both sides have elsewhere."""
    if budget[text] > 0:
        budget[text] -= 1
        return sign
    return "~"


def _cell(instruction: Instruction, sign: Sign) -> AlignedCell:
    text = f"{instruction.mnemonic:<{MNEMONIC_WIDTH}} {instruction.operands}".rstrip()
    return AlignedCell(text, sign, instruction.line, _style(instruction.cls))


def _style(cls: str) -> str:
    return next((style for starts, style in _STYLES if cls.startswith(starts)), "vector")


def _differences(rows: Sequence[AlignedRow]) -> Iterator[int]:
    """Yields the first row of each stretch of differing rows."""
    in_difference = False
    for line, row in enumerate(rows):
        if row.differs and not in_difference:
            yield line
        in_difference = row.differs


def _folds(rows: Sequence[AlignedRow]) -> Iterator[tuple[int, int]]:
    """Yields (first, last) row of each stretch of one source line's code far from differences."""
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
            # A fold shows its first row: the source line's heading, if the stretch follows it.
            first = start - 1 if rows[start - 1].kind == "place" else start
            if line - 1 - first > 1:
                yield first, line - 1
            start = None


def instruction_tally(pair: KernelDiff) -> str:
    """The numbers of instructions that differ and do not, as text."""
    if not pair.isa:
        return "the code is the same but for registers and order"
    gone = sum(difference.only[0] for difference in pair.isa)
    new = sum(difference.only[1] for difference in pair.isa)
    common = sum(difference.common for difference in pair.isa)
    return f"{gone} gone, {new} new, {common} the same"
