"""Integer divisions and remainders by a divisor that the compiler does not know.

No GPU of AMD divides integers. LLVM expands a division or remainder of 32 bits into an estimate of
2**32 / divisor by `v_rcp`, the product's high half with the dividend, the remainder that this
leaves, and two corrections by comparison (AMDGPUCodeGenPrepare, `expandDivRem32`): 16 to 22 vector
instructions, of which the eight of the estimate are shared by divisions by one divisor. Where all
lanes share the dividend as well, the corrections are scalar, cost little and are not counted. One
of 64 bits has a branch to the sequence of 32 bits for operands that fit.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from typing import Final

from ..isa.dataflow.operands import Operand
from ..isa.dataflow.value_graph import Operation, ValueGraph, is_same, vector_indices
from ..model import Function
from .elementary_functions import Expansion

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
