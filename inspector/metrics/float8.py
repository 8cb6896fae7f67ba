"""Conversions from and to 8-bit floats that the target has no instruction for.

gfx942 converts the fnuz formats, gfx950 and gfx12 the OCP formats (`v_cvt_*fp8`, `v_cvt_*bf8`).
Triton writes any other conversion out in integer instructions, without a word: some 30 of them for
an element. One is cheap even so, and left out: e5m2 is the upper half of a float16, so that
widening it takes a shift. On targets that have no such formats at all, only what can be shortened
counts: e4m3fn is widened to bfloat16 by a third of the instructions.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from typing import Final

from ..model import Scalar, TtgirModule, TtgirOp
from .entries import of_kernels
from .loop_shape import position_of
from .mix import VALU_CLASSES
from .subject import Place, Subject, op_line

FLOAT8_SPECS = of_kernels(
    {
        "convert.written_out": "Conversions from or to 8-bit floats in place of which stand other "
        "instructions than the target's for such formats: how many operations of the TTGIR "
        "(`conversions`), vector `instructions` at their positions, and of the one that has most "
        "`at` which line, `source` and `result` type; the `formats` that the target has "
        "instructions for, in Triton's names, where that one has another, and how many "
        "conversions would be shorter `by_bfloat16`; both none where there are none. Of a format "
        "that has instructions, or on a target without any, only the latter count",
    }
)

_FLOAT8: Final = re.compile(r"f8E\w+")
_UPPER_HALF: Final = "f8E5M2"
_E4M3FN: Final = "f8E4M3FN"
_BFLOAT16: Final = "bf16"
_FNUZ: Final = "tl.float8e4b8 and tl.float8e5b16 (fnuz)"
_OCP: Final = "tl.float8e4nv and tl.float8e5 (OCP)"
_ELEMENTS: Final[Mapping[str, frozenset[str]]] = {
    _FNUZ: frozenset(("f8E4M3FNUZ", "f8E5M2FNUZ")),
    _OCP: frozenset((_E4M3FN, _UPPER_HALF)),
}
"""Formats in Triton's names -> in MLIR's."""
_FORMATS: Final[Mapping[str, str]] = {
    # ISA documents of CDNA3 (7.2), CDNA4 and RDNA4: V_CVT_PK_FP8_F32.
    **dict.fromkeys(("gfx940", "gfx941", "gfx942"), _FNUZ),
    **dict.fromkeys(("gfx950", "gfx1200", "gfx1201", "gfx1250"), _OCP),
}
"""Target -> the 8-bit floats that it converts by an instruction, as Triton calls them."""
_INSTRUCTION: Final = re.compile(r"v_cvt_\w*(?:fp8|bf8)")


def written_out(subject: Subject, module: TtgirModule) -> dict[str, Scalar]:
    """The value of the metric of `FLOAT8_SPECS`."""
    conversions = float8_conversions(module)
    instructions: Counter[Place] = Counter()
    converted: set[Place] = set()
    for inst in subject.function.instructions if conversions else ():
        if inst.loc is None or inst.cls not in VALU_CLASSES:
            continue
        place = position_of(inst.loc)
        if place in conversions:
            instructions[place] += 1
            if _INSTRUCTION.match(inst.op.name):
                converted.add(place)
    arch = subject.machine.arch if subject.machine is not None else ""
    formats = _FORMATS.get(arch)
    other = {place for place in instructions if _has_other(conversions[place], formats)}
    by_bfloat16 = {place for place in instructions if _goes_by_bfloat16(conversions[place])}
    expanded = [p for p in instructions if p in other | by_bfloat16 and p not in converted]
    most = max(expanded, key=lambda place: instructions[place], default=None)
    source, result = _elements(conversions[most]) if most is not None else (None, None)
    return {
        "conversions": len(expanded),
        "instructions": sum(instructions[place] for place in expanded),
        "at": op_line(conversions[most]) if most is not None else None,
        "source": source,
        "result": result,
        "formats": formats if most in other else None,
        "by_bfloat16": len(by_bfloat16 - converted) or None,
    }


def float8_conversions(ttgir: TtgirModule) -> dict[Place, TtgirOp]:
    """The conversions from or to 8-bit floats by position, the first at each.

    A widening of e5m2 is none.
    """
    conversions: dict[Place, TtgirOp] = {}
    for op in ttgir.ops:
        if op.name == "tt.fp_to_fp" and op.loc is not None and op.operand_types and op.result_types:
            source, result = _elements(op)
            if source != _UPPER_HALF and (_FLOAT8.match(source) or _FLOAT8.match(result)):
                conversions.setdefault(position_of(op.loc), op)
    return conversions


def _has_other(op: TtgirOp, formats: str | None) -> bool:
    """Whether a target has formats and a conversion is of another one.

    Triton 3.9 writes conversions of gfx12's own formats out as well.
    """
    own = set(filter(_FLOAT8.match, _elements(op)))
    return formats is not None and not own <= _ELEMENTS[formats]


def _goes_by_bfloat16(op: TtgirOp) -> bool:
    """Whether bfloat16 is the shorter way: of e4m3fn to other types."""
    source, result = _elements(op)
    return source == _E4M3FN and result != _BFLOAT16


def _elements(op: TtgirOp) -> tuple[str, str]:
    """The types from and to which it converts: `f8E4M3FN` of `tensor<2048xf8E4M3FN, #blocked>`."""
    source, result = (
        converted.text.removeprefix("tensor<").partition(",")[0].rstrip(">").rpartition("x")[2]
        for converted in (op.operand_types[0], op.result_types[0])
    )
    return source, result
