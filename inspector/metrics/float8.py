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
from collections.abc import Iterator, Mapping
from typing import Final

from ..model import Instruction, Metric, MetricSpec, Scalar, TtgirModule, TtgirOp
from .loop_shape import position_of
from .mix import VALU_CLASSES
from .subject import Place, Subject, op_line

_WRITTEN_OUT = "convert.written_out"

SPECS = (
    MetricSpec(
        _WRITTEN_OUT,
        "mapping",
        "derived",
        "kernel",
        "Conversions from or to 8-bit floats in place of which stand other instructions than the "
        "target's for such formats: how many operations of the TTGIR (`conversions`), vector "
        "`instructions` at their positions, and of the one that has most `at` which line, `source` "
        "and `result` type; the `formats` that the target has instructions for, in Triton's names, "
        "where that one has another, and how many conversions would be shorter `by_bfloat16`; both "
        "none where there are none. Of a format that has instructions, or on a target without any, "
        "only the latter count",
    ),
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


def compute(subject: Subject) -> Iterator[Metric]:
    """The metric of `SPECS`."""
    if subject.ttgir is None:
        yield Metric(_WRITTEN_OUT, None, "mapping", "derived", "needs the kernel's TTGIR")
        return
    conversions = float8_conversions(subject.ttgir)
    instructions: Counter[Place] = Counter()
    converted: set[Place] = set()
    for inst in subject.function.instructions if conversions else ():
        if inst.loc is None or inst.cls not in VALU_CLASSES:
            continue
        place = position_of(inst.loc)
        if place in conversions:
            instructions[place] += 1
            if _is_conversion(inst):
                converted.add(place)
    formats = _FORMATS.get(subject.machine.arch) if subject.machine is not None else None
    written_out = [
        place
        for place in instructions
        if place not in converted
        and (_has_other(conversions[place], formats) or _goes_by_bfloat16(conversions[place]))
    ]
    by_bfloat16 = sum(_goes_by_bfloat16(conversions[place]) for place in written_out)
    largest = max(written_out, key=lambda place: instructions[place], default=None)
    op_of_most = conversions[largest] if largest is not None else None
    value: dict[str, Scalar] = {
        "conversions": len(written_out),
        "instructions": sum(instructions[place] for place in written_out),
        "at": op_line(op_of_most),
        "source": _element(op_of_most.operand_types[0].text) if op_of_most else None,
        "result": _element(op_of_most.result_types[0].text) if op_of_most else None,
        "formats": formats if op_of_most is not None and _has_other(op_of_most, formats) else None,
        "by_bfloat16": by_bfloat16 or None,
    }
    yield Metric(_WRITTEN_OUT, value, "mapping", "derived")


def float8_conversions(ttgir: TtgirModule) -> dict[Place, TtgirOp]:
    """The conversions from or to 8-bit floats by position, the first at each."""
    conversions: dict[Place, TtgirOp] = {}
    for op in ttgir.ops:
        if op.name == "tt.fp_to_fp" and op.loc is not None and _is_of_float8(op):
            conversions.setdefault(position_of(op.loc), op)
    return conversions


def _is_of_float8(op: TtgirOp) -> bool:
    """Whether a conversion is from or to an 8-bit float, and no widening of e5m2."""
    source, *_ = (_element(operand_type.text) for operand_type in op.operand_types)
    results = [_element(result_type.text) for result_type in op.result_types]
    return source != _UPPER_HALF and any(map(_FLOAT8.match, (source, *results)))


def _has_other(op: TtgirOp, formats: str | None) -> bool:
    """Whether a target has formats and a conversion is of another one.

    Triton 3.9 writes conversions of gfx12's own formats out as well.
    """
    types = (op.operand_types[0], op.result_types[0])
    own = {_element(t.text) for t in types if _FLOAT8.match(_element(t.text))}
    return formats is not None and not own <= _ELEMENTS[formats]


def _goes_by_bfloat16(op: TtgirOp) -> bool:
    """Whether bfloat16 is the shorter way: of e4m3fn to other types."""
    source, result = (_element(t.text) for t in (op.operand_types[0], op.result_types[0]))
    return source == _E4M3FN and result != _BFLOAT16


def _is_conversion(inst: Instruction) -> bool:
    return _INSTRUCTION.match(inst.op.name) is not None


def _element(text: str) -> str:
    """The element type of a tensor type's text: `f8E4M3FN` of `tensor<2048xf8E4M3FN, #blocked>`."""
    return text.removeprefix("tensor<").partition(",")[0].rstrip(">").rpartition("x")[2]
