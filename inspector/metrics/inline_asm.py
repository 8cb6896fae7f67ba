"""Inline assembly of the source that is missing from the code.

LLVM drops assembly that it cannot translate and goes on; the compile "succeeds". Its message on
stderr fails the compile; this examines the code itself, independent of messages.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from ..isa.mnemonics import lookup
from ..model import Metric, Scalar, TtgirOp
from .entries import of_kernels
from .subject import NOT_ALL_READ, LineName, Subject

_DROPPED = "inline_asm.dropped"

SPECS = of_kernels(
    {
        _DROPPED: "Inline assembly with side effects whose instructions are not in the code: "
        "`pieces` of `of`, the first one's `text`, `at` which line",
    }
)

_COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*|;[^\n]*", re.S)
_LABEL = re.compile(r"^\s*[\w.$]+:(?!\w)")
# Directives whose instructions do not stand in the text.
_MACRO = re.compile(r"^\s*\.(?:macro|rept|rep|irpc?|if\w*|altmacro|long|quad|short|byte)\b", re.M)


def compute(subject: Subject) -> Iterator[Metric]:
    """The metric of `SPECS`."""
    function = subject.function
    note = ""
    if subject.ttgir is None:
        note = "needs the kernel's TTGIR"
    elif not function.instructions:
        note = "no code was read"
    elif not function.all_read:
        note = NOT_ALL_READ
    elif function.calls:
        note = "the kernel calls other functions, which may hold it"
    if note or subject.ttgir is None:
        yield Metric(_DROPPED, None, "mapping", "derived", note)
        return
    # Only kernels with a TTGIR need what reads one.
    from ..ttgir.queries import assembly_text, inline_assembly

    pieces = inline_assembly(subject.ttgir)
    code = [inst.op.name for inst in function.instructions] if pieces else []
    missing = [
        op
        for op in pieces
        if not op.attributes.get("pure", False) and not _stands_in(mnemonics(_text(op)), code)
    ]
    text = assembly_text(missing[0]) if missing else None
    yield Metric(_DROPPED, _value(missing, len(pieces), text), "mapping", "derived")


def _value(missing: Sequence[TtgirOp], total: int, text: str | None) -> dict[str, Scalar]:
    return {
        "pieces": len(missing),
        "of": total,
        "text": text,
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
