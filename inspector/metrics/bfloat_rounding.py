"""Roundings of float32 to bfloat16 that vector instructions compute.

LLVM makes five instructions of a rounding: the lowest bit that stays (`v_bfe_u32 x, 16, 1` or an
AND of the upper word), its sum with the number and 0x7fff (`v_add3_u32`), and a comparison, a bit
and a selection that keep NaN. `bfloat16.conversions` counts them in the code, of each loop.

`bfloat16.rounded` is those that float32 throughout would save, by the TTGIR or, where it has none,
by what the code neither stores nor multiplies on the matrix unit, of one region: the hot loop where
they take the largest share or, without hot loops, the whole kernel. On gfx950 a
conversion takes two, `v_cvt_pk_bf16_f32` and the shift that widens the result, but sums and
products of bfloat16 are written out there as well. Tried in 45 kernels of gfx942, gfx90a and
gfx1100: float32 throughout saved 5 to 8 vector instructions for each element.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from typing import TYPE_CHECKING, Final

from ..isa.dataflow.value_graph import Operation, graph_of
from ..isa.mnemonics import access_bits
from ..model import Instruction, Metric, Scalar, TtgirOp
from .entries import of_both, of_kernels
from .loop_shape import position_of
from .mix import vector_instructions
from .named_positions import positions_of
from .subject import (
    MATRIX_CLASSES,
    LineName,
    Subject,
    Tally,
    line_of_most,
    op_line,
    own_instructions,
)

if TYPE_CHECKING:
    from ..ttgir.roundings import Rounding

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
        from ..ttgir.roundings import roundings  # only kernels with a TTGIR need it

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
    at = op_line(most.op) if most is not None else None
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
