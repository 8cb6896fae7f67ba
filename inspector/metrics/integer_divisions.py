"""Integer divisions and remainders by a divisor that the compiler does not know.

No GPU of AMD divides integers. LLVM expands a division or remainder of 32 bits into an estimate of
2**32 / divisor by `v_rcp`, the product's high half with the dividend, the remainder that this
leaves, and two corrections by comparison (AMDGPUCodeGenPrepare, `expandDivRem32`): 16 to 22 vector
instructions, of which the eight of the estimate are shared by divisions by one divisor. Where all
lanes share the dividend as well, the corrections are scalar, cost little and are not counted. One
of 64 bits has a branch to the sequence of 32 bits for operands that fit.

A division by a constant is a product with a constant, one by a power of two a shift.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from ..model import Function, Instruction
from .block_values import Expansions, Operation, block_operations, block_ranges
from .mix import VALU_CLASSES

_AT_LEAST: Final = re.compile(r"v_cmpx?_(le|ge)_u32$")
_SUBTRACT: Final = re.compile(r"v_sub(rev)?(_nc)?(_co)?_u32$")
_LOW_PRODUCT: Final = re.compile(r"v_mul_lo_u32$")
_HIGH_PRODUCT: Final = re.compile(r"v_mul_hi_u32$")
_WHOLE_PRODUCT: Final = re.compile(r"v_mad(_co)?_u64_u32$")
_ADD: Final = re.compile(r"v_add(_nc)?(_co)?_u32$")
_SELECT: Final = re.compile(r"v_cndmask_b32$")
_SIGN: Final = re.compile(r"v_xor_b32$")
_GREATER: Final = re.compile(r"v_max_i32$")
_ESTIMATE: Final = re.compile(
    r"v_(add(_nc)?(_co)?_u32|mul_(hi|lo)_u32|cvt_u32_f32|mul_f32|rcp(_iflag)?_f32|cvt_f32_u32)$"
)
_BORROW: Final = re.compile(r"v_(subb|subbrev|sub_co_ci|subrev_co_ci)(_co)?_u32$")
_BORROWS: Final = 2
_COMPARISONS: Final = 4
_OF_64_BITS: Final = "0x5f7ffffc"
_BY_PRODUCT: Final = 4
"""Instructions of a remainder by a known reciprocal: two products, a shift and a subtraction."""
_WIDE_PRODUCTS: Final = ("v_mul_hi_u32", "v_mad_u64_u32", "v_mad_co_u64_u32")


def integer_divisions(function: Function, indices: Sequence[int]) -> Expansions:
    """The vector divisions and remainders of a region."""
    steps: set[int] = set()
    long_steps: set[int] = set()
    results: list[Instruction] = []
    wide = 0
    has_wide = any(_OF_64_BITS in inst.operands for inst in function.instructions)
    for code in block_ranges(function, indices):
        if not any(inst.op.name.startswith(_WIDE_PRODUCTS) for inst in code):
            continue
        start = code[0].index
        for operation in block_operations(function, code):
            of_division = _division(operation)
            if of_division:
                steps |= of_division
                results.append(code[operation.index - start])
        known = wide
        for inst in code:
            if _OF_64_BITS in inst.operands and inst.cls in VALU_CLASSES:
                wide += 1
                long_steps |= _wide_division(inst, code)
        if wide == known and has_wide:
            by_shared = _by_shared_divisor(code)
            wide += bool(by_shared)
            long_steps |= by_shared
    products = _BY_PRODUCT * len(results)
    saved = max(len(steps | long_steps) - products, 0)
    # Operands that fit 32 bits take the short form, where each division has one.
    least = max(len(steps) - products, 0) if len(results) >= wide else saved
    counts = {"count": len(results), "least": least}
    return Expansions(results, steps | long_steps, saved, counts)


def _by_shared_divisor(code: Sequence[Instruction]) -> set[int]:
    """The vector instructions of a division of 64 bits whose estimate was made in another block.

    Where all lanes share the divisor LLVM makes 2**64 / divisor once, in front of the loop, by
    scalar instructions. What is left takes the remainder of 64 bits by two subtractions with a
    borrow and compares it with the divisor, half by half, two times over.
    """
    steps = [inst for inst in code if inst.cls in VALU_CLASSES]
    borrows = [inst for inst in steps if _BORROW.match(inst.op.name)]
    comparisons = sum(bool(_AT_LEAST.match(inst.op.name)) for inst in steps)
    if len(borrows) < _BORROWS or comparisons < _COMPARISONS:
        return set()
    if not any(_HIGH_PRODUCT.match(inst.op.name) for inst in steps):
        return set()
    return {inst.index for inst in steps if inst.loc == borrows[0].loc}


def _wide_division(estimate: Instruction, code: Sequence[Instruction]) -> set[int]:
    """The vector instructions of a division of 64 bits, as far as its position tells them."""
    same_position = {
        inst.index
        for inst in code
        if inst.cls in VALU_CLASSES and inst.loc is not None and inst.loc == estimate.loc
    }
    return same_position or {estimate.index}


def _division(comparison: Operation) -> set[int]:
    """The instructions of the division whose first correction is this comparison, else none.

    It compares the divisor with dividend - quotient * divisor, and the quotient is a high half.
    """
    if not (match := _AT_LEAST.match(comparison.name)) or len(comparison.sources) != 2:
        return set()
    left_number, divisor_number = (1, 0) if match[1] == "le" else (0, 1)
    left = comparison.makers[left_number]
    if left is None or not _SUBTRACT.match(left.name):
        return set()
    product = left.maker(_LOW_PRODUCT)
    if product is None:
        return set()
    quotient = next((maker for maker in product.makers if _is_high_product(maker)), None)
    if quotient is None:
        return set()
    if all(
        not comparison.same_source(divisor_number, product, number)
        for number in range(len(product.sources))
    ):
        return set()
    found = {id(operation): operation for operation in (quotient, product, left, comparison)}
    divisor = comparison.sources[divisor_number]
    _corrections(found, divisor)
    _signs(found, quotient, left)
    for estimate in quotient.makers:
        _add_estimate(found, estimate)
    return {operation.index for operation in found.values()}


def _is_high_product(operation: Operation | None) -> bool:
    """Whether it makes the high half of a product; a whole one to which nothing is added does."""
    if operation is None:
        return False
    whole = _WHOLE_PRODUCT.match(operation.name) and operation.sources[-1] == "0"
    return bool(whole or _HIGH_PRODUCT.match(operation.name))


def _corrections(found: dict[int, Operation], divisor: str) -> None:
    """Adds what selects between the quotient and the next one, the remainder and what is left."""
    added = True
    while added:
        added = False
        for operation in tuple(found.values()):
            for user in operation.users:
                if id(user) not in found and _corrects(user, found, divisor):
                    found[id(user)] = user
                    added = True


def _corrects(user: Operation, found: dict[int, Operation], divisor: str) -> bool:
    """Whether a user of a part of the division is another part."""
    if _SELECT.match(user.name):
        *_, condition = user.makers
        return condition is not None and id(condition) in found
    if _AT_LEAST.match(user.name):
        return divisor in user.sources
    if _SUBTRACT.match(user.name):
        return divisor in user.sources and _is_selected(user, found)
    return bool(_ADD.match(user.name)) and "1" in user.sources and _is_selected(user, found)


def _is_selected(operation: Operation, found: dict[int, Operation]) -> bool:
    """Whether a selection by one of the division's comparisons uses the result."""
    return any(
        select.makers[-1] is not None
        and (id(select.makers[-1]) in found or _AT_LEAST.match(select.makers[-1].name))
        for select in operation.users_named(_SELECT)
    )


def _signs(found: dict[int, Operation], quotient: Operation, left: Operation) -> None:
    """Adds the dividend's absolute value and the result's sign."""
    for dividend in left.makers:
        if dividend is not None and dividend in quotient.makers and _GREATER.match(dividend.name):
            found[id(dividend)] = dividend
            negated = dividend.maker(_SUBTRACT)
            if negated is not None and "0" in negated.sources:
                found[id(negated)] = negated
    for operation in tuple(found.values()):
        if not _SELECT.match(operation.name):
            continue
        for sign in operation.users_named(_SIGN):
            for last in sign.users_named(_SUBTRACT):
                if set(sign.sources) & set(last.sources):
                    found |= {id(sign): sign, id(last): last}


def _add_estimate(found: dict[int, Operation], operation: Operation | None) -> None:
    """Adds the estimate of 2**32 / divisor where this block makes it.

    The dividend's makers are no part of it: they lead to no conversion from floating point.
    """
    chain: dict[int, Operation] = {}
    pending = [operation]
    while pending:
        operation = pending.pop()
        if operation is None or id(operation) in chain or not _ESTIMATE.match(operation.name):
            continue
        chain[id(operation)] = operation
        pending += operation.makers
    if any(part.name.startswith("v_rcp") for part in chain.values()):
        found |= chain
