"""Conversions of floats that vector instructions compute: roundings to bfloat16, detours through
float64, 8-bit formats that the target has no instruction for.

LLVM makes five instructions of a rounding: the lowest bit that stays (`v_bfe_u32 x, 16, 1` or an
AND of the upper word), its sum with the number and 0x7fff (`v_add3_u32`), and a comparison, a bit
and a selection that keep NaN. `bfloat16.conversions` counts them in the code, of each loop.

`bfloat16.rounded` is those that float32 throughout would save, by the TTGIR or, where it has none,
by what the code neither stores nor multiplies on the matrix unit, of one region: the hot loop where
they take the largest share or, without hot loops, the whole kernel. On gfx950 a
conversion takes two, `v_cvt_pk_bf16_f32` and the shift that widens the result, but sums and
products of bfloat16 are written out there as well. Tried in 45 kernels of gfx942, gfx90a and
gfx1100: float32 throughout saved 5 to 8 vector instructions for each element.

In C++ `x * 0.5` with a float `x` is a product of doubles: x is widened, and the result narrowed
where it is stored as a float. A conversion takes a quarter of the rate of other vector
instructions, and a float64 operation half on CDNA 3, less elsewhere. Numbers that lie in memory as
float64 are another matter: there the type is the data's.

gfx942 converts the fnuz formats, gfx950 and gfx12 the OCP formats (`v_cvt_*fp8`, `v_cvt_*bf8`).
Triton writes any other conversion out in integer instructions, without a word: some 30 of them for
an element. One is cheap even so, and left out: e5m2 is the upper half of a float16, so that
widening it takes a shift. On targets that have no such formats at all, only what can be shortened
counts: e4m3fn is widened to bfloat16 by a third of the instructions.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence, Set
from typing import TYPE_CHECKING, Final

from ..base.recent_results import kept_for_recent
from ..isa.dataflow.value_graph import Operation, graph_of
from ..isa.mnemonics import access_bits
from ..model import Function, Instruction, Metric, Scalar, TtgirModule, TtgirOp
from .entries import of_both, of_kernels
from .loop_shape import position_of
from .mix import VALU_CLASSES, vector_instructions
from .named_positions import positions_of
from .subject import (
    MATRIX_CLASSES,
    LineName,
    Place,
    Subject,
    Tally,
    line_of_most,
    op_line,
    own_instructions,
)

if TYPE_CHECKING:
    from .triton_arithmetic import Rounding


_ROUNDED: Final = "bfloat16.rounded"
_CONVERSIONS: Final = "bfloat16.conversions"

SPECS: Final = of_kernels(
    {
        _ROUNDED: "Values rounded to bfloat16 that nothing but arithmetic uses, which widens them "
        "to float32 again, in the hot loop of which they take the largest share (in kernels "
        "without hot loops: in all): `elements` that a lane rounds, vector `instructions` that "
        "this takes of the `valu` there, `at` the line of the operation that rounds most",
    },
    "estimated",
)
CONVERSION_SPECS: Final = of_both(
    {
        _CONVERSIONS: "conversions | Conversions of float32 to bfloat16 that are written out in "
        "integer instructions, five for each: bit 16 (v_bfe_u32, v_and_b32_sdwa), v_add3_u32, and "
        "what NaNs take",
    }
)

_ADDS: Final = ("v_add3_u32",)
_TAKES_BIT: Final = ("v_bfe_u32", "v_and_b32_sdwa")
_WRITES: Final = frozenset(("atomic", "global_store", "lds_write"))
_BITS: Final = 16
_WRITTEN_OUT, _CONVERTED = 5, 2
"""Vector instructions of a rounding, without and with an instruction for it."""
_CONVERTING: Final = frozenset(("gfx950",))
_COMPUTING: Final = frozenset(("gfx1250",))
"""Targets whose vector unit adds and multiplies bfloat16 (LLVM: FeatureBF16PackedInsts)."""
_EXPANDED: Final = frozenset(("arith.addf", "arith.divf", "arith.mulf", "arith.subf"))
"""Written out even where there is an instruction for conversions (Triton 3.9)."""


def kernel_metrics(subject: Subject, hot: Set[str]) -> Iterator[Metric]:
    """The metric of `SPECS`."""
    arch = subject.machine.arch if subject.machine is not None else None
    if arch is None or arch in _COMPUTING:
        note = "the target is not known" if arch is None else f"{arch} computes in bfloat16"
        yield Metric(_ROUNDED, None, "mapping", "estimated", note)
        return
    function = subject.function
    regions: list[Sequence[Instruction]] = []
    rounded: list[Rounding] = []
    if subject.ttgir is not None:
        from .triton_arithmetic import roundings  # only kernels with a TTGIR need it

        rounded = roundings(subject.ttgir)
    if hot and (rounded or any(i.mnemonic.startswith(_ADDS) for i in function.instructions)):
        code_of = own_instructions(function)
        regions = [code_of[loop.id] for loop in function.loops if loop.id in hot]
    values: list[tuple[float, dict[str, Scalar]]] = []
    for region in regions or [function.instructions]:
        here = _within(subject, rounded, region) if regions else rounded
        told = _by_ttgir(arch, here) if rounded else _by_code(subject, region)
        elements, instructions, at = told
        valu = vector_instructions(region)
        value: dict[str, Scalar] = {"elements": elements, "instructions": instructions}
        values.append((instructions / max(1, valu), value | {"valu": valu, "at": at}))
    _, value = max(values, key=lambda item: item[0])
    yield Metric(_ROUNDED, value, "mapping", "estimated")


def _by_ttgir(arch: str, rounded: Sequence[Rounding]) -> tuple[int, int, LineName | None]:
    """Elements that a lane rounds, the vector instructions of that, and the line that has most."""
    instructions = sum(
        r.elements
        * (_CONVERTED if arch in _CONVERTING and r.op.name not in _EXPANDED else _WRITTEN_OUT)
        for r in rounded
    )
    most = max(rounded, key=lambda r: r.elements, default=None)
    at = LineName.of([most.op], [r.op for r in rounded]) if most is not None else None
    return sum(r.elements for r in rounded), instructions, at


def _by_code(subject: Subject, region: Sequence[Instruction]) -> tuple[int, int, LineName | None]:
    """The same by the code alone: without a TTGIR, or where its tensors have none of these."""
    if any(inst.cls in MATRIX_CLASSES for inst in region):
        return 0, 0, None
    sums = _written_out(subject, [inst.index for inst in region])
    stored = sum(access_bits(inst.op, inst.operands) or 0 for inst in region if inst.cls in _WRITES)
    elements = len(sums) - stored // _BITS
    if elements <= 0:
        return 0, 0, None
    line, _ = line_of_most(sums)
    return elements, _WRITTEN_OUT * elements, line


def _within(
    subject: Subject, rounded: Sequence[Rounding], region: Sequence[Instruction]
) -> list[Rounding]:
    """The roundings at whose positions a loop has instructions."""
    places = {position_of(inst.loc) for inst in region if inst.loc is not None}
    here = [
        (position_of(r.op.loc), _loops_around(subject, r.op), r)
        for r in rounded
        if r.op.loc is not None and position_of(r.op.loc) in places
    ]
    innermost: dict[object, int] = {}
    for place, depth, _ in here:
        innermost[place] = max(depth, innermost.get(place, 0))
    return [r for place, depth, r in here if depth == innermost[place]]


def _loops_around(subject: Subject, op: TtgirOp) -> int:
    """The number of loops in which an operation of the TTGIR stands."""
    from ..ttgir.queries import loop_above  # only kernels with a TTGIR need it

    module, loops = subject.ttgir, 0
    while module is not None and (above := loop_above(op, module)) is not None:
        op, loops = module.ops[above], loops + 1
    return loops


def conversions(subject: Subject, region: Tally) -> Iterator[Metric]:
    """The metric of `CONVERSION_SPECS` for a kernel or loop."""
    sums = _written_out(subject, region.indices)
    positions = positions_of(sums)
    yield Metric(_CONVERSIONS, len(sums), "conversions", "derived", positions=positions)


def _written_out(subject: Subject, region: Sequence[int]) -> list[Instruction]:
    """The sums of the conversions that are written out in some code, one of each."""
    return [
        operation.inst
        for operation in graph_of(subject.function).operations(region, _ADDS, _TAKES_BIT)
        if operation.name.startswith(_ADDS)
        and any(
            _is_lowest_bit(bit) and operation.reads(bit.sources[0])
            for bit in operation.makers
            if bit
        )
    ]


def _is_lowest_bit(bit: Operation) -> bool:
    """Whether an operation takes bit 16 of its source."""
    if bit.name == "v_bfe_u32":
        return [source.integer for source in bit.sources[1:]] == [16, 1]
    return bit.name == "v_and_b32" and bit.parts.modifiers.get("src0_sel") == "WORD_1"


DOUBLE_SPECS = of_both(
    {
        "float64": "Vector instructions on float64: `arithmetic`, conversions to it from float32 "
        "(`widened`) and from it to float32 (`narrowed`), all of these (`instructions`), those of "
        "them whose operand was loaded or whose result is stored as float64 (`of_memory`; doubles "
        "among the kernel's arguments do not count), and `at` the line that has most of them",
    }
)

_ARITHMETIC: Final = re.compile(r"v_(?!cvt_)\w*_f64(?:_|$)")
_LOADS: Final = frozenset(("global_load", "lds_read", "smem_load"))
_STORES: Final = frozenset(("global_store", "lds_write", "atomic"))


def doubles(subject: Subject, region: Tally) -> dict[str, Scalar]:
    """The value of the metric of `DOUBLE_SPECS`."""
    code = subject.function.instructions
    wide = [code[i] for i in region.indices if "f64" in code[i].op.name]
    kinds = {i.index: kind for i in wide if i.cls in VALU_CLASSES and (kind := _kind_of(i.op.name))}
    line, _ = line_of_most(code[index] for index in kinds)
    of_memory = _of_memory(subject.function) if kinds else frozenset[int]()
    counts = Counter(kinds.values())
    return {
        "instructions": len(kinds),
        **{kind: counts[kind] for kind in ("arithmetic", "widened", "narrowed")},
        "of_memory": len(kinds.keys() & of_memory),
        "at": line,
    }


def _kind_of(name: str) -> str | None:
    """The kind of an instruction; None for what is no float64 or converts other numbers."""
    if name.startswith("v_cvt_f64_f32"):
        return "widened"
    if name.startswith("v_cvt_f32_f64"):
        return "narrowed"
    return "arithmetic" if _ARITHMETIC.match(name) else None


@kept_for_recent
def _of_memory(function: Function) -> Set[int]:
    """Indices of float64 instructions that read a loaded number, or whose result is stored."""
    start = function.resources.wave_start
    arguments = start.kernarg_ptr if start is not None else None
    places = set[int]()
    for operation in graph_of(function).in_order:
        if operation.inst.cls in _STORES:
            made_of = {origin.inst.index: _kind_of(origin.name) for origin in operation.origins()}
            places |= {
                index for index, kind in made_of.items() if kind in ("arithmetic", "widened")
            }
        elif _kind_of(operation.name) in ("arithmetic", "narrowed") and any(
            _is_loaded(origin, arguments) for origin in operation.origins()
        ):
            places.add(operation.inst.index)
    return places


def _is_loaded(operation: Operation, arguments: int | None) -> bool:
    """Whether an operation loads 64 bits or more, but not of the kernel's arguments."""
    inst, base = operation.inst, operation.sources[:1]
    is_argument = base and base[0].kind == "sgpr" and base[0].first == arguments
    return (
        inst.cls in _LOADS
        and not (is_argument and operation.argument is None)
        and (access_bits(inst.op, inst.operands) or 0) >= 64
    )


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
