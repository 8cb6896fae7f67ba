"""Divisions, which have no instruction: exact ones of floats, and integer ones by a divisor that
the compiler does not know, of each loop and outside of hot ones.

IEEE division has no instruction: LLVM expands one of float32 into eleven (two `v_div_scale`, an
estimate by `v_rcp`, six multiply-adds, `v_div_fmas`, `v_div_fixup`; AMDGPULegalizerInfo,
`legalizeFDIV32`), of which `v_div_fixup` is the last. One of float16 takes as many: both values as
float32, an estimate by `v_rcp`, two corrections of it, the rounded result (`legalizeFDIV16`).
Triton emits such a division for `/`, `tl.fdiv` and `tl.sigmoid` on AMD's GPUs, and for a division
by a constant or by a scalar argument; a quotient of float16 values that is rounded to float16 is
one of float16, also where the source divides them as float32.

No GPU of AMD divides integers. LLVM expands a division or remainder of 32 bits into an estimate of
2**32 / divisor by `v_rcp`, the product's high half with the dividend, the remainder that this
leaves, and two corrections by comparison (AMDGPUCodeGenPrepare, `expandDivRem32`): 16 to 22 vector
instructions, of which the eight of the estimate are shared by divisions by one divisor. Where all
lanes share the dividend as well, the corrections are scalar, cost little and are not counted. One
of 64 bits has a branch to the sequence of 32 bits for operands that fit.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from typing import Final

from ..isa.dataflow.operands import Operand
from ..isa.dataflow.value_graph import (
    Operation,
    ValueGraph,
    graph_of,
    is_same,
    registers,
    rows_of,
    vector_indices,
)
from ..isa.graph.cfg import innermost_loops
from ..model import Function, Instruction, Loop, Metric, Scalar
from .elementary_functions import Expansion
from .entries import of_kernels, of_loops
from .mix import vector_instructions
from .subject import LineName, Subject, source_line

_EXACT, _INVARIANT, _AT = "division.exact", "division.by_invariant", "division.at"
_INSTRUCTIONS, _SAVED = "division.instructions", "division.by_invariant.instructions"
_DOUBLE, _ESTIMATES = "division.double.instructions", "division.estimates"
_OUTSIDE: Final = "division.outside"

SPECS: Final = (
    *of_loops(
        {
            _EXACT: "instructions | Vector divisions of one iteration that are exact to the last "
            "bit: v_div_fixup",
            _INSTRUCTIONS: "instructions | Vector instructions that those divisions take",
            _INVARIANT: "instructions | Those divisions whose divisor no instruction of the loop "
            "changes",
            _SAVED: "instructions | Vector instructions that the divisions by an unchanged "
            "divisor take beyond one multiplication each",
            _ESTIMATES: "The estimates by v_rcp that shorter forms of those divisions need as "
            "well, one for each different divisor: how many (`divisors`)",
            _DOUBLE: "instructions | Vector instructions that the exact divisions in float64 "
            "take, which have no shorter form",
            _AT: "| Source line of the first such division, by an unchanged divisor if there is "
            "one",
        }
    ),
    *of_kernels(
        {
            _OUTSIDE: "Such divisions outside of hot loops, without those of source lines that "
            "divide in a hot loop, too (`copies`): how many (`exact`), vector `instructions` that "
            "they take of the `valu` there (`double`: those in float64), `at` the line of the "
            "first; `shared`: of these, the ones whose divisor other elements of the lane are "
            "divided by as well (`divisors` of them), the vector instructions that one "
            "reciprocal for each divisor would save (`saved`), and `shared_at` which line",
        }
    ),
)

_UNITS: Final = {spec.name: spec.unit for spec in SPECS}
_LAST_STEP: Final = ("v_div_fixup",)
_LAST_STEP_OF_64_BITS: Final = "v_div_fixup_f64"
_STEPS: Final = (
    *("v_div_", "v_rcp_", "v_s_rcp_", "v_fma", "v_mad", "v_mac", "v_mul_f", "v_mul_legacy_f"),
    *("v_cvt_", "v_sub_f", "v_add_f32", "v_and_b32"),
)


def loop_metrics(
    subject: Subject, instructions_of: Mapping[str, Sequence[Instruction]]
) -> dict[str, dict[str, Metric]]:
    """Loop id -> its metrics by name."""
    return {
        loop.id: {
            name: Metric(name, value, _UNITS[name], "derived")
            for name, value in _of_loop(subject, loop, instructions_of[loop.id]).items()
        }
        for loop in subject.function.loops
    }


def _of_loop(
    subject: Subject, loop: Loop, instructions: Sequence[Instruction]
) -> Mapping[str, Scalar | Mapping[str, Scalar]]:
    """The values of one loop's metrics."""
    groups = _by_divisor(subject, [inst.index for inst in instructions])
    divisions = sorted((one for group in groups for one in group), key=_index)
    invariant = _by_unchanged(subject, loop, divisions) if divisions else []
    of_64_bits = [one for one in divisions if one.name == _LAST_STEP_OF_64_BITS]
    values: dict[str, Scalar | Mapping[str, Scalar]] = {
        _EXACT: len(divisions),
        _INSTRUCTIONS: len(_steps(divisions)),
        _INVARIANT: len(invariant),
        _SAVED: max(len(_steps(invariant)) - len(invariant), 0),
        _DOUBLE: len(_steps(of_64_bits)),
        _ESTIMATES: {"divisors": len(groups)},
    }
    return values | ({_AT: _line(subject, invariant or divisions)} if divisions else {})


def _by_unchanged(
    subject: Subject, loop: Loop, divisions: Sequence[Operation]
) -> Sequence[Operation]:
    """The divisions by what no instruction of a loop changes."""
    code = graph_of(subject.function).by_block
    changed = rows_of(
        result for block in loop.blocks for one in code[block] for result in one.results
    )
    return [one for one in divisions if changed.isdisjoint(registers(one.sources[1]))]


def kernel_metrics(subject: Subject, hot: Set[str]) -> Iterator[Metric]:
    """The metric of the divisions outside of hot loops."""
    function = subject.function
    if not function.instructions:
        yield Metric(_OUTSIDE, None, "mapping", "derived", "no code was read")
        return
    owner = innermost_loops(function)
    inside: list[Instruction] = []
    outside: list[Instruction] = []
    for block in function.blocks:
        loop = owner.get(block.index)
        part = inside if loop is not None and loop.id in hot else outside
        part += function.instructions[block.start : block.stop]
    # Copies are of iterations that the compiler has peeled off, or left over: they have one cure.
    told = {source_line(inst.loc) for inst in inside if inst.op.name.startswith(_LAST_STEP)}
    told -= {None}
    found = _by_divisor(subject, [inst.index for inst in outside])
    groups = [group for group in found if not {source_line(one.inst.loc) for one in group} <= told]
    shared = [group for group in groups if len(group) > 1]
    divisions = [one for group in groups for one in group]
    of_64_bits = [one for one in divisions if one.name == _LAST_STEP_OF_64_BITS]
    value: dict[str, Scalar] = {
        "exact": len(divisions),
        "copies": sum(map(len, found)) - len(divisions),
        "instructions": len(_steps(divisions)),
        "double": len(_steps(of_64_bits)),
        "valu": vector_instructions(outside),
        "at": _line(subject, divisions),
        "shared": sum(map(len, shared)),
        "divisors": len(shared),
        "saved": sum(map(_saved_by_reciprocal, shared)),
        "shared_at": _line(subject, [one for group in shared for one in group]),
    }
    yield Metric(_OUTSIDE, value, "mapping", "derived")


def _by_divisor(subject: Subject, region: Sequence[int]) -> list[list[Operation]]:
    """The divisions of a region, those of a block by one value together."""
    groups: dict[object, list[Operation]] = {}
    for number, block in enumerate(graph_of(subject.function).blocks(region, _LAST_STEP)):
        for operation in block:
            if operation.name.startswith(_LAST_STEP) and len(operation.sources) > 2:
                divisor = number, operation.makers[1], operation.sources[1].text
                groups.setdefault(divisor, []).append(operation)
    return list(groups.values())


def _saved_by_reciprocal(group: Sequence[Operation]) -> int:
    """Instructions that multiplications by one reciprocal take less than some divisions."""
    estimate = min(len(expansion(division)) for division in group)
    return max(len(_steps(group)) - estimate - len(group), 0)


def expansion(division: Operation) -> set[int]:
    """Indices of the instructions that one division consists of, by its `v_div_fixup`.

    Its way back ends at divisor and dividend, which the last step reads, too.
    """
    parts = division.made_of(_STEPS, {*division.makers[1:]})
    return {part.inst.index for part in parts}


def _steps(divisions: Sequence[Operation]) -> set[int]:
    return set[int]().union(*map(expansion, divisions))


def _index(operation: Operation) -> int:
    return operation.inst.index


def _line(subject: Subject, divisions: Sequence[Operation]) -> LineName | None:
    """The source line of the first of them, with the instructions of all."""
    results = [division.inst for division in sorted(divisions, key=_index)]
    code = subject.function.instructions
    steps = [code[index] for index in sorted(_steps(divisions))]
    before = [step for step in steps if step not in results]
    return LineName.of([*results, *steps], before)


_HIGH_PRODUCTS: Final = ("v_mul_hi_u32", "v_mad_u64_u32", "v_mad_co_u64_u32")
_AT_LEAST: Final = ("v_cmp_le_u32", "v_cmp_ge_u32")
_COMPARES: Final = (*_AT_LEAST, "v_cmpx_le_u32", "v_cmpx_ge_u32")
_SUBTRACT: Final = ("v_sub_u32", "v_subrev_u32")
_LOW_PRODUCT: Final = ("v_mul_lo_u32",)
_NEXT: Final = ("v_add_u32", *_SUBTRACT)
_SELECT: Final = ("v_cndmask_b32",)
_PRODUCTS: Final = ("v_add_u32", "v_mul_hi_u32", "v_mul_lo_u32")
_RECIPROCAL: Final = ("v_rcp_f32", "v_rcp_iflag_f32")
_ESTIMATE: Final = ("v_cvt_u32_f32", "v_mul_f32", "v_cvt_f32_u32", *_RECIPROCAL, *_PRODUCTS)
"""What makes the estimate, and one more step of Newton's method."""
_BORROW: Final = ("v_subb_u32", "v_subbrev_u32", "v_sub_ci_u32", "v_subrev_ci_u32")
_BORROWS: Final = 2
_COMPARISONS: Final = 4
_OF_64_BITS: Final = 0x5F7FFFFC
"""2**64 less 2**42 as a float32, by which the estimate of one of 64 bits is scaled."""
_BY_PRODUCT: Final = 4
"""Instructions of a remainder by a known reciprocal: two products, a shift and a subtraction."""


def integer_divisions(graph: ValueGraph, region: Sequence[int]) -> Iterator[Expansion]:
    """The vector divisions and remainders of a region; `wide` are those of 64 bits.

    The instructions of one of 64 bits are those at its position; where the code has none all of the
    block's, or of several divisions the one that is certain.
    """
    for block in graph.blocks(region, _HIGH_PRODUCTS, _COMPARES):
        for operation in block:
            if operation.name.startswith(_AT_LEAST) and (parts := _division(operation)):
                yield Expansion("count", operation.inst, vector_indices(parts), _BY_PRODUCT)
        estimates = [one for one in block if one.is_vector and one.reads_number(_OF_64_BITS)]
        for wide in estimates or _with_shared_divisor(graph.function, block):
            loc = wide.inst.loc
            there = vector_indices(one for one in block if one.inst.loc == loc)
            is_known = loc is not None or not estimates
            yield Expansion("wide", wide.inst, there if is_known else {wide.inst.index}, 0)


def _with_shared_divisor(function: Function, block: Sequence[Operation]) -> Sequence[Operation]:
    """An operation of a division of 64 bits whose estimate was made in another block.

    Where all lanes share the divisor LLVM makes 2**64 / divisor once, in front of the loop, by
    scalar instructions. What is left takes the remainder of 64 bits by two subtractions with a
    borrow and compares it with the divisor, half by half, two times over.
    """
    borrows = [operation for operation in block if operation.name.startswith(_BORROW)]
    comparisons = sum(operation.name.startswith(_AT_LEAST) for operation in block)
    if len(borrows) < _BORROWS or comparisons < _COMPARISONS:
        return ()
    estimate = f"{_OF_64_BITS:#x}"
    has_product = any(operation.name == "v_mul_hi_u32" for operation in block)
    has_estimate = any(estimate in inst.operands for inst in function.instructions)
    return borrows[:1] if has_product and has_estimate else ()


def _division(comparison: Operation) -> set[Operation]:
    """The operations of the division whose first correction is this comparison, else none."""
    if len(comparison.sources) != 2:
        return set()
    left_number = int("_le_" in comparison.name)
    left, divisor_maker = comparison.makers[left_number], comparison.makers[1 - left_number]
    divisor = comparison.sources[1 - left_number]
    product = (
        left.maker(_LOW_PRODUCT) if left is not None and left.name.startswith(_SUBTRACT) else None
    )
    if left is None or product is None:
        return set()
    quotient = next((m for m in product.makers if m is not None and _is_high_product(m)), None)
    if quotient is None or not any(
        is_same(source, divisor) and maker is divisor_maker
        for source, maker in zip(product.sources, product.makers, strict=True)
    ):
        return set()
    found = {quotient, product, left, comparison}
    _add_corrections(found, divisor)
    _add_signs(found, quotient, left)
    for estimate in quotient.makers:
        # The dividend's makers are no part of it: they lead to no reciprocal.
        if estimate is not None and estimate.name.startswith(_ESTIMATE):
            chain = estimate.made_of(_ESTIMATE)
            found |= chain if any(part.name.startswith(_RECIPROCAL) for part in chain) else set()
    return found


def _is_high_product(operation: Operation) -> bool:
    """Whether it makes the high half of a product; a whole one to which nothing is added does."""
    is_whole = operation.name == "v_mad_u64_u32" and operation.sources[-1].integer == 0
    return is_whole or operation.name == "v_mul_hi_u32"


def _add_corrections(found: set[Operation], divisor: Operand) -> None:
    """Adds what selects between the quotient and the next one, the remainder and what is left."""
    pending = [*found]
    while pending:
        for user in pending.pop().users:
            if user not in found and _corrects(user, found, divisor):
                found.add(user)
                pending = [*found]


def _corrects(user: Operation, found: Set[Operation], divisor: Operand) -> bool:
    """Whether a user of a part of the division is another part."""
    if user.name.startswith(_SELECT):
        return user.mask in found
    if user.name.startswith(_AT_LEAST):
        return user.reads(divisor)
    is_next = user.reads(divisor) if user.name.startswith(_SUBTRACT) else user.reads_number(1, -1)
    return (
        is_next
        and user.name.startswith(_NEXT)
        and any(s.mask and s.mask.name.startswith(_AT_LEAST) for s in user.users_named(_SELECT))
    )


def _add_signs(found: set[Operation], quotient: Operation, left: Operation) -> None:
    """Adds the dividend's absolute value and the result's sign."""
    for dividend in left.makers:
        if dividend is not None and dividend in quotient.makers and dividend.name == "v_max_i32":
            found.add(dividend)
            negated = dividend.maker(_SUBTRACT)
            if negated is not None and negated.reads_number(0):
                found.add(negated)
    for select in [part for part in found if part.name.startswith(_SELECT)]:
        for sign in select.users_named(("v_xor_b32",)):
            for last in sign.users_named(_SUBTRACT):
                if any(last.reads(source) for source in sign.sources):
                    found |= {sign, last}
