"""Inline assembly of the source that is missing from the code.

LLVM drops assembly that it cannot translate and goes on; the compile "succeeds". Its message on
stderr fails the compile; this examines the code itself, independent of messages.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from ..isa.mnemonics import lookup
from ..model import Scalar, TtgirModule, TtgirOp
from .entries import NO_CODE, Unknown, of_kernels
from .subject import NOT_ALL_READ, LineName, Subject

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
