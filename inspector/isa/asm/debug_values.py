"""Variables of the source in registers, by the comments that LLVM writes for code built with -g.

`;DEBUG_VALUE: axpy:total <- [DW_OP_constu 1, DW_OP_swap, DW_OP_xderef] $vgpr3`: from here on VGPR 3
holds `total`. Source: LLVM's AsmPrinter (`emitDebugValueComment`).
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import Literal

from msgspec.structs import replace

from ...model import Function, VariableMark

_MARK = "DEBUG_VALUE:"
_COMMENT = re.compile(
    r"^[ \t]*;[ \t]*DEBUG_VALUE:[ \t]*(?:[^\n]*:)?([^\s:]+)[ \t]+<-[ \t]+(?:\[([^\]\n]*)\][ \t]+)?"
    r"\$([va])gpr(\d{1,9})((?:_[va]gpr\d+)*)[ \t]*$",
    re.MULTILINE,
)
_IN_REGISTER = re.compile(
    r"(?:DW_OP_constu \d+|DW_OP_swap|DW_OP_xderef|DW_OP_LLVM_fragment \d+ \d+|, )*"
)
"""Operations that say where a variable is, and compute nothing of it."""


def with_variables(
    functions: Sequence[Function], text: str, lines_before: int = 0
) -> list[Function]:
    """The functions of a text with the variables that its comments place in vector registers.

    Args:
        functions: as they were read.
        text: the assembly.
        lines_before: lines of the file that precede it.
    """
    if _MARK not in text:
        return list(functions)
    marks = list(_marks(text, lines_before))
    return [replace(f, variables=tuple(_of_function(f, marks))) for f in functions]


def _marks(text: str, lines_before: int) -> Iterator[tuple[int, VariableMark]]:
    """Yields the comments that name a register: line, and the mark without its instruction."""
    line, counted_to = lines_before + 1, 0
    for match in _COMMENT.finditer(text):
        line += text.count("\n", counted_to, match.start())
        counted_to = match.start()
        name, operations, file, first, others = match.groups()
        if operations is None or _IN_REGISTER.fullmatch(operations):
            registers: Literal["v", "a"] = "v" if file == "v" else "a"
            yield line, VariableMark(-1, registers, int(first), 1 + others.count("_"), name)


def _of_function(
    function: Function, marks: Sequence[tuple[int, VariableMark]]
) -> Iterator[VariableMark]:
    """Yields the marks in a function, each before the instruction that follows it."""
    lines = [inst.line for inst in function.instructions]
    for line, mark in marks:
        index = bisect_right(lines, line)
        if function.line_first <= line <= function.line_last and index < len(lines):
            yield replace(mark, index=index)
