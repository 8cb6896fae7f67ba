"""Exponentials, logarithms and powers of float32 beyond the instruction that does the work.

`v_exp` and `v_log` are to the base of 2, exact to about a last bit, and flush denormal numbers.
LLVM writes around them (AMDGPULegalizerInfo, `legalizeFExp`, `legalizeFlogCommon` and others):

    expf    the product with log2(e) in two parts, split into a whole and a fraction, `v_ldexp` by
            the whole, and selections for overflow and underflow: 12 instructions
    exp2f   a comparison, two selections, a sum and `v_ldexp`, for denormal results: 5
    logf    the same for denormal arguments, and the product with ln(2) in two parts: 11

OCML's powf takes about 150: x is split by `v_frexp`, log(x) computed in two floats, and their
product with y goes to an exponential; then the special cases are selected. Counted is what lies
between the split and the result, about 120, so at least so many.

Exponentials that Triton computes with care for denormal results.

`tl.exp(x)` is lowered to `llvm.exp2(x * log2(e))`, which the AMDGPU backend expands in float32: the
product, a comparison with -126, two selections, a sum and a scaling stand around the `v_exp` that
does the work, which flushes denormals (AMDGPULegalizerInfo, `legalizeFExp2`). `tl.exp2` is lowered
to the instruction alone (`llvm.amdgcn.exp2`; third_party/amd, ElementwiseOpToLLVM).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence, Set
from typing import Final

from msgspec import Struct

from ..isa.dataflow.value_graph import Operation, ValueGraph, graph_of, vector_indices
from ..model import Instruction, Scalar, TtgirOp
from .entries import NO_TTGIR, Unknown, of_both
from .loop_shape import position_of
from .subject import Place, Subject, Tally, op_line

_EXP_LOG: Final = ("v_exp_f32", "v_log_f32")
_SQUARE_ROOT: Final = ("v_sqrt_f32", "v_s_sqrt_f32")
_LDEXP: Final = ("v_ldexp_f32",)
_SCALE: Final = ("v_ldexp_f32", "v_mul_f32")
_SELECT: Final = ("v_cndmask_b32",)
_COMPARE: Final = tuple(f"v_cmp_{n}{r}_f32" for n in ("", "n") for r in ("lt", "gt", "le", "ge"))
_CLASS: Final = ("v_cmp_class_f32",)
_TO_INTEGER: Final = ("v_cvt_i32_f32", "v_cvt_i32_f64")
_WHOLE: Final = ("v_rndne_f32", "v_rndne_f64")
_PRODUCT: Final = ("v_mul_f32",)
_SUM: Final = ("v_add_f32", "v_sub_f32", "v_subrev_f32")
_FUSED: Final = ("v_fma_f32", "v_mad_f32", "v_mac_f32", "v_madmk_f32")
_NEIGHBOUR: Final = ("v_add_u32",)
_STEPS: Final = (
    *(*_EXP_LOG, *_SQUARE_ROOT, *_SCALE, *_SELECT, *_COMPARE, *_CLASS, *_SUM, *_FUSED),
    *(*_NEIGHBOUR, "v_rndne_f32", "v_cvt_i32_f32"),
)
"""What all but powers are made of."""
_SPLIT: Final = ("v_frexp_mant_f32", "v_frexp_mant_f64")
_MANTISSA: Final = (*_SPLIT, "v_frexp_exp_i32_f")
_SPECIAL_CASES: Final = (*_SELECT, "v_bfi_b32", "v_fma_f32", "v_fma_f64", "v_cmp_class_f")
_POLYNOMIAL: Final = 4
"""Multiply-adds in a row that make a polynomial, as library functions have."""
_SHORT_SQUARE_ROOT: Final = 5
"""Vector instructions beside the `v_sqrt` of an estimate that scales denormal arguments."""
_SHORT_POWER: Final = 12
"""Vector instructions of exp2(y * log2(x)), with care for denormal numbers."""
_SHORT_POWER_OF_64_BITS: Final = 90
"""The same in float64, where both are sequences of OCML."""


class Expansion(Struct, frozen=True):
    """An operation for which the compiler wrote several instructions.

    Args:
        kind: the figure that counts it.
        steps: indices of its instructions.
        short: instructions that the shorter form takes.
    """

    kind: str
    result: Instruction
    steps: Set[int]
    short: int


def exponentials_and_logarithms(graph: ValueGraph, region: Sequence[int]) -> Iterator[Expansion]:
    """Those of a region that are more than a product and an instruction.

    Those of powers are left to `powers`; erff's has no shorter form.
    """
    from_mantissas: set[Operation | None] = set()
    for operation in graph.operations(region, _EXP_LOG):
        if operation.name.startswith(_MANTISSA) or not from_mantissas.isdisjoint(operation.makers):
            from_mantissas.add(operation)
        natural: set[Operation] = set()
        beside = natural
        if operation.name == "v_exp_f32" and operation not in from_mantissas:
            natural = _around_natural_exponential(operation)
            beside = natural or _around_power_of_two(operation)
        elif operation.name == "v_log_f32":
            natural = beside = _around_logarithm(operation)
        if beside:
            kind = "exponentials" if operation.name == "v_exp_f32" else "logarithms"
            yield Expansion(kind, operation.inst, vector_indices(beside), int(bool(natural)))


def powers(graph: ValueGraph, region: Sequence[int]) -> Iterator[Expansion]:
    """The powers of a region; `double` are those of float64.

    An exponential of what was computed from a power is none if it has no mantissa of its own. (Two
    powers side by side can share theirs, where packed instructions compute both.)
    """
    ends: set[Operation] = set()
    split: set[Operation] = set()
    for operation in graph.operations(region, _SPLIT):
        of_64_bits = operation.name == "v_ldexp_f64" and _is_by_whole(operation)
        if not of_64_bits and operation.name != "v_exp_f32":
            continue
        made_of = operation.made_of()
        mantissas = {part for part in made_of if part.name.startswith(_MANTISSA)}
        if not mantissas or (mantissas <= split and not ends.isdisjoint(made_of)):
            continue
        result = operation if of_64_bits else (_scaled_by_whole(operation) or operation)
        parts = (mantissas - split) or mantissas
        for part in sorted(result.made_of(), key=lambda part: part.inst.index):
            if not parts.isdisjoint(part.makers):
                parts.add(part)
        special = result.used_by(_SPECIAL_CASES)
        masks = {select.mask for select in special if select.name.startswith(_SELECT)}
        ends.add(operation)
        split |= mantissas
        kind, short = ("double", _SHORT_POWER_OF_64_BITS) if of_64_bits else ("count", _SHORT_POWER)
        yield Expansion(kind, operation.inst, vector_indices({*parts, *special, *masks}), short)


def square_roots(graph: ValueGraph, region: Sequence[int]) -> Iterator[Expansion]:
    """The square roots of float32 in a region that are exact to the last bit.

    LLVM compares the argument with the squares of the estimate's neighbours (`v_sqrt`, then one
    float less and one more; AMDGPULegalizerInfo, `legalizeFSQRTF32`), and scales denormal
    arguments, which an estimate that may flush them does not need.
    """
    for operation in graph.operations(region, _SQUARE_ROOT):
        if operation.name.startswith(_SQUARE_ROOT) and (parts := _around_square_root(operation)):
            yield Expansion("count", operation.inst, vector_indices(parts), _SHORT_SQUARE_ROOT)


def _around_natural_exponential(exponential: Operation) -> set[Operation]:
    """What stands around the `v_exp` of an expf: a fraction goes in, the whole part is put back."""
    result = _scaled_by_whole(exponential)
    whole = result.maker(_TO_INTEGER, _WHOLE) if result is not None else None
    product = whole.argument if whole is not None else None
    if result is None or product is None or not product.name.startswith(_PRODUCT):
        return set()
    argument = set(product.makers)
    if any(_is_polynomial(maker) or _is_in_two_floats(maker) for maker in argument):
        return set()
    for _ in ("underflow", "overflow"):  # 0 and infinity in place of the result
        result = next(filter(_is_by_range, result.users_named(_SELECT)), result)
    return result.made_of(_STEPS, argument) - {exponential}


def _is_by_range(select: Operation) -> bool:
    """Whether a selection is between a result and a constant, by a comparison."""
    makers = [maker for maker in select.makers[:2] if maker and not maker.name.startswith("v_mov_")]
    is_comparison = select.mask is not None and select.mask.name.startswith(_COMPARE)
    return is_comparison and len(makers) == 1


def _scaled_by_whole(exponential: Operation) -> Operation | None:
    """The `v_ldexp` of an exponential's result by a whole number."""
    scalings = exponential.users_named(_LDEXP)
    return next((s for s in scalings if (by := s.mask) and by.name.startswith(_TO_INTEGER)), None)


def _is_by_whole(scaled: Operation) -> bool:
    """Whether a `v_ldexp` is by a rounded number: the end of an exponential."""
    by = scaled.mask
    return by is not None and by.name.startswith(_TO_INTEGER) and by.maker(_WHOLE) is not None


def _is_polynomial(value: Operation | None) -> bool:
    """Whether a value is a polynomial, as the argument of erff's exponential is."""
    degree = 0
    while value is not None and value.name.startswith(_FUSED):
        degree += 1
        value = value.maker(_FUSED)
    return degree >= _POLYNOMIAL


def _is_in_two_floats(value: Operation | None) -> bool:
    """Whether a value comes of a product and its remainder, whose sum's remainder is computed
    too.
    """
    for total in value.made_of() if value is not None else ():
        for product in total.makers if total.name.startswith(_SUM) else ():
            remainder = next((other for other in total.makers if other is not product), None)
            if product is None or remainder is None or not product.name.startswith(_PRODUCT):
                continue
            if any(product in part.makers for part in remainder.made_of(_FUSED)) and any(
                product in part.makers for part in total.users_named(_SUM)
            ):
                return True
    return False


def _around_power_of_two(exponential: Operation) -> set[Operation]:
    """What stands around the `v_exp` of an exp2f for denormal results."""
    shifted = exponential.argument
    if shifted is None or not shifted.name.startswith((*_SUM, *_FUSED)):
        return set()
    shift = shifted.maker(_SELECT)
    for scaled in exponential.users_named(_SCALE) if shift is not None else ():
        factor = scaled.maker(_SELECT)
        if shift and factor and factor.mask and factor.mask is shift.mask:
            added = {shifted} if shifted.name.startswith(_SUM) else set()
            return {shift, factor.mask, factor, scaled} | added
    return set()


def _around_logarithm(logarithm: Operation) -> set[Operation]:
    """What stands around the `v_log` of a logf: its product with ln(2) in two parts."""
    for product in logarithm.users_named(_PRODUCT):
        result = next((u for u in product.users_named(_FUSED) if logarithm in u.makers), None)
        if result is None:
            continue
        result = next(result.users_named(_FUSED), result)
        for names, other in ((_SUM, product), (_SELECT, logarithm)):
            result = next((u for u in result.users_named(names) if other in u.makers), result)
        scaled = logarithm.argument
        factor = scaled.maker(_SELECT) if scaled and scaled.name.startswith(_SCALE) else None
        if scaled is None or factor is None:
            return result.made_of(_STEPS, {scaled}) - {logarithm}
        for difference in result.users_named(_SUM):
            if any(offset and offset.mask is factor.mask for offset in difference.makers):
                result = difference
        return result.made_of(_STEPS, {*scaled.makers} - {factor}) - {logarithm}
    return set()


def _around_square_root(root: Operation) -> set[Operation]:
    """What stands around the `v_sqrt` of an exact square root; none where it is an estimate."""
    neighbours = [user for user in root.users_named(_NEIGHBOUR) if user.reads_number(-1, 1)]
    ends = [
        one
        for one in root.used_by(_STEPS)
        if one.name.startswith(_SELECT) and one.mask and one.mask.name.startswith(_CLASS)
    ]
    if len(neighbours) < len(("less", "more")) or not ends:
        return set()
    argument = root.argument
    scaled = argument.maker(_SCALE) if argument and argument.name.startswith(_SELECT) else None
    result = min(ends, key=lambda one: one.inst.index)
    return result.made_of(_STEPS, {*(scaled or root).makers}) - {root}


SPECS = of_both(
    {
        "exponentials": "v_exp instructions at the positions of the source's tl.exp (`count`), "
        "vector `instructions` there beside them, of which the `products` with log2(e) stay where "
        "denormal numbers are flushed, and `at` which line most of them are",
    }
)

_OPERATION: Final = "math.exp"
_INSTRUCTIONS: Final = ("v_exp_f32", "v_s_exp_f32", "v_exp_f16", "v_s_exp_f16")


def exponentials(subject: Subject, region: Tally) -> dict[str, Scalar] | Unknown:
    """The value of the metric of `SPECS`."""
    if subject.ttgir is None:
        return NO_TTGIR
    of_source: dict[Place, TtgirOp] = {}
    for op in subject.ttgir.ops:
        if op.name == _OPERATION and op.loc is not None:
            of_source.setdefault(position_of(op.loc), op)
    count = 0
    beside: dict[int, Place] = {}
    products: set[int] = set()
    seen: set[Operation] = set()
    graph = graph_of(subject.function)
    for operation in graph.operations(region.indices, _INSTRUCTIONS) if of_source else ():
        loc = operation.inst.loc
        if operation.name in _INSTRUCTIONS and loc and (place := position_of(loc)) in of_source:
            count += 1
            parts = _beside(operation, seen)
            beside |= dict.fromkeys((part.inst.index for part in parts), place)
            products |= {part.inst.index for part in parts if _is_product(part)}
    places = Counter(beside[index] for index in sorted(beside))
    most = max(places, key=lambda place: places[place], default=None)
    return {
        "count": count,
        "instructions": places.total(),
        "products": len(products),
        "at": op_line(of_source[most]) if most is not None else None,
    }


def _beside(exponential: Operation, seen: set[Operation]) -> list[Operation]:
    """What an exponential at its own position is made of, and the scaling of its result."""
    loc = exponential.inst.loc
    parts: list[Operation] = []
    pending: list[Operation | None] = [exponential, *filter(_is_scaling, exponential.users)]
    while pending:
        part = pending.pop()
        if part is not None and part not in seen and part.is_vector and part.inst.loc == loc:
            seen.add(part)
            pending += part.makers
            if part.name not in _INSTRUCTIONS:
                parts.append(part)
    return parts


def _is_product(operation: Operation) -> bool:
    return operation.name in ("v_mul_f32", "v_pk_mul_f32") and not _is_scaling(operation)


def _is_scaling(operation: Operation) -> bool:
    """Whether an operation on an exponential scales it by a selected power of two."""
    return operation.name.startswith("v_ldexp") or (
        operation.name == "v_mul_f32" and operation.maker(("v_cndmask_b32",)) is not None
    )
